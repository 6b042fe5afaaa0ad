extern crate std;

use std::borrow::ToOwned as _;
use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, vec};

use super::*;

/// What is read of a stream: the requests that ended, each as its body (`<…>` of a coded one), what is begun of the next, the bytes
/// of `Mcp-Name`, and why nothing more was read.
#[derive(Debug, Default, PartialEq)]
struct Read {
    requests: Vec<String>,
    begun: String,
    names: String,
    fault: Option<Fault>,
}

fn read(stream: &[u8]) -> Read {
    let (mut reader, mut read, mut coded) = (HttpRequests::default(), Read::default(), false);
    for byte in stream {
        // As it is kept between two writes.
        let kept = reader;
        let mut again = kept;
        let is = reader.step(*byte);
        assert_eq!(again.step(*byte), is);
        let letter = char::from(*byte);
        if is & (BODY | CODED) != 0 {
            read.begun.push(letter);
            coded |= is & CODED != 0;
        }
        if is & NAMES != 0 {
            read.names.push(letter);
        }
        if is & END != 0 {
            let body = std::mem::take(&mut read.begun);
            read.requests.push(if coded { format!("<{body}>") } else { body });
            coded = false;
            assert!(reader.is_between());
        }
        assert_eq!(is & FAULT != 0, reader.fault().is_some());
    }
    read.fault = reader.fault();
    read
}

fn post(headers: &str, body: &str) -> String {
    format!("POST /mcp HTTP/1.1\r\n{headers}\r\n{body}")
}

/// Name, stream, the bodies of the requests that end in it, and the fault, if there is one.
type Case = (&'static str, String, Vec<&'static str>, Option<Fault>);

