//! In which phases guards are asked, and what is recorded where they change it.

use std::sync::{Arc, Mutex};

use super::*;
use crate::guard::{
    Decision, Denial, DenialCode, Facts, Guard, GuardError, GuardKind, Modification, Operation, Phase,
};
use crate::guards::{Executor, Seat};
use crate::http::HttpMeta;

/// A guard that remembers what it was asked, and answers what it was told for a phase.
#[derive(Debug)]
struct Fake {
    asked: Arc<Mutex<Vec<String>>>,
    answers: Vec<(Phase, Decision)>,
}

impl Guard for Fake {
    fn kind(&self) -> GuardKind {
        GuardKind::ToolAccess
    }

    fn phases(&self) -> &'static [Phase] {
        &Phase::ALL
    }

    fn check(
        &mut self,
        operation: &Operation<'_>,
        _: &Facts<'_>,
        _: Timestamp,
    ) -> Result<Decision, GuardError> {
        let about = match operation {
            Operation::Request { method, .. } | Operation::Response { method, .. } => (*method).to_owned(),
            Operation::ToolsList { tools } => {
                tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>().join(",")
            }
            Operation::ToolInvoke { tool_name, .. } | Operation::ToolResult { tool_name, .. } => {
                (*tool_name).to_owned()
            }
            Operation::PromptRequest { name, .. } => (*name).to_owned(),
            Operation::ResourceRequest { uri, .. } => (*uri).to_owned(),
        };
        self.asked.lock().unwrap().push(format!("{} {about}", operation.phase().name()));
        let answer = self.answers.iter().find(|(phase, _)| *phase == operation.phase());
        Ok(answer.map_or(Decision::Allow, |(_, answer)| answer.clone()))
    }
}

/// What guards get to know of the server and the client of a connection.
fn metadata(bench: &mut Bench, id: ConnectionId) -> Option<serde_json::Value> {
    let Parts { mut cx, ev, .. } = bench.engine.parts(&mut bench.out);
    let scope = cx.connections.scope(id)?;
    ev.with_facts(&mut cx, &scope, crate::engine::evaluator::Topic::default(), |_, facts| {
        facts.metadata.clone()
    })
}

/// Who the server and its client are is told to guards that may not look themselves.
#[test]
fn guards_receive_process_metadata() {
    let mut bench = Bench::new();
    bench.exec_of(1, 5, "mcp-a", 1000);
    bench.c2s(1, HELLO);
    let told = metadata(&mut bench, ConnectionId(1));
    let server = serde_json::json!({"pid": 5, "uid": 1000, "cgroup_id": null, "executable": null});
    assert_eq!(told, Some(serde_json::json!({"server": server, "client": null})));
}

/// And what the head of an HTTP request says: of the latest.
#[test]
fn guards_receive_latest_http_request_metadata() {
    let mut bench = Bench::new();
    bench.exec_of(1, 5, "mcp-a", 1000);
    for (trace, call) in [("00-a-b-01", HELLO), ("00-c-d-01", &call(7, "x"))] {
        let http = HttpMeta {
            traceparent: Some(trace.into()),
            user_agent: Some("agent/1".into()),
            ..HttpMeta::default()
        };
        let (connection, direction, time) =
            (ConnectionId(1), Direction::ClientToServer, Timestamp(bench.now));
        bench.input(Input::Frame {
            connection,
            direction,
            time,
            bytes: call.as_bytes(),
            http: Some(&http),
            turn: None,
        });
        let told = metadata(&mut bench, connection);
        assert_eq!(
            told.map(|told| told["http"].clone()),
            Some(serde_json::json!({"traceparent": trace, "user_agent": "agent/1"}))
        );
    }
}

type Asked = Arc<Mutex<Vec<String>>>;

