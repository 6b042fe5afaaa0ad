//! What both sides of a connection really exchanged, and whether the agent says the same.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Which way a message went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dir {
    /// From the client to the server.
    C2s,
    /// From the server to the client.
    S2c,
}

/// Reads a log of a client: lines of `{"dir": "c2s" | "s2c", "message": …}`.
///
/// # Errors
/// The file cannot be read or a line is none of these.
pub fn read_log(path: &Path) -> Result<Vec<(Dir, Value)>> {
    #[derive(Deserialize)]
    struct Line {
        dir: Dir,
        message: Value,
    }
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    text.lines()
        .map(|line| {
            let line: Line =
                serde_json::from_str(line).with_context(|| format!("{}: {line}", path.display()))?;
            Ok((line.dir, line.message))
        })
        .collect()
}

/// The message that an event reports in full; none for events about something else.
///
/// `mcp_message` carries it whole. A tool call and its answer are put together again from their parts.
///
/// # Errors
/// The event lacks a part.
pub fn message_of(event: &Value) -> Result<Option<(Dir, Value)>> {
    let part = |name: &str| event.get(name).with_context(|| format!("no `{name}` in {event}"));
    Ok(Some(match event["type"].as_str().unwrap_or_default() {
        "mcp_message" => {
            let dir = Dir::deserialize(part("direction")?).context("an unknown direction")?;
            (dir, part("payload")?.clone())
        }
        "mcp_tool_called" => {
            let mut params = event["meta"].as_object().cloned().unwrap_or_default();
            params.insert("name".to_owned(), part("tool_name")?.clone());
            params.insert("arguments".to_owned(), part("input")?.clone());
            let id = part("jsonrpc_id")?;
            (Dir::C2s, json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
        }
        "mcp_tool_result" => {
            let mut message = Map::from_iter([
                ("jsonrpc".to_owned(), json!("2.0")),
                ("id".to_owned(), part("jsonrpc_id")?.clone()),
            ]);
            match event.get("error_code") {
                Some(code) => {
                    let mut error = json!({"code": code, "message": part("error_message")?});
                    if !part("result")?.is_null() {
                        error["data"] = part("result")?.clone();
                    }
                    message.insert("error".to_owned(), error);
                }
                None => {
                    message.insert("result".to_owned(), part("result")?.clone());
                }
            }
            (Dir::S2c, Value::Object(message))
        }
        _ => return Ok(None),
    }))
}

/// Compares what was said on one connection with what the agent reports of it, message for message and each
/// direction in its order. (Across directions there is none: an answer may be recorded before its request.)
///
/// # Errors
/// The first difference, with what stands on both sides.
pub fn compare(said: &[(Dir, Value)], reported: &[(Dir, Value)]) -> Result<()> {
    let mut problems = String::new();
    for dir in [Dir::C2s, Dir::S2c] {
        let said = of(dir, said);
        let reported = of(dir, reported);
        let same = said.iter().zip(&reported).take_while(|(said, reported)| said == reported).count();
        if same < said.len().max(reported.len()) {
            // Writing to a String cannot fail.
            let _ = writeln!(
                problems,
                "{dir:?}: {} messages said, {} reported, the first {same} are the same; then\n  said:     {}\n  \
                 reported: {}",
                said.len(),
                reported.len(),
                shown(said.get(same)),
                shown(reported.get(same)),
            );
        }
    }
    if problems.is_empty() { Ok(()) } else { bail!("the agent does not report what was said\n{problems}") }
}

/// The messages of one direction, with what an event cannot tell apart made the same.
fn of(dir: Dir, messages: &[(Dir, Value)]) -> Vec<Value> {
    messages
        .iter()
        .filter(|(of, _)| *of == dir)
        // A batch is reported as the messages in it.
        .flat_map(|(_, message)| match message {
            Value::Array(batch) => batch.clone(),
            other => vec![other.clone()],
        })
        .map(normal)
        .collect()
}

fn normal(mut message: Value) -> Value {
    // `input` is null where a call has no arguments.
    if message["method"] == "tools/call"
        && let Some(params) = message.get_mut("params").and_then(Value::as_object_mut)
        && params.get("arguments").is_some_and(Value::is_null)
    {
        params.remove("arguments");
    }
    message
}

fn shown(message: Option<&Value>) -> String {
    const WIDTH: usize = 600;
    match message {
        Some(message) => message.to_string().chars().take(WIDTH).collect(),
        None => "nothing".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_rebuilt_from_events() {
        let cases = [
            (
                json!({"type": "mcp_message", "direction": "s2c", "payload": {"id": 1, "result": {}}}),
                Some((Dir::S2c, json!({"id": 1, "result": {}}))),
            ),
            (
                json!({"type": "mcp_tool_called", "jsonrpc_id": 3, "tool_name": "t", "input": {"a": 1},
                       "meta": {"_meta": {"progressToken": 3}}}),
                Some((
                    Dir::C2s,
                    json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call",
                           "params": {"name": "t", "arguments": {"a": 1}, "_meta": {"progressToken": 3}}}),
                )),
            ),
            (
                json!({"type": "mcp_tool_result", "jsonrpc_id": 3, "result": {"content": []}}),
                Some((Dir::S2c, json!({"jsonrpc": "2.0", "id": 3, "result": {"content": []}}))),
            ),
            (
                json!({"type": "mcp_tool_result", "jsonrpc_id": 3, "result": null, "error_code": -32602,
                       "error_message": "no"}),
                Some((
                    Dir::S2c,
                    json!({"jsonrpc": "2.0", "id": 3, "error": {"code": -32602, "message": "no"}}),
                )),
            ),
            (json!({"type": "mcp_tool_seen"}), None),
        ];
        for (event, expected) in cases {
            assert_eq!(message_of(&event).expect("complete"), expected, "{event}");
        }
    }

    #[test]
    fn order_matters_only_within_a_direction() {
        let (ask, answer) = ((Dir::C2s, json!({"id": 1})), (Dir::S2c, json!({"id": 1, "result": {}})));
        let batch = (Dir::C2s, json!([{"id": 1}, {"id": 2}]));
        let cases = [
            (vec![ask.clone(), answer.clone()], vec![answer.clone(), ask.clone()], true),
            (vec![ask.clone()], vec![], false),
            (vec![], vec![ask.clone()], false),
            (vec![batch], vec![ask.clone(), (Dir::C2s, json!({"id": 2}))], true),
            (vec![ask.clone(), ask.clone()], vec![ask], false),
        ];
        for (said, reported, same) in cases {
            assert_eq!(compare(&said, &reported).is_ok(), same, "{said:?} {reported:?}");
        }
    }
}
