//! What the gate is to know of a connection: the facts that guards are asked with, before anything is called. And what it
//! stopped.

use std::sync::Arc;

use super::connection::{Connection, Stage};
use super::io::Output;
use super::traffic::Seen;
use super::{Engine, Place};
use crate::config::Config;
use crate::event::{GateDecided, ServerType};
use crate::gate::{GateCaller, GateCompiler, GateError, GateSubject};
use crate::guard::{TurnState, Verdict};
use crate::guards::{CallBlock, Callee};
use crate::registry::ItemKind;
use crate::terms::{ConnectionId, SessionId, Timestamp};

/// What became of a frame that the gate stopped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    /// Nothing of it reached its server: nobody answers.
    pub(super) is_refused: bool,
    /// It is the only message of its frame.
    is_alone: bool,
}

impl Stop {
    /// Whether the gate stopped a message of that frame, of which the guards say this. Of several that were spoilt one by
    /// one, those were that the guards deny, too.
    pub(super) fn stops(self, verdict: &Verdict) -> bool {
        self.is_refused || self.is_alone || verdict.denied.is_some()
    }
}

impl Engine {
    /// A frame that the gate stopped: said as any other, and never passed on by a relay.
    pub(super) fn stopped_frame(
        &mut self,
        seen: Seen,
        bytes: &[u8],
        is_refused: bool,
        out: &mut Vec<Output>,
    ) {
        let is_alone = bytes.first() != Some(&b'[');
        self.stop = Some(Stop { is_refused, is_alone });
        self.frame(seen, bytes, out);
        self.stop = None;
    }

    /// What the gate did to a write of a connection.
    pub(super) fn gate_decided(
        &mut self,
        id: ConnectionId,
        time: Timestamp,
        decided: GateDecided,
        out: &mut Vec<Output>,
    ) {
        let limits = &self.config.limits;
        if let Some(pending) = self.connections.get_mut(&id).filter(|connection| connection.is_pending()) {
            if pending.keep_decided(time, decided.clone(), limits) {
                return;
            }
            self.start(id, time, time, out);
        }
        self.say_of(id, time, decided, out);
    }

    /// The connections that the gate can judge: those of servers that are spoken to over stdio, from when they are first
    /// asked something on.
    pub fn gated(&self) -> impl Iterator<Item = ConnectionId> {
        let is_gated = |one: &&Connection| matches!(one.stage, Stage::Server) || one.is_pending();
        self.of_stdio().filter(is_gated).map(|one| one.id)
    }

    /// Those that may soon be: programs of which a name or a declaration says that they are servers.
    pub fn soon_gated(&self) -> impl Iterator<Item = ConnectionId> {
        let is_named = |one: &&Connection| one.is_candidate() && !one.is_pending() && !one.is_unnamed();
        self.of_stdio().filter(is_named).map(|one| one.id)
    }

    /// Whether there may be more of either since this was last asked, of which no event tells.
    pub fn gate_expects(&mut self) -> bool {
        std::mem::take(&mut self.expects)
    }

    fn of_stdio(&self) -> impl Iterator<Item = &Connection> {
        self.connections.values().filter(|one| one.kind() == ServerType::Stdio)
    }

    /// What makes tables of a policy.
    ///
    /// # Errors
    /// See [`GateCompiler::new`].
    pub fn gate_compiler(&self, config: &Config) -> Result<GateCompiler, GateError> {
        GateCompiler::new(config, self.judge.detector().ok_or(GateError::NoGuards)?)
    }

    /// Whose calls those of a connection are. `None`: there is no such connection.
    pub fn gate_caller(&self, id: ConnectionId) -> Option<GateCaller> {
        let Place { session, server, .. } = self.place(id)?;
        let uid = self.connections.get(&id)?.client.as_ref().and_then(|client| client.uid);
        Some(GateCaller { session, server, uid })
    }

    /// On how many connections over stdio calls are made that are meant.
    pub fn connections_of(&self, callee: &Callee) -> usize {
        let places = self.of_stdio().filter_map(|one| self.place(one.id));
        places.filter(|place| callee.is(&place.server, &place.session)).count()
    }

    /// What an operator blocks of a connection's calls.
    pub fn gate_block(&self, id: ConnectionId) -> Option<&CallBlock> {
        let Place { session, server, .. } = self.place(id)?;
        self.judge.call_block(&server, &session)
    }

    /// What the guards know of a session's turn; `None`: none of them goes by turns, or there was none.
    pub fn gate_turn(&self, session: &SessionId) -> Option<TurnState> {
        self.judge.turn(session)
    }

    /// All that is known of the server and the client of a connection, and of every tool that is listed there or remembered.
    /// `None`: there is no such connection.
    pub fn gate_subject(&mut self, id: ConnectionId) -> Option<GateSubject> {
        let place = self.place(id)?;
        let connection = self.connections.get(&id)?;
        let mut names: Vec<Arc<str>> = connection.tools.keys().cloned().collect();
        // A client remembers lists, and calls at once when it is back.
        if let Some(key) = self.registry.key(id).cloned() {
            // A store that fails says so elsewhere; what it does not tell is not listed.
            let pins = self.registry.pins(&key).unwrap_or_default();
            let tools = pins.into_keys().filter(|item| item.kind == ItemKind::Tool);
            names.extend(tools.map(|item| Arc::from(item.name)));
        }
        names.sort_unstable();
        names.dedup();
        let mut subject = self.with_facts(&place, None, |_, facts| GateSubject {
            server: facts.server.clone(),
            identity: facts.identity,
            enabled: facts.enabled,
            trust: facts.trust,
            listing: facts.listing,
            profile: facts.profile.clone(),
            tools: std::collections::BTreeMap::new(),
            block: None,
        })?;
        for name in names {
            if let Some(Some(known)) = self.with_facts(&place, Some(&name), |_, facts| facts.tool.cloned()) {
                subject.tools.insert(name, known);
            }
        }
        Some(subject)
    }
}
