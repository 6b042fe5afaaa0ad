//! Honest guards: arguments arrive intact, and verdicts come back.

use std::{collections::BTreeMap, fs, thread, time::Duration};

use mcpwarden_terms::contract::{GuardFailure, GuardReason, GuardReply};
use mcpwarden_wasm::{Call, Guard, Limits, LogLevel, Metric};

use crate::support::{
    FUNCTIONS, SECOND, Source, call, echoed, evaluate, identity, load, operations, request, runtime,
};

/// A guard whose verdict follows from the name of the server, from `A` on: allow, deny, deny with details, modify, error,
/// and a denial that quotes all arguments.
fn all_verdicts() -> Source {
    let mut source = Source::default();
    let (code, message, details) =
        (source.text("no"), source.text("not häre"), source.text("{\"scope\": [1]}"));
    let (action, failure) =
        (source.text("{\"type\":\"add_warning\",\"message\":\"x\"}"), source.text("cannot judge"));
    source.behaviours = vec![
        "(call $allow)".to_owned(),
        format!("(call $deny {code} {message})"),
        format!("(call $deny_with {code} {message} {details})"),
        format!("(call $modify {action})"),
        format!("(call $fail {failure})"),
        format!(
            "(call $echo (local.get $kind) (local.get $args))
             (call $deny {code} (global.get $out) (call $size))"
        ),
    ];
    source
}

fn denial(message: &str, details: Option<&str>) -> GuardReply {
    let details = details.map(str::to_owned);
    GuardReply::Deny { reason: GuardReason { code: "no".to_owned(), message: message.to_owned(), details } }
}

#[test]
fn every_function_returns_every_verdict() {
    let guard = load(&runtime(), &all_verdicts().build()).unwrap();
    let action = "{\"type\":\"add_warning\",\"message\":\"x\"}".to_owned();
    for (operation, function) in operations("{\"a\": \"ä\"}").into_iter().zip(FUNCTIONS) {
        for (server, expected) in [
            ("A", Ok(GuardReply::Allow)),
            ("B", Ok(denial("not häre", None))),
            ("C", Ok(denial("not häre", Some("{\"scope\": [1]}")))),
            ("D", Ok(GuardReply::Modify { action: action.clone() })),
            ("E", Err(GuardFailure::Error("cannot judge".to_owned()))),
        ] {
            let (result, report) = evaluate(&guard, &request(server, operation.clone()));
            assert_eq!(result, expected, "{function} {server}");
            assert!(report.fuel_used > 0 && report.logs.is_empty(), "{function} {server}: {report:?}");
        }
    }
}

#[test]
fn arguments_arrive_intact() {
    let guard = load(&runtime(), &all_verdicts().build()).unwrap();
    let texts = ["", "null", "{\"q\":\"\\u0000\"}", "emoji 🦀 and \u{0} and \n", &"long ".repeat(5000)];
    let identities = [
        None,
        Some(identity()),
        Some(mcpwarden_terms::contract::GuardIdentity {
            email: Some("a@b.c".into()),
            groups: vec![],
            ..identity()
        }),
    ];
    for text in texts {
        for identity in &identities {
            for operation in operations(text) {
                let mut request = request("F", operation);
                request.context.identity = identity.clone();
                request.context.metadata = format!("{{\"session_id\":\"{}\"}}", text.len());
                let (result, _) = evaluate(&guard, &request);
                assert_eq!(result, Ok(denial(&echoed(&request), None)), "{request:?}");
            }
        }
    }
}

#[test]
fn guard_denies_what_contains_its_word() {
    let mut source = Source::default();
    let (word, code, message) = (source.text("secret"), source.text("no"), source.text("it says secret"));
    // The second string of the arguments, or the first of those with one string: the operation's own text.
    source.behaviours = vec![format!(
        "(local.set $i (i32.add (local.get $args)
           (select (i32.const 0) (i32.const 8) (i32.eq (local.get $kind) (i32.const 4)))))
         (if (result i32) (call $contains (i32.load (local.get $i)) (i32.load offset=4 (local.get $i)) {word})
           (then (call $deny {code} {message}))
           (else (call $allow)))"
    )];
    let guard = load(&runtime(), &source.build()).unwrap();
    for (text, denied) in
        [("{\"path\":\"/etc/secret\"}", true), ("secret", true), ("secre", false), ("", false)]
    {
        for operation in operations(text).into_iter().skip(1) {
            let expected = if denied { denial("it says secret", None) } else { GuardReply::Allow };
            assert_eq!(evaluate(&guard, &request("s", operation)).0, Ok(expected), "{text}");
        }
    }
}

