//! Users who had more waiting for the agent than their share, as events name them.

use std::{cmp::Reverse, collections::BTreeMap};

use mcpwarden_abi::Share;
use mcpwarden_policy::event::AgentLoss;

use super::ring::Refused;

/// Of how many users it is reported each second, for the ring and for the queue behind it. What there is of more is reported
/// later.
pub const LOUD_MOST: usize = 8;

/// What it means that a share was used up.
const MEANING: &str = "a user had more records waiting for the agent than a share: what was beyond is missing, of this user's \
                       connections alone (capture.ring_bytes)";

/// What users lost in the kernel half, as far as it was reported. Records.
#[derive(Debug, Default)]
pub struct ShareWatch {
    reported: BTreeMap<u32, u64>,
}

impl ShareWatch {
    /// What was refused since the last look, by these shares, of the loudest users. `total`: of all users.
    pub fn look(&mut self, shares: &[(u32, Share)], total: u64) -> Vec<AgentLoss> {
        self.reported.retain(|uid, _| shares.iter().any(|(known, _)| known == uid));
        let grown = |(uid, share): &(u32, Share)| {
            // Of a user whom the table had forgotten it began anew.
            let reported = self.reported.get(uid).filter(|reported| **reported <= share.refused_records);
            let count = share.refused_records - reported.copied().unwrap_or(0);
            (count > 0).then_some((count, *uid, share.refused_records))
        };
        let mut all: Vec<_> = shares.iter().filter_map(grown).collect();
        all.sort_unstable_by_key(|(count, uid, _)| (Reverse(*count), *uid));
        all.truncate(LOUD_MOST);
        self.reported.extend(all.iter().map(|(_, uid, refused)| (*uid, *refused)));
        let loss = |(count, uid, _)| of_user("kernel_share_refused_records", count, total, Some(uid));
        all.into_iter().map(loss).collect()
    }
}

/// What the queue behind the ring refused of users, and of all in all.
pub fn of_queue(refused: &[(Option<u32>, Refused)], all: Refused) -> Vec<AgentLoss> {
    let counted = |(uid, refused): &(Option<u32>, Refused)| {
        [("queue_refused_bytes", refused.bytes, all.bytes), ("queue_refused_facts", refused.facts, all.facts)]
            .map(|(counter, count, total)| of_user(counter, count, total, *uid))
    };
    refused.iter().flat_map(counted).filter(|loss| loss.count > 0).collect()
}

fn of_user(counter: &str, count: u64, total: u64, uid: Option<u32>) -> AgentLoss {
    AgentLoss { counter: counter.into(), count, total, meaning: MEANING.into(), uid }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_losses_are_reported_once_by_user() {
        // Name, what was refused of users in all, what is reported.
        type Case = (&'static str, Vec<(u32, u64)>, &'static [(u32, u64)]);
        let mut watch = ShareWatch::default();
        let cases: [Case; 10] = [
            ("nobody", vec![], &[]),
            ("nothing", vec![(1, 0)], &[]),
            ("one", vec![(1, 5)], &[(1, 5)]),
            ("the same", vec![(1, 5)], &[]),
            ("more", vec![(1, 7)], &[(1, 2)]),
            ("another", vec![(1, 7), (2, 1)], &[(2, 1)]),
            ("both, the louder first", vec![(1, 8), (2, 9)], &[(2, 8), (1, 1)]),
            ("one is forgotten", vec![(2, 9)], &[]),
            ("and begins anew", vec![(1, 3), (2, 9)], &[(1, 3)]),
            ("begins anew within a look", vec![(1, 2), (2, 9)], &[(1, 2)]),
        ];
        for (name, refused, expected) in cases {
            let share = |(uid, refused_records)| (uid, Share { refused_records, ..Share::default() });
            let shares: Vec<_> = refused.into_iter().map(share).collect();
            let losses = watch.look(&shares, 99);
            let reported: Vec<_> = losses.iter().map(|loss| (loss.uid.unwrap(), loss.count)).collect();
            assert_eq!(reported, expected, "{name}");
            assert!(losses.iter().all(|loss| loss.total == 99), "{name}");
        }
    }

    /// More users than are reported at once are reported one second after the other.
    #[test]
    fn share_losses_of_many_users_are_reported_in_turn() {
        let mut watch = ShareWatch::default();
        let share = |uid: u32| (uid, Share { refused_records: u64::from(100 - uid), ..Share::default() });
        let shares: Vec<_> = (1..=20).map(share).collect();
        let counts: Vec<usize> = (0..4).map(|_| watch.look(&shares, 0).len()).collect();
        assert_eq!(counts, [LOUD_MOST, LOUD_MOST, 4, 0]);
    }

    #[test]
    fn queue_losses_name_what_was_refused() {
        let refused = |bytes, facts| Refused { bytes, facts };
        let losses = of_queue(
            &[
                (Some(1), refused(5, 0)),
                (None, refused(0, 2)),
                (Some(2), refused(3, 4)),
                (Some(3), refused(0, 0)),
            ],
            refused(80, 60),
        );
        let reported: Vec<_> =
            losses.iter().map(|loss| (loss.uid, loss.counter.as_str(), loss.count, loss.total)).collect();
        assert_eq!(
            reported,
            [
                (Some(1), "queue_refused_bytes", 5, 80),
                (None, "queue_refused_facts", 2, 60),
                (Some(2), "queue_refused_bytes", 3, 80),
                (Some(2), "queue_refused_facts", 4, 60),
            ]
        );
    }
}
