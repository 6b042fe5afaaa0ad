//! The thread that advances the epoch of the engine while calls are running, so that calls end in time.

use std::{
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use wasmtime::Engine;

/// The time between two ticks; a call may end this much after its deadline.
const TICK: Duration = Duration::from_millis(1);

/// Advances the epoch of one engine.
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Calls that are running. Without any, the thread waits.
    running: usize,
    stopped: bool,
}

/// One running call; the ticker ticks while there is one.
pub(crate) struct Running<'a>(&'a Shared);

impl Ticker {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub(crate) fn start(engine: Engine) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let thread = thread::Builder::new().name("wasm-ticker".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.tick(&engine)
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Notes that a call runs, until the return value is dropped.
    pub(crate) fn run(&self) -> Running<'_> {
        let mut state = self.shared.lock();
        state.running += 1;
        if state.running == 1 {
            self.shared.changed.notify_one();
        }
        Running(&self.shared)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.running = state.running.saturating_sub(1);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // The thread cannot panic, and what it would say is of no use.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tick(&self, engine: &Engine) {
        let mut state = self.lock();
        while !state.stopped {
            if state.running == 0 {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else {
                // An early tick does no harm: each call compares the clock with its deadline.
                (state, _) = self.changed.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner);
                engine.increment_epoch();
            }
        }
    }
}
