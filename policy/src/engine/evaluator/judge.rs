//! The guards, and what they need to know that no connection carries.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;

use super::external::{Questions, Retries};
use crate::classify::Classifier;
use crate::config::{Config, DEFAULT_TIMEOUT_MS, Server};
use crate::detect::{Detector, ToolNames};
use crate::event::Identity;
use crate::glob::GlobError;
use crate::guard::{
    Conditions, Facts, Listing, Operation, PinState, ToolCategory, ToolFacts, Trust, TurnState, Verdict,
};
use crate::guards::{
    Asked, CallBlock, CallBlocks, Client, Executor, ExternalGuard, Question, SessionRule, SessionRules,
    StandingDenials, build,
};
use crate::terms::contract::GuardName;
use crate::terms::{ConnectionId, ServerId, SessionId, Timestamp};

/// What a declaration says of a server, besides what its guards are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerStanding {
    /// Whether it may be used.
    pub enabled: bool,
    /// How far it is trusted.
    pub trust: Trust,
    /// After how long a request without an answer is an event. Milliseconds.
    pub timeout_ms: u32,
    /// How many requests may be open at once before that is an event.
    pub max_concurrent: u32,
}

impl Default for ServerStanding {
    fn default() -> Self {
        Self { enabled: true, trust: Trust::default(), timeout_ms: DEFAULT_TIMEOUT_MS, max_concurrent: 10 }
    }
}

/// The guards, and what they need to know that nobody says on a connection. By default there are none.
#[derive(Debug, Default)]
pub struct Judge {
    pub(super) executor: Executor,
    pub(super) classifier: Arc<Classifier>,
    /// What guards find texts with; none where there are no guards.
    detector: Option<Arc<Detector>>,
    pub(super) standings: BTreeMap<String, ServerStanding>,
    pub(super) sessions: SessionRules,
    pub(super) blocks: CallBlocks,
    pub(super) no_names: ToolNames,
    /// Guards that others wrote.
    pub(super) external: Vec<Arc<ExternalGuard>>,
    /// What they deny.
    pub(super) denials: StandingDenials,
    /// What they are asked.
    pub(super) questions: Questions,
    /// Lists that they have not judged, and when they are asked again.
    pub(super) retries: Retries,
    approval_timeout: Duration,
}

impl Judge {
    /// Guards by configuration; `sessions`: what its entries of that name say, in order.
    ///
    /// # Errors
    /// A glob does not compile; nothing of what [`parse`](crate::config::parse) lets through is one.
    pub fn new(
        config: &Config,
        sessions: Vec<SessionRule>,
        detector: &Arc<Detector>,
    ) -> Result<Self, GlobError> {
        let classifier =
            Arc::new(Classifier::new(&config.classifier.overrides, config.policy.case_sensitive)?);
        let executor = build(config, detector, &classifier)?;
        let standing = |server: &Server| ServerStanding {
            enabled: server.enabled,
            trust: server.trust,
            timeout_ms: server.timeout_ms,
            max_concurrent: server.max_concurrent,
        };
        Ok(Self {
            executor,
            external: ExternalGuard::all(config)?.into_iter().map(Arc::new).collect(),
            classifier,
            detector: Some(Arc::clone(detector)),
            standings: config.servers.iter().map(|server| (server.id.clone(), standing(server))).collect(),
            sessions: sessions.into(),
            approval_timeout: config.inspection.on_detection.timeout.0,
            ..Self::default()
        })
    }

    /// These guards, and nothing known besides.
    #[cfg(test)]
    pub(in crate::engine) fn of(executor: Executor) -> Self {
        Self { executor, ..Self::default() }
    }

    /// Takes the place of another: guards remember what those before them did.
    pub(super) fn succeed(&mut self, before: Self) {
        self.executor.succeed(before.executor);
        self.sessions.succeed(before.sessions);
        self.blocks = before.blocks;
        (self.denials, self.questions, self.retries) = (before.denials, before.questions, before.retries);
        // One that is another now judges all anew.
        let external = &self.external;
        let is_known = |name: &GuardName| external.iter().any(|guard| *guard.name == *name);
        let is_same = |guard: &&Arc<ExternalGuard>| before.external.iter().any(|known| known.is_same(guard));
        let is_same = |name: &GuardName| external.iter().filter(is_same).any(|guard| *guard.name == *name);
        self.denials.keep_of(is_same);
        self.questions.keep_of(is_known, is_same);
    }

