//! What a tool does, told by its name and description: a category for the rules across servers, how risky it is, and
//! which side effects it has. (Requirements: docs/internals/requirements.md, "cross-server patterns" and "capabilities".)
//!
//! A name is taken apart into words: `read_file`, `readFile`, `read-file`, `files.read` and `mcp__files__read` have
//! `read` in them. The first word counts most, then the last, then those between: `slack_post_message` sends and
//! `todo_list` reads. Names are read as a model reads them, without look-alike letters and characters that nobody sees,
//! so that no rule is passed by with another letter. Words can lie; `classifier.overrides` is the operator's word against
//! them.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use crate::config::ClassifierOverride;
use crate::detect::folded;
use crate::glob::{GlobError, NameGlob};
use crate::terms::{RiskLevel, ToolCategory};

/// The first word of names such as `read_*`, by what it says. The first line of each is the requirements'; the second
/// is what published servers say as well.
const CATEGORY_WORDS: [(ToolCategory, &[&str]); 4] = [
    (
        ToolCategory::Read,
        &[
            "read", "get", "query", "list", "fetch", "search", "find", "lookup", //
            "view", "show", "describe", "download", "browse",
        ],
    ),
    (
        ToolCategory::Write,
        &[
            "write", "update", "set", "create", "delete", "remove", "put", "insert", //
            "edit", "modify", "add", "append", "save", "move", "rename", "patch", "upsert", "drop",
        ],
    ),
    (
        ToolCategory::Send,
        &[
            "send",
            "post",
            "upload",
            "http",
            "email",
            "notify",
            "publish",
            "push", //
            "forward",
            "reply",
            "share",
            "tweet",
            "submit",
            "broadcast",
        ],
    ),
    (
        ToolCategory::Compute,
        &[
            "run", "exec", "eval", "execute", "invoke", "call", //
            "shell", "bash", "spawn",
        ],
    ),
];
/// Words that say what is done in front of a name, and what it is done to behind others: `user_email`, `feature_set`.
const NOUNS_AT_THE_END: [&str; 8] = ["email", "http", "set", "call", "post", "query", "share", "reply"];

/// Words by how risky what they say is.
const RISK_WORDS: [(RiskLevel, &[&str]); 4] = [
    (RiskLevel::Critical, &["delete", "drop", "destroy", "payment"]),
    (RiskLevel::High, &["write", "update", "modify", "create"]),
    (RiskLevel::Medium, &["network", "fetch", "http", "api"]),
    (RiskLevel::Low, &["read", "get", "list", "search", "echo"]),
];

/// Words by the side effect that they speak of.
const SIDE_EFFECT_WORDS: [(&str, &[&str]); 5] = [
    ("fs.write", &["write", "update", "modify", "create", "edit", "save", "append", "rename"]),
    ("fs.delete", &["delete", "remove", "drop", "destroy"]),
    ("network.http", &["network", "http", "fetch", "download", "upload", "send", "publish"]),
    ("payments", &["payment", "pay", "purchase", "refund"]),
    ("system.exec", &["execute", "exec", "run", "shell", "command"]),
];

/// The side effects that tools are told to have, where no override says others.
pub fn side_effect_tags() -> impl Iterator<Item = &'static str> {
    SIDE_EFFECT_WORDS.into_iter().map(|(tag, _)| tag)
}

/// Longest word that is looked up. Bytes.
const MAX_WORD: usize = 24;

/// What one word says of risk and side effects.
#[derive(Clone, Copy, Debug, Default)]
struct Says {
    risk: Option<RiskLevel>,
    side_effect: Option<&'static str>,
}

/// Every form of every word of risk and side effects: `delete`, `deletes`, `deleted`, `deleting`.
static SAYS: LazyLock<HashMap<String, Says>> = LazyLock::new(|| {
    let mut says: HashMap<String, Says> = HashMap::new();
    for (risk, words) in RISK_WORDS {
        for form in words.iter().flat_map(|word| forms(word)) {
            says.entry(form).or_default().risk.get_or_insert(risk);
        }
    }
    for (tag, words) in SIDE_EFFECT_WORDS {
        for form in words.iter().flat_map(|word| forms(word)) {
            says.entry(form).or_default().side_effect.get_or_insert(tag);
        }
    }
    says
});

