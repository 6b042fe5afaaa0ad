//! How much of a denied call can be rewritten, so that its name says why: the name, and the `arguments` that follow it.
//!
//! Where the last letter of the name lies is known. From there on backward the name's beginning is looked for
//! ([`opening`]), and forward the end of its arguments ([`Rewrite::step`]). Both read plain JSON only: of anything else the
//! message has one byte overwritten, as where there is no room.

use crate::scan::{Chunk, NOWHERE};

/// Most bytes of a name before its last letter.
pub const NAME_BEFORE: u32 = 128;
/// What stands before a name, at most: `"name": "`.
pub const KEY_BYTES: u32 = 9;
/// Most bytes that are rewritten.
pub const REWRITE_BYTES: usize = 4_096;

const KEY: u64 = u64::from_le_bytes(*b"\"name\":\"");
/// Its first seven bytes, and the eight bytes of the form with a blank.
const KEY_OF_BLANK: u64 = u64::from_le_bytes(*b"\"name\": ");
const ARGUMENTS: [u8; 16] = *b"\"arguments\":\0\0\0\0";
/// How many of these there are.
const ARGUMENTS_BYTES: u8 = 12;

/// The end of the name is next.
const QUOTE: u8 = 0;
/// Behind the name.
const NAMED: u8 = 1;
/// Behind the comma after it.
const COMMA: u8 = 2;
/// Within the key.
const IN_KEY: u8 = 3;
/// Behind the key.
const VALUE: u8 = 4;
/// Within the arguments.
const WITHIN: u8 = 5;
const STRING: u8 = 6;
const ESCAPE: u8 = 7;

/// What [`Rewrite::step`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The next byte decides.
    More,
    /// The name alone.
    Name,
    /// The name, and its arguments up to here.
    Arguments,
    /// Nothing.
    Nothing,
}

/// Reads on from behind the last letter of a name. All zeros at the beginning.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// Brackets that are open within the arguments.
    depth: u32,
    state: u8,
    /// Bytes of the key that were read.
    matched: u8,
    /// Always 0.
    zero: u16,
}

impl Rewrite {
    /// Takes the next byte.
    #[inline(always)]
    pub fn step(&mut self, byte: u8) -> Reach {
        if byte < b' ' {
            // A reader of lines may end one here; behind the name that changes nothing.
            return if self.state == QUOTE || self.state >= WITHIN { Reach::Nothing } else { Reach::Name };
        }
        match (self.state, byte) {
            (QUOTE, b'"') => self.state = NAMED,
            (QUOTE, _) => return Reach::Nothing,
            (NAMED | COMMA | VALUE, b' ') => {}
            (NAMED, b',') => self.state = COMMA,
            (COMMA, b'"') => (self.state, self.matched) = (IN_KEY, 1),
            (IN_KEY, _) if byte == ARGUMENTS[self.matched as usize & 15] => {
                self.matched += 1;
                if self.matched == ARGUMENTS_BYTES {
                    self.state = VALUE;
                }
            }
            (VALUE, b'{') => (self.state, self.depth) = (WITHIN, 1),
            (WITHIN, b'"') => self.state = STRING,
            (WITHIN, b'{' | b'[') => self.depth = self.depth.wrapping_add(1),
            (WITHIN, b'}' | b']') => {
                self.depth = self.depth.wrapping_sub(1);
                if self.depth == 0 {
                    return if byte == b'}' { Reach::Arguments } else { Reach::Nothing };
                }
            }
            (STRING, b'"') | (ESCAPE, _) => self.state = if self.state == ESCAPE { STRING } else { WITHIN },
            (STRING, b'\\') => self.state = ESCAPE,
            (WITHIN | STRING, _) => {}
            _ => return Reach::Name,
        }
        Reach::More
    }
}