#[test]
fn guard_reads_its_configuration() {
    let mut source = Source::default();
    let (key, absent, code) = (source.text("threshold"), source.text("thresh"), source.text("no"));
    // The answer of `get-config` at 512: 0 or 1, pointer, length.
    let quote = |key: &str| {
        format!(
            "(call $get_config {key} (i32.const 512))
             (call $begin (i32.const 1024))
             (call $optional (i32.const 512))
             (call $deny {code} (global.get $out) (call $size))"
        )
    };
    source.behaviours = vec![quote(&key), quote(&absent)];
    let config = BTreeMap::from([("threshold".to_owned(), "[1,\"ä\"]".to_owned())]);
    let guard = Guard::load(&runtime(), "test", &source.build(), config, Limits::default()).unwrap();
    for (server, expected) in [("A", "[1,\"ä\"]|"), ("B", "-|")] {
        for operation in operations("x") {
            assert_eq!(
                evaluate(&guard, &request(server, operation)).0,
                Ok(denial(expected, None)),
                "{server}"
            );
        }
    }
}

#[test]
fn logs_and_metrics_are_reported() {
    let mut source = Source::default();
    let (line, name, label) = (source.text("judging"), source.text("hits_total"), source.text("kind"));
    let pointers = |text: &str| {
        let numbers: Vec<u32> =
            text.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect();
        // "i32" of `i32.const` leaves a number of its own.
        (numbers[1], numbers[3])
    };
    let (at, size) = pointers(&label);
    // One label at 512: name and value, both `kind`.
    let stores: String = [at, size, at, size]
        .iter()
        .enumerate()
        .map(|(index, value)| format!("(i32.store (i32.const {}) (i32.const {value}))", 512 + 4 * index))
        .collect();
    source.behaviours = vec![format!(
        "(call $log (i32.const 3) {line})
         (call $log (i32.const 0) (i32.const 0) (i32.const 0))
         {stores}
         (call $record_metric {name} (f64.const 2.5) (i32.const 512) (i32.const 1))
         (call $allow)"
    )];
    let guard = load(&runtime(), &source.build()).unwrap();
    for operation in operations("x") {
        let (result, report) = evaluate(&guard, &request("s", operation));
        assert_eq!(result, Ok(GuardReply::Allow));
        let lines: Vec<_> = report.logs.iter().map(|line| (line.level, line.text.as_str())).collect();
        assert_eq!(lines, [(LogLevel::Warn, "judging"), (LogLevel::Trace, "")]);
        let labels = vec![("kind".to_owned(), "kind".to_owned())];
        assert_eq!(report.metrics, [Metric { name: "hits_total".to_owned(), value: 2.5, labels }]);
        assert_eq!((report.logs_dropped, report.logs_cut, report.metrics_dropped), (0, 0, 0));
    }
}

#[test]
fn invalid_answers_are_errors() {
    let mut source = Source::default();
    let (code, not_json, list, no_type, number) = (
        source.text("no"),
        source.text("{\"a\":"),
        source.text("[\"type\"]"),
        source.text("{\"kind\":\"x\"}"),
        source.text("{\"type\":1}"),
    );
    let long = source.text("é".repeat(2000));
    source.behaviours = vec![
        format!("(call $deny_with {code} {code} {not_json})"),
        format!("(call $modify {not_json})"),
        format!("(call $modify {list})"),
        format!("(call $modify {no_type})"),
        format!("(call $modify {number})"),
        format!("(call $fail {long})"),
    ];
    let guard = load(&runtime(), &source.build()).unwrap();
    for (server, expected) in [
        ("A", "invalid answer: the details of the denial are not JSON"),
        ("B", "invalid answer: the action is not a JSON object with a `type`"),
        ("C", "invalid answer: the action is not a JSON object with a `type`"),
        ("D", "invalid answer: the action is not a JSON object with a `type`"),
        ("E", "invalid answer: the action is not a JSON object with a `type`"),
        ("F", "ééé"),
    ] {
        match evaluate(&guard, &request(server, operations("x")[1].clone())).0 {
            Err(GuardFailure::Error(text)) => {
                assert!(text.starts_with(expected) && text.len() <= 1024, "{server}: {text}");
            }
            other => panic!("{server}: {other:?}"),
        }
    }
}

