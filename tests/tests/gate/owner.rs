//! The gate, where more than one write is under way, or where what was read of a channel must not count any more.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::client_process;
use mcpwarden_tests::command::configured;
use mcpwarden_tests::gated::{Gated, WIRINGS, add, agent, agent_of, is_through, tell};
use mcpwarden_tests::peer::{echo, wait_until};
use mcpwarden_tests::wiring::Wiring;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Longer than a write has its channel for itself.
const HELD: Duration = Duration::from_millis(1_500);

/// Two threads write to a pipe that is full. The second is refused, and costs the first nothing: neither its message nor, where
/// what is undecided is denied, all that comes after. One that waits for long has its channel no more, until it returns.
#[test]
fn only_the_racing_writer_is_refused() -> Result<()> {
    let config =
        "enforcement: { stdio: deny, undecided: deny, window_bytes: 64KiB }\npolicy: { denied_tools: [add] }";
    let Some(agent) = agent("only_the_racing_writer_is_refused", config)? else { return Ok(()) };
    let mut session = Gated::start(&agent, Wiring::Pipes, &[])?;
    for round in 0..6_u64 {
        let is_long = round >= 4;
        let id = 100 * (round + 1);
        let (mut first, mut second) = (session.peer.writer()?, session.peer.writer()?);
        let server = Pid::from_raw(i32::try_from(session.peer.pid())?);
        kill(server, Signal::SIGSTOP)?;
        // More than there is room for, in messages within the window.
        let padding = "x".repeat(30_000);
        let (begun, writes) = (std::sync::mpsc::channel(), 4);
        let thread = thread::spawn(move || -> io::Result<()> {
            for at in 0..writes {
                let _ = begun.0.send(at);
                first.write_all(format!("{}\n", echo(id + at, &padding)).as_bytes())?;
            }
            Ok(())
        });
        // The third finds the pipe full, and waits there for as long as the server does not read.
        for _ in 0..3 {
            begun.1.recv().context("the writer has ended")?;
        }
        let tasks = format!("/proc/{}/task", client_process::pid()?);
        wait_until("a writer that waits", || {
            let tasks = fs::read_dir(&tasks).into_iter().flatten().flatten();
            let asleep = tasks.filter_map(|task| fs::read_to_string(task.path().join("wchan")).ok());
            asleep.into_iter().any(|place| place.contains("pipe_write"))
        })?;
        if is_long {
            thread::sleep(HELD);
        }
        let refused = second.write_once(format!("{}\n", echo(id + 50, "y")).as_bytes());
        kill(server, Signal::SIGCONT)?;
        let refused = refused.err().map(|error| error.kind());
        ensure!(refused == Some(io::ErrorKind::PermissionDenied), "{round}: {refused:?}");
        thread.join().map_err(|_| anyhow::anyhow!("the writer failed"))??;
        for at in 0..writes {
            let answer = session.peer.answer()?;
            ensure!(answer["id"] == id + at && is_through(&answer), "{round}: {answer}");
        }
        ensure!(is_through(&session.peer.ask(&echo(id + 60, "z"))?), "{round}: the next");
        ensure!(
            session.peer.write(format!("{}\n", add(id + 61)).as_bytes()).is_err(),
            "{round}: what is denied"
        );
    }
    agent.settle();
    let decided = session.decided(&agent);
    let count = |code: &str| decided.iter().filter(|(_, known)| known == code).count();
    let counts = ["racing_writes", "after_unread", "tool_denied"].map(count);
    ensure!((counts, decided.len()) == ([4, 2, 6], 12), "{decided:?}");
    agent.stop()?;
    Ok(())
}

