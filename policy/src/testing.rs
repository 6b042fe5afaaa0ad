//! What several modules' tests share.

/// The variable that has tests of generated input run all their cases: `cargo xtask test --full` sets it. A number above 1: so many
/// times as many.
const FULL: &str = "MCPWARDEN_TEST_FULL";

/// How many cases a test of generated input runs: `all` of them in the full tier, a quarter in every other run.
pub fn cases(all: u32) -> u32 {
    let Some(full) = std::env::var_os(FULL) else { return all / 4 };
    let times = full.to_str().and_then(|times| times.parse().ok()).unwrap_or(1);
    all.saturating_mul(times).max(all)
}
