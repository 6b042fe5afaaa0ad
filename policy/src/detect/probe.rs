//! All rules of one scope, compiled: a text in, hits out.
//!
//! Two stages. First come the words without which no pattern can match; only where those of all its parts stand
//! close together does a pattern run. Most texts have no such place, and cost one pass. Both stages are linear in
//! the length of the text, and the second has a budget.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::finder::Finder;
use super::pattern::{Pattern, Slot};
use super::rules::{Rule, Scope, Structure};
/// How long the rest of a sentence that `…` stands for may be. Bytes.
pub const GAP_BYTES: usize = 90;
/// How long the few words that `‥` stands for may be. Bytes.
pub const SHORT_GAP_BYTES: usize = 45;
/// How long one part of a pattern is expected to be at most; a longer one may be missed. Bytes.
const PART_BYTES: usize = 160;
/// How far from a hit others may be that are in one window with it. Bytes.
const WINDOW_BYTES: usize = 2 * super::window::SENTENCE_BYTES;
/// How far the beginnings of two parts may be apart. Bytes.
const STEP_BYTES: usize = GAP_BYTES + PART_BYTES;

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

/// How much work one message may take, and memory to do it in.
#[derive(Debug)]
pub(super) struct Work {
    /// Bytes that patterns may still be run over.
    pub(super) bytes: usize,
    /// Hits that may still be found.
    pub(super) hits: usize,
    /// Bytes that may still come out of decoding.
    pub(super) decoded: usize,
    /// Whether one of them was not enough.
    pub(super) exceeded: bool,
    links: Vec<Link>,
    regions: Vec<Region>,
    /// Tells links of this scan from those of earlier ones.
    scan: u32,
}

impl Default for Work {
    fn default() -> Self {
        Self {
            bytes: 64 << 20,
            hits: 20_000,
            decoded: 1 << 20,
            exceeded: false,
            links: Vec::new(),
            regions: Vec::new(),
            scan: 0,
        }
    }
}

/// Of one slot of one pattern: where its words, after those of all slots before it, were seen last.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    scan: u32,
    /// Where the word stands.
    at: usize,
    /// Where the match may begin.
    origin: usize,
}

/// Where a pattern is to be run, still growing.
#[derive(Clone, Copy, Debug)]
struct Region {
    pattern: u16,
    start: usize,
    end: usize,
}

/// A slot that a word belongs to.
#[derive(Clone, Debug)]
struct Owner {
    /// What has to follow the word: one of these, in small letters. Empty: anything.
    next: Vec<Box<[u8]>>,
    /// The first bytes of those, as bits.
    first: u128,
    pattern: u16,
    /// Index of the slot's link. The one before it is that of the slot before it.
    link: u32,
    /// Whether there is a slot before it.
    follows: bool,
    /// How far behind that one it may stand; of the first slot, how far before it the match may begin. Bytes.
    behind: u32,
    /// Of the last slot, how far from it the match may end. Bytes.
    ahead: Option<u32>,
}

/// The rules of one scope.
#[derive(Debug)]
pub(super) struct Matcher {
    /// The rules, by [`Hit::rule`].
    pub(super) probes: Vec<Probe>,
    structures: BTreeMap<Structure, u16>,
    /// Patterns of rules that are reported.
    leading: Patterns,
    /// Patterns of rules that only add to those: they are looked for only near a hit of one.
    supporting: Patterns,
}

/// Patterns, and how they are found.
#[derive(Debug)]
struct Patterns {
    /// Each with the index of its rule.
    patterns: Vec<(u16, Arc<Pattern>)>,
    words: Finder,
    /// Of each word, the slots that it belongs to.
    owners: Vec<Vec<Owner>>,
    /// Patterns without words: they run over every text.
    always: Vec<u16>,
    links: usize,
}

impl Matcher {
    /// Puts together the rules that have a weight in `scope`.
    pub(super) fn new(rules: &[Rule], scope: Scope) -> Result<Self, String> {
        let (mut probes, mut structures) = (Vec::new(), BTreeMap::new());
        let (mut leading, mut supporting) = (Vec::new(), Vec::new());
        for rule in rules {
            let Some(&weight) = rule.weights.get(&scope) else { continue };
            let index = u16::try_from(probes.len()).map_err(|_| "more than 65,535 rules".to_owned())?;
            if let Some(structure) = rule.structure {
                structures.insert(structure, index);
            }
            let patterns = if rule.support { &mut supporting } else { &mut leading };
            patterns.extend(rule.compiled.iter().map(|pattern| (index, Arc::clone(pattern))));
            probes.push(Probe { rule: rule.clone(), weight });
        }
        let (leading, supporting) = (Patterns::new(leading)?, Patterns::new(supporting)?);
        Ok(Self { probes, structures, leading, supporting })
    }

