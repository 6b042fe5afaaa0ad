//! The tracepoint backend: `sys_exit` sees every call that moved bytes, with its arguments still in the registers.
//!
//! The return value is the number of bytes; the buffer is the caller's, already filled (reads) or not
//! yet given back (writes). x86-64, with the 32-bit numbers of `int 0x80` and 32-bit programs.

use aya_ebpf::helpers::{
    bpf_get_current_pid_tgid,
    generated::{bpf_loop, bpf_task_pt_regs},
};
use core::ffi::c_void;
use mcpwarden_abi::{Channel, GAP_SENDFILE, GAP_SPLICE, GAP_TEE, GAP_VMSPLICE, SOCKET};

use crate::{
    capture::{Payload, passed},
    exec,
    kernel::{self, FMODE_WRITE, Ptr, load, offset, probe},
    ring,
    source::{Coming, Source, UNTOLD, User, mmsghdr, read},
    tables,
};

/// What a system call does with its first descriptor.
pub mod op {
    pub const NONE: u16 = 0;
    pub const READ: u16 = 1;
    pub const WRITE: u16 = 2;
    pub const READV: u16 = 3;
    pub const WRITEV: u16 = 4;
    pub const RECVMSG: u16 = 5;
    pub const SENDMSG: u16 = 6;
    pub const RECVMMSG: u16 = 7;
    pub const SENDMMSG: u16 = 8;
    pub const RECVFROM: u16 = 9;
    pub const SENDTO: u16 = 10;
    pub const SPLICE: u16 = 11;
    pub const TEE: u16 = 12;
    pub const VMSPLICE: u16 = 13;
    pub const SENDFILE: u16 = 14;
    pub const SOCKETCALL: u16 = 15;
    pub const DUP: u16 = 16;
}

const NUMBERS: usize = 512;

/// By system call number: what it does as a 64-bit call (low byte) and as a 32-bit call (high byte).
/// Sources: `arch/x86/entry/syscalls/syscall_64.tbl` and `syscall_32.tbl`.
static OPS: [u16; NUMBERS] = ops();

const fn ops() -> [u16; NUMBERS] {
    let native: [(usize, u16); 19] = [
        (0, op::READ),
        (1, op::WRITE),
        (19, op::READV),
        (20, op::WRITEV),
        (32, op::DUP),
        (33, op::DUP),
        (40, op::SENDFILE),
        (44, op::SENDTO),
        (45, op::RECVFROM),
        (46, op::SENDMSG),
        (47, op::RECVMSG),
        (275, op::SPLICE),
        (276, op::TEE),
        (278, op::VMSPLICE),
        (292, op::DUP),
        (299, op::RECVMMSG),
        (307, op::SENDMMSG),
        (327, op::READV),
        (328, op::WRITEV),
    ];
    let compat: [(usize, u16); 22] = [
        (3, op::READ),
        (4, op::WRITE),
        (41, op::DUP),
        (63, op::DUP),
        (102, op::SOCKETCALL),
        (145, op::READV),
        (146, op::WRITEV),
        (187, op::SENDFILE),
        (239, op::SENDFILE),
        (313, op::SPLICE),
        (315, op::TEE),
        (316, op::VMSPLICE),
        (330, op::DUP),
        (337, op::RECVMMSG),
        (345, op::SENDMMSG),
        (369, op::SENDTO),
        (370, op::SENDMSG),
        (371, op::RECVFROM),
        (372, op::RECVMSG),
        (378, op::READV),
        (379, op::WRITEV),
        (417, op::RECVMMSG),
    ];
    let mut table = [op::NONE; NUMBERS];
    let mut at = 0;
    while at < native.len() {
        table[native[at].0] |= native[at].1;
        at += 1;
    }
    at = 0;
    while at < compat.len() {
        table[compat[at].0] |= compat[at].1 << 8;
        at += 1;
    }
    table
}

/// Byte offsets in `struct pt_regs` (`arch/x86/include/asm/ptrace.h`, part of the ABI).
mod regs {
    pub const BX: usize = 40;
    pub const R10: usize = 56;
    pub const AX: usize = 80;
    pub const CX: usize = 88;
    pub const DX: usize = 96;
    pub const SI: usize = 104;
    pub const DI: usize = 112;
    pub const ORIG_AX: usize = 120;
}

/// `TS_COMPAT` (`arch/x86/include/asm/thread_info.h`)
const TS_COMPAT: u32 = 2;
/// `linux/socket.h`
pub const MSG_OOB: u64 = 1;
pub const MSG_PEEK: u64 = 2;
pub const MSG_TRUNC: u64 = 0x20;
pub const MSG_ERRQUEUE: u64 = 0x2000;

