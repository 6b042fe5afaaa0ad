//! What the detector finds in what goes by, and who is told.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::io::Output;
use super::record::{Call, MAX_NAME_BYTES, clip, tool_id};
use super::{Engine, Place};
use crate::detect::{Inspection, ToolNames};
use crate::event::{Action, Detected, Detection, Subject};
use crate::protocol::{Kind, Message, members, members_once};
use crate::terms::{ConnectionId, SessionId, Timestamp};

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

impl Engine {
    /// Notes a tool that a session's servers offer.
    pub(super) fn session_tool(&mut self, session: &SessionId, name: &str) {
        if self.config.inspection.is_some() {
            self.sessions.entry(session.clone()).or_default().add(name);
        }
    }

    /// Forgets the sessions that no connection is part of.
    pub(super) fn forget_session(&mut self, session: &SessionId) {
        let used = self.connections.values().any(|connection| connection.session.as_ref() == Some(session));
        if !used {
            self.sessions.remove(session);
        }
    }

    /// What of it is bad enough to be said.
    pub(super) fn alerts<'a>(&self, found: &'a Inspection) -> impl Iterator<Item = &'a Detection> + use<'a> {
        let threshold = self.config.inspection.as_ref().map(|inspection| inspection.alert_threshold);
        found.detections.iter().filter(move |found| threshold.is_some_and(|least| found.severity >= least))
    }

    /// Says what was found, where it is bad enough.
    pub(super) fn say_found(
        &mut self,
        place: &Place,
        time: Timestamp,
        about: &About,
        found: &Inspection,
        out: &mut Vec<Output>,
    ) {
        self.counters.inspection_bounds += found.bounds.total();
        for detection in self.alerts(found) {
            self.counters.detections += 1;
            let detected = Detected {
                subject: about.subject,
                tool_name: about.tool_name.as_deref().map(|name| clip(name, MAX_NAME_BYTES)),
                tool_id: about.tool_name.as_deref().map(|name| tool_id(&place.server, name)),
                tool_hash: about.tool_hash.clone(),
                jsonrpc_id: about.id.clone(),
                // What is found is worth a look, whatever becomes of it.
                action: about.action.max(Action::Alert),
                detection: detection.clone(),
            };
            self.say(place.clone(), time, detected, out);
        }
    }

    /// Adds that a message which is no call says something twice.
    pub(super) fn find_repeated(&self, message: &Message<'_>, found: &mut Inspection) {
        let Some(inspection) = &self.config.inspection else { return };
        if let Some(field) = repeated(message) {
            inspection.detector.repeated(&field, found);
        }
    }

    /// Says that a request or notification which is no call says something twice, if it does.
    pub(super) fn say_repeated(
        &mut self,
        target: ConnectionId,
        time: Timestamp,
        message: &Message<'_>,
        out: &mut Vec<Output>,
    ) {
        let mut found = Inspection::default();
        self.find_repeated(message, &mut found);
        if found.detections.is_empty() {
            return;
        }
        let Some(place) = self.place(target) else { return };
        let id =
            if let Kind::Request { id, .. } = &message.kind { Some(self.recorder.id(*id)) } else { None };
        self.say_found(&place, time, &About { id, ..About::of(Subject::Arguments) }, &found, out);
    }

    /// Inspects the arguments of a call, and whether its message says twice what is called.
    pub(super) fn inspect_call(&self, message: &Message<'_>, call: &Call<'_>) -> Inspection {
        let Some(inspection) = &self.config.inspection else { return Inspection::default() };
        let detector = &inspection.detector;
        let mut found =
            call.arguments.map(|arguments| detector.arguments(arguments.get())).unwrap_or_default();
        if let Some(name) = message.repeated {
            detector.repeated(&format!("/{name}"), &mut found);
        }
        if let Some(name) = call.repeated {
            detector.repeated(&format!("/params/{name}"), &mut found);
        }
        found
    }
}

/// Members of what messages carry by which the ends read them: what is asked, what is answered.
const TELLING: [&str; 20] = [
    "name",
    "arguments",
    "uri",
    "cursor",
    "protocolVersion",
    "capabilities",
    "clientInfo",
    "serverInfo",
    "instructions",
    "tools",
    "prompts",
    "resources",
    "resourceTemplates",
    "nextCursor",
    "content",
    "structuredContent",
    "isError",
    "contents",
    "messages",
    "message",
];

/// Where a message says something twice that it is read by: the first such place, as a JSON Pointer.
fn repeated(message: &Message<'_>) -> Option<String> {
    if let Some(name) = message.repeated {
        return Some(format!("/{name}"));
    }
    let (part, json) = match &message.kind {
        Kind::Request { params, .. } | Kind::Notification { params, .. } => ("params", *params),
        Kind::Response { result, .. } => ("result", Some(*result)),
        Kind::Error { .. } => {
            let [error] = members(message.raw, ["error"]);
            ("error", error)
        }
        Kind::Invalid => return None,
    };
    let (_, repeated) = members_once(json?.get(), TELLING);
    repeated.map(|name| format!("/{part}/{name}"))
}

/// The tools that each session's servers offer: their names are what an instruction in a result would speak of.
pub(super) type Sessions = BTreeMap<SessionId, ToolNames>;
