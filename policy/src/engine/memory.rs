//! What is kept of whose servers: bounded together, and for each user, so that nobody can fill the memory of an
//! agent that watches everybody.
//!
//! Each connection says how much it keeps ([`Connection::bytes`]), and after each input the sums follow. Where one
//! is too large then, the connection that keeps most gives up what is missed least.

use std::collections::BTreeMap;

use super::connection::{Connection, Waiting};
use super::io::Output;
use super::pairing::{Open, Role};
use super::reach::At;
use super::{Engine, Stage};
use crate::terms::{ConnectionId, Direction, Timestamp};

/// User id of a server's first program; `None` while it is not known.
pub(super) type User = Option<u32>;

/// What is kept for one user.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    connections: usize,
    bytes: usize,
}

/// What one connection is booked with.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) user: User,
    bytes: usize,
}

/// The sums.
#[derive(Debug, Default)]
pub(super) struct Memory {
    bytes: usize,
    users: BTreeMap<User, Share>,
}

impl Memory {
    /// A new connection, of nobody yet.
    pub(super) fn open(&mut self) -> Account {
        self.users.entry(None).or_default().connections += 1;
        Account::default()
    }

    /// The end of a connection.
    pub(super) fn close(&mut self, account: Account) {
        self.settle(account, 0, |share| share.connections -= 1);
    }

    /// Whose it is became known.
    pub(super) fn assign(&mut self, account: &mut Account, user: User) {
        let bytes = account.bytes;
        self.close(std::mem::take(account));
        account.user = user;
        self.users.entry(user).or_default().connections += 1;
        self.book(account, bytes);
    }

    /// It keeps this much now.
    fn book(&mut self, account: &mut Account, bytes: usize) {
        if bytes != account.bytes {
            let of = Account { user: account.user, bytes: account.bytes };
            self.settle(of, bytes, |_| {});
            account.bytes = bytes;
        }
    }

    fn settle(&mut self, account: Account, bytes: usize, change: impl FnOnce(&mut Share)) {
        self.bytes = self.bytes - account.bytes + bytes;
        let share = self.users.entry(account.user).or_default();
        share.bytes = share.bytes - account.bytes + bytes;
        change(share);
        if share.connections == 0 {
            self.users.remove(&account.user);
        }
    }

    /// How many connections a user has.
    pub(super) fn connections(&self, user: User) -> usize {
        self.users.get(&user).map_or(0, |share| share.connections)
    }

    /// What is kept of all.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many users something is kept of.
    #[cfg(test)]
    pub(super) fn users(&self) -> usize {
        self.users.len()
    }

    fn bytes_of(&self, user: User) -> usize {
        self.users.get(&user).map_or(0, |share| share.bytes)
    }
}

impl Engine {
    /// Books what a connection keeps now, and makes room where that is too much.
    pub(super) fn book(&mut self, id: ConnectionId, now: Timestamp, out: &mut Vec<Output>) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let bytes = connection.bytes();
        self.memory.book(&mut connection.account, bytes);
        let (user, limits) = (connection.account.user, &self.config.limits);
        let (bytes, per_user) = (limits.bytes, limits.bytes_per_user);
        while self.memory.bytes_of(user) > per_user && self.relieve(Some(user), now, out) {}
        while self.memory.bytes > bytes && self.relieve(None, now, out) {}
    }

    /// Has the connection that keeps most, of one user or of all, give up some. Whether that helped.
    fn relieve(&mut self, user: Option<User>, now: Timestamp, out: &mut Vec<Output>) -> bool {
        let largest = self
            .connections
            .values()
            .filter(|connection| user.is_none_or(|user| connection.account.user == user))
            .max_by_key(|connection| connection.account.bytes);
        let Some(id) = largest.map(|connection| connection.id) else { return false };
        let before = self.memory.bytes;
        self.shed(id, now, out);
        if let Some(connection) = self.connections.get_mut(&id) {
            let bytes = connection.bytes();
            self.memory.book(&mut connection.account, bytes);
        }
        self.memory.bytes < before
    }

    /// Gives up half of the open requests of a connection, and all else that it can do without.
    fn shed(&mut self, id: ConnectionId, now: Timestamp, out: &mut Vec<Output>) {
        for direction in [Direction::ClientToServer, Direction::ServerToClient] {
            self.give_up_early(id, direction, Timestamp(u64::MAX), out);
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.is_pending() {
            return self.start(id, now, now, out);
        }
        let counters = &mut self.counters;
        if let Stage::Candidate { waiting, bytes, .. } = &mut connection.stage {
            let before = waiting.len();
            waiting.retain(|item| matches!(item, Waiting::Gap { .. }));
            *bytes = 0;
            counters.candidate_overflow += (before - waiting.len()) as u64;
        }
        counters.tools_overflow += connection.said.len() as u64;
        connection.said = Default::default();
        connection.forget_remembered();
        counters.chain_overflow += connection.shorten_chain() as u64;
        let mut evicted: Vec<Open> = Vec::new();
        for direction in [Direction::ClientToServer, Direction::ServerToClient] {
            let requests = connection.requests(direction);
            requests.forget_answered();
            let half = requests.len().div_ceil(2);
            evicted.extend((0..half).map_while(|_| requests.evict_oldest()));
        }
        counters.open_requests_evicted += evicted.len() as u64;
        evicted.into_iter().for_each(|open| self.let_go(&open));
    }

    /// A request is open no more: neither is its part of a link.
    pub(super) fn let_go(&mut self, open: &Open) {
        if let Role::Relayed(link) = open.role {
            self.relays.let_go(link);
        }
    }
}

impl Connection {
    /// Memory that is kept of it, about.
    pub(super) fn bytes(&self) -> usize {
        /// A digest in a table that is half full.
        const TOOL_BYTES: usize = 40;
        /// Two small objects; their texts are counted with the programs, of which they are.
        const METADATA_BYTES: usize = 2_048;
        let waiting = match &self.stage {
            Stage::Candidate { waiting, bytes, .. } => bytes + waiting.len() * size_of::<Waiting>(),
            Stage::Server | Stage::Exited => 0,
        };
        let requests: usize = self.pairings().iter().map(|pairing| pairing.bytes()).sum();
        let tools = self.said.len() * TOOL_BYTES + self.tools_bytes;
        let metadata = if self.metadata.is_null() { 0 } else { METADATA_BYTES + self.chain_bytes };
        // As it is, and within the metadata.
        let http = self.http.as_ref().map_or(0, |http| 2 * http.bytes());
        let at = self.at.as_ref().map_or(0, At::bytes);
        size_of::<Self>() + waiting + requests + tools + self.chain_bytes + metadata + http + at
    }
}
