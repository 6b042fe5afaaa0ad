//! Guards that others wrote: asked, answered, and what stands from then on.

use super::*;
use crate::config;
use crate::guard::DenialCode;
use crate::terms::contract::{GuardFailure, GuardOperation, GuardReason, GuardReply};

/// An engine with one such guard, and a server `files` with the tools `a` and `b`, whose list was asked about.
fn bench(more: &str) -> (Bench, Vec<GuardQuestion>) {
    let yaml = format!(
        "{{ cross_server: {{ enabled: false }}, guards: [{{ kind: http, name: g, config: {{ url: 'https://x.example/', share: full{more} }} }}] }}"
    );
    bench_of(&yaml)
}

fn bench_of(yaml: &str) -> (Bench, Vec<GuardQuestion>) {
    let (config, _) = config::parse(yaml.as_bytes()).unwrap();
    let mut bench = Bench::judged(&config, Vec::new());
    bench.server(1, 5, "files", 9);
    list(&mut bench, 3, r#"{"name":"a","description":"reads","inputSchema":{"type":"object"}},{"name":"b"}"#);
    let asked = asked(&mut bench);
    (bench, asked)
}

fn list(bench: &mut Bench, id: u32, tools: &str) {
    bench.c2s(1, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#));
    bench.s2c(1, &answer(id, &format!(r#"{{"tools":[{tools}]}}"#)));
}

fn answer(id: u32, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

fn call(bench: &mut Bench, id: u32, tool: &str, arguments: &str) {
    let params = format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#);
    bench.c2s(1, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#));
}

/// The questions since the last time; the rest of what came out is left.
fn asked(bench: &mut Bench) -> Vec<GuardQuestion> {
    let (asked, rest) = std::mem::take(&mut bench.out)
        .into_iter()
        .partition::<Vec<_>, _>(|output| matches!(output, Output::Ask(_)));
    bench.out = rest;
    let question = |output| match output {
        Output::Ask(question) => question,
        _ => unreachable!(),
    };
    asked.into_iter().map(question).collect()
}

fn reply(bench: &mut Bench, question: &GuardQuestion, answer: Result<&GuardReply, &GuardFailure>) {
    bench.input(Input::Answered { id: &question.id, answer });
}

fn deny(details: &str) -> GuardReply {
    let details = (!details.is_empty()).then(|| details.to_owned());
    GuardReply::Deny { reason: GuardReason { code: "bad".into(), message: "no".into(), details } }
}

/// What was decided of each call since the last time: tool, action, code.
fn decisions(bench: &mut Bench) -> Vec<String> {
    let called = bench.events().into_iter().filter(|event| event["type"] == "mcp_tool_called");
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    called
        .map(|event| {
            format!("{} {} {}", text(&event["tool_name"]), text(&event["action"]), text(&event["code"]))
        })
        .collect()
}

/// The events of a type since the last time.
fn events(bench: &mut Bench, kind: &str) -> Vec<Value> {
    bench.events().into_iter().filter(|event| event["type"] == kind).collect()
}

#[test]
fn every_phase_is_asked_about_with_what_was_sent() {
    let (mut bench, listed) = bench("");
    let GuardOperation::ListTools { tools } = &listed[0].request.operation else { panic!() };
    let shown: Vec<_> =
        tools.iter().map(|tool| (&*tool.name, tool.description.as_deref(), &*tool.input_schema)).collect();
    assert_eq!(shown, [("a", Some("reads"), r#"{"type":"object"}"#), ("b", None, "{}")]);
    let cases = [
        (
            r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"a","arguments":{"x":1}}}"#,
            true,
            GuardOperation::CallTool { tool_name: "a".into(), arguments: r#"{"x":1}"#.into() },
        ),
        (
            r#"{"jsonrpc":"2.0","id":4,"result":{"content":[]}}"#,
            false,
            GuardOperation::ToolResponse { tool_name: "a".into(), result: r#"{"content":[]}"#.into() },
        ),
        (
            r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"b"}}"#,
            true,
            GuardOperation::CallTool { tool_name: "b".into(), arguments: "null".into() },
        ),
        (
            r#"{"jsonrpc":"2.0","id":5,"error":{"code":-1,"message":"m"}}"#,
            false,
            GuardOperation::ToolResponse {
                tool_name: "b".into(),
                result: r#"{"code":-1,"message":"m"}"#.into(),
            },
        ),
        (
            r#"{"jsonrpc":"2.0","id":6,"method":"prompts/get","params":{"name":"p","arguments":{"y":"z"}}}"#,
            true,
            GuardOperation::GetPrompt { prompt_name: "p".into(), arguments: r#"{"y":"z"}"#.into() },
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"file:///x"}}"#,
            true,
            GuardOperation::ReadResource { uri: "file:///x".into() },
        ),
    ];
    for (frame, is_request, expected) in cases {
        if is_request {
            bench.c2s(1, frame)
        } else {
            bench.s2c(1, frame)
        }
        let asked = asked(&mut bench);
        assert_eq!(asked.iter().map(|one| &one.request.operation).collect::<Vec<_>>(), [&expected]);
        let context = &asked[0].request.context;
        let metadata: Value = serde_json::from_str(&context.metadata).unwrap();
        assert_eq!((&*context.server_name, &metadata["server"]["pid"]), ("files", &json!(5)));
        assert!(metadata["session_id"].is_string() && metadata["jsonrpc_id"].is_number(), "{metadata}");
    }
    // Nothing else is.
    bench.c2s(1, r#"{"jsonrpc":"2.0","id":8,"method":"ping"}"#);
    assert!(asked(&mut bench).is_empty());
}

#[test]
fn redacted_share_shows_no_value() {
    let yaml = "{ guards: [{ kind: http, name: g, config: { url: 'https://x.example/' } }] }";
    let (mut bench, _) = bench_of(yaml);
    call(&mut bench, 4, "a", r#"{"key":"hunter2hunter2"}"#);
    let GuardOperation::CallTool { arguments, .. } = &asked(&mut bench)[0].request.operation else {
        panic!()
    };
    assert!(arguments.contains("key") && !arguments.contains("hunter2"), "{arguments}");
}

#[test]
fn denial_holds_for_what_follows_until_it_ends() {
    // (details, calls of `a` and `b` after it, and after the denial has ended)
    let cases = [
        ("", ["a block guard_denied", "b allow -"]),
        (r#"{"scope":"tool"}"#, ["a block guard_denied", "b allow -"]),
        (r#"{"scope":"server"}"#, ["a block guard_denied", "b block guard_denied"]),
        (r#"{"scope":"session"}"#, ["a block guard_denied", "b block guard_denied"]),
    ];
    for (details, expected) in cases {
        // What is asked and never answered has no effect here.
        let (mut bench, _) = bench_of(
            "{ cross_server: { enabled: false }, guards: [{ kind: http, name: g, failure_mode: fail_open, \
             config: { url: 'https://x.example/', valid_for: 10s } }] }",
        );
        call(&mut bench, 4, "a", "{}");
        assert_eq!(decisions(&mut bench), ["a allow -"]);
        call(&mut bench, 5, "a", "{}");
        let question = asked(&mut bench).remove(0);
        bench.out.clear();
        reply(&mut bench, &question, Ok(&deny(details)));
        assert!(bench.out.iter().any(|output| matches!(output, Output::GateStale { .. })), "{details}");
        let denied = events(&mut bench, "mcp_guard_denied").remove(0);
        assert_eq!(
            (
                &denied["guard_name"],
                &denied["code"],
                &denied["reason"],
                &denied["jsonrpc_id"],
                &denied["enforced"]
            ),
            (&json!("g"), &json!("bad"), &json!("no"), &json!(5), &json!(false)),
        );
        call(&mut bench, 6, "a", "{}");
        call(&mut bench, 7, "b", "{}");
        assert_eq!(decisions(&mut bench), expected, "{details}");
        bench.wait(10_101);
        call(&mut bench, 8, "a", "{}");
        call(&mut bench, 9, "b", "{}");
        assert_eq!(decisions(&mut bench), ["a allow -", "b allow -"], "{details}");
    }
}

#[test]
fn denied_definition_is_denied_until_it_is_another() {
    let (mut bench, listed) = bench("");
    reply(&mut bench, &listed[0], Ok(&deny(r#"{"tools":["a"]}"#)));
    call(&mut bench, 4, "a", "{}");
    call(&mut bench, 5, "b", "{}");
    assert_eq!(decisions(&mut bench), ["a block guard_denied", "b allow -"]);
    // What is judged is not asked about again, what is new is.
    list(&mut bench, 6, r#"{"name":"b"}"#);
    assert!(asked(&mut bench).is_empty());
    list(&mut bench, 7, r#"{"name":"a","description":"other"},{"name":"b"}"#);
    let again = asked(&mut bench);
    assert_eq!(again.len(), 1);
    bench.out.clear();
    call(&mut bench, 8, "a", "{}");
    assert!(decisions(&mut bench)[0].starts_with("a al"));
}

#[test]
fn gate_compiles_what_stands() {
    use crate::gate::{GateCompiler, GateReader, GateVerdict};
    let yaml = "{ cross_server: { enabled: false }, guards: [{ kind: http, name: g, config: { url: 'https://x.example/' } }] }";
    let (config, _) = config::parse(yaml.as_bytes()).unwrap();
    let line = |tool: &str| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"{tool}\"}}}}\n"
        )
    };
    for (details, expected) in [
        ("", [GateVerdict::Deny, GateVerdict::Allow, GateVerdict::Allow]),
        (r#"{"scope":"server"}"#, [GateVerdict::Deny; 3]),
    ] {
        let (mut bench, _) = bench_of(yaml);
        // One that the server does not list.
        for (id, tool) in [(4, "z"), (5, "a")] {
            call(&mut bench, id, tool, "{}");
        }
        let question = asked(&mut bench).remove(0);
        reply(&mut bench, &question, Ok(&deny(details)));
        let subject = bench.engine.gate_subject(ConnectionId(1), Timestamp(bench.now)).unwrap();
        let table = GateCompiler::new(&config, &inspect::DETECTOR)
            .and_then(|mut compiler| compiler.compile(&[subject], 1, Timestamp(bench.now)))
            .unwrap();
        let mut reader = GateReader::default();
        let said = ["z", "a", "b"].map(|tool| reader.worst(&table, 0, line(tool).as_bytes()));
        assert_eq!(said, expected, "{details}");
    }
}

#[test]
fn tools_are_held_until_judged() {
    let (mut bench, listed) = bench(", hold_until_judged: true");
    call(&mut bench, 4, "a", "{}");
    call(&mut bench, 5, "z", "{}");
    assert_eq!(decisions(&mut bench), ["a block guard_pending", "z block guard_pending"]);
    reply(&mut bench, &listed[0], Ok(&GuardReply::Allow));
    call(&mut bench, 6, "a", "{}");
    assert_eq!(decisions(&mut bench), ["a allow -"]);
    // A new definition is held again; what fails closed stays held.
    list(&mut bench, 7, r#"{"name":"a","description":"other"}"#);
    let question = asked(&mut bench).remove(0);
    bench.out.clear();
    reply(&mut bench, &question, Err(&GuardFailure::Timeout));
    call(&mut bench, 8, "a", "{}");
    assert_eq!(decisions(&mut bench), ["a block guard_denied"]);
}

#[test]
fn outage_is_reported_once_and_decides_by_failure_mode() {
    for (mode, after) in [("fail_closed", "a block guard_denied"), ("fail_open", "a allow -")] {
        let yaml = format!(
            "{{ guards: [{{ kind: http, name: g, failure_mode: {mode}, timeout_ms: 100, config: {{ url: 'https://x.example/' }} }}] }}"
        );
        let (mut bench, listed) = bench_of(&yaml);
        reply(&mut bench, &listed[0], Ok(&GuardReply::Allow));
        bench.out.clear();
        call(&mut bench, 4, "b", "{}");
        call(&mut bench, 5, "a", "{}");
        assert_eq!(asked(&mut bench).len(), 2);
        // Nobody answers: the engine waits a second longer than the time-out.
        bench.wait(1_201);
        let failing = events(&mut bench, "agent_guard_failing");
        assert_eq!(failing.len(), 1, "{failing:?}");
        assert_eq!(
            (&failing[0]["guard_name"], &failing[0]["denies"]),
            (&json!("g"), &json!(mode == "fail_closed"))
        );
        call(&mut bench, 6, "a", "{}");
        assert_eq!(decisions(&mut bench), [after], "{mode}");
        // After a minute it is asked again, and answers.
        bench.wait(61_000);
        bench.out.clear();
        call(&mut bench, 7, "a", "{}");
        let question = asked(&mut bench).remove(0);
        reply(&mut bench, &question, Ok(&GuardReply::Allow));
        let recovered = events(&mut bench, "agent_guard_recovered");
        assert!(recovered[0]["failures"].as_u64().unwrap() >= 2, "{recovered:?}");
    }
}

#[test]
fn list_that_was_not_judged_is_asked_about_again_while_its_server_runs() {
    let failed = Err(GuardFailure::Error("down".into()));
    let limited = Err(GuardFailure::Limit("out of fuel".into()));
    for (answer, is_gone, expected) in [
        (failed.as_ref(), false, 1),
        (failed.as_ref(), true, 0),
        // It would end in the same way.
        (limited.as_ref(), false, 0),
        (Ok(&GuardReply::Allow), false, 0),
    ] {
        let (mut bench, listed) = bench("");
        reply(&mut bench, &listed[0], answer);
        if is_gone {
            bench.exit(1, 5, 0);
            bench.close(1);
        }
        bench.wait(29_000);
        assert!(asked(&mut bench).is_empty());
        bench.wait(2_000);
        let again = asked(&mut bench);
        assert_eq!(again.len(), expected, "{answer:?} {is_gone}");
        let Some(again) = again.first() else { continue };
        assert_eq!(again.request, listed[0].request);
        reply(&mut bench, again, Ok(&deny("")));
        bench.out.clear();
        call(&mut bench, 4, "a", "{}");
        assert_eq!(decisions(&mut bench), ["a block guard_denied"]);
        bench.wait(120_000);
        assert!(asked(&mut bench).iter().all(|question| question.request != listed[0].request));
    }
}

#[test]
fn too_many_questions_are_refused_and_counted() {
    let (mut bench, _) = bench("");
    for id in 0..1_100 {
        call(&mut bench, 10 + id, "a", &format!("{{\"n\":{id}}}"));
        if id == 0 {
            bench.out.clear();
        }
    }
    let counters = bench.engine.counters_by_name();
    assert!(counters["external_guards_refused"] > 0, "{counters:?}");
    assert_eq!(counters["external_guards_asked"], 256);
    // By `failure_mode`, calls are denied for a minute then.
    call(&mut bench, 9_000, "a", "{}");
    assert_eq!(decisions(&mut bench).last().map(String::as_str), Some("a block guard_denied"));
}

#[test]
fn what_native_guards_deny_is_not_asked() {
    let yaml = "{ policy: { denied_tools: [{ tool: a }] }, guards: [{ kind: http, name: g, config: { url: 'https://x.example/' } }, \
                { kind: http, name: other, servers: [elsewhere], config: { url: 'https://y.example/' } }, \
                { kind: http, name: lists, runs_on: [tools_list], config: { url: 'https://z.example/' } }] }";
    let (mut bench, listed) = bench_of(yaml);
    let names: Vec<&str> = listed.iter().map(|one| &*one.guard.name).collect();
    assert_eq!(names, ["g", "lists"]);
    call(&mut bench, 4, "a", "{}");
    assert!(asked(&mut bench).is_empty());
    call(&mut bench, 5, "b", "{}");
    let asked = asked(&mut bench);
    assert_eq!(asked.iter().map(|one| &*one.guard.name).collect::<Vec<_>>(), ["g"]);
}

#[test]
fn modification_warns_and_leaves_tools_out() {
    let (mut bench, listed) = bench("");
    let action = r#"{"type":"replace_tools","tools":["b"]}"#.to_owned();
    reply(&mut bench, &listed[0], Ok(&GuardReply::Modify { action }));
    let modified = events(&mut bench, "mcp_guard_modified").remove(0);
    assert_eq!((&modified["action"], &modified["tools"]), (&json!("replace_tools"), &json!(["a"])));
    call(&mut bench, 4, "a", "{}");
    assert_eq!(decisions(&mut bench), ["a block guard_denied"]);
}

#[test]
fn answer_that_nobody_waits_for_is_counted() {
    let (mut bench, listed) = bench("");
    reply(&mut bench, &listed[0], Ok(&GuardReply::Allow));
    reply(&mut bench, &listed[0], Ok(&deny("")));
    assert!(events(&mut bench, "mcp_guard_denied").is_empty());
    assert_eq!(bench.engine.counters_by_name()["external_guards_unexpected"], 1);
}

#[test]
fn denials_outlive_a_new_configuration() {
    let (mut bench, _) = bench("");
    call(&mut bench, 4, "a", "{}");
    let question = asked(&mut bench).remove(0);
    reply(&mut bench, &question, Ok(&deny("")));
    let (old, new) = ("https://x.example/", "https://new.example/");
    for (name, timeout, url, expected) in [
        ("g", 50, old, "a block guard_denied"),
        ("g", 70, old, "a block guard_denied"),
        // Another service has not denied it, and what one denied is denied by none of that name any longer.
        ("g", 70, new, "a allow -"),
        ("g", 70, old, "a allow -"),
        ("h", 70, old, "a allow -"),
    ] {
        let yaml = format!(
            "{{ guards: [{{ kind: http, name: {name}, timeout_ms: {timeout}, config: {{ url: '{url}', share: full }} }}] }}"
        );
        let (config, _) = config::parse(yaml.as_bytes()).unwrap();
        let judge = Judge::new(&config, Vec::new(), &inspect::DETECTOR).unwrap();
        let settings = bench.engine.config.clone();
        bench.engine.configure(settings, judge);
        bench.out.clear();
        call(&mut bench, 5, "a", "{}");
        assert_eq!(decisions(&mut bench), [expected]);
    }
    assert_eq!(DenialCode::GuardDenied.name(), "guard_denied");
}

#[test]
fn tools_that_another_service_judged_are_not_held_but_judged_anew() {
    let (mut bench, listed) = bench(", hold_until_judged: true");
    reply(&mut bench, &listed[0], Ok(&GuardReply::Allow));
    for (url, questions) in [("https://x.example/", 0), ("https://new.example/", 1)] {
        let yaml = format!(
            "{{ guards: [{{ kind: http, name: g, runs_on: [tools_list], config: {{ url: '{url}', share: full, hold_until_judged: true }} }}] }}"
        );
        let (config, _) = config::parse(yaml.as_bytes()).unwrap();
        let judge = Judge::new(&config, Vec::new(), &inspect::DETECTOR).unwrap();
        let settings = bench.engine.config.clone();
        bench.engine.configure(settings, judge);
        bench.out.clear();
        call(&mut bench, 5, "a", "{}");
        assert_eq!(decisions(&mut bench), ["a allow -"], "{url}");
        list(
            &mut bench,
            6,
            r#"{"name":"a","description":"reads","inputSchema":{"type":"object"}},{"name":"b"}"#,
        );
        assert_eq!(asked(&mut bench).len(), questions, "{url}");
    }
}

#[test]
fn definition_is_judged_anew_of_another_server() {
    let (mut bench, listed) = bench("");
    reply(&mut bench, &listed[0], Ok(&deny("")));
    bench.server(2, 6, "other", 9);
    bench.c2s(2, r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#);
    bench.s2c(2, &answer(3, r#"{"tools":[{"name":"b"}]}"#));
    let again = asked(&mut bench);
    assert_eq!(again.len(), 1);
    assert_eq!(&*again[0].request.context.server_name, "other");
}
