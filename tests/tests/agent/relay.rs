//! Relays: a call that passes through several servers is one call, of the last of them.

use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::containers::Docker;
use mcpwarden_tests::peer::{Driven, await_exit};
use mcpwarden_tests::places;
use serde_json::{Value, json};

fn program(name: &str) -> String {
    places::program(name).display().to_string()
}

/// The relay under another name, so that each has an id of its own.
fn relay(directory: &Path, name: &str) -> Result<String> {
    let path = directory.join(name);
    if !path.exists() {
        symlink(places::program("relay"), &path)?;
    }
    Ok(path.display().to_string())
}

/// Everything that is said of a client's session.
fn session(agent: &Agent, client: u32) -> Result<Vec<Value>> {
    let outer = agent.connection_of_client(client)?;
    // The outermost ends last, and what is behind it may end a moment later.
    await_exit(agent, outer)?;
    agent.settle();
    let events = agent.events();
    let session = events.iter().find(|event| event["connection"] == outer).context("no event")?;
    let session = session["session_id"].clone();
    Ok(events.into_iter().filter(|event| event["session_id"] == session).collect())
}

/// The `kind` events among these as (server, via, what `of` says).
fn said(events: &[Value], kind: &str, of: &str) -> Vec<(String, Value, String)> {
    let mut said: Vec<_> = events
        .iter()
        .filter(|event| is(event, kind))
        .map(|event| {
            let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
            (text("server_id"), event.get("via").cloned().unwrap_or(json!([])), text(of))
        })
        .collect();
    said.sort_by_key(|(server, via, what)| (what.clone(), server.clone(), via.to_string()));
    said
}

fn calls(tools: &[&str]) -> Vec<String> {
    tools
        .iter()
        .flat_map(|tool| {
            let arguments = if *tool == "add" { json!({"a": 1, "b": 2}) } else { json!({"text": "through"}) };
            ["--call".to_owned(), (*tool).to_owned(), arguments.to_string()]
        })
        .collect()
}

