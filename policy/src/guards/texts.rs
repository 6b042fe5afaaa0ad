//! Guards that read texts: what tools answer, and what servers ask of the client's model and user.

use std::any::Any;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::{allow, deny, deny_with, short};
use crate::config::TextAction;
use crate::detect::{Detector, Inspection, Reader};
use crate::guard::{Decision, DenialCode, DenialDetails, Facts, Guard, GuardError, Modification, Operation};
use crate::terms::{Detection, GuardKind, Severity, Timestamp, Trust};

/// What the detections at or above the threshold lead to.
fn act(
    inspection: Inspection,
    facts: &Facts<'_>,
    (threshold, action): (Severity, TextAction),
    (code, what): (DenialCode, String),
) -> Result<Decision, GuardError> {
    let mut detections = inspection.detections;
    detections.retain(|detection| detection.severity >= threshold);
    facts.mutes.mark(&mut detections);
    let Some(severity) = Detection::worst(&detections) else {
        // What is muted is recorded all the same.
        return if detections.is_empty() {
            allow()
        } else {
            Ok(Decision::Modify(Modification::NoteMuted { detections }))
        };
    };
    let alerts = detections.iter().filter(|detection| !detection.is_muted());
    let message = format!("{what} has detections: {}", Detection::rules(alerts).join(", "));
    if action == TextAction::Block && facts.trust != Trust::High {
        return deny_with(code, message, Some(DenialDetails::Text { severity, detections }));
    }
    Ok(Decision::Modify(Modification::AddWarning { message, detections }))
}

fn bytes(json: Option<&RawValue>) -> usize {
    json.map_or(0, |json| json.get().len())
}

/// Whether the answer to a method, other than a tool call, brings texts of strangers before the model, so that `result_injection`
/// inspects it.
pub fn brings_text(method: &str) -> bool {
    matches!(method, "prompts/get" | "resources/read" | "tasks/result")
}

/// What an answer brings before the model, and whether that is an error, which reaches it whatever was asked for.
fn brought<'a>(operation: &Operation<'a>) -> Option<(&'a RawValue, bool)> {
    let (result, error) = match *operation {
        Operation::ToolResult { result, error, .. } => (result, error),
        // It was put to the guard as a tool's result.
        Operation::Response { method: "tools/call", .. } => return None,
        Operation::Response { method, result, error } => (result.filter(|_| brings_text(method)), error),
        _ => return None,
    };
    result.map(|result| (result, false)).or(error.map(|error| (error, true)))
}

/// `result_injection`
#[derive(Debug)]
pub(super) struct ResultInjection {
    pub(super) detector: Arc<Detector>,
    pub(super) threshold: Severity,
    pub(super) action: TextAction,
    /// Bounds that inspections reached.
    pub(super) bounds: u64,
}

impl Guard for ResultInjection {
    fn kind(&self) -> GuardKind {
        GuardKind::ResultInjection
    }

    fn work(&self, operation: &Operation<'_>) -> usize {
        bytes(brought(operation).map(|(json, _)| json))
    }

    fn check(
        &mut self,
        operation: &Operation<'_>,
        facts: &Facts<'_>,
        _: Timestamp,
    ) -> Result<Decision, GuardError> {
        let Some((json, is_error)) = brought(operation) else { return allow() };
        let mut inspection = Reader::new(&self.detector, facts.ahead).result(json.get(), facts.tool_names);
        self.bounds += inspection.bounds.total();
        if inspection.detections.is_empty() {
            return allow();
        }
        if is_error {
            for detection in &mut inspection.detections {
                detection.field.insert_str(0, "/error");
            }
        }
        let what = match *operation {
            Operation::ToolResult { tool_name, .. } => format!("the result of tool '{}'", short(tool_name)),
            Operation::Response { method, .. } => format!("the answer to {method}"),
            _ => String::new(),
        };
        let what = format!("{what} of server '{}'", short(&facts.server.0));
        act(inspection, facts, (self.threshold, self.action), (DenialCode::ResultInjection, what))
    }

    fn succeed(&mut self, before: &mut dyn Any) {
        self.bounds = before.downcast_ref::<Self>().map_or(0, |before| before.bounds);
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("guards_inspection_bounds", self.bounds)]
    }

    fn why(&self, _: &Operation<'_>, _: &Facts<'_>, _: Timestamp) -> Option<String> {
        Some("nothing was found in it, or it brings no text before the model".to_owned())
    }
}

/// `sampling`
#[derive(Debug)]
pub(super) struct Sampling {
    pub(super) detector: Arc<Detector>,
    pub(super) threshold: Severity,
    pub(super) action: TextAction,
    pub(super) deny_all: bool,
    /// Bounds that inspections reached.
    pub(super) bounds: u64,
}

/// Whether a method is one by which a server asks the client's model, or its user.
fn asks(method: &str) -> bool {
    matches!(method, "sampling/createMessage" | "elicitation/create")
}

impl Guard for Sampling {
    fn kind(&self) -> GuardKind {
        GuardKind::Sampling
    }

    fn work(&self, operation: &Operation<'_>) -> usize {
        match *operation {
            Operation::Request { method, params } if asks(method) => bytes(params),
            _ => 0,
        }
    }

    fn check(
        &mut self,
        operation: &Operation<'_>,
        facts: &Facts<'_>,
        _: Timestamp,
    ) -> Result<Decision, GuardError> {
        let Operation::Request { method, params } = *operation else { return allow() };
        if !asks(method) {
            return allow();
        }
        let what = format!("{method} of server '{}'", short(&facts.server.0));
        if self.deny_all {
            return deny(DenialCode::SamplingDenied, format!("{what}: such requests are denied"));
        }
        let Some(params) = params else { return allow() };
        let inspection = Reader::new(&self.detector, facts.ahead).sampling(params.get());
        self.bounds += inspection.bounds.total();
        act(inspection, facts, (self.threshold, self.action), (DenialCode::SamplingInjection, what))
    }

    fn succeed(&mut self, before: &mut dyn Any) {
        self.bounds = before.downcast_ref::<Self>().map_or(0, |before| before.bounds);
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("guards_inspection_bounds", self.bounds)]
    }

    fn why(&self, operation: &Operation<'_>, _: &Facts<'_>, _: Timestamp) -> Option<String> {
        Some(match *operation {
            Operation::Request { method, .. } if asks(method) => "nothing was found in it".to_owned(),
            Operation::Request { method, .. } => {
                format!("{} asks neither the client's model nor its user", short(method))
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;
