//! All rules of one scope, compiled: a text in, hits out.
//!
//! Two stages. One automaton (Aho-Corasick) looks for the words without which no pattern can match; only around
//! those do the patterns themselves run. Most texts have no such word, and cost one pass. Both stages are linear
//! in the length of the text, and the second has a budget.

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, AhoCorasickKind};
use std::collections::BTreeMap;

use super::pattern::{self, Pattern};
use super::rules::{Rule, Scope, Structure};

/// How long the rest of a sentence that `…` stands for may be. Bytes.
pub const GAP_BYTES: usize = 90;
/// How long one part of a pattern is expected to be at most; a longer one may be missed. Bytes.
const PART_BYTES: usize = 160;

/// One match of one rule, in a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    /// Index into [`Matcher::rules`].
    pub(super) rule: u16,
    /// Where it begins in the view. Bytes.
    pub(super) start: usize,
    /// Where it ends.
    pub(super) end: usize,
}

/// A rule as one scope needs it.
#[derive(Debug)]
pub(super) struct Probe {
    /// The rule.
    pub(super) rule: Rule,
    /// What it weighs in this scope.
    pub(super) weight: u32,
}

/// How much work one message may take.
#[derive(Debug)]
pub(super) struct Budget {
    /// Bytes that patterns may still be run over.
    pub(super) bytes: usize,
    /// Hits that may still be found.
    pub(super) hits: usize,
    /// Bytes that may still come out of decoding.
    pub(super) decoded: usize,
    /// Whether one of them was not enough.
    pub(super) exceeded: bool,
}

impl Default for Budget {
    fn default() -> Self {
        Self { bytes: 64 << 20, hits: 20_000, decoded: 1 << 20, exceeded: false }
    }
}

/// The rules of one scope.
#[derive(Debug)]
pub(super) struct Matcher {
    /// The rules, by [`Hit::rule`].
    pub(super) probes: Vec<Probe>,
    structures: BTreeMap<Structure, u16>,
    patterns: Vec<(u16, Pattern)>,
    words: AhoCorasick,
    /// Of each word, the patterns it belongs to.
    owners: Vec<Vec<u16>>,
    /// Patterns without such words: they run over every text.
    always: Vec<u16>,
}

impl Matcher {
    /// Compiles the rules that have a weight in `scope`. Their patterns were checked with the rule files.
    pub(super) fn new(rules: &[Rule], scope: Scope) -> Result<Self, String> {
        let mut probes = Vec::new();
        let (mut structures, mut patterns, mut always) = (BTreeMap::new(), Vec::new(), Vec::new());
        let mut words: BTreeMap<String, Vec<u16>> = BTreeMap::new();
        for rule in rules {
            let Some(&weight) = rule.weights.get(&scope) else { continue };
            let index = u16::try_from(probes.len()).map_err(|_| "more than 65,535 rules".to_owned())?;
            if let Some(structure) = rule.structure {
                structures.insert(structure, index);
            }
            for text in &rule.patterns {
                let compiled =
                    pattern::compile(text).map_err(|reason| format!("rule {}: {reason}", rule.id))?;
                let number =
                    u16::try_from(patterns.len()).map_err(|_| "more than 65,535 patterns".to_owned())?;
                if compiled.words.is_empty() {
                    always.push(number);
                }
                for word in &compiled.words {
                    words.entry(word.clone()).or_default().push(number);
                }
                patterns.push((index, compiled));
            }
            probes.push(Probe { rule: rule.clone(), weight });
        }
        let automaton = AhoCorasickBuilder::new()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(words.keys())
            .map_err(|error| error.to_string())?;
        Ok(Self {
            probes,
            structures,
            patterns,
            words: automaton,
            owners: words.into_values().collect(),
            always,
        })
    }

    /// The rule that looks for `structure`, unless it is switched off.
    pub(super) fn structure(&self, structure: Structure) -> Option<u16> {
        self.structures.get(&structure).copied()
    }

