//! What an operator says of a running session: its calls are judged by that, in place of the configuration.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::command::ask;
use mcpwarden_tests::peer::{self, Peer, initialize, server};
use mcpwarden_tests::wiring::Wiring;
use serde_json::{Value, json};

/// A server of this process, which is its client: one session, however many servers.
fn start() -> Result<Peer> {
    let mut peer = Peer::start(Wiring::Pipes, &mut server("benign-server"))?;
    peer.ask(&initialize(0))?;
    Ok(peer)
}

/// The event of a call.
fn call(agent: &Agent, peer: &mut Peer, id: u64, tool: &str) -> Result<Value> {
    peer.ask(&peer::call(id, tool, &json!({})))?;
    let connection = agent.connection_of_server(peer.pid())?;
    agent.wait_for(&format!("the call {id} of {tool}"), |event| {
        is(event, "mcp_tool_called") && event["connection"] == connection && event["jsonrpc_id"] == id
    })
}

#[test]
fn session_setting_applies_at_once_and_is_reported() -> Result<()> {
    let directory = tempfile::tempdir()?;
    fs::DirBuilder::new().mode(0o750).create(directory.path().join("state"))?;
    let config = directory.path().join("x.yaml").display().to_string();
    let store = directory.path().join("state/mcpwarden.db").display().to_string();
    let file = format!("store: {{ path: {store} }}\nguards: [{{ kind: mode }}, {{ kind: side_effects }}]\n");
    fs::write(&config, &file)?;
    let mut agent = Agent::start(&["--config", &config])?;
    let mut peer = start()?;
    let first = call(&agent, &mut peer, 1, "write_file")?;
    ensure!(first["code"].is_null(), "{first}");
    let session = first["session_id"].as_str().context("no session")?.to_owned();
    let set = |args: &[&str]| agent.tell(&[&["sessions", "set", &session], args].concat());

    // What is said, and what is decided from then on of calls that write and that pay.
    let (planning, denied) = (json!("planning_mode"), json!("side_effect_denied"));
    let mut id = 1;
    let mut another = start()?;
    for (args, said, write, pay) in [
        (&["mode", "planning", "--by", "ann"][..], "mode of SESSION is planning", &planning, &planning),
        (&["blacklist", "payments"], "blacklist of SESSION is payments", &planning, &planning),
        (&["mode", "execution"], "mode of SESSION is execution", &Value::Null, &denied),
        (&["mode", "--reset"], "mode of SESSION is execution, as configured", &Value::Null, &denied),
        (&["blacklist", "none"], "blacklist of SESSION is none", &Value::Null, &Value::Null),
        (&["mode", "planning"], "mode of SESSION is planning", &planning, &planning),
    ] {
        set(args)?.expect(&args.join(" "), 0, &said.replace("SESSION", &session))?;
        for peer in [&mut peer, &mut another] {
            for (tool, expected) in [("write_file", write), ("send_payment", pay)] {
                id += 1;
                let called = call(&agent, peer, id, tool)?;
                ensure!(called["code"] == *expected, "{args:?} {tool}: {called}");
            }
        }
    }
    // Another configuration does not take it back.
    fs::write(&config, file.replace("guards:", "sessions: [{ mode: execution }]\nguards:"))?;
    agent.tell(&["reload"])?.expect("reload", 0, "")?;
    let called = call(&agent, &mut peer, id + 1, "write_file")?;
    ensure!(called["code"] == planning, "{called}");

    let event = set(&["project", "billing", "--by", "ann", "--json"])?;
    event.expect("project", 0, "")?;
    ensure!(
        event.stderr.contains("the guard `project_binding`, which uses this setting, is off"),
        "{}",
        event.stderr
    );
    let event: Value = serde_json::from_str(&event.stdout)?;
    let profile = json!({"mode": "planning", "spec_frozen": false, "project_id": "billing", "policy_blacklist": [], "admin_token": false});
    ensure!(event["type"] == "mcp_session_set" && event["session_id"] == *session, "{event}");
    ensure!(
        event["by"] == "ann (root)" && event["key"] == "project" && event["profile"] == profile,
        "{event}"
    );
    let stored = agent.wait_for("the event", |event| {
        is(event, "mcp_session_set") && event["key"] == "project" && event["seq"].is_u64()
    })?;
    ensure!(stored["profile"] == profile, "{stored}");

    for (args, part) in [
        (&["sess_none", "mode", "planning"][..], "there is no session sess_none that has a server now"),
        (&[&session, "mode", "plan"], "expected planning or execution"),
        (&[&session, "mode"], "required"),
        (&[&session, "mode", "planning", "--reset"], "cannot be used with"),
        (&[&session, "colour", "red"], "[possible values: mode, project, spec, blacklist, admin-token]"),
        (
            &[&session, "blacklist", "payment"],
            "no tool has the side effect `payment`; the known side effects are ",
        ),
        (&[&session, "project", ""], "has 1 to 256 bytes"),
        (&[&session, "spec", "abc"], "expected 64 hexadecimal digits"),
    ] {
        let said = agent.tell(&[&["sessions", "set"], args].concat())?;
        ensure!(
            said.code == Some(2) && said.stderr.contains(part),
            "{args:?}: {:?} {}",
            said.code,
            said.stderr
        );
    }
    // Each time an event, and none for what was refused. The list is what it was.
    let count = agent.events().iter().filter(|event| is(event, "mcp_session_set")).count();
    ensure!(count == 7, "{count} events");
    peer.close()?;
    another.close()?;
    agent.signal(nix::sys::signal::Signal::SIGTERM)?;
    agent.wait_for_end()?;
    ask(&["sessions", "--path", &store])?.expect("the list", 0, &session)?;
    ask(&["audit", "verify", "--path", &store])?.expect("the trail", 0, "")?;
    Ok(())
}
