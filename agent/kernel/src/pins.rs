//! What outlives the agent (`enforcement.persist`): its links and tables, pinned in the BPF file system.
//!
//! A pinned link keeps its program attached, and that its tables, whatever becomes of who made them. An agent of the same
//! build and configuration goes on with them (`Pins::same`): what was written into the ring meanwhile it reads. Any other
//! pins into a directory of its own, so that it is attached before anything of the one before it is let go: there is no
//! moment at which nobody judges.

use std::{
    fs, io,
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::fs::DirBuilderExt as _,
    },
    path::{Path, PathBuf},
};

use aya::{
    Ebpf,
    maps::{Map, MapData, PerCpuArray, RingBuf},
};
use mcpwarden_abi::record::read;
use mcpwarden_abi::{Counter, RECORD_DATA, RecordHeader};
use mcpwarden_policy::hash::bytes_hash;
use mcpwarden_system::instance::{self, InstanceError};
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};

use super::{
    brief::brief,
    hooks::{Hook, Links},
    maps::data_of,
    object::{Link, Object},
    sys,
};
use mcpwarden_system::boot::boot_ns;

/// Where systemd mounts it.
const BPF_FS: &str = "/sys/fs/bpf";
/// The runtime directory of the service.
const USUAL: &str = "/run/mcpwarden";
/// What an agent's directory holds: its links and its programs by program, its tables by name, and when these are whole, a
/// mark.
const LINKS: &str = "links";
const PROGRAMS: &str = "programs";
const TABLES: &str = "tables";
const WHOLE: &str = "whole";
/// How much of a hash names have. Characters.
const HASH: usize = 16;
/// There while an agent that goes on with another's programs has not yet shown that it lives.
const TRIED: &str = "tried";

/// What can go wrong with what is to outlive the agent.
#[derive(Debug, thiserror::Error)]
pub enum PinsError {
    /// There is no BPF file system.
    #[error(
        "{BPF_FS} is not a BPF file system; mount it (`mount -t bpf bpf {BPF_FS}`), or turn off {SETTING}"
    )]
    NoFileSystem,
    /// Others could have put something there.
    #[error(transparent)]
    Unsafe(#[from] InstanceError),
    /// Something there cannot be made, or not be removed.
    #[error("cannot {action} {path}: {reason}")]
    Refused {
        /// `make`, `pin`, `read`, `rename` or `remove`.
        action: &'static str,
        /// What.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl PinsError {
    /// What an agent left is not all there any more.
    pub(super) fn incomplete(path: PathBuf) -> Self {
        Self::Refused { action: "read", path, reason: "tables are missing in it".to_owned() }
    }
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

/// What an agent before left attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Programs that were still attached.
    pub programs: u64,
    /// Whether the agent that runs goes on with them; else they were let go.
    pub is_resumed: bool,
    /// What nobody reads of what they wrote.
    pub unread: Unread,
}

/// What programs wrote before a given time, or had no room for, and nobody read. What the agent that they were of said to be
/// lost is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// Of all kinds.
    pub records: u64,
    /// Bytes of streams in them.
    pub bytes: u64,
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
    pub(super) fn keep(&self, what: ToKeep, object: &mut Object) -> Result<Kept, PinsError> {
        // Process ids come again.
        let own = self.root.join(format!("{}-{}-{}", std::process::id(), boot_ns(), what.build));
        let result = pin_all(&own, what, object);
        if result.is_err() {
            // What is wrong is said; the next agent removes what is left.
            let _ = remove(&own);
        }
        Ok(Kept { links: result?, own: Some(own), ..Kept::default() })
    }

    /// What an agent of the same `build` left, if it is whole and the last that went on with it lived.
    pub(super) fn same(&self, build: &str) -> Option<PathBuf> {
        let is_same = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.and_then(|name| name.rsplit('-').next()) == Some(build)
        };
        let usable = |path: &PathBuf| path.join(WHOLE).exists() && !path.join(TRIED).exists();
        self.others(&Kept::default()).ok()?.into_iter().find(|path| is_same(path) && usable(path))
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
                    let unread = tables.unread(since_ns);
                    left.unread.records += unread.records;
                    left.unread.bytes += unread.bytes;
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
    pub(super) links: Links,
    tables: Vec<(String, MapData)>,
    /// Which agents can go on with it.
    build: String,
}

