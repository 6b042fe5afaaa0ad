//! Bytes of one direction into frames (RFC 9113, section 4), and frames into heads and pieces of bodies: nothing of what
//! they say. Nothing is held but the beginning of a frame, and of a head.

use super::error::Http2Error;
use crate::reader::Side;

/// Length of what each frame begins with.
const FRAME_HEAD_BYTES: usize = crate::reader::BINARY_BYTES;
/// What a client begins with (RFC 9113, section 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Behind a gap, a frame that is longer is taken for something else. Senders make frames of 16 KiB.
const PLAUSIBLE_BYTES: usize = 1 << 20;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const WITH_PRIORITY: u8 = 0x20;

/// Why a stream is reset whose request was not looked at (RFC 9113, section 8.7).
const REFUSED_STREAM: [u8; 4] = [0, 0, 0, 7];
/// What a reset says, and more than matters of the end of a connection.
const SHORT_BYTES: usize = 4;

/// What comes next.
#[derive(Debug)]
pub(super) enum Step<'a> {
    /// Nothing without more bytes.
    More,
    /// A whole head.
    Head(Block),
    /// A piece of a body.
    Data { stream: u32, bytes: &'a [u8] },
    /// This side says nothing more on a stream.
    End { stream: u32 },
    /// Nobody says anything more on a stream. Where it was refused, its request was not looked at.
    Reset { stream: u32, is_refused: bool },
    /// Requests on streams beyond this one are not looked at.
    GoAway { last: u32 },
    /// A frame that no reader accepts: its connection is over (RFC 9113, section 5.4.1).
    Fault(Http2Error),
}

/// A head, as it is coded.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) stream: u32,
    /// Whether it is that of a request which the server answers unasked.
    pub(super) is_promise: bool,
    pub(super) bytes: Vec<u8>,
    /// How many bytes of it were left out, since it is too long.
    pub(super) left_out: u64,
    /// Whether this side says nothing more on the stream.
    pub(super) ends: bool,
}

/// What a gap did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// It lies within a frame that says nothing here.
    Nothing,
    /// It lies within the body of a stream.
    Body(u32),
    /// Nobody knows where in the connection this is.
    Lost,
}

/// The beginning of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    length: usize,
    kind: u8,
    flags: u8,
    stream: u32,
}

impl Frame {
    fn of(head: &[u8; FRAME_HEAD_BYTES]) -> Self {
        let [a, b, c, kind, flags, d, e, f, g] = *head;
        Self {
            length: usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c),
            kind,
            flags,
            // The first bit means nothing (RFC 9113, section 4.1).
            stream: u32::from_be_bytes([d, e, f, g]) & 0x7FFF_FFFF,
        }
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether it is what every reader takes.
    fn check(&self, continues: Option<u32>) -> Result<(), Http2Error> {
        match (self.kind, continues) {
            (CONTINUATION, Some(stream)) if stream == self.stream => {}
            (CONTINUATION, _) | (_, Some(_)) => return Err(Http2Error::Order),
            _ => {}
        }
        let is_of_connection = match self.kind {
            DATA | HEADERS | PRIORITY | RST_STREAM | PUSH_PROMISE | CONTINUATION => false,
            SETTINGS | PING | GOAWAY => true,
            _ => self.stream == 0,
        };
        if is_of_connection != (self.stream == 0) {
            return Err(Http2Error::Stream);
        }
        let is_length = match self.kind {
            RST_STREAM | WINDOW_UPDATE => self.length == 4,
            SETTINGS => self.length.is_multiple_of(6) && (!self.has(END_STREAM) || self.length == 0),
            PING => self.length == 8,
            GOAWAY => self.length >= 8,
            DATA | HEADERS | PUSH_PROMISE => self.length >= self.prefix(),
            _ => true,
        };
        if is_length { Ok(()) } else { Err(Http2Error::Length) }
    }

    /// How many bytes stand before what the payload says.
    fn prefix(&self) -> usize {
        let padding = usize::from(self.has(PADDED));
        match self.kind {
            DATA => padding,
            HEADERS => padding + if self.has(WITH_PRIORITY) { 5 } else { 0 },
            PUSH_PROMISE => padding + 4,
            _ => 0,
        }
    }

    /// Whether it may be a frame of that side, of a beginning that is perhaps none.
    fn is_plausible(&self, side: Side) -> bool {
        let flags = match self.kind {
            DATA => END_STREAM | PADDED,
            HEADERS => END_STREAM | END_HEADERS | PADDED | WITH_PRIORITY,
            PUSH_PROMISE => END_HEADERS | PADDED,
            SETTINGS | PING => END_STREAM,
            CONTINUATION => END_HEADERS,
            PRIORITY | RST_STREAM | GOAWAY | WINDOW_UPDATE => 0,
            _ => return false,
        };
        let continues = (self.kind == CONTINUATION).then_some(self.stream);
        self.check(continues).is_ok()
            && self.flags & !flags == 0
            && self.length <= PLAUSIBLE_BYTES
            && (self.kind != PUSH_PROMISE || side == Side::Answers)
    }
}

