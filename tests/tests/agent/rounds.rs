//! Both eras of the protocol: the official clients settle it themselves, with servers that need something of them. Each message is
//! reported, and a call in several tries is one call.

use std::collections::{HashMap, VecDeque};

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::clients::{Client, Driven, Plan, RealServer};
use mcpwarden_tests::places;
use mcpwarden_tests::remote::{Listening, Remote, asking_calls};
use mcpwarden_tests::transcript::{Dir, compare};
use serde_json::Value;
use tempfile::TempDir;

const NEW: &str = "2026-07-28";

/// A client, how it settles the era, over which transport, and whether that is the new one with the server that asks.
type Row = (Client, &'static str, Over, bool);

const CLIENTS: [Row; 12] = [
    (Client::Python, "auto", Over::Stdio, true),
    (Client::Python, "legacy", Over::Stdio, false),
    (Client::TypeScript2, NEW, Over::Stdio, true),
    (Client::TypeScript2, "auto", Over::Stdio, true),
    (Client::TypeScript2, "legacy", Over::Stdio, false),
    (Client::Python, "auto", Over::Http, true),
    (Client::Python, NEW, Over::Http, true),
    (Client::Python, "legacy", Over::Http, false),
    (Client::TypeScript2, "auto", Over::Http, true),
    (Client::TypeScript2, "legacy", Over::Http, false),
    (Client::TypeScript2, NEW, Over::Http, true),
    (Client::Python, NEW, Over::Stdio, true),
];

#[derive(Clone, Copy, Debug)]
enum Over {
    Stdio,
    Http,
}

/// How many clients are at work at once: most of their time is spent starting, and they give up after a minute.
const AT_ONCE: usize = 3;

/// A client at work, and what is to come of it.
struct Case {
    name: String,
    driven: Driven,
    calls: usize,
    /// Tries beyond the first, of all calls together.
    rounds: u64,
    _directory: TempDir,
}

impl Case {
    fn start(name: String, client: Client, plan: &Plan, rounds: u64) -> Result<Self> {
        let directory = tempfile::tempdir().context("no temporary directory")?;
        let driven = client.start(plan, directory.path()).with_context(|| name.clone())?;
        Ok(Self { name, driven, calls: plan.calls.len(), rounds, _directory: directory })
    }

    fn check(self, agent: &Agent) -> Result<()> {
        let Self { name, driven, calls, rounds, .. } = self;
        check(agent, driven, calls, rounds).context(name)
    }
}

/// The server that asks, over stdio.
fn asking(mode: &'static str) -> Plan {
    Plan {
        command: places::real_servers().join("venv/bin/python"),
        args: vec![places::sources().join("servers/asking.py").display().to_string()],
        env: serde_json::json!({}),
        calls: asking_calls(),
        mode: Some(mode),
        ..Plan::default()
    }
}

/// The connection with the calls: a client may probe another process of the server first. Nothing follows its end.
fn connection_of(agent: &Agent, pid: u32) -> Result<u64> {
    let started = agent.wait_for("the client's session", |event| {
        is(event, "mcp_server_started") && event["client"]["pid"] == pid
    })?;
    let called = agent.wait_for("a call", |event| {
        is(event, "mcp_tool_called") && event["session_id"] == started["session_id"]
    })?;
    let connection = &called["connection"];
    agent.wait_for("the server's end", |event| {
        is(event, "mcp_server_exited") && event["connection"] == *connection
    })?;
    connection.as_u64().context("no connection")
}

fn check(agent: &Agent, driven: Driven, calls: usize, rounds: u64) -> Result<()> {
    let pid = driven.pid();
    let said = driven.finish()?;
    let connection = connection_of(agent, pid)?;
    compare(&as_reported(&said), &agent.messages(connection)?)?;
    let events = agent.events_of(connection);
    let of = |kind: &str| events.iter().filter(|event| is(event, kind)).collect::<Vec<_>>();
    let results = of("mcp_tool_result");
    let found: Vec<&Value> = of("mcp_detection").into_iter().map(|event| &event["detection"]).collect();
    ensure!(found.is_empty(), "{found:?}");
    ensure!(of("mcp_capture_gap").is_empty(), "a gap");
    ensure!(of("mcp_tool_called").len() == calls && results.len() == calls, "{events:#?}");
    let tries: u64 = results.iter().filter_map(|event| event["rounds"].as_u64()).sum();
    ensure!(tries == rounds, "{tries} rounds: {results:#?}");
    Ok(())
}

/// What was said, as it is reported: the result of a call has the id of its first try.
fn as_reported(said: &[(Dir, Value)]) -> Vec<(Dir, Value)> {
    let mut firsts: Vec<(Value, Value)> = Vec::new();
    let mut first_of: HashMap<String, Value> = HashMap::new();
    let mut reported = said.to_vec();
    for (dir, message) in &mut reported {
        let id = message["id"].clone();
        let params = &message["params"];
        match dir {
            Dir::C2s if message["method"] == "tools/call" => {
                let asks = serde_json::json!([params["name"], params["arguments"]]);
                let is_retry = params.get("requestState").is_some() || params.get("inputResponses").is_some();
                match firsts.iter().rev().find(|(known, _)| is_retry && *known == asks) {
                    Some((_, first)) => drop(first_of.insert(id.to_string(), first.clone())),
                    None => firsts.push((asks, id)),
                }
            }
            Dir::S2c
                if message["result"]["resultType"] != "input_required" && message.get("method").is_none() =>
            {
                if let Some(first) = first_of.remove(&id.to_string()) {
                    message["id"] = first;
                }
            }
            _ => {}
        }
    }
    reported
}

#[test]
fn one_client_of_each_era_is_reported() -> Result<()> {
    let remote = Remote::Asking.start()?;
    reported([CLIENTS[0], CLIENTS[7]].map(|client| plan(&remote, client)).into())
}

#[test]
fn clients_of_both_eras_are_reported() -> Result<()> {
    let remote = Remote::Asking.start()?;
    let memory = tempfile::tempdir().context("no temporary directory")?;
    let mut plans: Vec<_> = CLIENTS.into_iter().map(|client| plan(&remote, client)).collect();
    // A server of the older era with a client that knows both, and a client of the older era.
    let of_old = Plan { mode: Some("auto"), ..RealServer::Memory.plan(memory.path())? };
    plans.push(("a server of old".to_owned(), Client::Python, of_old, 0));
    let calls = asking_calls().into_iter().take(1).collect();
    let of_old = Plan { mode: None, calls, ..asking("legacy") };
    plans.push(("a client of old".to_owned(), Client::TypeScript, of_old, 0));
    reported(plans)
}

/// What a client is to do, and how many tries beyond the first its calls take.
fn plan(remote: &Listening, (client, mode, over, is_new): Row) -> (String, Client, Plan, u64) {
    let plan = match over {
        Over::Stdio => asking(mode),
        Over::Http => Plan { mode: Some(mode), ..remote.plan() },
    };
    (format!("{client:?}, {mode}, {over:?}"), client, plan, if is_new { 4 } else { 0 })
}

/// Starts these clients, some at once, and checks what an agent reports of each.
fn reported(plans: Vec<(String, Client, Plan, u64)>) -> Result<()> {
    let agent = Agent::start(&[])?;
    // The next one starts as the first one ends.
    let mut at_work: VecDeque<Case> = VecDeque::new();
    for (name, client, plan, rounds) in plans {
        if at_work.len() >= AT_ONCE
            && let Some(case) = at_work.pop_front()
        {
            case.check(&agent)?;
        }
        at_work.push_back(Case::start(name, client, &plan, rounds)?);
    }
    at_work.into_iter().try_for_each(|case| case.check(&agent))?;
    agent.stop()?;
    Ok(())
}
