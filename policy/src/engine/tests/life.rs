//! Candidates, confirmation, chains, sessions, ends.

use super::*;

/// A step of a table.
enum Step {
    Run(u32, &'static str),
    Adopt(u32, &'static str),
    C2s(&'static str),
    S2c(&'static str),
    JunkC2s,
    BrokenC2s,
    Gap,
    Exit(u32),
    Wait(u64),
    Close,
}
use Step::*;

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
const X: Step = C2s(r#"{"jsonrpc":"2.0","method":"x/y"}"#);
const LSP: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"processId":1,"capabilities":{}}}"#;
const HELLO_ANSWER: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"serverInfo":{"name":"s"}}}"#;

fn run(bench: &mut Bench, steps: &[Step]) {
    for step in steps {
        match step {
            Run(pid, command) => bench.exec(1, *pid, command, 9),
            Adopt(pid, command) => bench.exec_as(1, *pid, command, 9, &[], true),
            C2s(text) => bench.c2s(1, text),
            S2c(text) => bench.s2c(1, text),
            JunkC2s | BrokenC2s => bench.input(Input::Junk {
                connection: ConnectionId(1),
                direction: Direction::ClientToServer,
                time: Timestamp(bench.now),
                bytes: if matches!(step, JunkC2s) { 5 } else { 1 << 20 },
                broken: matches!(step, BrokenC2s),
            }),
            Gap => bench.gap(1, Direction::ClientToServer, 7),
            Exit(pid) => bench.exit(1, *pid, 3),
            Wait(ms) => bench.wait(*ms),
            Close => bench.close(1),
        }
    }
}

#[test]
fn candidates_become_servers_or_are_dropped() {
    let cases: &[(&str, &[Step], &[&str])] = &[
        ("named: nothing at exec", &[Run(5, "mcp-server-git")], &[]),
        ("named: with the first message", &[Run(5, "mcp-server-git"), C2s(PING)], {
            &["confirm 1", "1 mcp-server-git started Name"]
        }),
        (
            "named: invalid frames and junk do not decide",
            &[Run(5, "mcp-server-git"), JunkC2s, C2s("[x"), C2s("{}")],
            &[],
        ),
        (
            "named, adopted: at exec",
            &[Adopt(5, "mcp-server-git")],
            &["confirm 1", "1 mcp-server-git started Name"],
        ),
        ("declared: at exec", &[Run(5, "acme --serve")], &["confirm 1", "1 declared-acme started Declared"]),
        ("declared, behind an interpreter", &[Run(5, "/usr/bin/env node /opt/bin/acme --serve")], {
            &["confirm 1", "1 declared-acme started Declared"]
        }),
        ("declared, other arguments", &[Run(5, "acme --serve --more")], &[]),
        (
            "behaviour: initialize",
            &[Run(5, "weather"), C2s(HELLO)],
            &["confirm 1", "1 weather started Behaviour"],
        ),
        (
            "dropped, and more of the same record",
            &[Run(5, "weather"), C2s(LSP), C2s(LIST), Gap, JunkC2s],
            &["drop 1"],
        ),
        (
            "the first message is broken by a gap",
            &[Run(5, "weather"), Gap, BrokenC2s, C2s(LIST)],
            &["confirm 1", "1 weather started Behaviour", "1 weather gap 7"],
        ),
        (
            "behaviour: tools/list",
            &[Run(5, "weather"), C2s(LIST)],
            &["confirm 1", "1 weather started Behaviour"],
        ),
        ("a language server", &[Run(5, "gopls"), C2s(LSP)], &["drop 1"]),
        ("ping proves nothing", &[Run(5, "weather"), C2s(PING)], &[]),
        ("ping first", &[Run(5, "weather"), C2s(PING), S2c(HELLO_ANSWER), C2s(HELLO)], {
            &["confirm 1", "1 weather started Behaviour", "1 weather initialized"]
        }),
        ("seven times something else first", &[Run(5, "weather"), X, X, X, X, X, X, X, C2s(LIST)], {
            &["confirm 1", "1 weather started Behaviour"]
        }),
        ("eight times something else", &[Run(5, "weather"), X, X, X, X, X, X, X, X, C2s(LIST)], &["drop 1"]),
        ("JSON that is no JSON-RPC", &[Run(5, "jq"), C2s(r#"{"a":1}"#)], &["drop 1"]),
        ("junk from the client", &[Run(5, "weather"), JunkC2s], &["drop 1"]),
        ("an invalid frame", &[Run(5, "weather"), C2s("{x}")], &["drop 1"]),
        ("adopted, unnamed: any request of MCP's", &[Adopt(5, "weather"), C2s(PING), C2s(LIST)], {
            &["confirm 1", "1 weather started Behaviour"]
        }),
        ("adopted, unnamed: a stranger", &[Adopt(5, "weather"), C2s(LSP)], &["drop 1"]),
        ("after a gap the first frame is not the first", &[Run(5, "weather"), Gap, C2s(PING), C2s(LIST)], {
            &["confirm 1", "1 weather started Behaviour", "1 weather gap 7"]
        }),
        ("no record of the exec", &[C2s(LIST)], &["confirm 1", "1 mcp-6f52adb04cf2 started Behaviour"]),
        ("an answer before its request", &[Run(5, "weather"), S2c(HELLO_ANSWER), C2s(HELLO)], {
            &["confirm 1", "1 weather started Behaviour", "1 weather initialized"]
        }),
        (
            "a chain is one server, named by the most telling",
            &[
                Run(5, "npx -y @modelcontextprotocol/server-everything"),
                Run(6, "sh -c mcp-server-everything"),
                Run(7, "node /x/.bin/mcp-server-everything"),
                C2s(HELLO),
            ],
            &["confirm 1", "1 server-everything started Name"],
        ),
        ("the id stays once announced", &[Run(5, "weather"), C2s(HELLO), Run(6, "npx -y @acme/x"), Gap], {
            &["confirm 1", "1 weather started Behaviour", "1 weather gap 7"]
        }),
        ("closed: the end is said once", &[Run(5, "weather"), C2s(HELLO), Exit(5), Close], {
            &["confirm 1", "1 weather started Behaviour", "1 weather exited Some(3) calls 0"]
        }),
        (
            "exited: the end is said a second later",
            &[Run(5, "weather"), C2s(HELLO), Exit(5), Wait(999), Wait(2), Close],
            { &["confirm 1", "1 weather started Behaviour", "1 weather exited Some(3) calls 0"] },
        ),
        (
            "the last process of the chain ends it",
            &[
                Run(5, "sh -c weather"),
                Run(6, "weather"),
                C2s(HELLO),
                Exit(6),
                Wait(2_000),
                Exit(5),
                Wait(2_000),
            ],
            &["confirm 1", "1 weather started Behaviour", "1 weather exited Some(3) calls 0"],
        ),
        (
            "frames after the exit are heard",
            &[Run(5, "weather"), C2s(HELLO), Exit(5), S2c(HELLO_ANSWER), Close],
            &[
                "confirm 1",
                "1 weather started Behaviour",
                "1 weather initialized",
                "1 weather exited Some(3) calls 0",
            ],
        ),
        ("a candidate ends in silence", &[Run(5, "mcp-server-git"), Exit(5), Wait(2_000), Close], &[]),
    ];
    for (name, steps, expected) in cases {
        let mut bench = Bench::with(|config| {
            let args = vec!["--serve".to_owned()];
            config.declared = vec![Declared {
                id: ServerId("declared-acme".into()),
                command: "acme".into(),
                args,
                executables: Vec::new(),
            }];
        });
        run(&mut bench, steps);
        assert_eq!(bench.said(), *expected, "{name}");
    }
}

#[test]
fn server_lifecycle_events_carry_expected_fields() {
    let mut bench = Bench::new();
    bench.exec(1, 5, "npx -y @modelcontextprotocol/server-github --token abc", 9);
    bench.exec(1, 6, "node /x/.bin/mcp-server-github", 9);
    bench.c2s(1, HELLO);
    let result = r#"{"protocolVersion":"2025-06-18","serverInfo":{"name":"gh","version":"2"},"capabilities":{"tools":{}},"instructions":"be nice"}"#;
    bench.s2c(1, &answer(0, result));
    bench.exit(1, 6, 0);
    bench.exit(1, 5, 1);
    bench.close(1);
    let events = bench.events();
    let [started, initialized, exited] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(started["argv"][4], "***");
    assert_eq!(started["chain"], serde_json::json!(["npx", "node"]));
    assert_eq!((&started["pid"], &started["pattern"]), (&6.into(), &"@modelcontextprotocol/*".into()));
    assert_eq!(started["client"]["pid"], 9);
    assert_eq!(started["identity"], "derived");
    assert_eq!(initialized["server_name"], "gh");
    assert_eq!(initialized["client_name"], "c");
    assert_eq!(initialized["protocol_version"], "2025-06-18");
    assert_eq!(initialized["requested_protocol_version"], "2025-11-25");
    assert_eq!(initialized["capabilities"], serde_json::json!({"tools": {}}));
    assert_eq!(initialized["instructions"], "be nice");
    assert_eq!((&exited["exit_code"], &exited["pid"]), (&0.into(), &6.into()));
    assert_eq!(exited["frames"], serde_json::json!({"c2s": 1, "s2c": 1}));
    assert_eq!(exited["unanswered"], 0);
    let line = serde_json::to_string(&crate::event::Event::agent(
        Timestamp(0),
        crate::event::AgentStopped::default().into(),
    ));
    assert!(line.unwrap().starts_with(r#"{"type":"agent_stopped","timestamp":"1970"#));
}

#[test]
fn session_corresponds_to_client_process() {
    let mut bench = Bench::new();
    bench.exec(1, 5, "mcp-a", 9);
    bench.exec(2, 6, "mcp-b", 9);
    bench.exec(3, 7, "mcp-c", 10);
    for connection in 1..=4 {
        bench.c2s(connection, HELLO);
    }
    let sessions: Vec<String> =
        bench.events().iter().map(|event| event["session_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(sessions.len(), 4);
    assert_eq!(sessions[0], sessions[1]);
    assert!(sessions[0] != sessions[2] && sessions[2] != sessions[3] && sessions[0] != sessions[3]);
    assert!(sessions.iter().all(|session| session.len() == 17 && session.starts_with("sess_")));
}

#[test]
fn server_is_announced_on_first_response() {
    const LOG: &str = r#"{"level":"info"}"#;
    let cases: &[(&str, &[Step], &[&str])] = &[
        ("asked, not yet answered", &[Run(5, "./run.sh"), C2s(HELLO), Wait(1_900)], &["confirm 1"]),
        (
            "the chain goes on until it answers",
            &[Run(5, "./run.sh"), C2s(HELLO), Run(5, "/usr/bin/mcp-server-git"), S2c(LOG), S2c(HELLO_ANSWER)],
            &["confirm 1", "confirm 1", "1 mcp-server-git started Name", "1 mcp-server-git initialized"],
        ),
        (
            "it does not answer",
            &[Run(5, "mcp-server-git"), C2s(HELLO), Wait(2_001)],
            &["confirm 1", "1 mcp-server-git started Name"],
        ),
        (
            "it ends without an answer",
            &[Run(5, "mcp-server-git"), C2s(HELLO), Exit(5), Wait(1_001)],
            &["confirm 1", "1 mcp-server-git started Name", "1 mcp-server-git exited Some(3) calls 0"],
        ),
        (
            "it is closed without an answer",
            &[Run(5, "mcp-server-git"), C2s(HELLO), Close],
            &["confirm 1", "1 mcp-server-git started Name", "1 mcp-server-git exited None calls 0"],
        ),
        (
            "the answer was recorded first",
            &[Run(5, "weather"), S2c(HELLO_ANSWER), C2s(HELLO)],
            &["confirm 1", "1 weather started Behaviour", "1 weather initialized"],
        ),
        (
            "what it was asked before is a server's, whatever comes then",
            &[Run(5, "weather"), C2s(HELLO), JunkC2s, C2s("{x}"), Gap, S2c(HELLO_ANSWER)],
            &["confirm 1", "1 weather started Behaviour", "1 weather gap 7", "1 weather initialized"],
        ),
        ("nothing that it says makes it no server", &[Run(5, "weather"), C2s(HELLO), S2c(LSP)], {
            &["confirm 1", "1 weather started Behaviour"]
        }),
        ("adopted: its chain is known", &[Adopt(5, "weather"), C2s(LIST)], {
            &["confirm 1", "1 weather started Behaviour"]
        }),
    ];
    for (name, steps, expected) in cases {
        let mut bench = Bench::with(|config| config.limits.start_wait = EngineLimits::default().start_wait);
        run(&mut bench, steps);
        assert_eq!(bench.said(), *expected, "{name}");
    }
}

#[test]
fn invalid_frames_are_counted_in_exit_event() {
    let mut bench = Bench::new();
    bench.server(1, 5, "npm\u{20}exec\u{20}x\u{20}--token\u{20}abc", 9);
    bench.s2c(1, "{x}");
    bench.s2c(1, "[1");
    bench.c2s(1, "{}");
    bench.close(1);
    let exited = bench.events().pop().unwrap();
    assert_eq!(exited["invalid_frames"], serde_json::json!({"c2s": 0, "s2c": 2}), "{exited}");
}

#[test]
fn frames_pending_announcement_are_bounded() {
    let mut bench = Bench::with(|config| {
        config.limits.start_wait = EngineLimits::default().start_wait;
        config.limits.candidate_frames = 3;
    });
    bench.exec(1, 5, "weather", 9);
    for id in 0..5 {
        bench.c2s(1, &call(id, "t"));
    }
    let mut expected = vec!["confirm 1".to_owned(), "1 weather started Behaviour".to_owned()];
    expected.extend((0..5).map(|id| format!("1 weather called t {id}")));
    assert_eq!(bench.said(), expected);
    assert_eq!(bench.engine.counters().candidate_overflow, 0);
}

/// Of `printf … | server | jq` nothing is captured but the answers.
#[test]
fn answers_to_lost_requests_show_an_unnamed_server() {
    const INITIALIZED: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}"#;
    const LISTED: &str =
        r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}}"#;
    const CALLED: &str = r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"5"}]}}"#;
    let says = |result: &str| S2c(format!(r#"{{"jsonrpc":"2.0","id":3,"result":{result}}}"#).leak());
    let cases: Vec<(&str, Vec<Step>, bool)> = vec![
        ("initialize", vec![Gap, S2c(INITIALIZED)], true),
        ("a list", vec![Gap, S2c(LISTED)], true),
        ("a call", vec![Gap, S2c(CALLED)], true),
        (
            "an image",
            vec![Gap, says(r#"{"content":[{"type":"image","data":"","mimeType":"image/png"}]}"#)],
            true,
        ),
        ("all of it", vec![Gap, S2c(INITIALIZED), S2c(LISTED), S2c(CALLED)], true),
        ("behind a log line", vec![Gap, S2c("listening"), S2c(INITIALIZED)], true),
        ("behind a notification", vec![Gap, S2c(r#"{"jsonrpc":"2.0","method":"x"}"#), S2c(CALLED)], true),
        ("the gap is known later", vec![S2c(INITIALIZED), Gap], true),
        ("several gaps", vec![Gap, Gap, S2c(CALLED)], true),
        ("it has ended", vec![Gap, Exit(5), S2c(INITIALIZED)], true),
        ("nothing is lost", vec![S2c(INITIALIZED), S2c(LISTED), S2c(CALLED)], false),
        ("nothing is answered", vec![Gap], false),
        ("a language server", vec![Gap, says(r#"{"capabilities":{},"serverInfo":{"name":"ls"}}"#)], false),
        ("another protocol", vec![Gap, says(r#"{"tools":["hammer"],"content":["x"]}"#)], false),
        ("an empty list", vec![Gap, says(r#"{"tools":[]}"#)], false),
        ("an error", vec![Gap, S2c(r#"{"jsonrpc":"2.0","id":0,"error":{"code":-1,"message":"no"}}"#)], false),
        ("a plain result", vec![Gap, says("5"), says(r#"{"ok":true}"#), says("null")], false),
        ("no JSON", vec![Gap, S2c("5 files"), S2c("[x")], false),
    ];
    for (name, steps, expected) in cases {
        let mut bench = Bench::new();
        bench.exec(1, 5, "./calc --fast", 9);
        run(&mut bench, &steps);
        let said = bench.said();
        let starts = said.iter().filter(|line| line.contains("started Behaviour")).count();
        assert_eq!(starts, usize::from(expected), "{name}: {said:?}");
        let gaps = steps.iter().filter(|step| matches!(step, Gap)).count();
        let reported = said.iter().filter(|line| line.contains("gap 7")).count();
        assert_eq!(reported, if expected { gaps } else { 0 }, "{name}: {said:?}");
    }
}
