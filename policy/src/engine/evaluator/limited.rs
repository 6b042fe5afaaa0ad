//! Approvals that hold for some calls of a tool, or for some time: which one a call goes by, and how they end.

use std::sync::Arc;

use super::{Context, Evaluator, Scope, Seen, Topic};
use crate::engine::recorder::{Call, tool_id};
use crate::engine::timers::Due;
use crate::event::{ApprovalEnd, ApprovalEnded, GrantLimits, Whose};
use crate::guard::ToolFacts;
use crate::guard::arguments::{self, CompiledConditions, Purpose};
use crate::registry::{EndedApproval, Item, LimitedApproval};
use crate::terms::{ConnectionId, Timestamp};

impl Evaluator {
    /// The limited approval that a call goes by; `None` where there is none for it, or the tool needs none.
    pub(super) fn limited_approval(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        call: &Call<'_>,
    ) -> Option<LimitedApproval> {
        let limited = self.registry.limited(scope.connection, &call.tool_name, seen.time);
        if limited.is_empty() {
            return None;
        }
        let topic = Topic { seen: Some(seen), ..Topic::of(&call.tool_name) };
        let fitting = self.with_facts(cx, scope, topic, |_, facts| {
            // Of the definition that is called here, which another connection may have replaced since.
            let known = facts.tool.filter(|tool| !tool.approved)?;
            let called = arguments::Call::new(&call.tool_name, call.arguments, facts, seen.time);
            let fits = |limited: &LimitedApproval| {
                // Tests that do not compile were refused when they were given.
                let tests = CompiledConditions::of_arguments(&limited.limits.arguments);
                *limited.hash == *known.hash && tests.is_ok_and(|tests| tests.apply(&called, Purpose::Allow))
            };
            limited.into_iter().find(fits)
        });
        fitting.flatten()
    }

    /// A call passed by a limited approval, which may end with it.
    pub(super) fn use_approval(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        time: Timestamp,
        tool: &str,
        approval: &LimitedApproval,
    ) {
        cx.reporter.counters.limited_approvals_used += 1;
        let Some(key) = self.registry.key(scope.connection).filter(|_| approval.limits.once).cloned() else {
            return;
        };
        // A store that failed was counted; in memory the approval is used up.
        let _ = self.registry.use_up(scope.connection, tool, approval);
        let ended = EndedApproval { key, item: Item::tool(tool), approval: approval.clone() };
        report_end(cx, Some(scope.clone()), ended, ApprovalEnd::Used, time);
    }

    /// Has the gate know what of a tool is approved for some calls.
    pub(super) fn approve_in_gate(
        &mut self,
        cx: &mut Context<'_>,
        id: ConnectionId,
        known: &mut ToolFacts,
        now: Timestamp,
    ) {
        if known.approved {
            return;
        }
        let mut limited = self.registry.limited(id, &known.name, now);
        limited.retain(|limited| *limited.hash == *known.hash);
        if limited.is_empty() {
            return;
        }
        for until in limited.iter().filter_map(|limited| limited.limits.until) {
            cx.timers.set(until, Due::LimitedApprovals);
        }
        if limited.iter().any(|limited| limited.limits.arguments.is_empty()) {
            *known = known.as_approved();
        } else {
            let tests = limited.into_iter().map(|limited| limited.limits.arguments).collect();
            known.approved_for = Some(Arc::new(tests));
        }
    }

    /// Limited approvals of a server that has just listed its tools may be over, or will be.
    pub(super) fn time_limited(&mut self, cx: &mut Context<'_>, id: ConnectionId) {
        if let Some(until) = self.registry.limited_until(id) {
            cx.timers.set(until, Due::LimitedApprovals);
        }
    }

    /// Reports the limited approvals that are over.
    pub(in crate::engine) fn end_limited(&mut self, cx: &mut Context<'_>, now: Timestamp) {
        let (ended, next) = self.registry.end_limited(now);
        if let Some(next) = next {
            cx.timers.set(next, Due::LimitedApprovals);
        }
        for ended in ended {
            let connection = self.registry.servers(&ended.key.server).find(|(_, key)| **key == ended.key);
            let scope = connection.and_then(|(id, _)| cx.connections.scope(id));
            report_end(cx, scope, ended, ApprovalEnd::Expired, now);
        }
    }
}

fn report_end(
    cx: &mut Context<'_>,
    scope: Option<Scope>,
    ended: EndedApproval,
    reason: ApprovalEnd,
    time: Timestamp,
) {
    let EndedApproval { key, item, approval } = ended;
    let body = ApprovalEnded {
        tool_id: tool_id(&key.server, &item.name),
        tool_name: item.name,
        tool_hash: approval.hash,
        whose: Whose::from(&key),
        reason,
        by: approval.said.by,
        limits: GrantLimits::from(&approval.limits),
    };
    cx.reporter.report_of_server(&key.server, scope, time, body.into());
    cx.reporter.gate_is_stale(Some(time));
}
