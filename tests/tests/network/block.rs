//! What an operator blocks by hand: at once, whatever is configured, until its end, and by whom it may be.
//!
//! Everything goes to listeners of the test's own on the loopback.

use std::fs;
use std::io::Read as _;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::command::{CommandOutput, ask, configured, ends};
use mcpwarden_tests::dial::{LOOPBACK_V6, Outcome, WAYS, Way, is_known, loopback_names};
use mcpwarden_tests::dns::NameServer;
use mcpwarden_tests::listener::Listener;
use mcpwarden_tests::patience::patience;
use mcpwarden_tests::peer::wait_until;
use mcpwarden_tests::places::{self, two_groups};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// What is blocked, as JSON says it.
fn blocks(agent: &Agent) -> Result<Vec<Value>> {
    let said = agent.tell(&["blocks", "--json"])?;
    said.expect("blocks", 0, "[")?;
    Ok(serde_json::from_str(&said.stdout)?)
}

fn refused(what: &str, said: &CommandOutput, part: &str) -> Result<()> {
    let CommandOutput { code, stdout, stderr } = said;
    ensure!(*code == Some(2) && stderr.contains(part), "{what}: {code:?}, not {part:?} in {stderr}{stdout}");
    ensure!(stdout.is_empty() && stderr.lines().count() == 1, "{what}: {stdout}{stderr}");
    Ok(())
}

#[test]
fn block_is_enforced_at_once_with_enforcement_off() -> Result<()> {
    let (blocked, other) = (Listener::start()?, Listener::start()?);
    let agent = Agent::start(&[])?;
    let target = format!("localhost:{}", blocked.port());
    agent.tell(&["block", &target, "--reason", "a test"])?.expect("block", 0, "until it is unblocked")?;
    let mut addresses = loopback_names(blocked.port()).to_vec();
    addresses.push(blocked.at(LOOPBACK_V6));
    let before = blocked.accepted();
    for way in WAYS {
        for to in addresses.iter().copied().filter(|to| way.fits(to.ip())) {
            let outcome = way.dial(to);
            ensure!(outcome == Outcome::Denied || !is_known(outcome)?, "{way:?} to {to}: {outcome:?}");
        }
    }
    ensure!(blocked.accepted() == before, "something got through");
    ensure!(Way::Tcp.dial(other.at(Ipv4Addr::LOCALHOST)) == Outcome::Through, "another port");
    let reason = format!("block ({target}): a test");
    let denied = agent.wait_for("a denied connection", |event| is(event, "mcp_network_connection"))?;
    let found = json!([denied["action"], denied["enforced"], denied["reason"]]);
    ensure!(found == json!(["block", true, reason]), "{denied}");
    let said = agent.wait_for("the block", |event| is(event, "mcp_network_blocked"))?;
    let found = json!([said["target"], said["reason"], said["uid"], said["user"], said["until"]]);
    ensure!(found == json!([target, "a test", 0, "root", null]), "{said}");

    // Again, with another end: in place of the first.
    agent.tell(&["block", "localhost", "--port", &blocked.port().to_string(), "--for", "1h"])?.expect(
        "block again",
        0,
        "blocked localhost",
    )?;
    let all = blocks(&agent)?;
    ensure!(all.len() == 1 && all[0]["until"].is_string() && all[0]["reason"].is_null(), "{all:?}");
    agent.tell(&["blocks"])?.expect("blocks", 0, &target)?;

    agent.tell(&["unblock", &target])?.expect("unblock", 0, "unblocked localhost")?;
    ensure!(Way::Tcp.dial(blocked.at(Ipv4Addr::LOCALHOST)) == Outcome::Through, "unblocked");
    let said = agent.wait_for("its end", |event| is(event, "mcp_network_unblocked"))?;
    ensure!(said["reason"] == "unblocked" && said["uid"] == 0 && said["target"] == target.as_str(), "{said}");
    refused("twice", &agent.tell(&["unblock", &target])?, "is not blocked")?;
    agent.tell(&["blocks"])?.expect("no blocks", 0, "nothing is blocked")?;
    agent.stop()?;
    Ok(())
}

