//! `mcpwarden tools`: what servers offer, from the events about it and from the pins.

use std::{collections::BTreeMap, path::Path};

use anyhow::Result;
use comfy_table::{Cell, Color};
use mcpwarden_policy::{
    Timestamp,
    event::{Detection, Severity, ToolStatus, Whose},
    guard::{RiskLevel, ToolCategory},
    registry::ItemKind,
};
use mcpwarden_store::{
    conditions::Conditions,
    database::DatabaseError,
    registry::{self, PINS, Pin},
};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::list::{self, Line, NONE, at, coloured, optional, severity_cell, text, time};
use crate::commands::pins;
use crate::{cli::ToolsOptions, output::word};

/// What stands for the state of a tool that is not pinned: as `pins list` has it.
const NOT_PINNED: &str = "not pinned";

/// A tool that a server offers, or offered.
#[derive(Debug, PartialEq, Serialize)]
pub struct Tool {
    /// Its server.
    pub server_id: String,
    /// Its name.
    pub tool_name: String,
    /// User id that the server runs as; null where it is not known.
    pub uid: Option<u32>,
    /// Path of the server's executable or script; null where it is not known.
    pub program: Option<String>,
    /// `pinned`, `changed`, `denied`, `removed` or `not pinned`.
    pub state: String,
    /// Hash of the definition that was seen last.
    pub tool_hash: String,
    /// Hash of the pinned one; null where it has no pin.
    pub pinned_hash: Option<String>,
    /// Who approved that, and when.
    pub approved: Option<mcpwarden_policy::registry::Approval>,
    /// Approvals of some calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limited: Vec<mcpwarden_policy::registry::LimitedApproval>,
    /// When it was first seen.
    pub first_seen: Timestamp,
    /// When it was last seen.
    pub last_seen: Timestamp,
    /// The worst that was found in its definition.
    pub max_severity: Option<Severity>,
    /// What it does; null where the event that says so is not stored any more. So of the next two.
    pub category: Option<ToolCategory>,
    /// How risky that is.
    pub risk_level: Option<RiskLevel>,
    /// What it has an effect on.
    pub side_effect_tags: Option<Vec<String>>,
}

/// What the events tell of one definition of a tool.
#[derive(Debug)]
pub struct Offered {
    /// When it was first seen with it.
    pub first_seen: Timestamp,
    /// When it was last seen with it.
    pub last_seen: Timestamp,
    /// What was said then.
    pub seen: SeenTool,
}

/// What of `mcp_tool_seen` is of use here.
#[derive(Debug, Deserialize)]
pub struct SeenTool {
    tool_hash: String,
    status: ToolStatus,
    category: ToolCategory,
    risk_level: RiskLevel,
    #[serde(default)]
    side_effect_tags: Vec<String>,
    max_severity: Option<Severity>,
    /// What the rules found in the definition.
    pub detections: Vec<Detection>,
    /// The definition; only with full payloads.
    #[serde(default)]
    pub definition: Option<Value>,
}

/// Definitions by server, tool and hash.
pub type Offers = BTreeMap<(String, String, String), Offered>;

/// Those that are asked for, by server and name.
///
/// # Errors
/// They cannot be read.
pub fn find(db: &Connection, options: &ToolsOptions) -> Result<Vec<Tool>> {
    let path = &options.shown.database.path;
    let offers = offers(db, &Conditions::default().any("server", &options.server))?;
    let mut pins = pins_beside(path)?;
    pins.retain(|pin| pin.item.kind == ItemKind::Tool);
    let mut tools = gather(&offers, &pins);
    tools.retain(|tool| {
        (options.server.is_empty() || options.server.contains(&tool.server_id))
            && (!options.changed || tool.has_changed())
            && options.severity.is_none_or(|least| tool.max_severity >= Some(least))
            && options.risk.is_none_or(|least| tool.risk_level >= Some(least))
            && (options.side_effect.is_empty()
                || tool.side_effect_tags.iter().flatten().any(|effect| options.side_effect.contains(effect)))
    });
    if let Some(limit) = list::limit(&options.shown).and_then(|limit| usize::try_from(limit).ok())
        && tools.len() > limit
    {
        tools.sort_by_key(|tool| std::cmp::Reverse(tool.last_seen));
        tools.truncate(limit);
        tools.sort_by(|a, b| a.key().cmp(&b.key()));
    }
    Ok(tools)
}

/// What events for which all conditions hold tell of tools.
///
/// # Errors
/// They cannot be read.
pub fn offers(db: &Connection, conditions: &Conditions) -> Result<Offers> {
    let conditions = conditions.clone().holds("type = 'mcp_tool_seen'");
    let mut find = db.prepare(&format!(
        "SELECT server, tool, time_ns, body FROM events{} ORDER BY time_ns, seq",
        conditions.sql()
    ))?;
    let mut rows = find.query(conditions.values())?;
    let mut offers = Offers::new();
    while let Some(row) = rows.next()? {
        // Of another version: it can say other things.
        let Ok(seen) = serde_json::from_slice::<SeenTool>(row.get_ref("body")?.as_bytes()?) else { continue };
        let (server, tool): (Option<String>, Option<String>) = (row.get("server")?, row.get("tool")?);
        let now = time(row, "time_ns")?;
        let key = (server.unwrap_or_default(), tool.unwrap_or_default(), seen.tool_hash.clone());
        let first_seen = offers.get(&key).map_or(now, |offered| offered.first_seen);
        offers.insert(key, Offered { first_seen, last_seen: now, seen });
    }
    Ok(offers)
}

