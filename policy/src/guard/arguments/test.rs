//! One test of one argument.

use serde_json::Value;

use super::host::{self, Hosts};
use super::path;
use super::tree::Tree;
use super::{Purpose, Truth};
use crate::config::{AnyOf, ArgumentTest};
use crate::glob::{GlobError, NameGlob};

/// A test, compiled. All that is given must hold.
#[derive(Clone, Debug)]
pub(super) struct CompiledTest {
    exists: Option<bool>,
    equal: Option<Vec<Value>>,
    prefix: Option<Vec<String>>,
    glob: Option<Vec<NameGlob>>,
    min: Option<f64>,
    max: Option<f64>,
    hosts: Option<Hosts>,
    below: Option<Vec<String>>,
    min_length: Option<u32>,
    max_length: Option<u32>,
    not: Option<Box<CompiledTest>>,
}

impl CompiledTest {
    pub(super) fn new(test: &ArgumentTest) -> Result<Self, GlobError> {
        let texts = |texts: &AnyOf<String>| texts.iter().cloned().collect();
        let globs =
            |globs: &AnyOf<crate::config::Glob>| globs.iter().map(|glob| glob.compile(true)).collect();
        Ok(Self {
            exists: test.exists,
            equal: test.equal.clone().map(|value| match value {
                Value::Array(values) => values,
                value => vec![value],
            }),
            prefix: test.prefix.as_ref().map(texts),
            glob: test.glob.as_ref().map(globs).transpose()?,
            min: test.min,
            max: test.max,
            hosts: test.host.as_ref().map(|hosts| Hosts::new(hosts.iter())).transpose()?,
            below: test.below.as_ref().map(|all| all.iter().map(|one| one.as_str().to_owned()).collect()),
            min_length: test.min_length,
            max_length: test.max_length,
            not: test.not.as_deref().map(Self::new).transpose()?.map(Box::new),
        })
    }

    /// Whether it holds for the values that stand for an argument: of one that denies for one of them, of one that allows
    /// for all. `null` is not there.
    pub(super) fn holds(&self, values: &[&Tree], purpose: Purpose) -> Truth {
        let mut there = values.iter().filter(|value| ***value != Tree::Null).copied().peekable();
        let is_there = there.peek().is_some();
        let of_values = || match is_there {
            true => purpose.of(there.map(|value| self.holds_for(value))),
            // Nothing that is not there is anything; unless nothing is asked of the value.
            false => Truth::of(!self.asks_for_value()),
        };
        let exists = self.exists.map(|exists| Truth::of(exists == is_there));
        let not = self.not.as_ref().map(|not| not.holds(values, purpose.inverse()).not());
        Truth::all(exists.into_iter().chain(not).chain([of_values()]))
    }

    /// What a text is to it, by what [patterns](Self::patterns) tell of the text; `None`: they do not.
    pub(super) fn told(&self, text: &str) -> Option<Truth> {
        let value = Tree::Text(text.to_owned());
        let without = Self { hosts: None, below: None, min: None, max: None, not: None, ..self.clone() };
        let without = Self { exists: None, min_length: None, max_length: None, ..without };
        let of_number = self.min.is_some() || self.max.is_some();
        let of_length = self.min_length.is_some() || self.max_length.is_some();
        let untold = self.hosts.is_some() || of_number || of_length;
        let parts = [
            Some(without.holds_for(&value)),
            self.exists.map_or(Some(Truth::Yes), |exists| Some(Truth::of(exists))),
            self.not.as_ref().map_or(Some(Truth::Yes), |not| not.told(text).map(Truth::not)),
            self.below.as_ref().map_or(Some(Truth::Yes), |all| {
                let below = || Truth::any(all.iter().map(|directory| path::is_below(text, directory)));
                path::is_plain(text).then(below)
            }),
            if untold { None } else { Some(Truth::Yes) },
        ];
        if parts.contains(&Some(Truth::No)) {
            return Some(Truth::No);
        }
        let told: Option<Vec<Truth>> = parts.into_iter().collect();
        told.map(|all| Truth::all(all.into_iter()))
    }

    /// Whether [`Self::told`] tells of every text, or of every plain path.
    pub(super) fn is_complete(&self) -> bool {
        let of_number = self.min.is_some() || self.max.is_some();
        let of_length = self.min_length.is_some() || self.max_length.is_some();
        !(self.hosts.is_some() || of_number || of_length)
            && self.not.as_ref().is_none_or(|not| not.is_complete())
    }

