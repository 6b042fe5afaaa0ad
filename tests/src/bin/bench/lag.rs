//! How soon the gate goes by what only the agent can know: a tool that was listed a moment ago, or a server that nobody has heard of.

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::Agent;
use mcpwarden_tests::command::configured;
use mcpwarden_tests::gated::{Gated, WIRINGS};
use mcpwarden_tests::scrape::Scrape;

use crate::report;

const CONFIG: &str = "enforcement: { stdio: neutralize }\npolicy: { denied_tools: ['delete_*'] }\n";
/// From the bytes that told of something to the table that goes by it; docs/reference/metrics.md.
const METRIC: &str = "mcpwarden_gate_lag_seconds";

/// Starts so many servers, one beside the other, which each list two tools; and says within which time the gate knew.
pub fn lag(servers: usize) -> Result<()> {
    let scrape = Scrape::free()?;
    let (_directory, config) = configured(&(scrape.config() + CONFIG))?;
    let agent = Agent::start(&["--config", &config])?;
    let mut running = Vec::new();
    for (number, wiring) in (0..servers).zip(WIRINGS.into_iter().cycle()) {
        running.push(Gated::start_as(&format!("mcp-server-{number}"), &agent, wiring, &[])?);
    }
    agent.settle();
    // Published each second.
    std::thread::sleep(std::time::Duration::from_secs(3));
    let numbers = scrape.numbers()?;
    let all = numbers.get(&format!("{METRIC}_count")).copied().context("the agent says no such metric")?;
    ensure!(all > 0.0, "this kernel has no gate: no table was made");
    report::heading(&format!("{servers} servers, {all} tables: from the bytes that told of it to the table"));
    for quantile in [0.5, 0.9, 0.99, 1.0] {
        let bound = within(&numbers, quantile * all);
        println!("  p{:<3} {bound}", quantile * 100.0);
    }
    drop(running);
    agent.stop()?;
    Ok(())
}

/// The smallest bound of the histogram under which so many are.
fn within(numbers: &std::collections::BTreeMap<String, f64>, least: f64) -> String {
    let bound = |name: &str| {
        Some(name.strip_prefix(METRIC)?.strip_prefix("_bucket{le=\"")?.split('"').next()?.to_owned())
    };
    let buckets = numbers
        .iter()
        .filter(|(_, count)| **count >= least)
        .filter_map(|(name, _)| bound(name)?.parse::<f64>().ok());
    match buckets.fold(f64::INFINITY, f64::min) {
        f64::INFINITY => "more than the last bound of its histogram".to_owned(),
        seconds => format!("within {} ms", seconds * 1_000.0),
    }
}
