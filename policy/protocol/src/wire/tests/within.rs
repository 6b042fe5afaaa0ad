//! Messages that only some readers find in a frame.

use super::*;

#[test]
fn messages_within_a_frame_are_found() {
    let m = r#"{"id":1,"result":{}}"#;
    let n = r#"{"id":2,"result":{}}"#;
    // Name, the frame, whether it is JSON, what is found in it.
    type Case<'a> = (&'a str, String, bool, Vec<(&'a str, Framing)>);
    let cases: Vec<Case<'_>> = vec![
        ("one message", m.into(), true, vec![]),
        ("between CRs in a string", format!("{{\"a\":\"\r{m}\r\"}}"), true, vec![(m, Framing::LineEnd)]),
        ("behind U+2028", format!("{{\"a\":\u{2028}{m}\u{2028}}}"), true, vec![(m, Framing::LineEnd)]),
        ("no message", "{\"a\":\r{\"b\":1}\r}".into(), true, vec![]),
        ("two joined", format!("{m}{n}"), false, vec![(m, Framing::Joined), (n, Framing::Joined)]),
        ("text behind", format!("{m} done"), false, vec![(m, Framing::TextBehind)]),
        ("text and CR before", format!("log\r{m}"), false, vec![(m, Framing::LineEnd)]),
        ("log text", "[INFO] up".into(), false, vec![]),
        ("no JSON", "{\"id\":1,}x".into(), false, vec![]),
        ("in colour", format!("[0m{m}\u{1b}[0m"), false, vec![(m, Framing::TextBefore)]),
        (
            "in two colours",
            format!("[2m12:00\u{1b}[0m \u{1b}[32mINFO {m}"),
            false,
            vec![(m, Framing::TextBefore)],
        ),
        (
            "colour between",
            format!("[1m{m}\u{1b}[0m{n}"),
            false,
            vec![(m, Framing::TextBefore), (n, Framing::TextBefore)],
        ),
        ("behind a brace", format!("{{starting {m}"), false, vec![(m, Framing::TextBefore)]),
        ("behind a quote", format!("[it's up {m}"), false, vec![(m, Framing::TextBefore)]),
        ("behind four braces", format!("{{{{{{{{{m}"), false, vec![(m, Framing::TextBefore)]),
        ("behind five", format!("{{{{{{{{{{{m}"), false, vec![]),
        ("behind an object", format!("[{{\"a\":1}}{m}"), false, vec![(m, Framing::TextBefore)]),
        ("no message in colour", "[0m{\"a\":1}".into(), false, vec![]),
    ];
    for (name, frame, is_json, expected) in cases {
        let mut found = Vec::new();
        messages_within(frame.as_bytes(), is_json, &mut |bytes, framing| {
            found.push((String::from_utf8(bytes.to_vec()).unwrap(), framing));
        });
        let found: Vec<_> = found.iter().map(|(text, framing)| (text.as_str(), *framing)).collect();
        assert_eq!(found, expected, "{name}");
    }
}

/// As many as fit are found once each, and looking for them takes no longer for each the more there are.
#[test]
fn messages_within_a_broken_frame_are_found_in_any_number() {
    const COUNT: usize = 50_000;
    let lines: String = (0..COUNT).map(|id| format!("{{\"id\":{id},\"result\":{{}}}}\r")).collect();
    for (name, frame) in [("behind a brace", format!("{{x\r{lines}")), ("joined", lines)] {
        let mut found = 0;
        messages_within(frame.as_bytes(), false, &mut |_, _| found += 1);
        assert_eq!(found, COUNT, "{name}");
    }
}
