//! The registry: what servers offered before, what of it is pinned, and who was first with a name.
//!
//! A definition is pinned when it is first seen (trust on first use, `registry.pin_on_first_use`) and compared ever
//! after. A pin does not move by itself: a changed definition stays [`PinState::Changed`] until somebody approves it,
//! and is said once, however often it is listed, also by the next run of this program. When the pinned definition
//! returns, that is said once as well ([`ChangeKind::Restored`]). Its two most important types are [`Registry`] and
//! [`PinRecord`], what a [`Store`] keeps of each tool, prompt, resource template and server's instructions.
//!
//! It does not read messages: the engine hands in the pages of lists, and says the events that follow from the
//! [`Change`]s that it gets back.
//!
//! | module | job |
//! |---|---|
//! | `page` | a page of a list into changes |
//! | `load` | the pins of a server into memory, also those kept under a former path |
//! | `pin`, `store` | one pin; where pins are kept |
//! | `decisions` | what operators decide: approvals, of some calls or for some time too; denials; pins that are forgotten |
//! | `mutes` | what operators mute, kept with the pins |
//! | `orders` | definitions that order something about other servers' tools |
//! | `names`, `shadow` | names that are taken for one another; what that means |
//! | `config` | settings, bounds, counters, errors |

mod config;
mod decisions;
mod load;
mod mutes;
mod names;
mod orders;
mod page;
mod pin;
mod shadow;
mod store;

use std::collections::{BTreeMap, BTreeSet};

pub use crate::definition::{Diff, FieldChange};
pub use crate::terms::{ItemKind, PinKey};
use config::Kept;
pub use config::{ITEMS_PER_SERVER, RegistryCounters, RegistryError, RegistryLimits, RegistrySettings};
pub use decisions::EndedApproval;
pub use page::{Change, ChangeKind, Offer, Outcome, Page};
pub use pin::{Approval, ApprovalLimits, Denied, HASH_VERSION, LimitedApproval, PinRecord, Said};
pub use shadow::Finding;
pub use store::{Item, MemoryStore, Store, StoreError};

use crate::definition::bounded_name;
use crate::detect::OrderedNames;
use crate::terms::{ConnectionId, Detection, Identity, PinState, ServerId, SessionId};
use names::{Claim, Effort, First, Names, core_of_server};
use shadow::Side;

/// A connection to a server, as far as the registry wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Whose session. Names are compared within it.
    pub session: SessionId,
    /// Whose pins.
    pub key: PinKey,
    /// What earlier versions of this program put in place of the program of `key`: paths as they are, and who serves in the end.
    pub formerly: Vec<String>,
    /// Other names of the server: its pins may have been kept under one of them.
    pub also: Vec<ServerId>,
    /// Whether its program has others of any name serve in its place: its pins are its own, whatever the server was called.
    pub hands_over: bool,
    /// The version of its package, image or program.
    pub version: Option<String>,
    /// Whether the server is declared.
    pub identity: Identity,
}

/// How a tool that a connection offers stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing<'a> {
    /// Hash of its definition: see [`crate::definition::json_hash`].
    pub hash: &'a str,
    /// How that stands to the pin.
    pub pin: PinState,
    /// Whether somebody approved this definition.
    pub approved: bool,
    /// Whether somebody said that it must not be used.
    pub denied: bool,
    /// What its name has against it.
    pub detection: Option<&'a Detection>,
    /// The server that was first with that name. `None` where two declared servers share a plain name.
    pub shadows: Option<&'a ServerId>,
}

/// What servers offer, and offered before. See the module.
#[derive(Debug)]
pub struct Registry {
    settings: RegistrySettings,
    store: Box<dyn Store>,
    /// Of the servers that are connected; the others' pins are in the store only.
    servers: BTreeMap<PinKey, Server>,
    connections: BTreeMap<ConnectionId, Connection>,
    sessions: BTreeMap<SessionId, Session>,
    /// Pins, items and names in memory.
    kept: Kept,
    counters: RegistryCounters,
}

