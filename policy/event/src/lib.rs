//! The event schema: everything the agent says is one of these, one JSON object a line. It says what an event is, and not
//! when there is one: that is the engine's. Its two most important types are [`Event`], and [`EventBody`], what happened.
//!
//! Defined here once; [`schema`] generates the JSON Schema file from it, and tests hold examples of every event
//! against that. Field names are those of docs/internals/requirements.md wherever it lists one.

mod agent;
mod approval;
mod decision;
pub mod examples;
mod gate;
mod guard;
mod intent;
mod judgement;
mod mute;
mod network;
mod protocol;
mod server;
mod session;
mod store;
mod traffic;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

pub use agent::{
    AgentLoss, AgentStarted, AgentStopped, ClockStep, ConfigRefused, ConfigReloaded, SinkFailing,
    SinkRecovered, TakenOver,
};
pub use approval::{
    ApprovalDenied, ApprovalEnd, ApprovalEnded, ApprovalGranted, ApprovalRequested, ApprovalTimedOut,
    DefinitionApproved, GrantLimits, PinsReset, Whose,
};
pub use decision::{Action, Decided, Objection};
pub use gate::{GateAction, GateDecided};
pub use guard::{GuardDenied, GuardFailing, GuardLoaded, GuardModified, GuardRecovered};
pub use intent::{CallIntent, Executor, ModelIntent, ToolCallIntercepted, ToolNameMatch};
pub use judgement::{
    CrossServerBlocked, DefinitionChanged, Detected, ListChanged, ListKind, RelatedCall, RequestBlocked,
    RequestWarned, Subject, ToolChanged, ToolRemoved,
};
pub use mute::{DetectionMuted, DetectionUnmuted, Mute, MuteEnd, MuteSource, MutedBy};
pub use network::{
    BlockEnd, CallsBlocked, CallsUnblocked, Connecting, Family, NetworkBlocked, NetworkClosed,
    NetworkConnection, NetworkUnblocked, NetworkUninspected, Protocol, RequestRefused, ServerDenied,
    ServerEgress, ServerReachable, ServerUnreachable, TlsMismatch,
};
pub use protocol::{ProtocolViolation, Violation};
pub use server::{
    CapacityExceeded, MatchedBy, PerDirection, ProcessInfo, ServerExecuted, ServerExited, ServerInitialized,
    ServerPreloaded, ServerStarted, ServerUncaptured, ServerVersionChanged, Table, Transport,
};
pub use session::{SessionProfile, SessionSet};
pub use store::{
    AuditHead, CutReason, Link, StoreFailing, StoreReadersCut, StoreRecovered, StoreReplaced, StoreTrimmed,
};
pub use traffic::{
    CallStatus, CaptureGap, ConcurrencyExceeded, InterfaceSeen, Message, MessageKind, RequestTimedOut,
    ToolCalled, ToolResult, ToolSeen, ToolStatus, Trace,
};

use mcpwarden_terms::{ConnectionId, ServerId, SessionId, Timestamp};

pub use mcpwarden_terms::{
    Category, Detection, Era, Form, GapCause, Identity, Json, Match, ServerType, Severity,
};

/// One record of something that happened.
///
/// In JSON, `type` and `timestamp` come first, and the fields of the body are beside those here.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
pub struct Event {
    /// The time of the event. For a message, the time at which its first byte was captured.
    pub timestamp: Timestamp,
    /// The session of the event. Absent from events about the agent itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The server of the event. Absent from events about the agent itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_id: Option<ServerId>,
    /// The transport of that server. Absent without `server_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_type: Option<ServerType>,
    /// The relays between the client and the server, nearest to the client first. Absent without relays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<ServerId>,
    /// The connection. It distinguishes two running servers with one name. Absent from events about the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<ConnectionId>,
    /// The trace of the message that the event is about. Absent where that has none.
    #[serde(flatten)]
    pub trace: Trace,
    /// How many events this one stands for, if the agent folded repeats: it is the last of them, and for gaps `bytes` is the
    /// sum. Absent from an event that stands for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u64>,
    /// What happened.
    #[serde(flatten)]
    pub body: EventBody,
    /// The position of the event in the audit trail. Absent from the output of `replay`.
    #[serde(flatten)]
    pub link: Option<Link>,
    /// The user whose client the event is about. It is not part of the line: the store keeps the shares of users by it.
    #[serde(skip)]
    pub owner: Option<u32>,
}

