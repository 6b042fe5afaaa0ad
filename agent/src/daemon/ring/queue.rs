//! Records that were taken out of the ring and not yet in, each user's in their order, and users in turn.
//!
//! A user may have twice as many bytes waiting as are free beside all, as in the ring itself (`ebpf/src/share.rs`): one who floods the
//! queue with many connections gets two thirds of it. Of that a connection may have as many as are left to the user: one that floods
//! the queue gets half of it, and leaves room for the user's others. What is beyond is a counted gap in that connection's streams. Who
//! is within that loses nothing.
//!
//! Records come out in the order in which they came in, as long as nobody costs much: each user has a credit of
//! [`QUANTUM`], and who has used it up waits until all others with records have used up theirs. What a record costs is known
//! when it was taken in: see [`Queue::charge`]. Bytes of streams come out in pieces of [`PIECE_BYTES`]: of a record as large as
//! the ring takes them, full of short messages, a turn would take too long.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use mcpwarden_abi::{
    GAP_USER_SHARE, RECORD_DATA, RECORD_GAP, RecordHeader,
    record::{bytes_of, read, used},
};

/// What a user may cost before the others get their turn. Nanoseconds of the agent's main thread.
pub const QUANTUM: u64 = 5_000_000;
/// Most bytes of a stream in a record that comes out.
const PIECE_BYTES: usize = 8 << 10;
/// What a record takes beside its bytes: its place in the queue, and what the allocator adds.
const RECORD_BYTES: u64 = 64;
/// How many times what is free a user may have.
const FACTOR: u64 = 2;
/// Most users of whom it is remembered what was refused; of more it is a sum.
const USERS_MOST: usize = 1024;

/// A record.
pub type Record = Box<[u8]>;

/// What was refused, of one user or in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Bytes of streams.
    pub bytes: u64,
    /// Records that are no part of a stream: starts and ends of processes, connections, what the gate did.
    pub facts: u64,
}

impl Refused {
    fn add(&mut self, more: Self) {
        self.bytes += more.bytes;
        self.facts += more.facts;
    }
}

/// Bytes of a direction of a connection that were refused and of which no record in the queue tells yet.
type Missing = BTreeMap<(u64, u8), RecordHeader>;

#[derive(Debug)]
struct User {
    records: VecDeque<(u64, Record)>,
    /// What these take.
    bytes: u64,
    /// What it may still cost; below 0 what it has cost too much.
    credit: i64,
    connections: HashMap<u64, Held>,
    missing: Missing,
}

/// What waits of a connection.
#[derive(Debug, Default)]
struct Held {
    bytes: u64,
    /// Where the furthest of them ends, in each direction.
    ends: [u64; 2],
    /// Whether it had more than was left, and still has more than half as much.
    is_over: bool,
}

impl User {
    fn new() -> Self {
        Self {
            records: VecDeque::new(),
            bytes: 0,
            credit: QUANTUM.cast_signed(),
            connections: HashMap::new(),
            missing: Missing::new(),
        }
    }

    /// Whether there is room for `size` more bytes of a connection, of `left` that are left to the user.
    fn admits(&mut self, connection: u64, size: u64, left: u64) -> bool {
        let held = self.connections.entry(connection).or_default();
        held.is_over = if held.is_over { held.bytes * 2 > left } else { held.bytes + size > left };
        let is_over = held.is_over;
        if held.bytes == 0 && !is_over {
            self.connections.remove(&connection);
        }
        !is_over
    }

    fn add(&mut self, connection: u64, size: u64) {
        self.bytes += size;
        self.connections.entry(connection).or_default().bytes += size;
    }

    fn remove(&mut self, connection: u64, size: u64) {
        self.bytes -= size;
        if let Some(held) = self.connections.get_mut(&connection) {
            held.bytes -= size;
            if held.bytes == 0 {
                self.connections.remove(&connection);
            }
        }
    }

    fn head(&self) -> Option<u64> {
        self.records.front().map(|(number, _)| *number)
    }
}

/// The records of all users.
#[derive(Debug)]
pub struct Queue {
    capacity: u64,
    /// What all records take.
    bytes: u64,
    /// The number of the next record.
    next: u64,
    users: HashMap<u32, User>,
    /// Users with records and credit, by the first of these records.
    ready: BTreeSet<(u64, u32)>,
    /// Users with records and no credit.
    spent: BTreeSet<u32>,
    /// What was refused since that was last asked for; `None`: of all users beyond [`USERS_MOST`].
    refused: HashMap<Option<u32>, Refused>,
    refused_in_all: Refused,
}

