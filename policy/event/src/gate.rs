//! What the gate did to a write.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use mcpwarden_terms::GuardKind;

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateAction {
    /// One byte of a message was overwritten, so that its server refuses that message and answers it.
    Neutralized,
    /// The client was not allowed to write.
    Refused,
    /// It was let through, though the gate could not tell what it asks for.
    Passed,
    /// It was written past every hook: no kernel asks about it.
    Unseen,
}

/// The gate stopped something that a client was about to write to a server, or could not tell what that was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GateDecided {
    /// What became of it.
    pub action: GateAction,
    /// Which guard objects, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<GuardKind>,
    /// For machines: the guard's code, such as `tool_denied`, or what it is about the write, such as `long_write`.
    pub code: String,
    /// In words.
    pub reason: String,
    /// The process that wrote.
    pub pid: u32,
    /// How much of the write was read; how much went by unseen. Bytes.
    pub bytes: u64,
}
