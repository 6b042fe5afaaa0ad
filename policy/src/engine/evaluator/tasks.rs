//! Tasks: an answer that comes later than its request, asked for by the id of the task (extension of MCP 2026-07-28, and MCP
//! 2025-11-25).

use serde_json::Value;
use serde_json::value::RawValue;

use super::inputs::{Inputs, rest};
use super::rounds::{GoesOn, Try, bounds, digest, is_related, report_misuse};
use super::{Connection, Context, Evaluator, Scope, Seen};
use crate::detect::Structure;
use crate::engine::asked::{Answered, Asked};
use crate::engine::connection::Stage;
use crate::engine::ledger::Digest;
use crate::engine::rounds::Attempt;
use crate::engine::seen::{Earlier, Reading};
use crate::engine::tasks::{Nearness, Task, TaskCall};
use crate::protocol::{Course, Id, Kind, Message, Method, ResultKind, Retry, members, string};
use crate::terms::{ConnectionId, Direction};

/// Most tasks of one request that are looked at.
const MAX_TASKS: usize = 1_000;

impl Evaluator {
    /// The task that a client's request is about. That it is another's is reported.
    pub(super) fn task_asked_for(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        of: Try<'_>,
        retry: &Retry<'_>,
    ) -> Option<Digest> {
        if of.method == Method::SubscriptionsListen.as_str() {
            let tasks: Vec<&RawValue> =
                retry.tasks.and_then(|tasks| serde_json::from_str(tasks.get()).ok()).unwrap_or_default();
            let mut tasks = tasks.into_iter().take(MAX_TASKS).map(digest);
            tasks.find(|task| {
                self.report_foreign(cx, scope, seen, of, (*task, "/params/notifications/taskIds"))
            });
            return None;
        }
        let task = retry.task.filter(|_| of.method.starts_with("tasks/")).map(digest)?;
        self.report_foreign(cx, scope, seen, of, (task, "/params/taskId"));
        if of.method == Method::TasksCancel.as_str() {
            self.task_given_up(cx, scope, seen, task);
        }
        Some(task)
    }

    /// Reports that a task is another's, if it is known to be.
    fn report_foreign(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        of: Try<'_>,
        (task, field): (Digest, &str),
    ) -> bool {
        let owner = self.owner(cx, scope.connection);
        // Where something was not seen, the server may have made a task of its own with this id.
        let is_whole = |connection: &Connection| connection.totals.gap_bytes == 0 && !connection.adopted;
        if !cx.connections.get(scope.connection).is_some_and(is_whole) {
            return false;
        }
        let foreign = self.tasks.foreign(owner, task, |other| nearness(cx, scope.connection, other));
        if let Some(foreign) = foreign {
            report_misuse(cx, scope, seen, of, (Structure::ForeignTask, foreign.words(), field));
        }
        foreign.is_some()
    }

    /// The id of the request whose task an answer to `tasks/result` is of (MCP 2025-11-25).
    pub(super) fn made_by(&mut self, cx: &Context<'_>, scope: &Scope, to: Answered<'_>) -> Option<Value> {
        let is_result =
            matches!(to.asked, Asked::Other { method } if **method == *Method::TasksResult.as_str());
        let task = to.attempt.task.filter(|_| is_result)?;
        let owner = self.owner(cx, scope.connection);
        self.tasks.of(owner, scope.connection, task).map(|task| task.made_by.clone())
    }

