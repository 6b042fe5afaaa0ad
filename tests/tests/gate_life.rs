//! The gate over time: policies that change while calls are made, an agent that is killed, and thousands of messages.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::is;
use mcpwarden_tests::command::configured;
use mcpwarden_tests::gated::{Gated, WIRINGS, add, agent, agent_of, is_through};
use mcpwarden_tests::patience::{fewer, patience};
use mcpwarden_tests::peer::echo;
use mcpwarden_tests::wiring::Wiring;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// Which call an event tells of, if it is of one: the connection and the request's id.
fn call_of(event: &Value) -> Option<(u64, u64)> {
    is(event, "mcp_tool_called")
        .then(|| Some((event["connection"].as_u64()?, event["jsonrpc_id"].as_u64()?)))
        .flatten()
}

#[test]
fn nothing_is_stopped_and_nothing_hangs_when_the_agent_is_killed() -> Result<()> {
    let test = "nothing_is_stopped_and_nothing_hangs_when_the_agent_is_killed";
    for mode in ["neutralize", "deny"] {
        let config = format!("enforcement: {{ stdio: {mode} }}\npolicy: {{ denied_tools: [add] }}");
        let Some(mut agent) = agent(test, &config)? else { return Ok(()) };
        let mut session = Gated::start(&agent, Wiring::Pipes, &[])?;
        // In the middle of a message, too.
        let text = format!("{}\n", add(9));
        let (first, second) = text.split_at(text.len() / 2);
        session.peer.write(first.as_bytes())?;
        agent.kill()?;
        session.peer.write(second.as_bytes())?;
        ensure!(is_through(&session.peer.answer()?), "{mode}: the call at hand");
        ensure!(is_through(&session.peer.ask(&add(10))?), "{mode}: the next");
    }
    Ok(())
}

/// What both policies deny is stopped while one takes the other's place, and what neither does is not.
#[test]
fn a_policy_takes_anothers_place_under_load() -> Result<()> {
    let policy = |more: &str| {
        format!("enforcement: {{ stdio: neutralize }}\npolicy: {{ denied_tools: [add, {more}] }}\n")
    };
    let (_directory, path) = configured(&policy("x"))?;
    let Some(agent) = agent_of("a_policy_takes_anothers_place_under_load", &path)? else { return Ok(()) };
    let is_over = AtomicBool::new(false);
    let swaps = fewer(40).max(8);
    thread::scope(|scope| -> Result<()> {
        let callers = WIRINGS.map(|wiring| {
            let (agent, is_over) = (&agent, &is_over);
            scope.spawn(move || -> Result<u64> {
                let mut session = Gated::start(agent, wiring, &[])?;
                let mut id = 10;
                while !is_over.load(Ordering::Relaxed) {
                    let through = session.peer.ask(&echo(id, "x"))?;
                    let Ok(stopped) = session.peer.ask(&add(id + 1)) else {
                        // Another thread of this process changes what memory it has, and nobody can look at it.
                        agent.wait_for("why it was refused", |event| {
                            event["connection"] == session.connection
                                && event["action"] == "refused"
                                && event["reason"]
                                    .as_str()
                                    .is_some_and(|why| why.contains("could not be neutralized"))
                        })?;
                        session = Gated::start(agent, wiring, &[])?;
                        continue;
                    };
                    ensure!(is_through(&through), "{wiring:?}: {through}");
                    ensure!(stopped["error"].is_object(), "{wiring:?}: {stopped}");
                    id += 2;
                    // Others want to get on, too.
                    thread::sleep(patience(Duration::from_millis(20)));
                }
                Ok(id)
            })
        });
        // Ends the callers also where this fails.
        let mut seen = Vec::new();
        let swapped = (0..swaps).try_for_each(|number| {
            // Other states and other classes of bytes each time.
            let more = (0..=number % 7).fold(String::new(), |mut more, index| {
                let _ = write!(more, "'{}*{index}', ", ["q", "é", "zz_", "w?", "[0-9]k"][number % 5]);
                more
            });
            fs::write(&path, policy(&more))?;
            // The agent looks for changes by itself, too, and then a signal comes too late: so each is known by its hash.
            agent.signal(Signal::SIGHUP)?;
            let other = agent.wait_for("another policy", |event| {
                is(event, "agent_config_reloaded") && !seen.contains(&event["config_hash"])
            })?;
            seen.push(other["config_hash"].clone());
            thread::sleep(Duration::from_millis(20));
            Ok::<_, anyhow::Error>(())
        });
        is_over.store(true, Ordering::Relaxed);
        for caller in callers {
            let calls = caller.join().map_err(|_| anyhow::anyhow!("a caller failed"))??;
            ensure!(calls > 20, "only {calls} calls were made meanwhile");
        }
        swapped
    })?;
    agent.settle();
    let wrong: Vec<Value> = agent
        .events()
        .into_iter()
        .filter(|event| is(event, "mcp_tool_called"))
        .filter(|call| (call["tool_name"] == "add") != (call["enforced"] == json!(true)))
        .collect();
    ensure!(wrong.is_empty(), "{wrong:#?}");
    // One that is too large is refused, and what was denied before still is.
    let globs: String = ('a'..='p').fold(String::new(), |globs, letter| globs + &format!("'*{letter}*', "));
    fs::write(&path, policy(&globs))?;
    agent.signal(Signal::SIGHUP)?;
    let refused = agent.wait_for("that it is refused", |event| is(event, "agent_config_refused"))?;
    ensure!(
        refused["error"].as_str().is_some_and(|error| error.contains("more than 8388608 bytes")),
        "{refused}"
    );
    let mut session = Gated::start(&agent, Wiring::Pipes, &[])?;
    ensure!(session.peer.ask(&add(9))?["error"].is_object(), "the policy of before");
    agent.stop()?;
    Ok(())
}

