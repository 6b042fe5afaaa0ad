//! Messages of servers: said, paired, held for relays.

use std::sync::Arc;

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::connection::{Connection, Stage};
use super::inspect::About;
use super::io::Output;
use super::pairing::{Asked, Early, Open, Role};
use super::record::{self, Call, asked};
use super::relay::{self, Fingerprint};
use super::{Due, Engine};
use crate::definition::bounded_name;
use crate::event::{Detection, Subject};
use crate::guard::Recorded;
use crate::protocol::{self, Id, IdKey, Kind, Message, Method, ProtocolError, members_once, string};
use crate::terms::{ConnectionId, Direction, Timestamp};

/// Of a young connection requests are remembered by what they say, in case a relay behind it starts only then.
const YOUNG_FRAMES: u64 = 16;

/// A message and where it was.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) connection: ConnectionId,
    pub(super) direction: Direction,
    pub(super) time: Timestamp,
    /// Of the frame.
    pub(super) bytes: u64,
    pub(super) now: Timestamp,
}

impl Engine {
    pub(super) fn frame(&mut self, seen: Seen, frame: &[u8], out: &mut Vec<Output>) {
        let Some(connection) = self.connections.get_mut(&seen.connection) else { return };
        if connection.is_candidate() {
            return self.candidate_frame(seen, frame, out);
        }
        connection.count(seen.direction, seen.bytes);
        self.start_outer(seen.connection, seen.now, out);
        let mut scratch = std::mem::take(&mut self.scratch);
        match protocol::parse(frame, &mut scratch) {
            Ok(mut parsed) => {
                self.counters.lossy_frames += u64::from(parsed.lossy);
                self.counters.repaired_frames += u64::from(parsed.repaired);
                for message in &mut parsed.messages {
                    self.counters.messages += 1;
                    self.counters.misdirected_messages += u64::from(message.misdirected(seen.direction));
                    self.counters.unversioned_messages += u64::from(!message.versioned);
                    self.message(seen, message, out);
                }
                if parsed.messages.is_empty() {
                    self.invalid(seen, frame, out);
                }
            }
            Err(error) => {
                if matches!(error, ProtocolError::TooManyMessages) {
                    self.counters.oversized_batches += 1;
                }
                self.invalid(seen, frame, out);
            }
        }
        // A frame of 16 MiB that had to be mended must not be kept for ever.
        scratch.clear();
        scratch.shrink_to(64 * 1024);
        self.scratch = scratch;
    }

    fn invalid(&mut self, seen: Seen, frame: &[u8], out: &mut Vec<Output>) {
        self.counters.invalid_frames += 1;
        if let Some(connection) = self.connections.get_mut(&seen.connection) {
            *connection.totals.invalid_frames.of(seen.direction) += 1;
        }
        if self.config.verbose {
            self.say_of(seen.connection, seen.time, self.recorder.invalid(seen.direction, frame), out);
        }
    }

    fn message(&mut self, seen: Seen, message: &Message<'_>, out: &mut Vec<Output>) {
        if let Some((id, result)) = message.beside {
            self.answer_beside(seen, message, id, result, out);
        }
        if self.stop.is_some_and(|stop| stop.is_refused) {
            return self.say_refused(seen, message, out);
        }
        match &message.kind {
            Kind::Request { id, method, params } => self.request(seen, message, *id, method, *params, out),
            Kind::Notification { method, params } => {
                self.list_changed(seen, method, out);
                if *method == Method::Cancelled {
                    self.cancelled(seen, *params);
                }
                let fingerprint = self.fingerprint(seen, method, *params);
                if !self.passed_on(seen, message, fingerprint, None, out) {
                    self.say_asked(seen.connection, &[seen.connection], seen, message, out);
                }
            }
            Kind::Response { id, .. } | Kind::Error { id, .. } => self.answer(seen, message, id.key(), out),
            Kind::Invalid => self.say_message(seen.connection, seen, message, out),
        }
    }

