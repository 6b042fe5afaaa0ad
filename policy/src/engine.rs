//! State per connection: which are servers, which answer belongs to which request, which connections are relays,
//! and what is to be reported of it all.
//!
//! [`Engine::handle`] takes one [`Input`] and appends [`Output`]s; [`Engine::tick`] does what only time brings
//! about. Both take `now`, which must not run backwards. Times in inputs are those of the capture and may be a
//! little out of order: an answer can come before its request.
//!
//! The engine wires parts that own their state and do not know it. Each knows only those below it:
//!
//! | module | job |
//! |---|---|
//! | `admission`, `lifecycle`, `queries` | the engine's own: room for connections, their life, what can be asked of it |
//! | `frames` | frames, gaps and decisions of the gate: of servers, and of candidates, which are recognised here |
//! | `exchange` | pairs requests with answers, and finds the copies that relays pass on |
//! | `evaluator` | the guards, and what they are asked with |
//! | `egress`, `remote` | where servers connect to; servers at addresses |
//! | `context` | what those above use while one input is handled: the next three, and the configuration |
//! | `connections` | which connections there are, and how they belong together |
//! | `timers`, `reporter` | what is due when; facts into events and counters |
//! | `connection` | what is known of one connection |
//! | `conversation` | the era in which it is held, and what in it belongs to the other one |
//! | `trace` | the trace that a message belongs to |
//! | `heads` | heads of requests over HTTP, held against their bodies |
//! | `recorder` | messages as events have them |
//! | `pairing`, `asked`, `fingerprint`, `memory` | open requests of a connection; what of one its answer is read with; copies; shares of memory |
//! | `rounds`, `tasks`, `ledger` | requests in several tries, and tasks; what servers hand out for these, bounded |
//! | `muting` | detections that are no alerts: muted and unmuted, and over |
//! | `folding` | repeated events into one with their number, behind all others |
//! | `seen`, `scope`, `address`, `ids` | a frame as it was seen; who an event is about; where a server is; numbers of what is kept |
//! | `waiting`, `lines`, `apart` | long messages, which are inspected apart, and what waits behind them |
//! | `io`, `command`, `question`, `config` | what goes in and comes out |

mod address;
mod admission;
mod apart;
mod asked;
mod command;
mod config;
mod connection;
mod connections;
mod context;
mod conversation;
mod egress;
mod evaluator;
mod exchange;
mod fingerprint;
mod folding;
mod frames;
mod heads;
mod ids;
mod io;
mod ledger;
mod lifecycle;
mod lines;
mod memory;
mod muting;
mod pairing;
mod queries;
mod question;
mod readings;
mod recorder;
mod remote;
mod reporter;
mod rounds;
mod scope;
mod seen;
mod tasks;
mod timers;
mod trace;
mod uncaptured;
mod waiting;

pub use apart::LongMessage;
pub use command::{ByHand, CommandError, Decide, Definitions, MuteDetections, OperatorCommand, ProfileError};
pub use config::{Counters, EngineConfig, EngineLimits, Inspect, Payloads};
pub use connections::Traffic;
pub use evaluator::{Judge, ServerStanding, WaitingTool};
pub use io::{
    Connect, Exec, ExitStatus, Found, Input, Inspected, ModelPart, ModelRequest, ModelTraffic, Output,
    Process, Reached, ServerAddress,
};

pub use question::GuardQuestion;

use std::sync::Arc;

use crate::detect::Ahead;
use crate::event::{CaptureGap, Event, Trace};
use crate::mutes::Mutes;
use crate::redact::Redactor;
use crate::registry::Store;
use crate::terms::{Direction, Timestamp};
use connection::Connection;
use connections::Connections;
use context::Context;
use egress::Destinations;
use evaluator::Evaluator;
use exchange::{Exchange, timeouts};
use folding::Folding;
use lines::Lines;
use recorder::Recorder;
use reporter::{GateStaleness, Reporter};
use seen::{Reading, Seen, Stop};
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
    /// The trace of the message at hand.
    trace: Trace,
    folding: Folding,
    /// Detections that are no alerts.
    mutes: Mutes,
    /// Long messages, and what waits behind them.
    lines: Lines,
    /// What was inspected ahead of the message at hand.
    ahead: Option<Arc<Ahead>>,
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

