//! What a server wrote and who took it: what waits to be read is no gap, what was taken unseen is one, and so is what
//! nobody ever takes.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsRawFd as _;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::gate::Gate;
use mcpwarden_tests::places;
use mcpwarden_tests::script::Step;
use mcpwarden_tests::sender::{Sending, call, initialize};
use mcpwarden_tests::wiring::{Wired, Wiring};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use serde_json::Value;

/// Streams are looked at every few seconds, and what is missing must be so twice.
const NOTICED: Duration = Duration::from_secs(30);
/// More than two of these looks.
const LONG: Duration = Duration::from_secs(12);

fn is_gap(event: &Value, connection: &Value) -> bool {
    is(event, "mcp_capture_gap") && event["connection"] == *connection
}

/// How a client leaves answers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Leaves {
    /// Where they are.
    Waiting,
    /// In the buffer of a call that waits for more of them (`MSG_WAITALL`).
    InACall,
}

/// A server of this process that has answered `initialize`, and was asked for a long answer.
fn asked(wiring: Wiring) -> Result<(Wired, usize)> {
    let mut wired = wiring.channels()?.spawn(&mut Command::new(places::program("echo-server")))?;
    writeln!(wired.to_child, "{}", initialize())?;
    let mut first = String::new();
    BufReader::new(&wired.from_child).read_line(&mut first)?;
    let line = call(1, 3_000);
    writeln!(wired.to_child, "{line}")?;
    // `{"jsonrpc":"2.0","id":1,"result":{"echo":` and `}}` and a line feed.
    Ok((wired, line.len() + 44))
}

#[test]
fn unread_answers_are_not_reported_as_gap() -> Result<()> {
    let agent = Agent::start(&[])?;
    let cases = [
        (Wiring::Pipes, Leaves::Waiting),
        (Wiring::Sockets, Leaves::Waiting),
        (Wiring::Sockets, Leaves::InACall),
    ];
    let mut servers = Vec::new();
    for (wiring, leaves) in cases {
        let (wired, bytes) = asked(wiring)?;
        let pid = wired.child.id();
        let started =
            agent.wait_for("its start", |event| is(event, "mcp_server_started") && event["pid"] == pid)?;
        let reader = (leaves == Leaves::InACall).then(|| {
            let from = wired.from_child.try_clone();
            thread::spawn(move || -> Result<usize> {
                let (from, mut buffer) = (from?, vec![0u8; 100_000]);
                let (pointer, length) = (buffer.as_mut_ptr().cast(), buffer.len());
                // SAFETY: the pointer and the length are those of a live vector that nobody else uses.
                let read = unsafe { libc::recv(from.as_raw_fd(), pointer, length, libc::MSG_WAITALL) };
                Ok(usize::try_from(read)?)
            })
        });
        servers.push((wired, bytes, started["connection"].clone(), reader, format!("{leaves:?} {wiring:?}")));
    }
    thread::sleep(LONG);
    for (_, _, connection, _, what) in &servers {
        let gap = agent.events().into_iter().find(|event| is_gap(event, connection));
        ensure!(gap.is_none(), "{what}: {gap:?}");
    }
    for (mut wired, bytes, connection, reader, what) in servers {
        drop(wired.to_child);
        wired.child.wait()?;
        drop(wired.from_child);
        match reader {
            Some(reader) => {
                let read = reader.join().ok().context("the reader panicked")??;
                ensure!(read == bytes, "{what}: {read} bytes read, not {bytes}");
                agent.wait_for("the answer", |event| {
                    is(event, "mcp_tool_result") && event["connection"] == connection
                })?;
            }
            // Thrown away with the connection: nobody can tell that from being taken unseen.
            None => {
                let gap = agent.wait_for_within(NOTICED, "a gap", |event| is_gap(event, &connection))?;
                let found = (&gap["direction"], &gap["cause"], &gap["bytes"]);
                ensure!(gap["cause"] == "unread" && gap["direction"] == "s2c", "{what}: {found:?}");
                ensure!(gap["bytes"] == bytes as u64, "{what}: {found:?}, not {bytes} bytes");
            }
        }
    }
    agent.stop().map(drop)
}

