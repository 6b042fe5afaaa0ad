//! Ways past every buffer that a program could look into: pages move, bytes are not copied from user memory.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, RawFd};
use std::ptr;

use super::{all, check, write};

/// What an empty pipe takes without blocking.
const PIPE_BYTES: usize = 64 * 1024;

/// A file in memory that holds `data`.
fn file(data: &[u8]) -> io::Result<File> {
    // SAFETY: the name is a literal that ends in NUL.
    let fd = unsafe { libc::memfd_create(c"mcpwarden-tests".as_ptr(), libc::MFD_CLOEXEC) };
    check(fd as isize)?;
    // SAFETY: the descriptor was made above and belongs to nobody else.
    let mut file = unsafe { File::from_raw_fd(fd) };
    file.write_all(data)?;
    Ok(file)
}

/// `splice(2)` from a file.
pub fn splice_file(fd: RawFd, data: &[u8]) -> io::Result<()> {
    let file = file(data)?;
    // One end has to be a pipe: a socket gets it by way of one, as `sendfile` does it inside the kernel.
    if is_pipe(fd)? {
        let mut offset: libc::loff_t = 0;
        return all(data, |rest| {
            // SAFETY: the pointer is to a live offset.
            check(unsafe {
                libc::splice(file.as_raw_fd(), &raw mut offset, fd, ptr::null_mut(), rest.len(), 0)
            })
        });
    }
    let (reader, writer) = io::pipe()?;
    let mut offset: libc::loff_t = 0;
    all(data, |rest| {
        let length = rest.len().min(PIPE_BYTES);
        let (from, to) = (file.as_raw_fd(), writer.as_raw_fd());
        // SAFETY: the pointer is to a live offset.
        let moved = check(unsafe { libc::splice(from, &raw mut offset, to, ptr::null_mut(), length, 0) })?;
        splice_all(reader.as_raw_fd(), fd, moved)?;
        Ok(moved)
    })
}

/// `splice(2)` from a pipe.
pub fn splice_pipe(fd: RawFd, data: &[u8]) -> io::Result<()> {
    let (reader, writer) = io::pipe()?;
    for piece in data.chunks(PIPE_BYTES) {
        write::write(writer.as_raw_fd(), piece)?;
        splice_all(reader.as_raw_fd(), fd, piece.len())?;
    }
    Ok(())
}

/// `vmsplice(2)`.
pub fn vmsplice(fd: RawFd, data: &[u8]) -> io::Result<()> {
    // The pipe holds references to the pages, not a copy: they must stay as they are for as long as a reader
    // may come, and nobody tells when that is over.
    let data: &'static [u8] = Box::leak(data.into());
    all(data, |rest| {
        let buffer = libc::iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() };
        // SAFETY: the buffer is a part of a slice that lives for ever and is never written.
        check(unsafe { libc::vmsplice(fd, &raw const buffer, 1, 0) })
    })
}

/// `tee(2)` from a pipe.
pub fn tee(fd: RawFd, data: &[u8]) -> io::Result<()> {
    let (reader, writer) = io::pipe()?;
    let sink = File::options().write(true).open("/dev/null")?;
    for piece in data.chunks(PIPE_BYTES) {
        write::write(writer.as_raw_fd(), piece)?;
        all(piece, |rest| {
            // SAFETY: tee touches no memory of this process.
            let copied = check(unsafe { libc::tee(reader.as_raw_fd(), fd, rest.len(), 0) })?;
            // What was copied is still in our pipe, and the next tee would copy it again.
            splice_all(reader.as_raw_fd(), sink.as_raw_fd(), copied)?;
            Ok(copied)
        })?;
    }
    Ok(())
}

/// `sendfile(2)`.
pub fn sendfile(fd: RawFd, data: &[u8]) -> io::Result<()> {
    let file = file(data)?;
    let mut offset: libc::off_t = 0;
    all(data, |rest| {
        // SAFETY: the pointer is to a live offset.
        check(unsafe { libc::sendfile(fd, file.as_raw_fd(), &raw mut offset, rest.len()) })
    })
}

/// Moves exactly `length` bytes from the pipe `from` to `to`.
pub(super) fn splice_all(from: RawFd, to: RawFd, length: usize) -> io::Result<()> {
    let mut left = length;
    while left > 0 {
        match splice(from, to, left)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            moved => left -= moved,
        }
    }
    Ok(())
}

/// Moves up to `length` bytes between a pipe and something else; 0 at the end of `from`.
pub(super) fn splice(from: RawFd, to: RawFd, length: usize) -> io::Result<usize> {
    // SAFETY: null offsets are allowed; no memory of this process is touched.
    check(unsafe { libc::splice(from, ptr::null_mut(), to, ptr::null_mut(), length, 0) })
}

fn is_pipe(fd: RawFd) -> io::Result<bool> {
    // SAFETY: F_GETPIPE_SZ takes no argument and touches no memory.
    let size = unsafe { libc::fcntl(fd, libc::F_GETPIPE_SZ) };
    match check(size as isize) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EBADF) => Ok(false),
        Err(error) => Err(error),
    }
}
