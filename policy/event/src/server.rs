//! Events about the life of a server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use mcpwarden_terms::{Detection, Direction, Era, Identity, ServerId};

/// The way in which a program was recognised as an MCP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MatchedBy {
    /// Its command line matches a pattern.
    Name,
    /// Its first request is an MCP request.
    Behaviour,
    /// The configuration declares it.
    Declared,
    /// A recording names it.
    Given,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessInfo {
    /// The process id in the root pid namespace.
    pub pid: u32,
    /// The path of its executable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<String>,
    /// Its command line, bounded; `***` replaces what looks like a secret.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
}

/// A server started. The agent reports this when the server first answers, so that its chain of programs is complete, or
/// when it has not answered its first request for 2 seconds; at the exec of a declared server, and of one that is adopted
/// by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerStarted {
    /// The process id in the root pid namespace. Absent if the record of its exec was lost, and for a server at an address,
    /// except for the process that listens there, of a `server_type` of `tcp` or `unix`, if the agent finds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The user id that the server runs as. Absent where `pid` is, and if the server is older than the agent and /proc does not
    /// report the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The id of its cgroup (v2). Absent if the record of its exec was lost, and if the server is older than the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_id: Option<u64>,
    /// The path of the executable of the last program in the chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<String>,
    /// The command line that gave the server its id, bounded; `***` replaces what looks like a secret.
    pub argv: Vec<String>,
    /// Whether `argv` is cut off. Absent when false.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub argv_truncated: bool,
    /// The working directory of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The scheme, address and path of a server at an address: `http://127.0.0.1:8000/mcp`, `tcp://127.0.0.1:7000`,
    /// `unix:/run/mcp.sock`; `unix:@name` for an abstract name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The client of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ProcessInfo>,
    /// The way in which the server was recognised.
    pub matched_by: MatchedBy,
    /// The matching pattern, when `matched_by` is `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The source of `server_id`.
    pub identity: Identity,
    /// The declared server with this command line, if that server requires another program as its `executable`: this is
    /// not that server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mistaken_for: Option<ServerId>,
    /// Whether the server is older than the agent.
    pub adopted: bool,
    /// The version of the package, image or program that its command lines name. Absent where they name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The first argument of each program of the chain, in order: `["npx", "sh", "node"]`. A program can put anything
    /// there (npm: its whole command line), so `***` replaces what looks like a secret.
    pub chain: Vec<String>,
    /// The detections in the name of the server, whatever `inspection.alert_threshold` is. Absent without detections.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub detections: Vec<Detection>,
}

/// A process ran a program with a server's standard streams, after the server's first answer; or the process that served has
/// ended, and one of these serves instead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerExecuted {
    /// The process id in the root pid namespace.
    pub pid: u32,
    /// The path of its executable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<String>,
    /// Its command line, bounded; `***` replaces what looks like a secret.
    pub argv: Vec<String>,
    /// Whether `argv` is cut off. Absent when false.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub argv_truncated: bool,
    /// Whether this process serves from now on. A child of the process that serves does not.
    pub serves: bool,
    /// The source of `server_id` from now on.
    pub identity: Identity,
    /// The declared server that this server was until now, or was before, if it requires another program as its
    /// `executable`: this is not that server any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mistaken_for: Option<ServerId>,
}

/// A server lists definitions that it listed before in another version of its package, image or program. The agent reports
/// this once for each connection, beside the changes of definitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerVersionChanged {
    /// The version by now.
    pub version: String,
    /// The version that listed the definitions before.
    pub previous_version: String,
    /// The number of definitions of this list that differ from their pins.
    pub definitions_changed: u64,
}

/// The environment of a declared server, or options that its declaration does not have, name code that its program loads. The agent
/// reports names, and never values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerPreloaded {
    /// The process id in the root pid namespace.
    pub pid: u32,
    /// The path of its executable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<String>,
    /// The names of the variables, such as `LD_PRELOAD`.
    pub variables: Vec<String>,
    /// The names of the options, such as `--require`. Absent without options.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

