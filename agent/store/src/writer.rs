//! The thread that writes events.

use std::{
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant},
};

use mcpwarden_policy::event::{CutReason, EventBody, StoreTrimmed};
use mcpwarden_system::boot::boot_ns;
use rusqlite::{Connection, ErrorCode, params, types::ToSqlOutput};

use super::{
    Batch, Entry, Settings, Status, StoreUpdate,
    access::{Holder, log_bytes},
    chain::Head,
    columns,
    database::DatabaseError,
    failing, lock,
    opening::{self, Open, Opened, open_as_it_is},
    retention::{self, Now},
    shares::{self, Changes},
    trims::Trims,
    wall_now,
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

/// How long one who may write to the database, and locks it, is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often readers are cut off for one batch.
const MAX_CUTS: u32 = 3;
/// The share of the largest log from which on it is merged by all means, and how often that is tried.
const LOG_SHARE: u64 = 4;
const MERGE_EVERY: Duration = Duration::from_secs(3);

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
    /// When the log is to be merged next, where it is large.
    next_merge: Instant,
    trims: Trims,
}

enum State {
    Well(Open),
    /// It can be written again: the next event that it takes is the one that says so.
    Waiting(Open),
    Failing,
}

impl Writer {
    /// A writer into `db`; without one, into what can be opened later.
    pub fn new(
        settings: Settings,
        db: Option<(Open, Head)>,
        inbox: Receiver<Batch>,
        updates: Sender<StoreUpdate>,
        status: Arc<Mutex<Status>>,
    ) -> Self {
        let (state, head) = match db {
            Some((db, head)) => (State::Well(db), Some(head)),
            None => (State::Failing, None),
        };
        let now = Instant::now();
        Self {
            settings,
            inbox,
            updates,
            status,
            state,
            head,
            next_upkeep: now + UPKEEP_EVERY,
            next_export: now + EXPORT_EVERY,
            behind: false,
            next_merge: now,
            trims: Trims::default(),
        }
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
        self.write_age();
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

    /// Stores what can be, and counts the rest. Where somebody locks the database, it is waited for as for a slow disk.
    fn take(&mut self, batches: &[Batch]) {
        let began = Instant::now();
        let mut cuts = 0;
        loop {
            match self.write(batches) {
                Ok(()) => return,
                Err(error) if is_busy(&error) && self.unblock(began, &mut cuts) => {}
                Err(error) => {
                    lock(&self.status).lost +=
                        batches.iter().map(|batch| batch.entries.len() as u64).sum::<u64>();
                    return self.fail(&error);
                }
            }
        }
    }

    /// Writes events, or counts those that cannot be.
    fn write(&mut self, batches: &[Batch]) -> rusqlite::Result<()> {
        let all = || batches.iter().flat_map(|batch| batch.entries.iter().map(move |entry| (batch, entry)));
        let is_recovery =
            |(_, entry): &(&Batch, &Entry)| matches!(entry.event.body, EventBody::StoreRecovered(_));
        let (first, open) = match &mut self.state {
            State::Well(open) => (Some(0), Some(open)),
            State::Waiting(open) => (all().position(|entry| is_recovery(&entry)), Some(open)),
            State::Failing => (None, None),
        };
        let total = all().count();
        let (Some(first), Some(open)) = (first, open) else {
            lock(&self.status).lost += total as u64;
            return Ok(());
        };
        let began = Instant::now();
        let head = insert(&mut open.db, all().skip(first))?;
        self.state = match std::mem::replace(&mut self.state, State::Failing) {
            State::Waiting(open) => State::Well(open),
            other => other,
        };
        self.head = head.or(self.head);
        let mut status = lock(&self.status);
        status.head = self.head.unwrap_or(status.head);
        status.stored += (total - first) as u64;
        status.lost += first as u64;
        status.writes += 1;
        status.write_ns += u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Ok(())
    }

    /// Somebody holds the lock of the writer since `began`. Whether it is to be tried again: one who may only read is cut off,
    /// one who may write is waited for.
    fn unblock(&mut self, began: Instant, cuts: &mut u32) -> bool {
        lock(&self.status).locked += 1;
        match self.holder() {
            Some(holder) if !holder.writes && *cuts < MAX_CUTS => {
                *cuts += 1;
                self.cut(CutReason::Locked, Some(holder))
            }
            _ => began.elapsed() < PATIENCE,
        }
    }

    fn holder(&self) -> Option<Holder> {
        match &self.state {
            State::Well(open) | State::Waiting(open) => open.index.as_ref()?.holder(),
            State::Failing => None,
        }
    }

    /// Cuts all readers off. Whether the database can be used.
    fn cut(&mut self, reason: CutReason, holder: Option<Holder>) -> bool {
        let private = reason == CutReason::Locked;
        let report = opening::readers_cut(&self.settings, reason, holder);
        tracing::warn!(
            "readers of {} kept it from being written, and were cut off ({reason:?}, pid {:?}, uid {:?})",
            report.path,
            report.pid,
            report.uid
        );
        let is_waiting = matches!(self.state, State::Waiting(_));
        // Closed before its index is.
        self.state = State::Failing;
        let opened = opening::cut_off(&self.settings, private).and_then(|()| open_as_it_is(&self.settings));
        lock(&self.status).readers_cut += 1;
        self.report(StoreUpdate::Report(Box::new(report.into())));
        match opened {
            Ok((mut open, head)) if self.head.is_none_or(|known| known == head) => {
                open.closed_at = private.then(Instant::now);
                self.state = if is_waiting { State::Waiting(open) } else { State::Well(open) };
                true
            }
            // It fails in its own way when it is opened next.
            _ => false,
        }
    }

    /// The database is given up for now, or for good where it is damaged.
    fn fail(&mut self, error: &rusqlite::Error) {
        self.state = State::Failing;
        let error = DatabaseError::new(&self.settings.path, error);
        self.report(StoreUpdate::Report(failing(&self.settings.path, &error).into()));
        // Not opened again: what was met may be where no look at it leads.
        if let DatabaseError::Damaged { reason, .. } = error {
            self.begin(opening::replace(&self.settings, reason));
        }
    }

    /// Makes ready what was opened. It was said that the database fails; where it still does, why is not said again.
    fn begin(&mut self, opened: Result<Opened, DatabaseError>) {
        let Ok((open, stored, reports)) = opened else { return };
        for body in reports {
            lock(&self.status).readers_cut += u64::from(matches!(body, EventBody::StoreReadersCut(_)));
            self.report(StoreUpdate::Report(Box::new(body)));
        }
        if probe(&open.db).is_err() {
            return;
        }
        self.report(StoreUpdate::Recovered { stored, ours: self.head.is_some() });
        self.head = Some(stored);
        lock(&self.status).head = stored;
        self.state = State::Waiting(open);
    }

    fn upkeep(&mut self) {
        match &mut self.state {
            State::Well(open) => open.share(&self.settings.path),
            State::Waiting(_) => return,
            State::Failing => return self.begin(opening::open(&self.settings)),
        }
        let began = Instant::now();
        match self.retain() {
            Ok(behind) => self.behind = behind,
            Err(error) if is_busy(&error) => {
                self.behind = false;
                // Events that come meanwhile wait for the same.
                self.unblock(began, &mut 0);
            }
            Err(error) => {
                self.behind = false;
                self.fail(&error);
            }
        }
        self.merge_log();
    }

    /// Removes what is not to be kept. Whether there is more of that.
    fn retain(&mut self) -> rusqlite::Result<bool> {
        let State::Well(Open { db, age, .. }) = &mut self.state else { return Ok(false) };
        let Settings { retention: limits, signer, .. } = &self.settings;
        let boot_ns = boot_ns();
        age.mark(db, self.head.map_or(0, |head| head.seq), limits.age.0, boot_ns)?;
        let removed = retention::step(db, limits, signer, Now { wall: wall_now(), age_ns: age.at(boot_ns) })?;
        let more = retention::vacuum(db)?;
        lock(&self.status).removed += removed.events;
        if let Some((owner, share)) = removed.trimmed {
            lock(&self.status).trimmed += share.events;
            self.trims.add(owner, share);
        }
        for (uid, lost) in self.trims.due(Instant::now()) {
            let left_bytes = shares::of(db, uid)?.bytes;
            let trimmed = StoreTrimmed { uid, events: lost.events, bytes: lost.bytes, left_bytes };
            // An agent that ends hears nothing any more.
            let _ = self.updates.send(StoreUpdate::Report(Box::new(trimmed.into())));
        }
        Ok(more || removed.events > 0)
    }

    /// Merges the log into the database where that did not happen by itself. Where a reader is in the way for too long, it is cut
    /// off.
    fn merge_log(&mut self) {
        let (now, limit) = (Instant::now(), self.settings.log_bytes);
        let is_large = || log_bytes(&self.settings.path) > limit / LOG_SHARE;
        if now < self.next_merge || !is_large() {
            return;
        }
        self.next_merge = now + MERGE_EVERY;
        let State::Well(Open { db, .. }) = &self.state else { return };
        // Whether it was merged, its size tells.
        if let Err(error) = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())) {
            tracing::warn!("cannot merge the log of {}: {error}", self.settings.path.display());
        }
        if log_bytes(&self.settings.path) <= limit {
            return;
        }
        match self.holder() {
            Some(holder) if holder.writes => {}
            Some(holder) => drop(self.cut(CutReason::Locked, Some(holder))),
            None => {
                self.cut(CutReason::LogTooLarge, None);
                // Nobody is in the way any more.
                self.next_merge = now;
            }
        }
    }

    /// Writes the age of the trail down, so that the next agent goes on from there.
    fn write_age(&mut self) {
        let last = self.head.map_or(0, |head| head.seq);
        if let State::Well(Open { db, age, .. }) = &mut self.state
            && let Err(error) = age.write(db, last, boot_ns())
        {
            tracing::warn!("cannot write the age of the audit trail: {error}");
        }
    }

    fn report(&self, updates: StoreUpdate) {
        // An agent that ends hears nothing any more.
        let _ = self.updates.send(updates);
    }
}

