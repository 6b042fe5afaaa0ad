//! What no schema says: keys that need or exclude each other.

use std::collections::BTreeSet;

use mcpwarden_terms::{GuardKind, Phase};

use super::tree::Node;
use super::written::locate;
use super::*;

/// Adds what makes `config`, which was read from `root`, unusable.
pub(super) fn check(config: &Config, root: &Node, problems: &mut Problems) {
    for finding in errors(config) {
        place(root, Level::Error, finding, problems);
    }
}

/// Adds what was found, where it stands; where that was reported as wrong, nothing more is said of it.
pub(super) fn place(root: &Node, level: Level, finding: Finding, problems: &mut Problems) {
    if let Some((at, path)) = locate(root, &finding.path.0) {
        problems.add(Problem { level, at, path, message: finding.message, nearest: finding.nearest });
    }
}

/// What makes a configuration unusable.
fn errors(config: &Config) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |path: Vec<Step>, message: String| found.push(Finding::new(path, message));
    for (index, server) in config.servers.iter().enumerate() {
        if matches!(server.kind, ServerType::Tcp | ServerType::Unix) {
            let why =
                "a server that is spoken to in lines over a socket cannot be declared; mcpwarden finds it";
            add(steps!["servers", index, "type"], why.into());
            continue;
        }
        let stdio = server.kind == ServerType::Stdio;
        let (word, needed, other) =
            if stdio { ("stdio", "command", "url") } else { ("http or sse", "url", "command") };
        let has = |key| if key == "url" { server.url.is_some() } else { server.command.is_some() };
        if !has(needed) {
            add(steps!["servers", index, needed], format!("a server of `type: {word}` needs this key"));
        }
        if has(other) {
            add(steps!["servers", index, other], format!("a server of `type: {word}` has none"));
        }
        let plain = server.url.as_ref().is_some_and(|url| url.as_str().starts_with("http://"));
        if server.tls_fingerprint.is_some() && plain {
            add(
                steps!["servers", index, "tls_fingerprint"],
                "its URL begins with http://; it shows no certificate".into(),
            );
        }
    }
    for (path, rule) in config.tool_rules() {
        for (key, why) in arguments::faults(rule) {
            add([path.clone(), key].concat(), why.to_owned());
        }
    }
    if let Err(reason) = check_ring(config.capture.ring_bytes.0) {
        add(steps!["capture", "ring_bytes"], reason);
    }
    let cross = &config.cross_server;
    for (rule, window) in [
        ("read_then_send", cross.read_then_send.window),
        ("burst", cross.burst.window),
        ("cross_server_flow", cross.cross_server_flow.window),
    ] {
        if window.0.is_zero() {
            add(
                steps!["cross_server", rule, "window"],
                "it must be longer than 0; `enabled: false` turns the rule off".into(),
            );
        }
    }
    for (index, sink) in config.sinks.iter().enumerate() {
        use SinkKind::{File, Journald, Stdout, Webhook};
        let keys: [(&str, &[SinkKind], bool, bool); 7] = [
            ("path", &[File], sink.path.is_some(), true),
            ("rotate_bytes", &[File], sink.rotate_bytes.is_some(), false),
            ("rotate_keep", &[File], sink.rotate_keep.is_some(), false),
            ("url", &[Webhook], sink.url.is_some(), true),
            ("secret_file", &[Webhook], sink.secret_file.is_some(), false),
            ("queue_bytes", &[File, Journald, Stdout, Webhook], sink.queue_bytes.is_some(), false),
            ("overflow", &[File, Journald, Stdout], sink.overflow.is_some(), false),
        ];
        for (key, kinds, given, needed) in keys {
            match (kinds.contains(&sink.kind), given) {
                (true, false) if needed => {
                    add(steps!["sinks", index, key], "a sink of this kind needs this key".into())
                }
                (false, true) => add(steps!["sinks", index, key], "a sink of this kind has none".into()),
                _ => {}
            }
        }
        let earlier = config.sinks.iter().take(index);
        if sink.kind == SinkKind::Stdout && earlier.clone().any(|other| other.kind == SinkKind::Stdout) {
            add(steps!["sinks", index, "kind"], "there is one standard output".into());
        }
        if sink.path.is_some() && earlier.clone().any(|other| other.path == sink.path) {
            add(steps!["sinks", index, "path"], "another sink writes to it".into());
        }
        // What waits for one is kept by its address.
        let endpoint = |sink: &Sink| sink.url.as_ref().map(HttpUrl::endpoint);
        if sink.url.is_some() && earlier.clone().any(|other| endpoint(other) == endpoint(sink)) {
            add(steps!["sinks", index, "url"], "another sink posts to it".into());
        }
    }
    for (index, entry) in config.classifier.overrides.iter().enumerate() {
        if (entry.category, entry.risk_level, &entry.side_effect_tags) == (None, None, &None) {
            let message = "it says nothing: `category`, `risk_level` or `side_effect_tags` is needed";
            add(steps!["classifier", "overrides", index], message.into());
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
            add(steps!["guards", index, "config", key], message);
        }
    }
    for (index, muted) in config.inspection.muted.iter().enumerate() {
        let MutedDetections { rule, server, tool, .. } = muted;
        let message = if rule.is_none() && server.is_none() && tool.is_none() {
            "it needs `rule`, `server` or `tool`: it would mute every rule of every server"
        } else if is_too_broad(muted) {
            "it mutes every rule of every server; `inspection.enabled: false` turns the inspection off"
        } else {
            continue;
        };
        add(steps!["inspection", "muted", index, "rule"], message.into());
    }
    external_guards(config, &mut add);
    found.extend(network::errors(config));
    found
}

