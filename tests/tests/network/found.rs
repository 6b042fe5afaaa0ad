//! Servers over HTTP that nobody declared and that the policy denies: where they answer, they are denied.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::command::configured;
use mcpwarden_tests::dial::{LOOPBACK_V6, Outcome, Way};
use mcpwarden_tests::peer::{echo, initialize, wait_until};
use mcpwarden_tests::web::Server;
use serde_json::{Value, json};

/// What these servers answer at, and those of other tests, which run beside these, do not.
const PATH: &str = "/found";
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn server(ip: IpAddr) -> Result<Server> {
    Server::start((ip, 0).into(), Value::clone)
}

/// Posts one message with a client of its own.
fn post(to: SocketAddr, message: &Value) -> Result<()> {
    let url = format!("http://{to}{PATH}");
    let head = ["-sS", "--max-time", "10", "-H", "Accept: application/json, text/event-stream"];
    let mut command = Command::new("curl");
    command.args(head).args(["-H", "Content-Type: application/json"]);
    command.args(["--data", &message.to_string(), &url]).stdout(Stdio::null());
    ensure!(command.status()?.success(), "curl to {to}");
    Ok(())
}

fn denied(agent: &Agent, at: SocketAddr) -> Result<Value> {
    let at = at.to_string();
    agent.wait_for("the denial", |event| is(event, "mcp_server_denied") && event["remote_addr"] == at)
}

fn dial(to: SocketAddr) -> Outcome {
    Way::Tcp.dial(to)
}

/// What speaks HTTP and answers whatever it is asked with the same words.
fn other(answer: &'static str) -> Result<TcpListener> {
    let listener = TcpListener::bind((LOOPBACK, 0))?;
    let accepting = listener.try_clone()?;
    thread::spawn(move || {
        for mut stream in accepting.incoming().map_while(Result::ok) {
            let mut asked = [0; 4_096];
            let _ = stream.read(&mut asked);
            let length = answer.len();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
            let _ = write!(stream, "{head}Content-Length: {length}\r\n\r\n{answer}");
        }
    });
    Ok(listener)
}

