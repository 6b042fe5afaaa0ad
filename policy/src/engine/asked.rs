//! What of a request its answer is read and reported with.

use std::sync::Arc;

use serde_json::Value;

use super::rounds::Attempt;
use crate::registry::ItemKind;
use crate::terms::Timestamp;

/// What of a request its answer will be read with.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    Call {
        tool_name: Arc<str>,
    },
    /// A list that is compared with what was known; whether the request begins it (it has no cursor).
    List {
        kind: ItemKind,
        first: bool,
    },
    Initialize(Box<Client>),
    Discover(Box<Client>),
    Other {
        method: Box<str>,
    },
}

impl Asked {
    /// Whether an answer to the other says as much as one to this: a call of the same tool, or the same method.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Call { tool_name }, Self::Call { tool_name: other }) => tool_name == other,
            (Self::Call { .. }, _) | (_, Self::Call { .. }) => false,
            _ => self.method() == other.method(),
        }
    }

    /// Memory that it takes beside itself, about.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Call { tool_name } => tool_name.len(),
            Self::List { .. } => 0,
            Self::Initialize(client) | Self::Discover(client) => client.bytes(),
            Self::Other { method } => method.len(),
        }
    }

    /// The method of the request.
    pub(super) fn method(&self) -> &str {
        match self {
            Self::Call { .. } => "tools/call",
            Self::List { kind: ItemKind::Tool, .. } => "tools/list",
            Self::List { kind: ItemKind::Prompt, .. } => "prompts/list",
            Self::List { .. } => "resources/templates/list",
            Self::Initialize(_) => "initialize",
            Self::Discover(_) => "server/discover",
            Self::Other { method } => method,
        }
    }
}

/// What an answer is an answer to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered<'a> {
    pub(super) asked: &'a Asked,
    /// The id of the request, as it is recorded.
    pub(super) id: &'a Value,
    /// When it was asked.
    pub(super) time: Timestamp,
    /// Which of several tries it is.
    pub(super) attempt: &'a Attempt,
}

impl<'a> Answered<'a> {
    /// The id and the time of its first try, and how many followed.
    pub(super) fn first(&self) -> (&'a Value, Timestamp, u32) {
        match &self.attempt.first {
            Some(first) if first.rounds > 0 => (&first.id, first.time, first.rounds),
            _ => (self.id, self.time, 0),
        }
    }
}

/// What a client says of itself in `initialize`, or in `_meta` of its requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Client {
    pub(super) name: Option<String>,
    pub(super) version: Option<String>,
    pub(super) protocol_version: Option<String>,
    /// As JSON: read, it would be up to a hundred times as large.
    pub(super) capabilities: Option<Box<str>>,
}

impl Client {
    /// Memory that it takes, about.
    pub(super) fn bytes(&self) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let capabilities = self.capabilities.as_ref().map_or(0, |json| json.len());
        let names = length(&self.name) + length(&self.version) + length(&self.protocol_version);
        size_of::<Self>() + capabilities + names
    }
}