/// What guards that others wrote need, and must not have.
fn external_guards(config: &Config, add: &mut impl FnMut(Vec<Step>, String)) {
    let mut names = BTreeSet::new();
    for (index, guard) in config.guards.iter().enumerate() {
        if !guard.kind.is_external() {
            if guard.name.is_some() {
                let message = format!("the guard `{}` is built in, and has this name", guard.kind.name());
                add(steps!["guards", index, "name"], message);
            }
            continue;
        }
        let settings = guard.config.clone().unwrap_or_default();
        let (key, is_given) = match guard.kind {
            GuardKind::Wasm => ("module_path", settings.module_path.is_some()),
            _ => ("url", settings.url.is_some()),
        };
        if !is_given {
            let message = format!("a guard of kind `{}` needs `config.{key}`", guard.kind.name());
            add(steps!["guards", index, "config", key], message);
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:[]".contains(&byte);
        if !guard.external_name().bytes().all(is_plain) {
            let message = "a name has ASCII letters, digits and `._-` only";
            add(steps!["guards", index, "name"], message.into());
        }
        if !names.insert(guard.external_name()) {
            let message =
                format!("another guard is called `{}`: give one of them a `name`", guard.external_name());
            add(steps!["guards", index, "name"], message);
        }
        if settings.token_file.is_some() && settings.hmac_file.is_some() {
            add(steps!["guards", index, "config", "hmac_file"], "there is a `token_file`".into());
        }
        if settings.client_certificate_file.is_some() != settings.client_key_file.is_some() {
            let message = "`client_certificate_file` and `client_key_file` need each other";
            add(steps!["guards", index, "config", "client_key_file"], message.into());
        }
        let lists = guard.runs_on.as_ref().is_none_or(|phases| phases.contains(&Phase::ToolsList));
        if guard.holds_tools() && !lists {
            let message = "it holds nothing without `tools_list` in `runs_on`: no definition is judged";
            add(steps!["guards", index, "config", "hold_until_judged"], message.into());
        }
        if let Some(phase) = guard.runs_on.iter().flatten().find(|phase| !guard.kind.judges(**phase)) {
            let message = format!("a guard of this kind is not asked in the phase `{}`", phase.name());
            add(steps!["guards", index, "runs_on"], message);
        }
    }
    if names.len() > MOST_EXTERNAL {
        let message =
            format!("there are {} guards that others wrote, and at most {MOST_EXTERNAL} can be", names.len());
        add(steps!["guards"], message);
    }
}

/// Most guards that others wrote.
const MOST_EXTERNAL: usize = 32;

/// Which settings are given, and which guards have them.
fn guard_settings(settings: &GuardSettings) -> [(&'static str, bool, &'static [GuardKind]); 30] {
    use GuardKind::{
        AdminToken, DisabledTool, Http, ResultInjection, RugPull, Sampling, ServerAccess, ToolAccess,
        ToolPoisoning, Wasm,
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
        ("module_path", settings.module_path.is_some(), &[Wasm]),
        ("sha256", settings.sha256.is_some(), &[Wasm]),
        ("public_key", settings.public_key.is_some(), &[Wasm]),
        ("wasm_config", settings.wasm_config.is_some(), &[Wasm]),
        ("memory", settings.memory.is_some(), &[Wasm]),
        ("url", settings.url.is_some(), &[Http]),
        ("ca_file", settings.ca_file.is_some(), &[Http]),
        ("client_certificate_file", settings.client_certificate_file.is_some(), &[Http]),
        ("client_key_file", settings.client_key_file.is_some(), &[Http]),
        ("token_file", settings.token_file.is_some(), &[Http]),
        ("hmac_file", settings.hmac_file.is_some(), &[Http]),
        ("share", settings.share.is_some(), &[Http]),
        ("max_concurrent", settings.max_concurrent.is_some(), &[Http]),
        ("max_per_second", settings.max_per_second.is_some(), &[Http]),
        ("hold_until_judged", settings.hold_until_judged.is_some(), &[Wasm, Http]),
        ("valid_for", settings.valid_for.is_some(), &[Wasm, Http]),
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
