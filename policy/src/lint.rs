//! What a configuration says that is accepted and does not do what it seems to, and what holds where it says nothing: that
//! takes the guards to know.
//!
//! [`parse`] and [`check`] are those of [`config`], with the warnings of this module.

mod arguments;
mod effective;
mod enforcement;
mod names;
mod network;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::classify::side_effect_tags;
use crate::config::{
    self, Config, DetectionAction, Finding, GuardEntry, GuardSettings, Level, ListMode, Policy, Problem,
    RateLimits, Server, SessionMatch, Step, ToolRule, VersionPinning, Written, is_every_rule, is_too_broad,
    steps,
};
use crate::guards::{enforcers, is_on};
use crate::terms::{self, GuardKind, Phase, ServerType, Trust};

pub use effective::effective;
pub use enforcement::unenforceable;
use enforcement::{idle_gate, unenforced};

/// Reads a file: the configuration and its warnings.
///
/// # Errors
/// Everything that is wrong with it, warnings included, in the order of the file.
pub fn parse(file: &[u8]) -> Result<(Config, Vec<Problem>), Vec<Problem>> {
    match check(file, |_| Vec::new()) {
        (Some(config), warnings) => Ok((config, warnings)),
        (None, problems) => Err(problems),
    }
}

/// Reads a file, and has it looked at by somebody who knows more, such as the users of a host: `more` is given what of
/// the file is right, and what it finds is said with the rest, in the order of the file. There is no configuration
/// where one problem is an error.
pub fn check(
    file: &[u8],
    more: impl FnOnce(&Config) -> Vec<(Level, Finding)>,
) -> (Option<Config>, Vec<Problem>) {
    config::check(file, |config, written| {
        let mut found: Vec<_> =
            warnings(config, written).into_iter().map(|warning| (Level::Warning, warning)).collect();
        found.extend(more(config));
        found
    })
}

/// Everything that does not do what it seems to, of a configuration that was read from what is written.
fn warnings(config: &Config, written: &Written<'_>) -> Vec<Finding> {
    let mut off = switched_off(config, Some(written));
    off.extend(idle_cross_server(config, written));
    let lists = [
        contradictions(config),
        idle(config),
        idle_guards(config, written),
        idle_sessions(config, written),
        names::ids(config),
        unknown_tags(config),
        network::warnings(config),
        unenforced(config),
        idle_gate(config, written),
    ];
    besides(off, lists.concat())
}

/// What is switched off, and of the rest what is not about that: of what has no effect, no more is to be said.
fn besides(off: Vec<Finding>, rest: Vec<Finding>) -> Vec<Finding> {
    let about_others = |finding: &Finding| off.iter().all(|off| off.path != finding.path);
    let rest: Vec<Finding> = rest.into_iter().filter(about_others).collect();
    off.into_iter().chain(rest).collect()
}

/// What is both allowed and denied.
fn contradictions(config: &Config) -> Vec<Finding> {
    let policy = &config.policy;
    let mut found = Vec::new();
    for (index, rule) in policy.allowed_servers.iter().enumerate() {
        if policy.denied_servers.contains(rule) {
            let message = format!("{} is in `denied_servers`, too, and denied", rule.id);
            found.push(Finding::new(steps!["policy", "allowed_servers", index], message));
        }
    }
    for (index, rule) in policy.allowed_tools.iter().enumerate() {
        let is_same = |denied: &ToolRule| denied.server == rule.server && denied.tool == rule.tool;
        if policy.denied_tools.iter().any(|denied| is_same(denied) && !denied.has_conditions()) {
            let message = format!("{} of {} is in `denied_tools`, too, and denied", rule.tool, rule.server);
            found.push(Finding::new(steps!["policy", "allowed_tools", index], message));
        }
    }
    found
}

