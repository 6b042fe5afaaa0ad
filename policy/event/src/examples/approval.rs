//! Approvals and pins: requested, decided, over.

use mcpwarden_terms::{GuardKind, ItemKind};
use serde_json::json;

use super::{about, detection};
use crate::*;

pub(super) fn examples() -> Vec<Event> {
    let (name, id, hash) = ("read".to_owned(), "mcp:server-git:read".to_owned(), "ab".to_owned());
    let requested = ApprovalRequested {
        tool_name: name.clone(),
        tool_id: id.clone(),
        tool_hash: hash.clone(),
        whose: Whose { uid: Some(1000), program: Some("/bin/x".into()) },
        guard: GuardKind::ToolPoisoning,
        code: "approval_required".into(),
        reason: "r".into(),
        shadows: Some(ServerId("files".into())),
        detections: vec![detection()],
        max_severity: None,
        expires: Timestamp(9),
    };
    let granted = ApprovalGranted {
        tool_name: name.clone(),
        tool_id: id.clone(),
        tool_hash: hash.clone(),
        whose: Whose { uid: Some(1000), program: Some("/usr/bin/mcp-files".into()) },
        by: "root".into(),
        limits: None,
    };
    let limits = GrantLimits {
        arguments: [("/path".to_owned(), json!({ "below": "/tmp" }))].into(),
        once: true,
        until: Some(Timestamp(9)),
    };
    let limited = ApprovalGranted { limits: Some(limits.clone()), ..granted.clone() };
    let ended = ApprovalEnded {
        tool_name: name.clone(),
        tool_id: id.clone(),
        tool_hash: hash.clone(),
        whose: Whose { uid: Some(1000), program: None },
        reason: ApprovalEnd::Used,
        by: "root".into(),
        limits,
    };
    let approved = DefinitionApproved {
        kind: ItemKind::Prompt,
        name: name.clone(),
        hash: hash.clone(),
        whose: Whose::default(),
        by: "root".into(),
    };
    let reset = PinsReset {
        tool_name: Some(name.clone()),
        pins: 1,
        whose: Whose { uid: Some(1000), program: None },
        by: "root".into(),
    };
    let denied = ApprovalDenied {
        tool_name: name.clone(),
        tool_id: id.clone(),
        tool_hash: hash.clone(),
        whose: Whose::default(),
        by: "root".into(),
    };
    let given_up = ApprovalTimedOut {
        tool_name: name.clone(),
        tool_id: id.clone(),
        tool_hash: hash,
        requested: Timestamp(8),
    };
    vec![
        about(requested.clone()),
        about(ApprovalRequested { whose: Whose::default(), shadows: None, detections: vec![], ..requested }),
        about(granted),
        about(limited),
        about(ended),
        about(approved),
        about(reset),
        about(denied),
        about(given_up),
    ]
}
