//! From records to frames: which connection, in which order, what is missing.
//!
//! Knows loss, order and identity; knows nothing of JSON-RPC. Its input is records of the ring and positions
//! read from the kernel's tables; all [`Output`]s go through one [`Sink`]. It reads no clock and no file: time comes in as an
//! argument ([`BootTime`]), and what records do not say of processes from [`Processes`]. Every backend ends in the same
//! records, so nothing here depends on how they were captured.

mod bounds;
mod frames;
mod handover;
mod memory;
mod order;
mod outlet;
mod output;
mod over_tls;
mod positions;
mod pressure;
mod process;
mod processes;
mod record;
pub mod socket;
mod sockets;
mod stream;
#[cfg(test)]
mod tests;
mod time;

use std::collections::{HashMap, HashSet, VecDeque};

use mcpwarden_abi::{
    self as abi,
    record::{Record, parse},
};
use mcpwarden_policy::{ConnectionId, Direction, Input, Limits, Process, Timestamp};

pub use bounds::{CaptureCounters, CaptureLimits};
use frames::Overwritten;
use memory::{Account, Hold, Memory};
use order::{MissingRange, Position, RECORD_BYTES};
use outlet::Outlet;
pub use output::{KernelAction, Output, SideRecord, Sink};
pub use over_tls::TlsCounters;
use pressure::account;
pub use process::{Parent, Processes};
use processes::Started;
use socket::Sockets;
use stream::Stream;
pub use time::BootTime;

/// How long records wait for the exec record of their connection: a parent can write before it comes.
const EXEC_PATIENCE: std::time::Duration = std::time::Duration::from_millis(200);
/// How many bytes of one connection wait so.
const EXEC_WAITING_BYTES: usize = 4 << 20;

/// How many forgotten connections are remembered: records of theirs may still lie in the ring.
const FORGOTTEN: usize = 4096;

