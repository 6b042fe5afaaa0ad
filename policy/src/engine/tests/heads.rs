//! Heads of requests over HTTP, held against their bodies.

use super::*;
use crate::http::{Header, HttpMeta, Mirrored};

const NEW: &str = "2026-07-28";

/// A head from lines such as `Mcp-Name: x`; `Session` gives it a session.
fn head(lines: &[&str]) -> HttpMeta {
    let mut mirrored = Mirrored::default();
    let mut all: Vec<(String, Header)> = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let name = name.to_ascii_lowercase();
        if let Some((_, known)) = all.iter_mut().find(|(known, _)| *known == name) {
            known.is_repeated = true;
        } else {
            all.push((name, Header { value: Some(value.trim().into()), is_repeated: false }));
        }
    }
    for (name, header) in all {
        match name.as_str() {
            "mcp-method" => mirrored.method = Some(header),
            "mcp-name" => mirrored.name = Some(header),
            "mcp-protocol-version" => mirrored.protocol_version = Some(header),
            "session" => mirrored.has_session = true,
            name => mirrored.params.push((name.strip_prefix("mcp-param-").unwrap().into(), header)),
        }
    }
    HttpMeta { mirrored, ..HttpMeta::default() }
}

/// A stateless request.
fn body(method: &str, mut params: Value) -> String {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": NEW,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string()
}

impl Bench {
    fn post(&mut self, direction: Direction, text: &str, head: &HttpMeta) {
        let (connection, time) = (ConnectionId(1), Timestamp(self.now));
        let (bytes, http) = (text.as_bytes(), Some(head));
        self.input(Input::Frame { connection, direction, time, bytes, http, turn: None });
    }

    /// What does not belong into the heads since the last time.
    fn breaches(&mut self) -> Vec<String> {
        let events = self.events();
        let found = events.iter().filter(|event| event["type"] == "mcp_protocol_violation");
        let text =
            |event: &Value, field: &str| event.get(field).and_then(Value::as_str).unwrap_or("-").to_owned();
        found
            .map(|event| {
                let [what, expected, found] =
                    ["violation", "expected", "found"].map(|field| text(event, field));
                format!("{what} [{expected}] [{found}]")
            })
            .collect()
    }
}

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.exec(1, 10, "x-mcp", 5);
    bench
}

/// One that has discovered, and lists a tool whose clients repeat parameters.
fn stateless() -> Bench {
    let mut bench = bench();
    let heads =
        |method: &str| head(&[&format!("MCP-Protocol-Version: {NEW}"), &format!("Mcp-Method: {method}")]);
    bench.post(Direction::ClientToServer, &body("server/discover", json!({})), &heads("server/discover"));
    let found = json!({"resultType": "complete", "supportedVersions": [NEW], "capabilities": {}});
    bench.post(Direction::ServerToClient, &answer(7, &found.to_string()), &HttpMeta::default());
    bench.post(Direction::ClientToServer, &body("tools/list", json!({})), &heads("tools/list"));
    let schema = json!({"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "COUNT"},
        "dry": {"type": "boolean", "x-mcp-header": "dry"},
        "where": {"type": "object", "properties": {"city": {"type": "string", "x-mcp-header": "City"}}},
        "other": {"type": "string"},
    }});
    let tools = json!({"resultType": "complete", "tools": [{"name": "act", "inputSchema": schema}]});
    bench.post(Direction::ServerToClient, &answer(7, &tools.to_string()), &HttpMeta::default());
    assert_eq!(bench.breaches(), [""; 0]);
    bench
}

