//! The rules: what they say, read from YAML and checked.
//!
//! A rule has a weight in each scope that it looks at. A window of two sentences scores the sum of the weights of
//! all rules that match in it, and that sum decides the severity: see [`severity_of`](super::severity_of). So a rule
//! that is sure of itself weighs 100, and one that only adds to others weighs less than 25 and is marked as `support`.
//!
//! A pattern is a regular expression with some conveniences: a blank is any run of white space, `…` is the rest of a
//! sentence up to [`GAP_BYTES`](super::pattern::GAP_BYTES), `‥` a few words of it, and `{{name}}` is a fragment. Letters match either
//! case. Patterns run on the normal form of a text, in time linear in its length.

mod error;
pub(super) mod examples;
mod scanned;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;

pub use error::{RuleError, RulePlace};
pub use scanned::ScannedRule;

use mcpwarden_terms::{Category, Severity};

use super::CustomPattern;
use super::pattern::{self, Pattern};
use super::scanner::Scanner;
use super::severity::score_of;
use super::structure::Structure;

/// The rules that are built in.
const BUILT_IN: &[(&str, &str)] = &[
    ("definitions.yaml", include_str!("../defaults/definitions.yaml")),
    ("steering.yaml", include_str!("../defaults/steering.yaml")),
    ("deeds.yaml", include_str!("../defaults/deeds.yaml")),
    ("everyday.yaml", include_str!("../defaults/everyday.yaml")),
    ("languages.yaml", include_str!("../defaults/languages.yaml")),
    ("results.yaml", include_str!("../defaults/results.yaml")),
    ("names.yaml", include_str!("../defaults/names.yaml")),
    ("arguments.yaml", include_str!("../defaults/arguments.yaml")),
    ("structure.yaml", include_str!("../defaults/structure.yaml")),
];

/// What a pattern should be.
const EXPRESSION: &str = "a regular expression of the crate `regex`";

/// What a rule looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Texts of a definition, of a server's instructions, prompts and resource templates, and of what a server
    /// asks of the model or the user.
    Definition,
    /// Names in a definition: of the tool and of its properties.
    Name,
    /// Texts of a tool's result.
    Result,
    /// Values and keys of a call's arguments.
    Argument,
    /// What a server asks of the user, and names in it.
    Request,
    /// Values that a definition gives for its parameters: defaults, constants, enums and examples.
    Value,
    /// Texts of a definition whose annotations say that the tool only reads.
    ReadOnly,
}

impl Scope {
    const ALL: [Self; 7] = [
        Self::Definition,
        Self::Name,
        Self::Result,
        Self::Argument,
        Self::Request,
        Self::Value,
        Self::ReadOnly,
    ];
}

/// A set of rules, checked.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    pub(super) rules: Vec<Rule>,
    /// The engine that runs those of them that have no patterns here.
    pub(super) scanner: Option<Arc<dyn Scanner>>,
}

/// One rule, checked: its patterns are known to compile.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its id, unique among all rules.
    pub id: String,
    /// Where that stands in its file, line and column from 1; 0 where there is no file.
    pub(super) at: (u64, u64),
    /// What it finds, in a few words.
    pub title: String,
    /// Why that is suspicious.
    pub why: String,
    /// Where one can read about it.
    pub references: Vec<String>,
    /// The kind of attack.
    pub category: Category,
    /// What it weighs where.
    pub weights: BTreeMap<Scope, u32>,
    /// Where it only adds to others and is never reported by itself.
    pub support: BTreeSet<Scope>,
    /// Whether what it matches is a secret, to be masked.
    pub secret: bool,
    /// Whether it is about deeds: one that the text forbids ("never send …") is none.
    pub affirmative: bool,
    /// Whether it is one of the user's patterns: it means what the crate `regex` says, and its severity is what the user
    /// says, whatever else is found beside it.
    pub plain: bool,
    /// Whether another engine runs it.
    pub(super) scanned: bool,
    /// What it looks for; empty where `structure` says that.
    pub patterns: Vec<String>,
    pub(super) compiled: Vec<Arc<Pattern>>,
    /// What it looks for, where that is no pattern.
    pub structure: Option<Structure>,
    /// Texts that it must match, and texts that it must not.
    pub examples: Examples,
}

