//! What is different between two definitions: field by field, bounded.

use std::collections::{BTreeSet, HashMap};

use mcpwarden_terms::escape_pointer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use super::json_hash;
use crate::message::value;

/// Most fields in one diff.
const MAX_CHANGES: usize = 64;
/// Most text in one diff. Bytes.
const MAX_BYTES: usize = 64 * 1024;
/// Longest text of which all is shown, not only what changed. Bytes.
const WHOLE_BYTES: usize = 512;
/// Longest text shown. Bytes.
const TEXT_BYTES: usize = 4 * 1024;
/// Text shown on either side of what changed within a sentence. Bytes.
const CONTEXT_BYTES: usize = 60;
/// Longest pointer. Bytes.
const POINTER_BYTES: usize = 512;
/// What stands for text left out.
const LEFT_OUT: &str = "…";

/// One field that is different.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FieldChange {
    /// Which, as a JSON Pointer (RFC 6901, bounded) into the definition; empty where it is the whole of it.
    pub field: String,
    /// What it was: a string's text, or JSON. Of a text longer than 512 bytes only the sentences that went, `…`
    /// between those that were apart (bounded). Absent where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
    /// What it is, likewise. Absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
}

/// What is different between two definitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Diff {
    /// The fields, by name (bounded).
    pub changes: Vec<FieldChange>,
    /// Whether there is more than is shown, or what it was is not known any more.
    pub truncated: bool,
}

impl Diff {
    /// The diff of two JSON texts, `_meta` left out. Empty only where they are one definition.
    pub fn of(previous: &str, new: &str) -> Self {
        let mut diff = Builder::default();
        if let (Some(mut left), Some(mut right)) = (value(previous), value(new)) {
            for side in [&mut left, &mut right] {
                if let Value::Object(members) = side {
                    members.remove("_meta");
                }
            }
            diff.values(&mut String::new(), &left, &right);
        }
        // Too deep to be read, or different in what only the text shows: a duplicate key, a lone surrogate.
        if diff.diff.changes.is_empty() && json_hash(previous) != json_hash(new) {
            diff.change("", Some(previous), Some(new));
        }
        diff.diff
    }

    /// The diff where the previous definition was not kept.
    pub fn unknown() -> Self {
        Self { changes: Vec::new(), truncated: true }
    }
}

#[derive(Default)]
struct Builder {
    diff: Diff,
    bytes: usize,
}

impl Builder {
    /// Both values are no deeper than the parser lets them be, and so is this.
    fn values(&mut self, at: &mut String, previous: &Value, new: &Value) {
        if previous == new || self.diff.changes.len() > MAX_CHANGES {
            return;
        }
        match (previous, new) {
            (Value::Object(left), Value::Object(right)) => self.objects(at, left, right),
            (Value::Array(left), Value::Array(right)) => {
                for index in 0..left.len().max(right.len()) {
                    self.member(at, &index.to_string(), left.get(index), right.get(index));
                }
            }
            (Value::Number(left), Value::Number(right)) if is_same(left, right) => {}
            _ => self.leaf(at, Some(previous), Some(new)),
        }
    }

    fn objects(&mut self, at: &mut String, left: &Map<String, Value>, right: &Map<String, Value>) {
        let keys: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
        for key in keys {
            self.member(at, &escape_pointer(key), left.get(key), right.get(key));
        }
    }

    fn member(&mut self, at: &mut String, step: &str, previous: Option<&Value>, new: Option<&Value>) {
        if previous == new {
            return;
        }
        let length = at.len();
        at.push('/');
        at.push_str(step);
        match (previous, new) {
            (Some(previous), Some(new)) => self.values(at, previous, new),
            _ => self.leaf(at, previous, new),
        }
        at.truncate(length);
    }

    fn leaf(&mut self, at: &str, previous: Option<&Value>, new: Option<&Value>) {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let (previous_text, new_text) = (previous.map(text), new.map(text));
        self.change(at, previous_text.as_deref(), new_text.as_deref());
    }

    fn change(&mut self, at: &str, previous: Option<&str>, new: Option<&str>) {
        if self.diff.changes.len() >= MAX_CHANGES || self.bytes >= MAX_BYTES {
            self.diff.truncated = true;
            return;
        }
        let long = |text: Option<&str>| text.is_some_and(|text| text.len() > WHOLE_BYTES);
        let (previous, new) = match (previous, new) {
            (Some(left), Some(right)) if long(previous) || long(new) => {
                let (left, right) = differing(left, right);
                (Some(left), Some(right))
            }
            _ => (previous.map(str::to_owned), new.map(str::to_owned)),
        };
        let mut clipped = |text: String, limit: usize| {
            if text.len() <= limit {
                return text;
            }
            self.diff.truncated = true;
            format!("{}{LEFT_OUT}", &text[..text.floor_char_boundary(limit)])
        };
        let change = FieldChange {
            field: clipped(at.to_owned(), POINTER_BYTES),
            previous: previous.map(|text| clipped(text, TEXT_BYTES)),
            new: new.map(|text| clipped(text, TEXT_BYTES)),
        };
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        self.bytes += change.field.len() + length(&change.previous) + length(&change.new);
        self.diff.changes.push(change);
    }
}

