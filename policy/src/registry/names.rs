//! Names that are taken for one another: the same one, the same in another spelling, in look-alike letters, or
//! nearly the same.

mod typo;

use std::collections::{BTreeMap, HashMap};

use crate::detect::folded;

/// Shortest name of which another one is a near-duplicate. Shorter ones differ in a letter by nature (`get`, `set`).
const MIN_SIMILAR: usize = 5;
/// Most letters of a name of which another one is a near-duplicate: the protocol's own bound.
const MAX_SIMILAR: usize = 128;
/// Most letters by which near-duplicates differ, however long they are.
const MAX_EDITS: usize = 5;
/// Most names of which one claim looks at the letters, and most letters that it compares: what a flood of names can cost.
const MAX_LOOKS: usize = 4_096;
const MAX_STEPS: usize = 32_768;
/// The same of all claims of one list.
const LIST_LOOKS: usize = 1 << 22;
const LIST_STEPS: usize = 1 << 22;

/// What the claims of one list may still cost.
#[derive(Debug)]
pub(super) struct Effort {
    looks: usize,
    steps: usize,
}

impl Default for Effort {
    fn default() -> Self {
        Self { looks: LIST_LOOKS, steps: LIST_STEPS }
    }
}

/// How two names are alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Likeness {
    /// Byte by byte.
    Same,
    /// But for case and separators: `read_file`, `read-file`, `readFile`.
    Spelling,
    /// But for letters that look alike, and what nobody sees.
    Confusable,
    /// But for a letter that is doubled or left out, or two that are swapped.
    Typo,
    /// But for a few letters.
    Similar,
}

/// A name in lower case without separators.
fn spelling(name: &str) -> String {
    let kept = name.chars().filter(|c| !is_separator(*c));
    let spelt: String = kept.flat_map(char::to_lowercase).collect();
    // A name of nothing but separators is itself.
    if spelt.is_empty() { name.to_owned() } else { spelt }
}

/// Whether names are parted by it: also what only looks like a hyphen, a dot or a slash.
fn is_separator(c: char) -> bool {
    let hyphens = matches!(
        c,
        '-' | '\u{2d7}' | '\u{2010}'
            ..='\u{2015}' | '\u{2043}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' | '\u{ff0d}'
    );
    let dots = matches!(
        c,
        '.' | ':' | '\u{b7}' | '\u{2022}' | '\u{2024}' | '\u{2027}' | '\u{2219}' | '\u{22c5}' | '\u{30fb}'
    );
    let slashes = matches!(c, '/' | '\u{2044}' | '\u{2215}' | '\u{29f8}');
    // Those of `c++` and `c#` are part of the name.
    let others = matches!(c, ',' | ';' | '!' | '~' | '|' | '=' | '\'' | '"' | '(' | ')');
    // U+2800 is a blank by its looks alone.
    c == '_' || others || hyphens || dots || slashes || c.is_whitespace() || c == '\u{2800}'
}

/// The form in which names are compared: that of [`spelling`], of the text as it looks (see `detect::fold`), and with
/// what looks alike in most type faces made one: `0` and `o`, `1`, `i` and `l`, `rn` and `m`, `vv` and `w`.
fn skeleton(name: &str) -> String {
    spelling(&folded(name))
        .replace('ß', "ss")
        .replace('0', "o")
        .replace(['1', '|', 'i'], "l")
        .replace("rn", "m")
        .replace("vv", "w")
}

/// The same of the name of a server. Digits in place of letters count, since few such names have a number.
fn skeleton_of_server(name: &str) -> String {
    skeleton(name).replace('3', "e").replace('4', "a").replace('5', "s").replace('7', "t")
}

/// The name of a server without the words that most of them have: `mcp-server-git` is `git`.
pub(super) fn core_of_server(name: &str) -> String {
    let is_common = |word: &str| ["mcp", "server"].contains(&folded(word).to_ascii_lowercase().as_str());
    let core = name
        .split(|c| is_separator(c) || c == '@')
        .filter(|word| !word.is_empty() && !is_common(word))
        .collect::<Vec<_>>()
        .join("-");
    if core.is_empty() { name.to_owned() } else { core }
}

