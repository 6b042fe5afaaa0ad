//! The gate, by the ways in which a client can write, and the memory that it writes from.

use std::fs;
use std::io;
use std::thread;

use anyhow::{Context as _, Result, bail, ensure};
use clap::ValueEnum as _;
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::gated::{Gated, WIRINGS, add, agent, is_marked, is_through};
use mcpwarden_tests::io_methods::WriteMethod;
use mcpwarden_tests::memory::Memory;
use mcpwarden_tests::peer::{echo, wait_until};
use mcpwarden_tests::wiring::Wiring;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// What becomes of a denied call.
#[derive(Debug, PartialEq)]
enum Fate {
    /// Its server refuses it.
    Neutralized,
    /// It was not written.
    Refused,
    /// It was, and the gate says so, since it could not tell.
    Passed,
    /// It was, past every hook, and that is said.
    Unseen,
}

/// What is to become of it on this kernel, by the way in which it is written.
fn fate(method: WriteMethod, wiring: Wiring) -> Fate {
    use WriteMethod as By;
    match (method, wiring) {
        // The name is gone when its quote comes; and a child has the memory of its parent until one of them writes there.
        (By::OneByte | By::Fork, _) => Fate::Refused,
        // The kernel asks about a pipe without saying where the bytes are.
        (By::UringWrite | By::UringWritev, Wiring::Pipes) => Fate::Passed,
        (By::UringWriteFixed, _) => Fate::Passed,
        (By::SpliceFile | By::SplicePipe | By::Vmsplice | By::Tee | By::Sendfile, _) => Fate::Unseen,
        // The kernel asks about the first of several messages alone.
        (By::SendmmsgNamed, _) => Fate::Unseen,
        _ => Fate::Neutralized,
    }
}

/// What becomes of one that is written in this way, after an innocent one that was.
fn what_becomes(
    agent: &Agent,
    session: &mut Gated,
    method: WriteMethod,
    wiring: Wiring,
    id: u64,
) -> Result<Fate> {
    session.peer.write_by(method, format!("{}\n", echo(id, "x")).as_bytes())?;
    let answer = session.peer.answer()?;
    ensure!(is_through(&answer) && answer["id"] == id, "an innocent call: {answer}");
    if fate(method, wiring) != Fate::Neutralized {
        // What is said of the innocent call may still be on its way, and is not said of the next.
        agent.settle();
    }
    let before = session.decided(agent).len();
    let stopped = match session.peer.write_by(method, format!("{}\n", add(id + 1)).as_bytes()) {
        Ok(()) => {
            let answer = session.peer.answer()?;
            ensure!(answer["id"] == id + 1, "{answer}");
            if is_through(&answer) {
                agent.settle();
                let decided = session.decided(agent);
                let actions: Vec<&str> =
                    decided.iter().skip(before).map(|(action, _)| action.as_str()).collect();
                let codes = decided.iter().skip(before).map(|(_, code)| code.as_str());
                return match actions.as_slice() {
                    ["unseen"] => Ok(Fate::Unseen),
                    // Each message but the first; and that follows others that nobody read.
                    ["passed", rest @ ..] if method == WriteMethod::SendmmsgNamed => {
                        let is_said = rest.len() > 1 && rest.iter().all(|action| *action == "unseen");
                        let codes: Vec<&str> = codes.collect();
                        let expected = codes[0] == "after_unread"
                            && codes[1..].iter().all(|code| *code == "missed_write");
                        ensure!(is_said && expected, "{actions:?} {codes:?} was said");
                        Ok(Fate::Unseen)
                    }
                    // What is captured of it has no bytes, too, where they lay in registered memory.
                    ["passed"] | ["passed", "unseen"] => Ok(Fate::Passed),
                    other => bail!("{other:?} was said"),
                };
            }
            Fate::Neutralized
        }
        // Of a child that failed nothing more is known.
        Err(error) if method == WriteMethod::Fork || error.kind() == io::ErrorKind::PermissionDenied => {
            Fate::Refused
        }
        Err(error) => return Err(error.into()),
    };
    let heard = session.heard()?;
    ensure!(!heard.contains(&format!("\"id\":{}", id + 1)) || is_marked(&heard), "{heard}");
    Ok(stopped)
}

/// What becomes of a denied call over this kind of channel, by every way of writing it.
fn by_every_method(agent: &Agent, wiring: Wiring) -> Result<()> {
    let mut session = Gated::start(agent, wiring, &[])?;
    for (id, method) in (10..).step_by(2).zip(WriteMethod::value_variants()) {
        if !method.works_on(wiring) {
            continue;
        }
        let what = || format!("{method:?} over {wiring:?}");
        let expected = fate(*method, wiring);
        // A socket takes what is spliced into it through a hook from 6.5 on, and several messages one by one.
        let either = match (method, wiring) {
            (_, Wiring::Pipes) => &expected,
            (WriteMethod::SpliceFile | WriteMethod::SplicePipe | WriteMethod::Sendfile, _) => &Fate::Passed,
            (WriteMethod::Sendmmsg, _) => &Fate::Refused,
            _ => &expected,
        };
        let found = what_becomes(agent, &mut session, *method, wiring, id).with_context(what)?;
        ensure!(found == expected || found == *either, "{}: {found:?}, not {expected:?}", what());
        if found != Fate::Neutralized {
            // Of this message the beginning may be there; and what passed is not read on.
            session = Gated::start(agent, wiring, &[])?;
        }
    }
    Ok(())
}

