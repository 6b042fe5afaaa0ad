//! `mcpwarden top` on a pseudoterminal: what it shows, what its keys do, how it ends, and what it costs.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::command::{ask, configured, ends, mcpwarden};
use mcpwarden_tests::patience::is_emulated;
use mcpwarden_tests::peer::{Peer, echo, initialize, server, wait_until};
use mcpwarden_tests::wiring::Wiring;
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{FlowArg, LocalFlags, tcflow, tcgetattr};
use nix::unistd::Pid;
use serde_json::json;

/// Ends the screen of a program that has one of its own (DECRST 1049), and shows the cursor (DECTCEM).
const RESTORED: [&str; 2] = ["\u{1b}[?1049l", "\u{1b}[?25h"];
/// How long its use of the processor is measured, and how often a call is made then.
const MEASURED: (Duration, Duration) = (Duration::from_secs(8), Duration::from_millis(20));

/// What ends each drawing: it hides the cursor (DECRST 25).
const DRAWN: &str = "\u{1b}[?25l";
/// Drawings a second while something changes, at least: ten are meant. And the share of a processor at most, in percent: of
/// any build, on any machine.
const FRAMES: (f64, f64) = (8.0, 25.0);

/// Lines and columns of the terminal.
const SIZE: (u16, u16) = (30, 120);

/// `mcpwarden top` on a terminal of 120 columns and 30 lines.
struct Top {
    child: Child,
    master: File,
    /// The terminal's other end, by which its settings are asked for.
    slave: OwnedFd,
    said: Arc<Mutex<Vec<u8>>>,
    /// Whether nobody reads what it writes.
    unread: Arc<AtomicBool>,
}

