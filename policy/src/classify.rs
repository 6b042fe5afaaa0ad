//! What a tool does, by its name, its description and its annotations: a category for the cross-server rules, its risk, and
//! its side effects. (Requirements: docs/internals/requirements.md, "cross-server patterns" and "capabilities".)
//!
//! A name is split into words: `read_file`, `readFile`, `read-file`, `files.read` and `mcp__files__read` contain `read`.
//! All words of a name and all sentences of a description count, and the strongest act decides: sending before writing,
//! writing before computing, and reading last. Nouns and participles are no acts: `get_update_status` and
//! `list_deleted_files` read. Category and side effects agree: each act has a side effect, and a tool that only reads has
//! none but the network. A tool that makes requests with a body, or calls a webhook, sends. What a description advises on when
//! to use the tool is no act of it. Annotations are the server's own word, and only add: a tool that says that it is not
//! read-only writes, whatever its name.
//!
//! Names and descriptions are classified as a model reads them, without look-alike letters and invisible characters. Words
//! can lie; `classifier.overrides` is the operator's word against them.

mod advice;
mod arithmetic;
mod lists;
mod name;
mod outward;
mod phrases;
mod sentence;
mod tokens;
mod words;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::config::ClassifierOverride;
use crate::detect::folded;
use crate::glob::{GlobError, NameGlob};
use crate::terms::{RiskLevel, ToolCategory};
use words::{Tags, Word};

/// The side effects that the classifier assigns, where no override gives others.
pub fn side_effect_tags() -> impl Iterator<Item = &'static str> {
    words::TAGS.into_iter()
}

/// Longest word that is looked up. Bytes.
const MAX_WORD: usize = 24;
/// The side effect of a tool that an override gives a category, or that declares itself not read-only.
const fn side_effect_of(category: ToolCategory) -> Option<&'static str> {
    match category {
        ToolCategory::Write => Some("fs.write"),
        ToolCategory::Send => Some("network.http"),
        ToolCategory::Compute => Some("system.exec"),
        ToolCategory::Read | ToolCategory::Unknown => None,
    }
}

/// The acts that words tell of.
#[derive(Clone, Copy, Debug, Default)]
struct Acts {
    /// That of the strongest act.
    category: ToolCategory,
    side_effects: Tags,
    /// Those of nouns, which are none of a tool that only reads: `list_payments`.
    named: Tags,
}

impl Acts {
    fn add(&mut self, word: Word) {
        self.category = stronger(self.category, word.category);
        match (word.category, word.side_effect) {
            (ToolCategory::Unknown, Some(tag)) => self.named.insert(tag),
            _ => self.add_side_effect(word),
        }
    }

    fn add_side_effect(&mut self, word: Word) {
        if let Some(tag) = word.side_effect {
            self.side_effects.insert(tag);
        }
    }

    fn merge(&mut self, other: Self) {
        self.category = stronger(self.category, other.category);
        self.side_effects.extend(other.side_effects);
        self.named.extend(other.named);
    }

    /// With the side effects of nouns, if it does more than reading.
    fn whole(mut self) -> Self {
        if self.category != ToolCategory::Read {
            self.side_effects.extend(self.named);
        }
        self
    }

    fn is_unknown(&self) -> bool {
        self.category == ToolCategory::Unknown
    }

    /// Whether one of them is more than reading.
    fn acts(&self) -> bool {
        !matches!(self.category, ToolCategory::Unknown | ToolCategory::Read)
    }
}

fn stronger(one: ToolCategory, other: ToolCategory) -> ToolCategory {
    let strength = |category| match category {
        ToolCategory::Unknown => 0,
        ToolCategory::Read => 1,
        ToolCategory::Compute => 2,
        ToolCategory::Write => 3,
        ToolCategory::Send => 4,
    };
    if strength(other) > strength(one) { other } else { one }
}

