//! What guards that others wrote deny: it stands for the operations that follow, since such a guard answers when an operation
//! has passed.

use std::sync::Arc;

use super::{Facts, Operation};
use crate::terms::contract::GuardName;
use crate::terms::{ServerId, SessionId, Timestamp};

/// A denial of a guard that others wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandingDenial {
    /// Which guard.
    pub guard: Arc<GuardName>,
    /// Of which server; `None`: of each that the session has.
    pub server: Option<ServerId>,
    /// Of which session; `None`: of every one of this user's.
    pub session: Option<SessionId>,
    /// The user of the client that it was denied to, if known: anybody can call a server so, and what that does is held against
    /// nobody else's.
    pub owner: Option<u32>,
    /// Of what.
    pub subject: DeniedSubject,
    /// Until when; `None`: as long as the agent runs.
    pub until: Option<Timestamp>,
    /// Whether the guard did not say so, but failed.
    pub is_failure: bool,
    /// What the guard gave as the code.
    pub code: Arc<str>,
    /// What it gave as the reason, for people.
    pub message: Arc<str>,
}

/// What is denied of a server or a session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeniedSubject {
    /// Everything.
    All,
    /// Calls of a tool, whatever its definition.
    Tool(Arc<str>),
    /// Calls of a tool while it has this definition.
    Definition {
        /// The name of the tool.
        tool: Arc<str>,
        /// SHA-256 of the definition, 64 hexadecimal digits.
        hash: Arc<str>,
    },
    /// A prompt.
    Prompt(Arc<str>),
    /// A resource, by its address.
    Resource(Arc<str>),
}

impl DeniedSubject {
    /// The tool whose calls are denied, if it is one.
    pub fn tool(&self) -> Option<&str> {
        match self {
            Self::Tool(tool) | Self::Definition { tool, .. } => Some(tool),
            Self::All | Self::Prompt(_) | Self::Resource(_) => None,
        }
    }

    /// Whether an operation is of it.
    fn is_of(&self, operation: &Operation<'_>, facts: &Facts<'_>) -> bool {
        match (self, operation) {
            (Self::All, _) => true,
            (Self::Tool(tool), Operation::ToolInvoke { tool_name, .. }) => **tool == **tool_name,
            (Self::Definition { tool, hash }, Operation::ToolInvoke { tool_name, .. }) => {
                **tool == **tool_name && facts.tool.is_some_and(|known| known.hash == *hash)
            }
            (Self::Prompt(prompt), Operation::PromptRequest { name, .. }) => **prompt == **name,
            (Self::Resource(address), Operation::ResourceRequest { uri, .. }) => **address == **uri,
            _ => false,
        }
    }
}

impl StandingDenial {
    /// Whether it is about this server, by any of its names, and this session of a user.
    pub fn is_for(
        &self,
        server: &ServerId,
        also: &[ServerId],
        (session, owner): (&SessionId, Option<u32>),
    ) -> bool {
        self.session.as_ref().map_or(self.owner == owner, |denied| denied == session)
            && self.server.as_ref().is_none_or(|denied| denied == server || also.contains(denied))
    }

    /// Whether an operation of such a server and session is denied.
    pub fn denies(&self, operation: &Operation<'_>, facts: &Facts<'_>) -> bool {
        self.subject.is_of(operation, facts)
    }
}
