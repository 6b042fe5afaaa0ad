//! What is judged, and how: registry, policy, classifier, cross-server rules.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mcpwarden_terms::{Hash, RiskLevel, ToolCategory};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::{Glob, Period};

pub(super) fn seconds(seconds: u64) -> Period {
    Period(Duration::from_secs(seconds))
}

/// What is remembered of tools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Registry {
    /// Whether a definition is pinned when it is first seen.
    pub pin_on_first_use: bool,
    /// Whether a changed definition is an alert.
    pub alert_on_change: bool,
    /// Whether pins outlive the agent.
    pub persistent: bool,
}

impl Default for Registry {
    fn default() -> Self {
        Self { pin_on_first_use: true, alert_on_change: true, persistent: true }
    }
}

/// Which servers and tools may be used, and how often.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Whether undeclared servers, unknown tools, and what the gate cannot tell are denied.
    pub fail_closed: bool,
    /// How long a server that has not listed its tools yet is let through under `fail_closed`.
    pub pending_grace: Period,
    /// Whether globs in rules tell capitals from small letters; else those are equal that Unicode's simple case folding
    /// makes equal.
    pub case_sensitive: bool,
    /// Which list of servers counts. Denied servers are denied in each mode.
    pub server_policy: ListMode,
    /// Servers that may be used, under `server_policy: allowlist`. Example: `[files, { id: "weather-*" }]`.
    #[schemars(length(max = 10_000))]
    pub allowed_servers: Vec<ServerRule>,
    /// Servers that must not be used. Example: `["evil-*"]`.
    #[schemars(length(max = 10_000))]
    pub denied_servers: Vec<ServerRule>,
    /// Which list of tools counts. Denied tools are denied in each mode.
    pub tool_policy: ListMode,
    /// Tools that may be called, under `tool_policy: allowlist`. Example: `[{ server: files, tool: "read_*" }]`.
    #[schemars(length(max = 10_000))]
    pub allowed_tools: Vec<ToolRule>,
    /// Tools that must not be called. Example: `[execute_command, { server: mail, tool: "send_*" }]`.
    #[schemars(length(max = 10_000))]
    pub denied_tools: Vec<ToolRule>,
    /// What a changed definition means.
    pub version_pinning: VersionPinning,
    /// How often may be called.
    pub rate_limits: RateLimits,
    /// Tools that need an administrator's token. Example: `[{ server: prod, tool: "*" }]`.
    #[schemars(length(max = 10_000))]
    pub requires_admin_token: Vec<ToolRule>,
    /// Tools that are switched off. Example: `[legacy_export]`.
    #[schemars(length(max = 10_000))]
    pub disabled_tools: Vec<ToolRule>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            fail_closed: false,
            pending_grace: seconds(30),
            case_sensitive: true,
            server_policy: ListMode::None,
            allowed_servers: Vec::new(),
            denied_servers: Vec::new(),
            tool_policy: ListMode::None,
            allowed_tools: Vec::new(),
            denied_tools: Vec::new(),
            version_pinning: VersionPinning::default(),
            rate_limits: RateLimits::default(),
            requires_admin_token: Vec::new(),
            disabled_tools: Vec::new(),
        }
    }
}

/// Which list counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ListMode {
    /// Only what is allowed.
    Allowlist,
    /// All but what is denied.
    Denylist,
    /// As `denylist`: what is denied is denied.
    #[default]
    None,
}

/// Servers, by id: `{ id: GLOB }`, or the glob alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "ServerRuleForm")]
pub struct ServerRule {
    /// Glob on the id. Example: `weather-*`.
    pub id: Glob,
}

/// Tools, by server and name: `{ server: GLOB, tool: GLOB }`, `SERVER:TOOL` as in a tool's id, or the glob on the name alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "ToolRuleForm")]
pub struct ToolRule {
    /// Glob on the server's id.
    pub server: Glob,
    /// Glob on the tool's name. Example: `delete_*`.
    pub tool: Glob,
    /// Only with this definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_hash: Option<Hash>,
}

/// How a rule on servers may be written.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
enum ServerRuleForm {
    Short(Glob),
    Long {
        /// Glob on the id. Example: `weather-*`.
        id: Glob,
    },
}

impl From<ServerRuleForm> for ServerRule {
    fn from(form: ServerRuleForm) -> Self {
        match form {
            ServerRuleForm::Short(id) | ServerRuleForm::Long { id } => Self { id },
        }
    }
}

/// How a rule on tools may be written.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
enum ToolRuleForm {
    Short(Glob),
    Long {
        /// Glob on the server's id.
        #[serde(default = "every")]
        server: Glob,
        /// Glob on the tool's name. Example: `delete_*`.
        tool: Glob,
        /// Only with this definition.
        content_hash: Option<Hash>,
    },
}

impl From<ToolRuleForm> for ToolRule {
    fn from(form: ToolRuleForm) -> Self {
        match form {
            ToolRuleForm::Short(text) => {
                let (server, tool) = text.server_and_tool();
                Self { server, tool, content_hash: None }
            }
            ToolRuleForm::Long { server, tool, content_hash } => Self { server, tool, content_hash },
        }
    }
}

