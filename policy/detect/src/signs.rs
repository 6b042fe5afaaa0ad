//! JSON texts in which nothing can be found.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use memchr::memchr_iter;

use super::budget::Budget;
use super::decode;
use super::finder::Finder;
use super::pattern::Pattern;
use super::probe::Matcher;
use super::rarity::{count, is_second_rarer};
use super::view::View;

/// Longest JSON text that is looked through for signs before it is inspected. Bytes.
const MAX_PLAIN: usize = 64 << 10;
/// Most places in it at which it is tried whether a pattern matches.
const MAX_LOOKS: usize = 16;
/// Most keys of such a text.
const MAX_PLAIN_KEYS: usize = 16;

/// Tells JSON texts in which nothing can be found, so that they need not be taken apart: nearly all arguments of calls.
#[derive(Debug)]
pub(super) struct Signs {
    /// Words of which every match has one.
    words: Finder,
    /// Of each of them, the patterns that need it.
    patterns: Vec<Vec<Arc<Pattern>>>,
    /// Patterns without such words.
    wordless: Vec<Arc<Pattern>>,
}

impl Signs {
    /// The signs of what these rules look for.
    pub(super) fn new(matcher: &Matcher) -> Self {
        let mut patterns: BTreeMap<&str, Vec<Arc<Pattern>>> = BTreeMap::new();
        let mut wordless = Vec::new();
        for pattern in matcher.probes.iter().flat_map(|probe| &probe.rule.compiled) {
            let slots = pattern.parts.iter().flat_map(|part| &part.slots);
            let Some(rarest) = slots.min_by_key(|slot| count(slot)) else {
                wordless.push(Arc::clone(pattern));
                continue;
            };
            for word in &rarest.words {
                // As the index looks for it: where the second of two words is the rarer one, by that.
                let word = if is_second_rarer(word) { &word.next } else { &word.text };
                patterns.entry(word).or_default().push(Arc::clone(pattern));
            }
        }
        let words = Finder::new(patterns.keys().copied());
        Self { words, patterns: patterns.into_values().collect(), wordless }
    }

    /// Whether the rules find nothing in any string or key of `json`. It is short and all printable ASCII, without
    /// escapes, so that each text is its own normal form and stands there as it is; no pattern begins to match in one;
    /// there is neither an encoding nor a sign of another spelling; and no key stands there twice.
    pub(super) fn are_missing(&self, json: &str) -> bool {
        let odd = |odd, byte| odd | !(b' '..=b'~').contains(&byte) | (byte == b'\\');
        if json.len() > MAX_PLAIN || json.bytes().fold(false, odd) || !self.are_strings_plain(json) {
            return false;
        }
        let (mut found, mut looks) = (false, 0);
        self.words.find(json.as_bytes(), 0..json.len(), |word, place| {
            if !found {
                looks += 1;
                let text = string_at(json, place);
                // Each look may take as long as the text.
                found = looks > MAX_LOOKS || self.patterns[word].iter().any(|pattern| matches(pattern, text));
            }
        });
        let (view, mut budget) = (View::raw(json), Budget::default());
        !found
            && decode::runs(&view, &mut budget).is_empty()
            && decode::respelt(&view, decode::Signs::of(json), &mut budget).is_empty()
            && !budget.exceeded
    }

    /// Whether no string of a JSON text without escapes is matched by a pattern that needs no word, and there are few
    /// keys, each once, in whichever object.
    fn are_strings_plain(&self, json: &str) -> bool {
        let (mut keys, mut known) = ([""; MAX_PLAIN_KEYS], 0);
        let mut quotes = memchr_iter(b'"', json.as_bytes());
        while let (Some(open), Some(close)) = (quotes.next(), quotes.next()) {
            let (text, after) = (&json[open + 1..close], &json[close + 1..]);
            if self.wordless.iter().any(|pattern| matches(pattern, text)) {
                return false;
            }
            if after.trim_ascii_start().starts_with(':') {
                if known == MAX_PLAIN_KEYS || keys[..known].contains(&text) {
                    return false;
                }
                keys[known] = text;
                known += 1;
            }
        }
        true
    }
}

/// Whether the first part of a pattern matches in `text`.
fn matches(pattern: &Pattern, text: &str) -> bool {
    pattern.parts.first().is_some_and(|part| part.regex.find_at(text.as_bytes(), 0).is_some())
}

/// What stands at `place` between two quotes, with the key before it or the string behind it that makes a member of it.
fn string_at(json: &str, place: Range<usize>) -> &str {
    let mut start = json[..place.start].rfind('"').map_or(0, |quote| quote + 1);
    let mut end = json[place.start..].find('"').map_or(json.len(), |length| place.start + length);
    let value = json[end..]
        .strip_prefix('"')
        .and_then(|rest| rest.trim_ascii_start().strip_prefix(':')?.trim_ascii_start().strip_prefix('"'));
    let key = json[..start]
        .strip_suffix('"')
        .and_then(|rest| rest.trim_ascii_end().strip_suffix(':')?.trim_ascii_end().strip_suffix('"'));
    if let Some(value) = value {
        end = json.len() - value.len() + value.find('"').unwrap_or(value.len());
    } else if let Some(key) = key {
        start = key.rfind('"').map_or(0, |quote| quote + 1);
    }
    &json[start..end]
}
