//! How soon the gate's tables follow connections that come and go: the first at once, the next ones together.

use std::time::Duration;

use mcpwarden_policy::Timestamp;

/// How long after the tables followed others they follow again. Clients can make a connection for each call, and each look takes all
/// connections in. What is not followed yet is judged by where it leads.
const BETWEEN: Duration = Duration::from_millis(100);

/// When connections that came and went are to be followed.
#[derive(Default)]
pub struct Pace {
    /// How many came and went by the time that they were followed last.
    followed: u64,
    last: Timestamp,
    due: Option<Timestamp>,
}

impl Pace {
    /// Whether they are to be followed now. `changes`: how many came and went so far.
    pub fn is_due(&mut self, changes: u64, now: Timestamp) -> bool {
        if changes == self.followed {
            return false;
        }
        let due = *self.due.get_or_insert(now.max(self.last.after(BETWEEN)));
        if now < due {
            return false;
        }
        (self.followed, self.last, self.due) = (changes, now, None);
        true
    }

    /// When they are to be followed, if some came or went.
    pub fn until(&self) -> Option<Timestamp> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_changes_are_followed_together() {
        let mut pace = Pace::default();
        let at = |millis: u64| Timestamp(1_000_000_000_000 + millis * 1_000_000);
        for (millis, changes, is_due, until) in [
            (0, 0, false, None),
            (1, 1, true, None),
            (2, 1, false, None),
            (3, 2, false, Some(101)),
            (50, 9, false, Some(101)),
            (101, 9, true, None),
            (150, 9, false, None),
            (500, 10, true, None),
        ] {
            assert_eq!(pace.is_due(changes, at(millis)), is_due, "at {millis}");
            assert_eq!(pace.until(), until.map(at), "at {millis}");
        }
    }
}
