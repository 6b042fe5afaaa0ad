//! Which servers may be used, and which of their tools. (Requirements: docs/internals/requirements.md, "policy".)
//!
//! What is denied is denied, whatever the lists are for; only a bare `*` among the denied yields to a rule that allows
//! by name, so that `denied: ["*"]` beside a list of what is allowed reads as it is meant. Then the allowlist decides,
//! then `fail_closed`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::rules::{CompiledRule, OwnRules, is_borrowed};
use super::{allow, deny, hold, short};
use crate::classify::Classifier;
use crate::config::ListMode;
use crate::definition::is_bounded;
use crate::glob::NameGlob;
use crate::guard::{
    Call, Decision, DenialCode, Facts, Guard, GuardError, Listing, Operation, Purpose, Refusal,
};
use crate::terms::{GuardKind, Identity, ServerId, Timestamp, Trust};

/// `server_access`
#[derive(Debug)]
pub(super) struct ServerAccess {
    pub(super) policy: ListMode,
    pub(super) allowed: Vec<NameGlob>,
    pub(super) denied: Vec<NameGlob>,
    pub(super) fail_closed: bool,
    pub(super) demanding: BTreeSet<String>,
}

impl Guard for ServerAccess {
    fn kind(&self) -> GuardKind {
        GuardKind::ServerAccess
    }

    fn check(&mut self, _: &Operation<'_>, facts: &Facts<'_>, _: Timestamp) -> Result<Decision, GuardError> {
        let by_policy = self.objection(&facts.server.0, facts.also, facts.enabled, facts.identity);
        let by_profile = || self.profile_objection(facts);
        match by_policy.or_else(by_profile) {
            Some((code, message)) => deny(code, message),
            None => allow(),
        }
    }

    fn why(&self, _: &Operation<'_>, facts: &Facts<'_>, _: Timestamp) -> Option<String> {
        let borrowed = is_borrowed(&self.demanding, &facts.server.0, facts.identity);
        let mut rules = self.allowed.iter().filter(|glob| !borrowed || glob.is_any());
        let rule = rules.find(|glob| glob.matches(&facts.server.0));
        Some(match rule {
            Some(rule) => format!("'{}' of allowed_servers allows its server", rule.as_str()),
            None => "no rule denies its server, and server_policy is no allowlist".to_owned(),
        })
    }
}

impl ServerAccess {
    /// Why a server may not be used at all: the code and the message. `also`: see [`Facts::also`].
    pub(super) fn objection(
        &self,
        server: &str,
        also: &[ServerId],
        enabled: bool,
        identity: Identity,
    ) -> Option<(DenialCode, String)> {
        let borrowed = is_borrowed(&self.demanding, server, identity);
        if !enabled {
            let message = format!("server '{}' is declared with enabled: false", short(server));
            return Some((DenialCode::ServerDisabled, message));
        }
        let lists = ServerLists { policy: self.policy, allowed: &self.allowed, denied: &self.denied };
        if let Some(objection) = lists.objection(server, also, borrowed, "") {
            return Some(objection);
        }
        if self.fail_closed && identity != Identity::Declared {
            let message = format!("server '{}' is not declared, and fail_closed is on", short(server));
            return Some((DenialCode::ServerUndeclared, message));
        }
        None
    }
}

impl ServerAccess {
    /// Why the profile of the client does not let it use a server.
    fn profile_objection(&self, facts: &Facts<'_>) -> Option<(DenialCode, String)> {
        let lists = &facts.profile.lists.as_ref()?.0;
        let (allowed, denied) = (&lists.allowed_servers, &lists.denied_servers);
        let borrowed = is_borrowed(&self.demanding, &facts.server.0, facts.identity);
        let of_profile = ServerLists { policy: mode(allowed), allowed, denied };
        of_profile.objection(&facts.server.0, facts.also, borrowed, &lists.whose)
    }
}

/// A list of what is allowed denies everything else, where nothing else is said.
fn mode<T>(allowed: &[T]) -> ListMode {
    if allowed.is_empty() { ListMode::None } else { ListMode::Allowlist }
}

/// Lists of servers: those of the policy, or of a profile.
struct ServerLists<'a> {
    policy: ListMode,
    allowed: &'a [NameGlob],
    denied: &'a [NameGlob],
}

