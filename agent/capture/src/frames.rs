//! The bytes of one direction, in order, cut into frames; what the gate overwrote is put back.

use std::collections::BTreeMap;

use mcpwarden_abi as abi;
use mcpwarden_policy::{ConnectionId, Cut, Direction, FrameCutter, GapCause, Input, Limits, Timestamp};

use super::{
    order::{MissingRange, Segment},
    outlet::Outlet,
    output::Sink,
    socket::Framing,
};

/// How many overwrites are remembered, and how many bytes of them, those written and those overwritten: those of the
/// largest write that the gate reads.
const MOST_OVERWRITTEN: usize = 128;
const MOST_OVERWRITTEN_BYTES: usize = 128 << 10;
/// Beyond this an unfinished frame is not copied for a write that is refused. Bytes.
const MOST_COPIED: usize = 256 * 1024;

/// What is in order, on its way to the policy core.
pub struct Frames {
    connection: ConnectionId,
    direction: Direction,
    reader: Reader,
    /// Whether there was a frame.
    any: bool,
    /// Bytes that the gate overwrote and that have not come yet, by where in the stream.
    overwritten: BTreeMap<u64, Overwritten>,
    /// Whether the frame in progress has one of them.
    is_stopped: bool,
}

/// Bytes in place of which the gate wrote others: as many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overwritten {
    /// What the client wrote.
    original: Vec<u8>,
    /// What comes.
    written: Vec<u8>,
}

impl Overwritten {
    /// One byte, which nothing is named with.
    pub fn byte(original: u8) -> Self {
        Self { original: vec![original], written: vec![abi::NEUTRAL_BYTE] }
    }

    /// A name, or a name and its arguments: by a text, and an object without members.
    pub fn rewritten(original: &[u8], text: &[u8]) -> Self {
        let mut written = text.to_vec();
        // A name has no quote in it that is rewritten.
        if original.contains(&b'"') {
            written.extend_from_slice(&abi::GATE_TEXT_TAIL);
        }
        written.resize(original.len(), b' ');
        Self { original: original.to_vec(), written }
    }

    /// What is behind its first `count` bytes.
    fn split_off(&mut self, count: usize) -> Option<Self> {
        let split = |bytes: &mut Vec<u8>| bytes.split_off(count.min(bytes.len()));
        let rest = Self { original: split(&mut self.original), written: split(&mut self.written) };
        (!rest.original.is_empty()).then_some(rest)
    }
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
        Self { connection, direction, reader, any: false, overwritten: BTreeMap::new(), is_stopped: false }
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

    /// The gate has overwritten bytes that are about to come.
    pub fn overwrite(&mut self, offset: u64, mut new: Overwritten) {
        // A write that failed, and came again as it was left.
        if let Some(known) = self.overwritten.get(&offset)
            && known.written == new.original
        {
            new.original.clone_from(&known.original);
        }
        self.overwritten.insert(offset, new);
        // Of more than that the first never came: others refused their writes.
        while self.overwritten.len() > MOST_OVERWRITTEN || self.overwritten_bytes() > MOST_OVERWRITTEN_BYTES {
            self.overwritten.pop_first();
        }
    }

    /// Bytes of overwrites that have not come yet.
    pub fn overwritten_bytes(&self) -> usize {
        self.overwritten.values().map(|overwritten| 2 * overwritten.original.len()).sum()
    }

    /// The gate has refused a write that would have begun at `offset`. The frames that it would have completed are
    /// reported as the client wrote them (some bytes may have been overwritten before the rest could not be), and the stream is
    /// as before.
    pub fn refuse(&mut self, offset: u64, mut bytes: Vec<u8>, time: Timestamp, out: &mut Outlet<'_>) {
        // It may be the first that a client wrote.
        self.decide(Some(&bytes), time, out);
        let end = offset + bytes.len() as u64;
        for (position, overwritten) in self.overwritten.range(offset..end) {
            let place = usize::try_from(position - offset).ok();
            let place = place.and_then(|place| bytes.get_mut(place..place + overwritten.written.len()));
            if let Some(place) = place.filter(|place| **place == *overwritten.written) {
                place.copy_from_slice(&overwritten.original);
            }
        }
        self.overwritten.retain(|position, _| !(offset..end).contains(position));
        let cutter = match &self.reader {
            Reader::Lines(cutter) => cutter,
            Reader::Http => return out.sockets.write_refused(self.connection, &bytes, time, out.sink),
            Reader::Undecided(_) => return,
        };
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

    /// Gives up the unfinished frame, and what was overwritten and has not come, because of `cause`. Returns how many bytes the
    /// frame had.
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
        self.overwritten.clear();
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
                self.restore(offset, bytes, time, out);
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

    /// Reads what came as the client wrote it: what the gate overwrote is put back.
    fn restore(&mut self, offset: u64, bytes: &[u8], time: Timestamp, out: &mut Outlet<'_>) {
        let (mut at, mut rest) = (offset, bytes);
        let end = offset.saturating_add(bytes.len() as u64);
        while let Some(entry) = self.overwritten.first_entry().filter(|entry| *entry.key() < end) {
            let (position, mut overwritten) = entry.remove_entry();
            let index = position.checked_sub(at).and_then(|index| usize::try_from(index).ok());
            let Some((before, behind)) = index.and_then(|index| rest.split_at_checked(index)) else {
                continue;
            };
            let next = overwritten.split_off(behind.len());
            // Where others came in their place, that write was given up.
            let Some(after) = behind.strip_prefix(&*overwritten.written) else { continue };
            self.push(before, time, out);
            match self.reader {
                Reader::Http => out.sockets.neutralized(self.connection),
                Reader::Lines(_) | Reader::Undecided(_) => self.is_stopped = true,
            }
            self.push(&overwritten.original, time, out);
            (at, rest) = (position + overwritten.written.len() as u64, after);
            if let Some(next) = next {
                self.overwritten.insert(at, next);
            }
        }
        self.push(rest, time, out);
    }

    fn push(&mut self, bytes: &[u8], time: Timestamp, out: &mut Outlet<'_>) {
        let Self { connection, direction, reader, any, is_stopped, .. } = self;
        match reader {
            Reader::Lines(cutter) => cutter.push(bytes, time, &mut |cut| {
                *any |= matches!(cut, Cut::Frame { .. });
                hand_on(*connection, *direction, time, cut, is_stopped, out.sink);
            }),
            Reader::Http => out.sockets.push(*connection, *direction, bytes, time, out.sink),
            Reader::Undecided(_) => {}
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