impl ToKeep {
    /// The tables of an object, which are all still in it. `build`: which agents can go on with them.
    ///
    /// # Errors
    /// A table that cannot be opened once more.
    pub(super) fn of(ebpf: &Ebpf, build: String) -> Result<Self, PinsError> {
        let again = |name: &str, map: &Map| {
            let data = data_of(map).ok_or("of a kind that is not pinned")?;
            let fd = data.fd().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
            MapData::from_fd(fd).map(|data| (name.to_owned(), data)).map_err(|error| brief(&error))
        };
        let tables = kept_tables(ebpf).map(|(name, map)| {
            let refused = |reason| PinsError::Refused { action: "pin", path: name.into(), reason };
            again(name, map).map_err(refused)
        });
        Ok(Self { tables: tables.collect::<Result<_, _>>()?, links: Vec::new(), build })
    }
}

/// Constants have names with a dot, which the file system refuses; each agent brings its own.
pub(super) fn kept_tables(ebpf: &Ebpf) -> impl Iterator<Item = (&str, &Map)> {
    ebpf.maps().filter(|(name, _)| !name.contains('.'))
}

/// What of a hash is part of a name.
pub(super) fn short(hash: &str) -> &str {
    hash.get(..HASH).unwrap_or(hash)
}

/// By program: what stays attached.
type Held = Vec<(String, Link)>;

fn pin_all(own: &Path, what: ToKeep, object: &mut Object) -> Result<Held, PinsError> {
    let [tables, programs, links] = [TABLES, PROGRAMS, LINKS].map(|name| own.join(name));
    [own, &tables, &programs, &links].into_iter().try_for_each(make)?;
    for (name, table) in what.tables {
        let path = tables.join(name);
        table.pin(&path).map_err(|error| unpinned(&path, brief(&error)))?;
    }
    let links = pin_links(own, what.links, object)?;
    make(&own.join(WHOLE))?;
    Ok(links)
}

fn pin_links(own: &Path, links: Links, object: &mut Object) -> Result<Held, PinsError> {
    let pin = |(name, link): (&'static str, Link)| {
        let path = own.join(PROGRAMS).join(name);
        object.pin(name, &path).map_err(|reason| unpinned(&path, reason))?;
        let path = own.join(LINKS).join(name);
        let link = link.pin(&path).map_err(|reason| unpinned(&path, reason))?;
        Ok((name.to_owned(), link))
    };
    links.into_iter().map(pin).collect()
}

fn unpinned(path: &Path, reason: String) -> PinsError {
    PinsError::Refused { action: "pin", path: path.to_owned(), reason }
}

/// What is not pinned is as good as unpinned.
fn unpin(own: &Path, name: &str) {
    for part in [LINKS, PROGRAMS] {
        let _ = fs::remove_file(own.join(part).join(name));
    }
}

fn make(path: &Path) -> Result<(), PinsError> {
    fs::DirBuilder::new().mode(0o700).create(path).map_err(refused("make", path))
}

/// What this agent pinned, or goes on with.
#[derive(Default)]
pub struct Kept {
    own: Option<PathBuf>,
    /// It goes on with another's, and has not yet shown that it lives.
    is_tried: bool,
    /// Held, too: whoever removes the pins, this agent's programs stay attached while it runs.
    links: Held,
    /// Those of an agent before; its own are in its object.
    programs: Vec<(String, OwnedFd)>,
}

