//! The gate, by the forms that messages have: ten thousand, as JSON allows them to be written, judged as the engine judges them.
//! Where the gate is stricter, that is what docs/internals/gate.md says ("Where it is stricter than the engine").

mod messages;

use std::collections::HashMap;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_policy::protocol::{self, Kind, Method, members, string};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::framing::Framing;
use mcpwarden_tests::gated::{Gated, NEUTRAL_BYTE, WIRINGS, agent};
use mcpwarden_tests::wiring::Wiring;
use serde_json::{Value, json};

use messages::{Dice, Frame, is_denied_by_name};

const CONFIG: &str =
    "enforcement: { stdio: neutralize, explain: false }\npolicy: { denied_tools: [add, 'delete_*', '工*'] }";

/// Most messages of one write that are overwritten; of one with more that are denied, all are refused.
const MOST_NEUTRALIZED: usize = 64;

/// Whether the engine reads a call in this that the policy denies, of a tool that there could be.
fn asks_for_what_is_denied(text: &str) -> bool {
    let mut scratch = String::new();
    let Ok(parsed) = protocol::parse(text.as_bytes(), &mut scratch) else { return false };
    parsed.messages.iter().any(|message| match &message.kind {
        Kind::Request { method: Method::ToolsCall, params: Some(params), .. } => {
            let [name] = members(params.get(), ["name"]);
            let name = string(name);
            is_denied_by_name(&name) && !name.contains(char::from(NEUTRAL_BYTE))
        }
        _ => false,
    })
}

/// A server, and what it was written.
struct Session {
    gated: Gated,
    frames: Vec<Frame>,
    /// Of how many frames the beginning alone was written, or less: the last ones.
    in_part: usize,
}

impl Session {
    fn start(agent: &Agent, wiring: Wiring, framing: Framing) -> Result<Self> {
        let options: &[&str] = if framing == Framing::Lines { &[] } else { &["--content-length"] };
        Ok(Self { gated: Gated::start(agent, wiring, options)?, frames: Vec::new(), in_part: 0 })
    }

    /// What the server has read is what was written, but for one letter of each message that is denied; its answers say so, too.
    /// How many letters those were.
    fn check(&self, answers: &HashMap<u64, Value>) -> Result<usize> {
        let heard = self.gated.heard()?;
        // It was initialized, and has listed its tools.
        let heard: Vec<&str> = heard.lines().skip(2).collect();
        let whole = self.frames.len() - self.in_part;
        ensure!(heard.len() >= whole, "{} frames of {whole} were heard", heard.len());
        ensure!(heard.len() <= self.frames.len(), "{} frames were heard: {heard:?}", heard.len());
        let mut overwritten = 0;
        for (at, (heard, Frame { text, messages })) in heard.iter().zip(&self.frames).enumerate() {
            // It may end within a letter.
            let heard = heard.trim_end_matches(char::REPLACEMENT_CHARACTER);
            let is_whole = heard.len() == text.len();
            ensure!(is_whole || at >= whole && heard.len() < text.len(), "{text}\n{heard}");
            let differ = text.bytes().zip(heard.bytes()).filter(|(written, heard)| written != heard);
            let differ: Vec<u8> = differ.map(|(_, heard)| heard).collect();
            overwritten += differ.len();
            ensure!(differ.iter().all(|heard| *heard == NEUTRAL_BYTE), "{text}\n{heard}");
            ensure!(!asks_for_what_is_denied(heard), "{heard}");
            let denied = messages.iter().filter(|message| message.is_denied).count();
            ensure!(denied > 0 || differ.is_empty(), "nothing of it is denied: {text}\n{heard}");
            if is_whole && at < whole {
                let is_usual = messages.iter().all(|message| message.is_usual);
                ensure!(
                    if is_usual { differ.len() == denied } else { differ.len() >= denied },
                    "{text}\n{heard}"
                );
            }
            for message in messages {
                let Some(answer) = answers.get(&message.id) else { continue };
                let is_stopped = answer["error"].to_string().contains(char::from(NEUTRAL_BYTE));
                ensure!(message.is_denied || !is_stopped, "{answer} {}", message.text);
                ensure!(!(message.is_denied && message.is_usual) || is_stopped, "{answer} {}", message.text);
            }
        }
        Ok(overwritten)
    }

