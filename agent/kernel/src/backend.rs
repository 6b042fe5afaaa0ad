//! Which backend captures: both are in the object, the better one is tried first.

use std::{
    collections::{HashMap, HashSet},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use aya::{
    EbpfLoader,
    sys::{Stats, enable_stats},
};
use mcpwarden_policy::hash::bytes_hash;

use super::{
    BTF_PATH, KernelError,
    brief::brief,
    btf::Btf,
    bytecode::OBJECT,
    fire,
    hooks::{self, Ground, Hook, Hooks, Links, Scan, load_scan},
    layout, log,
    object::Object,
    pins::{self, short},
    requirements,
    stats::{self, ProgramStats},
    tls,
};

/// What captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The exits of the kernel's functions for pipes and sockets.
    Trampolines,
    /// The exit of system calls.
    Tracepoints,
}

impl Backend {
    /// The one to try first on this kernel.
    pub fn first() -> Self {
        if requirements::preempts_itself() { Self::Tracepoints } else { Self::Trampolines }
    }

    /// As events and the configuration call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trampolines => "trampolines",
            Self::Tracepoints => "tracepoints",
        }
    }
}

/// A kernel half that is attached nowhere yet, and where it could be.
pub struct Loaded {
    /// The programs, of which none runs.
    pub ebpf: Object,
    btf: aya::Btf,
    processes: Vec<Hook>,
    tracepoints: Hooks,
    /// Or why that backend cannot be used.
    trampolines: Result<Hooks, String>,
    /// The same of the gate.
    gate: Result<Vec<Hook>, String>,
}

/// What came of trying every hook.
#[derive(Debug)]
pub struct Report {
    /// Of the tracepoint backend, and those that are there whatever captures: place, and why it does not work.
    pub hooks: Vec<(String, Option<String>)>,
    /// The places of the trampoline backend, as above, or why it cannot be attached.
    pub trampolines: Result<Vec<(String, Option<String>)>, String>,
    /// The same of the gate.
    pub gate: Result<Vec<(String, Option<String>)>, String>,
    /// The way in which functions of TLS libraries are probed, or why they cannot be.
    pub tls: Result<&'static str, String>,
    /// Why it is not known whether what is attached runs.
    pub unproven: Option<String>,
    /// What the kernel says of each program that it took.
    pub programs: Vec<ProgramStats>,
}

/// A kernel half that runs.
pub struct Attached {
    /// The programs, and their links.
    pub ebpf: Object,
    /// Their links by program, where they are to outlive the agent.
    pub links: Links,
    /// What captures.
    pub backend: Backend,
    /// Where the programs are attached.
    pub places: Vec<String>,
    /// What this kernel keeps from being seen, and what follows from it.
    pub blind_spots: Vec<String>,
    /// The hooks of the gate, which are attached while something is enforced; or why it cannot be used.
    pub gate: Result<Vec<Hook>, String>,
}

impl Loaded {
    /// Resolves what this kernel calls things, and makes the tables, with a ring of `ring_bytes`; those of `there` (name and
    /// where it is pinned) are taken as they are.
    pub fn new(ring_bytes: u32, there: &[(String, PathBuf)]) -> Result<Self, KernelError> {
        let btf = Btf::from_file(Path::new(BTF_PATH))?;
        let base = layout::resolve(&btf)?;
        let way = requirements::gate_way();
        let (layout, trampolines, gate) = match layout::resolve_iterators(&btf, base) {
            Ok(layout) => (layout, hooks::trampolines(&btf), hooks::gate(&btf, way)),
            Err(error) => (base, Err(error.to_string()), Err(error.to_string())),
        };
        let (processes, tracepoints) = (hooks::processes(&btf), hooks::tracepoints(&btf));
        drop(btf);
        let btf = aya::Btf::from_sys_fs()?;
        let (layouts, may_neutralize) = ([layout], u32::from(requirements::may_write_memory()));
        let log_level = log::level();
        let mut loader = EbpfLoader::new();
        loader
            .btf(Some(&btf))
            .override_global("KERNEL_LAYOUT", &layouts[..], true)
            .override_global("MAY_NEUTRALIZE", &may_neutralize, true)
            .override_global(aya_log::LEVEL, &log_level, true)
            .map_max_entries("RING", ring_bytes)
            .map_max_entries(log::RING, log::ring_bytes());
        for (name, path) in there {
            loader.map_pin_path(name, path.as_path());
        }
        let ebpf = loader.load(&OBJECT.0)?;
        let ebpf = Object::new(ebpf).map_err(|reason| {
            let hook = "the tables".to_owned();
            KernelError::Hook { action: "open", hook, reason }
        })?;
        Ok(Self { ebpf, btf, processes, tracepoints, trampolines, gate })
    }

