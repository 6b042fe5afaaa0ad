//! A configuration into guards in their seats.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::access::{ServerAccess, ToolAccess, own_rules, server_globs, tool_rules};
use super::config::{
    GuardEntry, GuardsConfig, ListPolicy, ServerAccessConfig, ShadowTool, ToolAccessConfig,
    ToolPoisoningConfig, ToolsConfig,
};
use super::cross_server::CrossServer;
use super::definitions::{RugPull, ToolPoisoning, ToolShadowing};
use super::executor::{Executor, Seat};
use super::gates::Gate;
use super::rate::Limiter;
use super::texts::{ResultInjection, Sampling};
use crate::classify::Classifier;
use crate::detect::{CustomPattern, Detector};
use crate::event::Severity;
use crate::glob::{NameGlob, Problem};
use crate::guard::{Guard, GuardKind};

/// Highest priority that can be given.
const MAX_PRIORITY: u8 = 100;
/// What `timeout_ms` can be.
const TIMEOUTS_MS: std::ops::RangeInclusive<u32> = 10..=10_000;
/// Most calls that `burst.max_calls` can allow; more are not remembered.
const MAX_BURST_CALLS: usize = 1_000;

/// The priority of a guard that is given none: 10, 15, 20 and so on, in the order of [`GuardKind::ALL`].
pub fn default_priority(kind: GuardKind) -> u8 {
    10 + 5 * kind as u8
}

/// The user's patterns of every `tool_poisoning` under `guards:`, for the detector.
pub fn custom_patterns(guards: &[GuardEntry]) -> Vec<CustomPattern> {
    let configs = guards
        .iter()
        .filter(|entry| entry.kind == GuardKind::ToolPoisoning && entry.enabled)
        .filter_map(|entry| entry.config.as_ref())
        .filter_map(|config| serde_json::from_value::<ToolPoisoningConfig>(config.clone()).ok());
    configs
        .flat_map(|config| config.custom_patterns)
        .enumerate()
        .map(|(index, pattern)| CustomPattern {
            name: format!("tool_poisoning_{}", index + 1),
            pattern,
            severity: Severity::High,
            description: "custom_patterns of a tool_poisoning under guards".to_owned(),
        })
        .collect()
}

/// Makes the guards. Those of the configuration's sections are asked about every server that no entry of `guards:`
/// names; an entry without `config` shares what its guard knows with the others of its kind.
///
/// # Errors
/// Everything that is wrong, with its place.
pub fn build(
    config: &GuardsConfig,
    detector: &Arc<Detector>,
    classifier: &Arc<Classifier>,
) -> Result<Executor, Vec<Problem>> {
    let mut builder = Builder { config, detector, classifier, guards: Vec::new(), problems: Vec::new() };
    check_cross_server(config, &mut builder.problems);
    // (place in the configuration, seat): those of the sections come after those of `guards:`.
    let mut seats: Vec<(usize, Seat)> = Vec::new();
    for kind in GuardKind::ALL {
        let entries: Vec<(usize, &GuardEntry)> =
            config.guards.iter().enumerate().filter(|(_, entry)| entry.kind == kind).collect();
        let base = GuardEntry { enabled: builder.is_on(kind), ..GuardEntry::new(kind) };
        let mut shared = None;
        let mut named: Vec<NameGlob> = Vec::new();
        for (place, entry) in entries.into_iter().chain([(usize::MAX, &base)]) {
            let at = format!("guards[{place}]");
            let servers = builder.servers(entry, &at);
            builder.check(entry, &at);
            if entry.enabled {
                let guard = match (&entry.config, shared) {
                    (Some(config), _) => builder.make(kind, Some(config), &format!("{at}.config")),
                    (None, Some(guard)) => guard,
                    (None, None) => *shared.insert(builder.make(kind, None, "")),
                };
                let phases =
                    builder.guards.get(guard).map(|guard| guard.phases().to_vec()).unwrap_or_default();
                let seat = Seat {
                    guard,
                    servers: if servers.iter().any(NameGlob::is_any) { Vec::new() } else { servers.clone() },
                    except: named.clone(),
                    priority: entry.priority.unwrap_or_else(|| default_priority(kind)),
                    timeout_ms: entry.timeout_ms,
                    failure_mode: entry.failure_mode,
                    phases: entry.runs_on.clone().unwrap_or(phases),
                };
                // Nothing is left for who comes after one that names every server.
                if !seat.except.iter().any(NameGlob::is_any) {
                    seats.push((place, seat));
                }
            }
            named.extend(servers);
        }
    }
    if !builder.problems.is_empty() {
        return Err(builder.problems);
    }
    seats.sort_by_key(|(place, _)| *place);
    Ok(Executor::new(builder.guards, seats.into_iter().map(|(_, seat)| seat).collect()))
}

