//! One guard: loaded once, evaluated often.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use mcpwarden_terms::contract::{GuardFailure, GuardReply, GuardRequest};
use sha2::{Digest as _, Sha256};

use crate::{
    error::LoadError,
    instance::{Blueprint, Instance, Outcome},
    limits::{Limits, WasmConfig},
    load,
    pool::Pool,
    report::CallReport,
    runtime::Runtime,
};

/// How long the start of a guard may take when it is loaded.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// The circumstances of one call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The wall clock of the guard, in nanoseconds since 1970. It stands still during the call.
    pub now_ns: u64,
    /// The numbers that the guard gets as random follow from this one.
    pub seed: u64,
    /// The longest time until there is an answer, with the wait for an instance.
    pub timeout: Duration,
}

/// One loaded guard.
pub struct Guard {
    runtime: Runtime,
    name: String,
    sha256: String,
    blueprint: Blueprint,
    pool: Pool<Instance>,
}

impl Guard {
    /// Checks and compiles a component, and makes its first instance. `name` is for messages.
    ///
    /// # Errors
    /// The bytes are no component, the component is no guard of this version or needs what guards do not get, or it does not
    /// start within its limits.
    pub fn load(
        runtime: &Runtime,
        name: &str,
        bytes: &[u8],
        config: WasmConfig,
        limits: Limits,
    ) -> Result<Self, LoadError> {
        // A panic of the compiler must not end the agent: the other guards go on.
        catch_unwind(AssertUnwindSafe(|| Self::load_unguarded(runtime, name, bytes, config, limits)))
            .unwrap_or(Err(LoadError::Engine))
    }

    fn load_unguarded(
        runtime: &Runtime,
        name: &str,
        bytes: &[u8],
        config: WasmConfig,
        limits: Limits,
    ) -> Result<Self, LoadError> {
        load::check_head(bytes)?;
        let sha256 = hex(&Sha256::digest(bytes));
        let component = runtime.compile(bytes, &sha256)?;
        let (pre, exports) = load::link(runtime.engine(), &component)?;
        let engine = runtime.engine().clone();
        let blueprint = Blueprint { engine, pre, exports, config: Arc::new(config), limits };
        let running = runtime.ticker().run();
        let first = Instance::new(&blueprint, Instant::now() + START_TIMEOUT).map_err(|failed| {
            let (failure, mut report) = *failed;
            LoadError::Start { failure, last_line: report.logs.pop().map(|line| line.text) }
        })?;
        drop(running);
        let pool = Pool::new(limits.instances);
        pool.put(first);
        Ok(Self { runtime: runtime.clone(), name: name.to_owned(), sha256, blueprint, pool })
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The SHA-256 of the component, in hexadecimal.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Judges one operation, on the thread of the caller. Several threads may do so at once: beyond [`Limits::instances`]
    /// they wait.
    ///
    /// The answer, the log and the metrics depend on `request`, `now_ns` and `seed` alone, unless the guard remembers earlier
    /// calls: instances serve many calls, in any order.
    ///
    /// # Errors
    /// The guard has no verdict, its answer is invalid, or it exceeded a limit. The next call gets another instance then.
    pub fn evaluate(
        &self,
        request: &GuardRequest,
        call: Call,
    ) -> (Result<GuardReply, GuardFailure>, CallReport) {
        let started = Instant::now();
        // An instance that panicked is dropped, as one that trapped.
        let (result, mut report) = catch_unwind(AssertUnwindSafe(|| self.run(request, call, started)))
            .unwrap_or_else(|_| {
                let text = "the WebAssembly engine failed; this is a fault of the agent";
                (Err(GuardFailure::Error(text.to_owned())), CallReport::default())
            });
        report.elapsed = started.elapsed();
        (result, report)
    }

    fn run(
        &self,
        request: &GuardRequest,
        call: Call,
        started: Instant,
    ) -> (Result<GuardReply, GuardFailure>, CallReport) {
        let Some(deadline) = started.checked_add(call.timeout) else {
            return (Err(GuardFailure::Error("the timeout is not a time".to_owned())), CallReport::default());
        };
        let Some(mut slot) = self.pool.take(deadline) else {
            let text = format!("all instances ({}) were busy until the timeout", self.pool.size());
            return (Err(GuardFailure::Refused(text)), CallReport::default());
        };
        let _running = self.runtime.ticker().run();
        let instance = match slot.idle.take() {
            Some(instance) => instance,
            None => match Instance::new(&self.blueprint, deadline) {
                Ok(instance) => instance,
                Err(failed) => {
                    let (failure, report) = *failed;
                    return (Err(failure), report);
                }
            },
        };
        let Outcome { result, report, instance } =
            instance.call(&self.blueprint.limits, request, call.now_ns, call.seed, deadline);
        if let Some(instance) = instance {
            self.pool.put(instance);
        }
        (result, report)
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string never fails.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
