//! Many bytes at once: what is most of every message.

use super::words::{SMALL, all_letters, letters, unread_letters, unstructured};
use super::{
    ARGUMENTS, ASKED, BATCH, Chunk, Decision, EXPECT_KEY, HAS_PARAMS, HASH_PRIME, HASH_START, LOCATED,
    MESSAGE, METHOD, Marks, NAME, NAMED, NOTHING, NOWHERE, OUTSIDE, PARAMS, PLAIN, SILENT, Scan, URI,
};
use crate::table::{
    KEY_METHOD, KEY_NAME, KEY_PARAMS, KEY_URI, METHOD_OTHER, METHOD_PROMPT, METHOD_RESOURCE, METHOD_TOOL,
    Subject, View,
};

/// How often a string or a bracket is looked for, or eight bytes are passed over, in one call: the verifier goes through each.
const LOOKS: u32 = 16;
/// Most words of a name that are read in one call.
const NAME_WORDS: u32 = 4;
/// Most digits of an id that are passed over with its key.
const ID_DIGITS: u32 = 3;
/// Most bytes of a number, a word or blanks that are passed over in one call.
const DULL_BYTES: u32 = 8;

/// Phrases that most messages have, as nearly all who write them write them: each is known by a comparison or two. Where a phrase has
/// a word in part, its bytes are the highest.
mod phrase {
    /// `"jsonrpc":"2.0"`
    pub const VERSION: [u64; 2] = [word(b"\"jsonrpc"), word(b"\0\":\"2.0\"")];
    /// `"id":`
    pub const ID: u64 = word(b"\0\0\0\"id\":");
    /// `"method":"tools/call","params":{`
    pub const CALL: [u64; 4] =
        [word(b"\"method\""), word(b":\"tools/"), word(b"call\",\"p"), word(b"arams\":{")];
    /// Where the method ends in it.
    pub const METHOD_END: u32 = 20;
    /// `"name":"`
    pub const NAME: u64 = word(b"\"name\":\"");
    /// `,"arguments":{`
    pub const ARGUMENTS: [u64; 2] = [word(b",\"argume"), word(b"\0\0nts\":{")];

    const fn word(bytes: &[u8; 8]) -> u64 {
        u64::from_le_bytes(*bytes)
    }
}

/// Keys that matter, as they are read: their bytes, the first lowest, above those that a word has besides.
const METHOD_KEY: u64 = u64::from_le_bytes(*b"\0\0method");
const PARAMS_KEY: u64 = u64::from_le_bytes(*b"\0\0params");
const NAME_KEY: u64 = u64::from_le_bytes(*b"\0\0\0\0name");
const URI_KEY: u64 = u64::from_le_bytes(*b"\0\0\0\0\0uri");

/// Where to go on, and what is said of what was read.
type Read = (u32, Decision);

/// What comes next in a message or its `params`.
enum Next {
    /// Nothing that is known here, or what was read is all that one call reads.
    End(Read),
    /// A string that is read for nothing, from behind its quote on.
    Skipped(u32),
    /// Arguments, from behind their bracket on.
    Deep(u32),
    /// One that matters, from there on.
    Read(u32),
}

impl Scan {
    /// Reads on from the byte `at` of a chunk, which is at `place` of this write, and says where it stopped: at `at` where the
    /// next byte takes a [step](Self::step). The same as a step for each byte, of which only the last can have something to be
    /// said of it, for a fraction of what these take.
    #[inline(always)]
    pub fn tokens(
        &mut self,
        table: &View<'_>,
        subject: &Subject,
        marks: &mut Marks,
        chunk: &Chunk,
        at: u32,
        place: u32,
    ) -> Read {
        if self.is_in_line_end() {
            return (at, SILENT);
        }
        // Where the write begins, of which that may be before the chunk.
        let base = place.wrapping_sub(at);
        let (mut from, mut in_string) = (at, false);
        let mut is_deep = self.is_deep();
        if self.mode != OUTSIDE {
            // Half a surrogate pair is completed by what follows it.
            if self.mode != PLAIN || self.high != 0 {
                return (at, SILENT);
            }
            if self.reads != NOTHING {
                return self.read_string(table, subject, marks, chunk, at, base);
            }
            in_string = true;
        } else if !is_deep {
            match self.member(table, subject, marks, chunk, at, base) {
                Next::End(read) => return read,
                Next::Read(at) => return self.read_string(table, subject, marks, chunk, at, base),
                Next::Skipped(at) => (from, in_string) = (at, true),
                Next::Deep(at) => (from, is_deep) = (at, true),
            }
        }
        // In one place: the verifier goes through it once.
        (self.skip(chunk, from, in_string, is_deep), SILENT)
    }

