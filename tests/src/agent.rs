//! The agent under test: started as root, listened to, stopped, and looked after.

use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::command::{CommandOutput, ask};
use crate::others::Others;
use crate::patience::patience;
use crate::places;
use crate::programs;
use crate::transcript::{Dir, message_of};

/// How long loading and attaching may take.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// How long ending may take after SIGTERM, beside other agents. That it takes 2 s at most where nothing runs beside it is a test of its own
/// (`requirements::signals_end_the_agent_cleanly_and_soon`).
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// How long it may take to read what an agent has printed that has ended.
const LAST_LINES: Duration = Duration::from_secs(2);
/// How long an event may take to come.
pub const EVENT_TIMEOUT: Duration = Duration::from_secs(10);
/// With no event for so long, all that was going to come has come: requests to a relay are held for 250 ms.
const QUIET: Duration = Duration::from_millis(700);

/// The variable that has every agent capture with this backend.
const BACKEND: &str = "MCPWARDEN_TEST_BACKEND";

/// Where the agent's standard error goes, in its directory.
const STDERR: &str = "stderr.txt";

/// A running agent and the events it has printed.
pub struct Agent {
    child: Child,
    events: Arc<Events>,
    /// Its sockets, database and keys: nothing of the host's, and gone with the test.
    directory: PathBuf,
    /// Where the directory is its own alone.
    _own: Option<TempDir>,
}

#[derive(Default)]
struct Events {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Those of this test.
    events: Vec<Value>,
    /// Those that [`Others`] left out of them.
    of_others: Vec<Value>,
    /// Lines that are no JSON: each is a mistake of the agent's.
    strays: Vec<String>,
    ended: bool,
    /// Nothing is read.
    paused: bool,
}

/// While it lives the agent's output is not read.
pub struct Paused(Arc<Events>);

impl Drop for Paused {
    fn drop(&mut self) {
        self.0.lock().paused = false;
        self.0.changed.notify_all();
    }
}

