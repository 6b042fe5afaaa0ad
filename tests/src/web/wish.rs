//! How a server is to answer a request: said in a header of it.

use std::io;

use serde_json::Value;

use super::{Coding, Framing, Rng, wire};

/// What an answer's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// JSON.
    Json,
    /// A stream of events.
    Events,
}

/// What a client wishes for. `Display` and `FromStr` are the value of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// What the body is.
    pub answer: Answer,
    /// How it ends.
    pub framing: Framing,
    /// How it is coded.
    pub coding: Coding,
    /// How long its text is, in bytes.
    pub bytes: usize,
    /// How many notifications come before the answer, in events.
    pub notifications: u64,
    /// For all that is left to chance.
    pub seed: u64,
}

const ANSWERS: [Answer; 2] = [Answer::Json, Answer::Events];
const FRAMINGS: [Framing; 3] = [Framing::Length, Framing::Chunked, Framing::Close];
const CODINGS: [Coding; 3] = [Coding::Identity, Coding::Gzip, Coding::Deflate];

impl Wish {
    /// The header's name.
    pub const HEADER: &str = "x-wish";

    /// Any, with a text of so many bytes.
    pub fn any(bytes: usize, rng: &mut Rng) -> Self {
        let answer = rng.one_of(&ANSWERS);
        // An answer that ends the connection is rarer.
        let framing = if rng.below(16) == 0 { Framing::Close } else { rng.one_of(&FRAMINGS[..2]) };
        let coding = rng.one_of(&CODINGS);
        Self { answer, framing, coding, bytes, notifications: rng.below(3), seed: rng.below(u64::MAX) }
    }

    /// As the header's value.
    pub fn value(&self) -> String {
        let at = |found: Option<usize>| found.unwrap_or_default();
        let answer = at(ANSWERS.iter().position(|answer| *answer == self.answer));
        let framing = at(FRAMINGS.iter().position(|framing| *framing == self.framing));
        let coding = at(CODINGS.iter().position(|coding| *coding == self.coding));
        format!("{answer} {framing} {coding} {} {} {}", self.bytes, self.notifications, self.seed)
    }

    /// From the header's value.
    pub fn of(value: &str) -> Option<Self> {
        let mut words = value.split(' ').map(|word| word.parse::<u64>().ok());
        let mut next = || words.next().flatten();
        Some(Self {
            answer: *ANSWERS.get(next()? as usize)?,
            framing: *FRAMINGS.get(next()? as usize)?,
            coding: *CODINGS.get(next()? as usize)?,
            bytes: next()? as usize,
            notifications: next()?,
            seed: next()?,
        })
    }

    /// An answer that carries these messages, with further lines of a head.
    ///
    /// # Errors
    /// None: writing to memory does not fail.
    pub fn wire(&self, messages: &[Value], lines: &str) -> io::Result<Vec<u8>> {
        let mut rng = Rng(self.seed);
        let (kind, body) = match (self.answer, messages) {
            (Answer::Json, [message]) => ("application/json", message.to_string()),
            _ => ("text/event-stream", events(messages, &mut rng)),
        };
        let lines = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{lines}");
        wire(&lines, body.as_bytes(), self.framing, self.coding, &mut rng)
    }
}

/// A stream of events with these messages, with all that may stand in one (WHATWG HTML, "Server-sent events").
pub fn events(messages: &[Value], rng: &mut Rng) -> String {
    let mut text = String::new();
    for (number, message) in messages.iter().enumerate() {
        let end = rng.one_of(&["\n", "\r\n", "\r"]);
        let mut line = |line: &str| {
            text.push_str(line);
            text.push_str(end);
        };
        if rng.below(4) == 0 {
            line(": still here");
        }
        if rng.below(2) == 0 {
            line("event: message");
        }
        if rng.below(2) == 0 {
            line(&format!("id: {number}"));
        }
        // JSON over several lines is as many fields.
        let data = match rng.below(3) {
            0 => format!("{message:#}"),
            _ => message.to_string(),
        };
        data.lines().for_each(|part| line(&format!("data: {part}")));
        line("");
    }
    text
}
