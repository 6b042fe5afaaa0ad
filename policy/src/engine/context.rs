//! What every part works with while one input is handled.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::config::EngineConfig;
use super::connections::Connections;
use super::evaluator::{About, find_repeated};
use super::recorder::Call;
use super::reporter::Reporter;
use super::timers::Timers;
use crate::definition::bounded_name;
use crate::detect::Inspection;
use crate::event::{EventBody, ServerType, Subject};
use crate::guard::{Recorded, Verdict};
use crate::protocol::{Kind, Message, members_once, string};
use crate::terms::{ConnectionId, Direction, ServerId, SessionId, Timestamp};

/// The parts that all others use.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) config: &'a EngineConfig,
    pub(super) connections: &'a mut Connections,
    pub(super) timers: &'a mut Timers,
    pub(super) reporter: Reporter<'a>,
}

impl Context<'_> {
    /// Reports something of a connection, if it is known.
    pub(super) fn report(&mut self, id: ConnectionId, time: Timestamp, body: impl Into<EventBody>) {
        if let Some(scope) = self.connections.scope(id) {
            self.reporter.report(scope, time, body);
        }
    }

    /// Reports a message that no guard evaluated.
    pub(super) fn report_message(&mut self, target: ConnectionId, seen: Seen<'_>, message: &Message<'_>) {
        self.report_recorded(target, seen, (message, &Recorded::default()));
    }

    /// Reports a message, where each is to be reported, with what is to be recorded in place of what was sent.
    pub(super) fn report_recorded(
        &mut self,
        target: ConnectionId,
        seen: Seen<'_>,
        message: (&Message<'_>, &Recorded),
    ) {
        if self.config.verbose {
            let message = self.reporter.recorder.message(seen.direction, message, seen.bytes, None, None);
            self.report(target, seen.time, message);
        }
    }

    /// Reports bytes of a server that are no message at all.
    pub(super) fn report_invalid(&mut self, seen: Seen<'_>, frame: &[u8]) {
        self.reporter.counters.invalid_frames += 1;
        if let Some(connection) = self.connections.get_mut(seen.connection) {
            *connection.totals.invalid_frames.of(seen.direction) += 1;
        }
        if self.config.verbose {
            let invalid = self.reporter.recorder.invalid(seen.direction, frame);
            self.report(seen.connection, seen.time, invalid);
        }
    }

    /// Reports that a request or notification which is no call has a member twice, if it does.
    pub(super) fn report_repeated(&mut self, target: ConnectionId, time: Timestamp, message: &Message<'_>) {
        let mut found = Inspection::default();
        find_repeated(self.config.inspection.as_ref(), message, &mut found);
        if found.detections.is_empty() {
            return;
        }
        let Some(scope) = self.connections.scope(target) else { return };
        let id = match &message.kind {
            Kind::Request { id, .. } => Some(self.reporter.recorder.id(*id)),
            _ => None,
        };
        self.reporter.report_found(&scope, time, &About { id, ..About::of(Subject::Arguments) }, &found);
    }

    /// Whether a definition was reported of this connection; it is then.
    pub(super) fn is_reported(&mut self, id: ConnectionId, name: &str, hash: &str) -> bool {
        let (limit, overflow) = (self.config.limits.tools, &mut self.reporter.counters.tools_overflow);
        let connection = self.connections.get_mut(id);
        connection.is_some_and(|connection| !connection.is_news(name, hash, limit, overflow))
    }

    /// The call that these params ask for. The name is shared with what is known of the tool.
    pub(super) fn call<'a>(&self, connection: ConnectionId, params: Option<&'a RawValue>) -> Call<'a> {
        let json = params.map_or("null", RawValue::get);
        let ([name, arguments], repeated) = members_once(json, ["name", "arguments"]);
        let name = string(name);
        let connection = self.connections.get(connection);
        let known = connection.and_then(|connection| connection.tool(&name));
        let tool_name = known.map_or_else(|| bounded_name(&name).into(), |known| Arc::clone(&known.name));
        Call { tool_name, params, arguments, repeated }
    }
}

/// Who an event is about.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    pub(super) connection: ConnectionId,
    pub(super) session: SessionId,
    pub(super) server: ServerId,
    pub(super) kind: ServerType,
    pub(super) via: Vec<ServerId>,
}

/// A frame: where it was seen, and what is known of it besides its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    pub(super) connection: ConnectionId,
    pub(super) direction: Direction,
    pub(super) time: Timestamp,
    /// Its length.
    pub(super) bytes: u64,
    pub(super) now: Timestamp,
    /// What became of it, where the gate stopped it.
    pub(super) stop: Option<Stop>,
    /// The turn of the model that it belongs to, where a recording names it.
    pub(super) turn: Option<&'a str>,
}

/// What became of a frame that the gate stopped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    /// Nothing of it reached its server: nobody answers.
    pub(super) is_refused: bool,
    /// It is the only message of its frame.
    is_alone: bool,
}

impl Stop {
    /// The gate stopped this frame.
    pub(super) fn of(frame: &[u8], is_refused: bool) -> Self {
        Self { is_refused, is_alone: frame.first() != Some(&b'[') }
    }

    /// Whether the gate stopped a message of that frame, of which the guards say this. Of several that were neutralized one
    /// by one, those were that the guards deny, too.
    pub(super) fn stops(self, verdict: &Verdict) -> bool {
        self.is_refused || self.is_alone || verdict.denied.is_some()
    }
}
