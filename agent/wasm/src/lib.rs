//! Guards as WebAssembly components of the package `mcp:security-guard@0.1.0`: load, bound, evaluate.
//!
//! [`Runtime`] is the one engine of all guards, and [`Guard`] is one loaded component. [`Guard::evaluate`] judges one
//! operation synchronously: the caller provides the thread, the time and the seed, so that the same request gets the same
//! answer.
//!
//! The engine is the interpreter Pulley. Cranelift compiles components to the bytecode of the interpreter, so that no page
//! is ever both written and executed, and the service keeps `MemoryDenyWriteExecute=`. Guests get no file, no socket, no
//! clock and no randomness of the host: the WASI interfaces that toolchains link are answered from fixed values ([`Call`]),
//! and every other function of WASI traps.
//!
//! A guard is hostile until proven otherwise. Memory, tables, instructions, stack, handles, time, answer, log lines and
//! metrics are bounded ([`Limits`], [`CallReport`]), and an instance that exceeded a limit is never used again.

mod cache;
mod contract;
mod error;
mod guard;
mod host;
mod instance;
mod limits;
mod load;
mod pool;
mod report;
mod runtime;
mod sandbox;
mod state;
mod ticker;
mod wasi;

pub use error::{LoadError, RuntimeError};
pub use guard::{Call, Guard};
pub use limits::{Limits, WasmConfig, config_from_json};
pub use report::{CallReport, LogLevel, LogLine, Metric};
pub use runtime::{Runtime, RuntimeOptions};

/// The contract as WIT: the package `mcp:security-guard`, for authors of guards.
pub const WIT: &str = include_str!("../wit/guard.wit");
