//! Values and texts of others as words on one line.

use std::fmt::Write as _;

use mcpwarden_policy::Direction;
use serde_json::Value;

use crate::escape::is_deceptive;

/// Longest text from outside in one field. Characters.
const FIELD_CHARS: usize = 160;

/// The word that stands for a value in JSON, such as a severity's.
pub fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Where bytes of a direction go.
pub fn way(direction: Direction) -> &'static str {
    match direction {
        Direction::ClientToServer => "to the server",
        Direction::ServerToClient => "to the client",
    }
}

/// Arguments on one line: redacted leaves as their type and length, everything else as JSON.
pub fn value(input: &Value) -> String {
    let Value::Object(fields) = input else { return clean(&input.to_string()) };
    let mut text = String::from("{");
    for (index, (name, field)) in fields.iter().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        let shown = match (field.get("type"), field.get("hash")) {
            (Some(kind), Some(_)) => match field.get("length") {
                Some(length) => format!("{}[{length}]", kind.as_str().unwrap_or("?")),
                None => kind.as_str().unwrap_or("?").to_owned(),
            },
            _ => field.to_string(),
        };
        let _ = write!(text, "{separator}{name}: {shown}");
    }
    text.push('}');
    clean(&text)
}

/// A user's name, or the number where there is none.
pub fn who(uid: u32, user: Option<&String>) -> String {
    user.map_or_else(|| format!("user {uid}"), |user| clean(user))
}

/// Bounded, on one line, and without anything that a terminal would obey or a reader would not see.
pub fn clean(text: &str) -> String {
    match text.char_indices().nth(FIELD_CHARS) {
        Some((end, _)) => escaped(text.get(..end).unwrap_or_default()) + "…",
        None => escaped(text),
    }
}

/// Several lines as one: an error is printed on one line, whatever it quotes. SQL is written over several.
pub fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    escaped(&lines.join(" "))
}

/// On one line, and without anything that a terminal would obey or a reader would not see.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\r' | '\t' => out.push(' '),
            c if is_deceptive(c) => {
                let _ = write!(out, "\\u{{{:x}}}", c as u32);
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_in_fields() {
        let cases = [
            ("plain", "plain".to_owned()),
            ("two\nlines", "two lines".to_owned()),
            ("\x1b[31mred", "\\u{1b}[31mred".to_owned()),
            ("a\u{202e}b", "a\\u{202e}b".to_owned()),
            ("a\u{61c}b", "a\\u{61c}b".to_owned()),
            ("a\u{200b}b", "a\\u{200b}b".to_owned()),
            ("\u{e0041}", "\\u{e0041}".to_owned()),
            ("\u{9b}2J", "\\u{9b}2J".to_owned()),
        ];
        for (text, expected) in cases {
            assert_eq!(clean(text), expected);
        }
        assert_eq!(clean(&"x".repeat(500)).chars().count(), FIELD_CHARS + 1);
    }

    #[test]
    fn redacted_arguments_show_type_and_length() {
        let input = serde_json::json!({"path": {"type": "string", "length": 9, "hash": "00"}, "n": 3});
        assert_eq!(value(&input), "{path: string[9], n: 3}");
    }
}
