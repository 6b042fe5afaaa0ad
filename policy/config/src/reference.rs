//! `docs/reference/configuration.md` and `docs/reference/config.schema.json` say what the schema says.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::Value;

use super::alias::{FORMS, MOVED, NO_EFFECT};
use super::values::FORMATS;

const BEGIN: &str = "<!-- The keys, generated from the schema. -->\n";
const END: &str = "<!-- End of the keys. -->\n";
const NAMES: [&str; 2] =
    ["<!-- The other names, generated from the code. -->\n", "<!-- End of the other names. -->\n"];

fn docs(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name)
}

/// Compares a file with what it must be; with `UPDATE_DOCS=1` it is made so.
pub(super) fn same(name: &str, is: &str, must: &str) {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(docs(name), must).unwrap();
    } else {
        assert!(
            is == must,
            "docs/reference/{name} is old: UPDATE_DOCS=1 cargo test -p mcpwarden-config --lib"
        );
    }
}

fn read(name: &str) -> String {
    std::fs::read_to_string(docs(name)).unwrap_or_default()
}

#[test]
fn documented_schema_equals_the_schema() {
    same("config.schema.json", &read("config.schema.json"), &format!("{:#}\n", super::schema()));
}

#[test]
fn key_reference_matches_the_schema() {
    let page = read("configuration.md");
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    same("configuration.md", &page, &format!("{before}{BEGIN}{}{END}{after}", reference()));
}

/// Whatever name is accepted is one of these tables, which are what is read.
#[test]
fn every_other_name_is_documented() {
    let page = read("configuration.md");
    let [begin, end] = NAMES;
    let (before, rest) = page.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let mut table = "| other name | read as |\n|---|---|\n".to_owned();
    for (from, to) in MOVED {
        writeln!(table, "| `{from}` | `{to}` |").unwrap();
    }
    for form in FORMS {
        writeln!(table, "| {} | {} |", form.written, form.read).unwrap();
    }
    for (from, why) in NO_EFFECT {
        writeln!(table, "| `{from}` | {why} |").unwrap();
    }
    same("configuration.md", &page, &format!("{before}{begin}\n{table}\n{end}{after}"));
}

#[test]
fn every_schema_key_has_a_description() {
    let definitions = super::schema()["$defs"].as_object().unwrap().values();
    for definition in definitions.chain([super::schema()]) {
        let keys = definition.get("properties").and_then(Value::as_object);
        for (key, schema) in keys.into_iter().flatten() {
            assert!(
                schema["description"].as_str().is_some_and(|text| text.len() > 5),
                "{key} in {definition}"
            );
            let format = schema.get("format").and_then(Value::as_str);
            let known = |name: &str| {
                FORMATS.iter().any(|known| known.name == name) || name.starts_with("uint") || name == "double"
            };
            assert!(format.is_none_or(known), "{key} has the form {format:?}, which nothing checks");
        }
    }
}

/// In the order in which people read them.
pub(super) const SECTIONS: [&str; 16] = [
    "discovery",
    "servers",
    "sessions",
    "inspection",
    "registry",
    "policy",
    "classifier",
    "cross_server",
    "guards",
    "network",
    "enforcement",
    "capture",
    "store",
    "sinks",
    "metrics",
    "control",
];

/// One table for each section.
fn reference() -> String {
    let mut text = String::new();
    let all = super::schema()["properties"].as_object().unwrap();
    assert_eq!(all.len(), SECTIONS.len(), "a section is missing in the docs");
    for section in SECTIONS {
        writeln!(text, "\n### `{section}`\n\n{}\n", described(&all[section])).unwrap();
        text += "| key | what it can be | default | |\n|---|---|---|---|\n";
        rows(section, &all[section], &mut text);
    }
    let test = &super::schema()["$defs"]["ArgumentTest"];
    writeln!(text, "\n### `arguments` of a rule on tools\n\n{}\n", described(test)).unwrap();
    text += "| key | what it can be | default | |\n|---|---|---|---|\n";
    for (key, schema) in test["properties"].as_object().unwrap() {
        let kind = match key.as_str() {
            "not" => "a test".to_owned(),
            "equal" => "any value, or list of values".to_owned(),
            _ => kind(schema),
        };
        writeln!(text, "| `{key}` | {kind} | `null` | {} |", described(schema)).unwrap();
    }
    text.push('\n');
    text
}

