//! What stands for events that were removed: at the beginning of the chain a `Checkpoint`, between events that are kept a
//! [`Removal`]. Both are signed by this host, so that nobody without its key can pretend that events were removed by retention.

use std::collections::BTreeMap;

use mcpwarden_policy::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{
    chain::{Hash, Head},
    checkpoint::{self, Signer},
    integer,
};

/// Events that were removed from between two that are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// Number of the first.
    pub first: u64,
    /// Hash of the event before the first: the one that is kept.
    pub before: Hash,
    /// Number and hash of the last.
    pub last: Head,
    /// When the last of them was removed.
    pub time: Timestamp,
    /// Of `Removal::text`, by the host's key.
    pub signature: Vec<u8>,
}

impl Removal {
    /// What is signed.
    fn text(&self) -> String {
        let Self { first, before, last: Head { seq, hash }, time, .. } = self;
        format!("mcpwarden removal 1\n{first}\n{before}\n{seq}\n{hash}\n{time}\n")
    }

    /// Whether the host with this key signed it.
    pub fn is_signed(&self, public_key: &[u8]) -> bool {
        checkpoint::is_signed(&self.text(), &self.signature, public_key)
    }

    fn of_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let number = |at| row.get::<_, i64>(at).map(|number| u64::try_from(number).unwrap_or(0));
        Ok(Self {
            first: number(0)?,
            before: Hash(row.get(2)?),
            last: Head { seq: number(1)?, hash: Hash(row.get(3)?) },
            time: Timestamp(number(4)?),
            signature: row.get(5)?,
        })
    }

    /// All of a database, in order.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn all(db: &Connection) -> rusqlite::Result<Vec<Self>> {
        db.prepare("SELECT first, last, before, hash, time_ns, signature FROM removals ORDER BY first")?
            .query_map([], Self::of_row)?
            .collect()
    }

    fn write(&self, db: &Connection) -> rusqlite::Result<()> {
        let mut write = db.prepare_cached(
            "INSERT OR REPLACE INTO removals (first, last, before, hash, time_ns, signature) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        let Self { first, before, last, time, signature } = self;
        let (first, last_seq, time) = (integer(*first), integer(last.seq), integer(time.0));
        write.execute(params![first, last_seq, before.0, last.hash.0, time, signature]).map(drop)
    }
}

/// How many there are.
///
/// # Errors
/// They cannot be read.
pub fn count(db: &Connection) -> rusqlite::Result<u64> {
    db.query_row("SELECT count(*) FROM removals", [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs)
}

/// Removes events (in order) in one change, and leaves what stands for them. Whether older events are kept.
///
/// # Errors
/// The database cannot be written.
pub fn remove(
    change: &Connection,
    signer: &Signer,
    time: Timestamp,
    removed: &[Head],
) -> rusqlite::Result<bool> {
    {
        let mut delete = change.prepare_cached("DELETE FROM events WHERE seq = ?1")?;
        for head in removed {
            delete.execute([integer(head.seq)])?;
        }
    }
    // The last of those that are removed behind each event that is kept.
    let mut behind: BTreeMap<u64, (Option<Head>, Head)> = BTreeMap::new();
    for head in removed {
        let kept = kept_before(change, head.seq)?;
        behind.insert(kept.map_or(0, |kept| kept.seq), (kept, *head));
    }
    let mut spares = false;
    for (kept, last) in behind.into_values() {
        let last = absorb(change, kept, last)?;
        match kept {
            None => signer.sign(last, time).write(change)?,
            Some(kept) => {
                spares = true;
                let (first, before) = (kept.seq + 1, kept.hash);
                let mut removal = Removal { first, before, last, time, signature: Vec::new() };
                removal.signature = signer.sign_text(&removal.text());
                removal.write(change)?;
            }
        }
    }
    Ok(spares)
}

/// The last event before this number that is still there.
fn kept_before(change: &Connection, seq: u64) -> rusqlite::Result<Option<Head>> {
    change
        .prepare_cached("SELECT seq, hash FROM events WHERE seq < ?1 ORDER BY seq DESC LIMIT 1")?
        .query_row([integer(seq)], |row| {
            Ok(Head { seq: row.get::<_, i64>(0)?.unsigned_abs(), hash: Hash(row.get(1)?) })
        })
        .optional()
}

/// Takes out the removals between an event that is kept and the next one that is: their last event, or `last`, whichever is later.
fn absorb(change: &Connection, kept: Option<Head>, last: Head) -> rusqlite::Result<Head> {
    let after = integer(kept.map_or(0, |kept| kept.seq));
    let next: Option<i64> = change
        .prepare_cached("SELECT min(seq) FROM events WHERE seq > ?1")?
        .query_row([after], |row| row.get(0))?;
    let span = [after, next.unwrap_or(i64::MAX)];
    let known = change
        .prepare_cached(
            "SELECT last, hash FROM removals WHERE first > ?1 AND first < ?2 ORDER BY first DESC LIMIT 1",
        )?
        .query_row(span, |row| {
            Ok(Head { seq: row.get::<_, i64>(0)?.unsigned_abs(), hash: Hash(row.get(1)?) })
        })
        .optional()?;
    change.prepare_cached("DELETE FROM removals WHERE first > ?1 AND first < ?2")?.execute(span)?;
    Ok(known.filter(|known| known.seq > last.seq).unwrap_or(last))
}
