//! Why something is denied: for people, and for machines.

use std::sync::Arc;

use serde::Serialize;

use crate::config::FailureMode;
use crate::event::RelatedCall;
use crate::terms::{Detection, ServerId, Severity, Timestamp};

/// Why something is denied.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Denial {
    /// For machines.
    pub code: DenialCode,
    /// For people: which rule, on what.
    pub message: String,
    /// More, for machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<DenialDetails>,
}

impl Denial {
    /// Whether the approval of the tool ends it, so that somebody is to be asked for it. A denial with the code
    /// [`DenialCode::ApprovalRequired`] is one of these, whichever guard's.
    pub fn awaits_approval(&self) -> bool {
        use DenialCode::{ApprovalRequired, ShadowTool, ToolChanged};
        matches!(self.code, ApprovalRequired | ShadowTool | ToolChanged)
    }
}

/// An enum of codes, each with its name.
macro_rules! codes {
    ($(#[$of_all:meta])* $type:ident { $($(#[$doc:meta])* $code:ident = $name:literal,)* }) => {
        $(#[$of_all])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        pub enum $type {
            $($(#[$doc])* #[serde(rename = $name)] $code,)*
        }

        impl $type {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$code),*];

            /// As events have it. It never changes.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$code => $name,)*
                }
            }
        }
    };
}

codes! {
    /// Why something is denied, for machines: docs/reference/guards.md says which guard denies with which.
    DenialCode {
        /// An operator blocks the server.
        ServerBlocked = "server_blocked",
        /// An operator blocks the session.
        SessionBlocked = "session_blocked",
        /// The server is declared with `enabled: false`.
        ServerDisabled = "server_disabled",
        /// A rule denies the server.
        ServerDenied = "server_denied",
        /// No rule allows the server.
        ServerNotAllowed = "server_not_allowed",
        /// The server is not declared, which `fail_closed` denies.
        ServerUndeclared = "server_undeclared",
        /// The server has not listed its tools in time, which `fail_closed` denies.
        ServerPending = "server_pending",
        /// A rule denies the tool.
        ToolDenied = "tool_denied",
        /// No rule allows the tool.
        ToolNotAllowed = "tool_not_allowed",
        /// The tool has another definition than a rule allows.
        ToolHashMismatch = "tool_hash_mismatch",
        /// The server does not list the tool, which `fail_closed` denies.
        UnknownTool = "unknown_tool",
        /// The tool has a side effect that is denied.
        SideEffectDenied = "side_effect_denied",
        /// Nobody has approved the tool yet.
        ApprovalRequired = "approval_required",
        /// Somebody denied the approval of the tool.
        ApprovalDenied = "approval_denied",
        /// Nobody approved the tool in time.
        ApprovalTimedOut = "approval_timed_out",
        /// Another server of the session had a tool of this name first.
        ShadowTool = "shadow_tool",
        /// The definition changed since it was pinned.
        ToolChanged = "tool_changed",
        /// The definition has detections.
        ToolPoisoned = "tool_poisoned",
        /// One server was read, and another is to send.
        ReadThenSend = "read_then_send",
        /// One server is called very often.
        Burst = "burst",
        /// One server was read, and another is to write or send in the same turn.
        CrossServerFlow = "cross_server_flow",
        /// There are more calls than the rate limit allows.
        RateLimited = "rate_limited",
        /// A text that a server answers with has detections.
        ResultInjection = "result_injection",
        /// What a server asks of the client's model or user has detections.
        SamplingInjection = "sampling_injection",
        /// Servers may ask nothing of the client's model or user.
        SamplingDenied = "sampling_denied",
        /// The tool is switched off.
        ToolDisabled = "tool_disabled",
        /// The tool has side effects, and the client plans.
        PlanningMode = "planning_mode",
        /// The risk of the tool needs a frozen specification.
        SpecNotFrozen = "spec_not_frozen",
        /// The risk of the tool needs a project.
        ProjectRequired = "project_required",
        /// The tool needs a token of an administrator.
        AdminTokenRequired = "admin_token_required",
        /// The guard had no answer in time, which its `failure_mode` denies.
        GuardTimeout = "guard_timeout",
        /// The guard failed otherwise, which its `failure_mode` denies.
        GuardError = "guard_error",
        /// A guard that others wrote denied it, or what it belongs to.
        GuardDenied = "guard_denied",
        /// Such a guard has not judged the definition of the tool yet, and holds it until then.
        GuardPending = "guard_pending",
    }
}

/// What a denial tells besides its code.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum DenialDetails {
    /// A rule across servers is broken.
    Rule(BrokenRule),
    /// A definition has detections.
    Definition {
        /// The worst of them.
        severity: Option<Severity>,
        /// The rules that found something, each once.
        rules: Vec<String>,
    },
    /// A text has detections.
    Text {
        /// The worst of them.
        severity: Severity,
        /// Those that count.
        detections: Vec<Detection>,
    },
    /// The guard failed.
    Failure {
        /// By which that denies.
        failure_mode: FailureMode,
    },
    /// A guard that others wrote denied it earlier.
    External {
        /// What the configuration calls it.
        name: Arc<str>,
        /// What it gave as the code; empty where it has not judged yet.
        code: Arc<str>,
        /// Until when the denial stands.
        #[serde(skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
}

/// A rule about several servers of a session that a call breaks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BrokenRule {
    /// Which: the code of the denial, but for a tool of which the approval was denied or timed out.
    pub rule: DenialCode,
    /// How bad that is.
    pub severity: Severity,
    /// The server that had the tool's name first (bounded), where the rule is about that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original_server_id: Option<ServerId>,
    /// The calls before it that the rule is about.
    pub related: Vec<RelatedCall>,
    /// How the turn is known, where the rule goes by turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnSource>,
}

/// What tells the turns of the model apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnSource {
    /// The ids that requests carry.
    RequestId,
    /// Pauses between calls.
    Gap,
}
