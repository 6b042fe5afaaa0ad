//! What an answer denies, of what, and for how long.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::ExternalGuard;
use crate::config::FailureMode;
use crate::guard::external::DeniedSubject;
use crate::guard::{DenialCode, StandingDenial};
use crate::terms::contract::{DenialScope, GuardFailure, GuardReason, GuardReply};
use crate::terms::{Phase, ServerId, SessionId, Timestamp};

/// How long a denial stands that is none of the guard's, but of its failure.
const FAILED_FOR: Duration = Duration::from_secs(60);
/// Longest time that a denial stands. A year.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3_600);
/// Longest code, and message. Bytes.
const MAX_CODE_BYTES: usize = 64;
const MAX_MESSAGE_BYTES: usize = 1_024;

/// What a guard is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subjects {
    /// In which phase.
    pub phase: Phase,
    /// Of which server.
    pub server: ServerId,
    /// Of which session.
    pub session: SessionId,
    /// Of which user, if known.
    pub owner: Option<u32>,
    /// The tools that are listed, each with the hash of its definition; or the one that is called, without.
    pub tools: Vec<(Arc<str>, Arc<str>)>,
    /// The prompt or the address of the resource; empty where it is about tools.
    pub name: Arc<str>,
}

impl Consequence {
    /// Whether it says for good what holds of the definitions that were listed, so that the guard need not be asked about them again.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Nothing | Self::Modify { .. } => true,
            Self::Deny(verdicts) => verdicts.scope == DenialScope::Definition && verdicts.until.is_none(),
        }
    }
}

/// What follows from an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Consequence {
    /// Nothing.
    Nothing,
    /// Something stands denied.
    Deny(Verdicts),
    /// What is recorded differs; what it leaves out of a list stands denied.
    Modify {
        /// What is done: `replace_tools`, `redact_fields`, `add_warning`.
        action: String,
        /// The warning, or what is done, in words.
        message: String,
        /// Whether it is, or comes too late.
        is_applied: bool,
        /// The tools that are left out.
        denied: Option<Verdicts>,
    },
}

/// Denials that one answer is.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdicts {
    /// What the guard gave as the code, or `guard_timeout`, `guard_error`.
    pub code: Arc<str>,
    /// What it gave as the reason.
    pub message: Arc<str>,
    /// What they hold for.
    pub scope: DenialScope,
    /// The names of the tools that are denied.
    pub tools: Vec<Arc<str>>,
    /// Until when.
    pub until: Option<Timestamp>,
    /// Each.
    pub denials: Vec<StandingDenial>,
}

/// What follows from what a guard answered, or from none, at a time. `Err`: it is no answer, and why; it counts as a failure.
///
/// # Errors
/// The answer is none of the contract's.
pub fn consequence(
    guard: &ExternalGuard,
    subjects: &Subjects,
    reply: &GuardReply,
    now: Timestamp,
) -> Result<Consequence, GuardFailure> {
    match reply {
        GuardReply::Allow => Ok(Consequence::Nothing),
        GuardReply::Deny { reason } => Ok(Consequence::Deny(denied(guard, subjects, reason, now))),
        GuardReply::Modify { action } => modified(guard, subjects, action),
    }
}

/// What follows from there being no answer.
pub fn failed(
    guard: &ExternalGuard,
    subjects: &Subjects,
    failure: &GuardFailure,
    now: Timestamp,
) -> Consequence {
    if guard.failure_mode == FailureMode::FailOpen {
        return Consequence::Nothing;
    }
    let code = match failure {
        GuardFailure::Timeout => DenialCode::GuardTimeout,
        _ => DenialCode::GuardError,
    };
    let made = Made {
        code: code.name().into(),
        message: clipped(&format!("the guard failed, which denies: {failure}"), MAX_MESSAGE_BYTES),
        scope: DenialScope::of(subjects.phase),
        until: Some(now.after(FAILED_FOR)),
        is_failure: true,
    };
    Consequence::Deny(made.of(guard, subjects, |_| true))
}

fn denied(guard: &ExternalGuard, subjects: &Subjects, reason: &GuardReason, now: Timestamp) -> Verdicts {
    let details: Value =
        reason.details.as_deref().and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
    let given = details.get("scope").and_then(|scope| serde_json::from_value(scope.clone()).ok());
    let scope = given.filter(|scope| fits(*scope, subjects)).unwrap_or(DenialScope::of(subjects.phase));
    let for_good = scope == DenialScope::Definition;
    let made = Made {
        code: clipped(&reason.code, MAX_CODE_BYTES),
        message: clipped(&reason.message, MAX_MESSAGE_BYTES),
        scope,
        until: match details.get("valid_for").and_then(duration) {
            Some(valid_for) => Some(now.after(valid_for)),
            None => (!for_good).then(|| now.after(guard.valid_for)),
        },
        is_failure: false,
    };
    let named: Option<BTreeSet<&str>> = details
        .get("tools")
        .and_then(Value::as_array)
        .map(|tools| tools.iter().filter_map(Value::as_str).collect());
    made.of(guard, subjects, |tool| named.as_ref().is_none_or(|named| named.contains(tool)))
}