/// Somebody else opens the read end, and takes an answer before anybody could know of him.
#[test]
fn unrelated_read_is_a_gap_or_reported_answer() -> Result<()> {
    let agent = Agent::start(&[])?;
    let gate = Gate::new()?;
    let steps = vec![
        Step::line(&initialize()),
        Step::AwaitLines(1),
        gate.step(),
        Step::line(&call(2, 20)),
        Step::AwaitLines(2),
    ];
    let sender = Sending::new(steps).start()?;
    let reached = gate.reached()?;
    let connection = Value::from(agent.connection_of_client(sender.pid())?);
    let started = agent.wait_for("its start", |event| {
        is(event, "mcp_server_started") && event["connection"] == connection
    })?;
    let server = started["pid"].as_u64().context("its process id")?;
    // Stopped, or it would be first.
    let client = Pid::from_raw(i32::try_from(sender.pid())?);
    kill(client, Signal::SIGSTOP)?;
    // Until all its threads have: one that wakes for the signal looks for an answer once more.
    ensure!(matches!(waitpid(client, Some(WaitPidFlag::WUNTRACED))?, WaitStatus::Stopped(..)), "it ended");
    let end = |fd: u32, read: bool| {
        OpenOptions::new().read(read).write(!read).open(format!("/proc/{server}/fd/{fd}"))
    };
    let (mut to_server, from_server) = (end(0, false)?, end(1, true)?);
    writeln!(to_server, "{}", call(1, 500))?;
    let mut answer = String::new();
    BufReader::new(from_server).read_line(&mut answer)?;
    drop(to_server);
    kill(client, Signal::SIGCONT)?;
    // An fd scan may have come between, and then it was seen: with its call, or without, where the scan came between these two.
    let said = agent.wait_for_within(NOTICED, "a gap, or the answer", |event| {
        let is_response = is(event, "mcp_message") && event["kind"] == "response";
        let is_answer = is(event, "mcp_tool_result") || is_response && event["jsonrpc_id"] == 1;
        (is_gap(event, &connection) && event["direction"] == "s2c")
            || is_answer && event["connection"] == connection
    })?;
    if is_gap(&said, &connection) {
        ensure!(said["cause"] == "unseen" && said["bytes"] == answer.len() as u64, "{said}: {answer}");
    }
    drop(reached);
    let sent = sender.finish(&agent)?;
    let goes_on = sent.events.iter().any(|event| is(event, "mcp_tool_result") && event["jsonrpc_id"] == 2);
    ensure!(goes_on, "the stream did not go on: {:#?}", sent.events);
    agent.stop().map(drop)
}

/// What is captured of a candidate that has not been asked anything is bounded; a larger ring would not help.
#[test]
fn candidate_capture_is_limited_by_its_budget() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let config = directory.path().join("config.yaml");
    fs::write(&config, "discovery: { custom_servers: [\"*echo-server*\"] }\n")?;
    let agent = Agent::start(&["--config", config.to_str().context("a path")?])?;
    // Lines of nine bytes, more than the budget of 1 MiB.
    const LINES: usize = 300_000;
    let server = places::program("echo-server");
    let shell = format!("yes 12345678 | head -n {LINES}; exec {} --short", server.display());
    for wiring in [Wiring::Pipes, Wiring::Sockets] {
        let steps = vec![
            Step::AwaitLines(LINES),
            Step::line(&initialize()),
            Step::AwaitLines(LINES + 1),
            Step::line(&call(1, 20)),
            Step::AwaitLines(LINES + 2),
        ];
        let server = ["sh", "-c", &shell].map(str::to_owned).to_vec();
        let sent = Sending { wiring, server, ..Sending::new(steps) }.run(&agent)?;
        let what = || format!("{wiring:?}: {:?}", sent.gaps());
        let of_budget = |(dir, cause, _): &(String, String, u64)| dir == "s2c" && cause == "candidate_budget";
        ensure!(!sent.gaps().is_empty() && sent.gaps().iter().all(of_budget), "{}", what());
        let bytes: u64 = sent.gaps().iter().map(|(_, _, bytes)| bytes).sum();
        let beyond = LINES as u64 * 9 - (1 << 20);
        // The budget is looked at before a read is captured, whatever it brings.
        ensure!((beyond - 65_536..=beyond).contains(&bytes), "{}, not {beyond}", what());
        ensure!(sent.count("mcp_tool_result") == 1, "{}: the stream did not go on", what());
    }
    agent.stop().map(drop)
}
