//! Network namespaces that others made: what answers in one is denied in that one, and nowhere else.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::command::configured;
use mcpwarden_tests::dial::{Outcome, Way};
use mcpwarden_tests::peer::initialize;
use mcpwarden_tests::places;
use mcpwarden_tests::web::Server;
use nix::sched::{CloneFlags, unshare};
use serde_json::Value;

/// At a path that the servers of other tests, which run beside these, do not answer at.
const DENYING: &str =
    "policy: { denied_servers: [\"*/within\", \"*/within@netns-*\"] }\nenforcement: { network: deny }\n";
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Does something on a thread in a network namespace of its own.
fn within<T: Send>(body: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let thread = scope.spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET)?;
            ensure!(Command::new("ip").args(["link", "set", "lo", "up"]).status()?.success(), "no loopback");
            body()
        });
        thread.join().ok().context("a panic")?
    })
}

/// Posts one message with a client of its own.
fn post(to: SocketAddr) -> Result<()> {
    let url = format!("http://{to}/within");
    let head = ["-sS", "--max-time", "10", "-H", "Accept: application/json, text/event-stream"];
    let mut command = Command::new("curl");
    command.args(head).args(["-H", "Content-Type: application/json"]);
    command.args(["--data", &initialize(1).to_string(), &url]).stdout(Stdio::null());
    ensure!(command.status()?.success(), "curl to {to}");
    Ok(())
}

/// The denial of a server at a port, in another network namespace or (`!elsewhere`) in the host's.
fn denied(agent: &Agent, at: SocketAddr, elsewhere: bool) -> Result<Value> {
    let at = at.to_string();
    agent.wait_for("the denial", |event| {
        is(event, "mcp_server_denied") && event["remote_addr"] == at && event["netns"].is_u64() == elsewhere
    })
}

/// Where the server listens in its namespace, where its client finds it, and where it is in the agent's words.
const PLACES: [(&str, &str, &str); 9] = [
    ("127.0.0.1", "127.0.0.1", "127.0.0.1"),
    ("0.0.0.0", "127.0.0.1", "127.0.0.1"),
    ("0.0.0.0", "0.0.0.0", "127.0.0.1"),
    ("0.0.0.0", "127.8.8.8", "127.8.8.8"),
    ("::", "::1", "::1"),
    ("::", "::", "::1"),
    ("::", "::ffff:127.0.0.1", "127.0.0.1"),
    ("::", "::ffff:0.0.0.0", "127.0.0.1"),
    ("::1", "::1", "::1"),
];

#[test]
fn server_of_another_namespace_is_denied_there_alone() -> Result<()> {
    let (_directory, config) = configured(DENYING)?;
    let agent = Agent::start(&["--config", &config])?;
    for (listens, found, named) in PLACES {
        // What the host has at that port, on all of its addresses, stays reachable.
        let host = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0))?;
        let port = host.local_addr()?.port();
        let at = |ip: &str| -> Result<SocketAddr> { Ok(SocketAddr::new(ip.parse()?, port)) };
        let (listens, found, named) = (at(listens)?, at(found)?, at(named)?);
        within(|| {
            let _server = Server::start(listens, Value::clone)?;
            post(found)?;
            let event = denied(&agent, named, true)?;
            ensure!(event["enforced"] == true && event["obstacle"].is_null(), "{found}: {event}");
            let netns = format!("@netns-{}", event["netns"]);
            let id = event["server_id"].as_str().context("no id")?;
            ensure!(id.ends_with(&netns), "{found}: {event}");
            for (to, expected) in [(found, Outcome::Denied), (named, Outcome::Denied)] {
                ensure!(Way::Tcp.dial(to) == expected, "{to}, in the namespace of {found}");
            }
            let text = found.to_string();
            let refused = agent.wait_for("a denied connection", |event| {
                is(event, "mcp_network_connection")
                    && event["remote_addr"] == text
                    && event["action"] == "block"
            });
            // The agent writes a mapped address as the IPv4 address that it is.
            if found.ip() == found.ip().to_canonical() {
                let refused = refused?;
                ensure!(refused["netns"] == event["netns"] && refused["enforced"] == true, "{refused}");
            }
            Ok(())
        })?;
        for ip in ["127.0.0.1", "0.0.0.0", "127.8.8.8", "::1", "::", "::ffff:127.0.0.1"] {
            let to = at(ip)?;
            ensure!(Way::Tcp.dial(to) == Outcome::Through, "{to} of the host, for {found} of another");
        }
        let elsewhere = within(|| {
            let _listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))?;
            Ok(Way::Tcp.dial(found))
        })?;
        ensure!(elsewhere == Outcome::Through, "{found}, in a third namespace: {elsewhere:?}");
    }
    agent.stop()?;
    Ok(())
}

