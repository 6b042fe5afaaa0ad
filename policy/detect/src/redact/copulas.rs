//! Words of sentences that say what a secret is, by language.

/// Words that say what something is: of the languages that most names of secrets are of.
pub(super) const COPULAS: [&str; 33] = [
    "is",
    "was",
    "are",
    "were",
    "equals",
    "reads",
    "becomes",
    "being",
    "ist",
    "lautet",
    "war",
    "es",
    "era",
    "est",
    "è",
    "é",
    "är",
    "er",
    "это",
    "=",
    "brzmi",
    "jest",
    "je",
    "este",
    "є",
    "е",
    "είναι",
    "là",
    "adalah",
    "ialah",
    "هي",
    "هو",
    "היא",
];
/// The same, where they are other words in other languages: with the names that they stand behind (Polish, Finnish).
const OWN_COPULAS: [(&str, &[&str]); 2] =
    [("to", &["hasło", "haslo", "klucz"]), ("on", &["salasana", "avain"])];
/// The same, written without blanks: Chinese, Japanese and Korean.
pub(super) const JOINED_COPULAS: [char; 6] = ['是', '为', '為', 'は', '는', '은'];
/// Words between a name and what it is of, or who has it.
pub(super) const OF: [&str; 44] = [
    "to", "for", "of", "on", "in", "at", "from", "with", "used", "by", "that", "which", "you", "we", "i",
    "they", "he", "she", "needed", "für", "zu", "zum", "zur", "von", "vom", "de", "del", "para", "pour",
    "du", "di", "per", "en", "sur", "voor", "van", "til", "till", "dla", "do", "для", "от", "к", "на",
];
/// Words between a verb and the value, or that a change is told with.
pub(super) const SET: [&str; 22] = [
    "now",
    "currently",
    "still",
    "just",
    "simply",
    "always",
    "also",
    "then",
    "set",
    "reset",
    "changed",
    "change",
    "updated",
    "update",
    "to",
    "been",
    "as",
    "called",
    "follows",
    "actually",
    "temporarily",
    "again",
];
/// Whether a word says what a secret of this name is, in the language of the name.
pub(super) fn is_own_copula(name: &str, word: &str) -> bool {
    let name = name.to_lowercase();
    OWN_COPULAS
        .iter()
        .any(|(copula, names)| word.eq_ignore_ascii_case(copula) && names.contains(&name.as_str()))
}
