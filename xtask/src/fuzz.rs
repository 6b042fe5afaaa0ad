//! `cargo xtask fuzz`: any input, through everything that reads input, until something breaks.

use std::process::{Command, ExitCode};

use anyhow::{Result, bail};

use crate::setup::toolchain;
use crate::util::{command_line, exists, root, run, target_dir};

/// All of them, by what they read.
const TARGETS: [&str; 11] = [
    "wire",
    "http",
    "http2",
    "intent",
    "protocol",
    "gate",
    "config",
    "replay",
    "normaliser",
    "detector",
    "tls",
];
/// An input that takes longer is a finding. Seconds.
const TIMEOUT_SECONDS: u32 = 20;

/// For each target, as part of the tests.
const BRIEF_SECONDS: u32 = 10;

/// What to fuzz, and for how long.
#[derive(clap::Args)]
pub struct Args {
    /// Seconds for each target
    #[arg(long, value_name = "N", default_value_t = BRIEF_SECONDS)]
    seconds: u32,
    /// Only this one
    #[arg(value_parser = TARGETS)]
    target: Option<String>,
}

/// Builds the targets and runs them, from `fuzz/seeds` and what earlier runs found worth keeping in `fuzz/corpus`.
///
/// # Errors
/// Something is missing, does not build, or was found: the input lies in `fuzz/artifacts` then.
pub fn fuzz(args: &Args) -> Result<ExitCode> {
    if !exists("cargo-fuzz") || toolchain::installed().is_none() {
        bail!("fuzzing needs cargo-fuzz and a nightly Rust; `cargo xtask setup --tests` installs them");
    }
    for (mut command, advice) in commands(args.target.as_deref(), args.seconds)? {
        println!("→ {}", command_line(&command));
        run(&mut command, advice)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// All of them, for about as long as it takes to build them: what breaks one is to be noticed where it is made.
///
/// # Errors
/// As [`fuzz`].
pub fn brief() -> Result<()> {
    fuzz(&Args { seconds: BRIEF_SECONDS, target: None }).map(drop)
}

/// The build, then each run.
///
/// # Errors
/// A directory cannot be made.
fn commands(only: Option<&str>, seconds: u32) -> Result<Vec<(Command, &'static str)>> {
    let mut build = cargo_fuzz("build");
    build.args(only);
    let mut commands = vec![(build, "see what the compiler says above")];
    for target in TARGETS.into_iter().filter(|target| only.is_none_or(|only| only == *target)) {
        let corpus = root().join("fuzz/corpus").join(target);
        std::fs::create_dir_all(&corpus)?;
        let mut command = cargo_fuzz("run");
        command.arg(target).arg(corpus).arg(root().join("fuzz/seeds").join(target));
        command
            .arg("--")
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-timeout={TIMEOUT_SECONDS}"))
            // Not a line for each input that is worth keeping, but how many there were.
            .args(["-verbosity=0", "-print_final_stats=1"]);
        commands.push((
            command,
            "the input that did it is named above; `cargo fuzz run` takes it as an argument",
        ));
    }
    Ok(commands)
}

fn cargo_fuzz(what: &str) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root().join("fuzz"));
    // Through rustup's cargo, as `+nightly` is. The targets are safe code: a sanitizer of memory would only slow them.
    command.arg(format!("+{}", toolchain::installed().unwrap_or(toolchain::PINNED))).args(["fuzz", what]);
    command.args(["--sanitizer", "none", "--codegen-units", "16"]);
    command.env("CARGO_TARGET_DIR", target_dir().join("fuzz"));
    command
}
