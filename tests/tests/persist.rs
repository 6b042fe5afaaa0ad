//! What stays when the agent is gone (`enforcement.persist`), and who takes its place.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::chown;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::command::{Said, ask, configured, directory};
use mcpwarden_tests::dial::{Outcome, Way};
use mcpwarden_tests::listener::Listener;
use mcpwarden_tests::patience::patience;
use mcpwarden_tests::peer::{Peer, await_exit, echo, initialize, server, wait_until};
use mcpwarden_tests::programs;
use mcpwarden_tests::transcript::Dir;
use mcpwarden_tests::wiring::Wiring;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::Signal;
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};
use serde_json::{Value, json};

const BPF_FS: &str = "/sys/fs/bpf";
/// Connections that nobody is there to see.
const UNSEEN: u64 = 20;

/// The BPF file system, as systemd mounts it; unmounted again where the test did it.
struct BpfFs {
    is_ours: bool,
}

impl BpfFs {
    fn there() -> Result<Self> {
        let is_there = statfs(BPF_FS).is_ok_and(|found| found.filesystem_type() == BPF_FS_MAGIC);
        if !is_there {
            mount(Some("bpf"), BPF_FS, Some("bpf"), MsFlags::empty(), None::<&str>)
                .context("cannot mount the BPF file system")?;
        }
        Ok(Self { is_ours: !is_there })
    }

    /// What agents left in it.
    fn left(&self) -> Result<Vec<String>> {
        let names = fs::read_dir(BPF_FS)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let names: Vec<String> = names.collect::<Result<_>>()?;
        Ok(names.into_iter().filter(|name| name.starts_with("mcpwarden")).collect())
    }
}

impl Drop for BpfFs {
    fn drop(&mut self) {
        if self.is_ours {
            let _ = umount2(BPF_FS, MntFlags::MNT_DETACH);
        }
    }
}

fn detach(place: &Path) -> Result<Said> {
    ask(&["detach", "--runtime-dir", &place.join("run").display().to_string()])
}

/// Ends an agent, and what it left stays.
fn end(mut agent: Agent, signal: Signal) -> Result<()> {
    match signal {
        Signal::SIGKILL => agent.kill(),
        signal => {
            agent.signal(signal)?;
            agent.wait_for_end()
        }
    }
}

fn denying(port: u16, persist: bool) -> String {
    format!(
        "network: {{ deny: [\"localhost:{port}\"] }}\nenforcement: {{ network: deny, persist: {persist} }}\n\
         servers: [{{ id: dialer, command: dialing-server, egress: none }}]\n"
    )
}

