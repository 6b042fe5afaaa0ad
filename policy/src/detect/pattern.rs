//! One pattern: from its text in a rule to regular expressions, and to the words without which it cannot match.

use std::collections::BTreeMap;

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::literal::Extractor;

/// Stands for the rest of a sentence, up to [`GAP_BYTES`](super::probe::GAP_BYTES).
const GAP: char = '…';
/// Most parts of one pattern.
const MAX_PARTS: usize = 6;
/// Most memory of one compiled part. Bytes.
const SIZE_LIMIT: usize = 1 << 20;
/// Shortest word that is worth looking for. Bytes.
const MIN_WORD: usize = 3;

/// A compiled pattern: parts that follow each other within a sentence.
#[derive(Debug)]
pub(super) struct Pattern {
    /// The parts, in order; at least one.
    pub(super) parts: Vec<Regex>,
    /// The part that `words` belong to.
    pub(super) anchor: usize,
    /// One of these stands at the beginning of that part's match, in some case. Empty: nothing is known.
    pub(super) words: Vec<String>,
}

/// Replaces `{{name}}` by fragments, and fragments in fragments, to a bounded depth and length.
pub(super) fn expand(text: &str, fragments: &BTreeMap<&str, &str>) -> Result<String, String> {
    let mut text = text.to_owned();
    for _ in 0..4 {
        let Some(at) = text.find("{{") else { return Ok(text) };
        let (mut out, mut rest) = (text[..at].to_owned(), &text[at..]);
        while let Some((name, after)) = rest.strip_prefix("{{").and_then(|rest| rest.split_once("}}")) {
            let fragment = fragments.get(name).ok_or_else(|| format!("no fragment {name:?}"))?;
            out.push_str(fragment);
            let next = after.find("{{").unwrap_or(after.len());
            out.push_str(&after[..next]);
            rest = &after[next..];
            if out.len() > 64 << 10 {
                return Err("longer than 64 KiB with its fragments".into());
            }
        }
        if !rest.is_empty() {
            return Err("{{ without }}".into());
        }
        text = out;
    }
    Err("fragments nested deeper than 4".into())
}

/// Whether an expanded pattern compiles.
pub(super) fn check(text: &str) -> Result<(), String> {
    compile(text).map(|_| ())
}

/// Compiles an expanded pattern.
pub(super) fn compile(text: &str) -> Result<Pattern, String> {
    let sources: Vec<&str> = text.split(GAP).map(str::trim).collect();
    if sources.len() > MAX_PARTS {
        return Err(format!("more than {MAX_PARTS} parts"));
    }
    let mut parts = Vec::with_capacity(sources.len());
    for source in &sources {
        if source.is_empty() {
            return Err("an empty part".into());
        }
        let regex = RegexBuilder::new(&blanks(source))
            .unicode(false)
            .case_insensitive(true)
            .size_limit(SIZE_LIMIT)
            .dfa_size_limit(SIZE_LIMIT)
            .build()
            .map_err(|error| error.to_string())?;
        if regex.is_match(b"") {
            return Err(format!("{source:?} matches the empty text"));
        }
        parts.push(regex);
    }
    // Any part will do, since all of them have to match: the one whose shortest word is longest is the rarest.
    let best = sources
        .iter()
        .map(|source| words(source))
        .enumerate()
        .max_by_key(|(index, words)| (shortest(words), std::cmp::Reverse(*index)))
        .filter(|(_, words)| shortest(words) >= MIN_WORD);
    let (anchor, words) = best.unwrap_or_default();
    Ok(Pattern { parts, anchor, words })
}

fn shortest(words: &[String]) -> usize {
    words.iter().map(String::len).min().unwrap_or(0)
}

/// A blank is any run of white space; in a class it stays what it is.
fn blanks(source: &str) -> String {
    let (mut out, mut in_class, mut escaped) = (String::with_capacity(source.len()), false, false);
    for c in source.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            ' ' if !in_class => {
                // Grouped, so that what follows repeats all of it.
                out.push_str(r"(?:\s+)");
                continue;
            }
            _ => {}
        }
        out.push(c);
    }
    out
}

/// The words that every match begins with one of, each up to its first blank; empty where that is no short list.
fn words(source: &str) -> Vec<String> {
    let Ok(hir) = ParserBuilder::new().unicode(false).utf8(false).build().parse(source) else {
        return Vec::new();
    };
    let mut extractor = Extractor::new();
    extractor.limit_total(2_000).limit_repeat(10).limit_class(10).limit_literal_len(16);
    let found = extractor.extract(&hir);
    let Some(literals) = found.literals() else { return Vec::new() };
    let mut words: Vec<String> = Vec::new();
    for literal in literals {
        let bytes = literal.as_bytes();
        let end =
            bytes.iter().position(|byte| !byte.is_ascii_graphic() && byte.is_ascii()).unwrap_or(bytes.len());
        // A word cut inside a character is shortened to the character before it.
        let word = match std::str::from_utf8(&bytes[..end]) {
            Ok(word) => word,
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
        };
        words.push(word.to_ascii_lowercase());
    }
    words.sort_unstable();
    // A word that begins with another one is found with it.
    words.dedup_by(|longer, shorter| longer.starts_with(shorter.as_str()));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_the_rarest_part() {
        let cases: &[(&str, usize, &[&str])] = &[
            ("(?:ignore|disregard) … previous", 1, &["previous"]),
            (r"\b(?:do not|don't) … (?:tell|inform) … user", 1, &["inform", "tell"]),
            (r"[a-z]+@", 0, &[]),
            ("<(?:system|important)>", 0, &["<important>", "<system>"]),
            ("important(?: note)?", 0, &["important"]),
        ];
        for (source, anchor, words) in cases {
            let pattern = compile(source).unwrap();
            let found: Vec<&str> = pattern.words.iter().map(String::as_str).collect();
            assert_eq!((pattern.anchor, found.as_slice()), (*anchor, *words), "{source}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_pattern_is_said() {
        let fragments = BTreeMap::from([("a", "{{b}}"), ("b", "{{a}}"), ("ok", "x|y")]);
        let cases = [
            ("(?:{{ok}})z", None),
            ("{{none}}", Some("no fragment")),
            ("{{a}}", Some("nested")),
            ("{{ok", Some("without }}")),
            ("a … ", Some("empty part")),
            ("x*", Some("empty text")),
            ("(?!x)", Some("look-around")),
            ("a…b…c…d…e…f…g", Some("parts")),
            (r"\w{1000}{1000}", Some("size")),
        ];
        for (source, wrong) in cases {
            let outcome = expand(source, &fragments).and_then(|text| check(&text));
            match (outcome, wrong) {
                (Ok(()), None) => {}
                (Err(error), Some(part)) => assert!(error.contains(part), "{source}: {error}"),
                (outcome, _) => panic!("{source}: {outcome:?}"),
            }
        }
    }
}
