//! `mcpwarden report`: what happened, summed up. One [`Report`] is gathered from the store; `document` lays it out, and
//! `text`, `markdown` and `html` write that.

mod document;
mod html;
mod markdown;
mod text;

use std::collections::BTreeMap;

use anyhow::Result;
use mcpwarden_policy::{
    Timestamp,
    event::{Action, CallStatus, Severity},
};
use mcpwarden_store::conditions::Conditions;
use rusqlite::{Connection, Row};
use serde::Serialize;

use super::{
    count::{self, Names, What},
    list::{SEVERITIES, by_word, of_events, severity, time},
    servers::{BySeverity, Server, Tallies},
};
use crate::host::clock::Clock;
use crate::{
    cli::{ReportFormat, ReportOptions, Which},
    output::{print_json_line, print_line, word},
};

use document::Document;

/// Most rows of one kind; how many there are is said beside them.
const ROWS: usize = 50;
/// Parts that the time is divided into for plots.
const PARTS: u64 = 60;
/// The least length of such a part. Nanoseconds.
const LEAST_PART_NS: u64 = 1_000_000_000;

/// What happened, summed up.
#[derive(Debug, Serialize)]
pub struct Report {
    /// When it was gathered.
    pub generated: Timestamp,
    /// The only session that it is about; null where it is about all.
    pub session_id: Option<String>,
    /// From when on: as it was asked for, or the first event that there is.
    pub since: Timestamp,
    /// Until when.
    pub until: Timestamp,
    /// Events that it is made of.
    pub events: u64,
    /// Servers that they tell of.
    pub servers_connected: u64,
    /// Sessions that they tell of.
    pub sessions: u64,
    /// Tools that servers offered, by server and name.
    pub tools_seen: u64,
    /// Those whose definition was not what was pinned.
    pub tools_changed: u64,
    /// How often a definition was not what was pinned.
    pub changes: u64,
    /// Calls.
    pub calls: u64,
    /// Answers that say that they are errors.
    pub errors: u64,
    /// Calls to which the guards objected.
    pub calls_blocked: u64,
    /// Those that were really stopped.
    pub calls_stopped: u64,
    /// What the rules found.
    pub detections_by_severity: BySeverity,
    /// Bytes of streams that were not seen: what they held is not in this report.
    pub gap_bytes: u64,
    /// Places that servers' processes connected to, or tried to.
    pub destinations: u64,
    /// The servers, by id: the last seen, of more than 50. So of what follows.
    pub servers: Vec<Server>,
    /// What changed, the last first.
    pub changed_tools: Vec<ChangedTool>,
    /// What was found, the worst and the most frequent first.
    pub top_detections: Vec<TopDetection>,
    /// Calls to which the guards objected, the most frequent first.
    pub blocked_calls: Vec<BlockedCalls>,
    /// How many rows `egress` would have in all.
    #[serde(skip)]
    pub egress_rows: u64,
    /// Where servers' processes connected to, what was denied first, then the most frequent.
    pub egress: Vec<Egress>,
    /// How much there was of it over the time.
    pub timeline: Vec<Part>,
}

/// A change of a tool's definition.
#[derive(Debug, Serialize)]
pub struct ChangedTool {
    /// When it was said.
    pub timestamp: Timestamp,
    /// Of which server.
    pub server_id: Option<String>,
    /// Which tool.
    pub tool_name: Option<String>,
    /// Hash of the pinned definition.
    pub previous_hash: Option<String>,
    /// Hash of the new one.
    pub new_hash: Option<String>,
    /// The worst that was found in the new one.
    pub max_severity: Option<Severity>,
    /// What came of it.
    pub action: Option<Action>,
}

/// What a rule found in what a server or a tool says.
#[derive(Debug, Serialize)]
pub struct TopDetection {
    /// Which server.
    pub server_id: Option<String>,
    /// Which tool, where it is about one.
    pub tool_name: Option<String>,
    /// Id of the rule.
    pub pattern: Option<String>,
    /// What kind of attack it looks for.
    pub category: Option<String>,
    /// How bad it is.
    pub severity: Option<Severity>,
    /// How often.
    pub count: u64,
}

