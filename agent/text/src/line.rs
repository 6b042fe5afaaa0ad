//! One readable line an event.
//!
//! Names and texts come from strangers: nothing of theirs reaches the terminal unescaped. What takes more than a few words is in
//! `agent`, `server` and `network`, by what the event is about.

mod agent;
mod network;
mod server;

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use mcpwarden_policy::{
    Event, EventBody,
    event::{
        Action, CallsBlocked, CallsUnblocked, Decided, GuardModified, GuardRecovered, SinkRecovered, Table,
    },
    registry::Diff,
};

use crate::{
    mark, mute,
    words::{clean, value, way, word},
};

/// How a line is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// With ANSI colours.
    pub colour: bool,
    /// With the date (UTC) before the time.
    pub dated: bool,
}

struct Line {
    colour: bool,
    text: String,
}

/// Appends the line without its line feed.
pub fn write(event: &Event, shown: Shown, out: &mut Vec<u8>) {
    let mut line = Line { colour: shown.colour, text: String::with_capacity(160) };
    let time = event.timestamp.to_string();
    // Hours, minutes, seconds and milliseconds.
    let from = if shown.dated { 0 } else { 11 };
    line.styled(Style::new().dimmed(), &time.get(from..23).unwrap_or(&time).replace('T', " "));
    line.text.push(' ');
    what(event, &mut line);
    out.extend_from_slice(line.text.as_bytes());
}

