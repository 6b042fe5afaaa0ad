//! The gate, where the arguments of a call decide: docs/guide/argument-rules.md says which of them it can tell.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::is;
use mcpwarden_tests::clients::{Client, Plan};
use mcpwarden_tests::gated::{Gated, WIRINGS, agent, is_marked, is_through};
use mcpwarden_tests::peer::echo;
use mcpwarden_tests::places;
use serde_json::{Value, json};

const RULE: &str = "policy: { denied_tools: [{ tool: echo, arguments: { /text: { prefix: /etc/ } } }] }";

#[test]
fn call_denied_by_its_arguments_is_neutralized_and_session_continues() -> Result<()> {
    let test = "call_denied_by_its_arguments_is_neutralized_and_session_continues";
    let Some(agent) = agent(test, &format!("enforcement: {{ stdio: neutralize }}\n{RULE}"))? else {
        return Ok(());
    };
    for wiring in WIRINGS {
        let mut gated = Gated::start(&agent, wiring, &[]).with_context(|| format!("{wiring:?}"))?;
        ensure!(is_through(&gated.peer.ask(&echo(3, "/srv/x"))?), "{wiring:?}: an innocent call");
        let answer = gated.peer.ask(&echo(4, "/etc/x"))?;
        ensure!(answer["id"] == 4 && answer["error"]["code"] == -32602, "{wiring:?}: {answer}");
        ensure!(is_through(&gated.peer.ask(&echo(5, "x/etc/"))?), "{wiring:?}: the session");
        let heard = gated.heard()?;
        ensure!(is_marked(&heard) && !heard.contains("/etc/x"), "{wiring:?}: {heard}");
        let stopped = gated.call(&agent, 4)?;
        let found = json!([stopped["tool_name"], stopped["action"], stopped["enforced"], stopped["guard"]]);
        ensure!(found == json!(["echo", "block", true, "tool_access"]), "{wiring:?}: {stopped}");
        let through = gated.call(&agent, 5)?;
        ensure!(through["action"] == "allow" && through["enforced"] == json!(false), "{wiring:?}: {through}");
        ensure!(
            gated.decided(&agent) == [("neutralized".to_owned(), "tool_denied".to_owned())],
            "{wiring:?}: {:?}",
            gated.decided(&agent)
        );
        // What nobody can tell passes here, and that is said.
        let mut odd = echo(6, "");
        odd["params"]["arguments"]["text"] = json!(["/etc/x"]);
        gated.peer.ask(&odd)?;
        agent.wait_for("what passed", |event| {
            is(event, "mcp_gate_decided")
                && event["connection"] == gated.connection
                && event["action"] == "passed"
                && event["code"] == "arguments"
        })?;
    }
    agent.stop()?;
    Ok(())
}

#[test]
fn call_denied_by_its_arguments_fails_with_permission_error() -> Result<()> {
    let test = "call_denied_by_its_arguments_fails_with_permission_error";
    let Some(agent) = agent(test, &format!("enforcement: {{ stdio: deny }}\n{RULE}"))? else {
        return Ok(());
    };
    for wiring in WIRINGS {
        let mut gated = Gated::start(&agent, wiring, &[]).with_context(|| format!("{wiring:?}"))?;
        let error = gated
            .peer
            .say(&echo(3, "/etc/x"))
            .err()
            .with_context(|| format!("{wiring:?}: it was written"))?;
        let error = error.downcast::<std::io::Error>()?;
        ensure!(error.kind() == std::io::ErrorKind::PermissionDenied, "{wiring:?}: {error}");
        ensure!(is_through(&gated.peer.ask(&echo(5, "/srv/x"))?), "{wiring:?}: the next write");
        let stopped = gated.call(&agent, 3)?;
        ensure!(stopped["enforced"] == true && stopped["code"] == "tool_denied", "{wiring:?}: {stopped}");
    }
    agent.stop()?;
    Ok(())
}

