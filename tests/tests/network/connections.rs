//! Connections: who is told of them, what is denied, and what is left alone.
//!
//! Everything goes to listeners of the test's own on the loopback.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::thread;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::command::{ask, configured};
use mcpwarden_tests::dial::{LOOPBACK_V6, Outcome, WAYS, Way, is_known, loopback_names};
use mcpwarden_tests::dns::NameServer;
use mcpwarden_tests::listener::Listener;
use mcpwarden_tests::patience::fewer;
use mcpwarden_tests::peer::{self, NESTED, Peer, dial, initialize, server, wait_until};
use mcpwarden_tests::places;
use mcpwarden_tests::wiring::Wiring;
use serde_json::{Value, json};

fn connections(agent: &Agent, port: u16) -> Vec<Value> {
    let ends = format!(":{port}");
    let about = |event: &Value| {
        is(event, "mcp_network_connection")
            && event["remote_addr"].as_str().is_some_and(|address| address.ends_with(&ends))
    };
    agent.events().into_iter().filter(about).collect()
}

/// Each way that this kernel knows, to each address: how often it got through of `times`.
fn got_through(to: &[SocketAddr], times: usize) -> Result<Vec<(Way, SocketAddr, usize, usize)>> {
    let mut table = Vec::new();
    for way in WAYS {
        for address in to.iter().copied().filter(|address| way.fits(address.ip())) {
            let (mut through, mut denied) = (0, 0);
            for _ in 0..times {
                let outcome = way.dial(address);
                if !is_known(outcome).with_context(|| format!("{way:?} {address}"))? {
                    println!("SKIPPED: this kernel does not know {way:?} to {address}: {outcome:?}");
                    break;
                }
                through += usize::from(outcome == Outcome::Through);
                denied += usize::from(outcome == Outcome::Denied);
            }
            table.push((way, address, through, denied));
        }
    }
    Ok(table)
}

/// Of each of these ways to each of these addresses. 36 or so pairs, so 10,000 where nothing is emulated.
const TIMES: usize = 300;
/// So many pairs there are at least.
const PAIRS: usize = 34;

#[test]
fn denied_address_is_unreachable_by_every_method() -> Result<()> {
    let (denied, other) = (Listener::start()?, Listener::start()?);
    let (_directory, config) = configured(&format!(
        "network: {{ deny: [{{ host: localhost, port: {}, reason: a test }}] }}\nenforcement: {{ network: deny }}\n",
        denied.port()
    ))?;
    let agent = Agent::start(&["--config", &config])?;
    let to = |listener: &Listener| {
        let mut all = loopback_names(listener.port()).to_vec();
        all.push(listener.at(LOOPBACK_V6));
        all
    };
    let times = fewer(TIMES);
    let mut tried = 0;
    for (way, address, through, refused) in got_through(&to(&denied), times)? {
        ensure!(through == 0, "{way:?} to {address} got through {through} times");
        tried += refused;
    }
    ensure!(tried >= PAIRS * times, "only {tried} were tried");
    let before = denied.accepted();
    ensure!(before == 0, "the listener accepted {before}");
    let mut hindered = 0;
    for (way, address, through, refused) in got_through(&to(&other), times)? {
        ensure!(refused == 0, "{way:?} to {address} was hindered {refused} times");
        hindered += through;
    }
    ensure!(hindered >= PAIRS * times, "only {hindered} were tried");

    agent.settle();
    let events = connections(&agent, denied.port());
    let own = u64::from(std::process::id());
    for event in &events {
        let expected = json!(["block", true, own]);
        let found = json!([event["action"], event["enforced"], event["pid"]]);
        ensure!(found == expected, "{event}");
        ensure!(event["reason"].as_str().is_some_and(|why| why.contains("a test")), "{event}");
        ensure!(event["executable"].is_string() && event["cgroup_id"].is_u64(), "{event}");
    }
    // Many that are alike are one event with their number, whichever protocol the last of them had.
    let counted = || -> u64 {
        let events = connections(&agent, denied.port());
        events.iter().map(|event| event["repeats"].as_u64().unwrap_or(1)).sum()
    };
    wait_until("that each connection is in an event", || counted() >= 5 * times as u64)?;
    ensure!(events.iter().any(|event| event["protocol"] == "udp"), "no event of a datagram");
    ensure!(connections(&agent, other.port()).is_empty(), "others' connections are nobody's business");
    agent.stop()?;
    Ok(())
}

