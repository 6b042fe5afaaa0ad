//! What several servers of a session do together: one is read and another is to send what was read, or one is called
//! very often. (Requirements: docs/internals/requirements.md, "cross-server patterns".)
//!
//! A read counts from the moment when its data comes, which is that of its answer: before that there is nothing to send, and
//! after an error there never is. Where answers were not captured, data may have come.
//!
//! Nothing is judged before a session has its second server: until then only the last read, and what waits for its data, is
//! remembered, so that a server that comes late is judged by it.

mod act;
mod session;

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::{allow, deny_with, short};
use crate::classify::Classifier;
use crate::config::CrossServer as CrossServerConfig;
use crate::definition::bounded;
use crate::guard::{
    BrokenRule, Decision, DenialCode, DenialDetails, Facts, Guard, GuardError, Operation, TurnSource,
    TurnState, Verdict,
};
use crate::terms::{ConnectionId, GuardKind, SessionId, Severity, Timestamp, ToolCategory};
pub(crate) use act::is_of_network;
use act::{Act, Answer};
use session::{Asked, Call, Session, Spans};

/// Most sessions that are remembered at once.
const MAX_SESSIONS: usize = 4_096;
/// Most names of servers and tools that are kept once for all records.
const MAX_NAMES: usize = 10_000;
/// Most related calls that a denial names: the newest.
const MAX_RELATED: usize = 10;

/// A rule that was broken.
struct Broken<'s> {
    rule: DenialCode,
    severity: Severity,
    reason: String,
    related: Vec<&'s Call>,
    /// By what the turn was told, where the rule goes by turns.
    turn: Option<TurnSource>,
}

/// `cross_server`
#[derive(Debug)]
pub(super) struct CrossServer {
    config: CrossServerConfig,
    classifier: Arc<Classifier>,
    sessions: HashMap<SessionId, Session>,
    /// Names of servers and tools, so that a record allocates nothing.
    names: HashSet<Arc<str>>,
    sessions_evicted: u64,
    records_dropped: u64,
}

impl CrossServer {
    pub(super) fn new(config: CrossServerConfig, classifier: Arc<Classifier>) -> Self {
        Self {
            config,
            classifier,
            sessions: HashMap::new(),
            names: HashSet::new(),
            sessions_evicted: 0,
            records_dropped: 0,
        }
    }

    /// What an operation does, if that is judged.
    fn act<'a>(&self, operation: &Operation<'a>, facts: &Facts<'_>) -> Option<Act<'a>> {
        self.config.enabled.then(|| Act::of(operation, facts, &self.classifier)).flatten()
    }

    fn spans(&self) -> Spans {
        let CrossServerConfig { read_then_send, burst, cross_server_flow, turn_gap, session_idle, .. } =
            &self.config;
        let window = read_then_send.window.max(burst.window).max(cross_server_flow.window).0;
        Spans { gap: turn_gap.0, window, idle: session_idle.0 }
    }

    /// The name, as records have it.
    fn name(&mut self, name: &str) -> Arc<str> {
        let name = &*bounded(name);
        if let Some(name) = self.names.get(name) {
            return Arc::clone(name);
        }
        if self.names.len() >= MAX_NAMES {
            // Records keep those that they have.
            self.names.clear();
        }
        let name: Arc<str> = name.into();
        self.names.insert(Arc::clone(&name));
        name
    }

    /// The session, which is new where nothing is known of it.
    fn session(&mut self, id: &SessionId, now: Timestamp) -> Option<&mut Session> {
        if !self.sessions.contains_key(id) {
            let idle = self.config.session_idle.0;
            self.sessions.retain(|_, session| now <= session.last_seen().after(idle));
            if self.sessions.len() >= MAX_SESSIONS {
                let oldest = self.sessions.iter().min_by_key(|(id, session)| (session.last_seen(), *id));
                if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
                    self.sessions.remove(&oldest);
                    self.sessions_evicted += 1;
                }
            }
            self.sessions.insert(id.clone(), Session::new(now));
        }
        self.sessions.get_mut(id)
    }

    fn broken<'s>(
        &self,
        session: &'s Session,
        act: &Act<'_>,
        facts: &'s Facts<'_>,
        now: Timestamp,
    ) -> Option<Broken<'s>> {
        let CrossServerConfig { read_then_send, burst, cross_server_flow: flow, .. } = &self.config;
        let (server, category) = (&*bounded(&facts.server.0), act.category);
        if read_then_send.enabled && category == ToolCategory::Send {
            let window = read_then_send.window.0;
            let related = session.reads_elsewhere(server, |call| call.is_within(window, now));
            if let Some(last) = related.first() {
                let read_at = last.read_at.unwrap_or(last.time);
                let ago = Duration::from_secs(now.nanos_since(read_at) / 1_000_000_000);
                let reason = format!(
                    "Server '{}' attempted send after '{}' read data {} ago",
                    short(server),
                    short(&last.server),
                    humantime::format_duration(ago)
                );
                return Some(Broken {
                    rule: DenialCode::ReadThenSend,
                    severity: Severity::Critical,
                    reason,
                    related,
                    turn: None,
                });
            }
        }
        let recent = || session.calls_of(server, burst.window.0, now);
        // As few as are needed are counted: who floods pays no more for each call.
        let is_burst = || recent().nth((burst.max_calls as usize).saturating_sub(1)).is_some();
        if burst.enabled && act.tool.is_some() && is_burst() {
            let reason = format!(
                "Server '{}' exceeded burst limit: more than {} calls in {}",
                short(server),
                burst.max_calls,
                humantime::format_duration(burst.window.0)
            );
            let related = recent().take(MAX_RELATED).collect();
            return Some(Broken {
                rule: DenialCode::Burst,
                severity: Severity::High,
                reason,
                related,
                turn: None,
            });
        }
        if flow.enabled && matches!(category, ToolCategory::Write | ToolCategory::Send) {
            let gap_turn = session.turn_at(now, self.spans());
            let turn = facts.turn.map(bounded);
            let related = session.reads_elsewhere(server, |call| {
                if flow.same_turn_only {
                    call.is_in_turn(turn.as_deref(), gap_turn)
                } else {
                    call.is_within(flow.window.0, now)
                }
            });
            let last = *related.first()?;
            let by_request = facts.turn.is_some() && last.turn.is_some();
            let (turn, when) = match (flow.same_turn_only, by_request) {
                (true, true) => (Some(TurnSource::RequestId), "in same turn (same request id)".to_owned()),
                (true, false) => {
                    let gap = humantime::format_duration(self.config.turn_gap.0);
                    (Some(TurnSource::Gap), format!("in same turn (no pause longer than {gap})"))
                }
                (false, _) => (None, format!("within {}", humantime::format_duration(flow.window.0))),
            };
            let does = if category == ToolCategory::Send { "send" } else { "write" };
            let reason = format!(
                "Cross-server data flow: '{}' read → '{}' {does} {when}",
                short(&last.server),
                short(server)
            );
            return Some(Broken {
                rule: DenialCode::CrossServerFlow,
                severity: Severity::High,
                reason,
                related,
                turn,
            });
        }
        None
    }
}

