//! The gate's reader of requests beside this one: what both read, they read the same, and where this one gives up, so does that.

use mcpwarden_gate::{BODY, CODED, END, HEAD_BYTES, HttpRequests};
use proptest::prelude::*;

use crate::head;
use crate::reader::{Framing, Reader, Side, Step};

/// What is read of a stream: the bodies of the requests that ended, what is begun of the next, and whether the rest cannot be read.
#[derive(Debug, Default, PartialEq)]
struct Read {
    bodies: Vec<Vec<u8>>,
    begun: Vec<u8>,
    gave_up: bool,
}

/// As the stream of a client reads it.
fn by_engine(stream: &[u8]) -> Read {
    let mut reader = Reader::new(Side::Requests, HEAD_BYTES as usize);
    let (mut read, mut rest, mut expects) = (Read::default(), stream, false);
    loop {
        if expects && rest.first().is_some_and(u8::is_ascii_uppercase) {
            read.gave_up = true;
        }
        if read.gave_up {
            return read;
        }
        match reader.step(&mut rest) {
            Step::More => return read,
            Step::Head(head) => match head::request(&head) {
                // Of a tunnel's bytes none is a request.
                Ok(request) if request.method == head::Method::Connect => read.gave_up = true,
                Ok(request) => {
                    reader.begin(request.framing);
                    // Leave to send nothing is nothing to wait for. (The stream of a client gives up there, if a request follows.)
                    expects = request.expects && request.framing != Framing::Length(0);
                }
                Err(_) => read.gave_up = true,
            },
            Step::Body(piece) => {
                read.begun.extend_from_slice(piece);
                expects = false;
            }
            Step::End => {
                read.bodies.push(std::mem::take(&mut read.begun));
                expects = false;
            }
            // The gate reads no frames.
            Step::Binary | Step::Fault(_) => read.gave_up = true,
        }
    }
}

/// As the gate reads it before it is written.
fn by_gate(stream: &[u8]) -> Read {
    let (mut reader, mut read) = (HttpRequests::default(), Read::default());
    for byte in stream {
        let is = reader.step(*byte);
        if is & (BODY | CODED) != 0 {
            read.begun.push(*byte);
        }
        if is & END != 0 {
            read.bodies.push(std::mem::take(&mut read.begun));
        }
    }
    read.gave_up = reader.fault().is_some();
    read
}

/// Whether the gate reads no other bodies than the engine, gives up where that does, and reads all that it does not give up.
fn agree(stream: &[u8]) -> Result<(), String> {
    let (engine, gate) = (by_engine(stream), by_gate(stream));
    let are_same = engine.bodies.iter().zip(&gate.bodies).all(|(engine, gate)| engine == gate);
    let is_prefix = are_same && gate.bodies.len() <= engine.bodies.len();
    let is_whole = gate.bodies.len() == engine.bodies.len() && gate.begun == engine.begun;
    let is_right = is_prefix && (gate.gave_up || is_whole) && (gate.gave_up || !engine.gave_up);
    if is_right {
        Ok(())
    } else {
        Err(format!("{:?}: {engine:?}, {gate:?}", String::from_utf8_lossy(stream)))
    }
}

fn header() -> impl Strategy<Value = String> {
    let length = prop_oneof![
        "[0-9]{1,2}",
        "[ ]?[0-9] ?",
        "[0-9], ?[0-9]",
        "[+a-f]?[0-9]?",
        Just("99999999999999999999".to_owned())
    ];
    let name = prop_oneof![
        9 => Just("Content-Length"), 1 => Just("content-length "), 1 => Just(" Content-Length"), 2 => Just("CONTENT-LENGTH")
    ];
    let coding = prop_oneof![
        6 => Just("chunked"), 1 => Just("Chunked "), 1 => Just("gzip, chunked"), 1 => Just("chunked, chunked"), 1 => Just("")
    ];
    prop_oneof![
        6 => (name, length).prop_map(|(name, length)| format!("{name}:{length}")),
        4 => coding.prop_map(|coding| format!("Transfer-Encoding: {coding}")),
        1 => Just("Content-Encoding: gzip".to_owned()),
        1 => Just("Expect: 100-continue".to_owned()),
        1 => Just("Mcp-Name: add".to_owned()),
        2 => "[A-Za-z-]{1,5}: ?[ -~]{0,6}",
        1 => "[ -~\\t\\x00-\\x1f\u{e9}]{0,8}",
    ]
}

