//! Guards that go by what is known of a tool's definition: whose name it has, whether it changed, what was found in it.

use std::collections::BTreeSet;

use super::{allow, deny_with, hold, short, warn};
use crate::config::{self, DetectionAction, GuardSettings, OnChange, ScanField};
use crate::guard::{
    BrokenRule, Decision, DenialCode, DenialDetails, Facts, Guard, GuardError, Operation, ToolFacts,
};
use crate::terms::{Detection, GuardKind, PinState, ServerId, Severity, Timestamp, Trust};

/// Most tools that one warning names.
const MAX_NAMED: usize = 10;

/// Warns of the tools of a list that `suspicious` is true of: a list is never denied, since without it nothing would
/// be known of its tools when they are called.
fn warn_of(
    tools: &[ToolFacts],
    what: &str,
    suspicious: impl Fn(&ToolFacts) -> bool,
) -> Result<Decision, GuardError> {
    let mut found = tools.iter().filter(|tool| suspicious(tool));
    let Some(first) = found.next() else { return allow() };
    let mut names = format!("'{}'", short(&first.name));
    for tool in found.by_ref().take(MAX_NAMED - 1) {
        names.push_str(&format!(", '{}'", short(&tool.name)));
    }
    match found.count() {
        0 => {}
        more => names.push_str(&format!(" and {more} more")),
    }
    warn(format!("{what}: {names}"))
}

/// `tool_shadowing`: calls of a tool whose name another server of the session had first.
#[derive(Debug)]
pub(super) struct ToolShadowing;

impl Guard for ToolShadowing {
    fn kind(&self) -> GuardKind {
        GuardKind::ToolShadowing
    }

    fn check(
        &mut self,
        operation: &Operation<'_>,
        facts: &Facts<'_>,
        _: Timestamp,
    ) -> Result<Decision, GuardError> {
        let shadowing = |tool: &ToolFacts| tool.shadows.is_some() && !tool.approved;
        match *operation {
            Operation::ToolsList { tools } => {
                warn_of(tools, "tools have names of another server's", shadowing)
            }
            Operation::ToolInvoke { tool_name, .. } => {
                let Some(tool) = facts.tool.filter(|tool| shadowing(tool)) else { return allow() };
                let Some(ServerId(original)) = &tool.shadows else { return allow() };
                let (original, server) = (short(original), short(&facts.server.0));
                let message = format!(
                    "tool '{}' was shadowed: originally from '{original}', now served by '{server}'",
                    short(tool_name)
                );
                let broken = BrokenRule {
                    rule: DenialCode::ShadowTool,
                    severity: Severity::Critical,
                    original_server_id: Some(ServerId(original.into())),
                    related: Vec::new(),
                    turn: None,
                };
                hold(Some(tool), broken.rule, message, Some(DenialDetails::Rule(broken)))
            }
            _ => allow(),
        }
    }

    fn why(&self, _: &Operation<'_>, facts: &Facts<'_>, _: Timestamp) -> Option<String> {
        let shadows = facts.tool.is_some_and(|tool| tool.shadows.is_some());
        let why =
            if shadows { "it is approved" } else { "no other server of the session had its name first" };
        Some(why.to_owned())
    }
}

/// `rug_pull`: calls of a tool whose definition is not the one that was pinned.
#[derive(Debug)]
pub(super) struct RugPull {
    pub(super) on_change: OnChange,
    pub(super) pin_on_first_use: bool,
}

impl RugPull {
    fn objection(&self, tool: &ToolFacts) -> Option<(DenialCode, &'static str)> {
        match tool.pin {
            _ if tool.approved => None,
            PinState::Changed => Some((DenialCode::ToolChanged, "changed since it was pinned")),
            PinState::Unpinned if !self.pin_on_first_use => {
                Some((DenialCode::ApprovalRequired, "is new and not approved"))
            }
            PinState::Unpinned | PinState::Pinned => None,
        }
    }
}

impl Guard for RugPull {
    fn kind(&self) -> GuardKind {
        GuardKind::RugPull
    }

    fn check(
        &mut self,
        operation: &Operation<'_>,
        facts: &Facts<'_>,
        _: Timestamp,
    ) -> Result<Decision, GuardError> {
        if self.on_change == OnChange::Allow {
            return allow();
        }
        match *operation {
            Operation::ToolsList { tools } => {
                warn_of(tools, "tools changed, or are not pinned", |tool| self.objection(tool).is_some())
            }
            Operation::ToolInvoke { tool_name, .. } => {
                let Some((code, what)) = facts.tool.and_then(|tool| self.objection(tool)) else {
                    return allow();
                };
                let message =
                    format!("tool '{}' of server '{}' {what}", short(tool_name), short(&facts.server.0));
                match self.on_change {
                    OnChange::Block => hold(facts.tool, code, message, None),
                    _ => warn(message),
                }
            }
            _ => allow(),
        }
    }