#[test]
fn block_closes_open_connections() -> Result<()> {
    let agent = Agent::start(&[])?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let target = listener.local_addr()?.to_string();
    // Each block closes what is open then, and one lets another be while it works.
    for times in 1..=2 {
        let mut open = TcpStream::connect(listener.local_addr()?)?;
        let _held = listener.accept()?;
        open.set_read_timeout(Some(patience(Duration::from_secs(10))))?;
        for target in [target.as_str(), "192.0.2.1"] {
            agent.tell(&["block", target, "--reason", "a test"])?.expect("block", 0, "blocked")?;
        }
        let error = open.read(&mut [0]).err().context("what was open still is")?;
        ensure!(error.raw_os_error() == Some(libc::ECONNABORTED), "{error}");
        let closed = |event: &Value| {
            let why = format!("block ({target}): a test");
            is(event, "mcp_network_closed") && event["reason"] == why && event["closed"] == 1
        };
        wait_until("the end of what was open is told", || {
            agent.events().iter().filter(|event| closed(event)).count() == times
        })?;
        agent.tell(&["unblock", &target])?.expect("unblock", 0, "unblocked")?;
    }
    agent.stop()?;
    Ok(())
}

#[test]
fn block_expires_in_the_kernel_without_the_agent() -> Result<()> {
    let listener = Listener::start()?;
    let to = listener.at(Ipv4Addr::LOCALHOST);
    let agent = Agent::start(&[])?;
    agent.tell(&["block", &to.to_string(), "--for", "2s"])?.expect("block", 0, "until 20")?;
    ensure!(Way::Tcp.dial(to) == Outcome::Denied, "while it counts");
    agent.signal(Signal::SIGSTOP)?;
    let outcome = wait_until("the end of the block", || Way::Tcp.dial(to) == Outcome::Through);
    agent.signal(Signal::SIGCONT)?;
    outcome?;
    let said = agent.wait_for("its end", |event| is(event, "mcp_network_unblocked"))?;
    ensure!(said["reason"] == "expired" && said["uid"].is_null(), "{said}");
    ensure!(blocks(&agent)?.is_empty(), "it is still listed");
    agent.stop()?;
    Ok(())
}

#[test]
fn declared_server_is_blocked_at_all_addresses() -> Result<()> {
    let listener = Listener::start()?;
    let [first, second] = [2, 3].map(|last| listener.at([127, 0, 0, last]));
    let names = NameServer::start(Ipv4Addr::new(127, 0, 0, 2))?;
    let (_directory, config) = configured(&format!(
        "servers:\n  - {{ id: crm, type: http, url: \"http://mcp.example:{}/mcp\" }}\n  - {{ id: files, command: x }}\n\
         network: {{ resolver: {{ servers: [\"{}\"], min_ttl: 1s, max_ttl: 1s }} }}\n",
        listener.port(),
        names.address()
    ))?;
    let agent = Agent::start(&["--config", &config])?;
    ensure!(Way::Tcp.dial(first) == Outcome::Through, "before");
    agent.tell(&["block", "crm"])?.expect("block", 0, &format!("crm (127.0.0.2:{})", listener.port()))?;
    ensure!(Way::Tcp.dial(first) == Outcome::Denied, "its address");
    let said = agent.wait_for("the block", |event| is(event, "mcp_network_blocked"))?;
    ensure!(said["server_id"] == "crm" && said["server_type"] == "http", "{said}");
    names.answer(Some(Ipv4Addr::new(127, 0, 0, 3)));
    wait_until("its new address is blocked", || Way::Tcp.dial(second) == Outcome::Denied)?;
    // A program: its calls are, where the kernel has what stops them (`gate_block`).
    match agent.tell(&["block", "files"])? {
        said if said.code == Some(0) => said.expect("a program", 0, "server=files (0 connections")?,
        said => refused("a program", &said, "calls cannot be blocked on this host")?,
    }
    agent.tell(&["unblock", "crm"])?.expect("unblock", 0, "unblocked crm")?;
    ensure!(Way::Tcp.dial(second) == Outcome::Through, "unblocked");

    // A name of nobody's configuration is asked for, and then blocked; one without an address is said.
    let name = format!("other.example:{}", listener.port());
    agent.tell(&["block", &name])?.expect("a name", 0, "other.example")?;
    ensure!(Way::Tcp.dial(second) == Outcome::Denied, "the address of a name");
    names.answer(None);
    let said = agent.tell(&["block", "nobody.example"])?;
    said.expect("a name without an address", 0, "blocked nobody.example")?;
    ensure!(said.stderr.contains("nothing is denied until it has one"), "{}", said.stderr);
    agent.stop()?;
    Ok(())
}

