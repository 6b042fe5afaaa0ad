//! What is measured each second, for metrics: one function for each part that is measured.

use std::collections::BTreeMap;

use mcpwarden_kernel::{Backend, Kernel, requirements};
use mcpwarden_policy::{Engine, Traffic, event::ServerType};

use super::{guards::Guards, reload::Reload, reporter::Reporter, ring::Usage};
use crate::{
    config::Config,
    host::clock::Clock,
    metrics::{Sample, observe::transport, table},
};

fn sample(name: &'static str, labels: &[&str], value: u64) -> Sample {
    Sample::new(name, labels, value as f64)
}

/// What changes with the configuration alone: the agent, its configuration, the kernel, and how many blind spots there are.
pub fn of_identity(config: &Config, backend: Backend, blind_spots: u64) -> [Sample; 5] {
    let hash = crate::config::hash(config);
    [
        sample(table::BUILD, &[env!("CARGO_PKG_VERSION")], 1),
        sample(table::CONFIG, &[&hash], 1),
        sample(table::SCORER, &[&crate::config::scorer_id(config)], 1),
        sample(table::KERNEL, &[&requirements::release(), backend.name()], 1),
        sample(table::BLIND_SPOTS, &[], blind_spots),
    ]
}

/// Of reloads of the configuration.
pub fn of_reload(reload: &Reload, clock: &Clock) -> [Sample; 2] {
    [
        sample(table::RELOADED, &[], u64::from(reload.succeeded())),
        sample(table::RELOADED_AT, &[], clock.printed(reload.at()).0 / 1_000_000_000),
    ]
}

/// Of the wall clock.
pub fn of_clock(clock: &Clock) -> Sample {
    Sample::new(table::CLOCK_MOVED, &[], clock.moved_ns() as f64 / 1e9)
}

/// Of the ring and its queue: their sizes, what is in them, and how late the agent is.
pub fn of_ring(usage: &Usage) -> [Sample; 5] {
    [
        sample(table::RING_BYTES, &[], usage.ring_bytes),
        sample(table::RING_USED, &[], usage.most_used),
        sample(table::QUEUE_BYTES, &[], usage.queue_bytes),
        sample(table::QUEUE_BYTES_CAPACITY, &[], usage.queue_capacity),
        Sample::new(table::LAG, &[], usage.most_lag_ns as f64 / 1e9),
    ]
}

/// Of the kernel half's tables.
pub fn of_kernel(kernel: &Kernel) -> Vec<Sample> {
    let of_table = |(name, entries, capacity): (&str, u64, u64)| {
        [sample(table::MAP_ENTRIES, &[name], entries), sample(table::MAP_CAPACITY, &[name], capacity)]
    };
    kernel.tables().flat_map(of_table).collect()
}

/// Of what events go to.
pub fn of_reporter(reporter: &Reporter) -> Vec<Sample> {
    let Reporter { outbox, sinks, followers, .. } = reporter;
    let mut samples = vec![
        sample(table::FOLLOWERS, &[], followers.counters().now),
        sample(table::STORE_WRITABLE, &[], u64::from(outbox.failing().is_none())),
        sample(table::STORE_BYTES, &[], outbox.store().file_bytes()),
        sample(table::STORE_LOG_BYTES, &[], outbox.store().log_bytes()),
    ];
    for (name, sink) in sinks.counters() {
        samples.extend([
            sample(table::SINK_EVENTS, &[name, "written"], sink.written),
            sample(table::SINK_EVENTS, &[name, "dropped"], sink.dropped),
            sample(table::SINK_FAILURES, &[name], sink.failures),
            sample(table::SINK_WRITABLE, &[name], u64::from(sink.failing.is_none())),
            sample(table::SINK_BYTES, &[name], sink.waiting_bytes),
            sample(table::SINK_CAPACITY, &[name], sink.capacity_bytes),
        ]);
        // As it was named before standard output was a sink.
        if name == mcpwarden_sinks::STDOUT {
            samples.push(sample(table::QUEUE, &["output"], sink.waiting_bytes));
            samples.push(sample(table::QUEUE_CAPACITY, &["output"], sink.capacity_bytes));
        }
    }
    samples
}

