//! `mcpwarden servers`: what each server did, and how it does.

use std::collections::BTreeMap;

use anyhow::Result;
use comfy_table::{Cell, Color};
use mcpwarden_policy::{Timestamp, event::Severity};
use rusqlite::Connection;
use serde::Serialize;

use super::{
    health::{self, Health},
    list::{Line, NONE, SEVERITIES, at, coloured, optional, text, time},
};
use crate::{
    output::{escaped, word},
    store::{conditions::Conditions, integer},
};

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
    /// How it did in the last hour; null where nothing was seen of it then.
    pub health: Option<Health>,
    /// Why it is not healthy.
    pub reasons: Vec<String>,
}

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
    let lately = health::lately(db, now)?;
    let conditions = conditions.clone().holds("server IS NOT NULL");
    // Other columns than aggregates are those of the row that `max` found. `+`: in the order of the table, since by the index
    // each row would be looked up on its own.
    let mut find = db.prepare(&format!(
        "SELECT server, max(time_ns) AS last_ns, CAST(body AS TEXT) ->> 'server_type' AS server_type,
            count(DISTINCT session) AS sessions,
            count(DISTINCT CASE type WHEN 'mcp_tool_seen' THEN tool END) AS tools,
            sum(type = 'mcp_tool_called') AS calls,
            sum(CASE type WHEN 'mcp_tool_result' THEN CAST(body AS TEXT) ->> 'status' = 'error' ELSE 0 END) AS errors,
            sum(type = 'mcp_detection' AND severity = 0) AS low, sum(type = 'mcp_detection' AND severity = 1) AS medium,
            sum(type = 'mcp_detection' AND severity = 2) AS high, sum(type = 'mcp_detection' AND severity = 3) AS critical
         FROM events{} GROUP BY +server ORDER BY last_ns DESC LIMIT {}",
        conditions.sql(),
        limit.map_or(-1, integer)
    ))?;
    let mut rows = find.query(conditions.values())?;
    let mut servers = Vec::new();
    while let Some(row) = rows.next()? {
        let count = |column: &str| -> rusqlite::Result<u64> { Ok(row.get::<_, i64>(column)?.unsigned_abs()) };
        let server_id: String = row.get("server")?;
        let (health, reasons) = lately.get(&server_id).map_or((None, Vec::new()), health::Lately::health);
        let mut detections_by_severity = BySeverity::new();
        for severity in SEVERITIES {
            let found = count(&word(&severity))?;
            if found > 0 {
                detections_by_severity.insert(severity, found);
            }
        }
        servers.push(Server {
            server_id,
            server_type: row.get("server_type")?,
            sessions: count("sessions")?,
            tools: count("tools")?,
            calls: count("calls")?,
            errors: count("errors")?,
            detections_by_severity,
            last_seen: time(row, "last_ns")?,
            health,
            reasons,
        });
    }
    servers.sort_by(|a, b| a.server_id.cmp(&b.server_id));
    Ok(servers)
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
