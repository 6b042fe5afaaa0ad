//! The gate, where it cannot tell what is written: `enforcement.undecided` and `policy.fail_closed` say what becomes of that.

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::client_process;
use mcpwarden_tests::gated::{Gated, WIRINGS, add, agent, is_through};
use mcpwarden_tests::io_methods::WriteMethod;
use mcpwarden_tests::memory::Memory;
use mcpwarden_tests::peer::echo;
use mcpwarden_tests::wiring::Wiring;
use serde_json::Value;

/// What a policy says of what nobody can tell: the setting, and whether it passes.
const SETTINGS: [(&str, &str, bool); 3] = [
    ("undecided: allow", "", true),
    ("undecided: deny", "", false),
    ("undecided: allow", ", fail_closed: true", false),
];

fn config((undecided, fail_closed, _): (&str, &str, bool)) -> String {
    // Under `fail_closed` the tests' server must be a declared one.
    let server = mcpwarden_tests::places::program("benign-server");
    format!(
        "enforcement: {{ stdio: neutralize, {undecided} }}\npolicy: {{ denied_tools: [add]{fail_closed} }}\n\
         servers: [{{ id: benign-server, executable: {}, command: {} }}]\n",
        server.display(),
        server.display()
    )
}

/// The call was run or was not, as the setting says, and both are said: by the gate, in this word, and of the call.
fn check(
    agent: &Agent,
    session: &mut Gated,
    written: std::io::Result<()>,
    call: &Value,
    passes: bool,
    code: &str,
) -> Result<()> {
    let id = call["id"].as_u64().context("an id")?;
    ensure!(written.is_ok() == passes, "{written:?}");
    match written {
        Ok(()) => {
            let answer = session.peer.answer()?;
            ensure!(answer["id"] == id && is_through(&answer), "{answer}");
        }
        Err(error) => ensure!(error.raw_os_error() == Some(libc::EPERM), "{error}"),
    }
    ensure!(session.heard()?.contains(&call.to_string()) == passes, "{}", session.heard()?);
    let word = if passes { "passed" } else { "refused" };
    let decided = agent.wait_for("what the gate did", |event| {
        is(event, "mcp_gate_decided")
            && event["connection"] == session.connection
            && event["action"] == word
            && event["code"] == code
    })?;
    ensure!(decided["pid"] == client_process::pid()?, "{decided}");
    Ok(())
}

/// What a client writes from memory that is not there yet. The write after it is judged: this one has ended its line.
#[test]
fn write_from_nonresident_memory_is_undecided() -> Result<()> {
    for setting in SETTINGS {
        let Some(agent) = agent("write_from_nonresident_memory_is_undecided", &config(setting))? else {
            return Ok(());
        };
        for wiring in WIRINGS {
            let what = || format!("{setting:?} {wiring:?}");
            let mut session = Gated::start(&agent, wiring, &[]).with_context(what)?;
            // An innocent call is as unknown as a denied one.
            for call in [add(10), echo(12, "x")] {
                let line = format!("{call}\n");
                let (written, _) = session.peer.write_from(Memory::NotResident, line.as_bytes())?;
                check(&agent, &mut session, written, &call, setting.2, "unreadable_write")
                    .with_context(what)?;
            }
            let stopped = session.peer.ask(&add(14)).with_context(what)?;
            ensure!(stopped["error"].is_object(), "{}: {stopped} {:?}", what(), session.decided(&agent));
            ensure!(is_through(&session.peer.ask(&echo(16, "y"))?), "{}: the next", what());
        }
        agent.stop()?;
    }
    Ok(())
}

/// io_uring writes to a pipe through a hook that is not told where the bytes are.
#[test]
fn io_uring_write_to_a_pipe_is_undecided() -> Result<()> {
    for setting in SETTINGS {
        let Some(agent) = agent("io_uring_write_to_a_pipe_is_undecided", &config(setting))? else {
            return Ok(());
        };
        let ways = [WriteMethod::UringWrite, WriteMethod::UringWritev, WriteMethod::UringWriteFixed];
        for (id, method) in (10..).zip(ways) {
            let what = || format!("{setting:?} {method:?}");
            let mut session = Gated::start(&agent, Wiring::Pipes, &[]).with_context(what)?;
            let call = add(id);
            let written = session.peer.write_by(method, format!("{call}\n").as_bytes());
            check(&agent, &mut session, written, &call, setting.2, "unknown_write").with_context(what)?;
            if !setting.2 {
                ensure!(is_through(&session.peer.ask(&echo(20, "x"))?), "{}: the next", what());
            }
        }
        agent.stop()?;
    }
    Ok(())
}

/// A number is no text: where a rule goes by it, the rule alone does not stop a call.
#[test]
fn call_that_arguments_decide_about_is_undecided() -> Result<()> {
    let of_arguments = "[{ tool: add, arguments: { /a: { equal: 20 } } }, { tool: echo, arguments: { /text: { max_length: 2 } } }]";
    for setting in SETTINGS {
        let config = config(setting).replace("denied_tools: [add]", &format!("denied_tools: {of_arguments}"));
        let Some(agent) = agent("call_that_arguments_decide_about_is_undecided", &config)? else {
            return Ok(());
        };
        let what = || format!("{setting:?}");
        let mut session = Gated::start(&agent, Wiring::Pipes, &[]).with_context(what)?;
        for (id, call, action) in [(10, add(10), "block"), (12, echo(12, "yes"), "allow")] {
            let answer = session.peer.ask(&call).with_context(what)?;
            ensure!(answer["id"] == id && is_through(&answer) == setting.2, "{}: {answer}", what());
            let word = if setting.2 { "passed" } else { "neutralized" };
            agent
                .wait_for("what the gate did", |event| {
                    is(event, "mcp_gate_decided")
                        && event["connection"] == session.connection
                        && event["action"] == word
                        && event["code"] == "arguments"
                })
                .with_context(what)?;
            let called = session.call(&agent, id).with_context(what)?;
            let is_stopped = called["enforced"] == true;
            ensure!(is_stopped != setting.2, "{}: {called}", what());
            ensure!(is_stopped || called["action"] == action, "{}: {called}", what());
        }
        agent.stop()?;
    }
    Ok(())
}
