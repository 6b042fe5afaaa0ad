//! Eight bytes at once: how many of a word, from the lowest on, are of a kind.
//!
//! A byte is found by the highest bit of `byte - 1`, which is set for 0 and what begins with a bit that is set. What a
//! subtraction borrows can mark a byte more, but only above one that is marked rightly, and only the lowest is looked for.

/// A word of one byte, eight times.
const EACH: u64 = 0x0101_0101_0101_0101;
/// The highest bit of each byte.
const HIGHEST: u64 = EACH << 7;
/// What tells small letters from capitals, and brackets of one kind from those of another.
pub(super) const SMALL: u64 = EACH << 5;

/// Marks each byte that equals one below 0x80; of others, some that are 0x80 or more.
#[inline(always)]
fn equal(word: u64, byte: u8) -> u64 {
    (word ^ (EACH * byte as u64)).wrapping_sub(EACH)
}

/// Marks each byte below a blank; of others, some that are 0xA0 or more.
#[inline(always)]
fn controls(word: u64) -> u64 {
    word.wrapping_sub(EACH * b' ' as u64)
}

/// How many bytes there are before the first that is marked by its highest bit.
#[inline(always)]
fn before(marks: u64) -> u32 {
    let marks = marks & HIGHEST;
    if marks == 0 {
        return 8;
    }
    // One for the lowest bit of each byte up to the first that is marked.
    let up_to = marks.wrapping_sub(1) & !marks & EACH;
    (up_to.wrapping_mul(EACH) >> 56) as u32 - 1
}

/// How many bytes stand for themselves within a string: neither quote nor backslash, nor control character, nor part of a
/// longer character.
#[inline(always)]
pub(super) fn letters(word: u64) -> u32 {
    before(controls(word) | equal(word, b'"') | equal(word, b'\\') | word)
}

/// Whether all of two words do.
#[inline(always)]
pub(super) fn all_letters(first: u64, second: u64) -> bool {
    let quotes = equal(first, b'"') | equal(second, b'"');
    let backslashes = equal(first, b'\\') | equal(second, b'\\');
    (controls(first) | controls(second) | quotes | backslashes | first | second) & HIGHEST == 0
}

/// The same of a string that is read for nothing: with longer characters, but for the first bytes of those that
/// [end a line](super::line).
#[inline(always)]
pub(super) fn unread_letters(word: u64) -> u32 {
    let mut marks = (controls(word) | equal(word, b'"') | equal(word, b'\\')) & !word;
    if word & HIGHEST != 0 {
        let (latin, punctuation) = (word ^ (EACH * 0xC2), word ^ (EACH * 0xE2));
        marks |= latin.wrapping_sub(EACH) & !latin | punctuation.wrapping_sub(EACH) & !punctuation;
    }
    before(marks)
}

/// How many bytes outside of strings are no quotes, brackets or control characters, nor part of a longer character.
#[inline(always)]
pub(super) fn unstructured(word: u64) -> u32 {
    let brackets = word | SMALL;
    before(controls(word) | equal(word, b'"') | equal(brackets, b'{') | equal(brackets, b'}') | word)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::{all_letters, letters, unread_letters, unstructured};

    #[test]
    fn bytes_of_a_kind_are_counted_up_to_the_first_other() {
        let is_letter = |byte: &u8| (b' '..0x80).contains(byte) && *byte != b'"' && *byte != b'\\';
        let is_unread = |byte: &u8| *byte >= b' ' && !b"\"\\\xC2\xE2".contains(byte);
        let is_unstructured = |byte: &u8| (b' '..0x80).contains(byte) && !b"\"{}[]".contains(byte);
        for at in 0..8 {
            for byte in 0..=255_u8 {
                for (below, above) in
                    [(b'a', b'a'), (b' ', 0), (0x7F, b'"'), (b'#', b'!'), (b'~', 0x80), (b'!', 0xC3)]
                {
                    let mut bytes = [below; 8];
                    bytes[at] = byte;
                    bytes[at + 1..].fill(above);
                    let count = |is: &dyn Fn(&u8) -> bool| bytes.iter().take_while(|byte| is(byte)).count();
                    let word = u64::from_le_bytes(bytes);
                    let all = [count(&is_letter) == 8, below != b'"' && is_letter(&below)];
                    let other = u64::from_le_bytes([below; 8]);
                    assert_eq!(all_letters(word, other), all == [true; 2], "{bytes:?}");
                    assert_eq!(all_letters(other, word), all == [true; 2], "{bytes:?}");
                    let found = [letters(word), unread_letters(word), unstructured(word)];
                    let expected = [count(&is_letter), count(&is_unread), count(&is_unstructured)]
                        .map(|count| count as u32);
                    assert_eq!(found, expected, "{bytes:?}");
                }
            }
        }
    }
}
