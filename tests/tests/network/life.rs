//! Connections beside others, and while things change: other programs, cgroups, network namespaces, names, tables.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::cgroup::{self, Cgroup};
use mcpwarden_tests::command::configured;
use mcpwarden_tests::dial::{self, Outcome, Way};
use mcpwarden_tests::dns::{self, NameServer};
use mcpwarden_tests::listener::Listener;
use mcpwarden_tests::neighbour::Neighbour;
use mcpwarden_tests::patience::{fewer, patience};
use mcpwarden_tests::peer::wait_until;
use mcpwarden_tests::places;
use mcpwarden_tests::programs;
use nix::sys::signal::Signal;
use serde_json::json;
use tempfile::TempDir;

fn denying(host: &str, port: u16, more: &str) -> Result<(TempDir, String)> {
    configured(&format!(
        "network: {{ deny: [{{ host: {host}, port: {port} }}]{more} }}\nenforcement: {{ network: deny }}\n"
    ))
}

#[test]
fn other_programs_at_the_same_hook_keep_working() -> Result<()> {
    let (theirs, ours, nobodys) = (Listener::start()?, Listener::start()?, Listener::start()?);
    let dial = |listener: &Listener| Way::Tcp.dial(listener.at(Ipv4Addr::LOCALHOST));
    let neighbour = Neighbour::attach(&cgroup::root()?, theirs.port())?;
    ensure!(dial(&theirs) == Outcome::Denied, "the other program alone");
    let (_directory, config) = denying("localhost", ours.port(), "")?;
    let agent = Agent::start(&["--config", &config])?;
    ensure!(dial(&theirs) == Outcome::Denied, "theirs, beside ours");
    ensure!(dial(&ours) == Outcome::Denied, "ours, beside theirs");
    ensure!(dial(&nobodys) == Outcome::Through, "nobody's");
    let second = Neighbour::attach(&cgroup::root()?, nobodys.port())?;
    ensure!(dial(&nobodys) == Outcome::Denied, "one that came later");
    drop(second);
    agent.stop()?;
    ensure!(dial(&ours) == Outcome::Through, "ours are gone");
    ensure!(dial(&theirs) == Outcome::Denied, "theirs still work");
    drop(neighbour);
    ensure!(dial(&theirs) == Outcome::Through, "and theirs are gone");
    Ok(())
}

#[test]
fn connections_are_allowed_after_the_agent_is_killed() -> Result<()> {
    let listener = Listener::start()?;
    let to = listener.at(Ipv4Addr::LOCALHOST);
    let (_directory, config) = denying("localhost", listener.port(), "")?;
    let agent = Agent::start(&["--config", &config])?;
    ensure!(Way::Tcp.dial(to) == Outcome::Denied, "while it lives");
    let held = programs::held_by(agent.pid());
    agent.signal(Signal::SIGKILL)?;
    wait_until("connections flow", || Way::Tcp.dial(to) == Outcome::Through)?;
    programs::await_gone(&held)
}

