//! The gate: what a client is not to ask its server does not get there, whatever it is written with.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use mcpwarden_tests::agent::is;
use mcpwarden_tests::client_process;
use mcpwarden_tests::gated::{Gated, WIRINGS, add, agent, is_through};
use mcpwarden_tests::peer::{Peer, echo, initialize};
use mcpwarden_tests::places;
use serde_json::{Value, json};

/// Most instructions of a program that the verifier may go through on the kernels of these tests. It refuses more than a million; on Linux 6.18 it goes
/// through 1.3 times as many as on 6.12.
const MOST_VERIFIED: u64 = 700_000;

/// How many instructions the verifier has gone through of the program of this process that it took longest for.
fn verified_instructions(pid: u32) -> Result<u64> {
    let mut most = None;
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo"))? {
        // Descriptors come and go.
        let text = fs::read_to_string(entry?.path()).unwrap_or_default();
        let number = text.lines().find_map(|line| line.strip_prefix("verified_insns:")).map(str::trim);
        most = most.max(number.and_then(|number| number.parse().ok()));
    }
    most.context("no program of the agent says how long it was verified")
}

#[test]
fn denied_call_is_neutralized_and_session_continues() -> Result<()> {
    let test = "denied_call_is_neutralized_and_session_continues";
    let Some(agent) =
        agent(test, "enforcement: { stdio: neutralize, explain: false }\npolicy: { denied_tools: [ad*] }")?
    else {
        return Ok(());
    };
    let verified = verified_instructions(agent.pid())?;
    ensure!(verified < MOST_VERIFIED, "the verifier goes through {verified} instructions of a program");
    for wiring in WIRINGS {
        let mut gated = Gated::start(&agent, wiring, &[]).with_context(|| format!("{wiring:?}"))?;
        ensure!(is_through(&gated.peer.ask(&echo(3, "add"))?), "{wiring:?}: an innocent call");
        let answer = gated.peer.ask(&add(4))?;
        ensure!(answer["id"] == 4 && answer["error"]["code"] == -32602, "{wiring:?}: {answer}");
        ensure!(is_through(&gated.peer.ask(&echo(5, "again"))?), "{wiring:?}: the session");
        let heard = gated.heard()?;
        ensure!(!heard.contains(r#""name":"add""#) && heard.contains("ad\u{7f}"), "{wiring:?}: {heard}");
        ensure!(heard.contains(&echo(3, "add").to_string()), "{wiring:?}: {heard}");
        let stopped = gated.call(&agent, 4)?;
        let found = json!([stopped["tool_name"], stopped["action"], stopped["enforced"], stopped["guard"]]);
        ensure!(found == json!(["add", "block", true, "tool_access"]), "{wiring:?}: {stopped}");
        let through = gated.call(&agent, 5)?;
        ensure!(through["action"] == "allow" && through["enforced"] == json!(false), "{wiring:?}: {through}");
        let decided = agent.wait_for("what the gate did", |event| {
            is(event, "mcp_gate_decided") && event["connection"] == gated.connection
        })?;
        let found = json!([decided["action"], decided["guard"], decided["code"], decided["pid"]]);
        ensure!(
            found == json!(["neutralized", "tool_access", "tool_denied", client_process::pid()?]),
            "{wiring:?}: {decided}"
        );
    }
    agent.stop()?;
    Ok(())
}

#[test]
fn denied_call_fails_with_permission_error() -> Result<()> {
    let Some(agent) = agent(
        "denied_call_fails_with_permission_error",
        "enforcement: { stdio: deny }\npolicy: { denied_tools: [ad*] }",
    )?
    else {
        return Ok(());
    };
    for wiring in WIRINGS {
        let mut gated = Gated::start(&agent, wiring, &[]).with_context(|| format!("{wiring:?}"))?;
        // Two in one write: the innocent one is not run either, and that is said.
        let both = format!("{}\n{}\n", echo(3, "x"), add(4));
        let Err(error) = gated.peer.write(both.as_bytes()) else { bail!("{wiring:?}: it was written") };
        let error = error.downcast::<std::io::Error>()?;
        ensure!(error.kind() == std::io::ErrorKind::PermissionDenied, "{wiring:?}: {error}");
        ensure!(is_through(&gated.peer.ask(&echo(5, "y"))?), "{wiring:?}: the next write");
        let heard = gated.heard()?;
        ensure!(!heard.contains("\"add\"") && !heard.contains("\"x\""), "{wiring:?}: {heard}");
        for (id, tool, guard) in [(3, "echo", Value::Null), (4, "add", json!("tool_access"))] {
            let stopped = gated.call(&agent, id)?;
            let found =
                json!([stopped["tool_name"], stopped["action"], stopped["enforced"], stopped["guard"]]);
            ensure!(found == json!([tool, "block", true, guard]), "{wiring:?}: {stopped}");
        }
    }
    agent.stop()?;
    Ok(())
}

/// A server that is switched off is asked nothing, not even to begin. Others beside it are.
#[test]
fn disabled_server_receives_no_request() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let program = directory.path().join("off");
    fs::copy(places::program("benign-server"), &program)?;
    for mode in ["neutralize", "deny"] {
        let config = format!(
            "enforcement: {{ stdio: {mode} }}\nservers: [{{ id: off, command: {}, enabled: false }}]",
            program.display()
        );
        let Some(agent) = agent("disabled_server_receives_no_request", &config)? else {
            return Ok(());
        };
        for wiring in WIRINGS {
            let what = || format!("{mode} {wiring:?}");
            let mut peer = Peer::start(wiring, &mut Command::new(&program))?;
            // Said once the gate knows of it.
            let connection = agent.connection_of_server(peer.pid())?;
            for request in [initialize(1), add(2)] {
                let written = peer.say(&request);
                ensure!(written.is_ok() == (mode == "neutralize"), "{}: {written:?}", what());
                if written.is_ok() {
                    let answer = peer.answer()?;
                    ensure!(
                        answer["id"] == request["id"] && answer["error"].is_object(),
                        "{}: {answer}",
                        what()
                    );
                }
            }
            agent.wait_for("what the gate did", |event| {
                is(event, "mcp_gate_decided")
                    && event["connection"] == connection
                    && event["code"] == "server_disabled"
            })?;
            let mut other = Gated::start(&agent, wiring, &[]).with_context(what)?;
            ensure!(is_through(&other.peer.ask(&add(3))?), "{}: another server", what());
            other.peer.close()?;
            peer.kill()?;
        }
        agent.stop()?;
    }
    Ok(())
}

/// A client that does not wait: its call is judged though its server has not said a word, and does not even run yet.
#[test]
fn call_before_first_server_answer_is_judged() -> Result<()> {
    let test = "call_before_first_server_answer_is_judged";
    let config = "enforcement: { stdio: neutralize }\npolicy: { denied_tools: [ad*] }";
    let Some(agent) = agent(test, config)? else {
        return Ok(());
    };
    for (id, wiring) in (2..).zip(WIRINGS) {
        // What the agent does for the first time takes longer.
        Gated::start(&agent, wiring, &[])?.peer.close()?;
        let server = places::program("benign-server");
        let late = format!("sleep 1.9; exec {}", server.display());
        let mut peer = Peer::start(wiring, Command::new("sh").args(["-c", &late]))?;
        peer.say(&initialize(1))?;
        thread::sleep(Duration::from_secs(1));
        peer.say(&add(id))?;
        let answers = [peer.answer()?, peer.answer()?];
        ensure!(answers[0]["id"] == 1 && answers[0]["result"].is_object(), "{wiring:?}: {answers:?}");
        ensure!(answers[1]["id"] == id && answers[1]["error"].is_object(), "{wiring:?}: {answers:?}");
        let called =
            agent.wait_for("the call", |event| is(event, "mcp_tool_called") && event["jsonrpc_id"] == id)?;
        ensure!(called["action"] == "block" && called["enforced"] == json!(true), "{wiring:?}: {called}");
        peer.close()?;
    }
    agent.stop()?;
    Ok(())
}

/// Each form of a message, and whether it asks for what is denied: whole, and in two writes, cut at every place. What cannot
/// be neutralized, since the name and the method are gone by then, is refused.
#[test]
fn denied_call_is_found_in_any_json_form() -> Result<()> {
    let Some(agent) = agent(
        "denied_call_is_found_in_any_json_form",
        "enforcement: { stdio: neutralize }\npolicy: { denied_tools: [add] }",
    )?
    else {
        return Ok(());
    };
    let call =
        |params: &str| format!(r#"{{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{params}}}"#);
    let cases = [
        (call(r#"{"arguments":{"a":1,"b":2},"name":"add"}"#), true),
        (call(r#"{ "name" : "add" }"#), true),
        (call(r#"{"name":"\u0061dd"}"#), true),
        (call(r#"{"name":"echo","arguments":{"text":"x","name":"add"}}"#), false),
        (call(r#"{"name":"echo","arguments":{"text":"\"name\":\"add\""}}"#), false),
        (call(r#"{"name":"echo","arguments":{"text":"x","params":{"name":"add"}}}"#), false),
        (r#"{"id":9,"params":{"name":"add"},"method":"tools\/call"}"#.into(), true),
        (r#"{"id":9,"params":{"name":"add"},"method":"\u0074ools/call"}"#.into(), true),
        (r#"{"id":9,"params":{"name":"add"},"method":"ping"}"#.into(), false),
        (
            r#"[{"id":9,"method":"ping"},{"id":10,"method":"tools/call","params":{"name":"add"}}]"#.into(),
            true,
        ),
        (r#"[{"id":9,"method":"ping"},{"id":10,"method":"ping","params":{"name":"add"}}]"#.into(), false),
    ];
    for wiring in WIRINGS {
        let mut session = Gated::start(&agent, wiring, &[]).with_context(|| format!("{wiring:?}"))?;
        let mut refused = 0;
        for (text, is_denied) in &cases {
            for cut in 0..text.len() {
                let (first, second) = text.split_at(cut);
                let what = || format!("{wiring:?}: {first} | {second}");
                let mut written = Ok(());
                if !first.is_empty() {
                    written = session.peer.write(first.as_bytes());
                }
                if written.is_ok() {
                    written = session.peer.write(format!("{second}\n").as_bytes());
                }
                if let Err(error) = written {
                    ensure!(*is_denied, "{}: {error:#}", what());
                    refused += 1;
                    // Of this message the beginning is there.
                    session = Gated::start(&agent, wiring, &[])?;
                    continue;
                }
                let line = session.peer.line()?.with_context(what)?;
                let answer: Value = serde_json::from_slice(&line)?;
                let is_stopped = match &answer {
                    Value::Array(answers) => answers.iter().any(|answer| answer["error"].is_object()),
                    answer => answer["error"].is_object(),
                };
                ensure!(is_stopped == *is_denied, "{}: {answer}", what());
            }
        }
        ensure!(refused < 20, "{wiring:?}: {refused} were refused: they could have been neutralized");
    }
    agent.stop()?;
    Ok(())
}
