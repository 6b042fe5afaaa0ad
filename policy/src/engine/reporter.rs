//! Facts into events and other outputs, counted.

use std::sync::Arc;

use serde_json::Value;

use super::config::{Counters, EngineConfig};
use super::io::Output;
use super::question::GuardQuestion;
use super::recorder::{MAX_NAME_BYTES, Recorder, clip, tool_id};
use super::scope::Scope;
use crate::detect::Inspection;
use crate::event::{Action, Detected, Detection, Event, EventBody, Subject, Trace};
use crate::http::LINK;
use crate::mutes::Mutes;
use crate::terms::{ConnectionId, ServerId, Timestamp};

/// What is inspected, and what it is named by in events.
#[derive(Clone, Debug)]
pub(super) struct About {
    pub(super) subject: Subject,
    pub(super) tool_name: Option<Arc<str>>,
    pub(super) tool_hash: Option<String>,
    pub(super) id: Option<Value>,
    pub(super) action: Action,
}

impl About {
    pub(super) fn of(subject: Subject) -> Self {
        Self { subject, tool_name: None, tool_hash: None, id: None, action: Action::Alert }
    }
}

/// Where parts report to while one input is handled.
#[derive(Debug)]
pub(super) struct Reporter<'a> {
    pub(super) config: &'a EngineConfig,
    pub(super) recorder: &'a Recorder,
    pub(super) counters: &'a mut Counters,
    pub(super) gate: &'a mut GateStaleness,
    pub(super) mutes: &'a Mutes,
    /// The trace of the message at hand.
    pub(super) trace: &'a mut Trace,
    pub(super) out: &'a mut Vec<Output>,
}

impl Reporter<'_> {
    /// Reports something of a connection's server.
    pub(super) fn report(&mut self, scope: Scope, time: Timestamp, body: impl Into<EventBody>) {
        self.emit(Event {
            timestamp: time,
            session_id: Some(scope.session),
            server_id: Some(scope.server),
            server_type: Some(scope.kind),
            via: scope.via,
            connection: Some(scope.connection),
            trace: self.trace.clone(),
            body: body.into(),
            repeats: None,
            link: None,
            owner: scope.owner,
        });
    }

    /// Reports something of a server that need not be connected.
    pub(super) fn report_of_server(
        &mut self,
        server: &ServerId,
        scope: Option<Scope>,
        time: Timestamp,
        body: EventBody,
    ) {
        match scope {
            Some(scope) => self.report(scope, time, body),
            None => self.emit(Event { server_id: Some(server.clone()), ..Event::agent(time, body) }),
        }
    }

    /// Reports an event as it is.
    pub(super) fn emit(&mut self, event: Event) {
        self.out.push(Output::Event(event));
    }

    /// What of it is bad enough to be reported.
    pub(super) fn reportable<'f>(
        &self,
        found: &'f Inspection,
    ) -> impl Iterator<Item = &'f Detection> + use<'f> {
        let threshold = self.config.inspection.as_ref().map(|inspection| inspection.alert_threshold);
        found.detections.iter().filter(move |found| threshold.is_some_and(|least| found.severity >= least))
    }

    /// What of it somebody is alerted of: what mutes apply to is marked by now.
    pub(super) fn alerts<'f>(&self, found: &'f Inspection) -> impl Iterator<Item = &'f Detection> + use<'f> {
        self.reportable(found).filter(|detection| !detection.is_muted())
    }

    /// Reports these detections, which are marked with the mutes that apply.
    pub(super) fn report_detections(
        &mut self,
        scope: &Scope,
        time: Timestamp,
        about: &About,
        detections: Vec<Detection>,
    ) {
        for detection in detections {
            let mute = self.mutes.of(&detection);
            let muted = mute.is_some();
            let count =
                if muted { &mut self.counters.detections_muted } else { &mut self.counters.detections };
            *count += 1;
            // What is found is worth a look, whatever becomes of it, unless somebody has looked.
            let least = if muted { Action::Allow } else { Action::Alert };
            let detected = Detected {
                subject: about.subject,
                tool_name: about.tool_name.as_deref().map(|name| clip(name, MAX_NAME_BYTES)),
                tool_id: about.tool_name.as_deref().map(|name| tool_id(&scope.server, name)),
                tool_hash: about.tool_hash.clone(),
                jsonrpc_id: about.id.clone(),
                action: about.action.max(least),
                muted,
                mute,
                detection,
            };
            self.report(scope.clone(), time, detected);
        }
    }

    /// Has a guard that others wrote asked.
    pub(super) fn ask(&mut self, question: GuardQuestion) {
        self.out.push(Output::Ask(question));
    }

    /// A connection is a server's.
    pub(super) fn confirm(&mut self, connection: ConnectionId, server: ServerId) {
        self.out.push(Output::Confirm { connection, server });
        self.is_known_anew(connection);
    }

    /// A connection is none, or there is no room for it.
    pub(super) fn drop_connection(&mut self, connection: ConnectionId) {
        self.out.push(Output::Drop(connection));
        self.is_known_anew(connection);
    }

    /// There is no room for a connection that is a server's: its calls are undecided.
    pub(super) fn refuse_connection(&mut self, connection: ConnectionId) {
        self.out.push(Output::Refuse(connection));
        self.is_known_anew(connection);
    }

    /// More is known of a connection: the gate judges those that are no conversation over HTTP.
    fn is_known_anew(&mut self, connection: ConnectionId) {
        if connection.0 & LINK == 0 {
            self.gate_is_stale(None);
        }
    }

    /// What the gate's table is made of has changed. `since`: when what changed it was captured, where a message did.
    pub(super) fn gate_is_stale(&mut self, since: Option<Timestamp>) {
        self.gate.is_stale = true;
        self.gate.since = self.gate.since.or(since);
    }
}

/// Whether the gate's table has to be made anew, and since when: reported once for all that an input brings.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GateStaleness {
    is_stale: bool,
    since: Option<Timestamp>,
}

impl GateStaleness {
    /// Reports it, where it is.
    pub(super) fn flush(&mut self, out: &mut Vec<Output>) {
        let Self { is_stale, since } = std::mem::take(self);
        if is_stale {
            out.push(Output::GateStale { since });
        }
    }
}
