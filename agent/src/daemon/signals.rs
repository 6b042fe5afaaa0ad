//! The signals that end the agent.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receives SIGINT and SIGTERM.
pub struct Ending {
    interrupt: Signal,
    terminate: Signal,
}

impl Ending {
    /// From now on these signals are received here. To be called within a runtime.
    ///
    /// # Errors
    /// A handler cannot be installed.
    pub fn listen() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for one of them; its name.
    pub async fn signal(&mut self) -> &'static str {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}
