//! Tables of results and requests, and how they go on.

use super::*;

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

#[test]
fn results_are_told_apart() {
    use ResultKind::{Complete, InputRequired, Task};
    let cases = [
        ("nothing", "{}", Complete, false),
        ("a result of old", r#"{"content":[]}"#, Complete, false),
        ("complete", r#"{"resultType":"complete","content":[]}"#, Complete, false),
        ("a kind of tomorrow", r#"{"resultType":"stream"}"#, Complete, false),
        ("input", r#"{"resultType":"input_required","inputRequests":{"a":{}}}"#, InputRequired, true),
        ("state alone", r#"{"resultType":"input_required","requestState":"s"}"#, InputRequired, false),
        (
            "escapes",
            r#"{"result\u0054ype":"input\u005frequired","input\u0052equests":{}}"#,
            InputRequired,
            true,
        ),
        ("without a kind", r#"{"inputRequests":{"a":{}}}"#, Complete, true),
        ("called complete", r#"{"resultType":"complete","inputRequests":{"a":{}}}"#, Complete, true),
        ("a kind that is no text", r#"{"resultType":["input_required"],"inputRequests":{}}"#, Complete, true),
        (
            "with a content",
            r#"{"resultType":"input_required","content":[],"inputRequests":{}}"#,
            Complete,
            true,
        ),
        (
            "with messages",
            r#"{"resultType":"input_required","messages":[],"inputRequests":{}}"#,
            Complete,
            true,
        ),
        ("nothing is asked", r#"{"resultType":"input_required","inputRequests":null}"#, InputRequired, false),
        (
            "the last of two kinds",
            r#"{"resultType":"complete","resultType":"input_required"}"#,
            InputRequired,
            false,
        ),
        ("a task", r#"{"resultType":"task","taskId":"t","status":"working"}"#, Task, false),
        ("a task with a content", r#"{"resultType":"task","taskId":"t","content":[]}"#, Complete, false),
        ("a task of old", r#"{"task":{"taskId":"t","status":"working"}}"#, Complete, false),
        ("another case", r#"{"ResultType":"input_required","InputRequests":{}}"#, Complete, false),
        ("no object", r#"["input_required"]"#, Complete, false),
    ];
    for (name, json, kind, asks) in cases {
        let course = Course::of(json);
        assert_eq!((course.kind, course.inputs.is_some()), (kind, asks), "{name}");
    }
}

#[test]
fn ends_of_tasks_are_known() {
    let cases = [
        (r#"{"taskId":"t","status":"working"}"#, false),
        (r#"{"taskId":"t","status":"input_required","inputRequests":{}}"#, false),
        (r#"{"taskId":"t","status":"completed"}"#, true),
        (r#"{"taskId":"t","status":"completed","result":{}}"#, true),
        (r#"{"taskId":"t","status":"failed","error":{"code":1}}"#, true),
        (r#"{"taskId":"t","status":"cancelled"}"#, true),
        (r#"{"taskId":"t","status":"working","result":{"content":[]}}"#, true),
        (r#"{"taskId":"t","result":null}"#, false),
        (r#"{"status":["completed"]}"#, false),
        ("{}", false),
    ];
    for (json, expected) in cases {
        assert_eq!(Course::of(json).is_over(), expected, "{json}");
    }
}

#[test]
fn task_ids_of_both_revisions_are_read() {
    for json in [r#"{"taskId":"t"}"#, r#"{"task":{"taskId":"t"}}"#, r#"{"taskId":"t","task":{"taskId":"u"}}"#]
    {
        assert_eq!(Course::of(json).task.map(RawValue::get), Some(r#""t""#), "{json}");
    }
    assert!(Course::of(r#"{"task":"t"}"#).task.is_none());
}

#[test]
fn retries_are_read() {
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
    let cases = [
        ("{}".to_owned(), (false, false, false)),
        (r#"{"_meta":{"progressToken":1}}"#.to_owned(), (false, false, false)),
        (format!("{{{meta}}}"), (false, false, true)),
        (r#"{"requestState":"s"}"#.to_owned(), (false, true, true)),
        (r#"{"inputResponses":{}}"#.to_owned(), (true, false, true)),
        (r#"{"inputResponses":null,"requestState":null}"#.to_owned(), (false, false, false)),
        (format!(r#"{{"inputResponses":{{}},"requestState":"s",{meta}}}"#), (true, true, true)),
        (r#"{"arguments":{"requestState":"s"}}"#.to_owned(), (false, false, false)),
    ];
    for (json, expected) in cases {
        let params = raw(&json);
        let retry = Retry::of(Some(&params));
        assert_eq!((retry.responses.is_some(), retry.state.is_some(), retry.has_rounds), expected, "{json}");
    }
    assert!(!Retry::of(None).has_rounds);
    let listen = raw(r#"{"notifications":{"taskIds":["t"]}}"#);
    assert_eq!(Retry::of(Some(&listen)).tasks.map(RawValue::get), Some(r#"["t"]"#));
}

#[test]
fn entries_of_objects_and_arrays_are_read() {
    let keys = |json: &str| {
        let raw = raw(json);
        entries(&raw).map(|entries| entries.into_iter().map(|(key, _)| key).collect::<Vec<_>>())
    };
    assert_eq!(keys(r#"{"a":1,"b":2,"a":3}"#).unwrap(), ["a", "b", "a"]);
    assert_eq!(keys("[1,2]").unwrap(), ["0", "1"]);
    assert_eq!(keys("{}").unwrap(), [""; 0]);
    assert_eq!(keys("\"a\""), None);
}

#[test]
fn user_accepts_to_whoever_reads_it_so() {
    for (result, expected) in [
        (r#"{"action":"accept","content":{}}"#, true),
        (r#"{"Action":"accept"}"#, true),
        (r#"{"action":"decline","Action":"accept"}"#, true),
        (r#"{"action":"accept","action":"decline"}"#, true),
        (r#"{"action":"Accept"}"#, true),
        (r#"{"\u0061ction":"accept"}"#, true),
        (r#"{"action":"decline","content":{"action":"accept"}}"#, false),
        (r#"{"action":"cancel"}"#, false),
        (r#"{"content":{"action":"accept"}}"#, false),
        (r#"{"action":["accept"]}"#, false),
        ("null", false),
    ] {
        assert_eq!(accepts(result), expected, "{result}");
    }
}
