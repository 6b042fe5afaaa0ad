//! Starts and ends of servers' processes, and what waits for the record of a start.

use mcpwarden_abi as abi;
use mcpwarden_policy::{ConnectionId, Exec, Input, Process, Timestamp};

use super::{
    Capture, Connection,
    memory::Hold,
    output::Sink,
    process::{Parent, split_argv},
    record,
};
use crate::time::BootTime;

/// A record of a process whose stdin and stdout are a connection.
pub(super) struct Started {
    header: abi::RecordHeader,
    info: abi::ExecInfo,
    argv: Vec<u8>,
}

impl Started {
    fn is_exec(&self) -> bool {
        self.header.flags & abi::FLAG_NO_EXEC == 0
    }

    fn has_forked_parent(&self) -> bool {
        self.header.flags & (abi::FLAG_PARENT_IS_FORK | abi::FLAG_ADOPTED) == abi::FLAG_PARENT_IS_FORK
    }
}

impl Connection {
    /// A program whose client is not known yet: its parent is a fork that lives, and may end any moment. The first who writes is the
    /// client.
    pub(super) fn awaits_writer(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.is_exec())
    }

    /// Whether something waits until it is known who serves, and for whom.
    pub(super) fn waits(&self) -> bool {
        !self.described && (!self.early.is_empty() || self.awaits_writer())
    }

    /// Who wrote first of those that are not served.
    fn writer(&self) -> Option<u32> {
        let is_written = |header: &abi::RecordHeader| {
            header.kind == abi::RECORD_DATA && header.direction == abi::CLIENT_TO_SERVER
        };
        self.early.iter().map(|(header, _)| header).find(|header| is_written(header)).map(|header| header.pid)
    }

    fn hold(&mut self, started: Started) {
        self.held = Some(Box::new(started));
    }
}

impl Capture {
    /// A process has a connection as stdin and stdout.
    ///
    /// Where it came by them without an exec, one follows more often than not: who starts a program puts its descriptors into
    /// their places first. Until something was said, and for a moment more, it is not known to be the server.
    pub(super) fn started(
        &mut self,
        header: abi::RecordHeader,
        info: &abi::ExecInfo,
        argv: &[u8],
        clock: &BootTime,
        now: Timestamp,
        sink: &mut Sink<'_>,
    ) {
        // The agent itself, run with pipes by somebody: its output must not become its input.
        if header.pid == std::process::id() || !self.open(header.connection, now) {
            return;
        }
        let started = Started { header, info: *info, argv: argv.to_vec() };
        let id = header.connection;
        if self.connections.get(&id).is_some_and(Connection::awaits_writer) {
            // One program after the other: its client is its parent.
            self.serve_held(id, clock, now, sink);
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if !started.is_exec() {
            if !connection.is_known {
                connection.hold(started);
            }
            return;
        }
        let may_end = |parent: &u32| self.outside.lives(*parent, info.parent_start_ns);
        if !connection.is_known
            && started.has_forked_parent()
            && connection.writer().is_none()
            && info.ancestors.first().is_some_and(may_end)
        {
            connection.pids.push(header.pid);
            self.processes.entry(header.pid).or_default().push(id);
            return connection.hold(started);
        }
        self.exec(started, clock, now, sink);
    }

    /// The process that is held is the server. Whether there is one.
    pub(super) fn serve_held(
        &mut self,
        id: u64,
        clock: &BootTime,
        now: Timestamp,
        sink: &mut Sink<'_>,
    ) -> bool {
        let started = self.connections.get_mut(&id).and_then(|connection| connection.held.take());
        let Some(started) = started else { return false };
        self.exec(*started, clock, now, sink);
        true
    }

    /// No exec of a connection's server is waited for any more: what came without one serves, or nobody knows who.
    pub(super) fn await_no_longer(&mut self, id: u64, clock: &BootTime, now: Timestamp, sink: &mut Sink<'_>) {
        if !self.serve_held(id, clock, now, sink) {
            self.counters.execs_not_awaited += 1;
            self.release_early(id, clock, now, sink);
        }
    }

    fn exec(&mut self, started: Started, clock: &BootTime, now: Timestamp, sink: &mut Sink<'_>) {
        let is_fork = started.has_forked_parent();
        let Started { header, info, argv } = started;
        let adopted = header.flags & abi::FLAG_ADOPTED != 0;
        let mut process = Process {
            pid: header.pid,
            start_ns: info.start_ns,
            // The kernel half reports neither for an adopted process.
            uid: (!adopted).then_some(info.uid),
            cgroup_id: (!adopted).then_some(info.cgroup_id),
            argv: split_argv(&argv),
            argv_truncated: header.flags & abi::FLAG_ARGV_TRUNCATED != 0,
            ancestors: info.ancestors.iter().copied().filter(|pid| *pid != 0).collect(),
            ..Process::default()
        };
        self.outside.complete(&mut process);
        let id = header.connection;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.is_known = true;
        connection.held = None;
        if connection.client.is_none() {
            let known = info.parent_cgroup_id != 0;
            let parent = Parent {
                start_ns: info.parent_start_ns,
                uid: known.then_some(info.parent_uid),
                cgroup_id: known.then_some(info.parent_cgroup_id),
            };
            let writer = connection.writer();
            let passes = is_fork && writer.is_some() && writer == process.ancestors.get(1).copied();
            let ancestors = &process.ancestors[usize::from(passes)..];
            let parent = if passes { Parent::default() } else { parent };
            connection.client = self.outside.client(ancestors, parent, is_fork && !passes);
        }
        if connection.account.owner().is_none() {
            self.memory.assign(&mut connection.account, process.uid);
        }
        if !connection.pids.contains(&header.pid) {
            connection.pids.push(header.pid);
            self.processes.entry(header.pid).or_default().push(id);
        }
        let client = connection.client.clone();
        sink(
            Input::Exec(Exec {
                connection: ConnectionId(id),
                time: clock.wall(header.time_ns),
                adopted,
                process,
                client,
                session: None,
            })
            .into(),
        );
        self.release_early(id, clock, now, sink);
    }

    /// Takes in what came before the exec record.
    pub(super) fn release_early(&mut self, id: u64, clock: &BootTime, now: Timestamp, sink: &mut Sink<'_>) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.described = true;
        connection.early_bytes = 0;
        self.memory.set(&mut connection.account, Hold::Early, 0);
        for (header, data) in std::mem::take(&mut connection.early) {
            self.bytes(header, &data, clock, now, sink);
        }
    }

    pub(super) fn exit(
        &mut self,
        header: &abi::RecordHeader,
        clock: &BootTime,
        now: Timestamp,
        sink: &mut Sink<'_>,
    ) {
        let time = clock.wall(header.time_ns);
        for id in self.processes.remove(&header.pid).unwrap_or_default() {
            if self.connections.get(&id).is_some_and(Connection::awaits_writer) {
                self.serve_held(id, clock, now, sink);
            }
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.pids.retain(|pid| *pid != header.pid);
                let status = Some(record::exit_status(header.value));
                sink(Input::Exit { connection: ConnectionId(id), pid: header.pid, time, status }.into());
            }
        }
    }
}
