//! What the configuration says to each module, as that module's own settings.

use std::collections::HashMap;

use crate::config::{
    AddressRule, AllowDeny, Config, Glob, GuardPattern, HttpUrl, NetworkEnforcement, Registry, Server, Step,
    TlsCapture, steps,
};
use crate::detect::{CustomPattern, DetectConfig, ScorerModel, ServerPatterns};
use crate::discovery::{BUILT_IN, Declared, NamePatterns, Remote};
use crate::event::Mute;
use crate::glob::GlobError;
use crate::mutes;
use crate::network::{NetworkRules, NetworkServer, Rule};
use crate::registry::RegistrySettings;
use crate::terms::{Category, GuardKind, ServerId, ServerType};

/// The patterns that name MCP servers.
///
/// # Errors
/// A pattern is no glob, which [`parse`](crate::config::parse) does not let through.
pub fn patterns(config: &Config) -> Result<NamePatterns, GlobError> {
    let texts = |globs: &[Glob]| globs.iter().map(|glob| glob.as_str().to_owned()).collect::<Vec<_>>();
    let built_in = || BUILT_IN.map(str::to_owned).to_vec();
    let patterns = config.discovery.server_patterns.as_deref().map_or_else(built_in, texts);
    NamePatterns::new(&patterns, &texts(&config.discovery.custom_servers))
}

/// What is looked for, besides the rules in files.
pub fn detect(config: &Config) -> DetectConfig {
    let section = &config.inspection;
    let own = section.custom_patterns.iter().map(|own| CustomPattern {
        name: own.name.clone(),
        pattern: own.pattern.as_str().to_owned(),
        severity: own.severity,
        description: own.description.clone(),
    });
    DetectConfig {
        disabled: switched_off(config).collect(),
        custom_patterns: own.collect(),
        of_servers: patterns_of_guards(config),
        scorer: if section.learned_scorer.enabled { ScorerModel::BuiltIn } else { ScorerModel::Off },
    }
}

/// The patterns of the entries for `tool_poisoning`. The first that names a server is the one for it, whether it has
/// patterns or not.
fn patterns_of_guards(config: &Config) -> Vec<ServerPatterns> {
    let pattern = |place: [usize; 2], GuardPattern { pattern, severity }: &GuardPattern| CustomPattern {
        name: guard_pattern(place),
        pattern: pattern.as_str().to_owned(),
        severity: *severity,
        description: "custom_patterns of a tool_poisoning under guards".to_owned(),
    };
    let entries = config.guards.iter().enumerate();
    let entries = entries.filter(|(_, entry)| entry.kind == GuardKind::ToolPoisoning);
    let patterns = entries.map(|(guard, entry)| {
        let settings = entry.config.as_ref().filter(|_| entry.enabled);
        let own = settings.and_then(|settings| settings.custom_patterns.as_deref()).unwrap_or_default();
        ServerPatterns {
            servers: entry.servers.iter().map(|glob| glob.as_str().to_owned()).collect(),
            case_sensitive: config.policy.case_sensitive,
            patterns: own.iter().enumerate().map(|(index, own)| pattern([guard, index], own)).collect(),
        }
    });
    patterns.collect()
}

/// A pattern of the user's, by where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternPlace {
    /// The entry of `inspection.custom_patterns`. It has a name.
    Inspection(usize),
    /// The entry of `guards`, and the one of its `config.custom_patterns`. It has none.
    Guard(usize, usize),
}

impl PatternPlace {
    /// The path of what says which pattern it is: its name, where it has one.
    pub fn path(self) -> Vec<Step> {
        match self {
            Self::Inspection(index) => steps!["inspection", "custom_patterns", index, "name"],
            Self::Guard(entry, index) => steps!["guards", entry, "config", "custom_patterns", index],
        }
    }
}

/// Where the pattern stands that the detector knows by this name.
pub fn place_of_pattern(config: &Config, name: &str) -> Option<PatternPlace> {
    let own = config.inspection.custom_patterns.iter().position(|own| own.name == name);
    let of_guards = || {
        let settings = config.guards.iter().map(|entry| entry.config.as_ref()?.custom_patterns.as_ref());
        let mut places = settings
            .enumerate()
            .flat_map(|(guard, own)| (0..own.map_or(0, Vec::len)).map(move |index| [guard, index]));
        let [guard, index] = places.find(|place| guard_pattern(*place) == name)?;
        Some(PatternPlace::Guard(guard, index))
    };
    own.map(PatternPlace::Inspection).or_else(of_guards)
}

