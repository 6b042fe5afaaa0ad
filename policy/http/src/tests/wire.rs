//! HTTP/1.1 and server-sent events, as they are written.

use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

use super::*;

const S: &str = "Mcp-Session-Id: s\r\n";

fn opened(rest: Vec<String>) -> Vec<String> {
    lines!["open 0 Http 1 a/mcp"; "0 > {PING}"].into_iter().chain(rest).collect()
}

#[test]
fn http_responses_are_read_in_every_framing() {
    let pong = || lines!["0 < {PONG}"];
    let len = PONG.len();
    let cases: Vec<(&str, String, Vec<String>)> = vec![
        ("a length", json("", PONG), pong()),
        ("blanks and a byte order mark", json("", &format!("\u{feff} \r\n{PONG}\r\n")), pong()),
        (
            "chunks",
            events("").replace("text/event-stream", "application/json") + &chunk(PONG) + &chunk(""),
            pong(),
        ),
        (
            "chunks with extensions, capital digits, leading zeros and trailers",
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: APPLICATION/JSON; charset=utf-8\r\nTRANSFER-ENCODING: Chunked\r\n\r\n0000000000000000000A;x=\"y\"\r\n{}\r\n{:X} ;z\r\n{}\r\n0\r\nA: b\r\n\r\n",
                &PONG[..10],
                len - 10,
                &PONG[10..]
            ),
            pong(),
        ),
        ("until the end of the stream", format!("HTTP/1.1 200 OK\r\n\r\n{PONG}"), pong()),
        ("HTTP/1.0", format!("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{PONG}"), pong()),
        ("a length twice, the same", json(&format!("Content-Length: {len}\r\n"), PONG), pong()),
        ("line feeds alone", json("", PONG).replace("\r\n", "\n"), pong()),
        (
            "other answers before it",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".to_owned()
                + &json("", PONG),
            pong(),
        ),
        ("no content", "HTTP/1.1 204 No Content\r\nContent-Length: 10\r\n\r\n".into(), vec![]),
        ("text", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".into(), vec![]),
        ("empty", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".into(), vec![]),
    ];
    for (name, text, expected) in cases {
        let steps = [ask(1, post("/mcp", S, PING)), answer(1, text), Step::Close(1)];
        check(name, &steps, &opened(expected));
    }
}

#[test]
fn http_requests_are_read_in_every_framing() {
    let head = format!("POST /mcp HTTP/1.1\r\nHost: a\r\n{S}");
    let cases: Vec<(&str, String, usize)> = vec![
        ("a length", post("/mcp", S, PING), 1),
        ("pipelined", post("/mcp", S, PING).repeat(20), 20),
        ("empty lines before", format!("\r\n\r\n{}", post("/mcp", S, PING)), 1),
        ("chunks", format!("{head}Transfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n", chunk(PING)), 1),
        ("the whole URL", post("http://a/mcp", S, PING), 1),
        ("waits for leave", post("/mcp", &format!("{S}Expect: 100-continue\r\n"), PING), 1),
    ];
    for (name, text, times) in cases {
        let frame = format!("0 > {PING}");
        let expected: Vec<String> =
            std::iter::once("open 0 Http 1 a/mcp".to_owned()).chain(vec![frame; times]).collect();
        check(name, &[ask(1, text)], &expected);
    }
}

#[test]
fn http_responses_are_paired_in_request_order() {
    let two = r#"{"jsonrpc":"2.0","id":2,"result":{}}"#;
    let steps = [
        ask(
            1,
            post("/mcp", S, PING)
                + "HEAD /mcp HTTP/1.1\r\nHost: a\r\n\r\n"
                + &post("/b", "Mcp-Session-Id: t\r\n", PING),
        ),
        // The length of the second is that of a body that does not come.
        answer(1, json("", PONG) + "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + &json("", two)),
    ];
    let expected = lines!["open 0 Http 1 a/mcp"; "0 > {PING}"; "open 1 Http 1 a/b"; "1 > {PING}"; "0 < {PONG}";
        "1 < {two}"];
    check("three at once", &steps, &expected);
}

#[test]
fn sse_events_are_parsed_per_the_standard() {
    let m = r#"{"jsonrpc":"2.0","method":"m"}"#;
    let n = r#"{"jsonrpc":"2.0","method":"n"}"#;
    let cases: Vec<(&str, String, Vec<String>)> = vec![
        (
            "LF, CRLF, CR",
            format!("data: {m}\n\ndata: {n}\r\n\r\ndata: {m}\r\r"),
            lines!["0 < {m}"; "0 < {n}"; "0 < {m}"],
        ),
        ("a byte order mark", format!("\u{feff}data:{m}\n\n"), lines!["0 < {m}"]),
        ("no colon, two blanks", format!("data\ndata:  {m}\n\n"), lines!["0 < {m}"]),
        (
            "several lines",
            "data: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\"m\"}\n\n".into(),
            vec!["0 < {\"jsonrpc\":\"2.0\",\n\"method\":\"m\"}".into()],
        ),
        (
            "comments, retry, other fields",
            format!(": hi\n\nretry: 10\n\nfoo: bar\nid: 7\ndata: {m}\nevent: message\n\n"),
            lines!["0 < {m}"],
        ),
        (
            "other events",
            format!("event: ping\ndata: {m}\n\nevent: ping\ndata: 17:04\n\nevent\ndata: {n}\n\n"),
            lines!["0 < {m}"; "0 < {n}"],
        ),
        ("no data", "id: 1\ndata:\n\nid: 2\n\nevent: message\n\n".into(), vec![]),
        ("no empty line at the end", format!("data: {m}\n"), lines!["0 < {m}"]),
        ("an event over the bound", format!("data: {}\n\ndata: {m}\n\n", "x".repeat(5000)), {
            lines!["gap 0 < 5006 TooLong"; "0 < {m}"]
        }),
    ];
    for (name, text, expected) in cases {
        let steps = [
            ask(1, post("/mcp", S, PING)),
            answer(1, format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n{text}")),
            Step::Close(1),
        ];
        check(name, &steps, &opened(expected));
    }
}

#[test]
fn compressed_bodies_are_read_or_reported() {
    let gzip = |text: &str| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
    zlib.write_all(PONG.as_bytes()).unwrap();
    let mut raw = DeflateEncoder::new(Vec::new(), Compression::default());
    raw.write_all(PONG.as_bytes()).unwrap();
    let utf16 = |text: &str, bytes: fn(u16) -> [u8; 2], marked: bool| -> Vec<u8> {
        marked.then_some(0xFEFF).into_iter().chain(text.encode_utf16()).flat_map(bytes).collect()
    };
    let mut broken = gzip(PONG);
    broken[12] ^= 0xFF;
    let mut twice = gzip(PONG);
    twice.extend(gzip(PONG));
    let frame = lines!["0 < {PONG}"];
    let unread = lines!["uninspected 1 Some(0) Coding"];
    let two = lines!["0 < {PONG}"; "0 < {PONG}"; "uninspected 1 Some(0) Readings"];
    let cases = [
        ("gzip", gzip(PONG), &frame),
        ("X-GZIP", gzip(PONG), &frame),
        ("deflate", zlib.finish().unwrap(), &frame),
        ("deflate", raw.finish().unwrap(), &frame),
        ("identity", PONG.into(), &frame),
        ("zstd", b"\x28\xb5\x2f\xfd".to_vec(), &unread),
        ("zstd", b"\x28\xb5\x2f\xfd".to_vec(), &unread),
        ("gzip, gzip", gzip(PONG), &unread),
        ("gzip", broken, &unread),
        ("identity", utf16(PONG, u16::to_le_bytes, true), &unread),
        ("identity", utf16(PONG, u16::to_be_bytes, true), &unread),
        ("identity", utf16(PONG, u16::to_be_bytes, false), &unread),
        ("gzip", twice, &two),
    ];
    for (coding, body, expected) in cases {
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let text = [head.as_bytes(), &body, json("", PONG).as_bytes()].concat();
        let steps = [ask(1, post("/mcp", S, PING).repeat(2)), answer(1, text)];
        let expected =
            [lines!["open 0 Http 1 a/mcp"; "0 > {PING}"; "0 > {PING}"], expected.clone(), frame.clone()];
        check(coding, &steps, &expected.concat());
    }
}

#[test]
fn compressed_events_are_emitted_as_flushed() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(format!("data: {PONG}\n\n").as_bytes()).unwrap();
    encoder.flush().unwrap();
    let first = std::mem::take(encoder.get_mut());
    encoder.write_all(format!("data: {NOTE}\n\n").as_bytes()).unwrap();
    encoder.flush().unwrap();
    let steps = [
        ask(1, post("/mcp", S, PING)),
        answer(1, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\r\n"),
        answer(1, first),
        ask(2, post("/mcp", S, PING)),
        answer(1, encoder.get_ref()),
    ];
    let expected = opened(lines!["0 < {PONG}"; "0 > {PING}"; "0 < {NOTE}"]);
    check("two events", &steps, &expected);
}

#[test]
fn only_allowlisted_head_fields_are_emitted() {
    let secret = "hunter2";
    let headers = format!(
        "Mcp-Param-Token: {secret}\r\nMcp-Name: {secret}\r\nAuthorization: Bearer {secret}\r\nCookie: {secret}\r\nX-Api-Key: {secret}\r\nMcp-Session-Id: {secret}\r\n\
         Last-Event-ID: {secret}\r\nMCP-Protocol-Version: 2025-11-25\r\ntraceparent: 00-a-b-01\r\ntracestate: x=y\r\n\
         User-Agent: u/1\r\nX: {}\r\n",
        "y".repeat(600)
    );
    let mut http = Http::new(LIMITS);
    let (stream, mut outputs, mut metas) = (ConnectionId(1), String::new(), Vec::new());
    http.open(stream, peers(1000), Timestamp(1));
    let path = format!("http://{secret}@a/mcp?key={secret}#{secret}");
    let asked = post(&path, &headers, PING);
    let answered = events(&format!("Set-Cookie: {secret}\r\nMcp-Session-Id: {secret}\r\n"))
        + &chunk(&format!("id: {secret}\ndata: {PONG}\n\n"))
        + "0\r\n\r\n"
        + &json(&format!("WWW-Authenticate: {secret}\r\n"), "no").replace("200", "401")
        + "HTTP/1.1 101 Go\r\nUpgrade: websocket\r\n\r\n";
    let asked = asked.clone() + &asked + &asked;
    for (direction, text) in [(Direction::ClientToServer, asked), (Direction::ServerToClient, answered)] {
        http.push(stream, direction, text.as_bytes(), Timestamp(1), &mut |output| {
            outputs += &format!("{output:?}\n");
            if let HttpOutput::Frame { meta, .. } = output {
                // Held against the body, and shown nowhere.
                metas.push(HttpMeta { mirrored: Mirrored::default(), ..meta.clone() });
            }
        });
    }
    assert!(
        ["Opened", "Frame", "Refused", "Uninspected"].iter().all(|kind| outputs.contains(kind)),
        "{outputs}"
    );
    assert!(!outputs.contains(secret), "{outputs}");
    // What is kept says nothing of it either.
    assert!(!format!("{http:?}").contains(secret));
    let meta = HttpMeta {
        protocol_version: Some("2025-11-25".into()),
        traceparent: Some("00-a-b-01".into()),
        tracestate: Some("x=y".into()),
        user_agent: Some("u/1".into()),
        mirrored: Mirrored::default(),
    };
    assert_eq!(metas, vec![meta; 4]);
    let long = format!("GET / HTTP/1.1\r\nUser-Agent: {}\r\n\r\n", "u".repeat(513));
    assert_eq!(head::request(long.as_bytes()).unwrap().meta, HttpMeta::default());
}
