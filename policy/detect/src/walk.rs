//! Every string and every key of a JSON text, with the path that leads there.
//!
//! Neither recursive nor a tree: it takes one pass, and its memory is bounded whatever the nesting. What is no
//! JSON is walked as far as it makes sense: the reader at the other end may be as tolerant.

use std::borrow::Cow;
use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;

use mcpwarden_protocol::message::{Key, decode_str};
use mcpwarden_terms::escape_pointer;
use memchr::memchr2;
use serde_json::Deserializer;

use crate::redact::is_secret_key;

/// Levels whose keys are kept for the path; below, the path says where it was cut off.
const MAX_DEPTH: usize = 256;
/// Longest path in a detection. Bytes.
const MAX_POINTER: usize = 512;
/// Most keys of one text that are remembered to find duplicates.
const MAX_KEYS: usize = 65_536;

/// What was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaf {
    /// The key of a member. The path ends with it.
    Key,
    /// The same, and its object has that key already.
    DuplicateKey,
    /// A string value.
    Text,
}

#[derive(Debug)]
enum Step<'a> {
    /// In an object: the key, as JSON with its quotes.
    Key(&'a str),
    /// In an array: the position.
    Index(usize),
}

impl<'a> Step<'a> {
    fn key(&self) -> Option<&'a str> {
        match self {
            Self::Key(key) => Some(key.trim_matches('"')),
            Self::Index(_) => None,
        }
    }
}

/// The way from the root to a value.
#[derive(Debug, Default)]
pub(super) struct Path<'a> {
    steps: Vec<Step<'a>>,
    depth: usize,
}

impl<'a> Path<'a> {
    /// As a JSON Pointer (RFC 6901); cut at a bound, and then it ends with `…`.
    pub(super) fn pointer(&self) -> String {
        let mut out = String::new();
        for step in &self.steps {
            let before = out.len();
            match step {
                Step::Key(key) => {
                    let key = decode_str(key).unwrap_or(Cow::Borrowed(*key));
                    out.push('/');
                    if is_secret_key(&key) {
                        out.push('…');
                        continue;
                    }
                    out.push_str(&escape_pointer(&key));
                }
                Step::Index(index) => out.push_str(&format!("/{index}")),
            }
            if out.len() > MAX_POINTER {
                out.truncate(out.floor_char_boundary(before.max(MAX_POINTER)));
                out.push('…');
                return out;
            }
        }
        if self.depth > self.steps.len() {
            out.push('…');
        }
        out
    }

    /// The keys on the way, the last first, without quotes and with escapes; positions are left out.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.steps.iter().rev().filter_map(Step::key)
    }

    /// The first key on the way.
    pub(super) fn root(&self) -> &'a str {
        let first = self.steps.iter().find_map(Step::key);
        first.unwrap_or_default()
    }

    /// Whether it is this one key long.
    pub(super) fn is(&self, key: &str) -> bool {
        self.depth == 1 && self.root() == key
    }

    /// Whether the value is an element of an array.
    pub(super) fn in_array(&self) -> bool {
        matches!(self.steps.last(), Some(Step::Index(_)))
    }
}

