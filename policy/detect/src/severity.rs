//! The scale of scores.

use mcpwarden_terms::Severity;

/// The score from which on a detection has this severity.
pub const fn score_of(severity: Severity) -> u32 {
    match severity {
        Severity::Low => 25,
        Severity::Medium => 50,
        Severity::High => 100,
        Severity::Critical => 200,
    }
}

/// The severity of a score; `None` where it is too little to be said.
pub fn severity_of(score: u32) -> Option<Severity> {
    [Severity::Critical, Severity::High, Severity::Medium, Severity::Low]
        .into_iter()
        .find(|severity| score >= score_of(*severity))
}
