//! What of a head is kept to be held against the body, and stateless requests.

use super::*;

/// The lines of a head, and what is kept of them: method, name, revision, parameters.
#[test]
fn mirrored_headers_are_kept_as_they_are() {
    let show = |header: &Option<Header>| {
        header.as_ref().map_or("-".to_owned(), |header| {
            let repeated = if header.is_repeated { " repeated" } else { "" };
            format!("{}{repeated}", header.value.as_deref().unwrap_or("?"))
        })
    };
    let long = "x".repeat(5_000);
    for (lines, expected) in [
        (&[][..], "- - - []"),
        (&["Mcp-Method: tools/call"], "tools/call - - []"),
        (&["mcp-METHOD:\ttools/call  "], "tools/call - - []"),
        (&["Mcp-Method: a", "MCP-METHOD: b"], "a repeated - - []"),
        (&["Mcp-Method: a", "Mcp-Method: a"], "a repeated - - []"),
        (&["Mcp-Name: a b", "MCP-Protocol-Version: 2026-07-28"], "- a b 2026-07-28 []"),
        (&["Mcp-Name: =?base64?w6Q=?="], "- =?base64?w6Q=?= - []"),
        (&["Mcp-Name:"], "-  - []"),
        (&["Mcp-Param-B: 2", "Mcp-Param-A: 1"], "- - - [a 1, b 2]"),
        (&["Mcp-Param-B: 2", "MCP-PARAM-b: 3"], "- - - [b 2 repeated]"),
        (&["Mcp-Param-: 2"], "- - - [ 2]"),
        (&["Mcp-Params: 2", "X-Mcp-Param-A: 2"], "- - - []"),
    ] {
        let head = format!("POST / HTTP/1.1\r\n{}\r\n\r\n", lines.join("\r\n"));
        let head = if lines.is_empty() { "POST / HTTP/1.1\r\n\r\n".to_owned() } else { head };
        let mirrored = head::request(head.as_bytes()).unwrap().meta.mirrored;
        let params =
            mirrored.params.iter().map(|(name, header)| format!("{name} {}", show(&Some(header.clone()))));
        let params = params.collect::<Vec<_>>().join(", ");
        let found = format!(
            "{} {} {} [{params}]",
            show(&mirrored.method),
            show(&mirrored.name),
            show(&mirrored.protocol_version)
        );
        assert_eq!(found, expected, "{lines:?}");
    }
    let head = format!("POST / HTTP/1.1\r\nMcp-Name: {long}\r\nMcp-Method: \u{e4}\r\n\r\n");
    let mirrored = head::request(head.as_bytes()).unwrap().meta.mirrored;
    assert_eq!(mirrored.name, Some(Header { value: None, is_repeated: false }));
    assert_eq!(mirrored.method.unwrap().value.as_deref(), Some("\u{e4}"));
    let many: String = (0..40).map(|number| format!("Mcp-Param-{number}: x\r\n")).collect();
    let mirrored = head::request(format!("POST / HTTP/1.1\r\n{many}\r\n").as_bytes()).unwrap().meta.mirrored;
    assert!((mirrored.params.len(), mirrored.has_more_params) == (32, true) && mirrored.bytes() > 32);
    // What is folded is read by nobody as one.
    let folded = "POST / HTTP/1.1\r\nMcp-Name: a\r\n b\r\n\r\n";
    assert!(matches!(head::request(folded.as_bytes()), Err(Uninspected::NotHttp)));
}

/// Both eras at one address, by one client.
#[test]
fn stateless_requests_have_a_link_of_their_own() {
    let old = "MCP-Protocol-Version: 2025-11-25\r\n";
    let new = "MCP-Protocol-Version: 2026-07-28\r\n";
    let meta = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;
    let list = &format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{meta}}}"#);
    let discover = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#;
    let s1 = "Mcp-Session-Id: s1\r\n";
    for (name, steps, expected) in [
        (
            "in turn",
            vec![
                ask(1, post("/mcp", "", INITIALIZE)),
                answer(1, json("", INITIALIZED)),
                ask(1, post("/mcp", new, list)),
                answer(1, json("", PONG)),
                ask(1, post("/mcp", old, PING)),
                answer(1, json("", PONG)),
                ask(1, post("/mcp", new, list)),
            ],
            lines!["open 0 Http 1 a/mcp"; "0 > {INITIALIZE}"; "0 < {INITIALIZED}"; "open 1 Http 1 a/mcp"; "1 > {list}";
                "1 < {PONG}"; "0 > {PING}"; "0 < {PONG}"; "1 > {list}"],
        ),
        (
            "discovery, and on from there",
            vec![
                ask(1, post("/mcp", "", discover)),
                answer(1, json("", PONG)),
                ask(2, post("/mcp", "", list)),
            ],
            lines!["open 0 Http 1 a/mcp"; "0 > {discover}"; "0 < {PONG}"; "0 > {list}"],
        ),
        (
            "by the head alone",
            vec![ask(1, post("/mcp", new, PING)), answer(1, json("", PONG)), ask(1, post("/mcp", "", list))],
            lines!["open 0 Http 1 a/mcp"; "0 > {PING}"; "0 < {PONG}"; "0 > {list}"],
        ),
        (
            "with a session: the session's",
            vec![ask(1, post("/mcp", s1, PING)), answer(1, json("", PONG)), ask(1, post("/mcp", s1, list))],
            lines!["open 0 Http 1 a/mcp"; "0 > {PING}"; "0 < {PONG}"; "0 > {list}"],
        ),
        (
            "refused, then a handshake",
            vec![
                ask(1, post("/mcp", "", discover)),
                answer(1, "HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n"),
                ask(1, post("/mcp", "", INITIALIZE)),
                answer(1, json(s1, INITIALIZED)),
                ask(1, post("/mcp", s1, PING)),
            ],
            lines!["open 0 Http 1 a/mcp"; "0 > {discover}"; "refused 0 405 1"; "open 1 Http 1 a/mcp";
                "1 > {INITIALIZE}"; "1 < {INITIALIZED}"; "1 > {PING}"],
        ),
    ] {
        check(name, &steps, &expected);
    }
}

/// Whether request and answer have a session, and what each frame says of that.
#[test]
fn session_in_either_head_is_known() {
    let session = "Mcp-Session-Id: s1\r\n";
    for (asked, answered, expected) in [
        ("", "", [false, false]),
        (session, "", [true, true]),
        ("", session, [false, true]),
        (session, session, [true; 2]),
    ] {
        let (mut http, mut found) = (Http::new(LIMITS), Vec::new());
        let stream = ConnectionId(1);
        http.open(stream, peers(1), Timestamp(1));
        let texts = [
            (Direction::ClientToServer, post("/mcp", asked, PING)),
            (Direction::ServerToClient, json(answered, PONG)),
        ];
        for (direction, text) in texts {
            http.push(stream, direction, text.as_bytes(), Timestamp(1), &mut |output| {
                if let HttpOutput::Frame { meta, .. } = output {
                    found.push(meta.mirrored.has_session);
                }
            });
        }
        assert_eq!(found, expected, "{asked:?} {answered:?}");
    }
}
