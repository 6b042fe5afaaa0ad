//! `mcpwarden explain`: why a text has its score.

use std::fs::File;
use std::io::{self, Read};

use anyhow::{Context as _, Result, bail, ensure};
use mcpwarden_policy::detect::learned::{Explained, Subject};
use mcpwarden_policy::detect::{Inspection, score_of};
use mcpwarden_policy::event::Severity;
use serde_json::{Value, json};

use crate::cli::ExplainOptions;
use crate::config;
use crate::output::{clean, print_json_line, print_line};

/// Longest input. Bytes.
const MAX_BYTES: u64 = 16 << 20;
/// Features that are printed for an attack, and against one.
const MOST_FEATURES: usize = 12;

/// Prints what weighed how much.
///
/// # Errors
/// The input or the configuration cannot be read.
pub fn run(options: &ExplainOptions) -> Result<()> {
    let text = read(options)?;
    let detector = config::detector(&config::read(options.config.as_deref())?)?;
    let (subject, json) = subject(&text, options.result);
    let (found, explained) = detector.explain(subject, &json);
    if options.json {
        print_json_line(&json!({
            "subject": name(subject),
            "detections": found.detections,
            "scorer": explained,
        }));
    } else {
        print(subject, &found, explained.as_ref());
    }
    Ok(())
}

fn read(options: &ExplainOptions) -> Result<String> {
    let name = options.file.display();
    let mut bytes = Vec::new();
    let read = |source: &mut dyn Read, bytes: &mut Vec<u8>| source.take(MAX_BYTES + 1).read_to_end(bytes);
    if options.file.as_os_str() == "-" {
        read(&mut io::stdin(), &mut bytes).context("cannot read standard input")?;
    } else {
        let mut file = File::open(&options.file).with_context(|| format!("cannot read {name}"))?;
        read(&mut file, &mut bytes).with_context(|| format!("cannot read {name}"))?;
    }
    ensure!(bytes.len() as u64 <= MAX_BYTES, "{name} is longer than {MAX_BYTES} bytes; explain a part of it");
    let Ok(text) = String::from_utf8(bytes) else { bail!("{name} is not UTF-8; expected text or JSON") };
    Ok(text)
}

/// What a text is, and as the JSON text of that.
fn subject(text: &str, is_result: bool) -> (Subject, String) {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(members)) if is_result || members.contains_key("content") => {
            (Subject::Result, text.to_owned())
        }
        Ok(Value::Object(_)) => (Subject::Definition, text.to_owned()),
        _ if is_result => (Subject::Result, json!({"content": [{"type": "text", "text": text}]}).to_string()),
        _ => (Subject::Definition, json!({"name": "tool", "description": text}).to_string()),
    }
}

fn name(subject: Subject) -> &'static str {
    match subject {
        Subject::Definition => "definition",
        Subject::Result => "result",
    }
}

fn print(subject: Subject, found: &Inspection, explained: Option<&Explained>) {
    print_line(format!("read as a {}", name(subject)));
    if found.detections.is_empty() {
        print_line("nothing found");
    }
    for detection in &found.detections {
        let evidence = detection.matches.first().map_or("", |found| &found.text);
        print_line(format!(
            "{:<8} {:>4} {:<28} {} {:?}",
            detection.severity.name(),
            detection.score,
            clean(&detection.pattern),
            clean(&detection.field),
            clean(evidence)
        ));
    }
    let Some(explained) = explained else {
        print_line("the learned scorer is off, or there is no text that it reads");
        return;
    };
    let Explained { model, score, review, high, field, window, of_window, of_whole, features } = explained;
    print_line(format!(
        "learned scorer, model {model}: {score} ({of_window} of the worst window, {of_whole} of the whole); review from \
         {review}, high ({} points) from {high}",
        score_of(Severity::High)
    ));
    print_line(format!("worst window: {} {:?}", clean(field), clean(window)));
    let (for_it, against): (Vec<_>, Vec<_>) = features.iter().partition(|(_, part)| *part > 0);
    for (feature, part) in for_it.iter().take(MOST_FEATURES) {
        print_line(format!("{part:>+7}  {}", clean(feature)));
    }
    for (feature, part) in against.iter().rev().take(MOST_FEATURES).rev() {
        print_line(format!("{part:>+7}  {}", clean(feature)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_what_they_are() {
        for (text, is_result, expected, part) in [
            ("Adds two numbers.", false, Subject::Definition, "\"description\":\"Adds two numbers.\""),
            ("Adds two numbers.", true, Subject::Result, "\"text\":\"Adds two numbers.\""),
            (
                r#"{"name":"a","description":"b"}"#,
                false,
                Subject::Definition,
                r#"{"name":"a","description":"b"}"#,
            ),
            (r#"{"name":"a","description":"b"}"#, true, Subject::Result, r#"{"name":"a","description":"b"}"#),
            (r#"{"content":[]}"#, false, Subject::Result, r#"{"content":[]}"#),
            ("[1]", false, Subject::Definition, "\"description\":\"[1]\""),
            ("[1]", true, Subject::Result, "\"text\":\"[1]\""),
            ("\"x\"", false, Subject::Definition, "description"),
            ("", false, Subject::Definition, "description"),
            ("{", true, Subject::Result, "\"text\":\"{\""),
        ] {
            let (found, json) = subject(text, is_result);
            assert_eq!(found, expected, "{text}");
            assert!(json.contains(part), "{text}: {json}");
        }
    }
}
