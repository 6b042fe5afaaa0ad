//! The denials that stand.

use std::sync::Arc;

use crate::guard::StandingDenial;
use crate::terms::contract::GuardName;
use crate::terms::{ServerId, SessionId, Timestamp};

/// Most denials that stand at once.
pub const MOST_DENIALS: usize = 4_096;

/// The denials of guards that others wrote, oldest first.
#[derive(Clone, Debug, Default)]
pub struct StandingDenials {
    all: Vec<Arc<StandingDenial>>,
    /// Denials that were given up for newer ones.
    displaced: u64,
}

impl StandingDenials {
    /// Adds one, in place of one of the same guard about the same thing. Beyond [`MOST_DENIALS`] the oldest is given up: whether
    /// one was.
    pub fn add(&mut self, denial: StandingDenial) -> bool {
        self.all.retain(|known| !is_same(known, &denial));
        let is_full = self.all.len() >= MOST_DENIALS;
        if is_full {
            self.all.remove(0);
            self.displaced += 1;
        }
        self.all.push(Arc::new(denial));
        is_full
    }

    /// Forgets those that no longer stand; whether there were any.
    pub fn expire(&mut self, now: Timestamp) -> bool {
        let before = self.all.len();
        self.all.retain(|denial| denial.until.is_none_or(|until| until > now));
        self.all.len() != before
    }

    /// When the next ends.
    pub fn next(&self) -> Option<Timestamp> {
        self.all.iter().filter_map(|denial| denial.until).min()
    }

    /// Forgets those of guards that are configured no more.
    pub fn keep_of(&mut self, is_kept: impl Fn(&GuardName) -> bool) {
        self.all.retain(|denial| is_kept(&denial.guard));
    }

    /// Those about a server, by any of its names, and a session.
    pub fn of(&self, server: &ServerId, also: &[ServerId], session: &SessionId) -> Vec<Arc<StandingDenial>> {
        self.all.iter().filter(|denial| denial.is_for(server, also, session)).cloned().collect()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// How many were given up for newer ones.
    pub fn displaced(&self) -> u64 {
        self.displaced
    }
}

/// Whether two denials are of one guard and about the same thing.
fn is_same(one: &StandingDenial, other: &StandingDenial) -> bool {
    (&one.guard, &one.server, &one.session, &one.subject)
        == (&other.guard, &other.server, &other.session, &other.subject)
}
