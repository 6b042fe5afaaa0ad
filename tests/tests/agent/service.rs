//! The agent as a service: what it tells whoever started it, as sd_notify(3) says.

use std::fs;
use std::os::unix::net::UnixDatagram;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, EVENT_TIMEOUT};
use nix::sys::signal::Signal;
use tempfile::TempDir;

/// A service manager that waits for its service.
struct Manager {
    directory: TempDir,
    socket: UnixDatagram,
}

impl Manager {
    fn new() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let socket = UnixDatagram::bind(directory.path().join("notify"))?;
        socket.set_read_timeout(Some(EVENT_TIMEOUT))?;
        Ok(Self { directory, socket })
    }

    /// Starts an agent under a watchdog that is fed at every drain.
    fn start(&self, args: &[&str]) -> Result<Agent> {
        let path = self.directory.path().join("notify").display().to_string();
        Agent::start_in(&[("NOTIFY_SOCKET", &path), ("WATCHDOG_USEC", "2")], args)
    }

    /// What it is told next.
    fn hear(&self) -> Result<String> {
        let mut buffer = [0; 4096];
        let length = self.socket.recv(&mut buffer).context("the manager is told nothing more")?;
        Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
    }

    /// What it is told next that is no beat.
    fn hear_word(&self) -> Result<String> {
        loop {
            let word = self.hear()?;
            if word != "WATCHDOG=1" {
                return Ok(word);
            }
        }
    }

    /// That it is told of a reload, and gives what is said when that is over.
    fn hear_reload(&self) -> Result<String> {
        let word = self.hear_word()?;
        ensure!(word.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{word}");
        self.hear_word()
    }
}

#[test]
fn service_manager_is_notified_of_agent_state() -> Result<()> {
    let manager = Manager::new()?;
    let path = manager.directory.path().join("x.yaml");
    fs::write(&path, "")?;
    let agent = manager.start(&["--config", &path.display().to_string()])?;
    ensure!(manager.hear_word()? == "READY=1\nSTATUS=watching", "the first word");
    // Nothing happens, and the ring is drained: now and then.
    for _ in 0..3 {
        ensure!(manager.hear()? == "WATCHDOG=1", "beats");
    }

    agent.signal(Signal::SIGHUP)?;
    ensure!(manager.hear_reload()? == "READY=1\nSTATUS=watching", "after a reload");
    fs::write(&path, "unknown: 1\n")?;
    let said = manager.hear_reload()?;
    let still = "READY=1\nSTATUS=watching; the previous configuration stays in force: ";
    ensure!(said.starts_with(still) && said.contains("unknown"), "{said}");

    agent.stop()?;
    ensure!(manager.hear_word()? == "STOPPING=1\nSTATUS=ending: SIGTERM", "the last word");
    Ok(())
}

#[test]
fn reload_signal_without_config_file_is_answered() -> Result<()> {
    let manager = Manager::new()?;
    let agent = manager.start(&[])?;
    manager.hear_word()?;
    agent.signal(Signal::SIGHUP)?;
    ensure!(manager.hear_reload()? == "READY=1\nSTATUS=watching", "nothing was reloaded");
    agent.stop()?;
    Ok(())
}
