//! The life of one connection: its programs start, it is announced as a server, it ends.

use super::connection::{Connection, Stage, Waiting};
use super::connections::Announced;
use super::fingerprint::{self, Fingerprint};
use super::reporter::About;
use super::seen::{Reading, Seen};
use super::{DIRECTIONS, Engine, Exec, Output, Parts, exchange};
use crate::detect::Inspection;
use crate::event::{CapacityExceeded, ServerExecuted, Subject, Table};
use crate::terms::{ConnectionId, Direction, ServerId, SessionId, Timestamp};

impl Engine {
    pub(super) fn exec(&mut self, exec: Exec, now: Timestamp, out: &mut Vec<Output>) {
        self.counters.execs += 1;
        let (id, time) = (exec.connection, exec.time);
        if self.admit_program(id, Some(&exec), time, out)
            && self.assign(id, (exec.process.uid, Some(&exec)), time, out)
        {
            let pid = exec.process.pid;
            let is_server = self.connections.run(exec, &self.config, &mut self.counters);
            let executed = self.connections.executed(id, pid, &self.config, &mut self.counters);
            self.report_executed(id, time, executed, out);
            let is_named = |one: &Connection| one.is_candidate() && !one.is_unnamed();
            if self.connections.get(id).is_some_and(is_named) {
                // It may soon be one that the gate judges.
                self.parts(out).cx.reporter.gate_is_stale(None);
            }
            if is_server {
                self.start(id, time, now, out);
            }
        }
        self.book(id, now, out);
    }

    /// Reports what runs on a server's connection by now, and has the gate go by it.
    pub(super) fn report_executed(
        &mut self,
        id: ConnectionId,
        time: Timestamp,
        executed: Option<ServerExecuted>,
        out: &mut Vec<Output>,
    ) {
        let Some(executed) = executed else { return };
        let mut cx = self.parts(out).cx;
        cx.report(id, time, executed);
        cx.reporter.gate_is_stale(None);
    }

    /// A connection of which it is known what it is.
    pub(super) fn open(
        &mut self,
        id: ConnectionId,
        time: Timestamp,
        (session, server): (SessionId, ServerId),
        now: Timestamp,
        out: &mut Vec<Output>,
    ) {
        if !self.admit(id, time, out) || !self.connections.is_candidate(id) {
            return;
        }
        let declared = self.config.declaration(&server).map(|declared| declared.id.clone());
        if let Some(connection) = self.connections.get_mut(id) {
            connection.session = Some(session);
            connection.declared = declared;
            connection.give_name(server);
        }
        self.start(id, time, now, out);
    }

    pub(super) fn find_container_relay(
        &mut self,
        id: ConnectionId,
        fingerprint: &Fingerprint,
        time: Timestamp,
    ) {
        let since = time.before(self.config.limits.relay_late);
        let asked_the_same = |relay: &mut Connection| exchange::asked_the_same(relay, fingerprint, since);
        self.connections.find_container_relay(id, asked_the_same);
    }

    /// A candidate is a server: reports it, and then all that waited.
    pub(super) fn start(&mut self, id: ConnectionId, time: Timestamp, now: Timestamp, out: &mut Vec<Output>) {
        // It may be another connection's message that tells of it.
        let trace = std::mem::take(&mut self.trace);
        self.start_untraced(id, time, now, out);
        self.trace = trace;
    }