#[test]
fn request_larger_than_the_memory_is_a_limit() {
    let limits = Limits { memory_bytes: 1 << 20, ..Limits::default() };
    let guard =
        Guard::load(&runtime(), "test", &Source::one("(call $allow)").build(), BTreeMap::new(), limits)
            .unwrap();
    let large = "x".repeat(2 << 20);
    for (large, small) in operations(&large).into_iter().zip(operations("x")) {
        let failure = GuardFailure::Limit("more than 1048576 bytes of memory".to_owned());
        assert_eq!(evaluate(&guard, &request("s", large)).0, Err(failure));
        assert_eq!(evaluate(&guard, &request("s", small)).0, Ok(GuardReply::Allow));
    }
}

#[test]
fn same_call_gets_same_answer() {
    // Fresh instances, reused ones, and those of another engine.
    let bytes = all_verdicts().build();
    let mut answers = vec![];
    for _ in 0..2 {
        let guard = load(&runtime(), &bytes).unwrap();
        for _ in 0..3 {
            for operation in operations("{\"x\":1}") {
                let (result, report) = evaluate(&guard, &request("F", operation.clone()));
                answers.push((
                    format!("{operation:?}"),
                    format!("{result:?} {:?} {:?}", report.logs, report.metrics),
                ));
            }
        }
    }
    for (operation, answer) in &answers {
        let first = answers.iter().find(|(other, _)| other == operation).unwrap();
        assert_eq!(*answer, first.1, "{operation}");
    }
}

#[test]
fn busy_guard_refuses_after_the_timeout() {
    let mut source = Source::default();
    source.behaviours =
        vec!["(loop $forever (br $forever)) (unreachable)".to_owned(), "(call $allow)".to_owned()];
    let limits = Limits { instances: 1, fuel: u64::MAX, ..Limits::default() };
    let runtime = runtime();
    let guard = Guard::load(&runtime, "test", &source.build(), BTreeMap::new(), limits).unwrap();
    let [_, _, _, _, operation] = operations("x");
    thread::scope(|scope| {
        let busy = scope.spawn(|| {
            let call = Call { timeout: 2 * SECOND, ..call() };
            guard.evaluate(&request("A", operation.clone()), call).0
        });
        // Until the endless call has begun, other calls get the instance.
        let short = Call { timeout: Duration::from_millis(20), ..call() };
        let refused = loop {
            match guard.evaluate(&request("B", operation.clone()), short).0 {
                Err(GuardFailure::Refused(text)) => break text,
                other => assert!(!busy.is_finished(), "{other:?}"),
            }
        };
        assert_eq!(refused, "all instances (1) were busy until the timeout");
        // One that waits longer gets its turn.
        assert_eq!(evaluate(&guard, &request("B", operation.clone())).0, Ok(GuardReply::Allow));
        assert_eq!(busy.join().unwrap(), Err(GuardFailure::Timeout));
    });
}

#[test]
fn concurrent_calls_do_not_mix() {
    let guard = load(&runtime(), &all_verdicts().build()).unwrap();
    thread::scope(|scope| {
        for thread in 0..4 {
            let guard = &guard;
            scope.spawn(move || {
                for turn in 0..20 {
                    for operation in operations(&format!("{thread} {turn}")) {
                        let request = request("F", operation);
                        assert_eq!(evaluate(guard, &request).0, Ok(denial(&echoed(&request), None)));
                    }
                }
            });
        }
    });
}

#[test]
fn no_page_becomes_executable() {
    let executable = || {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().filter(|line| line.split(' ').nth(1).is_some_and(|mode| mode.contains('x'))).count()
    };
    // Other tests run at the same time in this process, and load no libraries either.
    let before = executable();
    let guard = load(&runtime(), &all_verdicts().build()).unwrap();
    assert_eq!(evaluate(&guard, &request("A", operations("x")[0].clone())).0, Ok(GuardReply::Allow));
    assert_eq!(executable(), before);
}
