//! Which connections are admitted, of one user's and of all, which make way, and which keep how much.

use std::collections::{HashSet, VecDeque};

use super::announce::declared;
use super::{Connection, Connections, Stage, User};
use crate::discovery;
use crate::engine::config::EngineConfig;
use crate::engine::io::Exec;
use crate::event::ServerType;
use crate::gate::GateCaller;
use crate::terms::{ConnectionId, Timestamp};

/// Connections that were dropped lately: what was captured of them before that may still come.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    ids: HashSet<ConnectionId>,
    order: VecDeque<ConnectionId>,
}

impl Dropped {
    /// How many are remembered.
    const MOST: usize = 4096;

    fn add(&mut self, id: ConnectionId) {
        if self.ids.insert(id) {
            self.order.push_back(id);
        }
        if self.order.len() > Self::MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
    }

    fn contains(&self, id: ConnectionId) -> bool {
        self.ids.contains(&id)
    }
}

/// Whether there is room for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Admission {
    /// It was dropped: what comes is the rest of the record that it was dropped for. Taken for something new it would
    /// never end.
    Dropped,
    /// There is.
    Free,
    /// There is none.
    Full,
}

impl Connections {
    /// Whether this one can be opened, of at most `limit`.
    pub(in crate::engine) fn admission(&self, id: ConnectionId, limit: usize) -> Admission {
        match self.all.len() {
            _ if self.dropped.contains(id) => Admission::Dropped,
            open if open < limit => Admission::Free,
            _ => Admission::Full,
        }
    }

    /// Whether this user may have one more, of at most `limit`.
    pub(in crate::engine) fn is_full(&self, user: User, limit: usize) -> bool {
        self.memory.connections(user) >= limit
    }

    /// Opens a connection.
    pub(in crate::engine) fn open(&mut self, id: ConnectionId, time: Timestamp) {
        self.all.insert(id, Connection::new(id, self.memory.open(), time));
    }

    /// The first program of a connection says whose it is.
    pub(in crate::engine) fn assign(&mut self, id: ConnectionId, user: User) {
        if let Some(connection) = self.all.get_mut(&id) {
            self.memory.assign(&mut connection.account, user);
        }
    }

    /// What comes of this connection is ignored from now on.
    pub(in crate::engine) fn ignore(&mut self, id: ConnectionId) {
        self.dropped.add(id);
    }

    /// The connection that is missed least, of one user's or of all, and whether it is one that did not end: one that ended,
    /// else the oldest that was asked nothing yet, and rather one of no name.
    pub(in crate::engine) fn least_missed(&self, user: Option<User>) -> Option<(ConnectionId, bool)> {
        let rank = |connection: &Connection| match connection.stage {
            Stage::Exited => Some(0),
            Stage::Candidate { .. } if connection.is_pending() => None,
            Stage::Candidate { .. } => Some(if connection.is_unnamed() { 1 } else { 2 }),
            Stage::Server => None,
        };
        let of_user = |one: &&Connection| user.is_none_or(|user| one.account.user == user);
        let ranked = |one: &Connection| Some((rank(one)?, one.since, one.id));
        let (rank, _, victim) = self.values().filter(of_user).filter_map(ranked).min()?;
        Some((victim, rank > 0))
    }

    /// Books what a connection keeps now. Whose it is, if it is known.
    pub(in crate::engine) fn book(&mut self, id: ConnectionId) -> Option<User> {
        let connection = self.all.get_mut(&id)?;
        let bytes = connection.bytes();
        self.memory.book(&mut connection.account, bytes);
        Some(connection.account.user)
    }

    /// What is kept of all connections, or of those of one user.
    pub(in crate::engine) fn kept_bytes(&self, user: Option<User>) -> usize {
        user.map_or(self.memory.bytes(), |user| self.memory.bytes_of(user))
    }

    /// The connection that keeps most, of one user or of all.
    pub(in crate::engine) fn largest(&self, user: Option<User>) -> Option<ConnectionId> {
        self.values()
            .filter(|connection| user.is_none_or(|user| connection.account.user == user))
            .max_by_key(|connection| connection.account.bytes)
            .map(|connection| connection.id)
    }
}

/// Connections of servers that there was no room for.
impl Connections {
    /// Whose calls those of a program are, if it is a server's by its name or a declaration.
    pub(in crate::engine) fn caller_of(&self, exec: &Exec, config: &EngineConfig) -> Option<GateCaller> {
        let process = &exec.process;
        let declared = declared(config, process).map(|declared| declared.id.clone());
        let named = || config.patterns.matches(&process.argv).is_some();
        let derived = || discovery::server_id(&process.argv, process.cwd.as_deref());
        let server = declared.or_else(|| named().then(derived))?;
        let session = match &exec.client {
            Some(client) => self.session_of_client(client),
            None => self.session_of_client(process),
        };
        Some(GateCaller { session, server, uid: exec.client.as_ref().and_then(|client| client.uid) })
    }

    /// The same of a candidate that makes way.
    pub(in crate::engine) fn named_caller(&self, id: ConnectionId) -> Option<GateCaller> {
        let connection = self.get(id).filter(|connection| !connection.is_unnamed())?;
        let uid = connection.client.as_ref().and_then(|client| client.uid);
        let is_stdio = connection.kind() == ServerType::Stdio;
        is_stdio.then(|| GateCaller {
            session: self.session(connection),
            server: connection.server_id(),
            uid,
        })
    }

    /// How many are remembered.
    pub(in crate::engine) fn refused(&self) -> usize {
        self.refused.len()
    }

    /// Remembers one.
    pub(in crate::engine) fn hold_refused(&mut self, id: ConnectionId, caller: GateCaller) {
        self.refused.insert(id, caller);
    }

    /// It is closed. Whether it was one.
    pub(in crate::engine) fn release_refused(&mut self, id: ConnectionId) -> bool {
        self.refused.remove(&id).is_some()
    }

    /// Whose calls its calls are, if it is one.
    pub(in crate::engine) fn refused_caller(&self, id: ConnectionId) -> Option<&GateCaller> {
        self.refused.get(&id)
    }

    /// All of them.
    pub(in crate::engine) fn refused_ids(&self) -> impl Iterator<Item = ConnectionId> {
        self.refused.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_connection_memory_is_bounded() {
        let mut dropped = Dropped::default();
        (0..=Dropped::MOST as u64).for_each(|id| dropped.add(ConnectionId(id)));
        for (id, expected) in [(0, false), (1, true), (Dropped::MOST as u64, true), (9_999, false)] {
            assert_eq!(dropped.contains(ConnectionId(id)), expected, "{id}");
        }
    }
}
