//! Which connections are servers: by their programs, by their first messages; and what is reported of one that is.

use std::collections::VecDeque;

use super::{Connection, Connections, Stage};
use crate::discovery::{self, Declared};
use crate::engine::address::At;
use crate::engine::config::{Counters, EngineConfig};
use crate::engine::connection::Waiting;
use crate::engine::io::{Exec, ExitStatus, Process};
use crate::engine::seen::Seen;
use crate::event::{MatchedBy, ProcessInfo, ServerExited, ServerStarted};
use crate::protocol::{self, Kind, Message, Method, is_mcp_answer, is_mcp_opening, is_of_mcp_server};
use crate::redact::redact_argv;
use crate::terms::{ConnectionId, Direction, ServerId, Timestamp};

/// What the first messages of a candidate say of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Opinion {
    Server,
    No,
    /// Nothing yet.
    Open,
}

/// A server that is to be reported, and what came before it was known to be one.
pub(in crate::engine) struct Announced {
    pub(in crate::engine) time: Timestamp,
    pub(in crate::engine) started: ServerStarted,
    /// Whose the kernel half is to be told that the connection is.
    pub(in crate::engine) confirm: Option<ServerId>,
    pub(in crate::engine) waiting: VecDeque<Waiting>,
}

/// How much junk a nameless connection may begin with whose start was not seen: the rest of a long message, perhaps.
const LATE_JUNK_BYTES: u64 = 64 * 1024;

impl Connections {
    /// A program runs on a connection. Whether it is a server by that alone, which is to be announced.
    pub(in crate::engine) fn run(
        &mut self,
        exec: Exec,
        config: &EngineConfig,
        counters: &mut Counters,
    ) -> bool {
        let (id, pid, time, adopted) = (exec.connection, exec.process.pid, exec.time, exec.adopted);
        let named = config.patterns.matches(&exec.process.argv);
        let declared = declared(config, &exec.process).map(|declared| declared.id.clone());
        let session = exec.session.clone();
        let Some(connection) = self.get_mut(id) else { return false };
        connection.session = session.or(connection.session.take());
        if connection.is_candidate() {
            connection.since = connection.since.min(time);
            connection.named = connection.named.take().or(named);
            connection.declared = connection.declared.take().or(declared);
        }
        if !connection.run(exec, config.limits.chain) {
            counters.chain_overflow += 1;
        }
        // One that a certain program must serve is not announced while another runs, which may go on to run that.
        let demanded = connection.declared.as_ref().and_then(|id| config.declaration(id));
        let is_declared = demanded.is_some_and(|demanded| connection.is_served_by(demanded));
        let at_once = connection.is_candidate() && (is_declared || adopted && connection.named.is_some());
        self.processes.insert(pid, id);
        self.find_outer(id);
        if adopted {
            // Processes are found in no order: this may be the relay of one that is known already.
            self.find_outers();
        }
        at_once
    }

