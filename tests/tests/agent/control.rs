//! Events followed at the control socket: what is printed, as it is said, to the end of the agent.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::patience::patience;
use mcpwarden_tests::peer::{Peer, await_exit, call, echo, initialize, server, wait_until};
use mcpwarden_tests::wiring::Wiring;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// Who follows: its lines, as they come, and whether they had an end.
struct Follower {
    lines: Arc<Mutex<Vec<String>>>,
    reader: JoinHandle<Result<()>>,
}

fn seq(event: &Value) -> Option<u64> {
    event["seq"].as_u64()
}

/// Asks to follow, and reads what is answered up to the body.
fn ask(agent: &Agent, query: &str) -> Result<(String, BufReader<UnixStream>)> {
    let mut stream = UnixStream::connect(agent.directory().join("run/control.sock"))?;
    stream.set_read_timeout(Some(patience(Duration::from_secs(30))))?;
    stream.write_all(format!("GET /v1/events{query} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes())?;
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        ensure!(stream.read_line(&mut head)? > 0, "no head: {head:?}");
    }
    Ok((head, stream))
}

impl Follower {
    /// Follows from now on.
    fn start(agent: &Agent, query: &str) -> Result<Self> {
        let (head, stream) = ask(agent, query)?;
        ensure!(head.starts_with("HTTP/1.1 200 ") && head.contains("application/x-ndjson"), "{head}");
        let lines = Arc::default();
        let collected = Arc::clone(&lines);
        Ok(Self { lines, reader: thread::spawn(move || collect(stream, &collected)) })
    }

    /// The place in the trail of the last event so far.
    fn last(&self) -> Option<u64> {
        let lines = self.lines.lock().ok()?;
        seq(&serde_json::from_str(lines.last()?).ok()?)
    }

    /// All lines, once they had an end.
    fn finish(self) -> Result<Vec<Value>> {
        self.reader.join().ok().context("the reader failed")??;
        let lines = self.lines.lock().ok().context("the reader failed")?;
        lines.iter().map(|line| serde_json::from_str(line).with_context(|| line.clone())).collect()
    }
}

/// Reads a body in chunks (RFC 9112, 7.1), each of whole lines, to its last.
fn collect(mut stream: BufReader<UnixStream>, lines: &Mutex<Vec<String>>) -> Result<()> {
    loop {
        let mut size = String::new();
        stream.read_line(&mut size)?;
        let size = usize::from_str_radix(size.trim_end(), 16).with_context(|| format!("{size:?}"))?;
        let mut chunk = vec![0; size + 2];
        stream.read_exact(&mut chunk)?;
        let chunk = chunk.strip_suffix(b"\r\n").context("a chunk has no end")?;
        if chunk.is_empty() {
            return Ok(());
        }
        let text = std::str::from_utf8(chunk)?.strip_suffix('\n').context("half a line")?;
        let mut lines = lines.lock().ok().context("the reader failed")?;
        lines.extend(text.lines().map(str::to_owned));
    }
}

/// A conversation with a server, with a poisoned one, and a call of a tool that is denied.
fn converse(agent: &Agent) -> Result<()> {
    let mut connections = Vec::new();
    for name in ["benign-server", "poisoned-server"] {
        let mut peer = Peer::start(Wiring::Pipes, &mut server(name))?;
        peer.ask(&initialize(0))?;
        peer.ask(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))?;
        for id in 2..50 {
            peer.ask(&echo(id, "x"))?;
        }
        peer.ask(&call(50, "add", &json!({"a": 1, "b": 2})))?;
        connections.push(agent.connection_of_server(peer.pid())?);
        peer.close()?;
    }
    connections.into_iter().try_for_each(|connection| await_exit(agent, connection).map(drop))
}

