//! Arguments for a call, by the schema of the tool: other ones in each round.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Levels of a schema that are followed.
const MAX_DEPTH: usize = 6;
const MAX_WORDS: usize = 4_000;
/// Used until a server has said any.
const FIRST_WORDS: [&str; 4] = ["example", "button", "water", "hello world"];
const FILES: [&str; 4] =
    ["/usr/share/doc", "/usr/share/common-licenses/GPL-3", "/usr/share/doc/bash/copyright", "/usr/share"];
/// Strings by what the name of their parameter contains; the first that fits.
const BY_NAME: [(&str, &[&str]); 9] = [
    ("timezone", &["UTC", "Europe/Paris", "Asia/Tokyo", "America/New_York"]),
    ("path", &FILES),
    ("file", &FILES),
    ("dir", &FILES),
    ("url", &["https://example.com/", "https://example.org/a?b=c"]),
    ("date", &["2025-01-31", "2024-02-29"]),
    ("time", &["09:30", "23:59"]),
    ("formula", &["C6H12O6", "H2O", "C8H10N4O2"]),
    ("text", &["The quick brown fox.", "今天天气很好", "Съешь ещё этих булок", "Mae'r gath yn cysgu."]),
];
const BY_FORMAT: [(&str, &str); 5] = [
    ("date", "2025-01-31"),
    ("date-time", "2025-01-31T09:30:00Z"),
    ("uri", "https://example.com/"),
    ("email", "a@example.com"),
    ("uuid", "3f2504e0-4f89-41d3-9a0c-0305e82c3301"),
];

/// Words of a server, the first first: likely names of whatever it knows.
#[derive(Default)]
pub struct Words {
    all: Vec<String>,
    known: BTreeSet<String>,
}

impl Words {
    /// Takes the words of a text that could be names.
    pub fn learn(&mut self, text: &str) {
        for word in text.split(|c: char| !c.is_alphanumeric() && !"_-.".contains(c)) {
            let is_name = (3..=32).contains(&word.len()) && word.chars().any(char::is_alphabetic);
            if is_name && self.all.len() < MAX_WORDS && self.known.insert(word.to_owned()) {
                self.all.push(word.to_owned());
            }
        }
    }

    fn pick(&self, number: usize) -> &str {
        match self.all.len() {
            0 => FIRST_WORDS[number % FIRST_WORDS.len()],
            // Steps of a prime reach all of them, far from each other.
            count => &self.all[number.wrapping_mul(31) % count],
        }
    }
}

/// The arguments of one round: an object with all that is required; in every other round also what is optional.
pub fn arguments(schema: &Value, words: &Words, round: usize) -> Value {
    Generator { root: schema, words, round }.object(schema, 0)
}

struct Generator<'a> {
    root: &'a Value,
    words: &'a Words,
    round: usize,
}