/// Whether somebody else holds a lock.
fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Writes events in one transaction; the last of them.
fn insert<'a>(
    db: &mut Connection,
    entries: impl Iterator<Item = (&'a Batch, &'a Entry)>,
) -> rusqlite::Result<Option<Head>> {
    let mut head = None;
    let mut added = Changes::new();
    let change = db.transaction()?;
    {
        let mut insert = change.prepare_cached(
            "INSERT INTO events (seq, time_ns, type, severity, session, server, tool, uid, hash, body, owner)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?;
        for (batch, entry) in entries {
            let (event, line) = (&entry.event, batch.lines.get(entry.line.clone()).unwrap_or_default());
            let (Some(columns), Some(link)) = (columns::of(event), &event.link) else { continue };
            let owner = event.owner.or(event.body.uid());
            let [seq, time, kind, severity, session, server, tool, uid] = columns.map(ToSqlOutput::Borrowed);
            insert.execute(params![
                seq,
                time,
                kind,
                severity,
                session,
                server,
                tool,
                uid,
                entry.hash.0,
                line,
                owner
            ])?;
            added.entry(owner).or_default().add(line.len() as u64);
            head = Some(Head { seq: link.seq, hash: entry.hash });
        }
    }
    shares::add(&change, &added)?;
    change.commit()?;
    Ok(head)
}

/// Whether there is room in a database.
fn probe(db: &Connection) -> rusqlite::Result<()> {
    db.execute("INSERT INTO probe (filling) VALUES (zeroblob(?1))", [PROBE_BYTES])?;
    db.execute("DELETE FROM probe", []).map(drop)
}
