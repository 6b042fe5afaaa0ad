//! Encodings that a model undoes on reading, and so does this: each gives more views of a text.

mod bytes;
mod markup;

use std::ops::Range;
use std::sync::LazyLock;

use mcpwarden_terms::Form;
use memchr::memchr3;

use super::budget::Budget;
use super::finder::Finder;
use super::fold::invisible;
use super::segment::{samples, spread};
use super::structure::Structure;
use super::view::{Mapped, View};
pub(super) use bytes::may_be_text;
use bytes::{MAX_RUN, decoded, prose, set_apart, spelt_out, tokens};

/// Most bytes of a run of invisible characters, and of what is shown backwards, that are read at once.
const MAX_HIDDEN: usize = 64 << 10;

/// What each run takes of the budget beside its bytes: many short ones take memory, too.
const RUN_BYTES: usize = 64;

/// Fewest parts that are read together, and longest of them. Bytes.
const MIN_TOGETHER: usize = 16;
const MAX_TOGETHER: usize = 4 << 10;
/// What is between them: no phrase goes across it, nor what commands a tool or forbids an act, nor a run of digits; and sentences on both
/// sides are not consecutive.
pub(super) const BETWEEN: &str = "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n";

/// Words that nearly every instruction has one of. Spelt otherwise, they say how a text is to be read.
const TELLING: &[&str] = &[
    "ignore",
    "instruction",
    "important",
    "previous",
    "system",
    "you must",
    "this tool",
    "do not",
    "before",
    "password",
    "secret",
    "always",
    "prompt",
    "user",
    "read",
    "send",
    "tell",
    "file",
    "content",
    "without",
    "message",
    "delete",
    "instructions",
];

/// Words that every text has. Where they begin something else in the alphabet turned by 13, that is no word of any language.
const COMMON: &[&str] =
    &["the", "and", "you", "with", "from", "this", "then", "your", "first", "call", "http", "ssh"];

/// A way to spell a text that leaves its words recognisable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    Rot13,
    Leetspeak,
    Spaced,
    Reversed,
    Escapes,
    Markup,
}

/// How many signs of each spelling a text shows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Signs([u8; 6]);

impl Signs {
    /// Those of `text`.
    pub(super) fn of(text: &str) -> Self {
        static FINDER: LazyLock<Finder> =
            LazyLock::new(|| Finder::new(SIGNS.iter().map(|(text, _)| text.as_str())));
        let mut signs = Self::default();
        FINDER.find(text.as_bytes(), 0..text.len(), |sign, _| signs.count(SIGNS[sign].1));
        signs
    }

    /// One more of this spelling.
    pub(super) fn count(&mut self, spelling: Spelling) {
        let count = &mut self.0[spelling as usize];
        *count = count.saturating_add(1);
    }
}

/// What shows that a text is spelt otherwise, and how.
pub(super) static SIGNS: LazyLock<Vec<(String, Spelling)>> = LazyLock::new(|| {
    let mut signs: Vec<(String, Spelling)> = Vec::new();
    for word in TELLING {
        signs.push((word.chars().map(rot13).collect(), Spelling::Rot13));
        signs.extend(leet_variants(word).into_iter().map(|text| (text, Spelling::Leetspeak)));
        // Shorter ones begin real words: `resu` begins `result`.
        if word.len() > 5 {
            signs.push((word.chars().rev().collect(), Spelling::Reversed));
        }
        if word.len() > 3 {
            for separator in [" ", "-", ".", "_", "*"] {
                let letters: Vec<String> = word.replace(' ', "").chars().map(String::from).collect();
                signs.push((letters.join(separator), Spelling::Spaced));
            }
        }
    }
    for word in COMMON {
        signs.push((word.chars().map(rot13).collect(), Spelling::Rot13));
    }
    // Of percent escapes those of a blank, of letters, of the sign itself, of letters of other scripts, and of the slash of
    // some paths.
    for escape in [
        "%20",
        "%25",
        "%2f.",
        "%2fetc",
        "%2fhome",
        "%2fproc",
        "%2froot",
        "%2fshadow",
        "%2fpasswd",
        "%5c",
        "%4",
        "%5",
        "%6",
        "%7",
        "%d0",
        "%d1",
        "%e",
        "&#",
        "&amp;#",
        "&lt;",
        "&nbsp;",
        "\\u00",
        "\\u{",
        "\\x",
        "\\n",
        "\\t",
    ] {
        signs.push((escape.to_owned(), Spelling::Escapes));
    }
    signs.extend(markup::signs().into_iter().map(|sign| (sign, Spelling::Markup)));
    signs
});

