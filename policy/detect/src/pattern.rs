//! One pattern: from its text in a rule to regular expressions, and to the words without which it cannot match.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

use regex_automata::meta::{Config, Regex};
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Class, Hir, HirKind, Look};

/// How long the rest of a sentence that `…` stands for may be. Bytes.
pub const GAP_BYTES: usize = 90;
/// How long the few words that `‥` stands for may be. Bytes.
pub const SHORT_GAP_BYTES: usize = 45;
/// How long one part of a pattern is expected to be at most; a longer one may be missed. Bytes.
pub(super) const PART_BYTES: usize = 250;
/// How far behind a gap the part that follows it may end. Bytes.
pub(super) const AFTER_GAP_BYTES: usize = 40;
/// Stands for the rest of a sentence, up to [`GAP_BYTES`].
const GAP: char = '…';
/// Stands for a few words of it, up to [`SHORT_GAP_BYTES`].
const SHORT_GAP: char = '‥';
/// Most parts of one pattern.
const MAX_PARTS: usize = 6;
/// What a run without an end, such as `\w+`, is expected to repeat at most.
const RUN: usize = 40;
/// What white space between two words is expected to take at most. Bytes.
const BLANK_BYTES: usize = 16;
/// Most memory of one compiled part. Bytes.
const SIZE_LIMIT: usize = 1 << 20;

/// A regular expression that is compiled when it is first run. Most never are, since the words that it begins with
/// do not come up, and all of them together take tens of megabytes and a third of a second.
#[derive(Debug)]
pub(super) struct Lazy {
    source: String,
    /// Whether it is a user's, and means what the crate `regex` says. Of ours letters match in either case, and classes
    /// are ASCII.
    plain: bool,
    compiled: OnceLock<Option<Regex>>,
}

impl Lazy {
    fn build(&self) -> Result<Regex, String> {
        let syntax = syntax::Config::new().utf8(false).unicode(self.plain).case_insensitive(!self.plain);
        let limits = Config::new()
            .utf8_empty(false)
            .nfa_size_limit(Some(SIZE_LIMIT))
            .onepass_size_limit(Some(SIZE_LIMIT))
            .hybrid_cache_capacity(SIZE_LIMIT);
        Regex::builder().syntax(syntax).configure(limits).build(&self.source).map_err(|error| {
            match (error.size_limit(), error.syntax_error()) {
                (Some(limit), _) => format!("its compiled size is over {limit} bytes"),
                (_, Some(syntax)) => syntax.to_string(),
                _ => error.to_string(),
            }
        })
    }

    /// None where it does not compile, which [`Pattern::force`] rules out.
    fn regex(&self) -> Option<&Regex> {
        self.compiled.get_or_init(|| self.build().ok()).as_ref()
    }

    /// The first match from `start` on.
    pub(super) fn find_at(&self, haystack: &[u8], start: usize) -> Option<Range<usize>> {
        let input = Input::new(haystack).range(start..);
        Some(self.regex()?.search(&input)?.range())
    }

    /// Where the match that begins at `start` ends.
    pub(super) fn end_of_one_at(&self, haystack: &[u8], start: usize) -> Option<usize> {
        let input = Input::new(haystack).range(start..).anchored(Anchored::Yes);
        Some(self.regex()?.search_half(&input)?.offset())
    }
}

impl Pattern {
    /// Whether all of it compiles.
    pub(super) fn force(&self) -> Result<(), String> {
        self.parts.iter().try_for_each(|part| part.regex.build().map(drop))
    }
}

/// A compiled pattern: parts that follow each other within a sentence.
#[derive(Debug)]
pub(super) struct Pattern {
    /// The parts, in order; at least one.
    pub(super) parts: Vec<Part>,
}

/// One part of a pattern.
#[derive(Debug)]
pub(super) struct Part {
    /// How far behind the part before it may it begin. Bytes.
    pub(super) gap: usize,
    /// How long a match of it is expected to be at most. Bytes.
    pub(super) length: usize,
    /// What it matches.
    pub(super) regex: Lazy,
    /// What stands in every match, in order. Empty: nothing is known.
    pub(super) slots: Vec<Slot>,
    /// Whether every match begins with a word of the first slot, and nowhere but where that is found.
    pub(super) begins_with_word: bool,
}

/// A place of a match where one of some words stands, in some case and where a word begins.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// The words, sorted; at least one.
    pub(super) words: Vec<Word>,
    /// How far from the beginning of the match it is expected to stand at most; 0 where the match begins with it. Bytes.
    pub(super) ahead: usize,
}

/// What a match begins with: a word, and what comes behind the white space after it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Word {
    /// The word, or the beginning of it. Small letters.
    pub(super) text: String,
    /// The beginning of the next one; empty where there need not be white space and another word.
    pub(super) next: String,
}