    /// What an operator blocks of a session's calls to a server.
    pub(super) fn call_block(
        &self,
        server: (&ServerId, &[ServerId]),
        session: &SessionId,
    ) -> Option<&CallBlock> {
        self.blocks.of_any(server, session)
    }

    /// What an operator blocks by hand.
    pub(super) fn blocks_mut(&mut self) -> &mut CallBlocks {
        &mut self.blocks
    }

    /// What clients' sessions may do.
    pub(super) fn sessions_mut(&mut self) -> &mut SessionRules {
        &mut self.sessions
    }

    /// What guards find texts with.
    pub(super) fn detector(&self) -> Option<&Arc<Detector>> {
        self.detector.as_ref()
    }

    /// How long somebody has to approve a tool.
    pub(super) fn approval_timeout(&self) -> Duration {
        self.approval_timeout
    }

    /// What is reported of a server of this name.
    pub(super) fn standing(&self, server: &ServerId) -> ServerStanding {
        self.standings.get(&*server.0).copied().unwrap_or_default()
    }

    /// What guards count, by name.
    pub(super) fn counters(&self) -> BTreeMap<String, u64> {
        let counted = self.executor.counters().to_map().into_iter();
        let mut all: BTreeMap<String, u64> =
            counted.map(|(name, count)| (format!("guards_{name}"), count)).collect();
        all.extend(self.executor.bounds());
        let asked = self.questions.counters.to_map().into_iter();
        all.extend(asked.map(|(name, count)| (format!("external_guards_{name}"), count)));
        all.extend(self.denials.counters().map(|(name, count)| (name.to_owned(), count)));
        all
    }

    /// What the guards know of a session's turn.
    pub(super) fn turn(&self, session: &SessionId) -> Option<TurnState> {
        self.executor.turn(session)
    }

    /// What a tool does, by its name alone.
    pub(super) fn category(&self, server: &ServerId, tool: &str) -> ToolCategory {
        self.classifier.category(&server.0, tool)
    }

    /// What the guards would say of a call of a tool that its server lists, as it was pinned and with nothing found in
    /// it; and everybody who is asked, in order. `hash`: that of its definition, 64 hexadecimal digits, or nothing;
    /// `session`: the index of the client's entry of `sessions`, if it has one; `now`: the time of the call, for rules that go by it.
    pub fn decide(
        &mut self,
        server: &ServerId,
        tool: &str,
        hash: &str,
        arguments: Option<&RawValue>,
        session: Option<usize>,
        now: Timestamp,
    ) -> (Verdict, Vec<Asked>) {
        // Without one, that of a client of which nothing is known: the last entry may fit everybody.
        let session = session.or_else(|| self.sessions.find(Client::default));
        let told = self.classifier.classify(&server.0, tool);
        let known = ToolFacts {
            name: tool.into(),
            hash: hash.into(),
            pin: PinState::Pinned,
            category: told.category,
            risk: told.risk,
            side_effects: told.side_effects,
            may_do_anything: told.may_do_anything,
            ..ToolFacts::default()
        };
        let declared = self.standings.get(&*server.0).copied();
        let standing = declared.unwrap_or_default();
        let session_id = SessionId("decide".into());
        let facts = Facts {
            server,
            also: &[],
            identity: if declared.is_some() { Identity::Declared } else { Identity::Derived },
            enabled: standing.enabled,
            trust: standing.trust,
            listing: Listing::Listed,
            session: &session_id,
            connection: ConnectionId(0),
            jsonrpc_id: None,
            host: None,
            uid: None,
            turn: None,
            is_retry: false,
            lists_resource: false,
            tool: Some(&known),
            tool_names: &self.no_names,
            ahead: None,
            conditions: Conditions::OfCall,
            profile: self.sessions.profile(session),
            block: None,
            standing: &[],
            mutes: crate::mutes::MutesOf::default(),
            metadata: &Value::Null,
        };
        let operations = [
            Operation::Request { method: "tools/call", params: None },
            Operation::ToolInvoke { tool_name: tool, arguments },
        ];
        let question = Question { operations: &operations, facts: &facts, now };
        let mut asked = Vec::new();
        let verdict = self.executor.ask(&question, Some(&mut asked));
        (verdict, asked)
    }
}
