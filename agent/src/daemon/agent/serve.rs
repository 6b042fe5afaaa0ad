//! The main loop: records of the ring, signals, requests and timers, in turn.

use std::{
    collections::HashSet,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use mcpwarden_kernel::{Met, requirements};
use mcpwarden_policy::{EventBody, Timestamp, event::AgentStarted};
use mcpwarden_system::boot::boot_id;
use tokio::signal::unix::{SignalKind, signal};

use super::{Agent, WATCHING};
use crate::{
    daemon::{reconciler, ring::RingReader, signals::Ending},
    host::process,
    metrics::Stage,
    network::Belonging,
};

/// Records taken before signals and timers get a turn, and events that were made are handed on.
const BATCH_RECORDS: usize = 4096;
/// How long that may take: a record can hold a thousand messages.
const BATCH_TIME: Duration = Duration::from_millis(20);
/// How often positions are compared with the kernel's.
const RECONCILE_EVERY: Duration = Duration::from_secs(1);
/// How long it is waited at least between two looks at what is due.
const LEAST_WAIT: Duration = Duration::from_millis(1);
/// How long the start waits for the addresses of names.
const FIRST_NAMES: Duration = Duration::from_secs(3);

/// Whether all records were taken in.
#[derive(PartialEq)]
pub(super) enum Drained {
    /// All that were in the ring or its queue.
    All,
    /// Up to the bound of a batch, or of the outbox.
    Part,
}

impl Agent {
    /// Runs until a signal ends the agent. `met`: what was there already, where it resumes what another
    /// agent left.
    ///
    /// # Errors
    /// The servers that already run cannot be found, or what is to outlive the agent cannot be kept.
    pub async fn serve(
        &mut self,
        mut ring: RingReader,
        config: Option<&PathBuf>,
        met: Option<Met>,
    ) -> Result<()> {
        let mut ending = Ending::listen()?;
        let mut hangup = signal(SignalKind::hangup())?;
        let mut ended = self.start(&mut ring, config, met, &mut ending).await?;
        ring.start().context("cannot start the thread that empties the ring buffer")?;
        let mut next_reconcile = tokio::time::Instant::now() + RECONCILE_EVERY;
        let mut ticked = tokio::time::Instant::now();
        let reason = loop {
            // While records wait nothing here does: without this the runtime would see neither signals nor requests nor time.
            tokio::task::yield_now().await;
            // No signal is awaited after the first one to end.
            if let Some(reason) = ended.take() {
                break reason;
            }
            self.renew_gate();
            self.start_inspections();
            if let Some(reason) = self.flush(&mut ending).await {
                break reason;
            }
            // What was read from the kernel's tables is compared when records were taken in that were in the ring then. Events
            // that come of it are handed on at once.
            if self.reconciler.is_waiting() {
                self.drain(&mut ring);
                if self.compare(&ring) {
                    continue;
                }
            }
            let due = self.due().min(next_reconcile).min(self.scans.next());
            // Not more often than each millisecond: what is due now is done together with what comes until then. And not by a
            // timer alone, which would begin anew with each batch of records.
            let mut deadline = due.max(ticked + LEAST_WAIT);
            if deadline <= tokio::time::Instant::now() {
                ticked = tokio::time::Instant::now();
                self.do_due(&mut ring, &mut next_reconcile);
                deadline = ticked + LEAST_WAIT;
            }
            tokio::select! {
                biased;
                reason = ending.signal() => break reason,
                _ = hangup.recv() => self.reload("SIGHUP".into(), None),
                prepared = self.reload.prepared() => self.reloaded(prepared),
                scan = self.scans.finished() => self.take_scan(scan, &mut ring),
                update = self.network.update() => self.take_network(update),
                Some(request) = self.control.next() => self.execute_request(request),
                Some(report) = self.listing.next() => self.take_listing(report),
                Some(inspected) = self.inspections.finished() => self.take_inspected(inspected),
                Some(searched) = self.tls.searched() => self.take_searched(searched),
                Some(answered) = self.guards.answered() => self.take_answer(answered),
                // What is due is done above.
                () = tokio::time::sleep_until(deadline) => {}
                () = ring.ready() => drop(self.drain(&mut ring)),
            }
        };
        self.end(ring, reason, &mut ending).await;
        Ok(())
    }

    /// Takes in what is there already, and reports that the agent runs. A reason to end, if there is one already.
    async fn start(
        &mut self,
        ring: &mut RingReader,
        config: Option<&PathBuf>,
        met: Option<Met>,
        ending: &mut Ending,
    ) -> Result<Option<&'static str>> {
        let mut ended = self.first_names(ending).await;
        let found = match met {
            Some(_) => self.adopt_behind(ring)?,
            None => self.adopt()?,
        };
        // What existed when the fd scan ended is taken in first; what comes meanwhile does not hold the start up.
        while ended.is_none() && self.drain(ring) == Drained::Part && ring.passed_ns() <= found.ended_ns {
            ended = self.flush(ending).await;
        }
        if ended.is_none() {
            self.with_capture(|capture, _, _, sink| capture.resume(sink));
            self.collect(&found);
            met.into_iter().for_each(|met| self.detach_sockets(&met));
            self.adopt_sockets();
        }
        self.prepare_for_tls();
        // What the agent before judges, this one judges from now on, too.
        if ended.is_none() {
            self.renew_gate();
        }
        // An agent that ends before it is ready leaves to the one before what that does.
        let taken_over = if ended.is_none() { self.take_over()? } else { None };
        self.report(EventBody::AgentStarted(AgentStarted {
            version: env!("CARGO_PKG_VERSION").into(),
            kernel: requirements::release(),
            backend: self.kernel.backend().name().into(),
            boot_id: boot_id(),
            config: config.map(|path| path.display().to_string()),
            programs: self.kernel.attached().to_vec(),
            blind_spots: self.blind_spots(),
            servers_adopted: self.engine.counters().servers,
            taken_over,
        }));
        self.publish(self.counters(), ring);
        self.reporter.metrics.stage(Stage::Running);
        // The event is on its way before anybody is notified that the agent is ready.
        if ended.is_none() {
            ended = self.flush(ending).await;
        }
        self.renew_gate();
        self.manager.ready(WATCHING);
        process::give_memory_back();
        process::give_program_back();
        let belonging = Belonging { members: self.kernel.members().all(), sets: self.kernel.confirmed() };
        self.network.adopt(belonging, &self.clock);
        self.scans.restart(tokio::time::Instant::now());
        Ok(ended)
    }

    /// Resolves all names, and waits for them no longer than is good for a start. A signal that came meanwhile.
    async fn first_names(&mut self, ending: &mut Ending) -> Option<&'static str> {
        self.network.resolve();
        if self.network.is_resolving() {
            tokio::select! {
                reason = ending.signal() => return Some(reason),
                update = self.network.update() => self.take_network(update),
                () = tokio::time::sleep(FIRST_NAMES) => {}
            }
        }
        None
    }

    /// Starts an fd scan.
    fn start_scan(&mut self, now: tokio::time::Instant) {
        let file = self.kernel.fd_scan();
        let sides = match file {
            Ok(_) => reconciler::suspects(&self.kernel.connections(), &self.sockets(), |id| {
                self.capture.suspects(id)
            }),
            Err(_) => HashSet::new(),
        };
        self.scans.start(file, sides, now);
    }

    /// Does what is due by now.
    fn do_due(&mut self, ring: &mut RingReader, next_reconcile: &mut tokio::time::Instant) {
        let now = tokio::time::Instant::now();
        self.tick(ring);
        self.expire_blocks();
        self.deny_found();
        self.network.resolve();
        if now >= *next_reconcile {
            *next_reconcile = now + RECONCILE_EVERY;
            self.housekeeping(ring);
            // For what no event reports, such as that a list is whole.
            self.gate.touch();
        }
        if self.scans.is_due(now) {
            self.start_scan(now);
        }
    }

    /// When the next thing is due that no record announces.
    fn due(&self) -> tokio::time::Instant {
        let now = self.clock.now();
        let expiry = self.network.next_expiry(&self.clock);
        let next = [self.engine.next_deadline(), self.capture.next_deadline(), expiry, self.gate.until()]
            .into_iter()
            .flatten()
            .min();
        tokio::time::Instant::now() + wait(next, now)
    }

    /// Takes in the records that wait in the ring and its queue, up to a bound.
    pub(super) fn drain(&mut self, ring: &mut RingReader) -> Drained {
        ring.pump();
        let drained = self.take_all(ring);
        self.refused = ring.refused_in_all();
        if ring.has_passed() {
            self.reporter.metrics.drained();
        }
        self.manager.drained();
        drained
    }

    /// Takes in the records that wait in its queue, up to a bound.
    pub(super) fn take_all(&mut self, ring: &mut RingReader) -> Drained {
        let mut now = self.clock.now();
        let until = Instant::now() + BATCH_TIME;
        for count in 0..BATCH_RECORDS {
            if self.reporter.outbox.is_full() || Instant::now() >= until {
                return Drained::Part;
            }
            if count % 64 == 63 {
                now = self.clock.now();
            }
            if !ring.next(|record| self.take(record, now)) {
                return Drained::All;
            }
        }
        Drained::Part
    }

    /// Hands the events on. Waits while the store is behind; a signal ends the wait, and is returned as the reason to stop.
    pub(super) async fn flush(&mut self, ending: &mut Ending) -> Option<&'static str> {
        // Signals first, so that a flood of records cannot keep them away. The events stay in the outbox until there is
        // capacity for them: the end of the agent is reported, too.
        tokio::select! {
            biased;
            reason = ending.signal() => Some(reason),
            () = self.reporter.flush() => None,
        }
    }
}

/// How long to wait for what is due `next`.
fn wait(next: Option<Timestamp>, now: Timestamp) -> Duration {
    next.map_or(RECONCILE_EVERY, |at| Duration::from_nanos(at.nanos_since(now)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overdue_timers_do_not_wait() {
        const MS: u64 = 1_000_000;
        for (next, expected) in [
            (None, RECONCILE_EVERY),
            (Some(0), Duration::ZERO),
            (Some(100 * MS), Duration::ZERO),
            (Some(100 * MS + 5), Duration::from_nanos(5)),
            (Some(107 * MS), Duration::from_millis(7)),
        ] {
            assert_eq!(wait(next.map(Timestamp), Timestamp(100 * MS)), expected, "{next:?}");
        }
    }
}
