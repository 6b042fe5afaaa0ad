//! Old events go: those that are too old, and the oldest of the user with the most of them once the database is too large.

use mcpwarden_policy::{Timestamp, config::Retention};
use rusqlite::{Connection, params};

use super::{
    ages,
    chain::{Hash, Head},
    checkpoint::Signer,
    integer, removal,
    shares::{self, Changes, Share},
};

/// Most events removed at once: new ones wait meanwhile.
const REMOVED: u64 = 2_000;
/// Most records of events that were removed from between others. Beyond it, the oldest go, whose ever they are.
const MAX_REMOVALS: u64 = 100_000;
/// Removed beyond what is too much, so that not every event removes another. Bytes.
const SLACK_BYTES: u64 = 1 << 20;
/// Pages given back to the file system at once, and empty pages that are kept for events to come.
const VACUUMED_PAGES: u64 = 2_000;
const KEPT_PAGES: u64 = 256;

/// Now, by both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// What is written into the record of what is removed; nothing is decided by it.
    pub wall: Timestamp,
    /// The age of the trail: see [`ages`]. Nanoseconds.
    pub age_ns: u64,
}

/// What was removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// How many events.
    pub events: u64,
    /// The owner that lost them for having too many, while older events of others are kept; and how many, what they took.
    pub trimmed: Option<(Option<u32>, Share)>,
}

/// Events that are to be removed.
#[derive(Default)]
struct Picked {
    heads: Vec<Head>,
    shares: Changes,
    bytes: u64,
}

/// Removes some of the events that are not to be kept, and leaves signed records of them. 0 events: there are no more.
///
/// # Errors
/// The database cannot be written.
pub fn step(db: &mut Connection, limits: &Retention, signer: &Signer, now: Now) -> rusqlite::Result<Removed> {
    if let Some(last) = ages::older_than(db, limits.age.0, now.age_ns)? {
        let picked = oldest(db, Some(last), u64::MAX)?;
        if !picked.heads.is_empty() {
            return remove(db, signer, now.wall, &picked, None);
        }
    }
    let over = used_bytes(db)?.saturating_sub(limits.bytes.0);
    let mut owner = None;
    let mut picked = Picked::default();
    if let Some(most) = &limits.per_user
        && let Some((user, share)) = shares::beyond(db, most.0)?
    {
        owner = Some(user);
        picked = oldest_of(db, user, share.events, share.bytes.saturating_sub(most.0))?;
    } else if over > 0
        && removal::count(db)? < MAX_REMOVALS
        && let Some((user, share)) = shares::largest(db)?
    {
        owner = Some(user);
        picked = oldest_of(db, user, share.events, over)?;
    }
    if owner.is_some() && picked.heads.is_empty() {
        // They are not as they were counted.
        shares::recount(db)?;
    }
    if over > 0 && picked.heads.is_empty() {
        (owner, picked) = (None, oldest(db, None, over)?);
    }
    remove(db, signer, now.wall, &picked, owner)
}

/// The oldest events, whose ever they are, up to a number, or up to so many bytes and some.
fn oldest(db: &Connection, until: Option<u64>, bytes: u64) -> rusqlite::Result<Picked> {
    // Of few that are long no more than half: what is newest must not go with what is oldest.
    let there = "SELECT min(coalesce(max(seq) - min(seq) + 1, 0), ?1) FROM events";
    let there: i64 = db.query_row(there, [integer(2 * REMOVED)], |row| row.get(0))?;
    let most = match until {
        Some(_) => REMOVED,
        None => there.unsigned_abs().div_ceil(2).min(REMOVED),
    };
    let until = until.map_or(i64::MAX, integer);
    let sql = "SELECT seq, hash, length(body), owner FROM events WHERE seq <= ?1 ORDER BY seq LIMIT ?2";
    pick(db, sql, params![until, integer(most)], bytes)
}

/// The oldest events of one owner, but for the last of the chain, up to so many bytes and some. `events`: how many it has.
fn oldest_of(db: &Connection, owner: Option<u32>, events: u64, bytes: u64) -> rusqlite::Result<Picked> {
    let sql = "SELECT seq, hash, length(body), owner FROM events INDEXED BY events_by_owner
        WHERE owner IS ?1 AND seq < (SELECT max(seq) FROM events) ORDER BY seq LIMIT ?2";
    pick(db, sql, params![owner, integer(events.div_ceil(2).clamp(1, REMOVED))], bytes)
}

fn pick(db: &Connection, sql: &str, values: impl rusqlite::Params, bytes: u64) -> rusqlite::Result<Picked> {
    let mut picked = Picked::default();
    let mut events = db.prepare_cached(sql)?;
    let mut events = events.query(values)?;
    while let Some(event) = events.next()? {
        let length = event.get::<_, i64>(2)?.unsigned_abs();
        let seq = event.get::<_, i64>(0)?.unsigned_abs();
        picked.heads.push(Head { seq, hash: Hash(event.get(1)?) });
        picked.shares.entry(event.get(3)?).or_default().add(length);
        picked.bytes += length;
        if picked.bytes >= bytes.saturating_add(SLACK_BYTES) {
            break;
        }
    }
    Ok(picked)
}

/// Removes events; `owner`: for their number.
fn remove(
    db: &mut Connection,
    signer: &Signer,
    time: Timestamp,
    picked: &Picked,
    owner: Option<Option<u32>>,
) -> rusqlite::Result<Removed> {
    let Some(last) = picked.heads.last() else { return Ok(Removed::default()) };
    let change = db.transaction()?;
    let spares = removal::remove(&change, signer, time, &picked.heads)?;
    shares::remove(&change, &picked.shares)?;
    if owner.is_none() {
        change.execute("DELETE FROM ages WHERE seq < ?1", [integer(last.seq)])?;
    }
    change.commit()?;
    let trimmed = owner
        .filter(|_| spares)
        .map(|owner| (owner, Share { events: picked.heads.len() as u64, bytes: picked.bytes }));
    Ok(Removed { events: picked.heads.len() as u64, trimmed })
}

/// Gives some of the empty pages back to the file system. Whether there are more.
///
/// # Errors
/// The database cannot be written.
pub fn vacuum(db: &Connection) -> rusqlite::Result<bool> {
    let empty = pragma(db, "freelist_count")?.saturating_sub(KEPT_PAGES);
    if empty == 0 {
        return Ok(false);
    }
    // It gives back one page a row: to be read to its end.
    let mut vacuum = db.prepare(&format!("PRAGMA incremental_vacuum({})", empty.min(VACUUMED_PAGES)))?;
    let mut rows = vacuum.query([])?;
    while rows.next()?.is_some() {}
    let more = empty > VACUUMED_PAGES;
    if !more {
        // The file gets shorter when the journal is merged into it.
        db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
    }
    Ok(more)
}

/// Bytes of the database that hold something.
///
/// # Errors
/// They cannot be read.
pub fn used_bytes(db: &Connection) -> rusqlite::Result<u64> {
    let pages = pragma(db, "page_count")?.saturating_sub(pragma(db, "freelist_count")?);
    Ok(pages * pragma(db, "page_size")?)
}

fn pragma(db: &Connection, name: &str) -> rusqlite::Result<u64> {
    db.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs)
}
