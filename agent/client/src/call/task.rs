//! Calls that a server answers with a task (MCP 2025-11-25, "Tasks"): the task is asked for until it has ended, and its result is
//! the one of the call.

use std::time::{Duration, Instant};

use anyhow::Result;
use mcpwarden_policy::protocol::{members, string};
use rmcp::model::RequestMetaObject;
use serde_json::{Value, json};

use super::{Answer, Conversation};
use crate::inspect::session::{Terms, until};

/// How long to wait between two questions, where the server does not say.
const PAUSE: Duration = Duration::from_secs(1);
/// The shortest and the longest such time.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Whether a tool can be called as a task alone, by its definition.
pub fn wants_task(definition: &str) -> bool {
    let [execution] = members(definition, ["execution"]);
    let support = execution.and_then(|execution| members(execution.get(), ["taskSupport"])[0]);
    string(support) == "required"
}

/// Whether a result says that a task was made of the call.
pub fn is_task(result: &str) -> bool {
    members(result, ["task"])[0].is_some()
}

/// What is known of a task.
#[derive(Debug, PartialEq)]
struct Task {
    id: String,
    status: String,
    pause: Duration,
}

impl Task {
    /// The one that a JSON object describes.
    fn of(json: &Value) -> Option<Self> {
        let text = |name: &str| json.get(name).and_then(Value::as_str).map(str::to_owned);
        let pause = json.get("pollInterval").and_then(Value::as_u64).map_or(PAUSE, Duration::from_millis);
        Some(Self { id: text("taskId")?, status: text("status")?, pause: pause.clamp(PAUSES.0, PAUSES.1) })
    }

    /// Whether it goes on without anybody's help.
    fn is_working(&self) -> bool {
        self.status == "working"
    }
}

/// The answer, or, where that is a task, what comes of the task.
pub(super) async fn finish(
    conversation: &Conversation,
    answer: Answer,
    (end, terms): (Instant, &Terms<'_>),
) -> Result<Answer> {
    let Answer::Result(result) = &answer else { return Ok(answer) };
    if !is_task(result) {
        return Ok(answer);
    }
    let value: Value = serde_json::from_str(result)?;
    let Some(mut task) = value.get("task").and_then(Task::of) else { return Ok(answer) };
    let request = |method: &'static str, id: &str| {
        let params = json!({ "taskId": id });
        conversation.request(method, params, RequestMetaObject::new(), (end, terms))
    };
    (terms.progress)("works on a task");
    while task.is_working() {
        let pause = task.pause;
        // The time that is left bounds the request that follows.
        let _ = until(terms.interruption, end, async {
            tokio::time::sleep(pause).await;
            Ok(())
        })
        .await?;
        match request("tasks/get", &task.id).await? {
            Answer::Result(state) => match serde_json::from_str(&state).ok().as_ref().and_then(Task::of) {
                Some(state) => task = state,
                None => return Ok(Answer::Result(state)),
            },
            error => return Ok(error),
        }
    }
    if task.status == "input_required" {
        // What it asks for is nothing that anybody here can give.
        return Ok(Answer::Result(
            json!({ "task": { "taskId": task.id, "status": task.status } }).to_string(),
        ));
    }
    request("tasks/result", &task.id).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_and_results_of_tasks_are_recognised() {
        for (definition, expected) in [
            (r#"{"name":"a"}"#, false),
            (r#"{"name":"a","execution":{"taskSupport":"optional"}}"#, false),
            (r#"{"name":"a","execution":{"taskSupport":"required"}}"#, true),
            (r#"{"name":"a","execution":"required"}"#, false),
        ] {
            assert_eq!(wants_task(definition), expected, "{definition}");
        }
        assert!(is_task(r#"{"task":{"taskId":"1","status":"working"}}"#) && !is_task(r#"{"content":[]}"#));
    }

    #[test]
    fn task_is_asked_for_within_bounds() {
        let of =
            |json: Value| Task::of(&json).map(|task| (task.status.clone(), task.pause, task.is_working()));
        for (json, expected) in [
            (json!({ "taskId": "1", "status": "working" }), Some(("working", 1_000, true))),
            (json!({ "taskId": "1", "status": "working", "pollInterval": 0 }), Some(("working", 100, true))),
            (
                json!({ "taskId": "1", "status": "working", "pollInterval": 99_999 }),
                Some(("working", 5_000, true)),
            ),
            (
                json!({ "taskId": "1", "status": "completed", "pollInterval": 300 }),
                Some(("completed", 300, false)),
            ),
            (json!({ "taskId": 1, "status": "working" }), None),
            (json!({}), None),
        ] {
            let expected =
                expected.map(|(status, ms, works)| (status.to_owned(), Duration::from_millis(ms), works));
            assert_eq!(of(json.clone()), expected, "{json}");
        }
    }
}
