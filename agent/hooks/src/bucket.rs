//! Rate limits: token buckets. They have no clock: each call takes the time as an argument.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

const SECOND: Duration = Duration::from_secs(1);

/// A bucket that holds `burst` tokens and gains `rate` of them per second. Full at first.
#[derive(Debug)]
pub struct Bucket {
    /// How long it takes to gain one token.
    interval: Duration,
    /// The tokens in it, as the time that it takes to gain them: whole numbers, so that nothing is lost by rounding.
    credit: Duration,
    capacity: Duration,
    filled: Instant,
}

impl Bucket {
    /// Both numbers are taken as at least 1.
    pub fn new(rate: u32, burst: u32, now: Instant) -> Self {
        let interval = SECOND / rate.max(1);
        let capacity = interval.saturating_mul(burst.max(1));
        Self { interval, credit: capacity, capacity, filled: now }
    }

    /// Takes a token, if there is one.
    pub fn take(&mut self, now: Instant) -> bool {
        self.fill(now);
        match self.credit.checked_sub(self.interval) {
            Some(rest) => {
                self.credit = rest;
                true
            }
            None => false,
        }
    }

    /// Puts the token back that was taken last.
    fn put_back(&mut self) {
        self.credit = self.credit.saturating_add(self.interval).min(self.capacity);
    }

    fn is_full(&mut self, now: Instant) -> bool {
        self.fill(now);
        self.credit == self.capacity
    }

    fn fill(&mut self, now: Instant) {
        // Threads may read the clock in another order than they come here.
        if let Some(passed) = now.checked_duration_since(self.filled) {
            self.credit = self.credit.saturating_add(passed).min(self.capacity);
            self.filled = now;
        }
    }
}

/// Most users of whom a limit is remembered: one that was asked nothing for long has a full bucket, remembered or not.
const MOST_USERS: usize = 256;

/// Who asks; `None` stands for all that are not known.
type User = Option<u32>;

/// The rate of a service, of which no user has more than three quarters.
#[derive(Debug)]
pub struct RateLimit {
    all: Bucket,
    of_user: (u32, u32),
    users: BTreeMap<User, Bucket>,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The rate of all.
    All,
    /// One user's share of it.
    Share,
}

impl RateLimit {
    /// As [`Bucket::new`].
    pub fn new(rate: u32, burst: u32, now: Instant) -> Self {
        let share = |number: u32| number - number / 4;
        let (all, of_user) = (Bucket::new(rate, burst, now), (share(rate), share(burst)));
        Self { all, of_user, users: BTreeMap::new() }
    }

    /// Takes a token of a user's, if he and all have one.
    ///
    /// # Errors
    /// There is none.
    pub fn take(&mut self, user: User, now: Instant) -> Result<(), Over> {
        if self.users.len() >= MOST_USERS && !self.users.contains_key(&user) {
            self.users.retain(|_, bucket| !bucket.is_full(now));
        }
        let (rate, burst) = self.of_user;
        // Where the room is taken, the others have one bucket.
        let has_room = self.users.len() < MOST_USERS || self.users.contains_key(&user);
        let key = if has_room { user } else { None };
        let bucket = self.users.entry(key).or_insert_with(|| Bucket::new(rate, burst, now));
        if !self.all.take(now) {
            return Err(Over::All);
        }
        if bucket.take(now) {
            return Ok(());
        }
        self.all.put_back();
        Err(Over::Share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 8 tokens a second, with bursts of 8: who asks when, how many times, and how many pass.
    #[test]
    fn no_user_takes_the_rate_of_all() {
        let begin = Instant::now();
        let mut limit = RateLimit::new(8, 8, begin);
        for (milliseconds, user, count, expected, over) in [
            (0, Some(1), 20, 6, Some(Over::Share)),
            (0, Some(2), 1, 1, None),
            (0, None, 5, 1, Some(Over::All)),
            (0, Some(2), 5, 0, Some(Over::All)),
            // What all refused took nothing of a user's own.
            (1_000, Some(2), 9, 6, Some(Over::Share)),
            (1_000, Some(1), 9, 2, Some(Over::All)),
            (10_000, Some(1), 9, 6, Some(Over::Share)),
        ] {
            let now = begin + Duration::from_millis(milliseconds);
            let results: Vec<_> = (0..count).map(|_| limit.take(user, now)).collect();
            let passed = results.iter().filter(|result| result.is_ok()).count();
            let refusal = results.iter().find_map(|result| result.err());
            assert_eq!((passed, refusal), (expected, over), "{user:?} at {milliseconds} ms");
        }
    }

    #[test]
    fn users_without_room_share_one_bucket() {
        let begin = Instant::now();
        let mut limit = RateLimit::new(10_000, 10_000, begin);
        for user in 0..2_000 {
            assert_eq!(limit.take(Some(user), begin), Ok(()));
        }
        assert_eq!(limit.users.len(), MOST_USERS + 1);
        // Those who asked nothing for long are forgotten.
        assert_eq!(limit.take(Some(5_000), begin + Duration::from_secs(9)), Ok(()));
        assert_eq!(limit.users.len(), 1);
    }

    /// Rate, burst, then requests: milliseconds, how many at that time, and how many of them pass.
    #[test]
    fn bucket_passes_burst_and_rate() {
        for (rate, burst, requests) in [
            (10, 3, &[(0, 5, 3), (50, 1, 0), (100, 2, 1), (1_000, 9, 3)][..]),
            (1, 1, &[(0, 2, 1), (999, 1, 0), (1_000, 2, 1), (1_000_000, 2, 1)]),
            (1_000, 1, &[(0, 2, 1), (1, 2, 1), (2, 2, 1)]),
            // A third of a second has no whole number of nanoseconds.
            (3, 1, &[(0, 1, 1), (333, 1, 0), (334, 1, 1)]),
            // A time before the last one adds nothing, and takes nothing away.
            (10, 2, &[(500, 1, 1), (0, 2, 1), (500, 1, 0), (600, 2, 1)]),
            (0, 0, &[(0, 2, 1), (1_000, 2, 1)]),
            (u32::MAX, u32::MAX, &[(0, 5, 5)]),
        ] {
            let begin = Instant::now();
            let mut bucket = Bucket::new(rate, burst, begin);
            for &(milliseconds, count, expected) in requests {
                let now = begin + Duration::from_millis(milliseconds);
                let passed = (0..count).filter(|_| bucket.take(now)).count();
                assert_eq!(passed, expected, "{rate}/s, burst {burst}, {milliseconds} ms");
            }
        }
    }
}
