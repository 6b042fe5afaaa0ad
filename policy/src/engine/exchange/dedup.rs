//! Messages that a relay passes on: held, matched, reported once (see [`super::relays`] for the rules).

use serde_json::Value;

use super::relays::{Held, Hop};
use super::{Connections, Context, Due, Evaluator, Exchange, Seen};
use crate::engine::asked::{Answered, Asked};
use crate::engine::fingerprint::{self, Fingerprint};
use crate::engine::ids::{HeldId, LinkId};
use crate::engine::pairing::{Link, Open, Role};
use crate::engine::rounds::Attempt;
use crate::event::Trace;
use crate::protocol::{self, IdKey, Message};
use crate::terms::{ConnectionId, Direction};

impl Exchange {
    /// Deals with a message that is, or may become, one of several copies. Whether it needs no more reporting now.
    pub(super) fn passed_on(
        &mut self,
        ev: &mut Evaluator,
        cx: &mut Context<'_>,
        seen: Seen<'_>,
        message: &Message<'_>,
        fingerprint: Option<Fingerprint>,
        request: Option<(IdKey, u64)>,
    ) -> bool {
        let (Some(fingerprint), None) = (fingerprint, seen.stop) else { return false };
        let id = seen.connection;
        let outer = cx.connections.direct_outer(id).map(|outer| outer.id);
        let has_inners = cx.connections.has_inners(id, seen.time);
        if outer.is_none() && !has_inners {
            return false;
        }
        let hop = Hop { connection: id, request };
        if let Some(outer) = outer {
            let ends_there = |held: &Held| held.path.last().is_some_and(|hop| hop.connection == outer);
            if let Some(held) = self.relays.find(&fingerprint, ends_there) {
                mark(cx.connections, &hop, Role::Held(held));
                if let Some(held) = self.relays.get_mut(held) {
                    held.path.push(hop);
                }
                if !has_inners {
                    self.release(ev, cx, held);
                }
                return true;
            }
            // Reported as the relay's own a moment ago: then this is the same, late.
            let reported = hop.request.is_some().then(|| cx.connections.get_mut(outer)).flatten();
            let since = seen.time.before(cx.config.limits.relay_late);
            if let Some(open) =
                reported.and_then(|outer| outer.requests(seen.direction).own_like(&fingerprint, since))
            {
                open.role = Role::Copied;
                cx.reporter.counters.relayed_requests += 1;
                mark(cx.connections, &hop, Role::Copy);
                return true;
            }
        }
        // The copy may have been recorded a moment before the original.
        let begins_behind = |held: &Held| {
            let first = held.path.first().and_then(|hop| cx.connections.get(hop.connection));
            first.is_some_and(|first| first.outer == Some(id))
        };
        if let Some(held) = self.relays.find(&fingerprint, begins_behind) {
            mark(cx.connections, &hop, Role::Held(held));
            let (trace, ahead) = (cx.reporter.trace.clone(), cx.ahead.clone());
            self.relays.put_in_front(held, (hop, message.raw), seen, trace, ahead);
            if outer.is_none() {
                self.release(ev, cx, held);
            }
            return true;
        }
        let limits = &cx.config.limits;
        let full = self.relays.count() >= limits.held_requests
            || self.relays.bytes() + message.raw.len() > limits.held_bytes;
        if full {
            cx.reporter.counters.held_overflow += 1;
            return false;
        }
        let until = seen.now.after(limits.relay_hold);
        let held = Held {
            fingerprint,
            path: vec![hop.clone()],
            raw: message.raw.to_owned(),
            bytes: seen.bytes,
            time: seen.time,
            trace: cx.reporter.trace.clone(),
            turn: seen.turn.map(Into::into),
            ahead: cx.ahead.clone(),
        };
        let held = self.relays.hold(held);
        mark(cx.connections, &hop, Role::Held(held));
        cx.timers.set(until, Due::Held(held));
        true
    }

    /// Reports a held message: as the innermost connection's, with the relays it came through.
    pub(in crate::engine) fn release(&mut self, ev: &mut Evaluator, cx: &mut Context<'_>, id: HeldId) {
        let Some(held) = self.relays.take(id) else { return };
        cx.ahead(held.ahead.clone(), |cx| {
            cx.traced(held.trace.clone(), |cx| self.report_held(ev, cx, &held))
        });
    }

