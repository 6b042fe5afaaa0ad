//! From records to frames: which connection, in which order, what is missing.
//!
//! Knows loss, order and identity; knows nothing of JSON-RPC. Its input is records of the ring and positions
//! read from the kernel's tables, its output the policy core's [`Input`]s. Every backend ends in the same
//! records, so nothing here depends on how they were captured.

mod order;
pub mod record;

use std::collections::{HashMap, HashSet, VecDeque};

use mcpwarden_abi as abi;
use mcpwarden_policy::{
    ConnectionId, Cut, Direction, Exec, ExitStatus, FrameCutter, GapCause, Input, Limits, Process, Timestamp,
};

use crate::{
    clock::Clock,
    process::{client, complete, split_argv},
};
use order::{Order, Stretch};
use record::Record;

/// How long records wait for the exec record of their connection: a parent can write before it comes.
const EXEC_PATIENCE: std::time::Duration = std::time::Duration::from_millis(200);
/// How many bytes of one connection wait so.
const EXEC_WAITING_BYTES: usize = 4 << 20;

/// How many forgotten connections are remembered: records of theirs may still lie in the ring.
const FORGOTTEN: usize = 4096;

/// Bounds of what input can make grow. Bytes.
#[derive(Clone, Debug)]
pub struct CaptureLimits {
    /// Longest frame.
    pub message_bytes: usize,
    /// Unfinished frames of all streams together.
    pub reassembly_bytes: usize,
    /// Unfinished frames of one user's servers.
    pub per_uid_bytes: usize,
    /// Connections known at once.
    pub connections: usize,
}

impl Default for CaptureLimits {
    fn default() -> Self {
        Self {
            // 16 MiB of content, and its envelope.
            message_bytes: (16 << 20) + (64 << 10),
            reassembly_bytes: 96 << 20,
            per_uid_bytes: 48 << 20,
            connections: 8_192,
        }
    }
}

/// What was refused or odd, in numbers. They only grow.
#[derive(Clone, Debug, Default)]
pub struct CaptureCounters {
    /// Records read.
    pub records: u64,
    /// Bytes of channels in them.
    pub bytes: u64,
    /// Records that could not be taken apart.
    pub malformed_records: u64,
    /// Bytes declared missing.
    pub missing_bytes: u64,
    /// Unfinished frames given up because memory was short.
    pub memory_refused_frames: u64,
    /// Bytes in them.
    pub memory_refused_bytes: u64,
    /// Connections refused because there were too many.
    pub connections_refused: u64,
}

/// One direction of one connection.
struct Stream {
    order: Order,
    cutter: FrameCutter,
    /// Bytes of unfinished frames that are accounted for.
    held: usize,
    /// The kernel's position when last looked at.
    position: u64,
    /// How far the server's side was ahead of the client's when last looked at.
    ahead: u64,
    /// How much of that was reported.
    ahead_reported: u64,
}

struct Connection {
    uid: u32,
    /// Known once the first exec record came.
    client: Option<Process>,
    described: bool,
    since: Timestamp,
    /// Records that came before the exec record.
    early: Vec<(abi::RecordHeader, Vec<u8>)>,
    early_bytes: usize,
    streams: [Stream; 2],
    pids: Vec<u32>,
}

/// All streams.
pub struct Capture {
    limits: CaptureLimits,
    connections: HashMap<u64, Connection>,
    /// Which connections a process is part of.
    processes: HashMap<u32, Vec<u64>>,
    forgotten: HashSet<u64>,
    forgotten_order: VecDeque<u64>,
    held: usize,
    held_by_uid: HashMap<u32, usize>,
    counters: CaptureCounters,
}

fn direction(index: u8) -> Direction {
    if index == abi::SERVER_TO_CLIENT { Direction::ServerToClient } else { Direction::ClientToServer }
}

fn cause(code: u8) -> GapCause {
    match code {
        abi::GAP_SPLICE => GapCause::Splice,
        abi::GAP_VMSPLICE => GapCause::Vmsplice,
        abi::GAP_TEE => GapCause::Tee,
        abi::GAP_SENDFILE => GapCause::Sendfile,
        abi::GAP_IO_URING => GapCause::IoUringFixed,
        abi::GAP_STARTED_LATE => GapCause::StartedLate,
        abi::GAP_UNREADABLE | abi::GAP_TOO_MANY_BUFFERS => GapCause::Unreadable,
        _ => GapCause::RingFull,
    }
}

/// `wait(2)`: the low seven bits are the signal, the next byte the code.
fn exit_status(status: u32) -> ExitStatus {
    match status & 0x7f {
        0 => ExitStatus::Code((status >> 8 & 0xff) as i32),
        signal => ExitStatus::Signal(signal as i32),
    }
}

