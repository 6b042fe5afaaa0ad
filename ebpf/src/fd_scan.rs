//! Who holds which channel: one pass over every descriptor of every process.
//!
//! The agent runs it from time to time, to find holders that came by a descriptor unseen, and channels that nobody holds any more.
//! It reads [`Holder`] entries. At its start another pass ([`adopt`]) registers servers that already run.

use aya_ebpf::helpers::generated::bpf_seq_write;
use mcpwarden_abi::{ChannelKey, Holder, PENDING_UNKNOWN, SOCKET};

use crate::{
    exec, far_side,
    kernel::{self, Ptr, load, offset},
    tables,
};

/// `struct bpf_iter__task_file { meta; task; u32 fd; file }`, each field 8 bytes wide.
#[inline(always)]
pub fn visit(ctx: *const u64) {
    // SAFETY: the verifier types the context.
    let (meta, task, fd, file) =
        unsafe { (*ctx as *const u64, *ctx.add(1) as Ptr, *(ctx.add(2) as *const u32), *ctx.add(3) as Ptr) };
    if task.is_null() || file.is_null() {
        return;
    }
    let tgid: u32 = load(task, offset!(task_tgid));
    hold(meta, tgid, fd, file);
    if fd == 0
        && let Some(carrier) = kernel::uncaptured(task)
    {
        let key = ChannelKey { inode: carrier, device: 0, generation: 0 };
        write(meta, &Holder { key, pid: tgid, fd, pending: PENDING_UNKNOWN });
    }
}

/// Registers a process with two channels that ran before the agent. A pass of its own: the stack has no room for both.
#[inline(always)]
pub fn adopt(ctx: *const u64) {
    // SAFETY: as above.
    let (task, fd) = unsafe { (*ctx.add(1) as Ptr, *(ctx.add(2) as *const u32)) };
    if !task.is_null() && fd == 0 {
        exec::adopt(task, load(task, offset!(task_tgid)));
    }
}

/// Tells of a descriptor that is a channel.
#[inline(always)]
fn hold(meta: *const u64, tgid: u32, fd: u32, file: Ptr) {
    let Some(key) = kernel::key_of_file(file) else { return };
    let Some(roles) = tables::channel(&key) else { return };
    tables::watch(tgid);
    let mut pending = PENDING_UNKNOWN;
    // SAFETY: a live map value.
    let client_of = unsafe { (*roles).read_capture };
    if client_of & SOCKET != 0 && far_side::measure(kernel::number(file), client_of) != 0 {
        pending = 0;
    } else if client_of != 0
        && let Some(bytes) = kernel::pending(file)
    {
        pending = bytes;
    }
    write(meta, &Holder { key, pid: tgid, fd, pending });
}

#[inline(always)]
fn write(meta: *const u64, holder: &Holder) {
    // SAFETY: `meta->seq` is the first field of `struct bpf_iter_meta`; the buffer is `holder`.
    unsafe {
        bpf_seq_write(
            *meta as *mut _,
            core::ptr::from_ref(holder).cast_mut().cast(),
            size_of::<Holder>() as u32,
        );
    }
}
