//! `mcpwarden events`: what is stored, whether an agent runs or not.

use anyhow::{Context as _, Result};
use mcpwarden_policy::{Event, EventBody};

use crate::{
    cli::EventsOptions,
    output::{Format, Output, Unwritable},
    store::reader::{Query, Reader},
};

/// Prints the events that are asked for, oldest first.
///
/// # Errors
/// The database cannot be read, or there is no such type of event.
pub fn run(options: &EventsOptions) -> Result<()> {
    for kind in &options.kind {
        anyhow::ensure!(
            EventBody::KINDS.contains(&kind.as_str()),
            "there is no type {kind:?} of events; expected one of {}",
            EventBody::KINDS.join(", ")
        );
    }
    let query = Query {
        types: options.kind.clone(),
        sessions: options.session.clone(),
        servers: options.server.clone(),
        severity: options.severity,
        since: options.since.map(|when| when.0),
        until: options.until.map(|when| when.0),
        limit: (options.limit > 0).then_some(options.limit),
    };
    let format = if options.json { Format::Json } else { Output::Text.format() };
    let reader = Reader::open(&options.database.path)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut line = Vec::new();
    reader
        .find(&query, |stored| {
            line.clear();
            match serde_json::from_slice::<Event>(stored) {
                Ok(event) if format != Format::Json => format.write(&event, &mut line),
                // As it is stored. So are those that a later version knows.
                _ => {
                    line.extend_from_slice(stored);
                    line.push(b'\n');
                }
            }
            Ok(std::io::Write::write_all(&mut out, &line).map_err(Unwritable)?)
        })
        .with_context(|| format!("cannot read {}", options.database.path.display()))?;
    Ok(std::io::Write::flush(&mut out).map_err(Unwritable)?)
}
