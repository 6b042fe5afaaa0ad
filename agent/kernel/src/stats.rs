//! Numbers about the kernel half itself: its programs and how full its tables are.

use std::{
    cell::Cell,
    os::fd::{AsRawFd as _, BorrowedFd},
};

use aya::{Ebpf, maps::Map};

use super::{Kernel, object::Object};

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
    /// Steps that the verifier took before it accepted it, of [`MOST_STEPS`] (since 5.16; 0 before).
    pub verified_steps: u64,
}

/// What the kernel says of each loaded program.
pub fn of_programs(object: &Object) -> Vec<ProgramStats> {
    object.loaded().filter_map(|(name, program)| of(name, program)).collect()
}

/// What the kernel says of a program.
pub fn of(name: &str, program: BorrowedFd<'_>) -> Option<ProgramStats> {
    let fd = program.as_raw_fd();
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
        verified_steps: number("verified_insns"),
    })
}

/// Where the verifier gives up. `BPF_COMPLEXITY_LIMIT_INSNS`, 5.2 to 6.18.
pub const MOST_STEPS: u64 = 1_000_000;

/// Tables that are walked from time to time anyway: nothing is walked only to be counted.
const WALKED: [&str; 4] = ["CONFIRMED", "CONNECTIONS", "PROCESSES", "SOCKETS"];

/// How many entries they had then, and how many places they have.
#[derive(Debug)]
pub struct Walked {
    entries: [Cell<u64>; WALKED.len()],
    capacities: [u64; WALKED.len()],
}

impl Walked {
    /// Those of a loaded object, not walked yet.
    pub fn of(ebpf: &Ebpf) -> Self {
        let capacity = |name: &str| match ebpf.map(name) {
            Some(Map::HashMap(data)) => data.info().map_or(0, |info| u64::from(info.max_entries())),
            _ => 0,
        };
        Self { entries: Default::default(), capacities: WALKED.map(capacity) }
    }

    /// One was walked.
    pub fn saw(&self, name: &str, entries: usize) {
        for (known, cell) in WALKED.iter().zip(&self.entries) {
            if *known == name {
                cell.set(entries as u64);
            }
        }
    }

    /// Name, entries, places.
    pub fn tables(&self) -> impl Iterator<Item = (&'static str, u64, u64)> {
        let known = WALKED.into_iter().zip(&self.entries).zip(self.capacities);
        known.map(|((name, entries), capacity)| (name, entries.get(), capacity))
    }
}

impl Kernel {
    /// What the kernel says of each loaded program.
    pub fn program_stats(&self) -> Vec<ProgramStats> {
        let mut all = of_programs(&self.ebpf);
        all.extend(self.kept.programs().filter_map(|(name, fd)| of(name, fd)));
        all.extend(self.tls.stats());
        all
    }
}
