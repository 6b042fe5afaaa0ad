//! Messages of servers: requests are paired with their answers, copies that relays pass on are found, and each is handed
//! to the evaluator once.

mod dedup;
pub(super) mod eras;
mod relays;
pub(super) mod timeouts;

use serde_json::value::RawValue;

use super::asked::Asked;
use super::config::Counters;
use super::connection::{Connection, Stage};
use super::connections::Connections;
use super::context::Context;
use super::conversation::Spoken;
use super::evaluator::Evaluator;
use super::fingerprint::{self, Fingerprint};
use super::pairing::{AnswerSeen, Early, Open, Pairing, Role};
use super::recorder::{Call, asked};
use super::remote;
use super::rounds::Attempt;
use super::seen::{Earlier, Reading, Seen};
use super::timers::Due;
use crate::event::Trace;
use crate::protocol::{self, Id, IdKey, Kind, Message, Method, Respelled};
use crate::terms::{ConnectionId, Direction, Timestamp};
use relays::Relays;

/// Of a young connection requests are remembered by what they say, in case a relay behind it starts only then.
const YOUNG_FRAMES: u64 = 16;

/// What is between the messages of all connections.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    relays: Relays,
    /// Connections with requests that were answered while another connection's message was at hand: what they keep has
    /// changed.
    touched: Vec<ConnectionId>,
    /// The request that a reader has taken the message at hand for: where, its id and its number.
    taken_for: Option<(ConnectionId, IdKey, u64)>,
}

impl Exchange {
    /// Another message is read than that before.
    pub(super) fn begin_message(&mut self) {
        self.taken_for = None;
    }

    /// Takes a message of a server, `fingerprint` of those that a relay may pass on.
    pub(super) fn message(
        &mut self,
        ev: &mut Evaluator,
        cx: &mut Context<'_>,
        seen: Seen<'_>,
        message: &Message<'_>,
        fingerprint: Option<Fingerprint>,
    ) {
        match &message.kind {
            Kind::Request { id, method, params } => {
                self.request(ev, cx, seen, (message, *id, method, *params), fingerprint);
            }
            Kind::Notification { method, params } => {
                ev.list_changed(cx, seen, method);
                if *method == Method::Cancelled {
                    timeouts::cancelled(ev, cx, seen, *params);
                }
                if !self.passed_on(ev, cx, seen, message, fingerprint, None) {
                    ev.report_sent(cx, seen.connection, &[seen.connection], seen, message);
                }
            }
            Kind::Response { id, .. } | Kind::Error { id, .. } => {
                self.answer(ev, cx, seen, message, id.key())
            }
            Kind::Invalid => cx.report_message(seen.connection, seen, message),
        }
    }