/// `mcpwarden run` with these arguments.
fn run_command(directory: &Path, state: &Path, args: &[&str]) -> Command {
    let backend = std::env::var(BACKEND).ok().map(|name| format!("--backend={name}"));
    let mut command = Command::new(places::agent());
    command
        .args(["run", "--output", "json"])
        .arg("--runtime-dir")
        .arg(directory.join("run"))
        .arg("--state-dir")
        .arg(state)
        .args(backend)
        .args(args);
    // Nothing drops an agent that several tests share, and nothing else would end it: not even that nobody reads its output.
    // SAFETY: `prctl` is what a child of `fork` may call, and takes numbers alone.
    unsafe {
        std::os::unix::process::CommandExt::pre_exec(&mut command, || {
            match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    command
}

impl Agent {
    /// Starts `mcpwarden run` with everything switched on that a test looks at, and waits until it is attached.
    ///
    /// # Errors
    /// It cannot be started, or is not attached in time.
    pub fn start(args: &[&str]) -> Result<Self> {
        Self::start_plain(&[&["--verbose", "--show-payloads"], args].concat())
    }

    /// Starts `mcpwarden run` with its defaults and these arguments, and waits until it is attached.
    ///
    /// # Errors
    /// It cannot be started, or is not attached in time.
    pub fn start_plain(args: &[&str]) -> Result<Self> {
        Self::start_with(None, &[], args)
    }

    /// As [`Agent::start`] with a state directory that others have had or will have.
    ///
    /// # Errors
    /// It cannot be started, or is not attached in time.
    pub fn start_with_state(state: &Path, args: &[&str]) -> Result<Self> {
        Self::start_with(Some(state), &[], &[&["--verbose", "--show-payloads"], args].concat())
    }

    /// As [`Agent::start`] in a directory that others have had or will have: one that takes another's place.
    ///
    /// # Errors
    /// It cannot be started, or is not attached in time.
    pub fn start_within(directory: &Path, args: &[&str]) -> Result<Self> {
        let args = [&["--verbose", "--show-payloads"], args].concat();
        Self::spawn(run_command(directory, &directory.join("state"), &args), directory.to_owned(), None)
    }

    /// As [`Agent::start`], by a program that executes it: `unshare` with its arguments.
    ///
    /// # Errors
    /// It cannot be started, or is not attached in time.
    pub fn start_behind(wrapper: &[&str], args: &[&str]) -> Result<Self> {
        let directory =
            tempfile::Builder::new().prefix("mcpwarden-").tempdir().context("no temporary directory")?;
        let args = [&["--verbose", "--show-payloads"], args].concat();
        let own = run_command(directory.path(), &directory.path().join("state"), &args);
        let (program, rest) = wrapper.split_first().context("no wrapper")?;
        let mut command = Command::new(program);
        command.args(rest).arg(own.get_program()).args(own.get_args());
        Self::spawn(command, directory.path().to_owned(), Some(directory))
    }

    /// As [`Agent::start_plain`] with these variables in its environment.
    ///
    /// # Errors
    /// It cannot be started, or is not attached in time.
    pub fn start_in(environment: &[(&str, &str)], args: &[&str]) -> Result<Self> {
        Self::start_with(None, environment, args)
    }

    fn start_with(state: Option<&Path>, environment: &[(&str, &str)], args: &[&str]) -> Result<Self> {
        let directory =
            tempfile::Builder::new().prefix("mcpwarden-").tempdir().context("no temporary directory")?;
        let own = directory.path().join("state");
        let mut command = run_command(directory.path(), state.unwrap_or(&own), args);
        command.envs(environment.iter().copied());
        Self::spawn(command, directory.path().to_owned(), Some(directory))
    }

    fn spawn(mut command: Command, directory: PathBuf, own: Option<TempDir>) -> Result<Self> {
        // In a file: it matters only where something fails, and a pipe that nobody reads would fill.
        let stderr = File::create(directory.join(STDERR)).context("cannot create a file")?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .with_context(|| format!("cannot start {command:?} (`cargo build -p mcpwarden` makes it)"))?;
        let stdout = child.stdout.take().context("no stdout")?;
        let events = Arc::new(Events::default());
        let collector = Arc::clone(&events);
        thread::spawn(move || collector.collect(stdout));
        let agent = Self { child, events, directory, _own: own };
        agent.wait_for_within(START_TIMEOUT, "that the agent is attached", |event| {
            is(event, "agent_started")
        })?;
        Ok(agent)
    }

    /// The agent's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The agent's own directory; its sockets are in `run/`, its database is in `state/`.
    pub fn directory(&self) -> &std::path::Path {
        &self.directory
    }

    /// What the agent has said on standard error.
    pub fn stderr(&self) -> String {
        fs::read_to_string(self.directory.join(STDERR)).unwrap_or_default()
    }

    /// What it says to a command, at its control socket.
    ///
    /// # Errors
    /// The command could not be run.
    pub fn tell(&self, args: &[&str]) -> Result<CommandOutput> {
        let socket = self.directory().join("run/control.sock").display().to_string();
        ask(&[args, &["--socket", &socket]].concat())
    }

    /// All events so far of what this test has started, in the order in which they were printed.
    pub fn events(&self) -> Vec<Value> {
        self.events.lock().events.clone()
    }

    /// All events so far, those of other tests among them, by their numbers.
    pub fn all_events(&self) -> Vec<Value> {
        let state = self.events.lock();
        let mut events: Vec<Value> = state.events.iter().chain(&state.of_others).cloned().collect();
        drop(state);
        events.sort_by_key(|event| event["seq"].as_u64());
        events
    }

    /// Writes all events, those of other tests among them, to a file for whoever looks into a failure. Its name, where it could be.
    fn kept_whole(&self) -> String {
        let directory = places::target_dir().join("failures");
        let file = directory.join(format!("{}.jsonl", self.pid()));
        let lines: String = self.all_events().iter().map(|event| format!("{event}\n")).collect();
        let written = fs::create_dir_all(&directory).and_then(|()| fs::write(&file, lines));
        written.map_or_else(|_| String::new(), |()| format!(" (all of them in {})", file.display()))
    }

    /// Waits for the first event for which `predicate` holds; those that came before count.
    ///
    /// # Errors
    /// None came within [`EVENT_TIMEOUT`]; the error says what did come.
    pub fn wait_for(&self, what: &str, predicate: impl Fn(&Value) -> bool) -> Result<Value> {
        self.wait_for_within(EVENT_TIMEOUT, what, predicate)
    }

    /// The same, with a timeout of one's own.
    ///
    /// # Errors
    /// None came within `timeout`; the error says what did come.
    pub fn wait_for_within(
        &self,
        timeout: Duration,
        what: &str,
        predicate: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let deadline = Instant::now() + patience(timeout);
        let mut state = self.events.lock();
        let mut looked_at = 0;
        loop {
            if let Some(event) = state.events.iter().skip(looked_at).find(|event| predicate(event)) {
                return Ok(event.clone());
            }
            looked_at = state.events.len();
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || state.ended {
                let why = if state.ended { "the agent's output ended" } else { "it did not come in time" };
                let listing = Listing(&state).to_string();
                drop(state);
                bail!(
                    "waited for {what}: {why}; events so far{}:\n{listing}what the agent said on stderr:\n{}",
                    self.kept_whole(),
                    self.stderr(),
                );
            }
            state = self.events.wait(state, left);
        }
    }

    /// Waits for `mcp_server_started` of the server with this process id and gives its connection.
    ///
    /// # Errors
    /// It did not come.
    pub fn connection_of_server(&self, pid: u32) -> Result<u64> {
        let event = self.wait_for(&format!("the start of server {pid}"), |event| {
            is(event, "mcp_server_started") && event["pid"] == pid
        })?;
        connection(&event)
    }

    /// Waits for `mcp_server_started` of a server whose client is this process and gives its connection.
    ///
    /// # Errors
    /// It did not come.
    pub fn connection_of_client(&self, pid: u32) -> Result<u64> {
        let event = self.wait_for(&format!("the start of a server by client {pid}"), |event| {
            is(event, "mcp_server_started") && event["client"]["pid"] == pid
        })?;
        connection(&event)
    }

    /// What it captures with.
    pub fn backend(&self) -> String {
        let events = self.events();
        let started = events.iter().find(|event| is(event, "agent_started"));
        started.and_then(|event| event["backend"].as_str()).unwrap_or_default().to_owned()
    }

    /// Every event so far of one connection.
    pub fn events_of(&self, connection: u64) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["connection"] == connection).collect()
    }

    /// The messages of one connection as the agent reports them, in the order of its events.
    ///
    /// # Errors
    /// An event lacks what makes up its message.
    pub fn messages(&self, connection: u64) -> Result<Vec<(Dir, Value)>> {
        self.events_of(connection).iter().filter_map(|event| message_of(event).transpose()).collect()
    }

    /// Stops reading the agent's output until what this returns is dropped.
    pub fn stop_reading(&self) -> Paused {
        self.events.lock().paused = true;
        Paused(Arc::clone(&self.events))
    }

    /// Sends the agent a signal.
    ///
    /// # Errors
    /// It is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.pid()).context("a process id")?;
        kill(Pid::from_raw(pid), signal).context("cannot signal the agent")
    }

    /// Ends the agent as the kernel does that has no memory left: it can do nothing more.
    ///
    /// # Errors
    /// It was gone before.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill().context("cannot kill the agent")?;
        self.child.wait().context("cannot wait for the agent")?;
        let mut state = self.events.lock();
        while !state.ended {
            state = self.events.wait(state, QUIET);
        }
        Ok(())
    }

    /// Waits until the agent has ended.
    ///
    /// # Errors
    /// It did not end in time, or ended badly.
    pub fn wait_for_end(&mut self) -> Result<()> {
        let deadline = Instant::now() + patience(STOP_TIMEOUT);
        let status = loop {
            if let Some(status) = self.child.try_wait().context("cannot wait for the agent")? {
                break status;
            }
            ensure!(Instant::now() < deadline, "the agent did not end within {STOP_TIMEOUT:?} of SIGTERM");
            thread::sleep(Duration::from_millis(5));
        };
        ensure!(status.success(), "the agent ended with {status}");
        // What it printed last may still be on its way through the pipe; a test may have stopped reading it.
        let deadline = Instant::now() + patience(LAST_LINES);
        let mut state = self.events.lock();
        while !state.ended && Instant::now() < deadline {
            state = self.events.wait(state, QUIET);
        }
        drop(state);
        Ok(())
    }

    /// Waits until no event has come for a moment.
    pub fn settle(&self) {
        let mut state = self.events.lock();
        loop {
            let count = state.events.len();
            let deadline = Instant::now() + QUIET;
            while state.events.len() == count {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() || state.ended {
                    return;
                }
                state = self.events.wait(state, left);
            }
        }
    }

    /// Ends the agent by SIGTERM and gives its last event.
    ///
    /// # Errors
    /// It did not end in time, ended badly, printed something that is no event, or left a program in the
    /// kernel.
    pub fn stop(mut self) -> Result<Value> {
        let held = programs::held_by(self.pid());
        self.signal(Signal::SIGTERM)?;
        self.wait_for_end()?;
        let stopped = self.wait_for("the agent's last event", |event| is(event, "agent_stopped"))?;
        let strays = self.events.lock().strays.clone();
        ensure!(strays.is_empty(), "the agent printed lines that are no events: {strays:?}");
        ensure!(!held.is_empty(), "the agent held no kernel programs: it cannot have seen anything");
        programs::await_gone(&held)?;
        Ok(stopped)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // After `stop` the child has been waited for, and this does nothing.
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Events {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, timeout: Duration) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, timeout).unwrap_or_else(PoisonError::into_inner).0
    }

    fn collect(&self, stdout: ChildStdout) {
        let mut others = Others::default();
        for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
            let event = serde_json::from_slice(&line);
            let is_anothers = event.as_ref().is_ok_and(|event| others.started(event));
            let mut state = self.lock();
            while state.paused {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            match event {
                Ok(event) if is_anothers => {
                    state.of_others.push(event);
                    continue;
                }
                Ok(event) => state.events.push(event),
                Err(_) => state.strays.push(String::from_utf8_lossy(&line).into_owned()),
            }
            self.changed.notify_all();
        }
        self.lock().ended = true;
        self.changed.notify_all();
    }
}

/// Whether an event is of this type.
pub fn is(event: &Value, kind: &str) -> bool {
    event["type"] == kind
}

fn connection(event: &Value) -> Result<u64> {
    event["connection"].as_u64().with_context(|| format!("an event without a connection: {event}"))
}

/// Events for an error message: each cut to a line, and only the last of many.
struct Listing<'a>(&'a State);

impl fmt::Display for Listing<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 40;
        const WIDTH: usize = 300;
        let hidden = self.0.events.len().saturating_sub(SHOWN);
        if hidden > 0 {
            writeln!(formatter, "  … {hidden} before")?;
        }
        for event in self.0.events.iter().skip(hidden) {
            let line: String = event.to_string().chars().take(WIDTH).collect();
            writeln!(formatter, "  {line}")?;
        }
        self.0.strays.iter().try_for_each(|line| writeln!(formatter, "  no event: {line}"))
    }
}
