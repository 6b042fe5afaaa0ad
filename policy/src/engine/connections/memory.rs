//! What is kept of whose servers: bounded together, and for each user, so that nobody can fill the memory of an
//! agent that watches everybody.
//!
//! Each connection says how much it keeps ([`Connection::bytes`]), and after each input the sums follow. Where one
//! is too large then, the connection that keeps most gives up what is missed least.

use std::collections::BTreeMap;

use super::Connections;
use crate::terms::ConnectionId;

/// User id of a server's first program; `None` while it is not known.
pub(in crate::engine) type User = Option<u32>;

/// What is kept for one user.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    connections: usize,
    bytes: usize,
}

/// What one connection is booked with.
#[derive(Debug, Default)]
pub(in crate::engine) struct Account {
    pub(in crate::engine) user: User,
    bytes: usize,
}

/// The sums.
#[derive(Debug, Default)]
pub(in crate::engine) struct Memory {
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
    pub(in crate::engine) fn connections(&self, user: User) -> usize {
        self.users.get(&user).map_or(0, |share| share.connections)
    }

    /// What is kept of all.
    #[cfg(test)]
    pub(in crate::engine) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many users something is kept of.
    #[cfg(test)]
    pub(in crate::engine) fn users(&self) -> usize {
        self.users.len()
    }

    fn bytes_of(&self, user: User) -> usize {
        self.users.get(&user).map_or(0, |share| share.bytes)
    }
}

impl Connections {
    /// Books what a connection keeps now. Whose it is, if it is known.
    pub(in crate::engine) fn book(&mut self, id: ConnectionId) -> Option<User> {
        let connection = self.all.get_mut(&id)?;
        let bytes = connection.bytes();
        self.memory.book(&mut connection.account, bytes);
        Some(connection.account.user)
    }

    /// What is kept of all connections, or of those of one user.
    pub(in crate::engine) fn kept_bytes(&self, user: Option<User>) -> usize {
        user.map_or(self.memory.bytes, |user| self.memory.bytes_of(user))
    }

    /// The connection that keeps most, of one user or of all.
    pub(in crate::engine) fn largest(&self, user: Option<User>) -> Option<ConnectionId> {
        self.values()
            .filter(|connection| user.is_none_or(|user| connection.account.user == user))
            .max_by_key(|connection| connection.account.bytes)
            .map(|connection| connection.id)
    }
}
