//! From hits to detections: the score of the best window of two sentences.
//!
//! One suspicious phrase says little: honest tools say "you must first call X" too. Several of them in one breath
//! are how an attack reads. So the weights of all distinct rules that match in two sentences in a row are added
//! up, and each hit is as bad as the best window that it is in. A user's pattern is as bad as he says.
//!
//! Several signs are several phrases. What a rule finds in words that a heavier rule counts already is worth a
//! quarter; and rules that only add to others say how something is asked for, and not what: together they add at most
//! [`MAX_SUPPORT`].

use std::cmp::Reverse;
use std::ops::Range;

use super::probe::{Hit, Matcher};
use super::sentence::{SENTENCE_BYTES, ends_sentence};
use super::severity::severity_of;

/// The most that rules add which only add to others.
const MAX_SUPPORT: u32 = 50;
/// What words are worth to another rule that counts them again: one in so many.
const AGAIN: u32 = 4;

/// Scores each hit: the sum over distinct rules of the best window that it is in. In the order of `hits`, which
/// are sorted by where they begin.
pub(super) fn score(matcher: &Matcher, text: &str, hits: &mut [Hit]) -> Vec<u32> {
    hits.sort_unstable_by_key(|hit| (hit.start, hit.end, hit.rule));
    let sentences = sentences_of(text.as_bytes(), hits);
    let mut scores = vec![0; hits.len()];
    let mut signs: Vec<Sign> = Vec::new();
    let mut first = 0;
    while let Some(&sentence) = sentences.get(first) {
        let next = first + sentences[first..].iter().take_while(|number| **number == sentence).count();
        let last = next + sentences[next..].iter().take_while(|number| **number == sentence + 1).count();
        let probe = |rule: u16| &matcher.probes[usize::from(rule)];
        let sum = together(matcher, &hits[first..last], &mut signs);
        for (score, hit) in scores[first..last].iter_mut().zip(&hits[first..last]) {
            let probe = probe(hit.rule);
            *score = if probe.rule.plain { probe.weight } else { sum.max(*score) };
        }
        first = next;
    }
    scores
}

/// A match of a rule in a window.
struct Sign {
    weight: u32,
    rule: u16,
    is_support: bool,
    words: [Range<usize>; 2],
}

impl Sign {
    /// Whether these are the words of another: more than half of them.
    fn is_within(&self, other: &Self) -> bool {
        let shared = |one: &Range<usize>, other: &Range<usize>| {
            one.end.min(other.end).saturating_sub(one.start.max(other.start))
        };
        let pairs = self.words.iter().flat_map(|one| other.words.iter().map(move |other| shared(one, other)));
        2 * pairs.sum::<usize>() > self.words.iter().map(Range::len).sum::<usize>()
    }
}

/// What the hits of a window add up to. `signs` is memory.
fn together(matcher: &Matcher, hits: &[Hit], signs: &mut Vec<Sign>) -> u32 {
    signs.clear();
    signs.extend(hits.iter().filter_map(|&Hit { rule, start, end, gap }| {
        let probe = &matcher.probes[usize::from(rule)];
        let sign =
            Sign { weight: probe.weight, rule, is_support: probe.support, words: [start..gap.0, gap.1..end] };
        (!probe.rule.plain).then_some(sign)
    }));
    // The heaviest rule first.
    signs.sort_unstable_by_key(|sign| (Reverse(sign.weight), sign.rule));
    let (mut sum, mut support, mut counted) = (0, 0, 0);
    for of_rule in signs.chunk_by(|sign, next| sign.rule == next.rule) {
        let heavier = &signs[..counted];
        let Some(&Sign { weight, is_support, .. }) = of_rule.first() else { continue };
        let is_again = of_rule.iter().all(|sign| heavier.iter().any(|other| sign.is_within(other)));
        *(if is_support { &mut support } else { &mut sum }) += if is_again { weight / AGAIN } else { weight };
        counted += of_rule.len();
    }
    sum + support.min(MAX_SUPPORT)
}

/// The number of the sentence that each hit begins in. Only differences of 0 and 1 mean anything.
fn sentences_of(text: &[u8], hits: &[Hit]) -> Vec<usize> {
    let (mut number, mut start, mut at) = (0, 0, 0);
    let mut numbers = Vec::with_capacity(hits.len());
    for hit in hits {
        if hit.start > at + 4 * SENTENCE_BYTES {
            // Too far to belong together, whatever is between.
            number += 2;
            start = hit.start;
            at = hit.start;
        }
        while at < hit.start {
            if ends_sentence(text, at) || at - start >= SENTENCE_BYTES {
                number += 1;
                start = at + 1;
            }
            at += 1;
        }
        numbers.push(number);
    }
    numbers
}

/// Whether a hit with this score is worth a detection.
pub(super) fn counts(matcher: &Matcher, hit: &Hit, score: u32) -> bool {
    !matcher.probes[usize::from(hit.rule)].support && severity_of(score).is_some()
}
