//! `mcpwarden guard`: guards as WebAssembly components, from a first file to a test over recorded frames.

mod build;
mod new;
mod test;

use anyhow::Result;

use crate::cli::GuardCommand;

/// Carries out one of them.
///
/// # Errors
/// It cannot be carried out; the message names what to do.
pub fn run(command: &GuardCommand) -> Result<bool> {
    match command {
        GuardCommand::New(options) => new::run(options).map(|()| true),
        GuardCommand::Build(options) => build::run(options).map(|()| true),
        GuardCommand::Test(options) => test::run(options),
    }
}
