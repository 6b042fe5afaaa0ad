//! Identity of what a server tells the model: tool definitions, prompts, resource templates, instructions.

use std::collections::HashMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};

/// The key that no hash covers: it is the transport's, and may change with every answer.
const META: &str = "_meta";

/// Lowercase hexadecimal SHA-256 of the JSON text of a definition, a prompt, a resource template, or (a JSON string)
/// a server's instructions: over its RFC 8785 canonical form, `_meta` left out. Neither the order of keys nor the
/// spelling of a number changes it; anything else does.
///
/// What has no canonical form hashes as text, so that no change of it goes unseen:
///
/// | | hashed |
/// |---|---|
/// | an integer of 64 bits that is no IEEE 754 double | [`text_hash`] of the canonical form but with all digits of it |
/// | a number beyond 2^64, a duplicate key, a lone surrogate, a depth over 128 | [`text_hash`] of it as it was sent |
pub fn json_hash(json: &str) -> String {
    let mut reader = serde_json::Deserializer::from_str(json);
    let value = Strict { top: true }.deserialize(&mut reader);
    match value.and_then(|value| reader.end().map(|()| value)) {
        Ok(value) => definition_hash(&value),
        Err(_) => text_hash(json),
    }
}

/// As [`json_hash`], of a value that was read already; so duplicate keys and lone surrogates are lost.
pub fn definition_hash(tool: &Value) -> String {
    let mut text = Vec::new();
    let exact = match tool {
        Value::Object(members) => write_object(members, |key| key != META, &mut text),
        other => write_canonical(other, &mut text),
    };
    if exact { hex(&Sha256::digest(text)) } else { text_hash(&String::from_utf8_lossy(&text)) }
}

/// Appends the canonical form of a value (RFC 8785), but for integers that are no doubles: the form of those would be
/// that of a neighbour, and they are written with all their digits. Whether there was none. By hand, since nearly all
/// of a definition is text and short integers, whose form is that of any writer.
fn write_canonical(value: &Value, out: &mut Vec<u8>) -> bool {
    match value {
        Value::Object(members) => return write_object(members, |_| true, out),
        Value::Array(items) => {
            let mut exact = true;
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                exact &= write_canonical(item, out);
            }
            out.push(b']');
            return exact;
        }
        _ => {}
    }
    let exact = value.as_number().is_none_or(is_exact);
    let long = value.is_number() && value.as_i64().is_none_or(|n| n.unsigned_abs() > 1 << 53);
    // Writing to memory cannot fail, and there are no numbers but finite ones.
    let _ = if exact && long {
        serde_json_canonicalizer::to_writer(value, out)
    } else {
        serde_json::to_writer(out, value)
    };
    exact
}

fn write_object(members: &Map<String, Value>, is_kept: impl Fn(&str) -> bool, out: &mut Vec<u8>) -> bool {
    let mut kept: Vec<(&String, &Value)> = members.iter().filter(|(key, _)| is_kept(key)).collect();
    // Sorted by UTF-16, which is the order of the map but where there are surrogates, and what comes after those.
    if kept.iter().any(|(key, _)| key.bytes().any(|byte| byte >= 0xee)) {
        kept.sort_by(|(left, _), (right, _)| left.encode_utf16().cmp(right.encode_utf16()));
    }
    let mut exact = true;
    out.push(b'{');
    for (at, (key, value)) in kept.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        // As above.
        let _ = serde_json::to_writer(&mut *out, key);
        out.push(b':');
        exact &= write_canonical(value, out);
    }
    out.push(b'}');
    exact
}

/// Whether a number that is an integer is a double.
fn is_exact(number: &Number) -> bool {
    let unsigned = number.as_u64().is_none_or(|n| (n as f64) as u128 == u128::from(n));
    let signed = number.as_i64().is_none_or(|n| (n as f64) as i128 == i128::from(n));
    unsigned && signed
}

/// Lowercase hexadecimal SHA-256 of what has no canonical form: over the word `text`, a zero byte and its text as it
/// was sent. It can never be the hash of a canonical form.
pub fn text_hash(text: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(b"text\0");
    hash.update(text.as_bytes());
    hex(&hash.finalize())
}

/// Lowercase hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(2 * bytes.len());
    push_hex(bytes, &mut digits);
    digits
}

/// Appends them.
pub(crate) fn push_hex(bytes: &[u8], out: &mut String) {
    let digit = |value: u8| char::from(if value < 10 { b'0' + value } else { b'a' + value - 10 });
    out.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
}

/// Reads a JSON value, and refuses what one reader takes otherwise than the next: duplicate keys, and numbers of
/// which only a double is left. At the top, `_meta` is left out.
struct Strict {
    top: bool,
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without duplicate keys and huge numbers")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        if value.abs() >= 2f64.powi(64) {
            return Err(E::custom("number beyond 2^64"));
        }
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(Strict { top: false })? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if self.top && key == META {
                map.next_value::<IgnoredAny>()?;
            } else if members.insert(key, map.next_value_seed(Strict { top: false })?).is_some() {
                return Err(A::Error::custom("duplicate key"));
            }
        }
        Ok(Value::Object(members))
    }
}

/// The hashes of the definitions seen last, by SHA-256 of their texts: to know one again costs that digest, and neither
/// reading nor writing it. Any other text, be it of the same definition, is read.
#[derive(Debug)]
pub(crate) struct HashCache {
    /// Two generations, so that the older half can go at once.
    young: HashMap<[u8; 32], Box<str>>,
    old: HashMap<[u8; 32], Box<str>>,
    generation: usize,
}

