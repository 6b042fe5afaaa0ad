//! The gate over plain HTTP: calls in the bodies of requests.

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::clients::{Client as Official, Plan};
use mcpwarden_tests::gated::{add, agent, called, decided};
use mcpwarden_tests::peer::echo;
use mcpwarden_tests::remote::Remote;
use mcpwarden_tests::stepped::SteppedClient;
use serde_json::{Value, json};

const NEUTRALIZE: &str = "enforcement: { stdio: neutralize }\npolicy: { denied_tools: [ad*] }";
const DENY: &str = "enforcement: { stdio: deny }\npolicy: { denied_tools: [ad*] }";

struct Client(SteppedClient);

/// What came of a step: the errors of writes, and the status and body of each answer.
#[derive(Debug)]
struct Came {
    errors: Value,
    answers: Vec<(u64, Value)>,
}

impl Client {
    fn start(address: &str) -> Result<Self> {
        SteppedClient::start("stopped_http.py", &[address]).map(Self)
    }

    fn step(&mut self, step: &Value) -> Result<Came> {
        let (errors, answers) = self.0.step(step)?;
        let answers = answers.iter().map(|answer| (answer[0].as_u64().unwrap_or(0), answer[1].clone()));
        Ok(Came { errors, answers: answers.collect() })
    }

    /// Has it write these, one after the other, and read so many answers.
    fn write(&mut self, parts: &[String], answers: usize) -> Result<Came> {
        self.step(&json!({"write": parts, "answers": answers}))
    }

    /// The conversation with its server, once the gate knows it.
    fn connection(&self, agent: &Agent) -> Result<u64> {
        let connection = self.0.connection(agent)?;
        agent.settle();
        Ok(connection)
    }

    fn end(self) -> Result<()> {
        self.0.end()
    }
}

fn post(headers: &str, body: &str) -> String {
    let length = body.len();
    format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {length}\r\n\r\n{body}")
}

/// A request whose body is in chunks: these.
fn chunked(pieces: &[&str]) -> String {
    let mut text =
        String::from("POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    for piece in pieces {
        text.push_str(&format!("{:x}\r\n{piece}\r\n", piece.len()));
    }
    text + "0\r\n\r\n"
}

/// A call with arguments that the reason has room in.
fn wordy_add(id: u64) -> String {
    let arguments = r#"{"text":"as long as the reason that takes its place"}"#;
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"add","arguments":{arguments}}}}}"#
    )
}

/// A call with this id that is denied, in one of two lengths, or that is not.
pub(crate) fn call_of(id: u64, is_denied: bool) -> String {
    match (is_denied, id % 3) {
        (false, _) => echo(id, "add").to_string(),
        (true, 0) => add(id).to_string(),
        (true, _) => wordy_add(id),
    }
}

fn is_answered(answer: &Value) -> bool {
    answer["result"].is_object()
}

/// How a call with this id is reported: its action, and whether it was enforced.
pub(crate) fn call(agent: &Agent, connection: u64, id: u64) -> Result<(Value, Value)> {
    let called = called(agent, connection, id)?;
    Ok((called["action"].clone(), called["enforced"].clone()))
}

/// Requests with one call each, of which the id is 1: in which writes they are written.
pub(crate) fn forms(text: &str) -> Vec<(&'static str, Vec<String>)> {
    let whole = post("", text);
    let head = whole.len() - text.len();
    let name = whole.find("\"name\"").unwrap_or(head) + 9;
    let pretty = text.replace(',', "\r\n  ,\n\t");
    let (first, second) = text.split_at(text.len() / 2);
    let cut = |text: &str, at: usize| vec![text[..at].to_owned(), text[at..].to_owned()];
    let chunks = chunked(&[first, second]);
    let in_name = chunks.find("\"name\"").unwrap_or(head) + 9;
    let expecting = post("Expect: 100-continue\r\n", text);
    vec![
        ("whole", vec![whole.clone()]),
        ("head and body", cut(&whole, head)),
        ("cut in the head", cut(&whole, 9)),
        ("cut in the name", cut(&whole, name)),
        ("in lines", vec![post("", &pretty)]),
        ("in chunks", vec![chunks.clone()]),
        ("in chunks that are cut", cut(&chunks, in_name)),
        ("in chunks of a byte", {
            let letters: Vec<String> = text.chars().map(String::from).collect();
            vec![chunked(&letters.iter().map(String::as_str).collect::<Vec<_>>())]
        }),
        ("that did not wait for leave", vec![expecting]),
        (
            "with lines that its parser takes for text",
            vec![post("X-Line: {\"method\":\"tools/call\"}\r\n", text)],
        ),
        ("with its name in the head", vec![post("Mcp-Method: tools/call\r\nMcp-Name: add\r\n", text)]),
    ]
}