    fn start_untraced(&mut self, id: ConnectionId, time: Timestamp, now: Timestamp, out: &mut Vec<Output>) {
        // What this one was asked may have come through a relay, which is to be known by then.
        let first = self.connections.get(id).and_then(Connection::first_words);
        if let Some(fingerprint) = first.and_then(fingerprint::of_frame) {
            self.find_container_relay(id, &fingerprint, time);
        }
        self.start_outer(id, now, out);
        let announced = self.connections.announce(id, time, &self.config, &mut self.counters);
        let Some(Announced { time, mut started, confirm, waiting }) = announced else { return };
        let Parts { mut cx, ev, .. } = self.parts(out);
        if let Some(server) = confirm {
            cx.reporter.confirm(id, server);
        }
        let registered = match (cx.connections.scope(id), cx.connections.get(id)) {
            (Some(scope), Some(connection)) => ev.register(&scope, connection),
            _ => Ok(None),
        };
        // Too many connections are known, or too many servers of this session.
        let is_refused = !ev.compares(id);
        let found = registered.ok().flatten();
        started.detections.extend(found.clone());
        if let Some(scope) = cx.connections.scope(id) {
            cx.mark(&scope, (None, None), &mut started.detections);
        }
        cx.report(id, time, started);
        if let Some(connection) = cx.connections.get_mut(id).filter(|_| is_refused) {
            connection.is_uncompared = true;
            let uid = connection.account.user;
            cx.report(id, time, CapacityExceeded { table: Table::Pins, uid, refused: 1 });
        }
        if let Some(preloaded) = cx.connections.preloaded(id, cx.config) {
            cx.reporter.counters.servers_preloaded += 1;
            cx.report(id, time, preloaded);
        }
        cx.reporter.gate_is_stale(None);
        if let (Some(detection), Some(scope)) = (found, cx.connections.scope(id)) {
            // What is not bad enough stands with the server.
            let found = Inspection { detections: vec![detection], ..Inspection::default() };
            cx.report_found(&scope, time, &About::of(Subject::Server), &found);
        }
        for item in waiting {
            match item {
                Waiting::Frame { direction, time, bytes, stop, turn, http } => {
                    let reading = Reading { http: http.as_deref(), ..Reading::default() };
                    let seen = Seen::new(id, direction, bytes.len() as u64, time, now);
                    let seen = Seen { stop, turn: turn.as_deref(), reading, ..seen };
                    self.frame(seen, &bytes, out);
                }
                Waiting::Decided { time, decided } => self.parts(out).cx.report(id, time, *decided),
                Waiting::Ambiguous { direction, framing, time } => {
                    self.ambiguous_framing(id, direction, framing, time, out);
                }
                Waiting::Gap { time, gap } => self.parts(out).cx.report(id, time, gap),
                Waiting::Connect(connect) => {
                    let Parts { mut cx, destinations, .. } = self.parts(out);
                    destinations.kept_connect(&mut cx, id, *connect);
                }
            }
        }
    }

    /// Announces the relay that a connection is inner to, if it waits for its first answer.
    pub(super) fn start_outer(&mut self, id: ConnectionId, now: Timestamp, out: &mut Vec<Output>) {
        if let Some(outer) = self.connections.pending_outer(id) {
            self.start(outer, now, now, out);
        }
    }

    /// What is to be announced with its first answer is announced now: there is something to report of it.
    pub(super) fn start_pending(&mut self, id: ConnectionId, time: Timestamp, out: &mut Vec<Output>) {
        if self.connections.is_pending(id) {
            self.start(id, time, time, out);
        }
    }

    pub(super) fn close(&mut self, id: ConnectionId, time: Timestamp, out: &mut Vec<Output>) {
        self.exited(id, time, out);
        // After an end that was reported before, something may be held again.
        self.with(out, |exchange, ev, cx| exchange.release_all(ev, cx, id));
        self.forget(id);
    }

    /// Reports that a server ended, if it is one and this was not reported.
    pub(super) fn exited(&mut self, id: ConnectionId, time: Timestamp, out: &mut Vec<Output>) {
        self.start_pending(id, time, out);
        if !self.connections.get(id).is_some_and(|connection| matches!(connection.stage, Stage::Server)) {
            return;
        }
        self.with(out, |exchange, ev, cx| exchange.release_all(ev, cx, id));
        DIRECTIONS.into_iter().for_each(|direction| self.give_up_early(id, direction, None, out));
        let Some((time, exited)) = self.connections.exited(id, time) else { return };
        let mut cx = self.parts(out).cx;
        cx.report(id, time, exited);
        cx.reporter.gate_is_stale(None);
        // Still known, since frames can come late; forgotten when nobody holds it any more.
        if let Some(connection) = self.connections.get_mut(id) {
            connection.stage = Stage::Exited;
        }
    }

    /// Gives up answers whose requests did not come until `now`; without it, all.
    pub(super) fn give_up_early(
        &mut self,
        id: ConnectionId,
        direction: Direction,
        now: Option<Timestamp>,
        out: &mut Vec<Output>,
    ) {
        let now = now.unwrap_or(Timestamp(u64::MAX));
        self.with(out, |exchange, ev, cx| exchange.give_up_early(ev, cx, id, direction, now));
    }
}
