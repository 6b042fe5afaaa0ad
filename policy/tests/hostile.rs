//! Bytes that were made to hurt, from the wire through the engine with the default policy: nothing panics, memory is
//! bounded by what came in, and each is exactly the events and counters that it should be.

#![allow(clippy::unwrap_used, reason = "what fails here is a failed test")]

#[path = "support/counting.rs"]
mod counting;
#[path = "support/wire.rs"]
mod wire;

use mcpwarden_policy::Direction;
use serde_json::Value;

use counting::Memory;
use wire::{C2S, DETECTOR, S2C, Wire, engine};

const MIB: usize = 1 << 20;
/// How many times as large as what came in everything may be that is made of it, at the most of it.
const TIMES: usize = 4;
/// What an engine takes by itself.
const FIXED: usize = 4 * MIB;
/// What it takes for a tool that it remembers, however short its definition is, with the event of it.
const OF_A_TOOL: usize = 5 << 10;

/// What goes over the wire, and what is expected of it.
struct Case {
    name: &'static str,
    wire: Vec<(Direction, Vec<u8>)>,
    /// Events, as [`short`] has them; those that follow each other and are alike once, with how many.
    said: Vec<String>,
    /// Counters that are not as they are of a server that was opened and answered nothing.
    counted: Vec<(&'static str, u64)>,
}

impl Case {
    fn new(name: &'static str) -> Self {
        Self { name, wire: Vec::new(), said: Vec::new(), counted: Vec::new() }
    }

    /// The client writes this line.
    fn c2s(mut self, line: impl Into<Vec<u8>>) -> Self {
        self.wire.push((C2S, ended(line)));
        self
    }

    /// The server does.
    fn s2c(mut self, line: impl Into<Vec<u8>>) -> Self {
        self.wire.push((S2C, ended(line)));
        self
    }

    /// The client writes these bytes.
    fn raw(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.wire.push((C2S, bytes.into()));
        self
    }

