//! What a connection of sockets speaks.

/// How the bytes of a connection become messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// In requests and answers of HTTP.
    Http,
    /// A line each.
    Lines,
    /// Nothing of it is wanted any more.
    Unwanted,
}

impl Framing {
    /// What begins so; `None` of blanks alone, the mark of an encoding among them.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let is_blank = |byte: &&u8| matches!(**byte, b' ' | b'\t' | b'\r' | b'\n' | 0xef | 0xbb | 0xbf);
        let first = bytes.iter().find(|byte| !is_blank(byte))?;
        Some(if matches!(first, b'{' | b'[') { Self::Lines } else { Self::Http })
    }
}
