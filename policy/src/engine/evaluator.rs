//! Puts what goes by before the guards, with the facts about it, and reports what they decided.
//!
//! What is evaluated here has passed by then: `enforced` is true of what the gate stopped, and is known in time.

mod answers;
mod approvals;
mod decisions;
mod definitions;
mod entries;
mod external;
mod held;
mod inputs;
mod inspection;
mod intents;
mod interfaces;
mod judge;
mod limited;
mod listing;
mod muted;
mod public;
mod queries;
mod requests;
mod rounds;
mod tasks;
mod ui;
mod unlisted;
mod verdict;

pub use approvals::WaitingTool;
pub(super) use entries::{as_all_read, beside_entries, listed_entries};
pub(super) use inspection::find_repeated;
pub use judge::{Judge, ServerStanding};

use std::borrow::Cow;
use std::sync::Arc;

use super::config::EngineConfig;
use super::connection::Connection;
use super::connections::Connections;
use super::context::Context;
use super::reporter::{About, Reporter};
use super::rounds::Rounds;
use super::scope::Scope;
use super::seen::Seen;
use super::tasks::Tasks;
use crate::classify::Told;
use crate::detect::{DefinitionCache, ToolNames};
use crate::event::{Detection, Identity};
use crate::guard::{Conditions, Facts, Listing, Operation, Refusal, ToolFacts, Trust, Verdict};
use crate::guards::{Client, Executor, Question};
use crate::mutes::{MuteSubject, MutesOf};
use crate::protocol::{members, respell, string};
use crate::registry::{MemoryStore, Peer, Registry, RegistryError, Standing, Store};
use crate::terms::{ConnectionId, SessionId};
use approvals::Approvals;
use inspection::Sessions;
use intents::Intents;
use public::PublicLists;
use verdict::Evaluation;

/// The guards, and all that they are asked with: what servers offered before, what somebody has approved, which tools a
/// session has.
#[derive(Debug)]
pub(super) struct Evaluator {
    judge: Judge,
    registry: Registry,
    definitions: DefinitionCache,
    approvals: Approvals,
    sessions: Sessions,
    rounds: Rounds,
    tasks: Tasks,
    public: PublicLists,
    intents: Intents,
}

/// What guards are asked about: the tool, where it is about one, how it was seen, and whether it was evaluated before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Topic<'a> {
    tool: Option<&'a str>,
    seen: Option<Seen<'a>>,
    is_retry: bool,
    /// Whether it is about a resource that its server has listed.
    lists_resource: bool,
    /// Whether somebody approved this call of a tool that is held.
    is_approved: bool,
}

impl<'a> Topic<'a> {
    /// A tool.
    fn of(tool: &'a str) -> Self {
        Self { tool: Some(tool), ..Self::default() }
    }
}

/// Definitions of which the hash is remembered, and what was found in them.
const CACHED_DEFINITIONS: usize = 4_096;

impl Evaluator {
    /// One without guards, that knows of no tool yet.
    pub(super) fn new(config: &EngineConfig) -> Self {
        Self {
            judge: Judge::default(),
            registry: Registry::new(
                config.registry.clone(),
                Box::new(MemoryStore::new(config.limits.pin_bytes)),
            ),
            definitions: DefinitionCache::new(CACHED_DEFINITIONS),
            approvals: Approvals::default(),
            sessions: Sessions::new(),
            rounds: Rounds::default(),
            tasks: Tasks::default(),
            public: PublicLists::default(),
            intents: Intents::default(),
        }
    }

    /// Keeps pins there from now on.
    pub(super) fn set_store(&mut self, config: &EngineConfig, store: Box<dyn Store>) {
        self.registry = Registry::new(config.registry.clone(), store);
    }

    /// Has these guards asked from now on.
    pub(super) fn set_judge(&mut self, judge: Judge) {
        self.judge = judge;
    }

    /// Goes by another configuration from now on, with guards that remember what those before them did.
    pub(super) fn configure(&mut self, config: &EngineConfig, mut judge: Judge) {
        self.registry.configure(config.registry.clone());
        self.definitions = DefinitionCache::new(CACHED_DEFINITIONS);
        judge.succeed(std::mem::take(&mut self.judge));
        self.judge = judge;
    }

    /// A server is known by now: so are its pins, and what its name has against it, which comes back.
    ///
    /// # Errors
    /// There are too many: nothing that it lists is compared with pins.
    pub(super) fn register(
        &mut self,
        scope: &Scope,
        connection: &Connection,
    ) -> Result<Option<Detection>, RegistryError> {
        let (key, is_shared) = (connection.pin_key(&scope.server), connection.is_shared());
        let formerly = if is_shared {
            Vec::new()
        } else {
            vec![
                connection.program_path(),
                connection.last_program(),
                connection.last_program_of_any_target(),
            ]
        };
        let peer = Peer {
            session: scope.session.clone(),
            key,
            formerly,
            also: connection.ids().to_vec(),
            hands_over: !is_shared && connection.hands_over(),
            version: connection.version.clone(),
            identity: connection.identity(),
        };
        // What is refused the registry counts itself.
        self.registry.connect(scope.connection, peer)
    }

