//! Globs: for the names of servers and tools, as they stand in rules, and for command lines, paths and event types.
//!
//! `*` stands for any characters, `/` too, since server ids such as `io.github.example/files` have it; `?` for one
//! character, `[ab]`, `[a-z]` and `[!a]` for one of a set, `{a,b}` for alternatives, and `\` takes the meaning off
//! what follows. A character is one of Unicode (`?` stands for `ü`, and for `工`), and where capitals do not count,
//! those are equal that Unicode's simple case folding makes equal. A glob is compiled once, into an automaton that is
//! linear in the length of the name.

use std::str::Chars;

use regex::Regex;

/// Longest glob. Bytes.
const MAX_BYTES: usize = 1_024;
/// Most groups of alternatives in one: they may lie in each other, which the automaton bears up to 250 deep.
const MAX_GROUPS: usize = 64;

/// A text is no glob.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{glob:?} is no glob: {reason}")]
pub struct GlobError {
    /// The text, its beginning where it is long.
    pub glob: String,
    /// Why not.
    pub reason: String,
}

/// A glob, compiled.
#[derive(Clone, Debug)]
pub struct NameGlob {
    text: String,
    matcher: Matcher,
}

#[derive(Clone, Debug)]
enum Matcher {
    /// `*`
    Any,
    /// Without anything that is special.
    Exact,
    /// Nothing special but one `*`, which stands here in the text.
    Star(usize),
    Pattern(Regex),
}

impl NameGlob {
    /// Compiles `text`.
    ///
    /// # Errors
    /// It is empty, longer than 1,024 bytes, has more than 64 `{`, or is no glob.
    pub fn new(text: &str, case_sensitive: bool) -> Result<Self, GlobError> {
        let matcher = compile(text, case_sensitive).map_err(|reason| {
            let glob = text.get(..text.floor_char_boundary(MAX_BYTES)).unwrap_or_default().to_owned();
            GlobError { glob, reason }
        })?;
        Ok(Self { text: text.to_owned(), matcher })
    }

    /// The glob that stands for every name.
    pub fn any() -> Self {
        Self { text: "*".to_owned(), matcher: Matcher::Any }
    }

    /// Whether it stands for `name`.
    pub fn matches(&self, name: &str) -> bool {
        match &self.matcher {
            Matcher::Any => true,
            Matcher::Exact => self.text == name,
            Matcher::Star(at) => {
                let (head, tail) = self.text.split_at_checked(*at).unwrap_or_default();
                let rest = name.strip_prefix(head);
                rest.is_some_and(|rest| rest.ends_with(tail.get(1..).unwrap_or_default()))
            }
            Matcher::Pattern(regex) => regex.is_match(name),
        }
    }

    /// The glob that stands for this name alone.
    pub fn plain(name: &str) -> Self {
        Self { text: name.to_owned(), matcher: Matcher::Exact }
    }

    /// The regular expression of the names that it stands for.
    pub fn expression(&self) -> String {
        match &self.matcher {
            Matcher::Any => "(?s).*".to_owned(),
            Matcher::Exact => regex::escape(&self.text),
            Matcher::Star(at) => {
                let (head, tail) = self.text.split_at_checked(*at).unwrap_or_default();
                let tail = tail.get(1..).unwrap_or_default();
                format!("(?s){}.*{}", regex::escape(head), regex::escape(tail))
            }
            Matcher::Pattern(regex) => regex.as_str().to_owned(),
        }
    }

    /// The same, as a part of a larger regular expression.
    pub fn inner_expression(&self) -> String {
        let whole = self.expression();
        let inner = match &self.matcher {
            Matcher::Pattern(_) => {
                whole.split_once("\\A").and_then(|(flags, rest)| Some((flags, rest.strip_suffix("\\z")?)))
            }
            Matcher::Any | Matcher::Exact | Matcher::Star(_) => None,
        };
        let (flags, rest) = inner.unwrap_or(("", &whole));
        format!("(?:{flags}{rest})")
    }

    /// Whether it is a name as it stands, in whichever case.
    pub fn is_plain(&self) -> bool {
        !self.text.contains(['*', '?', '[', ']', '{', '}', '\\'])
    }

