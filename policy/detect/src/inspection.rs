//! What was found in one message, and the bounds that its inspection reached.

use mcpwarden_terms::{Detection, Severity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most detections of one message.
pub(super) const MAX_DETECTIONS: usize = 64;

/// What was found in one message, and what was not looked at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Inspection {
    /// What was found, field by field, the worst of a field first (bounded).
    pub detections: Vec<Detection>,
    /// Bounds that were reached.
    pub bounds: Bounds,
}

impl Inspection {
    /// The severity of the worst detection.
    pub fn max_severity(&self) -> Option<Severity> {
        self.detections.iter().map(|detection| detection.severity).max()
    }

    /// Adds what else was found in the same message, the worst first, with the bounds of one inspection.
    pub(super) fn add(&mut self, more: Self) {
        self.detections.extend(more.detections);
        self.detections.sort_by_key(|found| std::cmp::Reverse(found.score));
        let beyond = self.detections.len().saturating_sub(MAX_DETECTIONS);
        self.detections.truncate(MAX_DETECTIONS);
        self.bounds.add(more.bounds);
        self.bounds.detections_dropped += beyond as u64;
    }
}

/// Bounds that an inspection reached, for the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bounds {
    /// Detections beyond the most that one message may have.
    pub detections_dropped: u64,
    /// Matches beyond the most that one detection may have.
    pub matches_dropped: u64,
    /// 1 where there was more suspicious text than is looked at; a detection says so as well.
    pub budget_exceeded: u64,
    /// 1 where there were more keys than are compared.
    pub keys_dropped: u64,
}

impl Bounds {
    /// Adds the bounds that another inspection of the same message has reached.
    pub fn add(&mut self, more: Self) {
        self.detections_dropped += more.detections_dropped;
        self.matches_dropped += more.matches_dropped;
        self.budget_exceeded |= more.budget_exceeded;
        self.keys_dropped |= more.keys_dropped;
    }

    /// All of them together.
    pub fn total(&self) -> u64 {
        self.detections_dropped + self.matches_dropped + self.budget_exceeded + self.keys_dropped
    }
}