    /// Whether what a connection's server lists is compared at all: with pins, and with the session's other servers.
    pub(super) fn compares(&self, id: ConnectionId) -> bool {
        self.registry.tells_apart(id)
    }

    #[cfg(test)]
    pub(super) fn registry(&self) -> &Registry {
        &self.registry
    }

    #[cfg(test)]
    pub(super) fn rounds(&self) -> &Rounds {
        &self.rounds
    }

    #[cfg(test)]
    pub(super) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    #[cfg(test)]
    pub(super) fn approvals(&self) -> &Approvals {
        &self.approvals
    }

    #[cfg(test)]
    pub(super) fn has_no_sessions(&self) -> bool {
        self.sessions.is_empty()
    }

    /// The names of the tools that a session's servers offer.
    fn tool_names(&self, session: &SessionId) -> &ToolNames {
        self.sessions.get(session).map_or(&self.judge.no_names, |names| names)
    }

    /// The same, to be used elsewhere.
    pub(super) fn shared_names(&self, session: &SessionId) -> Arc<ToolNames> {
        self.sessions.get(session).cloned().unwrap_or_default()
    }

    /// What is known of definitions, to be used elsewhere.
    pub(super) fn definitions(&self) -> DefinitionCache {
        self.definitions.snapshot()
    }

    /// A connection was forgotten; so are sessions that no other is part of.
    pub(super) fn forget(&mut self, connection: &Connection, connections: &Connections) {
        // A store that failed was counted.
        let _ = self.registry.disconnect(connection.id);
        if let Some(session) = &connection.session
            && connections.of_session(session).is_none()
        {
            self.sessions.remove(session);
        }
    }

    /// What a tool does, by its name and its definition as JSON, which may be empty.
    fn classify(&self, scope: &Scope, name: &str, definition: &str) -> ToolFacts {
        let [description, annotations] = members(definition, ["description", "annotations"]);
        let mut description = string(description);
        let mut annotations = Cow::Borrowed(annotations.map_or("", |annotations| annotations.get()));
        // What clients read that do not regard the case of names counts as well.
        if let Some(respelled) = respell(definition) {
            let [other, hints] = members(&respelled.json, ["description", "annotations"]);
            description = [&*description, "\n\n", &*string(other)].concat().into();
            let hints = hints.map_or("null", |hints| hints.get());
            let own = if annotations.is_empty() { "null" } else { &annotations };
            annotations = format!("[{own},{hints}]").into();
        }
        let tool = Told { name, description: &description, annotations: &annotations };
        let told = self.judge.classifier.classify(&scope.server.0, tool);
        ToolFacts {
            name: name.into(),
            category: told.category,
            risk: told.risk,
            side_effects: told.side_effects,
            may_do_anything: told.may_do_anything,
            ..ToolFacts::default()
        }
    }

    /// The entry of `sessions` that the outermost client of a connection has.
    fn session_entry(&self, connections: &Connections, id: ConnectionId) -> Option<usize> {
        let client = || {
            let outermost = connections.outermost(id);
            let client = outermost.and_then(|connection| connection.client.as_ref());
            client.map_or_else(Client::default, |client| Client {
                uid: client.uid,
                executable: client.executable.as_deref(),
                cgroup: client.cgroup.as_deref(),
            })
        };
        self.judge.sessions.find(client)
    }

