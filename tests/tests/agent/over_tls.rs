//! MCP over HTTPS: what the server logged is what the agent reports, read in the memory of clients that nobody made for this test.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::clients::{Client, Plan};
use mcpwarden_tests::command::configured;
use mcpwarden_tests::over_tls::Server;
use mcpwarden_tests::peer::wait_until;
use mcpwarden_tests::places;
use mcpwarden_tests::transcript::compare;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Bytes of the texts of one session: below and above what is in one record of TLS, and long; the longest is sent once.
const SIZES: [&str; 6] = ["10", "1000", "16384", "16385", "100000", "4194304"];
const JSON: &str = "Content-Type: application/json";
/// Sessions that a client has at once.
const SESSIONS: usize = 16;

/// An agent to which the server is declared.
fn watched(server: &Server) -> Result<(TempDir, Agent)> {
    let (directory, config) = configured(&format!("{}capture: {{tls: servers}}\n", server.declared()))?;
    let agent = Agent::start(&["--config", &config, "--log", "debug"])?;
    Ok((directory, agent))
}

/// A client of MCP, which asks a server that nobody declared as well: all its sessions are reported as the server has logged them, and of its connections the first alone is said not to have been
/// read from its beginning.
fn all_is_read(program: &Path, script: Option<&str>, mode: &str) -> Result<()> {
    let (server, other) = (Server::start()?, Server::start()?);
    let (_directory, agent) = watched(&server)?;
    let mut command = Command::new(program);
    command.env("OTHER", &other.url);
    command.args(script.map(|script| places::sources().join("clients").join(script)));
    command.args([mode, &server.url]);
    command.arg(SESSIONS.to_string()).args(SIZES).env("NODE_TLS_REJECT_UNAUTHORIZED", "0");
    let pid = server.drive(&agent, command.stdout(Stdio::null()))?;
    let ended = |event: &Value| is(event, "mcp_server_exited") && event["server_id"] == "remote";
    wait_until("the sessions to end", || {
        agent.events().iter().filter(|event| ended(event)).count() == SESSIONS
    })?;

    let sessions = server.sessions()?;
    ensure!(sessions.len() == SESSIONS, "{} sessions", sessions.len());
    let mut connections: Vec<u64> = agent
        .events()
        .iter()
        .filter(|event| ended(event))
        .filter_map(|event| event["connection"].as_u64())
        .collect();
    for said in &sessions {
        let reported = |connection: &u64| {
            agent.messages(*connection).is_ok_and(|messages| compare(said, &messages).is_ok())
        };
        let place = connections.iter().position(reported);
        let Some(place) = place else {
            let nearest = agent.messages(*connections.first().context("no connection is left")?)?;
            return compare(said, &nearest).context("a session is reported by no connection");
        };
        connections.remove(place);
    }
    let events = agent.events();
    let noise = events.iter().find(|event| event.to_string().contains("noise"));
    ensure!(noise.is_none(), "what another server was asked for: {noise:#?}");
    let of = |kind: &str| events.iter().filter(|event| is(event, kind)).collect::<Vec<_>>();
    ensure!(of("mcp_capture_gap").is_empty(), "{:#?}", of("mcp_capture_gap"));
    let unread = of("mcp_network_uninspected");
    ensure!(unread.len() <= 1 && unread.iter().all(|event| event["pid"] == pid), "{unread:#?}");
    let counters = agent.stop()?["counters"].clone();
    let count = |name: &str| counters[name].as_u64().unwrap_or_default();
    ensure!(count("tls_plaintext_bytes") > 2 * (4_194_304 + 133_779 * SESSIONS as u64), "{counters:#}");
    ensure!(count("tls_unread_bytes") < 20_000, "{counters:#}");
    Ok(())
}

#[test]
fn python_client_over_https_is_reported() -> Result<()> {
    all_is_read(&places::real_servers().join("venv/bin/python"), Some("over_tls.py"), "sync")
}

#[test]
fn asynchronous_python_client_over_https_is_reported() -> Result<()> {
    all_is_read(&places::real_servers().join("venv/bin/python"), Some("over_tls.py"), "async")
}

#[test]
fn node_client_over_https_is_reported() -> Result<()> {
    all_is_read(Path::new("node"), Some("over_tls.mjs"), "https")
}

#[test]
fn node_fetch_over_https_is_reported() -> Result<()> {
    all_is_read(Path::new("node"), Some("over_tls.mjs"), "fetch")
}

#[test]
fn node_http2_client_over_https_is_reported() -> Result<()> {
    all_is_read(Path::new("node"), Some("over_tls.mjs"), "http2")
}

/// Its BoringSSL is found by the errors that it reports: it has no symbols.
#[test]
fn bun_http2_client_over_https_is_reported() -> Result<()> {
    let bun = places::real_servers().join("node/node_modules/@oven/bun-linux-x64/bin/bun");
    all_is_read(&bun, Some("over_tls.mjs"), "http2")
}

/// A stripped program of Go, in which calls go from one thread to another.
fn go_is_read(test: &str, mode: &str) -> Result<()> {
    let client = places::real_servers().join("go/over_tls");
    if !client.exists() {
        places::skipped(test, "the client in Go is built by `cargo xtask setup --tests`");
        return Ok(());
    }
    all_is_read(&client, None, mode)
}

#[test]
fn go_client_over_https_is_reported() -> Result<()> {
    go_is_read("go_client_over_https_is_reported", "http1")
}

#[test]
fn go_http2_client_over_https_is_reported() -> Result<()> {
    go_is_read("go_http2_client_over_https_is_reported", "http2")
}

