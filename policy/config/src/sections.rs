//! What is watched: servers, sessions, the kernel half.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use mcpwarden_terms::{Hash, Mode, ServerType, Trust};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::judgement::{ServerRule, ToolRule};
use super::network::Egress;
use super::values::{AbsolutePath, Bytes, Fingerprint, Glob, HttpUrl, Period, SecretFile};

/// The rules by which the agent recognises MCP servers: globs on a command line, and on the package, script or module in
/// it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Discovery {
    /// Globs that replace the built-in patterns. Without this key, the built-in patterns apply. A name is also matched in its form with hyphens:
    /// `WeatherMcp` and `Weather.Mcp` as `weather-mcp`. Example:
    /// `["@modelcontextprotocol/*", "mcp-server-*"]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1_000))]
    pub server_patterns: Option<Vec<Glob>>,
    /// Globs in addition to the built-in patterns. Example: `["my-company-mcp-*"]`.
    #[schemars(length(max = 1_000))]
    pub custom_servers: Vec<Glob>,
    /// Whether the agent also finds undeclared servers among the TCP connections within this host (`127.0.0.0/8`, `::1`)
    /// and the connections to named and abstract Unix stream sockets. The agent reads the first bytes of each connection; a
    /// process that speaks MCP over plain-text HTTP (TCP only) or in lines is a server.
    pub loopback: bool,
    /// Whether the agent itself connects to declared servers of `type: http` and `type: sse` and lists their tools, so
    /// that these are known and inspected before a client calls one. The agent skips denied and disabled servers.
    pub list_declared: bool,
    /// The approximate time between two such listings. The first listing is at the start of the agent. At least 1s.
    pub list_every: Period,
}

impl Default for Discovery {
    fn default() -> Self {
        Self {
            server_patterns: None,
            custom_servers: Vec::new(),
            loopback: true,
            list_declared: true,
            list_every: Period(Duration::from_secs(300)),
        }
    }
}

/// A declared server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// The id of the server in events and rules. Example: `files`.
    #[schemars(length(min = 1, max = 256))]
    pub id: String,
    /// Whether clients may use the server. All requests to a disabled server are denied.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// The transport of the server: `stdio`, `http` or `sse`. The other types are those of servers that the agent finds, and
    /// cannot be declared.
    #[serde(default, rename = "type")]
    pub kind: ServerType,
    /// The program of the server, for `type: stdio` (required there): a path, or a name in `PATH`. Example: `npx`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub command: Option<String>,
    /// All arguments of the program, in order. Example: `["-y", "@modelcontextprotocol/server-filesystem", "/srv"]`.
    #[serde(default)]
    pub args: Vec<String>,
    /// Environment variables that `mcpwarden inspect --start` and `mcpwarden call` set for the server. Example: `{ NODE_ENV: production }`.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The executable or script that the server must run in the end. A process with this command line that runs another
    /// program is not this server: the agent compares the files, not their names. Without this key, any program may run.
    /// Example: `/usr/bin/node`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<AbsolutePath>,
    /// The program that must interpret `executable`, where that is a script. Without this key, the script's first line
    /// names the interpreter by its path, or the interpreter is at a path that only root can write to. Example:
    /// `/home/ada/.nvm/versions/node/v22.1.0/bin/node`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interpreter: Option<AbsolutePath>,
    /// The URL of the server, for `type: http` and `type: sse` (required there). Example: `https://mcp.example.com/mcp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<HttpUrl>,
    /// A file with the HTTP headers (`Name: value` lines) that the agent and `mcpwarden call` send to the server, or `credential:`
    /// and the name of a credential of the agent's systemd unit. The agent reads the file before each listing. The file
    /// must belong to root, and nobody else may read it. Without this key, the agent sends no headers of its own.
    /// Example: `/etc/mcpwarden/files.headers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers_from: Option<SecretFile>,
    /// The fingerprint of the certificate that the server must show to the agent: `sha256:` and the SHA-256 hash of the
    /// certificate (DER), or `spki-sha256:` and that of its public key. A matching certificate may be self-signed.
    /// Without this key, the agent verifies the certificate by the certificate authorities of the host. Example:
    /// `sha256:` and 64 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_fingerprint: Option<Fingerprint>,
    /// The time after which a request without an answer is an event; ten times that while the server waits for an answer of its
    /// client. Milliseconds; the default, which also applies to undeclared servers, is the time after which the official
    /// TypeScript client gives up. Suggested values: 5000 for a server that answers by itself, 30000 for a server that
    /// calls others over the network, several minutes for a server that builds or searches. `mcpwarden call` waits so long
    /// for an answer.
    #[serde(default = "minute")]
    #[schemars(range(min = 1, max = 86_400_000))]
    pub timeout_ms: u32,
    /// Globs on the only tools of the server that clients may call. With an empty list, clients may call all tools.
    /// Example: `["read_*"]`.
    #[serde(default)]
    #[schemars(length(max = 10_000))]
    pub allow_tools: Vec<Glob>,
    /// Side effects. Calls of the server's tools with one of these side effects are denied. Example: `[fs.delete,
    /// payments]`.
    #[serde(default)]
    pub deny_side_effect_tags: Vec<String>,
    /// The number of open requests to the server above which the agent reports an event.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 100_000))]
    pub max_concurrent: u32,
    /// The trust in the server.
    #[serde(default)]
    pub trust: Trust,
    /// The destinations that the server's processes may connect to, for `type: stdio`: `any`, `none`, or a list of
    /// addresses. Example: `["api.example.com:443"]`.
    #[serde(default)]
    pub egress: Egress,
}

