//! The reader itself: one byte at a time.
//!
//! Lines are messages, as the transport of MCP says, and every line break within one is told ([`Subject::broken`]): readers
//! differ in what they make of it (Python's text streams end a line at CR, JSON takes it for a blank, bodies behind a
//! `Content-Length` may have line feeds). What stands before the first bracket of a line is skipped: a byte order mark,
//! headers, text. Keys that are there twice count each time, since readers differ in which of them they take, and so
//! do keys in another case, which some take for the same (`encoding/json` of Go).
//!
//! Strings are read as they are sent, escapes decoded to UTF-8; half a surrogate pair becomes U+FFFD, as in the engine.

use crate::table::{
    CLASS_AS_PROMPT, CLASS_AS_TOOL, DENY, KEY_METHOD, KEY_NAME, KEY_PARAMS, KEY_URI, METHOD_OTHER,
    METHOD_PROMPT, METHOD_RESOURCE, METHOD_TOOL, METHODS, Subject, View,
};

/// A place that lies in an earlier write, or is none.
pub const NOWHERE: u32 = u32::MAX;
/// A name longer than this cannot be told. Bytes. The engine keeps longer ones by their beginning and a hash.
pub const LONG_NAME_BYTES: u16 = 192;

/// Where the reader is within a string: [`Scan::mode`].
const OUTSIDE: u8 = 0;
const PLAIN: u8 = 1;
const ESCAPE: u8 = 2;
/// The last digit of an escape; those before it have the numbers up to [`HEX_FIRST`].
const HEX_LAST: u8 = 3;
const HEX_FIRST: u8 = 6;

/// What a string is read for: [`Scan::reads`].
const NOTHING: u8 = 0;
const KEY: u8 = 1;
const PARAM_KEY: u8 = 2;
const METHOD: u8 = 3;
const NAME: u8 = 4;
const URI: u8 = 5;

/// The outermost value is an array.
const BATCH: u8 = 1;
/// Within a message.
const MESSAGE: u8 = 2;
/// Within the `params` of one.
const PARAMS: u8 = 4;
/// The next string is a key.
const EXPECT_KEY: u8 = 8;
/// The message has a name that is a string.
const NAMED: u8 = 16;
/// The same of a URI.
const LOCATED: u8 = 32;
/// The message has a method, or more: see [`Scan::methods`].
const ASKED: u8 = 64;
/// It has more than one, so that neutralizing one of them stops nothing.
const ASKED_TWICE: u8 = 128;

/// U+FFFD in UTF-8, its first byte lowest.
const REPLACEMENT: u64 = 0xBD_BFEF;
/// Most bytes of UTF-8 that one byte of JSON can complete: a lone surrogate's, and what follows it.
const MOST_AT_ONCE: usize = 6;

/// Most words that [`Scan::letters`] passes over: the verifier goes through each.
const WORDS_AT_ONCE: u32 = 8;

/// All that is remembered of a channel between two bytes. All zeros at the beginning of a stream.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// The table that the states below are of.
    pub generation: u32,
    /// Brackets that are open.
    depth: u32,
    /// The state of the automaton in the string at hand.
    state: u16,
    /// The digits of an escape so far.
    code: u16,
    /// The first half of a surrogate pair; 0 where none waits for its second.
    high: u16,
    /// Bytes of the string at hand.
    length: u16,
    /// What is said of the message's names, as those of tools.
    tool: u16,
    /// The same, as those of prompts.
    prompt: u16,
    /// The same of its URIs.
    resource: u16,
    mode: u8,
    reads: u8,
    /// The last key of the message.
    key: u8,
    /// The last key of its `params`.
    param: u8,
    flags: u8,
    /// The methods that the message has, by bits.
    methods: u8,
    /// Whether the message has more than one name or URI.
    named_twice: u8,
    /// Whether the table changed within the name at hand.
    stale: u8,
    /// Always 0: the verifier wants every byte of a map's value written.
    zero: u16,
    /// The hash of the last name, as it is read and not as it is spelt.
    hash: u64,
}

/// Where in this write something lies that can be neutralized. To be made anew for each write.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// The last letter of the last name or URI; [`NOWHERE`] where that has none in this write.
    pub name: u32,
    /// The same of the method.
    pub method: u32,
}

impl Marks {
    /// Those of a write of which nothing was read yet.
    pub const NONE: Self = Self { name: NOWHERE, method: NOWHERE };
}

impl Default for Marks {
    fn default() -> Self {
        Self::NONE
    }
}

/// What is said of a message once it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The outcome; 0 for nothing. A message can have several, and is denied if one is.
    pub outcome: u16,
    /// Which byte of this write to overwrite (by one that is a letter of no name) so that the server refuses the message and
    /// answers its id: the last letter of the name, else of the method. [`NOWHERE`] where there is none, which leaves
    /// nothing but refusing the write.
    pub place: u32,
    /// Whether a tool is called by it, as far as is known here: a message with two names is told twice.
    pub is_call: bool,
}

