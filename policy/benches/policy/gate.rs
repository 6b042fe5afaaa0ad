//! What a table of the gate takes, which the reader of the ring waits for.

use std::collections::BTreeMap;
use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcpwarden_policy::config;
use mcpwarden_policy::detect::{DetectConfig, Detector, RuleSet};
use mcpwarden_policy::event::Identity;
use mcpwarden_policy::gate::{GateCompiler, GateSubject};
use mcpwarden_policy::guard::{Listing, Profile, ToolFacts, Trust};
use mcpwarden_policy::{ServerId, Timestamp};

const ROUNDS: usize = 31;
/// Tools of each server.
const TOOLS: usize = 20;
const CONFIG: &[u8] = b"policy: { denied_tools: ['delete_*', { server: files, tool: 'drop_*' }, 'admin_*'] }";

/// Measures and prints.
pub fn run() -> Result<(), Box<dyn Error>> {
    let detector = Arc::new(
        Detector::new(RuleSet::default(), &DetectConfig::default())
            .map_err(|errors| format!("{errors:?}"))?,
    );
    let (config, _) = config::parse(CONFIG).map_err(|errors| format!("{errors:?}"))?;
    for others in [0, 10, 50] {
        let mut spent = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            let mut compiler = GateCompiler::new(&config, &detector)?;
            let before: Vec<GateSubject> = (0..others).map(server).collect();
            let with = [&before[..], &[server(others)]].concat();
            for (subjects, spent) in [&before, &with, &with].into_iter().zip(&mut spent) {
                let started = Instant::now();
                black_box(compiler.compile(subjects, 1, Timestamp(1))?);
                spent.push(started.elapsed());
            }
        }
        let [all, one, none] = spent.map(median);
        println!(
            "gate: a table of {others} servers with {TOOLS} tools each {all:.2} ms; one more server {one:.2} ms; none new {none:.2} ms"
        );
    }
    Ok(())
}

fn server(number: usize) -> GateSubject {
    let facts = |tool: usize| {
        let name: Arc<str> = format!("tool_name_{number}_{tool}").into();
        (Arc::clone(&name), ToolFacts { name, ..ToolFacts::default() })
    };
    GateSubject {
        server: ServerId(format!("server-{number}").into()),
        also: Vec::new(),
        identity: Identity::Derived,
        enabled: true,
        trust: Trust::Medium,
        listing: Listing::Unknown,
        profile: Profile::default(),
        tools: (0..TOOLS).map(facts).collect::<BTreeMap<_, _>>(),
        block: None,
        standing: Vec::new(),
    }
}

/// Milliseconds.
fn median(mut spent: Vec<Duration>) -> f64 {
    spent.sort_unstable();
    spent.get(spent.len() / 2).map_or(0.0, Duration::as_secs_f64) * 1e3
}
