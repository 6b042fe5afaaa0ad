//! What is wrong with a rule file, and where.

use serde_saphyr::Spanned;

/// What is wrong with a rule file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {what}; expected {expected}")]
pub struct RuleError {
    /// Name of the file; where it is none, what stands in its place.
    pub file: String,
    /// Line, from 1; 0 where it is not known.
    pub line: u64,
    /// Column, from 1; 0 where it is not known.
    pub column: u64,
    /// What was found.
    pub what: String,
    /// What should have been there.
    pub expected: String,
}

impl RuleError {
    pub(super) fn at<T>(
        file: &str,
        place: &Spanned<T>,
        what: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        let (line, column) = (place.referenced.line(), place.referenced.column());
        Self { file: file.into(), line, column, what: what.into(), expected: expected.into() }
    }

    /// One without a place in a file.
    pub(crate) fn nowhere(file: &str, what: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { file: file.into(), line: 0, column: 0, what: what.into(), expected: expected.into() }
    }
}
