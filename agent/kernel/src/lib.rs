//! The kernel half as the agent holds it: probe, load, attach, tables, counters.

pub mod addresses;
mod backend;
mod brief;
pub mod btf;
mod bytecode;
mod channels;
pub mod fd_scan;
pub mod fill;
mod fire;
mod gate;
pub mod hooks;
pub mod layout;
mod log;
mod maps;
mod members;
mod modify_return;
mod object;
pub mod pins;
mod relocated;
pub mod requirements;
mod resume;
mod ring;
mod sockets;
#[cfg(test)]
mod stack;
mod stats;
mod sys;
mod table;
mod tls;
mod uprobe;

use std::{
    collections::{self, HashSet},
    fmt::Display,
    fs::File,
    io::{self, Read as _},
    path::Path,
    sync::Arc,
};

use aya::{
    maps::{HashMap, MapData, MapError, PerCpuArray},
    programs::{Iter, Program},
};
use mcpwarden_abi as abi;
use mcpwarden_system::boot::boot_ns;

pub use self::log::Messages;
use self::{
    addresses::Addresses,
    backend::{Attached, Loaded},
    brief::brief,
    channels::{keys, prune_one, remove_roles},
    hooks::{Scan, program},
    maps::take,
    members::Members,
    object::Object,
    pins::{Kept, Left, Pins, PinsError, ToKeep},
    resume::Resumed,
    sockets::Sockets,
    stats::Walked,
    table::Table,
};
pub use backend::{Backend, Report};
pub use gate::{Gate, GateLeft};
pub use hooks::Way;
pub use resume::Met;
pub use ring::Ring;
pub use stats::{MOST_STEPS, ProgramStats};
pub use tls::{TlsFunction, TlsProbes, TlsPrograms, TlsReturn};

/// Where the kernel keeps its types.
pub const BTF_PATH: &str = "/sys/kernel/btf/vmlinux";

