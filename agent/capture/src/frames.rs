//! The bytes of one direction, in order, cut into frames; what the gate overwrote is put back.

use std::collections::BTreeMap;

use mcpwarden_abi::{self as abi, NEUTRAL_BYTE};
use mcpwarden_policy::{ConnectionId, Cut, Direction, FrameCutter, GapCause, Input, Limits, Timestamp};

use super::{
    order::{MissingRange, Segment},
    outlet::Outlet,
    output::Sink,
    socket::Framing,
};

/// How many neutralized bytes are remembered.
const MOST_NEUTRALIZED: usize = 64;
/// Beyond this an unfinished frame is not copied for a write that is refused. Bytes.
const MOST_COPIED: usize = 256 * 1024;

/// What is in order, on its way to the policy core.
pub struct Frames {
    connection: ConnectionId,
    direction: Direction,
    reader: Reader,
    /// Whether there was a frame.
    any: bool,
    /// Bytes that the gate overwrote and that have not come yet: where in the stream, and what the client wrote.
    neutralized: BTreeMap<u64, u8>,
    /// Whether the frame in progress has one of them.
    is_stopped: bool,
}

/// How bytes become messages.
enum Reader {
    /// A line each, or behind a header.
    Lines(FrameCutter),
    /// In requests and answers of HTTP, which takes both directions.
    Http,
    /// Over sockets, as the first bytes of either direction say.
    Undecided(Limits),
}

impl Frames {
    /// Nothing read yet.
    pub fn new(connection: ConnectionId, direction: Direction, limits: Limits) -> Self {
        let is_socket = connection.0 & abi::SOCKET != 0;
        let reader =
            if is_socket { Reader::Undecided(limits) } else { Reader::Lines(FrameCutter::new(limits)) };
        Self { connection, direction, reader, any: false, neutralized: BTreeMap::new(), is_stopped: false }
    }

    /// The stream may begin in the middle of a message: another agent has read the beginning, or none was there.
    pub fn begin_within(&mut self) {
        if let Reader::Lines(cutter) = &mut self.reader {
            // Nothing is in progress: nothing is cut.
            cutter.gap(1, &mut |_| {});
        }
    }

    /// Which way its bytes go.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// Whether each line is a message.
    pub fn is_in_lines(&self) -> bool {
        matches!(self.reader, Reader::Lines(_))
    }

    /// Whether there was a frame.
    pub fn any(&self) -> bool {
        self.any
    }

    /// Bytes of the unfinished frame.
    pub fn pending_bytes(&self) -> usize {
        match &self.reader {
            Reader::Lines(cutter) => cutter.pending_bytes(),
            Reader::Http | Reader::Undecided(_) => 0,
        }
    }

    /// The gate has overwritten a byte that is about to come.
    pub fn neutralize(&mut self, offset: u64, original: u8) {
        let neutralized = &mut self.neutralized;
        neutralized.insert(offset, original);
        // Of more than that the first never came: others refused their writes.
        if neutralized.len() > MOST_NEUTRALIZED {
            neutralized.pop_first();
        }
    }

    /// The gate has refused a write that would have begun at `offset`. The frames that it would have completed are
    /// reported as the client wrote them (some bytes may have been overwritten before the rest could not be), and the stream is
    /// as before.
    pub fn refuse(&mut self, offset: u64, mut bytes: Vec<u8>, time: Timestamp, out: &mut Outlet<'_>) {
        // It may be the first that a client wrote.
        self.decide(Some(&bytes), time, out);
        let end = offset + bytes.len() as u64;
        for (position, original) in self.neutralized.range(offset..end) {
            let byte = usize::try_from(position - offset).ok().and_then(|position| bytes.get_mut(position));
            if let Some(byte @ &mut abi::NEUTRAL_BYTE) = byte {
                *byte = *original;
            }
        }
        self.neutralized.retain(|position, _| !(offset..end).contains(position));
        let Reader::Lines(cutter) = &self.reader else { return };
        let mut copy = match cutter.pending_bytes() {
            ..=MOST_COPIED => cutter.clone(),
            _ => FrameCutter::new(Limits::default()),
        };
        let connection = self.connection;
        for part in [&bytes[..], b"\n"] {
            copy.push(part, time, &mut |cut| {
                if let Cut::Frame { bytes, time } = cut {
                    (out.sink)(Input::Stopped { connection, time, bytes, is_refused: true }.into());
                }
            });
        }
    }

    /// Gives up the unfinished frame, because of `cause`. Returns how many bytes it had.
    pub fn discard(&mut self, now: Timestamp, cause: GapCause, out: &mut Outlet<'_>) -> u64 {
        let mut bytes = 0;
        if let Reader::Lines(cutter) = &mut self.reader {
            cutter.discard_pending(&mut |cut| {
                if let Cut::Lost { bytes: lost } | Cut::Junk { bytes: lost, .. } = cut {
                    bytes += lost;
                }
            });
        }
        self.is_stopped = false;
        if bytes > 0 {
            self.report_gap(now, bytes, cause, out);
        }
        bytes
    }

    /// The stream ended.
    pub fn finish(&mut self, now: Timestamp, sink: &mut Sink<'_>) {
        let Self { connection, direction, reader, is_stopped, .. } = self;
        if let Reader::Lines(cutter) = reader {
            cutter.finish(&mut |cut| hand_on(*connection, *direction, now, cut, is_stopped, sink));
        }
    }

