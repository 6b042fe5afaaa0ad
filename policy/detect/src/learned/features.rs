//! The features of a sentence, of a window of sentences and of a whole text.
//!
//! Wordings: pairs and triples of words, pairs with a gap, stems; letters, in scripts without blanks. Concepts: which there are
//! in a window, each pair of them, and in which order they come. Relations: names that are not the tool's own, concepts that
//! neither the name of the tool nor its first sentence has. Names of tools and keys of schemas are no features.

use std::ops::Range;

use super::concepts::{BITS, CONCEPTS, Trait, flatten};
use super::context::Context;
use super::tokens::{Token, both, hash, hash_of, tokens};

/// Letters of a word that are its stem.
const STEM: usize = 5;
/// Concepts between two that are a pair.
const REACH: usize = 5;

/// One feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Feature {
    /// Words of a sentence: their hash, and from the first to the last. Bytes of the sentence.
    Words(u32, Range<usize>),
    /// Concepts, one after the other.
    Order(u32, [u8; 3]),
}

/// What a sentence is, beside its features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sentence {
    /// Its concepts and traits.
    pub(super) mask: u64,
}

/// Memory that the features of one sentence after the other are made in.
#[derive(Clone, Debug, Default)]
pub(super) struct Workspace {
    tokens: Vec<Token>,
    flat: String,
    order: Vec<u8>,
}

/// Calls `visit` with each feature of a sentence. `traits`: of where it stands.
pub(super) fn of_sentence(
    work: &mut Workspace,
    sentence: &str,
    context: &Context,
    traits: u64,
    mut visit: impl FnMut(Feature),
) -> Sentence {
    let mut mask = traits | tokens(sentence, context, &mut work.tokens);
    work.flat.clear();
    flatten(sentence, &mut work.flat);
    work.order.clear();
    let (flat, order) = (&work.flat, &mut work.order);
    CONCEPTS.find(flat, |at, found| {
        mask |= found;
        if at == 0 && CONCEPTS.has_act(found) {
            mask |= Trait::BeginsWithOrder.bit();
        }
        order.extend((0..BITS as u8).filter(|bit| found >> bit & 1 == 1));
    });
    wordings(sentence, &work.tokens, &mut visit);
    orders(&work.order, &mut visit);
    Sentence { mask }
}

/// The features of the words of a sentence.
fn wordings(sentence: &str, tokens: &[Token], visit: &mut impl FnMut(Feature)) {
    for (at, token) in tokens.iter().enumerate() {
        let span = |last: &Token| token.range.start..last.range.end;
        let mut emit = |hash: u32, last: &Token| visit(Feature::Words(hash, span(last)));
        let (second, third) = (tokens.get(at + 1), tokens.get(at + 2));
        if let Some(second) = second {
            let pair = both(both(2, token.hash), second.hash);
            emit(pair, second);
            if let Some(third) = third {
                let triple = both(both(both(3, token.hash), second.hash), third.hash);
                emit(triple, third);
                emit(both(both(4, token.hash), third.hash), third);
                if let (true, Some(fourth)) = (token.is_letter, tokens.get(at + 3)) {
                    emit(both(triple, fourth.hash), fourth);
                } else if let Some(fourth) = tokens.get(at + 3) {
                    emit(both(both(5, token.hash), fourth.hash), fourth);
                }
            }
        }
        if token.is_letter || !token.is_word {
            continue;
        }
        let word = &sentence[token.range.clone()];
        emit(hash_of_stem(word), token);
        if !word.is_ascii() {
            letters(word, token, visit);
        }
    }
}

/// The hash of how a word begins, in small letters.
fn hash_of_stem(word: &str) -> u32 {
    if word.is_ascii() {
        return hash_of(word.bytes().take(STEM).map(|byte| byte.to_ascii_lowercase()), 6);
    }
    let stem: String = word.chars().flat_map(char::to_lowercase).take(STEM).collect();
    hash(stem.as_bytes(), 6)
}

/// Three letters in a row, of a word with others than those of ASCII: its forms have them in common.
fn letters(word: &str, token: &Token, visit: &mut impl FnMut(Feature)) {
    let letters: Vec<char> = word.chars().flat_map(char::to_lowercase).collect();
    let triples = letters.windows(3).filter_map(|three| <[char; 3]>::try_from(three).ok());
    for [one, two, three] in triples {
        let hash = both(both(both(7, u32::from(one)), u32::from(two)), u32::from(three));
        visit(Feature::Words(hash, token.range.clone()));
    }
}

/// The features of the order in which concepts come.
fn orders(order: &[u8], visit: &mut impl FnMut(Feature)) {
    for (at, &first) in order.iter().enumerate() {
        for &second in order[at + 1..].iter().take(REACH) {
            let hash = both(both(8, u32::from(first)), u32::from(second));
            visit(Feature::Order(hash, [first, second, u8::MAX]));
        }
        if let [second, third, ..] = order[at + 1..] {
            let hash = both(both(both(9, u32::from(first)), u32::from(second)), u32::from(third));
            visit(Feature::Order(hash, [first, second, third]));
        }
    }
}

/// Calls `visit` with each number of a feature of a window with this mask: first the bits, then those that the tool is not about,
/// then pairs of bits.
pub(super) fn of_mask(mask: u64, context: &Context, mut visit: impl FnMut(usize)) {
    let novel = mask & !context.topic;
    each(mask, &mut visit);
    each(novel, |bit| visit(BITS + bit));
    each(mask, |first| each(mask & (u64::MAX << first) & !(1 << first), |second| visit(pair(first, second))));
}

/// How many features of masks there are.
pub(super) const MASK_FEATURES: usize = 2 * BITS + BITS * BITS;

/// The number of a pair, the lower bit first.
fn pair(first: usize, second: usize) -> usize {
    2 * BITS + first * BITS + second
}

/// The name of a feature of masks.
pub(super) fn name_of(number: usize) -> String {
    let name = |bit| CONCEPTS.name(bit);
    match number {
        0..BITS => name(number).to_owned(),
        number if number < 2 * BITS => format!("{} (not the tool's)", name(number - BITS)),
        number => {
            let number = number - 2 * BITS;
            format!("{} and {}", name(number / BITS), name(number % BITS))
        }
    }
}

fn each(mut mask: u64, mut visit: impl FnMut(usize)) {
    while mask != 0 {
        visit(mask.trailing_zeros() as usize);
        mask &= mask - 1;
    }
}

/// The name of concepts in this order.
pub(super) fn name_of_order(order: [u8; 3]) -> String {
    let names: Vec<&str> =
        order.iter().filter(|bit| **bit != u8::MAX).map(|bit| CONCEPTS.name(usize::from(*bit))).collect();
    names.join(" → ")
}
