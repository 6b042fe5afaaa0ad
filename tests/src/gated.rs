//! Servers whose calls are judged before they are made.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::agent::{Agent, is};
use crate::command::{CommandOutput, configured};
use crate::framing::Framing;
use crate::patience::is_emulated;
use crate::peer::{Peer, initialize, wait_until};
use crate::places;
use crate::wiring::Wiring;

/// What the gate writes over a letter of what is denied.
pub const NEUTRAL_BYTE: u8 = 0x7F;

/// Whether a text has what the gate writes over the name of what is denied: one byte, or why it is.
pub fn is_marked(text: &str) -> bool {
    text.contains(char::from(NEUTRAL_BYTE))
        || text.contains("(blocked)")
        || text.contains("blocked by policy: ")
}

/// What the agent says where the kernel has no gate.
const NO_GATE: &str = "reported and not stopped";

/// Both kinds of channels over stdio.
pub const WIRINGS: [Wiring; 2] = [Wiring::Pipes, Wiring::Sockets];

/// Those of servers with an address.
pub const ADDRESSED: [Wiring; 3] = [Wiring::Tcp, Wiring::Named, Wiring::Abstract];

/// A server that an agent judges the calls to.
pub struct Gated {
    /// The test as its client.
    pub peer: Peer,
    /// Which connection that is.
    pub connection: u64,
    heard: PathBuf,
    _directory: TempDir,
}

/// An agent that stops what is denied, by this configuration. `None` where the kernel has no gate, which is said.
///
/// # Errors
/// It cannot be started, or there is no gate where there must be one.
pub fn agent(test: &str, config: &str) -> Result<Option<Agent>> {
    let (_directory, config) = configured(config)?;
    agent_of(test, &config)
}

/// The same, with a configuration file that the test keeps, to change it.
///
/// # Errors
/// It cannot be started, or there is no gate where there must be one.
pub fn agent_of(test: &str, path: &str) -> Result<Option<Agent>> {
    agent_with(test, path, &[])
}

/// The same, with further arguments.
///
/// # Errors
/// It cannot be started, or there is no gate where there must be one.
pub fn agent_with(test: &str, path: &str, args: &[&str]) -> Result<Option<Agent>> {
    if let Some(why) = places::skipped_before(NO_GATE).filter(|_| !is_emulated()) {
        places::skipped(test, &why);
        return Ok(None);
    }
    that_stops(test, Agent::start(&[&["--config", path], args].concat())?)
}

/// Whether there is a gate; where there is none, that is said.
///
/// # Errors
/// There is none where there must be one.
pub fn is_there(test: &str) -> Result<bool> {
    let Some(agent) = agent(test, "enforcement: { stdio: neutralize }")? else { return Ok(false) };
    agent.stop()?;
    Ok(true)
}

/// This agent, where it can stop what is denied. `None` where the kernel has no gate, which is said.
fn that_stops(test: &str, agent: Agent) -> Result<Option<Agent>> {
    if let Some(line) = agent.stderr().lines().find(|line| line.contains(NO_GATE)) {
        ensure!(!is_emulated(), "there is no gate: {line}");
        places::skipped(test, line);
        agent.stop()?;
        return Ok(None);
    }
    Ok(Some(agent))
}

impl Gated {
    /// A server that has listed its tools, `add` and `echo`, with these options.
    ///
    /// # Errors
    /// It cannot be started, or the agent does not see it.
    pub fn start(agent: &Agent, wiring: Wiring, options: &[&str]) -> Result<Self> {
        Self::run(places::program("benign-server"), tempfile::tempdir()?, agent, wiring, options)
    }

