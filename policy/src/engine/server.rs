//! The life of a server: candidates, confirmation, relays found, the end.

use super::connection::{Connection, Stage, Waiting};
use super::io::{Exec, ExitStatus, Output, Process};
use super::pairing::Pairing;
use super::reach::At;
use super::traffic::Seen;
use super::{Due, Engine, MAX_RELAYS, relay};
use crate::discovery::{self, Declared};
use crate::event::{CaptureGap, MatchedBy, ProcessInfo, ServerStarted};
use crate::protocol::{self, Kind, Message, is_mcp_opening};
use crate::redact::redact_argv;
use crate::terms::{ConnectionId, Direction, ServerId, SessionId, Timestamp};

/// What the first messages of a candidate say of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Server,
    No,
    /// Nothing yet.
    Open,
}

/// How much junk a nameless connection may begin with whose start was not seen: the rest of a long message, perhaps.
const LATE_JUNK_BYTES: u64 = 64 * 1024;

impl Engine {
    pub(super) fn exec(&mut self, exec: Exec, now: Timestamp, out: &mut Vec<Output>) {
        self.counters.execs += 1;
        let (id, pid, time, adopted) = (exec.connection, exec.process.pid, exec.time, exec.adopted);
        if !self.known(id, time, out) || !self.assign(id, exec.process.uid, time, out) {
            return;
        }
        let named = self.config.patterns.matches(&exec.process.argv);
        let declared = self.declared(&exec.process).map(|declared| declared.id.clone());
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.is_candidate() {
            connection.since = connection.since.min(time);
            connection.named = connection.named.take().or(named);
            connection.declared = connection.declared.take().or(declared);
        }
        if !connection.run(exec, self.config.limits.chain) {
            self.counters.chain_overflow += 1;
        }
        self.expects |= connection.is_candidate() && !connection.is_unnamed();
        // One that a certain program must serve is not announced while another runs, which may go on to run that.
        let demanded = connection.declared.as_ref().and_then(|id| self.config.declaration(id));
        let is_declared = demanded.is_some_and(|demanded| connection.is_served_by(&demanded.executables));
        let at_once = connection.is_candidate() && (is_declared || adopted && connection.named.is_some());
        self.processes.insert(pid, id);
        self.find_outer(id);
        if adopted {
            // Processes are found in no order: this may be the relay of one that is known already.
            let others: Vec<ConnectionId> = self
                .connections
                .values()
                .filter(|other| other.outer.is_none())
                .map(|other| other.id)
                .collect();
            others.into_iter().for_each(|other| self.find_outer(other));
        }
        if at_once {
            self.start(id, time, now, out);
        }
    }

    /// The declared server that this process runs.
    fn declared(&self, process: &Process) -> Option<&Declared> {
        let (argv, executable) = (&process.argv, process.executable.as_deref());
        let is = |entry: &&Declared| discovery::is_declared(&entry.command, &entry.args, argv, executable);
        self.config.declared.iter().find(is)
    }

    /// Takes the declaration from a candidate that another program serves than it says. Which that was.
    fn refuse_declaration(&mut self, id: ConnectionId) -> Option<ServerId> {
        let connection = self.connections.get_mut(&id)?;
        let demanded = self.config.declaration(connection.declared.as_ref()?)?;
        // A recording may say by name alone what it is, and nothing of its program.
        let is_given = connection.server.is_some() && connection.chain.is_empty();
        if is_given || connection.is_served_by(&demanded.executables) {
            return None;
        }
        self.counters.servers_mistaken += 1;
        connection.declared.take()
    }

    /// What runs on this connection from now on belongs to this session, as a recording says. A declared server is
    /// announced as it runs, before it is opened.
    pub fn in_session(
        &mut self,
        id: ConnectionId,
        time: Timestamp,
        session: SessionId,
        out: &mut Vec<Output>,
    ) {
        if self.known(id, time, out)
            && let Some(connection) = self.connections.get_mut(&id)
        {
            connection.session = Some(session);
        }
    }

    /// A connection of which it is known what it is.
    pub(super) fn open(
        &mut self,
        id: ConnectionId,
        time: Timestamp,
        session: SessionId,
        server: ServerId,
        now: Timestamp,
        out: &mut Vec<Output>,
    ) {
        if !self.known(id, time, out) {
            return;
        }
        let Some(connection) = self.connections.get_mut(&id).filter(|connection| connection.is_candidate())
        else {
            return;
        };
        connection.session = Some(session);
        connection.declared = self.config.declaration(&server).map(|declared| declared.id.clone());
        connection.server = Some(server);
        self.start(id, time, now, out);
    }