    /// What a frame says of a candidate.
    pub(in crate::engine) fn opinion(
        &self,
        seen: Seen<'_>,
        messages: &[Message<'_>],
        opening_frames: usize,
    ) -> Opinion {
        let Some(connection) = self.get(seen.connection) else { return Opinion::Open };
        let speaks = messages.iter().any(|message| !matches!(message.kind, Kind::Invalid));
        match (seen.direction, connection.is_unnamed()) {
            (Direction::ServerToClient, _) if speaks && connection.is_pending() => Opinion::Server,
            _ if connection.is_pending() => Opinion::Open,
            (_, false) if speaks => Opinion::Server,
            // What a server says decides only where what it was asked is lost: it lay in the pipe before there was a server, or was
            // said before there was an agent.
            (Direction::ServerToClient, true)
                if connection.adopted && messages.iter().any(is_of_mcp_server) =>
            {
                Opinion::Server
            }
            (Direction::ServerToClient, true)
                if connection.has_lost_requests() && messages.iter().any(is_mcp_answer) =>
            {
                Opinion::Server
            }
            (_, false) | (Direction::ServerToClient, true) => Opinion::Open,
            (Direction::ClientToServer, true) => {
                let patient = connection.asked_frames() + 1 < opening_frames;
                unnamed(messages, connection.began_late(), patient)
            }
        }
    }

    /// Whether a candidate that nothing names has answered as an MCP server does, and what it was asked is lost: where a gap is
    /// known only behind the answer.
    pub(in crate::engine) fn has_answered_unasked(&self, id: ConnectionId) -> bool {
        let candidate =
            self.get(id).filter(|one| one.is_candidate() && !one.is_pending() && one.is_unnamed());
        let answers = |frame: &[u8]| {
            let mut scratch = String::new();
            protocol::parse(frame, &mut scratch).is_ok_and(|parsed| parsed.messages.iter().any(is_mcp_answer))
        };
        candidate.is_some_and(|one| one.has_lost_requests() && one.answers().any(answers))
    }

    /// Counts bytes that are no frame. Whether they say of a candidate that it is no server.
    pub(in crate::engine) fn junk(
        &mut self,
        id: ConnectionId,
        direction: Direction,
        bytes: u64,
        broken: bool,
    ) -> bool {
        let Some(connection) = self.get_mut(id) else { return false };
        connection.totals.junk_bytes = connection.totals.junk_bytes.saturating_add(bytes);
        let so_far = connection.began_late() && connection.totals.junk_bytes <= LATE_JUNK_BYTES;
        let says_no = direction == Direction::ClientToServer && connection.is_unnamed() && !broken && !so_far;
        connection.is_candidate() && !connection.is_pending() && says_no
    }

    /// Takes the declaration from a candidate that another program serves than it says. Which that was.
    fn refuse_declaration(
        &mut self,
        id: ConnectionId,
        config: &EngineConfig,
        counters: &mut Counters,
    ) -> Option<ServerId> {
        let connection = self.get_mut(id)?;
        let demanded = config.declaration(connection.declared.as_ref()?)?;
        // A recording may say by name alone what it is, and nothing of its program.
        let is_given = connection.server.is_some() && connection.chain.is_empty();
        if is_given || connection.is_served_by(demanded) {
            return None;
        }
        counters.servers_mistaken += 1;
        connection.call(demanded.id.clone());
        connection.declared.take()
    }

    /// A candidate is a server from now on. `None`: it was no candidate.
    pub(in crate::engine) fn announce(
        &mut self,
        id: ConnectionId,
        time: Timestamp,
        config: &EngineConfig,
        counters: &mut Counters,
    ) -> Option<Announced> {
        let mistaken_for = self.refuse_declaration(id, config, counters);
        let session = self.session(self.get(id)?);
        let connection = self.get_mut(id)?;
        let Stage::Candidate { waiting, .. } = std::mem::replace(&mut connection.stage, Stage::Server) else {
            return None;
        };
        counters.servers += 1;
        counters.candidate_overflow += connection.connects_not_kept;
        let time = connection.asked.take().unwrap_or(time);
        let matched_by = connection.matched_by();
        connection.session = Some(session);
        connection.server = Some(connection.server_id());
        connection.serving = connection.chain.last().map(|process| process.pid);
        connection.describe();
        let started = started(connection, matched_by, mistaken_for);
        let mut confirm = None;
        if connection.confirmed != connection.server {
            connection.confirmed.clone_from(&connection.server);
            confirm.clone_from(&connection.server);
        }
        Some(Announced { time, started, confirm, waiting })
    }

    /// A process of a connection ended. Whether that was the last.
    pub(in crate::engine) fn process_exited(
        &mut self,
        id: ConnectionId,
        pid: u32,
        time: Timestamp,
        status: Option<ExitStatus>,
    ) -> bool {
        let Some(connection) = self.all.get_mut(&id) else { return false };
        if !connection.live.remove(&pid) {
            return false;
        }
        if self.processes.get(&pid) == Some(&id) {
            self.processes.remove(&pid);
        }
        if connection.chain.last().is_some_and(|process| process.pid == pid) {
            connection.status = status;
        }
        let is_last = connection.live.is_empty();
        if is_last {
            connection.ended = Some(time);
        }
        is_last
    }

    /// What is reported of the end of a server, and when that was.
    pub(in crate::engine) fn exited(
        &mut self,
        id: ConnectionId,
        time: Timestamp,
    ) -> Option<(Timestamp, ServerExited)> {
        let connection = self.get_mut(id)?;
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
        Some((time, exited))
    }
}

/// The declared server that this process runs.
pub(in crate::engine) fn declared<'a>(config: &'a EngineConfig, process: &Process) -> Option<&'a Declared> {
    let (argv, executable) = (&process.argv, process.executable.as_deref());
    let is = |entry: &&Declared| discovery::is_declared(&entry.command, &entry.args, argv, executable);
    config.declared.iter().find(is)
}

fn started(connection: &Connection, matched_by: MatchedBy, mistaken_for: Option<ServerId>) -> ServerStarted {
    let listens = connection.at.as_ref().and_then(|at| at.process.as_ref());
    let (naming, last) = (connection.naming().or(listens), connection.chain.last().or(listens));
    ServerStarted {
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
        version: connection.version.clone(),
        chain: connection
            .chain
            .iter()
            .filter_map(|process| redact_argv(process.argv.get(..1)?).pop())
            .collect(),
        detections: Vec::new(),
    }
}

/// What the messages of a frame say of a candidate that no name speaks for. `patient` while it may still come to
/// MCP: a client may say something else first.
fn unnamed(messages: &[Message<'_>], began_late: bool, patient: bool) -> Opinion {
    let Some(first) = messages.first() else { return if began_late { Opinion::Open } else { Opinion::No } };
    if messages.iter().any(is_mcp_opening) {
        return Opinion::Server;
    }
    match &first.kind {
        // In the middle of a session anything may come first; MCP's own names still tell.
        Kind::Notification { method, .. } if began_late && method.is_mcp() => Opinion::Server,
        // A language server's.
        Kind::Request { method: Method::Initialize, .. } | Kind::Invalid => Opinion::No,
        Kind::Request { .. } | Kind::Notification { .. } if !patient => Opinion::No,
        _ => Opinion::Open,
    }
}