#[test]
fn server_denied_by_guards_is_denied_by_address() -> Result<()> {
    let [denied, other] = [Listener::start()?, Listener::start()?];
    let at = |listener: &Listener| format!("type: http, url: \"http://127.0.0.1:{}/mcp\"", listener.port());
    let servers =
        |more: &str| format!("servers: [{{ id: a, {}{more} }}, {{ id: b, {} }}]\n", at(&denied), at(&other));
    for (policy, enforced) in [
        ("policy: { denied_servers: [a] }", true),
        ("policy: { server_policy: allowlist, allowed_servers: [b] }", true),
        ("", true),
        ("policy: { denied_servers: [a] }", false),
    ] {
        let servers = servers(if policy.is_empty() { ", enabled: false" } else { "" });
        let mode = if enforced { "deny" } else { "observe" };
        let (_directory, config) =
            configured(&format!("{servers}{policy}\nenforcement: {{ network: {mode} }}\n"))?;
        let agent = Agent::start(&["--config", &config])?;
        let outcomes = [&denied, &other].map(|listener| Way::Tcp.dial(listener.at(Ipv4Addr::LOCALHOST)));
        let first = if enforced { Outcome::Denied } else { Outcome::Through };
        ensure!(outcomes == [first, Outcome::Through], "{policy} {mode}: {outcomes:?}");
        let event = agent.wait_for("the connection", |event| {
            is(event, "mcp_network_connection") && event["server_id"] == "a"
        })?;
        ensure!(event["action"] == "block" && event["enforced"] == enforced, "{policy} {mode}: {event}");
        ensure!(event["reason"].as_str().is_some_and(|why| why.starts_with("server_access")), "{event}");
        agent.stop()?;
    }
    Ok(())
}

#[test]
fn unblockable_target_is_refused_with_reason() -> Result<()> {
    let agent = Agent::start(&[])?;
    for (args, part) in [
        (&["block", "a b"][..], "a b is neither a name nor an IP address nor a CIDR block"),
        (&["block", "192.0.2.1/24"], "the block is 192.0.2.0/24"),
        (&["block", "192.0.2.1:443", "--port", "80"], "has a port"),
        (&["block", "192.0.2.1", "--for", "0s"], "a block of no time"),
        (&["block", "0.0.0.0/0"], "only with --yes: that is most of the network"),
        (&["block", "*"], "only with --yes"),
        (&["block", "127.0.0.0/8"], "only with --yes: programs of this host speak to each other there"),
        (&["block", "localhost"], "only with --yes"),
        (&["unblock", "192.0.2.1"], "192.0.2.1 is not blocked"),
    ] {
        refused(&args.join(" "), &agent.tell(args)?, part)?;
    }
    ensure!(blocks(&agent)?.is_empty(), "something is blocked");
    let listener = Listener::start()?;
    agent.tell(&["block", "127.0.0.0/8", "--yes"])?.expect("--yes", 0, "127.0.0.0/8")?;
    ensure!(Way::Tcp.dial(listener.at(Ipv4Addr::LOCALHOST)) == Outcome::Denied, "it was meant");
    refused("a part of it", &agent.tell(&["unblock", "127.0.0.1"])?, "but 127.0.0.0/8 is")?;
    // The control socket is none of the network's.
    agent.tell(&["unblock", "127.0.0.0/8"])?.expect("unblock", 0, "unblocked")?;
    agent.stop()?;
    Ok(())
}

