//! What is remembered of one session.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::act::Answer;
use crate::definition::bounded;
use crate::event::{Action, RelatedCall};
use crate::guard::TurnState;
use crate::terms::{ConnectionId, ServerId, Timestamp, ToolCategory};

/// What calls a tool.
const TOOLS_CALL: &str = "tools/call";

/// Most calls that are remembered of a session.
pub(super) const MAX_RECORDS: usize = 10_000;

/// Most reads that are remembered of a session within the window, and most that wait for their answers.
pub(super) const MAX_READS: usize = 256;

/// Most reads of turns that may still go on which are remembered of a session beyond every window.
pub(super) const MAX_OLD_READS: usize = 256;

/// For how long things matter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spans {
    /// Between the calls of one turn, where turns have no names.
    pub(super) gap: Duration,
    /// From a call to the last that a rule may hold it against.
    pub(super) window: Duration,
    /// After which a session is forgotten, and what an old turn has read.
    pub(super) idle: Duration,
}

/// Which request an answer is of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) server: &'a str,
    pub(super) connection: ConnectionId,
    pub(super) id: &'a Value,
}

/// One call of a tool, or something else that reads or sends.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) time: Timestamp,
    /// When its data came, if it reads.
    pub(super) read_at: Option<Timestamp>,
    pub(super) server: Arc<str>,
    pub(super) connection: ConnectionId,
    /// The JSON-RPC id, as it is recorded, of its first try.
    pub(super) id: Value,
    pub(super) method: Arc<str>,
    /// Of what is no call of a tool, its method.
    pub(super) tool: Arc<str>,
    pub(super) category: ToolCategory,
    /// Whether it reads, besides what it is.
    pub(super) reads: bool,
    /// Whether an answer is to come.
    pub(super) is_asked: bool,
    /// Whether it was denied for real, and so did nothing.
    pub(super) stopped: bool,
    /// The model's turn, where something tells.
    pub(super) turn: Option<Arc<str>>,
    /// The turn by pauses.
    pub(super) gap_turn: u64,
}

impl Call {
    /// Whether it is no older than `window`, the last moment included; what was read counts from when it came.
    pub(super) fn is_within(&self, window: Duration, now: Timestamp) -> bool {
        now <= self.read_at.unwrap_or(self.time).after(window)
    }

    /// Whether it is of the turn that `turn` names; by pauses where one of both has no name.
    pub(super) fn is_in_turn(&self, turn: Option<&str>, gap_turn: u64) -> bool {
        match (&self.turn, turn) {
            (Some(own), Some(turn)) => **own == *turn,
            _ => self.gap_turn == gap_turn,
        }
    }

    /// Whether data is to come with its answer.
    fn will_read(&self) -> bool {
        (self.reads || self.category == ToolCategory::Read) && self.is_asked && !self.stopped
    }

    /// Whether a tool is called: what bursts are made of.
    pub(super) fn is_of_tool(&self) -> bool {
        &*self.method == TOOLS_CALL
    }

