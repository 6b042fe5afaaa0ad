//! Agents that go on with what the one before left (`enforcement.persist`), as if there were one.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::command::{configured, directory, replace};
use mcpwarden_tests::dial::{Outcome, Way};
use mcpwarden_tests::dns::NameServer;
use mcpwarden_tests::kept::{BPF_FS, BpfFs, end, let_go, taken_over};
use mcpwarden_tests::listener::Listener;
use mcpwarden_tests::patience::patience;
use mcpwarden_tests::peer::{self, Peer, await_exit, echo, initialize, server, wait_until};
use mcpwarden_tests::programs;
use mcpwarden_tests::transcript::Dir;
use mcpwarden_tests::wiring::Wiring;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// Whether an agent goes on with what another left, as it says; null where there was none.
fn resumed(agent: &Agent) -> Result<Value> {
    Ok(taken_over(agent)?["resumed"].clone())
}

/// What one server was asked and answered, by the numbers of its messages, as events tell of it.
#[derive(Default)]
struct Heard {
    messages: Vec<(Dir, u64)>,
    /// What tells of messages that were missed, or were heard in another order than they went by.
    wrongs: Vec<Value>,
}

impl Heard {
    /// Takes in what an agent told of the server with this process id.
    fn take(&mut self, agent: &Agent, pid: u32) -> Result<()> {
        let started =
            agent.events().into_iter().find(|event| is(event, "mcp_server_started") && event["pid"] == pid);
        let Some(started) = started else { return Ok(()) };
        let connection = started["connection"].as_u64().context("a number")?;
        let messages = agent.messages(connection)?;
        self.messages
            .extend(messages.iter().filter_map(|(dir, message)| Some((*dir, message["id"].as_u64()?))));
        let is_wrong = |event: &Value| {
            ["mcp_capture_gap", "mcp_concurrency_exceeded"].iter().any(|kind| is(event, kind))
        };
        self.wrongs.extend(agent.events_of(connection).into_iter().filter(is_wrong));
        Ok(())
    }

    /// How often each message was heard that is not heard once.
    fn wrong(&self, asked: u64) -> Vec<(Dir, u64, usize)> {
        let both = [Dir::C2s, Dir::S2c].into_iter().flat_map(|dir| (0..asked).map(move |id| (dir, id)));
        both.map(|(dir, id)| (dir, id, self.messages.iter().filter(|heard| **heard == (dir, id)).count()))
            .filter(|(_, _, count)| *count != 1)
            .collect()
    }
}

/// Agents come and go while a server answers all the time: each message is told of once, by one of them; also those of a
/// server that started while no agent ran.
#[test]
fn messages_during_handover_are_reported_once() -> Result<()> {
    let files = BpfFs::there()?;
    let place = directory()?;
    let (_directory, config) = configured("enforcement: { persist: true }")?;
    let start = || Agent::start_within(place.path(), &["--config", &config]);
    let mut agent = start()?;
    let mut peers = Vec::new();
    for wiring in [Wiring::Pipes, Wiring::Sockets] {
        peers.push(Peer::start(wiring, &mut server("echo-server"))?);
    }
    for peer in &mut peers {
        peer.ask(&initialize(0))?;
        agent.connection_of_server(peer.pid())?;
    }
    let pids: Vec<u32> = peers.iter().map(Peer::pid).collect();
    let mut heard: Vec<Heard> = pids.iter().map(|_| Heard::default()).collect();
    let done = AtomicBool::new(false);
    let asked = thread::scope(|scope| {
        let askers: Vec<_> = peers
            .iter_mut()
            .map(|peer| {
                let done = &done;
                scope.spawn(move || -> Result<u64> {
                    let mut next = 1;
                    while !done.load(Ordering::Relaxed) {
                        peer.ask(&echo(next, &format!("{next}")))?;
                        next += 1;
                        thread::sleep(patience(Duration::from_millis(2)));
                    }
                    Ok(next)
                })
            })
            .collect();
        let result = (|| -> Result<()> {
            for _ in 0..3 {
                agent.signal(Signal::SIGTERM)?;
                agent.wait_for_end()?;
                for (heard, pid) in heard.iter_mut().zip(&pids) {
                    heard.take(&agent, *pid)?;
                }
                let mut late = Peer::start(Wiring::Pipes, &mut server("echo-server"))?;
                late.ask(&initialize(0))?;
                thread::sleep(patience(Duration::from_millis(200)));
                agent = start()?;
                let left = taken_over(&agent)?;
                ensure!(left["resumed"] == true && left["unread_records"] == 0, "{left}");
                let connection = agent.connection_of_server(late.pid())?;
                ensure!(agent.messages(connection)?.len() >= 2, "what was said when there was no agent");
                late.close()?;
            }
            Ok(())
        })();
        done.store(true, Ordering::Relaxed);
        let asked = askers.into_iter().map(|asker| asker.join().map_err(|_| anyhow!("panicked"))?);
        result?;
        asked.collect::<Result<Vec<u64>>>()
    })?;
    for peer in &mut peers {
        let connection = agent.connection_of_server(peer.pid())?;
        peer.close()?;
        await_exit(&agent, connection)?;
    }
    for ((heard, pid), asked) in heard.iter_mut().zip(&pids).zip(&asked) {
        heard.take(&agent, *pid)?;
        println!("{asked} messages each way over three changes of agents, wrong: {:?}", heard.wrong(*asked));
        ensure!(
            heard.wrong(*asked).is_empty() && *asked > 100,
            "{:?} of {asked}; {:?}",
            heard.wrong(*asked),
            heard.wrongs
        );
        ensure!(heard.wrongs.is_empty(), "{:?}", heard.wrongs);
    }
    let held = programs::held_by(agent.pid());
    end(agent, Signal::SIGTERM)?;
    let_go(place.path())?;
    programs::await_gone(&held)?;
    ensure!(files.left()?.is_empty(), "left: {:?}", files.left()?);
    Ok(())
}

