//! Plain writes, and who makes them to what.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::ptr;
use std::thread as threads;

use super::{all, check, poll, with_nonblocking};

fn write_once(fd: RawFd, data: &[u8]) -> io::Result<usize> {
    // SAFETY: the pointer and the length are those of a live slice.
    check(unsafe { libc::write(fd, data.as_ptr().cast(), data.len()) })
}

/// `write(2)`.
pub fn write(fd: RawFd, data: &[u8]) -> io::Result<()> {
    all(data, |rest| write_once(fd, rest))
}

/// `write(2)`, byte by byte.
pub fn one_byte(fd: RawFd, data: &[u8]) -> io::Result<()> {
    all(data, |rest| write_once(fd, rest.get(..1).unwrap_or_default()))
}

/// `write(2)` without blocking.
pub fn nonblocking(fd: RawFd, data: &[u8]) -> io::Result<()> {
    with_nonblocking(fd, || {
        all(data, |rest| {
            loop {
                match write_once(fd, rest) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => poll(fd, libc::POLLOUT)?,
                    outcome => return outcome,
                }
            }
        })
    })
}

/// `send(2)`.
pub fn send(fd: RawFd, data: &[u8]) -> io::Result<()> {
    all(data, |rest| {
        // SAFETY: the pointer and the length are those of a live slice.
        check(unsafe { libc::send(fd, rest.as_ptr().cast(), rest.len(), libc::MSG_NOSIGNAL) })
    })
}

/// `send(2)` of pages that the kernel takes as they are. The socket must be one that may (`SO_ZEROCOPY`).
pub fn zerocopy(fd: RawFd, data: &[u8]) -> io::Result<()> {
    let (on, size): (libc::c_int, _) = (1, size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: a number of that size.
    let set =
        unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_ZEROCOPY, (&raw const on).cast(), size) };
    check(set as isize)?;
    all(data, |rest| {
        let flags = libc::MSG_NOSIGNAL | libc::MSG_ZEROCOPY;
        // SAFETY: the pointer and the length are those of a live slice.
        check(unsafe { libc::send(fd, rest.as_ptr().cast(), rest.len(), flags) })
    })
}

/// `sendto(2)` without an address, through the plain system call.
pub fn sendto(fd: RawFd, data: &[u8]) -> io::Result<()> {
    all(data, |rest| {
        // SAFETY: the pointer and the length are those of a live slice; a null address with length 0 is none.
        let sent = unsafe {
            libc::syscall(
                libc::SYS_sendto,
                fd,
                rest.as_ptr(),
                rest.len(),
                0,
                ptr::null::<libc::sockaddr>(),
                0,
            )
        };
        check(sent as isize)
    })
}

/// `write(2)` from another thread.
pub fn thread(fd: RawFd, data: &[u8]) -> io::Result<()> {
    threads::scope(|scope| {
        scope
            .spawn(|| write(fd, data))
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
    })
}

/// `write(2)` from a forked child.
pub fn fork(fd: RawFd, data: &[u8]) -> io::Result<()> {
    // SAFETY: the child calls nothing but write and _exit, which may be called after a fork of a program with
    // several threads.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = i32::from(write(fd, data).is_err());
        // SAFETY: _exit runs nothing of this program.
        unsafe { libc::_exit(code) };
    }
    check(child as isize)?;
    let mut status = 0;
    // SAFETY: the pointer is to a live integer.
    check(unsafe { libc::waitpid(child, &raw mut status, 0) } as isize)?;
    if status == 0 { Ok(()) } else { Err(io::Error::other(format!("the forked child ended with {status}"))) }
}

/// `write(2)` to a duplicate.
pub fn dup(fd: RawFd, data: &[u8]) -> io::Result<()> {
    // SAFETY: dup touches no memory.
    let duplicate = unsafe { libc::dup(fd) };
    check(duplicate as isize)?;
    // SAFETY: the descriptor was made above and belongs to nobody else.
    let duplicate = unsafe { OwnedFd::from_raw_fd(duplicate) };
    write(duplicate.as_raw_fd(), data)
}

/// `write(2)` to the same pipe, opened anew.
pub fn reopen(fd: RawFd, data: &[u8]) -> io::Result<()> {
    let again = OpenOptions::new().write(true).open(format!("/proc/self/fd/{fd}"))?;
    write(again.as_raw_fd(), data)
}
