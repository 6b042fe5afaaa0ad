//! What `top` knows: servers, sessions, and what happened last, from events and from what the agent says of itself.
//!
//! No terminal, no file and no clock: what is asked about now is told what time it is.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use mcpwarden_policy::{
    Event, EventBody, Timestamp, WaitingTool,
    event::{Action, CallStatus, Json, ProcessInfo, ServerType, Severity},
};

use super::window::{Few, Latencies, Rate, push};
use crate::{control::Status, loss::WATCHED};

/// Servers, and sessions, at once.
const ROWS: usize = 1_024;
/// Tools, addresses, sessions, servers or processes of one row.
const PARTS: usize = 256;
/// Calls, detections or losses that are kept: the last so many.
const RECENT: usize = 512;
/// Longest list of texts within an event that is kept. Texts.
const TEXTS: usize = 64;
/// Longest beginning of a tool's description that is kept. Characters.
const DESCRIPTION: usize = 400;

/// Detections by severity, the least first.
pub type BySeverity = [u64; 4];

/// What servers and sessions have in common.
#[derive(Debug)]
pub struct Tally {
    /// Connections that are open, by their ids.
    pub running: Few<u64>,
    /// Whether one ended, and none was opened since.
    pub ended: bool,
    /// Calls.
    pub calls: u64,
    /// Answers that are errors.
    pub errors: u64,
    /// Calls to which guards object.
    pub blocked: u64,
    /// What the rules found.
    pub found: BySeverity,
    /// How often there is a call.
    pub rate: Rate,
    /// How long answers take.
    pub latencies: Latencies,
    /// The last event.
    pub last: Timestamp,
}

/// A server.
#[derive(Debug)]
pub struct Server {
    /// What it adds up to.
    pub tally: Tally,
    /// How it is reached.
    pub kind: Option<ServerType>,
    /// Who speaks to it.
    pub sessions: Few<Arc<str>>,
    /// What it offers, or was asked for.
    pub tools: Few<Arc<str>, Tool>,
    /// Where its processes connected to.
    pub addresses: Few<String, Address>,
    /// The last `mcp_server_started`, and `mcp_server_initialized`.
    pub started: Option<Box<Event>>,
    /// See `started`.
    pub initialized: Option<Box<Event>>,
}

/// A tool.
#[derive(Debug, Default)]
pub struct Tool {
    /// Hash of the definition that was seen last; empty where none was.
    pub hash: String,
    /// The beginning of the description in it.
    pub description: Option<String>,
    /// The worst that was found in it.
    pub worst: Option<Severity>,
    /// Whether it is another than the pinned one.
    pub changed: bool,
    /// Calls of it.
    pub calls: u64,
}

/// Where a server connected to.
#[derive(Debug, Default)]
pub struct Address {
    /// Its name, where it is known.
    pub name: Option<String>,
    /// How often.
    pub count: u64,
    /// What came of it last.
    pub action: Action,
}

/// A session.
#[derive(Debug)]
pub struct Session {
    /// What it adds up to.
    pub tally: Tally,
    /// The client.
    pub client: Option<ProcessInfo>,
    /// To whom it speaks.
    pub servers: Few<Arc<str>>,
}

/// An event that is kept, and its number here.
#[derive(Debug)]
pub struct Kept {
    /// Larger than those of all before.
    pub number: u64,
    /// What happened; without what was called with, or answered.
    pub event: Event,
    /// Of a call: how it ended and how long that took, in nanoseconds.
    pub answer: Option<(CallStatus, u64)>,
}

/// What the agent says of itself, and what follows from two such answers.
#[derive(Debug, Default)]
pub struct Agent {
    /// The last answer.
    pub status: Option<Box<Status>>,
    /// Why there is none now.
    pub down: Option<String>,
    /// When it came.
    at: Timestamp,
    /// Frames a second, between the last two.
    pub frames_per_second: f64,
}

/// Everything that is drawn.
#[derive(Debug)]
pub struct Model {
    /// What the agent says.
    pub agent: Agent,
    /// By id.
    pub servers: Few<Arc<str>, Server>,
    /// By id.
    pub sessions: Few<Arc<str>, Session>,
    /// The last calls, oldest first.
    pub calls: VecDeque<Kept>,
    /// The last detections.
    pub detections: VecDeque<Kept>,
    /// The last gaps and losses.
    pub losses: VecDeque<Kept>,
    /// What waits for approval.
    pub waiting: Vec<WaitingTool>,
    /// All events that were counted.
    pub events: u64,
    /// How often there is one.
    pub rate: Rate,
    /// How often there is a call.
    pub call_rate: Rate,
    /// Bytes that were not seen.
    pub gap_bytes: u64,
    /// Events that were passed over, since there were too many.
    pub skipped: u64,
    /// The oldest event that was counted.
    pub since: Option<Timestamp>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            running: Few::new(PARTS),
            ended: false,
            calls: 0,
            errors: 0,
            blocked: 0,
            found: [0; 4],
            rate: Rate::default(),
            latencies: Latencies::default(),
            last: Timestamp::default(),
        }
    }
}

