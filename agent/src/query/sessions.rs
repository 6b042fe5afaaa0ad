//! `mcpwarden sessions`: what one client process did with its servers.

use std::collections::HashMap;

use anyhow::Result;
use comfy_table::Cell;
use mcpwarden_policy::{
    Timestamp,
    event::{Action, Severity},
};
use mcpwarden_store::conditions::Conditions;
use rusqlite::{Connection, OptionalExtension as _};
use serde::Serialize;
use serde_json::Value;

use super::{
    count::{self, Names, Sight, What},
    list::{Line, NONE, at, optional, severity_cell, text},
};

/// A session, by what its events tell.
#[derive(Debug, Serialize)]
pub struct Session {
    /// Its id.
    pub session_id: String,
    /// Its client, `pid`, `executable` and `argv` as `mcp_server_started` has them; null where the start of no server is
    /// stored any more.
    pub client: Value,
    /// Its first event.
    pub first_seen: Timestamp,
    /// Its last event.
    pub last_seen: Timestamp,
    /// Servers that it spoke to.
    pub servers: u64,
    /// Calls that it made.
    pub calls: u64,
    /// Calls to which the guards objected.
    pub blocked: u64,
    /// What the rules found.
    pub detections: u64,
    /// The worst of that.
    pub max_severity: Option<Severity>,
}

/// What the events of one session add up to.
#[derive(Debug)]
struct Tally {
    first: Timestamp,
    last: Timestamp,
    servers: Names,
    calls: u64,
    blocked: u64,
    detections: u64,
    worst: Option<Severity>,
}

/// The sessions of these events, by their last one; the last, of more than `limit`.
///
/// # Errors
/// They cannot be read.
pub fn gather(db: &Connection, conditions: &Conditions, limit: Option<u64>) -> Result<Vec<Session>> {
    let mut tallies: HashMap<String, Tally> = HashMap::new();
    count::each(db, conditions, |sight| {
        let Some(session) = sight.session else { return };
        if !tallies.contains_key(session) {
            tallies.insert(session.to_owned(), Tally::new(sight.time));
        }
        if let Some(tally) = tallies.get_mut(session) {
            tally.add(sight);
        }
    })?;
    let mut tallies: Vec<(String, Tally)> = tallies.into_iter().collect();
    tallies.sort_by(|(a, left), (b, right)| (left.last, a).cmp(&(right.last, b)));
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    tallies.drain(..tallies.len().saturating_sub(limit));
    let mut started = db.prepare(
        "SELECT CAST(body AS TEXT) -> 'client' AS client FROM events
         WHERE session = ?1 AND type = 'mcp_server_started' AND client IS NOT NULL ORDER BY time_ns LIMIT 1",
    )?;
    let session = |(session_id, tally): (String, Tally)| {
        let client: Option<String> = started.query_row([&session_id], |row| row.get(0)).optional()?;
        Ok(Session {
            client: client.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default(),
            session_id,
            first_seen: tally.first,
            last_seen: tally.last,
            servers: tally.servers.count(),
            calls: tally.calls,
            blocked: tally.blocked,
            detections: tally.detections,
            max_severity: tally.worst,
        })
    };
    tallies.into_iter().map(session).collect()
}

impl Tally {
    fn new(time: Timestamp) -> Self {
        let servers = Names::default();
        Self { first: time, last: time, servers, calls: 0, blocked: 0, detections: 0, worst: None }
    }

    fn add(&mut self, sight: &Sight<'_>) {
        (self.first, self.last) = (self.first.min(sight.time), self.last.max(sight.time));
        self.servers.add(sight.server);
        match sight.what {
            What::Call(action) => {
                self.calls += 1;
                self.blocked += u64::from(action == Action::Block);
            }
            What::Detection(severity) => {
                self.detections += 1;
                self.worst = self.worst.max(Some(severity));
            }
            _ => {}
        }
    }
}

impl Line for Session {
    const HEADER: &'static [&'static str] = &[
        "SESSION",
        "CLIENT",
        "PID",
        "FIRST SEEN",
        "LAST SEEN",
        "SERVERS",
        "CALLS",
        "BLOCKED",
        "DETECTIONS",
        "WORST",
    ];

    fn cells(&self) -> Vec<Cell> {
        let pid = self.client.get("pid").and_then(Value::as_u64);
        vec![
            text(&self.session_id),
            optional(self.client.get("executable").and_then(Value::as_str)),
            pid.map_or_else(|| Cell::new(NONE), Cell::new),
            at(self.first_seen),
            at(self.last_seen),
            Cell::new(self.servers),
            Cell::new(self.calls),
            Cell::new(self.blocked),
            Cell::new(self.detections),
            severity_cell(self.max_severity),
        ]
    }
}
