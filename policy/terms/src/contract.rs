//! The contract of guards that others write, `mcp:security-guard@0.1.0`: what such a guard is asked, and what it answers.
//!
//! A guard of this kind is a WebAssembly component or a service behind HTTP. It is asked about an operation that has passed
//! already, since no client waits for it in the kernel: a denial holds for the operations that follow ([`DenialScope`]).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{GuardKind, Phase};

/// The version of the contract: of the package that a component exports, and of the requests to services.
pub const CONTRACT_VERSION: &str = "0.1.0";

/// What a guard is asked. Texts named as such hold JSON, as it was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardRequest {
    /// The operation that it is to judge.
    pub operation: GuardOperation,
    /// What is known of it besides.
    pub context: GuardContext,
}

/// An operation, in the phase that it is judged in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type", content = "data")]
pub enum GuardOperation {
    /// A server lists tools: one page of its list.
    ListTools {
        /// The tools, in the order of the list.
        tools: Vec<GuardTool>,
    },
    /// A client calls a tool.
    CallTool {
        /// Its name.
        tool_name: String,
        /// JSON: the arguments; `null` where there are none.
        arguments: String,
    },
    /// A server answers such a call.
    ToolResponse {
        /// The name of the tool.
        tool_name: String,
        /// JSON: the result, or the error object of JSON-RPC.
        result: String,
    },
    /// A client asks for a prompt.
    GetPrompt {
        /// Its name.
        prompt_name: String,
        /// JSON: the arguments; `null` where there are none.
        arguments: String,
    },
    /// A client reads a resource.
    ReadResource {
        /// Its address.
        uri: String,
    },
}

impl GuardOperation {
    /// The phase that the operation is judged in.
    pub fn phase(&self) -> Phase {
        match self {
            Self::ListTools { .. } => Phase::ToolsList,
            Self::CallTool { .. } => Phase::ToolInvoke,
            Self::ToolResponse { .. } => Phase::ToolResult,
            Self::GetPrompt { .. } => Phase::PromptRequest,
            Self::ReadResource { .. } => Phase::ResourceRequest,
        }
    }

    /// Bytes of the texts in it, about.
    pub fn bytes(&self) -> usize {
        match self {
            Self::ListTools { tools } => tools.iter().map(GuardTool::bytes).sum(),
            Self::CallTool { tool_name: name, arguments: text }
            | Self::ToolResponse { tool_name: name, result: text }
            | Self::GetPrompt { prompt_name: name, arguments: text } => name.len() + text.len(),
            Self::ReadResource { uri } => uri.len(),
        }
    }
}

/// A tool, as its server lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardTool {
    /// Its name.
    pub name: String,
    /// What it does, in the server's words.
    pub description: Option<String>,
    /// JSON: the schema of its arguments; `{}` where there is none.
    pub input_schema: String,
}

impl GuardTool {
    fn bytes(&self) -> usize {
        self.name.len() + self.description.as_ref().map_or(0, String::len) + self.input_schema.len()
    }
}

/// What is known of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardContext {
    /// The id of the server.
    pub server_name: String,
    /// Who runs the client, where that is known.
    pub identity: Option<GuardIdentity>,
    /// JSON: an object with `session_id`, `jsonrpc_id`, `time` (RFC 3339), `client` and `server` (each with `pid`, `uid`,
    /// `cgroup_id` and `executable`), and over HTTP `http`.
    pub metadata: String,
}

/// Who runs a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardIdentity {
    /// The user: `uid:1000`.
    pub sub: String,
    /// Never known of a local user.
    pub email: Option<String>,
    /// Never known: groups are resolved by no look-up in the path of a message.
    pub groups: Vec<String>,
    /// JSON: an object with `uid`.
    pub claims: String,
}

/// What a guard answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "decision")]
pub enum GuardReply {
    /// It has no objection.
    Allow,
    /// The operation must not be.
    Deny {
        /// Why.
        reason: GuardReason,
    },
    /// The operation may be, otherwise than it was.
    Modify {
        /// JSON: the action, an object with `type`.
        action: String,
    },
}

/// Why a guard denies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardReason {
    /// For machines.
    pub code: String,
    /// For people.
    pub message: String,
    /// JSON: anything else; `scope`, `tools` and `valid_for` say what is denied, and for how long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "failure", content = "why")]
pub enum GuardFailure {
    /// There was none in time.
    #[error("no answer in time")]
    Timeout,
    /// It used more than it may: memory, stack, instructions, or an answer that is too large.
    #[error("over its limits: {0}")]
    Limit(String),
    /// It answered that it cannot judge, or what it answered is no answer.
    #[error("{0}")]
    Error(String),
    /// It was not asked: too many questions are open, or its service fails.
    #[error("not asked: {0}")]
    Refused(String),
}

impl GuardFailure {
    /// Whether the same question may have an answer later.
    pub fn may_pass(&self) -> bool {
        !matches!(self, Self::Limit(_))
    }
}

/// A guard that others wrote.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuardName {
    /// How it is reached.
    pub kind: GuardKind,
    /// What the configuration calls it.
    pub name: String,
}

/// What a denial of such a guard holds for, from the operation on that it was asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DenialScope {
    /// Calls of tools while they have the definitions that were judged.
    Definition,
    /// Calls of the tool by every session.
    Tool,
    /// Calls of the tool by the session.
    SessionTool,
    /// Everything of the server.
    Server,
    /// Everything of the server in the session.
    SessionServer,
    /// Everything of the session.
    Session,
    /// The prompt in the session.
    Prompt,
    /// The resource in the session.
    Resource,
}

impl DenialScope {
    /// What a denial in a phase holds for if the answer does not say.
    pub fn of(phase: Phase) -> Self {
        match phase {
            Phase::ToolsList => Self::Definition,
            Phase::PromptRequest => Self::Prompt,
            Phase::ResourceRequest => Self::Resource,
            Phase::ToolInvoke | Phase::ToolResult | Phase::Request | Phase::Response => Self::SessionTool,
        }
    }
}
