//! Room for connections, of one user's and of all: who gets some, and who makes way.

use std::collections::{HashSet, VecDeque};

use super::Engine;
use super::connection::{Connection, Stage};
use super::io::Output;
use super::memory::User;
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

impl Engine {
    /// Makes sure that a connection is known. Whether it is.
    pub(super) fn known(&mut self, id: ConnectionId, time: Timestamp, out: &mut Vec<Output>) -> bool {
        if self.connections.contains_key(&id) {
            return true;
        }
        // The rest of the record that it was dropped for. Taken for something new it would never end.
        if self.dropped.contains(id) {
            return false;
        }
        if self.connections.len() >= self.config.limits.connections && !self.make_room(None, time, out) {
            self.refuse(id, out);
            return false;
        }
        self.connections.insert(id, Connection::new(id, self.memory.open(), time));
        true
    }

    /// There is no room for this connection.
    fn refuse(&mut self, id: ConnectionId, out: &mut Vec<Output>) {
        self.counters.connections_refused += 1;
        self.dropped.add(id);
        out.push(Output::Drop(id));
    }

    /// The first program of a connection says whose it is. Whether there is room for one more of this user's.
    pub(super) fn assign(
        &mut self,
        id: ConnectionId,
        user: User,
        time: Timestamp,
        out: &mut Vec<Output>,
    ) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else { return false };
        if !connection.chain.is_empty() {
            return true;
        }
        let full = self.memory.connections(user) >= self.config.limits.connections_per_user;
        if full && !self.make_room(Some(user), time, out) {
            self.refuse(id, out);
            self.forget(id);
            return false;
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            self.memory.assign(&mut connection.account, user);
        }
        true
    }

    /// This is no server: forgets it, and has it captured no more.
    pub(super) fn drop_candidate(&mut self, id: ConnectionId, out: &mut Vec<Output>) {
        self.counters.candidates_dropped += 1;
        self.forget(id);
        self.dropped.add(id);
        out.push(Output::Drop(id));
    }

    /// Forgets the connection that is missed least, of one user's or of all: one that ended, else the oldest that was
    /// asked nothing yet, and rather one of no name.
    fn make_room(&mut self, user: Option<User>, time: Timestamp, out: &mut Vec<Output>) -> bool {
        let rank = |connection: &Connection| match connection.stage {
            Stage::Exited => Some(0),
            Stage::Candidate { .. } if connection.is_pending() => None,
            Stage::Candidate { .. } => Some(if connection.is_unnamed() { 1 } else { 2 }),
            Stage::Server => None,
        };
        let victim = self
            .connections
            .values()
            .filter(|connection| user.is_none_or(|user| connection.account.user == user))
            .filter_map(|connection| Some((rank(connection)?, connection.since, connection.id)))
            .min();
        let Some((rank, _, victim)) = victim else { return false };
        if rank > 0 {
            self.refuse(victim, out);
        }
        self.close(victim, time, out);
        true
    }
}
