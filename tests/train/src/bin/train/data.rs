//! The data: texts of the authors in the tree, published servers, documents of published crates.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use mcpwarden_detect::learned::{Document, KINDS, Subject};
use mcpwarden_detect::{Detector, Inspection, OrderedNames, ToolNames, digest};
use mcpwarden_terms::{Category, Severity};
use mcpwarden_train::{Class, Example};
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

/// Authors whose texts nobody reads and nothing is trained on.
pub const HELD_OUT: [&str; 7] = ["a03", "a06", "a10", "a13", "a16", "a18", "a21"];
/// The licences under which others' texts may be learned from.
const LICENCES: [&str; 5] = ["MIT", "Apache-2.0", "MIT OR Apache-2.0", "Apache-2.0 OR MIT", "MIT/Apache-2.0"];
/// Most bytes of a document that is read as a result.
const DOCUMENT_BYTES: usize = 64 << 10;
/// Most tools of one server, and most of its answers: else a few large servers would be the most of all data.
const MOST_TOOLS: usize = 40;

/// Where data comes from, and what it may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// To learn from.
    Training,
    /// For figures alone.
    Measuring,
}

/// One message with where it comes from.
#[derive(Clone, Debug)]
pub struct Sample {
    pub id: String,
    /// An author or a package: what is in one fold.
    pub group: String,
    pub language: String,
    pub subject: Subject,
    pub of: Use,
    pub example: Example,
    /// What the rules find.
    pub rules: u32,
    /// Whether an order names a tool of another server of the session.
    pub is_across: bool,
}

/// One file that was read.
#[derive(Clone, Debug)]
pub struct Source {
    pub file: String,
    pub licence: String,
    pub digest: String,
    pub entries: usize,
}

#[derive(Deserialize)]
struct Entry<'a> {
    id: String,
    author: String,
    language: String,
    kind: String,
    label: String,
    category: String,
    #[serde(borrow)]
    tool: Option<&'a RawValue>,
    #[serde(default)]
    others: Vec<String>,
    text: Option<String>,
}

#[derive(Deserialize)]
struct Server<'a> {
    package: String,
    licence: Option<String>,
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
}

/// A line of the answers of a server.
#[derive(Deserialize)]
struct Answer {
    text: String,
}

/// All data that is there.
#[derive(Default)]
pub struct Data {
    pub samples: Vec<Sample>,
    pub sources: Vec<Source>,
}

impl Data {
    /// Reads the files of authors: those that are held out only for measuring, and only if that is wanted.
    pub fn authors(&mut self, detector: &Detector, directory: &Path, held_out: bool) -> Result<()> {
        for path in files(directory, "jsonl")? {
            let name = path.strip_prefix(directory).unwrap_or(&path).to_string_lossy().into_owned();
            let author = name.get(..3).unwrap_or_default();
            if HELD_OUT.contains(&author) != held_out {
                continue;
            }
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let mut entries = 0;
            for line in text.lines().filter(|line| !line.trim().is_empty()) {
                // Of what is held out, not even an error may show a text.
                let Ok(entry) = serde_json::from_str::<Entry<'_>>(line) else { continue };
                self.samples.extend(of_author(detector, &entry, held_out));
                entries += 1;
            }
            self.source(name, "Apache-2.0", &text, entries);
        }
        Ok(())
    }

    /// Reads lists of published servers: those of the half that may be read and learned from, or those of the other half.
    pub fn servers(&mut self, detector: &Detector, directory: &Path, held_out: bool) -> Result<()> {
        for path in files(directory, "json")? {
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let Ok(server) = serde_json::from_str::<Server<'_>>(&text) else { continue };
            let licence = server.licence.clone().unwrap_or_default();
            // The half that nobody reads; nothing that figures are given of is learned from.
            let unseen = Sha256::digest(format!("servers\n{}", server.package))[0] & 1 == 0;
            let of = if unseen { Use::Measuring } else { Use::Training };
            if unseen != held_out || !held_out && !LICENCES.contains(&licence.as_str()) {
                continue;
            }
            let tools = &server.tools[..server.tools.len().min(MOST_TOOLS)];
            for tool in tools {
                let (found, document) = detector.record_tool(tool.get());
                let example = Example { class: Class::Honest, kind: None, document };
                self.samples.push(Sample {
                    id: server.package.clone(),
                    group: server.package.clone(),
                    language: "en".to_owned(),
                    subject: Subject::Definition,
                    of,
                    example,
                    rules: score(&found),
                    is_across: false,
                });
            }
            let (package, entries) = (server.package.clone(), tools.len());
            if of == Use::Training {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                self.source(format!("servers/{name}"), &licence, &text, entries);
            }
            self.answers(detector, &path, &package, &licence, of);
        }
        Ok(())
    }

    /// Reads the answers of the tools of a server, which are beside its list.
    fn answers(&mut self, detector: &Detector, list: &Path, package: &str, licence: &str, of: Use) {
        let Some(stem) = list.file_stem().map(|stem| stem.to_string_lossy().into_owned()) else { return };
        let name = format!("answers/{stem}.jsonl");
        let path = list.parent().map(|directory| directory.join(&name)).unwrap_or_default();
        let Ok(text) = fs::read_to_string(path) else { return };
        let mut entries = 0;
        for line in text.lines().take(MOST_TOOLS) {
            let Ok(Answer { text }) = serde_json::from_str(line) else { continue };
            self.document(detector, package, &text[..text.floor_char_boundary(DOCUMENT_BYTES)], of);
            entries += 1;
        }
        if of == Use::Training {
            self.source(format!("servers/{name}"), licence, &text, entries);
        }
    }