impl Event {
    /// An event about the agent itself: no session, server or connection.
    pub fn agent(timestamp: Timestamp, body: EventBody) -> Self {
        Self {
            timestamp,
            session_id: None,
            server_id: None,
            server_type: None,
            via: Vec::new(),
            connection: None,
            trace: Trace::default(),
            body,
            repeats: None,
            link: None,
            owner: None,
        }
    }

    /// Moves every time in this event by so many nanoseconds.
    pub fn move_times(&mut self, nanos: i64) {
        let times: Vec<&mut Timestamp> = match &mut self.body {
            EventBody::ServerDenied(denied) => denied.until.iter_mut().collect(),
            EventBody::NetworkBlocked(blocked) | EventBody::CallsBlocked(CallsBlocked(blocked)) => {
                blocked.until.iter_mut().collect()
            }
            EventBody::ApprovalRequested(asked) => vec![&mut asked.expires],
            EventBody::ApprovalGranted(granted) => {
                granted.limits.iter_mut().filter_map(|limits| limits.until.as_mut()).collect()
            }
            EventBody::ApprovalEnded(ended) => ended.limits.until.iter_mut().collect(),
            EventBody::GuardDenied(denied) => denied.valid_until.iter_mut().collect(),
            EventBody::ApprovalTimedOut(given_up) => vec![&mut given_up.requested],
            EventBody::DetectionMuted(muted) => muted.mute.until.iter_mut().collect(),
            EventBody::DetectionUnmuted(unmuted) => unmuted.mute.until.iter_mut().collect(),
            EventBody::CrossServerBlocked(blocked) => {
                blocked.related_calls.iter_mut().map(|call| &mut call.timestamp).collect()
            }
            _ => Vec::new(),
        };
        for time in times.into_iter().chain([&mut self.timestamp]) {
            *time = time.moved(nanos);
        }
    }

    /// How many events it stands for.
    pub fn count(&self) -> u64 {
        self.repeats.unwrap_or(1)
    }

    /// The `type` of this event, such as `mcp_tool_called`.
    pub fn kind(&self) -> &'static str {
        self.body.kind()
    }
}

impl EventBody {
    /// How bad it is; `None` of what is neither good nor bad.
    pub fn severity(&self) -> Option<Severity> {
        match self {
            // Nobody is to be alerted of what is muted.
            Self::Detected(found) => Some(found.detection.severity).filter(|_| !found.muted),
            Self::ToolSeen(tool) => tool.max_severity,
            Self::ToolChanged(changed) => changed.max_severity,
            Self::DefinitionChanged(changed) => changed.max_severity,
            Self::ApprovalRequested(asked) => asked.max_severity,
            Self::CrossServerBlocked(blocked) => Some(blocked.severity),
            Self::TlsMismatch(mismatch) => Some(mismatch.severity),
            Self::ProtocolViolation(violation) => Some(violation.severity),
            Self::ServerEgress(egress) => Some(egress.severity),
            Self::ServerExecuted(executed) => executed.mistaken_for.as_ref().map(|_| Severity::High),
            Self::ServerPreloaded(_) => Some(Severity::Medium),
            Self::GateDecided(GateDecided { action: GateAction::Passed, .. })
            | Self::ClockStep(_)
            | Self::StoreTrimmed(_) => Some(Severity::Medium),
            Self::GateDecided(GateDecided { action: GateAction::Unseen, .. }) => Some(Severity::Critical),
            Self::GateDecided(_)
            | Self::StoreFailing(_)
            | Self::StoreReplaced(_)
            | Self::StoreReadersCut(_)
            | Self::ConfigRefused(_)
            | Self::CapacityExceeded(_)
            | Self::ServerDenied(_) => Some(Severity::High),
            Self::SinkFailing(_) | Self::GuardFailing(_) => Some(Severity::Medium),
            Self::GuardDenied(_) => Some(Severity::High),
            _ => None,
        }
    }

