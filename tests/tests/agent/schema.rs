//! Every line that the agent prints is an event of the published schema, and what is to be redacted is nowhere in it.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::io_methods::WriteMethod;
use mcpwarden_tests::places;
use mcpwarden_tests::script::Step;
use mcpwarden_tests::sender::{Sending, Sent, initialize};
use serde_json::{Value, json};

fn schema() -> Result<(String, Value)> {
    let output = Command::new(places::agent()).arg("schema").output().context("cannot start the agent")?;
    ensure!(output.status.success(), "`mcpwarden schema` failed");
    let text = String::from_utf8(output.stdout)?;
    let schema = serde_json::from_str(&text)?;
    Ok((text, schema))
}

#[test]
fn published_schema_matches_the_agents_output() -> Result<()> {
    let path = places::sources().join("../docs/reference/events.schema.json");
    let published = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(published == schema()?.0, "make it again: mcpwarden schema > docs/reference/events.schema.json");
    Ok(())
}

/// What must not be told, each in a place of its own.
const SECRETS: [&str; 8] = [
    "argument-hunter2",
    "nested-hunter3",
    "result-hunter4",
    "structured-hunter5",
    "error-hunter6",
    "data-hunter7",
    "params-hunter8",
    "invalid-hunter9",
];
/// The same for keys, which are names of a program's and told.
const KEY: &str = "a-key-of-an-argument";

