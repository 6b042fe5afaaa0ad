//! `mcpwarden sessions`: what one client process did with its servers.

use anyhow::Result;
use comfy_table::Cell;
use mcpwarden_policy::Timestamp;
use rusqlite::Connection;
use serde::Serialize;
use serde_json::Value;

use super::list::{Line, NONE, at, optional, severity, severity_cell, text, time};
use crate::store::{conditions::Conditions, integer};

/// A session, by what its events tell.
#[derive(Debug, Serialize)]
pub struct Session {
    /// Its id.
    pub session_id: String,
    /// Its client, `pid`, `executable` and `argv` as `mcp_server_started` has them; null where no server's start is among
    /// the events.
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
    pub max_severity: Option<mcpwarden_policy::event::Severity>,
}

/// The sessions of these events, by their last one; the last, of more than `limit`.
///
/// # Errors
/// They cannot be read.
pub fn gather(db: &Connection, conditions: &Conditions, limit: Option<u64>) -> Result<Vec<Session>> {
    let conditions = conditions.clone().holds("session IS NOT NULL");
    let mut find = db.prepare(&format!(
        "SELECT session, min(time_ns) AS first_ns, max(time_ns) AS last_ns, count(DISTINCT server) AS servers,
            max(CASE type WHEN 'mcp_server_started' THEN CAST(body AS TEXT) -> 'client' END) AS client,
            sum(type = 'mcp_tool_called') AS calls,
            sum(CASE type WHEN 'mcp_tool_called' THEN CAST(body AS TEXT) ->> 'action' = 'block' ELSE 0 END) AS blocked,
            sum(type = 'mcp_detection') AS detections,
            max(CASE type WHEN 'mcp_detection' THEN severity END) AS severity
         FROM events{} GROUP BY +session ORDER BY last_ns DESC LIMIT {}",
        conditions.sql(),
        limit.map_or(-1, integer)
    ))?;
    let rows = find.query_map(conditions.values(), |row| {
        let count = |column: &str| -> rusqlite::Result<u64> { Ok(row.get::<_, i64>(column)?.unsigned_abs()) };
        Ok(Session {
            session_id: row.get("session")?,
            client: row
                .get::<_, Option<String>>("client")?
                .and_then(|json| serde_json::from_str(&json).ok())
                .unwrap_or_default(),
            first_seen: time(row, "first_ns")?,
            last_seen: time(row, "last_ns")?,
            servers: count("servers")?,
            calls: count("calls")?,
            blocked: count("blocked")?,
            detections: count("detections")?,
            max_severity: severity(row, "severity")?,
        })
    })?;
    let mut sessions = rows.collect::<Result<Vec<_>, _>>()?;
    sessions.reverse();
    Ok(sessions)
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
