//! What is decided by hand about definitions, as it is asked for and told: `/v1/pins` and `/v1/approvals`.

use mcpwarden_policy::{ByHand, Event, WaitingTool, config::Period};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What is to become of definitions of a server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewDecision {
    /// Whose, by its id.
    pub server: String,
    /// Which tool; with `all`, none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// All that the server offers.
    #[serde(default)]
    pub all: bool,
    /// `approve`, `deny` or `forget`.
    pub decision: ByHand,
    /// The user that the server runs as, where several have one of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The server's program, where several have this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Hash of the definition that was looked at; without it, the one that the tool has now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// In whose name, beside that of who asks. At most 128 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The calls that an approval of one tool is for; without it, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<NewLimits>,
}

/// The calls that an approval is to be for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewLimits {
    /// What the arguments must be, as in rules on tools. Without it, any arguments.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub arguments: Map<String, Value>,
    /// For one call only.
    #[serde(default)]
    pub once: bool,
    /// For how long, as `10m`.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
}

/// What was decided: the events of it. None where nothing had to be.
#[derive(Debug, Serialize, Deserialize)]
pub struct Decided {
    /// One for each definition, or for all pins that were forgotten.
    pub decided: Vec<Event>,
}

/// What waits for a decision.
#[derive(Debug, Serialize, Deserialize)]
pub struct Waiting {
    /// Oldest first.
    pub approvals: Vec<WaitingTool>,
}