/// What a server's own annotations say: `readOnlyHint: false` and `destructiveHint: true` are acts; nothing takes one away.
fn declares_act(annotations: &str) -> bool {
    if annotations.is_empty() {
        return false;
    }
    let hints: Value = serde_json::from_str(annotations).unwrap_or_default();
    // As they stand, or as several readers take them. Clients in C# and Go take a name in any case.
    let readings = hints.as_array().map_or(std::slice::from_ref(&hints), Vec::as_slice);
    let says = |name: &str, value: bool| {
        let mut members = readings.iter().filter_map(Value::as_object).flatten();
        members.any(|(key, said)| key.eq_ignore_ascii_case(name) && *said == Value::Bool(value))
    };
    says("readOnlyHint", false) || says("destructiveHint", true)
}

/// What a server says of one of its tools.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its description; empty without one.
    pub description: &'a str,
    /// The JSON of its annotations, or a list of them as several readers take them; empty without one.
    pub annotations: &'a str,
}

impl<'a> From<&'a str> for Told<'a> {
    /// A tool of which nothing but its name is known.
    fn from(name: &'a str) -> Self {
        Self { name, ..Self::default() }
    }
}

/// The classification of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classification {
    /// What it does.
    pub category: ToolCategory,
    /// How risky that is. [`RiskLevel::Medium`] where no word tells.
    pub risk: RiskLevel,
    /// Such as `fs.write`.
    pub side_effects: BTreeSet<String>,
    /// Whether it may have any side effect, since neither words nor an override tell.
    pub may_do_anything: bool,
}

/// Tells what tools do.
#[derive(Clone, Debug, Default)]
pub struct Classifier {
    overrides: Vec<(NameGlob, NameGlob, ClassifierOverride)>,
}

impl Classifier {
    /// Compiles the globs of the overrides, of which the first that matches counts.
    ///
    /// # Errors
    /// A glob does not compile.
    pub fn new(overrides: &[ClassifierOverride], case_sensitive: bool) -> Result<Self, GlobError> {
        let compile = |entry: &ClassifierOverride| {
            let globs = (entry.server.compile(case_sensitive)?, entry.tool.compile(case_sensitive)?);
            Ok((globs.0, globs.1, entry.clone()))
        };
        Ok(Self { overrides: overrides.iter().map(compile).collect::<Result<_, _>>()? })
    }