/// How much later it is looked whether requests are late, where answers wait to be read.
const WAITING_LINE: std::time::Duration = std::time::Duration::from_secs(1);
const DIRECTIONS: [Direction; 2] = [Direction::ClientToServer, Direction::ServerToClient];

impl Engine {
    /// An engine that knows of nothing yet.
    pub fn new(config: EngineConfig) -> Self {
        let mut engine = Self {
            recorder: Recorder { redactor: Redactor::new(config.redaction_key), payloads: config.payloads },
            counters: Counters::default(),
            connections: Connections::new(config.redaction_key),
            exchange: Exchange::default(),
            evaluator: Evaluator::new(&config),
            destinations: Destinations::default(),
            timers: Timers::default(),
            gate: GateStaleness::default(),
            trace: Trace::default(),
            folding: Folding::default(),
            mutes: Mutes::default(),
            lines: Lines::default(),
            ahead: None,
            scratch: String::new(),
            config,
        };
        engine.configure_mutes();
        engine
    }

    /// The same with pins and mutes that `store` keeps, in place of those of an engine that nothing was handed to yet.
    #[must_use]
    pub fn with_store(mut self, store: Box<dyn Store>) -> Self {
        self.evaluator.set_store(&self.config, store);
        self.mutes.restore(self.evaluator.kept_mutes());
        if !self.mutes.is_empty() {
            self.timers.set(Timestamp(0), Due::Mutes);
        }
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
        if config.inspection.is_none() {
            self.lines.forget_lengths();
        }
        self.config = config;
        self.configure_mutes();
    }

    /// Takes one input in and appends what follows from it to `out`, after what was due when it was captured. What is
    /// due since then may have been overtaken by inputs that are still to come: that is for [`Engine::tick`].
    ///
    /// A long frame waits until it was inspected ([`Engine::next_inspection`]), and what depends on it waits behind it.
    pub fn handle(&mut self, input: Input<'_>, now: Timestamp, out: &mut Vec<Output>) {
        if let Input::Inspected(inspected) = input {
            self.inspected(inspected, now, out);
        } else if let Some(input) = self.put_in_line(input, now, out) {
            self.handle_now(input, now, out);
        }
    }

    /// The same of one that waits for nothing.
    fn handle_now(&mut self, input: Input<'_>, now: Timestamp, out: &mut Vec<Output>) {
        let from = out.len();
        if let Input::Frame { connection, bytes, .. } = &input {
            self.folding.earn(*connection, self.connections.user(*connection), bytes.len() as u64);
        }
        self.take(input, now, out);
        self.fold(from, now, out);
    }

