//! `mcpwarden decide`: what the policy of a configuration would say of a call.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_policy::ServerId;
use mcpwarden_policy::config::Hash;
use mcpwarden_policy::detect::Detector;
use mcpwarden_policy::guards::Asked;
use serde_json::json;
use serde_json::value::RawValue;

use crate::cli::DecideOptions;
use crate::config;
use crate::host::clock::Clock;
use crate::output::{clean, print_json_line, print_line};

/// Prints every guard that was asked, in order, and what follows. Exit status 1 where the call is denied.
///
/// # Errors
/// The configuration cannot be used, there is no such profile, or the arguments are no JSON object.
pub fn run(options: &DecideOptions) -> Result<ExitCode> {
    let source = config::read(options.config.as_deref())?;
    let config = &source.config;
    let arguments: Option<Box<RawValue>> = match &options.arguments {
        Some(text) => Some(serde_json::from_str(text).context("--arguments is not JSON")?),
        None => None,
    };
    ensure!(
        arguments.as_deref().is_none_or(|arguments| arguments.get().starts_with('{')),
        "--arguments is not JSON object; write {{\"name\": value}}"
    );
    let detector: Arc<Detector> = config::detector(&source)?;
    let inspected = arguments.as_deref().filter(|_| config.inspection.enabled);
    let found = inspected.map(|arguments| detector.arguments(arguments.get()).detections).unwrap_or_default();
    let mut judge = config::judge(&source, &detector)?;
    let session = options.profile.as_deref().map(|profile| config::profile(config, profile)).transpose()?;
    let server = ServerId(options.server.as_str().into());
    let hash = options.hash.as_ref().map(Hash::digits).unwrap_or_default();
    let now = options.at.map_or_else(|| Clock::new().now(), |at| at.0);
    let (verdict, requested) = judge.decide(&server, &options.tool, hash, arguments.as_deref(), session, now);
    if options.json {
        let denied =
            verdict.denied.as_ref().map(|(guard, denial)| json!({ "guard": guard, "denial": denial }));
        print_json_line(&json!({
            "allowed": verdict.denied.is_none(),
            "denied": denied,
            "asked": requested,
            "detections": found,
        }));
    } else {
        for Asked { guard, phase, answer, reason } in &requested {
            let answer = json!(answer);
            let reason = reason.as_deref().map(clean).unwrap_or_default();
            let answer = answer.as_str().unwrap_or_default();
            let line = format!("{:<16} {:<12} {answer:<11} {reason}", guard.name(), phase.name());
            print_line(line.trim_end());
        }
        for detection in &found {
            print_line(format!(
                "found in the arguments: {} {} {}",
                detection.severity.name(),
                clean(&detection.pattern),
                clean(&detection.field)
            ));
        }
        match &verdict.denied {
            Some((guard, denial)) => {
                let (guard, code) = (guard.name(), denial.code.name());
                print_line(format!("denied by {guard} ({code}): {}", clean(&denial.message)));
            }
            None => print_line("allowed"),
        }
    }
    Ok(if verdict.denied.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