/// Header lines of a stateless request with this body, and what in them is not as it should be.
#[test]
fn head_is_held_against_its_body() {
    let version = "MCP-Protocol-Version: 2026-07-28";
    let call = |arguments: Value| body("tools/call", json!({"name": "act", "arguments": arguments}));
    let act = call(json!({}));
    let (calls, named) = ("Mcp-Method: tools/call", "Mcp-Name: act");
    let read = body("resources/read", json!({"uri": "x://a?token=hunter2"}));
    let prompt = body("prompts/get", json!({"name": "p"}));
    let accented = body("tools/call", json!({"name": "é"}));
    let region = call(json!({"region": "us-west1"}));
    let cases: Vec<(&str, &str, Vec<&str>, &[&str])> = vec![
        ("as it should be", &act, vec![version, calls, named], &[]),
        (
            "another method",
            &act,
            vec![version, "Mcp-Method: tools/list", named],
            &["header_mismatch [Mcp-Method: tools/call] [Mcp-Method: tools/list]"],
        ),
        (
            "another case of it",
            &act,
            vec![version, "Mcp-Method: Tools/Call", named],
            &["header_mismatch [Mcp-Method: tools/call] [Mcp-Method: Tools/Call]"],
        ),
        ("no method", &act, vec![version, named], &["header_missing [Mcp-Method: tools/call] [-]"]),
        (
            "an empty method",
            &act,
            vec![version, "Mcp-Method:", named],
            &["header_mismatch [Mcp-Method: tools/call] [Mcp-Method: ]"],
        ),
        (
            "two methods",
            &act,
            vec![version, calls, "mcp-method: tools/list", named],
            &["header_repeated [-] [Mcp-Method: tools/call]"],
        ),
        (
            "the same method twice",
            &act,
            vec![version, calls, calls, named],
            &["header_repeated [-] [Mcp-Method: tools/call]"],
        ),
        (
            "another name",
            &act,
            vec![version, calls, "Mcp-Name: read"],
            &["header_mismatch [Mcp-Name: act] [Mcp-Name: read]"],
        ),
        ("no name", &act, vec![version, calls], &["header_missing [Mcp-Name: act] [-]"]),
        (
            "two names",
            &act,
            vec![version, calls, named, "MCP-NAME: act"],
            &["header_repeated [-] [Mcp-Name: act]"],
        ),
        ("a name in base64", &act, vec![version, calls, "Mcp-Name: =?base64?YWN0?="], &[]),
        (
            "another name in base64",
            &act,
            vec![version, calls, "Mcp-Name: =?base64?cmVhZA==?="],
            &["header_mismatch [Mcp-Name: act] [Mcp-Name: read]"],
        ),
        ("a name that is no plain text", &accented, vec![version, calls, "Mcp-Name: =?base64?w6k=?="], &[]),
        (
            "no base64",
            &act,
            vec![version, calls, "Mcp-Name: =?base64?***?="],
            &["header_malformed [-] [Mcp-Name]"],
        ),
        (
            "base64 of no text",
            &act,
            vec![version, calls, "Mcp-Name: =?base64?/w==?="],
            &["header_malformed [-] [Mcp-Name]"],
        ),
        (
            "half a wrapper",
            &act,
            vec![version, calls, "Mcp-Name: =?base64?YWN0"],
            &["header_mismatch [Mcp-Name: act] [Mcp-Name: =?base64?YWN0]"],
        ),
        ("a prompt", &prompt, vec![version, "Mcp-Method: prompts/get", "Mcp-Name: p"], &[]),
        (
            "another prompt",
            &prompt,
            vec![version, "Mcp-Method: prompts/get", "Mcp-Name: q"],
            &["header_mismatch [Mcp-Name: p] [Mcp-Name: q]"],
        ),
        (
            "a resource",
            &read,
            vec![version, "Mcp-Method: resources/read", "Mcp-Name: x://a?token=hunter2"],
            &[],
        ),
        (
            "another resource, whose address is not shown",
            &read,
            vec![version, "Mcp-Method: resources/read", "Mcp-Name: x://b?token=hunter2"],
            &["header_mismatch [Mcp-Name] [Mcp-Name]"],
        ),
        (
            "another revision",
            &act,
            vec!["MCP-Protocol-Version: 2025-11-25", calls, named],
            &["header_mismatch [MCP-Protocol-Version: 2026-07-28] [MCP-Protocol-Version: 2025-11-25]"],
        ),
        ("no revision", &act, vec![calls, named], &["header_missing [MCP-Protocol-Version: 2026-07-28] [-]"]),
        ("a session", &act, vec![version, calls, named, "Session"], &["session_id [-] [-]"]),
        ("a parameter", &region, vec![version, calls, named, "Mcp-Param-Region: us-west1"], &[]),
        (
            "another value",
            &region,
            vec![version, calls, named, "Mcp-Param-Region: eu-west1"],
            &["header_mismatch [-] [Mcp-Param-region]"],
        ),
        ("no parameter", &region, vec![version, calls, named], &["header_missing [Mcp-Param-region] [-]"]),
        (
            "a parameter twice",
            &region,
            vec![version, calls, named, "Mcp-Param-Region: us-west1", "mcp-param-REGION: us-west1"],
            &["header_repeated [-] [Mcp-Param-region]"],
        ),
        (
            "a parameter in base64",
            &region,
            vec![version, calls, named, "Mcp-Param-Region: =?base64?dXMtd2VzdDE=?="],
            &[],
        ),
        (
            "a parameter without a value",
            &act,
            vec![version, calls, named, "Mcp-Param-Region: us-west1"],
            &["header_mismatch [-] [Mcp-Param-region]"],
        ),
        (
            "a parameter of nothing",
            &act,
            vec![version, calls, named, "Mcp-Param-Extra: admin"],
            &["header_mismatch [-] [Mcp-Param-extra]"],
        ),
    ];
    for (name, body, lines, expected) in cases {
        let mut bench = stateless();
        bench.post(Direction::ClientToServer, body, &head(&lines));
        assert_eq!(bench.breaches(), expected, "{name}");
    }
}

