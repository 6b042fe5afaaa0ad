//! Bytes of one direction into frames.
//!
//! Two framings are understood, and a stream may mix them:
//! - a line for each message, as the stdio transport of MCP says (specification 2025-11-25, "Transports").
//!   LF ends a line, CRLF too; blanks before a message and blank lines do not count, nor does a byte order mark
//!   at the start of the stream;
//! - `Content-Length: N`, other headers, an empty line and a body of N bytes, as some servers still do.
//!
//! A line that starts with `{` or `[` is a frame, whether it is valid JSON or not. Any other line is junk, such
//! as log text on standard output; the stream goes on behind it. JSON that is spread over several lines without
//! a `Content-Length` is not MCP: its lines are frames or junk, each by itself.
//!
//! **Framing is not believed blindly.** The readers at the other end mostly know lines alone and skip what they
//! cannot parse, so that `Content-Length: 9999999` in front of ordinary lines would hide them from an observer
//! that counts bytes. So a body must start with `{` or `[`, and a line inside a body that is a whole JSON-RPC
//! message ends the body there. Where a body ends within a line and is no JSON by then, the line goes on: a length that is
//! too small hides nothing either.

mod header;
mod scan;

use mcpwarden_terms::Timestamp;

use header::{Header, HeaderLine};

/// Bounds of what a stream may make grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest frame, in bytes; longer ones are skipped and reported.
    pub max_frame_bytes: usize,
    /// Longest block of headers before a `Content-Length` body, in bytes.
    pub max_header_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_frame_bytes: 16 * 1024 * 1024, max_header_bytes: 8 * 1024 }
    }
}

/// What was cut out of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut<'a> {
    /// The JSON text of a message or a batch, perhaps invalid, without its framing and outer blanks.
    Frame {
        /// The text.
        bytes: &'a [u8],
        /// When the record that held its first byte was captured.
        time: Timestamp,
    },
    /// Bytes that are no frame: a line, or a piece of one that does not end.
    Junk {
        /// How many, the line feed included.
        bytes: u64,
        /// The first of them, 64 at most.
        sample: &'a [u8],
    },
    /// A frame over the bound was skipped.
    TooLong {
        /// How many bytes it had.
        bytes: u64,
    },
    /// The captured part of a frame that can never be completed: next to a gap, given up with
    /// [`FrameCutter::discard_pending`], or cut off by the end of the stream.
    Lost {
        /// How many bytes.
        bytes: u64,
    },
}

/// Longest sample in [`Cut::Junk`].
const SAMPLE_BYTES: usize = 64;
/// A junk line is reported in pieces of this size, so that one without an end is still heard of.
const JUNK_PIECE_BYTES: u64 = 64 * 1024;
/// A buffer that grew beyond this is freed after its frame: thousands of streams wait most of the time.
const KEPT_BUFFER_BYTES: usize = 4 * 1024;
const BOM: [u8; 3] = [0xEF, 0xBB, 0xBF];

#[derive(Clone, Copy, Debug)]
enum State {
    /// Between frames. `certain` is false behind a gap: this may be the middle of a line.
    Boundary { certain: bool },
    /// That many bytes of a byte order mark were seen at the start of the stream.
    Mark { seen: usize },
    /// In a line that starts with `{` or `[`; the buffer holds what came in earlier pushes.
    Line { certain: bool, time: Timestamp },
    /// In a block of headers; the buffer holds the unfinished line.
    Headers(Header),
    /// In a body of which `remaining` bytes are to come; `line_start` is where its current line starts in the
    /// buffer.
    Body { header_bytes: u64, remaining: usize, line_start: usize, time: Timestamp },
    /// In a line that is no frame.
    Junk { bytes: u64 },
    /// In a line over the bound.
    TooLong { bytes: u64 },
    /// In a line whose beginning was lost.
    Lost { bytes: u64 },
}

