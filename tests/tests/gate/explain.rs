//! A denied call is rewritten so that its server's answer says why, where there is room for it.

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::gated::{Gated, WIRINGS, agent, is_marked, is_through};
use mcpwarden_tests::io_methods::WriteMethod;
use mcpwarden_tests::peer::echo;
use mcpwarden_tests::wiring::Wiring;
use serde_json::{Value, json};

const CONFIG: &str = "enforcement: { stdio: neutralize }\npolicy: { denied_tools: [add, 'delete_*'] }";
const LONG: &str = "blocked by policy: tool_denied (mcpwarden)";
const MIDDLE: &str = "blocked: tool_denied";
const SHORT: &str = "(blocked)";

/// A call, with its keys in the order of most clients: what is not theirs (`serde_json::Value`) sorts them.
fn call(id: u64, tool: &str, arguments: &Value) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"_meta\":{{\"x\":\"stays\"}},\
         \"name\":\"{tool}\",\"arguments\":{arguments}}}}}\n"
    )
}

/// A call that is denied, as the server gets it and as the agent tells of it.
fn denied(agent: &Agent, gated: &mut Gated, id: u64, written: &str) -> Result<(Value, Value)> {
    gated.peer.write(written.as_bytes())?;
    let answer = gated.peer.answer()?;
    ensure!(answer["id"] == id && answer["error"]["code"] == -32602, "{answer}");
    let heard = gated.heard()?;
    let last = heard.lines().last().context("nothing was heard")?;
    ensure!(last.len() == written.trim_end().len(), "{written}\n{last}");
    Ok((serde_json::from_str(last)?, gated.call(agent, id)?))
}

/// Tool, arguments, and what the server is asked for instead; `None`: one byte is overwritten.
fn cases() -> Vec<(&'static str, Value, Option<&'static str>)> {
    let text = |bytes: usize| json!({"text": "x".repeat(bytes)});
    vec![
        ("add", json!({"a": 20, "b": 22, "note": "The sum of both."}), Some(LONG)),
        ("add", json!({"a": 20, "b": 22, "c": 1}), Some(MIDDLE)),
        ("add", json!({"a": 20, "b": 22}), Some(SHORT)),
        ("add", json!({}), None),
        (
            "add",
            json!({"a": {"b": [1, {"c": "}\\\"{[é"}]}, "text": "more of it, and more still"}),
            Some(LONG),
        ),
        ("add", text(3_000), Some(LONG)),
        ("add", text(4_040), Some(LONG)),
        // More than is rewritten.
        ("add", text(6_000), None),
        ("delete_everything", json!({}), Some(SHORT)),
        ("delete_everything", json!({"path": "/srv/data/of/all"}), Some(LONG)),
    ]
}

#[test]
fn denied_call_says_why_and_session_continues() -> Result<()> {
    let Some(agent) = agent("denied_call_says_why_and_session_continues", CONFIG)? else { return Ok(()) };
    for wiring in WIRINGS {
        let mut gated = Gated::start(&agent, wiring, &[]).with_context(|| format!("{wiring:?}"))?;
        ensure!(is_through(&gated.peer.ask(&echo(3, "add"))?), "{wiring:?}: an innocent call");
        for ((tool, arguments, expected), id) in cases().into_iter().zip(10..) {
            let what = || format!("{wiring:?} {tool} {expected:?} {}", arguments.to_string().len());
            let message = call(id, tool, &arguments);
            let (heard, stopped) = denied(&agent, &mut gated, id, &message).with_context(what)?;
            let (name, params) = (heard["params"]["name"].as_str().unwrap_or_default(), &heard["params"]);
            match expected {
                Some(text) => {
                    ensure!(name.trim_end() == text, "{}: {heard}", what());
                    ensure!(params["arguments"] == json!({}), "{}: {heard}", what());
                }
                None => ensure!(name.contains('\u{7f}') && params["arguments"] == arguments, "{}", what()),
            }
            // Nothing else is another than it was.
            let mut rest = heard.clone();
            rest["params"]["name"] = tool.into();
            rest["params"]["arguments"] = arguments.clone();
            ensure!(rest == serde_json::from_str::<Value>(&message)?, "{}: {heard}", what());
            // The agent tells of what the client wrote.
            let found = json!([stopped["tool_name"], stopped["action"], stopped["enforced"]]);
            ensure!(found == json!([tool, "block", true]), "{}: {stopped}", what());
            let keys = |value: &Value| value.as_object().map(serde_json::Map::len);
            ensure!(keys(&stopped["input"]) == keys(&arguments), "{}: {stopped}", what());
        }
        ensure!(is_through(&gated.peer.ask(&echo(5, "again"))?), "{wiring:?}: the session");
        let events = agent.events_of(gated.connection);
        let decided: Vec<bool> = events
            .iter()
            .filter(|event| is(event, "mcp_gate_decided"))
            .filter_map(|event| event["explained"].as_bool())
            .collect();
        let expected: Vec<bool> = cases().iter().map(|(.., text)| text.is_some()).collect();
        ensure!(decided == expected, "{wiring:?}: {decided:?}");
    }
    agent.stop()?;
    Ok(())
}

