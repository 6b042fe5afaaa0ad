//! All rules of one scope, compiled: a text in, hits out.
//!
//! Two stages. First come the words without which no pattern can match; only where those of all its parts stand
//! close together does a pattern run. Most texts have no such place, and cost one pass. Both stages are linear in
//! the length of the text, and the second has a budget.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::budget::Budget;
use super::decode::{SIGNS, Signs, Spelling};
use super::index::{Index, Places, Region};
use super::pattern::{AFTER_GAP_BYTES, Pattern};
use super::rules::{Rule, Scope};
use super::scanner::Scanner;
use super::sentence::{SENTENCE_BYTES, end_of_sentence};
use super::structure::Structure;

/// How far from a hit others may be that are in one window with it. Bytes.
const WINDOW_BYTES: usize = 2 * SENTENCE_BYTES;

/// One match of one rule, in a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    /// Index into [`Matcher::rules`].
    pub(super) rule: u16,
    /// Where it begins in the view. Bytes.
    pub(super) start: usize,
    /// Where it ends.
    pub(super) end: usize,
    /// The words that it matches are those up to here, and those from there on: between them is what the rule does not regard.
    pub(super) gap: (usize, usize),
}

impl Hit {
    /// One without a gap.
    pub(super) fn whole(rule: u16, start: usize, end: usize) -> Self {
        Self { rule, start, end, gap: (end, end) }
    }
}

/// A rule as one scope needs it.
#[derive(Debug)]
pub(super) struct Probe {
    /// The rule.
    pub(super) rule: Rule,
    /// What it weighs in this scope.
    pub(super) weight: u32,
    /// Whether it only adds to others in this scope.
    pub(super) support: bool,
}

/// What inspecting one message takes: its budget, and memory.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// What is left.
    pub(super) budget: Budget,
    /// Signs of other spellings that were met.
    pub(super) signs: Signs,
    places: Places,
    regions: Vec<Region>,
}

/// The rules of one scope.
#[derive(Debug)]
pub(super) struct Matcher {
    /// The rules, by [`Hit::rule`].
    pub(super) probes: Vec<Probe>,
    structures: BTreeMap<Structure, u16>,
    /// Patterns of rules that are reported. Signs of other spellings are counted in the same pass.
    leading: Patterns,
    /// Patterns of rules that only add to those: they are looked for only near a hit of one.
    supporting: Patterns,
    /// The user's patterns: each stands for itself.
    plain: Patterns,
    /// Whether the learned scorer reads what these rules are for.
    pub(super) scored: bool,
    /// The engine that runs some of them, if there are such.
    pub(super) scanner: Option<Arc<dyn Scanner>>,
}

/// Patterns, and how they are found.
#[derive(Debug)]
struct Patterns {
    patterns: Vec<Source>,
    index: Index,
    /// Patterns without words: they run over every text.
    always: Vec<u16>,
}

/// A pattern, and whose it is.
#[derive(Debug)]
struct Source {
    /// The index of its rule.
    rule: u16,
    /// Whether that is about deeds: see [`Rule::affirmative`].
    affirmative: bool,
    pattern: Arc<Pattern>,
}

impl Matcher {
    /// Puts together the rules that have a weight in `scope`.
    pub(super) fn new(
        rules: &[Rule],
        scope: Scope,
        scanner: Option<&Arc<dyn Scanner>>,
    ) -> Result<Self, String> {
        let (mut probes, mut structures) = (Vec::new(), BTreeMap::new());
        let (mut leading, mut supporting, mut plain) = (Vec::new(), Vec::new(), Vec::new());
        for rule in rules {
            let Some(&weight) = rule.weights.get(&scope) else { continue };
            let index = u16::try_from(probes.len()).map_err(|_| "more than 65,535 rules".to_owned())?;
            if let Some(structure) = rule.structure {
                structures.insert(structure, index);
            }
            let support = rule.support.contains(&scope);
            let patterns = match (rule.plain, support) {
                (true, _) => &mut plain,
                (false, true) => &mut supporting,
                (false, false) => &mut leading,
            };
            patterns.extend(rule.compiled.iter().map(|pattern| Source {
                rule: index,
                affirmative: rule.affirmative,
                pattern: Arc::clone(pattern),
            }));
            probes.push(Probe { rule: rule.clone(), weight, support });
        }
        let (leading, supporting) = (Patterns::new(leading, &SIGNS)?, Patterns::new(supporting, &[])?);
        let plain = Patterns::new(plain, &[])?;
        let scored = matches!(scope, Scope::Definition | Scope::Result) && !probes.is_empty();
        let is_scanned = probes.iter().any(|probe: &Probe| probe.rule.scanned);
        let scanner = scanner.filter(|_| is_scanned).map(Arc::clone);
        Ok(Self { probes, structures, leading, supporting, plain, scored, scanner })
    }

    /// The rule with this id, if another engine runs it.
    pub(super) fn scanned(&self, id: &str) -> Option<u16> {
        let found = self.probes.iter().position(|probe| probe.rule.scanned && probe.rule.id == id);
        found.and_then(|index| u16::try_from(index).ok())
    }

    /// The rule that looks for `structure`, unless it is switched off.
    pub(super) fn structure(&self, structure: Structure) -> Option<u16> {
        self.structures.get(&structure).copied()
    }

    /// Rules with patterns that run over every text, since no word is known that they begin with.
    #[cfg(test)]
    pub(super) fn wordless(&self) -> Vec<&str> {
        let both = [&self.leading, &self.supporting];
        let rules = both
            .iter()
            .flat_map(|set| set.always.iter().map(|&number| set.patterns[usize::from(number)].rule));
        rules.map(|rule| self.probes[usize::from(rule)].rule.id.as_str()).collect()
    }

