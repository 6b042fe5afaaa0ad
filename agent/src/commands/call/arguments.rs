//! The arguments of a call: read, and held against what the tool says that it takes.

use std::fs::File;
use std::io::{self, Read};

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::{Map, Value};

use crate::output::clean;

/// Longest arguments. Bytes.
const MAX_BYTES: u64 = 16 << 20;

/// Reads arguments: a JSON object, or behind an `@` the path of a file with one; `@-` is standard input.
///
/// # Errors
/// They cannot be read, are too long, or are no JSON object.
pub fn read(given: &str) -> Result<Map<String, Value>> {
    let text = match given.strip_prefix('@') {
        None => given.to_owned(),
        Some(path) => {
            let input: Box<dyn Read> = match path {
                "-" => Box::new(io::stdin()),
                path => Box::new(
                    File::open(path).with_context(|| format!("--arguments: cannot open {}", clean(path)))?,
                ),
            };
            let mut bytes = Vec::new();
            let place = || format!("--arguments: cannot read {}", clean(path));
            input.take(MAX_BYTES + 1).read_to_end(&mut bytes).with_context(place)?;
            ensure!(
                bytes.len() as u64 <= MAX_BYTES,
                "--arguments: {} is longer than {} MiB",
                clean(path),
                MAX_BYTES >> 20
            );
            String::from_utf8(bytes).map_err(|_| anyhow!("--arguments: {} is not UTF-8 text", clean(path)))?
        }
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    match serde_json::from_str(text).context("--arguments is not JSON")? {
        Value::Object(arguments) => Ok(arguments),
        _ => Err(anyhow!("--arguments is not a JSON object; write {{\"name\": value}}")),
    }
}

/// What of the arguments does not fit the `inputSchema` of a definition, as far as that is plain: a sentence for each.
pub fn misfits(definition: &str, arguments: &Map<String, Value>) -> Vec<String> {
    let definition: Value = serde_json::from_str(definition).unwrap_or_default();
    let Some(schema) = definition.get("inputSchema").and_then(Value::as_object) else { return Vec::new() };
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let missing = required.filter_map(Value::as_str).filter(|name| !arguments.contains_key(*name));
    let mut found: Vec<String> =
        missing.map(|name| format!("the tool requires the argument `{}`", clean(name))).collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false))
        && !schema.contains_key("patternProperties");
    for (name, value) in arguments {
        match properties.and_then(|properties| properties.get(name)) {
            Some(property) => {
                let types = types(property);
                if !types.is_empty() && !types.iter().any(|kind| is_of(kind, value)) {
                    let expected = types.join(" or ");
                    found.push(format!("the argument `{}` should be: {}", clean(name), clean(&expected)));
                }
            }
            None if is_closed => found.push(format!("the tool knows no argument `{}`", clean(name))),
            None => {}
        }
    }
    found
}

/// The types that a schema demands; none where it does not say, or says something else.
fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        // Whatever that is.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_read_from_text_or_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("arguments");
        std::fs::write(&file, "\u{feff}{\"a\": 1}\n").unwrap();
        let from_file = format!("@{}", file.display());
        for (given, expected) in [
            (r#"{"a": 1}"#, Ok(json!({ "a": 1 }))),
            (from_file.as_str(), Ok(json!({ "a": 1 }))),
            ("{}", Ok(json!({}))),
            ("[1]", Err("is not a JSON object")),
            ("a=1", Err("is not JSON")),
            ("", Err("is not JSON")),
            ("@/nowhere", Err("cannot open /nowhere")),
        ] {
            match (read(given), expected) {
                (Ok(read), Ok(expected)) => assert_eq!(Value::Object(read), expected, "{given}"),
                (Err(error), Err(part)) => assert!(format!("{error:#}").contains(part), "{given}: {error:#}"),
                (read, _) => panic!("{given}: {read:?}"),
            }
        }
    }

    #[test]
    fn plain_misfits_are_named() {
        let definition = |schema: Value| json!({ "name": "t", "inputSchema": schema }).to_string();
        let add = definition(json!({
            "type": "object",
            "properties": { "a": { "type": "integer" }, "b": { "type": ["number", "null"] }, "c": {} },
            "required": ["a", "b"],
        }));
        let closed = definition(json!({ "additionalProperties": false, "properties": { "a": {} } }));
        for (definition, arguments, expected) in [
            (add.as_str(), json!({ "a": 1, "b": 2.5, "c": "x" }), &[][..]),
            (&add, json!({ "a": 1.0, "b": null, "d": 1 }), &[]),
            (&add, json!({ "b": 1 }), &["the tool requires the argument `a`"]),
            (
                &add,
                json!({ "a": "1", "b": "x" }),
                &["the argument `a` should be: integer", "the argument `b` should be: number or null"],
            ),
            (&add, json!({ "a": 1.5, "b": 1 }), &["the argument `a` should be: integer"]),
            (&closed, json!({ "a": 1, "b": 1 }), &["the tool knows no argument `b`"]),
            (r#"{"name":"t"}"#, json!({ "a": 1 }), &[]),
            (r#"{"inputSchema":[]}"#, json!({ "a": 1 }), &[]),
        ] {
            let arguments = arguments.as_object().cloned().unwrap();
            assert_eq!(misfits(definition, &arguments), expected, "{definition} {arguments:?}");
        }
    }
}
