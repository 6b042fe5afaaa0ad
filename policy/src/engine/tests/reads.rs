//! When a read has its data, over whole sessions: files is connection 1, mail is connection 2.

use super::judge::bench;
use super::rounds::{DONE, ask, required, with_state};
use super::*;

/// What goes by on connection 1.
enum Step {
    Client(String),
    Server(String),
    /// Seconds.
    Wait(u64),
    /// Bytes of the server are not captured.
    Gap,
}
use Step::{Client as C, Gap, Server as S, Wait as W};

const DATA: &str = r#"{"content":[{"type":"text","text":"x"}],"contents":[],"messages":[]}"#;

fn asks(id: u32, method: &str, params: &str) -> Step {
    C(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#))
}

fn says(id: u32, result: &str) -> Step {
    S(answer(id, result))
}

fn failed(id: u32) -> Step {
    S(super::eras::refused(id, -32602))
}

#[test]
fn read_counts_when_its_data_comes() {
    let read = || C(call(5, "read_file"));
    let task = r#"{"name":"read_file","arguments":{},"task":{"ttl":1}}"#;
    let made = r#"{"task":{"taskId":"t","status":"working","ttl":1}}"#;
    let new_task = r#"{"resultType":"task","taskId":"t","status":"working","ttlMs":1000}"#;
    let new_get = |id| {
        let meta = super::rounds::meta();
        asks(id, "tasks/get", &format!(r#"{{"_meta":{meta},"taskId":"t"}}"#))
    };
    let new_state = |status: &str| format!(r#"{{"resultType":"complete","taskId":"t",{status}}}"#);
    let completed = format!(r#""status":"completed","result":{DATA}"#);
    let of_task = r#"{"taskId":"t"}"#;
    let elicit = r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}"#;
    let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#;
    let resource = || asks(5, "resources/read", r#"{"uri":"file:///a"}"#);
    let prompt = || asks(5, "prompts/get", r#"{"name":"p"}"#);
    let cases: Vec<(&str, Vec<Step>, bool)> = vec![
        ("a tool", vec![read(), says(5, DATA)], true),
        ("a tool that takes long", vec![read(), W(60), says(5, DATA), W(5)], true),
        ("a resource that takes long", vec![resource(), W(60), says(5, DATA), W(5)], true),
        ("a prompt that takes long", vec![prompt(), W(60), says(5, DATA), W(5)], true),
        ("long after its answer", vec![read(), says(5, DATA), W(31)], false),
        ("a tool without an answer", vec![read(), W(1)], false),
        ("a resource without an answer", vec![resource(), W(1)], false),
        ("a prompt without an answer", vec![prompt(), W(1)], false),
        ("a tool with an error", vec![read(), failed(5)], false),
        ("a resource with an error", vec![resource(), failed(5)], false),
        ("a prompt with an error", vec![prompt(), failed(5)], false),
        ("a tool that is cancelled", vec![read(), C(cancelled.into()), W(1)], false),
        (
            "a user who is asked",
            vec![
                read(),
                S(elicit.into()),
                W(60),
                C(r#"{"jsonrpc":"2.0","id":1,"result":{"action":"decline"}}"#.into()),
                says(5, DATA),
                W(5),
            ],
            true,
        ),
        (
            "a second try",
            vec![
                C(ask(5, "read_file", "{}", "")),
                S(required(5, Some("s"))),
                W(60),
                C(ask(6, "read_file", "{}", &with_state("s"))),
                says(6, DONE),
                W(5),
            ],
            true,
        ),
        (
            "a second try without an answer",
            vec![
                C(ask(5, "read_file", "{}", "")),
                S(required(5, Some("s"))),
                C(ask(6, "read_file", "{}", &with_state("s"))),
            ],
            false,
        ),
        ("a task of 2025", vec![asks(5, "tools/call", task), says(5, made)], false),
        (
            "its result",
            vec![
                asks(5, "tools/call", task),
                says(5, made),
                W(60),
                asks(6, "tasks/result", of_task),
                says(6, DATA),
                W(5),
            ],
            true,
        ),
        (
            "its result is an error",
            vec![asks(5, "tools/call", task), says(5, made), asks(6, "tasks/result", of_task), failed(6)],
            false,
        ),
        (
            "its state",
            vec![
                asks(5, "tools/call", task),
                says(5, made),
                asks(6, "tasks/get", of_task),
                says(6, r#"{"taskId":"t","status":"completed"}"#),
            ],
            false,
        ),
        ("a task of 2026", vec![C(ask(5, "read_file", "{}", "")), says(5, new_task)], false),
        (
            "its end",
            vec![
                C(ask(5, "read_file", "{}", "")),
                says(5, new_task),
                W(60),
                new_get(6),
                says(6, &new_state(&completed)),
                W(5),
            ],
            true,
        ),
        (
            "its failure",
            vec![
                C(ask(5, "read_file", "{}", "")),
                says(5, new_task),
                new_get(6),
                says(6, &new_state(r#""status":"failed","error":{"code":-32603,"message":"no"}"#)),
            ],
            false,
        ),
        ("an answer that was not captured", vec![read(), W(60), Gap, W(5)], true),
    ];
    for (name, steps, expected) in cases {
        let mut bench = bench("cross_server: { cross_server_flow: { enabled: false } }");
        for step in &steps {
            match step {
                C(message) => bench.c2s(1, message),
                S(message) => bench.s2c(1, message),
                W(seconds) => bench.wait(seconds * 1_000),
                Gap => bench.gap(1, Direction::ServerToClient, 100),
            }
        }
        bench.out.clear();
        bench.c2s(2, &call(9, "send_mail"));
        let events = bench.events();
        let is_reported = events.iter().any(|event| event["type"] == "mcp_cross_server_blocked");
        assert_eq!(is_reported, expected, "{name}");
    }
}

/// Behind a relay, which has ids of its own.
#[test]
fn relayed_read_counts_when_its_data_comes() {
    for (is_answered, expected) in [(true, true), (false, false)] {
        let (config, _) = crate::config::parse(b"{}").unwrap();
        let mut bench = Bench::judged(&config, Vec::new());
        bench.exec(1, 5, "relay", 9);
        bench.exec_as(2, 6, "files", 5, &[9], false);
        bench.server(3, 7, "mail", 9);
        bench.c2s(1, HELLO);
        bench.c2s(2, HELLO);
        bench.s2c(2, &answer(0, "{}"));
        bench.s2c(1, &answer(0, "{}"));
        bench.wait(300);
        bench.c2s(1, &call(5, "read_file"));
        bench.c2s(2, &call(77, "read_file"));
        bench.wait(40_000);
        if is_answered {
            bench.s2c(2, &answer(77, DATA));
            bench.s2c(1, &answer(5, DATA));
        }
        bench.out.clear();
        bench.c2s(3, &call(9, "send_mail"));
        bench.wait(300);
        let events = bench.events();
        let blocked = events.iter().find(|event| event["type"] == "mcp_cross_server_blocked");
        assert_eq!(blocked.is_some(), expected, "{is_answered}");
        let server = blocked.map(|blocked| blocked["related_calls"][0]["server_id"].clone());
        assert!(server.is_none_or(|server| server == "files"));
    }
}
