//! How old stored events are, by a clock that nobody sets.
//!
//! The age of the trail grows with the clock since boot alone. Now and then it is written down beside the number of the last
//! event: that event, and those before it, are at least as old as the trail grew since. A step of the wall clock changes none of
//! this. Time in which the host was off, or no agent ran on an earlier boot, is not counted: events live longer, never shorter.

use std::time::Duration;

use mcpwarden_system::boot::{boot_id, boot_ns};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::integer;

/// How often the age is written down, at most and at least; between them, [`SHARE`] times in the life of an event.
const EVERY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3_600));
const SHARE: u32 = 64;

/// The clock since boot, and which boot that was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    /// The kernel's id of this boot; empty where it is not known, so that no boot is the same.
    pub id: String,
    /// Nanoseconds since it, with time asleep.
    pub ns: u64,
}

impl Boot {
    /// Reads it.
    pub fn now() -> Self {
        Self { id: boot_id().unwrap_or_default(), ns: boot_ns() }
    }
}

/// The age of the trail.
#[derive(Clone, Debug)]
pub struct Age {
    boot: Boot,
    /// At [`Self::boot`]. Nanoseconds.
    age_ns: u64,
    /// When it was written down last. Nanoseconds since boot.
    written_ns: Option<u64>,
}

impl Age {
    /// The age of the trail in a database.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(db: &Connection, boot: Boot) -> rusqlite::Result<Self> {
        let last = db
            .query_row("SELECT boot_id, boot_ns, age_ns FROM clock", [], |row| {
                let number = |at| row.get::<_, i64>(at).map(|number| u64::try_from(number).unwrap_or(0));
                Ok((row.get::<_, String>(0)?, number(1)?, number(2)?))
            })
            .optional()?;
        let age_ns = last.map_or(0, |(id, at, age_ns)| {
            let same = id == boot.id && !id.is_empty();
            // Of another boot, at least the time since this one began went by.
            age_ns.saturating_add(if same { boot.ns.saturating_sub(at) } else { boot.ns })
        });
        Ok(Self { boot, age_ns, written_ns: None })
    }

    /// The age at a moment since boot. Nanoseconds.
    pub fn at(&self, boot_ns: u64) -> u64 {
        self.age_ns.saturating_add(boot_ns.saturating_sub(self.boot.ns))
    }

    /// Writes the age down beside the number of the last event, where that is due; `life`: for how long events are kept.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn mark(
        &mut self,
        db: &mut Connection,
        last: u64,
        life: Duration,
        boot_ns: u64,
    ) -> rusqlite::Result<()> {
        let every = (life / SHARE).clamp(EVERY.0, EVERY.1).as_nanos();
        if self.written_ns.is_some_and(|written| u128::from(boot_ns.saturating_sub(written)) < every) {
            return Ok(());
        }
        self.write(db, last, boot_ns)
    }

    /// Writes it down now.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn write(&mut self, db: &mut Connection, last: u64, boot_ns: u64) -> rusqlite::Result<()> {
        let age_ns = integer(self.at(boot_ns));
        let change = db.transaction()?;
        change.execute("DELETE FROM clock", [])?;
        change.execute(
            "INSERT INTO clock (boot_id, boot_ns, age_ns) VALUES (?1, ?2, ?3)",
            params![self.boot.id, integer(boot_ns), age_ns],
        )?;
        // One that is known is at least as old as it was then.
        change.execute(
            "INSERT OR IGNORE INTO ages (seq, age_ns) VALUES (?1, ?2)",
            params![integer(last), age_ns],
        )?;
        change.commit()?;
        self.written_ns = Some(boot_ns);
        Ok(())
    }
}

/// The number of the last event that is at least so old, where there is one. `age_ns`: the age of the trail now.
///
/// # Errors
/// It cannot be read.
pub fn older_than(db: &Connection, life: Duration, age_ns: u64) -> rusqlite::Result<Option<u64>> {
    let Some(until) = u64::try_from(life.as_nanos()).ok().and_then(|life| age_ns.checked_sub(life)) else {
        return Ok(None);
    };
    let last: Option<i64> =
        db.query_row("SELECT max(seq) FROM ages WHERE age_ns <= ?1", [integer(until)], |row| row.get(0))?;
    Ok(last.map(i64::unsigned_abs))
}
