//! Identity of tool definitions.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Lowercase hexadecimal SHA-256 of a tool definition: over its RFC 8785 canonical JSON, `_meta` left out (it is
/// the transport's, and may change with every answer). So a reordered key changes nothing, and a changed
/// `title`, `annotations` or `outputSchema` does.
///
/// Where a definition has no canonical form (a number that is no IEEE 754 double), the hash is that of
/// [`text_hash`] over its compact JSON with sorted keys.
pub fn definition_hash(tool: &Value) -> String {
    let canonical = match tool {
        Value::Object(members) => {
            let kept: BTreeMap<&str, &Value> = members
                .iter()
                .filter(|(key, _)| *key != "_meta")
                .map(|(key, value)| (key.as_str(), value))
                .collect();
            serde_json_canonicalizer::to_vec(&kept)
        }
        other => serde_json_canonicalizer::to_vec(other),
    };
    match canonical {
        Ok(bytes) => hex(&Sha256::digest(bytes)),
        Err(_) => text_hash(&tool.to_string()),
    }
}

/// Lowercase hexadecimal SHA-256 of a definition that could not be read as JSON values (nested too deeply, or
/// with numbers beyond any double): over the word `text`, a zero byte and its text as it was sent. It can never
/// be the hash of a canonical form.
pub fn text_hash(text: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(b"text\0");
    hash.update(text.as_bytes());
    hex(&hash.finalize())
}

/// Lowercase hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_hash_is_that_of_the_canonical_form() {
        let tool = json!({"name": "add", "inputSchema": {"type": "object", "b": 1.0, "a": "é"}});
        // printf '{"inputSchema":{"a":"é","b":1,"type":"object"},"name":"add"}' | sha256sum
        let canonical = r#"{"inputSchema":{"a":"é","b":1,"type":"object"},"name":"add"}"#;
        assert_eq!(definition_hash(&tool), hex(&Sha256::digest(canonical)));
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
            ("description", json!("d "), false),
            ("description", json!("d"), true),
        ];
        for (key, value, same) in cases {
            assert_eq!(definition_hash(&with(key, value)) == definition_hash(&base), same, "{key}");
        }
        assert_ne!(text_hash("{}"), definition_hash(&json!({})));
    }
}
