//! Rates and rules across servers: what the kernel half remembers says what the guards say.

use std::cell::RefCell;
use std::collections::HashMap;

use mcpwarden_gate::{
    BY_BURST, BY_FLOW, BY_NOTHING, BY_RATE, BY_READ_THEN_SEND, BY_TOOL_RATE, BY_WHAT_IT_MAY_DO, Call, Calls,
    Marks, Memory, Number, SEVERAL, Scan, Session, Turn,
};
use proptest::prelude::*;
use serde_json::Value;
use serde_json::value::RawValue;

use super::*;
use crate::classify::Classifier;
use crate::detect::ToolNames;
use crate::guard::{Conditions, Facts, Operation, Verdict};
use crate::guards::{Executor, Question, build};
use crate::terms::SessionId;
use crate::testing::cases;

const SERVERS: [&str; 3] = ["files", "mail", "web"];
const TOOLS: [(&str, ToolCategory); 4] = [
    ("read_file", ToolCategory::Read),
    ("send_mail", ToolCategory::Send),
    ("write_file", ToolCategory::Write),
    ("think", ToolCategory::Unknown),
];
/// One that sends, and is not listed.
const UNLISTED: &str = "send_more";

/// The kernel half, with maps of its own.
struct Kernel {
    table: GateTable,
    session: Session,
    calls: [Calls; SERVERS.len()],
    buckets: RefCell<HashMap<(usize, Option<u64>), &'static Number>>,
    turn: Turn,
}

/// As one of its servers sees it.
struct Place<'a>(&'a Kernel, usize);

impl Memory for Place<'_> {
    fn session(&self) -> Option<&Session> {
        Some(&self.0.session)
    }

    fn calls(&self) -> Option<&Calls> {
        self.0.calls.get(self.1)
    }

    fn turn(&self) -> &Turn {
        &self.0.turn
    }

    fn bucket(&self, tool: Option<u64>) -> Option<&Number> {
        let mut all = self.0.buckets.borrow_mut();
        Some(*all.entry((self.1, tool)).or_insert_with(|| Box::leak(Box::default())))
    }
}

impl Kernel {
    fn new(config: &Config, subjects: &[GateSubject]) -> Self {
        Self {
            table: GateCompiler::new(config, &DETECTOR)
                .and_then(|mut compiler| compiler.compile(subjects, 1, Timestamp(0)))
                .unwrap(),
            session: Session::default(),
            calls: Default::default(),
            buckets: RefCell::default(),
            turn: Turn::default(),
        }
    }

    /// Whether the table denies a call, and what the calls before say of it.
    fn judge(&self, server: usize, tool: &str, is_first: bool, now: u64) -> (bool, u8) {
        let view = self.table.view();
        let number = u32::try_from(server).unwrap();
        let subject = view.subject(number);
        let (mut scan, mut marks) = (Scan::default(), Marks::NONE);
        scan.begin(&view, subject);
        let mut told = Vec::new();
        for (place, byte) in (0..).zip(call(tool).bytes()) {
            let said = scan.step(&view, subject, &mut marks, byte, place);
            told.extend(said.is_call.then(|| (said.outcome, scan.name_hash())));
        }
        let [(outcome, tool)] = told[..] else { panic!("{tool} is {} calls", told.len()) };
        let call = Call { outcome, tool, server: number, is_first, is_strict: false, now };
        (outcome & DENY != 0, call.judge(&Place(self, server), &view, subject))
    }

    /// What user space knows reaches it.
    fn hear(&mut self, executor: &Executor) {
        let Some(state) = executor.turn(&session()) else { return };
        self.turn = Turn {
            newest: state.newest_call.0,
            last: state.last.0,
            open: u32::try_from(state.open).unwrap(),
            first: match state.first {
                _ if state.has_several => SEVERAL,
                Some(first) => number(&first),
                None => 0,
            },
            newest_read: state.newest_read.as_ref().map_or(0, |(_, time)| time.0),
            other_read: state.other_read.map_or(0, |time| time.0),
            read_server: state.newest_read.map_or(0, |(server, _)| number(&server)),
            unused: 0,
        };
    }
}

