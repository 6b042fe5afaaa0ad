//! Text that only tolerant readers take for JSON, into JSON.

use std::fmt::Write;

/// What is no JSON, and what Python reads and writes all the same.
const NO_NUMBERS: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// What some reader's `trim` removes and JSON does not call white space: `str.strip` of Python, `trim` of JavaScript, `Trim` of
/// .NET and `strip` of Java together; a byte order mark, and NUL, which ends C strings. To cJSON, all control characters are white space.
pub(crate) const BLANKS: [char; 30] = [
    '\0', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{1f}', '\u{85}', '\u{a0}', '\u{1680}',
    '\u{180e}', '\u{2000}', '\u{2001}', '\u{2002}', '\u{2003}', '\u{2004}', '\u{2005}', '\u{2006}',
    '\u{2007}', '\u{2008}', '\u{2009}', '\u{200a}', '\u{200b}', '\u{2028}', '\u{2029}', '\u{202f}',
    '\u{205f}', '\u{2060}', '\u{3000}', '\u{feff}',
];

/// What [`mend`] has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mended {
    /// Anything.
    pub(super) any: bool,
    /// The syntax: more than numbers and control characters, which programs write by mistake.
    pub(super) syntax: bool,
}

/// Copies `text` to `out` as JSON, if a tolerant reader takes it. What no reader takes is copied as it is.
///
/// - Control characters in strings are escaped (`json.loads(strict=False)` of Python);
/// - numbers that JSON does not have become strings (Python's `json`);
/// - escapes that JSON does not have are those of JSON5, or the character itself;
/// - comments become blanks, a comma behind the last element is left out, strings may be in single quotes (Newtonsoft.Json, Jackson
///   and System.Text.Json with their options for it); missing elements are null, `;` is a comma, `=` and `=>` are colons (Gson);
/// - keys may be without quotes, and so may strings within an object (kotlinx.serialization, `isLenient`, which the official Kotlin SDK
///   sets); `true`, `false` and `null` may be in any case (PHP), and numbers in other spellings (`+1`, `.5`, `007`, `0x10`);
/// - `new NAME(…)` is null (Newtonsoft.Json), and a backslash at the end of a line joins it and the next (JSON5);
/// - what some reader calls white space becomes a blank, outside of strings.
pub(super) fn mend(text: &str, out: &mut String) -> Mended {
    mend_with(text, out, Escapes::Json5)
}

/// What an escape is that JSON does not have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Escapes {
    /// That of JSON5, where it has it.
    Json5,
    /// The character itself, whichever (Ruby's json up to 2.9; Jackson with `ALLOW_BACKSLASH_ESCAPING_ANY_CHARACTER`).
    Bare,
}

/// As [`mend`], with these escapes.
pub(super) fn mend_with(text: &str, out: &mut String, escapes: Escapes) -> Mended {
    out.clear();
    out.reserve(text.len());
    let mut mender = Mender {
        rest: text,
        out,
        comma: None,
        objects: 0,
        mended: Mended::default(),
        escapes,
        ends_none: false,
    };
    while let Some(character) = mender.rest.chars().next() {
        mender.structure(character);
    }
    mender.mended
}

struct Mender<'a> {
    rest: &'a str,
    out: &'a mut String,
    /// Where in `out` the last comma is, while nothing but blanks is behind it.
    comma: Option<usize>,
    /// How many objects are open. Outside of them a word is part of a log line (`[INFO] …`), and no value.
    objects: usize,
    mended: Mended,
    escapes: Escapes,
    /// Whether a call of a constructor was begun that does not end: none behind it is looked for, each of which would go to the end of the text.
    ends_none: bool,
}

