//! The end of an agent: nothing that was captured is left unreported, within bounds of time.

use std::time::{Duration, Instant};

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
/// Bytes that it takes out of the ring at once.
const LAST_PIECE: u64 = 256 * 1024;
/// How long it takes in, after that, what its store has no capacity for yet.
const LAST_RECORDS: Duration = Duration::from_millis(200);
/// Bytes of events that wait meanwhile.
const LAST_BYTES: usize = 32 << 20;

impl Agent {
    /// Detaches, takes in what is left, and reports what was done.
    pub(super) async fn end(&mut self, mut ring: RingReader, reason: &str, ending: &mut Ending) {
        self.reporter.metrics.stage(Stage::Ending);
        self.manager.stopping(reason);
        self.programs = self.kernel.program_stats();
        self.kernel.detach();
        ring.stop();
        let until = tokio::time::Instant::now() + LAST_EVENTS;
        // Only as much is taken out of the ring as is handed on: an agent that goes on with this one's programs reads the rest.
        let mut left = ring.used();
        while tokio::time::Instant::now() < until {
            let drained = self.take_all(&mut ring);
            let last = tokio::time::timeout_at(until, self.flush(ending)).await;
            if last != Ok(None) || (drained == Drained::All && left == 0) {
                break;
            }
            if drained == Drained::All {
                let some = left.min(LAST_PIECE);
                ring.pump_some(some);
                left -= some;
            }
        }
        let is_kept = self.kernel.is_kept();
        if !is_kept {
            ring.pump();
        }
        self.take_last(&mut ring);
        self.refused = ring.refused_in_all();
        if is_kept {
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
        self.reporter.flush_at_last();
        self.reporter.end_following().await;
    }

    /// Takes in what waits though the store is behind. What there is no time or memory left for is reported without its bytes: they
    /// are missing.
    fn take_last(&mut self, ring: &mut RingReader) {
        let now = self.clock.now();
        let until = Instant::now() + LAST_RECORDS;
        let mut has_room = true;
        while ring.next(|record| {
            has_room = has_room && Instant::now() < until && self.reporter.outbox.bytes() < LAST_BYTES;
            if has_room {
                self.take(record, now);
            } else {
                self.take(&without_bytes(record), now);
            }
        }) {}
    }
}
