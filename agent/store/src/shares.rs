//! How much of the database the events of each user take.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::integer;

/// Events and bytes of their lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// How many events.
    pub events: u64,
    /// Bytes of their lines.
    pub bytes: u64,
}

impl Share {
    /// Counts an event.
    pub fn add(&mut self, bytes: u64) {
        self.events += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// What changes for some owners.
pub type Changes = BTreeMap<Option<u32>, Share>;

/// An owner as a key of the table.
fn key(owner: Option<u32>) -> i64 {
    owner.map_or(-1, i64::from)
}

/// Counts events that were added.
///
/// # Errors
/// The database cannot be written.
pub fn add(db: &Connection, added: &Changes) -> rusqlite::Result<()> {
    let mut add = db.prepare_cached(
        "INSERT INTO shares (owner, events, bytes) VALUES (?1, ?2, ?3)
         ON CONFLICT (owner) DO UPDATE SET events = events + excluded.events, bytes = bytes + excluded.bytes",
    )?;
    for (owner, share) in added {
        add.execute(params![key(*owner), integer(share.events), integer(share.bytes)])?;
    }
    Ok(())
}

/// Counts events that were removed.
///
/// # Errors
/// The database cannot be written.
pub fn remove(db: &Connection, removed: &Changes) -> rusqlite::Result<()> {
    let mut remove = db.prepare_cached(
        "UPDATE shares SET events = max(events - ?2, 0), bytes = max(bytes - ?3, 0) WHERE owner = ?1",
    )?;
    for (owner, share) in removed {
        remove.execute(params![key(*owner), integer(share.events), integer(share.bytes)])?;
    }
    db.execute("DELETE FROM shares WHERE events = 0", []).map(drop)
}

/// The owner with the most bytes, and its share.
///
/// # Errors
/// The database cannot be read.
pub fn largest(db: &Connection) -> rusqlite::Result<Option<(Option<u32>, Share)>> {
    find(db, "SELECT owner, events, bytes FROM shares ORDER BY bytes DESC LIMIT 1", [])
}

/// The user with the most bytes where these are more than `most`.
///
/// # Errors
/// The database cannot be read.
pub fn beyond(db: &Connection, most: u64) -> rusqlite::Result<Option<(Option<u32>, Share)>> {
    let sql =
        "SELECT owner, events, bytes FROM shares WHERE owner >= 0 AND bytes > ?1 ORDER BY bytes DESC LIMIT 1";
    find(db, sql, [integer(most)])
}

/// What an owner has.
///
/// # Errors
/// The database cannot be read.
pub fn of(db: &Connection, owner: Option<u32>) -> rusqlite::Result<Share> {
    let found = find(db, "SELECT owner, events, bytes FROM shares WHERE owner = ?1", [key(owner)])?;
    Ok(found.map_or_else(Share::default, |(_, share)| share))
}

/// Counts all of them anew.
///
/// # Errors
/// The database cannot be read or written.
pub fn recount(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch(
        "DELETE FROM shares;
         INSERT INTO shares SELECT coalesce(owner, -1), count(*), sum(length(body)) FROM events GROUP BY owner;",
    )
}

fn find(
    db: &Connection,
    sql: &str,
    values: impl rusqlite::Params,
) -> rusqlite::Result<Option<(Option<u32>, Share)>> {
    let number = |number: i64| u64::try_from(number).unwrap_or(0);
    db.prepare_cached(sql)?
        .query_row(values, |row| {
            let owner = u32::try_from(row.get::<_, i64>(0)?).ok();
            Ok((owner, Share { events: number(row.get(1)?), bytes: number(row.get(2)?) }))
        })
        .optional()
}
