//! What the gate stopped, as the engine tells of it.

use std::time::Duration;

use super::*;
use crate::config;

fn bench(yaml: &str) -> Bench {
    let (config, _) = config::parse(yaml.as_bytes()).unwrap();
    let mut bench = Bench::judged(&config, Vec::new());
    bench.server(1, 5, "files", 9);
    bench
}

fn stopped(bench: &mut Bench, text: &str, is_refused: bool) -> Vec<String> {
    let (connection, time) = (ConnectionId(1), Timestamp(bench.now));
    bench.input(Input::Stopped { connection, time, bytes: text.as_bytes(), is_refused });
    told(bench)
}

/// Calls and requests that were said: what was asked for, and what became of it.
fn told(bench: &mut Bench) -> Vec<String> {
    let told = |event: Value| {
        let word = |key: &str| event[key].as_str().unwrap_or("-").to_owned();
        let enforced = if event["enforced"] == json!(true) { "enforced" } else { "open" };
        match event["type"].as_str()? {
            "mcp_tool_called" => {
                Some(format!("{} {} {enforced} {}", word("tool_name"), word("action"), word("code")))
            }
            "mcp_request_blocked" => Some(format!("{} {enforced}", word("method"))),
            "mcp_tool_result" => Some(format!("result {}", word("tool_name"))),
            _ => None,
        }
    };
    bench.events().into_iter().filter_map(told).collect()
}

fn call(id: u64, tool: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool}}).to_string()
}

const DENIED: &str = "policy: { denied_tools: [rm], rate_limits: { enabled: true, default_rpm: 0 } }";

/// The configuration, what was stopped (or refused), and what is said of it.
#[test]
fn stopped_messages_are_reported_as_enforced() {
    let batch = format!("[{},{}]", call(1, "rm"), call(2, "ls"));
    let plain = "policy: { denied_tools: [rm] }";
    let cases: [(&str, &str, &str, bool, &[&str]); 7] = [
        ("a denied call", plain, &call(1, "rm"), false, &["rm block enforced tool_denied"]),
        ("the same, refused", plain, &call(1, "rm"), true, &["rm block enforced tool_denied"]),
        ("one that only the gate denies", plain, &call(1, "ls"), false, &["ls block enforced gate"]),
        (
            "one that was written with it",
            plain,
            &batch,
            true,
            &["rm block enforced tool_denied", "ls block enforced gate"],
        ),
        (
            "one beside it that passed",
            plain,
            &batch,
            false,
            &["rm block enforced tool_denied", "ls allow open -"],
        ),
        (
            "one beside it that is denied for the calls before",
            DENIED,
            &batch,
            false,
            &["rm block enforced tool_denied", "ls block enforced rate_limited"],
        ),
        (
            "a request",
            "policy: { denied_servers: [files] }",
            r#"{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p"}}"#,
            false,
            &["prompts/get enforced"],
        ),
    ];
    for (name, yaml, text, is_refused, expected) in cases {
        assert_eq!(stopped(&mut bench(yaml), text, is_refused), expected, "{name}");
    }
}

/// What a server got neutralized it answers; to what was refused nobody does, and nobody waits for that.
#[test]
fn refused_request_awaits_no_response() {
    let answer = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"unknown tool"}}"#;
    for (is_refused, expected) in [(false, &["result rm"][..]), (true, &[])] {
        let mut bench = bench("policy: { denied_tools: [rm] }");
        stopped(&mut bench, &call(1, "rm"), is_refused);
        bench.s2c(1, answer);
        assert_eq!(told(&mut bench), expected, "{is_refused}");
    }
}

