//! What is remembered of one session.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::guard::ToolCategory;
use crate::ids::Timestamp;

/// Most calls that are remembered of a session.
pub(super) const MAX_RECORDS: usize = 10_000;

/// One call.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) time: Timestamp,
    pub(super) server: Arc<str>,
    pub(super) tool: Arc<str>,
    pub(super) category: ToolCategory,
    /// Whether it was denied for real, and so did nothing.
    pub(super) stopped: bool,
    /// The model's turn, where something tells.
    pub(super) turn: Option<Arc<str>>,
    /// The turn by pauses.
    pub(super) gap_turn: u64,
}

impl Call {
    /// Whether it is no older than `window`, the last moment included.
    pub(super) fn is_within(&self, window: Duration, now: Timestamp) -> bool {
        now <= self.time.after(window)
    }

    /// Whether it is of the turn that `turn` names; by pauses where one of both has no name.
    pub(super) fn is_in_turn(&self, turn: Option<&str>, gap_turn: u64) -> bool {
        match (&self.turn, turn) {
            (Some(own), Some(turn)) => **own == *turn,
            _ => self.gap_turn == gap_turn,
        }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "timestamp": self.time,
            "server_id": &*self.server,
            "tool_name": &*self.tool,
            "tool_id": format!("mcp:{}:{}", self.server, self.tool),
            "request_id": self.turn.as_deref(),
            "action": if self.stopped { "block" } else { "allow" },
            "category": self.category,
        })
    }
}

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    /// The first server that was seen in it.
    first: Option<Arc<str>>,
    /// Whether there is a second one.
    active: bool,
    /// By time, as they came.
    calls: VecDeque<Call>,
    /// The turn by pauses.
    turn: u64,
    /// Calls without a result.
    open: u64,
    /// The last call or result.
    last: Timestamp,
}

impl Session {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { first: None, active: false, calls: VecDeque::new(), turn: 0, open: 0, last: now }
    }

    pub(super) fn last_seen(&self) -> Timestamp {
        self.last
    }

    /// Whether it has two servers, one of which may be this.
    pub(super) fn is_active_with(&self, server: &str) -> bool {
        self.active || self.first.as_deref().is_some_and(|first| first != server)
    }

    pub(super) fn note_server(&mut self, server: Arc<str>) {
        match &self.first {
            None => self.first = Some(server),
            Some(first) if *first != server => self.active = true,
            Some(_) => {}
        }
    }

    /// The number of the turn that a call belongs to that comes now. A call that waits for its result keeps the turn
    /// open, but not for longer than records are kept, since its result may never be seen.
    pub(super) fn turn_at(&self, now: Timestamp, gap: Duration, window: Duration) -> u64 {
        let pause = if self.open > 0 { gap.max(window) } else { gap };
        if now <= self.last.after(pause) { self.turn } else { self.turn + 1 }
    }

    /// Remembers a call, and says whether another had to be forgotten for it.
    pub(super) fn note_call(&mut self, mut call: Call, gap: Duration, window: Duration) -> bool {
        let now = call.time;
        let turn = self.turn_at(now, gap, window);
        if turn != self.turn {
            self.turn = turn;
            self.open = 0;
        }
        self.open += u64::from(!call.stopped);
        self.last = self.last.max(now);
        self.note_server(Arc::clone(&call.server));
        call.gap_turn = turn;
        if !self.active {
            // Of a server that is alone only the last read can ever matter.
            if call.category != ToolCategory::Read || call.stopped {
                return false;
            }
            self.calls.clear();
        }
        while self.calls.front().is_some_and(|oldest| !oldest.is_within(window, now)) {
            self.calls.pop_front();
        }
        let full = self.calls.len() >= MAX_RECORDS;
        if full {
            self.calls.pop_front();
        }
        self.calls.push_back(call);
        full
    }

    pub(super) fn note_result(&mut self, now: Timestamp) {
        self.open = self.open.saturating_sub(1);
        self.last = self.last.max(now);
    }

    /// Reads of other servers that ran, newest first.
    pub(super) fn reads_elsewhere(&self, server: &str, counts: impl Fn(&Call) -> bool) -> Vec<&Call> {
        let reads = self.calls.iter().rev().filter(|call| call.category == ToolCategory::Read);
        reads
            .filter(|call| *call.server != *server && !call.stopped && counts(call))
            .take(super::MAX_RELATED)
            .collect()
    }

    /// Calls of a server, newest first.
    pub(super) fn calls_of<'s>(&'s self, server: &'s str) -> impl Iterator<Item = &'s Call> {
        self.calls.iter().rev().filter(move |call| *call.server == *server)
    }

    #[cfg(test)]
    pub(super) fn records(&self) -> usize {
        self.calls.len()
    }
}