const SILENT: Decision = Decision { outcome: 0, place: NOWHERE, is_call: false };

/// FNV-1a (64 bits).
const HASH_START: u64 = 0xCBF2_9CE4_8422_2325;
const HASH_PRIME: u64 = 0x100_0000_01B3;

impl Scan {
    /// Begins a write. A name that another table read, or began to read, cannot be told any more: its states and outcomes were
    /// that table's.
    #[inline(always)]
    pub fn begin(&mut self, table: &View<'_>, subject: &Subject) {
        if self.generation != table.head.generation {
            self.generation = table.head.generation;
            if self.mode != OUTSIDE && (self.reads == NAME || self.reads == URI) {
                self.stale = 1;
            }
            let [_, tool, prompt, resource] = subject.long;
            if self.flags & NAMED != 0 {
                (self.tool, self.prompt) = (tool, prompt);
            }
            if self.flags & LOCATED != 0 {
                self.resource = resource;
            }
        }
    }

    /// Whether no message is begun and not ended.
    #[inline(always)]
    pub fn is_between(&self) -> bool {
        self.depth == 0 && self.mode == OUTSIDE
    }

    /// Begins anew, as behind bytes that nobody read.
    #[inline(always)]
    pub fn reset(&mut self) {
        *self = Self { generation: self.generation, ..Self::default() };
    }

    /// The hash of the name of the call that was told last, the same however that is spelt.
    #[inline(always)]
    pub fn name_hash(&self) -> u64 {
        self.hash
    }

    /// Reads the byte at `place` of this write.
    #[inline(always)]
    pub fn step(
        &mut self,
        table: &View<'_>,
        subject: &Subject,
        marks: &mut Marks,
        byte: u8,
        place: u32,
    ) -> Decision {
        if (byte == b'\n' || byte == b'\r') && !self.is_between() {
            // Readers of lines have a message less here, others go on with it.
            if byte == b'\n' {
                self.reset();
            }
            return Decision { outcome: subject.broken, ..SILENT };
        }
        if self.mode == OUTSIDE {
            return self.outside(table, subject, marks, byte);
        }
        if self.reads == NOTHING {
            self.mode = match (self.mode, byte) {
                (PLAIN, b'"') => OUTSIDE,
                (PLAIN, b'\\') => ESCAPE,
                _ => PLAIN,
            };
            return SILENT;
        }
        let plain = self.mode == PLAIN;
        let (decoded, count, closes) = self.decode(byte);
        self.feed(table, decoded, count);
        if closes {
            return self.close(table, subject, marks);
        }
        // A letter that stands for itself: part of an escape or of a longer character, it could not be overwritten alone.
        if plain && self.mode == PLAIN && byte < 0x80 {
            match self.reads {
                METHOD => marks.method = place,
                NAME | URI => marks.name = place,
                _ => {}
            }
        }
        SILENT
    }

    /// Reads on in the string at hand for as long as its letters stand for themselves, and says how many bytes these were: of
    /// `words`, of which each has eight, the first lowest, from the byte `at` on and none from `end` on; the first of them is at
    /// `place` of this write. The same as [`Scan::step`] of each, which says nothing of such bytes, for a fraction of what that
    /// takes. It may stop earlier.
    #[inline(always)]
    pub fn letters<const N: usize>(
        &mut self,
        table: &View<'_>,
        marks: &mut Marks,
        words: &[u64; N],
        at: u32,
        end: u32,
        place: u32,
    ) -> u32 {
        // Half a surrogate pair is completed by what follows it.
        if self.mode != PLAIN || self.high != 0 {
            return 0;
        }
        let count = if self.reads == NOTHING {
            let mut skipped = 0;
            for _ in 0..WORDS_AT_ONCE {
                let (_, count) = letters_at(words, at + skipped, end);
                if count == 0 {
                    break;
                }
                skipped += count;
            }
            skipped
        } else {
            let (word, count) = letters_at(words, at, end);
            self.feed_letters(table, word, count);
            count
        };
        if count > 0 {
            let last = place.wrapping_add(count - 1);
            match self.reads {
                METHOD => marks.method = last,
                NAME | URI => marks.name = last,
                _ => {}
            }
        }
        count
    }

    /// As [`Scan::feed`].
    #[inline(always)]
    fn feed_letters(&mut self, table: &View<'_>, mut word: u64, count: u32) {
        let (mut state, mut hash) = (self.state, self.hash);
        for index in 0..8 {
            if index >= count {
                break;
            }
            state = table.next(state, word as u8);
            hash = (hash ^ word & 0xFF).wrapping_mul(HASH_PRIME);
            word >>= 8;
        }
        self.state = state;
        if self.reads == NAME {
            self.hash = hash;
        }
        self.length = self.length.saturating_add(count as u16);
    }