/// A generator of numbers (xorshift64*): what fails can be run again by its seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).unwrap_or_default() % bound
    }

    fn pick<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    /// A string as JSON spells it, in one of many ways.
    fn string(&mut self, text: &str) -> String {
        let mut spelt = String::from("\"");
        for letter in text.chars() {
            if matches!(letter, '"' | '\\') {
                spelt.extend(['\\', letter]);
            } else if self.below(12) == 0 {
                let _ = letter
                    .encode_utf16(&mut [0; 2])
                    .iter()
                    .try_for_each(|unit| write!(spelt, "\\u{unit:04x}"));
            } else {
                spelt.push(letter);
            }
        }
        spelt.push('"');
        spelt
    }

    fn blanks(&mut self) -> &'static str {
        ["", "", "", " ", "  ", "\t"][self.below(6)]
    }

    /// An object of members in any order.
    fn object(&mut self, mut members: Vec<(String, String)>) -> String {
        let mut text = String::from("{");
        while !members.is_empty() {
            let (key, value) = members.swap_remove(self.below(members.len()));
            let (a, b, c) = (self.blanks(), self.blanks(), self.blanks());
            let _ = write!(text, "{a}{key}{b}:{c}{value}");
            if !members.is_empty() {
                text.push(',');
            }
        }
        text + "}"
    }

    /// A value that means nothing, with what would mean something elsewhere.
    fn noise(&mut self, depth: usize) -> String {
        match self.below(if depth == 0 { 4 } else { 7 }) {
            0 => self.below(1_000).to_string(),
            1 => self.string("name\":\"add"),
            2 => self.string("{\"method\":\"tools/call\"}"),
            3 => ["true", "null", "-1e5", "\"\""][self.below(4)].to_owned(),
            4 => {
                let members = [("name", "add"), ("params", "add"), ("method", "tools/call")]
                    .map(|(key, value)| (self.string(key), self.string(value)));
                self.object(members.to_vec())
            }
            5 => format!("[{},{}]", self.noise(depth - 1), self.noise(depth - 1)),
            _ => {
                let inner = self.noise(depth - 1);
                let key = self.string("params");
                self.object(vec![(key, inner)])
            }
        }
    }

    /// A request with this id.
    /// A request, and whether it asks for what is denied.
    fn request(&mut self, id: u64) -> (String, bool) {
        let name = self.pick(&["add", "echo", "ad", "addd", "delete_x", "größe", "工具", "tools/call"]);
        let method =
            self.pick(&["tools/call", "tools/call", "tools/call", "ping", "tools/call2", "prompts/get"]);
        let mut params =
            vec![(self.string("name"), self.string(name)), (self.string("arguments"), self.noise(3))];
        if self.below(3) == 0 {
            params.push((self.string("_meta"), self.noise(2)));
        }
        let params = self.object(params);
        let members = vec![
            (self.string("jsonrpc"), "\"2.0\"".to_owned()),
            (self.string("id"), id.to_string()),
            (self.string("method"), self.string(method)),
            (self.string("params"), params),
        ];
        let is_denied = method == "tools/call" && ["add", "delete_x", "工具"].contains(&name);
        (self.object(members), is_denied)
    }
}

