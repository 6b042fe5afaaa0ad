//! Queries of the engine's state, for metrics, for the operator's commands and for the gate. None changes anything.

use std::collections::BTreeMap;

use super::connection::{Connection, Stage};
use super::scope::Scope;
use super::{Counters, Engine, Parts, Traffic, WaitingTool};
use crate::config::Config;
use crate::discovery::Declared;
use crate::event::ServerType;
use crate::gate::{GateCaller, GateCompiler, GateError, GateSubject};
use crate::guard::TurnState;
use crate::guards::{CallBlock, Callee};
use crate::terms::{ConnectionId, ServerId, SessionId, Timestamp};

impl Engine {
    /// When [`Engine::tick`] has something to do next; `None` when nothing is waiting.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let ready = self.has_ready().then_some(Timestamp(0));
        [ready, self.timers.next(), self.folding.next()].into_iter().flatten().min()
    }

    /// What happened so far, in numbers.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The servers that the configuration declares as programs.
    pub fn declared(&self) -> &[Declared] {
        &self.config.declared
    }

    /// All that is counted, by name: those of the engine, `registry_…`, `guards_…`, and bounds of single guards.
    pub fn counters_by_name(&self) -> BTreeMap<String, u64> {
        let mut all = self.counters.to_map();
        all.extend(self.evaluator.counters());
        all
    }

    /// What there is, and what went by so far, of servers of a type. Takes a walk over all connections.
    pub fn traffic(&self, kind: ServerType) -> Traffic {
        self.connections.traffic(kind)
    }

    /// The servers that run, by connection.
    pub fn servers(&self) -> impl Iterator<Item = (ConnectionId, ServerId)> {
        self.connections.servers().map(|one| (one.id, one.server_id()))
    }

    /// How many clients have a server now: sessions. Takes a walk over all connections.
    pub fn sessions(&self) -> usize {
        self.connections.sessions()
    }

    /// The tools whose approval was requested and that nobody decided about, oldest first. A definition that its server
    /// has replaced since is none of them, unless it comes back.
    pub fn waiting(&self) -> impl Iterator<Item = WaitingTool> {
        self.evaluator.waiting(&self.connections)
    }

    /// The connections that the gate can judge: those of servers, from when they are first asked something on.
    pub fn gated(&self) -> impl Iterator<Item = ConnectionId> {
        let is_gated = |one: &&Connection| matches!(one.stage, Stage::Server) || one.is_pending();
        let servers = self.connections.values().filter(is_gated).map(|one| one.id);
        servers.chain(self.connections.refused_ids())
    }

    /// Whether a connection is a server's that there is no room for: its calls are undecided.
    pub fn is_refused(&self, id: ConnectionId) -> bool {
        self.connections.refused_caller(id).is_some()
    }

    /// Those that may soon be: programs of which a name or a declaration says that they are servers.
    pub fn soon_gated(&self) -> impl Iterator<Item = ConnectionId> {
        let is_named = |one: &&Connection| one.is_candidate() && !one.is_pending() && !one.is_unnamed();
        self.connections.values().filter(is_named).map(|one| one.id)
    }

    /// What the server of a connection is called, and what else: the rules of each of these names may restrict it.
    pub fn names(&self, id: ConnectionId) -> Vec<ServerId> {
        let Some(connection) = self.connections.get(id) else { return Vec::new() };
        std::iter::once(connection.server_id()).chain(connection.also().iter().cloned()).collect()
    }

    /// What makes tables of a policy.
    ///
    /// # Errors
    /// See [`GateCompiler::new`].
    pub fn gate_compiler(&self, config: &Config) -> Result<GateCompiler, GateError> {
        self.evaluator.gate_compiler(config)
    }

    /// Whose calls those of a connection are. `None`: there is no such connection.
    pub fn gate_caller(&self, id: ConnectionId) -> Option<GateCaller> {
        if let Some(caller) = self.connections.refused_caller(id) {
            return Some(caller.clone());
        }
        let Scope { session, server, .. } = self.connections.scope(id)?;
        let uid = self.connections.get(id)?.client.as_ref().and_then(|client| client.uid);
        Some(GateCaller { session, server, uid })
    }

    /// On how many connections that the gate can judge calls are made that are meant.
    pub fn connections_of(&self, callee: &Callee) -> usize {
        let scopes = self.connections.values().filter_map(|one| Some((one, self.connections.scope(one.id)?)));
        let is_meant = |(one, scope): &(&Connection, Scope)| {
            std::iter::once(&scope.server).chain(one.also()).any(|id| callee.is(id, &scope.session))
        };
        scopes.filter(is_meant).count()
    }

    /// What an operator blocks of a connection's calls.
    pub fn gate_block(&self, id: ConnectionId) -> Option<&CallBlock> {
        let Scope { session, server, .. } = self.connections.scope(id)?;
        self.evaluator.call_block((&server, self.connections.get(id)?.also()), &session)
    }

    /// What the guards know of a session's turn; `None`: none of them goes by turns, or there was none.
    pub fn gate_turn(&self, session: &SessionId) -> Option<TurnState> {
        self.evaluator.turn(session)
    }

    /// All that is known of the server and the client of a connection, and of every tool that is listed there or was before.
    /// `None`: there is no such connection. `now`: approvals that are over by then count no more.
    pub fn gate_subject(&mut self, id: ConnectionId, now: Timestamp) -> Option<GateSubject> {
        let mut nothing = Vec::new();
        let Parts { mut cx, ev, .. } = self.parts(&mut nothing);
        ev.gate_subject(&mut cx, id, now)
    }
}
