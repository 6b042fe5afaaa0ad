//! What a call, its answer and a list cost that go through the whole engine.

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcpwarden_policy::config;
use mcpwarden_policy::detect::{Detector, RuleSet};
use mcpwarden_policy::engine::Judge;
use mcpwarden_policy::event::Action;
use mcpwarden_policy::hash::json_hash;
use mcpwarden_policy::{
    ConnectionId, Direction, Engine, EngineConfig, EventBody, Input, Inspect, Output, ServerId, SessionId,
    Timestamp, settings,
};
use serde_json::{Value, json};

use crate::counting::Memory;

const ROUNDS: usize = 31;
/// Calls between two readings of the clock, and open at once.
const CALLS: usize = 8;
/// Such batches in a round.
const BATCHES: usize = 250;
/// Lists in a round.
const LISTS: usize = 21;
/// Bytes of the call that is measured.
const CALL_BYTES: usize = 200;

/// What is asked for in it, cut off where it is long enough.
const QUERY: &str = "what is left to do before the release on Monday, and who wanted to look at the figures of the \
                     second quarter again before they are sent out";

/// Everything that can be asked of guards, and no objection to the call that is measured.
const ALL: &str = "
policy:
  fail_closed: true
  server_policy: allowlist
  allowed_servers: [{ id: files }, { id: mail }, { id: 'other-*' }]
  denied_servers: [{ id: evil }, { id: 'bad-*' }]
  tool_policy: allowlist
  allowed_tools: [{ server: files, tool: 'read_*' }, { tool: 'send_*' }, { tool: 'get_*' }]
  denied_tools: [{ server: files, tool: 'delete_*' }, { tool: 'exec_*' }, { tool: 'drop_{table,database}' }]
  rate_limits:
    enabled: true
    default_rpm: 100000
    per_server: { files: { calls_per_minute: 100000 } }
    per_tool: { 'mcp:files:read_*': { calls_per_minute: 100000 } }
  disabled_tools: [{ tool: 'format_*' }]
  requires_admin_token: [{ tool: 'admin_*' }]
servers:
  - { id: mail, command: mail }
  - { id: files, command: files, allow_tools: ['read_*'], deny_side_effect_tags: [payments] }
guards: [{ kind: mode, enabled: true }, { kind: spec_frozen, enabled: true }, { kind: project_binding, enabled: true },
         { kind: side_effects, enabled: true }]
";

/// The same engine with nobody to ask: what it takes less is what guards take.
const NONE: &str = "
guards: [{ kind: tool_shadowing, enabled: false }, { kind: cross_server, enabled: false },
         { kind: server_access, enabled: false }, { kind: tool_access, enabled: false },
         { kind: rug_pull, enabled: false }, { kind: tool_poisoning, enabled: false },
         { kind: result_injection, enabled: false }, { kind: sampling, enabled: false }]
";

/// An engine with two servers, so that the rules across servers are at work, and the clock of its input.
pub struct Subject {
    pub engine: Engine,
    pub now: Timestamp,
    pub out: Vec<Output>,
    /// Of the batches of a round: calls, answers.
    spent: [Vec<Duration>; 2],
}