    /// A server makes a task of a request.
    pub(super) fn task_made(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        (id, course): (Digest, &Course<'_>),
        to: Answered<'_>,
    ) {
        let owner = self.owner(cx, scope.connection);
        let call = match to.asked {
            Asked::Call { tool_name } if course.kind == ResultKind::Task => Some(TaskCall {
                tool_name: tool_name.clone(),
                id: to.id.clone(),
                time: to.time,
                attempt: to.attempt.clone(),
                trace: cx.reporter.trace.clone(),
            }),
            _ => None,
        };
        let has_call = call.is_some();
        let made_by = to.first().0.clone();
        let task = Task { owner, connection: scope.connection, made_by, call, end: None };
        cx.reporter.counters.tasks_evicted += self.tasks.add(id, task, bounds(cx));
        // It may be over as soon as it is made.
        if has_call {
            self.task_told(cx, scope, seen, (Some(id), course), to);
        }
    }

    /// A server tells how a task is. With its end its call has its result.
    pub(super) fn task_told(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        (id, course): (Option<Digest>, &Course<'_>),
        to: Answered<'_>,
    ) {
        if !course.is_over() {
            return;
        }
        let is_cancelled = course.result.or(course.error).is_none() && &*string(course.status) == "cancelled";
        let text = course.result.or(course.error).map_or("null", RawValue::get);
        let end = Digest::of(&[&[u8::from(course.result.is_some())], text.as_bytes()]);
        let owner = self.owner(cx, scope.connection);
        let known = id.and_then(|id| self.tasks.of(owner, scope.connection, id));
        let before = known.as_ref().and_then(|task| task.end);
        let call = known.and_then(|task| {
            task.end = Some(end);
            task.call.clone()
        });
        let Some(TaskCall { tool_name, id, time, attempt, trace }) = call else {
            // Of no call that waits. Without a result there is nothing to be inspected.
            if text != "null" && !cx.is_reported(scope.connection, "tasks/result", &end.hex()) {
                let asked = Asked::Other { method: Method::TasksResult.as_str().into() };
                let to = Answered { asked: &asked, attempt: &Attempt::default(), ..to };
                self.judge_end(cx, scope, seen, course, to);
            }
            return;
        };
        if before == Some(end) {
            return;
        }
        if is_cancelled {
            return self.settle_call(cx, scope, seen, &tool_name);
        }
        let earlier = if before.is_some() { Earlier::Taken } else { seen.reading.earlier };
        let seen = Seen { reading: Reading { earlier, respelled: None, ..seen.reading }, ..seen };
        let asked = Asked::Call { tool_name };
        let to = Answered { asked: &asked, id: &id, time, attempt: &attempt };
        cx.traced(trace, |cx| self.judge_end(cx, scope, seen, course, to));
    }

    /// Evaluates the result, or the error, that a task ends with, as the answer that it stands for.
    fn judge_end(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        course: &Course<'_>,
        to: Answered<'_>,
    ) {
        if let (None, Some(error)) = (course.result, course.error) {
            let raw = format!("{{\"error\":{}}}", error.get());
            let [code, message, data] = members(error.get(), ["code", "message", "data"]);
            let kind = Kind::Error {
                id: Id("null"),
                code: code.and_then(|code| code.get().parse().ok()).unwrap_or(0),
                message: string(message),
                data,
                is_regular: true,
            };
            let message =
                Message { kind, raw: &raw, versioned: true, repeated: None, beside: None, has_more: false };
            self.judge_answer(cx, scope, seen, &message, (to, GoesOn::default()));
            return;
        }
        let Ok(null) = RawValue::from_string("null".to_owned()) else { return };
        let result = course.result.unwrap_or(&null);
        let within = Course::of(result.get());
        if let Some(json) = within.inputs {
            let inputs = Inputs { field: "/result/inputRequests", json, task: None };
            self.judge_inputs(cx, scope, seen, to.id, inputs);
        }
        let kind = Kind::Response { id: Id("null"), result };
        let message = Message {
            kind,
            raw: result.get(),
            versioned: true,
            repeated: None,
            beside: None,
            has_more: false,
        };
        let goes_on = GoesOn { rest: rest(result, &[]), is_pending: false };
        self.judge_answer(cx, scope, seen, &message, (to, goes_on));
    }

    /// A client gives up a task: nobody waits for the result of its call any more.
    fn task_given_up(&mut self, cx: &mut Context<'_>, scope: &Scope, seen: Seen<'_>, id: Digest) {
        let owner = self.owner(cx, scope.connection);
        let task = self.tasks.of(owner, scope.connection, id).filter(|task| task.end.is_none());
        let tool_name = task.and_then(|task| task.call.as_ref()).map(|call| call.tool_name.clone());
        if let Some(tool_name) = tool_name {
            self.settle_call(cx, scope, seen, &tool_name);
        }
    }

    /// Takes what a notification of a server tells of a task, and evaluates what it asks. What is left of its params.
    pub(super) fn notified(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        message: &Message<'_>,
    ) -> Option<Box<RawValue>> {
        let Kind::Notification { method, params: Some(params) } = &message.kind else { return None };
        if seen.direction != Direction::ServerToClient {
            return None;
        }
        let course = Course::of(params.get());
        let is_of_task = matches!(method, Method::TasksChanged | Method::TasksStatus);
        let task = course.task.filter(|_| is_of_task).map(digest);
        let is_over = is_of_task && course.is_over();
        let asked = Asked::Other { method: method.as_str().into() };
        let attempt = Attempt::default();
        let to = Answered { asked: &asked, id: &Value::Null, time: seen.time, attempt: &attempt };
        if is_over {
            self.task_told(cx, scope, seen, (task, &course), to);
        }
        if let Some(json) = course.inputs {
            let inputs = Inputs { field: "/params/inputRequests", json, task };
            self.judge_inputs(cx, scope, seen, to.id, inputs);
        }
        let judged = if is_over { [course.result, course.error] } else { [None; 2] };
        rest(params, &judged)
    }
}

/// How near the connection that made a task is to another.
fn nearness(cx: &Context<'_>, id: ConnectionId, other: ConnectionId) -> Nearness {
    match cx.connections.get(other) {
        _ if is_related(cx, id, other) => Nearness::Same,
        Some(connection) if !matches!(connection.stage, Stage::Exited) => Nearness::Away,
        _ => Nearness::Gone,
    }
}
