//! Guards: everything that judges an operation is one, in the phases and with the answers of one contract.
//!
//! A [`Guard`] sees an [`Operation`] with the [`Facts`] about it and answers with a [`Decision`]. It has no clock and
//! no network; what it keeps between operations is its own. This program does not sit in the stream, so a guard that must stop
//! something denies, and [`Decision::Modify`] changes what is recorded. Guards that others wrote ([`external`]) answer later: what
//! they deny stands from then on, and is among the facts.

pub(crate) mod arguments;
mod denial;
pub mod external;
pub(crate) mod rule;

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::config::ArgumentTests;
use crate::detect::{Ahead, ToolNames};
use crate::event::SessionProfile;
use crate::mutes::MutesOf;
use crate::terms::{
    Callee, ConnectionId, Detection, Identity, Mode, ServerId, SessionId, Severity, Timestamp,
};
pub use arguments::{Assumption, Conditions};
pub(crate) use arguments::{Call, Check, Checks, CompiledConditions, Purpose, alike_keys, key_expression};
pub use denial::{BrokenRule, Denial, DenialCode, DenialDetails, TurnSource};
pub use external::StandingDenial;
pub use rule::AccessLists;

pub use crate::terms::{GuardKind, Phase, PinState, RiskLevel, ToolCategory, Trust};

/// What is judged. Texts are JSON as it was sent.
#[allow(missing_docs, reason = "fields are named as MCP names them")]
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// A request, of the client's or of the server's (`sampling/createMessage`).
    Request { method: &'a str, params: Option<&'a RawValue> },
    /// An answer to one: its result, or its error.
    Response { method: &'a str, result: Option<&'a RawValue>, error: Option<&'a RawValue> },
    /// The tools that a server lists: one whole list, however many pages it came in.
    ToolsList { tools: &'a [ToolFacts] },
    /// A tool is called.
    ToolInvoke { tool_name: &'a str, arguments: Option<&'a RawValue> },
    /// A call is answered, by a result or an error.
    ToolResult { tool_name: &'a str, result: Option<&'a RawValue>, error: Option<&'a RawValue> },
    /// A prompt is asked for.
    PromptRequest { name: &'a str, arguments: Option<&'a RawValue> },
    /// A resource is asked for; whether its server has listed it, word for word.
    ResourceRequest { uri: &'a str, is_listed: bool },
}

impl Operation<'_> {
    /// The phase that it belongs to.
    pub fn phase(&self) -> Phase {
        match self {
            Self::Request { .. } => Phase::Request,
            Self::Response { .. } => Phase::Response,
            Self::ToolsList { .. } => Phase::ToolsList,
            Self::ToolInvoke { .. } => Phase::ToolInvoke,
            Self::ToolResult { .. } => Phase::ToolResult,
            Self::PromptRequest { .. } => Phase::PromptRequest,
            Self::ResourceRequest { .. } => Phase::ResourceRequest,
        }
    }
}

/// Why a tool stays denied whose approval was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Somebody said no.
    Denied,
    /// Nobody said anything in time.
    TimedOut,
}

/// What is known of a tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolFacts {
    /// As it is listed.
    pub name: Arc<str>,
    /// SHA-256 of the canonical definition, 64 hexadecimal digits, as events have it.
    pub hash: Arc<str>,
    /// How that stands to the pin.
    pub pin: PinState,
    /// Whether somebody approved this definition.
    pub approved: bool,
    /// What it does.
    pub category: ToolCategory,
    /// How risky it is.
    pub risk: RiskLevel,
    /// Such as `fs.write`.
    pub side_effects: BTreeSet<String>,
    /// Whether it may have any side effect, since nothing tells what it does.
    pub may_do_anything: bool,
    /// For which arguments somebody approved calls of this definition, where it is for some alone. For the gate.
    pub approved_for: Option<Arc<Vec<ArgumentTests>>>,
    /// Whether an approval of this definition was refused, and how. Never of one that is approved.
    pub refusal: Option<Refusal>,
    /// What was found in the definition.
    pub detections: Vec<Detection>,
    /// The worst of it.
    pub max_severity: Option<Severity>,
    /// The server whose tool of this name was there first, where that is another one.
    pub shadows: Option<ServerId>,
    /// Whether its server lists it no more. What was against it then still is.
    pub removed: bool,
    /// Whether it was compared with no pin, for want of room: nobody knows whether it has changed.
    pub is_uncompared: bool,
    /// The guards that hold it until they have judged its definition, and have not.
    pub unjudged: Vec<Arc<str>>,
}

impl ToolFacts {
    /// The same, for a call that somebody approved.
    pub(crate) fn as_approved(&self) -> Self {
        Self { approved: true, refusal: None, approved_for: None, ..self.clone() }
    }
}

