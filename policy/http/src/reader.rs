//! Bytes of one direction into heads and bodies (RFC 9112): where each begins and ends, and nothing of what it says.

use super::Uninspected;

/// How a body ends (RFC 9112, section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// After that many bytes; 0: there is none.
    Length(u64),
    /// With the chunk of size 0.
    Chunked,
    /// With the connection.
    Close,
}

/// What comes next.
#[derive(Debug)]
pub(super) enum Step<'a> {
    /// Nothing without more bytes.
    More,
    /// A whole head; [`Reader::begin`] says how it goes on.
    Head(Vec<u8>),
    /// A piece of the body.
    Body(&'a [u8]),
    /// The body is whole.
    End,
    /// What begins here is no text; perhaps a frame of HTTP/2. [`Reader::buffer`] has as many bytes as each frame begins with.
    Binary,
    /// This cannot be read, from here on.
    Fault(Uninspected),
}

/// What a gap did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// It lies within a body, whose end is known all the same.
    Inside,
    /// Nobody knows where in the stream this is.
    Lost,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Before or in a head, the beginning of which the buffer holds; its current line starts at `line`.
    Head { line: usize },
    /// In a body that has so many bytes more.
    Length(u64),
    /// In a chunked body.
    Chunked(Chunk),
    /// In a body that the end of the connection ends.
    Close,
    /// Behind a gap, that many bytes ago.
    Lost { bytes: u64 },
}

/// Where in a chunked body (RFC 9112, section 7.1).
#[derive(Clone, Copy, Debug)]
enum Chunk {
    /// In the digits of the size.
    Size { value: u64, digits: bool },
    /// Between the digits and the end of the line: an extension, which nobody reads.
    Extension { value: u64 },
    /// At the line feed behind the size.
    SizeEnd { value: u64 },
    /// In the data, so many bytes of which are to come.
    Data(u64),
    /// At the carriage return behind the data.
    DataReturn,
    /// At the line feed behind the data.
    DataEnd,
    /// In the trailers, of which there were so many bytes; whether the line is empty so far.
    Trailer { bytes: usize, empty: bool },
}

/// How many bytes of what is no text are to be seen: those that each frame of HTTP/2 begins with.
pub(super) const BINARY_BYTES: usize = 9;
/// What the length of a frame of HTTP/2 begins with: none is of 64 KiB that a connection begins with.
const BINARY: u8 = 0;

const SIZE: Chunk = Chunk::Size { value: 0, digits: false };

/// Which of the two grammars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Requests,
    Answers,
}

/// Reads one direction. What it gives does not depend on how the bytes are cut, but behind a gap.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    side: Side,
    head_bytes: usize,
    state: State,
    buffer: Vec<u8>,
}

impl Reader {
    /// At the beginning of a stream whose heads may have `head_bytes`.
    pub(super) fn new(side: Side, head_bytes: usize) -> Self {
        Self { side, head_bytes, state: State::Head { line: 0 }, buffer: Vec::new() }
    }

    /// Whether a message may begin here.
    pub(super) fn at_start(&self) -> bool {
        matches!(self.state, State::Head { .. }) && self.buffer.is_empty()
    }

    /// How many bytes were skipped since a gap behind which nothing could be read yet.
    pub(super) fn lost(&self) -> Option<u64> {
        match self.state {
            State::Lost { bytes } => Some(bytes),
            _ => None,
        }
    }

    /// Bytes held.
    pub(super) fn held(&self) -> usize {
        self.buffer.len()
    }

    /// What is held of what begins here.
    pub(super) fn buffer(&self) -> &[u8] {
        &self.buffer
    }

    /// The same, which is not held any more.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// A head was read; this is what follows it.
    pub(super) fn begin(&mut self, framing: Framing) {
        self.state = match framing {
            Framing::Length(bytes) => State::Length(bytes),
            Framing::Chunked => State::Chunked(SIZE),
            Framing::Close => State::Close,
        };
    }

    /// There is no body after all: what comes is a head.
    pub(super) fn restart(&mut self) {
        self.buffer.clear();
        self.state = State::Head { line: 0 };
    }

