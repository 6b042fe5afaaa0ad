//! Requests waiting for their answer, and answers that came before their request: one table for each connection
//! and direction.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde_json::Value;

use super::asked::{Answered, Asked};
use super::conversation::Spoken;
use super::fingerprint::Fingerprint;
use super::ids::{HeldId, LinkId};
use super::rounds::Attempt;
use super::scope::Scope;
use super::seen::Reading;
use crate::detect::Ahead;
use crate::event::Trace;
use crate::protocol::{IdKey, Kind, Message};
use crate::terms::Timestamp;

/// What is known of a request until it is answered.
#[derive(Debug)]
pub(super) struct Open {
    /// Distinguishes it from a later request with the same id.
    pub(super) seq: u64,
    pub(super) time: Timestamp,
    /// The id as it is recorded.
    pub(super) id: Value,
    pub(super) asked: Asked,
    /// What it says of its conversation.
    pub(super) spoken: Spoken,
    pub(super) trace: Trace,
    /// What it asks for, if a relay may pass it on.
    pub(super) fingerprint: Option<Fingerprint>,
    pub(super) role: Role,
    /// Which of several tries it is.
    pub(super) attempt: Attempt,
    /// Whether it stays open by design: its answer is the end of a subscription.
    pub(super) is_standing: bool,
    /// Whether it was taken back.
    pub(super) cancelled: bool,
    /// Its first answer.
    pub(super) answer: Option<AnswerSeen>,
    /// What other readers take it for: its answer is the answer to each of them.
    pub(super) others: Vec<Self>,
}

/// Most of those.
const MAX_OTHERS: usize = 3;

/// What is kept of an answer, in case another one comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AnswerSeen {
    /// Of its result, or error.
    pub(super) digest: u64,
    /// Whether every client takes it: it is a result or an error, as JSON-RPC wants it.
    pub(super) is_taken: bool,
}

impl AnswerSeen {
    /// `same_id`: whether its id is that of the request, and not one that only some readers take for the same.
    pub(super) fn of(message: &Message<'_>, same_id: bool, reading: Reading<'_>) -> Self {
        let mut digest = DefaultHasher::new();
        let (body, is_answer) = match &message.kind {
            Kind::Response { id, result } => (result.get(), id.is_plain()),
            Kind::Error { id, is_regular, .. } => (message.raw, *is_regular && id.is_plain()),
            _ => (message.raw, false),
        };
        body.hash(&mut digest);
        let is_regular = message.versioned && message.repeated.is_none() && message.beside.is_none();
        // Half a pair of surrogates is an error to some readers.
        let is_text = !message.raw.contains("\\ud") && !message.raw.contains("\\uD");
        let is_taken = is_answer
            && same_id
            && is_regular
            && is_text
            && !reading.is_irregular
            && reading.respelled.is_none();
        Self { digest: digest.finish(), is_taken }
    }
}

impl Open {
    /// What each reader takes it for, that of the strictest first.
    pub(super) fn every_reading(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.others)
    }

    pub(super) fn answered(&self) -> Answered<'_> {
        Answered { asked: &self.asked, id: &self.id, time: self.time, attempt: &self.attempt }
    }

    /// Whether somebody waits for its answer.
    fn is_awaited(&self) -> bool {
        !self.cancelled && !self.is_standing
    }

    /// Memory that it takes under `key`, about: itself, its place in the order, its share of a link between relays.
    fn bytes(&self, key: &IdKey) -> usize {
        let id = match &self.id {
            Value::Number(_) | Value::Null | Value::Bool(_) => 0,
            Value::String(text) => text.len(),
            // Redacted, which is a small object.
            Value::Array(_) | Value::Object(_) => 512,
        };
        let fixed = size_of::<Self>() + size_of::<Link>() + 3 * size_of::<IdKey>();
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        // As it is, and with what a relay passes on.
        let trace = 2 * (length(&self.trace.traceparent) + length(&self.trace.tracestate));
        fixed
            + 2 * key.heap_bytes()
            + id
            + self.asked.heap_bytes()
            + self.spoken.heap_bytes()
            + self.attempt.heap_bytes()
            + trace
            + self.others.iter().map(|other| other.bytes(key)).sum::<usize>()
    }
}

