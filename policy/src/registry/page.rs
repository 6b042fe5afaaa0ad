//! A page of a list, compared with the pins and with the other servers of the session.

mod outcome;

use std::collections::{BTreeMap, BTreeSet};

use super::names::{Claim, Effort, First};
use super::pin::{PinRecord, Sight};
use super::shadow::{self, Finding};
use super::store::Item;
use super::{Connection, List, Listed, Peer, Registry};
use crate::definition::{Diff, bounded_name, hex};
pub use outcome::{Change, ChangeKind, Offer, Outcome, Page};

use crate::terms::{ConnectionId, Identity, ItemKind, PinKey, PinState, SessionId, Timestamp};

/// Of so many items of a page that there was no room for it is said what was found in them.
const REFUSED_SAID: usize = 1_024;

/// Programs of a declared server of which it is looked up since when they had its tools.
const MAX_PROGRAMS: usize = 32;

/// One page being taken.
pub(super) struct Turn {
    now: Timestamp,
    pub(super) outcome: Outcome,
    /// Items that were not listed before, or with another definition.
    pub(super) fresh: BTreeSet<String>,
    /// Tools that order something about another server's, with what is to be reported of them.
    pub(super) ordering: Vec<(ConnectionId, String, Finding)>,
    /// Since when the server has tools that this program of its offers for the first time.
    inherited: BTreeMap<Item, Timestamp>,
    /// The version of the server.
    version: Option<String>,
    /// What is about to be handed to the store: hashes and definitions.
    definitions: Vec<(String, String)>,
    /// Items without room that are said.
    refused_said: usize,
    /// What comparing the names may still cost.
    effort: Effort,
}

impl Registry {
    /// Takes a page of a list. Items are compared at once, since they can be called at once; what was removed is known
    /// with the last page. A first page begins a new list, and one that was not finished is forgotten.
    pub fn page(&mut self, id: ConnectionId, page: &Page<'_>, now: Timestamp) -> Outcome {
        let mut turn = Turn {
            now,
            outcome: Outcome::default(),
            fresh: BTreeSet::new(),
            ordering: Vec::new(),
            inherited: BTreeMap::new(),
            version: None,
            definitions: Vec::new(),
            refused_said: 0,
            effort: Effort::default(),
        };
        let Some(mut connection) = self.connections.remove(&id) else {
            self.counters.unknown_pages += 1;
            return turn.outcome;
        };
        self.counters.pages += 1;
        turn.version.clone_from(&connection.peer.version);
        self.load(&connection.peer, page.offers.len(), &mut turn.outcome);
        self.inherit(&connection.peer, page, &mut turn);
        let list = connection.lists.entry(page.kind).or_default();
        list.read = self.counters.pages;
        let before = page.beside.then(|| list.seen.take());
        if page.beside {
            list.seen = Some(list.items.keys().cloned().collect());
        } else if page.first {
            list.seen = Some(BTreeSet::new());
        } else if list.seen.is_none() {
            self.counters.loose_pages += 1;
        }
        for offer in page.offers {
            self.offer(&mut connection, page.kind, offer, &mut turn);
        }
        if let Some(before) = before {
            connection.lists.entry(page.kind).or_default().seen = before;
        } else if page.last {
            self.complete(&mut connection, page.kind, &mut turn.outcome);
        }
        self.find_orders(&connection, page, &mut turn);
        let flushed = self.flush(&connection.peer.key, &turn.definitions);
        let is_stored = turn.outcome.note(flushed).is_some();
        if self.give_back(&connection.peer.key) && !is_stored {
            turn.outcome.forget_new();
            self.counters.items_refused += turn.outcome.refused as u64;
        }
        self.connections.insert(id, connection);
        self.note_orders(&mut turn);
        for change in &mut turn.outcome.changes {
            // Who was first is known all the same.
            change.finding.take_if(|finding| !self.settings.looks_for(&finding.detection));
        }
        turn.outcome
    }

    /// The pin of something that a connection need not have listed: whoever has the same pins may have.
    pub fn pin(&mut self, id: ConnectionId, item: &Item) -> Option<&PinRecord> {
        let peer = &self.connections.get(&id)?.peer;
        let server = self.servers.get(&peer.key)?;
        if server.is_crowded {
            // They are not read for each call.
            return None;
        }
        if !server.loaded {
            let peer = peer.clone();
            self.load(&peer, 0, &mut Outcome::default());
            self.give_back(&peer.key);
        }
        let peer = &self.connections.get(&id)?.peer;
        self.servers.get(&peer.key)?.records.get(item)
    }

