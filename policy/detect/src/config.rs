//! What is looked for besides the built-in rules, and what is not: switched-off categories, the user's patterns, the model.

use std::collections::BTreeSet;
use std::sync::Arc;

use mcpwarden_terms::{Category, Severity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::learned::Model;

/// What is looked for besides the built-in rules, and what is not.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DetectConfig {
    /// Categories that are switched off.
    pub disabled: BTreeSet<Category>,
    /// Patterns of the user's own.
    pub custom_patterns: Vec<CustomPattern>,
    /// Patterns for the tools of some servers. The first entry that names a server is the one for it.
    pub of_servers: Vec<ServerPatterns>,
    /// Which model scores texts.
    #[serde(skip)]
    pub scorer: ScorerModel,
}

/// The model of the learned scorer.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ScorerModel {
    /// The one that comes with the program.
    #[default]
    BuiltIn,
    /// Another one.
    Given(Arc<Model>),
    /// None: rules alone decide.
    Off,
}

/// Patterns of the user's own for the definitions of tools of some servers, and for nothing else.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServerPatterns {
    /// Globs on the servers' ids.
    pub servers: Vec<String>,
    /// Whether they tell capitals from small letters.
    pub case_sensitive: bool,
    /// The patterns.
    pub patterns: Vec<CustomPattern>,
}

/// A pattern of the user's own: a regular expression of the crate `regex`, without regard to case, on every text of
/// definitions, results and arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CustomPattern {
    /// Its name, which is the `pattern` of its detections.
    pub name: String,
    /// The expression. `…` stands for the rest of a sentence, and a blank for any white space.
    pub pattern: String,
    /// How bad a match is.
    pub severity: Severity,
    /// What it is for.
    #[serde(default)]
    pub description: String,
}