/// Calls to which a guard objected for one reason.
#[derive(Debug, Serialize)]
pub struct BlockedCalls {
    /// Of which server.
    pub server_id: Option<String>,
    /// Of which tool.
    pub tool_name: Option<String>,
    /// Which guard.
    pub guard: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// How many.
    pub count: u64,
    /// How many of them were really stopped.
    pub stopped: u64,
}

/// A place that processes of a server connected to, or tried to.
#[derive(Debug, Serialize)]
pub struct Egress {
    /// Which server.
    pub server_id: Option<String>,
    /// Address and port.
    pub remote_addr: Option<String>,
    /// The name that this address was the answer for.
    pub remote_name: Option<String>,
    /// What came of it.
    pub action: Option<Action>,
    /// How often.
    pub count: u64,
    /// How often it was really stopped.
    pub stopped: u64,
}

/// A part of the time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// Its beginning.
    pub timestamp: Timestamp,
    /// Calls in it.
    pub calls: u64,
    /// Calls in it to which the guards objected.
    pub blocked: u64,
    /// What the rules found in it.
    pub detections: u64,
}

/// Prints it as it is asked for.
///
/// # Errors
/// It cannot be gathered.
pub fn print(db: &Connection, options: &ReportOptions) -> Result<()> {
    let report = Report::gather(db, options, Clock::new().now())?;
    let document = || Document::new(&report);
    match options.format {
        ReportFormat::Text => print_line(text::write(&document())),
        ReportFormat::Json => print_json_line(&report),
        ReportFormat::Html => print_line(html::write(&document())),
        ReportFormat::Markdown => print_line(markdown::write(&document())),
    }
    Ok(())
}