    /// The rule that looks for `structure`, unless it is switched off.
    pub(super) fn structure(&self, structure: Structure) -> Option<u16> {
        self.structures.get(&structure).copied()
    }

    /// Rules with patterns that run over every text, since no word is known that they begin with.
    #[cfg(test)]
    pub(super) fn wordless(&self) -> Vec<&str> {
        let both = [&self.leading, &self.supporting];
        let rules =
            both.iter().flat_map(|set| set.always.iter().map(|&number| set.patterns[usize::from(number)].0));
        rules.map(|rule| self.probes[usize::from(rule)].rule.id.as_str()).collect()
    }

    /// Appends every hit in `text`; those of supporting rules only near others.
    pub(super) fn scan(&self, text: &str, work: &mut Work, hits: &mut Vec<Hit>) {
        let bytes = text.as_bytes();
        self.leading.scan(bytes, 0..bytes.len(), work, hits);
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
    fn new(patterns: Vec<(u16, Arc<Pattern>)>) -> Result<Self, String> {
        let (mut always, mut links) = (Vec::new(), 0);
        let mut words: BTreeMap<&str, Vec<Owner>> = BTreeMap::new();
        for (number, (_, pattern)) in patterns.iter().enumerate() {
            let number = u16::try_from(number).map_err(|_| "more than 65,535 patterns".to_owned())?;
            let owned = own(number, pattern, links, &mut words);
            if owned == 0 {
                always.push(number);
            }
            links += owned;
        }
        let finder = Finder::new(words.keys().copied());
        let owners = words.into_values().collect();
        Ok(Self { patterns, words: finder, owners, always, links })
    }

    /// Appends the hits that begin in `range`, or a little behind it.
    fn scan(&self, text: &[u8], range: Range<usize>, work: &mut Work, hits: &mut Vec<Hit>) {
        for &number in &self.always {
            self.run(Region { pattern: number, start: range.start, end: range.end }, text, work, hits);
        }
        work.scan = work.scan.wrapping_add(1);
        work.links.resize(work.links.len().max(self.links), Link::default());
        let mut regions = std::mem::take(&mut work.regions);
        self.words.find(text, range, |word, place| {
            let next = next_word(text, place.end);
            for owner in &self.owners[word] {
                if owner.goes_on(next) {
                    chain(owner, place.start, text.len(), work, &mut regions);
                }
            }
        });
        // By pattern, so that what overlaps comes together.
        regions.sort_unstable_by_key(|region| (region.pattern, region.start));
        let mut open: Option<Region> = None;
        for region in regions.drain(..) {
            match &mut open {
                Some(last) if last.pattern == region.pattern && region.start <= last.end => {
                    last.end = last.end.max(region.end);
                }
                _ => {
                    if let Some(done) = open.replace(region) {
                        self.run(done, text, work, hits);
                    }
                }
            }
        }
        if let Some(last) = open {
            self.run(last, text, work, hits);
        }
        work.regions = regions;
    }

    /// Runs one pattern over one region.
    fn run(&self, region: Region, text: &[u8], work: &mut Work, hits: &mut Vec<Hit>) {
        let Some((rule, pattern)) = self.patterns.get(usize::from(region.pattern)) else { return };
        let Some((first, rest)) = pattern.parts.split_first() else { return };
        let Some(left) = work.bytes.checked_sub(region.end - region.start) else {
            work.exceeded = true;
            return;
        };
        work.bytes = left;
        let haystack = &text[..region.end];
        let mut from = region.start;
        while let Some(found) =
            (from <= haystack.len()).then(|| first.regex.find_at(haystack, from)).flatten()
        {
            let mut end = Some(found.end());
            for part in rest {
                end = end.and_then(|end| {
                    let gap = &text[..gap_end(text, end, part.gap)];
                    part.regex.find_at(gap, end).map(|next| next.end())
                });
            }
            from = found.end().max(from + 1);
            let Some(end) = end else { continue };
            if work.hits == 0 {
                work.exceeded = true;
                return;
            }
            work.hits -= 1;
            hits.push(Hit { rule: *rule, start: found.start(), end });
            from = from.max(end);
        }
    }
}

/// Enters the words of a pattern's slots. How many slots it has.
fn own<'p>(
    number: u16,
    pattern: &'p Pattern,
    base: usize,
    words: &mut BTreeMap<&'p str, Vec<Owner>>,
) -> usize {
    // Of each slot, the part that it is in.
    let slots: Vec<(usize, &Slot)> = pattern
        .parts
        .iter()
        .enumerate()
        .flat_map(|(part, it)| it.slots.iter().map(move |slot| (part, slot)))
        .collect();
    for (index, &(part, slot)) in slots.iter().enumerate() {
        // Of bytes and of parts there are too few for anything to be cut off.
        let reach = |steps: usize| u32::try_from(steps * STEP_BYTES).unwrap_or(u32::MAX);
        let before = index.checked_sub(1).map(|before| slots[before].0);
        let owner = Owner {
            next: Vec::new(),
            first: 0,
            pattern: number,
            link: u32::try_from(base + index).unwrap_or(u32::MAX),
            follows: before.is_some(),
            behind: match before {
                Some(before) => reach((part - before).max(1)),
                None => reach(part + usize::from(!slot.leads)),
            },
            ahead: (index + 1 == slots.len()).then(|| reach(pattern.parts.len() - part)),
        };
        // They are sorted: those with the same word come together, the one without a next word first.
        for same in slot.words.chunk_by(|a, b| a.text == b.text) {
            let mut owner = owner.clone();
            if same.iter().all(|word| !word.next.is_empty()) {
                owner.next = same.iter().map(|word| word.next.as_bytes().into()).collect();
                owner.first = owner.next.iter().fold(0, |bits, next| bits | first_bit(next));
            }
            words.entry(&same[0].text).or_default().push(owner);
        }
    }
    slots.len()
}