/// A call as the program made it.
#[derive(Clone, Copy)]
struct Call {
    args: [u64; 4],
    bytes: u64,
    tgid: u32,
    compat: bool,
}

/// A system call returned `result`, which is no error: bytes, or a descriptor.
#[inline(always)]
pub fn returned(regs: Ptr, result: u64) {
    let number: u64 = load(regs, regs::ORIG_AX);
    if number >= NUMBERS as u64 {
        return;
    }
    // SAFETY: in bounds; volatile, so that the table stays a table.
    let ops = unsafe { core::ptr::read_volatile(OPS.as_ptr().add(number as usize)) };
    // Most calls return 0, and of these one is of interest.
    if ops == op::NONE || result == 0 && !may_duplicate(ops) {
        return;
    }
    if may_duplicate(ops) {
        let compat = load::<u32>(kernel::current(), offset!(task_thread_status)) & TS_COMPAT != 0;
        if result <= STDOUT && op_of(ops, compat) == op::DUP {
            exec::descriptor_replaced(result as u32);
            return;
        }
    }
    let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    if result > 0 && tables::watches(tgid) && moved(result, tgid) == MESSAGES {
        messages(result as u32, tgid);
    }
}

/// The call that returns moved bytes of a process that is watched.
///
/// The verifier goes through it once, by itself, as through [`exec::replaced`]: the stack has no room for both.
///
/// Returns [`MESSAGES`] where it moved several messages, which [`messages`] takes.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn moved(bytes: u64, tgid: u32) -> i32 {
    let task = kernel::current();
    match current_call(task, bytes, tgid) {
        Some((op, call)) if op != op::NONE && op != op::DUP => dispatch(task, op, &call),
        _ => 0,
    }
}

/// What [`moved`] returns for `sendmmsg(2)` and `recvmmsg(2)`.
const MESSAGES: i32 = 1;

/// The call that returns moved `count` messages: a `struct mmsghdr` vector, into which the kernel wrote each one's length.
///
/// A call of its own, since what [`moved`] has on the stack is no longer needed.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn messages(count: u32, tgid: u32) -> i32 {
    let task = kernel::current();
    let Some((op, Call { args, compat, .. })) = current_call(task, 0, tgid) else { return 0 };
    let Some((channel, _)) = channel_of(task, args[0]) else { return 0 };
    let (writes, compat) = ((op == op::SENDMMSG) as u32, compat as u32);
    let mut state = Messages { channel, next: Next { header: args[1], tgid, writes, compat } };
    ring::blur(&mut state.next);
    // UIO_MAXIOV: the kernel takes no more.
    let count = if count > 1024 { 1024 } else { count };
    // SAFETY: the callback's signature is the one bpf_loop wants, and `state` outlives the call.
    unsafe {
        bpf_loop(count, message as *mut c_void, (&raw mut state).cast(), 0);
    }
    0
}

/// The system call that returns, and what it does.
#[inline(always)]
fn current_call(task: Ptr, bytes: u64, tgid: u32) -> Option<(u16, Call)> {
    // SAFETY: a helper that takes a task.
    let regs = unsafe { bpf_task_pt_regs(task as *mut _) } as Ptr;
    if regs.is_null() {
        return None;
    }
    let number: u64 = load(regs, regs::ORIG_AX);
    if number >= NUMBERS as u64 {
        return None;
    }
    // SAFETY: in bounds; volatile, so that the table stays a table.
    let ops = unsafe { core::ptr::read_volatile(OPS.as_ptr().add(number as usize)) };
    let compat = load::<u32>(task, offset!(task_thread_status)) & TS_COMPAT != 0;
    let mut call = Call { args: arguments(regs, compat), bytes, tgid, compat };
    let mut op = op_of(ops, compat);
    if op == op::SOCKETCALL {
        op = socketcall(&mut call);
    }
    Some((op, call))
}

/// The greatest descriptor of interest.
const STDOUT: u64 = 1;

/// What a call does that has this entry in [`OPS`].
#[inline(always)]
fn op_of(ops: u16, compat: bool) -> u16 {
    if compat { ops >> 8 } else { ops & 0xff }
}

/// Whether it duplicates descriptors, as a 64-bit or as a 32-bit call.
#[inline(always)]
fn may_duplicate(ops: u16) -> bool {
    op_of(ops, false) == op::DUP || op_of(ops, true) == op::DUP
}

/// For the trampoline backend: a call that duplicates a descriptor returned.
#[inline(always)]
pub fn duplicated(result: i64) {
    if result == 0 || result == STDOUT as i64 {
        exec::descriptor_replaced(result as u32);
    }
}