impl Capture {
    /// Nothing captured yet.
    pub fn new(limits: CaptureLimits) -> Self {
        Self {
            limits,
            connections: HashMap::new(),
            processes: HashMap::new(),
            forgotten: HashSet::new(),
            forgotten_order: VecDeque::new(),
            held: 0,
            held_by_uid: HashMap::new(),
            counters: CaptureCounters::default(),
        }
    }

    /// What was refused or odd so far.
    pub fn counters(&self) -> &CaptureCounters {
        &self.counters
    }

    /// Takes one record in.
    pub fn record(&mut self, bytes: &[u8], clock: &Clock, now: Timestamp, sink: &mut impl FnMut(Input<'_>)) {
        self.counters.records += 1;
        match record::parse(bytes) {
            None => self.counters.malformed_records += 1,
            Some(Record::Exec(header, info, argv)) => self.exec(header, &info, argv, clock, now, sink),
            Some(Record::Exit(header)) => self.exit(&header, clock, sink),
            Some(Record::Data(header, data)) => {
                self.counters.bytes += data.len() as u64;
                self.bytes(header, data, clock, now, sink);
            }
            Some(Record::Gap(header)) => self.bytes(header, &[], clock, now, sink),
        }
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
            let stream = || Stream {
                order: Order::default(),
                cutter: FrameCutter::new(limits),
                held: 0,
                position: 0,
                ahead: 0,
                ahead_reported: 0,
            };
            let fresh = Connection {
                uid: 0,
                client: None,
                described: false,
                since: now,
                early: Vec::new(),
                early_bytes: 0,
                streams: [stream(), stream()],
                pids: Vec::new(),
            };
            self.connections.insert(id, fresh);
        }
        true
    }

    fn exec(
        &mut self,
        header: abi::RecordHeader,
        info: &abi::ExecInfo,
        argv: &[u8],
        clock: &Clock,
        now: Timestamp,
        sink: &mut impl FnMut(Input<'_>),
    ) {
        // The agent itself, run with pipes by somebody: its output must not become its input.
        if header.pid == std::process::id() {
            return;
        }
        let adopted = header.flags & abi::FLAG_ADOPTED != 0;
        let mut process = Process {
            pid: header.pid,
            start_ns: info.start_ns,
            uid: info.uid,
            cgroup_id: info.cgroup_id,
            argv: split_argv(argv),
            argv_truncated: header.flags & abi::FLAG_ARGV_TRUNCATED != 0,
            cwd: None,
            executable: None,
            ancestors: info.ancestors.iter().copied().filter(|pid| *pid != 0).collect(),
        };
        complete(&mut process);
        let id = header.connection;
        if !self.open(id, now) {
            return;
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.client.is_none() {
            let is_fork = header.flags & abi::FLAG_PARENT_IS_FORK != 0;
            connection.client = client(&process.ancestors, info.parent_start_ns, is_fork);
        }
        let first = !connection.described;
        connection.described = true;
        if first {
            connection.uid = process.uid;
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
        }));
        if first {
            self.release_early(id, clock, now, sink);
        }
    }

