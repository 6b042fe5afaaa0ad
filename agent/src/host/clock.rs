//! The two clocks of this host. Somebody sets the wall clock; nobody sets the clock since boot.
//!
//! Every decision (rates, timeouts, expiry) follows one steady timeline: boot time, plus the distance to wall time at the start of
//! the agent. Only what is printed, stored and answered is moved to the wall time of now ([`Clock::printed`]).

use std::{
    ops::Deref,
    time::{SystemTime, UNIX_EPOCH},
};

use mcpwarden_capture::BootTime;
use mcpwarden_policy::{
    Timestamp,
    event::{ClockStep, Event},
};
use mcpwarden_system::boot::boot_ns;

/// The smallest change of the distance between the clocks that is reported. Nanoseconds. Slewing moves both clocks alike.
const STEP_NS: i64 = 2_000_000_000;
const MS: i64 = 1_000_000;

/// The steady timeline, and how far wall time is from it.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    steady: BootTime,
    /// Wall time ahead of boot time at the start of the agent. Nanoseconds.
    start_ns: i128,
    /// How far wall time moved from the steady timeline since. Nanoseconds.
    moved_ns: i64,
    /// How much of that was reported.
    reported_ns: i64,
}

impl Clock {
    /// Reads both clocks.
    pub fn new() -> Self {
        Self::starting_at(distance())
    }

    /// Reads both clocks. The steady timeline begins behind `newest`, what an agent before wrote down of its own, even if the wall clock
    /// was set back since: what was first stays first.
    pub fn behind(newest: Option<Timestamp>) -> Self {
        Self::beginning(distance(), boot_ns(), newest)
    }

    fn beginning(distance_ns: i128, boot_ns: u64, newest: Option<Timestamp>) -> Self {
        let behind = newest.map(|newest| i128::from(newest.0) + 1 - i128::from(boot_ns));
        let mut clock = Self::starting_at(behind.map_or(distance_ns, |behind| behind.max(distance_ns)));
        clock.follow(distance_ns);
        clock
    }

    fn starting_at(start_ns: i128) -> Self {
        Self { steady: BootTime::new(start_ns), start_ns, moved_ns: 0, reported_ns: 0 }
    }

    /// Follows the wall clock. Where somebody has set it, that is to be reported.
    pub fn refresh(&mut self) -> Option<ClockStep> {
        self.follow(distance())
    }

    fn follow(&mut self, distance_ns: i128) -> Option<ClockStep> {
        let moved = distance_ns.saturating_sub(self.start_ns);
        self.moved_ns = i64::try_from(moved).unwrap_or(if moved < 0 { i64::MIN } else { i64::MAX });
        let step = self.moved_ns.saturating_sub(self.reported_ns);
        if step.unsigned_abs() < STEP_NS.unsigned_abs() {
            return None;
        }
        self.reported_ns = self.moved_ns;
        Some(ClockStep { step_ms: step / MS, total_ms: self.moved_ns / MS })
    }

    /// Now, on the steady timeline.
    pub fn now(&self) -> Timestamp {
        self.wall(boot_ns())
    }

    /// A moment of the steady timeline, as the wall clock shows it.
    pub fn printed(&self, at: Timestamp) -> Timestamp {
        at.moved(self.moved_ns)
    }

    /// Moves all times in an event to wall time.
    pub fn print(&self, event: &mut Event) {
        if self.moved_ns != 0 {
            event.move_times(self.moved_ns);
        }
    }

    /// How far wall time moved since the start of the agent. Nanoseconds.
    pub fn moved_ns(&self) -> i64 {
        self.moved_ns
    }
}

impl Deref for Clock {
    type Target = BootTime;

    fn deref(&self) -> &BootTime {
        &self.steady
    }
}

