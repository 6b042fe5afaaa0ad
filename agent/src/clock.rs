//! From the kernel's clock to wall time.

use mcpwarden_policy::Timestamp;
use nix::time::{ClockId, clock_gettime};

/// Turns `CLOCK_BOOTTIME` nanoseconds, which the kernel half stamps records with, into wall time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// What to add to boot time. Nanoseconds.
    offset: i128,
}

impl Clock {
    /// Reads both clocks.
    pub fn new() -> Self {
        let mut clock = Self { offset: 0 };
        clock.refresh();
        clock
    }

    /// Follows changes of the wall clock.
    pub fn refresh(&mut self) {
        self.offset = read(ClockId::CLOCK_REALTIME) - read(ClockId::CLOCK_BOOTTIME);
    }

    /// Wall time of a moment since boot.
    pub fn wall(&self, boot_ns: u64) -> Timestamp {
        Timestamp(u64::try_from(i128::from(boot_ns) + self.offset).unwrap_or(0))
    }

    /// The moment since boot that is this wall time; the largest value where it is that.
    pub fn boot(&self, wall: Timestamp) -> u64 {
        match wall {
            Timestamp(u64::MAX) => u64::MAX,
            Timestamp(wall) => u64::try_from(i128::from(wall) - self.offset).unwrap_or(0),
        }
    }

    /// Wall time now.
    pub fn now(&self) -> Timestamp {
        self.wall(boot_ns())
    }
}

/// Nanoseconds since boot, suspension included.
pub fn boot_ns() -> u64 {
    u64::try_from(read(ClockId::CLOCK_BOOTTIME)).unwrap_or(0)
}

fn read(clock: ClockId) -> i128 {
    // Both clocks exist on every kernel that this runs on.
    clock_gettime(clock)
        .map_or(0, |time| i128::from(time.tv_sec()) * 1_000_000_000 + i128::from(time.tv_nsec()))
}
