//! Every way in which a program can write to or read from a pipe or a socket, one function each.
//!
//! The agent has to see what goes through each of them, or to say how many bytes it did not see.
//! The functions call the kernel directly, so that nothing between chooses another system call.

#[cfg(target_arch = "x86_64")]
mod compat;
mod read;
mod ring;
mod unseen;
mod vectors;
mod write;

use std::fmt::Write as _;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub use read::MethodReader;

/// How bytes are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteMethod {
    /// `write(2)`.
    #[default]
    Write,
    /// `writev(2)` with many buffers, empty ones among them.
    Writev,
    /// `pwritev2(2)` at the current position.
    Pwritev2,
    /// `write(2)`, byte by byte.
    OneByte,
    /// `write(2)` on a non-blocking descriptor: short writes, and `EAGAIN` where there is no room.
    Nonblocking,
    /// `send(2)`.
    Send,
    /// `sendto(2)` as a 64-bit program's `send` of old did it: with an empty address.
    Sendto,
    /// `sendmsg(2)` with several buffers.
    Sendmsg,
    /// `sendmmsg(2)` with several messages.
    Sendmmsg,
    /// The same, each with the address that the socket is connected to.
    SendmmsgNamed,
    /// `send(2)` with `MSG_ZEROCOPY`.
    Zerocopy,
    /// `write(2)` from another thread.
    Thread,
    /// `write(2)` from a forked child.
    Fork,
    /// `write(2)` to a duplicate of the descriptor.
    Dup,
    /// `write(2)` to the pipe opened anew through `/proc/self/fd`.
    Reopen,
    /// `write(2)` by its 32-bit number (`int 0x80`).
    Write32,
    /// `writev(2)` by its 32-bit number.
    Writev32,
    /// io_uring: `WRITE`.
    UringWrite,
    /// io_uring: `WRITEV`.
    UringWritev,
    /// io_uring: `SEND`.
    UringSend,
    /// io_uring: `WRITE_FIXED`, from a registered buffer. A gap.
    UringWriteFixed,
    /// `splice(2)` from a file. A gap.
    SpliceFile,
    /// `splice(2)` from another pipe. A gap.
    SplicePipe,
    /// `vmsplice(2)`. A gap.
    Vmsplice,
    /// `tee(2)` from another pipe. A gap.
    Tee,
    /// `sendfile(2)`. A gap.
    Sendfile,
}

impl WriteMethod {
    /// Writes all of `data`.
    ///
    /// # Errors
    /// The kernel refused, for instance `send` on a pipe or `vmsplice` to a socket.
    pub fn write(self, fd: BorrowedFd<'_>, data: &[u8]) -> io::Result<()> {
        let fd = fd.as_raw_fd();
        match self {
            Self::Write => write::write(fd, data),
            Self::Writev => vectors::writev(fd, data),
            Self::Pwritev2 => vectors::pwritev2(fd, data),
            Self::OneByte => write::one_byte(fd, data),
            Self::Nonblocking => write::nonblocking(fd, data),
            Self::Send => write::send(fd, data),
            Self::Sendto => write::sendto(fd, data),
            Self::Sendmsg => vectors::sendmsg(fd, data),
            Self::Sendmmsg => vectors::sendmmsg(fd, data),
            Self::SendmmsgNamed => vectors::sendmmsg_named(fd, data),
            Self::Zerocopy => write::zerocopy(fd, data),
            Self::Thread => write::thread(fd, data),
            Self::Fork => write::fork(fd, data),
            Self::Dup => write::dup(fd, data),
            Self::Reopen => write::reopen(fd, data),
            #[cfg(target_arch = "x86_64")]
            Self::Write32 => compat::write(fd, data),
            #[cfg(target_arch = "x86_64")]
            Self::Writev32 => compat::writev(fd, data),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Write32 | Self::Writev32 => Err(io::ErrorKind::Unsupported.into()),
            Self::UringWrite => ring::write(fd, data),
            Self::UringWritev => ring::writev(fd, data),
            Self::UringSend => ring::send(fd, data),
            Self::UringWriteFixed => ring::write_fixed(fd, data),
            Self::SpliceFile => unseen::splice_file(fd, data),
            Self::SplicePipe => unseen::splice_pipe(fd, data),
            Self::Vmsplice => unseen::vmsplice(fd, data),
            Self::Tee => unseen::tee(fd, data),
            Self::Sendfile => unseen::sendfile(fd, data),
        }
    }