/// The number of a server, from 1.
fn number(name: &str) -> u32 {
    u32::try_from(SERVERS.iter().position(|server| *server == name).unwrap()).unwrap() + 1
}

fn session() -> SessionId {
    SessionId("s".into())
}

/// The guards, asked as the engine asks them.
struct Guards {
    executor: Executor,
    subjects: Vec<GateSubject>,
    /// Whether data comes later than with its call: with [`Step::Result`].
    answers_late: bool,
}

impl Guards {
    fn with<T>(&mut self, server: usize, tool: &str, with: impl FnOnce(&mut Executor, &Facts<'_>) -> T) -> T {
        let subject = &self.subjects[server];
        let facts = Facts {
            server: &subject.server,
            also: &[],
            identity: subject.identity,
            enabled: true,
            trust: subject.trust,
            listing: subject.listing,
            session: &session(),
            connection: crate::terms::ConnectionId(0),
            jsonrpc_id: None,
            host: None,
            uid: None,
            turn: None,
            is_retry: false,
            lists_resource: false,
            tool: subject.tools.get(tool),
            tool_names: &ToolNames::default(),
            ahead: None,
            conditions: Conditions::OfCall,
            profile: &subject.profile,
            block: None,
            standing: &[],
            mutes: crate::mutes::MutesOf::default(),
            metadata: &Value::Null,
        };
        with(&mut self.executor, &facts)
    }

    /// Whether a call is denied, by which code, and what is made of that by who knows whether it was stopped.
    fn call(&mut self, server: usize, tool: &str, now: u64, stops: impl FnOnce(&str) -> bool) {
        let operations = [
            Operation::Request { method: "tools/call", params: None },
            Operation::ToolInvoke { tool_name: tool, arguments: None },
        ];
        let was_stopped = self.with(server, tool, |executor, facts| {
            let question = Question { operations: &operations, facts, now: Timestamp(now) };
            let mut verdict = executor.ask(&question, None);
            let code = verdict.denied.as_ref().map_or("", |(_, denial)| denial.code.name());
            verdict.enforced = stops(code);
            executor.settle(&question, &verdict);
            verdict.enforced
        });
        // The kernel sees no answers: to it what is read comes with its call.
        let reads =
            self.subjects[server].tools.get(tool).is_some_and(|tool| tool.category == ToolCategory::Read);
        if reads && !was_stopped && !self.answers_late {
            self.answer(server, now);
        }
    }

    /// The data of a call comes.
    fn answer(&mut self, server: usize, now: u64) {
        let result = RawValue::from_string(r#"{"content":[]}"#.to_owned()).unwrap();
        self.settle(
            server,
            Operation::ToolResult { tool_name: "x", result: Some(&result), error: None },
            now,
        );
    }

    fn settle(&mut self, server: usize, operation: Operation<'_>, now: u64) {
        self.with(server, "", |executor, facts| {
            let question = Question { operations: &[operation], facts, now: Timestamp(now) };
            executor.settle(&question, &Verdict::default());
        });
    }
}

fn code(by: u8) -> &'static str {
    match by {
        BY_NOTHING => "",
        BY_READ_THEN_SEND => "read_then_send",
        BY_BURST => "burst",
        BY_FLOW => "cross_server_flow",
        BY_RATE | BY_TOOL_RATE => "rate_limited",
        other => panic!("{other}"),
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Call(usize, &'static str),
    Result(usize),
    List(usize),
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    // Whole ticks of the kernel's reads.
    const PAUSES: [u64; 8] =
        [0, 64, 10_000_000, 500_000_000, 1_999_999_936, 2_000_000_064, 5_000_000_064, 31_000_000_000];
    let tools = TOOLS.map(|(name, _)| name);
    let server = 0..SERVERS.len();
    let step = prop_oneof![
        6 => (server.clone(), prop::sample::select(tools.to_vec())).prop_map(|(server, tool)| Step::Call(server, tool)),
        1 => server.clone().prop_map(|server| Step::Call(server, UNLISTED)),
        2 => server.clone().prop_map(Step::Result),
        1 => server.prop_map(Step::List),
    ];
    prop::collection::vec((prop::sample::select(PAUSES.to_vec()), step), 1..120)
}

const CONFIGS: [&str; 7] = [
    "{}",
    "cross_server: { burst: { max_calls: 3, window: 2s }, read_then_send: { enabled: false } }",
    "cross_server: { read_then_send: { enabled: false }, turn_gap: 500ms, burst: { enabled: false } }",
    "cross_server: { read_then_send: { window: 1s }, cross_server_flow: { same_turn_only: false, window: 5s } }",
    "policy: { rate_limits: { enabled: true, default_rpm: 30, default_burst: 2, per_server: { mail: { calls_per_minute: 0 } },
      per_tool: { 'files:read_*': { calls_per_minute: 6, burst: 1 } } } }",
    // What is read on a server whose own calls are not judged.
    "guards: [{ kind: cross_server, servers: [files], enabled: false }]",
    // Who denies is asked before who counts (tool_access), or behind him (disabled_tool).
    "policy: { denied_tools: ['mail:think'], disabled_tools: ['files:think', 'web:send_mail'],
      rate_limits: { enabled: true, default_rpm: 30, default_burst: 3, per_tool: { 'web:send_*': { calls_per_minute: 6, burst: 1 } } } }",
];

