//! Bytes of one direction into frames.
//!
//! Two framings are specified, and a stream may mix them:
//! - a line for each message, as the stdio transport of MCP says (specification 2025-11-25, "Transports").
//!   LF ends a line, CRLF too; blanks before a message and blank lines do not count, nor does a byte order mark
//!   at the start of the stream;
//! - `Content-Length: N`, other headers, an empty line and a body of N bytes, as some servers still do.
//!
//! **The readers at the other end are not as strict**, and differ. So a frame is each text that one of them takes for a message:
//! - the object or array that a line begins with is a frame, whether it is valid JSON or not, as soon as it ends: readers of a
//!   stream do not wait for a line feed. What follows on the line is another frame, or junk, such as log text;
//! - where it does not end in its line, readers of lines fail on the line, which is a frame by itself (and invalid). Readers
//!   of a stream read on, and so `spread` takes the lines together beside that;
//! - CR, U+2028 and others end a line for some readers: what is between them is a frame too where it begins a line of text, and
//!   [`messages_within`] finds it in frames;
//! - a reader that fails on a line of text may read it again from its first bracket: a message behind text is a frame;
//! - characters that only some readers skip may stand before a frame; a stream may be UTF-16 with a byte order mark.
//!
//! Whatever only some readers would take is followed by [`Cut::Ambiguous`].
//!
//! **Framing is not believed blindly.** The readers at the other end mostly know lines alone and skip what they
//! cannot parse, so that `Content-Length: 9999999` in front of ordinary lines would hide them from an observer
//! that counts bytes. So a body must start with `{` or `[`, and a line inside a body that is a whole JSON-RPC
//! message ends the body there. Where a body ends within a line and is no JSON by then, the line goes on: a length that is
//! too small hides nothing either.

mod blank;
mod body;
mod header;
mod junk;
mod line;
mod scan;
mod spread;
mod utf16;
mod value;

use std::collections::HashSet;

use mcpwarden_terms::Timestamp;

use blank::LineEnds;
use header::Header;
use spread::Spread;
use utf16::{Decoded, Encoding};
use value::{Step, ValueScan};

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
    /// The frame before is one for some readers only.
    Ambiguous(Framing),
    /// The captured part of a frame that can never be completed: next to a gap, given up with
    /// [`FrameCutter::discard_pending`], or cut off by the end of the stream.
    Lost {
        /// How many bytes.
        bytes: u64,
    },
}

/// Why a frame is one for some readers only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Framing {
    /// It follows another frame on the same line.
    Joined,
    /// Text that is no frame follows it on the same line.
    TextBehind,
    /// Text that is no frame stands before it on the same line.
    TextBefore,
    /// It is spread over several lines.
    Spread,
    /// Its line begins or ends with something other than LF: CR, U+2028 and the like.
    LineEnd,
    /// Characters stand before it that JSON does not call white space.
    Blank,
    /// The stream is UTF-16.
    Utf16,
    /// It has comments, strings in single quotes or the like, which JSON does not have.
    Syntax,
    /// It, or a structure in it, is an array of its fields.
    Array,
}

impl Framing {
    /// A word for it, as it stands in events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Joined => "joined",
            Self::TextBehind => "text_behind",
            Self::TextBefore => "text_before",
            Self::Spread => "spread_over_lines",
            Self::LineEnd => "line_end",
            Self::Blank => "blank",
            Self::Utf16 => "utf16",
            Self::Syntax => "syntax",
            Self::Array => "array",
        }
    }
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
    /// Between frames.
    Boundary(Before),
    /// In what may become an unusual blank: `seen` bytes of it.
    Blank { before: Before, bytes: [u8; 2], seen: usize },
    /// In the object or array that a line begins with; the buffer holds what came in earlier pushes.
    Value { before: Before, scan: ValueScan, time: Timestamp },
    /// The same behind a gap, where it is a frame only if it is the whole line.
    Line { time: Timestamp },
    /// In a block of headers; the buffer holds the unfinished line.
    Headers(Header),
    /// In a body of which `remaining` bytes are to come; `line_start` is where its current line starts in the
    /// buffer.
    Body { header_bytes: u64, remaining: usize, line_start: usize, time: Timestamp },
    /// In a line that is no frame.
    Junk { bytes: u64, ends: LineEnds },
    /// Behind such a line, where something other than LF ends it. LF may follow.
    JunkEnd { bytes: u64 },
    /// In a value over the bound, or a line.
    TooLong { bytes: u64, scan: Option<ValueScan> },
    /// In a line whose beginning was lost.
    Lost { bytes: u64 },
}

