//! The six capability checks: what a client may do by its profile (`sessions:`), whatever the tool. Off by default.
//! (Requirements: docs/internals/requirements.md, "capabilities".)

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::rules::CompiledRule;
use super::{allow, deny, short};
use crate::classify::{Classification, Classifier};
use crate::guard::{Call, Decision, DenialCode, Facts, Guard, GuardError, Operation, Purpose};
use crate::terms::{GuardKind, RiskLevel, Timestamp};

/// One of the six.
#[derive(Debug)]
pub(super) struct CapabilityCheck {
    pub(super) kind: GuardKind,
    /// The tools that `disabled_tool` and `admin_token` are about.
    pub(super) tools: Vec<CompiledRule>,
    pub(super) classifier: Arc<Classifier>,
}

impl CapabilityCheck {
    /// How risky a tool is, its side effects, and whether it may have any; of one that is not listed, as far as its name
    /// tells.
    fn told<'a>(&self, tool: &str, facts: &Facts<'a>) -> (RiskLevel, Cow<'a, BTreeSet<String>>, bool) {
        match facts.tool {
            Some(known) => (known.risk, Cow::Borrowed(&known.side_effects), known.may_do_anything),
            None => {
                let Classification { risk, side_effects, may_do_anything, .. } =
                    self.classifier.classify(&facts.server.0, tool);
                (risk, Cow::Owned(side_effects), may_do_anything)
            }
        }
    }
}

impl Guard for CapabilityCheck {
    fn kind(&self) -> GuardKind {
        self.kind
    }

    fn check(
        &mut self,
        operation: &Operation<'_>,
        facts: &Facts<'_>,
        now: Timestamp,
    ) -> Result<Decision, GuardError> {
        let Operation::ToolInvoke { tool_name: tool, arguments } = *operation else { return allow() };
        let call = Call::new(tool, arguments, facts, now);
        let profile = facts.profile;
        let is_named =
            |rule: &CompiledRule| facts.names().any(|name| rule.matches(name, tool, &call, Purpose::Deny));
        let listed = || self.tools.iter().any(is_named);
        let id = || format!("tool '{}' of server '{}'", short(tool), short(&facts.server.0));
        match self.kind {
            GuardKind::DisabledTool if listed() => {
                deny(DenialCode::ToolDisabled, format!("{} is switched off", id()))
            }
            GuardKind::Mode if profile.planning => match self.told(tool, facts) {
                (_, tags, _) if !tags.is_empty() => {
                    let tag = tags.first().map_or("", String::as_str);
                    deny(
                        DenialCode::PlanningMode,
                        format!("{} has the side effect {tag}, and this is planning", id()),
                    )
                }
                (_, _, true) => deny(
                    DenialCode::PlanningMode,
                    format!("{} may have any side effect, and this is planning", id()),
                ),
                _ => allow(),
            },
            GuardKind::SpecFrozen
                if !profile.planning && (!profile.spec_frozen || profile.spec_hash.is_none()) =>
            {
                match self.told(tool, facts).0 {
                    risk @ (RiskLevel::High | RiskLevel::Critical) => {
                        let risk = risk.name();
                        let message =
                            format!("{} is of {risk} risk, which needs spec_frozen and spec_hash", id());
                        deny(DenialCode::SpecNotFrozen, message)
                    }
                    RiskLevel::Low | RiskLevel::Medium => allow(),
                }
            }
            GuardKind::ProjectBinding if profile.project_id.is_none() => match self.told(tool, facts).0 {
                RiskLevel::Low => allow(),
                risk => {
                    let message = format!("{} is of {} risk, which needs project_id", id(), risk.name());
                    deny(DenialCode::ProjectRequired, message)
                }
            },
            GuardKind::SideEffects if !profile.policy_blacklist.is_empty() => {
                let effects = self.told(tool, facts).1;
                match effects.intersection(&profile.policy_blacklist).next() {
                    Some(tag) => deny(
                        DenialCode::SideEffectDenied,
                        format!("{} has the side effect {tag}, which is denied", id()),
                    ),
                    None => allow(),
                }
            }
            GuardKind::AdminToken if !profile.admin_token && listed() => {
                deny(DenialCode::AdminTokenRequired, format!("{} needs a token of an administrator", id()))
            }
            _ => allow(),
        }
    }

    fn why(&self, operation: &Operation<'_>, facts: &Facts<'_>, _: Timestamp) -> Option<String> {
        let Operation::ToolInvoke { tool_name: tool, .. } = *operation else { return None };
        let profile = facts.profile;
        let risk = || format!("its risk is {}", self.told(tool, facts).0.name());
        Some(match self.kind {
            GuardKind::DisabledTool => "it is not switched off".to_owned(),
            GuardKind::Mode if profile.planning => "it has no side effects".to_owned(),
            GuardKind::Mode => "the client does not plan".to_owned(),
            GuardKind::SpecFrozen if profile.planning => "the client plans".to_owned(),
            GuardKind::SpecFrozen if profile.spec_frozen && profile.spec_hash.is_some() => {
                "the specification is frozen".to_owned()
            }
            GuardKind::SpecFrozen => risk(),
            GuardKind::ProjectBinding => match &profile.project_id {
                Some(project) => format!("the client works on project '{}'", short(project)),
                None => risk(),
            },
            GuardKind::SideEffects if profile.policy_blacklist.is_empty() => {
                "nothing is on the client's policy_blacklist".to_owned()
            }
            GuardKind::SideEffects => {
                "it has none of the side effects on the client's policy_blacklist".to_owned()
            }
            GuardKind::AdminToken if profile.admin_token => "a token of an administrator is there".to_owned(),
            GuardKind::AdminToken => "it needs no token of an administrator".to_owned(),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;