#[test]
fn denied_call_over_http_is_neutralized_and_session_continues() -> Result<()> {
    let test = "denied_call_over_http_is_neutralized_and_session_continues";
    let Some(agent) = agent(test, NEUTRALIZE)? else { return Ok(()) };
    for address in ["127.0.0.1", "::1"] {
        let mut client = Client::start(address)?;
        let connection = client.connection(&agent).context(address)?;
        let (mut id, mut expected) = (10, 0);
        for which in 0..forms(&add(0).to_string()).len() {
            for is_denied in [true, true, false] {
                id += 1;
                let message = call_of(id, is_denied);
                let (form, parts) = forms(&message).swap_remove(which);
                let came = client.write(&parts, 1).with_context(|| format!("{address}, {form}"))?;
                let (_, answer) = &came.answers[0];
                ensure!(answer["id"] == id && came.errors == json!([]), "{address}, {form}: {came:?}");
                ensure!(answer["error"].is_object() == is_denied, "{address}, {form}: {came:?}");
                let reported = call(&agent, connection, id)?;
                let wanted =
                    if is_denied { (json!("block"), json!(true)) } else { (json!("allow"), json!(false)) };
                ensure!(reported == wanted, "{address}, {form}: {reported:?}");
                expected += usize::from(is_denied);
            }
        }
        agent.settle();
        let found = decided(&agent, connection);
        let all = vec![("neutralized".to_owned(), "tool_denied".to_owned()); expected];
        ensure!(found == all, "{address}: {found:?}");
        client.end()?;
    }
    agent.stop()?;
    Ok(())
}

/// Several requests in a write, several messages in a request, and requests that are none of MCP.
#[test]
fn only_denied_calls_of_many_over_http_are_neutralized() -> Result<()> {
    let test = "only_denied_calls_of_many_over_http_are_neutralized";
    let Some(agent) = agent(test, NEUTRALIZE)? else { return Ok(()) };
    let mut client = Client::start("127.0.0.1")?;
    let connection = client.connection(&agent)?;
    let one = |message: &str| post("", message);
    let get = "GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned();
    let all = [one(&echo(11, "x").to_string()), one(&wordy_add(12)), get.clone(), one(&add(13).to_string())]
        .concat();
    let came = client.write(&[all], 4)?;
    let denied: Vec<bool> = came.answers.iter().map(|(_, answer)| answer["error"].is_object()).collect();
    ensure!(denied == [false, true, false, true] && came.answers[2].0 == 405, "{came:?}");
    let batch = format!("[{},{},{}]", echo(14, "x"), wordy_add(15), echo(16, "y"));
    let came = client.write(&[one(&batch)], 1)?;
    let denied: Vec<bool> = (0..3).map(|index| came.answers[0].1[index]["error"].is_object()).collect();
    ensure!(denied == [false, true, false], "{came:?}");
    let came = client.write(&[get, one(&echo(17, "z").to_string())], 2)?;
    ensure!(is_answered(&came.answers[1].1), "{came:?}");
    for (id, is_denied) in [(11, false), (12, true), (13, true), (15, true), (17, false)] {
        let (action, enforced) = call(&agent, connection, id)?;
        ensure!(enforced == is_denied && (action == "block") == is_denied, "{id}: {action} {enforced}");
    }
    client.end()?;
    agent.stop()?;
    Ok(())
}

#[test]
fn denied_call_over_http_fails_with_permission_error() -> Result<()> {
    let test = "denied_call_over_http_fails_with_permission_error";
    let Some(agent) = agent(test, DENY)? else { return Ok(()) };
    let mut client = Client::start("127.0.0.1")?;
    let connection = client.connection(&agent)?;
    let came = client.write(&[post("", &add(11).to_string())], 0)?;
    ensure!(came.errors == json!(["EPERM"]), "{came:?}");
    ensure!(call(&agent, connection, 11)? == (json!("block"), json!(true)));
    // Nothing of it was written: the connection is as before.
    let came = client.write(&[post("", &echo(12, "x").to_string())], 1)?;
    ensure!(is_answered(&came.answers[0].1), "{came:?}");
    // Of this one the head was.
    let text = add(13).to_string();
    let whole = post("", &text);
    let (head, body) = whole.split_at(whole.len() - text.len());
    let came = client.write(&[head.to_owned(), body.to_owned()], 0)?;
    ensure!(came.errors == json!(["EPERM"]), "{came:?}");
    ensure!(call(&agent, connection, 13)? == (json!("block"), json!(true)));
    agent.settle();
    let found = decided(&agent, connection);
    ensure!(found == vec![("refused".to_owned(), "tool_denied".to_owned()); 2], "{found:?}");
    client.end()?;
    agent.stop()?;
    Ok(())
}