    /// Appends every hit in `text`, in no order.
    pub(super) fn scan(&self, text: &str, budget: &mut Budget, hits: &mut Vec<Hit>) {
        let bytes = text.as_bytes();
        for &number in &self.always {
            self.run(number, bytes, 0..bytes.len(), budget, hits);
        }
        // Of each pattern, the region that is still growing.
        let mut open: Vec<(usize, usize)> = Vec::new();
        let step = GAP_BYTES + PART_BYTES;
        for found in self.words.find_overlapping_iter(bytes) {
            if open.is_empty() {
                open.resize(self.patterns.len(), (0, 0));
            }
            for &number in &self.owners[found.pattern().as_usize()] {
                let Some((_, pattern)) = self.patterns.get(usize::from(number)) else { continue };
                let start = found.start().saturating_sub(pattern.anchor * step);
                let end = (found.start() + (pattern.parts.len() - pattern.anchor) * step).min(bytes.len());
                let region = &mut open[usize::from(number)];
                if start <= region.1 && region.1 > 0 {
                    region.1 = end;
                } else {
                    let (start, end) = std::mem::replace(region, (start, end));
                    self.run(number, bytes, start..end, budget, hits);
                }
            }
        }
        for (number, (start, end)) in open.into_iter().enumerate() {
            if let Ok(number) = u16::try_from(number) {
                self.run(number, bytes, start..end, budget, hits);
            }
        }
    }

    /// Runs one pattern over one region.
    fn run(
        &self,
        number: u16,
        text: &[u8],
        region: std::ops::Range<usize>,
        budget: &mut Budget,
        hits: &mut Vec<Hit>,
    ) {
        let Some((rule, pattern)) = self.patterns.get(usize::from(number)) else { return };
        let Some((first, rest)) = pattern.parts.split_first() else { return };
        if region.is_empty() {
            return;
        }
        let Some(left) = budget.bytes.checked_sub(region.len()) else {
            budget.exceeded = true;
            return;
        };
        budget.bytes = left;
        let haystack = &text[..region.end];
        let mut from = region.start;
        while let Some(found) = (from <= haystack.len()).then(|| first.find_at(haystack, from)).flatten() {
            let mut end = Some(found.end());
            for part in rest {
                end = end.and_then(|end| {
                    let gap = &text[..gap_end(text, end)];
                    part.find_at(gap, end).map(|next| next.end())
                });
            }
            from = found.end().max(from + 1);
            let Some(end) = end else { continue };
            if budget.hits == 0 {
                budget.exceeded = true;
                return;
            }
            budget.hits -= 1;
            hits.push(Hit { rule: *rule, start: found.start(), end });
            from = from.max(end);
        }
    }
}

/// Where the gap that begins at `from` ends at the latest: with the sentence, or when it is too long. What follows
/// the gap may begin up to there, and be as long as a part is.
fn gap_end(text: &[u8], from: usize) -> usize {
    let limit = (from + GAP_BYTES + PART_BYTES / 4).min(text.len());
    let mut at = from;
    while at < limit {
        if ends_sentence(text, at) {
            return at;
        }
        at += 1;
    }
    limit
}

/// Whether a sentence ends with the byte at `at`: a stop with white space after it, or a blank line.
pub(super) fn ends_sentence(text: &[u8], at: usize) -> bool {
    let after = text.get(at + 1);
    match text.get(at) {
        Some(b'.' | b'!' | b'?') => after.is_none_or(u8::is_ascii_whitespace),
        Some(b'\n') => {
            let mut rest =
                text[at + 1..].iter().take(16).skip_while(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
            rest.next() == Some(&b'\n')
        }
        // The ideographic full stop, whose first two bytes are E3 80.
        Some(0x82) => at >= 2 && text[at - 2..at] == [0xe3, 0x80],
        _ => false,
    }
}
