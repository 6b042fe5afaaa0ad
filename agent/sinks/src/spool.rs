//! What waits for a webhook, on disk: it outlives the agent.
//!
//! A directory with a file a batch, one event a line, named by its number. The last file grows until it is full or is being
//! sent; one that was sent is removed. A batch is the same however often it is sent, also after a restart.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use mcpwarden_policy::hash::hex;
use mcpwarden_system::files::{beside, remove};
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
    libc,
};
use ring::digest::{SHA256, digest};
use serde::Deserialize;

use super::{
    Line,
    queue::{Counts, add},
};

/// Bytes of a batch at most, unless a single event has more.
pub const BATCH_BYTES: u64 = 256 << 10;
/// Events of a batch at most.
pub const BATCH_EVENTS: usize = 1_000;
/// A bound for all has room for so many batches at least, so that one that is dropped is a small part of them.
const BATCHES: u64 = 4;
/// What a file takes is a multiple of this.
const BLOCK_BYTES: u64 = 4096;

/// A batch, ready to be sent.
#[derive(Debug, PartialEq)]
pub struct Parcel {
    /// A JSON array of its events.
    pub body: Vec<u8>,
    /// How many they are.
    pub events: usize,
    /// `FIRST-LAST-HASH`: the places of its first and last event in the audit trail, and the beginning of the SHA-256 of
    /// the body: other hosts count, too.
    pub key: String,
}

/// A file.
struct Batch {
    number: u64,
    bytes: u64,
    events: usize,
}

impl Batch {
    fn cost(&self) -> u64 {
        self.bytes.next_multiple_of(BLOCK_BYTES)
    }
}

/// All that waits.
pub struct Spool {
    directory: PathBuf,
    /// Where a sink takes the place of another, the new one waits until the old one has ended.
    _lock: Flock<File>,
    /// Oldest first.
    batches: VecDeque<Batch>,
    /// The file of the last one, while it may grow.
    tail: Option<File>,
    /// Whether the first one is being sent, which may be tried for long: others are dropped before it.
    taken: bool,
    capacity: u64,
    next: u64,
}

impl Spool {
    /// Opens one with room for so many bytes; `None` where another has it open. What is damaged is cut off and counted as
    /// dropped.
    ///
    /// # Errors
    /// It cannot be read or put in order.
    pub fn open(directory: &Path, capacity: u64, counts: &Counts) -> io::Result<Option<Self>> {
        let lock = options().create(true).truncate(false).open(directory.join("lock"))?;
        let lock = match Flock::lock(lock, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => lock,
            Err((_, Errno::EWOULDBLOCK)) => return Ok(None),
            Err((_, error)) => return Err(error.into()),
        };
        let mut numbers = Vec::new();
        for entry in fs::read_dir(directory)? {
            numbers.extend(entry?.file_name().to_str().and_then(number));
        }
        numbers.sort_unstable();
        let next = numbers.last().map_or(0, |last| last + 1);
        let mut spool = Self {
            directory: directory.to_owned(),
            _lock: lock,
            batches: VecDeque::new(),
            tail: None,
            taken: false,
            capacity,
            next,
        };
        for number in numbers {
            let (bytes, events) = mend(&spool.path(number), counts)?;
            if events > 0 {
                spool.batches.push_back(Batch { number, bytes, events });
            }
        }
        spool.make_room(0, counts);
        spool.publish(counts);
        Ok(Some(spool))
    }

    /// Takes lines, and says how many of them are kept or dropped. Where there is no room, the oldest go.
    pub fn append(&mut self, lines: &[Line], counts: &Counts) -> (usize, io::Result<()>) {
        let (mut done, mut result) = (0, Ok(()));
        while let Some(rest) = lines.get(done..).filter(|rest| !rest.is_empty()) {
            let portion = rest.get(..self.portion(rest)).unwrap_or_default();
            let size = portion.iter().map(|line| line.text.len() as u64 + 1).sum();
            if self.make_room(size, counts) {
                result = self.write(portion);
                if result.is_err() {
                    break;
                }
            } else {
                add(&counts.dropped, portion.len());
            }
            done += portion.len();
        }
        self.publish(counts);
        (done, result)
    }

