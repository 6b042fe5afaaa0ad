//! Amendments of guards.

use std::collections::BTreeMap;

use mcpwarden_terms::{GuardKind, Hash, Phase, Severity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::inspection::high;
use super::judgement::{ListMode, OnChange, ServerRule, ToolRule, every};
use super::values::{AbsolutePath, Bytes, Glob, HttpUrl, Pattern, Period, SecretFile};

/// Settings of one guard, for some or all servers. A setting without a key stays as it is built in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuardEntry {
    /// The guard.
    pub kind: GuardKind,
    /// The name of a guard that others wrote (`wasm`, `http`), in events and metrics. Each has its own name. Without this
    /// key, the name of the file without its ending, or the host of the URL. Example: `data-loss`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub name: Option<String>,
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
            name: None,
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

impl GuardEntry {
    /// Whether it denies calls of tools until it has judged their definitions.
    pub fn holds_tools(&self) -> bool {
        self.enabled && self.config.as_ref().is_some_and(|own| own.hold_until_judged == Some(true))
    }

    /// What a guard that others wrote is called.
    pub fn external_name(&self) -> String {
        let settings = self.config.as_ref();
        let given = self.name.clone();
        let of_file = || {
            let path = settings?.module_path.as_ref()?;
            Some(std::path::Path::new(path.as_str()).file_stem()?.to_str()?.to_owned())
        };
        let of_url = || {
            let (_, rest) = settings?.url.as_ref()?.as_str().split_once("://")?;
            Some(rest.split(['/', '?', '#']).next()?.to_owned())
        };
        given.or_else(of_file).or_else(of_url).unwrap_or_else(|| self.kind.name().to_owned())
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
    /// `wasm`: the WebAssembly component, a file that only root can change (required there). Example:
    /// `/etc/mcpwarden/guards/data-loss.wasm`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module_path: Option<AbsolutePath>,
    /// `wasm`: the SHA-256 hash that the component must have. Without this key, any. Example:
    /// `sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Hash>,
    /// `wasm`: the minisign public key of whoever must have signed the component. The signature is in the file with the path
    /// of the component and `.minisig`. Without this key, anybody. Example:
    /// `RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 56, max = 56))]
    pub public_key: Option<String>,
    /// `wasm`: values that the component reads with `get-config`. A text is given as it is, any other value as JSON.
    /// Example: `{ threshold: 2, patterns: [suspicious] }`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 256))]
    pub wasm_config: Option<BTreeMap<String, Value>>,
    /// `wasm`: the memory that one instance of the component may have. Bytes. Without this key, 64 MiB. Example: `64MiB`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 65536))]
    pub memory: Option<Bytes>,
    /// `http`: the URL that the agent posts operations to (required there). Plain `http://` is for addresses of this host.
    /// Example: `https://policy.example.com/guard/evaluate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<HttpUrl>,
    /// `http`: a file with the certificates of the authorities that may sign the certificate of the service, as PEM.
    /// Without this key, those of the system. Example: `/etc/mcpwarden/policy-ca.pem`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<AbsolutePath>,
    /// `http`: a file with the certificate of the agent and its chain, as PEM. Needs `client_key_file`. Example:
    /// `/etc/mcpwarden/agent.pem`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_certificate_file: Option<AbsolutePath>,
    /// `http`: a file with the key of that certificate, as PEM, which only root can read. Example:
    /// `/etc/mcpwarden/agent.key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_key_file: Option<SecretFile>,
    /// `http`: a file with a token that the agent sends as `Authorization: Bearer`, as `secret_file` of a sink. Example:
    /// `credential:guard-token`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<SecretFile>,
    /// `http`: a file with the secret that the agent signs requests with (HMAC-SHA256), as `secret_file` of a sink. Not
    /// with `token_file`. Example: `credential:guard-hmac`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hmac_file: Option<SecretFile>,
    /// `http`: what the service sees of arguments and results. Without this key, `redacted`. Example: `full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
    /// `http`: the number of requests at once, at most three quarters of them about one user's servers: others wait.
    /// Without this key, 8. Example: `8`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub max_concurrent: Option<u32>,
    /// `http`: the number of requests per second, twice as many in a burst, and at most three quarters of them about one
    /// user's servers: a question beyond counts as a failure of the guard. Without this key, 1000. Example: `200`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 50000))]
    pub max_per_second: Option<u32>,
    /// `wasm`, `http`: whether calls of a tool are denied until the guard has judged its definition. Without this key,
    /// `false`. Example: `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_until_judged: Option<bool>,
    /// `wasm`, `http`: how long a denial of anything but a definition holds, if the answer does not say. Without this key,
    /// 1 hour. Example: `10m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_for: Option<Period>,
}

/// What a service sees of arguments and results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// The form of values: each is its type and length, as in events.
    #[default]
    Redacted,
    /// Everything. Arguments and results leave this host.
    Full,
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