    /// A bracket, a comma, a colon, or the first quote of a string.
    #[inline(always)]
    fn outside(&mut self, table: &View<'_>, subject: &Subject, marks: &mut Marks, byte: u8) -> Decision {
        let level = self.depth.wrapping_sub((self.flags & BATCH) as u32);
        let within = self.flags & MESSAGE != 0 && level == 1 || self.flags & PARAMS != 0 && level == 2;
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
            b'{' => {
                if level == 0 {
                    self.forget_message();
                    self.flags |= MESSAGE | EXPECT_KEY;
                    *marks = Marks::NONE;
                } else if within && level == 1 && u16::from(self.key) == KEY_PARAMS {
                    self.flags |= PARAMS | EXPECT_KEY;
                    self.param = 0;
                }
                self.depth = self.depth.wrapping_add(1);
            }
            b'[' => {
                if self.depth == 0 {
                    self.flags = BATCH;
                }
                self.depth = self.depth.wrapping_add(1);
            }
            b'}' | b']' => {
                let mut said = SILENT;
                if within && level == 2 {
                    self.flags &= !(PARAMS | EXPECT_KEY);
                } else if within {
                    said = self.end_message(table, subject, marks);
                    self.forget_message();
                }
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    self.flags = 0;
                }
                return said;
            }
            b',' if within => self.flags |= EXPECT_KEY,
            b':' => self.flags &= !EXPECT_KEY,
            _ => {}
        }
        SILENT
    }

    /// What a byte within a string stands for: bytes of UTF-8, the first lowest, and how many; and whether it is the quote
    /// that closes the string.
    #[inline(always)]
    fn decode(&mut self, byte: u8) -> (u64, u32, bool) {
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
                    other => other,
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
        (text << 24 | REPLACEMENT, length + 3, closes)
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
            (REPLACEMENT, 3)
        } else if unit < 0x80 {
            (unit, 1)
        } else if unit < 0x800 {
            ((0xC0 | unit >> 6) | (0x80 | unit & 0x3F) << 8, 2)
        } else {
            ((0xE0 | unit >> 12) | (0x80 | unit >> 6 & 0x3F) << 8 | (0x80 | unit & 0x3F) << 16, 3)
        };
        if waiting == 0 { (text, length, false) } else { (text << 24 | REPLACEMENT, length + 3, false) }
    }

    #[inline(always)]
    fn feed(&mut self, table: &View<'_>, mut decoded: u64, count: u32) {
        let mut hash = self.hash;
        for index in 0..MOST_AT_ONCE {
            if index as u32 >= count {
                break;
            }
            self.state = table.next(self.state, decoded as u8);
            hash = (hash ^ decoded & 0xFF).wrapping_mul(HASH_PRIME);
            decoded >>= 8;
        }
        if self.reads == NAME {
            self.hash = hash;
        }
        self.length = self.length.saturating_add(count as u16);
    }

    /// A string that is read for something has ended.
    #[inline(always)]
    fn close(&mut self, table: &View<'_>, subject: &Subject, marks: &Marks) -> Decision {
        self.mode = OUTSIDE;
        let end = table.end(self.state, CLASS_AS_TOOL);
        match self.reads {
            KEY => self.key = end as u8,
            PARAM_KEY => self.param = end as u8,
            METHOD => return self.close_method(end, subject, marks),
            NAME | URI => return self.close_name(end, table, subject, marks),
            _ => {}
        }
        SILENT
    }

    #[inline(always)]
    fn close_method(&mut self, method: u16, subject: &Subject, marks: &Marks) -> Decision {
        if self.flags & ASKED != 0 {
            self.flags |= ASKED_TWICE;
        }
        self.flags |= ASKED;
        let method = method & (METHODS as u16 - 1);
        self.methods |= 1 << method;
        let any = subject.any[method as usize & (METHODS - 1)];
        let is_call = method == METHOD_TOOL && self.flags & NAMED != 0;
        if any != 0 {
            return Decision { outcome: any, place: marks.method, is_call };
        }
        let outcome = match method {
            METHOD_TOOL => self.tool,
            METHOD_PROMPT => self.prompt,
            METHOD_RESOURCE => self.resource,
            METHOD_OTHER.. => 0,
        };
        // Of several names only the last could be neutralized here, and a reader may take another.
        let place = if self.named_twice != 0 { NOWHERE } else { self.place(marks) };
        Decision { outcome, place, is_call }
    }

    #[inline(always)]
    fn close_name(&mut self, end: u16, table: &View<'_>, subject: &Subject, marks: &Marks) -> Decision {
        let unknown = self.stale != 0 || self.length > LONG_NAME_BYTES;
        let [_, long_tool, long_prompt, long_resource] = subject.long;
        let (mut outcome, mut is_call) = (0, false);
        if self.flags & (NAMED | LOCATED) != 0 {
            self.named_twice = 1;
        }
        if self.reads == URI {
            let end = if unknown { long_resource } else { end };
            self.resource = self.with_another(LOCATED, self.resource, end, long_resource);
            self.flags |= LOCATED;
            if self.methods & 1 << METHOD_RESOURCE != 0 {
                outcome = end;
            }
        } else {
            let end = if unknown { long_tool } else { end };
            let prompt = if unknown { long_prompt } else { table.end(self.state, CLASS_AS_PROMPT) };
            self.tool = self.with_another(NAMED, self.tool, end, long_tool);
            self.prompt = self.with_another(NAMED, self.prompt, prompt, long_prompt);
            self.flags |= NAMED;
            if self.methods & 1 << METHOD_TOOL != 0 {
                outcome = end;
                is_call = true;
            }
            if self.methods & 1 << METHOD_PROMPT != 0 {
                outcome = outcome.max(prompt);
            }
        }
        Decision { outcome, place: self.place(marks), is_call }
    }

    /// What is said of several names, the method of which is not known yet: of two that are let through in different ways nobody
    /// knows which a reader takes.
    #[inline(always)]
    fn with_another(&self, flag: u8, known: u16, another: u16, long: u16) -> u16 {
        if self.flags & flag == 0 {
            another
        } else if known == another || (known | another) & DENY != 0 {
            known.max(another)
        } else {
            known.max(another).max(long)
        }
    }

    /// A call that names nothing, or not by a string, names the empty string.
    #[inline(always)]
    fn end_message(&mut self, table: &View<'_>, subject: &Subject, marks: &Marks) -> Decision {
        let (mut outcome, mut is_call) = (0, false);
        if self.flags & NAMED == 0 {
            if self.methods & 1 << METHOD_TOOL != 0 {
                outcome = table.end(subject.name, CLASS_AS_TOOL);
                is_call = true;
                self.hash = HASH_START;
            }
            if self.methods & 1 << METHOD_PROMPT != 0 {
                outcome = outcome.max(table.end(subject.name, CLASS_AS_PROMPT));
            }
        }
        if self.flags & LOCATED == 0 && self.methods & 1 << METHOD_RESOURCE != 0 {
            outcome = outcome.max(table.end(subject.uri, CLASS_AS_TOOL));
        }
        let place = if self.flags & ASKED_TWICE == 0 { marks.method } else { NOWHERE };
        Decision { outcome, place, is_call }
    }

    /// What neutralizes the message: its name, or, where that lies in an earlier write, its method.
    #[inline(always)]
    fn place(&self, marks: &Marks) -> u32 {
        if marks.name != NOWHERE {
            marks.name
        } else if self.flags & ASKED_TWICE == 0 {
            marks.method
        } else {
            NOWHERE
        }
    }

    #[inline(always)]
    fn forget_message(&mut self) {
        self.flags &= BATCH;
        (self.key, self.param, self.methods, self.named_twice) = (0, 0, 0, 0);
        (self.tool, self.prompt, self.resource) = (0, 0, 0);
    }
}

