//! What words are about, in some thirty languages: `send`, `envía` and `发送` are one concept. An attack in words that nobody
//! has seen is still an order about a secret that is to be hidden from somebody.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, MatchKind};

use crate::fold::folded;

/// Bits of a mask: the concepts of words, and then what else a sentence has ([`Trait`]).
pub(super) const BITS: usize = 64;

/// What a sentence has beside the concepts of its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trait {
    /// An identifier that is neither the tool's nor one of its parameters'.
    ForeignName = 52,
    /// A parameter of the tool.
    OwnParameter,
    /// An address of the web.
    Url,
    /// A path of a file.
    Path,
    /// A mail address.
    Mail,
    /// An option of a command.
    Flag,
    /// A tag, as of HTML.
    Tag,
    /// A word in capitals.
    Capitals,
    /// It stands in a parameter's text.
    InParameter,
    /// It was hidden in an encoding.
    Encoded,
    /// It begins with an order.
    BeginsWithOrder,
    /// It stands in the text's first sentence.
    First,
}

impl Trait {
    pub(super) const ALL: [(Self, &'static str); 12] = [
        (Self::ForeignName, "foreign name"),
        (Self::OwnParameter, "own parameter"),
        (Self::Url, "URL"),
        (Self::Path, "path"),
        (Self::Mail, "mail address"),
        (Self::Flag, "option"),
        (Self::Tag, "tag"),
        (Self::Capitals, "capitals"),
        (Self::InParameter, "in a parameter"),
        (Self::Encoded, "encoded"),
        (Self::BeginsWithOrder, "begins with an order"),
        (Self::First, "first sentence"),
    ];

    /// Its bit.
    pub(super) const fn bit(self) -> u64 {
        1 << self as u32
    }
}

/// Concepts that are acts: a sentence that begins with one is an order.
const ACTS: [&str; 14] = [
    "call", "execute", "send", "copy", "read", "write", "delete", "pay", "grant", "publish", "ignore",
    "hide", "memory", "encode",
];

/// The words of all concepts, compiled.
#[derive(Debug)]
pub(super) struct Concepts {
    names: Vec<&'static str>,
    words: Option<AhoCorasick>,
    /// Of each word, the bits of its concepts.
    masks: Vec<u64>,
    acts: u64,
    /// The words, with the bits of their concepts.
    table: BTreeMap<String, u64>,
}

/// The words that come with the crate.
pub(super) static CONCEPTS: LazyLock<Concepts> =
    LazyLock::new(|| Concepts::new(include_str!("concepts.tsv")));

impl Concepts {
    fn new(table: &'static str) -> Self {
        let (mut names, mut words) = (Vec::new(), BTreeMap::<String, u64>::new());
        let lines = table.lines().filter(|line| !line.starts_with('#'));
        for (number, (name, list)) in lines.filter_map(|line| line.split_once('\t')).enumerate() {
            names.push(name);
            for word in list.split_whitespace().map(needle).filter(|word| !word.trim().is_empty()) {
                *words.entry(word).or_default() |= 1 << number;
            }
        }
        let automaton =
            AhoCorasickBuilder::new().match_kind(MatchKind::LeftmostLongest).build(words.keys()).ok();
        let is_act = |name: &&str| ACTS.contains(name);
        let acts =
            names.iter().enumerate().filter(|(_, name)| is_act(name)).map(|(number, _)| 1_u64 << number);
        Self {
            acts: acts.fold(0, |all, bit| all | bit),
            names,
            words: automaton,
            masks: words.values().copied().collect(),
            table: words,
        }
    }

    /// What of a flat text begins a word of the table, with the bits of its concepts.
    pub(super) fn words(&self) -> impl Iterator<Item = (&str, u64)> {
        self.table.iter().map(|(word, mask)| (word.as_str(), *mask))
    }

    /// The bit of a concept.
    pub(super) fn bit(&self, name: &str) -> u64 {
        self.names.iter().position(|known| *known == name).map_or(0, |number| 1 << number)
    }

