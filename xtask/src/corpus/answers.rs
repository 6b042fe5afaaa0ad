//! Calls the tools of a server that do not declare that they write, and keeps their answers.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::arguments::{Words, arguments};
use super::session::Session;

/// For all calls of one server.
const LIMIT: Duration = Duration::from_secs(120);
/// A server that misses so many answers gets no further call.
const MAX_MISSES: usize = 3;
/// Characters of an answer that are kept.
const MAX_ANSWER: usize = 20_000;

/// The different answers of a server: the tools in turn, so that the names in the answer of one are arguments of the next.
pub fn collect(package: &str, tools: &[Value], rounds: usize, session: &mut Session) -> Vec<Value> {
    let start = Instant::now();
    let tools: Vec<&Value> = tools.iter().filter(|tool| may_be_called(tool)).collect();
    let mut words = Words::default();
    for tool in &tools {
        words.learn(&tool["inputSchema"].to_string());
    }
    let (mut answers, mut known, mut misses) = (Vec::new(), BTreeSet::new(), 0);
    for round in 0..rounds {
        for tool in &tools {
            if misses >= MAX_MISSES || start.elapsed() > LIMIT {
                return answers;
            }
            let name = tool["name"].as_str().unwrap_or_default();
            let Ok(answer) = session.call(name, &arguments(&tool["inputSchema"], &words, round)) else {
                misses += 1;
                continue;
            };
            let Some(text) = answer.filter(|text| known.insert(text.clone())) else { continue };
            words.learn(&text);
            let text: String = text.chars().take(MAX_ANSWER).collect();
            answers.push(json!({"package": package, "tool": name, "text": text}));
        }
    }
    answers
}

fn may_be_called(tool: &Value) -> bool {
    let annotations = &tool["annotations"];
    annotations["readOnlyHint"] != false && annotations["destructiveHint"] != true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_that_declares_writing_is_not_called() {
        for (tool, expected) in [
            (json!({"name": "t"}), true),
            (json!({"annotations": {"readOnlyHint": true}}), true),
            (json!({"annotations": {"title": "T"}}), true),
            (json!({"annotations": {"readOnlyHint": false}}), false),
            (json!({"annotations": {"destructiveHint": true}}), false),
            (json!({"annotations": {"destructiveHint": false}}), true),
        ] {
            assert_eq!(may_be_called(&tool), expected, "{tool}");
        }
    }
}
