//! One answer: its bytes into values, and those to their dialect.

use mcpwarden_http::sse::{Events, Piece};
use mcpwarden_terms::Timestamp;

use crate::calls::{Sink, State};
use crate::dialects;
use crate::eventstream::{EventStream, Message};
use crate::values::{Cut, Values};
use crate::{AnswerOutput, Dialect, IntentCounters, IntentLimits, Missing};

/// How an answer is framed, as its first byte shows.
#[derive(Debug)]
enum Framing {
    /// Nothing but blanks came.
    Unknown,
    Values(Values),
    Events(Box<Events>),
    EventStream(EventStream),
}

/// Reads the body of one answer, without the codings of its transfer. What it gives does not depend on how the bytes are cut.
///
/// The types of its content need not be known: JSON begins with `{` or `[`, an event stream of Amazon with the highest byte
/// of a length, and server-sent events with anything else.
#[derive(Debug)]
pub struct Answer {
    framing: Framing,
    state: State,
}

impl Answer {
    /// One of which nothing has come.
    pub fn new(limits: IntentLimits) -> Self {
        Self { framing: Framing::Unknown, state: State::new(limits) }
    }

    /// Whose form it has, where that has shown.
    pub fn dialect(&self) -> Option<Dialect> {
        self.state.dialect
    }

    /// What happened so far.
    pub fn counters(&self) -> IntentCounters {
        self.state.counters
    }

    /// Bytes held of what is unfinished.
    pub fn held(&self) -> usize {
        let framing = match &self.framing {
            Framing::Unknown => 0,
            Framing::Values(values) => values.held(),
            Framing::Events(events) => events.held(),
            Framing::EventStream(stream) => stream.held(),
        };
        framing + self.state.held()
    }

    /// Takes the next bytes of the body.
    pub fn push(&mut self, bytes: &[u8], sink: &mut dyn FnMut(AnswerOutput<'_>)) {
        let Self { framing, state } = self;
        if let Framing::Unknown = framing {
            let max_bytes = state.limits.value_bytes;
            *framing = match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
                None => return,
                Some(b'{' | b'[') => Framing::Values(Values::new(max_bytes)),
                Some(0) => Framing::EventStream(EventStream::new(max_bytes)),
                Some(_) => Framing::Events(Box::new(Events::new(max_bytes))),
            };
        }
        match framing {
            Framing::Unknown => {}
            Framing::Values(values) => values.push(bytes, &mut |cut| value(cut, state, sink)),
            Framing::Events(events) => {
                events.push(bytes, Timestamp::default(), &mut |piece| event(piece, state, sink));
            }
            Framing::EventStream(stream) => stream.push(bytes, &mut |message| match message {
                Message::Event { kind, is_exception: true, .. } => state.fail(kind, sink),
                Message::Event { kind, payload, .. } => json(payload, kind, state, sink),
                Message::TooLong => state.miss(Missing::TooLong, sink),
                Message::Broken => state.miss(Missing::Invalid, sink),
            }),
        }
    }

    /// The body is over: whole, or broken off.
    pub fn end(&mut self, sink: &mut dyn FnMut(AnswerOutput<'_>)) {
        let Self { framing, state } = self;
        match framing {
            Framing::Unknown => {}
            Framing::Values(values) => values.end(&mut |cut| value(cut, state, sink)),
            Framing::Events(events) => events.finish(&mut |piece| event(piece, state, sink)),
            Framing::EventStream(stream) if stream.is_unfinished() => state.miss(Missing::Invalid, sink),
            Framing::EventStream(_) => {}
        }
        *framing = Framing::Unknown;
        state.end(sink);
    }
}

fn value(cut: Cut<'_>, state: &mut State, sink: &mut Sink<'_>) {
    match cut {
        Cut::Value(bytes) => json(bytes, "", state, sink),
        Cut::TooLong => state.miss(Missing::TooLong, sink),
    }
}

fn event(piece: Piece<'_>, state: &mut State, sink: &mut Sink<'_>) {
    match piece {
        Piece::Skipped { .. } => state.miss(Missing::TooLong, sink),
        // How streams of OpenAI end; what comes behind it is nothing.
        Piece::Event(event) if event.data.trim_ascii() == b"[DONE]" => {}
        Piece::Event(event) => json(event.data, "", state, sink),
    }
}

/// One value, and what the framing calls it.
fn json(bytes: &[u8], kind: &str, state: &mut State, sink: &mut Sink<'_>) {
    let text = String::from_utf8_lossy(bytes);
    match serde_json::from_str(&text) {
        Ok(value) => dialects::read(value, kind, state, sink),
        Err(_) => state.miss(Missing::Invalid, sink),
    }
}
