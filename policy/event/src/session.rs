//! Events about sessions.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use mcpwarden_terms::{Hash, Mode, ProfileKey};

/// An operator changed the profile of a session by hand, in place of the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionSet {
    /// The changed setting.
    pub key: ProfileKey,
    /// Whether the configuration determines the setting again.
    pub configured: bool,
    /// The operator.
    pub by: String,
    /// The whole profile from now on.
    pub profile: SessionProfile,
}

/// The profile by which guards judge the calls of a session, as in `sessions` of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionProfile {
    /// Whether the session plans or executes.
    pub mode: Mode,
    /// Whether the specification that the session works on is frozen.
    pub spec_frozen: bool,
    /// The hash of that specification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_hash: Option<Hash>,
    /// The project that the session works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// Side effects that no tool may have.
    pub policy_blacklist: BTreeSet<String>,
    /// Whether the session may call tools that need an administrator's token.
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