/// Measures and prints.
pub fn run() -> Result<(), Box<dyn Error>> {
    let mut subjects = [
        ("default policy", Subject::new("")?),
        ("everything on", Subject::new(ALL)?),
        ("no guards", Subject::new(NONE)?),
    ];
    let call = |id: usize| {
        let mut call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
            "name": "read_file", "arguments": {"path": "/srv/notes/a.txt", "head": 20, "query": ""}}});
        let room = CALL_BYTES - call.to_string().len();
        call["params"]["arguments"]["query"] = QUERY.chars().take(room).collect::<String>().into();
        call.to_string()
    };
    let answer = |id: usize| {
        json!({"jsonrpc": "2.0", "id": id, "result": {
            "content": [{"type": "text", "text": "Monday: bread, milk and two pounds of apples."}], "isError": false}})
        .to_string()
    };
    let calls: Vec<String> = (0..CALLS).map(|id| call(100 + id)).collect();
    let answers: Vec<String> = (0..CALLS).map(|id| answer(100 + id)).collect();

    let mut times: Vec<[Vec<Duration>; 2]> = vec![Default::default(); subjects.len() + 1];
    for _ in 0..ROUNDS {
        for ((_, subject), times) in subjects.iter_mut().zip(&mut times) {
            subject.spent = Default::default();
            for _ in 0..BATCHES {
                subject.batch(&calls, &answers)?;
            }
            times.iter_mut().zip(&mut subject.spent).for_each(|(times, spent)| times.push(median(spent)));
        }
        if let Some(parsed) = times.last_mut() {
            for (texts, times) in [&calls, &answers].into_iter().zip(parsed) {
                let batch = |_| time(|| texts.iter().for_each(|text| parse(text)));
                times.push(median(&mut (0..BATCHES).map(batch).collect::<Vec<_>>()));
            }
        }
    }
    let parsed = times.pop().unwrap_or_default();
    let bytes = [CALL_BYTES, answers.first().map_or(0, String::len)];
    for (at, what) in ["call", "answer"].into_iter().enumerate() {
        print(&format!("{what} of {} bytes, a plain parse", bytes[at]), &parsed[at], None, CALLS);
        for ((name, _), times) in subjects.iter().zip(&times) {
            print(&format!("{what}, {name}"), &times[at], Some(&parsed[at]), CALLS);
        }
    }
    for (name, with) in [("default", 0), ("everything on", 1)] {
        let guards = |(with, without): (&Duration, &Duration)| with.saturating_sub(*without);
        let guards: Vec<Duration> = times[with][0].iter().zip(&times[2][0]).map(guards).collect();
        print(&format!("call, guards alone, {name}"), &guards, Some(&parsed[0]), CALLS);
    }
    for (name, subject) in &mut subjects {
        subject.allocations(name, &call(1), &answer(1));
    }
    seen_list(&mut subjects[0].1);
    Ok(())
}

impl Subject {
    pub fn new(yaml: &str) -> Result<Self, Box<dyn Error>> {
        let (config, _) = config::parse(yaml.as_bytes()).map_err(|problems| format!("{problems:?}"))?;
        let rules = RuleSet::built_in().map_err(|errors| format!("{errors:?}"))?;
        let detector = Arc::new(
            Detector::new(rules, &settings::detect(&config)).map_err(|errors| format!("{errors:?}"))?,
        );
        let alert_threshold = config.inspection.alert_threshold;
        let judge = Judge::new(&config, Vec::new(), &detector)?;
        let engine = Engine::new(EngineConfig {
            patterns: settings::patterns(&config)?,
            declared: settings::declared(&config),
            remote: settings::remote(&config),
            inspection: Some(Inspect { detector: Arc::clone(&detector), alert_threshold }),
            registry: settings::registry(&config),
            ..EngineConfig::new([7; 32])
        })
        .with_judge(judge);
        let spent = Default::default();
        let mut subject = Self { engine, now: Timestamp(0), out: Vec::new(), spent };
        for (connection, server, tool) in [(1, "files", "read_file"), (2, "mail", "send_mail")] {
            let (connection, time) = (ConnectionId(connection), subject.now);
            let (session, server) = (SessionId("s".into()), ServerId(server.into()));
            let open = Input::Open { connection, time, session, server };
            subject.engine.handle_at_once(open, time, &mut subject.out);
            let list = json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": tool,
                "description": "", "inputSchema": {"type": "object"}}]}});
            let hello =
                r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
            subject.frame(connection.0, Direction::ClientToServer, hello);
            subject.frame(
                connection.0,
                Direction::ServerToClient,
                r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#,
            );
            let ask = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
            subject.frame(connection.0, Direction::ClientToServer, ask);
            subject.frame(connection.0, Direction::ServerToClient, &list.to_string());
        }
        subject.frame(2, Direction::ClientToServer, &hello_call());
        subject.out.clear();
        Ok(subject)
    }

    /// Hands a frame in, a second after the last: so no rule on many calls fires.
    pub fn frame(&mut self, connection: u64, direction: Direction, text: &str) {
        self.now = Timestamp(self.now.0 + 1_000_000_000);
        let (connection, time) = (ConnectionId(connection), self.now);
        self.engine.handle_at_once(
            Input::Frame { connection, direction, time, bytes: text.as_bytes(), http: None, turn: None },
            time,
            &mut self.out,
        );
    }

    /// Calls, and then their answers.
    fn batch(&mut self, calls: &[String], answers: &[String]) -> Result<(), Box<dyn Error>> {
        for (at, (direction, texts)) in
            [(Direction::ClientToServer, calls), (Direction::ServerToClient, answers)].into_iter().enumerate()
        {
            let started = Instant::now();
            for text in texts {
                self.frame(1, direction, text);
            }
            self.spent[at].push(started.elapsed());
            for output in self.out.drain(..) {
                match output {
                    Output::Event(event) => match &event.body {
                        EventBody::ToolCalled(call) if call.decided.action == Action::Allow => {}
                        EventBody::ToolResult(_) => {}
                        other => return Err(format!("nothing else was to be said: {other:?}").into()),
                    },
                    other => return Err(format!("{other:?}").into()),
                }
            }
        }
        Ok(())
    }

    /// Prints how often a call and its answer allocate. A copy of an event allocates what the event is made of.
    fn allocations(&mut self, name: &str, call: &str, answer: &str) {
        for (what, direction, text) in
            [("call", Direction::ClientToServer, call), ("answer", Direction::ServerToClient, answer)]
        {
            let before = Memory::now().allocations;
            self.frame(1, direction, text);
            let all = Memory::now().allocations - before;
            let before = Memory::now().allocations;
            let copies: Vec<Output> = self.out.iter().map(Output::clone).collect();
            // One of them is the list of copies itself.
            let events = Memory::now().allocations - before - u64::from(!copies.is_empty());
            self.out.clear();
            println!("{what}, {name}: {all} allocations, {events} of them are the event");
        }
    }
}

