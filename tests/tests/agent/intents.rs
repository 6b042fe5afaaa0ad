//! What a model wants, read in the memory of its client, and the calls that the client makes then.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::command::configured;
use mcpwarden_tests::over_tls::Server;
use mcpwarden_tests::places;
use serde_json::{Value, json};

/// From the answer of a model to the event of the call.
#[test]
fn intents_of_a_model_over_https_are_tied_to_calls() -> Result<()> {
    let (server, model) = (Server::start()?, Server::run("model.mjs")?);
    server.answer_at_once()?;
    let declared = server.declared();
    let yaml = format!("{declared}capture: {{ tls: clients, model_apis: [\"{}\"] }}\n", model.url);
    let (_directory, config) = configured(&yaml)?;
    let agent = Agent::start(&["--config", &config, "--log", "debug"])?;
    let mut command = Command::new(places::real_servers().join("venv/bin/python"));
    command.arg(places::sources().join("clients/intents.py")).args([&model.url, &server.url]);
    let pid = model.drive(&agent, command.stdout(Stdio::null()))?;
    let connection = agent.connection_of_client(pid)?;
    agent.wait_for("the last result", |event| {
        is(event, "mcp_tool_result") && event["connection"] == connection && event["jsonrpc_id"] == 5
    })?;
    let events = agent.events();
    let found: Vec<Value> = events
        .iter()
        .filter(|event| is(event, "mcp_tool_call_intercepted") || is(event, "mcp_tool_called"))
        .filter(|event| event["pid"] == pid || event["connection"] == connection)
        .map(|event| match is(event, "mcp_tool_called") {
            true => json!({"called": event["intent"]}),
            false => json!([
                event["dialect"],
                event["model"],
                event["request_id"],
                event["tool_call_id"],
                event["tool_name"],
                event["tool_id"]
            ]),
        })
        .collect();
    let first =
        json!({"dialect": "anthropic", "model": "model-1", "request_id": "req_1", "tool_call_id": "toolu_1"});
    let second = json!({
        "dialect": "openai_chat", "model": "model-2", "request_id": "req_2", "tool_call_id": "call_1", "other_arguments": true,
    });
    let expected = [
        json!(["anthropic", "model-1", "req_1", "toolu_1", "mcp__remote__echo", "mcp:remote:echo"]),
        json!({"called": first}),
        json!(["openai_chat", "model-2", "req_2", "call_1", "remote-echo", "mcp:remote:echo"]),
        json!({"called": second}),
        json!({"called": null}),
    ];
    ensure!(found == expected, "{found:#?}");
    let leaked = events.iter().find(|event| event.to_string().contains("secret of the user"));
    ensure!(leaked.is_none(), "{leaked:#?}");
    let of_model =
        |event: &&Value| is(event, "mcp_network_connection") && model.url.ends_with(address(event));
    ensure!(!events.iter().any(|event| of_model(&event)), "an API of a model is no server");
    let counters = agent.stop()?["counters"].clone();
    let count = |name: &str| counters[name].as_u64().with_context(|| format!("{name}: {counters:#}"));
    ensure!(
        count("intents")? == 2 && count("intents_called")? == 2 && count("model_answers")? == 2,
        "{counters:#}"
    );
    Ok(())
}

fn address(event: &Value) -> &str {
    event["remote_addr"].as_str().unwrap_or("-")
}
