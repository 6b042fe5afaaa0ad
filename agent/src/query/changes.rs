//! `mcpwarden pins diff`: what is different between what is pinned and what is there now.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_policy::registry::{Diff, PinKey};
use mcpwarden_store::{
    self as store,
    database::DatabaseError,
    registry::{self, Pin, word},
};
use rusqlite::{Connection, OptionalExtension as _};
use serde::Serialize;

use super::list::NONE;
use crate::{
    cli::PinsDiff,
    output::{escaped, print_json_line, print_line},
};

/// How a definition stands to its pin.
#[derive(Debug, Serialize)]
pub struct Change {
    #[serde(flatten)]
    key: PinKey,
    kind: &'static str,
    name: String,
    /// Hash of the pinned definition.
    previous_hash: String,
    /// Hash of the one that was seen last.
    new_hash: String,
    /// What differs; `truncated` where there is more than is known.
    #[serde(flatten)]
    diff: Diff,
}

/// Prints the change of each pin of this name. Whether there is none.
///
/// # Errors
/// There is no such pin, or the database cannot be read.
pub fn diff(options: &PinsDiff) -> Result<bool> {
    let path = &options.path;
    let db = registry::SCHEMA.read(path)?;
    let events = options.events.clone().unwrap_or_else(|| path.with_file_name(store::EVENTS));
    let found =
        find(&db, &events, &options.tool).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(
        !found.is_empty(),
        "no pin has the name {}; `mcpwarden pins list` lists all pins",
        escaped(&options.tool)
    );
    for change in &found {
        if options.json {
            print_json_line(change);
        } else {
            print_line(change.text());
        }
    }
    Ok(found.iter().all(|change| change.previous_hash == change.new_hash))
}

/// The change of each pin of this name; `events`: the database of events.
///
/// # Errors
/// It cannot be read.
pub fn find(db: &Connection, events: &Path, name: &str) -> Result<Vec<Change>> {
    let mut found = Vec::new();
    registry::each(db, |pin| {
        if is_named(&pin, name) {
            let diff = difference(db, events, &pin)?;
            let Pin { key, item, record } = pin;
            let (previous_hash, new_hash) = (record.hash, record.current);
            found.push(Change { key, kind: word(item.kind), name: item.name, previous_hash, new_hash, diff });
        }
        Ok(())
    })?;
    Ok(found)
}

/// Whether this is what a pin is of: `SERVER:TOOL`. Either can have colons.
pub fn is_named(pin: &Pin, name: &str) -> bool {
    name.strip_prefix(&*pin.key.server.0).and_then(|rest| rest.strip_prefix(':')) == Some(&pin.item.name)
}

/// The definition with this hash, where it is kept.
///
/// # Errors
/// It cannot be read.
pub fn definition(pins: &Connection, hash: &str) -> rusqlite::Result<Option<String>> {
    let find = "SELECT definition FROM definitions WHERE hash = ?1";
    pins.query_row(find, [hash], |row| row.get(0)).optional()
}

/// By both definitions, or else as it was said when it was seen.
fn difference(pins: &Connection, events: &Path, pin: &Pin) -> Result<Diff> {
    let (previous, new) = (&pin.record.hash, &pin.record.current);
    if previous == new {
        return Ok(Diff::default());
    }
    if let (Some(previous), Some(new)) = (definition(pins, previous)?, definition(pins, new)?) {
        return Ok(Diff::of(&previous, &new));
    }
    let db = match store::SCHEMA.read(events) {
        Err(DatabaseError::Missing(_)) => return Ok(Diff::unknown()),
        opened => opened?,
    };
    let select = "SELECT body FROM events
        WHERE type IN ('mcp_tool_changed', 'mcp_definition_changed') AND server = ?1
            AND CAST(body AS TEXT) ->> 'previous_hash' = ?2 AND CAST(body AS TEXT) ->> 'new_hash' = ?3
        ORDER BY time_ns DESC LIMIT 1";
    let body: Option<Vec<u8>> = db
        .query_row(select, [&*pin.key.server.0, previous.as_str(), new.as_str()], |row| row.get(0))
        .optional()?;
    Ok(body.and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_else(Diff::unknown))
}

impl Change {
    /// What people read.
    pub fn text(&self) -> String {
        let mut out = format!("{}:{}", escaped(&self.key.server.0), escaped(&self.name));
        out.push_str(&format!(" ({})\n", identity(&self.key)));
        if self.previous_hash == self.new_hash {
            return out + "  is as it is pinned";
        }
        out.push_str(&format!("  pinned {}\n  now    {}", self.previous_hash, self.new_hash));
        for change in &self.diff.changes {
            let field = if change.field.is_empty() { "all of it".to_owned() } else { escaped(&change.field) };
            out.push_str(&format!("\n  {field}"));
            for (sign, text) in [("-", &change.previous), ("+", &change.new)] {
                for line in text.iter().flat_map(|text| text.lines()) {
                    out.push_str(&format!("\n    {sign} {}", escaped(line)));
                }
            }
        }
        if self.diff.truncated {
            let what =
                if self.diff.changes.is_empty() { "what it was is not known any more" } else { "and more" };
            out.push_str(&format!("\n  ({what})"));
        }
        out
    }
}

/// Whose: user and program.
fn identity(key: &PinKey) -> String {
    let uid = key.uid.map_or_else(|| NONE.to_owned(), |uid| uid.to_string());
    let program = if key.program.is_empty() { NONE } else { &key.program };
    format!("uid {uid}, {}", escaped(program))
}
