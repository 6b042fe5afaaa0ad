//! State per connection: which are servers, which answer belongs to which request, which connections are relays,
//! and what is to be said of it all.
//!
//! [`Engine::handle`] takes one [`Input`] and appends [`Output`]s; [`Engine::tick`] does what only time brings
//! about. Both take `now`, which must not run backwards by more than the capture's reordering.

mod config;
mod io;

pub use config::{Counters, Declared, EngineConfig, EngineLimits, Payloads};
pub use io::{Exec, ExitStatus, Input, Output, Process};

use crate::ids::Timestamp;

/// The state of everything watched.
pub struct Engine {
    config: EngineConfig,
    counters: Counters,
}

impl Engine {
    /// An engine that knows of nothing yet.
    pub fn new(config: EngineConfig) -> Self {
        Self { config, counters: Counters::default() }
    }

    /// Takes one input in and appends what follows from it to `out`.
    pub fn handle(&mut self, input: Input<'_>, now: Timestamp, out: &mut Vec<Output>) {
        let _ = (input, now, out, &self.config);
    }

    /// Does what is due at `now`: held requests are released, exits said, late answers given up.
    pub fn tick(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        let _ = (now, out);
    }

    /// When [`Engine::tick`] has something to do next; `None` when nothing is waiting.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        None
    }

    /// What happened so far, in numbers.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}
