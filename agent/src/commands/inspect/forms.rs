//! The forms of files: JSON, JSON with comments and trailing commas, TOML and YAML, all read as JSON.

use std::borrow::Cow;

use anyhow::{Context as _, Result};
use serde_json::Value;
use serde_json::value::RawValue;

/// A file as JSON text. What is JSON already stays as it is, so that members that stand there twice are both seen.
///
/// # Errors
/// It is none of these forms.
pub fn json_of(text: &str) -> Result<Cow<'_, str>> {
    let strict = match serde_json::from_str::<&RawValue>(text) {
        Ok(_) => return Ok(Cow::Borrowed(text)),
        Err(error) => error,
    };
    let plain = without_comments(text);
    let lax = match serde_json::from_str::<&RawValue>(&plain) {
        Ok(_) => return Ok(Cow::Owned(plain)),
        Err(error) => error,
    };
    // A file of nothing but blanks is TOML as well.
    if let Ok(value) = toml::from_str::<Value>(text)
        && value.as_object().is_some_and(|members| !members.is_empty())
    {
        return Ok(Cow::Owned(value.to_string()));
    }
    let is_braced = text.trim_start().starts_with(['{', '[']);
    if !is_braced && let Ok(value @ (Value::Object(_) | Value::Array(_))) = yaml(text) {
        return Ok(Cow::Owned(value.to_string()));
    }
    // The places of the second are those of the first, too.
    Err(if plain == text { strict } else { lax }).context("this is no JSON, TOML or YAML")
}

/// YAML, in which `y` and `on` are texts.
fn yaml(text: &str) -> Result<Value, serde_saphyr::Error> {
    serde_saphyr::from_str_with_options(text, serde_saphyr::options! { strict_booleans: true })
}

/// JSON without what editors allow besides: comments and commas in front of a closing bracket become blanks, so that
/// all else keeps its place.
fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut comma = None;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '"' => string_length(rest),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest[2..].find("*/").map_or(rest.len(), |end| end + 4),
            _ => c.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        rest = after;
        if length > 1 && c == '/' {
            plain.extend(token.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            continue;
        }
        match c {
            ',' => comma = Some(plain.len()),
            '}' | ']' => {
                if let Some(at) = comma.take() {
                    plain.replace_range(at..=at, " ");
                }
            }
            _ if c.is_whitespace() => {}
            _ => comma = None,
        }
        plain.push_str(token);
    }
    plain
}

/// How long the string is that `text` begins with, quotes included. Bytes.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_forms_are_read_as_json() {
        for (text, expected) in [
            (r#"{"a":1,"a":2}"#, r#"{"a":1,"a":2}"#),
            ("{\"a\": [1, 2,],} // end", r#"{"a":[1,2]}"#),
            (
                "/* one\n two */ {\"a\": \"// no /* comment\\\" ,}\", // x\n}",
                r#"{"a":"// no /* comment\" ,}"}"#,
            ),
            ("[\"größe\" , /* ü */ ]", r#"["größe"]"#),
            ("[a]\nb = \"c\"\nd = [1, 2.5]", r#"{"a":{"b":"c","d":[1,2.5]}}"#),
            ("a:\n  b: c\n  d: [1, true]\n", r#"{"a":{"b":"c","d":[1,true]}}"#),
            ("- a: 1\n", r#"[{"a":1}]"#),
        ] {
            let json = json_of(text).unwrap();
            if json == text {
                assert_eq!(text, expected);
            } else {
                let values = [&*json, expected].map(|json| serde_json::from_str::<Value>(json).unwrap());
                assert_eq!(values[0], values[1], "{text}");
            }
        }
        for text in ["", "{", "[1,,]", "{\"a\": 1 /*", "\"x", "some words", "a: [", "/", "{\"a\":1,,}"] {
            assert!(json_of(text).is_err(), "{text}");
        }
    }
}
