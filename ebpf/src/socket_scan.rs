//! Connections of sockets that were open before the agent: found by passes over every descriptor of every process.
//!
//! Which of two sockets connected first the kernel does not keep. Over TCP it is the one that was never made to wait for others, as a
//! listener was and whatever it accepted since; of Unix sockets the one without a name, as its peer has that of its listener. Who has
//! connected is known of Unix sockets while that process holds it, so these come first; of all others the first that holds it counts.

use aya_ebpf::{
    bindings::{BPF_F_NO_PREALLOC, BPF_NOEXIST},
    helpers::generated::{bpf_get_socket_cookie, bpf_sock_from_file},
    macros::map,
    maps::{Array, HashMap},
};
use mcpwarden_abi::{Counter, Endpoint, SOCKET, STATE_OPEN};

use crate::{
    far_side::{self, TCP_ESTABLISHED},
    kernel::{self, AF_UNIX, Ptr, load, offset, probe},
    socket, tables,
};

/// Which pass it is: 0, or what comes after.
#[map(name = "SOCKET_PASS")]
static PASS: Array<u32> = Array::with_max_entries(1, 0);

/// Where processes listen (TCP), as the first pass finds it. Who listens where there is no room, /proc tells.
#[map(name = "LISTENERS")]
static LISTENERS: HashMap<Endpoint, u32> = HashMap::with_max_entries(4_096, BPF_F_NO_PREALLOC);

/// `linux/socket.h`
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
/// `linux/in.h`
const IPPROTO_TCP: u16 = 6;
/// `net/tcp_states.h`
const TCP_LISTEN: u8 = 10;

/// `struct bpf_iter__task_file`, as in [`crate::fd_scan::visit`].
#[inline(always)]
pub fn visit(ctx: *const u64) {
    // SAFETY: the verifier types the context.
    let (task, file) = unsafe { (*ctx.add(1) as Ptr, *ctx.add(3) as Ptr) };
    if task.is_null() || file.is_null() {
        return;
    }
    // SAFETY: a helper on a file that the verifier knows.
    let socket = unsafe { bpf_sock_from_file(file.cast_mut().cast()) } as Ptr;
    if socket.is_null() {
        return;
    }
    let sock: Ptr = load(socket, offset!(socket_sk));
    if sock.is_null() {
        return;
    }
    let is_first = PASS.get(0).is_none_or(|pass| *pass == 0);
    let (tgid, family): (u32, u16) = (load(task, offset!(task_tgid)), load(sock, offset!(sock_family)));
    if family == AF_UNIX {
        adopt_unix(kernel::number(file), kernel::number(task), is_first as u32);
    } else if family == AF_INET || family == AF_INET6 {
        let state: u8 = load(sock, offset!(sock_state));
        if is_first && state == TCP_LISTEN {
            listens(kernel::number(sock), tgid);
        } else if !is_first && state == TCP_ESTABLISHED {
            // SAFETY: a helper on a socket that the verifier knows.
            let cookie = unsafe { bpf_get_socket_cookie(sock.cast_mut().cast()) };
            adopt_tcp(kernel::number(sock), kernel::number(task), cookie);
        }
    }
    if !is_first && socket::is_one(file) {
        tables::watch(tgid);
    }
}

/// A process holds a Unix socket. In the first pass it counts where the process has connected it.
///
/// The verifier goes through it once, by itself: see [`crate::exec::report`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn adopt_unix(file: u64, task: u64, is_first: u32) -> i32 {
    let Some((sock, peer)) = kernel::unix_pair(file as Ptr) else { return 0 };
    if kernel::is_named(sock) || !kernel::is_named(peer) {
        return 0;
    }
    let tgid: u32 = probe(task as Ptr, offset!(task_tgid)).unwrap_or(0);
    if is_first != 0 && kernel::peer_of(peer) != tgid {
        return 0;
    }
    socket::opens_unix(file, task, STATE_OPEN)
}

/// A process listens.
///
/// The verifier goes through it once, by itself: see [`crate::exec::report`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn listens(sock: u64, tgid: u32) -> i32 {
    if let Some(endpoint) = own_end(sock as Ptr) {
        let _ = LISTENERS.insert(&endpoint, &tgid, BPF_NOEXIST as u64);
    }
    0
}