/// Texts to try a rule with.
#[derive(Clone, Debug, Default)]
pub struct Examples {
    /// It must match each of these.
    pub matches: Vec<String>,
    /// It must match none of these.
    pub passes: Vec<String>,
}

impl Rule {
    /// That another rule has its id.
    fn second(&self, file: &str) -> RuleError {
        if self.plain {
            return RuleError::in_pattern(&self.id, "this name is the id of another rule", "a unique name");
        }
        self.error(file, format!("second rule {:?}", self.id), "unique ids")
    }

    fn error(&self, file: &str, what: String, expected: &str) -> RuleError {
        RuleError::in_file(file, self.at, what, expected)
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    fragments: BTreeMap<String, Spanned<String>>,
    rules: Vec<Entry>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[schemars(with = "String")]
    id: Spanned<String>,
    title: String,
    why: String,
    #[serde(default)]
    references: Vec<String>,
    category: Category,
    #[serde(default)]
    #[schemars(schema_with = "by_scope")]
    weight: BTreeMap<Scope, u32>,
    severity: Option<Severity>,
    #[serde(default)]
    support: Support,
    #[serde(default)]
    secret: bool,
    #[serde(default)]
    affirmative: bool,
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    patterns: Vec<Spanned<String>>,
    structure: Option<Structure>,
    #[serde(default)]
    examples: SpannedExamples,
}

/// The derived schema says nothing of the keys.
fn by_scope(generator: &mut SchemaGenerator) -> Schema {
    let scopes = generator.subschema_for::<Scope>();
    json_schema!({ "type": "object", "propertyNames": scopes, "additionalProperties": { "type": "integer" } })
}

/// `support: true`, or a list of scopes.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Support {
    Everywhere(bool),
    In(BTreeSet<Scope>),
}

impl Default for Support {
    fn default() -> Self {
        Self::Everywhere(false)
    }
}

impl Support {
    fn scopes(self) -> BTreeSet<Scope> {
        match self {
            Self::Everywhere(true) => Scope::ALL.into(),
            Self::Everywhere(false) => BTreeSet::new(),
            Self::In(scopes) => scopes,
        }
    }
}

/// [`Examples`], with where each stands.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct SpannedExamples {
    #[schemars(with = "Vec<String>")]
    matches: Vec<Spanned<String>>,
    #[schemars(with = "Vec<String>")]
    passes: Vec<Spanned<String>>,
}

/// The name of a rule's file, and where its examples stand.
type Tries<'a> = (&'a str, SpannedExamples);

impl RuleSet {
    /// The built-in rules.
    ///
    /// # Errors
    /// None in a release: a test parses them.
    pub fn built_in() -> Result<Self, Vec<RuleError>> {
        let (rules, _, errors) = Self::read(BUILT_IN.iter().copied());
        if errors.is_empty() { Ok(rules) } else { Err(errors) }
    }

