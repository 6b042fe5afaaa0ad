//! Servers that lie, servers that flood, and neighbours that are no servers at all.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::patience::fewer;
use mcpwarden_tests::peer::{Driven, Peer, await_exit, echo, initialize, server, wait_until};
use mcpwarden_tests::places;
use mcpwarden_tests::wiring::Wiring;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

fn program(name: &str) -> String {
    places::program(name).display().to_string()
}

/// The server rewrites its buffer, a million times in all, while its writes are blocked. What the client parsed is what counts.
#[test]
fn rewritten_buffer_is_reported_as_client_got_it() -> Result<()> {
    const RUNS: usize = 20;
    const AT_ONCE: usize = 5;
    let agent = Agent::start(&[])?;
    let (mut rewritten, mut times) = (0, 0);
    for batch in 0..RUNS / AT_ONCE {
        let wiring: &[&str] = if batch % 2 == 0 { &[] } else { &["--socketpair"] };
        let options = [wiring, &["--read-after-ms", "60", "--call", "report", "{}"]].concat();
        let mut runs: Vec<Driven> = (0..AT_ONCE)
            .map(|_| Driven::start(&options, &[program("rewriting-server")]))
            .collect::<Result<_>>()?;
        for run in &mut runs {
            let connection = run.check(&agent)?;
            let result = agent.events_of(connection).into_iter().find(|event| is(event, "mcp_tool_result"));
            let result = result.context("no result")?;
            let text = result["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
            ensure!(text.starts_with("HONEST "), "{wiring:?}: {text:.20}");
            for line in run.stderr().lines() {
                let Some(said) = line.strip_prefix("rewritten ") else { continue };
                rewritten += 1;
                times += said.split(' ').next().context("a number")?.parse::<usize>()?;
            }
        }
    }
    // Without it nothing was proved: the client read too early.
    ensure!(rewritten == RUNS, "only {rewritten} of {RUNS} buffers were rewritten in time");
    ensure!(times >= fewer(1_000_000), "only {times} times");
    agent.stop()?;
    Ok(())
}

/// Bytes of junk in one line before the answer to a call.
#[test]
fn junk_without_newlines_is_counted_and_skipped() -> Result<()> {
    let agent = Agent::start(&[])?;
    for junk in [5_usize << 20, 40 << 20] {
        for wiring in [&[][..], &["--socketpair"]] {
            let call = ["--call", "echo", "{\"text\":\"after\"}"];
            let options = [wiring, &call, &call].concat();
            let bytes = junk.to_string();
            let command = [program("benign-server"), "--junk".to_owned(), bytes];
            let mut driven = Driven::start(&options, &command)?;
            let what = || format!("{junk} bytes, {wiring:?}");
            let connection = driven.check(&agent).with_context(what)?;
            let exited = await_exit(&agent, connection)?;
            ensure!(exited["junk_bytes"] == junk as u64 + 1, "{}: {exited}", what());
            ensure!(exited["gap_bytes"] == 0 && exited["unanswered"] == 0, "{}: {exited}", what());
        }
    }
    // Whatever was held of it was given back.
    ensure!(resident_bytes(agent.pid())? < 120 << 20, "{} bytes resident", resident_bytes(agent.pid())?);
    agent.stop()?;
    Ok(())
}

/// An agent that prints text for people, into a file.
struct TextAgent {
    child: Child,
    directory: tempfile::TempDir,
}

impl TextAgent {
    fn start() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let path = |name: &str| directory.path().join(name);
        let child = Command::new(places::agent())
            .args(["run", "--output", "text", "--verbose", "--show-payloads"])
            .arg("--runtime-dir")
            .arg(path("run"))
            .arg("--state-dir")
            .arg(path("state"))
            .stdin(Stdio::null())
            .stdout(fs::File::create(path("stdout"))?)
            .spawn()
            .context("cannot start the agent")?;
        let agent = Self { child, directory };
        wait_until("the agent's first line", || agent.text().contains("watches this host"))?;
        Ok(agent)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.directory.path().join("stdout")).unwrap_or_default()
    }

    fn stop(&mut self) -> Result<()> {
        kill(Pid::from_raw(i32::try_from(self.child.id())?), Signal::SIGTERM)?;
        ensure!(self.child.wait()?.success(), "the agent ended badly");
        Ok(())
    }
}

