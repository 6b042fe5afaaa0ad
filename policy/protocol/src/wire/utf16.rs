//! UTF-16 with a byte order mark, which text readers of .NET and Java recognize by it, into UTF-8.

use crate::wide::Wide;

/// Recognizes the encoding of a stream by its first bytes and turns UTF-16 into UTF-8.
#[derive(Clone, Debug, Default)]
pub(super) enum Encoding {
    /// No byte was seen.
    #[default]
    Start,
    /// The first byte of a mark was seen.
    Mark(u8),
    /// UTF-8, or bytes that are to be read as such.
    Utf8,
    /// UTF-16.
    Utf16(Utf16),
}

/// A stream of UTF-16 code units.
#[derive(Clone, Debug)]
pub(super) struct Utf16 {
    little_endian: bool,
    /// The first byte of a code unit.
    odd: Option<u8>,
    /// The first half of a surrogate pair.
    high: Option<u16>,
}

/// What the bytes of a push are, in UTF-8.
#[derive(Debug)]
pub(super) enum Decoded {
    /// As they came.
    Same,
    /// As they came, behind a byte that was held back.
    Behind(u8),
    /// These.
    Text(Vec<u8>),
}

/// The text of a frame in UTF-16 or UTF-32 without a mark.
pub(super) fn unmarked(frame: &[u8]) -> Option<Vec<u8>> {
    let (size, little_endian) = match Wide::of(frame)? {
        Wide::Utf16 { little_endian } => (2, little_endian),
        Wide::Utf32 { little_endian } => (4, little_endian),
    };
    // What is missing of the last unit went with the line feed.
    let missing = if little_endian { frame.len().next_multiple_of(size) - frame.len() } else { 0 };
    let whole = [frame, [0; 3].get(..missing).unwrap_or_default()].concat();
    if size == 2 {
        return Some(Utf16 { little_endian, odd: None, high: None }.decode(&whole));
    }
    let units = whole.chunks_exact(4).filter_map(|unit| unit.first_chunk().copied());
    let code = |unit| if little_endian { u32::from_le_bytes(unit) } else { u32::from_be_bytes(unit) };
    let letter = |unit| char::from_u32(code(unit)).unwrap_or(char::REPLACEMENT_CHARACTER);
    Some(units.map(letter).collect::<String>().into_bytes())
}

impl Encoding {
    /// Takes the next bytes of the stream, which are not none.
    pub(super) fn decode(&mut self, bytes: &[u8]) -> Decoded {
        let (first, rest) = match (&*self, bytes) {
            (Self::Utf8, _) => return Decoded::Same,
            (Self::Start, [first @ (0xFE | 0xFF)]) => {
                *self = Self::Mark(*first);
                return Decoded::Text(Vec::new());
            }
            (Self::Start, [first, second, rest @ ..]) => ([*first, *second], rest),
            (Self::Mark(first), [second, rest @ ..]) => ([*first, *second], rest),
            _ => ([0; 2], bytes),
        };
        match (&mut *self, first) {
            (Self::Utf16(utf16), _) => Decoded::Text(utf16.decode(bytes)),
            (_, [0xFF, 0xFE] | [0xFE, 0xFF]) => {
                let mut utf16 = Utf16 { little_endian: first == [0xFF, 0xFE], odd: None, high: None };
                let text = utf16.decode(rest);
                *self = Self::Utf16(utf16);
                Decoded::Text(text)
            }
            (Self::Mark(held), _) => {
                let held = *held;
                *self = Self::Utf8;
                Decoded::Behind(held)
            }
            _ => {
                *self = Self::Utf8;
                Decoded::Same
            }
        }
    }

    /// Bytes were lost: whether a code unit begins with the next one cannot be known. It is taken to, since writes are whole.
    pub(super) fn gap(&mut self) {
        match self {
            Self::Utf16(utf16) => (utf16.odd, utf16.high) = (None, None),
            encoding => *encoding = Self::Utf8,
        }
    }

