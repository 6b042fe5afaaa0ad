//! What in a conversation of one era belongs to the other one.

use super::eras::{
    REVISION, ask, bench, discover, discovered, discovered_with, meta_of, open, plain, refused, result,
    stateless, talk, violations,
};
use super::*;
use crate::event::Era;

/// What goes by in a conversation of this era, and what in it belongs to the other.
#[test]
fn forms_of_the_other_era_are_reported() {
    let call = |id| stateless(id, "tools/call", json!({"name": "a"}));
    let old_call = |id| ask(id, "tools/call", json!({"name": "a"}), Value::Null);
    let old_with = |id, more: Value| {
        let mut params = json!({"name": "a"});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask(id, "tools/call", params, Value::Null)
    };
    let note = |method: &str| json!({"jsonrpc": "2.0", "method": method}).to_string();
    let sampling = |id| {
        json!({"jsonrpc": "2.0", "id": id, "method": "sampling/createMessage", "params": {}}).to_string()
    };
    let without_capabilities = json!({"io.modelcontextprotocol/protocolVersion": REVISION});
    let late = |id| ask(id, "tools/list", json!({}), meta_of("2025-11-25", "c"));
    type Case<'a> = (Era, &'a str, Vec<(char, String)>, &'a [&'a str]);
    let cases: Vec<Case<'_>> = vec![
        (Era::Stateless, "a call", vec![('>', call(1)), ('<', result(1, json!({})))], &[]),
        (Era::Stateless, "a request of the server", vec![('<', sampling(7))], &["stateless server_request"]),
        (
            Era::Stateless,
            "each method once",
            vec![
                ('<', sampling(7)),
                ('<', sampling(8)),
                ('<', plain(9, "roots/list")),
                ('<', plain(9, "x/unknown")),
            ],
            &["stateless server_request"; 3],
        ),
        (
            Era::Stateless,
            "a ping of the server",
            vec![('<', plain(7, "ping"))],
            &["stateless server_request"],
        ),
        (
            Era::Stateless,
            "an answer of the client",
            vec![('>', answer(7, "{}"))],
            &["stateless client_response"],
        ),
        (
            Era::Stateless,
            "an error of the client",
            vec![('>', refused(7, -1))],
            &["stateless client_response"],
        ),
        (Era::Stateless, "a batch", vec![('>', format!("[{}]", call(1)))], &["stateless batch"]),
        (
            Era::Stateless,
            "a batch of answers",
            vec![('>', call(1)), ('<', format!("[{}]", result(1, json!({}))))],
            &["stateless batch"],
        ),
        (Era::Stateless, "a handshake", vec![('>', HELLO.to_owned())], &["stateless opening"]),
        (
            Era::Stateless,
            "the end of one",
            vec![('>', note("notifications/initialized"))],
            &["stateless method"],
        ),
        (Era::Stateless, "a ping", vec![('>', stateless(1, "ping", json!({})))], &["stateless method"]),
        (
            Era::Stateless,
            "a level",
            vec![('>', stateless(1, "logging/setLevel", json!({"level": "info"})))],
            &["stateless method"],
        ),
        (
            Era::Stateless,
            "a subscription",
            vec![('>', stateless(1, "resources/subscribe", json!({"uri": "a:b"})))],
            &["stateless method"],
        ),
        (
            Era::Stateless,
            "other roots",
            vec![('>', note("notifications/roots/list_changed"))],
            &["stateless method"],
        ),
        (
            Era::Stateless,
            "an elicitation that ended",
            vec![('<', note("notifications/elicitation/complete"))],
            &["stateless method"],
        ),
        (Era::Stateless, "no revision", vec![('>', old_call(1))], &["stateless request_meta"]),
        (
            Era::Stateless,
            "no capabilities",
            vec![('>', ask(1, "tools/list", json!({}), without_capabilities))],
            &["stateless request_meta 2026-07-28"],
        ),
        (Era::Stateless, "an older revision", vec![('>', late(1))], &["stateless request_meta 2025-11-25"]),
        (Era::Stateless, "a method of nobody", vec![('>', stateless(1, "x/unknown", json!({})))], &[]),
        (Era::Stateless, "a notification", vec![('<', note("notifications/tools/list_changed"))], &[]),
        (
            Era::Stateless,
            "a type of nobody",
            vec![('>', call(1)), ('<', result(1, json!({"resultType": "x"})))],
            &[],
        ),
        (Era::Stateless, "another discovery", vec![('>', discover(1)), ('<', discovered(1))], &[]),
        (Era::Handshake, "a call", vec![('>', old_call(1)), ('<', answer(1, r#"{"content":[]}"#))], &[]),
        (Era::Handshake, "a request of the server", vec![('<', sampling(7)), ('>', answer(7, "{}"))], &[]),
        (Era::Handshake, "a batch", vec![('>', format!("[{}]", old_call(1)))], &[]),
        (Era::Handshake, "a ping", vec![('>', plain(1, "ping")), ('<', answer(1, "{}"))], &[]),
        (Era::Handshake, "a discovery", vec![('>', discover(1))], &["handshake opening"]),
        (Era::Handshake, "a revision", vec![('>', call(1))], &["handshake request_meta 2026-07-28"]),
        (Era::Handshake, "its own revision", vec![('>', late(1))], &[]),
        (
            Era::Handshake,
            "an open request",
            vec![('>', plain(1, "subscriptions/listen"))],
            &["handshake method"],
        ),
        (
            Era::Handshake,
            "a result that asks",
            vec![('>', old_call(1)), ('<', answer(1, r#"{"resultType":"input_required"}"#))],
            &["handshake member resultType"],
        ),
        (
            Era::Handshake,
            "questions alone",
            vec![('>', old_call(1)), ('<', answer(1, r#"{"content":[],"inputRequests":{}}"#))],
            &["handshake member inputRequests"],
        ),
        (
            Era::Handshake,
            "a state",
            vec![('>', old_call(1)), ('<', answer(1, r#"{"content":[],"requestState":"x"}"#))],
            &["handshake member requestState"],
        ),
        (
            Era::Handshake,
            "a result with its type",
            vec![('>', old_call(1)), ('<', answer(1, r#"{"resultType":"complete","content":[]}"#))],
            &[],
        ),
        (
            Era::Handshake,
            "answers in a request",
            vec![('>', old_with(1, json!({"inputResponses": {}})))],
            &["handshake member inputResponses"],
        ),
        (
            Era::Handshake,
            "a state in a request",
            vec![('>', old_with(1, json!({"requestState": "x"})))],
            &["handshake member requestState"],
        ),
    ];
    for (era, name, lines, expected) in cases {
        let mut bench = bench();
        open(&mut bench, era);
        talk(&mut bench, &lines);
        assert_eq!(violations(&mut bench), expected, "{era:?}: {name}");
        // Once.
        talk(&mut bench, &lines);
        assert_eq!(violations(&mut bench), [""; 0], "{era:?}: {name} again");
        assert_eq!(bench.engine.counters().protocol_violations > 0, !expected.is_empty(), "{era:?}: {name}");
    }
}

/// What goes by before an era is known, and what is said of it.
#[test]
fn refused_probe_decides_no_era() {
    let sampling = plain(7, "sampling/createMessage");
    let list = stateless(2, "tools/list", json!({}));
    let hello = [('>', HELLO.to_owned()), ('<', answer(0, r#"{"protocolVersion":"2025-11-25"}"#))];
    for (name, lines, expected) in [
        (
            "refused, then a handshake",
            [
                vec![('>', discover(1)), ('<', refused(1, -32601))],
                hello.to_vec(),
                vec![('<', sampling.clone())],
            ]
            .concat(),
            vec![],
        ),
        (
            "unanswered, then a handshake",
            [vec![('>', discover(1))], hello.to_vec(), vec![('<', sampling.clone())]].concat(),
            vec![],
        ),
        (
            "a request of the server before its answer",
            vec![('>', discover(1)), ('<', sampling.clone())],
            vec!["stateless server_request"],
        ),
        (
            "a request of the server before any discovery",
            vec![('>', list.clone()), ('<', sampling.clone())],
            vec!["stateless server_request"],
        ),
        (
            "an older server that answers",
            vec![('>', list.clone()), ('<', answer(2, r#"{"tools":[]}"#)), ('>', plain(3, "ping"))],
            vec![],
        ),
        (
            "a newer server that answers",
            vec![('>', list), ('<', result(2, json!({"tools": []}))), ('>', plain(3, "tools/list"))],
            vec!["stateless request_meta"],
        ),
        (
            "an older server with revisions of its own",
            vec![('>', discover(1)), ('<', discovered_with(1, json!({"supportedVersions": ["2025-11-25"]})))],
            vec!["stateless revision 2025-11-25"],
        ),
        (
            "a handshake for a revision without one",
            vec![('>', HELLO.to_owned()), ('<', answer(0, r#"{"protocolVersion":"2026-07-28"}"#))],
            vec!["handshake revision 2026-07-28"],
        ),
        (
            "from one era into the other, and on in that",
            [vec![('>', discover(1)), ('<', discovered(1))], hello.to_vec(), vec![('<', sampling)]].concat(),
            vec!["stateless opening"],
        ),
    ] {
        let mut bench = bench();
        talk(&mut bench, &lines);
        assert_eq!(violations(&mut bench), expected, "{name}");
    }
}
