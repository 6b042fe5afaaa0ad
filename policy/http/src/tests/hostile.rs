//! What is no MCP, what cannot be read, and what wants to be expensive.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

const S: &str = "Mcp-Session-Id: s\r\n";

#[test]
fn uninspectable_http_is_reported_with_its_reason() {
    let post = |headers: &str| post("/mcp", headers, "{}");
    let ok = |headers: &str| format!("HTTP/1.1 200 OK\r\n{headers}\r\n");
    let cases: Vec<(&str, String, String, Uninspected)> = vec![
        ("HTTP/2 with another end", "PRI * HTTP/2.0\r\n\r\nSX\r\n\r\n\0\0\0".into(), String::new(), {
            Uninspected::Http2(Http2Error::Preface)
        }),
        ("TLS", "\x16\x03\x01\x02\0".into(), String::new(), Uninspected::Encrypted),
        ("binary", "\0\x01".into(), String::new(), Uninspected::NotHttp),
        ("a log", "hello world\r\nhow are you\r\n".into(), String::new(), Uninspected::NotHttp),
        ("HTTP/0.9", "GET /\r\n".into(), String::new(), Uninspected::NotHttp),
        ("carriage returns alone", format!("GET / HTTP/1.1{}", "\rx: y".repeat(1000)), String::new(), {
            Uninspected::HeadTooLong
        }),
        (
            "a folded header",
            "GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n".into(),
            String::new(),
            Uninspected::NotHttp,
        ),
        (
            "a blank before a colon",
            "GET / HTTP/1.1\r\nA : b\r\n\r\n".into(),
            String::new(),
            Uninspected::NotHttp,
        ),
        ("a head that is too long", post(&"a: b\r\n".repeat(400)), String::new(), Uninspected::HeadTooLong),
        ("two lengths", post("Content-Length: 1\r\n"), String::new(), Uninspected::Ambiguous),
        (
            "a length and chunks",
            post("Transfer-Encoding: chunked\r\n"),
            String::new(),
            Uninspected::Ambiguous,
        ),
        ("a signed length", "POST / HTTP/1.1\r\nContent-Length: +2\r\n\r\n{}".into(), String::new(), {
            Uninspected::Ambiguous
        }),
        ("a list of lengths", "POST / HTTP/1.1\r\nContent-Length: 2, 3\r\n\r\n{}".into(), String::new(), {
            Uninspected::Ambiguous
        }),
        (
            "another coding of the transfer",
            "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n".into(),
            String::new(),
            Uninspected::Ambiguous,
        ),
        (
            "a request where a body is to come, that waits for leave",
            "POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 999\r\n\r\nGET / HTTP/1.1\r\n\r\n"
                .into(),
            String::new(),
            Uninspected::Ambiguous,
        ),
        ("two hosts", post("Host: b\r\n"), String::new(), Uninspected::Ambiguous),
        ("two sessions", post(&format!("{S}mcp-session-id: t\r\n")), String::new(), Uninspected::Ambiguous),
        ("a WebSocket", get("/", ""), "HTTP/1.1 101 Go\r\nUpgrade: WebSocket\r\n\r\n".into(), {
            Uninspected::WebSocket
        }),
        (
            "h2c, and then something else",
            get("/", "Upgrade: h2c\r\n"),
            "HTTP/1.1 101 Go\r\nUpgrade: h2c\r\n\r\n\0".into(),
            { Uninspected::Http2(Http2Error::Preface) },
        ),
        ("a tunnel", "CONNECT b:443 HTTP/1.1\r\nHost: b\r\n\r\n".into(), ok(""), Uninspected::Tunnel),
        ("an answer that is none", post(S), "ICY 200 OK\r\n".into(), Uninspected::NotHttp),
        ("an answer of two lengths", post(S), ok("Content-Length: 1\r\nContent-Length: 2\r\n"), {
            Uninspected::Ambiguous
        }),
        ("a size of 20 digits", post(S), ok("Transfer-Encoding: chunked\r\n") + &"F".repeat(20), {
            Uninspected::Ambiguous
        }),
        (
            "a size that is none",
            post(S),
            ok("Transfer-Encoding: chunked\r\n") + "x\r\n",
            Uninspected::Ambiguous,
        ),
        ("a line feed in an extension", post(S), ok("Transfer-Encoding: chunked\r\n") + "1;\nx\r\n", {
            Uninspected::Ambiguous
        }),
        ("data that is longer than its chunk", post(S), ok("Transfer-Encoding: chunked\r\n") + "1\r\nxyz", {
            Uninspected::Ambiguous
        }),
        (
            "trailers without an end",
            post(S),
            ok("Transfer-Encoding: chunked\r\n") + "0\r\n" + &"a: b\r\n".repeat(400),
            Uninspected::HeadTooLong,
        ),
        ("more than may wait", post(S).repeat(10_000), String::new(), Uninspected::Pipelined),
    ];
    for (name, asked, answered, why) in cases {
        for (stream, expected) in
            [(1000, format!("uninspected 1000 None {why:?}")), (1, "not mcp 1".to_owned())]
        {
            let steps = [ask(stream, &asked), answer(stream, &answered), ask(stream, PING)];
            let (lines, counters) = run(LIMITS, &steps);
            // A stream that showed MCP before is never dropped without a word.
            let showed = lines.iter().any(|line| line.starts_with("open"));
            let last = lines.last().map(String::as_str).unwrap_or_default();
            match showed || counters.uninspected_streams == 1 {
                true => assert!(last.ends_with(&format!("{why:?}")), "{name}: {lines:?}"),
                false => assert_eq!(last, expected, "{name}: {lines:?}"),
            }
            assert_eq!(counters.uninspected_streams + counters.not_mcp, 1, "{name}");
        }
    }
}

