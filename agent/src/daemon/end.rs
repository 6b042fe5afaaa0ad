//! The end of an agent: nothing that was captured is left unsaid, within bounds of time.

use std::time::Duration;

use mcpwarden_kernel::Ring;
use mcpwarden_policy::{EventBody, event::AgentStopped};
use tokio::{io::unix::AsyncFd, signal::unix::Signal};

use super::{Agent, Drained};
use crate::metrics::Stage;

/// How long an ending agent waits for whoever reads its output. It ends within 2 seconds, and after this the writer has
/// `output::PATIENCE`.
const LAST_WORDS: Duration = Duration::from_millis(800);
/// How long it waits for those who follow.
const LAST_FOLLOWED: Duration = Duration::from_millis(100);

impl Agent {
    /// Detaches, takes in what is left, and says what was done.
    pub(super) async fn end(
        &mut self,
        mut ring: AsyncFd<Ring>,
        reason: &str,
        interrupt: &mut Signal,
        terminate: &mut Signal,
    ) {
        self.metrics.stage(Stage::Ending);
        self.manager.stopping(reason);
        self.programs = self.kernel.program_stats();
        self.kernel.detach();
        let until = tokio::time::Instant::now() + LAST_WORDS;
        while tokio::time::Instant::now() < until {
            let drained = self.drain(ring.get_mut());
            let last = tokio::time::timeout_at(until, self.flush(interrupt, terminate)).await;
            if drained == Drained::All || last != Ok(None) {
                break;
            }
        }
        if self.kernel.is_kept() {
            self.kernel.proven();
            self.with_capture(|capture, clock, now, sink| capture.leave(clock, now, sink));
        } else {
            self.look_for_the_last_time();
        }
        self.engine.end(self.clock.now(), &mut self.outputs);
        self.carry_out();
        let counters = self.counters();
        for loss in self.loss.look(&counters) {
            self.say(loss.into());
        }
        self.end_blocks();
        self.say(EventBody::AgentStopped(AgentStopped { reason: reason.into(), counters }));
        let _ = tokio::time::timeout_at(until, self.flush(interrupt, terminate)).await;
        // Who does not read is cut off, and sees that there was no end.
        let _ = tokio::time::timeout(LAST_FOLLOWED, self.control.end_following()).await;
    }

    /// What the kernel half counted, and never sent.
    fn look_for_the_last_time(&mut self) {
        // Twice, since what is missing counts only then. Nothing moves any more.
        for _ in 0..2 {
            for (id, entry) in self.kernel.connections() {
                let streams = entry.positions.streams;
                self.with_capture(|capture, _, now, sink| capture.look(id, &streams, now, sink));
            }
            for (id, streams) in self.socket_positions() {
                self.with_capture(|capture, clock, now, sink| {
                    capture.look_at_socket(id, streams.as_ref(), clock, now, sink);
                });
            }
        }
    }
}
