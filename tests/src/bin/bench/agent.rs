//! The agent under load: latency, throughput, memory, and what its programs cost.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail, ensure};
use mcpwarden_tests::patience::patience;
use mcpwarden_tests::places;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::workload::Workload;

/// Where events go.
pub enum Sink {
    /// To /dev/null.
    Nowhere,
    /// To `events.jsonl` in the agent's directory.
    File,
    /// To [`Agent::lines`].
    Pipe,
}

/// A running agent.
pub struct Agent {
    child: Child,
    directory: TempDir,
    lines: Option<BufReader<std::process::ChildStdout>>,
}

impl Agent {
    /// Starts it and waits until it is attached.
    pub fn start(args: &[&str], sink: Sink) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("mcpwarden-bench-").tempdir()?;
        let mut command = Command::new(places::agent());
        command.args(["run", "--output", "json"]).args(args);
        command.arg("--runtime-dir").arg(directory.path().join("run"));
        command.arg("--state-dir").arg(directory.path().join("state"));
        let events = directory.path().join("events.jsonl");
        command.stdin(Stdio::null());
        match sink {
            Sink::Pipe => command.stdout(Stdio::piped()),
            Sink::File | Sink::Nowhere => command.stdout(File::create(&events)?),
        };
        let mut child = command.spawn().context("cannot start the agent")?;
        let mut lines = child.stdout.take().map(BufReader::new);
        if let Some(lines) = &mut lines {
            let mut first = String::new();
            lines.read_line(&mut first)?;
            ensure!(first.contains("agent_started"), "the agent did not start: {first}");
        } else {
            let deadline = Instant::now() + patience(Duration::from_secs(20));
            while !fs::read_to_string(&events)?.contains("agent_started") {
                ensure!(Instant::now() < deadline, "the agent did not start in time");
                ensure!(child.try_wait()?.is_none(), "the agent did not start");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(Self { child, directory, lines })
    }

    /// Stops it and returns its events, where they are in a file.
    pub fn stop(mut self) -> Result<TempDir> {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "the agent ended with {status}");
        Ok(self.directory)
    }

    /// Its events, of an agent with a pipe; once.
    pub fn lines(&mut self) -> Option<BufReader<std::process::ChildStdout>> {
        self.lines.take()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(Pid::from_raw(self.child.id() as i32), signal)?)
    }

    /// Resident memory beside the ring, in MiB.
    pub fn resident_mib(&self) -> Result<f64> {
        Ok(self.status_kib("VmRSS")?.saturating_sub(self.ring_kib()?) as f64 / 1024.0)
    }

    /// User and system time used so far, in seconds.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok());
        let (Some(user), Some(system)) = (ticks(11), ticks(12)) else { bail!("unreadable {stat}") };
        Ok((user + system) / 100.0)
    }

    /// Resident size of the ring's mappings.
    fn ring_kib(&self) -> Result<u64> {
        let maps = fs::read_to_string(format!("/proc/{}/smaps", self.child.id()))?;
        let (mut total, mut in_ring) = (0, false);
        for line in maps.lines() {
            if let Some(size) = line.strip_prefix("Rss:") {
                if in_ring {
                    total += size.split_whitespace().next().unwrap_or("0").parse::<u64>()?;
                }
            } else if line.split(' ').next().is_some_and(|range| range.contains('-')) {
                in_ring = line.ends_with("bpf-map");
            }
        }
        Ok(total)
    }

    fn status_kib(&self, name: &str) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let text = line.and_then(|line| line.split_whitespace().next()).context("no such line in status")?;
        Ok(text.parse()?)
    }
}

