//! Events about sessions.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use mcpwarden_terms::{Hash, Mode, ProfileKey};

/// Somebody set something of the profile that a session's calls are judged by, in place of what the configuration says of
/// its client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionSet {
    /// What was set.
    pub key: ProfileKey,
    /// Whether that goes by the configuration again.
    pub configured: bool,
    /// Who.
    pub by: String,
    /// The whole profile from now on.
    pub profile: SessionProfile,
}

/// What a session's calls are judged by, as `sessions` of the configuration has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionProfile {
    /// Whether it plans or executes.
    pub mode: Mode,
    /// Whether the specification that it works on is frozen.
    pub spec_frozen: bool,
    /// The hash of that specification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_hash: Option<Hash>,
    /// The project that it works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// Side effects that no tool may have.
    pub policy_blacklist: BTreeSet<String>,
    /// Whether tools that need an administrator's token may be called.
    pub admin_token: bool,
}

impl SessionProfile {
    /// What it says, in a word: `planning`, `billing`, `fs.write,payments`; `none` where that is nothing.
    pub fn word(&self, key: ProfileKey) -> String {
        let said = match key {
            ProfileKey::Mode if self.mode == Mode::Planning => Some("planning".to_owned()),
            ProfileKey::Mode => Some("execution".to_owned()),
            ProfileKey::Project => self.project_id.clone(),
            ProfileKey::Spec => self.spec_hash.as_ref().filter(|_| self.spec_frozen).map(Hash::to_string),
            ProfileKey::Blacklist => {
                let tags: Vec<&str> = self.policy_blacklist.iter().map(String::as_str).collect();
                Some(tags.join(",")).filter(|tags| !tags.is_empty())
            }
            ProfileKey::AdminToken => Some(self.admin_token.to_string()),
        };
        said.unwrap_or_else(|| "none".to_owned())
    }
}
