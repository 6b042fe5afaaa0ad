//! One direction of one connection: its records in order, cut into frames, and held against what the kernel counted.

use std::collections::BTreeMap;

use mcpwarden_abi::{self as abi, NEUTRAL_BYTE};
use mcpwarden_policy::{ConnectionId, Cut, Direction, FrameCutter, GapCause, Input, Limits, Timestamp};

use super::{
    CaptureCounters,
    order::{MissingRange, Order, Position, Segment},
    socket::Sockets,
};

/// Where what comes of a stream goes.
pub struct Outlet<'a> {
    /// Who reads what is said over TCP.
    pub sockets: &'a mut Sockets,
    /// What is counted on the way.
    pub counters: &'a mut CaptureCounters,
    /// The policy core.
    pub sink: &'a mut dyn FnMut(Input<'_>),
}

/// One direction of one connection.
pub struct Stream {
    order: Order,
    frames: Frames,
    /// The kernel's positions when last looked at.
    seen: abi::Stream,
    /// Whether they were the same the time before: then no call has returned since.
    is_still: bool,
    /// How much of the server's surplus was said.
    said: u64,
}

/// How many of them are remembered.
const MOST_NEUTRALIZED: usize = 64;
/// Beyond this an unfinished frame is not copied for a write that is refused. Bytes.
const MOST_COPIED: usize = 256 * 1024;

/// What is in order, on its way to the policy core.
struct Frames {
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
}

impl Stream {
    /// Nothing captured yet.
    pub fn new(connection: ConnectionId, direction: Direction, limits: Limits) -> Self {
        let is_socket = connection.0 & abi::SOCKET != 0;
        let reader = if is_socket { Reader::Http } else { Reader::Lines(FrameCutter::new(limits)) };
        Self {
            order: Order::default(),
            frames: Frames {
                connection,
                direction,
                reader,
                any: false,
                neutralized: BTreeMap::new(),
                is_stopped: false,
            },
            seen: abi::Stream::default(),
            is_still: false,
            said: 0,
        }
    }

    /// Another agent has taken in what came before; the kernel half is at `positions` by now.
    pub fn begin_at(&mut self, positions: &abi::Stream) {
        self.order = Order::after_another(positions.offset, positions.refused);
        // He has said what was missing by then.
        self.said = surplus(positions, 0);
        if let Reader::Lines(cutter) = &mut self.frames.reader
            && positions.offset > 0
        {
            // It may go on in the middle of a message, the beginning of which he had. Nothing is in progress: nothing is cut.
            cutter.gap(1, &mut |_| {});
        }
    }

    /// All that waited in the ring for this agent is read: what went by until `last` is handed on. When the next went by.
    pub fn go_on_until(&mut self, last: Timestamp, out: &mut Outlet<'_>) -> Option<Timestamp> {
        self.order.go_on_until(last, &mut |segment| self.frames.take(segment, out))
    }

