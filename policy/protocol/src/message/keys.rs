//! Keys in another spelling than that of the specification.
//!
//! `encoding/json` of Go and the web defaults of System.Text.Json compare keys without regard to case; that of Go takes
//! `ſ` (U+017F) for `s` and `K` (U+212A) for `k` besides. To their users `Tools` is `tools`.

mod place;

use std::sync::LazyLock;

use serde_json::value::RawValue;

use super::arrays::as_objects;
use super::merge::merged_lists;
use super::object::{is_key, string_end};
use super::value::{decode_str, members};
use place::{Place, Places};

/// A message as readers take it that do not regard case, take an array for a structure, or a list into another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Respelled {
    /// Its JSON text, with the keys of the specification.
    pub json: String,
    /// The first key that was respelled, as it was sent, of those by which readers differ in what matters: a program may have members
    /// of its own beside those of MCP, such as `Status` in a result. None where only such were respelled, or only arrays.
    pub key: Option<String>,
    /// The names in the specification of those of them that are members of the message itself or of its result.
    pub outer: Vec<&'static str>,
    /// Whether it has objects in place of arrays.
    pub has_arrays: bool,
}

impl Respelled {
    /// Respells a message, as a whole; `None` where every reader takes it as it is.
    pub fn of_message(json: &str) -> Option<Self> {
        let by_case = respell(json);
        let arrays = as_objects(by_case.as_ref().map_or(json, |respelled| &respelled.json));
        let has_arrays = arrays.is_some();
        let (key, outer, by_case) = by_case.map_or((None, Vec::new(), None), |respelled| {
            (respelled.key, respelled.outer, Some(respelled.json))
        });
        let respelled = arrays.or(by_case);
        let merged = merged_lists(respelled.as_deref().unwrap_or(json));
        merged.or(respelled).map(|json| Self { json, key, outer, has_arrays })
    }

    /// Whether members of the message itself are among the keys.
    pub fn is_of_message(&self) -> bool {
        self.outer.iter().any(|name| Place::Message.has(name))
    }

    /// Its result, where it is an answer with one.
    pub fn result(&self) -> Option<&RawValue> {
        let [result] = members(&self.json, ["result"]);
        result
    }
}

/// Longest key that is compared, in bytes of JSON text: each letter of one may be an escape of six.
const MAX_KEY_BYTES: usize = 160;

/// Respells the keys of a message that are keys of MCP in another case; `None` where there are none. Keys that belong to
/// tools, to schemas and to users stay as they are.
///
/// Linear in the text, whatever its depth.
pub fn respell(json: &str) -> Option<Respelled> {
    let mut keys = Keys { json, at: 0, depth: 0, foreign: None };
    let mut respelled: Option<Respelled> = None;
    let (mut copied, mut places) = (0, Places::of(json));
    while let Some((start, end, name)) = keys.next_respelled() {
        let found = respelled.get_or_insert_with(|| Respelled {
            json: String::with_capacity(json.len()),
            key: None,
            outer: Vec::new(),
            has_arrays: false,
        });
        let place = places.at(start);
        if place.has(name) {
            let key = || json.get(start + 1..end - 1).map(str::to_owned);
            found.key = found.key.take().or_else(key);
            if matches!(place, Place::Message | Place::Result) && !found.outer.contains(&name) {
                found.outer.push(name);
            }
        }
        found.json.push_str(json.get(copied..start).unwrap_or_default());
        found.json.extend(["\"", name, "\""]);
        copied = end;
    }
    if let Some(found) = &mut respelled {
        found.json.push_str(json.get(copied..).unwrap_or_default());
    }
    respelled
}

/// Goes through the keys of a JSON text.
struct Keys<'a> {
    json: &'a str,
    at: usize,
    depth: usize,
    /// Of what is not MCP's: the depth of the object that has it as a member.
    foreign: Option<usize>,
}

impl Keys<'_> {
    /// The next key in another spelling: where its string begins and ends, and how it is spelled.
    fn next_respelled(&mut self) -> Option<(usize, usize, &'static str)> {
        let bytes = self.json.as_bytes();
        loop {
            match bytes.get(self.at)? {
                b'"' => {
                    let start = self.at;
                    self.at = string_end(bytes, start)?;
                    let end = self.at;
                    if self.foreign.is_some() || !is_key(bytes, end) || end - start > MAX_KEY_BYTES {
                        continue;
                    }
                    let Some(key) = self.json.get(start..end).and_then(decode_str) else { continue };
                    let Some(name) = name_of_key(key.as_bytes()) else { continue };
                    if is_foreign(name.text) {
                        self.foreign = Some(self.depth);
                    }
                    if !name.is_exact {
                        return Some((start, end, name.text));
                    }
                    continue;
                }
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.foreign.is_some_and(|depth| self.depth < depth) {
                        self.foreign = None;
                    }
                }
                b',' if self.foreign == Some(self.depth) => self.foreign = None,
                _ => {}
            }
            self.at += 1;
        }
    }
}