    /// Whether nothing matters here but where strings end and how deep brackets are.
    #[inline(always)]
    fn is_deep(&self) -> bool {
        let outmost = if self.flags & ARGUMENTS != 0 {
            4
        } else if self.flags & PARAMS != 0 {
            3
        } else {
            2
        };
        // Where there is no message the level can be one below 0.
        let level = self.level();
        self.flags & (EXPECT_KEY | MESSAGE) == MESSAGE && level >= outmost
    }

    /// How many brackets are open, without that of a batch.
    #[inline(always)]
    fn level(&self) -> u32 {
        self.depth.wrapping_sub((self.flags & BATCH) as u32)
    }

    /// Passes over what matters to nobody, to the end of the string at hand, or, where there is nothing else so deep within a
    /// message, to where it is not so deep any more.
    #[inline(always)]
    fn skip(&mut self, chunk: &Chunk, mut at: u32, mut in_string: bool, is_deep: bool) -> u32 {
        let outmost = 3 + (self.flags & BATCH) as u32 + (self.flags & ARGUMENTS != 0) as u32;
        let mut depth = self.depth;
        for _ in 0..LOOKS {
            let word = chunk.word(at);
            let passed = if in_string { unread_letters(word) } else { unstructured(word) };
            at += passed;
            if passed >= 8 {
                if in_string && all_letters(chunk.word(at), chunk.next_word(at)) {
                    at += 16;
                }
                continue;
            }
            let byte = (word >> (passed << 3)) as u8;
            if in_string {
                if byte == b'"' {
                    in_string = false;
                    at += 1;
                    if !is_deep {
                        break;
                    }
                } else if byte == b'\\' && matches!(chunk.byte(at + 1), b' '..0x80) {
                    at += 2;
                } else {
                    break;
                }
            } else if byte == b'"' {
                in_string = true;
                at += 1;
            } else if byte | 0x20 == b'{' {
                depth = depth.wrapping_add(1);
                at += 1;
            } else if byte | 0x20 == b'}' {
                depth = depth.wrapping_sub(1);
                at += 1;
                if depth < outmost {
                    break;
                }
            } else {
                break;
            }
        }
        self.depth = depth;
        self.mode = if in_string { PLAIN } else { OUTSIDE };
        self.reads = NOTHING;
        at
    }

