//! Results that are not the end of a call: what the server wants first.

use mcpwarden_client::call::is_task;
use mcpwarden_policy::protocol::{members, string};
use serde_json::Value;

use crate::output::clean;

/// A result that is not the end of a call, in words; `None` of one that is.
pub fn pending(result: &str) -> Option<String> {
    let [kind] = members(result, ["resultType"]);
    let value = || serde_json::from_str::<Value>(result).unwrap_or_default();
    match &*string(kind) {
        "" | "complete" if !is_task(result) => None,
        "input_required" => Some(format!(
            "the server requires input before it answers, which mcpwarden cannot give: {}",
            requested(&value())
        )),
        "" | "complete" | "task" => {
            let value = value();
            let task = value.get("task").unwrap_or(&value);
            let text = |name: &str| task.get(name).and_then(Value::as_str).map(clean).unwrap_or_default();
            Some(match text("status").as_str() {
                "input_required" => {
                    "the task of the call requires input, which mcpwarden cannot give".to_owned()
                }
                status => format!("the server made the task {} of the call ({status})", text("taskId")),
            })
        }
        other => Some(format!("the result is of the unknown type `{}`", clean(other))),
    }
}

/// What a server requires, each with its method and message.
fn requested(result: &Value) -> String {
    let requests: Vec<&Value> = match result.get("inputRequests") {
        Some(Value::Object(requests)) => requests.values().collect(),
        Some(Value::Array(requests)) => requests.iter().collect(),
        _ => Vec::new(),
    };
    let one = |request: &&Value| {
        let method = request.get("method").and_then(Value::as_str).unwrap_or("?");
        let params = request.get("params");
        let message = params.and_then(|params| params.get("message")).and_then(Value::as_str);
        let url = params.and_then(|params| params.get("url")).and_then(Value::as_str);
        let texts: Vec<String> =
            message.into_iter().chain(url).map(|text| format!(" \"{}\"", clean(text))).collect();
        clean(method) + &texts.concat()
    };
    match requests.iter().map(one).collect::<Vec<_>>() {
        requests if requests.is_empty() => "it does not say what".to_owned(),
        requests => requests.join(", "),
    }
}
