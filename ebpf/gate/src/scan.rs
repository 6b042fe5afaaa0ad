//! The reader itself: one byte at a time, and [many at once](Scan::tokens) with the same result.
//!
//! Lines are messages, as the transport of MCP says, and every line break within one is told ([`Subject::broken`]): readers
//! differ in what they make of it (Python's text streams end a line at CR, JSON takes it for a blank, bodies behind a
//! `Content-Length` may have line feeds; for others a line ends at one of the [characters](line) that the engine knows). What stands before the first bracket of a line is skipped: a byte order mark,
//! headers, text. Keys that are there twice count each time, since readers differ in which of them they take, and so
//! do keys in another case, which some take for the same (`encoding/json` of Go).
//!
//! Strings are read as they are sent, escapes decoded to UTF-8; half a surrogate pair becomes U+FFFD, as in the engine.

mod arguments;
mod chunk;
mod decision;
mod escape;
mod line;
mod structure;
mod tokens;
mod words;

pub use chunk::{CHUNK_BYTES, Chunk};

use crate::table::{Subject, View};

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
const ARGUMENT_KEY: u8 = 6;
const ARGUMENT: u8 = 7;

/// The outermost value is an array.
const BATCH: u16 = 1;
/// Within a message.
const MESSAGE: u16 = 2;
/// Within the `params` of one.
const PARAMS: u16 = 4;
/// The next string is a key.
const EXPECT_KEY: u16 = 8;
/// The message has a name that is a string.
const NAMED: u16 = 16;
/// The same of a URI.
const LOCATED: u16 = 32;
/// The message has a method, or more: see [`Scan::methods`].
const ASKED: u16 = 64;
/// It has more than one, so that neutralizing one of them stops nothing.
const ASKED_TWICE: u16 = 128;
/// Within the `arguments` of a message, where these matter.
const ARGUMENTS: u16 = 1 << 8;
/// The message has `params` that are an object.
const HAS_PARAMS: u16 = 1 << 9;
/// Nobody can tell its arguments. (The bit above, so that the second `params` set it.)
const DOUBT: u16 = HAS_PARAMS << 1;
/// The message has `arguments`.
const HAS_ARGUMENTS: u16 = 1 << 11;
/// And they are an object.
const HAS_OBJECT: u16 = 1 << 12;
/// Its arguments decide, and it is known whose they are.
const DEFERRED: u16 = 1 << 13;

/// Most bytes of UTF-8 that one byte of JSON can complete: a lone surrogate's, and what follows it.
const MOST_AT_ONCE: usize = 6;

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
    flags: u16,
    /// What the texts of arguments tell, where that differs from what is so of a call without any.
    bits: u16,
    /// The bits of arguments whose keys were there.
    keyed: u16,
    /// The bits that were told.
    told: u16,
    /// How long the message is, about: [`Scan::expect`].
    length_units: u16,
    mode: u8,
    reads: u8,
    /// The last key of the message.
    key: u8,
    /// The last key of its `params`; within `arguments` 1 behind the key of one that matters, else 0.
    param: u8,
    /// The methods that the message has, by bits.
    methods: u8,
    /// Whether the message has more than one name or URI.
    named_twice: u8,
    /// Whether the table changed within the name at hand.
    stale: u8,
    /// How far a character is that ends a line for some readers: one of `line::…`.
    line: u8,
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
    /// Of an outcome that is [conditional](crate::CONDITIONAL): what the arguments tell.
    pub bits: u16,
    /// And of which of these bits nobody can tell, or not yet.
    pub unknown: u16,
}

const SILENT: Decision = Decision { outcome: 0, place: NOWHERE, is_call: false, bits: 0, unknown: 0 };

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
            if self.depth != 0 {
                self.flags |= DOUBT;
            }
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
        *self = Self { generation: self.generation, line: self.fresh_line(), ..Self::default() };
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
        if !self.is_between() && self.breaks(byte) {
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
}

#[cfg(test)]
mod tests;