/// Each form of a message, and whether its arguments are denied: whole, and in two writes. What cannot be neutralized, since the
/// name and the method are gone by then, is refused.
#[test]
fn denied_arguments_are_found_in_any_json_form() -> Result<()> {
    let config = format!("enforcement: {{ stdio: neutralize, window_bytes: 65536 }}\n{RULE}");
    let Some(agent) = agent("denied_arguments_are_found_in_any_json_form", &config)? else {
        return Ok(());
    };
    let call =
        |params: &str| format!(r#"{{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{params}}}"#);
    let long = "y".repeat(40_000);
    let cases = [
        (call(r#"{"arguments":{"text":"/etc/x"},"name":"echo"}"#), true),
        (call(r#"{"arguments":{"text":"/srv/x"},"name":"echo"}"#), false),
        (call(r#"{ "arguments" : { "x" : {"text":"y"}, "text" : "/etc/x" } , "name" : "echo" }"#), true),
        (r#"{"id":9,"params":{"arguments":{"te\u0078t":"\/etc\u002fx"},"name":"echo"},"method":"tools\/call"}"#.into(), true),
        (r#"{"id":9,"params":{"name":"echo","arguments":{"text":"/etc/x"}},"method":"tools/call"}"#.into(), true),
        (call(r#"{"name":"echo","arguments":{"text":"/etc/x"}}"#), true),
        (call(r#"{"name":"echo","arguments":{"text":"x","more":{"text":"/etc/x"}}}"#), false),
        (call(r#"{"name":"echo","arguments":{"text":"\"text\":\"/etc/x\""}}"#), false),
        (call(r#"{"name":"echo","arguments":{"text":"x"},"_meta":{"arguments":{"text":"/etc/x"}}}"#), false),
        (call(r#"{"name":"add","arguments":{"text":"/etc/x","a":1,"b":2}}"#), false),
        (call(&format!(r#"{{"arguments":{{"more":"{long}","text":"/etc/x"}},"name":"echo"}}"#)), true),
        (call(&format!(r#"{{"arguments":{{"text":"/srv/{long}"}},"name":"echo"}}"#)), false),
    ];
    for wiring in WIRINGS {
        let mut session = Gated::start(&agent, wiring, &[]).with_context(|| format!("{wiring:?}"))?;
        for (text, is_denied) in &cases {
            for cut in (0..text.len()).step_by(if text.len() > 1_000 { 12_000 } else { 37 }) {
                let (first, second) = text.split_at(cut);
                let what = || format!("{wiring:?}: {first:.300} | {second:.300}");
                let mut written = Ok(());
                if !first.is_empty() {
                    written = session.peer.write(first.as_bytes());
                }
                if written.is_ok() {
                    written = session.peer.write(format!("{second}\n").as_bytes());
                }
                if let Err(error) = written {
                    ensure!(
                        *is_denied && !second.contains("echo") && !second.contains("method"),
                        "{}: {error:#}",
                        what()
                    );
                    // Of this message the beginning is there.
                    session = Gated::start(&agent, wiring, &[])?;
                    continue;
                }
                let line = session.peer.line()?.with_context(what)?;
                let answer: Value = serde_json::from_slice(&line)?;
                ensure!(answer["error"].is_object() == *is_denied, "{}: {answer}", what());
            }
        }
    }
    agent.stop()?;
    Ok(())
}

/// A server and clients of the official SDKs: a file is written where the rule lets it, and nowhere else; the session lives on.
#[test]
fn files_are_written_where_a_rule_lets_real_clients() -> Result<()> {
    let config = "enforcement: { stdio: neutralize }
policy:
  denied_tools:
    - { tool: write_file, arguments: { /path: { prefix: /etc/ } } }
    - { tool: read_file, arguments: { /path: { not: { below: [/srv, .] } } } }";
    let Some(agent) = agent("files_are_written_where_a_rule_lets_real_clients", config)? else {
        return Ok(());
    };
    let write = |path: &str| json!({"name": "write_file", "arguments": {"path": path, "content": "a line\n\u{e4}\u{1f600}"}});
    let read = |path: &str| json!({"name": "read_file", "arguments": {"path": path}});
    for client in [Client::Python, Client::TypeScript2] {
        let directory = tempfile::tempdir().context("no temporary directory")?;
        let [outcomes, is_known] = ["outcomes.jsonl", "is-known"].map(|name| directory.path().join(name));
        let calls = [
            write("/srv/a"),
            write("/etc/cron.d/a"),
            read("/srv/a"),
            read("/root/a"),
            write("notes/a"),
            read("notes/a"),
        ];
        let plan = Plan {
            command: places::real_servers().join("venv/bin/python"),
            args: vec![places::sources().join("servers/files.py").display().to_string()],
            env: json!({}),
            calls: calls.to_vec(),
            outcomes: Some(outcomes.clone()),
            pause_until: Some(is_known.clone()),
            ..Plan::default()
        };
        let driven = client.start(&plan, directory.path())?;
        let connection = agent.connection_of_client(driven.pid())?;
        // Said once the gate knows of it.
        agent.wait_for("the tools", |event| {
            is(event, "mcp_tool_seen")
                && event["connection"] == connection
                && event["tool_name"] == "read_file"
        })?;
        fs::write(&is_known, "").context("cannot write a file")?;
        driven.finish()?;
        let text = fs::read_to_string(&outcomes)?;
        let found: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        let said: Vec<String> =
            found.iter().map(|outcome| outcome["result"]["content"][0]["text"].to_string()).collect();
        let unknown =
            found.iter().filter(|outcome| outcome.to_string().contains("Unknown tool: blocked")).count();
        let expected = ["\"wrote /srv/a\"", "\"wrote notes/a\""];
        ensure!(said.len() == calls.len() && [&*said[0], &*said[4]] == expected, "{client:?}: {text}");
        ensure!(said[2].contains("a line") && said[5].contains("a line"), "{client:?}: {text}");
        ensure!(!text.contains("wrote /etc") && unknown == 2, "{client:?}: {text}");
        for (tool, path) in [("write_file", "/etc/cron.d/a"), ("read_file", "/root/a")] {
            agent.wait_for(path, |event| {
                is(event, "mcp_tool_called")
                    && event["connection"] == connection
                    && event["tool_name"] == tool
                    && event["enforced"] == true
                    && event["code"] == "tool_denied"
            })?;
        }
        let events = agent.events_of(connection);
        let passed =
            events.iter().filter(|event| is(event, "mcp_gate_decided") && event["action"] == "passed");
        ensure!(passed.count() == 0, "{client:?}: {events:#?}");
    }
    agent.stop()?;
    Ok(())
}
