//! Answers as clients read them, however odd: each reading is a frame, and what cannot be read is said.

use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

use super::*;

const S: &str = "Mcp-Session-Id: s\r\n";
const EVENTS: &str = "Content-Type: text/event-stream\r\n";
const OTHER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"b":0}}"#;

fn gzip(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes.as_ref()).unwrap();
    encoder.finish().unwrap()
}

fn zlib(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes.as_ref()).unwrap();
    encoder.finish().unwrap()
}

fn raw(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes.as_ref()).unwrap();
    encoder.finish().unwrap()
}

/// brotli (RFC 7932, section 9) without compression: a meta-block for each part.
fn brotli(parts: &[&[u8]]) -> Vec<u8> {
    /// Puts `count` bits of a value behind the first `used` bits.
    fn put(bytes: &mut Vec<u8>, used: &mut usize, value: usize, count: usize) {
        for bit in 0..count {
            if used.is_multiple_of(8) {
                bytes.push(0);
            }
            *bytes.last_mut().unwrap() |= ((value >> bit & 1) << (*used % 8)) as u8;
            *used += 1;
        }
    }
    let (mut bytes, mut used) = (Vec::new(), 0);
    // A window of 1 KiB.
    put(&mut bytes, &mut used, 0b010_0001, 7);
    for part in parts {
        // Not the last, a length of four nibbles, not compressed; and on at the next byte.
        for (value, count) in [(0, 1), (0, 2), (part.len() - 1, 16), (1, 1)] {
            put(&mut bytes, &mut used, value, count);
        }
        bytes.extend_from_slice(part);
        used = bytes.len() * 8;
    }
    // The last, and empty.
    put(&mut bytes, &mut used, 3, 2);
    bytes
}

/// What comes of an answer with these headers and this body, between a request and the end of the stream.
fn check_answer(name: &str, headers: &str, body: &[u8], expected: &[String]) {
    let head = format!("HTTP/1.1 200 OK\r\n{headers}\r\n");
    let answered = [head.as_bytes(), body].concat();
    let steps = [ask(1, post("/mcp", S, PING)), answer(1, answered), Step::Close(1)];
    check(name, &steps, &[lines!["open 0 Http 1 a/mcp"; "0 > {PING}"], expected.to_vec()].concat());
}

/// `{"jsonrpc":"2.0","id":1,"result":{}}`, compressed by Node's zlib.
const NODE_PONG: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
const NODE: [u8; 40] = [
    139, 17, 128, 123, 34, 106, 115, 111, 110, 114, 112, 99, 34, 58, 34, 50, 46, 48, 34, 44, 34, 105, 100,
    34, 58, 49, 44, 34, 114, 101, 115, 117, 108, 116, 34, 58, 123, 125, 125, 3,
];

#[test]
fn codings_are_undone_however_they_are_listed() {
    let read = lines!["0 < {PONG}"];
    let said = lines!["uninspected 1 Some(0) Coding"];
    let both = [said.clone(), read.clone()].concat();
    let twice = || gzip(gzip(PONG));
    let five = (0..5).fold(PONG.as_bytes().to_vec(), |body, _| gzip(body));
    let trailing = [gzip(PONG), b"more than a header".to_vec()].concat();
    let cases: Vec<(&str, Vec<u8>, &[String])> = vec![
        ("gzip|gzip", twice(), &read),
        ("gzip, gzip", twice(), &read),
        (" GZip ,x-gzip,", twice(), &read),
        ("deflate|gzip", gzip(zlib(PONG)), &read),
        ("gzip|deflate", raw(gzip(PONG)), &read),
        ("gzip|identity|gzip", twice(), &read),
        ("identity", PONG.into(), &read),
        ("gzip,gzip,gzip|gzip,gzip", five.clone(), &read),
        ("gzip,gzip,gzip|gzip,gzip,gzip", gzip(five), &said),
        ("gzip|zstd", twice(), &said),
        ("gzip|gzip", gzip(PONG), &said),
        ("gzip", trailing, &both),
        ("gzip", [gzip(&PONG[..9]), gzip(&PONG[9..])].concat(), &read),
        ("\r\n gzip", gzip(PONG), &read),
        ("br", brotli(&[PONG.as_bytes()]), &read),
        ("BR", brotli(&[&PONG.as_bytes()[..9], &PONG.as_bytes()[9..]]), &read),
        ("gzip|br", brotli(&[&gzip(PONG)]), &read),
        ("br|gzip", gzip(brotli(&[PONG.as_bytes()])), &read),
        ("br|br", brotli(&[&brotli(&[PONG.as_bytes()])]), &read),
        ("br", [brotli(&[PONG.as_bytes()]), b"behind its end".to_vec()].concat(), &both),
        ("br", b"12345".to_vec(), &said),
        ("zstd", PONG.into(), &said),
    ];
    for (codings, body, expected) in cases {
        let headers: String =
            codings.split('|').map(|coding| format!("Content-Encoding: {coding}\r\n")).collect();
        check_answer(codings, &headers, &body, expected);
    }
}

