//! What the agent says about itself: numbers that are right, health, and nobody who asks does any harm.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::command::{configured, mcpwarden};
use mcpwarden_tests::dial::{Outcome, Way};
use mcpwarden_tests::peer::{Driven, Peer, await_exit, echo, initialize, server, wait_until};
use mcpwarden_tests::places;
use mcpwarden_tests::scrape::{Scrape, promtool};
use mcpwarden_tests::transcript::Dir;
use mcpwarden_tests::wiring::Wiring;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use serde_json::{Value, json};

type Growth = Vec<(String, f64)>;
/// By how much which numbers must grow, while a server lives.
type Grown = Result<(Growth, Option<Peer>)>;

/// An agent sees all servers of the host: those of other tests would be counted, too.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something that happens under an agent.
struct Scenario {
    name: &'static str,
    config: String,
    /// Does it, and says by how much which numbers must grow, while what it also gives lives.
    act: fn(&Agent) -> Grown,
}

fn declared() -> String {
    let program = places::program("echo-server");
    format!("servers: [{{ id: echo, command: {} }}]\n", program.display())
}

/// A session of so many calls, each with a text of so many bytes.
fn session(agent: &Agent, calls: u64, bytes: usize) -> Result<(Peer, u64)> {
    let mut peer = Peer::start(Wiring::Pipes, &mut server("echo-server"))?;
    peer.ask(&initialize(1))?;
    let connection = agent.connection_of_server(peer.pid())?;
    for id in 0..calls {
        peer.ask(&echo(id + 2, &"x".repeat(bytes)))?;
    }
    Ok((peer, connection))
}