    /// The name of a bit.
    pub(super) fn name(&self, bit: usize) -> &'static str {
        let of_trait = || Trait::ALL.iter().find(|(of, _)| *of as usize == bit).map(|(_, name)| *name);
        self.names.get(bit).copied().or_else(of_trait).unwrap_or("?")
    }

    /// Whether any of these bits is an act.
    pub(super) fn has_act(&self, mask: u64) -> bool {
        mask & self.acts != 0
    }

    /// Calls `visit` with each concept in a flat text (see [`Flat`]): where it stands, and its bits.
    pub(super) fn find(&self, flat: &str, mut visit: impl FnMut(usize, u64)) {
        let found = self.words.iter().flat_map(|words| words.find_iter(flat));
        for found in found {
            visit(found.start(), self.masks.get(found.pattern().as_usize()).copied().unwrap_or_default());
        }
    }
}

/// What of a flat text a word of the table matches: `send*` is the beginning of words, `do_not` two words.
fn needle(word: &str) -> String {
    let prefix = word.ends_with('*');
    let whole = word.ends_with('_');
    let text = word.trim_end_matches(['*', '_']).replace('_', " ");
    let mut flat = String::new();
    flatten(&folded(&text), &mut flat);
    let has_blanks = flat.chars().all(|c| c == ' ' || is_alphabetic_script(c));
    if has_blanks && prefix {
        flat.pop();
    } else if !has_blanks && !whole {
        flat = flat.trim().to_owned();
    }
    flat
}

/// Whether words of the letter's script stand between blanks, and begin with their stem.
fn is_alphabetic_script(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '\u{aa}'..='\u{58f}' | '\u{1e00}'..='\u{1fff}')
}

/// Appends the words of a text in small letters, each between blanks of its own; all other characters are left out.
pub(super) fn flatten(text: &str, flat: &mut String) {
    flat.reserve(text.len() + 2);
    let mut within = false;
    for c in text.chars() {
        if is_letter(c) {
            if !within {
                flat.push(' ');
            }
            if c.is_ascii() {
                flat.push(c.to_ascii_lowercase())
            } else {
                flat.extend(c.to_lowercase())
            }
            within = true;
        } else if within && !matches!(c, '\'' | '\u{2019}') {
            flat.push(' ');
            within = false;
        }
    }
    if within {
        flat.push(' ');
    }
}

/// Whether a character is part of a word: with the marks of Indic and Thai letters, which are letters to no standard.
pub(super) fn is_letter(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '\u{900}'..='\u{eff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn concepts(text: &str) -> Vec<&'static str> {
        let mut flat = String::new();
        flatten(&folded(text), &mut flat);
        let mut found = Vec::new();
        CONCEPTS.find(&flat, |_, mask| {
            found.extend((0..BITS).filter(|bit| mask >> bit & 1 == 1).map(|bit| CONCEPTS.name(bit)));
        });
        found
    }

    #[test]
    fn words_of_many_languages_have_one_concept() {
        for (text, expected) in [
            ("Send it", "send"),
            ("envía", "send"),
            ("发送", "send"),
            ("отправьте", "send"),
            ("Passwörter", "secret"),
            ("das Passwort", "secret"),
            ("パスワードを", "secret"),
            ("비밀번호를", "secret"),
            ("mot de passe", "secret"),
            ("don't", "not"),
            ("do not", "not"),
            ("resend", ""),
            ("the api_key", "secret"),
            ("पासवर्ड", "secret"),
            ("รหัสผ่าน", "secret"),
            ("كلمة المرور", "secret"),
        ] {
            let found = concepts(text);
            assert!(
                expected.is_empty() == found.is_empty() && (found.is_empty() || found.contains(&expected)),
                "{text} {found:?}"
            );
        }
    }

    #[test]
    fn concepts_and_traits_fill_the_mask() {
        assert_eq!(CONCEPTS.names.len(), Trait::ForeignName as usize);
        assert_eq!(CONCEPTS.name(BITS - 1), "first sentence");
        assert!(CONCEPTS.words.is_some());
        assert!(ACTS.iter().all(|act| CONCEPTS.names.contains(act)));
    }
}
