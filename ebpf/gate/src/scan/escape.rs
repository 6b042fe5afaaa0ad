//! What the bytes of a string stand for: escapes as UTF-8.

use super::{ARGUMENT_KEY, DOUBT, ESCAPE, HEX_FIRST, HEX_LAST, PLAIN, Scan};

/// U+FFFD in UTF-8, its first byte lowest.
const REPLACEMENT: u64 = 0xBD_BFEF;

impl Scan {
    /// What a byte within a string stands for: bytes of UTF-8, the first lowest, and how many; and whether it is the quote
    /// that closes the string.
    #[inline(always)]
    pub(super) fn decode(&mut self, byte: u8) -> (u64, u32, bool) {
        let (text, length) = match self.mode {
            PLAIN => {
                if byte == b'\\' {
                    self.mode = ESCAPE;
                    return (0, 0, false);
                }
                (u64::from(byte), 1)
            }
            ESCAPE => {
                if byte == b'u' {
                    self.mode = HEX_FIRST;
                    self.code = 0;
                    return (0, 0, false);
                }
                let character = match byte {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'b' => 8,
                    b'f' => 12,
                    // Some readers keep the backslash.
                    other => {
                        if other < b' ' {
                            self.doubt();
                        }
                        other
                    }
                };
                (u64::from(character), 1)
            }
            digit => {
                // '0' to '9', 'A' to 'F', 'a' to 'f'; what is none makes the message no JSON.
                let value = (byte & 15) + if byte & 0x40 != 0 { 9 } else { 0 };
                self.code = self.code << 4 | u16::from(value & 15);
                if digit != HEX_LAST {
                    self.mode = digit - 1;
                    return (0, 0, false);
                }
                self.mode = PLAIN;
                return self.decode_unit();
            }
        };
        let closes = self.mode == PLAIN && byte == b'"';
        self.mode = PLAIN;
        let (text, length) = if closes { (0, 0) } else { (text, length) };
        if self.high == 0 {
            return (text, length, closes);
        }
        self.high = 0;
        self.doubt();
        (text << 24 | REPLACEMENT, length + 3, closes)
    }

    /// Readers differ in what a string is.
    #[inline(always)]
    fn doubt(&mut self) {
        if self.reads >= ARGUMENT_KEY {
            self.flags |= DOUBT;
        }
    }

    /// What an escape of four digits stands for.
    #[inline(always)]
    fn decode_unit(&mut self) -> (u64, u32, bool) {
        let unit = u64::from(self.code);
        let half = unit & 0xFC00;
        let waiting = u64::from(self.high);
        self.high = 0;
        if waiting != 0 && half == 0xDC00 {
            let point = 0x1_0000 + ((waiting & 0x3FF) << 10 | unit & 0x3FF);
            let text = (0xF0 | point >> 18)
                | (0x80 | point >> 12 & 0x3F) << 8
                | (0x80 | point >> 6 & 0x3F) << 16
                | (0x80 | point & 0x3F) << 24;
            return (text, 4, false);
        }
        let (text, length) = if half == 0xD800 {
            self.high = self.code;
            (0, 0)
        } else if half == 0xDC00 {
            self.doubt();
            (REPLACEMENT, 3)
        } else if unit < 0x80 {
            (unit, 1)
        } else if unit < 0x800 {
            ((0xC0 | unit >> 6) | (0x80 | unit & 0x3F) << 8, 2)
        } else {
            ((0xE0 | unit >> 12) | (0x80 | unit >> 6 & 0x3F) << 8 | (0x80 | unit & 0x3F) << 16, 3)
        };
        if waiting == 0 {
            return (text, length, false);
        }
        self.doubt();
        (text << 24 | REPLACEMENT, length + 3, false)
    }
}