#[test]
fn excess_blocks_are_refused_and_others_stay() -> Result<()> {
    const ROOM: usize = 3;
    let rules: Vec<String> =
        (0..16_384 - ROOM).map(|n| format!("\"10.{}.{}.1\"", n / 200, n % 200)).collect();
    let (_directory, config) = configured(&format!("network: {{ deny: [{}] }}\n", rules.join(", ")))?;
    let agent = Agent::start(&["--config", &config])?;
    let listener = Listener::start()?;
    let to = |last: usize| listener.at([127, 0, 0, 100 + last as u8]);
    for last in 0..ROOM {
        agent.tell(&["block", &to(last).to_string()])?.expect("one that fits", 0, "blocked")?;
    }
    let one_more = to(ROOM).to_string();
    refused("one more", &agent.tell(&["block", &one_more])?, "do not fit")?;
    ensure!(Way::Tcp.dial(to(ROOM)) == Outcome::Through, "it counts nonetheless");
    for last in 0..ROOM {
        ensure!(Way::Tcp.dial(to(last)) == Outcome::Denied, "{last}");
    }
    ensure!(blocks(&agent)?.len() == ROOM, "the refused one is listed");
    agent.wait_for("the refusal is told", |event| {
        is(event, "agent_loss") && event["counter"] == "network_blocks_refused"
    })?;
    agent.tell(&["unblock", &to(0).to_string()])?.expect("unblock", 0, "unblocked")?;
    agent.tell(&["block", &one_more])?.expect("there is room", 0, "blocked")?;
    ensure!(Way::Tcp.dial(to(ROOM)) == Outcome::Denied, "it counts");
    agent.stop()?;
    Ok(())
}

#[test]
fn blocks_end_with_the_agent_and_socket_is_reused() -> Result<()> {
    let listener = Listener::start()?;
    let to = listener.at(Ipv4Addr::LOCALHOST);
    let (directory, _) = configured("")?;
    let socket = directory.path().join("run/x.sock");
    fs::write(
        directory.path().join("config.yaml"),
        format!("control: {{ socket: {} }}\n", socket.display()),
    )?;
    let config = directory.path().join("config.yaml").display().to_string();
    let at = ["--socket".to_owned(), socket.display().to_string()];
    let ask_it = |args: &[&str]| ask(&[args, &[&at[0], &at[1]]].concat());
    refused("no agent", &ask_it(&["blocks"])?, "no agent runs that listens at")?;

    let agent = Agent::start(&["--config", &config])?;
    ask_it(&["block", &to.to_string()])?.expect("block", 0, "blocked")?;
    let second = Agent::start(&["--config", &config]).err().context("a second agent took the socket")?;
    ensure!(format!("{second:#}").contains("another program listens there"), "{second:#}");
    ensure!(Way::Tcp.dial(to) == Outcome::Denied, "the first one's block counts");
    agent.signal(Signal::SIGKILL)?;
    wait_until("blocks end with the agent", || Way::Tcp.dial(to) == Outcome::Through)?;
    // Its programs go before its sockets do.
    wait_until("nobody listens any more", || {
        ask_it(&["blocks"]).is_ok_and(|said| said.stderr.contains("no agent runs that listens at"))
    })?;
    ensure!(socket.exists(), "a killed agent removes nothing");

    let agent = Agent::start(&["--config", &config])?;
    ask_it(&["blocks"])?.expect("after a restart", 0, "nothing is blocked")?;
    ask_it(&["block", &to.to_string()])?.expect("block", 0, "blocked")?;
    agent.signal(Signal::SIGTERM)?;
    let said = agent.wait_for("its end", |event| is(event, "mcp_network_unblocked"))?;
    ensure!(said["reason"] == "agent_stopped", "{said}");
    agent.wait_for("the agent's end", |event| is(event, "agent_stopped"))?;
    wait_until("the socket is gone", || !socket.exists())
}