impl Mender<'_> {
    /// Takes a character outside of strings, and what belongs to it.
    fn structure(&mut self, character: char) {
        match character {
            '"' | '\'' => {
                self.comma = None;
                self.string(character);
            }
            '/' | '#' => self.comment(),
            // As Gson takes them, which reads leniently unless it is told not to.
            ';' if self.objects > 0 => {
                self.comma = Some(self.out.len());
                self.respell(1, ",");
            }
            '=' if self.objects > 0 => {
                self.comma = None;
                self.respell(if self.rest.starts_with("=>") { 2 } else { 1 }, ":");
            }
            'N' | 'I' | '-' if self.objects == 0 && self.is_no_number() => {
                self.comma = None;
                self.number();
            }
            'a'..='z' | 'A'..='Z' | '_' | '$' => self.word(),
            ' ' | '\t' | '\n' | '\r' => self.copy(character),
            _ if is_blank(character) => self.respace(character.len_utf8()),
            '{' => {
                self.comma = None;
                self.objects += 1;
                self.copy(character);
            }
            ',' => {
                // Nothing between two commas, or before the first, is null.
                if self.objects > 0 && (self.comma.is_some() || self.out.trim_end().ends_with('[')) {
                    self.respell(0, "null");
                }
                self.comma = Some(self.out.len());
                self.copy(character);
            }
            '}' | ']' => {
                self.objects = self.objects.saturating_sub(usize::from(character == '}'));
                if let Some(at) = self.comma.take() {
                    self.mended = Mended { any: true, syntax: true };
                    self.out.replace_range(at..=at, " ");
                }
                self.copy(character);
            }
            _ if self.objects > 0 && !matches!(character, '[' | ':' | '\\') => self.value(),
            _ => {
                self.comma = None;
                self.copy(character);
            }
        }
    }

    fn copy(&mut self, character: char) {
        self.out.push(character);
        self.skip(character.len_utf8());
    }

    fn respace(&mut self, length: usize) {
        self.respell(length, " ");
    }

    /// Other readers write what comes another way.
    fn respell(&mut self, length: usize, by: &str) {
        self.mended.syntax = true;
        self.replace(length, by);
    }

    fn replace(&mut self, length: usize, by: &str) {
        self.mended.any = true;
        self.out.push_str(by);
        self.skip(length);
    }

    fn skip(&mut self, length: usize) {
        self.rest = self.rest.get(length..).unwrap_or_default();
    }

    fn comment(&mut self) {
        let Some(character) = self.rest.chars().next() else { return };
        let end = if self.rest.starts_with("//") || self.objects > 0 && self.rest.starts_with('#') {
            self.rest.find(['\n', '\r'])
        } else if self.rest.starts_with("/*") {
            self.rest.get(2..).and_then(|text| text.find("*/")).map(|at| at + 4)
        } else {
            return if self.objects > 0 { self.value() } else { self.copy(character) };
        };
        self.respace(end.unwrap_or(self.rest.len()));
    }

    /// Takes a word: a key without quotes, if a colon follows.
    fn word(&mut self) {
        self.comma = None;
        let is_letter = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '-');
        let length = self.rest.find(|c| !is_letter(c)).unwrap_or(self.rest.len());
        let (word, after) = self.rest.split_at(length);
        if after.trim_start().starts_with(':') {
            self.mended = Mended { any: true, syntax: true };
            self.out.extend(["\"", word, "\""]);
        } else if self.objects > 0 {
            return self.value();
        } else {
            self.out.push_str(word);
        }
        self.rest = after;
    }

    /// How long the call of a constructor is that stands here: `new Date(2026, "(")`. `None`: there is none.
    fn construction(&mut self) -> Option<usize> {
        let text = self.rest;
        let name = text.strip_prefix("new")?;
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '.');
        let call = name.trim_start().trim_start_matches(is_name).trim_start();
        if self.ends_none || !name.starts_with(char::is_whitespace) || !call.starts_with('(') {
            return None;
        }
        let (mut depth, mut quote, mut is_escaped) = (0_usize, None, false);
        for (at, character) in call.char_indices() {
            match (quote, character) {
                (Some(_), _) if is_escaped => is_escaped = false,
                (Some(_), '\\') => is_escaped = true,
                (Some(mark), _) if mark == character => quote = None,
                (Some(_), _) => {}
                (None, '"' | '\'') => quote = Some(character),
                (None, '(') => depth += 1,
                (None, ')') if depth == 1 => return Some(text.len() - call.len() + at + 1),
                (None, ')') => depth -= 1,
                (None, _) => {}
            }
        }
        self.ends_none = true;
        None
    }

    /// Takes what stands for itself up to the next blank or sign of JSON: a number, a word of JSON, or a string without quotes.
    fn value(&mut self) {
        self.comma = None;
        if let Some(length) = self.construction() {
            return self.respell(length, "null");
        }
        let is_end =
            |c: char| c.is_ascii_whitespace() || matches!(c, '{' | '}' | '[' | ']' | ':' | ',' | '"' | '\\');
        let length = self.rest.find(is_end).unwrap_or(self.rest.len());
        let (word, _) = self.rest.split_at(length);
        // Within other words a semicolon is a letter, to kotlinx.serialization.
        let literal = word.split_once(';').map(|(literal, _)| literal).filter(|literal| is_literal(literal));
        let (word, after) = self.rest.split_at(literal.map_or(length, str::len));
        let value = word.trim_end_matches(is_blank);
        self.rest = after;
        if is_literal(value) {
            self.out.push_str(value);
        } else if NO_NUMBERS.contains(&value) {
            self.mended.any = true;
            self.out.extend(["\"", value, "\""]);
        } else {
            self.mended = Mended { any: true, syntax: true };
            match literal_of(value) {
                Some(literal) => self.out.push_str(&literal),
                None => self.quoted(value),
            }
        }
        // What some reader calls white space may stand behind it.
        if value.len() < word.len() {
            self.mended = Mended { any: true, syntax: true };
            self.out.push(' ');
        }
    }

    fn quoted(&mut self, text: &str) {
        self.out.push('"');
        for character in text.chars() {
            match character {
                ..' ' => self.escaped(character),
                _ => self.out.push(character),
            }
        }
        self.out.push('"');
    }

    fn is_no_number(&self) -> bool {
        NO_NUMBERS.iter().any(|number| self.rest.starts_with(number))
    }

    fn number(&mut self) {
        if let Some(number) = NO_NUMBERS.iter().find(|number| self.rest.starts_with(**number)) {
            self.out.push('"');
            self.replace(number.len(), number);
            self.out.push('"');
        }
    }

    /// Takes a string up to the quote that ends it.
    fn string(&mut self, quote: char) {
        self.mended.any |= quote != '"';
        self.mended.syntax |= quote != '"';
        self.out.push('"');
        self.skip(1);
        while let Some(character) = self.rest.chars().next() {
            match character {
                _ if character == quote => {
                    self.out.push('"');
                    return self.skip(1);
                }
                '"' => self.replace(1, "\\\""),
                '\\' => self.escape(),
                ..' ' => self.control(character),
                _ => self.copy(character),
            }
        }
    }

    fn escape(&mut self) {
        self.skip(1);
        let is_json5 = self.escapes == Escapes::Json5;
        match self.rest.chars().next() {
            Some('\r' | '\n') if is_json5 => {
                let length = if self.rest.starts_with("\r\n") { 2 } else { 1 };
                self.respell(length, "");
            }
            // A backslash in front of a control character escapes nothing: it stands for itself.
            Some(character @ ..' ') => {
                self.out.push_str("\\\\");
                self.control(character);
            }
            Some('\'') => self.replace(1, "'"),
            Some('x') if is_json5 => self.byte(),
            Some('v') if is_json5 => self.respell(1, "\\u000b"),
            Some('0') if is_json5 => self.respell(1, "\\u0000"),
            // Who takes an escape that JSON does not have takes the character for itself (JSON5, Jackson).
            Some(character) if !r#""\/bfnrtu"#.contains(character) => {
                self.mended = Mended { any: true, syntax: true };
                self.copy(character);
            }
            Some(character) => {
                self.out.push('\\');
                self.copy(character);
            }
            None => self.out.push('\\'),
        }
    }

    /// Takes the `xHH` of an escape.
    fn byte(&mut self) {
        let digits = self.rest.get(1..3).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match digits {
            Some(digits) => self.respell(3, &format!("\\u00{digits}")),
            None => self.respell(1, "x"),
        }
    }

    fn control(&mut self, character: char) {
        self.mended.any = true;
        self.escaped(character);
        self.skip(1);
    }

    fn escaped(&mut self, character: char) {
        // Writing to a string cannot fail.
        let _ = write!(self.out, "\\u{:04x}", u32::from(character));
    }
}

