//! What guards decided.

use mcpwarden_terms::GuardKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The decision of all guards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// No guard objects.
    #[default]
    Allow,
    /// The operation is allowed, and worth a look.
    Alert,
    /// The operation is denied. `enforced` reports whether it was stopped.
    Block,
}

/// The denial of one guard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Objection {
    /// The guard.
    pub guard: GuardKind,
    /// The reason, for machines, such as `server_denied`.
    pub code: String,
    /// The reason, in words.
    pub reason: String,
}

/// The decision of the guards on a call or its result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Decided {
    /// The decision of the guards.
    pub action: Action,
    /// Whether a `block` stopped the operation.
    pub enforced: bool,
    /// With `block`, the guard that objects; with `alert`, the first guard that warned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<GuardKind>,
    /// With `block`, the reason, for machines, such as `tool_denied`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The reason of that guard, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The guards that deny it besides: a cross-server rule does not hide a rule on the server or tool. Absent without such
    /// guards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_denied_by: Vec<Objection>,
    /// All warnings of guards that do not object. Absent without warnings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
