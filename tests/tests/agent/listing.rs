//! Declared servers, listed by the agent itself: before any client speaks, and again and again.

use std::cell::Cell;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::command::{ask, configured};
use mcpwarden_tests::http_server::{CERTIFICATE, HttpServer, Style};
use mcpwarden_tests::peer::wait_until;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The key of the certificate of the servers over TLS, by
/// `openssl x509 -in server.pem -noout -pubkey | openssl pkey -pubin -outform der | sha256sum`.
const KEY: &str = "a23bb29f01eb4c8f30bdd91cb903986ae4aedd08b3d11a899efcb4ce4b5ace2d";

/// A configuration with these declared servers, listed every second.
fn listed(servers: &[String]) -> String {
    format!("discovery: {{ list_every: 1s }}\nservers: [{}]\n", servers.join(", "))
}

/// One of them.
fn entry(id: &str, server: &HttpServer, kind: &str, more: &str) -> String {
    format!("{{ id: {id}, type: {kind}, url: \"{}\"{more} }}", server.url())
}

/// A configuration with one declared server.
fn declared(server: &HttpServer, kind: &str, more: &str) -> String {
    listed(&[entry("remote", server, kind, more)])
}

/// Whether it is of the one declared server.
fn of(event: &Value, kind: &str) -> bool {
    of_server(event, kind, "remote")
}

fn of_server(event: &Value, kind: &str, id: &str) -> bool {
    is(event, kind) && event["server_id"] == id
}

