//! Where a JSON value ends, found while its bytes come.

use memchr::memchr3;

/// A scan over the object or array that begins with the first byte given to it.
///
/// It counts brackets and skips strings and comments; it does not check what stands between them, so that text
/// which only a tolerant reader takes ends where that reader ends it. JSON has neither comments nor strings in single
/// quotes, so they change nothing for a strict reader.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ValueScan {
    depth: usize,
    within: Within,
}

/// What the next byte is part of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Within {
    /// Brackets, commas, numbers and the like.
    #[default]
    Structure,
    /// A string that this quote ends.
    Text { quote: u8 },
    /// The byte behind a backslash in a string.
    Escape { quote: u8 },
    /// What a slash was seen of.
    Slash,
    /// A comment up to the end of the line.
    LineComment,
    /// A comment up to `*/`.
    Comment,
    /// The same, behind a `*`.
    Star,
}

/// How far a scan came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The value goes on behind these bytes.
    More,
    /// The value ends with the byte before this position.
    Closed(usize),
    /// At this position the line ends, and the value does not.
    LineFeed(usize),
}

impl ValueScan {
    /// Takes the next bytes, up to where the value or the line ends.
    pub(super) fn advance(&mut self, bytes: &[u8]) -> Step {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if byte == b'\n' {
                self.within = match self.within {
                    Within::LineComment => Within::Structure,
                    // A backslash joins the next line to a string (JSON5).
                    Within::Escape { quote } => Within::Text { quote },
                    within => within,
                };
                return Step::LineFeed(at);
            }
            self.within = match self.within {
                Within::Structure => match byte {
                    b'"' | b'\'' => Within::Text { quote: byte },
                    b'{' | b'[' => {
                        self.depth += 1;
                        Within::Structure
                    }
                    b'}' | b']' => {
                        self.depth = self.depth.saturating_sub(1);
                        if self.depth == 0 {
                            return Step::Closed(at + 1);
                        }
                        Within::Structure
                    }
                    b'/' => Within::Slash,
                    _ => Within::Structure,
                },
                Within::Text { quote } => {
                    let rest = bytes.get(at..).unwrap_or_default();
                    let Some(length) = memchr3(quote, b'\\', b'\n', rest) else { return Step::More };
                    at += length;
                    match rest.get(length) {
                        Some(b'\\') => Within::Escape { quote },
                        Some(b'\n') => return Step::LineFeed(at),
                        _ => Within::Structure,
                    }
                }
                Within::Escape { quote } => Within::Text { quote },
                Within::Slash => match byte {
                    b'/' => Within::LineComment,
                    b'*' => Within::Comment,
                    // No comment: what the byte is, it is without the slash.
                    _ => {
                        self.within = Within::Structure;
                        continue;
                    }
                },
                Within::LineComment => Within::LineComment,
                Within::Comment | Within::Star if byte == b'*' => Within::Star,
                Within::Star if byte == b'/' => Within::Structure,
                Within::Comment | Within::Star => Within::Comment,
            };
            at += 1;
        }
        Step::More
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_end_with_their_last_bracket() {
        let cases = [
            ("{}", Step::Closed(2)),
            ("{} ", Step::Closed(2)),
            ("[1,{\"a\":[2]}]{}", Step::Closed(13)),
            ("{\"}\":\"\\\"}\"}", Step::Closed(11)),
            ("{\"\\\\\":1}x", Step::Closed(8)),
            ("{'}':1}", Step::Closed(7)),
            ("{/*}*/}", Step::Closed(7)),
            ("{/**/}", Step::Closed(6)),
            ("{/***}/}*/}", Step::Closed(11)),
            ("{1/}", Step::Closed(4)),
            ("{//}\n", Step::LineFeed(4)),
            ("{\"a\n\":1}", Step::LineFeed(3)),
            ("{\"a\\\n\":1}", Step::LineFeed(4)),
            ("{\"a\":", Step::More),
            ("{\"a", Step::More),
        ];
        for (text, expected) in cases {
            assert_eq!(ValueScan::default().advance(text.as_bytes()), expected, "{text}");
            // Byte by byte, the position is that in the piece.
            let mut scan = ValueScan::default();
            let step = text
                .bytes()
                .enumerate()
                .map(|(at, byte)| match scan.advance(&[byte]) {
                    Step::Closed(1) => Step::Closed(at + 1),
                    Step::LineFeed(0) => Step::LineFeed(at),
                    step => step,
                })
                .find(|step| *step != Step::More);
            assert_eq!(step.unwrap_or(Step::More), expected, "{text}, byte by byte");
        }
    }
}
