//! `mcpwarden events`: what is stored, whether an agent runs or not.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context as _, Result};
use mcpwarden_policy::Event;
use mcpwarden_store::reader::{Follower, Query};

use crate::{
    cli::EventsOptions,
    host::clock::Clock,
    output::{Dates, Format, Output, Unwritable, rest},
};

/// Prints the events that are asked for, oldest first.
///
/// # Errors
/// The database cannot be read, or there is no such type of event.
pub fn run(options: &EventsOptions) -> Result<()> {
    let query = Query {
        types: options.kind.clone(),
        sessions: options.session.clone(),
        servers: options.server.clone(),
        severity: options.severity,
        since: options.since.map(|when| when.0),
        until: options.until.map(|when| when.0),
        limit: (options.limit > 0).then_some(options.limit),
    };
    query.check_types()?;
    let mut printer = Printer {
        format: if options.json { Format::Json } else { Output::Text.format() },
        out: std::io::BufWriter::new(std::io::stdout().lock()),
        line: Vec::new(),
        dates: Dates::of(Clock::new().now()),
    };
    let path = &options.database.path;
    let failed = || format!("cannot read {}", path.display());
    // What comes while the first are printed comes behind them.
    let mut follower = Follower::open(path)?;
    let last = follower.last();
    let first = |seq: u64, stored: &[u8]| {
        if options.follow && seq > last { Ok(()) } else { printer.print(stored) }
    };
    follower.reader().find(&query, first).with_context(failed)?;
    printer.out.flush().map_err(Unwritable)?;
    if !options.follow {
        return Ok(());
    }
    loop {
        // A reader that is gone is noticed even where nothing comes.
        rest(POLL)?;
        let come = follower.poll(|row| {
            let wanted = serde_json::from_slice::<Event>(&row.body).is_ok_and(|event| query.wants(&event));
            if wanted { printer.print(&row.body) } else { Ok(()) }
        });
        come.with_context(failed)?;
        printer.out.flush().map_err(Unwritable)?;
    }
}

/// How often it is looked for events that came.
const POLL: Duration = Duration::from_millis(200);

struct Printer<W: Write> {
    format: Format,
    out: W,
    line: Vec<u8>,
    dates: Dates,
}

impl<W: Write> Printer<W> {
    /// Prints an event that is stored as this.
    fn print(&mut self, stored: &[u8]) -> Result<()> {
        self.line.clear();
        let text = self.format != Format::Json;
        match text.then(|| serde_json::from_slice::<Event>(stored).ok()).flatten() {
            Some(event) => self.format.write(&event, &mut self.dates, &mut self.line),
            // As it is stored. So are those that a later version knows.
            None => {
                self.line.extend_from_slice(stored);
                self.line.push(b'\n');
            }
        }
        Ok(self.out.write_all(&self.line).map_err(Unwritable)?)
    }
}

#[cfg(test)]
mod tests {
    use mcpwarden_policy::{Timestamp, event::AuditHead};

    use super::*;
    use crate::output;

    /// The day that it is, the hours of stored events, and how their lines begin. JSON is as it was stored.
    #[test]
    fn events_of_other_days_have_dates() {
        const HOUR: u64 = 3_600_000_000_000;
        for (name, today, hours, expected) in [
            ("today", 30, &[24, 47][..], &["00:00:00.000 audit", "23:00:00.000 audit"][..]),
            ("yesterday", 30, &[23], &["1970-01-01 23:00:00.000 audit"]),
            ("both", 30, &[23, 24], &["1970-01-01 23:00:00.000 audit", "1970-01-02 00:00:00.000 audit"]),
            (
                "followed past midnight",
                30,
                &[47, 48],
                &["23:00:00.000 audit", "1970-01-03 00:00:00.000 audit"],
            ),
        ] {
            for format in [Format::Text { colour: false }, Format::Json] {
                let mut printer = Printer {
                    format,
                    out: Vec::new(),
                    line: Vec::new(),
                    dates: Dates::of(Timestamp(today * HOUR)),
                };
                let stored = hours.iter().map(|hour| {
                    let event = Event::agent(Timestamp(hour * HOUR), AuditHead { events: 1 }.into());
                    let mut line = Vec::new();
                    output::write_json(&event, &mut line);
                    line
                });
                let stored: Vec<Vec<u8>> = stored.collect();
                stored.iter().try_for_each(|line| printer.print(line)).unwrap();
                let text = String::from_utf8(printer.out).unwrap();
                assert_eq!(text.lines().count(), hours.len(), "{name}: {text}");
                for ((line, expected), stored) in text.lines().zip(expected).zip(&stored) {
                    let is_right = match format {
                        Format::Json => line.as_bytes() == stored,
                        Format::Text { .. } => line.starts_with(expected),
                    };
                    assert!(is_right, "{name} {format:?}: {line}");
                }
            }
        }
    }
}
