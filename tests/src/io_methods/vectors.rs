//! Writes of several buffers at once.

use std::io;
use std::os::fd::RawFd;
use std::ptr;

use nix::sys::socket::SockaddrLike as _;

use super::{all, check};

/// How many buffers hold data; as many empty ones lie between.
const BUFFERS: usize = 40;
/// How many messages one `sendmmsg` sends.
const MESSAGES: usize = 4;
/// The current position, for calls that take one.
const CURRENT_POSITION: libc::off_t = -1;

/// `data` in pieces, with an empty buffer before each.
pub(super) fn buffers(data: &[u8]) -> Vec<libc::iovec> {
    let piece = data.len().div_ceil(BUFFERS).max(1);
    data.chunks(piece).flat_map(|chunk| [buffer(&chunk[..0]), buffer(chunk)]).collect()
}

fn buffer(data: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() }
}

/// A message of these buffers.
pub(super) fn message(buffers: &mut [libc::iovec]) -> libc::msghdr {
    libc::msghdr {
        msg_name: ptr::null_mut(),
        msg_namelen: 0,
        msg_iov: buffers.as_mut_ptr(),
        msg_iovlen: buffers.len() as _,
        msg_control: ptr::null_mut(),
        msg_controllen: 0,
        msg_flags: 0,
    }
}

/// `writev(2)`.
pub fn writev(fd: RawFd, data: &[u8]) -> io::Result<()> {
    all(data, |rest| {
        let buffers = buffers(rest);
        // SAFETY: the buffers are parts of a live slice, which is only read.
        check(unsafe { libc::writev(fd, buffers.as_ptr(), buffers.len() as libc::c_int) })
    })
}

/// `pwritev2(2)`.
pub fn pwritev2(fd: RawFd, data: &[u8]) -> io::Result<()> {
    all(data, |rest| {
        let buffers = buffers(rest);
        let count = buffers.len() as libc::c_int;
        // SAFETY: the buffers are parts of a live slice, which is only read.
        check(unsafe { libc::pwritev2(fd, buffers.as_ptr(), count, CURRENT_POSITION, 0) })
    })
}

/// `sendmsg(2)`.
pub fn sendmsg(fd: RawFd, data: &[u8]) -> io::Result<()> {
    all(data, |rest| {
        let mut buffers = buffers(rest);
        let message = message(&mut buffers);
        // SAFETY: the message and its buffers are alive, and the buffers are only read.
        check(unsafe { libc::sendmsg(fd, &raw const message, libc::MSG_NOSIGNAL) })
    })
}

/// `sendmmsg(2)`.
pub fn sendmmsg(fd: RawFd, data: &[u8]) -> io::Result<()> {
    sendmmsg_to(fd, data, None)
}

/// `sendmmsg(2)` with the address of the peer in each message: the kernel asks its security modules about the first alone.
pub fn sendmmsg_named(fd: RawFd, data: &[u8]) -> io::Result<()> {
    let peer: nix::sys::socket::SockaddrStorage = nix::sys::socket::getpeername(fd)?;
    sendmmsg_to(fd, data, Some(&peer))
}

fn sendmmsg_to(fd: RawFd, data: &[u8], name: Option<&nix::sys::socket::SockaddrStorage>) -> io::Result<()> {
    all(data, |rest| {
        let piece = rest.len().div_ceil(MESSAGES);
        let mut buffers: Vec<Vec<libc::iovec>> = rest.chunks(piece).map(buffers).collect();
        let mut messages: Vec<libc::mmsghdr> = buffers
            .iter_mut()
            .map(|buffers| {
                let mut header = message(buffers);
                if let Some(name) = name {
                    header.msg_name = name.as_ptr().cast_mut().cast();
                    header.msg_namelen = name.len();
                }
                libc::mmsghdr { msg_hdr: header, msg_len: 0 }
            })
            .collect();
        let count = messages.len() as libc::c_uint;
        // SAFETY: the messages and their buffers are alive; the kernel writes the lengths into the messages.
        let sent = unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), count, libc::MSG_NOSIGNAL) };
        let sent = check(sent as isize)?;
        // Only the last message that was sent can be short, so the lengths add up to a prefix.
        Ok(messages.iter().take(sent).map(|message| message.msg_len as usize).sum())
    })
}
