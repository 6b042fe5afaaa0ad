//! `mcpwarden registry show`: everything of one tool.

use std::path::Path;

use anyhow::{Result, ensure};
use mcpwarden_policy::{
    event::{Detection, GrantLimits},
    registry::ItemKind,
};
use mcpwarden_store::{
    conditions::Conditions,
    registry::{self, PINS, Pin},
};
use rusqlite::Connection;
use serde::Serialize;
use serde_json::Value;

use super::{
    changes::{definition, is_named},
    list::NONE,
    tools::{self, Offers, Tool},
};
use crate::output::{escaped, limits_text, print_json_line, print_line, seconds, word};

/// A tool with what only `show` says of it.
#[derive(Debug, Serialize)]
pub struct Shown {
    /// `tool`, `prompt`, `resource_template`, `instructions` or `interface`.
    kind: &'static str,
    #[serde(flatten)]
    tool: Tool,
    /// Definitions that somebody denied.
    denied: Vec<mcpwarden_policy::registry::Denied>,
    /// What the rules found in the definition.
    detections: Vec<Detection>,
    /// The definition that was seen last; null where it is not kept.
    definition: Option<Value>,
}

/// Prints it, for each user and program that serves it.
///
/// # Errors
/// Nothing is known of it, or it cannot be read.
pub fn print(db: &Connection, events: &Path, name: &str, json: bool) -> Result<()> {
    let found = find(db, events, name)?;
    ensure!(!found.is_empty(), "nothing is known of {}; see tools", escaped(name));
    for shown in &found {
        if json {
            print_json_line(shown);
        } else {
            print_line(shown.text());
        }
    }
    Ok(())
}

/// What is known of it, for each user and program that serves it.
///
/// # Errors
/// It cannot be read.
pub fn find(db: &Connection, events: &Path, name: &str) -> Result<Vec<Shown>> {
    let mut pins = tools::pins_beside(events)?;
    pins.retain(|pin| is_named(pin, name));
    let mut offers = tools::offers(db, &Conditions::default())?;
    offers.retain(|(server, tool, _), _| {
        name.strip_prefix(server.as_str()).and_then(|rest| rest.strip_prefix(':')) == Some(tool)
    });
    let tools = tools::gather(&offers, &pins);
    tools.into_iter().map(|tool| Shown::new(tool, &offers, &pins, events)).collect()
}

impl Shown {
    fn new(tool: Tool, offers: &Offers, pins: &[Pin], events: &Path) -> Result<Self> {
        let key = (tool.server_id.clone(), tool.tool_name.clone(), tool.tool_hash.clone());
        let seen = offers.get(&key).map(|offered| &offered.seen);
        let pin = pins.iter().find(|pin| tool.is_of(pin));
        let kept = match pin {
            Some(pin) => {
                let db = registry::SCHEMA.read(&events.with_file_name(PINS))?;
                definition(&db, &pin.record.current)?.and_then(|text| serde_json::from_str(&text).ok())
            }
            None => None,
        };
        Ok(Self {
            kind: registry::word(pin.map_or(ItemKind::Tool, |pin| pin.item.kind)),
            denied: pin.map(|pin| pin.record.denied.clone()).unwrap_or_default(),
            detections: seen.map(|seen| seen.detections.clone()).unwrap_or_default(),
            definition: kept.or_else(|| seen.and_then(|seen| seen.definition.clone())),
            tool,
        })
    }

    /// What people read.
    pub fn text(&self) -> String {
        let tool = &self.tool;
        let or_none = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
        let mut lines = vec![format!("{}:{}", escaped(&tool.server_id), escaped(&tool.tool_name))];
        let mut row = |what: &str, text: String| lines.push(format!("  {what:<13} {text}"));
        row("kind", self.kind.to_owned());
        row("uid", or_none(tool.uid.map(|uid| uid.to_string())));
        row("program", or_none(tool.program.as_deref().map(escaped)));
        row("state", tool.state.clone());
        row("hash", tool.tool_hash.clone());
        row("pinned hash", or_none(tool.pinned_hash.clone()));
        let by = |approval: &mcpwarden_policy::registry::Approval| {
            format!("by {} at {}", escaped(&approval.by), seconds(approval.at))
        };
        row("approved", or_none(tool.approved.as_ref().map(by)));
        for known in &tool.limited {
            let limits = limits_text(&GrantLimits::from(&known.limits));
            row("approved for", format!("some calls{limits} {}", by(&known.said)));
        }
        for denied in &self.denied {
            row("denied", format!("{} {}", denied.hash, by(&denied.said)));
        }
        row("first seen", seconds(tool.first_seen));
        row("last seen", seconds(tool.last_seen));
        row("category", or_none(tool.category.as_ref().map(word)));
        row("risk", or_none(tool.risk_level.as_ref().map(word)));
        let effects = tool.side_effect_tags.as_ref().filter(|effects| !effects.is_empty());
        row("side effects", or_none(effects.map(|effects| escaped(&effects.join(" ")))));
        row("worst finding", or_none(tool.max_severity.as_ref().map(word)));
        for found in &self.detections {
            let text = found.matches.first().map(|found| escaped(&found.text)).unwrap_or_default();
            let (severity, category) = (word(&found.severity), word(&found.category));
            let (pattern, field) = (escaped(&found.pattern), escaped(&found.field));
            row("found", format!("{severity} {category} {pattern} in {field}: {text:?}"));
        }
        match &self.definition {
            None => row("definition", "is not kept".to_owned()),
            Some(definition) => {
                let text = serde_json::to_string_pretty(definition).unwrap_or_default();
                lines.push("  definition".to_owned());
                lines.extend(text.lines().map(|line| format!("    {}", escaped(line))));
            }
        }
        lines.join("\n")
    }
}
