//! Events about connections that processes open.

use mcpwarden_terms::{ServerId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Action, Severity};

/// What a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// TCP, MPTCP included.
    Tcp,
    /// UDP.
    Udp,
    /// Another, by its number (IANA, Protocol Numbers).
    #[serde(untagged)]
    Other(u8),
}

/// Of which family a socket is. One of IPv6 reaches IPv4 addresses, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// A connection that a process opens, or a datagram that it sends somewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Connecting {
    /// Address and port: `1.2.3.4:443`, `[2001:db8::1]:443`.
    pub remote_addr: String,
    /// The name that this address was the answer for, where an answer was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_name: Option<String>,
    /// What is spoken.
    pub protocol: Protocol,
    /// The family of the socket.
    pub family: Family,
    /// Process id in the root pid namespace.
    pub pid: u32,
    /// User id it runs as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Id of its cgroup (v2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_id: Option<u64>,
    /// Path of its cgroup (v2), from the root of the tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Path of its executable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<String>,
    /// `allow` or `block`.
    pub action: Action,
    /// Whether a `block` really stopped it.
    pub enforced: bool,
    /// The rule that decided, or what holds where none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether it was open when the agent started: it was found then, and a `block` that is enforced closed it.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub adopted: bool,
}

/// Somebody connects to the address of a declared server (`server_id`), or to one that is denied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkConnection {
    /// Who, where to, and what came of it.
    #[serde(flatten)]
    pub connecting: Connecting,
}

/// Connections that were open to what became denied were closed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkClosed {
    /// Address and port: `1.2.3.4:443`, `[2001:db8::1]:443`.
    pub remote_addr: String,
    /// What they spoke.
    pub protocol: Protocol,
    /// So many were closed; who had them gets an error.
    pub closed: u64,
    /// So many could not be, and live on.
    pub left: u64,
    /// The rule that denies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A server that nobody declared answered at an address, and the guard `server_access` denies it as a whole (`server_id`). So
/// the address is denied to everybody, as `enforcement.network` says, where nothing speaks against it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerDenied {
    /// Address and port: `1.2.3.4:443`, `[2001:db8::1]:443`.
    pub remote_addr: String,
    /// What `server_access` says of it.
    pub reason: String,
    /// Whether connections to it are stopped from now on.
    pub enforced: bool,
    /// Until when the address is denied: by then something else may be there. It is denied anew when the server answers again.
    /// Absent where it is not denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Why the address is not denied, where that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<String>,
}

/// Somebody blocked a destination by hand, or the declared server `server_id`: nobody connects to it from now on, whatever
/// `enforcement.network` says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkBlocked {
    /// What is blocked: `10.0.0.0/8:443`, a name, `server=` and the id of a server, or `session=` and that of a session.
    pub target: String,
    /// Until when. Absent where it is blocked until somebody unblocks it, or the agent ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Why, in words of who did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// User id of who did it.
    pub uid: u32,
    /// That user's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// Somebody blocked by hand all that is asked of the server `server_id` over stdio, or that the session `session_id` asks:
/// the gate stops it, whatever `enforcement.stdio` says. As `mcp_network_blocked`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallsBlocked(pub NetworkBlocked);

/// Such a block is none any more. As `mcp_network_unblocked`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallsUnblocked(pub NetworkUnblocked);

/// Why a block is none any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BlockEnd {
    /// Its time is over.
    Expired,
    /// Somebody unblocked it.
    Unblocked,
    /// The agent ends, and blocks with it.
    AgentStopped,
}

/// A destination that was blocked by hand is not any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkUnblocked {
    /// What was blocked, as in `mcp_network_blocked`.
    pub target: String,
    /// Why it is not any more.
    pub reason: BlockEnd,
    /// User id of who unblocked it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// That user's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// A server over HTTP (`server_id`) refused a request without an answer of JSON-RPC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestRefused {
    /// The status, 400 or more: 401 asks for credentials, 404 knows no such session.
    pub status: u16,
    /// `id` of the request, where it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jsonrpc_id: Option<Value>,
}

/// A client and a server (`server_id`) speak over TCP, and what they say is not inspected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkUninspected {
    /// Address and port of the server.
    pub remote_addr: String,
    /// Process id of the client, in the root pid namespace.
    pub pid: u32,
    /// Path of the executable that it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<String>,
    /// Why, in words.
    pub reason: String,
}

/// The agent listed what a declared server (`server_id`) offers: for the first time since it started to, or the first time
/// after `mcp_server_unreachable` or `mcp_tls_mismatch`. Holds until one of these is said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerReachable {
    /// Its address, as it is declared, without the query.
    pub url: String,
}

/// The agent cannot list what a declared server (`server_id`) offers. Said once for each reason, until it can again
/// (`mcp_server_reachable`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerUnreachable {
    /// Its address, as it is declared, without the query.
    pub url: String,
    /// Why, in words.
    pub reason: String,
    /// The status of HTTP that it answered with, if that is why: 401 asks for credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

/// A declared server (`server_id`) shows the agent another certificate than its `tls_fingerprint`: somebody may be in between.
/// It is sent nothing, and not listed. Said once for each certificate, until it shows the right one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TlsMismatch {
    /// Its address, as it is declared, without the query.
    pub url: String,
    /// Always `critical`.
    pub severity: Severity,
    /// The fingerprint that is declared.
    pub expected: String,
    /// The one that it has, of the same kind.
    pub found: String,
}

/// A process of a stdio server (`server_id`), or one below it, connects to something.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerEgress {
    /// Who, where to, and what came of it.
    #[serde(flatten)]
    pub connecting: Connecting,
    /// The declared server that is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_server_id: Option<ServerId>,
    /// Whether no process of this server has connected to that address, port and protocol before, as far as it is
    /// remembered.
    pub first_seen: bool,
    /// `high` where it must not be, else `low`.
    pub severity: Severity,
}