    /// The tool that it is about.
    pub fn tool_name(&self) -> Option<&str> {
        match self {
            Self::ToolSeen(tool) => Some(&tool.tool_name),
            Self::ToolChanged(changed) => Some(&changed.tool_name),
            Self::ToolRemoved(removed) => Some(&removed.tool_name),
            Self::ToolCalled(call) => Some(&call.tool_name),
            Self::ToolResult(result) => Some(&result.tool_name),
            Self::Detected(found) => found.tool_name.as_deref(),
            Self::CrossServerBlocked(blocked) => Some(&blocked.blocked_tool_name),
            Self::ApprovalRequested(asked) => Some(&asked.tool_name),
            Self::ApprovalGranted(granted) => Some(&granted.tool_name),
            Self::ApprovalEnded(ended) => Some(&ended.tool_name),
            Self::ApprovalDenied(denied) => Some(&denied.tool_name),
            Self::ApprovalTimedOut(given_up) => Some(&given_up.tool_name),
            Self::PinsReset(reset) => reset.tool_name.as_deref(),
            Self::DetectionMuted(muted) => muted.mute.tool.as_deref(),
            Self::DetectionUnmuted(unmuted) => unmuted.mute.tool.as_deref(),
            Self::RequestTimedOut(late) => late.tool_name.as_deref(),
            _ => None,
        }
    }

    /// User id of the process that it is about.
    pub fn uid(&self) -> Option<u32> {
        match self {
            Self::ServerStarted(started) => started.uid,
            Self::CapacityExceeded(exceeded) => exceeded.uid,
            Self::AgentLoss(loss) => loss.uid,
            Self::NetworkConnection(connection) => connection.connecting.uid,
            Self::ServerEgress(egress) => egress.connecting.uid,
            Self::NetworkBlocked(blocked) | Self::CallsBlocked(CallsBlocked(blocked)) => Some(blocked.uid),
            Self::NetworkUnblocked(unblocked) | Self::CallsUnblocked(CallsUnblocked(unblocked)) => {
                unblocked.uid
            }
            Self::ApprovalRequested(asked) => asked.whose.uid,
            Self::ApprovalGranted(granted) => granted.whose.uid,
            Self::ApprovalEnded(ended) => ended.whose.uid,
            Self::ApprovalDenied(denied) => denied.whose.uid,
            Self::DefinitionApproved(approved) => approved.whose.uid,
            Self::PinsReset(reset) => reset.whose.uid,
            Self::DetectionMuted(muted) => muted.mute.whose.uid,
            Self::DetectionUnmuted(unmuted) => unmuted.mute.whose.uid,
            Self::StoreReadersCut(cut) => cut.uid,
            Self::StoreTrimmed(trimmed) => trimmed.uid,
            _ => None,
        }
    }
}

/// Defines the bodies once: the enum, the names, and the reference form that [`Event`] is serialised through.
macro_rules! bodies {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// What happened, by the `type` of the event.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "type")]
        pub enum EventBody {
            $($(#[$doc])* #[serde(rename = $name)] $variant($variant),)*
        }

        impl EventBody {
            /// Every `type` there is, in the order of the documentation.
            pub const KINDS: &'static [&'static str] = &[$($name),*];

            /// The `type` of an event with this body.
            pub fn kind(&self) -> &'static str {
                match self { $(Self::$variant(_) => $name,)* }
            }
        }

        /// The body without its tag: `type` has been written by then.
        #[derive(Serialize)]
        #[serde(untagged)]
        enum Untagged<'a> { $($variant(&'a $variant),)* }

        impl<'a> From<&'a EventBody> for Untagged<'a> {
            fn from(body: &'a EventBody) -> Self {
                match body { $(EventBody::$variant(inner) => Self::$variant(inner),)* }
            }
        }

        $(impl From<$variant> for EventBody {
            fn from(inner: $variant) -> Self { Self::$variant(inner) }
        })*
    };
}