impl ServerLists<'_> {
    /// Why they deny a server. `whose`: how a message names the lists.
    fn objection(
        &self,
        server: &str,
        also: &[ServerId],
        borrowed: bool,
        whose: &str,
    ) -> Option<(DenialCode, String)> {
        let allowed =
            || self.allowed.iter().filter(|glob| (!borrowed || glob.is_any()) && glob.matches(server));
        let by_name = || allowed().any(|glob| !glob.is_any());
        let is_denied = |glob: &&NameGlob| {
            glob.matches(server) && !(glob.is_any() && by_name())
                || !glob.is_any() && also.iter().any(|id| glob.matches(&id.0))
        };
        if let Some(rule) = self.denied.iter().find(is_denied) {
            let message = format!("server '{}' is denied by '{}'{whose}", short(server), rule.as_str());
            return Some((DenialCode::ServerDenied, message));
        }
        if self.policy == ListMode::Allowlist && allowed().next().is_none() {
            let why = if borrowed {
                "has the id of a declared server and is another program"
            } else {
                "is not in allowed_servers"
            };
            return Some((DenialCode::ServerNotAllowed, format!("server '{}' {why}{whose}", short(server))));
        }
        None
    }
}

/// Lists of tools: those of the policy, or of a profile.
struct ToolLists<'a> {
    policy: ListMode,
    allowed: &'a [CompiledRule],
    denied: &'a [CompiledRule],
    /// Whether the server has the id of a declared one and is another program.
    borrowed: bool,
    /// How a message names the lists.
    whose: &'a str,
}

impl<'a> ToolLists<'a> {
    /// The rules that allow a tool, but for its definition.
    fn allows(&self, server: &'a str, tool: &'a str) -> impl Iterator<Item = &'a CompiledRule> {
        let (allowed, borrowed) = (self.allowed, self.borrowed);
        let named = allowed.iter().filter(move |rule| rule.names(server, tool));
        named.filter(move |rule| !borrowed || rule.server.is_any())
    }

    /// Why a tool is among what is denied.
    fn denial(&self, tool: &str, call: &Call<'_>, facts: &Facts<'_>) -> Option<(DenialCode, String)> {
        let (server, whose) = (&*facts.server.0, self.whose);
        let denies = |rule: &&CompiledRule| {
            let is_also = || facts.also.iter().any(|id| rule.matches(&id.0, tool, call, Purpose::Deny));
            let beaten =
                |allowed: &CompiledRule| allowed.beats(rule) && allowed.applies(call, Purpose::Allow);
            (rule.matches(server, tool, call, Purpose::Deny) || !rule.server.is_any() && is_also())
                && !self.allows(server, tool).any(beaten)
        };
        let id = || format!("tool '{}' of server '{}'", short(tool), short(server));
        if let Some(rule) = self.denied.iter().find(denies) {
            let message = format!("{} is denied by '{}'{whose}", id(), rule.describe());
            return Some((DenialCode::ToolDenied, message));
        }
        // The end of such a name is not known, so that no glob can tell.
        let concerns = |rule: &CompiledRule| facts.names().any(|name| rule.server.matches(name));
        if is_bounded(tool) && self.denied.iter().any(concerns) {
            let message = format!(
                "{} has a name of more than 256 bytes, of which denied_tools{whose} cannot tell",
                id()
            );
            return Some((DenialCode::ToolDenied, message));
        }
        None
    }

    /// Why a tool is not among what is allowed, where only that is.
    fn absence(&self, tool: &str, call: &Call<'_>, facts: &Facts<'_>) -> Option<(DenialCode, String)> {
        let server = &*facts.server.0;
        let is_allowed = |rule: &CompiledRule| rule.applies(call, Purpose::Allow);
        let is_absent = self.policy == ListMode::Allowlist && !self.allows(server, tool).any(is_allowed);
        let message = || {
            format!(
                "tool '{}' of server '{}' is not in allowed_tools{}",
                short(tool),
                short(server),
                self.whose
            )
        };
        is_absent.then(|| (DenialCode::ToolNotAllowed, message()))
    }
}

/// `tool_access`
#[derive(Debug)]
pub(super) struct ToolAccess {
    pub(super) policy: ListMode,
    pub(super) allowed: Vec<CompiledRule>,
    pub(super) denied: Vec<CompiledRule>,
    pub(super) own: BTreeMap<String, OwnRules>,
    pub(super) fail_closed: bool,
    pub(super) pending_grace: Duration,
    pub(super) classifier: Arc<Classifier>,
    pub(super) demanding: BTreeSet<String>,
}

impl ToolAccess {
    /// What the entry of `servers:` denies: the code and the message.
    fn own_denial(&self, tool: &str, facts: &Facts<'_>) -> Option<(DenialCode, String)> {
        facts.names().find_map(|server| self.denial_of(server, tool, facts))
    }

