//! What servers hand out to come back later, by digests: states of requests, ids of tasks. Bounded for each user, so that nobody
//! has another's forgotten.

use std::collections::{BTreeMap, HashMap, VecDeque};

use sha2::{Digest as _, Sha256};

use super::memory::User;
use crate::definition::hex;

/// SHA-256 of something handed out, cut to half: the thing itself may be a secret, and of any length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Digest([u8; 16]);

impl Digest {
    /// Of these parts, in order.
    pub(super) fn of(parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let mut short = [0; 16];
        for (slot, byte) in short.iter_mut().zip(hash.finalize()) {
            *slot = byte;
        }
        Self(short)
    }

    /// As hexadecimal digits.
    pub(super) fn hex(self) -> String {
        hex(&self.0)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Most entries: of all users, and of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) all: usize,
    pub(super) per_user: usize,
}

/// Entries under digests, several under one.
#[derive(Debug)]
pub(super) struct Ledger<T> {
    entries: HashMap<Digest, Vec<(u64, T)>>,
    users: BTreeMap<User, Share>,
    count: usize,
    last: u64,
}

/// A user's entries.
#[derive(Debug, Default)]
struct Share {
    /// Oldest first.
    order: VecDeque<(u64, Digest)>,
    /// Whether one of them was put out for room.
    has_lost: bool,
}

impl<T> Default for Ledger<T> {
    fn default() -> Self {
        Self { entries: HashMap::new(), users: BTreeMap::new(), count: 0, last: 0 }
    }
}

impl<T> Ledger<T> {
    /// What is known under a digest, oldest first.
    pub(super) fn get(&self, digest: Digest) -> impl Iterator<Item = &T> {
        self.entries.get(&digest).into_iter().flatten().map(|(_, entry)| entry)
    }

    /// The same, to be changed.
    pub(super) fn get_mut(&mut self, digest: Digest) -> impl Iterator<Item = &mut T> {
        self.entries.get_mut(&digest).into_iter().flatten().map(|(_, entry)| entry)
    }

    /// Whether something of a user was put out for room.
    pub(super) fn has_lost(&self, user: User) -> bool {
        self.users.get(&user).is_some_and(|share| share.has_lost)
    }

    /// Keeps an entry of a user. How many were put out for it: the user's oldest, and where all users have too much, those of
    /// whoever has most.
    pub(super) fn insert(&mut self, user: User, digest: Digest, entry: T, bounds: Bounds) -> u64 {
        self.last += 1;
        self.entries.entry(digest).or_default().push((self.last, entry));
        let share = self.users.entry(user).or_default();
        share.order.push_back((self.last, digest));
        let is_crowded = share.order.len() > bounds.per_user;
        self.count += 1;
        let mut evicted = u64::from(is_crowded && self.evict(user));
        while self.count > bounds.all.max(1) {
            let most = self.users.iter().max_by_key(|(_, share)| share.order.len()).map(|(user, _)| *user);
            if !most.is_some_and(|most| self.evict(most)) {
                break;
            }
            evicted += 1;
        }
        evicted
    }

    fn evict(&mut self, user: User) -> bool {
        let Some(share) = self.users.get_mut(&user) else { return false };
        let Some((seq, digest)) = share.order.pop_front() else { return false };
        share.has_lost = true;
        if share.order.is_empty() {
            self.users.remove(&user);
        }
        if let Some(entries) = self.entries.get_mut(&digest) {
            entries.retain(|(other, _)| *other != seq);
            if entries.is_empty() {
                self.entries.remove(&digest);
            }
        }
        self.count -= 1;
        true
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { all: 6, per_user: 4 };

    fn digest(text: &str) -> Digest {
        Digest::of(&[text.as_bytes()])
    }

    #[test]
    fn user_loses_the_oldest_of_its_own() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.insert(Some(1), digest("other"), 0, BOUNDS), 0);
        let evicted: Vec<u64> =
            (0..6).map(|n| ledger.insert(Some(2), digest(&n.to_string()), n, BOUNDS)).collect();
        assert_eq!(evicted, [0, 0, 0, 0, 1, 1]);
        assert_eq!(ledger.len(), 5);
        assert_eq!((ledger.has_lost(Some(1)), ledger.has_lost(Some(2))), (false, true));
        assert_eq!(ledger.get(digest("1")).count(), 0);
        assert_eq!(ledger.get(digest("other")).count(), 1);
    }

    #[test]
    fn whoever_has_most_loses_where_all_have_too_much() {
        let mut ledger = Ledger::default();
        for n in 0..4 {
            ledger.insert(Some(1), digest(&n.to_string()), n, BOUNDS);
        }
        let evicted: Vec<u64> =
            (10..14).map(|user| ledger.insert(Some(user), digest("same"), 0, BOUNDS)).collect();
        assert_eq!(evicted, [0, 0, 1, 1]);
        assert_eq!(ledger.len(), 6);
        assert_eq!(ledger.get(digest("same")).count(), 4);
        assert_eq!((ledger.has_lost(Some(1)), ledger.has_lost(Some(10))), (true, false));
    }

    #[test]
    fn entries_under_one_digest_are_bounded_as_well() {
        let mut ledger = Ledger::default();
        for n in 0..100 {
            ledger.insert(None, digest("constant"), n, BOUNDS);
        }
        assert_eq!(ledger.get(digest("constant")).copied().collect::<Vec<i32>>(), [96, 97, 98, 99]);
        ledger.get_mut(digest("constant")).for_each(|entry| *entry += 1);
        assert_eq!(ledger.get(digest("constant")).next(), Some(&97));
        assert_eq!(digest("a").hex().len(), 32);
    }
}