    /// Whether the stream is UTF-16.
    pub(super) fn is_utf16(&self) -> bool {
        matches!(self, Self::Utf16(_))
    }
}

impl Utf16 {
    fn decode(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut text = String::with_capacity(bytes.len() / 2);
        for &byte in bytes {
            let Some(first) = self.odd.take() else {
                self.odd = Some(byte);
                continue;
            };
            let pair = [first, byte];
            let unit = if self.little_endian { u16::from_le_bytes(pair) } else { u16::from_be_bytes(pair) };
            let units = self.high.take().into_iter().chain([unit]);
            for decoded in char::decode_utf16(units) {
                match decoded {
                    Ok(character) => text.push(character),
                    // It may be the first half of a pair.
                    Err(lone) if lone.unpaired_surrogate() == unit && unit < 0xDC00 => self.high = Some(unit),
                    Err(_) => text.push(char::REPLACEMENT_CHARACTER),
                }
            }
        }
        text.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
        let mut encoding = Encoding::default();
        let mut all = Vec::new();
        for piece in pieces {
            match encoding.decode(piece) {
                Decoded::Same => all.extend_from_slice(piece),
                Decoded::Behind(byte) => {
                    all.push(byte);
                    all.extend_from_slice(piece);
                }
                Decoded::Text(text) => all.extend(text),
            }
        }
        all
    }

    #[test]
    fn unmarked_frames_are_recognized_by_their_bracket() {
        let wide = |text: &str, little: bool| -> Vec<u8> {
            let order = |unit: char| {
                if little { u32::from(unit).to_le_bytes() } else { u32::from(unit).to_be_bytes() }
            };
            text.chars().flat_map(order).collect()
        };
        let (big, little) = (wide("{\"é\":1}", false), wide("{\"é\":1}", true));
        // The second of two lines, whose first took one byte of the line feed.
        let second = wide("\n{\"é\":1}\n", true);
        let cases: [(&[u8], Option<&str>); 11] = [
            (b"{\0}\0", Some("{}")),
            (b"{\0}", Some("{}")),
            (b"\0[\x001\0]", Some("[1]")),
            (b"\0{\0}\0", Some("{}")),
            (b"\0{}", None),
            (b"{\0\"a\"}", None),
            (&big, Some("{\"é\":1}")),
            (&little, Some("{\"é\":1}")),
            (&second[1..second.len() - 4], Some("{\"é\":1}")),
            (b"{}", None),
            (b"", None),
        ];
        for (frame, expected) in cases {
            assert_eq!(unmarked(frame).as_deref(), expected.map(str::as_bytes), "{frame:?}");
        }
    }

    #[test]
    fn marked_streams_become_utf8_however_split() {
        let text = "{\"é\": \"😀\"}\n";
        let units: Vec<u16> = [0xFEFF].into_iter().chain(text.encode_utf16()).collect();
        let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
        let lone: Vec<u8> =
            [0xFEFF, 0xD83D, 0x41, 0xDE00].iter().flat_map(|unit: &u16| unit.to_le_bytes()).collect();
        let cases: [(&[u8], &[u8]); 6] = [
            (&little, text.as_bytes()),
            (&big, text.as_bytes()),
            (&lone, "\u{fffd}A\u{fffd}".as_bytes()),
            (text.as_bytes(), text.as_bytes()),
            (b"\xFFx", b"\xFFx"),
            (b"\xEF\xBB\xBF{}", b"\xEF\xBB\xBF{}"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(decode([bytes]), expected, "{bytes:?}");
            assert_eq!(decode(bytes.chunks(1)), expected, "{bytes:?}, byte by byte");
            for at in 1..bytes.len() {
                let (head, tail) = bytes.split_at(at);
                assert_eq!(decode([head, tail]), expected, "{bytes:?}, split at {at}");
            }
        }
    }
}
