//! What guards are told: the sections `policy`, `cross_server`, `inspection` (its actions), `guards`, and what the
//! entries of `servers` say of access. The key names are the requirements'.

mod cross_server;
mod inspection;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::classify::any;
use crate::guard::{GuardKind, Phase};

pub use cross_server::{Burst, CrossServerConfig, CrossServerFlow, ReadThenSend, ShadowTool};
pub use inspection::{
    DetectionAction, InspectionConfig, OnDetection, ResultInjectionConfig, SamplingConfig, ScanField,
    TextAction, ToolPoisoningConfig,
};

/// A duration as text: `30s`, `2s 500ms`.
pub(crate) mod span {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(*duration))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        humantime::parse_duration(&text)
            .map_err(|error| D::Error::custom(format!("expected a duration such as 30s: {error}")))
    }
}

/// Everything that guards are told. One whose section says nothing has its defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GuardsConfig {
    /// `policy:`
    pub policy: PolicyConfig,
    /// `cross_server:`
    pub cross_server: CrossServerConfig,
    /// `inspection.alert_threshold` and `inspection.on_detection`.
    pub inspection: InspectionConfig,
    /// `registry.pin_on_first_use`
    pub first_use: FirstUse,
    /// What the entries of `servers:` say of access, by id.
    pub servers: BTreeMap<String, ServerTools>,
    /// `guards:`
    pub guards: Vec<GuardEntry>,
}

/// Whether the definition that a tool is first seen with is trusted (`registry.pin_on_first_use`, or
/// `version_pinning.auto_trust_first`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstUse {
    /// It is, and pinned.
    #[default]
    Trust,
    /// Somebody must approve it.
    Approve,
}

/// Which rules decide what is in no list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ListPolicy {
    /// Only what is allowed may be used.
    Allowlist,
    /// Everything may be used that is not denied.
    Denylist,
    /// Nobody decides; what is denied is denied nonetheless.
    #[default]
    None,
}

/// A rule on servers: `{id: GLOB}`, or the glob alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ServerRule {
    /// Glob of server ids.
    pub id: String,
}

/// A rule on tools: `{server: GLOB, tool: GLOB, content_hash: …}`, or the glob of tool names alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ToolRule {
    /// Glob of server ids. Default: every server.
    pub server: String,
    /// Glob of tool names.
    pub tool: String,
    /// The rule is on this definition alone: `sha256:` and 64 hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_hash: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerRuleFields {
    id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolRuleFields {
    #[serde(default = "any")]
    server: String,
    tool: String,
    #[serde(default)]
    content_hash: Option<String>,
}

/// A rule that may be written as a name alone. Errors of its fields are told as they are, which no `untagged` does.
struct NameOr<F, T>(&'static str, fn(F) -> T, fn(String) -> T);

impl<'de, F: Deserialize<'de>, T> Visitor<'de> for NameOr<F, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<T, E> {
        Ok(self.2(name.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        F::deserialize(de::value::MapAccessDeserializer::new(map)).map(self.1)
    }
}

impl<'de> Deserialize<'de> for ServerRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = |fields: ServerRuleFields| Self { id: fields.id };
        deserializer.deserialize_any(NameOr("a server id, or {id: …}", fields, |id| Self { id }))
    }
}

impl<'de> Deserialize<'de> for ToolRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = |fields: ToolRuleFields| Self {
            server: fields.server,
            tool: fields.tool,
            content_hash: fields.content_hash,
        };
        let name = |tool| Self { server: any(), tool, content_hash: None };
        deserializer.deserialize_any(NameOr("a tool's name, or {server: …, tool: …}", fields, name))
    }
}

/// `policy:`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyConfig {
    /// Whether servers that are not declared, and tools that are not listed, are denied. Default: false.
    pub fail_closed: bool,
    /// How long a server may be called under `fail_closed` that has not listed its tools yet. Default: 30s.
    #[serde(with = "span")]
    #[schemars(with = "String")]
    pub pending_grace: Duration,
    /// Whether globs tell capitals from small letters. Default: true.
    pub case_sensitive: bool,
    /// What of servers that are in no list. Default: none.
    pub server_policy: ListPolicy,
    /// Servers that may be used.
    pub allowed_servers: Vec<ServerRule>,
    /// Servers that may not.
    pub denied_servers: Vec<ServerRule>,
    /// What of tools that are in no list. Default: none.
    pub tool_policy: ListPolicy,
    /// Tools that may be called.
    pub allowed_tools: Vec<ToolRule>,
    /// Tools that may not.
    pub denied_tools: Vec<ToolRule>,
    /// What of definitions that changed.
    pub version_pinning: VersionPinning,
    /// How often may be called.
    pub rate_limits: RateLimits,
    /// Tools that are called with an administrator's token alone. One that stands here turns the guard
    /// `admin_token` on.
    pub requires_admin_token: Vec<ToolRule>,
    /// Tools that are switched off. One that stands here turns the guard `disabled_tool` on.
    pub disabled_tools: Vec<ToolRule>,
}

