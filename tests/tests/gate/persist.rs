//! The gate when no agent runs (`enforcement.persist`): what was denied is not called meanwhile either.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::command::{configured, directory, replace};
use mcpwarden_tests::gated::{Gated, WIRINGS, add, is_there, is_through, tell};
use mcpwarden_tests::kept::{BpfFs, end, let_go, taken_over};
use mcpwarden_tests::patience::patience;
use mcpwarden_tests::peer::{echo, wait_until};
use mcpwarden_tests::wiring::Wiring;
use nix::sys::signal::Signal;
use serde_json::json;

fn denying(tool: &str, persist: bool) -> String {
    format!(
        "enforcement: {{ stdio: neutralize, persist: {persist} }}\npolicy: {{ denied_tools: [{tool}] }}\n"
    )
}

fn start(place: &Path, config: &str) -> Result<Agent> {
    Agent::start_within(place, &["--config", config])
}

#[test]
fn denied_call_stays_blocked_without_an_agent() -> Result<()> {
    if !is_there("denied_call_stays_blocked_without_an_agent")? {
        return Ok(());
    }
    let files = BpfFs::there()?;
    let place = directory()?;
    let (_one, denies_add) = configured(&denying("add", true))?;
    let (_two, denies_echo) = configured(&denying("echo", true))?;
    let (_three, plain) = configured(&denying("add", false))?;
    let agent = start(place.path(), &denies_add)?;
    let mut sessions = Vec::new();
    for wiring in WIRINGS {
        sessions.push(Gated::start(&agent, wiring, &[])?);
    }
    agent.settle();
    let mut id = 10;
    let mut ask = |sessions: &mut [Gated], what: &str, add_passes: bool, echo_passes: bool| -> Result<u64> {
        for session in sessions {
            let added = is_through(&session.peer.ask(&add(id))?);
            let echoed = is_through(&session.peer.ask(&echo(id + 1, "x"))?);
            ensure!((added, echoed) == (add_passes, echo_passes), "{what}: add {added}, echo {echoed}");
        }
        id += 2;
        Ok(id - 2)
    };
    ask(&mut sessions, "while it runs", false, true)?;

    // Killed in the middle of a message.
    let text = format!("{}\n", add(9));
    let (first, second) = text.split_at(text.len() / 2);
    sessions[0].peer.write(first.as_bytes())?;
    end(agent, Signal::SIGKILL)?;
    sessions[0].peer.write(second.as_bytes())?;
    ensure!(!is_through(&sessions[0].peer.answer()?), "the call at hand");
    let unseen = ask(&mut sessions, "while none runs", false, true)?;

    // The next has the same configuration, and goes on with what is there.
    let agent = start(place.path(), &denies_add)?;
    ensure!(taken_over(&agent)?["resumed"] == true, "{}", taken_over(&agent)?);
    let told = agent.wait_for("the call that nobody was there to see", |event| {
        is(event, "mcp_tool_called") && event["jsonrpc_id"] == unseen
    })?;
    ensure!(json!([told["action"], told["enforced"]]) == json!(["block", true]), "{told}");
    let seen = ask(&mut sessions, "of the next", false, true)?;
    let told = agent.wait_for("a call", |event| {
        is(event, "mcp_tool_called") && event["jsonrpc_id"] == seen && event["action"] == "block"
    })?;
    ensure!(told["enforced"] == true, "{told}");
    let mut later = Gated::start(&agent, Wiring::Pipes, &[])?;
    ensure!(!is_through(&later.peer.ask(&add(5))?), "a server that is new");
    end(agent, Signal::SIGTERM)?;
    ask(&mut sessions, "after its end", false, true)?;

    // Another configuration: its own programs, and then those of before are let go.
    let agent = start(place.path(), &denies_echo)?;
    ensure!(taken_over(&agent)?["resumed"] == false, "{}", taken_over(&agent)?);
    wait_until("its policy counts alone", || ask(&mut sessions, "another", true, false).is_ok())?;
    end(agent, Signal::SIGKILL)?;
    ask(&mut sessions, "of the other, while none runs", true, false)?;

    let_go(place.path())?;
    wait_until("nobody judges", || ask(&mut sessions, "nobody", true, true).is_ok())?;

    // Nothing stays of one that is not to.
    let agent = start(place.path(), &plain)?;
    wait_until("it judges", || ask(&mut sessions, "of the last", false, true).is_ok())?;
    end(agent, Signal::SIGKILL)?;
    wait_until("nobody judges", || ask(&mut sessions, "nobody", true, true).is_ok())?;
    ensure!(files.left()?.is_empty(), "left: {:?}", files.left()?);
    Ok(())
}

