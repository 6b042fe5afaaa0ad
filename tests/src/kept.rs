//! What agents leave in the kernel (`enforcement.persist`).

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::Signal;
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};
use serde_json::Value;

use crate::agent::{Agent, is};
use crate::command::{CommandOutput, ask};

/// Where systemd mounts the BPF file system.
pub const BPF_FS: &str = "/sys/fs/bpf";

/// The BPF file system, as systemd mounts it; unmounted again where the test did it.
pub struct BpfFs {
    is_ours: bool,
}

impl BpfFs {
    /// It is there from now on.
    ///
    /// # Errors
    /// It cannot be mounted.
    pub fn there() -> Result<Self> {
        let is_there = statfs(BPF_FS).is_ok_and(|found| found.filesystem_type() == BPF_FS_MAGIC);
        if !is_there {
            mount(Some("bpf"), BPF_FS, Some("bpf"), MsFlags::empty(), None::<&str>)
                .context("cannot mount the BPF file system")?;
        }
        Ok(Self { is_ours: !is_there })
    }

    /// What agents left in it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn left(&self) -> Result<Vec<String>> {
        let names = fs::read_dir(BPF_FS)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let names: Vec<String> = names.collect::<Result<_>>()?;
        Ok(names.into_iter().filter(|name| name.starts_with("mcpwarden")).collect())
    }
}

impl Drop for BpfFs {
    fn drop(&mut self) {
        if self.is_ours {
            let _ = umount2(BPF_FS, MntFlags::MNT_DETACH);
        }
    }
}

/// `mcpwarden detach`, for agents of this place.
///
/// # Errors
/// It cannot be started.
pub fn detach(place: &Path) -> Result<CommandOutput> {
    ask(&["detach", "--runtime-dir", &place.join("run").display().to_string()])
}

/// The same, where something was left.
///
/// # Errors
/// It says anything else.
pub fn let_go(place: &Path) -> Result<()> {
    detach(place)?.expect("what is left", 0, "programs are detached")
}

/// What an agent says of the one before, when it starts; null where there was none.
///
/// # Errors
/// It does not say that it has started.
pub fn taken_over(agent: &Agent) -> Result<Value> {
    Ok(agent.wait_for("its start", |event| is(event, "agent_started"))?["taken_over"].clone())
}

/// Ends an agent, and what it left stays.
///
/// # Errors
/// It does not end.
pub fn end(mut agent: Agent, signal: Signal) -> Result<()> {
    match signal {
        Signal::SIGKILL => agent.kill(),
        signal => {
            agent.signal(signal)?;
            agent.wait_for_end()
        }
    }
}
