//! Events, counted: each is looked at once, in the order in which they lie. SQL that groups them would sort them first, with
//! their bodies.

use std::{borrow::Cow, collections::HashSet};

use anyhow::Result;
use mcpwarden_policy::{
    Timestamp,
    event::{Action, CallStatus, Severity},
};
use rusqlite::{Connection, types::ValueRef};
use serde::Deserialize;

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
    // Bodies are read here: SQLite takes several times as long for a key of one.
    let mut find = db.prepare(&format!(
        "SELECT seq, time_ns, type, session, server, tool, severity,
            CASE WHEN type IN ('mcp_tool_called', 'mcp_tool_result', 'mcp_capture_gap') THEN body END
         FROM events{}",
        conditions.sql()
    ))?;
    let mut rows = find.query(conditions.values())?;
    // Columns by their numbers, and nothing copied: there are millions of rows.
    while let Some(row) = rows.next()? {
        let came = Came::of(row.get_ref(7)?);
        let what = match row.get_ref(2)?.as_str()? {
            "mcp_tool_seen" => What::Offer,
            "mcp_tool_changed" => What::Change,
            "mcp_tool_called" => What::Call(match came.action.as_deref() {
                Some("block") => Action::Block,
                Some("alert") => Action::Alert,
                _ => Action::Allow,
            }),
            "mcp_tool_result" => What::Answer(came.answer()),
            "mcp_detection" => {
                row.get::<_, Option<i64>>(6)?.and_then(severity_of).map_or(What::Other, What::Detection)
            }
            "mcp_capture_gap" => What::Gap(came.bytes.unwrap_or_default()),
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

/// What a body says of what came of something.
#[derive(Default, Deserialize)]
pub struct Came<'a> {
    #[serde(borrow)]
    action: Option<Cow<'a, str>>,
    #[serde(borrow)]
    status: Option<Cow<'a, str>>,
    bytes: Option<u64>,
}

impl<'a> Came<'a> {
    /// What this body says; of none, and of what is none, nothing.
    pub fn of(body: ValueRef<'a>) -> Self {
        let bytes = body.as_bytes().unwrap_or_default();
        serde_json::from_slice(bytes).unwrap_or_default()
    }

    /// What came of a call.
    pub fn answer(&self) -> CallStatus {
        if self.status.as_deref() == Some("error") { CallStatus::Error } else { CallStatus::Ok }
    }
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
