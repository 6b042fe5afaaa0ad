//! What wants to be expensive.

use super::*;

fn tool(index: usize, name: &str, arguments: &str) -> String {
    let call = format!(
        r#"{{"index":{index},"id":"{index}","function":{{"name":"{name}","arguments":"{arguments}"}}}}"#
    );
    format!("data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{call}]}}}}]}}\n\n")
}

#[test]
fn calls_beyond_the_bound_are_counted() {
    let body: String = (0..50).map(|index| tool(index, "f", "{}")).collect();
    let (lines, counters) = read(LIMITS, body.as_bytes(), 100);
    assert_eq!(lines.iter().filter(|line| line.starts_with("called")).count(), 16);
    assert_eq!(lines.iter().filter(|line| *line == "missing TooManyCalls").count(), 1);
    assert_eq!(counters.calls_dropped, 34);
}

#[test]
fn numbers_at_their_bounds_are_numbers() {
    for number in ["4294967295", "4294967296", "18446744073709551615", "-1", "1e99"] {
        let call = format!(r#"{{"index":{number},"function":{{"name":"f","arguments":"{{}}"}}}}"#);
        let delta =
            format!(r#"{{"index":{number},"delta":{{"tool_calls":[{call}]}},"finish_reason":"stop"}}"#);
        let body = format!("data: {{\"choices\":[{delta}]}}\n\n");
        let (lines, _) = read(LIMITS, body.as_bytes(), 1000);
        assert!(lines.iter().any(|line| line.starts_with("called")), "{number}: {lines:?}");
    }
}

#[test]
fn long_arguments_are_said_by_their_length() {
    let body: String = (0..100).map(|_| tool(0, "f", &"x".repeat(100))).collect();
    let (lines, counters) = read(LIMITS, body.as_bytes(), 77);
    assert_eq!(lines[2], "called 0 0 f too long 10000");
    assert_eq!(counters.arguments_too_long, 1);
}

#[test]
fn long_names_are_cut() {
    let body = tool(0, &"é".repeat(100), "{}");
    let (lines, counters) = read(LIMITS, body.as_bytes(), 1000);
    assert_eq!(lines[1], format!("named 0 0 {}", "é".repeat(32)));
    assert_eq!(counters.names_cut, 1);
    // One that grows without an end.
    let body: String = (0..1000).map(|at| tool(0, &format!("abcdefgh{at}"), "")).collect();
    let (lines, _) = read(LIMITS, body.as_bytes(), 1000);
    assert!(lines.len() < 12, "{}", lines.len());
}

#[test]
fn long_values_are_left_out_and_reading_goes_on() {
    let long =
        format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n", "x".repeat(70_000));
    let body = [tool(0, "f", "{}"), long, tool(1, "g", "{}")].concat();
    let (lines, counters) = read(LIMITS, body.as_bytes(), 1000);
    assert!(
        lines.contains(&"missing TooLong".to_owned()) && lines.contains(&"called 1 1 g {}".to_owned()),
        "{lines:?}"
    );
    assert_eq!(counters.values_too_long, 1);
    // As an element of an array, and as a whole.
    let long =
        format!(r#"{{"candidates":[{{"content":{{"parts":[{{"text":"{}"}}]}}}}]}}"#, "x".repeat(70_000));
    let call = r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}}]}}]}"#;
    let (lines, _) = read(LIMITS, format!("[{call},{long},{call}]").as_bytes(), 1000);
    assert_eq!(lines.iter().filter(|line| line.starts_with("called")).count(), 2, "{lines:?}");
    let (lines, counters) = read(LIMITS, long.as_bytes(), 1000);
    assert_eq!((lines.len(), counters.values_too_long, counters.unrecognised), (0, 1, 1));
}

/// Nesting of any depth, in texts, arguments and around the answer: nothing overflows.
#[test]
fn deep_nesting_is_read() {
    let limits = IntentLimits { value_bytes: 8 << 20, argument_bytes: 4 << 20, ..LIMITS };
    let deep = |open: &str, close: &str| open.repeat(1_000_000) + &close.repeat(1_000_000);
    let input = format!("{{\"a\":{}}}", deep("[", "]"));
    let body = format!(
        r#"{{"type":"message","content":[{{"type":"tool_use","id":"a","name":"f","input":{input}}}]}}"#
    );
    let (lines, _) = read(limits, body.as_bytes(), 1 << 16);
    assert_eq!((lines.len(), lines[2].len()), (4, "called 0 a f ".len() + input.len()));
    for body in
        [deep("[", "]"), deep("{\"response\":", "}"), format!(r#"{{"choices":[{}]}}"#, deep("[", "]"))]
    {
        read(limits, body.as_bytes(), 1 << 16);
        Request::of(body.as_bytes(), &limits);
    }
}

/// Blanks, empty events and keep-alives without an end hold nothing.
#[test]
fn endless_answers_hold_bounded_memory() {
    for (name, first, more) in [
        ("blanks", "", " \n"),
        ("comments", ": x\n\n", ": keep-alive\n\n"),
        ("pings", "data: {}\n\n", "event: ping\ndata: {\"type\": \"ping\"}\n\n"),
        ("texts", "data: {}\n\n", "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n"),
        ("an array", "[", "{\"candidates\":[]},\n"),
        ("elements that are none", "[", "1,"),
    ] {
        let mut answer = Answer::new(LIMITS);
        answer.push(first.as_bytes(), &mut |_| {});
        let many = more.repeat(100);
        for _ in 0..100 {
            answer.push(many.as_bytes(), &mut |_| {});
            assert!(answer.held() < 100, "{name}: {}", answer.held());
        }
    }
    // A message of an event stream that says it has 4 GiB.
    let prelude = [0x00u8, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0];
    let mut answer = Answer::new(LIMITS);
    answer.push(&prelude, &mut |_| {});
    answer.push(&crate::eventstream::crc32(&prelude).to_be_bytes(), &mut |_| {});
    for _ in 0..100 {
        answer.push(&[0; 1000], &mut |_| {});
        assert!(answer.held() == 0);
    }
    assert_eq!(answer.counters().values_too_long, 1);
}
