//! What both halves of mcpwarden share: records in the ring, map keys and values, the kernel layout.
//!
//! Everything here is `#[repr(C)]`, without padding that is not named, and without behaviour. The
//! kernel half writes records, the agent reads them; neither may assume more than is written here.
#![no_std]

#[cfg(test)]
extern crate std;

/// Says of types that they are [`record::Plain`]: `repr(C)`, only integers, no padding, every bit pattern valid.
#[cfg(feature = "user")]
macro_rules! plain {
    ($($name:ident),+ $(,)?) => {
        $(
            // SAFETY: as the macro says.
            unsafe impl $crate::record::Plain for $name {}
            #[cfg(feature = "aya")]
            // SAFETY: as the macro says.
            unsafe impl aya::Pod for $name {}
        )+
    };
}

mod gate;
mod network;
#[cfg(feature = "user")]
pub mod record;
pub use gate::*;
pub use network::*;

/// Identifies one connection (two channels) for the life of the agent. Never 0, never reused.
pub type ConnectionId = u64;

/// Set in the number of a connection of TCP or Unix sockets, and in the key by which the kernel half finds it. The rest of the
/// key is the cookie of the client's socket, over TCP: one socket can have several connections, one after the other.
pub const SOCKET: ConnectionId = 1 << 62;

/// Set in the number of a connection of Unix sockets, which is its key, too: such a socket has one connection at most.
pub const UNIX: ConnectionId = 1 << 61;

/// The client's bytes on their way to the server.
pub const CLIENT_TO_SERVER: u8 = 0;
/// The server's bytes on their way to the client.
pub const SERVER_TO_CLIENT: u8 = 1;

/// A channel as the kernel knows it: an inode of a pipe or of one end of a socket pair.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelKey {
    /// `inode.i_ino`; 0 for "none".
    pub inode: u64,
    /// `super_block.s_dev` in the kernel's own encoding (major << 20 | minor).
    pub device: u32,
    /// Which of those that had the number, which comes round after 2^32 pipes and sockets: where its inode lies in memory, from
    /// its superblock on.
    pub generation: u32,
}

/// What a read or a write on one inode means. One inode can play several roles (`server | tee`).
/// Each field names a connection, or is 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channel {
    /// A write here is the client speaking: capture it as client-to-server bytes.
    pub write_capture: ConnectionId,
    /// A read here is the client listening: capture it as server-to-client bytes.
    pub read_capture: ConnectionId,
    /// A write here is the server speaking: count it.
    pub write_count: ConnectionId,
    /// A read here is the server listening: count it.
    pub read_count: ConnectionId,
}

/// How much of a direction was captured, and how much the far side says there was. Bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// Bytes that passed the client's side, captured or known to be lost. The next record's offset.
    pub offset: u64,
    /// Bytes that passed the server's side; over TCP the client's, by the kernel's own count, as of the last fd scan.
    pub far: u64,
    /// Of `offset`: bytes that were not captured, because the budget of a candidate was spent.
    pub refused: u64,
}

/// A process with two channels that nothing is known of yet.
pub const STATE_CANDIDATE: u32 = 0;
/// The first byte of its requests can begin a message: until user space decides, [`SUSPECT_BYTES`] are captured, and more
/// while less than half of the ring is in use.
pub const STATE_PLAUSIBLE: u32 = 1;
/// The first byte of its requests cannot begin a message: only [`SUSPECT_BYTES`] are captured.
pub const STATE_SUSPECT: u32 = 2;
/// User space says that it is an MCP server.
pub const STATE_CONFIRMED: u32 = 3;
/// A connection of sockets that nobody declared, over which nothing has gone yet.
pub const STATE_UNHEARD: u32 = 4;
/// The same of one that was open before the agent started: what goes first may be the middle of a message.
pub const STATE_OPEN: u32 = 5;

/// How many bytes of each direction are captured while a connection's state is [`STATE_SUSPECT`], and
/// at least so many while it is [`STATE_PLAUSIBLE`].
pub const SUSPECT_BYTES: u64 = 64 * 1024;
/// How many bytes of the answers are captured before the first request byte was seen.
pub const UNASKED_BYTES: u64 = 1024 * 1024;

/// How far a connection is.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Positions {
    /// What records call it.
    pub number: ConnectionId,
    /// One of the `STATE_…` constants.
    pub state: u32,
    /// The process id (tgid) that was registered first.
    pub pid: u32,
    /// The user who answers for it: of a server over stdio who registered it, of a TCP connection who connected (real user id).
    pub uid: u32,
    /// Of a connection of sockets whose writes the gate does not judge yet: 1 where the last one that it saw return ended a line.
    pub ended_line: u32,
    /// When it was registered; `CLOCK_BOOTTIME`, nanoseconds.
    pub since_ns: u64,
    /// By direction.
    pub streams: [Stream; 2],
}