/// The same table over sockets with an address.
#[test]
fn denied_call_over_addressed_sockets_is_stopped_by_every_write_method() -> Result<()> {
    let test = "denied_call_over_addressed_sockets_is_stopped_by_every_write_method";
    // Each is another server of the session.
    let config = "enforcement: { stdio: neutralize }\npolicy: { denied_tools: [add] }\ncross_server: { enabled: false }";
    let Some(agent) = agent(test, config)? else { return Ok(()) };
    for wiring in [Wiring::Tcp, Wiring::Named] {
        by_every_method(&agent, wiring)?;
    }
    agent.stop()?;
    Ok(())
}

#[test]
fn denied_call_is_stopped_by_every_write_method() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let critical = directory.path().join("critical.jsonl");
    let config = format!(
        "enforcement: {{ stdio: neutralize }}\npolicy: {{ denied_tools: [add] }}\n\
         sinks: [{{ kind: file, path: {}, filter: {{ severity: critical, types: [mcp_gate_decided] }} }}]",
        critical.display()
    );
    let Some(agent) = agent("denied_call_is_stopped_by_every_write_method", &config)? else { return Ok(()) };
    for wiring in WIRINGS {
        by_every_method(&agent, wiring)?;
    }
    let is_unseen = |event: &&Value| event["action"] == "unseen";
    let unseen = agent.events().iter().filter(is_unseen).count();
    agent.stop()?;
    // Whoever writes past every hook gets past everything: nothing else that the gate says is as bad.
    let said = fs::read_to_string(&critical)?;
    let mut said: Vec<Value> = said.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    // The head of the chain is said to every sink.
    said.retain(|event| is(event, "mcp_gate_decided"));
    ensure!(said.iter().all(|event| is_unseen(&event)) && said.len() == unseen, "{unseen} of {said:#?}");
    ensure!(unseen > 4, "{unseen}");
    Ok(())
}

/// A client whose other thread keeps changing what memory it has: a denied call is neutralized, or it is refused and that is said.
#[test]
fn call_in_changing_memory_is_stopped() -> Result<()> {
    let config = "enforcement: { stdio: neutralize }\npolicy: { denied_tools: [add] }";
    let Some(agent) = agent("call_in_changing_memory_is_stopped", config)? else { return Ok(()) };
    for wiring in WIRINGS {
        let mut session = Gated::start(&agent, wiring, &[])?;
        session.peer.change_memory(true)?;
        let mut refused = 0;
        for id in 10..25 {
            match session.peer.write_by(WriteMethod::Write, format!("{}\n", add(id)).as_bytes()) {
                Ok(()) => {
                    let answer = session.peer.answer()?;
                    ensure!(answer["id"] == id && !is_through(&answer), "{wiring:?}: {answer}");
                }
                Err(error) => {
                    ensure!(error.kind() == io::ErrorKind::PermissionDenied, "{wiring:?}: {error}");
                    session.wait_for_not_neutralized(&agent)?;
                    session = Gated::start(&agent, wiring, &[])?;
                    refused += 1;
                }
            }
        }
        session.peer.change_memory(false)?;
        println!("{wiring:?}: {refused} of 15 were refused");
    }
    agent.stop()?;
    Ok(())
}

/// What is nobody's but the client's is overwritten, and nothing else.
#[test]
fn shared_memory_is_never_overwritten() -> Result<()> {
    let config = "enforcement: { stdio: neutralize }\npolicy: { denied_tools: [add] }";
    let Some(agent) = agent("shared_memory_is_never_overwritten", config)? else {
        return Ok(());
    };
    let line = format!("{}\n", add(9));
    for wiring in WIRINGS {
        for (what, is_written) in [
            (Memory::Private, true),
            (Memory::Shared, false),
            (Memory::SharedReadOnly, false),
            (Memory::PrivateReadOnly, false),
        ] {
            let mut session = Gated::start(&agent, wiring, &[])?;
            let (written, is_changed) = session.peer.write_from(what, line.as_bytes())?;
            ensure!(written.is_ok() == is_written, "{wiring:?}, {what:?}: {written:?}");
            ensure!(is_changed == is_written, "{wiring:?}, {what:?}: changed: {is_changed}");
            if is_written {
                ensure!(session.peer.answer()?["error"].is_object(), "{wiring:?}, {what:?}: it was run");
            } else {
                agent.settle();
                let decided = session.decided(&agent);
                ensure!(
                    decided == [("refused".into(), "tool_denied".into())],
                    "{wiring:?}, {what:?}: {decided:?}"
                );
                ensure!(!session.heard()?.contains("\"add\""), "{wiring:?}, {what:?}: it was heard");
            }
        }
    }
    agent.stop()?;
    Ok(())
}

