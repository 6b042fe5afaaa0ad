//! Requests that the gate stopped.

use super::*;

const S: &str = "Mcp-Session-Id: s\r\n";
const CALL: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add"}}"#;

fn chunked(pieces: &[&str]) -> String {
    let body: String = pieces.iter().map(|piece| chunk(piece)).collect();
    format!("POST /mcp HTTP/1.1\r\nHost: a\r\n{S}Transfer-Encoding: chunked\r\n\r\n{body}0\r\n\r\n")
}

fn refused(stream: u64, bytes: impl AsRef<[u8]>) -> Step {
    Step::Refused(stream, bytes.as_ref().to_vec())
}

/// Each behind a request and its answer, and before others.
fn check_between(name: &str, steps: Vec<Step>, expected: Vec<String>) {
    let exchange = [ask(1, post("/mcp", S, PING)), answer(1, json("", PONG))];
    let all = [exchange.to_vec(), steps, exchange.to_vec()].concat();
    let go = lines!["0 > {PING}"; "0 < {PONG}"];
    let opened = lines!["open 0 Http 1 a/mcp"];
    check(name, &all, &[opened, go.clone(), expected, go].concat());
}

#[test]
fn neutralized_request_is_handed_on_as_stopped() {
    let call = post("/mcp", S, CALL);
    let name = call.find("add").unwrap();
    let (before, behind) = call.split_at(name);
    let pieces = chunked(&[&CALL[..10], &CALL[10..50], &CALL[50..]]);
    let cut = pieces.find("tools").unwrap();
    let gone = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    for (name, steps, expected) in [
        (
            "one",
            vec![ask(1, before), Step::Neutralized(1), ask(1, behind), answer(1, gone)],
            lines!["0 neutralized {CALL}"],
        ),
        (
            "in chunks",
            vec![ask(1, &pieces[..cut]), Step::Neutralized(1), ask(1, &pieces[cut..]), answer(1, gone)],
            lines!["0 neutralized {CALL}"],
        ),
        (
            "with another behind it in the same write",
            vec![
                ask(1, before),
                Step::Neutralized(1),
                ask(1, format!("{behind}{}", post("/mcp", S, NOTE))),
                answer(1, gone),
                answer(1, ACCEPTED),
            ],
            lines!["0 neutralized {CALL}"; "0 > {NOTE}"],
        ),
    ] {
        check_between(name, steps, expected);
    }
}

/// What was overwritten of a request that never ends says nothing of the next.
#[test]
fn neutralized_request_that_never_ends_is_none() {
    let call = post("/mcp", S, CALL);
    let steps = [
        ask(1, &call[..call.len() - 9]),
        Step::Neutralized(1),
        Step::Gap(1, Direction::ClientToServer, 500),
        ask(1, post("/mcp", S, NOTE)),
    ];
    let (lines, _) = run(LIMITS, &steps);
    assert_eq!(lines.last(), Some(&format!("0 > {NOTE}")), "{lines:?}");
}

#[test]
fn refused_request_is_handed_on_and_forgotten() {
    let call = post("/mcp", S, CALL);
    let body = call.find("\r\n\r\n").unwrap() + 4;
    let pieces = chunked(&[&CALL[..10], &CALL[10..]]);
    let at_chunks = pieces.find("\r\n\r\n").unwrap() + 4;
    let batch = format!("[{CALL},{PING}]");
    for (name, steps, expected) in [
        ("whole", vec![refused(1, &call)], lines!["0 refused {CALL}"]),
        (
            "and written again",
            vec![refused(1, &call), refused(1, &call)],
            lines!["0 refused {CALL}"; "0 refused {CALL}"],
        ),
        ("in chunks", vec![refused(1, &pieces)], lines!["0 refused {CALL}"]),
        ("a batch", vec![refused(1, post("/mcp", S, &batch))], lines!["0 refused {batch}"]),
        (
            "two in a write",
            vec![refused(1, format!("{}{call}", post("/mcp", S, NOTE)))],
            lines!["0 refused {NOTE}"; "0 refused {CALL}"],
        ),
        (
            "its beginning",
            vec![refused(1, &call[..call.len() - 2])],
            lines!["0 refused {}", &CALL[..CALL.len() - 2]],
        ),
        ("a head alone", vec![refused(1, &call[..body])], vec![]),
        ("part of a head", vec![refused(1, &call[..9])], vec![]),
        ("nothing", vec![refused(1, "")], vec![]),
        ("no HTTP", vec![refused(1, "\u{16}\u{3}\u{1}")], vec![]),
        ("no JSON", vec![refused(1, post("/mcp", S, "a=b"))], vec![]),
        (
            "of another session, which nobody has heard of, and which is its client's only one",
            vec![refused(1, post("/mcp", "Mcp-Session-Id: t\r\n", CALL))],
            lines!["0 refused {CALL}"],
        ),
    ] {
        check_between(name, steps, expected);
    }
    // What was written of a request before the rest was refused stays begun.
    let again = |written: &str, rest: &str, name| {
        let steps = [ask(1, written), refused(1, rest), ask(1, rest)];
        let opened = [ask(1, post("/mcp", S, PING)), answer(1, json("", PONG))];
        let expected =
            lines!["open 0 Http 1 a/mcp"; "0 > {PING}"; "0 < {PONG}"; "0 refused {CALL}"; "0 > {CALL}"];
        check(name, &[opened.to_vec(), steps.to_vec()].concat(), &expected);
    };
    again(&call[..body], &call[body..], "a body behind its head");
    again(&call[..body + 9], &call[body + 9..], "the rest of a body");
    again(&call[..body - 4], &call[body - 4..], "the end of a head");
    again(&pieces[..at_chunks], &pieces[at_chunks..], "chunks behind a head");
    again(&pieces[..at_chunks + 9], &pieces[at_chunks + 9..], "the rest of chunks");
}

#[test]
fn refused_request_of_an_unknown_client_is_nobodys() {
    check("the first", &[refused(1, post("/mcp", S, CALL)), ask(1, "")], &[]);
    check("no stream", &[refused(7, post("/mcp", S, CALL))], &[]);
}