bodies! {
    /// Every kernel program is attached: from here on the agent misses nothing.
    AgentStarted = "agent_started",
    /// Something other than bytes of a stream was refused or lost.
    AgentLoss = "agent_loss",
    /// Another configuration is in force from now on.
    ConfigReloaded = "agent_config_reloaded",
    /// The agent cannot use another configuration: the previous one stays in force.
    ConfigRefused = "agent_config_refused",
    /// A sink cannot be written to.
    SinkFailing = "agent_sink_failing",
    /// A sink can be written to again.
    SinkRecovered = "agent_sink_recovered",
    /// A guard that others wrote is ready.
    GuardLoaded = "agent_guard_loaded",
    /// A guard that others wrote fails.
    GuardFailing = "agent_guard_failing",
    /// A guard that others wrote answers again.
    GuardRecovered = "agent_guard_recovered",
    /// The agent ends, with all counters.
    AgentStopped = "agent_stopped",
    /// The wall clock of the host was set.
    ClockStep = "agent_clock_step",
    /// The head of the hash chain.
    AuditHead = "agent_audit_head",
    /// The agent cannot store events.
    StoreFailing = "mcp_store_failing",
    /// The agent can store events again.
    StoreRecovered = "mcp_store_recovered",
    /// The agent set a damaged database aside and began another.
    StoreReplaced = "mcp_store_replaced",
    /// A reader kept the agent from its work on the database, and was cut off.
    StoreReadersCut = "mcp_store_readers_cut",
    /// The oldest events of the user with the most events were removed.
    StoreTrimmed = "mcp_store_trimmed",
    /// An MCP server was recognised.
    ServerStarted = "mcp_server_started",
    /// A process ran another program with a server's standard streams.
    ServerExecuted = "mcp_server_executed",
    /// The environment of a declared server, or an option that is not declared, names code to load.
    ServerPreloaded = "mcp_server_preloaded",
    /// A server lists its definitions in another version.
    ServerVersionChanged = "mcp_server_version_changed",
    /// A table has no capacity for more entries of a server.
    CapacityExceeded = "mcp_capacity_exceeded",
    /// A server answered `initialize` or `server/discover`.
    ServerInitialized = "mcp_server_initialized",
    /// A message does not belong into its conversation.
    ProtocolViolation = "mcp_protocol_violation",
    /// A server offers a tool; once for each connection, name and definition.
    ToolSeen = "mcp_tool_seen",
    /// A tool's definition differs from its pin.
    ToolChanged = "mcp_tool_changed",
    /// Instructions, a prompt or a resource template differs from its pin.
    DefinitionChanged = "mcp_definition_changed",
    /// A server offers a user interface; once for each connection, resource and what it may do.
    InterfaceSeen = "mcp_interface_seen",
    /// A server no longer lists a tool.
    ToolRemoved = "mcp_tool_removed",
    /// A server notified its client that a list has changed.
    ListChanged = "mcp_list_changed",
    /// A text matches a detection rule.
    Detected = "mcp_detection",
    /// An operator muted detections.
    DetectionMuted = "mcp_detection_muted",
    /// A mute of detections ended.
    DetectionUnmuted = "mcp_detection_unmuted",
    /// A client requested a tool call.
    ToolCalled = "mcp_tool_called",
    /// A cross-server rule denies a call.
    CrossServerBlocked = "mcp_cross_server_blocked",
    /// Guards deny a request or an answer other than a tool call.
    RequestBlocked = "mcp_request_blocked",
    /// A guard that others wrote denied an operation, and what follows.
    GuardDenied = "mcp_guard_denied",
    /// A guard that others wrote answers that an operation be changed.
    GuardModified = "mcp_guard_modified",
    /// The gate stopped a write, or the write was undecidable.
    GateDecided = "mcp_gate_decided",
    /// Guards warned about such a request or answer.
    RequestWarned = "mcp_request_warned",
    /// A tool is held until an operator approves it.
    ApprovalRequested = "mcp_approval_requested",
    /// An operator approved a tool.
    ApprovalGranted = "mcp_approval_granted",
    /// A limited approval of a tool ended.
    ApprovalEnded = "mcp_approval_ended",
    /// An operator denied a tool.
    ApprovalDenied = "mcp_approval_denied",
    /// An operator approved a definition other than a tool.
    DefinitionApproved = "mcp_definition_approved",
    /// An operator deleted pins.
    PinsReset = "mcp_pins_reset",
    /// An operator changed the profile of a session.
    SessionSet = "mcp_session_set",
    /// No operator approved a tool in time.
    ApprovalTimedOut = "mcp_approval_timed_out",
    /// A request is unanswered for longer than the server's time limit.
    RequestTimedOut = "mcp_request_timed_out",
    /// A server has more open requests than its limit.
    ConcurrencyExceeded = "mcp_concurrency_exceeded",
    /// A server answered a tool call.
    ToolResult = "mcp_tool_result",
    /// Any other message; only with `--verbose`.
    Message = "mcp_message",
    /// A process connects to a declared server, or to a denied address.
    NetworkConnection = "mcp_network_connection",
    /// The agent closed open connections to an address that became denied.
    NetworkClosed = "mcp_network_closed",
    /// An undeclared server answered at an address, and is denied.
    ServerDenied = "mcp_server_denied",
    /// An operator blocked a destination.
    NetworkBlocked = "mcp_network_blocked",
    /// The block of a destination ended.
    NetworkUnblocked = "mcp_network_unblocked",
    /// An operator blocked all calls of a server or a session.
    CallsBlocked = "mcp_calls_blocked",
    /// The block of calls ended.
    CallsUnblocked = "mcp_calls_unblocked",
    /// The agent cannot inspect the messages between a client and a server over TCP.
    NetworkUninspected = "mcp_network_uninspected",
    /// A model wants a tool to be called.
    ToolCallIntercepted = "mcp_tool_call_intercepted",
    /// A server over HTTP refused a request.
    RequestRefused = "mcp_request_refused",
    /// The agent listed a declared server, for the first time or again.
    ServerReachable = "mcp_server_reachable",
    /// The agent cannot list a declared server.
    ServerUnreachable = "mcp_server_unreachable",
    /// A declared server shows a certificate that does not match its fingerprint.
    TlsMismatch = "mcp_tls_mismatch",
    /// A process of a server connects to a destination.
    ServerEgress = "mcp_server_egress",
    /// A server ended.
    ServerExited = "mcp_server_exited",
    /// A server runs whose messages the agent cannot capture.
    ServerUncaptured = "mcp_server_uncaptured",
    /// Bytes of a stream were not captured.
    CaptureGap = "mcp_capture_gap",
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // A derived implementation would put `type` behind the other fields; people read lines from the left.
        #[derive(Serialize)]
        struct Line<'a> {
            r#type: &'static str,
            timestamp: Timestamp,
            #[serde(skip_serializing_if = "Option::is_none")]
            session_id: &'a Option<SessionId>,
            #[serde(skip_serializing_if = "Option::is_none")]
            server_id: &'a Option<ServerId>,
            #[serde(skip_serializing_if = "Option::is_none")]
            server_type: Option<ServerType>,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            via: &'a [ServerId],
            #[serde(skip_serializing_if = "Option::is_none")]
            connection: Option<ConnectionId>,
            #[serde(flatten)]
            trace: &'a Trace,
            #[serde(skip_serializing_if = "Option::is_none")]
            repeats: Option<u64>,
            #[serde(flatten)]
            body: Untagged<'a>,
            #[serde(flatten)]
            link: &'a Option<Link>,
        }
        let line = Line {
            r#type: self.kind(),
            timestamp: self.timestamp,
            session_id: &self.session_id,
            server_id: &self.server_id,
            server_type: self.server_type,
            via: &self.via,
            connection: self.connection,
            trace: &self.trace,
            repeats: self.repeats,
            body: Untagged::from(&self.body),
            link: &self.link,
        };
        line.serialize(serializer)
    }
}

/// The JSON Schema (draft 2020-12) of one event line, generated from the types of this module.
pub fn schema() -> serde_json::Value {
    schemars::SchemaGenerator::default().into_root_schema_for::<Event>().to_value()
}

/// Left out where it is not so, as it mostly is.
fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests;
