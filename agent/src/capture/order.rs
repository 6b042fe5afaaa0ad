//! Puts the records of one stream in order, and finds what is missing.
//!
//! Every record says where in the stream it lies. The kernel takes a position and then a place in the ring, so
//! two writers can swap: a record from further on waits a little for the one before it. What does not come is a
//! hole of known size.

use std::{collections::BTreeMap, time::Duration};

use mcpwarden_policy::Timestamp;

/// How long a record waits for the ones before it. A writer that was preempted between taking its position and
/// its place in the ring has this long.
pub const PATIENCE: Duration = Duration::from_millis(50);
/// How many bytes may wait in one stream.
const WAITING_BYTES: usize = 1 << 20;
/// How many records may wait in one stream.
const WAITING_RECORDS: usize = 1024;

/// A stretch of a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Stretch<'a> {
    /// Captured.
    Bytes(&'a [u8], Timestamp),
    /// Known to be missing: `bytes` from `offset` on, because of `cause` (a `GAP_…` of the kernel, or 0 where no
    /// record tells).
    Hole { offset: u64, bytes: u64, cause: u8, pid: Option<u32>, time: Timestamp },
}

#[derive(Debug)]
enum Piece {
    Bytes(Vec<u8>),
    Hole { bytes: u64, cause: u8, pid: u32 },
}

/// One direction of one connection.
#[derive(Debug, Default)]
pub struct Order {
    /// Where the next record should lie.
    next: u64,
    waiting: BTreeMap<u64, (Piece, Timestamp)>,
    waiting_bytes: usize,
    /// When to stop waiting.
    deadline: Option<Timestamp>,
}

impl Order {
    /// Whether records wait for others.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.deadline
    }

    /// Bytes came.
    pub fn data(
        &mut self,
        offset: u64,
        bytes: &[u8],
        time: Timestamp,
        now: Timestamp,
        sink: &mut impl FnMut(Stretch<'_>),
    ) {
        if offset == self.next && self.waiting.is_empty() {
            self.next += bytes.len() as u64;
            sink(Stretch::Bytes(bytes, time));
            return;
        }
        self.waiting_bytes += bytes.len();
        self.put(offset, Piece::Bytes(bytes.to_vec()), time, now, sink);
    }

    /// The kernel says that bytes were not captured.
    #[allow(clippy::too_many_arguments, reason = "the fields of one record")]
    pub fn hole(
        &mut self,
        offset: u64,
        bytes: u64,
        cause: u8,
        pid: u32,
        time: Timestamp,
        now: Timestamp,
        sink: &mut impl FnMut(Stretch<'_>),
    ) {
        self.put(offset, Piece::Hole { bytes, cause, pid }, time, now, sink);
    }

    fn put(
        &mut self,
        offset: u64,
        piece: Piece,
        time: Timestamp,
        now: Timestamp,
        sink: &mut impl FnMut(Stretch<'_>),
    ) {
        self.waiting.insert(offset, (piece, time));
        self.hand_on(sink);
        if self.waiting_bytes > WAITING_BYTES || self.waiting.len() > WAITING_RECORDS {
            self.give_up(sink);
        } else if self.waiting.is_empty() {
            self.deadline = None;
        } else {
            self.deadline.get_or_insert(now.after(PATIENCE));
        }
    }

    /// Hands on what is in order.
    fn hand_on(&mut self, sink: &mut impl FnMut(Stretch<'_>)) {
        while let Some(entry) = self.waiting.first_entry() {
            if *entry.key() > self.next {
                return;
            }
            let (offset, (piece, time)) = entry.remove_entry();
            match piece {
                Piece::Bytes(bytes) => {
                    self.waiting_bytes -= bytes.len();
                    // A record from before the position would be a repetition; it cannot be, and is not shown twice.
                    if offset == self.next {
                        self.next += bytes.len() as u64;
                        sink(Stretch::Bytes(&bytes, time));
                    }
                }
                Piece::Hole { bytes, cause, pid } => {
                    if offset == self.next {
                        self.next += bytes;
                        sink(Stretch::Hole { offset, bytes, cause, pid: Some(pid), time });
                    }
                }
            }
        }
        self.deadline = None;
    }

    /// What has not come by now will not come.
    pub fn tick(&mut self, now: Timestamp, sink: &mut impl FnMut(Stretch<'_>)) {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.give_up(sink);
        }
    }

    /// Declares everything missing that records wait for.
    pub fn give_up(&mut self, sink: &mut impl FnMut(Stretch<'_>)) {
        while let Some((&offset, (_, time))) = self.waiting.first_key_value() {
            let time = *time;
            self.skip_to(offset, time, sink);
            self.hand_on(sink);
        }
    }

    /// The kernel's position is `offset` and nothing is on its way: what lies between is missing.
    pub fn skip_to(&mut self, offset: u64, time: Timestamp, sink: &mut impl FnMut(Stretch<'_>)) {
        if offset > self.next {
            let (from, bytes) = (self.next, offset - self.next);
            self.next = offset;
            sink(Stretch::Hole { offset: from, bytes, cause: 0, pid: None, time });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds records (offset, bytes) and says what comes out, holes as `<n>`.
    fn run(records: &[(u64, &str)], give_up: bool) -> String {
        let mut order = Order::default();
        let mut out = String::new();
        let mut sink = |stretch: Stretch<'_>| match stretch {
            Stretch::Bytes(bytes, _) => out.push_str(std::str::from_utf8(bytes).unwrap()),
            Stretch::Hole { bytes, .. } => out.push_str(&format!("<{bytes}>")),
        };
        for (offset, bytes) in records {
            order.data(*offset, bytes.as_bytes(), Timestamp(0), Timestamp(0), &mut sink);
        }
        if give_up {
            order.tick(Timestamp(0).after(PATIENCE), &mut sink);
            assert_eq!(order.deadline(), None);
        }
        out
    }

    #[test]
    fn order_and_holes() {
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

    #[test]
    fn waiting_is_bounded() {
        let mut order = Order::default();
        let mut holes = 0;
        let big = vec![b'x'; WAITING_BYTES / 2 + 1];
        let mut sink = |stretch: Stretch<'_>| holes += u64::from(matches!(stretch, Stretch::Hole { .. }));
        order.data(10, &big, Timestamp(0), Timestamp(0), &mut sink);
        order.data(10 + big.len() as u64 + 5, &big, Timestamp(0), Timestamp(0), &mut sink);
        assert_eq!(holes, 2);
        assert_eq!(order.waiting_bytes, 0);
    }

    #[test]
    fn a_lost_tail_is_a_hole() {
        let mut order = Order::default();
        let mut seen = Vec::new();
        let mut sink = |stretch: Stretch<'_>| {
            if let Stretch::Hole { offset, bytes, .. } = stretch {
                seen.push((offset, bytes));
            }
        };
        order.data(0, b"abc", Timestamp(0), Timestamp(0), &mut sink);
        order.skip_to(3, Timestamp(0), &mut sink);
        order.skip_to(9, Timestamp(0), &mut sink);
        assert_eq!(seen, [(3, 6)]);
    }
}
