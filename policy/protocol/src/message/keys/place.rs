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
const COMMON: [&str; 17] = [
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

/// Goes through a message, or a batch, and tells where the keys in it stand.
pub(super) struct Places<'a> {
    json: &'a str,
    at: usize,
    /// Of each object or array that is open: what its objects are.
    open: Vec<Place>,
    /// What the next object is.
    next: Place,
}

impl<'a> Places<'a> {
    /// At the beginning.
    pub(super) fn of(json: &'a str) -> Self {
        Self { json, at: 0, open: Vec::new(), next: Place::Message }
    }

    /// Where the key stands that begins at this byte, which is behind that of the call before.
    pub(super) fn at(&mut self, key: usize) -> Place {
        let bytes = self.json.as_bytes();
        while self.at < key
            && let Some(byte) = bytes.get(self.at)
        {
            match byte {
                b'"' => {
                    let start = self.at;
                    let Some(end) = string_end(bytes, start) else { break };
                    self.at = end;
                    if is_key(bytes, end) {
                        self.next = self.behind(start, end);
                    }
                    continue;
                }
                b'{' => {
                    self.open.push(self.next);
                    self.next = Place::Within;
                }
                // The objects of a list are what the list is.
                b'[' => self.open.push(self.next),
                // Behind an element of a list comes another of its kind.
                b'}' | b']' => self.next = self.open.pop().unwrap_or(Place::Message),
                b',' => self.next = self.open.last().copied().unwrap_or(Place::Message),
                _ => {}
            }
            self.at += 1;
        }
        self.open.last().copied().unwrap_or(Place::Message)
    }

    /// What an object is that is the value of this key.
    fn behind(&self, start: usize, end: usize) -> Place {
        let is_short = end - start <= LONGEST_KEY;
        let key = self.json.get(start..end).filter(|_| is_short).and_then(decode_str);
        let name = key.and_then(|key| name_of_key(key.as_bytes())).map(|name| name.text);
        match (self.open.last(), name) {
            // What a server requires of its client stands in its result (MCP 2026-07-28, `inputRequests`).
            (Some(Place::Message | Place::Within), Some("params")) => Place::Params,
            (Some(Place::Message), Some("result")) => Place::Result,
            (Some(Place::Message), Some("error")) => Place::Error,
            _ => Place::Within,
        }
    }
}

/// Longest of `params`, `result` and `error`, each letter an escape, in bytes of JSON text.
const LONGEST_KEY: usize = 6 * 6 + 2;

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
            (r#"{"result":{"inputRequests":{"a":{"method":"b","params":{"#, Place::Params),
        ] {
            assert_eq!(Places::of(before).at(before.len()), expected, "{before}");
            // As it is if others are asked for before.
            let mut places = Places::of(before);
            let quotes: Vec<usize> = before.match_indices("{\"").map(|(at, _)| at + 1).collect();
            for at in quotes {
                places.at(at);
            }
            assert_eq!(places.at(before.len()), expected, "{before}");
        }
    }
}