/// One server process tree and its client, as the kernel knows them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// How far it is.
    pub positions: Positions,
    /// The four inodes: server's stdin, server's stdout, the client's end of each (for a pipe the same inode).
    pub server_in: ChannelKey,
    /// See `server_in`.
    pub server_out: ChannelKey,
    /// See `server_in`.
    pub client_out: ChannelKey,
    /// See `server_in`.
    pub client_in: ChannelKey,
}

/// Bytes of a channel follow the header.
pub const RECORD_DATA: u8 = 1;
/// Bytes of a channel went by without being captured; their number is in `value`.
pub const RECORD_GAP: u8 = 2;
/// A process whose stdin and stdout are a connection ran a program: [`ExecInfo`] and argv follow.
pub const RECORD_EXEC: u8 = 3;
/// A process that belongs to a connection ended; `value` is its wait status.
pub const RECORD_EXIT: u8 = 4;
/// A process connects, or sends to an address: [`ConnectInfo`] follows. `connection` is that of the nearest server it
/// descends from.
pub const RECORD_CONNECT: u8 = 5;

/// The bytes of a connection of sockets are captured from now on: [`SocketInfo`] follows. `offset` is its key.
pub const RECORD_SOCKET: u8 = 6;
/// It has ended: its two [`Stream`]s follow.
pub const RECORD_SOCKET_CLOSED: u8 = 7;

/// Why bytes were not captured. The names are the event schema's.
pub const GAP_SPLICE: u8 = 1;
/// `vmsplice(2)`
pub const GAP_VMSPLICE: u8 = 2;
/// `tee(2)`
pub const GAP_TEE: u8 = 3;
/// `sendfile(2)`
pub const GAP_SENDFILE: u8 = 4;
/// io_uring with registered buffers, or splice and tee through io_uring.
pub const GAP_IO_URING: u8 = 5;
/// The client's memory could not be read without faulting.
pub const GAP_UNREADABLE: u8 = 6;
/// More buffers in one call than one run of the program can walk.
pub const GAP_TOO_MANY_BUFFERS: u8 = 7;

/// They lay in the pipe before the server was started.
pub const GAP_STARTED_LATE: u8 = 8;
/// The user's share of what waits for the agent was used up. User space alone writes such records.
pub const GAP_USER_SHARE: u8 = 9;
/// The agent had to end before it had taken them in. User space alone writes such records.
pub const GAP_AGENT_ENDED: u8 = 10;

/// The process did not run its program since its stdin and stdout are a connection: it was forked, or came by them later.
/// Perhaps it runs another in a moment.
pub const FLAG_NO_EXEC: u8 = 8;
/// The server ran before the agent: what it said earlier is unknown.
pub const FLAG_ADOPTED: u8 = 1;
/// The command line was longer than [`ARGV_BYTES`].
pub const FLAG_ARGV_TRUNCATED: u8 = 2;
/// The parent was forked and runs no program of its own: perhaps it is there to end, and its parent is the client.
pub const FLAG_PARENT_IS_FORK: u8 = 4;

/// Of a [`RECORD_SOCKET`]: it began with JSON, so that each line of it is a message. One that was open before the agent
/// ([`FLAG_ADOPTED`]) begins so from this record on.
pub const FLAG_LINES: u8 = 16;

/// Of a [`RECORD_SOCKET`]: it is over TLS, and what comes of it is plaintext that was read in the client.
pub const FLAG_TLS: u8 = 32;

/// The start of every record.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordHeader {
    /// One of the `RECORD_…` constants.
    pub kind: u8,
    /// [`CLIENT_TO_SERVER`] or [`SERVER_TO_CLIENT`].
    pub direction: u8,
    /// One of the `GAP_…` constants where `kind` is [`RECORD_GAP`].
    pub cause: u8,
    /// `FLAG_…` bits.
    pub flags: u8,
    /// Bytes of payload that follow the header; the record itself may be longer.
    pub length: u32,
    /// `CLOCK_BOOTTIME`, nanoseconds.
    pub time_ns: u64,
    /// The connection; 0 where there is none.
    pub connection: ConnectionId,
    /// Where in the channel the first byte lies.
    pub offset: u64,
    /// The process (tgid) that did it.
    pub pid: u32,
    /// What `kind` says. Of [`RECORD_DATA`]: [`Stream::refused`] so far, `u32::MAX` at most.
    pub value: u32,
    /// Whose share of the ring it takes: that of the connection's user ([`Positions::uid`]), else that of the process.
    pub uid: u32,
    /// Always 0.
    pub zero: u32,
}

