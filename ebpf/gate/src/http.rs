//! Where the bodies of requests lie in what a client writes over HTTP/1.1 (RFC 9112), one byte at a time.
//!
//! A body is a message, or a batch of them, for [`Scan`](crate::Scan); what is around it is skipped here. Like the scanner it allocates
//! nothing, it cannot panic, and what it remembers is one plain struct, kept per connection: requests are the same however they are cut
//! into writes, and however many follow each other.
//!
//! What two readers could read in two ways is a [fault](Fault), and everything behind it: a body that one of them takes for another
//! request would hide a call from the gate. The engine's reader (`mcpwarden-http`) reads some of these, where what a client does is only
//! reported: lengths that are given twice, lines that end in a line feed alone. What both read, they read the same.

mod field;

use field::{Field, Name};

/// Most bytes of a request's line and headers together, and of the trailers behind a body. As the engine's reader has it.
pub const HEAD_BYTES: u32 = 64 * 1024;

/// The byte is one of a body: see [`HttpRequests::step`].
pub const BODY: u8 = 1;
/// The same of a body in a coding (`Content-Encoding`), which is not read.
pub const CODED: u8 = 2;
/// The request ends with this byte.
pub const END: u8 = 4;
/// The byte is one of the value of `Mcp-Name`.
pub const NAMES: u8 = 8;
/// Neither this byte nor what comes behind it can be read: see [`HttpRequests::fault`].
pub const FAULT: u8 = 16;

/// Why the requests of a connection cannot be read from somewhere on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// It is no request of HTTP/1.
    NotHttp = 1,
    /// It is the preface of HTTP/2 (RFC 9113, section 3.4).
    Http2 = 2,
    /// It is a tunnel (`CONNECT`).
    Tunnel = 3,
    /// Where the body ends, readers may see differently.
    Ambiguous = 4,
    /// The head is longer than [`HEAD_BYTES`].
    HeadTooLong = 5,
    /// Bytes are missing outside of a body whose length is known.
    Missing = 6,
}

/// Where in a request: [`HttpRequests::state`].
mod state {
    // From `LENGTH` on they are behind the head.

    /// Before its first byte.
    pub const START: u8 = 0;
    /// At the line feed of an empty line before it.
    pub const EMPTY: u8 = 1;
    pub const METHOD: u8 = 2;
    pub const TARGET: u8 = 3;
    pub const VERSION: u8 = 4;
    /// At the line feed of a line of the head.
    pub const LINE_END: u8 = 5;
    /// At the first byte of a line of the head.
    pub const LINE: u8 = 6;
    pub const NAME: u8 = 7;
    pub const VALUE: u8 = 8;
    /// At the line feed of the empty line behind the head.
    pub const HEAD_END: u8 = 9;
    /// In a body of a known length.
    pub const LENGTH: u8 = 10;
    /// At the first digit of a chunk's size; at another one; behind them; at the line feed.
    pub const SIZE: u8 = 11;
    pub const DIGITS: u8 = 12;
    pub const EXTENSION: u8 = 13;
    pub const SIZE_END: u8 = 14;
    /// In the data of a chunk; at the carriage return behind it; at the line feed.
    pub const DATA: u8 = 15;
    pub const DATA_RETURN: u8 = 16;
    pub const DATA_END: u8 = 17;
    /// At the first byte of a line of the trailers; within one; at its line feed; at that of the empty line behind them.
    pub const TRAILER: u8 = 18;
    pub const TRAILER_LINE: u8 = 19;
    pub const TRAILER_LINE_END: u8 = 20;
    pub const TRAILERS_END: u8 = 21;
    /// Nothing can be read any more.
    pub const FAULTY: u8 = 22;
}
use state::{
    DATA, DATA_END, DATA_RETURN, DIGITS, EMPTY, EXTENSION, FAULTY, HEAD_END, LENGTH, LINE, LINE_END, METHOD,
    NAME, SIZE, SIZE_END, START, TARGET, TRAILER, TRAILER_LINE, TRAILER_LINE_END, TRAILERS_END, VALUE,
    VERSION,
};

/// The head gives a length.
const HAS_LENGTH: u8 = 1;
/// It says that the body is in chunks.
const IS_CHUNKED: u8 = 2;
/// It names a coding.
const IS_CODED: u8 = 4;
/// The client waits for leave to send the body, or did not wait.
const EXPECTS: u8 = 8;
/// It is a request of HTTP/1.0.
const IS_OLD: u8 = 16;

