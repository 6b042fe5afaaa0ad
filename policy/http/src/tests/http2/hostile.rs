//! What no reader accepts, and what wants to be expensive.

use super::*;

const S: &str = "mcp-session-id=s";

/// What ends a connection: nothing of it is read from there on, and that is said once.
#[test]
fn invalid_http2_is_reported_with_its_reason() {
    let cases: Vec<(&str, Vec<u8>, Http2Error)> = vec![
        ("data of the connection", data(0, "x"), Http2Error::Stream),
        ("settings of a stream", frame(SETTINGS, 0, 1, &[]), Http2Error::Stream),
        ("settings of a wrong length", frame(SETTINGS, 0, 0, &[0; 5]), Http2Error::Length),
        ("an acknowledgement of something", frame(SETTINGS, 1, 0, &[0; 6]), Http2Error::Length),
        ("a reset of a wrong length", frame(RST_STREAM, 0, 1, &[0; 3]), Http2Error::Length),
        ("a ping of a wrong length", frame(PING_FRAME, 0, 0, &[0; 7]), Http2Error::Length),
        ("a head without its priority", frame(HEADERS, WITH_PRIORITY, 3, &[0; 4]), Http2Error::Length),
        ("padding that is longer than the body", frame(DATA, PADDED, 1, &[2, 0]), Http2Error::Padding),
        ("padding that is longer than the head", frame(HEADERS, PADDED, 3, &[9, 0x82]), Http2Error::Padding),
        ("padding without its length", frame(DATA, PADDED, 1, &[]), Http2Error::Length),
        ("a rest without its head", frame(CONTINUATION, END_HEADERS, 3, &[]), Http2Error::Order),
        (
            "something within a head",
            [frame(HEADERS, 0, 3, &[0x82]), frame(PING_FRAME, 0, 0, &[0; 8])].concat(),
            Http2Error::Order,
        ),
        (
            "the rest of another head",
            [frame(HEADERS, 0, 3, &[0x82]), frame(CONTINUATION, END_HEADERS, 5, &[])].concat(),
            Http2Error::Order,
        ),
        ("a head that ends within a field", frame(HEADERS, END_HEADERS, 3, &[0x41]), Http2Error::Truncated),
        ("a head of index 0", frame(HEADERS, END_HEADERS, 3, &[0x80]), Http2Error::Index),
    ];
    for (name, bytes, error) in cases {
        for direction in [ASKED, ANSWERED] {
            let (mut c, mut s) = ends(Style::default());
            let mut steps = begin();
            steps.extend([ask(1, c.post(1, S, PING)), answer(1, s.json(1, "", PONG))]);
            steps.push(if direction == ASKED { ask(1, &bytes) } else { answer(1, &bytes) });
            steps.extend([ask(1, c.post(5, S, PING)), answer(1, s.json(5, "", PONG))]);
            let expected = lines!["open 0 Http 1 a/mcp"; "0 > {PING}"; "0 < {PONG}"; "uninspected 1 Some(0) Http2({error:?})"];
            check(name, &steps, &expected);
            let (_, counters) = run(LIMITS, &steps);
            assert_eq!((counters.uninspected_streams, counters.h2_faults), (1, 1), "{name}");
            assert!(counters.uninspected_bytes > 100, "{name}");
        }
    }
    // A server that does not speak it.
    let (mut c, _) = ends(Style::default());
    let steps = [
        ask(1000, [PREFACE.as_bytes(), &settings(), &c.post(1, S, PING)].concat()),
        answer(1000, "HTTP/1.1 400 Bad Request\r\n\r\n"),
    ];
    let why = Uninspected::Http2(Http2Error::Preface);
    let expected = lines!["open 0 Http 1 a/mcp"; "0 > {PING}"; "uninspected 1000 Some(0) {why:?}"];
    check("HTTP/1.1", &steps, &expected);
}

/// Pushes this so many times, and says how much was held at most.
fn flood(http: &mut Http, direction: Direction, bytes: &[u8], times: usize) -> usize {
    let many = bytes.repeat(100);
    let mut most = 0;
    for _ in 0..times / 100 {
        http.push(ConnectionId(1), direction, &many, Timestamp(1), &mut |output| {
            assert!(
                !matches!(output, HttpOutput::Uninspected { .. } | HttpOutput::NotMcp { .. }),
                "{output:?}"
            );
        });
        most = most.max(http.held);
    }
    most
}

