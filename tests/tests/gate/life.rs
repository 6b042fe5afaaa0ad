//! The gate over time: policies that change while calls are made, and an agent that is killed.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use mcpwarden_tests::agent::is;
use mcpwarden_tests::command::configured;
use mcpwarden_tests::gated::{
    Gated, WIRINGS, add, agent, agent_of, is_marked, is_through, was_not_neutralized,
};
use mcpwarden_tests::patience::{fewer, patience};
use mcpwarden_tests::peer::{call, echo, wait_until};
use mcpwarden_tests::wiring::Wiring;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

#[test]
fn killed_agent_leaves_no_call_stopped_or_hanging() -> Result<()> {
    let test = "killed_agent_leaves_no_call_stopped_or_hanging";
    for mode in ["neutralize", "deny"] {
        let config = format!("enforcement: {{ stdio: {mode} }}\npolicy: {{ denied_tools: [add] }}");
        let Some(mut agent) = agent(test, &config)? else { return Ok(()) };
        let mut session = Gated::start(&agent, Wiring::Pipes, &[])?;
        // In the middle of a message, too.
        let text = format!("{}\n", add(9));
        let (first, second) = text.split_at(text.len() / 2);
        session.peer.write(first.as_bytes())?;
        agent.kill()?;
        session.peer.write(second.as_bytes())?;
        ensure!(is_through(&session.peer.answer()?), "{mode}: the call at hand");
        ensure!(is_through(&session.peer.ask(&add(10))?), "{mode}: the next");
    }
    Ok(())
}

/// Calls flow while the agent is killed, and go on to: those before are stopped, those after are not, and each is answered.
#[test]
fn calls_under_load_survive_an_agent_kill() -> Result<()> {
    let test = "calls_under_load_survive_an_agent_kill";
    let config = "enforcement: { stdio: neutralize, undecided: deny }\npolicy: { denied_tools: [add] }";
    for wiring in WIRINGS {
        let Some(mut agent) = agent(test, config)? else { return Ok(()) };
        let mut session = Gated::start(&agent, wiring, &[])?;
        let (made, is_killed) = (AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| -> Result<()> {
            let caller = scope.spawn(|| -> Result<Vec<bool>> {
                let (mut id, mut stopped, mut after) = (10, Vec::new(), 0);
                while after < 50 {
                    after += u64::from(is_killed.load(Ordering::Relaxed));
                    ensure!(is_through(&session.peer.ask(&echo(id, "x"))?), "an innocent call");
                    let was_killed = is_killed.load(Ordering::Relaxed);
                    let is_stopped = match session.peer.ask(&add(id + 1)) {
                        Ok(answer) => {
                            ensure!(answer["id"] == id + 1, "{answer}");
                            !is_through(&answer)
                        }
                        // It could not be neutralized, and was refused.
                        Err(error) => {
                            let error = error.downcast::<io::Error>()?;
                            ensure!(error.kind() == io::ErrorKind::PermissionDenied, "{error}");
                            true
                        }
                    };
                    ensure!(!(was_killed && is_stopped), "{id}: nobody is there to stop it");
                    stopped.push(is_stopped);
                    id += 2;
                    made.store(id, Ordering::Relaxed);
                }
                Ok(stopped)
            });
            wait_until("calls", || made.load(Ordering::Relaxed) > 50 || caller.is_finished())?;
            agent.kill()?;
            is_killed.store(true, Ordering::Relaxed);
            let stopped = caller.join().map_err(|_| anyhow::anyhow!("the caller failed"))??;
            let before = stopped.iter().take_while(|is_stopped| **is_stopped).count();
            ensure!(before >= 20, "{wiring:?}: {stopped:?}");
            ensure!(!stopped.iter().skip(before).any(|is_stopped| *is_stopped), "{wiring:?}: {stopped:?}");
            Ok(())
        })?;
    }
    Ok(())
}