    fn take(&mut self, input: Input<'_>, now: Timestamp, out: &mut Vec<Output>) {
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
                    let reading = Reading { http, ..Reading::default() };
                    let seen = Seen::new(connection, direction, bytes.len() as u64, time, now);
                    let seen = Seen { turn, reading, ..seen };
                    self.frame(seen, bytes, out);
                    self.book(connection, now, out);
                }
            }
            Input::Ambiguous { connection, direction, time, framing } => {
                if self.admit(connection, time, out) {
                    self.ambiguous_framing(connection, direction, framing, time, out);
                }
            }
            Input::Stopped { connection, time, bytes, is_refused } => {
                self.counters.frames += 1;
                if self.admit(connection, time, out) {
                    let (direction, length) = (Direction::ClientToServer, bytes.len() as u64);
                    let stop = Some(Stop::of(bytes, is_refused));
                    let seen = Seen { stop, ..Seen::new(connection, direction, length, time, now) };
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
                    self.gap(
                        (connection, time, now),
                        CaptureGap { direction, bytes, cause, offset, pid },
                        out,
                    );
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
                let succeeded = self.connections.succeeded(connection, pid, &self.config, &mut self.counters);
                self.report_executed(connection, time, succeeded, out);
            }
            Input::Closed { connection, time } => {
                if self.connections.release_refused(connection) {
                    self.parts(out).cx.reporter.gate_is_stale(None);
                }
                self.close(connection, time, out);
            }
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
                if self.admit(connection, time, out)
                    && self.assign(connection, (reached.client.uid, None), time, out)
                {
                    remote::reached(&self.config, &mut self.connections, reached);
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
            Input::Uncaptured { process, transport, time } => {
                uncaptured::found(&mut self.parts(out).cx, &process, transport, time);
            }
            Input::Operator(command) => {
                if let Err(error) = self.execute(command, now, out) {
                    out.push(Output::Failed(error));
                }
            }
            Input::Answered { id, answer } => {
                self.with(out, |_, ev, cx| ev.answered(cx, id, answer, now));
            }
            Input::Model(traffic) => self.with(out, |_, ev, cx| ev.model(cx, traffic)),
            Input::Inspected(_) => {}
        }
        self.settle(now, out);
    }

    /// Does what is due at `now`: held requests are reported, ends are reported, early answers are given up. To be called
    /// when everything that was captured until then was handed in.
    pub fn tick(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        self.take_waiting(now, out);
        let from = out.len();
        self.expire(now, out);
        self.settle(now, out);
        self.fold(from, now, out);
    }

    /// Nothing comes any more: what waits for something is reported as it is.
    pub fn end(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        self.give_up_waiting(now, out);
        let from = out.len();
        for (time, due) in self.timers.take_all() {
            match due {
                Due::Held(held) => self.with(out, |exchange, ev, cx| exchange.release(ev, cx, held)),
                Due::Early(connection, direction) => self.give_up_early(connection, direction, None, out),
                Due::Start(connection) => self.start_pending(connection, now, out),
                Due::Exit(connection) => self.exited(connection, time.min(now), out),
                Due::Late(_) | Due::Approval(_) | Due::LimitedApprovals | Due::Mutes | Due::Guards => {}
            }
        }
        self.settle(now, out);
        self.fold(from, now, out);
        self.folding.finish(out);
    }

    /// Folds repeats among the events from `from` on.
    fn fold(&mut self, from: usize, now: Timestamp, out: &mut Vec<Output>) {
        let Self { folding, connections, counters, .. } = self;
        counters.events_folded += folding.pass(from, now, out, |id| connections.user(id));
    }

    fn parts<'a>(&'a mut self, out: &'a mut Vec<Output>) -> Parts<'a> {
        let Self { config, recorder, counters, connections, exchange, evaluator, .. } = self;
        let (gate, trace, mutes) = (&mut self.gate, &mut self.trace, &self.mutes);
        let reporter = Reporter { config, recorder, counters, gate, mutes, trace, out };
        let ahead = self.ahead.clone();
        let cx = Context { config, connections, timers: &mut self.timers, reporter, ahead };
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
                // Its answer may be there, and wait until a long message was inspected.
                Due::Late(connection) if self.lines.has(connection) => {
                    self.timers.set(time.after(WAITING_LINE), Due::Late(connection));
                }
                Due::Late(connection) => {
                    self.with(out, |_, ev, cx| timeouts::report_late(ev, cx, connection, time));
                }
                Due::Approval(id) => self.with(out, |_, ev, cx| ev.time_out_approval(cx, id, time)),
                Due::LimitedApprovals => self.with(out, |_, ev, cx| ev.end_limited(cx, time)),
                Due::Mutes => self.end_mutes(now, out),
                Due::Guards => self.with(out, |_, ev, cx| ev.expire_external(cx, time)),
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
        let command = match command {
            OperatorCommand::MuteDetections(new) => return self.mute(&new, now, out),
            OperatorCommand::UnmuteDetections { id, by } => return self.unmute(id, by, now, out),
            command => command,
        };
        let Parts { mut cx, ev, .. } = self.parts(out);
        match command {
            OperatorCommand::MuteDetections(_) | OperatorCommand::UnmuteDetections { .. } => {}
            OperatorCommand::Decide(decide) => ev.decide(&mut cx, decide, now)?,
            OperatorCommand::BlockCalls(blocks) => {
                ev.block_calls(blocks);
                cx.reporter.gate_is_stale(None);
            }
            OperatorCommand::SetSession { session, change, by } => {
                let set = ev.set_profile(cx.connections, &session, change, by)?;
                cx.reporter.emit(Event { session_id: Some(session), ..Event::agent(now, set.into()) });
                cx.reporter.gate_is_stale(Some(now));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