fn check_cross_server(config: &GuardsConfig, problems: &mut Vec<Problem>) {
    if !(1..=MAX_BURST_CALLS).contains(&config.cross_server.burst.max_calls) {
        let expected = format!("expected 1 to {MAX_BURST_CALLS}");
        problems.push(Problem::new("cross_server.burst.max_calls", expected));
    }
}

struct Builder<'a> {
    config: &'a GuardsConfig,
    detector: &'a Arc<Detector>,
    classifier: &'a Arc<Classifier>,
    guards: Vec<Box<dyn Guard>>,
    problems: Vec<Problem>,
}

impl Builder<'_> {
    /// Whether the sections of the configuration turn a guard on.
    fn is_on(&self, kind: GuardKind) -> bool {
        let GuardsConfig { policy, cross_server, .. } = self.config;
        match kind {
            GuardKind::ToolShadowing => cross_server.enabled && cross_server.shadow_tool.enabled,
            GuardKind::CrossServer => cross_server.enabled,
            GuardKind::RugPull => policy.version_pinning.enabled,
            GuardKind::RateLimit => policy.rate_limits.enabled,
            GuardKind::DisabledTool => !policy.disabled_tools.is_empty(),
            GuardKind::AdminToken => !policy.requires_admin_token.is_empty(),
            GuardKind::Mode | GuardKind::SpecFrozen | GuardKind::ProjectBinding | GuardKind::SideEffects => {
                false
            }
            GuardKind::ServerAccess
            | GuardKind::ToolAccess
            | GuardKind::ToolPoisoning
            | GuardKind::ResultInjection
            | GuardKind::Sampling => true,
        }
    }

    fn servers(&mut self, entry: &GuardEntry, at: &str) -> Vec<NameGlob> {
        if entry.servers.is_empty() {
            self.problems
                .push(Problem::new(format!("{at}.servers"), "is empty; leave it out for every server"));
        }
        let mut globs = Vec::new();
        for (index, server) in entry.servers.iter().enumerate() {
            match NameGlob::new(server, self.config.policy.case_sensitive, &format!("{at}.servers[{index}]"))
            {
                Ok(glob) => globs.push(glob),
                Err(problem) => self.problems.push(problem),
            }
        }
        globs
    }

    fn check(&mut self, entry: &GuardEntry, at: &str) {
        if entry.priority.is_some_and(|priority| priority > MAX_PRIORITY) {
            self.problems.push(Problem::new(format!("{at}.priority"), "expected 0 to 100"));
        }
        if !TIMEOUTS_MS.contains(&entry.timeout_ms) {
            self.problems.push(Problem::new(format!("{at}.timeout_ms"), "expected 10 to 10000"));
        }
        if entry.runs_on.as_ref().is_some_and(Vec::is_empty) {
            let expected = "is empty; leave it out for the phases of the kind";
            self.problems.push(Problem::new(format!("{at}.runs_on"), expected));
        }
    }

    /// What an entry tells its guard, or else what a section does.
    fn told<T: DeserializeOwned + Default>(&mut self, config: Option<&Value>, at: &str, section: T) -> T {
        let Some(config) = config else { return section };
        serde_json::from_value(config.clone()).unwrap_or_else(|error| {
            self.problems.push(Problem::new(at, error.to_string()));
            T::default()
        })
    }

    /// Makes a guard and gives its index.
    fn make(&mut self, kind: GuardKind, config: Option<&Value>, at: &str) -> usize {
        let guard = self.guard(kind, config, at);
        self.guards.push(guard);
        self.guards.len() - 1
    }

    fn guard(&mut self, kind: GuardKind, config: Option<&Value>, at: &str) -> Box<dyn Guard> {
        let policy = &self.config.policy;
        let case = policy.case_sensitive;
        let classifier = Arc::clone(self.classifier);
        let threshold = self.config.inspection.alert_threshold;
        // Where the lists of the access guards stand.
        let section = if config.is_some() { at } else { "policy" };
        match kind {
            GuardKind::ToolShadowing => {
                let shadow = self.told(config, at, ShadowTool::default());
                Box::new(ToolShadowing { enabled: shadow.enabled })
            }
            GuardKind::CrossServer => {
                let rules = self.told(config, at, self.config.cross_server.clone());
                Box::new(CrossServer::new(rules, classifier))
            }
            GuardKind::ServerAccess => {
                let lists = self.told(
                    config,
                    at,
                    ServerAccessConfig {
                        server_policy: Some(policy.server_policy),
                        allowed_servers: policy.allowed_servers.clone(),
                        denied_servers: policy.denied_servers.clone(),
                    },
                );
                let problems = &mut self.problems;
                let allowed = server_globs(
                    &lists.allowed_servers,
                    case,
                    &format!("{section}.allowed_servers"),
                    problems,
                );
                let denied =
                    server_globs(&lists.denied_servers, case, &format!("{section}.denied_servers"), problems);
                let list_policy = lists.server_policy.unwrap_or(implied(!allowed.is_empty()));
                Box::new(ServerAccess::new(list_policy, allowed, denied, policy.fail_closed))
            }
            GuardKind::ToolAccess => {
                let lists = self.told(
                    config,
                    at,
                    ToolAccessConfig {
                        tool_policy: Some(policy.tool_policy),
                        allowed_tools: policy.allowed_tools.clone(),
                        denied_tools: policy.denied_tools.clone(),
                    },
                );
                let problems = &mut self.problems;
                let allowed =
                    tool_rules(&lists.allowed_tools, case, &format!("{section}.allowed_tools"), problems);
                Box::new(ToolAccess {
                    policy: lists.tool_policy.unwrap_or(implied(!allowed.is_empty())),
                    allowed,
                    denied: tool_rules(
                        &lists.denied_tools,
                        case,
                        &format!("{section}.denied_tools"),
                        problems,
                    ),
                    own: own_rules(&self.config.servers, case, problems),
                    fail_closed: policy.fail_closed,
                    pending_grace: policy.pending_grace,
                    classifier,
                })
            }
            GuardKind::RugPull => {
                let pinning = self.told(config, at, policy.version_pinning.clone());
                Box::new(RugPull { pinning, first_use: self.config.first_use })
            }
            GuardKind::RateLimit => {
                let at = if config.is_some() { at } else { "policy.rate_limits" };
                let limits = self.told(config, at, policy.rate_limits.clone());
                Box::new(Limiter::new(&limits, case, at, &mut self.problems))
            }
            GuardKind::ToolPoisoning => {
                let told = self.told(config, at, ToolPoisoningConfig::default());
                if told.min_detections == 0 {
                    self.problems.push(Problem::new(format!("{at}.min_detections"), "expected at least 1"));
                }
                if told.scan_fields.as_ref().is_some_and(std::collections::BTreeSet::is_empty) {
                    let expected = "is empty; leave it out for every field";
                    self.problems.push(Problem::new(format!("{at}.scan_fields"), expected));
                }
                Box::new(ToolPoisoning::new(&told, &self.config.inspection))
            }
            GuardKind::ResultInjection => {
                let config = self.told(config, at, Default::default());
                Box::new(ResultInjection {
                    detector: Arc::clone(self.detector),
                    threshold,
                    config,
                    bounds: 0,
                })
            }
            GuardKind::Sampling => {
                let config = self.told(config, at, Default::default());
                Box::new(Sampling { detector: Arc::clone(self.detector), threshold, config, bounds: 0 })
            }
            GuardKind::DisabledTool | GuardKind::AdminToken => {
                let (name, tools) = if kind == GuardKind::DisabledTool {
                    ("disabled_tools", &policy.disabled_tools)
                } else {
                    ("requires_admin_token", &policy.requires_admin_token)
                };
                let name = if config.is_some() { "tools" } else { name };
                let told = self.told(config, at, ToolsConfig { tools: tools.clone() });
                let tools = tool_rules(&told.tools, case, &format!("{section}.{name}"), &mut self.problems);
                Box::new(Gate { kind, tools, classifier })
            }
            GuardKind::Mode | GuardKind::SpecFrozen | GuardKind::ProjectBinding | GuardKind::SideEffects => {
                if config.is_some_and(|config| config.as_object().is_none_or(|config| !config.is_empty())) {
                    self.problems.push(Problem::new(at, format!("{} takes no config", kind.name())));
                }
                Box::new(Gate { kind, tools: Vec::new(), classifier })
            }
        }
    }
}

/// What a list of what is allowed means where no policy is given beside it.
fn implied(allowed: bool) -> ListPolicy {
    if allowed { ListPolicy::Allowlist } else { ListPolicy::None }
}
