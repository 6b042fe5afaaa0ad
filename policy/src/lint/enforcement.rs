//! Denials that nothing enforces as `enforcement` stands, and settings of the gate where there is none.

use super::{besides, is_remote, switched_off, tools_of};
use crate::config::{
    AllowDeny, Config, DetectionAction, Egress, Finding, GuardEntry, GuardSettings, ListMode,
    NetworkEnforcement, OnChange, StdioEnforcement, Step, TextAction, ToolRule, Written, steps,
};
use crate::terms::{GuardKind, Trust};

/// Whether an entry of `guards:` denies what a client sends.
fn denies(entry: &GuardEntry, config: &Config) -> bool {
    let own = entry.config.as_ref();
    let lists = |has: fn(&GuardSettings) -> bool| own.is_some_and(has);
    entry.enabled
        && match entry.kind {
            GuardKind::ResultInjection | GuardKind::Sampling => false,
            GuardKind::ToolPoisoning => config.inspection.on_detection.action != DetectionAction::Alert,
            GuardKind::RugPull => {
                let on_change = own.and_then(|own| own.on_change);
                on_change.unwrap_or(config.policy.version_pinning.on_change) == OnChange::Block
            }
            GuardKind::ServerAccess => lists(|own| {
                own.server_policy == Some(ListMode::Allowlist)
                    || own.allowed_servers.is_some()
                    || own.denied_servers.as_ref().is_some_and(|rules| !rules.is_empty())
            }),
            GuardKind::ToolAccess => lists(|own| {
                own.tool_policy == Some(ListMode::Allowlist)
                    || own.allowed_tools.is_some()
                    || own.denied_tools.as_ref().is_some_and(|rules| !rules.is_empty())
            }),
            _ => tools_of(entry, &config.policy).is_none_or(|(_, given)| given),
        }
}

/// Denials that nothing can enforce as `enforcement` stands.
pub fn unenforceable(config: &Config) -> Vec<Finding> {
    besides(switched_off(config, None), unenforced(config))
}

/// What is denied, and only reported as `enforcement` stands.
pub(super) fn unenforced(config: &Config) -> Vec<Finding> {
    let policy = &config.policy;
    let pinning = &policy.version_pinning;
    let mut found = Vec::new();
    let mut add = |path: Vec<Step>, message: &str| {
        if !message.is_empty() {
            found.push(Finding::new(path, message.to_owned()));
        }
    };
    let network = config.enforcement.network == NetworkEnforcement::Observe;
    // Nothing is to be said of what the gate stops.
    let by_stdio = match config.enforcement.stdio {
        StdioEnforcement::Observe => "it is reported and not enforced while `enforcement.stdio` is `observe`",
        StdioEnforcement::Neutralize | StdioEnforcement::Deny => "",
    };
    let by_network = "it is reported and not enforced while `enforcement.network` is `observe`";
    for (key, denies) in [
        ("denied_servers", !policy.denied_servers.is_empty()),
        ("denied_tools", !policy.denied_tools.is_empty()),
        ("disabled_tools", !policy.disabled_tools.is_empty()),
        ("server_policy", policy.server_policy == ListMode::Allowlist),
        ("tool_policy", policy.tool_policy == ListMode::Allowlist),
        ("fail_closed", policy.fail_closed),
        ("requires_admin_token", !policy.requires_admin_token.is_empty()),
        ("version_pinning", pinning.enabled && pinning.on_change == OnChange::Block),
        ("rate_limits", policy.rate_limits.enabled),
    ] {
        if denies {
            add(steps!["policy", key], by_stdio);
        }
    }
    if by_stdio.is_empty() {
        super::arguments::not_enforced(config, &mut add);
    }
    for (index, entry) in config.sessions.iter().enumerate() {
        for (key, denies) in [
            ("allowed_servers", !entry.allowed_servers.is_empty()),
            ("denied_servers", !entry.denied_servers.is_empty()),
            ("allowed_tools", !entry.allowed_tools.is_empty()),
            ("denied_tools", !entry.denied_tools.is_empty()),
        ] {
            if denies {
                add(steps!["sessions", index, key], by_stdio);
            }
        }
    }
    let any_remote = config.servers.iter().any(is_remote);
    for (index, entry) in config.guards.iter().enumerate() {
        if denies(entry, config) {
            add(steps!["guards", index, "kind"], by_stdio);
            if network && any_remote && entry.kind == GuardKind::ServerAccess {
                add(steps!["guards", index, "kind"], by_network);
            }
        }
        let denies_texts = entry.config.as_ref().is_some_and(|settings| {
            settings.action == Some(TextAction::Block) || settings.deny_all == Some(true)
        });
        if entry.enabled && denies_texts {
            add(steps!["guards", index, "config"], "what a server sends is reported and cannot be stopped");
        }
    }
    if config.inspection.on_detection.action != DetectionAction::Alert {
        add(steps!["inspection", "on_detection", "action"], by_stdio);
    }
    for (path, denies) in [
        (steps!["policy", "denied_servers"], !policy.denied_servers.is_empty() && any_remote),
        (steps!["policy", "server_policy"], policy.server_policy == ListMode::Allowlist && any_remote),
        (steps!["network", "deny"], !config.network.deny.is_empty()),
        (steps!["network", "default"], config.network.default == AllowDeny::Deny),
    ] {
        if network && denies {
            add(path, by_network);
        }
    }
    for (index, server) in config.servers.iter().enumerate() {
        let single = "calls of single tools of a server on the network are reported and not stopped";
        for (key, denies) in [
            ("trust", server.trust == Trust::Low),
            ("allow_tools", !server.allow_tools.is_empty()),
            ("deny_side_effect_tags", !server.deny_side_effect_tags.is_empty()),
        ] {
            if denies {
                add(steps!["servers", index, key], if is_remote(server) { single } else { by_stdio });
            }
        }
        if !server.enabled && !is_remote(server) {
            add(steps!["servers", index, "enabled"], by_stdio);
        }
        if network && !is_remote(server) && server.egress != Egress::default() {
            add(steps!["servers", index, "egress"], by_network);
        }
        if network && is_remote(server) && !server.enabled {
            add(steps!["servers", index, "enabled"], by_network);
        }
        let names_tools = |rule: &&ToolRule| rule.server.as_str() == server.id && rule.tool.as_str() != "*";
        if is_remote(server) && policy.denied_tools.iter().any(|rule| names_tools(&rule)) {
            add(steps!["servers", index], single);
        }
    }
    found
}

/// How the gate is set, where there is none.
pub(super) fn idle_gate(config: &Config, written: &Written<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    if config.enforcement.stdio == StdioEnforcement::Observe {
        for key in ["window_bytes", "undecided", "fallback"] {
            written.each(&["enforcement", key], |path| {
                let message = "no effect while `enforcement.stdio` is `observe`".into();
                found.push(Finding::new(path.to_vec(), message));
            });
        }
    }
    found
}
