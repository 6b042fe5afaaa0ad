//! Requests in several tries: which earlier one a request goes on with, and how an answer goes on.
//!
//! A try that goes on with an earlier one is no event of its own, and counts as no other request. It is one only with the state that
//! its server gave for the same request, which comes back once; any other is a request of its own.

use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use super::inputs::{Inputs, all_inputs, rest};
use super::{About, Connection, Context, Evaluator, Scope, Seen};
use crate::detect::{Inspection, Structure};
use crate::engine::asked::{Answered, Asked};
use crate::engine::fingerprint;
use crate::engine::ledger::{Bounds, Digest};
use crate::engine::rounds::{Asks, Attempt, First, Holder, MAX_ROUNDS, Misuse, Owner};
use crate::engine::seen::Earlier;
use crate::event::Subject;
use crate::protocol::{Course, ResultKind, Retry, decode_str, members, name_text};
use crate::terms::{ConnectionId, Direction};

/// Until the agent has watched for so long, a state over HTTP that it does not know may have been given before. Nanoseconds.
const WATCHED_NS: u64 = 600_000_000_000;

/// How a request goes on after an answer.
#[derive(Debug, Default)]
pub(super) struct GoesOn {
    /// What is left of the result to be evaluated as one; `None`: all of it.
    pub(super) rest: Option<Box<RawValue>>,
    /// Whether the answer is not the end of its call.
    pub(super) is_pending: bool,
}

/// A client's request, as it may be one of several tries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Try<'a> {
    pub(super) id: &'a Value,
    pub(super) method: &'a str,
    pub(super) params: Option<&'a RawValue>,
    pub(super) tool: Option<&'a Arc<str>>,
}

impl Evaluator {
    /// Takes from a client's request what it says of earlier answers: inputs, a state, a task.
    pub(super) fn tried(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        of: Try<'_>,
    ) -> Attempt {
        if seen.direction != Direction::ClientToServer {
            return Attempt::default();
        }
        let retry = Retry::of(of.params);
        if let Some(responses) = retry.responses {
            self.judge_responses(cx, scope, seen, of.id, responses);
        }
        let task = self.task_asked_for(cx, scope, seen, of, &retry);
        if !retry.has_rounds || of.method.starts_with("tasks/") {
            return Attempt { task, ..Attempt::default() };
        }
        let asks = asks(of.method, of.params);
        let first = self.first_try(cx, scope, seen, of, (&retry, &asks));
        Attempt { asks: Some(asks), first: first.map(Box::new), task }
    }