/// The pins in the database beside that of events; none where there is no such database (`registry.persistent: false`).
///
/// # Errors
/// They cannot be read.
pub fn pins_beside(events: &Path) -> Result<Vec<Pin>> {
    let db = match registry::SCHEMA.read(&events.with_file_name(PINS)) {
        Err(DatabaseError::Missing(_)) => return Ok(Vec::new()),
        opened => opened?,
    };
    let mut pins = Vec::new();
    registry::each(&db, |pin| {
        pins.push(pin);
        Ok(())
    })?;
    Ok(pins)
}

/// All tools, by server and name: one for each pin, and one for each tool that only events tell of.
pub fn gather(offers: &Offers, pins: &[Pin]) -> Vec<Tool> {
    let mut tools: Vec<Tool> = pins.iter().map(|pin| Tool::pinned(pin, offers)).collect();
    let mut others: BTreeMap<(&str, &str), (&str, &Offered)> = BTreeMap::new();
    for ((server, tool, hash), offered) in offers {
        let last = others.entry((server, tool)).or_insert((hash, offered));
        if offered.last_seen >= last.1.last_seen {
            *last = (hash, offered);
        }
    }
    for pin in pins {
        others.remove(&(&*pin.key.server.0, pin.item.name.as_str()));
    }
    tools.extend(others.into_iter().map(|((server, tool), (_, offered))| Tool::seen(server, tool, offered)));
    tools.sort_by(|a, b| a.key().cmp(&b.key()));
    tools
}

impl Tool {
    fn pinned(pin: &Pin, offers: &Offers) -> Self {
        let Pin { key, item, record } = pin;
        let server_id = key.server.to_string();
        let offered = offers.get(&(server_id.clone(), item.name.clone(), record.current.clone()));
        let seen = offered.map(|offered| &offered.seen);
        let Whose { uid, program } = Whose::from(key);
        Self {
            server_id,
            tool_name: item.name.clone(),
            uid,
            program,
            state: pins::state(pin).to_owned(),
            tool_hash: record.current.clone(),
            pinned_hash: Some(record.hash.clone()),
            approved: record.approved.clone(),
            limited: record.limited.to_vec(),
            first_seen: record.first_seen,
            // That of the pin is exact to the minute.
            last_seen: offered.map_or(record.last_seen, |offered| offered.last_seen.max(record.last_seen)),
            max_severity: record.max_severity,
            category: seen.map(|seen| seen.category),
            risk_level: seen.map(|seen| seen.risk_level),
            side_effect_tags: seen.map(|seen| seen.side_effect_tags.clone()),
        }
    }

    fn seen(server: &str, tool: &str, offered: &Offered) -> Self {
        let seen = &offered.seen;
        let changed = seen.status == ToolStatus::Changed;
        Self {
            server_id: server.to_owned(),
            tool_name: tool.to_owned(),
            uid: None,
            program: None,
            state: if changed { word(&seen.status) } else { NOT_PINNED.to_owned() },
            tool_hash: seen.tool_hash.clone(),
            pinned_hash: None,
            approved: None,
            limited: Vec::new(),
            first_seen: offered.first_seen,
            last_seen: offered.last_seen,
            max_severity: seen.max_severity,
            category: Some(seen.category),
            risk_level: Some(seen.risk_level),
            side_effect_tags: Some(seen.side_effect_tags.clone()),
        }
    }

    /// Whether a pin is of this tool.
    pub fn is_of(&self, pin: &Pin) -> bool {
        let Pin { key, item, .. } = pin;
        (&*key.server.0, &item.name, key.uid) == (&self.server_id, &self.tool_name, self.uid)
            && key.program == self.program.as_deref().unwrap_or_default()
            && self.pinned_hash.is_some()
    }

    fn has_changed(&self) -> bool {
        self.pinned_hash.as_ref().map_or(self.state == "changed", |pinned| *pinned != self.tool_hash)
    }

    fn key(&self) -> (&str, &str, Option<u32>, Option<&str>) {
        (&self.server_id, &self.tool_name, self.uid, self.program.as_deref())
    }
}

impl Line for Tool {
    const HEADER: &'static [&'static str] = &[
        "SERVER",
        "TOOL",
        "UID",
        "STATE",
        "WORST",
        "RISK",
        "CATEGORY",
        "SIDE EFFECTS",
        "LAST SEEN",
        "HASH",
        "PROGRAM",
    ];

    fn cells(&self) -> Vec<Cell> {
        let effects = self.side_effect_tags.as_ref().map(|effects| effects.join(" "));
        let hash = &self.tool_hash;
        vec![
            text(&self.server_id),
            text(&self.tool_name),
            self.uid.map_or_else(|| Cell::new(NONE), Cell::new),
            state_cell(&self.state),
            severity_cell(self.max_severity),
            optional(self.risk_level.map(|risk| word(&risk)).as_deref()),
            optional(self.category.map(|category| word(&category)).as_deref()),
            optional(effects.as_deref()),
            at(self.last_seen),
            Cell::new(hash.get(..12).unwrap_or(hash)),
            optional(self.program.as_deref()),
        ]
    }
}

fn state_cell(state: &str) -> Cell {
    match state {
        "changed" | "denied" => coloured(state, Color::Red),
        "removed" | NOT_PINNED => coloured(state, Color::Yellow),
        _ => Cell::new(state),
    }
}