/// Where a name begins whose last letter is the byte `last` of a chunk; [`NOWHERE`] where that is not behind the plain key `name`.
#[inline(always)]
pub fn opening(chunk: &Chunk, last: u32) -> u32 {
    let mut at = last;
    for _ in 0..NAME_BEFORE {
        // Nothing before the write is looked at.
        if at < KEY_BYTES - 1 {
            return NOWHERE;
        }
        let byte = chunk.byte(at - 1);
        if byte == b'"' {
            let is_key =
                chunk.word(at - 8) == KEY || at >= KEY_BYTES && chunk.word(at - KEY_BYTES) == KEY_OF_BLANK;
            return if is_key { at } else { NOWHERE };
        }
        if byte == b'\\' || byte < b' ' {
            return NOWHERE;
        }
        at -= 1;
    }
    NOWHERE
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::{format, string::String, string::ToString as _, vec::Vec};

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// The bytes that are rewritten of a message whose name's last letter is at `last`: from, to, and whether arguments are
    /// among them.
    fn extent(message: &[u8], last: usize) -> Option<(usize, usize, bool)> {
        let from = last.saturating_sub((NAME_BEFORE + KEY_BYTES) as usize);
        let mut chunk = Chunk::default();
        let head = &message[from..=last];
        chunk.bytes()[..head.len()].copy_from_slice(head);
        chunk.end_at(head.len() as u32);
        let opening = match opening(&chunk, head.len() as u32 - 1) {
            NOWHERE => return None,
            opening => from + opening as usize,
        };
        let mut rewrite = Rewrite::default();
        for (at, byte) in message.iter().enumerate().skip(last + 1) {
            match rewrite.step(*byte) {
                Reach::More => {}
                Reach::Name => return Some((opening, last + 1, false)),
                Reach::Arguments => return Some((opening, at + 1, true)),
                Reach::Nothing => return None,
            }
        }
        None
    }

    /// The message with what is rewritten as `<…>`, the last letter of whose name is the one before `^`.
    fn shown(text: &str) -> String {
        let last = text.find('^').unwrap() - 1;
        let message = text.replacen('^', "", 1);
        match extent(message.as_bytes(), last) {
            Some((from, to, _)) => format!("{}<{}>{}", &message[..from], &message[from..to], &message[to..]),
            None => "nothing".to_string(),
        }
    }

    #[test]
    fn name_and_its_arguments_are_rewritten() {
        for (text, expected) in [
            (
                r#"{"params":{"name":"add^","arguments":{"a":1}},"id":1}"#,
                r#"{"params":{"name":"<add","arguments":{"a":1}>},"id":1}"#,
            ),
            (
                r#"{"params": {"name": "add^", "arguments": {"a": [1, {"b": "}\"{"}]}, "_meta": {}}}"#,
                r#"{"params": {"name": "<add", "arguments": {"a": [1, {"b": "}\"{"}]}>, "_meta": {}}}"#,
            ),
            (r#"{"name":"add^","arguments":{}}"#, r#"{"name":"<add","arguments":{}>}"#),
            (r#"{"name":"add^"}"#, r#"{"name":"<add>"}"#),
            (r#"{"name":"add^" , "x":1}"#, r#"{"name":"<add>" , "x":1}"#),
            (r#"{"name":"add^","arguments":null}"#, r#"{"name":"<add>","arguments":null}"#),
            (r#"{"name":"add^","arguments":[1]}"#, r#"{"name":"<add>","arguments":[1]}"#),
            (r#"{"name":"add^","argument":{}}"#, r#"{"name":"<add>","argument":{}}"#),
            (r#"{"arguments":{},"name":"add^"}"#, r#"{"arguments":{},"name":"<add>"}"#),
            ("{\"name\":\"add^\"\n", "{\"name\":\"<add>\"\n"),
            (r#"{"name":"é add^"}"#, r#"{"name":"<é add>"}"#),
            // The name is cut, has an escape, or is behind another key.
            (r#"{"name":"add^"#, "nothing"),
            (r#"{"name":"add^é"}"#, "nothing"),
            (r#"{"name":"add^\n"}"#, "nothing"),
            (r#"{"name":"a\u0064d^"}"#, "nothing"),
            (r#"{"n\u0061me":"add^"}"#, "nothing"),
            (r#"{"Name":"add^"}"#, "nothing"),
            (r#"{"name":  "add^"}"#, "nothing"),
            (r#"{"method":"tools/call^"}"#, "nothing"),
            // Arguments that are cut, or no plain JSON.
            (r#"{"name":"add^","arguments":{"a":1"#, "nothing"),
            ("{\"name\":\"add^\",\"arguments\":{\n}}", "nothing"),
            (r#"{"name":"add^","arguments":{]}"#, "nothing"),
            (r#"add^"}"#, "nothing"),
            (r#""name":"add^"}"#, r#""name":"<add>"}"#),
            (r#"name":"add^"}"#, "nothing"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
        let long = |bytes: usize| format!("{{\"name\":\"{}^\"}}", "x".repeat(bytes));
        assert_eq!(shown(&long(128)), long(128).replace(":\"", ":\"<").replace('^', ">"));
        assert_eq!(shown(&long(129)), "nothing");
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i32>().prop_map(Value::from),
            "[ -~é\\n\"\\\\{}\\[\\]]{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z\"{}\\\\]{0,4}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// Whatever the arguments: what is left is the same message, but for the name and the arguments.
        #[test]
        fn rest_of_the_message_stays(
            arguments in prop::collection::btree_map("[a-z\"]{0,4}", values(), 0..4),
            meta in values(),
            name in "[a-z_]{1,20}",
        ) {
            let arguments = Value::Object(arguments.into_iter().collect());
            let before = format!("{{\"method\":\"tools/call\",\"params\":{{\"_meta\":{meta},\"name\":\"");
            let message = format!("{before}{name}\",\"arguments\":{arguments},\"x\":{meta}}},\"id\":7}}");
            let last = before.len() + name.len() - 1;
            let (from, to, has_arguments) = extent(message.as_bytes(), last).unwrap();
            prop_assert!(has_arguments && from == before.len());
            let rewritten = format!("{}no\",\"arguments\":{{}}{}", &message[..from], &message[to..]);
            let mut expected: Value = serde_json::from_str(&message).unwrap();
            expected["params"]["name"] = "no".into();
            expected["params"]["arguments"] = serde_json::json!({});
            prop_assert_eq!(serde_json::from_str::<Value>(&rewritten).unwrap(), expected);
        }

        /// Of any bytes: it ends, and what it says lies within.
        #[test]
        fn extent_lies_within_any_bytes(message in prop::collection::vec(any::<u8>(), 1..400), last in any::<prop::sample::Index>()) {
            let last = last.index(message.len());
            if let Some((from, to, _)) = extent(&message, last) {
                let key = Vec::from(&message[..from]);
                prop_assert!(key.ends_with(b"\"name\":\"") || key.ends_with(b"\"name\": \""));
                prop_assert!(from <= last && last < to && to <= message.len());
            }
        }
    }
}
