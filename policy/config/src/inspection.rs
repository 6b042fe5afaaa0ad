//! What is searched for in texts, and what is done with what is found.

use std::collections::BTreeMap;

use mcpwarden_terms::{Category, Severity};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::judgement::seconds;
use super::muted::MutedDetections;
use super::values::{AbsolutePath, Pattern, Period};

/// The search for prompt injection and tool poisoning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Inspection {
    /// Whether the agent inspects texts.
    pub enabled: bool,
    /// Built-in rules by category: `false` switches a category off. Categories without an entry are on. Example: `{
    /// path_traversal: false }`.
    #[schemars(schema_with = "by_category")]
    pub builtin: BTreeMap<Category, bool>,
    /// Regular expressions in addition to the built-in rules. A match in a definition, result or argument is a detection.
    #[schemars(length(max = 1000), extend("x-unique" = "name"))]
    pub custom_patterns: Vec<CustomPattern>,
    /// Files with more rules, at most 1 MiB each; those whose name ends in `.yar` or `.yara` have YARA rules. A file must belong to root, and nobody else may write to it. Example:
    /// `[/etc/mcpwarden/rules.yaml]`.
    #[schemars(length(max = 100))]
    pub rule_files: Vec<AbsolutePath>,
    /// The learned scorer: a model that judges definitions and results beside the rules. Its detections have the pattern
    /// `learned_scorer`.
    pub learned_scorer: LearnedScorer,
    /// The severity at and above which a detection is an event of its own, and has the effect that `on_detection` names.
    pub alert_threshold: Severity,
    /// The similarity at and above which two names of servers, or of tools of two servers, are nearly the same: the share
    /// of equal letters. At 1, only look-alike letters are equal.
    #[schemars(range(min = 0.5, max = 1.0))]
    pub similarity_threshold: f64,
    /// The effect of a detection at or above `alert_threshold` in a tool's definition.
    pub on_detection: OnDetection,
    /// Detections that are recorded with `muted: true`, and are no alerts: they reach no sink with a filter, and have no effect
    /// on calls. An entry needs `rule`, `server` or `tool`, and must not be for every rule of every server. `mcpwarden
    /// detections mute` mutes while the agent runs. See docs/guide/alerts.md.
    #[schemars(length(max = 256))]
    pub muted: Vec<MutedDetections>,
}

/// The derived schema says nothing of the keys.
fn by_category(generator: &mut SchemaGenerator) -> Schema {
    let names = generator.subschema_for::<Category>();
    json_schema!({ "type": "object", "propertyNames": names, "additionalProperties": { "type": "boolean" } })
}

impl Default for Inspection {
    fn default() -> Self {
        Self {
            enabled: true,
            builtin: BTreeMap::new(),
            custom_patterns: Vec::new(),
            rule_files: Vec::new(),
            learned_scorer: LearnedScorer::default(),
            alert_threshold: Severity::High,
            similarity_threshold: 0.85,
            on_detection: OnDetection::default(),
            muted: Vec::new(),
        }
    }
}

/// The learned scorer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LearnedScorer {
    /// Whether the agent uses the scorer.
    pub enabled: bool,
    /// A file with another model than the built-in one, as `cargo xtask train` makes it. A file must belong to root, and nobody
    /// else may write to it. Example: `/etc/mcpwarden/scorer.bin`.
    pub model_file: Option<AbsolutePath>,
}

impl Default for LearnedScorer {
    fn default() -> Self {
        Self { enabled: true, model_file: None }
    }
}

/// A regular expression of the operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CustomPattern {
    /// The id of the pattern in detections. Example: `internal_api`.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
    /// The regular expression. Example: `internal\.corp\.example\.com`.
    pub pattern: Pattern,
    /// The severity of a match.
    #[serde(default = "high")]
    pub severity: Severity,
    /// The purpose of the pattern, for people.
    #[serde(default)]
    pub description: String,
}

pub(super) fn high() -> Severity {
    Severity::High
}

/// The effect of a detection at or above the threshold: `{ action: ACTION, timeout: PERIOD }`, or the action alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "OnDetectionForm")]
pub struct OnDetection {
    /// The effect on calls of the tool.
    pub action: DetectionAction,
    /// The time after which a pending approval expires. The calls then stay denied.
    pub timeout: Period,
}

impl Default for OnDetection {
    fn default() -> Self {
        Self { action: DetectionAction::Alert, timeout: approval_timeout() }
    }
}

fn approval_timeout() -> Period {
    seconds(300)
}

/// How that may be written.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
enum OnDetectionForm {
    Short(DetectionAction),
    Long {
        /// The effect on calls of the tool.
        #[serde(default)]
        action: DetectionAction,
        /// The time after which a pending approval expires. The calls then stay denied.
        #[serde(default = "approval_timeout")]
        timeout: Period,
    },
}

impl From<OnDetectionForm> for OnDetection {
    fn from(form: OnDetectionForm) -> Self {
        match form {
            OnDetectionForm::Short(action) => Self { action, ..Self::default() },
            OnDetectionForm::Long { action, timeout } => Self { action, timeout },
        }
    }
}

/// The effect of a detection on calls of the tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DetectionAction {
    /// The agent reports the detection.
    #[default]
    Alert,
    /// Calls are denied until an operator approves the tool.
    RequireApproval,
    /// Calls are denied.
    Block,
}
