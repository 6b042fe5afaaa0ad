//! What the texts of a message belong to: the tool, and what it is about.

use std::collections::BTreeSet;

use super::concepts::{CONCEPTS, flatten};

/// What the text belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Context {
    /// The name of the tool and those of its parameters.
    own: BTreeSet<Box<str>>,
    /// Concepts of its name and of its first sentence.
    pub(super) topic: u64,
}

impl Context {
    /// Of a tool of this name, with the beginning of its description and its parameters.
    pub(crate) fn new<'n>(name: &'n str, start: &str, parameters: impl IntoIterator<Item = &'n str>) -> Self {
        let own = parameters.into_iter().chain([name]).map(|name| name.to_ascii_lowercase().into()).collect();
        let mut flat = String::new();
        flatten(&crate::names::words(name).text, &mut flat);
        flatten(start, &mut flat);
        let mut topic = 0;
        CONCEPTS.find(&flat, |_, mask| topic |= mask);
        Self { own, topic }
    }

    /// Whether a name is the tool's or one of its parameters'.
    pub(super) fn is_own(&self, name: &str) -> bool {
        self.own.contains(name.to_ascii_lowercase().as_str())
    }
}
