//! A message as further readers take it: those that take the first of members with one name, those to whom null says nothing, those
//! whose strings end at a NUL, and those that take parameters by their places.

use memchr::memmem;
use serde_json::Value;
use serde_json::value::RawValue;

use mcpwarden_terms::Direction;

use super::arrays::positional_params;
use super::keys::{Respelled, is_foreign, name_of_key};
use super::object::{is_key, string_end};
use super::value::{decode_str, members, string};
use super::{MEMBERS, TELLING};

/// How deep members are compared with each other: those of a message, and those of its parameters, result or error.
const MAX_DEPTH: usize = 2;
/// How deep the lists of a result are, whose entries may be arrays.
const MAX_LIST_DEPTH: usize = MAX_DEPTH + 1;
/// A NUL in JSON text: nothing else stands for one.
const NUL: &[u8] = b"\\u0000";
/// Longest name that is compared, in bytes of JSON text.
const MAX_NAME_BYTES: usize = 160;

/// A message as those take it who read it otherwise than the strictest reader does.
#[derive(Clone, Debug, Default)]
pub struct Otherwise {
    /// For those who do not regard the case of keys, take an array for a structure, or a list into another one, where that makes a
    /// difference.
    pub respelled: Option<Respelled>,
    /// For those who take the first of members with one name, for those to whom null says nothing, for servers whose strings end at a
    /// NUL, and for those that take parameters by their places: as JSON text.
    pub others: Vec<String>,
    /// Whether there are such as take parameters by their places. Nobody else takes that message.
    pub is_positional: bool,
}

impl Otherwise {
    /// Reads a message, from this side.
    pub fn of(raw: &str, direction: Direction) -> Self {
        // What is behind a NUL in arguments changes nothing of what is asked for.
        let has_nul = direction == Direction::ClientToServer && memmem::find(raw.as_bytes(), NUL).is_some();
        if !has_nul && are_keys_plain(raw) {
            return Self::default();
        }
        let respelled = Respelled::of_message(raw);
        let mut others = positional_calls(respelled.as_ref().map_or(raw, |respelled| &respelled.json));
        let is_positional = !others.is_empty();
        for json in std::iter::once(raw).chain(respelled.as_ref().map(|respelled| &*respelled.json)) {
            let first = first_of_repeated(json);
            others.extend(first.is_some().then(|| without_nulls(json)).flatten());
            others.extend(first);
            if let Some(cut) = has_nul.then(|| cut_at_nul(json)).flatten() {
                let first = first_of_repeated(&cut);
                let are_other = |cut: &String| names(cut) != names(json);
                others.extend([Some(cut), first].into_iter().flatten().filter(are_other));
            }
        }
        others.dedup();
        Self { respelled, others, is_positional }
    }
}

/// The calls that a request may be whose `params` are an array, of which any text may be the name: one for each.
fn positional_calls(json: &str) -> Vec<String> {
    let [version, id, method, params] = members(json, ["jsonrpc", "id", "method", "params"]);
    let Some(params) = params.filter(|params| params.get().starts_with('[')) else { return Vec::new() };
    let member = match &*string(method) {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        _ => return Vec::new(),
    };
    let Some(named) = positional_params(params) else { return Vec::new() };
    let calls = named.into_iter().map(|(name, arguments)| {
        let mut call = String::from("{");
        for (key, value) in [("jsonrpc", version), ("id", id), ("method", method)] {
            if let Some(value) = value {
                call.extend(["\"", key, "\":", value.get(), ","]);
            }
        }
        let arguments = arguments.map_or("{}", RawValue::get);
        let name = Value::from(name).to_string();
        call.extend(["\"params\":{\"", member, "\":", &name, ",\"arguments\":", arguments, "}}"]);
        call
    });
    calls.collect()
}

/// What a request names: its method, and the tool, prompt or resource.
fn names(json: &str) -> [String; 3] {
    let [method, params] = members(json, ["method", "params"]);
    let [name, uri] = members(params.map_or("null", RawValue::get), ["name", "uri"]);
    [method, name, uri].map(|name| string(name).into_owned())
}

