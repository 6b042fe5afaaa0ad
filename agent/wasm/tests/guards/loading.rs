//! Files that are no guards, and the reason given for each.

use mcpwarden_terms::contract::GuardFailure;
use mcpwarden_wasm::{Guard, Limits, LoadError, WIT, WasmConfig};

use crate::support::{FUNCTIONS, Source, encode, load, runtime};

fn allow() -> Source {
    Source::one("(call $allow)")
}

/// The error of a component that must not load.
fn refused(bytes: &[u8]) -> LoadError {
    match load(&runtime(), bytes) {
        Ok(_) => panic!("it was loaded"),
        Err(error) => error,
    }
}

#[test]
fn hash_is_that_of_the_bytes() {
    let bytes = allow().build();
    let guard = load(&runtime(), &bytes).unwrap();
    let expected: String = {
        use sha2::Digest as _;
        sha2::Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    assert_eq!((guard.sha256(), guard.name()), (expected.as_str(), "test"));
}

#[test]
fn other_files_are_refused() {
    let component = allow().build();
    assert_eq!(refused(b""), LoadError::NotWasm);
    assert_eq!(refused(b"#!/bin/sh\n"), LoadError::NotWasm);
    let module = wat::parse_str("(module)").unwrap();
    assert_eq!(refused(&module), LoadError::CoreModule);
    assert!(LoadError::CoreModule.to_string().contains("wasm32-wasip2"));
    for size in [8, 9, 100, component.len() / 2, component.len() - 1] {
        let error = refused(&component[..size]);
        assert!(matches!(error, LoadError::Invalid(_) | LoadError::MissingInterface), "{size}: {error:?}");
    }
    let mut garbage = component[..8].to_vec();
    garbage.extend((0_u32..4096).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8));
    assert!(matches!(refused(&garbage), LoadError::Invalid(_)));
    let empty = wat::parse_str("(component)").unwrap();
    assert_eq!(refused(&empty), LoadError::MissingInterface);
}

#[test]
fn damaged_components_never_panic() {
    let component = allow().build();
    let runtime = runtime();
    // One byte changed: most are invalid, some load; none may be a fault of the engine.
    for index in (0..component.len()).step_by(component.len() / 40) {
        let mut damaged = component.clone();
        damaged[index] ^= 0x5a;
        if let Err(error) = load(&runtime, &damaged) {
            assert_ne!(error, LoadError::Engine, "{index}");
        }
    }
}

#[test]
fn missing_function_is_named() {
    for missing in FUNCTIONS {
        let mut source = allow();
        source.functions.retain(|name| *name != missing);
        let begin = WIT.find(&format!("    {missing}: func(")).unwrap();
        let end = begin + WIT[begin..].find(';').unwrap() + 1;
        source.wit.0 = format!("{}{}", &WIT[..begin], &WIT[end..]);
        let error = refused(&source.build());
        assert_eq!(error, LoadError::MissingFunction { function: missing });
        assert_eq!(
            error.to_string(),
            format!("the component does not export `{missing}` of mcp:security-guard/guard@0.1.0")
        );
    }
}

#[test]
fn wrong_types_are_named() {
    // (what of the contract, with what instead, the first function with another type)
    let cases = [
        ("server-name: string", "server-name: list<u8>", "evaluate-tools-list"),
        ("metadata: string", "meta: string", "evaluate-tools-list"),
        ("uri: string", "uri: list<u8>", "evaluate-resource-request"),
        ("modify(string)", "change(string)", "evaluate-tools-list"),
        ("prompt-name: string", "prompt-name: list<s8>", "evaluate-prompt-request"),
    ];
    for (original, replaced, function) in cases {
        let mut source = allow();
        source.wit.0 = WIT.replace(original, replaced);
        assert_ne!(source.wit.0, WIT);
        match refused(&source.build()) {
            LoadError::WrongType { function: found, problem } => {
                assert_eq!(found, function, "{replaced}: {problem}");
                assert!(!problem.is_empty());
            }
            other => panic!("{replaced}: {other:?}"),
        }
    }
}

#[test]
fn versions_are_told_apart() {
    // (version, whether it loads, whether it is a later one of the same contract)
    for (version, loads, is_newer) in [
        ("0.1.0", true, false),
        ("0.1.1", false, true),
        ("0.1.7", false, true),
        ("0.1.99999999999", false, true),
        ("0.2.0", false, false),
        ("0.10.0", false, false),
        ("1.0.0", false, false),
    ] {
        let mut source = allow();
        source.wit.0 = WIT.replace("@0.1.0", &format!("@{version}"));
        source.interface = format!("mcp:security-guard/guard@{version}");
        let module = source.module().replace("host@0.1.0", &format!("host@{version}"));
        let result = load(&runtime(), &encode(&module, &source.wit.0, &source.wit.1));
        match result.map(drop) {
            Ok(()) => assert!(loads, "{version}"),
            Err(error) => {
                assert!(!loads, "{version}: {error}");
                let found = source.interface;
                let expected = match is_newer {
                    true => LoadError::NewerVersion { found },
                    false => LoadError::OtherVersion { found },
                };
                assert_eq!(error, expected);
            }
        }
    }
}

#[test]
fn unknown_imports_are_named() {
    let world = "
        package test:guard;
        interface net { send: func(text: string); }
        world guard { include mcp:security-guard/security-guard@0.1.0; import net; import now: func() -> u64; }
    ";
    let mut source = allow();
    source.imports = "
        (import \"test:guard/net\" \"send\" (func $send (param i32 i32)))
        (import \"$root\" \"now\" (func $now (result i64)))
    "
    .to_owned();
    source.wit = (world.to_owned(), "test:guard/guard".to_owned());
    let error = refused(&source.build());
    let LoadError::Imports(mut names) = error else { panic!("{error:?}") };
    names.sort();
    assert_eq!(names, ["`now`", "`test:guard/net`"]);
}

#[test]
fn changed_host_functions_are_refused() {
    let cases = [
        ("log: func(level: log-level, message: string)", "log: func(level: log-level, message: list<u8>)"),
        (
            "get-config: func(key: string) -> option<string>",
            "get-config: func(key: string) -> option<list<u8>>",
        ),
    ];
    for (original, replaced) in cases {
        let mut source = allow();
        source.wit.0 = WIT.replace(original, replaced);
        assert_ne!(source.wit.0, WIT);
        let error = refused(&source.build());
        assert!(
            matches!(&error, LoadError::ImportType(text) if text.contains("mcp:security-guard/host")),
            "{error:?}"
        );
    }
}

#[test]
fn guard_that_does_not_start_is_refused() {
    // (items of the module, limits, what the error says)
    let limits = Limits { fuel: 200_000, ..Limits::default() };
    let small = Limits { memory_bytes: 64 << 10, ..limits };
    let cases = [
        ("(func $start (loop $forever (br $forever))) (start $start)", limits, "units of fuel"),
        ("(func $start (unreachable)) (start $start)", limits, "unreachable"),
        ("", small, "memory"),
        ("(table 200000 funcref)", limits, "table"),
    ];
    for (items, limits, expected) in cases {
        let mut source = allow();
        source.items = items.to_owned();
        let result = Guard::load(&runtime(), "test", &source.build(), WasmConfig::new(), limits);
        match result.map(drop) {
            Err(LoadError::Start {
                failure: GuardFailure::Limit(text) | GuardFailure::Error(text), ..
            }) => {
                assert!(text.contains(expected), "{items}: {text}");
            }
            other => panic!("{items}: {other:?}"),
        }
    }
}