    fn request(
        &mut self,
        ev: &mut Evaluator,
        cx: &mut Context<'_>,
        seen: Seen<'_>,
        (message, id, method, params): (&Message<'_>, Id<'_>, &Method<'_>, Option<&RawValue>),
        fingerprint: Option<Fingerprint>,
    ) {
        let call = (*method == Method::ToolsCall).then(|| cx.call(seen.connection, params));
        let (key, seq) = (id.key(), self.relays.next());
        let limit = cx.config.limits.open_requests;
        let Some(connection) = cx.connections.get_mut(seen.connection) else { return };
        let is_asked = seen.direction == Direction::ClientToServer;
        let spoken =
            if is_asked { connection.conversation.spoken(method, params) } else { Spoken::default() };
        let open = Open {
            seq,
            time: seen.time,
            id: cx.reporter.recorder.id(id),
            asked: asked(method, params, call.as_ref()),
            spoken,
            trace: cx.reporter.trace.clone(),
            fingerprint,
            role: Role::Own,
            attempt: Attempt::default(),
            is_standing: *method == Method::SubscriptionsListen
                && seen.direction == Direction::ClientToServer,
            cancelled: false,
            answer: None,
            others: Vec::new(),
        };
        let requests = connection.requests(seen.direction);
        let same = self.taken_for.as_ref().filter(|(of, id, _)| (*of, id) == (seen.connection, &key));
        if let Some((.., first)) = same.filter(|_| seen.reading.is_other) {
            let first = *first;
            // What a relay passes on its server is asked, as the relay has read it.
            let is_passed_on = |open: &mut Open| matches!(open.role, Role::Copy | Role::Relayed(_));
            if requests.get_mut(&key).is_some_and(is_passed_on) {
                return;
            }
            let attempt = reported(ev, cx, seen, (message, id), call.as_ref());
            if let Some(connection) = cx.connections.get_mut(seen.connection) {
                connection.requests(seen.direction).add_other(&key, first, Open { attempt, ..open });
            }
            return;
        }
        self.taken_for = Some((seen.connection, key.clone(), seq));
        let (reused, evicted) = requests.insert(key.clone(), open, limit);
        let early = requests.take_early(&key).map(|early| (key.clone(), early));
        cx.reporter.counters.id_reused += u64::from(reused.is_some());
        cx.reporter.counters.open_requests_evicted += u64::from(evicted.is_some());
        for open in [reused, evicted].into_iter().flatten() {
            self.let_go(&open);
        }
        if seen.direction == Direction::ClientToServer {
            timeouts::opened(ev, cx, seen.connection, seen.time);
        }
        if !self.passed_on(ev, cx, seen, message, fingerprint, Some((key.clone(), seq))) {
            let attempt = reported(ev, cx, seen, (message, id), call.as_ref());
            if let Some(connection) = cx.connections.get_mut(seen.connection) {
                connection.requests(seen.direction).set_attempt(&key, seq, attempt);
            }
        }
        if let Some((key, early)) = early {
            self.answer_early(ev, cx, seen, &key, early);
        }
    }

    /// Takes an answer that was recorded before its request. While that is held for a relay it waits with it: a relay's
    /// client may be interrupted between its request and the record of that, for longer than all behind it take.
    fn answer_early(
        &mut self,
        ev: &mut Evaluator,
        cx: &mut Context<'_>,
        seen: Seen<'_>,
        key: &IdKey,
        early: Early,
    ) {
        let Some(connection) = cx.connections.get_mut(seen.connection) else { return };
        let requests = connection.requests(seen.direction);
        if requests.get_mut(key).is_some_and(|open| matches!(open.role, Role::Held(_))) {
            return requests.put_early_back(early);
        }
        let seen =
            Seen { direction: seen.direction.reversed(), time: early.time, bytes: early.bytes, ..seen };
        cx.ahead(early.ahead, |cx| self.answer_text(ev, cx, seen, &early.raw));
    }

    /// The same, once it is known where the request is reported.
    pub(super) fn answer_held(
        &mut self,
        ev: &mut Evaluator,
        cx: &mut Context<'_>,
        id: ConnectionId,
        key: &IdKey,
        now: Timestamp,
    ) {
        let direction = Direction::ClientToServer;
        let Some(connection) = cx.connections.get_mut(id) else { return };
        let Some(early) = connection.requests(direction).take_early(key) else { return };
        let seen = Seen::new(id, direction, early.bytes, early.time, now);
        self.answer_early(ev, cx, seen, key, early);
        // Of another connection than the one that is dealt with, perhaps.
        self.touched.push(id);
    }

    fn answer_text(&mut self, ev: &mut Evaluator, cx: &mut Context<'_>, seen: Seen<'_>, raw: &str) {
        let mut scratch = String::new();
        if let Ok(parsed) = protocol::parse(raw.as_bytes(), &mut scratch) {
            for message in &parsed.messages {
                let respelled = Respelled::of_message(message.raw);
                let respelled = respelled.as_ref().and_then(|respelled| respelled.result());
                // Many clients take no answer to what they have not asked yet.
                let seen =
                    Seen { reading: Reading { is_irregular: true, respelled, ..seen.reading }, ..seen };
                if let Kind::Response { id, .. } | Kind::Error { id, .. } = &message.kind {
                    self.answer(ev, cx, seen, message, id.key());
                }
            }
        }
    }

    fn answer(
        &mut self,
        ev: &mut Evaluator,
        cx: &mut Context<'_>,
        seen: Seen<'_>,
        message: &Message<'_>,
        key: IdKey,
    ) {
        let asking = seen.direction.reversed();
        let Some(connection) = cx.connections.get_mut(seen.connection) else { return };
        let Some(found) = connection.requests(asking).find(&key) else {
            if matches!(message.kind, Kind::Error { id: Id("null"), .. }) {
                // The request could not be read (JSON-RPC 2.0, section 5): none will come for it.
                cx.reporter.counters.unmatched_responses += 1;
                ev.search_unmatched(cx, seen, message);
                return cx.report_message(seen.connection, seen, message);
            }
            let is_told_again = asking == Direction::ClientToServer || seen.reading.is_other;
            let is_again = is_told_again && self.answer_again(ev, cx, seen, message, &key);
            return self.keep_early(ev, cx, seen, message, (key, is_again));
        };
        let held = connection.requests(asking).get_mut(&found).map(|open| open.role);
        if let Some(Role::Held(held)) = held {
            // Answered, so it was not waiting for another.
            self.release(ev, cx, held);
        }
        let connection = cx.connections.get_mut(seen.connection);
        let open = connection.and_then(|connection| connection.requests(asking).remove(&found));
        let Some(mut open) = open else { return };
        open.answer = Some(AnswerSeen::of(message, found == key, seen.reading));
        timeouts::closed(ev, cx.connections, seen.connection);
        if let (Direction::ClientToServer, Kind::Response { result, .. }) = (asking, &message.kind) {
            eras::answered(ev, cx, seen, (message, result), &open);
        }
        let of_mcp = !matches!(open.asked, Asked::Other { .. });
        if of_mcp && asking == Direction::ClientToServer && matches!(message.kind, Kind::Response { .. }) {
            remote::has_answered(cx.connections, &mut cx.reporter, seen.connection, seen.time);
        }
        match open.role {
            Role::Relayed(link) => self.relayed_answer(ev, cx, seen, message, link, &open),
            Role::Copy => {}
            Role::Own | Role::Copied | Role::Held(_) => {
                if let Some(scope) = cx.connections.scope(seen.connection) {
                    for read in open.every_reading() {
                        ev.report_answer(cx, &scope, seen, message, read.answered());
                    }
                }
            }
        }
        if let Some(connection) = cx.connections.get_mut(seen.connection) {
            connection.requests(asking).keep_answered(found, open);
        }
    }

    /// A message that is something else is an answer as well, to whoever looks for a result first.
    pub(super) fn answer_beside(
        &mut self,
        ev: &mut Evaluator,
        cx: &mut Context<'_>,
        seen: Seen<'_>,
        message: &Message<'_>,
    ) {
        let Some((id, result)) = message.beside else { return };
        let key = id.key();
        let connection = cx.connections.get_mut(seen.connection);
        let Some(requests) = connection.map(|connection| connection.requests(seen.direction.reversed()))
        else {
            return;
        };
        let answer = Message { kind: Kind::Response { id, result }, beside: None, ..*message };
        if requests.find(&key).is_some() {
            self.answer(ev, cx, seen, &answer, key);
        } else if seen.direction == Direction::ServerToClient {
            self.answer_again(ev, cx, seen, &answer, &key);
        }
    }

    /// Another answer to a request that has one, if it is that. The client has taken the first if that is as it should be, and what this one
    /// says is no more than inspected. One that came before the request, or is not quite as it should be, is dropped by many: then
    /// this one is evaluated as well.
    fn answer_again(
        &mut self,
        ev: &mut Evaluator,
        cx: &mut Context<'_>,
        seen: Seen<'_>,
        message: &Message<'_>,
        key: &IdKey,
    ) -> bool {
        let Some(connection) = cx.connections.get_mut(seen.connection) else { return false };
        let requests = connection.requests(seen.direction.reversed());
        let Some((key, open)) = requests.take_answered(key) else { return false };
        cx.reporter.counters.repeated_responses += u64::from(!seen.reading.is_other);
        let answer = AnswerSeen::of(message, true, seen.reading);
        let is_taken = open.answer.is_some_and(|first| first.is_taken);
        let earlier = if is_taken { Earlier::Taken } else { Earlier::Uncertain };
        let seen = Seen { reading: Reading { earlier, ..seen.reading }, ..seen };
        if is_taken && open.answer.is_some_and(|first| first.digest == answer.digest) {
            // The same again, as a stream over HTTP that is resumed has it.
        } else if let Some(scope) = cx.connections.scope(seen.connection).filter(|_| open.role != Role::Copy)
        {
            for read in open.every_reading() {
                ev.report_answer(cx, &scope, seen, message, read.answered());
            }
        }
        if let Some(connection) = cx.connections.get_mut(seen.connection) {
            connection.requests(seen.direction.reversed()).keep_answered(key, open);
        }
        true
    }

    /// Keeps an answer until its request comes. `is_again`: it was inspected, as another answer to an earlier request.
    fn keep_early(
        &mut self,
        ev: &mut Evaluator,
        cx: &mut Context<'_>,
        seen: Seen<'_>,
        message: &Message<'_>,
        (key, is_again): (IdKey, bool),
    ) {
        let limits = &cx.config.limits;
        let until = seen.now.after(limits.early_response_wait);
        let Some(connection) = cx.connections.get_mut(seen.connection) else { return };
        let serving = matches!(connection.stage, Stage::Server);
        let (raw, ahead) = (message.raw.to_owned(), cx.ahead.clone());
        // Nothing is inspected, so nothing waits for that.
        let is_again = is_again || cx.config.inspection.is_none();
        let early = Early { key, raw, bytes: seen.bytes, time: seen.time, until, ahead, is_again };
        let requests = connection.requests(seen.direction.reversed());
        if !serving || !requests.keep_early(early, limits.early_responses) {
            cx.reporter.counters.unmatched_responses += 1;
            if !is_again {
                ev.search_unmatched(cx, seen, message);
            }
            return cx.report_message(seen.connection, seen, message);
        }
        cx.reporter.counters.early_responses += 1;
        cx.timers.set(until, Due::Early(seen.connection, seen.direction));
        loop {
            let Some(connection) = cx.connections.get_mut(seen.connection) else { return };
            let Some(first) = connection.requests(seen.direction.reversed()).crowded_early() else { return };
            let of_first = Seen::new(seen.connection, seen.direction, first.bytes, first.time, seen.now);
            cx.traced(Trace::default(), |cx| give_up(ev, cx, of_first, &first));
        }
    }

    /// Gives up answers whose requests did not come until `now`.
    pub(super) fn give_up_early(
        &mut self,
        ev: &mut Evaluator,
        cx: &mut Context<'_>,
        id: ConnectionId,
        direction: Direction,
        now: Timestamp,
    ) {
        loop {
            let Some(connection) = cx.connections.get_mut(id) else { return };
            let Some(first) = connection.requests(direction.reversed()).overdue_early(now) else { return };
            give_up(ev, cx, Seen::new(id, direction, first.bytes, first.time, now), &first);
        }
    }

    /// A connection gives up half of the requests that are open, and all else that it can do without.
    pub(super) fn shed(&mut self, connections: &mut Connections, counters: &mut Counters, id: ConnectionId) {
        let Some(connection) = connections.get_mut(id) else { return };
        connection.shed(counters);
        let mut evicted: Vec<Open> = Vec::new();
        for direction in [Direction::ClientToServer, Direction::ServerToClient] {
            let requests = connection.requests(direction);
            requests.forget_answered();
            let half = requests.len().div_ceil(2);
            evicted.extend((0..half).map_while(|_| requests.evict_oldest()));
        }
        counters.open_requests_evicted += evicted.len() as u64;
        evicted.iter().for_each(|open| self.let_go(open));
    }

    /// A connection was forgotten.
    pub(super) fn forget(&mut self, connection: &mut Connection) {
        for open in connection.take_pairings().into_iter().flat_map(Pairing::into_open) {
            self.let_go(&open);
        }
        for held in self.relays.over(connection.id) {
            // Nothing is held of a candidate, and of a server it was reported by now; this keeps the books.
            self.relays.take(held);
        }
    }

    /// Reports what is held of a connection.
    pub(super) fn release_all(&mut self, ev: &mut Evaluator, cx: &mut Context<'_>, id: ConnectionId) {
        for held in self.relays.over(id) {
            self.release(ev, cx, held);
        }
    }

    /// Takes a connection of which the kept bytes have changed, besides the one that is dealt with.
    pub(super) fn next_touched(&mut self) -> Option<ConnectionId> {
        self.touched.pop()
    }

    /// A request is open no more: neither is its part of a link.
    fn let_go(&mut self, open: &Open) {
        if let Role::Relayed(link) = open.role {
            self.relays.let_go(link);
        }
    }

    #[cfg(test)]
    pub(super) fn relays(&self) -> &Relays {
        &self.relays
    }
}

/// What a request or a notification says, where a relay may pass it on.
pub(super) fn fingerprint(
    connections: &Connections,
    seen: Seen<'_>,
    message: &Message<'_>,
) -> Option<Fingerprint> {
    let (Kind::Request { method, params, .. } | Kind::Notification { method, params }) = &message.kind else {
        return None;
    };
    let connection = connections.get(seen.connection)?;
    let matters = connection.outer.is_some()
        || !connection.inners.is_empty()
        || connection.runs_container
        || connection.is_in_container()
        || connection.totals.frames.c2s <= YOUNG_FRAMES;
    let to_server = seen.direction == Direction::ClientToServer;
    (matters && to_server).then(|| fingerprint::of_request(method.as_str(), params.map(RawValue::get)))
}

/// Whether a connection was asked the same since then, which is the first thing that it was asked, or said as its own.
pub(super) fn asked_the_same(relay: &mut Connection, fingerprint: &Fingerprint, since: Timestamp) -> bool {
    match relay.first_words() {
        Some(words) => relay.since >= since && fingerprint::of_frame(words).as_ref() == Some(fingerprint),
        None => relay.requests(Direction::ClientToServer).own_like(fingerprint, since).is_some(),
    }
}

/// Takes an answer whose request did not come for one to nothing.
fn give_up(ev: &mut Evaluator, cx: &mut Context<'_>, seen: Seen<'_>, early: &Early) {
    cx.reporter.counters.unmatched_responses += 1;
    let mut scratch = String::new();
    let Ok(parsed) = protocol::parse(early.raw.as_bytes(), &mut scratch) else { return };
    for message in &parsed.messages {
        if !early.is_again {
            cx.ahead(early.ahead.clone(), |cx| ev.search_unmatched(cx, seen, message));
        }
        cx.report_message(seen.connection, seen, message);
    }
}

/// Reports a request as this connection's own, which is a call where there is one. Which of several tries it is.
fn reported(
    ev: &mut Evaluator,
    cx: &mut Context<'_>,
    seen: Seen<'_>,
    (message, id): (&Message<'_>, Id<'_>),
    call: Option<&Call<'_>>,
) -> Attempt {
    match call {
        Some(call) => ev.report_call(cx, seen.connection, &[seen.connection], seen, (message, id, call)),
        None => ev.report_request(cx, seen.connection, seen, message),
    }
}
