//! `cargo xtask demo`: the agent, two small servers of ours (one of them poisoned), and a client that drives them.

use std::env;
use std::io::{BufRead as _, BufReader, IsTerminal as _};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::run::build_quickly;
use crate::setup::{Needs, setup};
use crate::util::{as_root, plain, quickly_built, run};

/// How long the agent may take to load and attach its programs.
const READY_TIMEOUT: Duration = Duration::from_secs(20);
/// With nothing new for so long, what the servers did has been shown.
const QUIET: Duration = Duration::from_millis(700);
/// How long the agent may take to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// What a text line of the agent is about: the word behind its time, and what it counts.
const KINDS: [(&str, &str); 3] =
    [("started", "servers started"), ("tool", "tools offered"), ("call", "tools called")];

/// Runs the demonstration.
///
/// # Errors
/// The set-up or the build failed, or the agent does not start.
pub fn demo() -> Result<ExitCode> {
    setup(Needs::Build)?;
    build_quickly(&["mcpwarden", "client", "benign-server", "poisoned-server"])?;

    println!("\n→ starting the agent; it watches every MCP server on this host, so others may show up too");
    let mut agent = Agent::start()?;
    agent.wait_until_ready()?;

    println!("\n→ a client starts a benign server, lists its tools and calls `add`");
    client("benign-server", &["add", r#"{"a": 19, "b": 23}"#])?;
    agent.show_until_quiet();

    println!("\n→ the same client starts a poisoned server, lists its tools and calls `weather`");
    client("poisoned-server", &["weather", r#"{"city": "Oslo"}"#])?;
    agent.show_until_quiet();

    println!("\n→ stopping the agent");
    agent.stop()?;
    agent.say_what_was_seen();
    println!(
        "Look at `weather` above: its description, which no user reads, asks the model for a private key."
    );
    println!("Try next: `cargo xtask run`, then use your own MCP client; `target/debug/mcpwarden --help`.");
    Ok(ExitCode::SUCCESS)
}

fn client(server: &str, call: &[&str; 2]) -> Result<()> {
    let mut command = Command::new(quickly_built("client"));
    command.arg("--call").args(call).arg("--").arg(quickly_built(server));
    run(&mut command, "try the command by hand")
}

/// The agent under way, and the lines it has printed.
struct Agent {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Agent {
    fn start() -> Result<Self> {
        let mut command = as_root(quickly_built("mcpwarden"))?;
        command.args(["run", "--output", "text"]).stdout(Stdio::piped());
        if std::io::stdout().is_terminal() && env::var_os("NO_COLOR").is_none() {
            // Its output goes through a pipe to reach the terminal.
            command.env("CLICOLOR_FORCE", "1");
        }
        let mut child = command.spawn().context("cannot start the agent")?;
        let stdout = child.stdout.take().context("the agent has no stdout")?;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, lines, seen: Vec::new() })
    }

    /// The first line says that everything is attached: nothing is printed before that.
    fn wait_until_ready(&mut self) -> Result<()> {
        match self.lines.recv_timeout(READY_TIMEOUT) {
            Ok(line) => {
                self.show(line);
                self.show_until_quiet();
                Ok(())
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.child.wait().context("cannot wait for the agent")?;
                bail!(
                    "the agent ended before it was ready ({status}); `mcpwarden doctor` says what is missing"
                );
            }
            Err(RecvTimeoutError::Timeout) => {
                self.stop()?;
                bail!(
                    "the agent was not ready within {} s; `mcpwarden doctor` says what is missing",
                    READY_TIMEOUT.as_secs()
                );
            }
        }
    }

    fn show(&mut self, line: String) {
        println!("  {line}");
        self.seen.push(line);
    }

    fn show_until_quiet(&mut self) {
        while let Ok(line) = self.lines.recv_timeout(QUIET) {
            self.show(line);
        }
    }

    fn stop(&mut self) -> Result<()> {
        // Through sudo where the agent runs under it: a user may not signal root's processes.
        run(
            as_root("kill")?.args(["-TERM", &self.child.id().to_string()]),
            "end the agent by hand (`sudo kill`, its id is in the command)",
        )?;
        self.show_until_quiet();
        let deadline = Instant::now() + STOP_TIMEOUT;
        loop {
            match self.child.try_wait().context("cannot wait for the agent")? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("the agent did not end cleanly ({status}); what it said is above"),
                None if Instant::now() > deadline => {
                    bail!("the agent (process {}) did not end on SIGTERM; end it by hand", self.child.id())
                }
                None => thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn say_what_was_seen(&self) {
        let counts: Vec<String> = KINDS
            .iter()
            .map(|(word, what)| {
                let count = self.seen.iter().filter(|line| mark(line).as_deref() == Some(*word)).count();
                format!("{count} {what}")
            })
            .collect();
        println!("\nSeen from the kernel: {} ({} lines in all).", counts.join(", "), self.seen.len());
    }
}

/// The second word of a line, without the colours around it.
fn mark(line: &str) -> Option<String> {
    plain(line).split_whitespace().nth(1).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::mark;

    #[test]
    fn event_mark_is_parsed_with_and_without_colours() {
        let cases = [
            ("10:30:00.123 started  server  pid 3", Some("started")),
            ("\u{1b}[2m10:30:00.123\u{1b}[0m \u{1b}[1m\u{1b}[36mtool    \u{1b}[0m x", Some("tool")),
            ("", None),
        ];
        for (line, expected) in cases {
            assert_eq!(mark(line).as_deref(), expected, "{line:?}");
        }
    }
}
