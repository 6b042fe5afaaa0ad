//! The records of the kernel half, in the order in which the agent takes them in.
//!
//! A thread of its own moves them out of the ring into a [`Queue`], however long the agent is busy with one of them: the ring is
//! read at the pace of memory, not of inspection. The agent's task does the same whenever it takes records out, so that it
//! knows what it has seen.

mod queue;
mod thread;

use std::{
    borrow::Cow,
    collections::HashSet,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use anyhow::{Context as _, Result};
use mcpwarden_abi::{
    FLAG_ADOPTED, FLAG_NO_EXEC, GAP_AGENT_ENDED, RECORD_DATA, RECORD_EXEC, RECORD_GAP, RING_HEADER,
    RecordHeader,
    record::{bytes_of, read},
};
use mcpwarden_kernel::{Ring, fill::Fill};
use mcpwarden_system::boot::boot_ns;
use tokio::sync::Notify;

pub use queue::Refused;
use queue::{Queue, Record};
use thread::Thread;

/// The queue holds so many rings. Half of that is what one connection may have where nothing else waits.
const RINGS: u64 = 2;

/// What the agent's task and the thread share.
struct Shared {
    inner: Mutex<Inner>,
    /// Whether the agent's task waits for it: the thread would take it again and again as long as there are records.
    wanted: AtomicUsize,
    /// There are records.
    some: Notify,
}

/// The ring, and what was taken out of it.
struct Inner {
    ring: Ring,
    fill: Fill,
    queue: Queue,
    /// Most that was in the ring when it was emptied, since that was last reported. Bytes.
    most_used: u64,
}

impl Inner {
    /// Moves up to `most` records and some more than `bytes` from the ring into the queue, of what is there now. How many
    /// records.
    fn pump(&mut self, most: usize, bytes: u64) -> usize {
        let Self { ring, fill, queue, most_used } = self;
        let used = fill.used();
        *most_used = used.max(*most_used);
        drain(ring, used.min(bytes), most, |record| queue.push(record))
    }
}

/// Takes up to `most` records out of the ring, of those that are in its first `used` bytes. How many.
fn drain(ring: &mut Ring, used: u64, most: usize, mut take: impl FnMut(&[u8])) -> usize {
    let (mut left, mut taken) = (used, 0);
    while left > 0
        && taken < most
        && let Some(record) = ring.pop()
    {
        left = left.saturating_sub(RING_HEADER + record.len() as u64);
        take(&record);
        taken += 1;
    }
    taken
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.wanted.fetch_add(1, Ordering::Relaxed);
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        self.wanted.fetch_sub(1, Ordering::Relaxed);
        inner
    }

    /// Once nobody else waits for it.
    fn lock_behind(&self) -> MutexGuard<'_, Inner> {
        while self.wanted.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All records up to this number were in the ring at a time.
#[derive(Clone, Copy)]
struct Goal {
    number: u64,
    /// When; nanoseconds since boot.
    at_ns: u64,
}

/// The ring buffer, and records that were taken out of it and not yet in.
pub struct RingReader {
    shared: Arc<Shared>,
    thread: Option<Thread>,
    ring_bytes: u64,
    goal: Option<Goal>,
    /// All records that were in the ring then were taken in; nanoseconds since boot.
    passed_ns: u64,
    /// The time by which records were last taken in; nanoseconds since boot.
    now_ns: u64,
    /// How long a record has waited at most since that was last reported. Nanoseconds.
    most_lag_ns: u64,
    /// Whose record was taken in last, and what that cost.
    cost: Option<(u32, u64)>,
}

impl RingReader {
    /// A reader of a ring of so many bytes.
    ///
    /// # Errors
    /// The positions of the ring cannot be mapped.
    pub fn new(ring: Ring, ring_bytes: u32) -> Result<Self> {
        let fill = Fill::map(&ring, ring_bytes).context("cannot map the positions of the ring buffer")?;
        let ring_bytes = fill.ring_bytes();
        let inner = Inner { ring, fill, queue: Queue::new(ring_bytes * RINGS), most_used: 0 };
        Ok(Self {
            shared: Arc::new(Shared {
                inner: Mutex::new(inner),
                wanted: AtomicUsize::new(0),
                some: Notify::new(),
            }),
            thread: None,
            ring_bytes,
            goal: None,
            passed_ns: 0,
            now_ns: boot_ns(),
            most_lag_ns: 0,
            cost: None,
        })
    }

    /// From now on the ring is emptied whenever something is in it, until [`Self::stop`].
    ///
    /// # Errors
    /// There can be no thread.
    pub fn start(&mut self) -> io::Result<()> {
        self.thread = Some(Thread::start(Arc::clone(&self.shared))?);
        Ok(())
    }

    /// The ring is emptied by [`Self::pump`] alone.
    pub fn stop(&mut self) {
        self.thread = None;
    }

    /// Waits until there are records. To be called while the thread runs.
    pub async fn ready(&self) {
        // Who is woken for records that were taken out since finds the queue empty, and waits on.
        while self.shared.lock().queue.is_empty() {
            self.shared.some.notified().await;
        }
    }

    /// Takes out of the ring what is in it now. The number below which all these records are.
    pub fn pump(&mut self) -> u64 {
        let at_ns = boot_ns();
        let mut inner = self.shared.lock();
        inner.pump(usize::MAX, u64::MAX);
        self.now_ns = at_ns;
        let number = inner.queue.next_number();
        self.goal.get_or_insert(Goal { number, at_ns });
        number
    }

    /// Takes so many bytes of records out of the ring, and what is left of the last one.
    pub fn pump_some(&mut self, bytes: u64) {
        self.shared.lock().pump(usize::MAX, bytes);
    }

    /// Bytes that are in the ring now.
    pub fn used(&self) -> u64 {
        self.shared.lock().fill.used()
    }

    /// The users of whom records wait.
    pub fn waiting(&self) -> HashSet<u32> {
        self.shared.lock().queue.waiting().collect()
    }

    /// Which records were taken in: whether all of a user below a number were, or of everybody where it is nobody's.
    pub fn with_taken<T>(&self, body: impl FnOnce(&dyn Fn(Option<u32>, u64) -> bool) -> T) -> T {
        let inner = self.shared.lock();
        body(&|uid, number| inner.queue.has_taken(uid, number))
    }

    /// Has `take` take the next record. False where there is none.
    pub fn next(&mut self, take: impl FnOnce(&[u8])) -> bool {
        let (uid, record) = {
            let mut inner = self.shared.lock();
            if let Some((uid, cost)) = self.cost.take() {
                inner.queue.charge(uid, cost);
            }
            match inner.queue.pop() {
                Some(next) => next,
                None => return false,
            }
        };
        let captured_ns = read::<RecordHeader>(&record).map_or(self.now_ns, |header| header.time_ns);
        self.most_lag_ns = self.most_lag_ns.max(self.now_ns.saturating_sub(captured_ns));
        let start = Instant::now();
        take(&record);
        let cost = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.now_ns += cost;
        self.cost = Some((uid, cost));
        true
    }

    /// Whether all records were taken in that were in the ring at a time since this was last so.
    pub fn has_passed(&mut self) -> bool {
        let oldest = self.shared.lock().queue.oldest();
        let is_reached = |goal: &mut Goal| oldest.is_none_or(|oldest| oldest >= goal.number);
        let Some(goal) = self.goal.take_if(is_reached) else { return false };
        self.passed_ns = goal.at_ns;
        true
    }

    /// All records that were in the ring then were taken in; nanoseconds since boot.
    pub fn passed_ns(&self) -> u64 {
        self.passed_ns
    }

    /// What is measured since this was called last.
    pub fn usage(&mut self) -> Usage {
        let mut inner = self.shared.lock();
        let (queue_bytes, queue_capacity) = inner.queue.fill();
        Usage {
            ring_bytes: self.ring_bytes,
            most_used: std::mem::take(&mut inner.most_used),
            queue_bytes,
            queue_capacity,
            most_lag_ns: std::mem::take(&mut self.most_lag_ns),
        }
    }

    /// What the queue refused in all.
    pub fn refused_in_all(&self) -> Refused {
        self.shared.lock().queue.refused_in_all()
    }

    /// What the queue refused since this was called last, of the `most` loudest users.
    pub fn take_refused(&self, most: usize) -> Vec<(Option<u32>, Refused)> {
        self.shared.lock().queue.take_refused(most)
    }

    /// Takes out what is in the ring now. To be called before [`Self::start`].
    pub fn take_waiting(&mut self) -> Vec<Record> {
        let (mut inner, mut records) = (self.shared.lock(), Vec::new());
        let used = inner.fill.used();
        drain(&mut inner.ring, used, usize::MAX, |record| records.push(Box::from(record)));
        records
    }

    /// These records come next: see [`found_first`].
    pub fn put_back(&mut self, waited: Vec<Record>, since: Vec<Record>) {
        let mut inner = self.shared.lock();
        for record in found_first(waited, since) {
            inner.queue.push(&record);
        }
    }
}

/// How full the ring and the queue are, and how late the agent is.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Bytes that fit in the ring.
    pub ring_bytes: u64,
    /// Most that was in it.
    pub most_used: u64,
    /// What the records in the queue take.
    pub queue_bytes: u64,
    /// What they may take.
    pub queue_capacity: u64,
    /// How long a record waited at most, from its capture. Nanoseconds.
    pub most_lag_ns: u64,
}

