//! Answers in forms that only some clients read, live: what is in them is inspected, and that readers differ is said at once.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::peer::initialize;
use mcpwarden_tests::places;
use serde_json::Value;

const LIST: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
const CALL: &str = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"t","arguments":{}}}"#;

/// A style of `servers/odd.py`, and the finding that it is; none where all readers agree, or it is the framing of an older kind.
const STYLES: [(&str, Option<&str>); 21] = [
    ("plain", None),
    ("pretty", Some("ambiguous_framing")),
    ("tabs", Some("ambiguous_framing")),
    ("brace_alone", Some("ambiguous_framing")),
    ("cr", Some("ambiguous_framing")),
    ("unended", Some("ambiguous_framing")),
    ("joined", Some("ambiguous_framing")),
    ("joined_by_cr", Some("ambiguous_framing")),
    ("log_before", Some("ambiguous_framing")),
    ("brace_before", Some("ambiguous_framing")),
    ("colours", Some("ambiguous_framing")),
    ("coloured_log", Some("ambiguous_framing")),
    ("nul", Some("ambiguous_framing")),
    ("mark", Some("ambiguous_framing")),
    ("no_break_space", Some("ambiguous_framing")),
    ("comment", Some("ambiguous_framing")),
    ("trailing_comma", Some("ambiguous_framing")),
    ("lengths", None),
    ("capitals", Some("ambiguous_key")),
    ("folded", Some("ambiguous_key")),
    ("honest_first", Some("ambiguous_key")),
];

#[test]
fn answers_in_odd_forms_are_inspected() -> Result<()> {
    let agent = Agent::start(&[])?;
    let directory = tempfile::tempdir()?;
    let script = directory.path().join("script");
    fs::write(&script, format!("{}\n{LIST}\n{CALL}\n", initialize(1)))?;
    for (style, ambiguity) in STYLES {
        let mut client = Command::new("python3")
            .arg(places::sources().join("clients/stream.py"))
            .arg(&script)
            .arg("python3")
            .arg(places::sources().join("servers/odd.py"))
            .arg(style)
            .stdin(Stdio::null())
            .spawn()
            .context("cannot start the client")?;
        let connection = agent.connection_of_client(client.id()).context(style)?;
        ensure!(client.wait()?.success(), "{style}: the client failed");
        let of = |event: &Value, kind: &str| is(event, kind) && event["connection"] == connection;
        agent.wait_for("its end", |event| of(event, "mcp_server_exited")).context(style)?;
        let events = agent.events_of(connection);
        let found = |subject: &str, pattern: &str| {
            events.iter().any(|event| {
                of(event, "mcp_detection")
                    && event["subject"] == subject
                    && event["detection"]["pattern"] == pattern
            })
        };
        ensure!(found("definition", "pseudo-tag"), "{style}: the tool is not inspected: {events:#?}");
        // What a message has besides is the message's.
        let is_found = found("result", "override") || found("message", "override");
        ensure!(is_found, "{style}: the result is not inspected: {events:#?}");
        let ambiguities: Vec<&str> = ["ambiguous_framing", "ambiguous_key"]
            .into_iter()
            .filter(|pattern| found("message", pattern))
            .collect();
        ensure!(ambiguities == ambiguity.as_slice(), "{style}: {ambiguities:?}: {events:#?}");
    }
    agent.stop().map(drop)
}
