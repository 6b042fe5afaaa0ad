//! The store: the audit trail and the pins, on this host, in SQLite.
//!
//! Events are numbered, chained by their hashes ([`chain`]) and handed over in batches; a thread of its own writes them.
//! What waits for it is bounded in bytes: then the agent waits, too. Where the database cannot be written the thread gives
//! events up, counts them, and tries again each second; the agent says both as events ([`StoreUpdate`]). Pins have a database of
//! their own ([`registry`]): they are committed before what follows from them is said, and must not wait for events.
//!
//! | module | job |
//! |---|---|
//! | `chain` | the hashes |
//! | `database` | files: opened, migrated, set aside |
//! | `columns` | what stands beside an event's text |
//! | `opening`, `writer`, `access` | events go in, whatever readers do |
//! | `retention`, `ages`, `shares`, `trims` | old events go out, those of the loudest user first |
//! | `checkpoint`, `removal` | what stands for events that are gone |
//! | `reader`, `follower`, `conditions`, `integrity` | questions, of commands |
//! | `registry` | pins |

mod access;
pub mod ages;
pub mod chain;
pub mod checkpoint;
pub mod columns;
pub mod conditions;
pub mod database;
pub mod follower;
pub mod integrity;
mod opening;
pub mod reader;
pub mod registry;
pub mod removal;
pub mod retention;
pub mod shares;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod trims;
mod writer;

