//! What capturing and judging calls costs, on a kernel that can do both: in a virtual machine, `cargo xtask vm --kernel 6.12
//! --append nr_cpus=1 -- target/release/bench gate`. Emulation stretches everything; ratios of one round remain. The emulator has one
//! thread for all processors: so only what both ends have of theirs is counted, and there is one, or its clock would go on
//! while the agent has another.

use std::fs;

use anyhow::{Result, ensure};

use crate::agent::{Agent, BpfStats, Sink, programs};
use crate::measure_time;
use crate::report;
use crate::workload::{Time, Workload};

/// The workloads, how many operations each takes, and the ratios that were promised: capturing alone, and judging too.
const PLAN: [(Workload, u64, [f64; 2]); 4] = [
    (Workload::DevNull, 50_000, [1.01, 1.3]),
    (Workload::UntrackedPipe, 4_000, [1.03, 1.1]),
    (Workload::TrackedPipe, 4_000, [1.4, 1.6]),
    (Workload::TrackedSocket, 4_000, [1.4, 1.6]),
];

const CONFIG: &str = "enforcement: { stdio: neutralize }\npolicy: { denied_tools: ['delete_*'] }\n";

/// Measures without an agent, with one that captures, and with one that judges, one after the other in each round.
pub fn gate(rounds: usize) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("config.yaml");
    fs::write(&path, CONFIG)?;
    let path = path.display().to_string();
    let mut found = vec![[Vec::new(), Vec::new(), Vec::new()]; PLAN.len()];
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds} …");
        for stage in 0..3 {
            let agent = match stage {
                0 => None,
                1 => Some(Agent::start(&[], Sink::Nowhere)?),
                _ => Some(Agent::start(&["--config", &path], Sink::Nowhere)?),
            };
            for ((workload, count, _), found) in PLAN.iter().zip(&mut found) {
                found[stage].push(measure_time(*workload, *count, Time::Processor)?);
            }
            if let Some(agent) = agent {
                let events = fs::read_to_string(agent.stop()?.path().join("events.jsonl"))?;
                let is_gated =
                    events.lines().next().is_some_and(|line| line.contains("gate lsm/file_permission"));
                ensure!(is_gated == (stage == 2), "this kernel has no gate, or another agent has it");
            }
        }
    }
    for (stage, heading) in ["capturing alone", "capturing and judging"].into_iter().enumerate() {
        report::heading(&format!(
            "{heading}: loaded / unloaded, 200-byte messages, time of both ends' processor"
        ));
        for ((workload, _, targets), [unloaded, loaded @ ..]) in PLAN.iter().zip(&found) {
            report::ratio(workload.name(), unloaded, &loaded[stage], targets[stage]);
        }
    }
    // Apart from the rounds: counting costs something itself.
    let stats = BpfStats::enable();
    for (args, heading) in [(&[][..], "capturing alone"), (&["--config", &path], "capturing and judging")] {
        report::heading(&format!("{heading}: programs, from the kernel's statistics"));
        let agent = Agent::start(args, Sink::Nowhere)?;
        for (workload, count, _) in PLAN {
            measure_time(workload, count, Time::Processor)?;
        }
        programs(&agent.stop()?)?;
    }
    drop(stats);
    Ok(())
}
