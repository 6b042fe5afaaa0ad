//! A frame of a server, as each of its possible readers takes it.
//!
//! Clients and servers do not agree on what a message is: some read a stream of values and some read lines, by different ends of
//! them; some regard the case of keys and some do not. A frame is read as the strictest reader does. What others read in it is read
//! as well, and that they differ is reported.

use serde_json::value::RawValue;

use super::evaluator::find_repeated;
use super::reporter::About;
use super::seen::{Reading, Seen};
use super::{Engine, Output, exchange, trace};
use crate::detect::{Inspection, Structure};
use crate::event::{Subject, Trace};
use crate::protocol::{
    self, Kind, Message, Method, Otherwise, Parsed, ProtocolError, Respelled, decode_str, members,
};
use crate::terms::{ConnectionId, Direction, Timestamp};
use crate::wire::{self, Framing};

impl Engine {
    /// Takes a frame of what is known to be a server.
    pub(super) fn server_frame(
        &mut self,
        seen: Seen<'_>,
        frame: &[u8],
        parsed: Result<Parsed<'_>, ProtocolError>,
        out: &mut Vec<Output>,
    ) {
        self.start_outer(seen.connection, seen.now, out);
        self.traced(trace::of_head(seen), |engine| engine.frame_read(seen, frame, parsed, out));
    }

    /// Does something about a message of this trace; without one, of the trace of what it is part of.
    fn traced(&mut self, trace: Option<Trace>, work: impl FnOnce(&mut Self)) {
        let Some(trace) = trace else { return work(self) };
        let before = std::mem::replace(&mut self.trace, trace);
        work(self);
        self.trace = before;
    }

    fn frame_read(
        &mut self,
        seen: Seen<'_>,
        frame: &[u8],
        parsed: Result<Parsed<'_>, ProtocolError>,
        out: &mut Vec<Output>,
    ) {
        match parsed {
            Ok(parsed) => self.parsed_frame(seen, frame, parsed, out),
            Err(ProtocolError::TooManyMessages) => {
                self.counters.oversized_batches += 1;
                self.note_message(seen, false);
                self.parts(out).cx.report_invalid(seen, frame);
                let place = (seen.connection, seen.direction, seen.time);
                self.irregular(place, Structure::OversizedBatch, "batch", "", out);
            }
            Err(ProtocolError::Json { .. }) => {
                self.note_message(seen, false);
                if !self.within(seen, frame, false, out) {
                    self.parts(out).cx.report_invalid(seen, frame);
                }
            }
        }
    }

    fn parsed_frame(&mut self, seen: Seen<'_>, frame: &[u8], mut parsed: Parsed<'_>, out: &mut Vec<Output>) {
        self.counters.lossy_frames += u64::from(parsed.lossy);
        self.counters.repaired_frames += u64::from(parsed.repaired);
        self.note_message(seen, parsed.has_message());
        if parsed.relaxed {
            self.ambiguous_framing(seen.connection, seen.direction, Framing::Syntax, seen.time, out);
        }
        if parsed.batch {
            exchange::eras::batch(&mut self.parts(out).cx, seen);
        }
        let is_irregular = seen.reading.is_irregular || parsed.lossy || parsed.repaired;
        let read = Seen { reading: Reading { is_irregular, ..seen.reading }, ..seen };
        for message in &mut parsed.messages {
            self.counters.messages += 1;
            self.counters.misdirected_messages += u64::from(message.misdirected(seen.direction));
            self.counters.unversioned_messages += u64::from(!message.versioned);
            let trace = trace::of_message(&mut self.connections, read, message);
            self.traced(trace, |engine| engine.message(read, message, out));
        }
        if parsed.messages.is_empty() {
            self.parts(out).cx.report_invalid(seen, frame);
        }
        if parsed.relaxed {
            self.with_bare_escapes(read, frame, &parsed.messages, out);
        }
        self.within(seen, frame, true, out);
    }

