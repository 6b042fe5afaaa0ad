//! Events, counted: each is looked at once, in the order in which they lie. SQL that groups them would sort them first, with
//! their bodies.

use std::{borrow::Cow, collections::HashSet};

use anyhow::Result;
use mcpwarden_policy::{
    Timestamp,
    event::{Action, CallStatus, Severity},
};
use mcpwarden_store::conditions::Conditions;
use memchr::memmem;
use rusqlite::Connection;
use serde::Deserialize;

use super::list::severity_of;

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
        let body = row.get_ref(7)?.as_blob_or_null()?.unwrap_or_default();
        let what = match row.get_ref(2)?.as_str()? {
            "mcp_tool_seen" => What::Offer,
            "mcp_tool_changed" => What::Change,
            "mcp_tool_called" => What::Call(call(body)),
            "mcp_tool_result" => What::Answer(answer(body)),
            "mcp_detection" => {
                row.get::<_, Option<i64>>(6)?.and_then(severity_of).map_or(What::Other, What::Detection)
            }
            "mcp_capture_gap" => What::Gap(Came::of(body).bytes.unwrap_or_default()),
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
struct Came<'a> {
    #[serde(borrow)]
    action: Option<Cow<'a, str>>,
    #[serde(borrow)]
    status: Option<Cow<'a, str>>,
    bytes: Option<u64>,
}

impl<'a> Came<'a> {
    /// Of what is no body, nothing.
    fn of(body: &'a [u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }
}

/// Whether a body has this as a string somewhere: most have not, and need not be taken apart.
fn has(body: &[u8], quoted: &str) -> bool {
    memmem::find(body, quoted.as_bytes()).is_some()
}

/// What came of a call, by the body of its event.
fn call(body: &[u8]) -> Action {
    if !has(body, "\"block\"") && !has(body, "\"alert\"") {
        return Action::Allow;
    }
    match Came::of(body).action.as_deref() {
        Some("block") => Action::Block,
        Some("alert") => Action::Alert,
        _ => Action::Allow,
    }
}

/// What came of a call, by the body of the event of its answer.
pub fn answer(body: &[u8]) -> CallStatus {
    let failed = has(body, "\"error\"") && Came::of(body).status.as_deref() == Some("error");
    if failed { CallStatus::Error } else { CallStatus::Ok }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Bodies, and what came of it: only what stands at their top counts.
    #[test]
    fn only_top_level_fields_are_counted() {
        for (body, expected) in [
            (r#"{"action":"block","arguments":{"action":"alert"}}"#, Action::Block),
            (r#"{"arguments":{"action":"block"},"action":"alert"}"#, Action::Alert),
            (r#"{"arguments":{"action":"block"},"action":"allow"}"#, Action::Allow),
            (r#"{"arguments":"\"action\":\"block\"","action":"allow"}"#, Action::Allow),
            (r#"{"action":"allow"}"#, Action::Allow),
            ("", Action::Allow),
        ] {
            assert_eq!(call(body.as_bytes()), expected, "{body}");
        }
        for (body, expected) in [
            (r#"{"result":{"status":"ok"},"status":"error"}"#, CallStatus::Error),
            (r#"{"status":"ok","result":{"status":"error"}}"#, CallStatus::Ok),
            (r#"{"status":"ok","error_message":"error"}"#, CallStatus::Ok),
        ] {
            assert_eq!(answer(body.as_bytes()), expected, "{body}");
        }
    }
}