/// How a text in another spelling is read: the spelling, how many signs of it are no accident, and what it is then.
type Reading = (Spelling, u8, Form, fn(&str) -> Mapped);

/// One sign may be an accident, two are a message.
const READINGS: &[Reading] = &[
    (Spelling::Rot13, 2, Form::Rot13, |text| each(text, rot13)),
    (Spelling::Leetspeak, 2, Form::Leetspeak, |text| each(&doubled_to_l(text), unleet)),
    (Spelling::Spaced, 1, Form::Spaced, close_up),
    (Spelling::Escapes, 1, Form::Escapes, unescape),
    (Spelling::Markup, 1, Form::Markup, markup::unmarked),
    (Spelling::Markup, 1, Form::Markup, markup::opened),
];

/// The text in every other spelling that it shows `signs` of, as far as the budget goes.
pub(super) fn respelt<'a>(view: &View<'a>, signs: Signs, budget: &mut Budget) -> Vec<View<'a>> {
    let text: &str = &view.text;
    let shows = |spelling: Spelling, least: u8| signs.0[spelling as usize] >= least;
    let readings = READINGS.iter().filter(|(spelling, least, ..)| shows(*spelling, *least));
    // None of them is longer than the text.
    let mut take = || budget.take(|budget| &mut budget.forms, text.len());
    let mut views: Vec<View<'a>> = readings
        .filter(|_| take())
        .map(|(_, _, form, read)| (read(text), *form))
        .filter(|(mapped, _)| mapped.text != text)
        .map(|(mapped, form)| view.derive(mapped, form))
        .collect();
    if shows(Spelling::Reversed, 2) && take() {
        // Which of its bytes a word came from is of no use to anybody.
        let text = text.chars().rev().collect();
        views.push(View::decoded(text, Form::Reversed, view.original(0..view.text.len())));
    }
    views
}

fn each(text: &str, with: impl Fn(char) -> char) -> Mapped {
    let mut mapped = Mapped::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        mapped.push(with(c), at);
    }
    mapped
}

fn rot13(c: char) -> char {
    match c {
        'a'..='m' | 'A'..='M' => char::from(c as u8 + 13),
        'n'..='z' | 'N'..='Z' => char::from(c as u8 - 13),
        _ => c,
    }
}

fn unleet(c: char) -> char {
    match c {
        '0' => 'o',
        '1' => 'i',
        '3' => 'e',
        '4' => 'a',
        '5' | '$' => 's',
        '7' => 't',
        '9' => 'g',
        _ => c,
    }
}

/// With `11` as `ll`: a digit may stand for two letters, and no English word has `ii`.
fn doubled_to_l(text: &str) -> String {
    text.replace("11", "ll")
}

/// Every way to write `word` with at least one letter as a digit.
fn leet_variants(word: &str) -> Vec<String> {
    let mut variants = vec![String::new()];
    for c in word.chars() {
        let digit = "0134579".chars().find(|digit| unleet(*digit) == c);
        variants = variants
            .into_iter()
            .flat_map(|text| [Some(c), digit].into_iter().flatten().map(move |c| format!("{text}{c}")))
            .collect();
    }
    variants.retain(|text| text != word);
    variants
}

/// With single letters that are set apart by one blank or mark each closed up.
fn close_up(text: &str) -> Mapped {
    let bytes = text.as_bytes();
    let mut mapped = Mapped::with_capacity(text.len());
    let mut at = 0;
    let letter = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_alphabetic);
    let mark = |at: usize| bytes.get(at).copied().filter(|byte| b" -._*".contains(byte));
    while at < bytes.len() {
        let starts = letter(at) && !at.checked_sub(1).is_some_and(letter) && !letter(at + 1);
        let run = if starts {
            let separator = mark(at + 1);
            let pairs = (1..)
                .take_while(|n| {
                    separator.is_some() && mark(at + 2 * n - 1) == separator && letter(at + 2 * n)
                })
                .count();
            // The last letter must stand alone as well.
            pairs - usize::from(pairs > 0 && letter(at + 2 * pairs + 1))
        } else {
            0
        };
        if run > 0 {
            for n in 0..=run {
                mapped.push_str(&text[at + 2 * n..=at + 2 * n], at + 2 * n);
            }
            at += 2 * run + 1;
        } else {
            let next = text[at..].chars().next().map_or(1, char::len_utf8);
            mapped.push_str(&text[at..at + next], at);
            at += next;
        }
    }
    mapped
}

