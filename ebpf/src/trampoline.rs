//! The trampoline backend: the exits of the functions that move the bytes of pipes and sockets, whatever called them.
//!
//! What is not watched costs one look-up, of the inode. What these functions do not see comes from two other places, of
//! which nobody else pays anything:
//!
//! - `splice`, `tee`, `vmsplice` and `sendfile`: their system calls' own wrappers, which every kernel has, and under the
//!   same names; what lies below is static, inlined here and there, and changes. They count all of such a call, so what
//!   does come through a function on its behalf is left to them ([`of_splice`]).
//! - splice and tee through io_uring: the tracepoint at the completion of requests.

use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use mcpwarden_abi::{Channel, GAP_IO_URING, GAP_UNREADABLE, SOCKET};

use crate::{
    capture::{Payload, passed},
    gate,
    iterator::{self, Location, Memory},
    kernel::{self, Ptr, key_of_file, load, offset},
    socket,
    source::{Coming, Source},
    syscall::{self, MSG_ERRQUEUE, MSG_OOB, MSG_PEEK, MSG_TRUNC},
    tables,
};

/// Which pipes a function is asked about. From 6.15 on those with a name have functions of their own, which call the
/// others or have them inlined: what is asked of whom must not hang on that.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pipes {
    /// The kernel has one function for all.
    All,
    /// Those of `pipe(2)`.
    Anonymous,
    /// Those in a file system.
    Named,
}

/// `linux/fs.h`
const MAY_WRITE: i32 = 2;
/// `linux/magic.h`
const PIPEFS_MAGIC: u64 = 0x5049_5045;
/// `linux/socket.h`, 6.5 to 6.18; a bit that no earlier kernel uses.
const MSG_SPLICE_PAGES: u32 = 0x0800_0000;

/// A pipe was written to or read from.
#[inline(always)]
pub fn pipe(request: Ptr, bytes: Ptr, result: i64, writes: bool, which: Pipes) {
    if result <= 0 {
        return;
    }
    let file: Ptr = load(request, offset!(iocb_filp));
    let Some(channel) = channel_of(file) else { return };
    if which != Pipes::All {
        let inode: Ptr = load(file, offset!(file_inode));
        let superblock: Ptr = load(inode, offset!(inode_sb));
        let anonymous = load::<u64>(superblock, offset!(sb_magic)) == PIPEFS_MAGIC;
        if anonymous != (which == Pipes::Anonymous) {
            return;
        }
    }
    let result = result as u64;
    let payload = payload(channel, writes, bytes, result);
    passed(channel, writes, result, caller(), payload);
}

/// A socket took bytes.
#[inline(always)]
pub fn sent(socket: Ptr, message: Ptr, result: i32) {
    if result <= 0 {
        return;
    }
    let Some(channel) = channel_of(load(socket, offset!(socket_file))) else { return };
    let mut bytes = result as u64;
    let flags: u32 = load(message, offset!(msghdr_flags));
    if flags & MSG_SPLICE_PAGES != 0 || of_splice(message) {
        return;
    }
    let payload = payload(channel, true, message.wrapping_add(offset!(msghdr_iter)), bytes);
    if is_urgent(message) {
        bytes -= 1;
        if bytes == 0 {
            return;
        }
    }
    passed(channel, true, bytes, caller(), payload);
}

/// A Unix socket was connected.
#[inline(always)]
pub fn connected(socket: Ptr, result: i32) {
    let file: Ptr = load(socket, offset!(socket_file));
    if result == 0 && !file.is_null() {
        socket::connected(file);
    }
}

/// A Unix socket was closed by the last who held it.
#[inline(always)]
pub fn released(socket: Ptr) {
    let Some(channel) = channel_of(load(socket, offset!(socket_file))) else { return };
    // SAFETY: a live map value.
    let key = unsafe { (*channel).write_capture };
    if key & SOCKET != 0 {
        socket::again(key);
    }
}

/// A socket gave bytes up.
#[inline(always)]
pub fn received(socket: Ptr, message: Ptr, flags: u32, result: i32) {
    if result <= 0 {
        return;
    }
    let Some(channel) = channel_of(load(socket, offset!(socket_file))) else { return };
    // All of it as in `syscall::dispatch`.
    let flags = flags as u64;
    if flags & (MSG_OOB | MSG_PEEK) != 0 {
        return;
    }
    let bytes = result as u64;
    // SAFETY: a live map value.
    if flags & (MSG_TRUNC | MSG_ERRQUEUE) != 0 && unsafe { (*channel).read_capture } & SOCKET != 0 {
        if flags & MSG_ERRQUEUE == 0 {
            passed(channel, false, bytes, caller(), Payload::lost(GAP_UNREADABLE));
        }
        return;
    }
    if of_splice(message) {
        return;
    }
    let payload = payload(channel, false, message.wrapping_add(offset!(msghdr_iter)), bytes);
    passed(channel, false, bytes, caller(), payload);
}