/// The last byte of a message that is sent out of band is none of the stream.
#[test]
fn out_of_band_byte_is_not_part_of_the_message() -> Result<()> {
    for (undecided, is_written) in [("allow", true), ("deny", false)] {
        let config = format!(
            "enforcement: {{ stdio: neutralize, undecided: {undecided} }}\npolicy: {{ denied_tools: [add] }}\n\
             cross_server: {{ enabled: false }}"
        );
        let Some(agent) = agent("out_of_band_byte_is_not_part_of_the_message", &config)? else {
            return Ok(());
        };
        for wiring in [Wiring::Sockets, Wiring::Tcp] {
            let what = || format!("{undecided} {wiring:?}");
            let mut session = Gated::start(&agent, wiring, &[]).with_context(what)?;
            let text = format!("{}\n", add(9));
            let (first, second) = text.split_at(text.find("add").context("the name")? + 2);
            let urgent = format!("{first}x");
            let sent = session.peer.send_urgent(urgent.as_bytes()).map_err(|error| error.raw_os_error());
            if sent == Err(Some(libc::EOPNOTSUPP)) {
                mcpwarden_tests::places::skipped(
                    "out_of_band_byte_is_not_part_of_the_message",
                    "no AF_UNIX_OOB",
                );
                continue;
            }
            ensure!(sent.is_ok() == is_written, "{}: {sent:?}", what());
            if is_written {
                session.peer.write(second.as_bytes())?;
                session.peer.answer()?;
            } else {
                ensure!(sent == Err(Some(libc::EPERM)), "{}: {sent:?}", what());
                ensure!(is_through(&session.peer.ask(&echo(10, "x"))?), "{}: the next", what());
            }
            agent.settle();
            let decided = session.decided(&agent);
            let codes: Vec<&str> = decided.iter().map(|(_, code)| code.as_str()).collect();
            let expected =
                if is_written { &["unknown_write", "after_unread"][..] } else { &["unknown_write"] };
            ensure!(codes == expected, "{}: {decided:?}", what());
        }
        agent.stop()?;
    }
    Ok(())
}

/// What was paid for a call that found no room is paid for that call alone.
#[test]
fn rate_limit_charge_applies_to_its_call_only() -> Result<()> {
    let config = "enforcement: { stdio: neutralize }\ncross_server: { enabled: false }\n\
                  policy: { rate_limits: { enabled: true, default_rpm: 1, default_burst: 20, per_tool: \
                  { '*:echo': { calls_per_minute: 1, burst: 1 } } } }";
    let Some(agent) = agent("rate_limit_charge_applies_to_its_call_only", config)? else {
        return Ok(());
    };
    let mut session = Gated::start(&agent, Wiring::Pipes, &[])?;
    let mut writer = session.peer.writer()?;
    writer.nonblocking(true)?;
    let server = Pid::from_raw(i32::try_from(session.peer.pid())?);
    kill(server, Signal::SIGSTOP)?;
    while writer.write_once(b"          ").is_ok() {}
    let mut calls = String::new();
    for id in 20..24 {
        writeln!(calls, "{}", add(id))?;
    }
    let found = writer.write_once(calls.as_bytes()).map_err(|error| error.kind());
    ensure!(found == Err(io::ErrorKind::WouldBlock), "{found:?}");
    kill(server, Signal::SIGCONT)?;
    writer.nonblocking(false)?;
    let mut calls = String::new();
    for id in 30..34 {
        writeln!(calls, "{}", echo(id, "x"))?;
    }
    session.peer.write(calls.as_bytes())?;
    let answers = session.hear(4)?;
    let made: Vec<u64> = answers.iter().filter(|(_, answer)| is_through(answer)).map(|(id, _)| *id).collect();
    ensure!(made == [30], "{made:?}");
    agent.stop()?;
    Ok(())
}

/// What goes by while the gate is off nobody reads: a message that began before it is none when the gate is on again.
#[test]
fn reenabled_gate_discards_earlier_partial_message() -> Result<()> {
    let on = "enforcement: { stdio: neutralize }\npolicy: { denied_tools: [add] }";
    let (_directory, path) = configured(on)?;
    let Some(agent) = agent_of("reenabled_gate_discards_earlier_partial_message", &path)? else {
        return Ok(());
    };
    for (id, wiring) in (10..).step_by(10).zip(WIRINGS) {
        let mut session = Gated::start(&agent, wiring, &[])?;
        let text = format!("{}\n", echo(id, "x"));
        let (first, second) = text.split_at(text.len() - 10);
        session.peer.write(first.as_bytes())?;
        fs::write(&path, on.replace("neutralize", "observe"))?;
        tell(&agent, &["reload"])?;
        session.peer.write(second.as_bytes())?;
        ensure!(is_through(&session.peer.answer()?), "{wiring:?}: the message at hand");
        ensure!(is_through(&session.peer.ask(&add(id + 1))?), "{wiring:?}: the gate is not off");
        fs::write(&path, on)?;
        tell(&agent, &["reload"])?;
        // The answer to the reload is the word that it counts.
        let answer = session.peer.ask(&add(id + 2))?;
        ensure!(answer["error"].is_object(), "{wiring:?}: {answer} {:?}", session.decided(&agent));
    }
    agent.stop()?;
    Ok(())
}
