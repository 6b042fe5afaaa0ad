//! Why the agent does not do what is requested.

use mcpwarden_policy::{CommandError, ProfileError, mutes::MuteError, registry::RegistryError};
use serde::{Deserialize, Serialize};

use crate::network::BlockError;

/// Why something is not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// For programs; one of [`Code`].
    pub code: Code,
    /// For people.
    pub message: String,
}

/// Why something is not done, in one word. Each has its HTTP status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// 400: the request is not understood, or something in it is wrong.
    Unusable,
    /// 403: this user may not.
    Forbidden,
    /// 404: there is no such thing.
    NotFound,
    /// 405: that cannot be done with it.
    Method,
    /// 409: it is done with `"yes": true` alone.
    NeedsYes,
    /// 409: it is not said which of several is meant.
    Ambiguous,
    /// 413: the request is too long.
    TooLong,
    /// 503: the agent starts, ends, or has too much to do.
    Busy,
    /// 500: the agent could not: what it keeps things in failed.
    Failed,
    /// 507: there is no room.
    Full,
}

impl Code {
    /// Its HTTP status.
    pub fn status(self) -> u16 {
        match self {
            Self::Unusable => 400,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::Method => 405,
            Self::NeedsYes | Self::Ambiguous => 409,
            Self::TooLong => 413,
            Self::Busy => 503,
            Self::Failed => 500,
            Self::Full => 507,
        }
    }

    /// A refusal with this code.
    pub fn because(self, message: impl Into<String>) -> Refusal {
        Refusal { code: self, message: message.into() }
    }
}

impl From<&RegistryError> for Refusal {
    fn from(error: &RegistryError) -> Self {
        let code = match error {
            RegistryError::Unknown { .. } => Code::NotFound,
            RegistryError::Ambiguous { .. } => Code::Ambiguous,
            RegistryError::OtherHash { .. } | RegistryError::Approved { .. } => Code::Unusable,
            RegistryError::Connections(_) | RegistryError::Limited { .. } => Code::Full,
            RegistryError::Store(_) => Code::Failed,
        };
        Self { code, message: error.to_string() }
    }
}

impl From<&CommandError> for Refusal {
    fn from(error: &CommandError) -> Self {
        let code = match error {
            CommandError::Decision(error) => return error.into(),
            CommandError::Mute(error) => match error {
                MuteError::Unknown(_) => Code::NotFound,
                MuteError::Full => Code::Full,
                _ => Code::Unusable,
            },
            CommandError::Profile(ProfileError::NoSession(_)) => Code::NotFound,
            CommandError::Profile(ProfileError::Full(_)) => Code::Full,
        };
        Self { code, message: error.to_string() }
    }
}

impl From<BlockError> for Refusal {
    fn from(error: BlockError) -> Self {
        let code = match &error {
            BlockError::Unusable(_) => Code::Unusable,
            BlockError::Sweeping(..) => Code::NeedsYes,
            BlockError::TooMany | BlockError::Table(_) => Code::Full,
            BlockError::NotBlocked(..) | BlockError::NoSession(_) => Code::NotFound,
            BlockError::NoGate(_) => Code::Failed,
        };
        Self { code, message: error.to_string() }
    }
}
