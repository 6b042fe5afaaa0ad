//! The kernel half as the agent holds it: probe, load, attach, tables, counters.

pub mod btf;
pub mod census;
pub mod layout;
pub mod surroundings;

use std::{
    fs::File,
    os::fd::{AsFd as _, AsRawFd as _},
    path::Path,
};

use aya::{
    Ebpf, EbpfLoader,
    maps::{Array, HashMap, MapData, MapError, PerCpuArray, RingBuf},
    programs::{BtfTracePoint, Iter, Program, TracePoint},
};
use mcpwarden_abi as abi;

use self::btf::Btf;

/// Wrapped so that the object's ELF header is aligned as its reader wants it.
#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/mcpwarden.bpf.o")));

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
        /// `load` or `attach`.
        action: &'static str,
        /// Which program.
        hook: String,
        /// Why, as the kernel says.
        reason: String,
    },
    /// A table is missing or refuses.
    #[error("kernel table {name}: {source}")]
    Map {
        /// Which.
        name: &'static str,
        /// Why.
        source: MapError,
    },
    /// The object does not hold what this agent was built with.
    #[error("the kernel half has no {0}; the build is broken")]
    Missing(String),
}

/// The chain of causes on one line, without the verifier's log (which can be megabytes).
fn brief(error: &dyn std::error::Error) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let line = error.to_string();
        let line = line.lines().next().unwrap_or_default();
        if !text.ends_with(line) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(line);
        }
        next = error.source();
    }
    text
}

/// The hooks of the tracepoint backend on this kernel: program name and tracepoint.
pub fn tracepoint_hooks(btf: &Btf) -> Vec<Hook> {
    let mut hooks = Vec::new();
    if btf.tracepoint_arguments("sched_prepare_exec").is_some() {
        hooks.push(Hook::Btf { program: "sched_prepare_exec", tracepoint: "sched_prepare_exec" });
    } else {
        hooks.push(Hook::Classic { program: "sys_enter_execve", tracepoint: "sys_enter_execve" });
        hooks.push(Hook::Classic { program: "sys_enter_execveat", tracepoint: "sys_enter_execveat" });
    }
    for name in ["sched_process_exec", "sched_process_fork", "sched_process_exit", "sys_exit"] {
        hooks.push(Hook::Btf { program: name, tracepoint: name });
    }
    match btf.tracepoint_arguments("io_uring_complete") {
        Some(3) => {
            hooks.push(Hook::Btf { program: "io_uring_complete_cqe", tracepoint: "io_uring_complete" })
        }
        Some(7) => hooks.push(Hook::Btf { program: "io_uring_complete", tracepoint: "io_uring_complete" }),
        // No io_uring, or one that this version does not know: what passes through it shows as a gap.
        _ => {}
    }
    hooks
}

/// One hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// A BTF tracepoint.
    Btf {
        /// Name of the program.
        program: &'static str,
        /// Name of the tracepoint.
        tracepoint: &'static str,
    },
    /// A classic tracepoint of the category `syscalls`; needs tracefs.
    Classic {
        /// Name of the program.
        program: &'static str,
        /// Name of the tracepoint.
        tracepoint: &'static str,
    },
}

impl Hook {
    /// What it hangs on, for people.
    pub fn place(&self) -> String {
        match self {
            Self::Btf { tracepoint, .. } => format!("tp_btf/{tracepoint}"),
            Self::Classic { tracepoint, .. } => format!("tracepoint/syscalls/{tracepoint}"),
        }
    }
}