#[test]
fn undeclared_server_is_denied_at_its_address() -> Result<()> {
    let (known, unknown, six) = (server(LOOPBACK)?, server(LOOPBACK)?, server(LOOPBACK_V6)?);
    let words = "{\"hello\":\"world\"}";
    let (page, error) =
        (other(words)?, other(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#)?);
    let (_directory, config) = configured(&format!(
        "servers: [{{ id: known, type: http, url: \"http://{}{PATH}\" }}]\n\
         policy: {{ server_policy: allowlist, allowed_servers: [known, \"*/mcp\", \"*/sse\"] }}\nenforcement: {{ network: deny }}\n",
        known.address()
    ))?;
    let agent = Agent::start(&["--config", &config])?;
    // One that is open when the address is denied.
    let mut open = TcpStream::connect(unknown.address())?;
    for to in [known.address(), unknown.address(), six.address(), page.local_addr()?, error.local_addr()?] {
        post(to, &initialize(1))?;
    }
    // The one address of loopback has nothing to do with the other.
    let twin = TcpListener::bind((Ipv4Addr::LOCALHOST, six.address().port()))?;
    for server in [&unknown, &six] {
        let at = server.address();
        let event = denied(&agent, at)?;
        let reason = format!("server '{at}{PATH}' is not in allowed_servers");
        ensure!(event["server_id"] == format!("{at}{PATH}") && event["server_type"] == "http", "{event}");
        ensure!(event["enforced"] == true && event["reason"] == reason, "{event}");
        ensure!(event["until"].is_string() && event["obstacle"].is_null(), "{event}");
        ensure!(dial(at) == Outcome::Denied, "{at}");
        let text = at.to_string();
        let connection = agent.wait_for("a denied connection", |event| {
            is(event, "mcp_network_connection") && event["remote_addr"] == text && event["action"] == "block"
        })?;
        let rule = format!("server_access ({at}): {reason}");
        ensure!(connection["enforced"] == true && connection["reason"] == rule, "{connection}");
    }
    ensure!(open.read(&mut [0]).is_err(), "what was open is closed");
    // Who does not answer as a server does is none, whatever is asked of it.
    for other in [known.address(), page.local_addr()?, error.local_addr()?, twin.local_addr()?] {
        ensure!(dial(other) == Outcome::Through, "{other}");
    }
    agent.settle();
    let said = agent.events().iter().filter(|event| is(event, "mcp_server_denied")).count();
    ensure!(said == 2, "{said} servers are denied");
    agent.stop()?;
    ensure!(dial(unknown.address()) == Outcome::Through, "the agent is gone");
    Ok(())
}

#[test]
fn address_shared_with_allowed_server_is_not_denied() -> Result<()> {
    let shared = server(LOOPBACK)?;
    let (_directory, config) = configured(&format!(
        "servers: [{{ id: known, type: http, url: \"http://{}/one\" }}, \
         {{ id: second, type: http, url: \"http://{}/two\" }}]\n\
         policy: {{ denied_servers: [\"127.0.0.1:*{PATH}\"] }}\nenforcement: {{ network: deny }}\n",
        shared.address(),
        shared.address()
    ))?;
    let agent = Agent::start(&["--config", &config])?;
    post(shared.address(), &initialize(1))?;
    let event = denied(&agent, shared.address())?;
    let obstacle = "server 'known' is at the same address, and is not denied";
    ensure!(event["enforced"] == false && event["obstacle"] == obstacle, "{event}");
    ensure!(event["until"].is_null(), "{event}");
    ensure!(dial(shared.address()) == Outcome::Through, "it is spared");
    agent.stop()?;
    Ok(())
}

#[test]
fn reloaded_rules_apply_to_servers_found_earlier() -> Result<()> {
    let found = server(LOOPBACK)?;
    let at = found.address();
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("x.yaml");
    let allowing = "enforcement: { network: deny }\n";
    fs::write(&path, allowing)?;
    let agent = Agent::start(&["--config", &path.display().to_string()])?;
    post(at, &echo(1, "hello"))?;
    agent.settle();
    ensure!(agent.events().iter().any(|event| is(event, "mcp_tool_result")), "it is a server");
    ensure!(!agent.events().iter().any(|event| is(event, "mcp_server_denied")), "that is not denied");
    let reload = |yaml: &str| -> Result<()> {
        fs::write(&path, yaml)?;
        let said = agent.tell(&["reload"])?;
        said.expect("reload", 0, "")
    };
    reload(&format!("policy: {{ fail_closed: true }}\n{allowing}"))?;
    let event = denied(&agent, at)?;
    ensure!(dial(at) == Outcome::Denied, "it is denied");
    let told = json!([event["enforced"], event["reason"]]);
    let reason = format!("server '{at}{PATH}' is not declared, and fail_closed is on");
    ensure!(told == json!([true, reason]), "{event}");
    ensure!(dial(at) == Outcome::Denied, "it is denied");
    reload(allowing)?;
    ensure!(dial(at) == Outcome::Through, "it is not any more");
    // Who declares it, as the documentation says, has it reachable.
    reload(&format!("policy: {{ fail_closed: true }}\n{allowing}"))?;
    wait_until("that it is denied", || dial(at) == Outcome::Denied)?;
    let declared = format!("servers: [{{ id: own, type: http, url: \"http://{at}{PATH}\" }}]\n");
    let list = "discovery: { list_declared: false }\n";
    reload(&format!("policy: {{ fail_closed: true }}\n{allowing}{declared}{list}"))?;
    ensure!(dial(at) == Outcome::Through, "it is declared");
    let event = agent.wait_for("why it is spared", |event| {
        is(event, "mcp_server_denied") && event["obstacle"].is_string()
    })?;
    ensure!(event["enforced"] == false && event["until"].is_null(), "{event}");
    // A refused configuration changes nothing.
    reload(&format!("policy: {{ fail_closed: true }}\n{allowing}"))?;
    wait_until("that it is denied again", || dial(at) == Outcome::Denied)?;
    fs::write(&path, "sinks: [{ kind: file, path: /proc/none/x }]\n")?;
    let said = agent.tell(&["reload"])?;
    ensure!(said.code != Some(0), "no sink can write there");
    ensure!(dial(at) == Outcome::Denied, "it still is");
    reload(allowing)?;
    // Only said, as every denial of an address.
    reload("policy: { denied_servers: [\"*/found\"] }\n")?;
    let event = agent.wait_for("another denial", |event| {
        is(event, "mcp_server_denied") && event["reason"].as_str().is_some_and(|why| why.contains("*/found"))
    })?;
    ensure!(event["enforced"] == false && event["obstacle"].is_null(), "{event}");
    ensure!(dial(at) == Outcome::Through, "observed");
    agent.wait_for("what would be denied", |event| {
        is(event, "mcp_network_connection") && event["action"] == "block" && event["enforced"] == false
    })?;
    agent.stop()?;
    Ok(())
}
