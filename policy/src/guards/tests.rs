//! What the tests of all guards share, the guards as they are configured, and the documentation.

use std::sync::{Arc, LazyLock};

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::*;
use crate::classify::Classifier;
use crate::config::{Config, FailureMode, GuardEntry, ListMode, Policy};
use crate::detect::{DetectConfig, Detector, RuleSet, ToolNames};
use crate::guard::{Conditions, Facts, Guard, Listing, Operation, Profile, ToolFacts};
use crate::terms::{ConnectionId, Identity, Phase, ServerId, SessionId, Timestamp, Trust};

pub(super) const SECOND: u64 = 1_000_000_000;
/// Any moment.
pub(super) const NOON: u64 = 1_767_700_800 * SECOND;

pub(super) static DETECTOR: LazyLock<Arc<Detector>> = LazyLock::new(|| {
    Arc::new(Detector::new(RuleSet::built_in().unwrap(), &DetectConfig::default()).unwrap())
});

pub(super) fn at(seconds: f64) -> Timestamp {
    Timestamp(NOON + (seconds * 1e9) as u64)
}

pub(super) fn raw(value: Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(&value).unwrap()
}

/// Everything that facts are borrowed from.
#[derive(Debug)]
pub(super) struct World {
    pub(super) server: ServerId,
    pub(super) also: Vec<ServerId>,
    pub(super) identity: Identity,
    pub(super) enabled: bool,
    pub(super) trust: Trust,
    pub(super) listing: Listing,
    pub(super) session: SessionId,
    pub(super) jsonrpc_id: Option<Value>,
    pub(super) host: Option<String>,
    pub(super) uid: Option<u32>,
    pub(super) turn: Option<String>,
    pub(super) is_retry: bool,
    pub(super) tool: Option<ToolFacts>,
    pub(super) names: ToolNames,
    pub(super) profile: Profile,
    pub(super) block: Option<CallBlock>,
    pub(super) metadata: Value,
}

impl Default for World {
    fn default() -> Self {
        Self {
            server: ServerId("files".into()),
            identity: Identity::Declared,
            enabled: true,
            trust: Trust::Medium,
            listing: Listing::Listed,
            session: SessionId("sess_1".into()),
            jsonrpc_id: Some(json!(5)),
            host: None,
            uid: Some(1000),
            turn: None,
            is_retry: false,
            tool: None,
            names: ToolNames::default(),
            profile: Profile::default(),
            block: None,
            metadata: Value::Null,
            also: Vec::new(),
        }
    }
}

impl World {
    pub(super) fn server(server: &str) -> Self {
        Self { server: ServerId(server.into()), ..Self::default() }
    }

    pub(super) fn with(mut self, tool: ToolFacts) -> Self {
        self.tool = Some(tool);
        self
    }

    pub(super) fn facts(&self) -> Facts<'_> {
        Facts {
            server: &self.server,
            also: &self.also,
            identity: self.identity,
            enabled: self.enabled,
            trust: self.trust,
            listing: self.listing,
            session: &self.session,
            connection: ConnectionId(7),
            jsonrpc_id: self.jsonrpc_id.as_ref(),
            host: self.host.as_deref(),
            uid: self.uid,
            turn: self.turn.as_deref(),
            is_retry: self.is_retry,
            lists_resource: false,
            tool: self.tool.as_ref(),
            tool_names: &self.names,
            ahead: None,
            conditions: Conditions::OfCall,
            profile: &self.profile,
            block: self.block.as_ref(),
            standing: &[],
            mutes: crate::mutes::MutesOf::default(),
            metadata: &self.metadata,
        }
    }
}

pub(super) fn tool(name: &str) -> ToolFacts {
    ToolFacts { name: name.into(), hash: "a".repeat(64).into(), ..ToolFacts::default() }
}

/// What a guard says, in a word: `allow`, `warn`, or the code of the denial.
pub(super) fn word(answer: &Result<Decision, GuardError>) -> &str {
    match answer {
        Ok(Decision::Allow) => "allow",
        Ok(Decision::Modify(Modification::AddWarning { .. })) => "warn",
        Ok(Decision::Deny(denial)) => denial.code.name(),
        other => panic!("{other:?}"),
    }
}

/// What a guard says of a call, in a word.
pub(super) fn call(guard: &mut dyn Guard, world: &World, tool: &str, now: Timestamp) -> String {
    let operation = Operation::ToolInvoke { tool_name: tool, arguments: None };
    word(&guard.check(&operation, &world.facts(), now)).to_owned()
}

