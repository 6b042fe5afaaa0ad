//! Many words at once: where in a text one of them stands at the beginning of a word.
//!
//! An Aho-Corasick automaton over some thousand words is larger than the caches near the processor, so that running
//! every byte through it would cost more than all the rest. It is started only where a word begins, and only where
//! the first bytes are those of one it knows: a look into a few kilobytes of bits.

use std::ops::Range;

use aho_corasick::automaton::OverlappingState;
use aho_corasick::{AhoCorasick, AhoCorasickBuilder, AhoCorasickKind, Anchored, Input, StartKind};

/// Bits by hash of the first bytes.
const BITS: usize = 1 << 16;
/// First bytes that are looked at.
const HEAD: usize = 4;

/// Words to look for.
#[derive(Debug)]
pub(super) struct Finder {
    automaton: AhoCorasick,
    longest: usize,
    /// By number of bytes looked at, less one: words shorter than [`HEAD`] have bits of their own.
    heads: [Vec<u64>; HEAD],
}

impl Finder {
    /// Looks for these, in any case.
    pub(super) fn new<'w>(words: impl IntoIterator<Item = &'w str>) -> Result<Self, String> {
        let words: Vec<&str> = words.into_iter().collect();
        let automaton = AhoCorasickBuilder::new()
            .ascii_case_insensitive(true)
            .start_kind(StartKind::Anchored)
            // A full table would take tens of megabytes, for walks that end after a few bytes.
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(&words)
            .map_err(|error| error.to_string())?;
        let mut heads = [const { Vec::new() }; HEAD];
        for word in &words {
            let length = word.len().clamp(1, HEAD);
            let bits = &mut heads[length - 1];
            bits.resize(BITS / 64, 0);
            let hash = hash(head(word.as_bytes(), 0), length);
            bits[hash / 64] |= 1 << (hash % 64);
        }
        Ok(Self { automaton, longest: words.iter().map(|word| word.len()).max().unwrap_or(0), heads })
    }

    /// Calls `found` with each word, by its number, that begins in `range` of `text`, in the order of beginnings.
    pub(super) fn find(&self, text: &[u8], range: Range<usize>, mut found: impl FnMut(usize, Range<usize>)) {
        let mut inside = range.start.checked_sub(1).is_some_and(|before| is_word(text[before]));
        for at in range {
            let byte = text[at];
            let word = is_word(byte);
            let begins = if word { !inside } else { byte.is_ascii_punctuation() || byte >= 0xc0 };
            inside = word;
            if !begins || !self.may_begin(text, at) {
                continue;
            }
            let span = at..(at + self.longest).min(text.len());
            let input = Input::new(text).range(span).anchored(Anchored::Yes);
            let mut state = OverlappingState::start();
            // Anchored searches are what it was built for, so they do not fail.
            while self.automaton.try_find_overlapping(input.clone(), &mut state).is_ok() {
                let Some(one) = state.get_match() else { break };
                found(one.pattern().as_usize(), one.range());
            }
        }
    }

    fn may_begin(&self, text: &[u8], at: usize) -> bool {
        let head = head(text, at);
        self.heads.iter().zip(1..).any(|(bits, length)| {
            let hash = hash(head, length);
            bits.get(hash / 64).is_some_and(|word| word >> (hash % 64) & 1 == 1)
        })
    }
}

/// Four bytes from `at` on, capital letters as small ones, zeros behind the end.
fn head(text: &[u8], at: usize) -> u32 {
    let mut bytes = [0; HEAD];
    let rest = &text[at..text.len().min(at + HEAD)];
    bytes[..rest.len()].copy_from_slice(rest);
    // Other bytes than letters change too, on both sides alike.
    u32::from_le_bytes(bytes) | 0x2020_2020
}

/// A number below [`BITS`] for the first `length` bytes.
fn hash(head: u32, length: usize) -> usize {
    let kept = head & (u32::MAX >> (8 * (HEAD - length)));
    (kept.wrapping_mul(0x9e37_79b1) >> 16) as usize
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
        let words = ["do", "done", "<important", "系统", "x"];
        let finder = Finder::new(words).unwrap();
        let cases: &[(&str, &[(&str, usize)])] = &[
            ("DO done", &[("do", 0), ("do", 3), ("done", 3)]),
            ("undo _do 1do", &[]),
            ("a<IMPORTANT>", &[("<important", 1)]),
            ("看系统do", &[("系统", 3), ("do", 9)]),
            ("x", &[("x", 0)]),
            ("", &[]),
        ];
        for (text, expected) in cases {
            let mut found = Vec::new();
            finder.find(text.as_bytes(), 0..text.len(), |word, range| found.push((words[word], range.start)));
            assert_eq!(found, *expected, "{text}");
        }
    }
}
