//! State per connection: which are servers, which answer belongs to which request, which connections are relays,
//! and what is to be said of it all.
//!
//! [`Engine::handle`] takes one [`Input`] and appends [`Output`]s; [`Engine::tick`] does what only time brings
//! about. Both take `now`, which must not run backwards. Times in inputs are those of the capture and may be a
//! little out of order: an answer can come before its request.

mod answer;
mod approval;
mod config;
mod connection;
mod decide;
mod gate;
mod inspect;
mod io;
mod judge;
mod judged;
mod lateness;
mod listing;
mod memory;
mod network;
mod pairing;
mod passing;
mod profile;
mod reach;
mod record;
mod relay;
mod remembered;
mod room;
mod server;
mod totals;
mod traffic;

use std::collections::{BTreeMap, BTreeSet, HashMap};

pub use approval::WaitingTool;
pub use config::{Counters, EngineConfig, EngineLimits, Inspect, Payloads};
pub use io::{
    ByHand, Connect, Decide, Definitions, Exec, ExitStatus, Found, Input, Output, Process, Reached,
};
pub use judge::{Judge, ServerStanding};
pub use profile::ProfileError;

use crate::detect::DefinitionCache;
use crate::event::{CaptureGap, Event, EventBody, ServerType};
use crate::redact::Redactor;
use crate::registry::{MemoryStore, Registry, Store};
use crate::terms::{ConnectionId, Direction, ServerId, SessionId, Timestamp};
use approval::{ApprovalId, Approvals};
use connection::{Connection, Stage};
use gate::Stop;
use record::Recorder;
use relay::{HeldId, Relays};
pub use totals::Traffic;
use traffic::Seen;

/// What time brings about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// A held message is said.
    Held(HeldId),
    /// An answer without a request is given up.
    Early(ConnectionId, Direction),
    /// A server that has not answered is said nonetheless.
    Start(ConnectionId),
    /// The end of a server is said.
    Exit(ConnectionId),
    /// Requests that are not answered are said.
    Late(ConnectionId),
    /// An approval is given up.
    Approval(ApprovalId),
}

/// The state of everything watched.
#[derive(Debug)]
pub struct Engine {
    config: EngineConfig,
    recorder: Recorder,
    counters: Counters,
    /// Looked up a dozen times for each message: with few of them a tree is quicker than a hash.
    connections: BTreeMap<ConnectionId, Connection>,
    dropped: room::Dropped,
    /// Which connection a live process serves.
    processes: HashMap<u32, ConnectionId>,
    relays: Relays,
    sessions: inspect::Sessions,
    definitions: DefinitionCache,
    registry: Registry,
    judge: Judge,
    approvals: Approvals,
    /// What became of the frame at hand, where the gate stopped it.
    stop: Option<Stop>,
    /// A program runs that is to be known as a server.
    expects: bool,
    /// The turn of the model that the input belongs to, where the recording tells.
    turn: Option<String>,
    memory: memory::Memory,
    destinations: network::Destinations,
    departed: network::Departed,
    gone: totals::Gone,
    /// What is due when; entries that no longer hold are skipped.
    due: BTreeSet<(Timestamp, Due)>,
    scratch: String,
}

/// Who an event is about.
#[derive(Clone, Debug)]
struct Place {
    connection: ConnectionId,
    session: SessionId,
    server: ServerId,
    kind: ServerType,
    via: Vec<ServerId>,
}

/// Definitions of which the hash is remembered, and what was found in them.
const CACHED_DEFINITIONS: usize = 4_096;
/// Most relays one behind the other.
const MAX_RELAYS: usize = 8;

impl Engine {
    /// An engine that knows of nothing yet.
    pub fn new(config: EngineConfig) -> Self {
        let registry =
            Registry::new(config.registry.clone(), Box::new(MemoryStore::new(config.limits.pin_bytes)));
        let recorder = Recorder { redactor: Redactor::new(config.redaction_key), payloads: config.payloads };
        Self {
            config,
            recorder,
            counters: Counters::default(),
            connections: BTreeMap::new(),
            dropped: room::Dropped::default(),
            processes: HashMap::new(),
            relays: Relays::default(),
            sessions: inspect::Sessions::default(),
            definitions: DefinitionCache::new(CACHED_DEFINITIONS),
            registry,
            judge: Judge::default(),
            approvals: Approvals::default(),
            stop: None,
            expects: false,
            turn: None,
            memory: memory::Memory::default(),
            destinations: network::Destinations::default(),
            departed: network::Departed::default(),
            gone: totals::Gone::default(),
            due: BTreeSet::new(),
            scratch: String::new(),
        }
    }