/// What has no capacity for more entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Table {
    /// Connections: what the server says is not inspected.
    Connections,
    /// Pins, definitions in lists, and names: changes of definitions, or shadowed tools of other servers, are not noticed.
    Pins,
}

/// A table has no capacity for more entries of a server's user, or of any user. What is not remembered is undecided, and
/// `policy.fail_closed` denies it. The agent reports this once for each connection and table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapacityExceeded {
    /// The table.
    pub table: Table,
    /// The user whose entry there is no capacity for. Absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The number of entries that were refused just now.
    pub refused: u64,
}

/// A server answered `initialize` or `server/discover`; or, where the client opened with neither, its first request of a
/// stateless revision. The agent reports the same answer to `server/discover` once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerInitialized {
    /// The era of the conversation: `handshake` (up to revision 2025-11-25) or `stateless` (from 2026-07-28 on).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub era: Option<Era>,
    /// `serverInfo.name` of the answer, or of its `_meta`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// `serverInfo.version` of the answer, or of its `_meta`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_version: Option<String>,
    /// `clientInfo.name` of the request, or of its `_meta`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_name: Option<String>,
    /// `clientInfo.version` of the request, or of its `_meta`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_version: Option<String>,
    /// The version in use: `protocolVersion` of the answer; for `server/discover`, that of the request if the server supports
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
    /// `protocolVersion` of the request, or of its `_meta`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_protocol_version: Option<String>,
    /// `supportedVersions` of the answer to `server/discover` (bounded).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supported_versions: Vec<String>,
    /// `capabilities` of the answer, with `***` in place of what looks like a secret; null if the answer has none.
    #[serde(default)]
    pub capabilities: Value,
    /// `capabilities` of the request, or of its `_meta`, with `***` in place of what looks like a secret; null if the request has none.
    #[serde(default)]
    pub client_capabilities: Value,
    /// `instructions` of the answer: text for the model (bounded).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}

/// One number for each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PerDirection {
    /// From the client to the server.
    pub c2s: u64,
    /// From the server to the client.
    pub s2c: u64,
}

impl PerDirection {
    fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// That of one direction.
    pub fn of(&mut self, direction: Direction) -> &mut u64 {
        match direction {
            Direction::ClientToServer => &mut self.c2s,
            Direction::ServerToClient => &mut self.s2c,
        }
    }
}

/// The last process of a server ended, or no process holds its connection any more. The agent reports this once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerExited {
    /// The process id of the last program of the chain. Absent if the record of its exec was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The exit code of that process, if it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended that process, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The time from the first exec (or the first frame) to the end. Nanoseconds.
    pub duration_ns: u64,
    /// The number of observed tool calls.
    pub calls: u64,
    /// The number of observed frames.
    pub frames: PerDirection,
    /// The number of bytes of these frames.
    pub bytes: PerDirection,
    /// The number of frames that were not JSON-RPC. Absent without such frames.
    #[serde(default, skip_serializing_if = "PerDirection::is_zero")]
    pub invalid_frames: PerDirection,
    /// The number of bytes outside messages, such as log text on standard output.
    pub junk_bytes: u64,
    /// The number of bytes that were not captured.
    pub gap_bytes: u64,
    /// The number of requests, of either side, without an answer.
    pub unanswered: u64,
}

/// A process runs whose command line is a server's (`server_id`), and the agent cannot capture its messages, because of its
/// standard input and output. The agent finds such a process within five seconds, if it still runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerUncaptured {
    /// The process id in the root pid namespace.
    pub pid: u32,
    /// The user id that the process runs as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The path of the process's executable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<String>,
    /// What its standard input and output are.
    pub transport: Transport,
    /// The reason, in words.
    pub reason: String,
}

/// What carries messages, and is not captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// A terminal.
    Pty,
    /// A Unix socket of datagrams or sequenced packets.
    PacketSocket,
}
