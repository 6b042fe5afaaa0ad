//! The two clocks of this host.

use std::{
    ops::Deref,
    time::{SystemTime, UNIX_EPOCH},
};

use mcpwarden_capture::BootTime;
use mcpwarden_kernel::boot_ns;
use mcpwarden_policy::Timestamp;

/// How far wall time is ahead of boot time, as it was read last.
#[derive(Clone, Copy, Debug)]
pub struct Clock(BootTime);

impl Clock {
    /// Reads both clocks.
    pub fn new() -> Self {
        let wall_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        Self(BootTime::new(wall_ns.cast_signed() - i128::from(boot_ns())))
    }

    /// Follows changes of the wall clock.
    pub fn refresh(&mut self) {
        *self = Self::new();
    }

    /// Wall time now.
    pub fn now(&self) -> Timestamp {
        self.wall(boot_ns())
    }
}

impl Deref for Clock {
    type Target = BootTime;

    fn deref(&self) -> &BootTime {
        &self.0
    }
}
