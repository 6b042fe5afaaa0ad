//! HTTP/2 that was joined in the middle, and gaps in it.

use super::*;

const S: &str = "mcp-session-id=s";

/// A connection on which the session was named before anyone listened.
fn before() -> (Encoder, Encoder) {
    let (mut c, mut s) = ends(Style { huffman: true, literal: false });
    c.post(1, S, PING);
    s.json(1, "", PONG);
    (c, s)
}

#[test]
fn http2_is_joined_in_the_middle() {
    let gaps = || vec![Step::Gap(1000, ASKED, 0), Step::Gap(1000, ANSWERED, 0)];
    let window = frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 9]);
    // How it begins.
    for (name, begin) in [
        ("behind gaps", gaps()),
        ("without a word", Vec::new()),
        ("with other frames", [gaps(), vec![ask(1000, &window), answer(1000, &window)]].concat()),
        ("in the middle of a frame", [gaps(), vec![ask(1000, "xyz"), answer(1000, "{\"a\":1}")]].concat()),
    ] {
        let (mut c, mut s) = before();
        let mut steps = begin;
        steps.push(ask(1000, c.post(3, S, PING)));
        steps.push(answer(1000, s.json(3, "", PONG)));
        steps.push(ask(1000, c.head(5, true, &format!("{GET} {S}"))));
        let event = format!("data: {NOTE}\n\n");
        steps.push(answer(1000, [s.head(5, false, EVENTS), data(5, event)].concat()));
        let (lines, counters) = run(LIMITS, &steps);
        // Neither path nor session are known.
        let expected = lines!["open 0 Http 1 -/"; "0 > {PING}"; "0 < {PONG}"; "0 < {NOTE}"];
        let lines: Vec<String> = lines.into_iter().filter(|line| !line.starts_with("gap")).collect();
        assert_eq!(lines, expected, "{name}");
        assert!(counters.head_fields_unknown >= 8 && counters.h2_connections == 1, "{name}: {counters:?}");
        assert_eq!(counters.uninspected_streams + counters.h2_faults, 0, "{name}");
    }
}