/// A record that tells only that its bytes are missing, since the agent ends; one of no bytes is as it was.
pub fn without_bytes(record: &[u8]) -> Cow<'_, [u8]> {
    match read::<RecordHeader>(record) {
        Some(header) if header.kind == RECORD_DATA => {
            let gap = RecordHeader {
                kind: RECORD_GAP,
                cause: GAP_AGENT_ENDED,
                length: 0,
                value: header.length,
                ..header
            };
            bytes_of(&gap).to_vec().into()
        }
        _ => record.into(),
    }
}

/// The order in which an agent takes in the records that `waited` in the ring when it started, and those that came `since`:
/// first the programs of servers that it found running, by whose records alone the others are understood. A program that
/// started while records waited was not found: its own record is among them.
fn found_first(waited: Vec<Record>, since: Vec<Record>) -> Vec<Record> {
    let exec = |record: &[u8]| read::<RecordHeader>(record).filter(|header| header.kind == RECORD_EXEC);
    let started: HashSet<(u64, u32)> = waited
        .iter()
        .filter_map(|record| exec(record))
        .filter(|header| header.flags & FLAG_NO_EXEC == 0)
        .map(|header| (header.connection, header.pid))
        .collect();
    let is_found = |record: &[u8]| {
        exec(record).is_some_and(|header| {
            header.flags & FLAG_ADOPTED != 0 && !started.contains(&(header.connection, header.pid))
        })
    };
    let (first, rest): (Vec<_>, Vec<_>) = since.into_iter().partition(|record| is_found(record));
    first.into_iter().chain(waited).chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use mcpwarden_abi::record::{Record as Parsed, parse};

    use super::*;

    /// Kind, flags, connection (its process has the same number).
    type Sent = (u8, u8, u64);

    fn record((kind, flags, connection): Sent) -> Record {
        let pid = u32::try_from(connection).unwrap();
        let header = RecordHeader { kind, flags, connection, pid, ..Default::default() };
        bytes_of(&header).into()
    }

    #[test]
    fn given_up_records_say_what_is_missing() {
        let header = |kind| RecordHeader { kind, connection: 3, offset: 7, length: 2, ..Default::default() };
        let data = [bytes_of(&header(RECORD_DATA)), b"ab".as_slice()].concat();
        match parse(&without_bytes(&data)) {
            Some(Parsed::Gap(gap)) => {
                assert_eq!((gap.connection, gap.offset, gap.value, gap.cause), (3, 7, 2, GAP_AGENT_ENDED));
            }
            other => panic!("{other:?}"),
        }
        for other in [bytes_of(&header(RECORD_GAP)), bytes_of(&header(RECORD_EXEC)), &[1, 2], &[]] {
            assert_eq!(without_bytes(other), other);
        }
    }

    #[test]
    fn adopted_servers_come_before_waiting_records() {
        const DATA: Sent = (RECORD_DATA, 0, 1);
        const STARTED: Sent = (RECORD_EXEC, 0, 1);
        const HANDED: Sent = (RECORD_EXEC, FLAG_NO_EXEC, 1);
        const FOUND: Sent = (RECORD_EXEC, FLAG_ADOPTED, 1);
        const OTHER: Sent = (RECORD_EXEC, FLAG_ADOPTED, 2);
        // Name, what was found, what waited, and in which order both come.
        type Case = (&'static str, &'static [Sent], &'static [Sent], &'static [Sent]);
        let cases: [Case; 6] = [
            ("nothing", &[], &[], &[]),
            ("in order", &[DATA], &[DATA, STARTED], &[DATA, DATA, STARTED]),
            ("found", &[DATA], &[DATA, FOUND], &[FOUND, DATA, DATA]),
            ("started meanwhile", &[STARTED, DATA], &[FOUND], &[STARTED, DATA, FOUND]),
            (
                "found, and handed its descriptors meanwhile",
                &[HANDED, DATA],
                &[FOUND],
                &[FOUND, HANDED, DATA],
            ),
            ("found, of two", &[STARTED], &[FOUND, OTHER], &[OTHER, STARTED, FOUND]),
        ];
        for (name, waited, since, expected) in cases {
            let all = |sent: &[Sent]| sent.iter().map(|sent| record(*sent)).collect::<Vec<_>>();
            let ordered = found_first(all(waited), all(since));
            assert_eq!(ordered, all(expected), "{name}");
        }
        let broken: Record = Box::from([1, 2, 3]);
        assert_eq!(found_first(vec![broken.clone()], Vec::new()), [broken], "no header is no exec");
    }
}
