//! Real servers that listen on a port of loopback.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::json;

use crate::clients::Plan;
use crate::patience::patience;
use crate::places;

/// How long one may take to listen.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// A real server, and what it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remote {
    /// The official Python SDK, streamable HTTP.
    Python,
    /// The official Python SDK, the older transport.
    PythonSse,
    /// The official Python SDK, streamable HTTP: tools that ask their client for something (`servers/asking.py`).
    Asking,
    /// npm `@modelcontextprotocol/server-everything`, streamable HTTP.
    Everything,
    /// npm `@modelcontextprotocol/server-everything`, the older transport.
    EverythingSse,
}

impl Remote {
    /// All that call nothing back.
    pub const ALL: [Self; 4] = [Self::Python, Self::PythonSse, Self::Everything, Self::EverythingSse];

    /// Whether it speaks the older transport.
    pub fn is_sse(self) -> bool {
        matches!(self, Self::PythonSse | Self::EverythingSse)
    }

    /// Starts it and waits until it listens.
    ///
    /// # Errors
    /// It cannot be started, or does not listen in time.
    pub fn start(self) -> Result<Listening> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut command = match self {
            Self::Python | Self::PythonSse => {
                let mut command = Command::new(places::real_servers().join("venv/bin/python"));
                command.arg(places::sources().join("servers/server.py")).arg(port.to_string());
                command.args(self.is_sse().then_some("sse"));
                command
            }
            Self::Asking => {
                let mut command = Command::new(places::real_servers().join("venv/bin/python"));
                command.arg(places::sources().join("servers/asking.py")).arg(port.to_string());
                command
            }
            Self::Everything | Self::EverythingSse => {
                let package = "node/node_modules/@modelcontextprotocol/server-everything/dist/index.js";
                let mut command = Command::new("node");
                command.arg(places::real_servers().join(package));
                command.arg(if self.is_sse() { "sse" } else { "streamableHttp" });
                command.env("PORT", port.to_string());
                command
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {command:?} (`cargo xtask setup --tests` installs it)"))?;
        let listening = Listening { child, port, remote: self };
        let deadline = Instant::now() + patience(START_TIMEOUT);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if Instant::now() > deadline {
                bail!("{self:?} does not listen within {START_TIMEOUT:?}");
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(listening)
    }
}

/// What a client calls of `servers/asking.py`: tools that need nothing, one round, two rounds, and one round.
pub fn asking_calls() -> Vec<serde_json::Value> {
    vec![
        json!({"name": "add", "arguments": {"a": 2, "b": 3}}),
        json!({"name": "greet", "arguments": {"greeting": "Hello"}}),
        json!({"name": "rhyme", "arguments": {}}),
        json!({"name": "where", "arguments": {}}),
    ]
}

/// One that listens, until it is dropped.
pub struct Listening {
    child: Child,
    /// Its port.
    pub port: u16,
    remote: Remote,
}

impl Listening {
    /// The path of its URL, without the slash.
    pub fn path(&self) -> &'static str {
        if self.remote.is_sse() { "sse" } else { "mcp" }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{}", self.port, self.path())
    }

    /// What a client is to do there.
    pub fn plan(&self) -> Plan {
        let calls = match self.remote {
            Remote::Python | Remote::PythonSse => vec![
                json!({"name": "add", "arguments": {"a": 2, "b": 3}}),
                json!({"name": "weather", "arguments": {"city": "Oslo"}}),
            ],
            Remote::Asking => asking_calls(),
            Remote::Everything | Remote::EverythingSse => vec![
                json!({"name": "echo", "arguments": {"message": "hallo"}}),
                json!({"name": "get-sum", "arguments": {"a": 2, "b": 3}}),
            ],
        };
        let transport = Some(if self.remote.is_sse() { "sse" } else { "http" });
        Plan { url: Some(self.url()), transport, calls, ..Plan::default() }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