fn cases() -> Vec<Case> {
    use Fault::{Ambiguous, Http2, NotHttp, Tunnel};
    let get = "GET /mcp HTTP/1.1\r\nHost: h\r\n\r\n";
    let chunked = "Transfer-Encoding: chunked\r\n";
    let two = post("Content-Length: 2\r\n", "ab");
    let version = |line: &str| format!("{line}\r\nContent-Length: 1\r\n\r\na");
    vec![
        ("nothing", String::new(), vec![], None),
        ("without a body", get.to_owned(), vec![""], None),
        ("a length", two.clone(), vec!["ab"], None),
        ("a length of nothing", post("Content-Length: 0\r\n", ""), vec![""], None),
        ("names in any case", post("cOnTENT-lengTH:2\r\n", "ab"), vec!["ab"], None),
        ("blanks around a value", post("Content-Length: \t 2 \t\r\n", "ab"), vec!["ab"], None),
        ("a leading zero", post("Content-Length: 002\r\n", "ab"), vec!["ab"], None),
        ("one after the other", format!("{two}{get}{two}"), vec!["ab", "", "ab"], None),
        ("empty lines before", format!("\r\n\r\n{two}\r\n{two}"), vec!["ab", "ab"], None),
        (
            "a body that looks like a head",
            post("Content-Length: 34\r\n", "POST / HTTP/1.1\r\nContent-Length: 9"),
            vec!["POST / HTTP/1.1\r\nContent-Length: 9"],
            None,
        ),
        ("the old version", version("POST / HTTP/1.0"), vec!["a"], None),
        ("another method", version("DELETE /mcp?x=y HTTP/1.1"), vec!["a"], None),
        ("an absolute target", version("POST http://h/mcp HTTP/1.1"), vec!["a"], None),
        (
            "other headers",
            post("A: b\r\nX-Content-Length: 9\r\nContent-Length: 1\r\nEmpty:\r\n", "a"),
            vec!["a"],
            None,
        ),
        ("bytes beyond ASCII", post("A: \u{e9}\r\nContent-Length: 1\r\n", "a"), vec!["a"], None),
        ("chunks", post(chunked, "1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"), vec!["abc"], None),
        ("no chunk", post(chunked, "0\r\n\r\n"), vec![""], None),
        ("chunks, then another", post(chunked, "1\r\na\r\n0\r\n\r\n") + &two, vec!["a", "ab"], None),
        (
            "sizes in any case",
            post(chunked, "000A\r\n0123456789\r\nb\r\n0123456789a\r\n0\r\n\r\n"),
            vec!["01234567890123456789a"],
            None,
        ),
        ("an extension", post(chunked, "1;x=\"y\"\r\na\r\n0 \r\n\r\n"), vec!["a"], None),
        ("trailers", post(chunked, "1\r\na\r\n0\r\nA: b\r\nC: d\r\n\r\n") + &two, vec!["a", "ab"], None),
        (
            "the word in any case",
            post("transfer-encoding:CHUNKED\r\n", "1\r\na\r\n0\r\n\r\n"),
            vec!["a"],
            None,
        ),
        ("line feeds in chunks", post(chunked, "2\r\n\r\n\r\n0\r\n\r\n"), vec!["\r\n"], None),
        (
            "a coded body",
            post("Content-Encoding: gzip\r\nContent-Length: 2\r\n", "ab") + &two,
            vec!["<ab>", "ab"],
            None,
        ),
        (
            "coded chunks",
            post(&format!("content-encoding: br\r\n{chunked}"), "1\r\na\r\n0\r\n\r\n"),
            vec!["<a>"],
            None,
        ),
        ("no coding", post("Content-Encoding: Identity\r\nContent-Length: 2\r\n", "ab"), vec!["ab"], None),
        (
            "a coding besides",
            post("Content-Encoding: identity, gzip\r\nContent-Length: 2\r\n", "ab"),
            vec!["<ab>"],
            None,
        ),
        (
            "two lines of codings",
            post("Content-Encoding: gzip\r\nContent-Encoding: identity\r\nContent-Length: 2\r\n", "ab"),
            vec!["<ab>"],
            None,
        ),
        (
            "an upgrade that is not made",
            post("Upgrade: h2c\r\nContent-Length: 2\r\n", "ab") + &two,
            vec!["ab", "ab"],
            None,
        ),
        (
            "leave to send",
            post("Expect: 100-continue\r\nContent-Length: 2\r\n", "{}") + &two,
            vec!["{}", "ab"],
            None,
        ),
        (
            "a refused body",
            post("Expect: 100-continue\r\nContent-Length: 2\r\n", &two),
            vec![],
            Some(Ambiguous),
        ),
        ("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), vec![], Some(Http2)),
        ("HTTP/2 after an upgrade", format!("{get}PRI * HTTP/2.0\r\n\r\n"), vec![""], Some(Http2)),
        ("a tunnel", "CONNECT h:1 HTTP/1.1\r\n\r\n".to_owned(), vec![], Some(Tunnel)),
        ("a frame of a WebSocket", format!("{get}\u{1}abc"), vec![""], Some(NotHttp)),
        ("JSON", "{\"jsonrpc\":\"2.0\"}\n".to_owned(), vec![], Some(NotHttp)),
        ("another version", version("POST / HTTP/1.2"), vec![], Some(NotHttp)),
        ("another protocol", version("POST / HTTQ/1.1"), vec![], Some(NotHttp)),
        ("no version", version("POST /"), vec![], Some(NotHttp)),
        ("no target", version("POST  HTTP/1.1"), vec![], Some(NotHttp)),
        ("two blanks", version("POST /  HTTP/1.1"), vec![], Some(NotHttp)),
        ("blanks behind the version", version("POST / HTTP/1.1 "), vec![], Some(NotHttp)),
        ("a line feed alone, first", "POST / HTTP/1.1\nA: b\n\n".to_owned(), vec![], Some(NotHttp)),
        ("a line feed alone", post("A: b\nContent-Length: 1\r\n", "a"), vec![], Some(Ambiguous)),
        ("a carriage return alone", post("A: b\rContent-Length: 1\r\n", "a"), vec![], Some(Ambiguous)),
        ("a NUL", post("A: b\0\r\n", ""), vec![], Some(Ambiguous)),
        ("a folded line", post("A: b\r\n Content-Length: 1\r\n", "a"), vec![], Some(Ambiguous)),
        ("a blank before the colon", post("Content-Length : 1\r\n", "a"), vec![], Some(Ambiguous)),
        ("a line without a colon", post("Content-Length\r\n", "a"), vec![], Some(Ambiguous)),
        ("two lengths", post("Content-Length: 1\r\nContent-Length: 2\r\n", "ab"), vec![], Some(Ambiguous)),
        (
            "the same length twice",
            post("Content-Length: 1\r\nContent-Length: 1\r\n", "a"),
            vec![],
            Some(Ambiguous),
        ),
        ("a list of lengths", post("Content-Length: 1, 1\r\n", "a"), vec![], Some(Ambiguous)),
        ("a signed length", post("Content-Length: +1\r\n", "a"), vec![], Some(Ambiguous)),
        ("a length in two words", post("Content-Length: 1 1\r\n", "a"), vec![], Some(Ambiguous)),
        ("an empty length", post("Content-Length: \r\n", "a"), vec![], Some(Ambiguous)),
        (
            "too large a length",
            post("Content-Length: 99999999999999999999\r\n", "a"),
            vec![],
            Some(Ambiguous),
        ),
        (
            "a length beside chunks",
            post(&format!("Content-Length: 1\r\n{chunked}"), "0\r\n\r\n"),
            vec![],
            Some(Ambiguous),
        ),
        (
            "chunks beside a length",
            post(&format!("{chunked}Content-Length: 1\r\n"), "0\r\n\r\n"),
            vec![],
            Some(Ambiguous),
        ),
        (
            "another coding of the transfer",
            post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"),
            vec![],
            Some(Ambiguous),
        ),
        ("two codings of the transfer", post(&chunked.repeat(2), "0\r\n\r\n"), vec![], Some(Ambiguous)),
        ("an empty one", post("Transfer-Encoding:\r\n", "0\r\n\r\n"), vec![], Some(Ambiguous)),
        (
            "chunks of the old version",
            format!("POST / HTTP/1.0\r\n{chunked}\r\n0\r\n\r\n"),
            vec![],
            Some(Ambiguous),
        ),
        ("a size that is none", post(chunked, "g\r\n"), vec![], Some(Ambiguous)),
        ("an empty size", post(chunked, "\r\n"), vec![], Some(Ambiguous)),
        ("too large a size", post(chunked, "10000000000000000\r\n"), vec![], Some(Ambiguous)),
        ("a line feed behind a size", post(chunked, "1\na\r\n"), vec![], Some(Ambiguous)),
        ("a line feed in an extension", post(chunked, "1;\n"), vec![], Some(Ambiguous)),
        ("a chunk that is longer", post(chunked, "1\r\nab\r\n"), vec![], Some(Ambiguous)),
        ("a line feed behind a chunk", post(chunked, "1\r\na\n0\r\n\r\n"), vec![], Some(Ambiguous)),
        ("a line feed in the trailers", post(chunked, "0\r\nA: b\n\r\n"), vec![], Some(Ambiguous)),
        ("a line feed behind the trailers", post(chunked, "0\r\n\n"), vec![], Some(Ambiguous)),
    ]
}

#[test]
fn bodies_lie_where_both_ends_find_them() {
    for (name, stream, bodies, fault) in cases() {
        let read = read(stream.as_bytes());
        let expected: Vec<String> = bodies.iter().map(ToString::to_string).collect();
        assert_eq!((read.requests, read.fault), (expected, fault), "{name}: {stream:?}");
    }
}

/// Bodies are passed over as the kernel does that, in pieces of any length: what is read is the same as by steps.
#[test]
fn bodies_are_passed_over_as_by_steps() {
    for (name, stream, ..) in cases() {
        let bytes = stream.as_bytes();
        for most in [1, 2, 3, 7, 240] {
            let (mut reader, mut by_steps, mut at) = (HttpRequests::default(), HttpRequests::default(), 0);
            while at < bytes.len() {
                let ahead = reader.body_ahead(bytes[at]);
                let count = usize::try_from(ahead).unwrap().min(most).min(bytes.len() - at);
                let (is_end, count) = match count {
                    0 => (reader.step(bytes[at]) & END != 0, 1),
                    count => (reader.pass_body(count as u64), count),
                };
                let said: Vec<u8> = bytes[at..at + count].iter().map(|byte| by_steps.step(*byte)).collect();
                assert_eq!(said.last().unwrap() & END != 0, is_end, "{name} at {at}, {most} at once");
                if ahead > 0 {
                    assert!(said.iter().all(|is| is & !END == BODY), "{name} at {at}, {most} at once");
                }
                assert_eq!(reader, by_steps, "{name} at {at}, {most} at once");
                at += count;
            }
        }
    }
}

/// Wherever a stream breaks off, the requests before are as they are in the whole, and nothing of one that has not ended counts.
#[test]
fn streams_that_break_off_end_no_request() {
    for (name, stream, bodies, _) in cases() {
        let bytes = stream.as_bytes();
        let mut ended = 0;
        for end in 0..bytes.len() {
            let read = read(&bytes[..end]);
            assert!(read.requests.len() >= ended, "{name} at {end}");
            ended = read.requests.len();
            let before = read.requests.iter().zip(&bodies).all(|(found, expected)| found == expected);
            assert!(before && ended <= bodies.len(), "{name} at {end}: {read:?}");
        }
    }
}

#[test]
fn head_has_a_bound() {
    let line = "A: bbbbbbbbbbbb\r\n";
    let count = HEAD_BYTES as usize / line.len();
    for (name, stream) in [
        ("headers", post(&line.repeat(count), "")),
        ("a line", post(&format!("A: {}\r\n", "b".repeat(HEAD_BYTES as usize)), "")),
        ("a target", format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(HEAD_BYTES as usize))),
        ("trailers", post("Transfer-Encoding: chunked\r\n", &format!("0\r\n{}\r\n", line.repeat(count + 1)))),
        (
            "an extension",
            post("Transfer-Encoding: chunked\r\n", &format!("1;{}\r\n", "x".repeat(HEAD_BYTES as usize))),
        ),
    ] {
        assert_eq!(read(stream.as_bytes()).fault, Some(Fault::HeadTooLong), "{name}");
    }
    let fits = post(&line.repeat(count - 4), "");
    assert_eq!((read(fits.as_bytes()).requests.len(), fits.len() < HEAD_BYTES as usize), (1, true));
    // Chunks have no end: what is around each of them is counted anew.
    let chunks = "1\r\na\r\n".repeat(HEAD_BYTES as usize);
    let read = read(post("Transfer-Encoding: chunked\r\n", &(chunks + "0\r\n\r\n")).as_bytes());
    assert_eq!((read.requests.len(), read.fault), (1, None));
}