/// With percent escapes, HTML entities and backslash escapes resolved.
fn unescape(text: &str) -> Mapped {
    let mut mapped = Mapped::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let plain = memchr3(b'%', b'&', b'\\', &text.as_bytes()[at..]).unwrap_or(text.len() - at);
        if plain > 0 {
            mapped.push_str(&text[at..at + plain], at);
            at += plain;
            continue;
        }
        match escape(&text[at..]) {
            Some((c, length)) => {
                mapped.replace([c], at);
                at += length;
            }
            None => {
                mapped.push_str(&text[at..=at], at);
                at += 1;
            }
        }
    }
    mapped
}

/// The character that the escape at the start of `text` stands for, and the escape's length.
fn escape(text: &str) -> Option<(char, usize)> {
    let number = |digits: Option<&str>, radix| u32::from_str_radix(digits?, radix).ok();
    let ascii = |code: u32| char::from_u32(code).filter(char::is_ascii);
    if text.starts_with('%') {
        return percent_escapes(text);
    }
    if let Some(rest) = text.strip_prefix("&#") {
        let end = rest.bytes().take(9).position(|byte| byte == b';')?;
        let digits = &rest[..end];
        let code = match digits.strip_prefix(['x', 'X']) {
            Some(hex) => number(Some(hex), 16),
            None => number(Some(digits), 10),
        };
        return Some((char::from_u32(code?)?, end + 3));
    }
    for (entity, c) in [("&lt;", '<'), ("&gt;", '>'), ("&amp;", '&'), ("&quot;", '"'), ("&nbsp;", ' ')] {
        if text.starts_with(entity) {
            return Some((c, entity.len()));
        }
    }
    match text.as_bytes().get(1)? {
        _ if !text.starts_with('\\') => None,
        b'n' | b'r' => Some(('\n', 2)),
        b't' => Some(('\t', 2)),
        b'"' => Some(('"', 2)),
        b'x' => Some((number(text.get(2..4), 16).and_then(ascii)?, 4)),
        b'u' if text[2..].starts_with('{') => {
            let end = text.bytes().take(10).position(|byte| byte == b'}')?;
            Some((char::from_u32(number(text.get(3..end), 16)?)?, end + 1))
        }
        b'u' => Some((char::from_u32(number(text.get(2..6), 16)?)?, 6)),
        _ => None,
    }
}

/// The character whose bytes the percent escapes at the start of `text` are, and how long they are.
fn percent_escapes(text: &str) -> Option<(char, usize)> {
    let byte = |at: usize| {
        let digits = text.get(at..at + 3)?.strip_prefix('%')?;
        u8::from_str_radix(digits, 16).ok()
    };
    let length = match byte(0)? {
        0..=0x7f => 1,
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    };
    let bytes: Option<Vec<u8>> = (0..length).map(|index| byte(3 * index)).collect();
    let c = std::str::from_utf8(&bytes?).ok()?.chars().next()?;
    Some((c, 3 * length))
}

/// What was decoded out of a part of a text.
pub(super) struct Run {
    /// The part. Bytes.
    pub(super) at: Range<usize>,
    /// What it stands for.
    pub(super) view: View<'static>,
}

/// What is hidden in runs of characters that stand for bytes or letters: base64, hexadecimal, and invisible ones. Where the
/// budget does not do for all of them, they are from all parts of the text.
pub(super) fn runs(view: &View<'_>, budget: &mut Budget) -> Vec<Run> {
    let mut found = Vec::new();
    let text: &str = &view.text;
    let mut take = |decoded: Option<String>, form, range: Range<usize>, budget: &mut Budget| {
        let Some(decoded) = decoded else { return };
        if budget.take(|budget| &mut budget.decoded, decoded.len() + RUN_BYTES) {
            found.push(Run { at: range.clone(), view: View::decoded(decoded, form, view.original(range)) });
        }
    };
    let tokens: Vec<Range<usize>> = tokens(text.as_bytes()).collect();
    for token in spread(tokens.len()).filter_map(|number| tokens.get(number)) {
        if budget.decoded <= RUN_BYTES {
            budget.exceeded = true;
            break;
        }
        for range in samples(token.clone(), MAX_RUN) {
            let (bytes, form) = decoded(&text[range.clone()]);
            let decoded = bytes.and_then(prose);
            // The rest of it is as much of a text as this.
            budget.exceeded |= decoded.is_some() && token.len() > 3 * MAX_RUN;
            take(decoded, form, range, budget);
        }
    }
    let spelt: Vec<(Range<usize>, Vec<u8>)> = set_apart(text.as_bytes()).collect();
    for (range, bytes) in spread(spelt.len()).filter_map(|number| spelt.get(number)) {
        take(spelt_out(bytes), Form::Hex, range.clone(), budget);
    }
    if text.is_ascii() {
        return found;
    }
    let hidden = hidden_runs(text);
    for (range, kind) in spread(hidden.len()).filter_map(|number| hidden.get(number)) {
        // One character takes four bytes at most.
        budget.exceeded |= range.len() > 3 * MAX_HIDDEN;
        for part in samples(range.clone(), MAX_HIDDEN) {
            let part = text.ceil_char_boundary(part.start)..text.floor_char_boundary(part.end);
            let (decoded, form) = revealed(&text[part.clone()], *kind);
            take(decoded, form, part, budget);
        }
    }
    found
}

