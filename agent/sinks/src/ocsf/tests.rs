use std::{collections::BTreeMap, fmt::Write as _, path::PathBuf};

use mcpwarden_policy::event::examples::examples;
use serde_json::{Value, json};

use super::*;

fn native(event: &Event) -> String {
    let mut line = Vec::new();
    write_json(event, &mut line);
    String::from_utf8(line).unwrap()
}

fn line(event: &Event) -> String {
    let ocsf = Ocsf { hostname: "host".into() };
    String::from_utf8(ocsf.line(event, native(event).as_bytes())).unwrap()
}

fn value(event: &Event) -> Value {
    serde_json::from_str(&line(event)).unwrap()
}

#[test]
fn ocsf_line_embeds_the_native_event() {
    for event in examples() {
        let native = native(&event);
        let line = line(&event);
        assert!(line.ends_with(&format!(r#","unmapped":{{"mcpwarden":{native}}}}}"#)), "{line}");
    }
    let event = examples().remove(0);
    let line = Ocsf { hostname: "host".into() }.line(&event, b"{\"seq\":\xff");
    let value: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(value["unmapped"]["mcpwarden"], "{\"seq\":\u{fffd}", "a mistake of ours loses nothing either");
}

/// What of an event stands where, and what is written there.
#[test]
fn event_fields_map_to_ocsf() {
    let call = |action: &str, enforced: bool| {
        let decided = json!({"action": action, "enforced": enforced});
        event("mcp_tool_called", decided)
    };
    let connection = |fields: Value| event("mcp_network_connection", fields);
    for (event, expected) in [
        (
            call("allow", false),
            json!({"class_uid": 6003, "type_uid": 600_399, "activity_name": "Call", "action_id": 1, "disposition_id": 1,
                   "is_alert": false, "severity_id": 1, "status_id": null, "time": 1_767_695_400_000_u64,
                   "metadata/uid": "host:1767695400000000000:9", "metadata/sequence": 9, "metadata/original_event_uid": "9",
                   "metadata/original_time": "2026-01-06T10:30:00.000000000Z", "metadata/log_name": "mcp_tool_called",
                   "actor/session/uid": "sess_0123456789ab", "api/operation": "read", "api/service/name": "server-git",
                   "api/request/uid": "\"a\"", "src_endpoint/hostname": "host", "dst_endpoint/svc_name": "server-git"}),
        ),
        (
            call("alert", false),
            json!({"action_id": 3, "disposition_id": 19, "is_alert": true, "status_id": null}),
        ),
        // What was not stopped was not blocked.
        (
            call("block", false),
            json!({"action_id": 3, "disposition_id": 15, "is_alert": true, "status_id": null}),
        ),
        (call("block", true), json!({"action_id": 2, "disposition_id": 2, "is_alert": true, "status_id": 2})),
        (event("mcp_tool_called", json!({"tool_name": ""})), json!({"api/operation": "tools/call"})),
        (
            event("mcp_tool_result", json!({})),
            json!({"type_uid": 600_399, "activity_name": "Result", "status_id": 2, "api/response/code": -32_601}),
        ),
        (event("mcp_tool_result", json!({"status": "ok"})), json!({"status_id": 1})),
        (
            event("mcp_detection", json!({})),
            json!({"class_uid": 2004, "type_uid": 200_401, "severity_id": 4, "status_id": 1, "action_id": 3,
                   "disposition_id": 19, "finding_info/analytic/name": "p", "finding_info/analytic/category": "credential_theft",
                   "finding_info/title": "FOUND server-git via relay high p in definition of read /description \"m\" 3 times",
                   "resources/0/name": "server-git", "resources/1/name": "read"}),
        ),
        // What is muted is suppressed, and no alert.
        (
            event("mcp_detection", json!({"action": "allow", "muted": true})),
            json!({"class_uid": 2004, "severity_id": 1, "status_id": 3, "action_id": 1, "disposition_id": 1,
                   "is_alert": false, "finding_info/analytic/name": "p"}),
        ),
        // Whether a block of what was found was enforced is said of the call.
        (event("mcp_detection", json!({"action": "block"})), json!({"action_id": 3, "disposition_id": 15})),
        (
            event("mcp_tool_changed", json!({"max_severity": null})),
            json!({"class_uid": 2004, "severity_id": 3}),
        ),
        (event("mcp_tool_changed", json!({"action": "allow"})), json!({"action_id": 1, "is_alert": false})),
        (
            event("mcp_cross_server_blocked", json!({})),
            json!({"severity_id": 5, "action_id": 3, "disposition_id": 15, "finding_info/analytic/name": "read_then_send"}),
        ),
        (
            event("mcp_request_blocked", json!({})),
            json!({"action_id": 2, "disposition_id": 2, "finding_info/analytic/name": "server_access"}),
        ),
        (
            connection(json!({})),
            json!({"class_uid": 4001, "type_uid": 400_105, "activity_name": "Refuse", "action_id": 2, "status_id": 2,
                   "dst_endpoint/ip": "2001:db8::1", "dst_endpoint/port": 443, "dst_endpoint/hostname": "example.com",
                   "dst_endpoint/svc_name": "server-git", "connection_info/protocol_num": 6,
                   "connection_info/protocol_ver_id": 6, "connection_info/direction_id": 2, "actor/process/pid": 7,
                   "actor/process/path": "/bin/x", "actor/user/uid": "0", "actor/app_name": null}),
        ),
        (
            connection(json!({"remote_addr": "[::ffff:127.0.0.1]:5", "protocol": 132, "enforced": false})),
            json!({"type_uid": 400_101, "action_id": 3, "disposition_id": 15, "status_id": null, "dst_endpoint/ip": "127.0.0.1",
                   "connection_info/protocol_num": 132, "connection_info/protocol_name": null,
                   "connection_info/protocol_ver_id": 4, "connection_info/direction_id": 4}),
        ),
        (
            connection(json!({"remote_addr": "[fe80::1%3]:5"})),
            json!({"dst_endpoint/ip": "fe80::1", "dst_endpoint/port": 5}),
        ),
        (
            connection(json!({"remote_addr": "somewhere"})),
            json!({"dst_endpoint/name": "somewhere", "dst_endpoint/ip": null, "connection_info/protocol_ver_id": null}),
        ),
        (
            event("mcp_server_egress", json!({})),
            json!({"actor/app_name": "server-git", "dst_endpoint/svc_name": "remote", "severity_id": 4}),
        ),
        (
            event("mcp_store_failing", json!({})),
            json!({"class_uid": 0, "type_uid": 99, "activity_name": "mcp_store_failing", "severity_id": 4, "is_alert": null,
                   "action_id": null, "metadata/sequence": null}),
        ),
        (
            event("agent_loss", json!({})),
            json!({"class_uid": 0, "severity_id": 1, "message": "LOSS 1 c: m user 1000"}),
        ),
    ] {
        let value = value(&event);
        for (at, expected) in expected.as_object().unwrap() {
            let found = value.pointer(&format!("/{at}")).unwrap_or(&Value::Null);
            assert_eq!(found, expected, "{at} of {value}");
        }
    }
}

/// The first example of a type, with other fields.
fn event(kind: &str, fields: Value) -> Event {
    let example = examples().into_iter().find(|event| event.kind() == kind).unwrap();
    let mut event = serde_json::to_value(&example).unwrap();
    event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    serde_json::from_value(event).unwrap()
}

const BEGIN: &str = "<!-- classes: made by the tests of agent/sinks/src/ocsf; UPDATE_DOCS=1 writes it -->\n";
const END: &str = "<!-- classes end -->\n";

/// Types by class.
fn reference() -> String {
    let mut classes: BTreeMap<(u64, String), Vec<&str>> = BTreeMap::new();
    for kind in EventBody::KINDS {
        let value = value(&event(kind, json!({})));
        let class = (value["class_uid"].as_u64().unwrap(), value["class_name"].as_str().unwrap().to_owned());
        classes.entry(class).or_default().push(kind);
    }
    let mut text = "\n| class | `class_uid` | events |\n|---|---|---|\n".to_owned();
    for ((uid, name), kinds) in classes.into_iter().rev() {
        let kinds = kinds.iter().map(|kind| format!("`{kind}`")).collect::<Vec<_>>().join(", ");
        let kinds = if uid == 0 { "all others" } else { &kinds };
        writeln!(text, "| {name} | {uid} | {kinds} |").unwrap();
    }
    text + "\n"
}

/// Compares a file of the docs with what it must be; with `UPDATE_DOCS=1` it is made so.
fn check(name: &str, must: impl FnOnce(&str) -> String) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    let is = std::fs::read_to_string(&path).unwrap_or_default();
    let must = must(&is);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, must).unwrap();
    } else {
        assert!(is == must, "docs/reference/{name} is old: UPDATE_DOCS=1 cargo test -p mcpwarden ocsf");
    }
}

#[test]
fn docs_list_the_ocsf_class_of_every_event() {
    check("ocsf.md", |page| {
        let (before, rest) = page.split_once(BEGIN).unwrap();
        let (_, after) = rest.split_once(END).unwrap();
        format!("{before}{BEGIN}{}{END}{after}", reference())
    });
}

/// tests/tests/ocsf.rs holds them against the schema.
#[test]
fn docs_have_an_ocsf_example_of_every_event() {
    check("ocsf.examples.jsonl", |_| examples().iter().map(|event| line(event) + "\n").collect());
}