/// Whether no reader can take the keys of a message otherwise than another one does, in one pass: so it is with nearly all of them.
/// In doubt it is not.
fn are_keys_plain(json: &str) -> bool {
    let bytes = json.as_bytes();
    // Of each level, which names it has: a bit each.
    let mut known = [0_u128; MAX_DEPTH];
    let (mut depth, mut lists, mut at) = (0_usize, 0_usize, 0_usize);
    // Of what is not MCP's: the depth of the object that has it as a member.
    let mut foreign: Option<usize> = None;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let start = at;
                let Some(end) = string_end(bytes, start) else { return false };
                at = end;
                let level = depth.checked_sub(1).filter(|level| lists == 0 && *level < MAX_DEPTH);
                if level.is_none() && foreign.is_some() || !is_key(bytes, end) {
                    continue;
                }
                let key = bytes.get(start + 1..end - 1).unwrap_or_default();
                if key.contains(&b'\\') {
                    return false;
                }
                let Some(name) = name_of_key(key) else { continue };
                if foreign.is_none() {
                    if !name.is_exact {
                        return false;
                    }
                    foreign = is_foreign(name.text).then_some(depth);
                }
                let Some(known) = level.and_then(|level| known.get_mut(level)) else { continue };
                let bit = u128::from(name.is_exact) << name.number;
                if *known & bit != 0 {
                    return false;
                }
                *known |= bit;
                continue;
            }
            b'{' => {
                if let Some(known) = known.get_mut(depth) {
                    *known = 0;
                }
                depth += 1;
            }
            b'[' => {
                // Perhaps the fields of a structure: `params`, a result, an entry of a list.
                let before = bytes.get(..at).unwrap_or_default().trim_ascii_end().last();
                let is_element = || matches!(before, Some(b'[' | b','));
                if foreign.is_none() && (depth < MAX_DEPTH || depth <= MAX_LIST_DEPTH && is_element()) {
                    return false;
                }
                depth += 1;
                lists += 1;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                lists = lists.saturating_sub(usize::from(*byte == b']'));
                foreign = foreign.filter(|foreign| depth >= *foreign);
            }
            b',' => foreign = foreign.filter(|foreign| depth != *foreign),
            _ => {}
        }
        at += 1;
    }
    true
}

/// The message without the members that stand behind another one of the same name, in itself and in its parameters, result or
/// error: what those read who take the first (simdjson's and RapidJSON's look-up, gjson, many in C). `None` where there are none.
///
/// Linear in the text, whatever its depth.
fn first_of_repeated(json: &str) -> Option<String> {
    without(json, |is_known, _| is_known)
}

/// The message without these members where they are null: what those read who leave a field as it is for null, and take the last of what
/// else there is (`encoding/json` of Go). `None` where there are none.
fn without_nulls(json: &str) -> Option<String> {
    // The first of a name is never the last.
    without(json, |is_known, is_null| is_known && is_null)
}

/// The message without some of the members that are compared. `is_left_out` is told of each whether there was one of its name before in
/// that object, and whether it is null.
fn without(json: &str, is_left_out: impl Fn(bool, bool) -> bool) -> Option<String> {
    let bytes = json.as_bytes();
    // Of each level, which of the names it has: a bit each.
    let mut names = [0_u64; MAX_DEPTH];
    let (mut depth, mut at, mut copied) = (0_usize, 0_usize, 0_usize);
    let mut first: Option<String> = None;
    // Where the member begins that is left out, with the comma in front of it, and how deep.
    let mut left_out: Option<(usize, usize)> = None;
    let mut comma = None;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let start = at;
                at = string_end(bytes, start)?;
                let level = depth.checked_sub(1).filter(|_| left_out.is_none());
                let Some(known) = level.and_then(|level| names.get_mut(level)) else { continue };
                if at - start > MAX_NAME_BYTES || !is_key(bytes, at) {
                    continue;
                }
                let name = json.get(start..at).and_then(decode_str);
                let Some(bit) = name.and_then(|name| names_of_members().position(|known| known == name))
                else {
                    continue;
                };
                if is_left_out(*known >> bit & 1 == 1, is_null(bytes, at)) {
                    left_out = Some((comma.unwrap_or(start), depth));
                }
                *known |= 1 << bit;
                continue;
            }
            b'{' => {
                if let Some(known) = names.get_mut(depth) {
                    *known = 0;
                }
                depth += 1;
            }
            // The elements of a list are compared with nothing.
            b'[' => depth += MAX_DEPTH + 1,
            b',' | b'}' | b']' => {
                if let Some((start, _)) = left_out.filter(|(_, level)| depth == *level) {
                    let text = first.get_or_insert_with(|| String::with_capacity(json.len()));
                    text.push_str(json.get(copied..start)?);
                    copied = at;
                    left_out = None;
                }
                match byte {
                    b',' => comma = (depth <= MAX_DEPTH).then_some(at),
                    b'}' => depth = depth.saturating_sub(1),
                    _ => depth = depth.saturating_sub(MAX_DEPTH + 1),
                }
            }
            _ => {}
        }
        at += 1;
    }
    let mut first = first?;
    first.push_str(json.get(copied..)?);
    Some(first)
}