/// However it ends, what it denied stays denied until another has taken its place, and that one says what nobody saw.
#[test]
fn what_was_denied_stays_denied_until_another_takes_over() -> Result<()> {
    let files = BpfFs::there()?;
    let place = directory()?;
    let (first, second, free) = (Listener::start()?, Listener::start()?, Listener::start()?);
    let dial = |listener: &Listener| Way::Tcp.dial(listener.at(Ipv4Addr::LOCALHOST));
    let (_one, config) = configured(&denying(first.port(), true))?;
    let (_two, other_config) = configured(&denying(second.port(), true))?;
    let (_three, plain) = configured(&denying(first.port(), false))?;

    let agent = Agent::start_within(place.path(), &["--config", &config])?;
    ensure!(agent.events().iter().all(|event| event.get("taken_over").is_none()), "nobody was there before");
    let mut peer = Peer::start(Wiring::Pipes, &mut server("dialing-server"))?;
    peer.ask(&initialize(1))?;
    agent.connection_of_server(peer.pid())?;
    let mut from_server = |id: u64, listener: &Listener| -> Result<String> {
        let address = listener.at(Ipv4Addr::LOCALHOST).to_string();
        let arguments = json!({"way": "Tcp", "address": address, "who": "child", "depth": 1});
        let params = json!({"name": "dial", "arguments": arguments});
        let answer =
            peer.ask(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))?;
        Ok(answer["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned())
    };
    wait_until("the server is held to its rules", || {
        from_server(2, &free).is_ok_and(|outcome| outcome == "Denied")
    })?;
    let by_hand = Listener::start()?;
    let target = format!("localhost:{}", by_hand.port());
    let time = format!("{}s", patience(Duration::from_secs(3)).as_secs());
    agent.tell(&["block", &target, "--for", &time])?.expect("block", 0, "localhost")?;
    let refused = detach(place.path())?;
    ensure!(refused.code == Some(2) && refused.stderr.contains("already runs"), "{}", refused.stderr);
    agent.settle();
    end(agent, Signal::SIGKILL)?;

    ensure!(dial(&by_hand) == Outcome::Denied, "a block by hand");
    for _ in 0..UNSEEN {
        ensure!(dial(&first) == Outcome::Denied, "nobody runs, and it stays denied");
    }
    ensure!(dial(&second) == Outcome::Through, "what nobody denied");
    wait_until("it ends with nobody's help", || dial(&by_hand) == Outcome::Through)?;
    ensure!(from_server(3, &free)? == "Denied", "a child that the server started since");

    let agent = Agent::start_within(place.path(), &["--config", &other_config])?;
    let started = agent.wait_for("its start", |event| is(event, "agent_started"))?;
    let left = &started["taken_over"];
    ensure!(left["programs"].as_u64() >= Some(8), "{started}");
    ensure!(left["unread_records"].as_u64() >= Some(UNSEEN + 1), "each connection left a record: {started}");
    wait_until("only the new rules count", || dial(&first) == Outcome::Through)?;
    ensure!(dial(&second) == Outcome::Denied, "what the new one denies");
    ensure!(from_server(4, &free)? == "Denied", "the server was adopted");
    agent.tell(&["block", &target])?.expect("block", 0, "localhost")?;
    ensure!(dial(&by_hand) == Outcome::Denied, "blocked again");
    end(agent, Signal::SIGTERM)?;
    ensure!(dial(&by_hand) == Outcome::Through, "it said that the block ends with it");
    ensure!(dial(&second) == Outcome::Denied, "an agent that ends leaves it, too");

    let agent = Agent::start_within(place.path(), &["--config", &plain])?;
    wait_until("the one before is gone", || dial(&second) == Outcome::Through)?;
    ensure!(dial(&first) == Outcome::Denied, "while the one without runs");
    agent.stop()?;
    wait_until("what it denied goes with it", || dial(&first) == Outcome::Through)?;
    ensure!(from_server(5, &free)? == "Through", "the server's rules, too");
    ensure!(files.left()?.is_empty(), "left: {:?}", files.left()?);
    peer.close()?;
    Ok(())
}

/// Agents come and go, and not one connection is judged by nobody.
#[test]
fn no_connection_slips_through_between_two_agents() -> Result<()> {
    let files = BpfFs::there()?;
    let place = directory()?;
    let (denied, free) = (Listener::start()?, Listener::start()?);
    let (_directory, config) = configured(&denying(denied.port(), true))?;
    let mut agent = Agent::start_within(place.path(), &["--config", &config])?;
    let mut held = programs::held_by(agent.pid());
    let (done, wrong, tried) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let agent = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let judged = [&denied, &free].map(|listener| Way::Tcp.dial(listener.at(Ipv4Addr::LOCALHOST)));
                wrong.fetch_add(u64::from(judged != [Outcome::Denied, Outcome::Through]), Ordering::Relaxed);
                tried.fetch_add(1, Ordering::Relaxed);
                thread::sleep(patience(Duration::from_micros(500)));
            }
        });
        let result = (|| -> Result<Agent> {
            for signal in [Signal::SIGKILL, Signal::SIGTERM, Signal::SIGKILL] {
                end(agent, signal)?;
                agent = Agent::start_within(place.path(), &["--config", &config])?;
                held.extend(programs::held_by(agent.pid()));
            }
            Ok(agent)
        })();
        done.store(true, Ordering::Relaxed);
        result
    })?;
    let (wrong, tried) = (wrong.into_inner(), tried.into_inner());
    ensure!(wrong == 0 && tried > 100, "{wrong} of {tried} connections were judged wrongly");
    println!("{tried} connections over three changes of agents, 0 judged wrongly");
    end(agent, Signal::SIGTERM)?;
    detach(place.path())?.expect("what is left", 0, "programs are detached")?;
    // The kernel frees links by the way.
    wait_until("nobody judges", || Way::Tcp.dial(denied.at(Ipv4Addr::LOCALHOST)) == Outcome::Through)?;
    programs::await_gone(&held)?;
    ensure!(files.left()?.is_empty(), "left: {:?}", files.left()?);
    detach(place.path())?.expect("and again", 0, "nothing was left attached")
}

