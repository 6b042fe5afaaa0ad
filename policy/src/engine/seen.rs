//! Frames as they were seen.

use crate::guard::Verdict;
use crate::terms::{ConnectionId, Direction, Timestamp};

/// A frame: where it was seen, and what is known of it besides its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    pub(super) connection: ConnectionId,
    pub(super) direction: Direction,
    pub(super) time: Timestamp,
    /// Its length.
    pub(super) bytes: u64,
    pub(super) now: Timestamp,
    /// What became of it, where the gate stopped it.
    pub(super) stop: Option<Stop>,
    /// The turn of the model that it belongs to, where a recording names it.
    pub(super) turn: Option<&'a str>,
}

/// What became of a frame that the gate stopped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    /// Nothing of it reached its server: nobody answers.
    pub(super) is_refused: bool,
    /// It is the only message of its frame.
    is_alone: bool,
}

impl Stop {
    /// The gate stopped this frame.
    pub(super) fn of(frame: &[u8], is_refused: bool) -> Self {
        Self { is_refused, is_alone: frame.first() != Some(&b'[') }
    }

    /// Whether the gate stopped a message of that frame, of which the guards say this. Of several that were neutralized one
    /// by one, those were that the guards deny, too.
    pub(super) fn stops(self, verdict: &Verdict) -> bool {
        self.is_refused || self.is_alone || verdict.denied.is_some()
    }
}
