//! A result for people: its texts as they are but for what deceives a reader, and the rest in a few words.

use serde_json::Value;

use crate::output::{clean, escaped};

/// The lines of a result.
pub fn lines(result: &str) -> Vec<String> {
    let Ok(result) = serde_json::from_str::<Value>(result) else { return Vec::new() };
    let parts = result.get("content").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut lines: Vec<String> = parts.iter().flat_map(part).collect();
    if let Some(structured) =
        result.get("structuredContent").filter(|structured| !is_in_text(parts, structured))
    {
        lines.extend(text(&format!("{structured:#}")));
    }
    lines
}

/// A text, line by line. Tabulators stay.
fn text(text: &str) -> Vec<String> {
    let line = |line: &str| line.split('\t').map(escaped).collect::<Vec<_>>().join("\t");
    text.lines().map(line).collect()
}

/// The lines of a part of a result.
fn part(part: &Value) -> Vec<String> {
    let field = |of: &Value, name: &str| of.get(name).and_then(Value::as_str).map(str::to_owned);
    let kind = field(part, "type").unwrap_or_default();
    match (kind.as_str(), field(part, "text"), part.get("resource")) {
        ("text", Some(content), _) => text(&content),
        ("image" | "audio", ..) => vec![data(&kind, part, "data")],
        ("resource_link", ..) => {
            let name = field(part, "title").or_else(|| field(part, "name")).unwrap_or_default();
            let uri = field(part, "uri").unwrap_or_default();
            vec![format!("[resource link {} {}]", clean(&name), clean(&uri))]
        }
        ("resource", _, Some(resource)) => {
            let uri = clean(&field(resource, "uri").unwrap_or_default());
            match field(resource, "text") {
                Some(content) => {
                    let head = format!("[resource {uri}]");
                    std::iter::once(head).chain(text(&content)).collect()
                }
                None => vec![data(&format!("resource {uri}"), resource, "blob")],
            }
        }
        _ => vec![format!("[part of the unknown type `{}`]", clean(&kind))],
    }
}

/// A part with data in base64: how much, and of which type.
fn data(what: &str, part: &Value, member: &str) -> String {
    let encoded = part.get(member).and_then(Value::as_str).unwrap_or_default().trim_end_matches('=');
    let kind = part
        .get("mimeType")
        .and_then(Value::as_str)
        .map_or_else(String::new, |kind| format!(" {}", clean(kind)));
    format!("[{what} {}{kind}]", size(encoded.len() * 3 / 4))
}

/// A size for people.
fn size(bytes: usize) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} KB", bytes.div_ceil(1_000)),
        _ => format!("{} MB", bytes.div_ceil(1_000_000)),
    }
}

/// Whether a text says what structured content does, as the specification wants it for clients that do not know the latter.
fn is_in_text(parts: &[Value], structured: &Value) -> bool {
    // SDKs put what is no object under `result`.
    let inner =
        structured.as_object().filter(|members| members.len() == 1).and_then(|members| members.get("result"));
    let texts: Vec<&str> = parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect();
    let says = |value: &Value| {
        let is_list = value.as_array().is_some_and(|list| !list.is_empty() && list.len() == texts.len());
        texts.iter().any(|text| is_said(text, value))
            || is_list
                && texts
                    .iter()
                    .zip(value.as_array().into_iter().flatten())
                    .all(|(text, one)| is_said(text, one))
    };
    says(structured) || inner.is_some_and(says)
}

fn is_said(text: &str, value: &Value) -> bool {
    value.as_str() == Some(text) || serde_json::from_str::<Value>(text).is_ok_and(|parsed| parsed == *value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn results_are_printed_for_people() {
        let text = |text: &str| json!({ "type": "text", "text": text });
        for (result, expected) in [
            (json!({ "content": [text("a\tb\r\nc"), text("d")] }), &["a\tb", "c", "d"][..]),
            (json!({ "content": [text("\u{1b}[2J\u{202e}x")] }), &["\\u{1b}[2J\\u{202e}x"]),
            (
                json!({ "content": [{ "type": "image", "data": "A".repeat(16_000), "mimeType": "image/png" }] }),
                &["[image 12 KB image/png]"],
            ),
            (json!({ "content": [{ "type": "audio", "data": "AAAA" }] }), &["[audio 3 B]"]),
            (
                json!({ "content": [{ "type": "resource", "resource": { "uri": "file:///a", "text": "x\ny" } }] }),
                &["[resource file:///a]", "x", "y"],
            ),
            (
                json!({ "content": [{ "type": "resource", "resource": { "uri": "u", "blob": "AAA=", "mimeType": "a/b" } }] }),
                &["[resource u 2 B a/b]"],
            ),
            (
                json!({ "content": [{ "type": "resource_link", "name": "n", "uri": "u" }] }),
                &["[resource link n u]"],
            ),
            (
                json!({ "content": [{ "type": "new\n" }, 3] }),
                &["[part of the unknown type `new `]", "[part of the unknown type ``]"],
            ),
            (json!({ "content": [text("3")], "structuredContent": { "result": 3 } }), &["3"]),
            (json!({ "content": [text("x")], "structuredContent": { "result": "x" } }), &["x"]),
            (json!({ "content": [text("{\"a\": 1}")], "structuredContent": { "a": 1 } }), &["{\"a\": 1}"]),
            (
                json!({ "content": [text("1"), text("x")], "structuredContent": { "result": [1, "x"] } }),
                &["1", "x"],
            ),
            (
                json!({ "content": [text("done")], "structuredContent": { "a": "\u{1b}" } }),
                &["done", "{", "  \"a\": \"\\u001b\"", "}"],
            ),
            (json!({}), &[]),
            (json!({ "content": "x" }), &[]),
        ] {
            assert_eq!(lines(&result.to_string()), expected, "{result}");
        }
    }
}