/// The detections that are no alerts.
pub fn muted(config: &Config) -> Vec<Mute> {
    mutes::configured(&config.inspection.muted)
}

/// What is pinned, and when names are nearly the same.
pub fn registry(config: &Config) -> RegistrySettings {
    let Registry { pin_on_first_use, alert_on_change, persistent } = config.registry;
    let similarity_threshold = config.inspection.similarity_threshold;
    RegistrySettings {
        pin_on_first_use,
        alert_on_change,
        persistent,
        similarity_threshold,
        switched_off: switched_off(config).collect(),
        ..RegistrySettings::default()
    }
}

/// The categories of what is found that are switched off.
fn switched_off(config: &Config) -> impl Iterator<Item = Category> {
    config.inspection.builtin.iter().filter(|(_, on)| !**on).map(|(category, _)| *category)
}

/// The declared servers that are at addresses.
pub fn remote(config: &Config) -> Vec<Remote> {
    let remote = |server: &Server| {
        let url = server.url.as_ref()?;
        Some(Remote {
            id: ServerId(server.id.as_str().into()),
            address: url.address()?.to_string(),
            path: url.path().to_owned(),
            tls: !url.is_plain(),
        })
    };
    config.servers.iter().filter_map(remote).collect()
}

/// The declared servers that are programs.
pub fn declared(config: &Config) -> Vec<Declared> {
    let declared = |server: &Server| {
        server.command.as_ref().map(|command| Declared {
            id: ServerId(server.id.as_str().into()),
            command: command.clone(),
            args: server.args.clone(),
            executables: server.executable.iter().map(|path| path.as_str().to_owned()).collect(),
            interpreter: server.interpreter.as_ref().map(|path| path.as_str().to_owned()),
        })
    };
    config.servers.iter().filter_map(declared).collect()
}

/// All that decides about connections. `denied`: why servers may not be used at all, of
/// `denied_servers` of the module `guards`.
pub fn network_rules(config: &Config, denied: &HashMap<ServerId, String>) -> NetworkRules {
    let network = &config.network;
    let servers = config.servers.iter().map(|server| {
        let id = ServerId(server.id.as_str().into());
        let only = server.egress.only().filter(|_| server.kind == ServerType::Stdio);
        NetworkServer {
            kind: server.kind,
            address: server.url.as_ref().and_then(|url| url.address()),
            plain: server.url.as_ref().is_some_and(HttpUrl::is_plain),
            denied: denied.get(&id).cloned(),
            egress: only.map(|rules| of_list(rules, &format!("egress of server '{id}'"))),
            is_model: false,
            id,
        }
    });
    let reads_models = config.capture.tls == TlsCapture::Clients;
    let models = config.capture.model_apis.iter().filter(|url| url.is_plain() || reads_models);
    let models = models.map(|url| NetworkServer {
        // No declared server has an id with a blank.
        id: ServerId(format!("model api {url}").into()),
        kind: ServerType::Http,
        address: url.address(),
        plain: url.is_plain(),
        denied: None,
        egress: None,
        is_model: true,
    });
    NetworkRules {
        enforced: config.enforcement.network == NetworkEnforcement::Deny,
        deny_by_default: network.default == AllowDeny::Deny,
        deny: of_list(&network.deny, "network.deny"),
        allow: of_list(&network.allow, "network.allow"),
        servers: servers.chain(models).collect(),
        found: Vec::new(),
    }
}

/// Rules with where they stand.
fn of_list(rules: &[AddressRule], list: &str) -> Vec<Rule> {
    let named = |(index, rule): (usize, &AddressRule)| Rule {
        origin: format!("{list}[{index}]"),
        address: rule.address.clone(),
        reason: rule.reason.clone(),
    };
    rules.iter().enumerate().map(named).collect()
}

/// What the detector calls a pattern of a guard: by the entry of `guards` and the number in it.
fn guard_pattern([guard, index]: [usize; 2]) -> String {
    format!("guards[{guard}].custom_patterns[{index}]")
}

#[cfg(test)]
mod tests;