/// The rest of the word that a byte is in, and how many letters it begins with.
#[inline(always)]
fn letters_at<const N: usize>(words: &[u64; N], at: u32, end: u32) -> (u64, u32) {
    const { assert!(N.is_power_of_two()) };
    if at >= end {
        return (0, 0);
    }
    // Masked for the verifier. What is shifted in is no letter.
    let word = words[(at >> 3) as usize & (N - 1)] >> ((at & 7) << 3);
    (word, letters_in(word).min(end - at))
}

/// How many bytes of a word, from the lowest on, stand for themselves within a string: neither quote nor backslash, nor control
/// character, nor part of a longer character.
#[inline(always)]
fn letters_in(word: u64) -> u32 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGHEST: u64 = EACH << 7;
    let quote = word ^ (EACH * b'"' as u64);
    let backslash = word ^ (EACH * b'\\' as u64);
    // The highest bit of each byte that is below a number, by a subtraction of it; what that borrows can mark a byte more, but
    // only above one that is marked rightly. Bytes from 0x80 on are marked as they are.
    let low = word.wrapping_sub(EACH * b' ' as u64) | quote.wrapping_sub(EACH) | backslash.wrapping_sub(EACH);
    let others = (low | word) & HIGHEST;
    if others == 0 {
        return 8;
    }
    // One for the lowest bit of each byte up to the first that is marked.
    let up_to = others.wrapping_sub(1) & !others & EACH;
    (up_to.wrapping_mul(EACH) >> 56) as u32 - 1
}

#[cfg(test)]
mod tests;