impl Queue {
    /// An empty queue for so many bytes.
    pub fn new(capacity: u64) -> Self {
        Self {
            capacity,
            bytes: 0,
            next: 0,
            users: HashMap::new(),
            ready: BTreeSet::new(),
            spent: BTreeSet::new(),
            refused: HashMap::new(),
            refused_in_all: Refused::default(),
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.spent.is_empty()
    }

    /// Bytes that it has, and bytes that it may have.
    pub fn fill(&self) -> (u64, u64) {
        (self.bytes, self.capacity)
    }

    /// The number that the next record gets: all before it have smaller ones.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// The smallest number of a record that waits.
    pub fn oldest(&self) -> Option<u64> {
        let spent = self.spent.iter().filter_map(|uid| self.users.get(uid)?.head());
        let ready = self.ready.first().map(|(number, _)| *number);
        ready.into_iter().chain(spent).min()
    }

    /// The users of whom records wait.
    pub fn waiting(&self) -> impl Iterator<Item = u32> + '_ {
        self.users.iter().filter(|(_, user)| !user.records.is_empty()).map(|(uid, _)| *uid)
    }

    /// Whether all records of a user before this number came out; of `None`: of all users.
    pub fn has_taken(&self, uid: Option<u32>, number: u64) -> bool {
        let is_behind = |user: &User| user.head().is_some_and(|head| head < number);
        match uid {
            Some(uid) => !self.users.get(&uid).is_some_and(is_behind),
            None => !self.users.values().any(is_behind),
        }
    }

    /// What was refused in all.
    pub fn refused_in_all(&self) -> Refused {
        self.refused_in_all
    }

    /// Takes out what was refused of the `most` users of whom it was most since they were last taken out.
    pub fn take_refused(&mut self, most: usize) -> Vec<(Option<u32>, Refused)> {
        let mut all: Vec<_> = self.refused.iter().map(|(uid, refused)| (*uid, *refused)).collect();
        all.sort_by_key(|(uid, refused)| (std::cmp::Reverse((refused.bytes, refused.facts)), *uid));
        all.truncate(most);
        for (uid, _) in &all {
            self.refused.remove(uid);
        }
        all
    }

    /// Takes a record in, or counts it where its user has too much.
    pub fn push(&mut self, record: &[u8]) {
        // What has no header is nobody's: capture counts it.
        let header = read::<RecordHeader>(record).unwrap_or_default();
        let (uid, record) = (header.uid, used(record));
        let size = size_in_pieces(&header, record);
        let user = self.users.entry(uid).or_insert_with(User::new);
        let left = (FACTOR * self.capacity.saturating_sub(self.bytes)).saturating_sub(user.bytes);
        if header.kind != RECORD_DATA {
            // Few and small, and without them nobody knows what the bytes are.
            if size > left {
                if header.kind == RECORD_GAP {
                    // One of each small write, where the kernel half refuses every second: what is missing already grows by it.
                    self.miss(uid, &header, header.value);
                } else {
                    self.count(uid, Refused { bytes: 0, facts: 1 });
                }
                return self.forget_idle(uid);
            }
            for direction in [0, 1] {
                self.report_missing(uid, (header.connection, direction));
            }
            return self.put(uid, record.into());
        }
        if user.admits(header.connection, size, left) {
            self.report_missing(uid, (header.connection, header.direction));
            pieces(&header, record).for_each(|piece| self.put(uid, piece));
            self.note_end(uid, &header);
        } else {
            self.count(uid, Refused { bytes: header.length.into(), facts: 0 });
            self.miss(uid, &header, header.length);
        }
    }

    /// Takes the next record out, and says whose it is.
    pub fn pop(&mut self) -> Option<(u32, Record)> {
        if self.ready.is_empty() {
            self.next_round();
        }
        let (_, uid) = self.ready.pop_first()?;
        let user = self.users.get_mut(&uid)?;
        let (_, record) = user.records.pop_front()?;
        let size = RECORD_BYTES + record.len() as u64;
        user.remove(connection_of(&record), size);
        self.bytes -= size;
        if user.records.is_empty() {
            while let Some((key, _)) = self.users.get(&uid).and_then(|user| user.missing.first_key_value()) {
                let key = *key;
                self.report_missing(uid, key);
            }
        }
        match self.users.get(&uid).and_then(User::head) {
            Some(head) => drop(self.ready.insert((head, uid))),
            None => drop(self.users.remove(&uid)),
        }
        Some((uid, record))
    }

    /// What a record has cost that was taken out: nanoseconds.
    pub fn charge(&mut self, uid: u32, cost: u64) {
        let Some(user) = self.users.get_mut(&uid) else { return };
        user.credit = user.credit.saturating_sub(i64::try_from(cost).unwrap_or(i64::MAX));
        if user.credit <= 0
            && let Some(head) = user.head()
            && self.ready.remove(&(head, uid))
        {
            self.spent.insert(uid);
        }
    }

    /// Nobody with records has credit: everybody gets some more, until somebody has.
    fn next_round(&mut self) {
        let owed = |uid: &u32| self.users.get(uid).map(|user| user.credit.unsigned_abs());
        let Some(least) = self.spent.iter().filter_map(owed).min() else { return };
        let more = i64::try_from((least / QUANTUM + 1) * QUANTUM).unwrap_or(i64::MAX);
        for uid in std::mem::take(&mut self.spent) {
            let Some(user) = self.users.get_mut(&uid) else { continue };
            user.credit = user.credit.saturating_add(more);
            match user.head() {
                Some(head) if user.credit > 0 => drop(self.ready.insert((head, uid))),
                _ => drop(self.spent.insert(uid)),
            }
        }
    }

