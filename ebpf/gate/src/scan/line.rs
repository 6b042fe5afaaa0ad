//! What ends a line within a message, for some reader: as `wire::blank::LineEnds` of the engine has it.

use super::Scan;

/// In no such character.
const NONE: u8 = 0;
/// Behind `C2`.
const LATIN: u8 = 1;
/// Behind `E2`.
const PUNCTUATION: u8 = 2;
/// Behind `E2 80`.
const GENERAL: u8 = 3;
/// Behind U+0085, U+2028 or U+2029, and what may be blanks.
const BEGINNING: u8 = 4;
/// There are no lines: messages have a framing of their own.
const NEVER: u8 = 5;

/// The control characters that end a line: LF, VT, FF, CR, and U+001C to U+001E. JSON has none of the others in it, either.
const CONTROLS: u32 = 1 << b'\n' | 1 << 0x0B | 1 << 0x0C | 1 << b'\r' | 7 << 0x1C;

impl Scan {
    /// Line breaks end nothing from here on, whatever begins anew: messages are the bodies of requests.
    #[inline(always)]
    pub fn read_bodies(&mut self) {
        self.line = NEVER;
    }

    /// What is to be remembered of line breaks where a stream begins anew.
    #[inline(always)]
    pub(super) fn fresh_line(&self) -> u8 {
        if self.line == NEVER { NEVER } else { NONE }
    }

    /// Takes the next byte of a message. Whether some reader has a message less here, or one more: a control character ends a
    /// line for it, or a bracket begins one behind a character that may stand within a string, and ends a line for it.
    #[inline(always)]
    pub(super) fn breaks(&mut self, byte: u8) -> bool {
        if self.line == NEVER {
            return false;
        }
        if byte < b' ' && CONTROLS >> byte & 1 != 0 {
            self.line = NONE;
            return true;
        }
        if self.line == NONE && byte < 0x80 {
            return false;
        }
        let begins = self.line == BEGINNING;
        self.line = match (self.line, byte) {
            (LATIN, 0x85) | (GENERAL, 0xA8 | 0xA9) => BEGINNING,
            // Not all blanks are told apart here: what follows such a character and is not ASCII may be one.
            (BEGINNING, 0..=b' ' | 0x80..) => BEGINNING,
            (PUNCTUATION, 0x80) => GENERAL,
            (_, 0xC2) => LATIN,
            (_, 0xE2) => PUNCTUATION,
            _ => NONE,
        };
        begins && matches!(byte, b'{' | b'[')
    }

    /// Whether a character is begun that may end a line, or a line that may begin with a bracket.
    #[inline(always)]
    pub(super) fn is_in_line_end(&self) -> bool {
        self.line != NONE && self.line != NEVER
    }
}
