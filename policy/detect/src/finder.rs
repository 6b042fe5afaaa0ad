//! Many words at once: where in a text one of them stands at the beginning of a word.
//!
//! An automaton over some thousand words is larger than the caches near the processor, and following it through
//! every byte would cost more than all the rest. So the beginnings of words are found many bytes at a time, and a
//! word is compared only where its first bytes are seen: three, and then four where it has as many. Those are looks
//! into tables, which nearly always say no.

use std::collections::BTreeSet;
use std::ops::Range;

/// Answers by hash of the first bytes.
const ANSWERS: usize = 1 << 16;
/// Lists of words by hash of the first bytes.
const BUCKETS: usize = 1 << 12;
/// How many bytes are looked at together: one bit of a number each.
const BLOCK: usize = 64;
/// How many bytes of a word are compared at once.
const FIRST: usize = 8;

/// Words to look for.
#[derive(Debug)]
pub(super) struct Finder {
    /// Whether a word may begin with three bytes of that hash.
    begin: Answers,
    long: Heads<4>,
    three: Heads<3>,
    short: Heads<2>,
}

/// Words by their first bytes.
#[derive(Debug)]
struct Heads<const HEAD: usize> {
    /// Whether a word may begin with bytes of that hash.
    begin: Answers,
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

/// Answers to yes-or-no questions by hash: one bit each, so that they stay in the cache nearest to the processor.
#[derive(Debug)]
struct Answers(Box<[u64; ANSWERS / 64]>);

impl Answers {
    fn of(hashes: impl Iterator<Item = usize>) -> Self {
        let mut bits = Box::new([0; ANSWERS / 64]);
        hashes.for_each(|hash| bits[hash / 64 % bits.len()] |= 1 << (hash % 64));
        Self(bits)
    }

    #[inline]
    fn say(&self, hash: usize) -> bool {
        self.0[hash / 64 % self.0.len()] >> (hash % 64) & 1 == 1
    }
}

impl Finder {
    /// Looks for these, in any case. None may be empty.
    pub(super) fn new<'w>(words: impl IntoIterator<Item = &'w str>) -> Self {
        let words: Vec<Word> = words.into_iter().zip(0..).map(Word::new).collect();
        let begin = Answers::of(words.iter().flat_map(Word::hashes::<3>));
        let (long, rest): (_, Vec<Word>) = words.into_iter().partition(|word| word.text.len() >= 4);
        let (three, short) = rest.into_iter().partition(|word| word.text.len() == 3);
        Self { begin, long: Heads::new(long), three: Heads::new(three), short: Heads::new(short) }
    }

    /// Calls `found` with each word, by its number, that begins in `range` of `text`, in the order of beginnings.
    #[inline]
    pub(super) fn find(&self, text: &[u8], range: Range<usize>, mut found: impl FnMut(usize, Range<usize>)) {
        let mut inside = range.start.checked_sub(1).is_some_and(|before| is_word(text[before]));
        let mut places = [0; BLOCK];
        for from in range.clone().step_by(BLOCK) {
            let padded;
            let block = match text[from..].first_chunk() {
                Some(block) => block,
                None => {
                    padded = zero_padded(&text[from..]);
                    &padded
                }
            };
            let (begins, last) = beginnings(block, inside);
            inside = last;
            let mut begins = begins & u64::MAX >> BLOCK.saturating_sub(range.end - from);
            // No branch on what is seldom and cannot be foreseen: all places are written, and most of them over.
            let mut count = 0;
            while begins != 0 {
                let at = begins.trailing_zeros() as usize;
                begins &= begins - 1;
                places[count] = at;
                count += usize::from(self.begin.say(hash::<3>(first(block, at))));
            }
            let mut left = 0;
            for index in 0..count {
                let at = places[index];
                places[left] = at;
                left += usize::from(self.may_be(first(block, at)));
            }
            for &at in &places[..left] {
                let first = first(block, at);
                self.short.at(first, text, from + at, &mut found);
                self.three.at(first, text, from + at, &mut found);
                self.long.at(first, text, from + at, &mut found);
            }
        }
    }

    /// Whether a word may begin with the first bytes of these.
    #[inline]
    fn may_be(&self, first: u64) -> bool {
        self.short.may_be(first) | self.three.may_be(first) | self.long.may_be(first)
    }
}

impl<const HEAD: usize> Heads<HEAD> {
    fn new(words: Vec<Word>) -> Self {
        let begin = Answers::of(words.iter().flat_map(Word::hashes::<HEAD>));
        let mut places: Vec<(usize, Word)> = Vec::new();
        for word in words {
            let buckets: BTreeSet<usize> = word.hashes::<HEAD>().map(|hash| hash % BUCKETS).collect();
            places.extend(buckets.into_iter().map(|bucket| (bucket, word.clone())));
        }
        places.sort_by_key(|(bucket, word)| (*bucket, word.number));
        let first = |bucket| places.partition_point(|(other, _)| *other < bucket);
        let buckets = (0..=BUCKETS).map(|bucket| u32::try_from(first(bucket)).unwrap_or(u32::MAX)).collect();
        Self { begin, buckets, words: places.into_iter().map(|(_, word)| word).collect() }
    }

