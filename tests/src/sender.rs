//! Runs the `sender` against a server under the agent, and holds what both exchanged against the events.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::agent::{Agent, is};
use crate::io_methods::{ReadMethod, WriteMethod};
use crate::places;
use crate::script::{Report, Step};
use crate::transcript::{Dir, compare};
use crate::wiring::Wiring;

/// One run of the sender.
#[derive(Clone, Debug)]
pub struct Sending {
    /// What the server's standard input and output are made of.
    pub wiring: Wiring,
    /// How to write where the script does not say it.
    pub write: WriteMethod,
    /// How to read.
    pub read: ReadMethod,
    /// What to do.
    pub steps: Vec<Step>,
    /// The server and its arguments.
    pub server: Vec<String>,
}

/// What came of it.
#[derive(Debug)]
pub struct Sent {
    /// What the sender says.
    pub report: Report,
    /// What the client wrote.
    pub sent: Vec<u8>,
    /// What the client read.
    pub received: Vec<u8>,
    /// The agent's number for it.
    pub connection: u64,
    /// All its events.
    pub events: Vec<Value>,
}

/// The first request of a session.
pub fn initialize() -> String {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "sender", "version": "1"}
    }})
    .to_string()
}

/// A tool call with a text of `bytes` bytes.
pub fn call(id: u64, bytes: usize) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "name": "echo", "arguments": {"text": "x".repeat(bytes)}
    }})
    .to_string()
}

impl Sending {
    /// Writes and reads plainly over pipes, to the server that answers everything.
    pub fn new(steps: Vec<Step>) -> Self {
        Self {
            wiring: Wiring::Pipes,
            write: WriteMethod::Write,
            read: ReadMethod::Read,
            steps,
            server: vec![places::program("echo-server").display().to_string(), "--short".to_owned()],
        }
    }

    /// The command to start, with the files that it writes in `directory`.
    pub fn command(&self, directory: &Path) -> Result<Command> {
        let script = directory.join("script.json");
        fs::write(&script, serde_json::to_string(&self.steps)?)?;
        let name = |value: &dyn erased::Named| value.name();
        let mut command = Command::new(places::program("sender"));
        command
            .args([
                "--wiring",
                &name(&self.wiring),
                "--write",
                &name(&self.write),
                "--read",
                &name(&self.read),
            ])
            .arg("--script")
            .arg(script)
            .arg("--save-sent")
            .arg(directory.join("sent"))
            .arg("--save-received")
            .arg(directory.join("received"))
            .arg("--")
            .args(&self.server);
        Ok(command)
    }

    /// Starts it.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(&self) -> Result<Sender> {
        self.start_as(|_, _| Ok(()))
    }

    /// Starts it after a change to its command, with the directory that its files are in.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_as(&self, change: impl FnOnce(&mut Command, &Path) -> Result<()>) -> Result<Sender> {
        let directory = tempfile::tempdir().context("no temporary directory")?;
        let mut command = self.command(directory.path())?;
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        change(&mut command, directory.path())?;
        let child = command.spawn().context("cannot start the sender")?;
        Ok(Sender { child, directory })
    }

    /// Runs it to its end and waits until the agent has said everything.
    ///
    /// # Errors
    /// The sender failed, or the agent does not announce the server's start and end.
    pub fn run(&self, agent: &Agent) -> Result<Sent> {
        self.start()?.finish(agent)
    }
}

/// A sender that runs.
#[derive(Debug)]
pub struct Sender {
    child: Child,
    directory: TempDir,
}

impl Sender {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end and until the agent has said everything.
    ///
    /// # Errors
    /// The sender failed, or the agent does not announce the server's start and end.
    pub fn finish(self, agent: &Agent) -> Result<Sent> {
        self.finish_timed(agent).map(|(sent, _)| sent)
    }

    /// The same, and how long after its end the agent had said everything.
    ///
    /// # Errors
    /// As of [`Self::finish`].
    pub fn finish_timed(self, agent: &Agent) -> Result<(Sent, Duration)> {
        let output = self.child.wait_with_output().context("cannot wait for the sender")?;
        let ended = Instant::now();
        ensure!(
            output.status.success(),
            "the sender failed: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        let report: Report = serde_json::from_slice(&output.stdout).context("no report")?;
        let connection = agent.connection_of_client(report.pid)?;
        agent.wait_for("the server's end", |event| {
            is(event, "mcp_server_exited") && event["connection"] == connection
        })?;
        let late = ended.elapsed();
        let sent = Sent {
            report,
            sent: fs::read(self.directory.path().join("sent"))?,
            received: fs::read(self.directory.path().join("received"))?,
            connection,
            events: agent.events_of(connection),
        };
        Ok((sent, late))
    }
}

/// The names of options on the command line.
mod erased {
    use clap::ValueEnum;

