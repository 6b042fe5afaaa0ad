//! Globs for the names of servers and tools, as they stand in rules.
//!
//! `*` stands for any characters, `/` too, since server ids such as `io.github.example/files` have it; `?` for one
//! character, `[ab]`, `[a-z]` and `[!a]` for one of a set, `{a,b}` for alternatives, and `\` takes the meaning off
//! what follows. A glob is compiled once, into an automaton that is linear in the length of the name.

use globset::{GlobBuilder, GlobMatcher};

/// Longest glob. Bytes.
const MAX_BYTES: usize = 1_024;
/// Most groups of alternatives in one: they may lie in each other, which the automaton bears up to 250 deep.
const MAX_GROUPS: usize = 64;

/// Something is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {what}")]
pub struct Problem {
    /// Where, such as `policy.denied_tools[2].tool`.
    pub path: String,
    /// What, and what was expected.
    pub what: String,
}

impl Problem {
    /// A problem at this place.
    pub fn new(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self { path: path.into(), what: what.into() }
    }
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
    Glob(GlobMatcher),
}

impl NameGlob {
    /// Compiles `text`, which stands at `path` in the configuration.
    ///
    /// # Errors
    /// It is empty, longer than 1,024 bytes, has more than 64 `{`, or is no glob.
    pub fn new(text: &str, case_sensitive: bool, path: &str) -> Result<Self, Problem> {
        if text.is_empty() {
            return Err(Problem::new(path, "is empty; `*` stands for every name"));
        }
        if text.len() > MAX_BYTES {
            return Err(Problem::new(path, format!("is longer than {MAX_BYTES} bytes")));
        }
        if text.matches('{').count() > MAX_GROUPS {
            return Err(Problem::new(path, format!("has more than {MAX_GROUPS} groups of alternatives")));
        }
        let special = text.contains(['*', '?', '[', ']', '{', '}', '\\']);
        let matcher = match text {
            "*" => Matcher::Any,
            _ if !special && case_sensitive => Matcher::Exact,
            _ => GlobBuilder::new(text)
                .literal_separator(false)
                .backslash_escape(true)
                .case_insensitive(!case_sensitive)
                .build()
                .map(|glob| Matcher::Glob(glob.compile_matcher()))
                .map_err(|error| Problem::new(path, format!("is no glob: {}", error.kind())))?,
        };
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
            Matcher::Glob(glob) => glob.is_match(name),
        }
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
            ("a.b", "axb", false),
        ] {
            assert_eq!(NameGlob::new(glob, true, "p").unwrap().matches(name), expected, "{glob} on {name}");
        }
        assert!(NameGlob::new("Read_*", false, "p").unwrap().matches("rEAD_x"));
        assert!(NameGlob::new("Read", false, "p").unwrap().matches("READ"));
    }

    #[test]
    fn an_invalid_glob_is_an_error_that_names_its_place() {
        for (glob, expected) in [
            ("", "p.tool: is empty; `*` stands for every name"),
            ("[a", "p.tool: is no glob: unclosed character class; missing ']'"),
            (
                "{a,b",
                "p.tool: is no glob: unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)",
            ),
            ("[z-a]", "p.tool: is no glob: invalid range; 'z' > 'a'"),
            ("a\\", "p.tool: is no glob: dangling '\\'"),
        ] {
            let problem = NameGlob::new(glob, true, "p.tool").unwrap_err();
            assert_eq!(problem.to_string(), expected);
        }
        assert!(NameGlob::new(&"a".repeat(1_025), true, "p").is_err());
        assert!(NameGlob::new(&format!("{}a{}", "{".repeat(300), "}".repeat(300)), true, "p").is_err());
        assert!(NameGlob::new(&format!("{}a{}", "{".repeat(64), "}".repeat(64)), true, "p").is_ok());
    }
}
