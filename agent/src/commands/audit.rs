//! `mcpwarden audit`: whether the audit trail is whole, and a copy of it.

use std::{
    fs,
    io::{IsTerminal as _, Write as _},
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use mcpwarden_policy::{Event, Timestamp};
use mcpwarden_store::{
    chain::{Hash, Head},
    checkpoint::{self, PUBLIC_KEY},
    columns, integrity,
    reader::{Reader, Row},
    removal::Removal,
};
use rusqlite::types::ValueRef;
use serde::{Deserialize, Serialize};

use crate::{
    cli::{AuditExport, AuditVerify, Bound},
    output::{Unwritable, escaped, print_json_line, print_line, print_progress},
};

/// How often progress is shown, to whom looks at a terminal.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// The try that holds the database as it is while it reads. Those before it do not, so that its log can be merged.
const HELD: u32 = 4;
/// Most columns that are named.
const MOST_ALTERED: usize = 1_000;

/// What is found.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Verdict {
    /// Whether the chain holds.
    pub intact: bool,
    /// Events that were looked at.
    pub events: u64,
    /// Number of the first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    /// Number of the last of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<u64>,
    /// Hash of the last of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// The last event that retention removed, by a checkpoint whose signature is good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed_until: Option<u64>,
    /// Events that are missing since the database could not be written, as the trail itself says.
    pub not_stored: u64,
    /// Events that retention removed from between others, as records with a good signature say.
    pub removed_between: u64,
    /// Events of types that this version does not know: their columns were compared in part.
    pub unknown: u64,
    /// The first link that does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken: Option<Broken>,
    /// Further columns that differ from the text of their event, in any event: the first thousand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub altered: Vec<Broken>,
    /// What is wrong with the database around the events: tables, indices and views.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub database: Vec<String>,
}

/// A link that does not hold.
#[derive(Debug, PartialEq, Serialize)]
pub struct Broken {
    /// Number of the event, or of the first that is missing.
    pub seq: u64,
    /// What is wrong.
    pub problem: String,
    /// The column that is not what the event's text says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<&'static str>,
    /// What should be there.
    pub expected: String,
    /// What is.
    pub found: String,
}

/// What of an event's line is held against its row and against the one before.
#[derive(Deserialize)]
struct Line {
    r#type: String,
    timestamp: Timestamp,
    seq: u64,
    previous: String,
    #[serde(default)]
    session_id: Option<String>,
    #[serde(default)]
    server_id: Option<String>,
    #[serde(default)]
    first_missing: Option<u64>,
}

