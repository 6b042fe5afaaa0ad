//! Requests waiting for their answer, and answers that came before their request: one table for each connection
//! and direction.

use std::collections::{HashMap, VecDeque};

use super::relay::{Fingerprint, HeldId, LinkId};
use crate::ids::Timestamp;
use crate::protocol::IdKey;

/// What is known of a request until it is answered.
#[derive(Debug)]
pub(super) struct Open {
    /// Distinguishes it from a later request with the same id.
    pub(super) seq: u64,
    pub(super) time: Timestamp,
    /// The id as it was sent.
    pub(super) id: Box<str>,
    pub(super) asked: Asked,
    /// What it asks for, if a relay may pass it on.
    pub(super) fingerprint: Option<Fingerprint>,
    pub(super) role: Role,
}

/// What of a request its answer will be read with.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    Call { tool_name: String },
    ToolsList,
    Initialize(Box<Client>),
    Other { method: Box<str> },
}

impl Asked {
    pub(super) fn method(&self) -> &str {
        match self {
            Self::Call { .. } => "tools/call",
            Self::ToolsList => "tools/list",
            Self::Initialize(_) => "initialize",
            Self::Other { method } => method,
        }
    }
}

/// What a client says of itself in `initialize`.
#[derive(Clone, Debug, Default)]
pub(super) struct Client {
    pub(super) name: Option<String>,
    pub(super) version: Option<String>,
    pub(super) protocol_version: Option<String>,
    pub(super) capabilities: serde_json::Value,
}

/// Where a request is said, and so its answer.
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
}

/// The requests of one direction of one connection.
#[derive(Debug, Default)]
pub(super) struct Pairing {
    open: HashMap<IdKey, Open>,
    /// In order of arrival; what is no longer open is skipped.
    order: VecDeque<(u64, IdKey)>,
    pub(super) early: VecDeque<Early>,
}

impl Pairing {
    /// How many requests are unanswered.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// Opens a request. Gives back the one that had the same id, and the one that was put out for room.
    pub(super) fn insert(&mut self, key: IdKey, open: Open, limit: usize) -> (Option<Open>, Option<Open>) {
        self.order.push_back((open.seq, key.clone()));
        let reused = self.open.insert(key, open);
        let mut evicted = None;
        while self.open.len() > limit {
            let Some((seq, key)) = self.order.pop_front() else { break };
            if self.open.get(&key).is_some_and(|open| open.seq == seq) {
                evicted = self.open.remove(&key);
            }
        }
        // One request without an answer at the front must not keep all those behind it.
        if self.order.len() > 2 * self.open.len() + 64 {
            let open = &self.open;
            self.order.retain(|(seq, key)| open.get(key).is_some_and(|open| open.seq == *seq));
        }
        (reused, evicted)
    }

    /// The key under which the request of this answer is open.
    pub(super) fn find(&self, key: &IdKey) -> Option<IdKey> {
        if self.open.contains_key(key) {
            return Some(key.clone());
        }
        key.as_number().filter(|number| self.open.contains_key(number))
    }

    pub(super) fn get_mut(&mut self, key: &IdKey) -> Option<&mut Open> {
        self.open.get_mut(key)
    }

    pub(super) fn remove(&mut self, key: &IdKey) -> Option<Open> {
        self.open.remove(key)
    }

    /// A request that asks for the same, was said here, and of which no copy was seen.
    pub(super) fn own_like(&mut self, fingerprint: &Fingerprint) -> Option<&mut Open> {
        self.open
            .values_mut()
            .filter(|open| open.role == Role::Own && open.fingerprint.as_ref() == Some(fingerprint))
            .min_by_key(|open| open.seq)
    }

    /// The answer to a request with this id, if it came already.
    pub(super) fn take_early(&mut self, key: &IdKey) -> Option<Early> {
        if self.early.is_empty() {
            return None;
        }
        let found = |early: &Early| early.key == *key || early.key.as_number().as_ref() == Some(key);
        self.early.iter().position(found).and_then(|at| self.early.remove(at))
    }

    /// Everything that is open, for the end of a connection.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Open> + '_ {
        self.order.clear();
        self.open.drain().map(|(_, open)| open)
    }
}
