//! What holds where a file says nothing, written out.

use crate::config::{Config, Glob, GuardEntry};
use crate::discovery::BUILT_IN;
use crate::guards::{default_priority, is_on};
use crate::terms::{Category, GuardKind};

/// The same configuration with nothing left to be known: built-in patterns, categories, bursts and guards stand in it
/// as they are.
pub fn effective(config: &Config) -> Config {
    let mut all = config.clone();
    all.discovery.server_patterns.get_or_insert_with(|| BUILT_IN.map(Glob::of).to_vec());
    for category in Category::ALL {
        all.inspection.builtin.entry(category).or_insert(true);
    }
    let limits = &mut all.policy.rate_limits;
    let filled = |burst: &mut Option<u32>, rpm: u32| *burst = burst.or(Some(rpm).filter(|rpm| *rpm > 0));
    filled(&mut limits.default_burst, limits.default_rpm);
    for rate in limits.per_server.values_mut().chain(limits.per_tool.values_mut()) {
        filled(&mut rate.burst, rate.calls_per_minute);
    }
    for kind in GuardKind::ALL.into_iter().filter(|kind| !kind.is_external()) {
        let mut servers =
            config.guards.iter().filter(|entry| entry.kind == kind).flat_map(|entry| &entry.servers);
        // One that names every server leaves none to the built-in.
        if servers.all(|glob| glob.as_str() != "*") {
            all.guards.push(GuardEntry { enabled: is_on(config, kind), ..GuardEntry::new(kind) });
        }
    }
    for entry in &mut all.guards {
        entry.priority.get_or_insert(default_priority(entry.kind));
        entry.runs_on.get_or_insert_with(|| entry.kind.phases().to_vec());
    }
    all
}