/// An agent that goes on with another's programs and does not live: the next one attaches its own.
#[test]
fn programs_of_a_failed_resume_are_not_reused() -> Result<()> {
    let _files = BpfFs::there()?;
    let place = directory()?;
    let (_directory, config) = configured("enforcement: { persist: true }")?;
    let mut seen = Vec::new();
    for signal in [Signal::SIGKILL, Signal::SIGKILL, Signal::SIGTERM, Signal::SIGTERM, Signal::SIGTERM] {
        let agent = Agent::start_within(place.path(), &["--config", &config])?;
        seen.push(resumed(&agent)?);
        end(agent, signal)?;
    }
    ensure!(seen == [Value::Null, json!(true), json!(false), json!(true), json!(true)], "{seen:?}");
    let_go(place.path())
}

/// The ring is full when another comes: what had no room is counted, and whose the rest is is known all the same; what holds
/// for a server never ceases.
#[test]
fn full_ring_on_resume_loses_records_not_identities() -> Result<()> {
    const LONG: usize = 60_000;
    let _files = BpfFs::there()?;
    let place = directory()?;
    let free = Listener::start()?;
    let (_directory, config) = configured(
        "enforcement: { network: deny, persist: true }\ncapture: { ring_bytes: 262144 }\n\
         servers: [{ id: dialer, command: dialing-server, egress: none }]\n",
    )?;
    let agent = Agent::start_within(place.path(), &["--config", &config])?;
    let mut dialer = Peer::start(Wiring::Pipes, &mut server("dialing-server"))?;
    let mut talker = Peer::start(Wiring::Sockets, &mut server("echo-server"))?;
    for peer in [&mut dialer, &mut talker] {
        peer.ask(&initialize(1))?;
        agent.connection_of_server(peer.pid())?;
    }
    let mut dial = |id: u64| peer::dial(&mut dialer, id, "server", free.at(Ipv4Addr::LOCALHOST));
    wait_until("the server is held to its rules", || dial(2).is_ok_and(|outcome| outcome == "Denied"))?;
    end(agent, Signal::SIGTERM)?;
    for id in 2..12 {
        talker.ask(&echo(id, &"x".repeat(LONG)))?;
        ensure!(dial(id + 1)? == "Denied", "nobody runs");
    }
    let agent = Agent::start_within(place.path(), &["--config", &config])?;
    let left = taken_over(&agent)?;
    ensure!(left["resumed"] == true && left["unread_bytes"].as_u64() > Some(LONG as u64), "{left}");
    ensure!(dial(20)? == "Denied", "it is held to its rules from the first moment");
    talker.ask(&echo(20, "short"))?;
    for (pid, id) in [(dialer.pid(), "dialer"), (talker.pid(), "echo-server")] {
        let started =
            agent.wait_for("a server", |event| is(event, "mcp_server_started") && event["pid"] == pid)?;
        ensure!(started["server_id"] == id, "{started}");
    }
    agent.wait_for("a gap", |event| is(event, "mcp_capture_gap") && event["cause"] == "ring_full")?;
    dialer.close()?;
    talker.close()?;
    end(agent, Signal::SIGTERM)?;
    let_go(place.path())
}

