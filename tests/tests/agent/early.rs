//! MCP in lines over sockets that were connected before the agent started.

use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use serde_json::Value;

use crate::lines::{Client, captured_with};

/// Three fd scans, from which on the bytes at both ends of a Unix socket are known. Nothing shows them.
const COUNTED: Duration = Duration::from_secs(16);
/// Within this time bytes that went by unseen are noticed.
const NOTICED: Duration = Duration::from_secs(30);

/// Starts clients, then an agent, and has them go on.
fn begun(variants: &[&'static str]) -> Result<(Agent, Vec<Client>)> {
    let mut clients = Vec::new();
    for variant in variants {
        let mut client = Client::of("early.py", variant)?;
        client.said()?;
        clients.push(client);
    }
    Ok((Agent::start(&[])?, clients))
}

/// What a client prints once it went on, and the start of its server that was reported.
fn gone_on(agent: &Agent, client: &mut Client, variant: &str, gaps: usize) -> Result<(Value, Value)> {
    client.go()?;
    let said = client.said()?;
    let started = captured_with(agent, variant, &said, gaps)?;
    Ok((said, started))
}

/// Each variant, and how many bytes of a message had gone by before the agent started, so that the rest is a gap.
fn adopted(variants: &[(&'static str, u64)]) -> Result<()> {
    let names: Vec<&str> = variants.iter().map(|(name, _)| *name).collect();
    let (agent, clients) = begun(&names)?;
    for (mut client, (variant, rest)) in clients.into_iter().zip(variants) {
        let (_, started) = gone_on(&agent, &mut client, variant, usize::from(*rest > 0))?;
        ensure!(started["adopted"] == true, "{variant}: {started}");
        let of_it = |event: &Value| event["connection"] == started["connection"];
        let gap = agent.events().into_iter().find(|event| is(event, "mcp_capture_gap") && of_it(event));
        let bytes = gap.as_ref().map_or(0, |gap| gap["bytes"].as_u64().unwrap_or_default());
        ensure!(bytes == *rest, "{variant}: {gap:?}");
        client.end()?;
        agent.wait_for(variant, |event| is(event, "mcp_server_exited") && of_it(event))?;
    }
    agent.stop()?;
    Ok(())
}

#[test]
fn open_connections_over_tcp_are_adopted() -> Result<()> {
    adopted(&[
        ("tcp4", 0),
        ("tcp6", 0),
        ("idle_tcp", 0),
        ("server_first_tcp", 0),
        ("half_a_request_tcp", 56),
        ("half_an_answer_tcp", 2),
        ("forked_tcp", 0),
        ("left_tcp", 0),
        ("inherited_tcp", 0),
        ("forked_server_tcp", 0),
        ("nobody_listens", 0),
        ("no_backlog", 0),
        ("in_namespace", 0),
        ("web", 0),
    ])
}

#[test]
fn open_connections_over_unix_are_adopted() -> Result<()> {
    adopted(&[
        ("named", 0),
        ("abstract", 0),
        ("idle_unix", 0),
        ("server_first_unix", 0),
        ("half_a_request_unix", 56),
        ("half_an_answer_unix", 2),
        ("forked_unix", 0),
        ("left_unix", 0),
        ("inherited_unix", 0),
        ("forked_server_unix", 0),
    ])
}

/// Of what is no MCP nothing is reported, and of a server that the same client connects to afterwards all is.
#[test]
fn open_connections_of_others_are_not_reported() -> Result<()> {
    let variants = [
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
    ];
    let (agent, clients) = begun(&variants)?;
    for (mut client, variant) in clients.into_iter().zip(variants) {
        let (_, started) = gone_on(&agent, &mut client, variant, 0)?;
        ensure!(started["adopted"] == false, "{variant}: {started}");
        client.end()?;
    }
    agent.stop()?;
    Ok(())
}

/// Of one user no more are adopted than leave room for new ones.
#[test]
fn open_connections_leave_room_for_new_ones() -> Result<()> {
    let (agent, clients) = begun(&["crowd"])?;
    let mut client = clients.into_iter().next().context("no client")?;
    let (_, started) = gone_on(&agent, &mut client, "crowd", 0)?;
    ensure!(started["adopted"] == false, "{started}");
    client.end()?;
    let counters = &agent.stop()?["counters"];
    // Both passes come to them.
    let refused = counters["kernel_sockets_refused"].as_u64().unwrap_or_default();
    ensure!((900..2_200).contains(&refused), "{counters}");
    Ok(())
}

/// With `discovery.loopback: false` nobody looks.
#[test]
fn open_connections_are_left_where_that_is_turned_off() -> Result<()> {
    let mut clients = Vec::new();
    for variant in ["tcp4", "named", "abstract"] {
        let mut client = Client::of("early.py", variant)?;
        client.said()?;
        clients.push(client);
    }
    let (_directory, config) = mcpwarden_tests::command::configured("discovery: { loopback: false }\n")?;
    let agent = Agent::start(&["--config", &config])?;
    for mut client in clients {
        client.go()?;
        let said = client.said()?;
        client.end()?;
        agent.settle();
        let all = agent.events();
        let found = all.iter().find(|event| event["client"]["pid"] == said["client"]);
        ensure!(found.is_none(), "{found:?}");
    }
    agent.stop()?;
    Ok(())
}

/// A process that no program watches speaks for the client: what it asks and is answered is reported, or as many bytes are missing.
#[test]
fn bytes_over_sockets_that_nobody_saw_are_gaps() -> Result<()> {
    let variants = ["unseen_tcp", "unseen_named", "unseen_abstract"];
    let (agent, mut clients) = begun(&variants)?;
    let mut started = Vec::new();
    for (client, variant) in clients.iter_mut().zip(variants) {
        started.push(gone_on(&agent, client, variant, 0)?.1);
    }
    thread::sleep(COUNTED);
    let mut moved = Vec::new();
    for client in &mut clients {
        client.go()?;
        moved.push(client.said()?);
    }
    for ((variant, started), moved) in variants.into_iter().zip(started).zip(moved) {
        let of_it = |event: &Value| event["connection"] == started["connection"];
        for (direction, bytes) in [("c2s", &moved["asked"]), ("s2c", &moved["answered"])] {
            let seen = agent.wait_for_within(NOTICED, variant, |event| {
                let is_gap = is(event, "mcp_capture_gap") && event["direction"] == direction;
                let is_result = is(event, "mcp_tool_result") && event["jsonrpc_id"] == 77;
                of_it(event) && (is_gap || is_result)
            })?;
            let is_gap = is(&seen, "mcp_capture_gap");
            ensure!(
                !is_gap || seen["cause"] == "unseen" && seen["bytes"] == *bytes,
                "{variant}: {seen}, not {moved}"
            );
        }
    }
    clients.into_iter().try_for_each(Client::end)?;
    agent.stop()?;
    Ok(())
}