/// What is unknown belongs to the link that its client has with that server.
#[test]
fn unknown_heads_belong_to_the_only_link() {
    let (mut c, mut s) = before();
    let steps = [
        ask(1, post("/mcp", "Mcp-Session-Id: s\r\n", PING)),
        answer(1, json("", PONG)),
        Step::Gap(2, ASKED, 0),
        Step::Gap(2, ANSWERED, 0),
        ask(2, c.post(3, S, NOTE)),
        answer(2, s.json(3, "", PONG)),
        // In the middle of a body, of which the head was not seen; and of events.
        answer(2, [data(7, r#"1.0"}"#), last(7, "")].concat()),
        answer(2, last(9, PONG)),
        answer(2, data(11, format!(": x\n\ndata: {NOTE}\n\n"))),
    ];
    let expected = lines!["open 0 Http 1 a/mcp"; "0 > {PING}"; "0 < {PONG}"; "0 > {NOTE}"; "0 < {PONG}";
        "gap 0 < 5 Unseen"; "0 < {PONG}"; "0 < {NOTE}"];
    assert_eq!(run(LIMITS, &steps).0, expected);
}

#[test]
fn http2_gaps_lose_only_the_messages_they_touch() {
    type Case = fn(&mut Encoder, &mut Encoder) -> Vec<Step>;
    let cases: Vec<(&str, Case, Vec<String>)> = vec![
        (
            "within the body of a request",
            |c, s| {
                let asked = c.post(3, S, PING);
                let (a, b) = asked.split_at(asked.len() - 20);
                vec![
                    ask(1, a),
                    Step::Gap(1, ASKED, 15),
                    ask(1, &b[15..]),
                    answer(1, s.head(3, true, ":status=202")),
                ]
            },
            lines!["gap 0 > 35 RingFull"; "gap 0 > 5 RingFull"],
        ),
        (
            "to the end of an answer",
            |c, s| {
                let answered = s.json(3, "", PONG);
                let answered = answered[..answered.len() - 20].to_vec();
                vec![ask(1, c.post(3, S, PING)), answer(1, answered), Step::Gap(1, ANSWERED, 20)]
            },
            lines!["0 > {PING}"; "gap 0 < 36 RingFull"],
        ),
        (
            "in the padding",
            |c, s| {
                let body = frame(DATA, PADDED | END_STREAM, 3, &[&[9], PONG.as_bytes(), &[0; 9]].concat());
                let answered = [s.head(3, false, OK), body].concat();
                let answered = answered[..answered.len() - 5].to_vec();
                vec![ask(1, c.post(3, S, PING)), answer(1, answered), Step::Gap(1, ANSWERED, 5)]
            },
            lines!["0 > {PING}"; "gap 0 < 5 RingFull"; "0 < {PONG}"],
        ),
        (
            "over the border of frames: events of the same stream go on behind it",
            |c, s| {
                let event = data(3, format!("data: {NOTE}\n\n"));
                let first = [s.head(3, false, EVENTS), event.clone(), event.clone()].concat();
                let (a, _) = first.split_at(first.len() - 5);
                vec![
                    ask(1, c.post(3, S, PING)),
                    answer(1, a),
                    Step::Gap(1, ANSWERED, 5 + event.len() as u64),
                    answer(1, [event, last(3, format!("data: {PONG}\n\n"))].concat()),
                ]
            },
            {
                let held = format!("data: {NOTE}\n\n").len() as u64 - 5;
                let lost = held + 5 + 9 + 5 + held;
                lines!["0 > {PING}"; "0 < {NOTE}"; "gap 0 < {lost} RingFull"; "0 < {NOTE}"; "0 < {PONG}"]
            },
        ),
        (
            "a head: later ones that refer to it are unknown",
            |c, s| {
                let lost = c.head(3, false, &format!("{POST} mcp-session-id=s x=y")).len() as u64;
                vec![
                    Step::Gap(1, ASKED, lost),
                    ask(1, last(3, PING)),
                    answer(1, s.json(3, "", PONG)),
                    ask(1, c.post(5, "mcp-session-id=s x=y", NOTE)),
                ]
            },
            {
                let (mut c, _) = ends(Style::default());
                c.post(1, S, PING);
                let lost = c.head(3, false, &format!("{POST} mcp-session-id=s x=y")).len();
                lines!["gap 0 > {lost} RingFull"; "0 > {PING}"; "0 < {PONG}"; "0 > {NOTE}"]
            },
        ),
        (
            "a piece that begins with no frame is skipped",
            |c, s| {
                let asked = c.post(3, S, PING);
                vec![
                    Step::Gap(1, ASKED, 4),
                    ask(1, &asked[4..]),
                    ask(1, c.post(5, S, NOTE)),
                    answer(1, s.json(5, "", PONG)),
                ]
            },
            {
                let (mut c, _) = ends(Style::default());
                c.post(1, S, PING);
                let skipped = c.post(3, S, PING).len() - 4;
                lines!["gap 0 > 4 RingFull"; "gap 0 > {skipped} RingFull"; "0 > {NOTE}"; "0 < {PONG}"]
            },
        ),
    ];
    for (name, talk, expected) in cases {
        let (mut c, mut s) = ends(Style::default());
        let mut steps = begin();
        steps.extend([ask(1, c.post(1, S, PING)), answer(1, s.json(1, "", PONG))]);
        steps.extend(talk(&mut c, &mut s));
        // Afterwards all is read.
        steps.extend([ask(1, c.post(99, S, PING)), answer(1, s.json(99, "", PONG))]);
        let whole = || lines!["0 > {PING}"; "0 < {PONG}"];
        let expected = [lines!["open 0 Http 1 a/mcp"], whole(), expected, whole()].concat();
        let (lines, counters) = run(LIMITS, &steps);
        assert_eq!(lines, expected, "{name}");
        assert_eq!(counters.h2_faults, 0, "{name}");
    }
}
