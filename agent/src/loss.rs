//! Counters that should stay at zero: when one grows, that is an event.
//!
//! What is missing from a stream is a gap and is found where streams are put together; this is everything else.

use std::collections::BTreeMap;

use mcpwarden_policy::event::AgentLoss;

/// Counter, and what it means when it grows.
const WATCHED: [(&str, &str); 20] = [
    ("kernel_missed_runs", "the kernel skipped programs that were already running: traffic may be missing"),
    (
        "kernel_ring_full_facts",
        "starts or ends of processes were lost: the ring is too small (capture.ring_bytes)",
    ),
    ("kernel_connections_refused", "too many pairs of channels at once: servers may go unseen"),
    ("kernel_channels_refused", "too many channels at once: servers may go unseen"),
    ("kernel_processes_refused", "too many processes hold channels: traffic may be missing"),
    (
        "capture_malformed_records",
        "records of the kernel half could not be read: agent and kernel half differ",
    ),
    ("capture_connections_refused", "too many connections at once: servers may go unseen"),
    ("censuses_failed", "holders of channels could not be counted: some may go unseen until the next count"),
    (
        "kernel_io_uring_untold",
        "multishot requests of io_uring completed in processes that hold channels: bytes of a channel among them show \
         as gaps",
    ),
    (
        "tasks_skipped",
        "processes with too many threads to find whether one is in the middle of a call: a gap may be said too early",
    ),
    ("oversized_batches", "a batch of too many messages was not read"),
    ("chain_overflow", "a server was started through more programs than are remembered"),
    ("connections_refused", "too many connections at once: servers may go unseen"),
    ("candidate_overflow", "messages before a server was recognised were dropped"),
    ("open_requests_evicted", "too many open requests: answers to the oldest cannot be told"),
    ("tools_overflow", "a server offers more tools than are remembered"),
    ("registry_refused", "too many servers at once: definitions of some are not compared with their pins"),
    ("store_errors", "pins could not be read or kept: changed definitions may go unnoticed"),
    (
        "inspection_bounds",
        "more was found than is reported, or there was more suspicious text than is looked at",
    ),
    ("held_overflow", "too many requests to relays at once: some calls may be reported twice"),
];

/// What was said so far.
#[derive(Debug, Default)]
pub struct LossWatch {
    said: BTreeMap<&'static str, u64>,
}

impl LossWatch {
    /// What grew since the last look.
    pub fn look(&mut self, counters: &BTreeMap<String, u64>) -> Vec<AgentLoss> {
        let mut losses = Vec::new();
        for (name, meaning) in WATCHED {
            let total = counters.get(name).copied().unwrap_or(0);
            let said = self.said.entry(name).or_default();
            if total > *said {
                let count = total - *said;
                *said = total;
                losses.push(AgentLoss { counter: name.into(), count, total, meaning: meaning.into() });
            }
        }
        losses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_said_once() {
        let mut watch = LossWatch::default();
        let counters = |value: u64| BTreeMap::from([("kernel_missed_runs".to_owned(), value)]);
        let cases = [(0, None), (3, Some((3, 3))), (3, None), (5, Some((2, 5)))];
        for (value, expected) in cases {
            let said = watch.look(&counters(value));
            assert_eq!(said.first().map(|loss| (loss.count, loss.total)), expected);
        }
    }

    #[test]
    fn every_watched_counter_of_the_policy_core_exists() {
        let engine = mcpwarden_policy::Counters::default().to_map();
        for (name, _) in WATCHED.iter().filter(|(name, _)| {
            !name.starts_with("kernel_")
                && !name.starts_with("capture_")
                && !["censuses_failed", "tasks_skipped"].contains(name)
        }) {
            assert!(engine.contains_key(*name), "{name}");
        }
    }
}
