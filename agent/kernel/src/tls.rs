//! Probes on the functions of TLS libraries, in one process each.

mod self_test;

use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
    sync::{Arc, Mutex, PoisonError, TryLockError},
};

use aya::maps::PerCpuArray;
use mcpwarden_abi::{TLS_WRITE, TlsCookie};

use super::{
    Kernel, KernelError,
    brief::brief,
    object::Object,
    relocated::{Relocated, Tables},
    stats::{self, ProgramStats},
    uprobe::{self, Place, Way},
};

/// What runs when a function is called, what the gate says of that, and what runs when it returns: at its return, or where it is about to.
const CALLED: &str = "tls_called";
const JUDGED: &str = "tls_judged";
const RETURNED: &str = "tls_returned";
const RETURNS: &str = "tls_returns";
/// All of them.
pub const PROGRAMS: [&str; 4] = [CALLED, JUDGED, RETURNED, RETURNS];

/// A function that is to be probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFunction {
    /// Where its entry is probed. Bytes.
    pub entry: u64,
    /// What it returns.
    pub returns: TlsReturn,
    /// What it does, and where its arguments are.
    pub cookie: TlsCookie,
}

/// Where it shows what a function returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsReturn {
    /// It is of no interest.
    None,
    /// At its return: where the function begins. Bytes.
    Probed(u64),
    /// At each of its instructions that return. Bytes.
    Places(Vec<u64>),
}

/// The programs that run at probes. They are loaded when they are needed first, and apart from all others: to load and to attach them takes
/// the kernel milliseconds, which is done on a thread of its own.
pub struct TlsPrograms {
    tables: Tables,
    can_judge: bool,
    loaded: Mutex<Option<Arc<Loaded>>>,
}

/// See there.
struct Loaded {
    way: Way,
    called: OwnedFd,
    /// The gate's.
    judged: Option<OwnedFd>,
    returned: OwnedFd,
    returns: OwnedFd,
}

/// The probes of a process. They are detached with it, which takes milliseconds.
#[derive(Default)]
pub struct TlsProbes {
    links: Vec<OwnedFd>,
    functions: usize,
}

impl TlsProbes {
    /// How many functions are probed.
    pub fn functions(&self) -> usize {
        self.functions
    }

    /// How many descriptors they take.
    pub fn links(&self) -> usize {
        self.links.len()
    }

    /// How many descriptors those of these functions take at most, in any way.
    pub fn most_links(functions: &[TlsFunction]) -> usize {
        let places = |function: &TlsFunction| match &function.returns {
            TlsReturn::Places(places) => 2 + places.len(),
            TlsReturn::None | TlsReturn::Probed(_) => 3,
        };
        functions.iter().map(places).sum()
    }

    /// Adds those of another file.
    pub fn add(&mut self, mut other: Self) {
        self.links.append(&mut other.links);
        self.functions += other.functions;
    }
}

impl Kernel {
    /// The programs of probes.
    pub fn tls_programs(&self) -> Arc<TlsPrograms> {
        Arc::clone(&self.tls)
    }
}

/// Probes a function of this program, for `doctor`: the name of the way in which probes are attached on this kernel, or why none can be.
pub(super) fn self_test(ebpf: &Object, can_judge: bool) -> Result<&'static str, String> {
    let counters = ebpf.map("COUNTERS").ok_or("the kernel half lacks its counters")?;
    let counters = PerCpuArray::try_from(counters).map_err(|error| brief(&error))?;
    TlsPrograms::of(ebpf.tables(), can_judge).self_test(&counters)
}

impl TlsPrograms {
    /// Those of an object with these tables; `can_judge`: calls can be stopped on this kernel.
    pub(super) fn of(tables: Tables, can_judge: bool) -> Self {
        Self { tables, can_judge, loaded: Mutex::new(None) }
    }

