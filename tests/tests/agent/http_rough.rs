//! HTTP that goes wrong: clients and servers that break off, connections without end, an agent that comes late.

use std::fs::File;
use std::io::{BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::command::configured;
use mcpwarden_tests::listener::Listener;
use mcpwarden_tests::maps;
use mcpwarden_tests::peer::{self, Peer, echo, initialize, wait_until};
use mcpwarden_tests::web::{self, Server};
use mcpwarden_tests::wiring::Wiring;
use serde_json::{Value, json};
use tempfile::TempDir;

/// What the test's server makes of the id of the first request.
const SESSION: &str = "Mcp-Session-Id: session-1\r\n";

fn server() -> Result<Server> {
    Server::start((Ipv4Addr::LOCALHOST, 0).into(), Value::clone)
}

fn post(message: &Value, lines: &str) -> Vec<u8> {
    let body = message.to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n{lines}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// One connection of the test itself.
struct Raw(TcpStream, BufReader<TcpStream>);

impl Raw {
    fn connect(to: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(to).context("cannot connect")?;
        let input = BufReader::new(stream.try_clone()?);
        Ok(Self(stream, input))
    }

    fn answer(&mut self) -> Result<Vec<Value>> {
        let head = web::read_head(&mut self.1)?.context("no answer")?;
        let body = web::read_body(&head, &mut self.1)?;
        web::messages(&head, &body)
    }

    fn ask(&mut self, message: &Value, lines: &str) -> Result<()> {
        self.0.write_all(&post(message, lines))?;
        self.answer().map(drop)
    }
}

/// A shell that is connected to `to` as descriptor 3 and does `script`; `$1` … are what it is to send.
fn shell(to: SocketAddr, script: &str, parts: &[Vec<u8>]) -> Result<Child> {
    let script = format!("exec 3<>/dev/tcp/{}/{}; {script}", to.ip(), to.port());
    let mut command = Command::new("bash");
    command.args(["-c", &script, "bash"]);
    for part in parts {
        command.arg(std::str::from_utf8(part)?);
    }
    command.spawn().context("cannot start bash")
}

fn of_type<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| is(event, kind)).collect()
}

/// Waits for the end of a connection and gives all that is said of it.
fn ended(agent: &Agent, connection: u64) -> Result<Vec<Value>> {
    agent.wait_for("the end", |event| is(event, "mcp_server_exited") && event["connection"] == connection)?;
    Ok(agent.events_of(connection))
}

#[test]
fn half_sent_call_of_killed_client_is_not_reported() -> Result<()> {
    let (agent, server) = (Agent::start(&[])?, server()?);
    let whole = post(&echo(2, "half"), SESSION);
    let half = whole[..whole.len() - 20].to_vec();
    // One write each, and an answer between them.
    let script = "printf %s \"$1\" >&3; sleep 0.3; printf %s \"$2\" >&3; exec sleep 60";
    let mut client = shell(server.address(), script, &[post(&initialize(1), ""), half])?;
    let connection = agent.connection_of_client(client.id())?;
    wait_until("the client is in the middle", || server.said().len() >= 2)?;
    thread::sleep(Duration::from_millis(500));
    client.kill()?;
    client.wait()?;
    let events = ended(&agent, connection)?;
    ensure!(of_type(&events, "mcp_tool_called").is_empty(), "half a call is none: {events:#?}");
    agent.stop()?;
    Ok(())
}

#[test]
fn answer_cut_inside_a_chunk_is_not_reported() -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let to = listener.local_addr()?;
    let serving = thread::spawn(move || -> Result<()> {
        let (mut stream, _) = listener.accept()?;
        let mut input = BufReader::new(stream.try_clone()?);
        for answer in [
            "Content-Length: 38\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}  ",
            "Transfer-Encoding: chunked\r\n\r\nff\r\n{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"content\":[",
        ] {
            let head = web::read_head(&mut input)?.context("no request")?;
            web::read_body(&head, &mut input)?;
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{answer}")?;
        }
        Ok(())
    });
    let (_directory, config) = declared(to)?;
    let agent = Agent::start(&["--config", &config])?;
    let mut client = Raw::connect(to)?;
    client.ask(&initialize(1), "")?;
    client.ask(&echo(2, "x"), "").err().context("an answer that is whole")?;
    serving.join().ok().context("a panic")??;
    drop(client);
    let started = agent.wait_for("the call", |event| is(event, "mcp_tool_called"))?;
    agent.settle();
    let events = agent.events_of(started["connection"].as_u64().context("no connection")?);
    ensure!(of_type(&events, "mcp_tool_result").is_empty(), "half an answer is none: {events:#?}");
    let last = agent.stop()?;
    ensure!(last["counters"]["http_unfinished"] == 1, "{}", last["counters"]);
    Ok(())
}

