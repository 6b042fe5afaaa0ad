//! Real servers, driven by the official clients: what the client logged on its side is what the agent reports.

use anyhow::{Context as _, Result};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::clients::{Client, RealServer};
use mcpwarden_tests::transcript::compare;

#[test]
fn python_sdk_client_over_stdio_is_reported() -> Result<()> {
    drive_all(Client::Python)
}

#[test]
fn typescript_sdk_client_over_stdio_is_reported() -> Result<()> {
    drive_all(Client::TypeScript)
}

fn drive_all(client: Client) -> Result<()> {
    let agent = Agent::start(&[])?;
    for server in RealServer::ALL {
        drive(&agent, client, server).with_context(|| format!("{client:?} client, {server:?} server"))?;
    }
    agent.stop()?;
    Ok(())
}

fn drive(agent: &Agent, client: Client, server: RealServer) -> Result<()> {
    let directory = tempfile::tempdir().context("no temporary directory")?;
    let plan = server.plan(directory.path())?;
    let driven = client.start(&plan, directory.path())?;
    let client_pid = driven.pid();
    let said = driven.finish()?;

    let connection = agent.connection_of_client(client_pid)?;
    // Nothing follows it on a connection.
    agent.wait_for("the server's end", |event| {
        is(event, "mcp_server_exited") && event["connection"] == connection
    })?;
    compare(&said, &agent.messages(connection)?)?;

    let events = agent.events_of(connection);
    let count = |kind: &str| events.iter().filter(|event| is(event, kind)).count();
    assert_eq!(count("mcp_server_started"), 1);
    assert_eq!(count("mcp_server_initialized"), 1);
    assert_eq!(count("mcp_tool_called"), plan.calls.len());
    assert_eq!(count("mcp_tool_result"), plan.calls.len());
    assert_eq!(count("mcp_capture_gap"), 0);
    let offered =
        said.iter().filter_map(|(_, message)| message["result"]["tools"].as_array()).flatten().count();
    assert_eq!(count("mcp_tool_seen"), offered);
    Ok(())
}
