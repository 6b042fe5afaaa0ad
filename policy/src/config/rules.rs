//! What no schema says: keys that need or exclude each other, and what is accepted but does not do what it seems to.

use std::fmt;

use super::check::joined;
use super::problem::{did_you_mean, nearest};
use super::tree::{Kind, Node};
use super::*;
use crate::guard::GuardKind;

/// One step of a path.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Into the value of a key.
    Key(String),
    /// Into an entry of a list.
    Index(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// Something that is wrong with a configuration that was read, at a path in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Where.
    pub path: Vec<Step>,
    /// What.
    pub message: String,
    /// The nearest valid word, where there is one.
    pub nearest: Option<String>,
}

impl Finding {
    /// One without a word that would be right.
    pub fn new(path: Vec<Step>, message: String) -> Self {
        Self { path, message, nearest: None }
    }

    /// With the valid word that is nearest to a wrong one, if one is near.
    pub fn nearest_of<'a>(self, wrong: &str, valid: impl Iterator<Item = &'a str>) -> Self {
        Self { nearest: nearest(wrong, valid), ..self }
    }
}

impl fmt::Display for Finding {
    /// `path: message; did you mean …?`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.iter().fold(String::new(), |path, step| match step {
            Step::Key(key) => joined(&path, key),
            Step::Index(index) => format!("{path}[{index}]"),
        });
        write!(formatter, "{path}: {}", self.message)?;
        did_you_mean(self.nearest.as_deref(), formatter)
    }
}

macro_rules! path {
    ($($step:expr),*) => { vec![$(Step::from($step)),*] };
}

/// Sections and keys that are read and checked, and that nothing in this version acts upon. `[]` is each entry of a list.
const NOT_YET: &[&str] =
    &["enforcement.stdio", "enforcement.window_bytes", "enforcement.undecided", "enforcement.persist"];

/// Adds what is wrong with `config`, which was read from `root`.
pub(super) fn check(config: &Config, root: &Node, problems: &mut Problems) {
    let warnings = network::warnings(config);
    let lists = [
        errors(config),
        contradictions(config),
        idle(config),
        warnings,
        unenforceable(config),
        not_yet(root),
        sinks_not_yet(config),
    ];
    for (index, list) in lists.into_iter().enumerate() {
        let level = if index == 0 { Level::Error } else { Level::Warning };
        for finding in list {
            place(root, level, finding, problems);
        }
    }
}

/// Adds what was found, where it stands; where that was reported as wrong, nothing more is said of it.
pub(super) fn place(root: &Node, level: Level, finding: Finding, problems: &mut Problems) {
    if let Some((at, path)) = locate(root, &finding.path) {
        problems.add(Problem { level, at, path, message: finding.message, nearest: finding.nearest });
    }
}

/// The place of a path, or of the nearest thing above it that is written, and the path as it stands in the file, where
/// entries that are wrong count, too. `None` where what is written was reported as wrong: a bad `url` is no missing one.
fn locate(root: &Node, path: &[Step]) -> Option<(Place, String)> {
    let (mut node, mut at, mut text) = (root, root.at, String::new());
    for step in path {
        match (step, &node.kind) {
            (Step::Key(key), Kind::Map(entries)) => {
                text = joined(&text, key);
                let Some(entry) = entries.iter().find(|entry| entry.key == *key) else { break };
                node = &entry.value;
                if node.bad {
                    return None;
                }
                at = if matches!(node.kind, Kind::Map(_) | Kind::List(_)) { entry.key_at } else { node.at };
            }
            (Step::Index(index), Kind::List(list)) => {
                let good = list.iter().enumerate().filter(|(_, node)| !node.bad).nth(*index);
                let Some((index, entry)) = good else { break };
                text = format!("{text}[{index}]");
                (node, at) = (entry, entry.at);
            }
            _ => break,
        }
    }
    Some((at, text))
}