/// What the kernel says of the last call. `apart`: nanoseconds between two steps at least.
fn check(
    config: &str,
    steps: &[(u64, Step)],
    apart: u64,
    answers_late: bool,
    hears: impl Fn(usize) -> bool,
) -> u8 {
    let (config, _) = config::parse(config.as_bytes()).unwrap();
    let subjects: Vec<GateSubject> = SERVERS.iter().map(|server| subject(server, &TOOLS)).collect();
    let mut kernel = Kernel::new(&config, &subjects);
    let classifier = Arc::new(Classifier::new(&[], true).unwrap());
    let executor = build(&config, &DETECTOR, &classifier).unwrap();
    let mut guards = Guards { executor, subjects, answers_late };
    let mut now = 64_000_000_000;
    let (mut in_time, mut last) = (!answers_late, BY_NOTHING);
    // Whether the kernel denied what the engine allowed: the engine took a token for it, of which the kernel has one more.
    let mut denied_alone = false;
    let limits =
        (1..).map_while(|number| kernel.table.outcome(number)).any(|outcome| outcome.limit.is_some());
    let is_limited = limits || kernel.table.view().subject(0).limit != 0;
    for (at, (pause, step)) in steps.iter().enumerate() {
        now += (*pause).max(apart);
        match step {
            Step::Call(server, tool) => {
                let (by_table, by) = kernel.judge(*server, tool, true, now);
                if by == BY_NOTHING {
                    // One that was not written is tried again, and neither counted nor paid for twice.
                    assert_eq!(kernel.judge(*server, tool, false, now).1, BY_NOTHING, "{at}: again");
                }
                last = by;
                let maybe = by == BY_WHAT_IT_MAY_DO;
                guards.call(*server, tool, now, |denied| {
                    let by_history = ["read_then_send", "burst", "cross_server_flow", "rate_limited"];
                    if by_table {
                        // Who is asked first says why; and whether it took its token shows later.
                        assert!(!denied.is_empty(), "{at}: {step:?} {steps:?}");
                    } else if maybe {
                        // What it does only its words say: it may be one that sends, or nothing.
                        assert!(
                            *tool == UNLISTED
                                // By rate, where a call before it took its token there alone.
                                && ["", by_history[0], by_history[2], by_history[3]].contains(&denied),
                            "{at}: {denied}"
                        );
                    } else if in_time && *tool == UNLISTED && by != BY_NOTHING {
                        // What holds whatever it does, before what it does.
                        assert!(by_history.contains(&denied), "{at}: {by} {denied} {step:?} {steps:?}");
                    } else if in_time {
                        assert_eq!(code(by), denied, "{at}: {step:?} {steps:?}");
                    } else {
                        let is_paid = denied_alone && denied == "rate_limited";
                        assert!(
                            denied.is_empty() || by != BY_NOTHING || is_paid,
                            "{at}: {denied} {step:?} {steps:?}"
                        );
                        denied_alone |= denied.is_empty() && by != BY_NOTHING;
                    }
                    by_table || by != BY_NOTHING && !maybe
                });
                // It passed and took its token, and the engine, which denies it, none.
                in_time &= !maybe || !is_limited;
            }
            Step::Result(server) if answers_late => guards.answer(*server, now),
            Step::Result(server) => {
                guards.settle(
                    *server,
                    Operation::ToolResult { tool_name: "x", result: None, error: None },
                    now,
                );
            }
            Step::List(server) => guards.settle(*server, Operation::ToolsList { tools: &[] }, now),
        }
        if !matches!(step, Step::Call(..)) || hears(at) {
            kernel.hear(&guards.executor);
        } else {
            in_time = false;
        }
    }
    last
}

