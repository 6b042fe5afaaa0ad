//! What an operator commands.

use serde::{Deserialize, Serialize};

use crate::guards::{CallBlock, ProfileChange, TooManyProfiles};
use crate::registry::{ApprovalLimits, RegistryError};
use crate::terms::{ServerId, SessionId};

/// What somebody has the engine do by hand.
#[derive(Clone, Debug)]
pub enum OperatorCommand<'a> {
    /// Decide about definitions: [`Event`](crate::Output::Event)s tell what was decided.
    Decide(Decide<'a>),
    /// These blocks of calls are in force from now on, in place of those before.
    BlockCalls(Vec<CallBlock>),
    /// Set something of the profile of a session, or have the configuration decide that again. It holds as long as the client
    /// runs, whatever configurations come. [`SessionSet`](crate::event::SessionSet) tells the profile from now on.
    SetSession {
        /// Whose.
        session: SessionId,
        /// What becomes of it.
        change: ProfileChange,
        /// Who sets it.
        by: &'a str,
    },
}

/// Why a command was not executed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CommandError {
    /// A decision cannot be taken.
    #[error(transparent)]
    Decision(#[from] RegistryError),
    /// Nothing can be set of the session.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

/// Why nothing is set of a session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// It has no server now.
    #[error("there is no session {0} that has a server now; `mcpwarden sessions` lists those that were seen")]
    NoSession(String),
    /// Of too many others something is set.
    #[error("{0}")]
    Full(#[from] TooManyProfiles),
}

/// What somebody decides by hand about definitions, whether they were asked ([`crate::event::ApprovalRequested`]) or not.
#[derive(Clone, Copy, Debug)]
pub struct Decide<'a> {
    /// Whose they are.
    pub server: &'a ServerId,
    /// The user that the server runs as. Needed where several users' servers have that name and tool.
    pub uid: Option<u32>,
    /// The server's executable or script. Needed where several programs have that name and tool.
    pub program: Option<&'a str>,
    /// Which of the server's.
    pub what: Definitions<'a>,
    /// Who.
    pub by: &'a str,
    /// What becomes of them.
    pub decision: ByHand,
    /// The calls that an approval of one tool is for; `None`: all.
    pub limits: Option<&'a ApprovalLimits>,
}

/// Definitions of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Definitions<'a> {
    /// That of one tool.
    Tool {
        /// Its name.
        name: &'a str,
        /// Hash of the definition that was looked at; `None`: the one that the tool has now.
        hash: Option<&'a str>,
    },
    /// Those of everything that it offers; to be denied, those of its tools.
    All,
}

/// What somebody decides by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ByHand {
    /// They are trusted from now on, and pinned.
    Approve,
    /// Calls are denied while a tool has this definition.
    Deny,
    /// Their pins are forgotten: what is listed next is first use again.
    Forget,
}