    /// Takes the messages of a frame that are others for those to whom an escape that JSON does not have is the character itself.
    fn with_bare_escapes(
        &mut self,
        seen: Seen<'_>,
        frame: &[u8],
        messages: &[Message<'_>],
        out: &mut Vec<Output>,
    ) {
        let Some(bare) = protocol::with_bare_escapes(frame) else { return };
        let mut scratch = String::new();
        let Ok(mut others) = protocol::parse(bare.as_bytes(), &mut scratch) else { return };
        for (message, other) in messages.iter().zip(&mut others.messages) {
            other.misdirected(seen.direction);
            if !says_the_same(&message.kind, &other.kind) {
                self.one_reading(seen.by_another(), other, out);
            }
        }
    }

    /// Takes the messages that some readers find in a frame. Whether there are any.
    fn within(&mut self, seen: Seen<'_>, frame: &[u8], is_json: bool, out: &mut Vec<Output>) -> bool {
        let mut any = false;
        wire::messages_within(frame, is_json, &mut |bytes, framing| {
            any = true;
            let reading = Reading { is_irregular: true, ..Reading::default() };
            let seen = Seen { bytes: bytes.len() as u64, reading, ..seen };
            self.frame(seen, bytes, out);
            self.ambiguous_framing(seen.connection, seen.direction, framing, seen.time, out);
        });
        any
    }

    fn note_message(&mut self, seen: Seen<'_>, is_message: bool) {
        if let Some(connection) = self.connections.get_mut(seen.connection) {
            connection.note_message(seen.direction, is_message);
        }
    }

    /// Reports that the frame before is a message for some readers only, once for each reason.
    pub(super) fn ambiguous_framing(
        &mut self,
        id: ConnectionId,
        direction: Direction,
        framing: Framing,
        time: Timestamp,
        out: &mut Vec<Output>,
    ) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if connection.is_candidate() {
            return connection.keep_ambiguous(direction, time, framing);
        }
        if connection.was_message(direction) {
            self.irregular((id, direction, time), Structure::AmbiguousFraming, framing.as_str(), "", out);
        }
    }

    /// Reports that a message is not as it should be, once for each direction and text.
    fn irregular(
        &mut self,
        (id, direction, time): (ConnectionId, Direction, Timestamp),
        structure: Structure,
        text: &str,
        field: &str,
        out: &mut Vec<Output>,
    ) {
        self.counters.irregular_messages += 1;
        let mut cx = self.parts(out).cx;
        let Some(inspection) = cx.config.inspection.as_ref() else { return };
        let mut found = Inspection::default();
        inspection.detector.irregular(structure, text, field, &mut found);
        let Some(pattern) = found.detections.first().map(|found| found.pattern.clone()) else { return };
        if cx.is_reported(id, &pattern, &format!("{direction:?} {text}")) {
            return;
        }
        if let Some(scope) = cx.connections.scope(id) {
            cx.report_found(&scope, time, &About::of(Subject::Message), &found);
        }
    }

    /// Takes a message as each of its readers does.
    fn message(&mut self, seen: Seen<'_>, message: &Message<'_>, out: &mut Vec<Output>) {
        let Otherwise { respelled, others, is_positional } = Otherwise::of(message.raw, seen.direction);
        self.exchange.begin_message();
        let is_irregular = seen.reading.is_irregular || !others.is_empty();
        let seen = Seen { reading: Reading { is_irregular, ..seen.reading }, ..seen };
        if let Kind::Invalid = message.kind {
            self.repeated_in_none(seen, message, out);
        }
        if is_positional || respelled.as_ref().is_some_and(|respelled| respelled.has_arrays) {
            let place = (seen.connection, seen.direction, seen.time);
            self.irregular(place, Structure::AmbiguousFraming, Framing::Array.as_str(), "", out);
        }
        if !is_positional {
            self.spelled(seen, message, respelled, out);
        }
        for json in &others {
            let mut scratch = String::new();
            let Some(other) = first_message(json, seen.direction, &mut scratch) else { continue };
            if !says_the_same(&message.kind, &other.kind) {
                self.one_reading(seen.by_another(), &other, out);
            }
        }
    }

