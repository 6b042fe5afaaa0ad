//! `mcpwarden calls`: what tools were asked, what was decided, and what they answered.

use std::{collections::HashMap, time::Duration};

use anyhow::Result;
use comfy_table::{Cell, Color};
use mcpwarden_policy::{
    Timestamp,
    event::{Action, CallStatus},
};
use mcpwarden_store::conditions::Conditions;
use rusqlite::Connection;
use serde::Serialize;
use serde_json::value::RawValue;

use super::list::{self, Line, NONE, Row, action_cell, at, by_word, coloured, optional, text, time};
use crate::cli::CallsOptions;

/// How long after a call its answer is looked for.
const ANSWERED_WITHIN: Duration = Duration::from_secs(3_600);
/// How much earlier than its call an answer can have been recorded.
const RECORDED_FIRST: Duration = Duration::from_secs(1);

/// A call of a tool.
#[derive(Debug, Serialize)]
pub struct Call {
    /// Number of its event.
    pub seq: i64,
    /// When it was made.
    pub timestamp: Timestamp,
    /// Whose.
    pub session_id: Option<String>,
    /// On which server.
    pub server_id: Option<String>,
    /// On which connection.
    pub connection: Option<u64>,
    /// Which tool.
    pub tool_name: String,
    /// Id of the request, as it was sent.
    pub jsonrpc_id: Option<Box<RawValue>>,
    /// What the tool does.
    pub category: Option<String>,
    /// What the guards decided.
    pub action: Option<Action>,
    /// Whether a `block` really stopped it.
    pub enforced: bool,
    /// Which guard objects, of a `block`; which warned first, of an `alert`.
    pub guard: Option<String>,
    /// Why, of a `block`.
    pub reason: Option<String>,
    /// How it was answered; null where no answer is stored.
    pub status: Option<CallStatus>,
    /// From request to answer, in nanoseconds.
    pub latency_ns: Option<u64>,
}

/// Those that are asked for.
pub fn conditions(options: &CallsOptions) -> Conditions {
    list::of_view(&options.which).any("tool_name", &options.tool).any("action", &list::words(&options.action))
}

impl Line for Call {
    const HEADER: &'static [&'static str] =
        &["TIME", "SESSION", "SERVER", "TOOL", "CATEGORY", "ACTION", "ANSWER", "TOOK", "REASON"];

    fn cells(&self) -> Vec<Cell> {
        vec![
            at(self.timestamp),
            optional(self.session_id.as_deref()),
            optional(self.server_id.as_deref()),
            text(&self.tool_name),
            optional(self.category.as_deref()),
            action_cell(self.action, Some(self.enforced)),
            match self.status {
                None => Cell::new(NONE),
                Some(CallStatus::Ok) => Cell::new("ok"),
                Some(CallStatus::Error) => coloured("error", Color::Red),
            },
            self.latency_ns.map_or_else(|| Cell::new(NONE), |nanos| Cell::new(took(nanos))),
            optional(self.reason.as_deref()),
        ]
    }
}

/// The number of a connection: it can be beyond those that SQLite has.
fn number(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<u64>> {
    Ok(row.get::<_, Option<String>>("connection")?.and_then(|text| text.parse().ok()))
}

/// A duration, short.
fn took(nanos: u64) -> String {
    format!("{:.1?}", Duration::from_nanos(nanos))
}

impl Row for Call {
    const VIEW: &'static str = "calls";

    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            seq: row.get("seq")?,
            timestamp: time(row, "time_ns")?,
            session_id: row.get("session_id")?,
            server_id: row.get("server_id")?,
            connection: number(row)?,
            tool_name: row.get::<_, Option<_>>("tool_name")?.unwrap_or_default(),
            jsonrpc_id: row
                .get::<_, Option<String>>("jsonrpc_id")?
                .and_then(|json| RawValue::from_string(json).ok()),
            category: row.get("category")?,
            action: by_word(row.get("action")?),
            enforced: row.get::<_, Option<_>>("enforced")?.unwrap_or_default(),
            guard: row.get("guard")?,
            reason: row.get("reason")?,
            status: None,
            latency_ns: None,
        })
    }

    /// An answer belongs to the last call before it with its id, on its connection, that has none.
    fn complete(calls: &mut [Self], db: &Connection) -> Result<()> {
        type Key = (Option<String>, Option<u64>, Option<String>);
        let (Some(first), Some(last)) = (calls.first(), calls.last()) else { return Ok(()) };
        let (first, last) = (first.timestamp.before(RECORDED_FIRST), last.timestamp.after(ANSWERED_WITHIN));
        let mut open: HashMap<Key, Vec<usize>> = HashMap::new();
        for (index, call) in calls.iter().enumerate() {
            let id = call.jsonrpc_id.as_ref().map(|id| id.get().to_owned());
            open.entry((call.session_id.clone(), call.connection, id)).or_default().push(index);
        }
        let mut sessions: Vec<String> = calls.iter().filter_map(|call| call.session_id.clone()).collect();
        sessions.sort_unstable();
        sessions.dedup();
        let conditions = Conditions::default()
            .holds("type = 'mcp_tool_result'")
            .any("session", &sessions)
            .between("time_ns", Some(first), Some(last));
        let mut answers = db.prepare(&format!(
            "SELECT seq, session, text -> 'connection' AS connection, text -> 'jsonrpc_id' AS id,
                text ->> 'status' AS status, text ->> 'latency_ns' AS latency
             FROM (SELECT *, CAST(body AS TEXT) AS text FROM events{}) ORDER BY time_ns, seq",
            conditions.sql()
        ))?;
        let mut answers = answers.query(conditions.values())?;
        let mut left = calls.len();
        while left > 0
            && let Some(answer) = answers.next()?
        {
            let key = (answer.get("session")?, number(answer)?, answer.get("id")?);
            let seq: i64 = answer.get("seq")?;
            let Some(waiting) = open.get_mut(&key) else { continue };
            let before = |index: &usize| calls.get(*index).is_some_and(|call| call.seq < seq);
            let Some(at) = waiting.iter().rposition(before) else { continue };
            if let Some(call) = calls.get_mut(waiting.remove(at)) {
                call.status = by_word(answer.get("status")?);
                call.latency_ns = answer.get::<_, Option<i64>>("latency")?.map(i64::unsigned_abs);
                left -= 1;
            }
        }
        Ok(())
    }
}
