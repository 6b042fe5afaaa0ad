//! `mcpwarden inspect`: definitions from a file or from a server itself, through the same rules as what the kernel sees.
//!
//! | module | job |
//! |---|---|
//! | `input` | what a file holds |
//! | `forms` | JSON with comments, TOML and YAML as JSON |
//! | `clients` | where clients' configurations declare servers |
//! | `entry` | one server of them, in the words of any client |
//! | `report` | what is found |
//! | `progress` | what is under way |

mod clients;
mod entry;
mod forms;
mod input;
mod pairs;
pub(super) mod progress;
mod report;

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use mcpwarden_client::inspect::{
    Launch, options,
    session::{self, Interrupted, Target, Terms},
    user::{self, Environment},
};
use mcpwarden_policy::discovery::shown_id;
use mcpwarden_policy::mutes::Mutes;
use mcpwarden_policy::redact::redact_word;
use mcpwarden_policy::settings;
use reqwest::header::HeaderMap;

use crate::cli::InspectOptions;
use crate::config;
use crate::host::clock::Clock;
use crate::output::{FAILED, clean, escaped, print_error, print_line};
use entry::{Entry, address};
use input::{Contents, Declared};
use report::Report;

/// Prints what is found. Exit status 0: nothing at or above the threshold; 1: something; 2: the input cannot be used, or
/// a server not be inspected; 128 and the number of a signal that came.
pub fn run(options: &InspectOptions) -> ExitCode {
    match inspect(options) {
        Ok((_, true)) => ExitCode::from(FAILED),
        Ok((found, false)) => ExitCode::from(u8::from(found)),
        Err(error) => {
            // Its row is printed already.
            if let Some(Interrupted(status)) = error.downcast_ref() {
                return ExitCode::from(*status);
            }
            progress::status("");
            print_error(format!("mcpwarden: {}", escaped(&format!("{error:#}"))));
            ExitCode::from(FAILED)
        }
    }
}

/// Whether something is at or above the threshold, and whether a server could not be inspected.
fn inspect(options: &InspectOptions) -> Result<(bool, bool)> {
    let source = config::read(options.config.as_deref())?;
    let (config, detector) = (&source.config, config::detector(&source)?);
    let threshold = config.inspection.alert_threshold;
    let mut mutes = Mutes::default();
    mutes.configure(&settings::muted(config))?;
    mutes.expire(Clock::new().now());
    let mut report = Report::new(detector, settings::registry(config), mutes, (threshold, options.json));
    match (&options.file, &options.server) {
        (Some(file), _) => {
            let contents = input::contents(&input::read(file)?, file);
            let Contents { definitions, servers } = contents.with_context(|| file.display().to_string())?;
            match servers {
                None if options.start => {
                    bail!("{}: the file declares no servers to start; omit --start", file.display())
                }
                None => report.definitions(definitions),
                Some(servers) => {
                    if !definitions.is_empty() {
                        report.definitions(definitions);
                    }
                    if options.start {
                        start(options, servers, &mut report)?;
                    } else {
                        declared(&servers, options.json, &mut report);
                    }
                }
            }
        }
        (None, Some(url)) => {
            let environment = user::become_caller("inspect", false, options.as_root)?;
            let target = address(url).map(|url| Target::Address { url, headers: HeaderMap::new() });
            live(options, &environment, [(Label::from(redact_word(url)), target)], &mut report)?;
        }
        (None, None) => {
            let environment = user::become_caller("inspect", true, options.as_root)?;
            let name = shown_id(&options.command);
            let launch = Launch { argv: options.command.clone(), ..Launch::default() };
            live(options, &environment, [(Label::from(name), Ok(Target::Program(launch)))], &mut report)?;
        }
    }
    Ok(report.outcome())
}

/// Starts or reaches the servers of a configuration and inspects them.
fn start(options: &InspectOptions, servers: Vec<Declared>, report: &mut Report) -> Result<()> {
    let programs = servers.iter().flat_map(|server| &server.entry).any(Entry::is_program);
    let environment = user::become_caller("inspect", programs, options.as_root)?;
    let target = |Declared { project, name, entry }| {
        let target = entry.and_then(|entry: Entry| entry.resolve(&environment));
        (Label { project, name }, target)
    };
    live(options, &environment, servers.into_iter().map(target), report)
}

/// Lists the servers of a configuration; starts none.
fn declared(servers: &[Declared], json: bool, report: &mut Report) {
    if servers.is_empty() && !json {
        print_line("no servers declared");
    }
    for Declared { project, name, entry } in servers {
        report.enter(project.as_deref());
        match entry {
            Ok(entry) => report.declared(name, entry),
            Err(error) => report.failure(name, error),
        }
    }
}

/// What a server is called, and the project that declares it.
struct Label {
    project: Option<String>,
    name: String,
}

impl From<String> for Label {
    fn from(name: String) -> Self {
        Self { project: None, name }
    }
}

/// Inspects servers, by name and how each is reached, one after the other.
fn live(
    options: &InspectOptions,
    environment: &Environment,
    servers: impl IntoIterator<Item = (Label, Result<Target>)>,
    report: &mut Report,
) -> Result<()> {
    let headers = options.header.iter().map(|text| options::header(text)).collect::<Result<Vec<_>>>()?;
    let authorities = options.ca_file.as_deref().map(options::authorities).transpose()?.unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let interruption = {
        let _inside = runtime.enter();
        session::interruption().context("cannot receive signals")?
    };
    let mut outcome = Ok(());
    for (Label { project, name }, target) in servers {
        report.enter(project.as_deref());
        let shown = clean(&name);
        let progress = |what: &str| progress::status(&format!("{shown} {what} …"));
        let terms = Terms {
            environment,
            timeout: options.timeout.0,
            show: (!options.quiet).then_some(progress::line),
            authorities: &authorities,
            interruption: &interruption,
            progress: &progress,
        };
        let listed = target.and_then(|mut target| {
            if let Target::Address { headers: to, .. } = &mut target {
                to.extend(headers.iter().cloned());
            }
            runtime.block_on(session::list(&name, &target, &terms))
        });
        progress::status("");
        match listed {
            Ok(listed) => {
                report.server(&name, listed.definitions);
                listed.incomplete.iter().for_each(|why| report.incomplete(&name, why));
            }
            Err(error) => {
                report.failure(&name, &error);
                if error.is::<Interrupted>() {
                    outcome = Err(error);
                    break;
                }
            }
        }
    }
    // A name that is still being looked up is nobody's concern now.
    runtime.shutdown_background();
    outcome
}
