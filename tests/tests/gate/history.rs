//! The gate, by the calls before: rates, and the rules across servers.

use std::fmt::Write as _;
use std::io;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::gated::{Gated, WIRINGS, add, agent, is_through};
use mcpwarden_tests::patience::patience;
use mcpwarden_tests::peer::echo;
use mcpwarden_tests::wiring::Wiring;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

/// These were made, and those were stopped: by this rule, and the gate and the guards both say so.
fn check(
    agent: &Agent,
    session: &mut Gated,
    made: &[u64],
    stopped: &[u64],
    guard_and_code: (&str, &str),
) -> Result<()> {
    let answers = session.hear(made.len() + stopped.len())?;
    let decided = || session.decided(agent);
    for (ids, is_made) in [(made, true), (stopped, false)] {
        for id in ids {
            let answer = answers.get(id).with_context(|| format!("{id}: {answers:?}"))?;
            ensure!(is_through(answer) == is_made, "call {id}: {answer} {:?}", decided());
            let call = session.call(agent, *id)?;
            ensure!(call["enforced"] == json!(!is_made) && (call["action"] == "block") != is_made, "{call}");
        }
    }
    let (guard, code) = guard_and_code;
    for _ in stopped {
        agent.wait_for("what the gate did", |event| {
            is(event, "mcp_gate_decided")
                && event["connection"] == session.connection
                && event["action"] == "neutralized"
                && event["guard"] == guard
                && event["code"] == code
        })?;
    }
    Ok(())
}

/// In one write, so that nobody but the kernel could count them.
fn at_once(agent: &Agent, session: &mut Gated, calls: &[serde_json::Value]) -> Result<()> {
    let text = calls.iter().fold(String::new(), |mut text, call| {
        let _ = writeln!(text, "{call}");
        text
    });
    session.peer.write(text.as_bytes()).with_context(|| {
        agent.settle();
        format!("{:?}", session.decided(agent))
    })
}

#[test]
fn rate_limited_call_is_stopped() -> Result<()> {
    let config = "enforcement: { stdio: neutralize }\npolicy: { rate_limits: { enabled: true, default_rpm: 1, \
                  default_burst: 4, per_tool: { '*:add': { calls_per_minute: 1, burst: 2 } } } }\n\
                  cross_server: { enabled: false }";
    let Some(agent) = agent("rate_limited_call_is_stopped", config)? else { return Ok(()) };
    for (wiring, name) in WIRINGS.into_iter().zip(["by-pipes", "by-sockets"]) {
        let mut session = Gated::start_as(name, &agent, wiring, &[]).context(name)?;
        // Its third is one too many, however it is spelt; and the server's bucket has four.
        let spelt = add(12).to_string().replace("\"add\"", "\"\\u0061dd\"");
        let calls = [add(10), add(11), serde_json::from_str(&spelt)?];
        at_once(&agent, &mut session, &calls).context(name)?;
        check(&agent, &mut session, &[10, 11], &[12], ("rate_limit", "rate_limited")).context(name)?;
        at_once(&agent, &mut session, &[echo(13, "x"), echo(14, "x"), echo(15, "x")]).context(name)?;
        check(&agent, &mut session, &[13, 14], &[15], ("rate_limit", "rate_limited")).context(name)?;
    }
    agent.stop()?;
    Ok(())
}

/// What the tools of both servers do, so that one reads and the other sends. (They have the same names.)
const ACROSS: &str = "enforcement: { stdio: neutralize }\nclassifier: { overrides: [{ tool: echo, category: read }, \
                      { tool: add, category: send }] }\n\
                      cross_server: { shadow_tool: { enabled: false } }\n";

