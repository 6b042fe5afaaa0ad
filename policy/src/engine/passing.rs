//! Messages that a relay passes on: held, matched, said once (see [`super::relay`] for the rules).

use std::time::Duration;

use serde_json::Value;

use super::connection::{Connection, Stage};
use super::io::Output;
use super::pairing::{Answered, Asked, Open, Role};
use super::relay::{self, Fingerprint, Held, HeldId, Hop, Link, LinkId};
use super::traffic::Seen;
use super::{Due, Engine};
use crate::protocol::{self, IdKey, Message};
use crate::terms::{ConnectionId, Direction, Timestamp};

/// Within which a server that a relay starts is asked something.
const FIRST_WORDS: Duration = Duration::from_secs(1);

impl Engine {
    /// Deals with a message that is, or may become, one of several copies. Whether it needs no more saying now.
    pub(super) fn passed_on(
        &mut self,
        seen: Seen,
        message: &Message<'_>,
        fingerprint: Option<Fingerprint>,
        request: Option<(IdKey, u64)>,
        out: &mut Vec<Output>,
    ) -> bool {
        let (Some(fingerprint), None) = (fingerprint, self.stop) else { return false };
        let id = seen.connection;
        let outer = self.direct_outer(id).map(|outer| outer.id);
        let has_inners = self.has_inners(id, seen.time);
        if outer.is_none() && !has_inners {
            return false;
        }
        let hop = Hop { connection: id, request };
        if let Some(outer) = outer {
            let ends_there = |held: &Held| held.path.last().is_some_and(|hop| hop.connection == outer);
            if let Some(held) = self.relays.find(&fingerprint, ends_there) {
                self.mark(&hop, Role::Held(held));
                if let Some(held) = self.relays.get_mut(held) {
                    held.path.push(hop);
                }
                if !has_inners {
                    self.release(held, out);
                }
                return true;
            }
            // Said as the relay's own a moment ago: then this is the same, late.
            let said = hop.request.is_some().then(|| self.connections.get_mut(&outer)).flatten();
            let since = seen.time.before(self.config.limits.relay_late);
            if let Some(open) =
                said.and_then(|said| said.requests(seen.direction).own_like(&fingerprint, since))
            {
                open.role = Role::Copied;
                self.counters.relayed_requests += 1;
                self.mark(&hop, Role::Copy);
                return true;
            }
        }
        // The copy may have been recorded a moment before the original.
        let begins_behind = |held: &Held| {
            let first = held.path.first().and_then(|hop| self.connections.get(&hop.connection));
            first.is_some_and(|first| first.outer == Some(id))
        };
        if let Some(held) = self.relays.find(&fingerprint, begins_behind) {
            self.mark(&hop, Role::Held(held));
            self.relays.put_in_front(held, hop, message.raw, seen.bytes, seen.time);
            if outer.is_none() {
                self.release(held, out);
            }
            return true;
        }
        let limits = &self.config.limits;
        let full = self.relays.count() >= limits.held_requests
            || self.relays.bytes() + message.raw.len() > limits.held_bytes;
        if full {
            self.counters.held_overflow += 1;
            return false;
        }
        let until = seen.now.after(limits.relay_hold);
        let held = Held {
            fingerprint,
            path: vec![hop.clone()],
            raw: message.raw.to_owned(),
            bytes: seen.bytes,
            time: seen.time,
        };
        let held = self.relays.hold(held);
        self.mark(&hop, Role::Held(held));
        self.due.insert((until, Due::Held(held)));
        true
    }

    /// Finds the relay of a server that runs in a container: no process of the one is a child of the other's, since
    /// the engine's daemon is between them. It is a command that has an engine run something, has nothing behind it
    /// yet, and was asked the same a moment ago; of several, the first.
    pub(super) fn find_engine(&mut self, id: ConnectionId, fingerprint: &Fingerprint, time: Timestamp) {
        let inner = self.connections.get(&id);
        if !inner.is_some_and(|inner| inner.outer.is_none() && inner.is_in_container()) {
            return;
        }
        let since = time.before(self.config.limits.relay_late);
        let asked_the_same = |relay: &mut Connection| match relay.first_words() {
            Some(words) => relay.since >= since && relay::of_frame(words).as_ref() == Some(fingerprint),
            None => relay.requests(Direction::ClientToServer).own_like(fingerprint, since).is_some(),
        };
        let relay = self
            .connections
            .values_mut()
            .filter(|relay| relay.runs_container && relay.inners.is_empty() && relay.id != id)
            .filter_map(|relay| asked_the_same(relay).then_some((relay.since, relay.id)))
            .min();
        if let Some((_, relay)) = relay {
            self.link_relay(id, relay);
        }
    }