#[test]
fn http_stream_without_mcp_is_dropped() {
    let other = |method: &str| format!("{method} /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let talk = |asked: String| vec![ask(1, asked), answer(1, ok)];
    let eight = |asked: String| vec![talk(asked); 8].concat();
    let dropped = lines!["not mcp 1"];
    let cases: Vec<(&str, Vec<Step>, Vec<String>)> = vec![
        ("seven", vec![talk(other("GET")); 7].concat(), vec![]),
        ("eight", eight(other("GET")), dropped.clone()),
        ("other JSON", eight(post("/x", "", r#"{"method":"x","id":1}"#)), dropped.clone()),
        ("forms", eight(post("/x", "", "a=b")), dropped.clone()),
        (
            "events of something else",
            vec![ask(1, get("/x", "")), answer(1, events("") + &chunk("data: {\"a\":1}\n\n").repeat(8))],
            dropped.clone(),
        ),
        (
            "a session in the first",
            [talk(get("/x", S)), vec![talk(other("GET")); 20].concat()].concat(),
            vec![],
        ),
        (
            "a message in the eighth",
            [vec![talk(other("GET")); 7].concat(), talk(post("/x", "", PING))].concat(),
            lines!["open 0 Http 1 a/x"; "0 > {PING}"],
        ),
        ("a declared server", vec![vec![ask(1000, other("GET")), answer(1000, ok)]; 20].concat(), vec![]),
    ];
    for (name, steps, expected) in cases {
        check(name, &steps, &expected);
    }
}

#[test]
fn bombs_and_long_frames_are_dropped_and_stream_resumes() {
    let gzip = |bytes: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let long = format!("[{}", "x".repeat(5000)).into_bytes();
    let coded = "Content-Encoding: gzip\r\n";
    let sse = "Content-Type: text/event-stream\r\nContent-Encoding: gzip\r\n";
    let cases: Vec<(&str, &str, Vec<u8>, Vec<String>)> = vec![
        ("a long frame", "", long.clone(), lines!["gap 0 < 5001 TooLong"]),
        ("a long frame, compressed", coded, gzip(&long), lines!["gap 0 < 5001 TooLong"]),
        ("a bomb", coded, gzip(&vec![b' '; 10_000_000]), lines!["uninspected 1 Some(0) Bomb"]),
        ("a bomb of events", sse, gzip(&vec![b'\n'; 10_000_000]), lines!["uninspected 1 Some(0) Bomb"]),
    ];
    for (name, headers, body, expected) in cases {
        let head = format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
        let answered = [head.as_bytes(), &body, json("", PONG).as_bytes()].concat();
        let steps = [ask(1, post("/mcp", S, PING).repeat(2)), answer(1, answered)];
        let expected =
            [lines!["open 0 Http 1 a/mcp"; "0 > {PING}"; "0 > {PING}"], expected, lines!["0 < {PONG}"]];
        let (lines, counters) = run(LIMITS, &steps);
        assert_eq!(lines, expected.concat(), "{name}");
        assert_eq!(counters.frames_too_long + counters.bombs, 1, "{name}");
    }
}

#[test]
fn endless_http_input_holds_bounded_memory() {
    let mut http = Http::new(HttpLimits::default());
    let stream = ConnectionId(1);
    http.open(stream, peers(1000), Timestamp(1));
    let mut push = |direction, text: &str, times: usize| {
        let text = text.repeat(1000);
        for _ in 0..times / 1000 {
            http.push(stream, direction, text.as_bytes(), Timestamp(1), &mut |output| {
                assert!(matches!(output, HttpOutput::Opened { .. } | HttpOutput::Frame { .. }), "{output:?}");
            });
            assert!(http.held < 200_000, "{direction:?}");
        }
    };
    push(Direction::ClientToServer, "\r\n", 1_000_000);
    push(Direction::ClientToServer, &post("/mcp", S, PING)[..0], 1000);
    let asked = post("/mcp", S, PING);
    http.push(stream, Direction::ClientToServer, asked.as_bytes(), Timestamp(1), &mut |_| {});
    let mut push = |text: &str, times: usize| {
        let text = text.repeat(1000);
        for _ in 0..times / 1000 {
            http.push(stream, Direction::ServerToClient, text.as_bytes(), Timestamp(1), &mut |_| {});
            assert!(http.held < 200_000, "{text:.20}");
        }
    };
    push("HTTP/1.1 100 Continue\r\n\r\n", 1_000_000);
    http.push(stream, Direction::ServerToClient, events("").as_bytes(), Timestamp(1), &mut |_| {});
    let mut push = |text: &str, times: usize| {
        let text = text.repeat(1000);
        for _ in 0..times / 1000 {
            http.push(stream, Direction::ServerToClient, text.as_bytes(), Timestamp(1), &mut |_| {});
            assert!(http.held < 200_000, "{text:.20}");
        }
    };
    push(&chunk(": comment\n"), 1_000_000);
    push("1;ext=\"x\"\r\n\n\r\n", 1_000_000);
    assert_eq!(http.counters.uninspected_streams, 0);
}

#[test]
fn stream_and_link_limits_refuse_and_count() {
    let of_all = HttpLimits { streams: 3, links: 2, ..LIMITS };
    let of_one = HttpLimits { streams: 3, links: 9, links_of_client: 2, ..LIMITS };
    let session = |id: u32| format!("Mcp-Session-Id: {id}\r\n");
    let steps = [
        ask(1, post("/mcp", &session(1), PING)),
        ask(2, post("/mcp", &session(2), PING)),
        // A third link; said once of a stream.
        ask(3, post("/mcp", &session(3), PING)),
        ask(3, post("/mcp", &session(4), PING)),
        ask(3, post("/mcp", &session(1), PING)),
        // A fourth stream.
        ask(4, post("/mcp", &session(1), PING)),
    ];
    for limits in [of_all, of_one] {
        let (lines, counters) = run(limits, &steps);
        let expected = lines!["open 0 Http 1 a/mcp"; "0 > {PING}"; "open 1 Http 1 a/mcp"; "1 > {PING}";
            "uninspected 3 None TooManyLinks"; "0 > {PING}"];
        assert_eq!(lines, expected, "{limits:?}");
        assert_eq!((counters.streams_refused, counters.links_refused), (1, 2), "{limits:?}");
    }
}
