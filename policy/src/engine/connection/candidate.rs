//! What is kept of a connection until it is known whether it is a server's.

use super::{Connection, Stage, Waiting};
use crate::engine::config::EngineLimits;
use crate::engine::io::Connect;
use crate::engine::seen::Seen;
use crate::event::{CaptureGap, GateDecided};
use crate::terms::{Direction, Timestamp};
use crate::wire::Framing;

/// Most remarks on frames remembered of a candidate.
const MAX_WAITING_REMARKS: usize = 16;
/// Most gaps remembered of a candidate.
const MAX_WAITING_GAPS: usize = 16;
/// Most connects remembered of a candidate: one that is being installed fetches its parts first.
const MAX_WAITING_CONNECTS: usize = 64;

impl Connection {
    fn waiting(&self) -> impl Iterator<Item = &Waiting> {
        let waiting = match &self.stage {
            Stage::Candidate { waiting, .. } => Some(waiting),
            _ => None,
        };
        waiting.into_iter().flatten()
    }

    /// The frames that a candidate was sent, or has sent, which say nothing of what it is.
    fn frames(&self, way: Direction) -> impl Iterator<Item = &[u8]> {
        self.waiting().filter_map(move |item| match item {
            Waiting::Frame { direction, bytes, .. } if *direction == way => Some(bytes.as_slice()),
            _ => None,
        })
    }

    /// What a candidate has answered.
    pub(in crate::engine) fn answers(&self) -> impl Iterator<Item = &[u8]> {
        self.frames(Direction::ServerToClient)
    }

    /// Whether a candidate has answered something already.
    pub(in crate::engine) fn has_answered(&self) -> bool {
        self.answers().next().is_some()
    }

    /// How many frames a candidate was sent that say nothing of what it is.
    pub(in crate::engine) fn asked_frames(&self) -> usize {
        self.frames(Direction::ClientToServer).count()
    }

    /// The first that a candidate was asked.
    pub(in crate::engine) fn first_words(&self) -> Option<&[u8]> {
        self.frames(Direction::ClientToServer).next()
    }

    /// Whether something that a candidate was asked is lost.
    pub(in crate::engine) fn has_lost_requests(&self) -> bool {
        let is_lost = |gap: &CaptureGap| gap.direction == Direction::ClientToServer;
        self.waiting().any(|item| matches!(item, Waiting::Gap { gap, .. } if is_lost(gap)))
    }

    /// Keeps a frame until it is known what this is. Whether there was room.
    pub(in crate::engine) fn keep_frame(
        &mut self,
        seen: Seen<'_>,
        frame: &[u8],
        limits: &EngineLimits,
    ) -> bool {
        let Seen { direction, time, stop, turn, .. } = seen;
        self.keep(frame.len(), limits, || {
            let (bytes, turn) = (frame.to_vec(), turn.map(Into::into));
            Waiting::Frame { direction, time, bytes, stop, turn }
        })
    }

    /// Keeps what the gate did until it is known what this is. Whether there was room.
    pub(in crate::engine) fn keep_decided(
        &mut self,
        time: Timestamp,
        decided: GateDecided,
        limits: &EngineLimits,
    ) -> bool {
        let length = size_of::<GateDecided>() + decided.code.len() + decided.reason.len();
        self.keep(length, limits, || Waiting::Decided { time, decided: Box::new(decided) })
    }

    fn keep(&mut self, length: usize, limits: &EngineLimits, item: impl FnOnce() -> Waiting) -> bool {
        let Stage::Candidate { waiting, frames, bytes, .. } = &mut self.stage else { return false };
        if *frames >= limits.candidate_frames || *bytes + length > limits.candidate_bytes {
            return false;
        }
        *frames += 1;
        *bytes += length;
        waiting.push_back(item());
        true
    }

    /// Keeps a connect until it is known what this is, where there is room.
    pub(in crate::engine) fn keep_connect(&mut self, connect: Connect, limits: &EngineLimits) {
        let Stage::Candidate { waiting, bytes, .. } = &mut self.stage else { return };
        let kept = waiting.iter().filter(|item| matches!(item, Waiting::Connect(_))).count();
        if kept >= MAX_WAITING_CONNECTS || *bytes + connect.bytes() > limits.candidate_bytes {
            self.connects_not_kept += 1;
            return;
        }
        *bytes += connect.bytes();
        waiting.push_back(Waiting::Connect(Box::new(connect)));
    }

    /// Keeps a gap until it is known what this is; beyond a bound they are added to the last.
    pub(in crate::engine) fn keep_gap(&mut self, time: Timestamp, gap: CaptureGap) {
        let Stage::Candidate { waiting, gaps, .. } = &mut self.stage else { return };
        *gaps += 1;
        if *gaps <= MAX_WAITING_GAPS {
            waiting.push_back(Waiting::Gap { time, gap });
        } else if let Some(Waiting::Gap { gap: last, .. }) =
            waiting.iter_mut().rev().find(|item| matches!(item, Waiting::Gap { .. }))
        {
            last.bytes = last.bytes.saturating_add(gap.bytes);
        }
    }

    /// Keeps why the frame before is ambiguous, where there is room: each is reported once of a connection.
    pub(in crate::engine) fn keep_ambiguous(
        &mut self,
        direction: Direction,
        time: Timestamp,
        framing: Framing,
    ) {
        let Stage::Candidate { waiting, .. } = &mut self.stage else { return };
        let kept = waiting.iter().filter(|item| matches!(item, Waiting::Ambiguous { .. })).count();
        if kept < MAX_WAITING_REMARKS {
            waiting.push_back(Waiting::Ambiguous { direction, time, framing });
        }
    }
}
