//! What is lost is said, byte for byte, and nothing else is.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::gate::Gate;
use mcpwarden_tests::places;
use mcpwarden_tests::script::{Step, Write};
use mcpwarden_tests::sender::{Sending, Sent, call, initialize};
use mcpwarden_tests::wiring::Wiring;
use nix::sys::signal::Signal;
use serde_json::Value;

const WIRINGS: [Wiring; 2] = [Wiring::Pipes, Wiring::Sockets];
/// Somebody who is not root.
const NOBODY: u32 = 65_534;
/// Positions are compared each second, and what is missing must be so twice.
const NOTICED: Duration = Duration::from_secs(5);

/// A server that answers each line with another like it.
fn echoing(steps: Vec<Step>) -> Sending {
    let server = vec![places::program("echo-server").display().to_string()];
    Sending { server, ..Sending::new(steps) }
}

fn text(text: String, chunk: usize) -> Step {
    Step::Write(Write { text: Some(text), chunk, ..Write::default() })
}

/// Whatever was reported was said, and as often. Not in that order: an answer to a request that was lost waits for it.
fn invents_nothing(agent: &Agent, sent: &Sent) -> Result<()> {
    let mut said = sent.said()?;
    for message in agent.messages(sent.connection)? {
        let at = said.iter().position(|other| *other == message);
        let at = at.with_context(|| format!("nobody said {:.300}", message.1.to_string()))?;
        said.remove(at);
    }
    Ok(())
}

fn gap_bytes(sent: &Sent, direction: &str, cause: &str) -> u64 {
    let gaps = sent.gaps();
    gaps.iter().filter(|(dir, why, _)| dir == direction && why == cause).map(|(_, _, bytes)| bytes).sum()
}

fn has_call(sent: &Sent, id: u64) -> bool {
    let about = |kind: &str| sent.events.iter().any(|event| is(event, kind) && event["jsonrpc_id"] == id);
    about("mcp_tool_called") && about("mcp_tool_result")
}

/// A configuration in a file of its own.
struct Config {
    path: PathBuf,
    _directory: tempfile::TempDir,
}

fn config(text: &str) -> Result<Config> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("config.yaml");
    fs::write(&path, text)?;
    Ok(Config { path, _directory: directory })
}

impl Config {
    fn start(&self) -> Result<Agent> {
        Agent::start(&["--config", self.path.to_str().context("a path")?])
    }
}

/// A burst while the agent is stopped. The ring holds some of it.
#[test]
fn overfull_ring_loss_is_reported_as_gaps() -> Result<()> {
    // Name, the ring, bytes of a call, calls, bytes a write.
    let cases = [
        ("many small messages", 65_536, 100, 1_000, 0),
        ("a message a record", 65_536, 3_000, 100, 3_200),
        ("messages of several records", 262_144, 100_000, 10, 0),
        ("messages larger than the ring", 65_536, 200_000, 3, 0),
    ];
    for (name, ring, bytes, calls, chunk) in cases {
        for wiring in WIRINGS {
            let agent = Agent::start(&["--ring-bytes", &ring.to_string()])?;
            let (before, after) = (Gate::new()?, Gate::new()?);
            let burst: String =
                (0..calls).map(|number| format!("{}\n", call(1_000 + number, bytes))).collect();
            let steps = vec![
                Step::line(&initialize()),
                Step::AwaitLines(1),
                Step::line(&call(1, 20)),
                Step::AwaitLines(2),
                before.step(),
                text(burst, chunk),
                Step::AwaitLines(2 + calls as usize),
                after.step(),
                Step::line(&call(9_999, 20)),
                Step::AwaitLines(3 + calls as usize),
            ];
            let sender = Sending { wiring, ..echoing(steps) }.start()?;
            let connection = agent.connection_of_client(sender.pid())?;
            let of_it = |event: &Value, kind: &str| is(event, kind) && event["connection"] == connection;
            agent.wait_for("the first answer", |event| of_it(event, "mcp_tool_result"))?;
            let gate = before.reached()?;
            agent.signal(Signal::SIGSTOP)?;
            drop(gate);
            let gate = after.reached()?;
            agent.signal(Signal::SIGCONT)?;
            // The tail of both directions was lost: only when that is noticed, the ring is known to be empty.
            for direction in ["c2s", "s2c"] {
                agent.wait_for_within(NOTICED, "a gap", |event| {
                    of_it(event, "mcp_capture_gap") && event["direction"] == direction
                })?;
            }
            drop(gate);
            let sent = sender.finish(&agent)?;
            let check = || -> Result<()> {
                sent.adds_up()?;
                invents_nothing(&agent, &sent)?;
                ensure!(has_call(&sent, 9_999), "the stream did not recover");
                let [asked, answered] = ["c2s", "s2c"].map(|dir| gap_bytes(&sent, dir, "ring_full"));
                ensure!(asked > 0 && answered > 0, "nothing was lost: {:?}", sent.gaps());
                let total: u64 = sent.gaps().iter().map(|(_, _, bytes)| bytes).sum();
                ensure!(asked + answered == total, "another cause: {:?}", sent.gaps());
                // Others on this host may have lost something too.
                let counters = &agent.stop()?["counters"];
                for counter in ["kernel_ring_full_bytes", "capture_missing_bytes", "gap_bytes"] {
                    ensure!(
                        counters[counter].as_u64() >= Some(total),
                        "{counter}: {}, not {total}",
                        counters[counter]
                    );
                }
                Ok(())
            };
            check().with_context(|| format!("{name} over {wiring:?}"))?;
        }
    }
    Ok(())
}

