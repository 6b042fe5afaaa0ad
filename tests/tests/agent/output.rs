//! Outputs that cannot be written: the agent reports each, and goes on to store and to enforce.

use std::fs::File;
use std::io::{Read as _, Write as _, pipe};
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use mcpwarden_tests::agent::is;
use mcpwarden_tests::command::{CommandOutput, ask, configured, directory, mcpwarden, run};
use mcpwarden_tests::dial::{Outcome, Way};
use mcpwarden_tests::listener::Listener;
use mcpwarden_tests::patience::patience;
use mcpwarden_tests::peer::{Peer, echo, initialize, server, wait_until};
use mcpwarden_tests::scrape::Scrape;
use mcpwarden_tests::wiring::Wiring;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// An agent whose output goes anywhere, and that is asked at its socket and in its store alone.
struct Blind {
    child: Child,
    directory: tempfile::TempDir,
    /// What is at the other end of its outputs, until it ends.
    _ends: Ends,
}

/// What keeps the other end of an output open.
type Ends = Vec<OwnedFd>;
/// Standard output and standard error of an agent, and what keeps their other ends open.
type Outputs = fn() -> Result<(Stdio, Stdio, Ends)>;

impl Blind {
    fn start(config: &str, outputs: Outputs) -> Result<Self> {
        let directory = directory()?;
        let (stdout, stderr, ends) = outputs()?;
        let mut command = run(directory.path(), &["--output", "json", "--config", config]);
        let child = command.stdout(stdout).stderr(stderr).spawn().context("cannot start the agent")?;
        let mut agent = Self { child, directory, _ends: ends };
        wait_until("the agent's answer", || {
            matches!(agent.child.try_wait(), Ok(None))
                && agent.status().is_ok_and(|said| said.code != Some(2))
        })
        .with_context(|| format!("{:?}", agent.child.try_wait()))?;
        Ok(agent)
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn status(&self) -> Result<CommandOutput> {
        ask(&["status", "--socket", &self.path("run/control.sock")])
    }

    fn stored(&self, kind: &str) -> Result<Vec<Value>> {
        let said = ask(&["events", "--json", "--type", kind, "--path", &self.path("state/mcpwarden.db")])?;
        said.stdout.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }

    /// Ends it, which takes two seconds at most.
    fn stop(mut self) -> Result<()> {
        let start = Instant::now();
        kill(Pid::from_raw(i32::try_from(self.child.id())?), Signal::SIGTERM)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "it ended with {status}");
        ensure!(start.elapsed() < patience(Duration::from_secs(3)), "it took {:?} to end", start.elapsed());
        let stopped = self.stored("agent_stopped")?;
        ensure!(stopped.len() == 1, "{stopped:?}");
        Ok(())
    }
}