    /// Until when records wait for others.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.order.deadline()
    }

    /// Bytes of the unfinished frame, and bytes that records take which wait for others.
    pub fn held(&self) -> (usize, usize) {
        let pending = match &self.frames.reader {
            Reader::Lines(cutter) => cutter.pending_bytes(),
            Reader::Http => 0,
        };
        (pending, self.order.held())
    }

    /// Whether a frame went by.
    pub fn has_frames(&self) -> bool {
        self.frames.any
    }

    /// The gate has overwritten a byte that is about to come.
    pub fn neutralize(&mut self, offset: u64, original: u8) {
        let neutralized = &mut self.frames.neutralized;
        neutralized.insert(offset, original);
        // Of more than that the first never came: others refused their writes.
        if neutralized.len() > MOST_NEUTRALIZED {
            neutralized.pop_first();
        }
    }

    /// The gate has refused a write that would have begun at `offset`. What it would have completed is said, as the client wrote it
    /// (some of it may have been overwritten before the rest could not be), and the stream is as before.
    pub fn refuse(&mut self, offset: u64, mut bytes: Vec<u8>, time: Timestamp, out: &mut Outlet<'_>) {
        let end = offset + bytes.len() as u64;
        for (position, original) in self.frames.neutralized.range(offset..end) {
            let byte = usize::try_from(position - offset).ok().and_then(|position| bytes.get_mut(position));
            if let Some(byte @ &mut abi::NEUTRAL_BYTE) = byte {
                *byte = *original;
            }
        }
        self.frames.neutralized.retain(|position, _| !(offset..end).contains(position));
        let Reader::Lines(cutter) = &self.frames.reader else { return };
        let mut copy = match cutter.pending_bytes() {
            ..=MOST_COPIED => cutter.clone(),
            _ => FrameCutter::new(Limits::default()),
        };
        let connection = self.frames.connection;
        for piece in [&bytes[..], b"\n"] {
            copy.push(piece, time, &mut |cut| {
                if let Cut::Frame { bytes, time } = cut {
                    (out.sink)(Input::Stopped { connection, time, bytes, is_refused: true });
                }
            });
        }
    }

    /// Bytes came.
    pub fn data(&mut self, position: Position, bytes: &[u8], now: Timestamp, out: &mut Outlet<'_>) {
        self.order.data(position, bytes, now, &mut |segment| self.frames.take(segment, out));
    }

    /// The kernel says that bytes were not captured.
    pub fn missing(&mut self, range: MissingRange, now: Timestamp, out: &mut Outlet<'_>) {
        self.order.missing(range, now, &mut |segment| self.frames.take(segment, out));
    }

    /// Gives up waiting where the time is over.
    pub fn tick(&mut self, now: Timestamp, out: &mut Outlet<'_>) {
        self.order.tick(now, &mut |segment| self.frames.take(segment, out));
    }

    /// Waits no longer for records that others wait for, because of `cause`. Returns how many bytes are missing for it.
    pub fn stop_waiting(&mut self, cause: GapCause, out: &mut Outlet<'_>) -> u64 {
        let before = out.counters.missing_bytes;
        self.order.give_up(cause, &mut |segment| self.frames.take(segment, out));
        out.counters.missing_bytes - before
    }

    /// Gives up the unfinished frame, because of `cause`. Returns how many bytes it had.
    pub fn discard_frame(&mut self, now: Timestamp, cause: GapCause, out: &mut Outlet<'_>) -> u64 {
        let mut bytes = 0;
        if let Reader::Lines(cutter) = &mut self.frames.reader {
            cutter.discard_pending(&mut |cut| {
                if let Cut::Lost { bytes: lost } | Cut::Junk { bytes: lost, .. } = cut {
                    bytes += lost;
                }
            });
        }
        self.frames.is_stopped = false;
        if bytes > 0 {
            self.frames.say(now, bytes, cause, out);
        }
        bytes
    }

    /// The kernel's positions, when everything in the ring was read: what it counted and never sent is missing, if it
    /// was so the time before too. A position moves when a call begins to be captured, and that takes milliseconds for
    /// one of megabytes.
    pub fn look(&mut self, positions: &abi::Stream, now: Timestamp, out: &mut Outlet<'_>) {
        if self.order.deadline().is_none() {
            self.skip_to(self.seen.offset, positions.refused, now, out);
        }
        self.is_still = self.is_same(positions);
        self.seen = *positions;
        // What only waited to be read has been.
        self.said = self.said.min(surplus(positions, 0));
    }

    /// Whether the server's side passed bytes that nobody saw on the client's, and neither side has moved between the
    /// last two looks. They may still be seen, or wait to be read: [`Self::judge`] tells.
    pub fn is_suspect(&self) -> bool {
        self.is_still && surplus(&self.seen, 0) > self.said
    }

    /// Nobody is in the middle of a call on the client's side, and at most `waiting` bytes wait for him to be read:
    /// what the server's side passed beyond is missing, if nothing has moved since the last look.
    pub fn judge(&mut self, positions: &abi::Stream, waiting: u64, now: Timestamp, out: &mut Outlet<'_>) {
        if self.is_still && self.is_same(positions) {
            self.say_surplus(positions, waiting, GapCause::Unseen, now, out);
        }
    }

    /// Nobody holds the connection any more: what has not come will not. What nobody read is worth a word only where
    /// messages are `spoken`: any program in a pipeline can end without reading all.
    pub fn settle(&mut self, positions: &abi::Stream, spoken: bool, now: Timestamp, out: &mut Outlet<'_>) {
        self.order.give_up(GapCause::RingFull, &mut |segment| self.frames.take(segment, out));
        self.skip_to(positions.offset, positions.refused, now, out);
        let cause = match self.frames.direction {
            Direction::ClientToServer => GapCause::Unseen,
            Direction::ServerToClient if spoken => GapCause::Unread,
            Direction::ServerToClient => return,
        };
        self.say_surplus(positions, 0, cause, now, out);
    }

    /// The stream ended.
    pub fn finish(&mut self, now: Timestamp, out: &mut Outlet<'_>) {
        self.order.give_up(GapCause::RingFull, &mut |segment| self.frames.take(segment, out));
        let Frames { connection, direction, reader, is_stopped, .. } = &mut self.frames;
        if let Reader::Lines(cutter) = reader {
            cutter.finish(&mut |cut| hand_on(*connection, *direction, now, cut, is_stopped, out.sink));
        }
    }

    fn is_same(&self, positions: &abi::Stream) -> bool {
        (positions.offset, positions.far) == (self.seen.offset, self.seen.far)
    }

    fn skip_to(&mut self, offset: u64, refused: u64, time: Timestamp, out: &mut Outlet<'_>) {
        let position = Position { offset, time, refused };
        self.order.skip_to(position, &mut |segment| self.frames.take(segment, out));
    }

    fn say_surplus(
        &mut self,
        positions: &abi::Stream,
        waiting: u64,
        cause: GapCause,
        now: Timestamp,
        out: &mut Outlet<'_>,
    ) {
        let surplus = surplus(positions, waiting);
        let bytes = surplus.saturating_sub(self.said);
        if bytes > 0 {
            self.said = surplus;
            out.counters.missing_bytes += bytes;
            self.frames.say(now, bytes, cause, out);
            self.frames.gap(bytes, now, out);
        }
    }
}

