//! The forms of files: JSON, JSON with comments and trailing commas, TOML, YAML, and the YAML in front of a Markdown text, all read as
//! JSON.

use std::borrow::Cow;

use anyhow::{Result, anyhow, bail};
use serde_json::Value;
use serde_json::value::RawValue;

/// A form of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Json,
    Toml,
    Yaml,
}

/// A file as JSON text; `ending` is that of its name, without the dot. What is JSON already stays as it is, so that members that stand
/// there twice are both seen.
///
/// # Errors
/// It is none of these forms: the mistake, as the reader of the form tells it that the ending names, or else the text.
pub fn json_of<'a>(text: &'a str, ending: Option<&str>) -> Result<Cow<'a, str>> {
    if text.trim().is_empty() {
        bail!("the file is empty");
    }
    let is_markdown = |ending: &str| MARKDOWN.iter().any(|known| ending.eq_ignore_ascii_case(known));
    if ending.is_some_and(is_markdown) && !text.trim_start().starts_with(['{', '[']) {
        let front = front_matter(text)
            .ok_or_else(|| anyhow!("the text has no YAML between two lines `---` in front of it"))?;
        return json_of(front, Some("yaml"));
    }
    let form = form_of(text, ending);
    let strict = match serde_json::from_str::<&RawValue>(text) {
        Ok(_) => return Ok(Cow::Borrowed(text)),
        Err(error) => error,
    };
    let plain = without_comments(text);
    let lax = match serde_json::from_str::<&RawValue>(&plain) {
        Ok(_) => return Ok(Cow::Owned(plain)),
        Err(error) => error,
    };
    let toml = match toml::from_str::<Value>(text) {
        // A file of nothing but comments is TOML as well.
        Ok(Value::Object(members)) if members.is_empty() => None,
        Ok(value) => return Ok(Cow::Owned(value.to_string())),
        Err(error) => Some(error),
    };
    let is_braced = text.trim_start().starts_with(['{', '[']);
    let yaml = if is_braced && form != Some(Form::Yaml) { None } else { Some(yaml(text)) };
    let yaml = match yaml {
        Some(Ok(value @ (Value::Object(_) | Value::Array(_)))) => return Ok(Cow::Owned(value.to_string())),
        Some(Err(error)) => Some(error),
        _ => None,
    };
    Err(match (form, toml, yaml) {
        (Some(Form::Toml), Some(error), _) => {
            // Its own place shows the line, which may have a secret in it.
            let span = error.span().unwrap_or_default();
            // A key is no secret.
            let key = text.get(span.clone()).filter(|_| error.message() == "duplicate key");
            let key = key.map(|key| format!(" `{key}`")).unwrap_or_default();
            anyhow!("this is no TOML: {}{key}{}", error.message(), place(text, span.start))
        }
        (Some(Form::Yaml), _, Some(error)) => {
            // What else it says is for programmers.
            let (said, at) = (error.without_snippet().to_string(), error.location());
            let at =
                at.map(|at| format!(" at line {} column {}", at.line(), at.column())).unwrap_or_default();
            match said.split_once("; use ") {
                Some((what, _)) => anyhow!("this is no YAML: {what}{at}"),
                None => anyhow!("this is no YAML: {said}"),
            }
        }
        // The places of the second are those of the first, too.
        (Some(Form::Json), ..) => anyhow!("this is no JSON: {}", if plain == text { strict } else { lax }),
        (Some(_), None, _) | (Some(_), _, None) => anyhow!("the file has nothing but comments, or a text"),
        (None, ..) => anyhow!("this is no JSON, TOML or YAML"),
    })
}

/// Endings of the names of Markdown texts: agents and rules of clients are such.
const MARKDOWN: [&str; 4] = ["md", "mdc", "mdx", "markdown"];

/// The lines between the first, `---`, and the next of that kind. They keep their numbers, since the first opens a YAML document as well.
fn front_matter(text: &str) -> Option<&str> {
    let is_mark = |line: &str| line.trim_end() == "---";
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().filter(|line| is_mark(line))?;
    let mut end = first.len();
    for line in lines {
        if is_mark(line) {
            return Some(&text[..end]);
        }
        end += line.len();
    }
    None
}

