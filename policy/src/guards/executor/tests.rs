use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::json;

use super::super::tests::{World, at, raw, tool};
use super::*;
use crate::glob::NameGlob;
use crate::guard::{Modification, ToolFacts};

/// What a double does when it is asked.
#[derive(Clone, Debug)]
enum Does {
    Says(Decision),
    Fails(GuardError),
    Panics,
}

/// A guard that does as it is told, and tells what it saw.
#[derive(Debug)]
struct Double {
    kind: GuardKind,
    does: Does,
    work: usize,
    saw: Sender<String>,
}

impl Guard for Double {
    fn kind(&self) -> GuardKind {
        self.kind
    }

    fn phases(&self) -> &'static [Phase] {
        &[Phase::ToolInvoke]
    }

    fn work(&self, _: &Operation<'_>) -> usize {
        self.work
    }

    fn check(
        &mut self,
        operation: &Operation<'_>,
        _: &Facts<'_>,
        _: Timestamp,
    ) -> Result<Decision, GuardError> {
        let text = |json: Option<&serde_json::value::RawValue>| json.map_or("", |json| json.get()).to_owned();
        let seen = match *operation {
            Operation::ToolInvoke { arguments, .. } | Operation::PromptRequest { arguments, .. } => {
                text(arguments)
            }
            Operation::Request { params, .. } => text(params),
            Operation::ToolResult { result, .. } | Operation::Response { result, .. } => text(result),
            Operation::ToolsList { tools } => {
                tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>().join(" ")
            }
            Operation::ResourceRequest { uri, .. } => uri.to_owned(),
        };
        self.saw.send(format!("{} {} {seen}", self.kind.name(), operation.phase().name())).unwrap();
        match self.does.clone() {
            Does::Says(decision) => Ok(decision),
            Does::Fails(error) => Err(error),
            Does::Panics => panic!("it broke"),
        }
    }

    fn settled(&mut self, _: &Operation<'_>, _: &Facts<'_>, _: &Verdict, _: Timestamp) {
        assert!(!matches!(self.does, Does::Panics), "it broke again");
    }
}

/// An executor of doubles, and what they saw.
struct Bench {
    executor: Executor,
    saw: Receiver<String>,
}

/// Doubles by kind, priority, failure mode, phases, and what they do.
fn bench(doubles: Vec<(GuardKind, u8, FailureMode, &[Phase], Does)>) -> Bench {
    let (sender, saw) = channel();
    let (mut guards, mut seats): (Vec<Box<dyn Guard>>, _) = (Vec::new(), Vec::new());
    for (kind, priority, failure_mode, phases, does) in doubles {
        seats.push(Seat {
            guard: guards.len(),
            servers: Vec::new(),
            except: Vec::new(),
            priority,
            timeout_ms: 100,
            failure_mode,
            phases: phases.to_vec(),
        });
        guards.push(Box::new(Double { kind, does, work: 0, saw: sender.clone() }));
    }
    Bench { executor: Executor::new(guards, seats), saw }
}