#[test]
fn oversized_messages_are_reported_as_gaps() -> Result<()> {
    let config = config("capture: { max_message_bytes: 5000 }\n")?;
    let agent = config.start()?;
    for wiring in WIRINGS {
        for chunk in [0, 1, 1_000] {
            let (long, longer) = (call(2, 9_000), call(3, 70_000));
            let steps = vec![
                Step::line(&initialize()),
                text(format!("{}\n{long}\n", call(1, 4_000)), chunk),
                text(format!("{longer}\n"), chunk.max(7)),
                text(format!("{}\n", call(4, 4_000)), chunk),
                Step::AwaitLines(5),
            ];
            let sent = Sending { wiring, ..echoing(steps) }.run(&agent)?;
            let what = || format!("pieces of {chunk} bytes over {wiring:?}");
            let mut gaps = sent.gaps();
            gaps.sort();
            // `{"jsonrpc":"2.0","id":2,"result":{"echo":` and `}}`
            let answer = |line: &str| line.len() as u64 + 43;
            let gap = |dir: &str, bytes: u64| (dir.to_owned(), "too_long".to_owned(), bytes);
            let expected = [
                gap("c2s", long.len() as u64),
                gap("c2s", longer.len() as u64),
                gap("s2c", answer(&long)),
                gap("s2c", answer(&longer)),
            ];
            ensure!(gaps == expected, "{}: {gaps:?}, not {expected:?}", what());
            for (id, seen) in [(1, true), (2, false), (3, false), (4, true)] {
                ensure!(has_call(&sent, id) == seen, "{}: call {id}", what());
            }
        }
    }
    agent.stop().map(drop)
}

