//! Amendments of guards.

use mcpwarden_terms::{GuardKind, Phase, Severity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::inspection::high;
use super::judgement::{ListMode, OnChange, ServerRule, ToolRule, every};
use super::values::{Glob, Pattern};

/// Settings of one guard, for some or all servers. A setting without a key stays as it is built in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuardEntry {
    /// The guard.
    pub kind: GuardKind,
    /// Globs on the ids of the servers that the entry applies to.
    #[serde(default = "all_servers")]
    #[schemars(length(min = 1), extend("x-decides" = true))]
    pub servers: Vec<Glob>,
    /// Whether the guard judges operations of these servers.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// The place in the order of guards: 0 first, 100 last. Entries of equal priority keep their order in the file.
    /// Without this key, the built-in order applies. Example: `10`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100))]
    pub priority: Option<u8>,
    /// The time that the guard has for one operation. A guard that runs inside the agent may instead read 100,000 bytes
    /// for each millisecond. Milliseconds.
    #[serde(default = "second")]
    #[schemars(range(min = 10, max = 10_000))]
    pub timeout_ms: u32,
    /// The verdict of a guard that fails.
    #[serde(default)]
    pub failure_mode: FailureMode,
    /// The operations that the guard judges. Without this key, all operations that it knows. Example: `[tools_list,
    /// tool_invoke]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub runs_on: Option<Vec<Phase>>,
    /// Settings of this guard. Each setting replaces the same setting of the section that the guard uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<GuardSettings>,
}

impl GuardEntry {
    /// The entry that changes nothing but turns a guard on.
    pub fn new(kind: GuardKind) -> Self {
        Self {
            kind,
            servers: all_servers(),
            enabled: true,
            priority: None,
            timeout_ms: second(),
            failure_mode: FailureMode::default(),
            runs_on: None,
            config: None,
        }
    }
}

fn yes() -> bool {
    true
}

fn second() -> u32 {
    1_000
}

fn all_servers() -> Vec<Glob> {
    vec![every()]
}

/// The verdict of a guard that fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureMode {
    /// The guard denies.
    #[default]
    FailClosed,
    /// The guard allows, with a warning.
    FailOpen,
}

/// Settings of single guards. The description begins with the guards that have the setting.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GuardSettings {
    /// `tool_poisoning`: whether detections of every severity count. Without this key, detections at and above
    /// `inspection.alert_threshold` count. Example: `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict_mode: Option<bool>,
    /// `tool_poisoning`: patterns in addition to the rules, for tool definitions of the servers that the entry names.
    /// Example: `["(?i)execute.*as.*root", { pattern: "(?i)legacy", severity: low }]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    pub custom_patterns: Option<Vec<GuardPattern>>,
    /// `tool_poisoning`: the only fields of a definition in which detections count. Without this key, all fields.
    /// Example: `[name, description]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub scan_fields: Option<Vec<ScanField>>,
    /// `tool_poisoning`: the number of detections from which on the guard objects. Each rule counts once per field, and
    /// the agent keeps 64 detections of one definition. Without this key, 1. Example: `1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub min_detections: Option<u32>,
    /// `server_access`: the list of servers that applies. Without this key, `allowlist` if `allowed_servers` has entries,
    /// else `policy.server_policy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_policy: Option<ListMode>,
    /// `server_access`: the servers that clients may use. Without this key, `policy.allowed_servers`. Example: `[github,
    /// gitlab]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10_000))]
    pub allowed_servers: Option<Vec<ServerRule>>,
    /// `server_access`: the servers that clients must not use. Without this key, `policy.denied_servers`. Example:
    /// `["evil-*"]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10_000))]
    pub denied_servers: Option<Vec<ServerRule>>,
    /// `tool_access`: the list of tools that applies. Without this key, `allowlist` if `allowed_tools` has entries, else
    /// `policy.tool_policy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_policy: Option<ListMode>,
    /// `tool_access`: the tools that clients may call. Without this key, `policy.allowed_tools`. Example: `["read_*"]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10_000))]
    pub allowed_tools: Option<Vec<ToolRule>>,
    /// `tool_access`: the tools that clients must not call. Without this key, `policy.denied_tools`. Example:
    /// `["delete_*"]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10_000))]
    pub denied_tools: Option<Vec<ToolRule>>,
    /// `rug_pull`: the effect on calls of a tool with a changed definition. Without this key,
    /// `policy.version_pinning.on_change`. Example: `block`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_change: Option<OnChange>,
    /// `result_injection`, `sampling`: the effect of a detection in a text. Without this key, `alert`. Example: `block`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<TextAction>,
    /// `sampling`: whether every such request is denied. Without this key, `false`. Example: `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny_all: Option<bool>,
    /// `disabled_tool`, `admin_token`: the tools. Without this key, `policy.disabled_tools` and
    /// `policy.requires_admin_token`. Example: `["delete_*"]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10_000))]
    pub tools: Option<Vec<ToolRule>>,
}

/// A pattern of a guard: `{ pattern: REGEX, severity: low }`, or the regular expression alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "GuardPatternForm")]
pub struct GuardPattern {
    /// The regular expression.
    pub pattern: Pattern,
    /// The severity of a match.
    pub severity: Severity,
}

/// How such a pattern may be written.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
enum GuardPatternForm {
    Short(Pattern),
    Long {
        /// The regular expression. Example: `(?i)execute.*as.*root`.
        pattern: Pattern,
        /// The severity of a match.
        #[serde(default = "high")]
        severity: Severity,
    },
}

impl From<GuardPatternForm> for GuardPattern {
    fn from(form: GuardPatternForm) -> Self {
        match form {
            GuardPatternForm::Short(pattern) => Self { pattern, severity: high() },
            GuardPatternForm::Long { pattern, severity } => Self { pattern, severity },
        }
    }
}

/// The effect of a detection in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextAction {
    /// The agent reports the text.
    #[default]
    Alert,
    /// The text is denied.
    Block,
}

/// A field of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScanField {
    /// `name`.
    Name,
    /// `title`.
    Title,
    /// `description`.
    Description,
    /// `inputSchema`.
    InputSchema,
    /// `outputSchema`.
    OutputSchema,
    /// `annotations`.
    Annotations,
}
