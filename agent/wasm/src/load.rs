//! Checks a component before it may run: bytes, exports, imports.

use std::thread;

use mcpwarden_terms::contract::CONTRACT_VERSION;
use wasmtime::{
    Engine,
    component::{Component, InstancePre, Linker, types::ComponentItem},
};

use crate::{
    contract::{self, Exports},
    error::{HostError, LoadError},
    host,
    limits::{COMPILE_THREADS, COMPONENT_BYTES, ERROR_BYTES, cut},
    state::State,
    wasi,
};

/// The names of the two interfaces, without the version.
const GUARD: &str = "mcp:security-guard/guard";
const HOST: &str = "mcp:security-guard/host";
/// Versions of WASI with the interfaces of `wasi`.
const WASI: &str = "0.2.";

/// Checks the size and the head of a file.
///
/// # Errors
/// It is too large, or cannot be a component.
pub(crate) fn check_head(bytes: &[u8]) -> Result<(), LoadError> {
    if bytes.len() > COMPONENT_BYTES {
        return Err(LoadError::TooLarge { bytes: bytes.len(), limit: COMPONENT_BYTES });
    }
    // The binary format: magic, version, layer (0: module, 1: component).
    let Some((b"\0asm", rest)) = bytes.split_first_chunk::<4>() else {
        return Err(LoadError::NotWasm);
    };
    match rest.split_first_chunk::<4>() {
        Some(([1, 0, 0, 0], _)) => Err(LoadError::CoreModule),
        Some(_) => Ok(()),
        None => Err(LoadError::Invalid("it ends within its head".to_owned())),
    }
}

/// Compiles a component, on threads that end with it.
///
/// # Errors
/// The bytes are no valid component.
pub(crate) fn compile(engine: &Engine, bytes: &[u8]) -> Result<Component, LoadError> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(COMPILE_THREADS);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|index| format!("wasm-compile-{index}"))
        .build()
        .map_err(|error| LoadError::Threads(error.to_string()))?;
    pool.install(|| Component::from_binary(engine, bytes)).map_err(|error| LoadError::Invalid(text(&error)))
}

/// Checks exports and imports, and links the component.
///
/// # Errors
/// An export is missing or has another type, or an import is one that guards do not get.
pub(crate) fn link(
    engine: &Engine,
    component: &Component,
) -> Result<(InstancePre<State>, Exports), LoadError> {
    let ty = component.component_type();
    let mut other = None;
    let mut interface = None;
    for (name, export) in ty.exports(engine) {
        let ComponentItem::ComponentInstance(instance) = export.ty else { continue };
        match split(name) {
            (GUARD, version) if is_known(version) => interface = Some((name, instance)),
            (GUARD, _) => other = Some(name),
            _ => {}
        }
    }
    let (name, interface) = interface.ok_or_else(|| match other {
        Some(found) if patch(split(found).1).is_some() => LoadError::NewerVersion { found: found.to_owned() },
        Some(found) => LoadError::OtherVersion { found: found.to_owned() },
        None => LoadError::MissingInterface,
    })?;
    if let Some(function) = contract::missing_function(engine, &interface) {
        return Err(LoadError::MissingFunction { function });
    }
    let linker = imports(engine, component)?;
    let pre = linker.instantiate_pre(component).map_err(|error| LoadError::ImportType(text(&error)))?;
    let exports = Exports::find(&pre, name, &interface)?;
    Ok((pre, exports))
}

/// Defines exactly what the component imports, under the names that it uses.
fn imports(engine: &Engine, component: &Component) -> Result<Linker<State>, LoadError> {
    let mut linker = Linker::<State>::new(engine);
    let mut unknown = Vec::new();
    let refused = |error: wasmtime::Error| LoadError::ImportType(text(&error));
    for (name, import) in component.component_type().imports(engine) {
        let (interface, version) = split(name);
        let is_host = interface == HOST && is_known(version);
        let is_wasi = interface.starts_with("wasi:") && version.starts_with(WASI);
        let ComponentItem::ComponentInstance(instance) = import.ty else {
            unknown.push(format!("`{name}`"));
            continue;
        };
        if !is_host && !is_wasi {
            unknown.push(format!("`{name}`"));
            continue;
        }
        let mut linker = linker.instance(name).map_err(refused)?;
        for (item, export) in instance.exports(engine) {
            match export.ty {
                ComponentItem::ComponentFunc(_) if is_host => {
                    if !host::define(&mut linker, item).map_err(refused)? {
                        unknown.push(format!("`{item}` of {name}"));
                    }
                }
                ComponentItem::ComponentFunc(_) => {
                    if !wasi::define(&mut linker, interface, item).map_err(refused)? {
                        let called = format!("`{item}` of {name}");
                        linker
                            .func_new(item, move |_, _, _, _| {
                                Err(HostError::Unavailable(called.clone()).into())
                            })
                            .map_err(refused)?;
                    }
                }
                ComponentItem::Resource(_) => wasi::define_resource(&mut linker, item).map_err(refused)?,
                ComponentItem::Type(_) => {}
                _ => unknown.push(format!("`{item}` of {name}")),
            }
        }
    }
    if unknown.is_empty() { Ok(linker) } else { Err(LoadError::Imports(unknown)) }
}

/// Whether this agent has all that a version of the contract has. A component names the least version that it needs.
fn is_known(version: &str) -> bool {
    let number = |version| patch(version).and_then(|patch| patch.parse::<u32>().ok());
    number(version).zip(number(CONTRACT_VERSION)).is_some_and(|(needed, own)| needed <= own)
}

/// The last number of a version whose others are those of this agent's contract: a larger one only adds.
fn patch(version: &str) -> Option<&str> {
    let (others, _) = CONTRACT_VERSION.rsplit_once('.')?;
    version.strip_prefix(others)?.strip_prefix('.')
}

/// Splits `wasi:io/poll@0.2.3` into name and version.
fn split(name: &str) -> (&str, &str) {
    name.split_once('@').unwrap_or((name, ""))
}

/// An error of the engine with its causes, bounded.
fn text(error: &wasmtime::Error) -> String {
    let mut text = format!("{error:#}");
    cut(&mut text, ERROR_BYTES);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_told_apart() {
        let cases: &[(&[u8], Result<(), LoadError>)] = &[
            (b"", Err(LoadError::NotWasm)),
            (b"\x7fELF\x02\x01\x01\0", Err(LoadError::NotWasm)),
            (b"(component)", Err(LoadError::NotWasm)),
            (b"\0asm\x01\0\0\0", Err(LoadError::CoreModule)),
            (b"\0asm\x0d\0\x01\0", Ok(())),
            (b"\0asm\x0d", Err(LoadError::Invalid("it ends within its head".to_owned()))),
        ];
        for (bytes, expected) in cases {
            assert_eq!(check_head(bytes), *expected, "{bytes:?}");
        }
        let large = vec![0; COMPONENT_BYTES + 1];
        assert!(matches!(check_head(&large), Err(LoadError::TooLarge { .. })));
    }
}