    /// Says a message that did not reach its server: no answer is waited for.
    fn say_refused(&mut self, seen: Seen, message: &Message<'_>, out: &mut Vec<Output>) {
        self.say_asked(seen.connection, &[seen.connection], seen, message, out);
        if let (Kind::Request { method: Method::ToolsCall, params, .. }, Some(place)) =
            (&message.kind, self.place(seen.connection))
        {
            let call = self.call(seen.connection, *params);
            self.settle_call(&place, &call.tool_name, seen.time);
        }
    }

    fn request(
        &mut self,
        seen: Seen,
        message: &Message<'_>,
        id: Id<'_>,
        method: &Method<'_>,
        params: Option<&RawValue>,
        out: &mut Vec<Output>,
    ) {
        let fingerprint = self.fingerprint(seen, method, params);
        if let Some(fingerprint) = &fingerprint {
            self.find_engine(seen.connection, fingerprint, seen.time);
            self.start_outer(seen.connection, seen.now, out);
        }
        let call = (*method == Method::ToolsCall).then(|| self.call(seen.connection, params));
        let (key, seq) = (id.key(), self.relays.next());
        let limit = self.config.limits.open_requests;
        let Some(connection) = self.connections.get_mut(&seen.connection) else { return };
        let open = Open {
            seq,
            time: seen.time,
            id: self.recorder.id(id),
            asked: asked(method, params, call.as_ref()),
            fingerprint,
            role: Role::Own,
            cancelled: false,
        };
        let requests = connection.requests(seen.direction);
        let (reused, evicted) = requests.insert(key.clone(), open, limit);
        let early = requests.take_early(&key).map(|early| (key.clone(), early));
        self.counters.id_reused += u64::from(reused.is_some());
        self.counters.open_requests_evicted += u64::from(evicted.is_some());
        for open in [reused, evicted].into_iter().flatten() {
            self.let_go(&open);
        }
        if seen.direction == Direction::ClientToServer {
            self.opened(seen.connection, seen.time, out);
        }
        if !self.passed_on(seen, message, fingerprint, Some((key, seq)), out) {
            match &call {
                Some(call) => {
                    self.say_call(seen.connection, &[seen.connection], seen, (message, id, call), out)
                }
                None => self.say_request(seen.connection, seen, message, out),
            }
        }
        if let Some((key, early)) = early {
            self.answer_early(seen, &key, early, out);
        }
    }

    /// Takes an answer that was recorded before its request. While that is held for a relay it waits with it: a relay's
    /// client may be interrupted between its request and the record of that, for longer than all behind it take.
    fn answer_early(&mut self, seen: Seen, key: &IdKey, early: Early, out: &mut Vec<Output>) {
        let Some(connection) = self.connections.get_mut(&seen.connection) else { return };
        let requests = connection.requests(seen.direction);
        if requests.get_mut(key).is_some_and(|open| matches!(open.role, Role::Held(_))) {
            return requests.put_early_back(early);
        }
        let seen =
            Seen { direction: seen.direction.reversed(), time: early.time, bytes: early.bytes, ..seen };
        self.answer_text(seen, &early.raw, out);
    }

    /// The same, once it is known where the request is said.
    pub(super) fn answer_held(
        &mut self,
        id: ConnectionId,
        key: &IdKey,
        now: Timestamp,
        out: &mut Vec<Output>,
    ) {
        let direction = Direction::ClientToServer;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(early) = connection.requests(direction).take_early(key) else { return };
        let seen = Seen { connection: id, direction, time: early.time, bytes: early.bytes, now };
        self.answer_early(seen, key, early, out);
        // Of another connection than the one that is dealt with, perhaps.
        self.book(id, now, out);
    }

    /// What a message says, where it matters.
    fn fingerprint(&self, seen: Seen, method: &Method<'_>, params: Option<&RawValue>) -> Option<Fingerprint> {
        let connection = self.connections.get(&seen.connection)?;
        let matters = connection.outer.is_some()
            || !connection.inners.is_empty()
            || connection.runs_container
            || connection.is_in_container()
            || connection.totals.frames.c2s <= YOUNG_FRAMES;
        let to_server = seen.direction == Direction::ClientToServer;
        (matters && to_server).then(|| relay::of_request(method.as_str(), params.map(RawValue::get)))
    }

