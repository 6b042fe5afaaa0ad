//! `mcpwarden decide`: what the policy of a configuration would say of a call.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use mcpwarden_policy::ServerId;
use mcpwarden_policy::detect::Detector;
use mcpwarden_policy::guards::Asked;
use serde_json::json;
use serde_json::value::RawValue;

use crate::cli::DecideOptions;
use crate::config::{self, Config};
use crate::output::{clean, write_json};

/// Prints every guard that was asked, in order, and what follows. Exit status 1 where the call is denied.
///
/// # Errors
/// The configuration cannot be used, or the arguments are no JSON.
pub fn run(options: &DecideOptions) -> Result<ExitCode> {
    let config = options.config.as_deref().map_or_else(|| Ok(Config::default()), config::read)?;
    let arguments: Option<Box<RawValue>> = match &options.arguments {
        Some(text) => Some(serde_json::from_str(text).context("--arguments is no JSON")?),
        None => None,
    };
    let detector: Arc<Detector> = config::detector(&config)?;
    let mut judge = config::judge(&config, &detector)?;
    let session = options.profile.as_deref().map(|profile| entry(&config, profile)).transpose()?;
    let server = ServerId(options.server.clone());
    let (verdict, asked) = judge.decide(&server, &options.tool, arguments.as_deref(), session);
    if options.json {
        let denied =
            verdict.denied.as_ref().map(|(guard, denial)| json!({ "guard": guard, "denial": denial }));
        let mut line = Vec::new();
        write_json(
            &json!({ "allowed": verdict.denied.is_none(), "denied": denied, "asked": asked }),
            &mut line,
        );
        anstream::println!("{}", String::from_utf8_lossy(&line));
    } else {
        for Asked { guard, phase, answer, reason } in &asked {
            let answer = json!(answer);
            let reason = reason.as_deref().map(clean).unwrap_or_default();
            anstream::println!(
                "{:<16} {:<12} {:<11} {reason}",
                guard.name(),
                phase.name(),
                answer.as_str().unwrap_or_default()
            );
        }
        match &verdict.denied {
            Some((guard, denial)) => {
                anstream::println!("denied by {}: {}", guard.name(), clean(&denial.message));
            }
            None => anstream::println!("allowed"),
        }
    }
    Ok(if verdict.denied.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The entry of `sessions:` with this name, or else with this number.
fn entry(config: &Config, profile: &str) -> Result<usize> {
    let named = config.sessions.iter().position(|entry| entry.name.as_deref() == Some(profile));
    let numbered = || profile.parse().ok().filter(|number| *number < config.sessions.len());
    named.or_else(numbered).ok_or_else(|| {
        let entries = config.sessions.iter().enumerate();
        let known: Vec<String> =
            entries.map(|(number, entry)| entry.name.clone().unwrap_or_else(|| number.to_string())).collect();
        match known.as_slice() {
            [] => anyhow!("there is no profile {profile:?}: the configuration has no `sessions`"),
            known => {
                anyhow!("there is no profile {profile:?}; the entries of `sessions` are {}", known.join(", "))
            }
        }
    })
}
