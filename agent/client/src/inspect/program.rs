//! A server that is a program: started, spoken to over its standard input and output, ended with all it has started.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use mcpwarden_policy::redact::redact_word;
use mcpwarden_policy::{Cut, FrameCutter, Limits, Timestamp};
use mcpwarden_text::clean;
use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, setsid};
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;

use super::user::Environment;
use crate::{MAX_BYTES, Tap};

/// How long a server has to end after its input has, and again after SIGTERM.
const GRACE: Duration = Duration::from_secs(1);
const READ_BYTES: usize = 64 << 10;
/// Why a message cannot be written to a program that was started.
pub(crate) const STOPPED: &str = "the gate of the running agent stopped a message to the server";
/// Longest line of standard error that is shown whole. Bytes.
const STDERR_LINE_BYTES: usize = 4 << 10;
/// Standard error beyond this is not shown. Bytes.
const STDERR_BYTES: usize = 256 << 10;

/// How a program is started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Launch {
    /// Command and arguments.
    pub argv: Vec<String>,
    /// Variables beyond those that it inherits.
    pub env: BTreeMap<String, String>,
    /// Where it starts.
    pub cwd: Option<String>,
}

/// One that runs.
pub struct Program {
    pid: Pid,
    status: Option<String>,
    input: Input,
    stderr: tokio::task::JoinHandle<()>,
    last_line: LastLine,
}

/// Shows a line of what a server says on standard error.
pub type Show = Box<dyn Fn(&str) + Send + Sync>;

type Input = Arc<tokio::sync::Mutex<Option<pipe::Sender>>>;
type LastLine = Arc<Mutex<String>>;

impl Program {
    /// Starts it in a session of its own, and gives its two pipes. What it says on standard error is shown,
    /// line by line, unless `show` is `None`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(
        launch: &Launch,
        environment: &Environment,
        show: Option<Show>,
        tap: Tap,
    ) -> Result<(Self, Pipes)> {
        let (program, args) = launch.argv.split_first().context("there is no command")?;
        // What its children leave behind becomes ours, and can be ended.
        prctl::set_child_subreaper(true).context("cannot become the reaper of the server's processes")?;
        let mut command = Command::new(program);
        command.args(args).env_clear().envs(environment).envs(&launch.env);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(cwd) = &launch.cwd {
            command.current_dir(cwd);
        }
        // SAFETY: between fork and exec only two system calls are made, and nothing is allocated.
        unsafe {
            command.pre_exec(|| {
                // Away from the terminal: it can neither read what is typed nor type itself.
                setsid()?;
                Ok(prctl::set_pdeathsig(Signal::SIGKILL)?)
            });
        }
        let name = clean(&redact_word(program));
        let mut child = command.spawn().with_context(|| {
            format!("cannot start `{name}`; see that it is installed, executable and in PATH for this user")
        })?;
        let pid = Pid::from_raw(i32::try_from(child.id()).context("a process id")?);
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else { anyhow::bail!("`{name}` has no pipes") };
        let input = pipe::Sender::from_owned_fd(OwnedFd::from(stdin)).context("cannot write to it")?;
        let input = Arc::new(tokio::sync::Mutex::new(Some(input)));
        let output = pipe::Receiver::from_owned_fd(OwnedFd::from(stdout)).context("cannot read from it")?;
        let stderr = pipe::Receiver::from_owned_fd(OwnedFd::from(stderr)).context("cannot read from it")?;
        let last_line = LastLine::default();
        let stderr = tokio::spawn(pass_on(stderr, show, last_line.clone()));
        let cutter = FrameCutter::new(Limits { max_frame_bytes: MAX_BYTES, ..Limits::default() });
        let pipes = Pipes { input: input.clone(), output, cutter, frames: Vec::new(), tap };
        Ok((Self { pid, status: None, input, stderr, last_line }, pipes))
    }

    /// Ends it, with all its children: politely, then not. Says what became of it, and its last words.
    pub async fn end(mut self) -> String {
        // Who is about to end has closed its pipes already, and gets the time for the rest.
        let ended_itself = self.gone_within(GRACE / 10).await || self.status.is_some();
        // A write that a server does not take holds the lock; the signals below end that too.
        if let Ok(mut input) = self.input.try_lock() {
            input.take();
        }
        // Whoever is killed leaves us its own children, who are next.
        let kills = std::iter::repeat_n((Some(Signal::SIGKILL), GRACE / 10), 10);
        for (signal, grace) in [(None, GRACE), (Some(Signal::SIGTERM), GRACE)].into_iter().chain(kills) {
            if let Some(signal) = signal {
                self.signal(signal);
            }
            if self.gone_within(grace).await {
                break;
            }
        }
        // Whoever holds its standard error open beyond that has left the process tree.
        if tokio::time::timeout(GRACE / 5, &mut self.stderr).await.is_err() {
            self.stderr.abort();
        }
        let last = self.last_line.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let status = self.status.filter(|_| ended_itself);
        let reported = (!last.is_empty()).then(|| format!("last line on standard error: {}", clean(&last)));
        [status, reported].into_iter().flatten().collect::<Vec<_>>().join("; ")
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw().unsigned_abs()
    }

    fn signal(&self, signal: Signal) {
        // Errors say that nobody is left.
        if self.status.is_none() {
            let _ = killpg(self.pid, signal);
        }
        for child in children() {
            let _ = killpg(child, signal);
            let _ = kill(child, signal);
        }
    }

    /// Takes note of what has ended; whether nothing is left.
    fn gone(&mut self) -> bool {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == self.pid => {
                    self.status = Some(format!("it ended with status {code}"));
                }
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == self.pid => {
                    self.status = Some(format!("{signal} ended it"));
                }
                Ok(WaitStatus::StillAlive) => return false,
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => return true,
            }
        }
    }

    async fn gone_within(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while !self.gone() {
            if Instant::now() > until {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        true
    }
}

/// Our children, those we were left included; empty where the kernel does not say (`CONFIG_PROC_CHILDREN`).
fn children() -> Vec<Pid> {
    let text = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok().map(Pid::from_raw)).collect()
}

