//! Requests and answers.

use super::*;

/// A name, what goes over the connection, and what is said.
type Case = (&'static str, &'static [(Direction, &'static str)], &'static [&'static str]);

#[test]
fn responses_are_paired_with_requests() {
    use Direction::{ClientToServer as C, ServerToClient as S};
    let cases: &[Case] = &[
        ("a call", &[(C, "call 1"), (S, r#"{"id":1,"result":{"x":1}}"#)], {
            &["1 s called t 1", r#"1 s result t 1 Ok {"x":1}"#]
        }),
        ("a call that failed", &[(C, "call 1"), (S, r#"{"id":1,"result":{"isError":true}}"#)], {
            &["1 s called t 1", r#"1 s result t 1 Error {"isError":true}"#]
        }),
        ("an error", &[(C, "call 1"), (S, r#"{"id":1,"error":{"code":-1,"message":"no"}}"#)], {
            &["1 s called t 1", "1 s result t 1 Error null"]
        }),
        ("an answer a moment before", &[(S, r#"{"id":1,"result":{}}"#), (C, "call 1")], {
            &["1 s called t 1", "1 s result t 1 Ok {}"]
        }),
        ("ids that are equal numbers", &[(C, "call 1"), (S, r#"{"id":1.0,"result":{}}"#)], {
            &["1 s called t 1", "1 s result t 1 Ok {}"]
        }),
        ("an id that became a string", &[(C, "call 1"), (S, r#"{"id":"1","result":{}}"#)], {
            &["1 s called t 1", "1 s result t 1 Ok {}"]
        }),
        (
            "out of order",
            &[(C, "call 1"), (C, "call 2"), (S, r#"{"id":2,"result":{}}"#), (S, r#"{"id":1,"result":{}}"#)],
            &["1 s called t 1", "1 s called t 2", "1 s result t 2 Ok {}", "1 s result t 1 Ok {}"],
        ),
        (
            "both sides use the same id",
            &[
                (C, "call 1"),
                (S, r#"{"id":1,"method":"sampling/createMessage"}"#),
                (C, r#"{"id":1,"result":{"text":"x"}}"#),
                (S, r#"{"id":1,"result":{}}"#),
            ],
            &[
                "1 s called t 1",
                "1 s message Request sampling/createMessage 1",
                "1 s message Response sampling/createMessage 1",
                "1 s result t 1 Ok {}",
            ],
        ),
        (
            "a batch",
            &[(C, r#"[{"id":1,"method":"ping"},{"method":"notifications/cancelled"},7]"#)],
            &[
                "1 s message Request ping 1",
                "1 s message Notification notifications/cancelled",
                "1 s message Invalid -",
            ],
        ),
        ("no JSON", &[(C, "{x"), (S, "[]")], &["1 s message Invalid -", "1 s message Invalid -"]),
        (
            "an unknown method",
            &[(C, r#"{"id":5,"method":"x/y"}"#), (S, r#"{"id":5,"error":{"code":1,"message":""}}"#)],
            { &["1 s message Request x/y 5", "1 s message Error x/y 5"] },
        ),
        (
            "an error without an id, which waits for nothing",
            &[(S, r#"{"id":null,"error":{"code":-32700,"message":"?"}}"#), (C, r#"{"id":5,"method":"x/y"}"#)],
            &["1 s message Error - null", "1 s message Request x/y 5"],
        ),
        ("a reused id", &[(C, "call 1"), (C, "call 1"), (S, r#"{"id":1,"result":{}}"#)], {
            &["1 s called t 1", "1 s called t 1", "1 s result t 1 Ok {}"]
        }),
    ];
    for (name, frames, expected) in cases {
        let mut bench = Bench::with(|config| config.verbose = true);
        bench.server(1, 5, "s", 9);
        for (direction, text) in *frames {
            let call = call(text.strip_prefix("call ").and_then(|id| id.parse().ok()).unwrap_or(0), "t");
            bench.frame(1, *direction, if text.starts_with("call ") { &call } else { text });
        }
        assert_eq!(bench.said(), *expected, "{name}");
    }
}

#[test]
fn equal_request_ids_on_two_servers_stay_separate() {
    let mut bench = Bench::new();
    bench.server(1, 5, "a", 9);
    bench.server(2, 6, "b", 9);
    bench.c2s(1, &call(1, "x"));
    bench.c2s(2, &call(1, "y"));
    bench.s2c(2, &answer(1, "2"));
    bench.s2c(1, &answer(1, "1"));
    assert_eq!(
        bench.said(),
        ["1 a called x 1", "2 b called y 1", "2 b result y 1 Ok 2", "1 a result x 1 Ok 1"]
    );
}

#[test]
fn response_is_paired_after_hours() {
    let mut bench = Bench::new();
    bench.server(1, 5, "s", 9);
    bench.c2s(1, &call(1, "t"));
    bench.wait(4 * 3_600_000);
    bench.s2c(1, &answer(1, "{}"));
    let events = bench.events();
    // It was said meanwhile that none had come.
    assert_eq!(events[1]["type"], "mcp_request_timed_out");
    assert_eq!(events[2]["type"], "mcp_tool_result");
    assert_eq!(events[2]["latency_ns"].as_u64().unwrap() / MS, 4 * 3_600_000);
    assert_eq!(events[2]["tool_id"], "mcp:s:t");
}

#[test]
fn unmatched_response_is_given_up_after_timeout() {
    let mut bench = Bench::with(|config| config.verbose = true);
    bench.server(1, 5, "s", 9);
    bench.s2c(1, &answer(77, "{}"));
    assert!(bench.said().is_empty());
    assert!(bench.engine.next_deadline().is_some());
    bench.wait(30_001);
    assert_eq!(bench.said(), ["1 s message Response - 77"]);
    assert_eq!(bench.engine.counters().unmatched_responses, 1);
    assert_eq!(bench.engine.connections.memory().bytes(), bench.booked());
}

/// An agent that goes on with another's programs hears answers to what that one heard: it can end before it gives them up.
#[test]
fn engine_end_flushes_pending_responses() {
    let mut bench = Bench::with(|config| config.verbose = true);
    bench.server(1, 5, "s", 9);
    bench.s2c(1, &answer(77, "{}"));
    assert!(bench.said().is_empty());
    bench.engine.end(Timestamp(bench.now), &mut bench.out);
    assert_eq!(bench.said(), ["1 s message Response - 77"]);
    assert_eq!(bench.engine.next_deadline(), None);
}

#[test]
fn each_tool_is_reported_seen_once() {
    let mut bench = Bench::new();
    bench.server(1, 5, "s", 9);
    let list =
        |id: u32| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{{"cursor":"x"}}}}"#);
    let pages = [
        (
            r#"{"tools":[{"name":"a","description":"d"},{"name":"b"},5],"nextCursor":"x"}"#,
            vec!["1 s tool a", "1 s tool b"],
        ),
        (r#"{"tools":[{"name":"c"},{"name":"b","_meta":{"progressToken":1}}]}"#, vec!["1 s tool c"]),
        (
            r#"{"tools":[{"description":"d","name":"a"},{"name":"b","title":"t"}]}"#,
            vec!["1 s tool b", "1 s changed b"],
        ),
        (r#"{"tools":null}"#, vec![]),
    ];
    for (id, (page, expected)) in (1..).zip(pages) {
        bench.c2s(1, &list(id));
        bench.s2c(1, &answer(id, page));
        assert_eq!(bench.said(), expected, "{page}");
    }
    assert_eq!(bench.engine.counters().invalid_tools, 1);
}

#[test]
fn payloads_are_redacted_unless_full() {
    let secret = "hunter2hunter2";
    let frames = [
        format!(
            r#"{{"id":1,"method":"tools/call","params":{{"name":"t","arguments":{{"k":"{secret}"}},"_meta":{{"m":"{secret}"}}}}}}"#
        ),
        format!(r#"{{"id":2,"method":"prompts/get","params":{{"name":"{secret}"}}}}"#),
    ];
    let answers = [
        format!(r#"{{"id":1,"result":{{"content":"{secret}"}}}}"#),
        format!(r#"{{"id":2,"error":{{"code":1,"message":"{secret}"}}}}"#),
    ];
    for (payloads, shown) in [(Payloads::Redacted, 0), (Payloads::Full, 5)] {
        let mut bench = Bench::with(|config| (config.payloads, config.verbose) = (payloads, true));
        bench.server(1, 5, "s", 9);
        for (frame, answer) in frames.iter().zip(&answers) {
            bench.c2s(1, frame);
            bench.s2c(1, answer);
        }
        let text: String = bench.events().iter().map(Value::to_string).collect();
        assert_eq!(text.matches(secret).count(), shown, "{text}");
    }
}

/// One write of many requests returns when the last of them went into the pipe; by then the first are answered.
#[test]
fn responses_before_their_request_burst_are_paired() {
    let mut bench = Bench::new();
    bench.server(1, 5, "s", 9);
    for id in 1..=1_000 {
        bench.s2c(1, &answer(id, "{}"));
    }
    bench.wait(10_000);
    for id in 1..=1_000 {
        bench.c2s(1, &call(id, "t"));
    }
    let said = bench.said();
    let results = said.iter().filter(|line| line.starts_with("1 s result t")).count();
    assert_eq!((said.len(), results), (2_000, 1_000));
    assert_eq!(bench.engine.connections.memory().bytes(), bench.booked());
}