#[test]
fn read_data_is_not_sent_to_another_server() -> Result<()> {
    let Some(agent) = agent("read_data_is_not_sent_to_another_server", ACROSS)? else { return Ok(()) };
    for wiring in WIRINGS {
        let mut files = Gated::start_as("files", &agent, wiring, &[])?;
        let mut mail = Gated::start_as("mail", &agent, wiring, &[])?;
        if wiring == Wiring::Pipes {
            // Nothing is read so far. (With the second wiring this session has read.)
            at_once(&agent, &mut mail, &[add(9)])?;
            check(&agent, &mut mail, &[9], &[], ("cross_server", "read_then_send"))?;
        }
        // The one right behind the other: nobody has seen the first when the second comes.
        let (read, send) = (format!("{}\n", echo(10, "secret")), format!("{}\n", add(11)));
        files.peer.write(read.as_bytes())?;
        mail.peer.write(send.as_bytes())?;
        check(&agent, &mut files, &[10], &[], ("cross_server", "read_then_send"))?;
        check(&agent, &mut mail, &[], &[11], ("cross_server", "read_then_send"))?;
        ensure!(
            !mail.heard()?.contains(
                r#""id":11,"method":"tools/call","params":{"arguments":{"a":20,"b":22},"name":"add""#
            )
        );
        // Where it was read it may go.
        at_once(&agent, &mut files, &[add(12)])?;
        check(&agent, &mut files, &[12], &[], ("cross_server", "read_then_send"))?;
    }
    agent.stop()?;
    Ok(())
}

/// A session's calls are one turn until it pauses. What was read in a turn is not written elsewhere within it; where that does not
/// count, not within the window.
#[test]
fn read_data_is_not_written_elsewhere_within_a_turn() -> Result<()> {
    let test = "read_data_is_not_written_elsewhere_within_a_turn";
    for (flow, is_free_later) in
        [("same_turn_only: true", true), ("same_turn_only: false, window: 10m", false)]
    {
        let config = format!(
            "enforcement: {{ stdio: neutralize }}\n\
             classifier: {{ overrides: [{{ tool: echo, category: read }}, {{ tool: add, category: write }}] }}\n\
             cross_server: {{ shadow_tool: {{ enabled: false }}, turn_gap: 1s, cross_server_flow: {{ {flow} }} }}\n"
        );
        let Some(agent) = agent(test, &config)? else { return Ok(()) };
        let by = ("cross_server", "cross_server_flow");
        for (wiring, [from, to]) in WIRINGS.into_iter().zip([["files", "notes"], ["mails", "pages"]]) {
            let what = || format!("{flow} {wiring:?}");
            let mut from = Gated::start_as(from, &agent, wiring, &[])?;
            let mut to = Gated::start_as(to, &agent, wiring, &[])?;
            if wiring == Wiring::Pipes {
                at_once(&agent, &mut to, &[add(9)])?;
                check(&agent, &mut to, &[9], &[], by).with_context(what)?;
            }
            // The one right behind the other: nobody has seen the first when the second comes.
            let (read, write) = (format!("{}\n", echo(10, "secret")), format!("{}\n", add(11)));
            from.peer.write(read.as_bytes())?;
            to.peer.write(write.as_bytes())?;
            check(&agent, &mut from, &[10], &[], by).with_context(what)?;
            check(&agent, &mut to, &[], &[11], by).with_context(what)?;
            ensure!(!to.heard()?.contains(&add(11).to_string()), "{}: {}", what(), to.heard()?);
            if is_free_later || wiring == Wiring::Pipes {
                // Where it was read it may be written. (With the second wiring others have been read from within the window.)
                at_once(&agent, &mut from, &[add(12)])?;
                check(&agent, &mut from, &[12], &[], by).with_context(what)?;
            }
            // The pause begins when the agent has told of the last answer.
            agent.settle();
            thread::sleep(patience(Duration::from_millis(1_100)));
            at_once(&agent, &mut to, &[add(13)])?;
            let [made, stopped]: [&[u64]; 2] = if is_free_later { [&[13], &[]] } else { [&[], &[13]] };
            check(&agent, &mut to, made, stopped, by).with_context(what)?;
        }
        agent.stop()?;
    }
    Ok(())
}