impl Report {
    /// Gathers it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn gather(db: &Connection, options: &ReportOptions, now: Timestamp) -> Result<Self> {
        let which = Which {
            session: options.session.iter().cloned().collect(),
            since: options.since,
            until: options.until,
            ..Which::default()
        };
        let all = of_events(&which);
        let ends = format!("SELECT min(time_ns), max(time_ns) FROM events{}", all.sql());
        let (first, last) = db.query_row(&ends, all.values(), |row| Ok((row.get(0)?, row.get(1)?)))?;
        let [first, last] =
            [first, last].map(|end: Option<i64>| end.map_or(now, |end| Timestamp(end.unsigned_abs())));
        let since = options.since.map_or(first, |since| since.0);
        // The last event is before the end.
        let until = options.until.map_or(Timestamp(last.0.saturating_add(1)), |until| until.0.min(now));
        let mut report = Self {
            generated: now,
            session_id: options.session.clone(),
            since,
            until,
            events: 0,
            servers_connected: 0,
            sessions: 0,
            tools_seen: 0,
            tools_changed: 0,
            changes: 0,
            calls: 0,
            errors: 0,
            calls_blocked: 0,
            calls_stopped: 0,
            detections_by_severity: BySeverity::new(),
            gap_bytes: 0,
            destinations: 0,
            servers: Vec::new(),
            changed_tools: Vec::new(),
            top_detections: Vec::new(),
            blocked_calls: Vec::new(),
            egress_rows: 0,
            egress: Vec::new(),
            timeline: parts(since, until),
        };
        let blocked = report.count(db, &all, now)?;
        report.blocked(db, &blocked)?;
        report.found(db, &all)?;
        report.connected(db, &all)?;
        report.changed(db, &all)?;
        Ok(report)
    }

    /// Counts all events. The numbers of calls to which the guards objected.
    fn count(&mut self, db: &Connection, all: &Conditions, now: Timestamp) -> Result<Vec<i64>> {
        let mut tallies = Tallies::default();
        let (mut sessions, mut seen, mut changed) = (Names::default(), Names::default(), Names::default());
        let mut blocked = Vec::new();
        let length = part_length(self.since, self.until);
        count::each(db, all, |sight| {
            self.events += 1;
            tallies.add(sight);
            sessions.add(sight.session);
            // No id of a server has blanks.
            let tool = || Some(format!("{} {}", sight.server?, sight.tool?));
            let part = usize::try_from(sight.time.nanos_since(self.since) / length).ok();
            let mut nowhere = Part { timestamp: sight.time, calls: 0, blocked: 0, detections: 0 };
            // Or it came after the ends were read.
            let part = part.and_then(|part| self.timeline.get_mut(part)).unwrap_or(&mut nowhere);
            match sight.what {
                What::Offer => seen.add(tool().as_deref()),
                What::Change => {
                    self.changes += 1;
                    changed.add(tool().as_deref());
                }
                What::Call(action) => {
                    (self.calls, part.calls) = (self.calls + 1, part.calls + 1);
                    if action == Action::Block {
                        part.blocked += 1;
                        blocked.push(sight.seq);
                    }
                }
                What::Answer(status) => self.errors += u64::from(status == CallStatus::Error),
                What::Detection(severity) => {
                    part.detections += 1;
                    *self.detections_by_severity.entry(severity).or_default() += 1;
                }
                What::Gap(bytes) => self.gap_bytes = self.gap_bytes.saturating_add(bytes),
                What::Other => {}
            }
        })?;
        (self.sessions, self.tools_seen) = (sessions.count(), seen.count());
        (self.tools_changed, self.servers_connected) = (changed.count(), tallies.count());
        self.servers = tallies.servers(db, Some(ROWS as u64), now)?;
        Ok(blocked)
    }

    fn changed(&mut self, db: &Connection, all: &Conditions) -> Result<()> {
        let conditions = all.clone().holds("type = 'mcp_tool_changed'");
        self.changed_tools = rows(
            db,
            &format!(
                "SELECT time_ns, server, tool, severity, CAST(body AS TEXT) ->> 'previous_hash' AS previous,
                    CAST(body AS TEXT) ->> 'new_hash' AS new, CAST(body AS TEXT) ->> 'action' AS action
                 FROM events{} ORDER BY time_ns DESC, seq DESC LIMIT {ROWS}",
                conditions.sql()
            ),
            &conditions,
            |row| {
                Ok(ChangedTool {
                    timestamp: time(row, "time_ns")?,
                    server_id: row.get("server")?,
                    tool_name: row.get("tool")?,
                    previous_hash: row.get("previous")?,
                    new_hash: row.get("new")?,
                    max_severity: severity(row, "severity")?,
                    action: by_word(row.get("action")?),
                })
            },
        )?;
        Ok(())
    }

    fn found(&mut self, db: &Connection, all: &Conditions) -> Result<()> {
        let conditions = all.clone().holds("type = 'mcp_detection' AND severity IS NOT NULL");
        let of = conditions.sql();
        self.top_detections = rows(
            db,
            &format!(
                "SELECT server, tool, severity, found ->> 'pattern' AS pattern, found ->> 'category' AS category,
                    count(*) AS count
                 FROM (SELECT *, coalesce(CAST(body AS TEXT) -> 'detection', CAST(body AS TEXT)) AS found
                       FROM events{of})
                 GROUP BY server, tool, pattern, category, severity
                 ORDER BY severity DESC, count DESC, server, tool, pattern LIMIT {ROWS}"
            ),
            &conditions,
            |row| {
                Ok(TopDetection {
                    server_id: row.get("server")?,
                    tool_name: row.get("tool")?,
                    pattern: row.get("pattern")?,
                    category: row.get("category")?,
                    severity: severity(row, "severity")?,
                    count: number(row, "count")?,
                })
            },
        )?;
        Ok(())
    }

    fn blocked(&mut self, db: &Connection, calls: &[i64]) -> Result<()> {
        let mut groups: BTreeMap<[Option<String>; 4], (u64, u64)> = BTreeMap::new();
        let mut find =
            db.prepare("SELECT server_id, tool_name, guard, reason, enforced FROM calls WHERE seq = ?1")?;
        for seq in calls {
            let mut rows = find.query([seq])?;
            // Or it was removed meanwhile, for its age.
            let Some(row) = rows.next()? else { continue };
            let key = [row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?];
            let stopped = u64::from(row.get::<_, Option<bool>>(4)?.unwrap_or_default());
            let (all, really) = groups.entry(key).or_default();
            (*all, *really) = (*all + 1, *really + stopped);
            self.calls_blocked += 1;
            self.calls_stopped += stopped;
        }
        for ([server_id, tool_name, guard, reason], (count, stopped)) in groups {
            self.blocked_calls.push(BlockedCalls { server_id, tool_name, guard, reason, count, stopped });
        }
        self.blocked_calls.sort_by_key(|blocked| std::cmp::Reverse(blocked.count));
        self.blocked_calls.truncate(ROWS);
        Ok(())
    }

    fn connected(&mut self, db: &Connection, all: &Conditions) -> Result<()> {
        let conditions = all.clone().holds("type = 'mcp_server_egress'");
        let grouped = format!(
            "SELECT server, text ->> 'remote_addr' AS remote, max(text ->> 'remote_name') AS name,
                text ->> 'action' AS action, count(*) AS count, sum(text ->> 'enforced') AS stopped
             FROM (SELECT *, CAST(body AS TEXT) AS text FROM events{}) GROUP BY server, remote, action",
            conditions.sql()
        );
        let totals = format!(
            "SELECT count(*) AS rows, count(DISTINCT server || ' ' || remote) AS places FROM ({grouped})"
        );
        (self.egress_rows, self.destinations) = db.query_row(&totals, conditions.values(), |row| {
            Ok((number(row, "rows")?, number(row, "places")?))
        })?;
        self.egress = rows(
            db,
            &format!("{grouped} ORDER BY action = 'block' DESC, count DESC, server, remote LIMIT {ROWS}"),
            &conditions,
            |row| {
                Ok(Egress {
                    server_id: row.get("server")?,
                    remote_addr: row.get("remote")?,
                    remote_name: row.get("name")?,
                    action: by_word(row.get("action")?),
                    count: number(row, "count")?,
                    stopped: number(row, "stopped")?,
                })
            },
        )?;
        Ok(())
    }

    /// How many detections there are.
    pub fn detections(&self) -> u64 {
        self.detections_by_severity.values().sum()
    }

    /// How many there are of each severity, the worst first.
    pub fn by_severity(&self) -> impl Iterator<Item = (Severity, u64)> {
        let count = |severity| self.detections_by_severity.get(&severity).copied().unwrap_or_default();
        SEVERITIES.into_iter().rev().map(move |severity| (severity, count(severity)))
    }
}

/// How long a part of the time is. Nanoseconds.
fn part_length(since: Timestamp, until: Timestamp) -> u64 {
    until.nanos_since(since).div_ceil(PARTS).max(LEAST_PART_NS)
}

/// The parts of the time, with nothing in them.
fn parts(since: Timestamp, until: Timestamp) -> Vec<Part> {
    let length = part_length(since, until);
    let begin = |number: u64| Timestamp(since.0.saturating_add(number.saturating_mul(length)));
    let empty = |number| Part { timestamp: begin(number), calls: 0, blocked: 0, detections: 0 };
    (0..until.nanos_since(since).div_ceil(length)).map(empty).collect()
}

fn rows<T>(
    db: &Connection,
    sql: &str,
    conditions: &Conditions,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    db.prepare(sql)?.query_map(conditions.values(), read)?.collect()
}

/// A number of a row; 0 where there is nothing to count.
fn number(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    Ok(row.get::<_, Option<i64>>(column)?.unwrap_or_default().unsigned_abs())
}

/// The word of a value that may not be there.
fn word_of(value: Option<&impl Serialize>) -> String {
    value.map_or_else(String::new, word)
}

#[cfg(test)]
mod tests;
