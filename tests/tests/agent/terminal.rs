//! What is printed where: colours and readable lines on a terminal, JSON elsewhere.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::process::Stdio;

use anyhow::{Result, ensure};
use mcpwarden_tests::command::{attached, directory, run};
use mcpwarden_tests::peer::{Peer, initialize, server, wait_until};
use mcpwarden_tests::wiring::Wiring;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Both ends of a pseudoterminal.
fn pseudoterminal() -> Result<(OwnedFd, OwnedFd)> {
    let (mut master, mut slave) = (-1, -1);
    use std::ptr::{null, null_mut};
    // SAFETY: both descriptors are written to; the name, the settings and the size may be left out.
    let outcome = unsafe { libc::openpty(&mut master, &mut slave, null_mut(), null(), null()) };
    ensure!(outcome == 0, "no pseudoterminal: {}", std::io::Error::last_os_error());
    // SAFETY: both are open, and nobody else has them.
    Ok(unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) })
}

/// An agent on a pseudoterminal: what it printed about one server.
fn on_a_terminal(variables: &[(&str, &str)], args: &[&str]) -> Result<String> {
    let directory = directory()?;
    let (master, slave) = pseudoterminal()?;
    let mut command = run(directory.path(), args);
    command.stdout(Stdio::from(slave)).stderr(Stdio::null()).env_remove("NO_COLOR").env("TERM", "xterm");
    command.envs(variables.iter().copied());
    let mut child = command.spawn()?;
    // Otherwise the terminal would never end.
    drop(command);
    let reader = Reader::new(master);
    wait_until("the agent's first line", || reader.text().contains('\n'))?;
    let mut peer = Peer::start(Wiring::Pipes, &mut server("benign-server"))?;
    peer.ask(&initialize(0))?;
    wait_until("the server's line", || reader.text().contains(&peer.pid().to_string()))?;
    kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGTERM)?;
    ensure!(child.wait()?.success(), "the agent ended badly");
    peer.close()?;
    Ok(reader.text())
}

/// Collects what comes from a terminal.
struct Reader(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl Reader {
    fn new(master: OwnedFd) -> Self {
        let bytes = std::sync::Arc::default();
        let reader = Self(std::sync::Arc::clone(&bytes));
        std::thread::spawn(move || {
            let mut master = File::from(master);
            let mut buffer = [0; 4096];
            // EIO is how a terminal ends.
            while let Ok(length @ 1..) = master.read(&mut buffer) {
                if let Ok(mut bytes) = bytes.lock() {
                    bytes.extend_from_slice(buffer.get(..length).unwrap_or_default());
                }
            }
        });
        reader
    }

    fn text(&self) -> String {
        self.0.lock().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }
}

/// Name, variables, options, whether it is JSON, whether it is coloured.
#[test]
fn terminal_output_is_colored_lines() -> Result<()> {
    type Variables<'a> = &'a [(&'a str, &'a str)];
    // What the option says on a terminal is what it says elsewhere, below.
    let cases: [(&str, Variables<'_>, &[&str], bool, bool); 2] = [
        ("a terminal", &[], &[], false, true),
        ("NO_COLOR", &[("NO_COLOR", "1")], &["--output", "text"], false, false),
    ];
    for (name, variables, options, json, coloured) in cases {
        let text = on_a_terminal(variables, options)?;
        ensure!(text.contains('\u{1b}') == coloured, "{name}: {text}");
        let all_json = text.lines().all(|line| serde_json::from_str::<Value>(line.trim_end()).is_ok());
        ensure!(all_json == json, "{name}: {text}");
    }
    // Without a terminal.
    let directory = directory()?;
    for (options, json) in [(&[][..], true), (&["--output", "text"], false)] {
        let (mut child, mut stdout) = attached(run(directory.path(), options))?;
        kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGTERM)?;
        let mut rest = String::new();
        stdout.read_to_string(&mut rest)?;
        child.wait()?;
        let last = rest.lines().last().unwrap_or_default();
        ensure!(serde_json::from_str::<Value>(last).is_ok() == json, "{options:?}: {last}");
        ensure!(!rest.contains('\u{1b}'), "{options:?}: colours without a terminal");
    }
    Ok(())
}
