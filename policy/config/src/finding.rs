//! Something that is wrong with a configuration that was read, at a path in it.

use std::fmt;

use super::path::{KeyPath, Step};
use super::problem::{did_you_mean, nearest};

/// Something that is wrong with a configuration that was read, at a path in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Where.
    pub path: KeyPath,
    /// What.
    pub message: String,
    /// The nearest valid word, where there is one.
    pub nearest: Option<String>,
}

impl Finding {
    /// One without a word that would be right.
    pub fn new(path: Vec<Step>, message: String) -> Self {
        Self { path: KeyPath(path), message, nearest: None }
    }

    /// With the valid word that is nearest to a wrong one, if one is near.
    pub fn nearest_of<'a>(self, wrong: &str, valid: impl Iterator<Item = &'a str>) -> Self {
        Self { nearest: nearest(wrong, valid), ..self }
    }
}

impl fmt::Display for Finding {
    /// `path: message; did you mean …?`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.path, self.message)?;
        did_you_mean(self.nearest.as_deref(), formatter)
    }
}
