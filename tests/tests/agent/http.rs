//! MCP over HTTP in plain text: what the client logged on its side is what the agent reports.

use anyhow::{Context as _, Result};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::clients::Client;
use mcpwarden_tests::remote::Remote;
use mcpwarden_tests::transcript::compare;

#[test]
fn python_sdk_client_over_http_is_reported() -> Result<()> {
    drive_all(Client::Python)
}

#[test]
fn typescript_sdk_client_over_http_is_reported() -> Result<()> {
    drive_all(Client::TypeScript)
}

fn drive_all(client: Client) -> Result<()> {
    let agent = Agent::start(&[])?;
    for server in Remote::ALL {
        drive(&agent, client, server).with_context(|| format!("{client:?} client, {server:?} server"))?;
    }
    agent.stop()?;
    Ok(())
}

/// Nobody declared the server: it is found by what is said.
fn drive(agent: &Agent, client: Client, server: Remote) -> Result<()> {
    let directory = tempfile::tempdir().context("no temporary directory")?;
    let listening = server.start()?;
    let plan = listening.plan();
    let driven = client.start(&plan, directory.path())?;
    let client_pid = driven.pid();
    let said = driven.finish()?;

    let connection = agent.connection_of_client(client_pid)?;
    agent.wait_for("the end", |event| is(event, "mcp_server_exited") && event["connection"] == connection)?;
    compare(&said, &agent.messages(connection)?)?;

    let events = agent.events_of(connection);
    let count = |kind: &str| events.iter().filter(|event| is(event, kind)).count();
    assert_eq!(count("mcp_server_started"), 1);
    assert_eq!(count("mcp_server_initialized"), 1);
    assert_eq!(count("mcp_tool_called"), plan.calls.len());
    assert_eq!(count("mcp_tool_result"), plan.calls.len());
    assert_eq!(count("mcp_capture_gap"), 0);
    let kind = if server.is_sse() { "sse" } else { "http" };
    for event in &events {
        assert_eq!(event["server_type"], kind, "{event}");
        assert_eq!(
            event["server_id"],
            format!("127.0.0.1:{}/{}", listening.port, listening.path()),
            "{event}"
        );
    }
    assert_eq!(events[0]["url"], listening.url());
    Ok(())
}
