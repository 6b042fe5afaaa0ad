//! Whatever comes in, nothing panics and nothing grows.

use proptest::prelude::*;

use super::*;
use crate::wire::{Cut, FrameCutter, Limits};

#[test]
fn total_connections_are_bounded() {
    let mut bench = Bench::with(|config| config.limits.connections = 3);
    bench.server(1, 5, "a", 9);
    bench.exec(2, 6, "b", 9);
    bench.exec(3, 7, "mcp-c", 9);
    bench.exec(4, 8, "mcp-d", 9);
    assert_eq!(bench.said(), ["drop 2"], "the candidate without a name goes");
    bench.exec(5, 9, "mcp-e", 9);
    assert_eq!(
        bench.said(),
        ["3 mcp-c full Connections 1", "refuse 3"],
        "then the oldest that was asked nothing"
    );
    bench.c2s(4, HELLO);
    bench.c2s(5, HELLO);
    bench.out.clear();
    bench.exec(6, 10, "mcp-f", 9);
    assert_eq!(bench.said(), ["6 mcp-f full Connections 1", "refuse 6"], "servers stay");
    assert_eq!(bench.engine.counters().connections_refused, 3);
    bench.exit(1, 5, 0);
    bench.wait(1_100);
    bench.exec(7, 11, "mcp-g", 9);
    assert_eq!(bench.said(), ["1 a exited Some(0) calls 0"], "an ended one goes quietly");
}