/// What makes a configuration unusable.
fn errors(config: &Config) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |path: Vec<Step>, message: String| found.push(Finding::new(path, message));
    for (index, server) in config.servers.iter().enumerate() {
        let stdio = server.kind == ServerType::Stdio;
        let (word, needed, other) =
            if stdio { ("stdio", "command", "url") } else { ("http or sse", "url", "command") };
        let has = |key| if key == "url" { server.url.is_some() } else { server.command.is_some() };
        if !has(needed) {
            add(path!["servers", index, needed], format!("a server of `type: {word}` needs this key"));
        }
        if has(other) {
            add(path!["servers", index, other], format!("a server of `type: {word}` has none"));
        }
        let plain = server.url.as_ref().is_some_and(|url| url.as_str().starts_with("http://"));
        if server.tls_fingerprint.is_some() && plain {
            add(
                path!["servers", index, "tls_fingerprint"],
                "its URL begins with http://; it shows no certificate".into(),
            );
        }
    }
    if let Err(reason) = check_ring(config.capture.ring_bytes.0) {
        add(path!["capture", "ring_bytes"], reason);
    }
    let cross = &config.cross_server;
    for (rule, window) in [
        ("read_then_send", cross.read_then_send.window),
        ("burst", cross.burst.window),
        ("cross_server_flow", cross.cross_server_flow.window),
    ] {
        if window.0.is_zero() {
            add(
                path!["cross_server", rule, "window"],
                "it must be longer than 0; `enabled: false` turns the rule off".into(),
            );
        }
    }
    for (index, sink) in config.sinks.iter().enumerate() {
        use SinkKind::{File, Journald, Webhook};
        let keys: [(&str, &[SinkKind], bool, bool); 7] = [
            ("path", &[File], sink.path.is_some(), true),
            ("rotate_bytes", &[File], sink.rotate_bytes.is_some(), false),
            ("rotate_keep", &[File], sink.rotate_keep.is_some(), false),
            ("url", &[Webhook], sink.url.is_some(), true),
            ("secret_file", &[Webhook], sink.secret_file.is_some(), false),
            ("queue_bytes", &[File, Journald, Webhook], sink.queue_bytes.is_some(), false),
            ("overflow", &[File, Journald], sink.overflow.is_some(), false),
        ];
        for (key, kinds, given, needed) in keys {
            match (kinds.contains(&sink.kind), given) {
                (true, false) if needed => {
                    add(path!["sinks", index, key], "a sink of this kind needs this key".into())
                }
                (false, true) => add(path!["sinks", index, key], "a sink of this kind has none".into()),
                _ => {}
            }
        }
        let earlier = config.sinks.iter().take(index);
        if sink.kind == SinkKind::Stdout && earlier.clone().any(|other| other.kind == SinkKind::Stdout) {
            add(path!["sinks", index, "kind"], "there is one standard output".into());
        }
        if sink.path.is_some() && earlier.clone().any(|other| other.path == sink.path) {
            add(path!["sinks", index, "path"], "another sink writes to it".into());
        }
    }
    for (index, entry) in config.classifier.overrides.iter().enumerate() {
        if (entry.category, entry.risk_level, &entry.side_effect_tags) == (None, None, &None) {
            let message = "it says nothing: `category`, `risk_level` or `side_effect_tags` is needed";
            add(path!["classifier", "overrides", index], message.into());
        }
    }
    for (index, guard) in config.guards.iter().enumerate() {
        let settings = guard.config.iter().flat_map(guard_settings);
        for (key, _, kinds) in settings.filter(|(_, given, kinds)| *given && !kinds.contains(&guard.kind)) {
            let kinds: Vec<String> = kinds.iter().map(|kind| format!("`{}`", kind.name())).collect();
            let message = format!(
                "the guard `{}` has none; {} {}",
                guard.kind.name(),
                kinds.join(" and "),
                if kinds.len() == 1 { "has" } else { "have" }
            );
            add(path!["guards", index, "config", key], message);
        }
    }
    found.extend(network::errors(config));
    found
}