    fn answer_text(&mut self, seen: Seen, raw: &str, out: &mut Vec<Output>) {
        let mut scratch = String::new();
        if let Ok(parsed) = protocol::parse(raw.as_bytes(), &mut scratch) {
            for message in &parsed.messages {
                if let Kind::Response { id, .. } | Kind::Error { id, .. } = &message.kind {
                    self.answer(seen, message, id.key(), out);
                }
            }
        }
    }

    fn answer(&mut self, seen: Seen, message: &Message<'_>, key: IdKey, out: &mut Vec<Output>) {
        let asking = seen.direction.reversed();
        let Some(connection) = self.connections.get_mut(&seen.connection) else { return };
        let Some(found) = connection.requests(asking).find(&key) else {
            if matches!(message.kind, Kind::Error { id: Id("null"), .. }) {
                // The request could not be read (JSON-RPC 2.0, section 5): none will come for it.
                self.counters.unmatched_responses += 1;
                return self.say_message(seen.connection, seen, message, out);
            }
            if asking == Direction::ClientToServer {
                self.answer_again(seen, message, &key, out);
            }
            return self.keep_early(seen, message, key, out);
        };
        let held = connection.requests(asking).get_mut(&found).map(|open| open.role);
        if let Some(Role::Held(held)) = held {
            // Answered, so it was not waiting for another.
            self.release(held, out);
        }
        let connection = self.connections.get_mut(&seen.connection);
        let Some(open) = connection.and_then(|connection| connection.requests(asking).remove(&found)) else {
            return;
        };
        self.closed(seen.connection);
        if let (Asked::Initialize(client), Kind::Response { result, .. }) = (&open.asked, &message.kind) {
            // Of a relay and of what is behind it alike: each has a name of its own.
            self.say_of(seen.connection, seen.time, record::initialized(client, result), out);
        }
        let of_mcp = !matches!(open.asked, Asked::Other { .. });
        if of_mcp && asking == Direction::ClientToServer && matches!(message.kind, Kind::Response { .. }) {
            self.has_answered(seen.connection, seen.time, out);
        }
        match open.role {
            Role::Relayed(link) => self.relayed_answer(seen, message, link, &open, out),
            Role::Copy => {}
            Role::Own | Role::Copied | Role::Held(_) => {
                if let Some(place) = self.place(seen.connection) {
                    self.say_answer(place, seen, message, open.answered(), out);
                }
            }
        }
        let connection = self.connections.get_mut(&seen.connection);
        if let Some(connection) = connection.filter(|_| asking == Direction::ClientToServer) {
            connection.requests(asking).keep_answered(found, open);
        }
    }

    /// A message that is something else is an answer as well, to whoever looks for a result first.
    fn answer_beside(
        &mut self,
        seen: Seen,
        message: &Message<'_>,
        id: Id<'_>,
        result: &RawValue,
        out: &mut Vec<Output>,
    ) {
        let key = id.key();
        let connection = self.connections.get_mut(&seen.connection);
        let Some(requests) = connection.map(|connection| connection.requests(seen.direction.reversed()))
        else {
            return;
        };
        let answer = Message { kind: Kind::Response { id, result }, beside: None, ..*message };
        if requests.find(&key).is_some() {
            self.answer(seen, &answer, key, out);
        } else if seen.direction == Direction::ServerToClient {
            self.answer_again(seen, &answer, &key, out);
        }
    }

