//! The pins of a server into memory, also those that were kept under another text for the same program.

use std::collections::BTreeMap;

use super::page::Outcome;
use super::pin::PinRecord;
use super::store::{Item, StoreError};
use super::{Peer, Registry};
use crate::discovery::{known_as, without_version};
use crate::terms::{PinKey, ServerId};

/// Keys of one server of which it is looked up whether they are this program's.
const MAX_KEYS: usize = 32;

/// Pins, and the keys that they were found under.
type Found = (BTreeMap<Item, PinRecord>, Vec<PinKey>);

impl Registry {
    /// Has the pins of a server in memory, if they can be read. `more`: how many may be made beside them. Where there is no
    /// room for all of these, the server is crowded: its pins are in memory until [`Self::give_back`], and else in the store.
    /// So nobody's pins go uncompared because another server has many.
    pub(super) fn load(&mut self, peer: &Peer, more: usize, outcome: &mut Outcome) {
        let key = &peer.key;
        let more = more.min(self.settings.limits.items_per_server);
        let Some(server) = self.servers.get(key) else { return };
        if server.loaded {
            if !self.kept.fit(key.uid, more.saturating_sub(server.records.len()), &self.settings.limits) {
                self.crowd(key);
            }
            return;
        }
        let loaded = self.stored(|store| store.load(key));
        let found = match loaded {
            Ok(records) if records.is_empty() => self.kept_before(peer),
            other => other.map(|records| (records, Vec::new())),
        };
        let Some((records, former)) = outcome.note(found) else { return };
        let most = records.len().max(more);
        let is_crowded = !self.kept.fit(key.uid, most, &self.settings.limits);
        self.counters.pins_borrowed += u64::from(is_crowded);
        if let Some(server) = self.servers.get_mut(key) {
            self.kept.add(key.uid, if is_crowded { 0 } else { records.len() });
            if !former.is_empty() {
                server.dirty.extend(records.keys().cloned());
            }
            server.records = records;
            (server.loaded, server.is_crowded) = (true, is_crowded);
        }
        outcome.note(self.forget_former(key, &former));
    }

    /// A server whose pins are in memory is to have more than there is room for.
    pub(super) fn crowd(&mut self, key: &PinKey) {
        let server = self.servers.get_mut(key).filter(|server| server.loaded && !server.is_crowded);
        if let Some(server) = server {
            self.kept.remove(key.uid, server.records.len());
            self.counters.pins_borrowed += 1;
            server.is_crowded = true;
        }
    }

    /// Forgets the pins of a crowded server, which are in the store; what that did not take is lost. Whether it is crowded.
    pub(super) fn give_back(&mut self, key: &PinKey) -> bool {
        let Some(server) = self.servers.get_mut(key).filter(|server| server.is_crowded) else { return false };
        server.records.clear();
        server.dirty.clear();
        server.loaded = false;
        true
    }

    /// Pins of this program that were kept under another key: by earlier versions of this one under a path as it was, with the
    /// version and the directory of the day; or under another name of the server, as before it was declared, or one with a
    /// version in it. Of several, each item's that was seen last.
    fn kept_before(&mut self, peer: &Peer) -> Result<Found, StoreError> {
        let (mut records, mut former) = (BTreeMap::<Item, PinRecord>::new(), Vec::new());
        let mut keys = self.stored(|store| store.keys(&peer.key.server))?;
        if !peer.key.program.is_empty() {
            let of_program = self.stored(|store| store.keys_of_program(&peer.key))?;
            keys.extend(of_program.into_iter().filter(|key| is_named_so(peer, &key.server)));
        }
        let is_former = |key: &&PinKey| {
            let known = known_as(&key.program);
            let is_same = key.server != peer.key.server && key.program == peer.key.program
                || peer.formerly.iter().any(|program| known == known_as(program));
            key.uid == peer.key.uid && **key != peer.key && !key.program.is_empty() && is_same
        };
        // Those of a server that runs are its own.
        let keys = keys.iter().filter(is_former).filter(|key| !self.servers.contains_key(key));
        let keys: Vec<PinKey> = keys.cloned().collect();
        self.counters.programs_not_read += keys.len().saturating_sub(MAX_KEYS) as u64;
        for key in keys.into_iter().take(MAX_KEYS) {
            for (item, record) in self.stored(|store| store.load(&key))? {
                let known = records.get(&item);
                if known.is_none_or(|known| known.last_seen < record.last_seen) {
                    records.insert(item, record);
                }
            }
            former.push(key);
        }
        Ok((records, former))
    }

    /// Keeps pins under their new key, and no longer under the former ones.
    fn forget_former(&mut self, key: &PinKey, former: &[PinKey]) -> Result<(), StoreError> {
        if former.is_empty() {
            return Ok(());
        }
        self.flush(key, &[])?;
        for key in former {
            let items: Vec<Item> = self.stored(|store| store.load(key))?.into_keys().collect();
            self.stored(|store| store.remove(key, &items))?;
        }
        Ok(())
    }
}

/// Whether a server may have been called so before: by one of its other names, or by its own with a version in it.
fn is_named_so(peer: &Peer, former: &ServerId) -> bool {
    let own = &peer.key.server;
    former != own
        && (peer.hands_over
            || peer.also.contains(former)
            || without_version(&former.0) == without_version(&own.0))
}
