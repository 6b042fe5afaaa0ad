//! Everything that is counted anywhere, in one list.

use std::collections::BTreeMap;

use mcpwarden_abi::Counter;

use super::Agent;

impl Agent {
    /// Everything that is counted anywhere, by name.
    pub(super) fn counters(&self) -> BTreeMap<String, u64> {
        let capture = self.capture.counters();
        let kernel = |counter| self.kernel.counter(counter);
        let mut counters = self.engine.counters_by_name();
        let mut add = |name: &str, value: u64| counters.insert(name.to_owned(), value);
        add("censuses_failed", self.censuses_failed);
        add("tasks_skipped", self.tasks_skipped);
        add("capture_records", capture.records);
        add("capture_bytes", capture.bytes);
        add("capture_malformed_records", capture.malformed_records);
        add("capture_missing_bytes", capture.missing_bytes);
        add("capture_memory_refused_frames", capture.memory_refused_frames);
        add("capture_memory_refused_bytes", capture.memory_refused_bytes);
        add("capture_connections_refused", capture.connections_refused);
        add("capture_execs_not_awaited", capture.execs_not_awaited);
        add("kernel_ring_full_records", kernel(Counter::RingFullRecords));
        add("kernel_ring_full_bytes", kernel(Counter::RingFullBytes));
        add("kernel_ring_full_facts", kernel(Counter::RingFullFacts));
        add("kernel_connections_refused", kernel(Counter::ConnectionsRefused));
        add("kernel_channels_refused", kernel(Counter::ChannelsRefused));
        add("kernel_processes_refused", kernel(Counter::ProcessesRefused));
        add("kernel_suspect_bytes", kernel(Counter::SuspectBytes));
        add("kernel_unreadable_bytes", kernel(Counter::UnreadableBytes));
        add("kernel_io_uring_untold", kernel(Counter::IoUringUntold));
        for (name, value) in self.capture.http_counters() {
            add(&format!("http_{name}"), value);
        }
        add("kernel_sockets_refused", kernel(Counter::SocketsRefused));
        add("kernel_sockets_foreign", kernel(Counter::SocketsForeign));
        add("kernel_sockets_unread", kernel(Counter::SocketsUnread));
        let network = self.network.counters();
        add("network_names_unanswered", network.names_unanswered);
        add("network_name_addresses_refused", network.name_addresses_refused);
        add("network_dns_missed", network.dns_missed);
        add("network_tables_refused", network.tables_refused);
        add("network_closings_failed", network.closings_failed);
        add("network_adopted_untold", network.adopted_untold);
        add("network_found_refused", network.found_refused);
        add("network_blocks_refused", network.blocks_refused);
        let control = self.control.counters();
        add("control_requests", control.requests);
        add("control_connections_refused", control.connections_refused);
        add("control_forbidden", control.forbidden);
        add("control_unusable", control.unusable);
        add("control_timed_out", control.timed_out);
        let followers = self.control.followers();
        add("control_followers_refused", followers.refused);
        add("control_events_sent", followers.sent);
        add("control_events_lost", followers.lost);
        let metrics = self.metrics.counters();
        add("metrics_requests", metrics.requests);
        add("metrics_pushed_out", metrics.pushed_out);
        add("metrics_unusable", metrics.unusable);
        add("metrics_timed_out", metrics.timed_out);
        add("sinks_dropped", self.sinks.counters().map(|(_, sink)| sink.dropped).sum());
        add("sinks_failures", self.sinks.counters().map(|(_, sink)| sink.failures).sum());
        let store = self.outbox.store().status();
        add("store_events_stored", store.stored);
        add("store_events_lost", store.lost);
        add("store_events_removed", store.removed);
        add("store_writes", store.writes);
        add("store_write_ns", store.write_ns);
        for (name, value) in self.listing.counters() {
            add(name, value);
        }
        add("network_judged_by_forgotten", network.judged_by_forgotten);
        add("kernel_confirms_refused", self.kernel.confirms_refused());
        add("kernel_connects_untold", kernel(Counter::ConnectsUntold));
        add("kernel_members_refused", kernel(Counter::MembersRefused));
        add("kernel_memberships_cut", kernel(Counter::MembershipsCut));
        add("kernel_messages_repeated", kernel(Counter::MessagesRepeated));
        add("kernel_gate_untold", kernel(Counter::GateUntold));
        add("kernel_gated_refused", kernel(Counter::GatedRefused));
        let gate = self.gate.counters();
        add("gate_tables", gate.tables);
        add("gate_tables_refused", gate.tables_refused);
        add("gate_connections_refused", gate.connections_refused);
        add("gate_sessions_refused", gate.sessions_refused);
        add("kernel_gate_forgotten", kernel(Counter::GateForgotten));
        add("kernel_missed_runs", self.programs.iter().map(|program| program.missed_runs).sum());
        for program in &self.programs {
            if program.runs > 0 {
                add(&format!("program_runs_{}", program.name), program.runs);
                add(&format!("program_ns_{}", program.name), program.nanoseconds);
                add(&format!("program_verified_{}", program.name), program.verified_steps);
            }
        }
        counters
    }
}
