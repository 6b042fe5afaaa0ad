//! What the gate did to a write.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use mcpwarden_terms::GuardKind;

/// The effect of the gate on a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateAction {
    /// The gate overwrote one byte of a message, so that the server refuses the message and answers it.
    Neutralized,
    /// The write failed.
    Refused,
    /// The write passed, although it was undecidable.
    Passed,
    /// The write went past every hook.
    Unseen,
}

/// The gate stopped a client's write to a server, or the write was undecidable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GateDecided {
    /// The effect on the write.
    pub action: GateAction,
    /// The guard that objects, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<GuardKind>,
    /// The reason, for machines: the code of the guard, such as `tool_denied`, or the property of the write, such as
    /// `long_write`.
    pub code: String,
    /// The reason, in words.
    pub reason: String,
    /// The process that wrote.
    pub pid: u32,
    /// The number of bytes of the write that the gate read; for `unseen`, the number of unseen bytes.
    pub bytes: u64,
    /// Whether the server's answer tells the client the reason: the gate wrote it in place of the tool's name
    /// (`enforcement.explain`).
    #[serde(default)]
    pub explained: bool,
}
