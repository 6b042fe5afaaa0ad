//! Events about how MCP is spoken.

use mcpwarden_terms::{Direction, Era};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Severity;

/// What in a message does not belong into its conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Violation {
    /// The server sends a request.
    ServerRequest,
    /// The client sends an answer.
    ClientResponse,
    /// Several messages in one frame.
    Batch,
    /// `Mcp-Session-Id` in the head of a request or an answer.
    SessionId,
    /// `initialize` or `server/discover`, with which a conversation of the other era begins.
    Opening,
    /// A method that only the other era has.
    Method,
    /// A request with a revision of the other era, or without a revision or capabilities where each request has them.
    RequestMeta,
    /// A member that only the other era has, such as `inputRequests`.
    Member,
    /// An answer to `initialize` or `server/discover` with revisions of the other era alone.
    Revision,
    /// A request in another revision than the requests before.
    RevisionChanged,
    /// The client has another name or version than before.
    ClientChanged,
    /// The server has another name or version than before.
    ServerChanged,
    /// A header (`MCP-Protocol-Version`, `Mcp-Method`, `Mcp-Name`, `Mcp-Param-…`) that says something else than the body.
    HeaderMismatch,
    /// Such a header more than once.
    HeaderRepeated,
    /// Such a header with base64 that cannot be read.
    HeaderMalformed,
    /// Such a header is missing where the revision wants it.
    HeaderMissing,
    /// A list that is the same for all users as its server says (`cacheScope`), and another one for this user.
    PublicList,
}

impl Violation {
    /// How bad it is: what a server can misuse is worse than an old form.
    pub fn severity(self) -> Severity {
        match self {
            Self::ServerRequest
            | Self::Batch
            | Self::Opening
            | Self::Member
            | Self::RevisionChanged
            | Self::ServerChanged
            | Self::HeaderMismatch
            | Self::HeaderRepeated
            | Self::HeaderMalformed
            | Self::PublicList => Severity::Medium,
            Self::ClientResponse
            | Self::SessionId
            | Self::Method
            | Self::RequestMeta
            | Self::Revision
            | Self::ClientChanged
            | Self::HeaderMissing => Severity::Low,
        }
    }
}

/// A message does not belong into its conversation: it has a form of the other era of MCP, or says something else than the
/// messages before. The agent reports the same once for each connection, and processes the message like any other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProtocolViolation {
    /// The era of the conversation: `handshake` (up to revision 2025-11-25) or `stateless` (from 2026-07-28 on).
    pub era: Era,
    /// What does not belong there.
    pub violation: Violation,
    /// The severity of the violation.
    pub severity: Severity,
    /// The direction of the message.
    pub direction: Direction,
    /// The method of the message; for an answer, the method of its request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The id of the message, as it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jsonrpc_id: Option<Value>,
    /// The value before, or in the body (bounded). Values of parameters and addresses of resources are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// The value of this message (bounded): a revision, a name of a member, who speaks, a header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
}
