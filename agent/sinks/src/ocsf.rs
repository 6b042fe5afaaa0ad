//! Events as OCSF (Open Cybersecurity Schema Framework, schema.ocsf.io): one line of theirs for one of ours.
//!
//! OCSF has no words for much of what is said of MCP. So the event stands in `unmapped.mcpwarden` as it is stored, byte for
//! byte: nothing is lost, and the chain of hashes can be followed there, too.

mod classes;

use mcpwarden_policy::{
    Event, EventBody,
    event::{Action, GateAction, Severity},
};
use nix::unistd::gethostname;
use serde::Serialize;
use serde_json::value::RawValue;

use classes::{Activity, Details};
use mcpwarden_text::{summary, write_json};

/// The version of the schema whose attributes are written.
const VERSION: &str = "1.7.0";
/// Its profiles whose attributes are: `device` and `actor` are of the first, `action_id` and the like of the second.
const PROFILES: [&str; 2] = ["host", "security_control"];
/// What we are called there.
const PRODUCT: &str = "mcpwarden";

/// Writes events as OCSF.
pub struct Ocsf {
    /// This host's name.
    hostname: String,
}

/// A line. Names are those of OCSF.
#[derive(Serialize)]
struct Line<'a> {
    class_uid: u32,
    class_name: &'static str,
    category_uid: u32,
    activity_id: u32,
    activity_name: &'a str,
    type_uid: u32,
    severity_id: u32,
    /// Milliseconds.
    time: u64,
    message: &'a str,
    /// How many events it stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_id: Option<u32>,
    #[serde(flatten)]
    outcome: Option<Outcome>,
    metadata: Metadata<'a>,
    device: Device<'a>,
    #[serde(flatten)]
    details: Details<'a>,
    unmapped: Unmapped<'a>,
}

/// What came of something that guards looked at.
#[derive(Serialize)]
struct Outcome {
    action_id: u32,
    disposition_id: u32,
    is_alert: bool,
}

impl Outcome {
    /// What was not stopped was not blocked, whatever was decided.
    fn of(action: Action, enforced: bool) -> Self {
        let (action_id, disposition_id) = match (action, enforced) {
            // Allowed.
            (Action::Allow, _) => (1, 1),
            // Observed, and an alert.
            (Action::Alert, _) => (3, 19),
            // Denied, and blocked.
            (Action::Block, true) => (2, 2),
            // Observed, and detected.
            (Action::Block, false) => (3, 15),
        };
        Self { action_id, disposition_id, is_alert: action != Action::Allow }
    }
}

#[derive(Serialize)]
struct Metadata<'a> {
    version: &'static str,
    profiles: [&'static str; 2],
    product: Product,
    uid: &'a str,
    log_name: &'static str,
    original_time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    original_event_uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<u64>,
}

#[derive(Serialize)]
struct Product {
    name: &'static str,
    vendor_name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
struct Device<'a> {
    hostname: &'a str,
    type_id: u32,
}

#[derive(Serialize)]
struct Unmapped<'a> {
    mcpwarden: Native<'a>,
}

/// The event as it is stored.
#[derive(Serialize)]
#[serde(untagged)]
enum Native<'a> {
    Line(&'a RawValue),
    /// It is no JSON, which would be a mistake of ours.
    Damaged(String),
}

impl Ocsf {
    /// Of this host.
    pub fn new() -> Self {
        let hostname = gethostname().ok().and_then(|name| name.into_string().ok());
        Self { hostname: hostname.unwrap_or_else(|| "unknown".into()) }
    }

    /// The line of an event whose own line is `text`, without a line feed.
    pub fn line(&self, event: &Event, text: &[u8]) -> Vec<u8> {
        let message = summary(event);
        let sequence = event.link.as_ref().map(|link| link.seq);
        // Hosts count each by itself, and begin anew where the store does.
        let uid = format!("{}:{}:{}", self.hostname, event.timestamp.0, sequence.unwrap_or_default());
        let class = classes::of(event, &self.hostname, &uid, &message);
        let Activity { id: activity_id, name: activity_name } = class.activity;
        let line = Line {
            class_uid: class.kind.uid,
            class_name: class.kind.name,
            category_uid: class.kind.category_uid,
            activity_id,
            activity_name,
            type_uid: class.kind.uid * 100 + activity_id,
            severity_id: match &event.body {
                // Informational: nobody is to be alerted.
                EventBody::Detected(found) if found.muted => 1,
                body => body.severity().map_or(class.kind.severity_id, severity_id),
            },
            time: event.timestamp.0 / 1_000_000,
            message: &message,
            count: event.repeats,
            status_id: class.status_id,
            outcome: outcome(&event.body),
            metadata: Metadata {
                version: VERSION,
                profiles: PROFILES,
                product: Product { name: PRODUCT, vendor_name: PRODUCT, version: env!("CARGO_PKG_VERSION") },
                uid: &uid,
                log_name: event.kind(),
                original_time: event.timestamp.to_string(),
                original_event_uid: sequence.map(|seq| seq.to_string()),
                sequence,
            },
            device: Device { hostname: &self.hostname, type_id: 0 },
            details: class.details,
            unmapped: Unmapped {
                mcpwarden: serde_json::from_slice(text)
                    .map_or_else(|_| Native::Damaged(String::from_utf8_lossy(text).into()), Native::Line),
            },
        };
        let mut bytes = Vec::with_capacity(text.len() + 1024);
        write_json(&line, &mut bytes);
        bytes
    }
}

fn severity_id(severity: Severity) -> u32 {
    match severity {
        Severity::Low => 2,
        Severity::Medium => 3,
        Severity::High => 4,
        Severity::Critical => 5,
    }
}

/// `None` of what nobody decides.
fn outcome(body: &EventBody) -> Option<Outcome> {
    let (action, enforced) = match body {
        EventBody::ToolCalled(call) => (call.decided.action, call.decided.enforced),
        EventBody::ToolResult(result) => (result.decided.action, result.decided.enforced),
        EventBody::NetworkConnection(to) => (to.connecting.action, to.connecting.enforced),
        EventBody::ServerEgress(to) => (to.connecting.action, to.connecting.enforced),
        EventBody::CrossServerBlocked(blocked) => (Action::Block, blocked.enforced),
        EventBody::RequestBlocked(blocked) => (Action::Block, blocked.enforced),
        EventBody::GuardDenied(denied) => (Action::Block, denied.enforced),
        EventBody::GateDecided(gate) if matches!(gate.action, GateAction::Passed | GateAction::Unseen) => {
            (Action::Alert, false)
        }
        EventBody::GateDecided(_) => (Action::Block, true),
        // Whether it is stopped is said of the call.
        EventBody::Detected(found) => (found.action, false),
        EventBody::ToolChanged(changed) => (changed.action, false),
        EventBody::DefinitionChanged(changed) => (changed.action, false),
        EventBody::RequestWarned(_)
        | EventBody::GuardModified(_)
        | EventBody::ApprovalRequested(_)
        | EventBody::TlsMismatch(_)
        | EventBody::ProtocolViolation(_) => (Action::Alert, false),
        _ => return None,
    };
    Some(Outcome::of(action, enforced))
}

#[cfg(test)]
mod tests;
