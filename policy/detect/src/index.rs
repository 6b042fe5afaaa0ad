//! Where patterns may match: an index of a text, as a search engine makes one.
//!
//! A match has a word of each slot of its pattern, in order and within reach of each other. So one pass over the text
//! notes where words of each slot stand, and a pattern is then looked up from its slot with the fewest: most
//! patterns have one that does not come up at all, and cost nothing more. Slots of common words are left out where a
//! pattern has a rarer one: to enter those words would cost more than they spare.

use std::collections::BTreeMap;
use std::ops::Range;

use super::decode::{Signs, Spelling};
use super::finder::Finder;
use super::pattern::{AFTER_GAP_BYTES, Pattern, Slot, Word};
use super::rarity::{COMMON, count, is_second_rarer};

/// How much of a text is indexed at a time. Bytes.
const CHUNK_BYTES: usize = 32 << 10;
/// From so many regions on, those that overlap become one, wherever matches begin in them: a text of nothing but words of
/// rules has as many as it has words.
const CROWD: usize = 32_768;

/// Which words patterns have, and in what order.
#[derive(Debug)]
pub(super) struct Index {
    finder: Finder,
    /// Of each word, the classes that it is in.
    members: Vec<Membership>,
    /// The patterns whose rarest slot is of a class, by that class.
    rarest: Vec<Vec<Sequence>>,
    /// The longest way from the first slot of a pattern to its last. Bytes.
    reach: usize,
}

/// A class is the set of words of a slot; many slots share one.
type Class = u16;

/// The classes that a word is in.
#[derive(Debug, Default)]
struct Membership {
    /// What it is a sign of.
    sign: Option<Spelling>,
    always: Vec<Class>,
    /// Those that it is in where a certain word follows, by that, which is in small letters.
    before: Vec<(Box<[u8]>, Vec<Class>)>,
    /// The first bytes of those, as bits.
    first: u128,
    /// Those that it is in as the second word, where a certain word stands before it, which is more common than it.
    behind: Vec<(Box<[u8]>, Vec<Class>)>,
}

/// The slots of a pattern that are looked for.
#[derive(Debug)]
struct Sequence {
    pattern: u16,
    /// The class of each, and how far behind the slot before it it may stand; of the first one, how far before it the
    /// match may begin.
    slots: Vec<(Class, usize)>,
    /// How long the pattern's first part may be.
    length: usize,
    /// Whether a match begins where a word of the first of them stands.
    begins: bool,
}

/// Where the first part of a pattern is to be looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) pattern: u16,
    pub(super) start: usize,
    pub(super) end: usize,
    /// Whether it can only begin at the start.
    pub(super) anchored: bool,
}

/// Memory to index a text in.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// The classes of the words of a chunk, and where those stand in it, ascending.
    entries: Vec<(Class, u32)>,
    /// Of each class how many there are; 0 again when the chunk is done.
    counts: Vec<u32>,
    /// The classes of which there is one.
    seen: Vec<Class>,
    /// The places by class, and of each class where its places end in there.
    sorted: Vec<u32>,
    ends: Vec<u32>,
    /// Of each slot of a pattern, how far its places were gone through.
    cursors: Vec<usize>,
}

