//! Text that only tolerant readers take for JSON, into JSON.

use std::fmt::Write;

/// What is no JSON, and what Python reads and writes all the same.
const NO_NUMBERS: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// What some reader's `trim` removes and JSON does not call white space: `str.strip` of Python, `trim` of JavaScript, `Trim` of
/// .NET and `strip` of Java together; a byte order mark, and NUL, which ends C strings.
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
/// - comments become blanks, a comma behind the last element is left out, strings may be in single quotes (Newtonsoft.Json, Jackson
///   and System.Text.Json with their options for it), keys without any (kotlinx.serialization, `isLenient`);
/// - what some reader calls white space becomes a blank, outside of strings.
pub(super) fn mend(text: &str, out: &mut String) -> Mended {
    out.clear();
    out.reserve(text.len());
    let mut mender = Mender { rest: text, out, comma: None, mended: Mended::default() };
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
    mended: Mended,
}

impl Mender<'_> {
    /// Takes a character outside of strings, and what belongs to it.
    fn structure(&mut self, character: char) {
        match character {
            '"' | '\'' => {
                self.comma = None;
                self.string(character);
            }
            '/' => self.comment(),
            'N' | 'I' | '-' if self.is_no_number() => {
                self.comma = None;
                self.number();
            }
            'a'..='z' | 'A'..='Z' | '_' | '$' => self.word(),
            ' ' | '\t' | '\n' | '\r' => self.copy(character),
            _ if is_blank(character) => self.respace(character.len_utf8()),
            ',' => {
                self.comma = Some(self.out.len());
                self.copy(character);
            }
            '}' | ']' => {
                if let Some(at) = self.comma.take() {
                    self.mended = Mended { any: true, syntax: true };
                    self.out.replace_range(at..=at, " ");
                }
                self.copy(character);
            }
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
        self.mended.syntax = true;
        self.replace(length, " ");
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
        let end = if self.rest.starts_with("//") {
            self.rest.find('\n')
        } else if self.rest.starts_with("/*") {
            self.rest.get(2..).and_then(|text| text.find("*/")).map(|at| at + 4)
        } else {
            return self.copy('/');
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
        } else {
            self.out.push_str(word);
        }
        self.rest = after;
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
        match self.rest.chars().next() {
            // A backslash in front of a control character escapes nothing: it stands for itself.
            Some(character @ ..' ') => {
                self.out.push_str("\\\\");
                self.control(character);
            }
            Some('\'') => self.replace(1, "'"),
            Some(character) => {
                self.out.push('\\');
                self.copy(character);
            }
            None => self.out.push('\\'),
        }
    }

    fn control(&mut self, character: char) {
        self.mended.any = true;
        // Writing to a string cannot fail.
        let _ = write!(self.out, "\\u{:04x}", u32::from(character));
        self.skip(1);
    }
}

fn is_blank(character: char) -> bool {
    character.is_ascii_whitespace() || BLANKS.contains(&character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerated_text_becomes_json() {
        let cases = [
            (r#"{"a": "b\"c"}"#, r#"{"a": "b\"c"}"#, (false, false)),
            ("{\"a\":\"x\ty\"}", r#"{"a":"x\u0009y"}"#, (true, false)),
            ("{\"a\":\"x\\\ny\"}", r#"{"a":"x\\\u000ay"}"#, (true, false)),
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