    /// How the request began that this one goes on with, if it is one. What is wrong with its state is reported.
    fn first_try(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        of: Try<'_>,
        (retry, asks): (&Retry<'_>, &Asks),
    ) -> Option<First> {
        let watched = self.rounds.seen_for(seen.time);
        if retry.state.is_none() && retry.responses.is_none() {
            return None;
        }
        let owner = self.owner(cx, scope.connection);
        let holder = Holder { owner, session: &scope.session, connection: scope.connection };
        let state = retry.state.map_or_else(|| holder.stateless(asks), digest);
        let is_related = |other| is_related(cx, scope.connection, other);
        match self.rounds.take(&holder, state, asks, is_related) {
            Ok(first) => first,
            Err(_) if retry.state.is_none() => None,
            Err(Misuse::NeverGiven) if !self.has_seen_all(cx, scope, watched) => None,
            Err(misuse) => {
                let found = (Structure::MisusedState, misuse.words(), "/params/requestState");
                report_misuse(cx, scope, seen, of, found);
                None
            }
        }
    }

    /// Whether every state was seen that the client of a connection can have.
    fn has_seen_all(&self, cx: &Context<'_>, scope: &Scope, watched: u64) -> bool {
        let Some(connection) = cx.connections.get(scope.connection) else { return false };
        let is_whole = connection.totals.gap_bytes == 0;
        let from_its_start = scope.kind.is_in_lines() && !connection.began_late();
        let owner = self.owner(cx, scope.connection);
        is_whole && (from_its_start || watched >= WATCHED_NS) && !self.rounds.has_lost(owner.user)
    }

    /// Whose a connection's states and tasks are.
    pub(super) fn owner(&self, cx: &Context<'_>, id: ConnectionId) -> Owner {
        let connection = cx.connections.get(id);
        let client = connection.and_then(|connection| connection.client.as_ref());
        let user = client.and_then(|client| client.uid);
        let server = match self.registry.key(id) {
            Some(key) => Digest::of(&[key.server.0.as_bytes(), key.program.as_bytes()]),
            None => {
                let server = connection.map(Connection::server_id);
                Digest::of(&[server.as_ref().map_or(&[][..], |server| server.0.as_bytes())])
            }
        };
        Owner { user: user.or(connection.and_then(|connection| connection.account.user)), server }
    }

    /// Evaluates what an answer asks of its client, and takes note of how its request goes on.
    pub(super) fn follow(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        (result, error): (Option<&RawValue>, Option<&RawValue>),
        to: Answered<'_>,
    ) -> GoesOn {
        if seen.direction != Direction::ServerToClient {
            return GoesOn::default();
        }
        let Some(result) = result else {
            for (field, part) in error.map(parts_of_error).into_iter().flatten() {
                self.follow_reading(cx, scope, seen, (field, &Course::of(part.get())), to);
            }
            return GoesOn::default();
        };
        let course = Course::of(result.get());
        self.follow_reading(cx, scope, seen, ("", &course), to);
        for inputs in all_inputs(result).into_iter().rev().skip(1) {
            self.follow_reading(
                cx,
                scope,
                seen,
                ("", &Course { inputs: Some(inputs), ..Course::default() }),
                to,
            );
        }
        if let Some(respelled) = seen.reading.respelled {
            let other = Course::of(respelled.get()).beside(&course);
            self.follow_reading(cx, scope, seen, ("", &other), to);
        }
        let is_of_task = is_state_of_task(to.asked) || course.kind == ResultKind::Task;
        let judged = if is_of_task { [course.result, course.error] } else { [None; 2] };
        let is_pending = course.kind != ResultKind::Complete && matches!(to.asked, Asked::Call { .. });
        GoesOn { rest: rest(result, &judged), is_pending }
    }

    /// The same, of one reading of the answer, or of the part of it at `field`.
    fn follow_reading(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        (field, course): (&str, &Course<'_>),
        to: Answered<'_>,
    ) {
        if is_state_of_task(to.asked) {
            let task = to.attempt.task.or(course.task.map(digest));
            self.task_told(cx, scope, seen, (task, course), to);
        } else if course.is_plain() {
            return;
        } else if let Some(task) = course.task {
            self.task_made(cx, scope, seen, (digest(task), course), to);
        }
        if let Some(inputs) = course.inputs {
            let task = to.attempt.task.filter(|_| is_state_of_task(to.asked));
            let field = format!("{field}/inputRequests");
            self.judge_inputs(cx, scope, seen, to.id, Inputs { field: &field, json: inputs, task });
        }
        self.state_given(cx, scope, seen, course, to);
    }

    /// Remembers the state that an answer gives, and that its request goes on with it.
    fn state_given(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        course: &Course<'_>,
        to: Answered<'_>,
    ) {
        let is_first = seen.reading.earlier != Earlier::Taken;
        let goes_on = course.kind == ResultKind::InputRequired && is_first;
        let asks = to.attempt.asks;
        let owner = self.owner(cx, scope.connection);
        let holder = Holder { owner, session: &scope.session, connection: scope.connection };
        let state = match (course.state, &asks) {
            (Some(state), _) => digest(state),
            (None, Some(asks)) if goes_on => holder.stateless(asks),
            _ => return,
        };
        let first = asks.filter(|_| goes_on).map(|_| next_try(to)).filter(|first| first.rounds <= MAX_ROUNDS);
        let evicted = self.rounds.give(&holder, state, asks, first, bounds(cx));
        cx.reporter.counters.rounds_evicted += evicted;
    }
}

/// What is remembered of states and tasks at most.
pub(super) fn bounds(cx: &Context<'_>) -> Bounds {
    let limits = &cx.config.limits;
    Bounds { all: limits.handed_out, per_user: limits.handed_out_per_user }
}

/// How the request began of which this is an answer, with one try more.
fn next_try(to: Answered<'_>) -> First {
    let first = to.attempt.first.as_deref().cloned();
    let mut first = first.unwrap_or_else(|| First {
        id: to.id.clone(),
        time: to.time,
        rounds: 0,
        denied: None,
        approved: false,
    });
    first.rounds += 1;
    first
}

/// What a request asks for, whichever try it is.
fn asks(method: &str, params: Option<&RawValue>) -> Asks {
    let json = params.map_or("null", RawValue::get);
    let [name, uri] = members(json, ["name", "uri"]);
    let [name, uri] = [name, uri].map(|name| name.and_then(name_text).unwrap_or_default());
    let about = [method.as_bytes(), name.as_bytes(), uri.as_bytes()].map(<[u8]>::to_vec);
    Asks {
        request: fingerprint::of_every_try(method, params.map(RawValue::get)),
        about: Digest::of(&about.each_ref().map(Vec::as_slice)),
    }
}

/// Of a state or an id, whatever kind of JSON it is.
pub(super) fn digest(json: &RawValue) -> Digest {
    match decode_str(json.get()) {
        Some(text) => Digest::of(&[text.as_bytes()]),
        None => Digest::of(&[b"json", json.get().as_bytes()]),
    }
}

/// Whether the answer to a request is the state of a task.
pub(super) fn is_state_of_task(asked: &Asked) -> bool {
    matches!(asked, Asked::Other { method } if matches!(&**method, "tasks/get" | "tasks/update" | "tasks/cancel"))
}

/// The parts of an error in which a server may ask something, and where they stand.
fn parts_of_error(error: &RawValue) -> Vec<(&'static str, &RawValue)> {
    let data = members(error.get(), ["data"])[0].map(|data| ("/error/data", data));
    std::iter::once(("/error", error)).chain(data).collect()
}

/// Whether what goes over two connections is part of one: a relay lies between them.
pub(super) fn is_related(cx: &Context<'_>, one: ConnectionId, other: ConnectionId) -> bool {
    let outermost = |id| cx.connections.outermost(id).map(|connection| connection.id);
    one == other || outermost(one).is_some() && outermost(one) == outermost(other)
}

/// Reports what is wrong with what a client hands back, at this field.
pub(super) fn report_misuse(
    cx: &mut Context<'_>,
    scope: &Scope,
    seen: Seen<'_>,
    of: Try<'_>,
    (structure, words, field): (Structure, &str, &str),
) {
    let Some(inspection) = &cx.config.inspection else { return };
    let mut found = Inspection::default();
    inspection.detector.irregular(structure, words, field, &mut found);
    let (id, tool_name) = (Some(of.id.clone()), of.tool.cloned());
    let about = About { tool_name, id, ..About::of(Subject::Arguments) };
    cx.report_found(scope, seen.time, &about, &found);
}
