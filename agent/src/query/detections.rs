//! `mcpwarden detections`: what the rules found.

use comfy_table::Cell;
use mcpwarden_policy::{
    Timestamp,
    event::{Action, Severity},
};
use mcpwarden_store::conditions::Conditions;
use serde::Serialize;

use super::list::{self, Line, Row, action_cell, at, by_word, optional, severity, severity_cell, time};
use crate::cli::DetectionsOptions;

/// What one rule found in one field.
#[derive(Debug, Serialize)]
pub struct Detection {
    /// Number of its event.
    pub seq: i64,
    /// When.
    pub timestamp: Timestamp,
    /// In which session.
    pub session_id: Option<String>,
    /// Of which server.
    pub server_id: Option<String>,
    /// Which tool, where it is about one.
    pub tool_name: Option<String>,
    /// How bad it is.
    pub severity: Option<Severity>,
    /// What kind of attack the rule looks for.
    pub category: Option<String>,
    /// Id of the rule.
    pub pattern: Option<String>,
    /// Which text it is in.
    pub subject: Option<String>,
    /// The field, as a JSON Pointer.
    pub field: Option<String>,
    /// What came of it.
    pub action: Option<Action>,
    /// Whether it is muted.
    pub muted: bool,
    /// The mute that applied, where it is muted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mute_id: Option<String>,
}

/// Those that are asked for.
pub fn conditions(options: &DetectionsOptions) -> Conditions {
    let conditions = list::of_view(&options.which);
    let conditions = if options.muted { conditions } else { conditions.holds("NOT muted") };
    conditions
        .any("tool_name", &options.tool)
        .at_least("severity", options.severity)
        .any("category", &list::words(&options.category))
}

impl Line for Detection {
    const HEADER: &'static [&'static str] = &[
        "TIME", "SEVERITY", "CATEGORY", "PATTERN", "SERVER", "TOOL", "SUBJECT", "FIELD", "ACTION", "SESSION",
    ];

    fn cells(&self) -> Vec<Cell> {
        vec![
            at(self.timestamp),
            severity_cell(self.severity),
            optional(self.category.as_deref()),
            optional(self.pattern.as_deref()),
            optional(self.server_id.as_deref()),
            optional(self.tool_name.as_deref()),
            optional(self.subject.as_deref()),
            optional(self.field.as_deref()),
            // Whether it was stopped is said by the call's event, or the answer's.
            if self.muted { Cell::new("muted") } else { action_cell(self.action, None) },
            optional(self.session_id.as_deref()),
        ]
    }
}

impl Row for Detection {
    const VIEW: &'static str = "detections";

    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            seq: row.get("seq")?,
            timestamp: time(row, "time_ns")?,
            session_id: row.get("session_id")?,
            server_id: row.get("server_id")?,
            tool_name: row.get("tool_name")?,
            severity: severity(row, "severity")?,
            category: row.get("category")?,
            pattern: row.get("pattern")?,
            subject: row.get("subject")?,
            field: row.get("field")?,
            action: by_word(row.get("action")?),
            muted: row.get("muted")?,
            mute_id: row.get("mute_id")?,
        })
    }
}
