//! The registry, driven by pages. The rules of seeds 000, 001 and 003 that a test is about stand in its name or its
//! comment.

mod bounds;
mod orders;
mod pins;
mod shadowing;
mod versions;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::*;
use crate::event::Mute;
use crate::terms::{Severity, Timestamp};

/// A store that outlives its registry, and fails when told to.
#[derive(Clone, Debug, Default)]
struct Shared {
    inner: Arc<Mutex<MemoryStore>>,
    failing: Arc<AtomicBool>,
}

impl Shared {
    fn ask<T>(&self, ask: impl FnOnce(&mut MemoryStore) -> Result<T, StoreError>) -> Result<T, StoreError> {
        if self.failing.load(Ordering::Relaxed) {
            return Err(StoreError::Failed { doing: "do it".into(), reason: "disk full".into() });
        }
        ask(&mut self.inner.lock().unwrap())
    }

    fn fail(&self, failing: bool) {
        self.failing.store(failing, Ordering::Relaxed);
    }
}

impl Store for Shared {
    fn keys(&mut self, server: &ServerId) -> Result<Vec<PinKey>, StoreError> {
        self.ask(|store| store.keys(server))
    }

    fn keys_of_program(&mut self, key: &PinKey) -> Result<Vec<PinKey>, StoreError> {
        self.ask(|store| store.keys_of_program(key))
    }

    fn load(&mut self, key: &PinKey) -> Result<BTreeMap<Item, PinRecord>, StoreError> {
        self.ask(|store| store.load(key))
    }

    fn put(
        &mut self,
        key: &PinKey,
        records: &[(Item, PinRecord)],
        definitions: &[(String, String)],
    ) -> Result<(), StoreError> {
        self.ask(|store| store.put(key, records, definitions))
    }

    fn definition(&mut self, hash: &str) -> Result<Option<String>, StoreError> {
        self.ask(|store| store.definition(hash))
    }

    fn remove(&mut self, key: &PinKey, items: &[Item]) -> Result<(), StoreError> {
        self.ask(|store| store.remove(key, items))
    }

    fn mutes(&mut self) -> Result<Vec<Mute>, StoreError> {
        self.ask(|store| store.mutes())
    }

    fn put_mute(&mut self, mute: &Mute, replaced: Option<&str>) -> Result<(), StoreError> {
        self.ask(|store| store.put_mute(mute, replaced))
    }

    fn remove_mute(&mut self, id: &str) -> Result<(), StoreError> {
        self.ask(|store| store.remove_mute(id))
    }
}

/// A registry with a clock that moves a second with each page.
struct World {
    store: Shared,
    settings: RegistrySettings,
    registry: Registry,
    now: Timestamp,
}

const A: ConnectionId = ConnectionId(1);
const B: ConnectionId = ConnectionId(2);

fn key(server: &str) -> PinKey {
    PinKey { uid: Some(1000), server: ServerId(server.into()), program: format!("/opt/{server}") }
}

fn peer(server: &str, identity: Identity) -> Peer {
    Peer {
        session: SessionId("sess_1".into()),
        key: key(server),
        formerly: Vec::new(),
        also: Vec::new(),
        hands_over: false,
        version: None,
        identity,
    }
}

/// A tool as JSON text.
fn tool(name: &str, description: &str) -> (String, String) {
    (name.to_owned(), serde_json::json!({"name": name, "description": description}).to_string())
}

fn names(kinds: &[Change]) -> Vec<String> {
    kinds.iter().map(|change| format!("{} {}", word(&change.kind), change.item.name)).collect()
}

fn word(kind: &ChangeKind) -> &'static str {
    match kind {
        ChangeKind::New => "new",
        ChangeKind::Seen => "seen",
        ChangeKind::Changed { .. } => "changed",
        ChangeKind::Restored { .. } => "restored",
        ChangeKind::Removed => "removed",
        ChangeKind::Shadowing => "shadowing",
        ChangeKind::Ordering => "ordering",
    }
}

impl World {
    fn new(settings: RegistrySettings) -> Self {
        let store = Shared::default();
        let registry = Registry::new(settings.clone(), Box::new(store.clone()));
        Self { store, settings, registry, now: Timestamp(1_000_000_000) }
    }

    /// A registry with a server connected.
    fn with_server() -> Self {
        let mut world = Self::new(RegistrySettings::default());
        world.connect(A, "files");
        world
    }

    fn connect(&mut self, id: ConnectionId, server: &str) -> Option<Detection> {
        self.registry.connect(id, peer(server, Identity::Derived)).unwrap()
    }

    /// The program ends and starts again, over the same store; `A` is connected again.
    fn restart(&mut self) {
        self.registry = Registry::new(self.settings.clone(), Box::new(self.store.clone()));
        self.connect(A, "files");
    }

    fn page(
        &mut self,
        id: ConnectionId,
        kind: ItemKind,
        (first, last): (bool, bool),
        tools: &[(String, String)],
    ) -> Outcome {
        self.now = self.now.after(std::time::Duration::from_secs(1));
        let offer = |(name, json): &'_ (String, String)| (name.clone(), json.clone());
        let tools: Vec<(String, String)> = tools.iter().map(offer).collect();
        let hashes: Vec<[u8; 32]> =
            tools.iter().map(|(_, json)| crate::definition::json_digest(json)).collect();
        let formers: Vec<Option<[u8; 32]>> =
            tools.iter().map(|(_, json)| crate::definition::former_digest(json)).collect();
        let ordered: Vec<OrderedNames> = tools.iter().map(|(_, json)| OrderedNames::of(json)).collect();
        let offers: Vec<Offer<'_>> = tools
            .iter()
            .zip(&hashes)
            .zip(&formers)
            .zip(&ordered)
            .map(|((((name, json), hash), former), ordered)| {
                let (former, max_severity) = (former.as_ref(), Some(Severity::Low));
                Offer { name, json, hash, former, max_severity, ordered }
            })
            .collect();
        self.registry.page(id, &Page { kind, first, last, beside: false, offers: &offers }, self.now)
    }

    /// A whole list of tools on one page.
    fn list(&mut self, id: ConnectionId, tools: &[(String, String)]) -> Vec<Change> {
        let outcome = self.page(id, ItemKind::Tool, (true, true), tools);
        assert_eq!((outcome.refused, outcome.error), (0, None));
        outcome.changes
    }

    /// What listing the tool `t` with this description shows, and how it stands then.
    fn see(&mut self, description: &str) -> (&'static str, PinState) {
        let changes = self.list(A, &[tool("t", description)]);
        assert_eq!(changes.len(), 1);
        let standing = self.registry.tool(A, "t").unwrap();
        assert_eq!((standing.pin, standing.hash), (changes[0].pin, changes[0].hash.as_str()));
        (word(&changes[0].kind), changes[0].pin)
    }
}
