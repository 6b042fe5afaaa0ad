//! Published servers: the definitions that they list, and their answers to calls. All of them count as honest.
//!
//! `*.json` has one server each, `answers/*.jsonl` one answer a line. A hash of the package's name puts all of a server into one half.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_policy::detect::ToolNames;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::corpus::{Kind, Part, Sample, as_result, name, orders};
use crate::detectors::{Detectors, Found};
use crate::files::{files, read};

/// What the halves are drawn by, besides the name of the package.
const SALT: &str = "servers";

#[derive(Deserialize)]
struct Server<'a> {
    package: String,
    language: Option<String>,
    recorded: Option<String>,
    instructions: Option<String>,
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    prompts: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Answer {
    package: String,
    tool: String,
    text: String,
}

/// All definitions and answers in a directory.
///
/// # Errors
/// A file cannot be read, is not of that form, or there is none.
pub fn of_directory(detector: &Detectors, directory: &Path) -> Result<Vec<Sample>> {
    let mut samples = Vec::new();
    for path in files(directory, "json")? {
        samples.extend(server(detector, &read(&path)?).with_context(|| format!("in {}", path.display()))?);
    }
    ensure!(
        !samples.is_empty(),
        "no server in {}: collect some with `cargo xtask corpus servers`",
        directory.display()
    );
    let answers = directory.join("answers");
    for path in if answers.is_dir() { files(&answers, "jsonl")? } else { Vec::new() } {
        for line in read(&path)?.lines() {
            samples.push(answer(detector, line).with_context(|| format!("in {}", path.display()))?);
        }
    }
    Ok(samples)
}

fn server(detector: &Detectors, text: &str) -> Result<Vec<Sample>> {
    let server: Server<'_> = serde_json::from_str(text)?;
    let source = server.recorded.as_deref().unwrap_or("listed here");
    let language = server.language.unwrap_or_default();
    let sample = |id: String, kind: Kind, what: &str, found: Found| Sample {
        strata: vec![format!("language {language}")],
        ..honest(&server.package, id, format!("{what}{source}"), kind, found)
    };
    let tools = server.tools.iter().map(|tool| Sample {
        orders: Some(orders(tool)),
        ..sample(name(tool), Kind::Definition, "", detector.tool(tool.get()))
    });
    let prompts = server
        .prompts
        .iter()
        .map(|prompt| sample(name(prompt), Kind::Text, "prompts, ", detector.tool(prompt.get())));
    let instructions = server.instructions.iter().filter(|text| !text.is_empty()).map(|text| {
        let found = detector.text("/instructions", text);
        sample("instructions".to_owned(), Kind::Text, "instructions, ", found)
    });
    Ok(tools.chain(prompts).chain(instructions).collect())
}

fn answer(detector: &Detectors, line: &str) -> Result<Sample> {
    let answer: Answer = serde_json::from_str(line)?;
    let found = detector.result(&as_result(&answer.text), &ToolNames::default());
    Ok(honest(&answer.package, answer.tool, "answers".to_owned(), Kind::Result, found))
}

fn honest(package: &str, id: String, source: String, kind: Kind, found: Found) -> Sample {
    let part = Part::of(SALT, package);
    Sample {
        id,
        source,
        strata: Vec::new(),
        server: package.to_owned(),
        is_attack: false,
        is_in_text: true,
        kind,
        part,
        orders: None,
        may_be_read: part != Part::Unseen,
        found,
    }
}