#[test]
fn requests_responses_and_candidates_are_bounded() {
    let mut bench = Bench::with(|config| {
        config.limits.open_requests = 5;
        config.limits.early_responses = 2;
        config.limits.tools = 1;
        config.limits.candidate_frames = 2;
        config.limits.held_requests = 1;
        config.limits.chain = 2;
    });
    bench.server(1, 5, "s", 9);
    for id in 0..10 {
        bench.c2s(1, &call(id, "t"));
    }
    bench.s2c(1, &answer(0, "0"));
    bench.s2c(1, &answer(100, "0"));
    bench.s2c(1, &answer(101, "0"));
    for id in [8, 9] {
        bench.s2c(1, &answer(id, r#"{"x":1}"#));
    }
    let counters = bench.engine.counters();
    assert_eq!(
        (counters.open_requests_evicted, counters.early_responses, counters.unmatched_responses),
        (5, 2, 1)
    );
    for id in 20..22 {
        bench.c2s(1, &format!(r#"{{"id":{id},"method":"tools/list"}}"#));
        bench.s2c(1, &answer(id, r#"{"tools":[{"name":"a"},{"name":"b"}]}"#));
    }
    assert_eq!(bench.engine.counters().tools_overflow, 4, "not known, and said again");
    for pid in 50..55 {
        bench.exec(2, pid, "weather", 9);
    }
    assert_eq!(bench.engine.counters().chain_overflow, 3);
    for _ in 0..3 {
        bench.s2c(2, "{}");
    }
    assert_eq!(bench.engine.counters().candidate_overflow, 1);
    bench.exec_as(3, 60, "inner", 5, &[9], false);
    bench.out.clear();
    bench.c2s(1, &call(30, "x"));
    bench.c2s(1, &call(31, "x"));
    assert_eq!(bench.said(), ["1 s called x 31"]);
    assert_eq!(bench.engine.counters().held_overflow, 1);
    bench.close(1);
    assert_eq!(bench.said(), ["1 s called x 30", "1 s exited None calls 12"]);
    assert_eq!(
        (bench.engine.connections.memory().bytes(), bench.engine.exchange.relays().bytes()),
        (bench.booked(), 0)
    );
}

/// A user who starts servers without end has no more than a share; others still find room.
#[test]
fn connections_per_user_are_bounded() {
    let mut bench = Bench::with(|config| config.limits.connections_per_user = 2);
    let run = |bench: &mut Bench, connection: u64, uid: u32, command: &str| {
        bench.exec_of(connection, 100 + connection as u32, command, uid);
        bench.said()
    };
    assert!(run(&mut bench, 1, 1000, "mcp-a").is_empty());
    assert!(run(&mut bench, 2, 1000, "b").is_empty());
    assert_eq!(run(&mut bench, 3, 1000, "mcp-c"), ["drop 2"], "no name");
    let oldest = ["1 mcp-a full Connections 1", "refuse 1"];
    assert_eq!(run(&mut bench, 4, 1000, "mcp-d"), oldest, "asked nothing, and the oldest");
    bench.c2s(3, HELLO);
    bench.c2s(4, HELLO);
    bench.out.clear();
    let newest = ["5 mcp-e full Connections 1", "refuse 5"];
    assert_eq!(run(&mut bench, 5, 1000, "mcp-e"), newest, "servers stay");
    assert!(run(&mut bench, 6, 1001, "mcp-f").is_empty(), "another user");
    assert_eq!(bench.engine.counters().connections_refused, 3);
}

/// Servers that there is no room for: what is known of each, what is reported, and whether its calls are undecided.
#[test]
fn refused_servers_are_undecided_until_they_close() {
    let full =
        |id: u64, server: &str| vec![format!("{id} {server} full Connections 1"), format!("refuse {id}")];
    for (name, command, expected, is_held) in [
        ("by its name", "mcp-x", full(9, "mcp-x"), true),
        ("by its package", "npx -y @modelcontextprotocol/server-git", full(9, "server-git"), true),
        ("by a declaration", "acme --serve", full(9, "ours"), true),
        ("by nothing", "acme", vec!["drop 9".to_owned()], false),
        ("a script of no name", "node x.js", vec!["drop 9".to_owned()], false),
    ] {
        let mut bench = Bench::with(|config| {
            config.limits.connections_per_user = 1;
            config.declared = vec![crate::discovery::Declared {
                id: ServerId("ours".into()),
                command: "acme".into(),
                args: vec!["--serve".into()],
                executables: Vec::new(),
                interpreter: None,
            }];
        });
        bench.exec_of(1, 101, "mcp-a", 1000);
        bench.c2s(1, HELLO);
        bench.out.clear();
        bench.exec_of(9, 109, command, 1000);
        let said: Vec<String> = bench.said().into_iter().filter(|said| !said.starts_with("gate")).collect();
        assert_eq!(said, expected, "{name}");
        let id = ConnectionId(9);
        let is_gated = |bench: &Bench| bench.engine.gated().any(|gated| gated == id);
        assert_eq!((bench.engine.is_refused(id), is_gated(&bench)), (is_held, is_held), "{name}");
        assert_eq!(bench.engine.gate_caller(id).is_some(), is_held, "{name}");
        bench.c2s(9, HELLO);
        bench.exec_of(9, 110, "mcp-y", 1000);
        assert!(bench.said().iter().all(|said| said.starts_with("gate")), "{name}: no more is said of it");
        bench.close(9);
        assert!(!bench.engine.is_refused(id) && !is_gated(&bench), "{name}");
        let counters = bench.engine.counters();
        assert_eq!((counters.connections_refused, counters.refused_overflow), (1, 0), "{name}");
    }
    let mut bench =
        Bench::with(|config| (config.limits.connections_per_user, config.limits.refused) = (1, 1));
    bench.exec_of(1, 101, "mcp-a", 1000);
    bench.c2s(1, HELLO);
    bench.exec_of(2, 102, "mcp-b", 1000);
    bench.out.clear();
    bench.exec_of(3, 103, "mcp-c", 1000);
    assert!(bench.said().contains(&"drop 3".to_owned()), "no more than that many are held");
    assert_eq!(bench.engine.counters().refused_overflow, 1);
}

/// What one connection keeps can be made to grow in each of these ways; it gives way, and nobody else does.
#[test]
fn memory_per_user_is_bounded() {
    const BOUND: usize = 300_000;
    let long = "x".repeat(20_000);
    type Step<'a> = &'a dyn Fn(&mut Bench, u32);
    let fill: [(&str, Step<'_>); 6] = [
        ("open requests", &|bench, at| bench.c2s(1, &call(at, "t"))),
        ("long ids", &|bench, at| {
            bench.c2s(1, &format!(r#"{{"id":"{long}{at}","method":"tools/call","params":{{"name":"t"}}}}"#));
        }),
        ("capabilities", &|bench, at| {
            let capabilities = format!(r#"{{"a":"{long}"}}"#);
            let params = format!(r#"{{"protocolVersion":"1","capabilities":{capabilities}}}"#);
            bench.c2s(1, &format!(r#"{{"id":{at},"method":"initialize","params":{params}}}"#));
        }),
        ("answers without a request", &|bench, at| bench.s2c(1, &answer(at, &format!("\"{long}\"")))),
        ("tools", &|bench, at| {
            let tools: Vec<String> = (0..100).map(|tool| format!(r#"{{"name":"t{at}.{tool}"}}"#)).collect();
            bench.c2s(1, &format!(r#"{{"id":{at},"method":"tools/list"}}"#));
            bench.s2c(1, &answer(at, &format!(r#"{{"tools":[{}]}}"#, tools.join(","))));
        }),
        ("programs", &|bench, at| bench.exec_of(1, 200 + at, &format!("mcp-a {long}"), 1000)),
    ];
    for (name, step) in fill {
        let mut bench = Bench::with(|config| {
            config.limits.bytes_per_user = BOUND;
            config.limits.chain = 1_000;
        });
        for (connection, uid) in [(1, 1000), (2, 1000), (3, 1001)] {
            bench.exec_of(connection, 100 + connection as u32, "mcp-a", uid);
            bench.c2s(connection, HELLO);
            bench.s2c(connection, &answer(0, "{}"));
        }
        bench.c2s(2, &call(1, "kept"));
        bench.c2s(3, &call(1, "kept"));
        for at in 0..1_000 {
            step(&mut bench, at);
            let kept = bench.engine.connections.memory().bytes();
            assert!(kept < BOUND + 100_000, "{name}: {kept} bytes after {at}");
        }
        assert_eq!(bench.engine.connections.memory().bytes(), bench.booked(), "{name}");
        let counters = bench.engine.counters();
        let given_up = counters.open_requests_evicted
            + counters.unmatched_responses
            + counters.tools_overflow
            + counters.chain_overflow
            + bench.engine.evaluator.registry().counters().items_refused;
        // Long ids cost no more than short ones.
        assert!(given_up > 0 || name == "long ids" && counters.calls == 1_002, "{name}");
        bench.out.clear();
        bench.s2c(2, &answer(1, "1"));
        bench.s2c(3, &answer(1, "1"));
        assert_eq!(bench.said(), ["2 mcp-a result kept 1 Ok 1", "3 mcp-a result kept 1 Ok 1"], "{name}");
    }
}

#[test]
fn engine_counters_are_exposed_by_name() {
    let mut bench = Bench::new();
    bench.server(1, 5, "s", 9);
    bench.c2s(1, r#"{"id":1,"method":"tools/list"}"#);
    bench.s2c(1, &answer(1, r#"{"tools":[{"name":"a"}]}"#));
    let map = bench.engine.counters_by_name();
    for (name, count) in
        [("frames", 4), ("servers", 1), ("calls", 0), ("registry_pages", 2), ("guards_denied", 0)]
    {
        assert_eq!(map.get(name), Some(&count), "{name}");
    }
}

/// Anything that can happen, on few connections and with few processes, so that they meet.
fn input() -> impl Strategy<Value = (u8, u64, u32, String)> {
    let text = prop_oneof![
        Just(HELLO.to_owned()),
        Just(call(1, "t")),
        Just(call(2, "t")),
        Just(answer(1, "{}")),
        Just(answer(0, r#"{"tools":[{"name":"a"}]}"#)),
        Just(r#"{"id":1,"method":"tools/list"}"#.to_owned()),
        Just(r#"{"id":1,"method":"roots/list"}"#.to_owned()),
        Just(r#"{"method":"notifications/x"}"#.to_owned()),
        Just(r#"[{"id":1,"method":"ping"},{"id":1,"result":1}]"#.to_owned()),
        "[\\[\\]{}\":,a1]{0,12}",
    ];
    (0u8..9, 1u64..5, 1u32..7, text)
}

proptest! {
    #[test]
    fn engine_survives_arbitrary_input_order(inputs in prop::collection::vec(input(), 0..80)) {
        let mut bench = Bench::with(|config| {
            config.verbose = true;
            config.limits.connections = 3;
            config.limits.connections_per_user = 2;
            config.limits.bytes_per_user = 6_000;
            config.limits.open_requests = 3;
        });
        for (what, connection, pid, text) in inputs {
            match what {
                0 => bench.exec_as(connection, pid, "mcp-x", pid + 1, &[pid + 2], false),
                1 => bench.exec_as(connection, pid, "weather", pid.saturating_sub(1), &[], true),
                2 | 3 => bench.c2s(connection, &text),
                4 | 5 => bench.s2c(connection, &text),
                6 => bench.gap(connection, Direction::ServerToClient, u64::from(pid)),
                7 => bench.exit(connection, pid, 0),
                _ if text.len() % 2 == 0 => bench.wait(u64::from(pid) * 10),
                _ => bench.close(connection),
            }
        }
        (1..5).for_each(|connection| bench.close(connection));
        // Until an answer that came early is given up, and no request would be late any more.
        bench.wait(61_000);
        let engine = &bench.engine;
        prop_assert!(engine.connections.values().next().is_none());
        prop_assert!(engine.connections.processes().is_empty(), "{:?}", engine.connections.processes());
        prop_assert_eq!((engine.connections.memory().bytes(), engine.exchange.relays().bytes(), engine.exchange.relays().count()), (0, 0, 0));
        prop_assert_eq!((engine.connections.memory().users(), engine.connections.memory().connections(None)), (0, 0));
        prop_assert!(engine.exchange.relays().links.is_empty());
        prop_assert_eq!(engine.next_deadline(), None);
    }

    #[test]
    fn stream_chunking_does_not_change_events(sizes in prop::collection::vec(1usize..60, 1..30)) {
        let stream: String = [HELLO, "log line", &call(1, "a"), "", &call(2, "é"), "[1]"].map(|line| format!("{line}\r\n")).concat();
        let run = |sizes: &[usize]| {
            let mut bench = Bench::with(|config| config.verbose = true);
            bench.exec(1, 5, "mcp-s", 9);
            let mut cutter = FrameCutter::new(Limits::default());
            let mut rest = stream.as_bytes();
            for size in sizes.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, after) = rest.split_at((*size).min(rest.len()));
                rest = after;
                let mut frames = Vec::new();
                cutter.push(piece, Timestamp(1), &mut |cut| {
                    if let Cut::Frame { bytes, .. } = cut {
                        frames.push(String::from_utf8_lossy(bytes).into_owned());
                    }
                });
                frames.iter().for_each(|frame| bench.c2s(1, frame));
            }
            bench.said()
        };
        prop_assert_eq!(run(&sizes), run(&[stream.len()]));
    }
}

/// A server of user 1000 that lists these tools, each with this description.
fn list_tools(bench: &mut Bench, connection: u64, command: &str, tools: &[(String, &str)]) {
    bench.exec_of(connection, 100 + connection as u32, command, 1000);
    bench.c2s(connection, HELLO);
    bench.s2c(connection, &answer(0, "{}"));
    bench.c2s(connection, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let tools: Vec<Value> =
        tools.iter().map(|(name, text)| json!({"name": name, "description": text})).collect();
    bench.s2c(connection, &answer(1, &json!({ "tools": tools }).to_string()));
}

/// What a user's other server lists, what a changed tool of his is called with, and the bounds: the change is denied.
#[test]
fn rug_pull_is_denied_however_many_tools_are_open() {
    for (per_user, open) in [(100_000, 0), (100_000, 300), (300, 300), (40, 300), (3, 300), (3, 0)] {
        let yaml = b"policy: { version_pinning: { on_change: block } }";
        let (config, _) = crate::config::parse(yaml).unwrap();
        let mut bench = Bench::judged(&config, Vec::new());
        let mut settings = bench.engine.config.clone();
        settings.registry.limits.entries_per_user = per_user;
        let judge = Judge::new(&config, Vec::new(), &inspect::DETECTOR).unwrap();
        bench.engine.configure(settings, judge);
        list_tools(&mut bench, 1, "mcp-victim", &[("t".into(), "a")]);
        bench.close(1);
        let many: Vec<(String, &str)> = (0..open).map(|number| (format!("tool{number}"), "x")).collect();
        list_tools(&mut bench, 2, "mcp-flood", &many);
        list_tools(&mut bench, 3, "mcp-victim", &[("t".into(), "b")]);
        bench.out.clear();
        bench.c2s(3, &call(2, "t"));
        let events = bench.events();
        let called = events.iter().find(|event| event["type"] == "mcp_tool_called").unwrap();
        assert_eq!(called["code"], "tool_changed", "{per_user} {open}: {called}");
    }
}

/// A tool that there is no room to pin is reported with its server, and undecided: `fail_closed` denies it.
#[test]
fn uncompared_tool_is_undecided() {
    for (fail_closed, expected) in [(false, Value::Null), (true, "unknown_tool".into())] {
        let yaml = format!(
            "policy: {{ fail_closed: {fail_closed} }}\nservers: [{{ id: ours, command: mcp-many, args: [] }}]"
        );
        let (config, _) = crate::config::parse(yaml.as_bytes()).unwrap();
        let mut bench = Bench::judged(&config, Vec::new());
        let mut settings = bench.engine.config.clone();
        settings.registry.limits.items_per_server = 1;
        let judge = Judge::new(&config, Vec::new(), &inspect::DETECTOR).unwrap();
        bench.engine.configure(settings, judge);
        list_tools(&mut bench, 1, "mcp-many", &[("t".into(), "a"), ("u".into(), "a")]);
        let said = bench.said();
        assert!(said.contains(&"1 ours full Pins 1".to_owned()), "{said:?}");
        for (tool, expected) in [("t", Value::Null), ("u", expected)] {
            bench.c2s(1, &call(7, tool));
            let events = bench.events();
            let called = events.iter().find(|event| event["type"] == "mcp_tool_called").unwrap();
            assert_eq!(called["code"], expected, "{fail_closed} {tool}: {called}");
            bench.s2c(1, &answer(7, "{}"));
            bench.out.clear();
        }
    }
}

/// Servers beyond those of a session that are told apart, and names beyond those that are kept: whether they shadow others' tools is
/// undecided, which is reported. `fail_closed` denies calls of these tools.
#[test]
fn names_that_are_not_compared_are_undecided() {
    // Bounds of servers and entries, the servers and their tool in the order in which they come, and whether the last is compared.
    type Case<'a> = (&'a str, usize, usize, Vec<(u64, &'a str, &'a str)>, bool);
    let cases: Vec<Case<'_>> = vec![
        ("within both", 3, 100, vec![(1, "mcp-a", "x"), (2, "mcp-b", "y"), (3, "mcp-c", "z")], true),
        ("one server too many", 2, 100, vec![(1, "mcp-a", "x"), (2, "mcp-b", "y"), (3, "mcp-c", "z")], false),
        ("the same tool", 2, 100, vec![(1, "mcp-a", "x"), (2, "mcp-b", "y"), (3, "mcp-c", "x")], false),
        (
            "a look-alike",
            2,
            100,
            vec![(1, "mcp-a", "pay"), (2, "mcp-b", "y"), (3, "mcp-c", "p\u{430}y")],
            false,
        ),
        ("another spelling", 1, 100, vec![(1, "mcp-a", "read_it"), (2, "mcp-b", "readIt")], false),
        ("one server for all", 1, 100, vec![(1, "mcp-a", "x")], true),
        ("a second connection of one", 1, 100, vec![(1, "mcp-a", "x"), (2, "mcp-a", "x")], true),
        ("none at all", 0, 100, vec![(1, "mcp-a", "x")], false),
        (
            "far beyond",
            1,
            100,
            (1..9).map(|at| (at, ["mcp-a", "mcp-b", "mcp-c"][at as usize % 3], "x")).collect(),
            false,
        ),
        ("no room for a name", 9, 3, vec![(1, "mcp-a", "x"), (2, "mcp-b", "y")], false),
        ("no room for an entry", 9, 2, vec![(1, "mcp-a", "x")], false),
        ("room for all names", 9, 8, vec![(1, "mcp-a", "x"), (2, "mcp-b", "y")], true),
    ];
    for ((name, servers, entries, listed, is_compared), fail_closed) in
        cases.iter().flat_map(|case| [(case, false), (case, true)])
    {
        let declared =
            ["mcp-a", "mcp-b", "mcp-c"].map(|id| format!("{{ id: {id}, command: {id}, args: [] }}"));
        let yaml =
            format!("{{ policy: {{ fail_closed: {fail_closed} }}, servers: [{}] }}", declared.join(", "));
        let (config, _) = crate::config::parse(yaml.as_bytes()).unwrap();
        let mut bench = Bench::judged(&config, Vec::new());
        let mut settings = bench.engine.config.clone();
        settings.registry.limits.servers_per_session = *servers;
        settings.registry.limits.entries = *entries;
        let judge = Judge::new(&config, Vec::new(), &inspect::DETECTOR).unwrap();
        bench.engine.configure(settings, judge);
        for (connection, command, tool) in listed {
            bench.exec(*connection, *connection as u32 + 20, command, 9);
            bench.c2s(*connection, HELLO);
            bench.s2c(*connection, &answer(0, "{}"));
            // Twice: what is not compared once is not compared later.
            for id in [1, 2] {
                bench.c2s(*connection, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#));
                bench.s2c(*connection, &answer(id, &json!({"tools": [{"name": tool}]}).to_string()));
            }
        }
        let (last, _, tool) = listed.last().unwrap();
        bench.c2s(*last, &call(3, tool));
        let events = bench.events();
        let exceeded = events.iter().filter(|event| event["type"] == "mcp_capacity_exceeded");
        let exceeded =
            exceeded.filter(|event| event["connection"] == *last && event["table"] == "pins").count();
        assert_eq!(exceeded, usize::from(!is_compared), "{name} {fail_closed}: {events:#?}");
        let called = events.iter().rfind(|event| event["type"] == "mcp_tool_called").unwrap();
        let expected = if fail_closed && !is_compared { json!("unknown_tool") } else { Value::Null };
        assert_eq!(called["code"], expected, "{name} {fail_closed}: {called}");
    }
}

/// What is not read is no less than reported, once for each direction.
#[test]
fn batch_beyond_its_bound_is_a_finding() {
    use crate::protocol::MAX_BATCH;
    let batch = |item: &str, items: usize| format!("[{}]", vec![item; items].join(","));
    let (ping, answer) = (r#"{"id":1,"method":"ping"}"#, r#"{"id":1,"result":{}}"#);
    let (c2s, s2c) = (Direction::ClientToServer, Direction::ServerToClient);
    let over = MAX_BATCH + 1;
    let hidden = format!("[{},{}]", vec![ping; MAX_BATCH].join(","), call(2, "pay"));
    type Case<'a> = (&'a str, Vec<(Direction, String)>, usize);
    let cases: Vec<Case<'_>> = vec![
        ("requests", vec![(c2s, batch(ping, over))], 1),
        ("answers", vec![(s2c, batch(answer, over))], 1),
        ("notifications", vec![(s2c, batch(r#"{"method":"x"}"#, over))], 1),
        ("a call behind it", vec![(c2s, hidden)], 1),
        ("no messages", vec![(c2s, batch("1", over))], 1),
        ("empty objects", vec![(c2s, batch("{}", over))], 1),
        ("empty arrays", vec![(s2c, batch("[]", over))], 1),
        ("far beyond", vec![(c2s, batch("0", 10 * over))], 1),
        ("behind blanks", vec![(c2s, format!("  {}", batch("0", over)))], 1),
        ("twice", vec![(c2s, batch("0", over)), (c2s, batch("1", over))], 1),
        ("both ways", vec![(c2s, batch("0", over)), (s2c, batch("0", over))], 2),
        ("at the bound", vec![(c2s, batch("0", MAX_BATCH))], 0),
        (
            "in one message",
            vec![(c2s, format!(r#"{{"id":1,"method":"x","params":{}}}"#, batch("0", over)))],
            0,
        ),
        ("empty", vec![(c2s, "[]".to_owned())], 0),
    ];
    for (name, frames, expected) in cases {
        let mut bench = super::judge::bench("");
        for (direction, frame) in &frames {
            bench.frame(1, *direction, frame);
        }
        let events = bench.events();
        let found = events.iter().filter(|event| event["detection"]["pattern"] == "oversized-batch");
        assert_eq!(found.count(), expected, "{name}");
    }
}