/// What a server read while it was alone is no call of a burst, in the kernel as in user space.
#[test]
fn burst_starts_with_second_server() {
    use Step::Call;
    let read = |server| (64, Call(server, "read_file"));
    let steps = [read(0), (64, Call(1, "think")), read(0), read(0), read(0), read(0)];
    check(CONFIGS[1], &steps, 64, false, |_| true);
}

/// What a slow server answers can be sent long after it was asked for, and what nobody asked the kernel for as well.
#[test]
fn slow_reads_count_from_their_answers() {
    use Step::{Call, Result};
    const SECOND: u64 = 1_000_000_000;
    let send = |pause| (pause, Call(1, "send_mail"));
    let read = (64, Call(0, "read_file"));
    for (steps, expected) in [
        (vec![read, (40 * SECOND, Result(0)), send(29 * SECOND)], BY_READ_THEN_SEND),
        (vec![read, (40 * SECOND, Result(0)), send(31 * SECOND)], BY_NOTHING),
        // Without its answer, it counts from its call.
        (vec![read, send(29 * SECOND)], BY_READ_THEN_SEND),
        (vec![read, send(31 * SECOND)], BY_NOTHING),
        // What its own server answered is nothing that it sends elsewhere.
        (vec![read, (64, Call(1, "read_file")), (40 * SECOND, Result(1)), send(64)], BY_NOTHING),
        (
            vec![read, (64, Call(1, "read_file")), (40 * SECOND, Result(0)), (64, Result(1)), send(64)],
            BY_READ_THEN_SEND,
        ),
    ] {
        // So that there are two servers.
        let steps: Vec<_> = [(64, Step::List(0)), (64, Step::List(1))].into_iter().chain(steps).collect();
        let config =
            "cross_server: { cross_server_flow: { enabled: false }, read_then_send: { window: 30s } }";
        assert_eq!(check(config, &steps, 64, true, |_| true), expected, "{steps:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(256)))]

    #[test]
    fn kernel_history_matches_guard_decisions(steps in steps(), config in 0..CONFIGS.len()) {
        check(CONFIGS[config], &steps, 0, false, |_| true);
    }

    /// Calls that user space has not told of make the rules across servers stricter, and never laxer.
    #[test]
    fn kernel_is_not_laxer_when_user_space_lags(
        steps in steps(), config in 0..4_usize, hears in prop::collection::vec(any::<bool>(), 120),
    ) {
        // Calls of the same nanosecond are of one write: user space knows of all of them or of none.
        check(CONFIGS[config], &steps, 64, false, |at| hears[at]);
    }

    /// A read counts from its answer, too, once user space has told of it.
    #[test]
    fn kernel_is_not_laxer_when_answers_are_late(steps in steps(), config in 0..4_usize) {
        check(CONFIGS[config], &steps, 64, true, |_| true);
    }
}