/// What the answer to a relayed request is reported with.
#[derive(Debug)]
pub(super) struct Link {
    /// Whose it is: the innermost's.
    pub(super) scope: Scope,
    /// Of the outermost request, as it is recorded.
    pub(super) id: Value,
    pub(super) time: Timestamp,
    pub(super) asked: Asked,
    pub(super) attempt: Attempt,
    pub(super) trace: Trace,
    /// Connections that have not answered.
    pub(super) remaining: usize,
    /// What was answered first.
    pub(super) answer: Option<Fingerprint>,
}

/// Where a request is reported, and so its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Not yet: it may be passed on.
    Held(HeldId),
    /// As this connection's own.
    Own,
    /// As this connection's own; a copy was seen and left out.
    Copied,
    /// Nowhere: it is such a copy.
    Copy,
    /// Together with the same request on other connections.
    Relayed(LinkId),
}

/// An answer that was recorded before its request.
#[derive(Debug)]
pub(super) struct Early {
    pub(super) key: IdKey,
    pub(super) raw: String,
    pub(super) bytes: u64,
    pub(super) time: Timestamp,
    pub(super) until: Timestamp,
    /// What was inspected ahead of it.
    pub(super) ahead: Option<Arc<Ahead>>,
    /// Whether it was inspected already, as another answer to an earlier request with its id.
    pub(super) is_again: bool,
}

/// Most bytes of answers without a request that are still to be inspected: the connection may end, and nobody else gets a turn while they
/// are. More than a pipe full of requests is answered with by most servers.
const MAX_EARLY_BYTES: usize = 1 << 20;

/// Most requests that are remembered as answered: a client that drops an answer takes the next one with the same id. That
/// of an older one is an answer to nothing, and counted as such.
const ANSWERED: usize = 64;

/// The requests of one direction of one connection.
#[derive(Debug, Default)]
pub(super) struct Pairing {
    open: HashMap<IdKey, Open>,
    /// Those that were answered last, oldest first.
    answered: VecDeque<(IdKey, Open)>,
    /// In order of arrival; what is no longer open is skipped.
    order: VecDeque<(u64, IdKey)>,
    early: VecDeque<Early>,
    /// Bytes of those that are still to be inspected.
    early_bytes: usize,
    bytes: usize,
    /// How many of those that are open nobody waits for.
    unawaited: usize,
    /// The last that was looked at for being late.
    late: u64,
}

impl Early {
    fn bytes(&self) -> usize {
        let ahead = self.ahead.as_ref().map_or(0, |ahead| ahead.bytes());
        size_of::<Self>() + self.raw.len() + self.key.heap_bytes() + ahead
    }

    /// Bytes of it that are to be inspected if its request does not come.
    fn uninspected(&self) -> usize {
        if self.ahead.is_some() || self.is_again { 0 } else { self.raw.len() }
    }
}

impl Pairing {
    /// What the requests ask for that are open, or were answered a moment ago, by their ids.
    pub(super) fn asked(&self) -> impl Iterator<Item = (&IdKey, &Asked)> {
        let answered = self.answered.iter().map(|(key, open)| (key, open));
        answered.chain(&self.open).map(|(key, open)| (key, &open.asked))
    }

    /// What the requests ask for that are open.
    pub(super) fn open(&self) -> impl Iterator<Item = &Asked> {
        self.open.values().map(|open| &open.asked)
    }

    /// How many requests are unanswered.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// How many of them are waited for.
    pub(super) fn awaited(&self) -> usize {
        self.open.len() - self.unawaited
    }

    /// Nobody waits for the answer of this one any more. Which it is, if that is news.
    pub(super) fn cancel(&mut self, key: &IdKey) -> Option<&Open> {
        let key = self.find(key)?;
        let open = self.open.get_mut(&key).filter(|open| !open.cancelled)?;
        self.unawaited += usize::from(open.is_awaited());
        open.cancelled = true;
        Some(open)
    }

