//! Everything that is counted anywhere, by name: one function for each part that counts.

use mcpwarden_abi::Counter;
use mcpwarden_capture::{CaptureCounters, TlsCounters};
use mcpwarden_kernel::{Kernel, ProgramStats};
use mcpwarden_sinks::SinkCounters;
use mcpwarden_store::Status;

use super::{fd_scans::FdScans, gate::GateCounters, ring::Refused};
use crate::{
    control::{ControlCounters, FollowerCounters},
    metrics::ScrapeCounters,
    network::NetworkCounters,
};

/// A counter: its name, and its value.
type Named = (&'static str, u64);

/// Those of the fd scans.
pub fn of_scans(scans: &FdScans) -> [Named; 2] {
    [("censuses_failed", scans.failed()), ("tasks_skipped", scans.tasks_skipped())]
}

/// Those of capture.
pub fn of_capture(capture: &CaptureCounters) -> [Named; 8] {
    [
        ("capture_records", capture.records),
        ("capture_bytes", capture.bytes),
        ("capture_malformed_records", capture.malformed_records),
        ("capture_missing_bytes", capture.missing_bytes),
        ("capture_memory_refused_frames", capture.memory_refused_frames),
        ("capture_memory_refused_bytes", capture.memory_refused_bytes),
        ("capture_connections_refused", capture.connections_refused),
        ("capture_execs_not_awaited", capture.execs_not_awaited),
    ]
}

/// Those of connections over TLS.
pub fn of_tls(tls: TlsCounters) -> [Named; 3] {
    [
        ("tls_encrypted_bytes", tls.encrypted),
        ("tls_plaintext_bytes", tls.plaintext),
        ("tls_unread_bytes", tls.unread),
    ]
}

/// Those of the queue behind the ring.
pub fn of_queue(refused: Refused) -> [Named; 2] {
    [("queue_refused_bytes", refused.bytes), ("queue_refused_facts", refused.facts)]
}

/// Those of the kernel half.
pub fn of_kernel(kernel: &Kernel) -> [Named; 24] {
    let count = |counter| kernel.counter(counter);
    [
        ("kernel_ring_full_records", count(Counter::RingFullRecords)),
        ("kernel_ring_full_bytes", count(Counter::RingFullBytes)),
        ("kernel_ring_full_facts", count(Counter::RingFullFacts)),
        ("kernel_share_refused_records", count(Counter::ShareRefusedRecords)),
        ("kernel_share_refused_bytes", count(Counter::ShareRefusedBytes)),
        ("kernel_connections_refused", count(Counter::ConnectionsRefused)),
        ("kernel_channels_refused", count(Counter::ChannelsRefused)),
        ("kernel_processes_refused", count(Counter::ProcessesRefused)),
        ("kernel_suspect_bytes", count(Counter::SuspectBytes)),
        ("kernel_unreadable_bytes", count(Counter::UnreadableBytes)),
        ("kernel_io_uring_untold", count(Counter::IoUringUntold)),
        ("kernel_sockets_refused", count(Counter::SocketsRefused)),
        ("kernel_sockets_foreign", count(Counter::SocketsForeign)),
        ("kernel_sockets_unread", count(Counter::SocketsUnread)),
        ("kernel_connects_untold", count(Counter::ConnectsUntold)),
        ("kernel_members_refused", count(Counter::MembersRefused)),
        ("kernel_memberships_cut", count(Counter::MembershipsCut)),
        ("kernel_messages_repeated", count(Counter::MessagesRepeated)),
        ("kernel_gate_untold", count(Counter::GateUntold)),
        ("kernel_gated_refused", count(Counter::GatedRefused)),
        ("kernel_gate_forgotten", count(Counter::GateForgotten)),
        ("kernel_tls_unbound_bytes", count(Counter::TlsUnbound)),
        ("kernel_tls_untold_calls", count(Counter::TlsUntold)),
        ("kernel_confirms_refused", kernel.confirms_refused()),
    ]
}

/// Those of the kernel half's programs.
pub fn of_programs(programs: &[ProgramStats]) -> Vec<(String, u64)> {
    let missed = programs.iter().map(|program| program.missed_runs).sum();
    let mut counters = vec![("kernel_missed_runs".to_owned(), missed)];
    for program in programs.iter().filter(|program| program.runs > 0) {
        counters.extend([
            (format!("program_runs_{}", program.name), program.runs),
            (format!("program_ns_{}", program.name), program.nanoseconds),
            (format!("program_verified_{}", program.name), program.verified_steps),
        ]);
    }
    counters
}

/// Those of the rules on addresses.
pub fn of_network(network: &NetworkCounters) -> [Named; 10] {
    [
        ("network_names_unanswered", network.names_unanswered),
        ("network_name_addresses_refused", network.name_addresses_refused),
        ("network_dns_missed", network.dns_missed),
        ("network_tables_refused", network.tables_refused),
        ("network_closings_failed", network.closings_failed),
        ("network_adopted_untold", network.adopted_unreported),
        ("network_found_refused", network.found_refused),
        ("network_listeners_skipped", network.listeners_skipped),
        ("network_blocks_refused", network.blocks_refused),
        ("network_judged_by_forgotten", network.judged_by_forgotten),
    ]
}

/// Those of the control socket.
pub fn of_control(control: &ControlCounters) -> [Named; 5] {
    [
        ("control_requests", control.requests),
        ("control_connections_refused", control.connections_refused),
        ("control_forbidden", control.forbidden),
        ("control_unusable", control.unusable),
        ("control_timed_out", control.timed_out),
    ]
}

/// Those of its followers.
pub fn of_followers(followers: &FollowerCounters) -> [Named; 3] {
    [
        ("control_followers_refused", followers.refused),
        ("control_events_sent", followers.sent),
        ("control_events_lost", followers.lost),
    ]
}

/// Those of the metrics' own requests.
pub fn of_metrics(metrics: &ScrapeCounters) -> [Named; 4] {
    [
        ("metrics_requests", metrics.requests),
        ("metrics_pushed_out", metrics.pushed_out),
        ("metrics_unusable", metrics.unusable),
        ("metrics_timed_out", metrics.timed_out),
    ]
}

/// Those of all sinks together.
pub fn of_sinks<'a>(sinks: impl Iterator<Item = (&'a str, SinkCounters)>) -> [Named; 2] {
    let add = |(dropped, failures), (_, sink): (&str, SinkCounters)| {
        (dropped + sink.dropped, failures + sink.failures)
    };
    let (dropped, failures) = sinks.fold((0, 0), add);
    [("sinks_dropped", dropped), ("sinks_failures", failures)]
}