pub(super) fn resolve(schema: &Value) -> &Value {
    match schema.get("$ref").and_then(Value::as_str) {
        Some(name) => super::schema().pointer(name.trim_start_matches('#')).unwrap(),
        None => match schema.get("anyOf").and_then(Value::as_array) {
            Some(parts) if parts.iter().any(|part| part["type"] == "null") => resolve(&parts[0]),
            _ => schema,
        },
    }
}

/// The rows of the keys below `path`.
fn rows(path: &str, schema: &Value, text: &mut String) {
    let target = resolve(schema);
    if let Some(keys) = target.get("properties").and_then(Value::as_object) {
        let required = target.get("required").and_then(Value::as_array);
        for (key, schema) in keys {
            let path = format!("{path}.{key}");
            let below = resolve(schema).get("properties").is_some();
            let needed = required.is_some_and(|names| names.contains(&Value::from(key.as_str())));
            let default = match schema.get("default") {
                _ if needed => "(needed)".to_owned(),
                Some(value) if !below => format!("`{value}`"),
                _ => String::new(),
            };
            let kind = if below { String::new() } else { kind(schema) };
            writeln!(text, "| `{path}` | {kind} | {default} | {} |", described(schema).replace('|', "\\|"))
                .unwrap();
            // The tests of arguments, which every rule on tools has, stand in a table of their own.
            if key != "arguments" {
                rows(&path, schema, text);
            }
        }
    }
    for form in target.get("anyOf").and_then(Value::as_array).into_iter().flatten() {
        rows(path, form, text);
    }
    if let Some(items) = target.get("items") {
        rows(&format!("{path}[]"), items, text);
    }
    if let Some(values) = target.get("additionalProperties").filter(|values| values.is_object()) {
        rows(&format!("{path}.*"), values, text);
    }
}

pub(super) fn described(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().replace('\n', " ")
}

/// What a value can be, in a few words.
pub(super) fn kind(schema: &Value) -> String {
    let target = resolve(schema);
    let words = |schema: &Value| {
        let list = schema.get("oneOf").or(schema.get("enum")).and_then(Value::as_array)?.clone();
        let word = |one: &Value| one.get("const").unwrap_or(one).as_str().map(|word| format!("`{word}`"));
        list.iter().map(word).collect::<Option<Vec<_>>>().map(|words| words.join(", "))
    };
    if let Some(words) = words(target) {
        return words;
    }
    if let Some(parts) = target.get("anyOf").and_then(Value::as_array) {
        return parts.iter().map(kind).collect::<Vec<_>>().join(", or ");
    }
    let format = target.get("format").and_then(Value::as_str);
    if let Some(format) = FORMATS.iter().find(|known| Some(known.name) == format) {
        return format.name.to_owned();
    }
    let name = match &target["type"] {
        Value::Array(list) => list[0].as_str(),
        name => name.as_str(),
    };
    let range = |name: &str| schema.get(name).or(target.get(name)).and_then(Value::as_f64);
    match name {
        Some("array") => format!("list of {}", kind(&target["items"])),
        Some("object") if target.get("properties").is_some() => "mapping".into(),
        Some("object") => format!("mapping to {}", kind(&target["additionalProperties"])),
        Some("integer" | "number") => match (range("minimum"), range("maximum")) {
            (Some(least), Some(most)) => format!("{least} to {most}"),
            (Some(least), None) => format!("{least} or more"),
            _ => "number".into(),
        },
        Some("boolean") => "`true`, `false`".into(),
        _ => "text".into(),
    }
}