impl Bench {
    fn ask(&mut self, operations: &[Operation<'_>]) -> (Verdict, Vec<Asked>) {
        let mut trace = Vec::new();
        let world = World::default();
        let facts = world.facts();
        let outcome =
            self.executor.ask(&Question { operations, facts: &facts, now: at(0.0) }, Some(&mut trace));
        (outcome, trace)
    }

    fn saw(&self) -> Vec<String> {
        self.saw.try_iter().collect()
    }
}

fn denial() -> Denial {
    Denial { code: DenialCode::ToolDenied, message: "no!".to_owned(), details: None }
}

const CALL: Operation<'static> = Operation::ToolInvoke { tool_name: "x", arguments: None };
const INVOKE: &[Phase] = &[Phase::ToolInvoke];
use Does::{Fails, Panics, Says};
use FailureMode::{FailClosed, FailOpen};
use GuardKind::{AdminToken, Mode, RateLimit, Sampling, ToolAccess};

#[test]
fn guards_run_by_priority_then_config_order() {
    let allow = || Says(Decision::Allow);
    let mut bench = bench(vec![
        (Mode, 50, FailClosed, INVOKE, allow()),
        (Sampling, 10, FailClosed, INVOKE, allow()),
        (AdminToken, 100, FailClosed, INVOKE, allow()),
        (RateLimit, 10, FailClosed, INVOKE, allow()),
        (ToolAccess, 0, FailClosed, INVOKE, allow()),
    ]);
    let (outcome, trace) = bench.ask(&[CALL]);
    assert_eq!(outcome, Verdict::default());
    let order: Vec<GuardKind> = trace.iter().map(|asked| asked.guard).collect();
    assert_eq!(order, [ToolAccess, Sampling, RateLimit, Mode, AdminToken]);
    assert!(trace.iter().all(|asked| asked.answer == GuardOutcome::Allow && asked.reason.is_none()));
    assert_eq!(bench.executor.counters().asked, 5);
}

#[test]
fn request_phase_precedes_and_response_follows_specific_phase() {
    let all: &[Phase] = &Phase::ALL;
    let mut bench = bench(vec![(Mode, 0, FailClosed, all, Says(Decision::Allow))]);
    for (operations, expected) in [
        (
            vec![CALL, Operation::Request { method: "tools/call", params: None }],
            vec!["request", "tool_invoke"],
        ),
        (
            vec![
                Operation::Response { method: "tools/call", result: None, error: None },
                Operation::ToolResult { tool_name: "x", result: None, error: None },
            ],
            vec!["tool_result", "response"],
        ),
        (
            vec![
                Operation::ToolsList { tools: &[] },
                Operation::Response { method: "tools/list", result: None, error: None },
            ],
            vec!["tools_list", "response"],
        ),
        (vec![Operation::PromptRequest { name: "p", arguments: None }], vec!["prompt_request"]),
        (vec![Operation::ResourceRequest { uri: "u", is_listed: false }], vec!["resource_request"]),
        (vec![], vec![]),
    ] {
        let (_, trace) = bench.ask(&operations);
        let phases: Vec<&str> = trace.iter().map(|asked| asked.phase.name()).collect();
        assert_eq!(phases, expected);
    }
}

#[test]
fn denial_ends_the_evaluation() {
    let mut bench = bench(vec![
        (ToolAccess, 1, FailClosed, INVOKE, Says(Decision::Allow)),
        (RateLimit, 2, FailClosed, INVOKE, Says(Decision::Deny(denial()))),
        (Mode, 3, FailClosed, INVOKE, Says(Decision::Allow)),
    ]);
    let (outcome, trace) = bench.ask(&[CALL]);
    assert_eq!(outcome.denied, Some((RateLimit, denial())));
    assert_eq!(trace.len(), 2);
    assert_eq!((trace[1].answer, trace[1].reason.as_deref()), (GuardOutcome::Deny, Some("no!")));
    assert_eq!(bench.executor.counters().denied, 1);
}

#[test]
fn guard_failure_follows_its_failure_mode() {
    let internal = || GuardError::Internal("x".to_owned());
    for (mode, does, code, message) in [
        (FailClosed, Fails(GuardError::Timeout), Some("guard_timeout"), "no answer in time"),
        (FailClosed, Fails(internal()), Some("guard_error"), "internal error: x"),
        (FailClosed, Fails(GuardError::Config("y".to_owned())), Some("guard_error"), "configuration: y"),
        (FailClosed, Panics, Some("guard_error"), "internal error: panicked: it broke"),
        (FailOpen, Fails(GuardError::Timeout), None, "no answer in time"),
        (FailOpen, Fails(internal()), None, "internal error: x"),
        (FailOpen, Panics, None, "internal error: panicked: it broke"),
    ] {
        let mut bench = bench(vec![
            (Mode, 1, mode, INVOKE, does.clone()),
            (RateLimit, 2, FailClosed, INVOKE, Says(Decision::Allow)),
        ]);
        let (outcome, trace) = bench.ask(&[CALL]);
        let verdict = outcome;
        assert_eq!(trace[0].reason.as_deref(), Some(message));
        match code {
            Some(code) => {
                let (kind, denial) = verdict.denied.unwrap();
                assert_eq!((kind, denial.code.name(), trace.len()), (Mode, code, 1));
                assert_eq!(denial.message, format!("the guard mode failed, which denies: {message}"));
            }
            None => {
                assert_eq!((verdict.denied, trace.len()), (None, 2));
                assert_eq!(verdict.failed_open[0].1.to_string(), message);
            }
        }
        let counters = *bench.executor.counters();
        assert_eq!(counters.failed, 1);
        assert_eq!(counters.timeouts, u64::from(matches!(does, Fails(GuardError::Timeout))));
        assert_eq!(counters.panics, u64::from(matches!(does, Panics)));
    }
}

#[test]
fn panicking_guard_is_evaluated_again() {
    let mut bench = bench(vec![(Mode, 1, FailOpen, INVOKE, Panics)]);
    for count in 1..=3 {
        let world = World::default();
        let facts = world.facts();
        let question = Question { operations: &[CALL], facts: &facts, now: at(0.0) };
        let verdict = bench.executor.ask(&question, None);
        bench.executor.settle(&question, &verdict);
        assert_eq!(bench.executor.counters().panics, 2 * count);
    }
}

#[test]
fn operation_over_work_budget_times_out() {
    // 100 ms are 10,000,000 bytes.
    for (work, expected) in [(10_000_000, None), (10_000_001, Some("guard_timeout"))] {
        let (saw, _keep) = channel();
        let double = Double { kind: Mode, does: Says(Decision::Allow), work, saw };
        let seat = Seat {
            guard: 0,
            servers: Vec::new(),
            except: Vec::new(),
            priority: 0,
            timeout_ms: 100,
            failure_mode: FailClosed,
            phases: INVOKE.to_vec(),
        };
        let mut bench = Bench { executor: Executor::new(vec![Box::new(double)], vec![seat]), saw: _keep };
        let denied = bench.ask(&[CALL]).0.denied.map(|(_, denial)| denial.code.name());
        assert_eq!(denied, expected);
    }
}

#[test]
fn guard_slot_applies_to_its_named_servers_only() {
    let glob = |text| NameGlob::new(text, true).unwrap();
    let seat = |servers: Vec<NameGlob>, except| Seat {
        guard: 0,
        servers,
        except,
        priority: 0,
        timeout_ms: 100,
        failure_mode: FailClosed,
        phases: INVOKE.to_vec(),
    };
    for (servers, except, expected) in [
        (vec![], vec![], true),
        (vec![glob("fil*")], vec![], true),
        (vec![glob("x"), glob("files")], vec![], true),
        (vec![glob("x")], vec![], false),
        (vec![], vec![glob("f*")], false),
        (vec![], vec![glob("x")], true),
    ] {
        assert_eq!(seat(servers, except).is_for("files"), expected);
    }
}

fn redaction(path: &str) -> Decision {
    Decision::Modify(Modification::RedactFields {
        paths: vec![path.to_owned()],
        replacement: "***".to_owned(),
    })
}

#[test]
fn modification_is_visible_to_later_guards() {
    let tools = [tool("a"), tool("b"), tool("c")];
    let arguments = raw(json!({"a": 1, "b": {"c": 2}}));
    let params = raw(json!({"name": "x", "arguments": {"a": 1}}));
    let request = Operation::Request { method: "tools/call", params: Some(&params) };
    let call = Operation::ToolInvoke { tool_name: "x", arguments: Some(&arguments) };
    let result = Operation::ToolResult { tool_name: "x", result: Some(&arguments), error: None };
    let response = Operation::Response { method: "tools/call", result: Some(&arguments), error: None };
    let list = Operation::ToolsList { tools: &tools };
    let keep = Decision::Modify(Modification::ReplaceTools(vec!["a".into(), "c".into(), "z".into()]));
    let warning =
        Decision::Modify(Modification::AddWarning { message: "careful".into(), detections: Vec::new() });
    for (does, phases, operations, expected) in [
        (redaction("$.a"), INVOKE, vec![call], "mode tool_invoke {\"a\":\"***\",\"b\":{\"c\":2}}"),
        (redaction("$..c"), INVOKE, vec![call], "mode tool_invoke {\"a\":1,\"b\":{\"c\":\"***\"}}"),
        (redaction("$.none"), INVOKE, vec![call], "mode tool_invoke {\"a\":1,\"b\":{\"c\":2}}"),
        (
            redaction("$['b','a']"),
            &[Phase::ToolResult],
            vec![result],
            "mode tool_result {\"a\":\"***\",\"b\":\"***\"}",
        ),
        // What is redacted in one phase of an operation is so in the next.
        (
            redaction("$.arguments.a"),
            &[Phase::Request],
            vec![request, call],
            "mode tool_invoke {\"a\":\"***\"}",
        ),
        (
            redaction("$.b"),
            &[Phase::ToolResult],
            vec![result, response],
            "mode response {\"a\":1,\"b\":\"***\"}",
        ),
        (keep, &[Phase::ToolsList], vec![list], "mode tools_list a c"),
        (warning, INVOKE, vec![call], "mode tool_invoke {\"a\":1,\"b\":{\"c\":2}}"),
    ] {
        let mut bench = bench(vec![
            (RateLimit, 1, FailClosed, phases, Says(does.clone())),
            (Mode, 2, FailClosed, &Phase::ALL, Says(Decision::Allow)),
        ]);
        let verdict = bench.ask(&operations).0;
        let Decision::Modify(modification) = does else { panic!("{does:?}") };
        assert_eq!(verdict.modifications, [(RateLimit, modification)]);
        assert_eq!(bench.saw().last().map(String::as_str), Some(expected));
    }
}

#[test]
fn impossible_modification_is_a_guard_failure() {
    let deep = serde_json::value::RawValue::from_string("[".repeat(400) + &"]".repeat(400));
    let arguments = raw(json!({}));
    let call = Operation::ToolInvoke { tool_name: "x", arguments: Some(&arguments) };
    let replace = Decision::Modify(Modification::ReplaceTools(Vec::new()));
    for (does, expected) in [
        (redaction("a.b"), "configuration: `a.b` is no JSONPath"),
        (redaction("$["), "configuration: `$[` is no JSONPath"),
        (replace, "internal error: there are no tools to replace in this phase"),
    ] {
        let mut bench = bench(vec![(Mode, 1, FailOpen, INVOKE, Says(does))]);
        let verdict = bench.ask(&[call]).0;
        let message = verdict.failed_open[0].1.to_string();
        assert!(message.starts_with(expected), "{message}");
        assert!(verdict.modifications.is_empty());
    }
    if let Ok(deep) = deep {
        let call = Operation::ToolInvoke { tool_name: "x", arguments: Some(&deep) };
        let mut bench = bench(vec![(Mode, 1, FailClosed, INVOKE, Says(redaction("$.a")))]);
        assert!(bench.ask(&[call]).0.denied.is_some());
    }
}

#[test]
fn redaction_replaces_the_selected_values() {
    for (path, expected, places) in [
        ("$.user.password", json!({"user": {"password": "-", "name": "n"}, "l": [1, 2]}), 1),
        ("$.user.*", json!({"user": {"password": "-", "name": "-"}, "l": [1, 2]}), 2),
        ("$.l[1]", json!({"user": {"password": "p", "name": "n"}, "l": [1, "-"]}), 1),
        ("$..name", json!({"user": {"password": "p", "name": "-"}, "l": [1, 2]}), 1),
        ("$", json!("-"), 1),
        ("$.user[?@ == 'n']", json!({"user": {"password": "p", "name": "-"}, "l": [1, 2]}), 1),
    ] {
        let mut value = json!({"user": {"password": "p", "name": "n"}, "l": [1, 2]});
        assert_eq!(redact(&mut value, &[path.to_owned()], "-").unwrap(), places, "{path}");
        assert_eq!(value, expected, "{path}");
    }
    let mut value = json!({"a": {"b": 1}});
    assert_eq!(redact(&mut value, &["$.a".into(), "$.a.b".into()], "-").unwrap(), 1);
    assert!(redact(&mut value, &["$.a".into(), "$[".into()], "+").is_err());
    assert_eq!(value, json!({"a": "-"}));
}

#[test]
fn guard_slot_without_guard_is_skipped() {
    let seat = Seat {
        guard: 3,
        servers: Vec::new(),
        except: Vec::new(),
        priority: 0,
        timeout_ms: 100,
        failure_mode: FailClosed,
        phases: INVOKE.to_vec(),
    };
    let mut executor = Executor::new(Vec::new(), vec![seat]);
    let world = World::default().with(ToolFacts::default());
    let facts = world.facts();
    let question = Question { operations: &[CALL], facts: &facts, now: at(0.0) };
    assert_eq!(executor.ask(&question, None), Verdict::default());
}
