mod answers;
mod details;

use serde_json::value::RawValue;

use super::super::tests::{SECOND, World, at};
use super::session::{MAX_OLD_READS, MAX_READS, MAX_RECORDS};
use super::*;
use crate::guard::{Decision, Denial};

/// One step of a session.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// At this second this server lists its tools.
    List(f64, &'static str),
    /// At this second this server's tool is called, in this turn, and the rule says this. What reads has its data at once.
    Call(f64, &'static str, &'static str, Option<&'static str>, &'static str),
    /// The same without an answer.
    Ask(f64, &'static str, &'static str, &'static str),
    /// At this second a result comes of this server.
    Result(f64, &'static str),
    /// The same, and it is this one; none is an error.
    Answer(f64, &'static str, Option<&'static str>),
}
use Step::{Answer as A, Ask as Q, Call as C, List as L, Result as R};

/// A result with data.
const DATA: &str = r#"{"content":[{"type":"text","text":"x"}]}"#;

fn guard(change: impl FnOnce(&mut CrossServerConfig)) -> CrossServer {
    let mut config = CrossServerConfig::default();
    change(&mut config);
    CrossServer::new(config, Arc::new(Classifier::default()))
}

/// Asks and settles; a denial is enforced or not. What reads, and is not stopped, is answered at once.
fn ask(guard: &mut CrossServer, world: &World, tool: &str, now: Timestamp, enforced: bool) -> Option<Denial> {
    let denied = ask_only(guard, world, tool, now, enforced);
    let reads = Classifier::default().category("a", tool) == ToolCategory::Read;
    if reads && !(enforced && denied.is_some()) {
        answer(guard, world, now, Some(DATA));
    }
    denied
}

fn answer(guard: &mut CrossServer, world: &World, now: Timestamp, result: Option<&str>) {
    let result = result.map(|json| RawValue::from_string(json.to_owned()).unwrap());
    let operation = Operation::ToolResult { tool_name: "x", result: result.as_deref(), error: None };
    guard.settled(&operation, &world.facts(), &Verdict::default(), now);
}

fn ask_only(
    guard: &mut CrossServer,
    world: &World,
    tool: &str,
    now: Timestamp,
    enforced: bool,
) -> Option<Denial> {
    let operation = Operation::ToolInvoke { tool_name: tool, arguments: None };
    let facts = world.facts();
    let denied = match guard.check(&operation, &facts, now) {
        Ok(Decision::Deny(denial)) => Some(denial),
        Ok(Decision::Allow) => None,
        other => panic!("{other:?}"),
    };
    let verdict = Verdict {
        enforced: denied.is_some() && enforced,
        denied: denied.clone().map(|denial| (GuardKind::CrossServer, denial)),
        ..Verdict::default()
    };
    guard.settled(&operation, &facts, &verdict, now);
    denied
}

fn play(guard: &mut CrossServer, steps: &[Step], enforced: bool) {
    for (index, step) in steps.iter().enumerate() {
        match *step {
            L(second, server) => {
                let operation = Operation::ToolsList { tools: &[] };
                let world = World::server(server);
                guard.settled(&operation, &world.facts(), &Verdict::default(), at(second));
            }
            R(second, server) => answer(guard, &World::server(server), at(second), Some(DATA)),
            A(second, server, result) => answer(guard, &World::server(server), at(second), result),
            Q(second, server, tool, expected) => {
                let denied = ask_only(guard, &World::server(server), tool, at(second), enforced);
                let code = denied.as_ref().map_or("allow", |denial| denial.code.name());
                assert_eq!(code, expected, "step {index} of {steps:?}");
            }
            C(second, server, tool, turn, expected) => {
                let world = World { turn: turn.map(str::to_owned), ..World::server(server) };
                let denied = ask(guard, &world, tool, at(second), enforced);
                let code = denied.as_ref().map_or("allow", |denial| denial.code.name());
                assert_eq!(code, expected, "step {index} of {steps:?}");
            }
        }
    }
}

fn table(change: impl Fn(&mut CrossServerConfig), cases: &[(&str, &[Step])]) {
    for (name, steps) in cases {
        println!("{name}");
        play(&mut guard(&change), steps, true);
    }
}

#[test]
fn read_then_send_across_servers_is_denied() {
    let only = |config: &mut CrossServerConfig| config.cross_server_flow.enabled = false;
    table(
        only,
        &[
            (
                "read from A, send from B",
                &[C(0.0, "a", "read_x", None, "allow"), C(2.0, "b", "send_x", None, "read_then_send")],
            ),
            (
                "in letters that look alike, and in full-width ones",
                &[
                    C(0.0, "a", "re\u{430}d_x", None, "allow"),
                    C(2.0, "b", "\u{ff53}\u{ff45}\u{ff4e}\u{ff44}_x", None, "read_then_send"),
                ],
            ),
            (
                "the same server",
                &[L(0.0, "b"), C(0.0, "a", "read_x", None, "allow"), C(2.0, "a", "send_x", None, "allow")],
            ),
            (
                "the window is inclusive at its edge",
                &[
                    L(0.0, "b"),
                    C(0.0, "a", "read_x", None, "allow"),
                    C(30.0, "b", "send_x", None, "read_then_send"),
                ],
            ),
            (
                "and over behind it",
                &[
                    L(0.0, "b"),
                    C(0.0, "a", "read_x", None, "allow"),
                    C(30.000_001, "b", "send_x", None, "allow"),
                ],
            ),
            (
                "a write is no send",
                &[
                    C(0.0, "a", "read_x", None, "allow"),
                    C(2.0, "b", "write_x", None, "allow"),
                    C(2.0, "b", "weather", None, "allow"),
                    C(2.0, "b", "run_x", None, "allow"),
                ],
            ),
            (
                "what was recorded out of order counts",
                &[C(2.0, "a", "read_x", None, "allow"), C(1.0, "b", "send_x", None, "read_then_send")],
            ),
        ],
    );
    let off = |config: &mut CrossServerConfig| {
        config.cross_server_flow.enabled = false;
        config.read_then_send.enabled = false;
    };
    table(off, &[("off", &[C(0.0, "a", "read_x", None, "allow"), C(2.0, "b", "send_x", None, "allow")])]);
}

#[test]
fn only_executed_call_is_recorded_as_read() {
    let steps = |last| {
        [
            L(0.0, "b"),
            C(0.0, "a", "read_x", None, "allow"),
            C(20.0, "a", "read_x", None, "burst"),
            C(40.0, "b", "send_x", None, last),
        ]
    };
    let strict = |config: &mut CrossServerConfig| {
        config.burst.max_calls = 1;
        config.burst.window.0 = Duration::from_secs(20);
        config.cross_server_flow.enabled = false;
    };
    play(&mut guard(strict), &steps("allow"), true);
    play(&mut guard(strict), &steps("read_then_send"), false);
}

#[test]
fn burst_denies_eleventh_call_in_five_seconds() {
    let calls = |server: &'static str, times: &[f64], last: &'static str| {
        let mut steps = vec![L(0.0, "a"), L(0.0, "b")];
        steps.extend(times.iter().map(|second| C(*second, server, "weather", None, "allow")));
        if let Some(C(.., expected)) = steps.last_mut() {
            *expected = last;
        }
        steps
    };
    let even = |count: u32, seconds: f64| -> Vec<f64> {
        (0..count).map(|index| f64::from(index) * seconds / f64::from(count - 1)).collect()
    };
    for (name, steps) in [
        ("nine", calls("a", &even(9, 4.0), "allow")),
        ("ten", calls("a", &even(10, 4.0), "allow")),
        ("eleven", calls("a", &even(11, 4.0), "burst")),
        ("the window is inclusive at its edge", calls("a", &even(11, 5.0), "burst")),
        ("and over behind it", calls("a", &even(11, 5.001), "allow")),
    ] {
        println!("{name}");
        play(&mut guard(|_| {}), &steps, true);
    }
    // Calls of another server do not count, and attempts that were stopped do.
    let mut guard = guard(|_| {});
    play(&mut guard, &calls("a", &even(11, 1.0), "burst"), true);
    play(&mut guard, &[C(1.0, "b", "weather", None, "allow"), C(5.0, "a", "weather", None, "burst")], true);
    play(&mut guard, &[C(6.0, "a", "weather", None, "allow")], true);
}

#[test]
fn cross_server_flow_follows_the_named_turn() {
    let only = |config: &mut CrossServerConfig| config.read_then_send.enabled = false;
    let (one, two) = (Some("req-1"), Some("req-2"));
    table(
        only,
        &[
            (
                "the same turn, however late",
                &[
                    C(0.0, "a", "read_x", one, "allow"),
                    R(0.0, "a"),
                    C(25.0, "b", "write_x", one, "cross_server_flow"),
                ],
            ),
            (
                "beyond every window, with a call in between",
                &[
                    L(0.0, "b"),
                    C(0.0, "a", "read_x", one, "allow"),
                    C(60.0, "b", "weather", one, "allow"),
                    C(120.0, "b", "write_x", one, "cross_server_flow"),
                ],
            ),
            (
                "beyond every window, in another turn",
                &[
                    L(0.0, "b"),
                    C(0.0, "a", "read_x", one, "allow"),
                    C(60.0, "b", "weather", two, "allow"),
                    C(120.0, "b", "write_x", two, "allow"),
                ],
            ),
            (
                "a send is a flow too",
                &[C(0.0, "a", "read_x", one, "allow"), C(1.0, "b", "send_x", one, "cross_server_flow")],
            ),
            (
                "another turn, however soon",
                &[C(0.0, "a", "read_x", one, "allow"), C(0.1, "b", "write_x", two, "allow")],
            ),
            (
                "the same server",
                &[L(0.0, "b"), C(0.0, "a", "read_x", one, "allow"), C(0.1, "a", "write_x", one, "allow")],
            ),
            (
                "turns that interleave",
                &[
                    L(0.0, "b"),
                    C(0.0, "a", "read_x", one, "allow"),
                    C(0.1, "a", "read_x", two, "allow"),
                    C(0.2, "b", "write_x", one, "cross_server_flow"),
                ],
            ),
        ],
    );
}

#[test]
fn cross_server_flow_infers_turns_from_pauses() {
    let only = |config: &mut CrossServerConfig| config.read_then_send.enabled = false;
    table(
        only,
        &[
            (
                "a pause of turn_gap is in the turn",
                &[
                    Q(0.0, "a", "read_x", "allow"),
                    R(5.0, "a"),
                    C(7.0, "b", "write_x", None, "cross_server_flow"),
                ],
            ),
            (
                "a longer one is not",
                &[Q(0.0, "a", "read_x", "allow"), R(5.0, "a"), C(7.001, "b", "write_x", None, "allow")],
            ),
            (
                "a call that waits for its result keeps the turn open",
                &[
                    C(0.0, "a", "weather", None, "allow"),
                    C(0.0, "a", "read_x", None, "allow"),
                    C(10.0, "b", "write_x", None, "cross_server_flow"),
                ],
            ),
            (
                "a turn that goes on beyond every window",
                &[
                    C(0.0, "a", "weather", None, "allow"),
                    C(0.0, "a", "read_x", None, "allow"),
                    L(0.0, "b"),
                    C(29.0, "b", "weather", None, "allow"),
                    C(58.0, "b", "weather", None, "allow"),
                    C(87.0, "b", "write_x", None, "cross_server_flow"),
                ],
            ),
            (
                "but not for longer than records are kept",
                &[L(0.0, "b"), C(0.0, "a", "read_x", None, "allow"), C(31.0, "b", "write_x", None, "allow")],
            ),
            (
                "any call of the session goes on with the turn",
                &[
                    C(0.0, "a", "read_x", None, "allow"),
                    R(0.0, "a"),
                    C(2.0, "c", "weather", None, "allow"),
                    R(2.0, "c"),
                    C(4.0, "b", "write_x", None, "cross_server_flow"),
                ],
            ),
            (
                "one call has a named turn and one has none",
                &[
                    C(0.0, "a", "read_x", Some("req-1"), "allow"),
                    R(0.0, "a"),
                    C(1.0, "b", "write_x", None, "cross_server_flow"),
                ],
            ),
        ],
    );
    let window = |config: &mut CrossServerConfig| {
        config.read_then_send.enabled = false;
        config.cross_server_flow.same_turn_only = false;
    };
    table(
        window,
        &[
            (
                "same_turn_only: false goes by the window",
                &[
                    L(0.0, "b"),
                    C(0.0, "a", "read_x", Some("req-1"), "allow"),
                    R(0.0, "a"),
                    C(30.0, "b", "write_x", Some("req-2"), "cross_server_flow"),
                ],
            ),
            (
                "and not beyond it",
                &[
                    L(0.0, "b"),
                    C(0.0, "a", "read_x", None, "allow"),
                    C(30.001, "b", "write_x", None, "allow"),
                ],
            ),
        ],
    );
}

#[test]
fn cross_server_rules_wait_for_a_second_server() {
    let calls: Vec<Step> = (0..50).map(|_| C(0.0, "a", "read_x", None, "allow")).collect();
    let mut guard = guard(|_| {});
    play(&mut guard, &calls, true);
    let session = SessionId("sess_1".into());
    // Only the last read is remembered, for a server that comes late.
    assert_eq!(guard.sessions[&session].records(), 1);
    play(&mut guard, &[L(1.0, "b"), C(2.0, "b", "send_x", None, "read_then_send")], true);
    // The same server under the same name does not make two.
    let mut one = self::guard(|_| {});
    play(&mut one, &[L(0.0, "a"), L(0.0, "a")], true);
    play(&mut one, &calls, true);
    // `enabled: false` means none of it.
    let mut off = self::guard(|config| config.enabled = false);
    play(&mut off, &[C(0.0, "a", "read_x", None, "allow"), C(0.0, "b", "send_x", None, "allow")], true);
    assert!(off.sessions.is_empty());
}

/// What a turn with a name has read is remembered longer than anything else, of so many turns at most, the rest counted.
#[test]
fn reads_of_older_turns_are_bounded() {
    let mut guard = guard(|_| {});
    play(&mut guard, &[L(0.0, "b")], true);
    for turn in 0..MAX_OLD_READS + 10 {
        let world = World { turn: Some(format!("req-{turn}")), ..World::server("a") };
        assert_eq!(ask(&mut guard, &world, "read_x", at(40.0 * turn as f64 / 10.0), true), None);
    }
    assert_eq!(guard.records_dropped, 2);
    // A session that is silent for long is forgotten as a whole; in one that goes on, what is as old as that.
    let idle = guard.config.session_idle.0.as_secs_f64();
    let last = 40.0 * (MAX_OLD_READS + 9) as f64 / 10.0;
    play(&mut guard, &[C(last + idle, "a", "read_x", Some("req-x"), "allow")], true);
    assert_eq!(guard.records_dropped, 2);
}

#[test]
fn cross_server_history_is_isolated_per_session() {
    let mut guard = guard(|_| {});
    let other = World { session: SessionId("sess_2".into()), ..World::server("b") };
    play(&mut guard, &[L(0.0, "b"), C(0.0, "a", "read_x", None, "allow")], true);
    assert_eq!(ask(&mut guard, &other, "send_x", at(1.0), true), None);
}

/// However many calls come after a read, and however long the names are.
#[test]
fn read_is_not_evicted_by_later_calls() {
    let mut guard = guard(|config| config.burst.enabled = false);
    play(&mut guard, &[L(0.0, "a"), L(0.0, "b"), C(0.0, "a", "read_x", None, "allow")], true);
    for index in 0..MAX_RECORDS + 5 {
        ask(&mut guard, &World::server("c"), "weather", Timestamp(at(0.1).0 + index as u64), true);
    }
    play(&mut guard, &[C(2.0, "b", "send_mail", None, "read_then_send")], true);
    // Of a turn before the last, while there was one server.
    let mut guard = self::guard(|config| config.read_then_send.enabled = false);
    let steps = [
        C(0.0, "a", "read_x", Some("A"), "allow"),
        C(40.0, "a", "read_x", Some("B"), "allow"),
        C(80.0, "b", "write_x", Some("A"), "cross_server_flow"),
    ];
    play(&mut guard, &steps, true);

    for length in [128, 129, 256, 257, 1_000] {
        let long: &'static str = "s".repeat(length).leak();
        let turn: &'static str = "T".repeat(length).leak();
        let mut guard = self::guard(|_| {});
        // One server, whose name is long, is one.
        play(
            &mut guard,
            &[C(0.0, long, "read_x", None, "allow"), C(1.0, long, "send_x", None, "allow")],
            true,
        );
        play(&mut guard, &[L(2.0, "b")], true);
        for index in 0..10 {
            play(&mut guard, &[C(100.0 + f64::from(index) / 10.0, long, "weather", None, "allow")], true);
        }
        play(&mut guard, &[C(101.0, long, "weather", None, "burst")], true);
        let steps = [
            C(200.0, long, "read_x", Some(turn), "allow"),
            C(250.0, "b", "write_x", Some(turn), "cross_server_flow"),
        ];
        play(&mut guard, &steps, true);
    }
}

#[test]
fn cross_server_history_is_bounded() {
    // Records: those that no window reaches go with the next call, and 10,000 are the most.
    let mut guard = guard(|config| config.burst.enabled = false);
    let session = SessionId("sess_1".into());
    play(&mut guard, &[L(0.0, "a"), L(0.0, "b")], true);
    for index in 0..MAX_RECORDS + 5 {
        let now = Timestamp(at(0.0).0 + index as u64);
        ask(&mut guard, &World::server("a"), "weather", now, true);
    }
    assert_eq!((guard.sessions[&session].records(), guard.records_dropped), (MAX_RECORDS, 5));
    ask(&mut guard, &World::server("a"), "weather", at(31.0), true);
    assert_eq!(guard.sessions[&session].records(), 1);

    // Sessions: idle ones go when a new one comes, and the oldest where there are too many.
    let mut guard = self::guard(|_| {});
    let visit = |guard: &mut CrossServer, number: usize, seconds: f64| {
        let session = SessionId(format!("sess_{number}").into());
        let world = World { session, ..World::server("a") };
        ask(guard, &world, "weather", at(seconds), true);
    };
    for number in 0..=MAX_SESSIONS {
        visit(&mut guard, number, number as f64 / 1e3);
    }
    assert_eq!((guard.sessions.len(), guard.sessions_evicted), (MAX_SESSIONS, 1));
    assert!(!guard.sessions.contains_key(&SessionId("sess_0".into())));
    visit(&mut guard, 99_999, 3_600.0 + 10.0);
    assert_eq!((guard.sessions.len(), guard.sessions_evicted), (1, 1));
    assert_eq!(guard.counters()[0], ("cross_server_sessions_evicted", 1));

    // Names are kept once, and not for ever.
    let mut guard = self::guard(|_| {});
    for number in 0..MAX_NAMES + 10 {
        let now = Timestamp(at(0.0).0 + number as u64 * SECOND);
        ask(&mut guard, &World::server("a"), &format!("weather{number}"), now, true);
    }
    assert!(guard.names.len() <= MAX_NAMES);
}
