//! What was captured, held against what the kernel's tables and an fd scan say.

use std::{collections::HashSet, time::Duration};

use mcpwarden_kernel::{
    boot_ns,
    fd_scan::{FdScan, Side},
};

use mcpwarden_abi as abi;

use super::Agent;

/// An agent that is there after this did not die of what it met at its start.
const LIVES: Duration = Duration::from_secs(60);

/// Where the client writes, and where it reads.
fn client_sides(entry: &abi::Connection) -> [Side; 2] {
    [Side { key: entry.client_out, writes: true }, Side { key: entry.client_in, writes: false }]
}

impl Agent {
    /// Follows the wall clock, reads the kernel's positions, looks for losses.
    pub(super) fn housekeeping(&mut self) {
        self.clock.refresh();
        self.kernel.addresses().sweep();
        self.network.listen();
        self.positions = Some(self.kernel.connections());
        self.sockets = Some(self.socket_positions());
        self.read_ns = boot_ns();
        self.programs = self.kernel.program_stats();
        self.hear_store();
        if self.since.after(LIVES) <= self.clock.now() {
            self.kernel.proven();
        }
        self.look_for_change();
        let counters = self.counters();
        for loss in self.loss.look(&counters) {
            self.say(loss.into());
        }
        self.publish(counters);
    }

    /// Holds positions and holders against what was captured. What was in the ring when they were read is taken in, but
    /// for a record that a writer finished late, for which whatever counts must be so twice.
    pub(super) fn compare(&mut self) {
        for (id, entry) in self.positions.take().unwrap_or_default() {
            let streams = entry.positions.streams;
            self.with_capture(|capture, _, now, sink| capture.look(id, &streams, now, sink));
        }
        for (id, streams) in self.sockets.take().unwrap_or_default() {
            self.with_capture(|capture, clock, now, sink| {
                capture.look_at_socket(id, streams.as_ref(), clock, now, sink);
            });
        }
        self.with_capture(|capture, _, now, sink| capture.sockets().tick(now, sink));
        if let Some(found) = self.counted.take() {
            self.tasks_skipped += found.tasks_skipped;
            self.collect(&found);
        }
    }

    /// The sides of channels of which the next fd scan is to tell what is being done there.
    pub(super) fn suspects(&self) -> HashSet<Side> {
        let mut sides = HashSet::new();
        for (id, entry) in self.kernel.connections() {
            let [asking, answering] = self.capture.suspects(id);
            let [asks, answers] = client_sides(&entry);
            sides.extend(asking.then_some(asks).into_iter().chain(answering.then_some(answers)));
        }
        sides
    }

    /// Ends connections that nobody holds, says what went by unseen of the others, and stops watching processes that
    /// hold none. The ring was drained since the fd scan.
    pub(super) fn collect(&mut self, fd_scan: &FdScan) {
        let held: HashSet<abi::ChannelKey> = fd_scan.holders.iter().map(|holder| holder.key).collect();
        for (id, entry) in self.kernel.connections() {
            let streams = entry.positions.streams;
            let keys = [entry.server_in, entry.server_out, entry.client_out, entry.client_in];
            if entry.positions.since_ns >= fd_scan.began_ns || keys.iter().any(|key| held.contains(key)) {
                let waiting = client_sides(&entry).map(|side| fd_scan.idle.get(&side).copied());
                self.with_capture(|capture, _, now, sink| capture.judge(id, &streams, waiting, now, sink));
                continue;
            }
            self.kernel.remove(id);
            self.with_capture(|capture, clock, now, sink| {
                capture.settle(id, &streams, now, sink);
                capture.close(id, clock, now, sink);
            });
        }
        self.kernel.sweep_sockets(&held, fd_scan.began_ns);
        let pids: HashSet<u32> = fd_scan.holders.iter().map(|holder| holder.pid).collect();
        self.kernel.prune(&pids, fd_scan.began_ns);
        self.kernel.forget_servers();
    }

    /// How far TCP connections are in the kernel; `None` of those that are not there any more.
    pub(super) fn socket_positions(&self) -> Vec<(u64, Option<[abi::Stream; 2]>)> {
        let streams = |(id, key): (u64, Option<u64>)| {
            (id, key.and_then(|key| self.kernel.socket(key, id)).map(|positions| positions.streams))
        };
        self.capture.socket_ids().into_iter().map(streams).collect()
    }
}