/// Frames that do not end, up to a bound for each user and one for all; others go on, in pieces too.
#[test]
fn unfinished_frames_are_bounded_in_memory() -> Result<()> {
    // Name, the bounds, who holds how much, whether something is refused.
    type Case<'a> = (&'a str, &'a str, &'a [(u32, usize)], bool);
    let cases: [Case<'_>; 3] = [
        (
            "one user over his bound",
            "{ reassembly_bytes: 400000, per_uid_bytes: 200000 }",
            &[(0, 150_000), (0, 100_000)],
            true,
        ),
        (
            "all over theirs",
            "{ reassembly_bytes: 200000, per_uid_bytes: 150000 }",
            &[(0, 120_000), (NOBODY, 130_000)],
            true,
        ),
        (
            "each within his",
            "{ reassembly_bytes: 400000, per_uid_bytes: 200000 }",
            &[(0, 150_000), (NOBODY, 150_000)],
            false,
        ),
    ];
    for (name, bounds, holders, refused) in cases {
        let config = config(&format!("capture: {bounds}\n"))?;
        let agent = config.start()?;
        let start = |(uid, bytes): &(u32, usize)| -> Result<_> {
            let gate = Gate::new()?;
            let line = format!("{}\n", call(1, *bytes));
            let (head, tail) = line.split_at(*bytes);
            let steps = vec![
                Step::line(&initialize()),
                Step::AwaitLines(1),
                text(head.to_owned(), 10_000),
                gate.step(),
                Step::text(tail),
                Step::line(&call(2, 20)),
                Step::AwaitLines(3),
            ];
            let sender = Sending::new(steps).start_as(|command, directory| {
                let gates = gate.path().parent().context("a gate lies somewhere")?;
                for (path, mode) in [(directory, 0o777), (gates, 0o755), (gate.path(), 0o644)] {
                    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
                }
                if *uid != 0 {
                    command.uid(*uid).gid(*uid);
                }
                Ok(())
            })?;
            let reached = gate.reached()?;
            Ok((sender, gate, reached))
        };
        let holding: Vec<_> = holders.iter().map(start).collect::<Result<_>>()?;
        let other = Sending::new(vec![
            Step::line(&initialize()),
            text(format!("{}\n", call(1, 30_000)), 1_000),
            Step::AwaitLines(2),
        ]);
        other.run(&agent)?.check(&agent).with_context(|| format!("{name}: another server"))?;
        let mut lost = 0;
        for (sender, _gate, reached) in holding {
            drop(reached);
            let sent = sender.finish(&agent)?;
            sent.adds_up().context(name)?;
            ensure!(has_call(&sent, 2), "{name}: the stream did not recover");
            let memory = gap_bytes(&sent, "c2s", "memory");
            ensure!(has_call(&sent, 1) == (memory == 0), "{name}: {memory} bytes refused");
            lost += memory;
        }
        ensure!((lost > 0) == refused, "{name}: {lost} bytes refused");
        let counters = &agent.stop()?["counters"];
        // Others on this host may have been refused something too.
        let counted = counters["capture_memory_refused_bytes"].as_u64();
        ensure!(counted >= Some(lost), "{name}: {lost} bytes were refused, {counted:?} counted");
    }
    Ok(())
}

/// What lay in the pipe before there was a server is not seen, and said to be so.
#[test]
fn data_written_before_server_start_is_a_gap() -> Result<()> {
    // Behind half a message in a socket, which nobody can look into, a server is known only by its name.
    let named = config("discovery: { custom_servers: [\"*echo-server*\"] }\n")?;
    let (by_name, by_behaviour) = (named.start()?, Agent::start(&[])?);
    let (first, second) = (initialize(), call(1, 20));
    let half = second.len() / 2;
    let cases = [
        ("the first message", format!("{first}\n"), format!("{second}\n"), 0),
        ("the first message and nothing for long", format!("{first}\n{second}\n"), String::new(), 0),
        (
            "one and a half",
            format!("{first}\n{}", &second[..half]),
            format!("{}\n", &second[half..]),
            second.len() + 1 - half,
        ),
    ];
    for (name, before, after, rest) in cases {
        for wiring in WIRINGS {
            // What lies in a pipe is known when the server starts, in a socket when the server has taken it.
            let cause = if wiring == Wiring::Pipes { "started_late" } else { "unseen" };
            let agent = if cause == "unseen" && rest > 0 { &by_name } else { &by_behaviour };
            let steps = vec![
                Step::text(&before),
                Step::Spawn,
                Step::text(&after),
                Step::AwaitLines(2),
                Step::line(&call(2, 20)),
                Step::AwaitLines(3),
            ];
            let mut sent = Sending { wiring, ..Sending::new(steps) }.run(agent)?;
            sent.await_gaps(agent, before.len() as u64)?;
            let what = || format!("{name} over {wiring:?}: {:?}", sent.gaps());
            let known = |(dir, found, _): &(String, String, u64)| dir == "c2s" && found == cause;
            ensure!(sent.gaps().iter().all(known), "{}", what());
            let gaps: u64 = sent.gaps().iter().map(|(_, _, bytes)| bytes).sum();
            ensure!(gaps == before.len() as u64, "{} are not {} bytes", what(), before.len());
            ensure!(
                sent.count("mcp_tool_called") == 1 + usize::from(rest == 0 && !after.is_empty()),
                "{}",
                what()
            );
            ensure!(has_call(&sent, 2), "{}", what());
            invents_nothing(agent, &sent).with_context(what)?;
        }
    }
    by_name.stop()?;
    by_behaviour.stop().map(drop)
}

