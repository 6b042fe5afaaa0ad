//! What outlives the agent (`enforcement.persist`): its links, pinned in the BPF file system.
//!
//! Each agent pins into a directory of its own, so that the one that comes next is attached before anything of the one
//! before it is let go: there is no moment at which nobody judges. A pinned link keeps its program attached, and that its
//! tables, whatever becomes of who made them.

use std::{
    fs, io,
    os::{fd::AsFd as _, unix::fs::DirBuilderExt as _},
    path::{Path, PathBuf},
};

use aya::{
    Ebpf,
    maps::{Map, MapData, PerCpuArray, RingBuf},
    programs::links::{FdLink, PinnedLink},
};
use mcpwarden_abi::{Counter, RecordHeader};
use mcpwarden_policy::hash::bytes_hash;
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};

use super::brief;
use crate::{
    capture::record::read,
    clock::boot_ns,
    instance::{self, InstanceError},
};

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

/// What an agent before left attached, and was let go.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Programs that were still attached.
    pub programs: u64,
    /// Records that they wrote before a given time, or had no room for, and that nobody read. What that agent said to be lost
    /// is in it.
    pub unread_records: u64,
}

impl Pins {
    /// Those of agents with this runtime directory, which is there: several can run on one host.
    pub fn of(runtime_dir: &Path) -> Self {
        // However it is written, its lock is the same.
        let directory = fs::canonicalize(runtime_dir).unwrap_or_else(|_| runtime_dir.to_owned());
        let name = if directory == Path::new(USUAL) {
            "mcpwarden".to_owned()
        } else {
            let hash = bytes_hash(directory.as_os_str().as_encoded_bytes());
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

    /// Pins this of an attached object: from now on it outlives this agent.
    ///
    /// # Errors
    /// One cannot be pinned: none is then.
    pub(super) fn keep(&self, what: ToKeep) -> Result<Kept, PinsError> {
        // Process ids come again.
        let own = self.root.join(format!("{}-{}", std::process::id(), boot_ns()));
        let result = pin_all(&own, what);
        if result.is_err() {
            // What is wrong is said; the next agent removes what is left.
            let _ = remove(&own);
        }
        Ok(Kept { _links: result?, own: Some(own) })
    }

    /// Detaches what agents before left attached. Records of `since_ns` (boot time) and later have been read elsewhere.
    ///
    /// # Errors
    /// Something cannot be removed, or may not be trusted: its programs stay attached. Everything else is let go.
    pub fn release(&self, own: &Kept, since_ns: u64) -> Result<Left, PinsError> {
        let mut left = Left::default();
        let mut failed = None;
        for directory in self.others(own)? {
            let programs = programs(&directory);
            let tables = Tables::open(&directory);
            match remove(&directory) {
                // The kernel frees links a moment later; what is written until then has been read elsewhere. Tables stay as long
                // as they are open.
                Ok(()) => {
                    left.programs += programs;
                    left.unread_records += tables.unread(since_ns);
                }
                Err(error) => failed = Some(error),
            }
        }
        // With what the agent that runs keeps in it, it stays.
        let _ = fs::remove_dir(&self.root);
        failed.map_or(Ok(left), Err)
    }

    /// Directories of agents before.
    fn others(&self, own: &Kept) -> Result<Vec<PathBuf>, PinsError> {
        let found = match fs::symlink_metadata(&self.root) {
            Ok(metadata) => {
                instance::check(self.root.clone(), &metadata)?;
                fs::read_dir(&self.root).map_err(refused("read", &self.root))?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(refused("read", &self.root)(error)),
        };
        let paths = found.filter_map(|entry| Some(entry.ok()?.path()));
        Ok(paths.filter(|path| Some(path) != own.own.as_ref()).collect())
    }
}

/// What is to outlive an agent, until it is pinned.
pub(super) struct ToKeep {
    /// By program.
    links: Vec<(&'static str, FdLink)>,
    tables: Vec<(&'static str, MapData)>,
}

impl ToKeep {
    /// These links of an object, and of its tables, which are all still in it, those that are pinned.
    pub(super) fn of(ebpf: &Ebpf, links: Vec<(&'static str, FdLink)>) -> Self {
        let again = |name| match ebpf.map(name)? {
            Map::RingBuf(data) | Map::PerCpuArray(data) => {
                // Where there is no descriptor left, the next agent has no number to say.
                Some((name, MapData::from_fd(data.fd().as_fd().try_clone_to_owned().ok()?).ok()?))
            }
            _ => None,
        };
        Self { tables: TABLES.into_iter().filter_map(again).collect(), links }
    }
}

fn pin_all(own: &Path, what: ToKeep) -> Result<Vec<PinnedLink>, PinsError> {
    fs::DirBuilder::new().mode(0o700).create(own).map_err(refused("make", own))?;
    let fail = |path: &Path, error: aya::pin::PinError| PinsError::Refused {
        action: "pin",
        path: path.to_owned(),
        reason: brief(&error),
    };
    for (name, table) in what.tables {
        let path = own.join(name);
        table.pin(&path).map_err(|error| fail(&path, error))?;
    }
    let pin = |(program, link): (&'static str, FdLink)| {
        let path = own.join(program);
        link.pin(&path).map_err(|error| fail(&path, error))
    };
    what.links.into_iter().map(pin).collect()
}

/// What this agent pinned.
#[derive(Default)]
pub struct Kept {
    own: Option<PathBuf>,
    /// Held, too: whoever removes the pins, this agent's programs stay attached while it runs.
    _links: Vec<PinnedLink>,
}

/// How many links an agent pinned.
fn programs(directory: &Path) -> u64 {
    let Ok(found) = fs::read_dir(directory) else { return 0 };
    let is_link = |entry: &fs::DirEntry| TABLES.iter().all(|table| entry.file_name() != *table);
    found.filter_map(Result::ok).filter(is_link).count() as u64
}

/// Removes what an agent pinned. What is not there is as good as removed.
fn remove(directory: &Path) -> Result<(), PinsError> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(refused("remove", directory)(error)),
        _ => Ok(()),
    }
}

/// The tables that an agent left, for what they say of the time in which nobody read them. `None`: one cannot be opened.
struct Tables {
    ring: Option<RingBuf<MapData>>,
    counters: Option<PerCpuArray<MapData, u64>>,
}

impl Tables {
    fn open(directory: &Path) -> Self {
        let open = |name: &str| MapData::from_pin(directory.join(name)).ok();
        Self {
            ring: open("RING").and_then(|map| RingBuf::try_from(Map::RingBuf(map)).ok()),
            counters: open("COUNTERS").and_then(|map| PerCpuArray::try_from(Map::PerCpuArray(map)).ok()),
        }
    }

    /// Takes the records out, and counts those of before `since_ns` and what found no room.
    fn unread(self, since_ns: u64) -> u64 {
        let mut records = 0;
        if let Some(mut ring) = self.ring {
            while let Some(record) = ring.next() {
                let header = read::<RecordHeader>(&record);
                records += u64::from(header.is_none_or(|header| header.time_ns < since_ns));
            }
        }
        let counters = [Counter::RingFullRecords, Counter::RingFullFacts, Counter::ConnectsUntold];
        let refused = counters.map(|counter| {
            let values = self.counters.as_ref().and_then(|counters| counters.get(&(counter as u32), 0).ok());
            values.map_or(0, |values| values.iter().sum())
        });
        records + refused.iter().sum::<u64>()
    }
}