fn yes() -> bool {
    true
}

fn minute() -> u32 {
    DEFAULT_TIMEOUT_MS
}

/// `servers[].timeout_ms` of a server that has none: a minute (`DEFAULT_REQUEST_TIMEOUT_MSEC` of the TypeScript SDK).
pub const DEFAULT_TIMEOUT_MS: u32 = 60_000;

fn ten() -> u32 {
    10
}

/// The profile of a client's sessions. The first entry that matches a client applies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Session {
    /// The name of the profile for `mcpwarden decide --profile` and `mcpwarden call --profile`. Example: `nightly`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub name: Option<String>,
    /// The clients that the profile is for. With an empty mapping, the profile is for all clients.
    #[serde(rename = "match")]
    #[schemars(extend("x-decides" = true))]
    pub matches: SessionMatch,
    /// `planning`: the guard `mode` denies tools with side effects. `execution`: it denies none.
    pub mode: Mode,
    /// Whether the specification that the client works on is frozen. The guard `spec_frozen` denies tools of high risk
    /// without a frozen specification.
    pub spec_frozen: bool,
    /// The SHA-256 hash of that specification. The guard `spec_frozen` treats a specification without a hash as not
    /// frozen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec_hash: Option<Hash>,
    /// The project that the client works on. Without this key, the guard `project_binding` denies tools of more than low
    /// risk. Example: `billing`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub project_id: Option<String>,
    /// Side effects. The guard `side_effects` denies tools with one of them. Example: `[payments]`.
    pub policy_blacklist: Vec<String>,
    /// A file with an administrator's token. The guard `admin_token` allows the tools that need a token if the file
    /// exists, is not empty, belongs to root, and only root can write to it. The agent reads the file when it starts and
    /// when it reloads the configuration. Without this key, these tools are denied. Example:
    /// `/run/mcpwarden/admin.token`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_token_file: Option<AbsolutePath>,
    /// The only servers that the client may use, by id. With an empty list, all that `policy` allows. Example: `[files,
    /// "git-*"]`.
    #[schemars(length(max = 10_000))]
    pub allowed_servers: Vec<ServerRule>,
    /// Servers that the client must not use, besides those of `policy`. Example: `[mail]`.
    #[schemars(length(max = 10_000))]
    pub denied_servers: Vec<ServerRule>,
    /// The only tools that the client may call. With an empty list, all that `policy` allows. Example: `["read_*",
    /// "git:*"]`.
    #[schemars(length(max = 10_000))]
    pub allowed_tools: Vec<ToolRule>,
    /// Tools that the client must not call, besides those of `policy`. Example: `["delete_*"]`.
    #[schemars(length(max = 10_000))]
    pub denied_tools: Vec<ToolRule>,
}