/// Of `printf … | server | jq` nothing is captured but the answers, and nothing names the server.
#[test]
fn one_shot_pipeline_to_unnamed_server_is_reported() -> Result<()> {
    let agent = Agent::start(&[])?;
    let (first, second) = (initialize(), call(1, 20));
    for (name, before, answers) in
        [("one request", format!("{first}\n"), 1), ("two requests", format!("{first}\n{second}\n"), 2)]
    {
        let steps = vec![Step::text(&before), Step::Spawn, Step::AwaitLines(answers)];
        let mut sent = Sending::new(steps).run(&agent)?;
        sent.await_gaps(&agent, before.len() as u64)?;
        let what = || format!("{name}: {:?}", sent.events);
        ensure!(sent.count("mcp_server_started") == 1, "{}", what());
        let all = sent.gaps().iter().all(|(dir, cause, _)| dir == "c2s" && cause == "started_late");
        ensure!(all, "{}", what());
        invents_nothing(&agent, &sent).with_context(what)?;
    }
    agent.stop().map(drop)
}

/// How somebody else comes by a descriptor.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stranger {
    /// Opens `/proc/PID/fd/0` of the server.
    Opens,
    /// Is handed the client's.
    IsHanded,
}

#[test]
fn unrelated_write_is_reported_or_counted_as_gap() -> Result<()> {
    let agent = Agent::start(&[])?;
    let cases = [
        (Wiring::Pipes, Stranger::Opens),
        (Wiring::Pipes, Stranger::IsHanded),
        (Wiring::Sockets, Stranger::IsHanded),
    ];
    for (wiring, stranger) in cases {
        let gate = Gate::new()?;
        let steps = vec![
            Step::line(&initialize()),
            Step::AwaitLines(1),
            gate.step(),
            Step::AwaitLines(2),
            Step::line(&call(2, 20)),
            Step::AwaitLines(3),
        ];
        let sender = Sending { wiring, ..Sending::new(steps) }.start()?;
        let reached = gate.reached()?;
        let connection = agent.connection_of_client(sender.pid())?;
        let started = agent.wait_for("its start", |event| {
            is(event, "mcp_server_started") && event["connection"] == connection
        })?;
        let server = u32::try_from(started["pid"].as_u64().context("its process id")?)?;
        let line = format!("{}\n", call(1, 500));
        {
            let mut to_server = match stranger {
                Stranger::Opens => OpenOptions::new().write(true).open(format!("/proc/{server}/fd/0"))?,
                Stranger::IsHanded => handed_by(sender.pid(), server, wiring)?.into(),
            };
            to_server.write_all(line.as_bytes())?;
        }
        drop(reached);
        let mut sent = sender.finish(&agent)?;
        let seen = sent.events.iter().any(|event| is(event, "mcp_tool_called") && event["jsonrpc_id"] == 1);
        if !seen {
            sent.await_gaps(&agent, line.len() as u64)?;
        }
        let what = || format!("{stranger:?} over {wiring:?}: {:?}", sent.gaps());
        let bytes: u64 = sent.gaps().iter().map(|(_, _, bytes)| bytes).sum();
        ensure!(bytes == if seen { 0 } else { line.len() as u64 }, "{}: seen: {seen}", what());
        ensure!(has_call(&sent, 2), "{}: the stream did not go on", what());
    }
    agent.stop().map(drop)
}

