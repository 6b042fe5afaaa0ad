//! Hostile guards: each ends with a failure that names the reason, and the next call of the same guard works.

use std::time::Duration;

use mcpwarden_terms::contract::{GuardFailure, GuardReply};
use mcpwarden_wasm::{Call, CallReport, Guard, Limits, WasmConfig};

use crate::support::{FUNCTIONS, SECOND, Source, call, load, operations, request, runtime};

/// What a hostile call must end with.
enum Expected {
    Timeout,
    Limit(&'static str),
    Error(&'static str),
    /// The guard answers; the report shows the attempt.
    Allowed(fn(&CallReport) -> bool),
}

struct Case {
    name: &'static str,
    /// The body of a behaviour.
    body: String,
    expected: Expected,
}

impl Case {
    fn new(name: &'static str, body: impl Into<String>, expected: Expected) -> Self {
        Self { name, body: body.into(), expected }
    }

    fn check(&self, function: &str, result: &Result<GuardReply, GuardFailure>, report: &CallReport) {
        let holds = match (&self.expected, result) {
            (Expected::Timeout, Err(GuardFailure::Timeout)) => true,
            (Expected::Limit(text), Err(GuardFailure::Limit(found)))
            | (Expected::Error(text), Err(GuardFailure::Error(found))) => {
                found.contains(text) && found.len() <= 1024
            }
            (Expected::Allowed(shows), Ok(GuardReply::Allow)) => shows(report),
            _ => false,
        };
        assert!(holds, "{function}, {}: {result:?} {report:?}", self.name);
    }
}

/// Repeats `body` as often as `count` says.
fn repeat(count: u32, body: &str) -> String {
    format!(
        "(loop $again {body}
           (local.set $i (i32.add (local.get $i) (i32.const 1)))
           (br_if $again (i32.lt_u (local.get $i) (i32.const {count}))))"
    )
}

fn cases(source: &mut Source) -> Vec<Case> {
    use Expected::{Allowed, Error, Limit, Timeout};

    let (ok, not_utf8) = (source.text("ok"), source.text(b"a\xff\xfeb"));
    let name = source.text("hits");
    let invalid = source.text("no-name");
    source.items = "
        (func $recurse (param i64) (result i64) (i64.add (i64.const 1) (call $recurse (i64.add (local.get 0) (i64.const 1)))))
        (table $bomb 1 funcref)
    "
    .to_owned();
    let grow = "(loop $more (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))";
    let large = "(call $begin (i32.const 2097152)) (memory.fill (global.get $out) (i32.const 97) (i32.const 2097152))";
    vec![
        Case::new("endless loop", "(loop $forever (br $forever)) (unreachable)", Timeout),
        Case::new("memory bomb", format!("{grow} (unreachable)"), Limit("67108864 bytes of memory")),
        Case::new("survived memory bomb", format!("{grow} (call $allow)"), Allowed(|_| true)),
        Case::new("stack bomb", "(drop (call $recurse (i64.const 0))) (call $allow)", Limit("stack")),
        Case::new("trap", "(unreachable)", Error("unreachable")),
        Case::new("division by zero", "(i32.div_u (i32.const 1) (i32.const 0))", Error("divide by zero")),
        Case::new("wild read", "(i32.load (i32.const -8))", Error("out of bounds")),
        Case::new("wild call", "(call_indirect $bomb (type $behaviour) (i32.const 0) (i32.const 0) (i32.const 0))", Error("uninitialized element")),
        Case::new(
            "table bomb",
            "(loop $more (br_if $more (i32.ne (table.grow $bomb (ref.null func) (i32.const 10000)) (i32.const -1)))) (unreachable)",
            Limit("100000 elements of tables"),
        ),
        Case::new("large answer", format!("{large} (call $deny {ok} (global.get $out) (i32.const 2097152))"), Limit("1048576 bytes")),
        Case::new("large action", format!("{large} (call $modify (global.get $out) (i32.const 2097152))"), Limit("1048576 bytes")),
        Case::new("large error", format!("{large} (call $fail (global.get $out) (i32.const 2097152))"), Limit("1048576 bytes")),
        Case::new("answer of 100 MB that is not there", format!("(call $deny {ok} (i32.const 1024) (i32.const 100000000))"), Error("length out of bounds")),
        Case::new("answer at a wild address", format!("(call $deny {ok} (i32.const -256) (i32.const 16))"), Error("length out of bounds")),
        Case::new("answer that wraps around", format!("(call $deny {ok} (i32.const 65536) (i32.const -1))"), Error("length out of bounds")),
        Case::new("result at a wild address", "(i32.const -4)", Error("pointer out of bounds")),
        Case::new("result at an odd address", "(i32.const 2)", Error("not aligned")),
        Case::new("result of no kind", "(i32.store8 (i32.const 0) (i32.const 7)) (i32.const 0)", Error("discriminant")),
        Case::new("verdict of no kind", "(drop (call $allow)) (i32.store8 (i32.const 4) (i32.const 9)) (i32.const 0)", Error("discriminant: 9")),
        Case::new("invalid UTF-8", format!("(call $deny {not_utf8} {ok})"), Error("utf-8")),
        Case::new(
            "log flood",
            repeat(2000, &format!("(call $log (i32.const 4) {ok})")) + "(call $allow)",
            Allowed(|report| report.logs.len() == 32 && report.logs_dropped == 1968),
        ),
        Case::new(
            "long lines",
            repeat(40, "(call $log (i32.const 4) (i32.const 65536) (i32.const 60000))") + "(call $allow)",
            Allowed(|report| {
                let kept: usize = report.logs.iter().map(|line| line.text.len()).sum();
                kept <= 32 * 1024 && (report.logs_cut, report.logs_dropped) == (32, 8)
            }),
        ),
        Case::new("line of 2 MB", format!("{large} (call $log (i32.const 0) (global.get $out) (i32.const 2097152)) (call $allow)"), Limit("1048576 bytes")),
        Case::new("line at a wild address", "(call $log (i32.const 0) (i32.const -256) (i32.const 16)) (call $allow)", Error("length out of bounds")),
        Case::new("line of no level", format!("(call $log (i32.const 77) {ok}) (call $allow)"), Error("discriminant: 77")),
        Case::new(
            "metric flood",
            repeat(2000, &format!("(call $record_metric {name} (f64.const 1) (i32.const 0) (i32.const 0))")) + "(call $allow)",
            Allowed(|report| report.metrics.len() == 32 && report.metrics_dropped == 1968),
        ),
        Case::new(
            "metrics that are no numbers",
            format!(
                "(call $record_metric {name} (f64.const nan) (i32.const 0) (i32.const 0))
                 (call $record_metric {name} (f64.const inf) (i32.const 0) (i32.const 0))
                 (call $record_metric {invalid} (f64.const 1) (i32.const 0) (i32.const 0))
                 (call $allow)"
            ),
            Allowed(|report| report.metrics.is_empty() && report.metrics_dropped == 3),
        ),
        Case::new(
            "a million labels",
            format!("(call $record_metric {name} (f64.const 1) (i32.const 0) (i32.const 1000000)) (call $allow)"),
            Error("length out of bounds"),
        ),
        Case::new(
            "labels for 2 MB",
            format!(
                "(drop (call $take (i32.const 2097152)))
                 (call $record_metric {name} (f64.const 1) (i32.const 65536) (i32.const 100000)) (call $allow)"
            ),
            Limit("1048576 bytes"),
        ),
        Case::new("configuration at a wild address", format!("(call $get_config {ok} (i32.const -4)) (call $allow)"), Error("out of bounds")),
    ]
}

#[test]
fn hostile_calls_fail_and_the_next_call_works() {
    let mut source = Source::default();
    let cases = cases(&mut source);
    // The first behaviour allows; from the second on, they are the cases.
    source.behaviours = vec!["(call $allow)".to_owned()];
    source.behaviours.extend(cases.iter().map(|case| case.body.clone()));
    let limits = Limits { fuel: u64::MAX, ..Limits::default() };
    let guard = Guard::load(&runtime(), "test", &source.build(), WasmConfig::new(), limits).unwrap();
    for (function, operation) in FUNCTIONS.into_iter().zip(operations("{}")) {
        for (server, case) in ('B'..).zip(&cases) {
            let timeout = match case.expected {
                Expected::Timeout => Duration::from_millis(30),
                _ => 60 * SECOND,
            };
            let hostile = request(&server.to_string(), operation.clone());
            let (result, report) = guard.evaluate(&hostile, Call { timeout, ..call() });
            case.check(function, &result, &report);
            let (result, _) = guard.evaluate(&request("A", operation.clone()), call());
            assert_eq!(result, Ok(GuardReply::Allow), "{function} after {}", case.name);
        }
    }
}

#[test]
fn endless_loop_ends_soon_after_the_timeout() {
    let guard = Guard::load(
        &runtime(),
        "test",
        &Source::one("(loop $forever (br $forever)) (unreachable)").build(),
        WasmConfig::new(),
        Limits { fuel: u64::MAX, ..Limits::default() },
    )
    .unwrap();
    for millis in [0, 1, 20] {
        let timeout = Duration::from_millis(millis);
        let (result, report) =
            guard.evaluate(&request("s", operations("x")[4].clone()), Call { timeout, ..call() });
        assert_eq!(result, Err(GuardFailure::Timeout));
        assert!(report.elapsed >= timeout && report.elapsed < timeout + 5 * SECOND, "{:?}", report.elapsed);
    }
}

#[test]
fn fuel_ends_calls_at_the_same_instruction() {
    let limits = Limits { fuel: 100_000, ..Limits::default() };
    let source = Source::one(&(repeat(u32::MAX, "") + "(call $allow)"));
    let guard = Guard::load(&runtime(), "test", &source.build(), WasmConfig::new(), limits).unwrap();
    for operation in operations("x") {
        let (result, report) = guard.evaluate(&request("s", operation), call());
        assert!(
            matches!(&result, Err(GuardFailure::Limit(text)) if text.contains("100000 units of fuel")),
            "{result:?}"
        );
        assert_eq!(report.fuel_used, 100_000);
    }
}

#[test]
fn hostile_allocators_fail() {
    // The functions that the engine itself calls to pass arguments and to free results.
    let allow = "(call $allow)";
    let cases: &[(&str, &str, Expected)] = &[
        ("(return (i32.const -1))", "", Expected::Error("realloc return")),
        ("(loop $forever (br $forever))", "", Expected::Timeout),
        ("(unreachable)", "", Expected::Error("unreachable")),
        ("", "(loop $forever (br $forever))", Expected::Timeout),
        ("", "(unreachable)", Expected::Error("unreachable")),
    ];
    let runtime = runtime();
    for (realloc, post_return, expected) in cases {
        let mut source = Source::one(allow);
        source.realloc = (*realloc).to_owned();
        source.post_return = (*post_return).to_owned();
        let guard = load(&runtime, &source.build()).unwrap();
        for operation in operations("x") {
            let timeout =
                if matches!(expected, Expected::Timeout) { Duration::from_millis(30) } else { 60 * SECOND };
            let (result, _) = guard.evaluate(&request("s", operation), Call { timeout, ..call() });
            match (expected, &result) {
                (Expected::Timeout, Err(GuardFailure::Timeout)) => {}
                (Expected::Error(text), Err(GuardFailure::Error(found))) if found.contains(text) => {}
                _ => panic!("{realloc} {post_return}: {result:?}"),
            }
        }
    }
}

#[test]
fn grown_instance_is_replaced() {
    // A guard that allows once: its memory remembers.
    let mut source = Source::default();
    let once =
        "(if (i32.load (i32.const 900)) (then (unreachable))) (i32.store (i32.const 900) (i32.const 1))";
    source.behaviours = vec![
        format!("{once} (call $allow)"),
        format!("{once} (drop (memory.grow (i32.const 320))) (call $allow)"),
    ];
    let guard = load(&runtime(), &source.build()).unwrap();
    let [operation, ..] = operations("x");
    let mut results = vec![];
    for server in ["B", "B", "A", "A", "A"] {
        results.push(guard.evaluate(&request(server, operation.clone()), call()).0.is_ok());
    }
    // 20 MiB more: replaced, twice. Then a small one is used again, and traps; then a new one.
    assert_eq!(results, [true, true, true, false, true]);
}