struct Connection {
    account: Account,
    /// The user whose share its records take.
    payer: Option<u32>,
    /// Known once the first exec record came.
    client: Option<Process>,
    /// An exec record came; `described`: or is not waited for any more.
    is_known: bool,
    described: bool,
    since: Timestamp,
    /// A start that is not taken in yet: of a process that came by the descriptors without an exec (the server, where no exec
    /// follows), or of a program whose client is not known ([`Connection::awaits_writer`]).
    held: Option<Box<Started>>,
    /// Records that came before the exec record.
    early: Vec<(abi::RecordHeader, Vec<u8>)>,
    early_bytes: usize,
    streams: [Stream; 2],
    /// Bytes of a write that is refused, until all of it is here.
    refused: Vec<u8>,
    pids: Vec<u32>,
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
        }
    }

    /// What was refused or odd so far.
    pub fn counters(&self) -> &CaptureCounters {
        &self.counters
    }

    /// Takes one record in.
    pub fn record(&mut self, bytes: &[u8], clock: &BootTime, now: Timestamp, sink: &mut Sink<'_>) {
        self.counters.records += 1;
        let Some(record) = parse(bytes) else {
            self.counters.malformed_records += 1;
            return;
        };
        let header = *record.header();
        match record {
            Record::Exec(_, info, argv) => self.started(header, &info, argv, clock, now, sink),
            Record::Exit(_) => self.exit(&header, clock, now, sink),
            Record::Data(_, data) => {
                self.counters.bytes += data.len() as u64;
                self.bytes(header, data, clock, now, sink);
            }
            Record::Gap(_) => self.bytes(header, &[], clock, now, sink),
            Record::Refused(_, data) => self.refused(header.connection, data),
            Record::Rewritten(_, text, data) => {
                self.overwritten(&header, Overwritten::rewritten(data, text));
            }
            Record::Gate(_, info) => {
                self.gate(&header, &info, clock, sink);
                return sink(Output::Record(SideRecord::Gate(header, info)));
            }
            Record::Connect(_, info) => return sink(Output::Record(SideRecord::Connect(header, info))),
            Record::Socket(_, info) => return sink(Output::Record(SideRecord::Socket(header, info))),
            Record::SocketClosed(_, closed) => {
                self.settle(header.connection, &closed.streams, now, sink);
                self.sockets.look_at_tls(header.connection, &closed, true, now, sink);
                self.close(header.connection, clock, now, sink);
            }
        }
        if let Some(connection) = self.connections.get_mut(&header.connection) {
            connection.payer = Some(header.uid);
        }
        self.keep_within_bounds(header.connection, clock, now, sink);
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
                payer: None,
                client: None,
                is_known: false,
                described: false,
                since: now,
                held: None,
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

    fn bytes(
        &mut self,
        header: abi::RecordHeader,
        data: &[u8],
        clock: &BootTime,
        now: Timestamp,
        sink: &mut Sink<'_>,
    ) {
        let id = header.connection;
        if !self.open(id, now) {
            return;
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if !connection.described {
            let is_written = header.kind == abi::RECORD_DATA && header.direction == abi::CLIENT_TO_SERVER;
            connection.early_bytes += data.len() + RECORD_BYTES;
            connection.early.push((header, data.to_vec()));
            self.memory.set(&mut connection.account, Hold::Early, connection.early_bytes);
            if connection.early_bytes > EXEC_WAITING_BYTES || connection.awaits_writer() && is_written {
                self.await_no_longer(id, clock, now, sink);
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

    /// The gate has overwritten bytes of a write that are about to come.
    fn overwritten(&mut self, header: &abi::RecordHeader, overwritten: Overwritten) {
        let Some(connection) = self.connections.get_mut(&header.connection) else { return };
        let index = usize::from(abi::CLIENT_TO_SERVER);
        connection.streams[index].overwrite(header.offset, overwritten);
        account(&mut self.memory, connection, index);
    }

    /// The gate did something to a write.
    fn gate(
        &mut self,
        header: &abi::RecordHeader,
        info: &abi::GateInfo,
        clock: &BootTime,
        sink: &mut Sink<'_>,
    ) {
        if info.action == abi::GATE_NEUTRALIZED && info.is_rewritten == 0 {
            return self.overwritten(header, Overwritten::byte(info.original));
        }
        let Some(connection) = self.connections.get_mut(&header.connection) else { return };
        let bytes = std::mem::take(&mut connection.refused);
        let stream = &mut connection.streams[usize::from(abi::CLIENT_TO_SERVER)];
        if info.action == abi::GATE_REFUSED {
            let out = &mut Outlet { sockets: &mut self.sockets, counters: &mut self.counters, sink };
            stream.refuse(header.offset, bytes, clock.wall(header.time_ns), out);
        }
    }

    /// When [`Self::tick`] has something to do.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.connections
            .values()
            .flat_map(|connection| {
                let early = connection.waits().then(|| connection.since.after(EXEC_PATIENCE));
                let [a, b] = &connection.streams;
                [early, a.deadline(), b.deadline()]
            })
            .flatten()
            .min()
    }

    /// Gives up waiting where the time is over. Not where `is_behind` says that records of the user were captured and not yet
    /// taken in: what is waited for may be among them.
    pub fn tick(
        &mut self,
        is_behind: &dyn Fn(u32) -> bool,
        clock: &BootTime,
        now: Timestamp,
        sink: &mut Sink<'_>,
    ) {
        let mut overdue = Vec::new();
        for (id, connection) in &mut self.connections {
            if connection.payer.is_some_and(is_behind) {
                continue;
            }
            if connection.waits() && connection.since.after(EXEC_PATIENCE) <= now {
                overdue.push(*id);
            }
            for index in 0..2 {
                let out = &mut Outlet { sockets: &mut self.sockets, counters: &mut self.counters, sink };
                connection.streams[index].tick(now, out);
                account(&mut self.memory, connection, index);
            }
        }
        for id in overdue {
            self.await_no_longer(id, clock, now, sink);
        }
        // What waited is frames by now, whosever they are.
        self.keep_within_bounds(0, clock, now, sink);
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
    pub fn close(&mut self, id: u64, clock: &BootTime, now: Timestamp, sink: &mut Sink<'_>) {
        let waits = self.connections.get(&id).is_some_and(Connection::waits);
        if !(waits && self.serve_held(id, clock, now, sink)) {
            self.release_early(id, clock, now, sink);
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            for stream in &mut connection.streams {
                stream.finish(
                    now,
                    &mut Outlet { sockets: &mut self.sockets, counters: &mut self.counters, sink },
                );
            }
        }
        // Of one that is not captured any more it may be known that it is a server's.
        let is_known = self.connections.contains_key(&id) || self.forgotten.contains(&id);
        if is_known && id & abi::SOCKET == 0 {
            sink(Input::Closed { connection: ConnectionId(id), time: now }.into());
        }
        self.forget(id);
        if id & abi::SOCKET != 0 {
            self.missing.remove(&id);
            self.sockets.close(id, now, sink);
        }
    }
}