/// Whether a denial of this scope can be about what was asked.
fn fits(scope: DenialScope, subjects: &Subjects) -> bool {
    match scope {
        DenialScope::Definition => subjects.phase == Phase::ToolsList,
        DenialScope::Tool | DenialScope::SessionTool => !subjects.tools.is_empty(),
        DenialScope::Prompt => subjects.phase == Phase::PromptRequest,
        DenialScope::Resource => subjects.phase == Phase::ResourceRequest,
        DenialScope::Server | DenialScope::SessionServer | DenialScope::Session => true,
    }
}

/// A number of seconds, or a text such as `10m`.
fn duration(value: &Value) -> Option<Duration> {
    let given = match value {
        Value::String(text) => humantime::parse_duration(text).ok()?,
        other => Duration::try_from_secs_f64(other.as_f64()?).ok()?,
    };
    Some(given.min(LONGEST))
}

fn modified(guard: &ExternalGuard, subjects: &Subjects, action: &str) -> Result<Consequence, GuardFailure> {
    let wrong = |what: &str| GuardFailure::Error(format!("the action of its answer {what}"));
    let action: Value = serde_json::from_str(action).map_err(|_| wrong("is no JSON"))?;
    let kind = action.get("type").and_then(Value::as_str).ok_or_else(|| wrong("has no `type`"))?;
    let (message, is_applied, denied) = match kind {
        "replace_tools" if subjects.phase == Phase::ToolsList => {
            let tools =
                action.get("tools").and_then(Value::as_array).ok_or_else(|| wrong("has no `tools`"))?;
            let name = |tool: &Value| tool.as_str().or_else(|| tool.get("name")?.as_str()).map(str::to_owned);
            let kept: BTreeSet<String> = tools.iter().filter_map(name).collect();
            let made = Made {
                code: "left_out".into(),
                message: "the guard leaves the tool out of the list".into(),
                scope: DenialScope::Definition,
                until: None,
                is_failure: false,
            };
            let denied = made.of(guard, subjects, |tool| !kept.contains(tool));
            (format!("{} tools are left out", denied.tools.len()), true, Some(denied))
        }
        "add_warning" => {
            let message =
                action.get("message").and_then(Value::as_str).ok_or_else(|| wrong("has no `message`"))?;
            (clipped(message, MAX_MESSAGE_BYTES).to_string(), true, None)
        }
        "redact_fields" => {
            ("the message was reported by then: its fields are as they were".to_owned(), false, None)
        }
        "replace_tools" => return Err(wrong("replaces tools in a phase that lists none")),
        _ => return Err(wrong("has an unknown `type`")),
    };
    Ok(Consequence::Modify { action: kind.to_owned(), message, is_applied, denied })
}

/// What is to be made into denials.
struct Made {
    code: Arc<str>,
    message: Arc<str>,
    scope: DenialScope,
    until: Option<Timestamp>,
    is_failure: bool,
}

impl Made {
    /// Denials of what was asked about; of a list those of tools that are `meant`.
    fn of(self, guard: &ExternalGuard, subjects: &Subjects, meant: impl Fn(&str) -> bool) -> Verdicts {
        let Self { code, message, scope, until, is_failure } = self;
        let server = (scope != DenialScope::Session).then(|| subjects.server.clone());
        let of_session = !matches!(scope, DenialScope::Definition | DenialScope::Tool | DenialScope::Server);
        let session = of_session.then(|| subjects.session.clone());
        let tools: Vec<&(Arc<str>, Arc<str>)> =
            subjects.tools.iter().filter(|(tool, _)| meant(tool)).collect();
        let all: Vec<DeniedSubject> = match scope {
            DenialScope::Definition => tools
                .iter()
                .map(|(tool, hash)| DeniedSubject::Definition {
                    tool: Arc::clone(tool),
                    hash: Arc::clone(hash),
                })
                .collect(),
            DenialScope::Tool | DenialScope::SessionTool => {
                tools.iter().map(|(tool, _)| DeniedSubject::Tool(Arc::clone(tool))).collect()
            }
            DenialScope::Prompt => vec![DeniedSubject::Prompt(Arc::clone(&subjects.name))],
            DenialScope::Resource => vec![DeniedSubject::Resource(Arc::clone(&subjects.name))],
            DenialScope::Server | DenialScope::SessionServer | DenialScope::Session => {
                vec![DeniedSubject::All]
            }
        };
        let denials = all.into_iter().map(|subject| StandingDenial {
            guard: Arc::clone(&guard.name),
            server: server.clone(),
            session: session.clone(),
            owner: subjects.owner,
            subject,
            until,
            is_failure,
            code: Arc::clone(&code),
            message: Arc::clone(&message),
        });
        let denials = denials.collect();
        let tools = tools.into_iter().map(|(tool, _)| Arc::clone(tool)).collect();
        Verdicts { code, message, scope, tools, until, denials }
    }
}

/// The beginning of a text of somebody else's.
fn clipped(text: &str, bytes: usize) -> Arc<str> {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default().into()
}

#[cfg(test)]
mod tests;