/// The lines of `Content-Type`, and whether a body of JSON and one of events is read.
#[test]
fn body_is_read_as_each_type_that_clients_may_take() {
    let cases = [
        ("application/json", [true, false]),
        ("application/json; text/event-stream", [true, true]),
        ("text/event-stream, application/json", [true, true]),
        ("application/json|text/event-stream", [true, true]),
        ("text/event-stream|application/json", [true, true]),
        ("TEXT/EVENT-STREAM;charset=\"utf-8\"|application/JSON", [true, true]),
        ("text/plain|text/event-stream", [false, true]),
        ("text/event-stream", [false, true]),
        ("Application/Json ; charset=utf-8", [true, false]),
        ("text/plain", [true, false]),
        ("", [true, false]),
    ];
    for (types, [json, events]) in cases {
        let headers: String = types
            .split('|')
            .filter(|kind| !kind.is_empty())
            .map(|kind| format!("Content-Type: {kind}\r\n"))
            .collect();
        let event = format!("data: {PONG}\n\n");
        for (body, is_read) in [(PONG, json), (event.as_str(), events)] {
            let expected = if is_read { lines!["0 < {PONG}"] } else { vec![] };
            check_answer(&format!("{types}: {body}"), &headers, body.as_bytes(), &expected);
        }
    }
    // JSON that is too long for a line of events is said once.
    let long = format!("[{}", "x".repeat(5000));
    let both = "Content-Type: application/json; text/event-stream\r\n";
    check_answer("too long", both, long.as_bytes(), &["gap 0 < 5001 TooLong".to_owned()]);
}

#[test]
fn events_are_read_as_every_client_reads_them() {
    let read = || lines!["0 < {PONG}"];
    let several = || lines!["0 < {PONG}"; "0 < {OTHER}"; "uninspected 1 Some(0) Readings"];
    let (cut, rest) = PONG.split_at(17);
    let cases: Vec<(&str, String, Vec<String>)> = vec![
        ("no empty line", format!("data: {PONG}\n"), read()),
        ("no end of the line", format!("event: message\ndata: {PONG}"), read()),
        ("CR alone, no empty line", format!("data: {PONG}\r"), read()),
        ("the stream ends within an event", format!("data: {PONG}\n\ndata: {cut}"), read()),
        ("two byte order marks", format!("\u{feff}\u{feff}data: {PONG}\n\n"), read()),
        ("a byte order mark and nothing else behind it", format!("\u{feff}data: {PONG}"), read()),
        ("another name", format!("event: result\ndata: {PONG}\n\n"), read()),
        ("the name of the older transport", format!("event: endpoint\ndata: {PONG}\n\n"), read()),
        ("two messages in two lines", format!("data: {PONG}\ndata: {OTHER}\n\n"), several()),
        ("two messages in a line", format!("data: {PONG} {OTHER}\n\n"), several()),
        (
            "text in front of the last line",
            format!("data: loading\ndata: {PONG}\n\n"),
            lines!["0 < {PONG}"; "uninspected 1 Some(0) Readings"],
        ),
        (
            "an open string in front of the last line",
            format!("data: {{\"a\": \"[\ndata: {PONG}\n\n"),
            lines!["0 < {PONG}"; "uninspected 1 Some(0) Readings"],
        ),
        (
            "a message over two lines, and text",
            format!("data: {cut}\ndata: {rest}\ndata: end\n\n"),
            lines!["0 < {cut}\n{rest}"; "uninspected 1 Some(0) Readings"],
        ),
        ("a line that only Python ends", format!(": hi\u{2028}data: {PONG}\n\n"), read()),
        ("the same in an id", format!("ident: 7\u{85}data: {PONG}\n\n"), read()),
        ("no message at all", "data: {]\n\n".into(), lines!["0 < {{]"]),
    ];
    for (name, body, expected) in cases {
        check_answer(name, EVENTS, body.as_bytes(), &expected);
        let chunked = format!("{EVENTS}Transfer-Encoding: chunked\r\n");
        let body = if body.is_empty() { String::new() } else { chunk(&body) } + "0\r\n\r\n";
        check_answer(name, &chunked, body.as_bytes(), &expected);
    }
    // Once of an answer, however many of its events are so.
    let twice = format!("data: {PONG}\ndata: {OTHER}\n\n").repeat(2);
    let expected =
        lines!["0 < {PONG}"; "0 < {OTHER}"; "uninspected 1 Some(0) Readings"; "0 < {PONG}"; "0 < {OTHER}"];
    check_answer("said once", EVENTS, twice.as_bytes(), &expected);
}

