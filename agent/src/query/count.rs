//! Events, counted: each is looked at once, in the order in which they lie. SQL that groups them would sort them first, with
//! their bodies.

use std::collections::HashSet;

use anyhow::Result;
use mcpwarden_policy::{
    Timestamp,
    event::{Action, CallStatus, Severity},
};
use rusqlite::Connection;

use super::list::severity_of;
use crate::store::conditions::Conditions;

/// What of an event is counted.
#[derive(Debug)]
pub struct Sight<'a> {
    /// Its number.
    pub seq: i64,
    /// When it happened.
    pub time: Timestamp,
    /// In which session.
    pub session: Option<&'a str>,
    /// Of which server.
    pub server: Option<&'a str>,
    /// Of which tool.
    pub tool: Option<&'a str>,
    /// What it is.
    pub what: What,
}

/// What an event is, as far as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A server offers a tool.
    Offer,
    /// Its definition changed.
    Change,
    /// A call, and what came of it.
    Call(Action),
    /// An answer to one.
    Answer(CallStatus),
    /// A rule found something.
    Detection(Severity),
    /// Bytes were not seen: so many.
    Gap(u64),
    /// Anything else.
    Other,
}

/// Hands on every event for which all conditions hold, in no order.
///
/// # Errors
/// They cannot be read.
pub fn each(db: &Connection, conditions: &Conditions, mut take: impl FnMut(&Sight<'_>)) -> Result<()> {
    let mut find = db.prepare(&format!(
        "SELECT seq, time_ns, type, session, server, tool, severity,
            CASE type WHEN 'mcp_tool_called' THEN CAST(body AS TEXT) ->> 'action'
                WHEN 'mcp_tool_result' THEN CAST(body AS TEXT) ->> 'status' END AS came,
            CASE type WHEN 'mcp_capture_gap' THEN CAST(body AS TEXT) ->> 'bytes' END AS bytes
         FROM events{}",
        conditions.sql()
    ))?;
    let mut rows = find.query(conditions.values())?;
    // Columns by their numbers, and nothing copied: there are millions of rows.
    while let Some(row) = rows.next()? {
        let came = row.get_ref(7)?.as_str_or_null()?;
        let what = match row.get_ref(2)?.as_str()? {
            "mcp_tool_seen" => What::Offer,
            "mcp_tool_changed" => What::Change,
            "mcp_tool_called" => What::Call(match came {
                Some("block") => Action::Block,
                Some("alert") => Action::Alert,
                _ => Action::Allow,
            }),
            "mcp_tool_result" => {
                What::Answer(if came == Some("error") { CallStatus::Error } else { CallStatus::Ok })
            }
            "mcp_detection" => {
                row.get::<_, Option<i64>>(6)?.and_then(severity_of).map_or(What::Other, What::Detection)
            }
            "mcp_capture_gap" => What::Gap(row.get::<_, Option<i64>>(8)?.unwrap_or_default().unsigned_abs()),
            _ => What::Other,
        };
        take(&Sight {
            seq: row.get(0)?,
            time: Timestamp(row.get::<_, i64>(1)?.unsigned_abs()),
            session: row.get_ref(3)?.as_str_or_null()?,
            server: row.get_ref(4)?.as_str_or_null()?,
            tool: row.get_ref(5)?.as_str_or_null()?,
            what,
        });
    }
    Ok(())
}

/// Names, each once.
#[derive(Debug, Default)]
pub struct Names(HashSet<String>);

impl Names {
    /// One more, or one of those that there are.
    pub fn add(&mut self, name: Option<&str>) {
        if let Some(name) = name.filter(|name| !self.0.contains(*name)) {
            self.0.insert(name.to_owned());
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }
}