impl Broken<'_> {
    fn details(&self) -> DenialDetails {
        DenialDetails::Rule(BrokenRule {
            rule: self.rule,
            severity: self.severity,
            original_server_id: None,
            related: self.related.iter().map(|call| call.named()).collect(),
            turn: self.turn,
        })
    }
}

impl Guard for CrossServer {
    fn kind(&self) -> GuardKind {
        GuardKind::CrossServer
    }

    fn check(
        &mut self,
        operation: &Operation<'_>,
        facts: &Facts<'_>,
        now: Timestamp,
    ) -> Result<Decision, GuardError> {
        // What it does it does since its first try.
        if facts.is_retry {
            return allow();
        }
        let Some(act) = self.act(operation, facts) else { return allow() };
        let Some(session) = self.sessions.get(facts.session) else { return allow() };
        if !session.is_active_with(&bounded(&facts.server.0)) {
            return allow();
        }
        match self.broken(session, &act, facts, now) {
            Some(broken) => deny_with(broken.rule, broken.reason.clone(), Some(broken.details())),
            None => allow(),
        }
    }

    fn settled(&mut self, operation: &Operation<'_>, facts: &Facts<'_>, verdict: &Verdict, now: Timestamp) {
        if !self.config.enabled {
            return;
        }
        if let Operation::ToolsList { .. } = operation {
            let server = self.name(&facts.server.0);
            if let Some(session) = self.session(facts.session, now) {
                session.note_server(server);
            }
        } else if let Some(answer) = Answer::of(operation) {
            let spans = self.spans();
            let Some(session) = self.sessions.get_mut(facts.session) else { return };
            if answer.is_end {
                session.note_result(now);
            }
            let of = Asked {
                server: &bounded(&facts.server.0),
                connection: facts.connection,
                id: facts.jsonrpc_id.unwrap_or(&Value::Null),
            };
            let dropped = session.note_answer(&of, &answer, spans, now);
            self.records_dropped += u64::from(dropped);
        } else if let Some(act) = self.act(operation, facts).filter(|_| !facts.is_retry) {
            let call = Call {
                time: now,
                read_at: None,
                server: self.name(&facts.server.0),
                connection: facts.connection,
                id: facts.jsonrpc_id.cloned().unwrap_or_default(),
                method: self.name(act.method),
                tool: self.name(act.name()),
                category: act.category,
                reads: act.reads,
                is_asked: act.is_asked,
                stopped: verdict.enforced,
                turn: facts.turn.map(|turn| self.name(turn)),
                gap_turn: 0,
            };
            let spans = self.spans();
            let session = self.session(facts.session, now);
            let dropped = session.is_some_and(|session| session.note_call(call, spans));
            self.records_dropped += u64::from(dropped);
        }
    }

    fn lost(&mut self, session: &SessionId, connection: ConnectionId, now: Timestamp) {
        let spans = self.spans();
        let session = self.sessions.get_mut(session).filter(|_| self.config.enabled);
        let dropped = session.is_some_and(|session| session.note_lost(connection, spans, now));
        self.records_dropped += u64::from(dropped);
    }

    fn succeed(&mut self, before: &mut dyn Any) {
        if let Some(before) = before.downcast_mut::<Self>() {
            self.sessions = std::mem::take(&mut before.sessions);
            self.names = std::mem::take(&mut before.names);
            (self.sessions_evicted, self.records_dropped) = (before.sessions_evicted, before.records_dropped);
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("cross_server_sessions_evicted", self.sessions_evicted),
            ("cross_server_records_dropped", self.records_dropped),
        ]
    }

    fn turn(&self, session: &SessionId) -> Option<TurnState> {
        self.sessions.get(session).map(Session::turn)
    }

    fn why(&self, operation: &Operation<'_>, facts: &Facts<'_>, _: Timestamp) -> Option<String> {
        let Some(act) = self.act(operation, facts) else {
            return Some("in this phase it neither reads nor sends".to_owned());
        };
        let active = self.sessions.get(facts.session);
        if !active.is_some_and(|session| session.is_active_with(&bounded(&facts.server.0))) {
            return Some("no other server of the session is known".to_owned());
        }
        let category = act.category.name();
        Some(format!("a call of category {category} breaks no rule after those of the session"))
    }
}

#[cfg(test)]
mod tests;
