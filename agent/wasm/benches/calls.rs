//! Times and memory of guards: a call, an instance, a load, twenty guards. Prints one line each.

#![allow(clippy::unwrap_used, reason = "what fails here is a failed measurement")]

#[path = "../tests/guards/support.rs"]
mod support;

use std::{
    fs,
    hint::black_box,
    time::{Duration, Instant},
};

use mcpwarden_terms::contract::GuardReply;
use mcpwarden_wasm::{Call, Guard, Limits, Runtime, RuntimeOptions, WasmConfig};

use crate::support::{Source, call, operations, request, runtime};

/// Calls that are measured, after as many as a tenth of it.
const CALLS: usize = 20_000;

fn main() {
    let mut source = Source::default();
    let (word, code, message) = (source.text("secret"), source.text("no"), source.text("it says secret"));
    source.behaviours = vec![
        "(call $allow)".to_owned(),
        format!(
            "(if (result i32)
               (call $contains (i32.load offset=8 (local.get $args)) (i32.load offset=12 (local.get $args)) {word})
               (then (call $deny {code} {message})) (else (call $allow)))"
        ),
        "(unreachable)".to_owned(),
        "(loop $forever (br $forever)) (unreachable)".to_owned(),
    ];
    let bytes = source.build();
    let runtime = runtime();
    let load = |limits| Guard::load(&runtime, "bench", &bytes, WasmConfig::new(), limits);
    let guard = load(Limits { fuel: u64::MAX, ..Limits::default() }).unwrap();

    let small = "{\"path\":\"/home/user/notes.txt\",\"mode\":\"r\"}";
    let long = "x".repeat(64 << 10);
    for (name, server, text) in [
        ("allow, 40 bytes", "A", small),
        ("search for a word, 40 bytes", "B", small),
        ("search for a word, 64 KiB", "B", &long),
    ] {
        let [_, operation, ..] = operations(text);
        let request = request(server, operation);
        let calls = if text.len() > 1000 { CALLS / 100 } else { CALLS };
        let mut times = repeat(calls, || {
            let (result, _) = guard.evaluate(&request, call());
            assert_eq!(result, Ok(GuardReply::Allow));
        });
        print(&format!("call: {name}"), &mut times);
    }

    // A trap drops the instance, so that the next call makes one.
    let [_, operation, ..] = operations(small);
    let (trap, allow) = (request("C", operation.clone()), request("A", operation.clone()));
    let mut times: Vec<_> = (0..CALLS / 20)
        .map(|_| {
            assert!(guard.evaluate(&trap, call()).0.is_err());
            let started = Instant::now();
            assert!(guard.evaluate(&allow, call()).0.is_ok());
            started.elapsed()
        })
        .collect();
    print("call in a fresh instance: allow, 40 bytes", &mut times);

    let mut times = repeat(50, || drop(black_box(load(Limits::default()))));
    print("load: compile, link, instantiate", &mut times);
    print_cached(&bytes);

    let endless = request("D", operation);
    let timeout = Duration::from_millis(10);
    let mut times: Vec<_> = (0..100)
        .map(|_| guard.evaluate(&endless, Call { timeout, ..call() }).1.elapsed.saturating_sub(timeout))
        .collect();
    print("end of an endless loop after its timeout", &mut times);
    let fuel = 100_000_000;
    let limited = load(Limits { fuel, ..Limits::default() }).unwrap();
    let elapsed = limited.evaluate(&endless, call()).1.elapsed;
    println!("fuel of an endless loop: {:.0} million/s", fuel as f64 / 1e6 / elapsed.as_secs_f64());

    let before = resident_bytes();
    let guards: Vec<_> = (0..20).map(|_| load(Limits::default()).unwrap()).collect();
    for guard in &guards {
        assert!(guard.evaluate(&allow, call()).0.is_ok());
    }
    println!("memory of 20 guards: {} KiB", resident_bytes().saturating_sub(before) >> 10);
}

/// Loads from the cache.
fn print_cached(bytes: &[u8]) {
    let directory = tempfile::tempdir().unwrap();
    let options =
        RuntimeOptions { cache: Some(directory.path().join("guards")), ..RuntimeOptions::default() };
    let runtime = Runtime::new(options).unwrap();
    let mut times = repeat(50, || {
        drop(Guard::load(&runtime, "bench", bytes, WasmConfig::new(), Limits::default()).unwrap());
    });
    print("load: from the cache, link, instantiate", &mut times);
}

fn repeat(times: usize, mut run: impl FnMut()) -> Vec<Duration> {
    (0..times / 10).for_each(|_| run());
    (0..times)
        .map(|_| {
            let started = Instant::now();
            run();
            started.elapsed()
        })
        .collect()
}

fn print(name: &str, times: &mut [Duration]) {
    times.sort();
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)];
    println!("{name}: p50 {:?}, p99 {:?}, max {:?} ({} times)", at(50), at(99), at(100), times.len());
}

/// Resident memory of this process.
fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}
