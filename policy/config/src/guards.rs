//! Amendments of guards.

use mcpwarden_terms::{GuardKind, Phase, Severity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::inspection::high;
use super::judgement::{ListMode, OnChange, ServerRule, ToolRule, every};
use super::values::{Glob, Pattern};

/// Amends the built-in guard of its kind, for some servers. What is left out stays as it is built in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuardEntry {
    /// Which guard.
    pub kind: GuardKind,
    /// Globs on the ids of the servers that it is amended for.
    #[serde(default = "all_servers")]
    #[schemars(length(min = 1), extend("x-decides" = true))]
    pub servers: Vec<Glob>,
    /// Whether it is asked.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// 0 is asked first, 100 last; inside one priority the order of the configuration counts. Example: `10`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100))]
    pub priority: Option<u8>,
    /// How long a guard out of this process may take. Milliseconds.
    #[serde(default = "second")]
    #[schemars(range(min = 10, max = 10_000))]
    pub timeout_ms: u32,
    /// What a guard that fails has said.
    #[serde(default)]
    pub failure_mode: FailureMode,
    /// When it is asked. Example: `[tools_list, tool_invoke]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub runs_on: Option<Vec<Phase>>,
    /// Settings of this guard's own, each in place of what the section says that it goes by.
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

/// What a guard that fails has said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureMode {
    /// Deny.
    #[default]
    FailClosed,
    /// Allow, with a warning.
    FailOpen,
}

/// Settings of single guards; the description says whose they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GuardSettings {
    /// `tool_poisoning`: detections of each severity count. Example: `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict_mode: Option<bool>,
    /// `tool_poisoning`: patterns beside the rules, for the definitions of tools of the servers that the entry names.
    /// Example: `["(?i)execute.*as.*root", { pattern: "(?i)legacy", severity: low }]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    pub custom_patterns: Option<Vec<GuardPattern>>,
    /// `tool_poisoning`: the only fields of a definition that count. Example: `[name, description]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub scan_fields: Option<Vec<ScanField>>,
    /// `tool_poisoning`: so many detections deny, each rule counted once in a field. Of one definition 64 are kept. Example: `1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub min_detections: Option<u32>,
    /// `server_access`: which list of servers counts; without it, `allowlist` where `allowed_servers` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_policy: Option<ListMode>,
    /// `server_access`: the only servers that may be used. Example: `[github, gitlab]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10_000))]
    pub allowed_servers: Option<Vec<ServerRule>>,
    /// `server_access`: servers that must not be used. Example: `["evil-*"]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10_000))]
    pub denied_servers: Option<Vec<ServerRule>>,
    /// `tool_access`: which list of tools counts; without it, `allowlist` where `allowed_tools` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_policy: Option<ListMode>,
    /// `tool_access`: the only tools that may be called. Example: `["read_*"]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10_000))]
    pub allowed_tools: Option<Vec<ToolRule>>,
    /// `tool_access`: tools that must not be called. Example: `["delete_*"]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10_000))]
    pub denied_tools: Option<Vec<ToolRule>>,
    /// `rug_pull`: what becomes of a call of a tool that changed. Example: `block`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_change: Option<OnChange>,
    /// `result_injection`, `sampling`: what is done with a text in which something was found. Example: `block`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<TextAction>,
    /// `sampling`: every such request is denied. Example: `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny_all: Option<bool>,
    /// `disabled_tool`, `admin_token`: which tools. Example: `["delete_*"]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10_000))]
    pub tools: Option<Vec<ToolRule>>,
}

/// What a guard looks for: `{ pattern: REGEX, severity: low }`, or the regular expression alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "GuardPatternForm")]
pub struct GuardPattern {
    /// A regular expression.
    pub pattern: Pattern,
    /// How bad a match is.
    pub severity: Severity,
}

/// How such a pattern may be written.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
enum GuardPatternForm {
    Short(Pattern),
    Long {
        /// A regular expression. Example: `(?i)execute.*as.*root`.
        pattern: Pattern,
        /// How bad a match is.
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

/// What is done with a text in which something was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextAction {
    /// It is reported.
    #[default]
    Alert,
    /// It is denied.
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
