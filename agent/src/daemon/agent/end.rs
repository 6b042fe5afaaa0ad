//! The end of an agent: nothing that was captured is left unreported, within bounds of time.

use std::time::Duration;

use mcpwarden_policy::{EventBody, event::AgentStopped};

use super::{Agent, serve::Drained};
use crate::{
    daemon::{
        ring::{RingReader, without_bytes},
        signals::Ending,
    },
    metrics::Stage,
};

/// How long an ending agent waits for its store to have capacity. It ends within 2 seconds, and after this the store and the sinks
/// have as long as [`Reporter::finish`](crate::daemon::reporter::Reporter::finish) gives them.
const LAST_EVENTS: Duration = Duration::from_millis(800);

impl Agent {
    /// Detaches, takes in what is left, and reports what was done.
    pub(super) async fn end(&mut self, mut ring: RingReader, reason: &str, ending: &mut Ending) {
        self.reporter.metrics.stage(Stage::Ending);
        self.manager.stopping(reason);
        self.programs = self.kernel.program_stats();
        self.kernel.detach();
        ring.stop();
        let until = tokio::time::Instant::now() + LAST_EVENTS;
        while tokio::time::Instant::now() < until {
            let drained = self.drain(&mut ring);
            let last = tokio::time::timeout_at(until, self.flush(ending)).await;
            if drained == Drained::All || last != Ok(None) {
                break;
            }
        }
        self.give_up(&mut ring);
        self.finish_inspections(until, ending).await;
        if self.kernel.is_kept() {
            self.kernel.proven();
            self.with_capture(|capture, clock, now, sink| capture.leave(clock, now, sink));
        } else {
            self.compare_finally();
        }
        self.engine.end(self.clock.now(), &mut self.pending.outputs);
        self.execute();
        let counters = self.counters();
        self.report_losses(&counters);
        self.report_shares(&ring);
        self.end_blocks();
        self.report(EventBody::AgentStopped(AgentStopped { reason: reason.into(), counters }));
        let _ = tokio::time::timeout_at(until, self.flush(ending)).await;
        self.reporter.end_following().await;
    }

    /// Waits for inspections that run, and those that wait behind them.
    async fn finish_inspections(&mut self, until: tokio::time::Instant, ending: &mut Ending) {
        while self.engine.waiting_inputs().0 > 0 && tokio::time::Instant::now() < until {
            self.start_inspections();
            if self.engine.is_inspecting() {
                match tokio::time::timeout_at(until, self.inspections.finished()).await {
                    Ok(Some(inspected)) => self.take_inspected(inspected),
                    Ok(None) | Err(_) => return,
                }
            } else {
                self.engine.tick(self.clock.now(), &mut self.pending.outputs);
                self.execute();
            }
            let _ = tokio::time::timeout_at(until, self.flush(ending)).await;
        }
    }

    /// There is no time left for what waits: its bytes are missing.
    fn give_up(&mut self, ring: &mut RingReader) {
        let now = self.clock.now();
        while ring.next(|record| self.take(&without_bytes(record), now)) {}
    }
}