/// All that is remembered of a connection between two bytes. All zeros at its beginning.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HttpRequests {
    /// Of the word at hand.
    hash: u64,
    /// How many bytes of the body, or of the chunk, are to come; in the head, and in the size of a chunk, what was read of that number.
    left: u64,
    /// Bytes of the head so far, or of the trailers.
    head: u32,
    /// One of `state::…`.
    state: u8,
    /// What the head says.
    flags: u8,
    /// Of which header the value is, one of `field::…`.
    field: u8,
    /// Where in that value, or in the version; of a stream that cannot be read, one of [`Fault`].
    at: u8,
}

impl HttpRequests {
    /// Reads the next byte: what it is, as a combination of [`BODY`], [`CODED`], [`END`], [`NAMES`] and [`FAULT`]; 0 for one of a head.
    #[inline(always)]
    pub fn step(&mut self, byte: u8) -> u8 {
        if self.flags & EXPECTS != 0 && self.state >= LENGTH {
            // A client that is refused leave may send its next request, or the body all the same (RFC 9110, section 10.1.1). JSON does
            // not begin with a letter; a request does.
            if byte.is_ascii_uppercase() {
                return self.fails(Fault::Ambiguous);
            }
            self.flags &= !EXPECTS;
        }
        match self.state {
            LENGTH => return self.body(START),
            DATA => return self.body(DATA_RETURN),
            FAULTY => return FAULT,
            _ => {}
        }
        if self.state != START {
            self.head = self.head.saturating_add(1);
            if self.head > HEAD_BYTES {
                return self.fails(Fault::HeadTooLong);
            }
        }
        match self.state {
            START | EMPTY | METHOD | TARGET | VERSION => self.first_line(byte),
            LINE_END | LINE | NAME | VALUE | HEAD_END => self.header(byte),
            _ => self.around_chunks(byte),
        }
    }

    /// `bytes` of the stream were not read. Whether it goes on as if they were: they belong to a body, or to a chunk, of a known length.
    #[inline(always)]
    pub fn skip(&mut self, bytes: u64) -> bool {
        if bytes == 0 || self.state == FAULTY {
            return self.state != FAULTY;
        }
        let is_within = self.state == LENGTH || self.state == DATA;
        if !is_within || bytes > self.left {
            self.fails(Fault::Missing);
            return false;
        }
        self.flags &= !EXPECTS;
        self.pass_body(bytes);
        true
    }

    /// Whether the next byte is one of a body.
    #[inline(always)]
    pub fn is_in_body(&self) -> bool {
        self.state == LENGTH || self.state == DATA
    }

    /// How many of the next bytes, of which this is the first, are of the body, whatever they are; 0 where they take a
    /// [step](Self::step) each: those of a head, of a body in a coding, and where nothing can be read.
    #[inline(always)]
    pub fn body_ahead(&mut self, first: u8) -> u64 {
        if !self.is_in_body() || self.flags & IS_CODED != 0 {
            return 0;
        }
        if self.flags & EXPECTS != 0 {
            if first.is_ascii_uppercase() {
                return 0;
            }
            self.flags &= !EXPECTS;
        }
        self.left
    }

    /// The same as a step for each of so many bytes, of which [`Self::body_ahead`] has told that they are of the body. Whether the
    /// request ends.
    #[inline(always)]
    pub fn pass_body(&mut self, bytes: u64) -> bool {
        self.left = self.left.saturating_sub(bytes);
        if self.left != 0 {
            return false;
        }
        if self.state == LENGTH {
            self.begin();
            return true;
        }
        self.state = DATA_RETURN;
        false
    }

    /// Whether a request may begin with the next byte.
    #[inline(always)]
    pub fn is_between(&self) -> bool {
        self.state == START
    }

    /// Why nothing can be read any more, where that is so.
    pub fn fault(&self) -> Option<Fault> {
        if self.state != FAULTY {
            return None;
        }
        Some(match self.at {
            2 => Fault::Http2,
            3 => Fault::Tunnel,
            4 => Fault::Ambiguous,
            5 => Fault::HeadTooLong,
            6 => Fault::Missing,
            _ => Fault::NotHttp,
        })
    }

