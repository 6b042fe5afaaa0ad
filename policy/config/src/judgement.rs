//! What is judged, and how: registry, policy, classifier, cross-server rules.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mcpwarden_terms::{Hash, RiskLevel, ToolCategory};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arguments::ArgumentTests;
use super::expression::Expression;
use super::values::{Glob, Period};

pub(super) fn seconds(seconds: u64) -> Period {
    Period(Duration::from_secs(seconds))
}

/// The memory of tool definitions: pins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Registry {
    /// Whether the agent pins a definition when it first sees the definition. With `false`, the agent compares each
    /// definition with the previous one until an operator approves one.
    pub pin_on_first_use: bool,
    /// Whether a changed definition is an alert. The agent reports the change in any case.
    pub alert_on_change: bool,
    /// Whether pins are stored on disk. With `false`, pins are lost when the agent ends.
    pub persistent: bool,
}

impl Default for Registry {
    fn default() -> Self {
        Self { pin_on_first_use: true, alert_on_change: true, persistent: true }
    }
}

/// The servers and tools that clients may use, and the number of calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Whether undeclared servers, unknown tools, and undecidable writes are denied.
    pub fail_closed: bool,
    /// The time for which, under `fail_closed`, a server may be used before it has listed its tools.
    pub pending_grace: Period,
    /// Whether globs in rules distinguish upper and lower case. With `false`, names match that are equal under Unicode's
    /// simple case folding.
    pub case_sensitive: bool,
    /// The list of servers that applies. Servers in `denied_servers` are denied in each mode.
    pub server_policy: ListMode,
    /// Servers that clients may use, under `server_policy: allowlist`. Example: `[files, { id: "weather-*" }]`.
    #[schemars(length(max = 10_000))]
    pub allowed_servers: Vec<ServerRule>,
    /// Servers that clients must not use. Example: `["evil-*"]`.
    #[schemars(length(max = 10_000))]
    pub denied_servers: Vec<ServerRule>,
    /// The list of tools that applies. Tools in `denied_tools` are denied in each mode.
    pub tool_policy: ListMode,
    /// Tools that clients may call, under `tool_policy: allowlist`. Example: `[{ server: files, tool: "read_*" }]`.
    #[schemars(length(max = 10_000))]
    pub allowed_tools: Vec<ToolRule>,
    /// Tools that clients must not call. Example: `[execute_command, { server: mail, tool: "send_*" }]`.
    #[schemars(length(max = 10_000))]
    pub denied_tools: Vec<ToolRule>,
    /// The effect of a changed definition on calls.
    pub version_pinning: VersionPinning,
    /// Limits on the number of calls.
    pub rate_limits: RateLimits,
    /// Tools that clients may call only with an administrator's token (`sessions[].admin_token_file`). Example: `[{
    /// server: prod, tool: "*" }]`.
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

/// The list that applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ListMode {
    /// Only allowed names are allowed.
    Allowlist,
    /// All names are allowed except denied ones.
    Denylist,
    /// The same as `denylist`.
    #[default]
    None,
}

/// Servers, by id: `{ id: GLOB }`, or the glob alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "ServerRuleForm")]
pub struct ServerRule {
    /// A glob on the server's id. Example: `weather-*`.
    pub id: Glob,
}

/// Tools, by server and name: `{ server: GLOB, tool: GLOB }`, `SERVER:TOOL` as in a tool's id, or the glob on the name alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "ToolRuleForm")]
pub struct ToolRule {
    /// A glob on the server's id.
    pub server: Glob,
    /// A glob on the tool's name. Example: `delete_*`.
    pub tool: Glob,
    /// The SHA-256 hash of the tool's definition. The rule applies only to this definition. Without this key, the rule
    /// applies to any definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_hash: Option<Hash>,
    /// What the arguments of a call must be, by JSON Pointer. The rule applies only to calls of which every test holds.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = { "type": "string", "format": "json-pointer" }))]
    pub arguments: ArgumentTests,
    /// A CEL expression over `call`, `tool`, `session` and `time`. The rule applies only to calls for which it is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<Expression>,
}

impl ToolRule {
    /// Whether the rule goes by more than names and definitions.
    pub fn has_conditions(&self) -> bool {
        !self.arguments.is_empty() || self.when.is_some()
    }
}

/// How a rule on servers may be written.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
enum ServerRuleForm {
    Short(Glob),
    Long {
        /// A glob on the server's id. Example: `weather-*`.
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
        /// A glob on the server's id.
        #[serde(default = "every")]
        server: Glob,
        /// A glob on the tool's name. Example: `delete_*`.
        tool: Glob,
        /// The SHA-256 hash of the tool's definition. The rule applies only to this definition. Without this key, the
        /// rule applies to any definition.
        content_hash: Option<Hash>,
        /// What the arguments of a call must be, by JSON Pointer. The rule applies only to calls of which every test
        /// holds.
        #[serde(default)]
        #[schemars(extend("propertyNames" = { "type": "string", "format": "json-pointer" }))]
        arguments: ArgumentTests,
        /// A CEL expression over `call`, `tool`, `session` and `time`. The rule applies only to calls for which it is
        /// true.
        when: Option<Expression>,
    },
}

