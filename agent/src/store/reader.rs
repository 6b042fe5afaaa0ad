//! Questions to the database of events, whether an agent runs or not.
//!
//! Events are read some thousand at a time: a reader that takes long must not keep the agent's journal from being emptied.

use std::path::Path;

use anyhow::Result;
use mcpwarden_policy::{Timestamp, event::Severity};
use rusqlite::{Connection, types::Value};

use super::{
    SCHEMA,
    chain::{Hash, Head},
    checkpoint::Checkpoint,
    database::DatabaseError,
    integer,
};

/// Events read at once.
const PAGE: u64 = 4_096;

/// Which events.
#[derive(Debug, Default)]
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

    /// Lines of the events that are asked for, by time.
    ///
    /// # Errors
    /// They cannot be read, or `take` fails.
    pub fn find(&self, query: &Query, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let (condition, mut values) = query.condition();
        let limit = query.limit.map_or(-1, integer);
        values.push(Value::Integer(limit));
        // The last ones, found from the end, and then turned round.
        let sql = format!(
            "SELECT seq FROM events{condition} ORDER BY time_ns DESC, seq DESC LIMIT ?{}",
            values.len()
        );
        let found: Vec<i64> = self
            .0
            .prepare(&sql)?
            .query_map(rusqlite::params_from_iter(values), |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        let mut body = self.0.prepare("SELECT body FROM events WHERE seq = ?1")?;
        for seq in found.into_iter().rev() {
            let mut rows = body.query([seq])?;
            // Or it was removed meanwhile, for its age.
            if let Some(row) = rows.next()? {
                take(row.get_ref(0)?.as_blob()?)?;
            }
        }
        Ok(())
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

impl Query {
    /// What SQL asks for, and its values.
    fn condition(&self) -> (String, Vec<Value>) {
        let mut parts = Vec::new();
        let mut values: Vec<Value> = Vec::new();
        let mut place = |value: Value| {
            values.push(value);
            format!("?{}", values.len())
        };
        // Every severity is named, since an index finds each of a few values in the order of time.
        let worse =
            |least: Severity| (least as i64..=Severity::Critical as i64).map(Value::Integer).collect();
        let text = |texts: &[String]| texts.iter().cloned().map(Value::Text).collect::<Vec<_>>();
        for (column, wanted) in [
            ("type", text(&self.types)),
            ("session", text(&self.sessions)),
            ("server", text(&self.servers)),
            ("severity", self.severity.map_or_else(Vec::new, worse)),
        ] {
            if !wanted.is_empty() {
                let places: Vec<String> = wanted.into_iter().map(&mut place).collect();
                parts.push(format!("{column} IN ({})", places.join(", ")));
            }
        }
        for (comparison, time) in [(">=", self.since), ("<", self.until)] {
            if let Some(time) = time {
                parts.push(format!("time_ns {comparison} {}", place(Value::Integer(integer(time.0)))));
            }
        }
        let condition = parts.join(" AND ");
        (if condition.is_empty() { condition } else { format!(" WHERE {condition}") }, values)
    }
}
