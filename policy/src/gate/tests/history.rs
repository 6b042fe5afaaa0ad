//! Rates and rules across servers: what the kernel half remembers says what the guards say.

use std::collections::HashMap;

use mcpwarden_gate::{
    BY_BURST, BY_FLOW, BY_NOTHING, BY_RATE, BY_READ_THEN_SEND, BY_TOOL_RATE, BY_WHAT_IT_MAY_DO, Call, Calls,
    DOES_READ, Marks, Number, SEVERAL, Scan, Session, Turn, put_back, take,
};
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::classify::Classifier;
use crate::detect::ToolNames;
use crate::guard::{Facts, Operation, Verdict};
use crate::guards::{Executor, Outcome, Question, build};
use crate::ids::SessionId;

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
    buckets: HashMap<(usize, u64), Number>,
    turn: Turn,
}

impl Kernel {
    fn new(config: &Config, subjects: &[GateSubject]) -> Self {
        Self {
            table: GateCompiler::new(config, &DETECTOR)
                .and_then(|mut compiler| compiler.compile(subjects, 1, Timestamp(0)))
                .unwrap(),
            session: Session::default(),
            calls: Default::default(),
            buckets: HashMap::new(),
            turn: Turn::default(),
        }
    }

    /// As `ebpf/src/gate/history.rs` has it.
    fn judge(&mut self, server: usize, tool: &str, is_first: bool, now: u64) -> u8 {
        let view = self.table.view();
        let subject = view.subject(u32::try_from(server).unwrap());
        let (mut scan, mut marks) = (Scan::default(), Marks::NONE);
        scan.begin(&view);
        let mut told = Vec::new();
        for (place, byte) in (0..).zip(call(tool).bytes()) {
            let said = scan.step(&view, subject, &mut marks, byte, place);
            told.extend(said.is_call.then(|| (said.outcome, scan.name_hash())));
        }
        let [(outcome, hash)] = told[..] else { panic!("{tool} is {} calls", told.len()) };
        let means = view.means(outcome);
        let call = Call {
            rules: &view.head.rules,
            session: &self.session,
            calls: &self.calls[server],
            turn: &self.turn,
            server: u32::try_from(server).unwrap(),
            does: means.does,
            is_first,
            now,
        };
        if subject.across != 0 {
            let by = call.judge();
            if by != BY_NOTHING {
                return by;
            }
        }
        if is_first && subject.limit != 0 {
            let limit = view.limit(subject.limit);
            if !take(self.buckets.entry((server, 0)).or_default(), limit, now) {
                return BY_RATE;
            }
            let own = view.limit(u16::from(means.limit));
            if means.limit != 0 && !take(self.buckets.entry((server, hash)).or_default(), own, now) {
                put_back(&self.buckets[&(server, 0)], limit);
                return BY_TOOL_RATE;
            }
        }
        if means.does == DOES_READ {
            self.session.note_read(call.server, now);
        }
        BY_NOTHING
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
                Some(first) => {
                    u32::try_from(SERVERS.iter().position(|server| **server == *first).unwrap()).unwrap() + 1
                }
                None => 0,
            },
        };
    }
}

fn session() -> SessionId {
    SessionId("s".into())
}

/// The guards, asked as the engine asks them.
struct Guards {
    executor: Executor,
    subjects: Vec<GateSubject>,
}

impl Guards {
    fn with<T>(&mut self, server: usize, tool: &str, with: impl FnOnce(&mut Executor, &Facts<'_>) -> T) -> T {
        let subject = &self.subjects[server];
        let facts = Facts {
            server: &subject.server,
            identity: subject.identity,
            enabled: true,
            trust: subject.trust,
            listing: subject.listing,
            session: &session(),
            uid: None,
            turn: None,
            tool: subject.tools.get(tool),
            tool_names: &ToolNames::default(),
            profile: &subject.profile,
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
        self.with(server, tool, |executor, facts| {
            let question = Question { operations: &operations, facts, now: Timestamp(now) };
            let Outcome::Decided(mut verdict) = executor.ask(&question, None) else { panic!() };
            let code = verdict.denied.as_ref().map_or("", |(_, denial)| denial.code.as_str());
            verdict.enforced = stops(code);
            executor.settle(&question, &verdict);
        });
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

#[derive(Clone, Debug)]
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

const CONFIGS: [&str; 5] = [
    "{}",
    "cross_server: { burst: { max_calls: 3, window: 2s }, read_then_send: { enabled: false } }",
    "cross_server: { read_then_send: { enabled: false }, turn_gap: 500ms, burst: { enabled: false } }",
    "cross_server: { read_then_send: { window: 1s }, cross_server_flow: { same_turn_only: false, window: 5s } }",
    "policy: { rate_limits: { enabled: true, default_rpm: 30, default_burst: 2, per_server: { mail: { calls_per_minute: 0 } },
      per_tool: { 'files:read_*': { calls_per_minute: 6, burst: 1 } } } }",
];

/// `apart`: nanoseconds between two steps at least.
fn check(config: &str, steps: &[(u64, Step)], apart: u64, hears: impl Fn(usize) -> bool) {
    let (config, _) = config::parse(config.as_bytes()).unwrap();
    let subjects: Vec<GateSubject> = SERVERS.iter().map(|server| subject(server, &TOOLS)).collect();
    let mut kernel = Kernel::new(&config, &subjects);
    let classifier = Arc::new(Classifier::new(&[], true).unwrap());
    let executor = build(&config, &DETECTOR, &classifier).unwrap();
    let mut guards = Guards { executor, subjects };
    let mut now = 64_000_000_000;
    let mut in_time = true;
    for (at, (pause, step)) in steps.iter().enumerate() {
        now += (*pause).max(apart);
        match step {
            Step::Call(server, tool) => {
                let by = kernel.judge(*server, tool, true, now);
                if by == BY_NOTHING {
                    // One that was not written is tried again, and neither counted nor paid for twice.
                    assert_eq!(kernel.judge(*server, tool, false, now), BY_NOTHING, "{at}: again");
                }
                guards.call(*server, tool, now, |denied| {
                    let maybe = by == BY_WHAT_IT_MAY_DO;
                    let says = if maybe { denied } else { code(by) };
                    if in_time {
                        assert_eq!(says, denied, "{at}: {step:?} {steps:?}");
                    } else {
                        assert!(denied.is_empty() || !says.is_empty(), "{at}: {denied} {step:?} {steps:?}");
                    }
                    by != BY_NOTHING && !maybe
                });
            }
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
}

/// What a server read while it was alone is no call of a burst, in the kernel as in user space.
#[test]
fn a_burst_begins_with_the_second_server() {
    use Step::Call;
    let read = |server| (64, Call(server, "read_file"));
    let steps = [read(0), (64, Call(1, "think")), read(0), read(0), read(0), read(0)];
    check(CONFIGS[1], &steps, 64, |_| true);
}

proptest! {
    #[test]
    fn the_kernel_says_what_the_guards_say(steps in steps(), config in 0..CONFIGS.len()) {
        check(CONFIGS[config], &steps, 0, |_| true);
    }

    /// Calls that user space has not told of make the rules across servers stricter, and never laxer.
    #[test]
    fn the_kernel_is_no_laxer_where_user_space_is_behind(
        steps in steps(), config in 0..CONFIGS.len() - 1, hears in prop::collection::vec(any::<bool>(), 120),
    ) {
        // Calls of the same nanosecond are of one write: user space knows of all of them or of none.
        check(CONFIGS[config], &steps, 64, |at| hears[at]);
    }
}
