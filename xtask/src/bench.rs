//! `cargo xtask bench kernel`: what watching costs on this machine; `network`: what judging connections costs; `guards`: what a judgement
//! takes, of the agent's own guards, of components, and of YARA rules; `store`: what
//! it takes to find something among 5 million events. `policy`:
//! what the pure core costs; it needs neither root nor a kernel. Given a folder of recorded definitions and results, it
//! searches those too.

use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::build::{self, WORKSPACE};
use crate::run::build_release;
use crate::setup::{Needs, setup};
use crate::util::{as_root, built, cargo, run, target_dir};

/// What of the benchmarks is the soak of five minutes.
pub const SHORT_SOAK: [&str; 3] = ["soak", "--seconds", "300"];

/// Builds the agent and the benchmarks, and runs those named as root.
///
/// # Errors
/// The set-up, the build or a benchmark failed.
pub fn bench(what: &str, args: &[String]) -> Result<ExitCode> {
    let in_process = |bench: &str, args: &[String]| {
        let mut command = cargo();
        command.arg("bench").args(WORKSPACE).args(["--bench", bench, "--"]).args(args);
        run(&mut command, "read what it says above")
    };
    match what {
        "policy" => in_process("policy", args)?,
        "guards" => {
            // Those of the agent itself, all of them for one call; then components; then YARA rules.
            in_process("policy", &["engine".to_owned()])?;
            in_process("calls", args)?;
            in_process("scan", args)?;
        }
        _ => return run_as_root(what, args),
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the agent under load for an hour, or for five minutes.
///
/// # Errors
/// The set-up or the build failed, or something that must hold does not.
pub fn soak(short: bool) -> Result<ExitCode> {
    let [what, args @ ..] = if short { SHORT_SOAK } else { ["soak", "--seconds", "3600"] };
    run_as_root(what, &args.map(str::to_owned))
}

/// Measures what the detector finds in a corpus.
///
/// # Errors
/// The set-up or the build failed, or there is no corpus.
pub fn eval(args: &[String]) -> Result<ExitCode> {
    setup(Needs::Build)?;
    build::programs()?;
    run(Command::new(target_dir().join("debug/eval")).args(args), "read what it says above")?;
    Ok(ExitCode::SUCCESS)
}

/// Makes the weights of the learned scorer.
///
/// # Errors
/// The set-up, the build or the training failed.
pub fn train(args: &[String]) -> Result<ExitCode> {
    setup(Needs::Build)?;
    build::programs()?;
    run(Command::new(target_dir().join("debug/train")).args(args), "read what it says above")?;
    Ok(ExitCode::SUCCESS)
}

fn run_as_root(what: &str, args: &[String]) -> Result<ExitCode> {
    setup(Needs::Build)?;
    build_release(&[])?;
    run(as_root(built("bench"))?.arg(what).args(args), "read what it says above")?;
    Ok(ExitCode::SUCCESS)
}
