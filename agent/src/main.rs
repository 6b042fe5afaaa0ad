//! The agent: watches every MCP server on a Linux host from the kernel.
//!
//! Data goes one way: `kernel` (what is loaded and attached) → `capture` (records into frames) → the policy core
//! (`mcpwarden-policy`) → `output`. `run` drives them; the other commands are small.

mod capture;
mod check;
mod cli;
mod clock;
mod config;
mod decide;
mod doctor;
mod host;
mod inspect;
mod instance;
mod kernel;
mod loss;
mod matching;
mod output;
mod process;
mod replay;
mod run;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use cli::{Cli, Command};

fn main() -> ExitCode {
    match dispatch(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            anstream::eprintln!("mcpwarden: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(cli: Cli) -> anyhow::Result<ExitCode> {
    let verdict = |good: bool| if good { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    match cli.command {
        Command::Run(options) => run::run(options).map(|()| ExitCode::SUCCESS),
        Command::Doctor => Ok(verdict(doctor::run())),
        Command::Match { config, json, command } => {
            matching::run(config.as_deref(), json, &command).map(verdict)
        }
        Command::Inspect(options) => Ok(inspect::run(&options)),
        Command::Decide(options) => decide::run(&options),
        Command::Replay(options) => replay::run(&options).map(|()| ExitCode::SUCCESS),
        Command::CheckConfig { file, effective, json, strict } => {
            check::run(&file, effective, json).map(|found| found.exit_code(strict))
        }
        Command::Schema { config } => {
            let events = || mcpwarden_policy::event::schema();
            let schema = if config { mcpwarden_policy::config::schema().clone() } else { events() };
            anstream::println!("{schema:#}");
            Ok(ExitCode::SUCCESS)
        }
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "mcpwarden", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
        Command::Man => {
            clap_mangen::Man::new(Cli::command()).render(&mut std::io::stdout())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
