//! Questions to the database of events, whether an agent runs or not.
//!
//! Events are read some thousand at a time: a reader that takes long must not keep the agent's journal from being emptied.
//!
//! Without an agent the database is read as a file that nobody changes, since readers may put nothing beside it. Whether somebody does
//! is looked at after each page: what was read while an agent appeared is read again.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use anyhow::Result;
use mcpwarden_policy::{Event, EventBody, Timestamp, event::Severity};
use mcpwarden_system::files::beside;
use rusqlite::{
    Connection,
    types::{Value, ValueRef},
};

use super::{
    SCHEMA,
    chain::{Hash, Head},
    checkpoint::Checkpoint,
    columns,
    conditions::Conditions,
    database::DatabaseError,
    integer,
    removal::Removal,
};

/// Events read at once, and bytes of their lines.
const PAGE: usize = 4_096;
const PAGE_BYTES: usize = 4 << 20;

/// Which events.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Their types; none named is all. So of the others.
    pub types: Vec<String>,
    /// Their sessions.
    pub sessions: Vec<String>,
    /// Their servers.
    pub servers: Vec<String>,
    /// At least so bad. Those that are neither good nor bad are left out.
    pub severity: Option<Severity>,
    /// Not before.
    pub since: Option<Timestamp>,
    /// Before.
    pub until: Option<Timestamp>,
    /// The last so many; `None`: all.
    pub limit: Option<u64>,
}

/// A stored event.
#[derive(Debug)]
pub struct Row {
    /// Its number and hash, as they are stored beside it.
    pub head: Head,
    /// When it happened, as is stored beside it.
    pub time: Timestamp,
    /// Its type, as is stored beside it.
    pub kind: String,
    /// All that is stored beside it, as it is: see [`columns::NAMES`].
    pub columns: [Value; 8],
    /// Its line, without the line feed.
    pub body: Vec<u8>,
    /// Whether hash and line have the form that they are written in.
    pub is_binary: bool,
}

impl Row {
    /// An event with the columns of [`Reader::page`]. What has another form than it was written in is what no event has: whoever
    /// looks will see that.
    fn of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let (hash, body) = (row.get_ref(8)?, row.get_ref(9)?);
        let is_binary = [hash, body].iter().all(|value| matches!(value, ValueRef::Blob(_)));
        Ok(Self {
            head: Head {
                seq: row.get::<_, i64>(0)?.unsigned_abs(),
                hash: row.get(8).map_or(Hash::NONE, Hash),
            },
            time: Timestamp(row.get::<_, i64>(1).unwrap_or_default().unsigned_abs()),
            kind: row.get(2).unwrap_or_default(),
            columns: [
                row.get(0)?,
                row.get(1)?,
                row.get(2)?,
                row.get(3)?,
                row.get(4)?,
                row.get(5)?,
                row.get(6)?,
                row.get(7)?,
            ],
            body: body.as_bytes().unwrap_or_default().to_vec(),
            is_binary,
        })
    }
}

/// Events that were read together, and whether there were no more.
struct Page {
    rows: Vec<Row>,
    is_last: bool,
}

/// The database, for reading.
pub struct Reader {
    path: PathBuf,
    opened: Files,
    db: Connection,
}

/// The files that a database was opened as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Files {
    /// Which file it is.
    place: Option<(u64, u64)>,
    /// Of one that nobody changes: its size, and when it was changed last.
    still: Option<(u64, i64, i64)>,
    /// Of one that an agent writes: which file its index is.
    index: Option<(u64, u64)>,
}

impl Files {
    /// Looks at them.
    fn of(path: &Path, is_still: bool) -> Self {
        let file = fs::metadata(path).ok();
        let changed = |file: &fs::Metadata| (file.len(), file.mtime(), file.mtime_nsec());
        Self {
            place: file.as_ref().map(|file| (file.dev(), file.ino())),
            still: file.as_ref().filter(|_| is_still).map(changed),
            index: if is_still { None } else { place(&beside(path, "-shm")) },
        }
    }
}