    /// Takes from the front of `rest` what belongs to the next step.
    pub(super) fn step<'a>(&mut self, rest: &mut &'a [u8]) -> Step<'a> {
        match self.state {
            State::Head { line } => self.head(line, rest),
            State::Length(0) => {
                self.restart();
                Step::End
            }
            _ if rest.is_empty() => Step::More,
            State::Length(left) => {
                let piece = take(rest, left);
                self.state = State::Length(left - piece.len() as u64);
                Step::Body(piece)
            }
            State::Close => Step::Body(std::mem::take(rest)),
            State::Chunked(chunk) => self.chunk(chunk, rest),
            State::Lost { bytes } => {
                self.state = State::Lost { bytes: bytes + rest.len() as u64 };
                *rest = &[];
                Step::More
            }
        }
    }

    /// The stream ended. Whether it ended a body, and nothing is left unfinished.
    pub(super) fn finish(&mut self) -> bool {
        let ended = matches!(self.state, State::Close);
        self.restart();
        ended
    }

    fn head<'a>(&mut self, mut line: usize, rest: &mut &'a [u8]) -> Step<'a> {
        while let Some(&first) = rest.first() {
            if self.buffer.is_empty()
                && let Err(why) = self.may_begin(first)
            {
                return Step::Fault(why);
            }
            if self.buffer.first().unwrap_or(&first) == &BINARY {
                return self.binary(rest);
            }
            let end = memchr::memchr(b'\n', rest);
            let piece = take(rest, end.map_or(u64::MAX, |end| end as u64 + 1));
            if self.buffer.len() + piece.len() > self.head_bytes {
                return Step::Fault(Uninspected::HeadTooLong);
            }
            self.buffer.extend_from_slice(piece);
            if end.is_none() {
                break;
            }
            let text = self.buffer.get(line..).unwrap_or_default();
            let text = text.strip_suffix(b"\n").unwrap_or(text);
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            match (text.is_empty(), line) {
                // Empty lines before a head do not count (RFC 9112, section 2.2).
                (true, 0) => self.buffer.clear(),
                (true, _) => {
                    self.state = State::Length(0);
                    return Step::Head(std::mem::take(&mut self.buffer));
                }
                (false, 0) if !is_first_line(self.side, text) => return Step::Fault(Uninspected::NotHttp),
                (false, _) => line = self.buffer.len(),
            }
        }
        self.state = State::Head { line };
        Step::More
    }

    fn binary<'a>(&mut self, rest: &mut &'a [u8]) -> Step<'a> {
        let missing = BINARY_BYTES.saturating_sub(self.buffer.len());
        self.buffer.extend_from_slice(take(rest, missing as u64));
        if self.buffer.len() < BINARY_BYTES { Step::More } else { Step::Binary }
    }

    /// Whether a head may begin with this: what is no HTTP at all is known by its first byte, mostly.
    fn may_begin(&self, first: u8) -> Result<(), Uninspected> {
        match (self.side, first) {
            (_, b'\r' | b'\n' | BINARY) | (Side::Answers, b'H') => Ok(()),
            (Side::Requests, byte) if byte.is_ascii_alphabetic() => Ok(()),
            // A record of TLS: a handshake, or an alert.
            (_, 0x15 | 0x16) => Err(Uninspected::Encrypted),
            _ => Err(Uninspected::NotHttp),
        }
    }

    fn chunk<'a>(&mut self, mut chunk: Chunk, rest: &mut &'a [u8]) -> Step<'a> {
        while let Some((&byte, after)) = rest.split_first() {
            chunk = match (chunk, byte) {
                (Chunk::Data(left), _) => {
                    let piece = take(rest, left);
                    let left = left - piece.len() as u64;
                    self.state =
                        State::Chunked(if left == 0 { Chunk::DataReturn } else { Chunk::Data(left) });
                    return Step::Body(piece);
                }
                (Chunk::Size { value, .. }, _) if byte.is_ascii_hexdigit() => {
                    let digit = char::from(byte).to_digit(16).unwrap_or_default();
                    // Leading zeros may be any number: only the value counts, for the readers at both ends too.
                    match value.checked_mul(16) {
                        Some(value) => Chunk::Size { value: value + u64::from(digit), digits: true },
                        None => return Step::Fault(Uninspected::Ambiguous),
                    }
                }
                (Chunk::Size { value, digits: true } | Chunk::Extension { value }, b'\r') => {
                    Chunk::SizeEnd { value }
                }
                (Chunk::Size { value, digits: true }, b';' | b' ' | b'\t') => Chunk::Extension { value },
                // A bare line feed ends the line for some readers and not for others: what follows is hidden from one.
                (Chunk::Extension { value }, byte) if byte != b'\n' => Chunk::Extension { value },
                (Chunk::SizeEnd { value: 0 }, b'\n') => Chunk::Trailer { bytes: 0, empty: true },
                (Chunk::SizeEnd { value }, b'\n') => Chunk::Data(value),
                (Chunk::DataReturn, b'\r') => Chunk::DataEnd,
                (Chunk::DataEnd, b'\n') => SIZE,
                (Chunk::Trailer { empty: true, .. }, b'\n') => {
                    *rest = after;
                    self.restart();
                    return Step::End;
                }
                (Chunk::Trailer { bytes, .. }, _) if bytes > self.head_bytes => {
                    return Step::Fault(Uninspected::HeadTooLong);
                }
                (Chunk::Trailer { bytes, .. }, b'\n') => Chunk::Trailer { bytes: bytes + 1, empty: true },
                (Chunk::Trailer { bytes, empty }, _) => {
                    Chunk::Trailer { bytes: bytes + 1, empty: empty && byte == b'\r' }
                }
                _ => return Step::Fault(Uninspected::Ambiguous),
            };
            *rest = after;
        }
        self.state = State::Chunked(chunk);
        Step::More
    }

    /// `bytes` were not captured here; 0: nobody knows how many. What is held of a head is given up.
    pub(super) fn gap(&mut self, bytes: u64) -> Damage {
        let (next, damage) = match self.state {
            State::Length(left) if bytes > 0 && bytes <= left => {
                (State::Length(left - bytes), Damage::Inside)
            }
            State::Chunked(Chunk::Data(left)) if bytes > 0 && bytes <= left => {
                let next = if bytes == left { Chunk::DataReturn } else { Chunk::Data(left - bytes) };
                (State::Chunked(next), Damage::Inside)
            }
            State::Close => (State::Close, Damage::Inside),
            State::Lost { .. } => (self.state, Damage::Lost),
            State::Chunked(_) | State::Head { .. } | State::Length(_) => {
                (State::Lost { bytes: 0 }, Damage::Lost)
            }
        };
        self.buffer = Vec::new();
        self.state = next;
        damage
    }

    /// Behind a gap: whether `piece`, which came as one, begins something that can be read. Pieces are whole writes
    /// mostly. Says how many bytes were skipped until here.
    pub(super) fn resume(&mut self, piece: &[u8]) -> Option<(Resumed, u64)> {
        let State::Lost { bytes } = self.state else { return None };
        let first_line = memchr::memchr(b'\n', piece).and_then(|end| piece.get(..end));
        let text = first_line.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        if text.is_some_and(|text| is_first_line(self.side, text)) {
            self.restart();
            return Some((Resumed::Message, bytes));
        }
        if self.side == Side::Answers && is_chunk_of_events(piece) {
            self.state = State::Chunked(SIZE);
            return Some((Resumed::Body, bytes));
        }
        None
    }
}