    /// The first request that is waited for and was not looked at: of all before it was reported that they are late, or an
    /// answer came.
    pub(super) fn next_late(&mut self, is_late: impl Fn(&Open) -> bool) -> Option<(bool, &Open)> {
        let start = self.order.partition_point(|(seq, _)| *seq <= self.late);
        for (seq, key) in self.order.range(start..) {
            let open = self.open.get(key).filter(|open| open.seq == *seq && open.is_awaited());
            let late = open.map(&is_late);
            if late != Some(false) {
                self.late = *seq;
            }
            if let Some(late) = late {
                return Some((late, open?));
            }
        }
        None
    }

    /// Memory that all of it takes, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Opens a request. Gives back the one that had the same id, and the one that was put out for room.
    pub(super) fn insert(&mut self, key: IdKey, open: Open, limit: usize) -> (Option<Open>, Option<Open>) {
        let reused = self.remove(&key);
        self.bytes += open.bytes(&key);
        self.unawaited += usize::from(!open.is_awaited());
        self.order.push_back((open.seq, key.clone()));
        self.open.insert(key, open);
        let mut evicted = None;
        while self.open.len() > limit {
            evicted = self.evict_oldest();
        }
        // One request without an answer at the front must not keep all those behind it.
        if self.order.len() > 2 * self.open.len() + 64 {
            let open = &self.open;
            self.order.retain(|(seq, key)| open.get(key).is_some_and(|open| open.seq == *seq));
        }
        (reused, evicted)
    }

    /// Remembers what another reader takes an open request for, which has this number.
    pub(super) fn add_other(&mut self, key: &IdKey, seq: u64, other: Open) {
        let is_more = |open: &Open| {
            open.seq == seq && !open.asked.is_like(&other.asked) && open.others.len() < MAX_OTHERS
        };
        if let Some(open) = self.open.get_mut(key).filter(|open| is_more(open)) {
            self.bytes += other.bytes(key);
            open.others.push(other);
        }
    }

    /// Gives up the request that is open for longest.
    pub(super) fn evict_oldest(&mut self) -> Option<Open> {
        while let Some((seq, key)) = self.order.pop_front() {
            if self.open.get(&key).is_some_and(|open| open.seq == seq) {
                return self.remove(&key);
            }
        }
        None
    }

    /// The key under which the request of this answer is open.
    pub(super) fn find(&self, key: &IdKey) -> Option<IdKey> {
        if self.open.contains_key(key) {
            return Some(key.clone());
        }
        key.of_other_type().filter(|number| self.open.contains_key(number))
    }

    pub(super) fn get_mut(&mut self, key: &IdKey) -> Option<&mut Open> {
        self.open.get_mut(key)
    }

    /// Notes which of several tries a request is, and which of those with this id it is by its number.
    pub(super) fn set_attempt(&mut self, key: &IdKey, seq: u64, attempt: Attempt) {
        if let Some(open) = self.open.get_mut(key).filter(|open| open.seq == seq) {
            self.bytes += attempt.heap_bytes();
            self.bytes -= open.attempt.heap_bytes();
            open.attempt = attempt;
        }
    }

    /// Ends a request that stays open by design. Whether it was one.
    pub(super) fn end_standing(&mut self, key: &IdKey) -> bool {
        let standing = self.find(key).filter(|key| self.open.get(key).is_some_and(|open| open.is_standing));
        standing.and_then(|key| self.remove(&key)).is_some()
    }

    pub(super) fn remove(&mut self, key: &IdKey) -> Option<Open> {
        let open = self.open.remove(key)?;
        self.bytes -= open.bytes(key);
        self.unawaited -= usize::from(!open.is_awaited());
        Some(open)
    }