    /// As the denial of another call names it.
    pub(super) fn named(&self) -> RelatedCall {
        RelatedCall {
            timestamp: self.time,
            server_id: ServerId(Arc::clone(&self.server)),
            connection: Some(self.connection),
            jsonrpc_id: self.id.clone(),
            request_id: self.turn.as_deref().map(str::to_owned),
            method: self.method.to_string(),
            tool_name: self.tool.to_string(),
            tool_id: format!("mcp:{}:{}", self.server, self.tool),
            category: self.category,
            action: if self.stopped { Action::Block } else { Action::Allow },
        }
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
    /// What waits for its data, as it was asked.
    waiting: VecDeque<Call>,
    /// What was read within the window, as it came.
    reads: VecDeque<Call>,
    /// Beside those: the last read of each server in each turn that may still go on.
    old_reads: VecDeque<Call>,
    /// The turn by pauses.
    turn: u64,
    /// Calls without a result.
    open: u64,
    /// The last call or result.
    last: Timestamp,
    /// The newest call.
    newest_call: Timestamp,
}

impl Session {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            first: None,
            active: false,
            calls: VecDeque::new(),
            waiting: VecDeque::new(),
            reads: VecDeque::new(),
            old_reads: VecDeque::new(),
            turn: 0,
            open: 0,
            last: now,
            newest_call: Timestamp(0),
        }
    }

    /// How far its turn has come.
    pub(super) fn turn(&self) -> TurnState {
        let Self { newest_call, last, open, active: has_several, .. } = *self;
        let mut reads = self.newest_reads().filter_map(|call| Some((&call.server, call.read_at?)));
        let newest = reads.next();
        let other = newest.and_then(|(server, _)| reads.find(|(other, _)| *other != server));
        TurnState {
            newest_call,
            last,
            open,
            first: self.first.clone(),
            has_several,
            newest_read: newest.map(|(server, time)| (Arc::clone(server), time)),
            other_read: other.map(|(_, time)| time),
        }
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
    pub(super) fn turn_at(&self, now: Timestamp, Spans { gap, window, .. }: Spans) -> u64 {
        let pause = if self.open > 0 { gap.max(window) } else { gap };
        if now <= self.last.after(pause) { self.turn } else { self.turn + 1 }
    }

    /// Remembers a call, and says whether another had to be forgotten for it.
    pub(super) fn note_call(&mut self, mut call: Call, spans: Spans) -> bool {
        let now = call.time;
        let turn = self.turn_at(now, spans);
        if turn != self.turn {
            self.turn = turn;
            self.open = 0;
        }
        self.open += u64::from(call.is_asked && !call.stopped);
        self.last = self.last.max(now);
        self.newest_call = self.newest_call.max(now);
        self.note_server(Arc::clone(&call.server));
        call.gap_turn = turn;
        let mut dropped = self.forget_reads(spans, now);
        if call.will_read() {
            dropped |= self.waiting.len() >= MAX_READS && self.waiting.pop_front().is_some();
            self.waiting.push_back(call.clone());
        }
        if !self.active {
            // Of a server that is alone only what was read can ever matter.
            return dropped;
        }
        while self.calls.front().is_some_and(|oldest| !oldest.is_within(spans.window, now)) {
            self.calls.pop_front();
        }
        if self.calls.len() >= MAX_RECORDS {
            self.calls.pop_front();
            dropped = true;
        }
        self.calls.push_back(call);
        dropped
    }

    /// Moves what was read before the window to what older turns have read, and forgets what waits for longer than a session
    /// is remembered. Whether something had to be forgotten for want of room.
    fn forget_reads(&mut self, spans: Spans, now: Timestamp) -> bool {
        self.waiting.retain(|call| call.is_within(spans.idle, now));
        let mut dropped = false;
        while self.reads.front().is_some_and(|oldest| !oldest.is_within(spans.window, now)) {
            if let Some(oldest) = self.reads.pop_front() {
                dropped |= self.keep_read(oldest, spans, now);
            }
        }
        dropped
    }

    /// The data of a call has come. Whether another had to be forgotten for it.
    fn note_read(&mut self, mut call: Call, spans: Spans, now: Timestamp) -> bool {
        call.read_at = Some(now);
        // The turn that has the data: that of the call may be over.
        call.gap_turn = self.turn;
        let mut dropped = self.forget_reads(spans, now);
        if !self.active {
            // Of a server that is alone only the last read of each turn can ever matter.
            return self.keep_read(call, spans, now) || dropped;
        }
        if self.reads.len() >= MAX_READS {
            // What was read before so many reads was read all the same.
            if let Some(oldest) = self.reads.pop_front() {
                dropped |= self.keep_read(oldest, spans, now);
            }
        }
        self.reads.push_back(call);
        dropped
    }

    /// Keeps a call for which there is no room among the calls, if something was read with it within the window, or by a
    /// turn that may still go on: one that has a name, or the one by pauses. Whether another had to be forgotten for it.
    fn keep_read(&mut self, call: Call, Spans { window, idle, .. }: Spans, now: Timestamp) -> bool {
        let turn = self.turn;
        let goes_on = |old: &Call| old.turn.is_some() || old.gap_turn == turn || old.is_within(window, now);
        if !goes_on(&call) {
            return false;
        }
        let same = |old: &Call| old.turn == call.turn && old.server == call.server;
        self.old_reads.retain(|old| old.is_within(idle, now) && goes_on(old) && !same(old));
        let full = self.old_reads.len() >= MAX_OLD_READS;
        if full {
            self.old_reads.pop_front();
        }
        self.old_reads.push_back(call);
        full
    }

    pub(super) fn note_result(&mut self, now: Timestamp) {
        self.open = self.open.saturating_sub(1);
        self.last = self.last.max(now);
    }

    /// Takes an answer for the call that it is of: on the same connection, or, of a task that is asked for on another one, of
    /// the same server and tool. Whether something had to be forgotten for what was read.
    pub(super) fn note_answer(
        &mut self,
        of: &Asked<'_>,
        answer: &Answer<'_>,
        spans: Spans,
        now: Timestamp,
    ) -> bool {
        let is_of = |call: &Call| *call.server == *of.server && call.id == *of.id;
        let is_tool = |call: &Call| answer.tool.is_none_or(|tool| *call.tool == *bounded(tool));
        let here = |call: &Call| is_of(call) && call.connection == of.connection;
        let elsewhere = |call: &Call| is_of(call) && call.is_of_tool() && is_tool(call);
        let found = self.waiting.iter().rposition(here).or_else(|| self.waiting.iter().rposition(elsewhere));
        let Some(found) = found else { return false };
        // What begins a task is no end: its data comes later.
        if !answer.has_data && !answer.is_failed {
            return false;
        }
        match self.waiting.remove(found) {
            Some(call) if answer.has_data => self.note_read(call, spans, now),
            _ => false,
        }
    }

    /// Answers of a connection were not seen: what waits for its data there may have it. Whether something had to be forgotten.
    pub(super) fn note_lost(&mut self, connection: ConnectionId, spans: Spans, now: Timestamp) -> bool {
        let (lost, waiting) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition::<VecDeque<Call>, _>(|call| call.connection == connection);
        self.waiting = waiting;
        let mut dropped = false;
        for call in lost {
            dropped |= self.note_read(call, spans, now);
        }
        dropped
    }

    /// What was read from other servers, newest first.
    pub(super) fn reads_elsewhere(&self, server: &str, counts: impl Fn(&Call) -> bool) -> Vec<&Call> {
        let others = self.newest_reads().filter(|call| *call.server != *server && counts(call));
        others.take(super::MAX_RELATED).collect()
    }

    /// What was read, newest first.
    fn newest_reads(&self) -> impl Iterator<Item = &Call> {
        self.reads.iter().rev().chain(self.old_reads.iter().rev())
    }

    /// Calls of a server's tools within a window, newest first. Takes a step for each call of any server that is passed over.
    pub(super) fn calls_of<'s>(
        &'s self,
        server: &str,
        window: Duration,
        now: Timestamp,
    ) -> impl Iterator<Item = &'s Call> {
        let recent = self.calls.iter().rev().take_while(move |call| call.is_within(window, now));
        recent.filter(move |call| *call.server == *server && call.is_of_tool())
    }

    #[cfg(test)]
    pub(super) fn records(&self) -> usize {
        self.calls.len() + self.waiting.len() + self.reads.len() + self.old_reads.len()
    }
}
