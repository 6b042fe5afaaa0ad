//! An MCP client: starts a server, initializes it, lists its tools, calls some, and logs what went both ways.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use mcpwarden_tests::framing::Framing;
use mcpwarden_tests::mini_server::PROTOCOL_VERSION;
use mcpwarden_tests::wiring::{Wired, Wiring};
use serde_json::{Value, json};

/// Starts an MCP server, initializes it, lists its tools (all pages), makes the calls, and exits with 0 when
/// all was answered.
#[derive(Parser)]
struct Cli {
    /// Speak over Unix stream socket pairs, as Node does, in place of pipes
    #[arg(long)]
    socketpair: bool,
    /// A tool to call and its arguments as JSON; may be repeated
    #[arg(long = "call", num_args = 2, value_names = ["NAME", "JSON"])]
    calls: Vec<String>,
    /// Another request and its params as JSON; may be repeated; sent after the calls
    #[arg(long = "request", num_args = 2, value_names = ["METHOD", "JSON"])]
    requests: Vec<String>,
    /// Send N calls without waiting for answers: those given, round and round (`echo` where there are none)
    #[arg(long, value_name = "N")]
    pipeline: Option<usize>,
    /// Do not list the tools
    #[arg(long)]
    no_list: bool,
    /// Log messages as lines {"dir": "c2s" | "s2c", "message": …}
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Frame messages by `Content-Length:` headers in place of lines
    #[arg(long)]
    content_length: bool,
    /// Wait with the calls until FILE exists
    #[arg(long, value_name = "FILE")]
    pause_until: Option<PathBuf>,
    /// After sending a request, wait so long before reading
    #[arg(long, value_name = "N", default_value_t = 0)]
    read_after_ms: u64,
    /// Keep the session open so long after the last answer
    #[arg(long, value_name = "N", default_value_t = 0)]
    hold_ms: u64,
    /// Give up on an answer after so long
    #[arg(long, value_name = "N", default_value_t = 30)]
    timeout_s: u64,
    /// Start the server from a process that was forked twice and has no parent left
    #[arg(long)]
    double_fork: bool,
    /// The server
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    let (program, arguments) = cli.command.split_first().context("a command is needed")?;
    let wiring = if cli.socketpair { Wiring::Sockets } else { Wiring::Pipes };
    let mut command = Command::new(program);
    command.args(arguments);
    if cli.double_fork {
        // SAFETY: `fork` and `_exit` are what a child of `fork` may call; nothing else happens there.
        unsafe { std::os::unix::process::CommandExt::pre_exec(&mut command, fork_again) };
    }
    let wired = wiring
        .channels()
        .and_then(|channels| channels.spawn(&mut command))
        .with_context(|| format!("cannot start {program}"))?;
    let log = match &cli.log {
        Some(path) => Some(File::create(path).with_context(|| format!("cannot create {}", path.display()))?),
        None => None,
    };
    let mut session = Session::new(&cli, wired, log)?;
    session.play(&cli)?;
    session.close()?;
    Ok(ExitCode::SUCCESS)
}

/// Goes on in a child, and ends the process that had a parent who knows it.
fn fork_again() -> std::io::Result<()> {
    // SAFETY: this process is a fresh child with one thread; both calls may be made there.
    match unsafe { libc::fork() } {
        0 => Ok(()),
        -1 => Err(std::io::Error::last_os_error()),
        // SAFETY: ends the process at once, without anything that the parent left to be done.
        _ => unsafe { libc::_exit(0) },
    }
}

struct Session {
    wired: Wired,
    incoming: Receiver<Value>,
    framing: Framing,
    log: Option<File>,
    timeout: Duration,
    next_id: u64,
    unanswered: HashSet<u64>,
}

impl Session {
    fn new(cli: &Cli, wired: Wired, log: Option<File>) -> Result<Self> {
        let framing = Framing::content_length(cli.content_length);
        let from_child = wired.from_child.try_clone().context("cannot duplicate a descriptor")?;
        let (sender, incoming) = mpsc::channel();
        let read_after = Duration::from_millis(cli.read_after_ms);
        // In a thread, or a long pipeline would block both sides on full pipes.
        thread::spawn(move || {
            let mut from_child = LateReader { inner: from_child, wait: read_after };
            let mut from_child = BufReader::with_capacity(1 << 20, &mut from_child);
            while let Ok(Some(message)) = framing.read(&mut from_child) {
                // What is no JSON is a server's log text.
                if let Ok(message) = serde_json::from_slice(&message)
                    && sender.send(message).is_err()
                {
                    break;
                }
            }
        });
        let timeout = Duration::from_secs(cli.timeout_s);
        Ok(Self { wired, incoming, framing, log, timeout, next_id: 1, unanswered: HashSet::new() })
    }

