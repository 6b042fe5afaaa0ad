//! What a tool does, and how risky that is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a tool does, by its name (see the module `classify`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ToolCategory {
    /// Gets at data.
    Read,
    /// Changes data.
    Write,
    /// Sends data elsewhere.
    Send,
    /// Runs code.
    Compute,
    /// None of these can be told.
    #[default]
    Unknown,
}

impl ToolCategory {
    /// Its name, as in events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Send => "send",
            Self::Compute => "compute",
            Self::Unknown => "unknown",
        }
    }
}

/// How risky a tool is, by the words in its name and description.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum RiskLevel {
    /// It reads.
    #[default]
    Low,
    /// It speaks to a network.
    Medium,
    /// It changes something.
    High,
    /// It destroys, or pays.
    Critical,
}

impl RiskLevel {
    /// Its name, as in events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}
