//! The path of a key, and how it is written.

use std::fmt;

use serde::{Serialize, Serializer};

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// A path, by its steps.
#[macro_export]
macro_rules! steps {
    ($($step:expr),*) => { vec![$($crate::Step::from($step)),*] };
}

/// The path of a key, from the top of the file; empty for the file as a whole. It is written `policy.denied_tools[2].tool`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPath(pub Vec<Step>);

impl KeyPath {
    /// The path of keys alone, with dots between them.
    pub(super) fn dotted(keys: &str) -> Self {
        Self(keys.split('.').map(Step::from).collect())
    }

    /// One step further.
    pub(super) fn with(&self, step: impl Into<Step>) -> Self {
        Self(self.0.iter().cloned().chain([step.into()]).collect())
    }

    /// Whether it is the other path, or leads on from it.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }

    /// The path of what has the key `key`, where this path leads on from that key.
    pub(super) fn owner_of(&self, key: &str) -> Option<Self> {
        let at = self.0.iter().position(|step| matches!(step, Step::Key(step) if step == key))?;
        (at > 0 && at + 1 < self.0.len()).then(|| Self(self.0.iter().take(at).cloned().collect()))
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(formatter, "[{index}]")?,
                Step::Key(key) if !is_plain(key) => write!(formatter, "[{}]", quoted(key))?,
                Step::Key(key) if at == 0 => formatter.write_str(key)?,
                Step::Key(key) => write!(formatter, ".{key}")?,
            }
        }
        Ok(())
    }
}

impl Serialize for KeyPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Whether a key is written without quotes.
fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|one| one.is_alphanumeric() || one == '_' || one == '-')
}

/// A text of the file's in a message.
pub(super) fn quoted(text: &str) -> String {
    const MOST: usize = 60;
    let start: String = text.chars().take(MOST).collect();
    if start.len() < text.len() { format!("\"{start}…\"") } else { format!("\"{start}\"") }
}
