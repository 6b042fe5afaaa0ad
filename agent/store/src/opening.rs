//! The database, opened for writing: as it is, with another index where a reader is in the way, or another one in its place.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use mcpwarden_policy::event::{CutReason, EventBody, StoreReadersCut, StoreReplaced};
use rusqlite::{Connection, OptionalExtension as _};

use super::{
    SCHEMA, Settings,
    access::{Holder, Index, log_bytes, replace_index, share_index},
    ages::{Age, Boot},
    chain::{Hash, Head},
    checkpoint::Checkpoint,
    database::{DatabaseError, set_aside},
    wall_now,
};

/// How long SQLite waits for a lock before it is looked who holds it.
const BUSY: Duration = Duration::from_millis(500);
/// How long a reader may hold a lock of the writer while the database is opened.
const MOMENT: Duration = Duration::from_millis(100);
/// For how long only the owner can open the database after a reader held a lock of it.
const CLOSED: Duration = Duration::from_secs(600);

/// A database that is open for writing.
pub struct Open {
    pub(super) db: Connection,
    /// Dropped after the connection.
    pub(super) index: Option<Index>,
    /// The age of the trail in it.
    pub(super) age: Age,
    /// Since when only its owner can open it.
    pub(super) closed_at: Option<Instant>,
}

impl Open {
    /// Lets readers open it again when it is time for that.
    pub fn share(&mut self, path: &Path) {
        if self.closed_at.is_none_or(|at| at.elapsed() < CLOSED) {
            return;
        }
        self.closed_at = None;
        if let Err(error) = share_index(path) {
            tracing::error!("readers cannot open {}: {error}", path.display());
        }
    }
}

/// A database, the end of the chain in it, and what is to be reported of it.
pub type Opened = (Open, Head, Vec<EventBody>);

/// Opens the database, or another one in the place of one that is damaged, and finds the end of the chain.
///
/// # Errors
/// See [`DatabaseError`].
pub fn open(settings: &Settings) -> Result<Opened, DatabaseError> {
    // An agent before may have closed it to readers, and ended.
    if let Err(error) = share_index(&settings.path) {
        tracing::error!("readers cannot open {}: {error}", settings.path.display());
    }
    if let Some(holder) = read_locked(settings) {
        // SQLite would wait for it for ten seconds, and a reader may need it for a moment.
        thread::sleep(MOMENT);
        if read_locked(settings).is_some() {
            return unlock(settings, holder);
        }
    }
    match open_as_it_is(settings) {
        Ok((open, head)) => Ok((open, head, Vec::new())),
        Err(DatabaseError::Damaged { reason, .. }) => replace(settings, reason),
        Err(error) => Err(error),
    }
}

/// Opens the database, and finds the end of the chain.
///
/// # Errors
/// See [`DatabaseError`].
pub fn open_as_it_is(settings: &Settings) -> Result<(Open, Head), DatabaseError> {
    let db = SCHEMA.open(&settings.path, settings.group)?;
    let failed = |error| DatabaseError::new(&settings.path, &error);
    db.busy_timeout(BUSY).map_err(failed)?;
    let head = head(&db).map_err(failed)?;
    let age = Age::read(&db, Boot::now()).map_err(failed)?;
    Ok((Open { db, index: Index::open(&settings.path), age, closed_at: None }, head))
}

/// A reader that keeps the database, which this process has closed, from being opened.
fn read_locked(settings: &Settings) -> Option<Holder> {
    Index::open(&settings.path)?.holder().filter(|holder| !holder.writes)
}

/// Opens the database with another index, since a reader holds a lock of the one that is there.
fn unlock(settings: &Settings, holder: Holder) -> Result<Opened, DatabaseError> {
    cut_off(settings, true)?;
    let (mut open, head) = open_as_it_is(settings)?;
    open.closed_at = Some(Instant::now());
    Ok((open, head, vec![readers_cut(settings, CutReason::Locked, Some(holder)).into()]))
}

/// Gives up the index of the database, which is closed. `private`: only its owner can open it from then on.
///
/// # Errors
/// See [`DatabaseError`].
pub fn cut_off(settings: &Settings, private: bool) -> Result<(), DatabaseError> {
    replace_index(&settings.path, private).map_err(|error| DatabaseError::Failed {
        path: settings.path.clone(),
        reason: format!("its index cannot be replaced: {error}"),
    })
}

/// What is reported of that.
pub fn readers_cut(settings: &Settings, reason: CutReason, holder: Option<Holder>) -> StoreReadersCut {
    StoreReadersCut {
        path: settings.path.display().to_string(),
        reason,
        log_bytes: log_bytes(&settings.path),
        pid: holder.and_then(|holder| holder.pid),
        uid: holder.and_then(|holder| holder.uid()),
        closed_seconds: if reason == CutReason::Locked { CLOSED.as_secs() } else { 0 },
    }
}

/// Sets a damaged database aside and begins another.
///
/// # Errors
/// See [`DatabaseError`].
pub fn replace(settings: &Settings, reason: String) -> Result<Opened, DatabaseError> {
    let path = &settings.path;
    let aside = set_aside(path, wall_now().0 / 1_000_000_000).map_err(|error| DatabaseError::Failed {
        path: path.clone(),
        reason: format!("it is damaged ({reason}) and cannot be set aside: {error}"),
    })?;
    tracing::error!(
        "{} is damaged ({reason}): it is {} now, and another is begun",
        path.display(),
        aside.display()
    );
    let (open, head) = open_as_it_is(settings)?;
    let (path, set_aside) = (path.display().to_string(), aside.display().to_string());
    Ok((open, head, vec![StoreReplaced { path, set_aside, reason, pins_restored: None }.into()]))
}

/// The end of the chain in a database.
pub fn head(db: &Connection) -> rusqlite::Result<Head> {
    let last = "SELECT seq, hash FROM events ORDER BY seq DESC LIMIT 1";
    let last = db.query_row(last, [], |row| {
        Ok(Head { seq: row.get::<_, i64>(0)?.unsigned_abs(), hash: Hash(row.get(1)?) })
    });
    match last.optional()? {
        Some(head) => Ok(head),
        // Or all of them are removed.
        None => Ok(Checkpoint::read(db)?.map_or(Head::START, |checkpoint| checkpoint.removed)),
    }
}
