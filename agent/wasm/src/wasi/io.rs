//! `wasi:io` and the standard streams: input that is at its end, output that goes to the log.

use wasmtime::component::{ComponentType, LinkerInstance, Lower, Resource, ResourceType};

use super::Store;
use crate::{
    error::HostError,
    sandbox::{STDERR, STDOUT},
    state::State,
};

/// Bytes that a guest may write at once.
const WRITE_BYTES: u64 = 64 << 10;
/// A `pollable`: the number of a timer, or 0 for a stream, which is always ready.
pub(super) struct Pollable;
/// An `input-stream`, always at its end.
pub(super) struct Input;
/// An `output-stream`: [`STDOUT`] or [`STDERR`].
pub(super) struct Output;
/// An `error` of a stream. No guest ever has one.
pub(super) struct StreamFailure;

/// `stream-error`.
#[derive(ComponentType, Lower)]
#[component(variant)]
enum StreamError {
    #[component(name = "last-operation-failed")]
    #[allow(dead_code, reason = "no stream fails; the type of the interface has the case")]
    LastOperationFailed(Resource<StreamFailure>),
    #[component(name = "closed")]
    Closed,
}

type Read = (Result<Vec<u8>, StreamError>,);
type Count = (Result<u64, StreamError>,);
type Done = (Result<(), StreamError>,);

pub(super) fn define(
    linker: &mut LinkerInstance<'_, State>,
    interface: &str,
    function: &str,
) -> wasmtime::Result<bool> {
    match interface {
        "wasi:io/poll" => define_poll(linker, function),
        "wasi:io/streams" if function.starts_with("[method]input-stream.") => define_input(linker, function),
        "wasi:io/streams" => define_output(linker, function),
        _ => define_standard(linker, function),
    }
}

/// Adds the type of `pollable`, and frees timers that the guest drops.
pub(super) fn define_pollable(linker: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    linker.resource("pollable", ResourceType::host::<Pollable>(), |mut store, rep| {
        store.data_mut().clock.drop_timer(rep);
        Ok(())
    })
}

fn define_standard(linker: &mut LinkerInstance<'_, State>, function: &str) -> wasmtime::Result<bool> {
    match function {
        "get-stdin" => linker.func_wrap(function, |_: Store<'_>, ()| Ok((Resource::<Input>::new_own(0),)))?,
        "get-stdout" => {
            linker.func_wrap(function, |_: Store<'_>, ()| Ok((Resource::<Output>::new_own(STDOUT),)))?;
        }
        "get-stderr" => {
            linker.func_wrap(function, |_: Store<'_>, ()| Ok((Resource::<Output>::new_own(STDERR),)))?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn define_poll(linker: &mut LinkerInstance<'_, State>, function: &str) -> wasmtime::Result<bool> {
    type Borrowed = (Resource<Pollable>,);
    match function {
        "[method]pollable.ready" => {
            linker.func_wrap(function, |store: Store<'_>, (pollable,): Borrowed| {
                Ok((store.data().clock.is_due(pollable.rep()),))
            })?;
        }
        "[method]pollable.block" => {
            linker.func_wrap(function, |mut store: Store<'_>, (pollable,): Borrowed| {
                store.data_mut().clock.wait([pollable.rep()].into_iter());
                Ok(())
            })?;
        }
        "poll" => {
            linker.func_wrap(
                function,
                |mut store: Store<'_>, (pollables,): (Vec<Resource<Pollable>>,)| {
                    if pollables.is_empty() {
                        return Err(HostError::Misuse("it polls nothing").into());
                    }
                    let clock = &mut store.data_mut().clock;
                    clock.wait(pollables.iter().map(Resource::rep));
                    let ready =
                        (0_u32..).zip(&pollables).filter(|(_, pollable)| clock.is_due(pollable.rep()));
                    Ok((ready.map(|(index, _)| index).collect::<Vec<_>>(),))
                },
            )?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn define_input(linker: &mut LinkerInstance<'_, State>, function: &str) -> wasmtime::Result<bool> {
    type Sized = (Resource<Input>, u64);
    match function {
        "[method]input-stream.read" | "[method]input-stream.blocking-read" => linker
            .func_wrap(function, |_: Store<'_>, _: Sized| -> wasmtime::Result<Read> {
                Ok((Err(StreamError::Closed),))
            })?,
        "[method]input-stream.skip" | "[method]input-stream.blocking-skip" => linker
            .func_wrap(function, |_: Store<'_>, _: Sized| -> wasmtime::Result<Count> {
                Ok((Err(StreamError::Closed),))
            })?,
        "[method]input-stream.subscribe" => {
            linker.func_wrap(function, |_: Store<'_>, _: (Resource<Input>,)| {
                Ok((Resource::<Pollable>::new_own(0),))
            })?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn define_output(linker: &mut LinkerInstance<'_, State>, function: &str) -> wasmtime::Result<bool> {
    match function {
        "[method]output-stream.check-write" => {
            linker
                .func_wrap(function, |_: Store<'_>, _: (Resource<Output>,)| -> wasmtime::Result<Count> {
                    Ok((Ok(WRITE_BYTES),))
                })?;
        }
        "[method]output-stream.write" | "[method]output-stream.blocking-write-and-flush" => {
            linker.func_wrap(
                function,
                |mut store: Store<'_>,
                 (stream, bytes): (Resource<Output>, Vec<u8>)|
                 -> wasmtime::Result<Done> {
                    let State { streams, report, .. } = store.data_mut();
                    streams.write(stream.rep(), &bytes, report);
                    Ok((Ok(()),))
                },
            )?;
        }
        "[method]output-stream.flush" | "[method]output-stream.blocking-flush" => {
            linker.func_wrap(function, |_: Store<'_>, _: (Resource<Output>,)| -> wasmtime::Result<Done> {
                Ok((Ok(()),))
            })?;
        }
        "[method]output-stream.subscribe" => {
            linker.func_wrap(function, |_: Store<'_>, _: (Resource<Output>,)| {
                Ok((Resource::<Pollable>::new_own(0),))
            })?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}