    /// Whether it is a bare `*`, which names nothing.
    pub fn is_any(&self) -> bool {
        matches!(self.matcher, Matcher::Any)
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Says what is wrong with a text that should be a glob, without compiling it.
///
/// # Errors
/// As [`NameGlob::new`].
pub fn check(text: &str) -> Result<(), String> {
    bounds(text).and_then(|()| expression(text)).map(|_| ())
}

fn bounds(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("it is empty; `*` stands for every name".into());
    }
    if text.len() > MAX_BYTES {
        return Err(format!("it is longer than {MAX_BYTES} bytes"));
    }
    if text.matches('{').count() > MAX_GROUPS {
        return Err(format!("it has more than {MAX_GROUPS} groups of alternatives"));
    }
    Ok(())
}

fn compile(text: &str, case_sensitive: bool) -> Result<Matcher, String> {
    bounds(text)?;
    if text == "*" {
        return Ok(Matcher::Any);
    }
    if case_sensitive {
        let mut special = text.match_indices(['*', '?', '[', ']', '{', '}', '\\']);
        match (special.next(), special.next()) {
            (None, _) => return Ok(Matcher::Exact),
            (Some((at, "*")), None) => return Ok(Matcher::Star(at)),
            _ => {}
        }
    }
    let flags = if case_sensitive { "s" } else { "si" };
    let regex = Regex::new(&format!("(?{flags})\\A(?:{})\\z", expression(text)?));
    regex.map(Matcher::Pattern).map_err(|error| error.to_string())
}

/// A glob as a regular expression.
fn expression(glob: &str) -> Result<String, String> {
    let mut regex = String::new();
    let mut groups = 0_u32;
    let mut rest = glob.chars();
    while let Some(character) = rest.next() {
        match character {
            '*' => regex.push_str(".*"),
            '?' => regex.push('.'),
            '[' => regex.push_str(&set(&mut rest)?),
            '{' => {
                groups += 1;
                regex.push_str("(?:");
            }
            '}' => {
                groups = groups.checked_sub(1).ok_or("a `}` without `{`; `[}]` stands for one")?;
                regex.push(')');
            }
            ',' if groups > 0 => regex.push('|'),
            '\\' => push_plain(&mut regex, rest.next().ok_or("nothing follows the `\\` at its end")?),
            plain => push_plain(&mut regex, plain),
        }
    }
    if groups > 0 { Err("a `{` without `}`; `[{]` stands for one".into()) } else { Ok(regex) }
}

fn push_plain(regex: &mut String, character: char) {
    regex.push_str(&regex::escape(character.encode_utf8(&mut [0; 4])));
}

/// The set whose `[` was read, up to its `]`, which stands for itself where it comes first; so does `-` at either end.
fn set(rest: &mut Chars<'_>) -> Result<String, String> {
    let mut ahead = rest.clone();
    let mut regex = String::from(match ahead.next() {
        Some('!' | '^') => {
            rest.next();
            "[^"
        }
        _ => "[",
    });
    let mut members: Vec<char> = Vec::new();
    loop {
        match rest.next().ok_or("a `[` without `]`; `[[]` stands for one")? {
            ']' if !members.is_empty() => break,
            character => members.push(character),
        }
    }
    let mut at = members.as_slice();
    loop {
        at = match at {
            [] => break,
            [from, '-', to, after @ ..] => {
                if from > to {
                    return Err(format!("nothing is in the range {from}-{to}"));
                }
                push_plain(&mut regex, *from);
                regex.push('-');
                push_plain(&mut regex, *to);
                after
            }
            [one, after @ ..] => {
                push_plain(&mut regex, *one);
                after
            }
        };
    }
    regex.push(']');
    Ok(regex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_whole_names() {
        for (glob, name, expected) in [
            ("*", "", true),
            ("*", "io.github.x/y", true),
            ("delete_*", "delete_file", true),
            ("delete_*", "delete_", true),
            ("delete_*", "undelete_file", false),
            ("io.github.*", "io.github.x/y/z", true),
            ("*/files", "io.github.x/files", true),
            ("read_?", "read_a", true),
            ("read_?", "read_", false),
            ("read_?", "read_/", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("{get,list}_*", "list_files", true),
            ("{get,list}_*", "put_files", false),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
            ("Read", "read", false),
            ("größe_*", "größe_1", true),
            ("*", "größe\n", true),
            ("a*", "a\nb", true),
            ("a*b", "a/\nb", true),
            ("a*b", "ab", true),
            ("a*b", "abc", false),
            ("a*a", "a", false),
            ("*ü", "grü", true),
            ("ü*", "grü", false),
            ("a*b*", "aXbY", true),
            ("a*b*", "aX", false),
        ] {
            assert_eq!(NameGlob::new(glob, true).unwrap().matches(name), expected, "{glob} on {name}");
        }
    }

    #[test]
    fn globs_match_unicode_characters() {
        for (glob, name, expected) in [
            ("gr?n", "grün", true),
            ("??", "工具", true),
            ("??", "工", false),
            ("?", "e\u{301}", false),
            ("[üö]", "ü", true),
            ("[!ü]", "工", true),
            ("[!ü]", "ü", false),
            ("[α-ω]?", "β工", true),
            ("[α-ω]", "a", false),
            ("工*", "工具_1", true),
            ("{工,ü}x", "üx", true),
        ] {
            assert_eq!(NameGlob::new(glob, true).unwrap().matches(name), expected, "{glob} on {name}");
        }
    }

    #[test]
    fn case_insensitive_glob_uses_simple_case_folding() {
        for (glob, name, expected) in [
            ("Read_*", "rEAD_x", true),
            ("Read", "READ", true),
            ("GRÜN", "grün", true),
            ("[a-c]", "B", true),
            ("[!a]", "A", false),
            ("σ", "ς", true),
            ("k", "\u{212a}", true),
            // Full folding would say that these are equal, and Turkish rules that the last two are.
            ("straße", "STRASSE", false),
            ("i", "İ", false),
            ("I", "ı", false),
        ] {
            assert_eq!(NameGlob::new(glob, false).unwrap().matches(name), expected, "{glob} on {name}");
        }
    }

    #[test]
    fn glob_sets_and_groups_match_as_documented() {
        for (glob, name, expected) in [
            ("[]]", "]", true),
            ("[!]]", "x", true),
            ("[^a]", "b", true),
            ("[^a]", "^", true),
            ("[a-]", "-", true),
            ("[-a]", "-", true),
            ("[a-c-e]", "-", true),
            ("[&&~~]", "&", true),
            ("[[:alpha:]]", ":]", true),
            ("[*?]", "x", false),
            ("{a,{b,c}d}", "cd", true),
            ("x{,y}", "x", true),
            ("a,b", "a,b", true),
            ("a.b", "axb", false),
            ("\\{a\\}", "{a}", true),
            ("a|b", "a", false),
            ("(?i)a", "A", false),
            ("**/x", "a/b/x", true),
        ] {
            let compiled = NameGlob::new(glob, true).unwrap();
            assert_eq!(compiled.matches(name), expected, "{glob} on {name}");
            let within = Regex::new(&format!("^<{}>$", compiled.inner_expression())).unwrap();
            assert_eq!(within.is_match(&format!("<{name}>")), expected, "{glob} on {name}");
        }
    }

    #[test]
    fn invalid_glob_is_refused_with_reason() {
        for (glob, expected) in [
            ("", "\"\" is no glob: it is empty; `*` stands for every name"),
            ("[a", "\"[a\" is no glob: a `[` without `]`; `[[]` stands for one"),
            ("[]", "\"[]\" is no glob: a `[` without `]`; `[[]` stands for one"),
            ("{a,b", "\"{a,b\" is no glob: a `{` without `}`; `[{]` stands for one"),
            ("a}", "\"a}\" is no glob: a `}` without `{`; `[}]` stands for one"),
            ("[z-a]", "\"[z-a]\" is no glob: nothing is in the range z-a"),
            ("a\\", "\"a\\\\\" is no glob: nothing follows the `\\` at its end"),
        ] {
            assert_eq!(NameGlob::new(glob, true).unwrap_err().to_string(), expected);
        }
        let reason = |glob: &str| NameGlob::new(glob, false).err().map(|error| error.reason);
        assert_eq!(reason(&"a".repeat(1_025)).unwrap(), "it is longer than 1024 bytes");
        assert_eq!(reason(&"{a}".repeat(65)).unwrap(), "it has more than 64 groups of alternatives");
        // The largest automata that fit into these bounds.
        for largest in [
            format!("{}a{}", "{".repeat(64), "}".repeat(64)),
            "?".repeat(1_024),
            "[!a]".repeat(256),
            "*?".repeat(512),
        ] {
            assert_eq!(reason(&largest), None, "{largest}");
        }
    }

    proptest::proptest! {
        /// What passes the check can be compiled, whether capitals count or not.
        #[test]
        fn glob_of_any_text_never_panics(text in "\\PC*|[\\[\\]{},*?\\\\!a-c^&~-]{0,40}", name in "\\PC*") {
            let globs = [true, false].map(|case| NameGlob::new(&text, case));
            for glob in globs {
                proptest::prop_assert_eq!(glob.is_ok(), check(&text).is_ok());
                let _ = glob.map(|glob| glob.matches(&name));
            }
        }
    }
}