/// Guards by a configuration.
pub(super) fn guards(config: &Config) -> Executor {
    build(config, &DETECTOR, &Arc::new(Classifier::default())).unwrap()
}

pub(super) fn policy(policy: Value) -> Config {
    Config { policy: serde_json::from_value(policy).unwrap(), ..Config::default() }
}

pub(super) fn entries(entries: Value) -> Vec<GuardEntry> {
    serde_json::from_value(entries).unwrap()
}

/// Asks about a call, with its request, and says who denied it with which code; then the call is settled.
pub(super) fn decide(guards: &mut Executor, world: &World, tool: &str, now: Timestamp) -> String {
    let operations = [
        Operation::ToolInvoke { tool_name: tool, arguments: None },
        Operation::Request { method: "tools/call", params: None },
    ];
    let facts = world.facts();
    let question = Question { operations: &operations, facts: &facts, now };
    let mut verdict = guards.ask(&question, None);
    verdict.enforced = verdict.denied.is_some();
    guards.settle(&question, &verdict);
    let warned = if verdict.modifications.is_empty() { "allow" } else { "warn" };
    verdict
        .denied
        .map_or(warned.to_owned(), |(kind, denial)| format!("{}: {}", kind.name(), denial.code.name()))
}

#[test]
fn guards_are_evaluated_in_required_order() {
    let full = json!({
        "denied_servers": ["files"], "denied_tools": ["read"], "version_pinning": {"on_change": "block"},
        "rate_limits": {"enabled": true, "default_rpm": 0}, "disabled_tools": ["read"],
    });
    let mut world = World::default().with(tool("read"));
    world.tool.as_mut().unwrap().pin = crate::terms::PinState::Changed;
    for (without, expected) in [
        ("", "server_access: server_denied"),
        ("denied_servers", "tool_access: tool_denied"),
        ("denied_tools", "rug_pull: tool_changed"),
        ("version_pinning", "rate_limit: rate_limited"),
        ("rate_limits", "disabled_tool: tool_disabled"),
        ("disabled_tools", "warn"),
    ]
    .into_iter()
    .scan(full, |config, (without, expected)| {
        config.as_object_mut().unwrap().remove(without);
        Some((config.clone(), expected))
    }) {
        assert_eq!(decide(&mut guards(&policy(without)), &world, "read", at(0.0)), expected);
    }
}

#[test]
fn policy_defaults_match_requirements() {
    let defaults = Policy::default();
    assert!(!defaults.fail_closed && !defaults.rate_limits.enabled && defaults.version_pinning.enabled);
    assert_eq!((defaults.pending_grace.0.as_secs(), defaults.rate_limits.default_rpm), (30, 60));
    assert_eq!(defaults.server_policy, ListMode::None);
    let entry: GuardEntry = serde_json::from_value(json!({"kind": "mode"})).unwrap();
    assert_eq!(entry, GuardEntry::new(GuardKind::Mode));
    assert_eq!((entry.enabled, entry.timeout_ms), (true, 1_000));
    assert_eq!(entry.failure_mode, FailureMode::FailClosed);
}

#[test]
fn guard_entry_amends_guard_for_its_servers() {
    let mut config = policy(json!({"denied_tools": ["read"]}));
    config.guards = entries(json!([
        {"kind": "tool_access", "servers": ["free*"], "enabled": false},
        {"kind": "tool_access", "servers": ["strict", "free-not"], "config": {"allowed_tools": ["list"]}},
        {"kind": "server_whitelist", "servers": ["alone"], "config": {"allowed_servers": ["github"]}},
    ]));
    let mut guards = guards(&config);
    for (server, name, expected) in [
        ("other", "read", "tool_access: tool_denied"),
        ("other", "list", "allow"),
        ("free", "read", "allow"),
        // Of several entries the first counts.
        ("free-not", "write", "allow"),
        ("strict", "list", "allow"),
        ("strict", "write", "tool_access: tool_not_allowed"),
        // What an entry leaves out the section says.
        ("strict", "read", "tool_access: tool_denied"),
        ("alone", "list", "server_access: server_not_allowed"),
    ] {
        let world = World { session: SessionId(format!("{server} {name}").into()), ..World::server(server) };
        assert_eq!(decide(&mut guards, &world, name, at(0.0)), expected, "{server} {name}");
    }
}