    /// The same with pins that `store` keeps, in place of those of an engine that nothing was handed to yet.
    #[must_use]
    pub fn with_store(mut self, store: Box<dyn Store>) -> Self {
        self.registry = Registry::new(self.config.registry.clone(), store);
        self
    }

    /// Goes by another configuration from now on, and has these guards asked. What is known stays: connections, with the
    /// names that they have, pins, approvals, and what guards remember. Definitions are inspected by the new rules when
    /// they are listed next.
    pub fn configure(&mut self, config: EngineConfig, mut judge: Judge) {
        self.recorder = Recorder { redactor: Redactor::new(config.redaction_key), payloads: config.payloads };
        self.registry.configure(config.registry.clone());
        self.definitions = DefinitionCache::new(CACHED_DEFINITIONS);
        judge.succeed(std::mem::take(&mut self.judge));
        (self.config, self.judge) = (config, judge);
    }

    /// Takes one input in and appends what follows from it to `out`, after what was due when it was captured. What is
    /// due since then may have been overtaken by inputs that are still to come: that is for [`Engine::tick`].
    pub fn handle(&mut self, input: Input<'_>, now: Timestamp, out: &mut Vec<Output>) {
        self.tick(input.time().map_or(now, |time| time.min(now)), out);
        match input {
            Input::Exec(exec) => {
                let connection = exec.connection;
                self.exec(exec, now, out);
                self.book(connection, now, out);
            }
            Input::Open { connection, time, session, server } => {
                self.open(connection, time, session, server, now, out);
            }
            Input::Frame { connection, direction, time, bytes, http } => {
                self.counters.frames += 1;
                if self.known(connection, time, out) {
                    if let (Some(http), Some(known)) = (http, self.connections.get_mut(&connection)) {
                        known.says(http);
                    }
                    let seen = Seen { connection, direction, time, bytes: bytes.len() as u64, now };
                    self.frame(seen, bytes, out);
                    self.book(connection, now, out);
                }
            }
            Input::Stopped { connection, time, bytes, is_refused } => {
                self.counters.frames += 1;
                if self.known(connection, time, out) {
                    let direction = Direction::ClientToServer;
                    let seen = Seen { connection, direction, time, bytes: bytes.len() as u64, now };
                    self.stopped_frame(seen, bytes, is_refused, out);
                    self.book(connection, now, out);
                }
            }
            Input::Gate { connection, time, decided } => self.gate_decided(connection, time, decided, out),
            Input::Junk { connection, direction, time, bytes, broken } => {
                self.counters.junk_bytes = self.counters.junk_bytes.saturating_add(bytes);
                if self.known(connection, time, out) {
                    self.junk(connection, direction, bytes, broken, out);
                }
            }
            Input::Gap { connection, direction, time, bytes, cause, pid, offset } => {
                self.counters.gaps += 1;
                self.counters.gap_bytes = self.counters.gap_bytes.saturating_add(bytes);
                if self.known(connection, time, out) {
                    self.gap(connection, time, CaptureGap { direction, bytes, cause, offset, pid }, out);
                }
            }
            Input::Exit { connection, pid, time, status } => self.exit(connection, pid, time, status, now),
            Input::Closed { connection, time } => self.close(connection, time, out),
            Input::Connect(connect) => {
                let connection = connect.connection;
                self.connect(connect, out);
                if let Some(connection) = connection {
                    self.book(connection, now, out);
                }
            }
            Input::Reached(reached) => {
                let connection = reached.connection;
                self.reached(reached, out);
                self.book(connection, now, out);
            }
            Input::Refused { connection, time, status, id } => {
                self.refused(connection, time, status, id, out)
            }
            Input::Uninspected { reached, reason } => self.uninspected(&reached, reason, out),
            Input::Decide(decide) => self.decide(decide, now, out),
        }
    }

