//! HTTP in every form that it may have, on many connections at once: the agent reports what client and server logged.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::command::configured;
use mcpwarden_tests::transcript::{Dir, compare, message_of};
use mcpwarden_tests::web::{Client, Exchanged, Rng, SECRET, Server};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const CONNECTIONS: u64 = 16;
const REQUESTS: usize = 5_000;
/// Room for all that is said, both ways: what is held against the logs is what is read, not how fast.
const RING_BYTES: &str = "268435456";
/// How long the agent may take behind the last request.
const PATIENCE: Duration = Duration::from_secs(120);

/// The id of the server.
const SERVER: &str = "mixed";
/// Longest text that is compared as it is. Bytes.
const WHOLE_BYTES: usize = 256;

/// A message with each long text as its length and hash.
fn brief(message: &Value) -> Value {
    match message {
        Value::String(text) if text.len() > WHOLE_BYTES => {
            json!(format!("{} bytes, {:x?}", text.len(), Sha256::digest(text)))
        }
        Value::Array(all) => all.iter().map(brief).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), brief(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

/// How long a text is: mostly short, as texts are, and up to 4 MiB.
fn bytes(rng: &mut Rng) -> usize {
    const MIB: u64 = 1 << 20;
    let bytes = match rng.below(5_000) {
        0..3 => 10,
        3..6 => 4 * MIB,
        6..12 => MIB / 4 + rng.below(4 * MIB),
        12..100 => 16_384 + rng.below(MIB / 4),
        100..1_000 => 1_024 + rng.below(15_360),
        _ => 10 + rng.below(1_014),
    };
    bytes.min(4 * MIB) as usize
}

type Sessions = BTreeMap<String, Vec<(Dir, Value)>>;

fn by_session(said: Exchanged) -> Sessions {
    let mut sessions = Sessions::new();
    for (session, dir, message) in said {
        sessions.entry(session).or_default().push((dir, message));
    }
    sessions
}

/// What the agent reports, by the session whose id the test's server makes of that of the first request.
fn reported(events: &[Value]) -> Result<Sessions> {
    let (mut names, mut sessions) = (BTreeMap::new(), Sessions::new());
    for event in events.iter().filter(|event| event["server_id"] == SERVER) {
        let Some((dir, message)) = message_of(event)? else { continue };
        let connection = event["connection"].as_u64().context("a message of no connection")?;
        if message["method"] == "initialize" {
            names.insert(connection, format!("session-{}", message["id"]));
        }
        let name =
            names.get(&connection).with_context(|| format!("before the first request: {event:.300}"))?;
        sessions.entry(name.clone()).or_default().push((dir, brief(&message)));
    }
    Ok(sessions)
}

/// The same messages, in whatever order: a server hears several connections at once.
fn sorted(mut messages: Vec<(Dir, Value)>) -> Vec<(Dir, Value)> {
    messages.sort_by_key(|(_, message)| message.to_string());
    messages
}

#[test]
fn reported_http_messages_match_both_logs() -> Result<()> {
    let server = Server::start((Ipv4Addr::LOCALHOST, 0).into(), brief)?;
    let to = server.address();
    let (_directory, config) = configured(&format!(
        "discovery: {{ list_declared: false }}\nservers: [{{ id: {SERVER}, type: http, url: \"http://{to}/mcp\" }}]\n"
    ))?;
    let agent = Agent::start(&["--config", &config, "--ring-bytes", RING_BYTES])?;

    let each = REQUESTS.div_ceil(CONNECTIONS as usize);
    let clients: Vec<_> = (1..=CONNECTIONS)
        .map(|number| thread::spawn(move || Client::new(to, number * 1_000_000, brief).run(each, bytes)))
        .collect();
    let mut said = Exchanged::new();
    for client in clients {
        said.extend(client.join().ok().context("a client panicked")??);
    }
    let said = by_session(said);

    let ended = Cell::new(0);
    agent.wait_for_within(PATIENCE, "the end of the last session", |event| {
        let ends = is(event, "mcp_server_exited") && event["server_id"] == SERVER;
        ended.set(ended.get() + usize::from(ends));
        ended.get() == said.len()
    })?;
    let events = agent.events();
    let heard = by_session(server.said());
    let mut reported = reported(&events)?;
    ensure!(reported.len() == said.len(), "{} sessions said, {} reported", said.len(), reported.len());
    for (session, messages) in said {
        compare(&messages, &reported.remove(&session).unwrap_or_default())
            .with_context(|| session.clone())?;
        let heard = heard.get(&session).cloned().unwrap_or_default();
        compare(&sorted(messages), &sorted(heard)).with_context(|| format!("{session}, the server's log"))?;
    }
    for event in &events {
        let lost = is(event, "mcp_capture_gap") || is(event, "mcp_network_uninspected");
        ensure!(!lost || event["server_id"] != SERVER, "{event}");
        ensure!(!event.to_string().contains(SECRET), "a secret in an event: {event:.300}");
    }
    let last = agent.stop()?;
    for counter in ["http_unpaired", "http_unfinished", "http_unwanted", "http_undecodable", "http_gap_bytes"]
    {
        ensure!(last["counters"][counter] == 0, "{counter}: {}", last["counters"]);
    }
    Ok(())
}