impl Top {
    fn start(socket: &Path) -> Result<Self> {
        let (mut master, mut slave) = (-1, -1);
        use std::ptr::{null, null_mut};
        let size = libc::winsize { ws_row: SIZE.0, ws_col: SIZE.1, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: both descriptors are written to; the name and the settings may be left out, and the size is read only.
        let outcome = unsafe { libc::openpty(&mut master, &mut slave, null_mut(), null(), &size) };
        ensure!(outcome == 0, "no pseudoterminal: {}", std::io::Error::last_os_error());
        // SAFETY: both are open, and nobody else has them.
        let (master, slave) = unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        let end = || slave.try_clone().map(Stdio::from);
        let mut command = mcpwarden(&["top", "--socket"]);
        command.arg(socket).stdin(end()?).stdout(end()?).stderr(end()?);
        let child = command.env("TERM", "xterm-256color").env_remove("NO_COLOR").spawn()?;
        let said = Arc::default();
        let (mut reader, collected): (File, Arc<Mutex<Vec<u8>>>) = (master.try_clone()?, Arc::clone(&said));
        let unread = Arc::new(AtomicBool::new(false));
        let waits = Arc::clone(&unread);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            let mut read = move |buffer: &mut [u8]| {
                while waits.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(20));
                }
                reader.read(buffer)
            };
            while let Ok(length @ 1..) = read(&mut buffer) {
                if let Ok(mut bytes) = collected.lock() {
                    bytes.extend_from_slice(buffer.get(..length).unwrap_or_default());
                }
            }
        });
        Ok(Self { child, master, slave, said, unread })
    }

    fn press(&mut self, keys: &str) -> Result<()> {
        Ok(self.master.write_all(keys.as_bytes())?)
    }

    /// All that it wrote.
    fn said(&self) -> String {
        self.said.lock().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// How often it has drawn.
    fn drawn(&self) -> usize {
        self.said().matches(DRAWN).count()
    }

    /// What stands on the screen: text, where the cursor was sent (CUP), since the screen was cleared (ED).
    fn screen(&self) -> String {
        let mut lines = vec![vec![' '; usize::from(SIZE.1)]; usize::from(SIZE.0)];
        let (mut line, mut column) = (0, 0);
        let said = self.said();
        let mut characters = said.chars();
        while let Some(character) = characters.next() {
            if character != '\u{1b}' {
                let cell = lines.get_mut(line).and_then(|cells: &mut Vec<char>| cells.get_mut(column));
                if let Some(cell) = cell {
                    *cell = character;
                }
                column += 1;
                continue;
            }
            // All that it writes begin with CSI.
            let sequence: String =
                characters.by_ref().skip(1).take_while(|end| !end.is_ascii_alphabetic()).collect();
            let end = said.len() - characters.as_str().len();
            match said.get(..end).and_then(|said| said.chars().last()) {
                Some('H') => {
                    let mut numbers = sequence.split(';').map(|number| number.parse().unwrap_or(1));
                    line = numbers.next().unwrap_or(1_usize).saturating_sub(1);
                    column = numbers.next().unwrap_or(1_usize).saturating_sub(1);
                }
                Some('J') => lines.iter_mut().for_each(|cells| cells.fill(' ')),
                _ => {}
            }
        }
        let lines = lines.into_iter().map(|cells| cells.into_iter().collect::<String>());
        lines.map(|line| line.trim_end().to_owned() + "\n").collect()
    }

    fn shows(&self, part: &str) -> Result<()> {
        wait_until(part, || self.screen().contains(part)).with_context(|| self.screen())
    }

    fn pid(&self) -> Result<Pid> {
        Ok(Pid::from_raw(i32::try_from(self.child.id())?))
    }

    /// Whether lines are echoed and keys waited for by line, as a shell wants it.
    fn cooked(&self) -> Result<bool> {
        let modes = tcgetattr(&self.slave)?.local_flags;
        Ok(modes.contains(LocalFlags::ICANON | LocalFlags::ECHO))
    }

    /// Waits for its end; the terminal must be as it was.
    fn ends(&mut self) -> Result<ExitStatus> {
        wait_until("the end of top", || self.child.try_wait().is_ok_and(|status| status.is_some()))?;
        let status = self.child.wait()?;
        ensure!(self.cooked()?, "the terminal's modes were not restored");
        wait_until("the screen of before", || RESTORED.iter().all(|part| self.said().contains(part)))?;
        Ok(status)
    }

    /// Reads nothing more, and fills what the terminal holds until it is read.
    fn leave_unread(&self) -> Result<()> {
        self.unread.store(true, Ordering::Relaxed);
        // Opened anew: its other end would be one that does not wait, either.
        let path = format!("/proc/self/fd/{}", self.slave.as_raw_fd());
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let mut terminal = OpenOptions::new().write(true).custom_flags(flags).open(path)?;
        let mut full = 0;
        while full < 10 {
            match terminal.write(&[b' '; 256]) {
                Ok(_) => full = 0,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    full += 1;
                    thread::sleep(Duration::from_millis(20));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// A signal does not end it, since its terminal takes nothing; another one does, and the terminal's modes are restored.
    fn ends_with_the_second(&mut self) -> Result<ExitStatus> {
        kill(self.pid()?, Signal::SIGTERM)?;
        thread::sleep(Duration::from_secs(1));
        ensure!(self.child.try_wait()?.is_none(), "it waits for nothing");
        kill(self.pid()?, Signal::SIGTERM)?;
        wait_until("the end of top", || self.child.try_wait().is_ok_and(|status| status.is_some()))?;
        ensure!(self.cooked()?, "the terminal's modes were not restored");
        Ok(self.child.wait()?)
    }

    /// Seconds of a processor that it used so far (`proc_pid_stat(5)`: utime and stime, in ticks).
    fn seconds(&self) -> Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        let field =
            |number: usize| -> Result<u64> { Ok(fields.get(number - 3).context("a field")?.parse()?) };
        // SAFETY: no pointers.
        let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        Ok((field(14)? + field(15)?) as f64 / ticks as f64)
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn top_shows_live_servers_and_events() -> Result<()> {
    // Where another agent will listen, too.
    let directory = tempfile::tempdir()?;
    let socket = directory.path().join("control.sock");
    let (_kept, config) = configured(&format!("control: {{ socket: {} }}", socket.display()))?;
    let mut agent = Agent::start(&["--config", &config])?;
    let mut peer = Peer::start(Wiring::Pipes, &mut server("benign-server"))?;
    peer.ask(&initialize(0))?;
    peer.ask(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))?;
    let mut id = 2;
    let mut call = || -> Result<()> {
        peer.ask(&echo(id, "x"))?;
        id += 1;
        Ok(())
    };
    (0..7).try_for_each(|_| call())?;
    agent.wait_for("a call", |event| is(event, "mcp_tool_called") && event["jsonrpc_id"] == 8)?;

    // What was before is there, and what comes.
    let mut top = Top::start(&socket)?;
    top.shows("benign-server")?;
    ensure!(!top.cooked()?, "keys would be waited for by line");
    top.shows(" 7 ")?;
    (0..16).try_for_each(|_| call())?;
    top.shows("23")?;
    top.press("3")?;
    top.shows("LATENCY")?;
    top.press("1\r")?;
    top.shows("server benign-server")?;
    top.shows("tool     echo: 23 calls")?;

    // The tools are by name: the first is `add`. It is approved.
    top.shows("hash  ")?;
    top.press("a")?;
    top.shows("y/n  trust ")?;
    let asked = top.screen();
    top.press("y")?;
    let decided = |event: &serde_json::Value| {
        let hash = event["tool_hash"].as_str().unwrap_or("none");
        is(event, "mcp_approval_granted")
            && event["tool_name"] == "add"
            && event["server_id"] == "benign-server"
            && asked.contains(&format!("y/n  trust {hash} as"))
    };
    agent.wait_for("the approval", decided)?;
    top.shows("approved benign-server:add")?;

    // What it costs, with the list of calls, which changes with each.
    top.press("\u{1b}")?;
    thread::sleep(Duration::from_millis(300));
    top.press("3")?;
    for (name, every) in [("idle", None), ("busy", Some(MEASURED.1))] {
        let (before, drawn, began, mut calls) = (top.seconds()?, top.drawn(), Instant::now(), 0);
        while began.elapsed() < MEASURED.0 {
            if every.is_some() {
                call()?;
                calls += 1;
            }
            thread::sleep(every.unwrap_or(MEASURED.0));
        }
        let took = began.elapsed().as_secs_f64();
        let share = (top.seconds()? - before) / took * 100.0;
        let (calls, frames) = (f64::from(calls) / took, (top.drawn() - drawn) as f64 / took);
        println!("top, {name}: {calls:.0} calls/s, {frames:.1} drawings/s, {share:.1} % of a processor");
        if !is_emulated() {
            ensure!(share < FRAMES.1, "{name}: {share:.1} % of a processor");
            ensure!(every.is_none() || frames >= FRAMES.0, "{name}: {frames:.1} drawings a second");
        }
    }

    // Another size is drawn in; a small one, too.
    let size = libc::winsize { ws_row: 10, ws_col: 40, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the size is read only, and the descriptor is open.
    let outcome = unsafe { libc::ioctl(top.slave.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    ensure!(outcome == 0, "no other size");
    kill(top.pid()?, Signal::SIGWINCH)?;

    // An agent that ends is said to.
    agent.signal(Signal::SIGTERM)?;
    agent.wait_for_end()?;
    top.shows("no agent: ")?;
    // Another is found, with a database of its own.
    let agent = Agent::start(&["--config", &config])?;
    wait_until("another agent", || !top.screen().contains("no agent: ")).with_context(|| top.screen())?;
    top.press("q")?;
    ensure!(top.ends()?.code() == Some(0), "top ended badly");
    agent.stop()?;

    // So is one that was never there, at once; and who draws on no terminal is told what to use.
    let said = ask(&["top", "--socket", &socket.display().to_string()])?;
    let terminal = said.stderr.starts_with("mcpwarden: standard output is no terminal")
        && said.stderr.contains("mcpwarden status");
    ensure!(said.code == Some(2) && terminal && said.stderr.lines().count() == 1, "{said:?}");
    let mut top = Top::start(&socket)?;
    wait_until("its end", || top.child.try_wait().is_ok_and(|status| status.is_some()))?;
    ensure!(top.child.wait()?.code() == Some(2), "{}", top.said());
    wait_until("one line", || top.said().ends_with('\n'))?;
    let said = top.said();
    let line = said.starts_with("mcpwarden: no agent runs that listens at ") && said.lines().count() == 1;
    ensure!(line, "{said:?}");
    let said = ends(&mut mcpwarden(&["top", "files"]))?;
    ensure!(said.code == Some(2) && said.stderr.contains("unexpected argument"), "{said:?}");
    Ok(())
}

#[test]
fn signal_restores_the_terminal() -> Result<()> {
    let agent = Agent::start(&[])?;
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let mut top = Top::start(&agent.directory().join("run/control.sock"))?;
        top.shows("1 servers  2 sessions")?;
        kill(top.pid()?, signal)?;
        ensure!(top.ends()?.code() == Some(0), "{signal}: {}", top.said());
    }
    agent.stop()?;
    Ok(())
}

#[test]
fn second_signal_ends_top_on_a_blocked_terminal() -> Result<()> {
    let agent = Agent::start(&[])?;
    let socket = agent.directory().join("run/control.sock");
    // Its output is stopped, as by Ctrl-S: that is undone, and it ends as ever.
    let mut top = Top::start(&socket)?;
    top.shows("1 servers  2 sessions")?;
    tcflow(&top.slave, FlowArg::TCOOFF)?;
    let status = top.ends_with_the_second()?;
    ensure!([Some(0), Some(128 + 15)].contains(&status.code()), "{status}");
    wait_until("the screen of before", || RESTORED.iter().all(|part| top.said().contains(part)))?;
    // Nobody reads it.
    let mut top = Top::start(&socket)?;
    top.shows("1 servers  2 sessions")?;
    top.leave_unread()?;
    let status = top.ends_with_the_second()?;
    ensure!(status.code() == Some(128 + 15), "{status}");
    agent.stop()?;
    Ok(())
}
