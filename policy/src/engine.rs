//! State per connection: which are servers, which answer belongs to which request, which connections are relays,
//! and what is to be reported of it all.
//!
//! [`Engine::handle`] takes one [`Input`] and appends [`Output`]s; [`Engine::tick`] does what only time brings
//! about. Both take `now`, which must not run backwards. Times in inputs are those of the capture and may be a
//! little out of order: an answer can come before its request.
//!
//! The engine wires parts that own their state and do not know it: `Connections` (which there are, and how they belong
//! together), `Exchange` (requests and answers, and copies that relays pass on), `Evaluator` (the guards, and what they are
//! asked with), `Destinations` (where servers connect to), `Timers` and the `Reporter`.

mod command;
mod config;
mod connection;
mod connections;
mod context;
mod egress;
mod evaluator;
mod exchange;
mod io;
mod recorder;
mod remote;
mod reporter;
mod timers;

use std::collections::BTreeMap;

pub use command::{ByHand, CommandError, Decide, Definitions, OperatorCommand, ProfileError};
pub use config::{Counters, EngineConfig, EngineLimits, Inspect, Payloads};
pub use connections::Traffic;
pub use evaluator::{Judge, ServerStanding, WaitingTool};
pub use io::{Connect, Exec, ExitStatus, Found, Input, Output, Process, Reached};

use crate::config::Config;
use crate::detect::Inspection;
use crate::event::{CaptureGap, Event, GateDecided, ServerType, Subject};
use crate::gate::{GateCaller, GateCompiler, GateError, GateSubject};
use crate::guard::TurnState;
use crate::guards::{CallBlock, Callee};
use crate::protocol::{self, Kind, Message, Parsed, ProtocolError};
use crate::redact::Redactor;
use crate::registry::Store;
use crate::terms::{ConnectionId, Direction, ServerId, SessionId, Timestamp};
use connection::{Connection, Stage, Waiting};
use connections::{Admission, Announced, Connections, Opinion, User};
use context::{Context, Scope, Seen, Stop};
use egress::Destinations;
use evaluator::{About, Evaluator};
use exchange::{Exchange, timeouts};
use recorder::Recorder;
use reporter::{GateStaleness, Reporter};
use timers::{Due, Timers};

/// The state of everything watched.
#[derive(Debug)]
pub struct Engine {
    config: EngineConfig,
    recorder: Recorder,
    counters: Counters,
    connections: Connections,
    exchange: Exchange,
    evaluator: Evaluator,
    destinations: Destinations,
    timers: Timers,
    gate: GateStaleness,
    /// Where frames are mended.
    scratch: String,
}

/// The parts, each by itself.
struct Parts<'a> {
    cx: Context<'a>,
    exchange: &'a mut Exchange,
    ev: &'a mut Evaluator,
    destinations: &'a mut Destinations,
}

const DIRECTIONS: [Direction; 2] = [Direction::ClientToServer, Direction::ServerToClient];

impl Engine {
    /// An engine that knows of nothing yet.
    pub fn new(config: EngineConfig) -> Self {
        Self {
            recorder: Recorder { redactor: Redactor::new(config.redaction_key), payloads: config.payloads },
            counters: Counters::default(),
            connections: Connections::new(config.redaction_key),
            exchange: Exchange::default(),
            evaluator: Evaluator::new(&config),
            destinations: Destinations::default(),
            timers: Timers::default(),
            gate: GateStaleness::default(),
            scratch: String::new(),
            config,
        }
    }

    /// The same with pins that `store` keeps, in place of those of an engine that nothing was handed to yet.
    #[must_use]
    pub fn with_store(mut self, store: Box<dyn Store>) -> Self {
        self.evaluator.set_store(&self.config, store);
        self
    }

    /// Has these guards asked from now on.
    #[must_use]
    pub fn with_judge(mut self, judge: Judge) -> Self {
        self.evaluator.set_judge(judge);
        self
    }

