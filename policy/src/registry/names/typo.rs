//! Names that differ as a slip of the keyboard does, and as names that are made to be mistaken for another do: one letter of a
//! word is doubled or left out, or two are swapped (`postgress`, `excute_query`, `search_repositroies`).
//!
//! Another letter in place of one, a plural and another form of a verb are none: `search_nodes` and `search_notes` are two
//! honest tools. Nor are pairs of words that differ so and are both in use.

use super::{is_separator, spelling};
use crate::detect::folded;

/// Words in use that are a letter more, or two swapped letters, away from each other; a plural counts as its word. From the
/// names of published tools (`contact`, `contract`: servers for customer relations; `chat`, `chart`: messengers and
/// spreadsheets), and from lists of English words that spelling checkers confuse.
const PAIRS: &[(&str, &str)] = &[
    ("contact", "contract"),
    ("chat", "chart"),
    ("form", "from"),
    ("trail", "trial"),
    ("board", "broad"),
    ("diary", "dairy"),
    ("angel", "angle"),
    ("sign", "sing"),
    ("quite", "quiet"),
    ("casual", "causal"),
    ("could", "cloud"),
    ("united", "untied"),
    ("place", "palace"),
    ("county", "country"),
    ("though", "through"),
    ("thread", "tread"),
    ("desert", "dessert"),
    ("later", "latter"),
    ("tile", "title"),
    ("sort", "short"),
    ("stream", "steam"),
    ("sale", "scale"),
    ("price", "prince"),
];
/// Shortest word that has lost or doubled a letter, in letters of the longer one; and shortest one with swapped letters.
const MIN_LONGER: usize = 5;
const MIN_SWAPPED: usize = 3;
/// Shortest word that may have lost its last letter: shorter ones are others by it (`plan`, `plane`).
const MIN_CUT: usize = 7;
/// Letters that make another form of a word at its end.
const ENDINGS: [char; 5] = ['s', 'd', 'r', 'y', 'n'];

/// Whether one of two names that are not the same is the other with such a slip.
pub(super) fn is_typo(one: &str, other: &str) -> bool {
    let (ones, others) = (words(one), words(other));
    if ones.len() != others.len() {
        // `runmigration`, where `get_a_page` has a word more.
        let is_joined = ones.len().min(others.len()) == 1;
        return is_joined && is_slip(&spelling(&folded(one)), &spelling(&folded(other)));
    }
    let mut apart = ones.iter().zip(&others).filter(|(one, other)| one != other);
    match (apart.next(), apart.next()) {
        (Some((one, other)), None) => is_slip(one, other),
        _ => false,
    }
}

/// The words of a name in lower case: `readFile` and `read_file` are two.
fn words(name: &str) -> Vec<String> {
    let (mut words, mut word, mut after_small) = (Vec::new(), String::new(), false);
    for c in folded(name).chars() {
        if is_separator(c) || c.is_uppercase() && after_small {
            words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
        }
        after_small = c.is_lowercase();
        if !is_separator(c) {
            word.extend(c.to_lowercase());
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}

fn is_slip(one: &str, other: &str) -> bool {
    let singular = |word: &str| word.strip_suffix('s').unwrap_or(word).to_owned();
    let pair = (singular(one), singular(other));
    let is_in_use =
        |(a, b): &(&str, &str)| (*a, *b) == (&*pair.0, &*pair.1) || (*a, *b) == (&*pair.1, &*pair.0);
    if PAIRS.iter().any(is_in_use) {
        return false;
    }
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let (short, long) = if one.len() <= other.len() { (&one, &other) } else { (&other, &one) };
    let same = short.iter().zip(long).take_while(|(a, b)| a == b).count();
    let letter = |word: &[char], at: usize| word.get(at).copied().filter(|c| c.is_alphabetic());
    let rest = |word: &[char], from: usize| word.get(from..).unwrap_or_default().to_vec();
    if short.len() == long.len() {
        let is_swapped = letter(short, same).is_some()
            && letter(short, same) == letter(long, same + 1)
            && letter(short, same + 1) == letter(long, same)
            && letter(short, same + 1).is_some();
        return is_swapped && long.len() >= MIN_SWAPPED && rest(short, same + 2) == rest(long, same + 2);
    }
    if long.len() != short.len() + 1 || long.len() < MIN_LONGER || rest(short, same) != rest(long, same + 1) {
        return false;
    }
    let Some(more) = letter(long, same) else { return false };
    let is_doubled = same > 0 && letter(long, same - 1) == Some(more);
    let is_last = same + 1 == long.len();
    // What begins with another letter is another word: `mail`, `email`.
    is_doubled || same > 0 && (!is_last || long.len() >= MIN_CUT && !ENDINGS.contains(&more))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_told_from_other_words() {
        for (one, other, expected) in [
            ("run_migration", "run_migraton", true),
            ("runMigration", "run-migraiton", true),
            ("run_migration", "run_migrattion", true),
            ("runmigration", "run_migraton", true),
            ("sqlite", "sqllite", true),
            ("redis", "rediss", true),
            ("mongodb", "mogodb", true),
            ("calendar", "calender", false),
            ("notion", "noiton", true),
            ("database", "databas", true),
            ("delete_row", "delet_row", false),
            ("get_user", "gte_user", true),
            ("run_5_jobs", "run_55_jobs", false),
            ("list_row", "list_rows", false),
            ("list_row_ids", "list_rows_ids", false),
            ("save_page", "saved_page", false),
            ("list_all", "list_ball", false),
            ("mail_box", "email_box", false),
            ("get_contact", "get_contract", false),
            ("list_contacts", "list_contracts", false),
            ("list_chats", "list_charts", false),
            ("list_trails", "list_trials", false),
            ("get_nodes", "get_notes", false),
            ("turn_on", "turn_no", false),
            ("get_plan", "get_plane", false),
            ("get_h264", "get_h246", false),
            ("get_page", "get_a_page", false),
            ("get_page", "get_page", false),
            ("", "", false),
            ("", "x", false),
        ] {
            assert_eq!(is_typo(one, other), expected, "{one} {other}");
            assert_eq!(is_typo(other, one), expected, "{other} {one}");
        }
    }
}
