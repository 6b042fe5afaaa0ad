//! What the policy core reported of a tool, of a call, and of its answer.

use std::collections::BTreeSet;

use mcpwarden_policy::definition::Diff;
use mcpwarden_policy::event::{
    Action, Decided, Detection, Event, EventBody, GuardDenied, Objection, RequestBlocked, Severity, Subject,
    ToolStatus,
};
use mcpwarden_policy::guard::{GuardKind, RiskLevel, ToolCategory};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The decision on a call, or on its answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Decision {
    #[serde(flatten)]
    pub decided: Decided,
    /// The name of a guard that others wrote, where one denies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard_name: Option<String>,
    /// What was found in the arguments, or in the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub detections: Vec<Detection>,
}

/// What an answer is no part of: the denial of a guard, before anything is asked of the server.
pub fn denied(guard: GuardKind, code: &str, reason: String) -> Decision {
    let decided = Decided {
        action: Action::Block,
        enforced: true,
        guard: Some(guard),
        code: Some(code.to_owned()),
        reason: Some(reason),
        ..Decided::default()
    };
    Decision { decided, ..Decision::default() }
}

/// What the gate of a running agent stopped.
pub fn stopped(reason: String) -> Decision {
    let (action, code) = (Action::Block, Some("gate".to_owned()));
    let decided = Decided { action, enforced: true, code, reason: Some(reason), ..Decided::default() };
    Decision { decided, ..Decision::default() }
}

impl Decision {
    /// Whether it denies.
    pub fn is_denial(&self) -> bool {
        self.decided.action == Action::Block
    }

    /// The denial in a sentence's end: by whom, and why.
    pub fn denial(&self) -> String {
        let Decided { guard, code, reason, .. } = &self.decided;
        let guard = self.guard_name.as_deref().or(guard.map(GuardKind::name)).unwrap_or("the policy");
        let code = code.as_deref().map_or_else(String::new, |code| format!(" ({code})"));
        format!("by {guard}{code}: {}", reason.as_deref().unwrap_or("no reason is given"))
    }

    /// With a denial of a guard that others wrote, unless another one denied before it.
    fn deny(&mut self, denied: &GuardDenied) {
        let GuardDenied { guard, code, reason, .. } = denied;
        if self.is_denial() {
            let objection = Objection { guard: *guard, code: code.clone(), reason: reason.clone() };
            self.decided.also_denied_by.push(objection);
            return;
        }
        self.decided.action = Action::Block;
        (self.decided.guard, self.guard_name) = (Some(*guard), Some(denied.guard_name.clone()));
        (self.decided.code, self.decided.reason) = (Some(code.clone()), Some(reason.clone()));
    }

    /// With what guards that others wrote said besides, since a call or an answer was handed in.
    fn hear(mut self, events: &[Event], id: &Value) -> Self {
        for event in events {
            match &event.body {
                EventBody::GuardDenied(denied) if denied.jsonrpc_id.as_ref() == Some(id) => self.deny(denied),
                EventBody::GuardModified(modified) if modified.jsonrpc_id.as_ref() == Some(id) => {
                    let (name, message) = (&modified.guard_name, &modified.message);
                    self.warn(format!("the guard {name} answers {}: {message}", modified.action));
                }
                EventBody::GuardFailing(failing) if !failing.denies => {
                    self.warn(format!("the guard {} has no answer: {}", failing.guard_name, failing.reason));
                }
                _ => {}
            }
        }
        self.decided.enforced = self.is_denial();
        self
    }

    fn warn(&mut self, warning: String) {
        self.decided.action = self.decided.action.max(Action::Alert);
        self.decided.warnings.push(warning);
    }
}

/// The decision on the call with this id, among what was reported since it was handed in; `None`: there is none.
pub fn of_call(events: &[Event], id: &Value) -> Option<Decision> {
    let called = events.iter().find_map(|event| match &event.body {
        EventBody::ToolCalled(called) if called.jsonrpc_id == *id => Some(called),
        _ => None,
    })?;
    let decision =
        Decision { decided: called.decided.clone(), detections: called.detections.clone(), guard_name: None };
    Some(decision.hear(events, id))
}

/// The decision on the answer to it, and what was found in it.
pub fn of_answer(events: &[Event], id: &Value) -> Decision {
    let mut decision = Decision::default();
    for event in events {
        match &event.body {
            EventBody::ToolResult(result) if result.jsonrpc_id == *id => {
                decision.decided = result.decided.clone();
            }
            // Of an answer that is not the end of the call.
            EventBody::RequestBlocked(blocked) if blocked.jsonrpc_id.as_ref() == Some(id) => {
                let RequestBlocked { guard, code, reason, also_denied_by, .. } = blocked;
                decision.decided = denied(*guard, code, reason.clone()).decided;
                decision.decided.also_denied_by.clone_from(also_denied_by);
            }
            EventBody::RequestWarned(warned) if warned.jsonrpc_id == *id => {
                decision.decided.action = decision.decided.action.max(Action::Alert);
                decision.decided.warnings.extend(warned.warnings.iter().cloned());
            }
            EventBody::Detected(detected)
                if detected.jsonrpc_id.as_ref() == Some(id) && detected.subject != Subject::Arguments =>
            {
                decision.detections.push(detected.detection.clone());
            }
            _ => {}
        }
    }
    decision.hear(events, id)
}

