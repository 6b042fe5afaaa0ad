//! Events about what was found and what was decided.

use mcpwarden_protocol::definition::Diff;
use mcpwarden_terms::{ConnectionId, GuardKind, ItemKind, ServerId, Timestamp, ToolCategory};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Action, Detection, MessageKind, MutedBy, Objection, Severity};

/// The text with the detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// The name of a server.
    Server,
    /// The definition of a tool.
    Definition,
    /// The instructions of a server, from `initialize`.
    Instructions,
    /// A prompt, or the list of prompts.
    Prompt,
    /// A resource template, or the list of resources.
    Resource,
    /// The arguments of a call, or a request with a repeated member.
    Arguments,
    /// The result of a call, or of a request of none of these kinds.
    Result,
    /// A message of another kind, such as a notification, or a message that some readers take for another one.
    Message,
    /// A server's request to the client's model.
    Sampling,
    /// A server's request to the user.
    Elicitation,
}

/// A detection at or above `inspection.alert_threshold`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Detected {
    /// The text with the detection.
    pub subject: Subject,
    /// The name of the tool, if the detection is about a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// `mcp:{server_id}:{tool_name}`, if the detection is about a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_id: Option<String>,
    /// The hash of the definition, if the detection is in a definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_hash: Option<String>,
    /// The id of the request, if the detection is in a request or an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jsonrpc_id: Option<Value>,
    /// The decision of the guards; `allow` of a muted detection that they do not deny.
    pub action: Action,
    /// Whether the detection is muted: it is recorded, and is no alert. Absent if it is not.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub muted: bool,
    /// The mute, if the detection is muted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mute: Option<MutedBy>,
    /// The detection.
    pub detection: Detection,
}

/// A tool's definition differs from its pin. The agent reports this once for each new definition; the pin stays until an
/// operator approves the new definition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolChanged {
    /// The name of the tool.
    pub tool_name: String,
    /// `mcp:{server_id}:{tool_name}`.
    pub tool_id: String,
    /// The hash of the pinned definition.
    pub previous_hash: String,
    /// The hash of the new definition.
    pub new_hash: String,
    /// The differences (bounded).
    #[serde(flatten)]
    pub diff: Diff,
    /// The detections in the new definition.
    pub detections: Vec<Detection>,
    /// The highest severity of these detections and of what is `widened` (`high`; `medium` for `visibility`); null without
    /// either.
    pub max_severity: Option<Severity>,
    /// The decision of the guards.
    pub action: Action,
}

/// The instructions of a server, a prompt, a resource template or the interface of a resource (`_meta.ui`) differs from its pin. The agent reports this once for
/// each new text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DefinitionChanged {
    /// The kind of the definition.
    pub kind: ItemKind,
    /// The name of the prompt or resource template, the address of the resource; empty for instructions.
    pub name: String,
    /// The hash of the pinned definition.
    pub previous_hash: String,
    /// The hash of the new definition.
    pub new_hash: String,
    /// The differences (bounded).
    #[serde(flatten)]
    pub diff: Diff,
    /// The detections in the new definition.
    pub detections: Vec<Detection>,
    /// The highest severity of these detections and of what is `widened` (`high`; `medium` for `visibility`); null without
    /// either.
    pub max_severity: Option<Severity>,
    /// The decision of the guards.
    pub action: Action,
}

/// A server no longer lists a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolRemoved {
    /// The name of the tool.
    pub tool_name: String,
    /// `mcp:{server_id}:{tool_name}`.
    pub tool_id: String,
    /// The hash of the last definition of the tool.
    pub tool_hash: String,
}

/// A list of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ListKind {
    /// The tools of the server.
    Tools,
    /// The prompts of the server.
    Prompts,
    /// The resources of the server.
    Resources,
}

/// A server notified its client that a list has changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListChanged {
    /// The changed list.
    pub list: ListKind,
}

/// An earlier call, as other events name it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RelatedCall {
    /// The time of the call.
    pub timestamp: Timestamp,
    /// The server of the call.
    pub server_id: ServerId,
    /// The connection of the call. Absent from events of older agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<ConnectionId>,
    /// The JSON-RPC id of the call, as it was sent; null for a notification.
    #[serde(default)]
    pub jsonrpc_id: Value,
    /// The request of the model that the call belongs to; null if nothing names it.
    #[serde(default)]
    pub request_id: Option<String>,
    /// The method: `tools/call`, or that of another request that reads or sends, such as `resources/read`.
    #[serde(default = "tools_call")]
    pub method: String,
    /// The name of the tool; without a tool, the method.
    pub tool_name: String,
    /// `mcp:{server_id}:{tool_name}`.
    pub tool_id: String,
    /// The category of the tool.
    pub category: ToolCategory,
    /// The decision of the guards.
    pub action: Action,
}

/// The method of calls, where an older event names none.
fn tools_call() -> String {
    "tools/call".to_owned()
}

/// A cross-server rule denies a call, another request that sends, or a client's answer to a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CrossServerBlocked {
    /// `read_then_send`, `burst`, `cross_server_flow` or `shadow_tool`.
    pub rule: String,
    /// The severity of the violation.
    pub severity: Severity,
    /// The reason, in words.
    pub reason: String,
    /// The server of the call.
    pub blocked_server_id: ServerId,
    /// The method of the request, or of the answered request.
    #[serde(default = "tools_call")]
    pub method: String,
    /// The JSON-RPC id of the request, as it was sent; null for a notification.
    #[serde(default)]
    pub jsonrpc_id: Value,
    /// The request of the model that the call belongs to; null if nothing names it.
    #[serde(default)]
    pub request_id: Option<String>,
    /// The tool of the call; without a tool, the method.
    pub blocked_tool_name: String,
    /// `mcp:{blocked_server_id}:{blocked_tool_name}`.
    pub blocked_tool_id: String,
    /// The hash of the tool's definition. Absent if the server does not list the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_tool_hash: Option<String>,
    /// For `shadow_tool`, the server that first offered a tool of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_server_id: Option<ServerId>,
    /// The earlier calls that the violation involves, newest first.
    pub related_calls: Vec<RelatedCall>,
    /// The guards that deny the call besides this rule. Absent without such guards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_denied_by: Vec<Objection>,
    /// Whether the call was stopped.
    pub enforced: bool,
}

/// Guards warned about a request or an answer other than a tool call, without a detection; or left tools out of a list.
/// The agent reports the same warning about one server's list once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestWarned {
    /// Whether the warning is about the request or the answer.
    pub kind: MessageKind,
    /// The method of the request.
    pub method: String,
    /// The id of the request, as it was sent.
    pub jsonrpc_id: Value,
    /// The warnings of the guards.
    pub warnings: Vec<String>,
    /// Tools that the agent treats as not listed. Absent without such tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools_left_out: Vec<String>,
}

/// Guards deny a request or an answer other than a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestBlocked {
    /// Whether the denial is about the request or the answer.
    pub kind: MessageKind,
    /// The method of the request.
    pub method: String,
    /// The id of the request, as it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jsonrpc_id: Option<Value>,
    /// The guard that objects.
    pub guard: GuardKind,
    /// The reason, for machines, such as `server_denied`.
    pub code: String,
    /// The reason, in words.
    pub reason: String,
    /// The guards that deny it besides. Absent without such guards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_denied_by: Vec<Objection>,
    /// Whether the operation was stopped.
    pub enforced: bool,
}