impl Word {
    /// Whether it is worth looking for: two letters are at the beginning of a word, or where another word follows,
    /// and so is a single sign then.
    fn is_rare(&self, at_word: bool) -> bool {
        let sign = !self.text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        match self.text.len() + usize::from(sign) {
            0 | 1 => false,
            2 => !self.next.is_empty() || (at_word && !sign),
            _ => true,
        }
    }
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

/// Compiles an expanded pattern.
pub(super) fn compile(text: &str) -> Result<Pattern, String> {
    let gaps = text.chars().filter(|c| [GAP, SHORT_GAP].contains(c));
    let gaps = gaps.map(|c| if c == GAP { GAP_BYTES } else { SHORT_GAP_BYTES });
    let sources = text.split([GAP, SHORT_GAP]).zip(std::iter::once(0).chain(gaps));
    let parts = sources.map(|(source, gap)| part(source.trim(), gap)).collect::<Result<Vec<_>, _>>()?;
    if parts.len() > MAX_PARTS {
        return Err(format!("more than {MAX_PARTS} parts"));
    }
    Ok(Pattern { parts })
}

/// Compiles a user's expression as it stands. It runs over every text: nothing is known of what it may match.
pub(super) fn compile_plain(source: &str) -> Result<Pattern, String> {
    let hir = ParserBuilder::new().utf8(false).build().parse(source);
    let hir = hir.map_err(|error| error.to_string())?;
    if hir.properties().minimum_len() == Some(0) {
        return Err(format!("{source:?} matches the empty text"));
    }
    let regex = Lazy { source: source.to_owned(), plain: true, compiled: OnceLock::new() };
    Ok(Pattern {
        parts: vec![Part { gap: 0, length: PART_BYTES, regex, slots: Vec::new(), begins_with_word: false }],
    })
}

fn part(source: &str, gap: usize) -> Result<Part, String> {
    if source.is_empty() {
        return Err("an empty part".into());
    }
    let hir = ParserBuilder::new().unicode(false).utf8(false).build().parse(source);
    let hir = hir.map_err(|error| error.to_string())?;
    if hir.properties().minimum_len() == Some(0) {
        return Err(format!("{source:?} matches the empty text"));
    }
    let regex = Lazy { source: blanks(source), plain: false, compiled: OnceLock::new() };
    let at_word = hir.properties().look_set_prefix().contains(Look::WordAscii);
    let slots = slots(&hir, at_word);
    let begins_with_word = slots.first().is_some_and(|slot| slot.ahead == 0 && (at_word || slot.is_sign()));
    Ok(Part { gap, length: length(&hir), regex, slots, begins_with_word })
}

/// How long a match is expected to be at most. Bytes.
fn length(hir: &Hir) -> usize {
    let length = match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 0,
        HirKind::Literal(literal) => {
            literal.0.iter().map(|byte| if byte.is_ascii_whitespace() { BLANK_BYTES } else { 1 }).sum()
        }
        HirKind::Class(class) => class.maximum_len().unwrap_or(1),
        HirKind::Repetition(repetition) => {
            let most = repetition.max.and_then(|most| usize::try_from(most).ok()).unwrap_or(RUN);
            length(&repetition.sub).saturating_mul(most)
        }
        HirKind::Capture(capture) => length(&capture.sub),
        HirKind::Concat(items) => items.iter().map(length).sum(),
        HirKind::Alternation(branches) => branches.iter().map(length).max().unwrap_or(0),
    };
    length.min(PART_BYTES)
}

/// The places of a match where it is known which words may stand.
fn slots(hir: &Hir, at_word: bool) -> Vec<Slot> {
    let items = match hir.kind() {
        HirKind::Concat(items) => items.as_slice(),
        _ => std::slice::from_ref(hir),
    };
    let mut slots: Vec<Slot> = slot(items, at_word, 0).into_iter().collect();
    // Whether a word begins with the item, and the least and the largest number of bytes before it.
    let (mut begins, mut before, mut ahead) = (true, 0, 0);
    for (index, item) in items.iter().enumerate() {
        let least = item.properties().minimum_len().unwrap_or(0);
        if index > 0 && least > 0 && (before > 0 || slots.is_empty()) {
            let ahead = PART_BYTES.min(ahead).max(1);
            slots.extend(slot(&items[index..], begins, ahead).filter(|slot| begins || slot.is_sign()));
        }
        before += least;
        ahead += length(item);
        begins = match item.kind() {
            HirKind::Look(Look::WordAscii) => true,
            HirKind::Look(_) => begins,
            _ if least == 0 => begins && ends_blank(item),
            _ => ends_blank(item),
        };
    }
    slots
}

