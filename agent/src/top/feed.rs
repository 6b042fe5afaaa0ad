//! Where `top` gets what it shows: the agent's own word every second, and the events that it stores as they come.
//!
//! On a thread of its own, for a database or an agent may take its time. What was before is read first: the starts and ends
//! of servers and their tools since the agent runs, and the last hour. Where the agent ends, it is asked every second whether
//! one is there again; of one that stores elsewhere, what it said before is read, too.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use hyper::Method;
use mcpwarden_policy::{Event, Timestamp, WaitingTool};
use mcpwarden_store::{follower::Follower, reader::Query};

use super::{FRAME, model::lighten};
use crate::host::clock::Clock;
use crate::{
    control::{APPROVALS, STATUS, Status, Waiting, client::query_agent},
    output::escaped,
};

/// How often the agent is asked how it is.
const STATUS_EVERY: Duration = Duration::from_secs(1);
/// How much of what was before is read, and how many events of it at most.
const PAST: (Duration, u64) = (Duration::from_secs(3_600), 20_000);
/// Of starts and ends of servers before that, and of definitions of tools, at most so many.
const PAST_OTHERS: u64 = 4_096;
/// What is read of the time before that: without the last definition of a tool it could not be approved.
const OTHERS: [[&str; 2]; 2] =
    [["mcp_server_started", "mcp_server_exited"], ["mcp_tool_seen", "mcp_tool_changed"]];
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
        let since = feed.status.as_ref().map(|status| status.since);
        let mut backlog = Some(past(&feed.events, since, recent()));
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
        let status: Box<Status> = query_agent(socket, Method::GET, STATUS, &())?;
        let path = status.store.path.clone();
        let events = Follower::open(Path::new(&path))?;
        Ok(Self { socket: socket.to_owned(), status: Some(status), events, path })
    }

    /// Follows what the agent stores elsewhere, if it does: another agent. What that one said before.
    fn turn(&mut self, status: &Status) -> Result<Vec<Event>> {
        if status.store.path == self.path {
            return Ok(Vec::new());
        }
        let events = Follower::open(Path::new(&status.store.path))?;
        // What others stored there before may have been counted, when that was followed.
        let past = past(&events, Some(status.since), recent().max(status.since))?;
        (self.events, self.path) = (events, status.store.path.clone());
        Ok(past)
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
        let send_past = |past: Vec<Event>| {
            let mut past = past.into_iter().peekable();
            while past.peek().is_some() {
                send(Update::Events(past.by_ref().take(BATCH).collect(), Vec::new()))?;
            }
            Ok::<_, Gone>(())
        };
        send_past(past)?;
        let mut due = Instant::now();
        let mut next = due;
        let mut waited = false;
        loop {
            if Instant::now() >= due {
                due = Instant::now() + STATUS_EVERY;
                let status = match self.status.take() {
                    Some(status) => status,
                    None => query_agent(&self.socket, Method::GET, STATUS, &())?,
                };
                send_past(self.turn(&status)?)?;
                if status.approvals > 0 || waited {
                    waited = status.approvals > 0;
                    let Waiting { approvals } = query_agent(&self.socket, Method::GET, APPROVALS, &())?;
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
            // At even times, whatever reading takes, so that there is something new for each drawing; some rest is always.
            let now = Instant::now();
            next = (next + FRAME).max(now + FRAME / 2);
            thread::sleep(next - now);
        }
    }
}

/// Since when everything is read that there is.
fn recent() -> Timestamp {
    Clock::new().now().before(PAST.0)
}

/// What was before: of an agent that runs since then the [`OTHERS`], and all of lately.
fn past(stored: &Follower, since: Option<Timestamp>, lately: Timestamp) -> Result<Vec<Event>> {
    let others = OTHERS.map(|types| Query {
        types: types.map(str::to_owned).into(),
        since,
        until: Some(lately),
        limit: Some(PAST_OTHERS),
        ..Query::default()
    });
    let lately = Query { since: Some(lately), limit: Some(PAST.1), ..Query::default() };
    let (mut events, last) = (Vec::new(), stored.last());
    for query in others.into_iter().chain([lately]) {
        // What came since will be followed.
        stored.reader().find(&query, |seq, body| {
            if seq <= last
                && let Ok(mut event) = serde_json::from_slice::<Event>(body)
            {
                // There may be many, each of which may be large.
                lighten(&mut event);
                events.push(event);
            }
            Ok(())
        })?;
    }
    Ok(events)
}

/// Nobody takes updates any more.
#[derive(Debug, thiserror::Error)]
#[error("`top` ended")]
struct Gone;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mcpwarden_policy::event::examples::examples;

    use super::*;
    use mcpwarden_store::testing::{TestAgent, settings};

    /// A database with these events, each so long ago.
    fn stored(directory: &Path, reported: &[(&str, Duration)]) -> String {
        let mut agent = TestAgent::start(settings(directory));
        let now = Clock::new().now();
        agent.send(
            reported
                .iter()
                .map(|(kind, ago)| Event { timestamp: now.before(*ago), ..example(kind) })
                .collect(),
        );
        agent.finish();
        settings(directory).path.display().to_string()
    }

    fn example(kind: &str) -> Event {
        examples().into_iter().find(|event| event.kind() == kind).unwrap()
    }

    fn kinds(events: &[Event]) -> Vec<&str> {
        events.iter().map(Event::kind).collect()
    }

    const MINUTE: Duration = Duration::from_secs(60);

    /// What was said before, how many minutes ago, while the agent runs for three hours.
    #[test]
    fn backlog_has_state_events_and_the_last_hour() {
        let directory = tempfile::tempdir().unwrap();
        let reported = [
            ("mcp_tool_seen", 190 * MINUTE),
            ("mcp_tool_changed", 120 * MINUTE),
            ("mcp_tool_called", 119 * MINUTE),
            ("mcp_server_started", 110 * MINUTE),
            ("mcp_tool_seen", 100 * MINUTE),
            ("mcp_tool_called", 59 * MINUTE),
        ];
        let path = stored(directory.path(), &reported);
        let events = Follower::open(Path::new(&path)).unwrap();
        let since = Clock::new().now().before(180 * MINUTE);
        let read = past(&events, Some(since), recent()).unwrap();
        assert_eq!(
            kinds(&read),
            ["mcp_server_started", "mcp_tool_changed", "mcp_tool_seen", "mcp_tool_called"]
        );
    }

    #[test]
    fn events_in_another_store_are_read_once() {
        let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [first, second] = &directories;
        let path = stored(first.path(), &[("mcp_tool_called", MINUTE)]);
        // The first of them was said by an agent before it.
        let reported = [
            ("mcp_tool_called", 30 * MINUTE),
            ("agent_started", 10 * MINUTE),
            ("mcp_server_started", 9 * MINUTE),
            ("mcp_tool_called", MINUTE),
        ];
        let other = stored(second.path(), &reported);
        let events = Follower::open(Path::new(&path)).unwrap();
        let mut feed = Feed { socket: PathBuf::new(), status: None, events, path: path.clone() };
        let mut status = crate::top::tests::status(0, serde_json::json!({}));
        status.since = Clock::new().now().before(11 * MINUTE);
        status.store.path = path;
        assert_eq!(kinds(&feed.turn(&status).unwrap()), [""; 0]);
        status.store.path = other;
        assert_eq!(
            kinds(&feed.turn(&status).unwrap()),
            ["agent_started", "mcp_server_started", "mcp_tool_called"]
        );
        assert_eq!(kinds(&feed.turn(&status).unwrap()), [""; 0]);
        assert_eq!(feed.events.last(), 4);
    }
}
