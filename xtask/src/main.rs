//! `cargo xtask`: sets up, builds, runs and tests mcpwarden.
//!
//! Everything that a person or a CI job does with this repository goes through here, so that both do the
//! same. Each subcommand sets up what it needs first; a step that is done already costs a fraction of a second.

mod bench;
mod build;
mod corpus;
mod demo;
mod e2e;
mod fuzz;
mod harness;
#[cfg(test)]
mod layers;
mod package;
mod packages;
mod run;
mod selection;
mod setup;
mod stages;
mod test;
mod util;
mod vm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use setup::Needs;

/// Sets up, builds, runs and tests mcpwarden.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what building needs and this machine lacks; says what each step does and why
    Setup {
        /// Also install the real MCP servers and clients that the end-to-end tests drive
        #[arg(long)]
        tests: bool,
    },
    /// Set up, build, and start `mcpwarden run` (with sudo where you are not root)
    Run {
        /// Optimise: builds for twice as long
        #[arg(long)]
        release: bool,
        /// Arguments for `mcpwarden run`
        #[arg(last = true, value_name = "ARGS")]
        args: Vec<String>,
    },
    /// Set up, then check every commit's part: format, lints, unit tests, end-to-end tests as root, one guest; --full checks all
    Test(test::Args),
    /// Run the end-to-end tests on other kernels, in virtual machines
    Vm(vm::Args),
    /// Pack the agent for installation: a .deb and a tarball
    Package(package::Args),
    /// Show in under a minute what mcpwarden sees: a benign and a poisoned server, driven by a client
    Demo,
    /// Measure what the detector finds in a corpus of attacks, and what it says of honest tools
    Eval {
        /// Arguments for the measurement; `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<String>,
    },
    /// Make the weights of the learned scorer, and measure them on what they were not made with
    Train {
        /// Arguments for the training; `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<String>,
    },
    /// Collect data for measuring the detector
    Corpus(corpus::Args),
    /// Put any input through everything that reads input, for some seconds each
    Fuzz(fuzz::Args),
    /// Run the agent for an hour under load: whether everything is said once, and memory stays what it is
    Soak {
        /// For five minutes
        #[arg(long)]
        short: bool,
    },
    /// Measure what watching costs: ratios of loaded to unloaded, throughput, latency, memory
    Bench {
        /// What to measure
        #[arg(value_parser = ["guards", "kernel", "network", "policy"])]
        what: String,
        /// Arguments for the benchmark, such as `--rounds 3`
        #[arg(last = true, value_name = "ARGS")]
        args: Vec<String>,
    },
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Setup { tests } => setup::setup(if tests { Needs::AllTests } else { Needs::Build }),
        Command::Run { release, args } => run::run(release, &args),
        Command::Test(args) => test::test(&args),
        Command::Vm(args) => vm::vm(&args),
        Command::Package(args) => package::package(&args),
        Command::Demo => demo::demo(),
        Command::Eval { args } => bench::eval(&args),
        Command::Train { args } => bench::train(&args),
        Command::Corpus(args) => corpus::corpus(&args),
        Command::Fuzz(args) => fuzz::fuzz(&args),
        Command::Soak { short } => bench::soak(short),
        Command::Bench { what, args } => bench::bench(&what, &args),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
