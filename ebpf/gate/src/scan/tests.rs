extern crate std;

mod arguments;
mod tokens;
mod words;

use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use super::*;
use crate::outcome::{CONDITIONAL, DENY, UNDECIDED};
use words::Words;

const DENIED: u16 = DENY | 7;
const BROKEN: u16 = DENY | 8;
const LONG: u16 = DENY | 9;
/// Any, and one that is `prompts/get` alone.
const SWITCHED_OFF: u16 = DENY | 10;
/// Of calls of `w` and of `w2`, whose arguments decide.
const BY_PATH: u16 = DENY | 11;
const BY_MODE: u16 = DENY | 12;
const UNTOLD: u16 = UNDECIDED | 13;

/// What matters of what is remembered: between strings, nothing of the last one but the name's hash.
fn remembered(scan: &Scan) -> Scan {
    let nothing = Scan { mode: OUTSIDE, length_units: 0, ..*scan };
    let nothing =
        Scan { reads: NOTHING, state: 0, length: 0, code: 0, stale: 0, key: 0, param: 0, ..nothing };
    // A key that is longer than all that matter is known to be none before it ends.
    match (scan.mode, scan.reads) {
        (OUTSIDE, _) => Scan { key: scan.key, param: scan.param, ..nothing },
        (_, NOTHING | KEY | PARAM_KEY) => Scan { mode: PLAIN, high: 0, ..nothing },
        // Digits of an escape that has ended.
        (PLAIN | ESCAPE, _) => Scan { code: 0, ..*scan },
        _ => *scan,
    }
}

fn words() -> Words {
    Words::new(&[
        ("delete_x", DENIED, 0),
        ("d/x", DENIED, 0),
        ("p", 0, DENIED),
        ("odd", UNDECIDED, 0),
        ("read", 5, 0),
        ("", 6, 0),
        ("\u{1}", DENIED, 0),
        ("w", CONDITIONAL | UNDECIDED, 0),
        ("w2", CONDITIONAL | UNDECIDED | 1, 0),
    ])
}

/// The outcomes of a text, and the text with each denied byte that can be neutralized as `@`.
fn after_scan(subject: u32, text: &str) -> (Vec<u16>, String) {
    let said = words().read(subject, &[text.as_bytes()]);
    let mut bytes = text.as_bytes().to_vec();
    for (_, _, place) in said.iter().filter(|(outcome, _, place)| outcome & DENY != 0 && *place != NOWHERE) {
        bytes[*place as usize] = b'@';
    }
    (said.iter().map(|(outcome, ..)| *outcome).collect(), String::from_utf8(bytes).unwrap())
}