/// Runs one dial in a process of its own, behind `wrapper`.
fn dial_behind(wrapper: &[&str], to: SocketAddr) -> Result<String> {
    let (program, args) = wrapper.split_first().context("no wrapper")?;
    let mut command = Command::new(program);
    command.args(args).arg(places::program("dialing-server")).args(["--once", "Tcp", &to.to_string()]);
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[test]
fn child_cgroups_are_covered_and_subtree_is_selectable() -> Result<()> {
    let listener = Listener::start()?;
    let to = listener.at(Ipv4Addr::LOCALHOST);
    let outer = Cgroup::new()?;
    let inner = outer.below("inner")?;
    let script = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", inner.path().display());
    let within = ["sh", "-c", &script];
    let (_directory, config) = denying("localhost", listener.port(), "")?;
    let agent = Agent::start(&["--config", &config])?;
    ensure!(dial_behind(&within, to)? == "Denied", "two cgroups below the root");
    let event = agent.wait_for("the connection", |event| is(event, "mcp_network_connection"))?;
    ensure!(event["cgroup"].as_str().is_some_and(|path| path.ends_with("/inner")), "{event}");
    agent.stop()?;

    let part = format!(", cgroup_path: {}", outer.path().display());
    let (_directory, config) = denying("localhost", listener.port(), &part)?;
    let agent = Agent::start(&["--config", &config])?;
    ensure!(dial_behind(&within, to)? == "Denied", "below the watched part");
    ensure!(Way::Tcp.dial(to) == Outcome::Through, "beside it");
    agent.stop()?;
    drop(inner);
    Ok(())
}

#[test]
fn loopback_rule_covers_host_namespace_unless_any() -> Result<()> {
    let listener = Listener::start()?;
    let to = listener.at(Ipv4Addr::LOCALHOST);
    for (netns, denied) in [("host", false), ("any", true)] {
        let (_directory, config) = denying("localhost", listener.port(), &format!(", netns: {netns}"))?;
        let agent = Agent::start(&["--config", &config])?;
        ensure!(Way::Tcp.dial(to) == Outcome::Denied, "{netns}: in the host's namespace");
        // Where nothing is up there is nothing to reach, and that is another error.
        let elsewhere = dial_behind(&["unshare", "--net"], to)?;
        ensure!((elsewhere == "Denied") == denied, "{netns}: in another namespace: {elsewhere}");
        agent.stop()?;
    }
    let (_directory, config) = denying("192.0.2.1", listener.port(), "")?;
    let agent = Agent::start(&["--config", &config])?;
    let elsewhere = dial_behind(&["unshare", "--net"], ([192, 0, 2, 1], listener.port()).into())?;
    ensure!(elsewhere == "Denied", "what is no loopback is denied in every namespace: {elsewhere}");
    agent.stop()?;
    Ok(())
}

/// Whoever is told an address of a name that the agent does not know yet: the agent asks for the name again, long before its answer
/// is too old.
#[test]
fn rule_follows_a_name_whose_new_address_a_program_is_told() -> Result<()> {
    let listener = Listener::start()?;
    let [first, second, made_up] = [12, 13, 14].map(|last| listener.at([127, 0, 0, last]));
    let name_server = SocketAddr::from(([127, 53, 0, 2], 53));
    let names = NameServer::start_at(name_server, Ipv4Addr::new(127, 0, 0, 12))?;
    let (_directory, config) = configured(&format!(
        "network:\n  deny: [\"mcp.example:{}\"]\n  \
         resolver: {{ servers: [\"{name_server}\"], min_ttl: 600s, max_ttl: 600s }}\nenforcement: {{ network: deny }}\n",
        listener.port(),
    ))?;
    let agent = Agent::start(&["--config", &config])?;
    ensure!(Way::Tcp.dial(first) == Outcome::Denied, "known from the start");
    names.answer(Some(Ipv4Addr::new(127, 0, 0, 13)));
    ensure!(dns::ask(name_server, "mcp.example")? == Ipv4Addr::new(127, 0, 0, 13), "what a program is told");
    wait_until("the new address is denied", || Way::Tcp.dial(second) == Outcome::Denied)?;
    ensure!(Way::Tcp.dial(first) == Outcome::Denied, "whoever asked before may use the old one");
    // Another name's address is none of this one's.
    names.answer(Some(Ipv4Addr::new(127, 0, 0, 14)));
    ensure!(dns::ask(name_server, "other.example")? == Ipv4Addr::new(127, 0, 0, 14), "another name");
    ensure!(dns::ask(name_server, "mcp.example")? == Ipv4Addr::new(127, 0, 0, 14), "the name again");
    wait_until("it has three addresses", || Way::Tcp.dial(made_up) == Outcome::Denied)?;
    agent.stop()?;
    Ok(())
}

#[test]
fn resolved_name_updates_replace_the_table_atomically() -> Result<()> {
    let listener = Listener::start()?;
    let [first, second, fixed, free] = [2, 3, 4, 5].map(|last| listener.at([127, 0, 0, last]));
    let names = NameServer::start(Ipv4Addr::new(127, 0, 0, 2))?;
    let port = listener.port();
    // Many rules make it long to write a table.
    let many: Vec<String> =
        (0..fewer(8_000)).map(|n| format!("\"10.{}.{}.0/24\"", n / 200, n % 200)).collect();
    let (_directory, config) = configured(&format!(
        "network:\n  deny: [\"mcp.example:{port}\", \"127.0.0.4:{port}\", {}]\n  \
         resolver: {{ servers: [\"{}\"], min_ttl: 1s, max_ttl: 1s }}\nenforcement: {{ network: deny }}\n",
        many.join(", "),
        names.address()
    ))?;
    let agent = Agent::start(&["--config", &config])?;
    ensure!(Way::Tcp.dial(first) == Outcome::Denied, "known from the start");
    ensure!(Way::Tcp.dial(second) == Outcome::Through, "not yet its address");
    let done = AtomicBool::new(false);
    let (wrong, tried) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let judged = [Way::UdpTo.dial(fixed), Way::UdpTo.dial(free)];
                wrong.fetch_add(u64::from(judged != [Outcome::Denied, Outcome::Through]), Ordering::Relaxed);
                tried.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_micros(200));
            }
        });
        let outcome = (|| {
            names.answer(Some(Ipv4Addr::new(127, 0, 0, 3)));
            wait_until("the new address is denied", || Way::Tcp.dial(second) == Outcome::Denied)?;
            wait_until("the old one is not any more", || Way::Tcp.dial(first) == Outcome::Through)?;
            ensure!(Way::Tcp.dial(second) == Outcome::Denied, "the new one still is");
            // A name that is gone keeps what it had.
            names.answer(None);
            agent.wait_for("the failure is told", |event| {
                is(event, "agent_loss") && event["counter"] == "network_names_unanswered"
            })?;
            ensure!(Way::Tcp.dial(second) == Outcome::Denied, "what was known still counts");
            names.answer(Some(Ipv4Addr::new(127, 0, 0, 2)));
            wait_until("the name is followed again", || Way::Tcp.dial(first) == Outcome::Denied)
        })();
        done.store(true, Ordering::Relaxed);
        outcome
    })?;
    let (wrong, tried) = (wrong.into_inner(), tried.into_inner());
    ensure!(wrong == 0 && tried > fewer(1_000) as u64, "{wrong} of {tried} were judged wrongly");
    agent.stop()?;
    Ok(())
}

