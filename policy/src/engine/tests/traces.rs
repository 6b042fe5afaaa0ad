//! Traces of calls, and the names of their errors.

use super::eras::{ask, bench, open, refused, stateless, talk};
use super::*;
use crate::event::Era;
use crate::http::HttpMeta;

/// A call's `_meta`, the head of its HTTP request, and the trace of the call and its result.
#[test]
fn trace_of_a_call_is_in_its_events() {
    const OWN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const OTHER: &str = "00-11111111111111111111111111111111-2222222222222222-00";
    let head = |parent: Option<&str>, state: Option<&str>| HttpMeta {
        traceparent: parent.map(Into::into),
        tracestate: state.map(Into::into),
        ..HttpMeta::default()
    };
    let long = "x".repeat(2_000);
    for (name, meta, head, expected) in [
        ("none", json!({}), head(None, None), [None, None]),
        (
            "its own",
            json!({"traceparent": OWN, "tracestate": "a=b"}),
            head(None, None),
            [Some(OWN), Some("a=b")],
        ),
        ("without a state", json!({"traceparent": OWN}), head(None, None), [Some(OWN), None]),
        ("of the head", json!({}), head(Some(OTHER), Some("c=d")), [Some(OTHER), Some("c=d")]),
        (
            "its own before that of the head",
            json!({"traceparent": OWN}),
            head(Some(OTHER), Some("c=d")),
            [Some(OWN), None],
        ),
        ("a state alone", json!({"tracestate": "a=b"}), head(None, None), [None, None]),
        ("no text", json!({"traceparent": 7}), head(Some(OTHER), None), [Some(OTHER), None]),
        ("in another case", json!({"Traceparent": OWN}), head(None, None), [None, None]),
        ("no object", json!("x"), head(None, None), [None, None]),
        ("of any form", json!({"traceparent": "x\u{1b}[8m"}), head(None, None), [Some("x\u{1b}[8m"), None]),
    ] {
        let mut bench = bench();
        open(&mut bench, Era::Handshake);
        let call = ask(1, "tools/call", json!({"name": "a"}), meta);
        let (connection, time) = (ConnectionId(1), Timestamp(bench.now));
        let (direction, bytes, http) = (Direction::ClientToServer, call.as_bytes(), Some(&head));
        bench.input(Input::Frame { connection, direction, time, bytes, http, turn: None });
        bench.s2c(1, &answer(1, r#"{"content":[]}"#));
        let events = bench.events();
        for kind in ["mcp_tool_called", "mcp_tool_result"] {
            let event = events.iter().find(|event| event["type"] == kind).unwrap();
            let found = ["traceparent", "tracestate"].map(|field| event.get(field).and_then(Value::as_str));
            assert_eq!(found, expected, "{name}: {kind}");
        }
    }
    let mut bench = bench();
    open(&mut bench, Era::Handshake);
    bench.c2s(1, &ask(1, "tools/call", json!({"name": "a"}), json!({"traceparent": long})));
    let events = bench.events();
    let called = events.iter().find(|event| event["type"] == "mcp_tool_called").unwrap();
    assert!(called["traceparent"].as_str().unwrap().len() < 600);
}

/// The code of an error, and its name in the result of a call.
#[test]
fn errors_of_calls_have_names() {
    for (code, expected) in [
        (-32020, json!("header_mismatch")),
        (-32021, json!("missing_required_client_capability")),
        (-32022, json!("unsupported_protocol_version")),
        (-32602, json!("invalid_params")),
        (-1, Value::Null),
    ] {
        let mut bench = bench();
        open(&mut bench, Era::Stateless);
        talk(&mut bench, &[('>', stateless(1, "tools/call", json!({"name": "a"}))), ('<', refused(1, code))]);
        let events = bench.events();
        let result = events.iter().find(|event| event["type"] == "mcp_tool_result").unwrap();
        assert_eq!((&result["error_code"], &result["error_name"]), (&json!(code), &expected));
    }
}