    fn put(&mut self, uid: u32, record: Record) {
        let number = self.next;
        self.next += 1;
        let (connection, size) = (connection_of(&record), RECORD_BYTES + record.len() as u64);
        let user = self.users.entry(uid).or_insert_with(User::new);
        if user.records.is_empty() && !self.spent.contains(&uid) {
            self.ready.insert((number, uid));
        }
        user.records.push_back((number, record));
        user.add(connection, size);
        self.bytes += size;
    }

    /// Remembers up to where a stream came in.
    fn note_end(&mut self, uid: u32, header: &RecordHeader) {
        let held = self.users.get_mut(&uid).and_then(|user| user.connections.get_mut(&header.connection));
        if let Some(end) = held.and_then(|held| held.ends.get_mut(usize::from(header.direction))) {
            *end = (*end).max(header.offset + u64::from(header.length));
        }
    }

    /// Remembers that so many bytes of a stream are missing. All between them and what is known to be missing is, too, behind all that
    /// came in: more of that would have told of the gap. So it is one however often the kernel half refused some between, and takes no
    /// more room.
    fn miss(&mut self, uid: u32, header: &RecordHeader, bytes: u32) {
        let key = (header.connection, header.direction);
        let held = self.users.get(&uid).and_then(|user| user.connections.get(&header.connection));
        let came_in = held.and_then(|held| held.ends.get(usize::from(header.direction)).copied());
        let came_in = came_in.unwrap_or_default();
        let grown = |known: &RecordHeader| {
            let end = (header.offset + u64::from(bytes)).max(known.offset + u64::from(known.value));
            let offset = header.offset.min(known.offset);
            Some((offset, u32::try_from(end - offset).ok()?)).filter(|(offset, _)| *offset >= came_in)
        };
        let Some(user) = self.users.get_mut(&uid) else { return };
        let known = user.missing.get_mut(&key);
        match known.and_then(|known| Some((grown(known)?, known))) {
            Some(((offset, value), known)) => (known.offset, known.value) = (offset, value),
            None => {
                self.report_missing(uid, key);
                let gap = RecordHeader {
                    kind: RECORD_GAP,
                    cause: GAP_USER_SHARE,
                    length: 0,
                    value: bytes,
                    ..*header
                };
                let Some(user) = self.users.get_mut(&uid) else { return };
                user.missing.insert(key, gap);
                // Nothing comes out later that it could be told behind.
                if user.records.is_empty() {
                    self.report_missing(uid, key);
                }
            }
        }
    }

    /// Has a record tell of what is missing of a stream, before what comes next of it.
    fn report_missing(&mut self, uid: u32, key: (u64, u8)) {
        if let Some(gap) = self.users.get_mut(&uid).and_then(|user| user.missing.remove(&key)) {
            self.put(uid, bytes_of(&gap).into());
        }
    }

    fn count(&mut self, uid: u32, more: Refused) {
        self.refused_in_all.add(more);
        let known = self.refused.len() < USERS_MOST || self.refused.contains_key(&Some(uid));
        self.refused.entry(known.then_some(uid)).or_default().add(more);
    }

    /// A user of whom nothing waits is not remembered.
    fn forget_idle(&mut self, uid: u32) {
        if self.users.get(&uid).is_some_and(|user| user.records.is_empty() && user.missing.is_empty()) {
            self.users.remove(&uid);
        }
    }
}

/// Where the bytes behind the header begin that come out in pieces; `None`: the record comes out as it is.
fn divided<'r>(header: &RecordHeader, record: &'r [u8]) -> Option<&'r [u8]> {
    let bytes = record.get(size_of::<RecordHeader>()..)?;
    (header.kind == RECORD_DATA && bytes.len() > PIECE_BYTES).then_some(bytes)
}

/// What a record takes in the queue.
fn size_in_pieces(header: &RecordHeader, record: &[u8]) -> u64 {
    let pieces = divided(header, record).map_or(1, |bytes| bytes.len().div_ceil(PIECE_BYTES));
    RECORD_BYTES * pieces as u64 + (record.len() + size_of::<RecordHeader>() * (pieces - 1)) as u64
}

/// A record as records of at most [`PIECE_BYTES`] of its stream.
fn pieces<'r>(header: &'r RecordHeader, record: &'r [u8]) -> impl Iterator<Item = Record> + 'r {
    let bytes = divided(header, record);
    let whole = bytes.is_none().then(|| record.into());
    let offsets = (header.offset..).step_by(PIECE_BYTES);
    let parts = bytes.unwrap_or_default().chunks(PIECE_BYTES).zip(offsets).map(|(part, offset)| {
        // No longer than the whole.
        let length = u32::try_from(part.len()).unwrap_or(header.length);
        let header = RecordHeader { offset, length, ..*header };
        [bytes_of(&header), part].concat().into()
    });
    whole.into_iter().chain(parts)
}

fn connection_of(record: &[u8]) -> u64 {
    read::<RecordHeader>(record).map_or(0, |header| header.connection)
}

#[cfg(test)]
mod tests;
