//! `cargo xtask bench kernel`: what watching costs on this machine.

use std::process::ExitCode;

use anyhow::Result;

use crate::run::build;
use crate::setup::setup;
use crate::util::{as_root, built, run};

/// Builds the agent and the benchmarks, and runs those named as root.
///
/// # Errors
/// The set-up, the build or a benchmark failed.
pub fn bench(what: &str, args: &[String]) -> Result<ExitCode> {
    setup(false)?;
    build("mcpwarden")?;
    build("mcpwarden-tests")?;
    run(as_root(built("bench"))?.arg(what).args(args), "read what it says above")?;
    Ok(ExitCode::SUCCESS)
}
