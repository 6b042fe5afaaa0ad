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
pub const OVERHEAD_BYTES: usize = 64;
/// The longest pause after a failure; the first one is the sink's, and each that follows doubles it.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A sink whose write takes longer than this is reported: whoever reads takes nothing.
const STALLED: Duration = Duration::from_secs(10);

/// What came of events, in numbers, of which the first three only grow; and whether writing fails now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// Why nothing can be written now, where that is so.
    pub failing: Option<String>,
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
    now: Mutex<Now>,
}

/// How writing goes now.
#[derive(Debug, Default)]
struct Now {
    /// The last write failed.
    failed: Option<String>,
    /// The receiver does not take what was sent.
    refused: Option<String>,
    /// A write began then, and has not returned.
    writing_since: Option<Instant>,
}

impl Counts {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The receiver does not take what is sent, for this reason; or it does.
    pub fn refused(&self, why: Option<&str>) {
        self.now().refused = why.map(str::to_owned);
    }

    /// Writes, and remembers whether that fails.
    fn watch<T>(&self, write: impl FnOnce() -> (T, io::Result<()>)) -> (T, io::Result<()>) {
        self.now().writing_since = Some(Instant::now());
        let (done, result) = write();
        let mut now = self.now();
        (now.writing_since, now.failed) = (None, result.as_ref().err().map(ToString::to_string));
        (done, result)
    }

    /// Why nothing can be written at this time.
    fn failing(&self, at: Instant) -> Option<String> {
        let now = self.now();
        let is_stalled = now.writing_since.is_some_and(|since| at.duration_since(since) >= STALLED);
        let stalled = || is_stalled.then(|| format!("no write has ended for {} s", STALLED.as_secs()));
        stalled().or_else(|| now.failed.clone()).or_else(|| now.refused.clone())
    }
}

/// Counts.
pub fn add(count: &AtomicU64, by: usize) {
    count.fetch_add(by as u64, Ordering::Relaxed);
}

/// What waits in a queue: an event, or some.
pub trait Item {
    /// What it takes of the capacity. Bytes.
    fn cost(&self) -> usize;

    /// How many events it is.
    fn events(&self) -> usize;
}

impl Item for Line {
    fn cost(&self) -> usize {
        self.text.len() + OVERHEAD_BYTES
    }

    fn events(&self) -> usize {
        1
    }
}

/// Events on their way to a sink.
pub struct Queue<T = Line> {
    state: Mutex<State<T>>,
    changed: Condvar,
    /// What came of events.
    pub counts: Counts,
}

struct State<T> {
    lines: VecDeque<T>,
    bytes: usize,
    closed: bool,
    capacity: usize,
    overflow: Overflow,
}

impl<T: Item> State<T> {
    /// Drops the oldest. How many events that was; `None` where there is nothing.
    fn drop_oldest(&mut self) -> Option<usize> {
        let oldest = self.lines.pop_front()?;
        self.bytes -= oldest.cost();
        Some(oldest.events())
    }
}

impl<T: Item> Queue<T> {
    /// One with room for so many bytes.
    pub fn new(capacity: usize, overflow: Overflow) -> Self {
        let state = State { lines: VecDeque::new(), bytes: 0, closed: false, capacity, overflow };
        Self { state: Mutex::new(state), changed: Condvar::new(), counts: Counts::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is room for so many bytes from now on. What waits beyond that goes with the next event.
    pub fn bound(&self, capacity: usize, overflow: Overflow) {
        let mut state = self.lock();
        (state.capacity, state.overflow) = (capacity, overflow);
    }

    /// Adds an item, or drops it or the oldest. Never waits.
    pub fn push(&self, line: T) {
        let mut state = self.lock();
        let cost = line.cost();
        if state.overflow == Overflow::DropOldest && cost <= state.capacity {
            while state.bytes + cost > state.capacity
                && let Some(events) = state.drop_oldest()
            {
                add(&self.counts.dropped, events);
            }
        }
        if state.bytes + cost > state.capacity {
            add(&self.counts.dropped, line.events());
            return;
        }
        state.bytes += cost;
        state.lines.push_back(line);
        drop(state);
        self.changed.notify_one();
    }

    /// Drops all that waits.
    pub fn discard(&self) {
        let mut state = self.lock();
        while let Some(events) = state.drop_oldest() {
            add(&self.counts.dropped, events);
        }
    }

    /// Nothing will be added any more.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Takes events, as many as have so many bytes together, and at least one. Waits for the first, and then so long for
    /// more. `None` when the queue is closed and empty.
    pub fn take(&self, bytes: usize, linger: Duration) -> Option<Vec<T>> {
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
            let cost = line.cost();
            size += cost;
            if size > bytes && !taken.is_empty() {
                break;
            }
            state.bytes -= cost;
            taken.extend(state.lines.pop_front());
        }
        Some(taken)
    }

    /// Hands over what is in the queue until it is closed and empty: so many bytes at once, after lingering so long for them.
    /// `write` says how many items need no longer be kept; where it fails, what is left is tried again after `retry`, and after
    /// pauses that double. At the end it is tried once.
    pub fn drain(
        &self,
        bytes: usize,
        linger: Duration,
        retry: Duration,
        mut write: impl FnMut(&[T]) -> (usize, io::Result<()>),
    ) {
        let mut pause = retry;
        while let Some(lines) = self.take(bytes, linger) {
            let mut rest = &lines[..];
            while !rest.is_empty() {
                let (done, result) = self.counts.watch(|| write(rest));
                rest = rest.get(done..).unwrap_or_default();
                if result.is_ok() {
                    pause = retry;
                    continue;
                }
                add(&self.counts.failures, 1);
                // What waits grows meanwhile, and is bounded.
                if self.rest(pause) && done == 0 {
                    add(&self.counts.dropped, rest.iter().map(T::events).sum());
                    rest = &[];
                }
                pause = (pause * 2).min(LONGEST_PAUSE.max(retry));
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
        let state = self.lock();
        let (bytes, capacity) = (state.bytes as u64, state.capacity as u64);
        drop(state);
        SinkCounters {
            written: read(&self.counts.written),
            dropped: read(&self.counts.dropped),
            failures: read(&self.counts.failures),
            waiting_bytes: bytes + read(&self.counts.spooled_bytes),
            capacity_bytes: capacity + read(&self.counts.spool_capacity_bytes),
            failing: self.counts.failing(Instant::now()),
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
