//! Connections over TLS, whose plaintext is read in the client: see [`crate::tls_probes`].
//!
//! The socket of such a connection carries bytes that say nothing. Its entry is the same as that of one in plain text, and what is captured
//! for it is the plaintext. Which connection of the library a socket is, shows when a thread writes to the socket: whatever of the library it
//! has called last is about that connection. Some libraries write within the call, others leave that to the program, which writes next.

use aya_ebpf::{bindings::BPF_ANY, helpers::bpf_get_current_pid_tgid, macros::map, maps::LruHashMap};
use mcpwarden_abi::{CLIENT_TO_SERVER, ConnectionId, Socket, TLS_UNBOUND, TlsConnection, TlsLast};

use crate::{source::read, tables};

/// Which connection each thread has called a function about last.
#[map(name = "TLS_LAST")]
pub static LAST: LruHashMap<u64, TlsLast> = LruHashMap::with_max_entries(8_192, 0);

/// The sockets of connections. An entry outlives its socket, until the connection has another one or is forgotten.
#[map(name = "TLS_SOCKETS")]
pub static BOUND: LruHashMap<TlsConnection, ConnectionId> = LruHashMap::with_max_entries(16_384, 0);

/// The type of a TLS record: RFC 8446, section 5.1.
const APPLICATION_DATA: u8 = 23;

/// Bytes of a long text that are in each record at least: RFC 6066, section 4.
const SHORTEST_FRAGMENT: u64 = 512;

/// A connection whose bytes are encrypted, and whose plaintext is read in the client.
#[inline(always)]
pub fn socket_over_tls(key: ConnectionId) -> Option<*mut Socket> {
    // SAFETY: a live map value.
    tables::socket(key).filter(|socket| unsafe { (**socket).tls } != 0)
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
/// A library that leaves it to the program to write has returned by then. The program gets to nothing else meanwhile: the text is there still.
///
/// The verifier goes through it once, by itself: see [`crate::exec::report`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn encrypted(key: ConnectionId, direction: u32, bytes: u64, address: u64) -> u64 {
    let Some(socket) = socket_over_tls(key) else { return 0 };
    // SAFETY: a live map value.
    let is_unbound = unsafe { (*socket).tls } == TLS_UNBOUND;
    let from_client = direction == CLIENT_TO_SERVER.into();
    let place = !from_client as usize;
    let mut pending = 0;
    if is_unbound && from_client && bind(key, socket, bytes) {
        if let Some(last) = LAST.get_ptr_mut(bpf_get_current_pid_tgid()) {
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
    } else if is_unbound && (!from_client || read::<u8>(address) == Some(APPLICATION_DATA)) {
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
    LAST.get_ptr(bpf_get_current_pid_tgid()).map_or(0, |last| unsafe { (*last).buffer })
}

/// The current thread has written to a socket: whichever connection it has called the library about, it is that. Whether it is one.
#[inline(always)]
fn bind(key: ConnectionId, socket: *mut Socket, bytes: u64) -> bool {
    let thread = bpf_get_current_pid_tgid();
    let Some(last) = LAST.get_ptr(thread) else { return false };
    // SAFETY: a live map value.
    let last = unsafe { *last };
    if bytes < last.bytes.min(SHORTEST_FRAGMENT) {
        return false;
    }
    let connection = TlsConnection { address: last.connection, tgid: (thread >> 32) as u32, zero: 0 };
    // It has another socket: the thread writes what is left of something earlier.
    if BOUND.get_ptr(connection).is_some_and(|other| {
        // SAFETY: as above.
        let other = unsafe { *other };
        other != key && tables::socket(other).is_some()
    }) {
        return false;
    }
    let is_bound = BOUND.insert(connection, key, BPF_ANY as u64).is_ok();
    if is_bound {
        // SAFETY: as above.
        unsafe { (*socket).tls = last.connection };
    }
    is_bound
}
