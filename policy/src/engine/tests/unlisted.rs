//! Tools that are called before they are listed: what is known of them from before.

use super::approvals::Step::{self, Decided, List};
use super::approvals::{EVIL, run};
use super::judge::bench;
use super::*;

const READ: &str = r#"{"name":"read_file"}"#;
const CHANGED: &str = r#"{"name":"read_file","description":"another"}"#;

/// A client that comes back calls what it remembers. What is against a tool then is known from the last time.
#[test]
fn remembered_denial_applies_before_relisting() {
    let denied: &[Step] = &[Decided("read_file", false)];
    let changed: &[Step] = &[List(CHANGED)];
    let approved: &[Step] = &[List(CHANGED), Decided("read_file", true)];
    let evil: &[Step] = &[List(EVIL)];
    let block = "policy: { version_pinning: { on_change: block } }";
    let low = "servers: [{ id: files, command: files, trust: low }]";
    let detected = "inspection: { on_detection: { action: block } }";
    for (yaml, before, tool, expected) in [
        ("", &[][..], READ, "allow"),
        ("", denied, READ, "approval_denied"),
        (block, changed, CHANGED, "tool_changed"),
        (block, approved, CHANGED, "allow"),
        (low, approved, CHANGED, "allow"),
        (low, &[], READ, "approval_required"),
        (
            "servers: [{ id: files, command: files }]\npolicy: { fail_closed: true }",
            denied,
            READ,
            "approval_denied",
        ),
        ("", evil, EVIL, "allow"),
        (detected, evil, EVIL, "tool_poisoned"),
        (detected, &[List(EVIL), Decided("add", true)], EVIL, "allow"),
    ] {
        let mut bench = bench(yaml);
        run(&mut bench, before);
        bench.server(3, 15, "files", 19);
        let name = serde_json::from_str::<Value>(tool).unwrap()["name"].as_str().unwrap().to_owned();
        // Twice from memory, since the second time is another way; then when it is listed.
        for (round, listed) in (0..).zip([false, false, true]) {
            if listed {
                bench.c2s(3, r#"{"id":30,"method":"tools/list"}"#);
                bench.s2c(3, &answer(30, &format!(r#"{{"tools":[{tool}]}}"#)));
            }
            bench.out.clear();
            bench.c2s(3, &call(40 + round, &name));
            let called = bench.events().into_iter().find(|event| event["type"] == "mcp_tool_called").unwrap();
            let code = if called["action"] == "block" { called["code"].as_str().unwrap() } else { "allow" };
            assert_eq!(code, expected, "{yaml}, {listed}: {called}");
            // Also in what is said.
            assert_eq!(called["tool_detections"].is_array(), tool == EVIL, "{called}");
        }
    }
}

/// What is held before it is listed can be approved by the definition of the last time; and what was never listed has
/// none that anybody could approve.
#[test]
fn remembered_definition_can_be_approved() {
    let mut bench = bench("servers: [{ id: files, command: files, trust: low }]");
    bench.server(3, 15, "files", 19);
    let mut call_of = |id: u32, tool: &str| {
        bench.out.clear();
        bench.c2s(3, &call(id, tool));
        let events = bench.events();
        let called = events.iter().find(|event| event["type"] == "mcp_tool_called").unwrap();
        let asked = events.iter().any(|event| event["type"] == "mcp_approval_requested");
        (called["reason"].as_str().unwrap_or_default().to_owned(), asked)
    };
    let (reason, asked) = call_of(40, "read_file");
    assert!(reason.ends_with("it waits for approval") && asked, "{reason}");
    let (reason, asked) = call_of(41, "never_listed");
    assert!(reason.ends_with("can be approved once its server has listed it") && !asked, "{reason}");
    super::approvals::decide(&mut bench, "read_file", true, None);
    bench.out.clear();
    bench.c2s(3, &call(42, "read_file"));
    let called = bench.events().into_iter().find(|event| event["type"] == "mcp_tool_called").unwrap();
    assert_eq!(called["action"], "allow", "{called}");
}

/// A server that lists a tool no more, on this connection and on the next one. What was against it still is.
#[test]
fn shorter_tool_list_ends_no_denial() {
    const DELETES: &str = r#"{"name":"tidy","description":"Deletes files of the user."}"#;
    let new = "policy: { version_pinning: { on_change: block, auto_trust_first: false } }";
    let tags = "servers: [{ id: files, command: files, deny_side_effect_tags: [fs.delete] }]";
    let detected = "inspection: { on_detection: { action: block } }";
    let changed = "policy: { version_pinning: { on_change: block } }";
    for (yaml, steps, tool, code) in [
        ("", &[List(READ), Decided("read_file", false)][..], "read_file", "approval_denied"),
        (new, &[List(READ)], "read_file", "approval_required"),
        (tags, &[List(DELETES)], "tidy", "side_effect_denied"),
        (detected, &[List(EVIL)], "add", "tool_poisoned"),
        (changed, &[List(READ), List(CHANGED)], "read_file", "tool_changed"),
    ] {
        let mut bench = bench(yaml);
        run(&mut bench, steps);
        let mut id = 70;
        for connection in [1, 3] {
            if connection == 3 {
                bench.server(3, 15, "files", 19);
            }
            for shorter in [false, true] {
                if shorter {
                    id += 1;
                    bench.c2s(connection, &format!(r#"{{"id":{id},"method":"tools/list"}}"#));
                    bench.s2c(connection, &answer(id, r#"{"tools":[{"name":"other"}]}"#));
                }
                id += 1;
                bench.out.clear();
                bench.c2s(connection, &call(id, tool));
                let called =
                    bench.events().into_iter().find(|event| event["type"] == "mcp_tool_called").unwrap();
                assert_eq!(called["code"], code, "{yaml} {connection} {shorter}: {called}");
            }
        }
    }
}

/// Which of two definitions of one name a client takes nobody knows: it may do what either says.
#[test]
fn duplicate_tool_has_effects_of_both_definitions() {
    let pages =
        [r#"{"name":"tidy","description":"Deletes files."}"#, r#"{"name":"tidy","description":"Fine."}"#];
    for [first, second] in [pages, [pages[1], pages[0]]] {
        let mut bench = bench("servers: [{ id: files, command: files, deny_side_effect_tags: [fs.delete] }]");
        bench.c2s(1, r#"{"id":69,"method":"tools/list"}"#);
        bench.s2c(1, &answer(69, &format!(r#"{{"tools":[{first},{second}]}}"#)));
        bench.c2s(1, &call(70, "tidy"));
        let called = bench.events().into_iter().find(|event| event["type"] == "mcp_tool_called").unwrap();
        assert_eq!(called["code"], "side_effect_denied", "{first} {second}: {called}");
    }
}
