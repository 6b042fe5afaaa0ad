//! What the gate's modes are to those who call through the official clients. docs/guide/blocking-calls.md has it as a table, in these words.

use std::fs;

use anyhow::{Context as _, Result, bail, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::clients::{Client, Plan, RealServer};
use mcpwarden_tests::gated::agent;
use mcpwarden_tests::places;
use serde_json::{Value, json};

/// The session goes on: what its server says to the name that the gate has written is the answer, and has the reason in it.
#[test]
fn neutralized_call_fails_and_session_continues() -> Result<()> {
    let test = "neutralized_call_fails_and_session_continues";
    let Some(agent) = agent(test, &config("neutralize"))? else { return Ok(()) };
    for (client, error) in [
        (Client::Python, "MCPError: unknown tool: "),
        (Client::TypeScript, "McpError: MCP error -32602: unknown tool: "),
        (Client::TypeScript2, "ProtocolError: unknown tool: "),
    ] {
        let [before, denied, after] = called(&agent, client)?;
        ensure!(is_answered(&before), "{client:?}: before: {before}");
        let expected = format!("{error}blocked by policy: tool_denied (mcpwarden)");
        ensure!(denied["error"] == expected, "{client:?}: {denied}");
        ensure!(is_answered(&after), "{client:?}: after: {after}");
    }
    agent.stop()?;
    Ok(())
}

/// These clients take a write that is refused for the end of their server.
#[test]
fn denied_write_ends_the_session() -> Result<()> {
    let Some(agent) = agent("denied_write_ends_the_session", &config("deny"))? else { return Ok(()) };
    for (client, error, next) in [
        (Client::Python, "MCPError: Connection closed", "MCPError: Connection closed"),
        (Client::TypeScript, "McpError: MCP error -32000: Connection closed", "Error: Not connected"),
        (Client::TypeScript2, "SdkError: Connection closed", "Error: Not connected"),
    ] {
        let [before, denied, after] = called(&agent, client)?;
        ensure!(is_answered(&before), "{client:?}: before: {before}");
        ensure!(denied["error"] == error, "{client:?}: {denied}");
        ensure!(after["error"] == next, "{client:?}: after: {after}");
    }
    agent.stop()?;
    Ok(())
}

/// What callers get of servers by other people, who say it in their own ways; the next call is answered.
#[test]
fn reason_reaches_callers_of_real_servers() -> Result<()> {
    let config =
        "enforcement: { stdio: neutralize }\npolicy: { denied_tools: [convert_time, echo, git_log] }";
    let Some(agent) = agent("reason_reaches_callers_of_real_servers", config)? else { return Ok(()) };
    for client in [Client::Python, Client::TypeScript, Client::TypeScript2] {
        for server in [RealServer::Time, RealServer::Everything, RealServer::Git] {
            let what = || format!("{client:?} {server:?}");
            let directory = tempfile::tempdir().context("no temporary directory")?;
            let path = |name: &str| directory.path().join(name);
            let mut plan = server.plan(directory.path())?;
            if server == RealServer::Everything {
                let message = "As long as the reason that is to take its place.";
                plan.calls[0]["arguments"]["message"] = message.into();
            }
            plan.calls.sort_by_key(|call| {
                !["convert_time", "echo", "git_log"].map(Value::from).contains(&call["name"])
            });
            (plan.outcomes, plan.pause_until) = (Some(path("outcomes")), Some(path("is-known")));
            let driven = client.start(&plan, directory.path())?;
            let connection = agent.connection_of_client(driven.pid())?;
            agent.wait_for("the tools", |event| {
                is(event, "mcp_tool_seen")
                    && event["connection"] == connection
                    && event["tool_name"] == plan.calls[0]["name"]
            })?;
            fs::write(path("is-known"), "").context("cannot write a file")?;
            let ended = driven.finish();
            let text = fs::read_to_string(path("outcomes"))
                .with_context(|| format!("{}: {:?}", what(), ended.err()))?;
            let outcomes: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
            let [denied, next] = outcomes.as_slice() else { bail!("{}: {text}", what()) };
            let named = "blocked by policy: tool_denied (mcpwarden)";
            let expected = match (client, server) {
                (_, RealServer::Everything) => format!("MCP error -32602: Tool {named} not found"),
                (Client::Python, _) => format!("MCPError: Unknown tool: {named}"),
                (Client::TypeScript, _) => format!("McpError: MCP error -32602: Unknown tool: {named}"),
                _ => format!("ProtocolError: Unknown tool: {named}"),
            };
            let answer = &denied["result"];
            let is_error = answer["isError"] == true && answer["content"][0]["text"] == expected;
            ensure!(is_error || denied["error"] == expected, "{}: {denied}", what());
            ensure!(next["result"]["isError"] != true && next["error"].is_null(), "{}: {next}", what());
        }
    }
    agent.stop()?;
    Ok(())
}

fn config(mode: &str) -> String {
    format!("enforcement: {{ stdio: {mode} }}\npolicy: {{ denied_tools: [add] }}")
}

fn is_answered(outcome: &Value) -> bool {
    outcome["result"]["content"][0]["text"] == "x"
}

/// An allowed call, a denied one, and an allowed one again, as their caller sees them.
fn called(agent: &Agent, client: Client) -> Result<[Value; 3]> {
    let directory = tempfile::tempdir().context("no temporary directory")?;
    let [outcomes, is_known] = ["outcomes.jsonl", "is-known"].map(|name| directory.path().join(name));
    let echo = json!({"name": "echo", "arguments": {"text": "x"}});
    let add = json!({"name": "add", "arguments": {"a": 20, "b": 22, "note": "The sum of both."}});
    let plan = Plan {
        command: places::program("benign-server"),
        env: json!({}),
        calls: vec![echo.clone(), add, echo],
        outcomes: Some(outcomes.clone()),
        pause_until: Some(is_known.clone()),
        ..Plan::default()
    };
    let driven = client.start(&plan, directory.path())?;
    let connection = agent.connection_of_client(driven.pid())?;
    // Said once the gate knows of it.
    agent.wait_for("the tools", |event| {
        is(event, "mcp_tool_seen") && event["connection"] == connection && event["tool_name"] == "echo"
    })?;
    fs::write(&is_known, "").context("cannot write a file")?;
    // How the client ends is no matter: the session may be over before.
    let ended = driven.finish();
    let text = fs::read_to_string(&outcomes).with_context(|| format!("{client:?}: {:?}", ended.err()))?;
    let found: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let stopped = agent.wait_for("the denied call", |event| {
        is(event, "mcp_tool_called") && event["connection"] == connection && event["tool_name"] == "add"
    })?;
    ensure!(stopped["enforced"] == json!(true), "{client:?}: {stopped}");
    found.try_into().map_err(|found| anyhow::anyhow!("{client:?}: {found:?}"))
}
