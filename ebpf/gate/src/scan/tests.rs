extern crate std;

mod arguments;
mod tokens;

use std::boxed::Box;
use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, vec};

use super::*;
use crate::table::{
    ARGUMENT_TEXT, CLASSES_RESERVED, CONDITIONAL, DENY, ENTRIES, Head, KEY_ARGUMENTS, KEY_ARGUMENTS_LIKE,
    KEY_METHOD, KEY_NAME, KEY_PARAMS, KEY_URI, METHOD_PROMPT, METHOD_RESOURCE, METHOD_TOOL, METHODS,
    SUBJECTS, UNDECIDED,
};

const DENIED: u16 = DENY | 7;
const BROKEN: u16 = DENY | 8;
const LONG: u16 = DENY | 9;
/// Any, and one that is `prompts/get` alone.
const SWITCHED_OFF: u16 = DENY | 10;
/// Of calls of `w` and of `w2`, whose arguments decide.
const BY_PATH: u16 = DENY | 11;
const BY_MODE: u16 = DENY | 12;
const UNTOLD: u16 = UNDECIDED | 13;

/// A table of whole words: a trie, each byte a class of its own.
struct Words {
    head: Head,
    next: Box<[u16; ENTRIES]>,
    states: u16,
}

const CLASSES: u16 = 129 + CLASSES_RESERVED;

impl Words {
    fn new(words: &[(&str, u16, u16)]) -> Self {
        let next = vec![0; ENTRIES].into_boxed_slice().try_into().unwrap();
        let mut class_of = [CLASSES_RESERVED as u8; 256];
        for (byte, class) in (0_u8..128).zip(CLASSES_RESERVED as u8..) {
            class_of[byte as usize] = class;
        }
        class_of[ARGUMENT_TEXT as usize] = (CLASSES - 1) as u8;
        let (keys, param_keys, methods) = (1, 2, 3);
        let mut subject =
            Subject { name: 4, uri: 5, long: [LONG; METHODS], broken: BROKEN, ..Subject::default() };
        let mut subjects = [subject; SUBJECTS];
        subjects[0].arguments = 6;
        subject.any = [SWITCHED_OFF; METHODS];
        subjects[1] = subject;
        subjects[2] = Subject { name: 4, uri: 5, ..Subject::default() };
        let head = Head {
            generation: 1,
            classes: CLASSES,
            keys,
            param_keys,
            methods,
            class_of,
            subjects,
            ..Head::EMPTY
        };
        let mut all = Self { head, next, states: 7 };
        all.add_arguments();
        // In every case in real tables.
        for (word, number) in
            [("method", KEY_METHOD), ("METHOD", KEY_METHOD), ("params", KEY_PARAMS), ("Params", KEY_PARAMS)]
        {
            all.add(keys, word, number, 0);
        }
        for (word, number) in [
            ("name", KEY_NAME),
            ("nAme", KEY_NAME),
            ("uri", KEY_URI),
            ("arguments", KEY_ARGUMENTS),
            ("Arguments", KEY_ARGUMENTS_LIKE),
        ] {
            all.add(param_keys, word, number, 0);
        }
        for (word, number) in
            [("tools/call", METHOD_TOOL), ("prompts/get", METHOD_PROMPT), ("resources/read", METHOD_RESOURCE)]
        {
            all.add(methods, word, number, 0);
        }
        for (word, tool, prompt) in words {
            all.add(4, word, *tool, *prompt);
        }
        all.add(5, "file:///etc/shadow", DENIED, 0);
        all
    }

    /// Two arguments, each with a prefix that its text may have, and the choices that go by these.
    fn add_arguments(&mut self) {
        for (key, prefix, bit) in [("path", "/etc/", 1), ("mode", "x", 2)] {
            let end = self.add(6, key, bit, 0);
            let other = self.state(0, bit);
            self.fill(other, other);
            let first = self.state(0, bit);
            self.next[end as usize * CLASSES as usize + CLASSES as usize - 1] = first;
            let mut state = first;
            for byte in prefix.bytes() {
                let next = self.state(0, bit);
                self.fill(state, other);
                self.next[state as usize * CLASSES as usize + self.head.class_of[byte as usize] as usize] =
                    next;
                state = next;
            }
            self.fill(state, state);
            self.next[state as usize * CLASSES as usize] = bit;
        }
        for (number, (bits, outcome)) in [(1, BY_PATH), (2, BY_MODE)].into_iter().enumerate() {
            let choice = &mut self.head.choices[number];
            (choice.conditions[0].bits, choice.denying, choice.undecided) = (bits, 1, UNTOLD);
            choice.outcomes.iter_mut().skip(1).step_by(2).for_each(|slot| *slot = outcome);
        }
    }

    /// A new state.
    fn state(&mut self, tool: u16, prompt: u16) -> u16 {
        let row = self.states as usize * CLASSES as usize;
        (self.next[row], self.next[row + 1]) = (tool, prompt);
        self.states += 1;
        self.states - 1
    }

