//! Characters that make a reader see something else than what is there, and JSON without them.
//!
//! Names and texts come from strangers. In a terminal or a log viewer control characters can rewrite what was printed
//! before, bidirectional controls reorder it, and characters without a shape hide text in it.

use std::{
    io::{self, Write},
    ops::RangeInclusive,
};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// In order, from the Unicode Character Database, version 17: general category Cc, Cf, Zl or Zp
/// (`DerivedGeneralCategory.txt`: controls, bidirectional controls, other ends of lines) or
/// `Default_Ignorable_Code_Point` (`DerivedCoreProperties.txt`: zero width, fillers, variation selectors, tags).
const DECEPTIVE: [RangeInclusive<char>; 27] = [
    '\0'..='\u{1f}',
    '\u{7f}'..='\u{9f}',
    '\u{ad}'..='\u{ad}',
    '\u{34f}'..='\u{34f}',
    '\u{600}'..='\u{605}',
    '\u{61c}'..='\u{61c}',
    '\u{6dd}'..='\u{6dd}',
    '\u{70f}'..='\u{70f}',
    '\u{890}'..='\u{891}',
    '\u{8e2}'..='\u{8e2}',
    '\u{115f}'..='\u{1160}',
    '\u{17b4}'..='\u{17b5}',
    '\u{180b}'..='\u{180f}',
    '\u{200b}'..='\u{200f}',
    '\u{2028}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{3164}'..='\u{3164}',
    '\u{fe00}'..='\u{fe0f}',
    '\u{feff}'..='\u{feff}',
    '\u{ffa0}'..='\u{ffa0}',
    '\u{fff0}'..='\u{fffb}',
    '\u{110bd}'..='\u{110bd}',
    '\u{110cd}'..='\u{110cd}',
    '\u{13430}'..='\u{1343f}',
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0000}'..='\u{e0fff}',
];

/// Whether a character can deceive whoever reads it.
pub fn is_deceptive(character: char) -> bool {
    !(' '..='~').contains(&character) && DECEPTIVE.iter().any(|range| range.contains(&character))
}

/// Appends a value as JSON on one line; deceptive characters stand in it as `\uXXXX`, those beyond U+FFFF as two of
/// them (RFC 8259, section 7).
pub fn write_json(value: &impl Serialize, out: &mut Vec<u8>) {
    // Writing to memory cannot fail, and the keys of what is written here are strings.
    let _ = value.serialize(&mut Serializer::with_formatter(out, Escaped));
}

/// serde_json's compact form, with more escapes.
struct Escaped;

impl Formatter for Escaped {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, text: &str) -> io::Result<()> {
        let mut plain = 0;
        for (at, character) in text.char_indices().filter(|(_, character)| is_deceptive(*character)) {
            writer.write_all(text.get(plain..at).unwrap_or_default().as_bytes())?;
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            plain = at + character.len_utf8();
        }
        writer.write_all(text.get(plain..).unwrap_or_default().as_bytes())
    }

    /// A value that is JSON already: payloads, and the keys in them. Outside of strings JSON has no character beyond ASCII,
    /// and inside of them no control below a blank; so all that is deceptive is in a string, but for line breaks between
    /// values.
    fn write_raw_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, json: &str) -> io::Result<()> {
        json.split(|c: char| c < ' ').try_for_each(|part| self.write_string_fragment(writer, part))
    }
}

#[cfg(test)]
mod tests {
    use mcpwarden_policy::event::Json;
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn json(value: &Value) -> String {
        let mut line = Vec::new();
        write_json(value, &mut line);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn deceptive_characters_are_escaped() {
        let cases = [
            ("plain \u{e9} \u{4e2d} \u{1f600}", "\"plain \u{e9} \u{4e2d} \u{1f600}\""),
            ("a\x1b[2J\n", r#""a\u001b[2J\n""#),
            ("\u{7f}", r#""\u007f""#),
            ("\u{9b}2J", r#""\u009b2J""#),
            ("\u{61c}\u{202e}b", r#""\u061c\u202eb""#),
            ("\u{200b}\u{2028}\u{feff}", r#""\u200b\u2028\ufeff""#),
            ("\u{e0041}x", r#""\udb40\udc41x""#),
            ("\u{e0001}", r#""\udb40\udc01""#),
            (r#"\u202e "#, r#""\\u202e ""#),
        ];
        for (text, expected) in cases {
            assert_eq!(json(&text.into()), expected);
        }
        assert_eq!(json(&serde_json::json!({"\u{202e}": ["\u{200b}"]})), r#"{"\u202e":["\u200b"]}"#);
    }

    /// What an event has as text already.
    #[test]
    fn deceptive_characters_of_raw_values_are_escaped() {
        for (raw, expected) in [
            ("{\"a\u{202e}b\":\"\u{9b}2J\"}", r#"{"a\u202eb":"\u009b2J"}"#),
            ("[\"\u{2028}\",{\"\u{200b}\":[]}]", r#"["\u2028",{"\u200b":[]}]"#),
            ("{\"\u{e0041}\\\\\u{ad}\":\"\\\"\u{7f}\"}", r#"{"\udb40\udc41\\\u00ad":"\"\u007f"}"#),
            ("{ \"a\":\r\n\t1,\n\"b\": \"c d\"}", r#"{ "a":1,"b": "c d"}"#),
        ] {
            let mut line = Vec::new();
            write_json(&[Json::new(raw.to_owned())], &mut line);
            assert_eq!(String::from_utf8(line).unwrap(), format!("[{expected}]"));
            let value: Value = serde_json::from_str(raw).unwrap();
            assert_eq!(serde_json::from_str::<Value>(expected).unwrap(), value);
        }
    }

    proptest! {
        #[test]
        fn escaped_json_keeps_its_value(texts in prop::collection::vec(any::<String>(), 0..4), any in "\\PC*|[\\p{C}\\p{Z}]*") {
            let value = serde_json::json!({"texts": texts, any.clone(): any, "n": 1.5});
            let mut raw = Vec::new();
            write_json(&Json::from(&value), &mut raw);
            for line in [json(&value), String::from_utf8(raw).unwrap()] {
                prop_assert!(!line.contains(is_deceptive), "{line:?}");
                prop_assert_eq!(&serde_json::from_str::<Value>(&line).unwrap(), &value);
            }
        }
    }
}
