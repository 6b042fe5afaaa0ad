//! The part of WASI that guards get: fixed clocks and randomness, output to the log, and nothing of the host.

use std::time::Duration;

use mcpwarden_terms::contract::{GuardFailure, GuardReply};
use mcpwarden_wasm::{Call, Guard, LogLevel};

use crate::support::{Source, call, load, operations, request, runtime};

/// The interfaces that the tests import, as in WASI 0.2.3.
const WORLD: &str = "
package test:guard;

world guard {
    include mcp:security-guard/security-guard@0.1.0;
    import wasi:io/poll@0.2.3;
    import wasi:io/streams@0.2.3;
    import wasi:clocks/wall-clock@0.2.3;
    import wasi:clocks/monotonic-clock@0.2.3;
    import wasi:random/random@0.2.3;
    import wasi:random/insecure-seed@0.2.3;
    import wasi:cli/environment@0.2.3;
    import wasi:cli/exit@0.2.3;
    import wasi:cli/stdin@0.2.3;
    import wasi:cli/stdout@0.2.3;
    import wasi:cli/stderr@0.2.3;
    import wasi:filesystem/preopens@0.2.3;
    import wasi:sockets/instance-network@0.2.3;
}

package wasi:io@0.2.3 {
    interface error { resource error; }
    interface poll {
        resource pollable { ready: func() -> bool; block: func(); }
        poll: func(in: list<borrow<pollable>>) -> list<u32>;
    }
    interface streams {
        use error.{error};
        use poll.{pollable};
        variant stream-error { last-operation-failed(error), closed }
        resource input-stream {
            blocking-read: func(len: u64) -> result<list<u8>, stream-error>;
        }
        resource output-stream {
            check-write: func() -> result<u64, stream-error>;
            blocking-write-and-flush: func(contents: list<u8>) -> result<_, stream-error>;
            subscribe: func() -> pollable;
        }
    }
}

package wasi:clocks@0.2.3 {
    interface wall-clock {
        record datetime { seconds: u64, nanoseconds: u32 }
        now: func() -> datetime;
    }
    interface monotonic-clock {
        use wasi:io/poll@0.2.3.{pollable};
        now: func() -> u64;
        subscribe-duration: func(when: u64) -> pollable;
    }
}

package wasi:random@0.2.3 {
    interface random { get-random-bytes: func(len: u64) -> list<u8>; get-random-u64: func() -> u64; }
    interface insecure-seed { insecure-seed: func() -> tuple<u64, u64>; }
}

package wasi:cli@0.2.3 {
    interface environment {
        get-environment: func() -> list<tuple<string, string>>;
        get-arguments: func() -> list<string>;
    }
    interface exit { exit: func(status: result); }
    interface stdin { use wasi:io/streams@0.2.3.{input-stream}; get-stdin: func() -> input-stream; }
    interface stdout { use wasi:io/streams@0.2.3.{output-stream}; get-stdout: func() -> output-stream; }
    interface stderr { use wasi:io/streams@0.2.3.{output-stream}; get-stderr: func() -> output-stream; }
}

package wasi:filesystem@0.2.3 {
    interface types { resource descriptor { sync: func(); } }
    interface preopens {
        use types.{descriptor};
        get-directories: func() -> list<tuple<descriptor, string>>;
    }
}

package wasi:sockets@0.2.3 {
    interface network { resource network; }
    interface instance-network { use network.{network}; instance-network: func() -> network; }
}
";

/// The functions as a core module imports them: interface, function, its type.
const IMPORTS: &[(&str, &str, &str)] = &[
    ("io/poll", "[resource-drop]pollable", "$drop_pollable (param i32)"),
    ("io/poll", "[method]pollable.block", "$block (param i32)"),
    ("io/poll", "[method]pollable.ready", "$ready (param i32) (result i32)"),
    ("io/poll", "poll", "$poll (param i32 i32 i32)"),
    ("io/streams", "[method]input-stream.blocking-read", "$read (param i32 i64 i32)"),
    ("io/streams", "[method]output-stream.check-write", "$check_write (param i32 i32)"),
    ("io/streams", "[method]output-stream.blocking-write-and-flush", "$write (param i32 i32 i32 i32)"),
    ("clocks/wall-clock", "now", "$wall (param i32)"),
    ("clocks/monotonic-clock", "now", "$monotonic (result i64)"),
    ("clocks/monotonic-clock", "subscribe-duration", "$timer (param i64) (result i32)"),
    ("random/random", "get-random-bytes", "$random_bytes (param i64 i32)"),
    ("random/random", "get-random-u64", "$random (result i64)"),
    ("random/insecure-seed", "insecure-seed", "$seed (param i32)"),
    ("cli/environment", "get-environment", "$environment (param i32)"),
    ("cli/environment", "get-arguments", "$arguments (param i32)"),
    ("cli/exit", "exit", "$exit (param i32)"),
    ("cli/stdin", "get-stdin", "$stdin (result i32)"),
    ("cli/stdout", "get-stdout", "$stdout (result i32)"),
    ("cli/stderr", "get-stderr", "$stderr (result i32)"),
    ("filesystem/preopens", "get-directories", "$directories (param i32)"),
    ("sockets/instance-network", "instance-network", "$network (result i32)"),
];

