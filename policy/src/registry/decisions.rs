//! What operators decide of a definition: approved, denied, its pin forgotten. Approvals that hold for some calls of a tool, or
//! for some time: given, used up, and over.

use super::pin::MAX_LIMITED;
use super::{
    Approval, ApprovalLimits, Item, LimitedApproval, PinKey, PinRecord, Registry, RegistryError, StoreError,
};
use crate::terms::{ConnectionId, Timestamp};

/// A limited approval that holds no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedApproval {
    /// Whose tool.
    pub key: PinKey,
    /// The tool.
    pub item: Item,
    /// What was approved.
    pub approval: LimitedApproval,
}

impl Registry {
    /// Pins the definition of `item` with this hash, whatever was pinned before. Nothing is said to have changed for
    /// it any more, on any connection.
    ///
    /// # Errors
    /// It was never seen, or not with this hash, so that nobody approves what they did not look at; or the store
    /// failed, and nothing is approved.
    pub fn approve(
        &mut self,
        key: &PinKey,
        item: &Item,
        hash: &str,
        by: &str,
        at: Timestamp,
    ) -> Result<(), RegistryError> {
        // What is listed has a hash of this version; what was seen long ago may have another.
        let is_listed =
            self.connections.values().filter(|connection| connection.peer.key == *key).any(|connection| {
                let listed = connection.lists.get(&item.kind).and_then(|list| list.items.get(&item.name));
                listed.is_some_and(|listed| listed.hash == hash)
            });
        self.amend(key, item, hash, |record| {
            record.approve(hash, is_listed, by, at);
            Ok(())
        })
    }

    /// Notes that the definition of `item` with this hash must not be used, on any connection, until it is approved.
    ///
    /// # Errors
    /// As of [`Registry::approve`]; nothing is noted then.
    pub fn deny(
        &mut self,
        key: &PinKey,
        item: &Item,
        hash: &str,
        by: &str,
        at: Timestamp,
    ) -> Result<(), RegistryError> {
        self.amend(key, item, hash, |record| {
            record.deny(hash, by, at);
            Ok(())
        })
    }

    fn amend(
        &mut self,
        key: &PinKey,
        item: &Item,
        hash: &str,
        change: impl FnOnce(&mut PinRecord) -> Result<(), RegistryError>,
    ) -> Result<(), RegistryError> {
        let (server, name) = (key.server.to_string(), item.name.clone());
        let Some(mut record) = self.pins(key)?.remove(item) else {
            return Err(RegistryError::Unknown { server, name });
        };
        if !record.knows(hash) {
            let (hash, current) = (hash.to_owned(), record.current);
            return Err(RegistryError::OtherHash { server, name, hash, current });
        }
        change(&mut record)?;
        let update = [(item.clone(), record)];
        self.stored(|store| store.put(key, &update, &[]))?;
        if let Some(server) = self.servers.get_mut(key).filter(|server| server.loaded) {
            server.records.extend(update);
            server.dirty.remove(item);
        }
        self.refresh(key);
        Ok(())
    }

    /// Forgets the pins of these items, or with none named of all that the server has, and returns how many. The next
    /// list that it sends is first use again.
    ///
    /// # Errors
    /// The store failed, and nothing is forgotten.
    pub fn reset(&mut self, key: &PinKey, items: &[Item]) -> Result<usize, StoreError> {
        let mut pins = self.pins(key)?;
        pins.retain(|item, _| items.is_empty() || items.contains(item));
        let pins: Vec<Item> = pins.into_keys().collect();
        self.stored(|store| store.remove(key, &pins))?;
        if let Some(server) = self.servers.get_mut(key).filter(|server| server.loaded) {
            for item in &pins {
                self.kept.remove(key.uid, usize::from(server.records.remove(item).is_some()));
                server.dirty.remove(item);
            }
        }
        self.refresh(key);
        Ok(pins.len())
    }

    /// Approves calls of a tool within limits, while it has the definition with this hash. The pin stays as it is.
    ///
    /// # Errors
    /// As of [`Registry::approve`]; or the definition is approved without limits, or has as many limited approvals as there may
    /// be. Nothing is approved then.
    pub fn approve_limited(
        &mut self,
        key: &PinKey,
        item: &Item,
        hash: &str,
        limits: ApprovalLimits,
        said: Approval,
    ) -> Result<(), RegistryError> {
        let (server, name) = (key.server.to_string(), item.name.clone());
        self.amend(key, item, hash, |record| {
            if record.approved.is_some() && record.hash == hash {
                return Err(RegistryError::Approved { server, name });
            }
            let fits = record.approve_limited(hash, limits, said);
            if fits { Ok(()) } else { Err(RegistryError::Limited { server, name, most: MAX_LIMITED }) }
        })
    }

    /// The limited approvals of a tool that hold now, in the order in which they are tried.
    pub fn limited(&mut self, id: ConnectionId, tool: &str, now: Timestamp) -> Vec<LimitedApproval> {
        let record = self.pin(id, &Item::tool(tool)).filter(|record| !record.limited.is_empty());
        record.map_or_else(Vec::new, |record| record.limited_now(now).cloned().collect())
    }

    /// When the first limited approval of a connection's server is over, which may have been before.
    pub fn limited_until(&self, id: ConnectionId) -> Option<Timestamp> {
        let server = self.servers.get(self.key(id)?)?;
        let limited = server.records.values().flat_map(|record| &record.limited);
        limited.filter_map(|known| known.limits.until).min()
    }

    /// A call used up an approval.
    ///
    /// # Errors
    /// The store cannot write that. In memory it is used up nonetheless.
    pub fn use_up(
        &mut self,
        id: ConnectionId,
        tool: &str,
        approval: &LimitedApproval,
    ) -> Result<(), StoreError> {
        let item = Item::tool(tool);
        let Some(key) = self.key(id).cloned() else { return Ok(()) };
        let Some(server) = self.servers.get_mut(&key) else { return Ok(()) };
        let Some(record) = server.records.get_mut(&item) else { return Ok(()) };
        if let Some(at) = record.limited.iter().position(|known| known == approval) {
            let mut limited = std::mem::take(&mut record.limited).into_vec();
            limited.remove(at);
            record.limited = limited.into();
            server.dirty.insert(item);
        }
        self.flush(&key, &[])
    }

    /// Forgets the limited approvals of running servers that are over by now; and when the next one is.
    pub fn end_limited(&mut self, now: Timestamp) -> (Vec<EndedApproval>, Option<Timestamp>) {
        let (mut ended, mut next) = (Vec::new(), None::<Timestamp>);
        for (key, server) in &mut self.servers {
            for (item, record) in server.records.iter_mut().filter(|(_, record)| !record.limited.is_empty()) {
                let of_record = std::mem::take(&mut record.limited).into_vec().into_iter();
                let (over, kept): (Vec<LimitedApproval>, Vec<_>) =
                    of_record.partition(|known| known.limits.is_over(now));
                record.limited = kept.into();
                if !over.is_empty() {
                    server.dirty.insert(item.clone());
                }
                let of = |approval| EndedApproval { key: key.clone(), item: item.clone(), approval };
                ended.extend(over.into_iter().map(of));
                let until = record.limited.iter().filter_map(|known| known.limits.until);
                next = next.into_iter().chain(until).min();
            }
        }
        for one in &ended {
            // What the store does not take is over by its time all the same.
            let _ = self.flush(&one.key, &[]);
        }
        (ended, next)
    }
}