impl Reader {
    /// Opens it.
    ///
    /// # Errors
    /// See [`DatabaseError`].
    pub fn open(path: &Path) -> Result<Self, DatabaseError> {
        // What changes from here on is noticed.
        let before = Files::of(path, true);
        let (db, is_still) = SCHEMA.read_as(path)?;
        let opened = if is_still { before } else { Files::of(path, false) };
        Ok(Self { path: path.to_owned(), opened, db })
    }

    /// The connection, for one query.
    pub fn db(&self) -> &Connection {
        &self.db
    }

    /// Whether it shows what the database was, and no more what it is: an agent appeared where there was none, or gave readers up.
    fn is_stale(&self) -> bool {
        let is_still = self.opened.still.is_some();
        let now = Files::of(&self.path, is_still);
        if now.place != self.opened.place {
            // It was set aside, and goes on to be what it is.
            return false;
        }
        if is_still {
            return now != self.opened || beside(&self.path, "-wal").exists();
        }
        now.index.is_some() && now != self.opened
    }

    /// Opens it again where that shows more. Whether it was.
    ///
    /// # Errors
    /// See [`DatabaseError`].
    pub fn refresh(&mut self) -> Result<bool, DatabaseError> {
        let is_stale = self.is_stale();
        if is_stale {
            *self = Self::open(&self.path)?;
        }
        Ok(is_stale)
    }

    /// Numbers and lines of the events that are asked for, by time.
    ///
    /// # Errors
    /// They cannot be read, or `take` fails.
    pub fn find(&self, query: &Query, mut take: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        let mut body = self.db.prepare("SELECT body FROM events WHERE seq = ?1")?;
        for seq in query.conditions().last(&self.db, "events", query.limit)? {
            let mut rows = body.query([seq])?;
            // Or it was removed meanwhile, for its age.
            if let Some(row) = rows.next()? {
                take(seq.unsigned_abs(), row.get_ref(0)?.as_blob()?)?;
            }
        }
        Ok(())
    }

