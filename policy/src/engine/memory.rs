//! What is kept of whose servers: bounded together, and for each user, so that nobody can fill the memory of an
//! agent that watches everybody.
//!
//! Each connection says how much it keeps ([`Connection::bytes`](super::connection::Connection::bytes)), and after each input the sums follow. Where one
//! is too large then, the connection that keeps most gives up what is missed least.

use std::collections::BTreeMap;

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
    pub(super) bytes: usize,
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
    pub(super) fn book(&mut self, account: &mut Account, bytes: usize) {
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
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many users something is kept of.
    #[cfg(test)]
    pub(super) fn users(&self) -> usize {
        self.users.len()
    }

    /// What is kept of a user.
    pub(super) fn bytes_of(&self, user: User) -> usize {
        self.users.get(&user).map_or(0, |share| share.bytes)
    }
}