    fn report_held(&mut self, ev: &mut Evaluator, cx: &mut Context<'_>, held: &Held) {
        let Some(target) = held.path.last().map(|hop| hop.connection) else { return };
        let over: Vec<ConnectionId> = held.path.iter().map(|hop| hop.connection).collect();
        if let [hop] = held.path.as_slice() {
            mark(cx.connections, hop, Role::Own);
        } else {
            cx.reporter.counters.relayed_requests += 1;
            self.link(cx.connections, held, target);
        }
        let text = held.raw.as_str();
        let mut scratch = String::new();
        let Ok(parsed) = protocol::parse(text.as_bytes(), &mut scratch) else { return };
        let seen = Seen::new(target, Direction::ClientToServer, held.bytes, held.time, held.time);
        let seen = Seen { turn: held.turn.as_deref(), ..seen };
        for message in &parsed.messages {
            let attempt = ev.report_sent(cx, target, &over, seen, message);
            self.set_attempt(cx.connections, held, attempt);
        }
        for hop in &held.path {
            if let Some((key, _)) = &hop.request {
                self.answer_held(ev, cx, hop.connection, key, held.time);
            }
        }
    }

    /// Notes which of several tries a held request was.
    fn set_attempt(&mut self, connections: &mut Connections, held: &Held, attempt: Attempt) {
        let Some((hop, (key, seq))) = held.path.first().and_then(|hop| Some((hop, hop.request.as_ref()?)))
        else {
            return;
        };
        let Some(connection) = connections.get_mut(hop.connection) else { return };
        let requests = connection.requests(Direction::ClientToServer);
        // The relay may answer otherwise than what is behind it: then its answer goes on by itself.
        requests.set_attempt(key, *seq, attempt.clone());
        let role = requests.get_mut(key).filter(|open| open.seq == *seq).map(|open| open.role);
        if let Some(Role::Relayed(link)) = role
            && let Some(link) = self.relays.links.get_mut(&link)
        {
            link.attempt = attempt;
        }
    }

    /// Ties the requests of one held message together, so that their answers are reported once.
    fn link(&mut self, connections: &mut Connections, held: &Held, target: ConnectionId) {
        let Some(scope) = connections.scope(target) else { return };
        let link = LinkId(self.relays.next());
        let mut first: Option<(Value, Asked, Trace)> = None;
        let mut remaining = 0;
        for hop in &held.path {
            if let Some(open) = mark(connections, hop, Role::Relayed(link)) {
                remaining += 1;
                if first.is_none() {
                    first = Some((open.id.clone(), open.asked.clone(), open.trace.clone()));
                }
            }
        }
        if let Some((id, asked, trace)) = first {
            let attempt = Attempt::default();
            let link_of = Link { scope, id, time: held.time, asked, attempt, trace, remaining, answer: None };
            self.relays.links.insert(link, link_of);
        }
    }

    pub(super) fn relayed_answer(
        &mut self,
        ev: &mut Evaluator,
        cx: &mut Context<'_>,
        seen: Seen<'_>,
        message: &Message<'_>,
        id: LinkId,
        open: &Open,
    ) {
        let fingerprint = fingerprint::of_answer(message);
        let first = match self.relays.links.get_mut(&id) {
            Some(link) if link.answer.is_none() => {
                link.answer = Some(fingerprint);
                let (attempt, trace) = (link.attempt.clone(), link.trace.clone());
                Some((link.scope.clone(), link.asked.clone(), link.id.clone(), link.time, attempt, trace))
            }
            // The relay passed on what it got.
            Some(link) if link.answer == Some(fingerprint) => return self.relays.let_go(id),
            _ => None,
        };
        self.relays.let_go(id);
        match first {
            Some((scope, asked, id, time, attempt, trace)) => {
                let to = Answered { asked: &asked, id: &id, time, attempt: &attempt };
                cx.traced(trace, |cx| ev.report_answer(cx, &scope, seen, message, to));
            }
            // It made something else of it, and that is what the client got.
            None => {
                if let Some(scope) = cx.connections.scope(seen.connection) {
                    ev.report_answer(cx, &scope, seen, message, open.answered());
                }
            }
        }
    }
}

/// Notes at an open request where it is reported.
fn mark<'c>(connections: &'c mut Connections, hop: &Hop, role: Role) -> Option<&'c Open> {
    let (key, seq) = hop.request.as_ref()?;
    let connection = connections.get_mut(hop.connection)?;
    let open = connection.requests(Direction::ClientToServer).get_mut(key).filter(|open| open.seq == *seq)?;
    open.role = role;
    Some(open)
}
