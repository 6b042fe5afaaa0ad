//! The gate over HTTPS: calls that clients give to their TLS libraries.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::clients::{Client, Plan};
use mcpwarden_tests::command::configured;
use mcpwarden_tests::gated::{add, agent_with};
use mcpwarden_tests::over_tls::Server;
use mcpwarden_tests::peer::{echo, wait_until};
use mcpwarden_tests::places;
use mcpwarden_tests::stepped::SteppedClient;
use mcpwarden_tests::transcript::Dir;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http::{call, call_of, forms};

/// An agent that stops calls of `add` in this way.
fn watched(test: &str, server: &Server, mode: &str) -> Result<Option<(TempDir, Agent)>> {
    let policy = "policy: { denied_tools: [ad*] }";
    let text = format!(
        "{}enforcement: {{ stdio: {mode} }}\n{policy}\ncapture: {{ tls: servers }}\n",
        server.declared()
    );
    let (directory, config) = configured(&text)?;
    Ok(agent_with(test, &config, &["--log", "debug"])?.map(|agent| (directory, agent)))
}

/// Names of the tools whose calls have reached the server.
fn reached(server: &Server) -> Result<Vec<Value>> {
    let sessions = server.sessions()?;
    let calls =
        sessions.iter().flatten().filter(|(dir, said)| *dir == Dir::C2s && said["method"] == "tools/call");
    Ok(calls.map(|(_, said)| said["params"]["name"].clone()).collect())
}

/// How the calls of `add` by this client are reported: of each the action, and whether it was enforced.
fn of_add(agent: &Agent, pid: u32) -> Result<Value> {
    let connection = agent.connection_of_client(pid)?;
    let is_it = |event: &Value| {
        is(event, "mcp_tool_called") && event["connection"] == connection && event["tool_name"] == "add"
    };
    agent.wait_for("the call of add", is_it)?;
    agent.settle();
    let calls = agent.events().into_iter().filter(is_it);
    Ok(calls.map(|called| json!([called["action"], called["enforced"]])).collect())
}

/// What the official client gets for its calls of `echo`, `add` and `echo`, until it ends, and how that of `add` is reported.
fn called(agent: &Agent, server: &Server, client: Client) -> Result<(Vec<Value>, Value)> {
    let directory = tempfile::tempdir()?;
    let outcomes = directory.path().join("outcomes");
    let text = json!({"text": "As long as the reason that is to take its place in the call."});
    let calls = ["echo", "add", "echo"].map(|name| json!({"name": name, "arguments": text})).to_vec();
    let plan = Plan {
        url: Some(format!("{}/mcp", server.url)),
        transport: Some("http"),
        calls,
        outcomes: Some(outcomes.clone()),
        warm: Some(format!("{}/warm", server.url)),
        certificate: Some(places::sources().join("src/certificates/server.pem")),
        ..Plan::default()
    };
    let driven = client.start(&plan, directory.path())?;
    let pid = driven.pid();
    server.answer_once_probed(agent, pid)?;
    // One whose connection ends may fail.
    let _ = driven.finish();
    let text = fs::read_to_string(&outcomes)?;
    let outcomes = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    Ok((outcomes, of_add(agent, pid)?))
}

#[test]
fn neutralized_call_over_https_fails_and_session_continues() -> Result<()> {
    let test = "neutralized_call_over_https_fails_and_session_continues";
    let server = Server::start()?;
    let Some((_directory, agent)) = watched(test, &server, "neutralize")? else { return Ok(()) };
    for client in [Client::Python, Client::TypeScript, Client::TypeScript2] {
        let (outcomes, reported) = called(&agent, &server, client).with_context(|| format!("{client:?}"))?;
        let [before, denied, after] = &outcomes[..] else { anyhow::bail!("{client:?}: {outcomes:?}") };
        ensure!(before["result"].is_object(), "{client:?}: {before}");
        ensure!(denied.to_string().contains("blocked by policy: tool_denied"), "{client:?}: {denied}");
        ensure!(after["result"].is_object(), "{client:?}: {after}");
        ensure!(reported == json!([["block", true]]), "{client:?}: {reported}");
    }
    ensure!(!reached(&server)?.contains(&json!("add")), "{:?}", reached(&server)?);
    agent.stop()?;
    Ok(())
}