#[test]
fn json_of_several_values_is_read_value_by_value() {
    let readings = "uninspected 1 Some(0) Readings";
    let cases: [(String, Vec<String>); 4] = [
        (format!("{PONG}{OTHER}"), lines!["0 < {PONG}"; "0 < {OTHER}"; "{readings}"]),
        (format!("{PONG}\n--"), lines!["0 < {PONG}"; "{readings}"]),
        (format!("[{PONG},{OTHER}]"), lines!["0 < [{PONG},{OTHER}]"]),
        (format!("\u{feff}\u{feff}{PONG}"), lines!["0 < {PONG}"]),
    ];
    for (body, expected) in cases {
        check_answer(&body, "", body.as_bytes(), &expected);
        let expected: Vec<String> = expected.iter().map(|line| line.replacen('<', ">", 1)).collect();
        let steps = [ask(1, post("/mcp", S, &body))];
        check(&body, &steps, &[lines!["open 0 Http 1 a/mcp"], expected].concat());
    }
}

#[test]
fn odd_heads_of_answers_are_read_or_reported() {
    let (read, len) = (lines!["0 < {PONG}"], PONG.len());
    let said = lines!["uninspected 1 Some(0) Ambiguous"];
    let chunks = chunk(PONG) + "0\r\n\r\n";
    let cases: Vec<(String, &str, &[String])> = vec![
        (format!("Content-Length: {len}, {len}\r\n"), PONG, &read),
        (format!("Content-Length: {len}\r\nContent-Length: {len} , {len}\r\n"), PONG, &read),
        (format!("Content-Length: {len}, 1\r\n"), PONG, &said),
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n".into(), &chunks, &read),
        ("Transfer-Encoding: gzip, chunked\r\n".into(), &chunks, &said),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n".into(), &chunks, &said),
        (format!("X: y\r\n z\r\nContent-Length: {len}\r\n"), PONG, &read),
        (format!("Content-Length:\r\n {len}\r\n"), PONG, &read),
        ("Mcp-Session-Id: s\r\n t\r\n".into(), PONG, &said),
    ];
    for (headers, body, expected) in cases {
        check_answer(&headers, &headers, body.as_bytes(), expected);
    }
}