/// Arguments, headers of parameters, and whether they say the same.
#[test]
fn parameters_are_compared_by_their_types() {
    for (arguments, lines, expected) in [
        (json!({"count": 42}), &["Mcp-Param-Count: 42"][..], true),
        (json!({"count": 42}), &["Mcp-Param-Count: 42.0"], true),
        (json!({"count": 42}), &["Mcp-Param-Count: 43"], false),
        (json!({"count": 42}), &["Mcp-Param-Count: x"], false),
        (json!({"count": null}), &[], true),
        (json!({"dry": true}), &["Mcp-Param-Dry: true"], true),
        (json!({"dry": true}), &["Mcp-Param-Dry: True"], false),
        (json!({"dry": true}), &["Mcp-Param-Dry: false"], false),
        (json!({"where": {"city": "Bern"}}), &["Mcp-Param-City: Bern"], true),
        (json!({"where": {"city": "Bern"}}), &["Mcp-Param-City: Genf"], false),
        (json!({"where": {"city": "Bern"}}), &[], false),
        (json!({"city": "Genf", "where": {"city": "Bern"}}), &["Mcp-Param-City: Genf"], false),
        (json!({"region": "1"}), &["Mcp-Param-Region: 1.0"], false),
        (json!({"other": "x"}), &[], true),
        (json!({"other": "x"}), &["Mcp-Param-Other: x"], true),
        (json!({"other": "x"}), &["Mcp-Param-Other: y"], false),
        (json!({"region": "a", "count": 1}), &["Mcp-Param-Region: a", "Mcp-Param-Count: 1"], true),
        (json!({"region": "a", "count": 1}), &["Mcp-Param-Region: a"], false),
    ] {
        let mut bench = stateless();
        let version = format!("MCP-Protocol-Version: {NEW}");
        let mut all = vec![version.as_str(), "Mcp-Method: tools/call", "Mcp-Name: act"];
        all.extend(lines);
        let call = body("tools/call", json!({"name": "act", "arguments": arguments}));
        bench.post(Direction::ClientToServer, &call, &head(&all));
        assert_eq!(bench.breaches().is_empty(), expected, "{arguments} {lines:?}");
    }
}

/// A conversation with a handshake: the header has what was agreed on.
#[test]
fn head_has_the_revision_that_was_agreed_on() {
    for (lines, expected) in [
        (&[][..], &[][..]),
        (&["MCP-Protocol-Version: 2025-06-18"], &[]),
        (&["MCP-Protocol-Version: 2025-11-25"], &["header_mismatch"]),
        (&["MCP-Protocol-Version: 2026-07-28"], &["header_mismatch"]),
        (&["MCP-Protocol-Version: 2025-06-18", "MCP-Protocol-Version: 2025-06-18"], &["header_repeated"]),
        (&["Mcp-Method: tools/list"], &[]),
        (&["Mcp-Method: tools/call"], &["header_mismatch"]),
        (&["Session"], &[]),
    ] {
        let mut bench = bench();
        bench.c2s(1, HELLO);
        bench.s2c(1, r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18"}}"#);
        bench.out.clear();
        let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        bench.post(Direction::ClientToServer, list, &head(lines));
        let found: Vec<String> =
            bench.breaches().iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
        assert_eq!(found, expected, "{lines:?}");
    }
}

/// The head of what was sent before it was known that this is a server counts as well.
#[test]
fn head_of_the_first_request_is_kept() {
    let mut bench = Bench::with(|config| config.limits.start_wait = std::time::Duration::from_secs(2));
    bench.exec(1, 10, "/opt/thing", 5);
    let lines = head(&["MCP-Protocol-Version: 2025-11-25", "Mcp-Method: server/discover"]);
    bench.post(Direction::ClientToServer, &body("server/discover", json!({})), &lines);
    assert_eq!(bench.breaches(), [""; 0]);
    let found = json!({"resultType": "complete", "supportedVersions": [NEW], "capabilities": {}});
    bench.post(Direction::ServerToClient, &answer(7, &found.to_string()), &head(&["Session"]));
    assert_eq!(
        bench.breaches(),
        [
            "header_mismatch [MCP-Protocol-Version: 2026-07-28] [MCP-Protocol-Version: 2025-11-25]",
            "session_id [-] [-]",
        ]
    );
}