    /// Leads from a state to another by every byte.
    fn fill(&mut self, state: u16, to: u16) {
        let row = state as usize * CLASSES as usize;
        self.next[row + CLASSES_RESERVED as usize..row + CLASSES as usize].fill(to);
    }

    fn add(&mut self, start: u16, word: &str, tool: u16, prompt: u16) -> u16 {
        let mut state = start;
        for byte in word.bytes() {
            let slot = state as usize * CLASSES as usize + self.head.class_of[byte as usize] as usize;
            if self.next[slot] == 0 {
                self.next[slot] = self.states;
                self.states += 1;
            }
            state = self.next[slot];
        }
        let row = state as usize * CLASSES as usize;
        self.next[row] = tool;
        self.next[row + 1] = prompt;
        state
    }

    fn view(&self) -> View<'_> {
        View { head: &self.head, next: &self.next }
    }

    /// What is said of these writes: outcome, write and place of each. The same byte by byte and in chunks of any size.
    fn read(&self, subject: u32, writes: &[&[u8]]) -> Vec<(u16, usize, u32)> {
        let (by_steps, scan) = self.read_by_steps(subject, writes);
        for size in [CHUNK_BYTES, 1, 7, 61] {
            let (by_tokens, after) = self.read_by_tokens(subject, writes, size);
            assert_eq!(by_tokens, by_steps, "{size}: {writes:?}");
            assert_eq!(remembered(&after), remembered(&scan), "{size}: {writes:?}");
        }
        by_steps
            .into_iter()
            .filter(|(said, _)| said.outcome != 0)
            .map(|(said, at)| (said.outcome, at, said.place))
            .collect()
    }

    fn read_by_steps(&self, subject: u32, writes: &[&[u8]]) -> (Vec<(Decision, usize)>, Scan) {
        let (view, mut scan, mut all) = (self.view(), Scan::default(), Vec::new());
        for (number, bytes) in writes.iter().enumerate() {
            let mut marks = Marks::NONE;
            scan.begin(&view, view.subject(subject));
            for (place, byte) in (0_u32..).zip(bytes.iter()) {
                let said = scan.step(&view, view.subject(subject), &mut marks, *byte, place);
                let said = scan.resolve(&view, said);
                if said.outcome != 0 || said.is_call {
                    all.push((said, number));
                }
            }
        }
        (all, scan)
    }

    /// As the kernel half does.
    fn read_by_tokens(&self, subject: u32, writes: &[&[u8]], size: usize) -> (Vec<(Decision, usize)>, Scan) {
        let (view, mut scan, mut all) = (self.view(), Scan::default(), Vec::new());
        let subject = view.subject(subject);
        // What was there before a chunk is no part of it.
        let mut chunk = Chunk::default();
        chunk.bytes().fill(b'x');
        for (number, bytes) in writes.iter().enumerate() {
            let (mut marks, mut place) = (Marks::NONE, 0);
            scan.begin(&view, subject);
            for bytes in bytes.chunks(size) {
                chunk.bytes()[..bytes.len()].copy_from_slice(bytes);
                let (mut at, end) = (0, bytes.len() as u32);
                chunk.end_at(end);
                while at < end {
                    let (to, said) = scan.tokens(&view, subject, &mut marks, &chunk, at, place + at);
                    assert!((at..=end).contains(&to), "{at} to {to} of {end}: {writes:?}");
                    let said = if to > at {
                        said
                    } else {
                        assert_eq!(said, SILENT);
                        scan.step(&view, subject, &mut marks, chunk.byte(at), place + at)
                    };
                    let said = scan.resolve(&view, said);
                    at = to.max(at + 1);
                    if said.outcome != 0 || said.is_call {
                        all.push((said, number));
                    }
                }
                place += end;
            }
        }
        (all, scan)
    }
}

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
        (r#"{"method":"tools/call","params":[{"name":"delete_x"}]}"#, &[6], ""),
        (r#"[[{"method":"tools/call","params":{"name":"delete_x"}}]]"#, NO, ""),
        (r#"{"method":"tools/call","params":{"name":{"name":"delete_x"}}}"#, &[6], ""),
        (r#"{"method":"tools/call","params":{"name":7}}"#, &[6], ""),
        (r#"{"method":"tools/call"}"#, &[6], ""),
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
        (r#"{"params":{"uri":"file:///etc/shadow"},"method":"tools/call"}"#, &[6], ""),
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
        (r#"{"params":{"name":"delete_x"}}{"method":"tools/call"}"#.to_string(), &[6], String::new()),
        (r#"[{"params":{"name":"delete_x"}},{"method":"tools/call"}]"#.to_string(), &[6], String::new()),
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
        assert_eq!(after_scan(2, &text).0, [], "{length}");
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
