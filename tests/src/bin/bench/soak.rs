//! The agent for a long time: everything that happens is said once, and it takes no more memory at the end than before.
//!
//! Load: a server that is asked 1,000 times a second and answers, servers that come and go, 200 connections a second to a
//! declared server, a reload every minute, and a webhook that refuses half of the time.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::places;
use mcpwarden_tests::webhook::Receiver;
use nix::sys::signal::Signal;
use serde::Deserialize;
use serde_json::Value;

use crate::agent::{Agent, Sink};
use crate::report::{heading, quantile};
use crate::workload::{HELLO, call};

/// Calls a second; each has an answer, so that there are twice as many frames.
const CALLS: u64 = 1_000;
const CONNECTIONS: u64 = 200;
/// How often a server comes, how many calls it gets before it goes, and the first of their ids.
const VISIT_EVERY: Duration = Duration::from_secs(2);
const VISIT_CALLS: u64 = 5;
const VISIT_IDS: u64 = 1_000_000_000;
/// What the webhook gets.
const CONNECTION: &str = "mcp_network_connection";
const RELOAD_EVERY: Duration = Duration::from_secs(60);
/// How long the webhook takes what it gets, and then refuses it.
const WEBHOOK_TURN: Duration = Duration::from_secs(15);
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// Until then caches fill.
const WARM_UP: Duration = Duration::from_secs(150);
/// What must hold: largest resident size beside the ring (60 MB), and how much it may differ between the thirds of the run after
/// that. The first reloads each add a little: in a run of less than half an hour they are most of a third.
const MAX_MIB: f64 = if cfg!(debug_assertions) { MAX_MIB_CHECKED } else { 57.2 };
/// The same of a build that is not optimised: its code takes several times as many pages.
const MAX_MIB_CHECKED: f64 = 120.0;
const MAX_DRIFT: f64 = 0.05;
const MAX_DRIFT_EARLY: f64 = 0.10;
const EARLY_SECONDS: u64 = 1_800;
/// How much of the load must have been, in percent: less of it is another test.
const LEAST_LOAD: u64 = 80;

/// An event, as far as it is counted.
#[derive(Deserialize)]
struct Line {
    r#type: String,
    seq: u64,
    server_id: Option<String>,
    jsonrpc_id: Option<Value>,
    /// How many events it stands for, where it is more than one.
    repeats: Option<u64>,
    counter: Option<String>,
    #[serde(default)]
    counters: BTreeMap<String, u64>,
}

/// What the agent said.
#[derive(Default)]
struct Observed {
    /// How many of each type, however many one event stands for.
    types: BTreeMap<String, u64>,
    /// How often each call, and each answer, was said.
    calls: HashMap<u64, u32>,
    results: HashMap<u64, u32>,
    last: u64,
    /// Events whose number is not that after the one before.
    out_of_order: u64,
    counters: BTreeMap<String, u64>,
    /// The first events of what should not be.
    losses: Vec<String>,
    lost: u64,
}

/// The id that servers of this program get, and that of the declared one.
const OWN: &str = "bench";
const DECLARED: &str = "crm";
/// Events of what should not be.
const LOSSES: [&str; 2] = ["mcp_capture_gap", "agent_loss"];
/// How many of them are shown.
const SHOWN: usize = 5;

impl Observed {
    fn take(&mut self, text: &str) -> Result<()> {
        let line: Line = serde_json::from_str(text).with_context(|| text.to_owned())?;
        // That the webhook refuses is meant.
        if LOSSES.contains(&&*line.r#type) && line.counter.as_deref() != Some("sinks_failures") {
            self.lost += 1;
            if self.losses.len() < SHOWN {
                self.losses.push(text.trim_end().to_owned());
            }
        }
        self.out_of_order += u64::from(line.seq != self.last + 1);
        self.last = line.seq;
        if line.server_id.is_some_and(|id| id != OWN && id != DECLARED) {
            // Somebody else's, on the same host.
            return Ok(());
        }
        if let Some(id) = line.jsonrpc_id.and_then(|id| id.as_u64()) {
            match line.r#type.as_str() {
                "mcp_tool_called" => *self.calls.entry(id).or_default() += 1,
                "mcp_tool_result" => *self.results.entry(id).or_default() += 1,
                _ => {}
            }
        }
        if line.r#type == "agent_stopped" {
            self.counters = line.counters;
        }
        *self.types.entry(line.r#type).or_default() += line.repeats.unwrap_or(1);
        Ok(())
    }

    fn of(&self, kind: &str) -> u64 {
        self.types.get(kind).copied().unwrap_or(0)
    }
}

/// A server that answers, and whoever reads its answers.
struct Asked {
    child: Child,
    to: ChildStdin,
    reader: JoinHandle<u64>,
}

