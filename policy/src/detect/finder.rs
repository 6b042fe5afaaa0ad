//! Many words at once: where in a text one of them stands at the beginning of a word.
//!
//! An automaton over some thousand words is larger than the caches near the processor, and following it through
//! every byte would cost more than all the rest. So the beginnings of words are found eight bytes at a time, and a
//! word is compared only where its first four bytes are seen, or its first three: a look into a few kilobytes of bits.

use std::collections::BTreeSet;
use std::ops::Range;

/// Bits by hash of the first bytes.
const BITS: usize = 1 << 16;
/// Lists of words by hash of the first bytes.
const BUCKETS: usize = 1 << 12;
/// The high bit of each of eight bytes.
const HIGH: u64 = each(0x80);

/// Words to look for.
#[derive(Debug)]
pub(super) struct Finder {
    long: Heads<4>,
    short: Heads<3>,
    single: Heads<1>,
}

/// Words by their first bytes.
#[derive(Debug)]
struct Heads<const HEAD: usize> {
    bits: Vec<u64>,
    /// Where the list of each bucket begins in `words`, and behind the last one its end.
    buckets: Vec<u32>,
    words: Vec<Word>,
}

/// A word; of its first eight bytes, in small letters, those that count, and which are letters.
#[derive(Clone, Debug)]
struct Word {
    first: u64,
    counts: u64,
    letters: u64,
    number: u32,
    text: Box<[u8]>,
}

impl Finder {
    /// Looks for these, in any case. None may be empty.
    pub(super) fn new<'w>(words: impl IntoIterator<Item = &'w str>) -> Self {
        let words = words.into_iter().zip(0..).map(Word::new);
        let (long, rest): (_, Vec<Word>) = words.partition(|word| word.text.len() >= 4);
        let (short, single) = rest.into_iter().partition(|word| word.text.len() > 1);
        Self { long: Heads::new(long), short: Heads::new(short), single: Heads::new(single) }
    }

    /// Calls `found` with each word, by its number, that begins in `range` of `text`, in the order of beginnings.
    pub(super) fn find(&self, text: &[u8], range: Range<usize>, mut found: impl FnMut(usize, Range<usize>)) {
        let mut inside = range.start.checked_sub(1).is_some_and(|before| is_word(text[before]));
        let mut at = range.start;
        while at < range.end {
            let eight = eight(text, at);
            let (mut begins, last) = beginnings(eight, inside);
            inside = last;
            while begins != 0 {
                let place = at + begins.trailing_zeros() as usize / 8;
                begins &= begins - 1;
                if place < range.end {
                    self.at(text, place, &mut found);
                }
            }
            at += 8;
        }
    }

    /// The words that begin at `at`.
    #[inline]
    fn at(&self, text: &[u8], at: usize, found: &mut impl FnMut(usize, Range<usize>)) {
        let first = eight(text, at);
        // Nearly always none: one branch for all three.
        if !(self.single.may_be(first) | self.short.may_be(first) | self.long.may_be(first)) {
            return;
        }
        self.single.at(first, text, at, found);
        self.short.at(first, text, at, found);
        self.long.at(first, text, at, found);
    }
}

impl<const HEAD: usize> Heads<HEAD> {
    fn new(words: Vec<Word>) -> Self {
        let mut bits = vec![0; BITS / 64];
        let mut places: Vec<(usize, Word)> = Vec::new();
        for word in words {
            let mut buckets = BTreeSet::new();
            for hash in word.hashes::<HEAD>() {
                bits[hash / 64] |= 1 << (hash % 64);
                buckets.insert(hash % BUCKETS);
            }
            places.extend(buckets.into_iter().map(|bucket| (bucket, word.clone())));
        }
        places.sort_by_key(|(bucket, word)| (*bucket, word.number));
        let begin = |bucket| places.partition_point(|(other, _)| *other < bucket);
        let buckets = (0..=BUCKETS).map(|bucket| u32::try_from(begin(bucket)).unwrap_or(u32::MAX)).collect();
        Self { bits, buckets, words: places.into_iter().map(|(_, word)| word).collect() }
    }

    /// Whether a word may begin with the first bytes of these.
    #[inline]
    fn may_be(&self, first: u64) -> bool {
        let hash = hash::<HEAD>(first);
        self.bits[hash / 64] >> (hash % 64) & 1 == 1
    }

    #[inline]
    fn at(&self, first: u64, text: &[u8], at: usize, found: &mut impl FnMut(usize, Range<usize>)) {
        if !self.may_be(first) {
            return;
        }
        let bucket = hash::<HEAD>(first) % BUCKETS;
        for word in &self.words[self.buckets[bucket] as usize..self.buckets[bucket + 1] as usize] {
            if (first | word.letters) & word.counts == word.first && word.goes_on(text, at) {
                found(word.number as usize, at..at + word.text.len());
            }
        }
    }
}