/// What the gate writes over a letter.
const SPOILT: char = '\u{7f}';

/// What the gate does is what the engine says of the same bytes, and what the server answers: messages in every form, alone, in
/// batches, several in one write, and cut anywhere.
#[test]
fn messages_in_every_form() -> Result<()> {
    let config = "enforcement: { stdio: neutralize }\npolicy: { denied_tools: [add, 'delete_*', '工*'] }";
    let Some(agent) = agent("messages_in_every_form", config)? else { return Ok(()) };
    let mut stopped_by_answer = 0;
    for (seed, wiring) in (1_u64..).zip(WIRINGS) {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut session = Gated::start(&agent, wiring, &[])?;
        let (mut id, mut refused, mut answers, mut denied) = (10_u64, 0, Vec::new(), HashSet::new());
        let last = 10 + fewer(5_000) as u64;
        while id < last {
            let mut messages = Vec::new();
            for _ in 0..1 + dice.below(3) {
                let (message, is_denied) = dice.request(id);
                messages.push(message);
                if is_denied {
                    denied.insert((session.connection, id));
                }
                id += 1;
            }
            let is_batch = dice.below(6) == 0;
            let text =
                if is_batch { format!("[{}]\n", messages.join(",")) } else { messages.join("\n") + "\n" };
            let cut = if dice.below(2) == 0 { dice.below(text.len()) } else { 0 };
            let (first, second) = text.as_bytes().split_at(cut);
            let pieces = [first, second].into_iter().filter(|piece| !piece.is_empty());
            let written = pieces.into_iter().try_for_each(|piece| session.peer.write(piece));
            if written.is_err() {
                // What could not be spoilt. Of the messages before it some may be answered.
                refused += 1;
                session = Gated::start(&agent, wiring, &[])?;
                continue;
            }
            for _ in 0..if is_batch { 1 } else { messages.len() } {
                match session.peer.answer().with_context(|| text.clone())? {
                    Value::Array(all) => answers.extend(all.into_iter().map(|one| (session.connection, one))),
                    one => answers.push((session.connection, one)),
                }
            }
        }
        ensure!(refused < last / 40, "{wiring:?}: {refused} writes were refused");
        session.peer.ask(&add(id))?;
        session.call(&agent, id)?;
        let calls: HashMap<(u64, u64), Value> =
            agent.events().into_iter().filter_map(|event| Some((call_of(&event)?, event))).collect();
        for call in calls.values() {
            ensure!((call["action"] == "block") == (call["enforced"] == json!(true)), "{wiring:?}: {call}");
        }
        for (connection, answer) in
            answers.iter().filter(|(_, answer)| answer["result"]["content"].is_array())
        {
            let id = answer["id"].as_u64().context("an id")?;
            let call = calls.get(&(*connection, id)).with_context(|| format!("no call: {answer}"))?;
            ensure!(call["action"] == "allow", "{wiring:?}: it was run: {call} {answer}");
        }
        // And the other way round: what is not denied has reached its server as it was written.
        for (connection, answer) in &answers {
            // Of a batch, or an escape, that is none any more the server does not know whose it was.
            let Some(id) = answer["id"].as_u64() else { continue };
            let is_denied = denied.contains(&(*connection, id));
            let is_spoilt = answer["error"].to_string().contains(SPOILT);
            ensure!(is_denied || !is_spoilt, "{wiring:?}: it is not denied: {answer}");
            ensure!(!is_denied || answer["error"].is_object(), "{wiring:?}: it is denied: {answer}");
        }
        stopped_by_answer += calls.values().filter(|call| call["enforced"] == json!(true)).count();
    }
    ensure!(stopped_by_answer > fewer(500), "only {stopped_by_answer} were stopped");
    agent.stop()?;
    Ok(())
}
