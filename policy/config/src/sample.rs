//! `deploy/config.yaml`, which packages install: every key, with its description and its default, commented out.

use std::fmt::Write as _;

use serde_json::Value;

use super::reference::{SECTIONS, described, kind, resolve, same};
use super::{Config, parse, schema};

const FILE: &str = "../../deploy/config.yaml";
const SHIPPED: &str = include_str!("../../../deploy/config.yaml");
/// Columns of a line.
const WIDTH: usize = 100;

const HEAD: &str = "\
# The configuration of mcpwarden. As it is here it says nothing: what is commented out are the defaults.
# `mcpwarden check-config FILE` says what is wrong with it; the running agent reads it again when it changes.
# docs/reference/configuration.md says more, with the keys of the entries of lists.
";

#[test]
fn shipped_config_is_generated_from_the_schema() {
    let mut text = HEAD.to_owned();
    for section in SECTIONS {
        write(section, &schema()["properties"][section], 0, &mut text);
    }
    same(FILE, SHIPPED, &text);
}

#[test]
fn shipped_config_equals_the_defaults() {
    // As it is; and with every key that has a default, of which some have no effect yet.
    let every: Vec<&str> = SHIPPED.lines().filter(|line| !line.trim_start().starts_with("# ")).collect();
    let read = |file: &str| parse(file.as_bytes()).unwrap_or_else(|problems| panic!("{problems:?}\n{file}"));
    assert_eq!(read(SHIPPED), (Config::default(), Vec::new()));
    assert_eq!(read(&every.join("\n").replace('#', "")).0, Config::default());
}

/// A key with all below it. Mappings stand there, so that a key in them is uncommented by taking away its `#`.
fn write(key: &str, schema: &Value, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    text.push('\n');
    let forms = resolve(schema).get("anyOf").and_then(Value::as_array).into_iter().flatten();
    let keys = [resolve(schema)].into_iter().chain(forms).find_map(|form| form["properties"].as_object());
    let form = if keys.is_some() { String::new() } else { format!(" Form: {}.", kind(schema)) };
    comment(&format!("{}{form}", described(schema)), &indent, text);
    match (keys, schema.get("default")) {
        (Some(keys), _) => {
            writeln!(text, "{indent}{key}:").unwrap();
            keys.iter().for_each(|(key, schema)| write(key, schema, depth + 1, text));
        }
        (None, Some(default)) if !default.is_null() => writeln!(text, "{indent}#{key}: {default}").unwrap(),
        (None, _) => writeln!(text, "{indent}#{key}:").unwrap(),
    }
}

fn comment(words: &str, indent: &str, text: &mut String) {
    let mut line = format!("{indent}#");
    for word in words.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(text, "{line}").unwrap();
            line = format!("{indent}#");
        }
        line = format!("{line} {word}");
    }
    writeln!(text, "{line}").unwrap();
}
