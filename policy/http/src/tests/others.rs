//! What is no MCP: bodies of requests, and of their answers.

use std::collections::BTreeMap;

use flate2::{Compression, write::GzEncoder};

use super::*;

const QUESTION: &str = r#"{"model":"m","messages":[]}"#;

/// What comes out of these steps, by exchange: the request, what the server calls it, status, body, and whether that is whole.
fn others(steps: &[Step], wanted: bool) -> Vec<String> {
    let (mut http, mut now) = (Http::new(LIMITS), Timestamp(1));
    let (mut bodies, mut lines) = (BTreeMap::<u64, (String, Vec<u8>)>::new(), Vec::new());
    let stream = ConnectionId(1);
    http.open(stream, Peers { others: wanted, ..peers(1) }, now);
    for step in steps {
        now = Timestamp(now.0 + 1);
        let mut sink = |output: HttpOutput<'_>| match output {
            HttpOutput::OtherRequest { exchange, bytes, host, .. } => {
                lines.push(format!("{exchange} {} {}", host.unwrap_or("-"), String::from_utf8_lossy(bytes)));
            }
            HttpOutput::OtherAnswer { exchange, request_id, bytes, .. } => {
                let (id, body) = bodies.entry(exchange).or_default();
                request_id.unwrap_or("-").clone_into(id);
                body.extend_from_slice(bytes);
            }
            HttpOutput::OtherEnd { exchange, status, is_whole, .. } => {
                let (id, body) = bodies.remove(&exchange).unwrap_or_default();
                lines.push(format!("{exchange} {status} {is_whole} {id} {}", String::from_utf8_lossy(&body)));
            }
            other => lines.extend(line(other)),
        };
        match step {
            Step::Ask(_, bytes) => http.push(stream, Direction::ClientToServer, bytes, now, &mut sink),
            Step::Answer(_, bytes) => http.push(stream, Direction::ServerToClient, bytes, now, &mut sink),
            Step::Gap(_, direction, bytes) => {
                http.gap(stream, *direction, *bytes, GapCause::RingFull, now, &mut sink);
            }
            Step::Close(_) => http.close(stream, now, &mut sink),
            other => panic!("{other:?}"),
        }
    }
    assert!(bodies.is_empty(), "an answer without an end");
    lines
}

fn bytewise(steps: &[Step]) -> Vec<Step> {
    let each = |step: &Step| match step {
        Step::Ask(stream, bytes) => bytes.iter().map(|byte| ask(*stream, [*byte])).collect(),
        Step::Answer(stream, bytes) => bytes.iter().map(|byte| answer(*stream, [*byte])).collect(),
        other => vec![other.clone()],
    };
    steps.iter().flat_map(each).collect()
}

fn gzipped(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    std::io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
    let body = encoder.finish().unwrap();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.into_bytes(), body].concat()
}

#[test]
fn other_exchanges_are_handed_on() {
    let streamed =
        [&*events("request-id: req_1\r\n"), &*chunk("data: 1\n\n"), &*chunk("data: 2\n\n"), "0\r\n\r\n"]
            .concat();
    let asked = format!("1 a {QUESTION}");
    let refused = "HTTP/1.1 429 No\r\nContent-Length: 2\r\n\r\nno";
    let cases = [
        (
            "whole",
            vec![ask(1, post("/v1", "", QUESTION)), answer(1, json("x-request-id: r\r\n", "[1]"))],
            lines!["{asked}"; "1 200 true r [1]"],
        ),
        (
            "streamed",
            vec![ask(1, post("/v1", "", QUESTION)), answer(1, &*streamed)],
            lines!["{asked}"; "1 200 true req_1 data: 1\n\ndata: 2\n\n"],
        ),
        (
            "coded",
            vec![ask(1, post("/v1", "", QUESTION)), answer(1, gzipped("{}"))],
            lines!["{asked}"; "1 200 true - {{}}"],
        ),
        (
            "refused",
            vec![ask(1, post("/v1", "", QUESTION)), answer(1, refused)],
            lines!["{asked}"; "1 429 true - no"],
        ),
        (
            "one after the other",
            vec![
                ask(1, post("/v1", "", QUESTION)),
                answer(1, json("", "1")),
                ask(1, post("/v1", "", "[2]")),
                answer(1, json("", "3")),
            ],
            lines!["{asked}"; "1 200 true - 1"; "2 a [2]"; "2 200 true - 3"],
        ),
        (
            "broken off",
            vec![
                ask(1, post("/v1", "", QUESTION)),
                answer(1, &streamed[..streamed.len() - 20]),
                Step::Close(1),
            ],
            lines!["{asked}"; "1 200 false req_1 data: 1\n\n"],
        ),
        ("no JSON", vec![ask(1, post("/v1", "", "a=b")), answer(1, json("", "3"))], lines!["1 200 true - 3"]),
    ];
    for (name, steps, expected) in cases {
        assert_eq!(others(&steps, true), expected, "{name}");
        assert_eq!(others(&bytewise(&steps), true), expected, "{name}: byte by byte");
    }
}

#[test]
fn gap_in_another_answer_shows() {
    let head = events("");
    let (first, second) = (chunk("data: 1\n\n"), chunk("data: 2\n\n"));
    let steps = [
        ask(1, post("/v1", "", QUESTION)),
        answer(1, [&*head, &*first, "9\r\n"].concat()),
        Step::Gap(1, Direction::ServerToClient, 9),
        answer(1, ["\r\n", &*second, "0\r\n\r\n"].concat()),
    ];
    assert_eq!(others(&steps, true), [format!("1 a {QUESTION}"), "1 200 false - data: 1\n\n".to_owned()]);
}

#[test]
fn stream_is_kept_while_others_are_wanted() {
    let rounds = |count| {
        (0..count).flat_map(|_| [ask(1, post("/v1", "", "[]")), answer(1, json("", "1"))]).collect::<Vec<_>>()
    };
    assert_eq!(others(&rounds(20), true).len(), 40);
    let until = others(&rounds(20), false);
    assert_eq!(until.last().map(String::as_str), Some("not mcp 1"), "{until:?}");
}
