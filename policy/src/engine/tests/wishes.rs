//! One wish in the forms of both eras: what a policy denies, it denies in each (MCP 2025-11-25 and 2026-07-28).

use super::judge::bench;
use super::rounds::meta;
use super::*;

/// A wish: its name, and what is said of it in each era; of the server's wishes the last message has them.
struct Wish {
    name: &'static str,
    old: Vec<(Direction, Value)>,
    new: Vec<Vec<(Direction, Value)>>,
}

fn client(id: u32, method: &str, params: Value, is_new: bool) -> (Direction, Value) {
    let mut params = params;
    if is_new {
        params["_meta"] = meta();
    }
    (Direction::ClientToServer, json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
}

fn server(message: Value) -> (Direction, Value) {
    let mut message = message;
    message["jsonrpc"] = "2.0".into();
    (Direction::ServerToClient, message)
}

/// What a server asks: as a request, in an answer that requires input, in a task and in a notification of it.
fn asked(name: &'static str, method: &str, params: Value) -> Wish {
    let listing = client(20, "tools/list", json!({}), true);
    let get = client(21, "tasks/get", json!({ "taskId": "t" }), true);
    let inputs = json!({ "k": { "method": method, "params": params } });
    let state = json!({ "taskId": "t", "status": "input_required", "inputRequests": inputs });
    let required = json!({ "resultType": "input_required", "inputRequests": inputs });
    Wish {
        name,
        old: vec![server(json!({ "id": 9, "method": method, "params": params }))],
        new: vec![
            vec![listing, server(json!({ "id": 20, "result": required }))],
            vec![get, server(json!({ "id": 21, "result": state }))],
            vec![server(json!({ "method": "notifications/tasks", "params": state }))],
        ],
    }
}

/// What a client asks: as it did, as it does, and again with what its server required.
fn asks(name: &'static str, method: &str, params: Value) -> Wish {
    let mut again = params.clone();
    again["inputResponses"] = json!({ "k": { "roots": [] } });
    again["requestState"] = "s".into();
    Wish {
        name,
        old: vec![client(20, method, params.clone(), false)],
        new: vec![vec![client(20, method, params, true)], vec![client(20, method, again, true)]],
    }
}

fn wishes() -> Vec<Wish> {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
    vec![
        asked("sampling", "sampling/createMessage", json!({ "messages": [], "maxTokens": 1 })),
        asked("elicitation", "elicitation/create", json!({ "message": "m", "requestedSchema": schema })),
        asked(
            "URL elicitation",
            "elicitation/create",
            json!({ "mode": "url", "message": "m", "url": "https://a.example/" }),
        ),
        asked("roots", "roots/list", json!({})),
        asks("tool", "tools/call", json!({ "name": "read_file", "arguments": { "path": "a" } })),
        asks("resource", "resources/read", json!({ "uri": "file:///a" })),
        asks("prompt", "prompts/get", json!({ "name": "p" })),
        asks("completion", "completion/complete", json!({ "ref": { "type": "ref/prompt", "name": "p" } })),
    ]
}

/// Who denies what is said last, and why: nobody, or guard and code.
fn denied(yaml: &str, messages: &[(Direction, Value)]) -> Vec<String> {
    let mut bench = bench(yaml);
    for (index, (direction, message)) in messages.iter().enumerate() {
        if index + 1 == messages.len() {
            bench.out.clear();
        }
        bench.frame(1, *direction, &message.to_string());
    }
    let events = bench.events();
    let denied =
        events.iter().filter(|event| event["action"] == "block" || event["type"] == "mcp_request_blocked");
    let mut codes: Vec<String> = denied
        .filter(|event| event["type"] != "mcp_detection")
        .map(|event| format!("{} {}", event["guard"].as_str().unwrap(), event["code"].as_str().unwrap()))
        .collect();
    codes.dedup();
    codes
}

#[test]
fn policy_denies_a_wish_in_every_era() {
    let sampling = "guards: [{ kind: sampling, config: { deny_all: true } }]";
    let of_sampling = "sampling sampling_denied";
    let server = "policy: { denied_servers: [{ id: files }] }";
    let of_server = "server_access server_denied";
    // The policy, whose wishes it denies, and with which code.
    let cases: [(&str, &[&str], &str); 9] = [
        ("", &[], ""),
        (sampling, &["sampling", "elicitation", "URL elicitation"], of_sampling),
        (
            server,
            &[
                "sampling",
                "elicitation",
                "URL elicitation",
                "roots",
                "tool",
                "resource",
                "prompt",
                "completion",
            ],
            of_server,
        ),
        ("policy: { denied_tools: [{ tool: read_file }] }", &["tool"], "tool_access tool_denied"),
        (
            "policy: { tool_policy: allowlist, allowed_tools: [{ tool: other }] }",
            &["tool"],
            "tool_access tool_not_allowed",
        ),
        (
            "servers: [{ id: files, command: files, enabled: false }]",
            &[
                "sampling",
                "elicitation",
                "URL elicitation",
                "roots",
                "tool",
                "resource",
                "prompt",
                "completion",
            ],
            "server_access server_disabled",
        ),
        (
            "policy: { server_policy: allowlist, allowed_servers: [{ id: other }] }",
            &[
                "sampling",
                "elicitation",
                "URL elicitation",
                "roots",
                "tool",
                "resource",
                "prompt",
                "completion",
            ],
            "server_access server_not_allowed",
        ),
        ("policy: { disabled_tools: [read_file] }", &["tool"], "disabled_tool tool_disabled"),
        ("policy: { rate_limits: { enabled: true, default_rpm: 0 } }", &["tool"], "rate_limit rate_limited"),
    ];
    for (yaml, denies, code) in cases {
        for wish in wishes() {
            let expected: Vec<&str> = if denies.contains(&wish.name) { vec![code] } else { vec![] };
            assert_eq!(denied(yaml, &wish.old), expected, "{}, by {yaml}", wish.name);
            for messages in &wish.new {
                assert_eq!(denied(yaml, messages), expected, "{} as {messages:?}, by {yaml}", wish.name);
            }
        }
    }
}