/// Who came first with a name. Owners are numbers that the caller gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct First {
    pub(super) owner: usize,
    pub(super) name: String,
    /// Since when they have it.
    pub(super) since: u64,
}

/// What became of a name that was taken.
#[derive(Debug, PartialEq)]
pub(super) enum Claim {
    /// Nobody else has one like it.
    Free,
    /// Somebody had it first.
    Later(First, Likeness),
    /// Somebody had it in this session, and later than this one: they have it second now.
    Earlier(First, Likeness),
    /// It is like no other, and there is no room for it.
    Refused,
}

/// The names in use, by what they are compared in. Adding one costs one look-up, and a bounded comparison with those of
/// about its length.
#[derive(Debug)]
pub(super) struct Names {
    skeleton: fn(&str) -> String,
    all: Vec<Known>,
    /// Where each is among all, by its skeleton.
    by_skeleton: HashMap<String, usize>,
    /// The same by length in characters, with which letters a name has, as bits.
    by_length: BTreeMap<usize, Vec<(u64, usize)>>,
    /// Names that were not compared since one claim, and one list, may take so many steps only.
    pub(super) not_compared: u64,
}

/// A name in use.
#[derive(Debug)]
struct Known {
    skeleton: String,
    first: First,
}

impl Default for Names {
    /// Names of tools.
    fn default() -> Self {
        Self {
            skeleton,
            all: Vec::new(),
            by_skeleton: HashMap::new(),
            by_length: BTreeMap::new(),
            not_compared: 0,
        }
    }
}

impl Names {
    /// Names of servers, as [`core_of_server`] has them.
    pub(super) fn of_servers() -> Self {
        Self { skeleton: skeleton_of_server, ..Self::default() }
    }

    /// How many names there are.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Takes the name of `claim` for its owner. With `room` false no name is added that is like no other.
    pub(super) fn claim(&mut self, claim: First, threshold: f64, room: bool, effort: &mut Effort) -> Claim {
        let skeleton = (self.skeleton)(&claim.name);
        let known = self.by_skeleton.get(&skeleton).and_then(|index| self.all.get_mut(*index));
        if let Some(Known { first, .. }) = known {
            let likeness = likeness(&first.name, &claim.name);
            return if first.owner == claim.owner {
                first.since = first.since.min(claim.since);
                Claim::Free
            } else if claim.since < first.since {
                Claim::Earlier(std::mem::replace(first, claim), likeness)
            } else {
                Claim::Later(first.clone(), likeness)
            };
        }
        let found = self.similar(claim.owner, &skeleton, threshold, effort);
        let name = claim.name.clone();
        if room {
            let (length, letters) = shape(&skeleton);
            self.by_length.entry(length).or_default().push((letters, self.all.len()));
            self.by_skeleton.insert(skeleton.clone(), self.all.len());
            self.all.push(Known { skeleton, first: claim });
        }
        match found {
            Some(first) if typo::is_typo(&first.name, &name) => Claim::Later(first, Likeness::Typo),
            Some(first) => Claim::Later(first, Likeness::Similar),
            None if room => Claim::Free,
            None => Claim::Refused,
        }
    }

    /// The nearest name of another owner's, if it is near enough; of two, the one that was there before.
    fn similar(
        &mut self,
        owner: usize,
        skeleton: &str,
        threshold: f64,
        effort: &mut Effort,
    ) -> Option<First> {
        let (length, letters) = shape(skeleton);
        if length < MIN_SIMILAR {
            return None;
        }
        if length > MAX_SIMILAR {
            self.not_compared += 1;
            return None;
        }
        let most = edits(length, threshold);
        let pattern = Pattern::new(skeleton);
        let mut nearest: Option<(usize, &First)> = None;
        let (mut looks, mut steps) = (MAX_LOOKS.min(effort.looks), MAX_STEPS.min(effort.steps));
        let (all_looks, all_steps) = (looks, steps);
        let range = length.saturating_sub(most).max(MIN_SIMILAR)..=(length + most).min(MAX_SIMILAR);
        for (&other_length, names) in self.by_length.range(range) {
            let allowed = edits(length.max(other_length), threshold);
            self.not_compared += names.len().saturating_sub(looks) as u64;
            let looked_at = names.iter().take(looks);
            looks = looks.saturating_sub(names.len());
            for (other_letters, index) in looked_at {
                // An edit changes at most two letters of the set.
                let apart = (letters ^ other_letters).count_ones() as usize;
                if apart > 2 * allowed {
                    continue;
                }
                let Some(other) = self.all.get(*index).filter(|known| known.first.owner != owner) else {
                    continue;
                };
                if steps == 0 {
                    self.not_compared += 1;
                    continue;
                }
                let best = nearest.map_or(allowed, |(best, _)| allowed.min(best.saturating_sub(1)));
                if let Some(distance) = pattern.distance(&other.skeleton, other_length, best, &mut steps)
                    && nearest.is_none_or(|(best, _)| distance < best)
                {
                    nearest = Some((distance, &other.first));
                }
            }
        }
        effort.looks -= all_looks - looks;
        effort.steps -= all_steps - steps;
        nearest.map(|(_, first)| first.clone())
    }
}