fn source() -> Source {
    let mut source = Source::default();
    source.imports = IMPORTS
        .iter()
        .map(|(interface, name, ty)| format!("(import \"wasi:{interface}@0.2.3\" \"{name}\" (func {ty}))\n"))
        .collect();
    source.wit = (WORLD.to_owned(), "test:guard/guard".to_owned());
    source
}

/// A denial with the bytes from 512 on, in hexadecimal.
fn show(size: u32) -> String {
    format!(
        "(call $begin (i32.const 4096)) (call $hex (i32.const 512) (i32.const {size}))
         (call $deny (i32.const 0) (i32.const 0) (global.get $out) (call $size))"
    )
}

/// The message of the denial that the guard answers.
fn message(guard: &Guard, server: &str, call: Call) -> String {
    let [_, _, _, _, operation] = operations("x");
    match guard.evaluate(&request(server, operation), call).0 {
        Ok(GuardReply::Deny { reason }) => reason.message,
        other => panic!("{server}: {other:?}"),
    }
}

#[test]
fn clocks_and_randomness_are_those_of_the_call() {
    let mut source = source();
    // Wall clock at 512, monotonic clock at 528, random number at 536, seed at 544, random bytes at 560.
    source.behaviours.push(
        "(call $wall (i32.const 512)) (i32.store (i32.const 524) (i32.const 0))
         (i64.store (i32.const 528) (call $monotonic))
         (i64.store (i32.const 536) (call $random))
         (call $seed (i32.const 544))
         (call $random_bytes (i64.const 5) (i32.const 576))
         (i64.store (i32.const 560) (i64.const 0))
         (memory.copy (i32.const 560) (i32.load (i32.const 576)) (i32.load (i32.const 580)))"
            .to_owned()
            + &show(56),
    );
    let guard = load(&runtime(), &source.build()).unwrap();
    let at = |now_ns, seed| message(&guard, "A", Call { now_ns, seed, ..call() });
    let first = at(1_700_000_000_000_000_007, 1);
    // Little-endian: 1,700,000,000 s, 7 ns; the monotonic clock begins at 0.
    assert!(
        first.starts_with(
            "00f1536500000000\
                               0700000000000000\
                               0000000000000000"
        ),
        "{first}"
    );
    assert_eq!(first, at(1_700_000_000_000_000_007, 1));
    let (other_time, other_seed) = (at(1_800_000_000_000_000_000, 1), at(1_700_000_000_000_000_007, 2));
    assert_eq!((&first[48..], &first[..48]), (&other_time[48..], &other_seed[..48]));
    assert!(first[..48] != other_time[..48] && first[48..] != other_seed[48..]);
    // The five random bytes are there, and no more.
    assert!(first[96..106] != *"0000000000" && first[106..].bytes().all(|byte| byte == b'0'), "{first}");
}

#[test]
fn sleep_advances_the_clocks_at_once() {
    let mut source = source();
    // An hour by `block`, then the shorter of two timers by `poll`.
    source.behaviours.push(
        "(local.set $i (call $timer (i64.const 3600000000000)))
         (i32.store8 (i32.const 536) (call $ready (local.get $i)))
         (call $block (local.get $i))
         (i32.store8 (i32.const 537) (call $ready (local.get $i)))
         (call $drop_pollable (local.get $i))
         (i32.store (i32.const 600) (call $timer (i64.const 9000)))
         (i32.store (i32.const 604) (call $timer (i64.const 5)))
         (call $poll (i32.const 600) (i32.const 2) (i32.const 616))
         (i32.store8 (i32.const 538) (i32.load (i32.const 620)))
         (i32.store8 (i32.const 539) (i32.load (i32.load (i32.const 616))))
         (call $drop_pollable (i32.load (i32.const 600)))
         (call $drop_pollable (i32.load (i32.const 604)))
         (call $wall (i32.const 512)) (i32.store (i32.const 524) (i32.const 0))
         (i64.store (i32.const 528) (call $monotonic))"
            .to_owned()
            + &show(28),
    );
    let guard = load(&runtime(), &source.build()).unwrap();
    for _ in 0..2 {
        let call = Call { now_ns: 0, seed: 0, timeout: Duration::from_secs(60) };
        // 3600 s and 5 ns; 3,600,000,000,005 ns; not ready, ready, one of two timers, which is the second.
        assert_eq!(
            message(&guard, "A", call),
            "100e000000000000\
             0500000000000000\
             05a0b83046030000\
             00010101"
        );
    }
}