    pub trait Named {
        fn name(&self) -> String;
    }

    impl<T: ValueEnum> Named for T {
        fn name(&self) -> String {
            self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
        }
    }
}

impl Sent {
    /// The messages that went over the wire: every line that starts one, batches as they are.
    pub fn said(&self) -> Result<Vec<(Dir, Value)>> {
        let mut said = Vec::new();
        for (dir, bytes) in [(Dir::C2s, &self.sent), (Dir::S2c, &self.received)] {
            for line in bytes.split(|byte| *byte == b'\n') {
                let line = line.trim_ascii();
                if matches!(line.first(), Some(b'{' | b'[')) {
                    // What the agent makes of bytes that are no UTF-8, and of raw control characters.
                    let text = String::from_utf8_lossy(line).replace('\0', "\\u0000");
                    let message = serde_json::from_str(&text)
                        .with_context(|| format!("the test sent what is no JSON: {text:.200}"))?;
                    said.push((dir, message));
                }
            }
        }
        Ok(said)
    }

    /// Every message was reported, none was invented, and nothing is missing.
    ///
    /// # Errors
    /// Says what differs.
    pub fn check(&self, agent: &Agent) -> Result<()> {
        let gaps = self.gaps();
        if !gaps.is_empty() {
            bail!("gaps were reported: {gaps:?}");
        }
        compare(&self.said()?, &agent.messages(self.connection)?)
    }

    /// Every byte is in a frame, in the line feed behind it, in a gap, or in what is left of a frame next to a gap.
    ///
    /// # Errors
    /// That is not so.
    pub fn adds_up(&self) -> Result<()> {
        let exited = self.events.iter().find(|event| is(event, "mcp_server_exited")).context("no end")?;
        let number = |value: &Value| value.as_u64().context("no number");
        let gaps: u64 = self.gaps().iter().map(|(_, _, bytes)| bytes).sum();
        ensure!(
            number(&exited["gap_bytes"])? == gaps,
            "{} is not what the gaps add up to: {gaps}",
            exited["gap_bytes"]
        );
        let mut told = gaps + number(&exited["junk_bytes"])?;
        for dir in ["c2s", "s2c"] {
            told += number(&exited["bytes"][dir])? + number(&exited["frames"][dir])?;
        }
        let bytes = self.report.sent.bytes + self.report.received.bytes;
        ensure!(
            told == bytes,
            "{bytes} bytes went both ways, {told} are accounted for: {exited} {:?}",
            self.gaps()
        );
        Ok(())
    }

    /// The gaps that were reported: direction, cause, bytes.
    pub fn gaps(&self) -> Vec<(String, String, u64)> {
        self.events
            .iter()
            .filter(|event| is(event, "mcp_capture_gap"))
            .map(|event| {
                let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
                (text("direction"), text("cause"), event["bytes"].as_u64().unwrap_or(0))
            })
            .collect()
    }

    /// Waits until gaps of so many bytes were reported, and takes in what was: what nobody saw is known when the next
    /// fd scan finds that nobody holds the connection, which a busy host does after the server's end was said.
    ///
    /// # Errors
    /// Fewer bytes were reported in time.
    pub fn await_gaps(&mut self, agent: &Agent, bytes: u64) -> Result<()> {
        let missing = std::cell::Cell::new(0);
        let found = agent.wait_for(&format!("gaps of {bytes} bytes"), |event| {
            if is(event, "mcp_capture_gap") && event["connection"] == self.connection {
                missing.set(missing.get() + event["bytes"].as_u64().unwrap_or(0));
            }
            missing.get() >= bytes
        });
        self.events = agent.events_of(self.connection);
        found.map(drop)
    }

    /// How many events of a type there are.
    pub fn count(&self, kind: &str) -> usize {
        self.events.iter().filter(|event| is(event, kind)).count()
    }
}
