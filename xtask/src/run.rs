//! `cargo xtask run`: the shortest way from a checkout to a running agent.

use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result};

use crate::build::WORKSPACE;
use crate::setup::{Needs, setup};
use crate::util::{as_root, built, cargo, command_line, run as run_command};

/// Builds the agent and becomes it.
///
/// # Errors
/// The set-up or the build failed, or the agent cannot be started.
pub fn run(args: &[String]) -> Result<ExitCode> {
    setup(Needs::Build)?;
    build_release(&["mcpwarden"])?;
    let mut agent = as_root(built("mcpwarden"))?;
    agent.arg("run").args(args);
    let line = command_line(&agent);
    // Becoming the agent, rather than waiting for it, hands it the terminal's signals directly.
    Err(agent.exec()).with_context(|| format!("cannot start `{line}`"))
}

/// Builds programs of the workspace in release mode: all of them where none is named.
///
/// # Errors
/// The build failed.
pub fn build_release(programs: &[&str]) -> Result<()> {
    let programs = programs.iter().flat_map(|program| ["--bin", program]);
    let mut command = cargo();
    command.args(["build", "--release"]).args(WORKSPACE).args(programs);
    run_command(&mut command, "mend what the compiler says above")
}
