//! Lists: which events they are made of, and how their lines look.

use std::io::{BufWriter, StdoutLock, Write as _, stdout};

use anyhow::Result;
use comfy_table::{Cell, Color, Table};
use mcpwarden_policy::{
    Timestamp,
    event::{Action, Severity},
};
use mcpwarden_store::conditions::Conditions;
use rusqlite::Connection;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    cli::{Shown, Which},
    output::{self, Unwritable, escaped, print_line, seconds, word, write_json},
};

/// Rows that are read before they are printed.
const PAGE: usize = 1_024;
/// What stands for what there is not.
pub const NONE: &str = "-";

/// A line of a list: an object for machines, cells of a table for people.
pub trait Line: Serialize {
    /// What the cells are.
    const HEADER: &'static [&'static str];

    /// What people read. Names and texts are strangers': see [`text`].
    fn cells(&self) -> Vec<Cell>;
}

/// A line that stands for one event.
pub trait Row: Line + Sized {
    /// The view it is read from, which has `seq` and `time_ns`.
    const VIEW: &'static str;

    /// Reads it from a row of the view.
    ///
    /// # Errors
    /// A column has another form.
    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self>;

    /// Adds what other events tell of these rows, which are in the order of time.
    ///
    /// # Errors
    /// They cannot be read.
    fn complete(_rows: &mut [Self], _db: &Connection) -> Result<()> {
        Ok(())
    }
}

/// Lines on their way to standard output.
pub enum List {
    Json(BufWriter<StdoutLock<'static>>),
    Table(Table),
}

impl List {
    /// A list of such lines.
    pub fn new<T: Line>(json: bool) -> Self {
        if json { Self::Json(BufWriter::new(stdout().lock())) } else { Self::Table(output::list(T::HEADER)) }
    }

    /// Adds a line.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&mut self, line: &impl Line) -> Result<()> {
        match self {
            Self::Json(out) => {
                let mut text = Vec::new();
                write_json(line, &mut text);
                text.push(b'\n');
                out.write_all(&text).map_err(Unwritable)?;
            }
            Self::Table(table) => {
                table.add_row(output::line(line.cells()));
            }
        }
        Ok(())
    }

    /// Prints what is not printed yet, or for people that there is nothing.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn end(self, nothing: &str) -> Result<()> {
        match self {
            Self::Json(mut out) => out.flush().map_err(Unwritable)?,
            Self::Table(table) if table.is_empty() => print_line(nothing),
            Self::Table(table) => print_line(output::list_text(&table)),
        }
        Ok(())
    }
}

/// Prints lines that are all there.
///
/// # Errors
/// They cannot be written.
pub fn print<T: Line>(lines: &[T], json: bool, nothing: &str) -> Result<()> {
    let mut list = List::new::<T>(json);
    lines.iter().try_for_each(|line| list.add(line))?;
    list.end(nothing)
}

/// Prints the last rows for which all conditions hold, oldest first.
///
/// # Errors
/// They cannot be read or written.
pub fn print_rows<T: Row>(
    db: &Connection,
    conditions: &Conditions,
    shown: &Shown,
    nothing: &str,
) -> Result<()> {
    let mut list = List::new::<T>(shown.json);
    each::<T>(db, conditions, limit(shown), |row| list.add(&row))?;
    list.end(nothing)
}

/// Hands on the last rows for which all conditions hold, oldest first. They are read some at a time: a reader that takes
/// long must not keep the agent's journal from being emptied.
///
/// # Errors
/// They cannot be read, or `take` fails.
pub fn each<T: Row>(
    db: &Connection,
    conditions: &Conditions,
    limit: Option<u64>,
    mut take: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let mut find = db.prepare(&format!("SELECT * FROM {} WHERE seq = ?1", T::VIEW))?;
    for page in conditions.last(db, T::VIEW, limit)?.chunks(PAGE) {
        let mut rows = Vec::with_capacity(page.len());
        for seq in page {
            // Or it was removed meanwhile, for its age.
            rows.extend(find.query_map([seq], |row| T::read(row))?.collect::<Result<Vec<_>, _>>()?);
        }
        T::complete(&mut rows, db)?;
        rows.into_iter().try_for_each(&mut take)?;
    }
    Ok(())
}

