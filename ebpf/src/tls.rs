//! Connections over TLS, whose plaintext is read in the client: see [`crate::tls_probes`].
//!
//! The socket of such a connection carries bytes that say nothing. Its entry is the same as that of one in plain text, and what is captured
//! for it is the plaintext. Which connection of the library a socket is, shows when a thread (in Go, a goroutine) writes a record to the socket
//! that its last call of the library has made. Some libraries write within the call, others leave that to the program, which writes next.

use aya_ebpf::{
    bindings::{BPF_ANY, BPF_F_NO_PREALLOC},
    helpers::{bpf_get_current_pid_tgid, generated::bpf_task_pt_regs},
    macros::map,
    maps::{HashMap, LruHashMap},
};
use mcpwarden_abi::{
    CLIENT_TO_SERVER, ConnectionId, Socket, TLS_HANDSHAKE, TLS_RECORD_OVERHEAD, TLS_UNBOUND, TLS_WRITE,
    TlsConnection, TlsLast,
};

use crate::{
    kernel::{self, Ptr, load},
    source::read,
    tables,
};

/// Who calls a library: a thread and 0, or in Go, which lets other threads go on with calls, a process and the address of a goroutine.
pub type Caller = [u64; 2];

/// The last call of each.
#[map(name = "TLS_LAST")]
pub static LAST: LruHashMap<Caller, TlsLast> = LruHashMap::with_max_entries(16_384, 0);

/// The sockets of connections. An entry goes with its socket: there are no more than of these.
#[map(name = "TLS_SOCKETS")]
static BOUND: HashMap<TlsConnection, ConnectionId> = HashMap::with_max_entries(32_768, BPF_F_NO_PREALLOC);

/// Connections without a socket here that have written or read something: their handshake is over.
#[map(name = "TLS_OTHERS")]
static OTHERS: LruHashMap<TlsConnection, u8> = LruHashMap::with_max_entries(8_192, 0);

/// Types of TLS records: RFC 8446, section 5.1.
const CHANGE_CIPHER_SPEC: u8 = 20;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;

/// Bytes of a long text that are in each record at least: RFC 6066, section 4.
const SHORTEST_FRAGMENT: u64 = 512;
/// Most bytes of the end of a handshake, which a first text may follow in one write: a change of cipher and `Finished` (RFC 8446, section 4.4.4).
const HANDSHAKE_END: u64 = 128;

/// A connection of a library in the current process.
#[inline(always)]
pub fn connection(address: u64) -> TlsConnection {
    let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    TlsConnection { address, tgid, started: started() }
}

/// When the current process started, see [`TlsConnection::started`].
#[inline(always)]
pub fn started() -> u32 {
    (kernel::started() / 1_000) as u32
}

/// The current thread, as one that calls a library of C.
#[inline(always)]
pub fn thread() -> Caller {
    [bpf_get_current_pid_tgid(), 0]
}

/// A goroutine of the current process.
#[inline(always)]
pub fn goroutine(address: u64) -> Caller {
    [bpf_get_current_pid_tgid() >> 32, address]
}

/// The last call of the current thread, or of the goroutine that it runs: in a system call, r14 has the address of that.
#[inline(always)]
fn last() -> Option<*mut TlsLast> {
    /// In `struct pt_regs` (`arch/x86/include/asm/ptrace.h`).
    const R14: usize = 8;
    if let Some(last) = LAST.get_ptr_mut(thread()) {
        return Some(last);
    }
    // SAFETY: a helper that takes a task.
    let regs = unsafe { bpf_task_pt_regs(kernel::current() as *mut _) } as Ptr;
    if regs.is_null() {
        return None;
    }
    LAST.get_ptr_mut(goroutine(load(regs, R14)))
}

/// A connection whose bytes are encrypted, and whose plaintext is read in the client.
#[inline(always)]
pub fn socket_over_tls(key: ConnectionId) -> Option<*mut Socket> {
    // SAFETY: a live map value.
    tables::socket(key).filter(|socket| unsafe { (**socket).tls.address } != 0)
}

/// The socket of a connection of a library.
#[inline(always)]
pub fn socket_of(connection: &TlsConnection) -> Option<ConnectionId> {
    // SAFETY: a live map value.
    BOUND.get_ptr(connection).map(|key| unsafe { *key })
}

/// A connection of a library that has no socket here has written or read something.
#[inline(always)]
pub fn is_anothers(connection: &TlsConnection) {
    let _ = OTHERS.insert(connection, &1, BPF_ANY as u64);
}

/// A library forgets a connection: its address may be another's next.
#[inline(always)]
pub fn freed(connection: &TlsConnection) {
    let _ = OTHERS.remove(connection);
    if let Some(key) = socket_of(connection) {
        let _ = BOUND.remove(connection);
        if let Some(socket) = socket_over_tls(key) {
            // SAFETY: a live map value.
            unsafe { (*socket).tls.address = TLS_UNBOUND };
        }
    }
}

