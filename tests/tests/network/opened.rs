//! Connections that were open when the agent started, or before what they lead to became denied.

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::command::configured;
use mcpwarden_tests::patience::patience;
use mcpwarden_tests::peer::{Peer, dial, initialize, server, wait_until};
use mcpwarden_tests::places;
use mcpwarden_tests::wiring::Wiring;
use serde_json::{Value, json};

/// A process with sockets of every kind open to its own port.
struct Holder {
    peer: Peer,
    port: u16,
}

/// Kinds of sockets that a holder has.
const KINDS: &str = "tcp-IPv4 tcp-IPv6 tcp-v4-mapped udp-IPv4 udp-IPv6 udp-v4-mapped";

impl Holder {
    fn start(wrapper: &[&str]) -> Result<Self> {
        let (program, args) = wrapper.split_first().context("no wrapper")?;
        let mut command = Command::new(program);
        command.args(args).arg(places::program("dialing-server")).arg("--hold");
        let mut peer = Peer::start(Wiring::Pipes, &mut command)?;
        let port = said(&mut peer)?.parse().context("no port")?;
        Ok(Self { peer, port })
    }

    /// Which of its sockets are alive.
    fn alive(&mut self) -> Result<String> {
        self.peer.write(b"\n")?;
        said(&mut self.peer)
    }
}

fn said(peer: &mut Peer) -> Result<String> {
    let line = peer.line()?.context("it ended")?;
    Ok(String::from_utf8_lossy(&line).trim().to_owned())
}

#[test]
fn sockets_of_every_kind_and_namespace_are_closed() -> Result<()> {
    let here = ["env"];
    let elsewhere = ["unshare", "--net", "sh", "-c", "ip link set lo up && exec \"$0\" \"$@\""];
    let (mut first, mut second) = (Holder::start(&here)?, Holder::start(&elsewhere)?);
    let mut other = Holder::start(&here)?;
    let (_directory, config) = configured(&format!(
        "network: {{ deny: [\"localhost:{}\", \"localhost:{}\"], netns: any }}\nenforcement: {{ network: deny }}\n",
        first.port, second.port
    ))?;
    for holder in [&mut first, &mut second, &mut other] {
        ensure!(holder.alive()? == KINDS, "before the agent: {}", holder.alive()?);
    }
    let agent = Agent::start(&["--config", &config])?;
    for holder in [&mut first, &mut second] {
        wait_until("the end of all", || holder.alive().is_ok_and(|alive| alive.is_empty()))?;
    }
    ensure!(other.alive()? == KINDS, "what is not denied: {}", other.alive()?);
    // Of each port: IPv4, with what is v4-mapped, and IPv6; TCP and UDP.
    let closed = |event: &&Value| is(event, "mcp_network_closed");
    wait_until("all that is said", || agent.events().iter().filter(closed).count() == 8)?;
    for event in agent.events().iter().filter(closed) {
        let mapped = event["remote_addr"].as_str().is_some_and(|to| to.starts_with("127."));
        let found = json!([event["closed"], event["left"]]);
        ensure!(found == json!([if mapped { 2 } else { 1 }, 0]), "{event}");
    }
    agent.stop()?;
    Ok(())
}

/// Whether a connection is over, as the end that was not closed sees it.
fn is_over(stream: &mut TcpStream) -> bool {
    stream.read(&mut [0]).is_ok_and(|count| count == 0)
        || stream.take_error().is_ok_and(|error| error.is_some())
}

/// `egress` of a server, `enforcement.network`, and what becomes of a connection that it has when the agent starts.
const CASES: [(&str, &str, [&str; 2], bool); 4] = [
    ("none", "deny", ["block", "high"], true),
    ("none", "observe", ["block", "high"], false),
    ("any", "deny", ["allow", "low"], false),
    ("[localhost]", "deny", ["allow", "low"], false),
];

#[test]
fn earlier_connection_is_attributed_to_its_server() -> Result<()> {
    for (egress, enforcement, [action, severity], closed) in CASES {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let to = listener.local_addr()?;
        let mut peer = Peer::start(Wiring::Pipes, &mut server("dialing-server"))?;
        peer.ask(&initialize(1))?;
        dial(&mut peer, 2, "holder", to)?;
        let (mut accepted, _) = listener.accept()?;
        accepted.set_nonblocking(true)?;
        let (_directory, config) = configured(&format!(
            "servers: [{{ id: dialer, command: dialing-server, egress: {egress} }}]\n\
             enforcement: {{ network: {enforcement} }}\n"
        ))?;
        let agent = Agent::start(&["--config", &config])?;
        let event =
            agent.wait_for(&format!("{egress} {enforcement}"), |event| is(event, "mcp_server_egress"))?;
        let found = json!([
            event["server_id"],
            event["remote_addr"],
            event["pid"],
            event["action"],
            event["severity"],
            event["enforced"],
            event["adopted"],
            event["first_seen"],
        ]);
        let expected = json!(["dialer", to.to_string(), peer.pid(), action, severity, closed, true, true]);
        ensure!(found == expected, "{egress} {enforcement}: {event}");
        if closed {
            wait_until("the end of it", || is_over(&mut accepted))?;
        } else {
            std::thread::sleep(patience(Duration::from_millis(300)));
            ensure!(!is_over(&mut accepted), "{egress} {enforcement}: it was closed");
        }
        peer.close()?;
        agent.settle();
        let said = agent.events().iter().filter(|event| is(event, "mcp_server_egress")).count();
        ensure!(said == 1, "{egress} {enforcement}: it is said {said} times");
        agent.stop()?;
    }
    Ok(())
}

#[test]
fn open_connection_to_declared_server_is_reported_once() -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let to = listener.local_addr()?;
    let _before = TcpStream::connect(to)?;
    let _accepted = listener.accept()?;
    let (_directory, config) = configured(&format!(
        "discovery: {{ list_declared: false }}\nservers: [{{ id: crm, type: http, url: \"http://{to}/mcp\" }}]\n"
    ))?;
    let agent = Agent::start(&["--config", &config])?;
    let is_there =
        |event: &Value| is(event, "mcp_network_connection") && event["remote_addr"] == to.to_string();
    let event = agent.wait_for("what was open", is_there)?;
    let found = json!([event["server_id"], event["pid"], event["action"], event["adopted"]]);
    ensure!(found == json!(["crm", std::process::id(), "allow", true]), "{event}");
    let _since = TcpStream::connect(to)?;
    agent.wait_for("what is opened since", |event| is_there(event) && event["adopted"].is_null())?;
    agent.settle();
    let said = agent.events().iter().filter(|event| is_there(event)).count();
    ensure!(said == 2, "{said} are said");
    agent.stop()?;
    Ok(())
}