    /// Finds the relay that a connection is inner to: its client, or the nearest of the parents, is one of the
    /// relay's processes.
    pub(super) fn find_outer(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(&id).filter(|connection| connection.outer.is_none())
        else {
            return;
        };
        let client = connection
            .client
            .iter()
            .flat_map(|client| std::iter::once(client.pid).chain(client.ancestors.iter().copied()));
        let parents = connection.chain.iter().flat_map(|process| process.ancestors.iter().copied());
        let outer = client
            .chain(parents)
            .find_map(|pid| self.processes.get(&pid).copied().filter(|outer| *outer != id));
        let Some(outer) = outer else { return };
        let mut above = Some(outer);
        for _ in 0..MAX_RELAYS {
            if above == Some(id) {
                return;
            }
            above = above.and_then(|above| self.connections.get(&above)).and_then(|above| above.outer);
        }
        if above.is_none() {
            self.link_relay(id, outer);
        }
    }

    pub(super) fn link_relay(&mut self, inner: ConnectionId, outer: ConnectionId) {
        if let Some(outer) = self.connections.get_mut(&outer) {
            outer.inners.push(inner);
        }
        if let Some(inner) = self.connections.get_mut(&inner) {
            inner.outer = Some(outer);
        }
    }

    /// A frame of a candidate: is it a server?
    pub(super) fn candidate_frame(&mut self, seen: Seen, frame: &[u8], out: &mut Vec<Output>) {
        let Seen { connection: id, direction, time, now, .. } = seen;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let mut scratch = std::mem::take(&mut self.scratch);
        let parsed = protocol::parse(frame, &mut scratch);
        let messages = parsed.as_ref().map_or(&[][..], |parsed| &parsed.messages);
        let speaks = messages.iter().any(|message| !matches!(message.kind, Kind::Invalid));
        let verdict = match (direction, connection.is_unnamed()) {
            (Direction::ServerToClient, _) if speaks && connection.is_pending() => Verdict::Server,
            _ if connection.is_pending() => Verdict::Open,
            (_, false) if speaks => Verdict::Server,
            (_, false) => Verdict::Open,
            (Direction::ServerToClient, true) => Verdict::Open,
            (Direction::ClientToServer, true) => {
                let patient = connection.asked_frames() + 1 < self.config.limits.opening_frames;
                unnamed(messages, connection.began_late(), patient)
            }
        };
        drop(parsed);
        self.scratch = scratch;
        match verdict {
            Verdict::No => {
                self.drop_candidate(id, out);
            }
            Verdict::Open => {
                let limits = &self.config.limits;
                let kept = connection.keep_frame(seen, frame, self.stop, limits);
                if !kept && connection.is_pending() {
                    self.start(id, time, now, out);
                    self.frame(seen, frame, out);
                } else if !kept
                    && direction == Direction::ClientToServer
                    && connection.is_unnamed()
                    && !connection.adopted
                {
                    // So much was asked, and nothing of MCP's in it. What the server says never decides.
                    self.drop_candidate(id, out);
                } else if !kept {
                    self.counters.candidate_overflow += 1;
                }
            }
            Verdict::Server => {
                let limits = &self.config.limits;
                let waits = direction == Direction::ClientToServer
                    && !connection.adopted
                    && !connection.heard()
                    && !limits.start_wait.is_zero()
                    && connection.keep_frame(seen, frame, self.stop, limits);
                if waits {
                    connection.asked = Some(time);
                    let server = connection.server_id();
                    connection.confirmed = Some(server.clone());
                    self.due.insert((now.after(limits.start_wait), Due::Start(id)));
                    out.push(Output::Confirm { connection: id, server });
                    return;
                }
                self.start(id, time, now, out);
                self.frame(seen, frame, out);
            }
        }
    }