    /// The client asks for the tools, and gets these.
    fn list(self, tools: &str) -> Self {
        self.c2s(r#"{"jsonrpc":"2.0","id":9,"method":"tools/list"}"#)
            .s2c(format!(r#"{{"jsonrpc":"2.0","id":9,"result":{{"tools":{tools}}}}}"#))
    }

    fn says(mut self, said: &[&str]) -> Self {
        self.said = said.iter().map(|text| (*text).to_owned()).collect();
        self
    }

    fn counts(mut self, counted: &[(&'static str, u64)]) -> Self {
        self.counted = counted.to_vec();
        self
    }
}

fn ended(line: impl Into<Vec<u8>>) -> Vec<u8> {
    let mut line = line.into();
    line.push(b'\n');
    line
}

fn call(id: &str, arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t","arguments":{arguments}}}}}"#
    )
}

fn answer(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

fn tool(name: &str, description: &str) -> String {
    format!(r#"[{{"name":"{name}","description":"{description}"}}]"#)
}

/// An event in short: its type, and of the rest what tells one from another.
fn short(event: &Value) -> String {
    let kind = event["type"].as_str().unwrap().trim_start_matches("mcp_").to_owned();
    let fields = ["tool_name", "jsonrpc_id", "status", "action", "guard", "bytes"];
    let kept = |field: &&str| match &event[*field] {
        Value::Null => None,
        Value::String(text) if text.len() > 60 => Some(format!(" {} bytes", text.len())),
        // Of names that are numbered, the first letters.
        Value::String(text) if *field == "tool_name" => {
            Some(format!(" {}", text.trim_end_matches(|c: char| c.is_ascii_digit()).escape_debug()))
        }
        Value::String(text) => Some(format!(" {}", text.escape_debug())),
        Value::Object(leaf) => leaf.get("type").map(|kind| format!(" <{kind}>")),
        other if *field != "bytes" || kind == "capture_gap" => Some(format!(" {other}")),
        _ => None,
    };
    let rest: String = fields.iter().filter_map(kept).collect();
    let own = event["detections"].as_array().into_iter().flatten();
    let found: String = std::iter::once(&event["detection"])
        .chain(own)
        .filter_map(|detection| Some(format!(" !{}", detection["pattern"].as_str()?)))
        .collect();
    let input = event["input"].to_string();
    let cut =
        ["truncated", "invalid"].into_iter().find(|kind| input.contains(&format!("\"type\":\"{kind}\"")));
    let cut = cut.map_or(String::new(), |kind| format!(" ({kind})"));
    format!("{kind}{rest}{cut}{found}")
}

fn cases() -> Vec<Case> {
    // Here, and with every check there is.
    let tools = if std::env::var_os("MCPWARDEN_TEST_FULL").is_none() { 100_000 } else { 300_000 };
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let deep_object = format!("{}1{}", r#"{"a":"#.repeat(10_000), "}".repeat(10_000));
    let mib = "x".repeat(MIB);
    let huge = "lorem ipsum dolor ".repeat(16 * MIB / 18 - 20);
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    vec![
        Case::new("a call nested 10,000 deep").c2s(call("1", &deep)).s2c(answer("1", &deep_object))
            .says(&["tool_called t 1 allow (truncated)", "tool_result t 1 ok allow"]),
        Case::new("a definition nested 10,000 deep")
            .list(&format!(r#"[{{"name":"t","inputSchema":{deep_object}}}]"#))
            .says(&["tool_seen t new"]),
        Case::new("a string of 16 MiB")
            .c2s(call("1", &format!("\"{huge}\"")))
            .s2c(answer("1", r#"{"content":[{"type":"text","text":"ok"}]}"#))
            .says(&["tool_called t 1 allow", "tool_result t 1 ok allow"]),
        Case::new("a frame over the bound").c2s(call("1", &format!("\"{huge}{mib}\""))).c2s(call("2", "1"))
            .says(&["capture_gap 17825505", "tool_called t 2 allow"])
            .counts(&[("gap_bytes", 17825505), ("gaps", 1)]),
        Case::new("duplicate keys of a message: the last counts, and each is found").c2s(
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping","method":"tools/call","params":{"name":"a","name":"b"}}"#,
        )
            .says(&["tool_called b 2 alert !duplicate-member !duplicate-member", "detection b 2 alert !duplicate-member × 2"])
            .counts(&[("detections", 2)]),
        Case::new("duplicate keys of arguments are found").c2s(call("1", r#"{"a":1,"a":2}"#))
            .says(&["tool_called t 1 allow !duplicate-key"]),
        Case::new("duplicate keys of a definition are found")
            .list(r#"[{"name":"t","description":"one","description":"two"}]"#)
            .says(&["tool_seen t new !duplicate-key"]),
        Case::new("lone surrogates")
            .c2s(r#"{"jsonrpc":"2.0","id":"\ud800","method":"tools/call","params":{"name":"\udfff","arguments":{"\ud800":"\udc00x"}}}"#)
            .s2c(answer(r#""\ud800""#, r#"{"content":[{"type":"text","text":"\ud800"}]}"#))
            .says(&["tool_called \u{fffd} \u{fffd} allow", "tool_result \u{fffd} \u{fffd} ok allow"]),
        Case::new("ids of every kind")
            .c2s(call("1.5", "1")).s2c(answer("1.5", "{}"))
            .c2s(call("-0", "1")).s2c(answer("0.0", "{}"))
            .c2s(call("null", "1")).s2c(answer("null", "{}"))
            .c2s(call(r#""""#, "1")).s2c(answer(r#""""#, "{}"))
            .c2s(call("1e400", "1")).s2c(answer("1e400", "{}"))
            .c2s(call("123456789012345678901234567890", "1"))
            .s2c(answer("123456789012345678901234567890", "{}"))
            .c2s(call(r#"{"a":1}"#, "1")).s2c(answer(r#"{"a":1}"#, "{}"))
            .says(&["tool_called t 1.5 allow", "tool_result t 1.5 ok allow", "tool_called t -0.0 allow", "tool_result t -0.0 ok allow", "tool_called t allow", "tool_result t ok allow", "tool_called t  allow", "tool_result t  ok allow", "tool_called t 1e400 allow", "tool_result t 1e400 ok allow", "tool_called t 123456789012345678901234567890 allow", "tool_result t 123456789012345678901234567890 ok allow", "tool_called t allow", "tool_result t ok allow"]),
        Case::new("an id of 1 MiB").c2s(call(&format!("\"{mib}\""), "1")).s2c(answer(&format!("\"{mib}\""), "{}"))
            .says(&["tool_called t <\"string\"> allow", "tool_result t <\"string\"> ok allow"]),
        Case::new("an empty batch").c2s("[]")
            .counts(&[("invalid_frames", 1)]),
        Case::new("a batch of 10,000").c2s(format!("[{}]", vec![ping; 10_000].join(",")))
            .counts(&[("id_reused", 9999)]),
        Case::new("a batch of one more").c2s(format!("[{},{}]", vec![ping; 10_000].join(","), call("2", "1")))
            .says(&["detection alert !oversized-batch"])
            .counts(&[("detections", 1), ("invalid_frames", 1), ("irregular_messages", 1), ("oversized_batches", 1)]),
        Case::new("a batch that calls a thousand times")
            .c2s(format!("[{}]", vec![call("1", "1"); 1_000].join(",")))
            .says(&["tool_called t 1 allow × 1000"])
            .counts(&[("id_reused", 999)]),
        Case::new("NUL bytes").raw(b"\0\0\0\n".to_vec()).c2s(call("1", "\"a\0b\""))
            .says(&["tool_called t 1 allow"])
            .counts(&[("repaired_frames", 1)]),
        Case::new("a byte order mark").raw("\u{feff}".to_owned() + &call("1", "1") + "\n")
            .says(&["tool_called t 1 allow"]),
        Case::new("a byte order mark in the middle").c2s(call("1", "1")).raw("\u{feff}".to_owned() + &call("2", "1") + "\n")
            .says(&["tool_called t 1 allow", "tool_called t 2 allow", "detection alert !ambiguous_framing"])
            .counts(&[("detections", 1), ("irregular_messages", 1)]),
        Case::new("what is not UTF-8").c2s([&call("1", "\"")[..], "\x7f"].concat().into_bytes()).c2s({
            let mut bytes = call("2", "\"@\"").into_bytes();
            let at = bytes.iter().position(|byte| *byte == b'@').unwrap();
            bytes[at] = 0xff;
            bytes
        })
            .says(&["tool_called t 2 allow"])
            .counts(&[("invalid_frames", 1), ("lossy_frames", 1)]),
        Case::new("a length that is too long hides nothing")
            .raw(format!("Content-Length: 9999999\r\n\r\n{}\n{}\n", call("1", "1"), call("2", "1")))
            .says(&["tool_called t 1 allow", "tool_called t 2 allow"]),
        Case::new("a length that is too short hides nothing").raw(format!("Content-Length: 10\r\n\r\n{}\n", call("1", "1"))).c2s(call("2", "1"))
            .says(&["tool_called t 1 allow", "tool_called t 2 allow"]),
        Case::new("lengths that are none")
            .raw(format!("Content-Length: -1\r\n\r\n{}\n", call("1", "1")))
            .raw(format!("Content-Length: 99999999999999999999999\r\n\r\n{}\n", call("2", "1")))
            .raw(format!("Content-Length: 5\r\nContent-Length: 0\r\n\r\n{}\n", call("3", "1")))
            .says(&["tool_called t 1 allow", "tool_called t 2 allow", "tool_called t 3 allow"])
            .counts(&[("junk_bytes", 99)]),
        Case::new("a list of more tools than are remembered")
            .list(&format!("[{}]", (0..tools).map(|at| format!(r#"{{"name":"t{at}"}}"#)).collect::<Vec<_>>().join(",")))
            .says(&["capacity_exceeded", "tool_seen t new × 4096"])
            .counts(&[("registry_items_refused", tools - 4096)]),
        (0..200).fold(Case::new("a list whose next page is itself"), |case, _| {
            case.c2s(r#"{"jsonrpc":"2.0","id":9,"method":"tools/list","params":{"cursor":"x"}}"#)
                .s2c(r#"{"jsonrpc":"2.0","id":9,"result":{"tools":[{"name":"t"}],"nextCursor":"x"}}"#)
        })
            .says(&["tool_seen t new"]),
        Case::new("a tool with a name of 1 MiB").list(&tool(&mib, "")).c2s(
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{mib}"}}}}"#),
        )
            .says(&["tool_seen 256 bytes new !long-name !inspection-budget", "detection 256 bytes alert !long-name", "detection 256 bytes alert !inspection-budget", "request_warned 9", "tool_called 256 bytes 1 alert tool_poisoning"])
            .counts(&[("detections", 2), ("inspection_bounds", 1)]),
        Case::new("a name that reads otherwise than it is").list(&tool("read\\u202eelif", ""))
            .says(&["tool_seen read\\u{202e}elif new !bidi-override", "detection read\\u{202e}elif alert !bidi-override", "request_warned 9"])
            .counts(&[("detections", 1)]),
        Case::new("a description of 10 MB").list(&tool("t", &"Reads a file. ".repeat(10_000_000 / 14)))
            .says(&["tool_seen t new"]),
        Case::new("numbers")
            .c2s(call("1", "[-0,1E+2,0.1e-5]")).c2s(call("2", "[1e400]")).c2s(call("3", "[01]"))
            .list(r#"[{"name":"t","inputSchema":{"minimum":1e400,"maximum":-0,"multipleOf":1E+2}}]"#)
            .says(&[
                "tool_called t 1 allow", "tool_called t 2 allow (invalid)",
                // Lenient readers take a number with a zero before it.
                "detection alert !ambiguous_framing", "tool_called t 3 allow", "tool_seen t new",
            ])
            .counts(&[("detections", 1), ("irregular_messages", 1), ("repaired_frames", 1)]),
    ]
}

#[test]
fn hostile_bytes_yield_exactly_the_expected_events() {
    for case in cases() {
        let bytes: usize = case.wire.iter().map(|(_, bytes)| bytes.len()).sum();
        let mut wire = Wire::new(engine(&DETECTOR));
        wire.open(1, "server");
        wire.out.clear();
        let before = Memory::now().live;
        Memory::reset_peak();
        for (direction, bytes) in &case.wire {
            // As a pipe has it.
            wire.pieces(1, *direction, bytes.chunks(64 << 10));
        }
        let peak = usize::try_from(Memory::now().peak - before).unwrap_or(0);
        let said: Vec<String> = wire.events().iter().map(short).collect();
        let tools = said.iter().filter(|said| said.starts_with("tool_seen")).count();
        assert!(
            peak <= TIMES * bytes + FIXED + tools * OF_A_TOOL,
            "{}: {peak} bytes of memory for {bytes}",
            case.name
        );
        let said: Vec<String> = said
            .chunk_by(|left, right| left == right)
            .map(|alike| match alike {
                [one] => one.clone(),
                [first, ..] => format!("{first} × {}", alike.len()),
                [] => String::new(),
            })
            .collect();
        assert_eq!(said, case.said, "{}", case.name);
        let mut counters = wire.engine.counters().to_map();
        counters.extend(wire.engine.counters_by_name().remove_entry("registry_items_refused"));
        let counted: Vec<(&str, u64)> = counters
            .iter()
            .filter(|(name, count)| {
                **count > 0
                    && !["servers", "frames", "messages", "calls", "inspections_apart"]
                        .contains(&name.as_str())
            })
            .map(|(name, count)| (name.as_str(), *count))
            .collect();
        assert_eq!(counted, case.counted, "{}", case.name);
    }
}
