//! What clients and servers write.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

const S: &str = "mcp-session-id=s";

/// A case that goes on with one request and its answer.
type Talk = fn(&mut Encoder, &mut Encoder) -> (Vec<Vec<u8>>, Vec<Vec<u8>>);

fn opened(rest: Vec<String>) -> Vec<String> {
    lines!["open 0 Http 1 a/mcp"; "0 > {PING}"].into_iter().chain(rest).collect()
}

#[test]
fn http2_gives_the_messages_that_http1_gives() {
    let cases: Vec<(&str, Talk, Vec<String>)> = vec![
        ("JSON", |c, s| (vec![c.post(1, S, PING)], vec![s.json(1, "", PONG)]), opened(lines!["0 < {PONG}"])),
        (
            "bodies in pieces, with empty ones",
            |c, s| {
                let body = |stream| {
                    move |head: Vec<u8>, body: &str| {
                        let (a, b) = body.split_at(7);
                        [head, data(stream, a), data(stream, ""), data(stream, b), last(stream, "")].concat()
                    }
                };
                let asked = body(1)(c.head(1, false, &format!("{POST} {S}")), PING);
                (vec![asked], vec![body(1)(s.head(1, false, OK), PONG)])
            },
            opened(lines!["0 < {PONG}"]),
        ),
        (
            "padding, priorities and frames that say nothing here",
            |c, s| {
                let others = [
                    frame(SETTINGS, 1, 0, &[]),
                    frame(SETTINGS, 0, 0, &[0, 1, 0, 1, 0, 0]),
                    frame(PING_FRAME, 0, 0, &[0; 8]),
                    frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
                    frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]),
                    frame(PRIORITY, 0, 3, &[0; 5]),
                    frame(0xBE, 0xFF, 7, b"grease"),
                    frame(0xC, 0, 0, b"origin"),
                ]
                .concat();
                let padded = |payload: &[u8]| [&[5], payload, &[0; 5]].concat();
                let block = c.block(&format!("{POST} {S}"));
                let flags = END_HEADERS | PADDED | WITH_PRIORITY;
                let head = frame(HEADERS, flags, 1, &padded(&[&[0, 0, 0, 0, 16], block.as_slice()].concat()));
                let body = frame(DATA, PADDED, 1, &padded(PING.as_bytes()));
                let end = frame(DATA, PADDED | END_STREAM, 1, &padded(b""));
                let asked = [others.clone(), head, others.clone(), body, others.clone(), end].concat();
                (vec![asked], vec![[others.clone(), s.json(1, "", PONG), others].concat()])
            },
            opened(lines!["0 < {PONG}"]),
        ),
        (
            "heads in pieces",
            |c, s| {
                let pieces = |first: Vec<u8>, stream, block: Vec<u8>| {
                    let (a, b) = block.split_at(block.len() / 2);
                    let more = [frame(CONTINUATION, 0, stream, a), frame(CONTINUATION, 0, stream, &[])];
                    [first, more.concat(), frame(CONTINUATION, END_HEADERS, stream, b)].concat()
                };
                let head = |stream, block| pieces(frame(HEADERS, 0, stream, &[]), stream, block);
                let asked = [head(1, c.block(&format!("{POST} {S}"))), last(1, PING)].concat();
                (vec![asked], vec![[head(1, s.block(OK)), last(1, PONG)].concat()])
            },
            opened(lines!["0 < {PONG}"]),
        ),
        (
            "events, cut anywhere",
            |c, s| {
                let text = format!("event: message\r\ndata: {NOTE}\r\n\r\ndata: {PONG}\n\n");
                let frames = text.as_bytes().chunks(11).map(|piece| data(1, piece));
                let answered = [s.head(1, false, EVENTS), frames.collect::<Vec<_>>().concat(), last(1, "")];
                (vec![c.post(1, S, PING)], vec![answered.concat()])
            },
            opened(lines!["0 < {NOTE}"; "0 < {PONG}"]),
        ),
        (
            "streams in each other, answered the other way round",
            |c, s| {
                let heads =
                    [c.head(1, false, &format!("{POST} {S}")), c.head(3, false, &format!("{POST} {S}"))];
                let (a, b) = PING.split_at(9);
                let two = PING.replace(":1,", ":2,");
                let (d, e) = two.split_at(12);
                let asked = [heads.concat(), data(1, a), data(3, d), last(1, b), last(3, e)].concat();
                let heads = [s.head(3, false, OK), s.head(1, false, OK)].concat();
                let answered =
                    [heads, data(3, "{"), last(1, PONG), last(3, &PONG.replace(":1,", ":2,")[1..])];
                (vec![asked], vec![answered.concat()])
            },
            opened(
                lines!["0 > {}", PING.replace(":1,", ":2,"); "0 < {PONG}"; "0 < {}", PONG.replace(":1,", ":2,")],
            ),
        ),
        (
            "trailers, and other answers before it",
            |c, s| {
                let asked = [c.head(1, false, &format!("{POST} {S}")), data(1, PING), c.head(1, true, "x=y")];
                let answered = [
                    s.head(1, false, ":status=100"),
                    s.head(1, false, ":status=103 link=x"),
                    s.head(1, false, OK),
                    data(1, PONG),
                    s.head(1, true, "grpc-status=0 :status=500"),
                ];
                (vec![asked.concat()], vec![answered.concat()])
            },
            opened(lines!["0 < {PONG}"]),
        ),
        (
            "a promise, on which later heads build",
            |c, s| {
                let block = s.block(":method=GET :path=/style x-long=abcdef");
                let promise =
                    frame(PUSH_PROMISE, END_HEADERS, 1, &[&2u32.to_be_bytes(), block.as_slice()].concat());
                let pushed = s.json(2, "x-long=abcdef", r#"{"jsonrpc":"2.0","method":"pushed"}"#);
                let answered = [promise, pushed, s.json(1, "x-long=abcdef mcp-session-id=t", PONG)].concat();
                (vec![c.post(1, "", INITIALIZE), c.post(3, "mcp-session-id=t", PING)], vec![answered])
            },
            lines!["open 0 Http 1 a/mcp"; "0 > {INITIALIZE}"; "0 < {PONG}"; "0 > {PING}"],
        ),
        (
            "a table that grows and shrinks",
            |c, s| {
                let fields = format!("{POST} {S}");
                let mut asked = vec![c.post(1, S, PING)];
                for (stream, max) in [(3, 0), (5, 8192), (7, 100)] {
                    let block = [c.resize(max), c.block(&fields), c.block("a=b c=d")].concat();
                    asked.push(frame(HEADERS, END_HEADERS, stream, &block));
                    asked.push(last(stream, PING));
                }
                (vec![asked.concat()], vec![s.json(7, "", PONG)])
            },
            opened(lines!["0 > {PING}"; "0 > {PING}"; "0 > {PING}"; "0 < {PONG}"]),
        ),
        (
            "a stream of events that its client leaves, and others that go on",
            |c, s| {
                let asked = [c.post(1, S, PING), c.head(3, true, &format!("{GET} {S}"))].concat();
                let note = format!("data: {NOTE}\n\n");
                let first = [s.head(3, false, EVENTS), data(3, &note), data(3, "data: {")].concat();
                let reset = frame(RST_STREAM, 0, 3, &[0, 0, 0, 8]);
                let rest = [data(3, &note), s.json(1, "", PONG), frame(GOAWAY, 0, 0, &[0; 8])].concat();
                let ask_again = [reset, frame(GOAWAY, 0, 0, &[0; 12])].concat();
                (vec![asked, ask_again], vec![first, rest])
            },
            opened(lines!["0 < {NOTE}"; "0 < {PONG}"]),
        ),
        (
            "a refusal, an acknowledgement and a deletion",
            |c, s| {
                let delete = format!(":method=DELETE :scheme=http :authority=a :path=/mcp {S}");
                let asked = [c.post(1, S, PING), c.post(3, S, NOTE), c.head(5, true, &delete)].concat();
                let answered = [
                    s.head(1, true, ":status=401"),
                    s.head(3, true, ":status=202"),
                    s.head(5, true, ":status=204"),
                ];
                (vec![asked], vec![answered.concat()])
            },
            opened(lines!["0 > {NOTE}"; "refused 0 401 1"; "close 0"]),
        ),
        (
            "what can be read in two ways is reported, and the next message is read",
            |c, s| {
                let mut asked = c.post(1, S, PING);
                asked.extend(c.post(3, &format!("{S} mcp-session-id=t"), PING));
                asked.extend(c.post(5, &format!("{S} host=b"), PING));
                asked.extend(c.post(7, S, NOTE));
                let answered = [s.json(1, "", PONG), s.json(3, "", PONG), s.json(5, "", PONG)].concat();
                (vec![asked], vec![answered])
            },
            opened(
                lines!["uninspected 1 Some(0) Ambiguous"; "uninspected 1 Some(0) Ambiguous"; "0 > {NOTE}";
                "0 < {PONG}"],
            ),
        ),
        (
            "tunnels",
            |c, s| {
                let mut asked = c.post(1, S, PING);
                asked.extend(c.head(3, false, ":method=CONNECT :authority=b:443"));
                asked.extend(c.head(5, false, ":method=CONNECT :protocol=websocket :authority=a :path=/ws"));
                asked.extend([data(3, "x"), data(5, "x")].concat());
                let answered =
                    [s.json(1, "", PONG), s.head(3, false, OK), data(3, PONG), s.head(5, false, OK)];
                (vec![asked], vec![answered.concat()])
            },
            opened(lines!["0 < {PONG}"; "uninspected 1 Some(0) Tunnel"; "uninspected 1 Some(0) WebSocket"]),
        ),
        (
            "a body without a head, which no client takes",
            |c, s| (vec![c.post(1, S, PING)], vec![[data(1, PONG), s.json(1, "", PONG)].concat()]),
            opened(lines!["0 < {PONG}"]),
        ),
        (
            "gzip",
            |c, s| {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
                encoder.write_all(PONG.as_bytes()).unwrap();
                let body = encoder.finish().unwrap();
                let answered = [s.head(1, false, &format!("{OK} content-encoding=gzip")), last(1, body)];
                (vec![c.post(1, S, PING)], vec![answered.concat()])
            },
            opened(lines!["0 < {PONG}"]),
        ),
    ];
    for style in [(false, false), (true, false), (false, true), (true, true)] {
        let style = Style { huffman: style.0, literal: style.1 };
        for (name, talk, expected) in &cases {
            let (mut client, mut server) = ends(style);
            let (asked, answered) = talk(&mut client, &mut server);
            let mut steps = begin();
            let rounds = asked.len().max(answered.len());
            for round in 0..rounds {
                steps.extend(asked.get(round).map(|bytes| ask(1, bytes)));
                steps.extend(answered.get(round).map(|bytes| answer(1, bytes)));
            }
            check(&format!("{name}, {style:?}"), &steps, expected);
        }
    }
}

