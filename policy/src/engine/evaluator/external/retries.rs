//! Lists that a guard others wrote has not judged, which are asked about once more: no client may ever list them again.

use std::collections::VecDeque;
use std::time::Duration;

use super::questions::Open;
use crate::terms::Timestamp;

/// After how long a list is asked about again.
const AFTER: Duration = Duration::from_secs(30);
/// Most lists that wait, and bytes of their requests.
const MOST: usize = 256;
const MOST_BYTES: usize = 32 << 20;
/// Those of one user.
const MOST_OF_USER: usize = 64;
const MOST_BYTES_OF_USER: usize = 8 << 20;

/// The lists that wait, in the order in which it is their time.
#[derive(Debug, Default)]
pub(in crate::engine) struct Retries(VecDeque<(Timestamp, Open)>);

impl Retries {
    /// Has a list wait. When it is its time; `None`: there is no room.
    pub(super) fn add(&mut self, open: Open, now: Timestamp) -> Option<Timestamp> {
        let bytes = |open: &Open| open.question.request.operation.bytes();
        let of_user = self.0.iter().filter(|(_, waits)| waits.scope.owner == open.scope.owner);
        let of_user = of_user.fold((1, bytes(&open)), |sum, (_, waits)| (sum.0 + 1, sum.1 + bytes(waits)));
        let all = self.0.iter().fold((1, bytes(&open)), |sum, (_, waits)| (sum.0 + 1, sum.1 + bytes(waits)));
        if of_user.0 > MOST_OF_USER || of_user.1 > MOST_BYTES_OF_USER || all.0 > MOST || all.1 > MOST_BYTES {
            return None;
        }
        let due = now.after(AFTER);
        self.0.push_back((due, open));
        Some(due)
    }

    /// One of which it is time.
    pub(super) fn take(&mut self, now: Timestamp) -> Option<Open> {
        self.0.pop_front_if(|(due, _)| *due <= now).map(|(_, open)| open)
    }

    /// When it is the time of one next.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.0.front().map(|(due, _)| *due)
    }
}
