//! What is taken out of an object without reading it is what a parser takes out of it.

use proptest::prelude::*;

use super::*;

const NAMES: [&str; 4] = ["name", "id", "tools", "b"];

fn text(raw: Option<&RawValue>) -> Option<&str> {
    raw.map(RawValue::get)
}

/// JSON of all kinds, with blanks, and members of one name.
fn values() -> impl Strategy<Value = String> {
    let blank = prop_oneof![Just(""), Just(" "), Just("\n\t"), Just("\r")];
    let key = prop_oneof![
        4 => Just("name"),
        6 => proptest::sample::select(vec!["id", "id", "tools", "b", "", "\\u006eame", "a\\\"b", "é", "\\ud800"]),
    ];
    let leaves =
        ["null", "true", "-1.5e+3", "0", "\"}{][,:\"", "\"a\\\\\"", "\"\\\"}\"", "\"\\udc00\"", "\"\""];
    let leaf = proptest::sample::select(leaves.to_vec());
    leaf.prop_map(str::to_owned).prop_recursive(3, 24, 5, move |inner| {
        let member = (blank.clone(), key.clone(), blank.clone(), inner.clone(), blank.clone())
            .prop_map(|(a, key, b, value, c)| format!("{a}\"{key}\"{b}:{a}{value}{c}"));
        let object = (blank.clone(), proptest::collection::vec(member, 0..6))
            .prop_map(|(blank, all)| format!("{blank}{{{blank}{}}}{blank}", all.join(",")));
        let list = proptest::collection::vec(inner, 0..3).prop_map(|all| format!("[{}]", all.join(" , ")));
        prop_oneof![4 => object, 1 => list]
    })
}

proptest! {
    #[test]
    fn members_are_those_of_a_parser(json in values()) {
        let (quick, quickly_repeated) = members_once(&json, NAMES);
        let (read, repeated) = members_of_text(&json, NAMES);
        prop_assert_eq!(quick.map(text), read.map(text), "{}", json);
        prop_assert_eq!(quickly_repeated, repeated, "{}", json);
        let all = all_members(&json);
        for name in NAMES {
            let every = every_member(&json, name);
            prop_assert_eq!(every.is_some(), all.is_some(), "{}", json);
            let every: Vec<&str> = every.iter().flatten().map(|value| value.get()).collect();
            let of_all = all.iter().flatten().filter(|(key, _)| key == name);
            let of_all: Vec<&str> = of_all.map(|(_, value)| value.get()).collect();
            prop_assert_eq!(every, of_all, "{}", json);
        }
        prop_assert_eq!(repeated_member(&json, &NAMES).is_some(), repeated.is_some(), "{}", json);
    }

    /// Nothing is read out of what is no JSON, unless it is nothing that was looked for.
    #[test]
    fn broken_text_is_taken(json in values(), at in 0_usize..60, with in "[\"{},:\\[\\]a\\\\ ]{0,2}") {
        let at = json.char_indices().map(|(place, _)| place).nth(at).unwrap_or(json.len());
        let broken = format!("{}{with}{}", &json[..at], json.get(at + 1..).unwrap_or_default());
        members_once(&broken, NAMES);
        every_member(&broken, "name");
        repeated_member(&broken, &NAMES);
        without(&broken, &NAMES);
    }
}
