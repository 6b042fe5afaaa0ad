//! Events about what models want.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Json;

/// The party that runs a tool which a model wants to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Executor {
    /// The client: by itself, or over MCP.
    Client,
    /// The provider of the model, with a tool of its own.
    Provider,
    /// The provider of the model, over MCP.
    ProviderMcp,
}

/// The certainty that a name in the answer of a model means a tool of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolNameMatch {
    /// The name has one of the forms that clients give to tools of servers.
    Exact,
    /// The same, except for letters that the client replaced.
    Normalized,
    /// The name ends with that of the tool, and has another name of the server.
    ToolOnly,
    /// The name is cut, with a hash in place of the rest.
    Truncated,
}

/// The intent of a model to call a tool, as the API of the model reported it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelIntent {
    /// The form of the answer: `anthropic`, `openai_chat`, `openai_responses`, `gemini` or `bedrock`.
    pub dialect: String,
    /// The model, as it calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The name that the server of the model gave to the request (`request-id`, `x-request-id`), or else to the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The name that it gave to the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

/// The intent behind a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallIntent {
    /// The intent.
    #[serde(flatten)]
    pub intent: ModelIntent,
    /// Whether the call has other arguments than the model wanted. Absent if it has the same, or if the agent did not read those of the model.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub other_arguments: bool,
}

/// A model wants a tool to be called. The agent reads this in the answer of the model's API, before the client calls the tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCallIntercepted {
    /// The intent.
    #[serde(flatten)]
    pub intent: ModelIntent,
    /// The tool, as the client named it to the model.
    pub tool_name: Arc<str>,
    /// `mcp:{server_id}:{tool}` of the tool that the name means, if it means one tool of the session's servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_id: Option<String>,
    /// The hash of that tool's definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_hash: Option<Arc<str>>,
    /// The certainty of that. Absent if the name means no known tool: most are tools of the client itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_match: Option<ToolNameMatch>,
    /// The number of tools that the name means, if it means several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidates: Option<u64>,
    /// The party that runs the tool.
    pub executor: Executor,
    /// The label that the request gave to the server, if the provider runs the tool over MCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_server: Option<String>,
    /// The arguments, redacted leaf by leaf except with full payloads; null if the agent could not read them.
    pub input: Json,
    /// Address and port of the model's API.
    pub remote_addr: String,
    /// Its name, as the client calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_name: Option<String>,
    /// The process id of the client.
    pub pid: u32,
}