/// Whether a server's tools are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listing {
    /// Nothing is known: it may have listed them before the agent saw it.
    #[default]
    Unknown,
    /// It has not listed them yet.
    Pending {
        /// When it was first seen.
        since: Timestamp,
    },
    /// It has.
    Listed,
}

/// A client's place in the configuration: the first entry of `sessions:` that matches it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Whether it plans, which has no side effects.
    pub planning: bool,
    /// Whether the specification that it works on is frozen, and the hash of it.
    pub spec_frozen: bool,
    /// The hash of that specification.
    pub spec_hash: Option<String>,
    /// The project that it works on.
    pub project_id: Option<String>,
    /// Side effects that it must not have.
    pub policy_blacklist: BTreeSet<String>,
    /// Whether a token of an administrator is there.
    pub admin_token: bool,
    /// The servers and tools that it may use. One entry of the configuration has one of these.
    pub lists: Option<Shared<AccessLists>>,
}

/// What is the same only where it is one and the same.
#[derive(Debug)]
pub struct Shared<T>(pub Arc<T>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> Eq for Shared<T> {}

impl Profile {
    /// As events have it.
    pub fn view(&self) -> SessionProfile {
        SessionProfile {
            mode: if self.planning { Mode::Planning } else { Mode::Execution },
            spec_frozen: self.spec_frozen,
            spec_hash: self.spec_hash.as_ref().and_then(|hash| hash.parse().ok()),
            project_id: self.project_id.clone(),
            policy_blacklist: self.policy_blacklist.clone(),
            admin_token: self.admin_token,
        }
    }
}

/// A block of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallBlock {
    /// Whose.
    pub callee: Callee,
    /// Until when; `None`: until it is lifted.
    pub until: Option<Timestamp>,
    /// Why, in words.
    pub reason: Option<String>,
}

/// Everything that is known about an operation, besides the operation itself.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// Which server.
    pub server: &'a ServerId,
    /// What its programs are called besides, and what it is called may be among them: what is denied of any of these names is
    /// denied of it. None of them allows anything.
    pub also: &'a [ServerId],
    /// Whether it is declared.
    pub identity: Identity,
    /// Whether its declaration says that it may be used.
    pub enabled: bool,
    /// How far it is trusted.
    pub trust: Trust,
    /// Whether its tools are known.
    pub listing: Listing,
    /// Whose session.
    pub session: &'a SessionId,
    /// On which connection.
    pub connection: ConnectionId,
    /// The JSON-RPC id of the request, or of the request that is answered, as it is recorded: of the first of several tries, and
    /// of the call that became a task. None of a notification.
    pub jsonrpc_id: Option<&'a Value>,
    /// What its client calls the host of the server, which may be an address; none of a process.
    pub host: Option<&'a str>,
    /// User id of the client, where that is known.
    pub uid: Option<u32>,
    /// The turn of the model that this belongs to, where something tells; else it is told by time.
    pub turn: Option<&'a str>,
    /// Whether it is a request that was evaluated before, and is sent again with what its server asked for: it is not counted
    /// as another.
    pub is_retry: bool,
    /// Whether its server has listed the resource that it is about, word for word.
    pub lists_resource: bool,
    /// The tool that is called, where the server lists it.
    pub tool: Option<&'a ToolFacts>,
    /// The names of all tools of the session.
    pub tool_names: &'a ToolNames,
    /// What was inspected ahead of the message at hand, if that is a long one.
    pub ahead: Option<&'a Ahead>,
    /// What conditions of rules are asked of.
    pub conditions: Conditions<'a>,
    /// The client's place in the configuration.
    pub profile: &'a Profile,
    /// What an operator blocks of it.
    pub block: Option<&'a CallBlock>,
    /// What guards that others wrote deny of the server and the session.
    pub standing: &'a [Arc<StandingDenial>],
    /// The detections in texts that are no alerts. What is known of `tool` is marked already.
    pub mutes: MutesOf<'a>,
    /// Anything else, for guards that are not in this process: `server` and `client`, each with `pid`, `uid`, `cgroup_id`
    /// and `executable` of the process, null where it is not known; and `http`, over HTTP, with those of
    /// `protocol_version`, `traceparent`, `tracestate` and `user_agent` that the request's head has ([`HttpMeta`]).
    ///
    /// [`HttpMeta`]: crate::http::HttpMeta
    pub metadata: &'a Value,
}

impl<'a> Facts<'a> {
    /// All names of the server: what is denied of one of them is denied.
    pub fn names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        std::iter::once(self.server).chain(self.also).map(|id| &*id.0)
    }
}

