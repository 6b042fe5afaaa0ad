//! Identity of what a server tells the model: tool definitions, prompts, resource templates, instructions.

mod strict;

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::de::DeserializeSeed as _;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::canonical;
use crate::message::meta::META;
use crate::message::{all_members, may_have, without};
use strict::Strict;

/// What the hash of a text that has no canonical form begins with.
const TEXT: &[u8] = b"text\0";

/// Keys of `_meta` that no hash covers: they belong to the message that a definition came with, and are others in the next.
pub const VARYING: [&str; 10] = [
    "baggage",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/logLevel",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/serverInfo",
    "io.modelcontextprotocol/subscriptionId",
    "progressToken",
    "traceparent",
    "tracestate",
];

/// Lowercase hexadecimal SHA-256 of the JSON text of a definition, a prompt, a resource template, or (a JSON string)
/// a server's instructions: over its RFC 8785 canonical form, with `_meta` but for its keys in [`VARYING`]; a `_meta` without
/// others is left out. Neither the order of keys nor the spelling of a number changes it; anything else does.
///
/// What has no canonical form hashes as text, so that no change of it goes unseen:
///
/// | | hashed |
/// |---|---|
/// | an integer of 64 bits that is no IEEE 754 double | [`text_hash`] of the canonical form and all digits of such integers |
/// | an integer beyond 2^64 with all its digits, a duplicate key, a lone surrogate, a depth over 128 | [`text_hash`] of it as it was sent, without what varies in `_meta` |
pub fn json_hash(json: &str) -> String {
    hex(&json_digest(json))
}

/// The same as bytes.
pub fn json_digest(json: &str) -> [u8; 32] {
    digest(&without_varying(json))
}

/// The digest with all of `_meta` left out: of a message of which that says nothing, and the one that earlier versions of this
/// program pinned.
pub fn bare_digest(json: &str) -> [u8; 32] {
    digest(&if may_have_meta(json) { without(json, &[META]) } else { json.into() })
}

/// The [`bare_digest`] of a definition, where it is another than its [`json_digest`].
pub fn former_digest(json: &str) -> Option<[u8; 32]> {
    let counts = may_have_meta(json) && without_varying(json) != without(json, &[META]);
    counts.then(|| bare_digest(json)).filter(|former| *former != json_digest(json))
}

fn digest(json: &str) -> [u8; 32] {
    let mut reader = serde_json::Deserializer::from_str(json);
    let value = Strict { exact: has_long_number(json) }.deserialize(&mut reader);
    let value = value.and_then(|value| reader.end().map(|()| value));
    let Ok(value) = value else { return text_digest(json) };
    let mut digits = String::new();
    let are_doubles = are_doubles(&value, &mut digits);
    let mut hash = if are_doubles { Sha256::new() } else { Sha256::new_with_prefix(TEXT) };
    if canonical::hash(&value, &mut hash).is_err() {
        return text_digest(json);
    }
    if !are_doubles {
        hash.update(digits);
    }
    hash.finalize().into()
}

/// Whether the key may be in a text. Most definitions have none.
fn may_have_meta(json: &str) -> bool {
    may_have(json, &[META])
}

/// A definition's text without what varies in its `_meta`, and everything else as it is.
fn without_varying(json: &str) -> Cow<'_, str> {
    let members = if may_have_meta(json) { all_members(json) } else { None };
    let Some(members) = members.filter(|all| all.iter().any(|(key, _)| key == META)) else {
        return Cow::Borrowed(json);
    };
    let mut text = String::with_capacity(json.len());
    for (key, value) in &members {
        let value = if key == META { without(value.get(), &VARYING) } else { value.get().into() };
        if key == META && is_nothing(&value) {
            continue;
        }
        text.push(if text.is_empty() { '{' } else { ',' });
        text.extend([Value::from(key.as_str()).to_string().as_str(), ":", &*value]);
    }
    text.push_str(if text.is_empty() { "{}" } else { "}" });
    Cow::Owned(text)
}

/// Whether the text of a `_meta` says nothing.
fn is_nothing(meta: &str) -> bool {
    meta == "null" || meta.bytes().filter(|byte| !byte.is_ascii_whitespace()).eq(*b"{}")
}