impl Generator<'_> {
    fn object(&self, schema: &Value, depth: usize) -> Value {
        let required = |name: &str| {
            schema["required"].as_array().is_some_and(|names| names.iter().any(|required| required == name))
        };
        let properties = schema["properties"].as_object().into_iter().flatten();
        let taken = properties.filter(|(name, _)| required(name) || self.round % 2 == 1 && depth == 0);
        let object: Map<String, Value> =
            taken.map(|(name, schema)| (name.clone(), self.value(name, schema, depth + 1))).collect();
        object.into()
    }

    fn value(&self, name: &str, schema: &Value, depth: usize) -> Value {
        if depth > MAX_DEPTH {
            return Value::Null;
        }
        let choice = |values: &[Value]| values.get(self.round % values.len().max(1)).cloned();
        let array = |key: &str| schema[key].as_array().filter(|values| !values.is_empty());
        if let Some(constant) = schema.get("const") {
            return constant.clone();
        }
        if let Some(value) = array("enum").or_else(|| array("examples")).and_then(|values| choice(values)) {
            return value;
        }
        if let Some(default) = schema.get("default").filter(|value| !value.is_null() && self.round < 2) {
            return default.clone();
        }
        if let Some(path) = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')) {
            return self.root.pointer(path).map_or(Value::Null, |schema| self.value(name, schema, depth + 1));
        }
        if let Some(schema) = array("anyOf").or_else(|| array("oneOf")).and_then(|schemas| choice(schemas)) {
            return self.value(name, &schema, depth + 1);
        }
        self.of_type(name, schema, depth)
    }

    fn of_type(&self, name: &str, schema: &Value, depth: usize) -> Value {
        let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
        match kind.unwrap_or("string") {
            "integer" | "number" => self.number(schema).into(),
            "boolean" => self.round.is_multiple_of(2).into(),
            "null" => Value::Null,
            "object" => self.object(schema, depth),
            "array" => {
                let least = schema["minItems"].as_u64().unwrap_or(1).clamp(1, 8);
                (0..least).map(|_| self.value(name, &schema["items"], depth + 1)).collect()
            }
            _ => self.string(name, schema).into(),
        }
    }

    /// A small whole number within the limits of the schema.
    fn number(&self, schema: &Value) -> i64 {
        let limit = |keys: [&str; 2]| keys.iter().find_map(|key| schema[*key].as_i64());
        let least = limit(["minimum", "exclusiveMinimum"]).unwrap_or(0);
        let most = limit(["maximum", "exclusiveMaximum"]).unwrap_or(i64::MAX);
        let step = i64::try_from(self.round).unwrap_or(i64::MAX);
        least.saturating_add(1).saturating_add(step).min(most)
    }

    fn string(&self, name: &str, schema: &Value) -> String {
        let of_format = |format: &str| BY_FORMAT.iter().find(|(known, _)| *known == format);
        if let Some((_, text)) = schema["format"].as_str().and_then(of_format) {
            return (*text).to_owned();
        }
        let lower = name.to_lowercase();
        if let Some((_, texts)) = BY_NAME.iter().find(|(part, _)| lower.contains(part)) {
            return texts[self.round % texts.len()].to_owned();
        }
        // Two strings of one call are different words.
        let offset: usize = name.bytes().map(usize::from).sum();
        self.words.pick(self.round + offset).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_follow_the_schema() {
        for (property, round, expected) in [
            (json!({"const": 7}), 0, json!(7)),
            (json!({"enum": ["a", "b"]}), 3, json!("b")),
            (json!({"type": "string", "default": "d"}), 0, json!("d")),
            (json!({"type": "integer"}), 2, json!(3)),
            (json!({"type": "integer", "maximum": 5}), 90, json!(5)),
            (json!({"type": "number", "minimum": 10}), 0, json!(11)),
            (json!({"type": "boolean"}), 0, json!(true)),
            (json!({"type": ["string", "null"], "format": "date"}), 0, json!("2025-01-31")),
            (json!({"type": "array", "items": {"type": "integer"}, "minItems": 2}), 0, json!([1, 1])),
            (json!({"anyOf": [{"type": "null"}, {"type": "boolean"}]}), 0, Value::Null),
            (json!({"anyOf": [{"type": "null"}, {"type": "boolean"}]}), 1, json!(false)),
            (json!({"$ref": "#/$defs/N"}), 0, json!(1)),
            (
                json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a"]}),
                1,
                json!({"a": 2}),
            ),
            (json!({"type": "string"}), 0, json!("example")),
        ] {
            let schema = json!({
                "properties": {"p": property}, "required": ["p"], "$defs": {"N": {"type": "integer"}}
            });
            let found = arguments(&schema, &Words::default(), round);
            assert_eq!(found["p"], expected, "{property} in round {round}");
        }
    }

    #[test]
    fn parameters_get_what_their_names_promise() {
        for (name, expected) in [
            ("timezone", "UTC"),
            ("file_path", FILES[0]),
            ("baseUrl", "https://example.com/"),
            ("start_date", "2025-01-31"),
        ] {
            let schema = json!({"properties": {name: {"type": "string"}}, "required": [name]});
            assert_eq!(arguments(&schema, &Words::default(), 0), json!({name: expected}));
        }
    }

    #[test]
    fn optional_ones_are_given_in_every_other_round() {
        let schema = json!({"properties": {"a": {"type": "integer"}}});
        assert_eq!(arguments(&schema, &Words::default(), 0), json!({}));
        assert_eq!(arguments(&schema, &Words::default(), 1), json!({"a": 2}));
        assert_eq!(arguments(&Value::Null, &Words::default(), 1), json!({}));
    }

    #[test]
    fn endless_schema_ends() {
        let schema = json!({"properties": {"a": {"$ref": "#"}}, "required": ["a"], "type": "object"});
        assert!(arguments(&schema, &Words::default(), 0)["a"]["a"].is_object());
        let schema = json!({"properties": {"a": {"$ref": "#/properties/a"}}, "required": ["a"]});
        assert_eq!(arguments(&schema, &Words::default(), 0), json!({"a": null}));
    }

    #[test]
    fn words_of_answers_become_arguments() {
        let mut words = Words::default();
        words.learn("[{\"name\": \"date-picker\"}, 12, ab, date-picker]");
        assert_eq!(words.all, ["name", "date-picker"]);
        words.learn(&(0..9_000).map(|number| format!("word{number} ")).collect::<String>());
        assert_eq!(words.all.len(), MAX_WORDS);
        let picked: BTreeSet<&str> = (0..100).map(|number| words.pick(number)).collect();
        assert_eq!(picked.len(), 100);
    }
}
