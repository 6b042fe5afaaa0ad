//! The pins of a server into memory, also those that were kept under another text for the same program.

use std::collections::BTreeMap;

use super::page::Outcome;
use super::pin::PinRecord;
use super::store::{Item, StoreError};
use super::{Peer, Registry};
use crate::discovery::known_as;
use crate::terms::PinKey;

/// Keys of one server of which it is looked up whether they are this program's.
const MAX_KEYS: usize = 32;

/// Pins, and the keys that they were found under.
type Found = (BTreeMap<Item, PinRecord>, Vec<PinKey>);

impl Registry {
    /// Has the pins of a server in memory, if they can be read and fit.
    pub(super) fn load(&mut self, peer: &Peer, outcome: &mut Outcome) {
        let key = &peer.key;
        if self.servers.get(key).is_none_or(|server| server.loaded) {
            return;
        }
        let loaded = self.stored(|store| store.load(key));
        let found = match loaded {
            Ok(records) if records.is_empty() => self.kept_before(peer),
            other => other.map(|records| (records, Vec::new())),
        };
        let Some((records, former)) = outcome.note(found) else { return };
        if !self.kept.fit(key.uid, records.len(), &self.settings.limits) {
            self.counters.items_refused += records.len() as u64;
            outcome.refused += records.len();
            return;
        }
        if let Some(server) = self.servers.get_mut(key) {
            self.kept.add(key.uid, records.len());
            if !former.is_empty() {
                server.dirty.extend(records.keys().cloned());
            }
            server.records = records;
            server.loaded = true;
        }
        outcome.note(self.forget_former(key, &former));
    }

    /// Pins of this program that earlier versions of this one kept under a path as it was, with the version and the
    /// directory of the day. Of several, each item's that was seen last.
    fn kept_before(&mut self, peer: &Peer) -> Result<Found, StoreError> {
        let (mut records, mut former) = (BTreeMap::<Item, PinRecord>::new(), Vec::new());
        let keys = self.stored(|store| store.keys(&peer.key.server))?;
        let is_former = |key: &&PinKey| {
            let is_same = known_as(&key.program) == known_as(&peer.formerly);
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
