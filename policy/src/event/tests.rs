use serde_json::{Value, json};

use super::*;
use crate::ids::Direction;

fn about(body: impl Into<EventBody>) -> Event {
    Event {
        timestamp: Timestamp(1_767_695_400_000_000_000),
        session_id: Some(SessionId("sess_0123456789ab".into())),
        server_id: Some(ServerId("server-git".into())),
        server_type: Some(ServerType::Stdio),
        via: vec![ServerId("relay".into())],
        connection: Some(ConnectionId(7)),
        body: body.into(),
    }
}

/// One of each, with as many fields as it can have, and one with as few.
fn examples() -> Vec<Event> {
    let started = ServerStarted {
        pid: Some(1),
        uid: Some(0),
        cgroup_id: Some(u64::MAX),
        executable: Some("/bin/x".into()),
        argv: vec!["x".into(), "***".into()],
        argv_truncated: true,
        cwd: Some("/".into()),
        client: Some(ProcessInfo { pid: 2, executable: None, argv: vec![] }),
        matched_by: MatchedBy::Name,
        pattern: Some("*-mcp".into()),
        identity: Identity::Derived,
        adopted: true,
        chain: vec!["npx".into()],
    };
    let bare = ServerStarted {
        pid: None,
        uid: None,
        cgroup_id: None,
        executable: None,
        argv: vec![],
        argv_truncated: false,
        cwd: None,
        client: None,
        matched_by: MatchedBy::Behaviour,
        pattern: None,
        chain: vec![],
        adopted: false,
        ..started.clone()
    };
    let called = ToolCalled {
        tool_name: "read".into(),
        tool_id: "mcp:server-git:read".into(),
        jsonrpc_id: json!("a"),
        input: json!({"path": {"type": "string", "length": 3, "hash": "0"}}),
        meta: Some(json!({"_meta": {}})),
    };
    let result = ToolResult {
        tool_name: "read".into(),
        tool_id: "mcp:server-git:read".into(),
        jsonrpc_id: json!(1),
        status: CallStatus::Error,
        error_code: Some(-32_601),
        error_message: Some("no".into()),
        error_message_bytes: Some(2),
        bytes: 10,
        latency_ns: 5,
        result: Value::Null,
    };
    let tool = ToolSeen {
        tool_name: "read".into(),
        tool_hash: "ab".into(),
        description: Some("reads".into()),
        definition: Some(json!({"name": "read"})),
        status: ToolStatus::New,
        detections: vec![Detection {
            pattern: "p".into(),
            category: "c".into(),
            severity: Severity::High,
            field: "description".into(),
        }],
        max_severity: Some(Severity::High),
    };
    let message = Message {
        direction: Direction::ServerToClient,
        kind: MessageKind::Request,
        method: Some("roots/list".into()),
        jsonrpc_id: Some(json!(1.5)),
        bytes: 3,
        payload: json!([1]),
    };
    let gap = CaptureGap {
        direction: Direction::ClientToServer,
        bytes: 9,
        cause: GapCause::IoUringFixed,
        offset: Some(1),
        pid: Some(2),
    };
    let started_agent = AgentStarted {
        boot_id: Some("b".into()),
        programs: vec!["exec".into()],
        blind_spots: vec!["io_uring".into()],
        ..Default::default()
    };
    let loss = AgentLoss { counter: "c".into(), count: 1, total: 2, meaning: "m".into() };
    let stopped = AgentStopped { reason: "SIGTERM".into(), counters: [("frames".to_owned(), 1)].into() };
    let exited = ServerExited { exit_code: Some(0), signal: Some(9), ..Default::default() };
    vec![
        Event::agent(Timestamp(1), started_agent.into()),
        Event::agent(Timestamp(2), loss.into()),
        Event::agent(Timestamp(3), stopped.into()),
        about(started),
        about(bare),
        about(ServerInitialized::default()),
        about(ServerInitialized {
            server_name: Some("s".into()),
            capabilities: json!({}),
            ..Default::default()
        }),
        about(tool.clone()),
        about(ToolSeen {
            description: None,
            definition: None,
            detections: vec![],
            max_severity: None,
            ..tool
        }),
        about(called.clone()),
        about(ToolCalled { meta: None, ..called }),
        about(result.clone()),
        about(ToolResult { status: CallStatus::Ok, error_code: None, error_message: None, ..result }),
        about(message),
        about(exited),
        about(ServerExited::default()),
        about(gap.clone()),
        about(CaptureGap { offset: None, pid: None, ..gap }),
    ]
}

#[test]
fn every_event_is_as_the_schema_says() {
    let schema = jsonschema::validator_for(&schema()).unwrap();
    let mut kinds: Vec<&str> = Vec::new();
    for event in examples() {
        let json = serde_json::to_value(&event).unwrap();
        if let Err(error) = schema.validate(&json) {
            panic!("{json}: {error}");
        }
        kinds.push(event.kind());
    }
    kinds.dedup();
    assert_eq!(kinds, EventBody::KINDS, "each kind has an example");
}

#[test]
fn the_schema_refuses_what_is_no_event() {
    let schema = jsonschema::validator_for(&schema()).unwrap();
    let good = serde_json::to_value(&examples()[8]).unwrap();
    assert!(schema.is_valid(&good));
    let cases = [
        ("type", json!("mcp_unknown")),
        ("type", Value::Null),
        ("timestamp", json!("yesterday")),
        ("timestamp", Value::Null),
        ("tool_name", Value::Null),
        ("via", json!("relay")),
        ("server_type", json!("smoke")),
    ];
    for (key, value) in cases {
        let mut bad = good.clone();
        match value {
            Value::Null => bad.as_object_mut().unwrap().retain(|name, _| name != key),
            value => bad[key] = value,
        }
        assert!(!schema.is_valid(&bad), "{bad}");
    }
}

#[test]
fn events_are_read_back_and_begin_with_type_and_timestamp() {
    for event in examples() {
        let line = serde_json::to_string(&event).unwrap();
        let start = format!(r#"{{"type":"{}","timestamp":"{}""#, event.kind(), event.timestamp);
        assert!(line.starts_with(&start), "{line}");
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event, "{line}");
    }
}
