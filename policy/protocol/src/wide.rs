//! Text in UTF-16 or UTF-32 without a byte order mark: its zeros are parts of letters.

/// An encoding without a mark, which `json.loads` of Python and others recognize by where the zeros are in its first letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wide {
    Utf16 { little_endian: bool },
    Utf32 { little_endian: bool },
}

impl Wide {
    /// That of a frame. The line feed behind a frame is one byte to whoever cuts lines: the zeros of it that come behind that byte are
    /// the first of the next frame, which then looks like one in the other byte order, and is read as such with the same result.
    pub(crate) fn of(frame: &[u8]) -> Option<Self> {
        match frame {
            [0, 0, 0, b'{' | b'[', ..] => Some(Self::Utf32 { little_endian: false }),
            [b'{' | b'[', 0, 0, 0, ..] => Some(Self::Utf32 { little_endian: true }),
            [0, b'{' | b'['] | [0, b'{' | b'[', 0, ..] => Some(Self::Utf16 { little_endian: false }),
            [b'{' | b'[', 0] | [b'{' | b'[', 0, _] | [b'{' | b'[', 0, _, 0, ..] => {
                Some(Self::Utf16 { little_endian: true })
            }
            _ => None,
        }
    }
}
