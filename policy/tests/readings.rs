//! Recordings of what only some clients and servers read, or of what reaches a model by another way than a tool's result: what
//! is reported of each, held against `recordings/expected.txt`.
//!
//! Their servers, words and forms were written by someone who had not seen how they are read.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "what fails here is a failed test")]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

#[path = "support/wire.rs"]
mod wire;

use mcpwarden_policy::Output;
use mcpwarden_policy::replay::Replay;

/// What recordings differ in: framing, keys, further answers, and where a text stands.
const KINDS: [&str; 4] = ["answers", "framing", "keys", "subjects"];

#[test]
fn recordings_are_read_as_their_readers_take_them() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let mut reported = String::new();
    for kind in KINDS {
        let mut files: Vec<PathBuf> =
            fs::read_dir(directory.join(kind)).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(files.len() > 10, "{kind}: {} recordings", files.len());
        for file in files {
            let name = file.file_stem().unwrap().to_str().unwrap();
            writeln!(reported, "{kind}/{name}").unwrap();
            for line in summary(&fs::read_to_string(&file).unwrap()) {
                writeln!(reported, "    {line}").unwrap();
            }
        }
    }
    let expected = directory.join("expected.txt");
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        fs::write(&expected, &reported).unwrap();
    }
    let expected = fs::read_to_string(&expected).unwrap();
    assert!(
        reported == expected,
        "run this test with UPDATE_EXPECTED=1 and read what has changed:\n{reported}"
    );
}

/// The events of a recording that matter here, those that follow each other and are alike once.
fn summary(recording: &str) -> Vec<String> {
    let (mut replay, mut outputs) = (Replay::new(wire::engine(&wire::DETECTOR)), Vec::new());
    for line in recording.lines().filter(|line| !line.trim().is_empty()) {
        replay.line(line.as_bytes(), &mut outputs).unwrap();
    }
    while replay.wait(&mut outputs) {}
    let mut lines: Vec<String> = outputs.iter().filter_map(short).collect();
    lines.dedup();
    lines
}

fn short(output: &Output) -> Option<String> {
    let Output::Event(event) = output else { return None };
    let event = serde_json::to_value(event).unwrap();
    let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
    let line = match event["type"].as_str()? {
        "mcp_tool_seen" => {
            let found = event["max_severity"].as_str().unwrap_or("nothing");
            format!("tool seen {} {} {found}", text("tool_name"), text("status"))
        }
        "mcp_tool_changed" => format!("tool changed {}", text("tool_name")),
        "mcp_tool_removed" => format!("tool removed {}", text("tool_name")),
        "mcp_tool_called" => format!("tool called {} {}", text("tool_name"), event["jsonrpc_id"]),
        "mcp_tool_result" => {
            format!("tool result {} {} {}", text("tool_name"), event["jsonrpc_id"], text("status"))
        }
        "mcp_server_initialized" => format!("initialized {}", text("server_name")),
        "mcp_detection" => {
            let is_of_message = |pattern: &&str| {
                matches!(
                    *pattern,
                    "ambiguous_framing" | "ambiguous_key" | "repeated-answer" | "duplicate-member"
                )
            };
            // The words that others are found by belong to the tests of detection.
            let pattern = event["detection"]["pattern"].as_str().filter(is_of_message).unwrap_or("*");
            format!("detection {} {pattern}", text("subject"))
        }
        _ => return None,
    };
    Some(line)
}