impl Index {
    /// Indexes what these need, and signs of other spellings. The numbers of those of which no word is known come with it.
    pub(super) fn new<'p>(
        patterns: impl Iterator<Item = &'p Pattern>,
        signs: &'p [(String, Spelling)],
    ) -> Result<(Self, Vec<u16>), String> {
        let (mut wordless, mut sequences) = (Vec::new(), Vec::new());
        let mut classes: BTreeMap<&[Word], Class> = BTreeMap::new();
        for (number, pattern) in patterns.enumerate() {
            let number = u16::try_from(number).map_err(|_| "more than 65,535 patterns".to_owned())?;
            match Sequence::new(number, pattern, &mut classes) {
                Some(sequence) => sequences.push(sequence),
                None => wordless.push(number),
            }
        }
        let mut members: BTreeMap<&str, Membership> = BTreeMap::new();
        let mut nexts: BTreeMap<(&str, &str), Vec<Class>> = BTreeMap::new();
        let mut behind = nexts.clone();
        for (words, class) in &classes {
            // They are sorted: those with the same text come together, the one that anything may follow first.
            for same in words.chunk_by(|a, b| a.text == b.text) {
                if same[0].next.is_empty() {
                    members.entry(&same[0].text).or_default().always.push(*class);
                    continue;
                }
                for word in same {
                    if is_second_rarer(word) {
                        behind.entry((&word.next, &word.text)).or_default().push(*class);
                    } else {
                        nexts.entry((&word.text, &word.next)).or_default().push(*class);
                    }
                }
            }
        }
        for ((word, next), classes) in nexts {
            // In order of `next`.
            let member = members.entry(word).or_default();
            member.first |= first_bit(next.as_bytes());
            member.before.push((next.as_bytes().into(), classes));
        }
        for ((word, previous), classes) in behind {
            members.entry(word).or_default().behind.push((previous.as_bytes().into(), classes));
        }
        for (sign, spelling) in signs {
            members.entry(sign).or_default().sign = Some(*spelling);
        }
        let reach = |sequence: &Sequence| sequence.slots.iter().skip(1).map(|slot| slot.1).sum();
        let reach = sequences.iter().map(|(_, sequence)| reach(sequence)).max().unwrap_or(0);
        let mut rarest: Vec<Vec<Sequence>> = Vec::new();
        rarest.resize_with(classes.len(), Vec::new);
        for (class, sequence) in sequences {
            rarest[usize::from(class)].push(sequence);
        }
        let finder = Finder::new(members.keys().copied());
        Ok((Self { finder, members: members.into_values().collect(), rarest, reach }, wordless))
    }

    /// Appends where patterns may match whose words all stand in `range`; one place may come several times. Counts the
    /// signs that begin there.
    pub(super) fn regions(
        &self,
        text: &[u8],
        range: Range<usize>,
        places: &mut Places,
        signs: &mut Signs,
        regions: &mut Vec<Region>,
    ) {
        let mut cursors = std::mem::take(&mut places.cursors);
        let mut from = range.start;
        while from < range.end {
            let to = (from + CHUNK_BYTES).min(range.end);
            // What began in the chunk before may end in this one.
            let chunk = from.saturating_sub(self.reach).max(range.start)..to;
            let base = chunk.start;
            self.finder.find(text, chunk, |word, place| {
                let member = &self.members[word];
                if let Some(spelling) = member.sign.filter(|_| place.start >= from) {
                    signs.count(spelling);
                }
                member.enter(text, base, place, &mut places.entries);
            });
            if !places.entries.is_empty() {
                places.sort(self.rarest.len());
                for class in &places.seen {
                    for sequence in &self.rarest[usize::from(*class)] {
                        sequence.regions(places, &mut cursors, base, text.len(), regions);
                    }
                }
                places.clear();
            }
            from = to;
        }
        places.cursors = cursors;
    }
}

impl Membership {
    /// Notes that the word stands at `place`, counted from `base` on.
    #[inline]
    fn enter(&self, text: &[u8], base: usize, place: Range<usize>, entries: &mut Vec<(Class, u32)>) {
        // A chunk is shorter than 4 GiB.
        let at = (place.start - base) as u32;
        entries.extend(self.always.iter().map(|class| (*class, at)));
        if !self.behind.is_empty() {
            let before = text[base..place.start].trim_ascii_end();
            for (word, classes) in self.behind.iter().filter(|_| before.len() < at as usize) {
                if before.len() >= word.len()
                    && before[before.len() - word.len()..].eq_ignore_ascii_case(word)
                {
                    let at = (before.len() - word.len()) as u32;
                    entries.extend(classes.iter().map(|class| (*class, at)));
                }
            }
        }
        let Some(next) = (self.first != 0).then(|| next_word(text, place.end)).flatten() else { return };
        if first_bit(next) & self.first == 0 {
            return;
        }
        let byte = next.first().map_or(0, u8::to_ascii_lowercase);
        let from = self.before.partition_point(|(word, _)| word.first() < Some(&byte));
        for (word, classes) in self.before[from..].iter().take_while(|(word, _)| word.first() == Some(&byte))
        {
            if next.get(..word.len()).is_some_and(|next| next.eq_ignore_ascii_case(word)) {
                entries.extend(classes.iter().map(|class| (*class, at)));
            }
        }
    }
}

impl Places {
    /// Sorts the entries by class; there are so many classes.
    fn sort(&mut self, classes: usize) {
        self.counts.resize(self.counts.len().max(classes), 0);
        self.ends.resize(self.ends.len().max(classes), 0);
        for &(class, _) in &self.entries {
            let count = &mut self.counts[usize::from(class)];
            if *count == 0 {
                self.seen.push(class);
            }
            *count += 1;
        }
        let mut end = 0;
        for &class in &self.seen {
            self.ends[usize::from(class)] = end;
            end += self.counts[usize::from(class)];
        }
        self.sorted.resize(self.entries.len(), 0);
        for &(class, at) in &self.entries {
            let end = &mut self.ends[usize::from(class)];
            self.sorted[*end as usize] = at;
            *end += 1;
        }
        // A word that was found by the one behind it comes late.
        for &class in &self.seen {
            let (count, end) = (self.counts[usize::from(class)], self.ends[usize::from(class)]);
            let places = &mut self.sorted[(end - count) as usize..end as usize];
            if !places.is_sorted() {
                places.sort_unstable();
            }
        }
    }

