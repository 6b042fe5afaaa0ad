//! A sentence as tokens: words in small letters, and a sign in place of what stands for itself, such as an address.

use std::ops::Range;

use super::concepts::{Trait, is_letter};
use super::context::Context;

/// A word, or what stands for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// Of the word, in small letters.
    pub(super) hash: u32,
    /// Where it stands in the sentence. Bytes.
    pub(super) range: Range<usize>,
    /// Whether it is one letter of a script without blanks.
    pub(super) is_letter: bool,
    /// Whether it is a word, and not a sign.
    pub(super) is_word: bool,
}

/// The tokens of a sentence, and what it has.
pub(super) fn tokens(sentence: &str, context: &Context, tokens: &mut Vec<Token>) -> u64 {
    tokens.clear();
    tokens.reserve(sentence.len() / 4);
    let mut traits = 0;
    let mut at = 0;
    for chunk in sentence.split_inclusive(char::is_whitespace) {
        let start = at;
        at += chunk.len();
        let word = chunk.trim_end();
        if word.is_empty() {
            continue;
        }
        let outer = word.trim_matches(is_outer);
        let from = start + (outer.as_ptr() as usize - word.as_ptr() as usize);
        if let Some((sign, name)) = sign(word, outer, context) {
            traits |= sign.bit();
            let range = Range { start: from, end: from + outer.len() };
            tokens.push(Token { hash: hash(name.as_bytes(), 1), range, is_letter: false, is_word: false });
        } else {
            traits |= words(word, start, tokens);
        }
    }
    traits
}

/// What may stand around a word.
fn is_outer(c: char) -> bool {
    !is_letter(c) && !matches!(c, '/' | '~' | '$' | '@' | '-' | '<')
}

/// What a chunk between blanks is, if it is no words of a language: its trait, and what stands for it.
fn sign(chunk: &str, outer: &str, context: &Context) -> Option<(Trait, &'static str)> {
    let quoted = outer.len() + 2 <= chunk.len() && chunk.contains(['`', '"', '\'']);
    let bytes = outer.as_bytes();
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !outer.is_ascii() || bytes.len() < 2 {
        return None;
    }
    // A member of JSON is an example, whatever its value.
    if outer.contains("\":") || outer.contains("':") {
        return None;
    }
    if outer.contains("://") || outer.starts_with("www.") {
        return Some((Trait::Url, "<url>"));
    }
    if let Some((name, domain)) = outer.split_once('@')
        && !name.is_empty()
        && domain.contains('.')
    {
        return Some((Trait::Mail, "<mail>"));
    }
    if outer.starts_with("--") || (bytes.len() == 2 && bytes[0] == b'-' && bytes[1].is_ascii_alphabetic()) {
        return Some((Trait::Flag, "<flag>"));
    }
    if outer.starts_with(['/', '~', '$']) && bytes.len() > 2 || (outer.contains('/') && outer.contains('.')) {
        return Some((Trait::Path, "<path>"));
    }
    if bytes[0] == b'<' && bytes[1..].iter().any(u8::is_ascii_alphabetic) || chunk.ends_with("/>") {
        return Some((Trait::Tag, "<tag>"));
    }
    let is_compound = outer.contains('_')
        || bytes.windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    if (is_compound || quoted) && context.is_own(outer) {
        return Some((Trait::OwnParameter, "<own>"));
    }
    if is_compound && outer.chars().all(is_name) {
        return Some((Trait::ForeignName, "<name>"));
    }
    // A file, a host, a member.
    let is_dotted =
        outer.split('.').count() > 1 && outer.split('.').all(|part| part.len() > 1 || part == "md");
    (is_dotted && outer.chars().all(is_name)).then_some((Trait::Path, "<dotted>"))
}

/// The words of a chunk.
fn words(chunk: &str, start: usize, tokens: &mut Vec<Token>) -> u64 {
    let mut traits = 0;
    let mut rest = chunk;
    while let Some(first) = rest.find(is_letter) {
        let from = start + chunk.len() - rest.len() + first;
        rest = &rest[first..];
        let end = rest.find(|c| !is_letter(c) && !matches!(c, '\'' | '\u{2019}')).unwrap_or(rest.len());
        let word = &rest[..end];
        rest = &rest[end..];
        if word.chars().next().is_some_and(is_unspaced) {
            let letters = word.char_indices().filter(|(_, c)| is_letter(*c));
            tokens.extend(letters.map(|(at, c)| Token {
                hash: hash(c.encode_utf8(&mut [0; 4]).as_bytes(), 0),
                range: from + at..from + at + c.len_utf8(),
                is_letter: true,
                is_word: true,
            }));
            continue;
        }
        let is_number = word.chars().filter(|c| is_letter(*c)).all(|c| c.is_ascii_digit());
        let is_capitals = word.len() >= 4 && word.bytes().all(|byte| byte.is_ascii_uppercase());
        traits |= if is_capitals { Trait::Capitals.bit() } else { 0 };
        tokens.push(Token {
            hash: if is_number { hash(b"0", 1) } else { hash_of_word(word) },
            range: from..from + word.len(),
            is_letter: false,
            is_word: !is_number,
        });
    }
    traits
}

/// Whether words of the letter's script stand without blanks.
pub(super) fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// The hash of the letters of a word, as small ones.
fn hash_of_word(word: &str) -> u32 {
    if word.is_ascii() {
        let letters = word.bytes().filter(u8::is_ascii_alphanumeric);
        return hash_of(letters.map(|byte| byte.to_ascii_lowercase()), 0);
    }
    let small: String = word.chars().filter(|c| is_letter(*c)).flat_map(char::to_lowercase).collect();
    hash(small.as_bytes(), 0)
}

/// A hash of some bytes (FNV-1a, mixed): the same everywhere, for ever.
pub(super) fn hash(bytes: &[u8], seed: u32) -> u32 {
    hash_of(bytes.iter().copied(), seed)
}

/// The same, of bytes that stand nowhere.
pub(super) fn hash_of(bytes: impl Iterator<Item = u8>, seed: u32) -> u32 {
    let start = 0x811c_9dc5 ^ seed.wrapping_mul(0x9e37_79b9);
    mix(bytes.fold(start, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)))
}

/// The hash of two hashes in this order.
pub(super) fn both(first: u32, second: u32) -> u32 {
    mix(first.wrapping_mul(0x85eb_ca6b).rotate_left(13) ^ second)
}

/// The last step of MurmurHash3.
fn mix(mut hash: u32) -> u32 {
    hash ^= hash >> 16;
    hash = hash.wrapping_mul(0x85eb_ca6b);
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_the_hash_of_their_small_letters() {
        for word in ["Send", "don't", "don\u{2019}t", "ÉCOLE", "İstanbul", "x1Y2", "passwörter'S"] {
            let small: String = word.chars().filter(|c| is_letter(*c)).flat_map(char::to_lowercase).collect();
            assert_eq!(hash_of_word(word), hash(small.as_bytes(), 0), "{word}");
        }
    }
}
