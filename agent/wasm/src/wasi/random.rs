//! `wasi:random`: numbers that follow from the seed of the call.

use wasmtime::component::LinkerInstance;

use super::Store;
use crate::state::State;

/// Adds one function; the names are different in all three interfaces.
pub(super) fn define(linker: &mut LinkerInstance<'_, State>, function: &str) -> wasmtime::Result<bool> {
    match function {
        "get-random-bytes" | "get-insecure-random-bytes" => {
            linker.func_wrap(function, |mut store: Store<'_>, (length,): (u64,)| {
                Ok((store.data_mut().random.bytes(length)?,))
            })?;
        }
        "get-random-u64" | "get-insecure-random-u64" => {
            linker.func_wrap(function, |mut store: Store<'_>, ()| Ok((store.data_mut().random.next(),)))?;
        }
        "insecure-seed" => {
            linker.func_wrap(function, |mut store: Store<'_>, ()| {
                let random = &mut store.data_mut().random;
                Ok(((random.next(), random.next()),))
            })?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}
