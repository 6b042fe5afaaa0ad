//! What is remembered from one run to the next, and where.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pin::PinRecord;
use crate::event::Mute;
use crate::terms::{ItemKind, PinKey, ServerId};

/// What is pinned, within its server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Item {
    /// What kind of thing.
    pub kind: ItemKind,
    /// Its name (see [`crate::definition::bounded_name`]). Empty for instructions.
    pub name: String,
}

impl Item {
    /// The tool of this name.
    pub fn tool(name: &str) -> Self {
        Self { kind: ItemKind::Tool, name: crate::definition::bounded_name(name) }
    }
}

/// A store could not do what it was asked to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It holds as much as it may.
    #[error("the store of pins is full: {0}")]
    Full(String),
    /// What it is kept in failed.
    #[error("the store of pins could not {doing}: {reason}")]
    Failed {
        /// What was being done, to what.
        doing: String,
        /// Why it failed.
        reason: String,
    },
}

/// Where pins are kept. Definitions are kept once for each hash, for the sake of diffs.
pub trait Store: std::fmt::Debug + Send {
    /// All pins of a server.
    ///
    /// # Errors
    /// They cannot be read. No pin is made or moved then.
    fn load(&mut self, key: &PinKey) -> Result<BTreeMap<Item, PinRecord>, StoreError>;

    /// Whose pins of servers of this name there are.
    ///
    /// # Errors
    /// That cannot be read.
    fn keys(&mut self, server: &ServerId) -> Result<Vec<PinKey>, StoreError>;

    /// Whose pins of this program and user there are, whatever the server was called.
    ///
    /// # Errors
    /// That cannot be read.
    fn keys_of_program(&mut self, key: &PinKey) -> Result<Vec<PinKey>, StoreError>;

    /// Keeps these pins of a server in place of what was kept of the same items, and these definitions, each with
    /// its hash: all or nothing.
    ///
    /// # Errors
    /// They cannot be written. They are handed in again then.
    fn put(
        &mut self,
        key: &PinKey,
        records: &[(Item, PinRecord)],
        definitions: &[(String, String)],
    ) -> Result<(), StoreError>;

    /// The definition with this hash, as JSON text; `None` where it is not kept.
    ///
    /// # Errors
    /// It cannot be read.
    fn definition(&mut self, hash: &str) -> Result<Option<String>, StoreError>;

    /// Forgets these pins of a server.
    ///
    /// # Errors
    /// They cannot be removed.
    fn remove(&mut self, key: &PinKey, items: &[Item]) -> Result<(), StoreError>;

    /// All mutes of operators.
    ///
    /// # Errors
    /// They cannot be read.
    fn mutes(&mut self) -> Result<Vec<Mute>, StoreError>;

    /// Keeps a mute of an operator, in place of the one with the id `replaced`: both or nothing.
    ///
    /// # Errors
    /// It cannot be written.
    fn put_mute(&mut self, mute: &Mute, replaced: Option<&str>) -> Result<(), StoreError>;

    /// Forgets the mute with this id, if it is kept.
    ///
    /// # Errors
    /// It cannot be removed.
    fn remove_mute(&mut self, id: &str) -> Result<(), StoreError>;
}

/// A store that lasts as long as the process: for `replay`, and for `registry.persistent: false`.
#[derive(Debug)]
pub struct MemoryStore {
    pub(super) pins: BTreeMap<PinKey, BTreeMap<Item, PinRecord>>,
    pub(super) definitions: BTreeMap<String, String>,
    mutes: BTreeMap<String, Mute>,
    pub(super) bytes: usize,
    limit: usize,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(64 << 20)
    }
}

impl MemoryStore {
    /// A store of at most about so many bytes. Definitions take at most half of them, and what does not fit is not
    /// kept: a diff says so then. Pins that do not fit are an error.
    pub fn new(bytes: usize) -> Self {
        let mutes = BTreeMap::new();
        Self { pins: BTreeMap::new(), definitions: BTreeMap::new(), mutes, bytes: 0, limit: bytes }
    }
}

impl Store for MemoryStore {
    fn load(&mut self, key: &PinKey) -> Result<BTreeMap<Item, PinRecord>, StoreError> {
        Ok(self.pins.get(key).cloned().unwrap_or_default())
    }

    fn keys(&mut self, server: &ServerId) -> Result<Vec<PinKey>, StoreError> {
        Ok(self.pins.keys().filter(|key| key.server == *server).cloned().collect())
    }

    fn keys_of_program(&mut self, key: &PinKey) -> Result<Vec<PinKey>, StoreError> {
        let is_same = |known: &&PinKey| known.uid == key.uid && known.program == key.program;
        Ok(self.pins.keys().filter(is_same).cloned().collect())
    }

    fn put(
        &mut self,
        key: &PinKey,
        records: &[(Item, PinRecord)],
        definitions: &[(String, String)],
    ) -> Result<(), StoreError> {
        let known = self.pins.get(key);
        let size = |item: &Item, record: &PinRecord| item.name.len() + record.bytes();
        let more: usize = records.iter().map(|(item, record)| size(item, record)).sum();
        let less: usize = records.iter().filter_map(|(item, _)| Some(size(item, known?.get(item)?))).sum();
        let key_bytes = if known.is_none() { key.server.0.len() + key.program.len() } else { 0 };
        let bytes = (self.bytes + more + key_bytes).saturating_sub(less);
        if bytes > self.limit {
            return Err(StoreError::Full(format!("{} bytes of {}", self.bytes, self.limit)));
        }
        self.bytes = bytes;
        self.pins.entry(key.clone()).or_default().extend(records.iter().cloned());
        for (hash, definition) in definitions {
            if !self.definitions.contains_key(hash) && self.bytes + definition.len() <= self.limit / 2 {
                self.bytes += definition.len();
                self.definitions.insert(hash.clone(), definition.clone());
            }
        }
        Ok(())
    }

    fn definition(&mut self, hash: &str) -> Result<Option<String>, StoreError> {
        Ok(self.definitions.get(hash).cloned())
    }

    fn remove(&mut self, key: &PinKey, items: &[Item]) -> Result<(), StoreError> {
        let Some(records) = self.pins.get_mut(key) else { return Ok(()) };
        for item in items {
            if let Some(record) = records.remove(item) {
                self.bytes = self.bytes.saturating_sub(item.name.len() + record.bytes());
            }
        }
        if records.is_empty() {
            self.pins.remove(key);
            self.bytes = self.bytes.saturating_sub(key.server.0.len() + key.program.len());
        }
        Ok(())
    }

    fn mutes(&mut self) -> Result<Vec<Mute>, StoreError> {
        Ok(self.mutes.values().cloned().collect())
    }

    fn put_mute(&mut self, mute: &Mute, replaced: Option<&str>) -> Result<(), StoreError> {
        // Their number is bounded by who mutes.
        replaced.map(|id| self.mutes.remove(id));
        self.mutes.insert(mute.mute_id.clone(), mute.clone());
        Ok(())
    }

    fn remove_mute(&mut self, id: &str) -> Result<(), StoreError> {
        self.mutes.remove(id);
        Ok(())
    }
}