/// Nobody answers for names when another comes: they keep the addresses that they had. What nobody was there to see has a reason.
#[test]
fn unresolved_names_keep_addresses_after_resume() -> Result<()> {
    let _files = BpfFs::there()?;
    let place = directory()?;
    let listener = Listener::start()?;
    let named = listener.at(Ipv4Addr::new(127, 0, 0, 2));
    let names = NameServer::start(Ipv4Addr::new(127, 0, 0, 2))?;
    let (_directory, config) = configured(&format!(
        "network:\n  deny: [\"10.0.0.0/8\", \"mcp.example:{}\"]\n  \
         resolver: {{ servers: [\"{}\"], min_ttl: 1s, max_ttl: 1s }}\n\
         enforcement: {{ network: deny, persist: true }}\n",
        listener.port(),
        names.address()
    ))?;
    let agent = Agent::start_within(place.path(), &["--config", &config])?;
    ensure!(Way::Tcp.dial(named) == Outcome::Denied, "known from the start");
    end(agent, Signal::SIGTERM)?;
    drop(names);
    ensure!(Way::Tcp.dial(named) == Outcome::Denied, "nobody runs");
    let agent = Agent::start_within(place.path(), &["--config", &config])?;
    ensure!(resumed(&agent)? == true, "it goes on");
    let to = named.to_string();
    let told = |event: &Value| is(event, "mcp_network_connection") && event["remote_addr"] == to.as_str();
    let unseen = agent.wait_for("what nobody was there to see", told)?;
    let why = unseen["reason"].as_str().unwrap_or_default();
    ensure!(unseen["action"] == "block" && why.contains("mcp.example"), "{unseen}");
    for _ in 0..20 {
        ensure!(Way::Tcp.dial(named) == Outcome::Denied, "it has the address that it had");
        thread::sleep(patience(Duration::from_millis(100)));
    }
    end(agent, Signal::SIGTERM)?;
    let_go(place.path())
}

/// What is kept belongs to the configuration that counts, not to that of the start; and to none where servers have other
/// numbers than they would have after a start.
#[test]
fn kept_state_belongs_to_active_configuration() -> Result<()> {
    let _files = BpfFs::there()?;
    let place = directory()?;
    let with = |servers: &str| format!("enforcement: {{ persist: true }}\nservers: [{servers}]\n");
    let [one, both, other] =
        ["{ id: a, command: a }", "{ id: a, command: a }, { id: b, command: b }", "{ id: b, command: b }"]
            .map(with);
    let (directory, config) = configured(&one)?;
    let write = |text: &str| replace(directory.path(), "config.yaml", text);
    // With what it starts, what it is told then, with what the next starts, and whether that goes on.
    let cases = [
        (&one, &both, &both, true),
        (&both, &one, &both, false),
        (&both, &other, &other, false),
        (&other, &other, &other, true),
    ];
    for (number, (start, told, next, goes_on)) in cases.into_iter().enumerate() {
        write(start)?;
        let agent = Agent::start_within(place.path(), &["--config", &config])?;
        write(told)?;
        agent.tell(&["reload"])?.expect("reload", 0, "is in force now")?;
        end(agent, Signal::SIGTERM)?;
        write(next)?;
        let agent = Agent::start_within(place.path(), &["--config", &config])?;
        ensure!(resumed(&agent)? == goes_on, "case {number}");
        end(agent, Signal::SIGTERM)?;
        let_go(place.path())?;
    }
    Ok(())
}

/// Somebody has removed a part of what was kept: the next agent attaches its own, and says so.
#[test]
fn incomplete_kept_state_is_not_resumed() -> Result<()> {
    let files = BpfFs::there()?;
    let place = directory()?;
    let (_directory, config) = configured("enforcement: { persist: true }")?;
    for part in ["tables/CHANNELS", "links/connect4"] {
        let agent = Agent::start_within(place.path(), &["--config", &config])?;
        end(agent, Signal::SIGTERM)?;
        let left = files.left()?;
        let root = Path::new(BPF_FS).join(left.first().context("nothing was left")?);
        let own = fs::read_dir(root)?.next().context("nothing in it")??.path();
        fs::remove_file(own.join(part)).with_context(|| part.to_owned())?;
        let agent = Agent::start_within(place.path(), &["--config", &config])?;
        ensure!(resumed(&agent)? == false, "without {part}");
        end(agent, Signal::SIGTERM)?;
        let_go(place.path())?;
    }
    Ok(())
}