    /// Nothing is read from here on.
    #[inline(always)]
    fn fails(&mut self, why: Fault) -> u8 {
        *self = Self { state: FAULTY, at: why as u8, ..Self::default() };
        FAULT
    }

    /// A request may begin.
    #[inline(always)]
    fn begin(&mut self) {
        *self = Self::default();
    }

    /// A byte of a body, behind the last of which comes `next`.
    #[inline(always)]
    fn body(&mut self, next: u8) -> u8 {
        let is = if self.flags & IS_CODED == 0 { BODY } else { CODED };
        self.left = self.left.saturating_sub(1);
        if self.left != 0 {
            return is;
        }
        if next == START {
            self.begin();
            return is | END;
        }
        self.state = next;
        is
    }

    /// A byte of a request's first line, or before it.
    #[inline(always)]
    fn first_line(&mut self, byte: u8) -> u8 {
        match (self.state, byte) {
            // Empty lines before it do not count (RFC 9112, section 2.2).
            (START, b'\r') => self.state = EMPTY,
            (EMPTY, b'\n') => self.begin(),
            (START, _) if byte.is_ascii_alphabetic() => {
                (self.state, self.head) = (METHOD, 1);
                self.hash = Name::default().with(byte).0;
            }
            (METHOD, b' ') => match Name(self.hash) {
                field::PRI => return self.fails(Fault::Http2),
                field::CONNECT => return self.fails(Fault::Tunnel),
                // How many bytes the target has.
                _ => (self.state, self.left) = (TARGET, 0),
            },
            (METHOD, _) if field::is_token(byte) => self.hash = Name(self.hash).with(byte).0,
            (TARGET, b' ') if self.left > 0 => (self.state, self.at) = (VERSION, 0),
            (TARGET, 0x21..=0x7E | 0x80..) => self.left += 1,
            (VERSION, _) => return self.version(byte),
            _ => return self.fails(Fault::NotHttp),
        }
        0
    }

    /// A byte of the version: `HTTP/1.0` or `HTTP/1.1`, and a carriage return.
    #[inline(always)]
    fn version(&mut self, byte: u8) -> u8 {
        /// The last letter is one of two.
        const EXPECTED: &[u8; 8] = b"HTTP/1.?";
        let is_right = match self.at {
            at @ 0..=6 => EXPECTED[at as usize & 7] == byte,
            7 => {
                self.flags |= if byte == b'0' { IS_OLD } else { 0 };
                byte == b'0' || byte == b'1'
            }
            _ => {
                self.state = LINE_END;
                byte == b'\r'
            }
        };
        if !is_right {
            return self.fails(Fault::NotHttp);
        }
        self.at = self.at.saturating_add(1);
        0
    }

    /// A byte of the headers.
    #[inline(always)]
    fn header(&mut self, byte: u8) -> u8 {
        match (self.state, byte) {
            (LINE_END, b'\n') => self.state = LINE,
            (LINE, b'\r') => self.state = HEAD_END,
            (HEAD_END, b'\n') => return self.head_ends(),
            (LINE, _) if field::is_token(byte) => {
                self.state = NAME;
                self.hash = Name::default().with(byte).0;
            }
            (NAME, b':') => return self.value_begins(),
            (NAME, _) if field::is_token(byte) => self.hash = Name(self.hash).with(byte).0,
            (VALUE, b'\r') => return self.value_ends(),
            (VALUE, b'\t' | 0x20..=0x7E | 0x80..) => return self.value(byte),
            // A folded line, a blank before the colon, a line feed alone, a control character.
            _ => return self.fails(Fault::Ambiguous),
        }
        0
    }

    /// Behind the colon of a header.
    #[inline(always)]
    fn value_begins(&mut self) -> u8 {
        self.state = VALUE;
        self.field = Field::of(Name(self.hash)) as u8;
        (self.hash, self.at) = (Name::default().0, field::BEFORE);
        let given = if self.field == Field::Length as u8 {
            self.left = 0;
            HAS_LENGTH
        } else if self.field == Field::Transfer as u8 {
            IS_CHUNKED
        } else {
            0
        };
        // Twice, or a length beside chunks.
        if given != 0 && self.flags & (HAS_LENGTH | IS_CHUNKED) != 0 {
            return self.fails(Fault::Ambiguous);
        }
        self.flags |= given;
        if self.field == Field::Expect as u8 {
            self.flags |= EXPECTS;
        }
        0
    }