/// The pins of one server.
#[derive(Debug, Default)]
struct Server {
    records: BTreeMap<Item, PinRecord>,
    /// Whether those of the store are among them. Until then no pin is made.
    loaded: bool,
    /// Whether there is no room for them: they are read for each page, and forgotten after it.
    is_crowded: bool,
    /// What the store does not have yet.
    dirty: BTreeSet<Item>,
    connections: usize,
}

#[derive(Debug)]
struct Connection {
    id: ConnectionId,
    peer: Peer,
    /// Its server among those of the session; `None` where there were too many.
    owner: Option<usize>,
    lists: BTreeMap<ItemKind, List>,
    /// How many pages had come from all servers when it began.
    began: u64,
}

/// What a connection lists of one kind.
#[derive(Debug, Default)]
struct List {
    items: BTreeMap<String, Listed>,
    /// Whether it was whole at least once.
    complete: bool,
    /// The names so far, while pages come; `None` between lists.
    seen: Option<BTreeSet<String>>,
    /// How many pages had come from all servers with its last one.
    read: u64,
}

/// One of the items listed.
#[derive(Debug)]
struct Listed {
    hash: String,
    /// The hash that earlier versions had of it, where that is another one.
    former: Option<String>,
    pin: PinState,
    approved: bool,
    denied: bool,
    finding: Option<Box<Finding>>,
    /// The names that its orders give.
    ordered: OrderedNames,
    /// Whether it is known that one of them is of another server's tool.
    is_ordering: bool,
    /// Whether its name, where that matters, is compared with those of the session's other servers.
    is_named: bool,
}

/// The servers of one client, in the order in which they came.
#[derive(Debug, Default)]
struct Session {
    /// User id of its first server: whom its names are counted to.
    user: Option<u32>,
    owners: Vec<(PinKey, Identity)>,
    connections: BTreeSet<ConnectionId>,
    tools: Names,
    servers: Names,
}

impl Session {
    fn side<'a>(&'a self, owner: usize, name: &'a str) -> Option<Side<'a>> {
        let (key, identity) = self.owners.get(owner)?;
        Some(Side { server: &key.server, identity: *identity, name })
    }

    fn names(&self) -> usize {
        self.tools.len() + self.servers.len()
    }
}

impl Registry {
    /// A registry over the pins of `store`.
    pub fn new(settings: RegistrySettings, store: Box<dyn Store>) -> Self {
        Self {
            settings,
            store,
            servers: BTreeMap::new(),
            connections: BTreeMap::new(),
            sessions: BTreeMap::new(),
            kept: Kept::default(),
            counters: RegistryCounters::default(),
        }
    }

    /// Goes by these settings from now on; pins and who is connected stay.
    pub fn configure(&mut self, settings: RegistrySettings) {
        self.settings = settings;
    }

    /// A server is connected, and its identity is known. What its name has against it beside those of the session's
    /// other servers. A connection that is known already is begun anew.
    ///
    /// # Errors
    /// There are too many connections; or there was one with this id, whose pins the store could not take.
    pub fn connect(&mut self, id: ConnectionId, peer: Peer) -> Result<Option<Detection>, RegistryError> {
        self.disconnect(id)?;
        if self.connections.len() >= self.settings.limits.connections {
            self.counters.connections_refused += 1;
            return Err(RegistryError::Connections(self.connections.len()));
        }
        let session = self.sessions.entry(peer.session.clone());
        let session = session.or_insert_with(|| Session {
            user: peer.key.uid,
            servers: Names::of_servers(),
            ..Session::default()
        });
        session.connections.insert(id);
        let known = session.owners.iter().position(|(key, _)| *key == peer.key);
        let room = session.owners.len() < self.settings.limits.servers_per_session;
        let (owner, mut detection) = (known.or(room.then_some(session.owners.len())), None);
        match owner {
            None => self.counters.servers_refused += 1,
            Some(owner) if known.is_none() => {
                session.owners.push((peer.key.clone(), peer.identity));
                let core = core_of_server(&peer.key.server.0);
                let before = session.servers.len();
                let first = First { owner, name: core.clone(), since: 0 };
                let threshold = self.settings.similarity_threshold;
                let claim = session.servers.claim(first, threshold, true, &mut Effort::default());
                self.kept.add(session.user, session.servers.len() - before);
                if let Claim::Later(first, likeness) = claim
                    && let (Some(first), Some(later)) =
                        (session.side(first.owner, &first.name), session.side(owner, &core))
                    // Another program of the same name: its tools' names tell.
                    && first.server != later.server
                {
                    detection = Some(shadow::of_server(first, later, likeness));
                }
            }
            Some(_) => {}
        }
        self.servers.entry(peer.key.clone()).or_default().connections += 1;
        let began = self.counters.pages;
        self.connections.insert(id, Connection { id, peer, owner, lists: BTreeMap::new(), began });
        Ok(detection.filter(|found| self.settings.looks_for(found)))
    }

