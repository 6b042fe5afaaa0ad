//! What is watched: servers, sessions, the kernel half.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use mcpwarden_terms::{Hash, Mode, ServerType, Trust};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::network::Egress;
use super::values::{AbsolutePath, Bytes, Fingerprint, Glob, HttpUrl, Period, SecretFile};

/// What is an MCP server: globs on the command line and on the package, script or module in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Discovery {
    /// In place of the built-in patterns. Example: `["@modelcontextprotocol/*", "mcp-server-*"]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1_000))]
    pub server_patterns: Option<Vec<Glob>>,
    /// Beside the built-in patterns. Example: `["my-company-mcp-*"]`.
    #[schemars(length(max = 1_000))]
    pub custom_servers: Vec<Glob>,
    /// Whether servers that nobody declared are looked for among the TCP connections within this host (`127.0.0.0/8`,
    /// `::1`): the first bytes of each are looked at, and what speaks MCP over HTTP in plain text counts as a server.
    pub loopback: bool,
    /// Whether the agent itself connects to declared servers of type `http` and `sse` and lists what they offer, so that it
    /// is known and inspected before a client asks. Denied and disabled ones it leaves alone.
    pub list_declared: bool,
    /// How often it does so, more or less, after the first time at its start.
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
    /// Its id in events and policy. Example: `files`.
    #[schemars(length(min = 1, max = 256))]
    pub id: String,
    /// Whether it may be used. A disabled server's requests are all denied.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// How it is spoken to.
    #[serde(default, rename = "type")]
    pub kind: ServerType,
    /// Its program, for `type: stdio`: a path, or a name as found in `PATH`. Example: `npx`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub command: Option<String>,
    /// Its arguments, all of them, in order. Example: `["-y", "@modelcontextprotocol/server-filesystem", "/srv"]`.
    #[serde(default)]
    pub args: Vec<String>,
    /// Environment that `mcpwarden inspect --start` gives it. Example: `{ NODE_ENV: production }`.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The executable or script that must serve in the end: what has its command line and is another program is not this
    /// server. Example: `/usr/bin/node`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<AbsolutePath>,
    /// Its address, for `type: http` and `type: sse`. Example: `https://mcp.example.com/mcp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<HttpUrl>,
    /// File with the headers (`Name: value` lines) that the agent sends when it lists what the server offers itself, or
    /// `credential:` and the name of a credential of its systemd unit. It is read each time, and must be root's alone: nobody
    /// else may read it. Example: `/etc/mcpwarden/files.headers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers_from: Option<SecretFile>,
    /// The certificate that it must show to the agent, by the hash of its DER form, `sha256:` of the whole and `spki-sha256:`
    /// of its key. One that matches may have signed itself. Example: `sha256:` and 64 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_fingerprint: Option<Fingerprint>,
    /// A request that has no answer for longer is an event. Milliseconds; none is without that event. Some 5000 suit a server
    /// that answers by itself, 30000 one that asks others over the network, and several minutes one that builds or searches.
    /// Example: `5000`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400_000))]
    pub timeout_ms: Option<u32>,
    /// The only tools of it that may be called; none listed is all. Example: `["read_*"]`.
    #[serde(default)]
    #[schemars(length(max = 10_000))]
    pub allow_tools: Vec<Glob>,
    /// Tools with one of these side effects may not be called. Example: `[fs.delete, payments]`.
    #[serde(default)]
    pub deny_side_effect_tags: Vec<String>,
    /// More open requests at once are an event.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 100_000))]
    pub max_concurrent: u32,
    /// How far it is trusted.
    #[serde(default)]
    pub trust: Trust,
    /// Where its processes may connect to, for `type: stdio`: `any`, `none`, or a list of addresses. Example: `["api.example.com:443"]`.
    #[serde(default)]
    pub egress: Egress,
}

fn yes() -> bool {
    true
}

fn ten() -> u32 {
    10
}

/// What a client's sessions may do. The first entry that matches a client counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Session {
    /// Its name for `mcpwarden decide --profile`. Example: `nightly`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub name: Option<String>,
    /// Which clients; without a key in it, all.
    #[serde(rename = "match")]
    #[schemars(extend("x-decides" = true))]
    pub matches: SessionMatch,
    /// While planning no tool with side effects is called.
    pub mode: Mode,
    /// Whether the specification that the client works on is frozen.
    pub spec_frozen: bool,
    /// The hash of that specification.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec_hash: Option<Hash>,
    /// The project that the client works on. Example: `billing`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub project_id: Option<String>,
    /// Side effects that no tool may have. Example: `[payments]`.
    pub policy_blacklist: Vec<String>,
    /// File with an administrator's token: where it is there, not empty, root's, and nobody else can write to it, tools
    /// that need one may be called. It is looked at when the agent starts. Example: `/run/mcpwarden/admin.token`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_token_file: Option<AbsolutePath>,
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

/// Which clients: those that all of these fit. What is not known of a client fits nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SessionMatch {
    /// User, by id or by name on this host. Example: `1000`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<User>,
    /// Glob on the path of the executable. Example: `/usr/bin/code*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executable: Option<Glob>,
    /// Glob on the path in the cgroup tree. Example: `/user.slice/*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<Glob>,
}

/// Which backend captures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// The best one that works here.
    #[default]
    Auto,
    /// The exits of the kernel's functions for pipes and sockets: not on every kernel, and nothing on other calls.
    Trampolines,
    /// System call tracepoints: everywhere, a little on every system call.
    Tracepoints,
}

/// What is recorded of arguments and results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Payloads {
    /// Each leaf as type and length, and long texts as keyed hashes.
    #[default]
    Redacted,
    /// Everything, secrets included.
    Full,
}

/// How much is captured and kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Capture {
    /// How bytes are captured.
    pub backend: Backend,
    /// The ring between the kernel and the agent. Bytes: a power of two, 4 KiB to 1 GiB.
    pub ring_bytes: Bytes,
    /// Longest message. Bytes. The default is 16 MiB and an envelope.
    #[schemars(extend("minimum" = 1024))]
    pub max_message_bytes: Bytes,
    /// Unfinished messages of all servers together. Bytes.
    #[schemars(extend("minimum" = 1024))]
    pub reassembly_bytes: Bytes,
    /// Unfinished messages of one user's servers. Bytes.
    #[schemars(extend("minimum" = 1024))]
    pub per_uid_bytes: Bytes,
    /// What is recorded of arguments and results.
    pub payloads: Payloads,
}

impl Default for Capture {
    fn default() -> Self {
        Self {
            backend: Backend::Auto,
            ring_bytes: Bytes(32 << 20),
            max_message_bytes: Bytes((16 << 20) + (64 << 10)),
            reassembly_bytes: Bytes(96 << 20),
            per_uid_bytes: Bytes(48 << 20),
            payloads: Payloads::Redacted,
        }
    }
}