/// Two policies take turns. Each write is judged by one of them, and by all of it: what both deny never runs, and of the two tools of
/// which each policy denies one, one is stopped.
#[test]
fn each_write_is_judged_by_a_single_policy() -> Result<()> {
    let policy = |tool: &str| {
        format!(
            "enforcement: {{ stdio: neutralize, undecided: deny }}\npolicy: {{ denied_tools: [add, {tool}] }}\n"
        )
    };
    let (_directory, path) = configured(&policy("left"))?;
    let Some(agent) = agent_of("each_write_is_judged_by_a_single_policy", &path)? else { return Ok(()) };
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| -> Result<()> {
        let callers = WIRINGS.map(|wiring| {
            let (agent, is_over) = (&agent, &is_over);
            scope.spawn(move || -> Result<[usize; 2]> {
                let (mut session, mut by) = (Gated::start(agent, wiring, &[])?, [0; 2]);
                for id in (10..).step_by(4) {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let calls = [
                        call(id, "left", &json!({})),
                        add(id + 1),
                        call(id + 2, "right", &json!({})),
                        echo(id + 3, "x"),
                    ];
                    let text = calls.iter().fold(String::new(), |text, call| text + &format!("{call}\n"));
                    if session.peer.write(text.as_bytes()).is_err() {
                        // The policy changed while it was read, or another thread changed what memory there is.
                        continue;
                    }
                    let answers = session.hear(4)?;
                    let is_neutralized = |at: u64| {
                        answers.get(&(id + at)).is_some_and(|answer| is_marked(&answer["error"].to_string()))
                    };
                    let found = [0, 1, 2, 3].map(is_neutralized);
                    match found {
                        [true, true, false, false] => by[0] += 1,
                        [false, true, true, false] => by[1] += 1,
                        _ => bail!("{wiring:?}: {found:?} {answers:?}"),
                    }
                    // Others want to get on, too.
                    thread::sleep(patience(Duration::from_millis(20)));
                }
                ensure!(!session.heard()?.contains("\"add\""), "{wiring:?}: it was run");
                Ok(by)
            })
        });
        let mut seen = Vec::new();
        let swapped = (0..fewer(40).max(8)).try_for_each(|number| {
            fs::write(&path, policy(&format!("{}, other{number}", ["right", "left"][number % 2])))?;
            agent.signal(Signal::SIGHUP)?;
            // Each is another file, and known by its hash.
            let other = agent.wait_for("another policy", |event| {
                is(event, "agent_config_reloaded") && !seen.contains(&event["config_hash"])
            })?;
            seen.push(other["config_hash"].clone());
            thread::sleep(patience(Duration::from_millis(100)));
            Ok::<_, anyhow::Error>(())
        });
        is_over.store(true, Ordering::Relaxed);
        let all = callers.map(thread::ScopedJoinHandle::join);
        swapped?;
        for by in all {
            let by = by.map_err(|_| anyhow::anyhow!("a caller failed"))??;
            ensure!(by.iter().all(|count| *count >= 3), "{by:?}");
        }
        Ok(())
    })?;
    agent.settle();
    let decided: Vec<Value> =
        agent.events().into_iter().filter(|event| is(event, "mcp_gate_decided")).collect();
    for event in decided.iter().filter(|event| event["action"] != "neutralized") {
        let is_explained = event["code"] == "policy_changed" || was_not_neutralized(event);
        ensure!(event["action"] == "refused" && is_explained, "{event}");
    }
    agent.stop()?;
    Ok(())
}

/// What both policies deny is stopped while one takes the other's place, and what neither does is not.
#[test]
fn policy_is_replaced_under_load() -> Result<()> {
    let policy = |more: &str| {
        format!("enforcement: {{ stdio: neutralize }}\npolicy: {{ denied_tools: [add, {more}] }}\n")
    };
    let (_directory, path) = configured(&policy("x"))?;
    let Some(agent) = agent_of("policy_is_replaced_under_load", &path)? else { return Ok(()) };
    let is_over = AtomicBool::new(false);
    let swaps = fewer(40).max(8);
    thread::scope(|scope| -> Result<()> {
        let callers = WIRINGS.map(|wiring| {
            let (agent, is_over) = (&agent, &is_over);
            scope.spawn(move || -> Result<u64> {
                let mut session = Gated::start(agent, wiring, &[])?;
                let mut id = 10;
                while !is_over.load(Ordering::Relaxed) {
                    let through = session.peer.ask(&echo(id, "x"))?;
                    let Ok(stopped) = session.peer.ask(&add(id + 1)) else {
                        session.wait_for_not_neutralized(agent)?;
                        session = Gated::start(agent, wiring, &[])?;
                        continue;
                    };
                    ensure!(is_through(&through), "{wiring:?}: {through}");
                    ensure!(stopped["error"].is_object(), "{wiring:?}: {stopped}");
                    id += 2;
                    // Others want to get on, too.
                    thread::sleep(patience(Duration::from_millis(20)));
                }
                Ok(id)
            })
        });
        // Ends the callers also where this fails.
        let mut seen = Vec::new();
        let swapped = (0..swaps).try_for_each(|number| {
            // Other states and other classes of bytes each time.
            let more = (0..=number % 7).fold(String::new(), |mut more, index| {
                let _ = write!(more, "'{}*{index}', ", ["q", "é", "zz_", "w?", "[0-9]k"][number % 5]);
                more
            });
            fs::write(&path, policy(&more))?;
            // The agent looks for changes by itself, too, and then a signal comes too late: so each is known by its hash.
            agent.signal(Signal::SIGHUP)?;
            let other = agent.wait_for("another policy", |event| {
                is(event, "agent_config_reloaded") && !seen.contains(&event["config_hash"])
            })?;
            seen.push(other["config_hash"].clone());
            thread::sleep(Duration::from_millis(20));
            Ok::<_, anyhow::Error>(())
        });
        is_over.store(true, Ordering::Relaxed);
        for caller in callers {
            let calls = caller.join().map_err(|_| anyhow::anyhow!("a caller failed"))??;
            ensure!(calls > 20, "only {calls} calls were made meanwhile");
        }
        swapped
    })?;
    agent.settle();
    let wrong: Vec<Value> = agent
        .events()
        .into_iter()
        .filter(|event| is(event, "mcp_tool_called"))
        .filter(|call| (call["tool_name"] == "add") != (call["enforced"] == json!(true)))
        .collect();
    ensure!(wrong.is_empty(), "{wrong:#?}");
    // One that is too large is refused, and what was denied before still is.
    let globs: String = ('a'..='p').fold(String::new(), |globs, letter| globs + &format!("'*{letter}*', "));
    fs::write(&path, policy(&globs))?;
    agent.signal(Signal::SIGHUP)?;
    let refused = agent.wait_for("that it is refused", |event| is(event, "agent_config_refused"))?;
    ensure!(
        refused["error"].as_str().is_some_and(|error| error.contains("more than 8388608 bytes")),
        "{refused}"
    );
    let mut session = Gated::start(&agent, Wiring::Pipes, &[])?;
    ensure!(session.peer.ask(&add(9))?["error"].is_object(), "the policy of before");
    agent.stop()?;
    Ok(())
}