    /// Reports a member that stands twice in what is a message for some readers only.
    fn repeated_in_none(&mut self, seen: Seen<'_>, message: &Message<'_>, out: &mut Vec<Output>) {
        let cx = &mut self.parts(out).cx;
        let mut found = Inspection::default();
        find_repeated(cx.config.inspection.as_ref(), message, &mut found);
        if let Some(scope) = cx.connections.scope(seen.connection) {
            cx.report_found(&scope, seen.time, &About::of(Subject::Message), &found);
        }
    }

    /// Takes a message as those take it who regard the case of keys, and as those do who do not.
    fn spelled(
        &mut self,
        seen: Seen<'_>,
        message: &Message<'_>,
        respelled: Option<Respelled>,
        out: &mut Vec<Output>,
    ) {
        let Some(respelled) = respelled else {
            return self.one_reading(seen, message, out);
        };
        let place = (seen.connection, seen.direction, seen.time);
        let mut scratch = String::new();
        let other = first_message(&respelled.json, seen.direction, &mut scratch);
        if let Some(key) = &respelled.key
            && other.as_ref().is_none_or(|other| is_ambiguous(&respelled, seen.direction, message, other))
        {
            self.irregular(place, Structure::AmbiguousKey, key, "", out);
        }
        let Some(other) = other else { return self.one_reading(seen, message, out) };
        match (&message.kind, &other.kind) {
            // Nobody takes it as it is.
            _ if respelled.has_arrays && is_array(message) => self.one_reading(seen, &other, out),
            (Kind::Invalid, _) => self.one_reading(seen, &other, out),
            (Kind::Response { id, result: strict }, Kind::Response { id: same, result })
                if id.key() == same.key() =>
            {
                let is_of_server = seen.direction == Direction::ServerToClient;
                let respelled = is_of_server.then_some(*result);
                self.one_reading(
                    Seen { reading: Reading { respelled, ..seen.reading }, ..seen },
                    message,
                    out,
                );
                // What a client says of a question is taken for one thing or the other.
                if !is_of_server && protocol::accepts(strict.get()) != protocol::accepts(result.get()) {
                    self.one_reading(seen.by_another(), &other, out);
                }
            }
            (kind, other) if asks_the_same(kind, other) => self.one_reading(seen, message, out),
            _ => {
                self.one_reading(seen, message, out);
                self.one_reading(seen.by_another(), &other, out);
            }
        }
    }

    /// Takes a message as one reader takes it.
    fn one_reading(&mut self, seen: Seen<'_>, message: &Message<'_>, out: &mut Vec<Output>) {
        exchange::eras::sent(&mut self.parts(out).cx, seen, message);
        self.with(out, |_, ev, cx| ev.search_rest(cx, seen, message));
        if message.beside.is_some() {
            self.with(out, |exchange, ev, cx| exchange.answer_beside(ev, cx, seen, message));
        }
        if seen.stop.is_some_and(|stop| stop.is_refused) {
            return self.with(out, |_, ev, cx| ev.report_refused(cx, seen, message));
        }
        let fingerprint = exchange::fingerprint(&self.connections, seen, message);
        if let (Kind::Request { .. }, Some(fingerprint)) = (&message.kind, &fingerprint) {
            self.find_container_relay(seen.connection, fingerprint, seen.time);
            self.start_outer(seen.connection, seen.now, out);
        }
        self.with(out, |exchange, ev, cx| exchange.message(ev, cx, seen, message, fingerprint));
    }
}

/// The first message of a text, as it can be meant from this side.
fn first_message<'a>(json: &'a str, direction: Direction, scratch: &'a mut String) -> Option<Message<'a>> {
    let mut message = protocol::parse(json.as_bytes(), scratch).ok()?.messages.into_iter().next()?;
    message.misdirected(direction);
    Some(message)
}

