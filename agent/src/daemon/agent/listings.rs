//! Declared servers that the agent lists itself: what they said, into the policy core; when, and what came of it last, for operators.

use std::collections::BTreeSet;

use mcpwarden_client::{
    Frame, TOOLS,
    listing::{Report, Trouble},
};
use mcpwarden_policy::{
    EngineLimits, Event, EventBody, Input, Output, Reached, ServerId,
    config::{Config, Finding},
    event::{ServerType, ToolStatus},
    guards::denied_servers,
    protocol::{members, string},
};
use serde_json::value::RawValue;

use super::Agent;
use crate::{
    control::{Answer, Code, ListingView, Listings, NewListing, Refusal, RequestedListing},
    output::escaped,
};

/// Most names of tools that are told of one listing, for each of new, changed and removed ones.
const MAX_NAMES: usize = 100;

impl Agent {
    /// Reports how a declared server does, where that is new, and hands its messages to the policy core, as if a client had
    /// received them.
    pub(super) fn take_listing(&mut self, report: Report) {
        if let Some(body) = self.listing.take_note(&report) {
            self.emit(Event {
                server_id: Some(report.server.clone()),
                server_type: Some(report.kind),
                ..Event::agent(self.clock.now(), body)
            });
        }
        let Report { server, kind, url, connection, request, outcome } = report;
        let time = self.clock.now();
        let mut view = ListingView {
            server: server.to_string(),
            server_type: kind,
            url,
            listed: self.clock.printed(time),
            request,
            error: None,
            tools: 0,
            new: Vec::new(),
            changed: Vec::new(),
            removed: Vec::new(),
            inspecting: false,
        };
        match outcome {
            Ok(listed) => {
                self.handle(Input::Reached(Reached {
                    connection,
                    time,
                    client: self.listing.client(),
                    address: listed.address.into(),
                    server: None,
                    path: listed.path,
                    kind: listed.kind,
                    netns: None,
                    host: None,
                    declared: vec![server],
                    adopted: false,
                    read_in_client: false,
                }));
                for frame in &listed.frames {
                    let (direction, bytes) = (frame.direction, frame.json.as_bytes());
                    self.handle(Input::Frame { connection, direction, time, bytes, http: None, turn: None });
                }
                note(&mut view, &listed.frames, &self.pending.outputs);
                self.execute();
            }
            Err(Trouble::Unreachable(failure)) => view.error = Some(failure.why),
            Err(Trouble::Mismatch(mismatch)) => {
                let (expected, found) = (mismatch.expected, mismatch.found);
                view.error =
                    Some(format!("its certificate is {found}, and not {expected} (tls_fingerprint)"));
            }
        }
        self.listings.insert(view.server.clone(), view);
    }

    /// What came of listing last.
    pub(super) fn listed(&self) -> Listings {
        let is_declared =
            |view: &&ListingView| self.reload.config().servers.iter().any(|server| server.id == view.server);
        Listings { listings: self.listings.values().filter(is_declared).cloned().collect() }
    }

    /// Has a declared server be listed now.
    pub(super) fn list(&mut self, new: NewListing) -> Result<Answer, Refusal> {
        let server = new.server;
        match self.listing.refresh(&ServerId(server.as_str().into())) {
            Some(request) => Ok(Answer::Requested(RequestedListing { server, request })),
            None => Err(not_listed(self.reload.config(), &server)),
        }
    }
}

/// Why the agent does not list a server.
fn not_listed(config: &Config, id: &str) -> Refusal {
    let shown = escaped(id);
    let Some(server) = config.servers.iter().find(|server| server.id == id) else {
        let names = config.servers.iter().map(|server| server.id.as_str());
        let nearest = Finding::new(Vec::new(), String::new()).nearest_of(id, names).nearest;
        let meant = nearest.map_or_else(String::new, |name| format!("; did you mean `{}`?", escaped(&name)));
        return Code::NotFound.because(format!("the configuration declares no server `{shown}`{meant}"));
    };
    let denied = denied_servers(config).unwrap_or_default().remove(&ServerId(id.into()));
    let why = if server.kind == ServerType::Stdio {
        "the agent starts no programs; clients start it, and `mcpwarden inspect` and `mcpwarden call` list it as you".to_owned()
    } else if !server.enabled {
        "it is declared with enabled: false".to_owned()
    } else if let Some(denied) = denied {
        denied
    } else if !config.discovery.list_declared {
        "`discovery.list_declared` is off".to_owned()
    } else {
        "more servers are declared than the agent lists".to_owned()
    };
    Code::Unusable.because(format!("{shown} is not listed: {}", escaped(&why)))
}

/// Takes down what a server listed, and what the policy core reported of it.
fn note(view: &mut ListingView, frames: &[Frame], outputs: &[Output]) {
    let mut names = BTreeSet::new();
    for frame in frames {
        let [result] = members(&frame.json, ["result"]);
        let [tools] = members(result.map_or("", RawValue::get), [TOOLS.member]);
        let tools: Vec<&RawValue> =
            tools.and_then(|tools| serde_json::from_str(tools.get()).ok()).unwrap_or_default();
        names.extend(tools.iter().map(|tool| string(members(tool.get(), [TOOLS.name])[0]).into_owned()));
    }
    view.tools = names.len();
    let at_once = EngineLimits::default().frame_at_once;
    view.inspecting = frames.iter().any(|frame| frame.json.len() > at_once);
    for output in outputs {
        let Output::Event(event) = output else { continue };
        let (list, name) = match &event.body {
            EventBody::ToolSeen(seen) if seen.status == ToolStatus::New => (&mut view.new, &seen.tool_name),
            EventBody::ToolChanged(changed) => (&mut view.changed, &changed.tool_name),
            EventBody::ToolRemoved(removed) => (&mut view.removed, &removed.tool_name),
            _ => continue,
        };
        if list.len() < MAX_NAMES {
            list.push(name.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlisted_server_is_refused_with_the_reason() {
        let (config, _) = mcpwarden_policy::config::parse(
            b"servers: [{ id: prog, command: x }, { id: off, type: http, url: 'http://a/', enabled: false }, \
              { id: bad, type: http, url: 'http://b/' }]\npolicy: { denied_servers: [bad] }",
        )
        .unwrap();
        let (quiet, _) = mcpwarden_policy::config::parse(
            b"servers: [{ id: far, type: http, url: 'http://a/' }]\ndiscovery: { list_declared: false }",
        )
        .unwrap();
        for (config, id, code, part) in [
            (&config, "prog", Code::Unusable, "the agent starts no programs"),
            (&config, "off", Code::Unusable, "enabled: false"),
            (&config, "bad", Code::Unusable, "bad"),
            (&config, "progg", Code::NotFound, "did you mean `prog`?"),
            (&quiet, "far", Code::Unusable, "list_declared"),
        ] {
            let refusal = not_listed(config, id);
            assert_eq!(refusal.code, code, "{id}: {}", refusal.message);
            assert!(refusal.message.contains(part), "{id}: {}", refusal.message);
        }
    }
}