    /// A byte of a header's value.
    #[inline(always)]
    fn value(&mut self, byte: u8) -> u8 {
        if self.field == Field::Other as u8 || self.field == Field::Expect as u8 {
            return 0;
        }
        let is_blank = byte == b' ' || byte == b'\t';
        if is_blank {
            if self.at == field::WITHIN {
                self.at = field::BEHIND;
            }
            return 0;
        }
        if self.field == Field::McpName as u8 {
            return NAMES;
        }
        // A blank within is part of no value that is known.
        if self.at == field::BEHIND {
            self.hash = Name(self.hash).with(b' ').0;
            if self.field == Field::Length as u8 {
                return self.fails(Fault::Ambiguous);
            }
        }
        self.at = field::WITHIN;
        if self.field == Field::Length as u8 {
            if !byte.is_ascii_digit() || self.left > MOST_BYTES {
                return self.fails(Fault::Ambiguous);
            }
            self.left = self.left * 10 + (byte - b'0') as u64;
        } else {
            self.hash = Name(self.hash).with(byte).0;
        }
        0
    }

    /// At the end of a header's line.
    #[inline(always)]
    fn value_ends(&mut self) -> u8 {
        let is_empty = self.at == field::BEFORE;
        let value = Name(self.hash);
        let is_right = match self.field {
            field if field == Field::Length as u8 => !is_empty,
            field if field == Field::Transfer as u8 => value == field::CHUNKED && self.flags & IS_OLD == 0,
            field if field == Field::Coding as u8 => {
                self.flags |= if is_empty || value == field::IDENTITY { 0 } else { IS_CODED };
                true
            }
            _ => true,
        };
        if !is_right {
            return self.fails(Fault::Ambiguous);
        }
        self.state = LINE_END;
        0
    }

    /// At the end of a head.
    #[inline(always)]
    fn head_ends(&mut self) -> u8 {
        if self.flags & IS_CHUNKED != 0 {
            (self.state, self.left, self.head) = (SIZE, 0, 0);
            return 0;
        }
        if self.flags & HAS_LENGTH != 0 && self.left != 0 {
            self.state = LENGTH;
            return 0;
        }
        self.begin();
        END
    }

    /// A byte before, between and behind the chunks of a body.
    #[inline(always)]
    fn around_chunks(&mut self, byte: u8) -> u8 {
        match (self.state, byte) {
            (SIZE | DIGITS, _) if byte.is_ascii_hexdigit() => {
                if self.left > MOST_BYTES {
                    return self.fails(Fault::Ambiguous);
                }
                let digit = if byte.is_ascii_digit() { byte - b'0' } else { (byte | 0x20) - b'a' + 10 };
                (self.state, self.left) = (DIGITS, self.left << 4 | digit as u64);
            }
            (DIGITS | EXTENSION, b'\r') => self.state = SIZE_END,
            // An extension, which nobody reads.
            (DIGITS, b';' | b' ' | b'\t') => self.state = EXTENSION,
            (EXTENSION, b'\t' | 0x20..=0x7E | 0x80..) => {}
            (SIZE_END, b'\n') => (self.state, self.head) = (if self.left == 0 { TRAILER } else { DATA }, 0),
            (DATA_RETURN, b'\r') => self.state = DATA_END,
            (DATA_END, b'\n') => (self.state, self.head) = (SIZE, 0),
            (TRAILER, b'\r') => self.state = TRAILERS_END,
            (TRAILERS_END, b'\n') => {
                self.begin();
                return END;
            }
            (TRAILER, _) if field::is_token(byte) => self.state = TRAILER_LINE,
            (TRAILER_LINE, b'\r') => self.state = TRAILER_LINE_END,
            (TRAILER_LINE, b'\t' | 0x20..=0x7E | 0x80..) => {}
            (TRAILER_LINE_END, b'\n') => self.state = TRAILER,
            _ => return self.fails(Fault::Ambiguous),
        }
        0
    }
}

/// Beyond this no number of bytes grows: one more digit fits, of either base.
const MOST_BYTES: u64 = 1 << 56;

#[cfg(test)]
mod tests;
