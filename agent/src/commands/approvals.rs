//! `mcpwarden approve`, `approvals`, `pins trust`, `pins reset`: what an operator decides about definitions.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use comfy_table::{Cell, ColumnConstraint, Table, Width};
use hyper::Method;
use mcpwarden_policy::{ByHand, Event, EventBody, WaitingTool};
use serde_json::Map;

use crate::{
    cli::{ApprovalsList, ApproveOptions, DecisionOptions, Selection},
    control::{APPROVALS, Decided, NewDecision, NewLimits, PINS, Waiting, client::query_agent},
    output::{self, escaped, limits_text, print_json_line, print_line, seconds, word},
};

/// Longest name of a tool that a table keeps in one piece, with its server's. Columns.
const LONGEST_WHOLE: u16 = 48;

/// Columns beside what is in a cell.
const PADDING: u16 = 2;

/// Denies.
///
/// # Errors
/// No agent answers, or it refuses.
pub fn deny(DecisionOptions { which, hash }: DecisionOptions) -> Result<()> {
    send(which, hash, ByHand::Deny, None)
}

/// Approves.
///
/// # Errors
/// Two tests are of one argument; no agent answers, or it refuses.
pub fn approve(options: ApproveOptions) -> Result<()> {
    let ApproveOptions { decision: DecisionOptions { which, hash }, arguments_match, once, period } = options;
    let mut arguments = Map::new();
    for (pointer, test) in arguments_match.into_iter().flat_map(|tests| tests.0) {
        if arguments.contains_key(&pointer) {
            bail!("--arguments-match has two tests of {}; write them as one", escaped(&pointer));
        }
        arguments.insert(pointer, test);
    }
    let limits = Some(NewLimits { arguments, once, period }).filter(|limits| *limits != NewLimits::default());
    send(which, hash, ByHand::Approve, limits)
}

/// Forgets pins.
///
/// # Errors
/// No agent answers, or it refuses.
pub fn reset(which: Selection) -> Result<()> {
    send(which, None, ByHand::Forget, None)
}

fn send(which: Selection, hash: Option<String>, decision: ByHand, limits: Option<NewLimits>) -> Result<()> {
    let Selection { tool, server, all, uid, program, by, json, agent } = which;
    let (server, tool) = match (server, tool) {
        (Some(server), tool) => (server, tool),
        (None, tool) => {
            let text = tool.unwrap_or_default();
            let id = text.strip_prefix("mcp:").unwrap_or(&text);
            let (server, tool) = id.rsplit_once(':').with_context(|| {
                format!("`{}` names no server; expected SERVER:TOOL, or --server SERVER TOOL", escaped(&text))
            })?;
            (server.to_owned(), Some(tool.to_owned()))
        }
    };
    let new = NewDecision { server, tool, all, decision, uid, program, hash, by, limits };
    let decided = request(&agent.socket, &new)?;
    if json {
        decided.iter().for_each(print_json_line);
    } else {
        sentences(&new, &decided).into_iter().for_each(print_line);
    }
    Ok(())
}

/// Has the agent decide; the events of it.
///
/// # Errors
/// No agent answers, or it refuses.
pub fn request(socket: &Path, new: &NewDecision) -> Result<Vec<Event>> {
    query_agent(socket, Method::POST, PINS, new).map(|Decided { decided }| decided)
}

/// What came of it, for people.
pub fn sentences(new: &NewDecision, decided: &[Event]) -> Vec<String> {
    if decided.is_empty() {
        let done = if new.decision == ByHand::Approve { "approved" } else { "denied" };
        return vec![format!("everything that {} offers is {done} already", escaped(&new.server))];
    }
    decided.iter().map(|event| sentence(&new.server, &event.body)).collect()
}

/// What was decided.
fn sentence(server: &str, body: &EventBody) -> String {
    let short = |hash: &str| escaped(hash.get(..12).unwrap_or(hash));
    let server = escaped(server);
    match body {
        EventBody::ApprovalGranted(granted) => {
            let limits = granted.limits.as_ref().map(limits_text).unwrap_or_default();
            let (tool, hash) = (escaped(&granted.tool_name), short(&granted.tool_hash));
            format!("approved {server}:{tool} ({hash}){limits}")
        }
        EventBody::ApprovalDenied(denied) => {
            format!("denied {server}:{} ({})", escaped(&denied.tool_name), short(&denied.tool_hash))
        }
        EventBody::DefinitionApproved(approved) => {
            let name = [escaped(&approved.name), short(&approved.hash)].join(" ");
            format!("approved {} of {server} ({})", word(&approved.kind).replace('_', " "), name.trim())
        }
        EventBody::PinsReset(reset) => match &reset.tool_name {
            Some(tool) => format!("forgot the pin of {server}:{}", escaped(tool)),
            None => format!("forgot {} pins of {server}", reset.pins),
        },
        other => other.kind().to_owned(),
    }
}

/// Prints the tools that wait.
///
/// # Errors
/// No agent answers, or it refuses.
pub fn list(options: &ApprovalsList) -> Result<()> {
    let Waiting { approvals } = query_agent(&options.agent.socket, Method::GET, APPROVALS, &())?;
    if options.json {
        approvals.iter().for_each(print_json_line);
    } else if approvals.is_empty() {
        print_line("no tool waits for approval");
    } else {
        print_line(output::list_text(&table(&approvals)));
    }
    Ok(())
}

fn table(approvals: &[WaitingTool]) -> Table {
    let mut table = output::list(&["TOOL", "UID", "SEVERITY", "UNTIL", "WHY", "HASH"]);
    let mut longest = 0;
    for tool in approvals {
        let name = escaped(&format!("{}:{}", tool.server_id, tool.tool_name));
        longest = longest.max(u16::try_from(name.chars().count()).unwrap_or(u16::MAX));
        let severity = tool.max_severity.map_or("-".to_owned(), |severity| word(&severity));
        let until = if tool.timed_out { "expired".to_owned() } else { seconds(tool.expires) };
        let row = [
            name,
            tool.whose.uid.map_or_else(|| "-".to_owned(), |uid| uid.to_string()),
            severity,
            until,
            escaped(&tool.reason),
            escaped(tool.tool_hash.get(..12).unwrap_or(&tool.tool_hash)),
        ];
        table.add_row(output::line(row.map(Cell::new)));
    }
    // What is to be typed again stays in one piece, unless somebody made it long.
    if let Some(column) = table.column_mut(0) {
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(
            LONGEST_WHOLE.min(longest) + PADDING,
        )));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcpwarden_policy::{ServerId, SessionId, Timestamp, event::Whose, guard::GuardKind};

    #[test]
    fn pending_approvals_are_shown_escaped() {
        let waiting = WaitingTool {
            server_id: ServerId("files".into()),
            session_id: SessionId("s".into()),
            tool_name: "add\u{1b}[31m".into(),
            tool_hash: "0123456789abcdef".into(),
            whose: Whose { uid: Some(1000), program: None },
            guard: GuardKind::ToolPoisoning,
            code: "approval_required".into(),
            reason: "it has detections".into(),
            max_severity: None,
            requested: Timestamp(1_767_695_400_000_000_000),
            expires: Timestamp(1_767_695_700_000_000_000),
            timed_out: false,
        };
        let expired = WaitingTool { timed_out: true, ..waiting.clone() };
        let text = table(&[waiting, expired]).to_string();
        for part in ["files:add\\u{1b}[31m", "1000", "2026-01-06 10:35:00Z", "expired", "0123456789ab "] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
