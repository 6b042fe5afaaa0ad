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
        Self { level: Level::Error, at, path, message: without_passwords(&message), nearest: None }
    }

    pub(super) fn warning(at: Position, path: KeyPath, message: String) -> Self {
        Self { level: Level::Warning, ..Self::error(at, path, message) }
    }

    /// With the valid word that is nearest to a wrong one, if one is near.
    pub(super) fn nearest_of<'a>(self, wrong: &str, valid: impl Iterator<Item = &'a str>) -> Self {
        Self { nearest: nearest(wrong, valid), ..self }
    }
}

/// A text with as many `*` in place of each password in an address: `http://name:***@host`. In what is no valid address, too.
pub fn without_passwords(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, address) = rest.split_at(at + 3);
        shown.push_str(before);
        let end = address.find(['"', '\'', '`', '\n']).unwrap_or(address.len());
        rest = address;
        // The last `@` ends what names the user.
        let Some((login, _)) = address.get(..end).and_then(|address| address.rsplit_once('@')) else {
            continue;
        };
        let Some((user, password)) = login.split_once(':') else { continue };
        let is_port = password.split('/').next().is_some_and(|port| {
            port.len() < password.len() && !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
        });
        if user.contains('/') || is_port {
            continue;
        }
        shown.extend([user, ":"]);
        shown.extend(password.chars().map(|_| '*'));
        rest = address.get(login.len()..).unwrap_or_default();
    }
    shown.push_str(rest);
    shown
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_addresses_are_masked() {
        for (text, expected) in [
            (r#""http://lena:abc@ho st/" is not a URL"#, r#""http://lena:***@ho st/" is not a URL"#),
            ("url: https://lena:a b/c@x.test/y", "url: https://lena:*****@x.test/y"),
            ("http://:abc@x and http://l:de@y", "http://:*********************@y"),
            ("'http://:abc@x' and 'http://l:de@y'", "'http://:***@x' and 'http://l:**@y'"),
            ("http://x.test:8080/a@b", "http://x.test:8080/a@b"),
            ("http://lena@x.test/", "http://lena@x.test/"),
            ("http://x.test/a:b@c", "http://x.test/a:b@c"),
            ("a://", "a://"),
        ] {
            assert_eq!(without_passwords(text), expected);
        }
    }
}
