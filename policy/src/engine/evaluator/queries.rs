//! What the gate is to know of a connection: the facts that guards are asked with, before anything is called. And what an
//! operator sets.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Connections, Context, Evaluator, ServerStanding, Topic};
use crate::config::Config;
use crate::engine::command::ProfileError;
use crate::event::{SessionProfile, SessionSet};
use crate::gate::{GateCompiler, GateError, GateSubject};
use crate::guard::TurnState;
use crate::guards::{CallBlock, ProfileChange};
use crate::registry::ItemKind;
use crate::terms::{ConnectionId, ServerId, SessionId, Timestamp};

impl Evaluator {
    /// What makes tables of a policy.
    ///
    /// # Errors
    /// See [`GateCompiler::new`].
    pub(in crate::engine) fn gate_compiler(&self, config: &Config) -> Result<GateCompiler, GateError> {
        GateCompiler::new(config, self.judge.detector().ok_or(GateError::NoGuards)?)
    }

    /// What an operator blocks of a session's calls to a server.
    pub(in crate::engine) fn call_block(
        &self,
        server: (&ServerId, &[ServerId]),
        session: &SessionId,
    ) -> Option<&CallBlock> {
        self.judge.call_block(server, session)
    }

    /// What the guards know of a session's turn; `None`: none of them goes by turns, or there was none.
    pub(in crate::engine) fn turn(&self, session: &SessionId) -> Option<TurnState> {
        self.judge.turn(session)
    }

    /// All that is known of the server and the client of a connection, and of every tool that is listed there or was before.
    /// `None`: there is no such connection.
    pub(in crate::engine) fn gate_subject(
        &mut self,
        cx: &mut Context<'_>,
        id: ConnectionId,
        now: Timestamp,
    ) -> Option<GateSubject> {
        let scope = cx.connections.scope(id)?;
        let connection = cx.connections.get(id)?;
        let mut names: Vec<Arc<str>> = connection.tools.keys().cloned().collect();
        // A client remembers lists, and calls at once when it is back.
        if let Some(key) = self.registry.key(id).cloned() {
            // A store that fails is reported elsewhere; what it does not tell is not listed.
            let pins = self.registry.pins(&key).unwrap_or_default();
            let tools = pins.into_keys().filter(|item| item.kind == ItemKind::Tool);
            names.extend(tools.map(|item| Arc::from(item.name)));
        }
        names.sort_unstable();
        names.dedup();
        let mut subject = self.with_facts(cx, &scope, Topic::default(), |_, facts| GateSubject {
            server: facts.server.clone(),
            also: facts.also.to_vec(),
            identity: facts.identity,
            enabled: facts.enabled,
            trust: facts.trust,
            listing: facts.listing,
            profile: facts.profile.clone(),
            tools: BTreeMap::new(),
            block: None,
            standing: facts.standing.to_vec(),
        })?;
        for name in names {
            let known = self.with_facts(cx, &scope, Topic::of(&name), |_, facts| facts.tool.cloned());
            if let Some(Some(mut known)) = known {
                self.approve_in_gate(cx, id, &mut known, now);
                subject.tools.insert(name, known);
            }
        }
        Some(subject)
    }

    /// What is declared of a connection's server.
    pub(in crate::engine) fn standing(&self, connections: &Connections, id: ConnectionId) -> ServerStanding {
        let server = connections.get(id).and_then(|connection| connection.server.as_ref());
        server.map(|server| self.judge.standing(server)).unwrap_or_default()
    }

    /// What the registry and the guards count, by name.
    pub(in crate::engine) fn counters(&self) -> BTreeMap<String, u64> {
        let registry = self.registry.counters().to_map().into_iter();
        let mut all: BTreeMap<String, u64> =
            registry.map(|(name, count)| (format!("registry_{name}"), count)).collect();
        all.extend(self.judge.counters());
        all
    }

    /// These blocks of calls are in force from now on, in place of those before.
    pub(in crate::engine) fn block_calls(&mut self, blocks: Vec<CallBlock>) {
        *self.judge.blocks_mut() = blocks.into();
    }

    /// Sets something of the profile of a session. What is to be reported of it.
    ///
    /// # Errors
    /// No server of such a session runs, or there is no room.
    pub(in crate::engine) fn set_profile(
        &mut self,
        connections: &Connections,
        session: &SessionId,
        change: ProfileChange,
        by: &str,
    ) -> Result<SessionSet, ProfileError> {
        let found = connections.of_session(session);
        let id = found.ok_or_else(|| ProfileError::NoSession(session.0.to_string()))?;
        let is_live = |session: &SessionId| connections.of_session(session).is_some();
        let (key, configured) = match &change {
            ProfileChange::Set(setting) => (setting.key(), false),
            ProfileChange::Reset(key) => (*key, true),
        };
        self.judge.sessions_mut().set(session, change, is_live)?;
        let entry = self.session_entry(connections, id);
        let profile: SessionProfile = self.judge.sessions_mut().profile_of(session, entry).view();
        Ok(SessionSet { key, configured, by: by.to_owned(), profile })
    }
}
