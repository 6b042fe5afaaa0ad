//! A second count of the bytes that pass connections of sockets, which what was captured is held against.
//!
//! Over TCP the kernel has one in the client's own socket: how much was ever written to it and read from it, whoever did. Of Unix
//! sockets it has none, and the bytes at the server's end are counted by the hooks, as over stdio: since that end is known, and
//! together with those before, since both ends were once at rest.

use mcpwarden_abi::{ConnectionId, SOCKET, STATE_CONFIRMED, Socket, UNIX};

use crate::{
    kernel::{self, Ptr, offset, probe},
    register, tables,
};

/// `net/tcp_states.h`
pub const TCP_ESTABLISHED: u8 = 1;

/// Looks at a connection whose client's socket is behind this file. Whether nothing that waits to be read is in its counts.
///
/// The verifier goes through it once, by itself: see [`crate::exec::report`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn measure(file: u64, key: ConnectionId) -> i32 {
    let is_tcp = key & SOCKET != 0 && key & UNIX == 0;
    let Some(socket) = tables::socket(key) else { return is_tcp as i32 };
    if !is_tcp {
        of_unix(file as Ptr, key, socket);
        return 0;
    }
    // What passes it is encrypted, and no part of its streams.
    // SAFETY: a live map value.
    if unsafe { (*socket).tls.address } != 0 {
        return 1;
    }
    let Some(counts) = kernel::sock_of(file as Ptr).and_then(of_tcp) else { return 1 };
    for (direction, count) in counts.into_iter().enumerate() {
        // SAFETY: a live map value, of which this is written here alone.
        unsafe {
            let far = &raw mut (*socket).positions.streams[direction & 1].far;
            far.write_volatile(count.saturating_sub((*socket).base[direction & 1]));
        }
    }
    1
}

/// How many bytes were written to a TCP socket (`struct sock`) and read from it, its SYN among those written. `None` where its end
/// may be among them, or where something other than its user writes to it (TLS of the kernel).
#[inline(always)]
pub fn of_tcp(sock: Ptr) -> Option<[u64; 2]> {
    let (state, layer): (u8, Ptr) = (probe(sock, offset!(sock_state))?, probe(sock, offset!(tcp_layer))?);
    if state != TCP_ESTABLISHED || !layer.is_null() {
        return None;
    }
    // In this order: what moves meanwhile is counted too little.
    let acked: u64 = probe(sock, offset!(tcp_acked))?;
    let written: u32 = probe(sock, offset!(tcp_write))?;
    let unacked: u32 = probe(sock, offset!(tcp_unacked))?;
    let received: u64 = probe(sock, offset!(tcp_received))?;
    let copied: u32 = probe(sock, offset!(tcp_copied))?;
    let next: u32 = probe(sock, offset!(tcp_next))?;
    let [waits, unread] = [written.wrapping_sub(unacked) as u64, next.wrapping_sub(copied) as u64];
    Some([acked + waits, received.saturating_sub(unread)])
}

/// Has the bytes at the server's end of a connection counted.
#[inline(always)]
fn of_unix(file: Ptr, key: ConnectionId, socket: *mut Socket) {
    // SAFETY: a live map value.
    let (state, is_counted) = unsafe { ((*socket).positions.state, (*socket).is_counted) };
    if is_counted != 0 || state != STATE_CONFIRMED && !tables::lifted(key) {
        return;
    }
    let Some((sock, peer)) = kernel::unix_pair(file) else { return };
    // SAFETY: as above.
    if unsafe { (*socket).far.inode } == 0 {
        // `None` while nobody has accepted it.
        let Some(far) = kernel::key_of_sock(peer) else { return };
        // SAFETY: as above.
        unsafe { (*socket).far = far };
        register::assign(&far, 0, 0, key, key);
    }
    let is_at_rest = kernel::unread(sock) == Some(0) && kernel::unread(peer) == Some(0);
    let mut is_still = true;
    for direction in 0..2 {
        // SAFETY: as above.
        unsafe {
            let stream = &raw const (*socket).positions.streams[direction];
            let passed = (*stream).offset + (*stream).far;
            is_still &= (*socket).base[direction] == passed;
            (*socket).base[direction] = passed;
        }
    }
    // Twice the same: no call was under way that is counted at one end and not at the other.
    if !is_at_rest || !is_still {
        return;
    }
    for direction in 0..2 {
        // SAFETY: as above.
        unsafe {
            let stream = &raw mut (*socket).positions.streams[direction];
            let missing = (*stream).offset.wrapping_sub((*stream).far);
            tables::advance(&raw mut (*stream).far, missing);
        }
    }
    // SAFETY: as above.
    unsafe { (*socket).is_counted = 1 };
}
