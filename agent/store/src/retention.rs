//! Old events go, the oldest first, once one is too old or the database too large.

use mcpwarden_policy::{Timestamp, config::Retention};
use rusqlite::Connection;

use super::{
    chain::{Hash, Head},
    checkpoint::Signer,
    integer,
};

/// Most events removed at once: new ones wait meanwhile.
const REMOVED: u32 = 2_000;
/// Pages given back to the file system at once.
const VACUUMED_PAGES: usize = 2_000;

/// Removes some of the events that are not to be kept, and leaves a signed checkpoint. How many; 0: there are no more.
///
/// # Errors
/// The database cannot be written.
pub fn step(
    db: &mut Connection,
    limits: &Retention,
    signer: &Signer,
    now: Timestamp,
) -> rusqlite::Result<u64> {
    let oldest = integer(now.before(limits.age.0).0);
    let over = used_bytes(db)? > limits.bytes.0;
    // Of few that are long no more than half: what is newest must not go with what is oldest.
    let there = "SELECT min(coalesce(max(seq) - min(seq) + 1, 0), ?1) FROM events";
    let there: u32 = db.query_row(there, [2 * REMOVED], |row| row.get(0))?;
    let most = there.div_ceil(2).min(REMOVED);
    let mut last = None;
    let mut removed = 0;
    {
        let mut events = db.prepare_cached("SELECT seq, time_ns, hash FROM events ORDER BY seq LIMIT ?1")?;
        let mut events = events.query([most])?;
        while let Some(event) = events.next()? {
            let time: i64 = event.get(1)?;
            if !over && time >= oldest {
                break;
            }
            last = Some(Head { seq: event.get::<_, i64>(0)?.unsigned_abs(), hash: Hash(event.get(2)?) });
            removed += 1;
        }
    }
    let Some(last) = last else { return Ok(0) };
    let change = db.transaction()?;
    signer.sign(last, now).write(&change)?;
    change.execute("DELETE FROM events WHERE seq <= ?1", [integer(last.seq)])?;
    change.commit()?;
    db.execute_batch(&format!("PRAGMA incremental_vacuum({VACUUMED_PAGES})"))?;
    Ok(removed)
}

/// Bytes of the database that hold something.
pub fn used_bytes(db: &Connection) -> rusqlite::Result<u64> {
    let number = |pragma: &str| -> rusqlite::Result<u64> {
        db.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs)
    };
    Ok((number("page_count")?.saturating_sub(number("freelist_count")?)) * number("page_size")?)
}
