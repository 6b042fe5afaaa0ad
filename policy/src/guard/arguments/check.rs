//! Tests of single arguments by their texts alone, which is what the gate can tell.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::Purpose;
use super::test::CompiledTest;
use super::tree::folded;
use crate::config::ArgumentTest;

/// What texts tell of the conditions of a rule.
pub(crate) struct Checks {
    /// The tests that go by the text of one argument at the top. All of them must hold.
    pub(crate) checks: Vec<Check>,
    /// Whether the rule goes by anything else.
    pub(crate) is_partial: bool,
}

/// A test of one argument at the top, for the one who can only tell its text.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    /// The key of the argument.
    pub(crate) key: String,
    source: ArgumentTest,
    test: CompiledTest,
    purpose: Purpose,
}

impl Check {
    pub(super) fn new(
        tokens: &[String],
        source: &ArgumentTest,
        test: &CompiledTest,
        purpose: Purpose,
    ) -> Option<Self> {
        let [key] = tokens else { return None };
        let is_plain = key != "*" && key.chars().all(|letter| matches!(letter, ' '..='~'));
        let check = || Self { key: key.clone(), source: source.clone(), test: test.clone(), purpose };
        is_plain.then(check)
    }

    /// Whether it is the same as another.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.key == other.key && self.purpose == other.purpose && self.source == other.source
    }

    /// Whether it holds, for its purpose, of a call without that argument.
    pub(crate) fn of_none(&self) -> bool {
        self.purpose.applies(self.test.holds(&[], self.purpose))
    }

    /// Whether it holds of this text, and of all that match the same [patterns](Self::patterns); `None`: these do not tell.
    pub(crate) fn of_text(&self, text: &str) -> Option<bool> {
        self.test.told(text).map(|truth| self.purpose.applies(truth))
    }

    /// Regular expressions by which texts are told apart.
    pub(crate) fn patterns(&self) -> Vec<String> {
        let mut all = Vec::new();
        self.test.patterns(&mut all);
        all
    }

    /// Whether every plain text tells.
    pub(super) fn is_complete(&self) -> bool {
        self.test.is_complete()
    }
}

/// Letters that some reader takes for those of ASCII that they are folded to: for one, or for several.
static FOLDED: LazyLock<(BTreeMap<char, String>, String)> = LazyLock::new(|| {
    let (mut single, mut several) = (BTreeMap::<char, String>::new(), String::new());
    for letter in '\u{80}'..=char::MAX {
        let text = folded(letter.encode_utf8(&mut [0; 4]));
        let mut letters = text.chars();
        match (letters.next(), letters.next()) {
            (Some(first), None) if first.is_ascii() => single.entry(first).or_default().push(letter),
            (Some(first), Some(_)) if first.is_ascii() => several.push(letter),
            _ => {}
        }
    }
    (single, several)
});

/// A regular expression of the keys that some reader takes for this one, which is ASCII, but for those of
/// [`alike_keys`].
pub(crate) fn key_expression(key: &str) -> String {
    let letter = |letter: char| {
        let small = letter.to_ascii_lowercase();
        let others = FOLDED.0.get(&small).map_or("", String::as_str);
        let all = [small, letter.to_ascii_uppercase()];
        let all: Vec<String> = all
            .into_iter()
            .chain(others.chars())
            .map(|one| regex::escape(one.encode_utf8(&mut [0; 4])))
            .collect();
        format!("(?:{})", all.join("|"))
    };
    key.chars().map(letter).collect()
}

/// A regular expression of keys with letters that are several to some reader, so that they may be any key.
pub(crate) fn alike_keys() -> String {
    format!("(?s:.*)[{}](?s:.*)", FOLDED.1)
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::super::tree::is_same_key;
    use super::*;

    #[test]
    fn keys_that_a_reader_takes_for_another_are_matched() {
        let alike = Regex::new(&format!("^(?:{})$", alike_keys())).unwrap();
        for key in ["path", "s", "Kind", "a.b ~", "file", "ss", "st"] {
            let expression = Regex::new(&format!("^(?:{})$", key_expression(key))).unwrap();
            assert!(expression.is_match(key) && expression.is_match(&key.to_uppercase()), "{key}");
            let is_ascii =
                |letter: &char| folded(letter.encode_utf8(&mut [0; 4])).contains(|c: char| c.is_ascii());
            for letter in (' '..=char::MAX).filter(is_ascii) {
                let spelled = |from: usize, to: usize| -> Option<String> {
                    Some(format!("{}{letter}{}", key.get(..from)?, key.get(to..)?))
                };
                let all = (0..key.len()).flat_map(|from| [1, 2].map(|length| spelled(from, from + length)));
                for other in all.flatten() {
                    let is_same = is_same_key(&other, key);
                    let is_found = expression.is_match(&other);
                    assert!(is_found || !is_same || alike.is_match(&other), "{key} {other}");
                    assert!(!is_found || is_same, "{key} {other}");
                }
            }
        }
    }
}