use std::{
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use mcpwarden_policy::{
    Event, Timestamp,
    config::Retention,
    event::{EventBody, StoreFailing},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use chain::{Hash, Head};
use checkpoint::Signer;
use database::{DatabaseError, Schema};

use mcpwarden_system::ends;

/// Name of the database of events.
pub const EVENTS: &str = "mcpwarden.db";

/// The database of events. Severities are 0 (low) to 3 (critical), times nanoseconds since the Unix epoch.
pub const SCHEMA: Schema = Schema {
    table: "events",
    // WAL with NORMAL: what was committed when the power failed may be lost, the newest first, and nothing is torn.
    synchronous: "NORMAL",
    // The first had other views, and the third those without mutes.
    migrations: &[
        include_str!("events.sql"),
        include_str!("views.sql"),
        include_str!("shares.sql"),
        include_str!("views.sql"),
    ],
};

/// An event on its way into the store.
#[derive(Debug)]
pub struct Entry {
    /// With its place in the chain.
    pub event: Event,
    /// Of its line.
    pub hash: Hash,
    /// Where that is in the lines of the batch.
    pub line: Range<usize>,
}

/// Events that are handed over together.
struct Batch {
    lines: Bytes,
    entries: Vec<Entry>,
    _room: Room,
}

/// Room for what waits; given back when it is written. By default none: what is sent with it may exceed the store's capacity.
#[derive(Debug, Default)]
pub struct Room {
    _permit: Option<OwnedSemaphorePermit>,
}

/// What the store is told at start.
pub struct Settings {
    /// The database of events.
    pub path: PathBuf,
    /// Bytes of lines that may wait.
    pub queue_bytes: u64,
    /// How much is kept.
    pub retention: Retention,
    /// The largest log (`-wal`): where readers keep it from being merged beyond that, they are cut off.
    pub log_bytes: u64,
    /// Who may read.
    pub group: Option<u32>,
    /// The host's key.
    pub signer: Signer,
}

/// What became of the store, for the agent to report.
#[derive(Debug)]
pub enum StoreUpdate {
    /// This is to be reported.
    Report(Box<EventBody>),
    /// The database can be written again, and ends with `stored`. The first event that it takes is
    /// [`StoreRecovered`](mcpwarden_policy::event::StoreRecovered).
    Recovered {
        /// The end of what is in it.
        stored: Head,
        /// Whether this agent wrote that. Else its chain goes on from there, since it began before the database was read.
        ours: bool,
    },
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Status {
    /// The end of what is stored.
    pub head: Head,
    /// Events written.
    pub stored: u64,
    /// Events given up.
    pub lost: u64,
    /// Events removed for their age or for want of room.
    pub removed: u64,
    /// Those of them that were removed before older ones, since their user had the most.
    pub trimmed: u64,
    /// How often the database was locked by somebody.
    pub locked: u64,
    /// How often readers were cut off.
    pub readers_cut: u64,
    /// Transactions of events, and how long they took together. Nanoseconds.
    pub writes: u64,
    /// See `writes`.
    pub write_ns: u64,
}

/// The agent's end of the store.
pub struct Store {
    sender: mpsc::Sender<Batch>,
    room: Arc<Semaphore>,
    capacity: u32,
    updates: mpsc::Receiver<StoreUpdate>,
    status: Arc<Mutex<Status>>,
    thread: std::thread::JoinHandle<()>,
    path: PathBuf,
}

impl Store {
    /// Opens the database and starts the thread. `exports` is run on it now and then, and at the end. The end of the chain,
    /// and what is to be said.
    ///
    /// # Errors
    /// The database is of a later version or another program's, or there is no thread. One that is damaged is replaced, one
    /// that cannot be used now is tried again later.
    pub fn start(
        settings: Settings,
        exports: impl FnMut() + Send + 'static,
    ) -> anyhow::Result<(Self, Head, Vec<EventBody>)> {
        let mut reported = Vec::new();
        let db = match opening::open(&settings) {
            Ok((db, head, reports)) => {
                reported.extend(reports);
                Some((db, head))
            }
            Err(error @ DatabaseError::Failed { .. }) => {
                reported.push(failing(&settings.path, &error));
                None
            }
            Err(error) => return Err(error.into()),
        };
        let head = db.as_ref().map_or(Head::START, |(_, head)| *head);
        let cuts = reported.iter().filter(|body| matches!(body, EventBody::StoreReadersCut(_)));
        let status = Status { head, readers_cut: cuts.count() as u64, ..Status::default() };
        let status = Arc::new(Mutex::new(status));
        let capacity = u32::try_from(settings.queue_bytes).unwrap_or(u32::MAX).max(1);
        let ((sender, inbox), (to_agent, updates)) = (mpsc::channel(), mpsc::channel());
        let path = settings.path.clone();
        let writer = writer::Writer::new(settings, db, inbox, to_agent, Arc::clone(&status));
        let thread = std::thread::Builder::new().name("store".into()).spawn(move || writer.run(exports))?;
        let room = Arc::new(Semaphore::new(capacity as usize));
        Ok((Self { sender, room, capacity, updates, status, thread, path }, head, reported))
    }

    /// Waits until there is room for so many bytes of lines.
    pub async fn room(&self, bytes: usize) -> Room {
        // What is larger than all of it has to have all of it.
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.capacity);
        // Nobody closes it.
        Room { _permit: Arc::clone(&self.room).acquire_many_owned(bytes).await.ok() }
    }

    /// Hands events over, for which there was [`room`](Self::room).
    pub fn send(&self, lines: Bytes, entries: Vec<Entry>, room: Room) {
        // The thread ends after this end is gone.
        let _ = self.sender.send(Batch { lines, entries, _room: room });
    }

    /// The database.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What became of it since this was called last.
    pub fn updates(&self) -> Vec<StoreUpdate> {
        self.updates.try_iter().collect()
    }

    /// Size of its files: the database, and the log that is not merged into it yet.
    pub fn file_bytes(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |file| file.len()) + self.log_bytes()
    }

    /// Size of the log that is not merged into the database yet.
    pub fn log_bytes(&self) -> u64 {
        access::log_bytes(&self.path)
    }

    /// What happened so far.
    pub fn status(&self) -> Status {
        *lock(&self.status)
    }

    /// Has all that was sent written, and the database closed, until then at the latest.
    pub fn finish(self, until: Instant) {
        drop(self.sender);
        if !ends(&self.thread, until) {
            tracing::error!("the database was not closed in time: its last events may be lost");
        }
    }
}

/// Wall time now, for what is written down: nothing is decided by it.
fn wall_now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// What is said of a database that cannot be used.
fn failing(path: &Path, error: &DatabaseError) -> EventBody {
    tracing::error!("cannot store events: {error}");
    StoreFailing { path: path.display().to_string(), reason: error.to_string() }.into()
}

fn lock(status: &Mutex<Status>) -> MutexGuard<'_, Status> {
    status.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number as SQLite has them. Times end in the year 2262 there.
pub fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Group id of the group with this name, where there is one.
pub fn group(name: &str) -> Option<u32> {
    nix::unistd::Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw())
}

#[cfg(test)]
mod tests;
