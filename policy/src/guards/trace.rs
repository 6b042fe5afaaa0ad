//! Which guards were asked, and what each said.

use serde::Serialize;

use crate::guard::Modification;
use crate::terms::{GuardKind, Phase};

/// What a guard said that was asked, for `mcpwarden decide`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Asked {
    /// Which.
    pub guard: GuardKind,
    /// In which phase.
    pub phase: Phase,
    /// What it said.
    pub answer: GuardOutcome,
    /// Why, of an answer that lets it through, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What a guard said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardOutcome {
    /// It has no objection.
    Allow,
    /// It must not be.
    Deny,
    /// It may be, but is recorded otherwise.
    Modify,
    /// It failed, which denies.
    FailClosed,
    /// It failed, which allows.
    FailOpen,
}

/// What a modification does, in words.
pub(super) fn describe(modification: &Modification) -> String {
    match modification {
        Modification::AddWarning { message, .. } => message.clone(),
        Modification::NoteMuted { detections } => format!("{} muted detections", detections.len()),
        Modification::ReplaceTools(kept) => format!("{} tools are kept", kept.len()),
        Modification::RedactFields { paths, .. } => format!("redacts {}", paths.join(", ")),
    }
}

/// Adds what a guard said, where somebody wants to know.
pub(super) fn note(
    trace: &mut Option<&mut Vec<Asked>>,
    guard: GuardKind,
    phase: Phase,
    answer: GuardOutcome,
    reason: impl FnOnce() -> Option<String>,
) {
    if let Some(trace) = trace {
        trace.push(Asked { guard, phase, answer, reason: reason() });
    }
}
