//! Everything that an event goes to: metrics, followers, sinks, the store and standard output.

use std::time::{Duration, Instant};

use mcpwarden_policy::{Event, EventBody};
use mcpwarden_sinks::Sinks;
use mcpwarden_store::StoreUpdate;

use super::{outbox::Outbox, sink_watch::SinkWatch};
use crate::{control::Followers, host::clock::Clock, metrics::Metrics};

/// How long an ending agent waits for its followers.
const LAST_FOLLOWED: Duration = Duration::from_millis(100);
/// How long an ending agent waits for its database to be closed, and for its sinks meanwhile.
const LAST_SENT: Duration = Duration::from_millis(600);

/// Reports events.
pub struct Reporter {
    /// The store, and what is printed on its way there.
    pub outbox: Outbox,
    /// All other outputs.
    pub sinks: Sinks,
    /// Which of them fail.
    pub sink_watch: SinkWatch,
    /// Who follows events at the control socket.
    pub followers: Followers,
    /// What is counted of events.
    pub metrics: Metrics,
}

impl Reporter {
    /// Counts an event, stores it, sends it and prints it, and hands it to those who follow: with the wall time of now.
    pub fn emit(&mut self, mut event: Event, clock: &Clock) {
        let Self { outbox, sinks, followers, metrics, .. } = self;
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

    /// Hands events on, once the store has capacity.
    pub async fn flush(&mut self) {
        self.outbox.flush(&self.sinks).await;
    }

    /// Hands on what is left at the end, whether or not the store has capacity.
    pub fn flush_at_last(&mut self) {
        self.outbox.flush_at_last(&self.sinks);
    }

    /// Reports which sinks fail, and which take events again.
    pub fn check_sinks(&mut self, clock: &Clock) {
        let reported = self.sink_watch.look(self.sinks.counters());
        self.metrics.sinks(self.sink_watch.failing());
        reported.into_iter().for_each(|body| self.report(body, clock));
    }

    /// Nothing more will be reported: followers get what waits, and the end. A follower that does not read is cut off, and sees
    /// that there was no end.
    pub async fn end_following(&self) {
        self.followers.end();
        let _ = tokio::time::timeout(LAST_FOLLOWED, self.followers.gone()).await;
    }

    /// Closes the store and the sinks, within bounds of time.
    pub fn finish(self) {
        self.sinks.close();
        let until = Instant::now() + LAST_SENT;
        self.outbox.finish(until);
        self.sinks.finish(until);
    }
}