    /// The servers that the events are about which are asked for; the limit aside.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn servers(&self, query: &Query) -> Result<Vec<String>> {
        let conditions = query.conditions().holds("server IS NOT NULL");
        let sql = format!("SELECT DISTINCT server FROM events{}", conditions.sql());
        let mut find = self.db.prepare(&sql)?;
        let found = find.query_map(conditions.values(), |row| row.get(0))?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// The number of the last event; 0: there is none.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn last(&self) -> Result<u64> {
        let last =
            self.db.query_row("SELECT max(seq) FROM events", [], |row| row.get::<_, Option<i64>>(0))?;
        Ok(last.unwrap_or_default().unsigned_abs())
    }

    /// The number before that of the first event; 0: there is none.
    pub(super) fn before(&self) -> Result<u64> {
        let first =
            self.db.query_row("SELECT min(seq) FROM events", [], |row| row.get::<_, Option<i64>>(0))?;
        Ok(first.unwrap_or_default().unsigned_abs().saturating_sub(1))
    }

    /// Events from one number on, in order, until `take` says that it is enough.
    ///
    /// # Errors
    /// They cannot be read, or `take` fails.
    pub fn walk(&mut self, from: u64, mut take: impl FnMut(Row) -> Result<bool>) -> Result<()> {
        let mut next = from;
        loop {
            let page = self.page(next);
            // What was read while somebody changed it may be anything.
            if self.refresh()? {
                continue;
            }
            let Page { rows, is_last } = page?;
            for row in rows {
                next = row.head.seq.saturating_add(1);
                // Behind the largest number that SQLite has, there is none.
                let ends = i64::try_from(next).is_err();
                if !take(row)? || ends {
                    return Ok(());
                }
            }
            if is_last && !self.refresh()? {
                return Ok(());
            }
        }
    }

    /// Some events from one number on.
    fn page(&self, from: u64) -> rusqlite::Result<Page> {
        let mut page = self.db.prepare_cached(&format!(
            "SELECT {}, hash, body FROM events WHERE seq >= ?1 ORDER BY seq LIMIT {PAGE}",
            columns::NAMES.join(", ")
        ))?;
        let mut found = page.query([integer(from)])?;
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while let Some(row) = found.next()? {
            let row = Row::of(row)?;
            bytes += row.body.len();
            rows.push(row);
            if bytes >= PAGE_BYTES {
                return Ok(Page { rows, is_last: false });
            }
        }
        let is_last = rows.len() < PAGE;
        Ok(Page { rows, is_last })
    }

    /// Whether an event stands where there can be none: before this number, up to which retention removed all.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn first_before(&self, seq: u64) -> Result<Option<i64>> {
        let first = "SELECT min(seq) FROM events WHERE seq < ?1";
        Ok(self.db.query_row(first, [integer(seq)], |row| row.get(0))?)
    }

    /// What stands for events that retention removed from between others, in order.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn removals(&self) -> Result<Vec<Removal>> {
        Ok(Removal::all(&self.db)?)
    }

    /// A number that changes when events are removed: what was missing may have been there before.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn removed(&self) -> Result<(Option<Checkpoint>, u64, u64)> {
        let last = "SELECT count(*), coalesce(max(time_ns), 0) FROM removals";
        let (count, time) =
            self.db.query_row(last, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
        Ok((self.checkpoint()?, count.unsigned_abs(), time.unsigned_abs()))
    }

    /// The number of the first event at or after a time; `None`: there is none.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn first_since(&self, time: Timestamp) -> Result<Option<u64>> {
        let first = "SELECT min(seq) FROM events WHERE time_ns >= ?1";
        let seq: Option<i64> = self.db.query_row(first, [integer(time.0)], |row| row.get(0))?;
        Ok(seq.map(i64::unsigned_abs))
    }

    /// How many checkpoints there are: more than one stands for nothing.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn checkpoints(&self) -> Result<u64> {
        let count = self.db.query_row("SELECT count(*) FROM checkpoint", [], |row| row.get::<_, i64>(0))?;
        Ok(count.unsigned_abs())
    }

    /// What retention left of what it removed.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn checkpoint(&self) -> Result<Option<Checkpoint>> {
        Ok(Checkpoint::read(&self.db)?)
    }
}

/// A type of events that is not known.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no type {0:?} of events; expected one of {known}", known = EventBody::KINDS.join(", "))]
pub struct UnknownType(String);

impl Query {
    /// Looks whether there are such types.
    ///
    /// # Errors
    /// One is not known.
    pub fn check_types(&self) -> Result<(), UnknownType> {
        let unknown = self.types.iter().find(|kind| !EventBody::KINDS.contains(&kind.as_str()));
        unknown.map_or(Ok(()), |kind| Err(UnknownType(kind.clone())))
    }

    /// Whether it asks for an event, however many there are.
    pub fn wants(&self, event: &Event) -> bool {
        let one_of = |wanted: &[String], is: Option<&str>| {
            wanted.is_empty() || is.is_some_and(|is| wanted.iter().any(|one| one == is))
        };
        one_of(&self.types, Some(event.kind()))
            && one_of(&self.sessions, event.session_id.as_ref().map(|id| &*id.0))
            && one_of(&self.servers, event.server_id.as_ref().map(|id| &*id.0))
            && self.severity.is_none_or(|least| event.body.severity() >= Some(least))
            && self.since.is_none_or(|since| event.timestamp >= since)
            && self.until.is_none_or(|until| event.timestamp < until)
    }

    /// What SQL asks for.
    fn conditions(&self) -> Conditions {
        Conditions::default()
            .any("type", &self.types)
            .any("session", &self.sessions)
            .any("server", &self.servers)
            .at_least("severity", self.severity)
            .between("time_ns", self.since, self.until)
    }
}

/// Which file is there.
pub(super) fn place(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}