    /// The oldest batch, which does not grow any more.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn first(&mut self, counts: &Counts) -> io::Result<Option<Parcel>> {
        while let Some(batch) = self.batches.front() {
            if self.batches.len() == 1 {
                self.tail = None;
            }
            match fs::read(self.path(batch.number)) {
                Ok(text) => {
                    self.taken = true;
                    return Ok(Some(parcel(text, batch.events)));
                }
                // Somebody has removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    add(&counts.dropped, batch.events);
                    self.batches.pop_front();
                    self.taken = false;
                    self.publish(counts);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The oldest batch was sent, or never will be.
    pub fn done(&mut self, counts: &Counts) {
        if let Some(batch) = self.batches.pop_front() {
            // What cannot be removed is sent once more after a restart.
            if remove(&self.path(batch.number)).is_err() {
                add(&counts.failures, 1);
            }
        }
        self.taken = false;
        self.publish(counts);
    }

    fn path(&self, number: u64) -> PathBuf {
        self.directory.join(format!("{number:020}.jsonl"))
    }

    fn bytes(&self) -> u64 {
        self.batches.iter().map(Batch::cost).sum()
    }

    fn publish(&self, counts: &Counts) {
        counts.spooled_bytes.store(self.bytes(), Ordering::Relaxed);
        counts.spool_capacity_bytes.store(self.capacity, Ordering::Relaxed);
    }

    /// How many of these lines go into one batch: the one that grows, or a new one.
    fn portion(&mut self, lines: &[Line]) -> usize {
        let most = BATCH_BYTES.min(self.capacity / BATCHES);
        let fitting = |mut bytes: u64, events: usize| {
            let room = lines.iter().take(BATCH_EVENTS.saturating_sub(events));
            room.take_while(|line| {
                bytes += line.text.len() as u64 + 1;
                bytes <= most
            })
            .count()
        };
        if let (Some(_), Some(batch)) = (&self.tail, self.batches.back()) {
            let count = fitting(batch.bytes, batch.events);
            if count > 0 {
                return count;
            }
            self.tail = None;
        }
        fitting(0, 0).max(1)
    }

    /// Drops the oldest batches until there is room for so many bytes. Whether there is.
    fn make_room(&mut self, size: u64, counts: &Counts) -> bool {
        let Some(most) = self.capacity.checked_sub(size.next_multiple_of(BLOCK_BYTES)) else {
            // One that never fits pushes nobody out.
            return false;
        };
        while self.bytes() > most
            && let Some(batch) = self.batches.remove(usize::from(self.taken))
        {
            if self.batches.len() <= usize::from(self.taken) {
                self.tail = None;
            }
            // What cannot be removed is found again after a restart.
            let _ = remove(&self.path(batch.number));
            add(&counts.dropped, batch.events);
        }
        self.bytes() <= most
    }

    /// Writes lines into the batch that grows; all of them or none.
    fn write(&mut self, lines: &[Line]) -> io::Result<()> {
        let mut text = Vec::new();
        for line in lines {
            text.extend_from_slice(&line.text);
            text.push(b'\n');
        }
        if self.tail.is_none() {
            let path = self.path(self.next);
            let file = options().append(true).create_new(true).open(&path)?;
            self.batches.push_back(Batch { number: self.next, bytes: 0, events: 0 });
            self.next += 1;
            self.tail = Some(file);
        }
        let (Some(file), Some(batch)) = (self.tail.as_mut(), self.batches.back_mut()) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let mut written = file.write_all(&text).and_then(|()| file.sync_data());
        if written.is_ok() && batch.events == 0 {
            written = File::open(&self.directory).and_then(|directory| directory.sync_all());
        }
        if written.is_ok() {
            batch.bytes += text.len() as u64;
            batch.events += lines.len();
        } else if batch.events > 0 {
            // Where even that cannot be done, what is half written is cut off at the next start.
            let _ = file.set_len(batch.bytes);
        } else {
            let path = self.directory.join(format!("{:020}.jsonl", batch.number));
            let _ = remove(&path);
            self.batches.pop_back();
            self.tail = None;
        }
        written
    }
}

/// How files of a spool are opened: nobody else reads them, and no link leads elsewhere.
fn options() -> fs::OpenOptions {
    let mut options = File::options();
    options.read(true).write(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    options
}

/// The number in a file's name.
fn number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".jsonl").filter(|digits| digits.len() == 20)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// What of an event says where it stands in the audit trail: natively, and as OCSF.
#[derive(Deserialize)]
struct Position {
    seq: Option<u64>,
    metadata: Option<Metadata>,
}

#[derive(Deserialize)]
struct Metadata {
    sequence: Option<u64>,
}

fn place(line: &[u8]) -> Option<u64> {
    let Position { seq, metadata } = serde_json::from_slice(line).ok()?;
    Some(seq.or(metadata.and_then(|metadata| metadata.sequence)).unwrap_or_default())
}

/// Cuts from a file what is no whole event, and counts it as dropped. Bytes and events that are left.
fn mend(path: &Path, counts: &Counts) -> io::Result<(u64, usize)> {
    let text = fs::read(path)?;
    let (mut good, mut events, mut damaged) = (Vec::with_capacity(text.len()), 0, 0);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        if line.ends_with(b"\n") && place(line).is_some() {
            good.extend_from_slice(line);
            events += 1;
        } else {
            damaged += 1;
        }
    }
    if events == 0 {
        remove(path)?;
    } else if damaged > 0 {
        let fresh = beside(path, ".new");
        let mut file = options().create(true).truncate(true).open(&fresh)?;
        file.write_all(&good).and_then(|()| file.sync_data())?;
        fs::rename(&fresh, path)?;
    }
    if damaged > 0 {
        add(&counts.dropped, damaged);
        tracing::error!("{}: {damaged} damaged lines were skipped and not sent", path.display());
    }
    Ok((good.len() as u64, events))
}

/// Lines as a JSON array.
fn parcel(text: Vec<u8>, events: usize) -> Parcel {
    let mut lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let first = lines.next().and_then(place).unwrap_or_default();
    let last = lines.next_back().and_then(place).unwrap_or(first);
    let mut body = text;
    // Within JSON a line feed is never part of a value.
    body.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b',');
    if body.last() == Some(&b',') {
        body.pop();
    }
    body.insert(0, b'[');
    body.push(b']');
    let hash = digest(&SHA256, &body);
    let key = format!("{first}-{last}-{}", hex(hash.as_ref().get(..8).unwrap_or_default()));
    Parcel { body, events, key }
}

#[cfg(test)]
#[path = "spool_tests.rs"]
mod tests;
