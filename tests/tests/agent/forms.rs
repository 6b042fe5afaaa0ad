//! The forms a message can have on the wire: whatever they are, each message is reported once and as it was sent.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::framing::Framing;
use mcpwarden_tests::mini_server::blob;
use mcpwarden_tests::places;
use mcpwarden_tests::script::{Step, Write};
use mcpwarden_tests::sender::{Sending, Sent, call, initialize};
use mcpwarden_tests::transcript::{Dir, compare};
use mcpwarden_tests::wiring::Wiring;
use serde_json::{Value, json};

const WIRINGS: [Wiring; 2] = [Wiring::Pipes, Wiring::Sockets];
/// How many conversations go on at once.
const AT_ONCE: usize = 4;

/// Runs `test` on every case, a few at a time.
fn each<T: Sync>(cases: &[T], test: impl Fn(&T) -> Result<()> + Sync) -> Result<()> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<()> {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            test(case)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// A server that echoes whole lines, and writes them in pieces of `chunk` bytes (0: all at once).
fn echoing(steps: Vec<Step>, chunk: usize) -> Sending {
    let server =
        vec![places::program("echo-server").display().to_string(), "--chunk".to_owned(), chunk.to_string()];
    Sending { server, ..Sending::new(steps) }
}

/// A request that has the server write these bytes.
fn say(bytes: &[u8]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({"jsonrpc": "2.0", "id": "say", "method": "test/say", "params": {"hex": hex}}).to_string()
}

fn notification(text: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": text}})
}

fn gap_free(sent: &Sent) -> Result<()> {
    ensure!(sent.gaps().is_empty(), "gaps were reported: {:?}", sent.gaps());
    Ok(())
}

/// Sizes of the pieces that a message is written in: around what a record, a page and a pipe hold.
#[test]
fn message_in_any_number_of_writes_is_reported() -> Result<()> {
    let agent = Agent::start(&[])?;
    let chunks = [1, 2, 3, 7, 4095, 4096, 4097, 65_535, 65_536, 65_537];
    let cases: Vec<(Wiring, usize)> =
        WIRINGS.iter().flat_map(|wiring| chunks.map(|chunk| (*wiring, chunk))).collect();
    each(&cases, |(wiring, chunk)| {
        let bytes = if *chunk < 4000 { 3_000 } else { 200_000 };
        let line = |text: &str| {
            Step::Write(Write { text: Some(format!("{text}\n")), chunk: *chunk, ..Write::default() })
        };
        let steps = vec![line(&initialize()), line(&call(1, bytes)), line(&call(2, 10)), Step::AwaitLines(3)];
        let sent = Sending { wiring: *wiring, ..echoing(steps, *chunk) }.run(&agent)?;
        sent.check(&agent).with_context(|| format!("pieces of {chunk} bytes over {wiring:?}"))?;
        ensure!(sent.count("mcp_tool_result") == 2, "{chunk} over {wiring:?}: not two results");
        Ok(())
    })?;
    agent.stop().map(drop)
}

#[test]
fn message_split_at_any_byte_is_reported() -> Result<()> {
    let agent = Agent::start(&[])?;
    for wiring in WIRINGS {
        let mut steps = vec![Step::line(&initialize())];
        let length = call(100, 4).len() + 1;
        for at in 1..length as u64 {
            let line = format!("{}\n", call(100 + at, 4));
            let (head, tail) = line.split_at(at as usize);
            steps.extend([Step::text(head), Step::text(tail)]);
        }
        let sent = Sending { wiring, ..Sending::new(steps) }.run(&agent)?;
        sent.check(&agent)?;
        ensure!(sent.count("mcp_tool_called") == length - 1, "not every call");
    }
    agent.stop().map(drop)
}

/// What goes over the wire, the messages in it, and how many bytes of it are none.
struct Form {
    name: &'static str,
    wire: Vec<u8>,
    messages: Vec<Value>,
    junk: u64,
}

fn form(name: &'static str, wire: impl Into<Vec<u8>>, messages: &[&Value], junk: u64) -> Form {
    Form { name, wire: wire.into(), messages: messages.iter().copied().cloned().collect(), junk }
}

fn forms() -> Vec<Form> {
    let (a, b) = (notification("a"), notification("b"));
    let framed = |message: &Value| Framing::ContentLength.wrap(message.to_string().as_bytes());
    let with_bytes = |bytes: &[u8]| {
        let line = notification("@").to_string();
        let parts: Vec<&[u8]> = line.as_bytes().split(|byte| *byte == b'@').collect();
        [&parts.join(bytes)[..], b"\n"].concat()
    };
    let batch = json!([a, b, {"jsonrpc": "2.0", "method": "notifications/x"}]);
    vec![
        form("two in one write", format!("{a}\n{b}\n"), &[&a, &b], 0),
        form("leading blanks", format!(" \t  {a}\n"), &[&a], 0),
        form("trailing blanks", format!("{a} \t \n"), &[&a], 0),
        form("blank lines", format!("\n\n \n\t\n{a}\n\n"), &[&a], 0),
        form("CRLF", format!("{a}\r\n\r\n{b}\r\n"), &[&a, &b], 0),
        form(
            "blanks inside",
            "{ \"jsonrpc\" :\t\"2.0\", \"method\":\"notifications/message\" , \"params\" : {\"data\": \"a\"} }\n",
            &[&a],
            0,
        ),
        form("a batch", format!("{batch}\n"), &[&batch], 0),
        form("a batch of one", format!("[{a}]\n"), &[&a], 0),
        form(
            "junk between",
            format!("[info] no\nstarting up…\n{a}\nDEBUG: x\n{b}\n"),
            &[&json!("[info]"), &a, &b],
            3 + 15 + 9,
        ),
        form("junk that looks like a header", format!("Content-Type of all: none\n{a}\n"), &[&a], 26),
        form("an object that is no message", "{\"level\":30}\n", &[&json!({"level": 30})], 0),
        form("JSON that breaks off", format!("{{\"jsonrpc\n{a}\n"), &[&json!("{\"jsonrpc"), &a], 0),
        form("a line of 70,000 bytes of junk", format!("{}\n{a}\n", "x".repeat(70_000)), &[&a], 70_001),
        form(
            "two bytes that are no UTF-8",
            with_bytes(&[0xff, 0xfe]),
            &[&notification("\u{fffd}\u{fffd}")],
            0,
        ),
        form("a NUL byte", with_bytes(b"x\0y"), &[&notification("x\0y")], 0),
        form("a raw tab", with_bytes(b"x\ty"), &[&notification("x\ty")], 0),
        form("half a surrogate", with_bytes(b"\\ud800"), &[&notification("\u{fffd}")], 0),
        form("Content-Length", framed(&a), &[&a], 0),
        form("Content-Length, two", [framed(&a), framed(&b)].concat(), &[&a, &b], 0),
        form(
            "Content-Length and another header",
            format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{a}", a.to_string().len()),
            &[&a],
            0,
        ),
        form("Content-Length that lies", format!("Content-Length: 9999\r\n\r\n{a}\n{b}\n"), &[&a, &b], 0),
        form(
            "an unknown method",
            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/of-tomorrow\"}\n",
            &[&json!({"jsonrpc": "2.0", "method": "notifications/of-tomorrow"})],
            0,
        ),
        form(
            "no version",
            "{\"method\":\"notifications/message\"}\n",
            &[&json!({"method": "notifications/message"})],
            0,
        ),
        form(
            "an error without an id",
            "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"Parse error\"}}\n",
            &[&json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "Parse error"}})],
            0,
        ),
    ]
}