/// Somebody wants to read or write a file: what the kernel is to answer where that is a channel's pipe.
#[inline(always)]
pub fn evaluate_pipe(file: Ptr, mask: i32) -> i32 {
    if mask & MAY_WRITE == 0 {
        return 0;
    }
    let inode: Ptr = load(file, offset!(file_inode));
    if inode.is_null() || !kernel::is_pipe(inode) {
        return 0;
    }
    let Some(channel) = channel_of(file) else { return 0 };
    gate::evaluate(channel, syscall::coming(file))
}

/// A message is about to be sent.
#[inline(always)]
pub fn evaluate_socket(socket: Ptr, message: Ptr) -> i32 {
    let Some(channel) = channel_of(load(socket, offset!(socket_file))) else { return 0 };
    let bytes = if is_urgent(message) {
        Coming::unknown()
    } else {
        iterator::ahead(message.wrapping_add(offset!(msghdr_iter)))
    };
    gate::evaluate(channel, bytes)
}

/// Whether the last byte of a message is none of the stream (see [`syscall::dispatch`]).
#[inline(always)]
fn is_urgent(message: Ptr) -> bool {
    load::<u32>(message, offset!(msghdr_flags)) as u64 & MSG_OOB != 0
}

/// A write to a pipe has returned.
#[inline(always)]
pub fn pipe_settled(request: Ptr, bytes: Ptr, result: i64) {
    let Some(channel) = channel_of(load(request, offset!(iocb_filp))) else { return };
    let left = || iterator::left(bytes);
    gate::returned(channel, result, left, |written| of_process(iterator::passed(bytes, written)));
}

/// A message was sent, or not.
#[inline(always)]
pub fn socket_settled(socket: Ptr, message: Ptr, result: i32) {
    let Some(channel) = channel_of(load(socket, offset!(socket_file))) else { return };
    let bytes = message.wrapping_add(offset!(msghdr_iter));
    let left = || iterator::left(bytes);
    let result = result - is_urgent(message) as i32;
    gate::returned(channel, result as i64, left, |written| of_process(iterator::passed(bytes, written)));
}

/// Where bytes lay in the memory of a process, if they did.
#[inline(always)]
fn of_process(place: Location) -> Option<Source> {
    match place.memory {
        Memory::User => Some(place.source),
        Memory::Pages | Memory::Kernel | Memory::Unknown => None,
    }
}

#[inline(always)]
fn channel_of(file: Ptr) -> Option<*const Channel> {
    if file.is_null() {
        return None;
    }
    let inode: Ptr = load(file, offset!(file_inode));
    if inode.is_null() || !tables::may_be_channel(load(inode, offset!(inode_ino))) {
        return None;
    }
    tables::channel(&key_of_file(file)?)
}

/// The process (tgid) that runs. io_uring's threads are among their process's.
#[inline(always)]
fn caller() -> u32 {
    (bpf_get_current_pid_tgid() >> 32) as u32
}

/// Where the last `bytes` of a channel lay that an iterator went over. Of those that are only counted that is not looked for.
#[inline(always)]
fn payload(channel: *const Channel, writes: bool, iterator: Ptr, bytes: u64) -> Payload {
    // SAFETY: a live map value.
    let captured_for = unsafe { if writes { (*channel).write_capture } else { (*channel).read_capture } };
    if captured_for == 0 {
        return Payload::lost(GAP_UNREADABLE);
    }
    let place = iterator::passed(iterator, bytes);
    match place.memory {
        Memory::User => Payload::at(place.source),
        Memory::Pages => Payload::lost(GAP_IO_URING),
        Memory::Kernel | Memory::Unknown => Payload::lost(GAP_UNREADABLE),
    }
}

/// Whether a message moves bytes on behalf of a splice, where a kind of socket has no way of its own to do that (MPTCP):
/// from the kernel's memory, or to pages for a request that is nobody's but the caller's. io_uring's know whom to tell.
#[inline(always)]
fn of_splice(message: Ptr) -> bool {
    match iterator::memory(message.wrapping_add(offset!(msghdr_iter))) {
        Memory::User | Memory::Unknown => false,
        Memory::Kernel => true,
        Memory::Pages => {
            let request: Ptr = load(message, offset!(msghdr_iocb));
            !request.is_null() && load::<u64>(request, offset!(iocb_complete)) == 0
        }
    }
}
