//! The guards that are built in, and who asks them.
//!
//! [`build`] makes of a [`Config`](crate::config::Config) the [`Executor`], which is asked about every operation. docs/reference/guards.md says
//! what each guard goes by, and what can enforce its denials.
//!
//! | module | guards |
//! |---|---|
//! | `definitions` | `tool_shadowing`, `rug_pull`, `tool_poisoning` |
//! | `cross_server` | `cross_server` |
//! | `access` | `server_access`, `tool_access` |
//! | `rate` | `rate_limit` |
//! | `texts` | `result_injection`, `sampling` |
//! | `capabilities` | `disabled_tool`, `mode`, `spec_frozen`, `project_binding`, `side_effects`, `admin_token` |
//! | `external` | `wasm`, `http` |
//!
//! `profile` says what the capability checks go by: which entry of `sessions:` a client has; `blocked`, what is denied by hand before any of them is
//! asked; `rules`, which servers and tools a rule of the configuration names; `question` and `trace`, what the executor is asked, and
//! what it tells; `external`, the denials of guards that others wrote.

mod access;
mod blocked;
mod build;
mod capabilities;
mod cross_server;
mod definitions;
mod executor;
mod external;
mod profile;
mod question;
mod rate;
mod rules;
mod texts;
mod trace;

use crate::guard::{
    Decision, Denial, DenialCode, DenialDetails, GuardError, Modification, Refusal, ToolFacts,
};
use crate::terms::{GuardKind, Phase};

pub use crate::guard::CallBlock;
pub use crate::terms::{Callee, ProfileKey};
pub use blocked::CallBlocks;
pub(crate) use build::is_on;
pub use build::{ServerDenials, build, default_priority, denied_servers};
pub(crate) use cross_server::is_of_network;
pub use executor::{Executor, GuardCounters, Seat, WORK_BYTES_PER_MS, redact};
pub use external::{
    Consequence, ExternalGuard, StandingDenials, Subjects, Verdicts, consequence, failed as failure_of,
};
pub use profile::{Client, ProfileChange, SessionRule, SessionRules, Setting, TooManyProfiles};
pub use question::Question;
pub(crate) use rate::{Limiter, interval_and_slack};
pub use texts::brings_text;
pub use trace::{Asked, GuardOutcome};

/// What can make a denial real.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Enforcer {
    /// The gate on what clients write: `enforcement.stdio`.
    StdioGate,
    /// The hook on connections: `enforcement.network`.
    NetworkHook,
    /// Somebody's approval ends it.
    Approval,
}

impl Enforcer {
    /// As the documentation calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::StdioGate => "gate",
            Self::NetworkHook => "network hook",
            Self::Approval => "held until approved",
        }
    }
}

/// What can make a denial of this guard in this phase real; nothing: it is reported only. What has happened already
/// when it is seen (a result, a list) cannot be stopped by who does not sit in the stream, and the gate stands on the
/// client's side alone.
pub fn enforcers(kind: GuardKind, phase: Phase) -> &'static [Enforcer] {
    use Enforcer::{Approval, NetworkHook, StdioGate};
    match (kind, phase) {
        (GuardKind::Sampling, _) => &[],
        // A denial of a prompt or a resource is no rule of the gate; one of everything of the server is, as of any request.
        (GuardKind::Wasm | GuardKind::Http, Phase::PromptRequest | Phase::ResourceRequest) => &[],
        (GuardKind::ServerAccess, Phase::Request) => &[StdioGate, NetworkHook],
        (_, Phase::ToolsList | Phase::ToolResult | Phase::Response) => &[],
        // The gate remembers and judges calls of tools alone.
        (GuardKind::CrossServer, Phase::Request | Phase::PromptRequest | Phase::ResourceRequest) => &[],
        (GuardKind::ToolShadowing | GuardKind::RugPull | GuardKind::ToolPoisoning, Phase::ToolInvoke) => {
            &[StdioGate, Approval]
        }
        _ => &[StdioGate],
    }
}

/// Longest name of a server or tool in a message. Bytes.
const MAX_NAME_BYTES: usize = 128;

/// The beginning of a name, which may be as long as a message.
fn short(name: &str) -> &str {
    name.get(..name.floor_char_boundary(MAX_NAME_BYTES)).unwrap_or_default()
}

#[allow(clippy::unnecessary_wraps, reason = "what guards return")]
fn allow() -> Result<Decision, GuardError> {
    Ok(Decision::Allow)
}

#[allow(clippy::unnecessary_wraps, reason = "what guards return")]
fn deny(code: DenialCode, message: String) -> Result<Decision, GuardError> {
    Ok(Decision::Deny(Denial { code, message, details: None }))
}

#[allow(clippy::unnecessary_wraps, reason = "what guards return")]
fn deny_with(
    code: DenialCode,
    message: String,
    details: Option<DenialDetails>,
) -> Result<Decision, GuardError> {
    Ok(Decision::Deny(Denial { code, message, details }))
}

/// Denies a call of a tool until that is approved: with this code, or with what became of the approval.
fn hold(
    tool: Option<&ToolFacts>,
    code: DenialCode,
    message: String,
    details: Option<DenialDetails>,
) -> Result<Decision, GuardError> {
    match tool.and_then(|tool| tool.refusal) {
        None if code == DenialCode::ApprovalRequired => {
            // Without a definition there is nothing that anybody could approve.
            let stands = if tool.is_some() {
                "it waits for approval"
            } else {
                "it can be approved once its server has listed it"
            };
            deny_with(code, format!("{message}; {stands}"), details)
        }
        None => deny_with(code, message, details),
        Some(Refusal::Denied) => {
            deny_with(DenialCode::ApprovalDenied, format!("{message}; its approval was denied"), details)
        }
        Some(Refusal::TimedOut) => {
            deny_with(DenialCode::ApprovalTimedOut, format!("{message}; nobody approved it in time"), details)
        }
    }
}

#[allow(clippy::unnecessary_wraps, reason = "what guards return")]
fn warn(message: String) -> Result<Decision, GuardError> {
    Ok(Decision::Modify(Modification::AddWarning { message, detections: Vec::new() }))
}

#[cfg(test)]
mod tests;