/// A name of at most [`MAX_SIMILAR`] letters that others are compared with: of each of its letters, where it stands, as bits.
struct Pattern {
    length: usize,
    ascii: [u128; 128],
    others: Vec<(char, u128)>,
}

impl Pattern {
    fn new(name: &str) -> Self {
        let mut pattern = Self { length: 0, ascii: [0; 128], others: Vec::new() };
        for letter in name.chars().take(MAX_SIMILAR) {
            let bit = 1 << pattern.length;
            pattern.length += 1;
            if let Some(places) = pattern.ascii.get_mut(letter as usize) {
                *places |= bit;
            } else if let Some((_, places)) = pattern.others.iter_mut().find(|(known, _)| *known == letter) {
                *places |= bit;
            } else {
                pattern.others.push((letter, bit));
            }
        }
        pattern
    }

    fn places(&self, letter: char) -> u128 {
        let other =
            || self.others.iter().find(|(known, _)| *known == letter).map_or(0, |(_, places)| *places);
        self.ascii.get(letter as usize).copied().unwrap_or_else(other)
    }

    /// How many letters are added, left out, replaced or swapped with the next one between two names; `None` for more than
    /// `most`. `length`: the other's, in letters. Each letter that is compared is taken off `steps`; when none is left, `None`.
    ///
    /// All rows of a column of the table of distances at once, as differences of one (Hyyrö 2003, "A bit-vector algorithm
    /// for computing Levenshtein and Damerau edit distances").
    fn distance(&self, other: &str, length: usize, most: usize, steps: &mut usize) -> Option<usize> {
        let last = 1_u128 << self.length.checked_sub(1)?;
        let (mut plus, mut minus, mut diagonal, mut before) = (u128::MAX, 0_u128, 0_u128, 0_u128);
        let (mut distance, mut left) = (self.length, length);
        for letter in other.chars() {
            *steps = steps.checked_sub(1)?;
            left = left.saturating_sub(1);
            let places = self.places(letter);
            let swapped = ((!diagonal & places) << 1) & before;
            diagonal = ((places & plus).wrapping_add(plus) ^ plus) | places | minus | swapped;
            let (more, less) = (minus | !(diagonal | plus), diagonal & plus);
            distance += usize::from(more & last != 0);
            distance -= usize::from(less & last != 0);
            // What is left can make it less by as many.
            if distance > most + left {
                return None;
            }
            let (more, less) = (more << 1 | 1, less << 1);
            (plus, minus) = (less | !(diagonal | more), more & diagonal);
            before = places;
        }
        (distance <= most).then_some(distance)
    }
}

/// How many letters of so many may differ: the share that `threshold` leaves, in whole letters, and at most 5.
fn edits(length: usize, threshold: f64) -> usize {
    (((1.0 - threshold.clamp(0.5, 1.0)) * length as f64).round() as usize).min(MAX_EDITS)
}

/// Length in characters, and the set of its characters, folded to 64 bits.
fn shape(skeleton: &str) -> (usize, u64) {
    skeleton.chars().fold((0, 0), |(length, letters), c| (length + 1, letters | 1 << (u32::from(c) % 64)))
}

fn likeness(first: &str, name: &str) -> Likeness {
    if first == name {
        Likeness::Same
    } else if spelling(first) == spelling(name) {
        Likeness::Spelling
    } else {
        Likeness::Confusable
    }
}

#[cfg(test)]
mod tests;
