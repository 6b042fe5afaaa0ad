//! The agent's commands, run to their end, and `run` with directories of a test's own.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use crate::places;

/// What a command printed, and its exit code.
#[derive(Debug)]
pub struct CommandOutput {
    /// `None` where a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl CommandOutput {
    /// Checks the exit code, and that standard output holds `part`.
    ///
    /// # Errors
    /// It was another, or does not.
    pub fn expect(&self, what: &str, code: i32, part: &str) -> Result<()> {
        let Self { code: status, stdout, stderr } = self;
        ensure!(
            *status == Some(code) && stdout.contains(part),
            "{what}: expected {code} and {part:?}, found {status:?} and\n{stdout}{stderr}"
        );
        Ok(())
    }
}

/// The agent with these arguments and without an input.
pub fn mcpwarden(args: &[&str]) -> Command {
    let mut command = Command::new(places::agent());
    command.args(args).stdin(Stdio::null()).env_remove("RUST_BACKTRACE");
    command
}

/// Runs a command to its end; it must end by itself.
///
/// # Errors
/// It cannot be started.
pub fn ends(command: &mut Command) -> Result<CommandOutput> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(CommandOutput {
        code: output.status.code(),
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
    })
}

/// What the agent says to these arguments.
///
/// # Errors
/// It cannot be started.
pub fn ask(args: &[&str]) -> Result<CommandOutput> {
    ends(&mut mcpwarden(args))
}

/// A directory as `/tmp` is one, with the agent's own directories to be made in it.
///
/// # Errors
/// It cannot be made.
pub fn directory() -> Result<TempDir> {
    let directory = tempfile::tempdir()?;
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o1777))?;
    Ok(directory)
}

/// A configuration file with this text, in a directory of its own, and its path.
///
/// # Errors
/// It cannot be written.
pub fn configured(text: &str) -> Result<(TempDir, String)> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("config.yaml");
    fs::write(&path, text).context("cannot write the configuration")?;
    Ok((directory, path.display().to_string()))
}

/// Writes a file as editors do: another one in its place.
///
/// # Errors
/// It cannot be written.
pub fn replace(directory: &Path, name: &str, text: &str) -> Result<()> {
    let new = directory.join("new");
    fs::write(&new, text)
        .and_then(|()| fs::rename(new, directory.join(name)))
        .context("cannot replace a file")
}

/// `mcpwarden run` with its directories in `directory`.
pub fn run(directory: &Path, args: &[&str]) -> Command {
    let mut command = mcpwarden(&["run", "--runtime-dir"]);
    command.arg(directory.join("run")).arg("--state-dir").arg(directory.join("state")).args(args);
    command
}

/// Starts an agent and waits for its first event.
///
/// # Errors
/// It cannot be started, or ends without one.
pub fn attached(mut command: Command) -> Result<(Child, ChildStdout)> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut stdout = child.stdout.take().context("no stdout")?;
    let mut first = [0];
    stdout.read_exact(&mut first).context("the agent said nothing")?;
    Ok((child, stdout))
}