/// Each form from the client and from the server, all at once and byte by byte, and a message behind it.
#[test]
fn every_form_is_reported_in_both_directions() -> Result<()> {
    let agent = Agent::start(&[])?;
    let end = notification("the end");
    let cases: Vec<(Form, Dir, usize)> = [Dir::C2s, Dir::S2c]
        .iter()
        .flat_map(|dir| [0, 1].map(|chunk| (*dir, chunk)))
        .flat_map(|(dir, chunk)| forms().into_iter().map(move |form| (form, dir, chunk)))
        // That many system calls say nothing new.
        .filter(|(form, _, chunk)| *chunk == 0 || form.wire.len() < 10_000)
        .collect();
    each(&cases, |(Form { name, wire, messages, junk }, dir, chunk)| {
        let wire = [wire, end.to_string().as_bytes(), b"\n"].concat();
        let mut steps = vec![Step::line(&initialize()), Step::AwaitLines(1)];
        match dir {
            Dir::C2s => steps.push(Step::bytes(&wire).by(Default::default(), *chunk)),
            Dir::S2c => steps.push(Step::line(&say(&wire))),
        }
        let sent = echoing(steps, *chunk).run(&agent).context(*name)?;
        let reported = agent.messages(sent.connection)?;
        let reported: Vec<_> = reported.into_iter().filter(|(of, _)| of == dir).collect();
        let said = messages.iter().chain([&end]).map(|message| (*dir, message.clone()));
        // Before it: `initialize` or the answer to it.
        let said: Vec<_> = reported.first().cloned().into_iter().chain(said).collect();
        let what = || format!("{name}, {dir:?}, in pieces of {chunk} bytes");
        compare(&said, &reported).with_context(what)?;
        gap_free(&sent).with_context(what)?;
        let exited = sent.events.iter().find(|event| is(event, "mcp_server_exited")).context("no end")?;
        ensure!(
            exited["junk_bytes"] == *junk,
            "{}: {} bytes of junk, not {junk}",
            what(),
            exited["junk_bytes"]
        );
        Ok(())
    })?;
    agent.stop().map(drop)
}

