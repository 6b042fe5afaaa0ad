//! User interfaces of MCP Apps, lists that are everybody's, and servers at addresses in both eras.

use std::net::SocketAddr;

use super::eras::{bench, open, plain, result, stateless, talk, violations};
use super::*;
use crate::event::Era;

/// A tool as it was pinned and as it comes next, what its interface may do besides, and how bad that is.
#[test]
fn widened_interface_has_a_severity_of_its_own() {
    let tool = |ui: Value| json!({"name": "a", "inputSchema": {}, "_meta": {"ui": ui, "traceparent": "00"}});
    let csp = |origins: Value| json!({"resourceUri": "ui://a", "csp": {"connectDomains": origins}});
    for (before, after, widened, severity) in [
        (csp(json!(["https://a"])), csp(json!(["https://a"])), None, Value::Null),
        (
            csp(json!(["https://a"])),
            csp(json!(["https://a", "https://b"])),
            Some(json!(["csp.connectDomains https://b"])),
            json!("high"),
        ),
        (csp(json!(["https://a", "https://b"])), csp(json!(["https://b"])), Some(Value::Null), Value::Null),
        (
            json!({"permissions": {}}),
            json!({"permissions": {"microphone": {}}}),
            Some(json!(["permissions.microphone"])),
            json!("high"),
        ),
        (
            json!({"visibility": ["app"]}),
            json!({"visibility": ["model", "app"]}),
            Some(json!(["visibility model"])),
            json!("medium"),
        ),
        (json!({"resourceUri": "ui://a"}), json!({"resourceUri": "ui://b"}), Some(Value::Null), Value::Null),
    ] {
        let mut bench = bench();
        open(&mut bench, Era::Stateless);
        for (id, ui) in [(1, &before), (2, &after)] {
            let tools = json!({"tools": [tool(ui.clone())]});
            talk(&mut bench, &[('>', stateless(id, "tools/list", json!({}))), ('<', result(id, tools))]);
        }
        let events = bench.events();
        let changed = events.iter().find(|event| event["type"] == "mcp_tool_changed");
        let found = changed.map(|event| event.get("widened").cloned().unwrap_or_default());
        assert_eq!(found, widened, "{before} {after}");
        assert_eq!(
            changed.map_or(Value::Null, |event| event["max_severity"].clone()),
            severity,
            "{before} {after}"
        );
        let seen = events.iter().find(|event| event["type"] == "mcp_tool_seen").unwrap();
        assert_eq!(seen["ui_resource"], before.get("resourceUri").cloned().unwrap_or_default());
        assert!(seen["ui_grants"].as_array().is_some_and(|grants| !grants.is_empty()), "{seen}");
    }
}

/// A server at an address, as a user reaches it.
fn reached(connection: u64, user: u32) -> crate::engine::Reached {
    crate::engine::Reached {
        connection: ConnectionId(connection),
        time: Timestamp(0),
        client: Process { pid: user, uid: Some(user), ..Process::default() },
        address: "10.0.0.1:80".parse::<SocketAddr>().unwrap().into(),
        server: None,
        netns: None,
        host: None,
        path: "/mcp".to_owned(),
        kind: ServerType::Http,
        declared: Vec::new(),
        adopted: false,
        read_in_client: false,
    }
}

/// The scope and the time to live of a list, the tools that two users are given, and whether that is reported.
#[test]
fn public_list_is_the_same_for_all_users() {
    for (name, scope, ttl, tools, expected) in [
        ("the same", "public", json!(60_000), ["a", "a"], 0),
        ("another", "public", json!(60_000), ["a", "b"], 1),
        ("private", "private", json!(60_000), ["a", "b"], 0),
        ("of no scope", "", json!(60_000), ["a", "b"], 0),
        ("stale at once", "public", json!(0), ["a", "b"], 0),
        ("without a time", "public", Value::Null, ["a", "b"], 0),
        ("with an odd time", "public", json!("long"), ["a", "b"], 0),
    ] {
        let mut bench = Bench::new();
        for (user, tool) in [1, 2].into_iter().zip(tools) {
            let connection = u64::from(user);
            bench.input(Input::Reached(reached(connection, user)));
            bench.c2s(connection, &stateless(1, "tools/list", json!({})));
            let tools = json!([{"name": tool, "inputSchema": {}}]);
            bench.s2c(connection, &result(1, json!({"tools": tools, "cacheScope": scope, "ttlMs": ttl})));
        }
        let found = violations(&mut bench);
        assert_eq!(found.len(), expected, "{name}: {found:?}");
        assert!(found.iter().all(|line| line == "stateless public_list tools"), "{name}: {found:?}");
    }
}

/// A client that connects again opens another conversation, in whichever era.
#[test]
fn reconnection_begins_anew() {
    let mut bench = Bench::new();
    bench.input(Input::Reached(reached(1, 1)));
    open(&mut bench, Era::Handshake);
    bench.input(Input::Reached(reached(1, 1)));
    open(&mut bench, Era::Stateless);
    talk(&mut bench, &[('<', plain(7, "roots/list"))]);
    assert_eq!(violations(&mut bench), ["stateless server_request"]);
    // Not in the midst of it.
    bench.input(Input::Reached(reached(1, 1)));
    bench.c2s(1, &stateless(8, "tools/list", json!({})));
    bench.c2s(1, HELLO);
    assert_eq!(violations(&mut bench), ["stateless opening"]);
}

