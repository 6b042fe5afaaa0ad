//! What every subcommand needs: where things are, how commands are started, how progress is said.

use std::env;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// A silent step says this often that it still runs.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// The root of the checkout.
pub fn root() -> PathBuf {
    // cargo sets the variable for `cargo run`; the compiled-in value serves a binary that is called directly.
    let manifest_dir = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest_dir.parent().map_or_else(|| manifest_dir.clone(), Path::to_path_buf)
}

/// Where cargo puts what it builds; `CARGO_TARGET_DIR` moves it.
pub fn target_dir() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// A program that a release build has made.
pub fn built(name: &str) -> PathBuf {
    target_dir().join("release").join(name)
}

/// A program that a build for tests, or for a first look, has made.
pub fn quickly_built(name: &str) -> PathBuf {
    target_dir().join("debug").join(name)
}

/// Whether this process may do everything that root may.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// `program`, to be run as root: itself, or through sudo.
///
/// # Errors
/// Neither root nor sudo is there.
pub fn as_root(program: impl AsRef<OsStr>) -> Result<Command> {
    if is_root() {
        return Ok(Command::new(program));
    }
    if !exists("sudo") {
        bail!("`{}` has to run as root and there is no sudo; run this as root", program.as_ref().display());
    }
    let mut command = Command::new("sudo");
    command.arg("-E").arg(program);
    Ok(command)
}

/// A cargo command that starts in the root of the checkout, on the compiler that the checkout pins.
pub fn cargo() -> Command {
    // Not $CARGO: that is the cargo of one toolchain, which ignores `+nightly` in what it starts.
    let mut command = Command::new("cargo");
    command.current_dir(root());
    command
}

/// Whether `program` is on the path.
pub fn exists(program: &str) -> bool {
    env::var_os("PATH")
        .is_some_and(|path| env::split_paths(&path).any(|directory| directory.join(program).is_file()))
}

/// What `command` prints, trimmed; nothing where it cannot be started or fails.
pub fn output_of(command: &mut Command) -> Option<String> {
    let output = command.stderr(Stdio::null()).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs `command` to its end with its output on the terminal.
///
/// # Errors
/// It cannot be started or fails: the error shows the command line, to be tried by hand, and `advice`.
pub fn run(command: &mut Command, advice: &str) -> Result<()> {
    let line = command_line(command);
    let status = command.status().with_context(|| format!("cannot start `{line}`; {advice}"))?;
    if !status.success() {
        bail!("`{line}` failed ({status}); {advice}");
    }
    Ok(())
}

/// The same for a command that says little while it works: now and then it is said that it still runs.
///
/// # Errors
/// As [`run`].
pub fn run_silent(command: &mut Command, advice: &str) -> Result<()> {
    let (finished, finish) = mpsc::channel::<()>();
    let started = Instant::now();
    let heartbeat = thread::spawn(move || {
        while finish.recv_timeout(HEARTBEAT) == Err(mpsc::RecvTimeoutError::Timeout) {
            println!("    … still at it ({} s)", started.elapsed().as_secs());
        }
    });
    let outcome = run(command, advice);
    drop(finished);
    // The thread only prints; that it ended badly would change nothing.
    let _ = heartbeat.join();
    outcome
}

/// The command as one would type it.
pub fn command_line(command: &Command) -> String {
    let mut line = String::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            let _ = write!(line, "{}={} ", name.display(), quoted(value));
        }
    }
    line.push_str(&quoted(command.get_program()));
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&quoted(argument));
    }
    line
}

/// `text`, in quotes where a shell would take it apart.
fn quoted(text: &OsStr) -> String {
    let text = text.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./:,@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// A line without its colours.
pub fn plain(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    // Behind an escape, what follows up to the `m` is the colour.
    plain.extend(parts.map(|part| part.split_once('m').map_or("", |(_, text)| text)));
    plain
}

/// Says that a step has nothing to do.
pub fn done(what: &str) {
    println!("✓ {what}: already there");
}

/// Says what a step is about to do and why.
pub fn doing(what: &str) {
    println!("→ {what}");
}
