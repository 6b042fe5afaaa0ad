//! Names: of parameters as words, and of a session's tools in texts.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, MatchKind};
use mcpwarden_terms::Form;

use super::view::{Mapped, View};

/// Shortest name that is looked for in texts: shorter ones are words.
const MIN_NAME: usize = 4;
/// Longest name that is looked for. Bytes.
const MAX_NAME: usize = 256;
/// Most names that are looked for.
const MAX_NAMES: usize = 10_000;
/// How far before a name the command to use it may stand. Bytes.
const COMMAND_BYTES: usize = 32;
/// What commands the use of a tool.
const COMMANDS: &[&str] = &["use", "call", "invoke", "run", "execute", "trigger", "using", "calling", "with"];

/// The names of the tools that a session offers, to be found in what its servers answer.
#[derive(Clone, Debug, Default)]
pub struct ToolNames {
    names: BTreeSet<Box<str>>,
    /// Built when something is searched: names come one by one, and each new one makes it another.
    automaton: OnceLock<Option<AhoCorasick>>,
}

impl ToolNames {
    /// These names: see [`ToolNames::add`].
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let mut all = Self::default();
        names.into_iter().for_each(|name| all.add(name));
        all
    }

    /// One more name. Those of under 4 or over 256 bytes are left out, and all beyond the 10,000th.
    pub fn add(&mut self, name: &str) {
        let fits = (MIN_NAME..=MAX_NAME).contains(&name.len()) && self.names.len() < MAX_NAMES;
        if fits && !self.names.contains(name) {
            self.names.insert(name.into());
            self.automaton = OnceLock::new();
        }
    }

    /// What finds them; `None` where there are none.
    fn automaton(&self) -> Option<&AhoCorasick> {
        let build = || {
            let names = self.names.iter().map(|name| name.as_bytes());
            // The longest that begins first: one name can stand inside of another.
            let built = AhoCorasickBuilder::new()
                .ascii_case_insensitive(true)
                .match_kind(MatchKind::LeftmostLongest)
                .build(names);
            built.ok().filter(|_| !self.names.is_empty())
        };
        self.automaton.get_or_init(build).as_ref()
    }

    /// Where `text` commands the use of one of them. Ranges of the names.
    pub(super) fn commanded<'t>(
        &'t self,
        text: &'t str,
    ) -> impl Iterator<Item = std::ops::Range<usize>> + 't {
        self.automaton().into_iter().flat_map(move |automaton| {
            automaton
                .find_iter(text)
                .map(|found| found.range())
                .filter(move |range| is_commanded(text, range.clone()))
        })
    }
}

fn is_commanded(text: &str, range: std::ops::Range<usize>) -> bool {
    let part = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'-';
    let bytes = text.as_bytes();
    let whole = !range.start.checked_sub(1).is_some_and(|at| part(bytes[at]))
        && !bytes.get(range.end).copied().is_some_and(part);
    let from = text.floor_char_boundary(range.start.saturating_sub(COMMAND_BYTES));
    let before = text[from..range.start].to_ascii_lowercase();
    let mut words = before.split(|c: char| !c.is_ascii_alphabetic()).rev().filter(|word| !word.is_empty());
    whole
        && words
            .find(|word| !matches!(*word, "the" | "tool" | "function" | "your" | "also"))
            .is_some_and(|word| COMMANDS.contains(&word))
}

/// A name as the words in it: `getUserName`, `get_user-name` and `get.user.name` are "get user name".
pub(super) fn words(name: &str) -> View<'_> {
    let mut mapped = Mapped::with_capacity(name.len() + 8);
    let mut previous = ' ';
    for (at, c) in name.char_indices() {
        if matches!(c, '_' | '-' | '.' | '/' | ':') {
            if previous != ' ' {
                mapped.push(' ', at);
            }
            previous = ' ';
            continue;
        }
        if c.is_uppercase() && (previous.is_lowercase() || previous.is_ascii_digit()) {
            mapped.push(' ', at);
        }
        mapped.push(c, at);
        previous = c;
    }
    View::raw(name).derive(mapped, Form::Words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_names_are_split_into_words() {
        for (name, expected) in [
            ("getUserName", "get User Name"),
            ("get_user-name", "get user name"),
            ("mcp__server__do.it", "mcp server do it"),
            ("URL", "URL"),
            ("v2Api", "v2 Api"),
            ("", ""),
        ] {
            assert_eq!(words(name).text, expected, "{name}");
        }
    }

    #[test]
    fn commanded_tool_is_recognized_by_its_verb() {
        let names = ToolNames::new(["send_email", "resend_emails", "send", "read", "fs.read", "of"]);
        for (text, expected) in [
            ("call resend_emails", 1),
            ("call send", 1),
            ("now call send_email", 1),
            ("use the `send_email` tool", 1),
            ("Use the tool \"Send_Email\"", 1),
            ("send_email was used", 0),
            ("call presend_email", 0),
            ("call send_emailing", 0),
            ("run fs.read and use read", 2),
            ("part of it", 0),
        ] {
            assert_eq!(names.commanded(text).count(), expected, "{text}");
        }
        assert_eq!(ToolNames::default().commanded("call send_email").count(), 0);
        let mut names = names;
        names.add("list_rooms");
        names.add(&"x".repeat(MAX_NAME + 1));
        assert_eq!(names.commanded("call list_rooms, then use send_email").count(), 2);
        assert_eq!(names.commanded(&format!("call {}", "x".repeat(MAX_NAME + 1))).count(), 0);
    }
}
