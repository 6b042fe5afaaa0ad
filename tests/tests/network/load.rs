//! Very many connections, with as many rules as there may be.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::command::configured;
use mcpwarden_tests::dial::{Outcome, Way};
use mcpwarden_tests::listener::Listener;
use mcpwarden_tests::peer::wait_until;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::Value;

/// Rules that there may be.
const RULES: usize = 16_384;
/// So many addresses of the loopback are denied, and as many are not: one alone runs out of ports.
const ADDRESSES: u8 = 32;
const CONNECTS: usize = 100_000;
const THREADS: usize = 4;

#[test]
fn full_rule_table_judges_every_connection() -> Result<()> {
    let listener = Listener::start()?;
    let port = listener.port();
    let here = |last: u8| format!("\"127.0.1.{last}:{port}\"");
    let elsewhere = |n: usize| format!("\"10.{}.{}.{}\"", n >> 14, (n >> 7) & 127, n & 127);
    let rules: Vec<String> =
        (0..ADDRESSES).map(here).chain((0..RULES - usize::from(ADDRESSES)).map(elsewhere)).collect();
    let (_directory, config) = configured(&format!(
        "network: {{ deny: [{}] }}\nenforcement: {{ network: deny }}\n",
        rules.join(", ")
    ))?;
    let agent = Agent::start(&["--config", &config])?;

    let dial = move |thread: usize| {
        let mut wrong = Vec::new();
        for n in (thread..CONNECTS).step_by(THREADS) {
            let last = (n / 2) as u8 % ADDRESSES;
            // Every other one of a thread goes beside what is denied.
            let (third, expected) =
                if (n / THREADS).is_multiple_of(2) { (1, Outcome::Denied) } else { (2, Outcome::Through) };
            let to = SocketAddr::from((Ipv4Addr::new(127, 0, third, last), port));
            // Who waits for the listener measures how long its queue is.
            let outcome = Way::TcpNonBlocking.dial(to);
            if outcome != expected {
                wrong.push((to, outcome));
            }
        }
        wrong
    };
    let threads: Vec<_> = (0..THREADS).map(|thread| thread::spawn(move || dial(thread))).collect();
    for thread in threads {
        let wrong = thread.join().ok().context("a panic")?;
        ensure!(wrong.is_empty(), "{} were judged wrongly: {:?}", wrong.len(), &wrong[..wrong.len().min(10)]);
    }

    let told = || {
        let events = agent.events();
        events.iter().filter(|event| is(event, "mcp_network_connection")).map(count).sum::<u64>()
    };
    // Repeats are told with the end of their period. What was lost never is.
    let _ = wait_until("all denials", || told() >= CONNECTS as u64 / 2);
    let told = told();
    let last = agent.stop()?;
    let counter = |name: &str| last["counters"][name].as_u64().with_context(|| format!("no {name}"));
    let lost = counter("kernel_connects_untold")?;
    ensure!(told + lost == CONNECTS as u64 / 2, "{told} were told, {lost} counted as lost");
    ensure!(counter("kernel_sockets_refused")? == 0, "sockets that were closed are in the way of others");
    Ok(())
}

/// What is open is said of so many connections, and the rest is counted.
#[test]
fn excess_open_connections_are_only_counted() -> Result<()> {
    const SAID: usize = 16_384;
    const MORE: usize = 100;
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    // The sockets, and what else a test has open.
    let needed = (SAID + MORE) as u64 + 1_000;
    setrlimit(Resource::RLIMIT_NOFILE, needed, most.max(needed))?;
    let listener = UdpSocket::bind(("127.0.0.1", 0))?;
    let to = listener.local_addr()?;
    let connected = || -> Result<UdpSocket> {
        let socket = UdpSocket::bind(("127.0.0.1", 0))?;
        socket.connect(to)?;
        Ok(socket)
    };
    let sockets = (0..SAID + MORE).map(|_| connected()).collect::<Result<Vec<_>>>()?;
    let (_directory, config) = configured(&format!(
        "servers: [{{ id: crm, type: http, url: \"http://{to}/\" }}]\ndiscovery: {{ list_declared: false }}\n"
    ))?;
    let agent = Agent::start(&["--config", &config])?;
    let adopted = |event: &&Value| is(event, "mcp_network_connection") && event["adopted"] == true;
    // Repeats are folded, and reported within 10 s.
    let said = || agent.events().iter().filter(adopted).map(count).sum::<u64>();
    wait_until("all that is said", || said() >= SAID as u64)?;
    agent.wait_for("that some is not", |event| {
        is(event, "agent_loss") && event["counter"] == "network_adopted_untold" && event["count"] == MORE
    })?;
    let told = said();
    ensure!(told == SAID as u64, "{told} connections are said");
    let stopped = agent.stop()?;
    ensure!(stopped["counters"]["network_adopted_untold"] == MORE, "{}", stopped["counters"]);
    drop(sockets);
    Ok(())
}

/// How many connections an event stands for.
fn count(event: &Value) -> u64 {
    event["repeats"].as_u64().unwrap_or(1)
}
