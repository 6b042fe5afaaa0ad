//! What guards said of one thing, and what of it goes into events.

use serde_json::Value;

use super::{Reporter, Scope};
use crate::detect::Inspection;
use crate::engine::recorder::{MAX_NAME_BYTES, clip};
use crate::engine::rounds::Denied;
use crate::event::{Action, Decided, MessageKind, Objection, RequestBlocked, RequestWarned};
use crate::guard::{Denial, DenialDetails, GuardKind, Modification, Recorded, Verdict};
use crate::terms::Timestamp;

/// What the guards said of an operation.
#[derive(Debug, Default)]
pub(super) struct Evaluation {
    pub(super) action: Action,
    pub(super) denied: Option<(GuardKind, Denial)>,
    /// Who denied it besides.
    also: Vec<(GuardKind, Denial)>,
    pub(super) warnings: Vec<String>,
    /// What guards found that looked themselves.
    pub(super) found: Inspection,
    /// The guard that warned first, where none denied.
    warned_by: Option<GuardKind>,
    /// Whether a warning says what no detection does.
    pub(super) remarked: bool,
    /// The tools that guards keep of a list, by name: one list for each that left some out.
    pub(super) kept: Vec<Vec<String>>,
    pub(super) left_out: Vec<String>,
    pub(super) recorded: Recorded,
    pub(super) enforced: bool,
}

impl Evaluation {
    pub(super) fn of(verdict: Verdict) -> Self {
        let (enforced, recorded) = (verdict.enforced, verdict.recorded);
        let mut evaluation = Self { enforced, recorded, ..Self::default() };
        for (kind, modification) in verdict.modifications {
            match modification {
                Modification::AddWarning { message, detections } => {
                    evaluation.warned_by.get_or_insert(kind);
                    evaluation.remarked |= detections.is_empty();
                    evaluation.warnings.push(message);
                    evaluation.found.detections.extend(detections);
                }
                Modification::NoteMuted { detections } => evaluation.found.detections.extend(detections),
                Modification::ReplaceTools(kept) => evaluation.kept.push(kept),
                // `recorded` is what came of it.
                Modification::RedactFields { .. } => {}
            }
        }
        for (kind, error) in verdict.failed_open {
            evaluation.remarked = true;
            evaluation.warnings.push(format!("{}: {error}", kind.name()));
        }
        if let Some((_, Denial { details: Some(DenialDetails::Text { detections, .. }), .. })) =
            &verdict.denied
        {
            evaluation.found.detections.extend(detections.iter().cloned());
        }
        evaluation.action = match (&verdict.denied, evaluation.warnings.is_empty()) {
            (Some(_), _) => Action::Block,
            (None, false) => Action::Alert,
            (None, true) => Action::Allow,
        };
        // The gate goes by a table, which can be stricter than the guards, and refuses all of a write.
        if evaluation.enforced {
            evaluation.action = Action::Block;
        }
        (evaluation.denied, evaluation.also) = (verdict.denied, verdict.also);
        evaluation
    }

    /// Who denies it, and with which code.
    pub(super) fn code(&self) -> Denied {
        self.denied.as_ref().map(|(guard, denial)| (*guard, denial.code))
    }

    /// All who denied it.
    fn objections(&self) -> impl Iterator<Item = &(GuardKind, Denial)> {
        self.denied.iter().chain(&self.also)
    }

    /// What guards across servers object.
    pub(super) fn across_servers(&self) -> impl Iterator<Item = &(GuardKind, Denial)> {
        self.objections().filter(|(guard, _)| guard.is_across_servers())
    }

    /// What all object but this one.
    pub(super) fn objections_but(&self, one: &Denial) -> Vec<Objection> {
        let others = self.objections().filter(|(_, denial)| !std::ptr::eq(denial, one));
        others
            .map(|(guard, denial)| Objection {
                guard: *guard,
                code: denial.code.name().to_owned(),
                reason: denial.message.clone(),
            })
            .collect()
    }

    /// The denial that an approval would end. Of a server that may not be used it would end nothing.
    pub(super) fn awaits_approval(&self) -> Option<&(GuardKind, Denial)> {
        let is_futile = self.also.iter().any(|(guard, _)| *guard == GuardKind::ServerAccess);
        self.denied.as_ref().filter(|(_, denial)| denial.awaits_approval() && !is_futile)
    }

    /// What these rules found in the arguments is worth a look, whatever the guards say of the call.
    pub(super) fn find_in_arguments(&mut self, rules: &[&str]) {
        if !rules.is_empty() {
            self.action = self.action.max(Action::Alert);
            self.warnings.push(format!("the arguments have detections: {}", rules.join(", ")));
        }
    }

    /// Writes the decision into an event.
    pub(super) fn write(&self, decided: &mut Decided) {
        decided.action = self.action;
        decided.enforced = self.enforced;
        if let Some((guard, denial)) = &self.denied {
            decided.guard = Some(*guard);
            decided.code = Some(denial.code.name().to_owned());
            decided.reason = Some(denial.message.clone());
            decided.also_denied_by = self.objections_but(denial);
        } else if self.enforced {
            decided.code = Some("gate".to_owned());
            decided.reason = Some("the gate stopped it with what it was written with".to_owned());
        } else {
            decided.guard = self.warned_by;
            decided.reason = self.warnings.first().cloned();
        }
        decided.warnings.clone_from(&self.warnings);
    }
}

/// Reports what is denied or remarked of a request, or an answer, that is of no tool call.
pub(super) fn report_verdict(
    reporter: &mut Reporter<'_>,
    scope: &Scope,
    time: Timestamp,
    (kind, method, id): (MessageKind, &str, &Value),
    evaluation: &Evaluation,
) {
    let (method, jsonrpc_id) = (clip(method, MAX_NAME_BYTES), id.clone());
    if let Some((guard, denial)) = &evaluation.denied {
        let blocked = RequestBlocked {
            kind,
            method,
            jsonrpc_id: Some(jsonrpc_id),
            guard: *guard,
            code: denial.code.name().to_owned(),
            reason: denial.message.clone(),
            also_denied_by: evaluation.objections_but(denial),
            enforced: evaluation.enforced,
        };
        reporter.report(scope.clone(), time, blocked);
    } else if evaluation.remarked && !evaluation.warnings.is_empty() || !evaluation.left_out.is_empty() {
        let (warnings, tools_left_out) = (evaluation.warnings.clone(), evaluation.left_out.clone());
        let warned = RequestWarned { kind, method, jsonrpc_id, warnings, tools_left_out };
        reporter.report(scope.clone(), time, warned);
    }
}