/// What may stand before the very first message.
#[test]
fn prefix_before_first_message_is_accepted() -> Result<()> {
    let agent = Agent::start(&[])?;
    let first: Value = serde_json::from_str(&initialize())?;
    let cases: [(&str, Vec<u8>); 6] = [
        ("a byte order mark", format!("\u{feff}{first}\n").into()),
        ("blanks", format!("  \t{first}\n").into()),
        ("blank lines", format!("\r\n\n{first}\n").into()),
        ("a long line of blanks", format!("{}{first}\n", " ".repeat(100)).into()),
        ("Content-Length", Framing::ContentLength.wrap(first.to_string().as_bytes())),
        ("a batch", format!("[{first}]\n").into()),
    ];
    let cases: Vec<_> = cases.iter().flat_map(|case| [0, 1].map(|chunk| (case, chunk))).collect();
    each(&cases, |((name, wire), chunk)| {
        let steps =
            vec![Step::bytes(wire).by(Default::default(), *chunk), Step::text("\n"), Step::line(&call(1, 5))];
        let sent = Sending::new(steps).run(&agent).context(*name)?;
        let said = [first.clone(), serde_json::from_str(&call(1, 5))?].map(|message| (Dir::C2s, message));
        let mut reported = agent.messages(sent.connection)?;
        reported.retain(|(dir, _)| *dir == Dir::C2s);
        compare(&said, &reported).with_context(|| format!("{name} in pieces of {chunk} bytes"))?;
        gap_free(&sent)
    })?;
    agent.stop().map(drop)
}

/// Large messages both ways, each in one blocking write.
#[test]
fn large_blocking_writes_are_reported_both_ways() -> Result<()> {
    let agent = Agent::start(&[])?;
    for wiring in WIRINGS {
        for bytes in [100_000, 1 << 20, 16 << 20] {
            let text = blob(bytes);
            let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
                "name": "echo", "arguments": {"text": text}
            }});
            let directory = tempfile::tempdir()?;
            let file = directory.path().join("line");
            std::fs::write(&file, format!("{request}\n"))?;
            let steps = vec![
                Step::line(&initialize()),
                Step::AwaitLines(1),
                Step::Write(Write { file: Some(file), ..Write::default() }),
                Step::AwaitLines(2),
                Step::line(&call(2, 20)),
                Step::AwaitLines(3),
            ];
            let sent = Sending { wiring, ..echoing(steps, 0) }.run(&agent)?;
            let what = || format!("{bytes} bytes over {wiring:?}");
            ensure!(sent.received.len() > bytes, "{}: the server echoed less", what());
            sent.check(&agent).with_context(what)?;
            ensure!(sent.count("mcp_tool_result") == 2, "{}: not two results", what());
        }
    }
    agent.stop().map(drop)
}

#[test]
fn every_kind_of_id_is_matched_to_its_answer() -> Result<()> {
    let agent = Agent::start(&[])?;
    let ids = [
        "1",
        "1.0",
        "-7",
        "1.5",
        "1e3",
        "0",
        "\"a\"",
        "\"1\"",
        "\"\"",
        "\"\\u00e4 \\\" \\\\\"",
        "null",
        "9007199254740993",
        "\"0123456789abcdef0123456789abcdef\"",
    ];
    for wiring in WIRINGS {
        let mut steps = vec![Step::line(&initialize()), Step::AwaitLines(1)];
        for (number, id) in ids.iter().enumerate() {
            let line = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t{number}","arguments":{{}}}}}}"#
            );
            // One after the other: 1 and 1.0 are one id.
            steps.extend([Step::line(&line), Step::AwaitLines(number + 2)]);
        }
        let sent = Sending { wiring, ..Sending::new(steps) }.run(&agent)?;
        sent.check(&agent)?;
        for (number, id) in ids.iter().enumerate() {
            let id: Value = serde_json::from_str(id)?;
            for kind in ["mcp_tool_called", "mcp_tool_result"] {
                let about = |event: &&Value| is(event, kind) && event["tool_name"] == format!("t{number}");
                let found: Vec<_> = sent.events.iter().filter(about).collect();
                ensure!(found.len() == 1 && found[0]["jsonrpc_id"] == id, "{kind} of id {id}: {found:?}");
            }
        }
    }
    agent.stop().map(drop)
}