fn declared(to: SocketAddr) -> Result<(TempDir, String)> {
    // Nobody but the test speaks with it.
    configured(&format!(
        "discovery: {{ list_declared: false }}\nservers: [{{ id: declared, type: http, url: \"http://{to}/mcp\" }}]\n"
    ))
}

/// How many connections follow each other.
const SHORT: u64 = 2_000;

#[test]
fn short_connections_leave_no_state_behind() -> Result<()> {
    let (agent, server) = (Agent::start(&[])?, server()?);
    let tables = ["SOCKETS", "CONFIRMED", "CHANNELS"];
    let before: Vec<usize> =
        tables.iter().map(|name| maps::entries(agent.pid(), name)).collect::<Result<_>>()?;
    Raw::connect(server.address())?.ask(&initialize(1), "")?;
    for id in 0..SHORT {
        Raw::connect(server.address())?.ask(&echo(2 + id, "short"), SESSION)?;
    }
    Raw::connect(server.address())?
        .0
        .write_all(format!("DELETE /mcp HTTP/1.1\r\n{SESSION}\r\n").as_bytes())?;
    agent.wait_for("the last call", |event| {
        is(event, "mcp_tool_result") && event["jsonrpc_id"] == 1 + SHORT
    })?;
    for (name, before) in tables.iter().zip(before) {
        wait_until(&format!("no connection is left in {name}"), || {
            maps::entries(agent.pid(), name).is_ok_and(|entries| entries <= before)
        })?;
    }
    let events = agent.events();
    for kind in ["mcp_tool_called", "mcp_tool_result"] {
        ensure!(of_type(&events, kind).len() as u64 == SHORT, "{kind}: {}", of_type(&events, kind).len());
    }
    ensure!(of_type(&events, "mcp_server_started").len() == 1, "one session is one server");
    agent.stop()?;
    Ok(())
}

/// What the kernel half captures of one user's connections at once, and somewhat more.
const OF_ONE_USER: usize = 4_096;
const CROWD: usize = OF_ONE_USER + 200;
/// No user of any host.
const STRANGER: &str = "4242";

#[test]
fn one_user_does_not_exhaust_capacity_of_others() -> Result<()> {
    let (agent, server, listener) = (Agent::start(&[])?, server()?, Listener::start()?);
    let sockets = || maps::entries(agent.pid(), "SOCKETS");
    let before = sockets()?;
    let to = listener.at(Ipv4Addr::LOCALHOST).to_string();
    let mut crowd = Peer::start(
        Wiring::Pipes,
        peer::server("dialing-server").args(["--crowd", STRANGER, &CROWD.to_string(), &to]),
    )?;
    let said = crowd.line()?.context("no crowd")?;
    ensure!(said == format!("{CROWD}\n").as_bytes(), "{}", String::from_utf8_lossy(&said));
    // Others on this host may have some as well.
    let others = 50;
    let held = sockets()?;
    ensure!(held + others >= OF_ONE_USER && held <= OF_ONE_USER + before + others, "{before}, then {held}");
    let mut client = Raw::connect(server.address())?;
    client.ask(&initialize(1), "")?;
    client.ask(&echo(2, "in spite of the crowd"), SESSION)?;
    agent
        .wait_for("another user's call", |event| is(event, "mcp_tool_called") && event["jsonrpc_id"] == 2)?;
    crowd.close()?;
    wait_until("there is room again", || sockets().is_ok_and(|entries| entries <= before + others))?;
    let mut again =
        Peer::start(Wiring::Pipes, peer::server("dialing-server").args(["--crowd", STRANGER, "500", &to]))?;
    again.line()?;
    ensure!(sockets()? + others >= 500, "there is no room for that user any more: {}", sockets()?);
    again.close()?;
    let stopped = agent.stop()?;
    let refused = stopped["counters"]["kernel_sockets_refused"].as_u64().context("no such counter")?;
    ensure!(refused as usize == CROWD - OF_ONE_USER, "{refused} were refused");
    Ok(())
}

