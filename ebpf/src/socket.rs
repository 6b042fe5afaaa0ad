//! Connections of sockets whose bytes are captured: over TCP to servers that are declared, and within this host, over TCP and
//! Unix sockets, until it is clear that they are no MCP's.
//!
//! They are channels as pipes are, of which the client's end alone is known: the inode of its socket. They end with it: a hook
//! tells of the end of those over TCP, and the next fd scan finds that of the others.

mod endpoint;
mod record;

use aya_ebpf::{
    bindings::{BPF_NOEXIST, bpf_sock, bpf_sock_addr},
    helpers::generated::{bpf_get_socket_cookie, bpf_probe_read_kernel},
};
use core::ffi::c_void;
use mcpwarden_abi::{
    CLIENT_TO_SERVER, Channel, ChannelKey, ConnectInfo, ConnectionId, Counter, Encrypted, Endpoint,
    FLAG_ADOPTED, FLAG_LINES, Listener, Positions, READ_NOT, READ_TLS, SOCKET, SOCKETS_MOST_OF_ONE,
    STATE_CONFIRMED, STATE_OPEN, STATE_PLAUSIBLE, STATE_SUSPECT, STATE_UNHEARD, Socket, SocketInfo, Stream,
    TLS_UNBOUND, TlsConnection, UNASKED_BYTES, UNIX, UNIX_NAME_BYTES,
};

use crate::{
    gate,
    kernel::{self, AF_UNIX, Ptr, offset},
    opening::{Opening, is_text, opening},
    source::read,
    tables::{self, FOUND, LIFTED, SOCKETS, SOCKETS_OF},
    tls,
};
use endpoint::unix_endpoint;

/// A connection as it is put into the table, to be filled in there: the stack has no room for one.
static FRESH: Socket = Socket {
    positions: Positions {
        number: 0,
        state: STATE_UNHEARD,
        pid: 0,
        uid: 0,
        ended_line: 0,
        since_ns: 0,
        streams: [Stream { offset: 0, far: 0, refused: 0 }; 2],
    },
    key: ChannelKey { inode: 0, device: 0, generation: 0 },
    endpoint: Endpoint { netns_cookie: 0, address: [0; 16], port: 0, zero: [0; 3] },
    info: SocketInfo {
        connect: ConnectInfo {
            start_ns: 0,
            cgroup_id: 0,
            netns_cookie: 0,
            address: [0; 16],
            generation: 0,
            server: 0,
            rule: 0,
            uid: 0,
            port: 0,
            family: 0,
            protocol: 0,
            verdict: 0,
            enforced: 0,
            because: 0,
        },
        listener: Listener { pid: 0, length: 0, name: [0; UNIX_NAME_BYTES], zero: 0 },
    },
    far: ChannelKey { inode: 0, device: 0, generation: 0 },
    base: [0; 2],
    is_counted: 0,
    tls: TlsConnection { address: 0, tgid: 0, started: 0 },
    encrypted: Encrypted { all: [0; 2], before: [0; 2], calls: [0; 2] },
    refused: 0,
};

/// A socket is about to connect, perhaps once more: what it was connected to before is over.
///
/// The verifier goes through it once, by itself: see [`crate::exec::report`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn again(cookie: u64) -> i32 {
    let key = SOCKET | cookie;
    if let Some(before) = tables::socket(key) {
        end(key, before);
    }
    0
}

/// Where something goes.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Destination {
    /// What it reaches: the unspecified address is the loopback.
    pub address: [u8; 16],
    /// In host byte order.
    pub port: u16,
    /// Whether that is a loopback address.
    pub loopback: bool,
}

/// A socket is about to connect to where `to` leads. `reading`: how a declared server there is read, and everything is captured, as it
/// is where one was found; [`READ_NOT`]: it shows with the first bytes.
#[inline(always)]
pub fn opens(ctx: *mut bpf_sock_addr, tgid: u32, to: &Destination, info: &ConnectInfo, reading: u8) {
    // SAFETY: a helper on the hook's own context.
    let cookie = unsafe { bpf_get_socket_cookie(ctx.cast()) };
    opens_tcp(cookie, kernel::number(sock_of(ctx)), tgid as u64 | (reading as u64) << 32, to, info);
}

