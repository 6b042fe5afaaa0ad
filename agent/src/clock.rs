//! From the kernel's clock to wall time.

use std::time::{SystemTime, UNIX_EPOCH};

use mcpwarden_kernel::boot_ns;
use mcpwarden_policy::Timestamp;

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
        self.offset = wall_ns() - i128::from(boot_ns());
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

fn wall_ns() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos().cast_signed()
}
