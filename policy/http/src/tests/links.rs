//! Which link a message belongs to.

use super::*;

#[test]
fn http_messages_are_assigned_to_their_session_link() {
    let s1 = "Mcp-Session-Id: s1\r\n";
    let s2 = "Mcp-Session-Id: s2\r\n";
    let cases: Vec<(&str, Vec<Step>, Vec<String>)> = vec![
        (
            "a session begins, over two streams, and is ended",
            vec![
                ask(1, post("/mcp", "", INITIALIZE)),
                answer(1, json(s1, INITIALIZED)),
                ask(2, post("/mcp", s1, NOTE)),
                answer(2, ACCEPTED),
                ask(1, post("/mcp", s1, PING)),
                answer(1, json("", PONG)),
                ask(2, format!("DELETE /mcp HTTP/1.1\r\nHost: a\r\n{s1}\r\n")),
                answer(2, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
            ],
            lines!["open 0 Http 1 a/mcp"; "0 > {INITIALIZE}"; "0 < {INITIALIZED}"; "0 > {NOTE}"; "0 > {PING}";
                "0 < {PONG}"; "close 0"],
        ),
        (
            "answers and requests of the server as events, on the stream of the POST and of a GET",
            vec![
                ask(1, post("/mcp", "", INITIALIZE)),
                answer(
                    1,
                    events(s1) + &chunk(&format!("event: message\ndata: {INITIALIZED}\n\n")) + &chunk(""),
                ),
                ask(2, get("/mcp", s1)),
                answer(2, events("")),
                ask(1, post("/mcp", s1, PING)),
                answer(2, chunk(&format!("data: {NOTE}\n\n"))),
                answer(1, events("") + &chunk(&format!("data: {PONG}\r\n\r\n")) + "0\r\n\r\n"),
            ],
            lines!["open 0 Http 1 a/mcp"; "0 > {INITIALIZE}"; "0 < {INITIALIZED}"; "0 > {PING}"; "0 < {NOTE}";
                "0 < {PONG}"],
        ),
        (
            "no session: one link of a client and a path, the latest initialize counts",
            vec![
                ask(1, post("/mcp", "", PING)),
                answer(1, json("", PONG)),
                ask(1, post("/mcp", "", INITIALIZE)),
                answer(1, json("", INITIALIZED)),
                ask(1, post("/mcp?key=1", "", PING)),
                answer(1, json("", PONG)),
                ask(1, post("/other", "", PING)),
                answer(1, json("", PONG)),
            ],
            lines!["open 0 Http 1 a/mcp"; "0 > {PING}"; "0 < {PONG}"; "open 1 Http 1 a/mcp"; "1 > {INITIALIZE}";
                "1 < {INITIALIZED}"; "1 > {PING}"; "1 < {PONG}"; "open 2 Http 1 a/other"; "2 > {PING}"; "2 < {PONG}"],
        ),
        (
            "two clients with one session id, and two hosts on one port, are different links",
            vec![
                ask(1, post("/mcp", s1, PING)),
                ask(21, post("/mcp", s1, PING)),
                ask(2, post("/mcp", s1, PING).replace("Host: a", "Host: B:8000")),
                ask(3, post("http://x:y@b:8000/mcp?k", s1, PING)),
            ],
            lines!["open 0 Http 1 a/mcp"; "0 > {PING}"; "open 1 Http 2 a/mcp"; "1 > {PING}";
                "open 2 Http 1 B:8000/mcp"; "2 > {PING}"; "2 > {PING}"],
        ),
        (
            "a session that was there before the agent; the server ends it",
            vec![
                ask(1, post("/mcp", s2, PING)),
                answer(1, "HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nwho"),
                ask(1, post("/mcp", s2, PING)),
            ],
            lines!["open 0 Http 1 a/mcp"; "0 > {PING}"; "refused 0 404 1"; "close 0"; "open 1 Http 1 a/mcp";
                "1 > {PING}"],
        ),
        (
            "a server gives another session id later",
            vec![ask(1, post("/mcp", s1, PING)), answer(1, json(s2, PONG)), ask(1, post("/mcp", s2, PING))],
            lines!["open 0 Http 1 a/mcp"; "0 > {PING}"; "0 < {PONG}"; "0 > {PING}"],
        ),
        (
            "an answer comes before its request",
            vec![
                answer(1, json(s1, INITIALIZED)),
                ask(1, post("/mcp", "", INITIALIZE)),
                ask(1, post("/mcp", s1, PING)),
            ],
            lines!["open 0 Http 1 a/mcp"; "0 > {INITIALIZE}"; "0 < {INITIALIZED}"; "0 > {PING}"],
        ),
        (
            "an answer that waits is read before what follows its request",
            vec![answer(1, json(s1, PONG)), ask(1, post("/mcp", s1, PING) + "DELETE /mcp HTTTTP/1.1\r\n")],
            lines!["open 0 Http 1 a/mcp"; "0 > {PING}"; "0 < {PONG}"; "uninspected 1 Some(0) NotHttp"],
        ),
        (
            "refused requests: a page, a message with no id, a message that answers",
            vec![
                ask(1, post("/mcp", s1, PING)),
                answer(1, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 4\r\n\r\n<no>"),
                ask(1, post("/mcp", s1, PING)),
                answer(1, json("", r#"{"detail":"no"}"#).replace("200 OK", "400 Bad")),
                ask(1, post("/mcp", s1, PING)),
                answer(
                    1,
                    json("", r#"{"jsonrpc":"2.0","id":null,"error":{"code":1}}"#)
                        .replace("200 OK", "400 Bad"),
                ),
                ask(1, post("/mcp", s1, PING)),
                answer(
                    1,
                    json("", r#"{"jsonrpc":"2.0","id":1,"error":{"code":1}}"#).replace("200 OK", "400 Bad"),
                ),
                ask(1, post("/mcp", s1, NOTE)),
                answer(1, "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"),
            ],
            lines!["open 0 Http 1 a/mcp"; "0 > {PING}"; "refused 0 401 1"; "0 > {PING}"; "refused 0 400 1";
                "0 > {PING}"; "0 < {{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{{\"code\":1}}}}"; "refused 0 400 1";
                "0 > {PING}"; "0 < {{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{{\"code\":1}}}}"; "0 > {NOTE}";
                "refused 0 500 -"],
        ),
        (
            "initialize that is refused began a link that ends",
            vec![
                ask(1, post("/mcp", "", INITIALIZE)),
                answer(1, "HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n"),
            ],
            lines!["open 0 Http 1 a/mcp"; "0 > {INITIALIZE}"; "refused 0 405 0"; "close 0"],
        ),
        (
            "a request that is redirected is given once, and its session is known in both places",
            vec![
                ask(1, post("/mcp", "", INITIALIZE)),
                answer(1, "HTTP/1.1 307 Go\r\nLocation: /v1\r\nContent-Length: 0\r\n\r\n"),
                ask(1, post("/v1", "", INITIALIZE)),
                answer(1, json(s1, INITIALIZED)),
                ask(1, post("/mcp", s1, PING)),
                answer(1, "HTTP/1.1 307 Go\r\nLocation: /v1\r\nContent-Length: 0\r\n\r\n"),
                ask(1, post("/v1", s1, PING)),
                answer(1, json("", PONG)),
                ask(1, post("/v1", s1, PING)),
            ],
            lines!["open 0 Http 1 a/mcp"; "0 > {INITIALIZE}"; "0 < {INITIALIZED}"; "0 > {PING}"; "0 < {PONG}";
                "0 > {PING}"],
        ),
        (
            "a redirect that nobody follows hides nothing later",
            vec![
                ask(1, post("/mcp", s1, PING)),
                answer(1, "HTTP/1.1 308 Go\r\nContent-Length: 0\r\n\r\n"),
                Step::Wait(11),
                ask(1, post("/mcp", s1, PING)),
            ],
            lines!["open 0 Http 1 a/mcp"; "0 > {PING}"; "0 > {PING}"],
        ),
    ];
    for (name, steps, expected) in cases {
        check(name, &steps, &expected);
    }
}

#[test]
fn legacy_sse_transport_responds_on_its_get_stream() {
    let endpoint = |data: &str| events("") + &chunk(&format!("event: endpoint\r\ndata: {data}\r\n\r\n"));
    let cases: Vec<(&str, Vec<Step>, Vec<String>)> = vec![
        (
            "path and query",
            vec![
                ask(1, get("/sse", "")),
                answer(1, endpoint("/messages/?session_id=abc")),
                ask(2, post("/messages/?session_id=abc", "", INITIALIZE)),
                answer(2, "HTTP/1.1 202 Accepted\r\nContent-Length: 8\r\n\r\nAccepted"),
                answer(
                    1,
                    chunk(&format!("event: message\r\ndata: {INITIALIZED}\r\n\r\n"))
                        + &chunk(": ping\r\n\r\n"),
                ),
                Step::Close(1),
            ],
            lines!["open 0 Sse 1 a/sse"; "0 > {INITIALIZE}"; "0 < {INITIALIZED}"; "close 0"],
        ),
        (
            "relative, absolute, and moved",
            vec![
                ask(1, get("/a/sse", "")),
                answer(1, endpoint("messages?s=1")),
                ask(2, post("/a/messages?s=1", "", PING)),
                answer(1, chunk("event: endpoint\ndata: http://a:8000/b?s=1\n\n")),
                ask(2, post("/b?s=1", "", PING)),
                answer(1, chunk(&format!("data: {PONG}\n\n")) + "0\r\n\r\n"),
            ],
            lines!["open 0 Sse 1 a/a/sse"; "0 > {PING}"; "0 > {PING}"; "0 < {PONG}"; "close 0"],
        ),
        (
            "two sessions of one client",
            vec![
                ask(1, get("/sse", "")),
                answer(1, endpoint("/m?s=1")),
                ask(2, get("/sse", "")),
                answer(2, endpoint("/m?s=2")),
                ask(3, post("/m?s=2", "", PING)),
                answer(2, chunk(&format!("data: {PONG}\n\n"))),
                answer(1, chunk(&format!("data: {NOTE}\n\n"))),
            ],
            lines!["open 0 Sse 1 a/sse"; "open 1 Sse 1 a/sse"; "1 > {PING}"; "1 < {PONG}"; "0 < {NOTE}"],
        ),
        (
            "a server of streamable HTTP cannot redirect a session with such an event",
            vec![
                ask(1, get("/mcp", "Mcp-Session-Id: s\r\n")),
                answer(1, endpoint("/m")),
                answer(1, chunk(&format!("data: {NOTE}\n\n"))),
            ],
            lines!["open 0 Http 1 a/mcp"; "0 < {NOTE}"],
        ),
    ];
    for (name, steps, expected) in cases {
        check(name, &steps, &expected);
    }
}

#[test]
fn resumed_stream_repeats_and_omits_no_event() {
    let s = "Mcp-Session-Id: s\r\n";
    let again = "Mcp-Session-Id: s\r\nLast-Event-ID: 1\r\n";
    let event = |id: &str, data: &str| chunk(&format!("id: {id}\ndata: {data}\n\n"));
    let (a, b) = (r#"{"jsonrpc":"2.0","method":"a"}"#, r#"{"jsonrpc":"2.0","method":"b"}"#);
    let steps = [
        ask(1, get("/mcp", s)),
        answer(1, events("") + &event("0", "") + &event("1", a) + &event("2", b)),
        Step::Close(1),
        ask(2, get("/mcp", again)),
        // The second again; another with its id; one that is new.
        answer(2, events("") + &event("2", b) + &event("2", a) + &event("3", a)),
        // Nobody asked for these again.
        ask(3, get("/mcp", s)),
        answer(3, events("") + &event("3", a)),
    ];
    let expected = lines!["open 0 Http 1 a/mcp"; "0 < {a}"; "0 < {b}"; "0 < {a}"; "0 < {a}"; "0 < {a}"];
    check("resumption", &steps, &expected);
    assert_eq!(run(LIMITS, &steps).1.resent, 1);
}

#[test]
fn links_end_with_their_client_or_when_idle() {
    let s = |id: u32| format!("Mcp-Session-Id: s{id}\r\n");
    let cases: Vec<(&str, Vec<Step>, Vec<String>)> = vec![
        (
            "the client ends",
            vec![
                ask(1, post("/mcp", &s(1), PING)),
                ask(1, post("/mcp", &s(2), PING)),
                ask(21, post("/mcp", &s(1), PING)),
                Step::End(1),
                answer(1, json("", PONG)),
            ],
            lines!["open 0 Http 1 a/mcp"; "0 > {PING}"; "open 1 Http 1 a/mcp"; "1 > {PING}"; "open 2 Http 2 a/mcp";
                "2 > {PING}"; "close 0"; "close 1"],
        ),
        (
            "idle, but the stream is open",
            vec![ask(1, post("/mcp", &s(1), PING)), Step::Wait(1000)],
            lines!["open 0 Http 1 a/mcp"; "0 > {PING}"],
        ),
        (
            "idle without a stream, and back in time",
            vec![
                ask(1, post("/mcp", &s(1), PING)),
                Step::Close(1),
                Step::Wait(299),
                ask(2, post("/mcp", &s(1), PING)),
                Step::Close(2),
                Step::Wait(299),
                Step::Wait(2),
            ],
            lines!["open 0 Http 1 a/mcp"; "0 > {PING}"; "0 > {PING}"; "close 0"],
        ),
        (
            "no MCP, says the engine: nothing more is said, on streams that stay neither",
            vec![
                ask(1, post("/mcp", &s(1), PING)),
                ask(1000, post("/mcp", &s(1), PING)),
                Step::Forget(0),
                ask(1000, post("/mcp", &s(1), PING)),
                Step::Close(1000),
                Step::Wait(400),
            ],
            lines!["open 0 Http 1 a/mcp"; "0 > {PING}"; "0 > {PING}"; "drop [1]"],
        ),
        (
            "a pool that serves one session after the other keeps the last ones open",
            (0..10).map(|id| ask(1, post("/mcp", &s(id), PING))).chain([Step::Wait(400)]).collect(),
            (0..10)
                .flat_map(|id| lines!["open {id} Http 1 a/mcp"; "{id} > {PING}"])
                .chain(lines!["close 0"; "close 1"])
                .collect(),
        ),
    ];
    for (name, steps, expected) in cases {
        check(name, &steps, &expected);
    }
}