    /// Another answer to a request that has one. Which of them its client takes is not known: one that came before the
    /// request, or is not quite as it should be, is dropped by many. So this one is judged as well.
    fn answer_again(&mut self, seen: Seen, message: &Message<'_>, key: &IdKey, out: &mut Vec<Output>) {
        let Some(connection) = self.connections.get_mut(&seen.connection) else { return };
        let requests = connection.requests(seen.direction.reversed());
        let Some((key, open)) = requests.take_answered(key) else { return };
        self.counters.repeated_responses += 1;
        if let Some(place) = self.place(seen.connection).filter(|_| open.role != Role::Copy) {
            self.say_answer(place, seen, message, open.answered(), out);
        }
        if let Some(connection) = self.connections.get_mut(&seen.connection) {
            connection.requests(seen.direction.reversed()).keep_answered(key, open);
        }
    }

    /// Keeps an answer until its request comes.
    fn keep_early(&mut self, seen: Seen, message: &Message<'_>, key: IdKey, out: &mut Vec<Output>) {
        let limits = &self.config.limits;
        let until = seen.now.after(limits.early_response_wait);
        let Some(connection) = self.connections.get_mut(&seen.connection) else { return };
        let serving = matches!(connection.stage, Stage::Server);
        let early = Early { key, raw: message.raw.to_owned(), bytes: seen.bytes, time: seen.time, until };
        let requests = connection.requests(seen.direction.reversed());
        if !serving || !requests.keep_early(early, limits.early_responses) {
            self.counters.unmatched_responses += 1;
            return self.say_message(seen.connection, seen, message, out);
        }
        self.counters.early_responses += 1;
        self.due.insert((until, Due::Early(seen.connection, seen.direction)));
    }

    /// Gives up answers whose requests did not come until `now`.
    pub(super) fn give_up_early(
        &mut self,
        id: ConnectionId,
        direction: Direction,
        now: Timestamp,
        out: &mut Vec<Output>,
    ) {
        loop {
            let Some(connection) = self.connections.get_mut(&id) else { return };
            let Some(first) = connection.requests(direction.reversed()).overdue_early(now) else { return };
            self.counters.unmatched_responses += 1;
            let mut scratch = String::new();
            if let Ok(parsed) = protocol::parse(first.raw.as_bytes(), &mut scratch) {
                let seen = Seen { connection: id, direction, time: first.time, bytes: first.bytes, now };
                for message in &parsed.messages {
                    self.say_message(id, seen, message, out);
                }
            }
        }
    }

    /// Says a request or a notification as `target`'s. A call that has no id is a notification by the letter, but there are
    /// servers that run it: it is judged as any other, and no answer is waited for.
    pub(super) fn say_asked(
        &mut self,
        target: ConnectionId,
        over: &[ConnectionId],
        seen: Seen,
        message: &Message<'_>,
        out: &mut Vec<Output>,
    ) {
        let (id, params) = match &message.kind {
            Kind::Request { id, method: Method::ToolsCall, params } => (*id, *params),
            Kind::Notification { method: Method::ToolsCall, params } => (Id("null"), *params),
            Kind::Request { .. } => return self.say_request(target, seen, message, out),
            _ => {
                self.say_repeated(target, seen.time, message, out);
                return self.say_message(target, seen, message, out);
            }
        };
        let call = self.call(target, params);
        self.say_call(target, over, seen, (message, id, &call), out);
        if let (Kind::Notification { .. }, Some(place)) = (&message.kind, self.place(target)) {
            self.settle_call(&place, &call.tool_name, seen.time);
        }
    }

    /// Says a request that is no call as `target`'s.
    fn say_request(
        &mut self,
        target: ConnectionId,
        seen: Seen,
        message: &Message<'_>,
        out: &mut Vec<Output>,
    ) {
        let recorded = self.judge_request(target, seen.time, message, out);
        self.say_repeated(target, seen.time, message, out);
        self.say_recorded(target, seen, (message, &recorded), out);
    }

