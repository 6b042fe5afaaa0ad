//! A tree against the schema of the configuration, all mistakes at once.
//!
//! The schema is generated from the types that the tree becomes, so nothing that is said of a key there is said a
//! second time here: this walks any tree along any schema of the kind that `schemars` makes of plain data.

use std::collections::HashMap;

use serde_json::Value;

use super::path::{KeyPath, quoted};
use super::problem::{Position, Problem, Problems, nearest};
use super::tree::{Entry, Kind, Node};
use super::values::{Bytes, FORMATS, Format};

/// Checks `root` against `schema`; nodes that are wrong are marked as bad.
pub(super) fn check(schema: &Value, root: &mut Node, problems: &mut Problems) {
    Checker { schema, problems }.node(schema, root, &KeyPath::default());
}

/// What is wrong with a text, wherever that stands.
struct Fault {
    message: String,
    nearest: Option<String>,
}

impl Fault {
    fn at(self, at: Position, path: KeyPath) -> Problem {
        Problem { nearest: self.nearest, ..Problem::error(at, path, self.message) }
    }
}

struct Checker<'a> {
    schema: &'a Value,
    problems: &'a mut Problems,
}

impl<'a> Checker<'a> {
    /// A keyword of a schema, or of the definition that it refers to.
    fn keyword(&self, schema: &'a Value, name: &str) -> Option<&'a Value> {
        schema.get(name).or_else(|| self.keyword(self.referred(schema)?, name))
    }

    fn referred(&self, schema: &'a Value) -> Option<&'a Value> {
        self.schema.pointer(schema.get("$ref")?.as_str()?.strip_prefix('#')?)
    }

    /// What a value may be: the one schema itself, or its alternatives without the one for "not given".
    fn alternatives(&self, schema: &'a Value) -> Vec<&'a Value> {
        let choice = self.keyword(schema, "anyOf").or_else(|| self.keyword(schema, "oneOf"));
        match choice.and_then(Value::as_array) {
            Some(list) if self.words(schema).is_none() => {
                let given = list.iter().filter(|one| one.get("type").is_none_or(|name| name != "null"));
                given.flat_map(|one| self.alternatives(one)).collect()
            }
            _ => vec![schema],
        }
    }

    /// The words of an enumeration.
    fn words(&self, schema: &'a Value) -> Option<Vec<&'a str>> {
        if let Some(list) = self.keyword(schema, "enum").and_then(Value::as_array) {
            return Some(list.iter().filter_map(Value::as_str).collect());
        }
        if let Some(word) = self.keyword(schema, "const").and_then(Value::as_str) {
            return Some(vec![word]);
        }
        let parts = self.keyword(schema, "oneOf")?.as_array()?;
        let words: Option<Vec<_>> = parts.iter().map(|part| self.words(part)).collect();
        words.map(|words| words.concat())
    }

    fn types(&self, schema: &'a Value) -> Vec<&'a str> {
        match self.keyword(schema, "type") {
            Some(Value::Array(list)) => {
                list.iter().filter_map(Value::as_str).filter(|name| *name != "null").collect()
            }
            Some(Value::String(name)) => vec![name],
            _ if self.words(schema).is_some() => vec!["string"],
            _ => Vec::new(),
        }
    }

    /// Whether `null` says something else than leaving the key out.
    fn can_be_off(&self, schema: &'a Value) -> bool {
        let types = self.keyword(schema, "type").and_then(Value::as_array);
        types.is_some_and(|types| types.contains(&Value::from("null")))
            && schema.get("default").is_some_and(|default| !default.is_null())
    }

    fn format(&self, schema: &'a Value) -> Option<&'static Format> {
        let name = self.keyword(schema, "format")?.as_str()?;
        FORMATS.iter().find(|format| format.name == name)
    }

    fn limit(&self, schema: &'a Value, name: &str) -> Option<u64> {
        self.keyword(schema, name)?.as_u64()
    }

    /// What is expected, for people.
    fn expected(&self, schema: &'a Value) -> String {
        let alternatives = self.alternatives(schema);
        if alternatives.len() > 1 {
            return alternatives.iter().map(|one| self.expected(one)).collect::<Vec<_>>().join(", or ");
        }
        let schema = alternatives.first().copied().unwrap_or(schema);
        if let Some(words) = self.words(schema) {
            let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
            return if words.len() == 1 { words.concat() } else { format!("one of {}", words.join(", ")) };
        }
        if let Some(format) = self.format(schema) {
            return format.expected.to_owned();
        }
        let types = self.types(schema).into_iter().map(|name| match name {
            "object" => "a mapping (`key: value`)",
            "array" => "a list (`[a, b]`)",
            "integer" => "a whole number",
            "number" => "a number",
            "boolean" => "true or false",
            _ => "a text",
        });
        types.collect::<Vec<_>>().join(" or ")
    }

    fn accepts(&self, schema: &'a Value, kind: &Kind) -> bool {
        let types = self.types(schema);
        let any = |names: &[&str]| names.iter().any(|name| types.contains(name));
        match kind {
            Kind::Null | Kind::Off => false,
            Kind::Bool(_) => any(&["boolean"]),
            Kind::Int(_) => any(&["integer", "number"]),
            Kind::Float(_) => any(&["number"]),
            Kind::Text(_) => any(&["string"]),
            Kind::List(_) => any(&["array"]),
            Kind::Map(_) => any(&["object"]),
        }
    }

    fn wrong(&mut self, node: &mut Node, path: &KeyPath, message: String) {
        node.bad = true;
        self.problems.add(Problem::error(node.at, path.clone(), message));
    }

    fn node(&mut self, schema: &'a Value, node: &mut Node, path: &KeyPath) {
        // What was reported already.
        if node.bad {
            return;
        }
        let fitting = self.alternatives(schema).into_iter().find(|one| self.accepts(one, &node.kind));
        let Some(schema) = fitting else {
            let message = format!("expected {}, found {}", self.expected(schema), found(&node.kind));
            let hint = match node.kind {
                Kind::Bool(_) | Kind::Int(_) | Kind::Float(_) if self.types(schema).contains(&"string") => {
                    "; a text that looks like that needs quotes"
                }
                _ => "",
            };
            return self.wrong(node, path, message + hint);
        };
        match &node.kind {
            Kind::List(_) => self.list(schema, node, path),
            Kind::Map(_) => self.map(schema, node, path),
            Kind::Text(text) => {
                if let Some(fault) = self.text(schema, text) {
                    node.bad = true;
                    self.problems.add(fault.at(node.at, path.clone()));
                }
            }
            Kind::Int(number) => {
                if let Some(reason) = self.number(schema, *number as f64) {
                    let message = format!("{number} {reason}");
                    self.wrong(node, path, message);
                }
            }
            Kind::Float(number) => {
                if let Some(reason) = self.number(schema, *number) {
                    let message = format!("{number} {reason}");
                    self.wrong(node, path, message);
                }
            }
            Kind::Null | Kind::Off | Kind::Bool(_) => {}
        }
    }

    /// Why a number is none of those that are expected.
    fn number(&self, schema: &'a Value, number: f64) -> Option<String> {
        let widest = match self.keyword(schema, "format").and_then(Value::as_str) {
            Some("uint8") => Some(u64::from(u8::MAX)),
            Some("uint16") => Some(u64::from(u16::MAX)),
            Some("uint32") => Some(u64::from(u32::MAX)),
            Some("uint64" | "size") => Some(u64::MAX),
            _ => None,
        };
        let limit = |name| self.keyword(schema, name).and_then(Value::as_f64);
        let is_whole = widest.is_some();
        let least = limit("minimum").or(is_whole.then_some(0.0));
        let most = limit("maximum").or(widest.map(|most| most as f64));
        // What is rounded to 2^64 is no u64 any more.
        let above = |most| number > most || widest == Some(u64::MAX) && number >= u64::MAX as f64;
        match (least, most) {
            (Some(least), _) if number < least => Some(format!("is too small; the least is {least}")),
            (_, Some(most)) if above(most) => Some(format!("is too large; the most is {most}")),
            _ => None,
        }
    }

    /// What is wrong with a text.
    fn text(&self, schema: &'a Value, text: &str) -> Option<Fault> {
        let error = |message| Some(Fault { message, nearest: None });
        if let Some(words) = self.words(schema) {
            let message = format!("expected {}, found {}", self.expected(schema), quoted(text));
            let is_wrong = !words.contains(&text);
            return is_wrong.then(|| Fault { message, nearest: nearest(text, words.into_iter()) });
        }
        let length = text.chars().count() as u64;
        if self.limit(schema, "minLength").is_some_and(|least| length < least) {
            return error("it must not be empty".into());
        }
        if let Some(most) = self.limit(schema, "maxLength").filter(|most| length > *most) {
            return error(format!("it has {length} characters; the most is {most}"));
        }
        let format = self.format(schema)?;
        if let Err(reason) = (format.check)(text) {
            return error(format!("{} is not {}: {reason}", quoted(text), format.expected));
        }
        let bytes = text.parse::<Bytes>().ok().filter(|_| format.name == "size")?;
        error(format!("{text} {}", self.number(schema, bytes.0 as f64)?))
    }

    fn list(&mut self, schema: &'a Value, node: &mut Node, path: &KeyPath) {
        let length = if let Kind::List(list) = &node.kind { list.len() } else { 0 };
        if self.limit(schema, "minItems").is_some_and(|least| (length as u64) < least) {
            return self.wrong(node, path, "it must not be empty; leave the key out instead".into());
        }
        if let Some(most) = self.limit(schema, "maxItems").filter(|most| length as u64 > *most) {
            return self.wrong(node, path, format!("it has {length} entries; the most is {most}"));
        }
        let (Kind::List(list), Some(items)) = (&mut node.kind, self.keyword(schema, "items")) else {
            return;
        };
        for (index, item) in list.iter_mut().enumerate() {
            self.node(items, item, &path.with(index));
        }
        if let Some(key) = self.keyword(schema, "x-unique").and_then(Value::as_str) {
            self.unique(list, key, path);
        }
    }

    /// No two entries of a list have the same value of `key`.
    fn unique(&mut self, list: &[Node], key: &str, path: &KeyPath) {
        let mut seen = HashMap::new();
        for (index, item) in list.iter().enumerate() {
            let Kind::Map(entries) = &item.kind else { continue };
            let value = entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value);
            let Some((Kind::Text(text), at)) = value.map(|value| (&value.kind, value.at)) else { continue };
            if let Some(line) = seen.insert(text, at.line) {
                let message = format!("{} is taken: it stands in line {line}, too", quoted(text));
                self.problems.add(Problem::error(at, path.with(index).with(key), message));
            }
        }
    }

    fn map(&mut self, schema: &'a Value, node: &mut Node, path: &KeyPath) {
        let is_empty = matches!(&node.kind, Kind::Map(entries) if entries.is_empty());
        if is_empty && self.limit(schema, "minProperties").is_some() {
            return self.wrong(node, path, "it must not be empty".into());
        }
        let known = self.keyword(schema, "properties").and_then(Value::as_object);
        let others = self.keyword(schema, "additionalProperties");
        // Values of which nothing is said: whoever they are for reads them.
        let is_open = others == Some(&Value::Bool(true));
        let others = others.filter(|others| others.is_object());
        let names = self.keyword(schema, "propertyNames");
        let required = self.keyword(schema, "required").and_then(Value::as_array);
        let Kind::Map(entries) = &mut node.kind else { return };
        // Without a part of what decides about whom it is, an entry would be about everybody.
        let mut undecided = false;
        for entry in entries.iter_mut() {
            let path = path.with(entry.key.as_str());
            let of_value = known.and_then(|known| known.get(&entry.key)).or(others);
            if is_open && of_value.is_none() {
                continue;
            }
            // A key of YAML 1.1, which other readers expand: not a name of anybody.
            if entry.key == "<<" {
                entry.value.bad = true;
                let message = "merge keys are not supported: write the keys out".to_owned();
                self.problems.add(Problem::error(entry.key_at, path, message));
                continue;
            }
            let Some(of_value) = of_value else {
                entry.value.bad = true;
                let words = known.into_iter().flat_map(|known| known.keys().map(String::as_str));
                let mut problem = Problem::error(entry.key_at, path, "there is no such key".into());
                problem = problem.nearest_of(&entry.key, words.clone());
                if problem.nearest.is_none() {
                    problem.message +=
                        &format!("; the keys here are {}", words.collect::<Vec<_>>().join(", "));
                }
                self.problems.add(problem);
                continue;
            };
            if let Some(fault) = names.and_then(|names| self.text(names, &entry.key)) {
                entry.value.bad = true;
                self.problems.add(fault.at(entry.key_at, path));
            } else if !entry.value.is_null() {
                self.node(of_value, &mut entry.value, &path);
            } else if self.can_be_off(of_value) {
                entry.value.kind = Kind::Off;
            }
            undecided |= of_value.get("x-decides").is_some() && entry.value.has_bad();
        }
        node.bad |= undecided;
        let good = |entry: &&Entry| !entry.value.is_null() && !entry.value.bad;
        // Which keys a merge key would bring is not known.
        if !is_open && entries.iter().any(|entry| entry.key == "<<") {
            node.bad = true;
            return;
        }
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            let entry = entries.iter().find(|entry| entry.key == name);
            if entry.filter(good).is_none() {
                node.bad = true;
                // One that is there and wrong was reported.
                if entry.is_none_or(|entry| entry.value.is_null()) {
                    self.problems.add(Problem::error(
                        node.at,
                        path.clone(),
                        format!("the key `{name}` is missing"),
                    ));
                }
            }
        }
    }
}

fn found(kind: &Kind) -> String {
    match kind {
        Kind::Null | Kind::Off => "nothing".into(),
        Kind::Bool(value) => value.to_string(),
        Kind::Int(number) => format!("the number {number}"),
        Kind::Float(number) => format!("the number {number}"),
        Kind::Text(text) => quoted(text),
        Kind::List(_) => "a list".into(),
        Kind::Map(_) => "a mapping".into(),
    }
}
