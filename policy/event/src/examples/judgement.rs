//! Verdicts of guards and of the gate, and what they are asked with.

use mcpwarden_terms::contract::DenialScope;
use mcpwarden_terms::{GuardKind, Mode, Phase, ProfileKey, ToolCategory};
use serde_json::json;

use super::{about, objection};
use crate::*;

pub(super) fn examples() -> Vec<Event> {
    let related = RelatedCall {
        timestamp: Timestamp(5),
        server_id: ServerId("files".into()),
        connection: Some(ConnectionId(3)),
        jsonrpc_id: json!(4),
        request_id: Some("req-1".into()),
        method: "tools/call".into(),
        tool_name: "read".into(),
        tool_id: "mcp:files:read".into(),
        category: ToolCategory::Read,
        action: Action::Allow,
    };
    let cross = CrossServerBlocked {
        rule: "read_then_send".into(),
        severity: Severity::Critical,
        reason: "r".into(),
        method: "tools/call".into(),
        jsonrpc_id: json!(5),
        request_id: None,
        blocked_server_id: ServerId("mail".into()),
        blocked_tool_name: "send".into(),
        blocked_tool_id: "mcp:mail:send".into(),
        blocked_tool_hash: Some("ab".into()),
        original_server_id: Some(ServerId("files".into())),
        related_calls: vec![related],
        also_denied_by: vec![objection()],
        enforced: false,
    };
    let session_set = SessionSet {
        key: ProfileKey::Project,
        configured: false,
        by: "ann (root)".into(),
        profile: SessionProfile {
            mode: Mode::Planning,
            spec_frozen: true,
            spec_hash: "a".repeat(64).parse().ok(),
            project_id: Some("billing".into()),
            policy_blacklist: ["payments".to_owned()].into(),
            admin_token: true,
        },
    };
    let warned = RequestWarned {
        kind: MessageKind::Response,
        method: "tools/list".into(),
        jsonrpc_id: json!(1),
        warnings: vec!["w".into()],
        tools_left_out: vec!["t".into()],
    };
    let blocked = RequestBlocked {
        kind: MessageKind::Request,
        method: "prompts/get".into(),
        jsonrpc_id: None,
        guard: GuardKind::ServerAccess,
        code: "server_denied".into(),
        reason: "r".into(),
        also_denied_by: vec![objection()],
        enforced: true,
    };
    let gate = GateDecided {
        action: GateAction::Neutralized,
        guard: Some(GuardKind::ToolAccess),
        code: "tool_denied".into(),
        reason: "r".into(),
        pid: 7,
        bytes: 120,
        explained: true,
    };
    vec![
        about(session_set.clone()),
        about(SessionSet { configured: true, profile: SessionProfile::default(), ..session_set }),
        about(GuardDenied {
            guard: GuardKind::Wasm,
            guard_name: "data-loss".into(),
            phase: Phase::ToolInvoke,
            code: "secret".into(),
            reason: "r".into(),
            scope: DenialScope::SessionTool,
            tools: vec!["read".into()],
            name: Some("file:///x".into()),
            jsonrpc_id: Some(json!(5)),
            valid_until: Some(Timestamp(9)),
            latency_ns: 7,
            enforced: false,
        }),
        about(GuardDenied {
            guard: GuardKind::Http,
            guard_name: "policy".into(),
            phase: Phase::ToolsList,
            code: "guard_timeout".into(),
            reason: "r".into(),
            scope: DenialScope::Definition,
            tools: Vec::new(),
            name: None,
            jsonrpc_id: None,
            valid_until: None,
            latency_ns: 0,
            enforced: false,
        }),
        about(GuardModified {
            guard: GuardKind::Wasm,
            guard_name: "data-loss".into(),
            phase: Phase::ToolsList,
            action: "replace_tools".into(),
            message: "1 tools are left out".into(),
            applied: true,
            tools: vec!["read".into()],
            jsonrpc_id: Some(json!(5)),
            latency_ns: 7,
        }),
        about(GuardModified {
            guard: GuardKind::Http,
            guard_name: "policy".into(),
            phase: Phase::ToolResult,
            action: "redact_fields".into(),
            message: "m".into(),
            applied: false,
            tools: Vec::new(),
            jsonrpc_id: None,
            latency_ns: 0,
        }),
        Event::agent(
            Timestamp(8),
            GuardLoaded {
                guard: GuardKind::Wasm,
                guard_name: "data-loss".into(),
                module_hash: Some("ab".into()),
                contract: "0.1.0".into(),
            }
            .into(),
        ),
        Event::agent(
            Timestamp(8),
            GuardFailing {
                guard: GuardKind::Http,
                guard_name: "policy".into(),
                phase: Phase::ToolInvoke,
                reason: "r".into(),
                denies: true,
            }
            .into(),
        ),
        Event::agent(
            Timestamp(9),
            GuardRecovered { guard: GuardKind::Http, guard_name: "policy".into(), failures: 3 }.into(),
        ),
        about(cross),
        about(blocked),
        about(warned),
        about(gate),
    ]
}
