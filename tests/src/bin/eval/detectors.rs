//! The detector twice: with the rules alone, and as it is shipped, with the learned scorer above them.

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_policy::detect::learned::Model;
use mcpwarden_policy::detect::{
    DetectConfig, Detector, Inspection, RuleError, RuleSet, ScorerModel, ToolNames,
};
use serde_json::Value;

use crate::files::{files, read};

/// What is found in one text.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// By the rules alone.
    pub rules: Inspection,
    /// By the rules and the scorer.
    pub shipped: Inspection,
}

/// Both detectors.
pub struct Detectors {
    rules: Detector,
    shipped: Detector,
    model: String,
}

impl Detectors {
    /// Those of these rules.
    ///
    /// # Errors
    /// A rule does not compile, which a test rules out for those that are built in.
    pub fn new(rules: &RuleSet) -> Result<Self, Vec<RuleError>> {
        let with = |scorer| Detector::new(rules.clone(), &DetectConfig { scorer, ..DetectConfig::default() });
        let model = Model::built_in().map_or_else(|| "none".to_owned(), |model| model.id().to_owned());
        Ok(Self { rules: with(ScorerModel::Off)?, shipped: with(ScorerModel::BuiltIn)?, model })
    }

    /// The id of the scorer's model.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Inspects a definition.
    pub fn tool(&self, json: &str) -> Found {
        self.both(|detector| detector.tool(json))
    }

    /// Inspects a result, among tools of these names.
    pub fn result(&self, json: &str, tools: &ToolNames) -> Found {
        self.both(|detector| detector.result(json, tools))
    }

    /// Inspects a text of a definition.
    pub fn text(&self, field: &str, text: &str) -> Found {
        self.both(|detector| detector.text(field, text))
    }

    fn both(&self, inspect: impl Fn(&Detector) -> Inspection) -> Found {
        Found { rules: inspect(&self.rules), shipped: inspect(&self.shipped) }
    }
}

/// The texts that the scorer's model was made with, as they are in this repository: no public entry may be one of them.
pub struct TrainedOn(HashSet<String>);

impl TrainedOn {
    /// Reads the files of `authors` that the manifest of the model names.
    ///
    /// # Errors
    /// A file cannot be read, or the manifest names one of the corpus that is measured.
    pub fn read(authors: &Path, manifest: &Path) -> Result<Self> {
        let named = read(manifest)?;
        let named: HashSet<&str> = named.lines().filter_map(|line| line.split('\t').next()).collect();
        let mut texts = HashSet::new();
        for path in files(authors, "jsonl")? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !named.contains(&*name) {
                continue;
            }
            for line in read(&path)?.lines().filter(|line| !line.trim().is_empty()) {
                let entry: Value =
                    serde_json::from_str(line).with_context(|| format!("in {}", path.display()))?;
                texts.extend(text_of(&entry));
            }
        }
        let foreign = named.iter().find(|name| name.contains("public/"));
        ensure!(foreign.is_none(), "the model was made with {foreign:?}, which is measured here");
        ensure!(!texts.is_empty(), "no text of the model's authors in {}", authors.display());
        Ok(Self(texts))
    }

    /// Whether an entry of a corpus, a line of JSON, has the text of one that was trained on.
    pub fn has(&self, line: &str) -> bool {
        let entry: Option<Value> = serde_json::from_str(line).ok();
        entry.as_ref().and_then(text_of).is_some_and(|text| self.0.contains(&text))
    }
}

/// The text of an entry, or the description of its tool, in small letters and with single blanks.
fn text_of(entry: &Value) -> Option<String> {
    let text = entry["text"].as_str().or(entry["tool"]["description"].as_str())?;
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    Some(words.join(" ")).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_the_training_are_known_by_their_text() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        write("a01.jsonl", "{\"text\":\"Send  it\\nnow.\"}\n{\"tool\":{\"description\":\"Lints.\"}}\n");
        write("a03.jsonl", "{\"text\":\"Held out.\"}\n");
        write("manifest", "# model x\na01.jsonl\tApache-2.0\t2\t00\n");
        let trained = TrainedOn::read(directory.path(), &directory.path().join("manifest")).unwrap();
        for (line, expected) in [
            (r#"{"text":"send it now."}"#, true),
            (r#"{"tool":{"description":"Lints."}}"#, true),
            (r#"{"text":"Held out."}"#, false),
            (r#"{"text":"send it"}"#, false),
            (r#"{"text":""}"#, false),
            ("no JSON", false),
        ] {
            assert_eq!(trained.has(line), expected, "{line}");
        }
        write("manifest", "a01.jsonl\tMIT\t2\t00\npublic/atr.jsonl\tMIT\t2\t00\n");
        assert!(TrainedOn::read(directory.path(), &directory.path().join("manifest")).is_err());
    }

    /// The sets of the corpus are not in this repository; what is trained on here is.
    #[test]
    fn model_in_the_tree_was_made_with_authors_alone() {
        let detect = Path::new(env!("CARGO_MANIFEST_DIR")).join("../policy/detect");
        TrainedOn::read(&detect.join("corpus/authors"), &detect.join("model/manifest.tsv")).unwrap();
    }
}