/// What a `ui://` resource may do as it is pinned, where it says so next, and what is widened.
#[test]
fn interface_of_a_resource_is_pinned() {
    let ui = |origins: Value| json!({"ui": {"csp": {"connectDomains": origins}}});
    let listed = |meta: Value| {
        ("resources/list", json!({"resources": [{"uri": "ui://a", "name": "a", "_meta": meta}]}))
    };
    let read =
        |meta: Value| ("resources/read", json!({"contents": [{"uri": "ui://a", "text": "", "_meta": meta}]}));
    let narrow = || ui(json!(["https://a"]));
    let wide = || ui(json!(["https://a", "https://b"]));
    let grant = json!(["csp.connectDomains https://b"]);
    for (name, first, next, expected) in [
        ("the same", listed(narrow()), listed(narrow()), None),
        ("the same, read", listed(narrow()), read(narrow()), None),
        ("wider in the list", listed(narrow()), listed(wide()), Some(&grant)),
        ("wider as it is read", listed(narrow()), read(wide()), Some(&grant)),
        ("wider as it is read again", read(narrow()), read(wide()), Some(&grant)),
        ("narrower", read(wide()), read(narrow()), Some(&Value::Null)),
        ("said no more", read(wide()), read(json!({})), None),
        ("said for the first time", read(json!({})), read(wide()), None),
        ("of no object", read(narrow()), read(json!([])), None),
    ] {
        let mut bench = bench();
        open(&mut bench, Era::Stateless);
        for (id, (method, answered)) in [(1, first), (2, next)] {
            talk(
                &mut bench,
                &[('>', stateless(id, method, json!({"uri": "ui://a"}))), ('<', result(id, answered))],
            );
        }
        let events = bench.events();
        let changed = events.iter().find(|event| event["type"] == "mcp_definition_changed");
        let found = changed.map(|event| event.get("widened").cloned().unwrap_or_default());
        assert_eq!(found.as_ref(), expected, "{name}");
        if let Some(event) = changed {
            let severity = if found == Some(grant.clone()) { json!("high") } else { Value::Null };
            assert_eq!((&event["kind"], &event["name"]), (&json!("interface"), &json!("ui://a")), "{name}");
            assert_eq!(event["max_severity"], severity, "{name}");
        }
    }
}

/// A resource that is a user interface is reported as it is first seen, and as its grants are another.
#[test]
fn interface_of_a_resource_is_reported_at_first_sight() {
    const KIND: &str = "text/html;profile=mcp-app";
    let ui = |origin: &str| json!({"ui": {"csp": {"connectDomains": [origin]}}});
    let listed = |kind: &str, meta: Value| {
        let resource = json!({"uri": "ui://a", "name": "a", "mimeType": kind, "_meta": meta});
        ("resources/list", json!({"resources": [resource]}))
    };
    let read = |kind: &str, meta: Value| {
        let contents = json!({"uri": "ui://a", "text": "", "mimeType": kind, "_meta": meta});
        ("resources/read", json!({"contents": [contents]}))
    };
    const NEW: &str = "new csp.connectDomains https://a";
    const CHANGED: &str = "changed csp.connectDomains https://b";
    type Case<'a> = (&'a str, Vec<(&'a str, Value)>, &'a [&'a str]);
    let cases: Vec<Case<'_>> = vec![
        ("listed", vec![listed(KIND, ui("https://a"))], &[NEW]),
        ("read", vec![read(KIND, ui("https://a"))], &[NEW]),
        ("without a type", vec![listed("", ui("https://a"))], &[NEW]),
        ("of another type", vec![listed("text/html", ui("https://a"))], &[NEW]),
        ("twice", vec![listed(KIND, ui("https://a")), read(KIND, ui("https://a"))], &[NEW]),
        ("another", vec![listed(KIND, ui("https://a")), read(KIND, ui("https://b"))], &[NEW, CHANGED]),
        ("by its type alone", vec![listed(KIND, json!({}))], &["unpinned "]),
        ("by its type, twice", vec![listed(KIND, json!({})), read(KIND, json!({}))], &["unpinned "]),
        (
            "what it may do later",
            vec![listed(KIND, json!({})), read(KIND, ui("https://a"))],
            &["unpinned ", NEW],
        ),
        (
            "what it may do before",
            vec![read(KIND, ui("https://a")), listed(KIND, json!({}))],
            &[NEW, "unpinned "],
        ),
        (
            "with blanks and quotes",
            vec![listed("Text/HTML; charset=utf-8; Profile=\"mcp-app\"", json!({}))],
            &["unpinned "],
        ),
        ("a page", vec![listed("text/html", json!({}))], &[]),
        ("another profile", vec![listed("text/html;profile=mcp-apps", json!({}))], &[]),
        ("another text", vec![listed("text/plain;profile=mcp-app", json!({}))], &[]),
        ("nothing", vec![listed("", json!({"other": 1}))], &[]),
    ];
    for (name, answers, expected) in cases {
        let mut bench = bench();
        open(&mut bench, Era::Stateless);
        for (id, (method, answered)) in (1..).zip(answers) {
            talk(
                &mut bench,
                &[('>', stateless(id, method, json!({"uri": "ui://a"}))), ('<', result(id, answered))],
            );
        }
        let events = bench.events();
        let seen = events.iter().filter(|event| event["type"] == "mcp_interface_seen");
        let line = |event: &Value| {
            assert_eq!(event["uri"], "ui://a", "{name}");
            assert_eq!(
                event.get("interface_hash").is_some(),
                event["status"] != "unpinned",
                "{name}: {event}"
            );
            let grants = event.get("ui_grants").map_or(String::new(), |grants| {
                grants.as_array().unwrap().iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
            });
            format!("{} {grants}", event["status"].as_str().unwrap())
        };
        assert_eq!(seen.map(line).collect::<Vec<_>>(), expected, "{name}");
    }
}