    /// Attaches a backend, that of `wanted` or else the one that loses less here, and all else. Links are given apart where they are to outlive
    /// the agent (`keep`).
    pub fn attach(self, wanted: Option<Backend>, cgroup: &Path, keep: bool) -> Result<Attached, KernelError> {
        let Self { mut ebpf, btf, processes, tracepoints, trampolines, gate } = self;
        let ground = Ground { btf: &btf, cgroup };
        // What captures comes first: nothing is a channel before the others are there.
        let mut best = None;
        if wanted.unwrap_or_else(Backend::first) == Backend::Trampolines {
            match attach_whole(&mut ebpf, trampolines, &ground, keep) {
                Ok(attached) => best = Some(attached),
                Err(reason) if wanted == Some(Backend::Trampolines) => {
                    return Err(KernelError::Backend(Backend::Trampolines.name(), reason));
                }
                // `doctor` says why.
                Err(_) => {}
            }
        }
        let (backend, Hooks { hooks, blind_spots }, mut links) = match best {
            Some((best, links)) => (Backend::Trampolines, best, links),
            None => {
                let links = hooks::attach_all(&mut ebpf, &tracepoints.hooks, &ground, keep)?;
                (Backend::Tracepoints, tracepoints, links)
            }
        };
        let mut places: Vec<String> = hooks.iter().map(Hook::place).collect();
        let others = processes.into_iter().chain(hooks::connections());
        for (hook, link) in hooks::attach_each(&mut ebpf, others, &ground, keep) {
            links.extend(link?.map(|link| (hook.program(), link)));
            places.push(hook.place());
        }
        let blind_spots = load_scans(&mut ebpf, &btf, blind_spots)?;
        Ok(Attached { ebpf, links, backend, places, blind_spots, gate })
    }

    /// Whether these are all tables that this agent has.
    pub fn has_all(&self, tables: &[(String, PathBuf)]) -> bool {
        pins::kept_tables(&self.ebpf).all(|(name, _)| tables.iter().any(|(table, _)| table == name))
    }

    /// Goes on with `programs` that are attached already, and with whose tables this was loaded.
    ///
    /// # Errors
    /// Some are missing.
    pub fn resume(self, programs: &[String]) -> Result<Attached, KernelError> {
        let Self { mut ebpf, btf, processes, tracepoints, trampolines, gate } = self;
        let runs = |hook: &Hook| programs.iter().any(|program| program == hook.program());
        let (backend, Hooks { hooks, blind_spots }) = match trampolines {
            Ok(trampolines) if trampolines.hooks.iter().all(runs) => (Backend::Trampolines, trampolines),
            _ => (Backend::Tracepoints, tracepoints),
        };
        let mut places = Vec::new();
        for hook in hooks.into_iter().chain(processes).chain(hooks::connections()) {
            let instead = hook.instead();
            if runs(&hook) {
                places.push(hook.place());
            } else if !instead.is_empty() && instead.iter().all(runs) {
                places.extend(instead.iter().map(Hook::place));
            } else {
                let reason = "nothing is attached there any more".to_owned();
                return Err(KernelError::Hook { action: "go on with", hook: hook.place(), reason });
            }
        }
        let blind_spots = load_scans(&mut ebpf, &btf, blind_spots)?;
        Ok(Attached { ebpf, links: Vec::new(), backend, places, blind_spots, gate })
    }