fn calls_and_answers(agent: &Agent) -> Grown {
    let (mut peer, connection) = session(agent, 3, 10)?;
    peer.close()?;
    await_exit(agent, connection)?;
    let asked = peer.said().iter().filter(|(dir, _)| *dir == Dir::C2s);
    let asked_bytes: usize = asked.map(|(_, message)| message.to_string().len()).sum();
    Ok((
        vec![
            (r#"mcpwarden_calls_total{action="allow",server="echo"}"#.into(), 3.0),
            (r#"mcpwarden_calls_total{action="allow",server="other"}"#.into(), 0.0),
            (r#"mcpwarden_call_results_total{server="echo",status="ok"}"#.into(), 3.0),
            (r#"mcpwarden_frames_total{transport="stdio",direction="c2s"}"#.into(), 4.0),
            (r#"mcpwarden_frames_total{transport="stdio",direction="s2c"}"#.into(), 4.0),
            (r#"mcpwarden_frame_bytes_total{transport="stdio",direction="c2s"}"#.into(), asked_bytes as f64),
            (r#"mcpwarden_coverage_ratio{transport="stdio"}"#.into(), 0.0),
            ("mcpwarden_servers_found_total".into(), 1.0),
            (r#"mcpwarden_servers{transport="stdio"}"#.into(), 0.0),
            ("mcpwarden_call_duration_seconds_count".into(), 3.0),
            ("mcpwarden_added_latency_seconds_count".into(), 6.0),
            (r#"mcpwarden_events_total{type="mcp_server_exited"}"#.into(), 1.0),
        ],
        None,
    ))
}

fn a_denied_tool(agent: &Agent) -> Grown {
    let (mut peer, connection) = session(agent, 2, 10)?;
    peer.close()?;
    await_exit(agent, connection)?;
    Ok((
        vec![
            (r#"mcpwarden_calls_total{action="block",server="echo"}"#.into(), 2.0),
            (r#"mcpwarden_denials_total{enforced="no",guard="tool_access"}"#.into(), 2.0),
        ],
        None,
    ))
}

fn a_server_at_work(agent: &Agent) -> Grown {
    let (peer, _) = session(agent, 1, 10)?;
    let growth =
        vec![(r#"mcpwarden_servers{transport="stdio"}"#.into(), 1.0), ("mcpwarden_sessions".into(), 1.0)];
    Ok((growth, Some(peer)))
}

fn poisoned_definitions(agent: &Agent) -> Grown {
    let mut driven = Driven::start(&[], &[places::program("poisoned-server").display().to_string()])?;
    driven.check(agent)?;
    let mut found: BTreeMap<String, f64> = BTreeMap::new();
    for event in agent.events().iter().filter(|event| is(event, "mcp_detection")) {
        let (category, severity) = (&event["detection"]["category"], &event["detection"]["severity"]);
        let name = format!("mcpwarden_detections_total{{category={category},severity={severity}}}");
        *found.entry(name).or_default() += 1.0;
    }
    ensure!(!found.is_empty(), "nothing was found");
    Ok((found.into_iter().collect(), None))
}

fn denied_connections(_: &Agent) -> Grown {
    for _ in 0..3 {
        let outcome = Way::Tcp.dial((Ipv4Addr::LOCALHOST, 1).into());
        ensure!(outcome == Outcome::Denied, "{outcome:?}");
    }
    Ok((
        vec![
            (r#"mcpwarden_connections_total{action="block",enforced="yes",kind="network"}"#.into(), 3.0),
            (r#"mcpwarden_connects_total{what="denied"}"#.into(), 3.0),
        ],
        None,
    ))
}

/// A burst while the agent is stopped, for which the ring is too small.
fn a_gap(agent: &Agent) -> Grown {
    let (mut peer, connection) = session(agent, 0, 0)?;
    agent.signal(Signal::SIGSTOP)?;
    let asked = (0..60).try_for_each(|id| peer.ask(&echo(id + 2, &"x".repeat(30_000))).map(drop));
    agent.signal(Signal::SIGCONT)?;
    asked?;
    for direction in ["c2s", "s2c"] {
        agent.wait_for(&format!("a gap {direction}"), |event| {
            is(event, "mcp_capture_gap") && event["direction"] == direction
        })?;
    }
    peer.close()?;
    await_exit(agent, connection)?;
    agent.settle();
    let mut gaps: BTreeMap<String, f64> = BTreeMap::new();
    for gap in agent.events().iter().filter(|event| is(event, "mcp_capture_gap")) {
        let (cause, direction) = (&gap["cause"], &gap["direction"]);
        let name =
            format!("mcpwarden_gap_bytes_total{{cause={cause},direction={direction},transport=\"stdio\"}}");
        *gaps.entry(name).or_default() += gap["bytes"].as_f64().context("a gap without bytes")?;
    }
    ensure!(gaps.values().sum::<f64>() > 100_000.0, "{gaps:?}");
    Ok((gaps.into_iter().collect(), None))
}

#[test]
fn counters_increase_with_each_scenario() -> Result<()> {
    let _alone = alone();
    let deny = "network: { deny: [\"127.0.0.1:1\"] }\nenforcement: { network: deny }\n";
    let scenarios = [
        Scenario { name: "calls and answers", config: declared(), act: calls_and_answers },
        Scenario {
            name: "a denied tool",
            config: declared() + "policy: { denied_tools: [{ tool: echo }] }\n",
            act: a_denied_tool,
        },
        Scenario { name: "a server at work", config: String::new(), act: a_server_at_work },
        Scenario { name: "poisoned definitions", config: String::new(), act: poisoned_definitions },
        Scenario { name: "denied connections", config: deny.into(), act: denied_connections },
        Scenario { name: "a gap", config: "capture: { ring_bytes: 524288 }\n".into(), act: a_gap },
    ];
    for scenario in scenarios {
        play(&scenario).with_context(|| scenario.name)?;
    }
    Ok(())
}

/// What is so without anything happening, and what a server with tools adds.
#[test]
fn gauges_reflect_the_current_state() -> Result<()> {
    const RING_BYTES: u64 = 524_288;
    let _alone = alone();
    let scrape = Scrape::free()?;
    let (_directory, config) =
        configured(&format!("capture: {{ ring_bytes: {RING_BYTES} }}\n{}", scrape.config()))?;
    let agent = Agent::start(&["--config", &config])?;
    scrape.await_answer("/readyz", 200, "ok")?;
    let before = scrape.numbers()?;
    let of = |name: &str| before.get(name).copied().with_context(|| format!("no {name}"));
    ensure!(of("mcpwarden_ring_bytes")? == RING_BYTES as f64, "{before:?}");
    ensure!(of("mcpwarden_ring_used_bytes")? <= RING_BYTES as f64, "{before:?}");
    let version = mcpwarden(&["--version"]).output()?.stdout;
    let version = String::from_utf8(version)?.trim().replace("mcpwarden ", "");
    ensure!(of(&format!("mcpwarden_build_info{{version=\"{version}\"}}"))? == 1.0, "{before:?}");
    let hashes: Vec<_> =
        before.iter().filter(|(name, _)| name.starts_with("mcpwarden_config_info{")).collect();
    ensure!(matches!(hashes[..], [(_, 1.0)]), "{hashes:?}");
    for (much, most) in [("queue_length", "queue_capacity"), ("map_entries", "map_capacity")] {
        let (much, most) = (format!("mcpwarden_{much}{{"), format!("mcpwarden_{most}{{"));
        let mut count = 0;
        for (name, number) in before.iter().filter(|(name, _)| name.starts_with(&much)) {
            let most = of(&name.replace(&much, &most))?;
            ensure!(most > 0.0 && *number <= most, "{name}: {number} of {most}");
            count += 1;
        }
        ensure!(count > 0, "no {much}");
    }

    let mut peer = Peer::start(Wiring::Pipes, &mut server("benign-server"))?;
    peer.ask(&initialize(1))?;
    let listed = peer.ask(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}))?;
    let tools = listed["result"]["tools"].as_array().context("no tools")?.len();
    scrape.await_growth(
        &before,
        &[
            (r#"mcpwarden_tools{transport="stdio"}"#.into(), tools as f64),
            (r#"mcpwarden_servers{transport="stdio"}"#.into(), 1.0),
        ],
    )?;
    let after = scrape.numbers()?;
    for name in ["mcpwarden_store_writes_total", "mcpwarden_store_write_seconds_total"] {
        ensure!(after.get(name).is_some_and(|number| *number > 0.0), "{name}: {:?}", after.get(name));
    }
    peer.close()?;
    agent.stop().map(drop)
}

fn play(scenario: &Scenario) -> Result<()> {
    let scrape = Scrape::free()?;
    let (_directory, config) = configured(&(scenario.config.clone() + &scrape.config()))?;
    let agent = Agent::start(&["--config", &config])?;
    scrape.await_answer("/readyz", 200, "ok")?;
    scrape.await_answer("/healthz", 200, "ok")?;
    let before = scrape.numbers()?;
    let (growth, living) = (scenario.act)(&agent)?;
    scrape.await_growth(&before, &growth)?;
    lint(scenario.name, &scrape.get("/metrics")?.body)?;
    let after = scrape.numbers()?;
    drop(living);
    let stopped = agent.stop()?;
    // What is counted with labels adds up to what is counted without.
    let sum = |metric: &str| -> f64 {
        let of = |name: &str| name.strip_prefix(metric).is_some_and(|rest| rest.starts_with('{'));
        after.iter().filter(|(name, _)| of(name)).map(|(_, number)| number).sum()
    };
    for (metric, counter) in
        [("mcpwarden_calls_total", "calls"), ("mcpwarden_detections_total", "detections")]
    {
        let counted = stopped["counters"][counter].as_f64();
        ensure!(counted == Some(sum(metric)), "{metric}: {} and {counted:?}", sum(metric));
    }
    all_are_shown(&stopped)
}

/// No counter of the agent's is without a metric.
fn all_are_shown(stopped: &Value) -> Result<()> {
    let docs = fs::read_to_string(places::sources().join("../docs/reference/metrics.md"))?;
    let counters = stopped["counters"].as_object().context("no counters")?;
    for name in counters.keys().filter(|name| !name.starts_with("program_")) {
        ensure!(docs.contains(&format!("`{name}`")), "no metric shows the counter {name}");
    }
    Ok(())
}

/// What Prometheus's own tool says of a page.
fn lint(name: &str, page: &str) -> Result<()> {
    let Some(promtool) = promtool(name) else { return Ok(()) };
    let mut child = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    child.stdin.take().context("no stdin")?.write_all(page.as_bytes())?;
    let said = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&said.stderr) + String::from_utf8_lossy(&said.stdout);
    ensure!(said.status.success() && text.trim().is_empty(), "promtool says {}: {text}", said.status);
    Ok(())
}

/// Alerts are raised when they should be, and the rules are such.
#[test]
fn alert_rules_are_valid_and_fire_as_expected() -> Result<()> {
    let Some(promtool) = promtool("alert_rules_are_valid_and_fire_as_expected") else { return Ok(()) };
    let directory = places::sources().join("../deploy/prometheus");
    for arguments in
        [["check", "rules", "mcpwarden.rules.yaml"], ["test", "rules", "mcpwarden.rules.test.yaml"]]
    {
        let said = Command::new(&promtool).args(arguments).current_dir(Path::new(&directory)).output()?;
        let text = String::from_utf8_lossy(&said.stdout) + String::from_utf8_lossy(&said.stderr);
        ensure!(said.status.success(), "{arguments:?}: {text}");
    }
    Ok(())
}

/// A name server that never answers holds the start up for some seconds, in which nothing is ready yet.
#[test]
fn starting_agent_is_not_ready() -> Result<()> {
    let _alone = alone();
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let scrape = Scrape::free()?;
    let (_directory, config) = configured(&format!(
        "network: {{ deny: [nowhere.example], resolver: {{ servers: [\"{}\"] }} }}\n{}",
        silent.local_addr()?,
        scrape.config()
    ))?;
    let watcher = thread::spawn(move || {
        wait_until("an address that listens", || scrape.get("/readyz").is_ok())?;
        scrape.await_answer("/readyz", 503, "not attached yet")?;
        scrape.await_answer("/healthz", 503, "not attached yet")?;
        scrape.await_answer("/readyz", 200, "ok")
    });
    let agent = Agent::start(&["--config", &config])?;
    watcher.join().map_err(|_| anyhow::anyhow!("the watcher panicked"))??;
    agent.stop()?;
    ensure!(scrape.get("/readyz").is_err(), "somebody listens after the end");
    Ok(())
}

/// An agent whose main thread does not run drains the ring no more, and its health says so until it does. What goes by meanwhile is reported then.
#[test]
fn stalled_agent_is_reported_unhealthy() -> Result<()> {
    let _alone = alone();
    let scrape = Scrape::free()?;
    let (_directory, config) = configured(&scrape.config())?;
    let agent = Agent::start(&["--config", &config])?;
    let (mut peer, connection) = session(&agent, 1, 10)?;
    let main = Pid::from_raw(agent.pid().try_into()?);
    ptrace::seize(main, ptrace::Options::empty())?;
    ptrace::interrupt(main)?;
    waitpid(main, Some(WaitPidFlag::__WALL))?;
    peer.ask(&echo(100, "x"))?;
    scrape.await_answer("/healthz", 503, "the ring was last drained")?;
    scrape.await_answer("/readyz", 200, "ok")?;
    ensure!(scrape.numbers()?["mcpwarden_ring_drain_age_seconds"] > 5.0, "and the number says so, too");
    ptrace::detach(main, None)?;
    scrape.await_answer("/healthz", 200, "ok")?;
    agent.wait_for("the call", |event| is(event, "mcp_tool_called") && event["jsonrpc_id"] == 100)?;
    peer.close()?;
    await_exit(&agent, connection)?;
    agent.stop()?;
    Ok(())
}

/// A database that cannot be opened at the start, and can be later.
#[test]
fn agent_without_usable_store_is_unhealthy() -> Result<()> {
    let _alone = alone();
    let scrape = Scrape::free()?;
    let (directory, config) = configured(&scrape.config())?;
    let database = directory.path().join("mcpwarden.db");
    fs::create_dir(&database)?;
    let agent = Agent::start_with_state(directory.path(), &["--config", &config])?;
    scrape.await_answer("/healthz", 503, "events cannot be stored: ")?;
    scrape.await_answer("/readyz", 200, "ok")?;
    let before = scrape.numbers()?;
    ensure!(before["mcpwarden_store_writable"] == 0.0, "the number says so, too");
    let status = agent.tell(&["status"])?;
    status.expect("status", 1, "cannot be stored")?;
    fs::remove_dir(&database)?;
    scrape.await_answer("/healthz", 200, "ok")?;
    scrape.await_growth(&before, &[("mcpwarden_store_writable".to_owned(), 1.0)])?;
    agent.wait_for("that events are stored", |event| is(event, "mcp_store_recovered"))?;
    let numbers = scrape.numbers()?;
    ensure!(numbers["mcpwarden_store_bytes"] > 4096.0, "{:?}", numbers["mcpwarden_store_bytes"]);
    agent.stop()?;
    Ok(())
}

/// An address that is taken, and none.
#[test]
fn unavailable_metrics_do_not_end_the_agent() -> Result<()> {
    let _alone = alone();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let cases = [
        (format!("metrics: {{ listen: \"{}\" }}\n", taken.local_addr()?), 1),
        ("metrics: { listen: null }\n".to_owned(), 0),
    ];
    for (config, warnings) in cases {
        let (_directory, path) = configured(&config)?;
        let agent = Agent::start(&["--config", &path])?;
        let (mut peer, connection) = session(&agent, 1, 10)?;
        peer.close()?;
        await_exit(&agent, connection)?;
        let said = agent.stderr();
        let lines = said.lines().filter(|line| line.contains("metrics")).count();
        ensure!(lines == warnings, "{config}: {said}");
        agent.stop()?;
    }
    Ok(())
}

/// Whoever asks slowly, at length or often, keeps nobody else from asking, and the agent from nothing.
#[test]
fn hostile_scrapers_do_not_block_others() -> Result<()> {
    let _alone = alone();
    let scrape = Scrape::free()?;
    let (_directory, config) = configured(&(declared() + &scrape.config()))?;
    let agent = Agent::start(&["--config", &config])?;
    let before = scrape.numbers()?;
    let mut slow = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(scrape.address)?;
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nx-slow: ");
        slow.push(stream);
    }
    for _ in 0..20 {
        let mut stream = TcpStream::connect(scrape.address)?;
        let _ = stream.write_all(&[b"GET / HTTP/1.1\r\nx-long: ".as_slice(), &[b'a'; 64 << 10]].concat());
    }
    let (mut peer, connection) = session(&agent, 50, 1_000)?;
    for _ in 0..50 {
        scrape.await_answer("/healthz", 200, "ok")?;
    }
    peer.close()?;
    let exited = await_exit(&agent, connection)?;
    ensure!(exited["calls"] == 50 && exited["gap_bytes"] == 0, "{exited}");
    agent.wait_for("that it is said", |event| {
        is(event, "agent_loss") && event["counter"] == "metrics_pushed_out"
    })?;
    let calls = (r#"mcpwarden_calls_total{action="allow",server="echo"}"#.to_owned(), 50.0);
    scrape.await_growth(&before, &[calls])?;
    let numbers = scrape.numbers()?;
    let refused = |why: &str| numbers[&format!("mcpwarden_metrics_refused_total{{why=\"{why}\"}}")];
    ensure!(refused("pushed_out") >= 136.0, "{}", refused("pushed_out"));
    ensure!(refused("unusable") >= 20.0, "{}", refused("unusable"));
    drop(slow);
    agent.stop()?;
    Ok(())
}

/// The address that is used where nothing is configured is reached from this host alone.
#[test]
fn default_metrics_address_is_loopback_only() -> Result<()> {
    let (_directory, path) = configured("")?;
    let said = mcpwarden_tests::command::ask(&["check-config", "--effective", &path])?;
    said.expect("the default", 0, "listen: 127.0.0.1:9464")
}