/// The hooks may report what a client read before what it wrote.
#[test]
fn http2_answers_wait_for_their_requests() {
    let (mut c, mut s) = ends(Style::default());
    let (one, two) = (c.post(1, S, PING), c.post(3, S, NOTE));
    let answered = [settings(), s.json(1, "", PONG), s.head(3, true, ":status=202")].concat();
    let steps = [answer(1, answered), ask(1, [PREFACE.as_bytes(), &settings(), &one, &two].concat())];
    check("all of it first", &steps, &opened(lines!["0 < {PONG}"; "0 > {NOTE}"]));
}

/// A request that the server did not look at is sent again, on the same connection or another, and is one request.
#[test]
fn refused_http2_request_is_reported_once() {
    let refused = frame(RST_STREAM, 0, 3, &[0, 0, 0, 7]);
    let reset = frame(RST_STREAM, 0, 3, &[0, 0, 0, 2]);
    let gone = frame(GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0, b'x']);
    let gone_later = frame(GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0]);
    for (name, end, times) in
        [("refused", refused, 1), ("reset", reset, 2), ("gone", gone, 1), ("gone later", gone_later, 2)]
    {
        let (mut c, mut s) = ends(Style::default());
        let mut steps = begin();
        steps.extend([
            ask(1, c.post(1, S, PING)),
            answer(1, s.json(1, "", PONG)),
            ask(1, c.post(3, S, NOTE)),
        ]);
        steps.push(answer(1, end));
        let (mut c, mut s) = ends(Style::default());
        let (one, two) = begin().into_iter().fold((Vec::new(), Vec::new()), |(one, two), step| match step {
            Step::Ask(_, bytes) => (bytes, two),
            Step::Answer(_, bytes) => (one, bytes),
            _ => (one, two),
        });
        steps.push(ask(2, [one, c.post(1, S, NOTE)].concat()));
        steps.push(answer(2, [two, s.json(1, "", PONG)].concat()));
        let expected =
            opened([lines!["0 < {PONG}"], vec![format!("0 > {NOTE}"); times], lines!["0 < {PONG}"]].concat());
        check(name, &steps, &expected);
    }
}

