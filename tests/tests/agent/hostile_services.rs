//! Guard services that do their worst: the agent goes on, says so, decides by `failure_mode`, and reports nothing late for them.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::command::configured;
use mcpwarden_tests::peer::{self, Peer, initialize, server};
use mcpwarden_tests::wiring::Wiring;
use serde_json::{Value, json};

/// How long a guard has.
const TIMEOUT: Duration = Duration::from_millis(500);
/// A service that answers nothing is not to hold up events for as long as this.
const LATE: Duration = Duration::from_secs(10);

/// What a service does with a request.
#[derive(Clone, Copy)]
enum Hostile {
    /// It never answers.
    Silence,
    /// It sends this, and then a byte of it again and again, ten a second.
    Drip(&'static [u8]),
    /// It sends this, and blanks behind it as fast as they are taken.
    Flood(&'static [u8]),
    /// It sends this.
    Say(&'static [u8]),
}
use Hostile::{Drip, Flood, Say, Silence};

/// Each with its name, and a part of why it is failing.
const SERVICES: [(&str, Hostile, &str); 9] = [
    ("silent", Silence, "no answer in time"),
    ("dripping", Drip(b"HTTP/1.1 200 OK\r\n\r\n{"), "no answer in time"),
    ("dripping-head", Drip(b"HTTP/1.1 200 OK\r\nx: "), "no answer in time"),
    ("endless", Flood(b"HTTP/1.1 200 OK\r\n\r\n"), "longer than"),
    ("ten-gigabytes", Flood(b"HTTP/1.1 200 OK\r\ncontent-length: 10737418240\r\n\r\n"), "longer than"),
    (
        "redirecting",
        Say(b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"),
        "redirect",
    ),
    ("broken", Say(b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n"), "500"),
    (
        "nan",
        Say(b"HTTP/1.1 200 OK\r\ncontent-length: 33\r\n\r\n{\"decision\":\"allow\",\"score\": NaN }"),
        "",
    ),
    ("no-http", Say(b"SSH-2.0-OpenSSH_10.0\r\n"), "connection fails"),
];

fn start(hostile: Hostile) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // One that is cut off has nothing to say.
            thread::spawn(move || serve(stream, hostile).ok());
        }
    });
    Ok(address)
}

fn serve(mut stream: TcpStream, hostile: Hostile) -> Result<()> {
    let mut request = [0; 4096];
    let _ = stream.read(&mut request)?;
    match hostile {
        Silence => thread::sleep(Duration::from_secs(60)),
        Say(bytes) => stream.write_all(bytes)?,
        Drip(bytes) => {
            stream.write_all(bytes)?;
            for _ in 0..600 {
                thread::sleep(Duration::from_millis(100));
                stream.write_all(b" ")?;
            }
        }
        Flood(bytes) => {
            stream.write_all(bytes)?;
            // As much as it says, unless nobody reads it.
            for _ in 0..160 * 1024 {
                stream.write_all(&[b' '; 65_536])?;
            }
        }
    }
    Ok(())
}

fn resident_kib(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").trim().parse()?)
}

#[test]
fn hostile_services_decide_by_failure_mode_and_hold_up_nothing() -> Result<()> {
    for (mode, denies) in [("fail_open", false), ("fail_closed", true)] {
        let mut guards = String::new();
        for (name, hostile, _) in SERVICES {
            guards.push_str(&format!(
                "  - {{ kind: http, name: {name}, failure_mode: {mode}, runs_on: [tool_invoke], timeout_ms: {}, \
                 config: {{ url: 'http://{}/' }} }}\n",
                TIMEOUT.as_millis(),
                start(hostile)?
            ));
        }
        let (_directory, config) = configured(&format!("guards:\n{guards}"))?;
        let agent = Agent::start(&["--config", &config])?;
        let mut peer = Peer::start(Wiring::Pipes, &mut server("benign-server"))?;
        peer.ask(&initialize(0))?;
        peer.ask(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }))?;
        let connection = agent.connection_of_server(peer.pid())?;
        let before = resident_kib(agent.pid())?;
        for id in 2..22 {
            let asked = Instant::now();
            peer.ask(&peer::call(id, "write_file", &json!({})))?;
            let called = agent.wait_for(&format!("{mode}: the call {id}"), |event| {
                is(event, "mcp_tool_called") && event["connection"] == connection && event["jsonrpc_id"] == id
            })?;
            ensure!(asked.elapsed() < LATE, "{mode}: {id} was reported after {:?}", asked.elapsed());
            ensure!(denies || called["action"] != "block", "{mode}: {called}");
        }
        for (name, _, why) in SERVICES {
            let failing: Value = agent.wait_for(&format!("{mode}: {name}"), |event| {
                is(event, "agent_guard_failing") && event["guard_name"] == name
            })?;
            let reason = failing["reason"].as_str().unwrap_or_default();
            ensure!(failing["denies"] == denies && reason.contains(why), "{mode}: {failing}");
        }
        if denies {
            let called = agent.wait_for(&format!("{mode}: a denied call"), |event| {
                is(event, "mcp_tool_called")
                    && event["connection"] == connection
                    && event["action"] == "block"
            })?;
            ensure!(called["code"] == "guard_denied", "{called}");
        }
        let grown = resident_kib(agent.pid())?.saturating_sub(before);
        ensure!(grown < 64 * 1024, "{mode}: the agent grew by {grown} KiB");
        peer.close()?;
        agent.stop()?;
    }
    Ok(())
}