/// The same without the time, for programs that show it to people: plain, with single blanks.
pub fn summary(event: &Event) -> String {
    let mut line = Line { colour: false, text: String::with_capacity(160) };
    what(event, &mut line);
    line.text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn what(event: &Event, line: &mut Line) {
    let (mark, style) = mark::of(&event.body);
    line.styled(style.bold(), mark);
    if let Some(server) = &event.server_id {
        line.text.push(' ');
        line.styled(Style::new().bold(), &clean(&server.0));
        for relay in &event.via {
            line.styled(Style::new().dimmed(), &format!(" via {}", clean(&relay.0)));
        }
    }
    body(event, line);
    if let Some(repeats) = event.repeats {
        line.dim(&format!("  {repeats} times"));
    }
}

fn body(event: &Event, line: &mut Line) {
    match &event.body {
        EventBody::AgentStarted(started) => agent::started(started, line),
        EventBody::ConfigReloaded(reloaded) => agent::reloaded(reloaded, line),
        EventBody::ConfigRefused(refused) => {
            line.plain(&format!("  the previous configuration stays in force: {}", clean(&refused.error)));
        }
        EventBody::AgentStopped(stopped) => agent::stopped(stopped, line),
        EventBody::StoreFailing(failing) => line.plain(&format!("  {}", clean(&failing.reason))),
        EventBody::SinkFailing(failing) => {
            line.plain(&format!("  {} takes no events: {}", clean(&failing.sink), clean(&failing.reason)));
        }
        EventBody::SinkRecovered(recovered) => {
            let SinkRecovered { sink, events_dropped } = recovered;
            line.plain(&format!("  {} takes events again; {events_dropped} were dropped", clean(sink)));
        }
        EventBody::AuditHead(head) => {
            line.dim(&format!("  {} events", head.events));
            if let Some(link) = &event.link {
                line.dim(&format!("  {} {}", link.seq, link.previous));
            }
        }
        EventBody::StoreRecovered(recovered) => {
            line.plain(&format!("  events are stored again; {} were not", recovered.events_lost));
        }
        EventBody::StoreReplaced(replaced) => agent::store_replaced(replaced, line),
        EventBody::ClockStep(step) => line.plain(&format!(
            "  the wall clock was set {} ms {}; timeouts and rates follow the clock since boot",
            step.step_ms.unsigned_abs(),
            if step.step_ms < 0 { "back" } else { "forward" },
        )),
        EventBody::StoreReadersCut(cut) => agent::readers_cut(cut, line),
        EventBody::StoreTrimmed(trimmed) => {
            let whose = trimmed.uid.map_or_else(|| "the agent".to_owned(), |uid| format!("user {uid}"));
            line.plain(&format!("  the {} oldest events of {whose} were removed", trimmed.events));
        }
        EventBody::AgentLoss(loss) => agent::loss(loss, line),
        EventBody::ServerStarted(started) => server::started(started, line),
        EventBody::ServerInitialized(ready) => server::initialized(ready, line),
        EventBody::ToolSeen(tool) => {
            line.plain(&format!("  {}", clean(&tool.tool_name)));
            if let Some(description) = &tool.description {
                line.dim(&format!("  {}", clean(description)));
            }
        }
        EventBody::InterfaceSeen(interface) => {
            line.plain(&format!("  {}", clean(&interface.uri)));
            line.dim(&format!("  {}", clean(&interface.ui_grants.join(", "))));
        }
        EventBody::ToolChanged(changed) => {
            line.plain(&format!("  {}", clean(&changed.tool_name)));
            fields(&changed.diff, line);
        }
        EventBody::DefinitionChanged(changed) => {
            line.plain(&format!("  {} {}", word(&changed.kind), clean(&changed.name)));
            fields(&changed.diff, line);
        }
        EventBody::ToolRemoved(removed) => line.plain(&format!("  {}", clean(&removed.tool_name))),
        EventBody::ListChanged(changed) => line.plain(&format!("  {}", word(&changed.list))),
        EventBody::Detected(found) => {
            let detection = &found.detection;
            line.plain(&format!("  {} {}", word(&detection.severity), clean(&detection.pattern)));
            line.plain(&format!(" in {}", word(&found.subject)));
            if let Some(tool) = &found.tool_name {
                line.plain(&format!(" of {}", clean(tool)));
            }
            line.dim(&format!(" {}", clean(&detection.field)));
            if let Some(first) = detection.matches.first() {
                line.plain(&format!("  {:?}", clean(&first.text)));
            }
        }
        EventBody::CrossServerBlocked(blocked) => {
            line.plain(&format!("  {} {}", clean(&blocked.blocked_tool_name), clean(&blocked.reason)));
        }
        EventBody::GuardLoaded(loaded) => {
            line.plain(&format!(
                "  {} {} (contract {})",
                loaded.guard.name(),
                clean(&loaded.guard_name),
                clean(&loaded.contract)
            ));
            if let Some(hash) = &loaded.module_hash {
                line.dim(&format!("  sha256:{}", clean(hash)));
            }
        }
        EventBody::GuardFailing(failing) => {
            let effect = if failing.denies { "it denies meanwhile" } else { "it allows meanwhile" };
            line.plain(&format!("  {}: {}; {effect}", clean(&failing.guard_name), clean(&failing.reason)));
        }
        EventBody::GuardRecovered(recovered) => {
            let GuardRecovered { guard_name, failures, .. } = recovered;
            line.plain(&format!("  {} answers again after {failures} failures", clean(guard_name)));
        }
        EventBody::GuardDenied(denied) => {
            line.plain(&format!("  {}: {}", clean(&denied.guard_name), clean(&denied.reason)));
            line.plain(&format!(" ({}; holds for the {}", clean(&denied.code), word(&denied.scope)));
            if let Some(until) = denied.valid_until {
                line.plain(&format!(" until {until}"));
            }
            line.plain(")");
            let tools: Vec<String> = denied.tools.iter().map(|tool| clean(tool)).collect();
            line.plain(&format!(" {}", tools.join(", ")));
        }
        EventBody::GuardModified(modified) => {
            let GuardModified { guard_name, action, message, .. } = modified;
            line.plain(&format!("  {} {}: {}", clean(guard_name), clean(action), clean(message)));
        }
        EventBody::RequestBlocked(blocked) => {
            line.plain(&format!("  {} {}", clean(&blocked.method), clean(&blocked.reason)));
        }
        EventBody::GateDecided(gate) => {
            line.plain(&format!("  {} {}", word(&gate.action), clean(&gate.reason)));
        }
        EventBody::RequestWarned(warned) => {
            line.plain(&format!("  {}", clean(&warned.method)));
            for warning in &warned.warnings {
                line.plain(&format!("  {}", clean(warning)));
            }
            if !warned.tools_left_out.is_empty() {
                line.plain(&format!("  left out: {}", clean(&warned.tools_left_out.join(", "))));
            }
        }
        EventBody::ProtocolViolation(breach) => {
            line.plain(&format!("  {} in a {} conversation", word(&breach.violation), word(&breach.era)));
            if let Some(method) = &breach.method {
                line.plain(&format!("  {}", clean(method)));
            }
            for (name, text) in [("expected", &breach.expected), ("found", &breach.found)] {
                if let Some(text) = text {
                    line.dim(&format!("  {name} {}", clean(text)));
                }
            }
        }
        EventBody::ApprovalRequested(requested) => {
            line.plain(&format!("  {} {}", clean(&requested.tool_name), clean(&requested.reason)));
            line.dim(&format!("  {}", clean(&requested.tool_hash)));
        }
        EventBody::ApprovalGranted(granted) => {
            let limited = if granted.limits.is_some() { " for some calls" } else { "" };
            let (tool, by) = (clean(&granted.tool_name), clean(&granted.by));
            line.plain(&format!("  {tool}{limited} by {by}"));
        }
        EventBody::DefinitionApproved(approved) => {
            let kind = word(&approved.kind).replace('_', " ");
            line.plain(&format!("  {kind} {} by {}", clean(&approved.name), clean(&approved.by)));
        }
        EventBody::SessionSet(set) => {
            let session = event.session_id.as_ref().map(|session| clean(&session.0)).unwrap_or_default();
            let configured = if set.configured { " as configured" } else { "" };
            let value = clean(&set.profile.word(set.key));
            line.plain(&format!("  {session} {} {value}{configured} by {}", set.key, clean(&set.by)));
        }
        EventBody::PinsReset(reset) => {
            let pins = if reset.pins == 1 { "pin" } else { "pins" };
            let of =
                reset.tool_name.as_deref().map(|tool| format!(" of {}", clean(tool))).unwrap_or_default();
            line.plain(&format!("  {} {pins}{of} by {}", reset.pins, clean(&reset.by)));
        }
        EventBody::DetectionMuted(muted) => line.plain(&format!("  {}", mute::describe(&muted.mute))),
        EventBody::DetectionUnmuted(unmuted) => {
            let by = unmuted.unmuted_by.as_deref().map(|by| format!(" by {}", clean(by))).unwrap_or_default();
            line.plain(&format!("  {}{by}: {}", word(&unmuted.ended), mute::describe(&unmuted.mute)));
        }
        EventBody::ApprovalEnded(ended) => {
            let (tool, by) = (clean(&ended.tool_name), clean(&ended.by));
            line.plain(&format!("  {tool} {}, approved by {by}", word(&ended.reason)));
        }
        EventBody::ApprovalDenied(denied) => {
            line.plain(&format!("  {} by {}", clean(&denied.tool_name), clean(&denied.by)));
        }
        EventBody::ApprovalTimedOut(given_up) => {
            line.plain(&format!("  {} nobody approved it in time", clean(&given_up.tool_name)));
        }
        EventBody::RequestTimedOut(late) => {
            let what = late.tool_name.as_deref().unwrap_or(&late.method);
            let seconds = late.age_ns as f64 / 1e9;
            line.plain(&format!("  {} unanswered for {seconds:.1} s", clean(what)));
            line.dim(&format!("  id {}", clean(&late.jsonrpc_id.to_string())));
        }
        EventBody::ServerExecuted(executed) => server::executed(executed, line),
        EventBody::ServerPreloaded(preloaded) => {
            line.plain(&format!(
                "  pid {} by {}",
                preloaded.pid,
                clean(&[&preloaded.variables[..], &preloaded.options].concat().join(", "))
            ));
        }
        EventBody::ServerVersionChanged(changed) => {
            let (version, before) = (clean(&changed.version), clean(&changed.previous_version));
            let definitions = changed.definitions_changed;
            line.plain(&format!("  {version}, before {before}; {definitions} changed definitions"));
        }
        EventBody::CapacityExceeded(exceeded) => {
            let what = match exceeded.table {
                Table::Connections => "connections are not inspected",
                Table::Pins => "definitions are not compared with pins",
            };
            line.plain(&format!("  {} {what}: there are too many of this user", exceeded.refused));
        }
        EventBody::ConcurrencyExceeded(crowded) => {
            let (open, most) = (crowded.open_requests, crowded.max_concurrent);
            line.plain(&format!("  {open} requests open, {most} are the most"));
        }
        EventBody::ToolCalled(call) => {
            line.plain(&format!("  {} {}", clean(&call.tool_name), value(&call.input.value())));
            line.dim(&format!("  id {}", clean(&call.jsonrpc_id.to_string())));
            decided(&call.decided, line);
        }
        EventBody::ToolResult(result) => {
            let millis = result.latency_ns as f64 / 1e6;
            line.plain(&format!("  {} {} bytes in {millis:.1} ms", clean(&result.tool_name), result.bytes));
            if let Some(code) = result.error_code {
                line.plain(&format!("  code {code}"));
            }
            line.dim(&format!("  id {}", clean(&result.jsonrpc_id.to_string())));
            decided(&result.decided, line);
        }
        EventBody::Message(message) => {
            line.plain(&format!(
                "  {} {} {}",
                way(message.direction),
                word(&message.kind),
                clean(message.method.as_deref().unwrap_or(""))
            ));
            line.dim(&format!("  {} bytes", message.bytes));
        }
        EventBody::ServerExited(exited) => server::exited(exited, line),
        EventBody::NetworkConnection(connection) => network::connecting(&connection.connecting, line),
        EventBody::NetworkClosed(closed) => network::closed(closed, line),
        EventBody::ServerUncaptured(found) => {
            line.plain(&format!("  process {}: {}", found.pid, clean(&found.reason)));
        }
        EventBody::NetworkUninspected(found) => network::uninspected(found, line),
        EventBody::ToolCallIntercepted(wanted) => {
            let model = wanted.intent.model.as_deref().unwrap_or(&wanted.intent.dialect);
            let (model, tool) = (clean(model), clean(&wanted.tool_name));
            line.plain(&format!("  {model} wants {tool} {}", value(&wanted.input.value())));
            line.dim(&format!("  client {}", wanted.pid));
        }
        EventBody::RequestRefused(refused) => {
            line.plain(&format!("  with status {}", refused.status));
            if refused.status == 401 {
                line.plain("  it wants credentials");
            }
        }
        EventBody::ServerReachable(reached) => line.plain(&format!("  {}", clean(&reached.url))),
        EventBody::ServerUnreachable(failed) => {
            line.plain(&format!("  {}: {}", clean(&failed.url), clean(&failed.reason)));
        }
        EventBody::TlsMismatch(mismatch) => {
            line.plain(&format!("  {} shows another certificate", clean(&mismatch.url)));
            line.plain(&format!("  expected {}, found {}", mismatch.expected, mismatch.found));
        }
        EventBody::ServerDenied(denied) => network::denied(denied, line),
        EventBody::NetworkBlocked(blocked) | EventBody::CallsBlocked(CallsBlocked(blocked)) => {
            network::blocked(blocked, line)
        }
        EventBody::NetworkUnblocked(unblocked) | EventBody::CallsUnblocked(CallsUnblocked(unblocked)) => {
            network::unblocked(unblocked, line)
        }
        EventBody::ServerEgress(egress) => {
            network::connecting(&egress.connecting, line);
            if egress.first_seen {
                line.dim("  for the first time");
            }
        }
        EventBody::CaptureGap(gap) => {
            line.plain(&format!(
                "  {} bytes {} not seen: {}",
                gap.bytes,
                way(gap.direction),
                word(&gap.cause)
            ));
        }
    }
}

/// Who objects to a call or to its answer, and why; what others remark.
fn decided(decided: &Decided, line: &mut Line) {
    if let (Action::Block, Some(reason)) = (decided.action, &decided.reason) {
        let what = if decided.enforced { "blocked" } else { "not enforced" };
        // Of what was written with something else that is denied, no guard says anything.
        let guard = decided.guard.map_or(String::new(), |guard| format!("{}: ", guard.name()));
        let red = Style::new().fg_color(Some(AnsiColor::Red.into()));
        line.styled(red, &format!("  {what}: {guard}{}", clean(reason)));
    }
    let yellow = Style::new().fg_color(Some(AnsiColor::Yellow.into()));
    for warning in &decided.warnings {
        line.styled(yellow, &format!("  warned: {}", clean(warning)));
    }
}

/// Which fields changed, and what stands there now.
fn fields(diff: &Diff, line: &mut Line) {
    for change in &diff.changes {
        line.plain(&format!("  {}", clean(&change.field)));
        if let Some(new) = &change.new {
            line.dim(&format!(" {:?}", clean(new)));
        }
    }
}

impl Line {
    fn styled(&mut self, style: Style, text: &str) {
        if self.colour {
            let _ = write!(self.text, "{style}{text}{style:#}");
        } else {
            self.text.push_str(text);
        }
    }

    fn plain(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn dim(&mut self, text: &str) {
        self.styled(Style::new().dimmed(), text);
    }
}

#[cfg(test)]
mod tests;