impl From<ToolRuleForm> for ToolRule {
    fn from(form: ToolRuleForm) -> Self {
        match form {
            ToolRuleForm::Short(text) => {
                let (server, tool) = text.server_and_tool();
                Self { server, tool, content_hash: None, arguments: ArgumentTests::new(), when: None }
            }
            ToolRuleForm::Long { server, tool, content_hash, arguments, when } => {
                Self { server, tool, content_hash, arguments, when }
            }
        }
    }
}

pub(super) fn every() -> Glob {
    Glob::of("*")
}

/// The effect of a changed definition on calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VersionPinning {
    /// Whether the guard `rug_pull` judges calls by pins.
    pub enabled: bool,
    /// The effect on calls of a tool with a changed definition.
    pub on_change: OnChange,
}

impl Default for VersionPinning {
    fn default() -> Self {
        Self { enabled: true, on_change: OnChange::Alert }
    }
}

/// The effect on calls of a tool with a changed definition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnChange {
    /// Calls are denied.
    Block,
    /// The agent reports the calls.
    #[default]
    Alert,
    /// None.
    Allow,
}

/// Limits on the number of calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RateLimits {
    /// Whether calls are limited.
    pub enabled: bool,
    /// Calls per minute to each server without an entry in `per_server`. With 0, all calls are denied.
    pub default_rpm: u32,
    /// Calls that such a server may get at once. Without this key, as many as in one minute. Example: `10`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub default_burst: Option<u32>,
    /// Limits by glob on the server's id. An exact name takes precedence over globs; of several globs the strictest
    /// applies. Example: `{ weather-api: { calls_per_minute: 10, burst: 3 } }`.
    #[schemars(extend("propertyNames" = { "type": "string", "format": "glob" }))]
    pub per_server: BTreeMap<Glob, Rate>,
    /// Limits by glob on the tool's name, or by `SERVER:TOOL` with a glob for each, in addition to the limit of the
    /// server. An exact name takes precedence over globs; of several globs the strictest applies. Example: `{
    /// "mail:send_*": { calls_per_minute: 5 } }`.
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

/// A limit on the number of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Calls per minute. With 0, all calls are denied. Example: `10`.
    pub calls_per_minute: u32,
    /// Calls at once. Without this key, as many as in one minute. Example: `3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub burst: Option<u32>,
}

/// The effects of tools with misleading names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Classifier {
    /// The effects of some tools. The first entry that matches a tool applies.
    #[schemars(length(max = 10_000))]
    pub overrides: Vec<ClassifierOverride>,
}

/// The effects of some tools. The agent derives an effect without a key from the name and description of the tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClassifierOverride {
    /// A glob on the server's id.
    #[serde(default = "every")]
    pub server: Glob,
    /// A glob on the tool's name. Example: `sync_*`.
    pub tool: Glob,
    /// The category of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<ToolCategory>,
    /// The risk of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk_level: Option<RiskLevel>,
    /// The side effects of the tool. Example: `[network.http]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side_effect_tags: Option<BTreeSet<String>>,
}

/// Rules on calls to several servers of one session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CrossServer {
    /// Whether the guards `cross_server` and `tool_shadowing` apply the rules below.
    pub enabled: bool,
    /// The longest time between a result and the next call within one turn of a session. A longer gap starts a new turn.
    pub turn_gap: Period,
    /// The time after which the agent forgets a session without calls.
    pub session_idle: Period,
    /// The rule on a read from one server and a later send to another.
    pub read_then_send: ReadThenSend,
    /// The rule on many calls to one server in a short time.
    pub burst: Burst,
    /// The rule on a read from one server and a later write or send to another in the same turn.
    pub cross_server_flow: CrossServerFlow,
    /// The rule on calls of a tool with a name that another server offered first.
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

/// The rule on a read from one server and a later send to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReadThenSend {
    /// Whether the rule applies.
    pub enabled: bool,
    /// The longest time between the answer to the read and the send. More than 0.
    pub window: Period,
}

impl Default for ReadThenSend {
    fn default() -> Self {
        Self { enabled: true, window: seconds(30) }
    }
}

/// The rule on many calls to one server in a short time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Burst {
    /// Whether the rule applies.
    pub enabled: bool,
    /// The number of calls that are allowed within the window.
    #[schemars(range(min = 1, max = 1_000))]
    pub max_calls: u32,
    /// The time over which calls are counted. More than 0.
    pub window: Period,
}

impl Default for Burst {
    fn default() -> Self {
        Self { enabled: true, max_calls: 10, window: seconds(5) }
    }
}

/// The rule on a read from one server and a later write or send to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CrossServerFlow {
    /// Whether the rule applies.
    pub enabled: bool,
    /// Whether the rule applies only within one turn. With `false`, it applies within `window`.
    pub same_turn_only: bool,
    /// The longest time between the answer to the read and the write or send, with `same_turn_only: false`. More than 0.
    pub window: Period,
}

impl Default for CrossServerFlow {
    fn default() -> Self {
        Self { enabled: true, same_turn_only: true, window: seconds(30) }
    }
}

/// The rule on calls of a tool with a name that another server offered first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ShadowTool {
    /// Whether the rule applies.
    pub enabled: bool,
}

impl Default for ShadowTool {
    fn default() -> Self {
        Self { enabled: true }
    }
}
