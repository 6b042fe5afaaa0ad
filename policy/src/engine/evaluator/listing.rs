//! Lists that servers give: compared with what was known, and reported; what is reported of items that are no tools is in
//! `definitions`.

use std::sync::Arc;

use serde_json::value::RawValue;
use smallvec::SmallVec;

use super::entries::{as_all_read, keys, listed_entries};
use super::held::Review;
use super::ui::{interface, widening};
use super::{About, Connections, Context, Evaluator, Scope, Seen};
use crate::definition::{bounded_name, hex, json_digest};
use crate::detect::{Inspection, Known, OrderedNames};
use crate::engine::asked::Asked;
use crate::engine::config::EngineConfig;
use crate::engine::heads;
use crate::engine::recorder::{self, MAX_TEXT_BYTES, tool_id};
use crate::engine::seen::Earlier;
use crate::event::{
    Action, CapacityExceeded, Detection, ListChanged, ListKind, ServerVersionChanged, Subject, Table,
    ToolChanged, ToolRemoved, ToolSeen, ToolStatus,
};
use crate::guard::{GuardKind, PinState, Refusal, ToolFacts};
use crate::protocol::{Method, every_member, members, name_text, value};
use crate::registry::{Change, ChangeKind, ItemKind, Offer, Outcome, Page};
use crate::terms::{Direction, SessionId, Timestamp};

/// An entry of a list, with what was found in it.
pub(super) struct Entry<'a> {
    pub(super) name: String,
    pub(super) json: &'a RawValue,
    pub(super) known: Arc<Known>,
}

impl<'a> Entry<'a> {
    /// One whose definition is inspected elsewhere.
    pub(super) fn uninspected(name: String, json: &'a RawValue) -> Self {
        let (hash, former, found) = (json_digest(json.get()), None, Inspection::default());
        let ordered = OrderedNames::default();
        Self { name, json, known: Arc::new(Known { hash, former, found, ordered }) }
    }

    fn offer(&self) -> Offer<'_> {
        let Known { hash, former, found, ordered } = &*self.known;
        let (json, former) = (self.json.get(), former.as_deref());
        Offer { name: &self.name, json, hash, former, max_severity: found.max_severity(), ordered }
    }
}

/// Most names of one definition.
const MOST_NAMES: usize = 8;
/// Most entries of one page that are evaluated at once: more than a server's registry has room for.
const MOST_AT_ONCE: usize = 8_192;

impl Evaluator {
    /// A server says that a list of its is another now. What changed is known when the client asks for it again.
    pub(in crate::engine) fn list_changed(
        &mut self,
        cx: &mut Context<'_>,
        seen: Seen<'_>,
        method: &Method<'_>,
    ) {
        let list = match method {
            Method::ToolsListChanged => ListKind::Tools,
            Method::PromptsListChanged => ListKind::Prompts,
            Method::ResourcesListChanged => ListKind::Resources,
            _ => return,
        };
        if seen.direction == Direction::ServerToClient {
            self.registry.list_changed();
            cx.report(seen.connection, seen.time, ListChanged { list });
        }
    }

    /// Takes an answer that is a page of a list. Whether all tools of the connection are known with it.
    pub(super) fn listed(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        (kind, first): (ItemKind, bool),
        result: &RawValue,
    ) -> bool {
        let Some(entries) = listed_entries(kind, result, seen.reading.respelled) else {
            // It says nothing of what there is, so nothing of that has changed.
            cx.reporter.counters.invalid_lists += 1;
            return false;
        };
        let [next] = members(result.get(), ["nextCursor"]);
        // Clients ask on while there is a cursor, and most take an empty one for none.
        let last = next.is_none_or(|next| matches!(next.get(), "null" | "\"\""));
        // A long page as several, so that not all that is known of each entry is there at once; an empty one is a page, too.
        let parts = entries.len().div_ceil(MOST_AT_ONCE).max(1);
        for number in 0..parts {
            let part = entries.chunks(MOST_AT_ONCE).nth(number).unwrap_or_default();
            let part: Vec<Entry<'_>> =
                part.iter().flat_map(|json| self.entries_of(cx, scope, seen, kind, (json, result))).collect();
            let (begins, ends) = (first && number == 0, last && number + 1 == parts);
            if begins && last {
                self.public_list(cx, seen, kind, result, &part);
            }
            self.page(cx, scope, seen, (kind, begins, ends), &part);
        }
        let listed = kind == ItemKind::Tool && last && self.registry.is_listed(scope.connection);
        if listed && let Some(connection) = cx.connections.get_mut(scope.connection) {
            connection.forget_unlisted();
        }
        listed
    }