/// How what is recorded is changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Modification {
    /// Only these tools of the list are registered, by name.
    ReplaceTools(Vec<String>),
    /// What these JSONPath expressions select is replaced.
    RedactFields {
        /// Expressions (RFC 9535).
        paths: Vec<String>,
        /// What stands in place.
        replacement: String,
    },
    /// Detections of the guard itself are recorded with it, all of them muted, and nothing else comes of them.
    NoteMuted {
        /// What the guard found.
        detections: Vec<Detection>,
    },
    /// A warning stands beside it.
    AddWarning {
        /// The warning.
        message: String,
        /// What the guard itself found, where it looked.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        detections: Vec<Detection>,
    },
}

/// What a guard answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// It has no objection.
    Allow,
    /// It must not be.
    Deny(Denial),
    /// It may be, but is recorded otherwise.
    Modify(Modification),
}

/// A guard could not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuardError {
    /// What it was configured with makes no sense.
    #[error("configuration: {0}")]
    Config(String),
    /// It took longer than it may, or the operation is more work than it may do.
    #[error("no answer in time")]
    Timeout,
    /// Anything else.
    #[error("internal error: {0}")]
    Internal(String),
}

/// What is recorded in place of what was sent, as JSON; `None` where nothing of it was redacted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Of a request: its params.
    pub params: Option<String>,
    /// Of a call or a request for a prompt, its arguments; of an answer, its result.
    pub body: Option<String>,
}

/// What all guards together said of an operation, in the end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Who denied it, and why. `None`: it is allowed.
    pub denied: Option<(GuardKind, Denial)>,
    /// Who denied it as well: [`GuardKind::is_across_servers`] says who is asked whatever others say.
    pub also: Vec<(GuardKind, Denial)>,
    /// How what is recorded is changed, in order.
    pub modifications: Vec<(GuardKind, Modification)>,
    /// What came of redactions.
    pub recorded: Recorded,
    /// Guards that failed and let it pass, and why.
    pub failed_open: Vec<(GuardKind, GuardError)>,
    /// Whether it really was stopped: by a denial, or with what was.
    pub enforced: bool,
}

/// Something that judges.
pub trait Guard: std::fmt::Debug + Send + Any {
    /// Which it is.
    fn kind(&self) -> GuardKind;

    /// The phases that it has something to say in, where the configuration names none.
    fn phases(&self) -> &'static [Phase] {
        self.kind().phases()
    }

    /// How much of an operation it reads, in bytes. It has no clock: an operation that is more than fits into its
    /// `timeout_ms` (see the executor's `WORK_BYTES_PER_MS`) is not put to it, and that is a timeout.
    fn work(&self, operation: &Operation<'_>) -> usize {
        let _ = operation;
        0
    }

    /// Judges an operation.
    ///
    /// # Errors
    /// It cannot; its `failure_mode` says what that means.
    fn check(
        &mut self,
        operation: &Operation<'_>,
        facts: &Facts<'_>,
        now: Timestamp,
    ) -> Result<Decision, GuardError>;

    /// Why it has no objection to an operation that it has just let through, in words. Asked only where somebody wants to
    /// know.
    fn why(&self, operation: &Operation<'_>, facts: &Facts<'_>, now: Timestamp) -> Option<String> {
        let _ = (operation, facts, now);
        None
    }

    /// Takes note of what became of an operation, of whatever phase and server, whoever decided.
    fn settled(&mut self, operation: &Operation<'_>, facts: &Facts<'_>, verdict: &Verdict, now: Timestamp) {
        let _ = (operation, facts, verdict, now);
    }

    /// Takes note that answers of a connection of a session were not captured.
    fn lost(&mut self, session: &SessionId, connection: ConnectionId, now: Timestamp) {
        let _ = (session, connection, now);
    }

    /// Takes over what the guard of its kind remembers that was in its place under the configuration before.
    fn succeed(&mut self, before: &mut dyn Any) {
        let _ = before;
    }

    /// What it knows of a session's turn; `None`: nothing, or it does not go by turns.
    fn turn(&self, session: &SessionId) -> Option<TurnState> {
        let _ = session;
        None
    }

    /// Bounds that it reached so far, by name.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// How far the model's turn has come in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnState {
    /// The newest call that is known.
    pub newest_call: Timestamp,
    /// The last call or answer.
    pub last: Timestamp,
    /// Calls of the turn without an answer.
    pub open: u64,
    /// The server that was seen first in the session.
    pub first: Option<Arc<str>>,
    /// Whether another was: the rules across servers count.
    pub has_several: bool,
    /// The server whose data came last of what was read, and when it came.
    pub newest_read: Option<(Arc<str>, Timestamp)>,
    /// When data of another server than that came last.
    pub other_read: Option<Timestamp>,
}
