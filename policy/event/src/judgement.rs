//! Events about what was found and what was decided.

use mcpwarden_protocol::definition::Diff;
use mcpwarden_terms::{GuardKind, ItemKind, ServerId, Timestamp, ToolCategory};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Action, Detection, MessageKind, Severity};

/// Which text a detection is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// The name of a server.
    Server,
    /// The definition of a tool.
    Definition,
    /// What a server says of itself in `initialize`.
    Instructions,
    /// A prompt, or the list of them.
    Prompt,
    /// A resource template, or the list of resources.
    Resource,
    /// The arguments of a call; of any request, where it says twice what is asked.
    Arguments,
    /// The result of a call, or of a request of none of these.
    Result,
    /// A message of another kind, such as a notification; any message, where not every reader takes it for the same.
    Message,
    /// What a server asks the client's model.
    Sampling,
    /// What a server asks the user.
    Elicitation,
}

/// A rule found something at or above `inspection.alert_threshold`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Detected {
    /// Where.
    pub subject: Subject,
    /// The tool, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// `mcp:{server_id}:{tool_name}`, where it is about a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_id: Option<String>,
    /// Hash of the definition, where it is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_hash: Option<String>,
    /// Id of the request, where it is in one or in an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jsonrpc_id: Option<Value>,
    /// What came of it.
    pub action: Action,
    /// What was found.
    pub detection: Detection,
}

/// A tool's definition is not what was pinned. Said once for each new definition; the pin stays until somebody
/// approves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolChanged {
    /// The tool's name.
    pub tool_name: String,
    /// `mcp:{server_id}:{tool_name}`.
    pub tool_id: String,
    /// Hash of the pinned definition.
    pub previous_hash: String,
    /// Hash of this one.
    pub new_hash: String,
    /// What differs (bounded).
    #[serde(flatten)]
    pub diff: Diff,
    /// What the rules found in the new definition.
    pub detections: Vec<Detection>,
    /// The worst of them; null when there is none.
    pub max_severity: Option<Severity>,
    /// What came of it.
    pub action: Action,
}

/// Something else that reaches the model is not what was pinned: a server's instructions, a prompt, a resource
/// template. Said once for each new text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DefinitionChanged {
    /// What it is.
    pub kind: ItemKind,
    /// Its name; empty for instructions.
    pub name: String,
    /// Hash of what was pinned.
    pub previous_hash: String,
    /// Hash of this.
    pub new_hash: String,
    /// What differs (bounded).
    #[serde(flatten)]
    pub diff: Diff,
    /// What the rules found in the new one.
    pub detections: Vec<Detection>,
    /// The worst of them; null when there is none.
    pub max_severity: Option<Severity>,
    /// What came of it.
    pub action: Action,
}

/// A server lists a tool no more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolRemoved {
    /// The tool's name.
    pub tool_name: String,
    /// `mcp:{server_id}:{tool_name}`.
    pub tool_id: String,
    /// Hash of the definition that it had.
    pub tool_hash: String,
}

/// Which list of a server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ListKind {
    /// Its tools.
    Tools,
    /// Its prompts.
    Prompts,
    /// Its resources.
    Resources,
}

/// A server says that one of its lists is another now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListChanged {
    /// Which list.
    pub list: ListKind,
}

/// A call as it is named in the events of others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RelatedCall {
    /// When it was made.
    pub timestamp: Timestamp,
    /// On which server.
    pub server_id: ServerId,
    /// Which tool.
    pub tool_name: String,
    /// `mcp:{server_id}:{tool_name}`.
    pub tool_id: String,
    /// What the tool does.
    pub category: ToolCategory,
    /// What came of it.
    pub action: Action,
}

/// A rule about several servers of a session objects to a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CrossServerBlocked {
    /// `read_then_send`, `burst`, `cross_server_flow` or `shadow_tool`.
    pub rule: String,
    /// How bad that is.
    pub severity: Severity,
    /// In words.
    pub reason: String,
    /// The server of the call.
    pub blocked_server_id: ServerId,
    /// The tool of the call.
    pub blocked_tool_name: String,
    /// `mcp:{blocked_server_id}:{blocked_tool_name}`.
    pub blocked_tool_id: String,
    /// Hash of its definition, where its server lists it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_tool_hash: Option<String>,
    /// The server that was first with the tool's name, of `shadow_tool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_server_id: Option<ServerId>,
    /// The calls before it that the rule is about.
    pub related_calls: Vec<RelatedCall>,
    /// Whether it really was stopped.
    pub enforced: bool,
}

/// Guards remarked something on a request or an answer that is of no tool call, and that no detection tells; or left
/// tools out of a list. Of one server's list the same is said once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestWarned {
    /// Whether it is the request, or the answer to it.
    pub kind: MessageKind,
    /// The method.
    pub method: String,
    /// Id of the request, as it was sent.
    pub jsonrpc_id: Value,
    /// What they remarked.
    pub warnings: Vec<String>,
    /// Tools that are treated as if they were not listed. Absent when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools_left_out: Vec<String>,
}

/// Guards object to a request or an answer that is of no tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestBlocked {
    /// Whether it is the request, or the answer to it.
    pub kind: MessageKind,
    /// The method.
    pub method: String,
    /// Id of the request, as it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jsonrpc_id: Option<Value>,
    /// Who objects.
    pub guard: GuardKind,
    /// For machines, such as `server_denied`.
    pub code: String,
    /// In words.
    pub reason: String,
    /// Whether it really was stopped.
    pub enforced: bool,
}
