//! From records to frames: which connection, in which order, what is missing.
//!
//! Knows loss, order and identity; knows nothing of JSON-RPC. Its input is records of the ring and positions
//! read from the kernel's tables, its output the policy core's [`Input`]s. It reads no clock and no file: time comes in as an
//! argument ([`BootTime`]), and what records do not say of processes from [`Processes`]. Every backend ends in the same
//! records, so nothing here depends on how they were captured.

mod bounds;
mod memory;
mod order;
mod process;
mod record;
pub mod socket;
mod sockets;
mod stream;
#[cfg(test)]
mod tests;
mod time;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};

use mcpwarden_abi::{
    self as abi,
    record::{Record, parse},
};
use mcpwarden_policy::{ConnectionId, Direction, Exec, GapCause, Input, Limits, Process, Timestamp};

pub use bounds::{CaptureCounters, CaptureLimits};
use memory::{Account, Hold, Memory};
use order::{MissingRange, Position, RECORD_BYTES};
use process::split_argv;
pub use process::{Parent, Processes};
use socket::Sockets;
use stream::{Outlet, Stream};
pub use time::BootTime;

/// How long records wait for the exec record of their connection: a parent can write before it comes.
const EXEC_PATIENCE: std::time::Duration = std::time::Duration::from_millis(200);
/// How many bytes of one connection wait so.
const EXEC_WAITING_BYTES: usize = 4 << 20;

/// How many forgotten connections are remembered: records of theirs may still lie in the ring.
const FORGOTTEN: usize = 4096;

struct Connection {
    account: Account,
    /// Known once the first exec record came.
    client: Option<Process>,
    /// An exec record came; `described`: or is not waited for any more.
    is_known: bool,
    described: bool,
    since: Timestamp,
    /// Records that came before the exec record.
    early: Vec<(abi::RecordHeader, Vec<u8>)>,
    early_bytes: usize,
    streams: [Stream; 2],
    /// Bytes of a write that is refused, until all of it is here.
    refused: Vec<u8>,
    pids: Vec<u32>,
}

/// What records say of connections to addresses.
pub enum SideRecord {
    /// A process connects, or sends to an address.
    Connect(abi::RecordHeader, abi::ConnectInfo),
    /// The bytes of a TCP connection are captured from now on: see [`Capture::open_socket`].
    Socket(abi::RecordHeader, abi::ConnectInfo),
    /// The gate did something to a write, or could not tell what it asks for.
    Gate(abi::RecordHeader, abi::GateInfo),
}

/// All streams.
pub struct Capture {
    limits: CaptureLimits,
    outside: &'static dyn Processes,
    connections: HashMap<u64, Connection>,
    /// Which connections a process is part of.
    processes: HashMap<u32, Vec<u64>>,
    forgotten: HashSet<u64>,
    forgotten_order: VecDeque<u64>,
    memory: Memory,
    sockets: Sockets,
    /// TCP connections that the kernel half did not know any more when it was asked last.
    missing: HashSet<u64>,
    counters: CaptureCounters,
    /// Connections that another agent has read until now, and how far the kernel half was then.
    begun: HashMap<u64, [abi::Stream; 2]>,
    /// When the latest record was made; nanoseconds since boot.
    latest_ns: u64,
}

impl Capture {
    /// Nothing captured yet. `outside` is asked for what records do not say.
    pub fn new(limits: CaptureLimits, outside: &'static dyn Processes) -> Self {
        Self {
            memory: Memory::new(limits.reassembly_bytes, limits.per_uid_bytes),
            // Half of the connections are for those over stdio.
            sockets: Sockets::new(
                limits.message_bytes,
                limits.reassembly_bytes,
                limits.connections / 2,
                outside,
            ),
            outside,
            missing: HashSet::new(),
            limits,
            connections: HashMap::new(),
            processes: HashMap::new(),
            forgotten: HashSet::new(),
            forgotten_order: VecDeque::new(),
            counters: CaptureCounters::default(),
            begun: HashMap::new(),
            latest_ns: 0,
        }
    }

    /// What was refused or odd so far.
    pub fn counters(&self) -> &CaptureCounters {
        &self.counters
    }

    /// When the latest record was made, in nanoseconds since boot. Records come nearly in order.
    pub fn latest_ns(&self) -> u64 {
        self.latest_ns
    }