/// Calls `visit` with each key and each string of `json`, in order. Whether all keys could be remembered.
pub(super) fn walk<'a>(json: &'a str, mut visit: impl FnMut(&Path<'a>, Leaf, Cow<'a, str>)) -> bool {
    let bytes = json.as_bytes();
    let mut path = Path::default();
    // Of the objects on the way, the number that tells their keys from those of others.
    let mut objects: Vec<u32> = Vec::new();
    let (mut next_object, hasher) = (0_u32, RandomState::new());
    let mut keys: HashSet<u64> = HashSet::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'{' | b'[' => {
                path.depth += 1;
                next_object = next_object.wrapping_add(1);
                if path.depth <= MAX_DEPTH {
                    path.steps.push(if byte == b'{' { Step::Key("") } else { Step::Index(0) });
                    objects.push(next_object);
                }
            }
            b'}' | b']' => {
                if path.depth <= MAX_DEPTH {
                    path.steps.pop();
                    objects.pop();
                }
                path.depth = path.depth.saturating_sub(1);
            }
            b',' if path.depth <= MAX_DEPTH => {
                if let Some(Step::Index(index)) = path.steps.last_mut() {
                    *index += 1;
                }
            }
            b'"' => {
                let (text, end) = string(json, at);
                let after = bytes[end..].iter().find(|byte| !byte.is_ascii_whitespace());
                if after != Some(&b':') {
                    visit(&path, Leaf::Text, text);
                } else if path.depth > MAX_DEPTH {
                    visit(&path, Leaf::Key, text);
                } else {
                    if let Some(step @ Step::Key(_)) = path.steps.last_mut() {
                        *step = Step::Key(&json[at..end]);
                    }
                    let twice =
                        keys.len() < MAX_KEYS && !keys.insert(hasher.hash_one((objects.last(), &*text)));
                    visit(&path, if twice { Leaf::DuplicateKey } else { Leaf::Key }, text);
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    keys.len() < MAX_KEYS
}

/// The string that begins at `at`, and where it ends.
fn string(json: &str, at: usize) -> (Cow<'_, str>, usize) {
    let mut values = Deserializer::from_str(&json[at..]).into_iter();
    if let Some(Ok(Key(text))) = values.next() {
        return (text, at + values.byte_offset());
    }
    // A lone surrogate, a control character, or no end.
    let end = string_end(json.as_bytes(), at);
    let raw = &json[at..end];
    (decode_str(raw).unwrap_or_else(|| Cow::Borrowed(raw.trim_matches('"'))), end)
}

/// Where the string that begins at `at` ends: behind its closing quote, or with the text.
fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut from = at + 1;
    while let Some(found) = bytes.get(from..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        if bytes[from + found] == b'"' {
            return from + found + 1;
        }
        from += found + 2;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(json: &str) -> Vec<(String, Leaf, String)> {
        let mut met = Vec::new();
        walk(json, |path, leaf, text| met.push((path.pointer(), leaf, text.into_owned())));
        met
    }

    #[test]
    fn every_string_and_key_is_visited_with_its_path() {
        use Leaf::*;
        type Met = (&'static str, Leaf, &'static str);
        let cases: &[(&str, &[Met])] = &[
            (r#""top""#, &[("", Text, "top")]),
            (
                r#"{"a": {"b/c~": ["x", 1, "y"]}, "d": "z"}"#,
                &[
                    ("/a", Key, "a"),
                    ("/a/b~1c~0", Key, "b/c~"),
                    ("/a/b~1c~0/0", Text, "x"),
                    ("/a/b~1c~0/2", Text, "y"),
                    ("/d", Key, "d"),
                    ("/d", Text, "z"),
                ],
            ),
            (
                r#"{"a": 1, "\u0061": "twice", "o": {"a": 1}}"#,
                &[
                    ("/a", Key, "a"),
                    ("/a", DuplicateKey, "a"),
                    ("/a", Text, "twice"),
                    ("/o", Key, "o"),
                    ("/o/a", Key, "a"),
                ],
            ),
            (
                r#"["\ud800", "q\"", "open"#,
                &[("/0", Text, "\u{fffd}"), ("/1", Text, "q\""), ("/2", Text, "open")],
            ),
            ("}]],", &[]),
            (r#"[[]"x\"#, &[("/0", Text, "x\\")]),
        ];
        for (json, expected) in cases {
            let expected: Vec<_> =
                expected.iter().map(|(path, leaf, text)| ((*path).into(), *leaf, (*text).into())).collect();
            assert_eq!(met(json), expected, "{json}");
        }
    }

    #[test]
    fn deep_json_uses_constant_stack_and_memory() {
        let depth = 10_000;
        let json = format!("{}\"deep\"{}", "[".repeat(depth), "]".repeat(depth));
        let met = met(&json);
        assert_eq!(met.len(), 1);
        assert!(met[0].0.starts_with("/0/0/") && met[0].0.ends_with('…'), "{}", met[0].0);
        assert_eq!(met[0].2, "deep");
    }
}
