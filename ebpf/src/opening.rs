//! What the first bytes of a connection of sockets say of it.

use mcpwarden_abi::CLIENT_TO_SERVER;

/// What begins with these bytes, of which `length` are some: it is read as HTTP, as lines, as what user space finds, or not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// Of HTTP: a request.
    Http,
    /// Of lines: a message or a batch.
    Lines,
    /// Blanks, or the mark of an encoding.
    Blank,
    /// Of something else.
    Foreign,
}

/// Who speaks HTTP begins with a request; some send blank lines before it, or a letter by itself. Who speaks in lines begins
/// with a message or a batch, whoever is first.
#[inline(always)]
pub fn opening(direction: u8, first: u32, length: u64) -> Opening {
    const fn word(text: &[u8; 4]) -> u32 {
        u32::from_ne_bytes(*text)
    }
    let letter = first.to_ne_bytes()[0];
    if matches!(letter, b'{' | b'[') {
        return Opening::Lines;
    }
    if matches!(letter, b'\r' | b'\n' | b' ' | b'\t' | 0xef) {
        return Opening::Blank;
    }
    let alone = matches!(letter, b'P' | b'G' | b'D' | b'O' | b'H');
    let asks = length < 4 && alone
        || first == word(b"POST")
        || first == word(b"GET ")
        || first == word(b"DELE")
        || first == word(b"OPTI")
        || first == word(b"HEAD")
        || first == word(b"PRI ");
    if direction == CLIENT_TO_SERVER && asks { Opening::Http } else { Opening::Foreign }
}

/// Whether bytes that begin so, of which `length` are some, can be those of a line: JSON has no control characters but blanks.
#[inline(always)]
pub fn is_text(first: u32, length: u64) -> bool {
    for (at, byte) in first.to_ne_bytes().iter().enumerate() {
        if at as u64 >= length {
            break;
        }
        if *byte < b' ' && !matches!(*byte, b'\t' | b'\r' | b'\n') {
            return false;
        }
    }
    true
}