#[test]
fn observe_mode_lets_denied_connections_through() -> Result<()> {
    let listener = Listener::start()?;
    let (_directory, config) = configured(&format!(
        "discovery: {{ list_declared: false }}\n\
         servers: [{{ id: remote, type: http, url: \"http://127.0.0.1:{}/mcp\" }}]\n\
         network: {{ deny: [\"10.0.0.0/8\", \"127.0.0.0/8:{}\"] }}\n",
        listener.port(),
        listener.port() + 1,
    ))?;
    let agent = Agent::start(&["--config", &config])?;
    ensure!(Way::Tcp.dial(listener.at(Ipv4Addr::LOCALHOST)) == Outcome::Through, "a declared server");
    let next = SocketAddr::from((Ipv4Addr::LOCALHOST, listener.port() + 1));
    ensure!(Way::Udp.dial(next) == Outcome::Through, "denied, and only observed");
    let known = agent.wait_for("a connection to a declared server", |event| {
        is(event, "mcp_network_connection") && event["server_id"] == "remote"
    })?;
    ensure!(known["action"] == "allow" && known["protocol"] == "tcp", "{known}");
    // Another thread of the same client is in the same session, and so is the server that it speaks to over pipes.
    let at = listener.at(Ipv4Addr::LOCALHOST);
    let outcome = thread::spawn(move || Way::TcpNonBlocking.dial(at)).join();
    ensure!(outcome.is_ok_and(|outcome| outcome == Outcome::Through), "from a thread");
    let mut wired = Wiring::Pipes.channels()?.spawn(&mut server("echo-server"))?;
    writeln!(wired.to_child, "{}", initialize(1))?;
    BufReader::new(&wired.from_child).read_line(&mut String::new())?;
    let started = agent.connection_of_server(wired.child.id())?;
    ensure!(Way::Tcp.dial(at) == Outcome::Through, "once more");
    drop(wired.to_child);
    wired.child.wait()?;
    agent.settle();
    let sessions: BTreeSet<String> = agent
        .events()
        .iter()
        .filter(|event| event["server_id"] == "remote" || event["connection"] == started)
        .map(|event| event["session_id"].to_string())
        .collect();
    ensure!(sessions.len() == 1, "{sessions:?}");
    let denied = agent.wait_for("what would be denied", |event| {
        is(event, "mcp_network_connection") && event["action"] == "block"
    })?;
    ensure!(denied["enforced"] == false && denied["protocol"] == "udp", "{denied}");
    agent.stop()?;
    Ok(())
}

#[test]
fn connection_is_attributed_to_its_server() -> Result<()> {
    let listener = Listener::start()?;
    let to = listener.at(Ipv4Addr::LOCALHOST);
    let agent = Agent::start(&[])?;
    let mut peer = Peer::start(Wiring::Pipes, &mut server("dialing-server"))?;
    peer.ask(&initialize(1))?;
    let connection = agent.connection_of_server(peer.pid())?;
    for (id, who) in [(2, "server"), (3, "child"), (4, "orphan")] {
        ensure!(dial(&mut peer, id, who, to)? == "Through", "{who}");
    }
    // Not the server's.
    ensure!(Way::Tcp.dial(to) == Outcome::Through, "the client");
    agent.settle();
    let events: Vec<Value> =
        agent.events().into_iter().filter(|event| is(event, "mcp_server_egress")).collect();
    let facts: Vec<Value> = events
        .iter()
        .map(|event| {
            json!([
                event["connection"],
                event["remote_addr"],
                event["first_seen"],
                event["severity"],
                event["action"]
            ])
        })
        .collect();
    let expected: Vec<Value> =
        [true, false, false].map(|first| json!([connection, to.to_string(), first, "low", "allow"])).to_vec();
    ensure!(facts == expected, "{events:#?}");
    let pids: BTreeSet<u64> = events.iter().filter_map(|event| event["pid"].as_u64()).collect();
    ensure!(pids.len() == 3 && pids.contains(&u64::from(peer.pid())), "{pids:?}");
    peer.close()?;
    agent.stop()?;
    Ok(())
}

