//! The agent: watches every MCP server on a Linux host from the kernel.
//!
//! Data goes one way: `mcpwarden-kernel` (what is loaded and attached) → `mcpwarden-capture` (records into frames) → the policy
//! core (`mcpwarden-policy`) → `mcpwarden-store`, `mcpwarden-sinks` and `output`. `daemon` drives them.
//!
//! | module | job |
//! |---|---|
//! | `daemon` | `run`: the loop |
//! | `external` | guards that others wrote: loaded, and asked |
//! | `network` | addresses, names and sockets |
//! | `control`, `metrics`, `serving` | who asks the agent, and HTTP for them |
//! | `commands`, `query`, `top` | the other commands |
//! | `cli`, `output` | the command line, and what is printed |
//! | `config`, `host` | a file made settings of; what only this host knows |
//! | `loss` | counters that should stay at zero |

mod cli;
mod commands;
mod config;
mod control;
mod daemon;
mod external;
mod host;
mod log;
mod loss;
mod metrics;
mod network;
mod output;
mod query;
mod serving;
mod top;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use cli::{
    Approvals, Audit, Cli, Command, Detections, DetectionsOptions, Pins, Query, Registry, Sessions,
    SessionsOptions, ToolsOptions, refused::refused,
};
use commands::{
    approvals, audit, blocks, call, check, decide, detach, doctor, events, explain, guard, inspect, learn,
    man, matching, mutes, pins, refresh, reload, replay, sessions, status,
};
use output::{FAILED, Unwritable, one_line, print_error, print_line, unwritable};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refused(error),
    };
    match &cli.command {
        Command::Run(options) => log::start(options.log.clone().unwrap_or_default(), log::Reader::MayStop),
        _ => log::start(log::Filter::default(), log::Reader::IsAwaited),
    }
    // Of commands that answer a question, 1 is an answer.
    let failed = if matches!(cli.command, Command::Run(_)) { ExitCode::FAILURE } else { FAILED.into() };
    match dispatch(cli) {
        Ok(code) => code,
        Err(error) => match error.downcast_ref::<Unwritable>() {
            Some(Unwritable(error)) => unwritable(error).into(),
            None => {
                print_error(format!("mcpwarden: {}", one_line(&format!("{error:#}"))));
                failed
            }
        },
    }
}

fn dispatch(cli: Cli) -> anyhow::Result<ExitCode> {
    let verdict = |good: bool| if good { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    match cli.command {
        Command::Run(options) => daemon::run(options).map(|()| ExitCode::SUCCESS),
        Command::Doctor { tls: Some(target), json } => doctor::tls::run(&target, json).map(verdict),
        Command::Doctor { tls: None, json } => Ok(verdict(doctor::run(json))),
        Command::Match { config, json, command } => {
            matching::run(config.as_deref(), json, &command).map(verdict)
        }
        Command::Inspect(options) => Ok(inspect::run(&options)),
        Command::Explain(options) => explain::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Decide(options) => decide::run(&options),
        Command::Call(options) => Ok(call::run(&options)),
        Command::Replay(options) => replay::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Block(options) => blocks::block(options).map(|()| ExitCode::SUCCESS),
        Command::Unblock(options) => blocks::unblock(options).map(|()| ExitCode::SUCCESS),
        Command::Blocks(options) => blocks::list(&options).map(|()| ExitCode::SUCCESS),
        Command::Detach(options) => detach::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Approve(options)
        | Command::Approvals { what: Approvals::Grant(options) }
        | Command::Pins { what: Pins::Trust(options) } => {
            approvals::approve(options).map(|()| ExitCode::SUCCESS)
        }
        Command::Approvals { what: Approvals::Deny(options) } => {
            approvals::deny(options).map(|()| ExitCode::SUCCESS)
        }
        Command::Approvals { what: Approvals::List(options) } => {
            approvals::list(&options).map(|()| ExitCode::SUCCESS)
        }
        Command::Pins { what: Pins::Reset(which) } => approvals::reset(which).map(|()| ExitCode::SUCCESS),
        Command::Status(options) => status::run(&options),
        Command::Top(options) => top::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Reload(options) => reload::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Learn(options) => learn::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Events(options) => events::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Pins { what: Pins::List(options) } => pins::list(&options).map(|()| ExitCode::SUCCESS),
        Command::Pins { what: Pins::Diff(options) } => query::diff(&options).map(verdict),
        Command::Query(Query::Sessions(SessionsOptions { what: Some(Sessions::Set(options)), .. })) => {
            sessions::set(options).map(|()| ExitCode::SUCCESS)
        }
        Command::Query(Query::Detections(DetectionsOptions { what: Some(what), .. })) => match what {
            Detections::Mute(options) => mutes::mute(*options),
            Detections::Unmute(options) => mutes::unmute(options),
            Detections::Muted(options) => mutes::list(&options),
        }
        .map(|()| ExitCode::SUCCESS),
        Command::Query(
            Query::Tools(ToolsOptions { refresh: Some(server), shown, agent, .. })
            | Query::Registry {
                what: Registry::List(ToolsOptions { refresh: Some(server), shown, agent, .. }),
            },
        ) => refresh::run(&server, shown.json, &agent.socket).map(|()| ExitCode::SUCCESS),
        Command::Query(query) => query::run(&query).map(|()| ExitCode::SUCCESS),
        Command::Audit { what: Audit::Verify(options) } => audit::verify(&options),
        Command::Audit { what: Audit::Export(options) } => {
            audit::export(&options).map(|()| ExitCode::SUCCESS)
        }
        Command::CheckConfig { file, effective, json, strict } => {
            check::run(&file, effective, json).map(|found| found.exit_code(strict))
        }
        Command::Guard { what } => guard::run(&what).map(verdict),
        Command::Schema { config } => {
            let events = || mcpwarden_policy::event::schema();
            let schema = if config { mcpwarden_policy::config::schema().clone() } else { events() };
            print_line(format!("{schema:#}"));
            Ok(ExitCode::SUCCESS)
        }
        Command::Completions { shell } => {
            // Written by hand: a reader that is gone makes `generate` panic.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "mcpwarden", &mut script);
            print_line(String::from_utf8_lossy(&script).trim_end());
            Ok(ExitCode::SUCCESS)
        }
        Command::Man(options) => man::run(&options).map(|()| ExitCode::SUCCESS),
    }
}
