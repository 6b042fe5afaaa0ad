//! Definitions that were inspected before.

use std::collections::HashMap;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::{Detector, Inspection};

/// What was found in the definitions seen last, so that a list that is sent again costs no more than its hash.
///
/// The key is the definition's text, not its canonical form: two texts of one canonical form may differ in what is
/// a finding, such as a duplicate key. One cache belongs to one detector: with new rules, make a new one.
#[derive(Debug)]
pub struct DetectionCache {
    /// Two generations, so that the oldest half can go at once without any bookkeeping per entry.
    young: HashMap<[u8; 32], Arc<Inspection>>,
    old: HashMap<[u8; 32], Arc<Inspection>>,
    generation: usize,
}

impl DetectionCache {
    /// A cache of at most `entries` definitions.
    pub fn new(entries: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), generation: (entries / 2).max(1) }
    }

    /// What `detector` finds in this definition.
    pub fn tool(&mut self, detector: &Detector, json: &str) -> Arc<Inspection> {
        let key: [u8; 32] = Sha256::digest(json).into();
        if let Some(found) = self.young.get(&key) {
            return Arc::clone(found);
        }
        let found = self.old.remove(&key).unwrap_or_else(|| Arc::new(detector.tool(json)));
        if self.young.len() >= self.generation {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, Arc::clone(&found));
        found
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
