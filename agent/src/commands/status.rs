//! `mcpwarden status`: how the running agent is.

use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use anyhow::Result;
use hyper::Method;

use crate::{
    cli::StatusOptions,
    control::{STATUS, Status, client::query_agent},
    output::{escaped, print_json_line, print_line, seconds},
};

/// Says how it is: 0 where all is well, 1 where something is wrong.
///
/// # Errors
/// No agent answers.
pub fn run(options: &StatusOptions) -> Result<ExitCode> {
    let status: Status = query_agent(&options.agent.socket, Method::GET, STATUS, &())?;
    if options.json {
        print_json_line(&status);
    } else {
        lines(&status).into_iter().for_each(print_line);
    }
    Ok(if status.troubles.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn lines(status: &Status) -> Vec<String> {
    let colour = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
    let (good, bad, warned) = (colour(AnsiColor::Green), colour(AnsiColor::Red), colour(AnsiColor::Yellow));
    let count = |name: &str| status.counters.get(name).copied().unwrap_or_default();
    let mut lines = vec![format!(
        "{good}running{good:#}   mcpwarden {}, process {}, since {}, Linux {}",
        escaped(&status.version),
        status.pid,
        seconds(status.since),
        escaped(&status.kernel)
    )];
    let config = match &status.config.path {
        Some(path) => format!("{}, since {}", escaped(path), seconds(status.config.since)),
        None => "the defaults".to_owned(),
    };
    lines.push(format!(
        "config    {config}; calls: {}, connections: {}",
        escaped(&status.config.stdio),
        escaped(&status.config.network)
    ));
    lines.push(format!(
        "gate      neutralize: {}, deny: {}",
        escaped(&status.gate.neutralize),
        escaped(&status.gate.deny)
    ));
    lines.push(format!(
        "watching  {} servers of {} clients with {} kernel programs; {} calls, {} detections, {} denials so far",
        status.servers,
        status.sessions,
        status.programs.len(),
        count("calls"),
        count("detections"),
        count("denials")
    ));
    lines.push(format!(
        "waiting   {} tools for approval (`mcpwarden approvals list`); {} blocks by hand",
        status.approvals, status.blocks
    ));
    if status.mutes > 0 {
        lines.push(format!(
            "muted     {} mutes, {} detections by them so far (`mcpwarden detections muted`)",
            status.mutes,
            count("detections_muted")
        ));
    }
    lines.push(format!("store     {}, {} events", escaped(&status.store.path), status.store.last));
    for sink in &status.sinks {
        let dropped = if sink.dropped > 0 { format!(", {} dropped", sink.dropped) } else { String::new() };
        let failing = if sink.failing.is_some() { "; it takes none now" } else { "" };
        lines.push(format!(
            "sink      {}: {} events written{dropped}, {} bytes wait{failing}",
            escaped(&sink.name),
            sink.written,
            sink.waiting_bytes
        ));
    }
    let notes = [("unseen", &status.blind_spots), ("observed", &status.not_enforced)];
    for (word, note) in notes.into_iter().flat_map(|(word, notes)| notes.iter().map(move |note| (word, note)))
    {
        lines.push(format!("{warned}{word:<8}{warned:#}  {}", escaped(note)));
    }
    for trouble in &status.troubles {
        lines.push(format!("{bad}trouble {bad:#}  {}", escaped(trouble)));
    }
    lines
}
