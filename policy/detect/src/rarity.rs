//! How often words come up, as far as that is known: what is rare is looked for first, and what is common is not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::pattern::{Slot, Word};

/// What comes up more often in a megabyte of documentation, source code and logs need not be looked for, if a pattern
/// has something rarer.
pub(super) const COMMON: u32 = 500;

/// Words, and how often they come up in a megabyte of such texts, in round figures.
static COUNTS: [(u32, &str); 5] = [
    (5_000, "the http https a"),
    (1_500, "to self if is and for in of this that be it"),
    (
        700,
        "com js return from or github string none npm you node import function not value as def an str type name true \
         false io on new can use will are org by",
    ),
    (
        300,
        "api data package svg img path url code default object docs file var key license options any error client src \
         set console version server log when require json buffer no all your number using list example install else \
         message class get with git",
    ),
    (
        120,
        "image length request returns source optional array run user only see badge used property command line id \
         input other stream output which bytes values method has event test at sdk more we one main usage actions \
         like so log open call create read module add these then only also have follow format context",
    ),
];
/// Each of those words, with how often it comes up.
static KNOWN: LazyLock<BTreeMap<&str, u32>> = LazyLock::new(|| {
    let each = |(count, words): &'static (u32, &str)| words.split_whitespace().map(|word| (word, *count));
    COUNTS.iter().flat_map(each).collect()
});
/// What signs begin with that come up often.
const COMMON_SIGNS: &[&str] =
    &["//", "](", "##", "--", "**", "```", "://", "![", "=>", "</", "=\"", "\",", ");"];
/// What a word that is not among them counts for.
const RARE: u32 = 20;

/// How often there is one of the words of a slot to be looked at in a megabyte, about.
pub(super) fn count(slot: &Slot) -> u32 {
    let key = |word| if is_second_rarer(word) { &word.next } else { &word.text };
    let keys: BTreeSet<&String> = slot.words.iter().map(key).collect();
    keys.into_iter().map(|key| of(key)).sum()
}

/// Whether to look for the second word of two rather than for the first.
pub(super) fn is_second_rarer(word: &Word) -> bool {
    word.next.len() > 1 && of(&word.next) < of(&word.text)
}

/// How often a word begins with `text`, or signs do, in a megabyte.
fn of(text: &str) -> u32 {
    let letters = text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
    if letters.is_empty() {
        let common = COMMON_SIGNS.iter().any(|sign| text.starts_with(sign));
        return if text.len() == 1 || common { 5_000 } else { RARE };
    }
    let begin_so = KNOWN.range(letters..).take_while(|(word, _)| word.starts_with(letters));
    begin_so.map(|(_, count)| count).sum::<u32>().max(RARE)
}

#[cfg(test)]
mod tests {
    use super::super::pattern::compile;
    use super::*;

    #[test]
    fn rarer_pattern_has_a_lower_frequency() {
        // From rare to common.
        let patterns =
            ["the assistant", "exfiltrate", "(?:disregard|exfiltrate)", "request", "the file", "://", "the"];
        let counts = patterns.map(|source| count(&compile(source).unwrap().parts[0].slots[0]));
        assert!(counts.is_sorted(), "{counts:?}");
    }
}
