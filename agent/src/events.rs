//! `mcpwarden events`: what is stored, whether an agent runs or not.

use std::io::Write;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

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
    let mut printer = Printer {
        format: if options.json { Format::Json } else { Output::Text.format() },
        out: std::io::BufWriter::new(std::io::stdout().lock()),
        line: Vec::new(),
    };
    let path = &options.database.path;
    let failed = || format!("cannot read {}", path.display());
    let mut opened = place(path);
    let mut reader = Reader::open(path)?;
    // What comes while the first are printed comes behind them.
    let mut last = reader.last().with_context(failed)?;
    let first = |seq: u64, stored: &[u8]| {
        if options.follow && seq > last { Ok(()) } else { printer.print(stored) }
    };
    reader.find(&query, first).with_context(failed)?;
    printer.out.flush().map_err(Unwritable)?;
    if !options.follow {
        return Ok(());
    }
    loop {
        std::thread::sleep(POLL);
        let now = place(path);
        if now.is_some() && now != opened {
            // Another database stands there: the one before was damaged, or moved away.
            (reader, last, opened) = (Reader::open(path)?, 0, now);
        }
        let follow = reader.walk(last + 1, |row| {
            last = row.head.seq;
            let wanted = serde_json::from_slice::<Event>(&row.body).is_ok_and(|event| query.wants(&event));
            if wanted {
                printer.print(&row.body)?;
            }
            Ok(true)
        });
        follow.with_context(failed)?;
        printer.out.flush().map_err(Unwritable)?;
    }
}

/// How often it is looked for events that came.
const POLL: Duration = Duration::from_millis(200);

/// Which file is there.
fn place(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

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