/// Whether a message is an array, or its result is.
fn is_array(message: &Message<'_>) -> bool {
    let is_array = |json: &str| json.trim_start().starts_with('[');
    is_array(message.raw) || matches!(&message.kind, Kind::Response { result, .. } if is_array(result.get()))
}

/// Whether a message is a user's answer to an elicitation, and is one to whoever does not regard the case of keys.
fn is_entered(direction: Direction, kind: &Kind<'_>, respelled: &Kind<'_>) -> bool {
    let (Kind::Response { id, result }, Kind::Response { id: same, .. }) = (kind, respelled) else {
        return false;
    };
    direction == Direction::ClientToServer
        && id.key() == same.key()
        && members(result.get(), ["action"])[0].is_some()
}

/// Whether readers differ in what matters by a key that some of them take for another one. What a user has entered has names of its own,
/// and so has a method that is none of MCP; a line of a log is no message to anybody who knows no such method.
fn is_ambiguous(
    respelled: &Respelled,
    direction: Direction,
    message: &Message<'_>,
    other: &Message<'_>,
) -> bool {
    let is_foreign = |kind: &Kind<'_>| match kind {
        Kind::Request { method, .. } | Kind::Notification { method, .. } => {
            matches!(method, Method::Other(_))
        }
        _ => false,
    };
    let has = |names: &[&str]| respelled.outer.iter().any(|name| names.contains(name));
    if is_entered(direction, &message.kind, &other.kind) {
        return has(&["action", "content", "result", "error", "id"]);
    }
    if let (Kind::Invalid, false) = (&message.kind, other.versioned) {
        return !matches!(other.kind, Kind::Invalid) && !is_foreign(&other.kind);
    }
    !is_foreign(&other.kind) || respelled.is_of_message()
}

/// Whether two readings of a message are the same message.
fn says_the_same(one: &Kind<'_>, other: &Kind<'_>) -> bool {
    match (one, other) {
        (Kind::Response { id, result }, Kind::Response { id: other_id, result: other }) => {
            id.key() == other_id.key() && result.get() == other.get()
        }
        (Kind::Invalid, Kind::Invalid) => true,
        _ => asks_the_same(one, other),
    }
}

/// Whether two readings of a request or a notification ask for the same: of a call of a tool, in all that is read of it.
fn asks_the_same(one: &Kind<'_>, other: &Kind<'_>) -> bool {
    match (one, other) {
        (
            Kind::Request { id, method: Method::ToolsCall, params: Some(params) },
            Kind::Request { id: other_id, method: Method::ToolsCall, params: Some(other) },
        ) => id.key() == other_id.key() && is_same_call(params.get(), other.get()),
        (
            Kind::Request { id, method, params },
            Kind::Request { id: other_id, method: other_method, params: other },
        ) => id.key() == other_id.key() && (method, text(*params)) == (other_method, text(*other)),
        (
            Kind::Notification { method, params },
            Kind::Notification { method: other_method, params: other },
        ) => (method, text(*params)) == (other_method, text(*other)),
        _ => false,
    }
}

fn text(params: Option<&RawValue>) -> Option<&str> {
    params.map(RawValue::get)
}

/// Whether the parameters of two calls are those of the same: whatever else is beside these, nobody reads it.
fn is_same_call(one: &str, other: &str) -> bool {
    const READ: [&str; 7] =
        ["name", "arguments", "_meta", "task", "taskId", "requestState", "inputResponses"];
    members(one, READ).iter().zip(members(other, READ)).all(|(one, other)| match (text(*one), text(other)) {
        // `"\u0074"` is `"t"`, and `42` is not `"42"`, which to some readers it is.
        (Some(one), Some(other)) => {
            one == other
                || decode_str(one).is_some_and(|one| decode_str(other).is_some_and(|other| one == other))
        }
        (one, other) => one == other,
    })
}
