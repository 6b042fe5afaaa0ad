//! Lists that servers give: compared with what was known, and said.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::approval::Review;
use super::inspect::About;
use super::io::Output;
use super::pairing::Asked;
use super::record::{self, MAX_NAME_BYTES, MAX_TEXT_BYTES, clip, tool_id};
use super::traffic::Seen;
use super::{Engine, Place};
use crate::definition::{bounded_name, hex, json_digest};
use crate::detect::{Inspection, Known};
use crate::event::{
    Action, DefinitionChanged, Detection, ListChanged, ListKind, Subject, ToolChanged, ToolRemoved, ToolSeen,
    ToolStatus,
};
use crate::guard::{GuardKind, PinState, Refusal, ToolFacts};
use crate::protocol::{Method, decode_str, members, string, value};
use crate::registry::{Change, ChangeKind, ItemKind, Offer, Page, Peer, PinKey};
use crate::terms::{ConnectionId, Direction, Timestamp};

/// An entry of a list, with what was found in it.
struct Entry<'a> {
    name: String,
    json: &'a RawValue,
    known: Arc<Known>,
}

impl Entry<'_> {
    fn offer(&self) -> Offer<'_> {
        let Known { hash, found } = &*self.known;
        Offer { name: &self.name, json: self.json.get(), hash, max_severity: found.max_severity() }
    }
}

/// Under which member of the answer the entries stand, and under which of an entry its name.
fn keys(kind: ItemKind) -> (&'static str, &'static str) {
    match kind {
        ItemKind::Tool => ("tools", "name"),
        ItemKind::Prompt => ("prompts", "name"),
        ItemKind::ResourceTemplate => ("resourceTemplates", "uriTemplate"),
        ItemKind::Instructions => ("instructions", ""),
    }
}

fn subject(kind: ItemKind) -> Subject {
    match kind {
        ItemKind::Tool => Subject::Definition,
        ItemKind::Prompt => Subject::Prompt,
        ItemKind::ResourceTemplate => Subject::Resource,
        ItemKind::Instructions => Subject::Instructions,
    }
}

impl Engine {
    /// A server is known by now: so are its pins, and what its name has against it, which comes back.
    pub(super) fn register(&mut self, id: ConnectionId) -> Option<Detection> {
        let (place, connection) = (self.place(id)?, self.connections.get(&id)?);
        // What is declared at a URL is the same to all who speak with it, and to the agent that lists it, whichever of its
        // addresses answers.
        let is_shared = connection.at.is_some() && connection.declared.is_some();
        let key = PinKey {
            uid: connection.account.user.filter(|_| !is_shared),
            server: place.server.clone(),
            program: if is_shared { String::new() } else { connection.program() },
        };
        let peer = Peer { session: place.session.clone(), key, identity: connection.identity() };
        // What is refused the registry counts itself.
        self.registry.connect(id, peer).ok().flatten()
    }

    /// A server says that a list of its is another now. What changed is known when the client asks for it again.
    pub(super) fn list_changed(&mut self, seen: Seen, method: &Method<'_>, out: &mut Vec<Output>) {
        let list = match method {
            Method::ToolsListChanged => ListKind::Tools,
            Method::PromptsListChanged => ListKind::Prompts,
            Method::ResourcesListChanged => ListKind::Resources,
            _ => return,
        };
        if seen.direction == Direction::ServerToClient {
            self.registry.list_changed();
            self.say_of(seen.connection, seen.time, ListChanged { list }, out);
        }
    }

    /// Takes an answer that is a page of a list. Whether all tools of the connection are known with it.
    pub(super) fn listed(
        &mut self,
        place: &Place,
        time: Timestamp,
        (kind, first): (ItemKind, bool),
        result: &RawValue,
        out: &mut Vec<Output>,
    ) -> bool {
        let (list, _) = keys(kind);
        let [entries, next] = members(result.get(), [list, "nextCursor"]);
        let Some(entries) = entries.and_then(|list| serde_json::from_str::<Vec<&RawValue>>(list.get()).ok())
        else {
            // It says nothing of what there is, so nothing of that has changed.
            self.counters.invalid_lists += 1;
            return false;
        };
        let entries: Vec<Entry<'_>> =
            entries.into_iter().filter_map(|json| self.entry(place, kind, json)).collect();
        // Clients ask on while there is a cursor, and most take an empty one for none.
        let last = next.is_none_or(|next| matches!(next.get(), "null" | "\"\""));
        self.page(place, time, (kind, first, last), &entries, out);
        let listed = kind == ItemKind::Tool && last && self.registry.is_listed(place.connection);
        if listed && let Some(connection) = self.connections.get_mut(&place.connection) {
            connection.forget_remembered();
        }
        listed
    }

