//! Requests waiting for their answer, and answers that came before their request: one table for each connection
//! and direction.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use super::relays::{Fingerprint, HeldId, Link, LinkId};
use crate::protocol::IdKey;
use crate::registry::ItemKind;
use crate::terms::Timestamp;

/// What is known of a request until it is answered.
#[derive(Debug)]
pub(in crate::engine) struct Open {
    /// Distinguishes it from a later request with the same id.
    pub(in crate::engine) seq: u64,
    pub(in crate::engine) time: Timestamp,
    /// The id as it is recorded.
    pub(in crate::engine) id: Value,
    pub(in crate::engine) asked: Asked,
    /// What it asks for, if a relay may pass it on.
    pub(in crate::engine) fingerprint: Option<Fingerprint>,
    pub(in crate::engine) role: Role,
    /// Whether it was taken back.
    pub(in crate::engine) cancelled: bool,
}

/// What of a request its answer will be read with.
#[derive(Clone, Debug)]
pub(in crate::engine) enum Asked {
    Call {
        tool_name: Arc<str>,
    },
    /// A list that is compared with what was known; whether the request begins it (it has no cursor).
    List {
        kind: ItemKind,
        first: bool,
    },
    Initialize(Box<Client>),
    Other {
        method: Box<str>,
    },
}

impl Open {
    pub(in crate::engine) fn answered(&self) -> Answered<'_> {
        Answered { asked: &self.asked, id: &self.id, time: self.time }
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
        fixed + 2 * key.heap_bytes() + id + self.asked.heap_bytes()
    }
}

impl Asked {
    fn heap_bytes(&self) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        match self {
            Self::Call { tool_name } => tool_name.len(),
            Self::List { .. } => 0,
            Self::Initialize(client) => {
                let capabilities = client.capabilities.as_ref().map_or(0, |json| json.len());
                let names = length(&client.name) + length(&client.version) + length(&client.protocol_version);
                size_of::<Client>() + capabilities + names
            }
            Self::Other { method } => method.len(),
        }
    }

    pub(in crate::engine) fn method(&self) -> &str {
        match self {
            Self::Call { .. } => "tools/call",
            Self::List { kind: ItemKind::Tool, .. } => "tools/list",
            Self::List { kind: ItemKind::Prompt, .. } => "prompts/list",
            Self::List { .. } => "resources/templates/list",
            Self::Initialize(_) => "initialize",
            Self::Other { method } => method,
        }
    }
}

/// What an answer is an answer to.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Answered<'a> {
    pub(in crate::engine) asked: &'a Asked,
    /// The id of the request, as it is recorded.
    pub(in crate::engine) id: &'a Value,
    /// When it was asked.
    pub(in crate::engine) time: Timestamp,
}

/// What a client says of itself in `initialize`.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct Client {
    pub(in crate::engine) name: Option<String>,
    pub(in crate::engine) version: Option<String>,
    pub(in crate::engine) protocol_version: Option<String>,
    /// As JSON: read, it would be up to a hundred times as large.
    pub(in crate::engine) capabilities: Option<Box<str>>,
}

/// Where a request is reported, and so its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Role {
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
pub(in crate::engine) struct Early {
    pub(in crate::engine) key: IdKey,
    pub(in crate::engine) raw: String,
    pub(in crate::engine) bytes: u64,
    pub(in crate::engine) time: Timestamp,
    pub(in crate::engine) until: Timestamp,
}

/// Most requests that are remembered as answered: a client that drops an answer takes the next one with the same id. That
/// of an older one is an answer to nothing, and counted as such.
const ANSWERED: usize = 64;

/// The requests of one direction of one connection.
#[derive(Debug, Default)]
pub(in crate::engine) struct Pairing {
    open: HashMap<IdKey, Open>,
    /// Those that were answered last, oldest first.
    answered: VecDeque<(IdKey, Open)>,
    /// In order of arrival; what is no longer open is skipped.
    order: VecDeque<(u64, IdKey)>,
    early: VecDeque<Early>,
    bytes: usize,
    /// How many of those that are open were taken back.
    cancelled: usize,
    /// The last that was looked at for being late.
    late: u64,
}

impl Early {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.raw.len() + self.key.heap_bytes()
    }
}

impl Pairing {
    /// How many requests are unanswered.
    pub(in crate::engine) fn len(&self) -> usize {
        self.open.len()
    }

    /// How many of them are waited for.
    pub(in crate::engine) fn awaited(&self) -> usize {
        self.open.len() - self.cancelled
    }

    /// Nobody waits for the answer of this one any more. Which it is, if that is news.
    pub(in crate::engine) fn cancel(&mut self, key: &IdKey) -> Option<&Open> {
        let key = self.find(key)?;
        let open = self.open.get_mut(&key).filter(|open| !open.cancelled)?;
        open.cancelled = true;
        self.cancelled += 1;
        Some(open)
    }