#[test]
fn late_agent_reports_open_and_new_connections() -> Result<()> {
    let server = server()?;
    let mut old = Raw::connect(server.address())?;
    old.ask(&initialize(1), "")?;
    let (_directory, config) = declared(server.address())?;
    let agent = Agent::start(&["--config", &config])?;
    // A connection from before is seen from its next request on, and so is one of the same session from afterwards.
    old.ask(&echo(2, "before"), SESSION)?;
    let mut new = Raw::connect(server.address())?;
    new.ask(&echo(3, "after"), SESSION)?;
    old.ask(&echo(4, "before"), SESSION)?;
    agent.wait_for("the answer", |event| is(event, "mcp_tool_result") && event["jsonrpc_id"] == 4)?;
    agent.settle();
    let mut events = agent.events();
    // Others may speak MCP on this host as well.
    events.retain(|event| event["server_id"] == "declared");
    let text = |text: &str| json!({ "text": text });
    for (kind, part, expected) in [
        ("mcp_tool_called", "input", [text("before"), text("after"), text("before")]),
        ("mcp_tool_result", "status", ["ok", "ok", "ok"].map(Value::from)),
    ] {
        let found: Vec<_> =
            of_type(&events, kind).iter().map(|event| json!([event["jsonrpc_id"], event[part]])).collect();
        let expected: Vec<_> = (2..).zip(expected).map(|(id, part)| json!([id, part])).collect();
        ensure!(found == expected, "{kind}: {found:?}");
    }
    let started = of_type(&events, "mcp_server_started");
    ensure!(started.len() == 1 && started[0]["adopted"] == true, "{events:#?}");
    agent.stop()?;
    Ok(())
}

#[test]
fn child_on_inherited_connection_is_reported() -> Result<()> {
    let (agent, server) = (Agent::start(&[])?, server()?);
    let read = "read -r -d '' -t 0.5 -u 3 answer";
    let script = format!("printf %s \"$1\" >&3; {read}; (printf %s \"$2\" >&3; {read}); true");
    let mut client =
        shell(server.address(), &script, &[post(&initialize(1), ""), post(&echo(2, "child"), SESSION)])?;
    let pid = client.id();
    client.wait()?;
    let connection = agent.connection_of_client(pid)?;
    let events = ended(&agent, connection)?;
    let calls = of_type(&events, "mcp_tool_called");
    ensure!(calls.len() == 1 && calls[0]["input"] == json!({"text": "child"}), "{events:#?}");
    ensure!(of_type(&events, "mcp_tool_result").len() == 1, "the child read the answer: {events:#?}");
    agent.stop()?;
    Ok(())
}

#[test]
fn sendfile_is_a_gap_and_later_data_is_read() -> Result<()> {
    let server = server()?;
    let (_directory, config) = declared(server.address())?;
    let agent = Agent::start(&["--config", &config])?;
    let mut client = Raw::connect(server.address())?;
    client.ask(&initialize(1), "")?;
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("body");
    let unseen = post(&echo(2, "unseen"), SESSION);
    let body = unseen.windows(4).position(|end| end == b"\r\n\r\n").context("no head")? + 4;
    std::fs::write(&path, &unseen[body..])?;
    client.0.write_all(&unseen[..body])?;
    let (file, length) = (File::open(&path)?, unseen.len() - body);
    // SAFETY: both are open, and there is no pointer.
    let sent =
        unsafe { libc::sendfile(client.0.as_raw_fd(), file.as_raw_fd(), std::ptr::null_mut(), length) };
    ensure!(usize::try_from(sent) == Ok(length), "{sent} bytes were sent");
    client.answer()?;
    client.ask(&echo(3, "seen"), SESSION)?;
    agent.wait_for("the call behind it", |event| is(event, "mcp_tool_result") && event["jsonrpc_id"] == 3)?;
    agent.settle();
    let events = agent.events();
    let calls = of_type(&events, "mcp_tool_called");
    ensure!(calls.len() == 1 && calls[0]["input"] == json!({"text": "seen"}), "{calls:?}");
    let gaps = of_type(&events, "mcp_capture_gap");
    let found: Vec<_> =
        gaps.iter().map(|gap| json!([gap["direction"], gap["bytes"], gap["cause"]])).collect();
    ensure!(found == [json!(["c2s", length, "sendfile"])], "{gaps:?}");
    agent.stop()?;
    Ok(())
}

/// Of a connection to nobody declared 64 KiB are captured at first: not where a server was found before.
#[test]
fn long_message_to_known_server_is_captured_in_full() -> Result<()> {
    let (agent, server) = (Agent::start(&[])?, server()?);
    let mut first = Raw::connect(server.address())?;
    first.ask(&initialize(1), "")?;
    let connection = agent.connection_of_client(std::process::id())?;
    for id in 2..6 {
        let mut next = Raw::connect(server.address())?;
        for piece in post(&echo(id, &"x".repeat(1 << 20)), SESSION).chunks(32 << 10) {
            next.0.write_all(piece)?;
        }
        next.answer()?;
    }
    agent.wait_for("the last call", |event| is(event, "mcp_tool_result") && event["jsonrpc_id"] == 5)?;
    let events = agent.events_of(connection);
    ensure!(of_type(&events, "mcp_tool_called").len() == 4, "each call is said: {}", events.len());
    ensure!(of_type(&events, "mcp_capture_gap").is_empty(), "nothing is missing: {}", events.len());
    agent.stop()?;
    Ok(())
}
