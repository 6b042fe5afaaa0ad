//! Which servers over HTTP there are: what is declared, what is found, what is neither, and who speaks with them.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::command::configured;
use mcpwarden_tests::dial::LOOPBACK_V6;
use mcpwarden_tests::http_server::{HttpServer, Style};
use mcpwarden_tests::peer::{echo, initialize};
use mcpwarden_tests::web::{self, Server};
use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn server(ip: IpAddr) -> Result<Server> {
    Server::start((ip, 0).into(), Value::clone)
}

/// A client that nobody made for MCP.
#[derive(Clone, Copy, Debug)]
enum Client {
    Curl,
    Fetch,
}

impl Client {
    /// Opens a session, calls `echo` and ends the session. Gives the process id.
    fn drive(self, url: &str) -> Result<u32> {
        // What the test's server makes of the id of the first request.
        let (opening, session) = (initialize(1).to_string(), "Mcp-Session-Id: session-1");
        let call = echo(2, "hello").to_string();
        let mut command = match self {
            Self::Curl => {
                let mut command = Command::new("curl");
                let head = ["-sS", "-H", "Accept: application/json, text/event-stream", "-H"];
                let json = ["Content-Type: application/json", "--data", &opening, url];
                command.args(head).args(json).arg("--next");
                let json = ["Content-Type: application/json", "-H", session, "--data", &call, url];
                command.args(head).args(json).arg("--next");
                command.args(["-sS", "-X", "DELETE", "-H", session, url]);
                command
            }
            Self::Fetch => {
                let mut script = String::new();
                let (name, id) = session.split_once(": ").context("no header")?;
                let post = |body: &str, more: &str| {
                    format!(
                        "await (await fetch({url:?}, {{ method: 'POST', body: JSON.stringify({body}), headers: {{ \
                         accept: 'application/json, text/event-stream', 'content-type': 'application/json'{more} }} \
                         }})).text();"
                    )
                };
                let header = format!(", '{name}': '{id}'");
                writeln!(script, "{}{}", post(&opening, ""), post(&call, &header))?;
                writeln!(
                    script,
                    "await fetch({url:?}, {{ method: 'DELETE', headers: {{ '{name}': '{id}' }} }});"
                )?;
                let mut command = Command::new("node");
                command.args(["--input-type=module", "--eval", &script]);
                command
            }
        };
        let mut child =
            command.stdout(Stdio::null()).spawn().with_context(|| format!("cannot start {self:?}"))?;
        let status = child.wait()?;
        ensure!(status.success(), "{self:?} ended with {status}");
        Ok(child.id())
    }
}

/// Waits for the end of what a client said, and checks what was reported of it: the server, and whether the call was denied.
fn reported(agent: &Agent, pid: u32, server: &str, action: &str) -> Result<()> {
    let connection = agent.connection_of_client(pid)?;
    agent.wait_for("the end", |event| is(event, "mcp_server_exited") && event["connection"] == connection)?;
    let events = agent.events_of(connection);
    for event in &events {
        ensure!(event["server_id"] == server, "{server} is meant: {event}");
    }
    let calls: Vec<_> = events.iter().filter(|event| is(event, "mcp_tool_called")).collect();
    let [call] = calls[..] else { anyhow::bail!("{} calls: {events:#?}", calls.len()) };
    let found = json!([call["tool_name"], call["input"], call["action"], call["enforced"]]);
    ensure!(found == json!(["echo", {"text": "hello"}, action, false]), "{call:#}");
    ensure!(events.iter().any(|event| is(event, "mcp_tool_result")), "no answer: {events:#?}");
    Ok(())
}

#[test]
fn declared_servers_get_their_id_and_policy() -> Result<()> {
    let (alone, shared) = (server(LOOPBACK)?, server(LOOPBACK)?);
    let url = |server: &Server, path: &str| format!("http://{}{path}", server.address());
    let (one, first, second) = (url(&alone, "/mcp"), url(&shared, "/one/mcp"), url(&shared, "/two/mcp"));
    let (_directory, config) = configured(&format!(
        "servers:\n- {{ id: alone, type: http, url: \"{one}\" }}\n- {{ id: first, type: http, url: \"{first}\" }}\n\
         - {{ id: second, type: http, url: \"{second}\" }}\n\
         policy: {{ denied_tools: [{{ server: second, tool: echo }}] }}\n"
    ))?;
    let agent = Agent::start(&["--config", &config])?;
    for client in [Client::Curl, Client::Fetch] {
        for (url, id, action) in
            [(&one, "alone", "allow"), (&first, "first", "allow"), (&second, "second", "block")]
        {
            reported(&agent, client.drive(url)?, id, action).with_context(|| format!("{client:?} {url}"))?;
        }
        // Where no declared server is: at the address of two.
        let elsewhere = url(&shared, "/three");
        let id = format!("{}/three", shared.address());
        reported(&agent, client.drive(&elsewhere)?, &id, "allow").with_context(|| elsewhere)?;
    }
    agent.stop()?;
    Ok(())
}