/// Whether it is a number, `true`, `false` or `null` as JSON has them.
fn is_literal(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// A number, `true`, `false` or `null` in a spelling that only some readers know, as JSON has it.
fn literal_of(text: &str) -> Option<String> {
    let small = text.to_ascii_lowercase();
    if matches!(small.as_str(), "true" | "false" | "null") {
        return Some(small);
    }
    if matches!(text, "None" | "undefined") {
        return Some("null".to_owned());
    }
    let unsigned = small.trim_start_matches(['+', '-']);
    let sign = if small.starts_with('-') { "-" } else { "" };
    if small.len() > unsigned.len() + 1 {
        return None;
    }
    if let Some(digits) = unsigned.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok().map(|number| format!("{sign}{number}"));
    }
    let digits = unsigned.trim_start_matches('0');
    let zero = if digits.starts_with(|c: char| c.is_ascii_digit()) { "" } else { "0" };
    let number = format!("{sign}{zero}{}", digits.strip_suffix('.').unwrap_or(digits));
    is_literal(&number).then_some(number)
}

fn is_blank(character: char) -> bool {
    character <= ' ' || BLANKS.contains(&character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerated_text_becomes_json() {
        let cases = [
            (r#"{"a": "b\"c"}"#, r#"{"a": "b\"c"}"#, (false, false)),
            ("{\"a\":\"x\ty\"}", r#"{"a":"x\u0009y"}"#, (true, false)),
            ("{\"a\":\"x\\\ny\"}", r#"{"a":"xy"}"#, (true, true)),
            ("{\"na\\\r\nme\":\"x\\\ry\\\u{1}\"}", r#"{"name":"xy\\\u0001"}"#, (true, true)),
            (
                "{\"a\":new Date(1, \"(\\\"\", [2]),\"b\":new Foo(),\"c\":newest}",
                r#"{"a":null,"b":null,"c":"newest"}"#,
                (true, true),
            ),
            // Each of these would be looked for to the end.
            ("{\"a\":new A(1 new B(2)}", r#"{"a":"new" "A(1" "new" "B(2)"}"#, (true, true)),
            ("{\"a\":new Date(1", r#"{"a":"new" "Date(1""#, (true, true)),
            ("{\"a\":\u{2}1,\u{1f}\"b\"\u{7}:2}", r#"{"a": 1, "b" :2}"#, (true, true)),
            ("[NaN,-Infinity,-1,\"NaN\"]", r#"["NaN","-Infinity",-1,"NaN"]"#, (true, false)),
            ("{\"a\":1,/* , */}", "{\"a\":1  }", (true, true)),
            ("[1, // two\n2]", "[1,  \n2]", (true, true)),
            ("[1,]", "[1 ]", (true, true)),
            ("[1,\"a\"]", "[1,\"a\"]", (false, false)),
            ("{'a':'it\\'s \"x\"'}", r#"{"a":"it's \"x\""}"#, (true, true)),
            ("\u{a0}{\u{feff}}\0", " { } ", (true, true)),
            ("{\"a\":\"//\"}", "{\"a\":\"//\"}", (false, false)),
            ("{a: 1, b_c :true}", r#"{"a": 1, "b_c" :true}"#, (true, true)),
            ("[INFO]", "[INFO]", (false, false)),
            (
                "{a: Wipes\u{a0}it , 'b':[x-1, y]}",
                "{\"a\": \"Wipes\u{a0}it\" , \"b\":[\"x-1\", \"y\"]}",
                (true, true),
            ),
            (
                "{\"a\":TRUE,\"b\":False,\"c\":NULL,\"d\":None}",
                r#"{"a":true,"b":false,"c":null,"d":null}"#,
                (true, true),
            ),
            (
                "{\"a\":+1,\"b\":.5,\"c\":007,\"d\":0x1F,\"e\":-.5e3,\"f\":5.}",
                r#"{"a":1,"b":0.5,"c":7,"d":31,"e":-0.5e3,"f":5}"#,
                (true, true),
            ),
            ("{\"a\":1,\"b\":-0.5e3,\"c\":null}", r#"{"a":1,"b":-0.5e3,"c":null}"#, (false, false)),
            (
                "{\"a\":NaN,\"b\":-Infinity,\"c\":Nancy}",
                r#"{"a":"NaN","b":"-Infinity","c":"Nancy"}"#,
                (true, true),
            ),
            (
                "{a: /srv/x, b: 2fast, c: é, d: --, e: +-1, f: 0x, g: 1.2.3}",
                r#"{"a": "/srv/x", "b": "2fast", "c": "é", "d": "--", "e": "+-1", "f": "0x", "g": "1.2.3"}"#,
                (true, true),
            ),
            ("{\"a\":1\u{a0}}", "{\"a\":1 }", (true, true)),
            ("{\"a\":x\u{1}y}", r#"{"a":"x\u0001y"}"#, (true, true)),
            ("{\"a\"=>1;\"b\" = [,2,,3]} # ok", r#"{"a":1,"b" : [null,2,null,3]} # ok"#, (true, true)),
            ("{\"a\":1, # one\r\"b\":a=b;}", "{\"a\":1,  \r\"b\":\"a=b;\"}", (true, true)),
            ("[1,,2]", "[1,,2]", (false, false)),
            ("{\"a\":x\"y\"}", r#"{"a":"x""y"}"#, (true, true)),
            ("server {ready} on [::1]:80", "server {\"ready\"} on [::1]:80", (true, true)),
            (r#"{"a":"\x41\v\q\xz"}"#, r#"{"a":"\u0041\u000bqxz"}"#, (true, true)),
            (r#"{"a":"\0\/\u0041"}"#, r#"{"a":"\u0000\/\u0041"}"#, (true, true)),
            (r#"{"a":"\é\x"#, r#"{"a":"éx"#, (true, true)),
            ("/", "/", (false, false)),
            ("\"a\\", "\"a\\", (false, false)),
        ];
        for (text, expected, (any, syntax)) in cases {
            let mut out = String::new();
            let mended = mend(text, &mut out);
            assert_eq!((mended, out.as_str()), (Mended { any, syntax }, expected), "{text}");
        }
    }
}