/// How far wall time is ahead of boot time. Nanoseconds. The closest of some readings counts: one that was interrupted between
/// its clocks looks like a step.
fn distance() -> i128 {
    let read = || {
        let before = boot_ns();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let after = boot_ns();
        (after.saturating_sub(before), wall.cast_signed() - i128::from(before))
    };
    [read(), read(), read()].into_iter().min_by_key(|(took, _)| *took).map_or(0, |(_, distance)| distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;
    const DAY: i64 = 86_400 * S;

    /// What the wall clock was moved by since the start, each second; and the steps that are reported, in milliseconds.
    #[test]
    fn steps_of_the_wall_clock_are_reported_once() {
        for (name, moved, expected) in [
            ("still", &[0, 0, 0][..], vec![]),
            ("slewed", &[1_000, 2_000, 3_000], vec![]),
            ("a small step", &[S, S, S], vec![]),
            ("the threshold", &[2 * S, 2 * S], vec![(1, 2_000)]),
            ("below the threshold back", &[1 - 2 * S], vec![]),
            ("40 days ahead", &[40 * DAY, 40 * DAY], vec![(1, 40 * 86_400_000)]),
            ("a day back", &[0, -DAY, -DAY], vec![(2, -86_400_000)]),
            ("ahead, and back again", &[DAY, 0], vec![(1, 86_400_000), (2, -86_400_000)]),
            ("two steps", &[DAY, 3 * DAY], vec![(1, 86_400_000), (2, 172_800_000)]),
            ("small steps add up", &[S, 2 * S, 3 * S, 4 * S], vec![(2, 2_000), (4, 2_000)]),
            ("to 1970", &[-(50 * 365 * DAY)], vec![(1, -50 * 365 * 86_400_000)]),
            ("the far future", &[i64::MAX], vec![(1, i64::MAX / MS)]),
        ] {
            let start = 1_767_695_400 * i128::from(S);
            let mut clock = Clock::starting_at(start);
            let mut found = Vec::new();
            for (second, moved) in (1..).zip(moved) {
                let step = clock.follow(start + i128::from(*moved));
                found.extend(step.map(|step| (second, step.step_ms)));
                assert_eq!(clock.moved_ns(), *moved, "{name}");
            }
            assert_eq!(found, expected, "{name}");
        }
    }

    /// The steady timeline does not move with the wall clock; what is printed does.
    #[test]
    fn only_printed_times_follow_the_wall_clock() {
        let start = 1_000 * i128::from(S);
        for moved in [0, 5, -5, DAY, 40 * DAY, -900 * S, i64::MAX] {
            let mut clock = Clock::starting_at(start);
            clock.follow(start + i128::from(moved));
            let at = clock.wall(7);
            assert_eq!(at, Timestamp(1_000_000_000_007), "{moved}");
            assert_eq!(clock.boot(at), 7, "{moved}");
            assert_eq!(clock.printed(at), at.moved(moved), "{moved}");
            assert_eq!(clock.printed(Timestamp(u64::MAX)), Timestamp(u64::MAX), "{moved}: for ever");
        }
    }

    /// The wall clock at the start, and the last time that an agent before wrote down, in seconds: which of them the steady timeline
    /// begins at. What is printed is wall time, and nothing of it is a step.
    #[test]
    fn steady_timeline_never_goes_back() {
        for (wall, newest, expected) in [
            (1_000, None, 1_000),
            (1_000, Some(0), 1_000),
            (1_000, Some(999), 1_000),
            (1_000, Some(1_001), 1_001),
            (1_000, Some(5_000_000), 5_000_000),
            (50, Some(1_000), 1_000),
            (50, None, 50),
            (0, Some(1), 1),
            (1_767_695_400, Some(1_767_609_000), 1_767_695_400),
            (1_767_695_400, Some(1_771_151_400), 1_771_151_400),
        ] {
            const BOOT: u64 = 20_000_000_000;
            let newest = newest.map(|newest: u64| Timestamp(newest * S.unsigned_abs()));
            let distance = i128::from(wall) * i128::from(S) - i128::from(BOOT);
            let mut clock = Clock::beginning(distance, BOOT, newest);
            let now = clock.wall(BOOT);
            assert_eq!(now.0 / S.unsigned_abs(), expected, "{wall} {newest:?}");
            assert!(newest.is_none_or(|newest| now > newest), "{wall} {newest:?}");
            assert_eq!(
                clock.printed(now).0,
                u64::try_from(wall).unwrap() * S.unsigned_abs(),
                "{wall} {newest:?}"
            );
            assert_eq!(clock.follow(distance), None, "{wall} {newest:?}");
        }
    }

    #[test]
    fn readings_of_both_clocks_agree() {
        let mut clock = Clock::new();
        assert_eq!(clock.refresh(), None);
        assert!(clock.moved_ns().unsigned_abs() < STEP_NS.unsigned_abs());
    }
}