    /// The classification of a tool.
    pub fn classify<'a>(&self, server: &str, tool: impl Into<Told<'a>>) -> Classification {
        let Told { name, description, annotations } = tool.into();
        let given = self.given(server, name);
        let (name, description) = (folded(cut(name)), folded(cut(description)));
        let (name, description) = arithmetic::calculated(&name, &description);
        let mut acts = name::acts(&name);
        let (told, wishes) = sentence::acts(&description);
        if acts.category == ToolCategory::Send && told.acts() && name::is_vague(&name) {
            // What is meant the description tells: `export_table` may write a file here.
            acts = Acts::default();
        }
        acts.merge(told);
        if acts.is_unknown() {
            acts.merge(wishes);
        }
        let mut acts = acts.whole();
        if outward::sends(&name, &description, acts.category) {
            acts.category = ToolCategory::Send;
            acts.side_effects.insert("network.http");
        }
        if declares_act(annotations) {
            acts.category = stronger(acts.category, ToolCategory::Write);
            acts.side_effects.insert("fs.write");
        }
        let mut risk = None;
        for text in [&name, &description] {
            for_each_word(text, |word| risk = risk.max(words::risk(word)));
        }
        let tags = given.and_then(|given| given.side_effect_tags.as_ref());
        let override_category = given.and_then(|given| given.category);
        let category = override_category.unwrap_or(acts.category);
        Classification {
            category,
            risk: given.and_then(|given| given.risk_level).or(risk).unwrap_or(RiskLevel::Medium),
            side_effects: match (tags, override_category) {
                (Some(tags), _) => tags.clone(),
                (None, Some(_)) => side_effects_given(category, acts),
                (None, None) => acts.side_effects.iter().map(str::to_owned).collect(),
            },
            may_do_anything: tags.is_none() && category == ToolCategory::Unknown,
        }
    }

    /// What a tool does, by its name alone.
    pub fn category(&self, server: &str, tool: &str) -> ToolCategory {
        let given = self.given(server, tool).and_then(|given| given.category);
        given.unwrap_or_else(|| name::acts(&folded(tool)).category)
    }

    /// The least and the most that a tool may be whose name is one of many: risk and side effects, as far as no override
    /// gives them.
    pub(crate) fn bounds(&self, server: &str, tool: &str) -> [Classification; 2] {
        let given = self.given(server, tool);
        let (risk, category) =
            (given.and_then(|given| given.risk_level), given.and_then(|given| given.category));
        let tags = given.and_then(|given| given.side_effect_tags.clone());
        let own = category.and_then(side_effect_of).into_iter();
        let all = || match category {
            Some(ToolCategory::Read) => vec!["network.http"],
            _ => side_effect_tags().collect(),
        };
        let bound = |level, words: Vec<&str>, may_do_anything| Classification {
            category: category.unwrap_or_default(),
            risk: risk.unwrap_or(level),
            side_effects: tags.clone().unwrap_or_else(|| words.into_iter().map(str::to_owned).collect()),
            may_do_anything: tags.is_none() && may_do_anything,
        };
        let is_unknown = category == Some(ToolCategory::Unknown);
        let may_be_unknown = category.unwrap_or_default() == ToolCategory::Unknown;
        [bound(RiskLevel::Low, own.collect(), is_unknown), bound(RiskLevel::Critical, all(), may_be_unknown)]
    }

    /// What an operator says of a tool.
    pub(crate) fn given(&self, server: &str, tool: &str) -> Option<&ClassifierOverride> {
        let matches = |(servers, tools, _): &&(NameGlob, NameGlob, ClassifierOverride)| {
            servers.matches(server) && tools.matches(tool)
        };
        self.overrides.iter().find(matches).map(|(_, _, given)| given)
    }
}

/// The side effects of a tool whose category an operator gives: those that the words tell too, unless it only reads.
fn side_effects_given(category: ToolCategory, acts: Acts) -> BTreeSet<String> {
    let is_denied = category == ToolCategory::Read && acts.acts();
    let words = acts.side_effects.iter().filter(|_| !is_denied);
    words.chain(side_effect_of(category)).map(str::to_owned).collect()
}

/// Every word of a name or a sentence, in lower case; words of more than 24 bytes are left out.
fn for_each_word(text: &str, mut each: impl FnMut(&str)) {
    let bytes = text.as_bytes();
    let mut word = [0_u8; MAX_WORD];
    let mut length = 0;
    let mut flush = |word: &[u8; MAX_WORD], length: &mut usize| {
        if let Some(Ok(word)) = word.get(..*length).map(std::str::from_utf8)
            && !word.is_empty()
        {
            each(word);
        }
        *length = 0;
    };
    for (at, &byte) in bytes.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| bytes.get(at)).copied().unwrap_or(b' ');
        let after = bytes.get(at + 1).copied().unwrap_or(b' ');
        // `readFile`, and `HTTPGet`: a capital behind a small letter or a digit, or before one within capitals.
        let hump = byte.is_ascii_uppercase()
            && (before.is_ascii_lowercase()
                || before.is_ascii_digit()
                || before.is_ascii_uppercase() && after.is_ascii_lowercase());
        if hump || !(byte.is_ascii_alphanumeric() || byte >= 0x80) {
            flush(&word, &mut length);
        }
        if byte.is_ascii_alphanumeric() || byte >= 0x80 {
            if let Some(slot) = word.get_mut(length) {
                *slot = byte.to_ascii_lowercase();
            }
            length = length.saturating_add(1);
        }
    }
    flush(&word, &mut length);
}

/// Most bytes of a name or a description that are read: what a tool does is said in the first sentences, and the longest take as long as the
/// inspection of a message.
const MAX_BYTES: usize = 64 << 10;

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_BYTES)).unwrap_or(text)
}

#[cfg(test)]
mod tests;
