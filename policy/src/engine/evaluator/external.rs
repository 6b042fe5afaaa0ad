//! Guards that others wrote: what they are asked about, and what follows from their answers.
//!
//! Nothing waits for them. What they deny stands for the operations that follow, among the facts that guards are asked with; the
//! gate's table is made anew for it.

mod questions;
mod requests;
mod retries;

use std::sync::Arc;

use super::listing::Entry;
use super::{Context, Evaluator, Scope, Seen};
use crate::config::FailureMode;
use crate::definition::{hex, json_digest};
use crate::engine::connection::Connection;
use crate::engine::question::GuardQuestion;
use crate::engine::recorder::{MAX_NAME_BYTES, clip};
use crate::engine::timers::Due;
use crate::event::{Event, EventBody, GuardDenied, GuardFailing, GuardModified, GuardRecovered};
use crate::guard::{Operation, ToolFacts, Verdict};
use crate::guards::{Consequence, ExternalGuard, Subjects, Verdicts, consequence, failure_of};
use crate::terms::contract::{GuardFailure, GuardOperation, GuardReply, GuardRequest};
use crate::terms::{Phase, ServerId, Timestamp};
use questions::{Health, Open};
use requests::{context, list, operation};

pub(in crate::engine) use questions::Questions;
pub(in crate::engine) use retries::Retries;

/// Most names of tools in an event.
const MAX_TOOLS: usize = 64;

