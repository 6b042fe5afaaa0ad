//! What is wrong with a configuration, and where.

use std::fmt;

use serde::Serialize;

use super::path::KeyPath;

/// Most problems that are listed: a file of nothing but mistakes has as many of them as lines.
pub const MAX_PROBLEMS: usize = 100;

/// Where in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Position {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// How many characters of the line are meant.
    pub width: usize,
}

impl Default for Position {
    fn default() -> Self {
        Self { line: 1, column: 1, width: 1 }
    }
}

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The file cannot be used.
    Error,
    /// It can, and does not do what somebody may think it does.
    Warning,
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if *self == Self::Error { "error" } else { "warning" })
    }
}

/// One thing that is wrong. Its texts repeat what stands in the file: escape them before they reach a terminal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Problem {
    /// How bad it is.
    pub level: Level,
    /// Where it is.
    #[serde(flatten)]
    pub at: Position,
    /// Which key.
    pub path: KeyPath,
    /// What was found, and what was expected.
    pub message: String,
    /// The nearest valid word, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
}

impl Problem {
    pub(super) fn error(at: Position, path: KeyPath, message: String) -> Self {
        Self { level: Level::Error, at, path, message, nearest: None }
    }

    pub(super) fn warning(at: Position, path: KeyPath, message: String) -> Self {
        Self { level: Level::Warning, ..Self::error(at, path, message) }
    }

    /// With the valid word that is nearest to a wrong one, if one is near.
    pub(super) fn nearest_of<'a>(self, wrong: &str, valid: impl Iterator<Item = &'a str>) -> Self {
        Self { nearest: nearest(wrong, valid), ..self }
    }
}

/// How like the wrong word, from 0 to 1, a word must be at least to be the one that was meant.
const NEAR: f64 = 0.8;

/// The valid word that is nearest to a wrong one, if one is near.
pub(super) fn nearest<'a>(wrong: &str, valid: impl Iterator<Item = &'a str>) -> Option<String> {
    // Words of the configuration are short; comparing costs the product of the lengths.
    if wrong.len() > 64 {
        return None;
    }
    let valid: Vec<&str> = valid.collect();
    let likeness = |word: &str| strsim::jaro_winkler(wrong, word);
    let best = valid.iter().max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    let whole = best.filter(|word| likeness(word) > NEAR);
    // `open` where it is `fail_open`; where several have such a part, none of them is meant more than the others.
    let has_part = |word: &&&str| word.split('_').any(|part| likeness(part) > NEAR);
    let mut with_part = valid.iter().filter(has_part);
    let only = with_part.next().filter(|_| with_part.next().is_none());
    whole.or(only).map(|word| (*word).to_owned())
}

/// Writes the nearest valid word as a question, where there is one.
pub(super) fn did_you_mean(nearest: Option<&str>, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    nearest.map_or(Ok(()), |word| write!(formatter, "; did you mean `{word}`?"))
}

impl fmt::Display for Problem {
    /// `path: message; did you mean …?`, without the place.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path != KeyPath::default() {
            write!(formatter, "{}: ", self.path)?;
        }
        formatter.write_str(&self.message)?;
        did_you_mean(self.nearest.as_deref(), formatter)
    }
}

/// Problems as they are found.
#[derive(Debug, Default)]
pub(super) struct Problems {
    list: Vec<Problem>,
    unlisted: usize,
}

impl Problems {
    pub fn add(&mut self, problem: Problem) {
        if self.list.len() < MAX_PROBLEMS || problem.level == Level::Error && !self.any_error() {
            self.list.push(problem);
        } else {
            self.unlisted += 1;
        }
    }

    pub fn any_error(&self) -> bool {
        self.list.iter().any(|problem| problem.level == Level::Error)
    }

    /// All of them, in the order of the file.
    pub fn finish(mut self) -> Vec<Problem> {
        // Of an entry of which it is not known whom it is about, nothing else is worth saying.
        let errors = self.list.iter().filter(|problem| problem.level == Level::Error);
        let undecided: Vec<KeyPath> = errors.filter_map(|error| error.path.owner_of("match")).collect();
        self.list.retain(|problem| {
            problem.level == Level::Error || !undecided.iter().any(|entry| problem.path.is_within(entry))
        });
        self.list.sort_by_key(|problem| problem.at);
        if self.unlisted > 0 {
            let at = self.list.last().map_or_else(Position::default, |last| last.at);
            let message = format!("{} more problems are not listed", self.unlisted);
            let level = if self.any_error() { Level::Error } else { Level::Warning };
            self.list.push(Problem { level, ..Problem::error(at, KeyPath::default(), message) });
        }
        self.list
    }
}