impl Session {
    /// Whether it restricts no server and no tool.
    pub fn has_no_lists(&self) -> bool {
        let no_servers = self.allowed_servers.is_empty() && self.denied_servers.is_empty();
        no_servers && self.allowed_tools.is_empty() && self.denied_tools.is_empty()
    }
}

/// A user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum User {
    /// By id.
    Id(u32),
    /// By name.
    Name(#[schemars(length(min = 1, max = 256))] String),
}

impl fmt::Display for User {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(formatter),
            Self::Name(name) => name.fmt(formatter),
        }
    }
}

/// Conditions on a client. A client matches if all given conditions hold. A condition on an unknown fact does not hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SessionMatch {
    /// The user of the client, by id or by name on this host. Example: `1000`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<User>,
    /// A glob on the path of the client's executable. Example: `/usr/bin/code*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executable: Option<Glob>,
    /// A glob on the client's path in the cgroup tree. Example: `/user.slice/*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<Glob>,
}

/// The kernel hooks that capture bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// The best backend that works on this kernel.
    #[default]
    Auto,
    /// Exits of the kernel's functions for pipes and sockets: not available on every kernel, and without cost for other
    /// system calls.
    Trampolines,
    /// System call tracepoints: available on every kernel, with a small cost for each system call.
    Tracepoints,
}

/// The connections over TLS of which the plaintext is read, in the memory of the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TlsCapture {
    /// None.
    Off,
    /// Connections to declared servers with an `https` address. The agent attaches uprobes to each process that connects to one, and reads
    /// connections that the process makes after that. On Debian's kernels before 6.10, that needs CAP_SYS_ADMIN.
    #[default]
    Servers,
    /// Also connections to the APIs of models (`capture.model_apis`), of which the agent reports the tools that models want to be called.
    Clients,
}

/// The record of arguments and results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Payloads {
    /// Each leaf as type and length, and long texts as keyed hashes.
    #[default]
    Redacted,
    /// Everything, secrets included.
    Full,
}

/// The amount of data that the agent captures and records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Capture {
    /// The kernel hooks that capture bytes.
    pub backend: Backend,
    /// The size of the ring buffer between the kernel and the agent. Bytes: a power of two from 4 KiB to 1 GiB.
    pub ring_bytes: Bytes,
    /// The length of the longest message that the agent reads. A longer message is a gap. Bytes. The default is 16 MiB
    /// and an envelope.
    #[schemars(extend("minimum" = 1024))]
    pub max_message_bytes: Bytes,
    /// The memory for unfinished messages of all servers together. Bytes.
    #[schemars(extend("minimum" = 1024))]
    pub reassembly_bytes: Bytes,
    /// The memory for unfinished messages of the servers of one user. Bytes.
    #[schemars(extend("minimum" = 1024))]
    pub per_uid_bytes: Bytes,
    /// The record of arguments and results.
    pub payloads: Payloads,
    /// The connections over TLS of which the plaintext is read, in the memory of the client. Others are reported as not inspected.
    pub tls: TlsCapture,
    /// The APIs of models whose connections are read: those with `https` in the mode `clients` of `capture.tls`, those with `http` in any.
    /// The path is ignored. On loopback, the agent recognises such APIs in plain text by their form.
    #[schemars(length(max = 64))]
    pub model_apis: Vec<HttpUrl>,
}

/// The APIs that most agents use.
const MODEL_APIS: [&str; 3] =
    ["https://api.anthropic.com", "https://api.openai.com", "https://generativelanguage.googleapis.com"];

impl Default for Capture {
    fn default() -> Self {
        Self {
            backend: Backend::Auto,
            ring_bytes: Bytes(32 << 20),
            max_message_bytes: Bytes((16 << 20) + (64 << 10)),
            reassembly_bytes: Bytes(96 << 20),
            per_uid_bytes: Bytes(48 << 20),
            payloads: Payloads::Redacted,
            tls: TlsCapture::Servers,
            model_apis: MODEL_APIS.iter().filter_map(|url| url.parse().ok()).collect(),
        }
    }
}