    /// Whether it works on `wiring`'s kind of descriptor.
    pub fn works_on(self, wiring: crate::wiring::Wiring) -> bool {
        use crate::wiring::Wiring;
        match self {
            Self::Send | Self::Sendto | Self::Sendmsg | Self::Sendmmsg | Self::UringSend => {
                wiring != Wiring::Pipes
            }
            Self::Vmsplice | Self::Tee | Self::Reopen => wiring == Wiring::Pipes,
            Self::SendmmsgNamed | Self::Zerocopy => wiring == Wiring::Tcp,
            _ => true,
        }
    }

    /// Whether the agent can see the bytes; where it cannot, it reports a gap of their size.
    pub fn is_seen(self) -> bool {
        !matches!(
            self,
            Self::UringWriteFixed
                | Self::SpliceFile
                | Self::SplicePipe
                | Self::Vmsplice
                | Self::Tee
                | Self::Sendfile
        )
    }
}

/// How bytes are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadMethod {
    /// `read(2)`.
    #[default]
    Read,
    /// `readv(2)` with several buffers.
    Readv,
    /// `preadv2(2)` at the current position.
    Preadv2,
    /// `read(2)`, byte by byte.
    OneByte,
    /// `read(2)` on a non-blocking descriptor, with `EAGAIN` where there is nothing.
    Nonblocking,
    /// `recv(2)`.
    Recv,
    /// `recvfrom(2)`, with room for an address.
    Recvfrom,
    /// `recvmsg(2)` with several buffers.
    Recvmsg,
    /// `recvmmsg(2)` with several messages.
    Recvmmsg,
    /// `recv(2)` with `MSG_PEEK`, then without: the bytes count once.
    Peek,
    /// `read(2)` on a duplicate of the descriptor.
    Dup,
    /// `read(2)` by its 32-bit number (`int 0x80`).
    Read32,
    /// io_uring: `READ`.
    UringRead,
    /// io_uring: `RECV`.
    UringRecv,
    /// io_uring: `READ_MULTISHOT`. A gap.
    UringReadMultishot,
    /// io_uring: `RECV` that completes more than once. A gap.
    UringRecvMultishot,
    /// `splice(2)` into another pipe. A gap.
    Splice,
}

impl ReadMethod {
    /// A reader of `fd` that reads in this way.
    pub fn reader(self, fd: BorrowedFd<'_>) -> MethodReader<'_> {
        MethodReader::new(self, fd)
    }

    /// Whether it works on `wiring`'s kind of descriptor.
    pub fn works_on(self, wiring: crate::wiring::Wiring) -> bool {
        match self {
            Self::Recv
            | Self::Recvfrom
            | Self::Recvmsg
            | Self::Recvmmsg
            | Self::Peek
            | Self::UringRecv
            | Self::UringRecvMultishot => wiring != crate::wiring::Wiring::Pipes,
            _ => true,
        }
    }

    /// Whether the agent can see the bytes; where it cannot, it reports a gap of their size.
    pub fn is_seen(self) -> bool {
        !matches!(self, Self::UringReadMultishot | Self::UringRecvMultishot | Self::Splice)
    }
}

/// The SHA-256 of `data` in hexadecimal digits.
pub fn hex_digest(data: &[u8]) -> String {
    Sha256::digest(data).iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What a system call returned, as a result.
fn check(returned: isize) -> io::Result<usize> {
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}

/// Calls `step` with what is left of `data` until nothing is; it returns how much it took.
fn all(data: &[u8], mut step: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<()> {
    let mut rest = data;
    while !rest.is_empty() {
        match step(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(taken) => rest = rest.get(taken..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Waits until `events` can be done on `fd`.
fn poll(fd: RawFd, events: i16) -> io::Result<()> {
    let mut waiting = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: the pointer is to one live pollfd, and one is what the count says.
    check(unsafe { libc::poll(&raw mut waiting, 1, -1) } as isize).map(drop)
}

/// Runs `body` with `fd` non-blocking, and puts its flags back.
fn with_nonblocking<T>(fd: RawFd, body: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    // SAFETY: F_GETFL takes no argument and touches no memory.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    check(flags as isize)?;
    // SAFETY: F_SETFL takes an integer and touches no memory.
    check(unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) } as isize)?;
    let outcome = body();
    // SAFETY: as above.
    check(unsafe { libc::fcntl(fd, libc::F_SETFL, flags) } as isize)?;
    outcome
}

#[cfg(test)]
mod tests;
