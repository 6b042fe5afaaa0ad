//! What is counted from events as they go by, since the agent's own counters do not have its labels.

use std::collections::HashMap;
use std::time::Duration;

use mcpwarden_policy::{
    Event, EventBody, ServerId, Timestamp,
    event::{Action, CallStatus, Category, Connecting, GapCause, GateAction, ServerType, Severity},
    guard::GuardKind,
    terms::contract::{GuardFailure, GuardReply},
};
use prometheus::{
    Histogram, HistogramOpts, IntCounter, IntCounterVec, Opts, Registry, Result, core::Collector,
};
use serde::Serialize;

use super::table::{self, Source};
use crate::external::Answered;
use crate::output::escaped;

/// Servers that are told apart. A server's name is whatever its client calls it, so there is a bound.
pub const SERVERS: usize = 100;
/// What the others are called.
const OTHER: &str = "other";
/// Longest id of a server that is a label. Bytes.
const ID_BYTES: usize = 128;

const ACTIONS: [Action; 3] = [Action::Allow, Action::Alert, Action::Block];
const SEVERITIES: [Severity; 4] = [Severity::Low, Severity::Medium, Severity::High, Severity::Critical];
/// All that the event schema knows, as of what follows; a test looks.
pub const GATE_ACTIONS: [GateAction; 4] =
    [GateAction::Neutralized, GateAction::Refused, GateAction::Passed, GateAction::Unseen];
/// See above.
pub const CAUSES: [GapCause; 15] = [
    GapCause::RingFull,
    GapCause::Splice,
    GapCause::Vmsplice,
    GapCause::Tee,
    GapCause::Sendfile,
    GapCause::IoUringFixed,
    GapCause::Unreadable,
    GapCause::Unseen,
    GapCause::Unread,
    GapCause::CandidateBudget,
    GapCause::Memory,
    GapCause::UserShare,
    GapCause::TooLong,
    GapCause::StartedLate,
    GapCause::AgentEnded,
];

/// Numbers of one server.
#[derive(Debug)]
struct Calls {
    /// By [`Action`].
    by_action: [IntCounter; 3],
    /// By [`CallStatus`].
    by_status: [IntCounter; 2],
}

/// Counts what goes by.
#[derive(Debug)]
pub struct Observer {
    types: HashMap<&'static str, IntCounter>,
    calls: IntCounterVec,
    results: IntCounterVec,
    servers: HashMap<ServerId, Calls>,
    others: Calls,
    call_seconds: Histogram,
    latency_seconds: Histogram,
    engine_seconds: Histogram,
    gate_seconds: Histogram,
    detections: HashMap<(Category, Severity), IntCounter>,
    detections_muted: IntCounterVec,
    denials: IntCounterVec,
    guard_answers: IntCounterVec,
    guard_seconds: Histogram,
    gate: IntCounterVec,
    connections: IntCounterVec,
    gaps: IntCounterVec,
    gap_bytes: IntCounterVec,
}

impl Observer {
    /// One that registers what it counts.
    ///
    /// # Errors
    /// The table has a name twice, or one that is none; a test looks.
    pub fn new(registry: &Registry) -> Result<Self> {
        let types = counters(table::EVENTS, registry)?;
        let detections = counters(table::DETECTIONS, registry)?;
        let detections_muted = counters(table::DETECTIONS_MUTED, registry)?;
        let (calls, results) = (counters(table::CALLS, registry)?, counters(table::RESULTS, registry)?);
        let kinds =
            Category::ALL.iter().flat_map(|category| SEVERITIES.map(|severity| (*category, severity)));
        let observer = Self {
            types: EventBody::KINDS.iter().map(|kind| (*kind, types.with_label_values(&[kind]))).collect(),
            others: of_server(&calls, &results, OTHER),
            calls,
            results,
            servers: HashMap::new(),
            call_seconds: seconds(table::CALL_SECONDS, registry)?,
            latency_seconds: seconds(table::LATENCY_SECONDS, registry)?,
            engine_seconds: seconds(table::ENGINE_SECONDS, registry)?,
            gate_seconds: seconds(table::GATE_SECONDS, registry)?,
            detections_muted,
            detections: kinds
                .map(|kind| (kind, detections.with_label_values(&[word(&kind.0), word(&kind.1)])))
                .collect(),
            denials: counters(table::DENIALS, registry)?,
            guard_answers: counters(table::GUARD_ANSWERS, registry)?,
            guard_seconds: seconds(table::GUARD_SECONDS, registry)?,
            gate: counters(table::GATE, registry)?,
            connections: counters(table::CONNECTIONS, registry)?,
            gaps: counters(table::GAPS, registry)?,
            gap_bytes: counters(table::GAP_BYTES, registry)?,
        };
        observer.begin_at_zero();
        Ok(observer)
    }