/// What was stopped has not been read or sent: no rule across servers goes by it.
#[test]
fn stopped_call_does_not_feed_cross_server_rules() {
    let after_read = |is_stopped: bool| {
        let (config, _) = config::parse(b"{}").unwrap();
        let mut bench = Bench::judged(&config, Vec::new());
        bench.server(1, 5, "files", 9);
        bench.server(2, 6, "mail", 9);
        if is_stopped {
            stopped(&mut bench, &call(1, "read_file"), true);
        } else {
            bench.c2s(1, &call(1, "read_file"));
            bench.s2c(1, &answer(1, r#"{"content":[]}"#));
        }
        told(&mut bench);
        bench.c2s(2, &call(2, "send_mail"));
        told(&mut bench)
    };
    assert_eq!(after_read(false), ["send_mail block open read_then_send"]);
    assert_eq!(after_read(true), ["send_mail allow open -"]);
}

#[test]
fn gate_decision_is_reported_for_its_connection() {
    let mut bench = bench("{}");
    let decided = GateDecided {
        action: GateAction::Passed,
        guard: None,
        code: "long_write".into(),
        reason: "r".into(),
        pid: 9,
        bytes: 1,
        explained: false,
    };
    let (connection, time) = (ConnectionId(1), Timestamp(bench.now));
    bench.input(Input::Gate { connection, time, decided: decided.clone() });
    assert_eq!(bench.said(), ["gate Passed long_write"].map(|said| format!("1 files {said}")));
    bench.input(Input::Gate { connection: ConnectionId(7), time, decided });
    assert_eq!(bench.said(), Vec::<String>::new(), "of one that nobody knows");
}

/// From when on the gate judges, and what it is told of before: what runs, what was asked, what was answered.
#[test]
fn gate_applies_from_first_request() {
    const ASKED: &str = HELLO;
    const SAID: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"serverInfo":{"name":"s"}}}"#;
    type Told = (&'static [u64], &'static [u64]);
    let cases: [(&str, [Told; 3]); 2] = [
        ("weather", [(&[], &[]), (&[1], &[]), (&[1], &[])]),
        ("npx mcp-server-weather", [(&[], &[1]), (&[1], &[]), (&[1], &[])]),
    ];
    for (command, expected) in cases {
        let mut bench = Bench::with(|config| config.limits.start_wait = Duration::from_secs(2));
        for (step, (gated, soon)) in expected.into_iter().enumerate() {
            match step {
                0 => bench.exec(1, 5, command, 9),
                1 => bench.c2s(1, ASKED),
                _ => bench.s2c(1, SAID),
            }
            let ids = |all: Vec<ConnectionId>| all.into_iter().map(|id| id.0).collect::<Vec<_>>();
            assert_eq!(ids(bench.engine.gated().collect()), gated, "{command} {step}");
            assert_eq!(ids(bench.engine.soon_gated().collect()), soon, "{command} {step}");
            let is_stale = |output: &Output| matches!(output, Output::GateStale { since: None });
            let stale = bench.out.drain(..).filter(is_stale).count();
            // Once, where there may soon be one more, and where there is; not where nothing speaks for it.
            assert_eq!(stale, usize::from(step > 0 || !soon.is_empty()), "{command} {step}");
        }
    }
}

/// What the gate did to what is written before the server answers is said when that does, and is said to be stopped then.
#[test]
fn server_start_precedes_gate_decisions() {
    let decided = GateDecided {
        action: GateAction::Neutralized,
        guard: None,
        code: "tool_denied".into(),
        reason: "r".into(),
        pid: 9,
        bytes: 1,
        explained: false,
    };
    let (connection, text) = (ConnectionId(1), call(1, "rm"));
    for frames in [1, 2, 20] {
        let (config, _) = config::parse(b"policy: { denied_tools: [rm] }").unwrap();
        let mut bench = Bench::with(|settings| {
            settings.limits.start_wait = Duration::from_secs(2);
            settings.limits.candidate_frames = frames;
        });
        let judge = Judge::new(&config, Vec::new(), &inspect::DETECTOR).unwrap();
        bench.engine = bench.engine.with_judge(judge);
        bench.exec(1, 5, "sleep", 9);
        bench.c2s(1, HELLO);
        assert_eq!(bench.said(), ["confirm 1"]);
        let time = Timestamp(bench.now);
        bench.input(Input::Gate { connection, time, decided: decided.clone() });
        bench.input(Input::Stopped { connection, time, bytes: text.as_bytes(), is_refused: false });
        bench.exec(1, 5, "npx weather", 9);
        bench.s2c(1, r#"{"jsonrpc":"2.0","id":0,"result":{"serverInfo":{"name":"s"}}}"#);
        let events = bench.events();
        let words = |event: &Value| {
            let word = |key: &str| event[key].as_str().unwrap_or("-").to_owned();
            format!("{} {} {}", word("server_id"), word("type"), event["enforced"])
        };
        let said: Vec<String> = events.iter().map(words).collect();
        // Where there is no room to wait, it is named by what runs then.
        let name = if frames == 20 { "weather" } else { "sleep" };
        let expected = ["mcp_server_started null", "mcp_gate_decided null", "mcp_tool_called true"];
        assert_eq!(said[..3], expected.map(|said| format!("{name} {said}")), "{frames}");
    }
}