/// Names of the connections' inodes, without repetition.
fn keys(connection: &abi::Connection) -> Vec<abi::ChannelKey> {
    let mut keys =
        vec![connection.server_in, connection.server_out, connection.client_out, connection.client_in];
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// An attached kernel half. Dropping it detaches everything.
pub struct Kernel {
    // The programs' links live in here.
    ebpf: Ebpf,
    connections: HashMap<MapData, u64, abi::Connection>,
    confirmed: HashMap<MapData, u64, u32>,
    channels: HashMap<MapData, abi::ChannelKey, abi::Channel>,
    processes: HashMap<MapData, u32, u64>,
    counters: PerCpuArray<MapData, u64>,
    adopt: Array<MapData, u32>,
    attached: Vec<String>,
}

impl Kernel {
    /// Loads and attaches the tracepoint backend, with a ring of `ring_bytes` (a power of two, at least a page).
    pub fn attach(ring_bytes: u32) -> Result<Self, KernelError> {
        let (mut ebpf, hooks, btf) = Self::load(ring_bytes)?;
        let mut attached = Vec::new();
        for hook in hooks {
            attach_hook(&mut ebpf, &hook, &btf)?;
            attached.push(hook.place());
        }
        load_census(&mut ebpf, &btf)?;
        drop(btf);
        fn take<T>(ebpf: &mut Ebpf, name: &'static str) -> Result<T, KernelError>
        where
            T: TryFrom<aya::maps::Map, Error = MapError>,
        {
            let map = ebpf.take_map(name).ok_or_else(|| KernelError::Missing(name.to_owned()))?;
            T::try_from(map).map_err(|source| KernelError::Map { name, source })
        }
        Ok(Self {
            connections: take(&mut ebpf, "CONNECTIONS")?,
            confirmed: take(&mut ebpf, "CONFIRMED")?,
            channels: take(&mut ebpf, "CHANNELS")?,
            processes: take(&mut ebpf, "PROCESSES")?,
            counters: take(&mut ebpf, "COUNTERS")?,
            adopt: take(&mut ebpf, "ADOPT")?,
            attached,
            ebpf,
        })
    }

    fn load(ring_bytes: u32) -> Result<(Ebpf, Vec<Hook>, aya::Btf), KernelError> {
        let btf = Btf::from_file(Path::new(BTF_PATH))?;
        let layout = [layout::resolve(&btf)?];
        let hooks = tracepoint_hooks(&btf);
        drop(btf);
        let btf = aya::Btf::from_sys_fs()?;
        let ebpf = EbpfLoader::new()
            .btf(Some(&btf))
            .override_global("KERNEL_LAYOUT", &layout[..], true)
            .map_max_entries("RING", ring_bytes)
            .load(&OBJECT.0)?;
        Ok((ebpf, hooks, btf))
    }

    /// Tries every hook by itself, for `doctor`: place, and why it does not work.
    pub fn probe() -> Result<Vec<(String, Option<String>)>, KernelError> {
        let (mut ebpf, hooks, btf) = Self::load(4096)?;
        let mut report: Vec<_> = hooks
            .iter()
            .map(|hook| {
                (hook.place(), attach_hook(&mut ebpf, hook, &btf).err().map(|error| error.to_string()))
            })
            .collect();
        let census = load_census(&mut ebpf, &btf).err().map(|error| error.to_string());
        report.push(("iter/task_file".to_owned(), census));
        Ok(report)
    }

    /// The ring, once.
    pub fn ring(&mut self) -> Result<RingBuf<MapData>, KernelError> {
        let map = self.ebpf.take_map("RING").ok_or_else(|| KernelError::Missing("RING".to_owned()))?;
        RingBuf::try_from(map).map_err(|source| KernelError::Map { name: "RING", source })
    }

    /// Where the programs are attached.
    pub fn attached(&self) -> &[String] {
        &self.attached
    }

    /// Opens a census; [`census::take`] reads it, on whatever thread.
    pub fn census(&mut self) -> Result<File, KernelError> {
        let program = program::<Iter>(&mut self.ebpf, "census")?;
        let fail = |reason| KernelError::Hook { action: "attach", hook: "iter/task_file".into(), reason };
        let link = program.attach().map_err(|error| fail(brief(&error)))?;
        let link = program.take_link(link).map_err(|error| fail(brief(&error)))?;
        link.into_file().map_err(|error| fail(brief(&error)))
    }

    /// While this is on, the census registers unknown processes that have two channels.
    pub fn adopt(&mut self, on: bool) -> Result<(), KernelError> {
        self.adopt.set(0, u32::from(on), 0).map_err(|source| KernelError::Map { name: "ADOPT", source })
    }

    /// All connections that the kernel half knows.
    pub fn connections(&self) -> Vec<(u64, abi::Connection)> {
        self.connections.iter().filter_map(Result::ok).collect()
    }

    /// Lifts the budgets of a connection.
    pub fn confirm(&mut self, id: u64) {
        // Full table: the connection keeps the budget of a candidate, and what exceeds it shows as a gap.
        let _ = self.confirmed.insert(id, 1, 0);
    }

    /// Stops watching a connection and forgets its channels.
    pub fn remove(&mut self, id: u64) {
        // Whether it is known there or not: what was confirmed must not stay.
        let _ = self.confirmed.remove(&id);
        let Ok(entry) = self.connections.get(&id, 0) else { return };
        for key in keys(&entry) {
            let Ok(mut channel) = self.channels.get(&key, 0) else { continue };
            for role in [
                &mut channel.write_capture,
                &mut channel.read_capture,
                &mut channel.write_count,
                &mut channel.read_count,
            ] {
                if *role == id {
                    *role = 0;
                }
            }
            if channel == abi::Channel::default() {
                let _ = self.channels.remove(&key);
            } else {
                let _ = self.channels.insert(key, channel, 0);
            }
        }
        let _ = self.connections.remove(&id);
    }

    /// Stops watching processes that hold no channel: `known_at` is when the census began (boot time, ns).
    pub fn prune(&mut self, holders: &std::collections::HashSet<u32>, known_at: u64) {
        let stale: Vec<u32> = self
            .processes
            .iter()
            .filter_map(Result::ok)
            .filter(|(pid, since)| *since < known_at && !holders.contains(pid))
            .map(|(pid, _)| pid)
            .collect();
        for pid in stale {
            let _ = self.processes.remove(&pid);
        }
    }

    /// Detaches every program. What is in the ring can still be read.
    pub fn detach(&mut self) {
        for (_, program) in self.ebpf.programs_mut() {
            // Not loaded, or already gone: both are what is wanted.
            let _ = match program {
                Program::BtfTracePoint(program) => program.unload(),
                Program::TracePoint(program) => program.unload(),
                Program::Iter(program) => program.unload(),
                _ => Ok(()),
            };
        }
    }

    /// One of the kernel half's counters, summed over all processors.
    pub fn counter(&self, counter: abi::Counter) -> u64 {
        self.counters.get(&(counter as u32), 0).map_or(0, |values| values.iter().sum())
    }

    /// What the kernel says of each loaded program.
    pub fn program_stats(&self) -> Vec<ProgramStats> {
        let stats_of = |name: &str, program: &Program| {
            let fd = program.fd().ok()?.as_fd().as_raw_fd();
            let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
            let number = |key: &str| {
                let line = info.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
                line.and_then(|line| line.trim().parse().ok()).unwrap_or(0)
            };
            Some(ProgramStats {
                name: name.to_owned(),
                missed_runs: number("recursion_misses"),
                runs: number("run_cnt"),
                nanoseconds: number("run_time_ns"),
            })
        };
        self.ebpf.programs().filter_map(|(name, program)| stats_of(name, program)).collect()
    }
}

/// Numbers of one program, from its fdinfo.
#[derive(Clone, Debug)]
pub struct ProgramStats {
    /// Its name.
    pub name: String,
    /// Runs that the kernel skipped, because a program was already running on that processor (since 5.12).
    pub missed_runs: u64,
    /// Runs, while `kernel.bpf_stats_enabled` is on.
    pub runs: u64,
    /// Time in them.
    pub nanoseconds: u64,
}

fn program<'a, T>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut T, KernelError>
where
    &'a mut T: TryFrom<&'a mut Program>,
{
    ebpf.program_mut(name)
        .and_then(|program| program.try_into().ok())
        .ok_or_else(|| KernelError::Missing(name.to_owned()))
}

fn attach_hook(ebpf: &mut Ebpf, hook: &Hook, btf: &aya::Btf) -> Result<(), KernelError> {
    let fail = |action| {
        move |error: aya::programs::ProgramError| KernelError::Hook {
            action,
            hook: hook.place(),
            reason: brief(&error),
        }
    };
    match hook {
        Hook::Btf { program: name, tracepoint } => {
            let program: &mut BtfTracePoint = program(ebpf, name)?;
            program.load(tracepoint, btf).map_err(fail("load"))?;
            program.attach().map_err(fail("attach"))?;
        }
        Hook::Classic { program: name, tracepoint } => {
            let program: &mut TracePoint = program(ebpf, name)?;
            program.load().map_err(fail("load"))?;
            program.attach("syscalls", tracepoint).map_err(fail("attach"))?;
        }
    }
    Ok(())
}

fn load_census(ebpf: &mut Ebpf, btf: &aya::Btf) -> Result<(), KernelError> {
    program::<Iter>(ebpf, "census")?.load("task_file", btf).map_err(|error| KernelError::Hook {
        action: "load",
        hook: "iter/task_file".into(),
        reason: brief(&error),
    })
}
