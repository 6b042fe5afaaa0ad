//! Relays: a server to one side and a client of the next that passes the same messages on.
//!
//! Connection B is *inner* to A when B's client is one of A's processes (or has one as a parent): A's server
//! started B's. A message from A's client is then held for a moment (250 ms) to see whether the same one goes
//! over B: then it is one call, said once, as B's with `via` A, in the words and at the time of A's client.
//! Where nothing comes, it is A's own. What is reported of no such pair is never merged: ten servers that get the
//! same first message are ten servers.
//!
//! Messages are the same when method and params are, as canonical JSON without `_meta` (a relay built on an SDK
//! has progress tokens of its own). Ids are each connection's own.
//!
//! A server in a container is a child of the engine's daemon, not of `docker run`: the two are found to belong
//! together by the first request that went over both.
//!
//! What goes the other way by itself, requests and notifications of a server, is reported once for each connection
//! it goes over: B's with `via` A, and A's.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::detect::Ahead;
use crate::engine::fingerprint::Fingerprint;
use crate::engine::ids::{HeldId, LinkId};
use crate::engine::pairing::Link;
use crate::engine::seen::Seen;
use crate::event::Trace;
use crate::protocol::IdKey;
use crate::terms::{ConnectionId, Timestamp};

/// One connection that a message went over.
#[derive(Clone, Debug)]
pub(super) struct Hop {
    pub(super) connection: ConnectionId,
    /// Of a request: under which it is open, and which of those with this id.
    pub(super) request: Option<(IdKey, u64)>,
}

/// A message that may be passed on.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) fingerprint: Fingerprint,
    /// Outermost first.
    pub(super) path: Vec<Hop>,
    /// As the outermost client sent it.
    pub(super) raw: String,
    pub(super) bytes: u64,
    pub(super) time: Timestamp,
    /// The trace that it belongs to.
    pub(super) trace: Trace,
    /// The turn of the model that it belongs to, where a recording names it.
    pub(super) turn: Option<Box<str>>,
    /// What was inspected ahead of it.
    pub(super) ahead: Option<Arc<Ahead>>,
}

/// All that is between connections.
#[derive(Debug, Default)]
pub(in crate::engine) struct Relays {
    held: BTreeMap<HeldId, Held>,
    held_bytes: usize,
    pub(in crate::engine) links: HashMap<LinkId, Link>,
    last: u64,
}

impl Relays {
    /// A number that was not used before.
    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(in crate::engine) fn count(&self) -> usize {
        self.held.len()
    }

    pub(in crate::engine) fn bytes(&self) -> usize {
        self.held_bytes
    }

    pub(super) fn hold(&mut self, held: Held) -> HeldId {
        let id = HeldId(self.next());
        self.held_bytes += held.raw.len();
        self.held.insert(id, held);
        id
    }

    pub(super) fn get_mut(&mut self, id: HeldId) -> Option<&mut Held> {
        self.held.get_mut(&id)
    }

    pub(super) fn take(&mut self, id: HeldId) -> Option<Held> {
        let held = self.held.remove(&id)?;
        self.held_bytes -= held.raw.len();
        Some(held)
    }

    /// The oldest held message that says the same and for which `fits` is true.
    pub(super) fn find(&self, fingerprint: &Fingerprint, fits: impl Fn(&Held) -> bool) -> Option<HeldId> {
        self.held.iter().find(|(_, held)| held.fingerprint == *fingerprint && fits(held)).map(|(id, _)| *id)
    }

    /// Held messages that went over this connection.
    pub(super) fn over(&self, connection: ConnectionId) -> Vec<HeldId> {
        let over = |held: &Held| held.path.iter().any(|hop| hop.connection == connection);
        self.held.iter().filter(|(_, held)| over(held)).map(|(id, _)| *id).collect()
    }

    /// Takes a message that turned out to be the outer one of a held one into it.
    pub(super) fn put_in_front(
        &mut self,
        id: HeldId,
        (hop, raw): (Hop, &str),
        seen: Seen<'_>,
        trace: Trace,
        ahead: Option<Arc<Ahead>>,
    ) {
        let Some(held) = self.held.get_mut(&id) else { return };
        self.held_bytes = self.held_bytes - held.raw.len() + raw.len();
        held.path.insert(0, hop);
        held.raw = raw.to_owned();
        (held.bytes, held.time, held.trace, held.ahead) = (seen.bytes, seen.time, trace, ahead);
    }

    /// One connection less will answer.
    pub(super) fn let_go(&mut self, id: LinkId) {
        if let Some(link) = self.links.get_mut(&id) {
            link.remaining = link.remaining.saturating_sub(1);
            if link.remaining == 0 {
                self.links.remove(&id);
            }
        }
    }
}