/// What is known of a tool.
#[derive(Debug, Serialize)]
pub struct Descriptor {
    /// The definition, as the server sent it.
    pub definition: Box<RawValue>,
    /// Its hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// How it compares with its pin; `None`: the pins could not be read.
    pub pin: Option<ToolStatus>,
    /// What differs from the pinned one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Diff>,
    pub category: Option<ToolCategory>,
    pub risk_level: Option<RiskLevel>,
    pub side_effect_tags: BTreeSet<String>,
    /// What was found in the definition.
    pub detections: Vec<Detection>,
    pub max_severity: Option<Severity>,
}

impl Descriptor {
    /// What was reported of a tool when its server listed it. `knows_pins`: whether its pin could be read, if it has one.
    pub fn of(events: &[Event], tool: &str, definition: Box<RawValue>, knows_pins: bool) -> Self {
        let mut descriptor = Self {
            definition,
            hash: None,
            pin: None,
            changes: None,
            category: None,
            risk_level: None,
            side_effect_tags: BTreeSet::new(),
            detections: Vec::new(),
            max_severity: None,
        };
        for event in events {
            match &event.body {
                EventBody::ToolSeen(seen) if seen.tool_name == tool => {
                    descriptor.hash = Some(seen.tool_hash.clone());
                    descriptor.pin = knows_pins.then_some(seen.status);
                    (descriptor.category, descriptor.risk_level) =
                        (Some(seen.category), Some(seen.risk_level));
                    descriptor.side_effect_tags.clone_from(&seen.side_effect_tags);
                    descriptor.detections.clone_from(&seen.detections);
                    descriptor.max_severity = seen.max_severity;
                }
                EventBody::ToolChanged(changed) if changed.tool_name == tool => {
                    descriptor.changes = Some(changed.diff.clone());
                }
                _ => {}
            }
        }
        descriptor
    }
}

#[cfg(test)]
mod tests {
    use mcpwarden_policy::Timestamp;
    use mcpwarden_policy::event::examples::examples;
    use serde_json::json;

    use super::*;

    /// The example of an event, with this id.
    fn example(kind: &str, id: &Value) -> Event {
        let mut body =
            examples().into_iter().map(|event| event.body).find(|body| body.kind() == kind).unwrap();
        match &mut body {
            EventBody::ToolCalled(called) => called.jsonrpc_id = id.clone(),
            EventBody::ToolResult(result) => result.jsonrpc_id = id.clone(),
            EventBody::GuardDenied(denied) => denied.jsonrpc_id = Some(id.clone()),
            EventBody::GuardModified(modified) => modified.jsonrpc_id = Some(id.clone()),
            EventBody::RequestBlocked(blocked) => blocked.jsonrpc_id = Some(id.clone()),
            _ => {}
        }
        Event::agent(Timestamp(1), body)
    }

    fn allowed(kind: &str, id: &Value) -> Event {
        let mut event = example(kind, id);
        match &mut event.body {
            EventBody::ToolCalled(called) => called.decided = Decided::default(),
            EventBody::ToolResult(result) => result.decided = Decided::default(),
            _ => {}
        }
        event
    }

    #[test]
    fn guards_that_answer_later_decide_too() {
        let (id, other) = (json!("x"), json!("y"));
        for (name, events, expected) in [
            ("nothing", vec![], None),
            ("another call", vec![allowed("mcp_tool_called", &other)], None),
            ("allowed", vec![allowed("mcp_tool_called", &id)], Some((Action::Allow, false, 0))),
            (
                "denied later",
                vec![allowed("mcp_tool_called", &id), example("mcp_guard_denied", &id)],
                Some((Action::Block, true, 0)),
            ),
            (
                "denied twice",
                vec![
                    allowed("mcp_tool_called", &id),
                    example("mcp_guard_denied", &id),
                    example("mcp_guard_denied", &id),
                ],
                Some((Action::Block, true, 1)),
            ),
            (
                "another one is denied",
                vec![allowed("mcp_tool_called", &id), example("mcp_guard_denied", &other)],
                Some((Action::Allow, false, 0)),
            ),
            (
                "modified",
                vec![allowed("mcp_tool_called", &id), example("mcp_guard_modified", &id)],
                Some((Action::Alert, false, 0)),
            ),
        ] {
            let decision = of_call(&events, &id);
            let found = decision.map(|decision| {
                let Decided { action, enforced, also_denied_by, .. } = decision.decided;
                (action, enforced, also_denied_by.len())
            });
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn answer_is_denied_by_whatever_event_says_so() {
        let id = json!("x");
        for (events, expected) in [
            (vec![], Action::Allow),
            (vec![allowed("mcp_tool_result", &id)], Action::Allow),
            (vec![allowed("mcp_tool_result", &id), example("mcp_guard_denied", &id)], Action::Block),
            (vec![example("mcp_request_blocked", &id)], Action::Block),
            (vec![example("mcp_request_blocked", &json!("y"))], Action::Allow),
        ] {
            assert_eq!(of_answer(&events, &id).decided.action, expected, "{events:?}");
        }
    }

    #[test]
    fn denial_names_guard_code_and_reason() {
        let decision = denied(GuardKind::ServerAccess, "server_disabled", "it is off".to_owned());
        assert_eq!(decision.denial(), "by server_access (server_disabled): it is off");
    }
}