fn line_end() -> impl Strategy<Value = &'static str> {
    prop_oneof![40 => Just("\r\n"), 1 => Just("\n"), 1 => Just("\r"), 1 => Just("\r\n ")]
}

fn body() -> impl Strategy<Value = String> {
    let chunk = (
        "[0-9a-cA-C]{1,2}",
        prop_oneof![9 => Just(""), 1 => Just(";x=y"), 1 => Just(" ")],
        "[{}a-z\\r\\n]{0,12}",
    );
    let chunk = chunk.prop_map(|(size, extension, data)| {
        let data: String = data.chars().take(12).collect();
        let size = if size.len() == 1 { format!("{:x}", data.len()) } else { size };
        format!("{size}{extension}\r\n{data}\r\n")
    });
    let end = prop_oneof![6 => Just("0\r\n\r\n"), 1 => Just("0\r\nA: b\r\n\r\n"), 1 => Just("0\r\n\n"), 1 => Just("0\r\n:\r\n\r\n")];
    prop_oneof![
        3 => "[{}a-zA-Z0-9\\r\\n]{0,20}",
        3 => (prop::collection::vec(chunk, 0..4), end).prop_map(|(chunks, end)| chunks.concat() + end),
    ]
}

fn request() -> impl Strategy<Value = String> {
    let first = prop_oneof![
        12 => Just("POST /mcp HTTP/1.1"), 2 => Just("GET /sse?x=1 HTTP/1.1"), 1 => Just("POST /mcp HTTP/1.0"),
        1 => Just("DELETE http://h/ HTTP/1.1"), 1 => Just("PRI * HTTP/2.0"), 1 => Just("CONNECT h:1 HTTP/1.1"),
        1 => Just("POST  HTTP/1.1"), 1 => Just("POST /  HTTP/1.1"), 1 => Just("post / HTTP/1.1"), 1 => Just("\r"), 1 => Just("")
    ];
    let lines = prop::collection::vec((header(), line_end()), 0..4);
    (first, line_end(), lines, line_end(), body()).prop_map(|(first, end, lines, last, body)| {
        let lines: String = lines.into_iter().map(|(line, end)| line + end).collect();
        format!("{first}{end}{lines}{last}{body}")
    })
}

/// A request that is well formed, so that what follows it is read.
fn right() -> impl Strategy<Value = String> {
    let of_length = "[{}a-z0-9\\r\\n]{0,30}"
        .prop_map(|body| format!("POST /mcp HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
    let in_chunks = prop::collection::vec("[{}a-z0-9\\r\\n]{1,30}", 0..4).prop_map(|chunks| {
        let chunks: String = chunks.iter().map(|chunk| format!("{:x}\r\n{chunk}\r\n", chunk.len())).collect();
        format!("POST /mcp HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{chunks}0\r\n\r\n")
    });
    prop_oneof![of_length, in_chunks, Just("GET /mcp HTTP/1.1\r\nHost: h\r\n\r\n".to_owned())]
}

proptest! {
    #[test]
    fn gate_reads_the_requests_that_the_engine_reads(
        requests in prop::collection::vec(prop_oneof![3 => right(), 2 => request()], 1..5),
        rest in prop::collection::vec(any::<u8>(), 0..4),
    ) {
        let stream = [requests.concat().into_bytes(), rest].concat();
        if let Err(why) = agree(&stream) {
            prop_assert!(false, "{}", why);
        }
    }

    #[test]
    fn gate_reads_every_well_formed_request(requests in prop::collection::vec(right(), 1..6)) {
        let read = by_gate(requests.concat().as_bytes());
        prop_assert_eq!((read.bodies.len(), read.gave_up), (requests.len(), false));
    }
}