/// Whether two numbers are one in another spelling.
fn is_same(left: &Number, right: &Number) -> bool {
    let integers = (left.as_i128(), right.as_i128());
    if let (Some(left), Some(right)) = integers { left == right } else { left.as_f64() == right.as_f64() }
}

/// Of two long texts what is in the one and not in the other, sentence by sentence: in linear time, and whatever
/// was put in is shown however much was changed before it.
fn differing(previous: &str, new: &str) -> (String, String) {
    let went = missing(previous, new);
    let came = missing(new, previous);
    if went.is_empty() && came.is_empty() {
        // The same sentences in another order.
        return trimmed(previous, new);
    }
    trimmed(&went, &came)
}

/// The sentences of `text` that `other` does not have as often.
fn missing(text: &str, other: &str) -> String {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for sentence in sentences(other) {
        *counts.entry(sentence).or_default() += 1;
    }
    let mut out = String::new();
    let mut apart = false;
    for sentence in sentences(text) {
        match counts.get_mut(sentence) {
            Some(count) if *count > 0 => {
                *count -= 1;
                apart = !out.is_empty();
            }
            _ => {
                if std::mem::take(&mut apart) {
                    out.push_str(LEFT_OUT);
                }
                out.push_str(sentence);
            }
        }
    }
    out
}

fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(['\n', '.', '!', '?', ';', '。'])
}

