//! Events about connections that processes open.

use mcpwarden_terms::{ServerId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Action, Severity};

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// TCP, including MPTCP.
    Tcp,
    /// UDP.
    Udp,
    /// Another protocol, by its number (IANA, Protocol Numbers).
    #[serde(untagged)]
    Other(u8),
}

/// The address family of a socket. An IPv6 socket also reaches IPv4 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// A connection that a process opens, or a datagram that it sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Connecting {
    /// Address and port: `1.2.3.4:443`, `[2001:db8::1]:443`.
    pub remote_addr: String,
    /// The name that resolved to this address, if the agent saw the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_name: Option<String>,
    /// The protocol.
    pub protocol: Protocol,
    /// The address family of the socket.
    pub family: Family,
    /// The process id in the root pid namespace.
    pub pid: u32,
    /// The user id that the process runs as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The id of the process's cgroup (v2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_id: Option<u64>,
    /// The path of the process's cgroup (v2), from the root of the tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// The path of the process's executable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<String>,
    /// `allow` or `block`.
    pub action: Action,
    /// Whether a `block` stopped the connection.
    pub enforced: bool,
    /// The rule that decided, or the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the connection is older than the agent. An enforced `block` closed it at the start of the agent.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub adopted: bool,
    /// The network namespace of the socket (cookie), if it is not the host's: its loopback is not the host's, and neither
    /// are the addresses that its owner chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<u64>,
}

/// A process connects to the address of a declared server (`server_id`), or to a denied address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkConnection {
    /// The process, the destination and the decision.
    #[serde(flatten)]
    pub connecting: Connecting,
}

/// The agent closed open connections to an address that became denied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkClosed {
    /// Address and port: `1.2.3.4:443`, `[2001:db8::1]:443`.
    pub remote_addr: String,
    /// The protocol of the connections.
    pub protocol: Protocol,
    /// The number of closed connections; their processes get an error.
    pub closed: u64,
    /// The number of connections that the agent could not close.
    pub left: u64,
    /// The rule that denies the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// An undeclared server (`server_id`) answered at an address, and the guard `server_access` denies the whole server. The
/// address is therefore denied to all processes, as `enforcement.network` says, unless there is an obstacle. If the server
/// answered in another network namespace than the host's, the address is denied in that namespace alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerDenied {
    /// Address and port: `1.2.3.4:443`, `[2001:db8::1]:443`.
    pub remote_addr: String,
    /// The network namespace (cookie) in which the server answered, if it is not the host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<u64>,
    /// The reason of `server_access`.
    pub reason: String,
    /// Whether connections to the address are stopped from now on.
    pub enforced: bool,
    /// The time until which the address is denied, since another process may use it by then. The agent denies the address
    /// anew when the server answers again. Absent if the address is not denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The reason for which the address is not denied, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<String>,
}

/// An operator blocked a destination, or the declared server `server_id`: no process can connect to it from now on,
/// whatever `enforcement.network` says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkBlocked {
    /// The blocked target: `10.0.0.0/8:443`, a name, `server=` and the id of a server, or `session=` and the id of a
    /// session.
    pub target: String,
    /// The end of the block. Absent if the block lasts until an operator unblocks the target or the agent ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The reason, in the operator's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The user id of the operator.
    pub uid: u32,
    /// The user name of the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// An operator blocked all requests to the server `server_id` over stdio, or all requests of the session `session_id`:
/// the gate stops them, whatever `enforcement.stdio` says. The fields are those of `mcp_network_blocked`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallsBlocked(pub NetworkBlocked);

/// Such a block ended. The fields are those of `mcp_network_unblocked`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallsUnblocked(pub NetworkUnblocked);

/// The reason for which a block ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BlockEnd {
    /// Its time is over.
    Expired,
    /// An operator unblocked the target.
    Unblocked,
    /// The agent ends, and all blocks with it.
    AgentStopped,
}

/// The block of a destination ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkUnblocked {
    /// The target, as in `mcp_network_blocked`.
    pub target: String,
    /// The reason for which the block ended.
    pub reason: BlockEnd,
    /// The user id of the operator who unblocked the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The user name of that operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// A server over HTTP (`server_id`) refused a request without a JSON-RPC answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestRefused {
    /// The HTTP status, 400 or more: 401 requires credentials, 404 means an unknown session.
    pub status: u16,
    /// The `id` of the message, if it was a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jsonrpc_id: Option<Value>,
}

/// A client and a server (`server_id`) communicate over TCP, and the agent cannot inspect the messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkUninspected {
    /// Address and port of the server.
    pub remote_addr: String,
    /// The process id of the client, in the root pid namespace.
    pub pid: u32,
    /// The path of the client's executable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<String>,
    /// The reason, in words.
    pub reason: String,
}

/// The agent listed a declared server (`server_id`): for the first time since the agent started to list, or since
/// `mcp_server_unreachable` or `mcp_tls_mismatch`. The server stays reachable until one of these events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerReachable {
    /// The declared URL of the server, without the query.
    pub url: String,
}

/// The agent cannot list a declared server (`server_id`). The agent reports each reason once, until it can list the
/// server again (`mcp_server_reachable`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerUnreachable {
    /// The declared URL of the server, without the query.
    pub url: String,
    /// The reason, in words.
    pub reason: String,
    /// The HTTP status of the answer, if that is the reason: 401 requires credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

/// A declared server (`server_id`) shows the agent a certificate that does not match its `tls_fingerprint`: a third party
/// may intercept the connection. The agent sends nothing to the server and does not list it. The agent reports each
/// certificate once, until the server shows the right one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TlsMismatch {
    /// The declared URL of the server, without the query.
    pub url: String,
    /// Always `critical`.
    pub severity: Severity,
    /// The declared fingerprint.
    pub expected: String,
    /// The fingerprint of the shown certificate, of the same kind.
    pub found: String,
}

/// A process of a stdio server (`server_id`), or one of its descendants, connects to a destination.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerEgress {
    /// The process, the destination and the decision.
    #[serde(flatten)]
    pub connecting: Connecting,
    /// The declared server at this destination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_server_id: Option<ServerId>,
    /// Whether this is the first connection of the server's processes to that address, port and protocol that the agent
    /// remembers.
    pub first_seen: bool,
    /// `high` if the destination is denied, otherwise `low`.
    pub severity: Severity,
}
