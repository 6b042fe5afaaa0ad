//! The thread that writes events.

use std::{
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use mcpwarden_policy::{
    Timestamp,
    event::{EventBody, StoreReplaced},
};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
    Batch, Entry, SCHEMA, Settings, Status, StoreUpdate,
    chain::{Hash, Head},
    checkpoint::Checkpoint,
    database::{DatabaseError, set_aside},
    failing, integer, lock, retention,
};

/// Most events of one transaction, more or less; how many bytes of lines; and how long the first waits for others.
const GATHERED_EVENTS: usize = 4_096;
const GATHERED_BYTES: usize = 4 << 20;
const GATHERING: Duration = Duration::from_millis(50);
/// How often a database that fails is tried again, and retention is looked after.
const UPKEEP_EVERY: Duration = Duration::from_secs(1);
/// How often what the agent exports is exported.
const EXPORT_EVERY: Duration = Duration::from_secs(3_600);
/// What a database that failed must have room for before it is used again, so that it does not fail at once.
const PROBE_BYTES: i64 = 256 << 10;

/// See the module.
pub struct Writer {
    settings: Settings,
    inbox: Receiver<Batch>,
    updates: Sender<StoreUpdate>,
    status: Arc<Mutex<Status>>,
    state: State,
    /// The end of what is in the database; `None` before it was opened for the first time.
    head: Option<Head>,
    next_upkeep: Instant,
    next_export: Instant,
    /// Retention has more to remove.
    behind: bool,
}

enum State {
    Well(Connection),
    /// It can be written again: the next event that it takes is the one that says so.
    Waiting(Connection),
    Failing,
}

/// A database, the end of the chain in it, and what is to be said where it took the place of a damaged one.
type Opened = (Connection, Head, Option<StoreReplaced>);

/// Opens the database, or another one in the place of one that is damaged, and finds the end of the chain.
///
/// # Errors
/// See [`DatabaseError`].
pub fn open(settings: &Settings) -> Result<Opened, DatabaseError> {
    match open_as_it_is(settings) {
        Ok((db, head)) => Ok((db, head, None)),
        Err(DatabaseError::Damaged { reason, .. }) => replace(settings, reason),
        Err(error) => Err(error),
    }
}

fn open_as_it_is(settings: &Settings) -> Result<(Connection, Head), DatabaseError> {
    let db = SCHEMA.open(&settings.path, settings.group)?;
    let head = head(&db).map_err(|error| DatabaseError::new(&settings.path, &error))?;
    Ok((db, head))
}

