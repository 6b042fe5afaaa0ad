//! What several modules' tests share.

/// The variable that has tests of generated input run all their cases: `cargo xtask test --full` sets it.
const FULL: &str = "MCPWARDEN_TEST_FULL";

/// How many cases a test of generated input runs: `all` of them in the full tier, a quarter in every other run.
pub fn cases(all: u32) -> u32 {
    if std::env::var_os(FULL).is_some() { all } else { all / 4 }
}
