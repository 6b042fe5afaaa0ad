//! Orders across servers: a definition that has the model do something about the tools of another server of the session.
//!
//! Every server may order the model about among its own tools; whose tools a name is of, no sentence shows. Hence names in
//! orders ([`OrderedNames`](crate::detect::OrderedNames)) are looked up among the tools that the other servers of the
//! session list, in either order of coming. A name that the server lists itself is its own.

use std::collections::{BTreeSet, HashMap};

use super::page::{Change, ChangeKind, Page, Turn};
use super::shadow::Finding;
use super::store::Item;
use super::{Connection, ConnectionId, Registry};
use crate::definition::bounded_name;
use crate::detect::{digest, order_about, score_of};
use crate::terms::{Category, Detection, Form, ItemKind, Match, ServerId, Severity};

/// Of a tool whose orders name another server's tool.
struct Ordering {
    connection: ConnectionId,
    tool: String,
    /// The name, and whose tool it is.
    named: String,
    owner: ServerId,
}

impl Registry {
    /// Looks up what tools of a page order that are new or changed, and what tools of other servers order about those.
    pub(super) fn find_orders(&mut self, connection: &Connection, page: &Page<'_>, turn: &mut Turn) {
        if page.kind != ItemKind::Tool || turn.fresh.is_empty() {
            return;
        }
        let found = self.orders(connection, &turn.fresh);
        for Ordering { connection: id, tool, named, owner } in found {
            let offered = page.offers.iter().find(|offer| bounded_name(offer.name) == tool);
            let json = match offered.filter(|_| id == connection.id) {
                Some(offer) => Some(offer.json.to_owned()),
                None => self.listed(connection, id, &tool).and_then(|hash| self.definition(&hash)),
            };
            let evidence = json.and_then(|json| order_about(&json, &named));
            turn.ordering.push((id, tool, finding(&named, &owner, evidence)));
        }
    }

    /// The hash of a tool that is listed on this connection, which is taken out for now, or on another.
    fn listed(&self, connection: &Connection, id: ConnectionId, tool: &str) -> Option<String> {
        let other = if id == connection.id { Some(connection) } else { self.connections.get(&id) };
        let list = other?.lists.get(&ItemKind::Tool)?;
        list.items.get(tool).map(|listed| listed.hash.clone())
    }

    fn orders(&self, connection: &Connection, fresh: &BTreeSet<String>) -> Vec<Ordering> {
        let Some(session) = self.sessions.get(&connection.peer.session) else { return Vec::new() };
        let others = session.connections.iter().filter_map(|id| self.connections.get(id));
        let (own, others): (Vec<&Connection>, Vec<&Connection>) =
            others.partition(|other| other.peer.key == connection.peer.key);
        if others.is_empty() {
            return Vec::new();
        }
        let own: Vec<&Connection> = own.into_iter().chain([connection]).collect();
        let mut found = Vec::new();
        // What is new here orders, and the others are named.
        let theirs = names_of(&others);
        let mine = names_of(&own);
        for (tool, listed) in connection.tools().filter(|(tool, _)| fresh.contains(*tool)) {
            let named = listed.ordered.digests().filter(|digest| !mine.contains_key(digest));
            if let Some((named, owner)) = named.filter_map(|digest| theirs.get(&digest)).next() {
                found.push(Ordering {
                    connection: connection.id,
                    tool: tool.to_owned(),
                    named: (*named).to_owned(),
                    owner: (*owner).clone(),
                });
            }
        }
        // The others order, and what is new here is named.
        let new: HashMap<u64, &str> = fresh.iter().map(|name| (digest(name), name.as_str())).collect();
        for other in &others {
            let of_owner: Vec<&Connection> =
                others.iter().copied().filter(|one| one.peer.key == other.peer.key).collect();
            let ordering =
                other.tools().filter(|(_, listed)| !listed.is_ordering).filter_map(|(tool, listed)| {
                    Some((tool, listed.ordered.digests().find_map(|digest| new.get(&digest))?))
                });
            let ordering: Vec<(&str, &&str)> = ordering.collect();
            if ordering.is_empty() {
                continue;
            }
            let its = names_of(&of_owner);
            let foreign = ordering.into_iter().filter(|(_, named)| !its.contains_key(&digest(named)));
            found.extend(foreign.map(|(tool, named)| Ordering {
                connection: other.id,
                tool: tool.to_owned(),
                named: (**named).to_owned(),
                owner: connection.peer.key.server.clone(),
            }));
        }
        found
    }

    /// Has these tools known to order, and reports each.
    pub(super) fn note_orders(&mut self, turn: &mut Turn) {
        for (id, tool, finding) in std::mem::take(&mut turn.ordering) {
            let list = self.connections.get_mut(&id).and_then(|other| other.lists.get_mut(&ItemKind::Tool));
            let Some(listed) = list.and_then(|list| list.items.get_mut(&tool)) else { continue };
            listed.is_ordering = true;
            self.counters.orders_across_servers += 1;
            turn.outcome.changes.push(Change {
                connection: id,
                item: Item { kind: ItemKind::Tool, name: tool },
                hash: listed.hash.clone(),
                kind: ChangeKind::Ordering,
                pin: listed.pin,
                finding: Some(Box::new(finding)),
                contradicts: false,
                approved: listed.approved,
                denied: listed.denied,
                is_uncompared: false,
            });
        }
    }
}

impl Connection {
    fn tools(&self) -> impl Iterator<Item = (&str, &super::Listed)> {
        let items = self.lists.get(&ItemKind::Tool).into_iter().flat_map(|list| &list.items);
        items.map(|(name, listed)| (name.as_str(), listed))
    }
}

/// The names of all tools of some connections, by their digests, with whose they are.
fn names_of<'c>(connections: &[&'c Connection]) -> HashMap<u64, (&'c str, &'c ServerId)> {
    let named = connections.iter().flat_map(|connection| {
        connection.tools().map(|(name, _)| (digest(name), (name, &connection.peer.key.server)))
    });
    named.collect()
}

fn finding(named: &str, owner: &ServerId, evidence: Option<(String, Match)>) -> Finding {
    let (field, mut evidence) = evidence.unwrap_or_else(|| {
        let evidence = Match { text: named.to_owned(), position: 0, context: named.to_owned() };
        ("/description".to_owned(), evidence)
    });
    evidence.context = format!("{}; {named} is a tool of {owner}", evidence.context);
    Finding {
        detection: Detection {
            pattern: "cross_server_order".to_owned(),
            category: Category::Shadowing,
            severity: Severity::High,
            field,
            matches: vec![evidence],
            score: score_of(Severity::High),
            form: Form::Raw,
            muted_by: None,
        },
        shadows: None,
    }
}