fn certificate() -> Result<String> {
    let der = CertificateDer::from_pem_slice(CERTIFICATE)?;
    Ok(Sha256::digest(&der).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Writes a file that only root can read.
fn secret(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text)?;
    fs::set_permissions(path, Permissions::from_mode(0o600)).context("cannot set its mode")
}

#[test]
fn tools_are_inspected_before_any_client_connects() -> Result<()> {
    let cases =
        [("json", Style::Json, "http"), ("events", Style::Events, "http"), ("old", Style::Old, "sse")];
    let servers: Vec<HttpServer> =
        cases.iter().map(|(_, style, _)| HttpServer::start(*style)).collect::<Result<_>>()?;
    let entries = cases.iter().zip(&servers).map(|((id, _, kind), server)| entry(id, server, kind, ""));
    let (_directory, config) = configured(&listed(&entries.collect::<Vec<_>>()))?;
    let agent = Agent::start_plain(&["--config", &config])?;
    for ((id, _, kind), server) in cases.iter().zip(&servers) {
        let event = |what: &str| agent.wait_for(id, |event| of_server(event, what, id));
        let seen = event("mcp_tool_seen")?;
        ensure!(seen["server_type"] == *kind && seen["tool_name"] == "a", "{id}: {seen}");
        let found = event("mcp_detection")?;
        ensure!(found["server_type"] == *kind, "{id}: {found}");
        let started = event("mcp_server_started")?;
        let expected = json!([agent.pid(), "declared", "declared", server.url()]);
        let said =
            json!([started["client"]["pid"], started["matched_by"], started["identity"], started["url"]]);
        ensure!(said == expected, "{id}: {started}");
    }
    agent.stop()?;
    Ok(())
}

#[test]
fn agent_requests_are_not_reported_as_client_traffic() -> Result<()> {
    let server = HttpServer::start(Style::Json)?;
    let (_directory, config) = configured(&declared(&server, "http", ""))?;
    let agent = Agent::start(&["--config", &config])?;
    let own = agent.pid();
    agent.wait_for("the tool", |event| of(event, "mcp_tool_seen"))?;
    // Each listing is a handshake, a list and a few words more.
    let so_far = server.requests();
    while server.requests() < so_far + 12 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    agent.settle();
    for event in agent.events() {
        ensure!(!is(&event, "mcp_network_connection"), "{event}");
        ensure!(!is(&event, "mcp_server_egress"), "{event}");
        ensure!(!is(&event, "mcp_network_uninspected"), "{event}");
    }
    let count = |kind: &str| agent.events().iter().filter(|event| is(event, kind)).count();
    // One conversation, however often it is listed.
    let counts =
        ["mcp_server_started", "mcp_server_initialized", "mcp_tool_seen", "mcp_server_exited"].map(count);
    ensure!(counts == [1, 1, 1, 0], "{counts:?} of client {own}");
    let stopped = agent.stop()?;
    ensure!(stopped["counters"]["listing_listed"].as_u64() >= Some(2), "{stopped}");
    Ok(())
}

#[test]
fn changed_tool_is_reported_at_the_next_listing() -> Result<()> {
    let server = HttpServer::start(Style::Json)?;
    let tool = |text: &str| json!({"name": "a", "description": text, "inputSchema": {"type": "object"}});
    server.offers(tool("Adds two numbers."));
    let (_directory, config) = configured(&declared(&server, "http", ""))?;
    let agent = Agent::start(&["--config", &config])?;
    agent.wait_for("the tool", |event| of(event, "mcp_tool_seen"))?;
    server.offers(tool("Adds three numbers."));
    let changed = agent.wait_for("the change", |event| of(event, "mcp_tool_changed"))?;
    ensure!(changed["tool_name"] == "a" && changed["changes"].to_string().contains("three"), "{changed}");
    agent.stop()?;
    Ok(())
}

#[test]
fn credentials_are_requested_and_never_disclosed() -> Result<()> {
    let server = HttpServer::start(Style::Locked)?;
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("headers");
    for (more, headers, expected) in [
        ("", None, "headers_from"),
        ("from", Some("Authorization: Bearer wr0ng-one"), "not enough"),
        ("from", Some("Authorization: Bearer s3cret"), ""),
    ] {
        if let Some(headers) = headers {
            secret(&file, headers)?;
        }
        let more =
            if more.is_empty() { String::new() } else { format!(", headers_from: {}", file.display()) };
        let (_directory, config) = configured(&declared(&server, "http", &more))?;
        let agent = Agent::start(&["--config", &config])?;
        if expected.is_empty() {
            agent.wait_for("the tool", |event| of(event, "mcp_tool_seen"))?;
        } else {
            let refused = agent.wait_for("the refusal", |event| of(event, "mcp_server_unreachable"))?;
            let reason = refused["reason"].as_str().unwrap_or_default();
            ensure!(refused["status"] == 401 && reason.contains(expected), "{refused}");
        }
        let everything = format!("{:?}{}", agent.events(), agent.stderr());
        ensure!(!everything.contains("s3cret") && !everything.contains("wr0ng"), "{everything}");
        agent.stop()?;
    }
    Ok(())
}

#[test]
fn headers_file_readable_by_others_is_refused() -> Result<()> {
    let server = HttpServer::start(Style::Locked)?;
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("headers");
    fs::write(&file, "Authorization: Bearer s3cret")?;
    fs::set_permissions(&file, Permissions::from_mode(0o644))?;
    let more = format!(", headers_from: {}", file.display());
    let (_directory, config) = configured(&declared(&server, "http", &more))?;
    let agent = Agent::start(&["--config", &config])?;
    let refused = agent.wait_for("the refusal", |event| of(event, "mcp_server_unreachable"))?;
    let reason = refused["reason"].as_str().unwrap_or_default();
    ensure!(reason.contains("others may read it") && refused["status"].is_null(), "{refused}");
    ensure!(server.requests() == 0, "it was asked all the same");
    agent.stop()?;
    Ok(())
}

#[test]
fn certificate_must_match_the_pinned_one() -> Result<()> {
    let right = certificate()?;
    let wrong = "0".repeat(64);
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("headers");
    secret(&file, "Authorization: Bearer s3cret")?;
    // The servers of both styles have the same key, and signed themselves: the second one as an authority.
    let cases = [
        ("unknown", Style::Tls, None, "mcp_server_unreachable"),
        ("certificate", Style::Tls, Some(format!("sha256:{right}")), "mcp_tool_seen"),
        ("capitals", Style::Tls, Some(format!("sha256:{}", right.to_uppercase())), "mcp_tool_seen"),
        ("key", Style::Tls, Some(format!("spki-sha256:{KEY}")), "mcp_tool_seen"),
        ("authority-key", Style::TlsAuthority, Some(format!("spki-sha256:{KEY}")), "mcp_tool_seen"),
        ("other-certificate", Style::Tls, Some(format!("sha256:{wrong}")), "mcp_tls_mismatch"),
        (
            "other-certificate-of-key",
            Style::TlsAuthority,
            Some(format!("sha256:{right}")),
            "mcp_tls_mismatch",
        ),
        ("other-key", Style::Tls, Some(format!("spki-sha256:{wrong}")), "mcp_tls_mismatch"),
        ("key-as-certificate", Style::Tls, Some(format!("sha256:{KEY}")), "mcp_tls_mismatch"),
    ];
    let servers: Vec<HttpServer> =
        cases.iter().map(|(_, style, ..)| HttpServer::start(*style)).collect::<Result<_>>()?;
    let entries = cases.iter().zip(&servers).map(|((id, _, fingerprint, _), server)| {
        let fingerprint = fingerprint.iter().map(|text| format!(", tls_fingerprint: \"{text}\""));
        let more = format!(", headers_from: {}{}", file.display(), fingerprint.collect::<String>());
        entry(id, server, "http", &more)
    });
    let (_directory, config) = configured(&listed(&entries.collect::<Vec<_>>()))?;
    let agent = Agent::start(&["--config", &config])?;
    for ((id, _, fingerprint, expected), server) in cases.iter().zip(&servers) {
        let outcomes = ["mcp_server_unreachable", "mcp_tool_seen", "mcp_tls_mismatch"];
        let event =
            agent.wait_for(id, |event| outcomes.iter().any(|outcome| of_server(event, outcome, id)))?;
        ensure!(is(&event, expected), "{id}: {event}");
        match *expected {
            "mcp_tls_mismatch" => {
                let said = json!([event["severity"], event["expected"]]);
                ensure!(said == json!(["critical", fingerprint]), "{id}: {event}");
                let kind = fingerprint.iter().flat_map(|text| text.split(':')).next().unwrap_or_default();
                let found = event["found"].as_str().unwrap_or_default();
                ensure!(found.starts_with(kind), "{id}: {event}");
                ensure!(server.requests() == 0, "{id}: it was sent something");
            }
            "mcp_server_unreachable" => {
                let reason = event["reason"].as_str().unwrap_or_default();
                ensure!(reason.contains("tls_fingerprint"), "{id}: {event}");
                ensure!(server.requests() == 0, "{id}: it was sent something");
            }
            _ => {
                let started =
                    agent.wait_for("the server", |event| of_server(event, "mcp_server_started", id))?;
                ensure!(started["url"] == server.url(), "{id}: {started}");
            }
        }
    }
    agent.stop()?;
    Ok(())
}

#[test]
fn unreachable_server_is_reported_once_and_can_return() -> Result<()> {
    let server = HttpServer::start(Style::Json)?;
    let (_directory, config) = configured(&declared(&server, "http", ""))?;
    let agent = Agent::start(&["--config", &config])?;
    agent.wait_for("the tool", |event| of(event, "mcp_tool_seen"))?;
    let failures =
        |agent: &Agent| agent.events().iter().filter(|event| of(event, "mcp_server_unreachable")).count();
    ensure!(failures(&agent) == 0, "it is there");
    server.becomes(Style::Gone);
    agent.wait_for("the first failure", |event| of(event, "mcp_server_unreachable"))?;
    server.becomes(Style::Page);
    let page = |event: &Value| {
        of(event, "mcp_server_unreachable")
            && event["reason"].as_str().is_some_and(|reason| reason.contains("no MCP server"))
    };
    agent.wait_for("the other reason", page)?;
    server.becomes(Style::Json);
    server.offers(json!({"name": "b", "description": "Adds.", "inputSchema": {"type": "object"}}));
    agent.wait_for("the other tool", |event| of(event, "mcp_tool_seen") && event["tool_name"] == "b")?;
    ensure!(failures(&agent) == 2, "each reason once: {}", failures(&agent));
    server.becomes(Style::Page);
    let pages = Cell::new(0);
    let again = |event: &Value| {
        pages.set(pages.get() + usize::from(page(event)));
        pages.get() == 2
    };
    agent.wait_for("the reason of before, once more", again)?;
    agent.stop()?;
    Ok(())
}

/// Waits for a listing, and its end: the next one is most of a second away.
fn await_listing(server: &HttpServer) -> Result<()> {
    let so_far = server.requests();
    wait_until("a listing", || server.requests() > so_far)?;
    loop {
        let asked = server.requests();
        std::thread::sleep(std::time::Duration::from_millis(200));
        if server.requests() == asked {
            return Ok(());
        }
    }
}

/// A server that comes back as it was offers nothing new, so nothing else tells that it is there again.
#[test]
fn unchanged_returning_server_is_reported_reachable() -> Result<()> {
    let server = HttpServer::start(Style::Json)?;
    let (_directory, config) = configured(&declared(&server, "http", ""))?;
    let agent = Agent::start(&["--config", &config])?;
    let database = agent.directory().join("state/mcpwarden.db").display().to_string();
    let shows = |health: &str| -> Result<()> {
        wait_until(health, || {
            let said = ask(&["servers", "--json", "--path", &database]);
            let lines = said.map(|said| said.stdout).unwrap_or_default();
            let mut servers = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            servers.any(|server| server["server_id"] == "remote" && server["health"] == health)
        })
    };
    let (reached, gone, seen) = ("mcp_server_reachable", "mcp_server_unreachable", "mcp_tool_seen");
    let said = |agent: &Agent| -> Vec<&'static str> {
        let kinds = [reached, gone, seen];
        let events = agent.events();
        events.iter().filter_map(|event| kinds.into_iter().find(|kind| of(event, kind))).collect()
    };
    let mut expected = vec![reached, seen];
    await_listing(&server)?;
    shows("healthy")?;
    for away in [Style::Page, Style::Locked] {
        for (style, kind, health) in [(away, gone, "unhealthy"), (Style::Json, reached, "healthy")] {
            await_listing(&server)?;
            server.becomes(style);
            expected.push(kind);
            (0..3).try_for_each(|_| await_listing(&server))?;
            agent.settle();
            ensure!(said(&agent) == expected, "{style:?}: {:?}", said(&agent));
            shows(health)?;
        }
    }
    let last = agent.events().into_iter().rfind(|event| of(event, reached)).context("none")?;
    let told = json!([last["url"], last["server_type"], last["session_id"], last["connection"]]);
    ensure!(told == json!([server.url(), "http", null, null]), "{last}");
    let stopped = agent.stop()?;
    ensure!(stopped["counters"]["listing_failed"].as_u64() >= Some(6), "{stopped}");
    Ok(())
}