/// Several messages in one write, and one message in several writes.
#[test]
fn every_message_of_a_write_says_why() -> Result<()> {
    let Some(agent) = agent("every_message_of_a_write_says_why", CONFIG)? else { return Ok(()) };
    let long = json!({"text": "x".repeat(100)});
    for wiring in WIRINGS {
        let mut gated = Gated::start(&agent, wiring, &[])?;
        let messages = [
            call(3, "add", &long),
            format!("{}\n", echo(4, "x")),
            call(5, "delete_a", &long),
            call(6, "add", &long),
        ];
        gated.peer.write(messages.concat().as_bytes())?;
        let answers = gated.hear(4)?;
        for (id, is_denied) in [(3, true), (4, false), (5, true), (6, true)] {
            let is_explained = answers[&id]["error"].to_string().contains(LONG);
            ensure!(is_explained == is_denied, "{wiring:?}: {answers:?}");
        }
        // A blank behind each colon and comma, as Python's `json` writes them.
        let spaced = call(7, "add", &long).replace("\":", "\": ").replace(",\"", ", \"");
        let (heard, _) = denied(&agent, &mut gated, 7, &spaced)?;
        ensure!(heard["params"]["name"] == LONG, "{wiring:?}: {heard}");
        // The second write does not have the beginning of the name; the first not the end of the arguments.
        let cut = call(8, "add", &long);
        let name = cut.find("add").context("add")?;
        for (at, expected) in [(name + 1, "\u{7f}"), (cut.len() - 20, "\u{7f}"), (name - 8, LONG)] {
            let mut session = Gated::start(&agent, wiring, &[])?;
            session.peer.write(&cut.as_bytes()[..at])?;
            session.peer.write(&cut.as_bytes()[at..])?;
            let answer = session.peer.answer()?;
            let said = answer["error"]["message"].as_str().unwrap_or_default();
            ensure!(said.contains(expected), "{wiring:?} {at}: {answer}");
        }
    }
    agent.stop()?;
    Ok(())
}

/// One buffer is rewritten by whichever call it is written; of one in several a byte is overwritten.
#[test]
fn every_way_of_writing_says_why() -> Result<()> {
    use WriteMethod as By;
    let Some(agent) = agent("every_way_of_writing_says_why", CONFIG)? else { return Ok(()) };
    let long = json!({"text": "x".repeat(100)});
    for wiring in WIRINGS {
        let mut gated = Gated::start(&agent, wiring, &[])?;
        for (method, is_explained, of_sockets) in [
            (By::Write, true, false),
            (By::Thread, true, false),
            (By::Dup, true, false),
            (By::Writev, false, false),
            (By::Send, true, true),
            (By::Sendmsg, false, true),
        ] {
            if of_sockets && wiring == Wiring::Pipes {
                continue;
            }
            let id = 10 + method as u64;
            gated.peer.write_by(method, call(id, "add", &long).as_bytes())?;
            let answer = gated.peer.answer()?;
            let said = answer["error"]["message"].as_str().unwrap_or_default();
            ensure!(answer["id"] == id && is_marked(said), "{wiring:?} {method:?}: {answer}");
            ensure!(said.contains(LONG) == is_explained, "{wiring:?} {method:?}: {answer}");
        }
    }
    agent.stop()?;
    Ok(())
}

#[test]
fn configured_messages_are_told() -> Result<()> {
    let config = "enforcement: { stdio: neutralize, messages: { tool_denied: 'Ask the data team: dt@example.com' } }\n\
                  policy: { denied_tools: [add] }";
    let Some(agent) = agent("configured_messages_are_told", config)? else { return Ok(()) };
    let mut gated = Gated::start(&agent, WIRINGS[0], &[])?;
    gated.peer.write(call(3, "add", &json!({"text": "x".repeat(60)})).as_bytes())?;
    let answer = gated.peer.answer()?;
    ensure!(answer["error"].to_string().contains("Ask the data team: dt@example.com"), "{answer}");
    agent.stop()?;
    Ok(())
}
