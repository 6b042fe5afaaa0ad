//! Adding numbers is no writing: `add` with "Add two numbers" calculates, where "Add a number to the list" writes.

use std::borrow::Cow;

use super::for_each_word;

/// What is added, right behind the verb or behind a word of how many.
const NUMBERS: [&str; 8] =
    ["numbers", "integers", "floats", "decimals", "operands", "addends", "fractions", "ints"];
const MANY: [&str; 8] = ["two", "2", "three", "several", "multiple", "all", "both", "the"];
/// Forms of the verb.
const ADD: [&str; 3] = ["add", "adds", "adding"];
/// How many words behind the verb may name a place.
const MAX_OBJECT: usize = 8;
/// Longest description that is looked at, in bytes: of what only adds numbers there is little to say.
const MAX_BYTES: usize = 4_096;
/// Behind these a place follows that something is added to.
const TO: [&str; 4] = ["to", "into", "in", "on"];

/// Name and description with `calculate` in place of `add` where numbers are added, and to nothing.
pub(super) fn calculated<'a>(name: &'a str, description: &'a str) -> (Cow<'a, str>, Cow<'a, str>) {
    if name.len() + description.len() > MAX_BYTES {
        return (name.into(), description.into());
    }
    let is_told = adds_numbers(description);
    let is_named = adds_numbers(name) || is_told && ADD.contains(&name.to_ascii_lowercase().as_str());
    let instead =
        |text: &'a str, is_sum| if is_sum { Cow::Owned(instead(text)) } else { Cow::Borrowed(text) };
    (instead(name, is_named), instead(description, is_told))
}

/// Whether every "add" of a text has numbers behind it and no place, and there is one.
fn adds_numbers(text: &str) -> bool {
    let mut words: Vec<String> = Vec::new();
    for_each_word(text, |word| words.push(word.to_owned()));
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    let is_sum = |at: usize| {
        let object = if MANY.contains(&word(at + 1)) { word(at + 2) } else { word(at + 1) };
        let has_place = words.iter().skip(at + 1).take(MAX_OBJECT).any(|word| TO.contains(&word.as_str()));
        NUMBERS.contains(&object) && !has_place
    };
    let mut all = words.iter().enumerate().filter(|(_, word)| ADD.contains(&word.as_str())).map(|(at, _)| at);
    all.next().is_some_and(is_sum) && all.all(is_sum)
}

fn instead(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length =
            rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len()).max(first.len_utf8());
        let (word, behind) = rest.split_at_checked(length).unwrap_or((rest, ""));
        let small = word.to_ascii_lowercase();
        // `addNumbers`
        let is_hump = word.starts_with("add") && word.as_bytes().get(3).is_some_and(u8::is_ascii_uppercase);
        match ADD.contains(&small.as_str()) {
            true => out.push_str("calculate"),
            false if is_hump => out.extend(["calculate", word.get(3..).unwrap_or_default()]),
            false => out.push_str(word),
        }
        rest = behind;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_calculated_and_what_is_added_to_something_is_not() {
        for (name, description, expected) in [
            ("add", "Add two numbers", ("calculate", "calculate two numbers")),
            ("add", "Adds two integers together.", ("calculate", "calculate two integers together.")),
            ("add_numbers", "", ("calculate_numbers", "")),
            ("addNumbers", "Adds two numbers.", ("calculateNumbers", "calculate two numbers.")),
            ("add", "Returns the sum", ("add", "Returns the sum")),
            ("add", "Add a number to the list", ("add", "Add a number to the list")),
            ("add_note", "Adds two numbers.", ("add_note", "calculate two numbers.")),
            ("add", "Adds two numbers. Adds a note.", ("add", "Adds two numbers. Adds a note.")),
            ("add_phone_number", "Adds a phone number.", ("add_phone_number", "Adds a phone number.")),
            ("add_vectors", "Adds vectors with metadata.", ("add_vectors", "Adds vectors with metadata.")),
            ("add_account_numbers", "", ("add_account_numbers", "")),
            ("add", "", ("add", "")),
            ("größe", "Addiert", ("größe", "Addiert")),
        ] {
            let found = calculated(name, description);
            assert_eq!((&*found.0, &*found.1), expected, "{name}: {description}");
        }
    }
}
