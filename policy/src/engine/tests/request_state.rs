//! `requestState` that comes back with something else than it was given for.

use super::judge::bench;
use super::rounds::{Case, DONE, RESPONSES, ask, calls, meta, play, required, with_state};
use super::*;

/// What only looks like another try is a call of its own, and what is wrong with its state is reported.
#[test]
fn misused_state_is_reported_and_a_call_of_its_own() {
    let first = || ('>', ask(5, "read_file", r#"{"a":1}"#, ""));
    let given = || ('<', required(5, Some("s")));
    let state = &*with_state("s");
    let same = |id| ('>', ask(id, "read_file", r#"{"a":1}"#, state));
    let done = |id| ('<', answer(id, DONE));
    let read = |uri: &str, more: &str| {
        let meta = meta();
        let params = format!(r#"{{"_meta":{meta},"uri":"{uri}"{more}}}"#);
        ('>', format!(r#"{{"jsonrpc":"2.0","id":6,"method":"resources/read","params":{params}}}"#))
    };
    let cases: Vec<Case<'_>> = vec![
        (
            "other arguments",
            vec![first(), given(), ('>', ask(6, "read_file", r#"{"a":2}"#, state))],
            &["called read_file 5", "found misused-state [given for other arguments]", "called read_file 6"],
        ),
        (
            "no arguments",
            vec![first(), given(), ('>', ask(6, "read_file", "null", state))],
            &["called read_file 5", "found misused-state [given for other arguments]", "called read_file 6"],
        ),
        (
            "another tool",
            vec![first(), given(), ('>', ask(6, "write_file", r#"{"a":1}"#, state))],
            &["called read_file 5", "found misused-state [given for another request]", "called write_file 6"],
        ),
        (
            "another method",
            vec![first(), given(), read("x://a", r#","requestState":"s""#)],
            &["called read_file 5", "found misused-state [given for another request]"],
        ),
        (
            "used twice",
            vec![first(), given(), same(6), done(6), same(7)],
            &[
                "called read_file 5",
                "result 5 ok 30 ms, 1 rounds",
                "found misused-state [used before]",
                "called read_file 7",
            ],
        ),
        (
            "used twice at once",
            vec![first(), given(), same(6), same(7), done(7), done(6)],
            &[
                "called read_file 5",
                "found misused-state [used before]",
                "called read_file 7",
                "result 7 ok 10 ms",
                "result 5 ok 50 ms, 1 rounds",
            ],
        ),
        ("never given", vec![same(6)], &["found misused-state [never given]", "called read_file 6"]),
        (
            "of another case",
            vec![first(), given(), ('>', ask(6, "read_file", r#"{"a":1}"#, &with_state("S")))],
            &["called read_file 5", "found misused-state [never given]", "called read_file 6"],
        ),
        (
            "longer than it was given",
            vec![first(), given(), ('>', ask(6, "read_file", r#"{"a":1}"#, &with_state("s ")))],
            &["called read_file 5", "found misused-state [never given]", "called read_file 6"],
        ),
        (
            "before it is given",
            vec![first(), same(6), given()],
            &["called read_file 5", "found misused-state [never given]", "called read_file 6"],
        ),
        (
            "with nothing of it",
            vec![first(), given(), ('>', ask(6, "read_file", r#"{"a":1}"#, ""))],
            &["called read_file 5", "called read_file 6"],
        ),
        (
            "responses without the state",
            vec![first(), given(), ('>', ask(6, "read_file", r#"{"a":1}"#, RESPONSES))],
            &["called read_file 5", "called read_file 6"],
        ),
        (
            "an end that asks besides",
            vec![
                first(),
                ('<', answer(5, r#"{"resultType":"input_required","content":[],"requestState":"s"}"#)),
                same(6),
                done(6),
            ],
            &["called read_file 5", "result 5 ok 10 ms", "called read_file 6", "result 6 ok 10 ms"],
        ),
        (
            "a kind that is missing",
            vec![first(), ('<', answer(5, r#"{"inputRequests":{},"requestState":"s"}"#)), same(6), done(6)],
            &["called read_file 5", "result 5 ok 10 ms", "called read_file 6", "result 6 ok 10 ms"],
        ),
    ];
    for (name, messages, expected) in cases {
        let mut bench = bench("");
        assert_eq!(play(&mut bench, &messages), expected, "{name}");
    }
}

/// A member that stands there twice, or in another case: what other readers read in it is no other try.
#[test]
fn ambiguous_retry_is_a_call_of_its_own() {
    let state = r#""requestState":"s""#;
    let cases = [
        ("the name", ask(6, "read_file", "{}", &format!(r#"{state},"name":"read_file""#))),
        ("the arguments", ask(6, "read_file", r#"{"path":"/etc"}"#, &format!(r#"{state},"arguments":{{}}"#))),
        ("the state", ask(6, "read_file", "{}", &format!(r#""requestState":"x",{state}"#))),
        (
            "the responses",
            ask(6, "read_file", "{}", &format!(r#"{state},"inputResponses":{{}},"inputResponses":{{}}"#)),
        ),
        ("the method", ask(6, "read_file", "{}", state).replacen('{', r#"{"method":"ping","#, 1)),
        ("the params", ask(6, "read_file", "{}", state).replacen('{', r#"{"params":{},"#, 1)),
    ];
    for (name, retry) in cases {
        let mut bench = bench("");
        let reported = play(
            &mut bench,
            &[('>', ask(5, "read_file", "{}", "")), ('<', required(5, Some("s"))), ('>', retry)],
        );
        assert!(reported.contains(&"called read_file 6".to_owned()), "{name}: {reported:?}");
        assert!(reported.iter().any(|line| line.starts_with("found dup")), "{name}: {reported:?}");
    }
}

/// A state of one server or user that comes back to another, or in another session.
#[test]
fn state_of_another_server_or_user_is_reported() {
    let mut bench = bench("");
    bench.exec_of(3, 30, "notes", 1000);
    bench.exec_of(4, 40, "notes", 1001);
    for connection in [3, 4] {
        bench.c2s(connection, HELLO);
        bench.s2c(connection, r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#);
    }
    bench.wait(251);
    bench.out.clear();
    let state = &*with_state("s");
    for connection in [1, 3] {
        bench.c2s(connection, &ask(5, "read_file", "{}", ""));
    }
    bench.s2c(1, &required(5, Some("s")));
    bench.c2s(2, &ask(6, "read_file", "{}", state));
    assert!(calls(&mut bench).contains(&"found misused-state [given by another server]".to_owned()));
    // By both now: each takes its own back.
    bench.s2c(3, &required(5, Some("s")));
    bench.c2s(4, &ask(7, "read_file", "{}", state));
    assert_eq!(calls(&mut bench), ["found misused-state [given to another user]", "called read_file 7"]);
    bench.c2s(3, &ask(8, "read_file", "{}", state));
    bench.c2s(1, &ask(9, "read_file", "{}", state));
    assert_eq!(calls(&mut bench), [""; 0]);
}

/// Where the agent has not seen everything, a state that it does not know may have been given.
#[test]
fn unknown_state_is_reported_only_where_all_was_seen() {
    let retry = ask(6, "read_file", "{}", &with_state("s"));
    type Change<'a> = (&'a str, fn(&mut Bench));
    let cases: [Change<'_>; 4] = [
        ("a gap", |bench| bench.gap(1, Direction::ServerToClient, 10)),
        ("an adopted server", |bench| {
            bench.exec_as(3, 30, "late", 9, &[], true);
            bench.c2s(3, HELLO);
            bench.s2c(3, r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#);
        }),
        ("states that were forgotten", |bench| {
            for n in 0..6 {
                bench.c2s(1, &ask(20 + n, "read_file", &format!("[{n}]"), ""));
                bench.s2c(1, &required(20 + n, Some(&format!("t{n}"))));
            }
        }),
        ("nothing", |_| {}),
    ];
    for (name, prepare) in cases {
        let mut bench = bench("");
        bench.engine.config.limits.handed_out_per_user = 4;
        prepare(&mut bench);
        bench.wait(251);
        bench.out.clear();
        bench.c2s(if name == "an adopted server" { 3 } else { 1 }, &retry);
        let found = calls(&mut bench).iter().any(|line| line.starts_with("found misused"));
        assert_eq!(found, name == "nothing", "{name}");
    }
}
