//! The questions that guards others wrote have not answered, and which of these guards fail.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::super::Scope;
use crate::engine::question::GuardQuestion;
use crate::event::Trace;
use crate::guards::Subjects;
use crate::terms::contract::GuardName;
use crate::terms::{Phase, Timestamp};
use mcpwarden_terms::counters;

/// Most questions that are open at once, of all guards.
const MOST_OPEN: usize = 1_024;
/// Most bytes of their requests.
const MOST_BYTES: usize = 32 << 20;
/// Largest of them. Bytes.
const MOST_REQUEST: usize = 4 << 20;
/// Most definitions of which it is known that a guard judged them, of all guards.
const MOST_JUDGED: usize = 65_536;
/// How much longer than its time-out an answer is waited for: whoever asks counts the time itself.
const GRACE: Duration = Duration::from_secs(1);

counters! { QuestionCounters {
    /// Questions to guards that others wrote.
    asked,
    /// Answers that allow.
    allowed,
    /// Answers that deny.
    denied,
    /// Answers that change something.
    modified,
    /// Questions without an answer in time.
    timed_out,
    /// Questions without an answer otherwise.
    failed,
    /// Questions that were not put, for want of room.
    refused,
    /// Answers that nobody waited for.
    unexpected,
    /// Definitions that no longer count as judged, for want of room.
    judged_forgotten,
}}

/// A question that is open.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) question: GuardQuestion,
    pub(super) subjects: Subjects,
    pub(super) scope: Scope,
    pub(super) jsonrpc_id: Option<Value>,
    pub(super) trace: Trace,
    pub(super) asked: Timestamp,
}

impl Open {
    fn deadline(&self) -> Timestamp {
        self.asked.after(self.question.timeout + GRACE)
    }
}

/// Whether a guard fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// It does now, and did not.
    Fails,
    /// It answers again, after so many failures.
    Recovers(u64),
    /// Nothing is new.
    Same,
}

/// The questions, and what is known by their answers.
#[derive(Debug, Default)]
pub(in crate::engine) struct Questions {
    open: BTreeMap<Arc<str>, Open>,
    bytes: usize,
    judged: HashSet<(Arc<GuardName>, Arc<str>)>,
    /// The same, oldest first.
    judged_order: VecDeque<(Arc<GuardName>, Arc<str>)>,
    /// Guards that fail, and how often in a row.
    failing: BTreeMap<Arc<GuardName>, u64>,
    pub(in crate::engine) counters: QuestionCounters,
}

impl Questions {
    /// Opens a question, of which [`Self::is_open`] is false.
    ///
    /// # Errors
    /// There is no room: the question comes back. It is counted.
    pub(super) fn open(&mut self, open: Open) -> Result<(), Box<Open>> {
        let bytes = open.question.request.operation.bytes();
        if bytes > MOST_REQUEST || self.open.len() >= MOST_OPEN || self.bytes + bytes > MOST_BYTES {
            self.counters.refused += 1;
            return Err(Box::new(open));
        }
        self.counters.asked += 1;
        self.bytes += bytes;
        self.open.insert(Arc::clone(&open.question.id), open);
        Ok(())
    }

    /// Whether a question is open.
    pub(super) fn is_open(&self, id: &str) -> bool {
        self.open.contains_key(id)
    }

    /// Takes a question that is answered.
    pub(super) fn take(&mut self, id: &str) -> Option<Open> {
        let open = self.open.remove(id);
        match &open {
            Some(open) => self.bytes -= open.question.request.operation.bytes(),
            None => self.counters.unexpected += 1,
        }
        open
    }

    /// The questions whose time is over.
    pub(super) fn expired(&self, now: Timestamp) -> Vec<Arc<str>> {
        let over = self.open.iter().filter(|(_, open)| open.deadline() <= now);
        over.map(|(id, _)| Arc::clone(id)).collect()
    }

    /// When the time of one is over next.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.open.values().map(Open::deadline).min()
    }

    /// Gives up those to guards that are configured no more, and what these judged.
    pub(in crate::engine) fn keep_of(&mut self, is_kept: impl Fn(&GuardName) -> bool) {
        self.open.retain(|_, open| is_kept(&open.question.guard));
        self.bytes = self.open.values().map(|open| open.question.request.operation.bytes()).sum();
        self.judged.retain(|(guard, _)| is_kept(guard));
        self.judged_order.retain(|(guard, _)| is_kept(guard));
        self.failing.retain(|guard, _| is_kept(guard));
    }

    /// Whether a guard has judged a definition.
    pub(super) fn is_judged(&self, guard: &Arc<GuardName>, hash: &Arc<str>) -> bool {
        self.judged.contains(&(Arc::clone(guard), Arc::clone(hash)))
    }

    /// A guard has judged these definitions.
    pub(super) fn judge(&mut self, guard: &Arc<GuardName>, subjects: &Subjects) {
        if subjects.phase != Phase::ToolsList {
            return;
        }
        for (_, hash) in &subjects.tools {
            let one = (Arc::clone(guard), Arc::clone(hash));
            if !self.judged.insert(one.clone()) {
                continue;
            }
            self.judged_order.push_back(one);
            if self.judged_order.len() > MOST_JUDGED
                && let Some(oldest) = self.judged_order.pop_front()
            {
                self.judged.remove(&oldest);
                self.counters.judged_forgotten += 1;
            }
        }
    }

    /// Takes down whether a guard answered.
    pub(super) fn heard(&mut self, guard: &Arc<GuardName>, answered: bool) -> Health {
        if answered {
            return self.failing.remove(guard).map_or(Health::Same, Health::Recovers);
        }
        let failures = self.failing.entry(Arc::clone(guard)).or_default();
        *failures += 1;
        if *failures == 1 { Health::Fails } else { Health::Same }
    }
}