#[test]
fn egress_rules_are_learned_from_live_servers() -> Result<()> {
    let listener = Listener::start()?;
    let to = listener.at(Ipv4Addr::LOCALHOST);
    let agent = Agent::start(&[])?;
    let mut peer = Peer::start(Wiring::Pipes, &mut server("dialing-server"))?;
    peer.ask(&initialize(1))?;
    agent.connection_of_server(peer.pid())?;
    for id in [2, 3] {
        dial(&mut peer, id, "child", to)?;
    }
    agent.wait_for("the second", |event| is(event, "mcp_server_egress") && event["first_seen"] == false)?;
    let database = agent.directory().join("state/mcpwarden.db").display().to_string();
    let learn = |args: &[&str]| ask(&[&["learn", "--path", &database], args].concat());
    wait_until("both are stored", || learn(&[]).is_ok_and(|said| said.stdout.contains("# 2 times")))?;
    for (args, has) in [
        (&["--since", "1h"][..], true),
        (&["--server", "dialing-server"], true),
        (&["--until", "1h"], false),
        (&["--server", "other"], false),
    ] {
        let said = learn(args)?;
        said.expect("learn", 0, "servers:")?;
        let rule = format!("      - \"{to}\"");
        ensure!(said.stdout.contains(&rule) == has, "{args:?}: {}", said.stdout);
    }
    // It is a configuration under which the server goes on as before.
    let (_directory, config) =
        configured(&format!("{}\nenforcement: {{ network: deny }}\n", learn(&[])?.stdout))?;
    peer.close()?;
    agent.stop()?;
    let agent = Agent::start(&["--config", &config])?;
    let mut peer = Peer::start(Wiring::Pipes, &mut server("dialing-server"))?;
    peer.ask(&initialize(1))?;
    agent.connection_of_server(peer.pid())?;
    ensure!(dial(&mut peer, 2, "server", to)? == "Through", "what was learnt");
    let other = Listener::start()?;
    ensure!(dial(&mut peer, 3, "server", other.at(Ipv4Addr::LOCALHOST))? == "Denied", "what was not");
    peer.close()?;
    agent.stop()?;
    Ok(())
}

#[test]
fn destination_is_reported_with_its_resolved_name() -> Result<()> {
    let listener = Listener::start()?;
    let address = Ipv4Addr::new(127, 0, 0, 2);
    let name_server = SocketAddr::from(([127, 53, 0, 1], 53));
    let _names = NameServer::start_at(name_server, address)?;
    let (_directory, config) =
        configured(&format!("network: {{ deny: [\"{address}:{}\"] }}\n", listener.port()))?;
    let agent = Agent::start(&["--config", &config])?;
    let mut peer = Peer::start(Wiring::Pipes, &mut server("dialing-server"))?;
    peer.ask(&initialize(1))?;
    let connection = agent.connection_of_server(peer.pid())?;
    let call = |id: u64, more: Value| {
        let mut arguments =
            json!({"way": "Tcp", "who": "server", "address": listener.at(address).to_string()});
        if let (Some(arguments), Some(more)) = (arguments.as_object_mut(), more.as_object()) {
            arguments.extend(more.clone());
        }
        peer::call(id, "dial", &arguments)
    };
    let name = json!({"name": "MCP.example", "name_server": name_server.to_string()});
    for (id, more, expected) in [(2, json!({}), Value::Null), (3, name, json!("mcp.example"))] {
        let answer = peer.ask(&call(id, more))?;
        ensure!(answer["result"]["content"][0]["text"] == "Through", "{answer}");
        // The client, too: names are no server's.
        Way::Tcp.dial(listener.at(address));
        agent.settle();
        let to_there = connections(&agent, listener.port());
        let mut egress = agent.events_of(connection);
        egress.retain(|event| is(event, "mcp_server_egress"));
        let last = |events: &[Value]| events.last().map(|event| event["remote_name"].clone());
        ensure!(last(&egress) == Some(expected.clone()), "{id}: {egress:#?}");
        ensure!(last(&to_there) == Some(expected), "{id}: {to_there:#?}");
    }
    peer.close()?;
    agent.stop()?;
    Ok(())
}