#[test]
fn server_of_the_host_is_denied_on_the_host_alone() -> Result<()> {
    let server = Server::start((LOOPBACK, 0).into(), Value::clone)?;
    let at = server.address();
    for netns in ["host", "any"] {
        let (_directory, config) = configured(&format!("{DENYING}network: {{ netns: {netns} }}\n"))?;
        let agent = Agent::start(&["--config", &config])?;
        post(at)?;
        let event = denied(&agent, at, false)?;
        ensure!(
            event["enforced"] == true && event["server_id"] == format!("{at}/within"),
            "{netns}: {event}"
        );
        ensure!(Way::Tcp.dial(at) == Outcome::Denied, "{netns}: on the host");
        let elsewhere = within(|| {
            let _listener = TcpListener::bind(at)?;
            Ok(Way::Tcp.dial(at))
        })?;
        ensure!(elsewhere == Outcome::Through, "{netns}: in another namespace: {elsewhere:?}");
        agent.stop()?;
    }
    Ok(())
}

/// A server and its client, in the user and network namespace of somebody who needs no privilege for them.
const UNPRIVILEGED: &str = r#"
import http.server, json, socket, sys, threading, urllib.request
port = int(sys.argv[1])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        info = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
        body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": info}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
server = http.server.HTTPServer(("0.0.0.0", port), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
    "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}}).encode()
head = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
urllib.request.urlopen(urllib.request.Request(f"http://{sys.argv[2]}:{port}/within", body, head)).read()
print("asked", flush=True)
for line in sys.stdin:
    try:
        socket.create_connection((line.strip(), port)).close()
        print("through", flush=True)
    except PermissionError:
        print("denied", flush=True)
"#;

#[test]
fn unprivileged_namespace_denies_nothing_on_the_host() -> Result<()> {
    let possible = Command::new("unshare").args(["-Urn", "ip", "link", "set", "lo", "up"]).status();
    if !possible.is_ok_and(|status| status.success()) {
        places::skipped("unprivileged_namespace_denies_nothing_on_the_host", "no user namespaces here");
        return Ok(());
    }
    let (_directory, config) = configured(DENYING)?;
    let agent = Agent::start(&["--config", &config])?;
    for address in ["127.0.0.1", "0.0.0.0"] {
        let host = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        let port = host.local_addr()?.port();
        let script = "ip link set lo up && exec python3 -c \"$0\" \"$@\"";
        let mut child = Command::new("unshare")
            .args(["-Urn", "sh", "-c", script, UNPRIVILEGED, &port.to_string(), address])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (mut to, from) = (child.stdin.take().context("stdin")?, child.stdout.take().context("stdout")?);
        let mut lines = BufReader::new(from).lines();
        let mut line = || -> Result<String> { Ok(lines.next().context("it ended")??) };
        ensure!(line()? == "asked", "{address}");
        denied(&agent, (Ipv4Addr::LOCALHOST, port).into(), true)?;
        for dialed in ["127.0.0.1", "0.0.0.0"] {
            writeln!(to, "{dialed}")?;
            ensure!(line()? == "denied", "{dialed} in the namespace, for {address}");
            let here = SocketAddr::new(dialed.parse()?, port);
            ensure!(Way::Tcp.dial(here) == Outcome::Through, "{here} of the host, for {address}");
        }
        drop(to);
        child.wait()?;
    }
    agent.stop()?;
    Ok(())
}
