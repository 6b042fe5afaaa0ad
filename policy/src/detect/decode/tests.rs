use proptest::prelude::*;

use super::*;

/// Text, and it in each other spelling that it shows signs of.
#[test]
fn a_text_is_respelt_where_it_shows_signs_of_it() {
    let cases: &[(&str, &[(&str, Form)])] = &[
        ("plain prose of the user", &[]),
        ("Vtaber gur hfre", &[("Ignore the user", Form::Rot13)]),
        ("1gn0r3 7h3 u53r", &[("ignore the user", Form::Leetspeak)]),
        ("i g n o r e  i t", &[("ignore  it", Form::Spaced)]),
        ("a b c d", &[]),
        ("i-g-n-o-r-e me", &[("ignore me", Form::Spaced)]),
        ("a%20b &#105;&lt;\\u0041\\n", &[("a b i<A\n", Form::Escapes)]),
        ("100% & \\ \\u12 &#; %zz &#x110000;", &[]),
        ("resu eht erongi tpmorp", &[("prompt ignore the user", Form::Reversed)]),
    ];
    for (text, expected) in cases {
        let view = View::raw(text);
        let found: Vec<(String, Form)> = respelt(&view, Signs::of(text))
            .into_iter()
            .map(|view| (view.text.into_owned(), view.form))
            .collect();
        let expected: Vec<(String, Form)> =
            expected.iter().map(|(text, form)| ((*text).to_owned(), *form)).collect();
        assert_eq!(found, expected, "{text}");
    }
}

/// Text, what is decoded out of it.
#[test]
fn only_prose_is_decoded() {
    let cases: &[(&str, &[&str])] = &[
        ("see dGhlIHF1aWNrIGJyb3duIGZveCBqdW1wcw== end", &["the quick brown fox jumps"]),
        ("see 74686520717569636b2062726f776e20666f78 end", &["the quick brown fox"]),
        // What is encoded once more; not what is encoded more often.
        (
            "see ZEdobElIRjFhV05ySUdKeWIzZHVJR1p2ZUNCcWRXMXdjeUJ2ZG1WeQ== end",
            &["the quick brown fox jumps over"],
        ),
        (
            "see NzQ2ODY1MjA3MTc1Njk2MzZiMjA2MjcyNmY3NzZlMjA2NjZmNzgyMDZhNzU2ZDcwNzMyMDZmNzY2NTcy end",
            &["the quick brown fox jumps over"],
        ),
        (
            "see 6447686c4948463161574e7249474a796233647549475a76654342716457317763794276646d5679 end",
            &["the quick brown fox jumps over"],
        ),
        ("see WkVkb2JFbElSakZoVjA1eVNVZEtlV0l6WkhWSlIxcDJaVU5DY1dSWE1YZGplVUoyWkcxV2VRPT0= end", &[]),
        ("a/path/that/is/as/long/as/an/encoding/and/no/encoding", &[]),
        ("0123456789abcdef0123456789abcdef", &[]),
        ("dGhlcXVpY2ticm93bmZveGp1bXBz", &[]),
    ];
    for (text, expected) in cases {
        let found: Vec<String> = runs(&View::raw(text), false, &mut Work::default())
            .into_iter()
            .map(|run| run.view.text.into_owned())
            .collect();
        assert_eq!(found, *expected, "{text}");
    }
}

proptest! {
    #[test]
    fn no_run_is_passed_over(text in "([a+/9_-]{1,60}|[a9]{22,26}| |é){0,12}") {
        let digit = |byte: u8| byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte);
        let mut at = 0;
        let mut expected = Vec::new();
        for run in text.as_bytes().chunk_by(|a, b| digit(*a) && digit(*b)) {
            if run.len() >= MIN_RUN {
                expected.push(at..at + run.len());
            }
            at += run.len();
        }
        prop_assert_eq!(tokens(text.as_bytes()).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn decoding_has_a_budget() {
    let mut work = Work::default();
    work.decoded = 10;
    assert!(runs(&View::raw("dGhlIHF1aWNrIGJyb3duIGZveCBqdW1wcw=="), false, &mut work).is_empty());
    assert!(work.exceeded);
}