impl Owner {
    /// Whether the text goes on as it has to: `next` is what follows the white space after the word, if there is any.
    fn goes_on(&self, next: Option<&[u8]>) -> bool {
        if self.next.is_empty() {
            return true;
        }
        let Some(text) = next.filter(|text| first_bit(text) & self.first != 0) else { return false };
        self.next
            .iter()
            .any(|next| text.get(..next.len()).is_some_and(|text| text.eq_ignore_ascii_case(next)))
    }
}

/// The bit of the first byte, whatever its case; of other bytes than ASCII, one for all.
fn first_bit(text: &[u8]) -> u128 {
    text.first().map_or(0, |byte| 1 << (byte.to_ascii_lowercase().min(127)))
}

/// What follows the white space at `end`, if there is any.
fn next_word(text: &[u8], end: usize) -> Option<&[u8]> {
    let rest = text.get(end..)?;
    let blanks = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    (blanks > 0).then(|| &rest[blanks..])
}

/// Notes that a word of a slot stands at `at`. Where those of all slots do, within reach of each other, that is a
/// region to run the pattern in.
fn chain(owner: &Owner, at: usize, length: usize, work: &mut Work, regions: &mut Vec<Region>) {
    let scan = work.scan;
    let here = owner.link as usize;
    let origin = if owner.follows {
        match work.links.get(here - 1) {
            Some(before) if before.scan == scan && at.saturating_sub(before.at) <= owner.behind as usize => {
                before.origin
            }
            _ => return,
        }
    } else {
        at.saturating_sub(owner.behind as usize)
    };
    let Some(link) = work.links.get_mut(here) else { return };
    // One chain may begin before another ends: the earlier origin serves both.
    let near = link.scan == scan && at.saturating_sub(link.at) <= STEP_BYTES;
    let origin = if near { origin.min(link.origin) } else { origin };
    *link = Link { scan, at, origin };
    if let Some(ahead) = owner.ahead {
        let end = (at + ahead as usize).min(length);
        match regions.last_mut() {
            Some(last) if last.pattern == owner.pattern && last.start == origin => last.end = end,
            _ => regions.push(Region { pattern: owner.pattern, start: origin, end }),
        }
    }
}

/// Where the gap that begins at `from` ends at the latest: with the sentence, or when it is too long. What follows
/// the gap may begin up to there, and be as long as a part is.
fn gap_end(text: &[u8], from: usize, gap: usize) -> usize {
    let limit = (from + gap + PART_BYTES / 4).min(text.len());
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
