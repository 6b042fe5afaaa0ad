//! Bytes that go through io_uring. The request still holds the user's buffer when it completes.
//!
//! Opcodes and layouts: `linux/io_uring.h`, `struct io_kiocb`, `struct io_rw`, `struct io_sr_msg`.

use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use mcpwarden_abi::{Counter, GAP_IO_URING, GAP_UNREADABLE, SOCKET};

use crate::{
    capture::{Payload, passed},
    kernel::{self, Ptr, offset, probe},
    source::Source,
    syscall::{MSG_ERRQUEUE, MSG_PEEK, MSG_TRUNC},
    tables,
};

const READV: u8 = 1;
const WRITEV: u8 = 2;
const READ_FIXED: u8 = 4;
const WRITE_FIXED: u8 = 5;
const SENDMSG: u8 = 9;
const RECVMSG: u8 = 10;
const READ: u8 = 22;
const WRITE: u8 = 23;
const SEND: u8 = 26;
const RECV: u8 = 27;
const SPLICE: u8 = 30;
const TEE: u8 = 33;
const SEND_ZC: u8 = 47;
const SENDMSG_ZC: u8 = 48;
const READ_MULTISHOT: u8 = 49;

/// The completion carries its result in a cqe: `{u64 user_data; i32 res; u32 flags}`.
#[inline(always)]
pub fn completed_cqe(request: Ptr, cqe: Ptr) {
    if let Some(result) = probe::<i32>(cqe, 8) {
        completed(request, result);
    }
}

/// For the trampoline backend, where all but these go through the functions that it sees.
#[inline(always)]
pub fn spliced(request: Ptr, result: i32) {
    if result <= 0 || request.is_null() {
        return;
    }
    let Some(SPLICE | TEE) = probe::<u8>(request, offset!(kiocb_opcode)) else { return };
    let Some(file) = probe::<Ptr>(request, offset!(kiocb_file)) else { return };
    let Some(inode) = kernel::inode_of(file) else { return };
    let Some(key) = kernel::key_of(inode) else { return };
    let Some(channel) = tables::channel(&key) else { return };
    let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    passed(channel, true, result as u64, tgid, Payload::lost(GAP_IO_URING));
}

/// See [`spliced`] and [`completed_cqe`].
#[inline(always)]
pub fn spliced_cqe(request: Ptr, cqe: Ptr) {
    if let Some(result) = probe::<i32>(cqe, 8) {
        spliced(request, result);
    }
}

/// A request completed with `result` bytes.
#[inline(always)]
pub fn completed(request: Ptr, result: i32) {
    if result <= 0 {
        return;
    }
    let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    if !tables::watches(tgid) {
        return;
    }
    if request.is_null() {
        // All but the last completion of a multishot request. Whether it moved bytes of a channel shows when what the
        // server wrote is held against what the client read.
        tables::count(Counter::IoUringUntold, 1);
        return;
    }
    let Some(opcode) = probe::<u8>(request, offset!(kiocb_opcode)) else { return };
    let writes =
        matches!(opcode, WRITEV | WRITE_FIXED | SENDMSG | WRITE | SEND | SPLICE | TEE | SEND_ZC | SENDMSG_ZC);
    if !writes && !matches!(opcode, READV | READ_FIXED | RECVMSG | READ | RECV | READ_MULTISHOT) {
        return;
    }
    let Some(file) = probe::<Ptr>(request, offset!(kiocb_file)) else { return };
    if file.is_null() {
        return;
    }
    let Some(inode) = kernel::inode_of(file) else { return };
    let Some(key) = kernel::key_of(inode) else { return };
    let Some(channel) = tables::channel(&key) else { return };
    let payload = match opcode {
        READ | WRITE => match probe::<u64>(request, offset!(rw_addr)) {
            Some(address) => Payload::at(Source::buffer(address)),
            None => Payload::lost(GAP_UNREADABLE),
        },
        READV | WRITEV => {
            match (probe::<u64>(request, offset!(rw_addr)), probe::<u32>(request, offset!(rw_len))) {
                (Some(address), Some(buffers)) => Payload::at(Source::vector(address, buffers as u64, false)),
                _ => Payload::lost(GAP_UNREADABLE),
            }
        }
        SEND | RECV | SENDMSG | RECVMSG => {
            if opcode == RECV || opcode == RECVMSG {
                let flags = u64::from(probe::<u32>(request, offset!(msg_flags)).unwrap_or(0));
                if flags & MSG_PEEK != 0 {
                    return;
                }
                // See `syscall::dispatch`.
                // SAFETY: a live map value.
                if flags & (MSG_TRUNC | MSG_ERRQUEUE) != 0 && unsafe { (*channel).read_capture } & SOCKET != 0
                {
                    if flags & MSG_ERRQUEUE == 0 {
                        passed(channel, false, result as u64, tgid, Payload::lost(GAP_UNREADABLE));
                    }
                    return;
                }
            }
            match probe::<u64>(request, offset!(msg_buf)) {
                Some(address) if opcode == SEND || opcode == RECV => Payload::at(Source::buffer(address)),
                Some(address) => match Source::message(address, false) {
                    Some(source) => Payload::at(source),
                    None => Payload::lost(GAP_UNREADABLE),
                },
                None => Payload::lost(GAP_UNREADABLE),
            }
        }
        _ => Payload::lost(GAP_IO_URING),
    };
    passed(channel, writes, result as u64, tgid, payload);
}