impl Drop for TextAgent {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[test]
fn terminal_escapes_do_not_reach_the_terminal() -> Result<()> {
    /// Sets the title, clears the screen, turns the text around, forges a line.
    const EVIL: &str =
        "evil\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}\r\n12:00:00.000 call forged\u{8}\u{7f}";
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("mcp-server-\u{1b}[31mred");
    symlink(places::program("echo-server"), &path)?;
    let mut agent = TextAgent::start()?;
    let mut peer = Peer::start(Wiring::Pipes, &mut Command::new(&path))?;
    let mut first = initialize(0);
    first["params"]["clientInfo"]["name"] = json!(EVIL);
    first["params"]["protocolVersion"] = json!(EVIL);
    let call = json!({"jsonrpc": "2.0", "id": EVIL, "method": "tools/call", "params": {
        "name": EVIL, "arguments": {EVIL: EVIL}
    }});
    let other = json!({"jsonrpc": "2.0", "id": 2, "method": EVIL, "params": {}});
    for message in [first, call, other] {
        peer.ask(&message)?;
    }
    peer.close()?;
    wait_until("the server's end", || {
        agent
            .text()
            .lines()
            .any(|line| line.contains("exited") && line.contains(&format!("pid {}", peer.pid())))
    })?;
    agent.stop()?;
    let text = agent.text();
    let raw: Vec<char> = text
        .chars()
        .filter(|character| {
            (character.is_control() && *character != '\n') || matches!(character, '\u{202a}'..='\u{202e}')
        })
        .collect();
    ensure!(raw.is_empty(), "{raw:?} in {text:?}");
    ensure!(std::str::from_utf8(&agent.bytes()).is_ok(), "no UTF-8");
    ensure!(text.contains("\\u{1b}]0;owned"), "the name is shown, escaped: {text}");
    // Every line is one of the agent's: a time, and what it is about.
    for line in text.lines() {
        let time = line.get(..12).unwrap_or_default();
        let good = time.bytes().enumerate().all(|(at, byte)| match at {
            2 | 5 => byte == b':',
            8 => byte == b'.',
            _ => byte.is_ascii_digit(),
        });
        ensure!(
            good && !line.get(12..).unwrap_or_default().starts_with(" call forged"),
            "a forged line: {line}"
        );
    }
    Ok(())
}

/// Resident memory of a process without the ring, which is mapped.
fn resident_bytes(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).context("no RssAnon")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}

fn shell(line: &str) -> Result<Child> {
    Command::new("sh")
        .args(["-c", line])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .context("cannot start a shell")
}

/// Nothing was said of servers whose client is one of these.
fn none_of(agent: &Agent, clients: &[u32]) -> Result<()> {
    for event in agent.events() {
        let client = &event["client"]["pid"];
        ensure!(!clients.iter().any(|pid| client == pid), "an event about no server: {event}");
    }
    Ok(())
}

/// Nothing that the kernel half or the agent keeps was full.
fn nothing_refused(stopped: &Value) -> Result<()> {
    for (name, value) in stopped["counters"].as_object().context("no counters")? {
        // What a flood loses to its own share is its own.
        let is_share = name.starts_with("queue_refused") || name.starts_with("kernel_share");
        let full = !is_share && (name.contains("refused") || name.starts_with("kernel_ring_full"));
        ensure!(!full || value == 0, "{name} is {value}");
    }
    Ok(())
}

#[test]
fn busy_pipelines_cause_no_events_or_gaps() -> Result<()> {
    let agent = Agent::start(&[])?;
    let mut neighbours = [
        ("text", shell("yes | head -c 300M | cat > /dev/null")?),
        (
            "JSON lines",
            shell("yes '{\"level\":\"info\",\"message\":\"x\"}' | head -c 300M | cat > /dev/null")?,
        ),
        (
            "a JSON-RPC of its own",
            shell("yes '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\"}' | head -c 50M | cat > /dev/null")?,
        ),
    ];
    let mut ran_beside = 0;
    while neighbours.iter_mut().any(|(_, child)| matches!(child.try_wait(), Ok(None))) {
        let mut driven = Driven::start(&["--pipeline", "50"], &[program("benign-server")])?;
        let connection = driven.check(&agent)?;
        let gaps = agent.events_of(connection).iter().filter(|event| is(event, "mcp_capture_gap")).count();
        ensure!(gaps == 0, "{gaps} gaps");
        ran_beside += 1;
    }
    ensure!(ran_beside > 0, "the pipelines ended before anything ran beside them");
    let pids: Vec<u32> = neighbours.iter().map(|(_, child)| child.id()).collect();
    for (name, child) in &mut neighbours {
        ensure!(child.wait()?.success(), "{name}");
    }
    none_of(&agent, &pids)?;
    nothing_refused(&agent.stop()?)
}

#[test]
fn short_pipelines_do_not_grow_agent_memory() -> Result<()> {
    const PIPELINES: usize = 500;
    let agent = Agent::start(&[])?;
    let run = || -> Result<u32> {
        let line = format!("i=0; while [ $i -lt {PIPELINES} ]; do echo a | cat | cat; i=$((i + 1)); done");
        let mut child = shell(&line)?;
        ensure!(child.wait()?.success(), "the shell failed");
        Ok(child.id())
    };
    // Once to fill what is kept for reuse, once to see whether it grows.
    let mut clients = vec![run()?];
    settle(&agent)?;
    let before = resident_bytes(agent.pid())?;
    clients.push(run()?);
    settle(&agent)?;
    let after = resident_bytes(agent.pid())?;
    ensure!(after < before + (2 << 20), "{before} bytes before, {after} after {PIPELINES} pipelines");
    none_of(&agent, &clients)?;
    // Nothing else did it: a server is seen as ever.
    Driven::start(&["--call", "echo", "{\"text\":\"after\"}"], &[program("benign-server")])?.check(&agent)?;
    nothing_refused(&agent.stop()?)
}

/// Waits until the agent has collected what ended: it has, when it collected a server that ended just now.
fn settle(agent: &Agent) -> Result<()> {
    let mut peer = Peer::start(Wiring::Pipes, &mut server("benign-server"))?;
    peer.ask(&initialize(0))?;
    peer.ask(&echo(1, "settle"))?;
    peer.close()?;
    await_exit(agent, agent.connection_of_server(peer.pid())?)?;
    // The fd scan is taken every 5 seconds; nothing outside tells that one was.
    std::thread::sleep(Duration::from_secs(6));
    Ok(())
}