#[test]
fn follower_gets_exactly_the_printed_events() -> Result<()> {
    let mut agent = Agent::start(&[])?;
    let all = Follower::start(&agent, "")?;
    let bad = Follower::start(&agent, "?severity=medium")?;
    let calls = Follower::start(&agent, "?server=benign-server&type=mcp_tool_called&type=mcp_tool_result")?;
    converse(&agent)?;
    // It comes while the agent runs.
    let last = agent.all_events().last().and_then(seq);
    wait_until("all of it", || all.last() >= last)?;
    agent.signal(Signal::SIGTERM)?;
    agent.wait_for_end()?;
    let stopped = agent.wait_for("the last event", |event| is(event, "agent_stopped"))?;
    let found_all = all.finish()?;
    let first = found_all.first().and_then(seq);
    let printed: Vec<Value> = agent.all_events().into_iter().filter(|event| seq(event) >= first).collect();

    let severities = ["medium", "high", "critical"];
    let severity = |event: &Value| {
        let said = event["detection"]["severity"].as_str().or(event["severity"].as_str());
        said.is_some_and(|said| severities.contains(&said))
    };
    let of_calls = |event: &Value| {
        event["server_id"] == "benign-server"
            && (is(event, "mcp_tool_called") || is(event, "mcp_tool_result"))
    };
    let wanted =
        |of: &dyn Fn(&Value) -> bool| printed.iter().filter(|event| of(event)).cloned().collect::<Vec<_>>();
    let detections = wanted(&|event| is(event, "mcp_detection") && severity(event));
    ensure!(!detections.is_empty(), "nothing was found in the poisoned server");
    let found = bad.finish()?;
    ensure!(
        found.iter().filter(|event| is(event, "mcp_detection")).eq(detections.iter()),
        "{found:?}, not {detections:?}"
    );
    let expected = wanted(&of_calls);
    ensure!(expected.len() >= 98, "{} calls and answers", expected.len());
    for (name, found, expected) in [("calls", calls.finish()?, expected), ("all", found_all, printed)] {
        let differs = found.iter().zip(&expected).position(|(one, other)| one != other);
        ensure!(
            found.len() == expected.len() && differs.is_none(),
            "{name}: {} of {}, the first other one is {differs:?}",
            found.len(),
            expected.len()
        );
    }
    let counted = |name: &str| stopped["counters"][name].as_u64();
    ensure!(
        [counted("control_events_lost"), counted("control_followers_refused")] == [Some(0); 2]
            && counted("control_events_sent").is_some_and(|sent| sent >= 98),
        "{stopped}"
    );
    Ok(())
}

/// Root has places for so many.
const PLACES: usize = 8;

/// One too many is told so, and takes the place of nobody who asks; who leaves makes room.
#[test]
fn excess_follower_is_refused() -> Result<()> {
    let agent = Agent::start(&[])?;
    let mut following = Vec::new();
    for _ in 0..PLACES {
        let (head, stream) = ask(&agent, "")?;
        ensure!(head.starts_with("HTTP/1.1 200 "), "{head}");
        following.push(stream);
    }
    let (head, mut stream) = ask(&agent, "")?;
    let mut body = String::new();
    stream.read_to_string(&mut body)?;
    ensure!(head.starts_with("HTTP/1.1 503 ") && body.lines().count() == 1, "{head}{body}");
    let refused: Value = serde_json::from_str(&body)?;
    ensure!(refused["error"]["code"] == "busy", "{refused}");
    agent.tell(&["blocks"])?.expect("a command", 0, "nothing is blocked")?;
    following.pop();
    wait_until("a place", || ask(&agent, "").is_ok_and(|(head, _)| head.starts_with("HTTP/1.1 200 ")))?;
    drop(following);
    agent.stop()?;
    Ok(())
}

/// Nothing waits for who reads nothing: the agent sees and prints all, and ends in time.
#[test]
fn idle_follower_does_not_stall_the_agent() -> Result<()> {
    let agent = Agent::start(&[])?;
    let (head, _unread) = ask(&agent, "")?;
    ensure!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let mut peer = Peer::start(Wiring::Pipes, &mut server("echo-server"))?;
    peer.ask(&initialize(0))?;
    let connection = agent.connection_of_server(peer.pid())?;
    // Twice what waits for one.
    let text = "x".repeat(20_000);
    for id in 1..=100 {
        peer.ask(&echo(id, &text))?;
    }
    peer.close()?;
    await_exit(&agent, connection)?;
    let answers = agent.events_of(connection).iter().filter(|event| is(event, "mcp_tool_result")).count();
    ensure!(answers == 100, "{answers} answers");
    let stopped = agent.stop()?;
    let lost = stopped["counters"]["control_events_lost"].as_u64();
    ensure!(lost.is_some_and(|lost| lost > 0), "{lost:?}");
    Ok(())
}
