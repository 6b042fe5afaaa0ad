//! Users that lost events for having the most: what is reported of it, now and then.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::shares::Share;

/// How often the same user is reported to lose events.
const REPORTED_EVERY: Duration = Duration::from_secs(3_600);
/// Most users that are remembered at once.
const MAX_OWNERS: usize = 1_024;

/// What each user lost since it was reported last.
#[derive(Debug, Default)]
pub struct Trims(BTreeMap<Option<u32>, Trim>);

#[derive(Debug, Default)]
struct Trim {
    lost: Share,
    reported: Option<Instant>,
}

impl Trims {
    /// Counts what a user lost.
    pub fn add(&mut self, owner: Option<u32>, lost: Share) {
        if self.0.len() >= MAX_OWNERS && !self.0.contains_key(&owner) {
            // Somebody else is reported too often rather than this one never.
            self.0.pop_first();
        }
        let known = &mut self.0.entry(owner).or_default().lost;
        known.events += lost.events;
        known.bytes = known.bytes.saturating_add(lost.bytes);
    }

    /// What is to be reported now.
    pub fn due(&mut self, now: Instant) -> Vec<(Option<u32>, Share)> {
        let mut due = Vec::new();
        for (owner, trim) in &mut self.0 {
            let is_due = trim.reported.is_none_or(|at| now.duration_since(at) >= REPORTED_EVERY);
            if is_due && trim.lost.events > 0 {
                trim.reported = Some(now);
                due.push((*owner, std::mem::take(&mut trim.lost)));
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds, the user that loses an event, and who is reported then with how many.
    #[test]
    fn losses_of_a_user_are_reported_once_an_hour() {
        let start = Instant::now();
        let mut trims = Trims::default();
        for (second, owner, expected) in [
            (0, Some(7), vec![(Some(7), 1)]),
            (1, Some(7), vec![]),
            (2, None, vec![(None, 1)]),
            (3_599, Some(7), vec![]),
            (3_600, Some(7), vec![(Some(7), 3)]),
            (3_601, Some(8), vec![(Some(8), 1)]),
            (3_602, None, vec![(None, 1)]),
            (9_000, Some(8), vec![(Some(8), 1)]),
            (9_001, Some(9), vec![(Some(9), 1)]),
        ] {
            trims.add(owner, Share { events: 1, bytes: 10 });
            let due = trims.due(start + Duration::from_secs(second));
            let found: Vec<_> = due.into_iter().map(|(owner, lost)| (owner, lost.events)).collect();
            assert_eq!(found, expected, "{second}");
        }
    }

    #[test]
    fn remembered_users_are_bounded() {
        let mut trims = Trims::default();
        for uid in 0..3_000 {
            trims.add(Some(uid), Share { events: 1, bytes: 1 });
            assert!(trims.0.len() <= MAX_OWNERS, "{uid}");
        }
        assert!(trims.0.contains_key(&Some(2_999)));
    }
}