#[test]
fn servers_are_found_on_every_loopback_address() -> Result<()> {
    let here = server(LOOPBACK)?;
    let port = here.address().port();
    let (_directory, config) = configured(&format!(
        "servers: [{{ id: here, type: http, url: \"http://{}/mcp\" }}]\n",
        here.address()
    ))?;
    let agent = Agent::start(&["--config", &config])?;
    let six = server(LOOPBACK_V6)?;
    let pid = Client::Curl.drive(&format!("http://{}/mcp", six.address()))?;
    reported(&agent, pid, &format!("{}/mcp", six.address()), "allow").context("IPv6")?;
    // At the address and port of the declared server, where that is not. The namespace is the thread's and its children's.
    let pid = thread::spawn(move || -> Result<u32> {
        unshare(CloneFlags::CLONE_NEWNET)?;
        ensure!(Command::new("ip").args(["link", "set", "lo", "up"]).status()?.success(), "no loopback");
        let there = Server::start((LOOPBACK, port).into(), Value::clone)?;
        Client::Curl.drive(&format!("http://{}/mcp", there.address()))
    });
    let pid = pid.join().ok().context("a panic")??;
    let started = agent.wait_for("the start", |event| event["client"]["pid"] == pid)?;
    let id = started["server_id"].as_str().context("no id")?;
    ensure!(id.starts_with(&format!("127.0.0.1:{port}/mcp@netns-")), "its own id: {started}");
    reported(&agent, pid, id, "allow").context("another namespace")?;
    agent.stop()?;
    Ok(())
}

fn curl(args: &[&str]) -> Result<u32> {
    let mut child =
        Command::new("curl").args(["-s", "--max-time", "10", "-o", "/dev/null"]).args(args).spawn()?;
    // Not every server here is one that curl is content with.
    child.wait()?;
    Ok(child.id())
}

#[test]
fn uninspected_declared_traffic_is_reported() -> Result<()> {
    let (plain, locked) = (server(LOOPBACK)?, HttpServer::start(Style::Locked)?);
    let (_directory, config) = configured(&format!(
        "discovery: {{ list_declared: false }}\n\
         servers:\n- {{ id: plain, type: http, url: \"http://{}/mcp\" }}\n- {{ id: locked, type: http, url: \"{}\" }}\n",
        plain.address(),
        locked.url()
    ))?;
    let agent = Agent::start(&["--config", &config])?;
    let url = format!("http://{}/mcp", plain.address());
    let opening = initialize(7).to_string();
    let pid = curl(&["--http2-prior-knowledge", "--json", &opening, &url])?;
    // The server answers with HTTP/1.1, which is none of HTTP/2.
    let event = agent.wait_for("HTTP/2", |event| is(event, "mcp_network_uninspected"))?;
    let found = json!([event["server_id"], event["pid"], event["remote_addr"]]);
    ensure!(found == json!(["plain", pid, plain.address().to_string()]), "{event}");
    ensure!(event["reason"].as_str().is_some_and(|why| why.contains("HTTP/2")), "{event}");

    curl(&["--json", &opening, locked.url()])?;
    let event = agent.wait_for("the refusal", |event| is(event, "mcp_request_refused"))?;
    let found = json!([event["server_id"], event["status"], event["jsonrpc_id"]]);
    ensure!(found == json!(["locked", 401, 7]), "{event}");
    agent.stop()?;
    Ok(())
}

/// A web server that keeps its connections and has one page.
fn page() -> Result<TcpListener> {
    let listener = TcpListener::bind((LOOPBACK, 0))?;
    let accepting = listener.try_clone()?;
    thread::spawn(move || {
        for mut stream in accepting.incoming().map_while(Result::ok) {
            thread::spawn(move || -> Result<()> {
                let mut input = std::io::BufReader::new(stream.try_clone()?);
                while web::read_head(&mut input)?.is_some() {
                    stream.write_all(
                        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 8\r\n\r\n<p>hello",
                    )?;
                }
                Ok(())
            });
        }
    });
    Ok(listener)
}

/// Everything that is said of a client or an address.
fn said_of(agent: &Agent, pid: u32, address: &str) -> Vec<Value> {
    agent.settle();
    let about = |event: &Value| {
        event["pid"] == pid || event["client"]["pid"] == pid || event.to_string().contains(address)
    };
    agent.events().into_iter().filter(about).collect()
}

#[test]
fn non_mcp_http_traffic_is_not_reported() -> Result<()> {
    let agent = Agent::start(&[])?;
    let page = page()?;
    let address = page.local_addr()?.to_string();
    let url = format!("http://{address}/?[1-20]");
    let pid = curl(&[&url])?;
    // No HTTP at all.
    TcpStream::connect(page.local_addr()?)?.write_all(b"SSH-2.0-test\r\n")?;
    let said = said_of(&agent, pid, &address);
    ensure!(said.is_empty(), "{said:#?}");
    let last = agent.stop()?;
    ensure!(last["counters"]["http_not_mcp"] == 1, "curl's connection: {}", last["counters"]);
    Ok(())
}

#[test]
fn disabled_loopback_discovery_reports_no_server() -> Result<()> {
    let (_directory, config) = configured("discovery: { loopback: false }\n")?;
    let agent = Agent::start(&["--config", &config])?;
    let server = server(LOOPBACK)?;
    let pid = Client::Curl.drive(&format!("http://{}/mcp", server.address()))?;
    let said = said_of(&agent, pid, &server.address().to_string());
    ensure!(said.is_empty(), "{said:#?}");
    ensure!(server.said().len() == 4, "the client spoke: {:?}", server.said());
    agent.stop()?;
    Ok(())
}
