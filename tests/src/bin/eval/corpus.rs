//! The corpus: what its files look like, and each entry with what the detector finds in it.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_policy::detect::{OrderedNames, ToolNames};
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::detectors::{Detectors, Found, TrainedOn};
use crate::files::{files, read};

/// How well the authors of the rules know an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Never read: these figures alone are evidence.
    Unseen,
    /// Of the same sources, and may be read.
    Seen,
    /// Of a file that was named.
    Given,
    /// Of the sources that rules were fitted to.
    InSample,
}

impl Part {
    /// All of them, the best evidence first.
    pub const ALL: [Self; 4] = [Self::Unseen, Self::Seen, Self::Given, Self::InSample];

    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unseen => "unseen",
            Self::Seen => "seen",
            Self::Given => "given",
            Self::InSample => "in-sample",
        }
    }

    /// The half of a public source that a group of entries (a server, a rule, a payload) is in.
    pub fn of(source: &str, group: &str) -> Self {
        let digest = Sha256::digest(format!("{source}\n{group}"));
        if digest[0] & 1 == 0 { Self::Unseen } else { Self::Seen }
    }
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A definition of a tool.
    Definition,
    /// A result of a call.
    Result,
    /// Any text that a rule set knows, read as a description.
    Text,
}

/// One entry, inspected.
#[derive(Clone, Debug)]
pub struct Sample {
    pub id: String,
    pub source: String,
    /// What else it belongs to: its class, author or language.
    pub strata: Vec<String>,
    /// Whose it is: the server of an honest definition.
    pub server: String,
    pub is_attack: bool,
    /// Whether the attack stands in its text.
    pub is_in_text: bool,
    pub kind: Kind,
    pub part: Part,
    /// The name of the tool, and the names that its orders give.
    pub orders: Option<(String, OrderedNames)>,
    /// Whether its miss may be printed.
    pub may_be_read: bool,
    pub found: Found,
}

impl Sample {
    /// The score of the worst detection, with the scorer; 0 where there is none.
    pub fn score(&self) -> u32 {
        self.found.shipped.detections.iter().map(|detection| detection.score).max().unwrap_or(0)
    }
}

/// An entry of `malicious/*.jsonl` and of `results/malicious-*.jsonl`.
#[derive(Deserialize)]
struct Attack<'a> {
    id: String,
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

/// A line of `public/*.jsonl`.
#[derive(Deserialize)]
struct Public<'a> {
    id: String,
    source: String,
    label: String,
    kind: String,
    category: Option<String>,
    lang: Option<String>,
    author: Option<String>,
    server: Option<String>,
    payload: Option<String>,
    text: Option<String>,
    #[serde(borrow)]
    tool: Option<&'a RawValue>,
}

/// A line of a file of definitions.
#[derive(Deserialize)]
struct Labelled<'a> {
    id: String,
    label: String,
    class: String,
    lang: String,
    author: Option<String>,
    server: Option<String>,
    #[serde(borrow)]
    tool: &'a RawValue,
}

/// Servers of one session: a result is judged by the names of its tools as well.
pub const SESSION_SERVERS: usize = 5;

/// All entries of a corpus.
pub fn of_directory(detector: &Detectors, corpus: &Path, trained: &TrainedOn) -> Result<Vec<Sample>> {
    ensure!(
        corpus.join("benign").is_dir(),
        "no corpus in {}: name one with --corpus; it has the folders benign, malicious, results and public",
        corpus.display()
    );
    let mut samples = Vec::new();
    for directory in ["malicious", "results"] {
        for path in files(&corpus.join(directory), "jsonl")? {
            if path.file_name().is_none_or(|name| name != "benign.jsonl") {
                samples.extend(
                    read(&path)?.lines().map(|line| attack(detector, line)).collect::<Result<Vec<_>>>()?,
                );
            }
        }
    }
    let mut servers = Vec::new();
    for path in files(&corpus.join("benign"), "json")? {
        let (tools, names) = server(detector, &path)?;
        samples.extend(tools);
        servers.push(names);
    }
    let names = |servers: &[Vec<String>]| ToolNames::new(servers.iter().flatten().map(String::as_str));
    let sessions: Vec<ToolNames> = servers.chunks(SESSION_SERVERS).map(names).collect();
    for line in read(&corpus.join("results/benign.jsonl"))?.lines() {
        samples.extend(document(detector, line, &sessions)?);
    }
    if corpus.join("public").is_dir() {
        for path in files(&corpus.join("public"), "jsonl")? {
            let entries = read(&path)?;
            for line in entries.lines() {
                ensure!(
                    !trained.has(line),
                    "an entry of {} is one that the scorer was made with: its figures would be in-sample",
                    path.display()
                );
                samples.push(public(detector, line).with_context(|| format!("in {}", path.display()))?);
            }
        }
    }
    Ok(samples)
}

/// All entries of one file of definitions.
pub fn of_file(detector: &Detectors, path: &Path) -> Result<Vec<Sample>> {
    let entry = |line: &str| {
        let entry: Labelled<'_> = serde_json::from_str(line)?;
        let strata = [Some(format!("class {}", entry.class)), Some(format!("language {}", entry.lang))];
        let author = entry.author.map(|author| format!("author {author}"));
        Ok(Sample {
            id: entry.id,
            source: path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default(),
            strata: strata.into_iter().chain([author]).flatten().collect(),
            server: entry.server.unwrap_or_default(),
            is_attack: entry.label == "attack",
            is_in_text: true,
            kind: Kind::Definition,
            part: Part::Given,
            may_be_read: true,
            orders: Some(orders(entry.tool)),
            found: detector.tool(entry.tool.get()),
        })
    };
    read(path)?.lines().map(entry).collect()
}