/// A socket is over.
#[inline(always)]
pub fn unbind(key: ConnectionId, socket: *const Socket) {
    // SAFETY: a live map value.
    let connection = unsafe { (*socket).tls };
    if connection.address > TLS_UNBOUND && socket_of(&connection) == Some(key) {
        let _ = BOUND.remove(&connection);
    }
}

/// The gate has refused a call over such a connection: nothing is written to its socket any more.
#[inline(always)]
pub fn refuse(socket: *mut Socket) {
    // SAFETY: a live map value.
    unsafe { (&raw mut (*socket).refused).write_volatile(1) };
}

/// Whether it has.
#[inline(always)]
pub fn is_refused(socket: *mut Socket) -> bool {
    // SAFETY: a live map value.
    unsafe { (&raw const (*socket).refused).read_volatile() != 0 }
}

/// So many bytes, which begin at `address` in the memory of the process, have passed the socket of such a connection. How many bytes of plaintext
/// have become these, where that is only known now; they are at [`pending`].
///
/// A library that leaves it to the program to write has returned by then, and the program has not done anything else with TLS.
///
/// The verifier goes through it once, by itself: see [`crate::exec::report`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn encrypted(key: ConnectionId, direction: u32, bytes: u64, address: u64) -> u64 {
    let Some(socket) = socket_over_tls(key) else { return 0 };
    // SAFETY: a live map value.
    let is_unbound = unsafe { (*socket).tls.address } == TLS_UNBOUND;
    let from_client = direction == CLIENT_TO_SERVER.into();
    let place = !from_client as usize;
    let mut pending = 0;
    let kind = if is_unbound && from_client { read::<u8>(address).unwrap_or(0) } else { 0 };
    if is_unbound && from_client && bind(key, socket, kind, bytes) {
        if let Some(last) = last() {
            // SAFETY: a live map value, of this thread alone.
            unsafe {
                pending = (*last).pending;
                (*last).pending = 0;
            }
        }
        if pending != 0 {
            // SAFETY: a live map value.
            tables::advance(unsafe { &raw mut (*socket).encrypted.calls[0] }, 1);
        }
    } else if is_unbound && (!from_client || kind == APPLICATION_DATA) {
        // SAFETY: as above.
        tables::advance(unsafe { &raw mut (*socket).encrypted.before[place & 1] }, bytes);
    }
    // SAFETY: as above.
    tables::advance(unsafe { &raw mut (*socket).encrypted.all[place & 1] }, bytes);
    pending
}

/// Where the plaintext is that [`encrypted`] has told of.
#[inline(always)]
pub fn pending() -> u64 {
    // SAFETY: a live map value.
    last().map_or(0, |last| unsafe { (*last).buffer })
}

/// The current thread has written so many bytes to a socket, which begin with a record of this kind: they are of the connection that it has called
/// the library about, where they can be what that call has made. Whether it is one.
#[inline(always)]
fn bind(key: ConnectionId, socket: *mut Socket, kind: u8, bytes: u64) -> bool {
    let Some(last) = last() else { return false };
    // SAFETY: a live map value, of this thread or goroutine alone.
    let last = unsafe { &*last };
    let connection = connection(last.connection);
    // Its thread may have had the number of this one.
    if last.started != connection.started {
        return false;
    }
    // Where a handshake is not shown, what was called last is about another connection.
    let is_handshake = matches!(kind, HANDSHAKE | CHANGE_CIPHER_SPEC)
        && last.shows_handshakes != 0
        && (last.role == TLS_HANDSHAKE || OTHERS.get_ptr(&connection).is_none());
    let records = last.bytes / SHORTEST_FRAGMENT + 1;
    let most = last.bytes + records * TLS_RECORD_OVERHEAD + HANDSHAKE_END;
    let is_text = matches!(kind, APPLICATION_DATA | CHANGE_CIPHER_SPEC)
        && last.role == TLS_WRITE
        && (last.is_under_way != 0 || last.pending != 0)
        && bytes >= last.bytes.min(SHORTEST_FRAGMENT)
        && bytes <= most;
    let can_be = is_handshake || is_text;
    // It may have another socket: the thread writes what is left of something earlier.
    if !can_be || socket_of(&connection).is_some_and(|other| other != key && tables::socket(other).is_some())
    {
        return false;
    }
    if BOUND.insert(&connection, &key, BPF_ANY as u64).is_err() {
        return false;
    }
    let _ = OTHERS.remove(&connection);
    // SAFETY: as above.
    unsafe { (*socket).tls = connection };
    true
}
