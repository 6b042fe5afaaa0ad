//! What is inspected besides what guards look at themselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::detect::{Inspection, Reader, ToolNames};
use crate::engine::config::Inspect;
use crate::engine::recorder::Call;
use crate::protocol::{Kind, Message, Method, TELLING, members, repeated_member};
use crate::terms::SessionId;

/// Adds that a message which is no call has a member twice.
pub(in crate::engine) fn find_repeated(
    inspection: Option<&Inspect>,
    message: &Message<'_>,
    found: &mut Inspection,
) {
    let Some(inspection) = inspection else { return };
    if let Some(field) = repeated(message) {
        inspection.detector.repeated(&field, found);
    }
}

/// Inspects the arguments of a call, and whether its message says twice what is called.
pub(super) fn inspect_call(
    (inspection, reader): (Option<&Inspect>, Option<Reader<'_>>),
    message: &Message<'_>,
    call: &Call<'_>,
) -> Inspection {
    let Some((Inspect { detector, .. }, reader)) = inspection.zip(reader) else {
        return Inspection::default();
    };
    let mut found = call.arguments.map(|arguments| reader.arguments(arguments.get())).unwrap_or_default();
    if let Some(name) = message.repeated {
        detector.repeated(&format!("/{name}"), &mut found);
    }
    if let Some(name) = call.repeated {
        detector.repeated(&format!("/params/{name}"), &mut found);
    }
    found
}

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
    repeated_member(json?.get(), &TELLING).map(|name| format!("/{part}/{name}"))
}

/// Inspects what a server says unasked, or asks that no guard looks at: what a client does with its texts is not known, so that they are
/// read as results are.
pub(super) fn inspect_unasked(reader: Reader<'_>, message: &Message<'_>, tools: &ToolNames) -> Inspection {
    match &message.kind {
        Kind::Request { method: Method::SamplingCreateMessage | Method::ElicitationCreate, .. } => {
            Inspection::default()
        }
        Kind::Request { params: Some(params), .. } | Kind::Notification { params: Some(params), .. } => {
            under("/params", reader.result(params.get(), tools))
        }
        _ => Inspection::default(),
    }
}

/// With the fields of what was found below another one.
pub(super) fn under(field: &str, mut found: Inspection) -> Inspection {
    for detection in &mut found.detections {
        detection.field.insert_str(0, field);
    }
    found
}

/// The tools that each session's servers offer: their names are what an instruction in a result would speak of.
pub(super) type Sessions = BTreeMap<SessionId, Arc<ToolNames>>;