    fn play(&mut self, cli: &Cli) -> Result<()> {
        self.request(
            "initialize",
            json!({
                "protocolVersion": PROTOCOL_VERSION,
                "capabilities": {},
                "clientInfo": {"name": "mcpwarden-client", "version": env!("CARGO_PKG_VERSION")},
            }),
        )?;
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        if !cli.no_list {
            let mut page = self.request("tools/list", json!({}))?;
            while let Some(cursor) = page["result"].get("nextCursor") {
                let cursor = cursor.clone();
                page = self.request("tools/list", json!({"cursor": cursor}))?;
            }
        }
        if let Some(path) = &cli.pause_until {
            while !path.exists() {
                thread::sleep(Duration::from_millis(5));
            }
        }
        let mut calls = Vec::new();
        for call in cli.calls.chunks_exact(2) {
            calls.push(json!({"name": call[0], "arguments": parsed(&call[1])?}));
        }
        match cli.pipeline {
            None => {
                for call in calls {
                    self.request("tools/call", call)?;
                }
            }
            Some(count) => self.pipeline(count, &calls)?,
        }
        for request in cli.requests.chunks_exact(2) {
            self.request(&request[0], parsed(&request[1])?)?;
        }
        thread::sleep(Duration::from_millis(cli.hold_ms));
        Ok(())
    }

    fn pipeline(&mut self, count: usize, calls: &[Value]) -> Result<()> {
        for number in 0..count {
            let call = match calls.get(number % calls.len().max(1)) {
                Some(call) => call.clone(),
                None => json!({"name": "echo", "arguments": {"text": format!("call {number}")}}),
            };
            self.send_request("tools/call", call)?;
        }
        while !self.unanswered.is_empty() {
            self.receive()?;
        }
        Ok(())
    }

    /// Sends a request and waits for its answer.
    fn request(&mut self, method: &str, params: Value) -> Result<Value> {
        let id = self.send_request(method, params)?;
        loop {
            let message = self.receive()?;
            if message.get("method").is_none() && message["id"] == json!(id) {
                return Ok(message);
            }
        }
    }

    fn send_request(&mut self, method: &str, params: Value) -> Result<u64> {
        let id = self.next_id;
        self.next_id += 1;
        self.unanswered.insert(id);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        Ok(id)
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        self.note("c2s", message)?;
        self.framing
            .write(&mut self.wired.to_child, message.to_string().as_bytes())
            .context("the server does not take what it is sent")
    }

    /// The next message of the server; requests among them are answered.
    fn receive(&mut self) -> Result<Value> {
        let message = match self.incoming.recv_timeout(self.timeout) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => {
                bail!("no answer within {} s; unanswered: {:?}", self.timeout.as_secs(), self.unanswered)
            }
            Err(RecvTimeoutError::Disconnected) => {
                bail!("the server closed its output; unanswered: {:?}", self.unanswered)
            }
        };
        self.note("s2c", &message)?;
        match (message["method"].as_str(), message.get("id")) {
            (Some("ping"), Some(id)) => self.send(&json!({"jsonrpc": "2.0", "id": id, "result": {}}))?,
            (Some(method), Some(id)) => {
                let text = format!("method not found: {method}");
                self.send(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": text}}))?;
            }
            (None, Some(id)) => {
                if let Some(id) = id.as_u64() {
                    self.unanswered.remove(&id);
                }
            }
            _ => {}
        }
        Ok(message)
    }

    fn note(&mut self, direction: &str, message: &Value) -> Result<()> {
        if let Some(log) = &mut self.log {
            let line = format!("{}\n", json!({"dir": direction, "message": message}));
            log.write_all(line.as_bytes()).context("cannot write the log")?;
        }
        Ok(())
    }

    /// Closes the server's input and waits for its end.
    fn close(self) -> Result<()> {
        let Wired { mut child, to_child, from_child: _from_child } = self.wired;
        drop(to_child);
        let deadline = Instant::now() + self.timeout;
        while child.try_wait().context("cannot wait for the server")?.is_none() {
            if Instant::now() > deadline {
                child.kill().context("cannot end the server")?;
                bail!("the server did not end when its input was closed");
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

fn parsed(text: &str) -> Result<Value> {
    serde_json::from_str(text).with_context(|| format!("not JSON: {text}"))
}

/// Waits before each read for something to be there and for a while longer, so that the server's pipe fills.
struct LateReader {
    inner: File,
    wait: Duration,
}

impl std::io::Read for &mut LateReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if !self.wait.is_zero() {
            use std::os::fd::AsFd as _;
            let mut ready = [nix::poll::PollFd::new(self.inner.as_fd(), nix::poll::PollFlags::POLLIN)];
            nix::poll::poll(&mut ready, nix::poll::PollTimeout::NONE)?;
            thread::sleep(self.wait);
        }
        self.inner.read(buffer)
    }
}
