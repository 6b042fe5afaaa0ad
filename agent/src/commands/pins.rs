//! `mcpwarden pins`: what is pinned, whether an agent runs or not.

use anyhow::{Context as _, Result};
use mcpwarden_policy::registry::PinRecord;
use mcpwarden_store::registry::{Pin, SCHEMA, each, word};

use crate::{
    cli::PinsList,
    output::{escaped, print_json_line, print_line, table, table_text},
};

/// Prints the pins that are asked for.
///
/// # Errors
/// The database cannot be read.
pub fn list(options: &PinsList) -> Result<()> {
    let db = SCHEMA.read(&options.path)?;
    let mut rows = table(["SERVER", "UID", "KIND", "NAME", "STATE", "APPROVED BY", "SEEN", "HASH"]);
    let wanted = |pin: &Pin| {
        (options.server.is_empty() || options.server.iter().any(|id| **id == *pin.key.server.0))
            && (!options.changed || pin.record.current != pin.record.hash)
    };
    each(&db, |pin| {
        if !wanted(&pin) {
            return Ok(());
        }
        if options.json {
            print_json_line(&pin);
            return Ok(());
        }
        let Pin { key, item, record } = &pin;
        rows.add_row([
            escaped(&key.server.0),
            key.uid.map_or_else(|| "-".to_owned(), |uid| uid.to_string()),
            word(item.kind).to_owned(),
            escaped(&item.name),
            state(&pin).to_owned(),
            approved_by(record),
            record.last_seen.to_string().get(..16).unwrap_or_default().to_owned(),
            record.hash.get(..12).unwrap_or(&record.hash).to_owned(),
        ]);
        Ok(())
    })
    .with_context(|| format!("cannot read {}", options.path.display()))?;
    if !options.json {
        print_line(if rows.is_empty() { "nothing is pinned".to_owned() } else { table_text(&rows) });
    }
    Ok(())
}

/// Who approved what is pinned, or how many limited approvals there are of what was seen last.
fn approved_by(record: &PinRecord) -> String {
    let limited = record.limited.iter().filter(|known| known.hash == record.current).count();
    match &record.approved {
        Some(approval) => escaped(&approval.by),
        None if limited > 0 => format!("{limited} limited"),
        None => "-".to_owned(),
    }
}

/// How what was seen last stands to the pin.
pub fn state(pin: &Pin) -> &'static str {
    let record = &pin.record;
    match (record.pinned, record.current == record.hash) {
        _ if record.denies_current() => "denied",
        _ if !record.listed => "removed",
        (_, false) => "changed",
        (true, true) => "pinned",
        (false, true) => "not pinned",
    }
}