/// A process holds a TCP socket that is connected.
///
/// The verifier goes through it once, by itself: see [`crate::exec::report`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn adopt_tcp(sock: u64, task: u64, cookie: u64) -> i32 {
    let (sock, key) = (sock as Ptr, SOCKET | cookie);
    let protocol: u16 = probe(sock, offset!(sock_protocol)).unwrap_or(0);
    let backlog: u32 = probe(sock, offset!(sock_max_backlog)).unwrap_or(0);
    // Those of MPTCP are no sockets of TCP; and there is one with a backlog at the server's end alone.
    if protocol != IPPROTO_TCP || backlog != 0 || !tables::discovers() || tables::socket(key).is_some() {
        return 0;
    }
    let Some(own) = own_end(sock) else { return 0 };
    if listener_at(own) != 0 {
        return 0;
    }
    let Some(to) = peer_end(sock) else { return 0 };
    if !is_loopback(&to.address) {
        return 0;
    }
    let Some(inode) = kernel::key_of_sock(sock) else {
        tables::count(Counter::SocketsUnread, 1);
        return 0;
    };
    if tables::channel(&inode).is_some() {
        return 0;
    }
    let (family, listener) = (probe(sock, offset!(sock_family)).unwrap_or(0), listener_at(to));
    let Some(number) = tables::next_number() else { return 0 };
    let Some(entry) = socket::enter(key, SOCKET | number, &inode, task as Ptr, STATE_OPEN) else { return 0 };
    // SAFETY: a live map value, which nobody looks at before its inode is a channel.
    unsafe {
        (*entry.socket).endpoint = to;
        let info = &raw mut (*entry.socket).info.connect;
        (*info).netns_cookie = to.netns_cookie;
        (*info).address = to.address;
        (*info).port = to.port;
        (*info).family = family;
        (*info).protocol = IPPROTO_TCP as u8;
        (*info).generation = tables::generation();
        (*entry.socket).info.listener.pid = listener;
        (*entry.socket).base = far_side::of_tcp(sock).unwrap_or([u64::MAX; 2]);
    }
    entry.begin(key, &inode);
    0
}

/// The process (tgid) that listens there, or at every address; 0 where none is known.
#[inline(always)]
fn listener_at(mut endpoint: Endpoint) -> u32 {
    let found = match LISTENERS.get_ptr(&endpoint) {
        Some(found) => Some(found),
        None => {
            endpoint.address = [0; 16];
            LISTENERS.get_ptr(&endpoint)
        }
    };
    // SAFETY: a live map value.
    found.map_or(0, |pid| unsafe { *pid })
}

/// The address that a TCP socket is bound to.
#[inline(always)]
fn own_end(sock: Ptr) -> Option<Endpoint> {
    let port: u16 = probe(sock, offset!(sock_port))?;
    end(sock, offset!(sock_address), offset!(sock_address6), port)
}

/// The address that it is connected to.
#[inline(always)]
fn peer_end(sock: Ptr) -> Option<Endpoint> {
    let port: u16 = probe(sock, offset!(sock_peer_port))?;
    end(sock, offset!(sock_peer_address), offset!(sock_peer_address6), u16::from_be(port))
}

#[inline(always)]
fn end(sock: Ptr, four: usize, six: usize, port: u16) -> Option<Endpoint> {
    let family: u16 = probe(sock, offset!(sock_family))?;
    let words: [u32; 4] = if family == AF_INET6 {
        probe(sock, six)?
    } else {
        match probe::<u32>(sock, four)? {
            0 => [0; 4],
            address => [0, 0, 0xffff_0000, address],
        }
    };
    // SAFETY: as many bytes, and any are allowed.
    let address = unsafe { core::mem::transmute::<[u32; 4], [u8; 16]>(words) };
    Some(Endpoint { netns_cookie: kernel::netns_of(sock), address, port, zero: [0; 3] })
}

/// `127.0.0.0/8` or `::1`.
#[inline(always)]
fn is_loopback(address: &[u8; 16]) -> bool {
    const ONE: u32 = u32::from_ne_bytes([0, 0, 0, 1]);
    // SAFETY: as many bytes, and any are allowed.
    let words = unsafe { core::mem::transmute::<[u8; 16], [u32; 4]>(*address) };
    let none = words[0] | words[1] == 0;
    none && (words[2] == 0xffff_0000 && words[3] & 0xff == 127 || words[2] == 0 && words[3] == ONE)
}
