//! What follows from what the detector finds.

use std::collections::BTreeSet;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::span;
use crate::event::Severity;

/// What of `inspection:` guards go by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct InspectionConfig {
    /// From which severity on a detection counts. Default: high.
    pub alert_threshold: Severity,
    /// What of tools with such detections.
    pub on_detection: OnDetection,
}

impl Default for InspectionConfig {
    fn default() -> Self {
        Self { alert_threshold: Severity::High, on_detection: OnDetection::default() }
    }
}

/// `inspection.on_detection:`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OnDetection {
    /// Default: alert.
    pub action: DetectionAction,
    /// How long an approval is waited for; then it is refused. Default: 5m.
    #[serde(with = "span")]
    #[schemars(with = "String")]
    pub timeout: Duration,
}

impl Default for OnDetection {
    fn default() -> Self {
        Self { action: DetectionAction::Alert, timeout: Duration::from_secs(300) }
    }
}

/// What is done about a tool with detections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DetectionAction {
    /// They are said.
    #[default]
    Alert,
    /// It is held until somebody approves it.
    RequireApproval,
    /// It is denied.
    Block,
}

/// A field of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScanField {
    /// `name`
    Name,
    /// `title`
    Title,
    /// `description`
    Description,
    /// `inputSchema`
    #[serde(alias = "inputSchema")]
    InputSchema,
    /// `outputSchema`
    #[serde(alias = "outputSchema")]
    OutputSchema,
    /// `annotations`
    Annotations,
}

/// `config` of a `tool_poisoning` under `guards:`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolPoisoningConfig {
    /// Whether detections of every severity count. Default: false.
    pub strict_mode: bool,
    /// Regular expressions of the user's own; a match is of high severity (see [`crate::guards::custom_patterns`]).
    pub custom_patterns: Vec<String>,
    /// The fields whose detections count. Default: all.
    pub scan_fields: Option<BTreeSet<ScanField>>,
    /// How many must count for the guard to act. At least 1. Default: 1.
    #[serde(alias = "alert_threshold")]
    pub min_detections: usize,
}

impl Default for ToolPoisoningConfig {
    fn default() -> Self {
        Self { strict_mode: false, custom_patterns: Vec::new(), scan_fields: None, min_detections: 1 }
    }
}

/// What is done about a text with detections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextAction {
    /// They are said.
    #[default]
    Alert,
    /// It is denied.
    Block,
}

/// `config` of a `result_injection` under `guards:`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ResultInjectionConfig {
    /// What of results with detections. Default: alert.
    pub action: TextAction,
}

/// `config` of a `sampling` under `guards:`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SamplingConfig {
    /// What of requests with detections. Default: alert.
    pub action: TextAction,
    /// Whether every such request is denied. Default: false.
    pub deny_all: bool,
}
