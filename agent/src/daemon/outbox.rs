//! Events on their way out: given their number in the chain and written as JSON once, for the store and for standard output.

use std::time::{Duration, Instant};

use bytes::Bytes;
use mcpwarden_policy::{
    Event,
    event::{AuditHead, StoreRecovered},
};
use mcpwarden_sinks::{Print, Sinks};
use mcpwarden_store::{Entry, Room, Store, StoreUpdate, chain::Head};

use crate::output::{Dates, Format};

/// Bytes of events beyond which no more records are read before they are handed on.
const FULL_BYTES: usize = 256 * 1024;

/// How often the length of the chain is reported.
const HEAD_EVERY: Duration = Duration::from_secs(60);

/// The last event that reported the length of the chain, or the last before this agent; and when that was.
struct HeadReport {
    seq: u64,
    at: Instant,
}

impl HeadReport {
    /// How many events there were since, where it is to be reported again: as the next event after `last`.
    fn due(&mut self, last: u64, now: Instant) -> Option<u64> {
        let events = last.saturating_sub(self.seq);
        if events == 0 || now.duration_since(self.at) < HEAD_EVERY {
            return None;
        }
        *self = Self { seq: last + 1, at: now };
        Some(events)
    }
}

/// Events that are on their way to the store and to standard output.
pub struct Outbox {
    format: Format,
    /// Of what was printed as text.
    dates: Dates,
    head: Head,
    /// Lines of JSON, and what is known of each.
    lines: Vec<u8>,
    entries: Vec<Entry>,
    /// What is printed, where that is not the lines, byte for byte.
    text: Option<Vec<u8>>,
    /// How many of the events are printed.
    printed: usize,
    store: Store,
    /// Why events cannot be stored now.
    failing: Option<String>,
    head_report: HeadReport,
}

impl Outbox {
    /// An outbox whose chain goes on from `head`. `dates`: of the lines before.
    pub fn new(format: Format, dates: Dates, store: Store, head: Head) -> Self {
        Self {
            format,
            dates,
            head,
            lines: Vec::new(),
            entries: Vec::new(),
            text: None,
            printed: 0,
            store,
            failing: None,
            head_report: HeadReport { seq: head.seq, at: Instant::now() },
        }
    }

    /// Takes an event in. `send` gets it with its number in the chain, and its line, and returns how it is printed.
    pub fn add(&mut self, mut event: Event, send: impl FnOnce(&Event, &[u8]) -> Print) {
        let line = self.head.append(&mut event, &mut self.lines);
        let (before, line_text) = self.lines.split_at(line.start);
        let line_text = line_text.get(..line.len()).unwrap_or_default();
        let print = send(&event, line_text);
        if self.text.is_none() && (print != Print::Native || self.format != Format::Json) {
            self.text = Some(before.to_vec());
        }
        self.printed += usize::from(print != Print::No);
        if let Some(text) = &mut self.text {
            match (print, self.format) {
                (Print::No, _) => {}
                (Print::Native, Format::Json) => text.extend(line_text.iter().chain(b"\n")),
                (Print::As(line), Format::Json) => text.extend(line.iter().chain(b"\n")),
                (Print::Native | Print::As(_), format) => format.write(&event, &mut self.dates, text),
            }
        }
        self.entries.push(Entry { event, hash: self.head.hash, line });
    }

    /// Whether it has to be emptied before more is taken in.
    pub fn is_full(&self) -> bool {
        self.bytes() > FULL_BYTES
    }

    /// Bytes of events that wait.
    pub fn bytes(&self) -> usize {
        self.lines.len()
    }

    /// Hands on what it has, once the store has capacity: what is printed to `sinks`, which never wait.
    pub async fn flush(&mut self, sinks: &Sinks) {
        if self.entries.is_empty() {
            return;
        }
        let room = self.store.room(self.lines.len()).await;
        self.hand_on(sinks, room);
    }

    /// Hands on what is left at the end, whether or not the store has capacity: it stores what it still can.
    pub fn flush_at_last(&mut self, sinks: &Sinks) {
        if !self.entries.is_empty() {
            self.hand_on(sinks, Room::default());
        }
    }

    fn hand_on(&mut self, sinks: &Sinks, room: Room) {
        let lines = Bytes::from(std::mem::take(&mut self.lines));
        let text = self.text.take().map_or_else(|| lines.clone(), Bytes::from);
        sinks.print(text, std::mem::take(&mut self.printed));
        self.store.send(lines, std::mem::take(&mut self.entries), room);
    }

    /// Where events are stored.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The report of the chain's length, where it is due and there were events.
    pub fn due_head(&mut self) -> Option<AuditHead> {
        self.head_report.due(self.head.seq, Instant::now()).map(|events| AuditHead { events })
    }

    /// What became of the store since this was called last.
    pub fn store_updates(&self) -> Vec<StoreUpdate> {
        self.store.updates()
    }

    /// Events cannot be stored, for this reason.
    pub fn set_failing(&mut self, reason: String) {
        self.failing = Some(reason);
    }

    /// Events can be stored again, behind `stored`, which this agent wrote where it is `ours`. What is to be reported of that.
    pub fn recover(&mut self, stored: Head, ours: bool) -> StoreRecovered {
        self.failing = None;
        let Recovery { events_lost, first_missing, continues } =
            Recovery::of(self.head.seq, stored.seq, ours);
        if !continues {
            self.head = stored;
        }
        StoreRecovered { path: self.store.path().display().to_string(), events_lost, first_missing }
    }

    /// Why nothing can be stored now, where that is so.
    pub fn failing(&self) -> Option<&str> {
        self.failing.as_deref()
    }

    /// Closes the store, until then at the latest.
    pub fn finish(self, until: Instant) {
        self.store.finish(until);
    }
}

/// What is missing in a store that can be written again.
#[derive(Debug, PartialEq, Eq)]
struct Recovery {
    events_lost: u64,
    first_missing: Option<u64>,
    /// Whether the chain of this agent goes on; else it begins anew behind what is stored.
    continues: bool,
}

impl Recovery {
    /// `head`: the last event of this agent; `stored`: the last in the store, which this agent wrote where it is `ours`.
    fn of(head: u64, stored: u64, ours: bool) -> Self {
        // It is not this agent's either where somebody put another file there.
        if ours && stored <= head {
            let first_missing = Some(stored + 1).filter(|first| *first <= head);
            return Self { events_lost: head - stored, first_missing, continues: true };
        }
        Self { events_lost: head, first_missing: None, continues: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds, the number of the last event, and what is reported: the report itself is an event.
    #[test]
    fn chain_head_is_reported_once_a_minute_after_events() {
        let start = Instant::now();
        let mut report = HeadReport { seq: 10, at: start };
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
            assert_eq!(report.due(last, start + Duration::from_secs(second)), expected, "{second}");
        }
    }

    #[test]
    fn recovered_store_reports_missing_events() {
        for (name, head, stored, ours, expected) in [
            ("nothing lost", 10, 10, true, (0, None, true)),
            ("some lost", 10, 7, true, (3, Some(8), true)),
            ("all lost", 10, 0, true, (10, Some(1), true)),
            ("another's", 10, 7, false, (10, None, false)),
            ("another file", 10, 11, true, (10, None, false)),
            ("no event yet", 0, 0, false, (0, None, false)),
        ] {
            let (events_lost, first_missing, continues) = expected;
            let expected = Recovery { events_lost, first_missing, continues };
            assert_eq!(Recovery::of(head, stored, ours), expected, "{name}");
        }
    }
}