/// What begins behind a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resumed {
    /// A message.
    Message,
    /// A chunk of the body in which the gap was.
    Body,
}

fn take<'a>(rest: &mut &'a [u8], most: u64) -> &'a [u8] {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let (piece, after) = rest.split_at_checked(most).unwrap_or((rest, &[]));
    *rest = after;
    piece
}

/// Whether a line can be the first of a message. Of HTTP/2 it is the preface (RFC 9113, section 3.4).
fn is_first_line(side: Side, line: &[u8]) -> bool {
    let is_version = |version: &[u8]| matches!(version, b"HTTP/1.0" | b"HTTP/1.1");
    match side {
        Side::Requests => {
            let version = line.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
            line == b"PRI * HTTP/2.0" || (is_version(version) && line.len() > version.len() + 1)
        }
        Side::Answers => line.split_at_checked(8).is_some_and(|(version, _)| is_version(version)),
    }
}

/// Whether this begins with a size and a field of a server-sent event: servers write each event as one chunk, mostly.
fn is_chunk_of_events(piece: &[u8]) -> bool {
    let digits = piece.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let Some((_, data)) = piece.split_at_checked(digits).filter(|_| (1..=8).contains(&digits)) else {
        return false;
    };
    data.strip_prefix(b"\r\n").is_some_and(super::sse::is_field)
}
