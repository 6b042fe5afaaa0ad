//! What an operator commands.

use serde::{Deserialize, Serialize};

use crate::guards::{CallBlock, ProfileChange, TooManyProfiles};
use crate::mutes::MuteError;
use crate::registry::{ApprovalLimits, RegistryError, StoreError};
use crate::terms::{ServerId, SessionId, Timestamp};

/// What somebody has the engine do by hand.
#[derive(Clone, Debug)]
pub enum OperatorCommand<'a> {
    /// Decide about definitions: [`Event`](crate::Output::Event)s tell what was decided.
    Decide(Decide<'a>),
    /// These blocks of calls are in force from now on, in place of those before.
    BlockCalls(Vec<CallBlock>),
    /// Mute detections: an [`Event`](crate::Output::Event) tells what was muted.
    MuteDetections(MuteDetections<'a>),
    /// Have muted detections be alerts again.
    UnmuteDetections {
        /// The id of the mute.
        id: &'a str,
        /// Who.
        by: &'a str,
    },
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

/// What somebody mutes by hand: detections are recorded, and are no alerts.
#[derive(Clone, Copy, Debug)]
pub struct MuteDetections<'a> {
    /// The rules, as a glob; `None`: every rule.
    pub rule: Option<&'a str>,
    /// The server, by its id; `None`: every server.
    pub server: Option<&'a ServerId>,
    /// The user that the server runs as. Needed where several users' servers have that name.
    pub uid: Option<u32>,
    /// The server's executable or script. Needed where several programs have that name.
    pub program: Option<&'a str>,
    /// The tool, by its name; `None`: every tool, and all that is no tool.
    pub tool: Option<&'a str>,
    /// Whether any definition of the tool is meant, and not only one.
    pub any_definition: bool,
    /// Hash of the definition that was looked at; `None`: the one that the tool has now.
    pub hash: Option<&'a str>,
    /// When the mute ends.
    pub until: Timestamp,
    /// Why.
    pub reason: &'a str,
    /// Who.
    pub by: &'a str,
}

/// Why a command was not executed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CommandError {
    /// A decision cannot be taken.
    #[error(transparent)]
    Decision(#[from] RegistryError),
    /// Nothing is muted or unmuted.
    #[error(transparent)]
    Mute(#[from] MuteError),
    /// Nothing can be set of the session.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        Self::Decision(error.into())
    }
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
