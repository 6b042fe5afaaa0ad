//! Puts the records of one stream in order, and finds what is missing.
//!
//! Every record says where in the stream it lies. The kernel takes a position and then a place in the ring, so
//! two writers can swap: a record from further on waits a little for the one before it. What does not come is a
//! missing range of known size.

use std::{collections::BTreeMap, time::Duration};

use mcpwarden_policy::{GapCause, Timestamp};

/// How long a record waits for the ones before it. A writer that was preempted between taking its position and
/// its place in the ring has this long.
pub const PATIENCE: Duration = Duration::from_millis(50);
/// How many bytes may wait in one stream.
const WAITING_BYTES: usize = 1 << 20;
/// How many records may wait in one stream.
const WAITING_RECORDS: usize = 1024;
/// What a record that waits takes beside its bytes.
pub const RECORD_BYTES: usize = 96;

/// Where a record lies in its stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Offset of the first byte.
    pub offset: u64,
    /// When it was captured.
    pub time: Timestamp,
    /// How many bytes of the stream the kernel half had not admitted by then.
    pub refused: u64,
}

/// Bytes that are known to be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingRange {
    /// Offset of the first of them.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
    /// Why.
    pub cause: GapCause,
    /// The process that moved them, where a record tells.
    pub pid: Option<u32>,
    /// When they went by, or when it was noticed.
    pub time: Timestamp,
}

/// A segment of a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Segment<'a> {
    /// Captured, from this offset on.
    Bytes(u64, &'a [u8], Timestamp),
    /// Not captured.
    MissingRange(MissingRange),
}

#[derive(Debug)]
enum Piece {
    Bytes(Vec<u8>, Timestamp),
    MissingRange(MissingRange),
}

impl Piece {
    fn time(&self) -> Timestamp {
        match self {
            Self::Bytes(_, time) => *time,
            Self::MissingRange(range) => range.time,
        }
    }
}

/// One direction of one connection.
#[derive(Debug, Default)]
pub struct Order {
    /// Where the next record should lie.
    next: u64,
    waiting: BTreeMap<u64, Piece>,
    waiting_bytes: usize,
    /// Bytes that the kernel half did not admit, and how many of them were said.
    refused: u64,
    refused_said: u64,
    /// When to stop waiting.
    deadline: Option<Timestamp>,
    /// The next record may lie before `next`: somebody else took in what came earlier, and how far he came is not known. What
    /// comes first waits for what may be on its way.
    is_after_another: bool,
}

impl Order {
    /// A stream of which another has taken in what comes before the first record, and in which the kernel half is at `offset`
    /// by now; `refused` bytes of it were not admitted.
    pub fn after_another(offset: u64, refused: u64) -> Self {
        Self { next: offset, refused, refused_said: refused, is_after_another: true, ..Self::default() }
    }