/// What a record takes in the ring beside its bytes: `BPF_RINGBUF_HDR_SZ`.
pub const RING_HEADER: u64 = 8;

/// What one user has in the ring, counted in two windows: what was begun before `mark` may still be there until the agent has
/// read up to it. Bytes, headers included.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// The producer's position when the window began.
    pub mark: u64,
    /// Bytes of the window before.
    pub before: u64,
    /// Bytes of this window.
    pub since: u64,
    /// Records that were refused since the user had more than a share.
    pub refused_records: u64,
    /// Bytes of streams in them.
    pub refused_bytes: u64,
}

/// How many users have a share at once; whoever has sent nothing for the longest makes room for another.
pub const SHARES_MOST: u32 = 1024;

/// Ancestors named in an [`ExecInfo`].
pub const ANCESTORS: usize = 8;
/// Bytes of a command line that an exec record can carry.
pub const ARGV_BYTES: usize = 4096;

/// Follows the header of a [`RECORD_EXEC`]; `length` bytes of NUL-separated argv follow it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExecInfo {
    /// Start of the process since boot, nanoseconds (`task_struct.start_boottime`).
    pub start_ns: u64,
    /// The same of its parent's thread group leader. The parent is the client of a connection's first process.
    pub parent_start_ns: u64,
    /// cgroup v2 id.
    pub cgroup_id: u64,
    /// The same of its parent; 0 where that is not the first of `ancestors`.
    pub parent_cgroup_id: u64,
    /// Real user id.
    pub uid: u32,
    /// Real group id.
    pub gid: u32,
    /// Real user id of its parent, where `parent_cgroup_id` is not 0.
    pub parent_uid: u32,
    /// Always 0.
    pub zero: u32,
    /// Process ids (tgid) from the parent upwards, 0 where there are fewer.
    pub ancestors: [u32; ANCESTORS],
    /// The channels, see [`Connection`].
    pub connection: Connection,
}

/// Payload sizes of data records: the smallest that fits is reserved, larger data is cut.
pub const DATA_CLASSES: [usize; 5] =
    [class(256), class(1024), class(4096), class(16 * 1024), class(MAX_RECORD)];
/// The largest record, header included. Bytes.
pub const MAX_RECORD: usize = 64 * 1024;

const fn class(record: usize) -> usize {
    record - size_of::<RecordHeader>()
}

/// One line of the fd scan: a process holds a channel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// The channel it holds.
    pub key: ChannelKey,
    /// The process (tgid).
    pub pid: u32,
    /// Its descriptor.
    pub fd: u32,
    /// Where the client listens here: bytes that wait to be read, at most. [`PENDING_UNKNOWN`] elsewhere, and where
    /// they could not be counted.
    pub pending: u64,
}

/// In place of the inode, where the device is 0: the process's stdin and stdout carry something that is not captured. Datagram or
/// sequenced-packet sockets.
pub const CARRIER_PACKETS: u64 = 2;
/// The same: a terminal.
pub const CARRIER_PTY: u64 = 3;

/// See [`Holder::pending`].
pub const PENDING_UNKNOWN: u64 = u64::MAX;

/// What the kernel half refused or could not do, by index into the `COUNTERS` map.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Data records for which the ring, or their user's share of it, had no room.
    RingFullRecords = 0,
    /// Bytes in them.
    RingFullBytes = 1,
    /// Exec and exit records for which the ring had no room.
    RingFullFacts = 2,
    /// Connections that found the table full.
    ConnectionsRefused = 3,
    /// Channels that found the table full.
    ChannelsRefused = 4,
    /// Processes that found the table full.
    ProcessesRefused = 5,
    /// Bytes of candidates that cannot be MCP and were not captured.
    SuspectBytes = 6,
    /// Bytes that lay in memory that could not be read.
    UnreadableBytes = 7,
    /// Completions of io_uring requests that the kernel does not name (multishot), in watched processes.
    IoUringUntold = 8,
    /// Connections, and messages to addresses, for whose record the ring had no room.
    ConnectsUntold = 9,
    /// Processes of servers that found the table full: their connections are nobody's.
    MembersRefused = 10,
    /// Processes that descend from more servers than one entry names.
    MembershipsCut = 11,
    /// Messages to an address that was just told of.
    MessagesRepeated = 12,
    /// Connections of sockets whose bytes were to be captured, and found the table full, or their user's part of it.
    SocketsRefused = 13,
    /// Connections of sockets that nobody declared and that began with something else than a request of HTTP or JSON.
    SocketsForeign = 14,
    /// Connections of sockets that nobody declared, and whose first bytes could not be looked at.
    SocketsUnread = 15,
    /// Writes of which the gate has something to tell, for whose record the ring had no room.
    GateUntold = 16,
    /// Channels that the gate's table had no room for: what is written to them is not judged.
    GatedRefused = 17,
    /// Calls that there was no room to remember: nobody can tell what they lead to.
    GateForgotten = 18,
    /// Those of users who had more in the ring than was free; [`Share::refused_records`] of all.
    ShareRefusedRecords = 19,
    /// Bytes of streams in them.
    ShareRefusedBytes = 20,
    /// Bytes of plaintext of TLS connections of which it was not known which socket they are.
    TlsUnbound = 21,
    /// Calls of TLS libraries that returned, and of which it was not known what they were called with.
    TlsUntold = 22,
}
/// How many counters there are.
pub const COUNTERS: u32 = 23;

