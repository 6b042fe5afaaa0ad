//! One row in full: what is known, and lines that something can be done about.

use std::net::SocketAddr;

use mcpwarden_policy::{
    EventBody, WaitingTool,
    event::{Identity, ServerType, ToolCalled},
};

use super::{
    model::{Kept, Model, Server, Session, Tally, Tool},
    rows::{Cell, Look, action, badness, span},
    view::{Item, Tab, View},
};
use crate::output::{escaped, seconds, summary, word};

/// Longest text. Characters.
const TEXT: usize = 1_000;

/// A line that can be selected.
#[derive(Debug)]
pub struct Choice {
    /// What it says.
    pub text: Cell,
    /// What it is about.
    pub item: Item,
    /// What else is known of it, as of a row: shown of the selected one.
    pub more: Vec<(&'static str, String)>,
}

/// A row in full.
#[derive(Debug, Default)]
pub struct Detail {
    /// What it is.
    pub title: String,
    /// What is known: a word, and a text.
    pub facts: Vec<(&'static str, String)>,
    /// Lines that can be selected.
    pub items: Vec<Choice>,
    /// What a server that can be blocked as a whole is blocked by: its id, or its address.
    pub blockable: Option<String>,
}

impl Detail {
    /// Where the selected line is now: others may have come before it, or it may be gone.
    pub fn place(&self, selected: Option<&Item>) -> Option<usize> {
        let selected = selected?;
        let find = |surely| self.items.iter().position(|choice| choice.item.is(selected, surely));
        find(true).or_else(|| find(false))
    }
}

/// The selected row; `None`: it is gone.
pub fn of(model: &Model, view: &View) -> Option<Detail> {
    let key = view.selected.as_str();
    let kept = |list: &'_ std::collections::VecDeque<Kept>| {
        let kept = list.iter().find(|kept| key.parse() == Ok(kept.number))?;
        Some(event(model, kept))
    };
    match view.tab {
        Tab::Servers => Some(server(model, key, model.servers.get(key)?)),
        Tab::Sessions => Some(session(key, model.sessions.get(key)?)),
        Tab::Calls => kept(&model.calls),
        Tab::Detections => kept(&model.detections),
        Tab::Losses => kept(&model.losses).or_else(|| {
            let lost = model.lost().into_iter().find(|(name, ..)| *name == key)?;
            let facts = vec![("count", lost.1.to_string()), ("meaning", whole(lost.2))];
            Some(Detail { title: whole(lost.0), facts, ..Detail::default() })
        }),
    }
}

fn server(model: &Model, id: &str, server: &Server) -> Detail {
    let mut facts = Vec::new();
    if let Some(kind) = server.kind {
        facts.push(("type", word(&kind)));
    }
    if let Some(EventBody::ServerStarted(started)) = server.started.as_ref().map(|event| &event.body) {
        let process = started.pid.map(|pid| {
            let uid = started.uid.map(|uid| format!(", uid {uid}")).unwrap_or_default();
            format!("{pid}{uid}")
        });
        let texts = [
            ("process", process),
            ("program", started.executable.as_deref().map(whole)),
            ("command", (!started.argv.is_empty()).then(|| whole(&started.argv.join(" ")))),
            ("url", started.url.as_deref().map(whole)),
        ];
        facts.extend(texts.into_iter().filter_map(|(name, text)| Some((name, text?))));
    }
    if let Some(EventBody::ServerInitialized(reported)) = server.initialized.as_ref().map(|event| &event.body)
    {
        let named = |name: &Option<String>, version: &Option<String>| {
            let both = [name.as_deref(), version.as_deref()];
            whole(&both.into_iter().flatten().collect::<Vec<_>>().join(" "))
        };
        facts.push(("says it is", named(&reported.server_name, &reported.server_version)));
        facts.push(("its client", named(&reported.client_name, &reported.client_version)));
    }
    let sessions = names(server.sessions.iter().map(|(id, ())| &**id));
    facts.push(("sessions", format!("{}: {sessions}", server.sessions.count())));
    tally(&server.tally, &mut facts);
    let mut items: Vec<Choice> =
        model.waiting_of(id).map(|waiting| held(waiting, server.tools.get(&*waiting.tool_name))).collect();
    for (name, tool) in server.tools.iter() {
        if model.waiting_of(id).any(|waiting| *waiting.tool_name == **name) {
            continue;
        }
        let changed = if tool.changed { ", changed since it was pinned" } else { "" };
        let worst = tool.worst.map(|worst| format!(", {} found in it", word(&worst))).unwrap_or_default();
        let look = if tool.changed { Look::Bad } else { tool.worst.map_or(Look::Plain, badness) };
        let text = format!("tool     {}: {} calls{changed}{worst}", whole(name), tool.calls);
        items.push(offered((text, look), id, name, None, Some(tool)));
    }
    for (address, seen) in server.addresses.iter() {
        let name = seen.name.as_deref().map(|name| format!(" ({})", whole(name))).unwrap_or_default();
        let (word, look) = action(seen.action);
        let text = format!("address  {}{name}: {} connections, {word}", whole(address), seen.count);
        items.push(Choice { text: (text, look), item: Item::Address(address.clone()), more: Vec::new() });
    }
    Detail { title: format!("server {}", whole(id)), facts, items, blockable: blockable(id, server) }
}

/// What a server on the network is blocked by: its id where that is a declared one, its address where the id is only made
/// of that.
fn blockable(id: &str, server: &Server) -> Option<String> {
    let on_the_network = matches!(server.kind, Some(ServerType::Http | ServerType::Sse | ServerType::Tcp));
    let EventBody::ServerStarted(started) = &server.started.as_ref().filter(|_| on_the_network)?.body else {
        return None;
    };
    if started.identity == Identity::Declared {
        return Some(id.to_owned());
    }
    let (_, place) = started.url.as_deref()?.split_once("://")?;
    let address: SocketAddr = place.split('/').next()?.parse().ok()?;
    Some(address.to_string())
}

/// A tool that a server offers, or was asked for; of the definition with this hash, else of the last one.
fn offered(text: Cell, server: &str, tool: &str, hash: Option<String>, known: Option<&Tool>) -> Choice {
    let hash = hash.or_else(|| known.map(|known| known.hash.clone())).filter(|hash| !hash.is_empty());
    let more = definition(hash.as_deref(), known);
    let item =
        Item::Tool { server: server.to_owned(), tool: tool.to_owned(), hash, uid: None, program: None };
    Choice { text, item, more }
}

/// What is known of a definition.
fn definition(hash: Option<&str>, known: Option<&Tool>) -> Vec<(&'static str, String)> {
    let mut more = vec![("hash", hash.map_or_else(|| "not known".to_owned(), whole))];
    let same = known.filter(|known| Some(known.hash.as_str()) == hash);
    if let Some(text) = same.and_then(|known| known.description.as_deref()) {
        more.push(("says", escaped(text)));
    }
    more
}

fn held(waiting: &WaitingTool, known: Option<&Tool>) -> Choice {
    let worst = waiting.max_severity.map(|worst| format!(", {}", word(&worst))).unwrap_or_default();
    let name = whole(&waiting.tool_name);
    let text = format!("waits    {name}: {}{worst}", whole(&waiting.reason));
    let item = Item::Tool {
        server: waiting.server_id.0.as_ref().to_owned(),
        tool: waiting.tool_name.clone(),
        hash: Some(waiting.tool_hash.clone()),
        uid: waiting.whose.uid,
        program: waiting.whose.program.clone(),
    };
    Choice { text: (text, Look::Warned), item, more: definition(Some(&waiting.tool_hash), known) }
}

fn session(id: &str, session: &Session) -> Detail {
    let mut facts = Vec::new();
    if let Some(client) = &session.client {
        facts.push(("client", whole(client.executable.as_deref().unwrap_or("-"))));
        facts.push(("process", client.pid.to_string()));
        facts.push(("command", whole(&client.argv.join(" "))));
    }
    let servers = names(session.servers.iter().map(|(id, ())| &**id));
    facts.push(("servers", format!("{}: {servers}", session.servers.count())));
    tally(&session.tally, &mut facts);
    Detail { title: format!("session {}", whole(id)), facts, ..Detail::default() }
}

fn event(model: &Model, kept: &Kept) -> Detail {
    let event = &kept.event;
    let mut facts = vec![("time", event.timestamp.to_string())];
    let ids = [
        ("server", event.server_id.as_ref().map(|id| whole(&id.0))),
        ("session", event.session_id.as_ref().map(|id| whole(&id.0))),
        ("tool", event.body.tool_name().map(whole)),
    ];
    facts.extend(ids.into_iter().filter_map(|(name, text)| Some((name, text?))));
    let mut hash = None;
    match &event.body {
        EventBody::ToolCalled(call) => {
            hash = call.tool_hash.as_deref().map(str::to_owned);
            called(call, &mut facts);
            facts.push((
                "answer",
                kept.answer.map_or("none yet".to_owned(), |(status, latency)| {
                    format!("{} after {}", word(&status), span(latency))
                }),
            ));
        }
        EventBody::Detected(found) => {
            hash.clone_from(&found.tool_hash);
            let detection = &found.detection;
            facts.push(("rule", whole(&detection.pattern)));
            facts
                .push(("severity", format!("{} ({})", word(&detection.severity), word(&detection.category))));
            facts.push(("where", format!("{} {}", word(&found.subject), whole(&detection.field))));
            facts.push(("action", word(&found.action)));
            facts.extend(detection.matches.iter().map(|found| ("text", whole(&found.context))));
        }
        _ => facts.push(("what", whole(&summary(event)))),
    }
    let server = event.server_id.as_ref().map(|id| id.0.as_ref());
    let row = server.and_then(|id| model.servers.get(id));
    let item = server.zip(event.body.tool_name()).map(|(server, tool)| {
        let known = row.and_then(|row| row.tools.get(tool));
        match model.waiting_of(server).find(|waiting| waiting.tool_name == tool) {
            Some(waiting) => held(waiting, known),
            None => offered((format!("tool     {}", whole(tool)), Look::Plain), server, tool, hash, known),
        }
    });
    Detail {
        title: event.kind().to_owned(),
        facts,
        items: item.into_iter().collect(),
        blockable: server.zip(row).and_then(|(id, row)| blockable(id, row)),
    }
}

fn called(call: &ToolCalled, facts: &mut Vec<(&'static str, String)>) {
    let decided = &call.decided;
    let enforced = if decided.enforced { ", enforced" } else { "" };
    facts.push(("id", escaped(&call.jsonrpc_id.to_string()).chars().take(128).collect()));
    facts.push(("action", format!("{}{enforced}", word(&decided.action))));
    if let Some(guard) = decided.guard {
        facts.push((
            "guard",
            format!("{} {}", word(&guard), whole(decided.code.as_deref().unwrap_or_default())),
        ));
    }
    facts.extend(decided.reason.iter().map(|reason| ("reason", whole(reason))));
    facts.extend(decided.warnings.iter().map(|warning| ("warning", whole(warning))));
}

fn tally(tally: &Tally, facts: &mut Vec<(&'static str, String)>) {
    facts.push(("running", tally.running.count()));
    facts.push((
        "calls",
        format!("{}, {} answered with an error, {} blocked", tally.calls, tally.errors, tally.blocked),
    ));
    if let Some((middle, most)) = tally.latencies.quantiles() {
        facts.push(("latency", format!("p50 {}, p95 {}", span(middle), span(most))));
    }
    let [low, medium, high, critical] = tally.found;
    facts.push(("detections", format!("{critical} critical, {high} high, {medium} medium, {low} low")));
    facts.push(("last seen", seconds(tally.last)));
}

/// Some of the names.
fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.take(8).map(whole).collect::<Vec<_>>().join(", ")
}

/// As [`crate::output::clean`] does it, but of more: here there is room.
fn whole(text: &str) -> String {
    match text.char_indices().nth(TEXT) {
        Some((end, _)) => escaped(text.get(..end).unwrap_or_default()) + "…",
        None => escaped(text),
    }
}