    /// Has somebody ask the guards about something on the connection of `scope`. `None` where the connection is gone.
    pub(super) fn with_facts<T>(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        Topic { tool, seen, is_retry, lists_resource, is_approved }: Topic<'_>,
        ask: impl FnOnce(&mut Executor, &Facts<'_>) -> T,
    ) -> Option<T> {
        let (turn, id) = seen.map_or((None, None), |seen| (seen.turn, seen.began.or(seen.id)));
        let session = self.session_entry(cx.connections, scope.connection);
        if let Some(tool) = tool {
            self.recall_tool(cx, scope, tool);
        }
        if let Some(tool) = tool.filter(|_| self.judge.external.iter().any(|guard| guard.holds)) {
            let connection = cx.connections.get_mut(scope.connection)?;
            let holders = connection.tool(tool).map(|facts| self.holders(connection, scope.owner, facts));
            connection.set_unjudged(tool, holders.unwrap_or_default());
        }
        let (judge, names) = (&mut self.judge, self.sessions.get(&scope.session));
        let connection = cx.connections.get_mut(scope.connection)?;
        let (identity, adopted, since) = (connection.identity(), connection.adopted, connection.since);
        let uid = connection.client.as_ref().and_then(|client| client.uid);
        if let Some((tool, facts)) = tool.and_then(|tool| Some((tool, connection.tools.get_mut(tool)?))) {
            refresh(facts, self.registry.tool(scope.connection, tool).as_ref());
        }
        let mutes = cx.reporter.mutes;
        let mute_key = (!mutes.is_empty()).then(|| connection.pin_key(&scope.server));
        let mut standing = judge.standings.get(&*scope.server.0).copied().unwrap_or_default();
        for known in connection.also().iter().filter_map(|id| judge.standings.get(&*id.0)) {
            standing.enabled &= known.enabled;
            standing.trust = standing.trust.min(known.trust);
        }
        // Whoever has the name of a declared server and is another program: that may cost trust, and never gives more.
        if identity == Identity::Derived {
            standing.trust = standing.trust.min(Trust::Medium);
        }
        let known = tool.and_then(|tool| connection.tool(tool));
        let approved = known.filter(|_| is_approved).map(ToolFacts::as_approved);
        let facts = Facts {
            server: &scope.server,
            also: connection.also(),
            identity,
            enabled: standing.enabled,
            trust: standing.trust,
            listing: match (self.registry.is_listed(scope.connection), adopted) {
                (true, _) => Listing::Listed,
                (false, true) => Listing::Unknown,
                (false, false) => Listing::Pending { since },
            },
            session: &scope.session,
            connection: scope.connection,
            jsonrpc_id: id,
            host: connection.at.as_ref().map(|at| &*at.host),
            uid,
            turn,
            is_retry,
            lists_resource,
            tool: approved.as_ref().or(known),
            tool_names: names.map_or(&judge.no_names, |names| names),
            ahead: cx.ahead.as_deref(),
            conditions: Conditions::OfCall,
            profile: &judge.sessions.profile_of(&scope.session, session),
            block: judge.blocks.of_any((&scope.server, connection.also()), &scope.session),
            standing: &judge.denials.of(&scope.server, connection.also(), (&scope.session, scope.owner)),
            mutes: mute_key.as_ref().map_or_else(MutesOf::default, |key| {
                MutesOf::new(mutes, MuteSubject { key, tool, hash: known.map(|known| &*known.hash) })
            }),
            metadata: &connection.metadata,
        };
        Some(ask(&mut judge.executor, &facts))
    }

    /// Asks the guards about something on the connection of `scope`, which is about `tool` if that is known.
    fn evaluate(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        operations: &[Operation<'_>],
        tool: Option<&str>,
    ) -> Evaluation {
        let topic = Topic { tool, seen: Some(seen), ..Topic::default() };
        self.evaluate_try(cx, scope, seen, operations, topic)
    }

    /// The same about what may be one of several tries.
    fn evaluate_try(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        operations: &[Operation<'_>],
        topic: Topic<'_>,
    ) -> Evaluation {
        let Seen { time: now, stop, .. } = seen;
        let topic_is_retry = topic.is_retry;
        let verdict = self.with_facts(cx, scope, topic, |executor, facts| {
            let question = Question { operations, facts, now };
            let mut verdict = executor.ask(&question, None);
            verdict.enforced = stop.is_some_and(|stop| stop.stops(&verdict));
            executor.settle(&question, &verdict);
            verdict
        });
        let verdict = verdict.unwrap_or_default();
        if !topic_is_retry {
            self.ask_external(cx, scope, seen, operations, &verdict);
        }
        cx.reporter.counters.denials += u64::from(verdict.denied.is_some());
        Evaluation::of(verdict)
    }

    /// Tells the guards that answers on the connection of `scope` were not captured.
    pub(super) fn answers_lost(&mut self, scope: &Scope, time: crate::terms::Timestamp) {
        self.judge.executor.lost(&scope.session, scope.connection, time);
    }

    /// Tells the guards that no result of a call is to be waited for.
    pub(super) fn settle_call(&mut self, cx: &mut Context<'_>, scope: &Scope, seen: Seen<'_>, tool: &str) {
        let now = seen.time;
        let topic = Topic { seen: Some(seen), ..Topic::of(tool) };
        self.with_facts(cx, scope, topic, |executor, facts| {
            let operations = [Operation::ToolResult { tool_name: tool, result: None, error: None }];
            executor.settle(&Question { operations: &operations, facts, now }, &Verdict::default());
        });
    }
}

/// Brings what is known of a tool up to what the registry says of it.
fn refresh(facts: &mut ToolFacts, standing: Option<&Standing<'_>>) {
    let Some(standing) = standing else { return };
    facts.pin = standing.pin;
    facts.approved = standing.approved;
    facts.refusal = match facts.refusal {
        _ if standing.denied => Some(Refusal::Denied),
        Some(Refusal::TimedOut) if !standing.approved => Some(Refusal::TimedOut),
        _ => None,
    };
    if facts.shadows.as_ref() != standing.shadows {
        facts.shadows = standing.shadows.cloned();
    }
}