/// These write to the socket after the call of the library, which has succeeded by then.
#[test]
fn refused_call_over_https_of_official_clients_is_reported_once() -> Result<()> {
    let test = "refused_call_over_https_of_official_clients_is_reported_once";
    let server = Server::start()?;
    let Some((_directory, agent)) = watched(test, &server, "deny")? else { return Ok(()) };
    for client in [Client::Python, Client::TypeScript2] {
        let (outcomes, reported) = called(&agent, &server, client).with_context(|| format!("{client:?}"))?;
        ensure!(outcomes[0]["result"].is_object(), "{client:?}: {outcomes:?}");
        ensure!(outcomes.get(1).is_none_or(|denied| denied["result"].is_null()), "{client:?}: {outcomes:?}");
        ensure!(reported == json!([["block", true]]), "{client:?}: {reported}");
    }
    ensure!(!reached(&server)?.contains(&json!("add")), "{:?}", reached(&server)?);
    let gaps = agent.events().into_iter().filter(|event| is(event, "mcp_capture_gap")).count();
    ensure!(gaps == 0, "{gaps} gaps");
    agent.stop()?;
    Ok(())
}

/// A client that writes to its socket within the call of its library, and its conversation with its server, once the gate knows it.
fn python(test: &str, mode: &str) -> Result<Option<(SteppedClient, Agent, u64)>> {
    let certificates = places::sources().join("src/certificates");
    let file = |name: &str| certificates.join(name).display().to_string();
    let words = ["127.0.0.1", &file("server.pem"), &file("key.pem")];
    let mut client = SteppedClient::start("stopped_http.py", &words)?;
    let server = format!("{{id: remote, type: http, url: \"https://127.0.0.1:{}/mcp\"}}", client.port);
    let policy = "policy: { denied_tools: [ad*] }";
    let text = format!(
        "servers: [{server}]\nenforcement: {{ stdio: {mode} }}\n{policy}\ncapture: {{ tls: servers }}\n"
    );
    let (_directory, config) = configured(&text)?;
    let Some(agent) = agent_with(test, &config, &["--log", "debug"])? else { return Ok(None) };
    client.step(&json!("connect"))?;
    let probed = format!("functions of process {} are probed", client.pid);
    wait_until("the client to be probed", || agent.stderr().contains(&probed))?;
    client.step(&json!("once more"))?;
    let connection = client.connection(&agent)?;
    agent.settle();
    Ok(Some((client, agent, connection)))
}

#[test]
fn denied_call_over_https_is_neutralized_in_any_form() -> Result<()> {
    let test = "denied_call_over_https_is_neutralized_in_any_form";
    let Some((mut client, agent, connection)) = python(test, "neutralize")? else { return Ok(()) };
    let mut id = 10;
    for which in 0..forms(&add(0).to_string()).len() {
        for is_denied in [true, true, false] {
            id += 1;
            let message = call_of(id, is_denied);
            let (form, parts) = forms(&message).swap_remove(which);
            let (errors, answers) = client.step(&json!({"write": parts, "answers": 1})).context(form)?;
            let answer = answers.first().context(form)?;
            ensure!(answer[1]["id"] == id && errors == json!([]), "{form}: {errors} {answer}");
            ensure!(answer[1]["error"].is_object() == is_denied, "{form}: {answer}");
            let wanted =
                if is_denied { (json!("block"), json!(true)) } else { (json!("allow"), json!(false)) };
            ensure!(call(&agent, connection, id)? == wanted, "{form}");
        }
    }
    client.end()?;
    agent.stop()?;
    Ok(())
}

/// What is refused never leaves the socket, and nothing leaves it after that. Another connection goes on.
#[test]
fn denied_call_over_https_ends_its_connection() -> Result<()> {
    let test = "denied_call_over_https_ends_its_connection";
    let Some((mut client, agent, connection)) = python(test, "deny")? else { return Ok(()) };
    let request = |message: Value| forms(&message.to_string()).swap_remove(0).1;
    let mut step = |parts: Vec<String>, answers: u64, anew: bool| {
        client.step(&json!({"write": parts, "answers": answers, "anew": anew}))
    };
    ensure!(step(request(echo(10, "a")), 1, false)?.1[0][1]["result"].is_object());
    let (errors, _) = step(request(add(11)), 0, false)?;
    ensure!(errors != json!([]), "the refused call was written");
    let (errors, _) = step(request(echo(12, "a")), 0, false)?;
    ensure!(errors != json!([]), "the connection goes on");
    ensure!(call(&agent, connection, 11)? == (json!("block"), json!(true)));
    ensure!(step(request(echo(13, "a")), 1, true)?.1[0][1]["result"].is_object());
    client.end()?;
    agent.stop()?;
    Ok(())
}