    /// Reads on in a message or its `params`: a key and the beginning of what it is the key of, or the end.
    #[inline(always)]
    fn member(
        &mut self,
        table: &View<'_>,
        subject: &Subject,
        marks: &mut Marks,
        chunk: &Chunk,
        mut at: u32,
        base: u32,
    ) -> Next {
        let mut word = chunk.word(at);
        if self.level() == 0 && word as u8 == b'{' {
            self.begin_message(marks);
            at += 1;
            word = chunk.word(at);
        }
        let (mut level, mut flags) = (self.level(), self.flags);
        if flags & MESSAGE == 0 || !(level == 1 || flags & PARAMS != 0 && level == 2) {
            return Next::End((at, SILENT));
        }
        if is_dull(word as u8) {
            for _ in 0..DULL_BYTES {
                at += 1;
                word >>= 8;
                if !is_dull(word as u8) {
                    break;
                }
            }
            word = chunk.word(at);
        }
        if level == 2 && [word, chunk.next_word(at) << 16] == phrase::ARGUMENTS {
            if subject.arguments != 0 {
                self.has_arguments();
                self.open_arguments();
                self.depth = self.depth.wrapping_add(1);
                return Next::End((at + 14, SILENT));
            }
            self.param = 0;
            self.flags = flags & !EXPECT_KEY;
            self.depth = self.depth.wrapping_add(1);
            return Next::Deep(at + 14);
        }
        match word as u8 {
            b',' => {
                flags |= EXPECT_KEY;
                at += 1;
                word = chunk.word(at);
            }
            b':' => {
                flags &= !EXPECT_KEY;
                at += 1;
                word = chunk.word(at);
            }
            b'}' | b']' => {
                if level == 2 {
                    self.end_params();
                    at += 1;
                    if chunk.byte(at) != b'}' {
                        return Next::End((at, SILENT));
                    }
                }
                let said = self.end_message(table, subject, marks);
                self.forget_message();
                self.close_bracket();
                at += 1;
                // Between messages it is nothing.
                if self.depth == 0 && chunk.byte(at) == b'\n' {
                    at += 1;
                }
                return Next::End((at, said));
            }
            _ => {}
        }
        self.flags = flags;
        if flags & EXPECT_KEY != 0 {
            if level == 1 {
                if [word, chunk.next_word(at) << 8] == phrase::VERSION {
                    self.key = 0;
                    flags &= !EXPECT_KEY;
                    at += 15;
                    if chunk.byte(at) == b',' {
                        flags |= EXPECT_KEY;
                        at += 1;
                    }
                    word = chunk.word(at);
                }
                if flags & EXPECT_KEY != 0 && word << 24 == phrase::ID {
                    self.key = 0;
                    flags &= !EXPECT_KEY;
                    at += 5;
                    word >>= 40;
                    for _ in 0..ID_DIGITS {
                        if !(word as u8).is_ascii_digit() {
                            break;
                        }
                        at += 1;
                        word >>= 8;
                    }
                    if chunk.byte(at) == b',' {
                        flags |= EXPECT_KEY;
                        at += 1;
                    }
                    word = chunk.word(at);
                }
                if flags & (EXPECT_KEY | ASKED | NAMED | LOCATED) == EXPECT_KEY
                    && [word, chunk.next_word(at), chunk.word(at + 16), chunk.next_word(at + 16)]
                        == phrase::CALL
                    && subject.any[METHOD_TOOL as usize] == 0
                {
                    marks.method = base.wrapping_add(at + phrase::METHOD_END - 1);
                    self.methods |= 1 << METHOD_TOOL;
                    (self.key, self.param) = (KEY_PARAMS as u8, 0);
                    self.depth = self.depth.wrapping_add(1);
                    flags |= ASKED | PARAMS | HAS_PARAMS | (flags & HAS_PARAMS) << 1;
                    at += 32;
                    word = chunk.word(at);
                    level = 2;
                }
                self.flags = flags;
            }
            if level == 2 && word == phrase::NAME {
                self.param = KEY_NAME as u8;
                self.flags = flags & !EXPECT_KEY;
                self.begin_name(NAME, subject.name, marks);
                return Next::Read(at + 8);
            }
            if flags & EXPECT_KEY == 0 || word as u8 != b'"' {
                return Next::End((at, SILENT));
            }
            let key = chunk.word(at + 1);
            let length = letters(key);
            if length < 8 && (key >> (length << 3)) as u8 != b'"' {
                return Next::End((at, SILENT));
            }
            // It may be `arguments`.
            if length >= 8 && level == 2 && subject.arguments != 0 {
                return Next::End((at, SILENT));
            }
            let known = key_of(key, length, level);
            if level == 1 {
                self.key = known as u8;
            } else {
                self.param = known as u8;
            }
            if length >= 8 {
                return Next::Skipped(at + 9);
            }
            at += length + 2;
            word = chunk.word(at);
            if word as u8 != b':' {
                return Next::End((at, SILENT));
            }
            self.flags = flags & !EXPECT_KEY;
            at += 1;
            word >>= 8;
        }
        match word as u8 {
            b'"' => {}
            b'{' => {
                self.open_brace(subject);
                return Next::End((at + 1, SILENT));
            }
            b'[' => {
                self.depth = self.depth.wrapping_add(1);
                return Next::End((at + 1, SILENT));
            }
            _ => return Next::End((at, SILENT)),
        }
        if level == 1 {
            if u16::from(self.key) == KEY_METHOD {
                return Next::End(self.method(subject, marks, chunk, at + 1, base));
            }
            return Next::Skipped(at + 1);
        }
        match u16::from(self.param) {
            KEY_NAME => self.begin_name(NAME, subject.name, marks),
            KEY_URI => self.begin_name(URI, subject.uri, marks),
            _ => return Next::Skipped(at + 1),
        }
        Next::Read(at + 1)
    }