    /// Appends every hit of the user's patterns in these ranges of `text`.
    pub(super) fn scan_plain(
        &self,
        text: &str,
        ranges: &[Range<usize>],
        work: &mut Work,
        hits: &mut Vec<Hit>,
    ) {
        for range in ranges {
            self.plain.run_always(text.as_bytes(), range, work, hits);
        }
    }

    /// Whether the user has patterns.
    pub(super) fn has_plain(&self) -> bool {
        !self.plain.patterns.is_empty()
    }

    /// Appends every hit in these ranges of `text`, which do not overlap; those of supporting rules only near others.
    pub(super) fn scan(&self, text: &str, ranges: &[Range<usize>], work: &mut Work, hits: &mut Vec<Hit>) {
        let bytes = text.as_bytes();
        for range in ranges {
            self.leading.scan(bytes, range.clone(), work, hits);
        }
        if hits.is_empty() {
            return;
        }
        hits.sort_unstable_by_key(|hit| hit.start);
        let mut near: Vec<Range<usize>> = Vec::new();
        for hit in hits.iter() {
            let range = hit.start.saturating_sub(WINDOW_BYTES)..(hit.end + WINDOW_BYTES).min(bytes.len());
            match near.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => near.push(range),
            }
        }
        for range in near {
            self.supporting.scan(bytes, range, work, hits);
        }
    }
}

impl Patterns {
    fn new(patterns: Vec<Source>, signs: &[(String, Spelling)]) -> Result<Self, String> {
        let (index, always) = Index::new(patterns.iter().map(|source| &*source.pattern), signs)?;
        Ok(Self { patterns, index, always })
    }

    /// Appends the hits that begin in `range`, or a little behind it.
    fn scan(&self, text: &[u8], range: Range<usize>, work: &mut Work, hits: &mut Vec<Hit>) {
        self.run_always(text, &range, work, hits);
        let mut regions = std::mem::take(&mut work.regions);
        self.index.regions(text, range, &mut work.places, &mut work.signs, &mut regions);
        Region::merge(&mut regions);
        let (mut last, mut done) = (None, 0);
        for mut region in regions.drain(..) {
            // Only what is behind the hits in the region before.
            if last.replace(region.pattern) != Some(region.pattern) {
                done = 0;
            } else if region.start < done && region.anchored {
                continue;
            } else {
                region.start = region.start.max(done);
            }
            if region.start < region.end {
                done = done.max(self.run(region, text, work, hits));
            }
        }
        work.regions = regions;
    }

    /// Runs the patterns without words over all of a range.
    fn run_always(&self, text: &[u8], range: &Range<usize>, work: &mut Work, hits: &mut Vec<Hit>) {
        for &pattern in &self.always {
            let region = Region { pattern, start: range.start, end: range.end, anchored: false };
            self.run(region, text, work, hits);
        }
    }

    /// Runs one pattern over one region. Where its last hit ends comes back.
    fn run(&self, region: Region, text: &[u8], work: &mut Work, hits: &mut Vec<Hit>) -> usize {
        let mut done = 0;
        let Some(source) = self.patterns.get(usize::from(region.pattern)) else { return done };
        let Some((first, rest)) = source.pattern.parts.split_first() else { return done };
        let Some(left) = work.budget.bytes.checked_sub(region.end - region.start) else {
            work.budget.exceeded = true;
            return done;
        };
        work.budget.bytes = left;
        let haystack = &text[..region.end];
        let mut from = region.start;
        loop {
            let found = if region.anchored {
                first.regex.end_of_one_at(haystack, from).map(|end| from..end)
            } else if from <= haystack.len() {
                first.regex.find_at(haystack, from)
            } else {
                None
            };
            let Some(found) = found else { return done };
            let (mut end, mut last) = (Some(found.end), found.end);
            for part in rest {
                end = end.and_then(|end| {
                    // As far as what follows the gap may reach.
                    let limit = (end + part.gap + AFTER_GAP_BYTES).min(text.len());
                    let next = part.regex.find_at(&text[..end_of_sentence(text, end, limit)], end)?;
                    last = next.start;
                    Some(next.end)
                });
            }
            from = found.end.max(from + 1);
            if let Some(end) = end.filter(|_| !source.affirmative || !is_forbidden(text, found.start)) {
                if work.budget.hits == 0 {
                    work.budget.exceeded = true;
                    return done;
                }
                work.budget.hits -= 1;
                let gap = if rest.is_empty() { (end, end) } else { (found.end, last) };
                hits.push(Hit { rule: source.rule, start: found.start, end, gap });
                from = from.max(end);
                done = from;
            }
            if region.anchored {
                return done;
            }
        }
    }
}

/// Whether the word before `at` forbids what begins there: "never send", "don't send", and not "never fail to send".
fn is_forbidden(text: &[u8], at: usize) -> bool {
    let before = text[at.saturating_sub(16)..at].trim_ascii_end();
    let word = before.rsplit(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default();
    let word = word.to_ascii_lowercase();
    let forbids: [&[u8]; 7] = [b"not", b"never", b"cannot", b"avoid", b"without", b"neither", b"nor"];
    forbids.contains(&&*word) || word.ends_with(b"n't") || word.ends_with("n\u{2019}t".as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_act_is_recognized_by_preceding_word() {
        let cases = [
            ("never |send", true),
            ("Do NOT  |send", true),
            ("don't |send", true),
            ("don\u{2019}t\n|send", true),
            ("without |sending", true),
            ("|send", false),
            ("never fail to |send", false),
            ("cannot. |Send", false),
            ("not only |send", false),
            ("knot |send", false),
        ];
        for (text, expected) in cases {
            let at = text.find('|').unwrap();
            assert_eq!(is_forbidden(text.as_bytes(), at), expected, "{text}");
        }
    }
}
