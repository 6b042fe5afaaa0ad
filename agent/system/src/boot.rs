//! This boot of the host: its clock, which nobody sets, and its identity.

use std::fs;

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds since boot, suspension included: the clock that the kernel half stamps records with.
pub fn boot_ns() -> u64 {
    // It is there on every kernel that this runs on.
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME);
    now.map_or(0, |now| now.tv_sec().unsigned_abs() * 1_000_000_000 + now.tv_nsec().unsigned_abs())
}

/// The kernel's id of this boot, where /proc tells it.
pub fn boot_id() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}
