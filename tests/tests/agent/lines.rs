//! MCP in lines over sockets with an address: TCP within this host, and named and abstract Unix sockets.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::places;
use serde_json::Value;

/// A client, and the server that it has started.
pub struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    variant: &'static str,
}

impl Client {
    fn start(variant: &'static str) -> Result<Self> {
        Self::of("lines.py", variant)
    }

    /// A variant of a script.
    pub fn of(script: &str, variant: &'static str) -> Result<Self> {
        let script = places::sources().join("servers").join(script);
        let mut child = Command::new("python3")
            .arg(script)
            .arg(variant)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("python3")?;
        let output = BufReader::new(child.stdout.take().context("no stdout")?);
        let input = child.stdin.take();
        Ok(Self { child, input, output, variant })
    }

    /// Has it go on.
    pub fn go(&mut self) -> Result<()> {
        self.input.as_mut().context("it was ended")?.write_all(b"\n").context(self.variant)
    }

    /// What it prints next.
    pub fn said(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("{}: {line:?}", self.variant))
    }

    /// Ends it.
    pub fn end(mut self) -> Result<()> {
        drop(self.input.take());
        ensure!(self.child.wait()?.success(), "{}", self.variant);
        Ok(())
    }
}

/// What the agent is to report of a server: once that it started and what of it is known, its tool, the call and the result, and no
/// gap. The event of its start.
fn captured(agent: &Agent, variant: &str, said: &Value) -> Result<Value> {
    captured_with(agent, variant, said, 0)
}

/// The same with so many gaps.
pub fn captured_with(agent: &Agent, variant: &str, said: &Value, gaps: usize) -> Result<Value> {
    ensure!(said["text"] == variant, "{variant}: {said}");
    let started = agent.wait_for(variant, |event| {
        is(event, "mcp_server_started") && event["client"]["pid"] == said["client"]
    })?;
    let of_it = |event: &Value| event["connection"] == started["connection"];
    let result = agent.wait_for(variant, |event| is(event, "mcp_tool_result") && of_it(event))?;
    ensure!(result["result"]["content"][0]["text"] == variant, "{variant}: {result}");
    let url = said["url"].as_str().context("no URL")?;
    let (kind, id) = match url.split_once("://") {
        Some((kind, address)) => (kind, address),
        None => ("unix", url),
    };
    let facts = (&started["url"], &started["server_type"], &started["matched_by"]);
    ensure!(facts == (&said["url"], &kind.into(), &"behaviour".into()), "{variant}: {started}");
    let rest = started["server_id"].as_str().and_then(|named| named.strip_prefix(id));
    let elsewhere = if variant.contains("namespace") { "@netns-" } else { "" };
    ensure!(
        rest.is_some_and(|rest| rest.starts_with(elsewhere) && rest.is_empty() == elsewhere.is_empty()),
        "{variant}: {started}"
    );
    // `null` where it is not looked for.
    let is_said = said["server"].is_u64();
    ensure!(!is_said || started["pid"] == said["server"], "{variant}: {} listens: {started}", said["server"]);
    let events: Vec<Value> = agent.events().into_iter().filter(of_it).collect();
    for (kind, count) in [
        ("mcp_server_started", 1),
        ("mcp_tool_seen", 1),
        ("mcp_tool_called", 1),
        ("mcp_tool_result", 1),
        ("mcp_capture_gap", gaps),
    ] {
        let found = events.iter().filter(|event| is(event, kind)).count();
        ensure!(found == count, "{variant}: {found} of {kind}: {events:#?}");
    }
    let of_client = |event: &&Value| event["client"]["pid"] == said["client"];
    let all = agent.events();
    let servers = all.iter().filter(|event| is(event, "mcp_server_started")).filter(of_client).count();
    ensure!(servers == 1, "{variant}: {servers} servers of one client");
    Ok(started)
}

fn drive(agent: &Agent, variants: &[&'static str]) -> Result<()> {
    for variant in variants {
        let mut client = Client::start(variant)?;
        let said = client.said()?;
        let started = captured(agent, variant, &said)?;
        ensure!(started["adopted"] == false, "{variant}: {started}");
        client.end()?;
        agent.wait_for(variant, |event| {
            is(event, "mcp_server_exited") && event["connection"] == started["connection"]
        })?;
    }
    Ok(())
}

#[test]
fn servers_in_lines_over_tcp_are_captured() -> Result<()> {
    let agent = Agent::start(&[])?;
    drive(
        &agent,
        &[
            "tcp4",
            "tcp6",
            "server_first_tcp",
            "forked_server_tcp",
            "blanks_first_tcp",
            "byte_by_byte_tcp",
            "not_waiting_tcp",
            "accepted_as_stdio_tcp",
            "activated_tcp",
            "inherited_tcp",
        ],
    )?;
    agent.stop()?;
    Ok(())
}

#[test]
fn servers_in_lines_over_unix_sockets_are_captured() -> Result<()> {
    let agent = Agent::start(&[])?;
    drive(
        &agent,
        &[
            "named",
            "abstract",
            "server_first_unix",
            "forked_server_unix",
            "mark_first_unix",
            "byte_by_byte_unix",
            "accepted_as_stdio_unix",
            "activated_unix",
            "inherited_unix",
        ],
    )?;
    agent.stop()?;
    Ok(())
}

/// Who speaks has the descriptor from who connected: the connection stays the channel that it is.
#[test]
fn sockets_that_are_passed_on_are_captured() -> Result<()> {
    let agent = Agent::start(&[])?;
    // With either backend: the processes are watched, since their standard input and output are pipes.
    drive(&agent, &["passed_tcp", "passed_unix", "taken_tcp", "taken_unix"])?;
    agent.stop()?;
    Ok(())
}

/// Of what is no MCP nothing is reported; of a server that the same client speaks with afterwards, all is.
#[test]
fn other_protocols_over_sockets_are_not_reported() -> Result<()> {
    let agent = Agent::start(&[])?;
    drive(
        &agent,
        &[
            "log_tcp",
            "log_named",
            "log_abstract",
            "log_of_megabytes",
            "log_of_server",
            "arrays",
            "language_server_in_lines",
            "language_server",
            "other_methods",
            "no_version",
            "banner",
            "banner_unix",
            "binary",
            "http_over_unix",
            "half_a_message",
        ],
    )?;
    agent.stop()?;
    Ok(())
}

/// With `discovery.loopback: false` nobody looks.
#[test]
fn servers_in_lines_are_not_sought_where_that_is_turned_off() -> Result<()> {
    let (_directory, config) = mcpwarden_tests::command::configured("discovery: { loopback: false }\n")?;
    let agent = Agent::start(&["--config", &config])?;
    for variant in ["tcp4", "named", "abstract"] {
        let mut client = Client::start(variant)?;
        let said = client.said()?;
        client.end()?;
        agent.settle();
        let all = agent.events();
        let found = all.iter().find(|event| event["client"]["pid"] == said["client"]);
        ensure!(found.is_none(), "{variant}: {found:?}");
    }
    agent.stop()?;
    Ok(())
}