#[test]
fn guard_entry_enables_guard_disabled_by_section() {
    let shadowing = ToolFacts { shadows: Some(ServerId("first".into())), ..tool("read") };
    let changed = ToolFacts { pin: crate::terms::PinState::Changed, ..tool("read") };
    for (section, entry, known, expected) in [
        (
            json!({"cross_server": {"enabled": false}}),
            json!({"kind": "tool_shadowing"}),
            &shadowing,
            "tool_shadowing: shadow_tool",
        ),
        (
            json!({"policy": {"version_pinning": {"enabled": false, "on_change": "block"}}}),
            json!({"kind": "rug_pull"}),
            &changed,
            "rug_pull: tool_changed",
        ),
        (
            json!({}),
            json!({"kind": "rug_pull", "config": {"on_change": "block"}}),
            &changed,
            "rug_pull: tool_changed",
        ),
        (
            json!({}),
            json!({"kind": "disabled_tool", "config": {"tools": ["re*"]}}),
            &changed,
            "disabled_tool: tool_disabled",
        ),
    ] {
        let mut config: Config = serde_json::from_value(section).unwrap();
        config.guards = entries(json!([entry]));
        let world = World::default().with(known.clone());
        assert_eq!(decide(&mut guards(&config), &world, "read", at(0.0)), expected, "{entry}");
        config.guards.clear();
        assert!(
            ["allow", "warn"].contains(&&*decide(&mut guards(&config), &world, "read", at(0.0))),
            "{entry}"
        );
    }
}

#[test]
fn capability_guards_are_off_until_list_is_set() {
    let mut world =
        World::default().with(ToolFacts { risk: crate::terms::RiskLevel::Critical, ..tool("pay") });
    world.profile.planning = true;
    world.tool.as_mut().unwrap().side_effects.insert("payments".to_owned());
    world.profile.policy_blacklist.insert("payments".to_owned());
    assert_eq!(decide(&mut guards(&Config::default()), &world, "pay", at(0.0)), "allow");
    let on = Config { guards: entries(json!([{"kind": "side_effects"}])), ..Config::default() };
    let expected = "side_effects: side_effect_denied";
    assert_eq!(decide(&mut guards(&on), &world, "pay", at(0.0)), expected);
    let listed = policy(json!({"requires_admin_token": ["pay"]}));
    let expected = "admin_token: admin_token_required";
    assert_eq!(decide(&mut guards(&listed), &world, "pay", at(0.0)), expected);
}

#[test]
fn guard_names_match_configuration() {
    for kind in GuardKind::ALL {
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        assert_eq!(GuardKind::ALL[kind as usize], kind);
    }
    for phase in Phase::ALL {
        assert_eq!(serde_json::to_value(phase).unwrap(), phase.name());
        assert_eq!(Phase::ALL[phase as usize], phase);
    }
    use crate::terms::{RiskLevel, Severity, ToolCategory};
    for risk in [RiskLevel::Low, RiskLevel::Medium, RiskLevel::High, RiskLevel::Critical] {
        assert_eq!(serde_json::to_value(risk).unwrap(), risk.name());
    }
    for severity in [Severity::Low, Severity::Medium, Severity::High, Severity::Critical] {
        assert_eq!(serde_json::to_value(severity).unwrap(), severity.name());
    }
    use ToolCategory::{Compute, Read, Send, Unknown, Write};
    for category in [Read, Write, Send, Compute, Unknown] {
        assert_eq!(serde_json::to_value(category).unwrap(), category.name());
    }
    let alias: GuardKind = serde_json::from_value(json!("server_whitelist")).unwrap();
    assert_eq!(alias, GuardKind::ServerAccess);
    assert_eq!(default_priority(GuardKind::ToolShadowing), 10);
    assert_eq!(default_priority(GuardKind::AdminToken), 80);
}

/// docs/reference/guards.md, without its surroundings.
fn documented(from: &str) -> Vec<Vec<String>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/guards.md");
    let text = std::fs::read_to_string(path).unwrap();
    let table = text.split(from).nth(1).unwrap();
    let rows = table.lines().skip(1).skip_while(|line| line.is_empty() || line.starts_with("|---"));
    rows.take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect())
        .collect()
}