/// The key of the specification that another one is without regard to case.
#[derive(Clone, Copy)]
pub(super) struct Name {
    /// Its place among all of them, below 128.
    pub(super) number: usize,
    /// How it is spelled.
    pub(super) text: &'static str,
    /// Whether the other is spelled as this one is.
    pub(super) is_exact: bool,
}

/// The key of the specification that this one is without regard to case; it has no escapes.
pub(super) fn name_of_key(key: &[u8]) -> Option<Name> {
    if key.is_ascii() {
        return find(key, key);
    }
    // None of them begins or ends with anything but a letter or `_`, and most keys are not among them.
    let mut folded = [0; MAX_NAME_BYTES];
    let mut length = 0;
    let mut rest = key;
    while let Some((first, behind)) = rest.split_first() {
        let (byte, behind) = match (first, behind) {
            (0xc5, [0xbf, behind @ ..]) => (b's', behind),
            (0xe2, [0x84, 0xaa, behind @ ..]) => (b'k', behind),
            _ if first.is_ascii() => (*first, behind),
            _ => return None,
        };
        *folded.get_mut(length)? = byte;
        length += 1;
        rest = behind;
    }
    find(folded.get(..length)?, key)
}

/// The key of the specification that `folded`, all ASCII, is without regard to case. `key`: as it was sent.
fn find(folded: &[u8], key: &[u8]) -> Option<Name> {
    let mut place = place_of(folded)?;
    loop {
        // Not all places are taken.
        let number = usize::from((*PLACES.get(place)?)?);
        let text = *NAMES.get(number)?;
        if text.as_bytes().eq_ignore_ascii_case(folded) {
            return Some(Name { number, text, is_exact: text.as_bytes() == key });
        }
        place = (place + 1) % PLACES.len();
    }
}

/// Where [`PLACES`] has a name first: it differs by a name's length and some of its letters, and not by their case.
fn place_of(name: &[u8]) -> Option<usize> {
    if name.len() > MAX_NAME_BYTES {
        return None;
    }
    let letter = |at: usize| name.get(at).map(|letter| usize::from(letter | 0x20));
    let (first, middle, last) = (letter(0)?, letter(name.len() / 2)?, letter(name.len() - 1)?);
    Some(
        (name.len().wrapping_mul(37)
            ^ first.wrapping_mul(5)
            ^ middle.wrapping_mul(67)
            ^ last.wrapping_mul(19))
            % 512,
    )
}

/// Of each of [`NAMES`], its number, at its place or at the next that is free.
static PLACES: LazyLock<[Option<u8>; 512]> = LazyLock::new(|| {
    let mut places = [None; 512];
    for (number, name) in NAMES.iter().enumerate() {
        let first = place_of(name.as_bytes()).unwrap_or_default();
        let (before, behind) = places.split_at_mut(first);
        let free = behind.iter_mut().chain(before).find(|place| place.is_none());
        if let Some(place) = free {
            *place = u8::try_from(number).ok();
        }
    }
    places
});

/// Longest of [`NAMES`], in bytes.
const MAX_NAME_BYTES: usize = 18;

/// Whether the value of this member has keys that are not MCP's.
pub(super) fn is_foreign(name: &str) -> bool {
    FOREIGN.contains(&name)
}

/// Members whose values have keys that are not MCP's: they are what a tool, a schema or a user says.
const FOREIGN: [&str; 13] = [
    "_meta",
    "arguments",
    "capabilities",
    "clientCapabilities",
    "data",
    "experimental",
    "input",
    "inputSchema",
    "metadata",
    "outputSchema",
    "requestState",
    "requestedSchema",
    "structuredContent",
];