    pub(super) fn junk(
        &mut self,
        id: ConnectionId,
        direction: Direction,
        bytes: u64,
        broken: bool,
        out: &mut Vec<Output>,
    ) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.totals.junk_bytes = connection.totals.junk_bytes.saturating_add(bytes);
        let so_far = connection.began_late() && connection.totals.junk_bytes <= LATE_JUNK_BYTES;
        let says_no = direction == Direction::ClientToServer && connection.is_unnamed() && !broken && !so_far;
        if connection.is_candidate() && !connection.is_pending() && says_no {
            self.drop_candidate(id, out);
        }
    }

    pub(super) fn gap(&mut self, id: ConnectionId, time: Timestamp, gap: CaptureGap, out: &mut Vec<Output>) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.totals.gap_bytes = connection.totals.gap_bytes.saturating_add(gap.bytes);
        if connection.is_candidate() {
            connection.keep_gap(time, gap);
        } else {
            self.say_of(id, time, gap, out);
        }
    }

    /// A candidate is a server: says so, and then all that waited.
    pub(super) fn start(&mut self, id: ConnectionId, time: Timestamp, now: Timestamp, out: &mut Vec<Output>) {
        // What this one was asked may have come through a relay, which is to be known by then.
        let first = self.connections.get(&id).and_then(Connection::first_words);
        if let Some(fingerprint) = first.and_then(relay::of_frame) {
            self.find_engine(id, &fingerprint, time);
        }
        self.start_outer(id, now, out);
        let mistaken_for = self.refuse_declaration(id);
        let Some(connection) = self.connections.get(&id) else { return };
        let session = self.session(connection);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Stage::Candidate { waiting, .. } = std::mem::replace(&mut connection.stage, Stage::Server) else {
            return;
        };
        self.counters.servers += 1;
        self.counters.candidate_overflow += connection.connects_not_kept;
        let asked = connection.asked.take();
        let time = asked.unwrap_or(time);
        let matched_by = connection.matched_by();
        connection.session = Some(session);
        connection.server = Some(connection.server_id());
        connection.describe();
        let (naming, last) = (connection.naming(), connection.chain.last());
        let started = ServerStarted {
            pid: last.map(|process| process.pid),
            uid: last.and_then(|process| process.uid),
            cgroup_id: last.and_then(|process| process.cgroup_id),
            executable: last.and_then(|process| process.executable.clone()),
            argv: naming.map(|process| redact_argv(&process.argv)).unwrap_or_default(),
            argv_truncated: naming.is_some_and(|process| process.argv_truncated),
            cwd: last.and_then(|process| process.cwd.clone()),
            url: connection.at.as_ref().map(At::url),
            client: connection.client.as_ref().map(|client| ProcessInfo {
                pid: client.pid,
                executable: client.executable.clone(),
                argv: redact_argv(&client.argv),
            }),
            matched_by,
            pattern: (connection.named.as_ref())
                .filter(|_| matched_by == MatchedBy::Name)
                .map(|named| named.pattern.clone()),
            identity: connection.identity(),
            mistaken_for,
            adopted: connection.adopted,
            chain: connection
                .chain
                .iter()
                .filter_map(|process| redact_argv(process.argv.get(..1)?).pop())
                .collect(),
            detections: Vec::new(),
        };
        if connection.confirmed != connection.server {
            connection.confirmed = connection.server.clone();
            out.extend(connection.confirmed.clone().map(|server| Output::Confirm { connection: id, server }));
        }
        let found = self.register(id);
        let started = ServerStarted { detections: found.iter().cloned().collect(), ..started };
        self.say_of(id, time, started, out);
        if let (Some(detection), Some(place)) = (found, self.place(id)) {
            self.say_finding(&place, time, None, detection, out);
        }
        // One that is at hand comes after them.
        let at_hand = self.stop;
        for item in waiting {
            match item {
                Waiting::Frame { direction, time, bytes, stop } => {
                    let seen = Seen { connection: id, direction, time, bytes: bytes.len() as u64, now };
                    self.stop = stop;
                    self.frame(seen, &bytes, out);
                    self.stop = at_hand;
                }
                Waiting::Decided { time, decided } => self.say_of(id, time, *decided, out),
                Waiting::Gap { time, gap } => self.say_of(id, time, gap, out),
                Waiting::Connect(connect) => self.kept_connect(id, *connect, out),
            }
        }
    }

    /// Announces the relay that a connection is inner to, if it waits for its first answer.
    pub(super) fn start_outer(&mut self, id: ConnectionId, now: Timestamp, out: &mut Vec<Output>) {
        let outer = self.connections.get(&id).and_then(|connection| connection.outer);
        if let Some(outer) = outer
            && self.connections.get(&outer).is_some_and(Connection::is_pending)
        {
            self.start(outer, now, now, out);
        }
    }

    pub(super) fn exit(
        &mut self,
        id: ConnectionId,
        pid: u32,
        time: Timestamp,
        status: Option<ExitStatus>,
        now: Timestamp,
    ) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if !connection.live.remove(&pid) {
            return;
        }
        if self.processes.get(&pid) == Some(&id) {
            self.processes.remove(&pid);
        }
        if connection.chain.last().is_some_and(|process| process.pid == pid) {
            connection.status = status;
        }
        if connection.live.is_empty() {
            // Answers may still be read from the pipe.
            let at = now.after(self.config.limits.exit_linger);
            connection.ended = Some(time);
            connection.exit_at = Some(at);
            self.due.insert((at, Due::Exit(id)));
        }
    }

    /// What is to be announced with its first answer is announced now: there is something to say of it.
    pub(super) fn start_pending(&mut self, id: ConnectionId, time: Timestamp, out: &mut Vec<Output>) {
        if self.connections.get(&id).is_some_and(Connection::is_pending) {
            self.start(id, time, time, out);
        }
    }

    pub(super) fn close(&mut self, id: ConnectionId, time: Timestamp, out: &mut Vec<Output>) {
        self.say_exit(id, time, out);
        // After an end that was said before, something may be held again.
        for held in self.relays.over(id) {
            self.release(held, out);
        }
        self.forget(id);
    }

    /// Says that a server ended, if it is one and this was not said.
    pub(super) fn say_exit(&mut self, id: ConnectionId, time: Timestamp, out: &mut Vec<Output>) {
        self.start_pending(id, time, out);
        if !self.connections.get(&id).is_some_and(|connection| matches!(connection.stage, Stage::Server)) {
            return;
        }
        for held in self.relays.over(id) {
            self.release(held, out);
        }
        for direction in [Direction::ClientToServer, Direction::ServerToClient] {
            self.give_up_early(id, direction, Timestamp(u64::MAX), out);
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let mut exited = connection.totals.clone();
        exited.pid = connection.chain.last().map(|process| process.pid);
        match connection.status {
            Some(ExitStatus::Code(code)) => exited.exit_code = Some(code),
            Some(ExitStatus::Signal(signal)) => exited.signal = Some(signal),
            None => {}
        }
        let time = connection.ended.unwrap_or(time);
        exited.duration_ns = time.nanos_since(connection.since);
        exited.unanswered = [Direction::ClientToServer, Direction::ServerToClient]
            .map(|direction| connection.requests(direction).len() as u64)
            .iter()
            .sum();
        self.say_of(id, time, exited, out);
        // Still known, since frames can come late; forgotten when nobody holds it any more.
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.stage = Stage::Exited;
        }
    }

    /// Forgets a connection and all that hangs on it.
    pub(super) fn forget(&mut self, id: ConnectionId) {
        self.depart(id);
        let Some(mut connection) = self.connections.remove(&id) else { return };
        self.gone.add(&connection);
        self.processes.retain(|pid, owner| *owner != id || !connection.live.contains(pid));
        self.memory.close(std::mem::take(&mut connection.account));
        // A store that failed was counted.
        let _ = self.registry.disconnect(id);
        if let Some(session) = &connection.session {
            self.forget_session(session);
        }
        for open in connection.take_pairings().into_iter().flat_map(Pairing::into_open) {
            self.let_go(&open);
        }
        if let Some(outer) = connection.outer.and_then(|outer| self.connections.get_mut(&outer)) {
            outer.inners.retain(|inner| *inner != id);
        }
        for inner in connection.inners {
            if let Some(inner) = self.connections.get_mut(&inner) {
                inner.outer = connection.outer;
            }
            if let Some(outer) = connection.outer.and_then(|outer| self.connections.get_mut(&outer)) {
                outer.inners.push(inner);
            }
        }
        for held in self.relays.over(id) {
            // Nothing is held of a candidate, and of a server it was said by now; this keeps the books.
            self.relays.take(held);
        }
    }
}

/// What the messages of a frame say of a candidate that no name speaks for. `patient` while it may still come to
/// MCP: a client may say something else first.
fn unnamed(messages: &[Message<'_>], began_late: bool, patient: bool) -> Verdict {
    use protocol::Method;
    let Some(first) = messages.first() else { return if began_late { Verdict::Open } else { Verdict::No } };
    if messages.iter().any(is_mcp_opening) {
        return Verdict::Server;
    }
    match &first.kind {
        // In the middle of a session anything may come first; MCP's own names still tell.
        Kind::Notification { method, .. } if began_late && method.is_mcp() => Verdict::Server,
        // A language server's.
        Kind::Request { method: Method::Initialize, .. } | Kind::Invalid => Verdict::No,
        Kind::Request { .. } | Kind::Notification { .. } if !patient => Verdict::No,
        _ => Verdict::Open,
    }
}
