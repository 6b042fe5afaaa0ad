//! An MCP server over HTTPS that logs what it reads and answers, for clients of all kinds.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::agent::Agent;
use crate::peer::wait_until;
use crate::places;
use crate::transcript::{Dir, read_log};

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The server, its URL, and where it logs what is said.
pub struct Server {
    _running: Running,
    /// Where it is, without a path.
    pub url: String,
    directory: TempDir,
}

impl Server {
    /// Starts one.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start() -> Result<Self> {
        Self::run("over_tls.mjs")
    }

    /// Starts another one, which takes the same arguments.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn run(script: &str) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let certificates = places::sources().join("src/certificates");
        let mut command = Command::new("node");
        command.arg(places::sources().join("servers").join(script)).arg(certificates.join("server.pem"));
        command.arg(certificates.join("key.pem")).arg(directory.path()).stdout(Stdio::piped());
        let mut running = Running(command.spawn().context("cannot start node")?);
        let mut port = String::new();
        BufReader::new(running.0.stdout.take().context("no output")?).read_line(&mut port)?;
        let url = format!("https://127.0.0.1:{}", port.trim());
        Ok(Self { _running: running, url, directory })
    }

    /// What declares it, in a configuration.
    pub fn declared(&self) -> String {
        format!("servers:\n  - {{id: remote, type: http, url: \"{}/mcp\"}}\n", self.url)
    }

    /// Starts a client, has it answered once it is probed, and waits for its end. Gives its process id.
    ///
    /// # Errors
    /// It failed, or was not probed.
    pub fn drive(&self, agent: &Agent, command: &mut Command) -> Result<u32> {
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut client = Running(child.with_context(|| format!("cannot start {command:?}"))?);
        let pid = client.0.id();
        self.answer_once_probed(agent, pid)?;
        ensure!(client.0.wait()?.success(), "{command:?} failed");
        Ok(pid)
    }

    /// Has a process answered once it is probed, as the agent says at the level `debug`.
    ///
    /// # Errors
    /// It was not.
    pub fn answer_once_probed(&self, agent: &Agent, pid: u32) -> Result<()> {
        let go = self.directory.path().join("go");
        if go.exists() {
            fs::remove_file(&go)?;
        }
        let probed = format!("functions of process {pid} are probed");
        wait_until("the client to be probed", || agent.stderr().contains(&probed))
            .with_context(|| agent.stderr())?;
        self.answer_at_once()
    }

    /// Has every process answered at once.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn answer_at_once(&self) -> Result<()> {
        fs::write(self.directory.path().join("go"), "").context("cannot have it answer")
    }

    /// What was said in each session, as it has logged it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn sessions(&self) -> Result<Vec<Vec<(Dir, Value)>>> {
        let logs = fs::read_dir(self.directory.path())?.collect::<Result<Vec<_>, _>>()?;
        let logs = logs.iter().map(fs::DirEntry::path);
        logs.filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
            .map(|path| read_log(&path))
            .collect()
    }
}