/// Switched on and off by a reload, the gate stays or goes as what it is asked for.
#[test]
fn persisted_gate_follows_the_active_configuration() -> Result<()> {
    if !is_there("persisted_gate_follows_the_active_configuration")? {
        return Ok(());
    }
    let files = BpfFs::there()?;
    let place = directory()?;
    let observing = "enforcement: { persist: true }\npolicy: { denied_tools: [add] }\n";
    let (directory, config) = configured(observing)?;
    let agent = start(place.path(), &config)?;
    replace(directory.path(), "config.yaml", &denying("add", true))?;
    agent.signal(Signal::SIGHUP)?;
    agent.wait_for("the reload", |event| is(event, "agent_config_reloaded"))?;
    let mut session = Gated::start(&agent, Wiring::Pipes, &[])?;
    agent.settle();
    end(agent, Signal::SIGKILL)?;
    ensure!(!is_through(&session.peer.ask(&add(10))?), "switched on by a reload, and nobody runs");

    let agent = start(place.path(), &config)?;
    ensure!(taken_over(&agent)?["resumed"] == true, "{}", taken_over(&agent)?);
    ensure!(!is_through(&session.peer.ask(&add(11))?), "it goes on");
    replace(directory.path(), "config.yaml", observing)?;
    agent.signal(Signal::SIGHUP)?;
    agent.wait_for("the reload", |event| is(event, "agent_config_reloaded"))?;
    wait_until("nothing is stopped", || session.peer.ask(&add(12)).is_ok_and(|answer| is_through(&answer)))?;
    end(agent, Signal::SIGKILL)?;
    ensure!(is_through(&session.peer.ask(&add(13))?), "switched off by a reload");
    let_go(place.path())?;
    ensure!(files.left()?.is_empty(), "left: {:?}", files.left()?);
    Ok(())
}

/// What was blocked by hand is not, of the agent after that one: also where nothing but a block brings the gate.
#[test]
fn manual_blocks_end_with_their_agent() -> Result<()> {
    if !is_there("manual_blocks_end_with_their_agent")? {
        return Ok(());
    }
    let files = BpfFs::there()?;
    let place = directory()?;
    let (_directory, config) = configured("enforcement: { persist: true }")?;
    let agent = start(place.path(), &config)?;
    let mut one = Gated::start_as("one", &agent, Wiring::Pipes, &[])?;
    let mut other = Gated::start_as("other", &agent, Wiring::Sockets, &[])?;
    let mut ask = |id: u64| -> Result<(bool, bool)> {
        Ok((is_through(&one.peer.ask(&echo(id, "x"))?), is_through(&other.peer.ask(&echo(id, "x"))?)))
    };
    tell(&agent, &["block", "server=one"])?;
    ensure!(ask(10)? == (false, true), "blocked");
    end(agent, Signal::SIGKILL)?;
    ensure!(ask(11)? == (false, true), "nobody runs");

    let agent = start(place.path(), &config)?;
    ensure!(taken_over(&agent)?["resumed"] == true, "{}", taken_over(&agent)?);
    ensure!(ask(12)? == (true, true), "nothing is blocked");
    tell(&agent, &["block", "server=other"])?;
    ensure!(ask(13)? == (true, false), "the other is");
    end(agent, Signal::SIGTERM)?;
    ensure!(ask(14)? == (true, true), "it has ended");
    let_go(place.path())?;
    ensure!(files.left()?.is_empty(), "left: {:?}", files.left()?);
    Ok(())
}

/// Agents come and go while calls are made all the time, and none that is denied gets to its server.
#[test]
fn no_denied_call_passes_between_two_agents() -> Result<()> {
    if !is_there("no_denied_call_passes_between_two_agents")? {
        return Ok(());
    }
    let files = BpfFs::there()?;
    let place = directory()?;
    let (_one, config) = configured(&denying("add", true))?;
    let (_two, other) = configured(&denying("add, nothing", true))?;
    let mut agent = start(place.path(), &config)?;
    let mut session = Gated::start(&agent, Wiring::Pipes, &[])?;
    agent.settle();
    let (done, wrong, tried) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let agent = thread::scope(|scope| -> Result<Agent> {
        let caller = scope.spawn(|| -> Result<()> {
            let mut id = 10;
            while !done.load(Ordering::Relaxed) {
                let added = is_through(&session.peer.ask(&add(id))?);
                let echoed = is_through(&session.peer.ask(&echo(id + 1, "x"))?);
                wrong.fetch_add(u64::from(added || !echoed), Ordering::Relaxed);
                tried.fetch_add(1, Ordering::Relaxed);
                id += 2;
                thread::sleep(patience(Duration::from_millis(1)));
            }
            Ok(())
        });
        let changed = (|| -> Result<Agent> {
            for (signal, config) in
                [(Signal::SIGKILL, &config), (Signal::SIGTERM, &config), (Signal::SIGKILL, &other)]
            {
                end(agent, signal)?;
                agent = start(place.path(), config)?;
            }
            Ok(agent)
        })();
        done.store(true, Ordering::Relaxed);
        caller.join().map_err(|_| anyhow::anyhow!("the caller failed"))??;
        changed
    })?;
    let (wrong, tried) = (wrong.into_inner(), tried.into_inner());
    ensure!(wrong == 0 && tried > 20, "{wrong} of {tried} pairs of calls were judged wrongly");
    println!("{tried} pairs of calls over three changes of agents, 0 judged wrongly");
    end(agent, Signal::SIGTERM)?;
    let_go(place.path())?;
    ensure!(files.left()?.is_empty(), "left: {:?}", files.left()?);
    Ok(())
}
