//! Definitions that were seen before.

use std::collections::HashMap;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::{Detector, Inspection};
use crate::hash::json_digest;

/// What is known of the text of a definition.
#[derive(Debug, PartialEq)]
pub struct Known {
    /// The hash of the definition: see [`json_digest`].
    pub hash: [u8; 32],
    /// What was found in it.
    pub found: Inspection,
}

/// What is known of the definitions seen last, so that a list that is sent again costs no more than a digest of it.
///
/// The key is the definition's text, not its canonical form: two texts of one canonical form may differ in what is
/// a finding, such as a duplicate key. One cache belongs to one detector: with new rules, make a new one.
#[derive(Debug)]
pub struct DefinitionCache {
    /// Two generations, so that the oldest half can go at once without any bookkeeping per entry.
    young: HashMap<[u8; 32], Arc<Known>>,
    old: HashMap<[u8; 32], Arc<Known>>,
    generation: usize,
}

impl DefinitionCache {
    /// A cache of at most `entries` definitions.
    pub fn new(entries: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), generation: (entries / 2).max(1) }
    }

    /// The hash of this definition, and what `detector` finds in it if there is one.
    pub fn know(&mut self, detector: Option<&Detector>, json: &str) -> Arc<Known> {
        let key: [u8; 32] = Sha256::digest(json).into();
        if let Some(known) = self.young.get(&key) {
            return Arc::clone(known);
        }
        let look = || {
            let found = detector.map(|detector| detector.tool(json)).unwrap_or_default();
            Arc::new(Known { hash: json_digest(json), found })
        };
        let known = self.old.remove(&key).unwrap_or_else(look);
        if self.young.len() >= self.generation {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, Arc::clone(&known));
        known
    }

    /// How many definitions it holds.
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
