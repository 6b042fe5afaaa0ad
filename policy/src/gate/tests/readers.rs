//! The same bytes of a client, to the gate's reader and to the engine's: no reader that the engine knows of finds a call that
//! the gate lets through, and the gate denies nothing by its name that no reader finds.

use super::*;
use crate::protocol::{self, Kind, Message, Method, members, string};
use crate::wire::{Cut, FrameCutter, Limits, messages_within};

/// The tools of all calls that any reader finds, in the engine's order.
fn calls(stream: &[u8], size: usize) -> Vec<String> {
    let (mut cutter, mut found) = (FrameCutter::new(Limits::default()), Vec::new());
    let mut frame = |cut: Cut<'_>| {
        if let Cut::Frame { bytes, .. } = cut {
            calls_of_frame(bytes, &mut found);
        }
    };
    for bytes in stream.chunks(size) {
        cutter.push(bytes, Timestamp(1), &mut frame);
    }
    cutter.finish(&mut frame);
    found
}

/// As `Engine::server_frame` takes a frame.
fn calls_of_frame(frame: &[u8], found: &mut Vec<String>) {
    let mut scratch = String::new();
    let parsed = protocol::parse(frame, &mut scratch);
    let is_json = parsed.is_ok();
    found.extend(parsed.iter().flat_map(|parsed| &parsed.messages).filter_map(tool_called));
    messages_within(frame, is_json, &mut |bytes, _| calls_of_frame(bytes, found));
}

fn tool_called(message: &Message<'_>) -> Option<String> {
    match &message.kind {
        Kind::Request { method: Method::ToolsCall, params: Some(params), .. }
        | Kind::Notification { method: Method::ToolsCall, params: Some(params) } => {
            let [name] = members(params.get(), ["name"]);
            Some(string(name).into_owned())
        }
        _ => None,
    }
}

/// The codes of what the gate denies.
fn denials(table: &GateTable, stream: &[u8], size: usize) -> Vec<String> {
    let (mut reader, mut codes) = (GateReader::default(), Vec::new());
    for bytes in stream.chunks(size) {
        reader.write(table, 0, bytes, |said| {
            if said.verdict == GateVerdict::Deny {
                codes.push(table.outcome(said.outcome).unwrap().code.clone());
            }
        });
    }
    codes
}

/// `X` stands for a denied call, `P` for one that passes, `Q` for the denied one as the text of a string.
fn stream(form: &str) -> Vec<u8> {
    let call = |name: &str| {
        serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": name } })
            .to_string()
    };
    let (denied, passed) = (call("delete_x"), call("read"));
    let quoted = serde_json::Value::from(denied.clone()).to_string();
    let mut bytes = Vec::new();
    for letter in form.chars() {
        match letter {
            'X' => bytes.extend(denied.bytes()),
            'P' => bytes.extend(passed.bytes()),
            'Q' => bytes.extend(quoted.bytes()),
            other => bytes.extend(other.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    bytes
}

#[test]
fn gate_denies_each_call_that_any_reader_finds() {
    let yaml = "{ policy: { denied_tools: ['delete_*'] }, cross_server: { enabled: false } }";
    let table = compile(yaml, &[subject("s", &[])]).unwrap();
    for (form, found) in [
        // Lines of their own.
        ("X\n", 1),
        ("X\r\n", 1),
        ("P\nX\n", 1),
        ("P\n", 0),
        // Without an end, as readers of values take it.
        ("X", 1),
        // CR alone, as text readers of Python, Java and .NET take it.
        ("X\r", 1),
        ("P\rX\r", 1),
        ("X\rP\r", 1),
        ("X\rX\rX\r", 3),
        ("\rX", 1),
        ("\r\r\rX\r", 1),
        ("P\r\rX", 1),
        ("P\rX\n", 1),
        ("P\r\nX\r", 1),
        // Behind text that CR ends.
        ("text\rX\n", 1),
        ("text\rX\r", 1),
        ("text \"of a string\rX\n", 1),
        ("text \"of a string\" and }\rX\n", 1),
        ("text, more: ]}\rX\n", 1),
        ("text\\\rX\n", 1),
        ("text\rP\rX\r", 1),
        ("text\r\rtext\rX", 1),
        ("X\rtext\n", 1),
        // Behind what looks like the beginning of a message.
        ("{\rX\n", 1),
        ("[\rX\n", 1),
        ("{\"a\":\rX\n", 1),
        ("{\"a\":\"\rX\n", 1),
        ("{\"a\":\"\\\rX\n", 1),
        ("{\"a\":\"\\u00\rX\n", 1),
        ("text {\rX\n", 1),
        ("{{{[[\rX\r", 1),
        ("{\"method\":\"tools/call\",\"params\":{\"name\":\"\rX\n", 1),
        // What ends a line for other readers.
        ("text\u{b}X\n", 1),
        ("text\u{2028}X\n", 1),
        ("text\u{85}X\n", 1),
        ("{\"a\":\"\u{b}X\n", 1),
        ("{\"a\":\"\u{c}X\n", 1),
        ("{\"a\":\"\u{1c}X\n", 1),
        ("{\"a\":\"\u{1d}X\n", 1),
        ("{\"a\":\"\u{1e}X\n", 1),
        ("{\"a\":\"\u{85}X\n", 1),
        ("{\"a\":\"\u{2028}X\n", 1),
        ("{\"a\":\"\u{2029}X\n", 1),
        ("{\"a\":\u{2028}X\n", 1),
        ("{\"a\":\"\u{2028} \tX\n", 1),
        ("{\"a\":\"\u{2028}\u{a0}X\n", 1),
        ("{\"a\":\"\u{85}\u{2028}X\n", 1),
        ("{\"a\":\"\u{2028}[X]\n", 1),
        // In a string, which nobody takes for a call.
        ("{\"jsonrpc\":\"2.0\",\"method\":\"note\",\"params\":{\"text\":Q}}\n", 0),
        (
            "{\"jsonrpc\":\"2.0\",\"method\":\"note\",\"params\":{\"text\":\"a\u{2028}b\u{2029}c\u{85}d\"}}\n",
            0,
        ),
        ("{\"jsonrpc\":\"2.0\",\"method\":\"note\",\"params\":{\"text\":\"\u{2028}\"}}\n", 0),
        ("{\"jsonrpc\":\"2.0\",\"method\":\"note\",\"params\":X}\n", 0),
        // Text before and behind.
        ("text X\n", 1),
        ("X text\n", 1),
        ("P X\n", 1),
        ("[P,X]\r", 1),
        ("[P,\rX]\r", 1),
    ] {
        let bytes = stream(form);
        for size in [bytes.len(), 1, 7] {
            let by_engine = calls(&bytes, size);
            let denied = by_engine.iter().filter(|name| *name == "delete_x").count();
            let by_gate = denials(&table, &bytes, size);
            // One that is spread over lines for a reader of values, and within one for another, is found twice.
            assert!(denied >= found && (denied > 0) == (found > 0), "{form:?} by {size}: {by_engine:?}");
            assert_eq!(!by_gate.is_empty(), found > 0, "{form:?} by {size}: {by_gate:?}");
        }
    }
}