impl Drop for Blind {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn null() -> Stdio {
    Stdio::null()
}

fn full() -> Result<Stdio> {
    Ok(File::options().write(true).open("/dev/full")?.into())
}

fn closed_pipe() -> Result<Stdio> {
    Ok(pipe()?.1.into())
}

/// A pipe that is full, and that nobody reads.
fn stopped_reader() -> Result<(Stdio, OwnedFd)> {
    let (reader, mut writer) = pipe()?;
    writer.write_all(&[b' '; 1 << 16])?;
    Ok((writer.into(), reader.into()))
}

fn closed_terminal() -> Result<Stdio> {
    let pty = nix::pty::openpty(None, None)?;
    drop(pty.master);
    Ok(pty.slave.into())
}

/// What the outputs are, whether standard output is reported as failing, and a part of the reason.
const CASES: [(&str, Outputs, Option<&str>); 11] = [
    ("/dev/null", || Ok((null(), null(), vec![])), None),
    ("a closed pipe", || Ok((closed_pipe()?, null(), vec![])), Some("Broken pipe")),
    ("a full disk", || Ok((full()?, null(), vec![])), Some("No space left")),
    (
        "a closed socket",
        || Ok((OwnedFd::from(UnixStream::pair()?.0).into(), null(), vec![])),
        Some("Broken pipe"),
    ),
    ("a terminal that is gone", || Ok((closed_terminal()?, null(), vec![])), Some("Input/output error")),
    (
        "a reader that has stopped",
        || stopped_reader().map(|(out, end)| (out, null(), vec![end])),
        Some("no write has ended for 10 s"),
    ),
    ("a descriptor to read from", || Ok((File::open("/dev/null")?.into(), null(), vec![])), Some("Bad file")),
    ("standard error is full", || Ok((null(), full()?, vec![])), None),
    ("standard error is a closed pipe", || Ok((null(), closed_pipe()?, vec![])), None),
    ("nobody reads standard error", || stopped_reader().map(|(err, end)| (null(), err, vec![end])), None),
    ("both are closed pipes", || Ok((closed_pipe()?, closed_pipe()?, vec![])), Some("Broken pipe")),
];

#[test]
fn unwritable_output_does_not_end_enforcement_or_storing() -> Result<()> {
    let listener = Listener::start()?;
    let to = listener.at(Ipv4Addr::LOCALHOST);
    for (name, outputs, reason) in CASES {
        let scrape = Scrape::free()?;
        let (_directory, config) = configured(&format!(
            "network: {{ deny: [\"127.0.0.1:{}\"] }}\nenforcement: {{ network: deny }}\n{}",
            listener.port(),
            scrape.config()
        ))?;
        let agent = Blind::start(&config, outputs)?;
        check(&agent, &scrape, reason).with_context(|| name)?;
        ensure!(Way::Tcp.dial(to) == Outcome::Denied, "{name}: it is not enforced any more");
        let mut peer = Peer::start(Wiring::Pipes, &mut server("echo-server"))?;
        peer.ask(&initialize(1))?;
        peer.ask(&echo(2, "x"))?;
        peer.close()?;
        wait_until("the stored call", || {
            agent.stored("mcp_tool_called").is_ok_and(|calls| !calls.is_empty())
        })
        .with_context(|| name)?;
        // The call may be that of another server of this host.
        wait_until("the stored denial", || {
            agent.stored("mcp_network_connection").is_ok_and(|denied| !denied.is_empty())
        })
        .with_context(|| name)?;
        agent.stop().with_context(|| name)?;
        ensure!(Way::Tcp.dial(to) == Outcome::Through, "{name}: it outlived the agent");
    }
    Ok(())
}

/// What is reported of the failure: as an event, in the status, in metrics and health; or of none.
fn check(agent: &Blind, scrape: &Scrape, reason: Option<&str>) -> Result<()> {
    let writable = || {
        let numbers = scrape.numbers().ok()?;
        numbers.get("mcpwarden_sink_writable{sink=\"stdout\"}").copied()
    };
    let Some(reason) = reason else {
        ensure!(agent.stored("agent_sink_failing")?.is_empty(), "a failure is reported");
        wait_until("the metric", || writable() == Some(1.0))?;
        return scrape.await_answer("/healthz", 200, "ok");
    };
    let failing = || agent.stored("agent_sink_failing").unwrap_or_default();
    let until = Instant::now() + patience(Duration::from_secs(30));
    while failing().is_empty() {
        ensure!(Instant::now() < until, "no event reports it");
        std::thread::sleep(Duration::from_millis(50));
    }
    let events = failing();
    let [event] = events.as_slice() else { bail!("{events:?}") };
    ensure!(is(event, "agent_sink_failing") && event["sink"] == "stdout", "{event}");
    ensure!(event["reason"].as_str().is_some_and(|why| why.contains(reason)), "{event}");
    let status = agent.status()?;
    status.expect("status", 1, "sinks[stdout] takes no events")?;
    ensure!(
        status.stdout.contains(reason) && status.stdout.contains("it takes none now"),
        "{}",
        status.stdout
    );
    wait_until("the metric", || writable() == Some(0.0))?;
    scrape.await_answer("/healthz", 200, "ok\nsinks[stdout] takes no events")
}

/// A reader that goes while the agent runs.
#[test]
fn closed_output_does_not_end_the_agent() -> Result<()> {
    let directory = directory()?;
    let mut child = run(directory.path(), &["--output", "json"]).stdout(Stdio::piped()).spawn()?;
    let mut stdout = child.stdout.take().context("no stdout")?;
    stdout.read_exact(&mut [0]).context("no first event")?;
    drop(stdout);
    let agent = Blind { child, directory, _ends: Vec::new() };
    for _ in 0..3 {
        let mut peer = Peer::start(Wiring::Pipes, &mut server("echo-server"))?;
        peer.ask(&initialize(1))?;
        peer.ask(&echo(2, "x"))?;
        peer.close()?;
    }
    // Those of other tests' servers may be among them.
    wait_until("the stored calls", || agent.stored("mcp_tool_called").is_ok_and(|calls| calls.len() >= 3))?;
    wait_until("the failure", || agent.stored("agent_sink_failing").is_ok_and(|events| events.len() == 1))?;
    agent.status()?.expect("status", 1, "sinks[stdout] takes no events: Broken pipe")?;
    agent.stop()
}

/// A named pipe whose next reader comes: it gets whole lines, and the end of the failure is reported.
#[test]
fn output_recovers_with_a_new_reader() -> Result<()> {
    let pipes = tempfile::tempdir()?;
    let path = pipes.path().join("fifo");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU)?;
    let reader = |path: &Path| {
        use std::os::unix::fs::OpenOptionsExt as _;
        File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)
    };
    let first = reader(&path)?;
    let directory = directory()?;
    let mut command = run(directory.path(), &["--output", "json"]);
    let child = command.stdout(File::options().write(true).open(&path)?).spawn()?;
    let agent = Blind { child, directory, _ends: Vec::new() };
    wait_until("the start", || agent.stored("agent_started").is_ok_and(|events| !events.is_empty()))?;
    drop(first);
    let mut peer = Peer::start(Wiring::Pipes, &mut server("echo-server"))?;
    peer.ask(&initialize(1))?;
    wait_until("the failure", || agent.stored("agent_sink_failing").is_ok_and(|events| !events.is_empty()))?;
    let mut second = reader(&path)?;
    let recovered = || agent.stored("agent_sink_recovered").unwrap_or_default();
    let until = Instant::now() + patience(Duration::from_secs(45));
    let mut text = Vec::new();
    while recovered().is_empty() {
        ensure!(Instant::now() < until, "the end of the failure is not reported");
        let _ = second.read_to_end(&mut text);
    }
    peer.close()?;
    let said = agent.status()?;
    ensure!(!said.stdout.contains("takes no events"), "{}", said.stdout);
    agent.stop()?;
    let _ = second.read_to_end(&mut text);
    let lines = String::from_utf8(text)?;
    ensure!(!lines.is_empty(), "nothing was printed");
    for line in lines.lines() {
        serde_json::from_str::<Value>(line).with_context(|| line.to_owned())?;
    }
    Ok(())
}

