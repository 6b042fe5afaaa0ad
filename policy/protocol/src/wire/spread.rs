//! A value that goes on in the next line, as readers of a stream take it.
//!
//! A reader of lines takes each line by itself, and so does the cutter. This reader takes the same bytes beside it, from a line
//! that a value does not end in up to where the value ends, or to where it is clear that the lines are no JSON.

use mcpwarden_terms::Timestamp;

use super::{Cut, Framing, Limits};

/// A value that is spread over lines.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    /// What came of it, from its first bracket; empty behind a value that ended on this line.
    bytes: Vec<u8>,
    /// When its first byte was captured.
    time: Timestamp,
    grammar: Grammar,
    /// Whether it is longer than a frame may be.
    is_over: bool,
}

impl Spread {
    /// Begins with a line, its line feed included, in which the value does not end. `None` where that is the beginning of no JSON.
    pub(super) fn begin(line: &[u8], time: Timestamp) -> Option<Self> {
        let mut grammar = Grammar::default();
        match grammar.advance(line) {
            Progress::More => Some(Self { bytes: line.to_vec(), time, grammar, is_over: false }),
            Progress::Closed(_) | Progress::Broken => None,
        }
    }

    /// Takes bytes of one line behind those before, or its line feed alone, captured at `time`, and gives the values that end in them, each followed by
    /// [`Cut::Ambiguous`]. Whether there may be more: of a value, or another value on the line that the last one ended in.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        time: Timestamp,
        limits: &Limits,
        sink: &mut impl FnMut(Cut<'_>),
    ) -> bool {
        if self.is_over {
            // At the end of the line, since what it has of it does not depend on how the bytes came.
            let ends = bytes.first() == Some(&b'\n');
            if ends {
                sink(Cut::TooLong { bytes: limits.max_frame_bytes as u64 + 1 });
            }
            return !ends;
        }
        let mut rest = bytes;
        while let Some(first) = rest.first() {
            if self.bytes.is_empty() {
                match first {
                    b' ' | b'\t' | b'\r' => {
                        rest = rest.get(1..).unwrap_or_default();
                        continue;
                    }
                    b'{' | b'[' => self.time = time,
                    _ => return false,
                }
            }
            let room = limits.max_frame_bytes.saturating_sub(self.bytes.len());
            let piece = rest.get(..=room).unwrap_or(rest);
            let progress = self.grammar.advance(piece);
            let end = match progress {
                Progress::Broken => return false,
                Progress::Closed(end) => end,
                Progress::More => piece.len(),
            };
            if end > room {
                self.bytes = Vec::new();
                self.is_over = true;
                return true;
            }
            let (taken, after) = rest.split_at(end);
            self.bytes.extend_from_slice(taken);
            if let Progress::Closed(_) = progress {
                sink(Cut::Frame { bytes: &self.bytes, time: self.time });
                let spread = self.bytes.contains(&b'\n');
                sink(Cut::Ambiguous(if spread { Framing::Spread } else { Framing::Joined }));
                self.bytes.clear();
                self.grammar = Grammar::default();
            }
            rest = after;
        }
        true
    }

    /// Bytes held.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// What may come next in a JSON text. Comments and a comma behind the last element are taken, as some readers take them.
#[derive(Clone, Debug, Default)]
struct Grammar {
    /// For each open bracket, whether it is that of an object.
    open: Vec<bool>,
    next: Next,
    /// Where a comment stands, if it does.
    comment: Option<Comment>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Next {
    /// A value, or the end of an array.
    #[default]
    Value,
    /// A key, or the end of an object.
    Key,
    /// A colon.
    Colon,
    /// A comma, or the end.
    Comma,
    /// More of a number or a word.
    Scalar,
    /// More of a string; it is a key.
    Text { key: bool },
    /// What is behind a backslash in a string.
    Escape { key: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comment {
    /// Behind the first slash.
    Slash,
    Line,
    Block,
    /// In a block, behind a star.
    Star,
}

/// How far the text is.
enum Progress {
    More,
    Closed(usize),
    Broken,
}

impl Grammar {
    fn advance(&mut self, bytes: &[u8]) -> Progress {
        for (at, &byte) in bytes.iter().enumerate() {
            let goes_on = match self.comment {
                Some(comment) => self.comment(comment, byte),
                None => self.byte(byte),
            };
            if !goes_on {
                return Progress::Broken;
            }
            if self.open.is_empty() {
                return Progress::Closed(at + 1);
            }
        }
        Progress::More
    }

    fn comment(&mut self, comment: Comment, byte: u8) -> bool {
        self.comment = match (comment, byte) {
            (Comment::Slash, b'/') => Some(Comment::Line),
            (Comment::Slash, b'*') => Some(Comment::Block),
            (Comment::Slash, _) => return false,
            (Comment::Line, b'\n' | b'\r') | (Comment::Star, b'/') => None,
            (Comment::Block | Comment::Star, b'*') => Some(Comment::Star),
            (Comment::Block | Comment::Star, _) => Some(Comment::Block),
            (Comment::Line, _) => Some(Comment::Line),
        };
        true
    }

    /// Takes a byte that is in no comment. Whether the text may go on with it.
    fn byte(&mut self, byte: u8) -> bool {
        match self.next {
            Next::Text { key } => {
                self.next = match byte {
                    b'"' if key => Next::Colon,
                    b'"' => Next::Comma,
                    b'\\' => Next::Escape { key },
                    // A string of JSON ends in its line; but some readers of a stream take a line feed in it (Newtonsoft.Json, Gson).
                    _ => Next::Text { key },
                };
                return true;
            }
            Next::Escape { key } => {
                self.next = Next::Text { key };
                return true;
            }
            Next::Scalar if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.') => {
                return true;
            }
            Next::Scalar => self.next = Next::Comma,
            _ => {}
        }
        match (byte, self.next) {
            (..=b' ', _) => {}
            (b'/', _) => self.comment = Some(Comment::Slash),
            // Gson, and Jackson with `ALLOW_YAML_COMMENTS`.
            (b'#', _) => self.comment = Some(Comment::Line),
            (b'}', Next::Key | Next::Comma) => return self.close(true),
            (b']', Next::Value | Next::Comma) => return self.close(false),
            (b',', Next::Comma) => {
                self.next = if self.open.last() == Some(&true) { Next::Key } else { Next::Value };
            }
            (b':', Next::Colon) => self.next = Next::Value,
            (b'"', Next::Key) => self.next = Next::Text { key: true },
            (b'"', Next::Value) => self.next = Next::Text { key: false },
            (b'{', Next::Value) => {
                self.open.push(true);
                self.next = Next::Key;
            }
            (b'[', Next::Value) => self.open.push(false),
            // Numbers, true, false, null, and NaN and Infinity, which Python writes.
            (b'-' | b'0'..=b'9' | b't' | b'f' | b'n' | b'N' | b'I', Next::Value) => self.next = Next::Scalar,
            _ => return false,
        }
        true
    }

    fn close(&mut self, object: bool) -> bool {
        self.next = Next::Comma;
        self.open.pop() == Some(object)
    }
}
