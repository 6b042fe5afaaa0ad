//! Very many connections, with as many rules as there may be.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::command::configured;
use mcpwarden_tests::dial::{Outcome, Way};
use mcpwarden_tests::listener::Listener;

/// Rules that there may be.
const RULES: usize = 16_384;
/// So many addresses of the loopback are denied, and as many are not: one alone runs out of ports.
const ADDRESSES: u8 = 32;
const CONNECTS: usize = 100_000;
const THREADS: usize = 4;

#[test]
fn a_full_table_judges_every_connection() -> Result<()> {
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

    agent.settle();
    let events = agent.events();
    let told = events.iter().filter(|event| is(event, "mcp_network_connection")).count() as u64;
    let last = agent.stop()?;
    let counter = |name: &str| last["counters"][name].as_u64().with_context(|| format!("no {name}"));
    let lost = counter("kernel_connects_untold")?;
    ensure!(told + lost == CONNECTS as u64 / 2, "{told} were told, {lost} counted as lost");
    ensure!(counter("kernel_sockets_refused")? == 0, "sockets that were closed are in the way of others");
    Ok(())
}