    /// A connection ended. Who was first with a name stays so until the last connection of the session ends.
    ///
    /// # Errors
    /// The store could not take what it did not have yet; that is lost.
    pub fn disconnect(&mut self, id: ConnectionId) -> Result<(), StoreError> {
        let Some(connection) = self.connections.remove(&id) else { return Ok(()) };
        let (key, lists) = (&connection.peer.key, connection.lists.values());
        self.kept.remove(key.uid, lists.map(|list| list.items.len()).sum());
        if let Some(session) = self.sessions.get_mut(&connection.peer.session) {
            session.connections.remove(&id);
            if session.connections.is_empty() {
                self.kept.remove(session.user, session.names());
                self.sessions.remove(&connection.peer.session);
            }
        }
        let flushed = self.flush(key, &[]);
        if let Some(server) = self.servers.get_mut(key) {
            server.connections -= 1;
            if server.connections == 0 {
                self.kept.remove(key.uid, if server.is_crowded { 0 } else { server.records.len() });
                self.servers.remove(key);
            }
        }
        flushed
    }

    /// A server announced that a list of its changed (`notifications/tools/list_changed` and the like). What changed
    /// is known when the client asks for the list again, and until then the old one holds.
    pub fn list_changed(&mut self) {
        self.counters.list_changes += 1;
    }

    /// Whether a connection's server is told apart from the others of its session: else its tools' names are not compared with
    /// theirs.
    pub fn tells_apart(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(|connection| connection.owner.is_some())
    }

    /// Whether a connection's tools are known: it listed them once to the end.
    pub fn is_listed(&self, id: ConnectionId) -> bool {
        self.list(id).is_some_and(|list| list.complete)
    }

