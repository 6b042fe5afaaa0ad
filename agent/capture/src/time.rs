//! From the kernel's clock to the timeline of the agent.

use mcpwarden_policy::Timestamp;

/// Turns `CLOCK_BOOTTIME` nanoseconds, which the kernel half stamps records with, into wall time: that of a wall clock that
/// nobody set since the agent began.
#[derive(Clone, Copy, Debug, Default)]
pub struct BootTime {
    /// What to add to boot time. Nanoseconds.
    offset: i128,
}

impl BootTime {
    /// Wall time is so many nanoseconds ahead of boot time.
    pub fn new(offset: i128) -> Self {
        Self { offset }
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
}
