//! Metrics and health: what the agent says about itself, over HTTP.
//!
//! The agent publishes its numbers once a second; whoever asks gets those, from a thread of its own. Nobody who asks can
//! hold the agent up, and an agent that hangs is still said to.

mod health;
pub mod observe;
pub mod page;
mod server;
pub mod table;
#[cfg(test)]
mod tests;

use std::{
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use anyhow::{Context as _, Result};
use hyper::body::Bytes;
use mcpwarden_policy::{Event, Timestamp};
use prometheus::Registry;
use tokio::sync::oneshot;

use health::Health;
pub use health::Stage;
use observe::Observer;
pub use page::{Sample, Snapshot};
use server::Counts;

use crate::external::Answered;
pub use server::ScrapeCounters;

/// Of so many records, the policy core is timed in one.
pub const TIMED: u64 = 64;

/// What the agent's task and the thread that answers share.
#[derive(Default)]
struct Shared {
    snapshot: Mutex<Arc<Snapshot>>,
    registry: Registry,
    health: Health,
    counts: Counts,
    /// The page, and when it was made.
    page: Mutex<Option<(Instant, Bytes)>>,
}

/// Counts, and answers those who ask.
pub struct Metrics {
    observer: Observer,
    shared: Arc<Shared>,
    /// The thread ends with this.
    _stop: oneshot::Sender<()>,
}

impl Metrics {
    /// Begins to count, and to answer at an address. Where that cannot be used, a line on standard error says so, and the
    /// agent goes on without.
    ///
    /// # Errors
    /// There can be no thread.
    pub fn start(listen: Option<SocketAddr>) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let observer = Observer::new(&shared.registry).context("cannot count")?;
        let (stop, stopped) = oneshot::channel();
        if let Some(listen) = listen {
            match TcpListener::bind(listen).and_then(|listener| {
                listener.set_nonblocking(true)?;
                Ok(listener)
            }) {
                Ok(listener) => server::start(listener, Arc::clone(&shared), stopped)
                    .context("cannot start the thread of the metrics")?,
                Err(error) => tracing::warn!(
                    "metrics: cannot listen at {listen}: {error}; metrics and health are unavailable until metrics.listen names a free address"
                ),
            }
        }
        Ok(Self { observer, shared, _stop: stop })
    }

    /// An event is said.
    pub fn observe(&mut self, event: &Event, now: impl Fn() -> Timestamp) {
        self.observer.event(event, now);
    }

    /// Does what the policy core does with an input, and times it if so.
    pub fn time<T>(&self, timed: bool, body: impl FnOnce() -> T) -> T {
        if !timed {
            return body();
        }
        let start = Instant::now();
        let result = body();
        self.observer.engine(start.elapsed());
        result
    }

    /// What was told by bytes that came then counts in the gate's table now.
    pub fn gate(&self, since: Timestamp, now: Timestamp) {
        self.observer.gate(since, now);
    }

    /// A guard that others wrote has answered, or has not.
    pub fn guard(&self, answered: &Answered) {
        self.observer.guard(answered);
    }

    /// The ring was drained to its end.
    pub fn drained(&self) {
        self.shared.health.drained();
    }

    /// How far the agent is.
    pub fn stage(&self, stage: Stage) {
        self.shared.health.stage(stage);
    }

    /// Events cannot be stored, for this reason; or they can.
    pub fn store(&self, failing: Option<&str>) {
        self.shared.health.store(failing);
    }

    /// These sinks fail, in words.
    pub fn sinks(&self, failing: Vec<String>) {
        self.shared.health.remark(failing);
    }

    /// What is said from now on.
    pub fn publish(&self, snapshot: Snapshot) {
        *self.shared.snapshot.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(snapshot);
    }

    /// What came of requests so far.
    pub fn counters(&self) -> ScrapeCounters {
        self.shared.counts.read()
    }
}