/// Server 1, whose guard gives these answers; and what it is asked.
fn bench(answers: Vec<(Phase, Decision)>) -> (Bench, Asked) {
    let mut bench = Bench::with(|config| config.verbose = true);
    bench.server(1, 5, "s", 9);
    let asked = Asked::default();
    let guard = Fake { asked: Arc::clone(&asked), answers };
    let seat = Seat {
        guard: 0,
        servers: Vec::new(),
        except: Vec::new(),
        priority: 50,
        timeout_ms: 1_000,
        failure_mode: Default::default(),
        phases: Phase::ALL.to_vec(),
    };
    bench.engine = bench.engine.with_judge(Judge::of(Executor::new(vec![Box::new(guard)], vec![seat])));
    (bench, asked)
}

/// A request of the client's and the answer to it, on connection 1.
fn exchange(bench: &mut Bench, method: &str, params: &str, result: &str) {
    bench.c2s(1, &format!(r#"{{"id":7,"method":"{method}","params":{params}}}"#));
    bench.s2c(1, &answer(7, result));
}

#[test]
fn every_request_and_response_reaches_the_guards() {
    let cases: &[(&str, &str, &str, &[&str])] = &[
        ("ping", "{}", "{}", &["request ping", "response ping"]),
        (
            "tools/call",
            r#"{"name":"t"}"#,
            "{}",
            &["request tools/call", "tool_invoke t", "tool_result t", "response tools/call"],
        ),
        (
            "tools/list",
            "{}",
            r#"{"tools":[{"name":"b"},{"name":"a"}]}"#,
            &["request tools/list", "tools_list a,b", "response tools/list"],
        ),
        (
            "prompts/get",
            r#"{"name":"p"}"#,
            "{}",
            &["request prompts/get", "prompt_request p", "response prompts/get"],
        ),
        (
            "resources/read",
            r#"{"uri":"u"}"#,
            "{}",
            &["request resources/read", "resource_request u", "response resources/read"],
        ),
    ];
    for (method, params, result, expected) in cases {
        let (mut bench, asked) = bench(Vec::new());
        exchange(&mut bench, method, params, result);
        assert_eq!(*asked.lock().unwrap(), *expected, "{method}");
    }
    let (mut bench, asked) = bench(Vec::new());
    bench.c2s(1, &call(7, "t"));
    bench.s2c(1, r#"{"id":7,"error":{"code":1,"message":"no"}}"#);
    bench.s2c(1, r#"{"id":8,"method":"roots/list"}"#);
    bench.c2s(1, &answer(8, "{}"));
    let expected = [
        "tool_invoke t",
        "tool_result t",
        "response tools/call",
        "request roots/list",
        "response roots/list",
    ];
    assert_eq!(asked.lock().unwrap()[1..], expected, "errors and the client's answers, too");
}

#[test]
fn paged_tool_list_is_evaluated_as_one() {
    let (mut bench, asked) = bench(Vec::new());
    exchange(&mut bench, "tools/list", "{}", r#"{"tools":[{"name":"b"}],"nextCursor":"x"}"#);
    exchange(&mut bench, "tools/list", r#"{"cursor":"x"}"#, r#"{"tools":[{"name":"a"}]}"#);
    let asked = asked.lock().unwrap();
    let lists: Vec<&String> = asked.iter().filter(|asked| asked.starts_with("tools_list")).collect();
    assert_eq!(lists, ["tools_list a,b"]);
}

#[test]
fn tools_removed_by_guard_are_reported_unregistered() {
    let kept = Modification::ReplaceTools(vec!["a".to_owned()]);
    let (mut bench, _) = bench(vec![(Phase::ToolsList, Decision::Modify(kept))]);
    for _ in 0..2 {
        exchange(&mut bench, "tools/list", "{}", r#"{"tools":[{"name":"a"},{"name":"b"}]}"#);
    }
    let said: Vec<String> = bench.said().into_iter().filter(|line| line.contains("warned")).collect();
    assert_eq!(said, ["1 s warned Response tools/list [] [b]"], "said once");
    let connection = bench.engine.connections.get(ConnectionId(1)).unwrap();
    assert_eq!(connection.tools.keys().map(|name| &**name).collect::<Vec<_>>(), ["a"]);
    assert!(bench.engine.evaluator.registry().tool(ConnectionId(1), "a").is_some());
    assert!(bench.engine.evaluator.registry().tool(ConnectionId(1), "b").is_none());
}

#[test]
fn response_denials_and_warnings_are_recorded() {
    let deny =
        Decision::Deny(Denial { code: DenialCode::ToolDenied, message: "because".into(), details: None });
    let warn = Decision::Modify(Modification::AddWarning { message: "look".into(), detections: Vec::new() });
    let cases: &[(&str, Phase, &Decision, &[&str])] = &[
        ("ping", Phase::Response, &deny, &["1 s blocked Response ping ToolAccess"]),
        ("ping", Phase::Response, &warn, &["1 s warned Response ping [look] []"]),
        ("ping", Phase::Request, &warn, &["1 s warned Request ping [look] []"]),
        ("tools/list", Phase::ToolsList, &deny, &["1 s blocked Response tools/list ToolAccess"]),
        ("tools/list", Phase::ToolsList, &warn, &["1 s warned Response tools/list [look] []"]),
    ];
    for (method, phase, decision, expected) in cases {
        let (mut bench, _) = bench(vec![(*phase, (*decision).clone())]);
        exchange(&mut bench, method, "{}", r#"{"tools":[]}"#);
        let mut said = bench.said();
        said.retain(|line| line.contains("blocked") || line.contains("warned"));
        assert_eq!(said, *expected, "{method} {phase:?}");
    }
    for (decision, action, field) in [(&deny, "block", "reason"), (&warn, "alert", "warnings")] {
        let (mut bench, _) = bench(vec![(Phase::ToolResult, decision.clone())]);
        exchange(&mut bench, "tools/call", r#"{"name":"t"}"#, "{}");
        let events = bench.events();
        let result = events.iter().find(|event| event["type"] == "mcp_tool_result").unwrap();
        assert_eq!((&result["action"], &result["enforced"]), (&action.into(), &false.into()), "{result}");
        assert!(!result[field].is_null(), "{result}");
    }
}

/// Payloads are full here: what a guard redacts is not recorded all the same.
#[test]
fn fields_redacted_by_guard_are_not_recorded() {
    let redact = |path: &str| {
        let (paths, replacement) = (vec![path.to_owned()], "[gone]".to_owned());
        Decision::Modify(Modification::RedactFields { paths, replacement })
    };
    let params =
        r#"{"name":"t","arguments":{"key":"secret","other":[{"key":"secret"}]},"_meta":{"key":"secret"}}"#;
    let result = r#"{"content":[{"text":"secret"}]}"#;
    // Which phase, what is redacted, what is asked, in which event and field it would be, and how often it stays.
    let cases = [
        (Phase::ToolInvoke, "$..key", "tools/call", "mcp_tool_called", "input", 0),
        (Phase::ToolInvoke, "$.key", "tools/call", "mcp_tool_called", "input", 1),
        (Phase::Request, "$..key", "tools/call", "mcp_tool_called", "input", 0),
        (Phase::Request, "$..key", "tools/call", "mcp_tool_called", "meta", 0),
        (Phase::ToolResult, "$.content[*].text", "tools/call", "mcp_tool_result", "result", 0),
        (Phase::Response, "$..text", "tools/call", "mcp_tool_result", "result", 0),
        (Phase::Request, "$..key", "x/y", "mcp_message", "payload", 0),
        (Phase::Response, "$..text", "x/y", "mcp_message", "payload", 0),
    ];
    for (phase, path, method, kind, field, expected) in cases {
        let (mut bench, _) = bench(vec![(phase, redact(path))]);
        exchange(&mut bench, method, params, result);
        let events = bench.events();
        // Of a request the first message, of an answer the last.
        let mut of = events.iter().filter(|event| event["type"] == kind);
        let event = if phase == Phase::Response { of.next_back() } else { of.next() }.unwrap();
        let text = event[field].to_string();
        assert_eq!(text.matches("secret").count(), expected, "{phase:?} {path} {method}: {text}");
        assert!(text.contains("[gone]"), "{phase:?} {path} {method}: {text}");
    }
}