/// Keys by which clients and servers read what they are sent (schema of MCP, all revisions), in order of their letters without
/// regard to case.
const NAMES: [&str; 98] = [
    "_meta",
    "action",
    "annotations",
    "argument",
    "arguments",
    "blob",
    "capabilities",
    "clientCapabilities",
    "clientInfo",
    "code",
    "completion",
    "content",
    "contents",
    "context",
    "cursor",
    "data",
    "description",
    "destructiveHint",
    "elicitationId",
    "elicitations",
    "error",
    "experimental",
    "hasMore",
    "hints",
    "icons",
    "id",
    "idempotentHint",
    "includeContext",
    "input",
    "inputRequests",
    "inputResponses",
    "inputSchema",
    "instructions",
    "isError",
    "jsonrpc",
    "level",
    "logger",
    "maxTokens",
    "message",
    "messages",
    "metadata",
    "method",
    "mimeType",
    "mode",
    "model",
    "modelPreferences",
    "name",
    "nextCursor",
    "openWorldHint",
    "outputSchema",
    "params",
    "progress",
    "progressToken",
    "prompts",
    "protocolVersion",
    "readOnlyHint",
    "reason",
    "ref",
    "requestedSchema",
    "requestId",
    "requestState",
    "resource",
    "resources",
    "resourceTemplates",
    "result",
    "resultType",
    "role",
    "roots",
    "serverInfo",
    "size",
    "sizes",
    "src",
    "status",
    "statusMessage",
    "stopReason",
    "stopSequences",
    "structuredContent",
    "supportedVersions",
    "systemPrompt",
    "task",
    "taskId",
    "tasks",
    "temperature",
    "text",
    "theme",
    "title",
    "tool",
    "toolChoice",
    "tools",
    "total",
    "type",
    "uri",
    "uriTemplate",
    "url",
    "value",
    "values",
    "version",
    "websiteUrl",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_fit() {
        let lower: Vec<String> = NAMES.iter().map(|name| name.to_ascii_lowercase()).collect();
        assert!(lower.is_sorted_by(|a, b| a < b), "{lower:?}");
        assert_eq!(NAMES.iter().map(|name| name.len()).max(), Some(MAX_NAME_BYTES));
        for (number, name) in NAMES.iter().enumerate() {
            let found = name_of_key(name.to_ascii_uppercase().as_bytes()).unwrap();
            assert_eq!((found.number, found.text), (number, *name));
            assert!(name_of_key(name.as_bytes()).unwrap().is_exact);
        }
        assert!(FOREIGN.iter().all(|name| NAMES.contains(name)), "{FOREIGN:?}");
    }

    #[test]
    fn keys_of_the_protocol_are_respelled() {
        let cases = [
            (r#"{"id":1,"Result":{}}"#, Some((r#"{"id":1,"result":{}}"#, "Result"))),
            (
                r#"{"result":{"TOOLS":[{"Name":"a"}]}}"#,
                Some((r#"{"result":{"tools":[{"name":"a"}]}}"#, "TOOLS")),
            ),
            (r#"{"result":{"toolſ":[]}}"#, Some((r#"{"result":{"tools":[]}}"#, "toolſ"))),
            (
                r#"{"result":{"nextcursor" : "a"}}"#,
                Some((r#"{"result":{"nextCursor" : "a"}}"#, "nextcursor")),
            ),
            (r#"{"\u0052esult":{}}"#, Some((r#"{"result":{}}"#, "\\u0052esult"))),
            (r#"{"result":{"tas\u212Aid":1}}"#, Some((r#"{"result":{"taskId":1}}"#, "tas\\u212Aid"))),
            (r#"{"\u0072esult":{}}"#, None),
            (r#"{"id":1,"result":{"tools":[]}}"#, None),
            (r#"{"result":"Result"}"#, None),
            (r#"["Result","Name"]"#, None),
            (r#"{"params":{"arguments":{"Name":1,"x":[{"ID":2}]},"Name":3}}"#, {
                Some((r#"{"params":{"arguments":{"Name":1,"x":[{"ID":2}]},"name":3}}"#, "Name"))
            }),
            (
                r#"{"params":{"arguments":1,"Name":1}}"#,
                Some((r#"{"params":{"arguments":1,"name":1}}"#, "Name")),
            ),
            (r#"[{"arguments":1},{"Id":1}]"#, Some((r#"[{"arguments":1},{"id":1}]"#, "Id"))),
            // Members of a program's own, where no reader looks for those of MCP.
            (r#"{"Arguments":{"Name":1}}"#, Some((r#"{"arguments":{"Name":1}}"#, ""))),
            (r#"{"result":{"Status":1,"Total":2}}"#, Some((r#"{"result":{"status":1,"total":2}}"#, ""))),
            (
                r#"{"result":{"Status":1,"Content":[]}}"#,
                Some((r#"{"result":{"status":1,"content":[]}}"#, "Content")),
            ),
            (r#"{"Level":"info","Message":"up"}"#, Some((r#"{"level":"info","message":"up"}"#, ""))),
            (r#"{"a\"Name":1,"Naïve":2}"#, None),
            (r#"{"unfinished"#, None),
        ];
        for (json, expected) in cases {
            let expected = expected
                .map(|(json, key)| (json.to_owned(), Some(key.to_owned()).filter(|key| !key.is_empty())));
            let found = respell(json).map(|found| (found.json, found.key));
            assert_eq!(found, expected, "{json}");
        }
    }
}
