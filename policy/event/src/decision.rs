//! What guards decided.

use mcpwarden_terms::GuardKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What came of something that guards looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Nobody objected.
    #[default]
    Allow,
    /// It may be, and is worth a look.
    Alert,
    /// It must not be. `enforced` says whether it really was stopped.
    Block,
}

/// What guards decided of a call or of its answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Decided {
    /// What the guards decided.
    pub action: Action,
    /// Whether a `block` really stopped it.
    pub enforced: bool,
    /// Which guard objects, of a `block`; which warned first, of an `alert`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<GuardKind>,
    /// Why, for machines, of a `block`: such as `tool_denied`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Why, in words: what that guard said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What guards remarked that did not object, all of them. Absent when there is nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