/// The end that the sender writes to, as a descriptor of this process.
fn handed_by(pid: u32, server: u32, wiring: Wiring) -> Result<OwnedFd> {
    let links = |pid: u32| -> Result<Vec<(i32, PathBuf)>> {
        let entries = fs::read_dir(format!("/proc/{pid}/fd"))?;
        let link = |entry: std::io::Result<fs::DirEntry>| {
            let entry = entry.ok()?;
            Some((entry.file_name().to_str()?.parse().ok()?, fs::read_link(entry.path()).ok()?))
        };
        Ok(entries.filter_map(link).collect())
    };
    let (of_sender, of_server) = (links(pid)?, links(server)?);
    let input = &of_server.iter().find(|(number, _)| *number == 0).context("the server has no input")?.1;
    let fits = |link: &PathBuf| match wiring {
        Wiring::Pipes => link == input,
        // The ends of a pair have nothing in common to see. The sender has two, and copied the one it writes to.
        _ => {
            link.to_string_lossy().starts_with("socket:") && of_server.iter().all(|(_, other)| other != link)
        }
    };
    let number = of_sender.iter().filter(|(_, link)| fits(link)).map(|(number, _)| *number).max();
    let number = number.context("the sender holds no such descriptor")?;
    // SAFETY: neither call touches memory; both return a new descriptor, or -1.
    let (process, descriptor) = unsafe {
        let process = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        ensure!(process >= 0, "pidfd_open: {}", std::io::Error::last_os_error());
        let process = OwnedFd::from_raw_fd(i32::try_from(process)?);
        (libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0), process)
    };
    drop(descriptor);
    ensure!(process >= 0, "pidfd_getfd: {}", std::io::Error::last_os_error());
    // SAFETY: the kernel has just given it to this process, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(i32::try_from(process)?) })
}

/// A write of more than the pipe holds returns when the server has taken nearly all of it.
#[test]
fn blocked_write_is_not_reported_as_gap() -> Result<()> {
    let agent = Agent::start(&[])?;
    for wiring in WIRINGS {
        let burst: String = (1..=25).map(|id| format!("{}\n", call(id, 30_000))).collect();
        let steps =
            vec![Step::line(&initialize()), Step::AwaitLines(1), text(burst, 0), Step::AwaitLines(26)];
        let mut sending = Sending { wiring, ..Sending::new(steps) };
        sending.server.extend(["--delay-ms".to_owned(), "200".to_owned()]);
        let sent = sending.run(&agent)?;
        sent.check(&agent).with_context(|| format!("{wiring:?}"))?;
        ensure!(sent.count("mcp_tool_result") == 25, "{wiring:?}: answers were not told as those to calls");
    }
    agent.stop().map(drop)
}

/// More than the pipe to the reader holds, and less than the agent's queue.
fn flood() -> Vec<Step> {
    let burst: String = (0..400).map(|number| format!("{}\n", call(1_000 + number, 50_000))).collect();
    vec![Step::line(&initialize()), Step::AwaitLines(1), text(burst, 0), Step::AwaitLines(401)]
}

#[test]
fn paused_output_reader_loses_no_event() -> Result<()> {
    let agent = Agent::start(&[])?;
    let gate = Gate::new()?;
    let sender = Sending::new([flood(), vec![gate.step()]].concat()).start()?;
    agent.connection_of_client(sender.pid())?;
    let pause = agent.stop_reading();
    let reached = gate.reached()?;
    drop(pause);
    drop(reached);
    let sent = sender.finish(&agent)?;
    sent.check(&agent)?;
    ensure!(sent.count("mcp_tool_called") == 400, "not every call");
    agent.stop().map(drop)
}

#[test]
fn stopped_output_reader_does_not_delay_shutdown() -> Result<()> {
    let mut agent = Agent::start(&[])?;
    let gate = Gate::new()?;
    let sender = Sending::new([flood(), vec![gate.step()]].concat()).start()?;
    agent.connection_of_client(sender.pid())?;
    let pause = agent.stop_reading();
    let reached = gate.reached()?;
    agent.signal(Signal::SIGTERM)?;
    agent.wait_for_end()?;
    drop(pause);
    ensure!(
        agent.stderr().contains("stdout: the last events were not sent in time"),
        "it was not said: {}",
        agent.stderr()
    );
    drop(reached);
    drop(sender);
    Ok(())
}
