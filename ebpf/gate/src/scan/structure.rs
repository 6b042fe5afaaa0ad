//! Where the reader is in a message: brackets, keys, and what the next string is read for.

use super::{
    ARGUMENT, ARGUMENT_KEY, ARGUMENTS, BATCH, DOUBT, Decision, EXPECT_KEY, HAS_PARAMS, HASH_START, KEY,
    MESSAGE, METHOD, Marks, NAME, NOTHING, NOWHERE, PARAM_KEY, PARAMS, PLAIN, SILENT, Scan, URI,
};
use crate::table::{ARGUMENT_TEXT, KEY_ARGUMENTS, KEY_METHOD, KEY_NAME, KEY_PARAMS, KEY_URI, Subject, View};

impl Scan {
    /// A bracket, a comma, a colon, or the first quote of a string.
    #[inline(always)]
    pub(super) fn outside(
        &mut self,
        table: &View<'_>,
        subject: &Subject,
        marks: &mut Marks,
        byte: u8,
    ) -> Decision {
        let level = self.depth.wrapping_sub((self.flags & BATCH) as u32);
        let within = self.flags & MESSAGE != 0 && level == 1
            || self.flags & PARAMS != 0 && level == 2
            || self.flags & ARGUMENTS != 0 && level == 3;
        match byte {
            b'"' => {
                // Between messages a quote is no string's: it would hide what follows.
                if self.depth == 0 {
                    return SILENT;
                }
                self.mode = PLAIN;
                (self.length, self.high, self.stale) = (0, 0, 0);
                let expect_key = self.flags & EXPECT_KEY != 0;
                (self.reads, self.state) = if !within {
                    (NOTHING, 0)
                } else if level == 1 {
                    if expect_key {
                        (KEY, table.head.keys)
                    } else if u16::from(self.key) == KEY_METHOD {
                        marks.method = NOWHERE;
                        (METHOD, table.head.methods)
                    } else {
                        (NOTHING, 0)
                    }
                } else if level == 3 {
                    if expect_key {
                        (ARGUMENT_KEY, subject.arguments)
                    } else if self.param != 0 {
                        (ARGUMENT, table.next(self.state, ARGUMENT_TEXT))
                    } else {
                        (NOTHING, 0)
                    }
                } else if expect_key {
                    (PARAM_KEY, table.head.param_keys)
                } else if u16::from(self.param) == KEY_NAME {
                    marks.name = NOWHERE;
                    self.hash = HASH_START;
                    (NAME, subject.name)
                } else if u16::from(self.param) == KEY_URI {
                    marks.name = NOWHERE;
                    (URI, subject.uri)
                } else {
                    (NOTHING, 0)
                };
            }
            b'{' if level == 0 => self.begin_message(marks),
            b'{' if within => self.open_brace(subject),
            b'{' => self.depth = self.depth.wrapping_add(1),
            b'[' => {
                if self.depth == 0 {
                    self.flags = BATCH;
                }
                self.depth = self.depth.wrapping_add(1);
            }
            b'}' | b']' => {
                let mut said = SILENT;
                if within && level == 3 {
                    self.flags &= !(ARGUMENTS | EXPECT_KEY);
                    self.param = 0;
                } else if within && level == 2 {
                    self.flags &= !(PARAMS | EXPECT_KEY);
                } else if within {
                    said = self.end_message(table, subject, marks);
                    self.forget_message();
                }
                self.close_bracket();
                return said;
            }
            b',' if within => self.flags |= EXPECT_KEY,
            b':' => self.flags &= !EXPECT_KEY,
            // Some readers take keys without quotes, strings in others, and comments.
            _ if within && level == 3 && is_lax(byte, self.flags & EXPECT_KEY != 0) => self.flags |= DOUBT,
            _ => {}
        }
        SILENT
    }

    /// The first bracket of a message.
    #[inline(always)]
    pub(super) fn begin_message(&mut self, marks: &mut Marks) {
        self.forget_message();
        self.flags |= MESSAGE | EXPECT_KEY;
        *marks = Marks::NONE;
        self.depth = self.depth.wrapping_add(1);
    }

    /// An object in a message or its `params` begins: perhaps these.
    #[inline(always)]
    pub(super) fn open_brace(&mut self, subject: &Subject) {
        let level = self.depth.wrapping_sub((self.flags & BATCH) as u32);
        if level == 1 && u16::from(self.key) == KEY_PARAMS {
            self.flags |= PARAMS | EXPECT_KEY | HAS_PARAMS | (self.flags & HAS_PARAMS) << 1;
            self.param = 0;
        } else if subject.arguments != 0 && level == 2 && u16::from(self.param) == KEY_ARGUMENTS {
            self.open_arguments();
        }
        self.depth = self.depth.wrapping_add(1);
    }

    /// The last bracket of `params`.
    #[inline(always)]
    pub(super) fn end_params(&mut self) {
        self.flags &= !(PARAMS | EXPECT_KEY);
        self.depth = self.depth.wrapping_sub(1);
    }

    #[inline(always)]
    pub(super) fn close_bracket(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        if self.depth == 0 {
            self.flags = 0;
        }
    }

    #[inline(always)]
    pub(super) fn forget_message(&mut self) {
        self.flags &= BATCH;
        (self.key, self.param, self.methods, self.named_twice) = (0, 0, 0, 0);
        (self.tool, self.prompt, self.resource) = (0, 0, 0);
        (self.bits, self.keyed, self.told, self.length_units) = (0, 0, 0, 0);
    }
}

/// Whether a byte of `arguments`, outside of strings, is none that every reader takes for the same.
#[inline(always)]
fn is_lax(byte: u8, expect_key: bool) -> bool {
    expect_key && byte > b' ' || matches!(byte, b'\'' | b'/')
}
