//! `mcpwarden events`: what is stored, whether an agent runs or not.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context as _, Result};
use mcpwarden_policy::Event;
use mcpwarden_store::{follower::Follower, reader::Query};

use crate::{
    cli::EventsOptions,
    output::{Format, Output, Unwritable},
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
        std::thread::sleep(POLL);
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
}

impl<W: Write> Printer<W> {
    /// Prints an event that is stored as this.
    fn print(&mut self, stored: &[u8]) -> Result<()> {
        self.line.clear();
        let text = self.format != Format::Json;
        match text.then(|| serde_json::from_slice::<Event>(stored).ok()).flatten() {
            Some(event) => self.format.write(&event, &mut self.line),
            // As it is stored. So are those that a later version knows.
            None => {
                self.line.extend_from_slice(stored);
                self.line.push(b'\n');
            }
        }
        Ok(self.out.write_all(&self.line).map_err(Unwritable)?)
    }
}