pub(super) fn every() -> Glob {
    Glob::of("*")
}

/// What a changed definition means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VersionPinning {
    /// Whether calls are judged by it.
    pub enabled: bool,
    /// What becomes of a call of a tool that changed.
    pub on_change: OnChange,
}

impl Default for VersionPinning {
    fn default() -> Self {
        Self { enabled: true, on_change: OnChange::Alert }
    }
}

/// What becomes of a call of a tool that changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnChange {
    /// It is denied.
    Block,
    /// It is reported.
    #[default]
    Alert,
    /// Nothing.
    Allow,
}

/// How often may be called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RateLimits {
    /// Whether calls are limited.
    pub enabled: bool,
    /// Calls a minute of each server that `per_server` does not name; 0: none at all.
    pub default_rpm: u32,
    /// Calls that such a server may get at once; without it, as many as a minute's. Example: `10`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub default_burst: Option<u32>,
    /// By glob on the server's id: the plain name counts before globs, and of several globs the strictest.
    /// Example: `{ weather-api: { calls_per_minute: 10, burst: 3 } }`.
    #[schemars(extend("propertyNames" = { "type": "string", "format": "glob" }))]
    pub per_server: BTreeMap<Glob, Rate>,
    /// By glob on the tool's name, or by `SERVER:TOOL` as in a tool's id, a glob each; besides the server's limit. What is
    /// written plainly counts before globs, and of several globs the strictest.
    /// Example: `{ "mail:send_*": { calls_per_minute: 5 } }`.
    #[schemars(extend("propertyNames" = { "type": "string", "format": "glob" }))]
    pub per_tool: BTreeMap<Glob, Rate>,
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
pub struct Rate {
    /// Calls a minute; 0: none at all. Example: `10`.
    pub calls_per_minute: u32,
    /// Calls at once; without it, as many as a minute's. Example: `3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub burst: Option<u32>,
}

/// What tools do, where their names mislead.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Classifier {
    /// The first entry that fits a tool counts.
    #[schemars(length(max = 10_000))]
    pub overrides: Vec<ClassifierOverride>,
}

/// What some tools do. What is left out is told by the name as before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClassifierOverride {
    /// Glob on the server's id.
    #[serde(default = "every")]
    pub server: Glob,
    /// Glob on the tool's name. Example: `sync_*`.
    pub tool: Glob,
    /// What it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<ToolCategory>,
    /// How risky it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk_level: Option<RiskLevel>,
    /// Its side effects. Example: `[network.http]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side_effect_tags: Option<BTreeSet<String>>,
}

/// What several servers of a session do together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CrossServer {
    /// Whether the rules below count.
    pub enabled: bool,
    /// Calls of a session belong to one turn unless there is a longer gap between a result and the next call.
    pub turn_gap: Period,
    /// A session without a call for longer is forgotten.
    pub session_idle: Period,
    /// One server reads, then another sends.
    pub read_then_send: ReadThenSend,
    /// One server is called very often.
    pub burst: Burst,
    /// One server reads, then another writes or sends in the same turn.
    pub cross_server_flow: CrossServerFlow,
    /// A tool is called whose name another server had first.
    pub shadow_tool: ShadowTool,
}

impl Default for CrossServer {
    fn default() -> Self {
        Self {
            enabled: true,
            turn_gap: seconds(2),
            session_idle: seconds(3_600),
            read_then_send: ReadThenSend::default(),
            burst: Burst::default(),
            cross_server_flow: CrossServerFlow::default(),
            shadow_tool: ShadowTool::default(),
        }
    }
}

/// One server reads, then another sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReadThenSend {
    /// Whether it counts.
    pub enabled: bool,
    /// From the one to the other at most.
    pub window: Period,
}

impl Default for ReadThenSend {
    fn default() -> Self {
        Self { enabled: true, window: seconds(30) }
    }
}

/// One server is called very often.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Burst {
    /// Whether it counts.
    pub enabled: bool,
    /// Calls in the window that are let through.
    #[schemars(range(min = 1, max = 1_000))]
    pub max_calls: u32,
    /// How far back calls are counted.
    pub window: Period,
}

impl Default for Burst {
    fn default() -> Self {
        Self { enabled: true, max_calls: 10, window: seconds(5) }
    }
}

/// One server reads, then another writes or sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CrossServerFlow {
    /// Whether it counts.
    pub enabled: bool,
    /// Only within one turn of the model.
    pub same_turn_only: bool,
    /// From the one to the other at most, where turns do not count.
    pub window: Period,
}

impl Default for CrossServerFlow {
    fn default() -> Self {
        Self { enabled: true, same_turn_only: true, window: seconds(30) }
    }
}

/// A tool is called whose name another server had first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ShadowTool {
    /// Whether it counts.
    pub enabled: bool,
}

impl Default for ShadowTool {
    fn default() -> Self {
        Self { enabled: true }
    }
}