#[test]
fn endless_http2_holds_bounded_memory() {
    let (mut c, mut s) = ends(Style::default());
    let mut http = Http::new(HttpLimits::default());
    http.open(ConnectionId(1), peers(1000), Timestamp(1));
    let asked =
        [PREFACE.as_bytes(), &settings(), &c.post(1, S, PING), &c.head(3, false, &format!("{POST} {S}"))];
    http.push(ConnectionId(1), ASKED, &asked.concat(), Timestamp(1), &mut |_| {});
    let answered = [settings(), s.head(1, false, EVENTS)].concat();
    http.push(ConnectionId(1), ANSWERED, &answered, Timestamp(1), &mut |_| {});
    for (name, direction, bytes) in [
        ("empty data", ASKED, data(3, "")),
        ("blanks", ASKED, data(3, " ")),
        ("padding", ASKED, frame(DATA, PADDED, 3, &[3, 0, 0, 0])),
        ("settings", ASKED, settings()),
        ("pings", ANSWERED, frame(PING_FRAME, 0, 0, &[0; 8])),
        ("empty events", ANSWERED, data(1, "\n\n")),
        ("comments", ANSWERED, data(1, ": x\n")),
        ("resets of nothing", ANSWERED, frame(RST_STREAM, 0, 77, &[0; 4])),
        ("other answers", ANSWERED, frame(HEADERS, END_HEADERS, 1, &[0x08, 3, b'1', b'0', b'3'])),
        ("promises", ANSWERED, frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2, 0x82, 0x84])),
        ("unknown frames", ANSWERED, frame(0x40, 0, 9, &[0; 50])),
    ] {
        let most = flood(&mut http, direction, &bytes, 100_000);
        assert!(most < 40_000, "{name}: {most}");
    }
    // The rest of a head that has no end.
    http.push(ConnectionId(1), ASKED, &frame(HEADERS, 0, 5, &[0x82]), Timestamp(1), &mut |_| {});
    for rest in [vec![], vec![0x84; 1000]] {
        let most = flood(&mut http, ASKED, &frame(CONTINUATION, 0, 5, &rest), 10_000);
        assert!(most < 110_000, "{most}");
    }
    http.push(ConnectionId(1), ASKED, &frame(CONTINUATION, END_HEADERS, 5, &[]), Timestamp(1), &mut |_| {});
    assert_eq!((http.counters().heads_cut, http.counters().h2_faults), (1, 0));
    // What was opened before goes on.
    let mut lines = Vec::new();
    http.push(ConnectionId(1), ASKED, &last(3, NOTE), Timestamp(1), &mut |output| lines.extend(line(output)));
    http.push(
        ConnectionId(1),
        ANSWERED,
        &data(1, format!("data: {PONG}\n\n")),
        Timestamp(1),
        &mut |output| {
            lines.extend(line(output));
        },
    );
    assert_eq!(lines, lines!["0 > {NOTE}"; "0 < {PONG}"]);
}

/// A frame of 16 MiB passes: where nobody wants it without a byte being held, and where it is a message as that.
#[test]
fn longest_frames_pass() {
    let mut http = Http::new(HttpLimits { frame_bytes: 1 << 20, ..HttpLimits::default() });
    let (mut c, _) = ends(Style::default());
    http.open(ConnectionId(1), peers(1000), Timestamp(1));
    let asked = [PREFACE.as_bytes(), &settings(), &c.head(1, false, &format!("{POST} {S}"))].concat();
    http.push(ConnectionId(1), ASKED, &asked, Timestamp(1), &mut |_| {});
    for (kind, stream, most) in [(0x77, 0, 8192), (DATA, 1, (1 << 20) + 8192)] {
        let head = [0xFF, 0xFF, 0xFF, kind, 0, 0, 0, 0, stream];
        http.push(ConnectionId(1), ASKED, &head, Timestamp(1), &mut |_| {});
        let mut left = (1 << 24) - 1;
        while left > 0 {
            let piece = vec![b'['; left.min(100_000)];
            http.push(ConnectionId(1), ASKED, &piece, Timestamp(1), &mut |_| {});
            assert!(http.held < most, "{}", http.held);
            left -= piece.len();
        }
    }
    let mut gaps = Vec::new();
    http.push(
        ConnectionId(1),
        ASKED,
        &[last(1, ""), c.post(3, S, PING)].concat(),
        Timestamp(1),
        &mut |output| {
            gaps.extend(line(output));
        },
    );
    // The link began with the message that could be read.
    assert_eq!(gaps, lines!["open 0 Http 1 a/mcp"; "0 > {PING}"]);
    assert_eq!(http.counters().frames_too_long, 1);
}

/// Of ten thousand requests without an answer the latest 256 are kept; what comes of the others is read all the same.
#[test]
fn ten_thousand_http2_streams_stay_bounded() {
    let (mut c, mut s) = ends(Style::default());
    let mut steps = begin();
    steps.push(ask(1, c.post(1, S, PING)));
    steps.push(ask(1, c.head(3, false, &format!("{POST} {S}"))));
    steps.push(ask(
        1,
        (2..10_002u32).flat_map(|at| c.head(at * 2 + 1, true, &format!("{GET} {S}"))).collect::<Vec<u8>>(),
    ));
    steps.push(ask(1, last(3, NOTE)));
    steps.push(answer(1, s.json(1, "", PONG)));
    let limits = HttpLimits { held_bytes: 1 << 20, ..LIMITS };
    let (lines, counters) = run(limits, &steps);
    let expected = lines!["open 0 Http 1 a/mcp"; "0 > {PING}"; "uninspected 1 Some(0) Pipelined"; "0 > {NOTE}";
        "0 < {PONG}"];
    assert_eq!(lines, expected);
    // Two of those that were forgotten went on.
    assert_eq!((counters.h2_streams_dropped, counters.memory_given_up), (10_002 + 2 - 256, 0));
}

/// What waits for memory is given up, and what comes later is read.
#[test]
fn http2_gives_up_what_it_holds() {
    let (mut c, mut s) = ends(Style::default());
    let mut steps = begin();
    steps.extend([ask(1, c.post(1, S, PING)), answer(1, s.json(1, "", PONG))]);
    steps.push(ask(1, c.head(3, false, &format!("{POST} {S}"))));
    steps.push(ask(1, data(3, format!("[{}", " ".repeat(3000)))));
    steps.extend([ask(1, c.post(5, S, NOTE)), answer(1, s.json(5, "", PONG))]);
    let (lines, counters) = run(HttpLimits { held_bytes: 4000, ..LIMITS }, &steps);
    let whole = lines!["open 0 Http 1 a/mcp"; "0 > {PING}"; "0 < {PONG}"];
    assert_eq!(lines, [whole, lines!["gap 0 > 3001 Memory"; "0 > {NOTE}"; "0 < {PONG}"]].concat());
    assert_eq!(counters.memory_given_up, 1);
}
