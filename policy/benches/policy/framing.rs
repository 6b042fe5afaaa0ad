//! What it costs to read as every reader does, on streams of honest servers: beside a reader of lines that takes each for a
//! message or nothing, and beside all that becomes of the message.

use std::hint::black_box;
use std::time::{Duration, Instant};

use mcpwarden_policy::protocol::{self, Otherwise};
use mcpwarden_policy::wire::{self, Cut, FrameCutter, Limits};
use mcpwarden_policy::{Direction, Timestamp};
use serde_json::json;

use crate::engine::{Subject, spread};

const ROUNDS: usize = 31;
/// Bytes of a stream.
const BYTES: usize = 200_000;
/// Bytes of a record, where messages are longer.
const RECORD: usize = 16 * 1024;

/// Measures and prints.
pub fn run(subject: &mut Subject) {
    let mut shares = Vec::new();
    for (name, direction, message) in messages() {
        let line = format!("{message}\n");
        let count = (BYTES / line.len()).max(1);
        let stream = line.repeat(count);
        let records: Vec<&[u8]> = stream.as_bytes().chunks(line.len().min(RECORD)).collect();
        let [mut strict, mut lenient, mut engine]: [Vec<Duration>; 3] = Default::default();
        for _ in 0..ROUNDS {
            strict.push(time(|| assert_eq!(black_box(by_lines(&records)), count)));
            lenient.push(time(|| assert_eq!(black_box(by_all_readers(&records, direction)), count)));
            engine.push((0..count).map(|_| handled(subject, direction, &message)).sum());
        }
        let per = |times: &[Duration]| {
            times.iter().map(|time| time.as_secs_f64() * 1e9 / stream.len() as f64).collect::<Vec<f64>>()
        };
        let more = strict.iter().zip(&lenient).zip(&engine).map(|((strict, lenient), engine)| {
            // The engine reads within frames itself; cutting them is beside it.
            100.0 * (lenient.as_secs_f64() - strict.as_secs_f64())
                / (engine.as_secs_f64() + strict.as_secs_f64())
        });
        let more: Vec<f64> = more.collect();
        println!(
            "framing, {name} of {} bytes: lines {}, all readers {}, the engine {}; all readers add {}",
            line.len(),
            spread(per(&strict), " ns/B"),
            spread(per(&lenient), " ns/B"),
            spread(per(&engine), " ns/B"),
            spread(more.clone(), " %"),
        );
        shares.extend(more);
    }
    println!("framing, all of them: all readers add {} to what a message costs", spread(shares, " %"));
}

/// How long the engine takes for a message, behind the request that it answers.
fn handled(subject: &mut Subject, direction: Direction, message: &str) -> Duration {
    if direction == Direction::ServerToClient {
        let method = if message.contains("\"tools\"") { "tools/list" } else { "tools/call" };
        let params = json!({"name": "read_file", "arguments": {}});
        let ask = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string();
        subject.frame(1, Direction::ClientToServer, &ask);
    }
    let took = time(|| subject.frame(1, direction, message));
    subject.out.clear();
    took
}

/// Messages as servers and clients write them.
fn messages() -> Vec<(&'static str, Direction, String)> {
    let prose = "The harbour was built in the year 1893 and has been enlarged twice since. ";
    let tool = |at: usize| {
        json!({"name": format!("get_record_{at}"), "title": format!("Get record {at}"),
            "description": prose, "inputSchema": {"type": "object", "properties": {
                "format": {"type": "string", "enum": ["text", "html"], "description": "How to return it."},
                "pages": {"type": "integer", "minimum": 1, "maximum": 500, "default": 20}}}})
    };
    let tools: Vec<_> = (0..30).map(tool).collect();
    let text = |text: &str| json!({"content": [{"type": "text", "text": text}], "isError": false});
    let answer = |result| json!({"jsonrpc": "2.0", "id": 7, "result": result}).to_string();
    vec![
        (
            "a call",
            Direction::ClientToServer,
            json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "read_file",
                "arguments": {"path": "/srv/notes/a.txt", "head": 20, "query": prose}}})
            .to_string(),
        ),
        ("an answer", Direction::ServerToClient, answer(text(prose))),
        ("a long answer", Direction::ServerToClient, answer(text(&prose.repeat(1_000)))),
        (
            "an answer in Russian",
            Direction::ServerToClient,
            answer(text(&"Гавань построена в 1893 году. ".repeat(200))),
        ),
        (
            "an answer with JSON in it",
            Direction::ServerToClient,
            answer(text(
                &json!({"items": (0..300).map(|id| json!({"id": id, "name": "item"})).collect::<Vec<_>>()})
                    .to_string(),
            )),
        ),
        ("a list", Direction::ServerToClient, answer(json!({"tools": tools}))),
    ]
}

/// What a reader of lines takes for messages.
fn by_lines(records: &[&[u8]]) -> usize {
    let (mut held, mut scratch, mut found) = (Vec::new(), String::new(), 0);
    for record in records {
        let mut rest = *record;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = (&rest[..end], &rest[end + 1..]);
            if held.is_empty() {
                found += messages_in(line, &mut scratch);
            } else {
                held.extend_from_slice(line);
                found += messages_in(&held, &mut scratch);
                held.clear();
            }
            rest = after;
        }
        held.extend_from_slice(rest);
    }
    found
}

fn messages_in(frame: &[u8], scratch: &mut String) -> usize {
    protocol::parse(frame, scratch).map_or(0, |parsed| parsed.messages.len())
}

/// What all readers together do.
fn by_all_readers(records: &[&[u8]], direction: Direction) -> usize {
    let mut cutter = FrameCutter::new(Limits::default());
    let mut found = 0;
    for record in records {
        cutter.push(record, Timestamp(0), &mut |cut| {
            let Cut::Frame { bytes, .. } = cut else { return };
            let mut scratch = String::new();
            if let Ok(parsed) = protocol::parse(bytes, &mut scratch) {
                found += parsed.messages.len();
                for message in &parsed.messages {
                    let Otherwise { respelled, others, .. } = Otherwise::of(message.raw, direction);
                    found += usize::from(respelled.is_some()) + others.len();
                }
            }
            wire::messages_within(bytes, true, &mut |_, _| found += 1);
        });
    }
    found
}

fn time(run: impl FnOnce()) -> Duration {
    let started = Instant::now();
    run();
    started.elapsed()
}
