//! Events about what goes over a connection.

use std::collections::BTreeSet;
use std::sync::Arc;

use mcpwarden_terms::{Direction, GapCause, RiskLevel, ToolCategory};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Decided, Detection, Json, Severity};

/// What is known of a tool definition, compared with what was seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// Never seen before.
    New,
    /// As pinned.
    Unchanged,
    /// Other than pinned.
    Changed,
    /// As pinned again, after it was changed.
    Restored,
    /// Seen before, and pinned to nothing.
    Unpinned,
}

/// A server offers a tool. Said once for each connection, tool name and hash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolSeen {
    /// The tool's name.
    pub tool_name: String,
    /// `mcp:{server_id}:{tool_name}`.
    pub tool_id: String,
    /// Hash of the whole definition: SHA-256 of its canonical form.
    pub tool_hash: String,
    /// The description (bounded).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The whole definition; only with full payloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<Value>,
    /// Compared with what was known.
    pub status: ToolStatus,
    /// What the tool does, by its name.
    pub category: ToolCategory,
    /// How risky that is, by the words in its name and description.
    pub risk_level: RiskLevel,
    /// What it has an effect on, such as `fs.write`. Absent when nothing tells.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub side_effect_tags: BTreeSet<String>,
    /// What the rules found in the definition.
    pub detections: Vec<Detection>,
    /// The worst of them; null when there is none.
    pub max_severity: Option<Severity>,
}

/// A client asked for a tool call (`tools/call`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCalled {
    /// `params.name`; empty where the request has none.
    pub tool_name: Arc<str>,
    /// `mcp:{server_id}:{tool_name}`.
    pub tool_id: String,
    /// Hash of the definition that its server lists. Absent where it lists none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_hash: Option<Arc<str>>,
    /// Id of the request, as it was sent.
    pub jsonrpc_id: Value,
    /// `params.arguments`, redacted leaf by leaf unless payloads are full; null where there are none.
    pub input: Json,
    /// Whatever else `params` holds (`_meta`, `task`); only with full payloads, absent when there is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
    /// What the tool does, by its name.
    pub category: ToolCategory,
    /// What the guards decided.
    #[serde(flatten)]
    pub decided: Decided,
    /// What the rules found in the arguments; secrets are masked.
    #[serde(default)]
    pub detections: Vec<Detection>,
    /// Rules that found something in the tool's definition, each once; `mcp_tool_seen` has what. Absent when none did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_detections: Vec<String>,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// With a result.
    Ok,
    /// With a JSON-RPC error, or a result whose `isError` is true.
    Error,
}

/// A tool call was answered.
///
/// Through a relay an answer is said once, by the server that gave it. Where the relay passed on something
/// else, it is said a second time by the relay, since that is what the client got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    /// `params.name` of the request.
    pub tool_name: Arc<str>,
    /// `mcp:{server_id}:{tool_name}`.
    pub tool_id: String,
    /// Id of the request, as it was sent.
    pub jsonrpc_id: Value,
    /// How it ended.
    pub status: CallStatus,
    /// `error.code`, of a JSON-RPC error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<i64>,
    /// `error.message` (bounded), of a JSON-RPC error; only with full payloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Length of `error.message` in bytes, of a JSON-RPC error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message_bytes: Option<u64>,
    /// Bytes of the frame.
    pub bytes: u64,
    /// From request to answer, in nanoseconds; 0 where the answer was recorded first.
    pub latency_ns: u64,
    /// `result` (or `error.data` of a JSON-RPC error), redacted leaf by leaf unless payloads are full.
    pub result: Json,
    /// What the guards decided of it.
    #[serde(flatten)]
    pub decided: Decided,
}

/// A request is unanswered for longer than `timeout_ms` of its server's declaration. Said once; it is still waited for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestTimedOut {
    /// Id of the request, as it was sent.
    pub jsonrpc_id: Value,
    /// Its method.
    pub method: String,
    /// The tool, of a `tools/call`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// `mcp:{server_id}:{tool_name}`, of a `tools/call`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_id: Option<String>,
    /// How long it is unanswered. Nanoseconds.
    pub age_ns: u64,
    /// How long it may be. Milliseconds.
    pub timeout_ms: u32,
}

/// More requests to a server are open at once than its `max_concurrent`. Said when the bound is crossed, and again only
/// after fewer than it were open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConcurrencyExceeded {
    /// How many are open.
    pub open_requests: u64,
    /// How many should be at most.
    pub max_concurrent: u32,
}

/// What a message is in JSON-RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    /// Has a method and an id.
    Request,
    /// Has a method and no id.
    Notification,
    /// Has a result.
    Response,
    /// Has an error.
    Error,
    /// JSON, but none of these.
    Invalid,
}

/// Any message that is no tool call and no answer to one; only when asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// Which way it went.
    pub direction: Direction,
    /// What it is.
    pub kind: MessageKind,
    /// Its method; of an answer, the method of its request if that was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Its id, as it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jsonrpc_id: Option<Value>,
    /// Bytes of the frame (of the whole batch, for a message in one).
    pub bytes: u64,
    /// The whole message with full payloads; else `params`, `result` or `error`, redacted leaf by leaf.
    pub payload: Json,
}

/// Bytes of a stream were not seen. The stream goes on at the next frame boundary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaptureGap {
    /// Which way they went.
    pub direction: Direction,
    /// How many.
    pub bytes: u64,
    /// Why.
    pub cause: GapCause,
    /// Offset of the first of them in the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// The process that moved them, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}