    /// Takes the instructions of a server: a list of one, or of none; of several where its readers take different ones.
    pub(super) fn instructed(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        result: &RawValue,
    ) {
        // Inspected as texts.
        let texts = as_all_read(result, seen.reading.respelled, "instructions");
        let entries: Vec<Entry<'_>> =
            texts.into_iter().map(|json| Entry::uninspected(String::new(), json)).collect();
        self.page(cx, scope, seen, (ItemKind::Instructions, true, true), &entries);
    }

    /// The entries that a definition is: one for each of its names, where it has several, since readers differ on which of them counts. As it
    /// is respelled it has the last of them. One without a name is inspected all the same.
    fn entries_of<'a>(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        kind: ItemKind,
        (json, result): (&'a RawValue, &RawValue),
    ) -> SmallVec<[Entry<'a>; 1]> {
        let server = (kind == ItemKind::Tool).then_some(&*scope.server.0);
        let known = match cx.reader() {
            Some(reader) => reader.know(&mut self.definitions, server, json.get()),
            None => self.definitions.know(None, json.get()),
        };
        let (_, name) = keys(kind);
        let mut entries: SmallVec<[Entry<'a>; 1]> = SmallVec::new();
        let is_as_sent = result.get().as_bytes().as_ptr_range().contains(&json.get().as_ptr());
        let mut names = every_member(json.get(), name).unwrap_or_default();
        if !is_as_sent {
            names.drain(..names.len().saturating_sub(1));
        }
        for name in names {
            let Some(name) = name_text(name) else { continue };
            let name = if kind == ItemKind::Tool { bounded_name(&name) } else { name };
            if entries.len() < MOST_NAMES && entries.iter().all(|entry| entry.name != name) {
                entries.push(Entry { name, json, known: Arc::clone(&known) });
            }
        }
        if entries.is_empty() {
            cx.reporter.counters.invalid_tools += 1;
            if !cx.is_reported(scope.connection, "nameless", &hex(&known.hash)) {
                cx.report_found(scope, seen.time, &About::of(Subject::Definition), &known.found);
            }
        }
        entries
    }

    pub(super) fn page(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        (kind, first, last): (ItemKind, bool, bool),
        entries: &[Entry<'_>],
    ) {
        let offers: Vec<Offer<'_>> = entries.iter().map(Entry::offer).collect();
        let beside = seen.reading.earlier == Earlier::Uncertain;
        let page = Page { kind, first, last, beside, offers: &offers };
        let outcome = self.registry.page(scope.connection, &page, seen.time);
        self.report_page(cx, scope, seen, &outcome);
        if kind == ItemKind::Tool {
            // All of them first: what looks for their names is built once for a page and not for each tool.
            entries.iter().for_each(|entry| self.session_tool(cx.config, &scope.session, &entry.name));
        }
        let (listed, mut entries) = (entries, entries.iter());
        for change in outcome.changes {
            let offered = matches!(
                change.kind,
                ChangeKind::New | ChangeKind::Seen | ChangeKind::Changed { .. } | ChangeKind::Restored { .. }
            );
            // One change for each entry that contradicts no other, in the same order.
            let entry = if offered { entries.find(|entry| is_of(entry, &change)) } else { None };
            self.report_change(cx, scope, seen, change, entry);
        }
        if kind == ItemKind::Tool {
            self.time_limited(cx, scope.connection);
            self.ask_about_tools(cx, scope, seen, listed);
        }
    }

    /// Reports what a page as a whole shows: another version of the server, and items that are not compared.
    fn report_page(&mut self, cx: &mut Context<'_>, scope: &Scope, seen: Seen<'_>, outcome: &Outcome) {
        let Some(connection) = cx.connections.get_mut(scope.connection) else { return };
        let uncompared = outcome.changes.iter().filter(|change| change.is_uncompared).count();
        let refused = outcome.refused.max(uncompared) as u64;
        let exceeded = (refused > 0 && !std::mem::replace(&mut connection.is_uncompared, refused > 0))
            .then_some(CapacityExceeded { table: Table::Pins, uid: connection.account.user, refused });
        let version = (connection.version.clone()).zip(outcome.previous_version.clone());
        if let Some((version, previous_version)) = version {
            let is_changed = |change: &&Change| matches!(change.kind, ChangeKind::Changed { .. });
            let definitions_changed = outcome.changes.iter().filter(is_changed).count() as u64;
            let changed = ServerVersionChanged { version, previous_version, definitions_changed };
            cx.reporter.report(scope.clone(), seen.time, changed);
        }
        if let Some(exceeded) = exceeded {
            cx.reporter.report(scope.clone(), seen.time, exceeded);
        }
    }

    fn report_change(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        mut change: Change,
        entry: Option<&Entry<'_>>,
    ) {
        let finding = change.finding.take().map(|finding| finding.detection);
        match (entry, change.item.kind) {
            (Some(entry), ItemKind::Tool) => self.report_tool(cx, scope, seen, &change, entry, finding),
            (Some(entry), kind) => self.report_definition(cx, scope, seen, kind, &change, entry),
            (None, ItemKind::Tool) if change.kind == ChangeKind::Removed => {
                if let Some(connection) = cx.connections.get_mut(scope.connection) {
                    connection.unlist_tool(&change.item.name);
                }
                let removed = ToolRemoved {
                    tool_name: change.item.name.clone(),
                    tool_id: tool_id(&scope.server, &change.item.name),
                    tool_hash: change.hash,
                };
                cx.reporter.report(scope.clone(), seen.time, removed);
                cx.reporter.gate_is_stale(Some(seen.time));
            }
            (None, _) => {
                // Another connection's tool, now that one of this server's has its name; or one that orders something about
                // another server's.
                if let (Some(finding), Some(other)) = (finding, cx.connections.scope(change.connection)) {
                    let (tool, hash) = (change.item.name, change.hash);
                    let known = cx.connections.get_mut(change.connection);
                    if let Some(known) = known {
                        known.find_in_tool(&tool, &finding);
                    }
                    cx.mark_tool(&other, &tool);
                    let review = self.review(cx, &other, seen, &tool);
                    report_finding(cx, &other, seen.time, (&tool, hash, &review), finding);
                    self.hold_listed(cx, &other, seen, &tool, review);
                }
            }
        }
    }

    fn report_tool(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        change: &Change,
        entry: &Entry<'_>,
        finding: Option<Detection>,
    ) {
        // Back to a definition that was reported before: what was reported last is another one.
        let back = cx.connections.get(scope.connection).and_then(|known| known.tools.get(&*entry.name));
        let back = !change.contradicts && back.is_some_and(|last| *last.hash != *change.hash);
        let news = change.kind != ChangeKind::Seen || finding.is_some() || back;
        let known = cx.is_reported(scope.connection, &entry.name, &change.hash);
        // Clients list again and again: the usual case.
        if known && !news && known_tool(cx.connections, scope, change).is_some() {
            return;
        }
        let facts = self.know_tool(cx, scope, change, entry, finding.as_ref());
        if known && !news {
            return;
        }
        let review = self.review(cx, scope, seen, &entry.name);
        let mut detections = entry.known.found.detections.clone();
        detections.extend(finding);
        cx.mark(scope, (Some(&entry.name), Some(&change.hash)), &mut detections);
        let max_severity = Detection::worst(&detections);
        let name = entry.name.clone();
        let [description] = members(entry.json.get(), ["description"]);
        let (ui_resource, ui_grants) = interface(entry.json);
        let tool_seen = ToolSeen {
            ui_resource,
            ui_grants,
            tool_name: name.clone(),
            tool_id: tool_id(&scope.server, &name),
            tool_hash: change.hash.clone(),
            description: recorder::text(description, MAX_TEXT_BYTES),
            definition: if cx.reporter.recorder.is_full() { value(entry.json.get()) } else { None },
            status: status(change),
            category: facts.category,
            risk_level: facts.risk,
            side_effect_tags: facts.side_effects,
            detections: detections.clone(),
            max_severity,
        };
        let time = seen.time;
        cx.reporter.report(scope.clone(), time, tool_seen);
        cx.reporter.gate_is_stale(Some(time));
        if let ChangeKind::Changed { previous_hash, diff } = &change.kind {
            let changed = ToolChanged {
                tool_id: tool_id(&scope.server, &name),
                tool_name: name,
                previous_hash: previous_hash.clone(),
                new_hash: change.hash.clone(),
                diff: diff.clone(),
                detections: detections.clone(),
                max_severity: max_severity.max(widening(diff)),
                action: change_action(cx.config, review.action(&[GuardKind::RugPull])),
            };
            cx.reporter.report(scope.clone(), time, changed);
        }
        let about = About {
            tool_name: Some(entry.name.as_str().into()),
            tool_hash: Some(change.hash.clone()),
            action: found_action(&review),
            ..About::of(Subject::Definition)
        };
        let found = Inspection { detections, bounds: entry.known.found.bounds };
        cx.report_found(scope, time, &about, &found);
        self.hold_listed(cx, scope, seen, &entry.name, review);
    }

    /// Notes a tool that a session's servers offer.
    fn session_tool(&mut self, config: &EngineConfig, session: &SessionId, name: &str) {
        if config.inspection.is_some() {
            Arc::make_mut(self.sessions.entry(session.clone()).or_default()).add(name);
        }
    }

    /// What guards will go by when the tool is called.
    fn know_tool(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        change: &Change,
        entry: &Entry<'_>,
        finding: Option<&Detection>,
    ) -> ToolFacts {
        if let Some(known) = known_tool(cx.connections, scope, change).filter(|_| finding.is_none()) {
            return known.clone();
        }
        let mut facts = self.classify(scope, &entry.name, entry.json.get());
        facts.refusal =
            self.is_given_up(scope.connection, &entry.name, &change.hash).then_some(Refusal::TimedOut);
        if change.denied {
            facts.refusal = Some(Refusal::Denied);
        }
        facts.hash = change.hash.as_str().into();
        (facts.pin, facts.approved) = (change.pin, change.approved);
        facts.is_uncompared = change.is_uncompared;
        facts.detections.clone_from(&entry.known.found.detections);
        facts.detections.extend(finding.cloned());
        if change.contradicts
            && let Some(other) =
                cx.connections.get(scope.connection).and_then(|known| known.tools.get(&facts.name))
        {
            let unmarked = other.detections.iter().cloned();
            let unmarked = unmarked.map(|found| Detection { muted_by: None, ..found });
            let missing = unmarked.filter(|found| !entry.known.found.detections.contains(found));
            facts.detections.extend(missing);
            // It may do what either says.
            facts.risk = facts.risk.max(other.risk);
            facts.side_effects.extend(other.side_effects.iter().cloned());
            facts.may_do_anything |= other.may_do_anything;
        }
        cx.mark(scope, (Some(&entry.name), Some(&change.hash)), &mut facts.detections);
        facts.max_severity = Detection::worst(&facts.detections);
        let limit = cx.config.limits.tools;
        if let Some(connection) = cx.connections.get_mut(scope.connection) {
            if connection.tools.len() < limit {
                connection.know(facts.clone());
                connection.know_repeated(&facts.name, heads::repeated(entry.json.get()), limit);
            } else {
                cx.reporter.counters.tools_overflow += 1;
            }
        }
        facts
    }
}

/// How a definition stands to its pin.
pub(super) fn status(change: &Change) -> ToolStatus {
    match (&change.kind, change.pin) {
        (ChangeKind::New, _) => ToolStatus::New,
        (ChangeKind::Restored { .. }, _) => ToolStatus::Restored,
        (ChangeKind::Changed { .. }, _) | (_, PinState::Changed) => ToolStatus::Changed,
        (_, PinState::Pinned) => ToolStatus::Unchanged,
        (_, PinState::Unpinned) => ToolStatus::Unpinned,
    }
}

/// What comes of a changed definition, where guards say this of its calls.
pub(super) fn change_action(config: &EngineConfig, guards: Option<Action>) -> Action {
    match guards {
        Some(Action::Block) => Action::Block,
        Some(Action::Alert) | None if config.registry.alert_on_change => Action::Alert,
        _ => Action::Allow,
    }
}

/// Reports what the name of a tool has against it, where it is bad enough. What is not stands with the tool.
fn report_finding(
    cx: &mut Context<'_>,
    scope: &Scope,
    time: Timestamp,
    (name, hash, review): (&str, String, &Review),
    detection: Detection,
) {
    let about = About {
        tool_name: Some(name.into()),
        tool_hash: Some(hash),
        action: found_action(review),
        ..About::of(Subject::Definition)
    };
    let found = Inspection { detections: vec![detection], ..Inspection::default() };
    cx.report_found(scope, time, &about, &found);
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

/// What is known of the tool with this definition.
fn known_tool<'c>(connections: &'c Connections, scope: &Scope, change: &Change) -> Option<&'c ToolFacts> {
    let known = connections.get(scope.connection)?.tools.get(change.item.name.as_str())?;
    let stands = (change.pin, change.approved, change.is_uncompared);
    let is_same = |known: &&ToolFacts| (known.pin, known.approved, known.is_uncompared) == stands;
    Some(known).filter(|known| *known.hash == *change.hash).filter(is_same)
}