    /// Remembers a request that was answered, in case another answer to it comes.
    pub(super) fn keep_answered(&mut self, key: IdKey, open: Open) {
        if self.answered.len() >= ANSWERED
            && let Some((key, oldest)) = self.answered.pop_front()
        {
            self.bytes -= oldest.bytes(&key);
        }
        self.bytes += open.bytes(&key);
        self.answered.push_back((key, open));
    }

    /// The trace of the request with this id, if it is open or was answered a moment ago.
    pub(super) fn trace(&self, key: &IdKey) -> Trace {
        let open = self.find(key).and_then(|key| self.open.get(&key));
        let number = key.of_other_type();
        let same = |(of, _): &&(IdKey, Open)| of == key || Some(of) == number.as_ref();
        let answered = || self.answered.iter().rev().find(same).map(|(_, open)| open);
        open.or_else(answered).map(|open| open.trace.clone()).unwrap_or_default()
    }

    /// Remembers no request that was answered.
    pub(super) fn forget_answered(&mut self) {
        for (key, open) in std::mem::take(&mut self.answered) {
            self.bytes -= open.bytes(&key);
        }
    }

    /// The request with this id that was answered last.
    pub(super) fn take_answered(&mut self, key: &IdKey) -> Option<(IdKey, Open)> {
        let number = key.of_other_type();
        let same = |(of, _): &(IdKey, Open)| of == key || Some(of) == number.as_ref();
        let (key, open) = self.answered.iter().rposition(same).and_then(|at| self.answered.remove(at))?;
        self.bytes -= open.bytes(&key);
        Some((key, open))
    }

    /// A request that asks for the same, was reported here since `since`, and of which no copy was seen.
    pub(super) fn own_like(&mut self, fingerprint: &Fingerprint, since: Timestamp) -> Option<&mut Open> {
        let same = |open: &Open| open.role == Role::Own && open.fingerprint.as_ref() == Some(fingerprint);
        self.open.values_mut().filter(|open| open.time >= since && same(open)).min_by_key(|open| open.seq)
    }

    /// The answer to a request with this id, if it came already.
    pub(super) fn take_early(&mut self, key: &IdKey) -> Option<Early> {
        if self.early.is_empty() {
            return None;
        }
        let found = |early: &Early| early.key == *key || early.key.of_other_type().as_ref() == Some(key);
        let early = self.early.iter().position(found).and_then(|at| self.early.remove(at))?;
        Some(self.taken(early))
    }

    /// Keeps an answer until its request comes, of at most `limit`. Whether there was room.
    pub(super) fn keep_early(&mut self, early: Early, limit: usize) -> bool {
        if self.early.len() >= limit {
            return false;
        }
        self.bytes += early.bytes();
        self.early_bytes += early.uninspected();
        self.early.push_back(early);
        true
    }

    /// Keeps an answer that was taken, until its request is reported.
    pub(super) fn put_early_back(&mut self, early: Early) {
        self.bytes += early.bytes();
        self.early_bytes += early.uninspected();
        // Where it was in time: those that are overdue first are the first.
        let at = self.early.partition_point(|other| other.until <= early.until);
        self.early.insert(at, early);
    }

    /// The next answer whose request did not come until `now`.
    pub(super) fn overdue_early(&mut self, now: Timestamp) -> Option<Early> {
        let early = self.early.pop_front_if(|early| early.until <= now)?;
        Some(self.taken(early))
    }

    /// The oldest, where more waits to be inspected than may be at once.
    pub(super) fn crowded_early(&mut self) -> Option<Early> {
        if self.early_bytes <= MAX_EARLY_BYTES {
            return None;
        }
        let first = self.early.iter().position(|early| early.uninspected() > 0)?;
        let early = self.early.remove(first)?;
        Some(self.taken(early))
    }

    /// An answer waits no more.
    fn taken(&mut self, early: Early) -> Early {
        self.bytes -= early.bytes();
        self.early_bytes -= early.uninspected();
        early
    }

    /// Everything that is open, for the end of a connection.
    pub(super) fn into_open(self) -> impl Iterator<Item = Open> {
        self.open.into_values()
    }
}