#[test]
fn name_in_the_head_is_told() {
    for (value, expected) in [("add", "add"), (" add ", "add"), ("a d", "ad"), ("", "")] {
        let stream = post(&format!("X-Name: no\r\nmcp-name:{value}\r\nContent-Length: 1\r\n"), "a");
        let read = read(stream.as_bytes());
        assert_eq!((read.names.as_str(), read.requests.len()), (expected, 1), "{value:?}");
    }
}

/// Bytes that were not read: where in the stream, how many, and whether it goes on, with what is left of the body that ends next.
#[test]
fn missing_bytes_within_a_body_are_skipped() {
    let length = post("Content-Length: 10\r\n", "0123456789");
    let chunks = post("Transfer-Encoding: chunked\r\n", "4\r\n0123\r\n4\r\n4567\r\n0\r\n\r\n");
    let body = |stream: &str| stream.find("\r\n\r\n").unwrap() + 4;
    let (at_length, at_chunks) = (body(&length), body(&chunks));
    for (name, stream, at, bytes, expected) in [
        ("of nothing", &length, 3, 0, Some("0123456789")),
        ("in a body", &length, at_length + 2, 5, Some("01789")),
        ("all of it", &length, at_length, 10, None),
        ("to its end", &length, at_length + 2, 8, None),
        ("beyond its end", &length, at_length + 2, 9, None),
        ("in a head", &length, 3, 1, None),
        ("between requests", &length, 0, 1, None),
        ("in a chunk", &chunks, at_chunks + 4, 2, Some("034567")),
        ("to the end of a chunk", &chunks, at_chunks + 3, 4, Some("4567")),
        ("beyond a chunk", &chunks, at_chunks + 4, 5, None),
    ] {
        let (before, rest) = stream.as_bytes().split_at(at);
        let (mut reader, mut body) = (HttpRequests::default(), String::new());
        let mut push = |reader: &mut HttpRequests, bytes: &[u8]| {
            let mut has_ended = false;
            for byte in bytes {
                let is = reader.step(*byte);
                body.extend((is & BODY != 0).then_some(char::from(*byte)));
                has_ended |= is & END != 0;
            }
            has_ended
        };
        push(&mut reader, before);
        let goes_on = reader.skip(bytes as u64);
        let is_over = goes_on && reader.is_between() && bytes > 0;
        let has_ended = push(&mut reader, rest.get(bytes..).unwrap_or_default());
        match expected {
            Some(expected) => assert!(goes_on && has_ended && body == expected, "{name}: {body:?}"),
            None if is_over => assert!(!has_ended && reader.fault().is_none(), "{name}"),
            None => assert_eq!((goes_on, reader.fault()), (false, Some(Fault::Missing)), "{name}"),
        }
    }
}