#[test]
fn excluded_servers_are_never_queried() -> Result<()> {
    for (name, more, rest) in [
        ("switched off", "", "discovery: { list_declared: false }\n"),
        ("disabled", ", enabled: false", ""),
        ("denied", "", "policy: { denied_servers: [remote] }\n"),
    ] {
        let server = HttpServer::start(Style::Json)?;
        let text =
            format!("{rest}servers: [{{ id: remote, type: http, url: \"{}\"{more} }}]\n", server.url());
        let (_directory, config) = configured(&text)?;
        let agent = Agent::start(&["--config", &config])?;
        agent.settle();
        ensure!(server.requests() == 0, "{name}: it was asked");
        agent.stop()?;
    }
    Ok(())
}

#[test]
fn agent_lists_a_server_on_request() -> Result<()> {
    let (server, other) = (HttpServer::start(Style::Json)?, HttpServer::start(Style::Json)?);
    let tool = |text: &str| json!({ "name": "a", "description": text, "inputSchema": { "type": "object" } });
    server.offers(tool("Adds two numbers."));
    let entries = [
        entry("remote", &server, "http", ""),
        entry("other", &other, "http", ", enabled: false"),
        "{ id: program, command: x }".to_owned(),
    ];
    let yaml = listed(&entries).replace("list_every: 1s", "list_every: 1h");
    let (_directory, config) = configured(&yaml)?;
    let agent = Agent::start(&["--config", &config])?;
    agent.wait_for("the tool", |event| is(event, "mcp_tool_seen") && event["server_id"] == "remote")?;
    let refresh = |args: &[&str]| agent.tell(&[&["tools", "--refresh"], args].concat());
    refresh(&["remote"])?.expect("nothing new", 0, "lists 1 tool\nnothing is new or changed")?;
    server.offers(tool("Adds three numbers."));
    let begun = Instant::now();
    refresh(&["remote"])?.expect("a change", 0, "changed: a")?;
    ensure!(begun.elapsed().as_secs() < 30, "it took {:?}", begun.elapsed());
    let changed = agent.wait_for("the change", |event| is(event, "mcp_tool_changed"))?;
    ensure!(changed["server_id"] == "remote", "{changed}");
    server.offers(json!({ "name": "b", "description": "Adds.", "inputSchema": { "type": "object" } }));
    let renamed = refresh(&["remote", "--json"])?;
    let view: Value = serde_json::from_str(&renamed.stdout)?;
    ensure!(view["new"] == json!(["b"]) && view["removed"] == json!(["a"]) && view["tools"] == 1, "{view}");
    for (id, part) in [
        ("program", "the agent starts no programs"),
        ("other", "enabled: false"),
        ("remot", "declares no server `remot`; did you mean `remote`?"),
    ] {
        let said = refresh(&[id])?;
        said.expect(id, 2, "")?;
        ensure!(said.stderr.contains(part) && said.stdout.is_empty(), "{id}: {said:?}");
    }
    // Another plan: its first listing answers requests as well.
    fs::write(&config, yaml.replace("enabled: false", "enabled: true"))?;
    agent.tell(&["reload"])?.expect("reload", 0, "")?;
    refresh(&["other"])?.expect("another plan", 0, "lists 1 tool")?;
    server.becomes(Style::Gone);
    let said = refresh(&["remote"])?;
    said.expect("a server that is gone", 2, "")?;
    ensure!(said.stderr.contains("remote cannot be listed: "), "{said:?}");
    agent.stop()?;
    let none = ask(&["tools", "--refresh", "remote", "--socket", "/nowhere/control.sock"])?;
    none.expect("no agent", 2, "")?;
    ensure!(none.stderr.contains("no agent runs that listens at"), "{none:?}");
    Ok(())
}
