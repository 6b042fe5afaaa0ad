//! The status of the agent, as operators request it.

use mcpwarden_kernel::requirements;
use mcpwarden_policy::{event::ServerType, lint::unenforceable};

use super::Agent;
use crate::{
    control::{ConfigStatus, GateStatus, SinkStatus, Status, StoreStatus},
    output::word,
};

impl Agent {
    /// The status of now.
    pub(super) fn status(&self) -> Status {
        let counters = self.counters();
        let (config, path) = (self.reload.config(), self.reload.path());
        let outbox = &self.reporter.outbox;
        let stored = outbox.store().status();
        let mut status = Status {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            since: self.clock.printed(self.since),
            kernel: requirements::release(),
            troubles: Vec::new(),
            config: ConfigStatus {
                path: path.map(|path| path.display().to_string()),
                hash: crate::config::hash(config),
                since: self.clock.printed(self.reload.at()),
                usable: self.reload.succeeded(),
                stdio: word(&config.enforcement.stdio),
                network: word(&config.enforcement.network),
            },
            gate: {
                let way = self.gate.is_usable().then(|| self.kernel.gate_way()).flatten();
                let [neutralize, deny] = requirements::ways_of(way).map(str::to_owned);
                GateStatus { neutralize, deny }
            },
            not_enforced: unenforceable(&self.gate.enforced(config))
                .iter()
                .map(ToString::to_string)
                .collect(),
            servers: self.engine.servers().count() as u64,
            sessions: self.engine.sessions() as u64,
            approvals: self.engine.waiting().count() as u64,
            blocks: self.network.blocks().len() as u64,
            mutes: self.engine.mutes().count() as u64,
            store: StoreStatus {
                path: outbox.store().path().display().to_string(),
                failing: outbox.failing().map(str::to_owned),
                last: stored.head.seq,
                stored: stored.stored,
                lost: stored.lost,
            },
            sinks: Vec::new(),
            programs: self.kernel.attached().to_vec(),
            blind_spots: self.blind_spots(),
            counters,
        };
        status.sinks.extend(self.reporter.sinks.counters().map(|(name, sink)| SinkStatus {
            name: name.to_owned(),
            written: sink.written,
            dropped: sink.dropped,
            failures: sink.failures,
            failing: sink.failing,
            waiting_bytes: sink.waiting_bytes,
        }));
        // Only of servers: bytes of processes that turned out to be none are not inspected on purpose.
        let unseen = ServerType::ALL.iter().map(|kind| self.engine.traffic(*kind).gap_bytes).sum();
        status.troubles = troubles(&status, unseen, self.reload.error());
        status.troubles.extend(self.gate.troubles());
        status
    }
}

/// What an operator has to look at; `unseen`: bytes of servers and their clients. `config`: the error of the last reload.
fn troubles(status: &Status, unseen: u64, config: Option<&str>) -> Vec<String> {
    let mut troubles = Vec::new();
    if let Some(error) = config {
        troubles.push(format!(
            "the configuration file is invalid, and the previous configuration stays in force: {error}"
        ));
    }
    if let Some(why) = &status.store.failing {
        troubles.push(format!("events cannot be stored: {why}"));
    }
    if status.store.lost > 0 {
        troubles.push(format!("{} events were not stored", status.store.lost));
    }
    let cut = status.counters.get("store_readers_cut").copied().unwrap_or_default();
    if cut > 0 {
        troubles.push(format!(
            "readers kept the agent from storing events {cut} times, and were cut off (mcp_store_readers_cut)"
        ));
    }
    for SinkStatus { name, dropped, failing, waiting_bytes, .. } in &status.sinks {
        if let Some(why) = failing {
            troubles.push(format!("sinks[{name}] takes no events: {why}; {waiting_bytes} bytes wait"));
        }
        if *dropped > 0 {
            troubles.push(format!("{dropped} events were not sent to sinks[{name}]"));
        }
    }
    if unseen > 0 {
        troubles
            .push(format!("{unseen} bytes between servers and clients were not captured (mcp_capture_gap)"));
    }
    troubles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_lists_every_trouble() {
        let well = || {
            let json = serde_json::json!({
                "version": "1", "pid": 1, "since": "2026-01-06T10:30:00Z", "kernel": "6", "troubles": [],
                "config": {"hash": "", "since": "2026-01-06T10:30:00Z", "usable": true, "stdio": "observe", "network": "deny"},
                "gate": {"neutralize": "lsm", "deny": "lsm"}, "not_enforced": [], "servers": 1, "sessions": 1, "approvals": 0, "blocks": 0,
                "store": {"path": "/x", "last": 1, "stored": 1, "lost": 0},
                "sinks": [{"name": "0:file", "written": 1, "dropped": 0, "failures": 3, "waiting_bytes": 0}],
                "programs": [], "blind_spots": [], "counters": {"gap_bytes": 3},
            });
            serde_json::from_value::<Status>(json).unwrap()
        };
        type Change = fn(&mut Status);
        let cases: [(Change, Option<&str>, &[&str]); 8] = [
            (|_| {}, None, &[]),
            (|_| {}, Some("1:1: no"), &["the configuration file is invalid"]),
            (
                |status| status.store.failing = Some("disk full".into()),
                None,
                &["events cannot be stored: disk full"],
            ),
            (|status| status.store.lost = 7, None, &["7 events were not stored"]),
            (
                |status| status.counters.extend([("store_readers_cut".into(), 2)]),
                None,
                &["readers kept the agent from storing events 2 times"],
            ),
            (|status| status.sinks[0].dropped = 2, None, &["2 events were not sent to sinks[0:file]"]),
            (
                |status| status.sinks[0].failing = Some("disk full".into()),
                None,
                &["sinks[0:file] takes no events: disk full; 0 bytes wait"],
            ),
            (
                |status| {
                    let sink = &mut status.sinks[0];
                    (sink.failing, sink.dropped, sink.waiting_bytes) = (Some("Broken pipe".into()), 3, 70);
                },
                None,
                &[
                    "sinks[0:file] takes no events: Broken pipe; 70 bytes wait",
                    "3 events were not sent to sinks[0:file]",
                ],
            ),
        ];
        assert!(troubles(&well(), 5, None)[0].starts_with("5 bytes"));
        for (change, error, expected) in cases {
            let mut status = well();
            change(&mut status);
            let reported = troubles(&status, 0, error);
            let found = reported.iter().zip(expected).all(|(trouble, part)| trouble.starts_with(part));
            assert!(reported.len() == expected.len() && found, "{expected:?} {reported:?}");
        }
    }
}