    /// Whether something behind this connection may get what is passed on. What is no server by name and was asked
    /// nothing for a while is some other child of the server's (`git cat-file --batch`), and nobody waits for it.
    fn has_inners(&self, id: ConnectionId, time: Timestamp) -> bool {
        let inners = self.connections.get(&id).map_or(&[][..], |connection| &connection.inners);
        inners.iter().filter_map(|inner| self.connections.get(inner)).any(|inner| match inner.stage {
            Stage::Candidate { .. } => {
                inner.is_pending() || !inner.is_unnamed() || inner.since.after(FIRST_WORDS) > time
            }
            Stage::Server => true,
            Stage::Exited => false,
        })
    }

    /// Notes at an open request where it is said.
    fn mark(&mut self, hop: &Hop, role: Role) -> Option<&Open> {
        let (key, seq) = hop.request.as_ref()?;
        let connection = self.connections.get_mut(&hop.connection)?;
        let open =
            connection.requests(Direction::ClientToServer).get_mut(key).filter(|open| open.seq == *seq)?;
        open.role = role;
        Some(open)
    }

    /// Says a held message: as the innermost connection's, with the relays it came through.
    pub(super) fn release(&mut self, id: HeldId, out: &mut Vec<Output>) {
        let Some(held) = self.relays.take(id) else { return };
        let Some(target) = held.path.last().map(|hop| hop.connection) else { return };
        let over: Vec<ConnectionId> = held.path.iter().map(|hop| hop.connection).collect();
        if let [hop] = held.path.as_slice() {
            self.mark(hop, Role::Own);
        } else {
            self.counters.relayed_requests += 1;
            self.link(&held, target);
        }
        let text = held.raw.as_str();
        let mut scratch = String::new();
        let Ok(parsed) = protocol::parse(text.as_bytes(), &mut scratch) else { return };
        let seen = Seen {
            connection: target,
            direction: Direction::ClientToServer,
            time: held.time,
            bytes: held.bytes,
            now: held.time,
        };
        for message in &parsed.messages {
            self.say_asked(target, &over, seen, message, out);
        }
        for hop in &held.path {
            if let Some((key, _)) = &hop.request {
                self.answer_held(hop.connection, key, held.time, out);
            }
        }
    }

    /// Ties the requests of one held message together, so that their answers are said once.
    fn link(&mut self, held: &Held, target: ConnectionId) {
        let Some(place) = self.place(target) else { return };
        let link = LinkId(self.relays.next());
        let mut first: Option<(Value, Asked)> = None;
        let mut remaining = 0;
        for hop in &held.path {
            if let Some(open) = self.mark(hop, Role::Relayed(link)) {
                remaining += 1;
                if first.is_none() {
                    first = Some((open.id.clone(), open.asked.clone()));
                }
            }
        }
        if let Some((id, asked)) = first {
            let link_of = Link { place, id, time: held.time, asked, remaining, answer: None };
            self.relays.links.insert(link, link_of);
        }
    }

    pub(super) fn relayed_answer(
        &mut self,
        seen: Seen,
        message: &Message<'_>,
        id: LinkId,
        open: &Open,
        out: &mut Vec<Output>,
    ) {
        let fingerprint = relay::of_answer(message);
        let first = match self.relays.links.get_mut(&id) {
            Some(link) if link.answer.is_none() => {
                link.answer = Some(fingerprint);
                Some((link.place.clone(), link.asked.clone(), link.id.clone(), link.time))
            }
            // The relay passed on what it got.
            Some(link) if link.answer == Some(fingerprint) => return self.relays.let_go(id),
            _ => None,
        };
        self.relays.let_go(id);
        match first {
            Some((place, asked, id, time)) => {
                self.say_answer(place, seen, message, Answered { asked: &asked, id: &id, time }, out);
            }
            // It made something else of it, and that is what the client got.
            None => {
                if let Some(place) = self.place(seen.connection) {
                    self.say_answer(place, seen, message, open.answered(), out);
                }
            }
        }
    }
}