    /// Takes one record in. Gives back those of connections to addresses, of which others know more.
    pub fn record(
        &mut self,
        bytes: &[u8],
        clock: &BootTime,
        now: Timestamp,
        sink: &mut dyn FnMut(Input<'_>),
    ) -> Option<SideRecord> {
        self.counters.records += 1;
        let Some(record) = parse(bytes) else {
            self.counters.malformed_records += 1;
            return None;
        };
        let header = *record.header();
        self.latest_ns = header.time_ns;
        match record {
            Record::Exec(_, info, argv) => self.exec(header, &info, argv, clock, now, sink),
            Record::Exit(_) => self.exit(&header, clock, sink),
            Record::Data(_, data) => {
                self.counters.bytes += data.len() as u64;
                self.bytes(header, data, clock, now, sink);
            }
            Record::Gap(_) => self.bytes(header, &[], clock, now, sink),
            Record::Refused(_, data) => self.refused(header.connection, data),
            Record::Gate(_, info) => {
                self.gate(&header, &info, clock, sink);
                return Some(SideRecord::Gate(header, info));
            }
            Record::Connect(_, info) => return Some(SideRecord::Connect(header, info)),
            Record::Socket(_, info) => return Some(SideRecord::Socket(header, info)),
            Record::SocketClosed(_, streams) => {
                self.settle(header.connection, &streams, now, sink);
                self.close(header.connection, clock, now, sink);
            }
        }
        self.keep_within_bounds(header.connection, clock, now, sink);
        None
    }

    /// Another agent has read these connections until now, and the kernel half is so far by now.
    pub fn begin_at(&mut self, streams: &[(u64, [abi::Stream; 2])]) {
        self.begun = streams.iter().copied().collect();
    }

    /// All that waited in the ring for this agent is read: it is handed on as it went by, requests before their answers.
    pub fn go_on(&mut self, sink: &mut dyn FnMut(Input<'_>)) {
        let streams = self.connections.keys().flat_map(|id| [(*id, 0), (*id, 1)]);
        let mut next: BinaryHeap<_> = streams.map(|(id, index)| Reverse((Timestamp(0), id, index))).collect();
        while let Some(Reverse((_, id, index))) = next.pop() {
            let last = next.peek().map_or(Timestamp(u64::MAX), |Reverse((time, ..))| *time);
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            let out = &mut Outlet { sockets: &mut self.sockets, counters: &mut self.counters, sink };
            if let Some(time) = connection.streams[index].go_on_until(last, out) {
                next.push(Reverse((time, id, index)));
            }
            account(&mut self.memory, connection, index);
        }
    }

    /// Another agent goes on behind what was read by now: what waits is handed on as it is, and of messages of which that one
    /// will see the end only, nobody has the whole.
    pub fn leave(&mut self, clock: &BootTime, now: Timestamp, sink: &mut dyn FnMut(Input<'_>)) {
        let waiting = self.connections.iter().filter(|(_, connection)| !connection.early.is_empty());
        for id in waiting.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.release_early(id, clock, now, sink);
        }
        for connection in self.connections.values_mut() {
            for stream in &mut connection.streams {
                let out = &mut Outlet { sockets: &mut self.sockets, counters: &mut self.counters, sink };
                stream.stop_waiting(GapCause::AgentEnded, out);
                self.counters.missing_bytes += stream.discard_frame(now, GapCause::AgentEnded, out);
            }
        }
    }

    /// Whether the program of a connection's server is known: somebody saw it start, or found it running.
    pub fn is_known(&self, id: u64) -> bool {
        self.connections.get(&id).is_some_and(|connection| connection.is_known)
    }

    /// Makes sure that the connection is known; false where it is refused.
    fn open(&mut self, id: u64, now: Timestamp) -> bool {
        if !self.connections.contains_key(&id) {
            if self.forgotten.contains(&id) {
                return false;
            }
            if self.connections.len() >= self.limits.connections {
                self.counters.connections_refused += 1;
                return false;
            }
            let limits = Limits { max_frame_bytes: self.limits.message_bytes, ..Limits::default() };
            let stream = |direction| Stream::new(ConnectionId(id), direction, limits);
            let mut fresh = Connection {
                account: Account::default(),
                client: None,
                is_known: false,
                described: false,
                since: now,
                early: Vec::new(),
                early_bytes: 0,
                streams: [stream(Direction::ClientToServer), stream(Direction::ServerToClient)],
                refused: Vec::new(),
                pids: Vec::new(),
            };
            if let Some(begun) = self.begun.remove(&id) {
                fresh.streams.iter_mut().zip(&begun).for_each(|(stream, at)| stream.begin_at(at));
            }
            self.connections.insert(id, fresh);
        }
        true
    }

    fn exec(
        &mut self,
        header: abi::RecordHeader,
        info: &abi::ExecInfo,
        argv: &[u8],
        clock: &BootTime,
        now: Timestamp,
        sink: &mut dyn FnMut(Input<'_>),
    ) {
        // The agent itself, run with pipes by somebody: its output must not become its input.
        if header.pid == std::process::id() {
            return;
        }
        let adopted = header.flags & abi::FLAG_ADOPTED != 0;
        let mut process = Process {
            pid: header.pid,
            start_ns: info.start_ns,
            // Of an adopted process the kernel half tells neither.
            uid: (!adopted).then_some(info.uid),
            cgroup_id: (!adopted).then_some(info.cgroup_id),
            argv: split_argv(argv),
            argv_truncated: header.flags & abi::FLAG_ARGV_TRUNCATED != 0,
            ancestors: info.ancestors.iter().copied().filter(|pid| *pid != 0).collect(),
            ..Process::default()
        };
        self.outside.complete(&mut process);
        let id = header.connection;
        if !self.open(id, now) {
            return;
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.is_known = true;
        if connection.client.is_none() {
            let is_fork = header.flags & abi::FLAG_PARENT_IS_FORK != 0;
            let known = info.parent_cgroup_id != 0;
            let parent = Parent {
                start_ns: info.parent_start_ns,
                uid: known.then_some(info.parent_uid),
                cgroup_id: known.then_some(info.parent_cgroup_id),
            };
            connection.client = self.outside.client(&process.ancestors, parent, is_fork);
        }
        if connection.account.owner().is_none() {
            self.memory.assign(&mut connection.account, process.uid);
        }
        if !connection.pids.contains(&header.pid) {
            connection.pids.push(header.pid);
            self.processes.entry(header.pid).or_default().push(id);
        }
        let client = connection.client.clone();
        sink(Input::Exec(Exec {
            connection: ConnectionId(id),
            time: clock.wall(header.time_ns),
            adopted,
            process,
            client,
            session: None,
        }));
        self.release_early(id, clock, now, sink);
    }

    /// Takes in what came before the exec record.
    fn release_early(&mut self, id: u64, clock: &BootTime, now: Timestamp, sink: &mut dyn FnMut(Input<'_>)) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.described = true;
        connection.early_bytes = 0;
        self.memory.set(&mut connection.account, Hold::Early, 0);
        for (header, data) in std::mem::take(&mut connection.early) {
            self.bytes(header, &data, clock, now, sink);
        }
    }

    fn exit(&mut self, header: &abi::RecordHeader, clock: &BootTime, sink: &mut dyn FnMut(Input<'_>)) {
        let time = clock.wall(header.time_ns);
        for id in self.processes.remove(&header.pid).unwrap_or_default() {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.pids.retain(|pid| *pid != header.pid);
                let status = Some(record::exit_status(header.value));
                sink(Input::Exit { connection: ConnectionId(id), pid: header.pid, time, status });
            }
        }
    }

    fn bytes(
        &mut self,
        header: abi::RecordHeader,
        data: &[u8],
        clock: &BootTime,
        now: Timestamp,
        sink: &mut dyn FnMut(Input<'_>),
    ) {
        let id = header.connection;
        if !self.open(id, now) {
            return;
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if !connection.described {
            connection.early_bytes += data.len() + RECORD_BYTES;
            connection.early.push((header, data.to_vec()));
            self.memory.set(&mut connection.account, Hold::Early, connection.early_bytes);
            if connection.early_bytes > EXEC_WAITING_BYTES {
                self.counters.execs_not_awaited += 1;
                self.release_early(id, clock, now, sink);
            }
            return;
        }
        let (index, offset, time) =
            (usize::from(header.direction & 1), header.offset, clock.wall(header.time_ns));
        let stream = &mut connection.streams[index];
        let out = &mut Outlet { sockets: &mut self.sockets, counters: &mut self.counters, sink };
        if header.kind == abi::RECORD_GAP {
            let (bytes, cause) = (u64::from(header.value), record::cause(header.cause));
            stream.missing(MissingRange { offset, bytes, cause, pid: Some(header.pid), time }, now, out);
        } else {
            let refused = u64::from(header.value);
            stream.data(Position { offset, time, refused }, data, now, out);
        }
        account(&mut self.memory, connection, index);
    }

    /// Bytes of a write that is refused; more than the gate sends of one are not kept.
    fn refused(&mut self, id: u64, data: &[u8]) {
        if let Some(connection) = self.connections.get_mut(&id)
            && connection.refused.len() + data.len() <= abi::GATE_WINDOW_MOST as usize
        {
            connection.refused.extend_from_slice(data);
        }
    }

    /// The gate did something to a write.
    fn gate(
        &mut self,
        header: &abi::RecordHeader,
        info: &abi::GateInfo,
        clock: &BootTime,
        sink: &mut dyn FnMut(Input<'_>),
    ) {
        let Some(connection) = self.connections.get_mut(&header.connection) else { return };
        let bytes = std::mem::take(&mut connection.refused);
        let stream = &mut connection.streams[usize::from(abi::CLIENT_TO_SERVER)];
        match info.action {
            abi::GATE_NEUTRALIZED => stream.neutralize(header.offset, info.original),
            abi::GATE_REFUSED => {
                let out = &mut Outlet { sockets: &mut self.sockets, counters: &mut self.counters, sink };
                stream.refuse(header.offset, bytes, clock.wall(header.time_ns), out);
            }
            _ => {}
        }
    }

    /// Gives up what is held, largest first, until everybody is within his bound: `id` may hold more than before.
    fn keep_within_bounds(
        &mut self,
        id: u64,
        clock: &BootTime,
        now: Timestamp,
        sink: &mut dyn FnMut(Input<'_>),
    ) {
        let owner = self.connections.get(&id).and_then(|connection| connection.account.owner());
        // Each turn ends a hold, and a turn that ends records' waiting begins an unfinished frame at most.
        while let Some(over) = self.memory.over(owner) {
            let largest = self
                .connections
                .iter()
                .filter(|(_, connection)| connection.account.owner() == over)
                .filter_map(|(id, connection)| Some((connection.account.largest()?, *id)))
                .max();
            let Some(((_, hold), id)) = largest else { return };
            self.give_up(id, hold, clock, now, sink);
        }
    }

    /// Gives up one thing that is held. Only a gap says so, or nothing where nothing is missing for it.
    fn give_up(
        &mut self,
        id: u64,
        hold: Hold,
        clock: &BootTime,
        now: Timestamp,
        sink: &mut dyn FnMut(Input<'_>),
    ) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let out = &mut Outlet { sockets: &mut self.sockets, counters: &mut self.counters, sink };
        let (index, missing) = match hold {
            Hold::Early => {
                self.counters.execs_not_awaited += 1;
                self.release_early(id, clock, now, sink);
                return;
            }
            Hold::Frame(index) => {
                (index, connection.streams[index].discard_frame(now, GapCause::Memory, out))
            }
            Hold::Waiting(index) => (index, connection.streams[index].stop_waiting(GapCause::Memory, out)),
        };
        self.counters.memory_refused_frames += 1;
        self.counters.memory_refused_bytes += missing;
        account(&mut self.memory, connection, index);
    }

    /// When [`Self::tick`] has something to do.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.connections
            .values()
            .flat_map(|connection| {
                let early = (!connection.early.is_empty()).then(|| connection.since.after(EXEC_PATIENCE));
                let [a, b] = &connection.streams;
                [early, a.deadline(), b.deadline()]
            })
            .flatten()
            .min()
    }

    /// Gives up waiting where the time is over.
    pub fn tick(&mut self, clock: &BootTime, now: Timestamp, sink: &mut dyn FnMut(Input<'_>)) {
        let mut overdue = Vec::new();
        for (id, connection) in &mut self.connections {
            if !connection.described
                && !connection.early.is_empty()
                && connection.since.after(EXEC_PATIENCE) <= now
            {
                overdue.push(*id);
            }
            for index in 0..2 {
                let out = &mut Outlet { sockets: &mut self.sockets, counters: &mut self.counters, sink };
                connection.streams[index].tick(now, out);
                account(&mut self.memory, connection, index);
            }
        }
        for id in overdue {
            self.counters.execs_not_awaited += 1;
            self.release_early(id, clock, now, sink);
        }
        // What waited is frames by now, whosever they are.
        self.keep_within_bounds(0, clock, now, sink);
    }

    /// Compares with the kernel's positions, when everything in the ring was read. See [`Stream::look`].
    pub fn look(
        &mut self,
        id: u64,
        kernel: &[abi::Stream; 2],
        now: Timestamp,
        sink: &mut dyn FnMut(Input<'_>),
    ) {
        self.each_stream(id, sink, |index, stream, out| stream.look(&kernel[index], now, out));
    }

    /// The directions of a connection of which it is to be found out whether bytes went by unseen: whether somebody on
    /// the client's side is in the middle of a call, and how much waits to be read.
    pub fn suspects(&self, id: u64) -> [bool; 2] {
        let described = self.connections.get(&id).filter(|connection| connection.described);
        let streams = described.map(|connection| &connection.streams);
        [0, 1].map(|index| streams.is_some_and(|streams| streams[index].is_suspect()))
    }

    /// Nobody on the client's side is in the middle of a call in the directions that have a number: how many bytes wait
    /// to be read there, at most. See [`Stream::judge`].
    pub fn judge(
        &mut self,
        id: u64,
        kernel: &[abi::Stream; 2],
        waiting: [Option<u64>; 2],
        now: Timestamp,
        sink: &mut dyn FnMut(Input<'_>),
    ) {
        self.each_stream(id, sink, |index, stream, out| {
            if let Some(waiting) = waiting[index] {
                stream.judge(&kernel[index], waiting, now, out);
            }
        });
    }

    /// Nobody holds the connection any more, and everything in the ring was read. See [`Stream::settle`].
    pub fn settle(
        &mut self,
        id: u64,
        kernel: &[abi::Stream; 2],
        now: Timestamp,
        sink: &mut dyn FnMut(Input<'_>),
    ) {
        let spoken = self
            .connections
            .get(&id)
            .is_some_and(|connection| connection.streams.iter().any(Stream::has_frames));
        self.each_stream(id, sink, |index, stream, out| {
            stream.settle(&kernel[index], spoken, now, out);
        });
    }

    /// Does something with both streams of a connection whose exec record came.
    fn each_stream(
        &mut self,
        id: u64,
        sink: &mut dyn FnMut(Input<'_>),
        mut body: impl FnMut(usize, &mut Stream, &mut Outlet<'_>),
    ) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if !connection.described {
            return;
        }
        for index in 0..2 {
            let out = &mut Outlet { sockets: &mut self.sockets, counters: &mut self.counters, sink };
            body(index, &mut connection.streams[index], out);
            account(&mut self.memory, connection, index);
        }
    }

    /// Forgets a connection that is none of ours.
    pub fn forget(&mut self, id: u64) {
        if self.forgotten.insert(id) {
            self.forgotten_order.push_back(id);
            if self.forgotten_order.len() > FORGOTTEN
                && let Some(oldest) = self.forgotten_order.pop_front()
            {
                self.forgotten.remove(&oldest);
            }
        }
        let Some(connection) = self.connections.remove(&id) else { return };
        self.memory.release(&connection.account);
        for pid in connection.pids {
            if let Some(ids) = self.processes.get_mut(&pid) {
                ids.retain(|known| *known != id);
                if ids.is_empty() {
                    self.processes.remove(&pid);
                }
            }
        }
    }

    /// Nobody holds the connection any more: finishes its streams and says so.
    pub fn close(&mut self, id: u64, clock: &BootTime, now: Timestamp, sink: &mut dyn FnMut(Input<'_>)) {
        self.release_early(id, clock, now, sink);
        if let Some(connection) = self.connections.get_mut(&id) {
            for stream in &mut connection.streams {
                stream.finish(
                    now,
                    &mut Outlet { sockets: &mut self.sockets, counters: &mut self.counters, sink },
                );
            }
            if id & abi::SOCKET == 0 {
                sink(Input::Closed { connection: ConnectionId(id), time: now });
            }
        }
        self.forget(id);
        if id & abi::SOCKET != 0 {
            self.missing.remove(&id);
            self.sockets.close(id, now, sink);
        }
    }
}

/// What a direction of a connection holds now.
fn account(memory: &mut Memory, connection: &mut Connection, index: usize) {
    let (frame, waiting) = connection.streams[index].held();
    memory.set(&mut connection.account, Hold::Frame(index), frame);
    memory.set(&mut connection.account, Hold::Waiting(index), waiting);
}
