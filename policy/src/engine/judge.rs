//! Puts what goes by before the guards, with the facts about it, and says what they decided.
//!
//! What is judged here has passed by then: `enforced` is true of what the gate stopped, and says so in time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;

use super::inspect::About;
use super::io::Output;
use super::judged::Judged;
use super::record::{Call, MAX_NAME_BYTES, clip, tool_id};
use super::{Engine, Place};
use crate::classify::Classifier;
use crate::config::{Config, Server};
use crate::detect::{Detector, ToolNames};
use crate::event::{
    CrossServerBlocked, Identity, MessageKind, RelatedCall, RequestBlocked, RequestWarned, Severity, Subject,
};
use crate::glob::GlobError;
use crate::guard::{
    Facts, GuardKind, Listing, Operation, PinState, Recorded, Refusal, ToolCategory, ToolFacts, Trust,
    TurnState, Verdict,
};
use crate::guards::{
    Asked, CallBlock, CallBlocks, Client, Executor, Outcome, Question, SessionRule, SessionRules, build,
};
use crate::protocol::{Kind, Message, Method, members, string};
use crate::registry::Standing;
use crate::terms::{ConnectionId, ServerId, SessionId, Timestamp};

/// What a declaration says of a server, besides what its guards are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerStanding {
    /// Whether it may be used.
    pub enabled: bool,
    /// How far it is trusted.
    pub trust: Trust,
    /// After how long a request without an answer is an event. Milliseconds; `None`: it is none.
    pub timeout_ms: Option<u32>,
    /// How many requests may be open at once before that is an event.
    pub max_concurrent: u32,
}

impl Default for ServerStanding {
    fn default() -> Self {
        Self { enabled: true, trust: Trust::default(), timeout_ms: None, max_concurrent: 10 }
    }
}

/// The guards, and what they need to know that nobody says on a connection. By default there are none.
#[derive(Debug, Default)]
pub struct Judge {
    executor: Executor,
    classifier: Arc<Classifier>,
    /// What guards find texts with; none where there are no guards.
    detector: Option<Arc<Detector>>,
    standings: BTreeMap<String, ServerStanding>,
    sessions: SessionRules,
    blocks: CallBlocks,
    no_names: ToolNames,
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
    pub(super) fn of(executor: Executor) -> Self {
        Self { executor, ..Self::default() }
    }

    /// Takes the place of another: guards remember what those before them did.
    pub(super) fn succeed(&mut self, before: Self) {
        self.executor.succeed(before.executor);
        self.sessions.succeed(before.sessions);
        self.blocks = before.blocks;
    }