    /// What the agent says of every call is what the engine says, and is so.
    fn check_events(&self, agent: &Agent, overwritten: usize) -> Result<()> {
        let events = agent.events_of(self.gated.connection);
        let calls: HashMap<u64, &Value> = events
            .iter()
            .filter(|event| is(event, "mcp_tool_called"))
            .filter_map(|call| Some((call["jsonrpc_id"].as_u64()?, call)))
            .collect();
        for call in calls.values() {
            ensure!((call["action"] == "block") == (call["enforced"] == json!(true)), "{call}");
        }
        let whole = self.frames.iter().take(self.frames.len() - self.in_part);
        for message in whole.flat_map(|frame| &frame.messages).filter(|message| message.is_usual) {
            let call = calls.get(&message.id);
            ensure!(call.is_some() == message.is_call, "{call:?} {}", message.text);
            let is_blocked = call.is_some_and(|call| call["action"] == "block");
            ensure!(is_blocked == message.is_denied, "{call:?} {}", message.text);
        }
        let neutralized = events.iter().filter(|event| event["action"] == "neutralized").count();
        ensure!(
            neutralized == overwritten,
            "{neutralized} were said to be overwritten, and {overwritten} were"
        );
        Ok(())
    }
}

/// What became of the messages.
#[derive(Debug, Default)]
struct Tally {
    overwritten: usize,
    refused: u64,
}

/// So many writes are under way before the answers are read.
const WRITES: usize = 16;

/// So many messages, over one kind of channel.
fn run(agent: &Agent, seed: u64, wiring: Wiring, framing: Framing, count: u64) -> Result<Tally> {
    let mut dice = Dice::new(seed);
    let (mut id, last, mut writes) = (10, 10 + count, 0);
    let (mut tally, mut answers, mut over) = (Tally::default(), HashMap::new(), Vec::new());
    let mut session = Session::start(agent, wiring, framing)?;
    while id < last {
        let frames = dice.frames(&mut id);
        let bytes: Vec<u8> = frames.iter().flat_map(|frame| framing.wrap(frame.text.as_bytes())).collect();
        let cut = if dice.one_in(2) { dice.below(bytes.len()) } else { 0 };
        let (first, second) = bytes.split_at(cut);
        let mut written = Ok(());
        if !first.is_empty() {
            written = session.gated.peer.write(first);
        }
        let is_begun = cut > 0 && written.is_ok();
        if written.is_ok() {
            written = session.gated.peer.write(second);
        }
        if written.is_err() {
            tally.refused += 1;
            let messages = || frames.iter().flat_map(|frame| &frame.messages);
            let denied = messages().filter(|message| message.is_denied).count();
            let text = || String::from_utf8_lossy(&bytes);
            ensure!(denied > 0, "nothing of it is denied: {}", text());
            // Its name may have gone by before, or be one of two, as which a URI counts; or there are too many.
            let is_explained = is_begun
                || denied > MOST_NEUTRALIZED
                || messages().any(|message| message.is_denied && (!message.is_usual || message.is_located));
            ensure!(is_explained, "it could have been neutralized: {}", text());
        } else {
            ensure!(
                !frames.iter().flat_map(|frame| &frame.messages).any(|message| message.is_broken),
                "a line break within a message: {frames:?}",
                frames = frames.iter().map(|frame| &frame.text).collect::<Vec<_>>()
            );
        }
        if written.is_ok() || is_begun {
            session.in_part = if written.is_ok() { 0 } else { frames.len() };
            session.frames.extend(frames);
        }
        writes += 1;
        if session.in_part > 0 {
            // The beginning of a message is there, and nothing can follow it.
            session.gated.peer.close()?;
            tally.overwritten += session.check(&HashMap::new())?;
            over.push(std::mem::replace(&mut session, Session::start(agent, wiring, framing)?));
        } else if writes % WRITES == 0 || id >= last {
            let ping = json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
            session.gated.peer.say(&ping)?;
            session.frames.push(Frame { text: ping.to_string(), messages: Vec::new() });
            while !answers.contains_key(&id) {
                let answer = session.gated.peer.answer()?;
                let all = if let Value::Array(all) = answer { all } else { vec![answer] };
                answers.extend(all.into_iter().filter_map(|one| Some((one["id"].as_u64()?, one))));
            }
            id += 1;
        }
    }
    over.push(session);
    agent.settle();
    let mut overwritten = 0;
    for session in &over {
        let letters = session.check(&answers)?;
        session.check_events(agent, letters)?;
        overwritten += letters;
    }
    tally.overwritten = overwritten;
    Ok(tally)
}

/// Ten thousand.
#[test]
fn generated_messages_are_gated_in_every_form() -> Result<()> {
    let Some(agent) = agent("generated_messages_are_gated_in_every_form", CONFIG)? else { return Ok(()) };
    for (seed, wiring) in (1..).step_by(2).zip(WIRINGS) {
        for (seed, framing, count) in
            [(seed, Framing::Lines, 3_500), (seed + 1, Framing::ContentLength, 1_500)]
        {
            let tally = run(&agent, seed, wiring, framing, count)
                .with_context(|| format!("{wiring:?} {framing:?} {seed}"))?;
            println!("{wiring:?} {framing:?}: {count} messages, {tally:?}");
            ensure!(tally.overwritten as u64 > count / 10, "{wiring:?} {framing:?}: {tally:?}");
        }
    }
    agent.stop()?;
    Ok(())
}