#[test]
fn client_that_is_sent_elsewhere_is_followed() {
    let go = |status: u16, to: &str| {
        format!("HTTP/1.1 {status} Go\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
    };
    let got = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    let bare = r#"{"id":1,"method":"ping"}"#;
    let plain = |path: &str| post(path, "", bare);
    let cases: Vec<(&str, Vec<Step>, Vec<String>)> = vec![
        (
            "307 to another server: a link of its own",
            vec![
                ask(1, post("/mcp", S, PING)),
                answer(1, go(307, "http://127.0.0.1:8001/v2")),
                ask(11, post("/v2", S, PING)),
                answer(11, json("", PONG)),
            ],
            lines!["open 0 Http 1 a/mcp"; "0 > {PING}"; "open 1 Http 1 a/v2"; "1 > {PING}"; "1 < {PONG}"],
        ),
        (
            "308 to another server, of a message that nothing else shows to be MCP",
            vec![
                ask(1, post("/mcp", S, bare)),
                answer(1, go(308, "//other:8001/v2")),
                ask(11, plain("/v2")),
                answer(11, json("", PONG)),
            ],
            lines!["open 0 Http 1 a/mcp"; "0 > {bare}"; "open 1 Http 1 a/v2"; "1 > {bare}"; "1 < {PONG}"],
        ),
        (
            "303: the answer is fetched with GET, here",
            vec![
                ask(1, post("/mcp", S, PING)),
                answer(1, go(303, "result?id=1#x")),
                ask(1, got("/result?id=1")),
                answer(1, json("", PONG)),
                ask(1, got("/result?id=1")),
                answer(1, json("", PONG)),
            ],
            lines!["open 0 Http 1 a/mcp"; "0 > {PING}"; "0 < {PONG}"],
        ),
        (
            "302 to another server, which sends it on to a third path, and refuses",
            vec![
                ask(1, post("/mcp", S, PING)),
                answer(1, go(302, "http://b:8001/one")),
                ask(11, got("/one")),
                answer(11, go(307, "/two")),
                ask(12, got("/two")),
                answer(12, format!("HTTP/1.1 200 OK\r\n{EVENTS}\r\ndata: {PONG}\n\n")),
            ],
            lines!["open 0 Http 1 a/mcp"; "0 > {PING}"; "0 < {PONG}"],
        ),
        (
            "not of another client, nor of another path",
            vec![
                ask(1, post("/mcp", S, PING)),
                answer(1, go(303, "/result")),
                ask(21, got("/result")),
                answer(21, json("", PONG)),
                ask(2, got("/results")),
                answer(2, json("", PONG)),
            ],
            lines!["open 0 Http 1 a/mcp"; "0 > {PING}"],
        ),
    ];
    for (name, steps, expected) in cases {
        check(name, &steps, &expected);
    }
}

/// What a server has flushed is read before the stream ends; and a decoder that takes too much memory gives way.
#[test]
fn brotli_events_are_read_as_they_come() {
    let event = format!("data: {PONG}\n\n");
    let body = brotli(&[event.as_bytes(), event.as_bytes()]);
    // Up to where the second begins.
    let first = body.len() - event.len() - 4;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: br\r\n\r\n";
    let steps = [ask(1, post("/mcp", S, PING)), answer(1, [head.as_bytes(), &body[..first]].concat())];
    let opened = lines!["open 0 Http 1 a/mcp"; "0 > {PING}"];
    let read = lines!["0 < {PONG}"];
    check("the first", &steps, &[opened.clone(), read.clone()].concat());
    // As Node's zlib makes it, with a window of 4 MiB.
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: br\r\nContent-Length: {}\r\n\r\n",
        NODE.len()
    );
    for (held_bytes, expected, given_up) in
        [(8 << 20, format!("0 < {NODE_PONG}"), 0), (2 << 20, "gap 0 < 39 Memory".to_owned(), 1)]
    {
        // The window is known with the first byte.
        let (first, rest) = NODE.split_at(1);
        let begun = [head.as_bytes(), first].concat();
        let steps = [ask(1, post("/mcp", S, PING)), answer(1, begun), answer(1, rest)];
        let (lines, counters) = run(HttpLimits { held_bytes, ..LIMITS }, &steps);
        assert_eq!(lines, [opened.clone(), vec![expected]].concat(), "{held_bytes}");
        assert_eq!(counters.memory_given_up, given_up);
    }
}

#[test]
fn bodies_packed_in_each_other_have_one_budget() {
    let bomb = gzip(gzip(vec![b' '; 50_000_000]));
    let headers = "Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n";
    check_answer("twice", headers, &bomb, &["uninspected 1 Some(0) Bomb".to_owned()]);
    // Not more comes out of a piece than a bound, whatever it says.
    let coding = coding::Coding::of([&b"gzip, gzip"[..]].into_iter());
    let (mut decoder, mut out) = (coding::Decoder::new(&coding, 4096).unwrap(), 0);
    assert_eq!(decoder.push(&bomb, &mut |bytes| out += bytes.len()), Err(coding::CodingError::Bomb));
    assert!(out <= 4096 + 128 * bomb.len(), "{out} of {}", bomb.len());
}
