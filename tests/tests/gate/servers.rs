//! The gate, by whom it stops: servers that are denied as a whole, and everybody whom it leaves alone.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::gated::{Gated, WIRINGS, add, agent, is_marked, is_through};
use mcpwarden_tests::peer::{Peer, echo, initialize};
use mcpwarden_tests::places;
use mcpwarden_tests::script::Step;
use mcpwarden_tests::sender::{self, Sending};
use mcpwarden_tests::wiring::Wiring;
use serde_json::{Value, json};

/// The tests' server under this name, writing to a file what it reads.
fn start(directory: &Path, name: &str, wiring: Wiring) -> Result<Peer> {
    let program = directory.join(name);
    if !program.exists() {
        fs::copy(places::program("benign-server"), &program)?;
    }
    let heard = directory.join("heard");
    Peer::start(wiring, Command::new(&program).arg("--heard").arg(&heard))
}

/// Requests of each kind that a client makes, beside `initialize`.
fn requests() -> [Value; 6] {
    [
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
        add(3),
        json!({"jsonrpc": "2.0", "id": 4, "method": "prompts/get", "params": {"name": "add"}}),
        json!({"jsonrpc": "2.0", "id": 5, "method": "resources/read", "params": {"uri": "file:///add"}}),
        json!({"jsonrpc": "2.0", "id": 6, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": 7, "method": "logging/setLevel", "params": {"level": "info"}}),
    ]
}

/// Whether each of these is denied, as the server's answer or the client's error says.
fn stops_all(peer: &mut Peer, mode: &str) -> Result<()> {
    for request in requests() {
        let written = peer.say(&request);
        ensure!(written.is_ok() == (mode == "neutralize"), "{request}: {written:?}");
        if written.is_ok() {
            let answer = peer.answer()?;
            ensure!(answer["id"] == request["id"], "{answer}");
            ensure!(is_marked(&answer["error"].to_string()), "{answer}");
        }
    }
    Ok(())
}

/// Which methods a server has read as they were written.
fn methods(heard: &str) -> Result<BTreeSet<String>> {
    let messages: Vec<Value> = heard.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let methods = messages.iter().filter_map(|message| message["method"].as_str());
    Ok(methods.filter(|method| !method.contains('\u{7f}')).map(str::to_owned).collect())
}

/// A server that nobody declared, and that is denied by its name: what it is asked first passes, since nobody knew of it by then;
/// from then on it is asked nothing, and runs on.
#[test]
fn server_denied_by_name_gets_no_more_requests() -> Result<()> {
    let test = "server_denied_by_name_gets_no_more_requests";
    for mode in ["neutralize", "deny"] {
        let config =
            format!("enforcement: {{ stdio: {mode} }}\npolicy: {{ denied_servers: ['mcp-server-ev*'] }}");
        let Some(agent) = agent(test, &config)? else { return Ok(()) };
        for wiring in WIRINGS {
            let what = || format!("{mode} {wiring:?}");
            let directory = tempfile::tempdir()?;
            let mut peer = start(directory.path(), "mcp-server-evil", wiring)?;
            ensure!(peer.ask(&initialize(1))?["result"].is_object(), "{}: the first", what());
            let connection = agent.connection_of_server(peer.pid())?;
            agent.settle();
            stops_all(&mut peer, mode).with_context(what)?;
            let heard = fs::read_to_string(directory.path().join("heard"))?;
            ensure!(methods(&heard)? == BTreeSet::from(["initialize".to_owned()]), "{}: {heard}", what());
            let word = if mode == "deny" { "refused" } else { "neutralized" };
            for _ in requests() {
                agent.wait_for("what the gate did", |event| {
                    is(event, "mcp_gate_decided")
                        && event["connection"] == connection
                        && json!([event["action"], event["guard"], event["code"]])
                            == json!([word, "server_access", "server_denied"])
                })?;
            }
            agent.settle();
            let events = agent.events_of(connection);
            let decided: Vec<&Value> = events.iter().filter(|event| is(event, "mcp_gate_decided")).collect();
            // Of a call the method is told and the name; of what is refused the first of both.
            let expected = requests().len() + usize::from(mode == "neutralize");
            ensure!(decided.len() == expected, "{}: {decided:#?}", what());
            ensure!(Path::new(&format!("/proc/{}/exe", peer.pid())).exists(), "{}: it was killed", what());
            // It ends by itself, when its input does.
            ensure!(peer.close()?.success(), "{}: its end", what());
        }
        agent.stop()?;
    }
    Ok(())
}

/// Where tools are denied, prompts and resources of these names are not: no rule speaks of them.
#[test]
fn prompts_and_resources_ignore_tool_rules() -> Result<()> {
    for mode in ["neutralize", "deny"] {
        let config = format!("enforcement: {{ stdio: {mode} }}\npolicy: {{ denied_tools: ['*add'] }}");
        let Some(agent) = agent("prompts_and_resources_ignore_tool_rules", &config)? else { return Ok(()) };
        for wiring in WIRINGS {
            let mut session = Gated::start(&agent, wiring, &[])?;
            for request in requests().into_iter().filter(|request| request["id"] != 3) {
                let answer = session.peer.ask(&request).with_context(|| format!("{mode} {wiring:?}"))?;
                ensure!(answer["id"] == request["id"], "{answer}");
                let heard = session.heard()?;
                ensure!(heard.contains(&request.to_string()), "{mode} {wiring:?}: {request} {heard}");
            }
            agent.settle();
            let decided = session.decided(&agent);
            ensure!(decided.is_empty(), "{mode} {wiring:?}: {decided:?}");
        }
        agent.stop()?;
    }
    Ok(())
}

/// Another client's server, of which nothing is denied, reads what it is written, though a tool of that name is denied elsewhere.
fn another_client(agent: &Agent, directory: &Path, wiring: Wiring) -> Result<()> {
    let program = directory.join("other");
    fs::copy(places::program("benign-server"), &program)?;
    let heard = directory.join("other-heard");
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).to_string();
    let mut lines = vec![sender::initialize(), list];
    lines.extend((10..30).map(|id| add(id).to_string()));
    let mut steps: Vec<Step> = lines.iter().map(|line| Step::line(line)).collect();
    steps.push(Step::AwaitLines(lines.len()));
    let mut sending = Sending::new(steps);
    sending.wiring = wiring;
    sending.server =
        [program.as_path(), Path::new("--heard"), &heard].map(|part| part.display().to_string()).to_vec();
    let sent = sending.run(agent)?;
    sent.check(agent)?;
    ensure!(
        fs::read_to_string(&heard)? == lines.join("\n") + "\n",
        "{wiring:?}: it was not read as it was written"
    );
    let results = String::from_utf8(sent.received)?.matches("\"isError\":false").count();
    ensure!(results == 20, "{wiring:?}: {results} calls were answered");
    Ok(())
}

/// Bytes that are no messages come out of a pipe, or a socket, as they went in.
fn no_server() -> Result<()> {
    let text = "delete: \"name\":\"add\" tools/call add\n".repeat(1_000);
    let (mut from, mut to) = std::io::pipe()?;
    let (mut one, mut other) = UnixStream::pair()?;
    thread::scope(|scope| -> Result<()> {
        let writer = scope.spawn(|| {
            to.write_all(text.as_bytes())?;
            drop(to);
            one.write_all(text.as_bytes())?;
            one.shutdown(std::net::Shutdown::Write)
        });
        for from in [&mut from as &mut dyn std::io::Read, &mut other] {
            let mut read = String::new();
            from.read_to_string(&mut read)?;
            ensure!(read == text, "other bytes");
        }
        writer.join().map_err(|_| anyhow::anyhow!("the writer failed"))??;
        Ok(())
    })?;
    let mut cat = Peer::start(Wiring::Pipes, &mut Command::new("cat"))?;
    for _ in 0..20 {
        let line = text.lines().next().context("a line")?;
        cat.write(format!("{line}\n").as_bytes())?;
        ensure!(cat.line()?.as_deref() == Some(format!("{line}\n").as_bytes()), "another line");
    }
    cat.close()?;
    Ok(())
}

/// While one server's calls are stopped, nobody else notices.
#[test]
fn stopped_calls_do_not_affect_other_servers() -> Result<()> {
    let config = "enforcement: { stdio: neutralize }\npolicy: { denied_tools: [{ server: denied, tool: add }] }\n\
                  cross_server: { enabled: false }";
    let Some(agent) = agent("stopped_calls_do_not_affect_other_servers", config)? else { return Ok(()) };
    for wiring in WIRINGS {
        let directory = tempfile::tempdir()?;
        let mut session = Gated::start_as("denied", &agent, wiring, &[])?;
        thread::scope(|scope| -> Result<()> {
            let others = scope.spawn(|| {
                another_client(&agent, directory.path(), wiring)?;
                no_server()
            });
            let mut id = 10;
            while !others.is_finished() || id < 30 {
                ensure!(is_through(&session.peer.ask(&echo(id, "x"))?), "{wiring:?}: an innocent call");
                let stopped = session.peer.ask(&add(id + 1));
                ensure!(stopped?["error"].is_object(), "{wiring:?}: it was run");
                id += 2;
            }
            others.join().map_err(|_| anyhow::anyhow!("others failed"))?
        })?;
        agent.settle();
        let elsewhere = |event: &Value| is(event, "mcp_gate_decided") && event["server_id"] != "denied";
        let decided: Vec<Value> = agent.events().into_iter().filter(elsewhere).collect();
        ensure!(decided.is_empty(), "{wiring:?}: {decided:?}");
        session.peer.close()?;
    }
    agent.stop()?;
    Ok(())
}