    /// The first request that is waited for and was not looked at: of all before it was reported that they are late, or an
    /// answer came.
    pub(in crate::engine) fn next_late(&mut self, is_late: impl Fn(&Open) -> bool) -> Option<(bool, &Open)> {
        let start = self.order.partition_point(|(seq, _)| *seq <= self.late);
        for (seq, key) in self.order.range(start..) {
            let open = self.open.get(key).filter(|open| open.seq == *seq && !open.cancelled);
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
    pub(in crate::engine) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Opens a request. Gives back the one that had the same id, and the one that was put out for room.
    pub(in crate::engine) fn insert(
        &mut self,
        key: IdKey,
        open: Open,
        limit: usize,
    ) -> (Option<Open>, Option<Open>) {
        let reused = self.remove(&key);
        self.bytes += open.bytes(&key);
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

    /// Gives up the request that is open for longest.
    pub(in crate::engine) fn evict_oldest(&mut self) -> Option<Open> {
        while let Some((seq, key)) = self.order.pop_front() {
            if self.open.get(&key).is_some_and(|open| open.seq == seq) {
                return self.remove(&key);
            }
        }
        None
    }

    /// The key under which the request of this answer is open.
    pub(in crate::engine) fn find(&self, key: &IdKey) -> Option<IdKey> {
        if self.open.contains_key(key) {
            return Some(key.clone());
        }
        key.as_number().filter(|number| self.open.contains_key(number))
    }

    pub(in crate::engine) fn get_mut(&mut self, key: &IdKey) -> Option<&mut Open> {
        self.open.get_mut(key)
    }

    pub(in crate::engine) fn remove(&mut self, key: &IdKey) -> Option<Open> {
        let open = self.open.remove(key)?;
        self.bytes -= open.bytes(key);
        self.cancelled -= usize::from(open.cancelled);
        Some(open)
    }

    /// Remembers a request that was answered, in case another answer to it comes.
    pub(in crate::engine) fn keep_answered(&mut self, key: IdKey, open: Open) {
        if self.answered.len() >= ANSWERED
            && let Some((key, oldest)) = self.answered.pop_front()
        {
            self.bytes -= oldest.bytes(&key);
        }
        self.bytes += open.bytes(&key);
        self.answered.push_back((key, open));
    }

    /// Remembers no request that was answered.
    pub(in crate::engine) fn forget_answered(&mut self) {
        for (key, open) in std::mem::take(&mut self.answered) {
            self.bytes -= open.bytes(&key);
        }
    }

    /// The request with this id that was answered last.
    pub(in crate::engine) fn take_answered(&mut self, key: &IdKey) -> Option<(IdKey, Open)> {
        let number = key.as_number();
        let same = |(of, _): &(IdKey, Open)| of == key || Some(of) == number.as_ref();
        let (key, open) = self.answered.iter().rposition(same).and_then(|at| self.answered.remove(at))?;
        self.bytes -= open.bytes(&key);
        Some((key, open))
    }

    /// A request that asks for the same, was reported here since `since`, and of which no copy was seen.
    pub(in crate::engine) fn own_like(
        &mut self,
        fingerprint: &Fingerprint,
        since: Timestamp,
    ) -> Option<&mut Open> {
        let same = |open: &Open| open.role == Role::Own && open.fingerprint.as_ref() == Some(fingerprint);
        self.open.values_mut().filter(|open| open.time >= since && same(open)).min_by_key(|open| open.seq)
    }

    /// The answer to a request with this id, if it came already.
    pub(in crate::engine) fn take_early(&mut self, key: &IdKey) -> Option<Early> {
        if self.early.is_empty() {
            return None;
        }
        let found = |early: &Early| early.key == *key || early.key.as_number().as_ref() == Some(key);
        let early = self.early.iter().position(found).and_then(|at| self.early.remove(at))?;
        self.bytes -= early.bytes();
        Some(early)
    }

    /// Keeps an answer until its request comes, of at most `limit`. Whether there was room.
    pub(in crate::engine) fn keep_early(&mut self, early: Early, limit: usize) -> bool {
        if self.early.len() >= limit {
            return false;
        }
        self.bytes += early.bytes();
        self.early.push_back(early);
        true
    }

    /// Keeps an answer that was taken, until its request is reported.
    pub(in crate::engine) fn put_early_back(&mut self, early: Early) {
        self.bytes += early.bytes();
        // Where it was in time: those that are overdue first are the first.
        let at = self.early.partition_point(|other| other.until <= early.until);
        self.early.insert(at, early);
    }

    /// The next answer whose request did not come until `now`.
    pub(in crate::engine) fn overdue_early(&mut self, now: Timestamp) -> Option<Early> {
        let early = self.early.pop_front_if(|early| early.until <= now)?;
        self.bytes -= early.bytes();
        Some(early)
    }

    /// Everything that is open, for the end of a connection.
    pub(in crate::engine) fn into_open(self) -> impl Iterator<Item = Open> {
        self.open.into_values()
    }
}
