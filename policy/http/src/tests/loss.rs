//! Bytes that are missing.

use super::*;

const S: &str = "Mcp-Session-Id: s\r\n";
const ASK: Direction = Direction::ClientToServer;
const ANSWER: Direction = Direction::ServerToClient;

#[test]
fn gap_loses_only_the_messages_it_touches() {
    let asked = post("/mcp", S, PING);
    let answered = json("", PONG);
    let opened = || lines!["open 0 Http 1 a/mcp"; "0 > {PING}"];
    let go = || lines!["0 > {PING}"; "0 < {PONG}"];
    let event = |data: &str| chunk(&format!("event: message\ndata: {data}\n\n"));
    // Afterwards there is one more request and its answer, which are to be read.
    let cases: Vec<(&str, Vec<Step>, Vec<String>)> = vec![
        (
            "within the body of a request",
            vec![
                ask(1, &asked),
                answer(1, &answered),
                ask(1, &asked[..asked.len() - 20]),
                Step::Gap(1, ASK, 15),
                ask(1, &asked[asked.len() - 5..]),
                answer(1, ACCEPTED),
            ],
            lines!["0 < {PONG}"; "gap 0 > 35 RingFull"; "gap 0 > 5 RingFull"],
        ),
        (
            "to the end of a body",
            vec![ask(1, &asked), answer(1, &answered[..answered.len() - 20]), Step::Gap(1, ANSWER, 20)],
            lines!["gap 0 < 36 RingFull"],
        ),
        (
            "over the end of a body: the next message is lost with it",
            vec![ask(1, &asked), answer(1, &answered[..answered.len() - 20]), Step::Gap(1, ANSWER, 40)],
            lines!["gap 0 < 56 RingFull"],
        ),
        (
            "a whole request",
            vec![ask(1, &asked), answer(1, &answered), Step::Gap(1, ASK, 200), answer(1, &answered)],
            lines!["0 < {PONG}"; "gap 0 > 200 RingFull"; "0 < {PONG}"],
        ),
        ("a whole answer", vec![ask(1, &asked), Step::Gap(1, ANSWER, 100)], lines!["gap 0 < 100 RingFull"]),
        (
            "within the head of a request",
            vec![
                ask(1, &asked),
                answer(1, &answered),
                ask(1, &asked[..30]),
                Step::Gap(1, ASK, 10),
                ask(1, &asked[40..]),
                answer(1, &answered),
            ],
            {
                let rest = asked.len() - 40;
                lines!["0 < {PONG}"; "gap 0 > 40 RingFull"; "0 < {PONG}"; "gap 0 > {rest} RingFull"]
            },
        ),
        (
            "a chunk of events: the next chunk is read",
            vec![
                ask(1, &asked),
                answer(1, events("") + &event(NOTE)),
                Step::Gap(1, ANSWER, 60),
                answer(1, event(PONG)),
                answer(1, "0\r\n\r\n"),
            ],
            lines!["0 < {NOTE}"; "gap 0 < 60 RingFull"; "0 < {PONG}"],
        ),
        (
            "within a chunk of two events: the second is read",
            vec![
                ask(1, &asked),
                answer(1, events("") + &chunk(&format!("data: {NOTE}\n\ndata: {PONG}\n\n"))[..20]),
                Step::Gap(1, ANSWER, 10),
                answer(1, chunk(&format!("data: {NOTE}\n\ndata: {PONG}\n\n")).get(30..).unwrap()),
                answer(1, "0\r\n\r\n"),
            ],
            lines!["gap 0 < 26 RingFull"; "gap 0 < 24 RingFull"; "0 < {PONG}"],
        ),
    ];
    for (name, mut steps, expected) in cases {
        steps.extend([ask(1, &asked), answer(1, &answered)]);
        let (lines, counters) = run(LIMITS, &steps);
        assert_eq!(lines, [opened(), expected, go()].concat(), "{name}");
        assert!(counters.gap_bytes > 0, "{name}");
    }
}