impl Word {
    fn new((text, number): (&str, u32)) -> Self {
        let text: Box<[u8]> = text.to_ascii_lowercase().into_bytes().into();
        let of = |byte: fn(u8) -> u8| {
            let mut eight = [0; 8];
            eight.iter_mut().zip(&text).for_each(|(to, from)| *to = byte(*from));
            u64::from_le_bytes(eight)
        };
        Self {
            first: of(|byte| byte),
            counts: of(|_| 0xff),
            letters: of(|byte| if byte.is_ascii_lowercase() { 0x20 } else { 0 }),
            number,
            text,
        }
    }

    /// The hashes of all heads that it may stand at the beginning of: more than one where it is shorter.
    fn hashes<const HEAD: usize>(&self) -> impl Iterator<Item = usize> {
        let missing = HEAD.saturating_sub(self.text.len());
        let first = self.first;
        (0..1_u64 << (8 * missing)).map(move |rest| hash::<HEAD>(first | rest << (8 * (HEAD - missing))))
    }

    /// Whether the bytes behind the eighth are its as well.
    fn goes_on(&self, text: &[u8], at: usize) -> bool {
        self.text.get(8..).is_none_or(|rest| {
            text.get(at + 8..at + self.text.len()).is_some_and(|text| text.eq_ignore_ascii_case(rest))
        })
    }
}

/// `byte`, eight times.
const fn each(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// Eight bytes from `at` on, zeros behind the end.
#[inline]
fn eight(text: &[u8], at: usize) -> u64 {
    match text.get(at..at + 8).and_then(|bytes| bytes.first_chunk()) {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            text[at..].iter().zip(&mut bytes).for_each(|(from, to)| *to = *from);
            u64::from_le_bytes(bytes)
        }
    }
}

/// Of eight bytes those, by their high bits, where a word or a sign begins, and whether the last one is part of a
/// word. `inside` says so of the byte before them.
#[inline]
fn beginnings(bytes: u64, inside: bool) -> (u64, bool) {
    let low = bytes & !HIGH;
    // With the high bit where a byte, of at most 7 bits, is `from` or more. No sum overflows into the next byte.
    let least = |bytes: u64, from: u8| bytes + each(0x80 - from);
    let small = low | each(0x20);
    let letter = least(small, b'a') & !least(small, b'z' + 1);
    let digit = least(low, b'0') & !least(low, b'9' + 1);
    let line = !least(low ^ each(b'_'), 1);
    let word = (letter | digit | line) & !bytes & HIGH;
    let sign = least(low, b'!') & !least(low, 0x7f) & !bytes & HIGH & !word;
    // From 0xc0 on: the first byte of a character.
    let character = bytes & bytes << 1 & HIGH;
    let before = word << 8 | if inside { 0x80 } else { 0 };
    (word & !before | sign | character, word >> 63 == 1)
}

/// A number below [`BITS`] for the first bytes, whatever their case.
#[inline]
fn hash<const HEAD: usize>(first: u64) -> usize {
    let head = (first as u32 | 0x2020_2020) & (u32::MAX >> (8 * (4 - HEAD)));
    (head.wrapping_mul(0x9e37_79b1) >> 16) as usize
}

/// Whether a byte is part of a word, as `\b` sees it.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_where_words_begin() {
        let words = ["do", "done", "<important", "系统", "x", "extraordinarily"];
        let finder = Finder::new(words);
        let cases: &[(&str, &[(&str, usize)])] = &[
            ("DO done", &[("do", 0), ("do", 3), ("done", 3)]),
            ("undo _do 1do", &[]),
            ("a<IMPORTANT>", &[("<important", 1)]),
            ("看系统do", &[("系统", 3), ("do", 9)]),
            ("x", &[("x", 0)]),
            ("extraordinary x@x[x]{x}", &[("x", 14), ("x", 16), ("x", 18), ("x", 21)]),
            ("an Extraordinarily long line, extraordinaril", &[("extraordinarily", 3)]),
            ("a\u{e9}do", &[("do", 3)]),
            ("", &[]),
        ];
        for (text, expected) in cases {
            let mut found = Vec::new();
            finder.find(text.as_bytes(), 0..text.len(), |word, range| found.push((words[word], range.start)));
            assert_eq!(found, *expected, "{text}");
        }
    }

    #[test]
    fn beginnings_are_those_of_single_bytes() {
        for pair in 0..=u16::MAX {
            let [before, byte] = pair.to_be_bytes();
            let expected =
                if is_word(byte) { !is_word(before) } else { byte.is_ascii_punctuation() || byte >= 0xc0 };
            for at in 1..8 {
                let bytes = u64::from(before) << (8 * (at - 1)) | u64::from(byte) << (8 * at);
                let (begins, last) = beginnings(bytes, false);
                assert_eq!(begins >> (8 * at + 7) & 1 == 1, expected, "{before:#x} {byte:#x} at {at}");
                assert_eq!(last, at == 7 && is_word(byte));
            }
            let (begins, _) = beginnings(u64::from(byte), is_word(before));
            assert_eq!(begins >> 7 & 1 == 1, expected, "{before:#x} {byte:#x}");
        }
    }
}
