//! Servers with standard input and output that no exec made a connection, or that are none that can be captured.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::places;
use serde_json::Value;

/// A client that has done all that it does, and waits to be ended.
struct Client {
    child: Child,
    variant: &'static str,
    server: u64,
}

impl Client {
    fn run(variant: &'static str) -> Result<Self> {
        let script = places::sources().join("servers/handed.py");
        let mut child = Command::new("python3")
            .arg(script)
            .arg(variant)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("python3")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no stdout")?).read_line(&mut line)?;
        let said: Value = serde_json::from_str(&line).with_context(|| format!("{variant}: {line:?}"))?;
        ensure!(said["text"] == variant && said["client"] == child.id(), "{variant}: {said}");
        let server = said["server"].as_u64().with_context(|| format!("{variant}: {said}"))?;
        Ok(Self { child, variant, server })
    }

    fn end(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        ensure!(self.child.wait()?.success(), "{}", self.variant);
        Ok(())
    }
}

/// What the agent is to report of a server: once that it started, its tool, the call and the result; and no gap, but for what the
/// client wrote before the server had its descriptors.
fn captured(agent: &Agent, client: &Client, is_of_process: bool) -> Result<()> {
    let Client { variant, server, child } = client;
    let pid = child.id();
    let started =
        agent.wait_for(variant, |event| is(event, "mcp_server_started") && event["client"]["pid"] == pid)?;
    ensure!(!is_of_process || started["pid"] == *server, "{variant}: process {server}: {started}");
    let of_it = |event: &Value| event["connection"] == started["connection"];
    let result = agent.wait_for(variant, |event| is(event, "mcp_tool_result") && of_it(event))?;
    ensure!(result["result"]["content"][0]["text"] == *variant, "{variant}: {result}");
    let events: Vec<Value> = agent.events().into_iter().filter(of_it).collect();
    for (kind, count) in
        [("mcp_server_started", 1), ("mcp_tool_seen", 1), ("mcp_tool_called", 1), ("mcp_tool_result", 1)]
    {
        let found = events.iter().filter(|event| is(event, kind)).count();
        ensure!(found == count, "{variant}: {found} of {kind}: {events:#?}");
    }
    let gaps = events.iter().filter(|event| is(event, "mcp_capture_gap"));
    for gap in gaps {
        ensure!(gap["cause"] == "started_late" && gap["direction"] == "c2s", "{variant}: {gap}");
    }
    Ok(())
}

/// How the server comes by its descriptors, and whether the process that the script names is the one that serves.
#[test]
fn servers_without_exec_are_captured() -> Result<()> {
    let agent = Agent::start(&[])?;
    for (variant, is_of_process) in [
        ("fork_dup2", true),
        ("fork_dup2_of_stdout_first", true),
        ("fork_dup3", true),
        ("fork_close_and_dup", true),
        ("fork_dup2_later", true),
        ("fork_with_sockets", true),
        ("fork_twice", true),
        ("multiprocessing_fork", true),
        ("thread_of_child", true),
        ("exec_dup2", true),
        ("exec_received", true),
        ("exec_late", true),
        ("prefork", true),
    ] {
        let client = Client::run(variant)?;
        captured(&agent, &client, is_of_process)?;
        client.end()?;
    }
    agent.stop()?;
    Ok(())
}

/// What stdin and stdout are; the server goes by its command line.
#[test]
fn servers_over_what_is_not_captured_are_reported() -> Result<()> {
    let (_directory, config) = mcpwarden_tests::command::configured(
        "discovery: { custom_servers: [\"*handed.py --serve-mcp-server-*\"] }\n",
    )?;
    let agent = Agent::start(&["--config", &config])?;
    for (variant, transport) in
        [("sequenced_packets", "packet_socket"), ("datagrams", "packet_socket"), ("terminal", "pty")]
    {
        let client = Client::run(variant)?;
        let event = agent
            .wait_for(variant, |event| is(event, "mcp_server_uncaptured") && event["pid"] == client.server)?;
        ensure!(event["transport"] == transport && event["server_type"] == "stdio", "{variant}: {event}");
        let executable = event["executable"].as_str().unwrap_or_default();
        ensure!(executable.contains("python") && event["server_id"].is_string(), "{variant}: {event}");
        ensure!(
            event["reason"].as_str().is_some_and(|why| why.contains("not captured")),
            "{variant}: {event}"
        );
        client.end()?;
    }
    agent.stop()?;
    Ok(())
}