    /// What was on its way when somebody else was gone has come by now: the first of the records says where it begins.
    pub fn release(&mut self, sink: &mut impl FnMut(Segment<'_>)) {
        self.release_until(Timestamp(u64::MAX), sink);
    }

    /// The same up to what went by at `last`. When the next went by that is in order, where there is one.
    pub fn release_until(
        &mut self,
        last: Timestamp,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Option<Timestamp> {
        let (first, _) = self.waiting.first_key_value()?;
        if std::mem::take(&mut self.is_after_another) {
            self.next = self.next.min(*first);
        }
        self.hand_on_until(last, sink)
    }

    fn is_full(&self) -> bool {
        self.waiting_bytes > WAITING_BYTES || self.waiting.len() > WAITING_RECORDS
    }

    /// Whether records wait for others, and until when.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.deadline
    }

    /// What the records take that wait for others. Bytes.
    pub fn held(&self) -> usize {
        self.waiting_bytes + self.waiting.len() * RECORD_BYTES
    }

    /// Bytes came.
    pub fn data(
        &mut self,
        position: Position,
        bytes: &[u8],
        now: Timestamp,
        sink: &mut impl FnMut(Segment<'_>),
    ) {
        self.refused = self.refused.max(position.refused);
        if position.offset == self.next && self.waiting.is_empty() && !self.is_after_another {
            self.next += bytes.len() as u64;
            sink(Segment::Bytes(position.offset, bytes, position.time));
            return;
        }
        self.waiting_bytes += bytes.len();
        self.put(position.offset, Piece::Bytes(bytes.to_vec(), position.time), now, sink);
    }

    /// The kernel says that bytes were not captured.
    pub fn missing(&mut self, range: MissingRange, now: Timestamp, sink: &mut impl FnMut(Segment<'_>)) {
        self.put(range.offset, Piece::MissingRange(range), now, sink);
    }

    fn put(&mut self, offset: u64, piece: Piece, now: Timestamp, sink: &mut impl FnMut(Segment<'_>)) {
        if let Some(Piece::Bytes(bytes, _)) = self.waiting.insert(offset, piece) {
            self.waiting_bytes -= bytes.len();
        }
        if !self.is_after_another || self.is_full() {
            self.release(sink);
        }
        if self.is_full() {
            self.give_up(GapCause::RingFull, sink);
        } else if self.waiting.is_empty() {
            self.deadline = None;
        } else {
            self.deadline.get_or_insert(now.after(PATIENCE));
        }
    }

    /// Hands on what is in order.
    fn hand_on(&mut self, sink: &mut impl FnMut(Segment<'_>)) {
        self.hand_on_until(Timestamp(u64::MAX), sink);
    }

    /// The same up to what went by at `last`. When the next went by that is in order, where there is one.
    fn hand_on_until(&mut self, last: Timestamp, sink: &mut impl FnMut(Segment<'_>)) -> Option<Timestamp> {
        while let Some(entry) = self.waiting.first_entry() {
            if *entry.key() > self.next {
                return None;
            }
            let time = entry.get().time();
            if time > last {
                return Some(time);
            }
            let (offset, piece) = entry.remove_entry();
            // A record from before the position would be a repetition; it cannot be, and is not shown twice.
            match piece {
                Piece::Bytes(bytes, time) => {
                    self.waiting_bytes -= bytes.len();
                    if offset == self.next {
                        self.next += bytes.len() as u64;
                        sink(Segment::Bytes(offset, &bytes, time));
                    }
                }
                Piece::MissingRange(range) => {
                    if offset == self.next {
                        self.next += range.bytes;
                        sink(Segment::MissingRange(range));
                    }
                }
            }
        }
        self.deadline = None;
        None
    }

    /// What has not come by now will not come.
    pub fn tick(&mut self, now: Timestamp, sink: &mut impl FnMut(Segment<'_>)) {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.give_up(GapCause::RingFull, sink);
        }
    }

    /// Declares everything missing that records wait for, because of `cause`.
    pub fn give_up(&mut self, cause: GapCause, sink: &mut impl FnMut(Segment<'_>)) {
        self.release(sink);
        while let Some((&offset, piece)) = self.waiting.first_key_value() {
            let time = piece.time();
            self.skip(offset, time, cause, sink);
            self.hand_on(sink);
        }
    }

    /// The kernel's position is at `position` and nothing is on its way: what lies before it is missing.
    pub fn skip_to(&mut self, position: Position, sink: &mut impl FnMut(Segment<'_>)) {
        self.refused = self.refused.max(position.refused);
        self.is_after_another &= position.offset <= self.next;
        self.skip(position.offset, position.time, GapCause::RingFull, sink);
    }

    /// What no record tells of was not admitted, as far as the kernel half says so; the rest is missing because of
    /// `cause`.
    fn skip(&mut self, to: u64, time: Timestamp, cause: GapCause, sink: &mut impl FnMut(Segment<'_>)) {
        let missing = to.saturating_sub(self.next);
        let refused = missing.min(self.refused - self.refused_said);
        self.refused_said += refused;
        for (bytes, cause) in [(refused, GapCause::CandidateBudget), (missing - refused, cause)] {
            if bytes > 0 {
                sink(Segment::MissingRange(MissingRange {
                    offset: self.next,
                    bytes,
                    cause,
                    pid: None,
                    time,
                }));
                self.next += bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u64, refused: u64) -> Position {
        Position { offset, refused, ..Position::default() }
    }

    /// Feeds records (offset, bytes) and says what comes out, missing ranges as `<n>`.
    fn run(records: &[(u64, &str)], give_up: bool) -> String {
        let mut order = Order::default();
        let mut out = String::new();
        let mut sink = |segment: Segment<'_>| match segment {
            Segment::Bytes(_, bytes, _) => out.push_str(std::str::from_utf8(bytes).unwrap()),
            Segment::MissingRange(range) => out.push_str(&format!("<{}>", range.bytes)),
        };
        for (offset, bytes) in records {
            order.data(at(*offset, 0), bytes.as_bytes(), Timestamp(0), &mut sink);
        }
        if give_up {
            order.tick(Timestamp(0).after(PATIENCE), &mut sink);
            assert_eq!(order.deadline(), None);
        }
        out
    }

    #[test]
    fn records_are_reordered_and_gaps_reported() {
        type Case = (&'static str, &'static [(u64, &'static str)], bool, &'static str);
        let cases: [Case; 6] = [
            ("in order", &[(0, "ab"), (2, "cd"), (4, "e")], false, "abcde"),
            ("two swapped", &[(2, "cd"), (0, "ab"), (4, "e")], false, "abcde"),
            ("three reversed", &[(4, "e"), (2, "cd"), (0, "ab")], false, "abcde"),
            ("one waits", &[(0, "ab"), (4, "e")], false, "ab"),
            ("one never came", &[(0, "ab"), (4, "e"), (5, "f")], true, "ab<2>ef"),
            ("two holes", &[(1, "b"), (3, "d")], true, "<1>b<1>d"),
        ];
        for (name, records, give_up, expected) in cases {
            assert_eq!(run(records, give_up), expected, "{name}");
        }
    }

    /// Another took in what came before the first record, or, where there is none, what the kernel half had counted.
    #[test]
    fn resumed_order_starts_before_kernel_position() {
        // Name, the kernel half's position, records, its position in the end, what comes out.
        type Case = (&'static str, u64, &'static [(u64, &'static str)], u64, &'static str);
        let cases: [Case; 6] = [
            ("two writers swapped", 8, &[(6, "cd"), (4, "ab"), (8, "e")], 9, "abcde"),
            ("what waits in the ring", 8, &[(4, "ab"), (6, "cd"), (8, "e")], 9, "abcde"),
            ("nothing waits", 8, &[(8, "ab"), (10, "c")], 11, "abc"),
            ("what came then was lost", 8, &[(10, "ab")], 12, "<2>ab"),
            ("the last of what waits was lost", 8, &[(4, "ab"), (8, "c")], 9, "ab<2>c"),
            ("nothing came, and is lost", 8, &[], 11, "<3>"),
        ];
        for (name, position, records, end, expected) in cases {
            let mut order = Order::after_another(position, 0);
            let mut out = String::new();
            let mut sink = |segment: Segment<'_>| match segment {
                Segment::Bytes(_, bytes, _) => out.push_str(std::str::from_utf8(bytes).unwrap()),
                Segment::MissingRange(range) => out.push_str(&format!("<{}>", range.bytes)),
            };
            for (offset, bytes) in records {
                order.data(at(*offset, 0), bytes.as_bytes(), Timestamp(0), &mut sink);
            }
            order.tick(Timestamp(0).after(PATIENCE), &mut sink);
            order.skip_to(at(end, 0), &mut sink);
            assert_eq!(out, expected, "{name}");
        }
    }

    /// Streams take turns by when their records went by: each hands on up to a time, and says when the next went by.
    #[test]
    fn pending_records_are_released_up_to_a_time() {
        let mut order = Order::after_another(9, 0);
        let mut out = String::new();
        let mut sink = |segment: Segment<'_>| match segment {
            Segment::Bytes(_, bytes, _) => out.push_str(std::str::from_utf8(bytes).unwrap()),
            Segment::MissingRange(range) => panic!("{range:?}"),
        };
        for (offset, time, bytes) in [(6, 20, "cd"), (4, 10, "ab"), (9, 30, "e")] {
            let position = Position { time: Timestamp(time), ..at(offset, 0) };
            order.data(position, bytes.as_bytes(), Timestamp(0), &mut sink);
        }
        // The last of them waits for what comes before it.
        let next: Vec<_> = [0, 10, 25].map(|last| order.release_until(Timestamp(last), &mut sink)).into();
        assert_eq!(next, [Some(Timestamp(10)), Some(Timestamp(20)), None]);
        assert_eq!(out, "abcd");
    }

    #[test]
    fn pending_bytes_are_bounded() {
        let mut order = Order::default();
        let mut ranges = 0;
        let big = vec![b'x'; WAITING_BYTES / 2 + 1];
        let mut sink =
            |segment: Segment<'_>| ranges += u64::from(matches!(segment, Segment::MissingRange(_)));
        order.data(at(10, 0), &big, Timestamp(0), &mut sink);
        assert_eq!(order.held(), big.len() + RECORD_BYTES);
        // The same place again replaces it, and counts once.
        order.data(at(10, 0), &big, Timestamp(0), &mut sink);
        assert_eq!(order.held(), big.len() + RECORD_BYTES);
        order.data(at(10 + big.len() as u64 + 5, 0), &big, Timestamp(0), &mut sink);
        assert_eq!(ranges, 2);
        assert_eq!(order.held(), 0);
    }

    /// What the kernel half did not admit is told from what the ring had no room for.
    #[test]
    fn gap_cause_separates_refused_from_lost() {
        use GapCause::{CandidateBudget, Memory, RingFull};
        // Name, records of one byte (offset, refused so far), position in the end (offset, refused), missing ranges.
        type Case = (&'static str, &'static [(u64, u64)], (u64, u64), &'static [(u64, u64, GapCause)]);
        let cases: [Case; 6] = [
            ("nothing missing", &[(0, 0), (1, 0)], (2, 0), &[]),
            ("lost", &[(0, 0), (5, 0)], (6, 0), &[(1, 4, Memory)]),
            ("refused", &[(0, 0), (5, 4)], (6, 4), &[(1, 4, CandidateBudget)]),
            ("both", &[(0, 0), (5, 3)], (6, 3), &[(1, 3, CandidateBudget), (4, 1, Memory)]),
            (
                "refused before, then lost",
                &[(2, 2), (5, 2)],
                (6, 2),
                &[(0, 2, CandidateBudget), (3, 2, Memory)],
            ),
            ("at the end", &[(0, 0)], (9, 5), &[(1, 5, CandidateBudget), (6, 3, RingFull)]),
        ];
        for (name, records, end, expected) in cases {
            let mut order = Order::default();
            let mut ranges = Vec::new();
            let mut sink = |segment: Segment<'_>| {
                if let Segment::MissingRange(range) = segment {
                    ranges.push((range.offset, range.bytes, range.cause));
                }
            };
            for (offset, refused) in records {
                order.data(at(*offset, *refused), b"x", Timestamp(0), &mut sink);
                order.give_up(Memory, &mut sink);
            }
            order.skip_to(at(end.0, end.1), &mut sink);
            assert_eq!(ranges, expected, "{name}");
        }
    }

    #[test]
    fn lost_tail_is_reported_as_gap() {
        let mut order = Order::default();
        let mut seen = Vec::new();
        let mut sink = |segment: Segment<'_>| {
            if let Segment::MissingRange(range) = segment {
                seen.push((range.offset, range.bytes));
            }
        };
        order.data(at(0, 0), b"abc", Timestamp(0), &mut sink);
        order.skip_to(at(3, 0), &mut sink);
        order.skip_to(at(9, 0), &mut sink);
        assert_eq!(seen, [(3, 6)]);
    }
}