/// Connects from an address of this host's.
fn dial_from(from: [u8; 4], to: SocketAddr) -> Result<TcpStream> {
    let socket = dial::socket_from((from, 0).into())?;
    dial::connect(&socket, to)?;
    Ok(socket.into())
}

#[test]
fn open_connection_to_denied_address_is_closed() -> Result<()> {
    // A client's and a server's end of TCP, and a UDP socket, to each of two ports.
    let open = || -> Result<_> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let to = listener.local_addr()?;
        let client = TcpStream::connect(to)?;
        client.set_read_timeout(Some(patience(Duration::from_secs(10))))?;
        let (server, _) = listener.accept()?;
        let datagrams = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        datagrams.connect(to)?;
        Ok((to, client, server, datagrams))
    };
    let (denied, mut client, mut server, datagrams) = open()?;
    // Somebody who came in from an address that is denied: the rule is about connecting to it.
    let here = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut guest = dial_from([127, 0, 0, 9], here.local_addr()?)?;
    let (mut host, _) = here.accept()?;
    let (_, mut other_client, mut other_server, other_datagrams) = open()?;
    let (_directory, config) = configured(&format!(
        "network: {{ deny: [\"127.0.0.1:{}\", \"127.0.0.9\"] }}\nenforcement: {{ network: deny }}\n",
        denied.port()
    ))?;
    let agent = Agent::start(&["--config", &config])?;
    for protocol in ["tcp", "udp"] {
        let event = agent.wait_for(&format!("the end of {protocol}"), |event| {
            is(event, "mcp_network_closed") && event["protocol"] == protocol
        })?;
        let found = json!([event["remote_addr"], event["closed"], event["left"]]);
        ensure!(found == json!([denied.to_string(), 1, 0]), "{event}");
        ensure!(event["reason"].as_str().is_some_and(|why| why.starts_with("network.deny[0]")), "{event}");
    }
    guest.write_all(b"x")?;
    host.read_exact(&mut [0]).context("a connection from a denied address")?;
    host.write_all(b"x").context("a connection from a denied address")?;
    ensure!(server.read(&mut [0]).is_err(), "the other end of what was closed");
    let error = client.read(&mut [0]).err().context("it still reads")?;
    ensure!(error.raw_os_error() == Some(libc::ECONNABORTED), "{error}");
    let error = datagrams.send(b"x").err().context("it still sends")?;
    ensure!(error.raw_os_error() != Some(libc::ECONNREFUSED), "{error}");
    other_server.write_all(b"x")?;
    other_client.read_exact(&mut [0])?;
    // Nobody listens there, which is an answer, too.
    let answer = other_datagrams.send(b"x");
    ensure!(
        answer.as_ref().err().is_none_or(|error| error.raw_os_error() == Some(libc::ECONNREFUSED)),
        "{answer:?}"
    );
    agent.stop()?;
    Ok(())
}

#[test]
fn excess_network_rules_are_refused_as_a_whole() -> Result<()> {
    let rules: Vec<String> = (0..16_400).map(|n| format!("\"10.{}.{}.1\"", n / 200, n % 200)).collect();
    let (_directory, config) = configured(&format!("network: {{ deny: [{}] }}\n", rules.join(", ")))?;
    let error = Agent::start(&["--config", &config]).err().context("it was taken")?;
    let said = format!("{error:#}");
    ensure!(said.contains("16384") || said.contains("16,384"), "{said}");
    Ok(())
}