    /// Tries every hook, and makes each run.
    pub fn probe(self, cgroup: &Path, no_probes: Option<String>) -> Report {
        let Self { mut ebpf, btf, processes, tracepoints, trampolines, gate } = self;
        let ground = Ground { btf: &btf, cgroup };
        let all = processes.into_iter().chain(tracepoints.hooks).chain(hooks::connections());
        let tried = hooks::attach_each(&mut ebpf, all, &ground, false);
        let scans = [Scan::Holders, Scan::Stdio, Scan::Sockets].map(|scan| {
            let problem = load_scan(&mut ebpf, &btf, scan).err().map(|error| error.to_string());
            (scan.place().to_owned(), problem)
        });
        let trampolines = attach_whole(&mut ebpf, trampolines, &ground, false);
        let gate = gate.and_then(|hooks| {
            hooks::attach_all(&mut ebpf, &hooks, &ground, false).map_err(|error| error.to_string())?;
            Ok(hooks)
        });
        let tls = no_probes.map_or_else(|| tls::self_test(&ebpf, gate.is_ok()), Err);
        let programs = stats::of_programs(&ebpf);
        let proof = Proof::of(&ebpf);
        let silent = |hook: &Hook| proof.as_ref().ok()?.silent(hook);
        let places = |hooks: Vec<Hook>| hooks.iter().map(|hook| (hook.place(), silent(hook))).collect();
        let trampolines = trampolines.map(|(attached, _)| places(attached.hooks));
        let gate = gate.map(places);
        let mut hooks: Vec<_> = tried
            .into_iter()
            .map(|(hook, result)| {
                let problem = result.err().map(|error| error.to_string());
                (hook.place(), problem.or_else(|| silent(&hook)))
            })
            .collect();
        hooks.extend(scans);
        hooks.extend(tracepoints.blind_spots.into_iter().map(|(place, why)| (place, Some(why))));
        Report { hooks, trampolines, gate, tls, unproven: proof.err(), programs }
    }
}

/// Which programs ran when there was something to run for.
struct Proof {
    ran: HashSet<String>,
    impossible: fire::Impossible,
}

impl Proof {
    /// Makes everything happen that the programs of an object wait for. `Err`: the kernel does not count runs, and why.
    fn of(ebpf: &Object) -> Result<Self, String> {
        let counting = enable_stats(Stats::RunTime).map_err(|error| brief(&error))?;
        let runs = || stats::of_programs(ebpf).into_iter().map(|program| (program.name, program.runs));
        let before: HashMap<String, u64> = runs().collect();
        let impossible = fire::all();
        let ran = runs().filter(|(name, runs)| before.get(name).is_none_or(|before| runs > before));
        let ran = ran.map(|(name, _)| name).collect();
        drop(counting);
        Ok(Self { ran, impossible })
    }

    /// What is wrong with a hook that is attached: it did not run.
    fn silent(&self, hook: &Hook) -> Option<String> {
        let place = hook.place();
        let is_excused = self.impossible.iter().any(|(word, _)| place.contains(word));
        let is_silent = !is_excused && !self.ran.contains(hook.program());
        is_silent.then(|| "attached, and did not run when what it waits for was made to happen".to_owned())
    }
}

/// Attaches all of the trampoline backend, or says why that cannot be. With its links, where they are wanted `apart`.
fn attach_whole(
    ebpf: &mut Object,
    trampolines: Result<Hooks, String>,
    ground: &Ground<'_>,
    apart: bool,
) -> Result<(Hooks, Links), String> {
    let hooks = trampolines?;
    let links = hooks::attach_all(ebpf, &hooks.hooks, ground, apart).map_err(|error| error.to_string())?;
    Ok((hooks, links))
}

/// Loads the iterators over all descriptors. The blind spots, for people: `known` ones, and what follows where the one over sockets
/// cannot be loaded.
///
/// # Errors
/// Another of them cannot be loaded.
fn load_scans(
    ebpf: &mut Object,
    btf: &aya::Btf,
    known: Vec<(String, String)>,
) -> Result<Vec<String>, KernelError> {
    load_scan(ebpf, btf, Scan::Holders)?;
    load_scan(ebpf, btf, Scan::Stdio)?;
    let mut texts: Vec<String> = known.iter().map(|(place, why)| format!("{place}: {why}")).collect();
    if let Err(error) = load_scan(ebpf, btf, Scan::Sockets) {
        texts.push(format!("{error}; connections over sockets that were open before the agent are not read"));
    }
    Ok(texts)
}

/// What programs and tables are made of, as a short hash: an agent for whom it is the same can go on with those of another.
pub fn build(wanted: Option<Backend>, ring_bytes: u32, cgroup: &Path) -> String {
    let may_neutralize = requirements::may_write_memory();
    let object = bytes_hash(&OBJECT.0);
    // One that was removed and made again is another.
    let cgroup = std::fs::metadata(cgroup).map(|cgroup| (cgroup.dev(), cgroup.ino())).ok();
    let way = requirements::gate_way();
    let all = format!("{object} {wanted:?} {ring_bytes} {may_neutralize} {way:?} {cgroup:?}");
    short(&bytes_hash(all.as_bytes())).to_owned()
}