/// What is allowed where everything is, and what of `sessions` only guards go by that are off.
fn idle(config: &Config) -> Vec<Finding> {
    use GuardKind::{AdminToken, Mode, ProjectBinding, SideEffects, SpecFrozen};
    let policy = &config.policy;
    let mut found = Vec::new();
    // A guard may have a mode of its own, and what is allowed by name is an exception to a bare `*` in any mode.
    let own = |has: fn(&GuardSettings) -> bool| {
        config.guards.iter().filter_map(|entry| entry.config.as_ref()).any(has)
    };
    let servers = !policy.allowed_servers.is_empty()
        && policy.server_policy != ListMode::Allowlist
        && policy.denied_servers.iter().all(|rule| rule.id.as_str() != "*")
        && !own(|settings| settings.server_policy.is_some());
    let tools = policy.allowed_tools.iter().any(|rule| rule.content_hash.is_none())
        && policy.tool_policy != ListMode::Allowlist
        && policy.denied_tools.iter().all(|rule| rule.tool.as_str() != "*")
        && !own(|settings| settings.tool_policy.is_some());
    for (key, mode, idle) in
        [("allowed_servers", "server_policy", servers), ("allowed_tools", "tool_policy", tools)]
    {
        if idle {
            let message = format!("others are allowed, too, while `{mode}` is not `allowlist`");
            found.push(Finding::new(steps!["policy", key], message));
        }
    }
    let is_on = |kind: GuardKind| is_asked(config, kind);
    let limits = &policy.rate_limits;
    let unlimited = RateLimits { enabled: limits.enabled, ..RateLimits::default() };
    if *limits != unlimited && !is_on(GuardKind::RateLimit) {
        let message = "calls are not limited while `enabled` is not `true`";
        found.push(Finding::new(steps!["policy", "rate_limits"], message.into()));
    }
    let inspection = &config.inspection;
    if !inspection.enabled && inspection.on_detection.action != DetectionAction::Alert {
        let message = "nothing is found while `inspection.enabled` is false";
        found.push(Finding::new(steps!["inspection", "on_detection", "action"], message.into()));
    }
    for (index, muted) in inspection.muted.iter().enumerate() {
        let path = steps!["inspection", "muted", index];
        if !inspection.enabled {
            found.push(Finding::new(path, "nothing is found while `inspection.enabled` is false".into()));
        } else if is_every_rule(muted.rule.as_ref()) && !is_too_broad(muted) {
            let message = "it mutes every rule: no detection in what it names is an alert; `rule` names one";
            found.push(Finding::new(path, message.into()));
        }
    }
    for (index, entry) in config.sessions.iter().enumerate() {
        for (key, given, kind) in [
            ("mode", entry.mode == terms::Mode::Planning, Mode),
            ("spec_frozen", entry.spec_frozen, SpecFrozen),
            ("spec_hash", entry.spec_hash.is_some(), SpecFrozen),
            ("project_id", entry.project_id.is_some(), ProjectBinding),
            ("policy_blacklist", !entry.policy_blacklist.is_empty(), SideEffects),
            ("admin_token_file", entry.admin_token_file.is_some(), AdminToken),
        ] {
            if given && !is_on(kind) {
                let name = kind.name();
                let message = format!(
                    "the guard `{name}` goes by it and is off; `kind: {name}` in `guards` turns it on"
                );
                found.push(Finding::new(steps!["sessions", index, key], message));
            }
        }
    }
    found
}

/// Whether a guard is asked about some server.
pub fn is_asked(config: &Config, kind: GuardKind) -> bool {
    let is_amended = config.guards.iter().any(|entry| entry.kind == kind && entry.enabled);
    is_amended || is_on(config, kind) && switch(config, kind).is_none()
}

/// Entries of `guards:` that are never asked, not where their denials would count, or for less than the sections say.
fn idle_guards(config: &Config, written: &Written<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |path: Vec<Step>, message: String| found.push(Finding::new(path, message));
    for (index, entry) in config.guards.iter().enumerate() {
        let earlier = config.guards.iter().take(index);
        let (name, can) = (entry.kind.name(), entry.kind.phases());
        let covers = |earlier: &GuardEntry| {
            !entry.kind.is_external() && earlier.kind == entry.kind && is_for_every_server(earlier)
        };
        if let Some(first) = { earlier }.position(covers) {
            let first = entry_name(Some(written), "guards", first);
            let message = format!("{first} is of this kind and for every server: this one never counts");
            add(steps!["guards", index], message);
        }
        for (at, phase) in entry.runs_on.iter().flatten().enumerate() {
            if !entry.kind.judges(*phase) && !entry.kind.is_external() {
                let says: Vec<String> = can.iter().map(|phase| format!("`{}`", phase.name())).collect();
                let message = format!(
                    "the guard `{name}` has nothing to say of `{}`, but of {}",
                    phase.name(),
                    says.join(" and ")
                );
                add(steps!["guards", index, "runs_on", at], message);
            }
        }
        let can_stop = |phase: &Phase| entry.kind.judges(*phase) && !enforcers(entry.kind, *phase).is_empty();
        // What one that others wrote denies in any phase holds for calls.
        let stops = can.iter().find(|phase| can_stop(phase) && !entry.kind.is_external());
        if let (Some(runs_on), Some(phase), true) = (&entry.runs_on, stops, entry.enabled)
            && !runs_on.is_empty()
            && !runs_on.contains(phase)
        {
            let path = steps!["guards", index, "runs_on"];
            let phase = phase.name();
            if !runs_on.iter().any(can_stop) {
                let message =
                    format!("without `{phase}` it denies nothing that can be stopped: it only reports");
                add(path, message);
            } else if config.servers.iter().any(is_remote) {
                add(path, format!("without `{phase}` it refuses no connection to a server on the network"));
            }
        }
        let policy = &config.policy;
        if let (Some((key, false)), true) = (tools_of(entry, policy), entry.enabled) {
            let message = format!("it judges nothing: no tool is in its `config.tools` or `policy.{key}`");
            add(steps!["guards", index, "kind"], message);
        }
        let given = |has: fn(&GuardSettings) -> bool| entry.config.as_ref().is_some_and(has);
        for (key, given, dropped) in [
            ("denied_servers", given(|own| own.denied_servers.is_some()), !policy.denied_servers.is_empty()),
            ("denied_tools", given(|own| own.denied_tools.is_some()), !policy.denied_tools.is_empty()),
        ] {
            if given && dropped {
                let message = format!(
                    "it takes the place of `policy.{key}`, which does not hold for the servers of this entry"
                );
                add(steps!["guards", index, "config", key], message);
            }
        }
    }
    found
}