/// How many bytes passed the server's side that neither passed the client's nor wait for it.
fn surplus(positions: &abi::Stream, waiting: u64) -> u64 {
    positions.far.saturating_sub(positions.offset).saturating_sub(waiting)
}

impl Frames {
    fn take(&mut self, segment: Segment<'_>, out: &mut Outlet<'_>) {
        match segment {
            Segment::Bytes(offset, bytes, time) => match self.reader {
                Reader::Lines(_) => self.lines(offset, bytes, time, out.sink),
                Reader::Http => out.sockets.push(self.connection, self.direction, bytes, time, out.sink),
            },
            Segment::MissingRange(MissingRange { offset, bytes, cause, pid, time }) => {
                out.counters.missing_bytes += bytes;
                let Self { connection, direction, reader, .. } = self;
                let (connection, direction) = (*connection, *direction);
                if let Reader::Http = reader {
                    return out.sockets.gap(connection, direction, bytes, cause, time, out.sink);
                }
                let offset = Some(offset);
                (out.sink)(Input::Gap { connection, direction, time, bytes, cause, pid, offset });
                self.gap(bytes, time, out);
            }
        }
    }

    /// Cuts lines out of what came, as the client wrote it: what the gate overwrote is put back.
    fn lines(&mut self, offset: u64, bytes: &[u8], time: Timestamp, sink: &mut dyn FnMut(Input<'_>)) {
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

    fn push(&mut self, bytes: &[u8], time: Timestamp, sink: &mut dyn FnMut(Input<'_>)) {
        let Self { connection, direction, reader, any, is_stopped, .. } = self;
        if let Reader::Lines(cutter) = reader {
            cutter.push(bytes, time, &mut |cut| {
                *any |= matches!(cut, Cut::Frame { .. });
                hand_on(*connection, *direction, time, cut, is_stopped, sink);
            });
        }
    }

    /// The frame in progress is broken off.
    fn gap(&mut self, bytes: u64, time: Timestamp, out: &mut Outlet<'_>) {
        let Self { connection, direction, reader, is_stopped, .. } = self;
        if let Reader::Lines(cutter) = reader {
            cutter.gap(bytes, &mut |cut| hand_on(*connection, *direction, time, cut, is_stopped, out.sink));
        }
        self.is_stopped = false;
    }

    /// Says that bytes are missing of which neither the place nor who moved them is known.
    fn say(&self, time: Timestamp, bytes: u64, cause: GapCause, out: &mut Outlet<'_>) {
        let Self { connection, direction, reader, .. } = self;
        let (connection, direction) = (*connection, *direction);
        if let Reader::Http = reader {
            return out.sockets.gap(connection, direction, bytes, cause, time, out.sink);
        }
        (out.sink)(Input::Gap { connection, direction, time, bytes, cause, pid: None, offset: None });
    }
}

/// What was cut out, as the policy core wants it. `is_stopped`: whether the gate did something to it.
fn hand_on(
    connection: ConnectionId,
    direction: Direction,
    time: Timestamp,
    cut: Cut<'_>,
    is_stopped: &mut bool,
    sink: &mut dyn FnMut(Input<'_>),
) {
    // What is ambiguous is the frame before, which was handed on.
    let is_stopped = !matches!(cut, Cut::Ambiguous(_)) && std::mem::take(is_stopped);
    sink(match cut {
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
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Nothing;

    /// What is done with a stream: the kernel's positions (offset, far), and what is known beside them.
    enum Step {
        Data(u64, &'static [u8]),
        Look(u64, u64),
        /// So many bytes wait to be read.
        Judge(u64, u64, u64),
        Settle(u64, u64),
        /// The same of a connection without messages.
        SettleSilent(u64, u64),
    }

    fn positions(offset: u64, far: u64) -> abi::Stream {
        abi::Stream { offset, far, refused: 0 }
    }

    /// The gaps that a stream says.
    fn gaps(direction: Direction, steps: &[Step]) -> Vec<(u64, GapCause)> {
        let mut stream = Stream::new(ConnectionId(1), direction, Limits::default());
        let (mut counters, mut gaps, now) = (CaptureCounters::default(), Vec::new(), Timestamp(0));
        let mut sink = |input: Input<'_>| {
            if let Input::Gap { bytes, cause, .. } = input {
                gaps.push((bytes, cause));
            }
        };
        let mut sockets = Sockets::new(0, 0, 0, &Nothing);
        let out = &mut Outlet { sockets: &mut sockets, counters: &mut counters, sink: &mut sink };
        for step in steps {
            match step {
                Step::Data(offset, bytes) => {
                    stream.data(Position { offset: *offset, ..Position::default() }, bytes, now, out);
                }
                Step::Look(offset, far) => stream.look(&positions(*offset, *far), now, out),
                Step::Judge(offset, far, waiting) => {
                    stream.judge(&positions(*offset, *far), *waiting, now, out);
                }
                Step::Settle(offset, far) => stream.settle(&positions(*offset, *far), true, now, out),
                Step::SettleSilent(offset, far) => {
                    stream.settle(&positions(*offset, *far), false, now, out);
                }
            }
        }
        let total: u64 = gaps.iter().map(|(bytes, _)| bytes).sum();
        assert_eq!(counters.missing_bytes, total);
        gaps
    }

    #[test]
    fn missing_stream_bytes_are_reported_as_gaps() {
        use Direction::{ClientToServer, ServerToClient};
        use GapCause::{RingFull, Unread, Unseen};
        use Step::{Data, Judge, Look, Settle, SettleSilent};
        type Case = (&'static str, Direction, &'static [Step], &'static [(u64, GapCause)]);
        let cases: [Case; 16] = [
            ("all there", ClientToServer, &[Data(0, b"ab"), Look(2, 2), Look(2, 2), Settle(2, 2)], &[]),
            ("not read yet", ClientToServer, &[Data(0, b"ab"), Look(2, 0), Look(2, 0), Judge(2, 0, 0)], &[]),
            ("lost, seen once", ClientToServer, &[Look(5, 5)], &[]),
            ("lost, seen twice", ClientToServer, &[Look(5, 5), Look(9, 9)], &[(5, RingFull)]),
            ("lost, at the end", ClientToServer, &[Look(5, 5), Settle(9, 9)], &[(9, RingFull)]),
            (
                "taken and not given",
                ClientToServer,
                &[Look(0, 7), Look(0, 7), Judge(0, 7, 0)],
                &[(7, Unseen)],
            ),
            ("looked at once", ClientToServer, &[Look(0, 7), Judge(0, 7, 0)], &[]),
            ("moved between looks", ClientToServer, &[Look(0, 5), Look(0, 7), Judge(0, 7, 0)], &[]),
            ("moved since", ClientToServer, &[Look(0, 7), Look(0, 7), Judge(7, 7, 0)], &[]),
            (
                "said once",
                ClientToServer,
                &[Look(0, 7), Look(0, 7), Judge(0, 7, 0), Look(0, 7), Judge(0, 7, 0), Settle(0, 9)],
                &[(7, Unseen), (2, Unseen)],
            ),
            ("waits to be read", ServerToClient, &[Look(0, 7), Look(0, 7), Judge(0, 7, 7)], &[]),
            ("may wait to be read", ServerToClient, &[Look(0, 7), Look(0, 7), Judge(0, 7, 512)], &[]),
            ("some waits", ServerToClient, &[Look(0, 7), Look(0, 7), Judge(0, 7, 3)], &[(4, Unseen)]),
            (
                "never read",
                ServerToClient,
                &[Look(0, 7), Look(0, 7), Judge(0, 7, 3), Settle(0, 7)],
                &[(4, Unseen), (3, Unread)],
            ),
            ("never read, and no messages", ServerToClient, &[SettleSilent(0, 7)], &[]),
            ("taken and not given, and no messages", ClientToServer, &[SettleSilent(0, 7)], &[(7, Unseen)]),
        ];
        for (name, direction, steps, expected) in cases {
            assert_eq!(gaps(direction, steps), expected, "{name}");
        }
    }

    /// What the gate did before bytes came, and what the policy core is told of them.
    #[test]
    fn gated_frame_is_reported_as_the_client_wrote_it() {
        enum Gate {
            Neutralize(u64, u8),
            Refuse(u64, &'static [u8]),
            Data(u64, &'static [u8]),
        }
        use Gate::{Data, Neutralize, Refuse};
        let cases: [(&str, &[Gate], &[&str]); 12] = [
            ("nothing", &[Data(0, b"{\"a\":1}\n")], &["passed {\"a\":1}"]),
            ("one byte", &[Neutralize(4, b'x'), Data(0, b"{\"ab\x7f\"}\n")], &["neutralized {\"abx\"}"]),
            (
                "another byte",
                &[Neutralize(3, b'x'), Data(0, b"{\"ab\x7f\"}\n{}\n")],
                &["passed {\"ab\x7f\"}", "passed {}"],
            ),
            (
                "and no other",
                &[Neutralize(3, b'x'), Data(0, b"{\"a\x7f\"}\n{}\n")],
                &["neutralized {\"ax\"}", "passed {}"],
            ),
            (
                "twice the same, since there was no room",
                &[
                    Neutralize(3, b'x'),
                    Neutralize(3, b'x'),
                    Data(0, b"{\"a\x7f\"}\n"),
                    Data(7, b"{\"\x7f\"}\n"),
                ],
                &["neutralized {\"ax\"}", "passed {\"\x7f\"}"],
            ),
            (
                "given up, and another in its place",
                &[Neutralize(3, b'x'), Data(0, b"{\"abc\"}\n"), Data(8, b"{\"\x7f\"}\n")],
                &["passed {\"abc\"}", "passed {\"\x7f\"}"],
            ),
            (
                "of two messages of one write",
                &[Neutralize(3, b'x'), Neutralize(9, b'y'), Data(0, b"{\"a\x7f\"}\n{\"\x7f\"}\n")],
                &["neutralized {\"ax\"}", "neutralized {\"y\"}"],
            ),
            (
                "beside one of the client's own",
                &[Neutralize(5, b'x'), Data(0, b"{\"a\x7f \x7f\"}\n{\"\x7f\"}\n")],
                &["neutralized {\"a\x7f x\"}", "passed {\"\x7f\"}"],
            ),
            (
                "one that never came, and then what does",
                &[Neutralize(30, b'z'), Neutralize(3, b'x'), Data(0, b"{\"a\x7f\"}\n{\"\x7f\"}\n")],
                &["neutralized {\"ax\"}", "passed {\"\x7f\"}"],
            ),
            (
                "in the second piece",
                &[Data(0, b"{\"a"), Neutralize(3, b'x'), Data(3, b"\x7f\"}\n")],
                &["neutralized {\"ax\"}"],
            ),
            (
                "refused, whole or the end of what is there",
                &[Refuse(0, b"{}\n[1]"), Data(0, b"{\"a"), Refuse(3, b"\"}"), Data(3, b"b\"}\n")],
                &["refused {}", "refused [1]", "refused {\"a\"}", "passed {\"ab\"}"],
            ),
            (
                "refused, since the second of two could not be overwritten",
                &[Neutralize(3, b'x'), Refuse(0, b"{\"a\x7f\"}\n{\"y\"}\n"), Data(0, b"{\"\x7f\x7f\"}\n")],
                &["refused {\"ax\"}", "refused {\"y\"}", "passed {\"\x7f\x7f\"}"],
            ),
        ];
        for (name, steps, expected) in cases {
            let mut stream = Stream::new(ConnectionId(1), Direction::ClientToServer, Limits::default());
            let (mut counters, mut said, now) = (CaptureCounters::default(), Vec::new(), Timestamp(0));
            let mut sink = |input: Input<'_>| {
                let (word, bytes) = match input {
                    Input::Frame { bytes, .. } => ("passed", bytes),
                    Input::Stopped { bytes, is_refused: false, .. } => ("neutralized", bytes),
                    Input::Stopped { bytes, is_refused: true, .. } => ("refused", bytes),
                    other => panic!("{name}: {other:?}"),
                };
                said.push(format!("{word} {}", String::from_utf8_lossy(bytes)));
            };
            let mut sockets = Sockets::new(0, 0, 0, &Nothing);
            let out = &mut Outlet { sockets: &mut sockets, counters: &mut counters, sink: &mut sink };
            for step in steps {
                match step {
                    Neutralize(offset, original) => stream.neutralize(*offset, *original),
                    Refuse(offset, bytes) => stream.refuse(*offset, bytes.to_vec(), now, out),
                    Data(offset, bytes) => {
                        stream.data(Position { offset: *offset, ..Position::default() }, bytes, now, out);
                    }
                }
            }
            assert_eq!(said, expected, "{name}");
        }
    }
}