/// Cuts the bytes of one direction of one connection into frames.
///
/// Linear in the bytes pushed, whatever the pieces; a frame that lies within one push is not copied. The same
/// bytes give the same cuts, wherever they are split.
#[derive(Clone, Debug)]
pub struct FrameCutter {
    limits: Limits,
    state: State,
    at_start: bool,
    buffer: Vec<u8>,
    sample: [u8; SAMPLE_BYTES],
    sampled: usize,
}

impl FrameCutter {
    /// A cutter at the beginning of a stream.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            state: State::Boundary { certain: true },
            at_start: true,
            buffer: Vec::new(),
            sample: [0; SAMPLE_BYTES],
            sampled: 0,
        }
    }

    /// Takes the next bytes of the stream, captured at `time`, and calls `sink` for everything they complete.
    pub fn push(&mut self, bytes: &[u8], time: Timestamp, sink: &mut impl FnMut(Cut<'_>)) {
        let mut rest = bytes;
        while !rest.is_empty() {
            // Each step takes bytes or leads to a state that will.
            let used = match self.state {
                State::Boundary { certain } => self.boundary(certain, rest, time, sink),
                State::Mark { seen } => self.mark(seen, rest),
                State::Line { certain, time } => self.line(certain, time, rest, sink),
                State::Headers(header) => self.headers(header, rest, sink),
                State::Body { header_bytes, remaining, line_start, time: first } => {
                    let time = if self.buffer.is_empty() { time } else { first };
                    self.body(header_bytes, remaining, line_start, time, rest, sink)
                }
                State::Junk { bytes } => self.junk(bytes, rest, sink),
                State::TooLong { bytes } => self.skip(bytes, rest, true, sink),
                State::Lost { bytes } => self.skip(bytes, rest, false, sink),
            };
            rest = rest.get(used..).unwrap_or_default();
        }
    }

    /// `bytes` of the stream were lost here. The frame in progress is given up and the stream goes on at the
    /// next frame boundary. What follows is still a frame if it starts one and is whole: records are mostly lost
    /// by whole writes, and a write is mostly a message.
    pub fn gap(&mut self, bytes: u64, sink: &mut impl FnMut(Cut<'_>)) {
        if bytes == 0 {
            return;
        }
        self.give_up(sink);
        self.state = State::Boundary { certain: false };
        self.at_start = false;
    }

    /// Gives up the frame in progress to free its memory; the stream goes on at the next frame boundary.
    pub fn discard_pending(&mut self, sink: &mut impl FnMut(Cut<'_>)) {
        let next = match self.state {
            State::Line { .. } => State::Lost { bytes: 0 },
            State::Headers(_) | State::Body { .. } => State::Boundary { certain: false },
            // Nothing is held in the other states.
            _ => return,
        };
        self.give_up(sink);
        self.state = next;
    }

    /// The stream ended. A last frame without a line feed counts if it is whole.
    pub fn finish(&mut self, sink: &mut impl FnMut(Cut<'_>)) {
        let time = match self.state {
            State::Line { time, .. } | State::Body { time, .. } => Some(time),
            _ => None,
        };
        let text = scan::trim(&self.buffer);
        match time {
            Some(time) if scan::value_end(text) == Some(text.len()) => sink(Cut::Frame { bytes: text, time }),
            _ => self.give_up(sink),
        }
        *self = Self::new(self.limits);
    }

    /// Bytes held of an unfinished frame. The allocation behind them can be twice that.
    pub fn pending_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Reports what is in progress as what it will never be more than, and frees it.
    fn give_up(&mut self, sink: &mut impl FnMut(Cut<'_>)) {
        let held = self.buffer.len() as u64;
        match self.state {
            State::Boundary { .. } => {}
            State::Mark { seen } => {
                sink(Cut::Junk { bytes: seen as u64, sample: BOM.get(..seen).unwrap_or(&BOM) })
            }
            State::Line { .. } => sink(Cut::Lost { bytes: held }),
            State::Body { header_bytes, .. } => sink(Cut::Lost { bytes: header_bytes + held }),
            State::Headers(header) => {
                let line = std::mem::take(&mut self.buffer);
                self.note_sample(&line);
                self.emit_junk(header.bytes + held, sink);
            }
            State::Junk { bytes } => self.emit_junk(bytes, sink),
            State::TooLong { bytes } => sink(Cut::TooLong { bytes }),
            State::Lost { bytes } if bytes > 0 => sink(Cut::Lost { bytes }),
            State::Lost { .. } => {}
        }
        self.buffer = Vec::new();
    }

    fn boundary(
        &mut self,
        mut certain: bool,
        bytes: &[u8],
        time: Timestamp,
        sink: &mut impl FnMut(Cut<'_>),
    ) -> usize {
        for (at, &byte) in bytes.iter().enumerate() {
            match byte {
                b'\n' => certain = true,
                b' ' | b'\t' | b'\r' => {}
                _ => {
                    self.state = match byte {
                        b'{' | b'[' => State::Line { certain, time },
                        b'c' | b'C' => State::Headers(Header::default()),
                        0xEF if self.at_start => State::Mark { seen: 0 },
                        _ if certain => State::Junk { bytes: 0 },
                        _ => State::Lost { bytes: 0 },
                    };
                    self.at_start = false;
                    self.sampled = 0;
                    let rest = bytes.get(at..).unwrap_or_default();
                    // Straight on in the most frequent case, so that a burst of lines costs one step each.
                    return match self.state {
                        State::Line { .. } => at + self.line(certain, time, rest, sink),
                        _ => at,
                    };
                }
            }
            self.at_start = false;
        }
        self.state = State::Boundary { certain };
        bytes.len()
    }

    fn mark(&mut self, seen: usize, bytes: &[u8]) -> usize {
        if bytes.first() != BOM.get(seen) {
            self.note_sample(BOM.get(..seen).unwrap_or(&BOM));
            self.state = State::Junk { bytes: seen as u64 };
            return 0;
        }
        let seen = seen + 1;
        self.state = if seen == BOM.len() { State::Boundary { certain: true } } else { State::Mark { seen } };
        1
    }

    fn line(
        &mut self,
        certain: bool,
        time: Timestamp,
        bytes: &[u8],
        sink: &mut impl FnMut(Cut<'_>),
    ) -> usize {
        let end = scan::line_feed(bytes);
        let piece = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or(bytes);
        if self.buffer.len() + piece.len() > self.limits.max_frame_bytes {
            self.state = State::TooLong { bytes: self.buffer.len() as u64 };
            self.buffer = Vec::new();
            return 0;
        }
        let Some(end) = end else {
            self.buffer.extend_from_slice(piece);
            self.state = State::Line { certain, time };
            return bytes.len();
        };
        if self.buffer.is_empty() {
            self.end_line(piece, certain, time, sink);
        } else {
            self.buffer.extend_from_slice(piece);
            let held = std::mem::take(&mut self.buffer);
            self.end_line(&held, certain, time, sink);
            // A header that followed on the same line is in the buffer by now and is gone when it is not read.
            self.reuse(held);
        }
        end + 1
    }

    /// A line that starts with `{` or `[` is whole.
    fn end_line(&mut self, line: &[u8], certain: bool, time: Timestamp, sink: &mut impl FnMut(Cut<'_>)) {
        self.state = State::Boundary { certain: true };
        let text = scan::trim(line);
        let closed = matches!(text.last(), Some(b'}' | b']'));
        if closed && certain {
            sink(Cut::Frame { bytes: text, time });
            return;
        }
        // Either the end is odd or the beginning is not certain: only now is it worth reading the line.
        let value = scan::value_end(text);
        if let Some(end) = value
            && let Some(tail) = text.get(end..)
            && Header::starts(tail)
        {
            // A body without a line feed, and the header of the next: a stream in the middle of which we began.
            sink(Cut::Frame { bytes: text.get(..end).unwrap_or(text), time });
            self.sampled = 0;
            self.note_sample(tail);
            let mut header = Header::default();
            header.bytes = tail.len() as u64 + 1;
            self.state = match header.line(tail) {
                HeaderLine::More => State::Headers(header),
                _ => {
                    self.emit_junk(header.bytes, sink);
                    State::Boundary { certain: true }
                }
            };
        } else if certain || value == Some(text.len()) {
            sink(Cut::Frame { bytes: text, time });
        } else {
            sink(Cut::Lost { bytes: line.len() as u64 + 1 });
        }
    }

    fn headers(&mut self, mut header: Header, bytes: &[u8], sink: &mut impl FnMut(Cut<'_>)) -> usize {
        let first = bytes.first().copied().unwrap_or_default();
        if self.buffer.is_empty() && matches!(first, b'{' | b'[') {
            // No header, nor the empty line after the last: what came before was text.
            self.emit_junk(header.bytes, sink);
            self.state = State::Boundary { certain: true };
            return 0;
        }
        let end = scan::line_feed(bytes);
        let used = end.map_or(bytes.len(), |at| at + 1);
        let room = (self.limits.max_header_bytes as u64)
            .saturating_sub(header.bytes)
            .saturating_sub(self.buffer.len() as u64);
        if used as u64 > room {
            let held = std::mem::take(&mut self.buffer);
            self.note_sample(&held);
            self.state = State::Junk { bytes: header.bytes + held.len() as u64 };
            return 0;
        }
        self.buffer.extend_from_slice(bytes.get(..used).unwrap_or(bytes));
        if end.is_none() {
            self.state = State::Headers(header);
            return used;
        }
        let held = std::mem::take(&mut self.buffer);
        self.note_sample(&held);
        header.bytes += held.len() as u64;
        self.state = match header.line(&held) {
            HeaderLine::More => State::Headers(header),
            HeaderLine::Body(length) if length <= self.limits.max_frame_bytes => State::Body {
                header_bytes: header.bytes,
                remaining: length,
                line_start: 0,
                time: Timestamp::default(),
            },
            // A body over the bound is not waited for: its length may be a lie. It will be too long as a line.
            HeaderLine::Body(_) | HeaderLine::Text => {
                self.emit_junk(header.bytes, sink);
                State::Boundary { certain: true }
            }
        };
        self.reuse(held);
        used
    }

    fn body(
        &mut self,
        header_bytes: u64,
        remaining: usize,
        line_start: usize,
        time: Timestamp,
        bytes: &[u8],
        sink: &mut impl FnMut(Cut<'_>),
    ) -> usize {
        let body = bytes.get(..remaining.min(bytes.len())).unwrap_or(bytes);
        let blanks = if self.buffer.is_empty() { scan::leading_blanks(body) } else { 0 };
        let body = body.get(blanks..).unwrap_or_default();
        let remaining = remaining - blanks;
        if remaining == 0 {
            self.state = State::Boundary { certain: true };
            return blanks;
        }
        let Some(&first) = body.first() else {
            self.state = State::Body { header_bytes, remaining, line_start, time };
            return blanks;
        };
        if self.buffer.is_empty() && !matches!(first, b'{' | b'[') {
            self.emit_junk(header_bytes, sink);
            self.state = State::Boundary { certain: true };
            return blanks;
        }
        if self.buffer.is_empty() && body.len() == remaining {
            let text = scan::trim(body);
            if scan::line_feed(text).is_none() && scan::is_json(text) {
                self.state = State::Boundary { certain: true };
                sink(Cut::Frame { bytes: text, time });
                return blanks + body.len();
            }
        }
        let feed = scan::line_feed(body);
        let piece = body.get(..feed.map_or(body.len(), |at| at + 1)).unwrap_or(body);
        self.buffer.extend_from_slice(piece);
        let remaining = remaining - piece.len();
        let used = blanks + piece.len();
        let line = self.buffer.get(line_start..).unwrap_or_default();
        if remaining == 0 && scan::starts_value(line) && !scan::is_json(&self.buffer) {
            // The body ends within a line: whoever reads lines reads on, and so do we.
            if line_start > 0 {
                self.emit_junk(header_bytes + line_start as u64, sink);
                self.buffer.drain(..line_start);
            }
            self.state = State::Line { certain: true, time };
        } else if remaining == 0 {
            let held = std::mem::take(&mut self.buffer);
            sink(Cut::Frame { bytes: scan::trim(&held), time });
            self.state = State::Boundary { certain: true };
            self.reuse(held);
        } else if feed.is_some() && scan::is_message(line) {
            let held = std::mem::take(&mut self.buffer);
            if line_start > 0 {
                self.emit_junk(header_bytes + line_start as u64, sink);
            }
            sink(Cut::Frame { bytes: scan::trim(held.get(line_start..).unwrap_or(&held)), time });
            self.state = State::Boundary { certain: true };
            self.reuse(held);
        } else {
            let line_start = if feed.is_some() { self.buffer.len() } else { line_start };
            self.state = State::Body { header_bytes, remaining, line_start, time };
        }
        used
    }

    fn junk(&mut self, before: u64, bytes: &[u8], sink: &mut impl FnMut(Cut<'_>)) -> usize {
        // `before` can be over the size of a piece only behind a header block as long as that.
        let room = usize::try_from(JUNK_PIECE_BYTES.saturating_sub(before)).unwrap_or(usize::MAX).max(1);
        let bytes = bytes.get(..room.min(bytes.len())).unwrap_or(bytes);
        let end = scan::line_feed(bytes);
        let used = end.map_or(bytes.len(), |at| at + 1);
        self.note_sample(bytes.get(..used).unwrap_or(bytes));
        let total = before + used as u64;
        if end.is_some() {
            self.emit_junk(total, sink);
            self.state = State::Boundary { certain: true };
        } else if total >= JUNK_PIECE_BYTES {
            self.emit_junk(total, sink);
            self.state = State::Junk { bytes: 0 };
        } else {
            self.state = State::Junk { bytes: total };
        }
        used
    }

    fn skip(&mut self, before: u64, bytes: &[u8], long: bool, sink: &mut impl FnMut(Cut<'_>)) -> usize {
        let end = scan::line_feed(bytes);
        let total = before + end.unwrap_or(bytes.len()) as u64;
        match (end, long) {
            (Some(_), true) => sink(Cut::TooLong { bytes: total }),
            (Some(_), false) => sink(Cut::Lost { bytes: total + 1 }),
            (None, true) => self.state = State::TooLong { bytes: total },
            (None, false) => self.state = State::Lost { bytes: total },
        }
        if end.is_some() {
            self.state = State::Boundary { certain: true };
        }
        end.map_or(bytes.len(), |at| at + 1)
    }

    fn note_sample(&mut self, bytes: &[u8]) {
        for (slot, &byte) in self.sample.iter_mut().skip(self.sampled).zip(bytes) {
            *slot = byte;
            self.sampled += 1;
        }
    }

    fn emit_junk(&mut self, bytes: u64, sink: &mut impl FnMut(Cut<'_>)) {
        if bytes > 0 {
            sink(Cut::Junk { bytes, sample: self.sample.get(..self.sampled).unwrap_or_default() });
        }
        self.sampled = 0;
    }

    /// Keeps an emptied buffer for the next frame, unless it is big.
    fn reuse(&mut self, mut held: Vec<u8>) {
        if self.buffer.capacity() == 0 && held.capacity() <= KEPT_BUFFER_BYTES {
            held.clear();
            self.buffer = held;
        }
    }
}

#[cfg(test)]
mod tests;
