//! The gate, by how messages are told apart: lines, batches, several in one write, headers of `Content-Length`.

use std::io;

use anyhow::{Context as _, Result, bail, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::framing::Framing;
use mcpwarden_tests::gated::{Gated, WIRINGS, add, agent, is_through};
use mcpwarden_tests::peer::echo;
use serde_json::{Value, json};

/// Whether the session's server has read these bytes as they were written.
fn has_heard(session: &Gated, text: &str) -> Result<bool> {
    Ok(session.heard()?.contains(text))
}

/// A write that must be refused.
fn refused(session: &mut Gated, bytes: &[u8]) -> Result<()> {
    let Err(error) = session.peer.write(bytes) else { bail!("it was written") };
    let error = error.downcast::<io::Error>()?;
    ensure!(error.kind() == io::ErrorKind::PermissionDenied, "{error}");
    Ok(())
}

/// How the calls with these ids are told of: which tool, whether it was stopped, and by whom.
fn expect(agent: &Agent, session: &Gated, calls: &[(u64, &str, bool, Value)]) -> Result<()> {
    for (id, tool, is_stopped, guard) in calls {
        let call = session.call(agent, *id)?;
        let action = if *is_stopped { "block" } else { "allow" };
        let found = json!([call["tool_name"], call["action"], call["enforced"], call["guard"]]);
        ensure!(found == json!([tool, action, is_stopped, guard]), "{call}");
    }
    Ok(())
}

fn by_tool_access() -> Value {
    json!("tool_access")
}

/// Of one write, the denied calls alone are neutralized: four at most.
#[test]
fn only_denied_messages_of_a_write_are_neutralized() -> Result<()> {
    let test = "only_denied_messages_of_a_write_are_neutralized";
    let config = "enforcement: { stdio: neutralize, explain: false }\npolicy: { denied_tools: [add] }";
    let Some(agent) = agent(test, config)? else { return Ok(()) };
    for wiring in WIRINGS {
        let mut session = Gated::start(&agent, wiring, &[])?;
        for (base, is_batch) in [(10, false), (20, true)] {
            let what = || format!("{wiring:?} {base}");
            let denied = [1, 3, 4, 6];
            let calls: Vec<Value> = (0..8)
                .map(|at| if denied.contains(&at) { add(base + at) } else { echo(base + at, "x") })
                .collect();
            let texts: Vec<String> = calls.iter().map(Value::to_string).collect();
            let text = if is_batch { format!("[{}]\n", texts.join(",")) } else { texts.join("\n") + "\n" };
            session.peer.write(text.as_bytes()).with_context(what)?;
            let answers: Vec<Value> = if is_batch {
                let answer = session.peer.answer()?;
                answer.as_array().with_context(|| answer.to_string())?.clone()
            } else {
                session.hear(8)?.into_values().collect()
            };
            ensure!(answers.len() == 8, "{}: {answers:?}", what());
            for (at, answer) in (0..).zip(&answers) {
                ensure!(answer["id"] == base + at, "{}: {answer}", what());
                let is_denied = denied.contains(&at);
                ensure!(is_through(answer) != is_denied, "{}: {answer}", what());
                ensure!((answer["error"]["code"] == -32602) == is_denied, "{}: {answer}", what());
                let (tool, guard) = if is_denied { ("add", by_tool_access()) } else { ("echo", Value::Null) };
                expect(&agent, &session, &[(base + at, tool, is_denied, guard)]).with_context(what)?;
            }
            let neutralized = text.trim_end().replace("\"add\"", "\"ad\u{7f}\"");
            ensure!(has_heard(&session, &neutralized)?, "{}: {}", what(), session.heard()?);
        }
        // 64 are overwritten, and one more is one too many: nothing of it is written.
        let many = |ids: std::ops::Range<u64>| ids.map(|id| format!("{}\n", add(id))).collect::<String>();
        session.peer.write(many(100..164).as_bytes())?;
        let answers = session.hear(64)?;
        ensure!(answers.values().all(|answer| answer["error"]["code"] == -32602), "{wiring:?}: {answers:?}");
        refused(&mut session, format!("{}\n{}", echo(39, "y"), many(200..265)).as_bytes())?;
        ensure!(is_through(&session.peer.ask(&echo(50, "z"))?), "{wiring:?}: the next write");
        ensure!(!session.heard()?.contains("\"y\""), "{wiring:?}: {}", session.heard()?);
        expect(&agent, &session, &[(39, "echo", true, Value::Null), (264, "add", true, by_tool_access())])?;
    }
    agent.stop()?;
    Ok(())
}

/// A write that is refused is so as a whole, and what was innocent of it is told of, too.
#[test]
fn allowed_calls_in_refused_write_are_reported() -> Result<()> {
    let config = "enforcement: { stdio: deny }\npolicy: { denied_tools: [add] }";
    let Some(agent) = agent("allowed_calls_in_refused_write_are_reported", config)? else { return Ok(()) };
    for wiring in WIRINGS {
        let mut session = Gated::start(&agent, wiring, &[])?;
        let [first, second, third] = [echo(10, "before"), add(11), echo(12, "behind")];
        refused(&mut session, format!("[{first},{second},{third}]\n").as_bytes())?;
        let [first, second, third] = [echo(20, "before"), add(21), echo(22, "behind")];
        refused(&mut session, format!("{first}\n{second}\n{third}\n").as_bytes())?;
        ensure!(is_through(&session.peer.ask(&echo(30, "z"))?), "{wiring:?}: the next write");
        let heard = session.heard()?;
        ensure!(
            !["before", "behind", "add"].iter().any(|word| heard.contains(&format!("\"{word}\""))),
            "{wiring:?}: {heard}"
        );
        for base in [10_u64, 20] {
            let of = |at, tool, guard| (base + at, tool, true, guard);
            let calls =
                [of(0, "echo", Value::Null), of(1, "add", by_tool_access()), of(2, "echo", Value::Null)];
            expect(&agent, &session, &calls).with_context(|| format!("{wiring:?} {base}"))?;
        }
        agent.settle();
        let decided = session.decided(&agent);
        ensure!(decided.iter().all(|(action, _)| action == "refused"), "{wiring:?}: {decided:?}");
    }
    agent.stop()?;
    Ok(())
}

/// What stands behind a `Content-Length` is read as what stands on a line.
#[test]
fn content_length_bodies_are_judged() -> Result<()> {
    for mode in ["neutralize", "deny"] {
        let config =
            format!("enforcement: {{ stdio: {mode}, explain: false }}\npolicy: {{ denied_tools: [add] }}");
        let Some(agent) = agent("content_length_bodies_are_judged", &config)? else { return Ok(()) };
        for wiring in WIRINGS {
            let what = || format!("{mode} {wiring:?}");
            let mut session = Gated::start(&agent, wiring, &["--content-length"]).with_context(what)?;
            let innocent = echo(10, "\"name\":\"add\"");
            ensure!(is_through(&session.peer.ask(&innocent)?), "{}: an innocent call", what());
            ensure!(has_heard(&session, &innocent.to_string())?, "{}: {}", what(), session.heard()?);
            let frame = Framing::ContentLength.wrap(add(11).to_string().as_bytes());
            if mode == "deny" {
                refused(&mut session, &frame).with_context(what)?;
            } else {
                // In two writes, the first of which is headers and a part of the name.
                let cut = frame.windows(3).position(|part| part == b"add").context("no name")? + 1;
                let (first, second) = frame.split_at(cut);
                session.peer.write(first).with_context(what)?;
                session.peer.write(second).with_context(what)?;
                let answer = session.peer.answer()?;
                ensure!(answer["id"] == 11 && answer["error"]["code"] == -32602, "{}: {answer}", what());
                ensure!(has_heard(&session, "\"ad\u{7f}\"")?, "{}: {}", what(), session.heard()?);
            }
            ensure!(is_through(&session.peer.ask(&echo(12, "again"))?), "{}: the session", what());
            ensure!(!has_heard(&session, "\"name\":\"add\"}")?, "{}: {}", what(), session.heard()?);
            expect(
                &agent,
                &session,
                &[
                    (10, "echo", false, Value::Null),
                    (11, "add", true, by_tool_access()),
                    (12, "echo", false, Value::Null),
                ],
            )
            .with_context(what)?;
        }
        agent.stop()?;
    }
    Ok(())
}

/// A body of several lines is one message to its server, and none to readers of lines: it is refused where something is denied,
/// nobody can tell where calls are counted, and it passes where neither is so.
#[test]
fn multi_line_body_is_treated_as_invalid_line() -> Result<()> {
    let config = "enforcement: { stdio: neutralize }\ncross_server: { enabled: false }\n\
                  policy: { denied_tools: [{ server: denying, tool: add }], rate_limits: { enabled: true, default_rpm: 1000 } }\n\
                  guards: [{ kind: rate_limit, servers: [free], enabled: false }]";
    let Some(agent) = agent("multi_line_body_is_treated_as_invalid_line", config)? else { return Ok(()) };
    for wiring in WIRINGS {
        for (name, decided) in [("denying", Some("refused")), ("counting", Some("passed")), ("free", None)] {
            let what = || format!("{wiring:?} {name}");
            let mut session =
                Gated::start_as(name, &agent, wiring, &["--content-length"]).with_context(what)?;
            let body = serde_json::to_string_pretty(&echo(10, "x"))?;
            let frame = Framing::ContentLength.wrap(body.as_bytes());
            if decided == Some("refused") {
                refused(&mut session, &frame).with_context(what)?;
            } else {
                session.peer.write(&frame).with_context(what)?;
                ensure!(is_through(&session.peer.answer()?), "{}: the call", what());
                ensure!(has_heard(&session, &body)?, "{}: {}", what(), session.heard()?);
            }
            ensure!(is_through(&session.peer.ask(&echo(11, "y"))?), "{}: the next", what());
            if decided.is_some() {
                agent.wait_for("what the gate did", |event| {
                    is(event, "mcp_gate_decided") && event["connection"] == session.connection
                })?;
            }
            agent.settle();
            let expected: Vec<_> =
                decided.map(|word| (word.to_owned(), "broken_line".to_owned())).into_iter().collect();
            ensure!(session.decided(&agent) == expected, "{}: {:?}", what(), session.decided(&agent));
        }
    }
    agent.stop()?;
    Ok(())
}
