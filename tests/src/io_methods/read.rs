//! Reads, in every way there is.

use std::io::{self, Read};
use std::mem;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::ptr;

use super::vectors::message;
use super::{ReadMethod, check, poll, ring, unseen, with_nonblocking};

/// Sizes of the first buffers of a read into several; the last takes the rest.
const FIRST_BUFFERS: [usize; 3] = [1, 3, 100];
/// How many messages one `recvmmsg` takes.
const MESSAGES: usize = 4;
/// The current position, for calls that take one.
const CURRENT_POSITION: libc::off_t = -1;

/// Reads from a descriptor in one of the ways.
#[derive(Debug)]
pub struct MethodReader<'a> {
    method: ReadMethod,
    fd: BorrowedFd<'a>,
}

impl<'a> MethodReader<'a> {
    pub(super) fn new(method: ReadMethod, fd: BorrowedFd<'a>) -> Self {
        Self { method, fd }
    }
}

impl Read for MethodReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let fd = self.fd.as_raw_fd();
        match self.method {
            ReadMethod::Read => read(fd, buffer),
            ReadMethod::Readv => readv(fd, buffer),
            ReadMethod::Preadv2 => preadv2(fd, buffer),
            ReadMethod::OneByte => read(fd, buffer.get_mut(..1).unwrap_or_default()),
            ReadMethod::Nonblocking => nonblocking(fd, buffer),
            ReadMethod::Recv => recv(fd, buffer, 0),
            ReadMethod::Recvfrom => recvfrom(fd, buffer),
            ReadMethod::Recvmsg => recvmsg(fd, buffer),
            ReadMethod::Recvmmsg => recvmmsg(fd, buffer),
            ReadMethod::Peek => peek(fd, buffer),
            ReadMethod::Dup => dup(fd, buffer),
            #[cfg(target_arch = "x86_64")]
            ReadMethod::Read32 => super::compat::read(fd, buffer),
            #[cfg(not(target_arch = "x86_64"))]
            ReadMethod::Read32 => Err(io::ErrorKind::Unsupported.into()),
            ReadMethod::UringRead => ring::read(fd, buffer),
            ReadMethod::UringRecv => ring::recv(fd, buffer),
            ReadMethod::UringReadMultishot => ring::read_multishot(fd, buffer),
            ReadMethod::UringRecvMultishot => ring::recv_multishot(fd, buffer),
            ReadMethod::Splice => splice(fd, buffer),
        }
    }
}

/// `buffer` as several.
fn buffers(buffer: &mut [u8]) -> Vec<libc::iovec> {
    let mut rest = buffer;
    let mut buffers = Vec::new();
    for size in FIRST_BUFFERS {
        if rest.len() > size {
            let (first, others) = mem::take(&mut rest).split_at_mut(size);
            buffers.push(libc::iovec { iov_base: first.as_mut_ptr().cast(), iov_len: first.len() });
            rest = others;
        }
    }
    buffers.push(libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() });
    buffers
}

fn read(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the pointer and the length are those of a live slice that nobody else uses.
    check(unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) })
}

fn readv(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    let buffers = buffers(buffer);
    // SAFETY: the buffers are parts of a live slice that nobody else uses.
    check(unsafe { libc::readv(fd, buffers.as_ptr(), buffers.len() as libc::c_int) })
}

fn preadv2(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    let buffers = buffers(buffer);
    let count = buffers.len() as libc::c_int;
    // SAFETY: the buffers are parts of a live slice that nobody else uses.
    check(unsafe { libc::preadv2(fd, buffers.as_ptr(), count, CURRENT_POSITION, 0) })
}

fn nonblocking(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    with_nonblocking(fd, || {
        loop {
            match read(fd, buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => poll(fd, libc::POLLIN)?,
                outcome => return outcome,
            }
        }
    })
}

fn recv(fd: RawFd, buffer: &mut [u8], flags: libc::c_int) -> io::Result<usize> {
    // SAFETY: the pointer and the length are those of a live slice that nobody else uses.
    check(unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), flags) })
}

fn recvfrom(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    let mut address = mem::MaybeUninit::<libc::sockaddr_storage>::uninit();
    let mut length = mem::size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: the slice is alive and nobody else's; the address has the room that its length says.
    check(unsafe {
        libc::recvfrom(
            fd,
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            0,
            address.as_mut_ptr().cast(),
            &raw mut length,
        )
    })
}

fn recvmsg(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    let mut buffers = buffers(buffer);
    let mut message = message(&mut buffers);
    // SAFETY: the message and its buffers are alive, and nobody else uses the buffers.
    check(unsafe { libc::recvmsg(fd, &raw mut message, 0) })
}

fn recvmmsg(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    let piece = buffer.len().div_ceil(MESSAGES).max(1);
    let mut buffers: Vec<Vec<libc::iovec>> = buffer.chunks_mut(piece).map(buffers).collect();
    let mut messages: Vec<libc::mmsghdr> =
        buffers.iter_mut().map(|buffers| libc::mmsghdr { msg_hdr: message(buffers), msg_len: 0 }).collect();
    let count = messages.len() as libc::c_uint;
    // Wait for the first message only: one that follows may never come.
    let flags = libc::MSG_WAITFORONE as _;
    // SAFETY: the messages and their buffers are alive, and nobody else uses the buffers.
    let received = unsafe { libc::recvmmsg(fd, messages.as_mut_ptr(), count, flags, ptr::null_mut()) };
    let received = check(received as isize)?;
    // A message rarely fills its part of the buffer: close the ranks.
    let mut filled = 0;
    for (index, message) in messages.iter().take(received).enumerate() {
        let length = message.msg_len as usize;
        buffer.copy_within(index * piece..index * piece + length, filled);
        filled += length;
    }
    Ok(filled)
}

fn peek(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    recv(fd, buffer, libc::MSG_PEEK)?;
    recv(fd, buffer, 0)
}

fn dup(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: dup touches no memory.
    let duplicate = unsafe { libc::dup(fd) };
    check(duplicate as isize)?;
    // SAFETY: the descriptor was made above and belongs to nobody else.
    let duplicate = unsafe { OwnedFd::from_raw_fd(duplicate) };
    read(duplicate.as_raw_fd(), buffer)
}

fn splice(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (mut reader, writer) = io::pipe()?;
    let moved = unseen::splice(fd, writer.as_raw_fd(), buffer.len())?;
    reader.read_exact(buffer.get_mut(..moved).unwrap_or_default())?;
    Ok(moved)
}