    /// Goes by another configuration from now on, and has these guards asked. What is known stays: connections, with the
    /// names that they have, pins, approvals, and what guards remember. Definitions are inspected by the new rules when
    /// they are listed next.
    pub fn configure(&mut self, config: EngineConfig, judge: Judge) {
        self.recorder = Recorder { redactor: Redactor::new(config.redaction_key), payloads: config.payloads };
        self.connections.set_key(config.redaction_key);
        self.evaluator.configure(&config, judge);
        self.config = config;
    }

    /// Takes one input in and appends what follows from it to `out`, after what was due when it was captured. What is
    /// due since then may have been overtaken by inputs that are still to come: that is for [`Engine::tick`].
    pub fn handle(&mut self, input: Input<'_>, now: Timestamp, out: &mut Vec<Output>) {
        self.expire(input.time().map_or(now, |time| time.min(now)), out);
        match input {
            Input::Exec(exec) => self.exec(exec, now, out),
            Input::Open { connection, time, session, server } => {
                self.open(connection, time, (session, server), now, out);
            }
            Input::Frame { connection, direction, time, bytes, http, turn } => {
                self.counters.frames += 1;
                if self.admit(connection, time, out) {
                    if let (Some(http), Some(known)) = (http, self.connections.get_mut(connection)) {
                        known.set_http(http);
                    }
                    let length = bytes.len() as u64;
                    let seen = Seen { connection, direction, time, bytes: length, now, stop: None, turn };
                    self.frame(seen, bytes, out);
                    self.book(connection, now, out);
                }
            }
            Input::Stopped { connection, time, bytes, is_refused } => {
                self.counters.frames += 1;
                if self.admit(connection, time, out) {
                    let (direction, length) = (Direction::ClientToServer, bytes.len() as u64);
                    let stop = Some(Stop::of(bytes, is_refused));
                    let seen = Seen { connection, direction, time, bytes: length, now, stop, turn: None };
                    self.frame(seen, bytes, out);
                    self.book(connection, now, out);
                }
            }
            Input::Gate { connection, time, decided } => self.gate_decided(connection, time, decided, out),
            Input::Junk { connection, direction, time, bytes, broken } => {
                self.counters.junk_bytes = self.counters.junk_bytes.saturating_add(bytes);
                if self.admit(connection, time, out)
                    && self.connections.junk(connection, direction, bytes, broken)
                {
                    self.drop_candidate(connection, out);
                }
            }
            Input::Gap { connection, direction, time, bytes, cause, pid, offset } => {
                self.counters.gaps += 1;
                self.counters.gap_bytes = self.counters.gap_bytes.saturating_add(bytes);
                if self.admit(connection, time, out) {
                    self.gap(connection, time, CaptureGap { direction, bytes, cause, offset, pid }, out);
                }
            }
            Input::Exit { connection, pid, time, status } => {
                if self.connections.process_exited(connection, pid, time, status) {
                    // Answers may still be read from the pipe.
                    let at = now.after(self.config.limits.exit_linger);
                    if let Some(connection) = self.connections.get_mut(connection) {
                        connection.exit_at = Some(at);
                    }
                    self.timers.set(at, Due::Exit(connection));
                }
            }
            Input::Closed { connection, time } => self.close(connection, time, out),
            Input::Connect(connect) => {
                let connection = connect.connection;
                let Parts { mut cx, destinations, .. } = self.parts(out);
                destinations.connect(&mut cx, connect);
                if let Some(connection) = connection {
                    self.book(connection, now, out);
                }
            }
            Input::Reached(reached) => {
                self.counters.reached += 1;
                let (connection, time) = (reached.connection, reached.time);
                if self.admit(connection, time, out) && self.assign(connection, reached.client.uid, time, out)
                {
                    remote::reached(&mut self.parts(out).cx, reached);
                }
                self.book(connection, now, out);
            }
            Input::Refused { connection, time, status, id } => {
                self.start_pending(connection, time, out);
                remote::refused(&mut self.parts(out).cx, connection, time, status, id);
            }
            Input::Uninspected { reached, reason } => {
                self.start_pending(reached.connection, reached.time, out);
                remote::uninspected(&mut self.parts(out).cx, &reached, reason);
            }
            Input::Operator(command) => {
                if let Err(error) = self.execute(command, now, out) {
                    out.push(Output::Failed(error));
                }
            }
        }
        self.settle(now, out);
    }