/// Those of the wall clock.
pub fn of_clock(steps: u64) -> [Named; 1] {
    [("clock_steps", steps)]
}

/// Those of the agent's own messages.
pub fn of_log() -> [Named; 1] {
    [("log_lines_lost", crate::log::lost())]
}

/// Those of the store.
pub fn of_store(store: &Status) -> [Named; 8] {
    [
        ("store_events_stored", store.stored),
        ("store_events_lost", store.lost),
        ("store_events_removed", store.removed),
        ("store_events_trimmed", store.trimmed),
        ("store_locked", store.locked),
        ("store_readers_cut", store.readers_cut),
        ("store_writes", store.writes),
        ("store_write_ns", store.write_ns),
    ]
}

/// Those of the gate's tables.
pub fn of_gate(gate: &GateCounters) -> [Named; 5] {
    [
        ("gate_tables", gate.tables),
        ("gate_tables_refused", gate.tables_refused),
        ("gate_connections_refused", gate.connections_refused),
        ("gate_sessions_refused", gate.sessions_refused),
        ("gate_endpoints_refused", gate.endpoints_refused),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_programs_have_no_counters_of_their_own() {
        let program = |name: &str, missed_runs, runs| ProgramStats {
            name: name.into(),
            missed_runs,
            runs,
            nanoseconds: runs * 100,
            verified_steps: 7,
        };
        let counters = of_programs(&[program("idle", 2, 0), program("busy", 1, 5)]);
        let expected = [
            ("kernel_missed_runs", 3),
            ("program_runs_busy", 5),
            ("program_ns_busy", 500),
            ("program_verified_busy", 7),
        ];
        let expected: Vec<_> = expected.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        assert_eq!(counters, expected);
    }

    #[test]
    fn sinks_are_counted_together() {
        let sink = |dropped, failures| ("s", SinkCounters { dropped, failures, ..SinkCounters::default() });
        let cases = [(vec![], [0, 0]), (vec![sink(1, 2)], [1, 2]), (vec![sink(1, 2), sink(3, 0)], [4, 2])];
        for (sinks, expected) in cases {
            let name = format!("{} sinks", sinks.len());
            assert_eq!(of_sinks(sinks.into_iter()).map(|(_, value)| value), expected, "{name}");
        }
    }
}