/// Both without what they have in common at the beginning and at the end, where that is long.
fn trimmed(left: &str, right: &str) -> (String, String) {
    if left.len().max(right.len()) <= WHOLE_BYTES {
        return (left.to_owned(), right.to_owned());
    }
    let common = |pairs: &mut dyn Iterator<Item = (char, char)>| -> usize {
        pairs.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
    };
    let start = common(&mut left.chars().zip(right.chars()));
    let (left_rest, right_rest) = (&left[start..], &right[start..]);
    let end = common(&mut left_rest.chars().rev().zip(right_rest.chars().rev()));
    let part = |text: &str| {
        let from = if start > CONTEXT_BYTES { text.floor_char_boundary(start - CONTEXT_BYTES) } else { 0 };
        let to = text.ceil_char_boundary((text.len() - end + CONTEXT_BYTES).min(text.len()));
        let mark = |left_out: bool| if left_out { LEFT_OUT } else { "" };
        format!("{}{}{}", mark(from > 0), &text[from..to], mark(to < text.len()))
    };
    (part(left), part(right))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn changes(previous: &Value, new: &Value) -> Vec<(String, Option<String>, Option<String>)> {
        let diff = Diff::of(&previous.to_string(), &new.to_string());
        assert!(!diff.truncated);
        diff.changes.into_iter().map(|change| (change.field, change.previous, change.new)).collect()
    }

    /// Previous, new, and the fields that differ.
    #[test]
    fn changed_fields_are_named_by_json_pointers() {
        let cases = [
            (json!({"a": 1, "b": [1e3]}), json!({"a": 1.0, "b": [1000]}), vec![]),
            (
                json!({"a": i64::MAX}),
                json!({"a": i64::MAX - 1}),
                vec![("/a", Some("9223372036854775807"), Some("9223372036854775806"))],
            ),
            (json!({"a": "x"}), json!({"a": "y"}), vec![("/a", Some("x"), Some("y"))]),
            (json!({"a": "x"}), json!({}), vec![("/a", Some("x"), None)]),
            (json!({}), json!({"a": {"b": [1]}}), vec![("/a", None, Some(r#"{"b":[1]}"#))]),
            (
                json!({"a": {"b": [1, 2]}}),
                json!({"a": {"b": [1, 3, 4]}}),
                vec![("/a/b/1", Some("2"), Some("3")), ("/a/b/2", None, Some("4"))],
            ),
            (
                json!({"a/b": {"~": null}}),
                json!({"a/b": {"~": false}}),
                vec![("/a~1b/~0", Some("null"), Some("false"))],
            ),
            (json!({"a": "1"}), json!({"a": 1}), vec![("/a", Some("1"), Some("1"))]),
            (json!({"_meta": 1}), json!({"_meta": 2}), vec![]),
            (
                json!({"a": {"_meta": 1}}),
                json!({"a": {"_meta": 2}}),
                vec![("/a/_meta", Some("1"), Some("2"))],
            ),
            (json!("be good"), json!("be bad"), vec![("", Some("be good"), Some("be bad"))]),
        ];
        for (previous, new, expected) in cases {
            let found = changes(&previous, &new);
            let found: Vec<_> = found
                .iter()
                .map(|(field, old, new)| (field.as_str(), old.as_deref(), new.as_deref()))
                .collect();
            assert_eq!(found, expected, "{previous} {new}");
        }
    }

    /// What was put into a long text is shown, wherever it stands.
    #[test]
    fn diff_of_long_text_shows_only_the_change() {
        let sentences: Vec<String> =
            (0..400).map(|number| format!("Sentence {number} is harmless.")).collect();
        let text = |edit: &dyn Fn(&mut Vec<String>)| {
            let mut sentences = sentences.clone();
            edit(&mut sentences);
            json!({"description": sentences.join(" ")})
        };
        let base = text(&|_| {});
        type Edit = fn(&mut Vec<String>);
        let cases: [(&str, Edit, &str, &str); 4] = [
            ("put in", |s| s.insert(300, "Read the key.".into()), "", " Read the key."),
            ("taken out", |s| drop(s.remove(7)), " Sentence 7 is harmless.", ""),
            (
                "two places",
                |s| {
                    s[3] = "One.".into();
                    s[9] = "Two.".into();
                },
                " Sentence 3 is harmless.… Sentence 9 is harmless.",
                " One.… Two.",
            ),
            ("nothing but blanks", |s| s[3].push(' '), "", " "),
        ];
        for (case, edit, previous, new) in cases {
            let found = changes(&base, &text(&edit));
            if case == "nothing but blanks" {
                assert_eq!(found.len(), 1, "{case}");
                continue;
            }
            let expected = ("/description".to_owned(), Some(previous.to_owned()), Some(new.to_owned()));
            assert_eq!(found, [expected], "{case}");
        }
        let swapped = changes(&base, &text(&|sentences| sentences.swap(3, 4)));
        assert!(swapped[0].1.as_ref().is_some_and(|text| text.contains("3 is harmless") && text.len() < 300));
        // One long word.
        let word = |insert: &str| json!({"a": format!("{}{insert}{}", "ä".repeat(900), "ö".repeat(900))});
        let found = changes(&word(""), &word("EVIL"));
        assert!(
            found[0].2.as_ref().is_some_and(|text| text.contains("EVIL") && text.len() < 200),
            "{found:?}"
        );
    }

    #[test]
    fn oversized_diff_is_bounded_and_marked_truncated() {
        let large = |text: &str| {
            let members = (0..200).map(|number| (format!("k{number}"), json!(format!("{text}{number}"))));
            Value::Object(members.collect())
        };
        let long = |letter: &str| json!({"a": letter.repeat(100_000), "k".repeat(10_000): letter});
        for (previous, new) in [(large("a"), large("b")), (long("x"), long("y")), (json!({}), long("z"))] {
            let diff = Diff::of(&previous.to_string(), &new.to_string());
            assert!(diff.truncated && !diff.changes.is_empty() && diff.changes.len() <= MAX_CHANGES);
            let bytes = serde_json::to_string(&diff).unwrap().len();
            assert!(bytes < MAX_BYTES + 10 * 1024, "{bytes}");
        }
    }

    /// What no value holds differs as text.
    #[test]
    fn textual_difference_is_shown_as_text() {
        let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(200), "]".repeat(200));
        for (previous, new) in [
            (r#"{"a":1,"a":2}"#.to_owned(), r#"{"a":3,"a":2}"#.to_owned()),
            (r#"{"a":"\ud800"}"#.to_owned(), r#"{"a":"\ud801"}"#.to_owned()),
            (deep("1"), deep("2")),
        ] {
            let diff = Diff::of(&previous, &new);
            assert_eq!((diff.changes.len(), diff.changes[0].field.as_str()), (1, ""), "{previous}");
            assert_eq!(Diff::of(&previous, &previous), Diff::default());
        }
    }

    proptest! {
        #[test]
        fn diff_of_equal_definitions_is_empty(text in ".{0,40}", number in any::<i64>()) {
            let tool = json!({"name": text, "inputSchema": {"n": number, "l": [text, null]}, "_meta": number});
            prop_assert_eq!(Diff::of(&tool.to_string(), &tool.to_string()), Diff::default());
        }

        #[test]
        fn changed_definition_always_has_a_diff(left in ".{0,600}", right in ".{0,600}") {
            let json = |text: &str| json!({"description": text}).to_string();
            prop_assert_eq!(left == right, Diff::of(&json(&left), &json(&right)).changes.is_empty());
        }
    }
}
