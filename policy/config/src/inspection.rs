//! What is searched for in texts, and what is done with what is found.

use std::collections::BTreeMap;

use mcpwarden_terms::{Category, Severity};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::judgement::seconds;
use super::values::{AbsolutePath, Pattern, Period};

/// What texts are searched for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Inspection {
    /// Whether texts are inspected at all.
    pub enabled: bool,
    /// Built-in rules by category; those that are not named are on. Example: `{ path_traversal: false }`.
    #[schemars(schema_with = "by_category")]
    pub builtin: BTreeMap<Category, bool>,
    /// Rules beside the built-in ones.
    #[schemars(length(max = 1000), extend("x-unique" = "name"))]
    pub custom_patterns: Vec<CustomPattern>,
    /// Files with more rules, at most 1 MiB each; they must be root's, and nobody else may write to them. Example: `[/etc/mcpwarden/rules.yaml]`.
    #[schemars(length(max = 100))]
    pub rule_files: Vec<AbsolutePath>,
    /// Detections at or above this severity are events of their own.
    pub alert_threshold: Severity,
    /// From which similarity on the names of two servers, or of tools of two servers, are nearly the same: the share of
    /// letters that are; at 1, only letters that look alike count.
    #[schemars(range(min = 0.5, max = 1.0))]
    pub similarity_threshold: f64,
    /// What follows from such a detection.
    pub on_detection: OnDetection,
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
            alert_threshold: Severity::High,
            similarity_threshold: 0.85,
            on_detection: OnDetection::default(),
        }
    }
}

/// A rule of the user's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CustomPattern {
    /// Its id in detections. Example: `internal_api`.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
    /// A regular expression. Example: `internal\.corp\.example\.com`.
    pub pattern: Pattern,
    /// How bad a match is.
    #[serde(default = "high")]
    pub severity: Severity,
    /// What it finds, for people.
    #[serde(default)]
    pub description: String,
}

pub(super) fn high() -> Severity {
    Severity::High
}

/// What follows from a detection at or above the threshold: `{ action: ACTION, timeout: PERIOD }`, or the action alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "OnDetectionForm")]
pub struct OnDetection {
    /// What is done with the tool.
    pub action: DetectionAction,
    /// How long an approval is waited for, until it counts as denied.
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
        /// What is done with the tool.
        #[serde(default)]
        action: DetectionAction,
        /// How long an approval is waited for, until it counts as denied.
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

/// What is done with a tool in which something was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DetectionAction {
    /// It is reported.
    #[default]
    Alert,
    /// Its calls are denied until somebody approves it.
    RequireApproval,
    /// Its calls are denied.
    Block,
}