/// Every guard, as it is built in.
fn every_guard() -> Executor {
    let every = GuardKind::ALL.map(GuardEntry::new).to_vec();
    guards(&Config { guards: every, ..Config::default() })
}

#[test]
fn documented_enforcers_match_code() {
    let mut expected = Vec::new();
    for (kind, phases) in every_guard().phases() {
        for &phase in phases {
            let enforcers: Vec<&str> =
                enforcers(kind, phase).iter().map(|enforcer| enforcer.name()).collect();
            let what = if enforcers.is_empty() { "reported only".to_owned() } else { enforcers.join(", ") };
            expected.push(vec![kind.name().to_owned(), phase.name().to_owned(), what]);
        }
    }
    assert_eq!(documented("| guard | phase | what can enforce it |"), expected);
}

#[test]
fn every_denial_code_is_documented() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/guards.md");
    let text = std::fs::read_to_string(path).unwrap();
    for code in DenialCode::ALL {
        assert!(text.contains(&format!("`{}`", code.name())), "{} is not in {path}", code.name());
    }
}

#[test]
fn documented_guard_order_matches_code() {
    let rows = documented("| guard | priority | on | denies (code) |");
    let order: Vec<(String, String)> = rows.into_iter().map(|row| (row[0].clone(), row[1].clone())).collect();
    let expected: Vec<(String, String)> = GuardKind::ALL
        .iter()
        .map(|kind| (kind.name().to_owned(), default_priority(*kind).to_string()))
        .collect();
    assert_eq!(order, expected);
    assert_eq!(every_guard().phases().map(|(kind, _)| kind).collect::<Vec<_>>(), GuardKind::ALL);
}

#[test]
fn decision_trace_lists_every_evaluated_guard() {
    let mut guards = guards(&policy(json!({"denied_tools": ["read"]})));
    let operations = [
        Operation::Request { method: "tools/call", params: None },
        Operation::ToolInvoke { tool_name: "read", arguments: None },
    ];
    let world = World::default();
    let facts = world.facts();
    let mut trace = Vec::new();
    guards.ask(&Question { operations: &operations, facts: &facts, now: at(0.0) }, Some(&mut trace));
    assert_eq!(
        serde_json::to_value(trace).unwrap(),
        json!([
            {"guard": "cross_server", "phase": "request", "answer": "allow",
             "reason": "in this phase it neither reads nor sends"},
            {"guard": "tool_shadowing", "phase": "tool_invoke", "answer": "allow",
             "reason": "no other server of the session had its name first"},
            {"guard": "cross_server", "phase": "tool_invoke", "answer": "allow",
             "reason": "no other server of the session is known"},
            {"guard": "server_access", "phase": "request", "answer": "allow",
             "reason": "no rule denies its server, and server_policy is no allowlist"},
            {"guard": "sampling", "phase": "request", "answer": "allow",
             "reason": "tools/call asks neither the client's model nor its user"},
            {"guard": "tool_access", "phase": "tool_invoke", "answer": "deny",
             "reason": "tool 'read' of server 'files' is denied by '*:read'"},
        ])
    );
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    /// A few calls of any names by all guards.
    fn run(calls: &[(u8, String, f64, Option<String>)]) -> Vec<String> {
        let mut config = policy(json!({
            "denied_tools": ["*x*"], "rate_limits": {"enabled": true, "default_rpm": 20},
        }));
        config.guards = GuardKind::ALL.map(GuardEntry::new).to_vec();
        let mut guards = guards(&config);
        let decide = |(server, name, seconds, turn): &(u8, String, f64, Option<String>)| {
            let server = ServerId(format!("s{server}").into());
            let world = World { turn: turn.clone(), server, ..World::default() };
            decide(&mut guards, &world, name, at(*seconds))
        };
        calls.iter().map(decide).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn guard_decisions_never_fail_and_are_deterministic(
            calls in prop::collection::vec(
                (0..3_u8, "\\PC{0,12}|(read|send|write)_[a-y]", 0.0..60.0, prop::option::of("[ab]")), 0..40)
        ) {
            let decided = run(&calls);
            prop_assert_eq!(&decided, &run(&calls));
            prop_assert!(decided.iter().all(|word| !word.contains("guard_")), "{:?}", decided);
        }

        #[test]
        fn classifier_never_panics_on_any_text(text in "\\PC*", name in "\\PC*") {
            Classifier::default().classify(&name, crate::classify::Told { name: &name, description: &text, annotations: &text });
        }
    }
}