    /// Does what is due at `now`: held requests are said, ends are said, early answers are given up. To be called when
    /// everything that was captured until then was handed in.
    pub fn tick(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        while let Some((time, due)) = self.due.first().copied().filter(|(time, _)| *time <= now) {
            self.due.remove(&(time, due));
            match due {
                Due::Held(held) => self.release(held, out),
                Due::Early(connection, direction) => {
                    self.give_up_early(connection, direction, now, out);
                    self.book(connection, now, out);
                }
                Due::Start(connection) => {
                    let pending = |connection: &Connection| connection.is_pending();
                    if self.connections.get(&connection).is_some_and(pending) {
                        self.start(connection, time, now, out);
                        self.book(connection, now, out);
                    }
                }
                Due::Exit(connection) => {
                    let due = |connection: &Connection| connection.exit_at.is_some_and(|at| at <= now);
                    if self.connections.get(&connection).is_some_and(due) {
                        self.say_exit(connection, time, out);
                    }
                }
                Due::Late(connection) => self.say_late(connection, time, out),
                Due::Approval(approval) => self.give_up_approval(approval, time, out),
            }
        }
    }

    /// Nothing comes any more: what waits for something is said as it is.
    pub fn end(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        for (time, due) in std::mem::take(&mut self.due) {
            match due {
                Due::Held(held) => self.release(held, out),
                Due::Early(connection, direction) => {
                    self.give_up_early(connection, direction, Timestamp(u64::MAX), out);
                }
                Due::Start(connection) => self.start_pending(connection, now, out),
                Due::Exit(connection) => self.say_exit(connection, time.min(now), out),
                Due::Late(_) | Due::Approval(_) => {}
            }
        }
    }

    /// When [`Engine::tick`] has something to do next; `None` when nothing is waiting.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.due.first().map(|(time, _)| *time)
    }

    /// What happened so far, in numbers.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// All that is counted, by name: those of the engine, `registry_…`, `guards_…`, and bounds of single guards.
    pub fn counters_by_name(&self) -> BTreeMap<String, u64> {
        let mut all = self.counters.to_map();
        let registry = self.registry.counters().to_map().into_iter();
        all.extend(registry.map(|(name, count)| (format!("registry_{name}"), count)));
        all.extend(self.judge.counters());
        all
    }

    fn direct_outer(&self, id: ConnectionId) -> Option<&Connection> {
        let outer = self.connections.get(&id)?.outer?;
        self.connections.get(&outer).filter(|outer| matches!(outer.stage, Stage::Server))
    }

    /// The servers that this connection is inner to, nearest first.
    fn outers(&self, id: ConnectionId) -> impl Iterator<Item = &Connection> {
        std::iter::successors(self.direct_outer(id), |outer| self.direct_outer(outer.id)).take(MAX_RELAYS)
    }

    /// Who an event of this connection is about.
    fn place(&self, id: ConnectionId) -> Option<Place> {
        let connection = self.connections.get(&id)?;
        let mut via: Vec<ServerId> = self.outers(id).map(Connection::server_id).collect();
        via.reverse();
        Some(Place {
            connection: id,
            session: self.session(connection),
            server: connection.server_id(),
            kind: connection.kind(),
            via,
        })
    }

    /// The session of a connection: that of the outermost client.
    fn session(&self, connection: &Connection) -> SessionId {
        if let Some(session) = &connection.session {
            return session.clone();
        }
        if let Some(outer) = self.outers(connection.id).last() {
            return self.session(outer);
        }
        match &connection.client {
            Some(client) => self.session_of_client(client),
            None => self.session_id(&format!("connection {} {}", connection.id.0, connection.since.0)),
        }
    }

    fn session_id(&self, text: &str) -> SessionId {
        let digest = self.recorder.redactor.digest("session", text.as_bytes());
        SessionId(format!("sess_{}", digest.get(..12).unwrap_or(&digest)).into())
    }

    fn say(&self, place: Place, time: Timestamp, body: impl Into<EventBody>, out: &mut Vec<Output>) {
        out.push(Output::Event(Event {
            timestamp: time,
            session_id: Some(place.session),
            server_id: Some(place.server),
            server_type: Some(place.kind),
            via: place.via,
            connection: Some(place.connection),
            body: body.into(),
            link: None,
        }));
    }

    fn say_of(&self, id: ConnectionId, time: Timestamp, body: impl Into<EventBody>, out: &mut Vec<Output>) {
        if let Some(place) = self.place(id) {
            self.say(place, time, body, out);
        }
    }
}

#[cfg(test)]
mod tests;