/// The parts as they are read: those that are few each by itself, and many of one form together, since each text takes time
/// beside that for its bytes. In which script a part is written depends on the rest of it: together are those in ASCII.
pub(super) fn together(runs: Vec<Run>, budget: &mut Budget) -> Vec<View<'static>> {
    let is_short = |run: &Run| run.view.text.is_ascii() && run.view.text.len() <= MAX_TOGETHER;
    let (short, mut alone): (Vec<Run>, Vec<Run>) = runs.into_iter().partition(is_short);
    let mut forms: Vec<(Form, Vec<Run>)> = Vec::new();
    for run in short {
        match forms.iter_mut().find(|(form, _)| *form == run.view.form) {
            Some((_, same)) => same.push(run),
            None => forms.push((run.view.form, vec![run])),
        }
    }
    let mut views = Vec::new();
    for (form, same) in forms {
        if same.len() < MIN_TOGETHER {
            alone.extend(same);
            continue;
        }
        let texts = same.iter().map(|run| (&*run.view.text, run.view.original(0..run.view.text.len())));
        views.push(View::joined(texts, BETWEEN, form));
    }
    let read =
        alone.into_iter().map_while(|run| budget.take(|budget| &mut budget.alone, 1).then_some(run.view));
    // The plainest first.
    read.collect::<Vec<_>>().into_iter().chain(views).collect()
}

/// What a run of invisible characters stands for, or what is shown backwards.
fn revealed(run: &str, kind: Structure) -> (Option<String>, Form) {
    let hidden = run.chars();
    match kind {
        Structure::TagCharacters => {
            let letters = hidden.filter_map(|c| char::from_u32(u32::from(c).checked_sub(0xe0000)?));
            (Some(letters.filter(|c| !c.is_control()).collect()), Form::TagCharacters)
        }
        Structure::VariationSelectors => {
            (prose(hidden.filter_map(selected_byte).collect()), Form::VariationSelectors)
        }
        // A right-to-left override shows what follows backwards, up to the end of it or of the text.
        _ => (Some(hidden.rev().collect()), Form::Reversed),
    }
}

/// Runs of invisible characters that stand for something, and what stands behind a right-to-left override.
fn hidden_runs(text: &str) -> Vec<(Range<usize>, Structure)> {
    let mut runs: Vec<(Range<usize>, Structure)> = Vec::new();
    // What they begin with in UTF-8.
    let heads = |byte: &u8| matches!(byte, 0xe1 | 0xe2 | 0xef | 0xf3);
    // Where the last override ends.
    let mut turned = 0;
    let mut from = 0;
    while let Some(before) = text.as_bytes()[from..].iter().position(heads) {
        let at = from + before;
        let Some(c) = text[at..].chars().next() else { break };
        let end = at + c.len_utf8();
        from = end;
        match invisible(c) {
            Some(kind @ (Structure::TagCharacters | Structure::VariationSelectors)) => {
                match runs.last_mut() {
                    Some((range, last)) if *last == kind && range.end == at => range.end = end,
                    _ => runs.push((at..end, kind)),
                }
            }
            Some(Structure::BidiOverride) if c == '\u{202e}' => {
                // Within another one it turns nothing around.
                if at < turned {
                    continue;
                }
                let length = text[end..].find('\u{202c}').unwrap_or(text.len() - end);
                turned = end + length;
                runs.push((end..turned, Structure::BidiOverride));
            }
            _ => {}
        }
    }
    // One or two are part of an emoji.
    runs.retain(|(range, kind)| *kind == Structure::BidiOverride || range.len() > 8);
    runs
}

/// The byte that a variation selector stands for (VS1 to VS256).
fn selected_byte(c: char) -> Option<u8> {
    match u32::from(c) {
        code @ 0xfe00..=0xfe0f => u8::try_from(code - 0xfe00).ok(),
        code @ 0xe0100..=0xe01ef => u8::try_from(code - 0xe0100 + 16).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