/// Where the running kernel keeps what the programs read: byte offsets, resolved from its BTF.
///
/// Read by the kernel half as constants (a read-only global), so that the verifier sees numbers.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each name is `struct_member` of the kernel")]
pub struct KernelLayout {
    pub task_files: u32,
    pub task_tgid: u32,
    pub task_flags: u32,
    pub task_real_parent: u32,
    pub task_group_leader: u32,
    pub task_children: u32,
    pub task_sibling: u32,
    pub task_signal: u32,
    pub task_exit_code: u32,
    pub task_start_boottime: u32,
    pub task_mm: u32,
    /// `task_struct.thread_info.status`; x86-64 keeps `TS_COMPAT` there.
    pub task_thread_status: u32,
    pub task_real_cred: u32,
    pub task_cgroups: u32,
    pub cred_uid: u32,
    pub css_set_dfl_cgrp: u32,
    pub cgroup_kn: u32,
    pub kernfs_node_id: u32,
    pub signal_live: u32,
    pub mm_arg_start: u32,
    pub mm_arg_end: u32,
    pub files_fdt: u32,
    pub fdtable_max_fds: u32,
    pub fdtable_fd: u32,
    pub file_inode: u32,
    pub file_mode: u32,
    pub file_private_data: u32,
    pub inode_mode: u32,
    pub inode_rdev: u32,
    pub inode_ino: u32,
    pub inode_sb: u32,
    pub inode_pipe: u32,
    pub pipe_head: u32,
    pub pipe_tail: u32,
    pub pipe_ring_size: u32,
    pub pipe_bufs: u32,
    pub pipe_buffer_len: u32,
    pub pipe_buffer_size: u32,
    pub sb_dev: u32,
    pub socket_sk: u32,
    pub socket_type: u32,
    pub socket_file: u32,
    pub socket_alloc_inode: u32,
    pub sock_family: u32,
    pub sock_socket: u32,
    pub sock_wmem_alloc: u32,
    pub sock_net: u32,
    pub sock_peer_pid: u32,
    pub sock_state: u32,
    pub sock_port: u32,
    pub sock_peer_port: u32,
    pub sock_address: u32,
    pub sock_peer_address: u32,
    pub sock_address6: u32,
    pub sock_peer_address6: u32,
    pub sock_protocol: u32,
    pub sock_max_backlog: u32,
    pub tcp_layer: u32,
    pub tcp_acked: u32,
    pub tcp_write: u32,
    pub tcp_unacked: u32,
    pub tcp_received: u32,
    pub tcp_next: u32,
    pub tcp_copied: u32,
    pub unix_peer: u32,
    pub unix_addr: u32,
    pub unix_address_len: u32,
    pub unix_address_name: u32,
    pub pid_numbers: u32,
    pub net_cookie: u32,
    pub kiocb_file: u32,
    pub kiocb_opcode: u32,
    pub rw_addr: u32,
    pub rw_len: u32,
    pub msg_buf: u32,
    pub msg_flags: u32,
    // What the trampoline backend alone reads; all 0 where one of them is not in this kernel's BTF.
    pub sb_magic: u32,
    pub iocb_filp: u32,
    pub iocb_complete: u32,
    pub msghdr_iter: u32,
    pub msghdr_flags: u32,
    pub msghdr_iocb: u32,
    pub iter_type: u32,
    pub iter_offset: u32,
    pub iter_ubuf: u32,
    pub iter_iov: u32,
    pub iter_count: u32,
    pub iter_segments: u32,
    /// Values of `enum iter_type`, which are others on each kernel.
    pub iter_is_ubuf: u32,
    pub iter_is_iovec: u32,
    pub iter_is_bvec: u32,
    /// What the gate alone reads.
    pub vma_flags: u32,
}

#[cfg(feature = "user")]
plain! {
    ChannelKey, Channel, Connection, Stream, KernelLayout, RecordHeader, Share, ExecInfo, Holder, GateSettings, GateInfo, GateMember, GateBucket, GateCaller,
    GateTexts
}