    /// What an operator blocks of a session's calls to a server.
    pub(super) fn call_block(&self, server: &ServerId, session: &SessionId) -> Option<&CallBlock> {
        self.blocks.of(server, session)
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

    /// What is said of a server of this name.
    pub(super) fn standing(&self, server: &ServerId) -> ServerStanding {
        self.standings.get(&*server.0).copied().unwrap_or_default()
    }

    /// What guards count, by name.
    pub(super) fn counters(&self) -> BTreeMap<String, u64> {
        let counted = self.executor.counters().to_map().into_iter();
        let mut all: BTreeMap<String, u64> =
            counted.map(|(name, count)| (format!("guards_{name}"), count)).collect();
        all.extend(self.executor.bounds());
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
    /// `session`: the index of the client's entry of `sessions`, if it has one.
    pub fn decide(
        &mut self,
        server: &ServerId,
        tool: &str,
        hash: &str,
        arguments: Option<&RawValue>,
        session: Option<usize>,
    ) -> (Verdict, Vec<Asked>) {
        // Without one, that of a client of which nothing is known: the last entry may fit everybody.
        let session = session.or_else(|| self.sessions.find(Client::default));
        let told = self.classifier.classify(&server.0, tool, "");
        let known = ToolFacts {
            name: tool.into(),
            hash: hash.into(),
            pin: PinState::Pinned,
            category: told.category,
            risk: told.risk,
            side_effects: told.side_effects,
            ..ToolFacts::default()
        };
        let declared = self.standings.get(&*server.0).copied();
        let standing = declared.unwrap_or_default();
        let session_id = SessionId("decide".into());
        let facts = Facts {
            server,
            identity: if declared.is_some() { Identity::Declared } else { Identity::Derived },
            enabled: standing.enabled,
            trust: standing.trust,
            listing: Listing::Listed,
            session: &session_id,
            uid: None,
            turn: None,
            tool: Some(&known),
            tool_names: &self.no_names,
            profile: self.sessions.profile(session),
            block: None,
            metadata: &Value::Null,
        };
        let operations = [
            Operation::Request { method: "tools/call", params: None },
            Operation::ToolInvoke { tool_name: tool, arguments },
        ];
        let question = Question { operations: &operations, facts: &facts, now: Timestamp(0) };
        let mut asked = Vec::new();
        match self.executor.ask(&question, Some(&mut asked)) {
            Outcome::Decided(verdict) => (verdict, asked),
            Outcome::Waiting { ticket, .. } => {
                self.executor.forget(ticket);
                (Verdict::default(), asked)
            }
        }
    }
}

/// Brings what is known of a tool up to what the registry says of it.
pub(super) fn refresh(facts: &mut ToolFacts, standing: Option<&Standing<'_>>) {
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

impl Engine {
    /// Has these guards asked from now on.
    #[must_use]
    pub fn with_judge(mut self, judge: Judge) -> Self {
        self.judge = judge;
        self
    }

    /// What comes from now on belongs to this turn of the model; with `None`, turns are told by time.
    pub fn in_turn(&mut self, turn: Option<String>) {
        self.turn = turn;
    }

    /// What a tool does, by its name and what is said of it.
    pub(super) fn classify(&self, place: &Place, name: &str, description: &str) -> ToolFacts {
        let told = self.judge.classifier.classify(&place.server.0, name, description);
        ToolFacts {
            name: name.into(),
            category: told.category,
            risk: told.risk,
            side_effects: told.side_effects,
            ..ToolFacts::default()
        }
    }

    /// The entry of `sessions` that the outermost client of a connection has.
    pub(super) fn session_entry(&self, id: ConnectionId) -> Option<usize> {
        let client = || {
            let outermost = self.outers(id).last().or_else(|| self.connections.get(&id));
            let client = outermost.and_then(|connection| connection.client.as_ref());
            client.map_or_else(Client::default, |client| Client {
                uid: client.uid,
                executable: client.executable.as_deref(),
                cgroup: client.cgroup.as_deref(),
            })
        };
        self.judge.sessions.find(client)
    }

    /// Has somebody ask the guards about something on the connection of `place`, which is about `tool` if that is known.
    /// `None` where the connection is gone.
    pub(super) fn with_facts<T>(
        &mut self,
        place: &Place,
        tool: Option<&str>,
        ask: impl FnOnce(&mut Executor, &Facts<'_>) -> T,
    ) -> Option<T> {
        let session = self.session_entry(place.connection);
        if let Some(tool) = tool {
            self.remember_tool(place, tool);
        }
        let (judge, names) = (&mut self.judge, self.sessions.get(&place.session));
        let connection = self.connections.get_mut(&place.connection)?;
        let (identity, adopted, since) = (connection.identity(), connection.adopted, connection.since);
        let uid = connection.client.as_ref().and_then(|client| client.uid);
        if let Some((tool, facts)) = tool.and_then(|tool| Some((tool, connection.tools.get_mut(tool)?))) {
            refresh(facts, self.registry.tool(place.connection, tool).as_ref());
        }
        let mut standing = judge.standings.get(&*place.server.0).copied().unwrap_or_default();
        // Whoever has the name of a declared server and is another program: that may cost trust, and never gives more.
        if identity == Identity::Derived {
            standing.trust = standing.trust.min(Trust::Medium);
        }
        let facts = Facts {
            server: &place.server,
            identity,
            enabled: standing.enabled,
            trust: standing.trust,
            listing: match (self.registry.is_listed(place.connection), adopted) {
                (true, _) => Listing::Listed,
                (false, true) => Listing::Unknown,
                (false, false) => Listing::Pending { since },
            },
            session: &place.session,
            uid,
            turn: self.turn.as_deref(),
            tool: tool.and_then(|tool| connection.tool(tool)),
            tool_names: names.unwrap_or(&judge.no_names),
            profile: &judge.sessions.profile_of(&place.session, session),
            block: judge.blocks.of(&place.server, &place.session),
            metadata: &connection.metadata,
        };
        Some(ask(&mut judge.executor, &facts))
    }

    /// Asks the guards about something on the connection of `place`, which is about `tool` if that is known.
    pub(super) fn judge(
        &mut self,
        place: &Place,
        operations: &[Operation<'_>],
        tool: Option<&str>,
        now: Timestamp,
    ) -> Judged {
        let stop = self.stop;
        let verdict = self.with_facts(place, tool, |executor, facts| {
            let question = Question { operations, facts, now };
            let mut verdict = match executor.ask(&question, None) {
                Outcome::Decided(verdict) => verdict,
                // No built-in guard asks somebody else.
                Outcome::Waiting { ticket, .. } => {
                    executor.forget(ticket);
                    Verdict::default()
                }
            };
            verdict.enforced = stop.is_some_and(|stop| stop.stops(&verdict));
            executor.settle(&question, &verdict);
            verdict
        });
        let verdict = verdict.unwrap_or_default();
        self.counters.denials += u64::from(verdict.denied.is_some());
        Judged::of(verdict)
    }

    /// Tells the guards that no result of a call is to be waited for.
    pub(super) fn settle_call(&mut self, place: &Place, tool: &str, now: Timestamp) {
        self.with_facts(place, Some(tool), |executor, facts| {
            let operations = [Operation::ToolResult { tool_name: tool, result: None, error: None }];
            executor.settle(&Question { operations: &operations, facts, now }, &Verdict::default());
        });
    }

    /// Judges a tool call: what it is asked with, and the arguments in it.
    pub(super) fn judge_call(&mut self, place: &Place, time: Timestamp, call: &Call<'_>) -> Judged {
        let Call { tool_name, params, arguments, .. } = call;
        let operations = [
            Operation::Request { method: "tools/call", params: *params },
            Operation::ToolInvoke { tool_name, arguments: *arguments },
        ];
        self.judge(place, &operations, Some(tool_name), time)
    }

    /// Says which rule across servers objects to a call.
    pub(super) fn say_cross_server(
        &mut self,
        place: &Place,
        time: Timestamp,
        tool: &str,
        judged: &Judged,
        out: &mut Vec<Output>,
    ) {
        let Some((GuardKind::CrossServer | GuardKind::ToolShadowing, denial)) = &judged.denied else {
            return;
        };
        let detail = |name: &str| denial.details.as_ref().and_then(|details| details.get(name)).cloned();
        let related: Option<Vec<RelatedCall>> =
            detail("related").and_then(|related| serde_json::from_value(related).ok());
        let severity = detail("severity").and_then(|severity| serde_json::from_value(severity).ok());
        let rule = detail("rule").and_then(|rule| rule.as_str().map(str::to_owned));
        let original = detail("original_server_id").and_then(|id| Some(ServerId(id.as_str()?.into())));
        let connection = self.connections.get(&place.connection);
        let known = connection.and_then(|connection| connection.tool(tool));
        let blocked = CrossServerBlocked {
            rule: rule.unwrap_or_else(|| denial.code.clone()),
            severity: severity.unwrap_or(Severity::Critical),
            reason: denial.message.clone(),
            blocked_server_id: place.server.clone(),
            blocked_tool_name: tool.to_owned(),
            blocked_tool_id: tool_id(&place.server, tool),
            blocked_tool_hash: known.map(|known| known.hash.to_string()),
            original_server_id: original,
            related_calls: related.unwrap_or_default(),
            enforced: judged.enforced,
        };
        self.say(place.clone(), time, blocked, out);
    }

    /// Judges any other request, of the client's or of the server's, and says what is denied or found. What is to be
    /// recorded in place of what was sent.
    pub(super) fn judge_request(
        &mut self,
        target: ConnectionId,
        time: Timestamp,
        message: &Message<'_>,
        out: &mut Vec<Output>,
    ) -> Recorded {
        let (Some(place), Kind::Request { id, method, params }) = (self.place(target), &message.kind) else {
            return Recorded::default();
        };
        let json = params.map_or("null", RawValue::get);
        let [name, uri, arguments] = members(json, ["name", "uri", "arguments"]);
        let (name, uri) = (string(name), string(uri));
        let request = Operation::Request { method: method.as_str(), params: *params };
        let judged = match method {
            Method::PromptsGet => {
                let prompt = Operation::PromptRequest { name: &name, arguments };
                self.judge(&place, &[request, prompt], None, time)
            }
            Method::ResourcesRead => {
                self.judge(&place, &[request, Operation::ResourceRequest { uri: &uri }], None, time)
            }
            _ => self.judge(&place, &[request], None, time),
        };
        let subject =
            if *method == Method::ElicitationCreate { Subject::Elicitation } else { Subject::Sampling };
        let id = self.recorder.id(*id);
        let about = About { id: Some(id.clone()), action: judged.action, ..About::of(subject) };
        self.say_found(&place, time, &about, &judged.found, out);
        self.say_judged(&place, time, (MessageKind::Request, method.as_str(), &id), &judged, out);
        judged.recorded
    }

    /// Says what is denied or remarked of a request, or an answer, that is of no tool call.
    pub(super) fn say_judged(
        &mut self,
        place: &Place,
        time: Timestamp,
        (kind, method, id): (MessageKind, &str, &Value),
        judged: &Judged,
        out: &mut Vec<Output>,
    ) {
        let (method, jsonrpc_id) = (clip(method, MAX_NAME_BYTES), id.clone());
        if let Some((guard, denial)) = &judged.denied {
            let blocked = RequestBlocked {
                kind,
                method,
                jsonrpc_id: Some(jsonrpc_id),
                guard: *guard,
                code: denial.code.clone(),
                reason: denial.message.clone(),
                enforced: judged.enforced,
            };
            self.say(place.clone(), time, blocked, out);
        } else if judged.remarked && !judged.warnings.is_empty() || !judged.left_out.is_empty() {
            let (warnings, tools_left_out) = (judged.warnings.clone(), judged.left_out.clone());
            let warned = RequestWarned { kind, method, jsonrpc_id, warnings, tools_left_out };
            self.say(place.clone(), time, warned, out);
        }
    }
}
