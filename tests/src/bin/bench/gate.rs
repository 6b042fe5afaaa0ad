//! What capturing and judging calls costs, on a kernel that can do both: in a virtual machine, `cargo xtask vm --kernel 6.12
//! --count-instructions -- target/release/bench gate`. There a nanosecond is an instruction, which neither emulation nor
//! other work on this machine changes. Without `--count-instructions` (and with `--append nr_cpus=1`) emulation stretches
//! everything; ratios of one round remain, and spread.
//!
//! The emulator has one thread for all processors: so only what both ends have of theirs is counted, and there is one, or its
//! clock would go on while the agent has another.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::agent::{Agent, BpfStats, Sink, programs};
use crate::measure_time;
use crate::report;
use crate::workload::{Time, Workload};

/// The workloads, how many operations each takes, and the ratios that were promised: capturing alone, and judging too.
const PLAN: [(Workload, u64, [f64; 2]); 5] = [
    (Workload::DevNull, 50_000, [1.01, 1.3]),
    (Workload::UntrackedPipe, 4_000, [1.03, 1.1]),
    (Workload::TrackedPipe, 4_000, [1.4, 1.6]),
    (Workload::TrackedSocket, 4_000, [1.4, 1.6]),
    (Workload::Call, 4_000, [1.4, 1.6]),
];

/// What runs beside the workloads.
struct Stage {
    heading: &'static str,
    args: &'static [&'static str],
    judges: bool,
    /// What the agent says that it captures with.
    backend: &'static str,
}

const STAGES: [Stage; 3] = [
    Stage {
        heading: "capturing alone, by tracepoints",
        args: &["--backend=tracepoints"],
        judges: false,
        backend: "tracepoints",
    },
    Stage {
        heading: "capturing alone, by trampolines",
        args: &["--backend=trampolines"],
        judges: false,
        backend: "trampolines",
    },
    Stage {
        heading: "capturing by trampolines, and judging",
        args: &["--backend=trampolines"],
        judges: true,
        backend: "trampolines",
    },
];

const CONFIG: &str = "enforcement: { stdio: neutralize }\npolicy: { denied_tools: ['delete_*'] }\n";

impl Stage {
    fn start(&self, config: &str) -> Result<Agent> {
        let judging = if self.judges { &["--config", config][..] } else { &[] };
        Agent::start(&[self.args, judging].concat(), Sink::Nowhere)
    }

    /// Ends its agent, which must have been what is measured.
    fn stop(&self, agent: Agent) -> Result<tempfile::TempDir> {
        let directory = agent.stop()?;
        let events = fs::read_to_string(directory.path().join("events.jsonl"))?;
        let started: Value = serde_json::from_str(events.lines().next().context("no events")?)?;
        let captures = started["backend"] == self.backend;
        let judges = ["lsm/file_permission", "fmod_ret/security_file_permission"]
            .iter()
            .any(|place| started.to_string().contains(&format!("gate {place}")));
        ensure!(
            captures && judges == self.judges,
            "no agent that is {}: this kernel cannot, or another agent has the gate: {started}",
            self.heading
        );
        Ok(directory)
    }
}

/// Measures without an agent, and with one in each of the stages, one after the other in each round; all of them `repeat` times
/// before the next, since in an emulator it takes longer to start an agent than to measure.
pub fn gate(rounds: usize, repeat: usize) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("config.yaml");
    fs::write(&path, CONFIG)?;
    let path = path.display().to_string();
    let mut unloaded = vec![Vec::new(); PLAN.len()];
    let mut loaded = vec![[const { Vec::new() }; STAGES.len()]; PLAN.len()];
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds} …");
        for ((workload, count, _), found) in PLAN.iter().zip(&mut unloaded) {
            for _ in 0..repeat {
                found.push(measure_time(*workload, *count, Time::Processor, false)?);
            }
        }
        for (index, stage) in STAGES.iter().enumerate() {
            let agent = stage.start(&path)?;
            for ((workload, count, _), found) in PLAN.iter().zip(&mut loaded) {
                for _ in 0..repeat {
                    found[index].push(measure_time(*workload, *count, Time::Processor, stage.judges)?);
                }
            }
            stage.stop(agent)?;
        }
    }
    for (index, stage) in STAGES.iter().enumerate() {
        report::heading(&format!(
            "{}: loaded / unloaded, 200-byte messages, time of both ends' processor",
            stage.heading
        ));
        for ((workload, _, targets), (unloaded, loaded)) in PLAN.iter().zip(unloaded.iter().zip(&loaded)) {
            report::ratio(workload.name(), unloaded, &loaded[index], targets[usize::from(stage.judges)]);
        }
    }
    // Apart from the rounds: counting costs something itself.
    let stats = BpfStats::enable();
    for stage in &STAGES {
        report::heading(&format!("{}: programs, from the kernel's statistics", stage.heading));
        let agent = stage.start(&path)?;
        for (workload, count, _) in PLAN {
            measure_time(workload, count, Time::Processor, stage.judges)?;
        }
        programs(&stage.stop(agent)?)?;
    }
    drop(stats);
    Ok(())
}
