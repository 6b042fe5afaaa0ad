//! A recorded conversation, played again: which lines of the server follow which line of the client.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::transcript::Dir;

/// A line as it was recorded, without its newline.
pub type Line = Vec<u8>;

/// A recorded conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// Each line of the client, with the lines that the server wrote until it had answered it.
    pub turns: Vec<(Line, Vec<Line>)>,
    /// What the server wrote after that.
    pub rest: Vec<Line>,
}

impl Replay {
    /// Reads `c2s.jsonl` and `s2c.jsonl` in `directory`.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn read(directory: &Path) -> Result<Self> {
        let lines = |name: &str| {
            let path = directory.join(name);
            let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            anyhow::Ok(lines_of(&bytes))
        };
        Ok(Self::new(lines("c2s.jsonl")?, lines("s2c.jsonl")?))
    }

    /// Puts the lines of the two directions, which were recorded apart, into turns.
    pub fn new(client: Vec<Line>, server: Vec<Line>) -> Self {
        let mut server = VecDeque::from(server);
        let mut turns: Vec<(Line, Vec<Line>)> = Vec::new();
        for line in client {
            // A client answers only what it was asked: the server's request belongs to the turn before.
            let asked = position(&server, answer_id(&line), request_id);
            if let (Some(index), Some((_, answers))) = (asked, turns.last_mut()) {
                answers.extend(server.drain(..=index));
            }
            let answered = position(&server, request_id(&line), answer_id);
            let answers = answered.map_or_else(Vec::new, |index| server.drain(..=index).collect());
            turns.push((line, answers));
        }
        Self { turns, rest: server.into() }
    }

    /// All messages, in both directions; lines that are no JSON (a server's log text) are none.
    pub fn messages(&self) -> Vec<(Dir, Value)> {
        let message = |dir: Dir, line: &Line| Some((dir, serde_json::from_slice(line).ok()?));
        let turns = self.turns.iter().flat_map(|(line, answers)| {
            let answers = answers.iter().filter_map(|line| message(Dir::S2c, line));
            message(Dir::C2s, line).into_iter().chain(answers).collect::<Vec<_>>()
        });
        turns.chain(self.rest.iter().filter_map(|line| message(Dir::S2c, line))).collect()
    }
}

fn lines_of(bytes: &[u8]) -> Vec<Line> {
    bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
}

/// Where among `lines` the one is whose `id_of` is `id`.
fn position(
    lines: &VecDeque<Line>,
    id: Option<Value>,
    id_of: impl Fn(&[u8]) -> Option<Value>,
) -> Option<usize> {
    let id = id?;
    lines.iter().position(|line| id_of(line).as_ref() == Some(&id))
}

fn request_id(line: &[u8]) -> Option<Value> {
    let message: Value = serde_json::from_slice(line).ok()?;
    message.get("method")?;
    message.get("id").cloned()
}

fn answer_id(line: &[u8]) -> Option<Value> {
    let message: Value = serde_json::from_slice(line).ok()?;
    if message.get("method").is_some() { None } else { message.get("id").cloned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transcript_lines_are_grouped_into_turns() {
        let lines =
            |lines: &[&str]| -> Vec<Line> { lines.iter().map(|line| line.as_bytes().to_vec()).collect() };
        let (first, hello, second) = (
            r#"{"id":1,"method":"initialize"}"#,
            r#"{"method":"notifications/initialized"}"#,
            r#"{"id":2,"method":"x"}"#,
        );
        let (answer_1, log, asks, answer_2) = (
            r#"{"id":1,"result":{}}"#,
            "starting",
            r#"{"id":2,"method":"roots/list"}"#,
            r#"{"id":2,"error":{}}"#,
        );
        let cases = [
            (
                lines(&[first, hello, second]),
                lines(&[log, answer_1, asks, answer_2, log]),
                vec![lines(&[log, answer_1]), lines(&[]), lines(&[asks, answer_2])],
                lines(&[log]),
            ),
            // The server asks in its turn, and with an id that the client also uses.
            (
                lines(&[first, r#"{"id":2,"result":{}}"#, second]),
                lines(&[answer_1, asks, answer_2]),
                vec![lines(&[answer_1, asks]), lines(&[]), lines(&[answer_2])],
                lines(&[]),
            ),
            // An answer that never came: nothing is held back for it.
            (lines(&[second, first]), lines(&[answer_1]), vec![lines(&[]), lines(&[answer_1])], lines(&[])),
        ];
        for (client, server, answers, rest) in cases {
            let replay = Replay::new(client.clone(), server);
            let (asked, answered): (Vec<Line>, Vec<Vec<Line>>) = replay.turns.into_iter().unzip();
            assert_eq!((asked, answered, replay.rest), (client, answers, rest));
        }
    }
}