    fn why(&self, _: &Operation<'_>, facts: &Facts<'_>, _: Timestamp) -> Option<String> {
        let why = match facts.tool {
            _ if self.on_change == OnChange::Allow => "on_change is allow",
            Some(tool) if tool.approved => "its definition is approved",
            Some(ToolFacts { pin: PinState::Pinned, .. }) => "its definition is the pinned one",
            Some(_) => "its definition is new, and pinned when it is first used",
            None => "its definition is not known",
        };
        Some(why.to_owned())
    }
}

/// `tool_poisoning`: calls of a tool with detections in its definition.
#[derive(Debug)]
pub(super) struct ToolPoisoning {
    action: DetectionAction,
    threshold: Severity,
    /// Keys of the definition's fields.
    fields: Option<BTreeSet<&'static str>>,
    min_detections: u32,
}

impl ToolPoisoning {
    pub(super) fn new(config: &GuardSettings, inspection: &config::Inspection) -> Self {
        let key = |field: &ScanField| match field {
            ScanField::Name => "name",
            ScanField::Title => "title",
            ScanField::Description => "description",
            ScanField::InputSchema => "inputSchema",
            ScanField::OutputSchema => "outputSchema",
            ScanField::Annotations => "annotations",
        };
        Self {
            action: inspection.on_detection.action,
            threshold: if config.strict_mode == Some(true) {
                Severity::Low
            } else {
                inspection.alert_threshold
            },
            fields: config.scan_fields.as_ref().map(|fields| fields.iter().map(key).collect()),
            min_detections: config.min_detections.unwrap_or(1),
        }
    }

    fn counts(&self, detection: &Detection) -> bool {
        let root = detection.field.split('/').nth(1).unwrap_or_default();
        !detection.is_muted()
            && detection.severity >= self.threshold
            && self.fields.as_ref().is_none_or(|fields| fields.contains(root))
    }

    /// How many there are that count: a rule in a field once, whatever forms of the text show it.
    fn counted(&self, detections: &[Detection]) -> usize {
        let counting = detections.iter().filter(|detection| self.counts(detection));
        counting.map(|found| (&found.pattern, &found.field)).collect::<BTreeSet<_>>().len()
    }

    fn poisoned(&self, tool: &ToolFacts) -> bool {
        // Nearly every tool has none, and the worst is known.
        tool.max_severity >= Some(self.threshold)
            && self.counted(&tool.detections) >= self.min_detections as usize
            && !tool.approved
    }
}

impl Guard for ToolPoisoning {
    fn kind(&self) -> GuardKind {
        GuardKind::ToolPoisoning
    }

    fn check(
        &mut self,
        operation: &Operation<'_>,
        facts: &Facts<'_>,
        _: Timestamp,
    ) -> Result<Decision, GuardError> {
        match *operation {
            Operation::ToolsList { tools } => {
                warn_of(tools, "tools have detections", |tool| self.poisoned(tool))
            }
            Operation::ToolInvoke { tool_name, .. } => {
                let Some(tool) = facts.tool.filter(|tool| self.poisoned(tool)) else { return allow() };
                let counting = tool.detections.iter().filter(|detection| self.counts(detection));
                let rules = Detection::rules(counting);
                let id = format!("tool '{}' of server '{}'", short(tool_name), short(&facts.server.0));
                let found = format!("{id} has detections: {}", rules.join(", "));
                let details = Some(DenialDetails::Definition {
                    severity: tool.max_severity,
                    rules: rules.into_iter().map(str::to_owned).collect(),
                });
                match self.action {
                    _ if facts.trust == Trust::High => warn(found),
                    DetectionAction::Alert => warn(found),
                    DetectionAction::RequireApproval => {
                        hold(Some(tool), DenialCode::ApprovalRequired, found, details)
                    }
                    DetectionAction::Block => deny_with(DenialCode::ToolPoisoned, found, details),
                }
            }
            _ => allow(),
        }
    }

    fn why(&self, _: &Operation<'_>, facts: &Facts<'_>, _: Timestamp) -> Option<String> {
        let found = facts.tool.map(|tool| self.counted(&tool.detections));
        Some(match (found, facts.tool) {
            (None, _) => "its definition is not known".to_owned(),
            (Some(0), _) => {
                format!("its definition has nothing at or above {}", self.threshold.name())
            }
            (_, Some(tool)) if tool.approved => "its definition is approved".to_owned(),
            (Some(found), _) => {
                format!("its definition has {found} detections; {} are needed", self.min_detections)
            }
        })
    }
}

#[cfg(test)]
mod tests;