/// What is in front of the next byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// The start of the stream or of a line.
    Line,
    /// The start of a line, by an unusual end of that before.
    OddLine,
    /// Blanks that not every reader skips, at the start of a line.
    OddBlank,
    /// Text that is no frame. What follows is a frame only if it is a message.
    Text,
    /// A frame on the same line.
    Frame,
    /// A gap: this may be the middle of a line.
    Gap,
}

impl Before {
    /// Why not every reader takes the frame that begins here.
    fn framing(self) -> Option<Framing> {
        match self {
            Self::Line | Self::Gap => None,
            Self::OddLine => Some(Framing::LineEnd),
            Self::OddBlank => Some(Framing::Blank),
            Self::Text => Some(Framing::TextBefore),
            Self::Frame => Some(Framing::Joined),
        }
    }
}

/// Cuts the bytes of one direction of one connection into frames.
///
/// Linear in the bytes pushed, whatever the pieces; a frame that lies within one push is not copied. The same
/// bytes give the same cuts, wherever they are split.
#[derive(Clone, Debug)]
pub struct FrameCutter {
    limits: Limits,
    state: State,
    encoding: Encoding,
    /// Whether nothing but a byte order mark came yet.
    at_start: bool,
    /// A value that goes on in further lines, for readers of a stream.
    spread: Option<Box<Spread>>,
    /// The same, of the line that was taken just now: it counts where no other goes on.
    begun: Option<Box<Spread>>,
    buffer: Vec<u8>,
    sample: [u8; SAMPLE_BYTES],
    sampled: usize,
}

