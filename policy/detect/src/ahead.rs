//! What was inspected of a long message before it is read: wherever there is time for that.
//!
//! An inspection is a function of a text, so that it does not matter where and when it is made. A [`Reader`] is a detector
//! that knows of such inspections: what it is asked for and has, it does not inspect again. Of what it has not it inspects as much
//! as a short message may have, and says of the rest that it was not inspected.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::cache::Key as DefinitionKey;
use super::{DefinitionCache, Detector, Inspection, Known, ToolNames};

/// Most bytes of a message that are inspected beside what was inspected ahead.
const BESIDE_BYTES: usize = 256 << 10;

/// Most bytes of a message that are inspected of which nothing was ahead: others wait meanwhile.
const GIVEN_UP_BYTES: usize = 32 << 10;

/// Most definitions of which all is kept that is known: those that a server's registry has room for. Of the others it is kept
/// that nothing was found, or what was.
const KEPT_DEFINITIONS: usize = 4_096;

/// How a text is inspected: each is a method of [`Reader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// [`Reader::tool`].
    Definition,
    /// [`Reader::text`].
    Text,
    /// [`Reader::result`].
    Result,
    /// [`Reader::sampling`].
    Request,
    /// [`Reader::arguments`].
    Arguments,
    /// [`Reader::interfaces`].
    Interfaces,
}

/// A text: its hash by a key of this process, and its length.
type Place = (u64, usize);

/// What was inspected of one message.
pub struct Ahead {
    /// Of the message. Bytes.
    length: usize,
    hasher: RandomState,
    found: HashMap<(Way, Place), Inspection>,
    /// Of definitions, by the patterns of some servers that they were searched for.
    known: HashMap<(Option<usize>, Place), (DefinitionKey, Arc<Known>)>,
    /// Further definitions in which nothing was found: a hash by the same key.
    harmless: HashSet<u64>,
    /// Bytes that may still be inspected beside.
    left: AtomicUsize,
}

impl Ahead {
    /// Nothing yet of a message of so many bytes.
    pub fn of(length: usize) -> Self {
        Self {
            length,
            hasher: RandomState::new(),
            found: HashMap::new(),
            known: HashMap::new(),
            harmless: HashSet::new(),
            left: AtomicUsize::new(BESIDE_BYTES),
        }
    }

    /// Nothing of such a message, and nothing will be.
    pub fn given_up(length: usize) -> Self {
        Self { left: AtomicUsize::new(GIVEN_UP_BYTES), ..Self::of(length) }
    }

    /// Inspects a text of the message. `tools`: the names of the session's tools, for results.
    pub fn inspect(&mut self, detector: &Detector, way: Way, text: &str, tools: &ToolNames) {
        let place = self.place(text);
        self.found
            .entry((way, place))
            .or_insert_with(|| Reader::new(detector, None).read_by(way, text, tools));
    }

    /// Takes a definition of the message, of the tool of this server or of anything else, into what is known.
    pub fn know(
        &mut self,
        detector: &Detector,
        definitions: &mut DefinitionCache,
        server: Option<&str>,
        json: &str,
    ) {
        let own = server.and_then(|server| detector.own_patterns(server));
        let key = (own, self.place(json));
        if self.known.contains_key(&key) || self.harmless.contains(&self.hasher.hash_one(key)) {
            return;
        }
        let (definition, known) = definitions.look(Some(detector), server, json);
        if self.known.len() >= KEPT_DEFINITIONS && known.is_harmless() {
            self.harmless.insert(self.hasher.hash_one(key));
        } else {
            self.known.insert(key, (definition, known));
        }
    }

    fn place(&self, text: &str) -> Place {
        (self.hasher.hash_one(text), text.len())
    }

    /// Memory that it keeps, about: above all the message.
    pub fn bytes(&self) -> usize {
        self.length
    }

    /// Whether so many bytes may be inspected beside.
    fn admits(&self, bytes: usize) -> bool {
        let take = |left: usize| left.checked_sub(bytes);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

impl fmt::Debug for Ahead {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, texts) = (self.length, self.found.len() + self.known.len());
        formatter.debug_struct("Ahead").field("bytes", &bytes).field("texts", &texts).finish()
    }
}

/// A detector, and what was inspected ahead of the message at hand, if that is a long one.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    detector: &'a Detector,
    ahead: Option<&'a Ahead>,
}

impl<'a> Reader<'a> {
    /// One of a message of which this was inspected ahead.
    pub fn new(detector: &'a Detector, ahead: Option<&'a Ahead>) -> Self {
        Self { detector, ahead }
    }

    /// [`Detector::tool`].
    pub fn tool(&self, json: &str) -> Inspection {
        self.read(Way::Definition, json, || self.detector.tool(json))
    }

    /// [`Detector::text`]; of one text there is one field.
    pub fn text(&self, field: &str, text: &str) -> Inspection {
        self.read(Way::Text, text, || self.detector.text(field, text))
    }

    /// [`Detector::result`].
    pub fn result(&self, json: &str, tools: &ToolNames) -> Inspection {
        self.read(Way::Result, json, || self.detector.result(json, tools))
    }

    /// [`Detector::sampling`].
    pub fn sampling(&self, json: &str) -> Inspection {
        self.read(Way::Request, json, || self.detector.sampling(json))
    }

    /// [`Detector::arguments`].
    pub fn arguments(&self, json: &str) -> Inspection {
        self.read(Way::Arguments, json, || self.detector.arguments(json))
    }

    /// [`Detector::interfaces`].
    pub fn interfaces(&self, json: &str) -> Inspection {
        self.read(Way::Interfaces, json, || self.detector.interfaces(json))
    }

    /// What is known of a definition, of the tool of this server or of anything else: see [`DefinitionCache::know`].
    pub fn know(&self, definitions: &mut DefinitionCache, server: Option<&str>, json: &str) -> Arc<Known> {
        if let Some(ahead) = self.ahead {
            let own = server.and_then(|server| self.detector.own_patterns(server));
            let place = (own, ahead.place(json));
            if let Some((key, known)) = ahead.known.get(&place) {
                definitions.learn(*key, Arc::clone(known));
                return Arc::clone(known);
            }
            if ahead.harmless.contains(&ahead.hasher.hash_one(place)) {
                return Arc::new(Known::uninspected(json, Inspection::default()));
            }
            if !ahead.admits(json.len()) {
                return Arc::new(Known::uninspected(json, self.detector.uninspected()));
            }
        }
        definitions.look(Some(self.detector), server, json).1
    }

    fn read_by(&self, way: Way, text: &str, tools: &ToolNames) -> Inspection {
        match way {
            Way::Definition => self.tool(text),
            Way::Text => self.text(INSTRUCTIONS, text),
            Way::Result => self.result(text, tools),
            Way::Request => self.sampling(text),
            Way::Arguments => self.arguments(text),
            Way::Interfaces => self.interfaces(text),
        }
    }

    fn read(&self, way: Way, text: &str, inspect: impl FnOnce() -> Inspection) -> Inspection {
        let Some(ahead) = self.ahead else { return inspect() };
        if let Some(found) = ahead.found.get(&(way, ahead.place(text))) {
            found.clone()
        } else if ahead.admits(text.len()) {
            inspect()
        } else {
            self.detector.uninspected()
        }
    }
}

/// The one text that is inspected as such: what a server says of itself.
pub const INSTRUCTIONS: &str = "/instructions";
