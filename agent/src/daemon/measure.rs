//! What the agent knows of itself, for metrics.

use std::collections::BTreeMap;

use mcpwarden_kernel::{Backend, requirements};
use mcpwarden_policy::event::ServerType;

use super::Agent;
use crate::{
    metrics::{Sample, Snapshot, observe::transport, table},
    output::WAITING_CHUNKS,
};

impl Agent {
    /// Makes these numbers those that are said from now on.
    pub(super) fn publish(&mut self, counters: BTreeMap<String, u64>) {
        let mut samples = self.identity.clone();
        let mut add =
            |name, labels: &[&str], value: u64| samples.push(Sample::new(name, labels, value as f64));
        add(table::RELOADED, &[], u64::from(self.reload.succeeded()));
        add(table::RELOADED_AT, &[], self.reload.at().0 / 1_000_000_000);
        add(table::SESSIONS, &[], self.engine.sessions() as u64);
        add(table::RING_BYTES, &[], self.fill.ring_bytes());
        add(table::RING_USED, &[], std::mem::take(&mut self.ring_most));
        add(table::QUEUE, &["output"], self.outbox.waiting_chunks() as u64);
        add(table::QUEUE_CAPACITY, &["output"], WAITING_CHUNKS as u64);
        for (name, sink) in self.sinks.counters() {
            for (state, count) in [("written", sink.written), ("dropped", sink.dropped)] {
                add(table::SINK_EVENTS, &[name, state], count);
            }
            add(table::SINK_FAILURES, &[name], sink.failures);
            add(table::SINK_BYTES, &[name], sink.waiting_bytes);
            add(table::SINK_CAPACITY, &[name], sink.capacity_bytes);
        }
        add(table::FOLLOWERS, &[], self.control.followers().now);
        add(table::STORE_WRITABLE, &[], u64::from(self.outbox.failing().is_none()));
        add(table::STORE_BYTES, &[], self.outbox.store().file_bytes());
        for (name, entries, capacity) in self.kernel.tables() {
            add(table::MAP_ENTRIES, &[name], entries);
            add(table::MAP_CAPACITY, &[name], capacity);
        }
        let of_http = |name: &str| counters.get(name).map_or(0.0, |bytes| *bytes as f64);
        let (passed, unread) = (of_http("http_server_bytes"), of_http("http_server_bytes_unread"));
        samples.push(Sample::new(table::HTTP_COVERAGE, &[], share(passed - unread, passed)));
        samples.extend(self.traffic());
        self.metrics.publish(Snapshot { counters, samples });
    }

    /// What there is of servers, by how they are reached.
    fn traffic(&self) -> Vec<Sample> {
        let mut samples = Vec::new();
        for kinds in [&[ServerType::Stdio][..], &[ServerType::Http, ServerType::Sse]] {
            let all: Vec<_> = kinds.iter().map(|kind| self.engine.traffic(*kind)).collect();
            let transport = transport(kinds[0]);
            let mut add = |name, labels: &[&str], value: f64| {
                samples.push(Sample::new(name, &[&[transport], labels].concat(), value));
            };
            let sum = |of: fn(&mcpwarden_policy::Traffic) -> u64| all.iter().map(of).sum::<u64>() as f64;
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
        }
        samples
    }
}

/// How much of what passed was read. Where nothing passed, nothing was missed.
fn share(read: f64, passed: f64) -> f64 {
    if passed > 0.0 { read / passed } else { 1.0 }
}

/// What never changes: the agent, its configuration, the kernel.
pub(super) fn identity(config: &crate::config::Config, backend: Backend) -> Vec<Sample> {
    let hash = crate::config::hash(config);
    vec![
        Sample::new(table::BUILD, &[env!("CARGO_PKG_VERSION")], 1.0),
        Sample::new(table::CONFIG, &[&hash], 1.0),
        Sample::new(table::KERNEL, &[&requirements::release(), backend.name()], 1.0),
    ]
}