    /// The names and texts of the built-in rule files.
    pub fn built_in_files() -> &'static [(&'static str, &'static str)] {
        BUILT_IN
    }

    /// The JSON Schema of a rule file.
    pub fn schema() -> Value {
        schemars::schema_for!(File).to_value()
    }

    /// Reads one rule file, which errors call `name`, and tries its rules on their examples.
    ///
    /// # Errors
    /// Everything that is wrong with it, in order; where it is no YAML, or not of this shape, the first thing. A rule is
    /// tried on its examples where nothing else is wrong with it.
    pub fn parse(name: &str, yaml: &str) -> Result<Self, Vec<RuleError>> {
        Self::parse_all([(name, yaml)])
    }

    /// Reads several rule files, names and texts. Fragments are shared among them, and an id must be unique in all.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), of all files.
    pub fn parse_all<'a>(
        files: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, Vec<RuleError>> {
        let (rules, errors) = Self::tried(files);
        if errors.is_empty() { Ok(rules) } else { Err(errors) }
    }

    /// Reads rule files and tries their rules on their examples: what of them is right, and what is wrong.
    fn tried<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> (Self, Vec<RuleError>) {
        let (rules, examples, mut errors) = Self::read(files);
        let tried = rules.rules.iter().zip(&examples);
        errors.extend(tried.flat_map(|(rule, (file, at))| tried_on_examples(file, rule, at)));
        (rules, errors)
    }

    /// Reads rule files: what of them is right, of each rule its file's name and its examples, and what is wrong. Whether
    /// patterns compile is not tried, and examples are not: a test does so with the built-in ones.
    fn read<'a>(
        files: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> (Self, Vec<Tries<'a>>, Vec<RuleError>) {
        let (mut errors, mut fragments, mut entries) = (Vec::new(), BTreeMap::new(), Vec::new());
        for (name, yaml) in files {
            match serde_saphyr::from_str::<File>(yaml) {
                Ok(file) => {
                    fragments.extend(file.fragments);
                    entries.extend(file.rules.into_iter().map(|entry| (name, entry)));
                }
                Err(error) => {
                    let place = error.location();
                    let place = place.map_or((0, 0), |place| (place.line(), place.column()));
                    let what = error.without_snippet().to_string();
                    let expected = "a rule file: docs/reference/rules.md shows one";
                    errors.push(RuleError::in_file(name, place, what, expected));
                }
            }
        }
        let fragments = fragments.iter().map(|(name, text)| (name.as_str(), text.value.as_str())).collect();
        let mut seen = BTreeSet::new();
        let (mut rules, mut examples) = (Vec::new(), Vec::new());
        for (file, entry) in entries {
            let before = errors.len();
            if !seen.insert(entry.id.value.clone()) {
                let what = format!("second rule {:?}", entry.id.value);
                errors.push(RuleError::at(file, &entry.id, what, "unique ids"));
            }
            let tries = (file, entry.examples.clone());
            let rule = entry.check(file, &fragments, &mut errors);
            if errors.len() == before {
                examples.push(tries);
                rules.push(rule);
            }
        }
        (Self { rules, scanner: None }, examples, errors)
    }

    /// The user's patterns as rules.
    pub(super) fn custom(patterns: &[CustomPattern]) -> Result<Self, Vec<RuleError>> {
        let (mut rules, mut errors) = (Vec::new(), Vec::new());
        for custom in patterns {
            let compiled =
                pattern::compile_plain(&custom.pattern).and_then(|pattern| pattern.force().map(|()| pattern));
            let compiled = match compiled {
                Ok(pattern) => vec![Arc::new(pattern)],
                Err(reason) => {
                    errors.push(RuleError::in_pattern(&custom.name, reason, EXPRESSION));
                    continue;
                }
            };
            let everywhere = [Scope::Definition, Scope::Result, Scope::Argument];
            rules.push(Rule {
                id: custom.name.clone(),
                at: (0, 0),
                title: custom.description.clone(),
                why: String::new(),
                references: Vec::new(),
                category: Category::Custom,
                weights: everywhere.map(|scope| (scope, score_of(custom.severity))).into(),
                support: BTreeSet::new(),
                secret: false,
                affirmative: false,
                plain: true,
                scanned: false,
                patterns: vec![custom.pattern.clone()],
                compiled,
                structure: None,
                examples: Examples::default(),
            });
        }
        if errors.is_empty() { Ok(Self { rules, scanner: None }) } else { Err(errors) }
    }

    /// Adds the rules of one more file, tried on their examples, and gives everything that is wrong with it, in order.
    pub fn add(&mut self, name: &str, yaml: &str) -> Vec<RuleError> {
        let (more, mut errors) = Self::tried([(name, yaml)]);
        errors.extend(self.extend(name, more));
        errors.sort_by_key(|error| error.at.position());
        errors
    }

    /// These rules and those.
    ///
    /// # Errors
    /// Both have a rule of the same id.
    pub fn with(mut self, more: Self) -> Result<Self, Vec<RuleError>> {
        let errors = self.extend("rules", more);
        if errors.is_empty() { Ok(self) } else { Err(errors) }
    }

    /// Takes over rules of a file, but none whose id is taken.
    fn extend(&mut self, file: &str, more: Self) -> Vec<RuleError> {
        let mut errors = Vec::new();
        self.scanner = self.scanner.take().or(more.scanner);
        for rule in more.rules {
            if self.rules.iter().any(|other| other.id == rule.id) {
                errors.push(rule.second(file));
            } else {
                self.rules.push(rule);
            }
        }
        errors
    }

    /// The rules, in order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }
}

