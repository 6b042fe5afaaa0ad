//! Events about mutes: detections that are recorded, and are no alerts.

use mcpwarden_terms::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Whose;

/// What a mute is for, until when, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Mute {
    /// The id of the mute, as `mcpwarden detections unmute` takes it: a part of the hash of all else.
    pub mute_id: String,
    /// Where the mute comes from.
    pub source: MuteSource,
    /// The glob of the muted rules. Absent: every rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The server: of the configuration a glob, of an operator its id. Absent: every server. A mute of one server is
    /// reported with `server_id` as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The owner of the server. Absent: any owner.
    #[serde(flatten)]
    pub whose: Whose,
    /// The tool: of the configuration a glob, of an operator its name. Absent: every tool, and all that is no tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The hash of the only definition of the tool that the mute is for. Absent: any definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_hash: Option<String>,
    /// The time at which the mute ends. Absent: with its entry in the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The reason.
    pub reason: String,
    /// The operator. Absent: the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Where a mute comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MuteSource {
    /// An entry of `inspection.muted`.
    Configuration,
    /// `mcpwarden detections mute`.
    Operator,
}

/// The mute by which a detection is no alert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MutedBy {
    /// The id of the mute.
    pub mute_id: String,
    /// Where the mute comes from.
    pub source: MuteSource,
    /// The reason of the mute.
    pub reason: String,
}

impl From<&Mute> for MutedBy {
    fn from(mute: &Mute) -> Self {
        Self { mute_id: mute.mute_id.clone(), source: mute.source, reason: mute.reason.clone() }
    }
}

/// An operator muted detections: they are recorded, and are no alerts. A second mute of the same replaces the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DetectionMuted {
    /// The mute.
    #[serde(flatten)]
    pub mute: Mute,
}

/// A mute of detections ended: they are alerts again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DetectionUnmuted {
    /// Why the mute ended.
    pub ended: MuteEnd,
    /// The operator who ended it. Absent if it expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmuted_by: Option<String>,
    /// The mute.
    #[serde(flatten)]
    pub mute: Mute,
}

/// Why a mute ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MuteEnd {
    /// An operator ended it.
    Unmuted,
    /// Its time is over.
    Expired,
}