/// What can go wrong with the kernel half.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The types of the running kernel cannot be read or lack a field.
    #[error(transparent)]
    Btf(#[from] btf::BtfError),
    /// aya cannot read the kernel's types.
    #[error("cannot parse {BTF_PATH}: {0}")]
    AyaBtf(#[from] aya::BtfError),
    /// The object cannot be loaded.
    #[error("cannot load the kernel half: {}", brief(.0))]
    Load(#[from] aya::EbpfError),
    /// A program cannot be loaded or attached.
    #[error("cannot {action} {hook}: {reason}")]
    Hook {
        /// `load`, `attach` or `keep`.
        action: &'static str,
        /// Which program.
        hook: String,
        /// Why, as the kernel says.
        reason: String,
    },
    /// A backend that was asked for by name does not work here.
    #[error("cannot use the backend {0} on this kernel: {1}; `auto` selects the best that works")]
    Backend(&'static str, String),
    /// What is to outlive the agent cannot be kept.
    #[error(transparent)]
    Pins(#[from] PinsError),
    /// A table is missing or refuses.
    #[error("cannot use the kernel table {name}: {source}")]
    Map {
        /// Which.
        name: &'static str,
        /// Why.
        source: MapError,
    },
    /// The object does not hold what this agent was built with.
    #[error("the kernel half lacks {0}: this build of mcpwarden is broken")]
    Missing(String),
}

/// How the kernel half is to run.
pub struct Setup<'a> {
    /// That backend or none; else the best that works here.
    pub backend: Option<Backend>,
    /// Size of the ring: a power of two, at least a page.
    pub ring_bytes: u32,
    /// The hooks that judge connections are for processes in this cgroup.
    pub cgroup: &'a Path,
    /// It outlives the agent from [`Kernel::take_over`] on: where it is kept, and the hash of what is configured.
    pub keep: Option<(&'a Pins, &'a str)>,
}

impl Setup<'_> {
    /// See [`backend::build`]; and of what configuration.
    fn build(&self) -> String {
        let config = self.keep.map_or("", |(_, config)| config);
        let build = backend::build(self.backend, self.ring_bytes, self.cgroup);
        format!("{build}{}", pins::short(config))
    }
}

/// An attached kernel half. Dropping it detaches everything, but what is kept.
pub struct Kernel {
    // The programs' links live in here, and in what is kept.
    ebpf: Object,
    to_keep: Option<ToKeep>,
    kept: Kept,
    resumed: Option<Resumed>,
    /// Why it does not go on with what an agent of the same build left.
    unusable: Option<String>,
    /// When everything was attached; nanoseconds since boot.
    attached_ns: u64,
    connections: HashMap<MapData, u64, abi::Connection>,
    sockets: Sockets,
    confirmed: HashMap<MapData, u64, u32>,
    channels: Table<abi::ChannelKey, abi::Channel>,
    processes: Table<u32, u64>,
    counters: PerCpuArray<MapData, u64>,
    shares: HashMap<MapData, u32, abi::Share>,
    members: Members,
    addresses: Addresses,
    gate: Gate,
    tls: Arc<TlsPrograms>,
    /// Servers without a connection or a process, when they were last looked for.
    unclaimed: HashSet<u64>,
    confirms_refused: u64,
    walked: Walked,
    backend: Backend,
    attached: Vec<String>,
    blind_spots: Vec<String>,
}

/// Reads a scan that says nothing to its end.
fn drive(mut file: File) -> io::Result<()> {
    let mut nothing = [0; 8];
    loop {
        match file.read(&mut nothing) {
            Ok(0) => return Ok(()),
            // A million descriptors are scanned, and there are more (`bpf_seq_read`).
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(_) => {}
            Err(error) => return Err(error),
        }
    }
}

impl Kernel {
    /// Goes on with what an agent of the same build and configuration left; where there is none, loads and attaches.
    /// `prepare` is given the rules for addresses before anything is attached: there is no moment without them.
    pub fn attach<E: From<KernelError> + Display>(
        setup: &Setup<'_>,
        mut prepare: impl FnMut(&mut Addresses) -> Result<(), E>,
    ) -> Result<Self, E> {
        let unusable = match Self::resume(setup, &mut prepare) {
            Some(Ok(resumed)) => return Ok(resumed),
            Some(Err(error)) => Some(error.to_string()),
            None => None,
        };
        let mut loaded = Loaded::new(setup.ring_bytes, &[])?;
        let to_keep = setup.keep.map(|_| ToKeep::of(&loaded.ebpf, setup.build())).transpose();
        let mut to_keep = to_keep.map_err(KernelError::from)?;
        let mut addresses = Addresses::take(&mut loaded.ebpf)?;
        prepare(&mut addresses)?;
        let mut attached = loaded.attach(setup.backend, setup.cgroup, setup.keep.is_some())?;
        if let Some(to_keep) = &mut to_keep {
            to_keep.links = std::mem::take(&mut attached.links);
        }
        let kernel = Self::of(attached, addresses)?;
        Ok(Self { to_keep, unusable, ..kernel })
    }

    /// What is attached, with its tables.
    fn of(attached: Attached, addresses: Addresses) -> Result<Self, KernelError> {
        let Attached { mut ebpf, links: _, backend, places, blind_spots, gate } = attached;
        let walked = Walked::of(&ebpf);
        let tls = TlsPrograms::of(ebpf.tables(), gate.is_ok());
        Ok(Self {
            walked,
            tls: Arc::new(tls),
            connections: take(&mut ebpf, "CONNECTIONS")?,
            sockets: Sockets::take(&mut ebpf)?,
            confirmed: take(&mut ebpf, "CONFIRMED")?,
            channels: take(&mut ebpf, "CHANNELS")?,
            processes: take(&mut ebpf, "PROCESSES")?,
            counters: take(&mut ebpf, "COUNTERS")?,
            shares: take(&mut ebpf, "SHARES")?,
            members: Members::take(&mut ebpf)?,
            gate: Gate::take(&mut ebpf, gate)?,
            addresses,
            unclaimed: HashSet::new(),
            confirms_refused: 0,
            backend,
            attached: places,
            blind_spots,
            ebpf,
            to_keep: None,
            kept: Kept::default(),
            resumed: None,
            unusable: None,
            attached_ns: boot_ns(),
        })
    }

    /// Tries every hook, for `doctor`. `no_probes`: why functions of programs must not be probed here.
    pub fn probe(cgroup: &Path, no_probes: Option<String>) -> Result<Report, KernelError> {
        Ok(Loaded::new(4096, &[])?.probe(cgroup, no_probes))
    }

    /// All is judged by this one: pins what is to outlive it, and lets go what agents before left attached, unless it goes
    /// on with that.
    ///
    /// # Errors
    /// Something cannot be pinned: nothing is let go. What cannot be let go is said beside what was.
    pub fn take_over(&mut self, pins: &Pins) -> Result<(Left, Option<PinsError>), PinsError> {
        if let Some(what) = self.to_keep.take() {
            self.kept = pins.keep(what, &mut self.ebpf)?;
        }
        let (left, error) = match pins.release(&self.kept, self.attached_ns) {
            Ok(left) => (left, None),
            Err(error) => (Left::default(), Some(error)),
        };
        Ok((self.resumed.as_ref().map_or(left, |resumed| resumed.left), error))
    }

    /// Why it does not go on with what an agent of the same build and configuration left.
    pub fn unusable(&self) -> Option<&str> {
        self.unusable.as_deref()
    }

    /// Whether what captures and judges outlives the agent.
    pub fn is_kept(&self) -> bool {
        self.kept.is_kept()
    }

    /// The agent lives, or ends as it should: the next may go on with what it had.
    pub fn proven(&mut self) {
        self.kept.proven();
    }

    /// Goes by another configuration from now on, of which this is the hash: an agent that starts with it may go on with what is
    /// kept. `None`: no agent may.
    pub fn now_keeps(&mut self, config: Option<&str>) {
        if let Err(error) = self.kept.now_keeps(config) {
            tracing::error!(
                "cannot record what the next agent may resume: {error}; the next agent attaches its own programs"
            );
        }
    }

    /// The ring, once.
    pub fn ring(&mut self) -> Result<Ring, KernelError> {
        take(&mut self.ebpf, "RING").map(Ring)
    }

    /// The messages of the kernel half, once; `None` where they are not asked for.
    ///
    /// # Errors
    /// There is no ring for them.
    pub fn messages(&mut self) -> Result<Option<Messages>, KernelError> {
        if !log::is_on() {
            return Ok(None);
        }
        let messages = Messages::init_with_logger(&mut self.ebpf, log::Lines);
        messages.map(Some).map_err(|_| KernelError::Missing(log::RING.to_owned()))
    }

    /// What captures.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Where the programs are attached.
    pub fn attached(&self) -> &[String] {
        &self.attached
    }

    /// What this kernel keeps from being seen, and what follows from it.
    pub fn blind_spots(&self) -> &[String] {
        &self.blind_spots
    }

    /// Opens an fd scan; [`fd_scan::take`] reads it, on whatever thread.
    pub fn fd_scan(&mut self) -> Result<File, KernelError> {
        self.scan(Scan::Holders)
    }

    fn scan(&mut self, scan: Scan) -> Result<File, KernelError> {
        let program = program::<Iter>(&mut self.ebpf, scan.program())?;
        let fail = |reason| KernelError::Hook { action: "attach", hook: scan.place().into(), reason };
        let link = program.attach().map_err(|error| fail(brief(&error)))?;
        let link = program.take_link(link).map_err(|error| fail(brief(&error)))?;
        link.into_file().map_err(|error| fail(brief(&error)))
    }

    /// Has servers over stdio registered that already run: processes that have two channels.
    ///
    /// # Errors
    /// Descriptors cannot be scanned.
    pub fn adopt(&mut self) -> Result<(), KernelError> {
        self.drive(Scan::Stdio)
    }

    /// Has connections of sockets registered that are open already: those that processes hold which have connected them, and
    /// then all others.
    ///
    /// # Errors
    /// Descriptors cannot be scanned: the rest is not registered.
    pub fn adopt_sockets(&mut self) -> Result<(), KernelError> {
        for pass in 0..2 {
            self.sockets.begin_pass(pass)?;
            self.drive(Scan::Sockets)?;
        }
        self.sockets.end_passes();
        Ok(())
    }

    /// Runs a scan that says nothing.
    fn drive(&mut self, scan: Scan) -> Result<(), KernelError> {
        let hook = scan.place().to_owned();
        let fail = |error: io::Error| KernelError::Hook { action: "read", hook, reason: error.to_string() };
        drive(self.scan(scan)?).map_err(fail)
    }

    /// All connections that the kernel half knows.
    pub fn connections(&self) -> Vec<(u64, abi::Connection)> {
        let all: Vec<_> = self.connections.iter().filter_map(Result::ok).collect();
        self.walked.saw("CONNECTIONS", all.len());
        all
    }

    /// Of some tables: name, entries when it was last walked, places.
    pub fn tables(&self) -> impl Iterator<Item = (&'static str, u64, u64)> {
        self.walked.tables()
    }

    /// What is known of a connection of sockets, while it lasts.
    pub fn socket(&self, key: u64, number: u64) -> Option<abi::Socket> {
        self.sockets.get(key, number)
    }

    /// Lifts the budgets of a TCP connection.
    pub fn lift_socket(&mut self, key: u64) {
        self.sockets.lift(key);
    }

    /// Captures what goes to where a server was found from the first byte on, or (`false`) no more: it is another's now.
    pub fn found(&mut self, endpoint: &abi::Endpoint, is_server: bool) {
        self.sockets.found(endpoint, is_server);
    }

    /// Stops capturing a TCP connection, if it is still this one.
    pub fn remove_socket(&mut self, key: u64, number: u64) {
        self.sockets.remove(key, number, &mut self.channels);
    }

    /// Forgets TCP connections whose sockets nobody holds (`held`), and that were made before `known_at` (boot time, ns).
    pub fn sweep_sockets(&mut self, held: &HashSet<abi::ChannelKey>, known_at: u64) {
        self.sockets.sweep(held, known_at, &mut self.channels, &self.walked);
    }

    /// Lifts the budgets of a connection. Where the processes of its server may connect is what the rules of `set`
    /// say ([`abi::SET_ALL`]: it has none of its own).
    pub fn confirm(&mut self, id: u64, set: u16) {
        // Full table: what exceeds the budget of a candidate shows as a gap, and the server's own rules do not hold.
        let refused = self.confirmed.insert(id, u32::from(set), 0).is_err();
        self.confirms_refused += u64::from(refused);
    }

    /// Whether a connection is known to be a server's.
    pub fn is_confirmed(&self, id: u64) -> bool {
        self.confirmed.get(&id, 0).is_ok()
    }

    /// The connections of servers, and the set of rules that says where their processes may connect.
    pub fn confirmed(&self) -> collections::HashMap<u64, u32> {
        self.confirmed.iter().filter_map(Result::ok).collect()
    }

    /// How often there was no room for one more server.
    pub fn confirms_refused(&self) -> u64 {
        self.confirms_refused + self.sockets.refused()
    }

    /// Which processes belong to servers.
    pub fn members(&mut self) -> &mut Members {
        &mut self.members
    }

    /// The rules for addresses.
    pub fn addresses(&mut self) -> &mut Addresses {
        &mut self.addresses
    }

    /// Stops watching a connection and forgets its channels. That it is a server's, if it is, stays known for the
    /// processes that the server leaves behind: see [`Kernel::forget_servers`].
    pub fn remove(&mut self, id: u64) {
        let Ok(entry) = self.connections.get(&id, 0) else { return };
        for key in keys(&entry) {
            remove_roles(&mut self.channels, &key, id);
        }
        let _ = self.connections.remove(&id);
    }

    /// Forgets servers that have neither a connection nor a process any more.
    ///
    /// A process that is made while the table is read may be missed, and its parent be gone by then: what is not found
    /// twice is gone.
    pub fn forget_servers(&mut self) {
        let confirmed: HashSet<u64> = self.confirmed.keys().filter_map(Result::ok).collect();
        self.walked.saw("CONFIRMED", confirmed.len());
        let mut unclaimed: HashSet<u64> =
            confirmed.into_iter().filter(|id| self.connections.get(id, 0).is_err()).collect();
        if !unclaimed.is_empty() {
            for id in self.members.connections() {
                unclaimed.remove(&id);
            }
        }
        for id in unclaimed.intersection(&self.unclaimed) {
            let _ = self.confirmed.remove(id);
        }
        self.unclaimed = unclaimed;
    }

    /// Stops watching processes that hold no channel: `known_at` is when the fd scan began (boot time, ns).
    pub fn prune(&mut self, holders: &HashSet<u32>, known_at: u64) {
        let is_stale = |(pid, since): &(u32, u64)| *since < known_at && !holders.contains(pid);
        let all: Vec<(u32, u64)> = self.processes.entries().collect();
        self.walked.saw("PROCESSES", all.len());
        let stale: Vec<u32> = all.into_iter().filter(is_stale).map(|(pid, _)| pid).collect();
        for pid in stale {
            prune_one(&mut self.processes, pid, known_at);
        }
    }

    /// Detaches every program that is not kept. What is in the ring can still be read.
    pub fn detach(&mut self) {
        self.to_keep = None;
        self.ebpf.modify_return.unload_all();
        for (_, program) in self.ebpf.programs_mut() {
            // Not loaded, or already gone: both are what is wanted.
            let _ = match program {
                Program::BtfTracePoint(program) => program.unload(),
                Program::TracePoint(program) => program.unload(),
                Program::FExit(program) => program.unload(),
                Program::Lsm(program) => program.unload(),
                Program::Iter(program) => program.unload(),
                Program::CgroupSockAddr(program) => program.unload(),
                Program::CgroupSock(program) => program.unload(),
                _ => Ok(()),
            };
        }
    }

    /// One of the kernel half's counters, summed over all processors.
    pub fn counter(&self, counter: abi::Counter) -> u64 {
        self.counters.get(&(counter as u32), 0).map_or(0, |values| values.iter().sum())
    }

    /// What users have in the ring, and what was refused of them.
    pub fn shares(&self) -> Vec<(u32, abi::Share)> {
        self.shares.iter().filter_map(Result::ok).collect()
    }
}
