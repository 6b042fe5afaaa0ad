//! Events about what goes over a connection.

use std::collections::BTreeSet;
use std::sync::Arc;

use mcpwarden_terms::{Direction, GapCause, RiskLevel, ToolCategory};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CallIntent, Decided, Detection, Json, Severity};

/// The status of a tool definition, compared with its pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// The tool was never seen before.
    New,
    /// The definition equals its pin.
    Unchanged,
    /// The definition differs from its pin.
    Changed,
    /// The definition equals its pin again, after a change.
    Restored,
    /// The tool was seen before and has no pin.
    Unpinned,
}

/// A server offers a tool. The agent reports this once for each connection, tool name and hash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolSeen {
    /// The name of the tool.
    pub tool_name: String,
    /// `mcp:{server_id}:{tool_name}`.
    pub tool_id: String,
    /// The SHA-256 hash of the canonical form of the whole definition.
    pub tool_hash: String,
    /// The description of the tool (bounded).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The whole definition; only with full payloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<Value>,
    /// The status of the definition.
    pub status: ToolStatus,
    /// The category of the tool, by its name.
    pub category: ToolCategory,
    /// The risk of the tool, by the words in its name and description.
    pub risk_level: RiskLevel,
    /// The side effects of the tool, such as `fs.write`. Absent without known side effects.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub side_effect_tags: BTreeSet<String>,
    /// The resource with the user interface of the tool (`_meta.ui.resourceUri`, MCP Apps; bounded).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ui_resource: Option<String>,
    /// What that interface may do (`_meta.ui`): `visibility model`, `csp.connectDomains https://x.example`,
    /// `permissions.camera` (bounded). Absent without an interface.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ui_grants: Vec<String>,
    /// The detections in the definition.
    pub detections: Vec<Detection>,
    /// The highest severity of these detections; null without detections.
    pub max_severity: Option<Severity>,
}

/// A server offers a resource that is a user interface (MCP Apps). The agent reports this once for each connection, resource and hash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InterfaceSeen {
    /// The URI of the resource (bounded).
    pub uri: String,
    /// The SHA-256 hash of what it says that the interface may do. Absent if it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface_hash: Option<String>,
    /// The status of that; `unpinned` if it does not say: nothing is pinned then.
    pub status: ToolStatus,
    /// What the interface may do (`_meta.ui`): `csp.connectDomains https://x.example`, `permissions.camera` (bounded).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ui_grants: Vec<String>,
}

/// The trace that a message belongs to (W3C Trace Context): of its `_meta`; without one there, of the head of its HTTP request. An
/// answer belongs to the trace of its request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trace {
    /// `traceparent` (bounded).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// `tracestate` (bounded).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
}

/// A client requested a tool call (`tools/call`). If the server requires input, the client sends the request again; the
/// agent reports this with the first try, unless guards deny it otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCalled {
    /// `params.name`; empty if the request has none.
    pub tool_name: Arc<str>,
    /// `mcp:{server_id}:{tool_name}`.
    pub tool_id: String,
    /// The hash of the definition that the server lists. Absent if the server does not list the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_hash: Option<Arc<str>>,
    /// The id of the request, as it was sent.
    pub jsonrpc_id: Value,
    /// `params.arguments`, redacted leaf by leaf except with full payloads; null without arguments.
    pub input: Json,
    /// The rest of `params` (`_meta`, `task`, `inputResponses`, `requestState`); only with full payloads. Absent without such members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
    /// The category of the tool, by its name.
    pub category: ToolCategory,
    /// The decision of the guards.
    #[serde(flatten)]
    pub decided: Decided,
    /// The detections in the arguments; secrets are masked.
    #[serde(default)]
    pub detections: Vec<Detection>,
    /// The rules with a detection in the tool's definition, each once; `mcp_tool_seen` has the detections. Absent without
    /// such rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_detections: Vec<String>,
    /// The intent of the model behind the call. Absent if the agent saw none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<Box<CallIntent>>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// The end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// A result.
    Ok,
    /// A JSON-RPC error, or a result with `isError: true`.
    Error,
}

