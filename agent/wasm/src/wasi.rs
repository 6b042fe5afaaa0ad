//! The part of WASI 0.2 that toolchains link into every component, without any access to the host.
//!
//! Clocks and randomness are functions of the call; the standard output and error go to the log of the guard; arguments, environment, preopened directories and standard input are empty. A guest that calls anything else
//! of WASI traps: see `load`. The crate `wasmtime-wasi` would bring tokio and cap-std for the same result.

mod clocks;
mod io;
mod random;

use wasmtime::{
    StoreContextMut,
    component::{LinkerInstance, Resource, ResourceType},
};

use crate::{error::HostError, state::State};

type Store<'a> = StoreContextMut<'a, State>;

/// A directory or file. No guest ever has one.
struct Descriptor;
/// A terminal. No guest ever has one.
struct Terminal;

/// Adds one function of a WASI interface to `linker`; whether guards get this function.
///
/// `interface` has no version: `wasi:io/poll`.
///
/// # Errors
/// The engine refuses it.
pub(crate) fn define(
    linker: &mut LinkerInstance<'_, State>,
    interface: &str,
    function: &str,
) -> wasmtime::Result<bool> {
    match interface {
        "wasi:io/poll" | "wasi:io/streams" | "wasi:cli/stdin" | "wasi:cli/stdout" | "wasi:cli/stderr" => {
            io::define(linker, interface, function)
        }
        "wasi:clocks/monotonic-clock" | "wasi:clocks/wall-clock" => {
            clocks::define(linker, interface, function)
        }
        "wasi:random/random" | "wasi:random/insecure" | "wasi:random/insecure-seed" => {
            random::define(linker, function)
        }
        _ => define_empty(linker, interface, function),
    }
}

/// Adds one type of resource. All types that no guest can have are the same.
///
/// # Errors
/// The engine refuses it.
pub(crate) fn define_resource(linker: &mut LinkerInstance<'_, State>, name: &str) -> wasmtime::Result<()> {
    match name {
        "pollable" => io::define_pollable(linker),
        "input-stream" => linker.resource(name, ResourceType::host::<io::Input>(), |_, _| Ok(())),
        "output-stream" => linker.resource(name, ResourceType::host::<io::Output>(), |_, _| Ok(())),
        "descriptor" => linker.resource(name, ResourceType::host::<Descriptor>(), |_, _| Ok(())),
        "terminal-input" | "terminal-output" => {
            linker.resource(name, ResourceType::host::<Terminal>(), |_, _| Ok(()))
        }
        "error" => linker.resource(name, ResourceType::host::<io::StreamFailure>(), |_, _| Ok(())),
        _ => linker.resource(name, ResourceType::host::<()>(), |_, _| Ok(())),
    }
}

/// The functions whose answer is that there is nothing.
fn define_empty(
    linker: &mut LinkerInstance<'_, State>,
    interface: &str,
    function: &str,
) -> wasmtime::Result<bool> {
    match (interface, function) {
        ("wasi:cli/environment", "get-environment") => {
            linker.func_wrap(function, |_: Store<'_>, ()| Ok((Vec::<(String, String)>::new(),)))?;
        }
        ("wasi:cli/environment", "get-arguments") => {
            linker.func_wrap(function, |_: Store<'_>, ()| Ok((Vec::<String>::new(),)))?;
        }
        ("wasi:cli/environment", "initial-cwd") => {
            linker.func_wrap(function, |_: Store<'_>, ()| Ok((None::<String>,)))?;
        }
        ("wasi:cli/exit", "exit") => {
            linker.func_wrap(function, |_: Store<'_>, (_,): (Result<(), ()>,)| -> wasmtime::Result<()> {
                Err(HostError::Exit.into())
            })?;
        }
        ("wasi:cli/exit", "exit-with-code") => {
            linker.func_wrap(function, |_: Store<'_>, (_,): (u8,)| -> wasmtime::Result<()> {
                Err(HostError::Exit.into())
            })?;
        }
        ("wasi:cli/terminal-stdin", "get-terminal-stdin")
        | ("wasi:cli/terminal-stdout", "get-terminal-stdout")
        | ("wasi:cli/terminal-stderr", "get-terminal-stderr") => {
            linker.func_wrap(function, |_: Store<'_>, ()| Ok((None::<Resource<Terminal>>,)))?;
        }
        ("wasi:filesystem/preopens", "get-directories") => {
            linker.func_wrap(function, |_: Store<'_>, ()| {
                Ok((Vec::<(Resource<Descriptor>, String)>::new(),))
            })?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}
