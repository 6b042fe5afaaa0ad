//! `mcpwarden servers`: what each server did, and how it does.

use std::collections::{BTreeMap, HashMap};

use anyhow::Result;
use comfy_table::{Cell, Color};
use mcpwarden_policy::{
    Timestamp,
    event::{CallStatus, Severity},
};
use mcpwarden_store::conditions::Conditions;
use rusqlite::{Connection, OptionalExtension as _};
use serde::Serialize;

use super::{
    count::{self, Names, Sight, What},
    health::{self, Health},
    list::{Line, NONE, at, coloured, optional, text},
};
use crate::output::{escaped, word};

/// Detections by their severity, the least first; those that are none are left out.
pub type BySeverity = BTreeMap<Severity, u64>;

/// A server, by what its events tell.
#[derive(Debug, Serialize)]
pub struct Server {
    /// Its id.
    pub server_id: String,
    /// How it is reached: `stdio`, `http` or `sse`.
    pub server_type: Option<String>,
    /// Sessions that spoke to it.
    pub sessions: u64,
    /// Tools that it offered, by name.
    pub tools: u64,
    /// Calls that it was sent.
    pub calls: u64,
    /// Answers that say that they are errors.
    pub errors: u64,
    /// What the rules found.
    pub detections_by_severity: BySeverity,
    /// Its last event.
    pub last_seen: Timestamp,
    /// How it did in the last hour, and whether it could be listed last; null where nothing is known of either.
    pub health: Option<Health>,
    /// Why it is not healthy.
    pub reasons: Vec<String>,
}

/// What the events of one server add up to.
#[derive(Debug, Default)]
struct Tally {
    last: Timestamp,
    sessions: Names,
    tools: Names,
    calls: u64,
    errors: u64,
    detections: BySeverity,
}

/// Servers, counted.
#[derive(Debug, Default)]
pub struct Tallies(HashMap<String, Tally>);

/// The servers of these events, by id; the last seen, of more than `limit`.
///
/// # Errors
/// They cannot be read.
pub fn gather(
    db: &Connection,
    conditions: &Conditions,
    limit: Option<u64>,
    now: Timestamp,
) -> Result<Vec<Server>> {
    let mut tallies = Tallies::default();
    count::each(db, conditions, |sight| tallies.add(sight))?;
    tallies.servers(db, limit, now)
}

impl Tallies {
    /// Counts an event.
    pub fn add(&mut self, sight: &Sight<'_>) {
        let Some(server) = sight.server else { return };
        if !self.0.contains_key(server) {
            self.0.insert(server.to_owned(), Tally::default());
        }
        let Some(tally) = self.0.get_mut(server) else { return };
        tally.last = tally.last.max(sight.time);
        tally.sessions.add(sight.session);
        match sight.what {
            What::Offer => tally.tools.add(sight.tool),
            What::Call(_) => tally.calls += 1,
            What::Answer(status) => tally.errors += u64::from(status == CallStatus::Error),
            What::Detection(severity) => *tally.detections.entry(severity).or_default() += 1,
            What::Change | What::Gap(_) | What::Other => {}
        }
    }

    /// How many servers there are.
    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// What they add up to, by id; the last seen, of more than `limit`.
    ///
    /// # Errors
    /// What else there is to say of them cannot be read.
    pub fn servers(self, db: &Connection, limit: Option<u64>, now: Timestamp) -> Result<Vec<Server>> {
        let mut tallies: Vec<(String, Tally)> = self.0.into_iter().collect();
        if let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok())
            && tallies.len() > limit
        {
            tallies.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.last));
            tallies.truncate(limit);
        }
        tallies.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut latest_type = db.prepare(
            "SELECT CAST(body AS TEXT) ->> 'server_type' FROM events WHERE server = ?1 ORDER BY time_ns DESC LIMIT 1",
        )?;
        let lately = health::lately(db, now)?;
        let server = |(server_id, tally): (String, Tally)| {
            let (health, reasons) = lately.get(&server_id).map_or((None, Vec::new()), health::Lately::health);
            let server_type = latest_type.query_row([&server_id], |row| row.get(0)).optional()?.flatten();
            Ok(Server {
                server_id,
                server_type,
                sessions: tally.sessions.count(),
                tools: tally.tools.count(),
                calls: tally.calls,
                errors: tally.errors,
                detections_by_severity: tally.detections,
                last_seen: tally.last,
                health,
                reasons,
            })
        };
        tallies.into_iter().map(server).collect()
    }
}

impl Line for Server {
    const HEADER: &'static [&'static str] = &[
        "SERVER",
        "TYPE",
        "SESSIONS",
        "TOOLS",
        "CALLS",
        "ERRORS",
        "DETECTIONS",
        "LAST SEEN",
        "HEALTH",
        "WHY",
    ];

    fn cells(&self) -> Vec<Cell> {
        vec![
            text(&self.server_id),
            optional(self.server_type.as_deref()),
            Cell::new(self.sessions),
            Cell::new(self.tools),
            Cell::new(self.calls),
            Cell::new(self.errors),
            detections_cell(&self.detections_by_severity),
            at(self.last_seen),
            match self.health {
                None => Cell::new(NONE),
                Some(Health::Healthy) => coloured("healthy", Color::Green),
                Some(Health::Degraded) => coloured("degraded", Color::Yellow),
                Some(Health::Unhealthy) => coloured("unhealthy", Color::Red),
            },
            Cell::new(escaped(&self.reasons.join("; "))),
        ]
    }
}

/// The worst first: `1 critical, 3 low`.
pub fn spelled(found: &BySeverity) -> String {
    let texts: Vec<String> =
        found.iter().rev().map(|(severity, count)| format!("{count} {}", word(severity))).collect();
    if texts.is_empty() { NONE.to_owned() } else { texts.join(", ") }
}

fn detections_cell(found: &BySeverity) -> Cell {
    match found.keys().next_back() {
        None => Cell::new(NONE),
        Some(worst) => {
            let colour = if *worst < Severity::High { Color::Yellow } else { Color::Red };
            coloured(&spelled(found), colour)
        }
    }
}
