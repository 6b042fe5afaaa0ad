//! Where `top` gets what it shows: the agent's own word every second, and the events that it stores as they come.
//!
//! On a thread of its own, for a database or an agent may take its time. What was before is read first: the starts and ends
//! of servers since the agent runs, and the last hour. Where the agent ends, it is asked every second whether one is there
//! again.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use hyper::Method;
use mcpwarden_policy::{Event, Timestamp, WaitingTool};

use crate::{
    clock::Clock,
    control::{APPROVALS, STATUS, Status, Waiting, client::ask},
    events::POLL,
    output::escaped,
    store::reader::{Follower, Query},
};

/// How often the agent is asked how it is.
const STATUS_EVERY: Duration = Duration::from_secs(1);
/// How much of what was before is read, and how many events of it at most.
const PAST: (Duration, u64) = (Duration::from_secs(3_600), 20_000);
/// Starts and ends of servers before that, at most.
const PAST_LIVES: u64 = 4_096;
/// Events that are read at one time, at most: older ones are passed over, and counted.
const BEHIND: u64 = 8_192;
/// Events handed on at once.
const BATCH: usize = 1_024;
/// Batches that wait to be counted; then reading waits, too.
const WAITING: usize = 8;
/// What there may be many of, and only its time is worth showing.
const PLAIN: [&str; 2] = ["mcp_message", "agent_audit_head"];

/// What is new.
pub enum Update {
    /// How the agent is, when.
    Status(Box<Status>, Timestamp),
    /// What waits for approval.
    Waiting(Vec<WaitingTool>),
    /// Events, and the times of those that are only counted.
    Events(Vec<Event>, Vec<Timestamp>),
    /// So many events were passed over.
    Skipped(u64),
    /// Nothing comes, and why.
    Down(String),
    /// What came of something that the user had done.
    Done(Result<String, String>),
    /// A signal wants `top` to end.
    End,
}

/// Begins to read; other threads may send updates, too.
///
/// # Errors
/// No agent answers, or its database cannot be read.
pub fn start(socket: &Path) -> Result<(SyncSender<Update>, Receiver<Update>)> {
    let mut feed = Feed::connect(socket)?;
    let (sender, receiver) = sync_channel(WAITING);
    let updates = sender.clone();
    thread::Builder::new().name("feed".into()).spawn(move || {
        let mut backlog = Some(feed.past());
        // Until nobody takes updates any more.
        while feed.follow(&updates, backlog.take().unwrap_or(Ok(Vec::new()))).is_some() {
            thread::sleep(STATUS_EVERY);
        }
    })?;
    Ok((sender, receiver))
}

struct Feed {
    socket: PathBuf,
    /// The agent's last word, until it is handed on.
    status: Option<Box<Status>>,
    events: Follower,
    /// Where they are stored.
    path: String,
}

impl Feed {
    fn connect(socket: &Path) -> Result<Self> {
        let status: Box<Status> = ask(socket, Method::GET, STATUS, &())?;
        let path = status.store.path.clone();
        let events = Follower::open(Path::new(&path))?;
        Ok(Self { socket: socket.to_owned(), status: Some(status), events, path })
    }

    /// What was before.
    fn past(&self) -> Result<Vec<Event>> {
        let recent = Clock::new().now().before(PAST.0);
        let since = self.status.as_ref().map(|status| status.since);
        let lives = Query {
            types: ["mcp_server_started", "mcp_server_exited"].map(str::to_owned).into(),
            since,
            until: Some(recent),
            limit: Some(PAST_LIVES),
            ..Query::default()
        };
        let lately = Query { since: Some(recent), limit: Some(PAST.1), ..Query::default() };
        let (mut events, last) = (Vec::new(), self.events.last());
        for query in [lives, lately] {
            // What came since will be followed.
            self.events.reader().find(&query, |seq, body| {
                events.extend((seq <= last).then(|| serde_json::from_slice::<Event>(body).ok()).flatten());
                Ok(())
            })?;
        }
        Ok(events)
    }

    /// Hands on what was, then what comes, until that fails, which is handed on; `None`: nobody takes it.
    fn follow(&mut self, updates: &SyncSender<Update>, past: Result<Vec<Event>>) -> Option<()> {
        let why = match past.and_then(|events| self.send(updates, events)) {
            Ok(()) => return None,
            Err(error) => error,
        };
        let why = why.downcast::<Gone>().map_or_else(Some, |Gone| None)?;
        updates.send(Update::Down(escaped(&format!("{why:#}")))).ok()
    }

    /// The same; well when nobody takes it.
    fn send(&mut self, updates: &SyncSender<Update>, past: Vec<Event>) -> Result<()> {
        let send = |update| updates.send(update).map_err(|_| Gone);
        let mut past = past.into_iter().peekable();
        while past.peek().is_some() {
            send(Update::Events(past.by_ref().take(BATCH).collect(), Vec::new()))?;
        }
        let mut due = Instant::now();
        let mut waited = false;
        loop {
            if Instant::now() >= due {
                due = Instant::now() + STATUS_EVERY;
                let status = match self.status.take() {
                    Some(status) => status,
                    None => ask(&self.socket, Method::GET, STATUS, &())?,
                };
                if status.store.path != self.path {
                    self.events = Follower::open(Path::new(&status.store.path))?;
                    self.path.clone_from(&status.store.path);
                }
                if status.approvals > 0 || waited {
                    waited = status.approvals > 0;
                    let Waiting { approvals } = ask(&self.socket, Method::GET, APPROVALS, &())?;
                    send(Update::Waiting(approvals))?;
                }
                send(Update::Status(status, Clock::new().now()))?;
            }
            let failed = || format!("cannot read {}", escaped(&self.path));
            let skipped = self.events.skip(BEHIND).with_context(failed)?;
            if skipped > 0 {
                send(Update::Skipped(skipped))?;
            }
            let (mut events, mut plain) = (Vec::new(), Vec::new());
            let come = self.events.poll(|row| {
                if PLAIN.contains(&row.kind.as_str()) {
                    plain.push(row.time);
                } else {
                    // A later version has others.
                    match serde_json::from_slice(&row.body) {
                        Ok(event) => events.push(event),
                        Err(_) => plain.push(row.time),
                    }
                }
                if events.len() + plain.len() >= BATCH {
                    let update = Update::Events(std::mem::take(&mut events), std::mem::take(&mut plain));
                    send(update)?;
                }
                Ok(())
            });
            come.with_context(failed)?;
            if !events.is_empty() || !plain.is_empty() {
                send(Update::Events(events, plain))?;
            }
            thread::sleep(POLL);
        }
    }
}

/// Nobody takes updates any more.
#[derive(Debug, thiserror::Error)]
#[error("`top` ended")]
struct Gone;