#[test]
fn pairing_recovers_after_a_gap() {
    let t = "Mcp-Session-Id: t\r\n";
    let (other, two) = (post("/b", t, PING), r#"{"jsonrpc":"2.0","id":2,"result":{}}"#);
    // Afterwards a request of another session and its answer are one pair.
    let cases: [(&str, Vec<Step>); 4] = [
        ("an answer is lost", vec![Step::Gap(1, ANSWER, 90)]),
        ("a request and its answer are lost", vec![Step::Gap(1, ASK, 90), Step::Gap(1, ANSWER, 90)]),
        (
            "an answer to what was lost comes before a request that was not",
            vec![Step::Gap(1, ASK, 90), answer(1, json("", PONG)), ask(1, post("/mcp", S, PING))],
        ),
        (
            "an answer of unknown size is lost in a body",
            vec![answer(1, &json("", PONG)[..90]), Step::Gap(1, ANSWER, 0)],
        ),
    ];
    for (name, lost) in cases {
        let steps =
            [vec![ask(1, post("/mcp", S, PING))], lost, vec![ask(1, &other), answer(1, json("", two))]];
        let (lines, _) = run(LIMITS, &steps.concat());
        assert_eq!(lines[lines.len() - 2..], lines!["1 > {PING}"; "1 < {two}"], "{name}: {lines:?}");
    }
}

#[test]
fn unreadable_data_after_gap_is_reported_at_stream_end() {
    let steps =
        [ask(1, post("/mcp", S, PING)), Step::Gap(1, ANSWER, 10), answer(1, "in the middle"), Step::Close(1)];
    let (lines, counters) = run(LIMITS, &steps);
    assert_eq!(lines[2..], lines!["gap 0 < 10 RingFull"; "gap 0 < 13 RingFull"]);
    assert_eq!(counters.unsynchronised_bytes, 13);
}

#[test]
fn preexisting_stream_is_read_from_its_next_message() {
    let steps = [
        // A request and its answer were on their way.
        Step::Gap(1, ASK, 0),
        Step::Gap(1, ANSWER, 0),
        answer(1, "rest of a body"),
        ask(1, post("/mcp", S, PING)),
        answer(1, json("", PONG)),
        // In the middle of the events of a GET.
        Step::Gap(2, ASK, 0),
        Step::Gap(2, ANSWER, 0),
        answer(2, chunk(&format!("event: message\ndata: {NOTE}\n\n"))),
    ];
    let (lines, counters) = run(LIMITS, &steps);
    assert_eq!(
        lines,
        lines!["open 0 Http 1 a/mcp"; "0 > {PING}"; "gap 0 < 14 RingFull"; "0 < {PONG}"; "0 < {NOTE}"]
    );
    assert_eq!(counters.unsynchronised_bytes, 14);
}

#[test]
fn held_bytes_are_bounded_across_streams() {
    let limits = HttpLimits { held_bytes: 5000, ..LIMITS };
    let body = format!("{}{}", PING, " ".repeat(3000));
    let asked = post("/mcp", S, &body);
    let steps = [
        ask(1, &asked[..2000]),
        ask(2, &asked[..2000]),
        ask(3, &asked[..2000]),
        ask(1, &asked[2000..]),
        ask(2, &asked[2000..]),
        ask(3, &asked[2000..]),
        // Answers that wait for a request.
        answer(4, vec![b'x'; 3000]),
        answer(4, vec![b'x'; 3000]),
        ask(1, post("/mcp", S, PING)),
    ];
    let (lines, counters) = run(limits, &steps);
    assert_eq!(counters.memory_given_up, 2);
    assert_eq!(lines.iter().filter(|line| line.starts_with("0 >")).count(), 3, "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("gap 0 >") && line.ends_with("Memory")), "{lines:?}");
}

/// What happens, the bytes that passed to and from a server, and how many of them nobody read.
#[test]
fn uninspected_bytes_are_counted() {
    let asked = post("/mcp", S, PING);
    let answered = json("", PONG);
    let zstd = json("Content-Encoding: zstd\r\n", "12345");
    let page = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let (ask_bytes, answer_bytes) = (asked.len() as u64, answered.len() as u64);
    let cases: Vec<(&str, Vec<Step>, [u64; 2])> = vec![
        ("nothing", vec![], [0, 0]),
        ("a call and its answer", vec![ask(1, &asked), answer(1, &answered)], [ask_bytes + answer_bytes, 0]),
        ("nobody's", vec![ask(1, page), answer(1, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")], [0, 0]),
        (
            "what came before it was known",
            vec![ask(1, page), answer(1, ACCEPTED), ask(1, &asked)],
            [page.len() as u64 + ACCEPTED.len() as u64 + ask_bytes, 0],
        ),
        (
            "a coding that is not read",
            vec![ask(1, &asked), answer(1, &zstd)],
            [ask_bytes + zstd.len() as u64, 5],
        ),
        (
            "a gap, and what cannot be read behind it",
            vec![ask(1, &asked), Step::Gap(1, ANSWER, 100), answer(1, "rest of it"), Step::Close(1)],
            [ask_bytes + 110, 110],
        ),
        (
            "something else from here on",
            vec![
                ask(1, &asked),
                answer(1, "HTTP/1.1 101 S\r\nUpgrade: websocket\r\n\r\nframes"),
                ask(1, "more"),
            ],
            [ask_bytes + 44 + 4, 6 + 4],
        ),
    ];
    for (name, steps, expected) in cases {
        let counters = run(LIMITS, &steps).1;
        assert_eq!([counters.server_bytes, counters.server_bytes_unread], expected, "{name}");
    }
}