/// The slot that `items` begin with, if its words are known and worth looking for.
fn slot(items: &[Hir], at_word: bool, ahead: usize) -> Option<Slot> {
    let words = words(&Hir::concat(items.to_vec()));
    let known = !words.is_empty() && words.iter().all(|word| word.is_rare(at_word));
    known.then_some(Slot { words, ahead })
}

impl Slot {
    /// Whether all its words begin with signs or other letters than ASCII, which are found wherever they stand.
    fn is_sign(&self) -> bool {
        self.words.iter().all(|word| {
            word.text
                .bytes()
                .next()
                .is_some_and(|byte| byte.is_ascii_punctuation() && byte != b'_' || byte >= 0xc0)
        })
    }
}

/// Whether every match ends with white space, if it is not empty.
fn ends_blank(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Literal(literal) => literal.0.last().is_some_and(u8::is_ascii_whitespace),
        HirKind::Class(Class::Bytes(class)) => class
            .ranges()
            .iter()
            .all(|range| (range.start()..=range.end()).all(|byte| byte.is_ascii_whitespace())),
        HirKind::Repetition(repetition) => ends_blank(&repetition.sub),
        HirKind::Concat(items) => items.last().is_some_and(ends_blank),
        HirKind::Alternation(branches) => branches.iter().all(ends_blank),
        _ => false,
    }
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

/// What every match begins with one of; empty where that is no short list.
fn words(hir: &Hir) -> Vec<Word> {
    let mut extractor = Extractor::new();
    extractor.limit_total(4_000).limit_repeat(10).limit_class(10).limit_literal_len(24);
    let found = extractor.extract(hir);
    let Some(literals) = found.literals() else { return Vec::new() };
    let mut words: Vec<Word> = literals.iter().map(|literal| word(literal.as_bytes())).collect();
    words.sort_unstable();
    // A word that begins with another one is found with it.
    words.dedup_by(|longer, shorter| {
        let same = longer.text == shorter.text && longer.next.starts_with(&shorter.next);
        same || (shorter.next.is_empty() && longer.text.starts_with(&shorter.text))
    });
    words
}

/// A literal as its first word and the beginning of its second.
fn word(literal: &[u8]) -> Word {
    let is_blank = |byte: &u8| byte.is_ascii_whitespace();
    let end = literal.iter().position(is_blank).unwrap_or(literal.len());
    let (text, rest) = literal.split_at(end);
    let next = rest.split(is_blank).find(|next| !next.is_empty()).unwrap_or_default();
    Word { text: whole(text), next: whole(next) }
}

/// In small letters; a literal cut inside a character is shortened to the character before it.
fn whole(bytes: &[u8]) -> String {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    };
    text.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_fragment_lists_its_required_words() {
        // Pattern; its slots, those of other parts after `…`, those that do not lead in brackets.
        let cases = [
            ("(?:ignore|disregard) … previous", "disregard ignore … previous"),
            (r"\b(?:do not|don't) … (?:tell|inform)", "do>not don't … inform tell"),
            (r"[a-z]+@", ""),
            ("<(?:system|important)>", "<important> <system>"),
            (r"\bimportant(?: note)?", "important"),
            ("(?:the )?user", "the>user user"),
            ("(?:if )?x", ""),
            (r"\b(?:cc|bcc) \S", "bcc cc"),
            (r"!\[x?", "!["),
            (
                r"\bnever (?:\w+ ){0,3}(?:tell|show)\b(?: \w+)* (?:to )?(?:the )?users?",
                "never (show tell) (user)",
            ),
            (r"\b(?:my|your) \w*word", "my your"),
            (r"[a-z]+\.env", "(.env)"),
            (r"[a-z]+_env", ""),
            (r"(?:all|any)?(?: of)? them", ""),
            (r"[a-z]+[\s-]env", ""),
            (r"\bno(?: \w+)?\bway", "no (way)"),
        ];
        for (source, expected) in cases {
            let word = |word: &Word| {
                [word.text.as_str(), word.next.as_str()].join(if word.next.is_empty() { "" } else { ">" })
            };
            let slot = |slot: &Slot| {
                let words = slot.words.iter().map(word).collect::<Vec<_>>().join(" ");
                if slot.ahead == 0 { words } else { format!("({words})") }
            };
            let part = |part: &Part| part.slots.iter().map(slot).collect::<Vec<_>>().join(" ");
            let found = compile(source).unwrap().parts.iter().map(part).collect::<Vec<_>>().join(" … ");
            assert_eq!(found, expected, "{source}");
        }
    }

    #[test]
    fn invalid_pattern_is_refused_with_reason() {
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
            let outcome = expand(source, &fragments).and_then(|text| compile(&text)?.force());
            match (outcome, wrong) {
                (Ok(()), None) => {}
                (Err(error), Some(part)) => assert!(error.contains(part), "{source}: {error}"),
                (outcome, _) => panic!("{source}: {outcome:?}"),
            }
        }
    }
}
