//! How long tests wait: an emulated machine does everything many times as slowly.

use std::env;
use std::sync::LazyLock;
use std::time::Duration;

/// `MCPWARDEN_TEST_PATIENCE`: how many times as long as on a machine of its own everything may take.
static FACTOR: LazyLock<u32> = LazyLock::new(|| {
    let set = env::var("MCPWARDEN_TEST_PATIENCE").ok();
    set.and_then(|factor| factor.parse().ok()).unwrap_or(1).clamp(1, 100)
});

/// How long a server may take to answer, and a program to end.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Whether this is a virtual machine of ours, where everything must work that can work anywhere.
pub fn is_emulated() -> bool {
    *FACTOR > 1
}

/// The time that something may take here that may take `limit` elsewhere.
pub fn patience(limit: Duration) -> Duration {
    limit * *FACTOR
}

/// How often something is done here that is done so many `times` elsewhere: an emulated machine shows the same with fewer.
pub fn fewer(times: usize) -> usize {
    (times / *FACTOR as usize).max(1)
}
