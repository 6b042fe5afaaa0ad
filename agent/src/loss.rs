//! Counters that should stay at zero: when one grows, that is an event.
//!
//! What is missing from a stream is a gap and is found where streams are put together; this is everything else.

use std::collections::BTreeMap;

use mcpwarden_policy::event::AgentLoss;

/// Counter, and what it means when it grows.
pub const WATCHED: &[(&str, &str)] = &[
    (
        "kernel_missed_runs",
        "the kernel skipped programs that were already running: traffic may be missing, or not judged",
    ),
    (
        "model_answers_dropped",
        "answers of models were given up: too many at once, or too long; what these models wanted is not reported",
    ),
    (
        "kernel_ring_full_facts",
        "starts or ends of processes were lost: the ring is too small (capture.ring_bytes)",
    ),
    (
        "kernel_gate_untold",
        "events of writes that the gate stopped were lost: the ring is too small (capture.ring_bytes); they were stopped all \
         the same",
    ),
    ("kernel_gated_refused", "too many servers at once: calls of some are undecided"),
    ("gate_connections_refused", "too many servers at once: calls of some are undecided"),
    (
        "gate_sessions_refused",
        "too many sessions, or servers of one: no cross-server rule stops calls of some of them",
    ),
    (
        "gate_endpoints_refused",
        "too many servers over sockets: the first message of new connections to some of them is not judged",
    ),
    (
        "kernel_gate_forgotten",
        "too many calls to remember: rates and cross-server rules were undecidable for some (enforcement.undecided)",
    ),
    ("gate_tables_refused", "the policy is too large for the gate: the previous policy stays in force there"),
    ("kernel_connections_refused", "too many pairs of channels at once: servers may go unseen"),
    ("kernel_channels_refused", "too many channels at once: servers may go unseen"),
    ("kernel_processes_refused", "too many processes hold channels: traffic may be missing"),
    (
        "kernel_connects_untold",
        "events of connections were lost: the ring is too small (capture.ring_bytes); they were judged all the same",
    ),
    (
        "kernel_confirms_refused",
        "too many servers at once: the rules of some on where they may connect do not hold, and long messages show as gaps",
    ),
    (
        "kernel_members_refused",
        "too many processes belong to servers: what some of them connect to is nobody's, and no server's rules hold",
    ),
    (
        "kernel_memberships_cut",
        "a process descends from more servers than are remembered: the rules of one of them do not hold for it",
    ),
    (
        "departed_evicted",
        "too many servers have ended: what processes that some left behind connect to is not attributed to them",
    ),
    (
        "network_names_unanswered",
        "names in rules on addresses could not be resolved: the previous addresses stay in force",
    ),
    ("network_name_addresses_refused", "a name has too many addresses: rules do not hold for some of them"),
    (
        "network_closings_failed",
        "connections that are open to denied addresses could not be looked for: they live on",
    ),
    (
        "network_adopted_untold",
        "too many connections were open when the agent started: of some nothing is said, but they were judged",
    ),
    (
        "network_found_refused",
        "too many servers that nobody declared: some that server_access denies can be connected to",
    ),
    (
        "network_listeners_skipped",
        "many connections in lines at once: of some servers it is not known which process listens",
    ),
    (
        "network_blocks_refused",
        "blocks by hand did not fit: the operator got an error, and nothing is blocked",
    ),
    (
        "control_connections_refused",
        "too many connections to the control socket at once: some operators got no answer",
    ),
    (
        "metrics_pushed_out",
        "too many connections to the metrics at once: those that were there longest were closed",
    ),
    (
        "sinks_dropped",
        "a sink is too slow or fails: events were not sent to it (they are stored all the same)",
    ),
    ("sinks_failures", "a sink cannot be written to: what is sent to it waits"),
    (
        "log_lines_lost",
        "standard error cannot be written to: messages of the agent to its operator were lost",
    ),
    ("network_tables_refused", "rules on addresses could not be installed: the previous rules stay in force"),
    (
        "capture_malformed_records",
        "records of the kernel half could not be read: agent and kernel half differ",
    ),
    ("capture_connections_refused", "too many connections at once: servers may go unseen"),
    ("censuses_failed", "descriptors could not be scanned: some servers may go unseen until the next scan"),
    (
        "kernel_io_uring_untold",
        "multishot requests of io_uring completed in processes that hold channels: bytes of a channel among them show \
         as gaps",
    ),
    (
        "tasks_skipped",
        "processes with too many threads to find whether one is in the middle of a call: a gap may be reported too early",
    ),
    ("oversized_batches", "a batch of too many messages was not read"),
    ("chain_overflow", "a server was started through more programs than are remembered"),
    ("connections_refused", "too many connections at once: servers may go unseen"),
    (
        "refused_overflow",
        "too many servers that there is no room for: calls of some are not held for undecidable, and pass unseen",
    ),
    ("candidate_overflow", "messages or connections of a server from before it was recognised were dropped"),
    ("open_requests_evicted", "too many open requests: answers to the oldest are not matched"),
    ("tools_overflow", "a server offers more tools than are remembered"),
    ("public_lists_forgotten", "more lists are said to be the same for all users than are compared"),
    (
        "input_requests_skipped",
        "an answer asks its client for too much: some of it was inspected, but not evaluated one by one",
    ),
    (
        "rounds_evicted",
        "too many states of requests were given: what comes back with one counts as a new request",
    ),
    ("tasks_evicted", "too many tasks: the results of some are not matched with their calls"),
    (
        "registry_connections_refused",
        "too many servers at once: definitions of some are not compared with their pins",
    ),
    ("registry_store_errors", "pins could not be read or kept: changed definitions may go unnoticed"),
    ("registry_items_refused", "too many tools, prompts or templates: some are not compared with their pins"),
    ("registry_definitions_not_kept", "a definition is too long to be kept: changes in it are not shown"),
    (
        "registry_servers_refused",
        "too many servers in one session: names of some are not compared with others'",
    ),
    ("registry_names_refused", "too many names in one session: some are not compared with others'"),
    (
        "registry_ordered_names_dropped",
        "a definition names too many tools: some were not looked up among other servers' tools",
    ),
    (
        "registry_programs_not_read",
        "an upgraded server had too many programs: tools of some are not known to have been its own first",
    ),
    (
        "registry_names_not_compared",
        "names that were not compared with others': too many of about one length, or over 128 letters",
    ),
    ("approvals_refused", "too many tools wait for approval: nobody was asked about some that are held"),
    ("guards_panics", "a guard failed, and its failure_mode decided: this is an error of the agent"),
    ("guards_timeouts", "a guard had more to read than its timeout_ms allows: its failure_mode decided"),
    (
        "external_guards_refused",
        "too many questions to guards that others wrote, or too large ones: `failure_mode` decided",
    ),
    ("guard_log_lines_dropped", "lines that WebAssembly guards wrote to the log, beyond 20 in 10 s"),
    ("guard_samples_dropped", "samples of metrics of WebAssembly guards, beyond 512 series or invalid"),
    (
        "external_guards_judged_forgotten",
        "definitions that guards that others wrote judged, and will be asked about again",
    ),
    (
        "external_denials_folded",
        "servers with too many denials of one guard that others wrote: all of them is denied",
    ),
    ("external_denials_displaced", "denials of guards that others wrote, for newer ones"),
    ("cross_server_sessions_evicted", "too many sessions at once: cross-server rules forgot the oldest"),
    ("cross_server_records_dropped", "too many calls in one session: cross-server rules forgot the oldest"),
    (
        "rate_buckets_evicted",
        "too many users, servers and tools: some may be called more often than rate_limits says",
    ),
    (
        "inspections_given_up",
        "too many long messages wait for their inspection: most of some was not inspected",
    ),
    (
        "inspection_bounds",
        "more was found than is reported, or there was more suspicious text than is looked at",
    ),
    (
        "guards_inspection_bounds",
        "more was found in answers than is reported, or there was more suspicious text than is looked at",
    ),
    ("held_overflow", "too many requests to relays at once: some calls may be reported twice"),
];