    /// A declared server that was upgraded may be another program, with pins of its own. Whoever shadowed its tools before
    /// must not be first with their names for it, so that it has them since its programs had. A name that a server
    /// gives itself inherits nothing: anyone can take it.
    fn inherit(&mut self, peer: &Peer, page: &Page<'_>, turn: &mut Turn) {
        let is_new = |offer: &Offer<'_>| self.record(&peer.key, &Item::tool(offer.name)).is_none();
        if peer.identity != Identity::Declared
            || page.kind != ItemKind::Tool
            || !page.offers.iter().any(is_new)
        {
            return;
        }
        let keys = self.stored(|store| store.keys(&peer.key.server));
        let keys = turn.outcome.note(keys).unwrap_or_default();
        let others = keys.iter().filter(|key| key.uid == peer.key.uid && **key != peer.key);
        self.counters.programs_not_read += others.clone().skip(MAX_PROGRAMS).count() as u64;
        for key in others.take(MAX_PROGRAMS) {
            let pins = self.pins(key);
            for (item, record) in turn.outcome.note(pins).unwrap_or_default() {
                let since = turn.inherited.entry(item).or_insert(record.first_seen);
                *since = record.first_seen.min(*since);
            }
        }
    }

    fn offer(&mut self, connection: &mut Connection, kind: ItemKind, offer: &Offer<'_>, turn: &mut Turn) {
        let item = Item { kind, name: bounded_name(offer.name) };
        let hash = hex(offer.hash);
        let key = &connection.peer.key;
        let list = connection.lists.entry(kind).or_default();
        let again = list.seen.as_ref().is_some_and(|seen| seen.contains(&item.name));
        let contradicts = again && list.items.get(&item.name).is_some_and(|before| before.hash != hash);
        self.counters.contradictions += u64::from(contradicts);
        if contradicts && self.gives_way(key, list, &item, &hash) {
            return;
        }
        let is_new = self.record(key, &item).is_none();
        if is_new && !self.kept.fit(key.uid, 1, &self.settings.limits) {
            self.crowd(key);
        }
        let (has_entry, has_pin) = (self.has_entry(key, list, &item), self.has_pin(key, &item));
        let is_uncompared = !has_pin || !self.servers.get(key).is_some_and(|server| server.loaded);
        // Listed it is, room or not, if it has a pin: else that would be taken to be removed.
        if has_pin && let Some(seen) = &mut list.seen {
            seen.insert(item.name.clone());
        }
        if !has_pin {
            self.counters.items_refused += 1;
            turn.outcome.refused += 1;
            // Neither pinned nor remembered, and none the less offered: what was found in it is said. Of how many is bounded,
            // since each listing says it again.
            if offer.max_severity.is_some() && turn.refused_said < REFUSED_SAID {
                turn.refused_said += 1;
                let (kind, pin, finding) = (ChangeKind::Seen, PinState::Unpinned, None);
                turn.outcome.changes.push(Change {
                    connection: connection.id,
                    item,
                    hash,
                    kind,
                    pin,
                    finding,
                    contradicts: false,
                    approved: false,
                    denied: false,
                    is_uncompared,
                });
            }
            return;
        }
        let kind = self.compare(key, &item, &hash, offer, turn);
        let former = offer.former.map(|former| hex(former));
        let record = self.record(key, &item);
        let since = record.map_or(turn.now, |record| record.first_seen);
        let mut listed = Listed {
            hash: hash.clone(),
            former,
            pin: PinState::Unpinned,
            approved: false,
            denied: false,
            finding: None,
            ordered: offer.ordered.clone(),
            is_ordering: false,
            is_named: item.kind != ItemKind::Tool,
        };
        listed.compare(record);
        let mut finding = None;
        let before = list.items.remove(&item.name);
        if before.as_ref().is_none_or(|before| before.hash != hash) {
            turn.fresh.insert(item.name.clone());
            self.counters.ordered_names_dropped += offer.ordered.dropped;
        }
        if let Some(before) = before {
            listed.is_ordering = before.is_ordering && before.hash == hash;
            (listed.finding, listed.is_named) = (before.finding, before.is_named);
        } else if !has_entry {
            self.counters.entries_refused += 1;
        } else {
            self.kept.add(key.uid, 1);
            if item.kind == ItemKind::Tool {
                (listed.finding, listed.is_named) =
                    self.claim(&connection.peer.session, connection.owner, &item.name, since, turn);
                finding.clone_from(&listed.finding);
            }
        }
        let Listed { pin, approved, denied, is_named, .. } = listed;
        if has_entry {
            list.items.insert(item.name.clone(), listed);
        }
        let connection = connection.id;
        turn.outcome.changes.push(Change {
            connection,
            item,
            hash,
            kind,
            pin,
            finding,
            contradicts,
            approved,
            denied,
            is_uncompared: is_uncompared || !is_named,
        });
    }

