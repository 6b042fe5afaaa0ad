//! What follows from a decision, and where events go: enforcement, store, sinks, metrics, control.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use mcpwarden_terms::Severity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::{AbsolutePath, AllowDeny, Bytes, Glob, HttpUrl, Period, SecretFile};

/// What a denial does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Enforcement {
    /// What a denied message to a stdio server meets.
    pub stdio: StdioEnforcement,
    /// What a denied connection meets.
    pub network: NetworkEnforcement,
    /// How much of one write the gate looks at. Bytes.
    #[schemars(extend("minimum" = 1024, "maximum" = 65536))]
    pub window_bytes: Bytes,
    /// What a write meets of which the gate cannot tell what it asks for: it is longer than the window, cannot be read, or is one
    /// of the other forms that docs/internals/gate.md lists.
    pub undecided: AllowDeny,
    /// Whether the programs in the kernel stay when the agent ends or is killed, until the next one takes over, or `mcpwarden
    /// detach`: connections and calls stay denied, and what is said meanwhile waits in the ring.
    pub persist: bool,
}

impl Default for Enforcement {
    fn default() -> Self {
        Self {
            stdio: StdioEnforcement::Observe,
            network: NetworkEnforcement::Observe,
            window_bytes: Bytes(16 << 10),
            undecided: AllowDeny::Allow,
            persist: false,
        }
    }
}

/// What a denied message to a stdio server meets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StdioEnforcement {
    /// It is reported and passes.
    #[default]
    Observe,
    /// The write fails; most clients then close the session.
    Deny,
    /// The tool's name is neutralized, so that the server refuses it and the session lives on.
    Neutralize,
}

/// What a denied connection meets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NetworkEnforcement {
    /// It is reported and opens.
    #[default]
    Observe,
    /// It fails.
    Deny,
}

/// What is kept on this host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Store {
    /// The database of events; without it, `mcpwarden.db` in the state directory. That of pins, `registry.db`, is beside it.
    /// Its directory must belong to whom the agent runs as. Example: `/var/lib/mcpwarden/mcpwarden.db`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<AbsolutePath>,
    /// Events that wait to be written. When there are more, the agent waits, too, and what then does not fit into the ring is
    /// a gap. Bytes.
    #[schemars(extend("minimum" = 65536, "maximum" = 1073741824))]
    pub queue_bytes: Bytes,
    /// How long events are kept.
    pub retention: Retention,
}

impl Default for Store {
    fn default() -> Self {
        Self { path: None, queue_bytes: Bytes(16 << 20), retention: Retention::default() }
    }
}

/// How long events are kept: the oldest go first once one of the two is passed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Retention {
    /// Oldest event.
    pub age: Period,
    /// Size of the database. Bytes.
    #[schemars(extend("minimum" = 1048576))]
    pub bytes: Bytes,
}

impl Default for Retention {
    fn default() -> Self {
        Self { age: Period(Duration::from_secs(30 * 86_400)), bytes: Bytes(2 << 30) }
    }
}

/// Where events are sent, beside the store. See docs/guide/siem.md.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sink {
    /// What receives them.
    pub kind: SinkKind,
    /// How an event is written.
    #[serde(default)]
    pub format: SinkFormat,
    /// Which events.
    #[serde(default)]
    pub filter: SinkFilter,
    /// The file, for `kind: file`. Example: `/var/log/mcpwarden/events.jsonl`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<AbsolutePath>,
    /// The file is rotated when it is larger, for `kind: file`. Bytes. Example: `100MiB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 65536))]
    pub rotate_bytes: Option<Bytes>,
    /// Rotated files that are kept, for `kind: file`. Example: `10`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 10_000))]
    pub rotate_keep: Option<u32>,
    /// Where events are posted, for `kind: webhook`. Example: `https://siem.example.com/hook`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<HttpUrl>,
    /// File with the secret that posted events are signed with, for `kind: webhook`. Root's alone, or `credential:` and the name
    /// of a credential of the systemd unit. Example: `/etc/mcpwarden/webhook.secret`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_file: Option<SecretFile>,
    /// Events that wait while they cannot be written. Bytes; without it, 8 MiB. Not for `kind: stdout`; for `kind: webhook` on
    /// disk. Example: `64MiB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 65536))]
    pub queue_bytes: Option<Bytes>,
    /// Which events go where there is no room for more; without it, `drop_oldest`. For `kind: file` and `journald`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overflow: Option<Overflow>,
}

/// Which events go where there is no room for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    /// The one that comes.
    DropNewest,
    /// Those that wait longest.
    DropOldest,
}

/// What receives events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SinkKind {
    /// What the agent prints: which events. Its reader holds the agent up, and nothing is dropped.
    Stdout,
    /// A file, one event a line.
    File,
    /// The journal of systemd.
    Journald,
    /// An HTTP endpoint.
    Webhook,
}

/// How an event is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SinkFormat {
    /// As `mcpwarden schema` describes.
    #[default]
    Native,
    /// Open Cybersecurity Schema Framework.
    Ocsf,
}

/// Which events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SinkFilter {
    /// Globs on their type; none listed is all. Example: `["mcp_detection", "mcp_tool_*"]`.
    pub types: Vec<Glob>,
    /// Events that have a severity have at least this one.
    pub severity: Severity,
}

impl Default for SinkFilter {
    fn default() -> Self {
        Self { types: Vec::new(), severity: Severity::Low }
    }
}

/// Where metrics are read. See docs/reference/metrics.md.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Metrics {
    /// Address and port of the Prometheus endpoint; `null` switches it off.
    #[schemars(with = "Option<String>", extend("format" = "listen"))]
    pub listen: Option<SocketAddr>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self { listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 9464))) }
    }
}

/// Who may ask and tell the running agent. See docs/reference/control-socket.md.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Control {
    /// The socket of the command line; without it, `control.sock` in the runtime directory. Example: `/run/mcpwarden/control.sock`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<AbsolutePath>,
    /// Members of this group may ask; the socket is theirs.
    #[schemars(length(min = 1))]
    pub group: String,
    /// Of those, members of this group may change things, too; without it, only root. Example: `mcpwarden-admin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub admin_group: Option<String>,
}

impl Default for Control {
    fn default() -> Self {
        Self { socket: None, group: "mcpwarden".into(), admin_group: None }
    }
}