/// Which settings are given, and which guards have them.
fn guard_settings(settings: &GuardSettings) -> [(&'static str, bool, &'static [GuardKind]); 14] {
    use GuardKind::{
        AdminToken, DisabledTool, ResultInjection, RugPull, Sampling, ServerAccess, ToolAccess, ToolPoisoning,
    };
    [
        ("strict_mode", settings.strict_mode.is_some(), &[ToolPoisoning]),
        ("custom_patterns", settings.custom_patterns.is_some(), &[ToolPoisoning]),
        ("scan_fields", settings.scan_fields.is_some(), &[ToolPoisoning]),
        ("min_detections", settings.min_detections.is_some(), &[ToolPoisoning]),
        ("server_policy", settings.server_policy.is_some(), &[ServerAccess]),
        ("allowed_servers", settings.allowed_servers.is_some(), &[ServerAccess]),
        ("denied_servers", settings.denied_servers.is_some(), &[ServerAccess]),
        ("tool_policy", settings.tool_policy.is_some(), &[ToolAccess]),
        ("allowed_tools", settings.allowed_tools.is_some(), &[ToolAccess]),
        ("denied_tools", settings.denied_tools.is_some(), &[ToolAccess]),
        ("on_change", settings.on_change.is_some(), &[RugPull]),
        ("action", settings.action.is_some(), &[ResultInjection, Sampling]),
        ("deny_all", settings.deny_all.is_some(), &[Sampling]),
        ("tools", settings.tools.is_some(), &[DisabledTool, AdminToken]),
    ]
}

/// A ring's size, which is a power of two and at least a page.
///
/// # Errors
/// It is not; says what it must be.
pub fn check_ring(bytes: u64) -> Result<u32, String> {
    let fitting = u32::try_from(bytes).ok().filter(|bytes| bytes.is_power_of_two());
    fitting.filter(|bytes| (4096..=1 << 30).contains(bytes)).ok_or_else(|| {
        format!("the ring's size is {bytes} bytes; it must be a power of two from 4096 to 1073741824")
    })
}

/// What is both allowed and denied.
fn contradictions(config: &Config) -> Vec<Finding> {
    let policy = &config.policy;
    let mut found = Vec::new();
    for (index, rule) in policy.allowed_servers.iter().enumerate() {
        if policy.denied_servers.contains(rule) {
            let message = format!("{} is in `denied_servers`, too, and denied", rule.id);
            found.push(Finding::new(path!["policy", "allowed_servers", index], message));
        }
    }
    for (index, rule) in policy.allowed_tools.iter().enumerate() {
        if policy.denied_tools.iter().any(|denied| denied.server == rule.server && denied.tool == rule.tool) {
            let message = format!("{} of {} is in `denied_tools`, too, and denied", rule.tool, rule.server);
            found.push(Finding::new(path!["policy", "allowed_tools", index], message));
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
            found.push(Finding::new(path!["policy", key], message));
        }
    }
    let is_on = |kind: GuardKind| {
        config.guards.iter().any(|entry| entry.kind == kind && entry.enabled)
            || kind == AdminToken && !policy.requires_admin_token.is_empty()
    };
    for (index, entry) in config.sessions.iter().enumerate() {
        for (key, given, kind) in [
            ("mode", entry.mode == super::Mode::Planning, Mode),
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
                found.push(Finding::new(path!["sessions", index, key], message));
            }
        }
    }
    found
}