/// A follower whose reader goes ends, though nothing more comes.
#[test]
fn follower_ends_with_its_reader() -> Result<()> {
    let (_directory, config) = configured("")?;
    let agent = Blind::start(&config, || Ok((null(), null(), vec![])))?;
    let database = agent.path("state/mcpwarden.db");
    for args in [
        &["events", "--follow"][..],
        &["events", "--follow", "--json"],
        &["events", "--follow", "--type", "mcp_detection"],
    ] {
        let mut child = mcpwarden(args)
            .args(["--path", &database])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut stdout = child.stdout.take().context("no stdout")?;
        if !args.contains(&"--type") {
            stdout.read_exact(&mut [0])?;
        }
        drop(stdout);
        let ended = wait_until("the follower's end", || matches!(child.try_wait(), Ok(Some(_))));
        if ended.is_err() {
            child.kill()?;
        }
        let output = child.wait_with_output()?;
        ended.with_context(|| format!("{args:?}"))?;
        ensure!(output.status.code() == Some(141) && output.stderr.is_empty(), "{args:?}: {output:?}");
    }
    agent.stop()
}

/// A refused start whose error cannot be printed: an exit code, and no panic.
#[test]
fn unwritable_standard_error_keeps_the_exit_code() -> Result<()> {
    let refused: [&[&str]; 6] = [
        &["run", "--config", "/nowhere"],
        &["run", "--ring-bytes", "5"],
        &["status", "--socket", "/nowhere"],
        &["events", "--path", "/nowhere"],
        &["no-such-command"],
        &["check-config", "/nowhere"],
    ];
    for args in refused {
        let expected = mcpwarden(args).output()?.status.code();
        for (name, stderr) in [("full", full()?), ("closed", closed_pipe()?)] {
            let status = mcpwarden(args).stderr(stderr).status()?;
            ensure!(
                status.code() == expected && expected != Some(101),
                "{args:?}, {name}: {status}, not {expected:?}"
            );
        }
        let closed = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 2>&-"])
            .arg(mcpwarden_tests::places::agent())
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()?;
        ensure!(closed.code() == expected, "{args:?}: {closed}, not {expected:?}");
    }
    Ok(())
}
