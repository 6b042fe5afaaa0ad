//! What follows from a decision, and where events go: enforcement, store, sinks, metrics, control.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use mcpwarden_terms::Severity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::texts::{DenialName, DenialText};
use super::values::{AbsolutePath, AllowDeny, Bytes, Glob, HttpUrl, Period, SecretFile};

/// The effect of a denial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Enforcement {
    /// The effect of a denial on a message to a server over stdio, in lines over a socket, or over plain-text HTTP/1.1.
    pub stdio: StdioEnforcement,
    /// The effect of a denial on a connection.
    pub network: NetworkEnforcement,
    /// With `neutralize`, on a host where the kernel lets nothing overwrite messages (locked down, or without CAP_SYS_ADMIN):
    /// whether the gate refuses denied messages, or lets them pass and reports them. A single write that cannot be
    /// overwritten is refused in any case.
    pub fallback: Fallback,
    /// With `neutralize`: whether the gate writes the reason in place of the name and the arguments of a denied call, so that
    /// the server's answer tells it to the model. If the message has no room for it, or with `false`, the gate overwrites one
    /// byte of the name.
    pub explain: bool,
    /// With `explain`: what the gate writes in place of `blocked by policy: CODE (mcpwarden)`, by code, by guard, or by
    /// guard and code, at most 96 bytes each.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub messages: BTreeMap<DenialName, DenialText>,
    /// The number of bytes of one write that the gate reads. Bytes.
    #[schemars(extend("minimum" = 1024, "maximum" = 65536))]
    pub window_bytes: Bytes,
    /// The verdict on undecidable writes: a write is longer than the window, cannot be read, or has one of the other
    /// forms in docs/internals/gate.md.
    pub undecided: AllowDeny,
    /// Whether the kernel programs stay attached when the agent ends or is killed, until the next agent takes over or
    /// `mcpwarden detach` runs. Connections and calls stay denied, and the records wait in the ring buffer. With `false`,
    /// the programs detach with the agent.
    pub persist: bool,
}

impl Default for Enforcement {
    fn default() -> Self {
        Self {
            stdio: StdioEnforcement::Observe,
            network: NetworkEnforcement::Observe,
            fallback: Fallback::Deny,
            explain: true,
            messages: BTreeMap::new(),
            window_bytes: Bytes(16 << 10),
            undecided: AllowDeny::Allow,
            persist: false,
        }
    }
}

/// The effect of a denial on a message to a server over stdio, in lines over a socket, or over plain-text HTTP/1.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StdioEnforcement {
    /// The agent reports the message, and the message passes.
    #[default]
    Observe,
    /// The write fails. Most clients then close the session.
    Deny,
    /// The gate overwrites the tool's name: the server refuses the call, and the session continues.
    Neutralize,
}

/// The effect of a denial on a host that cannot do what `stdio` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Fallback {
    /// The write fails, as with `stdio: deny`.
    #[default]
    Deny,
    /// The agent reports the message, and the message passes, as with `stdio: observe`.
    Observe,
}

/// The effect of a denial on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NetworkEnforcement {
    /// The agent reports the connection, and the connection opens.
    #[default]
    Observe,
    /// The connection fails.
    Deny,
}

/// The databases on this host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Store {
    /// The database of events. Without this key, `mcpwarden.db` in the state directory. The database of pins,
    /// `registry.db`, is in the same directory, which must belong to the user that the agent runs as. Example:
    /// `/var/lib/mcpwarden/mcpwarden.db`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<AbsolutePath>,
    /// The size of the queue of events that wait to be written. When the queue is full, the agent waits, and records that
    /// then do not fit into the ring buffer are a gap. Bytes.
    #[schemars(extend("minimum" = 65536, "maximum" = 1073741824))]
    pub queue_bytes: Bytes,
    /// The time for which events are kept.
    pub retention: Retention,
}

impl Default for Store {
    fn default() -> Self {
        Self { path: None, queue_bytes: Bytes(16 << 20), retention: Retention::default() }
    }
}

