//! An agent that stores events, for tests.
#![allow(clippy::unwrap_used)]

use std::{
    path::Path,
    time::{Duration, Instant},
};

use mcpwarden_policy::{Event, EventBody, config::Retention};

use crate::{Entry, Settings, Store, chain::Head, checkpoint::Signer};

/// An agent's end of a store.
pub struct TestAgent {
    pub(crate) store: Store,
    pub(crate) head: Head,
    /// What was to be said when it was opened.
    pub reported: Vec<EventBody>,
    pub(crate) runtime: tokio::runtime::Runtime,
}

/// A store in `x.db` there.
pub fn settings(directory: &Path) -> Settings {
    Settings {
        path: directory.join("x.db"),
        queue_bytes: 1 << 20,
        retention: Retention::default(),
        log_bytes: 256 << 20,
        group: None,
        signer: Signer::new(&[7; 32]).unwrap(),
    }
}

impl TestAgent {
    /// Opens the store.
    pub fn start(settings: Settings) -> Self {
        let (store, head, reported) = Store::start(settings, || ()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Self { store, head, reported, runtime }
    }

    /// Says these events, in one batch.
    pub fn send(&mut self, events: Vec<Event>) {
        let (mut lines, mut entries) = (Vec::new(), Vec::new());
        for mut event in events {
            let line = self.head.append(&mut event, &mut lines);
            entries.push(Entry { event, hash: self.head.hash, line });
        }
        let room = self.runtime.block_on(self.store.room(lines.len()));
        self.store.send(lines.into(), entries, room);
    }

    /// The number of the last event that is written.
    pub fn stored(&self) -> u64 {
        self.store.status().head.seq
    }

    /// Has all of it written.
    pub fn finish(self) -> Head {
        self.store.finish(Instant::now() + Duration::from_secs(20));
        self.head
    }
}
