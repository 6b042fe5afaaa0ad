//! A read counts from its answer: before that there is no data.

use super::*;

/// The answer of 2025-11-25 that makes a task of a call.
const TASK: &str = r#"{"task":{"taskId":"t","status":"working"}}"#;
const INPUT: &str = r#"{"resultType":"input_required","requestState":"s"}"#;

#[test]
fn read_counts_from_its_answer() {
    let only = |config: &mut CrossServerConfig| config.cross_server_flow.enabled = false;
    let read = Q(100.0, "a", "read_x", "allow");
    table(
        only,
        &[
            ("late", &[read, R(160.0, "a"), C(165.0, "b", "send_x", None, "read_then_send")]),
            ("at the edge", &[read, R(160.0, "a"), C(190.0, "b", "send_x", None, "read_then_send")]),
            ("behind it", &[read, R(160.0, "a"), C(190.1, "b", "send_x", None, "allow")]),
            ("no data yet", &[L(0.0, "b"), read, C(101.0, "b", "send_x", None, "allow"), R(105.0, "a")]),
            (
                "and then",
                &[
                    read,
                    C(101.0, "b", "send_x", None, "allow"),
                    R(105.0, "a"),
                    C(106.0, "b", "send_x", None, "read_then_send"),
                ],
            ),
            ("never answered", &[read, C(120.0, "b", "send_x", None, "allow")]),
            ("an error", &[read, A(101.0, "a", None), C(102.0, "b", "send_x", None, "allow")]),
            ("nothing", &[read, A(101.0, "a", Some("null")), C(102.0, "b", "send_x", None, "allow")]),
            (
                "an error is the end",
                &[read, A(101.0, "a", None), R(102.0, "a"), C(103.0, "b", "send_x", None, "allow")],
            ),
            (
                "a tool that tells of its failure",
                &[
                    read,
                    A(101.0, "a", Some(r#"{"content":[],"isError":true}"#)),
                    C(102.0, "b", "send_x", None, "read_then_send"),
                ],
            ),
            (
                "a task",
                &[
                    read,
                    A(101.0, "a", Some(TASK)),
                    C(102.0, "b", "send_x", None, "allow"),
                    R(200.0, "a"),
                    C(201.0, "b", "send_x", None, "read_then_send"),
                ],
            ),
            (
                "what requires input",
                &[read, A(101.0, "a", Some(INPUT)), C(102.0, "b", "send_x", None, "allow")],
            ),
            ("an answer of another server", &[read, R(101.0, "c"), C(102.0, "b", "send_x", None, "allow")]),
            (
                "two reads, one answered",
                &[
                    read,
                    Q(100.0, "c", "read_x", "allow"),
                    R(101.0, "c"),
                    C(102.0, "b", "send_x", None, "read_then_send"),
                ],
            ),
            ("answered twice", &[read, R(101.0, "a"), R(140.0, "a"), C(141.0, "b", "send_x", None, "allow")]),
        ],
    );
    let only = |config: &mut CrossServerConfig| config.read_then_send.enabled = false;
    table(
        only,
        &[
            ("parallel calls", &[L(0.0, "b"), read, C(100.1, "b", "write_x", None, "allow"), R(101.0, "a")]),
            ("data in the turn", &[read, R(101.0, "a"), C(102.0, "b", "write_x", None, "cross_server_flow")]),
            (
                "data in a later turn than its call",
                &[
                    L(0.0, "b"),
                    read,
                    C(140.0, "b", "weather", None, "allow"),
                    R(160.0, "a"),
                    C(161.0, "b", "write_x", None, "cross_server_flow"),
                ],
            ),
        ],
    );
}

/// Where answers were not captured, the data may have come.
#[test]
fn lost_answers_count_as_data() {
    for (connection, expected) in [(7, "read_then_send"), (8, "allow")] {
        let mut guard = guard(|_| {});
        play(&mut guard, &[Q(100.0, "a", "read_x", "allow")], true);
        guard.lost(&SessionId("sess_1".into()), ConnectionId(connection), at(160.0));
        play(&mut guard, &[C(165.0, "b", "send_x", None, expected)], true);
    }
}

/// Reads that are never answered are forgotten, counted where it is for want of room.
#[test]
fn unanswered_reads_are_bounded() {
    let mut guard = guard(|config| config.burst.enabled = false);
    let session = SessionId("sess_1".into());
    for number in 0..MAX_READS + 5 {
        ask_only(&mut guard, &World::server("a"), "read_x", at(number as f64), true);
    }
    assert_eq!((guard.sessions[&session].records(), guard.records_dropped), (MAX_READS, 5));
    let idle = guard.config.session_idle.0.as_secs_f64();
    ask_only(&mut guard, &World::server("a"), "read_x", at(MAX_READS as f64 + 5.0 + idle), true);
    assert_eq!(guard.sessions[&session].records(), 1);
    // Reads within the window, while another server is there.
    let mut guard = self::guard(|config| config.burst.enabled = false);
    play(&mut guard, &[L(0.0, "b"), C(0.0, "c", "read_x", None, "allow")], true);
    for number in 0..2 * MAX_READS {
        ask(&mut guard, &World::server("b"), "read_x", at(number as f64 / 1e3), true);
    }
    assert!(guard.sessions[&session].records() <= 4 * MAX_READS);
    play(&mut guard, &[C(2.0, "b", "send_x", None, "read_then_send")], true);
}
