//! One instance of a guard: its store, its functions, and one call of it.

use std::{sync::Arc, time::Instant};

use mcpwarden_terms::contract::{GuardFailure, GuardReply, GuardRequest};
use wasmtime::{Engine, Store, Trap, UpdateDeadline, component::InstancePre};

use crate::{
    contract::{self, Exports, Functions},
    error::HostError,
    limits::{ERROR_BYTES, GROWTH_KEPT_BYTES, HANDLES, Limits, WasmConfig, cut},
    report::CallReport,
    state::{Refused, State},
};

/// What instances of one guard are made of.
pub(crate) struct Blueprint {
    pub engine: Engine,
    pub pre: InstancePre<State>,
    pub exports: Exports,
    pub config: Arc<WasmConfig>,
    pub limits: Limits,
}

/// One instance. It serves one call at a time.
pub(crate) struct Instance {
    store: Store<State>,
    functions: Functions,
    /// Bytes of memory before the first call.
    initial_bytes: usize,
}

/// How a call ended.
pub(crate) struct Outcome {
    pub result: Result<GuardReply, GuardFailure>,
    pub report: CallReport,
    /// The instance, if it may serve another call.
    pub instance: Option<Instance>,
}

impl Instance {
    /// Makes an instance, and runs what the guest runs at its start. Time and seed are 0 for every instance, so that all
    /// instances of a guard begin in the same state.
    ///
    /// # Errors
    /// The guest trapped or exceeded a limit; and what it reported.
    pub(crate) fn new(
        blueprint: &Blueprint,
        deadline: Instant,
    ) -> Result<Self, Box<(GuardFailure, CallReport)>> {
        let limits = &blueprint.limits;
        let state = State::new(Arc::clone(&blueprint.config), limits);
        let mut store = Store::new(&blueprint.engine, state);
        store.limiter(|state| &mut state.bounds);
        store.set_hostcall_fuel(limits.answer_bytes);
        store.set_max_component_handles(HANDLES);
        store.epoch_deadline_callback(|store| {
            let in_time = store.data().deadline.is_some_and(|deadline| Instant::now() < deadline);
            Ok(if in_time { UpdateDeadline::Continue(1) } else { UpdateDeadline::Interrupt })
        });
        let functions = begin(&mut store, limits, 0, 0, deadline).and_then(|()| {
            let instance = blueprint.pre.instantiate(&mut store)?;
            Functions::of(&mut store, &instance, &blueprint.exports)
        });
        match functions {
            Ok(functions) => {
                let initial_bytes = store.data().bounds.memory_bytes();
                Ok(Self { store, functions, initial_bytes })
            }
            Err(error) => {
                let failure = failure(&error, store.data(), limits);
                Err(Box::new((failure, report(&mut store, limits))))
            }
        }
    }

    /// Judges one operation.
    pub(crate) fn call(
        mut self,
        limits: &Limits,
        request: &GuardRequest,
        now_ns: u64,
        seed: u64,
        deadline: Instant,
    ) -> Outcome {
        let answer = begin(&mut self.store, limits, now_ns, seed, deadline)
            .and_then(|()| self.functions.call(&mut self.store, request));
        let report = report(&mut self.store, limits);
        match answer {
            Ok(answer) => {
                Outcome { result: contract::check(answer), report, instance: self.is_small().then_some(self) }
            }
            Err(error) => {
                Outcome { result: Err(failure(&error, self.store.data(), limits)), report, instance: None }
            }
        }
    }

    /// Whether the memory of the guest has not grown so much that the instance should rather be made anew: memory of guests
    /// never shrinks.
    fn is_small(&self) -> bool {
        let bytes = self.store.data().bounds.memory_bytes();
        bytes.saturating_sub(self.initial_bytes) <= GROWTH_KEPT_BYTES
    }
}

/// Sets fuel, time and state for one run of the guest.
fn begin(
    store: &mut Store<State>,
    limits: &Limits,
    now_ns: u64,
    seed: u64,
    deadline: Instant,
) -> wasmtime::Result<()> {
    store.data_mut().begin(now_ns, seed, deadline);
    store.set_epoch_deadline(1);
    store.set_fuel(limits.fuel)
}

/// Takes what the guest reported.
fn report(store: &mut Store<State>, limits: &Limits) -> CallReport {
    let fuel_left = store.get_fuel().unwrap_or(0);
    let State { report, streams, .. } = store.data_mut();
    streams.flush(report);
    let mut report = std::mem::take(report);
    report.fuel_used = limits.fuel.saturating_sub(fuel_left);
    report
}

/// Says which failure an error of the engine is.
fn failure(error: &wasmtime::Error, state: &State, limits: &Limits) -> GuardFailure {
    let limit = |text: String| GuardFailure::Limit(text);
    if let Some(error) = error.downcast_ref::<HostError>() {
        return match error {
            HostError::Limit(what) => limit((*what).to_owned()),
            HostError::Unavailable(_) | HostError::Exit | HostError::Misuse(_) => {
                GuardFailure::Error(error.to_string())
            }
        };
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => return GuardFailure::Timeout,
        Some(Trap::OutOfFuel) => {
            return limit(format!("more than {} units of fuel (about one an instruction)", limits.fuel));
        }
        Some(Trap::StackOverflow) => return limit("more stack than its limit".to_owned()),
        _ => {}
    }
    // A guest whose allocation is refused traps, most often as unreachable: the refusal is the reason.
    match state.bounds.refused() {
        Some(Refused::Memory) => return limit(format!("more than {} bytes of memory", limits.memory_bytes)),
        Some(Refused::Table) => {
            return limit(format!("more than {} elements of tables", limits.table_elements));
        }
        None => {}
    }
    let mut text = format!("{error:#}");
    // The engine has no types for these errors; the tests of hostile guards fail if the texts change.
    if text.contains("fuel allocated for hostcalls has been exhausted") {
        return limit(format!(
            "more than {} bytes in an answer or in one call of the host",
            limits.answer_bytes
        ));
    }
    if text.contains("handle limit exceeded") {
        return limit(format!("more than {HANDLES} handles at once"));
    }
    cut(&mut text, ERROR_BYTES);
    GuardFailure::Error(text)
}