/// Sets a damaged database aside and begins another.
fn replace(settings: &Settings, reason: String) -> Result<Opened, DatabaseError> {
    let path = &settings.path;
    let aside = set_aside(path, now().0 / 1_000_000_000).map_err(|error| DatabaseError::Failed {
        path: path.clone(),
        reason: format!("it is damaged ({reason}) and cannot be set aside: {error}"),
    })?;
    tracing::error!(
        "{} is damaged ({reason}): it is {} now, and another is begun",
        path.display(),
        aside.display()
    );
    let (db, head) = open_as_it_is(settings)?;
    let (path, set_aside) = (path.display().to_string(), aside.display().to_string());
    Ok((db, head, Some(StoreReplaced { path, set_aside, reason, pins_restored: None })))
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

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

impl Writer {
    /// A writer into `db`; without one, into what can be opened later.
    pub fn new(
        settings: Settings,
        db: Option<(Connection, Head)>,
        inbox: Receiver<Batch>,
        updates: Sender<StoreUpdate>,
        status: Arc<Mutex<Status>>,
    ) -> Self {
        let (state, head) = match db {
            Some((db, head)) => (State::Well(db), Some(head)),
            None => (State::Failing, None),
        };
        let now = Instant::now();
        let (next_upkeep, next_export) = (now + UPKEEP_EVERY, now + EXPORT_EVERY);
        Self { settings, inbox, updates, status, state, head, next_upkeep, next_export, behind: false }
    }

    /// Writes until nothing comes any more.
    pub fn run(mut self, mut exports: impl FnMut()) {
        loop {
            let wait = if self.behind { Duration::ZERO } else { UPKEEP_EVERY };
            match self.inbox.recv_timeout(wait) {
                Ok(first) => {
                    let batches = self.gather(first);
                    self.take(&batches);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let now = Instant::now();
            if self.behind || now >= self.next_upkeep {
                self.next_upkeep = now + UPKEEP_EVERY;
                self.upkeep();
            }
            if now >= self.next_export {
                self.next_export = now + EXPORT_EVERY;
                exports();
            }
        }
        // The last one to close it brings the journal into the database: one file, that whoever may can read.
        self.state = State::Failing;
        exports();
    }

    /// Takes what is there, and waits a little for more: each transaction costs as much as some dozen events.
    fn gather(&self, first: Batch) -> Vec<Batch> {
        let until = Instant::now() + GATHERING;
        let (mut events, mut bytes) = (first.entries.len(), first.lines.len());
        let mut batches = vec![first];
        while events < GATHERED_EVENTS && bytes < GATHERED_BYTES {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(more) = self.inbox.recv_timeout(left) else { break };
            events += more.entries.len();
            bytes += more.lines.len();
            batches.push(more);
        }
        batches
    }

    /// Stores what can be, and counts the rest.
    fn take(&mut self, batches: &[Batch]) {
        let all = || batches.iter().flat_map(|batch| batch.entries.iter().map(move |entry| (batch, entry)));
        let is_recovery =
            |(_, entry): &(&Batch, &Entry)| matches!(entry.event.body, EventBody::StoreRecovered(_));
        let (first, db) = match &mut self.state {
            State::Well(db) => (Some(0), Some(db)),
            State::Waiting(db) => (all().position(|entry| is_recovery(&entry)), Some(db)),
            State::Failing => (None, None),
        };
        let total = all().count();
        let (Some(first), Some(db)) = (first, db) else {
            lock(&self.status).lost += total as u64;
            return;
        };
        let began = Instant::now();
        match insert(db, all().skip(first)) {
            Ok(head) => {
                self.state = match std::mem::replace(&mut self.state, State::Failing) {
                    State::Waiting(db) => State::Well(db),
                    other => other,
                };
                self.head = head.or(self.head);
                let mut status = lock(&self.status);
                status.head = self.head.unwrap_or(status.head);
                status.stored += (total - first) as u64;
                status.lost += first as u64;
                status.writes += 1;
                status.write_ns += u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            }
            Err(error) => {
                lock(&self.status).lost += total as u64;
                self.fail(&error);
            }
        }
    }

    /// The database is given up for now, or for good where it is damaged.
    fn fail(&mut self, error: &rusqlite::Error) {
        self.state = State::Failing;
        let error = DatabaseError::new(&self.settings.path, error);
        self.report(StoreUpdate::Report(failing(&self.settings.path, &error).into()));
        // Not opened again: what was met may be where no look at it leads.
        if let DatabaseError::Damaged { reason, .. } = error {
            self.begin(replace(&self.settings, reason));
        }
    }

    /// Makes ready what was opened. It was said that the database fails; where it still does, why is not said again.
    fn begin(&mut self, opened: Result<Opened, DatabaseError>) {
        let Ok((db, stored, replaced)) = opened else { return };
        if let Some(replaced) = replaced {
            self.report(StoreUpdate::Report(Box::new(replaced.into())));
        }
        if probe(&db).is_err() {
            return;
        }
        self.report(StoreUpdate::Recovered { stored, ours: self.head.is_some() });
        self.head = Some(stored);
        lock(&self.status).head = stored;
        self.state = State::Waiting(db);
    }

    fn upkeep(&mut self) {
        let db = match &mut self.state {
            State::Well(db) => db,
            State::Waiting(_) => return,
            State::Failing => return self.begin(open(&self.settings)),
        };
        match retention::step(db, &self.settings.retention, &self.settings.signer, now()) {
            Ok(removed) => {
                lock(&self.status).removed += removed;
                self.behind = removed > 0;
            }
            Err(error) => {
                self.behind = false;
                self.fail(&error);
            }
        }
    }

    fn report(&self, updates: StoreUpdate) {
        // An agent that ends hears nothing any more.
        let _ = self.updates.send(updates);
    }
}

/// Writes events in one transaction; the last of them.
fn insert<'a>(
    db: &mut Connection,
    entries: impl Iterator<Item = (&'a Batch, &'a Entry)>,
) -> rusqlite::Result<Option<Head>> {
    let mut head = None;
    let change = db.transaction()?;
    {
        let mut insert = change.prepare_cached(
            "INSERT INTO events (seq, time_ns, type, severity, session, server, tool, uid, hash, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?;
        for (batch, entry) in entries {
            let (event, body) = (&entry.event, &entry.event.body);
            let Some(link) = &event.link else { continue };
            insert.execute(params![
                integer(link.seq),
                integer(event.timestamp.0),
                event.kind(),
                body.severity().map(|severity| severity as u8),
                event.session_id.as_ref().map(|id| &*id.0),
                event.server_id.as_ref().map(|id| &*id.0),
                body.tool_name(),
                body.uid(),
                entry.hash.0,
                batch.lines.get(entry.line.clone()).unwrap_or_default(),
            ])?;
            head = Some(Head { seq: link.seq, hash: entry.hash });
        }
    }
    change.commit()?;
    Ok(head)
}

/// Whether there is room in a database.
fn probe(db: &Connection) -> rusqlite::Result<()> {
    db.execute("INSERT INTO probe (filling) VALUES (zeroblob(?1))", [PROBE_BYTES])?;
    db.execute("DELETE FROM probe", []).map(drop)
}
