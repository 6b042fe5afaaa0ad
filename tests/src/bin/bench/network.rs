//! What judging connections costs.

use std::fmt::Write as _;
use std::fs;

use anyhow::Result;

use crate::agent::{Agent, BpfStats, Sink, programs};
use crate::measure;
use crate::report;
use crate::workload::Workload;

/// Rules on whole addresses, and as many on blocks of them.
const RULES: usize = 5_000;
/// Connections of one measurement.
const COUNT: u64 = 20_000;

/// A configuration of many rules, none of which is about what is measured.
fn rules() -> String {
    let mut text = String::from("network:\n  deny:\n");
    for number in 0..RULES {
        let (high, low) = (number / 250, number % 250);
        // Writing to a string does not fail.
        let _ = writeln!(text, "    - 10.{high}.{low}.1:443\n    - 127.{}.{low}.0/24", 16 + high);
    }
    text + "enforcement: { network: deny }\n"
}

/// Ratios of loaded to unloaded, and nanoseconds of each program.
pub fn network(rounds: usize) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let written = |name: &str, text: String| -> Result<String> {
        let config = directory.path().join(name);
        fs::write(&config, text)?;
        Ok(config.display().to_string())
    };
    let config = written("config.yaml", rules())?;
    let declared = written("declared.yaml", rules() + "discovery: { loopback: false }\n")?;
    let args = ["--config", &config];
    let declared_alone = ["--config", &declared];
    let plan = [(Workload::Connections, 1.03), (Workload::Datagrams, 2.0), (Workload::NearDatagrams, 2.5)];
    let (mut unloaded, mut loaded) = (vec![Vec::new(); plan.len()], vec![Vec::new(); plan.len()]);
    let mut without_discovery = Vec::new();
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds} …");
        for (slot, (workload, _)) in plan.iter().enumerate() {
            unloaded[slot].push(measure(*workload, COUNT)?);
        }
        let agent = Agent::start(&args, Sink::Nowhere)?;
        for (slot, (workload, _)) in plan.iter().enumerate() {
            loaded[slot].push(measure(*workload, COUNT)?);
        }
        agent.stop()?;
        let agent = Agent::start(&declared_alone, Sink::Nowhere)?;
        without_discovery.push(measure(Workload::Connections, COUNT)?);
        agent.stop()?;
    }
    report::heading(&format!("cost of judging connections, {} rules loaded: loaded / unloaded", 2 * RULES));
    for (slot, (workload, target)) in plan.iter().enumerate() {
        report::ratio(workload.name(), &unloaded[slot], &loaded[slot], *target);
    }
    report::heading("the same with discovery.loopback: false");
    let (connections, target) = plan[0];
    report::ratio(connections.name(), &unloaded[0], &without_discovery, target);
    for (workload, args, what) in [
        (Workload::Connections, args, "connections far from every rule"),
        (Workload::Connections, declared_alone, "the same with discovery.loopback: false"),
        (Workload::NearDatagrams, args, "an address between those that rules name"),
    ] {
        report::heading(&format!("programs, from the kernel's statistics (target: 250 ns): {what}"));
        let stats = BpfStats::enable();
        let agent = Agent::start(&args, Sink::File)?;
        measure(workload, COUNT)?;
        // Counters are read once a second.
        std::thread::sleep(std::time::Duration::from_millis(1_500));
        let directory = agent.stop()?;
        drop(stats);
        programs(&directory)?;
    }
    Ok(())
}