#[test]
fn control_commands_require_group_membership() -> Result<()> {
    /// No user of any host.
    const STRANGER: &str = "4242";
    const NO_GROUP: &str = "4243";
    let [(reading, read), (changing, change)] = two_groups()?;
    let directory = tempfile::tempdir()?;
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
    let at = |name: &str| directory.path().join(name);
    let (program, socket) = (at("mcpwarden"), at("run/x.sock"));
    // A checkout may lie in a home, where nobody else may execute it.
    fs::copy(places::agent(), &program)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let config = at("config.yaml");
    fs::write(
        &config,
        format!("control: {{ socket: {}, group: {reading}, admin_group: {changing} }}\n", socket.display()),
    )?;
    let agent = Agent::start(&["--config", &config.display().to_string()])?;
    let ask_as = |groups: &str, args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", STRANGER, "--regid", NO_GROUP, "--groups", groups]).arg(&program);
        command.args(args).arg("--socket").arg(&socket).stdin(Stdio::null());
        ends(&mut command)
    };
    let both = format!("{read},{change}");
    let block: &[&str] = &["block", "192.0.2.1", "--for", "1h"];

    refused("of no group", &ask_as(NO_GROUP, &["blocks"])?, "you may not use")?;
    ask_as(&read, &["blocks"])?.expect("a reader asks", 0, "nothing is blocked")?;
    let only =
        format!("user 4242 may not change anything here: only root may and members of the group {changing}");
    refused("a reader blocks", &ask_as(&read, block)?, &only)?;
    refused("a reader unblocks", &ask_as(&read, &["unblock", "192.0.2.1"])?, &only)?;
    ask_as(&both, block)?.expect("a changer blocks", 0, "blocked 192.0.2.1")?;
    let said = agent.wait_for("the block", |event| is(event, "mcp_network_blocked"))?;
    ensure!(said["uid"] == 4_242 && said["user"].is_null(), "{said}");
    ask_as(&both, &["unblock", "192.0.2.1"])?.expect("a changer unblocks", 0, "unblocked")?;

    // Who gets at the socket nonetheless is told apart by the kernel's word.
    fs::set_permissions(Path::new(&at("run")), fs::Permissions::from_mode(0o755))?;
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666))?;
    let nothing =
        format!("user 4242 may not query the agent here: only root may and members of the group {reading}");
    refused("a stranger asks", &ask_as(NO_GROUP, &["blocks"])?, &nothing)?;
    refused("a stranger blocks", &ask_as(NO_GROUP, block)?, &only)?;
    let stopped = agent.stop()?;
    ensure!(stopped["counters"]["control_forbidden"] == 4, "{stopped}");
    Ok(())
}

#[test]
fn learned_rules_form_a_valid_configuration() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let (recording, proposal) =
        (directory.path().join("events.jsonl"), directory.path().join("proposal.yaml"));
    let at = |minute: u8| format!("2026-01-06T10:{minute:02}:00.000000000Z");
    let egress = |server: &str, minute: u8, to: &str, action: &str| {
        json!({"type": "mcp_server_egress", "timestamp": at(minute), "server_id": server, "server_type": "stdio",
            "remote_addr": to, "protocol": "tcp", "family": "ipv4", "pid": 1, "action": action, "enforced": false,
            "first_seen": true, "severity": "low"})
    };
    let started = |server: &str| {
        json!({"type": "mcp_server_started", "timestamp": at(0), "server_id": server, "server_type": "stdio",
            "argv": ["npx", "-y", server], "matched_by": "name", "identity": "derived", "adopted": false})
    };
    let events = [
        started("weather"),
        started("files"),
        egress("weather", 1, "127.0.0.53:53", "allow"),
        egress("weather", 2, "192.0.2.1:443", "allow"),
        egress("weather", 3, "[2001:db8::1]:443", "allow"),
        egress("weather", 4, "203.0.113.1:22", "block"),
    ];
    fs::write(&recording, events.map(|event| format!("{event}\n")).concat())?;
    let recording = recording.display().to_string();
    for (args, has, has_not) in [
        (&[][..], &["files", "127.0.0.53:53", "192.0.2.1:443", "[2001:db8::1]:443"][..], "203.0.113.1"),
        (&["--server", "files"], &["egress: none"], "weather"),
        (&["--since", "2026-01-06T10:02:00Z"], &["192.0.2.1:443"], "127.0.0.53"),
    ] {
        let said = ask(&[&["learn", recording.as_str()], args].concat())?;
        said.expect("learn", 0, "servers:")?;
        for part in has {
            ensure!(said.stdout.contains(part), "{args:?}: no {part} in {}", said.stdout);
        }
        ensure!(!said.stdout.contains(has_not), "{args:?}: {has_not} is in {}", said.stdout);
        if args.contains(&"--since") {
            continue;
        }
        fs::write(&proposal, format!("enforcement: {{ network: deny }}\n{}", said.stdout))?;
        ask(&["check-config", "--strict", &proposal.display().to_string()])?.expect("check-config", 0, "")?;
    }
    fs::write(&proposal, "no event\n")?;
    refused(
        "no event",
        &ask(&["learn", &proposal.display().to_string()])?,
        "proposal.yaml:1: it is not an event",
    )
}
