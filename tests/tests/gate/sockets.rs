//! The gate over sockets with an address: TCP, and Unix stream sockets with a path or an abstract name.

use std::fs;

use anyhow::{Context as _, Result, bail, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::command::configured;
use mcpwarden_tests::gated::{ADDRESSED, Gated, add, agent, agent_of, called, decided, is_through, tell};
use mcpwarden_tests::peer::echo;
use mcpwarden_tests::stepped::SteppedClient;
use mcpwarden_tests::wiring::Wiring;
use serde_json::{Value, json};

const NEUTRALIZE: &str = "enforcement: { stdio: neutralize }\npolicy: { denied_tools: [ad*] }";
const DENY: &str = "enforcement: { stdio: deny }\npolicy: { denied_tools: [ad*] }";
/// What a client in Python connects to.
const VARIANTS: [&str; 4] = ["tcp4", "tcp6", "named", "abstract"];

struct Client(SteppedClient);

impl Client {
    fn start(words: &[&str]) -> Result<Self> {
        SteppedClient::start("stopped.py", words).map(Self)
    }

    /// Has it write these, one after the other: the errors, and so many answers.
    fn write(&mut self, parts: Value, answers: usize) -> Result<(Value, Vec<Value>)> {
        self.0.step(&json!({"write": parts, "answers": answers}))
    }

    /// The same over a new connection.
    fn write_anew(&mut self, parts: Value, answers: usize) -> Result<(Value, Vec<Value>)> {
        self.0.step(&json!({"write": parts, "answers": answers, "anew": true}))
    }

    fn connection(&self, agent: &Agent) -> Result<u64> {
        self.0.connection(agent)
    }

    fn end(self) -> Result<()> {
        self.0.end()
    }
}

/// How a call with this id is reported: its action, and whether it was enforced.
fn call(agent: &Agent, connection: u64, id: u64) -> Result<(Value, Value)> {
    let called = called(agent, connection, id)?;
    Ok((called["action"].clone(), called["enforced"].clone()))
}

#[test]
fn denied_call_over_sockets_is_neutralized_and_session_continues() -> Result<()> {
    let test = "denied_call_over_sockets_is_neutralized_and_session_continues";
    let Some(agent) = agent(test, NEUTRALIZE)? else { return Ok(()) };
    for variant in VARIANTS {
        let mut client = Client::start(&[variant])?;
        let connection = client.connection(&agent).context(variant)?;
        // An innocent call, a denied one; one in two pieces; and in one write an innocent one and a denied one.
        let split = add(13).to_string();
        let (first, second) = split.split_at(split.find("\"add\"").context("a name")? - 9);
        let parts = json!([
            echo(11, "add"),
            add(12),
            first,
            format!("{second}\n"),
            [echo(14, "x"), add(15)],
            echo(16, "y"),
            // One that has room for the reason.
            add(17).to_string().replace("add\"", "add\",\"arguments\":{\"text\":\"as long as the reason\"}")
                + "\n",
        ]);
        let (errors, answers) = client.write(parts, 7).context(variant)?;
        ensure!(errors == json!([]) && answers.len() == 7, "{variant}: {errors} {answers:?}");
        ensure!(answers[6]["error"].to_string().contains("blocked: tool_denied"), "{variant}: {answers:?}");
        for (id, answer) in (11..).zip(&answers) {
            let is_denied = matches!(id, 12 | 13 | 15 | 17);
            ensure!(answer["id"] == id, "{variant}: {answer}");
            ensure!((answer["error"]["code"] == -32602) == is_denied, "{variant}: {answer}");
            ensure!(answer["result"].is_object() != is_denied, "{variant}: {answer}");
            let expected =
                if is_denied { (json!("block"), json!(true)) } else { (json!("allow"), json!(false)) };
            ensure!(call(&agent, connection, id)? == expected, "{variant}: {id}");
        }
        agent.settle();
        let found = decided(&agent, connection);
        ensure!(
            found == vec![("neutralized".to_owned(), "tool_denied".to_owned()); 4],
            "{variant}: {found:?}"
        );
        client.end()?;
    }
    agent.stop()?;
    Ok(())
}

#[test]
fn denied_call_over_sockets_fails_with_permission_error() -> Result<()> {
    let test = "denied_call_over_sockets_fails_with_permission_error";
    let Some(agent) = agent(test, DENY)? else { return Ok(()) };
    for variant in VARIANTS {
        let mut client = Client::start(&[variant])?;
        let connection = client.connection(&agent).context(variant)?;
        let parts = json!([echo(11, "x"), add(12), [echo(13, "y"), add(14)], echo(15, "z")]);
        let (errors, answers) = client.write(parts, 2).context(variant)?;
        ensure!(errors == json!([libc::EPERM, libc::EPERM]), "{variant}: {errors}");
        let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
        ensure!(ids == [&json!(11), &json!(15)], "{variant}: {answers:?}");
        for (id, action, is_stopped) in
            [(12, "block", true), (13, "block", true), (14, "block", true), (15, "allow", false)]
        {
            let found = call(&agent, connection, id)?;
            ensure!(found == (json!(action), json!(is_stopped)), "{variant}: {id}: {found:?}");
        }
        client.end()?;
    }
    agent.stop()?;
    Ok(())
}

/// A client that makes a new connection for each call, which is the first message there: the server is known.
#[test]
fn first_call_of_each_new_connection_is_judged() -> Result<()> {
    let test = "first_call_of_each_new_connection_is_judged";
    for (yaml, refuses) in [(NEUTRALIZE, false), (DENY, true)] {
        let Some(agent) = agent(test, yaml)? else { return Ok(()) };
        for variant in VARIANTS {
            let mut client = Client::start(&[variant])?;
            let first = client.connection(&agent).context(variant)?;
            for round in 0..4 {
                let (denied, allowed) = (100 + 2 * round, 101 + 2 * round);
                let expected = usize::from(!refuses);
                let (errors, answers) = client.write_anew(json!([add(denied)]), expected).context(variant)?;
                if refuses {
                    ensure!(errors == json!([libc::EPERM]), "{variant}: {errors} {answers:?}");
                } else {
                    ensure!(errors == json!([]) && answers[0]["error"].is_object(), "{variant}: {answers:?}");
                }
                let (errors, answers) = client.write_anew(json!([echo(allowed, "x")]), 1).context(variant)?;
                ensure!(errors == json!([]) && answers[0]["result"].is_object(), "{variant}: {answers:?}");
                for (id, is_denied) in [(denied, true), (allowed, false)] {
                    let called = agent.wait_for(&format!("{variant} call {id}"), |event| {
                        is(event, "mcp_tool_called")
                            && event["jsonrpc_id"] == id
                            && event["connection"] != first
                    })?;
                    let found = (called["action"].clone(), called["enforced"].clone());
                    let wanted = if is_denied { ("block", true) } else { ("allow", false) };
                    ensure!(found == (json!(wanted.0), json!(wanted.1)), "{variant}: {called}");
                }
            }
            client.end()?;
        }
        agent.stop()?;
    }
    Ok(())
}

/// Over each kind of socket the same as over a pipe: a message in two writes, cut at every place.
#[test]
fn denied_call_over_sockets_is_found_in_any_pieces() -> Result<()> {
    let test = "denied_call_over_sockets_is_found_in_any_pieces";
    let Some(agent) = agent(test, NEUTRALIZE)? else { return Ok(()) };
    for wiring in ADDRESSED {
        let mut session = Gated::start(&agent, wiring, &[]).with_context(|| format!("{wiring:?}"))?;
        let mut refused = 0;
        let text = add(9).to_string();
        for cut in 1..text.len() {
            let (first, second) = text.split_at(cut);
            session.peer.write(first.as_bytes())?;
            if session.peer.write(format!("{second}\n").as_bytes()).is_err() {
                refused += 1;
                // Of this message the beginning is there.
                session = Gated::start(&agent, wiring, &[])?;
                continue;
            }
            let answer = session.peer.answer()?;
            ensure!(answer["error"].is_object(), "{wiring:?}: {first} | {second}: {answer}");
        }
        ensure!(refused < 3, "{wiring:?}: {refused} were refused: they could have been neutralized");
    }
    agent.stop()?;
    Ok(())
}

/// A connection that was there before the agent, in the middle of a message: what is denied is stopped from its first whole message on
/// that shows what it is.
#[test]
fn adopted_connection_is_judged_once_known() -> Result<()> {
    let test = "adopted_connection_is_judged_once_known";
    for variant in ["tcp4", "abstract"] {
        let mut client = Client::start(&[variant])?;
        let text = add(11).to_string();
        let (first, second) = text.split_at(text.len() / 2);
        client.write(json!([first]), 0)?;
        let Some(agent) = agent(test, NEUTRALIZE)? else { return Ok(()) };
        // The rest of that message, which nobody can judge; and a request by which the server is known.
        let list = json!({"jsonrpc": "2.0", "id": 12, "method": "tools/list"});
        let (errors, answers) = client.write(json!([format!("{second}\n"), list]), 2)?;
        ensure!(errors == json!([]) && answers[0]["result"].is_object(), "{variant}: {errors} {answers:?}");
        let connection = client.connection(&agent).context(variant)?;
        let (_, answers) = client.write(json!([add(13), echo(14, "x")]), 2)?;
        ensure!(
            answers[0]["error"].is_object() && answers[1]["result"].is_object(),
            "{variant}: {answers:?}"
        );
        ensure!(call(&agent, connection, 13)? == (json!("block"), json!(true)), "{variant}");
        client.end()?;
        agent.stop()?;
    }
    Ok(())
}

/// Where the gate is switched on in the middle of a message, nobody knows that it is one: what comes is undecidable up to the end of a line.
#[test]
fn gate_switched_on_within_a_message_waits_for_its_end() -> Result<()> {
    let off = NEUTRALIZE.replace("neutralize", "observe");
    let (_directory, path) = configured(&off)?;
    let test = "gate_switched_on_within_a_message_waits_for_its_end";
    for wiring in [Wiring::Tcp, Wiring::Abstract] {
        fs::write(&path, &off)?;
        let Some(agent) = agent_of(test, &path)? else { return Ok(()) };
        let mut session = Gated::start(&agent, wiring, &[])?;
        let text = format!("{}\n", add(10));
        let (first, second) = text.split_at(text.len() / 2);
        session.peer.write(first.as_bytes())?;
        fs::write(&path, NEUTRALIZE)?;
        tell(&agent, &["reload"])?;
        session.peer.write(second.as_bytes())?;
        ensure!(is_through(&session.peer.answer()?), "{wiring:?}: its beginning was not judged");
        let answer = session.peer.ask(&add(11))?;
        ensure!(answer["error"].is_object(), "{wiring:?}: {answer}");
        agent.settle();
        let found = session.decided(&agent);
        let expected = [("passed", "after_unread"), ("neutralized", "tool_denied")];
        ensure!(
            found == expected.map(|(action, code)| (action.to_owned(), code.to_owned())),
            "{wiring:?}: {found:?}"
        );
        agent.stop()?;
    }
    Ok(())
}

/// A server that an operator blocks is asked nothing.
#[test]
fn server_over_socket_is_blocked_by_hand() -> Result<()> {
    let Some(agent) = agent("server_over_socket_is_blocked_by_hand", NEUTRALIZE)? else { return Ok(()) };
    let mut client = Client::start(&["tcp4"])?;
    let connection = client.connection(&agent)?;
    let events = agent.events_of(connection);
    let started = events.iter().find(|event| is(event, "mcp_server_started")).context("its start")?;
    let Some(server) = started["server_id"].as_str() else { bail!("{started}") };
    let target = format!("server={server}");
    tell(&agent, &["block", &target, "--reason", "test"])?;
    let (_, answers) = client.write(json!([echo(11, "x")]), 1)?;
    ensure!(answers[0]["error"].is_object(), "{answers:?}");
    tell(&agent, &["unblock", &target])?;
    let (_, answers) = client.write(json!([echo(12, "x")]), 1)?;
    ensure!(answers[0]["result"].is_object(), "{answers:?}");
    client.end()?;
    agent.stop()?;
    Ok(())
}
