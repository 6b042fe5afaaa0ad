//! `cargo xtask eval`: what the detector finds in a corpus of attacks, and what it says of honest tools.
//!
//! The corpus is not part of this repository; CONTRIBUTING.md says what its files look like. Entries of each
//! attack source are split in two by a hash of their id: rules are written looking at misses of the first half
//! (`--misses`), and the second only ever shows as a number.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, ensure};
use clap::Parser;
use mcpwarden_policy::detect::{DetectConfig, Detector, Inspection, RuleSet, ToolNames};
use mcpwarden_policy::event::Severity;
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

/// Servers of one session: a result is judged by the names of its tools as well.
const SESSION_SERVERS: usize = 5;

/// Measures what the detector finds in a corpus of attacks, and what it says of honest tools.
#[derive(Parser)]
#[command(name = "cargo xtask eval")]
struct Args {
    /// The corpus [default: $MCPWARDEN_CORPUS/.., or beside the checkout]
    #[arg(long, value_name = "DIR")]
    corpus: Option<PathBuf>,
    /// Use the rule files (*.yaml) of this directory in place of the built-in ones
    #[arg(long, value_name = "DIR")]
    rules: Option<PathBuf>,
    /// List the misses of the first half and every false positive
    #[arg(long)]
    misses: bool,
    /// Measure the definitions in this file instead, one a line: `id`, `label` (attack or benign), `class`, `lang`, `tool`
    #[arg(long, value_name = "FILE", conflicts_with = "corpus")]
    definitions: Option<PathBuf>,
}

/// An entry of `malicious/*.jsonl` and of `results/malicious-*.jsonl`.
#[derive(Deserialize)]
struct Attack<'a> {
    id: &'a str,
    source: String,
    norm_class: String,
    surface: String,
    #[serde(borrow)]
    tool: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

/// A file of `benign/`.
#[derive(Deserialize)]
struct Server<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
}

/// A line of `results/benign.jsonl`.
#[derive(Deserialize)]
struct Document {
    id: String,
    kind: String,
    text: String,
}

/// A line of a file of definitions.
#[derive(Deserialize)]
struct Labelled<'a> {
    id: &'a str,
    label: String,
    class: String,
    lang: String,
    #[serde(borrow)]
    tool: &'a RawValue,
}

/// How many of how many.
#[derive(Clone, Copy, Default)]
struct Count {
    all: usize,
    any: usize,
    high: usize,
}

impl Count {
    fn add(&mut self, found: &Inspection) {
        self.all += 1;
        self.any += usize::from(!found.detections.is_empty());
        self.high += usize::from(is_high(found));
    }
}

fn is_high(found: &Inspection) -> bool {
    found.max_severity() >= Some(Severity::High)
}

fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(path) = &args.definitions {
        labelled(&detector(args.rules.as_deref())?, path, args.misses)?;
        return Ok(());
    }
    let corpus = match (&args.corpus, env::var_os("MCPWARDEN_CORPUS")) {
        (Some(path), _) => path.clone(),
        (None, Some(transcripts)) => Path::new(&transcripts).join(".."),
        (None, None) => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus"),
    };
    ensure!(
        corpus.join("benign").is_dir(),
        "no corpus in {}: name one with --corpus; it has the folders benign, malicious and results",
        corpus.display()
    );
    let detector = detector(args.rules.as_deref())?;
    attacks(&detector, &corpus.join("malicious"), "definitions", args.misses)?;
    let sessions = benign_tools(&detector, &corpus.join("benign"), args.misses)?;
    attacks(&detector, &corpus.join("results"), "results", args.misses)?;
    benign_results(&detector, &corpus.join("results/benign.jsonl"), &sessions, args.misses)?;
    Ok(())
}

