//! Everything that an event goes to: metrics, followers, sinks, the store and standard output.

use std::time::{Duration, Instant};

use mcpwarden_policy::{Event, EventBody};
use mcpwarden_sinks::Sinks;
use mcpwarden_store::StoreUpdate;

use super::outbox::Outbox;
use crate::{control::Followers, host::clock::Clock, metrics::Metrics};

/// How long an ending agent waits for its followers.
const LAST_FOLLOWED: Duration = Duration::from_millis(100);
/// How long an ending agent waits for its sinks.
const LAST_SENT: Duration = Duration::from_millis(400);

/// Reports events.
pub struct Reporter {
    /// The store and standard output.
    pub outbox: Outbox,
    /// All other outputs that are configured.
    pub sinks: Sinks,
    /// Who follows events at the control socket.
    pub followers: Followers,
    /// What is counted of events.
    pub metrics: Metrics,
}

impl Reporter {
    /// Counts an event, stores it, sends it and prints it, and hands it to those who follow: with the wall time of now.
    pub fn emit(&mut self, mut event: Event, clock: &Clock) {
        let Self { outbox, sinks, followers, metrics } = self;
        metrics.observe(&event, || clock.now());
        clock.print(&mut event);
        outbox.add(event, |event, line| {
            followers.offer(event, line);
            sinks.offer(event, line)
        });
    }

    /// Reports an event of the agent itself.
    pub fn report(&mut self, body: EventBody, clock: &Clock) {
        self.emit(Event::agent(clock.now(), body), clock);
    }

    /// Reports an event of the store. Where that is that events cannot be stored, metrics and status report it from now on.
    pub fn report_store(&mut self, body: EventBody, clock: &Clock) {
        if let EventBody::StoreFailing(failing) = &body {
            self.metrics.store(Some(&failing.reason));
            self.outbox.set_failing(failing.reason.clone());
        }
        self.report(body, clock);
    }

    /// Reports what became of the store, and the length of the chain where that is due.
    pub fn check_store(&mut self, clock: &Clock) {
        if let Some(head) = self.outbox.due_head() {
            self.report(head.into(), clock);
        }
        for update in self.outbox.store_updates() {
            match update {
                StoreUpdate::Report(body) => self.report_store(*body, clock),
                StoreUpdate::Recovered { stored, ours } => {
                    self.metrics.store(None);
                    let recovered = self.outbox.recover(stored, ours);
                    self.report(recovered.into(), clock);
                }
            }
        }
    }

    /// Nothing more will be reported: followers get what waits, and the end. A follower that does not read is cut off, and sees
    /// that there was no end.
    pub async fn end_following(&self) {
        self.followers.end();
        let _ = tokio::time::timeout(LAST_FOLLOWED, self.followers.gone()).await;
    }

    /// Closes the store and standard output until then at the latest; `writer` waits for the latter. The sinks come last.
    pub fn finish(self, until: Instant, writer: impl FnOnce(Instant)) {
        self.outbox.finish(until);
        writer(until);
        self.sinks.finish(LAST_SENT);
    }
}