/// A client that makes a new connection for each call, which is the first message there: the server is known.
#[test]
fn first_call_of_each_new_http_connection_is_judged() -> Result<()> {
    let test = "first_call_of_each_new_http_connection_is_judged";
    let Some(agent) = agent(test, NEUTRALIZE)? else { return Ok(()) };
    let mut client = Client::start("127.0.0.1")?;
    let connection = client.connection(&agent)?;
    for id in 11..19 {
        let is_denied = id % 2 == 1;
        let message = if is_denied { add(id) } else { echo(id, "x") };
        let parts = [post("", &message.to_string())];
        let came = client.step(&json!({"write": parts, "answers": 1, "anew": true}))?;
        ensure!(came.answers[0].1["error"].is_object() == is_denied, "{id}: {came:?}");
        let (_, enforced) = call(&agent, connection, id)?;
        ensure!(enforced == is_denied, "{id}");
    }
    client.end()?;
    agent.stop()?;
    Ok(())
}

/// What nobody can tell: it passes and is said, or is refused where that is configured.
#[test]
fn undecidable_http_is_reported_or_refused() -> Result<()> {
    let test = "undecidable_http_is_reported_or_refused";
    let text = add(11).to_string();
    let long = json!({"jsonrpc": "2.0", "id": 11, "method": "tools/call",
        "params": {"name": "echo", "arguments": {"text": "x".repeat(80 << 10)}}});
    let cases = [
        ("coded", "coded_body", post("Content-Encoding: gzip\r\n", &text)),
        ("two lengths", "unreadable_http", post(&format!("Content-Length: {}\r\n", text.len()), &text)),
        ("a folded line", "unreadable_http", post("X: a\r\n b\r\n", &text)),
        ("long", "long_write", post("", &long.to_string())),
    ];
    for undecided in ["allow", "deny"] {
        let yaml = format!(
            "enforcement: {{ stdio: neutralize, undecided: {undecided} }}\npolicy: {{ denied_tools: [ad*] }}"
        );
        let Some(agent) = agent(test, &yaml)? else { return Ok(()) };
        for (name, code, request) in &cases {
            let mut client = Client::start("127.0.0.1")?;
            let connection = client.connection(&agent)?;
            let passes = undecided == "allow";
            let came = client.write(std::slice::from_ref(request), usize::from(passes))?;
            ensure!(came.errors == if passes { json!([]) } else { json!(["EPERM"]) }, "{name}: {came:?}");
            agent.settle();
            let found = decided(&agent, connection);
            let action = if passes { "passed" } else { "refused" };
            ensure!(found == [(action.to_owned(), (*code).to_owned())], "{name}: {found:?}");
            // The next request is read again.
            let came = client.write(&[post("", &add(12).to_string())], 1)?;
            ensure!(came.answers[0].1["error"].is_object(), "{name}: {came:?}");
            client.end()?;
        }
        agent.stop()?;
    }
    Ok(())
}

/// What callers get through the official clients, of servers made with the official SDKs: the reason, and the next call is answered.
#[test]
fn reason_reaches_official_clients_over_http() -> Result<()> {
    let test = "reason_reaches_official_clients_over_http";
    let yaml = "enforcement: { stdio: neutralize }\npolicy: { denied_tools: [add, echo] }";
    let Some(agent) = agent(test, yaml)? else { return Ok(()) };
    for client in [Official::Python, Official::TypeScript, Official::TypeScript2] {
        for remote in Remote::ALL {
            let what = format!("{client:?} {remote:?}");
            let listening = remote.start()?;
            let directory = tempfile::tempdir().context("no temporary directory")?;
            let path = |name: &str| directory.path().join(name);
            let mut plan: Plan = listening.plan();
            let named = plan.calls[0]["name"].clone();
            plan.calls[0]["arguments"]["note"] = "As long as the reason that is to take its place.".into();
            (plan.outcomes, plan.pause_until) = (Some(path("outcomes")), Some(path("is-known")));
            let driven = client.start(&plan, directory.path())?;
            let connection = agent.connection_of_client(driven.pid())?;
            agent.wait_for("the tools", |event| {
                is(event, "mcp_tool_seen") && event["connection"] == connection && event["tool_name"] == named
            })?;
            agent.settle();
            std::fs::write(path("is-known"), "").context("cannot write a file")?;
            let ended = driven.finish();
            let text = std::fs::read_to_string(path("outcomes"))
                .with_context(|| format!("{what}: {:?}", ended.err()))?;
            let outcomes: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
            let [denied, next] = outcomes.as_slice() else { anyhow::bail!("{what}: {text}") };
            ensure!(denied.to_string().contains("blocked by policy: tool_denied"), "{what}: {denied}");
            ensure!(next["result"]["isError"] != true && next["error"].is_null(), "{what}: {next}");
        }
    }
    agent.stop()?;
    Ok(())
}