    /// A first one is growth, for who looks for growth, only where there was a number before.
    fn begin_at_zero(&self) {
        for enforced in [false, true].map(yes_or_no) {
            for guard in GuardKind::ALL {
                self.denials.with_label_values(&[guard.name(), enforced]);
            }
            for action in ACTIONS.map(action) {
                for kind in ["network", "egress"] {
                    self.connections.with_label_values(&[kind, action, enforced]);
                }
            }
        }
        for action in GATE_ACTIONS {
            self.gate.with_label_values(&[&*word(&action), OTHER]);
        }
        for (transport, cause) in
            ["stdio", "http", "socket"].iter().flat_map(|one| CAUSES.map(|cause| (*one, word(&cause))))
        {
            self.gaps.with_label_values(&[transport, &cause]);
            for direction in ["c2s", "s2c"] {
                self.gap_bytes.with_label_values(&[transport, direction, &cause]);
            }
        }
    }

    /// An event is said. `now` is asked for where its lateness counts.
    pub fn event(&mut self, event: &Event, now: impl Fn() -> Timestamp) {
        if let Some(count) = self.types.get(event.kind()) {
            count.inc_by(event.count());
        }
        match &event.body {
            EventBody::ToolCalled(call) => {
                self.late(event.timestamp, now());
                self.of(event.server_id.as_ref()).by_action[call.decided.action as usize]
                    .inc_by(event.count());
                if call.decided.action == Action::Block {
                    self.denied(call.decided.guard, call.decided.enforced, event.count());
                }
            }
            EventBody::ToolResult(result) => {
                self.late(event.timestamp, now());
                self.of(event.server_id.as_ref()).by_status[usize::from(result.status == CallStatus::Error)]
                    .inc();
                self.call_seconds.observe(in_seconds(result.latency_ns));
            }
            EventBody::GateDecided(decided) => {
                // Codes that are no guard's are few: those of docs/internals/gate.md.
                let reason = decided.guard.map_or(decided.code.as_str(), |guard| guard.name());
                self.gate.with_label_values(&[&*word(&decided.action), reason]).inc_by(event.count());
            }
            EventBody::RequestBlocked(blocked) => {
                self.denied(Some(blocked.guard), blocked.enforced, event.count());
            }
            EventBody::Detected(found) if found.muted => {
                self.detections_muted
                    .with_label_values(&[&*word(&found.detection.category)])
                    .inc_by(event.count());
            }
            EventBody::Detected(found) => {
                let kind = (found.detection.category, found.detection.severity);
                if let Some(count) = self.detections.get(&kind) {
                    count.inc_by(event.count());
                }
            }
            EventBody::NetworkConnection(connection) => {
                self.connects("network", &connection.connecting, event.count());
            }
            EventBody::ServerEgress(egress) => self.connects("egress", &egress.connecting, event.count()),
            EventBody::CaptureGap(gap) => {
                let (transport, cause) = (transport(event.server_type.unwrap_or_default()), word(&gap.cause));
                self.gaps.with_label_values(&[transport, &cause]).inc_by(event.count());
                let labels = [transport, &word(&gap.direction), &cause];
                self.gap_bytes.with_label_values(&labels).inc_by(gap.bytes);
            }
            _ => {}
        }
    }