/// As above; `process` is the process (tgid), and in its upper half how the server is read.
///
/// The verifier goes through it once, by itself: see [`crate::exec::report`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn opens_tcp(
    cookie: u64,
    sock: u64,
    process: u64,
    to: *const Destination,
    info: *const ConnectInfo,
) -> i32 {
    if to.is_null() || info.is_null() {
        return 0;
    }
    // SAFETY: the verifier has seen that they are.
    let (to, info) = unsafe { (&*to, &*info) };
    let (tgid, reading) = (process as u32, (process >> 32) as u8);
    let declared = reading != READ_NOT;
    let key = SOCKET | cookie;
    let Some(inode) = kernel::key_of_sock(sock as Ptr) else {
        tables::count(Counter::SocketsUnread, 1);
        return 0;
    };
    let Some(number) = tables::next_number() else { return 0 };
    let Some(count) = room_of(info.uid, SOCKETS_MOST_OF_ONE) else {
        tables::count(Counter::SocketsRefused, 1);
        return 0;
    };
    // Nobody looks at it before its inode is a channel.
    let Some(socket) = fresh(key) else { return 0 };
    // SAFETY: a live map value.
    let (known, in_lines) = unsafe {
        (*socket).endpoint.netns_cookie = info.netns_cookie;
        (*socket).endpoint.address = to.address;
        (*socket).endpoint.port = info.port;
        // The key lies in the table: the stack has no room for it.
        let known = declared || FOUND.get_ptr(&(*socket).endpoint).is_some();
        (known, !known && gate::is_server(&(*socket).endpoint))
    };
    let state = if known {
        STATE_CONFIRMED
    } else if in_lines {
        STATE_PLAUSIBLE
    } else {
        STATE_UNHEARD
    };
    // SAFETY: as above.
    unsafe {
        (*socket).positions.number = SOCKET | number;
        (*socket).positions.state = state;
        (*socket).positions.pid = tgid;
        (*socket).positions.uid = info.uid;
        (*socket).positions.since_ns = tables::now();
        (*socket).key = inode;
        (*socket).info.connect = *info;
        // Its SYN is counted.
        (*socket).base[CLIENT_TO_SERVER as usize] = 1;
        if reading == READ_TLS {
            (*socket).tls.address = TLS_UNBOUND;
        }
    }
    if !begin(key, &inode) {
        return 0;
    }
    tables::advance(count, 1);
    tables::watch(tgid);
    if known || in_lines {
        // Before anything that the gate does to it.
        record::opened(key, socket, if in_lines { FLAG_LINES } else { 0 });
    }
    0
}

/// The current process has connected a Unix stream socket, of which this is the file: to what shows with the first bytes.
#[inline(always)]
pub fn connected(file: Ptr) {
    opens_unix(kernel::number(file), kernel::number(kernel::current()), STATE_UNHEARD);
}

/// A task has connected the Unix stream socket of which this is the file; before the agent started, where `state` is [`STATE_OPEN`].
///
/// The verifier goes through it once, by itself: see [`crate::exec::report`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn opens_unix(file: u64, task: u64, state: u32) -> i32 {
    let Some((sock, peer)) = kernel::unix_pair(file as Ptr) else { return 0 };
    if !tables::discovers() {
        return 0;
    }
    let Some(inode) = kernel::key_of_sock(sock) else {
        tables::count(Counter::SocketsUnread, 1);
        return 0;
    };
    if state == STATE_OPEN && tables::channel(&inode).is_some() {
        return 0;
    }
    let Some(number) = tables::next_number() else { return 0 };
    let key = SOCKET | UNIX | number;
    let Some(entry) = enter(key, key, &inode, task as Ptr, state) else { return 0 };
    // SAFETY: a live map value.
    unsafe {
        let info = &raw mut (*entry.socket).info.connect;
        (*info).netns_cookie = kernel::netns_of(sock);
        (*info).family = AF_UNIX;
        let listener = &raw mut (*entry.socket).info.listener;
        (*listener).pid = kernel::peer_of(sock);
        (*listener).length = kernel::name_of_unix(peer, &raw mut (*listener).name);
    }
    let socket = entry.socket;
    let in_lines = unix_endpoint(socket) && state == STATE_UNHEARD;
    // SAFETY: as above.
    let in_lines = in_lines && gate::is_server(unsafe { &(*socket).endpoint });
    if in_lines {
        // SAFETY: as above.
        unsafe { (*socket).positions.state = STATE_PLAUSIBLE };
    }
    entry.begin(key, &inode);
    if in_lines {
        record::opened(key, socket, FLAG_LINES);
    }
    0
}

/// A connection that is in the table, and whose inode is no channel yet: nobody looks at it.
pub struct Entry {
    /// What is known of it.
    pub socket: *mut Socket,
    /// How many its user has.
    count: *mut u64,
}

