//! What the calls of a session are judged by.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GuardKind;

/// What a session is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Nothing may be changed.
    Planning,
    /// Work is done.
    #[default]
    Execution,
}

/// What of a profile can be set by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProfileKey {
    /// Whether the session plans or executes.
    Mode,
    /// The project that it works on.
    Project,
    /// The specification that it works on, which is frozen.
    Spec,
    /// Side effects that no tool may have.
    Blacklist,
    /// Whether tools that need an administrator's token may be called.
    AdminToken,
}

impl ProfileKey {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Mode, Self::Project, Self::Spec, Self::Blacklist, Self::AdminToken];

    /// As it is written in events and requests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::Project => "project",
            Self::Spec => "spec",
            Self::Blacklist => "blacklist",
            Self::AdminToken => "admin_token",
        }
    }

    /// The guard that goes by it.
    pub fn guard(self) -> GuardKind {
        match self {
            Self::Mode => GuardKind::Mode,
            Self::Project => GuardKind::ProjectBinding,
            Self::Spec => GuardKind::SpecFrozen,
            Self::Blacklist => GuardKind::SideEffects,
            Self::AdminToken => GuardKind::AdminToken,
        }
    }
}

impl fmt::Display for ProfileKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
