//! Benchmarks of the agent and its kernel half: what watching costs, as ratios of loaded to unloaded in the same run.
//!
//! `cargo xtask bench kernel` builds this and runs it as root. Every ratio is the median of interleaved rounds,
//! with its 95 % confidence interval; nothing here passes or fails.

mod agent;
mod connect;
mod gate;
mod lag;
mod network;
mod peer;
mod report;
mod soak;
mod store;
mod workload;

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, Subcommand};

/// Measures what watching costs.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: What,
}

#[derive(Subcommand)]
enum What {
    /// The kernel half: ratios, throughput, latency, memory, nanoseconds per program
    Kernel {
        /// Interleaved rounds of each ratio
        #[arg(long, default_value_t = 9)]
        rounds: usize,
        /// Seconds of the throughput run
        #[arg(long, default_value_t = 30)]
        seconds: u64,
        /// Frames a second of the throughput run
        #[arg(long, default_value_t = 100_000)]
        rate: u64,
    },
    /// Connections: ratios, nanoseconds per program
    Network {
        /// Interleaved rounds of each ratio
        #[arg(long, default_value_t = 9)]
        rounds: usize,
    },
    /// Calls that are judged: ratios
    Gate {
        /// Interleaved rounds of each ratio
        #[arg(long, default_value_t = 15)]
        rounds: usize,
        /// Measurements of each in a round
        #[arg(long, default_value_t = 1)]
        repeat: usize,
    },
    /// How soon the gate goes by what only the agent can know
    Lag {
        /// Servers that begin one after the other
        #[arg(long, default_value_t = 100)]
        servers: usize,
    },
    /// What it takes to find something among many stored events
    Store {
        /// How many
        #[arg(long, default_value_t = 5_000_000)]
        events: u64,
        /// How often each question is asked
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// A long time under load: whether everything is said once, and memory stays what it is. Fails where that is not so
    Soak {
        /// How long; an hour, unless it is to be short
        #[arg(long, default_value_t = 3_600)]
        seconds: u64,
    },
    /// One measurement in a process of its own
    #[command(hide = true)]
    Workload {
        name: workload::Workload,
        count: u64,
        rate: u64,
        #[arg(default_value = "wall")]
        time: workload::Time,
        #[arg(long)]
        judged: bool,
    },
    /// The other end of a measurement
    #[command(hide = true)]
    Peer { kind: peer::Kind },
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        What::Kernel { rounds, seconds, rate } => kernel(rounds, seconds, rate),
        What::Network { rounds } => network::network(rounds),
        What::Gate { rounds, repeat } => gate::gate(rounds, repeat),
        What::Lag { servers } => lag::lag(servers),
        What::Store { events, rounds } => store::store(events, rounds),
        What::Soak { seconds } => soak::soak(seconds),
        What::Workload { name, count, rate, time, judged } => {
            workload::run(name, count, rate, time, judged).map(|nanos| println!("{nanos}"))
        }
        What::Peer { kind } => peer::run(kind),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a workload in a fresh process, so that nothing watched before is watched still. Nanoseconds an operation.
fn measure(workload: workload::Workload, count: u64) -> Result<f64> {
    measure_time(workload, count, workload::Time::Wall, false)
}

/// The same, of this time; with `judged`, once the gate judges its calls.
fn measure_time(workload: workload::Workload, count: u64, time: workload::Time, judged: bool) -> Result<f64> {
    let program = std::env::current_exe().context("no path of this program")?;
    let output = Command::new(program)
        .args(["workload", workload.name(), &count.to_string(), "0", time.name()])
        .args(judged.then_some("--judged"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start a workload")?;
    ensure!(output.status.success(), "the workload {} failed", workload.name());
    String::from_utf8_lossy(&output.stdout).trim().parse().context("a workload that prints no number")
}

fn kernel(rounds: usize, seconds: u64, rate: u64) -> Result<()> {
    report::heading("cost of watching: loaded / unloaded, 200-byte messages, one processor");
    let plan = workload::ratios();
    let mut unloaded = vec![Vec::new(); plan.len()];
    let mut loaded = vec![Vec::new(); plan.len()];
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds} …");
        for (slot, (workload, count, _)) in plan.iter().enumerate() {
            unloaded[slot].push(measure(*workload, *count)?);
        }
        let agent = agent::Agent::start(&[], agent::Sink::Nowhere)?;
        for (slot, (workload, count, _)) in plan.iter().enumerate() {
            loaded[slot].push(measure(*workload, *count)?);
        }
        agent.stop()?;
    }
    for (slot, (workload, _, target)) in plan.iter().enumerate() {
        report::ratio(workload.name(), &unloaded[slot], &loaded[slot], *target);
    }

    report::heading("from the client's write to the event");
    report::latency(&agent::latencies(5_000)?);

    report::heading(&format!("{rate} frames a second for {seconds} s, one write a frame, events to a file"));
    agent::throughput(seconds, rate)?;

    report::heading("memory with 50 servers watched");
    agent::memory(50)?;
    Ok(())
}