impl FrameCutter {
    /// A cutter at the beginning of a stream.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            state: State::Boundary(Before::Line),
            encoding: Encoding::default(),
            at_start: true,
            spread: None,
            begun: None,
            buffer: Vec::new(),
            sample: [0; SAMPLE_BYTES],
            sampled: 0,
        }
    }

    /// Takes the next bytes of the stream, captured at `time`, and calls `sink` for everything they complete.
    pub fn push(&mut self, bytes: &[u8], time: Timestamp, sink: &mut impl FnMut(Cut<'_>)) {
        if bytes.is_empty() {
            return;
        }
        match self.encoding.decode(bytes) {
            Decoded::Same => self.push_utf8(bytes, time, sink),
            Decoded::Behind(held) => {
                self.push_utf8(&[held], time, sink);
                self.push_utf8(bytes, time, sink);
            }
            Decoded::Text(text) if self.encoding.is_utf16() => self.push_utf8(&text, time, &mut |cut| {
                sink(cut);
                if let Cut::Frame { .. } = cut {
                    sink(Cut::Ambiguous(Framing::Utf16));
                }
            }),
            Decoded::Text(_) => {}
        }
    }

    fn push_utf8(&mut self, bytes: &[u8], time: Timestamp, sink: &mut impl FnMut(Cut<'_>)) {
        let mut whole = bytes;
        while !whole.is_empty() {
            let was_spread = self.spread.is_some();
            // To where the other reader may find something, so that the order of what both find does not depend on how the bytes came.
            let rest = if was_spread { scan::up_to_end(whole) } else { whole };
            // Each step takes bytes or leads to a state that will.
            let used = match self.state {
                State::Boundary(before) => self.boundary(before, rest, time, sink),
                State::Blank { before, bytes, seen } => self.blank(before, (bytes, seen), rest, sink),
                State::Value { before, scan, time } => self.value(before, scan, time, rest, sink),
                State::Line { time } => self.line(time, rest, sink),
                State::Headers(header) => self.headers(header, time, rest, sink),
                State::Body { header_bytes, remaining, line_start, time: first } => {
                    let time = if self.buffer.is_empty() { time } else { first };
                    self.body(header_bytes, remaining, line_start, time, rest, sink)
                }
                State::Junk { bytes, ends } => self.junk(bytes, ends, rest, sink),
                State::JunkEnd { bytes } => self.junk_end(bytes, rest, sink),
                State::TooLong { bytes, scan: Some(scan) } => self.skip_value(bytes, scan, rest, sink),
                State::TooLong { bytes, scan: None } => self.skip(bytes, rest, true, sink),
                State::Lost { bytes } => self.skip(bytes, rest, false, sink),
            };
            let (taken, after) = whole.split_at(used.min(whole.len()));
            if was_spread {
                self.read_on(taken, time, sink);
            }
            self.spread = self.spread.take().or(self.begun.take());
            whole = after;
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
        self.spread = None;
        self.encoding.gap();
        self.state = State::Boundary(Before::Gap);
        self.at_start = false;
    }

    /// Gives up the frame in progress to free its memory; the stream goes on at the next frame boundary.
    pub fn discard_pending(&mut self, sink: &mut impl FnMut(Cut<'_>)) {
        self.spread = None;
        let next = match self.state {
            State::Value { .. } | State::Line { .. } => State::Lost { bytes: 0 },
            State::Headers(_) | State::Body { .. } => State::Boundary(Before::Gap),
            // Nothing is held in the other states.
            _ => return,
        };
        self.give_up(sink);
        self.state = next;
    }

    /// The stream ended. A last frame without a line feed counts if it is whole.
    pub fn finish(&mut self, sink: &mut impl FnMut(Cut<'_>)) {
        let time = match self.state {
            State::Line { time } | State::Body { time, .. } => Some(time),
            _ => None,
        };
        let text = scan::trim(&self.buffer);
        match time {
            Some(time) if scan::value_end(text) == Some(text.len()) => sink(Cut::Frame { bytes: text, time }),
            _ => self.give_up(sink),
        }
        *self = Self::new(self.limits);
    }

    /// Bytes held of unfinished frames. The allocation behind them can be twice that.
    pub fn pending_bytes(&self) -> usize {
        self.buffer.len() + self.spread.as_ref().map_or(0, |spread| spread.len())
    }

    /// Reports what is in progress as what it will never be more than, and frees it.
    fn give_up(&mut self, sink: &mut impl FnMut(Cut<'_>)) {
        let held = self.buffer.len() as u64;
        match self.state {
            State::Boundary(_) => {}
            State::Blank { bytes, seen, .. } => {
                sink(Cut::Junk { bytes: seen as u64, sample: bytes.get(..seen).unwrap_or_default() });
            }
            State::Value { time, .. } => {
                // Who ends lines at CR has read these by now.
                lines_within(&self.buffer, &mut to_some(time, sink));
                sink(Cut::Lost { bytes: held });
            }
            State::Line { .. } => sink(Cut::Lost { bytes: held }),
            State::Body { header_bytes, .. } => sink(Cut::Lost { bytes: header_bytes + held }),
            State::Headers(header) => {
                let line = std::mem::take(&mut self.buffer);
                self.note_sample(&line);
                self.emit_junk(header.bytes + held, sink);
            }
            State::Junk { bytes, .. } | State::JunkEnd { bytes } => self.emit_junk(bytes, sink),
            State::TooLong { bytes, .. } => sink(Cut::TooLong { bytes }),
            State::Lost { bytes } if bytes > 0 => sink(Cut::Lost { bytes }),
            State::Lost { .. } => {}
        }
        self.buffer = Vec::new();
    }

    /// Has the reader of a value that is spread over lines take what was taken.
    fn read_on(&mut self, taken: &[u8], time: Timestamp, sink: &mut impl FnMut(Cut<'_>)) {
        let Some(spread) = &mut self.spread else { return };
        if !spread.push(taken, time, &self.limits, sink) {
            self.spread = None;
        }
    }

    /// Takes bytes that were taken before, and held.
    fn again(&mut self, bytes: &[u8], time: Timestamp, sink: &mut impl FnMut(Cut<'_>)) {
        // It has them already.
        let spread = self.spread.take();
        self.push_utf8(bytes, time, sink);
        self.spread = spread.or(self.spread.take());
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

/// Other messages that some readers find in a frame, in the order of their beginnings: between what ends a line for them, and, of a frame
/// that is no JSON by itself, one behind the other. `is_json`: whether it is.
pub fn messages_within(frame: &[u8], is_json: bool, sink: &mut impl FnMut(&[u8], Framing)) {
    if !is_json {
        return cut_again(frame, sink);
    }
    lines_within(frame, sink);
}

/// Takes messages for frames of a stream, captured at `time`, that only some readers take.
fn to_some<'s, S: FnMut(Cut<'_>)>(
    time: Timestamp,
    sink: &'s mut S,
) -> impl FnMut(&[u8], Framing) + use<'s, S> {
    move |bytes, framing| {
        sink(Cut::Frame { bytes, time });
        sink(Cut::Ambiguous(framing));
    }
}

/// Messages in a frame or in text that begin and end a line for a reader to whom something other than LF ends one. Whether there are any.
fn lines_within(frame: &[u8], sink: &mut impl FnMut(&[u8], Framing)) -> bool {
    let whole = blank::trim(frame);
    let mut any = false;
    for line in blank::lines(frame).map(blank::trim) {
        if line.len() < whole.len() && scan::is_message(line) {
            any = true;
            sink(line, Framing::LineEnd);
        }
    }
    any
}

/// Cuts a frame that is no JSON as if it was a stream: it may be several values, or one and text.
fn cut_again(frame: &[u8], sink: &mut impl FnMut(&[u8], Framing)) {
    if let Some(text) = utf16::unmarked(frame).filter(|text| scan::is_message(text)) {
        return sink(&text, Framing::Utf16);
    }
    let limits = Limits { max_frame_bytes: frame.len(), max_header_bytes: 0 };
    let mut cutter = FrameCutter::new(limits);
    let mut within: Vec<Vec<u8>> = Vec::new();
    let mut framing = None;
    for piece in [frame, b"\n"] {
        cutter.push(piece, Timestamp::default(), &mut |cut| match cut {
            Cut::Frame { bytes, .. } if bytes.len() < frame.len() && scan::is_message(bytes) => {
                within.push(bytes.to_vec())
            }
            Cut::Ambiguous(found) => framing = framing.or(Some(found)),
            _ => {}
        });
    }
    for message in &within {
        sink(message, framing.unwrap_or(Framing::LineEnd));
    }
    // What looks like the beginning of a value hides from a reader of values what others find on a line of its own, or behind it.
    let known: HashSet<&[u8]> = within.iter().map(Vec::as_slice).collect();
    let any = lines_within(frame, &mut |line, framing| {
        if !known.contains(line) {
            sink(line, framing);
        }
    });
    if known.is_empty() && !any {
        behind_brackets(frame, sink);
    }
}

/// Most braces without an end behind which messages are looked for. Each costs a look at all that follows.
const MAX_UNCLOSED: usize = 4;

/// Messages behind brackets that open nothing: colours of a terminal (`ESC [ 0 m`), log lines.
fn behind_brackets(text: &[u8], sink: &mut impl FnMut(&[u8], Framing)) {
    let mut rest = text.get(1..).unwrap_or_default();
    let mut unclosed = 0;
    while unclosed < MAX_UNCLOSED
        && let Some(at) = memchr::memchr(b'{', rest)
    {
        let value = rest.get(at..).unwrap_or_default();
        let end = match ValueScan::default().advance(value) {
            Step::Closed(end) => end,
            Step::More | Step::LineFeed(_) => {
                unclosed += 1;
                1
            }
        };
        let (found, after) = value.split_at(end);
        if scan::is_message(found) {
            sink(found, Framing::TextBefore);
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests;