/// What a register says that is to hold a call's result, until the call returns: `-ENOSYS`.
const UNDER_WAY: i64 = -38;
/// `MAX_RW_COUNT` (`linux/fs.h`), of pages of 4 KiB.
const MOST_BYTES: u64 = 0x7fff_f000;

/// The bytes that the call at hand is about to write to this file. Unknown where no such call is under way: what writes is
/// io_uring, or the kernel itself.
#[inline(always)]
pub fn coming(file: Ptr) -> Coming {
    let task = kernel::current();
    // SAFETY: a helper that takes a task.
    let regs = unsafe { bpf_task_pt_regs(task as *mut _) } as Ptr;
    if regs.is_null() || load::<i64>(regs, regs::AX) != UNDER_WAY {
        return Coming::unknown();
    }
    let number: u64 = load(regs, regs::ORIG_AX);
    if number >= NUMBERS as u64 {
        return Coming::unknown();
    }
    // SAFETY: in bounds; volatile, so that the table stays a table.
    let ops = unsafe { core::ptr::read_volatile(OPS.as_ptr().add(number as usize)) };
    let compat = load::<u32>(task, offset!(task_thread_status)) & TS_COMPAT != 0;
    let op = op_of(ops, compat);
    if op != op::WRITE && op != op::WRITEV {
        return Coming::unknown();
    }
    let args = arguments(regs, compat);
    let Some(named) = kernel::file_of(task, args[0] as u32) else { return Coming::unknown() };
    if named as u64 != kernel::number(file) {
        return Coming::unknown();
    }
    if op == op::WRITE {
        let bytes = if args[2] > MOST_BYTES { MOST_BYTES } else { args[2] };
        return Coming::at(Source::buffer(args[1]), bytes);
    }
    Coming::at(Source::vector(args[1], args[2], compat), UNTOLD)
}

/// The first four arguments of a system call.
#[inline(always)]
fn arguments(regs: Ptr, compat: bool) -> [u64; 4] {
    if !compat {
        return [load(regs, regs::DI), load(regs, regs::SI), load(regs, regs::DX), load(regs, regs::R10)];
    }
    let mut args = [load(regs, regs::BX), load(regs, regs::CX), load(regs, regs::DX), load(regs, regs::SI)];
    for arg in &mut args {
        *arg &= 0xffff_ffff;
    }
    args
}

/// `socketcall(2)`: the number is the first argument, the arguments lie in memory. Numbers: `linux/net.h`.
#[inline(always)]
fn socketcall(call: &mut Call) -> u16 {
    let op = match call.args[0] {
        9 => op::SENDTO,    // send
        10 => op::RECVFROM, // recv
        11 => op::SENDTO,
        12 => op::RECVFROM,
        16 => op::SENDMSG,
        17 => op::RECVMSG,
        19 => op::RECVMMSG,
        20 => op::SENDMMSG,
        _ => return op::NONE,
    };
    let three_arguments = call.args[0] == 16 || call.args[0] == 17;
    let Some(args) = read::<[u32; 3]>(call.args[1]) else { return op::NONE };
    let fourth = if three_arguments { 0 } else { read::<u32>(call.args[1] + 12).unwrap_or(0) };
    call.args = [args[0] as u64, args[1] as u64, args[2] as u64, fourth as u64];
    op
}

/// The channel behind a descriptor of the current task.
#[inline(always)]
fn channel_of(task: Ptr, fd: u64) -> Option<(*const Channel, Ptr)> {
    let file = kernel::file_of(task, fd as u32)?;
    let key = kernel::key_of(kernel::inode_of(file)?)?;
    Some((tables::channel(&key)?, file))
}

