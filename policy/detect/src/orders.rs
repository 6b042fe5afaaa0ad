//! Names in the orders of a definition: "call list_rooms first". Of whose tools they are the registry knows; that an order
//! is about the tools of another server is what no wording hides.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::ops::{Range, RangeInclusive};
use std::sync::LazyLock;

use mcpwarden_terms::Match;

use super::evidence::{Masking, evidence};
use super::fold::folded;
use super::sentence::end_of_sentence;
use super::walk::{Leaf, Path, walk};

/// Most names that are kept of one definition.
const MAX_NAMES: usize = 64;
/// Shortest and longest name that is looked for. Bytes.
const NAME_BYTES: RangeInclusive<usize> = 4..=128;
/// Words one of which every order in English has.
const ORDERS: [&str; 40] = [
    "after", "always", "avoid", "before", "bypass", "call", "calling", "do", "don", "ensure", "every",
    "execute", "first", "forward", "ignore", "include", "insert", "instead", "invoke", "make", "must",
    "need", "never", "not", "once", "pass", "please", "prefer", "replace", "run", "send", "set", "shall",
    "should", "stop", "trigger", "use", "using", "when", "whenever",
];

/// The names that the orders of a definition give, as digests: a comparison costs nothing, and each takes 8 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrderedNames {
    digests: Box<[u64]>,
    /// Names beyond the most that are kept of one definition.
    pub dropped: u64,
}

impl OrderedNames {
    /// Those of the JSON text of a definition.
    pub fn of(json: &str) -> Self {
        let (mut digests, mut dropped) = (Vec::new(), 0);
        for_each(json, |_, text, range| {
            let digest = digest(&text[range]);
            if digests.contains(&digest) {
            } else if digests.len() < MAX_NAMES {
                digests.push(digest);
            } else {
                dropped += 1;
            }
        });
        Self { digests: digests.into(), dropped }
    }

    /// The digests, in the order in which the names come.
    pub fn digests(&self) -> impl Iterator<Item = u64> + '_ {
        self.digests.iter().copied()
    }
}

/// The digest of a name, which is another one in each process: nobody can find two names of one digest.
pub fn digest(name: &str) -> u64 {
    static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::default);
    HASHER.hash_one(name.to_ascii_lowercase())
}

/// Where an order of a definition gives this name: the field as a JSON Pointer, and the evidence.
pub fn order_about(json: &str, name: &str) -> Option<(String, Match)> {
    let mut found = None;
    for_each(json, |path, text, range| {
        if found.is_none() && text[range.clone()].eq_ignore_ascii_case(name) {
            found = Some((path.pointer(), evidence(text, range, Masking::Secrets, false)));
        }
    });
    found
}

/// Calls `visit` with each name in an order: the way to the text, the text in normal form, where the name is in it.
fn for_each(json: &str, mut visit: impl FnMut(&Path<'_>, &str, Range<usize>)) {
    walk(json, |path, leaf, text| {
        if leaf != Leaf::Text || path.is("name") || path.root() == "_meta" || path.root() == "icons" {
            return;
        }
        let text = folded(&text);
        let mut start = 0;
        while start < text.len() {
            let end = end_of_sentence(text.as_bytes(), start, text.len());
            let end = text.ceil_char_boundary((end + 1).min(text.len()));
            if is_order(&text[start..end]) {
                names(&text, start..end).for_each(|range| visit(path, &text, range));
            }
            start = end;
        }
    });
}

/// Whether a sentence orders something. What is in another language may.
fn is_order(sentence: &str) -> bool {
    // `send_mail` is no order to send.
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/');
    let mut words = sentence.split(|c| !is_part(c));
    !sentence.is_ascii() || words.any(|word| ORDERS.iter().any(|order| word.eq_ignore_ascii_case(order)))
}

/// What in a part of a text looks like the name of a tool: `list_rooms`, `listRooms`, `list-rooms`, or any word in quotes.
fn names(text: &str, part: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let mut at = part.start;
    let words = std::iter::from_fn(move || {
        let rest = &text[at..part.end];
        let start = at + rest.find(is_part)?;
        at = text[start..part.end].find(|c| !is_part(c)).map_or(part.end, |length| start + length);
        Some(start..at)
    });
    words.filter_map(move |range| {
        let word = text[range.clone()].trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let end = range.start + word.len();
        let word = word.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
        let start = end - word.len();
        let quote = text[..start].bytes().next_back().filter(|byte| matches!(byte, b'`' | b'\'' | b'"'));
        let is_quoted = quote.is_some() && quote == text[end..].bytes().next();
        (NAME_BYTES.contains(&word.len()) && (is_quoted || is_compound(word))).then_some(start..end)
    })
}

/// Whether a word is made of several, as prose has none: with `_`, or a capital within it; or with `-`, `.` or `/`.
fn is_compound(word: &str) -> bool {
    let pairs = word.as_bytes().windows(2);
    word.contains(['_', '-', '.', '/']) || { pairs }
        .any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(description: &str) -> Vec<String> {
        let json = json!({"name": "own_tool", "description": description}).to_string();
        let mut found = Vec::new();
        for_each(&json, |_, text, range| found.push(text[range].to_owned()));
        found
    }

    #[test]
    fn names_are_found_in_orders_only() {
        let cases: [(&str, &[&str]); 14] = [
            ("Before you answer, call list_rooms.", &["list_rooms"]),
            ("Always use listRooms, never list-halls", &["listRooms", "list-halls"]),
            ("You must set the `limit` to 'four'.", &["limit", "four"]),
            ("When send_mail is called, add a copy.", &["send_mail"]),
            ("As list_rooms does, this lists halls.", &[]),
            ("Lists rooms. Similar to list_halls.", &[]),
            ("Similar to list_halls. Use list_rooms.", &["list_rooms"]),
            ("Use it with care", &[]),
            ("Run fs.read and mail/send", &["fs.read", "mail/send"]),
            ("调用 list_rooms", &["list_rooms"]),
            ("Call l\u{200b}ist_rooms", &["list_rooms"]),
            ("Call \"list_rooms\" (never 'it').", &["list_rooms"]),
            ("use a_b", &[]),
            ("", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn ordered_names_are_bounded_and_counted() {
        let text: String = (0..MAX_NAMES + 10).map(|number| format!("call tool_{number}, ")).collect();
        let json = json!({"description": text}).to_string();
        let names = OrderedNames::of(&json);
        assert_eq!((names.digests().count(), names.dropped), (MAX_NAMES, 10));
        assert!(names.digests().any(|found| found == digest("TOOL_0")));
        assert!(names.digests().all(|found| found != digest("tool_64")));
    }

    #[test]
    fn order_is_shown_with_its_field() {
        let json = json!({"inputSchema": {"properties": {"note": {"description": "First call Read_Mail, please."}}}});
        let (field, evidence) = order_about(&json.to_string(), "read_mail").unwrap();
        assert_eq!(
            (field.as_str(), evidence.text.as_str()),
            ("/inputSchema/properties/note/description", "Read_Mail")
        );
        assert_eq!((evidence.position, evidence.context.as_str()), (11, "First call Read_Mail, please."));
        assert_eq!(order_about(&json.to_string(), "send_mail"), None);
    }
}
