//! What is due, and when.

use std::collections::BTreeSet;

use super::ids::{ApprovalId, HeldId};
use crate::terms::{ConnectionId, Direction, Timestamp};

/// What time brings about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// A held message is reported.
    Held(HeldId),
    /// An answer without a request is given up.
    Early(ConnectionId, Direction),
    /// A server that has not answered is announced nonetheless.
    Start(ConnectionId),
    /// The end of a server is reported.
    Exit(ConnectionId),
    /// Requests that are not answered are reported.
    Late(ConnectionId),
    /// An approval is given up.
    Approval(ApprovalId),
    /// Limited approvals may be over.
    LimitedApprovals,
    /// Mutes of detections may be over, or others are in force.
    Mutes,
    /// A guard that others wrote has no answer in time, or what one denied is denied no longer.
    Guards,
}

/// What is due when. Nothing is taken back: whoever is due looks whether it still holds.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Timestamp, Due)>);

impl Timers {
    /// Has something be due at a time.
    pub(super) fn set(&mut self, at: Timestamp, due: Due) {
        self.0.insert((at, due));
    }

    /// When the next is due.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Takes the next that is due by now, and when it was.
    pub(super) fn expired(&mut self, now: Timestamp) -> Option<(Timestamp, Due)> {
        if self.next()? > now { None } else { self.0.pop_first() }
    }

    /// Takes all that is left, in order.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = (Timestamp, Due)> + use<> {
        std::mem::take(&mut self.0).into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_expire_once_in_time_order() {
        let (first, second) = (Due::Exit(ConnectionId(1)), Due::Start(ConnectionId(2)));
        for (name, set, now, expected, left) in [
            ("nothing", vec![], 9, vec![], None),
            ("not yet", vec![(5, first)], 4, vec![], Some(5)),
            ("now", vec![(5, first)], 5, vec![(5, first)], None),
            ("twice the same", vec![(5, first), (5, first)], 5, vec![(5, first)], None),
            ("in order", vec![(7, first), (6, second)], 9, vec![(6, second), (7, first)], None),
            ("some", vec![(9, first), (6, second)], 8, vec![(6, second)], Some(9)),
        ] {
            let mut timers = Timers::default();
            set.into_iter().for_each(|(at, due)| timers.set(Timestamp(at), due));
            let expired = std::iter::from_fn(|| timers.expired(Timestamp(now)));
            let expired: Vec<_> = expired.map(|(at, due)| (at.0, due)).collect();
            assert_eq!((expired, timers.next().map(|at| at.0)), (expected, left), "{name}");
        }
    }
}
