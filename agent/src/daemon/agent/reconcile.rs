//! The captured streams, compared with the kernel's tables and with fd scans.

use std::{collections::HashSet, time::Duration};

use mcpwarden_abi::Socket;
use mcpwarden_kernel::fd_scan::{Carrier, FdScan};
use mcpwarden_policy::{Input, event::Transport};

use super::Agent;
use crate::{
    daemon::{
        reconciler::{self, Check, Ready, SocketPositions},
        ring::RingReader,
    },
    host::process,
};

/// An agent that is there after this did not die of what it met at its start.
const LIVES: Duration = Duration::from_secs(60);

impl Agent {
    /// Follows the wall clock, reads the kernel's positions, looks for losses.
    pub(super) fn housekeeping(&mut self, ring: &mut RingReader) {
        if let Some(step) = self.clock.refresh() {
            tracing::warn!(
                "the wall clock was set by {} ms: durations follow the clock since boot",
                step.step_ms
            );
            self.steps += 1;
            self.report(step.into());
        }
        self.kernel.addresses().sweep();
        self.network.sniff();
        let (connections, sockets) = (self.kernel.connections(), self.socket_positions());
        self.reconciler.read_positions(&connections, sockets, ring.pump());
        self.programs = self.kernel.program_stats();
        self.detach_ended();
        self.reporter.check_store(&self.clock);
        self.reporter.check_sinks(&self.clock);
        if self.since.after(LIVES) <= self.clock.now() {
            self.kernel.proven();
        }
        if self.reload.has_changed() {
            self.reload("changed".into(), None);
        }
        let counters = self.counters();
        self.report_losses(&counters);
        self.report_shares(ring);
        self.publish(counters, ring);
    }

    /// Takes in what an fd scan has found.
    pub(super) fn take_scan(&mut self, scan: Option<FdScan>, ring: &mut RingReader) {
        let Some(scan) = scan else { return };
        let connections = self.kernel.connections();
        let sockets = self.sockets();
        self.reconciler.read_scan(scan, &connections, &sockets, ring.pump());
    }

    /// Compares what was read with what was captured, of those of whom all records were taken in that were in the ring when it
    /// was read, but for a record that a writer finished late: whatever is reported missing was so twice. Whether there was
    /// something to compare.
    pub(super) fn compare(&mut self, ring: &RingReader) -> bool {
        let ready = ring.with_taken(|is_taken| self.reconciler.take(is_taken));
        if ready.is_empty() {
            return false;
        }
        let Ready { checks, clients, scan } = ready;
        checks.into_iter().for_each(|check| self.check(check));
        if clients {
            self.with_capture(|capture, _, now, sink| capture.sockets().tick(now, sink));
        }
        scan.iter().for_each(|scan| self.sweep(scan));
        true
    }

    /// Ends connections that nobody holds, and reports what went by unseen of the others. The ring was drained since the fd
    /// scan.
    pub(super) fn collect(&mut self, scan: &FdScan) {
        let checks = reconciler::of_scan(scan, &self.kernel.connections(), &self.sockets());
        checks.into_iter().for_each(|(check, _)| self.check(check));
        self.sweep(scan);
    }

    /// Stops watching processes that hold no connection, and forgets servers that are gone.
    fn sweep(&mut self, scan: &FdScan) {
        self.kernel.sweep_sockets(&reconciler::held(scan), scan.began_ns);
        let pids: HashSet<u32> = scan.holders.iter().map(|holder| holder.pid).collect();
        self.kernel.prune(&pids, scan.began_ns);
        self.kernel.forget_servers();
        self.report_uncaptured(&scan.uncaptured);
    }

    /// Reports servers whose stdin and stdout are not captured, each process once.
    fn report_uncaptured(&mut self, found: &[(u32, Carrier)]) {
        let time = self.clock.now();
        for (pid, carrier) in self.uncaptured.new_of(found, process::running) {
            let transport = match carrier {
                Carrier::Packets => Transport::PacketSocket,
                Carrier::Pty => Transport::Pty,
            };
            self.handle(Input::Uncaptured { process: process::of(pid), transport, time });
        }
        self.execute();
    }

    /// Compares one connection.
    fn check(&mut self, check: Check) {
        if let Check::Ended(id, _) = check {
            self.kernel.remove(id);
        }
        self.with_capture(|capture, clock, now, sink| match check {
            Check::Positions(id, streams) => capture.look(id, &streams, now, sink),
            Check::Socket(id, closed) => capture.look_at_socket(id, closed.as_ref(), clock, now, sink),
            Check::Unseen(id, streams, waiting) => capture.judge(id, &streams, waiting, now, sink),
            Check::Ended(id, streams) => {
                capture.settle(id, &streams, now, sink);
                capture.close(id, clock, now, sink);
            }
        });
    }

    /// Compares what the kernel half counted, and never sent, when the ring is drained for the last time.
    pub(super) fn compare_finally(&mut self) {
        // Twice, since what is missing is reported only then. Nothing moves any more.
        for _ in 0..2 {
            let checks = reconciler::of_positions(&self.kernel.connections(), self.socket_positions());
            checks.into_iter().for_each(|(check, _)| self.check(check));
        }
    }

    /// How far connections of sockets are in the kernel.
    fn socket_positions(&self) -> SocketPositions {
        let positions = |(id, key): (u64, Option<u64>)| (id, key.and_then(|key| self.kernel.socket(key, id)));
        self.capture.socket_ids().into_iter().map(positions).collect()
    }

    /// Those that are known, as the kernel half has them.
    pub(super) fn sockets(&self) -> Vec<(u64, Socket)> {
        let known = |(id, key): (u64, Option<u64>)| Some((id, self.kernel.socket(key?, id)?));
        self.capture.socket_ids().into_iter().filter_map(known).collect()
    }
}
