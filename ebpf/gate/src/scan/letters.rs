//! Many bytes of a string at once.

use super::{HASH_PRIME, METHOD, Marks, NAME, NOTHING, PLAIN, Scan, URI};
use crate::table::View;

/// Most words that [`Scan::letters`] passes over: the verifier goes through each.
const WORDS_AT_ONCE: u32 = 8;

impl Scan {
    /// Reads on in the string at hand for as long as its letters stand for themselves, and says how many bytes these were: of
    /// `words`, of which each has eight, the first lowest, from the byte `at` on and none from `end` on; the first of them is at
    /// `place` of this write. The same as [`Scan::step`] of each, which says nothing of such bytes, for a fraction of what that
    /// takes. It may stop earlier.
    #[inline(always)]
    pub fn letters<const N: usize>(
        &mut self,
        table: &View<'_>,
        marks: &mut Marks,
        words: &[u64; N],
        at: u32,
        end: u32,
        place: u32,
    ) -> u32 {
        // Half a surrogate pair is completed by what follows it.
        if self.mode != PLAIN || self.high != 0 || self.is_in_line_end() {
            return 0;
        }
        let count = if self.reads == NOTHING {
            let mut skipped = 0;
            for _ in 0..WORDS_AT_ONCE {
                let (_, count) = letters_at(words, at + skipped, end);
                if count == 0 {
                    break;
                }
                skipped += count;
            }
            skipped
        } else {
            let (word, count) = letters_at(words, at, end);
            self.feed_letters(table, word, count);
            count
        };
        if count > 0 {
            let last = place.wrapping_add(count - 1);
            match self.reads {
                METHOD => marks.method = last,
                NAME | URI => marks.name = last,
                _ => {}
            }
        }
        count
    }

    /// As [`Scan::feed`].
    #[inline(always)]
    fn feed_letters(&mut self, table: &View<'_>, mut word: u64, count: u32) {
        let (mut state, mut hash) = (self.state, self.hash);
        for index in 0..8 {
            if index >= count {
                break;
            }
            state = table.next(state, word as u8);
            hash = (hash ^ word & 0xFF).wrapping_mul(HASH_PRIME);
            word >>= 8;
        }
        self.state = state;
        if self.reads == NAME {
            self.hash = hash;
        }
        self.length = self.length.saturating_add(count as u16);
    }
}

/// The rest of the word that a byte is in, and how many letters it begins with.
#[inline(always)]
fn letters_at<const N: usize>(words: &[u64; N], at: u32, end: u32) -> (u64, u32) {
    const { assert!(N.is_power_of_two()) };
    if at >= end {
        return (0, 0);
    }
    // Masked for the verifier. What is shifted in is no letter.
    let word = words[(at >> 3) as usize & (N - 1)] >> ((at & 7) << 3);
    (word, letters_in(word).min(end - at))
}

/// How many bytes of a word, from the lowest on, stand for themselves within a string: neither quote nor backslash, nor control
/// character, nor part of a longer character.
#[inline(always)]
pub(super) fn letters_in(word: u64) -> u32 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGHEST: u64 = EACH << 7;
    let quote = word ^ (EACH * b'"' as u64);
    let backslash = word ^ (EACH * b'\\' as u64);
    // The highest bit of each byte that is below a number, by a subtraction of it; what that borrows can mark a byte more, but
    // only above one that is marked rightly. Bytes from 0x80 on are marked as they are.
    let low = word.wrapping_sub(EACH * b' ' as u64) | quote.wrapping_sub(EACH) | backslash.wrapping_sub(EACH);
    let others = (low | word) & HIGHEST;
    if others == 0 {
        return 8;
    }
    // One for the lowest bit of each byte up to the first that is marked.
    let up_to = others.wrapping_sub(1) & !others & EACH;
    (up_to.wrapping_mul(EACH) >> 56) as u32 - 1
}