/// Passes on what a server says on standard error.
async fn pass_on(mut from: pipe::Receiver, show: Option<Show>, last: LastLine) {
    let (mut line, mut shown, mut buffer) = (Vec::new(), 0, vec![0; STDERR_LINE_BYTES]);
    loop {
        let count = from.read(&mut buffer).await.unwrap_or(0);
        for &byte in buffer.get(..count).unwrap_or_default() {
            if byte != b'\n' && line.len() < STDERR_LINE_BYTES {
                line.push(byte);
                continue;
            }
            show_line(&line, show.as_ref(), &mut shown, &last);
            line.clear();
        }
        if count == 0 {
            return show_line(&line, show.as_ref(), &mut shown, &last);
        }
    }
}

fn show_line(line: &[u8], show: Option<&Show>, shown: &mut usize, last: &LastLine) {
    let line = String::from_utf8_lossy(line.trim_ascii());
    if line.is_empty() {
        return;
    }
    if let Some(show) = show.filter(|_| *shown <= STDERR_BYTES) {
        *shown += line.len();
        let line = if *shown > STDERR_BYTES { "… (no more of it is shown)".into() } else { clean(&line) };
        show(&line);
    }
    *last.lock().unwrap_or_else(PoisonError::into_inner) = line.into_owned();
}

/// Standard input and output of a server, as the SDK wants to have them.
pub struct Pipes {
    input: Input,
    output: pipe::Receiver,
    cutter: FrameCutter,
    /// Whole frames that were not taken yet, the next one last.
    frames: Vec<String>,
    tap: Tap,
}

impl Transport<RoleClient> for Pipes {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (input, tap) = (self.input.clone(), self.tap.clone());
        async move {
            let mut line = serde_json::to_string(&item)?;
            tap.sent(&line);
            line.push('\n');
            let written = match input.lock().await.as_mut() {
                Some(input) => input.write_all(line.as_bytes()).await,
                None => Err(io::ErrorKind::BrokenPipe.into()),
            };
            // No pipe of our own is forbidden to us otherwise.
            if written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
                tap.fail(STOPPED.to_owned());
            }
            written
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            while let Some(frame) = self.frames.pop() {
                // Other JSON on standard output is noise, as it is to clients.
                if let Ok(message) = serde_json::from_str(&self.tap.pass(frame)) {
                    return Some(message);
                }
            }
            let count = self.output.read(&mut buffer).await.ok()?;
            if count == 0 || !self.tap.count(count) {
                return None;
            }
            let mut frames = Vec::new();
            let mut take = |cut: Cut<'_>| {
                if let Cut::Frame { bytes, .. } = cut {
                    frames.push(String::from_utf8_lossy(bytes).into_owned());
                }
            };
            self.cutter.push(buffer.get(..count).unwrap_or_default(), Timestamp(0), &mut take);
            frames.reverse();
            self.frames = frames;
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.input.lock().await.take();
        Ok(())
    }
}