/// What nobody can tell is let through and said, or refused, as the setting says; and where there is room, it is followed.
#[test]
fn long_write_follows_the_undecided_setting() -> Result<()> {
    let long = |id: u64, bytes: usize| format!("{}\n", echo(id, &"x".repeat(bytes)));
    let late = |id: u64, bytes: usize| {
        format!(
            r#"{{"id":{id},"params":{{"arguments":{{"a":1,"b":2,"c":"{}"}},"name":"add"}},"method":"tools/call"}}"#,
            "x".repeat(bytes)
        ) + "\n"
    };
    for (undecided, is_through_undecided) in [("allow", true), ("deny", false)] {
        let config = format!(
            "enforcement: {{ stdio: neutralize, window_bytes: 4KiB, undecided: {undecided} }}\npolicy: {{ denied_tools: [add] }}"
        );
        let Some(agent) = agent("long_write_follows_the_undecided_setting", &config)? else { return Ok(()) };
        for wiring in WIRINGS {
            let mut session = Gated::start(&agent, wiring, &[])?;
            // Within the window: the name stands at its end.
            session.peer.write(late(5, 3_800).as_bytes())?;
            ensure!(session.peer.answer()?["error"].is_object(), "{undecided} {wiring:?}: within the window");
            session.peer.write(long(6, 3_800).as_bytes())?;
            ensure!(is_through(&session.peer.answer()?), "{undecided} {wiring:?}: an innocent call");
            ensure!(
                session.decided(&agent).len() <= 1,
                "{undecided} {wiring:?}: {:?}",
                session.decided(&agent)
            );
            for text in [long(7, 5_000), late(8, 5_000)] {
                let written = session.peer.write(text.as_bytes());
                ensure!(written.is_ok() == is_through_undecided, "{undecided} {wiring:?}: {written:?}");
                if written.is_ok() {
                    ensure!(is_through(&session.peer.answer()?), "{undecided} {wiring:?}: a long call");
                }
            }
            // Each of them ended a line.
            session.peer.write(format!("{}\n", add(9)).as_bytes())?;
            ensure!(session.peer.answer()?["error"].is_object(), "{undecided} {wiring:?}: after long calls");
            agent.settle();
            let word = if is_through_undecided { "passed" } else { "refused" };
            let (neutralized, long) = (("neutralized", "tool_denied"), (word, "long_write"));
            let expected = [neutralized, long, long, neutralized]
                .map(|(action, code)| (action.to_owned(), code.to_owned()));
            ensure!(
                session.decided(&agent) == expected,
                "{undecided} {wiring:?}: {:?}",
                session.decided(&agent)
            );
            let passed = json!([session.call(&agent, 8)?["action"], session.call(&agent, 8)?["enforced"]]);
            ensure!(passed == json!(["block", !is_through_undecided]), "{undecided} {wiring:?}: {passed}");
        }
        agent.stop()?;
    }
    Ok(())
}

/// A client that does not wait writes what there is room for, and the rest later: it is one message.
#[test]
fn partial_writes_are_judged_as_one_message() -> Result<()> {
    let config = "enforcement: { stdio: neutralize, window_bytes: 64KiB }\npolicy: { denied_tools: [add] }\n\
                  cross_server: { enabled: false }";
    let Some(agent) = agent("partial_writes_are_judged_as_one_message", config)? else { return Ok(()) };
    for wiring in [Wiring::Pipes, Wiring::Sockets, Wiring::Tcp, Wiring::Abstract] {
        let mut session = Gated::start(&agent, wiring, &["--delay-ms", "2"])?;
        let (calls, mut writer) = (20, session.peer.writer()?);
        let server = Pid::from_raw(i32::try_from(session.peer.pid())?);
        let thread = thread::spawn(move || -> io::Result<()> {
            for id in 0..calls {
                let text = format!("{}\n{}\n", echo(100 + 2 * id, &"y".repeat(40_000)), add(101 + 2 * id));
                let written = writer.write_by(WriteMethod::Nonblocking, text.as_bytes());
                if let Err(error) = written {
                    // Nobody is to wait for an answer.
                    let _ = kill(server, Signal::SIGKILL);
                    return Err(error);
                }
            }
            Ok(())
        });
        let mut broken_off = None;
        for id in 0..2 * calls {
            let answer = match session.peer.answer() {
                Ok(answer) => answer,
                Err(error) => {
                    broken_off = Some(error.context(format!("{wiring:?}: no answer {id}")));
                    break;
                }
            };
            ensure!(answer["id"] == 100 + id, "{wiring:?}: {answer}");
            ensure!(is_through(&answer) == (id % 2 == 0), "{wiring:?}: {answer}");
        }
        thread.join().map_err(|_| anyhow::anyhow!("the writer failed"))??;
        if let Some(error) = broken_off {
            return Err(error);
        }
        let count = usize::try_from(calls)?;
        wait_until("what the gate did", || session.decided(&agent).len() >= count)?;
        let decided = session.decided(&agent);
        ensure!(decided.len() == count, "{wiring:?}: {decided:?}");
        ensure!(decided.iter().all(|(action, _)| action == "neutralized"), "{wiring:?}: {decided:?}");
    }
    agent.stop()?;
    Ok(())
}