/// Whether `bytes`, which came as one, are frames of that side; perhaps with the beginning of another. No text is.
pub(crate) fn is_frames(side: Side, bytes: &[u8]) -> bool {
    let (mut rest, mut is_any) = (bytes, false);
    while let Some((head, after)) = rest.split_first_chunk() {
        let frame = Frame::of(head);
        if !frame.is_plausible(side) {
            return false;
        }
        is_any = true;
        rest = after.get(frame.length..).unwrap_or_default();
    }
    is_any
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// In the preface, so many bytes of which came.
    Preface(usize),
    /// Before or in the beginning of a frame.
    Head,
    /// Before the payload of a frame, or in what stands before that.
    Prefix(Frame),
    /// In the payload, of which so many bytes are to come, and behind them so much padding.
    Payload { frame: Frame, left: usize, padding: usize },
    /// In the padding.
    Padding { frame: Frame, left: usize },
    /// Behind a gap, that many bytes ago.
    Lost { bytes: u64 },
}

/// Reads one direction. What it gives does not depend on how the bytes are cut, but behind a gap.
#[derive(Debug)]
pub(super) struct Frames {
    side: Side,
    max_block: usize,
    state: State,
    /// Whether the connection may begin here.
    at_start: bool,
    /// Whether it began somewhere else.
    is_partial: bool,
    /// The beginning of a frame, what stands before its payload, or a short payload.
    begun: Vec<u8>,
    /// The head in progress.
    block: Option<Block>,
}

impl Frames {
    /// At the beginning of a connection whose heads may have `max_block` bytes; or somewhere in it.
    pub(super) fn new(side: Side, max_block: usize, is_partial: bool) -> Self {
        let state = if is_partial { State::Lost { bytes: 0 } } else { State::Head };
        let begun = Vec::new();
        Self { side, max_block, state, at_start: true, is_partial, begun, block: None }
    }

    /// Bytes held.
    pub(super) fn held(&self) -> usize {
        self.begun.len() + self.block.as_ref().map_or(0, |block| block.bytes.len())
    }

    /// Whether its beginning is missing.
    pub(super) fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// The beginning of the connection is missing.
    pub(super) fn join(&mut self) {
        self.is_partial = true;
    }

    /// How many bytes were skipped since a gap behind which nothing could be read yet.
    pub(super) fn lost(&self) -> Option<u64> {
        match self.state {
            State::Lost { bytes } => Some(bytes),
            _ => None,
        }
    }