    /// Regular expressions of texts: those that match the same of them are the same to the test.
    pub(super) fn patterns(&self, all: &mut Vec<String>) {
        let escape = |text: &String| regex::escape(text);
        // What is no text and may be one to a server: see `equal`.
        all.extend(self.equal.iter().flatten().filter_map(|value| match value {
            Value::String(text) => Some(escape(text)),
            Value::Bool(_) | Value::Number(_) => {
                Some(format!(r"\s*(?-u:(?i:{}))\s*", regex::escape(value.to_string().trim())))
            }
            _ => None,
        }));
        all.extend(self.prefix.iter().flatten().map(|text| format!("{}(?s:.*)", escape(text))));
        all.extend(self.glob.iter().flatten().map(NameGlob::inner_expression));
        if let Some(below) = &self.below {
            all.extend(path::PLAIN.iter().map(|plain| (*plain).to_owned()));
            all.extend(below.iter().map(|directory| path::expression(directory)));
        }
        if let Some(not) = &self.not {
            not.patterns(all);
        }
    }

    fn asks_for_value(&self) -> bool {
        let Self { equal, prefix, glob, min, max, hosts, below, min_length, max_length, .. } = self;
        let of_text = prefix.is_some() || glob.is_some() || hosts.is_some() || below.is_some();
        let of_number = min.is_some() || max.is_some() || min_length.is_some() || max_length.is_some();
        equal.is_some() || of_text || of_number
    }

    fn holds_for(&self, value: &Tree) -> Truth {
        if *value == Tree::Unreadable && self.asks_for_value() {
            return Truth::Unknown;
        }
        let text = value.as_text();
        let of_text = |holds: &dyn Fn(&str) -> Truth| text.as_deref().map_or(Truth::Unknown, holds);
        let equal = self.equal.as_ref().map(|all| equal(value, all));
        let prefix = self.prefix.as_ref().map(|all| {
            of_text(&|text| Truth::of(all.iter().any(|prefix| text.starts_with(prefix.as_str()))))
        });
        let glob = self
            .glob
            .as_ref()
            .map(|all| of_text(&|text| Truth::of(all.iter().any(|glob| glob.matches(text)))));
        let hosts = self.hosts.as_ref().map(|hosts| of_text(&|text| host::is_among(text, hosts)));
        let below = self.below.as_ref().map(|all| {
            of_text(&|text| Truth::any(all.iter().map(|directory| path::is_below(text, directory))))
        });
        let number = (self.min.is_some() || self.max.is_some()).then(|| self.in_range(value));
        let length = (self.min_length.is_some() || self.max_length.is_some()).then(|| self.has_length(value));
        Truth::all([equal, prefix, glob, hosts, below, number, length].into_iter().flatten())
    }

    fn in_range(&self, value: &Tree) -> Truth {
        let number = match value {
            Tree::Integer(number) => Some(*number as f64),
            Tree::Number(number) => Some(*number),
            // Servers take digits for a number, too.
            Tree::Text(text) => text.trim().parse().ok(),
            _ => None,
        };
        match number.filter(|number| number.is_finite()) {
            Some(number) => Truth::of(
                self.min.is_none_or(|least| number >= least) && self.max.is_none_or(|most| number <= most),
            ),
            None => Truth::Unknown,
        }
    }

    fn has_length(&self, value: &Tree) -> Truth {
        let length = match value {
            Tree::Text(text) => text.chars().count(),
            Tree::List(items) => items.len(),
            Tree::Map(members) => members.len(),
            _ => return Truth::Unknown,
        };
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        Truth::of(
            self.min_length.is_none_or(|least| length >= least)
                && self.max_length.is_none_or(|most| length <= most),
        )
    }
}

/// Whether a value is one of these. `"5"` may be 5 to a server, and `"true"` true.
fn equal(value: &Tree, all: &[Value]) -> Truth {
    if all.iter().any(|one| value.is(one)) {
        return Truth::Yes;
    }
    let is_like = |one: &Value| match one {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(one.to_string()),
        _ => None,
    };
    let is_text = |one: &Value| matches!((value, one), (Tree::Text(_), Value::String(_)));
    let text = value.as_text().map(|text| text.trim().to_ascii_lowercase());
    let is_alike = all.iter().any(|one| {
        !is_text(one) && text.is_some() && is_like(one).map(|one| one.trim().to_ascii_lowercase()) == text
    });
    if is_alike { Truth::Unknown } else { Truth::No }
}
