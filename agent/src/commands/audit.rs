//! `mcpwarden audit`: whether the audit trail is whole, and a copy of it.

use std::{
    fs,
    io::{IsTerminal as _, Write as _},
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use mcpwarden_policy::Timestamp;
use mcpwarden_store::{
    chain::{Hash, Head},
    checkpoint::{self, PUBLIC_KEY},
    reader::{Reader, Row},
};
use serde::{Deserialize, Serialize};

use crate::{
    cli::{AuditExport, AuditVerify, Bound},
    output::{Unwritable, escaped, print_json_line, print_line, print_progress},
};

/// How often progress is shown, to whom looks at a terminal.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

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
    /// The first link that does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken: Option<Broken>,
}

/// A link that does not hold.
#[derive(Debug, PartialEq, Serialize)]
pub struct Broken {
    /// Number of the event, or of the first that is missing.
    pub seq: u64,
    /// What is wrong.
    pub problem: String,
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
    first_missing: Option<u64>,
}

/// Says whether the chain holds. The exit status is 1 where it does not.
///
/// # Errors
/// The database cannot be read.
pub fn verify(options: &AuditVerify) -> Result<ExitCode> {
    let path = &options.database.path;
    let reader = Reader::open(path)?;
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
    let verdict = loop {
        let removed = reader.checkpoint().with_context(context)?;
        let verdict = walk(&reader, options.from, options.to, &key, &mut progress).with_context(context)?;
        // What is missing may have been removed while the agent runs and this was reading.
        if verdict.intact || reader.checkpoint().with_context(context)? == removed {
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
    let reader = Reader::open(path)?;
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

/// Walks the chain.
fn walk(
    reader: &Reader,
    from: Option<Bound>,
    to: Option<Bound>,
    key: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<Verdict> {
    let (from, to) = (number(reader, from)?.unwrap_or(1).max(1), number(reader, to)?);
    let mut verdict = Verdict::default();
    // Where the walk begins: behind what was removed, or at the event before the one that is asked for.
    let mut before = Before::from(Head::START);
    if let Some(checkpoint) = reader.checkpoint()? {
        let signed = fs::read_to_string(key)
            .with_context(|| format!("cannot read the public key {}", key.display()))
            .map(|text| checkpoint::public_key(&text).is_some_and(|key| checkpoint.is_signed(&key)))?;
        if !signed {
            verdict.broken = Some(Broken {
                seq: checkpoint.removed.seq,
                problem: "the checkpoint of what retention removed is not signed by this host".into(),
                expected: format!("a signature of the key in {}", key.display()),
                found: "another".into(),
            });
            return Ok(verdict);
        }
        verdict.removed_until = Some(checkpoint.removed.seq);
        before = checkpoint.removed.into();
    }
    if from > before.seq + 1 {
        // The event before the first one has the hash that this one hangs on; what it hangs on itself was not asked.
        before = Before { seq: from - 2, hash: None };
    }
    reader.walk(before.seq + 1, |row| {
        if to.is_some_and(|to| row.head.seq > to) {
            return Ok(false);
        }
        progress(row.head.seq);
        match check(before, &row) {
            Err(broken) => {
                verdict.broken = Some(broken);
                return Ok(false);
            }
            Ok(missing) => verdict.not_stored += missing,
        }
        before = row.head.into();
        if row.head.seq >= from {
            verdict.events += 1;
            verdict.first.get_or_insert(row.head.seq);
            (verdict.last, verdict.head) = (Some(row.head.seq), Some(row.head.hash.to_string()));
        }
        Ok(true)
    })?;
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

/// Whether an event hangs on the one before: how many are missing between them, as it says itself.
fn check(before: Before, row: &Row) -> Result<u64, Broken> {
    let Row { head: Head { seq, hash }, time, kind, body } = row;
    let broken = |seq: u64, problem: &str, expected: String, found: String| {
        Err(Broken { seq, problem: problem.to_owned(), expected, found })
    };
    let is = Hash::of(body);
    if is != *hash {
        return broken(*seq, "its text is not what was hashed", hash.to_string(), is.to_string());
    }
    let line: Line = match serde_json::from_slice(body) {
        Ok(line) => line,
        Err(error) => return broken(*seq, "its text is no event", "an event".into(), error.to_string()),
    };
    let columns = (*seq, time.0, kind.as_str());
    let text = (line.seq, line.timestamp.0.min(i64::MAX as u64), line.r#type.as_str());
    if columns != text {
        return broken(
            *seq,
            "its columns are not what its text says",
            format!("{text:?}"),
            format!("{columns:?}"),
        );
    }
    let next = before.seq + 1;
    if *seq != next {
        // But for those that could not be stored, as the event behind them says. They may begin before what was asked for.
        let reported = line.first_missing.filter(|_| line.r#type == "mcp_store_recovered");
        let all = |first: u64| if before.hash.is_some() { first == next } else { first <= next };
        if *seq < next || !reported.is_some_and(all) {
            return broken(next, "it is missing", format!("event {next}"), format!("event {seq}"));
        }
        return Ok(seq - next);
    }
    match before.hash.map(|hash| hash.to_string()) {
        Some(hash) if hash != line.previous => {
            broken(*seq, "it does not hang on the event before", hash, line.previous)
        }
        _ => Ok(0),
    }
}

impl Verdict {
    fn text(&self) -> String {
        if let Some(Broken { seq, problem, expected, found }) = &self.broken {
            let (expected, found) = (escaped(expected), escaped(found));
            return format!("broken at event {seq}: {problem}: expected {expected}, found {found}");
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
