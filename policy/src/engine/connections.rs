//! All connections that are known: which processes they are of, which are relays, whose sessions they belong to.

mod admission;
mod announce;
mod departed;
mod relaying;
mod succession;
mod totals;

use std::collections::{BTreeMap, HashMap};

pub(super) use admission::Admission;
pub(super) use announce::{Announced, Opinion, declared};
pub use totals::Traffic;

use super::connection::{Connection, Stage};
use super::io::Process;
use super::memory::{Memory, User};
use super::scope::Scope;
use crate::gate::GateCaller;
use crate::mutes::Mutes;
use crate::redact::Redactor;
use crate::terms::{ConnectionId, ServerId, SessionId};

/// The connections, and what is kept of those that were forgotten.
#[derive(Debug)]
pub(super) struct Connections {
    /// Looked up a dozen times for each message: with few of them a tree is quicker than a hash.
    all: BTreeMap<ConnectionId, Connection>,
    /// Which connection a live process serves.
    processes: HashMap<u32, ConnectionId>,
    dropped: admission::Dropped,
    refused: BTreeMap<ConnectionId, GateCaller>,
    departed: departed::Departed,
    memory: Memory,
    gone: totals::Gone,
    /// What ids of sessions are made with.
    redactor: Redactor,
}

impl Connections {
    /// None yet. `key`: that of the ids of sessions.
    pub(super) fn new(key: [u8; 32]) -> Self {
        Self {
            all: BTreeMap::new(),
            processes: HashMap::new(),
            dropped: admission::Dropped::default(),
            refused: BTreeMap::new(),
            departed: departed::Departed::default(),
            memory: Memory::default(),
            gone: totals::Gone::default(),
            redactor: Redactor::new(key),
        }
    }

    /// Ids of sessions are made with this key from now on.
    pub(super) fn set_key(&mut self, key: [u8; 32]) {
        self.redactor = Redactor::new(key);
    }

    pub(super) fn get(&self, id: ConnectionId) -> Option<&Connection> {
        self.all.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.all.get_mut(&id)
    }

    /// The user whose server a connection is; `None` while that is not known.
    pub(super) fn user(&self, id: ConnectionId) -> User {
        self.get(id).and_then(|connection| connection.account.user)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Connection> {
        self.all.values()
    }

    /// Those of servers that run.
    pub(super) fn servers(&self) -> impl Iterator<Item = &Connection> {
        self.values().filter(|one| matches!(one.stage, Stage::Server))
    }

    /// Marks what was found about all tools with the mutes that are in force by now.
    pub(super) fn mark_tools(&mut self, mutes: &Mutes) {
        self.all.values_mut().for_each(|connection| connection.mark_tools(mutes));
    }

    /// Whether it is a server that is to be announced when it answers.
    pub(super) fn is_pending(&self, id: ConnectionId) -> bool {
        self.get(id).is_some_and(Connection::is_pending)
    }

    /// Whether it is known, and may yet turn out to be no server.
    pub(super) fn is_candidate(&self, id: ConnectionId) -> bool {
        self.get(id).is_some_and(Connection::is_candidate)
    }

    /// A connection of this session, if there is one.
    pub(super) fn of_session(&self, session: &SessionId) -> Option<ConnectionId> {
        self.values().find(|one| one.session.as_ref() == Some(session)).map(|one| one.id)
    }

    /// Who an event of this connection is about.
    pub(super) fn scope(&self, id: ConnectionId) -> Option<Scope> {
        let connection = self.get(id)?;
        let mut via: Vec<ServerId> = self.outers(id).map(Connection::server_id).collect();
        via.reverse();
        Some(Scope {
            connection: id,
            session: self.session(connection),
            server: connection.server_id(),
            kind: connection.kind(),
            via,
            owner: self.owner(connection),
        })
    }

    /// The session of a connection: that of the outermost client.
    pub(super) fn session(&self, connection: &Connection) -> SessionId {
        if let Some(session) = &connection.session {
            return session.clone();
        }
        if let Some(outer) = self.outers(connection.id).last() {
            return self.session(outer);
        }
        match &connection.client {
            Some(client) => self.session_of_client(client),
            None => self.session_id(&format!("connection {} {}", connection.id.0, connection.since.0)),
        }
    }

    /// The user of a connection's outermost client.
    fn owner(&self, connection: &Connection) -> Option<u32> {
        let outermost = self.outers(connection.id).last().unwrap_or(connection);
        outermost.client.as_ref().or(connection.client.as_ref()).and_then(|client| client.uid)
    }

    /// The session of a client that is nobody's server.
    pub(super) fn session_of_client(&self, client: &Process) -> SessionId {
        self.session_id(&format!("{} {}", client.pid, client.start_ns))
    }

    fn session_id(&self, text: &str) -> SessionId {
        let digest = self.redactor.digest("session", text.as_bytes());
        SessionId(format!("sess_{}", digest.get(..12).unwrap_or(&digest)).into())
    }

    /// Forgets a connection and all that hangs on it here. What it was.
    pub(super) fn forget(&mut self, id: ConnectionId) -> Option<Connection> {
        let mut connection = self.all.remove(&id)?;
        self.gone.add(&connection);
        self.processes.retain(|pid, owner| *owner != id || !connection.live.contains(pid));
        self.memory.close(std::mem::take(&mut connection.account));
        self.unlink(&connection);
        Some(connection)
    }

    #[cfg(test)]
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    #[cfg(test)]
    pub(super) fn processes(&self) -> &HashMap<u32, ConnectionId> {
        &self.processes
    }
}