#[test]
fn call_is_identified_by_method_and_name_only() {
    const NO: &[u16] = &[];
    for (text, outcomes, changed) in [
        (
            r#"{"method":"tools/call","params":{"name":"delete_x"}}"#,
            &[DENIED][..],
            r#"{"method":"tools/call","params":{"name":"delete_@"}}"#,
        ),
        (
            r#"{"params":{"arguments":{},"name":"delete_x"},"id":1,"method":"tools/call"}"#,
            &[DENIED],
            r#"{"params":{"arguments":{},"name":"delete_@"},"id":1,"method":"tools/call"}"#,
        ),
        (
            "\u{feff} {\t\"method\" : \"tools/call\" , \"params\" :\t{ \"name\" : \"delete_x\" } }\r\n",
            &[DENIED],
            "\u{feff} {\t\"method\" : \"tools/call\" , \"params\" :\t{ \"name\" : \"delete_@\" } }\r\n",
        ),
        // Elsewhere it is no name.
        (r#"{"method":"tools/call","params":{"name":"read","arguments":{"name":"delete_x"}}}"#, &[5], ""),
        (r#"{"method":"tools/call","params":{"arguments":[{"name":"delete_x"}],"name":"read"}}"#, &[5], ""),
        (r#"{"method":"tools/call","params":{"a":"\"name\":\"delete_x\"","name":"read"}}"#, &[5], ""),
        (r#"{"method":"tools/call","params":{"name":"read"},"name":"delete_x"}"#, &[5], ""),
        (r#"{"method":"tools/call","x":{"name":"delete_x"},"params":{"name":"read"}}"#, &[5], ""),
        (r#"{"method":"ping","params":{"name":"delete_x"}}"#, NO, ""),
        (r#"{"method":"x","params":{"method":"tools/call","name":"delete_x"}}"#, NO, ""),
        (r#"{"id":1,"result":{"method":"tools/call","params":{"name":"delete_x"}}}"#, NO, ""),
        (
            r#"{"method":"tools/call","params":[{"name":"delete_x"}]}"#,
            &[LONG],
            r#"{"method":"tools/cal@","params":[{"name":"delete_x"}]}"#,
        ),
        (r#"[[{"method":"tools/call","params":{"name":"delete_x"}}]]"#, NO, ""),
        (
            r#"{"method":"tools/call","params":{"name":{"name":"delete_x"}}}"#,
            &[LONG],
            r#"{"method":"tools/cal@","params":{"name":{"name":"delete_x"}}}"#,
        ),
        (
            r#"{"method":"tools/call","params":{"name":7}}"#,
            &[LONG],
            r#"{"method":"tools/cal@","params":{"name":7}}"#,
        ),
        (r#"{"method":"tools/call"}"#, &[LONG], r#"{"method":"tools/cal@"}"#),
        (r#"{"method":["tools/call"],"params":{"name":"delete_x"}}"#, NO, ""),
        // A name as that of something else.
        (r#"{"method":"prompts/get","params":{"name":"delete_x"}}"#, NO, ""),
        (
            r#"{"method":"prompts/get","params":{"name":"p"}}"#,
            &[DENIED],
            r#"{"method":"prompts/get","params":{"name":"@"}}"#,
        ),
        (
            r#"{"params":{"uri":"file:\/\/\/etc\/shadow"},"method":"resources\/read"}"#,
            &[DENIED],
            r#"{"params":{"uri":"file:\/\/\/etc\/shado@"},"method":"resources\/read"}"#,
        ),
        (
            r#"{"params":{"uri":"file:///etc/shadow"},"method":"tools/call"}"#,
            &[LONG],
            r#"{"params":{"uri":"file:///etc/shadow"},"method":"tools/cal@"}"#,
        ),
        (r#"{"params":{"name":"odd"},"method":"tools/call"}"#, &[UNDECIDED], ""),
    ] {
        let changed = if changed.is_empty() { text } else { changed };
        assert_eq!(after_scan(0, text), (outcomes.to_vec(), changed.to_string()), "{text}");
    }
}

#[test]
fn escapes_are_decoded_and_result_stays_valid_json() {
    for (name, outcomes, changed) in [
        (r"\u0064elete_x", &[DENIED][..], r"\u0064elete_@"),
        (r"delete\u005fx", &[DENIED], r"delete\u005f@"),
        (r"delete_\u0078", &[DENIED], r"delete@\u0078"),
        (r"delete_\u0058", &[], ""),
        (r"d\/x", &[DENIED], r"d\/@"),
        (r"d\u002Fx", &[DENIED], r"d\u002F@"),
        (r"d\u002fx\\", &[], ""),
        (r"\u0001", &[DENIED], ""),
    ] {
        let message = |name: &str| format!(r#"{{"method":"tools/call","params":{{"name":"{name}"}}}}"#);
        let (said, after) = after_scan(0, &message(name));
        assert_eq!(said, outcomes, "{name}");
        match name {
            // Nothing of the name can be overwritten: the method is.
            r"\u0001" => assert_eq!(after, message(name).replace("tools/call", "tools/cal@")),
            _ => assert_eq!(after, message(if changed.is_empty() { name } else { changed }), "{name}"),
        }
    }
    let text = r#"{"\u006dethod":"\u0074ools\/call","p\u0061rams":{"n\u0061me":"delete_x"}}"#;
    assert_eq!(after_scan(0, text).0, [DENIED]);
}

/// Every character, as it is and as an escape, gives the bytes of UTF-8 that it has.
#[test]
fn characters_and_escapes_yield_utf8_bytes() {
    let characters =
        (1..=0x10_FFFF).step_by(7).filter_map(char::from_u32).chain("\u{7ff}\u{800}\u{ffff}".chars());
    for character in characters.filter(|character| *character >= ' ') {
        let mut units = [0; 2];
        let escaped: String =
            character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect();
        assert_eq!(decoded(&escaped), character.to_string().as_bytes(), "{escaped}");
        if !matches!(character, '"' | '\\') {
            let plain = character.to_string();
            assert_eq!(decoded(&plain), plain.as_bytes());
        }
    }
    for (json, expected) in [
        (r"\ud83d\ude00", "😀"),
        (r"\uD83D\uDE00", "😀"),
        (r"\ud83d", "\u{fffd}"),
        (r"\ud83dx", "\u{fffd}x"),
        (r"\ud83d\n", "\u{fffd}\n"),
        (r"\ud83d\u0041", "\u{fffd}A"),
        (r"\ud83d\u20ac", "\u{fffd}€"),
        (r"\ud83d\ud83d\ude00", "\u{fffd}😀"),
        (r"\ude00\ud83d", "\u{fffd}\u{fffd}"),
        (r"\\u0041\b\f\/\t\r", "\\u0041\u{8}\u{c}/\t\r"),
    ] {
        assert_eq!(decoded(json), expected.as_bytes(), "{json}");
    }
}

/// What the inside of a JSON string is decoded to.
fn decoded(json: &str) -> Vec<u8> {
    let mut scan = Scan { mode: PLAIN, reads: NAME, ..Scan::default() };
    let mut all = Vec::new();
    for byte in json.bytes().chain([b'"']) {
        let (mut text, count, closes) = scan.decode(byte);
        assert_eq!(closes, byte == b'"' && count != 1);
        for _ in 0..count {
            all.push(text as u8);
            text >>= 8;
        }
    }
    all
}

/// Of keys that are there twice every one counts; what is neutralized then is what was found, or nothing can be.
#[test]
fn every_duplicate_key_is_evaluated() {
    for (text, outcomes, changed) in [
        (
            r#"{"method":"tools/call","params":{"name":"delete_x","name":"read"}}"#,
            &[DENIED, 5][..],
            r#"{"method":"tools/call","params":{"name":"delete_@","name":"read"}}"#,
        ),
        (
            r#"{"method":"tools/call","params":{"name":"read"},"params":{"name":"delete_x"}}"#,
            &[5, DENIED],
            r#"{"method":"tools/call","params":{"name":"read"},"params":{"name":"delete_@"}}"#,
        ),
        (
            r#"{"method":"ping","method":"tools/call","params":{"name":"delete_x"},"method":"ping"}"#,
            &[DENIED],
            r#"{"method":"ping","method":"tools/call","params":{"name":"delete_@"},"method":"ping"}"#,
        ),
        // Which of the two is denied is not known any more.
        (r#"{"params":{"name":"delete_x","name":"read"},"method":"tools/call"}"#, &[DENIED], ""),
        (r#"{"params":{"name":"delete_x","uri":"u"},"method":"tools/call"}"#, &[DENIED], ""),
        // Nor which of two is called that mean different things; of two that mean the same it does not matter.
        (r#"{"params":{"name":"read","name":"none"},"method":"tools/call"}"#, &[LONG], ""),
        (r#"{"params":{"name":"none","name":"read"},"method":"tools/call"}"#, &[LONG], ""),
        (r#"{"params":{"name":"read","name":"read"},"method":"tools/call"}"#, &[5], ""),
        (r#"{"method":"tools/call","method":"tools/call","params":{"name":"\u0001"}}"#, &[DENIED], ""),
    ] {
        let changed = if changed.is_empty() { text } else { changed };
        assert_eq!(after_scan(0, text), (outcomes.to_vec(), changed.to_string()), "{text}");
    }
}

#[test]
fn each_of_several_messages_is_judged() {
    let call = |name: &str| format!(r#"{{"method":"tools/call","params":{{"name":"{name}"}}}}"#);
    let (bad, good, neutralized) = (call("delete_x"), call("none"), call("delete_@"));
    for (text, outcomes, changed) in [
        (
            format!("{bad}\n{good}\n{bad}\n"),
            &[DENIED, DENIED][..],
            format!("{neutralized}\n{good}\n{neutralized}\n"),
        ),
        (
            format!("[{good},{bad} , {good}]\n{bad}"),
            &[DENIED, DENIED],
            format!("[{good},{neutralized} , {good}]\n{neutralized}"),
        ),
        (
            format!("Content-Length: 52\r\n\r\n{bad}Content-Length: 1\r\n\r\n"),
            &[DENIED],
            format!("Content-Length: 52\r\n\r\n{neutralized}Content-Length: 1\r\n\r\n"),
        ),
        (format!("\" text \"\n{bad}\n"), &[DENIED], format!("\" text \"\n{neutralized}\n")),
        (format!("}}]\n{bad}\n"), &[DENIED], format!("}}]\n{neutralized}\n")),
        // A name of the one is none of the other.
        (
            r#"{"params":{"name":"delete_x"}}{"method":"tools/call"}"#.to_string(),
            &[LONG],
            r#"{"params":{"name":"delete_x"}}{"method":"tools/cal@"}"#.to_string(),
        ),
        (
            r#"[{"params":{"name":"delete_x"}},{"method":"tools/call"}]"#.to_string(),
            &[LONG],
            r#"[{"params":{"name":"delete_x"}},{"method":"tools/cal@"}]"#.to_string(),
        ),
        // Lines that end within something: whoever reads lines begins anew.
        (format!("{{\"a\n{bad}\n"), &[BROKEN, DENIED], format!("{{\"a\n{neutralized}\n")),
        (format!("{{[{{\n{bad}\n"), &[BROKEN, DENIED], format!("{{[{{\n{neutralized}\n")),
        (format!("{{\"a\\\n{bad}\n"), &[BROKEN, DENIED], format!("{{\"a\\\n{neutralized}\n")),
        (bad.replace("call\",", "call\",\r"), &[BROKEN, DENIED], neutralized.replace("call\",", "call\",\r")),
    ] {
        let changed = if changed.is_empty() { text.clone() } else { changed };
        assert_eq!(after_scan(0, &text), (outcomes.to_vec(), changed), "{text}");
    }
}

#[test]
fn every_request_to_disabled_server_is_stopped() {
    for (text, outcomes, changed) in [
        (r#"{"method":"initialize"}"#, &[SWITCHED_OFF][..], r#"{"method":"initializ@"}"#),
        (r#"{"method":"","id":1}"#, &[SWITCHED_OFF], ""),
        (r#"{"id":1,"result":{"method":"x"}}"#, &[], ""),
    ] {
        let changed = if changed.is_empty() { text } else { changed };
        assert_eq!(after_scan(1, text), (outcomes.to_vec(), changed.to_string()), "{text}");
    }
}

#[test]
fn overlong_names_are_undecidable() {
    for (length, outcomes) in [
        (usize::from(LONG_NAME_BYTES), &[][..]),
        (usize::from(LONG_NAME_BYTES) + 1, &[LONG]),
        (100_000, &[LONG]),
    ] {
        let name = "a".repeat(length);
        let text = format!(r#"{{"method":"tools/call","params":{{"name":"{name}"}}}}"#);
        assert_eq!(after_scan(0, &text).0, outcomes, "{length}");
        assert!(after_scan(2, &text).0.is_empty(), "{length}");
    }
}

/// However a text is cut into writes, the same is said of it; and what is neutralized lies in the write that says so.
#[test]
fn splitting_writes_does_not_change_outcomes() {
    let words = words();
    let call = r#"[{"id":1,"method":"tools\/call","params":{"n\u0061me":"delete_\ud83d","name":"delete_x"}},{"params":{"name":"delete_x"},"method":"tools/call"}]"#;
    let text = format!("{call}\r\n{{\"method\":\"ping\"}}\n");
    let whole: Vec<u16> = words.read(0, &[text.as_bytes()]).iter().map(|(outcome, ..)| *outcome).collect();
    assert_eq!(whole, [DENIED, DENIED]);
    for first in 0..text.len() {
        for second in [first, text.len().min(first + 1), text.len().min(first + 9), text.len()] {
            let writes =
                [&text.as_bytes()[..first], &text.as_bytes()[first..second], &text.as_bytes()[second..]];
            let said = words.read(0, &writes);
            assert_eq!(
                said.iter().map(|(outcome, ..)| *outcome).collect::<Vec<_>>(),
                whole,
                "{first} {second}"
            );
            for (_, write, place) in said {
                assert!(place == NOWHERE || (place as usize) < writes[write].len());
            }
        }
    }
    let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
    assert_eq!(words.read(0, &bytes).iter().map(|(outcome, ..)| *outcome).collect::<Vec<_>>(), whole);
}

/// What the first of two writes holds decides what can be neutralized in the second.
#[test]
fn neutralized_byte_lies_in_the_current_write() {
    for (first, second, expected) in [
        (r#"{"method":"tools/call","params":{"name":"del"#, r#"ete_x"}}"#, Some("ete_@\"}}")),
        (r#"{"method":"tools/call","params":{"name":"delete_x"#, r#""}}"#, None),
        (r#"{"params":{"name":"delete_x"},"method":"#, r#""tools/call"}"#, Some(r#""tools/cal@"}"#)),
        (r#"{"params":{"name":"delete_x"},"method":"tools/call"#, r#""}"#, None),
        (r#"{"method":"tools/call","params":{"name""#, r#":"delete_x"}}"#, Some(r#":"delete_@"}}"#)),
    ] {
        let said = words().read(0, &[first.as_bytes(), second.as_bytes()]);
        let [(DENIED, 1, place)] = said[..] else { panic!("{said:?}") };
        let mut bytes = second.as_bytes().to_vec();
        if let Some(byte) = bytes.get_mut(place as usize) {
            *byte = b'@';
        }
        assert_eq!(
            (place != NOWHERE).then_some(bytes),
            expected.map(|text| text.as_bytes().to_vec()),
            "{first}"
        );
    }
}

/// A name that one table has read, in part or whole, says nothing under another; keys and methods do.
#[test]
fn name_read_under_replaced_table_is_undecidable() {
    let before = words();
    let mut after = words();
    after.head.generation = 2;
    for (text, untold) in [
        (&br#"{"method":"tools/call","params":{"name":"delete_x"}}"#[..], 41..=49),
        (br#"{"params":{"name":"delete_x"},"method":"tools/call"}"#, 19..=50),
        (br#"{"params":{"uri":"file:///etc/shadow"},"method":"resources/read"}"#, 18..=63),
    ] {
        for cut in 0..text.len() {
            let (mut scan, mut said) = (Scan::default(), Vec::new());
            for (words, bytes) in [(&before, &text[..cut]), (&after, &text[cut..])] {
                let (view, mut marks) = (words.view(), Marks::NONE);
                scan.begin(&view, view.subject(0));
                for (place, byte) in (0_u32..).zip(bytes) {
                    said.push(scan.step(&view, view.subject(0), &mut marks, *byte, place).outcome);
                }
            }
            said.retain(|outcome| *outcome != 0);
            assert_eq!(said, [if untold.contains(&cut) { LONG } else { DENIED }], "{cut}");
        }
    }
}

#[test]
fn scan_state_is_small_and_without_padding() {
    assert_eq!(size_of::<Scan>(), 8 + 24 + 8 + 8);
}
