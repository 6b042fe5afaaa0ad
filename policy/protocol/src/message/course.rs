//! How a request goes on after its answer: multi round-trip requests of MCP 2026-07-28, and the tasks of its extension.
//!
//! A server that needs something from its client answers with `resultType: input_required`: `inputRequests` are what it asks, by keys
//! of its own, and the client sends the same request again, with `inputResponses` and the `requestState` of the answer. With
//! `resultType: task` the answer comes later, with the task of that id.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::value::{all_members, members, string, without};

/// What a result is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResultKind {
    /// The end of its request, as far as every reader takes it for that.
    #[default]
    Complete,
    /// The request is to be sent again.
    InputRequired,
    /// A task goes on with it.
    Task,
}

/// What an answer, or a notification about a task, says of how its request goes on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Course<'a> {
    /// What kind of a result it is.
    pub kind: ResultKind,
    /// `inputRequests`, whatever the kind: what a client makes of them is not known.
    pub inputs: Option<&'a RawValue>,
    /// `requestState`.
    pub state: Option<&'a RawValue>,
    /// `taskId`, or that of the member `task` (MCP 2025-11-25).
    pub task: Option<&'a RawValue>,
    /// `status` of a task.
    pub status: Option<&'a RawValue>,
    /// The result within a task.
    pub result: Option<&'a RawValue>,
    /// The error within a task.
    pub error: Option<&'a RawValue>,
}

/// Whether a user's answer to an elicitation says `accept` to any reader: in any of its members of that name, in whatever case.
pub fn accepts(result: &str) -> bool {
    let members = all_members(result).unwrap_or_default();
    let mut actions = members.iter().filter(|(key, _)| key.eq_ignore_ascii_case("action"));
    actions.any(|(_, action)| string(Some(action)).eq_ignore_ascii_case("accept"))
}

/// Members that are the end of a request to a reader that knows no `resultType`.
const CONTENTS: [&str; 5] = ["content", "structuredContent", "contents", "messages", "isError"];

fn is_something(json: &&RawValue) -> bool {
    json.get() != "null"
}

impl<'a> Course<'a> {
    /// Reads a result, the `data` of an error, or the params of a notification.
    pub fn of(json: &'a str) -> Self {
        let [kind, inputs, state, task_id, task, status, result, error] = members(
            json,
            ["resultType", "inputRequests", "requestState", "taskId", "task", "status", "result", "error"],
        );
        let kind = match &*string(kind) {
            "input_required" => ResultKind::InputRequired,
            "task" => ResultKind::Task,
            _ => ResultKind::Complete,
        };
        // What has contents is taken for the end by readers of older revisions.
        let goes_on = kind != ResultKind::Complete && !Self::has_contents(json);
        let task = task_id.or_else(|| task.and_then(|task| members(task.get(), ["taskId"])[0]));
        Self {
            kind: if goes_on { kind } else { ResultKind::Complete },
            inputs: inputs.filter(is_something),
            state: state.filter(is_something),
            task: task.filter(is_something),
            status,
            result: result.filter(is_something),
            error: error.filter(is_something),
        }
    }

    /// Whether a result has contents, as those of calls, prompts and resources have: `json` is what it was read from.
    pub fn has_contents(json: &str) -> bool {
        members(json, CONTENTS).iter().any(Option::is_some)
    }

    /// Whether the task has ended, and how: with `cancelled` nobody waits for a result.
    pub fn is_over(&self) -> bool {
        self.result.is_some()
            || self.error.is_some()
            || matches!(&*string(self.status), "completed" | "failed" | "cancelled")
    }

    /// Whether it says of how a request goes on no more than any result of an older revision.
    pub fn is_plain(&self) -> bool {
        self.kind == ResultKind::Complete && [self.inputs, self.state, self.task].iter().all(Option::is_none)
    }

    /// Without what another reading of the same text says as well.
    #[must_use]
    pub fn beside(self, other: &Self) -> Self {
        let new = |own: Option<&'a RawValue>, other: Option<&RawValue>| {
            own.filter(|own| other.is_none_or(|other| other.get() != own.get()))
        };
        Self {
            kind: self.kind,
            inputs: new(self.inputs, other.inputs),
            state: new(self.state, other.state),
            task: new(self.task, other.task),
            status: new(self.status, other.status),
            result: new(self.result, other.result),
            error: new(self.error, other.error),
        }
    }
}

/// What a client's params say of an earlier answer to the same request, or of a task.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retry<'a> {
    /// `inputResponses`.
    pub responses: Option<&'a RawValue>,
    /// `requestState`.
    pub state: Option<&'a RawValue>,
    /// `taskId`.
    pub task: Option<&'a RawValue>,
    /// `notifications.taskIds` of `subscriptions/listen`.
    pub tasks: Option<&'a RawValue>,
    /// Whether a client of a revision with several rounds sends them: `_meta` names it in every request (MCP 2026-07-28).
    pub has_rounds: bool,
}

/// By what `_meta` of a request shows a revision with rounds, as JSON has it.
const OF_ROUNDS: &str = "io.modelcontextprotocol/protocolVersion";

/// Members of params that differ from one try to the next.
const OF_ONE_TRY: [&str; 3] = ["_meta", "inputResponses", "requestState"];

impl<'a> Retry<'a> {
    /// Reads the params of a request.
    pub fn of(params: Option<&'a RawValue>) -> Self {
        let Some(params) = params else { return Self::default() };
        let [meta, responses, state, task, notifications] =
            members(params.get(), ["_meta", "inputResponses", "requestState", "taskId", "notifications"]);
        let (responses, state) = (responses.filter(is_something), state.filter(is_something));
        let is_named = meta.is_some_and(|meta| meta.get().contains(OF_ROUNDS));
        Self {
            responses,
            state,
            task: task.filter(is_something),
            tasks: notifications.and_then(|wanted| members(wanted.get(), ["taskIds"])[0]),
            has_rounds: is_named || responses.is_some() || state.is_some(),
        }
    }
}

/// Params without what differs from one try of a request to the next.
pub fn of_every_try(params: &str) -> Cow<'_, str> {
    without(params, &OF_ONE_TRY)
}

/// The entries of an object, or of an array, with their keys: what is asked, and what is answered. `None` where it is neither.
pub fn entries(json: &RawValue) -> Option<Vec<(String, &RawValue)>> {
    all_members(json.get()).or_else(|| {
        let list: Vec<&RawValue> = serde_json::from_str(json.get()).ok()?;
        Some(list.into_iter().enumerate().map(|(index, entry)| (index.to_string(), entry)).collect())
    })
}

#[cfg(test)]
mod tests;