#[test]
fn upgraded_connection_goes_on_with_http2() {
    let upgrade = "Mcp-Session-Id: s\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n";
    let (mut c, mut s) = ends(Style::default());
    let first = [settings(), s.json(1, "", PONG)].concat();
    let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";
    let second = [PREFACE.as_bytes(), &settings(), &c.post(3, S, NOTE)].concat();
    let steps = [
        ask(1, post("/mcp", upgrade, PING)),
        answer(1, [switch.as_bytes(), &first].concat()),
        ask(1, second),
        answer(1, s.json(3, "", PONG)),
    ];
    check("h2c", &steps, &opened(lines!["0 < {PONG}"; "0 > {NOTE}"; "0 < {PONG}"]));
    let (mut lines, _) = run(LIMITS, &steps[..2]);
    assert_eq!(lines.pop().as_deref(), Some(format!("0 < {PONG}").as_str()));
}

#[test]
fn http2_without_mcp_is_dropped() {
    let (mut c, mut s) = ends(Style::default());
    let other = ":method=GET :scheme=http :authority=a :path=/x";
    let mut steps = begin();
    for stream in (1..17).step_by(2) {
        steps.push(ask(1, c.head(stream, true, other)));
        steps.push(answer(1, s.json(stream, "", "{}")));
    }
    let (lines, counters) = run(LIMITS, &steps);
    assert_eq!((lines, counters.not_mcp), (lines!["not mcp 1"], 1));
}

