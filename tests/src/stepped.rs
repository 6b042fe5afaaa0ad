//! Clients in Python, each with a server that it has started, that do one step for each line that they are given: the scripts
//! `servers/stopped*.py`, which call what is denied.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::agent::{Agent, is};
use crate::places;

/// A client that waits for steps.
pub struct SteppedClient {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Its process id.
    pub pid: Value,
    /// The port of its server, where that is one.
    pub port: Value,
}

impl SteppedClient {
    /// Starts a script of `servers`; it has initialized and listed its server then.
    ///
    /// # Errors
    /// It cannot be started, or fails.
    pub fn start(script: &str, words: &[&str]) -> Result<Self> {
        let script = places::sources().join("servers").join(script);
        let mut command = Command::new("python3");
        command.arg(script).args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("python3")?;
        let input = child.stdin.take().context("no stdin")?;
        let output = BufReader::new(child.stdout.take().context("no stdout")?);
        let mut client = Self { child, input, output, pid: Value::Null, port: Value::Null };
        let identity = client.said()?;
        (client.pid, client.port) = (identity["client"].clone(), identity["port"].clone());
        Ok(client)
    }

    /// Has it do a step: what came of that, the errors of its writes, and the answers.
    ///
    /// # Errors
    /// It has ended.
    pub fn step(&mut self, step: &Value) -> Result<(Value, Vec<Value>)> {
        writeln!(self.input, "{step}")?;
        let said = self.said()?;
        Ok((said["errors"].clone(), said["answers"].as_array().context("answers")?.clone()))
    }

    fn said(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("{line:?}"))
    }

    /// The connection with its server, once the gate knows it.
    ///
    /// # Errors
    /// The agent does not see it.
    pub fn connection(&self, agent: &Agent) -> Result<u64> {
        let started = agent.wait_for("the server", |event| {
            is(event, "mcp_server_started") && event["client"]["pid"] == self.pid
        })?;
        let connection = started["connection"].as_u64().context("a connection")?;
        agent.wait_for("its tools", |event| {
            is(event, "mcp_tool_seen") && event["connection"] == connection && event["tool_name"] == "add"
        })?;
        Ok(connection)
    }

    /// Ends it.
    ///
    /// # Errors
    /// It failed.
    pub fn end(self) -> Result<()> {
        let Self { mut child, input, .. } = self;
        drop(input);
        ensure!(child.wait()?.success());
        Ok(())
    }
}