/// What one server was asked and answered, by the numbers of its messages, as events tell of it.
#[derive(Default)]
struct Heard {
    messages: Vec<(Dir, u64)>,
    gaps: Vec<Value>,
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
        self.gaps
            .extend(agent.events_of(connection).into_iter().filter(|event| is(event, "mcp_capture_gap")));
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
fn what_is_said_between_two_agents_is_heard() -> Result<()> {
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
                let started = agent.wait_for("its start", |event| is(event, "agent_started"))?;
                let left = &started["taken_over"];
                ensure!(left["resumed"] == true && left["unread_records"] == 0, "{started}");
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
        ensure!(heard.wrong(*asked).is_empty() && *asked > 100, "{:?} of {asked}", heard.wrong(*asked));
        ensure!(heard.gaps.is_empty(), "{:?}", heard.gaps);
    }
    let held = programs::held_by(agent.pid());
    end(agent, Signal::SIGTERM)?;
    detach(place.path())?.expect("what is left", 0, "programs are detached")?;
    programs::await_gone(&held)?;
    ensure!(files.left()?.is_empty(), "left: {:?}", files.left()?);
    Ok(())
}

/// An agent that goes on with another's programs and does not live: the next one attaches its own.
#[test]
fn who_goes_on_and_dies_at_once_is_not_followed() -> Result<()> {
    let _files = BpfFs::there()?;
    let place = directory()?;
    let (_directory, config) = configured("enforcement: { persist: true }")?;
    let resumed = |agent: &Agent| -> Result<Value> {
        Ok(agent.wait_for("its start", |event| is(event, "agent_started"))?["taken_over"]["resumed"].clone())
    };
    let mut seen = Vec::new();
    for signal in [Signal::SIGKILL, Signal::SIGKILL, Signal::SIGTERM, Signal::SIGTERM, Signal::SIGTERM] {
        let agent = Agent::start_within(place.path(), &["--config", &config])?;
        seen.push(resumed(&agent)?);
        end(agent, signal)?;
    }
    ensure!(seen == [Value::Null, json!(true), json!(false), json!(true), json!(true)], "{seen:?}");
    detach(place.path())?.expect("what is left", 0, "programs are detached")
}

/// Everybody may make a directory where it is pinned: one of somebody else's is not used.
#[test]
fn a_directory_of_somebody_else_is_refused() -> Result<()> {
    let files = BpfFs::there()?;
    let place = directory()?;
    let (_directory, config) = configured(&denying(1, true))?;
    let agent = Agent::start_within(place.path(), &["--config", &config])?;
    let left = files.left()?;
    let [own] = &left[..] else { bail!("one directory for all agents of one place: {left:?}") };
    let root = Path::new(BPF_FS).join(own);
    end(agent, Signal::SIGTERM)?;
    chown(&root, Some(1), None)?;
    let [run, state] = ["run", "state"].map(|name| place.path().join(name).display().to_string());
    let said = ask(&["run", "--config", &config, "--runtime-dir", &run, "--state-dir", &state])?;
    ensure!(said.code == Some(1) && said.stderr.contains("belongs to user 1"), "{said:?}");
    let said = detach(place.path())?;
    ensure!(said.code == Some(2) && said.stderr.contains("belongs to user 1"), "{said:?}");
    chown(&root, Some(0), None)?;
    detach(place.path())?.expect("our own again", 0, "programs are detached")
}

/// Where nothing can be pinned, that is said before anything is attached.
#[test]
fn without_the_file_system_it_is_refused() -> Result<()> {
    if statfs(BPF_FS).is_ok_and(|found| found.filesystem_type() == BPF_FS_MAGIC) {
        println!("SKIPPED: {BPF_FS} is mounted on this machine, and others may use it");
        return Ok(());
    }
    let place = directory()?;
    let (_directory, config) = configured(&denying(1, true))?;
    let [run, state] = ["run", "state"].map(|name| place.path().join(name).display().to_string());
    let said = ask(&["run", "--config", &config, "--runtime-dir", &run, "--state-dir", &state])?;
    ensure!(said.code == Some(1) && said.stderr.contains("mount -t bpf bpf /sys/fs/bpf"), "{}", said.stderr);
    Ok(())
}
