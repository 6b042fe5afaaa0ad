//! What is set of a session by hand, as it is asked for and told: `/v1/sessions`.

use mcpwarden_policy::Event;
use mcpwarden_policy::guards::{ProfileKey, Setting};
use serde::{Deserialize, Serialize};

/// What is to be set of a session, or to be as the configuration says: one of the two.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewSetting {
    /// Which, by its id.
    pub session: String,
    /// What counts from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<Setting>,
    /// What the configuration says again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset: Option<ProfileKey>,
    /// In whose name, beside that of who asks. At most 128 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// What was set.
#[derive(Debug, Serialize, Deserialize)]
pub struct SetSession {
    /// The event of it.
    pub event: Event,
    /// Why it has no effect as the configuration is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<String>,
}