fn detector(rules: Option<&Path>) -> Result<Detector> {
    let said =
        |errors: Vec<_>| anyhow!(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
    let rules = match rules {
        Some(directory) => {
            let texts = files(directory, "yaml")?
                .iter()
                .map(|path| {
                    let text = fs::read_to_string(path);
                    Ok((
                        path.display().to_string(),
                        text.with_context(|| format!("cannot read {}", path.display()))?,
                    ))
                })
                .collect::<Result<Vec<_>>>()?;
            RuleSet::parse_all(texts.iter().map(|(name, text)| (name.as_str(), text.as_str())))
        }
        None => RuleSet::built_in(),
    };
    Detector::new(rules.map_err(said)?, &DetectConfig::default()).map_err(said)
}

/// Recall per source, class, surface and half.
fn attacks(detector: &Detector, directory: &Path, what: &str, misses: bool) -> Result<()> {
    let mut counts: BTreeMap<(&str, String), Count> = BTreeMap::new();
    for path in files(directory, "jsonl")? {
        if path.file_name().is_some_and(|name| name == "benign.jsonl") {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        for line in text.lines() {
            let attack: Attack<'_> =
                serde_json::from_str(line).with_context(|| format!("in {}", path.display()))?;
            let found = match (attack.tool, attack.result) {
                (Some(tool), _) => detector.tool(tool.get()),
                (None, Some(result)) => detector.result(result.get(), &ToolNames::default()),
                (None, None) => continue,
            };
            let first = Sha256::digest(attack.id)[1] & 1 == 0;
            let half = if first { "first half" } else { "second half" };
            counts.entry(("1 surface", attack.surface.clone())).or_default().add(&found);
            if attack.surface == "text" {
                counts.entry(("2 half of text", half.to_owned())).or_default().add(&found);
                counts.entry(("3 source of text", attack.source)).or_default().add(&found);
                counts.entry(("4 class of text", attack.norm_class)).or_default().add(&found);
            }
            if misses && first && attack.surface == "text" && !is_high(&found) {
                println!("missed {} {}", attack.id, brief(&found));
            }
        }
    }
    println!("\nattacks in {what}");
    println!("{:<42}{:>7}{:>9}{:>9}", "", "number", "% any", "% high");
    for ((group, name), count) in counts {
        line(&format!("{}: {name}", &group[2..]), count);
    }
    Ok(())
}

/// False positives over all tools, and the mean of the shares of the servers. The names of the tools of sessions with
/// some of the servers each come back.
fn benign_tools(detector: &Detector, directory: &Path, misses: bool) -> Result<Vec<ToolNames>> {
    let (mut all, mut shares, mut servers) = (Count::default(), Vec::new(), Vec::new());
    for path in files(directory, "json")? {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let server: Server<'_> =
            serde_json::from_str(&text).with_context(|| format!("in {}", path.display()))?;
        let (mut count, mut names) = (Count::default(), Vec::new());
        for tool in server.tools {
            let found = detector.tool(tool.get());
            count.add(&found);
            let [name] = mcpwarden_policy::protocol::members(tool.get(), ["name"]);
            let name = name.map_or("?", |name| name.get());
            names.push(name.trim_matches('"').to_owned());
            if misses && is_high(&found) {
                println!("false positive {} {name} {}", path.display(), brief(&found));
            }
        }
        all = Count { all: all.all + count.all, any: all.any + count.any, high: all.high + count.high };
        shares.push((percent(count.any, count.all), percent(count.high, count.all)));
        servers.push(names);
    }
    ensure!(!shares.is_empty(), "{} holds no server", directory.display());
    println!("\nfalse positives in honest definitions");
    line("tools", all);
    let mean = |share: fn(&(f64, f64)) -> f64| shares.iter().map(share).sum::<f64>() / shares.len() as f64;
    println!("{:<42}{:>7}{:>9.2}{:>9.2}", "mean over servers", shares.len(), mean(|s| s.0), mean(|s| s.1));
    let names = |servers: &[Vec<String>]| ToolNames::new(servers.iter().flatten().map(String::as_str));
    Ok(servers.chunks(SESSION_SERVERS).map(names).collect())
}

/// False positives per kind of result, in no session and in each of `sessions`.
fn benign_results(detector: &Detector, path: &Path, sessions: &[ToolNames], misses: bool) -> Result<()> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    for json in text.lines() {
        let document: Document =
            serde_json::from_str(json).with_context(|| format!("in {}", path.display()))?;
        let result = serde_json::json!({"content": [{"type": "text", "text": document.text}]}).to_string();
        let found = detector.result(&result, &ToolNames::default());
        if misses && is_high(&found) {
            println!("false positive {} {} {}", document.kind, document.id, brief(&found));
        }
        counts.entry(document.kind.clone()).or_default().add(&found);
        for tools in sessions {
            let with = detector.result(&result, tools);
            if misses && is_high(&with) && !is_high(&found) {
                println!("false positive in a session {} {} {}", document.kind, document.id, brief(&with));
            }
            counts.entry(format!("{}, in a session", document.kind)).or_default().add(&with);
        }
    }
    println!("\nfalse positives in honest results");
    for (kind, count) in counts {
        line(&kind, count);
    }
    Ok(())
}

/// Recall and false positives of one file, per class and language.
fn labelled(detector: &Detector, path: &Path, misses: bool) -> Result<()> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    for line in text.lines() {
        let entry: Labelled<'_> =
            serde_json::from_str(line).with_context(|| format!("in {}", path.display()))?;
        let found = detector.tool(entry.tool.get());
        let Labelled { id, label, class, lang, .. } = entry;
        if misses && is_high(&found) == (label == "benign") {
            println!("wrong {label} {id} {}", brief(&found));
        }
        for group in ["", &format!(", class {class}"), &format!(", language {lang}")] {
            counts.entry(format!("{label}{group}")).or_default().add(&found);
        }
    }
    println!("{:<42}{:>7}{:>9}{:>9}", "", "number", "% any", "% high");
    for (group, count) in counts {
        line(&group, count);
    }
    Ok(())
}

/// What was found, in a line.
fn brief(found: &Inspection) -> String {
    let parts: Vec<String> = found
        .detections
        .iter()
        .map(|detection| {
            let text = detection.matches.first().map_or("", |found| &found.text);
            format!(
                "\n    {} {} {:?} {} {text:?}",
                detection.pattern, detection.score, detection.form, detection.field
            )
        })
        .collect();
    if parts.is_empty() { "(nothing found)".to_owned() } else { parts.concat() }
}

fn line(name: &str, count: Count) {
    let (any, high) = (percent(count.any, count.all), percent(count.high, count.all));
    println!("{name:<42}{:>7}{any:>9.2}{high:>9.2}", count.all);
}

fn percent(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

/// The files of a directory with this extension, in order.
fn files(directory: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    paths.sort();
    Ok(paths)
}