    /// Reads documents of the crates that this workspace depends on: a README and a source file of each.
    pub fn crates(&mut self, detector: &Detector, lock: &str) -> Result<()> {
        let home = env::var_os("CARGO_HOME").map_or_else(
            || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cargo"),
            PathBuf::from,
        );
        let registries: Vec<PathBuf> = match fs::read_dir(home.join("registry/src")) {
            Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
            Err(_) => return Ok(()),
        };
        let quoted = |line: &str| line.split('"').nth(1).unwrap_or_default().to_owned();
        for package in lock.split("[[package]]").skip(1) {
            let field = |name: &str| package.lines().find(|line| line.starts_with(name)).map(quoted);
            let (Some(name), Some(version)) = (field("name = "), field("version = ")) else { continue };
            let directory = format!("{name}-{version}");
            let Some(at) = registries.iter().map(|path| path.join(&directory)).find(|path| path.is_dir())
            else {
                continue;
            };
            let manifest = fs::read_to_string(at.join("Cargo.toml")).unwrap_or_default();
            let licence = manifest.lines().find(|line| line.starts_with("license = ")).map(quoted);
            let Some(licence) = licence.filter(|licence| LICENCES.contains(&licence.as_str())) else {
                continue;
            };
            for file in ["README.md", "CHANGELOG.md", "src/lib.rs"] {
                let Ok(text) = fs::read_to_string(at.join(file)) else { continue };
                let text_of = &text[..text.floor_char_boundary(DOCUMENT_BYTES)];
                self.document(detector, &name, text_of, Use::Training);
                self.source(format!("crates/{directory}/{file}"), &licence, &text, 1);
            }
        }
        Ok(())
    }

    fn document(&mut self, detector: &Detector, group: &str, text: &str, of: Use) {
        let (found, document) = detector.record_result(&as_result(text), &ToolNames::default());
        self.samples.push(Sample {
            id: group.to_owned(),
            group: group.to_owned(),
            language: "en".to_owned(),
            subject: Subject::Result,
            of,
            example: Example { class: Class::Honest, kind: None, document },
            rules: score(&found),
            is_across: false,
        });
    }

    fn source(&mut self, file: String, licence: &str, text: &str, entries: usize) {
        let digest: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
        self.sources.push(Source { file, licence: licence.to_owned(), digest, entries });
    }

    /// The first file of a manifest that is not among the sources, or the other way round.
    pub fn differs_from(&self, manifest: &str) -> Option<String> {
        let listed: BTreeMap<&str, &str> = { manifest.lines() }
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| Some((line.split('\t').next()?, line.rsplit('\t').next()?)))
            .collect();
        let here: BTreeMap<&str, &str> =
            self.sources.iter().map(|source| (source.file.as_str(), source.digest.as_str())).collect();
        let differs = |(file, digest): (&&str, &&str)| {
            here.get(file) != Some(digest) || listed.get(file) != Some(digest)
        };
        listed
            .iter()
            .chain(&here)
            .find(|(file, digest)| differs((file, digest)))
            .map(|(file, _)| (*file).to_owned())
    }

    /// How many samples there are of each kind.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for sample in &self.samples {
            let name = format!("{:?} {:?} {:?}", sample.subject, sample.of, sample.example.class);
            *counts.entry(name).or_default() += 1;
        }
        counts
    }
}

fn of_author(detector: &Detector, entry: &Entry<'_>, held_out: bool) -> Option<Sample> {
    let is_definition = entry.kind == "definition";
    let (found, document): (Inspection, Document) = match (entry.tool, &entry.text) {
        (Some(tool), _) if is_definition => detector.record_tool(tool.get()),
        (_, Some(text)) => detector.record_result(&as_result(text), &ToolNames::default()),
        _ => return None,
    };
    let others: Vec<u64> =
        entry.others.iter().map(|other| digest(other.rsplit(':').next().unwrap_or_default())).collect();
    let is_across = entry
        .tool
        .is_some_and(|tool| OrderedNames::of(tool.get()).digests().any(|name| others.contains(&name)));
    let is_attack = entry.label == "attack";
    Some(Sample {
        id: entry.id.clone(),
        group: entry.author.clone(),
        language: entry.language.clone(),
        subject: if is_definition { Subject::Definition } else { Subject::Result },
        of: if held_out { Use::Measuring } else { Use::Training },
        example: Example {
            class: if is_attack { Class::Attack } else { Class::Hard },
            kind: is_attack.then(|| kind(&entry.category)),
            document,
        },
        rules: score(&found),
        is_across,
    })
}

/// The kind of an attack by its name; what deletes, pays or publishes is the last one.
fn kind(name: &str) -> usize {
    let named =
        |category: &Category| serde_json::to_value(category).is_ok_and(|value| value.as_str() == Some(name));
    KINDS.iter().position(named).unwrap_or(KINDS.len() - 1)
}

fn score(found: &Inspection) -> u32 {
    found.detections.iter().map(|found| found.score).max().unwrap_or(0)
}

/// Whether rules alone are enough for high.
pub fn is_high(score: u32) -> bool {
    mcpwarden_detect::severity_of(score) >= Some(Severity::High)
}

fn as_result(text: &str) -> String {
    serde_json::json!({"content": [{"type": "text", "text": text}]}).to_string()
}

/// The files below a directory with this extension, in order.
fn files(directory: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() {
            found.extend(files(&path, extension)?);
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