impl Asked {
    fn start() -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child =
            command.args(["peer", "answer"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut to = child.stdin.take().context("no stdin")?;
        let from = child.stdout.take().context("no stdout")?;
        let reader = thread::spawn(move || BufReader::new(from).lines().map_while(Result::ok).count() as u64);
        to.write_all(HELLO)?;
        Ok(Self { child, to, reader })
    }

    /// Ends it; how often it answered, after the first time.
    fn end(self) -> Result<u64> {
        let Self { mut child, to, reader } = self;
        drop(to);
        child.wait()?;
        let answers = reader.join().map_err(|_| anyhow::anyhow!("a reader panicked"))?;
        Ok(answers.saturating_sub(1))
    }
}

/// What happens at a rate, until `end`. How often it did.
fn paced(rate: u64, end: Instant, mut body: impl FnMut(u64) -> Result<()>) -> Result<u64> {
    let (start, mut done) = (Instant::now(), 0);
    while Instant::now() < end {
        done += 1;
        body(done)?;
        let due = Duration::from_nanos(done * 1_000_000_000 / rate);
        if let Some(ahead) = due.checked_sub(start.elapsed()) {
            thread::sleep(ahead);
        }
    }
    Ok(done)
}

fn talk(end: Instant) -> Result<u64> {
    let mut server = Asked::start()?;
    let calls = paced(CALLS / 10, end, |tens| {
        let calls: Vec<u8> = (1..=10).flat_map(|one| call((tens - 1) * 10 + one)).collect();
        Ok(server.to.write_all(&calls)?)
    })? * 10;
    ensure!(server.end()? == calls, "the server did not answer all");
    Ok(calls)
}

fn visits(end: Instant) -> Result<u64> {
    let mut calls = 0;
    while Instant::now() < end {
        let mut server = Asked::start()?;
        for _ in 0..VISIT_CALLS {
            calls += 1;
            server.to.write_all(&call(VISIT_IDS + calls))?;
        }
        ensure!(server.end()? == VISIT_CALLS, "a visitor did not answer all");
        thread::sleep(VISIT_EVERY);
    }
    Ok(calls)
}

fn connect(to: SocketAddr, end: Instant) -> Result<u64> {
    paced(CONNECTIONS, end, |_| {
        TcpStream::connect(to)?;
        Ok(())
    })
}

/// Accepts, and closes first: else the ports of those that connect would be in use for a minute.
fn accept(listener: TcpListener) {
    thread::spawn(move || listener.incoming().for_each(drop));
}

fn joined<T>(thread: JoinHandle<Result<T>>) -> Result<T> {
    thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?
}

/// Runs it for so long; an error says what does not hold.
pub fn soak(seconds: u64) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let (declared, hook) = (listener.local_addr()?, Receiver::dead()?);
    accept(listener);
    let config = directory.path().join("config.yaml");
    fs::write(
        &config,
        format!(
            "servers: [{{ id: {DECLARED}, type: http, url: \"http://{declared}/\" }}]\n\
             discovery: {{ list_declared: false }}\nmetrics: {{ listen: null }}\n\
             sinks: [{{ kind: webhook, url: \"{}\", filter: {{ types: [{CONNECTION}] }} }}]\n",
            hook.url("events")
        ),
    )?;
    hook.live()?;
    let mut agent = Agent::start(&["--config", &config.display().to_string()], Sink::Pipe)?;
    let mut lines = agent.lines().context("no output")?;
    let so_far = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&so_far);
    let reader = thread::spawn(move || -> Result<Observed> {
        // The first was read when it started.
        let (mut said, mut line) = (Observed { last: 1, ..Observed::default() }, String::new());
        while lines.read_line(&mut line)? > 0 {
            said.take(&line)?;
            seen.store(said.last, Ordering::Relaxed);
            line.clear();
        }
        Ok(said)
    });
    let (start, end) = (Instant::now(), Instant::now() + Duration::from_secs(seconds));
    let load = [
        thread::spawn(move || talk(end)),
        thread::spawn(move || visits(end)),
        thread::spawn(move || connect(declared, end)),
    ];
    let cpu = agent.cpu_seconds()?;
    let (mut resident, mut reloads) = (Vec::new(), 0);
    while Instant::now() < end {
        thread::sleep(SAMPLE_EVERY);
        let age = start.elapsed();
        resident.push(agent.resident_mib()?);
        let turn = age.as_secs() / WEBHOOK_TURN.as_secs();
        hook.answer(if turn.is_multiple_of(2) { 200 } else { 503 });
        if age >= RELOAD_EVERY * (reloads + 1) && age.as_secs() + 5 < seconds {
            reloads += 1;
            agent.signal(Signal::SIGHUP)?;
        }
        if resident.len() % 30 == 0 {
            let events = so_far.load(Ordering::Relaxed);
            let (age, size) = (age.as_secs(), resident.last().copied().unwrap_or_default());
            eprintln!("{age} of {seconds} s: {events} events, {size:.1} MiB …");
        }
    }
    let [calls, visits, connections] = load.map(joined);
    let (calls, visits, connections) = (calls?, visits?, connections?);
    for (what, done, rate) in [("calls", calls, CALLS), ("connections", connections, CONNECTIONS)] {
        let aim = rate * seconds;
        ensure!(
            done * 100 >= aim * LEAST_LOAD,
            "{done} {what} are not the load of {aim}: this machine is too slow, or was held up"
        );
    }
    let (used, took) = (agent.cpu_seconds()? - cpu, start.elapsed().as_secs_f64());
    hook.answer(200);
    let posted = posted(&hook, connections)?;
    // What is still on its way out.
    thread::sleep(Duration::from_secs(2));
    let state = agent.stop()?;
    let said = joined(reader)?;
    let verdict = verify(&state.path().join("state").join("mcpwarden.db"))?;

    let samples = usize::try_from(WARM_UP.as_secs() / SAMPLE_EVERY.as_secs())?;
    let warm = resident
        .get(samples..)
        .filter(|warm| warm.len() >= 3)
        .context("it takes longer than 150 s to warm up")?;
    let medians: Vec<f64> = warm.chunks(warm.len().div_ceil(3)).map(|part| quantile(part, 0.5)).collect();
    let (least, most) = (quantile(&medians, 0.0), quantile(&medians, 1.0));
    heading(&format!("{seconds} s"));
    println!("  {:<44} {:>10} {:>10}", "", "happened", "said");
    let mut wrong = Vec::new();
    let mut row = |what: &str, happened: u64, found: u64| {
        println!("  {what:<44} {happened:>10} {found:>10}");
        if happened != found {
            wrong.push(format!("{what}: {happened} happened, {found} are said"));
        }
    };
    let once = |all: &HashMap<u64, u32>| all.values().filter(|count| **count == 1).count() as u64;
    row("calls, each once", calls + visits, once(&said.calls));
    row("calls, all events", calls + visits, said.of("mcp_tool_called"));
    row("answers, each once", calls + visits, once(&said.results));
    row("answers, all events", calls + visits, said.of("mcp_tool_result"));
    row("servers that came and went", 1 + visits / VISIT_CALLS, said.of("mcp_server_exited"));
    row("connections", connections, said.of(CONNECTION));
    row("connections, posted", connections, posted);
    row("reloads", u64::from(reloads), said.of("agent_config_reloaded"));
    // Retention removes the oldest, and leaves a signed word of them.
    let [there, removed] = ["events", "removed_until"].map(|key| verdict[key].as_u64().unwrap_or(0));
    row("events, stored in one chain", said.last, there + removed);
    row("events out of order", 0, said.out_of_order);
    row("gaps and losses", 0, said.lost);
    for name in ["store_events_lost", "ring_full_records"] {
        row(name, 0, said.counters.get(name).copied().unwrap_or(0));
    }
    said.losses.iter().for_each(|event| println!("  {event}"));
    let drift = most / least - 1.0;
    let peak = quantile(&resident, 1.0);
    println!(
        "  resident beside the ring: {least:.1} to {most:.1} MiB (medians of thirds, once caches are filled: {:.1} % apart), at most {peak:.1}",
        drift * 100.0
    );
    println!("  {:.2} processors, {:.0} events a second", used / took, said.last as f64 / took);
    if verdict["intact"] != true {
        wrong.push(format!("the chain does not hold: {verdict}"));
    }
    // Also where one of them is no number.
    let most_drift = if seconds < EARLY_SECONDS { MAX_DRIFT_EARLY } else { MAX_DRIFT };
    if !(drift <= most_drift && peak <= MAX_MIB) {
        wrong.push(format!("memory: {drift:.3} of {most_drift} apart, {peak:.1} of {MAX_MIB} MiB"));
    }
    ensure!(wrong.is_empty(), "this does not hold: {}", wrong.join("; "));
    println!("  all of it holds");
    Ok(())
}

