//! `cargo xtask run`: the shortest way from a checkout to a running agent.

use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result};

use crate::build::{WORKSPACE, linted};
use crate::setup::{Needs, setup};
use crate::util::{as_root, built, cargo, command_line, quickly_built, run as run_command};

/// Builds the agent, optimised where that is wanted, and becomes it.
///
/// # Errors
/// The set-up or the build failed, or the agent cannot be started.
pub fn run(is_optimised: bool, args: &[String]) -> Result<ExitCode> {
    setup(Needs::Build)?;
    let program = if is_optimised {
        build_release(&["mcpwarden"])?;
        built("mcpwarden")
    } else {
        build_quickly(&["mcpwarden"])?;
        quickly_built("mcpwarden")
    };
    let mut agent = as_root(program)?;
    agent.arg("run").args(args);
    let line = command_line(&agent);
    // Becoming the agent, rather than waiting for it, hands it the terminal's signals directly.
    Err(agent.exec()).with_context(|| format!("cannot start `{line}`"))
}

/// Builds these programs for a first look: in the profile of the tests, which takes half as long as a release build.
///
/// # Errors
/// The build failed.
pub fn build_quickly(programs: &[&str]) -> Result<()> {
    let mut command = linted(&["build"]);
    command.args(named(programs));
    run_command(&mut command, "mend what the compiler says above")
}

/// Builds programs of the workspace in release mode: all of them where none is named.
///
/// # Errors
/// The build failed.
pub fn build_release(programs: &[&str]) -> Result<()> {
    let mut command = cargo();
    command.args(["build", "--release"]).args(WORKSPACE).args(named(programs));
    run_command(&mut command, "mend what the compiler says above")
}

fn named<'a>(programs: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    programs.iter().flat_map(|program| ["--bin", program])
}