/// Errors, unknown methods, and requests of the server with the ids that the client uses too.
#[test]
fn answers_are_matched_to_their_requests() -> Result<()> {
    let agent = Agent::start(&[])?;
    let refusal = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "no", "data": [1]}});
    let failed = json!({"jsonrpc": "2.0", "id": 2, "result": {"content": [], "isError": true}});
    let unknown = json!({"jsonrpc": "2.0", "id": 3, "error": {"code": -32601, "message": "none"}});
    let asks = json!({"jsonrpc": "2.0", "id": 1, "method": "roots/list"});
    let roots = json!({"jsonrpc": "2.0", "id": 1, "result": {"roots": []}});
    let steps = vec![
        Step::line(&initialize()),
        Step::AwaitLines(1),
        // Ids as text, so that the server (which knows no better) is not asked to answer these.
        Step::line(&json!([call_of(1, "refused"), call_of(2, "failing"), of_tomorrow(3)]).to_string()),
        Step::AwaitLines(2),
        Step::line(&say(format!("{asks}\n{failed}\n{unknown}\n").as_bytes())),
        Step::AwaitLines(5),
        Step::line(&roots.to_string()),
        Step::line(&call_of(1, "refused").to_string()),
        Step::line(&say(format!("{refusal}\n").as_bytes())),
    ];
    let sent = Sending::new(steps).run(&agent)?;
    let answers: Vec<_> = sent
        .events
        .iter()
        .filter(|event| is(event, "mcp_tool_result"))
        .map(|event| (event["tool_name"].clone(), event["status"].clone(), event["error_code"].clone()))
        .collect();
    let ok = |tool: &str, status: &str| (json!(tool), json!(status), Value::Null);
    // The echo server answers the last call before it is told to refuse it: a call has one result, and that is the first.
    let expected = [ok("refused", "ok"), ok("failing", "error"), ok("refused", "ok")];
    ensure!(answers == expected, "{answers:?}");
    let methods: Vec<_> = sent
        .events
        .iter()
        .filter(|event| {
            is(event, "mcp_message") && ["response", "error"].iter().any(|kind| event["kind"] == *kind)
        })
        .map(|event| (event["direction"].clone(), event["method"].clone()))
        .collect();
    for expected in [("s2c", "initialize"), ("s2c", "test/of-tomorrow"), ("c2s", "roots/list")] {
        let expected = (json!(expected.0), json!(expected.1));
        ensure!(methods.contains(&expected), "{expected:?} is not among {methods:?}");
    }
    agent.stop().map(drop)
}

fn call_of(id: u64, tool: &str) -> Value {
    mcpwarden_tests::peer::call(id, tool, &json!({}))
}

fn of_tomorrow(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "test/of-tomorrow"})
}

/// 1,000 requests that nobody waits for the answers of: in one write, and each in a write of its own.
#[test]
fn pipelined_request_burst_is_fully_reported() -> Result<()> {
    const REQUESTS: u64 = 1_000;
    let agent = Agent::start(&[])?;
    let burst: String = (1..=REQUESTS).map(|id| format!("{}\n", call(1_000 + id, 60))).collect();
    let one = call(1_001, 60).len() + 1;
    for wiring in WIRINGS {
        for chunk in [0, one] {
            let steps = vec![
                Step::line(&initialize()),
                Step::AwaitLines(1),
                Step::Write(Write { text: Some(burst.clone()), chunk, ..Write::default() }),
                Step::AwaitLines(1 + REQUESTS as usize),
            ];
            let sent = Sending { wiring, ..Sending::new(steps) }.run(&agent)?;
            let what = || format!("writes of {chunk} bytes over {wiring:?}");
            sent.check(&agent).with_context(what)?;
            for kind in ["mcp_tool_called", "mcp_tool_result"] {
                ensure!(sent.count(kind) == REQUESTS as usize, "{}: {} {kind}", what(), sent.count(kind));
            }
        }
    }
    agent.stop().map(drop)
}

/// Servers that start at once with the same first messages and use the same ids.
#[test]
fn equal_ids_on_concurrent_servers_are_kept_apart() -> Result<()> {
    const SERVERS: u64 = 4;
    let agent = Agent::start(&[])?;
    let senders = (0..SERVERS).map(|number| {
        let calls = (1..=50).flat_map(|id| {
            let own = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
                "name": "echo", "arguments": {"text": format!("server {number}, call {id}")}
            }});
            [Step::line(&own.to_string()), Step::AwaitLines(1 + id)]
        });
        let steps = [Step::line(&initialize()), Step::AwaitLines(1)].into_iter().chain(calls).collect();
        echoing(steps, 0).start()
    });
    let senders: Vec<_> = senders.collect::<Result<_>>()?;
    for sender in senders {
        let sent = sender.finish(&agent)?;
        sent.check(&agent)?;
        ensure!(sent.count("mcp_tool_result") == 50, "not every answer was told as one to a call");
    }
    agent.stop().map(drop)
}