/// How many connections the events that the webhook took stand for, once there are so many or there is no more to come.
fn posted(hook: &Receiver, expected: u64) -> Result<u64> {
    let end = Instant::now() + Duration::from_secs(120);
    // How far the chain has come is sent to everybody.
    let is_connection = |event: &Value| event["type"] == CONNECTION;
    let one = |event: Value| Some((event["seq"].as_u64()?, event["repeats"].as_u64().unwrap_or(1)));
    loop {
        let taken = hook.posts().into_iter().filter(|post| post.status == 200);
        let mut numbers: Vec<(u64, u64)> =
            taken.flat_map(|post| post.events).filter(is_connection).filter_map(one).collect();
        let all = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        ensure!(numbers.len() == all, "{} events were taken twice", all - numbers.len());
        let connections = numbers.iter().map(|(_, repeats)| repeats).sum();
        if connections >= expected || Instant::now() >= end {
            return Ok(connections);
        }
        thread::sleep(Duration::from_secs(1));
    }
}

fn verify(database: &std::path::Path) -> Result<Value> {
    let mut command = Command::new(places::agent());
    let said = command.args(["audit", "verify", "--json", "--path"]).arg(database).output()?;
    serde_json::from_slice(&said.stdout).with_context(|| String::from_utf8_lossy(&said.stderr).into_owned())
}
