//! A rate limit: a token bucket. It has no clock: each call takes the time as an argument.

use std::time::{Duration, Instant};

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
        // Threads may read the clock in another order than they come here.
        if let Some(passed) = now.checked_duration_since(self.filled) {
            self.credit = self.credit.saturating_add(passed).min(self.capacity);
            self.filled = now;
        }
        match self.credit.checked_sub(self.interval) {
            Some(rest) => {
                self.credit = rest;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
