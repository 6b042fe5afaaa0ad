//! What every part works with while one input is handled.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::config::EngineConfig;
use super::connections::Connections;
use super::conversation::Breach;
use super::recorder::{Call, MAX_NAME_BYTES, clip};
use super::reporter::{About, Reporter};
use super::scope::Scope;
use super::seen::Seen;
use super::timers::Timers;
use crate::definition::bounded_name;
use crate::detect::{Ahead, Inspection, Reader};
use crate::event::{Detection, EventBody, ProtocolViolation, Trace};
use crate::guard::Recorded;
use crate::mutes::MuteSubject;
use crate::protocol::{Id, Message, members_once, name_text};
use crate::terms::{ConnectionId, Timestamp};

/// The parts that all others use.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) config: &'a EngineConfig,
    pub(super) connections: &'a mut Connections,
    pub(super) timers: &'a mut Timers,
    pub(super) reporter: Reporter<'a>,
    /// What was inspected ahead of the message at hand.
    pub(super) ahead: Option<Arc<Ahead>>,
}

impl Context<'_> {
    /// What inspects the message at hand, if anything is inspected.
    pub(super) fn reader(&self) -> Option<Reader<'_>> {
        let inspection = self.config.inspection.as_ref()?;
        Some(Reader::new(&inspection.detector, self.ahead.as_deref()))
    }

    /// Does something that is about a message of which this was inspected ahead.
    pub(super) fn ahead<T>(&mut self, ahead: Option<Arc<Ahead>>, work: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.ahead, ahead);
        let done = work(self);
        self.ahead = before;
        done
    }

    /// Does something that is about a message of another trace than the one at hand.
    pub(super) fn traced<T>(&mut self, trace: Trace, work: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(self.reporter.trace, trace);
        let done = work(self);
        *self.reporter.trace = before;
        done
    }

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

    /// Marks the detections that are muted of what is about a server, or a tool with this definition. Without a hash, it is about
    /// the tool as it is known.
    pub(super) fn mark(
        &self,
        scope: &Scope,
        (tool, hash): (Option<&str>, Option<&str>),
        detections: &mut [Detection],
    ) {
        if detections.is_empty() || self.reporter.mutes.is_empty() {
            return;
        }
        let Some(connection) = self.connections.get(scope.connection) else { return };
        let known = tool.filter(|_| hash.is_none()).and_then(|tool| connection.tool(tool));
        let hash = hash.or(known.map(|known| &*known.hash));
        let subject = MuteSubject { key: &connection.pin_key(&scope.server), tool, hash };
        self.reporter.mutes.mark(&subject, detections);
    }

    /// Marks what was found about a tool that is known.
    pub(super) fn mark_tool(&mut self, scope: &Scope, tool: &str) {
        if let Some(connection) = self.connections.get_mut(scope.connection) {
            connection.mark_tool(tool, self.reporter.mutes);
        }
    }

    /// Reports what was found, where it is bad enough.
    pub(super) fn report_found(&mut self, scope: &Scope, time: Timestamp, about: &About, found: &Inspection) {
        self.reporter.counters.inspection_bounds += found.bounds.total();
        let mut detections: Vec<Detection> = self.reporter.reportable(found).cloned().collect();
        self.mark(scope, (about.tool_name.as_deref(), about.tool_hash.as_deref()), &mut detections);
        self.reporter.report_detections(scope, time, about, detections);
    }

    /// Whether a definition was reported of this connection; it is then.
    pub(super) fn is_reported(&mut self, id: ConnectionId, name: &str, hash: &str) -> bool {
        let (limit, overflow) = (self.config.limits.tools, &mut self.reporter.counters.tools_overflow);
        let connection = self.connections.get_mut(id);
        connection.is_some_and(|connection| !connection.is_news(name, hash, limit, overflow))
    }

    /// Reports what does not belong into a conversation, the same once of a connection. `method` and `id`: of the message.
    pub(super) fn report_breach(
        &mut self,
        seen: Seen<'_>,
        (method, id): (Option<&str>, Option<Id<'_>>),
        breach: Breach,
    ) {
        self.reporter.counters.protocol_violations += 1;
        let Breach { era, violation, expected, found } = breach;
        let direction = seen.direction;
        let what = format!("{era:?} {direction:?} {method:?} {expected:?} {found:?}");
        if self.is_reported(seen.connection, &format!("{violation:?}"), &what) {
            return;
        }
        let violation = ProtocolViolation {
            era,
            violation,
            severity: violation.severity(),
            direction,
            method: method.map(|method| clip(method, MAX_NAME_BYTES)),
            jsonrpc_id: id.map(|id| self.reporter.recorder.id(id)),
            expected,
            found,
        };
        self.report(seen.connection, seen.time, violation);
    }

    /// The call that these params ask for. The name is shared with what is known of the tool.
    pub(super) fn call<'a>(&self, connection: ConnectionId, params: Option<&'a RawValue>) -> Call<'a> {
        let json = params.map_or("null", RawValue::get);
        let ([name, arguments, ..], repeated) =
            members_once(json, ["name", "arguments", "inputResponses", "requestState"]);
        let name = name.and_then(name_text).unwrap_or_default();
        let connection = self.connections.get(connection);
        let known = connection.and_then(|connection| connection.tool(&name));
        let tool_name = known.map_or_else(|| bounded_name(&name).into(), |known| Arc::clone(&known.name));
        Call { tool_name, params, arguments, repeated }
    }
}
