//! Events about tools that are held until somebody approves them.

use std::collections::BTreeMap;

use mcpwarden_terms::{GuardKind, ItemKind, PinKey, ServerId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Detection, Severity};

/// The owner of a server, which distinguishes servers of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Whose {
    /// The user id that the server runs as. Absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The path of the server's executable or script. Absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}

impl From<&PinKey> for Whose {
    fn from(key: &PinKey) -> Self {
        Self { uid: key.uid, program: Some(key.program.clone()).filter(|program| !program.is_empty()) }
    }
}

/// Calls of a tool are denied until an operator approves the tool. The agent reports this once for each server (by user
/// and program), tool and definition: at the listing if a detection or a change speaks against the definition, at the
/// first call if the definition is merely unapproved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalRequested {
    /// The name of the tool.
    pub tool_name: String,
    /// `mcp:{server_id}:{tool_name}`.
    pub tool_id: String,
    /// The hash of the definition to be approved.
    pub tool_hash: String,
    /// The owner of the server.
    #[serde(flatten)]
    pub whose: Whose,
    /// The guard that holds the tool.
    pub guard: GuardKind,
    /// The reason, for machines, such as `approval_required`.
    pub code: String,
    /// The reason, in words.
    pub reason: String,
    /// The server that first offered a tool of this name, if it is another server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadows: Option<ServerId>,
    /// The detections in the definition.
    pub detections: Vec<Detection>,
    /// The highest severity of these detections; null without detections.
    pub max_severity: Option<Severity>,
    /// The time at which the request expires (`inspection.on_detection.timeout`).
    pub expires: Timestamp,
}

/// An operator approved a tool: its definition is trusted from now on, and pinned;
/// or it approved some of its calls, which `limits` describes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalGranted {
    /// The name of the tool.
    pub tool_name: String,
    /// `mcp:{server_id}:{tool_name}`.
    pub tool_id: String,
    /// The hash of the approved definition.
    pub tool_hash: String,
    /// The owner of the server.
    #[serde(flatten)]
    pub whose: Whose,
    /// The operator.
    pub by: String,
    /// The calls that it is for. Absent: all, and the definition is pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<GrantLimits>,
}

/// The calls that an approval is for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GrantLimits {
    /// What the arguments must be, by JSON Pointer, as in rules on tools. Absent: any arguments.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, Value>,
    /// Whether it is for one call only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub once: bool,
    /// The time at which it ends. Absent: with the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// An approval that was for some calls, or for some time, ended: the tool is held again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalEnded {
    /// The name of the tool.
    pub tool_name: String,
    /// `mcp:{server_id}:{tool_name}`.
    pub tool_id: String,
    /// The hash of the approved definition.
    pub tool_hash: String,
    /// The owner of the server.
    #[serde(flatten)]
    pub whose: Whose,
    /// Why it ended.
    pub reason: ApprovalEnd,
    /// The operator who gave it.
    pub by: String,
    /// The calls that it was for.
    pub limits: GrantLimits,
}

/// Why an approval ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalEnd {
    /// The one call that it was for was made.
    Used,
    /// Its time is over.
    Expired,
}

/// An operator denied a tool: its calls are denied while it has this definition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalDenied {
    /// The name of the tool.
    pub tool_name: String,
    /// `mcp:{server_id}:{tool_name}`.
    pub tool_id: String,
    /// The hash of the denied definition.
    pub tool_hash: String,
    /// The owner of the server.
    #[serde(flatten)]
    pub whose: Whose,
    /// The operator.
    pub by: String,
}

/// An operator approved a prompt, a resource template or the instructions of a server: its current definition is pinned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DefinitionApproved {
    /// The kind of the definition.
    pub kind: ItemKind,
    /// The name of the prompt or resource template; empty for instructions.
    pub name: String,
    /// The hash of the approved definition.
    pub hash: String,
    /// The owner of the server.
    #[serde(flatten)]
    pub whose: Whose,
    /// The operator.
    pub by: String,
}

/// An operator deleted pins of a server: the agent treats its next listing as the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PinsReset {
    /// The tool of the pin. Absent if all pins of the server were deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// The number of deleted pins.
    pub pins: u64,
    /// The owner of the server.
    #[serde(flatten)]
    pub whose: Whose,
    /// The operator.
    pub by: String,
}

/// No operator approved a tool in time: its calls stay denied, and the agent requests no further approval while it runs.
/// An operator can still approve the tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalTimedOut {
    /// The name of the tool.
    pub tool_name: String,
    /// `mcp:{server_id}:{tool_name}`.
    pub tool_id: String,
    /// The hash of the definition to be approved.
    pub tool_hash: String,
    /// The time of the request.
    pub requested: Timestamp,
}