/// Everything that can go over a connection: calls that succeed, fail and are refused, messages of every kind, what is
/// no message, and what cannot be seen.
fn session() -> Result<Vec<Step>> {
    let [argument, nested, result, structured, error, data, params, invalid] = SECRETS;
    let say = |lines: &[Value]| {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        Step::line(
            &json!({"jsonrpc": "2.0", "id": "say", "method": "test/say", "params": {"hex": hex}}).to_string(),
        )
    };
    let call = |id: u64| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
            "name": "echo", "arguments": {"text": argument, "deep": [{KEY: {"x": nested}}], "number": 4_242_424_242_u64}
        }})
    };
    // The echo server would answer them; in a batch it answers only the first.
    let calls = json!([{"jsonrpc": "2.0", "id": 99, "method": "ping"}, call(1), call(2), call(3)]);
    let answers = [
        json!({"jsonrpc": "2.0", "id": 1, "result": {
            "content": [{"type": "text", "text": result}], "structuredContent": {"deep": [structured]}
        }}),
        json!({"jsonrpc": "2.0", "id": 2, "result": {"content": [], "isError": true}}),
        json!({"jsonrpc": "2.0", "id": 3, "error": {"code": -32000, "message": error, "data": {"why": data}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": params}}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {"messages": [params]}}),
    ];
    let request = |id: u64, method: &str| {
        Step::line(&json!({"jsonrpc": "2.0", "id": id, "method": method}).to_string())
    };
    Ok(vec![
        Step::line(&initialize()),
        Step::AwaitLines(1),
        Step::line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
        request(50, "tools/list"),
        Step::AwaitLines(2),
        Step::line(&calls.to_string()),
        Step::AwaitLines(3),
        say(&answers),
        Step::AwaitLines(3 + answers.len()),
        Step::line(&json!({"jsonrpc": "2.0", "id": 1, "result": {"content": {"text": result}}}).to_string()),
        Step::line(&format!("{{\"{invalid}")),
        Step::line(&format!("[\"{invalid}\"]")),
        Step::line(&format!("log {invalid}")),
        Step::line(
            &json!({"jsonrpc": "2.0", "id": 60, "method": "test/x", "params": {"x": params}}).to_string(),
        )
        .by(WriteMethod::SplicePipe, 0),
        request(61, "test/of-tomorrow"),
    ])
}

/// Runs the session under an agent with these arguments, and gives all that it printed and what of it is of the session.
fn watch(args: &[&str]) -> Result<(Vec<Value>, Sent)> {
    let agent = Agent::start_plain(args)?;
    let sent = Sending::new(session()?).run(&agent)?;
    agent.settle();
    let mut events = agent.events();
    events.push(agent.stop()?);
    Ok((events, sent))
}

#[test]
fn emitted_events_conform_to_the_schema() -> Result<()> {
    let (_, schema) = schema()?;
    let validator = jsonschema::validator_for(&schema).context("the schema is none")?;
    // What is said, by what is asked for.
    let always = [
        "agent_started",
        "agent_stopped",
        "mcp_server_started",
        "mcp_server_initialized",
        "mcp_tool_seen",
        "mcp_tool_called",
        "mcp_tool_result",
        "mcp_capture_gap",
        "mcp_server_exited",
    ];
    // Whether there are messages that are no calls, and whether all secrets are shown; without such messages some have no event.
    let cases: [(&[&str], bool, Option<bool>); 4] = [
        (&[], false, Some(false)),
        (&["--verbose"], true, Some(false)),
        (&["--show-payloads"], false, None),
        (&["--verbose", "--show-payloads"], true, Some(true)),
    ];
    for (args, verbose, shown) in cases {
        let (events, sent) = watch(args)?;
        for event in &events {
            let errors: Vec<String> = validator.iter_errors(event).map(|error| error.to_string()).collect();
            ensure!(errors.is_empty(), "{args:?}: {errors:?} in {event}");
        }
        let mut expected: BTreeSet<&str> = always.into();
        if verbose {
            expected.insert("mcp_message");
        }
        let of_session =
            |event: &&Value| event["connection"] == sent.connection || event["connection"].is_null();
        let said: BTreeSet<&str> =
            events.iter().filter(of_session).filter_map(|event| event["type"].as_str()).collect();
        let said: BTreeSet<&str> = said.into_iter().filter(|kind| *kind != "agent_loss").collect();
        ensure!(said == expected, "{args:?}: {said:?}, not {expected:?}");
        ensure!(sent.count("mcp_tool_result") == 3, "{args:?}: not three results");
        if let Some(full) = shown {
            shows_secrets(&sent, full).with_context(|| format!("{args:?}"))?;
        }
    }
    Ok(())
}

/// A schema that takes everything would prove nothing.
#[test]
fn schema_rejects_invalid_events() -> Result<()> {
    let (_, schema) = schema()?;
    let validator = jsonschema::validator_for(&schema).context("the schema is none")?;
    let cases = [
        json!({}),
        json!({"type": "mcp_tool_called", "timestamp": "2026-01-01T00:00:00Z"}),
        json!({"type": "of_tomorrow", "timestamp": "2026-01-01T00:00:00Z"}),
        json!({"type": "mcp_capture_gap", "timestamp": "2026-01-01T00:00:00Z", "direction": "up", "bytes": 1, "cause": "tee"}),
        json!({"type": "mcp_capture_gap", "timestamp": "2026-01-01T00:00:00Z", "direction": "c2s", "bytes": 1, "cause": "?"}),
    ];
    for case in cases {
        ensure!(!validator.is_valid(&case), "{case} is taken for an event");
    }
    Ok(())
}

/// That payloads are there with `full`, and redacted without: type, length and hash in their stead.
fn shows_secrets(sent: &Sent, full: bool) -> Result<()> {
    let text: String = sent.events.iter().map(|event| format!("{event}\n")).collect();
    for secret in SECRETS.iter().chain(&["4242424242"]) {
        ensure!(text.contains(secret) == full, "{secret} is {}there", if full { "not " } else { "" });
    }
    ensure!(text.contains(KEY), "keys are told");
    // What is told in place of it: type, length, hash.
    let called = sent.events.iter().find(|event| is(event, "mcp_tool_called")).context("no call")?;
    let leaf = &called["input"]["text"];
    if full {
        ensure!(leaf == SECRETS[0], "{called}");
    } else {
        ensure!(
            leaf["type"] == "string" && leaf["length"] == SECRETS[0].len() && leaf["hash"].is_string(),
            "{called}"
        );
    }
    Ok(())
}