/// Whether there may be an integer that is beyond 64 bits, and of which a double keeps only a part. What has a fraction or an
/// exponent is a double to every reader.
fn has_long_number(json: &str) -> bool {
    let is_of_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
    json.as_bytes().split(|byte| !is_of_number(byte)).any(|token| {
        let (digits, most) = match token.strip_prefix(b"-") {
            Some(digits) => (digits, &b"9223372036854775808"[..]),
            None => (token, &b"18446744073709551615"[..]),
        };
        digits.iter().all(u8::is_ascii_digit) && (digits.len(), digits) > (most.len(), most)
    })
}

/// Whether every integer is a double. Appends those that are as long as one that is none, with all digits, in the
/// order of their keys: the canonical form has a neighbour in place of what is no double.
fn are_doubles(value: &Value, out: &mut String) -> bool {
    match value {
        Value::Array(items) => items.iter().fold(true, |all, item| all & are_doubles(item, out)),
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(key, _)| *key);
            members.into_iter().fold(true, |all, (_, member)| all & are_doubles(member, out))
        }
        Value::Number(number) => {
            let double = || number.as_f64().filter(|double| double.fract() == 0.0);
            let integer = number.as_i128().or_else(|| double().map(|double| double as i128));
            let Some(integer) = integer.filter(|integer| integer.unsigned_abs() >= 1 << 53) else {
                return true;
            };
            // Writing to a string cannot fail.
            let _ = write!(out, " {integer}");
            integer as f64 as i128 == integer
        }
        _ => true,
    }
}

/// Lowercase hexadecimal SHA-256 of what has no canonical form: over the word `text`, a zero byte and its text as it
/// was sent. It can never be the hash of a canonical form.
pub fn text_hash(text: &str) -> String {
    hex(&text_digest(text))
}

/// Lowercase hexadecimal SHA-256 of bytes as they are.
pub fn bytes_hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn text_digest(text: &str) -> [u8; 32] {
    Sha256::new_with_prefix(TEXT).chain_update(text).finalize().into()
}

/// Lowercase hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(2 * bytes.len());
    push_hex(bytes, &mut digits);
    digits
}

