//! Mutes of detections, as they are asked for and told: `/v1/mutes`.

use mcpwarden_policy::{Event, Timestamp, config::Period, event::Mute};
use serde::{Deserialize, Serialize};

/// Which detections are to be muted: by rule, server or tool.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewMute {
    /// The rules, as a glob; without it, every rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The server, by its id; without it, every server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The user that the server runs as, where several have one of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The server's program, where several have this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The tool, by its name; without it, every tool, and all that is no tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Any definition of the tool, and not only the one that it has now.
    #[serde(default)]
    pub any_definition: bool,
    /// Hash of the definition that was looked at; without it, the one that the tool has now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// For how long, as `30d`; or `until`.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
    /// Until when; or `for`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Why. At most 1,024 bytes.
    pub reason: String,
    /// In whose name, beside that of who asks. At most 128 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// What is to be muted no longer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OldMute {
    /// The id of the mute.
    pub id: String,
    /// In whose name, beside that of who asks. At most 128 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// What was muted, or is no longer.
#[derive(Debug, Serialize, Deserialize)]
pub struct ChangedMute {
    /// The event of it.
    pub event: Event,
}

/// All mutes that are in force.
#[derive(Debug, Serialize, Deserialize)]
pub struct Mutes {
    /// Those of the configuration first.
    pub mutes: Vec<Mute>,
}
