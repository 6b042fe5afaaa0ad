//! The engine of all guards, its thread and its cache.

use std::{path::PathBuf, sync::Arc};

use nix::sys::memfd::{MFdFlags, memfd_create};
use wasmtime::{Config, Engine, OptLevel, component::Component};

use crate::{
    cache::Cache,
    error::{LoadError, RuntimeError},
    load,
    ticker::Ticker,
};

/// Bytes of the stack of one call by default.
const STACK_BYTES: usize = 512 << 10;
/// Address space, not memory, that each linear memory has for its growth.
const RESERVATION_BYTES: u64 = 64 << 20;

/// How the engine is made.
#[derive(Clone, Debug)]
pub struct RuntimeOptions {
    /// The directory for compiled guards. It is made if it is missing, and must belong to this user alone. None: every start
    /// compiles.
    pub cache: Option<PathBuf>,
    /// Bytes of the stack of each call.
    pub stack_bytes: usize,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        Self { cache: None, stack_bytes: STACK_BYTES }
    }
}

/// The engine of all guards. A clone is the same engine.
#[derive(Clone)]
pub struct Runtime(Arc<Inner>);

struct Inner {
    engine: Engine,
    ticker: Ticker,
    cache: Option<Cache>,
}

impl Runtime {
    /// Makes an engine, and starts its thread, which sleeps while no guard runs.
    ///
    /// # Errors
    /// The engine does not start, or the directory for compiled guards is missing or not private.
    pub fn new(options: RuntimeOptions) -> Result<Self, RuntimeError> {
        let engine = config(options.stack_bytes)
            .and_then(|config| Engine::new(&config))
            .map_err(|error| RuntimeError::Engine(format!("{error:#}")))?;
        let cache = options.cache.map(|directory| Cache::open(directory, &engine)).transpose()?;
        let ticker = Ticker::start(engine.clone()).map_err(RuntimeError::Thread)?;
        Ok(Self(Arc::new(Inner { engine, ticker, cache })))
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    pub(crate) fn ticker(&self) -> &Ticker {
        &self.0.ticker
    }

    /// Compiles a component, or takes it from the cache. `sha256` is the hash of the bytes, in hexadecimal.
    ///
    /// # Errors
    /// The bytes are no valid component.
    pub(crate) fn compile(&self, bytes: &[u8], sha256: &str) -> Result<Component, LoadError> {
        let Some(cache) = &self.0.cache else { return load::compile(&self.0.engine, bytes) };
        if let Some(component) = cache.get(&self.0.engine, sha256) {
            return Ok(component);
        }
        let component = load::compile(&self.0.engine, bytes)?;
        cache.put(&component, sha256);
        Ok(component)
    }
}

/// The settings of the engine.
fn config(stack_bytes: usize) -> wasmtime::Result<Config> {
    let mut config = Config::new();
    // Bytecode for the interpreter: no page is ever executable because of a guest.
    config.target("pulley64")?;
    config.max_wasm_stack(stack_bytes);
    config.consume_fuel(true);
    config.epoch_interruption(true);
    // The bounds of memory are checked in code. The engine must not install handlers for signals in the agent.
    config.signals_based_traps(false);
    config.memory_reservation(RESERVATION_BYTES);
    config.memory_reservation_for_growth(1 << 20);
    config.memory_guard_size(0);
    config.guard_before_linear_memory(false);
    // Instances share the pages of their initial memory until they write to them. The engine keeps the image in a memfd that
    // it does not mark as not executable, which some hosts forbid (sysctl vm.memfd_noexec=2): there, instances copy.
    config.memory_init_cow(memfd_create("mcpwarden-wasm", MFdFlags::MFD_ALLOW_SEALING).is_ok());
    // The same call gets the same answer on every machine.
    config.cranelift_nan_canonicalization(true);
    config.relaxed_simd_deterministic(true);
    config.cranelift_opt_level(OptLevel::Speed);
    // Nobody reads backtraces of guests.
    config.wasm_backtrace_max_frames(None);
    config.generate_address_map(false);
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_interprets() {
        let runtime = Runtime::new(RuntimeOptions::default()).unwrap();
        assert!(runtime.engine().is_pulley());
    }
}
