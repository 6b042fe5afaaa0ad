//! From hits to detections: the score of the best window of two sentences.
//!
//! One suspicious phrase says little: honest tools say "you must first call X" too. Several of them in one breath
//! are how an attack reads. So the weights of all distinct rules that match in two sentences in a row are added
//! up, and each hit is as bad as the best window that it is in. A user's pattern is as bad as he says.

use super::probe::{Hit, Matcher};
use super::sentence::{SENTENCE_BYTES, ends_sentence};
use super::severity::severity_of;

/// Scores each hit: the sum over distinct rules of the best window that it is in. In the order of `hits`, which
/// are sorted by where they begin.
pub(super) fn score(matcher: &Matcher, text: &str, hits: &mut [Hit]) -> Vec<u32> {
    hits.sort_unstable_by_key(|hit| (hit.start, hit.end, hit.rule));
    let sentences = sentences_of(text.as_bytes(), hits);
    let mut scores = vec![0; hits.len()];
    let mut rules: Vec<u16> = Vec::new();
    let mut first = 0;
    while let Some(&sentence) = sentences.get(first) {
        let next = first + sentences[first..].iter().take_while(|number| **number == sentence).count();
        let last = next + sentences[next..].iter().take_while(|number| **number == sentence + 1).count();
        rules.clear();
        rules.extend(hits[first..last].iter().map(|hit| hit.rule));
        rules.sort_unstable();
        rules.dedup();
        let probe = |rule: u16| &matcher.probes[usize::from(rule)];
        let together = rules.iter().map(|rule| probe(*rule)).filter(|probe| !probe.rule.plain);
        let sum: u32 = together.map(|probe| probe.weight).sum();
        for (score, hit) in scores[first..last].iter_mut().zip(&hits[first..last]) {
            let probe = probe(hit.rule);
            *score = if probe.rule.plain { probe.weight } else { sum.max(*score) };
        }
        first = next;
    }
    scores
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