/// Name, the relays with their options (outermost first), the tools called, and for each tool in the order of its
/// name which server's call that is and through which relays.
#[test]
fn relayed_call_is_reported_once_for_innermost_server() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let agent = Agent::start(&[])?;
    type Relays<'a> = &'a [(&'a str, &'a [&'a str])];
    type Calls<'a> = &'a [(&'a str, &'a str, &'a [&'a str])];
    const INNER: &str = "benign-server";
    const BOTH: Calls<'_> = &[("add", INNER, &["relay-a"]), ("echo", INNER, &["relay-a"])];
    let cases: [(&str, Relays<'_>, Calls<'_>); 8] = [
        ("a copy", &[("relay-a", &[])], BOTH),
        ("a copy, sockets behind", &[("relay-a", &["--wiring", "sockets"])], BOTH),
        ("a helper without a parent", &[("relay-a", &["--helper"])], BOTH),
        ("ids of its own", &[("relay-a", &["--reassign-ids"])], BOTH),
        ("ids of its own, sockets behind", &[("relay-a", &["--reassign-ids", "--wiring", "sockets"])], BOTH),
        (
            "a relay of a relay",
            &[("relay-a", &[]), ("relay-b", &[])],
            &[("add", INNER, &["relay-a", "relay-b"]), ("echo", INNER, &["relay-a", "relay-b"])],
        ),
        (
            "a relay of a relay, ids of their own",
            &[("relay-a", &["--reassign-ids"]), ("relay-b", &["--reassign-ids"])],
            &[("add", INNER, &["relay-a", "relay-b"]), ("echo", INNER, &["relay-a", "relay-b"])],
        ),
        (
            "a relay with a tool of its own",
            &[("relay-a", &["--answer-locally", "echo"])],
            &[("add", INNER, &["relay-a"]), ("echo", "relay-a", &[])],
        ),
    ];
    for (name, relays, expected) in cases {
        for socketpair in [false, true] {
            let mut command = Vec::new();
            for (relay_name, options) in relays {
                command.push(relay(directory.path(), relay_name)?);
                command.extend(options.iter().map(|option| (*option).to_owned()));
                command.push("--".to_owned());
            }
            command.push(program(INNER));
            let mut options = calls(&["add", "echo"]);
            if socketpair {
                options.push("--socketpair".to_owned());
            }
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            let mut driven = Driven::start(&options, &command)?;
            driven.finish().context(name)?;
            let events = session(&agent, driven.pid()).context(name)?;
            let what = || format!("{name}, sockets in front: {socketpair}");
            let wanted: Vec<_> = expected
                .iter()
                .map(|(tool, server, via)| ((*server).to_owned(), json!(via), (*tool).to_owned()))
                .collect();
            for kind in ["mcp_tool_called", "mcp_tool_result"] {
                let found = said(&events, kind, "tool_name");
                ensure!(found == wanted, "{}: {kind}: {found:#?}", what());
            }
            // Tools are listed through every relay, and said once.
            let through: Vec<&str> = relays.iter().map(|(name, _)| *name).collect();
            let tools: Vec<_> =
                ["add", "echo"].map(|tool| (INNER.to_owned(), json!(through), tool.to_owned())).to_vec();
            let found = said(&events, "mcp_tool_seen", "tool_name");
            ensure!(found == tools, "{}: tools: {found:#?}", what());
            // The client's id, not one that a relay gave.
            for event in events.iter().filter(|event| is(event, "mcp_tool_called")) {
                ensure!(event["jsonrpc_id"].as_u64().is_some_and(|id| id < 100), "{}: {event}", what());
            }
            let servers = events.iter().filter(|event| is(event, "mcp_server_started")).count();
            ensure!(servers == relays.len() + 1, "{}: {servers} servers", what());
        }
    }
    agent.stop()?;
    Ok(())
}

/// Behind a daemon no process is a child of the command's that the client started.
#[test]
fn container_server_behind_a_daemon_is_found() -> Result<()> {
    let Some(docker) = Docker::start()? else {
        places::skipped(
            "container_server_behind_a_daemon_is_found",
            "Docker is missing (`cargo xtask setup --tests`)",
        );
        return Ok(());
    };
    docker.image("mcp/benign", &places::program("benign-server"))?;
    let command = docker.run("mcp/benign")?;
    let agent = Agent::start(&[])?;
    let options = calls(&["add", "echo"]);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let mut driven = Driven::start(&options, &command)?;
    driven.finish()?;
    let events = session(&agent, driven.pid())?;
    let wanted = ["add", "echo"].map(|tool| ("weather".to_owned(), json!(["benign"]), tool.to_owned()));
    for kind in ["mcp_tool_seen", "mcp_tool_called", "mcp_tool_result"] {
        let found = said(&events, kind, "tool_name");
        ensure!(found == wanted, "{kind}: {found:#?}");
    }
    let servers = events.iter().filter(|event| is(event, "mcp_server_started")).count();
    ensure!(servers == 2, "{servers} servers: {events:#?}");
    agent.stop()?;
    Ok(())
}

/// A thousand calls one behind the other: each once, none taken for another's copy.
#[test]
fn thousand_relayed_calls_are_reported_once_each() -> Result<()> {
    const CALLS: usize = 1_000;
    let directory = tempfile::tempdir()?;
    let agent = Agent::start(&[])?;
    for options in [&[][..], &["--reassign-ids"]] {
        let mut command = vec![relay(directory.path(), "relay-a")?];
        command.extend(options.iter().map(|option| (*option).to_owned()));
        command.extend(["--".to_owned(), program("benign-server")]);
        // The same call again and again: only their number tells them apart.
        let count = CALLS.to_string();
        let mut driven =
            Driven::start(&["--pipeline", &count, "--call", "echo", "{\"text\":\"again\"}"], &command)?;
        driven.finish()?;
        let events = session(&agent, driven.pid())?;
        for kind in ["mcp_tool_called", "mcp_tool_result"] {
            let found = said(&events, kind, "tool_name");
            ensure!(found.len() == CALLS, "{options:?}: {} {kind}", found.len());
            let through = json!(["relay-a"]);
            let astray =
                found.iter().filter(|(server, via, _)| server != "benign-server" || *via != through).count();
            ensure!(astray == 0, "{options:?}: {astray} of {kind} are not said of the inner server");
        }
    }
    agent.stop()?;
    Ok(())
}

/// A relay from npm in front of a server from npm.
#[test]
fn npm_relay_and_npm_server_are_reported_as_one() -> Result<()> {
    let node = places::real_servers().join("node");
    let server = node.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    if !node.join("node_modules/mcp-proxy").is_dir() {
        places::skipped(
            "npm_relay_and_npm_server_are_reported_as_one",
            "mcp-proxy is missing (`cargo xtask setup --tests`)",
        );
        return Ok(());
    }
    let agent = Agent::start(&[])?;
    let relay = places::sources().join("clients/relay.mjs");
    let command = [
        "env".to_owned(),
        format!("MCPWARDEN_NODE={}", node.display()),
        "node".to_owned(),
        relay.display().to_string(),
        "node".to_owned(),
        server.display().to_string(),
    ];
    let options = ["--socketpair", "--call", "echo", "{\"message\":\"through npm\"}"];
    let mut driven = Driven::start(&options, &command)?;
    driven.finish()?;
    let events = session(&agent, driven.pid())?;
    let through = [("server-everything".to_owned(), json!(["relay"]), "echo".to_owned())];
    for kind in ["mcp_tool_called", "mcp_tool_result"] {
        let found = said(&events, kind, "tool_name");
        ensure!(found == through, "{kind}: {found:#?}");
    }
    // Both shake hands, each in its own name.
    let mut clients: Vec<_> =
        said(&events, "mcp_server_initialized", "client_name").into_iter().map(|(.., name)| name).collect();
    clients.sort();
    ensure!(clients == ["mcp-proxy", "mcpwarden-client"], "{clients:?}");
    agent.stop()?;
    Ok(())
}