impl Kept {
    /// What an agent before pinned, to go on with: with the names of its programs.
    ///
    /// # Errors
    /// Something there cannot be opened.
    pub(super) fn again(own: PathBuf) -> Result<(Self, Vec<String>), PinsError> {
        make(&own.join(TRIED))?;
        let (mut links, mut programs, mut names) = (Vec::new(), Vec::new(), Vec::new());
        let path = own.join(LINKS);
        for entry in fs::read_dir(&path).map_err(refused("read", &path))? {
            let entry = entry.map_err(refused("read", &path))?;
            let link = sys::open(&entry.path()).map_err(refused("read", &entry.path()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            links.push((name.clone(), Link::Own(link)));
            let program = sys::open(&own.join(PROGRAMS).join(&name));
            programs.push((name.clone(), program.map_err(refused("read", &entry.path()))?));
            names.push(name);
        }
        Ok((Self { own: Some(own), is_tried: true, links, programs }, names))
    }

    /// The programs that another agent loaded, by name.
    pub(super) fn programs(&self) -> impl Iterator<Item = (&str, BorrowedFd<'_>)> {
        self.programs.iter().map(|(name, program)| (name.as_str(), program.as_fd()))
    }

    /// Whether all these programs stay attached.
    pub(super) fn has(&self, hooks: &[Hook]) -> bool {
        hooks.iter().all(|hook| self.links.iter().any(|(name, _)| name == hook.program()))
    }

    /// From now on these links outlive the agent, too, where anything does.
    ///
    /// # Errors
    /// One cannot be pinned: none of them stays.
    pub(super) fn add(&mut self, links: Links, object: &mut Object) -> Result<(), PinsError> {
        let Some(own) = &self.own else { return Ok(()) };
        let names: Vec<&str> = links.iter().map(|(name, _)| *name).collect();
        match pin_links(own, links, object) {
            Ok(pinned) => self.links.extend(pinned),
            Err(error) => {
                names.into_iter().for_each(|name| unpin(own, name));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Lets go what stays attached of these, if it does.
    pub(super) fn detach(&mut self, hooks: &[Hook]) {
        let Some(own) = &self.own else { return };
        let is_one = |name: &str| hooks.iter().any(|hook| hook.program() == name);
        hooks.iter().for_each(|hook| unpin(own, hook.program()));
        self.links.retain(|(name, _)| !is_one(name));
        self.programs.retain(|(name, _)| !is_one(name));
    }

    /// Whether anything outlives the agent.
    pub(super) fn is_kept(&self) -> bool {
        self.own.is_some()
    }

    /// Says of which configuration all this is, by its hash; `None`: of none that an agent could start with.
    ///
    /// # Errors
    /// The file system refuses: no agent goes on with it.
    pub(super) fn now_keeps(&mut self, config: Option<&str>) -> Result<(), PinsError> {
        let Some(own) = &mut self.own else { return Ok(()) };
        let whole = own.join(WHOLE);
        // Not there: as good as removed.
        let _ = fs::remove_dir(&whole);
        let (Some(config), Some(name)) = (config, own.file_name().and_then(|name| name.to_str())) else {
            return Ok(());
        };
        let name =
            format!("{}{}", name.get(..name.len().saturating_sub(HASH)).unwrap_or(name), short(config));
        let renamed = own.with_file_name(name);
        if renamed != *own {
            fs::rename(&*own, &renamed).map_err(refused("rename", own))?;
            *own = renamed;
        }
        make(&own.join(WHOLE))
    }

    /// The agent lives, or ends as it should: the next may go on with what it had.
    pub(super) fn proven(&mut self) {
        if let (Some(own), true) = (&self.own, std::mem::take(&mut self.is_tried)) {
            // Where it stays, the next attaches its own.
            let _ = fs::remove_dir(own.join(TRIED));
        }
    }
}

/// The names of an agent's tables, and where they are pinned.
pub(super) fn tables(directory: &Path) -> Vec<(String, PathBuf)> {
    let Ok(found) = fs::read_dir(directory.join(TABLES)) else { return Vec::new() };
    let paths = found.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), path))).collect()
}

/// How many links an agent pinned.
fn programs(directory: &Path) -> u64 {
    fs::read_dir(directory.join(LINKS)).map_or(0, |found| found.filter_map(Result::ok).count() as u64)
}

/// Removes what an agent pinned. What is not there is as good as removed.
fn remove(directory: &Path) -> Result<(), PinsError> {
    // First: nobody goes on with a part.
    let _ = fs::remove_dir(directory.join(WHOLE));
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
        let open = |name: &str| MapData::from_pin(directory.join(TABLES).join(name)).ok();
        Self {
            ring: open("RING").and_then(|map| RingBuf::try_from(Map::RingBuf(map)).ok()),
            counters: open("COUNTERS").and_then(|map| PerCpuArray::try_from(Map::PerCpuArray(map)).ok()),
        }
    }

    /// Takes the records out, and counts those of before `since_ns` and what found no room.
    fn unread(self, since_ns: u64) -> Unread {
        let mut unread = self.counters.as_ref().map(refused_records).unwrap_or_default();
        if let Some(mut ring) = self.ring {
            while let Some(record) = ring.next() {
                let header = read::<RecordHeader>(&record);
                if header.is_none_or(|header| header.time_ns < since_ns) {
                    let data = header.filter(|header| header.kind == RECORD_DATA);
                    unread.records += 1;
                    unread.bytes += data.map_or(0, |header| u64::from(header.length));
                }
            }
        }
        unread
    }
}

/// What found no room, as these counters say.
pub(super) fn refused_records(counters: &PerCpuArray<MapData, u64>) -> Unread {
    let sum =
        |counter: Counter| counters.get(&(counter as u32), 0).map_or(0, |values| values.iter().sum::<u64>());
    let records = [Counter::RingFullRecords, Counter::RingFullFacts, Counter::ConnectsUntold];
    Unread { records: records.map(sum).iter().sum(), bytes: sum(Counter::RingFullBytes) }
}
