//! What stays when the agent is gone (`enforcement.persist`), and who takes its place.

use std::net::Ipv4Addr;
use std::os::unix::fs::chown;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use mcpwarden_tests::agent::Agent;
use mcpwarden_tests::command::{ask, configured, directory};
use mcpwarden_tests::dial::{Outcome, Way};
use mcpwarden_tests::kept::{BPF_FS, BpfFs, detach, end, let_go, taken_over};
use mcpwarden_tests::listener::Listener;
use mcpwarden_tests::patience::patience;
use mcpwarden_tests::peer::{self, Peer, initialize, server, wait_until};
use mcpwarden_tests::programs;
use mcpwarden_tests::wiring::Wiring;
use nix::sys::signal::Signal;
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};

/// Connections that nobody is there to see.
const UNSEEN: u64 = 20;

fn denying(port: u16, persist: bool) -> String {
    format!(
        "network: {{ deny: [\"localhost:{port}\"] }}\nenforcement: {{ network: deny, persist: {persist} }}\n\
         servers: [{{ id: dialer, command: dialing-server, egress: none }}]\n"
    )
}

/// However it ends, what it denied stays denied until another has taken its place, and that one says what nobody saw.
#[test]
fn denials_persist_until_the_next_agent_takes_over() -> Result<()> {
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
        peer::dial(&mut peer, id, "child", listener.at(Ipv4Addr::LOCALHOST))
    };
    wait_until("the server is held to its rules", || {
        from_server(2, &free).is_ok_and(|outcome| outcome == "Denied")
    })?;
    let by_hand = Listener::start()?;
    let target = format!("localhost:{}", by_hand.port());
    let time = format!("{}s", patience(Duration::from_secs(6)).as_secs());
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
    let left = taken_over(&agent)?;
    ensure!(left["programs"].as_u64() >= Some(8), "{left}");
    ensure!(left["unread_records"].as_u64() >= Some(UNSEEN + 1), "each connection left a record: {left}");
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
fn agent_handover_leaves_no_connection_unjudged() -> Result<()> {
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
    let_go(place.path())?;
    // The kernel frees links by the way.
    wait_until("nobody judges", || Way::Tcp.dial(denied.at(Ipv4Addr::LOCALHOST)) == Outcome::Through)?;
    programs::await_gone(&held)?;
    ensure!(files.left()?.is_empty(), "left: {:?}", files.left()?);
    detach(place.path())?.expect("and again", 0, "nothing was left attached")
}

/// Everybody may make a directory where it is pinned: one of somebody else's is not used.
#[test]
fn pin_directory_of_another_user_is_refused() -> Result<()> {
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
    let_go(place.path())
}

/// Where nothing can be pinned, that is said before anything is attached.
#[test]
fn persist_without_bpf_filesystem_is_refused() -> Result<()> {
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