    /// The same under another name: another server of the session.
    ///
    /// # Errors
    /// Those of [`Gated::start`].
    pub fn start_as(name: &str, agent: &Agent, wiring: Wiring, options: &[&str]) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let program = directory.path().join(name);
        fs::copy(places::program("benign-server"), &program)?;
        Self::run(program, directory, agent, wiring, options)
    }

    fn run(
        program: PathBuf,
        directory: TempDir,
        agent: &Agent,
        wiring: Wiring,
        options: &[&str],
    ) -> Result<Self> {
        let heard = directory.path().join("heard");
        let mut peer = Peer::start(wiring, Command::new(&program).arg("--heard").arg(&heard).args(options))?;
        peer.frame(Framing::content_length(options.contains(&"--content-length")));
        peer.ask(&initialize(1))?;
        let connection = agent.connection_of_server(peer.pid())?;
        peer.ask(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}))?;
        // Said once the gate knows of it.
        agent.wait_for("the tools", |event| {
            is(event, "mcp_tool_seen") && event["connection"] == connection && event["tool_name"] == "echo"
        })?;
        Ok(Self { peer, connection, heard, _directory: directory })
    }

    /// All that the server has read.
    ///
    /// # Errors
    /// There is no such file.
    pub fn heard(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(&self.heard)?).into_owned())
    }

    /// The call of a tool with this id, as the agent tells of it.
    ///
    /// # Errors
    /// It does not.
    pub fn call(&self, agent: &Agent, id: u64) -> Result<Value> {
        called(agent, self.connection, id)
    }

    /// Until the agent says that a call was refused for it could not be neutralized: while another thread of the client changes what
    /// memory that has, nobody can look at it. The session has ended by then.
    ///
    /// # Errors
    /// The agent does not say so.
    pub fn wait_for_not_neutralized(&self, agent: &Agent) -> Result<()> {
        let is_it = |event: &Value| {
            event["connection"] == self.connection
                && event["action"] == "refused"
                && was_not_neutralized(event)
        };
        agent.wait_for("why it was refused", is_it).map(drop)
    }

    /// What the gate did to this connection so far: action and code of each.
    pub fn decided(&self, agent: &Agent) -> Vec<(String, String)> {
        decided(agent, self.connection)
    }
}

impl Gated {
    /// The answers to so many messages, by id.
    ///
    /// # Errors
    /// The server ended, or takes too long.
    pub fn hear(&mut self, count: usize) -> Result<BTreeMap<u64, Value>> {
        let mut answers = BTreeMap::new();
        while answers.len() < count {
            let answer = self.peer.answer()?;
            answers
                .insert(answer["id"].as_u64().with_context(|| format!("an answer's id: {answer}"))?, answer);
        }
        Ok(answers)
    }
}

/// Whether the agent says of this event that it could not be neutralized.
pub fn was_not_neutralized(event: &Value) -> bool {
    event["reason"].as_str().is_some_and(|why| why.contains("could not be neutralized"))
}

/// What an agent says to a command for which it loads the programs of the gate. Where the processor is emulated that can take longer
/// than a command waits: then it is asked again.
///
/// # Errors
/// It does not do it in time.
pub fn tell(agent: &Agent, args: &[&str]) -> Result<CommandOutput> {
    let (mut done, mut last) = (None, String::new());
    let waited = wait_until(args[0], || {
        match agent.tell(args) {
            Ok(said) if said.code == Some(0) => done = Some(said),
            Ok(said) => last = said.stderr,
            Err(error) => last = format!("{error:#}"),
        }
        done.is_some()
    });
    waited.with_context(|| last)?;
    done.context("what it said")
}

/// A call of the tool `add`.
pub fn add(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": "add", "arguments": {"a": 20, "b": 22}}})
}

/// The call with this id on a connection, as the agent tells of it.
///
/// # Errors
/// It does not.
pub fn called(agent: &Agent, connection: u64, id: u64) -> Result<Value> {
    agent.wait_for(&format!("call {id}"), |event| {
        is(event, "mcp_tool_called") && event["connection"] == connection && event["jsonrpc_id"] == id
    })
}

/// What the gate did to a connection: action and code of each.
pub fn decided(agent: &Agent, connection: u64) -> Vec<(String, String)> {
    let events = agent.events_of(connection);
    let word = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
    let decided = events.iter().filter(|event| is(event, "mcp_gate_decided"));
    decided.map(|event| (word(event, "action"), word(event, "code"))).collect()
}

/// Whether a call was made.
pub fn is_through(answer: &Value) -> bool {
    answer["result"]["isError"] == json!(false)
}
