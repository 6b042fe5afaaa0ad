//! `mcpwarden inspect`: definitions from a file or from a server itself, through the same rules as what the kernel sees.
//!
//! | module | job |
//! |---|---|
//! | `input` | what a file holds |
//! | `user` | who servers run as |
//! | `session` | one server: greeted, listed, left, by the official SDK |
//! | `program`, `http`, `sse` | the ways to a server |
//! | `tap` | what it sends: bounded, and kept as it was sent |
//! | `report` | what is found |
//! | `progress` | what is under way |

mod http;
mod input;
mod program;
mod progress;
mod report;
mod session;
mod sse;
mod tap;
mod user;

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use mcpwarden_policy::config::Config;
use mcpwarden_policy::discovery::server_id;
use serde_json::json;

use crate::cli::InspectOptions;
use crate::config;
use crate::output::{FAILED, clean, escaped, say, say_json};
use input::{Contents, Declared};
use program::Launch;
use report::Report;
use session::{Interrupted, Reach, Terms};

/// Prints what is found. Exit status 0: nothing at or above the threshold; 1: something; 2: the input cannot be used, or
/// a server not be inspected.
pub fn run(options: &InspectOptions) -> ExitCode {
    match inspect(options) {
        Ok((_, true)) => ExitCode::from(FAILED),
        Ok((found, false)) => ExitCode::from(u8::from(found)),
        Err(error) => {
            progress::status("");
            anstream::eprintln!("mcpwarden: {}", escaped(&format!("{error:#}")));
            ExitCode::from(FAILED)
        }
    }
}

/// Whether something is at or above the threshold, and whether a server could not be inspected.
fn inspect(options: &InspectOptions) -> Result<(bool, bool)> {
    let config = options.config.as_deref().map_or_else(|| Ok(Config::default()), config::read)?;
    let detector = config::detector(&config)?;
    let threshold = config.inspection.alert_threshold;
    let mut report = Report::new(detector, config.registry_settings(), threshold, options.json);
    match (&options.file, &options.server) {
        (Some(file), _) => {
            let contents =
                input::contents(&input::read(file)?).with_context(|| file.display().to_string())?;
            match contents {
                Contents::Tools(_) if options.start => {
                    bail!(
                        "{}: it declares no servers that could be started; leave --start out",
                        file.display()
                    )
                }
                Contents::Tools(tools) => report.definitions(tools),
                Contents::Servers(servers) if options.start => live(options, servers, &mut report)?,
                Contents::Servers(servers) => list(&servers, options.json),
            }
        }
        (None, Some(url)) => {
            let reach = || Ok(Reach::Address { url: input::address(url)?, headers: Default::default() });
            live(
                options,
                vec![Declared { name: url.clone(), words: Vec::new(), reach: reach() }],
                &mut report,
            )?;
        }
        (None, None) => {
            let launch = Launch { argv: options.command.clone(), ..Launch::default() };
            let name = server_id(&options.command, None).0;
            let reach = Ok(Reach::Program(launch));
            live(options, vec![Declared { name, words: Vec::new(), reach }], &mut report)?;
        }
    }
    Ok(report.outcome())
}

/// Inspects servers one after the other.
fn live(options: &InspectOptions, servers: Vec<Declared>, report: &mut Report) -> Result<()> {
    let programs = servers.iter().any(|server| matches!(server.reach, Ok(Reach::Program(_))));
    let environment = user::become_caller(programs, options.as_root)?;
    let headers = options.header.iter().map(|text| http::header(text)).collect::<Result<Vec<_>>>()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    for Declared { name, reach, .. } in servers {
        let shown = clean(&name);
        let progress = |what: &str| progress::status(&format!("{shown} {what} …"));
        let terms = Terms {
            environment: &environment,
            timeout: options.timeout.0,
            quiet: options.quiet,
            progress: &progress,
        };
        let listed = reach.and_then(|mut reach| {
            if let Reach::Address { headers: to, .. } = &mut reach {
                to.extend(headers.iter().cloned());
            }
            runtime.block_on(session::list(&name, &reach, &terms))
        });
        progress::status("");
        match listed {
            Ok(definitions) => report.server(&name, definitions),
            Err(error) => {
                report.failure(&name, &error);
                if error.is::<Interrupted>() {
                    break;
                }
            }
        }
    }
    // A name that is still being looked up is nobody's concern now.
    runtime.shutdown_background();
    Ok(())
}

fn list(servers: &[Declared], json: bool) {
    if servers.is_empty() && !json {
        say("no servers declared");
    }
    for Declared { name, words, .. } in servers {
        let id = server_id(words, None);
        if json {
            say_json(&json!({ "name": name, "command": words, "server_id": id }));
        } else {
            say(format!("{:<24} {:<32} {}", clean(name), clean(&id.0), clean(&words.join(" "))));
        }
    }
}