/// A server answered a tool call. An answer that requires input (`resultType: input_required`) or makes a task (`task`) is
/// not the end of the call; the result comes with the last try, or with the task.
///
/// Through a relay, the agent reports an answer once, for the server that gave it. If the relay passed on something else,
/// the agent reports a second answer, for the relay, since the client received that one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    /// `params.name` of the request.
    pub tool_name: Arc<str>,
    /// `mcp:{server_id}:{tool_name}`.
    pub tool_id: String,
    /// The id of the request, or of its first try, as it was sent.
    pub jsonrpc_id: Value,
    /// The end of the call.
    pub status: CallStatus,
    /// `error.code` of a JSON-RPC error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<i64>,
    /// The name of that code, such as `header_mismatch`, if a specification defines it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_name: Option<String>,
    /// `error.message` (bounded) of a JSON-RPC error; only with full payloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// The length of `error.message` of a JSON-RPC error. Bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message_bytes: Option<u64>,
    /// The length of the frame. Bytes.
    pub bytes: u64,
    /// The time from the request, or its first try, to the answer, or the end of its task; 0 if the answer was recorded
    /// first. Nanoseconds.
    pub latency_ns: u64,
    /// How often the client sent the request again with the input that the server required. Absent without such a try.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rounds: u32,
    /// `result` (or `error.data` of a JSON-RPC error), redacted leaf by leaf except with full payloads.
    pub result: Json,
    /// The decision of the guards on the answer.
    #[serde(flatten)]
    pub decided: Decided,
}

/// A request is unanswered for longer than the `timeout_ms` of its server: the server does not answer, or its client takes
/// something for an answer that the agent does not. The agent reports this once, and continues to wait for the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestTimedOut {
    /// The id of the request, as it was sent.
    pub jsonrpc_id: Value,
    /// The method of the request.
    pub method: String,
    /// The name of the tool, for `tools/call`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// `mcp:{server_id}:{tool_name}`, for `tools/call`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_id: Option<String>,
    /// The time since the request. Nanoseconds.
    pub age_ns: u64,
    /// The time limit. Milliseconds.
    pub timeout_ms: u32,
}

/// The number of open requests to a server exceeds its `max_concurrent`. The agent reports this when the number exceeds
/// the limit, and again only after the number was below the limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConcurrencyExceeded {
    /// The number of open requests.
    pub open_requests: u64,
    /// The limit.
    pub max_concurrent: u32,
}

/// The kind of a JSON-RPC message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    /// A message with a method and an id.
    Request,
    /// A message with a method and without an id.
    Notification,
    /// A message with a result.
    Response,
    /// A message with an error.
    Error,
    /// JSON that is none of these.
    Invalid,
}

/// A message other than a tool call and its answer; only with `--verbose`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// The direction of the message.
    pub direction: Direction,
    /// The kind of the message.
    pub kind: MessageKind,
    /// The method of the message; for an answer, the method of its request if that was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The id of the message, as it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jsonrpc_id: Option<Value>,
    /// The name of the code of an error, such as `header_mismatch`, if a specification defines it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_name: Option<String>,
    /// The length of the frame (of the whole batch, for a message in a batch). Bytes.
    pub bytes: u64,
    /// The whole message with full payloads; otherwise `params`, `result` or `error`, redacted leaf by leaf.
    pub payload: Json,
}

/// Bytes of a stream were not captured. The stream continues at the next frame boundary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaptureGap {
    /// The direction of the bytes.
    pub direction: Direction,
    /// The number of bytes.
    pub bytes: u64,
    /// The cause.
    pub cause: GapCause,
    /// The offset of the first missing byte in the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// The process that moved the bytes, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}