/// The limit that is asked for.
pub fn limit(shown: &Shown) -> Option<u64> {
    (shown.limit > 0).then_some(shown.limit)
}

/// Conditions on a view's columns.
pub fn of_view(which: &Which) -> Conditions {
    which.conditions("session_id", "server_id")
}

/// Conditions on the columns of `events`.
pub fn of_events(which: &Which) -> Conditions {
    which.conditions("session", "server")
}

impl Which {
    fn conditions(&self, session: &str, server: &str) -> Conditions {
        let time = |when: Option<crate::cli::When>| when.map(|when| when.0);
        Conditions::default().any(session, &self.session).any(server, &self.server).between(
            "time_ns",
            time(self.since),
            time(self.until),
        )
    }
}

/// The words of values.
pub fn words(values: &[impl Serialize]) -> Vec<String> {
    values.iter().map(word).collect()
}

/// A time of a row, by the name of its column.
///
/// # Errors
/// There is no such column, or it is no number.
pub fn time(row: &rusqlite::Row<'_>, column: &str) -> rusqlite::Result<Timestamp> {
    Ok(Timestamp(row.get::<_, i64>(column)?.unsigned_abs()))
}

/// A severity of a row, by the name of its column.
///
/// # Errors
/// There is no such column, or it is no number.
pub fn severity(row: &rusqlite::Row<'_>, column: &str) -> rusqlite::Result<Option<Severity>> {
    Ok(row.get::<_, Option<i64>>(column)?.and_then(severity_of))
}

/// The severity that the store has this number for.
pub fn severity_of(number: i64) -> Option<Severity> {
    SEVERITIES.into_iter().find(|severity| *severity as i64 == number)
}

/// All severities, the least first.
pub const SEVERITIES: [Severity; 4] = [Severity::Low, Severity::Medium, Severity::High, Severity::Critical];

/// A value that the store has a word for; `None` of a word that is not known.
pub fn by_word<T: DeserializeOwned>(word: Option<String>) -> Option<T> {
    serde_json::from_value(word?.into()).ok()
}

/// A cell with a stranger's text.
pub fn text(text: &str) -> Cell {
    Cell::new(escaped(text))
}

/// A cell with a stranger's text, where there is one.
pub fn optional(value: Option<&str>) -> Cell {
    value.filter(|value| !value.is_empty()).map_or_else(|| Cell::new(NONE), text)
}

/// A cell with a time.
pub fn at(time: Timestamp) -> Cell {
    Cell::new(seconds(time))
}

/// A cell with a severity, the worse the louder.
pub fn severity_cell(severity: Option<Severity>) -> Cell {
    match severity {
        None => Cell::new(NONE),
        Some(severity) => {
            let colour = if severity < Severity::High { Color::Yellow } else { Color::Red };
            coloured(&word(&severity), colour)
        }
    }
}

/// A cell with what came of something; `enforced` where it is known whether a `block` stopped it.
pub fn action_cell(action: Option<Action>, enforced: Option<bool>) -> Cell {
    match (action, enforced) {
        (None, _) => Cell::new(NONE),
        (Some(Action::Allow), _) => Cell::new("allow"),
        (Some(Action::Alert), _) => coloured("alert", Color::Yellow),
        (Some(Action::Block), None) => coloured("block", Color::Red),
        (Some(Action::Block), Some(true)) => coloured("blocked", Color::Red),
        (Some(Action::Block), Some(false)) => coloured("block, not enforced", Color::Red),
    }
}

/// A cell in colour, where colours are wanted.
pub fn coloured(text: &str, colour: Color) -> Cell {
    let wanted = anstream::AutoStream::choice(&stdout()) != anstream::ColorChoice::Never;
    let cell = Cell::new(text);
    if wanted { cell.fg(colour) } else { cell }
}