#[test]
fn output_goes_to_the_log() {
    let mut source = source();
    let (line, rest, panic) = (source.text("one\ntwo"), source.text(" more"), source.text("panicked: index"));
    source.behaviours = vec![
        format!(
            "(local.set $i (call $stdout))
             (call $check_write (local.get $i) (i32.const 512))
             (if (i32.or (i32.load8_u (i32.const 512)) (i64.eqz (i64.load (i32.const 520)))) (then (unreachable)))
             (call $write (local.get $i) {line} (i32.const 512))
             (call $write (local.get $i) {rest} (i32.const 512))
             (call $allow)"
        ),
        format!("(call $write (call $stderr) {panic} (i32.const 512)) (unreachable)"),
    ];
    let guard = load(&runtime(), &source.build()).unwrap();
    let run = |server: &str| {
        let (result, report) = guard.evaluate(&request(server, operations("x")[0].clone()), call());
        let lines: Vec<_> = report.logs.into_iter().map(|line| (line.level, line.text)).collect();
        (result, lines)
    };
    let info = |text: &str| (LogLevel::Info, text.to_owned());
    assert_eq!(run("A"), (Ok(GuardReply::Allow), vec![info("one"), info("two more")]));
    let (result, lines) = run("B");
    assert!(matches!(result, Err(GuardFailure::Error(_))));
    assert_eq!(lines, [(LogLevel::Warn, "panicked: index".to_owned())]);
}

#[test]
fn nothing_of_the_host_is_there() {
    let mut source = source();
    let list_length = |function: &str| {
        format!("(call {function} (i32.const 600)) (i32.store (i32.const 512) (i32.load (i32.const 604)))")
            + &show(4)
    };
    source.behaviours = vec![
        list_length("$environment"),
        list_length("$arguments"),
        list_length("$directories"),
        // `err(closed)`: 1, and in the payload the second case.
        "(call $read (call $stdin) (i64.const 10) (i32.const 600))
         (i32.store8 (i32.const 512) (i32.load8_u (i32.const 600)))
         (i32.store8 (i32.const 513) (i32.load8_u (i32.const 604)))"
            .to_owned()
            + &show(2),
    ];
    let guard = load(&runtime(), &source.build()).unwrap();
    for (server, expected) in [("A", "00000000"), ("B", "00000000"), ("C", "00000000"), ("D", "0101")] {
        assert_eq!(message(&guard, server, call()), expected, "{server}");
    }
}

#[test]
fn misuse_fails_and_the_next_call_works() {
    let cases = [
        (
            "(drop (call $network)) (call $allow)",
            "it called `instance-network` of wasi:sockets/instance-network@0.2.3, which guards do not get",
            false,
        ),
        ("(call $exit (i32.const 0)) (call $allow)", "it exited instead of answering", false),
        ("(call $poll (i32.const 0) (i32.const 0) (i32.const 512)) (call $allow)", "it polls nothing", false),
        (
            "(call $random_bytes (i64.const 100000) (i32.const 512)) (call $allow)",
            "64 KiB of random bytes",
            true,
        ),
        ("(call $random_bytes (i64.const -1) (i32.const 512)) (call $allow)", "64 KiB of random bytes", true),
        ("(loop $again (drop (call $timer (i64.const 1))) (br $again)) (unreachable)", "1024 timers", true),
        ("(loop $again (drop (call $stdout)) (br $again)) (unreachable)", "handles", true),
        ("(call $block (i32.const 77)) (call $allow)", "handle", false),
    ];
    let mut source = source();
    source.behaviours = vec!["(call $allow)".to_owned()];
    source.behaviours.extend(cases.iter().map(|(body, ..)| (*body).to_owned()));
    let guard = load(&runtime(), &source.build()).unwrap();
    for (server, (body, expected, is_limit)) in ('B'..).zip(cases) {
        for operation in operations("x") {
            let (result, _) = guard.evaluate(&request(&server.to_string(), operation.clone()), call());
            match result {
                Err(GuardFailure::Limit(text)) if is_limit => {
                    assert!(text.contains(expected), "{body}: {text}")
                }
                Err(GuardFailure::Error(text)) if !is_limit => {
                    assert!(text.contains(expected), "{body}: {text}")
                }
                other => panic!("{body}: {other:?}"),
            }
            assert_eq!(guard.evaluate(&request("A", operation), call()).0, Ok(GuardReply::Allow));
        }
    }
}
