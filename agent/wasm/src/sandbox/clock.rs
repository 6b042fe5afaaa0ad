//! The time of the call, which stands still unless the guest sleeps.

use crate::error::HostError;

/// Timers that one guest may hold at once.
const TIMERS: usize = 1024;

/// The clocks of one instance. Both advance only when the guest waits for a timer, by the time that it waits for, so that a
/// guest that sleeps goes on at once and sees the time that it expects.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    /// Nanoseconds since 1970 at the begin of the call.
    wall_ns: u64,
    /// Nanoseconds since the begin of the call.
    elapsed_ns: u64,
    /// When each timer is due, in nanoseconds since the begin of the call; free ones are none.
    timers: Vec<Option<u64>>,
}

impl Clock {
    /// Sets both clocks for a call. Timers of an earlier call are due at once.
    pub(crate) fn set(&mut self, wall_ns: u64) {
        self.wall_ns = wall_ns;
        self.elapsed_ns = 0;
        for timer in self.timers.iter_mut().flatten() {
            *timer = 0;
        }
    }

    /// The wall clock, in nanoseconds since 1970.
    pub(crate) fn wall_ns(&self) -> u64 {
        self.wall_ns.saturating_add(self.elapsed_ns)
    }

    /// The monotonic clock, in nanoseconds since the begin of the call.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        self.elapsed_ns
    }

    /// Makes a timer, and returns its number, which is never 0.
    ///
    /// # Errors
    /// The guest holds too many.
    pub(crate) fn timer(&mut self, due_ns: u64) -> Result<u32, HostError> {
        let index = self.timers.iter().position(Option::is_none).unwrap_or(self.timers.len());
        if index >= TIMERS {
            return Err(HostError::Limit("more than 1024 timers at once"));
        }
        match self.timers.get_mut(index) {
            Some(timer) => *timer = Some(due_ns),
            None => self.timers.push(Some(due_ns)),
        }
        Ok(index as u32 + 1)
    }

    fn due_ns(&self, timer: u32) -> u64 {
        let index = (timer as usize).wrapping_sub(1);
        self.timers.get(index).copied().flatten().unwrap_or(0)
    }

    /// Whether the timer is due. 0 always is.
    pub(crate) fn is_due(&self, timer: u32) -> bool {
        self.due_ns(timer) <= self.elapsed_ns
    }

    /// Waits for the first of some timers.
    pub(crate) fn wait(&mut self, timers: impl Iterator<Item = u32>) {
        if let Some(first) = timers.map(|timer| self.due_ns(timer)).min() {
            self.elapsed_ns = self.elapsed_ns.max(first);
        }
    }

    /// Frees a timer.
    pub(crate) fn drop_timer(&mut self, timer: u32) {
        if let Some(timer) = self.timers.get_mut((timer as usize).wrapping_sub(1)) {
            *timer = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_advance_by_what_the_guest_waits_for() {
        let mut clock = Clock::default();
        clock.set(5_000_000_001);
        let (late, soon) = (clock.timer(900).unwrap(), clock.timer(200).unwrap());
        assert!(!clock.is_due(late) && !clock.is_due(soon) && clock.is_due(0));
        clock.wait([late, soon].into_iter());
        assert_eq!((clock.elapsed_ns(), clock.wall_ns()), (200, 5_000_000_201));
        assert!(clock.is_due(soon) && !clock.is_due(late));
        clock.wait([soon].into_iter());
        assert_eq!(clock.elapsed_ns, 200, "a clock never goes back");
        clock.set(7);
        assert!(clock.is_due(late), "timers of an earlier call are due");
    }

    #[test]
    fn timers_are_bounded_and_reused() {
        let mut clock = Clock::default();
        let timers: Vec<_> = (0..TIMERS as u64).map(|due_ns| clock.timer(due_ns).unwrap()).collect();
        assert!(matches!(clock.timer(1), Err(HostError::Limit(_))));
        clock.drop_timer(timers[7]);
        assert_eq!(clock.timer(1).unwrap(), timers[7]);
    }
}
