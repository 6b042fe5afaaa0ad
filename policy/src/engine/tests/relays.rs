//! A server to one side and a client of the next.

use super::*;

/// Milliseconds after which nothing is held any more.
const HELD: u64 = 251;

/// Client 9 speaks to relay 5 over connection 1, and that to server 6 over connection 2.
fn relay() -> Bench {
    let mut bench = Bench::with(|config| config.verbose = true);
    bench.exec(1, 5, "relay", 9);
    bench.exec_as(2, 6, "inner", 5, &[9], false);
    bench.c2s(1, HELLO);
    bench.c2s(2, HELLO);
    bench.s2c(2, &answer(0, "{}"));
    bench.s2c(1, &answer(0, "{}"));
    bench.wait(HELD);
    bench
}

#[test]
fn relay_and_inner_server_are_both_announced() {
    let mut bench = relay();
    assert_eq!(
        bench.said(),
        [
            "confirm 1",
            "1 relay started Behaviour",
            "confirm 2",
            "2 inner started Behaviour via relay",
            "2 inner message Request initialize 0 via relay",
            "2 inner initialized via relay",
            "2 inner message Response initialize 0 via relay",
            "1 relay initialized",
        ]
    );
}

/// The inner one answers first, and the relay it is behind is known by then.
#[test]
fn relay_is_announced_before_inner_server() {
    let mut bench = Bench::with(|config| {
        config.verbose = true;
        config.limits.start_wait = EngineLimits::default().start_wait;
    });
    bench.exec(1, 5, "relay", 9);
    bench.c2s(1, HELLO);
    bench.exec_as(2, 6, "inner", 5, &[9], false);
    bench.c2s(2, HELLO);
    bench.wait(300);
    bench.s2c(2, &answer(0, "{}"));
    bench.s2c(1, &answer(0, "{}"));
    bench.wait(HELD);
    assert_eq!(
        bench.said(),
        [
            "confirm 1",
            "confirm 2",
            "1 relay started Behaviour",
            "2 inner started Behaviour via relay",
            "2 inner message Request initialize 0 via relay",
            "2 inner initialized via relay",
            "2 inner message Response initialize 0 via relay",
            "1 relay initialized",
        ]
    );
}