impl HashCache {
    /// A cache of at most so many definitions.
    pub(crate) fn new(entries: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), generation: (entries / 2).max(1) }
    }

    /// As [`json_hash`].
    pub(crate) fn json_hash(&mut self, json: &str) -> String {
        let text: [u8; 32] = Sha256::digest(json).into();
        if let Some(hash) = self.young.get(&text) {
            return hash.to_string();
        }
        let hash = self.old.remove(&text).map_or_else(|| json_hash(json), String::from);
        if self.young.len() >= self.generation {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(text, hash.as_str().into());
        hash
    }
}

/// A name as it is kept: whole up to 256 bytes; of a longer one the beginning and a hash, so that two of them are
/// never taken for one.
pub fn bounded_name(name: &str) -> String {
    const MAX_BYTES: usize = 256;
    const HASH_DIGITS: usize = 64;
    if name.len() <= MAX_BYTES {
        return name.to_owned();
    }
    let kept = name.floor_char_boundary(MAX_BYTES - HASH_DIGITS - '…'.len_utf8());
    format!("{}…{}", &name[..kept], text_hash(name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_hash_is_that_of_the_canonical_form() {
        let tool = json!({"name": "add", "inputSchema": {"type": "object", "b": 1.0, "a": "é"}});
        // printf '{"inputSchema":{"a":"é","b":1,"type":"object"},"name":"add"}' | sha256sum
        let canonical = r#"{"inputSchema":{"a":"é","b":1,"type":"object"},"name":"add"}"#;
        assert_eq!(definition_hash(&tool), hex(&Sha256::digest(canonical)));
        assert_eq!(json_hash(&tool.to_string()), definition_hash(&tool));
    }

    #[test]
    fn only_what_counts_changes_the_hash() {
        let base = json!({"name": "t", "description": "d", "inputSchema": {"type": "object"}});
        let with = |key: &str, value: Value| {
            let mut tool = base.clone();
            tool[key] = value;
            tool
        };
        let cases = [
            ("_meta", json!({"a": 1}), true),
            ("title", json!("T"), false),
            ("annotations", json!({"readOnlyHint": true}), false),
            ("outputSchema", json!({}), false),
            ("inputSchema", json!({"type": "object", "_meta": 1}), false),
            ("x-unknown", json!(null), false),
            ("description", json!("d "), false),
            ("description", json!("d"), true),
        ];
        for (key, value, same) in cases {
            let changed = with(key, value);
            assert_eq!(definition_hash(&changed) == definition_hash(&base), same, "{key}");
            assert_eq!(json_hash(&changed.to_string()) == definition_hash(&base), same, "{key}");
        }
        assert_ne!(text_hash("{}"), definition_hash(&json!({})));
    }

    /// Two texts, and whether they are one definition.
    #[test]
    fn spelling_does_not_change_the_hash_and_content_does() {
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
            // Lone surrogates, which would all become U+FFFD.
            (r#"{"a":"\ud800"}"#, r#"{"a":"\ud801"}"#, false),
            (r#"{"a":"\ud800"}"#, r#"{"a":"\ufffd"}"#, false),
            // Whoever takes the first of two keys reads something else than whoever takes the last.
            (r#"{"a":1,"a":2}"#, r#"{"a":3,"a":2}"#, false),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#, false),
            // `_meta`, whatever is in it.
            (r#"{"a":1,"_meta":{"x":1,"x":2}}"#, r#"{"_meta":"\ud800","a":1}"#, true),
            (r#""instructions""#, r#""\u0069nstructions""#, true),
            (r#""instructions""#, r#""instructions ""#, false),
            (&deep(1_000, "1"), &deep(1_000, "2"), false),
            (&deep(1_000, "1"), &deep(1_000, "1"), true),
        ];
        for (left, right, same) in cases {
            assert_eq!(json_hash(left) == json_hash(right), same, "{left} {right}");
        }
    }

    #[test]
    fn what_is_known_again_has_the_hash_that_it_had() {
        let mut cache = HashCache::new(4);
        let texts =
            [r#"{"a":1}"#, r#"{"a": 1}"#, r#"{"a":2}"#, r#"{"a":1,"a":2}"#, "1e999", r#"{"_meta":1}"#];
        for text in texts.iter().chain(&texts).chain([&texts[5], &texts[5], &texts[0]]) {
            assert_eq!(cache.json_hash(text), json_hash(text), "{text}");
            assert!(cache.young.len() + cache.old.len() <= 4);
        }
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let long = "ä".repeat(1_000);
        let other = format!("{long}b");
        assert_eq!(bounded_name("read_file"), "read_file");
        assert!(bounded_name(&long).len() <= 256 && bounded_name(&other).len() <= 256);
        assert_ne!(bounded_name(&long), bounded_name(&other));
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e15..1e15f64).prop_map(Value::from),
            any::<f64>().prop_filter("no text hash", |n| n.abs() < 1e19).prop_map(Value::from),
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
        fn the_hash_is_invariant_under_key_order_and_number_spelling(value in values()) {
            prop_assert_eq!(json_hash(&respelt(&value)), json_hash(&value.to_string()));
        }

        #[test]
        fn the_canonical_form_is_that_of_rfc_8785(value in values()) {
            let mut text = Vec::new();
            if write_canonical(&value, &mut text) {
                let expected = serde_json_canonicalizer::to_vec(&value).unwrap();
                prop_assert_eq!(String::from_utf8(text).unwrap(), String::from_utf8(expected).unwrap());
            }
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