#[test]
fn official_clients_over_https_are_reported() -> Result<()> {
    let server = Server::start()?;
    let (_directory, agent) = watched(&server)?;
    for client in [Client::Python, Client::TypeScript, Client::TypeScript2] {
        let directory = tempfile::tempdir()?;
        let calls = ["a", "b"].map(|text| json!({"name": "echo", "arguments": {"text": text}})).to_vec();
        let plan = Plan {
            url: Some(format!("{}/mcp", server.url)),
            transport: Some("http"),
            calls,
            warm: Some(format!("{}/warm", server.url)),
            certificate: Some(places::sources().join("src/certificates/server.pem")),
            ..Plan::default()
        };
        let driven = client.start(&plan, directory.path())?;
        let pid = driven.pid();
        server.answer_once_probed(&agent, pid)?;
        let said = driven.finish().with_context(|| format!("{client:?}"))?;
        let connection = agent.connection_of_client(pid)?;
        agent.wait_for("the end", |event| {
            is(event, "mcp_server_exited") && event["connection"] == connection
        })?;
        compare(&said, &agent.messages(connection)?).with_context(|| format!("{client:?}"))?;
    }
    agent.stop()?;
    Ok(())
}

/// Programs that make one connection: libcurl with OpenSSL, HTTP/1.1 and HTTP/2, and GnuTLS. A request that is sent once they are probed is
/// reported, whatever went before it.
#[test]
fn calls_of_curl_and_wget_over_https_are_reported() -> Result<()> {
    let server = Server::start()?;
    let (_directory, agent) = watched(&server)?;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "echo", "arguments": {"text": "hello"},
    }})
    .to_string();
    let (warm, url) = (format!("{}/warm", server.url), format!("{}/mcp", server.url));
    let curl = |version| ["-sk", version, &warm, "--next", "-sk", version, "-H", JSON, "--data", &call, &url];
    let body = format!("--post-data={call}");
    let wget = ["-q", "--no-check-certificate", &format!("--header={JSON}"), &body, &warm, &url];
    for (name, program, arguments) in [
        ("curl", "curl", curl("--http1.1").to_vec()),
        ("curl with HTTP/2", "curl", curl("--http2").to_vec()),
        ("wget", "wget", wget.to_vec()),
    ] {
        let directory = tempfile::tempdir()?;
        let mut command = Command::new(program);
        let pid = server
            .drive(&agent, command.args(arguments).current_dir(directory.path()).stdout(Stdio::null()))?;
        let connection = agent.connection_of_client(pid).context(name)?;
        let ended = |event: &Value| is(event, "mcp_tool_result") && event["connection"] == connection;
        let result = agent.wait_for("the result", ended).context(name)?;
        ensure!(result["result"]["content"][0]["text"] == "hello", "{name}: {result:#}");
        let events = agent.events_of(connection);
        let called = events.iter().find(|event| is(event, "mcp_tool_called")).context(name)?;
        ensure!(called["input"] == json!({"text": "hello"}), "{name}: {called:#}");
    }
    agent.stop()?;
    Ok(())
}

/// The agent has the capabilities of the packaged service. Where the kernel takes more for probes, that is reported.
#[test]
fn service_reads_tls_with_its_capabilities() -> Result<()> {
    let unit = fs::read_to_string(places::sources().join("../deploy/systemd/mcpwarden.service"))?;
    let set = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).context("no set")?;
    let kept = set.split(' ').map(|name| format!(",+{}", name.trim_start_matches("CAP_").to_lowercase()));
    let bounds = format!("--bounding-set=-all{}", kept.collect::<String>());
    let server = Server::start()?;
    let (_directory, config) = configured(&server.declared())?;
    for (bounds, is_read) in [(bounds.as_str(), true), (&bounds.replace(",+checkpoint_restore", ""), false)] {
        let agent = Agent::start_behind(&["setpriv", bounds], &["--config", &config, "--log", "debug"])?;
        let (warm, url) = (format!("{}/warm", server.url), format!("{}/mcp", server.url));
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}"#;
        let mut command = Command::new("curl");
        command.args(["-sk", &warm, "--next", "-sk", "-H", JSON, "--data", call, &url]).stdout(Stdio::null());
        // It is answered once it was searched, whatever was found.
        server.drive(&agent, &mut command)?;
        if is_read {
            agent.wait_for("the call", |event| is(event, "mcp_tool_called"))?;
        } else {
            let unread = agent.wait_for("the reason", |event| is(event, "mcp_network_uninspected"))?;
            ensure!(unread["reason"].to_string().contains("CAP_CHECKPOINT_RESTORE"), "{unread:#}");
        }
        agent.stop()?;
    }
    Ok(())
}

/// What passes before the client is probed, or is not to be read, is said.
#[test]
fn what_is_not_read_over_https_is_reported() -> Result<()> {
    let server = Server::start()?;
    server.answer_at_once()?;
    for (setting, is_told) in [("servers", true), ("off", false)] {
        let declared = server.declared();
        let (_directory, config) = configured(&format!("{declared}capture: {{tls: {setting}}}\n"))?;
        let agent = Agent::start(&["--config", &config])?;
        // It is over before anybody can have looked at it.
        let status = Command::new("curl").args(["-sk", &format!("{}/warm", server.url)]).status()?;
        ensure!(status.success());
        agent.wait_for("the connection", |event| is(event, "mcp_network_connection"))?;
        agent.settle();
        let counters = agent.stop()?["counters"].clone();
        let unread = counters["tls_unread_bytes"].as_u64().unwrap_or_default();
        ensure!((unread > 0) == is_told, "{setting}: {counters:#}");
    }
    Ok(())
}
