//! Which tools are held until somebody approves them: see [`super::approvals`].

use super::approvals::{WaitingTool, Wanted};
use super::{Connections, Context, Evaluator, Scope, Seen, Topic};
use crate::engine::ids::ApprovalId;
use crate::engine::recorder::tool_id;
use crate::engine::timers::Due;
use crate::event::{Action, ApprovalRequested, ApprovalTimedOut, Whose};
use crate::guard::{Decision, Denial, DenialCode, GuardKind, Operation, Refusal};
use crate::registry::{LimitedApproval, PinKey};
use crate::terms::{ConnectionId, Timestamp};

/// The guards that go by a tool's definition.
const OF_DEFINITIONS: [GuardKind; 3] =
    [GuardKind::ToolShadowing, GuardKind::RugPull, GuardKind::ToolPoisoning];

/// What the guards that go by definitions would say of calls of a tool.
#[derive(Debug, Default)]
pub(super) struct Review([Option<Decision>; OF_DEFINITIONS.len()]);

impl Review {
    /// What would come of a call, if these guards alone were asked; `None` where none of them is there.
    pub(super) fn action(&self, of: &[GuardKind]) -> Option<Action> {
        let asked = OF_DEFINITIONS.iter().zip(&self.0).filter(|(kind, _)| of.contains(kind));
        let action = |decision: &Decision| match decision {
            Decision::Allow => Action::Allow,
            Decision::Modify(_) => Action::Alert,
            Decision::Deny(_) => Action::Block,
        };
        asked.filter_map(|(_, decision)| decision.as_ref().map(action)).max()
    }

    /// Whether a guard holds the tool for its definition.
    pub(super) fn holds(&self) -> bool {
        OF_DEFINITIONS
            .into_iter()
            .zip(&self.0)
            .any(|(kind, decision)| matches!(decision, Some(Decision::Deny(denial)) if is_held(kind, denial)))
    }

    /// Who holds the tool for its definition.
    fn hold(self) -> Option<(GuardKind, Denial)> {
        OF_DEFINITIONS.into_iter().zip(self.0).find_map(|(kind, decision)| match decision {
            Some(Decision::Deny(denial)) if is_held(kind, &denial) => Some((kind, denial)),
            _ => None,
        })
    }
}

/// Whether what a guard says against a definition holds the tool. That it is new speaks neither for nor against it.
fn is_held(kind: GuardKind, denial: &Denial) -> bool {
    (kind != GuardKind::RugPull || denial.code == DenialCode::ToolChanged) && denial.awaits_approval()
}

impl Evaluator {
    /// What the guards would say of calls of a tool that was just listed.
    pub(super) fn review(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        tool: &str,
    ) -> Review {
        let topic = Topic { seen: Some(seen), ..Topic::of(tool) };
        let reviewed = self.with_facts(cx, scope, topic, |executor, facts| {
            let call = Operation::ToolInvoke { tool_name: tool, arguments: None };
            OF_DEFINITIONS.map(|kind| executor.would(kind, &call, facts, seen.time))
        });
        reviewed.map(Review).unwrap_or_default()
    }

    /// Requests the approval of a tool that its definition holds.
    pub(super) fn hold_listed(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        tool: &str,
        review: Review,
    ) {
        if let Some((guard, denial)) = review.hold() {
            self.request_approval(cx, scope, seen.time, tool, (guard, &denial));
        }
    }

    /// Requests the approval of a tool, if that was not done for this definition.
    pub(super) fn request_approval(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        time: Timestamp,
        tool: &str,
        (guard, denial): (GuardKind, &Denial),
    ) {
        let approved = self.registry.limited(scope.connection, tool, time);
        let facts = cx.connections.get(scope.connection).and_then(|known| known.tool(tool));
        let (Some(key), Some(facts)) = (self.registry.key(scope.connection), facts) else { return };
        let is_it = |known: &LimitedApproval| *known.hash == *facts.hash && known.limits.arguments.is_empty();
        if facts.refusal.is_some()
            || self.approvals.is_requested(key, tool, &facts.hash)
            || approved.iter().any(is_it)
        {
            return;
        }
        let expires = time.after(self.judge.approval_timeout());
        let requested = ApprovalRequested {
            tool_name: tool.to_owned(),
            tool_id: tool_id(&scope.server, tool),
            tool_hash: facts.hash.to_string(),
            whose: Whose::from(key),
            guard,
            code: denial.code.name().to_owned(),
            reason: denial.message.clone(),
            shadows: facts.shadows.clone(),
            detections: facts.detections.clone(),
            max_severity: facts.max_severity,
            expires,
        };
        let Some(id) = self.approvals.request(scope, key, &requested, time, &cx.config.limits) else {
            cx.reporter.counters.approvals_refused += 1;
            return;
        };
        cx.timers.set(expires, Due::Approval(id));
        cx.reporter.counters.approvals_requested += 1;
        cx.reporter.report(scope.clone(), time, requested);
        cx.reporter.gate_is_stale(Some(time));
    }

    /// The tools whose approval was requested and that nobody decided about, oldest first. A definition that its server
    /// has replaced since is none of them, unless it comes back.
    pub(in crate::engine) fn waiting(&self, connections: &Connections) -> impl Iterator<Item = WaitingTool> {
        let open = self.approvals.waiting().filter(|(wanted, _)| !self.is_replaced(connections, wanted));
        open.map(|(_, waiting)| waiting)
    }

    /// Whether connected servers offer the tool, and none of them by this definition.
    fn is_replaced(&self, connections: &Connections, wanted: &Wanted) -> bool {
        let of = self.registry.servers(&wanted.key.server).filter(|(_, key)| **key == wanted.key);
        let mut offered = of
            .filter_map(|(connection, _)| connections.get(connection)?.tools.get(wanted.tool.as_str()))
            .peekable();
        offered.peek().is_some() && offered.all(|facts| *facts.hash != *wanted.hash)
    }

    /// Whether the approval of this definition was given up.
    pub(super) fn is_given_up(&self, connection: ConnectionId, tool: &str, hash: &str) -> bool {
        let key = self.registry.key(connection);
        key.is_some_and(|key| self.approvals.is_given_up(key, tool, hash))
    }

    /// Has all connections of a server know whether the approval of a tool was refused.
    pub(super) fn set_refusal(
        &self,
        cx: &mut Context<'_>,
        key: &PinKey,
        (tool, hash): (&str, &str),
        refusal: Option<Refusal>,
    ) {
        for (connection, _) in self.registry.servers(&key.server).filter(|(_, whose)| *whose == key) {
            let known = cx.connections.get_mut(connection);
            let facts = known.and_then(|known| known.tools.get_mut(tool));
            if let Some(facts) = facts.filter(|facts| *facts.hash == *hash) {
                facts.refusal = refusal;
            }
        }
    }

    /// Nobody answered in time.
    pub(in crate::engine) fn time_out_approval(
        &mut self,
        cx: &mut Context<'_>,
        id: ApprovalId,
        now: Timestamp,
    ) {
        let Some((Wanted { hash, tool, key }, scope, requested)) = self.approvals.time_out(id) else {
            return;
        };
        self.set_refusal(cx, &key, (&tool, &hash), Some(Refusal::TimedOut));
        let tool_id = tool_id(&scope.server, &tool);
        cx.reporter.counters.approvals_timed_out += 1;
        cx.reporter.report(
            scope,
            now,
            ApprovalTimedOut { tool_name: tool, tool_id, tool_hash: hash, requested },
        );
        cx.reporter.gate_is_stale(Some(now));
    }
}
