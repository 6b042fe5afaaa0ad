//! The kinds of connections that the gate has to know, and which connection is of which kind.

use std::collections::{BTreeMap, BTreeSet};

use mcpwarden_abi as abi;
use mcpwarden_client::listing as own;
use mcpwarden_policy::{
    ConnectionId, Engine,
    config::GuardEntry,
    gate::{GateCaller, GateSubject, MOST_SUBJECTS, NO_SUBJECT},
    guard::Listing,
    http::LINK,
};

use crate::{
    config::{Config, StdioEnforcement},
    host::clock::Clock,
};

/// Most kinds of connections that are in the table before they are judged.
const SOON: usize = 64;

/// A connection that is judged.
#[derive(Clone)]
pub struct Judged {
    /// Which kind it is of; [`abi::GATE_NOBODY`]: it is judged only while it is blocked.
    pub kind: u32,
    /// Which kind while it is blocked by hand, and until when; nanoseconds since boot.
    pub blocked: Option<(u32, u64)>,
    /// Whose calls its calls are.
    pub caller: GateCaller,
    /// How its messages are framed: [`abi::GATE_LINES`] or [`abi::GATE_HTTP`].
    pub framing: u32,
}

impl Judged {
    /// What one is that carries these messages and those: of servers that the gate tells apart by their connections, nobody can tell
    /// which of them a request is sent to.
    fn or(mut self, other: Self) -> Self {
        if self.kind != other.kind {
            self.kind = NO_SUBJECT;
        }
        self.blocked = self.blocked.or(other.blocked);
        self
    }
}

/// All connections that are judged, by kind.
pub struct Subjects {
    /// The kinds, by number.
    pub kinds: Vec<GateSubject>,
    /// The connections. A kind is [`NO_SUBJECT`] where there are more kinds than the table has capacity for.
    pub members: BTreeMap<ConnectionId, Judged>,
}

impl Subjects {
    /// The connections of now. Where nothing is enforced, only those that are blocked by hand are judged. `inherited`: the
    /// connections that an agent before judged; those that have ended are removed. `streams`: the connections that carry the messages of one
    /// that speaks HTTP.
    pub fn of(
        config: &Config,
        engine: &mut Engine,
        clock: &Clock,
        inherited: &mut BTreeSet<ConnectionId>,
        streams: impl Fn(ConnectionId) -> Vec<ConnectionId>,
    ) -> Self {
        let is_enforcing = config.enforcement.stdio != StdioEnforcement::Observe;
        let mut subjects = Self { kinds: Vec::new(), members: BTreeMap::new() };
        let is_holding = config.guards.iter().any(GuardEntry::holds_tools);
        for (id, is_gated) in connections(engine, inherited) {
            if !is_gated && (subjects.kinds.len() >= MOST_SUBJECTS || !is_enforcing) {
                break;
            }
            let block = engine.gate_block(id).cloned();
            if !is_enforcing && block.is_none() {
                continue;
            }
            let Some(caller) = engine.gate_caller(id) else { continue };
            if engine.is_refused(id) {
                if is_enforcing {
                    let judged = Judged { kind: NO_SUBJECT, blocked: None, caller, framing: abi::GATE_LINES };
                    subjects.judge(id, judged, &streams);
                }
                continue;
            }
            let Some(mut kind) = engine.gate_subject(id, clock.now()) else { continue };
            if !config.policy.fail_closed {
                // Each server that has not listed its tools yet would be one of its kind, and no guard tells them apart then:
                // those that hold tools hold what is not listed in any case, and the others do not evaluate it.
                kind.listing = match kind.listing {
                    Listing::Pending { .. } | Listing::Listed if is_holding => Listing::Listed,
                    _ => Listing::Unknown,
                };
            }
            let blocked = block.map(|block| {
                let until = block.until.map_or(u64::MAX, |until| clock.boot(until));
                (number_of(kind.blocked(&block), &mut subjects.kinds), until)
            });
            let kind = if is_enforcing { number_of(kind, &mut subjects.kinds) } else { abi::GATE_NOBODY };
            if is_gated {
                subjects.judge(id, Judged { kind, blocked, caller, framing: abi::GATE_LINES }, &streams);
            }
        }
        subjects
    }
}

impl Subjects {
    /// Adds a connection, or those that carry its messages.
    fn judge(
        &mut self,
        id: ConnectionId,
        judged: Judged,
        streams: impl Fn(ConnectionId) -> Vec<ConnectionId>,
    ) {
        if id.0 & LINK == 0 {
            self.members.insert(id, judged);
            return;
        }
        for stream in streams(id) {
            let judged = Judged { framing: abi::GATE_HTTP, ..judged.clone() };
            let judged = match self.members.remove(&stream) {
                Some(other) => other.or(judged),
                None => judged,
            };
            self.members.insert(stream, judged);
        }
    }

    /// The number of a kind, which is added where it is not there; [`NO_SUBJECT`] where there is no capacity.
    pub fn number_of(&mut self, kind: GateSubject) -> u32 {
        number_of(kind, &mut self.kinds)
    }
}

/// The connections whose kinds are to be in the table, and whether they are judged already: those come first.
fn connections(engine: &Engine, inherited: &mut BTreeSet<ConnectionId>) -> Vec<(ConnectionId, bool)> {
    let is_foreign = |id: &ConnectionId| !own::is_own(*id);
    let mut gated: Vec<ConnectionId> = engine.gated().filter(is_foreign).collect();
    // That these are servers was known before this agent was.
    inherited.retain(|id| engine.gate_caller(*id).is_some());
    gated.extend(inherited.iter());
    gated.sort_unstable();
    gated.dedup();
    let soon = engine.soon_gated().filter(is_foreign).take(SOON);
    gated.into_iter().map(|id| (id, true)).chain(soon.map(|id| (id, false))).collect()
}

/// The number of a kind among `kinds`, to which it is added; [`NO_SUBJECT`] where there is no capacity.
fn number_of(kind: GateSubject, kinds: &mut Vec<GateSubject>) -> u32 {
    let index = match kinds.iter().position(|known| *known == kind) {
        Some(index) => Some(index),
        None if kinds.len() >= MOST_SUBJECTS => None,
        None => {
            kinds.push(kind);
            Some(kinds.len() - 1)
        }
    };
    index.and_then(|index| u32::try_from(index).ok()).unwrap_or(NO_SUBJECT)
}
