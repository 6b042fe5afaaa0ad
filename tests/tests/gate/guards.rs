//! What guards that others wrote deny is stopped from the next call on.

use anyhow::{Result, ensure};
use mcpwarden_tests::agent::is;
use mcpwarden_tests::gated::{Gated, WIRINGS, add, agent, is_through};
use mcpwarden_tests::guard_service::GuardService;
use mcpwarden_tests::peer::echo;
use serde_json::json;

#[test]
fn standing_denial_stops_the_next_call() -> Result<()> {
    let test = "standing_denial_stops_the_next_call";
    let service = GuardService::start(|request| match request["operation"]["data"]["tool_name"].as_str() {
        Some("add") => {
            let reason = json!({ "code": "bad", "message": "no", "details": { "valid_for": "1h" } });
            (200, json!({ "decision": "deny", "reason": reason }))
        }
        _ => (204, json!(null)),
    })?;
    let config = format!(
        "enforcement: {{ stdio: neutralize }}\nguards: [{{ kind: http, runs_on: [tool_invoke], \
         failure_mode: fail_open, config: {{ url: \"http://{}/\" }} }}]",
        service.address
    );
    let Some(agent) = agent(test, &config)? else { return Ok(()) };
    let mut gated = Gated::start(&agent, WIRINGS[1], &[])?;
    ensure!(is_through(&gated.peer.ask(&add(4))?), "the call that is judged");
    let denied = agent.wait_for("the denial", |event| {
        is(event, "mcp_guard_denied") && event["connection"] == gated.connection
    })?;
    ensure!(denied["enforced"] == json!(false), "{denied}");
    let answer = gated.peer.ask(&add(5))?;
    ensure!(answer["id"] == 5 && answer["error"]["code"] == -32602, "{answer}");
    ensure!(is_through(&gated.peer.ask(&echo(6, "again"))?), "another tool");
    let stopped = gated.call(&agent, 5)?;
    let found = json!([stopped["tool_name"], stopped["action"], stopped["enforced"], stopped["guard"]]);
    ensure!(found == json!(["add", "block", true, "http"]), "{stopped}");
    // The session is the same, and so is the server: the denial holds on another connection.
    let mut other = Gated::start(&agent, WIRINGS[0], &[])?;
    let answer = other.peer.ask(&add(7))?;
    ensure!(answer["error"]["code"] == -32602, "{answer}");
    agent.stop()?;
    Ok(())
}

#[test]
fn tool_is_stopped_until_it_is_judged() -> Result<()> {
    let test = "tool_is_stopped_until_it_is_judged";
    let service = GuardService::start(|request| {
        let tools = request["operation"]["data"]["tools"].to_string();
        let reason = json!({ "code": "bad", "message": "no", "details": { "tools": ["add"] } });
        match tools.contains("add") {
            true => (200, json!({ "decision": "deny", "reason": reason })),
            false => (204, json!(null)),
        }
    })?;
    let config = format!(
        "enforcement: {{ stdio: neutralize }}\nguards: [{{ kind: http, runs_on: [tools_list], \
         config: {{ url: \"http://{}/\", hold_until_judged: true }} }}]",
        service.address
    );
    let Some(agent) = agent(test, &config)? else { return Ok(()) };
    let mut gated = Gated::start(&agent, WIRINGS[0], &[])?;
    // No tool was listed: nobody has judged one.
    let answer = gated.peer.ask(&echo(4, "early"))?;
    ensure!(answer["error"]["code"] == -32602, "{answer}");
    gated.peer.ask(&json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/list" }))?;
    agent.wait_for("the denial", |event| {
        is(event, "mcp_guard_denied") && event["connection"] == gated.connection
    })?;
    ensure!(is_through(&gated.peer.ask(&echo(6, "judged"))?), "it is judged");
    let answer = gated.peer.ask(&add(7))?;
    ensure!(answer["error"]["code"] == -32602, "{answer}");
    agent.stop()?;
    Ok(())
}