static CATEGORIES: LazyLock<HashMap<&'static str, ToolCategory>> = LazyLock::new(|| {
    CATEGORY_WORDS.iter().flat_map(|(category, words)| words.iter().map(|word| (*word, *category))).collect()
});

/// A word as it stands in a sentence about a tool: "Deletes a file", "for writing files".
fn forms(word: &str) -> Vec<String> {
    let stem = word.strip_suffix('e').unwrap_or(word);
    let last = &word[word.len() - 1..];
    let mut forms = vec![word.to_owned(), format!("{word}s"), format!("{stem}ing"), format!("{stem}ed")];
    match last {
        "y" => forms
            .extend([format!("{}ies", &word[..word.len() - 1]), format!("{}ied", &word[..word.len() - 1])]),
        "h" => forms.push(format!("{word}es")),
        // "dropped", "running", "getting"
        "p" | "n" | "t" => forms.extend([format!("{word}{last}ing"), format!("{word}{last}ed")]),
        _ => {}
    }
    forms
}

/// What is told of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classification {
    /// What it does.
    pub category: ToolCategory,
    /// How risky that is. [`RiskLevel::Medium`] where no word tells.
    pub risk: RiskLevel,
    /// Such as `fs.write`.
    pub side_effects: BTreeSet<String>,
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

    /// What a tool does, all of it.
    pub fn classify(&self, server: &str, tool: &str, description: &str) -> Classification {
        let given = self.given(server, tool);
        let mut told = Classification { category: self.category(server, tool), ..Default::default() };
        let mut risk = None;
        for text in [tool, description] {
            for_each_word(&folded(text), |word| hear(word, &mut risk, &mut told.side_effects));
        }
        told.risk = given.and_then(|given| given.risk_level).or(risk).unwrap_or(RiskLevel::Medium);
        if let Some(side_effects) = given.and_then(|given| given.side_effect_tags.as_ref()) {
            told.side_effects.clone_from(side_effects);
        }
        told
    }

    /// What a tool does.
    pub fn category(&self, server: &str, tool: &str) -> ToolCategory {
        self.given(server, tool).and_then(|given| given.category).unwrap_or_else(|| category_of(tool))
    }

    /// What an operator says of a tool.
    pub(crate) fn given(&self, server: &str, tool: &str) -> Option<&ClassifierOverride> {
        let matches = |(servers, tools, _): &&(NameGlob, NameGlob, ClassifierOverride)| {
            servers.matches(server) && tools.matches(tool)
        };
        self.overrides.iter().find(matches).map(|(_, _, given)| given)
    }
}

fn hear(word: &str, risk: &mut Option<RiskLevel>, side_effects: &mut BTreeSet<String>) {
    let Some(says) = SAYS.get(word) else { return };
    *risk = (*risk).max(says.risk);
    if let Some(tag) = says.side_effect
        && !side_effects.contains(tag)
    {
        side_effects.insert(tag.to_owned());
    }
}

/// The category of a name, by the words in it.
fn category_of(name: &str) -> ToolCategory {
    let name: &str = &folded(name);
    // `mcp__files__read_file`: what a client makes of a tool of the server `files`.
    let name = match name.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")) {
        Some((_, tool)) if !tool.is_empty() => tool,
        _ => name,
    };
    // `files.read`: the namespace says where, what is behind it says what.
    let inside = name.rsplit(['.', '/', ':']).next().unwrap_or(name);
    match category_of_words(inside) {
        ToolCategory::Unknown if inside.len() < name.len() => category_of_words(name),
        category => category,
    }
}

fn category_of_words(name: &str) -> ToolCategory {
    let (mut first, mut between) = (None, None);
    let mut last: Option<(ToolCategory, bool)> = None;
    let mut count = 0;
    for_each_word(name, |word| {
        let category = CATEGORIES.get(word).copied();
        if count == 0 {
            first = category;
        } else {
            between = between.or(last.map(|(category, _)| category));
            last = category.map(|category| (category, NOUNS_AT_THE_END.contains(&word)));
        }
        count += 1;
    });
    let last = last.filter(|(_, noun)| !noun).map(|(category, _)| category);
    first.or(last).or(between).unwrap_or_default()
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

#[cfg(test)]
mod tests;