/// Appends them.
pub fn push_hex(bytes: &[u8], out: &mut String) {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    out.reserve(2 * bytes.len());
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn hash_is_taken_of_the_canonical_form() {
        let tool = json!({"name": "add", "inputSchema": {"type": "object", "b": 1.0, "a": "é"}});
        // printf '{"inputSchema":{"a":"é","b":1,"type":"object"},"name":"add"}' | sha256sum
        let canonical = r#"{"inputSchema":{"a":"é","b":1,"type":"object"},"name":"add"}"#;
        assert_eq!(json_hash(&tool.to_string()), hex(&Sha256::digest(canonical)));
    }

    #[test]
    fn huge_number_is_hashed_by_digits_not_spelling() {
        let same = [
            (r#"{"a":1.7976931348623157e308}"#, r#"{"a":1.7976931348623157E+308}"#),
            (r#"{"a":1e22,"b":1}"#, r#"{"b":1.0,"a":10e21}"#),
            (r#"{"n":1e22,"_meta":{"progressToken":1}}"#, r#"{"n":1e22}"#),
            // What is hashed as text is so without what varies in `_meta`, too.
            (
                r#"{"a":100000000000000000001,"_meta":null}"#,
                r#"{"a":100000000000000000001,"_meta":{"baggage":2}}"#,
            ),
            (r#"{"a":1,"a":2,"_meta":{"baggage":1}}"#, r#"{"a":1,"a":2}"#),
        ];
        for (left, right) in same {
            assert_eq!(json_hash(left), json_hash(right), "{left} {right}");
        }
        let others = [
            (r#"{"a":100000000000000000001}"#, r#"{"a":100000000000000000000}"#),
            (r#"{"a":-9223372036854775810}"#, r#"{"a":-9223372036854775809}"#),
            (r#"{"a":1e22}"#, r#"{"a":1e23}"#),
            (r#"{"a":1,"a":2,"_meta":1}"#, r#"{"a":1,"a":3,"_meta":1}"#),
        ];
        for (left, right) in others {
            assert_ne!(json_hash(left), json_hash(right), "{left} {right}");
        }
    }

    #[test]
    fn hash_has_meta_but_for_what_varies() {
        let base = json!({"name": "t", "description": "d", "inputSchema": {"type": "object"}});
        let with = |key: &str, value: Value| {
            let mut tool = base.clone();
            tool[key] = value;
            tool
        };
        let cases = [
            ("_meta", json!({"a": 1}), false),
            ("_meta", json!({"ui": {"resourceUri": "ui://x"}}), false),
            ("_meta", json!({}), true),
            ("_meta", json!(null), true),
            ("_meta", json!({"progressToken": 1, "traceparent": "00-1"}), true),
            ("_meta", json!({"ProgressToken": 1}), false),
            ("_meta", json!({"x": {"progressToken": 1}}), false),
            ("_meta", json!([]), false),
            ("_meta", json!("text"), false),
            ("progressToken", json!(1), false),
            ("title", json!("T"), false),
            ("annotations", json!({"readOnlyHint": true}), false),
            ("outputSchema", json!({}), false),
            ("inputSchema", json!({"type": "object", "_meta": 1}), false),
            ("x-unknown", json!(null), false),
            ("description", json!("d "), false),
            ("description", json!("d"), true),
        ];
        for (key, value, same) in cases {
            let changed = with(key, value).to_string();
            assert_eq!(json_hash(&changed) == json_hash(&base.to_string()), same, "{key}");
        }
        assert_ne!(text_hash("{}"), json_hash("{}"));
    }

    /// Two texts, and whether they are one definition.
    #[test]
    fn hash_depends_on_content_not_spelling() {
        let deep = |depth: usize, inner: &str| format!("{}{inner}{}", "[".repeat(depth), "]".repeat(depth));
        let cases = [
            (r#"{"a":1,"b":2}"#, r#"{ "b" : 2.0 , "a" : 1e0 }"#, true),
            (r#"{"a":"é"}"#, r#"{"a":"\u00e9"}"#, true),
            (r#"{"a":-0.0}"#, r#"{"a":0}"#, true),
            (r#"{"a":100000000000000000}"#, r#"{"a":1e17}"#, true),
            (r#"{"a":0.1}"#, r#"{"a":1E-1}"#, true),
            (r#"{"a":"é"}"#, "{\"a\":\"e\u{301}\"}", false),
            (r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#, false),
            // Neighbours that are one double.
            (r#"{"a":9007199254740992}"#, r#"{"a":9007199254740993}"#, false),
            (r#"{"a":18446744073709551615,"b":1}"#, r#"{"b":1,"a":18446744073709551615}"#, true),
            // Where one digit is moved from one to the other.
            (
                r#"{"a":9007199254740992,"b":9007199254740993}"#,
                r#"{"a":9007199254740993,"b":9007199254740992}"#,
                false,
            ),
            (
                r#"{"a":9007199254740993,"b":"9007199254740993"}"#,
                r#"{"a":"9007199254740993","b":9007199254740993}"#,
                false,
            ),
            // Beside one of them, others may be spelt in any way.
            (r#"{"a":9007199254740993,"b":1}"#, r#"{"b":1.0,"a":9007199254740993}"#, true),
            (
                r#"{"a":9007199254740993,"b":10000000000000000000}"#,
                r#"{"b":1e19,"a":9007199254740993}"#,
                true,
            ),
            (r#"{"a":-9223372036854775807}"#, r#"{"a":-9223372036854775806}"#, false),
            (r#"{"a":36893488147419103232}"#, r#"{"a":36893488147419103233}"#, false),
            (r#"{"a":1e999}"#, r#"{"a":1e998}"#, false),
            // In order by UTF-16, though not by UTF-8.
            ("{\"\u{e000}\":1,\"\u{10000}\":2}", "{\"\u{10000}\":2,\"\u{e000}\":1}", true),
            // Lone surrogates, which would all become U+FFFD.
            (r#"{"a":"\ud800"}"#, r#"{"a":"\ud801"}"#, false),
            (r#"{"a":"\ud800"}"#, r#"{"a":"\ufffd"}"#, false),
            // Whoever takes the first of two keys reads something else than whoever takes the last.
            (r#"{"a":1,"a":2}"#, r#"{"a":3,"a":2}"#, false),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#, false),
            // A long fraction is no long integer: a number beyond 64 bits beside it is still a double.
            (
                r#"{"a":0.000010210300389231022,"b":2e237}"#,
                r#"{"b":2.0e237,"a":0.000010210300389231022}"#,
                true,
            ),
            // `_meta`, but for what varies in it.
            (r#"{"a":1,"_meta":{"x":1,"x":2}}"#, r#"{"_meta":"\ud800","a":1}"#, false),
            (r#"{"a":1,"_meta":{"x":1,"x":2}}"#, r#"{"a":1,"_meta":{"x":3,"x":2}}"#, false),
            (r#"{"a":1,"_meta":{"x":1},"_meta":{"x":1}}"#, r#"{"a":1,"_meta":{"x":1}}"#, false),
            (
                r#"{"a":1,"_meta":{"x":1},"_meta":{"x":2}}"#,
                r#"{"a":1,"_meta":{"x":3},"_meta":{"x":2}}"#,
                false,
            ),
            (r#"{"a":1,"_meta":{"traceparent":"\ud800"}}"#, r#"{"a":1}"#, true),
            (r#"{"a":1,"_meta":{"\u0074raceparent":"x"}}"#, r#"{"a":1}"#, true),
            (r#"{"a":1,"_meta":{"traceparent":"x","y":1}}"#, r#"{"_meta":{"y":1.0},"a":1}"#, true),
            (r#"{"\u005fmeta":{"y":1},"a":1}"#, r#"{"_meta":{"y":1},"a":1}"#, true),
            (r#"{"a":{"_meta":{"traceparent":"x"}}}"#, r#"{"a":{"_meta":{"traceparent":"y"}}}"#, false),
            (r#""instructions""#, r#""\u0069nstructions""#, true),
            (r#""instructions""#, r#""instructions ""#, false),
            (&deep(1_000, "1"), &deep(1_000, "2"), false),
            (&deep(1_000, "1"), &deep(1_000, "1"), true),
        ];
        for (left, right, same) in cases {
            assert_eq!(json_hash(left) == json_hash(right), same, "{left} {right}");
        }
    }

    /// A definition, and whether earlier versions had another hash of it.
    #[test]
    fn former_hash_leaves_meta_out() {
        for (json, expected) in [
            (r#"{"a":1}"#, false),
            (r#"{"a":1,"_meta":{}}"#, false),
            (r#"{"a":1,"_meta":null}"#, false),
            (r#"{"a":1,"_meta":{"progressToken":1}}"#, false),
            (r#"{"a":1,"_meta":{"x":1}}"#, true),
            (r#"{"a":1,"_meta":1}"#, true),
            (r#"{"a":1,"_meta":{"x":1,"x":2}}"#, true),
            (r#"{"a":1,"a":2,"_meta":{"x":1}}"#, true),
            (r#"{"a":{"_meta":{"x":1}}}"#, false),
            (r#""instructions""#, false),
            ("[1]", false),
        ] {
            assert_eq!(former_digest(json).is_some(), expected, "{json}");
        }
        assert_eq!(former_digest(r#"{"a":1,"_meta":{"x":1}}"#), Some(json_digest(r#"{"a":1}"#)));
        assert_eq!(bare_digest(r#"{"a":1,"_meta":{"x":1}}"#), json_digest(r#"{"a":1}"#));
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e15..1e15f64).prop_map(Value::from),
            any::<f64>().prop_filter("a number of JSON", |n| n.is_finite()).prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map("[a-c\u{e9}\u{e000}\u{ffff}\u{10000}\n\"]{0,4}", inner, 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// The same value in another spelling: keys backwards, numbers that are small integers as floats, blanks.
    fn respelt(value: &Value) -> String {
        match value {
            Value::Array(items) => {
                format!("[ {} ]", items.iter().map(respelt).collect::<Vec<_>>().join(" , "))
            }
            Value::Object(members) => {
                let members: Vec<String> = members
                    .iter()
                    .rev()
                    .map(|(key, value)| format!("{} :\n{}", Value::from(key.as_str()), respelt(value)))
                    .collect();
                format!("{{ {} }}", members.join(","))
            }
            Value::Number(number) => match number.as_i64() {
                Some(n) if n.unsigned_abs() < 1 << 53 => format!("{n}.0e0"),
                _ => number.to_string(),
            },
            other => other.to_string(),
        }
    }

    proptest! {
        #[test]
        fn hash_is_invariant_to_key_order_and_number_spelling(value in values()) {
            prop_assert_eq!(json_hash(&respelt(&value)), json_hash(&value.to_string()));
        }

        #[test]
        fn different_values_have_different_hashes(left in values(), right in values()) {
            let (left, right) = (json!({"v": left}), json!({"v": right}));
            let same = json_hash(&left.to_string()) == json_hash(&right.to_string());
            // 1 and 1.0 are one number and two values.
            prop_assert_eq!(same, left == right || respelt(&left) == respelt(&right));
        }
    }
}
