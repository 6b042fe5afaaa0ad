//! What readers skip around a value, and what ends a line for some of them.

use super::scan::position;
use crate::message::BLANKS;

/// What a byte does to a blank that is being recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blank {
    /// A blank ends with this byte.
    Whole,
    /// The bytes so far may become a blank.
    Partial,
    /// They are something else.
    Other,
}

/// Whether these bytes are a control character or one of [`BLANKS`].
pub(super) fn blank(bytes: &[u8]) -> Blank {
    // What most lines begin with is none, and is told at once.
    match bytes {
        [b'\t' | b'\n' | b'\r', ..] => return Blank::Other,
        [0..=0x1f] => return Blank::Whole,
        [0x80..=0xff, ..] => {}
        _ => return Blank::Other,
    }
    let mut blank = Blank::Other;
    for character in BLANKS {
        let mut encoded = [0; 4];
        let encoded = character.encode_utf8(&mut encoded).as_bytes();
        if encoded == bytes {
            return Blank::Whole;
        }
        if encoded.starts_with(bytes) {
            blank = Blank::Partial;
        }
    }
    blank
}

/// Finds what ends a line for some reader besides LF: CR for text readers of Java, .NET and Python, U+2028 and U+2029 for
/// `readline` of Node.js, U+000B, U+000C, U+001C to U+001E and U+0085 for `str.splitlines` of Python.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LineEnds {
    #[default]
    Start,
    /// Behind `C2`.
    Latin,
    /// Behind `E2`.
    Punctuation,
    /// Behind `E2 80`.
    General,
}

impl LineEnds {
    /// Takes the next byte. Whether a line ends with it.
    pub(super) fn advance(&mut self, byte: u8) -> bool {
        let (next, ends) = match (*self, byte) {
            (_, b'\r' | 0x0B | 0x0C | 0x1C..=0x1E) => (Self::Start, true),
            (Self::Latin, 0x85) | (Self::General, 0xA8 | 0xA9) => (Self::Start, true),
            (Self::Punctuation, 0x80) => (Self::General, false),
            (_, 0xC2) => (Self::Latin, false),
            (_, 0xE2) => (Self::Punctuation, false),
            _ => (Self::Start, false),
        };
        *self = next;
        ends
    }

    /// The position of the first byte that ends a line, LF among them, or that is `{`. Text of none of these is passed over in
    /// blocks.
    pub(super) fn next_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let odd = |byte: &u8| may_end(byte) | (*byte == b'\n') | (*byte == b'{');
        let mut at = 0;
        loop {
            if *self == Self::Start {
                at += position(bytes.get(at..)?, odd)?;
            }
            let byte = *bytes.get(at)?;
            if matches!(byte, b'\n' | b'{') || self.advance(byte) {
                return Some(at);
            }
            at += 1;
        }
    }
}

/// The lines of a text, each with what ends it, for a reader to whom all of [`LineEnds`] end one; none where there is but one.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut ends = LineEnds::default();
    let split = position(text, may_end).map(|_| text.split_inclusive(move |byte| ends.advance(*byte)));
    split.into_iter().flatten().filter(|line| line.len() < text.len())
}

/// Whether a byte could begin one of [`LineEnds`].
fn may_end(byte: &u8) -> bool {
    (*byte < b' ') & (*byte != b'\t') & (*byte != b'\n') | (*byte == 0xC2) | (*byte == 0xE2)
}

/// Without the blanks of any reader at either end.
pub(super) fn trim(text: &[u8]) -> &[u8] {
    let is_blank = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_whitespace) || blank(bytes) == Blank::Whole;
    let mut rest = text;
    while let Some(length) = (1..=3).find(|length| rest.get(..*length).is_some_and(is_blank)) {
        rest = rest.get(length..).unwrap_or_default();
    }
    while let Some(length) = (1..=3)
        .find(|length| rest.len().checked_sub(*length).and_then(|at| rest.get(at..)).is_some_and(is_blank))
    {
        rest = rest.get(..rest.len() - length).unwrap_or_default();
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_are_recognized_byte_by_byte() {
        let cases = [
            ("\u{a0}", Blank::Whole),
            ("\u{feff}", Blank::Whole),
            ("\u{2028}", Blank::Whole),
            ("\u{3000}", Blank::Whole),
            ("\0", Blank::Whole),
            ("{", Blank::Other),
            ("é", Blank::Other),
            ("\u{2014}", Blank::Other),
            ("", Blank::Other),
        ];
        for (text, expected) in cases {
            assert_eq!(blank(text.as_bytes()), expected, "{text:?}");
            let parts = 1..text.len();
            let is_partial = |end: usize| blank(text.as_bytes().get(..end).unwrap()) == Blank::Partial;
            assert!(expected == Blank::Other || parts.into_iter().all(is_partial), "{text:?}");
        }
    }

    #[test]
    fn text_is_split_at_unusual_line_ends() {
        let cases: [(&str, &[&str]); 7] = [
            ("plain", &[]),
            ("tab\tand\nline feed", &[]),
            ("quotes “ and – é", &[]),
            ("a\rb\u{2028}c", &["a\r", "b\u{2028}", "c"]),
            ("\u{b}a\u{85}", &["\u{b}", "a\u{85}"]),
            ("a\r\rb", &["a\r", "\r", "b"]),
            ("a\r", &[]),
        ];
        for (text, expected) in cases {
            let found: Vec<_> =
                lines(text.as_bytes()).map(|line| std::str::from_utf8(line).unwrap()).collect();
            assert_eq!(found, expected, "{text:?}");
        }
    }
}