/// Entries of `sessions:` that come after one for every client.
fn idle_sessions(config: &Config, written: &Written<'_>) -> Vec<Finding> {
    let every = SessionMatch::default();
    let Some(first) = config.sessions.iter().position(|entry| entry.matches == every) else {
        return Vec::new();
    };
    let name = entry_name(Some(written), "sessions", first);
    let message = || format!("{name} is for every client: this one never counts");
    let later = first + 1..config.sessions.len();
    later.map(|index| Finding::new(steps!["sessions", index], message())).collect()
}

/// Whether an entry of `guards:` leaves nothing to those of its kind that come later.
fn is_for_every_server(entry: &GuardEntry) -> bool {
    entry.servers.iter().any(|glob| glob.as_str() == "*")
}

fn is_remote(server: &Server) -> bool {
    server.kind != ServerType::Stdio
}

/// The entry of `guards:` that switches a guard off for every server, if one does.
fn switch(config: &Config, kind: GuardKind) -> Option<usize> {
    let mut own = config.guards.iter().enumerate().filter(|(_, entry)| entry.kind == kind);
    let (index, first) = own.find(|(_, entry)| entry.enabled || is_for_every_server(entry))?;
    (!first.enabled).then_some(index)
}

/// Lists and limits that nothing goes by, since the guard that would is switched off.
fn switched_off(config: &Config, written: Option<&Written<'_>>) -> Vec<Finding> {
    use GuardKind::{AdminToken, DisabledTool, RateLimit, RugPull, ServerAccess, ToolAccess, ToolPoisoning};
    let (policy, pinning) = (&config.policy, &config.policy.version_pinning);
    let action = config.inspection.on_detection.action;
    let mut given = vec![
        (steps!["policy", "server_policy"], ServerAccess, policy.server_policy != ListMode::None),
        (steps!["policy", "allowed_servers"], ServerAccess, !policy.allowed_servers.is_empty()),
        (steps!["policy", "denied_servers"], ServerAccess, !policy.denied_servers.is_empty()),
        (steps!["policy", "tool_policy"], ToolAccess, policy.tool_policy != ListMode::None),
        (steps!["policy", "allowed_tools"], ToolAccess, !policy.allowed_tools.is_empty()),
        (steps!["policy", "denied_tools"], ToolAccess, !policy.denied_tools.is_empty()),
        (steps!["policy", "disabled_tools"], DisabledTool, !policy.disabled_tools.is_empty()),
        (steps!["policy", "requires_admin_token"], AdminToken, !policy.requires_admin_token.is_empty()),
        (steps!["policy", "rate_limits"], RateLimit, policy.rate_limits != RateLimits::default()),
        (
            steps!["policy", "version_pinning"],
            RugPull,
            pinning.enabled && *pinning != VersionPinning::default(),
        ),
        (steps!["inspection", "on_detection", "action"], ToolPoisoning, action != DetectionAction::Alert),
    ];
    for (index, server) in config.servers.iter().enumerate() {
        let of_server = |key| steps!["servers", index, key];
        given.extend([
            (of_server("enabled"), ServerAccess, !server.enabled),
            (of_server("trust"), ToolAccess, server.trust == Trust::Low),
            (of_server("allow_tools"), ToolAccess, !server.allow_tools.is_empty()),
            (of_server("deny_side_effect_tags"), ToolAccess, !server.deny_side_effect_tags.is_empty()),
        ]);
    }
    let by_guard = given.into_iter().filter(|(_, _, given)| *given).filter_map(|(path, kind, _)| {
        let switch = entry_name(written, "guards", switch(config, kind)?);
        Some(Finding::new(path, format!("nothing goes by it: {switch} switches `{}` off", kind.name())))
    });
    let settings = config.guards.iter().enumerate().filter(|(_, entry)| !entry.enabled);
    let settings = settings.filter(|(_, entry)| {
        entry.config.as_ref().is_some_and(|settings| *settings != GuardSettings::default())
    });
    let message = "nothing goes by it while `enabled` is false";
    let own = settings.map(|(index, _)| Finding::new(steps!["guards", index, "config"], message.to_owned()));
    by_guard.chain(own).collect()
}