/// Denials that nothing can enforce as `enforcement` stands.
pub fn unenforceable(config: &Config) -> Vec<Finding> {
    let policy = &config.policy;
    let mut found = Vec::new();
    let mut add = |path: Vec<Step>, message: &str| found.push(Finding::new(path, message.to_owned()));
    let stdio = config.enforcement.stdio == StdioEnforcement::Observe;
    let network = config.enforcement.network == NetworkEnforcement::Observe;
    let by_stdio = "it is reported and not enforced while `enforcement.stdio` is `observe`";
    let by_network = "it is reported and not enforced while `enforcement.network` is `observe`";
    for (key, denies) in [
        ("denied_servers", !policy.denied_servers.is_empty()),
        ("denied_tools", !policy.denied_tools.is_empty()),
        ("disabled_tools", !policy.disabled_tools.is_empty()),
        ("server_policy", policy.server_policy == ListMode::Allowlist),
        ("tool_policy", policy.tool_policy == ListMode::Allowlist),
        ("fail_closed", policy.fail_closed),
        ("requires_admin_token", !policy.requires_admin_token.is_empty()),
        ("version_pinning", policy.version_pinning.on_change == OnChange::Block),
        ("rate_limits", policy.rate_limits.enabled),
    ] {
        if denies && stdio {
            add(path!["policy", key], by_stdio);
        }
    }
    for (index, entry) in config.guards.iter().enumerate() {
        let is_gate = GuardKind::GATES.contains(&entry.kind);
        if stdio && entry.enabled && is_gate {
            add(path!["guards", index, "kind"], by_stdio);
        }
        let denies_texts = entry.config.as_ref().is_some_and(|settings| {
            settings.action == Some(TextAction::Block) || settings.deny_all == Some(true)
        });
        if entry.enabled && denies_texts {
            add(path!["guards", index, "config"], "what a server sends is reported and cannot be stopped");
        }
    }
    if stdio && config.inspection.on_detection.action != DetectionAction::Alert {
        add(path!["inspection", "on_detection", "action"], by_stdio);
    }
    let remote = |server: &Server| server.kind != ServerType::Stdio;
    if network && !policy.denied_servers.is_empty() && config.servers.iter().any(remote) {
        add(path!["policy", "denied_servers"], by_network);
    }
    if network && policy.server_policy == ListMode::Allowlist && config.servers.iter().any(remote) {
        add(path!["policy", "server_policy"], by_network);
    }
    if network && !config.network.deny.is_empty() {
        add(path!["network", "deny"], by_network);
    }
    if network && config.network.default == AllowDeny::Deny {
        add(path!["network", "default"], by_network);
    }
    for (index, server) in config.servers.iter().enumerate() {
        if network && !remote(server) && server.egress != Egress::default() {
            add(path!["servers", index, "egress"], by_network);
        }
        if network && remote(server) && !server.enabled {
            add(path!["servers", index, "enabled"], by_network);
        }
        let names_tools = |rule: &&ToolRule| rule.server.as_str() == server.id && rule.tool.as_str() != "*";
        if remote(server) && policy.denied_tools.iter().any(|rule| names_tools(&rule)) {
            add(
                path!["servers", index],
                "calls of single tools of a server on the network are reported and not stopped",
            );
        }
    }
    found
}

/// Sinks that are not there yet.
fn sinks_not_yet(config: &Config) -> Vec<Finding> {
    let mut found = Vec::new();
    for (index, sink) in config.sinks.iter().enumerate() {
        if sink.kind == SinkKind::Webhook {
            let message = "not in this version: nothing is posted";
            found.push(Finding::new(path!["sinks", index, "kind"], message.into()));
        }
        if sink.format == SinkFormat::Ocsf {
            let message = "not in this version: events are written as `native`";
            found.push(Finding::new(path!["sinks", index, "format"], message.into()));
        }
    }
    found
}

/// What is written and has no effect yet.
fn not_yet(root: &Node) -> Vec<Finding> {
    let mut found = Vec::new();
    for path in NOT_YET {
        let steps: Vec<&str> = path.split('.').collect();
        each_written(root, &steps, &mut Vec::new(), &mut |path| {
            let message = "not in this version: it is checked and has no effect".into();
            found.push(Finding::new(path.to_vec(), message));
        });
    }
    found
}

/// Calls `say` with every path that is written and goes along `steps`.
fn each_written(node: &Node, steps: &[&str], path: &mut Vec<Step>, say: &mut impl FnMut(&[Step])) {
    let Some((step, rest)) = steps.split_first() else {
        if !node.is_null() {
            say(path);
        }
        return;
    };
    let below: Vec<(Step, &Node)> = match &node.kind {
        Kind::Map(entries) => {
            let entries = entries.iter().filter(|entry| entry.key == *step);
            entries.map(|entry| (Step::from(entry.key.as_str()), &entry.value)).collect()
        }
        Kind::List(list) if *step == "[]" => {
            // An index counts what is right, as in the configuration that was read.
            let good = list.iter().filter(|node| !node.bad);
            good.enumerate().map(|(index, node)| (Step::from(index), node)).collect()
        }
        _ => Vec::new(),
    };
    for (step, node) in below {
        path.push(step);
        each_written(node, rest, path, say);
        path.pop();
    }
}