    /// Where words of a class stand, ascending.
    fn of(&self, class: Class) -> &[u32] {
        let (count, end) = (self.counts[usize::from(class)] as usize, self.ends[usize::from(class)] as usize);
        if count == 0 { &[] } else { &self.sorted[end - count..end] }
    }

    fn clear(&mut self) {
        self.entries.clear();
        for class in self.seen.drain(..) {
            self.counts[usize::from(class)] = 0;
        }
    }
}

impl Sequence {
    /// The slots of a pattern that are worth looking for, after the class of the rarest; `None` where it has none.
    fn new<'p>(
        number: u16,
        pattern: &'p Pattern,
        classes: &mut BTreeMap<&'p [Word], Class>,
    ) -> Option<(Class, Self)> {
        let parts = pattern.parts.iter().enumerate();
        let all: Vec<(usize, &Slot)> =
            parts.flat_map(|(part, it)| it.slots.iter().map(move |slot| (part, slot))).collect();
        let rarest = all.iter().map(|(_, slot)| count(slot)).min()?;
        let (mut slots, mut class_of_rarest) = (Vec::new(), None);
        let (mut before, mut begins) = (None, false);
        for (place, &(part, slot)) in all.iter().enumerate() {
            let count = count(slot);
            if count > COMMON.max(rarest) {
                continue;
            }
            let fresh = Class::try_from(classes.len()).ok()?;
            let class = *classes.entry(&slot.words).or_insert(fresh);
            if count == rarest {
                class_of_rarest.get_or_insert(class);
            }
            // How far behind the end of the part of the slot before, or behind the beginning of the first part.
            let from = before.unwrap_or(0);
            let gaps = pattern.parts[from..=part].iter().skip(1).map(|part| part.gap + AFTER_GAP_BYTES);
            let way =
                if part == from { slot.ahead } else { pattern.parts[from].length + gaps.sum::<usize>() };
            begins |= place == 0 && pattern.parts.first().is_some_and(|first| first.begins_with_word);
            slots.push((class, way));
            before = Some(part);
        }
        let length = pattern.parts.first()?.length;
        Some((class_of_rarest?, Self { pattern: number, slots, length, begins }))
    }

    /// Appends where the pattern may match, ascending. Places count from `base` on.
    fn regions(
        &self,
        places: &Places,
        cursors: &mut Vec<usize>,
        base: usize,
        length: usize,
        regions: &mut Vec<Region>,
    ) {
        let of = |slot: usize| places.of(self.slots[slot].0);
        let Some(rarest) = (0..self.slots.len()).min_by_key(|slot| of(*slot).len()) else { return };
        if of(rarest).is_empty() {
            return;
        }
        cursors.clear();
        cursors.resize(self.slots.len(), 0);
        'places: for &place in of(rarest) {
            let (mut start, mut low) = (place as usize, place as usize);
            for slot in (0..rarest).rev() {
                low = low.saturating_sub(self.slots[slot + 1].1);
                let first = advance(of(slot), &mut cursors[slot], low);
                match first {
                    Some(first) if first <= place as usize => start = first,
                    _ => continue 'places,
                }
            }
            let mut high = place as usize;
            for (slot, cursor) in cursors.iter_mut().enumerate().skip(rarest + 1) {
                high += self.slots[slot].1;
                if advance(of(slot), cursor, place as usize).is_none_or(|first| first > high) {
                    continue 'places;
                }
            }
            // One byte more, so that it is seen whether a word ends there.
            let end = (base + place as usize + self.length + 1).min(length);
            let pattern = self.pattern;
            if self.begins {
                let from = if rarest == 0 { of(0).partition_point(|at| *at < place) } else { cursors[0] };
                let starts = of(0)[from..].iter().take_while(|at| **at <= place);
                for start in starts.map(|at| base + *at as usize) {
                    Region { pattern, start, end, anchored: true }.add(regions);
                }
            } else {
                let start = (base + start).saturating_sub(self.slots[0].1);
                Region { pattern, start, end, anchored: false }.add(regions);
            }
        }
    }
}

impl Region {
    /// Appends it, or makes the last one larger by it. They come in order of their starts.
    fn add(self, regions: &mut Vec<Self>) {
        let crowded = regions.len() >= CROWD;
        match regions.last_mut() {
            Some(last) if last.pattern == self.pattern && last.takes(&self, crowded) => {
                last.anchored &= self.anchored && self.start <= last.start;
                last.end = last.end.max(self.end);
            }
            _ => regions.push(self),
        }
    }

    /// Whether one of the same pattern that begins no earlier can be part of this one.
    fn takes(&self, next: &Self, crowded: bool) -> bool {
        let overlap = next.start <= self.end;
        if self.anchored && !crowded { next.anchored && next.start <= self.start } else { overlap }
    }