/// On a busy host a client's request may be recorded after all that came of it: it is none of the relay's own for that.
#[test]
fn early_relay_response_waits_for_its_request() {
    let list = r#"{"id":7,"method":"tools/list"}"#;
    let tools = answer(7, r#"{"tools":[{"name":"t"}]}"#);
    for inner_first in [false, true] {
        let mut bench = relay();
        bench.out.clear();
        bench.s2c(1, &tools);
        if inner_first {
            bench.s2c(2, &tools);
        }
        bench.c2s(1, list);
        bench.c2s(2, list);
        if !inner_first {
            bench.s2c(2, &tools);
        }
        bench.wait(HELD);
        let said = bench.said();
        let seen: Vec<&String> = said.iter().filter(|line| line.contains("tool t")).collect();
        assert!(matches!(seen.as_slice(), [only] if only.starts_with("2 inner")), "{inner_first} {said:#?}");
        assert!(said.iter().all(|line| !line.starts_with("1 relay")), "{inner_first} {said:#?}");
    }
    // Where nothing passes it on, it is the relay's own.
    let mut bench = relay();
    bench.out.clear();
    bench.s2c(1, &tools);
    bench.c2s(1, list);
    bench.wait(HELD);
    let said = bench.said();
    assert!(said.iter().any(|line| line.starts_with("1 relay") && line.contains("tool t")), "{said:#?}");
    assert_eq!(bench.engine.connections.memory().bytes(), bench.booked());
}

/// What happens on the two connections, and what is said.
type Case = (&'static str, &'static [(u64, bool, &'static str)], u64, &'static [&'static str]);

#[test]
fn relayed_call_is_reported_once() {
    const CALL: &str =
        r#"{"id":7,"method":"tools/call","params":{"name":"t","arguments":{"b":1,"a":2},"_meta":{"p":1}}}"#;
    const COPY: &str =
        r#"{"id":"x","method":"tools/call","params":{"arguments":{"a":2.0e0,"b":1},"name":"t"}}"#;
    const OTHER: &str = r#"{"id":"x","method":"tools/call","params":{"name":"u"}}"#;
    const YES: &str = r#"{"id":7,"result":{"ok":1}}"#;
    const YES_X: &str = r#"{"id":"x","result":{"ok":1}}"#;
    const NO_X: &str = r#"{"id":"x","result":{"ok":0}}"#;
    let cases: &[Case] = &[
        ("passed on", &[(1, true, CALL), (2, true, CALL), (2, false, YES), (1, false, YES)], 0, {
            &["2 inner called t 7 via relay", r#"2 inner result t 7 Ok {"ok":1} via relay"#]
        }),
        (
            "under another id",
            &[(1, true, OTHER), (2, true, r#"{"id":3,"method":"tools/call","params":{"name":"u"}}"#)],
            0,
            { &[r#"2 inner called u "x" via relay"#] },
        ),
        (
            "the copy is recorded first",
            &[(2, true, CALL), (1, true, CALL), (2, false, YES), (1, false, YES)],
            0,
            { &["2 inner called t 7 via relay", r#"2 inner result t 7 Ok {"ok":1} via relay"#] },
        ),
        (
            "the answer is changed",
            &[(1, true, CALL), (2, true, CALL), (2, false, r#"{"id":7,"result":{"ok":0}}"#), (1, false, YES)],
            0,
            {
                &[
                    "2 inner called t 7 via relay",
                    r#"2 inner result t 7 Ok {"ok":0} via relay"#,
                    r#"1 relay result t 7 Ok {"ok":1}"#,
                ]
            },
        ),
        (
            "the answers are recorded the other way round",
            &[(1, true, CALL), (2, true, CALL), (1, false, YES), (2, false, YES)],
            0,
            { &["2 inner called t 7 via relay", r#"2 inner result t 7 Ok {"ok":1} via relay"#] },
        ),
        ("not passed on, answered", &[(1, true, CALL), (1, false, YES)], 0, {
            &["1 relay called t 7", r#"1 relay result t 7 Ok {"ok":1}"#]
        }),
        ("not passed on, not answered", &[(1, true, CALL)], HELD, &["1 relay called t 7"]),
        ("the relay's own", &[(2, true, OTHER), (2, false, NO_X)], 0, {
            &[r#"2 inner called u "x" via relay"#, r#"2 inner result u "x" Ok {"ok":0} via relay"#]
        }),
        (
            "another call",
            &[(1, true, CALL), (2, true, OTHER)],
            HELD,
            &["1 relay called t 7", r#"2 inner called u "x" via relay"#],
        ),
        (
            "a notification",
            &[
                (1, true, r#"{"method":"notifications/initialized"}"#),
                (2, true, r#"{"method":"notifications/initialized"}"#),
            ],
            HELD,
            { &["2 inner message Notification notifications/initialized via relay"] },
        ),
        (
            "twice the same",
            &[
                (1, true, CALL),
                (
                    1,
                    true,
                    r#"{"id":8,"method":"tools/call","params":{"name":"t","arguments":{"a":2,"b":1}}}"#,
                ),
                (2, true, CALL),
                (2, true, COPY),
                (2, false, YES_X),
                (2, false, YES),
            ],
            0,
            &[
                "2 inner called t 7 via relay",
                "2 inner called t 8 via relay",
                r#"2 inner result t 8 Ok {"ok":1} via relay"#,
                r#"2 inner result t 7 Ok {"ok":1} via relay"#,
            ],
        ),
        (
            "a request of the server's goes over both",
            &[
                (2, false, r#"{"id":1,"method":"roots/list"}"#),
                (1, false, r#"{"id":1,"method":"roots/list"}"#),
            ],
            0,
            &["2 inner message Request roots/list 1 via relay", "1 relay message Request roots/list 1"],
        ),
    ];
    for (name, frames, wait, expected) in cases {
        let mut bench = relay();
        bench.out.clear();
        for (connection, to_server, text) in *frames {
            if *to_server { bench.c2s(*connection, text) } else { bench.s2c(*connection, text) }
        }
        bench.wait(*wait);
        assert_eq!(bench.said(), *expected, "{name}");
        assert_eq!(
            bench.engine.exchange.relays().links.len(),
            bench.engine.exchange.relays().links.values().filter(|link| link.remaining > 0).count()
        );
    }
}

#[test]
fn late_copy_of_relayed_call_is_omitted() {
    let mut bench = relay();
    bench.out.clear();
    bench.c2s(1, &call(7, "t"));
    bench.wait(HELD);
    bench.c2s(2, &call(3, "t"));
    bench.s2c(2, &answer(3, "1"));
    bench.s2c(1, &answer(7, "1"));
    bench.wait(HELD);
    assert_eq!(bench.said(), ["1 relay called t 7", "1 relay result t 7 Ok 1"]);
}

#[test]
fn relayed_events_keep_client_session_and_time() {
    let mut bench = relay();
    bench.out.clear();
    bench.c2s(1, &call(7, "t"));
    bench.wait(3);
    bench.c2s(2, &call(3, "t"));
    bench.wait(3);
    bench.s2c(2, &answer(3, "1"));
    bench.c2s(1, &call(8, "u"));
    bench.wait(HELD);
    let events = bench.events();
    assert_eq!(events.len(), 3, "{events:?}");
    assert_eq!(events[0]["session_id"], events[2]["session_id"]);
    assert_eq!(events[0]["jsonrpc_id"], 7);
    assert_eq!(events[1]["jsonrpc_id"], 7);
    assert_eq!(events[1]["latency_ns"].as_u64().unwrap() / MS, 6);
}

#[test]
fn nested_relays_are_all_named() {
    let mut bench = Bench::new();
    bench.exec(1, 5, "a", 9);
    bench.exec_as(2, 6, "b", 5, &[9], false);
    bench.exec_as(3, 7, "c", 6, &[5, 9], false);
    (1..=3).for_each(|connection| bench.c2s(connection, HELLO));
    (1..=3).rev().for_each(|connection| bench.s2c(connection, &answer(0, "{}")));
    bench.wait(HELD);
    bench.out.clear();
    for connection in 1..=3 {
        bench.c2s(connection, &call(connection as u32, "t"));
    }
    for connection in [3, 2, 1] {
        bench.s2c(connection, &answer(connection as u32, "1"));
    }
    assert_eq!(bench.said(), ["3 c called t 1 via a,b", "3 c result t 1 Ok 1 via a,b"]);
    // Not passed on by the second.
    bench.c2s(1, &call(10, "t"));
    bench.c2s(2, &call(20, "t"));
    bench.s2c(2, &answer(20, "1"));
    bench.s2c(1, &answer(10, "1"));
    assert_eq!(bench.said(), ["2 b called t 10 via a", "2 b result t 10 Ok 1 via a"]);
    // The middle one ends: what it stood between stays in order.
    bench.close(2);
    bench.out.clear();
    bench.c2s(1, &call(11, "t"));
    bench.c2s(3, &call(31, "t"));
    assert_eq!(bench.said(), ["3 c called t 11 via a"]);
}

#[test]
fn tools_behind_relay_are_reported_once() {
    let mut bench = Bench::new();
    bench.exec(1, 5, "relay", 9);
    bench.exec_as(2, 6, "inner", 5, &[9], false);
    let list = r#"{"id":1,"method":"tools/list"}"#;
    let tools = answer(1, r#"{"tools":[{"name":"t"}]}"#);
    bench.c2s(1, HELLO);
    bench.c2s(2, HELLO);
    bench.c2s(1, list);
    bench.c2s(2, r#"{"id":1,"method":"tools/list","params":{}}"#);
    bench.s2c(2, &tools);
    bench.s2c(1, &tools);
    let said: Vec<String> = bench.said().into_iter().filter(|line| line.contains("tool")).collect();
    assert_eq!(said, ["2 inner tool t via relay"]);
}

#[test]
fn identically_started_servers_stay_distinct() {
    let mut bench = Bench::new();
    for connection in 1..=10u32 {
        bench.exec(connection.into(), 100 + connection, "s", 9);
    }
    for connection in 1..=10 {
        bench.c2s(connection, HELLO);
    }
    for connection in 1..=10 {
        bench.c2s(connection, &call(1, "t"));
    }
    for connection in 1..=10 {
        bench.s2c(connection, &answer(1, "1"));
    }
    let said = bench.said();
    for what in ["started", "called t 1", "result t 1 Ok 1"] {
        assert_eq!(said.iter().filter(|line| line.contains(what)).count(), 10, "{what}");
    }
    assert!(said.iter().all(|line| !line.contains("via")));
}

#[test]
fn adopted_relays_are_found_in_any_order() {
    let mut bench = Bench::new();
    bench.exec_as(2, 6, "mcp-inner", 5, &[9], true);
    bench.exec_as(1, 5, "mcp-relay", 9, &[], true);
    bench.out.clear();
    bench.c2s(1, &call(1, "t"));
    bench.c2s(2, &call(1, "t"));
    assert_eq!(bench.said(), ["2 mcp-inner called t 1 via mcp-relay"]);
}

#[test]
fn held_call_is_reported_on_connection_close() {
    let mut bench = relay();
    bench.exit(1, 5, 0);
    bench.wait(2_000);
    bench.out.clear();
    bench.c2s(1, &call(7, "t"));
    bench.close(1);
    assert_eq!(bench.said(), ["1 relay called t 7"]);
}

/// Client 9 runs `docker` 5 over connection 1; the daemon's shim 50 runs the server 60 over connection 2.
#[test]
fn container_server_is_linked_to_its_launcher() {
    const SHIM: &str = "/usr/bin/containerd-shim-runc-v2";
    let start_wait = EngineLimits::default().start_wait;
    // Who the client of the inner one is, what it is asked, how much later, and what is said of a call over both.
    let cases: [(&str, &str, &str, u64, &[&str]); 4] = [
        ("behind it", SHIM, HELLO, 300, &["2 weather called t 7 via git"]),
        ("the image is fetched first", SHIM, HELLO, 29_000, &["2 weather called t 7 via git"]),
        ("another client", "/usr/bin/node", HELLO, 300, &["1 git called t 7", "2 weather called t 7"]),
        (
            "asked something else first: found by the call itself",
            SHIM,
            r#"{"id":0,"method":"initialize","params":{"protocolVersion":"x"}}"#,
            300,
            &["1 git called t 7"],
        ),
    ];
    for (name, client, hello, wait, expected) in cases {
        let mut bench = Bench::with(|config| config.limits.start_wait = start_wait);
        bench.exec(1, 5, "docker run -i mcp/git", 9);
        bench.c2s(1, HELLO);
        bench.wait(wait);
        bench.exec_by(2, 60, "/usr/bin/runc create 0caf", 50, client);
        bench.exec_by(2, 60, "/app/weather", 50, client);
        bench.c2s(2, hello);
        bench.s2c(2, &answer(0, "{}"));
        bench.s2c(1, &answer(0, "{}"));
        bench.out.clear();
        bench.c2s(1, &call(7, "t"));
        bench.c2s(2, &call(7, "t"));
        bench.wait(HELD);
        let mut said = bench.said();
        said.sort();
        assert_eq!(said, expected, "{name}");
    }
}

#[test]
fn slow_relay_is_awaited_within_hold_time() {
    let mut bench = relay();
    bench.out.clear();
    bench.c2s(1, &call(7, "t"));
    bench.wait(HELD - 2);
    bench.c2s(2, &call(3, "t"));
    assert_eq!(bench.said(), ["2 inner called t 7 via relay"]);
}

/// Most servers have nothing behind them: what they are asked is said at once.
#[test]
fn server_without_children_holds_no_calls() {
    let mut bench = Bench::new();
    bench.server(1, 5, "s", 9);
    bench.c2s(1, &call(7, "t"));
    assert_eq!(bench.said(), ["1 s called t 7"]);
    assert_eq!(bench.engine.exchange.relays().count(), 0);
}

/// An agent that is behind takes in what was passed on at once a good while later.
#[test]
fn relay_hold_time_uses_capture_timestamps() {
    let mut bench = relay();
    bench.out.clear();
    let captured = bench.now;
    for (connection, id) in [(1, 7), (2, 3)] {
        bench.now += HELD * MS;
        let (text, time) = (call(id, "t"), Timestamp(captured + connection));
        let (connection, direction) = (ConnectionId(connection), Direction::ClientToServer);
        bench.input(Input::Frame {
            connection,
            direction,
            time,
            bytes: text.as_bytes(),
            http: None,
            turn: None,
        });
    }
    assert_eq!(bench.said(), ["2 inner called t 7 via relay"]);
}