    /// Takes in the next segment of the stream.
    pub fn take(&mut self, segment: Segment<'_>, out: &mut Outlet<'_>) {
        match segment {
            Segment::Bytes(offset, bytes, time) => {
                self.decide(Some(bytes), time, out);
                match self.reader {
                    Reader::Lines(_) => self.lines(offset, bytes, time, out.sink),
                    Reader::Http => out.sockets.push(self.connection, self.direction, bytes, time, out.sink),
                    Reader::Undecided(_) => {}
                }
            }
            Segment::MissingRange(MissingRange { offset, bytes, cause, pid, time }) => {
                out.counters.missing_bytes += bytes;
                self.decide(None, time, out);
                let Self { connection, direction, reader, .. } = self;
                let (connection, direction) = (*connection, *direction);
                match reader {
                    Reader::Lines(_) => {}
                    Reader::Http => {
                        return out.sockets.gap(connection, direction, bytes, cause, time, out.sink);
                    }
                    Reader::Undecided(_) => return,
                }
                let offset = Some(offset);
                (out.sink)(Input::Gap { connection, direction, time, bytes, cause, pid, offset }.into());
                self.break_off(bytes, time, out.sink);
            }
        }
    }

    /// Finds out how a connection of sockets is read, where that is not known: by its first bytes, or `None` where they are missing.
    fn decide(&mut self, first: Option<&[u8]>, time: Timestamp, out: &mut Outlet<'_>) {
        let Reader::Undecided(limits) = self.reader else { return };
        match out.sockets.framing(self.connection, first, time, out.sink) {
            Some(Framing::Lines) => {
                self.reader = Reader::Lines(FrameCutter::new(limits));
                if out.sockets.is_adopted(self.connection) {
                    self.begin_within();
                }
            }
            Some(Framing::Http) => self.reader = Reader::Http,
            Some(Framing::Unwanted) | None => {}
        }
    }

    /// Cuts lines out of what came, as the client wrote it: what the gate overwrote is put back.
    fn lines(&mut self, offset: u64, bytes: &[u8], time: Timestamp, sink: &mut Sink<'_>) {
        let (mut at, mut rest) = (offset, bytes);
        let end = offset.saturating_add(bytes.len() as u64);
        while let Some(entry) = self.neutralized.first_entry().filter(|entry| *entry.key() < end) {
            let (position, original) = entry.remove_entry();
            let index = position.checked_sub(at).and_then(|index| usize::try_from(index).ok());
            // Where another byte came in its place, that write was given up.
            if let Some((before, [NEUTRAL_BYTE, after @ ..])) = index.and_then(|at| rest.split_at_checked(at))
            {
                self.push(before, time, sink);
                self.is_stopped = true;
                self.push(&[original], time, sink);
                (at, rest) = (position + 1, after);
            }
        }
        self.push(rest, time, sink);
    }

    fn push(&mut self, bytes: &[u8], time: Timestamp, sink: &mut Sink<'_>) {
        let Self { connection, direction, reader, any, is_stopped, .. } = self;
        if let Reader::Lines(cutter) = reader {
            cutter.push(bytes, time, &mut |cut| {
                *any |= matches!(cut, Cut::Frame { .. });
                hand_on(*connection, *direction, time, cut, is_stopped, sink);
            });
        }
    }

    /// The frame in progress is broken off.
    pub fn break_off(&mut self, bytes: u64, time: Timestamp, sink: &mut Sink<'_>) {
        let Self { connection, direction, reader, is_stopped, .. } = self;
        if let Reader::Lines(cutter) = reader {
            cutter.gap(bytes, &mut |cut| hand_on(*connection, *direction, time, cut, is_stopped, sink));
        }
        self.is_stopped = false;
    }

    /// Reports missing bytes of which neither the offset nor the process that moved them is known.
    pub fn report_gap(&self, time: Timestamp, bytes: u64, cause: GapCause, out: &mut Outlet<'_>) {
        let Self { connection, direction, reader, .. } = self;
        let (connection, direction) = (*connection, *direction);
        if let Reader::Http = reader {
            return out.sockets.gap(connection, direction, bytes, cause, time, out.sink);
        }
        (out.sink)(Input::Gap { connection, direction, time, bytes, cause, pid: None, offset: None }.into());
    }
}

/// What was cut out, as the policy core wants it. `is_stopped`: whether the gate did something to it.
fn hand_on(
    connection: ConnectionId,
    direction: Direction,
    time: Timestamp,
    cut: Cut<'_>,
    is_stopped: &mut bool,
    sink: &mut Sink<'_>,
) {
    // What is ambiguous is the frame before, which was handed on.
    let is_stopped = !matches!(cut, Cut::Ambiguous(_)) && std::mem::take(is_stopped);
    let input = match cut {
        Cut::Ambiguous(framing) => Input::Ambiguous { connection, direction, time, framing },
        Cut::Frame { bytes, time } if is_stopped => {
            Input::Stopped { connection, time, bytes, is_refused: false }
        }
        Cut::Frame { bytes, time } => {
            Input::Frame { connection, direction, time, bytes, http: None, turn: None }
        }
        Cut::Junk { bytes, .. } => Input::Junk { connection, direction, time, bytes, broken: false },
        // The captured part of a frame whose rest is missing: the missing range itself is reported where it is found.
        Cut::Lost { bytes } => Input::Junk { connection, direction, time, bytes, broken: true },
        Cut::TooLong { bytes } => {
            let cause = GapCause::TooLong;
            Input::Gap { connection, direction, time, bytes, cause, pid: None, offset: None }
        }
    };
    sink(input.into());
}