    /// Takes from the front of `rest` what belongs to the next step.
    pub(super) fn step<'a>(&mut self, rest: &mut &'a [u8]) -> Step<'a> {
        loop {
            let step = match self.state {
                State::Preface(at) => self.preface(at, rest),
                State::Head => self.head(rest),
                State::Prefix(frame) => self.prefix(frame, rest),
                State::Payload { frame, left, padding } => self.payload(frame, left, padding, rest),
                State::Padding { frame, left } => {
                    let left = left - take(rest, left).len();
                    self.state = State::Padding { frame, left };
                    if left == 0 { self.frame_ends(frame) } else { Some(Step::More) }
                }
                State::Lost { bytes } => {
                    self.state = State::Lost { bytes: bytes + rest.len() as u64 };
                    *rest = &[];
                    Some(Step::More)
                }
            };
            if let Some(step) = step {
                return step;
            }
        }
    }

    fn preface<'a>(&mut self, at: usize, rest: &mut &'a [u8]) -> Option<Step<'a>> {
        let wanted = PREFACE.get(at..).unwrap_or_default();
        let came = take(rest, wanted.len());
        self.state = State::Preface(at + came.len());
        match wanted.strip_prefix(came) {
            None => Some(Step::Fault(Http2Error::Preface)),
            Some([]) => {
                self.state = State::Head;
                None
            }
            Some(_) => Some(Step::More),
        }
    }

    /// Collects the first `wanted` bytes of something.
    fn begin(&mut self, wanted: usize, rest: &mut &[u8]) -> bool {
        let missing = wanted.saturating_sub(self.begun.len());
        self.begun.extend_from_slice(take(rest, missing));
        self.begun.len() >= wanted
    }

    fn head<'a>(&mut self, rest: &mut &'a [u8]) -> Option<Step<'a>> {
        if self.at_start && self.side == Side::Requests && self.begun.is_empty() {
            let Some(first) = rest.first() else { return Some(Step::More) };
            // No frame begins so that is not longer than 5 MiB.
            if PREFACE.first() == Some(first) {
                (self.at_start, self.state) = (false, State::Preface(0));
                return None;
            }
        }
        if !self.begin(FRAME_HEAD_BYTES, rest) {
            return Some(Step::More);
        }
        let Some(head) = self.begun.first_chunk() else { return Some(Step::More) };
        let frame = Frame::of(head);
        self.begun.clear();
        if std::mem::take(&mut self.at_start)
            && let Err(error) = self.first(frame)
        {
            return Some(Step::Fault(error));
        }
        if let Err(error) = frame.check(self.block.as_ref().map(|block| block.stream)) {
            return Some(Step::Fault(error));
        }
        self.state = State::Prefix(frame);
        None
    }

    /// The first frame; of a client that did not begin with the preface. A server that does not begin with its settings is refused by clients,
    /// or its beginning was not seen.
    fn first(&mut self, frame: Frame) -> Result<(), Http2Error> {
        match self.side {
            Side::Answers if frame.kind == SETTINGS || self.is_partial => Ok(()),
            _ if frame.is_plausible(self.side) => {
                self.is_partial = true;
                Ok(())
            }
            _ => Err(Http2Error::Preface),
        }
    }

    fn prefix<'a>(&mut self, frame: Frame, rest: &mut &'a [u8]) -> Option<Step<'a>> {
        let wanted = frame.prefix();
        if !self.begin(wanted, rest) {
            return Some(Step::More);
        }
        let padding = if frame.has(PADDED) { self.begun.first().copied().map_or(0, usize::from) } else { 0 };
        self.begun.clear();
        let Some(left) = (frame.length - wanted).checked_sub(padding) else {
            return Some(Step::Fault(Http2Error::Padding));
        };
        let padding = frame.length - wanted - left;
        if let HEADERS | PUSH_PROMISE = frame.kind {
            self.block = Some(Block {
                stream: frame.stream,
                is_promise: frame.kind == PUSH_PROMISE,
                bytes: Vec::new(),
                left_out: 0,
                ends: frame.kind == HEADERS && frame.has(END_STREAM),
            });
        }
        self.state = State::Payload { frame, left, padding };
        None
    }

    fn payload<'a>(
        &mut self,
        frame: Frame,
        left: usize,
        padding: usize,
        rest: &mut &'a [u8],
    ) -> Option<Step<'a>> {
        let bytes = take(rest, left);
        let left = left - bytes.len();
        self.state = match left {
            0 => State::Padding { frame, left: padding },
            _ => State::Payload { frame, left, padding },
        };
        match (frame.kind, &mut self.block) {
            (DATA, _) if !bytes.is_empty() => {
                return Some(Step::Data { stream: frame.stream, bytes });
            }
            (HEADERS | PUSH_PROMISE | CONTINUATION, Some(block)) => {
                let room = self.max_block.saturating_sub(block.bytes.len());
                let kept = bytes.get(..room).unwrap_or(bytes);
                // What is left out once is not gone on with: a field would be read from the middle of another.
                let kept = if block.left_out > 0 { &[] } else { kept };
                block.bytes.extend_from_slice(kept);
                block.left_out += (bytes.len() - kept.len()) as u64;
            }
            (RST_STREAM | GOAWAY, _) => {
                let room = SHORT_BYTES.saturating_sub(self.begun.len());
                self.begun.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
            }
            _ => {}
        }
        if left == 0 { None } else { Some(Step::More) }
    }

    fn frame_ends<'a>(&mut self, frame: Frame) -> Option<Step<'a>> {
        self.state = State::Head;
        let short = std::mem::take(&mut self.begun);
        match frame.kind {
            DATA if frame.has(END_STREAM) => Some(Step::End { stream: frame.stream }),
            HEADERS | PUSH_PROMISE | CONTINUATION if frame.has(END_HEADERS) => {
                self.block.take().map(Step::Head)
            }
            RST_STREAM => Some(Step::Reset { stream: frame.stream, is_refused: short == REFUSED_STREAM }),
            GOAWAY => {
                let last = short.first_chunk().map_or(u32::MAX, |last| u32::from_be_bytes(*last));
                Some(Step::GoAway { last: last & 0x7FFF_FFFF })
            }
            _ => None,
        }
    }

    /// `bytes` were not captured here; 0: nobody knows how many. What is held of a head is given up.
    pub(super) fn gap(&mut self, bytes: u64) -> Damage {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let (next, damage) = match self.state {
            State::Payload { frame, left, padding } if bytes > 0 && bytes <= left && self.block.is_none() => {
                let damage = if frame.kind == DATA { Damage::Body(frame.stream) } else { Damage::Nothing };
                (State::Payload { frame, left: left - bytes, padding }, damage)
            }
            State::Padding { frame, left } if bytes > 0 && bytes <= left => {
                (State::Padding { frame, left: left - bytes }, Damage::Nothing)
            }
            State::Lost { .. } => (self.state, Damage::Lost),
            _ => (State::Lost { bytes: 0 }, Damage::Lost),
        };
        self.state = next;
        if damage == Damage::Lost {
            (self.begun, self.block) = (Vec::new(), None);
            (self.is_partial, self.at_start) = (true, false);
        }
        damage
    }

    /// Behind a gap: whether `piece`, which came as one, begins with a frame. Pieces are whole writes mostly. Says how many
    /// bytes were skipped until here.
    pub(super) fn resume(&mut self, piece: &[u8]) -> Option<u64> {
        let State::Lost { bytes } = self.state else { return None };
        is_frames(self.side, piece).then(|| {
            self.state = State::Head;
            bytes
        })
    }
}

fn take<'a>(rest: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (piece, after) = rest.split_at_checked(most).unwrap_or((rest, &[]));
    *rest = after;
    piece
}
