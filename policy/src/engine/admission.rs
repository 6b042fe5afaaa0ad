//! Admission: which connections are kept, and how many bytes each user's connections and all connections may hold.

use super::connections::Admission;
use super::memory::User;
use super::{DIRECTIONS, Engine, Exec, Output};
use crate::event::{CapacityExceeded, Event, ServerType, Table};
use crate::gate::GateCaller;
use crate::terms::{ConnectionId, Timestamp};

impl Engine {
    /// Makes sure that a connection is known. Whether it is.
    pub(super) fn admit(&mut self, id: ConnectionId, time: Timestamp, out: &mut Vec<Output>) -> bool {
        self.admit_program(id, None, time, out)
    }

    /// The same of one that a program runs on.
    pub(super) fn admit_program(
        &mut self,
        id: ConnectionId,
        exec: Option<&Exec>,
        time: Timestamp,
        out: &mut Vec<Output>,
    ) -> bool {
        if self.connections.get(id).is_some() {
            return true;
        }
        match self.connections.admission(id, self.config.limits.connections) {
            Admission::Dropped => return false,
            Admission::Full if !self.make_room(None, time, out) => {
                let caller = exec.and_then(|exec| self.connections.caller_of(exec, &self.config));
                self.refuse(id, caller, time, out);
                return false;
            }
            Admission::Full | Admission::Free => {}
        }
        self.connections.open(id, time);
        true
    }

    /// The first program of a connection says whose it is. Whether there is room for one more of this user's.
    pub(super) fn assign(
        &mut self,
        id: ConnectionId,
        (user, exec): (User, Option<&Exec>),
        time: Timestamp,
        out: &mut Vec<Output>,
    ) -> bool {
        let Some(connection) = self.connections.get(id) else { return false };
        if !connection.chain.is_empty() {
            return true;
        }
        let full = self.connections.is_full(user, self.config.limits.connections_per_user);
        if full && !self.make_room(Some(user), time, out) {
            let caller = exec.and_then(|exec| self.connections.caller_of(exec, &self.config));
            self.refuse(id, caller, time, out);
            self.forget(id);
            return false;
        }
        self.connections.assign(id, user);
        true
    }

    /// Forgets the connection that is missed least, of one user's or of all. Whether there is one.
    fn make_room(&mut self, user: Option<User>, time: Timestamp, out: &mut Vec<Output>) -> bool {
        let Some((victim, is_alive)) = self.connections.least_missed(user) else { return false };
        if is_alive {
            let caller = self.connections.named_caller(victim);
            self.refuse(victim, caller, time, out);
        }
        self.close(victim, time, out);
        true
    }

    /// There is no room for this connection. Where it is a server's by its name, whose calls these are is remembered: they are
    /// undecided.
    fn refuse(
        &mut self,
        id: ConnectionId,
        caller: Option<GateCaller>,
        time: Timestamp,
        out: &mut Vec<Output>,
    ) {
        self.counters.connections_refused += 1;
        self.connections.ignore(id);
        let limit = self.config.limits.refused;
        let is_held = caller.is_some() && self.connections.refused() < limit;
        self.counters.refused_overflow += u64::from(caller.is_some() && !is_held);
        let mut reporter = self.parts(out).cx.reporter;
        if let Some(GateCaller { session, server, uid }) = &caller {
            let exceeded = CapacityExceeded { table: Table::Connections, uid: *uid, refused: 1 };
            reporter.emit(Event {
                session_id: Some(session.clone()),
                server_id: Some(server.clone()),
                server_type: Some(ServerType::Stdio),
                connection: Some(id),
                ..Event::agent(time, exceeded.into())
            });
        }
        match caller.filter(|_| is_held) {
            Some(caller) => {
                reporter.refuse_connection(id);
                self.connections.hold_refused(id, caller);
            }
            None => reporter.drop_connection(id),
        }
    }

    /// This is no server: forgets it, and has it captured no more.
    pub(super) fn drop_candidate(&mut self, id: ConnectionId, out: &mut Vec<Output>) {
        self.counters.candidates_dropped += 1;
        self.forget(id);
        self.connections.ignore(id);
        self.parts(out).cx.reporter.drop_connection(id);
    }

    /// Forgets a connection and all that hangs on it.
    pub(super) fn forget(&mut self, id: ConnectionId) {
        let evicted = self.connections.depart(id, self.config.limits.departed);
        self.counters.departed_evicted += u64::from(evicted);
        if let Some(mut connection) = self.connections.forget(id) {
            self.evaluator.forget(&connection, &self.connections);
            self.exchange.forget(&mut connection);
        }
    }

    /// Books what a connection keeps now, and makes room where that is too much.
    pub(super) fn book(&mut self, id: ConnectionId, now: Timestamp, out: &mut Vec<Output>) {
        let Some(user) = self.connections.book(id) else { return };
        let (bytes, per_user) = (self.config.limits.bytes, self.config.limits.bytes_per_user);
        while self.connections.kept_bytes(Some(user)) > per_user && self.relieve(Some(user), now, out) {}
        while self.connections.kept_bytes(None) > bytes && self.relieve(None, now, out) {}
    }

    /// Books what connections keep that other connections' messages were handed to.
    pub(super) fn book_touched(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        while let Some(id) = self.exchange.next_touched() {
            self.book(id, now, out);
        }
    }

    /// Has the connection that keeps most, of one user or of all, give up some. Whether that helped.
    fn relieve(&mut self, user: Option<User>, now: Timestamp, out: &mut Vec<Output>) -> bool {
        let Some(id) = self.connections.largest(user) else { return false };
        let before = self.connections.kept_bytes(None);
        DIRECTIONS.into_iter().for_each(|direction| self.give_up_early(id, direction, None, out));
        if self.connections.is_pending(id) {
            self.start(id, now, now, out);
        } else {
            self.exchange.shed(&mut self.connections, &mut self.counters, id);
        }
        self.connections.book(id);
        self.connections.kept_bytes(None) < before
    }
}