impl Entry {
    fn check(self, file: &str, fragments: &BTreeMap<&str, &str>, errors: &mut Vec<RuleError>) -> Rule {
        let id = &self.id;
        let mut wrong = |what: &str, expected: &str| errors.push(RuleError::at(file, id, what, expected));
        let simple = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        if id.value.is_empty() || !id.value.chars().all(simple) {
            wrong("an id with other characters", "small letters, digits, - and _");
        }
        if self.patterns.is_empty() == self.structure.is_none() {
            wrong("both or neither of patterns and structure", "one of them");
        }
        let weights = match (self.severity, self.weight.is_empty()) {
            (Some(severity), true) => {
                let everywhere = [Scope::Definition, Scope::Result, Scope::Argument];
                everywhere.map(|scope| (scope, score_of(severity))).into()
            }
            (None, false) => self.weight,
            _ => {
                wrong("both or neither of weight and severity", "one of them");
                BTreeMap::new()
            }
        };
        if weights.values().any(|weight| !(1..=400).contains(weight)) {
            wrong("a weight out of range", "1 to 400");
        }
        let (mut patterns, mut compiled) = (Vec::new(), Vec::new());
        for source in &self.patterns {
            let text = pattern::expand(&source.value, fragments);
            match text.and_then(|text| Ok((pattern::compile(&text)?, text))) {
                Ok((pattern, text)) => {
                    compiled.push(Arc::new(pattern));
                    patterns.push(text);
                }
                Err(reason) => errors.push(RuleError::at(file, source, reason, EXPRESSION)),
            }
        }
        Rule {
            at: (self.id.referenced.line(), self.id.referenced.column()),
            id: self.id.value,
            title: self.title,
            why: self.why,
            references: self.references,
            category: self.category,
            weights,
            support: self.support.scopes(),
            secret: self.secret,
            affirmative: self.affirmative,
            plain: false,
            scanned: false,
            patterns,
            compiled,
            structure: self.structure,
            examples: Examples {
                matches: self.examples.matches.into_iter().map(|text| text.value).collect(),
                passes: self.examples.passes.into_iter().map(|text| text.value).collect(),
            },
        }
    }
}

/// What is wrong with the patterns of a rule, and with what it says of its examples.
fn tried_on_examples(file: &str, rule: &Rule, at: &SpannedExamples) -> Vec<RuleError> {
    let named = |what: String| rule.error(file, format!("rule {:?}: {what}", rule.id), EXPRESSION);
    if let Err(what) = rule.compiled.iter().try_for_each(|pattern| pattern.force()) {
        return vec![named(what)];
    }
    let wrong = match examples::wrong(rule) {
        Ok(wrong) => wrong,
        Err(what) => return vec![named(what)],
    };
    let place = |(text, must): (&str, bool)| {
        let (list, what, expected) = if must {
            (&at.matches, "does not match", "a text that it matches")
        } else {
            (&at.passes, "matches", "a text that it does not match")
        };
        let what = format!("rule {:?} {what} its example {text:?}", rule.id);
        let found = list.iter().find(|example| example.value == text);
        found.map_or_else(
            || RuleError::nowhere(file, &what, expected),
            |example| RuleError::at(file, example, &what, expected),
        )
    };
    wrong.into_iter().map(place).collect()
}