/// Says whether the chain holds. The exit status is 1 where it does not.
///
/// # Errors
/// The database cannot be read.
pub fn verify(options: &AuditVerify) -> Result<ExitCode> {
    let path = &options.database.path;
    let mut reader = Reader::open(path)?;
    let key = options.public_key.clone().unwrap_or_else(|| path.with_file_name(PUBLIC_KEY));
    let shown = std::io::stderr().is_terminal();
    let mut next = Instant::now() + PROGRESS_EVERY;
    let mut progress = |seq: u64| {
        if shown && Instant::now() >= next {
            next = Instant::now() + PROGRESS_EVERY;
            print_progress(format!("\rverified up to event {seq}"));
        }
    };
    let context = || format!("cannot read {}", path.display());
    let is_whole = options.from.is_none() && options.to.is_none();
    let mut tries = 0;
    let verdict = loop {
        tries += 1;
        if tries == HELD {
            // What retention removes meanwhile stays as it was for this reader.
            reader.db().execute_batch("BEGIN").with_context(context)?;
        }
        let removed = reader.removed().with_context(context)?;
        let mut verdict =
            walk(&mut reader, options.from, options.to, &key, &mut progress).with_context(context)?;
        if is_whole && verdict.intact {
            verdict.database = integrity::problems(reader.db()).with_context(context)?;
            verdict.intact = verdict.database.is_empty();
        }
        // What is missing may have been removed while the agent runs and this was reading.
        if verdict.intact
            || tries >= HELD
            || !reader.refresh()? && reader.removed().with_context(context)? == removed
        {
            break verdict;
        }
    };
    if options.json {
        print_json_line(&verdict);
    } else {
        print_line(verdict.text());
    }
    Ok(if verdict.intact { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints the lines of events as they are stored.
///
/// # Errors
/// The database cannot be read.
pub fn export(options: &AuditExport) -> Result<()> {
    let path = &options.database.path;
    let mut reader = Reader::open(path)?;
    let context = || format!("cannot read {}", path.display());
    let bound = |bound| number(&reader, bound).with_context(context);
    let (from, to) = (bound(options.from)?, bound(options.to)?);
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let print = |row: Row| -> Result<bool> {
        if to.is_some_and(|to| row.head.seq > to) {
            return Ok(false);
        }
        out.write_all(&row.body).and_then(|()| out.write_all(b"\n")).map_err(Unwritable)?;
        Ok(true)
    };
    reader.walk(from.unwrap_or(0), print).with_context(context)?;
    Ok(out.flush().map_err(Unwritable)?)
}

/// The number of an event that is named by its number, or of the first at or after a time; past all where there is none.
fn number(reader: &Reader, bound: Option<Bound>) -> Result<Option<u64>> {
    Ok(match bound {
        None => None,
        Some(Bound::Seq(seq)) => Some(seq),
        Some(Bound::Time(time)) => Some(reader.first_since(time.0)?.unwrap_or(u64::MAX)),
    })
}

/// The public key that records of what retention removed are verified with.
struct Key<'a>(&'a Path);

impl Key<'_> {
    /// Whether that is what signed a record: this is asked with the key.
    fn signed(&self, is_signed: impl FnOnce(&[u8]) -> bool) -> Result<bool> {
        let text = fs::read_to_string(self.0)
            .with_context(|| format!("cannot read the public key {}", self.0.display()))?;
        Ok(checkpoint::public_key(&text).is_some_and(|key| is_signed(&key)))
    }

    /// A record that it did not sign.
    fn forged(&self, seq: u64, what: &str) -> Broken {
        let problem = format!("{what} is not signed by this host");
        Broken::new(
            seq,
            &problem,
            format!("a signature of the key in {}", self.0.display()),
            "another".into(),
        )
    }
}

/// Walks the chain.
fn walk(
    reader: &mut Reader,
    from: Option<Bound>,
    to: Option<Bound>,
    key: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<Verdict> {
    let (from, to) = (number(reader, from)?.unwrap_or(1).max(1), number(reader, to)?);
    let key = Key(key);
    let mut verdict = Verdict::default();
    // Where the walk begins: behind what was removed, or at the event before the one that is asked for.
    let mut before = Before::from(Head::START);
    let checkpoints = reader.checkpoints()?;
    if checkpoints > 1 {
        let problem = "there are several checkpoints of what retention removed";
        verdict.broken = Some(Broken::new(0, problem, "at most one".into(), checkpoints.to_string()));
        return Ok(verdict);
    }
    if let Some(checkpoint) = reader.checkpoint()? {
        if !key.signed(|key| checkpoint.is_signed(key))? {
            let what = "the checkpoint of what retention removed";
            verdict.broken = Some(key.forged(checkpoint.removed.seq, what));
            return Ok(verdict);
        }
        verdict.removed_until = Some(checkpoint.removed.seq);
        before = checkpoint.removed.into();
    }
    if let Some(first) = reader.first_before(before.seq + 1)? {
        let expected = format!("no event before {}", before.seq + 1);
        let problem = "an event stands where there is none";
        verdict.broken = Some(Broken::new(first.unsigned_abs(), problem, expected, format!("event {first}")));
        return Ok(verdict);
    }
    if from > before.seq + 1 {
        // The event before the first one has the hash that this one hangs on; what it hangs on itself was not asked.
        before = Before { seq: from - 2, hash: None };
    }
    let mut removals = reader.removals()?.into_iter().peekable();
    // Those before the part that is asked for.
    while removals.next_if(|removal| removal.last.seq <= before.seq).is_some() {}
    reader.walk(before.seq + 1, |row| {
        if to.is_some_and(|to| row.head.seq > to) {
            return Ok(false);
        }
        progress(row.head.seq);
        if let Some(removal) = removals.next_if(|removal| before.is_followed_by(removal, row.head.seq)) {
            if !key.signed(|key| removal.is_signed(key))? {
                verdict.broken = Some(key.forged(removal.first, "the record of what retention removed"));
                return Ok(false);
            }
            match before.follow(&removal) {
                Ok(last) => {
                    verdict.removed_between += last.seq.saturating_sub(before.seq);
                    before = last;
                }
                Err(broken) => {
                    verdict.broken = Some(broken);
                    return Ok(false);
                }
            }
        }
        match check(before, &row) {
            Err(broken) => {
                verdict.broken = Some(broken);
                return Ok(false);
            }
            Ok(missing) => verdict.not_stored += missing,
        }
        let (altered, is_known) = compare(&row);
        verdict.unknown += u64::from(!is_known);
        let left = MOST_ALTERED - verdict.altered.len();
        verdict.altered.extend(altered.into_iter().take(left));
        before = row.head.into();
        if row.head.seq >= from {
            verdict.events += 1;
            verdict.first.get_or_insert(row.head.seq);
            (verdict.last, verdict.head) = (Some(row.head.seq), Some(row.head.hash.to_string()));
        }
        Ok(true)
    })?;
    if to.is_none()
        && verdict.broken.is_none()
        && let Some(removal) = removals.next()
    {
        let problem = "a record of what retention removed stands behind all events";
        verdict.broken = Some(Broken::new(
            removal.first,
            problem,
            format!("no record behind event {}", before.seq),
            format!("one of the events from {} to {}", removal.first, removal.last.seq),
        ));
    }
    if verdict.broken.is_none() && !verdict.altered.is_empty() {
        verdict.broken = Some(verdict.altered.remove(0));
    }
    verdict.intact = verdict.broken.is_none();
    Ok(verdict)
}

/// The event before.
#[derive(Clone, Copy)]
struct Before {
    seq: u64,
    /// `None`: nothing is known of it.
    hash: Option<Hash>,
}

impl From<Head> for Before {
    fn from(head: Head) -> Self {
        Self { seq: head.seq, hash: Some(head.hash) }
    }
}

impl Before {
    /// Whether a record stands for the events behind this one and before another.
    fn is_followed_by(self, removal: &Removal, next: u64) -> bool {
        let first = self.seq + 1;
        // Of what is known nothing of, only a part may be asked for.
        removal.first < next && (removal.first == first || self.hash.is_none() && removal.first < first)
    }

    /// Whether removed events hang on this one: the last of them.
    fn follow(self, removal: &Removal) -> Result<Self, Broken> {
        match self.hash {
            Some(hash) if removal.before != hash => Err(Broken::new(
                removal.first,
                "the record of what retention removed does not hang on the event before",
                hash.to_string(),
                removal.before.to_string(),
            )),
            _ => Ok(removal.last.into()),
        }
    }
}

/// Whether an event hangs on the one before: how many are missing between them, as it says itself.
fn check(before: Before, row: &Row) -> Result<u64, Broken> {
    let Head { seq, hash } = row.head;
    let broken = |seq: u64, problem: &str, expected, found| Err(Broken::new(seq, problem, expected, found));
    let is = Hash::of(&row.body);
    if is != hash || !row.is_binary {
        let found = if row.is_binary { is.to_string() } else { "text in place of bytes".to_owned() };
        return broken(seq, "its text is not what was hashed", hash.to_string(), found);
    }
    let line: Line = match serde_json::from_slice(&row.body) {
        Ok(line) => line,
        Err(error) => return broken(seq, "its text is no event", "an event".into(), error.to_string()),
    };
    if line.seq != seq {
        return Err(Broken::of_column(seq, "seq", line.seq.to_string(), seq.to_string()));
    }
    let next = before.seq + 1;
    if seq != next {
        // But for those that could not be stored, as the event behind them says. They may begin before what was asked for.
        let reported = line.first_missing.filter(|_| line.r#type == "mcp_store_recovered");
        let all = |first: u64| if before.hash.is_some() { first == next } else { first <= next };
        if seq < next || !reported.is_some_and(all) {
            return broken(next, "it is missing", format!("event {next}"), format!("event {seq}"));
        }
        return Ok(seq - next);
    }
    match before.hash.map(|hash| hash.to_string()) {
        Some(hash) if hash != line.previous => {
            broken(seq, "it does not hang on the event before", hash, line.previous)
        }
        _ => Ok(0),
    }
}

/// The columns of an event that are not what its text says, and whether this version knows its type.
fn compare(row: &Row) -> (Vec<Broken>, bool) {
    let held = |expected: &[(&'static str, ValueRef<'_>)]| {
        let column = |name: &str| columns::NAMES.iter().position(|known| *known == name);
        let differs = |(name, expected): &(&'static str, ValueRef<'_>)| {
            let found = ValueRef::from(row.columns.get(column(name)?)?);
            let (text, is) = (columns::shown(*expected), columns::shown(found));
            (found != *expected).then(|| Broken::of_column(row.head.seq, name, text, is))
        };
        expected.iter().filter_map(differs).collect()
    };
    if let Ok(event) = serde_json::from_slice::<Event>(&row.body)
        && let Some(expected) = columns::of(&event)
    {
        return (held(&std::array::from_fn::<_, 8, _>(|at| (columns::NAMES[at], expected[at]))), true);
    }
    // Of a type that another version knows: what all events have.
    let Ok(line) = serde_json::from_slice::<Line>(&row.body) else { return (Vec::new(), false) };
    let time = i64::try_from(line.timestamp.0).unwrap_or(i64::MAX);
    let expected = [
        ("time_ns", ValueRef::Integer(time)),
        ("type", ValueRef::Text(line.r#type.as_bytes())),
        ("session", columns::text(line.session_id.as_deref())),
        ("server", columns::text(line.server_id.as_deref())),
    ];
    (held(&expected), false)
}

impl Broken {
    fn new(seq: u64, problem: &str, expected: String, found: String) -> Self {
        Self { seq, problem: problem.to_owned(), column: None, expected, found }
    }

    fn of_column(seq: u64, column: &'static str, expected: String, found: String) -> Self {
        Self {
            column: Some(column),
            ..Self::new(seq, "its columns are not what its text says", expected, found)
        }
    }

    fn text(&self) -> String {
        let Self { seq, problem, column, expected, found } = self;
        let column = column.map(|column| format!(": {column}")).unwrap_or_default();
        let (expected, found) = (escaped(expected), escaped(found));
        format!("broken at event {seq}: {problem}{column}: expected {expected}, found {found}")
    }
}

impl Verdict {
    fn text(&self) -> String {
        if let Some(broken) = &self.broken {
            let all: Vec<String> = [broken].into_iter().chain(&self.altered).map(Broken::text).collect();
            return all.join("\n");
        }
        if !self.database.is_empty() {
            let all = self.database.iter().map(|problem| format!("broken database: {}", escaped(problem)));
            return all.collect::<Vec<_>>().join("\n");
        }
        let mut text = match (self.first, self.last, &self.head) {
            (Some(first), Some(last), Some(head)) => {
                format!("the chain of {} events holds, from {first} to {last}\nhead {head}", self.events)
            }
            _ => "there are no events".to_owned(),
        };
        if let Some(until) = self.removed_until {
            text += &format!(
                "\nevents up to {until} were removed by retention, as a checkpoint of this host says"
            );
        }
        if self.removed_between > 0 {
            text += &format!(
                "\n{} events between were removed by retention, as records of this host say",
                self.removed_between
            );
        }
        if self.unknown > 0 {
            text += &format!(
                "\nof {} events, which another version wrote, some columns were not compared",
                self.unknown
            );
        }
        if self.not_stored > 0 {
            text += &format!(
                "\n{} events are missing that could not be stored, as the chain says itself",
                self.not_stored
            );
        }
        text
    }
}

#[cfg(test)]
mod tests;
