//! Events on their way out: given their place in the chain and written as JSON once, for the store and for standard output.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Result;
use bytes::Bytes;
use mcpwarden_policy::{
    Event, EventBody,
    event::{AuditHead, StoreRecovered, StoreReplaced},
};
use mcpwarden_sinks::Print;
use mcpwarden_store::{
    self as store, Entry, Settings, Store, StoreUpdate,
    chain::Head,
    checkpoint::{AUDIT_KEY, Signer},
    database,
    registry::Pins,
};
use mcpwarden_system::instance;
use tokio::sync::mpsc;

use super::Agent;
use crate::{
    config::Config,
    output::{Format, WAITING_CHUNKS},
};

/// Bytes of events beyond which no more records are read before they are handed on.
const FULL_BYTES: usize = 256 * 1024;

/// How often it is said how far the chain has come.
const HEAD_EVERY: Duration = Duration::from_secs(60);

/// What is kept on this host.
pub(super) struct Stores {
    /// Events.
    pub events: Store,
    /// The end of their chain.
    pub head: Head,
    /// Pins; `None` where they are not to outlive the agent.
    pub pins: Option<Pins>,
    /// What is to be said of it.
    pub said: Vec<EventBody>,
}

impl Stores {
    /// Opens all of it.
    ///
    /// # Errors
    /// The directory is not safe to use, or a database is of a later version or another program's.
    pub fn open(config: &Config, state_dir: &Path) -> Result<Self> {
        let path = match &config.store.path {
            Some(path) => path.as_str().into(),
            None => state_dir.join(store::EVENTS),
        };
        let directory = path.parent().unwrap_or(state_dir).to_owned();
        instance::make(&directory)?;
        let group = store::group(&config.control.group);
        let shared = std::fs::File::open(&directory).and_then(|file| database::give(&file, group));
        let signer = Signer::new(&AUDIT_KEY.get(state_dir)?);
        let signer = signer.ok_or_else(|| anyhow::anyhow!("the key of the audit trail cannot be used"))?;
        if let Err(error) = shared.and_then(|()| signer.publish(&directory, group)) {
            tracing::error!("{}: {error}", directory.display());
        }
        let mut said = Vec::new();
        let mut pins = None;
        if config.registry.persistent {
            let (open, replaced) = Pins::open(&directory, group)?;
            said.extend(replaced.map(StoreReplaced::into));
            pins = Some(open);
        }
        let export = pins.as_ref().map(Pins::export);
        let settings = Settings {
            path,
            queue_bytes: config.store.queue_bytes.0,
            retention: config.store.retention.clone(),
            group,
            signer,
        };
        let exports = move || export.iter().for_each(store::registry::Export::run);
        let (events, head, more) = Store::start(settings, exports)?;
        said.extend(more);
        Ok(Self { events, head, pins, said })
    }
}

/// The last event that said how far the chain has come, or the last before this agent; and when that was.
struct HeadSaid {
    seq: u64,
    at: Instant,
}

impl HeadSaid {
    /// How many events there were since, where it is to be said again: as the next event after `last`.
    fn due(&mut self, last: u64, now: Instant) -> Option<u64> {
        let events = last.saturating_sub(self.seq);
        if events == 0 || now.duration_since(self.at) < HEAD_EVERY {
            return None;
        }
        *self = Self { seq: last + 1, at: now };
        Some(events)
    }
}

/// See the module.
pub(super) struct Outbox {
    format: Format,
    head: Head,
    /// Lines of JSON, and what is known of each.
    lines: Vec<u8>,
    entries: Vec<Entry>,
    /// What is printed, where that is not the lines, byte for byte.
    text: Option<Vec<u8>>,
    output: mpsc::Sender<Bytes>,
    store: Store,
    failing: Option<String>,
    head_said: HeadSaid,
}

impl Outbox {
    /// An outbox whose chain goes on from `head`.
    pub fn new(format: Format, output: mpsc::Sender<Bytes>, store: Store, head: Head) -> Self {
        Self {
            format,
            head,
            lines: Vec::new(),
            entries: Vec::new(),
            text: None,
            output,
            store,
            failing: None,
            head_said: HeadSaid { seq: head.seq, at: Instant::now() },
        }
    }

