//! Changes of who speaks within one conversation.

use super::eras::{ask, bench, discover, discovered_with, meta_of, open, refused, result, stateless, talk};
use super::*;
use crate::event::{Era, Severity};

/// The revision of these tests.
const REVISION: &str = "2026-07-28";

/// Who speaks first and next, and what is said of that.
#[test]
fn change_of_who_speaks_is_reported() {
    let call = |id, revision: &str, client: &str| {
        ask(id, "tools/call", json!({"name": "a"}), meta_of(revision, client))
    };
    let server = |id, info: Value| result(id, json!({"_meta": {"io.modelcontextprotocol/serverInfo": info}}));
    let named = |name: &str| json!({"name": name, "version": "2"});
    let pair = |id, asked: String, answered: Value| vec![('>', asked), ('<', server(id, answered))];
    for (name, next, expected) in [
        ("the same", pair(1, call(1, REVISION, "c"), named("s")), &[][..]),
        ("another server", pair(1, call(1, REVISION, "c"), named("t")), &["server_changed"]),
        (
            "another version of it",
            pair(1, call(1, REVISION, "c"), json!({"name": "s", "version": "3"})),
            &["server_changed"],
        ),
        (
            "with a description",
            pair(1, call(1, REVISION, "c"), json!({"name": "s", "version": "2", "description": "d"})),
            &["server_changed"],
        ),
        (
            "members in another order",
            pair(1, call(1, REVISION, "c"), json!({"version": "2", "name": "s"})),
            &[],
        ),
        ("none", vec![('>', call(1, REVISION, "c")), ('<', answer(1, r#"{"resultType":"complete"}"#))], &[]),
        ("another client", pair(1, call(1, REVISION, "d"), named("s")), &["client_changed"]),
        (
            "another revision",
            [pair(1, call(1, REVISION, "c"), named("s")), pair(2, call(2, "2027-01-01", "c"), named("s"))]
                .concat(),
            &["revision_changed"],
        ),
        (
            "a discovery in another revision",
            [
                pair(1, call(1, REVISION, "c"), named("s")),
                vec![
                    ('>', ask(2, "server/discover", json!({}), meta_of("2027-01-01", "c"))),
                    ('<', refused(2, -32022)),
                ],
            ]
            .concat(),
            &[],
        ),
        (
            "to and fro",
            [
                pair(1, call(1, REVISION, "c"), named("t")),
                pair(2, call(2, REVISION, "c"), named("s")),
                pair(3, call(3, REVISION, "c"), named("t")),
            ]
            .concat(),
            &["server_changed", "server_changed"],
        ),
        (
            "in an answer to discovery",
            vec![
                ('>', discover(1)),
                (
                    '<',
                    discovered_with(1, json!({"_meta": {"io.modelcontextprotocol/serverInfo": named("t")}})),
                ),
            ],
            &["server_changed"],
        ),
    ] {
        let mut bench = bench();
        open(&mut bench, Era::Stateless);
        talk(&mut bench, &next);
        let events = bench.events();
        let found = events.iter().filter(|event| event["type"] == "mcp_protocol_violation");
        let found: Vec<&str> = found.map(|event| event["violation"].as_str().unwrap()).collect();
        assert_eq!(found, expected, "{name}: {events:?}");
    }
}

#[test]
fn change_of_who_speaks_says_who() {
    let mut bench = bench();
    open(&mut bench, Era::Stateless);
    let info = json!({"name": "x".repeat(5_000), "version": "2"});
    talk(
        &mut bench,
        &[
            ('>', stateless(1, "tools/call", json!({"name": "a"}))),
            ('<', result(1, json!({"_meta": {"io.modelcontextprotocol/serverInfo": info}}))),
        ],
    );
    let events = bench.events();
    let found = events.iter().find(|event| event["type"] == "mcp_protocol_violation").unwrap();
    assert_eq!(found["expected"], r#"{"name":"s","version":"2"}"#);
    let text = found["found"].as_str().unwrap();
    assert!(text.starts_with(r#"{"name":"xxx"#) && text.len() < 1_100, "{text}");
    assert_eq!(found["severity"], serde_json::to_value(Severity::Medium).unwrap());
    assert_eq!((&found["method"], &found["jsonrpc_id"]), (&json!("tools/call"), &json!(1)));
    assert_eq!(found["direction"], "s2c");
}
