//! Events about the life of a server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use mcpwarden_terms::{Detection, Direction, Identity, ServerId};

/// How it was found out that a program is an MCP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MatchedBy {
    /// Its command line matched a pattern.
    Name,
    /// Its first request was one of MCP's.
    Behaviour,
    /// The configuration declares it.
    Declared,
    /// A recording says so.
    Given,
}

/// A process, as far as it is worth saying.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessInfo {
    /// Process id in the root pid namespace.
    pub pid: u32,
    /// Path of its executable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<String>,
    /// Its command line, bounded, with what looks like a secret replaced by `***`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
}

/// Said when a server first answers, so that its chain of programs is complete, or when it has not answered its
/// first request for 2 seconds; at its exec where it is declared, or adopted by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerStarted {
    /// Process id in the root pid namespace. Absent of one at an address, and where the record of its exec was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// User id it runs as. Absent of one at an address, where the record of its exec was lost, and where it ran before the agent did and
    /// /proc does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Id of its cgroup (v2). Absent where the record of its exec was lost, and where it ran before the agent did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_id: Option<u64>,
    /// Path of the executable of the last program in the chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<String>,
    /// Command line that gave the server its id, bounded, with what looks like a secret replaced by `***`.
    pub argv: Vec<String>,
    /// Whether `argv` is cut off. Absent when false.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub argv_truncated: bool,
    /// Its working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Where it is, of one that is no process: scheme, address and path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Who speaks to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ProcessInfo>,
    /// How it was found out to be a server.
    pub matched_by: MatchedBy,
    /// The pattern, when `matched_by` is `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Where `server_id` comes from.
    pub identity: Identity,
    /// The declared server that has this command line, where another program serves than its `executable`: this is not
    /// that server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mistaken_for: Option<ServerId>,
    /// Whether it ran before the agent did.
    pub adopted: bool,
    /// First argument of each program of the chain, in order: `["npx", "sh", "node"]`. A program can put anything
    /// there (npm: its whole command line), so what looks like a secret is replaced by `***`.
    pub chain: Vec<String>,
    /// What its name has against it, whatever `inspection.alert_threshold` is. Absent when there is nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub detections: Vec<Detection>,
}

/// Said when a server answers `initialize`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerInitialized {
    /// `serverInfo.name` of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// `serverInfo.version` of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_version: Option<String>,
    /// `clientInfo.name` of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_name: Option<String>,
    /// `clientInfo.version` of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_version: Option<String>,
    /// `protocolVersion` of the answer: what is spoken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
    /// `protocolVersion` of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_protocol_version: Option<String>,
    /// `capabilities` of the answer; null where it has none.
    #[serde(default)]
    pub capabilities: Value,
    /// `capabilities` of the request; null where it has none.
    #[serde(default)]
    pub client_capabilities: Value,
    /// `instructions` of the answer: text that goes to the model (bounded).
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

/// Said once, when the last process of a server ended or nobody holds its connection any more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerExited {
    /// Process id of the last program of the chain. Absent where the record of its exec was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Exit code of that process, if it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended that process, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// From the first exec (or the first frame) to the end, in nanoseconds.
    pub duration_ns: u64,
    /// Tool calls seen.
    pub calls: u64,
    /// Frames seen.
    pub frames: PerDirection,
    /// Bytes of those frames.
    pub bytes: PerDirection,
    /// Frames that were no JSON-RPC. Absent when there were none.
    #[serde(default, skip_serializing_if = "PerDirection::is_zero")]
    pub invalid_frames: PerDirection,
    /// Bytes that were no message, such as log text on standard output.
    pub junk_bytes: u64,
    /// Bytes that were not captured.
    pub gap_bytes: u64,
    /// Requests, of either side, that were never answered.
    pub unanswered: u64,
}