    /// A guard that others wrote has answered, or has not.
    pub fn guard(&self, answered: &Answered) {
        let answer = match &answered.answer {
            Ok(GuardReply::Allow) => "allow",
            Ok(GuardReply::Deny { .. }) => "deny",
            Ok(GuardReply::Modify { .. }) => "modify",
            Err(GuardFailure::Timeout) => "timeout",
            Err(GuardFailure::Limit(_)) => "limit",
            Err(GuardFailure::Error(_)) => "error",
            Err(GuardFailure::Refused(_)) => "refused",
        };
        self.guard_answers.with_label_values(&[&*answered.guard.name, answer]).inc();
        self.guard_seconds.observe(answered.elapsed.as_secs_f64());
    }

    /// The policy core took so long for an input.
    pub fn engine(&self, took: Duration) {
        self.engine_seconds.observe(took.as_secs_f64());
    }

    /// What was told by bytes that came then counts in the gate's table now.
    pub fn gate(&self, since: Timestamp, now: Timestamp) {
        self.gate_seconds.observe(in_seconds(now.nanos_since(since)));
    }

    fn late(&self, captured: Timestamp, now: Timestamp) {
        self.latency_seconds.observe(in_seconds(now.nanos_since(captured)));
    }

    fn denied(&self, guard: Option<GuardKind>, enforced: bool, count: u64) {
        let guard = guard.map_or(OTHER, GuardKind::name);
        self.denials.with_label_values(&[guard, yes_or_no(enforced)]).inc_by(count);
    }

    fn connects(&self, kind: &str, connecting: &Connecting, count: u64) {
        let labels = [kind, action(connecting.action), yes_or_no(connecting.enforced)];
        self.connections.with_label_values(&labels).inc_by(count);
    }

    /// The numbers of a server.
    fn of(&mut self, server: Option<&ServerId>) -> &Calls {
        let Some(server) = server else { return &self.others };
        if !self.servers.contains_key(server) && self.servers.len() < SERVERS && server.0.len() <= ID_BYTES {
            let fresh = of_server(&self.calls, &self.results, &escaped(&server.0));
            self.servers.insert(server.clone(), fresh);
        }
        self.servers.get(server).unwrap_or(&self.others)
    }
}

fn of_server(calls: &IntCounterVec, results: &IntCounterVec, server: &str) -> Calls {
    let by_status = [CallStatus::Ok, CallStatus::Error];
    Calls {
        by_action: ACTIONS.map(|one| calls.with_label_values(&[server, action(one)])),
        by_status: by_status.map(|status| results.with_label_values(&[server, &word(&status)])),
    }
}

fn register<C: Collector + Clone + 'static>(registry: &Registry, collector: C) -> Result<C> {
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
}

fn counters(name: &str, registry: &Registry) -> Result<IntCounterVec> {
    let metric = table::of(name);
    register(registry, IntCounterVec::new(Opts::new(metric.name, metric.help), &metric.labels())?)
}

fn seconds(name: &str, registry: &Registry) -> Result<Histogram> {
    let metric = table::of(name);
    let bounds = if let Source::Seconds(bounds) = metric.source { bounds.to_vec() } else { Vec::new() };
    let options = HistogramOpts::new(metric.name, metric.help).buckets(bounds);
    register(registry, Histogram::with_opts(options)?)
}

/// How a server is reached, as a label.
pub fn transport(kind: ServerType) -> &'static str {
    match kind {
        ServerType::Stdio => "stdio",
        ServerType::Http | ServerType::Sse => "http",
        ServerType::Tcp | ServerType::Unix => "socket",
    }
}

fn action(action: Action) -> &'static str {
    match action {
        Action::Allow => "allow",
        Action::Alert => "alert",
        Action::Block => "block",
    }
}

fn yes_or_no(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

/// The event schema's word for a value.
fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => OTHER.to_owned(),
    }
}

fn in_seconds(nanoseconds: u64) -> f64 {
    Duration::from_nanos(nanoseconds).as_secs_f64()
}