    /// Does what is due at `now`: held requests are reported, ends are reported, early answers are given up. To be called
    /// when everything that was captured until then was handed in.
    pub fn tick(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        self.expire(now, out);
        self.settle(now, out);
    }

    /// Nothing comes any more: what waits for something is reported as it is.
    pub fn end(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        for (time, due) in self.timers.take_all() {
            match due {
                Due::Held(held) => self.with(out, |exchange, ev, cx| exchange.release(ev, cx, held)),
                Due::Early(connection, direction) => self.give_up_early(connection, direction, None, out),
                Due::Start(connection) => self.start_pending(connection, now, out),
                Due::Exit(connection) => self.exited(connection, time.min(now), out),
                Due::Late(_) | Due::Approval(_) => {}
            }
        }
        self.settle(now, out);
    }

    /// When [`Engine::tick`] has something to do next; `None` when nothing is waiting.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.timers.next()
    }

    /// What happened so far, in numbers.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// All that is counted, by name: those of the engine, `registry_…`, `guards_…`, and bounds of single guards.
    pub fn counters_by_name(&self) -> BTreeMap<String, u64> {
        let mut all = self.counters.to_map();
        all.extend(self.evaluator.counters());
        all
    }

    /// What there is, and what went by so far, of servers of a type. Takes a walk over all connections.
    pub fn traffic(&self, kind: ServerType) -> Traffic {
        self.connections.traffic(kind)
    }

    /// The servers that run, by connection.
    pub fn servers(&self) -> impl Iterator<Item = (ConnectionId, ServerId)> {
        self.connections.servers().map(|one| (one.id, one.server_id()))
    }

    /// How many clients have a server now: sessions. Takes a walk over all connections.
    pub fn sessions(&self) -> usize {
        self.connections.sessions()
    }

    /// The tools whose approval was requested and that nobody decided about, oldest first. A definition that its server
    /// has replaced since is none of them, unless it comes back.
    pub fn waiting(&self) -> impl Iterator<Item = WaitingTool> {
        self.evaluator.waiting(&self.connections)
    }

    /// The connections that the gate can judge: those of servers that are spoken to over stdio, from when they are first
    /// asked something on.
    pub fn gated(&self) -> impl Iterator<Item = ConnectionId> {
        let is_gated = |one: &&Connection| matches!(one.stage, Stage::Server) || one.is_pending();
        self.connections.of_stdio().filter(is_gated).map(|one| one.id)
    }

    /// Those that may soon be: programs of which a name or a declaration says that they are servers.
    pub fn soon_gated(&self) -> impl Iterator<Item = ConnectionId> {
        let is_named = |one: &&Connection| one.is_candidate() && !one.is_pending() && !one.is_unnamed();
        self.connections.of_stdio().filter(is_named).map(|one| one.id)
    }

    /// What makes tables of a policy.
    ///
    /// # Errors
    /// See [`GateCompiler::new`].
    pub fn gate_compiler(&self, config: &Config) -> Result<GateCompiler, GateError> {
        self.evaluator.gate_compiler(config)
    }

    /// Whose calls those of a connection are. `None`: there is no such connection.
    pub fn gate_caller(&self, id: ConnectionId) -> Option<GateCaller> {
        let Scope { session, server, .. } = self.connections.scope(id)?;
        let uid = self.connections.get(id)?.client.as_ref().and_then(|client| client.uid);
        Some(GateCaller { session, server, uid })
    }

    /// On how many connections over stdio calls are made that are meant.
    pub fn connections_of(&self, callee: &Callee) -> usize {
        let scopes = self.connections.of_stdio().filter_map(|one| self.connections.scope(one.id));
        scopes.filter(|scope| callee.is(&scope.server, &scope.session)).count()
    }

    /// What an operator blocks of a connection's calls.
    pub fn gate_block(&self, id: ConnectionId) -> Option<&CallBlock> {
        let Scope { session, server, .. } = self.connections.scope(id)?;
        self.evaluator.call_block(&server, &session)
    }

    /// What the guards know of a session's turn; `None`: none of them goes by turns, or there was none.
    pub fn gate_turn(&self, session: &SessionId) -> Option<TurnState> {
        self.evaluator.turn(session)
    }

    /// All that is known of the server and the client of a connection, and of every tool that is listed there or was before.
    /// `None`: there is no such connection.
    pub fn gate_subject(&mut self, id: ConnectionId) -> Option<GateSubject> {
        let mut nothing = Vec::new();
        let Parts { mut cx, ev, .. } = self.parts(&mut nothing);
        ev.gate_subject(&mut cx, id)
    }

    fn parts<'a>(&'a mut self, out: &'a mut Vec<Output>) -> Parts<'a> {
        let Self { config, recorder, counters, connections, exchange, evaluator, .. } = self;
        let reporter = Reporter { config, recorder, counters, gate: &mut self.gate, out };
        let cx = Context { config, connections, timers: &mut self.timers, reporter };
        Parts { cx, exchange, ev: evaluator, destinations: &mut self.destinations }
    }

    /// Has the exchange do something, with all that it needs.
    fn with<T>(
        &mut self,
        out: &mut Vec<Output>,
        work: impl FnOnce(&mut Exchange, &mut Evaluator, &mut Context<'_>) -> T,
    ) -> T {
        let Parts { mut cx, exchange, ev, .. } = self.parts(out);
        work(exchange, ev, &mut cx)
    }

    fn expire(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        while let Some((time, due)) = self.timers.expired(now) {
            match due {
                Due::Held(held) => self.with(out, |exchange, ev, cx| exchange.release(ev, cx, held)),
                Due::Early(connection, direction) => {
                    self.give_up_early(connection, direction, Some(now), out);
                    self.book(connection, now, out);
                }
                Due::Start(connection) => {
                    if self.connections.is_pending(connection) {
                        self.start(connection, time, now, out);
                        self.book(connection, now, out);
                    }
                }
                Due::Exit(connection) => {
                    let due = |connection: &Connection| connection.exit_at.is_some_and(|at| at <= now);
                    if self.connections.get(connection).is_some_and(due) {
                        self.exited(connection, time, out);
                    }
                }
                Due::Late(connection) => {
                    self.with(out, |_, ev, cx| timeouts::report_late(ev, cx, connection, time));
                }
                Due::Approval(id) => self.with(out, |_, ev, cx| ev.time_out_approval(cx, id, time)),
            }
            self.book_touched(now, out);
        }
    }

    /// Finishes what an input brought.
    fn settle(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        self.book_touched(now, out);
        self.gate.flush(out);
    }

    fn execute(
        &mut self,
        command: OperatorCommand<'_>,
        now: Timestamp,
        out: &mut Vec<Output>,
    ) -> Result<(), CommandError> {
        let Parts { mut cx, ev, .. } = self.parts(out);
        match command {
            OperatorCommand::Decide(decide) => ev.decide(&mut cx, decide, now)?,
            OperatorCommand::BlockCalls(blocks) => {
                ev.block_calls(blocks);
                cx.reporter.gate_is_stale(None);
            }
            OperatorCommand::SetSession { session, change, by } => {
                let set = ev.set_profile(&mut cx, &session, change, by)?;
                cx.reporter.emit(Event { session_id: Some(session), ..Event::agent(now, set.into()) });
                cx.reporter.gate_is_stale(Some(now));
            }
        }
        Ok(())
    }

    /// Makes sure that a connection is known. Whether it is.
    fn admit(&mut self, id: ConnectionId, time: Timestamp, out: &mut Vec<Output>) -> bool {
        if self.connections.get(id).is_some() {
            return true;
        }
        match self.connections.admission(id, self.config.limits.connections) {
            Admission::Dropped => return false,
            Admission::Full if !self.make_room(None, time, out) => {
                self.refuse(id, out);
                return false;
            }
            Admission::Full | Admission::Free => {}
        }
        self.connections.open(id, time);
        true
    }

    /// The first program of a connection says whose it is. Whether there is room for one more of this user's.
    fn assign(&mut self, id: ConnectionId, user: User, time: Timestamp, out: &mut Vec<Output>) -> bool {
        let Some(connection) = self.connections.get(id) else { return false };
        if !connection.chain.is_empty() {
            return true;
        }
        let full = self.connections.is_full(user, self.config.limits.connections_per_user);
        if full && !self.make_room(Some(user), time, out) {
            self.refuse(id, out);
            self.forget(id);
            return false;
        }
        self.connections.assign(id, user);
        true
    }

    /// Forgets the connection that is missed least, of one user's or of all. Whether there is one.
    fn make_room(&mut self, user: Option<User>, time: Timestamp, out: &mut Vec<Output>) -> bool {
        let Some((victim, is_alive)) = self.connections.least_missed(user) else { return false };
        if is_alive {
            self.refuse(victim, out);
        }
        self.close(victim, time, out);
        true
    }

    /// There is no room for this connection.
    fn refuse(&mut self, id: ConnectionId, out: &mut Vec<Output>) {
        self.counters.connections_refused += 1;
        self.connections.ignore(id);
        self.parts(out).cx.reporter.drop_connection(id);
    }

    /// This is no server: forgets it, and has it captured no more.
    fn drop_candidate(&mut self, id: ConnectionId, out: &mut Vec<Output>) {
        self.counters.candidates_dropped += 1;
        self.forget(id);
        self.connections.ignore(id);
        self.parts(out).cx.reporter.drop_connection(id);
    }

    /// Forgets a connection and all that hangs on it.
    fn forget(&mut self, id: ConnectionId) {
        let evicted = self.connections.depart(id, self.config.limits.departed);
        self.counters.departed_evicted += u64::from(evicted);
        if let Some(mut connection) = self.connections.forget(id) {
            self.evaluator.forget(&connection, &self.connections);
            self.exchange.forget(&mut connection);
        }
    }

    fn exec(&mut self, exec: Exec, now: Timestamp, out: &mut Vec<Output>) {
        self.counters.execs += 1;
        let (id, time) = (exec.connection, exec.time);
        if self.admit(id, time, out) && self.assign(id, exec.process.uid, time, out) {
            let is_server = self.connections.run(exec, &self.config, &mut self.counters);
            let is_named = |one: &Connection| one.is_candidate() && !one.is_unnamed();
            if self.connections.get(id).is_some_and(is_named) {
                // It may soon be one that the gate judges.
                self.parts(out).cx.reporter.gate_is_stale(None);
            }
            if is_server {
                self.start(id, time, now, out);
            }
        }
        self.book(id, now, out);
    }

    /// A connection of which it is known what it is.
    fn open(
        &mut self,
        id: ConnectionId,
        time: Timestamp,
        (session, server): (SessionId, ServerId),
        now: Timestamp,
        out: &mut Vec<Output>,
    ) {
        if !self.admit(id, time, out) || !self.connections.is_candidate(id) {
            return;
        }
        let declared = self.config.declaration(&server).map(|declared| declared.id.clone());
        if let Some(connection) = self.connections.get_mut(id) {
            connection.session = Some(session);
            connection.declared = declared;
            connection.server = Some(server);
        }
        self.start(id, time, now, out);
    }

    fn gap(&mut self, id: ConnectionId, time: Timestamp, gap: CaptureGap, out: &mut Vec<Output>) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.totals.gap_bytes = connection.totals.gap_bytes.saturating_add(gap.bytes);
        if connection.is_candidate() {
            connection.keep_gap(time, gap);
        } else {
            self.parts(out).cx.report(id, time, gap);
        }
    }

    /// What the gate did to a write of a connection.
    fn gate_decided(
        &mut self,
        id: ConnectionId,
        time: Timestamp,
        decided: GateDecided,
        out: &mut Vec<Output>,
    ) {
        let limits = &self.config.limits;
        if let Some(pending) = self.connections.get_mut(id).filter(|connection| connection.is_pending()) {
            if pending.keep_decided(time, decided.clone(), limits) {
                return;
            }
            self.start(id, time, time, out);
        }
        self.parts(out).cx.report(id, time, decided);
    }

    fn frame(&mut self, seen: Seen<'_>, frame: &[u8], out: &mut Vec<Output>) {
        let Some(connection) = self.connections.get_mut(seen.connection) else { return };
        let is_candidate = connection.is_candidate();
        if !is_candidate {
            connection.count(seen.direction, seen.bytes);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let parsed = protocol::parse(frame, &mut scratch);
        let messages = parsed.as_ref().map_or(&[][..], |parsed| &parsed.messages);
        if !is_candidate || self.is_server(seen, frame, messages, out) {
            self.server_frame(seen, frame, parsed, out);
        } else {
            drop(parsed);
        }
        // A frame of 16 MiB that had to be mended must not be kept for ever.
        scratch.clear();
        scratch.shrink_to(64 * 1024);
        self.scratch = scratch;
    }

    /// A frame of a candidate: whether it is a server, which is announced then. Else the frame is kept, or the candidate is
    /// dropped.
    fn is_server(
        &mut self,
        seen: Seen<'_>,
        frame: &[u8],
        messages: &[Message<'_>],
        out: &mut Vec<Output>,
    ) -> bool {
        let Seen { connection: id, direction, time, now, .. } = seen;
        let limits = &self.config.limits;
        let opinion = self.connections.opinion(seen, messages, limits.opening_frames);
        let Some(connection) = self.connections.get_mut(id) else { return false };
        let is_request = direction == Direction::ClientToServer;
        match opinion {
            Opinion::No => {
                self.drop_candidate(id, out);
                return false;
            }
            Opinion::Open => {
                let kept = connection.keep_frame(seen, frame, limits);
                if kept || !connection.is_pending() {
                    // So much was asked, and nothing of MCP's in it. What the server says never decides.
                    if !kept && is_request && connection.is_unnamed() && !connection.adopted {
                        self.drop_candidate(id, out);
                    } else if !kept {
                        self.counters.candidate_overflow += 1;
                    }
                    return false;
                }
            }
            Opinion::Server => {
                let waits = is_request
                    && !connection.adopted
                    && !connection.has_answered()
                    && !limits.start_wait.is_zero()
                    && connection.keep_frame(seen, frame, limits);
                if waits {
                    connection.asked = Some(time);
                    let server = connection.server_id();
                    connection.confirmed = Some(server.clone());
                    self.timers.set(now.after(limits.start_wait), Due::Start(id));
                    self.parts(out).cx.reporter.confirm(id, server);
                    return false;
                }
            }
        }
        self.start(id, time, now, out);
        if let Some(connection) = self.connections.get_mut(id) {
            connection.count(direction, seen.bytes);
        }
        true
    }

    fn server_frame(
        &mut self,
        seen: Seen<'_>,
        frame: &[u8],
        parsed: Result<Parsed<'_>, ProtocolError>,
        out: &mut Vec<Output>,
    ) {
        self.start_outer(seen.connection, seen.now, out);
        match parsed {
            Ok(mut parsed) => {
                self.counters.lossy_frames += u64::from(parsed.lossy);
                self.counters.repaired_frames += u64::from(parsed.repaired);
                for message in &mut parsed.messages {
                    self.counters.messages += 1;
                    self.counters.misdirected_messages += u64::from(message.misdirected(seen.direction));
                    self.counters.unversioned_messages += u64::from(!message.versioned);
                    self.message(seen, message, out);
                }
                if !parsed.messages.is_empty() {
                    return;
                }
            }
            Err(ProtocolError::TooManyMessages) => self.counters.oversized_batches += 1,
            Err(_) => {}
        }
        self.parts(out).cx.report_invalid(seen, frame);
    }

    fn message(&mut self, seen: Seen<'_>, message: &Message<'_>, out: &mut Vec<Output>) {
        if message.beside.is_some() {
            self.with(out, |exchange, ev, cx| exchange.answer_beside(ev, cx, seen, message));
        }
        if seen.stop.is_some_and(|stop| stop.is_refused) {
            return self.with(out, |_, ev, cx| ev.report_refused(cx, seen, message));
        }
        let fingerprint = exchange::fingerprint(&self.connections, seen, message);
        if let (Kind::Request { .. }, Some(fingerprint)) = (&message.kind, &fingerprint) {
            self.find_container_relay(seen.connection, fingerprint, seen.time);
            self.start_outer(seen.connection, seen.now, out);
        }
        self.with(out, |exchange, ev, cx| exchange.message(ev, cx, seen, message, fingerprint));
    }

    fn find_container_relay(
        &mut self,
        id: ConnectionId,
        fingerprint: &exchange::relays::Fingerprint,
        time: Timestamp,
    ) {
        let since = time.before(self.config.limits.relay_late);
        let asked_the_same = |relay: &mut Connection| exchange::asked_the_same(relay, fingerprint, since);
        self.connections.find_container_relay(id, asked_the_same);
    }

    /// A candidate is a server: reports it, and then all that waited.
    fn start(&mut self, id: ConnectionId, time: Timestamp, now: Timestamp, out: &mut Vec<Output>) {
        // What this one was asked may have come through a relay, which is to be known by then.
        let first = self.connections.get(id).and_then(Connection::first_words);
        if let Some(fingerprint) = first.and_then(exchange::relays::of_frame) {
            self.find_container_relay(id, &fingerprint, time);
        }
        self.start_outer(id, now, out);
        let announced = self.connections.announce(id, time, &self.config, &mut self.counters);
        let Some(Announced { time, mut started, confirm, waiting }) = announced else { return };
        let Parts { mut cx, ev, .. } = self.parts(out);
        if let Some(server) = confirm {
            cx.reporter.confirm(id, server);
        }
        let found = match (cx.connections.scope(id), cx.connections.get(id)) {
            (Some(scope), Some(connection)) => ev.register(&scope, connection),
            _ => None,
        };
        started.detections.extend(found.clone());
        cx.report(id, time, started);
        cx.reporter.gate_is_stale(None);
        if let (Some(detection), Some(scope)) = (found, cx.connections.scope(id)) {
            // What is not bad enough stands with the server.
            let found = Inspection { detections: vec![detection], ..Inspection::default() };
            cx.reporter.report_found(&scope, time, &About::of(Subject::Server), &found);
        }
        for item in waiting {
            match item {
                Waiting::Frame { direction, time, bytes, stop, turn } => {
                    let (length, turn) = (bytes.len() as u64, turn.as_deref());
                    let seen = Seen { connection: id, direction, time, bytes: length, now, stop, turn };
                    self.frame(seen, &bytes, out);
                }
                Waiting::Decided { time, decided } => self.parts(out).cx.report(id, time, *decided),
                Waiting::Gap { time, gap } => self.parts(out).cx.report(id, time, gap),
                Waiting::Connect(connect) => {
                    let Parts { mut cx, destinations, .. } = self.parts(out);
                    destinations.kept_connect(&mut cx, id, *connect);
                }
            }
        }
    }

    /// Announces the relay that a connection is inner to, if it waits for its first answer.
    fn start_outer(&mut self, id: ConnectionId, now: Timestamp, out: &mut Vec<Output>) {
        if let Some(outer) = self.connections.pending_outer(id) {
            self.start(outer, now, now, out);
        }
    }

    /// What is to be announced with its first answer is announced now: there is something to report of it.
    fn start_pending(&mut self, id: ConnectionId, time: Timestamp, out: &mut Vec<Output>) {
        if self.connections.is_pending(id) {
            self.start(id, time, time, out);
        }
    }

    fn close(&mut self, id: ConnectionId, time: Timestamp, out: &mut Vec<Output>) {
        self.exited(id, time, out);
        // After an end that was reported before, something may be held again.
        self.with(out, |exchange, ev, cx| exchange.release_all(ev, cx, id));
        self.forget(id);
    }

    /// Reports that a server ended, if it is one and this was not reported.
    fn exited(&mut self, id: ConnectionId, time: Timestamp, out: &mut Vec<Output>) {
        self.start_pending(id, time, out);
        if !self.connections.get(id).is_some_and(|connection| matches!(connection.stage, Stage::Server)) {
            return;
        }
        self.with(out, |exchange, ev, cx| exchange.release_all(ev, cx, id));
        DIRECTIONS.into_iter().for_each(|direction| self.give_up_early(id, direction, None, out));
        let Some((time, exited)) = self.connections.exited(id, time) else { return };
        let mut cx = self.parts(out).cx;
        cx.report(id, time, exited);
        cx.reporter.gate_is_stale(None);
        // Still known, since frames can come late; forgotten when nobody holds it any more.
        if let Some(connection) = self.connections.get_mut(id) {
            connection.stage = Stage::Exited;
        }
    }

    /// Gives up answers whose requests did not come until `now`; without it, all.
    fn give_up_early(
        &mut self,
        id: ConnectionId,
        direction: Direction,
        now: Option<Timestamp>,
        out: &mut Vec<Output>,
    ) {
        let now = now.unwrap_or(Timestamp(u64::MAX));
        self.with(out, |exchange, _, cx| exchange.give_up_early(cx, id, direction, now));
    }

    /// Books what a connection keeps now, and makes room where that is too much.
    fn book(&mut self, id: ConnectionId, now: Timestamp, out: &mut Vec<Output>) {
        let Some(user) = self.connections.book(id) else { return };
        let (bytes, per_user) = (self.config.limits.bytes, self.config.limits.bytes_per_user);
        while self.connections.kept_bytes(Some(user)) > per_user && self.relieve(Some(user), now, out) {}
        while self.connections.kept_bytes(None) > bytes && self.relieve(None, now, out) {}
    }

    /// Books what connections keep that other connections' messages were handed to.
    fn book_touched(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        while let Some(id) = self.exchange.next_touched() {
            self.book(id, now, out);
        }
    }

    /// Has the connection that keeps most, of one user or of all, give up some. Whether that helped.
    fn relieve(&mut self, user: Option<User>, now: Timestamp, out: &mut Vec<Output>) -> bool {
        let Some(id) = self.connections.largest(user) else { return false };
        let before = self.connections.kept_bytes(None);
        DIRECTIONS.into_iter().for_each(|direction| self.give_up_early(id, direction, None, out));
        if self.connections.is_pending(id) {
            self.start(id, now, now, out);
        } else {
            self.with(out, |exchange, _, cx| exchange.shed(cx, id));
        }
        self.connections.book(id);
        self.connections.kept_bytes(None) < before
    }
}

#[cfg(test)]
mod tests;