#[test]
fn server_without_egress_cannot_connect() -> Result<()> {
    let (allowed, other) = (Listener::start()?, Listener::start()?);
    for (egress, through) in
        [("none".to_owned(), false), (format!("[\"localhost:{}\"]", allowed.port()), true)]
    {
        let (_directory, config) = configured(&format!(
            "servers: [{{ id: dialer, command: dialing-server, egress: {egress} }}]\nenforcement: {{ network: deny }}\n",
        ))?;
        let agent = Agent::start(&["--config", &config])?;
        let mut peer = Peer::start(Wiring::Pipes, &mut server("dialing-server"))?;
        peer.ask(&initialize(1))?;
        agent.connection_of_server(peer.pid())?;
        for (id, who) in [(2, "server"), (3, "child"), (4, "orphan")] {
            let there = dial(&mut peer, id, who, allowed.at(Ipv4Addr::LOCALHOST))?;
            ensure!(there == if through { "Through" } else { "Denied" }, "{egress} {who}: {there}");
            let elsewhere = dial(&mut peer, id + 10, who, other.at(Ipv4Addr::LOCALHOST))?;
            ensure!(elsewhere == "Denied", "{egress} {who}: {elsewhere}");
        }
        // However many servers it starts one below the other, the first one's rules hold for all.
        let below = dial(&mut peer, 30, "nested", other.at(Ipv4Addr::LOCALHOST))?;
        ensure!(below == "Denied", "{egress}: {NESTED} servers below: {below}");
        // The client is not the server.
        ensure!(Way::Tcp.dial(other.at(Ipv4Addr::LOCALHOST)) == Outcome::Through, "the client");
        let event = agent
            .wait_for("the attempt", |event| is(event, "mcp_server_egress") && event["action"] == "block")?;
        let found = json!([event["enforced"], event["severity"], event["server_id"]]);
        ensure!(found == json!([true, "high", "dialer"]), "{event}");
        peer.close()?;
        agent.stop()?;
    }
    Ok(())
}

/// The program is replaced or removed while the server runs, and another agent starts: it has the same rules.
#[test]
fn upgrade_of_the_executable_lifts_no_egress_rule() -> Result<()> {
    let listener = Listener::start()?;
    let to = listener.at(Ipv4Addr::LOCALHOST);
    for (is_replaced, by) in
        [(true, "executable"), (false, "executable"), (true, "command"), (false, "command")]
    {
        let directory = tempfile::tempdir()?;
        let program = directory.path().join("dialer");
        fs::copy(places::program("dialing-server"), &program)?;
        let file = program.display();
        let declared = if by == "executable" { format!(", executable: '{file}'") } else { String::new() };
        let (_directory, config) = configured(&format!(
            "servers: [{{ id: dialer, command: '{file}', egress: none{declared} }}]\nenforcement: {{ network: deny }}\n",
        ))?;
        let agent = Agent::start(&["--config", &config])?;
        let mut peer = Peer::start(Wiring::Pipes, &mut Command::new(&program))?;
        peer.ask(&initialize(1))?;
        agent.connection_of_server(peer.pid())?;
        let what = format!("{by}, replaced: {is_replaced}");
        ensure!(dial(&mut peer, 2, "server", to)? == "Denied", "{what}: before");
        agent.stop()?;
        fs::remove_file(&program)?;
        if is_replaced {
            fs::copy(places::program("echo-server"), &program)?;
        }
        let agent = Agent::start(&["--config", &config])?;
        let started = agent
            .wait_for("the server", |event| is(event, "mcp_server_started") && event["pid"] == peer.pid())?;
        ensure!(started["server_id"] == "dialer", "{what}: {started}");
        let there = dial(&mut peer, 3, "server", to)?;
        ensure!(there == "Denied", "{what}: {there}");
        peer.close()?;
        agent.stop()?;
    }
    Ok(())
}

#[test]
fn orphan_process_keeps_its_servers_egress_rules() -> Result<()> {
    let listener = Listener::start()?;
    let to = listener.at(Ipv4Addr::LOCALHOST);
    let (_directory, config) = configured(
        "servers: [{ id: dialer, command: dialing-server, egress: none }]\nenforcement: { network: deny }\n",
    )?;
    let agent = Agent::start(&["--config", &config])?;
    let mut peer = Peer::start(Wiring::Pipes, &mut server("dialing-server"))?;
    peer.ask(&initialize(1))?;
    let connection = agent.connection_of_server(peer.pid())?;
    let report = dial(&mut peer, 2, "heir", to)?;
    peer.close()?;
    agent.wait_for("the server's end", |event| is(event, "mcp_server_exited"))?;
    let event = agent.wait_for("the attempt", |event| is(event, "mcp_server_egress"))?;
    let found = json!([event["connection"], event["server_id"], event["action"], event["enforced"]]);
    ensure!(found == json!([connection, "dialer", "block", true]), "{event}");
    fs::remove_dir_all(report).context("the process that was left behind wrote no report")?;
    ensure!(listener.accepted() == 0, "it got through");
    agent.stop()?;
    Ok(())
}