#[inline(always)]
fn dispatch(task: Ptr, op: u16, call: &Call) -> i32 {
    if matches!(op, op::SPLICE | op::TEE | op::VMSPLICE | op::SENDFILE) {
        unseen(task, op, call);
        return 0;
    }
    let Some((channel, _)) = channel_of(task, call.args[0]) else { return 0 };
    let Call { args, mut bytes, tgid, compat } = *call;
    let writes = matches!(op, op::WRITE | op::WRITEV | op::SENDMSG | op::SENDMMSG | op::SENDTO);
    let flags = match op {
        op::RECVFROM | op::SENDTO | op::RECVMMSG | op::SENDMMSG => args[3],
        op::RECVMSG | op::SENDMSG => args[2],
        _ => 0,
    };
    // Out-of-band bytes are not part of the stream: a sender's last byte, all that a receiver asks for so.
    // What is only peeked at is not taken.
    if flags & (MSG_OOB | MSG_PEEK) != 0 {
        if !writes {
            return 0;
        }
        if flags & MSG_OOB != 0 {
            bytes -= 1;
            if bytes == 0 {
                return 0;
            }
        }
    }
    // What a TCP socket gives up so never comes to memory, and what comes from its queue of errors is not of the stream.
    // SAFETY: a live map value.
    if !writes && flags & (MSG_TRUNC | MSG_ERRQUEUE) != 0 && unsafe { (*channel).read_capture } & SOCKET != 0
    {
        if flags & MSG_ERRQUEUE == 0 {
            passed(channel, false, bytes, tgid, Payload::lost(mcpwarden_abi::GAP_UNREADABLE));
        }
        return 0;
    }
    let payload = match op {
        op::READ | op::WRITE | op::RECVFROM | op::SENDTO => Payload::at(Source::buffer(args[1])),
        op::READV | op::WRITEV => Payload::at(Source::vector(args[1], args[2], compat)),
        op::RECVMSG | op::SENDMSG => match Source::message(args[1], compat) {
            Some(source) => Payload::at(source),
            None => Payload::lost(mcpwarden_abi::GAP_UNREADABLE),
        },
        _ => return MESSAGES,
    };
    Moved { payload, bytes, tgid, writes: writes as u32 }.pass(channel);
    0
}

/// What a call moved.
struct Moved {
    payload: Payload,
    bytes: u64,
    tgid: u32,
    /// 1 or 0; no bool, so that the mask below survives and the verifier sees the bound.
    writes: u32,
}

impl Moved {
    /// The verifier follows it once, and not once for each call that there is.
    #[inline(always)]
    fn pass(mut self, channel: *const Channel) {
        ring::blur(&mut self);
        passed(channel, self.writes & 1 == 1, self.bytes, self.tgid, self.payload);
    }
}

/// State of the loop over the messages of one sendmmsg or recvmmsg.
struct Messages {
    channel: *const Channel,
    next: Next,
}

/// What is to come of them.
struct Next {
    header: User,
    tgid: u32,
    /// 1 or 0; see [`Moved::writes`].
    writes: u32,
    /// 1 or 0.
    compat: u32,
}

unsafe extern "C" fn message(_index: u64, context: *mut c_void) -> i64 {
    // SAFETY: bpf_loop hands back the pointer that `messages` gave it.
    let state = unsafe { &mut *context.cast::<Messages>() };
    let Next { header, tgid, writes, compat } = state.next;
    let compat = compat & 1 == 1;
    let (size, length_at) = mmsghdr(compat);
    state.next.header += size;
    ring::blur(&mut state.next);
    let bytes = read::<u32>(header + length_at).unwrap_or(0) as u64;
    if bytes > 0 {
        let payload = match Source::message(header, compat) {
            Some(source) => Payload::at(source),
            None => Payload::lost(mcpwarden_abi::GAP_UNREADABLE),
        };
        Moved { payload, bytes, tgid, writes }.pass(state.channel);
    }
    0
}

/// For the trampoline backend: one of these calls returned. Its arguments are where the system call's wrapper has them.
#[inline(always)]
pub fn unseen_returned(op: u16, registers: Ptr, result: i64, compat: bool) {
    if result <= 0 {
        return;
    }
    let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    let call = Call { args: arguments(registers, compat), bytes: result as u64, tgid, compat };
    unseen(kernel::current(), op, &call);
}

/// Calls whose bytes never lie in the caller's memory, or only by reference.
#[inline(always)]
fn unseen(task: Ptr, op: u16, call: &Call) {
    let Call { args, bytes, tgid, .. } = *call;
    if op == op::VMSPLICE {
        if let Some((channel, file)) = channel_of(task, args[0]) {
            let writes = probe::<u32>(file, offset!(file_mode)).unwrap_or(0) & FMODE_WRITE != 0;
            passed(channel, writes, bytes, tgid, Payload::lost(GAP_VMSPLICE));
        }
        return;
    }
    let (from, to, cause) = match op {
        op::SPLICE => (args[0], args[2], GAP_SPLICE),
        op::TEE => (args[0], args[1], GAP_TEE),
        _ => (args[1], args[0], GAP_SENDFILE),
    };
    // tee copies: what it read is still there to be taken.
    if op != op::TEE
        && let Some((channel, _)) = channel_of(task, from)
    {
        passed(channel, false, bytes, tgid, Payload::lost(cause));
    }
    if let Some((channel, _)) = channel_of(task, to) {
        passed(channel, true, bytes, tgid, Payload::lost(cause));
    }
}