    /// Loads them, unless they are. The name of the way in which they are attached.
    ///
    /// # Errors
    /// The kernel refuses one.
    pub fn load(&self) -> Result<&'static str, KernelError> {
        self.loaded().map(|loaded| loaded.way.name())
    }

    /// Probes functions of a file in a process that has it mapped; `file` is a path that leads to it from here.
    ///
    /// # Errors
    /// The kernel refuses one of them: none is probed.
    pub fn attach(&self, pid: u32, file: &Path, functions: &[TlsFunction]) -> Result<TlsProbes, KernelError> {
        let loaded = self.loaded()?;
        let links = loaded.attach((pid, file), functions).map_err(|error| {
            let hint = match loaded.way {
                Way::Events(_) if error.kind() == io::ErrorKind::PermissionDenied => {
                    "; this kernel takes CAP_SYS_ADMIN for it, newer ones (6.10 and later) do not"
                }
                _ => "",
            };
            KernelError::Hook {
                action: "attach",
                hook: format!("probes of {} in process {pid}", file.display()),
                reason: format!("{error}{hint}"),
            }
        })?;
        Ok(TlsProbes { links, functions: functions.len() })
    }

    /// What the kernel says of each that is loaded.
    pub(super) fn stats(&self) -> Vec<ProgramStats> {
        let loaded = match self.loaded.try_lock() {
            Ok(loaded) => loaded.clone(),
            Err(TryLockError::Poisoned(error)) => error.into_inner().clone(),
            // They are being loaded.
            Err(TryLockError::WouldBlock) => None,
        };
        let Some(loaded) = loaded else { return Vec::new() };
        let programs = [
            (CALLED, Some(&loaded.called)),
            (JUDGED, loaded.judged.as_ref()),
            (RETURNED, Some(&loaded.returned)),
            (RETURNS, Some(&loaded.returns)),
        ];
        programs.into_iter().filter_map(|(name, program)| stats::of(name, program?.as_fd())).collect()
    }

    fn loaded(&self) -> Result<Arc<Loaded>, KernelError> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = &*loaded {
            return Ok(Arc::clone(loaded));
        }
        let new = Arc::new(Loaded::new(&self.tables, self.can_judge)?);
        *loaded = Some(Arc::clone(&new));
        Ok(new)
    }
}

impl Loaded {
    fn new(tables: &Tables, can_judge: bool) -> Result<Self, KernelError> {
        let refused =
            |name: &str, reason| KernelError::Hook { action: "load", hook: format!("uprobe/{name}"), reason };
        let types = aya::Btf::from_sys_fs()?;
        let programs = Relocated::of(tables, &types, &PROGRAMS).map_err(|error| refused(CALLED, error))?;
        let way = uprobe::way(&programs, CALLED).map_err(|error| refused(CALLED, brief(&error)))?;
        let load = |name| programs.load(name, way.kind()).map_err(|error| refused(name, error));
        let judged = can_judge.then(|| load(JUDGED)).transpose().unwrap_or_else(|error| {
            tracing::warn!("calls over TLS are not stopped: {error}");
            None
        });
        Ok(Self { way, called: load(CALLED)?, judged, returned: load(RETURNED)?, returns: load(RETURNS)? })
    }

    fn attach(&self, of: (u32, &Path), functions: &[TlsFunction]) -> io::Result<Vec<OwnedFd>> {
        let place = |offset, function: &TlsFunction| Place { offset, cookie: function.cookie.pack() };
        let (mut called, mut judged) = (Vec::new(), Vec::new());
        let (mut returned, mut returns) = (Vec::new(), Vec::new());
        for function in functions {
            called.push(place(function.entry, function));
            if function.cookie.role == TLS_WRITE {
                judged.push(place(function.entry, function));
            }
            match &function.returns {
                TlsReturn::None => {}
                TlsReturn::Probed(start) => returned.push(place(*start, function)),
                TlsReturn::Places(places) => returns.extend(places.iter().map(|at| place(*at, function))),
            }
        }
        // Returns first: a call whose return is not told is forgotten, a return without a call is nothing.
        let programs = [
            (Some(&self.returned), returned, true),
            (Some(&self.returns), returns, false),
            (Some(&self.called), called, false),
            (self.judged.as_ref(), judged, false),
        ];
        let mut links = Vec::new();
        for (program, places, at_return) in programs {
            if let Some(program) = program.filter(|_| !places.is_empty()) {
                links.extend(self.way.attach(program.as_fd(), of, &places, at_return)?);
            }
        }
        Ok(links)
    }
}