fn workload(workload: Workload, count: u64, rate: u64) -> Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(["workload", workload.name(), &count.to_string(), &rate.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .context("cannot start a workload")
}

/// Milliseconds from the kernel's time stamp of a call to the moment at which its event is read, for `count` calls
/// at 500 a second.
pub fn latencies(count: u64) -> Result<Vec<f64>> {
    let mut agent = Agent::start(&[], Sink::Pipe)?;
    let mut calls = workload(Workload::Paced, count, 500)?;
    let mut lines = agent.lines.take().context("no output")?;
    let mut found = Vec::new();
    let mut line = String::new();
    while (found.len() as u64) < count {
        line.clear();
        ensure!(lines.read_line(&mut line)? > 0, "the agent's output ended");
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
        let event: Value = serde_json::from_str(&line)?;
        if event["type"] == "mcp_tool_called" {
            found.push(
                now.saturating_sub(nanos(event["timestamp"].as_str().unwrap_or_default())?) as f64 / 1e6,
            );
        }
    }
    calls.wait()?;
    agent.stop()?;
    Ok(found)
}

/// `2026-01-06T10:30:00.000000001Z` as nanoseconds since the epoch.
fn nanos(text: &str) -> Result<u128> {
    let mut parts = text.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    let mut next = || -> Result<i64> { Ok(parts.next().context("a short time stamp")?.parse()?) };
    let (year, month, day) = (next()?, next()?, next()?);
    let (hour, minute, second, fraction) = (next()?, next()?, next()?, next()?);
    // Days since the epoch of a Gregorian date: counted from March, so that the leap day comes last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    Ok(seconds as u128 * 1_000_000_000 + fraction as u128)
}

/// Calls at a fixed rate with events to a file: nothing may be lost, and the agent may use one processor at most.
pub fn throughput(seconds: u64, rate: u64) -> Result<()> {
    let stats = BpfStats::enable();
    let agent = Agent::start(&[], Sink::File)?;
    let (cpu, start) = (agent.cpu_seconds()?, Instant::now());
    let status = workload(Workload::Paced, seconds * rate, rate)?.wait()?;
    ensure!(status.success(), "the workload failed");
    let took = start.elapsed().as_secs_f64();
    let used = agent.cpu_seconds()? - cpu;
    // Whatever is still on its way.
    std::thread::sleep(Duration::from_millis(500));
    let resident = agent.status_kib("VmHWM")?;
    let directory = agent.stop()?;
    drop(stats);
    let (mut calls, mut gaps, mut stopped) = (0_u64, 0_u64, Value::Null);
    for line in BufReader::new(File::open(directory.path().join("events.jsonl"))?).lines() {
        let line = line?;
        if line.starts_with(r#"{"type":"mcp_tool_called""#) {
            calls += 1;
        } else if line.starts_with(r#"{"type":"mcp_capture_gap""#) {
            gaps += 1;
        } else if line.starts_with(r#"{"type":"agent_stopped""#) {
            stopped = serde_json::from_str(&line)?;
        }
    }
    let sent = seconds * rate;
    println!(
        "  sent {sent} in {took:.1} s ({:.0} a second), reported {calls}, gaps {gaps}",
        sent as f64 / took
    );
    // Of other programs on this host that began like servers, too: what is missing of the measured one is a gap.
    println!("  not captured on the whole host: {} bytes", stopped["counters"]["capture_missing_bytes"]);
    println!(
        "  agent: {:.2} processors ({:.2} µs a frame), peak memory {} MiB with the ring",
        used / took,
        used * 1e6 / sent as f64,
        resident / 1024
    );
    println!("  programs, from the kernel's statistics:");
    programs(&directory)
}

/// Prints what each program cost a run, and the verifier, by the last event of an agent that wrote to a file.
pub fn programs(directory: &TempDir) -> Result<()> {
    let events = fs::read_to_string(directory.path().join("events.jsonl"))?;
    let stopped: Value = serde_json::from_str(events.lines().last().context("no events")?)?;
    for (name, runs) in stopped["counters"].as_object().context("no counters")? {
        let Some(program) = name.strip_prefix("program_runs_") else { continue };
        let nanos = stopped["counters"][format!("program_ns_{program}")].as_u64().unwrap_or(0);
        let steps = stopped["counters"][format!("program_verified_{program}")].as_u64().unwrap_or(0);
        let runs = runs.as_u64().unwrap_or(0);
        if runs > 0 {
            let each = nanos as f64 / runs as f64;
            println!(
                "    {program:<24} {each:>6.0} ns a run, {runs:>7} runs, {steps:>7} instructions verified"
            );
        }
    }
    Ok(())
}

/// Memory of the agent while `servers` servers are watched.
pub fn memory(servers: usize) -> Result<()> {
    let agent = Agent::start(&[], Sink::Nowhere)?;
    let mut children = Vec::new();
    for _ in 0..servers {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["peer", "echo"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        if let Some(stdin) = &mut child.stdin {
            use std::io::Write as _;
            stdin.write_all(crate::workload::HELLO)?;
            for id in 1..=100 {
                stdin.write_all(&crate::workload::call(id))?;
            }
        }
        children.push(child);
    }
    std::thread::sleep(Duration::from_secs(2));
    let (resident, ring) = (agent.status_kib("VmRSS")?, agent.ring_kib()?);
    println!(
        "  {:.1} MiB resident beside the ring (anonymous {:.1}, the rest is the program file), and the ring: {:.1} MiB mapped of 32 MiB, twice   target 40 MB",
        (resident - ring) as f64 / 1024.0,
        agent.status_kib("RssAnon")? as f64 / 1024.0,
        ring as f64 / 1024.0,
    );
    for mut child in children {
        drop(child.stdin.take());
        child.wait()?;
    }
    agent.stop()?;
    Ok(())
}

/// The kernel's statistics of programs, switched on while this lives.
pub struct BpfStats {
    before: Option<String>,
}

const BPF_STATS: &str = "/proc/sys/kernel/bpf_stats_enabled";

impl BpfStats {
    /// Switches them on.
    pub fn enable() -> Self {
        let before = fs::read_to_string(BPF_STATS).ok();
        // Where it cannot be switched on the report has no such lines.
        let _ = fs::write(BPF_STATS, "1");
        Self { before }
    }
}

impl Drop for BpfStats {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = fs::write(BPF_STATS, before);
        }
    }
}
