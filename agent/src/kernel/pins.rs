//! What outlives the agent (`enforcement.persist`): its links, pinned in the BPF file system.
//!
//! Each agent pins into a directory of its own, so that the one that comes next is attached before anything of the one
//! before it is let go: there is no moment at which nobody judges. A pinned link keeps its program attached, and that its
//! tables, whatever becomes of who made them.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use aya::{
    Ebpf,
    maps::{Map, MapData, PerCpuArray, RingBuf},
    programs::links::FdLink,
};
use mcpwarden_abi::Counter;
use mcpwarden_policy::hash::bytes_hash;
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};

use super::brief;
use crate::instance::{self, InstanceError};

/// Where systemd mounts it.
const BPF_FS: &str = "/sys/fs/bpf";
/// The runtime directory of the service.
const USUAL: &str = "/run/mcpwarden";
/// Tables that are pinned with the links, for what they say of the time in which nobody read them. No dots: the file
/// system refuses those.
const TABLES: [&str; 2] = ["RING", "COUNTERS"];

/// What can go wrong with what is to outlive the agent.
#[derive(Debug, thiserror::Error)]
pub enum PinsError {
    /// There is no BPF file system.
    #[error("{BPF_FS} is no BPF file system; mount it (`mount -t bpf bpf {BPF_FS}`), or turn off {SETTING}")]
    NoFileSystem,
    /// Others could have put something there.
    #[error(transparent)]
    Unsafe(#[from] InstanceError),
    /// Something there cannot be made, or not be removed.
    #[error("cannot {action} {path}: {reason}")]
    Refused {
        /// `make`, `pin`, `read` or `remove`.
        action: &'static str,
        /// What.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// Which setting asks for this.
const SETTING: &str = "enforcement.persist";

fn refused(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> PinsError {
    let path = path.to_owned();
    move |error| PinsError::Refused { action, path, reason: error.to_string() }
}

/// What the agents of one runtime directory pinned.
#[derive(Clone, Debug)]
pub struct Pins {
    root: PathBuf,
}

/// What agents before left attached.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Programs that are still attached.
    pub programs: u64,
    /// Records that they wrote, or had no room for, and that nobody read. What that agent said to be lost is in it.
    pub unread_records: u64,
}

impl Pins {
    /// Those of agents with this runtime directory: several can run on one host.
    pub fn of(runtime_dir: &Path) -> Self {
        let name = if runtime_dir == Path::new(USUAL) {
            "mcpwarden".to_owned()
        } else {
            let hash = bytes_hash(runtime_dir.as_os_str().as_encoded_bytes());
            format!("mcpwarden-{}", &hash[..16])
        };
        Self { root: Path::new(BPF_FS).join(name) }
    }

    /// Makes the place where anything can be pinned.
    ///
    /// # Errors
    /// There is no BPF file system, or others may write to the directory in it: everybody may to that above it, where it was
    /// mounted by hand.
    pub fn prepare(&self) -> Result<(), PinsError> {
        if !statfs(BPF_FS).is_ok_and(|found| found.filesystem_type() == BPF_FS_MAGIC) {
            return Err(PinsError::NoFileSystem);
        }
        Ok(instance::make(&self.root)?)
    }

    /// Pins these links of an attached object.
    ///
    /// # Errors
    /// One cannot be pinned: none is then.
    pub(super) fn keep(&self, ebpf: &Ebpf, links: Vec<(&'static str, FdLink)>) -> Result<Kept, PinsError> {
        let own = self.root.join(std::process::id().to_string());
        let make = |path: &Path| fs::DirBuilder::new().mode(0o700).create(path);
        // Of an agent that had the same number.
        remove(&own)?;
        make(&own).map_err(refused("make", &own))?;
        let kept = Kept { own: Some(own.clone()), outlives: false };
        let pin = |path: &Path, result: Result<(), aya::pin::PinError>| {
            result.map_err(|error| PinsError::Refused {
                action: "pin",
                path: path.to_owned(),
                reason: brief(&error),
            })
        };
        for (program, link) in links {
            let path = own.join(program);
            pin(&path, link.pin(&path).map(drop))?;
        }
        for name in TABLES {
            let path = own.join(name);
            if let Some(map) = ebpf.map(name) {
                pin(&path, map.pin(&path))?;
            }
        }
        Ok(kept)
    }

    /// What agents before left attached.
    pub fn left(&self, own: &Kept) -> Left {
        // What is wrong there is said when it is to be removed.
        let others = self.others(own).unwrap_or_default();
        Left {
            programs: others.iter().map(|directory| programs(directory).len() as u64).sum(),
            unread_records: others.iter().map(|directory| unread(directory)).sum(),
        }
    }

    /// Detaches what agents before left attached, and says how many programs that were.
    ///
    /// # Errors
    /// Something cannot be removed, or may not be trusted: its programs stay attached.
    pub fn release(&self, own: &Kept) -> Result<u64, PinsError> {
        let mut released = 0;
        for directory in self.others(own)? {
            released += programs(&directory).len() as u64;
            remove(&directory)?;
        }
        // With what the agent that runs keeps in it, it stays.
        let _ = fs::remove_dir(&self.root);
        Ok(released)
    }

    /// Directories of agents before.
    fn others(&self, own: &Kept) -> Result<Vec<PathBuf>, PinsError> {
        let found = match fs::symlink_metadata(&self.root) {
            Ok(metadata) => {
                instance::check(self.root.clone(), &metadata)?;
                fs::read_dir(&self.root).map_err(refused("read", &self.root))?
            }
            Err(_) => return Ok(Vec::new()),
        };
        let paths = found.filter_map(|entry| Some(entry.ok()?.path()));
        Ok(paths.filter(|path| Some(path) != own.own.as_ref()).collect())
    }
}

/// What this agent pinned: unpinned with this, unless it was left to whoever comes next.
#[derive(Debug, Default)]
pub struct Kept {
    /// Its directory. `None`: it keeps nothing.
    own: Option<PathBuf>,
    outlives: bool,
}

impl Kept {
    /// From now on it outlives this agent, however that ends.
    pub fn leave(&mut self) {
        self.outlives = true;
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(own) = self.own.as_ref().filter(|_| !self.outlives) {
            // Nobody is left to hear of it; the next agent removes it.
            let _ = remove(own);
        }
    }
}

/// The pinned links of an agent.
fn programs(directory: &Path) -> Vec<PathBuf> {
    let Ok(found) = fs::read_dir(directory) else { return Vec::new() };
    let is_link = |path: &PathBuf| !TABLES.iter().any(|table| path.ends_with(table));
    found.filter_map(|entry| Some(entry.ok()?.path())).filter(is_link).collect()
}

/// Removes what an agent pinned. What is not there is as good as removed.
fn remove(directory: &Path) -> Result<(), PinsError> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(refused("remove", directory)(error)),
        _ => Ok(()),
    }
}

/// Takes the records out of the ring that an agent left, and adds what that had no room for. 0 where neither can be read.
fn unread(directory: &Path) -> u64 {
    let open = |name: &str| MapData::from_pin(directory.join(name)).ok();
    let ring = open("RING").and_then(|map| RingBuf::try_from(Map::RingBuf(map)).ok());
    let mut records = 0;
    if let Some(mut ring) = ring {
        // While its programs run it may be written to; it is not for long.
        while records < u64::from(u32::MAX) && ring.next().is_some() {
            records += 1;
        }
    }
    let counters =
        open("COUNTERS").and_then(|map| PerCpuArray::<_, u64>::try_from(Map::PerCpuArray(map)).ok());
    let refused =
        [Counter::RingFullRecords, Counter::RingFullFacts, Counter::ConnectsUntold].map(|counter| {
            let values = counters.as_ref().and_then(|counters| counters.get(&(counter as u32), 0).ok());
            values.map_or(0, |values| values.iter().sum())
        });
    records + refused.iter().sum::<u64>()
}
