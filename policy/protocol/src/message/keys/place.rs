//! Where a key stands in a message, and which keys of MCP are read there.

use super::super::object::{is_key, string_end};
use super::super::value::decode_str;
use super::name_of_key;

/// What the object is whose key it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The message.
    Message,
    /// Its `params`.
    Params,
    /// Its `result`.
    Result,
    /// Its `error`.
    Error,
    /// Something in these: a tool, an item of content.
    Within,
}

/// Members of a message (JSON-RPC 2.0).
const OF_MESSAGE: [&str; 6] = ["error", "id", "jsonrpc", "method", "params", "result"];
const OF_ERROR: [&str; 3] = ["code", "data", "message"];

/// Members of results, of all methods and revisions of MCP, but for those of tasks that others have as well (`status`).
const OF_RESULT: [&str; 36] = [
    "_meta",
    "action",
    "capabilities",
    "completion",
    "content",
    "contents",
    "description",
    "elicitationId",
    "elicitations",
    "inputRequests",
    "inputResponses",
    "instructions",
    "isError",
    "messages",
    "mimeType",
    "model",
    "nextCursor",
    "outputSchema",
    "prompts",
    "protocolVersion",
    "requestState",
    "resource",
    "resourceTemplates",
    "resources",
    "resultType",
    "role",
    "roots",
    "serverInfo",
    "stopReason",
    "structuredContent",
    "supportedVersions",
    "task",
    "taskId",
    "tasks",
    "tools",
    "uri",
];

/// Names that stand in other objects of MCP, and as often in those of a program's own.
const COMMON: [&str; 18] = [
    "code",
    "hasMore",
    "level",
    "logger",
    "message",
    "mode",
    "model",
    "progress",
    "reason",
    "size",
    "sizes",
    "status",
    "temperature",
    "theme",
    "total",
    "value",
    "values",
    "version",
];

impl Place {
    /// Whether a key of MCP is one that clients or servers read there.
    pub(super) fn has(self, name: &str) -> bool {
        match self {
            Self::Message => OF_MESSAGE.contains(&name),
            Self::Error => OF_ERROR.contains(&name),
            Self::Result => OF_RESULT.contains(&name),
            // A log message has a level and data, a report of progress a total.
            Self::Params => !["status", "temperature", "theme", "version", "size", "sizes"].contains(&name),
            Self::Within => !COMMON.contains(&name),
        }
    }
}

/// Where a key stands that follows this beginning of a message, or of a batch.
pub(super) fn of(before: &str) -> Place {
    let bytes = before.as_bytes();
    // Of each object or array that is open: what its objects are; and of the key that was read last in each.
    let mut open: Vec<Place> = Vec::new();
    let mut next = Place::Message;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let start = at;
                let Some(end) = string_end(bytes, start) else { break };
                at = end;
                if is_key(bytes, end) {
                    let key = before.get(start..end).and_then(decode_str);
                    let name = key.and_then(|key| name_of_key(key.as_bytes())).map(|name| name.text);
                    next = match (open.last(), name) {
                        (Some(Place::Message), Some("params")) => Place::Params,
                        (Some(Place::Message), Some("result")) => Place::Result,
                        (Some(Place::Message), Some("error")) => Place::Error,
                        _ => Place::Within,
                    };
                }
                continue;
            }
            b'{' => {
                open.push(next);
                next = Place::Within;
            }
            // The objects of a list are what the list is.
            b'[' => open.push(next),
            b'}' | b']' => {
                let closed = open.pop();
                // Behind an element of a list comes another of its kind.
                next = closed.unwrap_or(Place::Message);
            }
            b',' => next = open.last().copied().unwrap_or(Place::Message),
            _ => {}
        }
        at += 1;
    }
    open.last().copied().unwrap_or(Place::Message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_where_their_object_does() {
        for (before, expected) in [
            ("{", Place::Message),
            (r#"[{"id":1},{"#, Place::Message),
            (r#"{"id":1,"result":{"#, Place::Result),
            (r#"{"id":1,"Result":{"content":[],"#, Place::Result),
            (r#"{"result":{"content":[{"#, Place::Within),
            (r#"{"result":{"content":[{"type":"text"},{"#, Place::Within),
            (r#"{"result":{"a":{"b":1},"#, Place::Result),
            (r#"{"params":{"name":"{\"result\":{","#, Place::Params),
            (r#"{"params":[],"#, Place::Message),
            (r#"{"error":{"#, Place::Error),
            (r#"[{"params":{"a":[1,2]},"error":{"data":{"#, Place::Within),
        ] {
            assert_eq!(of(before), expected, "{before}");
        }
    }
}
