//! Guards that others wrote, as the core sees them: whom to ask, what stands, and the guard that denies by it.
//!
//! | module | job |
//! |---|---|
//! | `reply` | what an answer denies, and for how long |
//! | `standing` | the denials that stand |

mod reply;
mod standing;

use std::sync::Arc;
use std::time::Duration;

use super::rules::globs;
use super::{allow, deny_with};
use crate::config::{Config, FailureMode, GuardEntry, GuardSettings, Share};
use crate::glob::{GlobError, NameGlob};
use crate::guard::{Decision, DenialCode, DenialDetails, Facts, Guard, GuardError, Listing, Operation};
use crate::terms::contract::GuardName;
use crate::terms::{GuardKind, Phase, ServerId, Timestamp};

pub use reply::{Consequence, Subjects, Verdicts, consequence, failed};
pub use standing::StandingDenials;

/// A guard that others wrote, as its entry of `guards` configures it.
#[derive(Clone, Debug)]
pub struct ExternalGuard {
    /// What it is called.
    pub name: Arc<GuardName>,
    /// Which servers it is asked about. Empty: every one.
    servers: Vec<NameGlob>,
    /// In which phases it is asked.
    phases: Vec<Phase>,
    /// How long it has for an answer.
    pub timeout: Duration,
    /// What it means if it has none.
    pub failure_mode: FailureMode,
    /// How long a denial of anything but a definition stands, where the answer does not say.
    pub valid_for: Duration,
    /// Whether tools wait for its judgement of their definitions.
    pub holds: bool,
    /// What it is shown of arguments and results.
    pub share: Share,
    /// What is asked, and how it is configured itself.
    judge: GuardSettings,
}

impl ExternalGuard {
    /// Those of a configuration that are enabled, in its order.
    ///
    /// # Errors
    /// A glob does not compile; nothing of what [`parse`](crate::config::parse) lets through is one.
    pub fn all(config: &Config) -> Result<Vec<Self>, GlobError> {
        let entries = config.guards.iter().filter(|entry| entry.kind.is_external() && entry.enabled);
        entries.map(|entry| Self::new(entry, config)).collect()
    }

    fn new(entry: &GuardEntry, config: &Config) -> Result<Self, GlobError> {
        let servers = globs(entry.servers.iter(), config)?;
        let settings = entry.config.clone().unwrap_or_default();
        let share = match entry.kind {
            // It stays in this process, and has nowhere to send anything.
            GuardKind::Wasm => Share::Full,
            _ => settings.share.unwrap_or_default(),
        };
        Ok(Self {
            name: Arc::new(GuardName { kind: entry.kind, name: entry.external_name() }),
            servers: if servers.iter().any(NameGlob::is_any) { Vec::new() } else { servers },
            phases: entry.runs_on.clone().unwrap_or_else(|| entry.kind.phases().to_vec()),
            timeout: Duration::from_millis(u64::from(entry.timeout_ms)),
            failure_mode: entry.failure_mode,
            valid_for: settings.valid_for.map_or(VALID_FOR, |valid_for| valid_for.0),
            holds: settings.hold_until_judged.unwrap_or_default(),
            share,
            judge: GuardSettings {
                url: settings.url,
                module_path: settings.module_path,
                sha256: settings.sha256,
                public_key: settings.public_key,
                wasm_config: settings.wasm_config,
                share: Some(share),
                ..GuardSettings::default()
            },
        })
    }

    /// Whether it is asked about a server in a phase.
    pub fn is_asked(&self, phase: Phase, (server, also): (&ServerId, &[ServerId])) -> bool {
        let is_for = |id: &ServerId| self.servers.iter().any(|glob| glob.matches(&id.0));
        self.phases.contains(&phase) && (self.servers.is_empty() || is_for(server) || also.iter().any(is_for))
    }

    /// Whether another would answer as it does, so that what it judged still counts.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.name, &self.judge) == (&other.name, &other.judge)
    }

    /// Whether it holds the tools of a server until it has judged them.
    pub fn holds_tools_of(&self, server: (&ServerId, &[ServerId])) -> bool {
        self.holds && self.is_asked(Phase::ToolsList, server)
    }
}

/// How long a denial stands that says nothing of it.
const VALID_FOR: Duration = Duration::from_secs(3_600);

/// Denies what a guard that others wrote has denied, or has not judged.
#[derive(Debug)]
pub(super) struct External(pub(super) ExternalGuard);

impl External {
    /// The phases that a denial counts in, whichever the guard is asked in.
    pub(super) const PHASES: &[Phase] =
        &[Phase::Request, Phase::ToolInvoke, Phase::PromptRequest, Phase::ResourceRequest];
}

impl Guard for External {
    fn kind(&self) -> GuardKind {
        self.0.name.kind
    }

    fn phases(&self) -> &'static [Phase] {
        Self::PHASES
    }

    fn check(
        &mut self,
        operation: &Operation<'_>,
        facts: &Facts<'_>,
        _: Timestamp,
    ) -> Result<Decision, GuardError> {
        let Self(guard) = self;
        let own = facts.standing.iter().filter(|denial| denial.guard == guard.name);
        if let Some(denial) = own.into_iter().find(|denial| denial.denies(operation, facts)) {
            let name: Arc<str> = guard.name.name.as_str().into();
            let message = format!("the guard {name} denied it: {}", denial.message);
            let details =
                DenialDetails::External { name, code: Arc::clone(&denial.code), until: denial.until };
            return deny_with(DenialCode::GuardDenied, message, Some(details));
        }
        let is_call = matches!(operation, Operation::ToolInvoke { .. });
        if is_call && guard.holds_tools_of((facts.server, facts.also)) && is_unjudged(&guard.name, facts) {
            let name: Arc<str> = guard.name.name.as_str().into();
            let message = format!("the guard {name} has not judged the definition of the tool yet");
            let details = DenialDetails::External { name, code: "".into(), until: None };
            return deny_with(DenialCode::GuardPending, message, Some(details));
        }
        allow()
    }
}

/// Whether a guard that holds tools has not judged the one that is called. A tool that its server has not listed was judged by
/// nobody. Nothing is waited for of a server that ran before the agent did and has not listed its tools since: it may never do so
/// again.
fn is_unjudged(guard: &GuardName, facts: &Facts<'_>) -> bool {
    let is_held = match facts.tool {
        Some(tool) => tool.unjudged.iter().any(|name| **name == *guard.name),
        None => true,
    };
    is_held && facts.listing != Listing::Unknown
}