/// Rules of `cross_server` that are written and that nothing goes by, and the guard where it goes by none.
fn idle_cross_server(config: &Config, written: &Written<'_>) -> Vec<Finding> {
    const RULES: [&str; 5] = ["turn_gap", "session_idle", "read_then_send", "burst", "cross_server_flow"];
    let kind = GuardKind::CrossServer;
    let is_on = config.cross_server.enabled;
    let mut is_written = false;
    for key in RULES.into_iter().chain(is_on.then_some("enabled")) {
        written.each(&["cross_server", key], |_| is_written = true);
    }
    let why = match switch(config, kind) {
        _ if !is_on => Some("nothing goes by it while its `enabled` is false".to_owned()),
        Some(index) => {
            let switch = entry_name(Some(written), "guards", index);
            Some(format!("nothing goes by it: {switch} switches `{}` off", kind.name()))
        }
        None => None,
    };
    let section = why.filter(|_| is_written).map(|why| Finding::new(steps!["cross_server"], why));
    let entries = config.guards.iter().enumerate();
    let idle = entries.filter(|(_, entry)| !is_on && entry.enabled && entry.kind == kind);
    let message = "it judges nothing while `cross_server.enabled` is false";
    let guards = idle.map(|(index, _)| Finding::new(steps!["guards", index, "kind"], message.to_owned()));
    section.into_iter().chain(guards).collect()
}

/// The key of `policy` that names the tools of a guard that judges only what is named; and whether it is given some, there
/// or in its entry.
fn tools_of(entry: &GuardEntry, policy: &Policy) -> Option<(&'static str, bool)> {
    let (key, section) = match entry.kind {
        GuardKind::DisabledTool => ("disabled_tools", &policy.disabled_tools),
        GuardKind::AdminToken => ("requires_admin_token", &policy.requires_admin_token),
        _ => return None,
    };
    let own = entry.config.as_ref().and_then(|own| own.tools.as_ref());
    Some((key, !own.unwrap_or(section).is_empty()))
}

/// The side effects that tools are known to have.
pub fn known_side_effects(config: &Config) -> BTreeSet<&str> {
    let own = config.classifier.overrides.iter().flat_map(|entry| entry.side_effect_tags.iter().flatten());
    let mut known: BTreeSet<&str> = side_effect_tags().collect();
    known.extend(own.map(String::as_str));
    known
}

/// Side effects that no tool is known to have.
fn unknown_tags(config: &Config) -> Vec<Finding> {
    let known = known_side_effects(config);
    let servers = config.servers.iter().map(|server| &server.deny_side_effect_tags);
    let sessions = config.sessions.iter().map(|session| &session.policy_blacklist);
    let lists = servers
        .enumerate()
        .map(|(index, tags)| (steps!["servers", index, "deny_side_effect_tags"], tags))
        .chain(
            sessions.enumerate().map(|(index, tags)| (steps!["sessions", index, "policy_blacklist"], tags)),
        );
    let mut found = Vec::new();
    for (path, tags) in lists {
        for (index, tag) in tags.iter().enumerate().filter(|(_, tag)| !known.contains(tag.as_str())) {
            let path = path.iter().cloned().chain([Step::from(index)]).collect();
            let all: Vec<&str> = known.iter().copied().collect();
            let message = format!(
                "no tool is known to have it: there are {}, and those that `classifier.overrides` gives",
                all.join(", ")
            );
            found.push(Finding::new(path, message).nearest_of(tag, known.iter().copied()));
        }
    }
    found
}

/// What an entry of a list at the top is called in messages, by the file where there is one.
fn entry_name(written: Option<&Written<'_>>, list: &str, index: usize) -> String {
    written.map_or_else(|| format!("{list}[{index}]"), |written| written.entry_name(list, index))
}