impl Default for Server {
    fn default() -> Self {
        Self {
            tally: Tally::default(),
            kind: None,
            sessions: Few::new(PARTS),
            tools: Few::new(PARTS),
            addresses: Few::new(PARTS),
            started: None,
            initialized: None,
        }
    }
}

impl Default for Session {
    fn default() -> Self {
        Self { tally: Tally::default(), client: None, servers: Few::new(PARTS) }
    }
}

impl Default for Model {
    fn default() -> Self {
        Self {
            agent: Agent::default(),
            servers: Few::new(ROWS),
            sessions: Few::new(ROWS),
            calls: VecDeque::new(),
            detections: VecDeque::new(),
            losses: VecDeque::new(),
            waiting: Vec::new(),
            events: 0,
            rate: Rate::default(),
            call_rate: Rate::default(),
            gap_bytes: 0,
            skipped: 0,
            since: None,
        }
    }
}

impl Tally {
    fn add(&mut self, event: &Event) {
        self.last = self.last.max(event.timestamp);
        let connection = event.connection.map(|id| id.0);
        match &event.body {
            EventBody::ServerStarted(_) => {
                connection.and_then(|id| self.running.entry(&id));
                self.ended = false;
            }
            EventBody::ServerExited(_) => {
                if let Some(id) = connection {
                    self.running.remove(&id);
                }
                self.ended = true;
            }
            EventBody::ToolCalled(call) => {
                self.calls += 1;
                self.blocked += u64::from(call.decided.action == Action::Block);
                self.rate.add(event.timestamp);
            }
            EventBody::ToolResult(result) => {
                self.errors += u64::from(result.status == CallStatus::Error);
                // Nothing is known where the answer was recorded first.
                if result.latency_ns > 0 {
                    self.latencies.add(result.latency_ns);
                }
            }
            EventBody::Detected(found) if !found.muted => {
                if let Some(count) = self.found.get_mut(found.detection.severity as usize) {
                    *count += 1;
                }
            }
            _ => {}
        }
    }

    /// Of rows for which there is no more room the one goes that ended first; none that runs does.
    fn rank(&self) -> Option<Timestamp> {
        (self.running.len() == 0).then_some(self.last)
    }

    /// The worst that was found.
    pub fn worst(&self) -> Option<Severity> {
        const ALL: [Severity; 4] = [Severity::Low, Severity::Medium, Severity::High, Severity::Critical];
        ALL.into_iter().rfind(|severity| self.found.get(*severity as usize).is_some_and(|count| *count > 0))
    }
}

impl Server {
    fn add(&mut self, event: &Event) {
        self.tally.add(event);
        self.kind = event.server_type.or(self.kind);
        if let Some(session) = &event.session_id {
            self.sessions.entry(&*session.0);
        }
        match &event.body {
            EventBody::ServerStarted(_) => self.started = Some(Box::new(event.clone())),
            EventBody::ServerInitialized(_) => self.initialized = Some(Box::new(event.clone())),
            EventBody::ServerEgress(egress) => {
                if let Some(address) = self.addresses.entry(egress.connecting.remote_addr.as_str()) {
                    address.count += 1;
                    address.action = egress.connecting.action;
                    if egress.connecting.remote_name.is_some() {
                        address.name.clone_from(&egress.connecting.remote_name);
                    }
                }
            }
            body => {
                if let Some(name) = body.tool_name()
                    && let Some(tool) = self.tools.entry(name)
                {
                    tool.add(body);
                }
            }
        }
    }
}

impl Tool {
    fn add(&mut self, body: &EventBody) {
        match body {
            EventBody::ToolSeen(seen) => {
                self.defined(&seen.tool_hash);
                self.description.clone_from(&seen.description);
                self.worst = seen.max_severity;
            }
            EventBody::ToolChanged(changed) => {
                self.defined(&changed.new_hash);
                (self.worst, self.changed) = (changed.max_severity, true);
            }
            EventBody::ApprovalGranted(granted) if granted.tool_hash == self.hash => self.changed = false,
            EventBody::ToolCalled(call) => {
                if let Some(hash) = &call.tool_hash {
                    self.defined(hash);
                }
                self.calls += 1;
            }
            _ => {}
        }
    }

    /// It has this definition now; of another one nothing else is known.
    fn defined(&mut self, hash: &str) {
        if self.hash != hash {
            (self.hash, self.description, self.worst) = (hash.to_owned(), None, None);
        }
    }
}

impl Session {
    fn add(&mut self, event: &Event) {
        self.tally.add(event);
        if let Some(server) = &event.server_id {
            self.servers.entry(&*server.0);
        }
        if let EventBody::ServerStarted(started) = &event.body
            && started.client.is_some()
        {
            self.client.clone_from(&started.client);
        }
    }
}