/// How much of the servers' bytes over HTTP was inspected, by these counters.
pub fn of_http(counters: &BTreeMap<String, u64>) -> Sample {
    let bytes = |name: &str| counters.get(name).map_or(0.0, |bytes| *bytes as f64);
    let (passed, unread) = (bytes("http_server_bytes"), bytes("http_server_bytes_unread"));
    Sample::new(table::HTTP_COVERAGE, &[], share(passed - unread, passed))
}

/// Of sessions and servers.
pub fn of_engine(engine: &Engine) -> Vec<Sample> {
    let (inputs, bytes) = engine.waiting_inputs();
    let mut samples = vec![
        sample(table::SESSIONS, &[], engine.sessions() as u64),
        sample(table::WAITING_MESSAGES, &[], inputs as u64),
        sample(table::WAITING_BYTES, &[], bytes as u64),
    ];
    for kinds in
        [&[ServerType::Stdio][..], &[ServerType::Http, ServerType::Sse], &[ServerType::Tcp, ServerType::Unix]]
    {
        let all: Vec<_> = kinds.iter().map(|kind| engine.traffic(*kind)).collect();
        samples.extend(of_traffic(transport(kinds[0]), &all));
    }
    samples
}

/// Of guards that others wrote: what components reported.
pub fn of_guards(guards: &Guards) -> Vec<Sample> {
    let series = guards.reports().series();
    series
        .map(|(guard, metric, labels, value)| {
            Sample::new(table::GUARD_SAMPLE, &[guard, metric, labels], value)
        })
        .collect()
}

/// Of the servers of one transport.
fn of_traffic(transport: &str, all: &[Traffic]) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut add = |name, labels: &[&str], value: f64| {
        samples.push(Sample::new(name, &[&[transport], labels].concat(), value));
    };
    let sum = |of: fn(&Traffic) -> u64| all.iter().map(of).sum::<u64>() as f64;
    let inspected = sum(|one| one.bytes.c2s + one.bytes.s2c);
    let junk = sum(|one| one.junk_bytes);
    let passed = inspected + junk + sum(|one| one.gap_bytes);
    add(table::SERVERS, &[], sum(|one| one.servers));
    add(table::TOOLS, &[], sum(|one| one.tools));
    add(table::FRAMES, &["c2s"], sum(|one| one.frames.c2s));
    add(table::FRAMES, &["s2c"], sum(|one| one.frames.s2c));
    add(table::FRAME_BYTES, &["c2s"], sum(|one| one.bytes.c2s));
    add(table::FRAME_BYTES, &["s2c"], sum(|one| one.bytes.s2c));
    add(table::JUNK_BYTES, &[], junk);
    add(table::PASSED_BYTES, &[], passed);
    add(table::COVERAGE, &[], share(inspected, passed));
    samples
}

/// How much of what passed was read. Where nothing passed, nothing was missed.
fn share(read: f64, passed: f64) -> f64 {
    if passed > 0.0 { read / passed } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coverage_is_the_share_of_inspected_bytes() {
        // Bytes of frames, of junk and of gaps, of two kinds of servers; the share.
        for (name, all, expected) in [
            ("nothing", &[][..], 1.0),
            ("all", &[(10, 0, 0)], 1.0),
            ("junk", &[(10, 30, 0)], 0.25),
            ("a gap of the other", &[(10, 0, 0), (20, 0, 10)], 0.75),
            ("nothing inspected", &[(0, 0, 5)], 0.0),
        ] {
            let traffic = |(frames, junk_bytes, gap_bytes): &(u64, u64, u64)| {
                let mut traffic =
                    Traffic { junk_bytes: *junk_bytes, gap_bytes: *gap_bytes, ..Traffic::default() };
                traffic.bytes.c2s = *frames;
                traffic
            };
            let all: Vec<Traffic> = all.iter().map(traffic).collect();
            let coverage = Sample::new(table::COVERAGE, &["stdio"], expected);
            assert!(of_traffic("stdio", &all).contains(&coverage), "{name}");
        }
    }
}
