//! What waits for a sink: bounded in bytes, so that a sink that is slow or dead costs nothing but its own backlog.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use mcpwarden_policy::config::Overflow;

use super::Line;

/// What a waiting event takes beside its bytes, about.
const OVERHEAD_BYTES: usize = 64;

/// What came of events, in numbers. All but the last two only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SinkCounters {
    /// Events that were written, or taken by whoever receives them.
    pub written: u64,
    /// Events for which there was no room.
    pub dropped: u64,
    /// Times that writing failed. It is tried again.
    pub failures: u64,
    /// Bytes that wait.
    pub waiting_bytes: u64,
    /// Bytes that may.
    pub capacity_bytes: u64,
}

/// The same, while they are counted.
#[derive(Debug, Default)]
pub struct Counts {
    pub written: AtomicU64,
    pub dropped: AtomicU64,
    pub failures: AtomicU64,
    /// Bytes that wait on disk, and that may.
    pub spooled_bytes: AtomicU64,
    pub spool_capacity_bytes: AtomicU64,
}

/// Counts.
pub fn add(count: &AtomicU64, by: usize) {
    count.fetch_add(by as u64, Ordering::Relaxed);
}

/// Events on their way to a sink.
pub struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    capacity: usize,
    overflow: Overflow,
    /// What came of events.
    pub counts: Counts,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Line>,
    bytes: usize,
    closed: bool,
}

fn cost(line: &Line) -> usize {
    line.text.len() + OVERHEAD_BYTES
}

impl Queue {
    /// One with room for so many bytes.
    pub fn new(capacity: usize, overflow: Overflow) -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            capacity,
            overflow,
            counts: Counts::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event, or drops it or the oldest. Never waits.
    pub fn push(&self, line: Line) {
        let mut state = self.lock();
        let cost = cost(&line);
        if self.overflow == Overflow::DropOldest && cost <= self.capacity {
            while state.bytes + cost > self.capacity
                && let Some(oldest) = state.lines.pop_front()
            {
                state.bytes -= self::cost(&oldest);
                add(&self.counts.dropped, 1);
            }
        }
        if state.bytes + cost > self.capacity {
            add(&self.counts.dropped, 1);
            return;
        }
        state.bytes += cost;
        state.lines.push_back(line);
        drop(state);
        self.changed.notify_one();
    }

    /// Nothing will be added any more.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Takes events, as many as have so many bytes together, and at least one. Waits for the first, and then so long for
    /// more. `None` when the queue is closed and empty.
    pub fn take(&self, bytes: usize, linger: Duration) -> Option<Vec<Line>> {
        let mut state = self.lock();
        while state.lines.is_empty() {
            if state.closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let until = Instant::now() + linger;
        while !state.closed && state.bytes < bytes {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let (mut taken, mut size) = (Vec::new(), 0);
        while let Some(line) = state.lines.front() {
            size += cost(line);
            if size > bytes && !taken.is_empty() {
                break;
            }
            state.bytes -= cost(line);
            taken.extend(state.lines.pop_front());
        }
        Some(taken)
    }

    /// Hands over what is in the queue until it is closed and empty: so many bytes at once, after lingering so long for them.
    /// `write` says how many events need no longer be kept; where it fails, what is left is tried again after `retry`. At the
    /// end it is tried once.
    pub fn drain(
        &self,
        bytes: usize,
        linger: Duration,
        retry: Duration,
        mut write: impl FnMut(&[Line]) -> (usize, io::Result<()>),
    ) {
        while let Some(lines) = self.take(bytes, linger) {
            let mut rest = &lines[..];
            while !rest.is_empty() {
                let (done, result) = write(rest);
                rest = rest.get(done..).unwrap_or_default();
                if result.is_err() {
                    add(&self.counts.failures, 1);
                    // What waits grows meanwhile, and is bounded.
                    if self.rest(retry) && done == 0 {
                        add(&self.counts.dropped, rest.len());
                        rest = &[];
                    }
                }
            }
        }
    }

    /// Waits so long, or until the queue is closed; whether it is.
    pub fn rest(&self, period: Duration) -> bool {
        let until = Instant::now() + period;
        let mut state = self.lock();
        while !state.closed {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.closed
    }

    /// What came of events so far.
    pub fn counters(&self) -> SinkCounters {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        SinkCounters {
            written: read(&self.counts.written),
            dropped: read(&self.counts.dropped),
            failures: read(&self.counts.failures),
            waiting_bytes: self.lock().bytes as u64 + read(&self.counts.spooled_bytes),
            capacity_bytes: self.capacity as u64 + read(&self.counts.spool_capacity_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: usize) -> Line {
        Line::plain(&format!("{number:036}"))
    }

    /// Policy, how many of 10 are pushed, and which are left where there is room for 3.
    #[test]
    fn queue_overflow_is_dropped_and_counted() {
        for (overflow, left) in [(Overflow::DropNewest, [0, 1, 2]), (Overflow::DropOldest, [7, 8, 9])] {
            let queue = Queue::new(300, overflow);
            (0..10).for_each(|number| queue.push(line(number)));
            let taken = queue.take(usize::MAX, Duration::ZERO).unwrap();
            let expected: Vec<_> = left.iter().map(|number| line(*number).text).collect();
            assert_eq!(taken.into_iter().map(|line| line.text).collect::<Vec<_>>(), expected, "{overflow:?}");
            let counters = queue.counters();
            assert_eq!((counters.dropped, counters.waiting_bytes), (7, 0), "{overflow:?}");
            // One that never fits pushes nobody out.
            queue.push(line(1));
            queue.push(Line::plain(&"x".repeat(300)));
            assert_eq!(queue.take(usize::MAX, Duration::ZERO).unwrap().len(), 1, "{overflow:?}");
            assert_eq!(queue.counters().dropped, 8, "{overflow:?}");
            queue.close();
            assert!(queue.take(1, Duration::ZERO).is_none());
        }
    }

    #[test]
    fn queue_batches_are_bounded() {
        let queue = Queue::new(10_000, Overflow::DropNewest);
        (0..5).for_each(|number| queue.push(line(number)));
        let sizes: Vec<_> = (0..3).map(|_| queue.take(250, Duration::ZERO).unwrap().len()).collect();
        assert_eq!(sizes, [2, 2, 1]);
        queue.push(Line::plain(&"x".repeat(1_000)));
        assert_eq!(queue.take(250, Duration::ZERO).unwrap().len(), 1, "at least one");
    }
}
