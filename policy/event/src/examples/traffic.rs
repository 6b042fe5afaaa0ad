//! Messages between clients and servers: calls, results, gaps.

use mcpwarden_terms::{Direction, GuardKind, ToolCategory};
use serde_json::json;

use super::{about, objection};
use crate::*;

fn intent() -> ModelIntent {
    ModelIntent {
        dialect: "anthropic".into(),
        model: Some("m".into()),
        request_id: Some("req_1".into()),
        tool_call_id: Some("toolu_1".into()),
    }
}

pub(super) fn examples() -> Vec<Event> {
    let called = ToolCalled {
        tool_name: "read".into(),
        tool_id: "mcp:server-git:read".into(),
        tool_hash: Some("ab".into()),
        jsonrpc_id: json!("a"),
        input: Json::from(&json!({"path": {"type": "string", "length": 3, "hash": "0"}})),
        meta: Some(json!({"_meta": {}})),
        category: ToolCategory::Read,
        decided: Decided {
            action: Action::Block,
            enforced: true,
            guard: Some(GuardKind::ToolAccess),
            code: Some("tool_denied".into()),
            reason: Some("r".into()),
            also_denied_by: vec![objection()],
            warnings: vec!["w".into()],
        },
        detections: vec![],
        tool_detections: vec!["pseudo-tag".into()],
        intent: Some(Box::new(CallIntent { intent: intent(), other_arguments: true })),
    };
    let result = ToolResult {
        tool_name: "read".into(),
        tool_id: "mcp:server-git:read".into(),
        jsonrpc_id: json!(1),
        status: CallStatus::Error,
        error_code: Some(-32_601),
        error_name: Some("header_mismatch".into()),
        error_message: Some("no".into()),
        error_message_bytes: Some(2),
        bytes: 10,
        latency_ns: 5,
        rounds: 2,
        result: Json::default(),
        decided: called.decided.clone(),
    };
    let message = Message {
        direction: Direction::ServerToClient,
        kind: MessageKind::Request,
        method: Some("roots/list".into()),
        jsonrpc_id: Some(json!(1.5)),
        error_name: None,
        bytes: 3,
        payload: Json::from(&json!([1])),
    };
    let gap = CaptureGap {
        direction: Direction::ClientToServer,
        bytes: 9,
        cause: GapCause::IoUringFixed,
        offset: Some(1),
        pid: Some(2),
    };
    let late = RequestTimedOut {
        jsonrpc_id: json!(1),
        method: "tools/call".into(),
        tool_name: Some("read".into()),
        tool_id: Some("mcp:server-git:read".into()),
        age_ns: 6,
        timeout_ms: 5,
    };
    let crowded = ConcurrencyExceeded { open_requests: 11, max_concurrent: 10 };
    vec![
        about(RequestRefused { status: 401, jsonrpc_id: Some(json!(1)) }),
        about(RequestRefused { status: 404, jsonrpc_id: None }),
        about(late.clone()),
        about(RequestTimedOut { tool_name: None, tool_id: None, ..late }),
        about(crowded),
        about(ProtocolViolation {
            era: Era::Stateless,
            violation: Violation::RevisionChanged,
            severity: Severity::Medium,
            direction: Direction::ClientToServer,
            method: Some("tools/list".into()),
            jsonrpc_id: Some(json!(1)),
            expected: Some("2026-07-28".into()),
            found: Some("2027-01-01".into()),
        }),
        about(ProtocolViolation {
            era: Era::Handshake,
            violation: Violation::Batch,
            severity: Severity::Medium,
            direction: Direction::ServerToClient,
            method: None,
            jsonrpc_id: None,
            expected: None,
            found: None,
        }),
        about(called.clone()),
        about(ToolCallIntercepted {
            intent: intent(),
            tool_name: "mcp__git__read".into(),
            tool_id: Some("mcp:server-git:read".into()),
            tool_hash: Some("ab".into()),
            name_match: Some(ToolNameMatch::Exact),
            candidates: None,
            executor: Executor::Client,
            provider_server: None,
            input: Json::from(&json!({})),
            remote_addr: "10.0.0.1:443".into(),
            remote_name: Some("api.example".into()),
            pid: 7,
        }),
        about(ToolCallIntercepted {
            intent: ModelIntent { model: None, request_id: None, tool_call_id: None, ..intent() },
            tool_name: "search".into(),
            tool_id: None,
            tool_hash: None,
            name_match: Some(ToolNameMatch::Truncated),
            candidates: Some(2),
            executor: Executor::ProviderMcp,
            provider_server: Some("docs".into()),
            input: Json::default(),
            remote_addr: "10.0.0.1:443".into(),
            remote_name: None,
            pid: 7,
        }),
        about(ToolCalled { meta: None, intent: None, ..called }),
        about(result.clone()),
        about(ToolResult {
            status: CallStatus::Ok,
            error_code: None,
            error_name: None,
            error_message: None,
            rounds: 0,
            decided: Decided::default(),
            ..result
        }),
        about(message),
        about(gap.clone()),
        about(CaptureGap { offset: None, pid: None, ..gap }),
    ]
}
