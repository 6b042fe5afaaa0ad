//! `wasi:clocks`: the clocks of the call.

use wasmtime::component::{ComponentType, LinkerInstance, Lower, Resource};

use super::{Store, io::Pollable};
use crate::state::State;

/// `datetime` of `wasi:clocks/wall-clock`.
#[derive(ComponentType, Lower)]
#[component(record)]
struct Datetime {
    seconds: u64,
    nanoseconds: u32,
}

impl From<u64> for Datetime {
    fn from(ns: u64) -> Self {
        Self { seconds: ns / 1_000_000_000, nanoseconds: (ns % 1_000_000_000) as u32 }
    }
}

pub(super) fn define(
    linker: &mut LinkerInstance<'_, State>,
    interface: &str,
    function: &str,
) -> wasmtime::Result<bool> {
    match (interface, function) {
        ("wasi:clocks/wall-clock", "now") => {
            linker.func_wrap(function, |store: Store<'_>, ()| {
                Ok((Datetime::from(store.data().clock.wall_ns()),))
            })?;
        }
        ("wasi:clocks/wall-clock", "resolution") => {
            linker.func_wrap(function, |_: Store<'_>, ()| Ok((Datetime { seconds: 0, nanoseconds: 1 },)))?;
        }
        ("wasi:clocks/monotonic-clock", "now") => {
            linker.func_wrap(function, |store: Store<'_>, ()| Ok((store.data().clock.elapsed_ns(),)))?;
        }
        ("wasi:clocks/monotonic-clock", "resolution") => {
            linker.func_wrap(function, |_: Store<'_>, ()| Ok((1_u64,)))?;
        }
        ("wasi:clocks/monotonic-clock", "subscribe-instant") => {
            linker.func_wrap(function, |mut store: Store<'_>, (due_ns,): (u64,)| {
                Ok((Resource::<Pollable>::new_own(store.data_mut().clock.timer(due_ns)?),))
            })?;
        }
        ("wasi:clocks/monotonic-clock", "subscribe-duration") => {
            linker.func_wrap(function, |mut store: Store<'_>, (duration_ns,): (u64,)| {
                let clock = &mut store.data_mut().clock;
                let due_ns = clock.elapsed_ns().saturating_add(duration_ns);
                Ok((Resource::<Pollable>::new_own(clock.timer(due_ns)?),))
            })?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}