/// Puts a connection of a task into the table, where its user may have one more. Where it goes is filled in by who calls.
///
/// Of those that were open before the agent started ([`STATE_OPEN`]) a user may have half as many: there is room for new ones.
#[inline(always)]
pub fn enter(
    key: ConnectionId,
    number: ConnectionId,
    inode: &ChannelKey,
    task: Ptr,
    state: u32,
) -> Option<Entry> {
    let uid = kernel::uid_of(task).unwrap_or(0);
    let most = if state == STATE_OPEN { SOCKETS_MOST_OF_ONE / 2 } else { SOCKETS_MOST_OF_ONE };
    let Some(count) = room_of(uid, most) else {
        tables::count(Counter::SocketsRefused, 1);
        return None;
    };
    let tgid = kernel::probe(task, offset!(task_tgid)).unwrap_or(0);
    let socket = fresh(key)?;
    // SAFETY: a live map value.
    unsafe {
        (*socket).positions.number = number;
        (*socket).positions.state = state;
        (*socket).positions.pid = tgid;
        (*socket).positions.uid = uid;
        (*socket).positions.since_ns = tables::now();
        (*socket).key = *inode;
        let info = &raw mut (*socket).info.connect;
        (*info).start_ns = kernel::started_of(task);
        (*info).cgroup_id = kernel::cgroup_of(task).unwrap_or(0);
        (*info).uid = uid;
    }
    Some(Entry { socket, count })
}

impl Entry {
    /// All of it is filled in: its inode is a channel from now on.
    #[inline(always)]
    pub fn begin(self, key: ConnectionId, inode: &ChannelKey) {
        if begin(key, inode) {
            tables::advance(self.count, 1);
            // SAFETY: a live map value.
            tables::watch(unsafe { (*self.socket).positions.pid });
        }
    }
}

/// Whether a file whose BTF type the verifier knows is that of a socket which is a connection.
#[inline(always)]
pub fn is_one(file: Ptr) -> bool {
    let channel = kernel::key_of_file(file).and_then(|key| tables::channel(&key));
    // SAFETY: a live map value.
    channel.is_some_and(|roles| unsafe { (*roles).write_capture } & SOCKET != 0)
}

/// Whether a channel is a connection of sockets over which something has gone that is worth a record; one over which nothing has
/// gone yet is given up for who asks.
#[inline(always)]
pub fn keeps(inode: &ChannelKey) -> bool {
    let Some(roles) = tables::channel(inode) else { return false };
    // SAFETY: a live map value.
    let key = unsafe { (*roles).write_capture };
    if key & SOCKET == 0 {
        return false;
    }
    let Some(socket) = tables::socket(key) else { return false };
    // SAFETY: as above.
    let speaks = unsafe { (*socket).positions.state } < STATE_UNHEARD;
    if !speaks {
        forget(key, socket);
    }
    speaks
}

/// A connection that is filled in where it lies. Nobody looks at it before its inode is a channel.
#[inline(always)]
fn fresh(key: ConnectionId) -> Option<*mut Socket> {
    let socket = if SOCKETS.insert(&key, &FRESH, 0).is_ok() { tables::socket(key) } else { None };
    if socket.is_none() {
        tables::count(Counter::SocketsRefused, 1);
    }
    socket
}

/// Its inode is a channel from now on. Whether there was room.
#[inline(always)]
fn begin(key: ConnectionId, inode: &ChannelKey) -> bool {
    let roles = Channel { write_capture: key, read_capture: key, write_count: 0, read_count: 0 };
    let begun = tables::assign_alone(inode, &roles);
    if !begun {
        let _ = SOCKETS.remove(&key);
    }
    begun
}

/// The first `bytes` of one that nobody declared go `direction`; the first buffer of them lies at `address`, 0 where it
/// cannot be looked at. Whether they are worth a record.
///
/// A function of its own, and numbers for arguments: the stack of who asks has no room for what it takes.
#[inline(never)]
pub fn received(key: ConnectionId, direction: u8, address: u64, length: u64, bytes: u64) -> bool {
    let Some(socket) = tables::socket(key) else { return false };
    let Some(first) = read::<u32>(address).filter(|_| address != 0 && length > 0) else {
        tables::count(Counter::SocketsUnread, 1);
        forget(key, socket);
        return false;
    };
    let opening = opening(direction, first, length);
    // SAFETY: a live map value.
    let is_open = unsafe { (*socket).positions.state } == STATE_OPEN;
    let is_unclear = matches!(opening, Opening::Foreign | Opening::Blank);
    // What is in the middle of a message when the agent starts goes by.
    if is_open && is_unclear && is_text(first, length) && skips(socket, direction, bytes) {
        return false;
    }
    // HTTP over Unix sockets is not read, nor what begins in the middle of an answer.
    let is_unread = key & UNIX != 0 || is_open && has_skipped(socket);
    if opening == Opening::Foreign || opening == Opening::Http && is_unread || is_open && is_unclear {
        tables::count(Counter::SocketsForeign, 1);
        forget(key, socket);
        return false;
    }
    let is_lines = opening == Opening::Lines;
    // SAFETY: a live map value; the state is set here and by nobody else.
    unsafe { (*socket).positions.state = if is_lines { STATE_PLAUSIBLE } else { STATE_SUSPECT } };
    let adopted = if is_open { FLAG_ADOPTED } else { 0 };
    record::opened(key, socket, adopted | if is_lines { FLAG_LINES } else { 0 });
    true
}

