//! Definitions: listed, changed, removed, and what is found in them.

use mcpwarden_protocol::definition::Diff;
use mcpwarden_terms::{ItemKind, RiskLevel, ToolCategory};
use serde_json::json;

use super::{about, detection};
use crate::*;

pub(super) fn examples() -> Vec<Event> {
    let tool = ToolSeen {
        tool_name: "read".into(),
        tool_id: "mcp:server-git:read".into(),
        tool_hash: "ab".into(),
        description: Some("reads".into()),
        definition: Some(json!({"name": "read"})),
        ui_resource: Some("ui://git/log".into()),
        ui_grants: vec!["csp.connectDomains https://x.example".into(), "visibility model".into()],
        status: ToolStatus::New,
        category: ToolCategory::Read,
        risk_level: RiskLevel::High,
        side_effect_tags: ["fs.write".to_owned()].into(),
        detections: vec![detection()],
        max_severity: Some(Severity::High),
    };
    let found = Detected {
        subject: Subject::Definition,
        tool_name: Some("read".into()),
        tool_id: Some("mcp:server-git:read".into()),
        tool_hash: Some("ab".into()),
        jsonrpc_id: Some(json!(1)),
        action: Action::Alert,
        muted: false,
        mute: None,
        detection: detection(),
    };
    let muted = Detected {
        action: Action::Allow,
        muted: true,
        mute: Some(MutedBy {
            mute_id: "0123456789ab".into(),
            source: MuteSource::Configuration,
            reason: "r".into(),
        }),
        detection: Detection { muted_by: Some("0123456789ab".into()), ..detection() },
        ..found.clone()
    };
    let instructions = Detected {
        subject: Subject::Instructions,
        tool_name: None,
        tool_id: None,
        tool_hash: None,
        jsonrpc_id: None,
        ..found.clone()
    };
    let changed = ToolChanged {
        tool_name: "read".into(),
        tool_id: "mcp:server-git:read".into(),
        previous_hash: "ab".into(),
        new_hash: "cd".into(),
        diff: Diff::of(r#"{"a":1}"#, r#"{"b":1}"#),
        detections: vec![detection()],
        max_severity: Some(Severity::High),
        action: Action::Alert,
    };
    let redefined = DefinitionChanged {
        kind: ItemKind::Instructions,
        name: String::new(),
        previous_hash: "ab".into(),
        new_hash: "cd".into(),
        diff: Diff::unknown(),
        detections: vec![],
        max_severity: None,
        action: Action::Alert,
    };
    let interface = InterfaceSeen {
        uri: "ui://git/log".into(),
        interface_hash: Some("ab".into()),
        status: ToolStatus::New,
        ui_grants: vec!["csp.connectDomains https://x.example".into()],
    };
    let silent_interface = InterfaceSeen {
        interface_hash: None,
        status: ToolStatus::Unpinned,
        ui_grants: Vec::new(),
        ..interface.clone()
    };
    let removed = ToolRemoved {
        tool_name: "read".into(),
        tool_id: "mcp:server-git:read".into(),
        tool_hash: "ab".into(),
    };
    vec![
        about(found),
        about(muted),
        about(instructions),
        about(changed),
        about(redefined),
        about(interface),
        about(silent_interface),
        about(removed),
        about(ListChanged { list: ListKind::Tools }),
        about(tool.clone()),
        about(ToolSeen {
            ui_resource: None,
            ui_grants: vec![],
            description: None,
            definition: None,
            detections: vec![],
            max_severity: None,
            ..tool
        }),
    ]
}