    /// The call that these params ask for. The name is shared with what is known of the tool.
    pub(super) fn call<'a>(&self, connection: ConnectionId, params: Option<&'a RawValue>) -> Call<'a> {
        let json = params.map_or("null", RawValue::get);
        let ([name, arguments], repeated) = members_once(json, ["name", "arguments"]);
        let name = string(name);
        let connection = self.connections.get(&connection);
        let known = connection.and_then(|connection| connection.tool(&name));
        let tool_name = known.map_or_else(|| bounded_name(&name).into(), |known| Arc::clone(&known.name));
        Call { tool_name, params, arguments, repeated }
    }

    /// Says a call as `target`'s, what guards say of it, and what was found in its arguments. It is counted for every
    /// connection it went over.
    pub(super) fn say_call(
        &mut self,
        target: ConnectionId,
        over: &[ConnectionId],
        seen: Seen,
        (message, id, call): (&Message<'_>, Id<'_>, &Call<'_>),
        out: &mut Vec<Output>,
    ) {
        self.counters.calls += 1;
        for id in over {
            if let Some(connection) = self.connections.get_mut(id) {
                connection.totals.calls += 1;
            }
        }
        let Some(place) = self.place(target) else { return };
        let (place, time, id) = (&place, seen.time, self.recorder.id(id));
        let found = self.inspect_call(message, call);
        let mut judged = self.judge_call(place, time, call);
        judged.find_in_arguments(&Detection::rules(self.alerts(&found)));
        let mut called = self.recorder.called(id.clone(), call, &judged.recorded, &place.server);
        called.detections.clone_from(&found.detections);
        judged.write(&mut called.decided);
        let connection = self.connections.get(&place.connection);
        if let Some(known) = connection.and_then(|connection| connection.tool(&call.tool_name)) {
            called.category = known.category;
            called.tool_hash = Some(Arc::clone(&known.hash));
            called.tool_detections =
                Detection::rules(&known.detections).into_iter().map(str::to_owned).collect();
        } else {
            // As the rules across servers see it: by its name.
            called.category = self.judge.category(&place.server, &call.tool_name);
        }
        self.say(place.clone(), time, called, out);
        self.say_cross_server(place, time, &call.tool_name, &judged, out);
        let about = About {
            tool_name: Some(Arc::clone(&call.tool_name)),
            id: Some(id),
            action: judged.action,
            ..About::of(Subject::Arguments)
        };
        self.say_found(place, time, &about, &found, out);
        if let Some((guard, denial)) = judged.denied.as_ref().filter(|(_, denial)| denial.awaits_approval()) {
            self.request_approval(place, time, &call.tool_name, (*guard, denial), out);
        }
    }

    /// Says a message that no guard was asked about.
    pub(super) fn say_message(
        &mut self,
        target: ConnectionId,
        seen: Seen,
        message: &Message<'_>,
        out: &mut Vec<Output>,
    ) {
        self.say_recorded(target, seen, (message, &Recorded::default()), out);
    }

    fn say_recorded(
        &mut self,
        target: ConnectionId,
        seen: Seen,
        message: (&Message<'_>, &Recorded),
        out: &mut Vec<Output>,
    ) {
        if self.config.verbose {
            let message = self.recorder.message(seen.direction, message, seen.bytes, None, None);
            self.say_of(target, seen.time, message, out);
        }
    }

    /// Whether a definition was said of this connection; it is then.
    pub(super) fn said_before(&mut self, id: ConnectionId, name: &str, hash: &str) -> bool {
        let limit = self.config.limits.tools;
        let Some(connection) = self.connections.get_mut(&id) else { return false };
        !is_new(connection, name, hash, limit, &mut self.counters.tools_overflow)
    }
}

/// Whether a tool was not said of this connection; it is then.
fn is_new(connection: &mut Connection, name: &str, hash: &str, limit: usize, overflow: &mut u64) -> bool {
    let mut digest = [0; 16];
    let whole = Sha256::new().chain_update(hash.as_bytes()).chain_update(name.as_bytes()).finalize();
    for (slot, byte) in digest.iter_mut().zip(whole) {
        *slot = byte;
    }
    if connection.said.contains(&digest) {
        return false;
    }
    if connection.said.len() < limit {
        connection.said.insert(digest);
    } else {
        *overflow += 1;
    }
    true
}