    fn denial_of(&self, server: &str, tool: &str, facts: &Facts<'_>) -> Option<(DenialCode, String)> {
        let own = self.own.get(server)?;
        if !own.allow.is_empty() && !own.allow.iter().any(|glob| glob.matches(tool)) {
            let message =
                format!("tool '{}' is not in allow_tools of server '{}'", short(tool), short(server));
            return Some((DenialCode::ToolNotAllowed, message));
        }
        if own.denied_tags.is_empty() {
            return None;
        }
        let told;
        let tags = match facts.tool {
            Some(known) => &known.side_effects,
            None => {
                told = self.classifier.classify(server, tool).side_effects;
                &told
            }
        };
        let tag = tags.intersection(&own.denied_tags).next()?;
        let message = format!(
            "tool '{}' has the side effect {tag}, which deny_side_effect_tags of server '{}' denies",
            short(tool),
            short(server)
        );
        Some((DenialCode::SideEffectDenied, message))
    }
}

impl Guard for ToolAccess {
    fn kind(&self) -> GuardKind {
        GuardKind::ToolAccess
    }

    fn check(
        &mut self,
        operation: &Operation<'_>,
        facts: &Facts<'_>,
        now: Timestamp,
    ) -> Result<Decision, GuardError> {
        let Operation::ToolInvoke { tool_name: tool, arguments } = *operation else { return allow() };
        let call = Call::new(tool, arguments, facts, now);
        let (server, known) = (&*facts.server.0, facts.tool);
        let id = || format!("tool '{}' of server '{}'", short(tool), short(server));
        let borrowed = is_borrowed(&self.demanding, &facts.server.0, facts.identity);
        let lists = ToolLists {
            policy: self.policy,
            allowed: &self.allowed,
            denied: &self.denied,
            borrowed,
            whose: "",
        };
        let of_profile = facts.profile.lists.as_ref().map(|lists| &*lists.0);
        let of_profile = of_profile.map(|lists| ToolLists {
            policy: mode(&lists.allowed_tools),
            allowed: &lists.allowed_tools,
            denied: &lists.denied_tools,
            borrowed,
            whose: &lists.whose,
        });
        let by_profile = || of_profile.as_ref().and_then(|lists| lists.denial(tool, &call, facts));
        if let Some((code, message)) = lists.denial(tool, &call, facts).or_else(by_profile) {
            return deny(code, message);
        }
        if let Some((code, message)) = self.own_denial(tool, facts) {
            return deny(code, message);
        }
        let named = self.allowed.iter().filter(|rule| rule.names(server, tool));
        let mut pins = named.filter(|rule| rule.hash.is_some()).peekable();
        if pins.peek().is_some() && !pins.any(|rule| rule.holds(known)) {
            return deny(DenialCode::ToolHashMismatch, format!("{} is not what content_hash says", id()));
        }
        let by_profile = || of_profile.as_ref().and_then(|lists| lists.absence(tool, &call, facts));
        if let Some((code, message)) = lists.absence(tool, &call, facts).or_else(by_profile) {
            return deny(code, message);
        }
        if facts.trust == Trust::Low && !known.is_some_and(|tool| tool.approved) {
            let message = format!("{} is not approved, and the trust in its server is low", id());
            return hold(known, DenialCode::ApprovalRequired, message, None);
        }
        if known.is_some_and(|tool| tool.refusal == Some(Refusal::Denied)) {
            return deny(DenialCode::ApprovalDenied, format!("{} was denied by hand", id()));
        }
        if !self.fail_closed || known.is_some_and(|tool| !tool.removed && !tool.is_uncompared) {
            return allow();
        }
        if known.is_some_and(|tool| tool.is_uncompared) {
            let message = format!("{} cannot be compared with pins and names, and fail_closed is on", id());
            return deny(DenialCode::UnknownTool, message);
        }
        match facts.listing {
            Listing::Pending { since } if now <= since.after(self.pending_grace) => allow(),
            Listing::Pending { .. } => {
                let grace = humantime::format_duration(self.pending_grace);
                let message = format!("{} was not listed within {grace}, and fail_closed is on", id());
                deny(DenialCode::ServerPending, message)
            }
            Listing::Unknown | Listing::Listed => {
                deny(DenialCode::UnknownTool, format!("{} is not listed, and fail_closed is on", id()))
            }
        }
    }

    fn why(&self, operation: &Operation<'_>, facts: &Facts<'_>, now: Timestamp) -> Option<String> {
        let Operation::ToolInvoke { tool_name: tool, arguments } = *operation else { return None };
        let call = Call::new(tool, arguments, facts, now);
        let borrowed = is_borrowed(&self.demanding, &facts.server.0, facts.identity);
        let mut rules = self.allowed.iter().filter(|rule| !borrowed || rule.server.is_any());
        let rule = rules.find(|rule| rule.matches(&facts.server.0, tool, &call, Purpose::Allow));
        Some(match rule {
            Some(rule) => format!("'{}' of allowed_tools allows it", rule.describe()),
            None => "no rule denies it, and tool_policy is no allowlist".to_owned(),
        })
    }
}

#[cfg(test)]
mod argument_tests;
#[cfg(test)]
mod tests;
