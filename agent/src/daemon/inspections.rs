//! Long messages are inspected on threads of their own, one each: the agent's task goes on meanwhile. The policy core says how many.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

use mcpwarden_policy::{Inspected, LongMessage};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// How much less of a processor than other threads this one gets where not all find one (`nice`): the agent's task comes first.
const NICE: i32 = 10;

/// Has this thread yield to those of the agent that take in records.
fn yield_to_others() {
    // SAFETY: no pointer is given. On Linux, who is 0 is this thread alone.
    let outcome = unsafe { nix::libc::setpriority(nix::libc::PRIO_PROCESS, 0, NICE) };
    if outcome != 0 {
        tracing::debug!(
            "a thread that inspects a long message cannot yield: {}",
            std::io::Error::last_os_error()
        );
    }
}

/// The inspections that run.
pub struct Inspections {
    // Never more than run at once.
    outcomes: (UnboundedSender<Inspected>, UnboundedReceiver<Inspected>),
}

impl Default for Inspections {
    fn default() -> Self {
        Self { outcomes: unbounded_channel() }
    }
}

impl Inspections {
    /// Starts one. A thread ends with the process if not before: the agent does not wait for it.
    pub fn start(&self, long: LongMessage) {
        let (id, sender) = (long.id(), self.outcomes.0.clone());
        let inspect = move || {
            yield_to_others();
            let outcome = catch_unwind(AssertUnwindSafe(|| long.inspect()));
            // Nobody waits for it any more where the agent ends.
            let _ = sender.send(outcome.unwrap_or_else(|_| Inspected::failed(id)));
        };
        if let Err(error) = thread::Builder::new().name("inspection".to_owned()).spawn(inspect) {
            tracing::error!(
                "cannot start a thread that inspects a long message: {error}; most of it is not inspected"
            );
            let _ = self.outcomes.0.send(Inspected::failed(id));
        }
    }

    /// Waits for the next outcome; for ever where none runs.
    pub async fn finished(&mut self) -> Option<Inspected> {
        self.outcomes.1.recv().await
    }
}
