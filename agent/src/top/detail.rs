//! One row in full: what is known, and lines that something can be done about.

use mcpwarden_policy::{
    EventBody, WaitingTool,
    event::{ServerType, ToolCalled},
};

use super::{
    model::{Kept, Model, Server, Session, Tally},
    rows::{Cell, Look, action, badness, span},
    view::{Tab, View},
};
use crate::output::{clean, escaped, seconds, summary, word};

/// A line that can be selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A tool, which can be approved.
    Tool {
        /// Whose.
        server: String,
        /// Its name.
        tool: String,
        /// Hash of the definition that is shown.
        hash: Option<String>,
        /// User that the server runs as, where that is known.
        uid: Option<u32>,
        /// Its program, where that is known.
        program: Option<String>,
    },
    /// An address, which can be blocked.
    Address(String),
}

/// A row in full.
#[derive(Debug, Default)]
pub struct Detail {
    /// What it is.
    pub title: String,
    /// What is known: a word, and a text.
    pub facts: Vec<(&'static str, String)>,
    /// Lines that can be selected.
    pub items: Vec<(Cell, Item)>,
    /// A server that can be blocked as a whole.
    pub blockable: Option<String>,
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
            let facts = vec![("count", lost.1.to_string()), ("meaning", clean(lost.2))];
            Some(Detail { title: clean(lost.0), facts, ..Detail::default() })
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
            ("program", started.executable.as_deref().map(clean)),
            ("command", (!started.argv.is_empty()).then(|| clean(&started.argv.join(" ")))),
            ("url", started.url.as_deref().map(clean)),
        ];
        facts.extend(texts.into_iter().filter_map(|(name, text)| Some((name, text?))));
    }
    if let Some(EventBody::ServerInitialized(said)) = server.initialized.as_ref().map(|event| &event.body) {
        let named = |name: &Option<String>, version: &Option<String>| {
            let both = [name.as_deref(), version.as_deref()];
            clean(&both.into_iter().flatten().collect::<Vec<_>>().join(" "))
        };
        facts.push(("says it is", named(&said.server_name, &said.server_version)));
        facts.push(("its client", named(&said.client_name, &said.client_version)));
    }
    let sessions = names(server.sessions.iter().map(|(id, ())| &**id));
    facts.push(("sessions", format!("{}: {sessions}", server.sessions.count())));
    tally(&server.tally, &mut facts);
    let mut items: Vec<(Cell, Item)> = model.waiting_of(id).map(held).collect();
    for (name, tool) in server.tools.iter() {
        if model.waiting_of(id).any(|waiting| *waiting.tool_name == **name) {
            continue;
        }
        let changed = if tool.changed { ", changed since it was pinned" } else { "" };
        let worst = tool.worst.map(|worst| format!(", {} found in it", word(&worst))).unwrap_or_default();
        let look = if tool.changed { Look::Bad } else { tool.worst.map_or(Look::Plain, badness) };
        let text = format!("tool     {}: {} calls{changed}{worst}", clean(name), tool.calls);
        let item = Item::Tool {
            server: id.to_owned(),
            tool: name.as_ref().to_owned(),
            hash: (!tool.hash.is_empty()).then(|| tool.hash.clone()),
            uid: None,
            program: None,
        };
        items.push(((text, look), item));
    }
    for (address, seen) in server.addresses.iter() {
        let name = seen.name.as_deref().map(|name| format!(" ({})", clean(name))).unwrap_or_default();
        let (word, look) = action(seen.action);
        let text = format!("address  {}{name}: {} connections, {word}", clean(address), seen.count);
        items.push(((text, look), Item::Address(address.clone())));
    }
    let blockable = matches!(server.kind, Some(ServerType::Http | ServerType::Sse)).then(|| id.to_owned());
    Detail { title: format!("server {}", clean(id)), facts, items, blockable }
}

fn held(waiting: &WaitingTool) -> (Cell, Item) {
    let worst = waiting.max_severity.map(|worst| format!(", {}", word(&worst))).unwrap_or_default();
    let name = clean(&waiting.tool_name);
    let text = format!("waits    {name}: {}{worst}", clean(&waiting.reason));
    let item = Item::Tool {
        server: waiting.server_id.0.as_ref().to_owned(),
        tool: waiting.tool_name.clone(),
        hash: Some(waiting.tool_hash.clone()),
        uid: waiting.whose.uid,
        program: waiting.whose.program.clone(),
    };
    ((text, Look::Warned), item)
}

fn session(id: &str, session: &Session) -> Detail {
    let mut facts = Vec::new();
    if let Some(client) = &session.client {
        facts.push(("client", clean(client.executable.as_deref().unwrap_or("-"))));
        facts.push(("process", client.pid.to_string()));
        facts.push(("command", clean(&client.argv.join(" "))));
    }
    let servers = names(session.servers.iter().map(|(id, ())| &**id));
    facts.push(("servers", format!("{}: {servers}", session.servers.count())));
    tally(&session.tally, &mut facts);
    Detail { title: format!("session {}", clean(id)), facts, ..Detail::default() }
}

fn event(model: &Model, kept: &Kept) -> Detail {
    let event = &kept.event;
    let mut facts = vec![("time", event.timestamp.to_string())];
    let ids = [
        ("server", event.server_id.as_ref().map(|id| clean(&id.0))),
        ("session", event.session_id.as_ref().map(|id| clean(&id.0))),
        ("tool", event.body.tool_name().map(clean)),
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
            facts.push(("rule", clean(&detection.pattern)));
            facts
                .push(("severity", format!("{} ({})", word(&detection.severity), word(&detection.category))));
            facts.push(("where", format!("{} {}", word(&found.subject), clean(&detection.field))));
            facts.push(("action", word(&found.action)));
            facts.extend(detection.matches.iter().map(|found| ("text", clean(&found.context))));
        }
        _ => facts.push(("what", clean(&summary(event)))),
    }
    let server = event.server_id.as_ref().map(|id| id.0.as_ref());
    let item = server.zip(event.body.tool_name()).map(|(server, tool)| {
        let waiting = model.waiting_of(server).find(|waiting| waiting.tool_name == tool);
        waiting.map_or_else(
            || {
                let item = Item::Tool {
                    server: server.to_owned(),
                    tool: tool.to_owned(),
                    hash,
                    uid: None,
                    program: None,
                };
                ((format!("tool     {}", clean(tool)), Look::Plain), item)
            },
            held,
        )
    });
    Detail {
        title: event.kind().to_owned(),
        facts,
        items: item.into_iter().collect(),
        blockable: server
            .filter(|_| matches!(event.server_type, Some(ServerType::Http | ServerType::Sse)))
            .map(str::to_owned),
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
            format!("{} {}", word(&guard), clean(decided.code.as_deref().unwrap_or_default())),
        ));
    }
    facts.extend(decided.reason.iter().map(|reason| ("reason", clean(reason))));
    facts.extend(decided.warnings.iter().map(|warning| ("warning", clean(warning))));
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
    names.take(8).map(clean).collect::<Vec<_>>().join(", ")
}
