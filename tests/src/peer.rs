//! Clients for tests about something else than bytes: a process that does what the test says, or the program `client`.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::agent::{Agent, is};
use crate::client_process::{ClientThread, Program, Request};
use crate::framing::Framing;
use crate::io_methods::WriteMethod;
use crate::memory::Memory;
use crate::patience::{LIMIT, patience};
use crate::places;
use crate::transcript::{Dir, compare, read_log};
use crate::wiring::Wiring;

/// A server whose client does what the test says. That client is a process of its own, the same for all servers of a test.
pub struct Peer {
    client: ClientThread,
    /// The server's process id.
    pid: u32,
    /// What was read and nobody has taken.
    unread: VecDeque<u8>,
    framing: Framing,
    said: Vec<(Dir, Value)>,
}

impl Peer {
    /// Starts a server.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(wiring: Wiring, command: &mut Command) -> Result<Self> {
        let mut client = ClientThread::start()?;
        let program = Program::of(wiring, command);
        let started = client.ask(&Request::Start(program), &[]);
        let (pid, _) = started.with_context(|| format!("cannot start {command:?}"))?;
        let pid = u32::try_from(pid).context("a process id")?;
        Ok(Self { client, pid, unread: VecDeque::new(), framing: Framing::default(), said: Vec::new() })
    }

    /// From now on messages are told apart like this.
    pub fn frame(&mut self, framing: Framing) {
        self.framing = framing;
    }

    /// The process id of the program that was started.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Writes bytes as they are; they are no part of the conversation.
    ///
    /// # Errors
    /// The server does not take them.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.client.write_all(bytes).context("the server does not take what it is sent")
    }

    /// The same in some other way.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn write_by(&mut self, method: WriteMethod, bytes: &[u8]) -> io::Result<()> {
        self.client.write_by(method, bytes)
    }

    /// Writes bytes from memory of some kind: what came of it, and whether the memory is another now.
    ///
    /// # Errors
    /// The client has ended.
    pub fn write_from(&mut self, memory: Memory, bytes: &[u8]) -> Result<(io::Result<()>, bool)> {
        let (reply, _) = self.client.reply(&Request::Write(WriteMethod::Write, memory), bytes)?;
        let written = reply.outcome.map(drop).map_err(io::Error::from_raw_os_error);
        Ok((written, reply.is_changed))
    }

    /// Sends the last byte out of band: how many bytes were sent.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn send_urgent(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (count, _) = self.client.ask(&Request::SendUrgent, bytes)?;
        usize::try_from(count).map_err(io::Error::other)
    }

    /// Has another thread of the client change what memory it has, or stops that.
    ///
    /// # Errors
    /// The client has ended.
    pub fn change_memory(&mut self, is_set: bool) -> Result<()> {
        self.client.ask(&Request::ChangeMemory(is_set), &[])?;
        Ok(())
    }

    /// Another thread of the client, which writes to the same server.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn writer(&self) -> Result<ClientThread> {
        let mut thread = ClientThread::start()?;
        thread.ask(&Request::Share(self.pid), &[]).context("cannot share the server's input")?;
        Ok(thread)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The server does not take it.
    pub fn say(&mut self, message: &Value) -> Result<()> {
        self.write(&self.framing.wrap(message.to_string().as_bytes()))?;
        self.said.push((Dir::C2s, message.clone()));
        Ok(())
    }

    /// The next line of the server, if it says something before its end.
    ///
    /// # Errors
    /// It says nothing for long.
    pub fn line(&mut self) -> Result<Option<Vec<u8>>> {
        let mut searched = 0;
        loop {
            if let Some(at) = self.unread.iter().skip(searched).position(|byte| *byte == b'\n') {
                return Ok(Some(self.unread.drain(..=searched + at).collect()));
            }
            searched = self.unread.len();
            if !self.read()? {
                return Ok((!self.unread.is_empty()).then(|| self.unread.drain(..).collect()));
            }
        }
    }

    /// Waits for what the server says. False at its end.
    fn read(&mut self) -> Result<bool> {
        let (count, bytes) =
            self.client.ask(&Request::Read, &[]).map_err(|error| match error.raw_os_error() {
                Some(libc::ETIMEDOUT) => anyhow!("no answer for {:?}", patience(LIMIT)),
                _ => anyhow!(error).context("cannot read from the server"),
            })?;
        self.unread.extend(bytes);
        Ok(count > 0)
    }

    /// The server's next message; it is no part of the conversation.
    ///
    /// # Errors
    /// None came, or it is no JSON.
    pub fn answer(&mut self) -> Result<Value> {
        let text = match self.framing {
            Framing::Lines => self.line()?.context("the server ended without an answer")?,
            Framing::ContentLength => self.body()?,
        };
        serde_json::from_slice(&text).context("an answer that is no JSON")
    }

    /// The body behind the server's next headers.
    fn body(&mut self) -> Result<Vec<u8>> {
        let mut left = 0_usize;
        loop {
            let header = self.line()?.context("the server ended without an answer")?;
            let header = String::from_utf8_lossy(&header);
            if header.trim().is_empty() {
                break;
            }
            if let Some(length) = header.strip_prefix("Content-Length:") {
                left = length.trim().parse().with_context(|| format!("no length: {header}"))?;
            }
        }
        while self.unread.len() < left {
            ensure!(self.read()?, "the server ended within an answer");
        }
        Ok(self.unread.drain(..left).collect())
    }

    /// Sends a message and gives the server's next.
    ///
    /// # Errors
    /// No answer came.
    pub fn ask(&mut self, message: &Value) -> Result<Value> {
        self.say(message)?;
        let answer = self.answer()?;
        self.said.push((Dir::S2c, answer.clone()));
        Ok(answer)
    }

    /// What was said so far.
    pub fn said(&self) -> &[(Dir, Value)] {
        &self.said
    }

    /// Closes the server's input, reads what it still says, and waits for its end.
    ///
    /// # Errors
    /// It does not end.
    pub fn close(&mut self) -> Result<ExitStatus> {
        self.client.ask(&Request::Close, &[])?;
        while self.line()?.is_some() {}
        self.end(&Request::Wait)
    }

    /// Ends the server by SIGKILL.
    ///
    /// # Errors
    /// It cannot be signalled.
    pub fn kill(&mut self) -> Result<()> {
        self.end(&Request::Kill).map(drop)
    }

    fn end(&mut self, how: &Request) -> Result<ExitStatus> {
        let (status, _) = self.client.ask(how, &[]).context("cannot wait for the server")?;
        Ok(ExitStatus::from_raw(i32::try_from(status)?))
    }
}

