//! What is wrong with a rule, and where.

use std::fmt;

use serde_saphyr::Spanned;

/// What is wrong with a rule file, or with a pattern of the user's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {what}; expected {expected}")]
pub struct RuleError {
    /// Where.
    pub at: RulePlace,
    /// What was found.
    pub what: String,
    /// What should have been there.
    pub expected: String,
}

/// Where a rule stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RulePlace {
    /// In a rule file.
    File {
        /// Name of the file; where it is none, what stands in its place.
        name: String,
        /// Line, from 1; 0 where it is not known.
        line: u64,
        /// Column, from 1; 0 where it is not known.
        column: u64,
    },
    /// In the configuration: the pattern of the user's with this name.
    Pattern(String),
}

impl RulePlace {
    /// Line and column in a rule file; 0 where they are not known.
    pub fn position(&self) -> (u64, u64) {
        match self {
            Self::File { line, column, .. } => (*line, *column),
            Self::Pattern(_) => (0, 0),
        }
    }
}

impl fmt::Display for RulePlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name, line, column } => write!(formatter, "{name}:{line}:{column}"),
            Self::Pattern(name) => write!(formatter, "custom pattern {name:?}"),
        }
    }
}

impl RuleError {
    fn new(at: RulePlace, what: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { at, what: what.into(), expected: expected.into() }
    }

    /// One at a line and a column of a file.
    /// At a line and a column of a rule file, from 1.
    pub fn in_file(
        file: &str,
        (line, column): (u64, u64),
        what: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self::new(RulePlace::File { name: file.into(), line, column }, what, expected)
    }

    /// One where something stands in a file.
    pub(super) fn at<T>(
        file: &str,
        place: &Spanned<T>,
        what: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self::in_file(file, (place.referenced.line(), place.referenced.column()), what, expected)
    }

    /// One in a pattern of the user's.
    pub(super) fn in_pattern(name: &str, what: impl Into<String>, expected: impl Into<String>) -> Self {
        Self::new(RulePlace::Pattern(name.into()), what, expected)
    }

    /// One without a place in a file.
    pub(crate) fn nowhere(file: &str, what: impl Into<String>, expected: impl Into<String>) -> Self {
        Self::in_file(file, (0, 0), what, expected)
    }
}