impl Model {
    /// Counts an event.
    pub fn add(&mut self, mut event: Event) {
        lighten(&mut event);
        self.count(event.timestamp);
        if matches!(event.body, EventBody::AgentStarted(_) | EventBody::AgentStopped(_)) {
            // Nobody tells of the end of what ran then; what runs still is told again.
            self.servers.values_mut().for_each(|server| server.tally.running.clear());
            self.sessions.values_mut().for_each(|session| session.tally.running.clear());
        }
        if let Some(id) = &event.server_id
            && let Some(server) = self.servers.entry_for(&*id.0, |server| server.tally.rank())
        {
            server.add(&event);
        }
        if let Some(id) = &event.session_id
            && let Some(session) = self.sessions.entry_for(&*id.0, |session| session.tally.rank())
        {
            session.add(&event);
        }
        match &event.body {
            EventBody::ToolCalled(_) => {
                self.call_rate.add(event.timestamp);
                self.keep(event, |model| &mut model.calls);
            }
            EventBody::ToolResult(result) => {
                let is_its_call = |kept: &&mut Kept| {
                    kept.answer.is_none()
                        && kept.event.connection == event.connection
                        && matches!(&kept.event.body, EventBody::ToolCalled(call) if call.jsonrpc_id == result.jsonrpc_id)
                };
                if let Some(call) = self.calls.iter_mut().rev().find(is_its_call) {
                    call.answer = Some((result.status, result.latency_ns));
                }
            }
            EventBody::Detected(found) if !found.muted => self.keep(event, |model| &mut model.detections),
            EventBody::CaptureGap(gap) => {
                self.gap_bytes = self.gap_bytes.saturating_add(gap.bytes);
                self.keep(event, |model| &mut model.losses);
            }
            EventBody::AgentLoss(_) => self.keep(event, |model| &mut model.losses),
            _ => {}
        }
    }

    /// Counts an event of which nothing but its time is worth showing.
    pub fn count(&mut self, time: Timestamp) {
        self.events += 1;
        self.rate.add(time);
        self.since = Some(self.since.map_or(time, |since| since.min(time)));
    }

    fn keep(&mut self, event: Event, list: impl FnOnce(&mut Self) -> &mut VecDeque<Kept>) {
        let kept = Kept { number: self.events, event, answer: None };
        push(list(self), kept, RECENT);
    }

    /// The agent said how it is.
    pub fn status(&mut self, status: Box<Status>, now: Timestamp) {
        let frames = |status: &Status| status.counters.get("frames").copied().unwrap_or_default();
        let agent = &mut self.agent;
        let nanoseconds = now.nanos_since(agent.at);
        let before = agent.status.as_ref().filter(|before| before.since == status.since && nanoseconds > 0);
        agent.frames_per_second = before.map_or(0.0, |before| {
            frames(&status).saturating_sub(frames(before)) as f64 * 1e9 / nanoseconds as f64
        });
        agent.at = now;
        agent.down = None;
        agent.status = Some(status);
    }

    /// The agent does not answer.
    pub fn down(&mut self, why: String) {
        self.agent.down = Some(why);
        self.agent.frames_per_second = 0.0;
    }

    /// Counters that should be 0 and are not: name, value, meaning.
    pub fn lost(&self) -> Vec<(&str, u64, &str)> {
        let mut lost = Vec::new();
        if self.gap_bytes > 0 {
            lost.push(("gap_bytes", self.gap_bytes, "bytes of what servers and clients said were not seen"));
        }
        if let Some(status) = &self.agent.status {
            if status.store.lost > 0 {
                lost.push(("store_events_lost", status.store.lost, "events were not stored"));
            }
            let value = |name: &str| status.counters.get(name).copied().unwrap_or_default();
            let grown = WATCHED.iter().map(|(name, meaning)| (*name, value(name), *meaning));
            lost.extend(grown.filter(|(_, value, _)| *value > 0));
        }
        if self.skipped > 0 {
            lost.push((
                "top_events_skipped",
                self.skipped,
                "more events than `top` reads: it passed over some",
            ));
        }
        let refused = self.servers.refused() + self.sessions.refused();
        if refused > 0 {
            lost.push(("top_rows_refused", refused, "more servers or sessions than `top` shows"));
        }
        lost
    }

    /// The tools of a server that wait for approval.
    pub fn waiting_of<'a>(&'a self, server: &'a str) -> impl Iterator<Item = &'a WaitingTool> {
        self.waiting.iter().filter(move |tool| *tool.server_id.0 == *server)
    }
}

/// Leaves out of an event what may be long and is not shown: arguments, results, definitions, capabilities.
pub fn lighten(event: &mut Event) {
    match &mut event.body {
        EventBody::ToolSeen(seen) => {
            (seen.definition, seen.detections) = (None, Vec::new());
            if let Some(text) = &mut seen.description
                && let Some((end, _)) = text.char_indices().nth(DESCRIPTION)
            {
                text.truncate(end);
                text.push('…');
                text.shrink_to_fit();
            }
        }
        EventBody::ToolCalled(call) => {
            (call.input, call.meta) = (Json::default(), None);
            call.detections.clear();
            call.tool_detections.truncate(TEXTS);
            call.decided.warnings.truncate(TEXTS);
        }
        EventBody::ToolResult(result) => result.result = Json::default(),
        EventBody::ServerInitialized(initialized) => {
            mem::take(&mut initialized.capabilities);
            mem::take(&mut initialized.client_capabilities);
            initialized.instructions = None;
        }
        _ => {}
    }
}