    /// How the tool of this name stands, which a connection offers; `None` where it does not.
    pub fn tool(&self, id: ConnectionId, name: &str) -> Option<Standing<'_>> {
        let items = &self.list(id)?.items;
        let listed = items.get(name).or_else(|| items.get(&bounded_name(name)))?;
        Some(listed.standing())
    }

    /// All tools that a connection offers, by name.
    pub fn tools(&self, id: ConnectionId) -> impl Iterator<Item = (&str, Standing<'_>)> {
        let items = self.list(id).into_iter().flat_map(|list| &list.items);
        items.map(|(name, listed)| (name.as_str(), listed.standing()))
    }

    /// Whose pins those of a connection are.
    pub fn key(&self, id: ConnectionId) -> Option<&PinKey> {
        self.connections.get(&id).map(|connection| &connection.peer.key)
    }

    /// The connections to a server, with whose pins they are: several where the server runs for several users, or
    /// another program has its name.
    pub fn servers<'a>(&'a self, server: &'a ServerId) -> impl Iterator<Item = (ConnectionId, &'a PinKey)> {
        let keys = self.connections.values().map(|connection| (connection.id, &connection.peer.key));
        keys.filter(move |(_, key)| key.server == *server)
    }

    /// A tool that a connection lists is not to be known of it until it lists it again. Its pin stays.
    pub fn leave_out(&mut self, id: ConnectionId, name: &str) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(list) = connection.lists.get_mut(&ItemKind::Tool) else { return };
        if list.items.remove(&bounded_name(name)).is_some() {
            self.kept.remove(connection.peer.key.uid, 1);
        }
    }

    fn list(&self, id: ConnectionId) -> Option<&List> {
        self.connections.get(&id)?.lists.get(&ItemKind::Tool)
    }

    /// All pins of a server, connected or not.
    ///
    /// # Errors
    /// The store cannot read them.
    pub fn pins(&mut self, key: &PinKey) -> Result<BTreeMap<Item, PinRecord>, StoreError> {
        match self.servers.get(key).filter(|server| server.loaded) {
            Some(server) => Ok(server.records.clone()),
            None => self.store.load(key),
        }
    }

    /// Whose pins of servers of this name there are in the store, connected or not.
    ///
    /// # Errors
    /// The store cannot read them.
    pub fn pinned(&mut self, server: &ServerId) -> Result<Vec<PinKey>, StoreError> {
        self.stored(|store| store.keys(server))
    }

    /// The definition with this hash, as it was sent. `None` where it was too large to be kept, or cannot be read, which is
    /// counted.
    pub fn definition(&mut self, hash: &str) -> Option<String> {
        self.stored(|store| store.definition(hash)).ok().flatten()
    }

    /// What happened so far.
    pub fn counters(&self) -> &RegistryCounters {
        &self.counters
    }

    /// Has all connections of a server see what became of its pins.
    fn refresh(&mut self, key: &PinKey) {
        // Of others a list says how it stood when it was listed last.
        let Some(server) = self.servers.get(key).filter(|server| server.loaded) else { return };
        for connection in self.connections.values_mut().filter(|connection| connection.peer.key == *key) {
            for (kind, list) in &mut connection.lists {
                for (name, listed) in &mut list.items {
                    listed.compare(server.records.get(&Item { kind: *kind, name: name.clone() }));
                }
            }
        }
    }

    /// Hands the store what it does not have yet.
    fn flush(&mut self, key: &PinKey, definitions: &[(String, String)]) -> Result<(), StoreError> {
        let Some(server) = self.servers.get(key) else { return Ok(()) };
        let pins =
            server.dirty.iter().filter_map(|item| Some((item.clone(), server.records.get(item)?.clone())));
        let pins: Vec<(Item, PinRecord)> = pins.collect();
        if pins.is_empty() && definitions.is_empty() {
            return Ok(());
        }
        self.stored(|store| store.put(key, &pins, definitions))?;
        if let Some(server) = self.servers.get_mut(key) {
            server.dirty.clear();
        }
        Ok(())
    }

    /// What the store answers; failures are counted.
    fn stored<T>(
        &mut self,
        ask: impl FnOnce(&mut dyn Store) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let answer = ask(self.store.as_mut());
        self.counters.store_errors += u64::from(answer.is_err());
        answer
    }
}

impl Listed {
    fn compare(&mut self, record: Option<&PinRecord>) {
        self.pin = record.map_or(PinState::Unpinned, |record| record.state_of(&self.hash));
        self.approved = record.is_some_and(|record| record.approved.is_some() && record.hash == self.hash);
        let former = self.former.as_deref();
        self.denied = record.is_some_and(|record| {
            record.denies(&self.hash) || former.is_some_and(|former| record.denies(former))
        });
    }

    fn standing(&self) -> Standing<'_> {
        let finding = self.finding.as_deref();
        Standing {
            hash: &self.hash,
            pin: self.pin,
            approved: self.approved,
            denied: self.denied,
            detection: finding.map(|finding| &finding.detection),
            shadows: finding.and_then(|finding| finding.shadows.as_ref()),
        }
    }
}

#[cfg(test)]
mod tests;