impl Evaluator {
    /// Asks the guards that others wrote about operations that the other guards have evaluated. What is denied already is not put
    /// to them.
    pub(super) fn ask_external(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        operations: &[Operation<'_>],
        verdict: &Verdict,
    ) {
        if self.judge.external.is_empty() || verdict.denied.is_some() {
            return;
        }
        for one in operations {
            for guard in self.asked(cx, scope, one.phase()) {
                let recorder = cx.reporter.recorder;
                let Some((asked, subjects)) = operation(one, scope, guard.share, recorder) else { break };
                self.ask(cx, scope, seen, &guard, asked, subjects);
            }
        }
    }

    /// Asks them about a page of a list of tools that has some which they have not judged, and has those held that are to be.
    pub(super) fn ask_about_tools(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        entries: &[Entry<'_>],
    ) {
        if self.judge.external.is_empty() {
            return;
        }
        let guards = self.asked(cx, scope, Phase::ToolsList);
        let hash = |entry: &Entry<'_>| -> Arc<str> { hex(&entry.known.hash).into() };
        for guard in guards {
            let tools: Vec<(Arc<str>, Arc<str>)> =
                entries.iter().map(|entry| (entry.name.as_str().into(), hash(entry))).collect();
            let is_judged = |(_, hash): &(Arc<str>, Arc<str>)| {
                self.judge.questions.judged(&guard.name, (&scope.server, scope.owner), hash) == Some(true)
            };
            if tools.iter().all(is_judged) {
                continue;
            }
            if guard.holds {
                cx.reporter.gate_is_stale(Some(seen.time));
            }
            let (server, session) = (scope.server.clone(), scope.session.clone());
            let owner = scope.owner;
            let subjects =
                Subjects { phase: Phase::ToolsList, server, session, owner, tools, name: "".into() };
            let asked = list(entries.iter().map(|entry| (&*entry.name, entry.json)));
            self.ask(cx, scope, seen, &guard, asked, subjects);
        }
    }

    /// Those that are asked about a server in a phase.
    fn asked(&self, cx: &Context<'_>, scope: &Scope, phase: Phase) -> Vec<Arc<ExternalGuard>> {
        let also: &[ServerId] = cx.connections.get(scope.connection).map_or(&[], |known| known.also());
        let asked = self.judge.external.iter().filter(|guard| guard.is_asked(phase, (&scope.server, also)));
        asked.cloned().collect()
    }

    /// The guards that hold a tool of a connection until they have judged it, and have not.
    pub(super) fn holders(
        &self,
        connection: &Connection,
        owner: Option<u32>,
        tool: &ToolFacts,
    ) -> Vec<Arc<str>> {
        let server = connection.server_id();
        let holds = |guard: &&Arc<ExternalGuard>| {
            guard.holds_tools_of((&server, connection.also()))
                && self.judge.questions.judged(&guard.name, (&server, owner), &tool.hash).is_none()
        };
        let holders = self.judge.external.iter().filter(holds);
        holders.map(|guard| guard.name.name.as_str().into()).collect()
    }

    fn ask(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        guard: &ExternalGuard,
        operation: GuardOperation,
        subjects: Subjects,
    ) {
        let connection = cx.connections.get(scope.connection);
        let request = GuardRequest { operation, context: context(scope, connection, seen.id, seen.time) };
        let json = serde_json::to_string(&(&guard.name.name, &request)).unwrap_or_default();
        let digest = json_digest(&json);
        let id: Arc<str> = hex(digest.get(..16).unwrap_or(&digest)).into();
        let question = GuardQuestion {
            id,
            guard: Arc::clone(&guard.name),
            owner: scope.owner,
            request: Arc::new(request),
            timeout: guard.timeout,
            time: seen.time,
        };
        let open = Open {
            question: question.clone(),
            subjects,
            scope: scope.clone(),
            jsonrpc_id: seen.id.cloned(),
            trace: cx.reporter.trace.clone(),
            asked: seen.now,
        };
        let (questions, deadline) = (&mut self.judge.questions, open.deadline());
        if questions.is_open(&question.id) {
            return;
        }
        match questions.open(open) {
            Ok(()) => {
                cx.timers.set(soon(deadline), Due::Guards);
                cx.reporter.ask(question);
            }
            Err(open) => {
                let failure =
                    GuardFailure::Refused("too many questions are open, or this one is too large".to_owned());
                self.conclude(cx, *open, Err(&failure), seen.now);
            }
        }
    }

    /// Has the next of what ends by itself be due.
    fn set_timers(&self, cx: &mut Context<'_>) {
        let next = [self.judge.questions.next(), self.judge.denials.next(), self.judge.retries.next()];
        if let Some(next) = next.into_iter().flatten().min() {
            cx.timers.set(soon(next), Due::Guards);
        }
    }

    /// Takes the answer to a question, or why there is none.
    pub(in crate::engine) fn answered(
        &mut self,
        cx: &mut Context<'_>,
        id: &str,
        answer: Result<&GuardReply, &GuardFailure>,
        now: Timestamp,
    ) {
        if let Some(open) = self.judge.questions.take(id) {
            self.conclude(cx, open, answer, now);
        }
    }

    /// Gives up the questions whose time is over, and the denials that no longer stand.
    pub(in crate::engine) fn expire_external(&mut self, cx: &mut Context<'_>, now: Timestamp) {
        for id in self.judge.questions.expired(now) {
            self.answered(cx, &id, Err(&GuardFailure::Timeout), now);
        }
        if self.judge.denials.expire(now) {
            cx.reporter.gate_is_stale(None);
        }
        self.ask_again(cx, now);
        self.set_timers(cx);
    }

    /// What follows from an answer.
    fn conclude(
        &mut self,
        cx: &mut Context<'_>,
        open: Open,
        answer: Result<&GuardReply, &GuardFailure>,
        now: Timestamp,
    ) {
        let name = &open.question.guard;
        // It may be configured no more.
        let Some(guard) = self.judge.external.iter().find(|guard| guard.name == *name).cloned() else {
            return;
        };
        let answer = answer.map_err(Clone::clone);
        let consequence = answer.and_then(|reply| consequence(&guard, &open.subjects, reply, now));
        self.report_health(cx, &open, &guard, consequence.as_ref().err(), now);
        let is_final = consequence.as_ref().is_ok_and(Consequence::is_final);
        let mut failed = None;
        let counters = &mut self.judge.questions.counters;
        let consequence = match consequence {
            Ok(consequence) => {
                match &consequence {
                    Consequence::Nothing => counters.allowed += 1,
                    Consequence::Deny(_) => counters.denied += 1,
                    Consequence::Modify { .. } => counters.modified += 1,
                }
                consequence
            }
            Err(failure) => {
                match failure {
                    GuardFailure::Timeout => counters.timed_out += 1,
                    _ => counters.failed += 1,
                }
                let consequence = failure_of(&guard, &open.subjects, &failure, now);
                failed = Some(failure);
                consequence
            }
        };
        match consequence {
            Consequence::Nothing => {}
            Consequence::Deny(verdicts) => self.deny(cx, &open, &guard, verdicts, now),
            Consequence::Modify { action, message, is_applied, denied } => {
                let tools = denied.map(|denied| self.stand(cx, denied).tools).unwrap_or_default();
                let modified = GuardModified {
                    guard: guard.name.kind,
                    guard_name: guard.name.name.clone(),
                    phase: open.subjects.phase,
                    action,
                    message,
                    applied: is_applied,
                    tools: named(&tools),
                    jsonrpc_id: open.jsonrpc_id.clone(),
                    latency_ns: now.nanos_since(open.question.time),
                };
                report(cx, &open, now, modified);
            }
        }
        // A guard that fails open has said nothing, and holds nothing.
        let is_let_go = failed.is_some() && guard.failure_mode == FailureMode::FailOpen;
        if is_final || is_let_go {
            self.judge.questions.judge(&guard.name, &open.subjects);
            if guard.holds {
                cx.reporter.gate_is_stale(None);
            }
        }
        if open.subjects.phase == Phase::ToolsList && failed.is_some_and(|failure| failure.may_pass()) {
            self.retry(cx, open, now);
        }
    }

    /// Asks about a list once more, later.
    fn retry(&mut self, cx: &mut Context<'_>, open: Open, now: Timestamp) {
        match self.judge.retries.add(open, now) {
            Some(due) => cx.timers.set(soon(due), Due::Guards),
            None => self.judge.questions.counters.refused += 1,
        }
    }

    /// Asks again about lists of which it is time, unless their server is gone or they were judged since.
    fn ask_again(&mut self, cx: &mut Context<'_>, now: Timestamp) {
        while let Some(open) = self.judge.retries.take(now) {
            let (guard, subjects) = (Arc::clone(&open.question.guard), &open.subjects);
            let is_known = self.judge.external.iter().any(|known| known.name == guard);
            let questions = &mut self.judge.questions;
            let of = (&subjects.server, subjects.owner);
            let is_judged =
                subjects.tools.iter().all(|(_, hash)| questions.judged(&guard, of, hash) == Some(true));
            let is_over = is_judged || cx.connections.get(open.scope.connection).is_none();
            if is_over || !is_known || questions.is_open(&open.question.id) {
                continue;
            }
            let open = Open { asked: now, ..open };
            let (question, deadline) = (open.question.clone(), open.deadline());
            match questions.open(open) {
                Ok(()) => {
                    cx.timers.set(soon(deadline), Due::Guards);
                    cx.reporter.ask(question);
                }
                Err(open) => self.retry(cx, *open, now),
            }
        }
    }

    /// Denies what an answer denies, from now on, and reports it.
    fn deny(
        &mut self,
        cx: &mut Context<'_>,
        open: &Open,
        guard: &ExternalGuard,
        verdicts: Verdicts,
        now: Timestamp,
    ) {
        let Verdicts { code, message, scope, tools, until, .. } = self.stand(cx, verdicts);
        let name = &open.subjects.name;
        let denied = GuardDenied {
            guard: guard.name.kind,
            guard_name: guard.name.name.clone(),
            phase: open.subjects.phase,
            code: code.to_string(),
            reason: message.to_string(),
            scope,
            tools: named(&tools),
            name: (!name.is_empty()).then(|| clip(name, MAX_NAME_BYTES)),
            jsonrpc_id: open.jsonrpc_id.clone(),
            valid_until: until,
            latency_ns: now.nanos_since(open.question.time),
            enforced: false,
        };
        cx.reporter.counters.denials += 1;
        report(cx, open, now, denied);
    }

    /// Has denials stand. The rest of what is known of them.
    fn stand(&mut self, cx: &mut Context<'_>, mut verdicts: Verdicts) -> Verdicts {
        if let Some(until) = verdicts.until {
            cx.timers.set(soon(until), Due::Guards);
        }
        for denial in std::mem::take(&mut verdicts.denials) {
            for displaced in self.judge.denials.add(denial) {
                self.judge.questions.forget(&displaced);
            }
        }
        cx.reporter.gate_is_stale(None);
        verdicts
    }

    /// Reports that a guard fails, once, and that it answers again.
    fn report_health(
        &mut self,
        cx: &mut Context<'_>,
        open: &Open,
        guard: &ExternalGuard,
        failure: Option<&GuardFailure>,
        now: Timestamp,
    ) {
        let (kind, guard_name) = (guard.name.kind, guard.name.name.clone());
        match self.judge.questions.heard(&guard.name, failure.is_none()) {
            Health::Same => {}
            Health::Fails => {
                let reason =
                    failure.map(|failure| clip(&failure.to_string(), MAX_NAME_BYTES)).unwrap_or_default();
                let denies = guard.failure_mode == FailureMode::FailClosed;
                let failing =
                    GuardFailing { guard: kind, guard_name, phase: open.subjects.phase, reason, denies };
                cx.reporter.emit(Event::agent(now, failing.into()));
            }
            Health::Recovers(failures) => {
                if self.judge.denials.lift_failures(&guard.name) {
                    cx.reporter.gate_is_stale(None);
                }
                let recovered = GuardRecovered { guard: kind, guard_name, failures };
                cx.reporter.emit(Event::agent(now, recovered.into()));
            }
        }
    }
}

/// The next tenth of a second: one timer for all that is due until then.
fn soon(at: Timestamp) -> Timestamp {
    const TENTH: u64 = 100_000_000;
    Timestamp(at.0.div_ceil(TENTH).saturating_mul(TENTH))
}

/// Reports something about the operation that a question is about.
fn report(cx: &mut Context<'_>, open: &Open, now: Timestamp, body: impl Into<EventBody>) {
    let (scope, body) = (open.scope.clone(), body.into());
    cx.traced(open.trace.clone(), |cx| cx.reporter.report(scope, now, body));
}

/// The first names of tools.
fn named(tools: &[Arc<str>]) -> Vec<String> {
    tools.iter().take(MAX_TOOLS).map(|tool| clip(tool, MAX_NAME_BYTES)).collect()
}