/// Counters that grow by the events that report them, where a sink takes none: each is reported once in [`LOOKS`] at most.
const OF_SINKS: [&str; 2] = ["sinks_dropped", "sinks_failures"];
/// Looks between two reports of these: there is one a second.
const LOOKS: u64 = 60;

/// What was said so far.
#[derive(Debug, Default)]
pub struct LossWatch {
    reported: BTreeMap<&'static str, u64>,
    looks: u64,
    /// The look at which one of [`OF_SINKS`] is due again.
    due: BTreeMap<&'static str, u64>,
}

impl LossWatch {
    /// What grew since the last look.
    pub fn look(&mut self, counters: &BTreeMap<String, u64>) -> Vec<AgentLoss> {
        let mut losses = Vec::new();
        self.looks += 1;
        for &(name, meaning) in WATCHED {
            if self.due.get(name).is_some_and(|due| self.looks < *due) {
                continue;
            }
            let total = counters.get(name).copied().unwrap_or(0);
            let reported = self.reported.entry(name).or_default();
            if total > *reported {
                let count = total - *reported;
                *reported = total;
                if OF_SINKS.contains(&name) {
                    self.due.insert(name, self.looks + LOOKS);
                }
                losses.push(AgentLoss {
                    counter: name.into(),
                    count,
                    total,
                    meaning: meaning.into(),
                    uid: None,
                });
            }
        }
        losses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_growth_is_reported_once() {
        let mut watch = LossWatch::default();
        let counters = |value: u64| BTreeMap::from([("kernel_missed_runs".to_owned(), value)]);
        let cases = [(0, None), (3, Some((3, 3))), (3, None), (5, Some((2, 5)))];
        for (value, expected) in cases {
            let reported = watch.look(&counters(value));
            assert_eq!(reported.first().map(|loss| (loss.count, loss.total)), expected);
        }
    }

    /// What a sink drops grows by each report of it: a look each, the counter, and what is reported.
    #[test]
    fn losses_of_sinks_are_reported_once_a_minute() {
        let mut watch = LossWatch::default();
        let mut reports = Vec::new();
        for look in 0_u64..200 {
            let counters = BTreeMap::from([
                ("sinks_dropped".to_owned(), 10 + look),
                ("sinks_failures".to_owned(), u64::from(look >= 30)),
                ("kernel_missed_runs".to_owned(), look / 100),
            ]);
            let losses = watch.look(&counters);
            reports.extend(losses.into_iter().map(|loss| (look, loss.counter, loss.count)));
        }
        let expected = [
            (0, "sinks_dropped", 10),
            (30, "sinks_failures", 1),
            (60, "sinks_dropped", 60),
            (100, "kernel_missed_runs", 1),
            (120, "sinks_dropped", 60),
            (180, "sinks_dropped", 60),
        ];
        assert_eq!(reports, expected.map(|(look, name, count)| (look, name.to_owned(), count)));
    }

    /// Those of the kernel half and of capture are the agent's own.
    #[test]
    fn every_watched_policy_counter_exists() {
        let text = b"policy: { rate_limits: { enabled: true } }";
        let (config, _) = mcpwarden_policy::config::parse(text).unwrap();
        let counted =
            crate::config::engine(&config.into(), [0; 32], false, false).unwrap().counters_by_name();
        for (name, _) in WATCHED {
            let own = [
                "kernel_",
                "capture_",
                "gate_",
                "network_",
                "control_",
                "metrics_",
                "sinks_",
                "log_",
                "guard_log_",
                "guard_samples_",
            ]
            .iter()
            .any(|part| name.starts_with(part));
            let counted = counted.contains_key(*name) || ["censuses_failed", "tasks_skipped"].contains(name);
            assert!(own || counted, "{name}");
        }
    }
}
