//! What the detector finds in what goes by, and who is told.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use serde_json::Value;
use serde_json::value::RawValue;

use super::io::Output;
use super::pairing::{Answered, Asked};
use super::record::{MAX_NAME_BYTES, clip, tool_id};
use super::{Engine, Place};
use crate::detect::{self, Inspection, ToolNames};
use crate::event::{Action, Detected, Subject};
use crate::guard::Operation;
use crate::ids::{SessionId, Timestamp};
use crate::protocol::{Kind, Message, Method, members, string};

/// Most tool names that are remembered of a session.
const MAX_SESSION_TOOLS: usize = 10_000;
/// Longest such name.
const MAX_TOOL_NAME_BYTES: usize = 256;

/// The tools that a session's servers offer: their names are what an instruction in a result would speak of.
#[derive(Debug, Default)]
pub(super) struct SessionTools {
    names: BTreeSet<Box<str>>,
    /// Built when it is needed next.
    matcher: Option<Rc<ToolNames>>,
}

/// What is inspected, and what it is named by in events.
#[derive(Clone, Debug)]
pub(super) struct About {
    pub(super) subject: Subject,
    pub(super) tool_name: Option<String>,
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
        if self.config.inspection.is_none() || name.len() > MAX_TOOL_NAME_BYTES {
            return;
        }
        let tools = self.sessions.entry(session.clone()).or_default();
        if tools.names.len() < MAX_SESSION_TOOLS && tools.names.insert(name.into()) {
            tools.matcher = None;
        }
    }

    /// Forgets the sessions that no connection is part of.
    pub(super) fn forget_session(&mut self, session: &SessionId) {
        let used = self.connections.values().any(|connection| connection.session.as_ref() == Some(session));
        if !used {
            self.sessions.remove(session);
        }
    }

    /// The names of a session's tools; `None` where there are none.
    pub(super) fn session_names(&mut self, session: &SessionId) -> Option<Rc<ToolNames>> {
        let SessionTools { names, matcher } = self.sessions.get_mut(session)?;
        let built = || Rc::new(ToolNames::new(names.iter().map(AsRef::as_ref)));
        Some(Rc::clone(matcher.get_or_insert_with(built)))
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
        let Some(inspection) = &self.config.inspection else { return };
        let bounds = &found.bounds;
        self.counters.inspection_bounds +=
            bounds.detections_dropped + bounds.matches_dropped + bounds.budget_exceeded + bounds.keys_dropped;
        let threshold = inspection.alert_threshold;
        for detection in found.detections.iter().filter(|detection| detection.severity >= threshold) {
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

    /// Inspects the arguments of a call.
    pub(super) fn inspect_arguments(&self, params: Option<&RawValue>) -> Inspection {
        let [arguments] = members(params.map_or("null", RawValue::get), ["arguments"]);
        match (&self.config.inspection, arguments) {
            (Some(inspection), Some(arguments)) => inspection.detector.arguments(arguments.get()),
            _ => Inspection::default(),
        }
    }

    /// Inspects an answer, by what was asked. Tool definitions are inspected one by one where they are registered.
    pub(super) fn inspect_answer(
        &mut self,
        place: &Place,
        time: Timestamp,
        message: &Message<'_>,
        to: Answered<'_>,
        out: &mut Vec<Output>,
    ) {
        let Answered { asked, id, .. } = to;
        let Some(detector) = self.config.inspection.as_ref().map(|inspection| inspection.detector.clone())
        else {
            return;
        };
        let (subject, tool_name) = match asked {
            Asked::Call { tool_name } => (Subject::Result, Some(tool_name.clone())),
            Asked::Initialize(_) => (Subject::Instructions, None),
            Asked::List { .. } => (Subject::Definition, None),
            Asked::Other { method } if method.starts_with("prompts/") => (Subject::Prompt, None),
            Asked::Other { method } if method.starts_with("resources/") => (Subject::Resource, None),
            Asked::Other { .. } => return,
        };
        let mut about = About { tool_name, id: Some(id.clone()), ..About::of(subject) };
        let found = match (&message.kind, asked) {
            (Kind::Error { message, .. }, _) => {
                detector.text(detect::Subject::Error, "/error/message", message)
            }
            (Kind::Response { result, .. }, Asked::Initialize(_)) => {
                let [instructions] = members(result.get(), ["instructions"]);
                detector.text(detect::Subject::Instructions, "/instructions", &string(instructions))
            }
            // These are inspected one by one, where they are compared with what was known.
            (Kind::Response { .. }, Asked::List { .. }) => return,
            (Kind::Response { result, .. }, Asked::Other { method }) if method.ends_with("list") => {
                // A list of resources is made of definitions as well.
                let found = self.definitions.tool(&detector, result.get());
                return self.say_found(place, time, &about, &found, out);
            }
            // A guard does.
            (Kind::Response { result, .. }, Asked::Call { tool_name }) if self.judge.is_some() => {
                let operations = [
                    Operation::ToolResult { tool_name, result: Some(result) },
                    Operation::Response { method: "tools/call", result: Some(result) },
                ];
                let judged = self.judge(place, &operations, Some(tool_name), time);
                about.action = judged.action;
                judged.found
            }
            (Kind::Response { result, .. }, Asked::Call { .. } | Asked::Other { .. }) => {
                match self.session_names(&place.session) {
                    Some(names) => detector.result(result.get(), &names),
                    None => detector.result(result.get(), &ToolNames::default()),
                }
            }
            _ => return,
        };
        self.say_found(place, time, &about, &found, out);
    }

    /// Inspects what a server asks of the model or the user.
    pub(super) fn inspect_server_request(
        &mut self,
        place: &Place,
        time: Timestamp,
        message: &Message<'_>,
        out: &mut Vec<Output>,
    ) {
        let Kind::Request { id, method, params: Some(params) } = &message.kind else { return };
        let subject = match method {
            Method::SamplingCreateMessage => Subject::Sampling,
            Method::ElicitationCreate => Subject::Elicitation,
            _ => return,
        };
        // A guard does.
        let Some(inspection) = self.config.inspection.as_ref().filter(|_| self.judge.is_none()) else {
            return;
        };
        let found = inspection.detector.sampling(params.get());
        let about = About { id: Some(self.recorder.id(*id)), ..About::of(subject) };
        self.say_found(place, time, &about, &found, out);
    }
}

/// The tools of each session.
pub(super) type Sessions = HashMap<SessionId, SessionTools>;