/// Whether null is the value of the key that ends in front of `at`.
fn is_null(bytes: &[u8], at: usize) -> bool {
    let rest = bytes.get(at..).unwrap_or_default().trim_ascii_start();
    rest.strip_prefix(b":").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"null"))
}

/// The members that are compared. Others are compared with nothing, so that no number of them hides one of these.
fn names_of_members() -> impl Iterator<Item = &'static str> {
    MEMBERS.into_iter().chain(TELLING)
}

/// The message with its strings cut at the first NUL: what those read whose strings end there (cJSON and others in C). `None` where
/// no string has one.
fn cut_at_nul(json: &str) -> Option<String> {
    memmem::find(json.as_bytes(), NUL)?;
    let bytes = json.as_bytes();
    let mut cut = String::with_capacity(json.len());
    let (mut at, mut any) = (0, false);
    while at < bytes.len() {
        if bytes.get(at) != Some(&b'"') {
            let next =
                bytes.get(at..)?.iter().position(|byte| *byte == b'"').map_or(bytes.len(), |next| at + next);
            cut.push_str(json.get(at..next)?);
            at = next;
            continue;
        }
        let end = string_end(bytes, at)?;
        let text = json.get(at..end)?;
        let whole = text.contains("\\u0000").then(|| decode_str(text)).flatten();
        match whole.as_deref().and_then(|whole| whole.split_once('\0')) {
            Some((front, _)) => {
                cut.push_str(&Value::from(front).to_string());
                any = true;
            }
            None => cut.push_str(text),
        }
        at = end;
    }
    any.then_some(cut)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn first_of_members_with_one_name_is_kept() {
        let cases = [
            (r#"{"params":{"name":"a"},"params":{"name":"b"}}"#, Some(r#"{"params":{"name":"a"}}"#)),
            (
                r#"{"id":1,"params":{"name":"a", "name" : "b"},"x":2}"#,
                Some(r#"{"id":1,"params":{"name":"a"},"x":2}"#),
            ),
            (r#"{"n\u0061me":1,"name":2}"#, Some(r#"{"n\u0061me":1}"#)),
            (
                r#"{"id":1,"b":[1,{"id":2}],"id":{"id":[3]},"c":4}"#,
                Some(r#"{"id":1,"b":[1,{"id":2}],"c":4}"#),
            ),
            (r#"{"id":1,"id":2,"id":3}"#, Some(r#"{"id":1}"#)),
            (r#"{"params":{"name":1,"name":2},"params":{"name":3}}"#, Some(r#"{"params":{"name":1}}"#)),
            // What belongs to tools and users is theirs.
            (r#"{"params":{"arguments":{"a":1,"a":2}}}"#, None),
            (r#"{"result":{"tools":[{"name":1,"name":2}]}}"#, None),
            (r#"{"a":{"name":1},"b":{"name":2}}"#, None),
            (r#"{"a":1,"a":2}"#, None),
            (r#"{"a":"a","b":"a"}"#, None),
            (r#"["a","a"]"#, None),
            ("", None),
            (r#"{"a":1,"a"#, None),
        ];
        for (json, expected) in cases {
            assert_eq!(first_of_repeated(json).as_deref(), expected, "{json}");
        }
    }

    #[test]
    fn null_says_nothing_behind_another_member_of_its_name() {
        let cases = [
            (r#"{"method":"a","method":"b","method": null }"#, Some(r#"{"method":"a","method":"b"}"#)),
            (
                r#"{"id":1,"params":{"name":"a","name":null},"x":null}"#,
                Some(r#"{"id":1,"params":{"name":"a"},"x":null}"#),
            ),
            (r#"{"id":null,"id":2,"id":null,"b":1}"#, Some(r#"{"id":null,"id":2,"b":1}"#)),
            (r#"{"id":1,"params":{"name":null,"name":"a"}}"#, None),
            (r#"{"name":null}"#, None),
            (r#"{"name":"null","name":"nullable"}"#, None),
        ];
        for (json, expected) in cases {
            assert_eq!(without_nulls(json).as_deref(), expected, "{json}");
        }
    }

    #[test]
    fn strings_are_cut_at_their_first_nul() {
        let cases = [
            (r#"{"name":"wipe\u0000x","a":"b"}"#, Some(r#"{"name":"wipe","a":"b"}"#)),
            (r#"{"na\u0000me":"ü\u0000"}"#, Some(r#"{"na":"ü"}"#)),
            (r#"{"a":"\\u0000"}"#, None),
            (r#"{"a":"b"}"#, None),
            (r#"{"a":"\u0000"#, None),
        ];
        for (json, expected) in cases {
            assert_eq!(cut_at_nul(json).as_deref(), expected, "{json}");
        }
    }

    /// Objects in objects and lists, of keys of the protocol in several spellings.
    fn objects() -> impl Strategy<Value = String> {
        let key = "id|Id|params|Params|name|Name|arguments|_meta|result|other|na\\\\u006de";
        let leaf = prop_oneof![Just("1".to_owned()), Just("\"Name\"".to_owned())];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            let member = (key, inner.clone()).prop_map(|(key, value)| format!("\"{key}\" : {value}"));
            let object =
                proptest::collection::vec(member, 0..4).prop_map(|all| format!("{{{}}}", all.join(",")));
            let list =
                proptest::collection::vec(inner, 0..3).prop_map(|all| format!("[{}]", all.join(" , ")));
            prop_oneof![3 => object, 1 => list]
        })
    }

    #[test]
    fn usual_messages_are_plain() {
        for json in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"Name":1,"ID":[{"Tools":2}]},"_meta":{"progressToken":1}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}},{"name":"b"}]}}"#,
        ] {
            assert!(are_keys_plain(json), "{json}");
        }
    }

    proptest! {
        /// What is left is JSON, and the same to whoever takes the first.
        #[test]
        fn rest_is_json_with_the_first_members(names in proptest::collection::vec("id|name|uri", 1..6), values in proptest::collection::vec(0..9_u8, 6)) {
            let member = |(name, value): (&String, &u8)| format!("\"{name}\": [{value}, {{\"{name}\": 1}}]");
            let json = format!("{{{}}}", names.iter().zip(&values).map(member).collect::<Vec<_>>().join(" , "));
            let first = first_of_repeated(&json).unwrap_or_else(|| json.clone());
            let read: Value = serde_json::from_str(&first).unwrap();
            for name in &names {
                let at = names.iter().position(|other| other == name).unwrap();
                prop_assert_eq!(&read[name][0], &Value::from(values[at]), "{}", json);
            }
        }

        /// What is passed over in one look has nothing that the others would find.
        #[test]
        fn plain_keys_are_read_by_all_as_they_are(json in objects()) {
            if are_keys_plain(&json) {
                prop_assert_eq!(Respelled::of_message(&json), None, "{}", json);
                prop_assert_eq!(first_of_repeated(&json), None, "{}", json);
            }
        }

        #[test]
        fn any_text_is_taken(json in ".{0,60}", more in "[\"{},:\\[\\]a\\\\]{0,40}") {
            for text in [json, more] {
                first_of_repeated(&text);
                cut_at_nul(&text);
                are_keys_plain(&text);
            }
        }
    }
}
