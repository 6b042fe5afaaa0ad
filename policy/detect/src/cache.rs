//! Definitions that were seen before.

use std::collections::HashMap;
use std::sync::Arc;

use mcpwarden_protocol::definition::{former_digest, json_digest};
use sha2::{Digest as _, Sha256};

use super::{Detector, Harmless, Inspection, OrderedNames};

/// What is known of the text of a definition.
#[derive(Debug, PartialEq)]
pub struct Known {
    /// The hash of the definition: see [`json_digest`].
    pub hash: [u8; 32],
    /// The hash that earlier versions had of it, where that is another one: see [`former_digest`].
    pub former: Option<Box<[u8; 32]>>,
    /// What was found in it.
    pub found: Inspection,
    /// The names that its orders give.
    pub ordered: OrderedNames,
}

impl Known {
    /// Whether nothing was found in it, and no order.
    pub(super) fn is_harmless(&self) -> bool {
        self.found == Inspection::default() && self.ordered == OrderedNames::default()
    }

    /// What is known of a definition in which this was found, but for the names in its orders.
    pub(super) fn uninspected(json: &str, found: Inspection) -> Self {
        let (hash, former) = (json_digest(json), former_digest(json).map(Box::new));
        Self { hash, former, found, ordered: OrderedNames::default() }
    }
}

/// What is known of the definitions seen last, so that a list that is sent again costs no more than a digest of it.
///
/// The key is the definition's text, not its canonical form: two texts of one canonical form may differ in what is
/// a finding, such as a duplicate key. What is looked for in the tools of some servers only is part of it. One cache
/// belongs to one detector: with new rules, make a new one.
#[derive(Debug)]
pub struct DefinitionCache {
    /// Two generations, so that the oldest half can go at once without any bookkeeping per entry.
    young: HashMap<Key, Arc<Known>>,
    old: HashMap<Key, Arc<Known>>,
    generation: usize,
    /// What of those that are new need not be read.
    harmless: Harmless,
}

/// The digest of a text, and which patterns of some servers it was searched for.
pub(super) type Key = ([u8; 32], Option<usize>);

impl DefinitionCache {
    /// A cache of at most `entries` definitions.
    pub fn new(entries: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            generation: (entries / 2).max(1),
            harmless: Harmless::default(),
        }
    }

    /// One that knows the same, to be used elsewhere.
    #[must_use]
    pub fn snapshot(&self) -> Self {
        let (young, old) = (self.young.clone(), self.old.clone());
        Self { young, old, generation: self.generation, harmless: Harmless::default() }
    }

    /// The hash of this definition, and what `detector` finds in it if there is one.
    pub fn know(&mut self, detector: Option<&Detector>, json: &str) -> Arc<Known> {
        self.look(detector, None, json).1
    }

    /// The same of the definition of a tool of this server: see [`Detector::tool_of`].
    pub fn know_tool(&mut self, detector: Option<&Detector>, server: &str, json: &str) -> Arc<Known> {
        self.look(detector, Some(server), json).1
    }

    /// The same of either, and the key under which that is kept.
    pub(super) fn look(
        &mut self,
        detector: Option<&Detector>,
        server: Option<&str>,
        json: &str,
    ) -> (Key, Arc<Known>) {
        let own = detector.zip(server).and_then(|(detector, server)| detector.own_patterns(server));
        let key = (Sha256::digest(json).into(), own);
        if let Some(known) = self.young.get(&key) {
            return (key, Arc::clone(known));
        }
        let harmless = &mut self.harmless;
        let look = || {
            let found = match (detector, server) {
                (Some(detector), Some(server)) => detector.tool_of(server, json, harmless),
                (Some(detector), None) => detector.tool_among(json, harmless),
                (None, _) => Inspection::default(),
            };
            Arc::new(Known { ordered: OrderedNames::of(json), ..Known::uninspected(json, found) })
        };
        let known = self.old.remove(&key).unwrap_or_else(look);
        self.learn(key, Arc::clone(&known));
        (key, known)
    }

    /// Takes in what another one knows, of the same detector.
    pub(super) fn learn(&mut self, key: Key, known: Arc<Known>) {
        if self.young.len() >= self.generation {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, known);
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