/// The form that a file's ending names, or else its first lines.
fn form_of(text: &str, ending: Option<&str>) -> Option<Form> {
    let ending = ending.map(str::to_ascii_lowercase).unwrap_or_default();
    match ending.as_str() {
        "json" | "jsonc" | "json5" | "code-workspace" => return Some(Form::Json),
        "toml" => return Some(Form::Toml),
        "yaml" | "yml" => return Some(Form::Yaml),
        _ => {}
    }
    let is_key = |text: &str| {
        let is_letter = |letter: char| letter.is_alphanumeric() || "_-.\"' ".contains(letter);
        !text.trim().is_empty() && text.chars().all(is_letter)
    };
    let lines = text.lines().map(str::trim);
    let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let first = lines.next()?;
    let table = first.strip_prefix('[').and_then(|line| line.rsplit_once(']'));
    let before = |mark: &str| first.split_once(mark).is_some_and(|(key, _)| is_key(key));
    Some(match first {
        _ if table.is_some_and(|(name, _)| is_key(name.trim_matches(['[', ']'])))
            && lines.next().is_some() =>
        {
            Form::Toml
        }
        _ if first.starts_with(['{', '[', '"', '/']) => Form::Json,
        _ if first.starts_with("- ") || first == "---" || first.starts_with('%') => Form::Yaml,
        _ if before("=") => Form::Toml,
        _ if before(":") => Form::Yaml,
        _ => return None,
    })
}

/// Where a byte of a text stands.
fn place(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!(" at line {line} column {column}")
}

/// YAML, in which `y` and `on` are texts. Several documents are a list of those that are not empty.
fn yaml(text: &str) -> Result<Value, serde_saphyr::Error> {
    let options = serde_saphyr::options! { strict_booleans: true };
    let mut documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options)?;
    documents.retain(|document| !document.is_null());
    Ok(if documents.len() > 1 { documents.into() } else { documents.pop().unwrap_or_default() })
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
            ("a: 1\n---\n# nothing\n---\nb: on\n...\n", r#"[{"a":1},{"b":"on"}]"#),
        ] {
            let json = json_of(text, None).unwrap();
            if json == text {
                assert_eq!(text, expected);
            } else {
                let values = [&*json, expected].map(|json| serde_json::from_str::<Value>(json).unwrap());
                assert_eq!(values[0], values[1], "{text}");
            }
        }
        let yaml = json_of("{a: b}", Some("yml")).unwrap();
        assert_eq!(yaml, r#"{"a":"b"}"#);
        let agent = "---\r\nname: a\r\n---\r\n# Title\n---\n{ [";
        assert_eq!(json_of(agent, Some("md")).unwrap(), r#"{"name":"a"}"#);
    }

    /// A broken file, the ending of its name, and what is said of it.
    #[test]
    fn mistake_is_told_by_the_reader_that_fits() {
        for (text, ending, expected) in [
            ("", "", "the file is empty"),
            ("\n \n", "toml", "the file is empty"),
            ("# nothing\n", "toml", "nothing but comments"),
            ("{", "", "no JSON: EOF while parsing an object at line 1 column 1"),
            ("[1,,]", "", "no JSON: "),
            ("{\"a\": 1 /*", "", "no JSON: "),
            ("\"x", "", "no JSON: "),
            ("/", "", "no JSON: "),
            ("{\"a\":1,,}", "", "no JSON: "),
            ("{\n \"a\": words\n}", "json", "no JSON: expected value at line 2 column 7"),
            ("{\n “a”: 1}", "", "no JSON: key must be a string at line 2 column 2"),
            ("some words", "", "no JSON, TOML or YAML"),
            ("a: [", "", "no YAML: "),
            ("a: 1\n b: 2\n", "", "line 2"),
            ("a:\n\tb: 2\n", "yml", "line 2"),
            ("a: 1\n---\nb: [\n", "yaml", "no YAML: "),
            ("# Title\n---\na: 1\n---\n", "md", "no YAML between two lines `---`"),
            ("---\na: 1\n", "mdc", "no YAML between two lines `---`"),
            ("---\na: 1\n b: 2\n---\n", "md", "line 3"),
            ("[m.a]\nb = 1\n[m.a]\nb = 2\n", "", "no TOML: duplicate key `a` at line 3 column 4"),
            ("a = 1\nb = \"s3cret\n", "", "at line 2 column"),
            ("[a\nb = 1\n", "toml", "no TOML: "),
            ("a = s3cret\n", "TOML", "no TOML: "),
        ] {
            let said = json_of(text, Some(ending)).unwrap_err().to_string();
            assert!(
                said.contains(expected) && !said.contains("s3cret") && !said.contains('\n'),
                "{text}: {said}"
            );
        }
    }
}
