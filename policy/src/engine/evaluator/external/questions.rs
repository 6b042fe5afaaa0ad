//! The questions that guards others wrote have not answered, and which of these guards fail.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::super::Scope;
use crate::engine::question::GuardQuestion;
use crate::event::Trace;
use crate::guard::StandingDenial;
use crate::guard::external::DeniedSubject;
use crate::guards::Subjects;
use crate::terms::contract::GuardName;
use crate::terms::{Phase, ServerId, Timestamp};
use mcpwarden_terms::counters;

/// Most questions that are open at once, of all guards.
const MOST_OPEN: usize = 1_024;
/// Most bytes of their requests.
const MOST_BYTES: usize = 32 << 20;
/// Those of one user: a flood of calls must not keep others' from being judged.
const MOST_OF_USER: usize = 256;
const MOST_BYTES_OF_USER: usize = 8 << 20;
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
pub(in crate::engine) struct Open {
    pub(super) question: GuardQuestion,
    pub(super) subjects: Subjects,
    pub(super) scope: Scope,
    pub(super) jsonrpc_id: Option<Value>,
    pub(super) trace: Trace,
    pub(super) asked: Timestamp,
}

impl Open {
    pub(super) fn deadline(&self) -> Timestamp {
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

/// What was judged: by which guard, of which server, for which user, the hash of the definition. What is denied of one server is judged anew of another.
type Judged = (Arc<GuardName>, ServerId, Option<u32>, Arc<str>);

/// The questions, and what is known by their answers.
#[derive(Debug, Default)]
pub(in crate::engine) struct Questions {
    open: BTreeMap<Arc<str>, Open>,
    bytes: usize,
    /// Of each user who has some: how many, and their bytes.
    users: BTreeMap<Option<u32>, (usize, usize)>,
    /// Whether by the guard as it is configured now.
    judged: HashMap<Judged, bool>,
    /// The same, oldest first.
    judged_order: VecDeque<Judged>,
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
        let owner = open.scope.owner;
        let of_user = self.users.get(&owner).copied().unwrap_or_default();
        let is_user_full = of_user.0 >= MOST_OF_USER || of_user.1 + bytes > MOST_BYTES_OF_USER;
        let is_full = self.open.len() >= MOST_OPEN || self.bytes + bytes > MOST_BYTES;
        if bytes > MOST_REQUEST || is_user_full || is_full {
            self.counters.refused += 1;
            return Err(Box::new(open));
        }
        self.counters.asked += 1;
        self.bytes += bytes;
        self.users.insert(owner, (of_user.0 + 1, of_user.1 + bytes));
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
            Some(open) => {
                let bytes = open.question.request.operation.bytes();
                self.bytes -= bytes;
                if let Some((count, of_user)) = self.users.get_mut(&open.scope.owner) {
                    (*count, *of_user) = (*count - 1, *of_user - bytes);
                }
                self.users.retain(|_, (count, _)| *count > 0);
            }
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

    /// Gives up those to guards that are configured no more, and what these judged. What a guard judged that is another
    /// now (`is_same` is false) is asked about again, but not held until then.
    pub(in crate::engine) fn keep_of(
        &mut self,
        is_known: impl Fn(&GuardName) -> bool,
        is_same: impl Fn(&GuardName) -> bool,
    ) {
        let gone = self.open.iter().filter(|(_, open)| !is_same(&open.question.guard));
        let gone: Vec<Arc<str>> = gone.map(|(id, _)| Arc::clone(id)).collect();
        for id in gone {
            self.take(&id);
        }
        self.judged.retain(|(guard, ..), is_current| {
            *is_current &= is_same(guard);
            is_known(guard)
        });
        self.judged_order.retain(|(guard, ..)| is_known(guard));
        self.failing.retain(|guard, _| is_same(guard));
    }

    /// Whether a guard has judged a definition of a server. `None`: it has not; `Some(false)`: not as it is now.
    pub(super) fn judged(
        &self,
        guard: &Arc<GuardName>,
        (server, owner): (&ServerId, Option<u32>),
        hash: &Arc<str>,
    ) -> Option<bool> {
        self.judged.get(&(Arc::clone(guard), server.clone(), owner, Arc::clone(hash))).copied()
    }

    /// A guard has judged these definitions.
    pub(super) fn judge(&mut self, guard: &Arc<GuardName>, subjects: &Subjects) {
        if subjects.phase != Phase::ToolsList {
            return;
        }
        for (_, hash) in &subjects.tools {
            let one = (Arc::clone(guard), subjects.server.clone(), subjects.owner, Arc::clone(hash));
            if self.judged.insert(one.clone(), true).is_some() {
                continue;
            }
            self.judged_order.push_back(one);
            if self.judged_order.len() > MOST_JUDGED
                && let Some(oldest) = self.judged_order.pop_front()
            {
                self.counters.judged_forgotten += u64::from(self.judged.remove(&oldest).is_some());
            }
        }
    }

    /// What a denial of a definition said is forgotten: it is asked about again.
    pub(super) fn forget(&mut self, denial: &StandingDenial) {
        if let (DeniedSubject::Definition { hash, .. }, Some(server)) = (&denial.subject, &denial.server) {
            self.judged.remove(&(Arc::clone(&denial.guard), server.clone(), denial.owner, Arc::clone(hash)));
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
