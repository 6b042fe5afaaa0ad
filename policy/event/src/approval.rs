//! Events about tools that are held until somebody approves them.

use mcpwarden_terms::{GuardKind, ItemKind, PinKey, ServerId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Detection, Severity};

/// Whose a server is, where several have its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Whose {
    /// User id that the server runs as. Absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Path of the server's executable or script. Absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}

impl From<&PinKey> for Whose {
    fn from(key: &PinKey) -> Self {
        Self { uid: key.uid, program: Some(key.program.clone()).filter(|program| !program.is_empty()) }
    }
}

/// Calls of a tool are denied until somebody approves it. Said once for each server (user and program count), tool and
/// definition: when it is listed where something speaks against the definition, and when it is first called where only
/// nothing speaks for it yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalRequested {
    /// The tool's name.
    pub tool_name: String,
    /// `mcp:{server_id}:{tool_name}`.
    pub tool_id: String,
    /// Hash of the definition that is to be approved.
    pub tool_hash: String,
    /// Whose server it is of.
    #[serde(flatten)]
    pub whose: Whose,
    /// Which guard holds it.
    pub guard: GuardKind,
    /// Why, for machines, such as `approval_required`.
    pub code: String,
    /// Why, in words.
    pub reason: String,
    /// The server that was first with the tool's name, where that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadows: Option<ServerId>,
    /// What the rules found in the definition.
    pub detections: Vec<Detection>,
    /// The worst of them; null when there is none.
    pub max_severity: Option<Severity>,
    /// When it is given up (`inspection.on_detection.timeout`).
    pub expires: Timestamp,
}

/// Somebody approved a tool: its definition is trusted from now on, and the pin is moved to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalGranted {
    /// The tool's name.
    pub tool_name: String,
    /// `mcp:{server_id}:{tool_name}`.
    pub tool_id: String,
    /// Hash of the approved definition.
    pub tool_hash: String,
    /// Whose server it is of.
    #[serde(flatten)]
    pub whose: Whose,
    /// Who.
    pub by: String,
}

/// Somebody denied a tool: its calls are denied while it has this definition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalDenied {
    /// The tool's name.
    pub tool_name: String,
    /// `mcp:{server_id}:{tool_name}`.
    pub tool_id: String,
    /// Hash of the denied definition.
    pub tool_hash: String,
    /// Whose server it is of.
    #[serde(flatten)]
    pub whose: Whose,
    /// Who.
    pub by: String,
}

/// Somebody approved a prompt, a resource template or a server's instructions: the pin is moved to what they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DefinitionApproved {
    /// What it is of.
    pub kind: ItemKind,
    /// Its name; empty for instructions.
    pub name: String,
    /// Hash of the approved definition.
    pub hash: String,
    /// Whose server it is of.
    #[serde(flatten)]
    pub whose: Whose,
    /// Who.
    pub by: String,
}

/// Somebody had pins of a server forgotten: what it lists next is first use again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PinsReset {
    /// The tool whose pin it was; absent where all of the server's were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// How many pins.
    pub pins: u64,
    /// Whose server it is of.
    #[serde(flatten)]
    pub whose: Whose,
    /// Who.
    pub by: String,
}

/// Nobody approved a tool in time: its calls stay denied, and nobody is asked again while the agent runs. It can be
/// approved all the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalTimedOut {
    /// The tool's name.
    pub tool_name: String,
    /// `mcp:{server_id}:{tool_name}`.
    pub tool_id: String,
    /// Hash of the definition that was to be approved.
    pub tool_hash: String,
    /// When it was asked for.
    pub requested: Timestamp,
}
