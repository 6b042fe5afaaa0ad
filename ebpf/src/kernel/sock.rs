//! Sockets (`struct sock`): their inodes, namespaces and peers, and what Unix ones are bound to and hold.

use mcpwarden_abi::{ChannelKey, UNIX_NAME_BYTES};

use super::{AF_UNIX, Ptr, S_IFMT, S_IFSOCK, SOCK_STREAM, copy_bytes, inode_of, key_of, offset, probe};

/// The inode of the socket of a `struct sock`; `None` where it has none that a descriptor can name.
#[inline(always)]
pub fn key_of_sock(sock: Ptr) -> Option<ChannelKey> {
    let socket: Ptr = probe(sock, offset!(sock_socket))?;
    if socket.is_null() || probe::<Ptr>(socket, offset!(socket_file))?.is_null() {
        return None;
    }
    // `struct socket_alloc { struct socket; struct inode }`: the socket is the first member.
    key_of(socket.wrapping_add(offset!(socket_alloc_inode)))
}

/// The process (tgid) at the other end of a Unix socket (`struct sock`), as `SO_PEERCRED` has it: who listened for who accepts what
/// it has connected to, or who has connected to what was accepted. 0 where that is not known.
#[inline(always)]
pub fn peer_of(sock: Ptr) -> u32 {
    let pid: Ptr = probe(sock, offset!(sock_peer_pid)).unwrap_or(core::ptr::null());
    if pid.is_null() {
        return 0;
    }
    // `struct upid { int nr; … }`, of the root pid namespace first.
    probe(pid, offset!(pid_numbers)).unwrap_or(0)
}

/// The cookie of the network namespace of a socket (`struct sock`); 0 where that is not known.
#[inline(always)]
pub fn netns_of(sock: Ptr) -> u64 {
    let net: Ptr = probe(sock, offset!(sock_net)).unwrap_or(core::ptr::null());
    if net.is_null() { 0 } else { probe(net, offset!(net_cookie)).unwrap_or(0) }
}

/// Whether a Unix socket (`struct sock`) is bound to a name.
#[inline(always)]
pub fn is_named(sock: Ptr) -> bool {
    let address: Ptr = probe(sock, offset!(unix_addr)).unwrap_or(core::ptr::null());
    !address.is_null()
}

/// Copies the name that a Unix socket (`struct sock`) is bound to. How long it is: 0 where there is none.
#[inline(always)]
pub fn name_of_unix(sock: Ptr, to: *mut [u8; UNIX_NAME_BYTES]) -> u32 {
    /// `sun_family`, before the name.
    const FAMILY_BYTES: u32 = 2;
    let address: Ptr = probe(sock, offset!(unix_addr)).unwrap_or(core::ptr::null());
    if address.is_null() {
        return 0;
    }
    let length: u32 = probe(address, offset!(unix_address_len)).unwrap_or(0);
    if length <= FAMILY_BYTES || length > FAMILY_BYTES + UNIX_NAME_BYTES as u32 {
        return 0;
    }
    let length = length - FAMILY_BYTES;
    let name = address.wrapping_add(offset!(unix_address_name) + FAMILY_BYTES as usize);
    if copy_bytes::<113, _>(to, length as u64, name as u64) { length } else { 0 }
}

/// The `struct sock` behind the file of a socket.
#[inline(always)]
pub fn sock_of(file: Ptr) -> Option<Ptr> {
    let socket: Ptr = probe(file, offset!(file_private_data))?;
    let sock: Ptr = probe(socket, offset!(socket_sk))?;
    (!sock.is_null()).then_some(sock)
}

/// The memory that bytes occupy which a Unix socket (`struct sock`) has sent and nobody has read, as `SIOCOUTQ` tells it.
#[inline(always)]
pub fn unread(sock: Ptr) -> Option<u64> {
    let memory: u32 = probe(sock, offset!(sock_wmem_alloc))?;
    // The socket itself counts as one.
    Some((memory as u64).saturating_sub(1))
}

/// The Unix stream socket (`struct sock`) behind a file, where it is one that is connected, and its peer.
#[inline(always)]
pub fn unix_pair(file: Ptr) -> Option<(Ptr, Ptr)> {
    let mode: u16 = probe(inode_of(file)?, offset!(inode_mode))?;
    if mode & S_IFMT != S_IFSOCK {
        return None;
    }
    let socket: Ptr = probe(file, offset!(file_private_data))?;
    let sock: Ptr = probe(socket, offset!(socket_sk))?;
    Some((sock, unix_peer(file)?))
}

/// The peer (`struct sock`) of the Unix stream socket behind the file of a socket.
#[inline(always)]
pub(super) fn unix_peer(file: Ptr) -> Option<Ptr> {
    let socket: Ptr = probe(file, offset!(file_private_data))?;
    let socket_type: u16 = probe(socket, offset!(socket_type))?;
    let sock: Ptr = probe(socket, offset!(socket_sk))?;
    let family: u16 = probe(sock, offset!(sock_family))?;
    if family != AF_UNIX || socket_type != SOCK_STREAM {
        return None;
    }
    let peer: Ptr = probe(sock, offset!(unix_peer))?;
    (!peer.is_null()).then_some(peer)
}
