//! Mutes of detections, for people.

use mcpwarden_policy::event::Mute;

use crate::words::clean;

/// What a mute is for, until when, by whom, and why.
pub fn describe(mute: &Mute) -> String {
    let until = mute.until.map(|until| format!(" until {until}")).unwrap_or_default();
    let by = mute
        .by
        .as_deref()
        .map_or_else(|| "by the configuration".to_owned(), |by| format!("by {}", clean(by)));
    format!("{}{until} {by}: {}", what(mute), clean(&mute.reason))
}

/// What a mute is for: its rules, server and tool.
pub fn what(mute: &Mute) -> String {
    let rule = mute.rule.as_deref().map_or_else(|| "every rule".to_owned(), clean);
    let server = mute.server.as_deref().map_or_else(|| "every server".to_owned(), clean);
    let tool = mute.tool.as_deref().map(|tool| format!(":{}", clean(tool))).unwrap_or_default();
    let hash = mute.tool_hash.as_deref();
    let hash = hash.map(|hash| format!(" ({})", clean(hash.get(..12).unwrap_or(hash)))).unwrap_or_default();
    format!("{rule} of {server}{tool}{hash}")
}