    /// Takes the instructions of a server: a list of one, or of none.
    pub(super) fn instructed(
        &mut self,
        place: &Place,
        time: Timestamp,
        result: &RawValue,
        out: &mut Vec<Output>,
    ) {
        let [instructions] = members(result.get(), ["instructions"]);
        let entry = instructions.map(|json| Entry {
            name: String::new(),
            json,
            // Inspected elsewhere, as a text.
            known: Arc::new(Known { hash: json_digest(json.get()), found: Inspection::default() }),
        });
        self.page(place, time, (ItemKind::Instructions, true, true), entry.as_slice(), out);
    }

    fn entry<'a>(&mut self, place: &Place, kind: ItemKind, json: &'a RawValue) -> Option<Entry<'a>> {
        let (_, name) = keys(kind);
        let [name] = members(json.get(), [name]);
        let Some(name) = name.and_then(|name| decode_str(name.get())) else {
            self.counters.invalid_tools += 1;
            return None;
        };
        let detector = self.config.inspection.as_ref().map(|inspection| &*inspection.detector);
        let known = match kind {
            ItemKind::Tool => self.definitions.know_tool(detector, &place.server.0, json.get()),
            _ => self.definitions.know(detector, json.get()),
        };
        let name = if kind == ItemKind::Tool { bounded_name(&name) } else { name.into_owned() };
        Some(Entry { name, json, known })
    }

    fn page(
        &mut self,
        place: &Place,
        time: Timestamp,
        (kind, first, last): (ItemKind, bool, bool),
        entries: &[Entry<'_>],
        out: &mut Vec<Output>,
    ) {
        let offers: Vec<Offer<'_>> = entries.iter().map(Entry::offer).collect();
        let page = Page { kind, first, last, offers: &offers };
        let outcome = self.registry.page(place.connection, &page, time);
        if kind == ItemKind::Tool {
            // All of them first: what looks for their names is built once for a page and not for each tool.
            entries.iter().for_each(|entry| self.session_tool(&place.session, &entry.name));
        }
        let mut entries = entries.iter();
        for change in outcome.changes {
            let offered = matches!(
                change.kind,
                ChangeKind::New | ChangeKind::Seen | ChangeKind::Changed { .. } | ChangeKind::Restored { .. }
            );
            // One change for each entry that contradicts no other, in the same order.
            let entry = if offered { entries.find(|entry| is_of(entry, &change)) } else { None };
            self.say_change(place, time, change, entry, out);
        }
    }

    fn say_change(
        &mut self,
        place: &Place,
        time: Timestamp,
        mut change: Change,
        entry: Option<&Entry<'_>>,
        out: &mut Vec<Output>,
    ) {
        let finding = change.finding.take().map(|finding| finding.detection);
        match (entry, change.item.kind) {
            (Some(entry), ItemKind::Tool) => self.say_tool(place, time, &change, entry, finding, out),
            (Some(entry), kind) => self.say_definition(place, time, kind, &change, entry, out),
            (None, ItemKind::Tool) if change.kind == ChangeKind::Removed => {
                if let Some(connection) = self.connections.get_mut(&place.connection) {
                    connection.unlist_tool(&change.item.name);
                }
                let removed = ToolRemoved {
                    tool_name: change.item.name.clone(),
                    tool_id: tool_id(&place.server, &change.item.name),
                    tool_hash: change.hash,
                };
                self.say(place.clone(), time, removed, out);
            }
            (None, _) => {
                // Another connection's tool, now that one of this server's has its name.
                if let (Some(finding), Some(other)) = (finding, self.place(change.connection)) {
                    let (tool, hash) = (change.item.name, change.hash);
                    let known = self.connections.get_mut(&change.connection);
                    if let Some(known) = known {
                        known.find_in_tool(&tool, &finding);
                    }
                    let review = self.review(&other, time, &tool);
                    self.say_finding(&other, time, Some((&tool, hash, &review)), finding, out);
                    self.hold_listed(&other, time, &tool, review, out);
                }
            }
        }
    }

    fn say_tool(
        &mut self,
        place: &Place,
        time: Timestamp,
        change: &Change,
        entry: &Entry<'_>,
        finding: Option<Detection>,
        out: &mut Vec<Output>,
    ) {
        // Back to a definition that was said before: what was said last is another one.
        let back = self.connections.get(&place.connection).and_then(|known| known.tools.get(&*entry.name));
        let back = !change.contradicts && back.is_some_and(|last| *last.hash != *change.hash);
        let news = change.kind != ChangeKind::Seen || finding.is_some() || back;
        let known = self.said_before(place.connection, &entry.name, &change.hash);
        // Clients list again and again: the usual case.
        if known && !news && self.known_tool(place, change).is_some() {
            return;
        }
        let facts = self.know_tool(place, change, entry, finding.as_ref());
        if known && !news {
            return;
        }
        let review = self.review(place, time, &entry.name);
        let mut detections = entry.known.found.detections.clone();
        detections.extend(finding);
        let max_severity = detections.iter().map(|detection| detection.severity).max();
        let name = entry.name.clone();
        let [description] = members(entry.json.get(), ["description"]);
        let status = match (&change.kind, change.pin) {
            (ChangeKind::New, _) => ToolStatus::New,
            (ChangeKind::Restored { .. }, _) => ToolStatus::Restored,
            (ChangeKind::Changed { .. }, _) | (_, PinState::Changed) => ToolStatus::Changed,
            (_, PinState::Pinned) => ToolStatus::Unchanged,
            (_, PinState::Unpinned) => ToolStatus::Unpinned,
        };
        let seen = ToolSeen {
            tool_name: name.clone(),
            tool_id: tool_id(&place.server, &name),
            tool_hash: change.hash.clone(),
            description: record::text(description, MAX_TEXT_BYTES),
            definition: if self.recorder.is_full() { value(entry.json.get()) } else { None },
            status,
            category: facts.category,
            risk_level: facts.risk,
            side_effect_tags: facts.side_effects,
            detections: detections.clone(),
            max_severity,
        };
        self.say(place.clone(), time, seen, out);
        if let ChangeKind::Changed { previous_hash, diff } = &change.kind {
            let changed = ToolChanged {
                tool_id: tool_id(&place.server, &name),
                tool_name: name,
                previous_hash: previous_hash.clone(),
                new_hash: change.hash.clone(),
                diff: diff.clone(),
                detections: detections.clone(),
                max_severity,
                action: self.change_action(review.action(&[GuardKind::RugPull])),
            };
            self.say(place.clone(), time, changed, out);
        }
        let about = About {
            tool_name: Some(entry.name.as_str().into()),
            tool_hash: Some(change.hash.clone()),
            action: found_action(&review),
            ..About::of(Subject::Definition)
        };
        let found = Inspection { detections, bounds: entry.known.found.bounds };
        self.say_found(place, time, &about, &found, out);
        self.hold_listed(place, time, &entry.name, review, out);
    }

    /// What comes of a changed definition, where guards say this of its calls.
    fn change_action(&self, guards: Option<Action>) -> Action {
        match guards {
            Some(Action::Block) => Action::Block,
            Some(Action::Alert) | None if self.config.registry.alert_on_change => Action::Alert,
            _ => Action::Allow,
        }
    }

    /// What is known of the tool with this definition.
    fn known_tool(&self, place: &Place, change: &Change) -> Option<&ToolFacts> {
        let known = self.connections.get(&place.connection)?.tools.get(change.item.name.as_str())?;
        Some(known).filter(|known| *known.hash == *change.hash)
    }

    /// What guards will go by when the tool is called.
    fn know_tool(
        &mut self,
        place: &Place,
        change: &Change,
        entry: &Entry<'_>,
        finding: Option<&Detection>,
    ) -> ToolFacts {
        if let Some(known) = self.known_tool(place, change).filter(|_| finding.is_none()) {
            return known.clone();
        }
        let [description] = members(entry.json.get(), ["description"]);
        let mut facts = self.classify(place, &entry.name, &string(description));
        facts.refusal =
            self.is_given_up(place.connection, &entry.name, &change.hash).then_some(Refusal::TimedOut);
        facts.hash = change.hash.as_str().into();
        facts.detections.clone_from(&entry.known.found.detections);
        facts.detections.extend(finding.cloned());
        if change.contradicts
            && let Some(other) =
                self.connections.get(&place.connection).and_then(|known| known.tools.get(&facts.name))
        {
            let missing =
                other.detections.iter().filter(|found| !entry.known.found.detections.contains(found));
            facts.detections.extend(missing.cloned());
            // It may do what either says.
            facts.risk = facts.risk.max(other.risk);
            facts.side_effects.extend(other.side_effects.iter().cloned());
        }
        facts.max_severity = facts.detections.iter().map(|detection| detection.severity).max();
        let limit = self.config.limits.tools;
        if let Some(connection) = self.connections.get_mut(&place.connection) {
            if connection.tools.len() < limit {
                connection.know(facts.clone());
            } else {
                self.counters.tools_overflow += 1;
            }
        }
        facts
    }

    /// What is no tool: only what changed is said, and what was found in it when it is new.
    fn say_definition(
        &mut self,
        place: &Place,
        time: Timestamp,
        kind: ItemKind,
        change: &Change,
        entry: &Entry<'_>,
        out: &mut Vec<Output>,
    ) {
        if let ChangeKind::Changed { previous_hash, diff } = &change.kind {
            let found = self.found_in(kind, entry);
            let changed = DefinitionChanged {
                kind,
                name: clip(&entry.name, MAX_NAME_BYTES),
                previous_hash: previous_hash.clone(),
                new_hash: change.hash.clone(),
                diff: diff.clone(),
                max_severity: found.max_severity(),
                detections: found.detections,
                // No guard goes by these.
                action: self.change_action(None),
            };
            self.say(place.clone(), time, changed, out);
        }
        let name = format!("{} {}", keys(kind).0, entry.name);
        if !self.said_before(place.connection, &name, &change.hash) {
            let about = About { tool_hash: Some(change.hash.clone()), ..About::of(subject(kind)) };
            self.say_found(place, time, &about, &entry.known.found, out);
        }
    }

    /// What is found in what is no tool. What is said of instructions otherwise is said with the answer that has them.
    fn found_in(&self, kind: ItemKind, entry: &Entry<'_>) -> Inspection {
        match &self.config.inspection {
            Some(inspection) if kind == ItemKind::Instructions => {
                inspection.detector.text("/instructions", &string(Some(entry.json)))
            }
            _ => entry.known.found.clone(),
        }
    }

    /// What a name has against it, where it is bad enough. What is not stands with the tool or the server.
    pub(super) fn say_finding(
        &mut self,
        place: &Place,
        time: Timestamp,
        tool: Option<(&str, String, &Review)>,
        detection: Detection,
        out: &mut Vec<Output>,
    ) {
        let about = match tool {
            None => About::of(Subject::Server),
            Some((name, hash, review)) => About {
                tool_name: Some(name.into()),
                tool_hash: Some(hash),
                action: found_action(review),
                ..About::of(Subject::Definition)
            },
        };
        let found = Inspection { detections: vec![detection], ..Inspection::default() };
        self.say_found(place, time, &about, &found, out);
    }
}

/// What comes of what is found in a definition.
fn found_action(review: &Review) -> Action {
    review.action(&[GuardKind::ToolShadowing, GuardKind::ToolPoisoning]).unwrap_or(Action::Alert)
}

fn is_of(entry: &Entry<'_>, change: &Change) -> bool {
    (entry.name == change.item.name || bounded_name(&entry.name) == change.item.name)
        && hex(&entry.known.hash) == change.hash
}

/// Whether the answer to this is a list that is compared, of what, and whether it begins one.
pub(super) fn page_of(asked: &Asked) -> Option<(ItemKind, bool)> {
    match asked {
        Asked::List { kind, first } => Some((*kind, *first)),
        _ => None,
    }
}