    /// Puts those together that are one, in order of patterns and places.
    pub(super) fn merge(regions: &mut Vec<Self>) {
        regions.sort_unstable_by_key(|region| (region.pattern, region.start, region.anchored));
        regions.dedup_by(|next, last| {
            let same = next.pattern == last.pattern && last.takes(next, false);
            if same {
                last.end = last.end.max(next.end);
            }
            same
        });
    }
}

/// The first place from `least` on. The cursor only goes forth, in steps that double.
fn advance(places: &[u32], cursor: &mut usize, least: usize) -> Option<usize> {
    let mut step = 1;
    while places.get(*cursor + step).is_some_and(|place| (*place as usize) < least) {
        *cursor += step;
        step *= 2;
    }
    let within = places.get(*cursor..places.len().min(*cursor + step + 1))?;
    *cursor += within.partition_point(|place| (*place as usize) < least);
    places.get(*cursor).map(|place| *place as usize)
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

#[cfg(test)]
mod tests {
    use super::super::decode::SIGNS;
    use super::super::pattern::compile;
    use super::*;

    const PATTERNS: [&str; 3] = [r"\bnever (?:\w+ ){0,9}tell\b … \busers?", r"\btell\b … \bnever", "[a-z]+@"];

    fn regions(text: &str, range: Range<usize>) -> Vec<Region> {
        let patterns = PATTERNS.map(|source| compile(source).unwrap());
        let (index, wordless) = Index::new(patterns.iter(), &[]).unwrap();
        assert_eq!(wordless, [2]);
        let mut regions = Vec::new();
        index.regions(text.as_bytes(), range, &mut Places::default(), &mut Signs::default(), &mut regions);
        regions
    }

    /// Text, the patterns that may match in it.
    #[test]
    fn pattern_is_candidate_where_its_words_are_in_order() {
        let far = "and so on ".repeat(80);
        let cases: &[(String, &[u16])] = &[
            ("Never ever TELL the user".into(), &[0]),
            ("tell the user never".into(), &[1]),
            ("user, tell never".into(), &[1]),
            ("never tell, never tell users".into(), &[0, 1]),
            ("never ever told the user".into(), &[]),
            ("nevertheless tell the user".into(), &[0]),
            ("fornever tell the user".into(), &[]),
            (format!("never {far} tell the user"), &[]),
            (format!("never tell {far} user"), &[]),
            (format!("never {far} never tell {far} tell the user"), &[]),
            (format!("never tell {far} never tell the user {far} user"), &[0]),
            (String::new(), &[]),
        ];
        for (text, expected) in cases {
            let mut found: Vec<u16> =
                regions(text, 0..text.len()).iter().map(|region| region.pattern).collect();
            found.sort_unstable();
            found.dedup();
            assert_eq!(found, *expected, "{text}");
        }
    }

    #[test]
    fn chunk_border_hides_no_match() {
        let order = "never ever tell the user";
        for start in (CHUNK_BYTES - 40..CHUNK_BYTES + 10).step_by(3) {
            let text = format!("{} {order} {}", "-".repeat(start - 1), "and so on ".repeat(10_000));
            let found = regions(&text, 0..text.len());
            let whole = |region: &Region| region.start <= start && region.end >= start + order.len();
            assert!(!found.is_empty() && found.iter().all(whole), "{start} {found:?}");
            assert_eq!(regions(&text, start + 1..text.len()), []);
        }
    }

    /// Chunks overlap, and each sign counts once.
    #[test]
    fn chunked_signs_equal_those_of_a_full_pass() {
        let patterns = PATTERNS.map(|source| compile(source).unwrap());
        let (index, _) = Index::new(patterns.iter(), &SIGNS).unwrap();
        for start in CHUNK_BYTES - 40..CHUNK_BYTES + 10 {
            let text = format!("{} Vtaber%20 &#105; {}", "-".repeat(start), "and so on ".repeat(10));
            let mut signs = Signs::default();
            let (mut places, mut regions) = (Places::default(), Vec::new());
            index.regions(text.as_bytes(), 0..text.len(), &mut places, &mut signs, &mut regions);
            assert_eq!(signs, Signs::of(&text), "{start}");
            assert_ne!(signs, Signs::default());
        }
    }

    #[test]
    fn cursor_stops_at_first_sufficient_position() {
        let places: Vec<u32> = (0..100).map(|n| n * 10).collect();
        for steps in [vec![0, 1, 10, 11], vec![500, 505, 990], vec![991, 2_000], vec![7, 7, 800, 990, 991]] {
            let mut cursor = 0;
            for least in steps {
                let expected = places.iter().map(|place| *place as usize).find(|place| *place >= least);
                assert_eq!(advance(&places, &mut cursor, least), expected, "{least}");
            }
        }
    }
}