    /// Takes in what came before the exec record.
    fn release_early(&mut self, id: u64, clock: &Clock, now: Timestamp, sink: &mut impl FnMut(Input<'_>)) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.described = true;
        connection.early_bytes = 0;
        for (header, data) in std::mem::take(&mut connection.early) {
            self.bytes(header, &data, clock, now, sink);
        }
    }

    fn exit(&mut self, header: &abi::RecordHeader, clock: &Clock, sink: &mut impl FnMut(Input<'_>)) {
        let time = clock.wall(header.time_ns);
        for id in self.processes.remove(&header.pid).unwrap_or_default() {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.pids.retain(|pid| *pid != header.pid);
                let status = Some(exit_status(header.value));
                sink(Input::Exit { connection: ConnectionId(id), pid: header.pid, time, status });
            }
        }
    }

    fn bytes(
        &mut self,
        header: abi::RecordHeader,
        data: &[u8],
        clock: &Clock,
        now: Timestamp,
        sink: &mut impl FnMut(Input<'_>),
    ) {
        let id = header.connection;
        if !self.open(id, now) {
            return;
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if !connection.described {
            connection.early_bytes += data.len();
            connection.early.push((header, data.to_vec()));
            if connection.early_bytes > EXEC_WAITING_BYTES {
                self.release_early(id, clock, now, sink);
            }
            return;
        }
        let index = usize::from(header.direction & 1);
        let time = clock.wall(header.time_ns);
        let Stream { order, cutter, .. } = &mut connection.streams[index];
        let counters = &mut self.counters;
        let mut cut = |stretch: Stretch<'_>| feed(id, index as u8, cutter, stretch, counters, sink);
        if header.kind == abi::RECORD_GAP {
            let lost = u64::from(header.value);
            order.hole(header.offset, lost, header.cause, header.pid, time, now, &mut cut);
        } else {
            order.data(header.offset, data, time, now, &mut cut);
        }
        self.account(id, index, now, sink);
    }

    /// Keeps the sum of unfinished frames within bounds: the longest is given up, whosever frame exceeded them. So
    /// nobody's stream suffers for another's that never ends.
    fn account(&mut self, id: u64, index: usize, now: Timestamp, sink: &mut impl FnMut(Input<'_>)) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let uid = connection.uid;
        let stream = &mut connection.streams[index];
        let (before, held) = (stream.held, stream.cutter.pending_bytes());
        if held == before {
            return;
        }
        stream.held = held;
        self.held = self.held - before + held;
        let of_uid = self.held_by_uid.entry(uid).or_default();
        *of_uid = *of_uid - before + held;
        if *of_uid == 0 {
            self.held_by_uid.remove(&uid);
        } else if *of_uid > self.limits.per_uid_bytes {
            self.refuse(Some(uid), now, sink);
        }
        if self.held > self.limits.reassembly_bytes {
            self.refuse(None, now, sink);
        }
    }

    /// Gives up the longest unfinished frame, of one user's or of all.
    fn refuse(&mut self, uid: Option<u32>, now: Timestamp, sink: &mut impl FnMut(Input<'_>)) {
        let longest = self
            .connections
            .iter()
            .filter(|(_, connection)| uid.is_none_or(|uid| connection.uid == uid))
            .flat_map(|(id, connection)| [0, 1].map(|index| (connection.streams[index].held, *id, index)))
            .max();
        let Some((held, id, index)) = longest else { return };
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.streams[index].held = 0;
        self.held -= held;
        if let Some(of_uid) = self.held_by_uid.get_mut(&connection.uid) {
            *of_uid -= held;
            if *of_uid == 0 {
                self.held_by_uid.remove(&connection.uid);
            }
        }
        let mut bytes = 0;
        connection.streams[index].cutter.discard_pending(&mut |cut| {
            if let Cut::Lost { bytes: lost } | Cut::Junk { bytes: lost, .. } = cut {
                bytes += lost;
            }
        });
        self.counters.memory_refused_frames += 1;
        self.counters.memory_refused_bytes += bytes;
        sink(Input::Gap {
            connection: ConnectionId(id),
            direction: direction(index as u8),
            time: now,
            bytes,
            cause: GapCause::Memory,
            pid: None,
            offset: None,
        });
    }

    /// When [`Self::tick`] has something to do.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.connections
            .values()
            .flat_map(|connection| {
                let early = (!connection.early.is_empty()).then(|| connection.since.after(EXEC_PATIENCE));
                let [a, b] = &connection.streams;
                [early, a.order.deadline(), b.order.deadline()]
            })
            .flatten()
            .min()
    }

    /// Gives up waiting where the time is over.
    pub fn tick(&mut self, clock: &Clock, now: Timestamp, sink: &mut impl FnMut(Input<'_>)) {
        let mut overdue = Vec::new();
        for (id, connection) in &mut self.connections {
            if !connection.described
                && !connection.early.is_empty()
                && connection.since.after(EXEC_PATIENCE) <= now
            {
                overdue.push(*id);
            }
            for (index, Stream { order, cutter, .. }) in connection.streams.iter_mut().enumerate() {
                let counters = &mut self.counters;
                order.tick(now, &mut |stretch| feed(*id, index as u8, cutter, stretch, counters, sink));
            }
        }
        for id in overdue {
            self.release_early(id, clock, now, sink);
        }
    }

    /// Whether the server took bytes that nobody was seen to give, for longer than a moment. They may still be seen: a
    /// write of more than fits into the pipe is captured when it returns, and that can take as long as it likes.
    pub fn is_behind(&self, id: u64, kernel: &abi::Connection) -> bool {
        let index = usize::from(abi::CLIENT_TO_SERVER);
        let Some(stream) = self.connections.get(&id).map(|connection| &connection.streams[index]) else {
            return false;
        };
        excess(&kernel.streams[index]).min(stream.ahead) > stream.ahead_reported
    }

    /// Compares with the kernel's positions, when everything in the ring was read: what the kernel counted and
    /// never sent is missing, and so is what the server took and nobody was seen to give, unless somebody is `writing`.
    ///
    /// Either must be so twice: a position moves when a call begins to be captured, and that takes milliseconds for one
    /// of megabytes; and the server's call can return before the client's. But not if this is the `last` look.
    pub fn reconcile(
        &mut self,
        id: u64,
        kernel: &abi::Connection,
        now: Timestamp,
        last: bool,
        writing: bool,
        sink: &mut impl FnMut(Input<'_>),
    ) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if !connection.described {
            return;
        }
        for (index, stream) in connection.streams.iter_mut().enumerate() {
            let positions = kernel.streams[index];
            let Stream { order, cutter, position, ahead, ahead_reported, .. } = stream;
            let counters = &mut self.counters;
            let mut cut = |stretch: Stretch<'_>| feed(id, index as u8, cutter, stretch, counters, sink);
            if last {
                order.give_up(&mut cut);
            }
            let settled = if last { positions.offset } else { *position };
            *position = positions.offset;
            if order.deadline().is_none() {
                order.skip_to(settled, now, &mut cut);
            }
            if index != usize::from(abi::CLIENT_TO_SERVER) {
                continue;
            }
            let excess = excess(&positions);
            let lasting = if last { excess } else { excess.min(*ahead) };
            *ahead = excess;
            if lasting > *ahead_reported && !writing {
                let bytes = lasting - *ahead_reported;
                *ahead_reported = lasting;
                counters.missing_bytes += bytes;
                sink(Input::Gap {
                    connection: ConnectionId(id),
                    direction: Direction::ClientToServer,
                    time: now,
                    bytes,
                    cause: GapCause::Unseen,
                    pid: None,
                    offset: None,
                });
                cutter.gap(bytes, &mut |cut| hand_on(id, index as u8, now, cut, sink));
            }
        }
        for index in 0..2 {
            self.account(id, index, now, sink);
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
        let held: usize = connection.streams.iter().map(|stream| stream.held).sum();
        self.held -= held;
        if let Some(of_uid) = self.held_by_uid.get_mut(&connection.uid) {
            *of_uid -= held;
            if *of_uid == 0 {
                self.held_by_uid.remove(&connection.uid);
            }
        }
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
    pub fn close(&mut self, id: u64, clock: &Clock, now: Timestamp, sink: &mut impl FnMut(Input<'_>)) {
        self.release_early(id, clock, now, sink);
        if let Some(connection) = self.connections.get_mut(&id) {
            for (index, Stream { order, cutter, .. }) in connection.streams.iter_mut().enumerate() {
                let counters = &mut self.counters;
                order.give_up(&mut |stretch| feed(id, index as u8, cutter, stretch, counters, sink));
                cutter.finish(&mut |cut| hand_on(id, index as u8, now, cut, sink));
            }
            sink(Input::Closed { connection: ConnectionId(id), time: now });
        }
        self.forget(id);
    }
}

/// How many bytes the server took that nobody was seen to give.
fn excess(stream: &abi::Stream) -> u64 {
    stream.far.saturating_sub(stream.offset)
}

/// One stretch of a stream, cut into frames.
fn feed(
    id: u64,
    index: u8,
    cutter: &mut FrameCutter,
    stretch: Stretch<'_>,
    counters: &mut CaptureCounters,
    sink: &mut impl FnMut(Input<'_>),
) {
    match stretch {
        Stretch::Bytes(bytes, time) => {
            cutter.push(bytes, time, &mut |cut| hand_on(id, index, time, cut, sink))
        }
        Stretch::Hole { offset, bytes, cause: code, pid, time } => {
            counters.missing_bytes += bytes;
            sink(Input::Gap {
                connection: ConnectionId(id),
                direction: direction(index),
                time,
                bytes,
                cause: cause(code),
                pid,
                offset: Some(offset),
            });
            cutter.gap(bytes, &mut |cut| hand_on(id, index, time, cut, sink));
        }
    }
}

/// What was cut out, as the policy core wants it.
fn hand_on(id: u64, index: u8, time: Timestamp, cut: Cut<'_>, sink: &mut impl FnMut(Input<'_>)) {
    let connection = ConnectionId(id);
    let direction = direction(index);
    match cut {
        Cut::Frame { bytes, time } => sink(Input::Frame { connection, direction, time, bytes }),
        Cut::Junk { bytes, .. } => sink(Input::Junk { connection, direction, time, bytes, broken: false }),
        Cut::TooLong { bytes } => sink(Input::Gap {
            connection,
            direction,
            time,
            bytes,
            cause: GapCause::TooLong,
            pid: None,
            offset: None,
        }),
        // The captured part of a frame whose rest is missing: the hole itself is reported where it is found.
        Cut::Lost { bytes } => sink(Input::Junk { connection, direction, time, bytes, broken: true }),
    }
}