/// Limits on stored events. Beyond a limit, the agent deletes the oldest events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Retention {
    /// The age of the oldest event, by the clock since boot: a step of the wall clock deletes nothing, and the time in which the
    /// host is off does not count.
    pub age: Period,
    /// The size of the database. Bytes.
    #[schemars(extend("minimum" = 1048576))]
    pub bytes: Bytes,
    /// The size of the events of one user. Bytes. With or without this key, once the database is full, the oldest events of the
    /// user with the most events are deleted first. Example: `512MiB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1048576))]
    pub per_user: Option<Bytes>,
}

impl Default for Retention {
    fn default() -> Self {
        Self { age: Period(Duration::from_secs(30 * 86_400)), bytes: Bytes(2 << 30), per_user: None }
    }
}

/// An output of events besides the store. See docs/guide/siem.md.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sink {
    /// The receiver of the events.
    pub kind: SinkKind,
    /// The format of an event.
    #[serde(default)]
    pub format: SinkFormat,
    /// The events that the sink receives.
    #[serde(default)]
    pub filter: SinkFilter,
    /// The file, for `kind: file` (required there). Example: `/var/log/mcpwarden/events.jsonl`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<AbsolutePath>,
    /// The size above which the agent rotates the file, for `kind: file`. Bytes. Without this key, 100 MiB. Example:
    /// `100MiB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 65536))]
    pub rotate_bytes: Option<Bytes>,
    /// The number of rotated files that the agent keeps, for `kind: file`. Without this key, 10. Example: `10`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 10_000))]
    pub rotate_keep: Option<u32>,
    /// The URL that the agent posts events to, for `kind: webhook` (required there). Example:
    /// `https://siem.example.com/hook`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<HttpUrl>,
    /// A file with the secret that the agent signs posted events with, for `kind: webhook`: the file must belong to root,
    /// and nobody else may read it; or `credential:` and the name of a credential of the systemd unit. Without this key,
    /// events are not signed. Example: `/etc/mcpwarden/webhook.secret`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_file: Option<SecretFile>,
    /// The size of the queue of events that cannot be written yet. The queue of `kind: webhook` is on disk. Bytes. Without
    /// this key, 8 MiB, and 64 MiB for `kind: stdout`. Example: `64MiB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 65536))]
    pub queue_bytes: Option<Bytes>,
    /// The events that a full queue drops, for `kind: file`, `kind: journald` and `kind: stdout`. Without this key,
    /// `drop_oldest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overflow: Option<Overflow>,
}

/// The events that a full queue drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    /// The new event.
    DropNewest,
    /// The oldest waiting events.
    DropOldest,
}

/// The receiver of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SinkKind {
    /// The standard output of the agent.
    Stdout,
    /// A file with one event per line.
    File,
    /// The systemd journal.
    Journald,
    /// An HTTP endpoint.
    Webhook,
}

/// The format of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SinkFormat {
    /// The format that `mcpwarden schema` describes.
    #[default]
    Native,
    /// Open Cybersecurity Schema Framework.
    Ocsf,
}

/// The events that a sink receives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SinkFilter {
    /// Globs on the type of an event. With an empty list, the sink receives all types. Example: `["mcp_detection",
    /// "mcp_tool_*"]`.
    pub types: Vec<Glob>,
    /// The least severity. Events without a severity pass.
    pub severity: Severity,
}

impl Default for SinkFilter {
    fn default() -> Self {
        Self { types: Vec::new(), severity: Severity::Low }
    }
}

/// The metrics endpoint. See docs/reference/metrics.md.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Metrics {
    /// The address and port of the Prometheus endpoint. `null` switches the endpoint off.
    #[schemars(with = "Option<String>", extend("format" = "listen"))]
    pub listen: Option<SocketAddr>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self { listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 9464))) }
    }
}

/// The users that may query and operate the running agent. See docs/reference/control-socket.md.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Control {
    /// The control socket. Without this key, `control.sock` in the runtime directory. Example:
    /// `/run/mcpwarden/control.sock`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<AbsolutePath>,
    /// The group that owns the control socket. Its members may query the agent.
    #[schemars(length(min = 1))]
    pub group: String,
    /// The group with members that may also operate the agent: they must be members of `group`, too. Without this key,
    /// only root may. Example: `mcpwarden-admin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub admin_group: Option<String>,
}

impl Default for Control {
    fn default() -> Self {
        Self { socket: None, group: "mcpwarden".into(), admin_group: None }
    }
}