/// The first request of a session, with an id of the test's own.
pub fn initialize(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}
    }})
}

/// A call of a tool.
pub fn call(id: u64, tool: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

/// A call of the tool `echo`.
pub fn echo(id: u64, text: &str) -> Value {
    call(id, "echo", &json!({"text": text}))
}

/// How many servers one starts below the other: more than the kernel half remembers of a process.
pub const NESTED: u64 = 6;

/// Has the server `dialing-server` connect: what came of it.
///
/// # Errors
/// It does not answer with a text.
pub fn dial(peer: &mut Peer, id: u64, who: &str, to: SocketAddr) -> Result<String> {
    let arguments = json!({"way": "Tcp", "address": to.to_string(), "who": who, "depth": NESTED});
    let answer = peer.ask(&call(id, "dial", &arguments))?;
    let text = answer["result"]["content"][0]["text"].as_str();
    text.map(str::to_owned).with_context(|| format!("{answer}"))
}

/// One of our own programs, to be started.
pub fn server(name: &str) -> Command {
    Command::new(places::program(name))
}

/// A run of the program `client` against a server.
pub struct Driven {
    child: Child,
    directory: TempDir,
}

impl Driven {
    /// Starts the client with these options on this server.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(options: &[&str], server: &[String]) -> Result<Self> {
        let directory = tempfile::tempdir().context("no temporary directory")?;
        let stderr = File::create(directory.path().join("stderr")).context("cannot create a file")?;
        let child = Command::new(places::program("client"))
            .args(options)
            .arg("--log")
            .arg(directory.path().join("log"))
            .arg("--")
            .args(server)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .context("cannot start the client")?;
        Ok(Self { child, directory })
    }

    /// The client's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A file in a directory of this run's own.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// What the client and its server have said on standard error.
    pub fn stderr(&self) -> String {
        fs::read_to_string(self.path("stderr")).unwrap_or_default()
    }

    /// Waits until the client has logged so many messages.
    ///
    /// # Errors
    /// It does not in time.
    pub fn await_messages(&self, count: usize) -> Result<()> {
        wait_until(&format!("{count} messages in the client's log"), || {
            fs::read_to_string(self.path("log")).is_ok_and(|log| log.matches('\n').count() >= count)
        })
        .with_context(|| self.stderr())
    }

    /// Waits for the client's end and gives what it logged.
    ///
    /// # Errors
    /// It failed.
    pub fn finish(&mut self) -> Result<Vec<(Dir, Value)>> {
        let status = self.child.wait().context("cannot wait for the client")?;
        if !status.success() {
            bail!("the client ended with {status}; it and its server said:\n{}", self.stderr());
        }
        read_log(&self.path("log"))
    }

    /// Waits for the end, and holds what the client logged against what the agent reports; gives the connection.
    ///
    /// # Errors
    /// The client failed, or both do not say the same.
    pub fn check(&mut self, agent: &Agent) -> Result<u64> {
        let said = self.finish()?;
        let connection = agent.connection_of_client(self.pid())?;
        await_exit(agent, connection)?;
        compare(&said, &agent.messages(connection)?)?;
        Ok(connection)
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Waits for `mcp_server_exited` of a connection: nothing follows it there.
///
/// # Errors
/// It does not come.
pub fn await_exit(agent: &Agent, connection: u64) -> Result<Value> {
    agent.wait_for(&format!("the end of connection {connection}"), |event| {
        is(event, "mcp_server_exited") && event["connection"] == connection
    })
}

/// Waits for something that no event tells.
///
/// # Errors
/// It does not come true.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) -> Result<()> {
    let deadline = Instant::now() + patience(LIMIT);
    while !holds() {
        ensure!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
