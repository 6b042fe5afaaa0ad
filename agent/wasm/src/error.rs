//! Why an engine or a guard cannot be made.

use std::{io, path::PathBuf};

use mcpwarden_terms::contract::GuardFailure;

/// Why there is no engine for guards.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The engine refuses its settings, or this machine.
    #[error("cannot start the WebAssembly engine: {0}")]
    Engine(String),
    /// There is no thread for the timeouts.
    #[error("cannot start the thread that ends calls of guards in time")]
    Thread(#[source] io::Error),
    /// The directory for compiled guards cannot be made or read.
    #[error("cannot use {} for compiled guards", path.display())]
    Cache {
        /// The directory.
        path: PathBuf,
        /// The reason.
        #[source]
        error: io::Error,
    },
    /// Others could put compiled guards into the directory.
    #[error("cannot use {} for compiled guards: {problem}", path.display())]
    UnsafeCache {
        /// The directory.
        path: PathBuf,
        /// The reason, and the remedy.
        problem: String,
    },
}

/// Why a component is no guard.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The component is larger than 64 MiB.
    #[error("the component has {bytes} bytes; the largest allowed has {limit}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The largest size.
        limit: usize,
    },
    /// The bytes are no WebAssembly.
    #[error("it is not WebAssembly: it does not begin with `\\0asm`")]
    NotWasm,
    /// The bytes are a core module.
    #[error(
        "it is a core module, not a component; build it for the target wasm32-wasip2, or with `cargo component build`"
    )]
    CoreModule,
    /// The bytes are no valid component.
    #[error("it is not a valid component: {0}")]
    Invalid(String),
    /// There are no threads to compile with.
    #[error("cannot start the threads that compile the component: {0}")]
    Threads(String),
    /// The component does not export the interface of a guard.
    #[error("the component does not export the interface mcp:security-guard/guard@0.1.0")]
    MissingInterface,
    /// The component exports the interface of another version.
    #[error("the component exports {found}; this agent calls mcp:security-guard/guard@0.1.0")]
    OtherVersion {
        /// The name of the export.
        found: String,
    },
    /// The component needs a later version of the interface.
    #[error(
        "the component needs {found}; this agent has mcp:security-guard/guard@0.1.0: update the agent, or build the component for 0.1.0"
    )]
    NewerVersion {
        /// The name of the export.
        found: String,
    },
    /// The interface lacks a function.
    #[error("the component does not export `{function}` of mcp:security-guard/guard@0.1.0")]
    MissingFunction {
        /// The first function that is missing.
        function: &'static str,
    },
    /// A function has other parameters or another result than in the contract.
    #[error("`{function}` of mcp:security-guard/guard@0.1.0 has another type in the component: {problem}")]
    WrongType {
        /// The function.
        function: &'static str,
        /// The difference.
        problem: String,
    },
    /// The component imports something that no guard gets.
    #[error("the component imports {}, which guards do not get", .0.join(", "))]
    Imports(Vec<String>),
    /// An import exists, but has another type.
    #[error("an import of the component has another type: {0}")]
    ImportType(String),
    /// The component failed before its first call.
    #[error("the component does not start: {failure}{}", .last_line.as_ref().map_or(String::new(), |line| format!(" (it wrote: {line:?})")))]
    Start {
        /// The failure.
        failure: GuardFailure,
        /// The last line of its log, if there is one.
        last_line: Option<String>,
    },
    /// The engine failed in a way that it never should.
    #[error("the WebAssembly engine failed on the component; this is a fault of the agent")]
    Engine,
}

/// Why a host function ends a call.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostError {
    /// The guest exceeded a limit.
    #[error("{0}")]
    Limit(&'static str),
    /// The guest called a function of WASI that no guard gets.
    #[error("it called {0}, which guards do not get")]
    Unavailable(String),
    /// The guest ended itself.
    #[error("it exited instead of answering")]
    Exit,
    /// The guest broke a rule of an interface.
    #[error("{0}")]
    Misuse(&'static str),
}
