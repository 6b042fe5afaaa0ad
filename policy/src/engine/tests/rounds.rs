//! Requests in several tries: which are one, and what comes back that was not given for it.

use super::judge::bench;
use super::*;
use crate::guards::CallBlock;
use crate::terms::Callee;

/// What it is called, what is sent by whom, and what is reported.
pub(super) type Case<'a> = (&'a str, Vec<(char, String)>, &'a [&'a str]);

/// What every request of a revision with several rounds has.
pub(super) fn meta() -> Value {
    json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} })
}

/// A call, with these arguments and these members besides.
pub(super) fn ask(id: u32, tool: &str, arguments: &str, more: &str) -> String {
    let more = if more.is_empty() { String::new() } else { format!(",{more}") };
    let meta = meta();
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"_meta":{meta},"name":"{tool}","arguments":{arguments}{more}}}}}"#
    )
}

/// An answer that requires input, with this state, if there is one.
pub(super) fn required(id: u32, state: Option<&str>) -> String {
    let state = state.map_or(String::new(), |state| format!(r#","requestState":"{state}""#));
    answer(
        id,
        &format!(
            r#"{{"resultType":"input_required","inputRequests":{{"a":{{"method":"roots/list"}}}}{state}}}"#
        ),
    )
}

pub(super) const RESPONSES: &str = r#""inputResponses":{"a":{"roots":[]}}"#;

pub(super) fn with_state(state: &str) -> String {
    format!(r#""requestState":"{state}",{RESPONSES}"#)
}

pub(super) const DONE: &str = r#"{"resultType":"complete","content":[{"type":"text","text":"done"}]}"#;

/// Calls, results and what was found, of what is said on connection 1: `>` the client's, `<` the server's.
pub(super) fn play(bench: &mut Bench, messages: &[(char, String)]) -> Vec<String> {
    for (side, message) in messages {
        match side {
            '>' => bench.c2s(1, message),
            _ => bench.s2c(1, message),
        }
        bench.wait(10);
    }
    calls(bench)
}

/// Calls, results, denials and what is wrong with states, in short.
pub(super) fn calls(bench: &mut Bench) -> Vec<String> {
    let events = bench.events();
    let line = |event: &Value| match event["type"].as_str()? {
        "mcp_tool_called" => Some(format!("called {} {}", event["tool_name"].as_str()?, event["jsonrpc_id"])),
        "mcp_tool_result" => Some(format!(
            "result {} {} {} ms{}",
            event["jsonrpc_id"],
            event["status"].as_str()?,
            event["latency_ns"].as_u64()? / MS,
            event["rounds"].as_u64().map_or(String::new(), |rounds| format!(", {rounds} rounds"))
        )),
        "mcp_request_blocked" => Some(format!("blocked {}", event["method"].as_str()?)),
        "mcp_detection" => {
            let found = &event["detection"];
            let words = found["matches"][0]["text"].as_str().unwrap_or_default();
            Some(format!("found {} [{words}]", found["pattern"].as_str()?))
        }
        _ => None,
    };
    events.iter().filter_map(line).collect()
}

#[test]
fn retry_is_one_call_with_its_first_try() {
    let first = |arguments: &str| ('>', ask(5, "read_file", arguments, ""));
    let again = |id, arguments: &str, more: &str| ('>', ask(id, "read_file", arguments, more));
    let done = |id| ('<', answer(id, DONE));
    let one = ["called read_file 5", "result 5 ok 30 ms, 1 rounds"];
    let state = &*with_state("s");
    let other_meta =
        ask(6, "read_file", "{}", state).replace("Capabilities\":{}", "Capabilities\":{\"sampling\":{}}");
    let cases: Vec<Case<'_>> = vec![
        (
            "with a state",
            vec![first("{}"), ('<', required(5, Some("s"))), again(6, "{}", state), done(6)],
            &one,
        ),
        (
            "without one",
            vec![first("{}"), ('<', required(5, None)), again(6, "{}", RESPONSES), done(6)],
            &one,
        ),
        (
            "with a state alone",
            vec![
                first("{}"),
                ('<', answer(5, r#"{"resultType":"input_required","requestState":"s"}"#)),
                again(6, "{}", r#""requestState":"s""#),
                done(6),
            ],
            &one,
        ),
        (
            "a state that is spelled otherwise",
            vec![
                first("{}"),
                ('<', required(5, Some("s"))),
                again(6, "{}", r#""requestState":"\u0073""#),
                done(6),
            ],
            &one,
        ),
        (
            "a state that is no text",
            vec![
                first("{}"),
                ('<', answer(5, r#"{"resultType":"input_required","requestState":{"a":1}}"#)),
                again(6, "{}", r#""requestState":{"a":1}"#),
                done(6),
            ],
            &one,
        ),
        (
            "arguments in another order",
            vec![
                first(r#"{"a":1,"b":{"c":[1,2],"d":"x"}}"#),
                ('<', required(5, Some("s"))),
                again(6, r#"{ "b": {"d":"x", "c":[1,2]}, "a": 1.0 }"#, state),
                done(6),
            ],
            &one,
        ),
        (
            "other capabilities",
            vec![first("{}"), ('<', required(5, Some("s"))), ('>', other_meta), done(6)],
            &one,
        ),
        (
            "the same id",
            vec![first("{}"), ('<', required(5, Some("s"))), again(5, "{}", state), done(5)],
            &one,
        ),
        (
            "three rounds, a state each",
            vec![
                first("{}"),
                ('<', required(5, Some("s"))),
                again(6, "{}", state),
                ('<', required(6, Some("t"))),
                again(7, "{}", &with_state("t")),
                ('<', required(7, Some("u"))),
                again(8, "{}", &with_state("u")),
                done(8),
            ],
            &["called read_file 5", "result 5 ok 70 ms, 3 rounds"],
        ),
        (
            "two rounds, one state",
            vec![
                first("{}"),
                ('<', required(5, Some("s"))),
                again(6, "{}", state),
                ('<', required(6, Some("s"))),
                again(7, "{}", state),
                done(7),
            ],
            &["called read_file 5", "result 5 ok 50 ms, 2 rounds"],
        ),
        (
            "an error at the end",
            vec![
                first("{}"),
                ('<', required(5, Some("s"))),
                again(6, "{}", state),
                ('<', r#"{"jsonrpc":"2.0","id":6,"error":{"code":-32602,"message":"no"}}"#.into()),
            ],
            &["called read_file 5", "result 5 error 30 ms, 1 rounds"],
        ),
        (
            "two calls that wait at once",
            vec![
                first("{}"),
                again(6, r#"{"b":1}"#, ""),
                ('<', required(6, Some("t"))),
                ('<', required(5, Some("s"))),
                again(7, "{}", state),
                again(8, r#"{"b":1}"#, &with_state("t")),
                done(8),
                done(7),
            ],
            &[
                "called read_file 5",
                "called read_file 6",
                "result 6 ok 50 ms, 1 rounds",
                "result 5 ok 70 ms, 1 rounds",
            ],
        ),
        (
            "an answer that never ends it",
            vec![first("{}"), ('<', required(5, Some("s")))],
            &["called read_file 5"],
        ),
    ];
    for (name, messages, expected) in cases {
        let mut bench = bench("");
        assert_eq!(play(&mut bench, &messages), expected, "{name}");
        let calls = expected.iter().filter(|line| line.starts_with("called")).count() as u64;
        let asked = messages.iter().filter(|(side, _)| *side == '>').count() as u64;
        let counters = bench.engine.counters();
        assert_eq!((counters.calls, counters.retries), (calls, asked - calls), "{name}");
    }
}

/// What counts calls counts all tries as one.
#[test]
fn retries_count_as_one_call_for_limits() {
    let rate =
        "{ cross_server: { enabled: false }, policy: { rate_limits: { enabled: true, default_rpm: 2 } } }";
    let burst = "cross_server: { burst: { max_calls: 2, window: 60s }, read_then_send: { enabled: false }, \
                 cross_server_flow: { enabled: false } }";
    for yaml in [rate, burst] {
        let mut bench = bench(yaml);
        bench.c2s(2, &call(3, "send_mail"));
        bench.s2c(2, &answer(3, "{}"));
        bench.out.clear();
        let mut actions = Vec::new();
        for n in 0..3 {
            let arguments = format!("[{n}]");
            bench.c2s(1, &ask(10, "read_file", &arguments, ""));
            for round in 0..5 {
                let state = format!("{n}-{round}");
                bench.s2c(1, &required(10, Some(&state)));
                bench.c2s(1, &ask(10, "read_file", &arguments, &with_state(&state)));
            }
            bench.s2c(1, &answer(10, DONE));
            actions.extend(bench.events().into_iter().filter(|event| event["type"] == "mcp_tool_called"));
        }
        let actions: Vec<&str> = actions.iter().map(|event| event["action"].as_str().unwrap()).collect();
        assert_eq!(actions, ["allow", "allow", "block"], "{yaml}");
    }
}

/// However often it is tried again, at some point it is another call.
#[test]
fn tries_beyond_the_bound_are_calls_of_their_own() {
    let mut bench = bench("cross_server: { enabled: false }");
    bench.c2s(1, &ask(5, "read_file", "{}", ""));
    for round in 0..100 {
        let state = format!("s{round}");
        bench.s2c(1, &required(5, Some(&state)));
        bench.c2s(1, &ask(5, "read_file", "{}", &with_state(&state)));
    }
    let counters = bench.engine.counters();
    assert_eq!((counters.calls, counters.retries), (4, 97));
}

/// A turn goes on while its call waits for input.
#[test]
fn turn_stays_open_while_input_is_required() {
    let mut bench = bench("cross_server: { turn_gap: 1s, read_then_send: { enabled: false } }");
    bench.c2s(1, &ask(4, "read_file", "{}", ""));
    bench.s2c(1, &answer(4, DONE));
    bench.c2s(1, &ask(5, "read_file", "{}", ""));
    bench.s2c(1, &required(5, Some("s")));
    bench.wait(10_000);
    bench.c2s(2, &call(6, "send_mail"));
    let events = bench.events();
    let blocked = events.iter().find(|event| event["type"] == "mcp_cross_server_blocked").unwrap();
    assert_eq!(blocked["rule"], "cross_server_flow", "{blocked}");
}

/// What is denied by the time of another try is reported as a call of its own.
#[test]
fn retry_that_is_denied_is_reported() {
    let play_blocked = |yaml: &str, between: &dyn Fn(&mut Bench)| {
        let mut bench = bench(yaml);
        bench.c2s(1, &ask(5, "read_file", "{}", ""));
        bench.s2c(1, &required(5, Some("s")));
        between(&mut bench);
        bench.out.retain(
            |output| matches!(output, Output::Event(event) if matches!(event.body, EventBody::ToolCalled(_))),
        );
        bench.c2s(1, &ask(6, "read_file", "{}", &with_state("s")));
        bench.s2c(1, &answer(6, DONE));
        calls(&mut bench)
    };
    let block = |bench: &mut Bench| {
        let callee = Callee::Server(ServerId("files".into()));
        let blocks = vec![CallBlock { callee, until: None, reason: None }];
        bench.input(Input::Operator(OperatorCommand::BlockCalls(blocks)));
    };
    let own = ["called read_file 5", "called read_file 6", "result 6 ok 0 ms"];
    assert_eq!(play_blocked("", &block), own);
    let change = |bench: &mut Bench| {
        bench.c2s(1, r#"{"id":3,"method":"tools/list"}"#);
        bench.s2c(1, &answer(3, r#"{"tools":[{"name":"read_file","description":"other"}]}"#));
    };
    assert_eq!(play_blocked("policy: { version_pinning: { on_change: block } }", &change), own);
    // Denied before as well: that was reported.
    let denied = "policy: { denied_tools: [{ tool: read_file }] }";
    assert_eq!(play_blocked(denied, &|_| {}), ["called read_file 5", "result 5 ok 0 ms, 1 rounds"]);
}

/// The gate counts each try, and what it stops is reported.
#[test]
fn stopped_retry_is_reported() {
    let mut bench = bench("");
    bench.c2s(1, &ask(5, "read_file", "{}", ""));
    bench.s2c(1, &required(5, Some("s")));
    let retry = ask(6, "read_file", "{}", &with_state("s"));
    let (connection, time) = (ConnectionId(1), Timestamp(bench.now));
    bench.input(Input::Stopped { connection, time, bytes: retry.as_bytes(), is_refused: true });
    let events = bench.events();
    let called: Vec<&Value> = events.iter().filter(|event| event["type"] == "mcp_tool_called").collect();
    assert_eq!(called.len(), 2, "{called:?}");
    assert_eq!((&called[1]["jsonrpc_id"], &called[1]["enforced"]), (&json!(6), &json!(true)));
}

/// Requests that are no calls: what was denied once is not reported again.
#[test]
fn retried_prompts_and_resources_are_reported_once() {
    for (method, params) in [("prompts/get", r#""name":"p""#), ("resources/read", r#""uri":"x://a""#)] {
        let mut bench = bench("policy: { denied_servers: [{ id: files }] }");
        let meta = meta();
        let ask = |id: u32, more: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"_meta":{meta},{params}{more}}}}}"#
            )
        };
        bench.c2s(1, &ask(5, ""));
        let state = r#"{"resultType":"input_required","requestState":"s"}"#;
        bench.s2c(1, &answer(5, state));
        bench.c2s(1, &ask(6, r#","requestState":"s""#));
        assert_eq!(calls(&mut bench), [format!("blocked {method}")], "{method}");
        bench.c2s(1, &ask(7, r#","requestState":"s""#));
        let again = ["found misused-state [used before]".to_owned(), format!("blocked {method}")];
        assert_eq!(calls(&mut bench), again, "{method}");
    }
}

/// With all messages as events, none is missing: those without an event of their own are messages.
#[test]
fn verbose_events_have_every_try() {
    let mut bench = bench("");
    bench.engine.config.verbose = true;
    bench.c2s(1, &ask(5, "read_file", "{}", ""));
    bench.s2c(1, &required(5, Some("s")));
    bench.c2s(1, &ask(6, "read_file", "{}", &with_state("s")));
    bench.s2c(1, &answer(6, DONE));
    let said: Vec<String> = bench
        .said()
        .iter()
        .map(|line| line.split(' ').skip(2).take(4).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        said,
        [
            "violation RequestMeta",
            "called read_file 5",
            "violation Member",
            "message Response tools/call 5",
            "violation Member",
            "message Request tools/call 6",
            "result read_file 5 Ok"
        ]
    );
}

#[test]
fn given_states_are_bounded_for_each_user() {
    let mut bench = bench("cross_server: { enabled: false }");
    bench.engine.config.limits.handed_out_per_user = 8;
    for n in 0..20 {
        bench.c2s(1, &ask(5, "read_file", &format!("[{n}]"), ""));
        bench.s2c(1, &required(5, Some(&format!("s{n}"))));
    }
    assert_eq!(bench.engine.evaluator.rounds().len(), 8);
    assert_eq!(bench.engine.counters().rounds_evicted, 12);
}

/// Through a relay, all tries are one call of the server behind it, and its states are none of another server's.
#[test]
fn retries_through_a_relay_are_one_call() {
    let answers: [&[(u64, &str)]; 2] = [&[(2, "s"), (1, "s")], &[(2, "s"), (1, "of the relay")]];
    for answers in answers {
        let mut bench = bench("");
        bench.exec(11, 15, "relay", 9);
        bench.exec_as(12, 16, "inner", 15, &[9], false);
        for connection in [11, 12] {
            bench.c2s(connection, HELLO);
        }
        for connection in [12, 11] {
            bench.s2c(connection, &answer(0, r#"{"protocolVersion":"2025-11-25"}"#));
        }
        bench.wait(251);
        bench.out.clear();
        for connection in [11, 12] {
            bench.c2s(connection, &ask(5, "read_file", "{}", ""));
        }
        for (connection, state) in answers {
            bench.s2c(connection + 10, &required(5, Some(state)));
        }
        bench.wait(251);
        // The relay hands its client's state on, or has one of its own.
        for (connection, state) in answers.iter().rev() {
            bench.c2s(connection + 10, &ask(6, "read_file", "{}", &with_state(state)));
        }
        bench.wait(251);
        bench.s2c(12, &answer(6, DONE));
        bench.s2c(11, &answer(6, DONE));
        let said = calls(&mut bench);
        let called = said.iter().filter(|line| line.starts_with("called")).count();
        let misused = said.iter().filter(|line| line.starts_with("found")).count();
        assert_eq!((called, misused), (1, 0), "{answers:?}: {said:?}");
    }
}