/// Whose name a tool has is the first server's; the same tool of another is stopped until somebody approves of it.
#[test]
fn shadow_tool_is_stopped_until_approved() -> Result<()> {
    let config = "enforcement: { stdio: neutralize }";
    let Some(agent) = agent("shadow_tool_is_stopped_until_approved", config)? else { return Ok(()) };
    let by = ("tool_shadowing", "shadow_tool");
    let mut first = Gated::start_as("files", &agent, Wiring::Pipes, &[])?;
    for (wiring, name) in WIRINGS.into_iter().zip(["mail", "notes"]) {
        let mut second = Gated::start_as(name, &agent, wiring, &[]).context(name)?;
        at_once(&agent, &mut second, &[add(10), echo(11, "x")])?;
        check(&agent, &mut second, &[], &[10, 11], by).context(name)?;
        let heard = second.heard()?;
        ensure!(!heard.contains("\"add\"") && !heard.contains("\"echo\""), "{name}: {heard}");
        let id = if wiring == Wiring::Pipes { 20 } else { 30 };
        at_once(&agent, &mut first, &[add(id), echo(id + 1, "x")])?;
        check(&agent, &mut first, &[id, id + 1], &[], by).context(name)?;
        agent.tell(&["approve", &format!("{name}:add")])?.expect("approve", 0, "approved")?;
        agent.settle();
        at_once(&agent, &mut second, &[add(40), echo(41, "x")])?;
        check(&agent, &mut second, &[40], &[41], by).context(name)?;
    }
    agent.stop()?;
    Ok(())
}

#[test]
fn calls_beyond_the_burst_limit_are_stopped() -> Result<()> {
    let config = "enforcement: { stdio: neutralize }\ncross_server: { burst: { max_calls: 5, window: 60s }, shadow_tool: { enabled: false } }";
    let Some(agent) = agent("calls_beyond_the_burst_limit_are_stopped", config)? else { return Ok(()) };
    let _other = Gated::start_as("files", &agent, Wiring::Pipes, &[])?;
    let mut busy = Gated::start_as("mail", &agent, Wiring::Pipes, &[])?;
    // Both list their tools, so that the session has two servers.
    let calls: Vec<_> = (10..17).map(|id| echo(id, "x")).collect();
    at_once(&agent, &mut busy, &calls)?;
    check(&agent, &mut busy, &[10, 11, 12, 13, 14], &[15, 16], ("cross_server", "burst"))?;
    agent.stop()?;
    Ok(())
}

/// A client that finds a pipe full tries again: that is one call.
#[test]
fn retried_write_is_counted_as_one_call() -> Result<()> {
    let config = "enforcement: { stdio: neutralize }\ncross_server: { enabled: false }\n\
                  policy: { rate_limits: { enabled: true, default_rpm: 1, default_burst: 2 } }";
    let Some(agent) = agent("retried_write_is_counted_as_one_call", config)? else { return Ok(()) };
    let mut session = Gated::start(&agent, Wiring::Pipes, &[])?;
    let mut writer = session.peer.writer()?;
    writer.nonblocking(true)?;
    let server = Pid::from_raw(i32::try_from(session.peer.pid())?);
    kill(server, Signal::SIGSTOP)?;
    let mut pings = 0;
    let padding = "x".repeat(2_000);
    let is_full = |result: io::Result<usize>| match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
        other => other.map(|_| false),
    };
    loop {
        let ping = json!({"jsonrpc": "2.0", "id": 100 + pings, "method": "ping", "params": {"_meta": {"x": padding}}});
        if is_full(writer.write_once(format!("{ping}\n").as_bytes()))? {
            break;
        }
        pings += 1;
    }
    // What is left of the pipe must not have room for the call.
    while !is_full(writer.write_once(b" "))? {}
    let text = format!("{}\n", add(10));
    for _ in 0..5 {
        ensure!(is_full(writer.write_once(text.as_bytes()))?, "there is room");
    }
    kill(server, Signal::SIGCONT)?;
    session.hear(pings)?;
    writer.nonblocking(false)?;
    for id in 10..13 {
        at_once(&agent, &mut session, &[add(id)])?;
    }
    check(&agent, &mut session, &[10, 11], &[12], ("rate_limit", "rate_limited"))?;
    agent.stop()?;
    Ok(())
}