    fn record(&self, key: &PinKey, item: &Item) -> Option<&PinRecord> {
        self.servers.get(key)?.records.get(item)
    }

    /// Whether this is the harmless one of two definitions of one name in one list: nobody knows which of them the client
    /// takes, so that the changed one counts.
    fn gives_way(&self, key: &PinKey, list: &List, item: &Item, hash: &str) -> bool {
        let changed = list.items.get(&item.name).is_some_and(|before| before.pin == PinState::Changed);
        let record = self.record(key, item);
        changed && record.is_some_and(|record| record.state_of(hash) == PinState::Pinned)
    }

    /// Whether there is room for an item in a list.
    fn has_entry(&self, key: &PinKey, list: &List, item: &Item) -> bool {
        let limits = &self.settings.limits;
        list.items.contains_key(&item.name)
            || list.items.len() < limits.items_per_server && self.kept.fit(key.uid, 1, limits)
    }

    /// Whether an item has a pin, or there is room for one. Where pins cannot be read, there is none to be compared with, and
    /// none is made.
    fn has_pin(&self, key: &PinKey, item: &Item) -> bool {
        let limits = &self.settings.limits;
        let Some(server) = self.servers.get(key) else { return false };
        let has_room = || server.is_crowded || self.kept.fit(key.uid, 1, limits);
        !server.loaded
            || server.records.contains_key(item)
            || server.records.len() < limits.items_per_server && has_room()
    }

    /// Compares a definition with its pin, and makes one where there is none.
    fn compare(
        &mut self,
        key: &PinKey,
        item: &Item,
        hash: &str,
        offer: &Offer<'_>,
        turn: &mut Turn,
    ) -> ChangeKind {
        if self.adopt(key, item, hash, offer.former) {
            self.keep(hash, offer.json, turn);
        }
        let Some(server) = self.servers.get_mut(key).filter(|server| server.loaded) else {
            return ChangeKind::Seen;
        };
        let Some(record) = server.records.get_mut(item) else {
            let pinned = self.settings.pin_on_first_use;
            let mut record = PinRecord::new(hash, pinned, offer.max_severity, turn.now);
            record.first_seen = turn.inherited.get(item).map_or(turn.now, |since| turn.now.min(*since));
            record.version = turn.version.as_deref().map(Box::from);
            server.records.insert(item.clone(), record);
            server.dirty.insert(item.clone());
            self.kept.add(key.uid, usize::from(!server.is_crowded));
            self.keep(hash, offer.json, turn);
            return ChangeKind::New;
        };
        let before = (record.last_seen, record.max_severity, record.listed, record.current == hash);
        let sight = record.see(hash, offer.max_severity, turn.now);
        let version = turn.version.as_deref().map(|version| record.listed_by(version));
        let (previous, is_new) = version.unwrap_or_default();
        turn.outcome.previous_version = turn.outcome.previous_version.take().or(previous);
        if is_new || before != (record.last_seen, record.max_severity, record.listed, true) {
            server.dirty.insert(item.clone());
        }
        match sight {
            Sight::Same => ChangeKind::Seen,
            Sight::Restored { previous } => ChangeKind::Restored { previous_hash: previous },
            Sight::Changed { previous } => {
                self.counters.changed += 1;
                let diff = self.diff(&previous, offer.json, turn);
                self.keep(hash, offer.json, turn);
                ChangeKind::Changed { previous_hash: previous, diff }
            }
        }
    }

    /// Has the pin of an item know a definition by its hash of this version. Whether that is news.
    fn adopt(&mut self, key: &PinKey, item: &Item, hash: &str, former: Option<&[u8; 32]>) -> bool {
        let Some(server) = self.servers.get_mut(key).filter(|server| server.loaded) else { return false };
        let former = former.map(|former| hex(former));
        let record = server.records.get_mut(item);
        let is_news = record.is_some_and(|record| record.adopt(hash, former.as_deref()));
        if is_news {
            server.dirty.insert(item.clone());
        }
        is_news
    }

    fn keep(&mut self, hash: &str, json: &str, turn: &mut Turn) {
        if json.len() > self.settings.limits.definition_bytes {
            self.counters.definitions_not_kept += 1;
        } else {
            turn.definitions.push((hash.to_owned(), json.to_owned()));
        }
    }