    /// Takes an event in. `send` gets it with its place in the chain, and its line, and says how it is printed.
    pub fn say(&mut self, mut event: Event, send: impl FnOnce(&Event, &[u8]) -> Print) {
        let line = self.head.append(&mut event, &mut self.lines);
        let (before, line_text) = self.lines.split_at(line.start);
        let line_text = line_text.get(..line.len()).unwrap_or_default();
        let print = send(&event, line_text);
        if self.text.is_none() && (print != Print::Native || self.format != Format::Json) {
            self.text = Some(before.to_vec());
        }
        if let Some(text) = &mut self.text {
            match (print, self.format) {
                (Print::No, _) => {}
                (Print::Native, Format::Json) => text.extend(line_text.iter().chain(b"\n")),
                (Print::As(line), Format::Json) => text.extend(line.iter().chain(b"\n")),
                (Print::Native | Print::As(_), format) => format.write(&event, text),
            }
        }
        self.entries.push(Entry { event, hash: self.head.hash, line });
    }

    /// Whether it has to be emptied before more is taken in.
    pub fn is_full(&self) -> bool {
        self.lines.len() > FULL_BYTES
    }

    /// Hands on what it has, once there is room. Whether somebody still reads the output.
    pub async fn flush(&mut self) -> bool {
        if self.entries.is_empty() {
            return !self.output.is_closed();
        }
        let room = self.store.room(self.lines.len()).await;
        let Ok(place) = self.output.reserve().await else { return false };
        let lines = Bytes::from(std::mem::take(&mut self.lines));
        place.send(self.text.take().map_or_else(|| lines.clone(), Bytes::from));
        self.store.send(lines, std::mem::take(&mut self.entries), room);
        true
    }

    /// Waits until nobody reads the output any more.
    pub async fn closed(&self) {
        self.output.closed().await;
    }

    /// Chunks that wait for whoever reads the output.
    pub fn waiting_chunks(&self) -> usize {
        WAITING_CHUNKS - self.output.capacity()
    }

    /// Where events are stored.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// What is to be said of the chain, where it is time and there was anything.
    fn head_to_say(&mut self) -> Option<AuditHead> {
        self.head_said.due(self.head.seq, Instant::now()).map(|events| AuditHead { events })
    }

    /// Why nothing can be stored now, where that is so.
    pub fn failing(&self) -> Option<&str> {
        self.failing.as_deref()
    }

    /// Closes all, until then at the latest.
    pub fn finish(self, until: Instant) {
        drop(self.output);
        self.store.finish(until);
    }
}

impl Agent {
    /// Says something of the store, and remembers where that is that events cannot be stored.
    pub(super) fn say_of_store(&mut self, body: EventBody) {
        if let EventBody::StoreFailing(failing) = &body {
            self.metrics.store(Some(&failing.reason));
            self.outbox.failing = Some(failing.reason.clone());
        }
        self.say(body);
    }

    /// Says what became of the store.
    pub(super) fn hear_store(&mut self) {
        if let Some(head) = self.outbox.head_to_say() {
            self.say(head.into());
        }
        for news in self.outbox.store.news() {
            match news {
                StoreUpdate::Say(body) => self.say_of_store(*body),
                StoreUpdate::Well { stored, ours } => {
                    self.metrics.store(None);
                    self.outbox.failing = None;
                    let head = self.outbox.head.seq;
                    // Nor is it where somebody put another file there.
                    let ours = ours && stored.seq <= head;
                    let (lost, first_missing) =
                        if ours { (head - stored.seq, Some(stored.seq + 1)) } else { (head, None) };
                    if !ours {
                        self.outbox.head = stored;
                    }
                    self.say(EventBody::from(StoreRecovered {
                        path: self.outbox.store.path().display().to_string(),
                        events_lost: lost,
                        first_missing: first_missing.filter(|first| *first <= head),
                    }));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds, the number of the last event, and what is said: that itself is an event.
    #[test]
    fn chain_head_is_reported_once_a_minute_after_events() {
        let start = Instant::now();
        let mut said = HeadSaid { seq: 10, at: start };
        for (second, last, expected) in [
            (0, 12, None),
            (59, 20, None),
            (60, 20, Some(10)),
            (61, 21, None),
            (120, 21, None),
            (200, 22, Some(1)),
            (259, 30, None),
            (260, 30, Some(7)),
            // Another store begins anew.
            (400, 3, None),
        ] {
            assert_eq!(said.due(last, start + Duration::from_secs(second)), expected, "{second}");
        }
    }
}
