//! A configuration into guards in their seats.

use std::collections::HashMap;
use std::sync::Arc;

use super::access::{ServerAccess, ToolAccess};
use super::capabilities::CapabilityCheck;
use super::cross_server::CrossServer;
use super::definitions::{RugPull, ToolPoisoning, ToolShadowing};
use super::executor::{Executor, Seat};
use super::external::{External, ExternalGuard};
use super::rate::Limiter;
use super::rules::{demanding, globs, own_rules, server_globs, tool_rules};
use super::texts::{ResultInjection, Sampling};
use crate::classify::Classifier;
use crate::config::{self, Config, GuardEntry, GuardSettings, ListMode};
use crate::detect::Detector;
use crate::glob::{GlobError, NameGlob};
use crate::guard::Guard;
use crate::terms::{GuardKind, Identity, Phase, ServerId};

/// The priority of a guard that is given none: 10, 15, 20 and so on, in the order of [`GuardKind::ALL`].
pub fn default_priority(kind: GuardKind) -> u8 {
    10 + 5 * kind as u8
}

/// Makes the guards. Those of the configuration's sections are asked about every server that no entry of `guards:`
/// names; an entry without `config` shares what its guard knows with the others of its kind.
///
/// # Errors
/// A glob does not compile; nothing of what [`parse`](crate::config::parse) lets through is one.
pub fn build(
    config: &Config,
    detector: &Arc<Detector>,
    classifier: &Arc<Classifier>,
) -> Result<Executor, GlobError> {
    let mut builder = Builder { config, detector, classifier, guards: Vec::new() };
    // (place in the configuration, seat): those of the sections come after those of `guards:`.
    let mut seats: Vec<(usize, Seat)> = Vec::new();
    for kind in GuardKind::ALL.into_iter().filter(|kind| !kind.is_external()) {
        let entries = config.guards.iter().enumerate().filter(|(_, entry)| entry.kind == kind);
        let base = GuardEntry { enabled: is_on(config, kind), ..GuardEntry::new(kind) };
        let mut shared = None;
        let mut named: Vec<NameGlob> = Vec::new();
        for (place, entry) in entries.chain([(usize::MAX, &base)]) {
            let servers = globs(entry.servers.iter(), config)?;
            if entry.enabled {
                let guard = match (&entry.config, shared) {
                    (Some(settings), _) => builder.make(kind, Some(settings))?,
                    (None, Some(guard)) => guard,
                    (None, None) => *shared.insert(builder.make(kind, None)?),
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
    // Each of these is one by itself.
    let external =
        config.guards.iter().enumerate().filter(|(_, entry)| entry.kind.is_external() && entry.enabled);
    for ((place, entry), external) in external.zip(ExternalGuard::all(config)?) {
        let servers = globs(entry.servers.iter(), config)?;
        seats.push((
            place,
            Seat {
                guard: builder.guards.len(),
                servers: if servers.iter().any(NameGlob::is_any) { Vec::new() } else { servers },
                except: Vec::new(),
                priority: entry.priority.unwrap_or_else(|| default_priority(entry.kind)),
                timeout_ms: entry.timeout_ms,
                failure_mode: entry.failure_mode,
                phases: External::PHASES.to_vec(),
            },
        ));
        builder.guards.push(Box::new(External(external)));
    }
    seats.sort_by_key(|(place, _)| *place);
    Ok(Executor::new(builder.guards, seats.into_iter().map(|(_, seat)| seat).collect()))
}

/// Whether the sections of the configuration turn a guard on.
pub(crate) fn is_on(config: &Config, kind: GuardKind) -> bool {
    let Config { policy, cross_server, .. } = config;
    match kind {
        GuardKind::ToolShadowing => cross_server.enabled && cross_server.shadow_tool.enabled,
        GuardKind::CrossServer => cross_server.enabled,
        GuardKind::RugPull => policy.version_pinning.enabled,
        GuardKind::RateLimit => policy.rate_limits.enabled,
        GuardKind::DisabledTool => !policy.disabled_tools.is_empty(),
        GuardKind::AdminToken => !policy.requires_admin_token.is_empty(),
        GuardKind::Mode
        | GuardKind::SpecFrozen
        | GuardKind::ProjectBinding
        | GuardKind::SideEffects
        | GuardKind::Wasm
        | GuardKind::Http => false,
        GuardKind::ServerAccess
        | GuardKind::ToolAccess
        | GuardKind::ToolPoisoning
        | GuardKind::ResultInjection
        | GuardKind::Sampling => true,
    }
}

struct Builder<'a> {
    config: &'a Config,
    detector: &'a Arc<Detector>,
    classifier: &'a Arc<Classifier>,
    guards: Vec<Box<dyn Guard>>,
}

impl Builder<'_> {
    /// Makes a guard and gives its index.
    fn make(&mut self, kind: GuardKind, settings: Option<&GuardSettings>) -> Result<usize, GlobError> {
        let guard = self.guard(kind, settings)?;
        self.guards.push(guard);
        Ok(self.guards.len() - 1)
    }

    /// A guard by its section, and by the settings of an entry in place of what that says.
    fn guard(&self, kind: GuardKind, settings: Option<&GuardSettings>) -> Result<Box<dyn Guard>, GlobError> {
        let Config { policy, cross_server, inspection, registry, .. } = self.config;
        let case = policy.case_sensitive;
        let classifier = Arc::clone(self.classifier);
        let detector = Arc::clone(self.detector);
        let threshold = inspection.alert_threshold;
        let given = settings.cloned().unwrap_or_default();
        Ok(match kind {
            GuardKind::ToolShadowing => Box::new(ToolShadowing),
            GuardKind::CrossServer => {
                // Whether it is asked is its seat's.
                let rules = config::CrossServer { enabled: true, ..cross_server.clone() };
                Box::new(CrossServer::new(rules, classifier))
            }
            GuardKind::ServerAccess => Box::new(server_access(self.config, settings)?),
            GuardKind::ToolAccess => {
                let allowed = given.allowed_tools.as_ref().unwrap_or(&policy.allowed_tools);
                let denied = given.denied_tools.as_ref().unwrap_or(&policy.denied_tools);
                Box::new(ToolAccess {
                    policy: given.tool_policy.or(implied(&given.allowed_tools)).unwrap_or(policy.tool_policy),
                    allowed: tool_rules(allowed, case)?,
                    denied: tool_rules(denied, case)?,
                    own: own_rules(self.config)?,
                    demanding: demanding(self.config),
                    fail_closed: policy.fail_closed,
                    pending_grace: policy.pending_grace.0,
                    classifier,
                })
            }
            GuardKind::RugPull => {
                let on_change = given.on_change.unwrap_or(policy.version_pinning.on_change);
                Box::new(RugPull { on_change, pin_on_first_use: registry.pin_on_first_use })
            }
            GuardKind::RateLimit => Box::new(Limiter::new(&policy.rate_limits, case)?),
            GuardKind::ToolPoisoning => Box::new(ToolPoisoning::new(&given, inspection)),
            GuardKind::ResultInjection => Box::new(ResultInjection {
                detector,
                threshold,
                action: given.action.unwrap_or_default(),
                bounds: 0,
            }),
            GuardKind::Sampling => Box::new(Sampling {
                detector,
                threshold,
                action: given.action.unwrap_or_default(),
                deny_all: given.deny_all.unwrap_or_default(),
                bounds: 0,
            }),
            GuardKind::DisabledTool | GuardKind::AdminToken => {
                let section = match kind {
                    GuardKind::DisabledTool => &policy.disabled_tools,
                    _ => &policy.requires_admin_token,
                };
                let tools = tool_rules(given.tools.as_ref().unwrap_or(section), case)?;
                Box::new(CapabilityCheck { kind, tools, classifier })
            }
            GuardKind::Mode
            | GuardKind::SpecFrozen
            | GuardKind::ProjectBinding
            | GuardKind::SideEffects
            // Made apart: each entry is a guard.
            | GuardKind::Wasm
            | GuardKind::Http => Box::new(CapabilityCheck { kind, tools: Vec::new(), classifier }),
        })
    }
}

/// What a list of what is allowed means where no mode is given beside it.
fn implied<T>(allowed: &Option<Vec<T>>) -> Option<ListMode> {
    allowed.iter().any(|rules| !rules.is_empty()).then_some(ListMode::Allowlist)
}

fn server_access(config: &Config, settings: Option<&GuardSettings>) -> Result<ServerAccess, GlobError> {
    let Config { policy, .. } = config;
    let given = settings.cloned().unwrap_or_default();
    let allowed = given.allowed_servers.as_ref().unwrap_or(&policy.allowed_servers);
    let denied = given.denied_servers.as_ref().unwrap_or(&policy.denied_servers);
    Ok(ServerAccess {
        policy: given.server_policy.or(implied(&given.allowed_servers)).unwrap_or(policy.server_policy),
        allowed: server_globs(allowed, config)?,
        denied: server_globs(denied, config)?,
        demanding: demanding(config),
        fail_closed: policy.fail_closed,
    })
}

/// What `server_access` says of servers as a whole, before anything is asked of them: what the network hook can stop.
#[derive(Debug)]
pub struct ServerDenials {
    /// Which servers each is for, in the order in which they are looked through; `None`: nothing is denied of those.
    guards: Vec<(Vec<NameGlob>, Option<ServerAccess>)>,
}

impl ServerDenials {
    /// Those of a configuration.
    ///
    /// # Errors
    /// A glob does not compile; nothing of what [`parse`](crate::config::parse) lets through is one.
    pub fn new(config: &Config) -> Result<Self, GlobError> {
        let own = config.guards.iter().filter(|entry| entry.kind == GuardKind::ServerAccess);
        let base = GuardEntry::new(GuardKind::ServerAccess);
        let mut guards = Vec::new();
        for entry in own.chain([&base]) {
            let asked = entry.runs_on.as_ref().is_none_or(|phases| phases.contains(&Phase::Request));
            let guard = server_access(config, entry.config.as_ref())?;
            guards.push((globs(entry.servers.iter(), config)?, (entry.enabled && asked).then_some(guard)));
        }
        Ok(Self { guards })
    }

    /// Why each declared server that is denied is.
    pub fn declared(&self, config: &Config) -> HashMap<ServerId, String> {
        let denied = config.servers.iter().filter_map(|server| {
            let id = ServerId(server.id.as_str().into());
            let why = self.objection(&id, server.enabled, Identity::Declared)?;
            Some((id, why))
        });
        denied.collect()
    }

    /// Why a server that nobody declared is denied; `None`: it is not.
    pub fn undeclared(&self, server: &ServerId) -> Option<String> {
        self.objection(server, true, Identity::Derived)
    }

    fn objection(&self, server: &ServerId, enabled: bool, identity: Identity) -> Option<String> {
        // The first that names a server is the one that is asked about it.
        let is_named = |globs: &[NameGlob]| globs.iter().any(|glob| glob.matches(&server.0));
        let (_, guard) = self.guards.iter().find(|(globs, _)| is_named(globs))?;
        guard.as_ref()?.objection(&server.0, &[], enabled, identity).map(|(_, message)| message)
    }
}

/// The declared servers that `server_access` denies, and why.
///
/// # Errors
/// Those of [`ServerDenials::new`].
pub fn denied_servers(config: &Config) -> Result<HashMap<ServerId, String>, GlobError> {
    Ok(ServerDenials::new(config)?.declared(config))
}

#[cfg(test)]
mod tests;