    /// The first quote of a name or a URI.
    #[inline(always)]
    fn begin_name(&mut self, reads: u8, state: u16, marks: &mut Marks) {
        marks.name = NOWHERE;
        if reads == NAME {
            self.hash = HASH_START;
        }
        (self.mode, self.reads, self.state) = (PLAIN, reads, state);
        (self.length, self.high, self.stale) = (0, 0, 0);
    }

    /// Reads a whole method from behind its quote; one that is longer than two words, or has an escape in it, takes steps.
    #[inline(always)]
    fn method(&mut self, subject: &Subject, marks: &mut Marks, chunk: &Chunk, at: u32, base: u32) -> Read {
        let (first, second) = (chunk.word(at), chunk.next_word(at));
        let mut length = letters(first);
        let mut last = first;
        if length >= 8 {
            length = letters(second);
            last = second;
            if length >= 8 {
                return (at - 1, SILENT);
            }
            last >>= length << 3;
            length += 8;
        } else {
            last >>= length << 3;
        }
        if last as u8 != b'"' {
            return (at - 1, SILENT);
        }
        const TOOLS: u64 = u64::from_le_bytes(*b"tools/ca");
        const PROMPTS: u64 = u64::from_le_bytes(*b"prompts/");
        const RESOURCES: u64 = u64::from_le_bytes(*b"resource");
        // Above what the second word has besides.
        let rest = second << (((16 - length) & 7) << 3);
        let method = match (length, first) {
            (10, TOOLS) if rest == u64::from_le_bytes(*b"\0\0\0\0\0\0ll") => METHOD_TOOL,
            (11, PROMPTS) if rest == u64::from_le_bytes(*b"\0\0\0\0\0get") => METHOD_PROMPT,
            (14, RESOURCES) if rest == u64::from_le_bytes(*b"\0\0s/read") => METHOD_RESOURCE,
            _ => METHOD_OTHER,
        };
        let end = at + length;
        marks.method = if length == 0 { NOWHERE } else { base.wrapping_add(end - 1) };
        (end + 1, self.close_method(method, subject, marks))
    }

    /// Reads on in a string that matters, and its closing quote.
    #[inline(always)]
    fn read_string(
        &mut self,
        table: &View<'_>,
        subject: &Subject,
        marks: &mut Marks,
        chunk: &Chunk,
        mut at: u32,
        base: u32,
    ) -> Read {
        let from = at;
        let (mut state, mut hash) = (self.state, self.hash);
        for _ in 0..NAME_WORDS {
            let mut word = chunk.word(at);
            let count = letters(word);
            for index in 0..8 {
                if index >= count {
                    break;
                }
                state = table.next(state, word as u8);
                hash = (hash ^ word & 0xFF).wrapping_mul(HASH_PRIME);
                word >>= 8;
            }
            at += count;
            if count < 8 {
                break;
            }
        }
        self.state = state;
        if self.reads == NAME {
            self.hash = hash;
        }
        let count = at - from;
        self.length = self.length.saturating_add(count as u16);
        if count > 0 {
            let last = base.wrapping_add(at - 1);
            match self.reads {
                METHOD => marks.method = last,
                NAME | URI => marks.name = last,
                _ => {}
            }
        }
        if chunk.byte(at) != b'"' {
            return (at, SILENT);
        }
        (at + 1, self.close(table, subject, marks))
    }
}

/// Which of the keys that matter a word begins with, in any case: with one of `length` letters and a quote.
#[inline(always)]
fn key_of(word: u64, length: u32, level: u32) -> u16 {
    // Capitals are the same bytes without one bit, and none of these bytes has another that is so.
    let small = word | SMALL;
    match (level, length) {
        (1, 6) if small << 16 == METHOD_KEY => KEY_METHOD,
        (1, 6) if small << 16 == PARAMS_KEY => KEY_PARAMS,
        (2, 4) if small << 32 == NAME_KEY => KEY_NAME,
        (2, 3) if small << 40 == URI_KEY => KEY_URI,
        _ => 0,
    }
}

/// Whether a byte outside of strings changes nothing: a blank, part of a number or a word.
#[inline(always)]
fn is_dull(byte: u8) -> bool {
    matches!(byte, b' '..0x80) && !matches!(byte, b'"' | b',' | b':' | b'[' | b']' | b'{' | b'}')
}
