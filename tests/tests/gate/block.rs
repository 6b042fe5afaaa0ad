//! What an operator blocks of calls: at once, whatever is configured, until its end, of one server or of one session.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::gated::{Gated, WIRINGS, add, agent, is_there, is_through, tell};
use mcpwarden_tests::patience::patience;
use mcpwarden_tests::peer::{echo, wait_until};
use mcpwarden_tests::wiring::Wiring;
use nix::sys::signal::Signal;
use serde_json::json;

/// The id that a server was given, and the session that the test is to the agent.
fn who(agent: &Agent, session: &Gated) -> Result<(String, String)> {
    let started = agent.wait_for("the server", |event| {
        is(event, "mcp_server_started") && event["connection"] == session.connection
    })?;
    let word = |key: &str| started[key].as_str().map(str::to_owned).context("an id");
    Ok((word("server_id")?, word("session_id")?))
}

/// Whether two calls pass.
fn passes(session: &mut Gated, id: u64) -> Result<bool> {
    let answers =
        [session.peer.ask(&add(id))?, session.peer.ask(&echo(id + 1, "x"))?].map(|a| is_through(&a));
    ensure!(answers[0] == answers[1], "{answers:?}");
    Ok(answers[0])
}

/// Where nothing is enforced, too; and of what is not blocked nothing is stopped, though it would be denied.
#[test]
fn blocked_server_is_not_called_without_enforcement() -> Result<()> {
    let test = "blocked_server_is_not_called_without_enforcement";
    if !is_there(test)? {
        return Ok(());
    }
    let agent = Agent::start(&[])?;
    let mut sessions = Vec::new();
    for (wiring, name) in WIRINGS.into_iter().zip(["mcp-server-one", "mcp-server-two"]) {
        sessions.push(Gated::start_as(name, &agent, wiring, &[])?);
    }
    let [one, two] = &mut sessions[..] else { unreachable!() };
    let (id, session) = who(&agent, one)?;
    ensure!(who(&agent, two)?.0 != id, "two servers");
    let target = format!("server={id}");
    let block = |target: &str| tell(&agent, &["block", target, "--reason", "a test"]);
    block(&target)?.expect("block", 0, "1 connection")?;
    ensure!(!passes(one, 10)?, "a server that is blocked");
    ensure!(passes(two, 10)?, "another");
    let call = one.call(&agent, 10)?;
    let found = json!([call["action"], call["enforced"], call["reason"]]);
    let reason = format!("server '{id}' is blocked by hand: a test");
    ensure!(found == json!(["block", true, reason]) && call["code"] == "server_blocked", "{call}");
    let events = agent.events();
    let said = events.iter().find(|event| is(event, "mcp_calls_blocked")).context("that it is blocked")?;
    ensure!(said["target"] == target.as_str() && said["server_id"] == id.as_str(), "{said}");

    agent.tell(&["unblock", &target])?.expect("unblock", 0, "unblocked")?;
    ensure!(passes(one, 20)?, "unblocked");

    // All servers of a session, also those to come.
    let target = format!("session={session}");
    block(&target)?.expect("block", 0, "2 connections")?;
    ensure!(!passes(one, 30)? && !passes(two, 30)?, "a session that is blocked");
    agent.tell(&["unblock", &target])?.expect("unblock", 0, "unblocked")?;
    ensure!(passes(one, 40)? && passes(two, 40)?, "unblocked");
    ensure!(agent.tell(&["block", "session=nobody"])?.stderr.contains("no running session"), "nobody's");
    agent.stop()?;
    Ok(())
}

/// Beside a policy, and with all that may be undecided.
#[test]
fn block_expires_without_the_agent() -> Result<()> {
    let test = "block_expires_without_the_agent";
    let config = "enforcement: { stdio: neutralize }\npolicy: { denied_tools: [add] }";
    let Some(agent) = agent(test, config)? else { return Ok(()) };
    let mut session = Gated::start(&agent, Wiring::Pipes, &[])?;
    let (id, _) = who(&agent, &session)?;
    let through =
        |session: &mut Gated, id: u64| -> Result<bool> { Ok(is_through(&session.peer.ask(&echo(id, "x"))?)) };
    ensure!(through(&mut session, 10)?, "before");
    let time = patience(Duration::from_secs(3));
    let target = format!("server={id}");
    agent
        .tell(&["block", &target, "--for", &format!("{}s", time.as_secs())])?
        .expect("block", 0, "until 20")?;
    ensure!(!through(&mut session, 11)?, "while it counts");
    let long = format!("{}\n", echo(12, &"x".repeat(100_000)));
    ensure!(session.peer.write(long.as_bytes()).is_err(), "what nobody can tell is none that may pass");
    agent.signal(Signal::SIGSTOP)?;
    let mut id = 20;
    let ended = wait_until("the end of the block", || {
        id += 1;
        through(&mut session, id).unwrap_or(false)
    });
    let denied = session.peer.ask(&add(19))?;
    agent.signal(Signal::SIGCONT)?;
    ended?;
    ensure!(denied["error"].is_object(), "the policy counts on: {denied}");
    let said = agent.wait_for("its end", |event| is(event, "mcp_calls_unblocked"))?;
    ensure!(said["reason"] == "expired" && said["target"] == target.as_str(), "{said}");
    agent.tell(&["blocks"])?.expect("blocks", 0, "nothing is blocked")?;
    agent.stop()?;
    Ok(())
}
