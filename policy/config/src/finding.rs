//! Something that is wrong with a configuration that was read, at a path in it.

use std::fmt;

use super::check::joined;
use super::problem::{did_you_mean, nearest};

/// One step of a path.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Into the value of a key.
    Key(String),
    /// Into an entry of a list.
    Index(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// Something that is wrong with a configuration that was read, at a path in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Where.
    pub path: Vec<Step>,
    /// What.
    pub message: String,
    /// The nearest valid word, where there is one.
    pub nearest: Option<String>,
}

impl Finding {
    /// One without a word that would be right.
    pub fn new(path: Vec<Step>, message: String) -> Self {
        Self { path, message, nearest: None }
    }

    /// With the valid word that is nearest to a wrong one, if one is near.
    pub fn nearest_of<'a>(self, wrong: &str, valid: impl Iterator<Item = &'a str>) -> Self {
        Self { nearest: nearest(wrong, valid), ..self }
    }
}

impl fmt::Display for Finding {
    /// `path: message; did you mean …?`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.iter().fold(String::new(), |path, step| match step {
            Step::Key(key) => joined(&path, key),
            Step::Index(index) => format!("{path}[{index}]"),
        });
        write!(formatter, "{path}: {}", self.message)?;
        did_you_mean(self.nearest.as_deref(), formatter)
    }
}

/// A path, by its steps.
#[macro_export]
macro_rules! steps {
    ($($step:expr),*) => { vec![$($crate::Step::from($step)),*] };
}