impl Default for PolicyConfig {
    fn default() -> Self {
        Self {
            fail_closed: false,
            pending_grace: Duration::from_secs(30),
            case_sensitive: true,
            server_policy: ListPolicy::None,
            allowed_servers: Vec::new(),
            denied_servers: Vec::new(),
            tool_policy: ListPolicy::None,
            allowed_tools: Vec::new(),
            denied_tools: Vec::new(),
            version_pinning: VersionPinning::default(),
            rate_limits: RateLimits::default(),
            requires_admin_token: Vec::new(),
            disabled_tools: Vec::new(),
        }
    }
}

/// `config` of a `server_access` under `guards:`. With `allowed_servers` and no `server_policy` it is an allowlist,
/// which is what `server_whitelist` means.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServerAccessConfig {
    /// What of servers that are in no list.
    pub server_policy: Option<ListPolicy>,
    /// Servers that may be used.
    pub allowed_servers: Vec<ServerRule>,
    /// Servers that may not.
    pub denied_servers: Vec<ServerRule>,
}

/// `config` of a `tool_access` under `guards:`. With `allowed_tools` and no `tool_policy` it is an allowlist.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolAccessConfig {
    /// What of tools that are in no list.
    pub tool_policy: Option<ListPolicy>,
    /// Tools that may be called.
    pub allowed_tools: Vec<ToolRule>,
    /// Tools that may not.
    pub denied_tools: Vec<ToolRule>,
}

/// What an entry of `servers:` says of its tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServerTools {
    /// Globs of the only tools that may be called. Empty: all.
    pub allow_tools: Vec<String>,
    /// Side effects that its tools must not have.
    pub deny_side_effect_tags: BTreeSet<String>,
}

/// What is done about something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnChange {
    /// It is denied.
    Block,
    /// It is said, and let through.
    #[default]
    Alert,
    /// It is let through.
    Allow,
}

/// `policy.version_pinning:`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VersionPinning {
    /// Whether definitions are compared with their pins. Default: true.
    pub enabled: bool,
    /// What of calls of a tool whose definition changed, until somebody approves it. Default: alert.
    pub on_change: OnChange,
}

impl Default for VersionPinning {
    fn default() -> Self {
        Self { enabled: true, on_change: OnChange::Alert }
    }
}

/// `policy.rate_limits:`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RateLimits {
    /// Default: false.
    pub enabled: bool,
    /// Calls in a minute of each server that stands not in `per_server`; 0 blocks it. Default: 60.
    pub default_rpm: u32,
    /// How many of them may come at once. Default: all of a minute.
    pub default_burst: Option<u32>,
    /// By glob of server ids. The plain name counts before globs, and of several globs the strictest.
    pub per_server: BTreeMap<String, RateLimit>,
    /// By glob of tool names, or of tool ids (`mcp:SERVER:TOOL`); besides the server's limit.
    pub per_tool: BTreeMap<String, RateLimit>,
}

impl Default for RateLimits {
    fn default() -> Self {
        Self {
            enabled: false,
            default_rpm: 60,
            default_burst: None,
            per_server: BTreeMap::new(),
            per_tool: BTreeMap::new(),
        }
    }
}

/// How often something may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    /// Calls in a minute; 0 blocks.
    pub calls_per_minute: u32,
    /// How many of them may come at once. Default: all of a minute.
    #[serde(default)]
    pub burst: Option<u32>,
}

/// `config` of a `disabled_tool` or `admin_token` under `guards:`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolsConfig {
    /// Which tools. Default: those of `policy.disabled_tools` or `policy.requires_admin_token`.
    pub tools: Vec<ToolRule>,
}

/// What a guard that fails means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureMode {
    /// It denies, and the error is the reason.
    #[default]
    FailClosed,
    /// It allows, and the error is logged.
    FailOpen,
}

/// An entry of `guards:`. It amends the built-in guard of its kind for the servers that it names; of several that
/// name a server the first counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuardEntry {
    /// Which guard.
    pub kind: GuardKind,
    /// Globs of server ids. Default: every server.
    #[serde(default = "every_server")]
    pub servers: Vec<String>,
    /// Whether it is asked. Default: true.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// When: 0 to 100, the lowest first; of equals the first in the configuration. Default: that of the kind.
    #[serde(default)]
    pub priority: Option<u8>,
    /// How long it may take: 10 to 10,000. Default: 1,000.
    #[serde(default = "one_second")]
    pub timeout_ms: u32,
    /// What it means if it fails. Default: fail_closed.
    #[serde(default)]
    pub failure_mode: FailureMode,
    /// In which phases it is asked, at least one. Default: those of the kind.
    #[serde(default)]
    pub runs_on: Option<Vec<Phase>>,
    /// What it is told, in place of the section that it is told by default.
    #[serde(default)]
    pub config: Option<Value>,
}

impl GuardEntry {
    /// The entry that changes nothing but turns a guard on.
    pub fn new(kind: GuardKind) -> Self {
        Self {
            kind,
            servers: every_server(),
            enabled: true,
            priority: None,
            timeout_ms: one_second(),
            failure_mode: FailureMode::default(),
            runs_on: None,
            config: None,
        }
    }
}

fn every_server() -> Vec<String> {
    vec![any()]
}

fn yes() -> bool {
    true
}

fn one_second() -> u32 {
    1_000
}