/// Secrets of heads, and those that tables keep, are in no output and in nothing that is kept.
#[test]
fn http2_heads_are_not_shown() {
    let (mut c, mut s) = ends(Style::default());
    let secret = "hunter2";
    let fields = format!(
        "mcp-session-id={secret} authorization={secret} cookie={secret} x-api-key={secret} mcp-param-token={secret}"
    );
    let mut http = Http::new(LIMITS);
    let (stream, mut outputs) = (ConnectionId(1), String::new());
    http.open(stream, peers(1000), Timestamp(1));
    let asked =
        [PREFACE.as_bytes(), &settings(), &c.post(1, &fields, PING), &c.head(3, false, POST)].concat();
    let answered =
        [settings(), s.json(1, &format!("set-cookie={secret} mcp-session-id={secret}"), PONG)].concat();
    for (direction, bytes) in [(ASKED, asked), (ANSWERED, answered)] {
        http.push(stream, direction, &bytes, Timestamp(1), &mut |output| outputs += &format!("{output:?}\n"));
    }
    assert!(outputs.matches("Frame").count() == 2 && !outputs.contains(secret), "{outputs}");
    assert!(!format!("{http:?}").contains(secret), "{http:?}");
}

/// What clients and a server of Node 20 wrote: Node 20, httpx (hyper-h2), and curl 7.88 (nghttp2 1.52).
#[test]
fn recorded_http2_is_read_wherever_it_is_cut() {
    let hello = |id: u32| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{{"protocolVersion":"2025-11-25","clientInfo":{{"name":"c","version":"1"}},"capabilities":{{}}}}}}"#
        )
    };
    let helloed = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"n","version":"1"}}}"#;
    let opened =
        |port: u32| lines!["0 < {helloed}"; "0 > {}", hello(0); "open 0 Http 1 127.0.0.1:{port}/mcp"];
    let talk = lines![
        r#"0 < {{"jsonrpc":"2.0","id":1,"result":{{"tools":[{{"name":"echo","inputSchema":{{"type":"object"}}}}]}}}}"#;
        r#"0 < {{"jsonrpc":"2.0","id":2,"result":{{"content":[{{"type":"text","text":"ok"}}]}}}}"#;
        r#"0 < {{"jsonrpc":"2.0","method":"notifications/x"}}"#;
        r#"0 > {{"jsonrpc":"2.0","id":1,"method":"tools/list"}}"#;
        r#"0 > {{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"echo","arguments":{{}}}}}}"#;
        r#"0 > {{"jsonrpc":"2.0","method":"notifications/initialized"}}"#];
    let all = [opened(7802), talk].concat();
    let recordings = [
        (&include_bytes!("../../../../../fuzz/seeds/http2/node")[..], all.clone()),
        (include_bytes!("../../../../../fuzz/seeds/http2/httpx"), all),
        (include_bytes!("../../../../../fuzz/seeds/http2/curl"), opened(7802)),
    ];
    for (recording, mut expected) in recordings {
        expected.sort();
        for size in (1..40).chain([usize::MAX]) {
            let (mut steps, mut rest) = (Vec::new(), &recording[1..]);
            while let Some((&[who, high, low], after)) = rest.split_first_chunk() {
                let (bytes, after) = after.split_at(usize::from(u16::from_be_bytes([high, low])));
                let step = if who == b'>' { Step::Ask } else { Step::Answer };
                steps.extend(bytes.chunks(size).map(|piece| step(1, piece.to_vec())));
                rest = after;
            }
            let (mut lines, counters) = run(LIMITS, &steps);
            lines.sort();
            assert_eq!(lines, expected, "{size}");
            assert_eq!((counters.head_fields_unknown, counters.h2_faults, counters.unpaired), (0, 0, 0));
        }
    }
}