    fn diff(&mut self, previous: &str, new: &str, turn: &mut Turn) -> Diff {
        if let Some((_, json)) = turn.definitions.iter().find(|(hash, _)| hash == previous) {
            return Diff::of(json, new);
        }
        let kept = self.stored(|store| store.definition(previous));
        turn.outcome.note(kept).flatten().map_or_else(Diff::unknown, |json| Diff::of(&json, new))
    }

    /// Takes a tool's name in its session. What is found against it, and whether it is compared with all names from now on; what is
    /// found against whoever had it is said.
    fn claim(
        &mut self,
        session: &SessionId,
        owner: Option<usize>,
        name: &str,
        since: Timestamp,
        turn: &mut Turn,
    ) -> (Option<Box<Finding>>, bool) {
        let (Some(owner), Some(session)) = (owner, self.sessions.get_mut(session)) else {
            return (None, false);
        };
        let (before, room) = (session.tools.len(), self.kept.fit(session.user, 1, &self.settings.limits));
        let skipped = session.tools.not_compared;
        let first = First { owner, name: name.to_owned(), since: since.0 };
        let threshold = self.settings.similarity_threshold;
        let claim = session.tools.claim(first, threshold, room, &mut turn.effort);
        self.kept.add(session.user, session.tools.len() - before);
        self.counters.names_not_compared += session.tools.not_compared - skipped;
        match claim {
            Claim::Free => (None, true),
            Claim::Refused => {
                self.counters.names_refused += 1;
                (None, false)
            }
            Claim::Later(first, likeness) => {
                let sides = session.side(first.owner, &first.name).zip(session.side(owner, name));
                let finding = sides.map(|(first, later)| shadow::of_tool(first, later, likeness));
                (finding.map(Box::new), true)
            }
            Claim::Earlier(later, likeness) => {
                let sides = session.side(owner, name).zip(session.side(later.owner, &later.name));
                let Some((own, side)) = sides else { return (None, true) };
                let finding = shadow::of_tool(own, side, likeness);
                for id in &session.connections {
                    let listed =
                        self.connections.get_mut(id).filter(|other| other.owner == Some(later.owner));
                    let lists = listed.and_then(|other| other.lists.get_mut(&ItemKind::Tool));
                    let Some(listed) = lists.and_then(|list| list.items.get_mut(&later.name)) else {
                        continue;
                    };
                    listed.finding = Some(Box::new(finding.clone()));
                    turn.outcome.changes.push(Change {
                        connection: *id,
                        item: Item { kind: ItemKind::Tool, name: later.name.clone() },
                        hash: listed.hash.clone(),
                        kind: ChangeKind::Shadowing,
                        pin: listed.pin,
                        finding: Some(Box::new(finding.clone())),
                        contradicts: false,
                        approved: listed.approved,
                        denied: listed.denied,
                        is_uncompared: false,
                    });
                }
                (None, true)
            }
        }
    }

    /// A list is whole: what it lacks was removed.
    fn complete(&mut self, connection: &mut Connection, kind: ItemKind, outcome: &mut Outcome) {
        let list = connection.lists.entry(kind).or_default();
        let Some(seen) = list.seen.take() else { return };
        list.complete = true;
        let before = list.items.len();
        list.items.retain(|name, _| seen.contains(name));
        self.kept.remove(connection.peer.key.uid, before - list.items.len());
        let key = &connection.peer.key;
        let Some(server) = self.servers.get_mut(key).filter(|server| server.loaded) else { return };
        let others: Vec<&List> = self
            .connections
            .values()
            .filter(|other| other.peer.key == *key)
            .filter_map(|other| other.lists.get(&kind))
            // What was read before this connection began says nothing of the server as it is started now.
            .filter(|list| list.read > connection.began)
            .collect();
        for (item, record) in
            server.records.iter_mut().filter(|(item, record)| item.kind == kind && record.listed)
        {
            let offered = |list: &&List| list.items.contains_key(&item.name);
            if seen.contains(&item.name) || others.iter().any(offered) {
                continue;
            }
            record.listed = false;
            server.dirty.insert(item.clone());
            self.counters.removed += 1;
            outcome.changes.push(Change {
                connection: connection.id,
                item: item.clone(),
                hash: record.current.clone(),
                kind: ChangeKind::Removed,
                pin: record.state_of(&record.current),
                finding: None,
                contradicts: false,
                approved: false,
                denied: false,
                is_uncompared: false,
            });
        }
    }
}
