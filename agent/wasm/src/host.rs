//! The interface `mcp:security-guard/host`.

use wasmtime::{StoreContextMut, component::LinkerInstance};

use crate::{report::LogLevel, state::State};

/// Adds one function of the interface to `linker`; whether the interface has it.
///
/// # Errors
/// The engine refuses it.
pub(crate) fn define(linker: &mut LinkerInstance<'_, State>, function: &str) -> wasmtime::Result<bool> {
    type Store<'a> = StoreContextMut<'a, State>;
    match function {
        "log" => linker.func_wrap(function, |mut store: Store<'_>, (level, text): (LogLevel, String)| {
            store.data_mut().report.log(level, text);
            Ok(())
        })?,
        "get-config" => linker.func_wrap(function, |store: Store<'_>, (key,): (String,)| {
            Ok((store.data().config.get(&key).cloned(),))
        })?,
        "record-metric" => linker.func_wrap(
            function,
            |mut store: Store<'_>, (name, value, labels): (String, f64, Vec<(String, String)>)| {
                store.data_mut().report.metric(name, value, labels);
                Ok(())
            },
        )?,
        _ => return Ok(false),
    }
    Ok(true)
}