/// Whether bytes were left out in either direction.
#[inline(always)]
fn has_skipped(socket: *mut Socket) -> bool {
    // SAFETY: a live map value.
    let [asked, answered] = unsafe { &(*socket).positions.streams };
    (asked.refused | answered.refused) != 0
}

/// Leaves out bytes of a direction, as if the budget of a candidate were spent. Not where more have gone by than the first answers
/// of a candidate may have.
#[inline(always)]
fn skips(socket: *mut Socket, direction: u8, bytes: u64) -> bool {
    // SAFETY: a live map value.
    let stream = unsafe { &raw mut (*socket).positions.streams[(direction & 1) as usize] };
    // SAFETY: as above.
    let before = tables::advance(unsafe { &raw mut (*stream).offset }, bytes);
    // SAFETY: as above.
    tables::advance(unsafe { &raw mut (*stream).refused }, bytes);
    tables::count(Counter::SuspectBytes, bytes);
    before < UNASKED_BYTES
}

/// A socket is closed by the last who held it.
#[inline(always)]
pub fn released(ctx: *mut bpf_sock) {
    // SAFETY: a helper on the hook's own context.
    again(unsafe { bpf_get_socket_cookie(ctx.cast()) });
}

/// The number of connections that a user has, where there may be one more beside `most`; with several processors some more.
#[inline(always)]
fn room_of(uid: u32, most: u32) -> Option<*mut u64> {
    let count = match SOCKETS_OF.get_ptr_mut(uid) {
        Some(count) => count,
        None => {
            let _ = SOCKETS_OF.insert(uid, 0, BPF_NOEXIST as u64);
            SOCKETS_OF.get_ptr_mut(uid)?
        }
    };
    // SAFETY: a live map value.
    (unsafe { *count } < most.into()).then_some(count)
}

/// One of a user's connections is none any more.
#[inline(always)]
fn leave(uid: u32) {
    if let Some(count) = SOCKETS_OF.get_ptr_mut(uid)
        // SAFETY: a live map value. It may be less than there are, see there.
        && unsafe { *count } > 0
    {
        tables::advance(count, u64::MAX);
    }
}

/// Stops capturing one of which nothing was said.
#[inline(always)]
fn forget(key: ConnectionId, socket: *const Socket) {
    // SAFETY: a live map value.
    let Socket { key: inode, info, far, .. } = unsafe { &*socket };
    tables::forsake(inode, key);
    tables::forsake_far(far, key);
    tls::unbind(key, socket);
    leave(info.connect.uid);
    let _ = SOCKETS.remove(&key);
}

/// Stops capturing it, and says so where anything was said of it.
#[inline(always)]
fn end(key: ConnectionId, socket: *mut Socket) {
    // SAFETY: a live map value.
    let Socket { positions, key: inode, info, far, .. } = unsafe { &*socket };
    tables::forsake(inode, key);
    tables::forsake_far(far, key);
    tls::unbind(key, socket);
    leave(info.connect.uid);
    if positions.state < STATE_UNHEARD {
        record::closed(key, socket);
        let _ = LIFTED.remove(&key);
    }
    let _ = SOCKETS.remove(&key);
}

/// The socket that the hook is about. It has no inode where it is the kernel's own (those below MPTCP, for one): nobody has a file of it, and
/// its end is not told.
#[inline(always)]
fn sock_of(ctx: *mut bpf_sock_addr) -> Ptr {
    // The verifier lets nothing be added to this pointer; it is a number once it was copied.
    // SAFETY: a field of the hook's own context; source and destination are live and of that size.
    unsafe {
        let typed: *mut c_void = (*ctx).__bindgen_anon_1.sk.cast();
        let mut plain = core::ptr::null::<u8>();
        bpf_probe_read_kernel(
            (&raw mut plain).cast(),
            size_of::<Ptr>() as u32,
            (&raw const typed).cast::<c_void>(),
        );
        plain
    }
}
