//! When the turn of a session goes on: what is asked in it has no final answer yet.

use super::judge::bench;
use super::rounds::meta;
use super::*;

/// What is asked, how it is answered, and whether the turn goes on for longer than a pause.
type Case<'a> = (&'a str, Vec<&'a str>, bool);

/// A prompt or a resource in several tries ends with its final answer, as a call does.
#[test]
fn turn_ends_with_the_final_answer() {
    const STATE: &str =
        r#"{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}},"requestState":"s"}"#;
    const NO_STATE: &str = r#"{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}"#;
    const ALONE: &str = r#"{"resultType":"input_required","requestState":"s"}"#;
    const END: &str = r#"{"resultType":"complete","messages":[],"contents":[],"content":[]}"#;
    const OLD: &str = r#"{"messages":[],"contents":[],"content":[]}"#;
    const BOTH: &str =
        r#"{"resultType":"input_required","requestState":"s","messages":[],"contents":[],"content":[]}"#;
    const ERROR: &str = "";
    let cases: [Case<'_>; 12] = [
        ("no answer", vec![], true),
        ("an end", vec![END], false),
        ("an end of an older revision", vec![OLD], false),
        ("an error", vec![ERROR], false),
        ("input with a state", vec![STATE], true),
        ("input without one", vec![NO_STATE], true),
        ("a state alone", vec![ALONE], true),
        ("an end that asks besides", vec![BOTH], false),
        ("an end at the second try", vec![STATE, END], false),
        ("an error at the second try", vec![STATE, ERROR], false),
        ("input at the second try", vec![STATE, STATE], true),
        ("an end at the third try", vec![STATE, NO_STATE, END], false),
    ];
    let asked = [
        ("prompts/get", r#""name":"p""#),
        ("resources/read", r#""uri":"x://a""#),
        ("tools/call", r#""name":"read_file","arguments":{}"#),
    ];
    for ((method, params), (name, answers, goes_on)) in
        asked.iter().flat_map(|asked| cases.iter().map(move |case| (asked, case)))
    {
        let mut bench = bench("cross_server: { turn_gap: 1s, read_then_send: { enabled: false } }");
        let meta = meta();
        let ask = |id: usize, more: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"_meta":{meta},{params}{more}}}}}"#
            )
        };
        // What is read before is what a send would be held against.
        bench.c2s(1, &call(4, "read_file"));
        bench.s2c(1, &answer(4, OLD));
        bench.c2s(1, &ask(5, ""));
        for (at, result) in answers.iter().enumerate() {
            let id = 5 + u32::try_from(at).unwrap();
            if at > 0 {
                let state =
                    if answers[at - 1].contains("requestState") { r#","requestState":"s""# } else { "" };
                bench.c2s(1, &ask(5 + at, &format!(r#"{state},"inputResponses":{{"a":{{"roots":[]}}}}"#)));
            }
            match *result {
                ERROR => bench.s2c(1, &super::eras::refused(id, -32603)),
                result => bench.s2c(1, &answer(id, result)),
            }
        }
        bench.wait(10_000);
        bench.c2s(2, &call(9, "send_mail"));
        let events = bench.events();
        let blocked = events.iter().any(|event| event["type"] == "mcp_cross_server_blocked");
        assert_eq!(blocked, *goes_on, "{method}: {name}");
    }
}
