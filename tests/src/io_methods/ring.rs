//! io_uring. A ring for each call: slow, but then nothing is left over from the call before.

use std::io;
use std::os::fd::RawFd;

use io_uring::{IoUring, opcode, squeue, types::Fd};

use super::all;
use super::vectors::buffers;

/// Pipes and sockets have no position; the kernel wants this in its place.
const NO_POSITION: u64 = u64::MAX;

/// A length as io_uring takes it.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Submits one operation and waits for it.
///
/// The caller keeps alive what `entry` points to until this returns: the operation is complete by then.
fn submit(ring: &mut IoUring, entry: &squeue::Entry) -> io::Result<usize> {
    // SAFETY: what the entry points to outlives the operation, which is waited for below.
    unsafe { ring.submission().push(entry) }.map_err(io::Error::other)?;
    ring.submit_and_wait(1)?;
    let completion = ring.completion().next().ok_or_else(|| io::Error::other("io_uring: no completion"))?;
    let result = completion.result();
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

fn submit_alone(entry: &squeue::Entry) -> io::Result<usize> {
    submit(&mut IoUring::new(2)?, entry)
}

/// `WRITE`.
pub fn write(fd: RawFd, data: &[u8]) -> io::Result<()> {
    all(data, |rest| {
        let entry = opcode::Write::new(Fd(fd), rest.as_ptr(), length(rest.len())).offset(NO_POSITION).build();
        submit_alone(&entry)
    })
}

/// `WRITEV`.
pub fn writev(fd: RawFd, data: &[u8]) -> io::Result<()> {
    all(data, |rest| {
        let buffers = buffers(rest);
        let count = length(buffers.len());
        let entry = opcode::Writev::new(Fd(fd), buffers.as_ptr(), count).offset(NO_POSITION).build();
        submit_alone(&entry)
    })
}

/// `SEND`.
pub fn send(fd: RawFd, data: &[u8]) -> io::Result<()> {
    all(data, |rest| submit_alone(&opcode::Send::new(Fd(fd), rest.as_ptr(), length(rest.len())).build()))
}

/// `WRITE_FIXED` from a registered buffer.
pub fn write_fixed(fd: RawFd, data: &[u8]) -> io::Result<()> {
    let mut ring = IoUring::new(2)?;
    let buffer = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
    // SAFETY: the buffer outlives the ring, which holds the only reference to it.
    unsafe { ring.submitter().register_buffers(&[buffer]) }?;
    all(data, |rest| {
        let entry =
            opcode::WriteFixed::new(Fd(fd), rest.as_ptr(), length(rest.len()), 0).offset(NO_POSITION).build();
        submit(&mut ring, &entry)
    })
}

/// `READ`.
pub fn read(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    let entry =
        opcode::Read::new(Fd(fd), buffer.as_mut_ptr(), length(buffer.len())).offset(NO_POSITION).build();
    submit_alone(&entry)
}

/// `RECV`.
pub fn recv(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    submit_alone(&opcode::Recv::new(Fd(fd), buffer.as_mut_ptr(), length(buffer.len())).build())
}

/// `READ_MULTISHOT`.
pub fn read_multishot(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    multishot(&opcode::ReadMulti::new(Fd(fd), 0, GROUP).offset(NO_POSITION).build(), buffer)
}

/// `RECV` with `IORING_RECV_MULTISHOT`.
pub fn recv_multishot(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    multishot(&opcode::RecvMulti::new(Fd(fd), GROUP).build(), buffer)
}

/// The group of the one buffer that the kernel may choose.
const GROUP: u16 = 0;

/// Submits a request that could complete again and again; there is one buffer, so that it completes once with bytes.
fn multishot(entry: &squeue::Entry, buffer: &mut [u8]) -> io::Result<usize> {
    let mut ring = IoUring::new(2)?;
    let bytes = i32::try_from(buffer.len()).map_err(io::Error::other)?;
    submit(&mut ring, &opcode::ProvideBuffers::new(buffer.as_mut_ptr(), bytes, 1, GROUP, 0).build())?;
    submit(&mut ring, entry)
}
