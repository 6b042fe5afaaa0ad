//! `mcpwarden connections`: who connected to what, and whether they might.

use comfy_table::Cell;
use mcpwarden_policy::{Timestamp, event::Action};
use mcpwarden_store::conditions::Conditions;
use serde::Serialize;

use super::list::{self, Line, NONE, Row, action_cell, at, by_word, optional, time};
use crate::cli::ConnectionsOptions;

/// A connection that a process opened, or a datagram that it sent somewhere.
#[derive(Debug, Serialize)]
pub struct Connected {
    /// Number of its event.
    pub seq: i64,
    /// When.
    pub timestamp: Timestamp,
    /// `mcp_server_egress` of a server's own process, `mcp_network_connection` of any other.
    pub r#type: String,
    /// In which session.
    pub session_id: Option<String>,
    /// The server whose process it is, or that is connected to.
    pub server_id: Option<String>,
    /// The process.
    pub pid: Option<i64>,
    /// Whose it is.
    pub uid: Option<i64>,
    /// What it runs.
    pub executable: Option<String>,
    /// Address and port.
    pub remote_addr: Option<String>,
    /// The name that this address was the answer for.
    pub remote_name: Option<String>,
    /// What is spoken.
    pub protocol: Option<String>,
    /// What came of it.
    pub action: Option<Action>,
    /// Whether a `block` really stopped it.
    pub enforced: bool,
    /// The rule that decided.
    pub reason: Option<String>,
}

/// Those that are asked for.
pub fn conditions(options: &ConnectionsOptions) -> Conditions {
    list::of_view(&options.which).any("action", &list::words(&options.action))
}

impl Line for Connected {
    const HEADER: &'static [&'static str] =
        &["TIME", "SERVER", "REMOTE", "NAME", "PROTOCOL", "ACTION", "PROGRAM", "PID", "UID", "REASON"];

    fn cells(&self) -> Vec<Cell> {
        let number = |number: Option<i64>| number.map_or_else(|| Cell::new(NONE), Cell::new);
        vec![
            at(self.timestamp),
            optional(self.server_id.as_deref()),
            optional(self.remote_addr.as_deref()),
            optional(self.remote_name.as_deref()),
            optional(self.protocol.as_deref()),
            action_cell(self.action, Some(self.enforced)),
            optional(self.executable.as_deref()),
            number(self.pid),
            number(self.uid),
            optional(self.reason.as_deref()),
        ]
    }
}

impl Row for Connected {
    const VIEW: &'static str = "connections";

    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        // By its number, where it has no name.
        let protocol: rusqlite::types::Value = row.get("protocol")?;
        Ok(Self {
            seq: row.get("seq")?,
            timestamp: time(row, "time_ns")?,
            r#type: row.get("type")?,
            session_id: row.get("session_id")?,
            server_id: row.get("server_id")?,
            pid: row.get("pid")?,
            uid: row.get("uid")?,
            executable: row.get("executable")?,
            remote_addr: row.get("remote_addr")?,
            remote_name: row.get("remote_name")?,
            protocol: match protocol {
                rusqlite::types::Value::Text(text) => Some(text),
                rusqlite::types::Value::Integer(number) => Some(number.to_string()),
                _ => None,
            },
            action: by_word(row.get("action")?),
            enforced: row.get::<_, Option<_>>("enforced")?.unwrap_or_default(),
            reason: row.get("reason")?,
        })
    }
}