    /// Whether a word may begin with the first bytes of these.
    #[inline]
    fn may_be(&self, first: u64) -> bool {
        self.begin.say(hash::<HEAD>(first))
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
            let mut eight = [0; FIRST];
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

/// The first bytes of what begins at `at`.
#[inline]
fn first(block: &[u8; BLOCK + FIRST], at: usize) -> u64 {
    block.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The last bytes of a text, and zeros behind its end.
fn zero_padded(bytes: &[u8]) -> [u8; BLOCK + FIRST] {
    let mut padded = [0; BLOCK + FIRST];
    bytes.iter().zip(&mut padded).for_each(|(from, to)| *to = *from);
    padded
}

/// Of these bytes those, as bits, where a word or a sign begins, and whether the last one is part of a word. `inside`
/// says so of the byte before them.
#[inline]
fn beginnings(block: &[u8; BLOCK + FIRST], inside: bool) -> (u64, bool) {
    // Loops over arrays that the compiler makes instructions on sixteen bytes or more of.
    let (mut words, mut others) = ([0; BLOCK], [0; BLOCK]);
    for (index, &byte) in block[..BLOCK].iter().enumerate() {
        let word = is_word(byte);
        words[index] = u8::from(word);
        // From 0xc0 on: the first byte of a character.
        others[index] = u8::from(byte.is_ascii_graphic() & !word | (byte >= 0xc0));
    }
    let (words, others) = (packed(&words), packed(&others));
    (words & !(words << 1 | u64::from(inside)) | others, words >> (BLOCK - 1) == 1)
}

/// The lowest bits of these bytes.
#[inline]
fn packed(bytes: &[u8; BLOCK]) -> u64 {
    let (eights, _) = bytes.as_chunks();
    eights.iter().rev().fold(0, |bits, eight| {
        // Each of the eight bits is shifted into the highest byte, in order; no two meet.
        bits << 8 | u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56
    })
}

/// A number below [`ANSWERS`] for the first bytes, whatever their case.
#[inline]
fn hash<const HEAD: usize>(first: u64) -> usize {
    let head = (first as u32 | 0x2020_2020) & (u32::MAX >> (8 * (4 - HEAD)));
    (head.wrapping_mul(0x9e37_79b1) >> 16) as usize
}

/// Where the first byte is that `is` holds for, where most are none: whole blocks are passed over.
#[inline]
pub(super) fn position(bytes: &[u8], is: impl Fn(u8) -> bool) -> Option<usize> {
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    let none = |block: &&[u8; BLOCK]| !block.iter().fold(false, |any, &byte| any | is(byte));
    let from = blocks.iter().take_while(none).count() * BLOCK;
    Some(from + bytes[from..].iter().position(|&byte| is(byte))?)
}

/// Whether a byte is part of a word, as `\b` sees it.
pub(super) fn is_word(byte: u8) -> bool {
    (byte | 0x20).is_ascii_lowercase() | byte.is_ascii_digit() | (byte == b'_')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_are_found_at_word_starts_only() {
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
    fn position_finds_byte_at_every_offset() {
        for length in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK] {
            for at in 0..=length {
                let bytes = [vec![0; at], vec![1; length - at]].concat();
                assert_eq!(position(&bytes, |byte| byte == 1), (at < length).then_some(at));
            }
        }
    }

    #[test]
    fn block_word_starts_equal_bytewise_ones() {
        for pair in 0..=u16::MAX {
            let [before, byte] = pair.to_be_bytes();
            let expected =
                if is_word(byte) { !is_word(before) } else { byte.is_ascii_punctuation() || byte >= 0xc0 };
            for at in [1, 7, 8, 31, BLOCK - 1] {
                let mut bytes = [0; BLOCK + FIRST];
                (bytes[at - 1], bytes[at]) = (before, byte);
                let (begins, last) = beginnings(&bytes, false);
                assert_eq!(begins >> at & 1 == 1, expected, "{before:#x} {byte:#x} at {at}");
                assert_eq!(last, at == BLOCK - 1 && is_word(byte));
            }
            let mut bytes = [0; BLOCK + FIRST];
            bytes[0] = byte;
            let (begins, _) = beginnings(&bytes, is_word(before));
            assert_eq!(begins & 1 == 1, expected, "{before:#x} {byte:#x}");
        }
    }

    proptest! {
        /// However the words share their first bytes, and wherever the text is cut.
        #[test]
        fn word_finder_misses_no_occurrence(
            words in proptest::collection::btree_set("[a-c<é][a-c<é ]{0,9}", 1..20),
            text in "[a-cA-C_1< é.]{0,300}",
            from in 0..100_usize,
            length in 0..300_usize,
        ) {
            let from = from.min(text.len());
            let range = from..text.len().min(from + length);
            let words: Vec<String> = words.into_iter().collect();
            let bytes = text.as_bytes();
            let mut expected = Vec::new();
            for at in range.clone() {
                let inside = at > 0 && is_word(bytes[at - 1]);
                let begins = if is_word(bytes[at]) { !inside } else { bytes[at].is_ascii_graphic() || bytes[at] >= 0xc0 };
                let is_here = |word: &String| bytes[at..].get(..word.len()).is_some_and(|text| text.eq_ignore_ascii_case(word.as_bytes()));
                expected.extend((0..words.len()).filter(|word| begins && is_here(&words[*word])).map(|word| (at, word)));
            }
            let mut found = Vec::new();
            let finder = Finder::new(words.iter().map(String::as_str));
            finder.find(bytes, range, |word, range| found.push((range.start, word)));
            found.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }
}