/// A call of the other server that no rule objects to.
fn hello_call() -> String {
    json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "get_mail", "arguments": {}}})
        .to_string()
}

/// A list that was seen before, beside the hash of each of its definitions.
fn seen_list(subject: &mut Subject) {
    let tool = |at: usize| {
        json!({"name": format!("get_record_{at}"), "title": format!("Get record {at}"),
            "description": format!("Returns record number {at} of the archive, with its title, its author and the \
                day on which it was written. Use it where a record is asked for by its number."),
            "inputSchema": {"type": "object", "properties": {
                "format": {"type": "string", "enum": ["text", "html"], "description": "How to return it."},
                "pages": {"type": "integer", "minimum": 1, "maximum": 500, "default": 20}},
                "required": ["format"], "additionalProperties": false},
            "annotations": {"readOnlyHint": true}})
    };
    let tools: Vec<Value> = (0..25).map(tool).collect();
    let texts: Vec<String> = tools.iter().map(Value::to_string).collect();
    let ask = r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#;
    let list = json!({"jsonrpc": "2.0", "id": 3, "result": {"tools": tools}}).to_string();
    let mut times: [Vec<Duration>; 3] = Default::default();
    let mut seen = || {
        subject.frame(2, Direction::ClientToServer, ask);
        let seen = time(|| subject.frame(2, Direction::ServerToClient, &list));
        subject.out.clear();
        seen
    };
    seen();
    let mut hash = || time(|| texts.iter().for_each(|text| drop(black_box(json_hash(text)))));
    let mut plain = || time(|| parse(&list));
    for _ in 0..ROUNDS {
        let measured: [&mut dyn FnMut() -> Duration; 3] = [&mut seen, &mut hash, &mut plain];
        for (times, run) in times.iter_mut().zip(measured) {
            times.push(median(&mut (0..LISTS).map(|_| run()).collect::<Vec<_>>()));
        }
    }
    let [seen, hashed, parsed] = &times;
    print(&format!("list of {} bytes, a plain parse", list.len()), parsed, None, 1);
    print("list, the hashes of its definitions", hashed, Some(parsed), 1);
    print("list that was seen before", seen, Some(parsed), 1);
    println!("list that was seen before: {} of its hashes", ratio(seen, hashed));
}

fn time(run: impl FnOnce()) -> Duration {
    let started = Instant::now();
    run();
    started.elapsed()
}

/// Of a round: a batch in which the machine did something else does not count.
fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn parse(text: &str) {
    drop(black_box(serde_json::from_str::<Value>(text)));
}

/// Prints the median and the extremes of `times`, each of `count` runs, and of their ratio to those of a parse.
fn print(name: &str, times: &[Duration], parsed: Option<&[Duration]>, count: usize) {
    let micros = times.iter().map(|time| time.as_secs_f64() * 1e6 / count as f64).collect();
    let ratio = parsed.map_or_else(String::new, |parsed| format!(", {} of a parse", ratio(times, parsed)));
    println!("{name}: {}{ratio}", spread(micros, " µs"));
}

fn ratio(times: &[Duration], to: &[Duration]) -> String {
    spread(times.iter().zip(to).map(|(time, to)| time.as_secs_f64() / to.as_secs_f64()).collect(), "×")
}

/// The median of values, and the extremes.
pub fn spread(mut values: Vec<f64>, unit: &str) -> String {
    values.sort_unstable_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    format!("{:.2}{unit} ({:.2} to {:.2})", at(values.len() / 2), at(0), at(values.len().saturating_sub(1)))
}