fn attack(detector: &Detectors, line: &str) -> Result<Sample> {
    let attack: Attack<'_> = serde_json::from_str(line).context("in an attack")?;
    let (kind, found) = match (attack.tool, attack.result) {
        (Some(tool), _) => (Kind::Definition, detector.tool(tool.get())),
        (None, Some(result)) => (Kind::Result, detector.result(result.get(), &ToolNames::default())),
        (None, None) => (Kind::Definition, Found::default()),
    };
    Ok(Sample {
        // Rules were written looking at the misses of this half only.
        may_be_read: Sha256::digest(&attack.id)[1] & 1 == 0,
        id: attack.id,
        source: attack.source,
        strata: vec![format!("class {}", attack.norm_class), format!("surface {}", attack.surface)],
        server: String::new(),
        is_attack: true,
        is_in_text: attack.surface == "text",
        kind,
        part: Part::InSample,
        orders: attack.tool.map(orders),
        found,
    })
}

/// The tools of a server, and their names.
fn server(detector: &Detectors, path: &Path) -> Result<(Vec<Sample>, Vec<String>)> {
    let text = read(path)?;
    let server: Server<'_> = serde_json::from_str(&text).with_context(|| format!("in {}", path.display()))?;
    let of = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let names: Vec<String> = server.tools.iter().map(|tool| name(tool)).collect();
    let samples = server.tools.iter().zip(&names).map(|(tool, name)| Sample {
        id: name.clone(),
        source: "40 servers".to_owned(),
        strata: Vec::new(),
        server: of.clone(),
        is_attack: false,
        is_in_text: true,
        kind: Kind::Definition,
        part: Part::InSample,
        may_be_read: true,
        orders: Some(orders(tool)),
        found: detector.tool(tool.get()),
    });
    let samples = samples.collect();
    Ok((samples, names))
}

/// A document as a result, by itself and in each session.
fn document(detector: &Detectors, line: &str, sessions: &[ToolNames]) -> Result<Vec<Sample>> {
    let document: Document = serde_json::from_str(line).context("in a document")?;
    let json = as_result(&document.text);
    let sample = |source: String, tools: &ToolNames| Sample {
        id: document.id.clone(),
        source,
        strata: Vec::new(),
        server: String::new(),
        is_attack: false,
        is_in_text: true,
        kind: Kind::Result,
        part: Part::InSample,
        may_be_read: true,
        orders: None,
        found: detector.result(&json, tools),
    };
    let alone = sample(document.kind.clone(), &ToolNames::default());
    let within = sessions.iter().map(|tools| sample(format!("{}, in a session", document.kind), tools));
    Ok(std::iter::once(alone).chain(within).collect())
}

fn public(detector: &Detectors, line: &str) -> Result<Sample> {
    let entry: Public<'_> = serde_json::from_str(line)?;
    let text = entry.text.unwrap_or_default();
    let (kind, found) = match (&*entry.kind, entry.tool) {
        (_, Some(tool)) => (Kind::Definition, detector.tool(tool.get())),
        ("result", None) => (Kind::Result, detector.result(&as_result(&text), &ToolNames::default())),
        // The scorer scores definitions and results: any other text is read as a description.
        (kind, None) => {
            let tool = serde_json::json!({"name": "tool", "description": text}).to_string();
            let kind = if kind == "definition" { Kind::Definition } else { Kind::Text };
            (kind, detector.tool(&tool))
        }
    };
    let group = entry.server.as_deref().or(entry.payload.as_deref());
    let part = Part::of(&entry.source, group.unwrap_or_else(|| without_variant(&entry.id)));
    let strata = [
        entry.category.map(|category| format!("class {category}")),
        entry.lang.map(|lang| format!("language {lang}")),
        entry.author.map(|author| format!("author {author}")),
    ];
    Ok(Sample {
        id: entry.id,
        source: entry.source,
        strata: strata.into_iter().flatten().collect(),
        server: entry.server.unwrap_or_default(),
        is_attack: entry.label == "attack",
        is_in_text: true,
        kind,
        part,
        may_be_read: part != Part::Unseen,
        orders: entry.tool.map(orders),
        found,
    })
}

/// The id of the rule that an example is of: `ATR-7-p0` and `ATR-7-n1` are of one, and go into one half.
fn without_variant(id: &str) -> &str {
    let Some((rule, variant)) = id.rsplit_once('-') else { return id };
    let digits = variant.strip_prefix(['p', 'n']).unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) { rule } else { id }
}

/// The name of a tool.
pub fn name(tool: &RawValue) -> String {
    let [name] = mcpwarden_policy::protocol::members(tool.get(), ["name"]);
    name.map_or("?", |name| name.get()).trim_matches('"').to_owned()
}

/// The name of a tool, and the names that its orders give.
pub fn orders(tool: &RawValue) -> (String, OrderedNames) {
    (name(tool), OrderedNames::of(tool.get()))
}

/// A text as the result of a call.
pub fn as_result(text: &str) -> String {
    serde_json::json!({"content": [{"type": "text", "text": text}]}).to_string()
}
