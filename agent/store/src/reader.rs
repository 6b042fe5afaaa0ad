//! Questions to the database of events, whether an agent runs or not.
//!
//! Events are read some thousand at a time: a reader that takes long must not keep the agent's journal from being emptied.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use mcpwarden_policy::{Event, EventBody, Timestamp, event::Severity};
use rusqlite::Connection;

use super::{
    SCHEMA,
    chain::{Hash, Head},
    checkpoint::Checkpoint,
    conditions::Conditions,
    database::DatabaseError,
    integer,
};

/// Events read at once.
const PAGE: u64 = 4_096;

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
    /// Its line, without the line feed.
    pub body: Vec<u8>,
}

/// The database, for reading.
pub struct Reader(Connection);

impl Reader {
    /// Opens it.
    ///
    /// # Errors
    /// See [`DatabaseError`].
    pub fn open(path: &Path) -> Result<Self, DatabaseError> {
        SCHEMA.read(path).map(Self)
    }

    /// Numbers and lines of the events that are asked for, by time.
    ///
    /// # Errors
    /// They cannot be read, or `take` fails.
    pub fn find(&self, query: &Query, mut take: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        let mut body = self.0.prepare("SELECT body FROM events WHERE seq = ?1")?;
        for seq in query.conditions().last(&self.0, "events", query.limit)? {
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
        let mut find = self.0.prepare(&sql)?;
        let found = find.query_map(conditions.values(), |row| row.get(0))?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// The number of the last event; 0: there is none.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn last(&self) -> Result<u64> {
        let last = self.0.query_row("SELECT max(seq) FROM events", [], |row| row.get::<_, Option<i64>>(0))?;
        Ok(last.unwrap_or_default().unsigned_abs())
    }

    /// The number before that of the first event; 0: there is none.
    fn before(&self) -> Result<u64> {
        let first =
            self.0.query_row("SELECT min(seq) FROM events", [], |row| row.get::<_, Option<i64>>(0))?;
        Ok(first.unwrap_or_default().unsigned_abs().saturating_sub(1))
    }

    /// Events from one number on, in order, until `take` says that it is enough.
    ///
    /// # Errors
    /// They cannot be read, or `take` fails.
    pub fn walk(&self, from: u64, mut take: impl FnMut(Row) -> Result<bool>) -> Result<()> {
        let mut next = from;
        loop {
            let mut page = self.0.prepare_cached(
                "SELECT seq, hash, time_ns, type, body FROM events WHERE seq >= ?1 ORDER BY seq LIMIT ?2",
            )?;
            let mut rows = page.query([integer(next), integer(PAGE)])?;
            let mut read = 0;
            while let Some(row) = rows.next()? {
                let seq = row.get::<_, i64>(0)?.unsigned_abs();
                let row = Row {
                    // What has another form than it was written in is what no event has: whoever looks will see that.
                    head: Head { seq, hash: row.get(1).map_or(Hash::NONE, Hash) },
                    time: Timestamp(row.get::<_, i64>(2).unwrap_or_default().unsigned_abs()),
                    kind: row.get(3).unwrap_or_default(),
                    body: row.get_ref(4)?.as_bytes().unwrap_or_default().to_vec(),
                };
                (next, read) = (seq.saturating_add(1), read + 1);
                if !take(row)? {
                    return Ok(());
                }
            }
            if read < PAGE {
                return Ok(());
            }
        }
    }

    /// The number of the first event at or after a time; `None`: there is none.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn first_since(&self, time: Timestamp) -> Result<Option<u64>> {
        let first = "SELECT min(seq) FROM events WHERE time_ns >= ?1";
        let seq: Option<i64> = self.0.query_row(first, [integer(time.0)], |row| row.get(0))?;
        Ok(seq.map(i64::unsigned_abs))
    }

    /// What retention left of what it removed.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn checkpoint(&self) -> Result<Option<Checkpoint>> {
        Ok(Checkpoint::read(&self.0)?)
    }
}

/// A database that is read as it grows, whatever file stands at its path.
pub struct Follower {
    path: PathBuf,
    /// Which file that was.
    opened: Option<(u64, u64)>,
    reader: Reader,
    last: u64,
}

impl Follower {
    /// Opens it, at its end.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(path: &Path) -> Result<Self> {
        let opened = place(path);
        let reader = Reader::open(path)?;
        let last = reader.last().with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self { path: path.to_owned(), opened, reader, last })
    }

    /// Number of the last event that was handed on, or at first of the last that there is.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// What reads it now.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Leaves out the oldest of the events that came, so that at most so many are left; how many that were.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn skip(&mut self, left: u64) -> Result<u64> {
        self.renew()?;
        let skipped = self.reader.last()?.saturating_sub(self.last).saturating_sub(left);
        self.last += skipped;
        Ok(skipped)
    }

    /// Hands on the events that came.
    ///
    /// # Errors
    /// The database cannot be read, or `take` fails.
    pub fn poll(&mut self, mut take: impl FnMut(Row) -> Result<()>) -> Result<()> {
        self.renew()?;
        let last = &mut self.last;
        self.reader.walk(*last + 1, |row| {
            *last = row.head.seq;
            take(row).map(|()| true)
        })
    }

    /// Where another database stands there, since the one before was damaged or moved away, it is opened at its beginning.
    fn renew(&mut self) -> Result<()> {
        let now = place(&self.path);
        if now.is_some() && now != self.opened {
            let reader = Reader::open(&self.path)?;
            // Its numbers may go on from those of the one before, and what is not in it cannot be passed over.
            let last = reader.before()?;
            (self.reader, self.last, self.opened) = (reader, last, now);
        }
        Ok(())
    }
}

/// Which file is there.
fn place(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
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

#[cfg(test)]
mod tests {
    use mcpwarden_policy::event::AgentLoss;

    use super::*;
    use crate::testing::{TestAgent, settings};

    /// A database with so many events.
    fn stored(directory: &Path, count: u64) -> PathBuf {
        let mut agent = TestAgent::start(settings(directory));
        agent.send(
            (0..count).map(|time| Event::agent(Timestamp(time), AgentLoss::default().into())).collect(),
        );
        agent.finish();
        settings(directory).path
    }

    /// What another database has that stands there now (the first of them retention removed), how many of them are read
    /// at most; what is passed over, and what is read.
    #[test]
    fn follower_skips_events_of_replaced_database() {
        for (count, removed, left, skipped, expected) in
            [(9, 0, 20, 0, 1..=9), (9, 0, 4, 5, 6..=9), (9, 6, 4, 0, 7..=9), (9, 2, 4, 3, 6..=9)]
        {
            let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
            let [first, second] = &directories;
            let path = stored(first.path(), 3);
            let mut follower = Follower::open(&path).unwrap();
            let other = stored(second.path(), count);
            let removing = format!("DELETE FROM events WHERE seq <= {removed}");
            Connection::open(&other).unwrap().execute_batch(&removing).unwrap();
            std::fs::rename(&other, &path).unwrap();
            assert_eq!(follower.skip(left).unwrap(), skipped, "{count} {removed} {left}");
            let mut read = Vec::new();
            let taken = follower.poll(|row| {
                read.push(row.head.seq);
                Ok(())
            });
            taken.unwrap();
            assert_eq!(read, expected.collect::<Vec<_>>(), "{count} {removed} {left}");
            assert_eq!(follower.skip(0).unwrap(), 0);
        }
    }
}
